/* lm/run.h - a run's folder: what it is called, what stands in it, going on from it

       results/lm/nano_rope_6.144M_s42/
           latest.safetensors              the last state, never older than a minute
           step_<n>.safetensors            states along the way, the newest --keep of them
           best.safetensors                weights of the lowest validation loss
           ready_for_decay_<b>.safetensors the state a decay to budget b begins with
           final.safetensors               the end
           decay_<b>/                      that decay: a run's folder again

   A state is weights, moments and a note. The note has what a later run must not contradict: seed,
   samples of an update, a fingerprint of the data, the schedule. Everything that decides a step is
   a function of the step's number, so a run that goes on leaves the same bits as one that was never
   stopped. Include posenc.h first. */
#ifndef LM_RUN_H
#define LM_RUN_H

#include "lm/checkpoint.h"
#include "lm/metrics.h"
#include "lm/settings.h"
#include "lm/source.h"
#include <dirent.h>

typedef struct lm_run {
    const lm_settings *set;
    const lm_recipe *recipe;
    lm_source *source;
    posenc_model *model;
    char name[160], folder[KIT_PATH];
    posenc_schedule schedule;
    const char *stage;                     /* "full", or "decay"                                  */
    uint64_t budget;                       /* tokens this run ends at                             */
    int64_t step, total;                   /* updates made; in all                                */
    int64_t fall;                          /* the update behind which the rate falls              */
    int64_t first;                         /* where this program began                            */
    int64_t validated;                     /* the last update that was validated                  */
    double best, all;                      /* validation loss; at the end, over all held out      */
    double sum;                            /* of the losses after the last line of metrics        */
    int since;                             /* how many those are                                  */
    uint64_t target;                       /* of a state that waits for its decay, else 0         */
    int away;                              /* 1: the model is its branch's just now               */
    double saved;                          /* when, by kit_seconds                                */
    lm_log log;
    int logging;
} lm_run;

static inline uint64_t lm_run_tokens(const lm_run *r)
{
    return (uint64_t)r->step * r->recipe->per_step;
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* warm up, stay, fall from update `fall` on to `total`; other kinds know their own way */
static inline void lm_run_schedule(lm_run *r, int64_t fall, int64_t total)
{
    r->schedule = r->recipe->schedule;
    r->schedule.total = r->total = total;
    r->schedule.decay = total - fall;
    r->fall = fall;
    if (r->schedule.kind == POSENC_WSD && fall >= total) r->schedule.kind = POSENC_CONSTANT;
    if (r->schedule.kind != POSENC_WSD) r->fall = r->schedule.kind == POSENC_CONSTANT
                                                ? total : r->schedule.warmup;
}

/* the whole run, from its first update to the end of its budget */
static inline void lm_run_begin(lm_run *r)
{
    r->stage = "full";
    r->budget = r->recipe->budget;
    r->best = INFINITY;
    r->all = NAN;
    r->validated = -1;
    r->step = 0;
    lm_run_schedule(r, lm_decay_start(r->recipe, r->set->decay, r->budget), r->recipe->steps);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* nano_rope_6.144M_s42 */
static inline void lm_run_call(char name[160], const lm_settings *s, const lm_recipe *p)
{
    char slug[96], budget[24];
    kit_spec_slug(slug, sizeof slug, p->pe);
    lm_say_tokens(budget, sizeof budget, p->budget);
    snprintf(name, 160, "%s_%s_%s_s%" PRIu64, s->size, slug, budget, s->seed);
}

/* decay_6.144M */
static inline void lm_decay_call(char name[64], uint64_t budget)
{
    char text[24];
    lm_say_tokens(text, sizeof text, budget);
    snprintf(name, 64, "decay_%s", text);
}

/* ---- architectures --------------------------------------------------------------------------- */

/* What has to be the same for weights to mean the same: not how they were trained. */
static inline void lm__architecture(char text[2 * POSENC_SPEC_TEXT], const posenc_config *c)
{
    posenc_config plain = *c;
    plain.batch = plain.threads = 1;
    plain.seed = 0;
    plain.precision = POSENC_FP32;
    plain.recompute = plain.inference = 0;
    plain.dropout_embedding = plain.dropout_attention = 0;
    plain.dropout_branch = plain.dropout_hidden = 0;
    posenc_config_print(text, 2 * POSENC_SPEC_TEXT, &plain);
}

/* the first words that differ, "layers=3" and "layers=2"; 1: none does */
static inline int lm__same_words(const char *a, const char *b, char one[80], char other[80])
{
    one[0] = other[0] = 0;
    while (*a || *b) {
        size_t n = strcspn(a, " "), m = strcspn(b, " ");
        if (n != m || memcmp(a, b, n) != 0) {
            snprintf(one, 80, "%.*s", (int)(n < 79 ? n : 79), a);
            snprintf(other, 80, "%.*s", (int)(m < 79 ? m : 79), b);
            return 0;
        }
        a += n + (a[n] == ' ');
        b += m + (b[m] == ' ');
    }
    return 1;
}

/* 1: the file has a model of the architecture of `ours`; 0: another; -1: it cannot be read */
static inline int lm__same_architecture(const char *file, const posenc_config *ours, kit_error *why)
{
    static char theirs[2 * POSENC_SPEC_TEXT], mine[2 * POSENC_SPEC_TEXT];
    char one[80], other[80];
    spec_text spec;
    posenc_config c;
    posenc_error said;
    if (posenc_checkpoint_config(&c, spec, file, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text) - 1;
    lm__architecture(theirs, &c);
    lm__architecture(mine, ours);
    if (lm__same_words(theirs, mine, one, other)) return 1;
    return kit_fail(why, "%.200s has a model with %s, what is asked for has %s", file, one, other);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* A state to go on from, latest first; 0: the folder has none. */
static inline int lm_run_state(char file[KIT_PATH], const char *folder)
{
    static const char *const name[] = { "latest.safetensors", "final.safetensors" };
    kit_error unsaid;
    for (int i = 0; i < 2; i++)
        if (kit_join(file, folder, name[i], &unsaid) && kit_exists(file)) return 1;
    return 0;
}

/* The first of name, name_v2, name_v3 ... that holds nothing, or a model of this architecture. What
   was named by hand is taken as it is. */
static inline int lm_run_place(lm_run *r, kit_error *why)
{
    const lm_settings *s = r->set;
    char file[KIT_PATH];
    lm_run_call(r->name, s, r->recipe);
    if (s->run_name) snprintf(r->name, sizeof r->name, "%.150s", s->run_name);
    if (s->run_name && strchr(s->run_name, '/'))
        return kit_fail(why, "--run-name %.100s is a name, not a path; --checkpoint-dir takes one",
                        s->run_name);
    size_t length = strlen(r->name);
    for (int v = 1; v <= 100; v++) {
        if (v > 1) snprintf(r->name + length, sizeof r->name - length, "_v%d", v);
        if (s->checkpoint_dir) snprintf(r->folder, KIT_PATH, "%.900s", s->checkpoint_dir);
        else if (!kit_join(r->folder, s->out, r->name, why)) return 0;
        if (!lm_run_state(file, r->folder)) return 1;
        int same = lm__same_architecture(file, posenc_model_config(r->model), why);
        if (same == 1) return 1;
        if (same < 0 || s->run_name || s->checkpoint_dir) return 0;
    }
    return kit_fail(why, "%.150s and a hundred folders like it hold other models", r->folder);
}

static inline int lm__is_ours(const char *name)
{
    static const char *const whole[] = { "metrics.jsonl", "config.yaml", "report.html",
                                         "report.md" };
    size_t n = strlen(name), end = sizeof ".safetensors" - 1;
    for (int i = 0; i < 4; i++) if (strcmp(name, whole[i]) == 0) return 1;
    if (strncmp(name, "events.out.tfevents.", 20) == 0) return 1;
    if (n <= end || strcmp(name + n - end, ".safetensors") != 0) return 0;
    return strncmp(name, "latest.", 7) == 0 || strncmp(name, "best.", 5) == 0
        || strncmp(name, "final.", 6) == 0 || strncmp(name, "step_", 5) == 0
        || strncmp(name, "ready_for_decay_", 16) == 0;
}

/* Takes away what an earlier run left here, its decays included, and nothing else. */
static inline int lm_run_clear(const char *folder, int depth, kit_error *why)
{
    DIR *d = opendir(folder);
    int good = 1;
    if (!d)
        return errno == ENOENT
               || kit_fail(why, "cannot read %.200s: %s", folder, strerror(errno));
    for (struct dirent *e; good && (e = readdir(d)) != NULL;) {
        char path[KIT_PATH];
        if (!kit_join(path, folder, e->d_name, why)) good = 0;
        else if (depth == 0 && strncmp(e->d_name, "decay_", 6) == 0 && lm__is_folder(path))
            good = lm_run_clear(path, 1, why);
        else if (lm__is_ours(e->d_name) && unlink(path) != 0)
            good = kit_fail(why, "cannot remove the old %.200s: %s", path, strerror(errno));
    }
    closedir(d);
    return good;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static inline void lm__run_note(kit_text *t, const lm_run *r)
{
    const lm_recipe *p = r->recipe;
    kit_text more = { NULL, 0, 0 };
    lm_note n;
    memset(&n, 0, sizeof n);
    snprintf(n.size, sizeof n.size, "%s", r->set->size);
    snprintf(n.data, sizeof n.data, "%s", r->source->name);
    snprintf(n.vocabulary, sizeof n.vocabulary, "%s", r->source->vocabulary);
    snprintf(n.stage, sizeof n.stage, "%s", r->stage);
    n.context = p->T;
    n.step = (uint64_t)r->step;
    n.samples = n.step * (uint64_t)p->samples;
    n.tokens = lm_run_tokens(r);
    n.budget = r->budget;
    n.seed = r->set->seed;
    n.best = r->best;
    kit_put(&more, "\"data_sum\":%" PRIu64 ",\"batch\":%d,\"rate\":%.17g,\"warmup\":%" PRId64,
            r->source->sum, p->samples, p->schedule.peak, p->warmup);
    kit_put(&more, ",\"kind\":%d,\"total\":%" PRId64 ",\"fall\":%" PRId64 ",\"target\":%" PRIu64,
            p->schedule.kind, r->total, r->fall, r->target);
    kit_put(&more, ",\"sum\":%.17g,\"since\":%d,\"validated\":%d", r->sum, r->since,
            r->validated == r->step);
    lm_note_write(t, &n, more.data);
    kit_text_free(&more);
}

static inline int lm_run_save(lm_run *r, const char *name, int what, kit_error *why)
{
    char path[KIT_PATH];
    posenc_error said;
    kit_text note = { NULL, 0, 0 };
    if (!kit_join(path, r->folder, name, why)) return 0;
    lm__run_note(&note, r);
    posenc_status status = posenc_model_save(r->model, path, what, note.data, &said);
    kit_text_free(&note);
    return status == POSENC_OK || kit_fail(why, "%s", said.text);
}

/* `to` becomes the file that `from` is, in one step; where there are no links it is written again.
   */
static inline int lm__run_same(lm_run *r, const char *from, const char *to, kit_error *why)
{
    char old[KIT_PATH], path[KIT_PATH], temporary[KIT_PATH + 8];
    if (!kit_join(old, r->folder, from, why) || !kit_join(path, r->folder, to, why)) return 0;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    unlink(temporary);
    if (link(old, temporary) == 0) {
        if (rename(temporary, path) == 0) {
            unlink(temporary);             /* rename leaves it where both were one file already   */
            return 1;
        }
        unlink(temporary);
    }
    return lm_run_save(r, to, POSENC_WEIGHTS_AND_STATE, why);
}

/* latest.safetensors, and the same under another name if there is one */
static inline int lm_run_keep(lm_run *r, const char *name, kit_error *why)
{
    r->saved = kit_seconds();
    if (!name) return lm_run_save(r, "latest.safetensors", POSENC_WEIGHTS_AND_STATE, why);
    return lm_run_save(r, name, POSENC_WEIGHTS_AND_STATE, why)
           && lm__run_same(r, name, "latest.safetensors", why);
}

/* the step of step_<n>.safetensors, -1 for any other name */
static inline int64_t lm__step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step_", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
    long long n = strtoll(name + 5, &end, 10);
    return strcmp(end, ".safetensors") == 0 ? n : -1;
}

/* The newest `keep` step files stay. */
static inline int lm_run_prune(const char *folder, int keep, kit_error *why)
{
    for (;;) {
        int64_t oldest = INT64_MAX;
        int count = 0;
        char path[KIT_PATH];
        DIR *d = opendir(folder);
        if (!d) return kit_fail(why, "cannot read %.200s: %s", folder, strerror(errno));
        for (struct dirent *e; (e = readdir(d)) != NULL;) {
            int64_t n = lm__step_of(e->d_name);
            count += n >= 0;
            if (n >= 0 && n < oldest) oldest = n;
        }
        closedir(d);
        if (count <= keep) return 1;
        snprintf(path, sizeof path, "%.900s/step_%" PRId64 ".safetensors", folder, oldest);
        if (unlink(path) != 0)
            return kit_fail(why, "cannot remove the old %.200s: %s", path, strerror(errno));
    }
}

static inline int lm_run_keep_step(lm_run *r, kit_error *why)
{
    char name[64];
    snprintf(name, sizeof name, "step_%" PRId64 ".safetensors", r->step);
    if (r->set->keep == 0) return lm_run_keep(r, NULL, why);
    return lm_run_keep(r, name, why) && lm_run_prune(r->folder, r->set->keep, why);
}

/* ---- going on -------------------------------------------------------------------------------- */

typedef struct lm__state {                 /* what a note says beyond lm_note                     */
    uint64_t data_sum, target, total, fall, warmup;
    int batch, kind, since, validated;
    double rate, sum;
} lm__state;

static inline int lm__state_read(lm__state *s, const char *note, kit_error *why)
{
    kit_json d;
    memset(s, 0, sizeof *s);
    if (!kit_json_read(&d, "the checkpoint's note", note, strlen(note), LM_NOTE_ROOM, why))
        return 0;
    const kit_json_node *o = d.node;
    int good = kit_json_u64_at(&d, o, "data_sum", KIT_NEEDED, &s->data_sum, why)
               && kit_json_u64_at(&d, o, "target", KIT_NEEDED, &s->target, why)
               && kit_json_u64_at(&d, o, "total", KIT_NEEDED, &s->total, why)
               && kit_json_u64_at(&d, o, "fall", KIT_NEEDED, &s->fall, why)
               && kit_json_u64_at(&d, o, "warmup", KIT_NEEDED, &s->warmup, why)
               && kit_json_int_at(&d, o, "batch", KIT_NEEDED, 1, 1 << 30, &s->batch, why)
               && kit_json_int_at(&d, o, "kind", KIT_NEEDED, 0, 3, &s->kind, why)
               && kit_json_int_at(&d, o, "since", KIT_NEEDED, 0, 1 << 30, &s->since, why)
               && kit_json_int_at(&d, o, "validated", KIT_NEEDED, 0, 1, &s->validated, why)
               && kit_json_real_at(&d, o, "rate", KIT_NEEDED, 0, 1e9, &s->rate, why)
               && kit_json_real_at(&d, o, "sum", KIT_NEEDED, -1e30, 1e30, &s->sum, why);
    kit_json_free(&d);
    return good;
}

static inline int lm__state_data(const lm_run *r, const char *file, const lm_note *n,
                                 const lm__state *s, kit_error *why)
{
    const lm_recipe *p = r->recipe;
    if (n->seed != r->set->seed)
        return kit_fail(why, "%.200s was trained with --seed %" PRIu64 ", not %" PRIu64, file,
                        n->seed, r->set->seed);
    if (s->batch != p->samples || n->context != p->T)
        return kit_fail(why, "%.200s was trained with %d texts of %d tokens an update, not %d of "
                        "%d: --batch-size times --grad-accum-steps has to stay", file, s->batch,
                        n->context, p->samples, p->T);
    if (s->data_sum != r->source->sum)
        return kit_fail(why, "%.200s was trained on %.100s as it was then; %.100s is other data",
                        file, n->data, r->source->name);
    if (n->step > INT64_MAX / 2 || n->samples != n->step * (uint64_t)p->samples
        || n->step != posenc_model_steps(r->model))
        return kit_fail(why, "%.200s contradicts itself: its note says update %" PRIu64
                        ", its state %" PRIu64, file, n->step, posenc_model_steps(r->model));
    return 1;
}

/* The rate so far has to be the rate that is asked for. As long as it stays at its peak, the budget
   may change: that is what wsd is for. */
static inline int lm__state_schedule(const lm_run *r, const char *file, const lm_note *n,
                                     const lm__state *s, kit_error *why)
{
    const posenc_schedule *now = &r->recipe->schedule;
    int same = s->total == (uint64_t)r->total && s->fall == (uint64_t)r->fall;
    int level = now->kind == POSENC_WSD || now->kind == POSENC_CONSTANT;
    if (s->kind != now->kind || s->rate != now->peak || s->warmup != (uint64_t)now->warmup)
        return kit_fail(why, "%.200s was trained with another schedule: peak %g, %" PRIu64
                        " updates of warm-up, not %g and %" PRId64, file, s->rate, s->warmup,
                        now->peak, now->warmup);
    if (same || (level && n->step <= s->fall && n->step <= (uint64_t)r->fall)) return 1;
    return kit_fail(why, "%.200s, at update %" PRIu64 ", was to end at %" PRIu64 " with a rate "
                    "that falls from %" PRIu64 " on; now they are %" PRId64 " and %" PRId64
                    ": --tokens or --decay differ", file, n->step, s->total, s->fall, r->total,
                    r->fall);
}

static inline int lm__run_take(lm_run *r, const char *file, const char *note, lm_note *n,
                               lm__state *s, kit_error *why)
{
    kit_error inner;
    if (!lm_note_read(n, note, &inner) || !lm__state_read(s, note, &inner))
        return kit_fail(why, "%.150s is not a state of lm train: %.250s", file, inner.text);
    if (!lm__state_data(r, file, n, s, why)) return 0;
    r->step = (int64_t)n->step;
    r->sum = s->sum;
    r->since = s->since;
    r->validated = s->validated ? r->step : -1;
    return 1;
}

/* The model becomes what the file holds. On a failure of a check the model has changed all the
   same: leave then. */
static inline int lm_run_load(lm_run *r, const char *file, lm_note *n, lm__state *s, kit_error *why)
{
    posenc_error said;
    if (!kit_exists(file)) return kit_fail(why, "there is no %.200s", file);
    if (lm__same_architecture(file, posenc_model_config(r->model), why) != 1) return 0;
    char *note = (char *)kit_new(LM_NOTE_ROOM, 1);
    posenc_status status = posenc_model_load(r->model, file, POSENC_WEIGHTS_AND_STATE, note,
                                             LM_NOTE_ROOM, &said);
    int good = status == POSENC_OK || kit_fail(why, "%s", said.text);
    good = good && lm__run_take(r, file, note, n, s, why);
    free(note);
    return good;
}

/* Goes on in a run of the same stage and schedule. */
static inline int lm_run_resume(lm_run *r, const char *file, kit_error *why)
{
    lm_note n;
    lm__state s;
    if (!lm_run_load(r, file, &n, &s, why)) return 0;
    if (strcmp(n.stage, r->stage) != 0)
        return kit_fail(why, "%.200s is a state of the stage %s, not %s: --wsd-stage decay_only is "
                             "for decays", file, n.stage, r->stage);
    r->best = n.best;
    return lm__state_schedule(r, file, &n, &s, why);
}

#endif
