/* lm/train.h - `lm train`: a language model from its first update to the end of its budget

   A loop of updates [trainer.h] with states on the disk [run.h], and branches. Under the schedule
   wsd the rate stays at its peak until the last tenth; so at nine tenths of any smaller budget the
   run is just where a run of that budget would be before its decay. There the state is saved,
   decayed in a folder of its own (the branch), loaded again, and the run goes on as if nothing had
   been. Include posenc.h first. */
#ifndef LM_TRAIN_H
#define LM_TRAIN_H

#include "lm/memory.h"
#include "lm/peak.h"
#include "lm/run_report.h"
#include "lm/trainer.h"
#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- states ---------------------------------------------------------------------------------- */

static inline int lm__run_save_due(lm_run *r, kit_error *why)
{
    if (r->step == r->total) return lm_run_keep(r, "final.safetensors", why);
    if (r->step % r->recipe->checkpoint == 0 && r->step > 0) return lm_run_keep_step(r, why);
    return kit_seconds() - r->saved < r->set->save_seconds || lm_run_keep(r, NULL, why);
}

/* what a run of this folder is asked to be */
static inline int lm__run_config(const lm_run *r, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    lm_settings_print(&t, r->set, r->recipe);
    if (strcmp(r->stage, "decay") == 0)
        kit_put(&t, "wsd_stage: decay_only\ndecay_tokens: %" PRIu64 "\n",
                (uint64_t)(r->total - r->fall) * r->recipe->per_step);
    int good = kit_make_folders(r->folder, why) && kit_save_in(r->folder, "config.yaml", &t, why);
    kit_text_free(&t);
    return good;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static inline int lm__branches(lm_run *r, lm_trainer *t, kit_error *why);

/* DONE: at the end of its budget. Whatever the loop does at an update is done before the next one
   is made, so that a state is always that of an update behind which all is done. */
static inline int lm__run_loop(lm_run *r, lm_trainer *t, kit_error *why)
{
    for (;;) {
        int code = lm__run_validate(r, t, why);
        if (code == DONE && !lm__run_save_due(r, why)) code = FAILED;
        if (code == DONE) code = lm__branches(r, t, why);
        if (code != DONE || r->step == r->total) return code;
        if (kit_stopped()) return STOPPED;
        int look = (r->step + 1) % r->recipe->log == 0 || r->step + 1 == r->total;
        code = lm_update(r, t, look, why);
        if (code != 1) return code < 0 ? FAILED : STOPPED;
        double speed = lm__speed(r, t);
        lm_live_step(&t->live, lm_run_tokens(r), t->loss, t->rate, speed, lm__mfu(t, speed));
        if (look && !lm__log_line(r, t, why)) return FAILED;
    }
}

/* The folder, its config, its log; then the loop. The model stands at r->step. */
static inline int lm_run_go(lm_run *r, lm_trainer *t, kit_error *why)
{
    const lm_trainer outer = *t;           /* of the run that this one branches from              */
    kit_error unsaid;
    if (!lm__run_config(r, why)
        || !lm_log_open(&r->log, r->folder, r->set->tensorboard, lm_run_tokens(r), why))
        return FAILED;
    t->live = lm_live_begin(r->name, r->budget, r->set->quiet);
    r->saved = kit_seconds();
    r->first = r->step;
    t->seconds = t->data_seconds = t->timed = 0;
    int code = lm__run_loop(r, t, why);
    if (code == STOPPED && !r->away && !lm_run_keep(r, NULL, why)) code = FAILED;
    lm_log_close(&r->log);
    lm_live_end(&t->live);
    *t = outer;
    if (code == DONE && !lm_run_report(r->folder, &unsaid) && !r->set->quiet)
        fprintf(stderr, "%s\n", unsaid.text);
    return code;
}

/* All updates are made, and what follows the last one has been done too. */
static inline int lm__is_done(const lm_run *r)
{
    char path[KIT_PATH];
    kit_error unsaid;
    return r->step == r->total && kit_join(path, r->folder, "final.safetensors", &unsaid)
           && kit_exists(path);
}

/* ---- branches -------------------------------------------------------------------------------- */

/* The decay of `parent`, where it stands now, to the end of a budget: *r, in its own folder, with
   the parent's metrics up to here. One that was begun goes on, from `file` or its latest state, one
   that is done is left alone. */
static inline int lm__decay(lm_run *r, const lm_run *parent, uint64_t budget, int64_t total,
                            const char *file, lm_trainer *t, kit_error *why)
{
    char state[KIT_PATH], name[64];
    r->stage = "decay";
    r->budget = budget;
    r->best = INFINITY;
    r->validated = -1;
    r->target = 0;
    lm_decay_call(name, budget);
    snprintf(r->name, sizeof r->name, "%s", name);
    lm_run_schedule(r, r->step, total);
    if (!file && lm_run_state(state, r->folder)) file = state;
    if (!file) {
        if (!lm_log_replay(parent->folder, r->folder, lm_run_tokens(r), why)) return FAILED;
        return lm_run_go(r, t, why);
    }
    if (!lm_run_resume(r, file, why)) return FAILED;
    r->first = r->step;
    return lm__is_done(r) ? DONE : lm_run_go(r, t, why);
}

static inline int lm__branch(lm_run *r, uint64_t target, lm_trainer *t, kit_error *why)
{
    char ready[64], decay[64], path[KIT_PATH];
    lm_run branch;
    lm_note n;
    lm__state s;
    lm_decay_call(decay, target);
    snprintf(ready, sizeof ready, "ready_for_%.40s.safetensors", decay);
    r->target = target;
    int saved = kit_join(path, r->folder, ready, why) && lm_run_keep(r, ready, why);
    r->target = 0;
    if (!saved) return FAILED;
    lm_live_line(&t->live, "ready for its decay to %s: %s", decay + 6, path);
    lm_log_begin(&r->log, lm_run_tokens(r));
    lm_log_real(&r->log, "wsd/ready_for_decay", (double)target);
    if (!lm_log_end(&r->log, why)) return FAILED;
    if (strcmp(r->set->branch, "now") != 0) return DONE;
    branch = *r;
    if (!kit_join(branch.folder, r->folder, decay, why)) return FAILED;
    r->away = 1;
    int code = lm__decay(&branch, r, target, (int64_t)(target / r->recipe->per_step), NULL, t,
                         why);
    if (code != DONE) return code;
    r->away = 0;
    r->saved = kit_seconds();
    return lm_run_load(r, path, &n, &s, why) ? DONE : FAILED;
}

/* All budgets whose decay begins here; that of the run itself is no branch. */
static inline int lm__branches(lm_run *r, lm_trainer *t, kit_error *why)
{
    int code = DONE;
    if (strcmp(r->set->branch, "off") == 0 || strcmp(r->stage, "full") != 0) return DONE;
    for (int i = 0; i < r->recipe->targets && code == DONE; i++) {
        uint64_t target = r->recipe->target[i];
        if (target / r->recipe->per_step < (uint64_t)r->total
            && lm_decay_start(r->recipe, r->set->decay, target) == r->step)
            code = lm__branch(r, target, t, why);
    }
    return code;
}

/* ---- beginning, going on, starting over ------------------------------------------------------ */

static inline void lm__folder_of(char folder[KIT_PATH], const char *file)
{
    const char *slash = strrchr(file, '/');
    if (!slash) snprintf(folder, KIT_PATH, ".");
    else snprintf(folder, KIT_PATH, "%.*s", slash > file ? (int)(slash - file) : 1, file);
}

/* --resume FILE goes on in the file's folder unless another is named. */
static inline int lm__resume_file(lm_run *r, kit_error *why)
{
    const lm_settings *s = r->set;
    if (!s->checkpoint_dir && !s->run_name) {
        lm__folder_of(r->folder, s->resume);
        const char *slash = strrchr(r->folder, '/');
        snprintf(r->name, sizeof r->name, "%.150s", slash ? slash + 1 : r->folder);
    } else if (!lm_run_place(r, why)) return 0;
    return lm_run_resume(r, s->resume, why);
}

static inline int lm__begin_full(lm_run *r, kit_error *why)
{
    const lm_settings *s = r->set;
    char state[KIT_PATH];
    if (s->resume && strcmp(s->resume, "auto") != 0) return lm__resume_file(r, why);
    if (!lm_run_place(r, why)) return 0;
    int there = lm_run_state(state, r->folder);
    if (s->resume && there) return lm_run_resume(r, state, why);
    if (there && !s->overwrite)
        return kit_fail(why, "%.200s has a run already; --resume auto goes on with it, --overwrite "
                             "starts over, --run-name gives this one another name", r->folder);
    return lm_run_clear(r->folder, 0, why);
}

static inline int lm__train_full(lm_run *r, lm_trainer *t, kit_error *why)
{
    if (!lm__begin_full(r, why)) return FAILED;
    if (lm__is_done(r)) {
        if (!r->set->quiet) printf("%s is trained to its end already\n", r->folder);
        return DONE;
    }
    return lm_run_go(r, t, why);
}

/* how many updates a decay by hand takes: as asked for, else as the state was saved for */
static inline int lm__decay_length(int64_t *steps, const lm_run *r, const lm_note *n,
                                   const lm__state *s, kit_error *why)
{
    uint64_t asked = r->recipe->decay_tokens / r->recipe->per_step, begun = s->total - s->fall;
    int going = strcmp(n->stage, "decay") == 0;
    if (going && asked && asked != begun)
        return kit_fail(why, "%.200s is in a decay of %" PRIu64 " updates; --decay-tokens asks for "
                        "%" PRIu64, r->set->resume, begun, asked);
    *steps = going ? (int64_t)begun
           : asked ? (int64_t)asked
           : s->target ? (int64_t)(s->target / r->recipe->per_step) - r->step : 0;
    return *steps > 0 || kit_fail(why, "--wsd-stage decay_only needs --decay-tokens, at least %"
                                  PRIu64 " of them", r->recipe->per_step);
}

/* the budget at whose end the decay of a state ends */
static inline uint64_t lm__decay_budget(const lm_run *r, const lm_note *n, const lm__state *s,
                                        int64_t total)
{
    if (strcmp(n->stage, "decay") == 0) return n->budget;
    if (s->target && s->target / r->recipe->per_step == (uint64_t)total) return s->target;
    return (uint64_t)total * r->recipe->per_step;
}

/* --wsd-stage decay_only: what a branch does, by hand. *r becomes that run. */
static inline int lm__train_decay(lm_run *r, lm_trainer *t, kit_error *why)
{
    lm_run parent;
    lm_note n;
    lm__state s;
    int64_t steps = 0;
    char name[64];
    if (!lm_run_load(r, r->set->resume, &n, &s, why)
        || !lm__decay_length(&steps, r, &n, &s, why)) return FAILED;
    int going = strcmp(n.stage, "decay") == 0;
    if (going) r->step = (int64_t)s.fall;  /* where it began; the file is loaded again then       */
    uint64_t budget = lm__decay_budget(r, &n, &s, r->step + steps);
    lm__folder_of(r->folder, r->set->resume);
    parent = *r;
    lm_decay_call(name, budget);
    if (r->set->checkpoint_dir) snprintf(r->folder, KIT_PATH, "%.900s", r->set->checkpoint_dir);
    else if (!going && !kit_join(r->folder, parent.folder, name, why)) return FAILED;
    return lm__decay(r, &parent, budget, r->step + steps, going ? r->set->resume : NULL, t, why);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static inline void lm__print_memory(const lm_recipe *p)
{
    static const char *const name[] = { "parameters", "gradients", "moments", "activations" };
    posenc_bytes b;
    char text[24];
    double all = lm_bytes_of(p, p->batch, p->model.recompute, &b);
    const double bytes[4] = { (double)b.parameters, (double)b.gradients, (double)b.moments,
                              (double)b.activations };
    for (int i = 0; i < 4; i++) {
        lm_say_bytes(text, bytes[i]);
        printf("  %-14s %s\n", name[i], text);
    }
    lm_say_bytes(text, all);
    printf("  %-14s %s, with the tokens of an update\n", "total", text);
    lm_say_bytes(text, (double)lm_free_memory());
    if (lm_free_memory()) printf("  %-14s %s\n", "free here", text);
}

static inline void lm__print_schedule(const lm_settings *s, const lm_recipe *p)
{
    int64_t fall = lm_decay_start(p, s->decay, p->budget);
    printf("schedule         %s: peak %g, %" PRId64 " updates of warm-up", s->schedule,
           p->schedule.peak, p->warmup);
    if (p->schedule.kind == POSENC_WSD)
        printf(", decay over the last %" PRId64 ", from %" PRId64 " on", p->steps - fall, fall);
    printf("\n");
    for (int i = 0; i < p->targets; i++) {
        char text[24];
        int own = p->target[i] / p->per_step >= (uint64_t)p->steps;
        lm_say_tokens(text, sizeof text, p->target[i]);
        printf("branch           %s: at update %" PRId64 ", %s\n", text,
               lm_decay_start(p, s->decay, p->target[i]), own ? "the run's own decay" : s->branch);
    }
}

static inline void lm_print_recipe(const lm_settings *s, const lm_recipe *p)
{
    char name[160], tokens[24];
    lm_run_call(name, s, p);
    lm_say_tokens(tokens, sizeof tokens, p->budget);
    printf("model            %s, %s: %.0f parameters\n", s->size, p->pe, p->parameters);
    printf("shape            %d layers, %d channels, %d heads, context %d, vocabulary %d\n",
           p->size.layers, p->size.channels, p->size.heads, p->T, p->size.vocab);
    printf("memory\n");
    lm__print_memory(p);
    printf("update           %" PRIu64 " tokens: %d x %d texts of %d\n", p->per_step, p->accum,
           p->batch, p->T);
    printf("budget           %s tokens, %" PRId64 " updates\n", tokens, p->steps);
    printf("work             %.4g MFLOP a token, %.4g PFLOP in all\n",
           lm_flops_per_token(&p->model, p->T) / 1e6,
           lm_flops_per_token(&p->model, p->T) * (double)p->per_step * (double)p->steps / 1e15);
    lm__print_schedule(s, p);
    if (s->checkpoint_dir) printf("folder           %s\n", s->checkpoint_dir);
    else printf("folder           %s/%s\n", s->out, s->run_name ? s->run_name : name);
}

static inline void lm__print_end(const lm_run *r, const lm_trainer *t, double seconds)
{
    char took[32], done[24];
    uint64_t tokens = (uint64_t)(r->step - r->first) * r->recipe->per_step;
    kit_say_seconds(took, sizeof took, seconds);
    lm_say_tokens(done, sizeof done, tokens);
    printf("%s tokens in %s", done, took);
    if (seconds > 0) printf(", %.0f tokens/s", (double)tokens / seconds);
    if (isfinite(r->best)) printf("\nbest validation loss %.4f", r->best);
    if (isfinite(r->best) && strcmp(r->source->vocabulary, "bytes") == 0)
        printf(", %.4f bits per byte", r->best / log(2));
    if (isfinite(r->all)) printf("\non all that is held out: loss %.4f", r->all);
    if (isfinite(r->all) && strcmp(r->source->vocabulary, "bytes") == 0)
        printf(", %.4f bits per byte", r->all / log(2));
    printf("\nrun: %s\n\nnext:\n  %s eval %s\n  %s generate %s --prompt \"The \"\n", r->folder,
           t->program, r->folder, t->program, r->folder);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Which weights shrink. Gains and biases are not too large by being large; an embedding's rows are
   seen as often as their tokens are, so that decay would measure their frequency. */
static inline void lm__choose_decay(posenc_model *m, const char *on)
{
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        posenc_tensor *p = posenc_model_parameter(m, i);
        int product = strstr(p->name, "_proj.weight") || strcmp(p->name, "lm_head.weight") == 0;
        p->decay = product;
        if (strcmp(on, "all") == 0) p->decay = 1;
        if (strcmp(on, "matrices") == 0) p->decay = p->dims == 2;
    }
}

static inline int lm__train_run(lm_run *r, const char *program, kit_error *why)
{
    lm_trainer t;
    posenc_error said;
    double began = kit_seconds();
    if (posenc_model_create(&r->model, &r->recipe->model, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text), FAILED;
    lm__choose_decay(r->model, r->set->decay_on);
    lm_trainer_open(&t, r->recipe, r->source, posenc_model_config(r->model), program);
    t.peak = lm_peak(r->recipe->model.precision);
    lm_run_begin(r);
    int code = strcmp(r->set->stage, "full") == 0 ? lm__train_full(r, &t, why)
                                                  : lm__train_decay(r, &t, why);
    if (code == DONE && r->first < r->step && !r->set->quiet)
        lm__print_end(r, &t, kit_seconds() - began);
    lm_trainer_close(&t);
    return code;
}

/* Data whose ids go beyond the preset's vocabulary gets a larger one, unless one was asked for. */
static inline int lm__fit_vocabulary(lm_settings *s, lm_recipe *p, kit_args *a,
                                     const lm_source *source, kit_error *why)
{
    why->text[0] = 0;
    if (source->vocab <= p->size.vocab) return 1;
    if (s->vocab)
        return kit_fail(why, "%.200s has tokens up to %d, --vocab is %d", source->name,
                        source->vocab - 1, s->vocab);
    s->vocab = source->vocab;
    return lm_recipe_make(p, a, s);
}

static inline void lm__say_source(const lm_settings *s, const lm_source *source, const lm_recipe *p)
{
    char tokens[24], held[24];
    if (s->quiet) return;
    lm_say_tokens(tokens, sizeof tokens, source->tokens);
    lm_say_tokens(held, sizeof held, source->held_tokens);
    fprintf(stderr, "%s: %s tokens to train on, %s held out%s\n", source->name, tokens, held,
            source->cut ? ", its last twentieth" : "");
    if (lm_source_texts(source, p->T, p->eval_tokens) == 0)
        fprintf(stderr, "too few tokens are held out to validate on: name others with --val\n");
}

static inline int lm__train_with(lm_run *r, lm_settings *s, lm_recipe *p, kit_args *a,
                                 const char *program)
{
    kit_error why;
    why.text[0] = 0;
    r->set = s;
    r->recipe = p;
    int code = FAILED, opened = lm_source_open(r->source, s->data, s->val, p->T, program, &why);
    r->source->loss = strcmp(s->loss, "answers") == 0 ? LM_LOSS_TARGET : LM_LOSS_ALL;
    r->source->sum += (uint64_t)r->source->loss;         /* --resume takes it for other data      */
    if (opened && lm__fit_vocabulary(s, p, a, r->source, &why) && lm_memory_check(p, s->size, &why)) {
        lm__say_source(s, r->source, p);
        code = lm__train_run(r, program, &why);
    }
    if (code == FAILED && why.text[0]) fprintf(stderr, "lm train: %s\n", why.text);
    if (code == STOPPED)
        fprintf(stderr, "lm train: stopped at update %" PRId64 "; go on with: %s train --resume "
                        "%s/latest.safetensors\n", r->step, program, r->folder);
    return fflush(stdout) == 0 ? code : FAILED;
}

/* what flags contradict each other in */
static inline int lm__train_check(kit_args *a, const lm_settings *s)
{
    int by_hand = strcmp(s->stage, "decay_only") == 0;
    const char *const named[] = { s->pe, s->out, s->run_name, s->checkpoint_dir };
    for (int i = 0; i < 4; i++)                      /* --pe "$PE" with nothing in it            */
        if (named[i] && !*named[i])
            return kit_usage(a, "--pe, --out, --run-name and --checkpoint-dir need something "
                                "behind them; one has an empty word");
    if (by_hand && (!s->resume || strcmp(s->resume, "auto") == 0))
        return kit_usage(a, "--wsd-stage decay_only needs --resume FILE, a ready_for_decay file");
    if (by_hand && strcmp(s->schedule, "wsd") != 0)
        return kit_usage(a, "--wsd-stage decay_only is for --schedule wsd");
    if (!by_hand && lm_given(s, "decay-tokens"))
        return kit_usage(a, "--decay-tokens is for --wsd-stage decay_only; --decay is the share of "
                            "a whole run");
    if (s->resume && s->overwrite)
        return kit_usage(a, "--resume goes on, --overwrite starts over; give one");
    if (s->run_name && s->checkpoint_dir)
        return kit_usage(a, "--run-name names a folder in --out, --checkpoint-dir names it all: "
                            "give one");
    return 1;
}

/* The plan alone; with --data its vocabulary counts. */
static inline int lm__dry_run(const lm_settings *s, const lm_recipe *p)
{
    kit_error why;
    lm_print_recipe(s, p);
    int fits = lm_memory_check(p, s->size, &why);
    if (!fits) fprintf(stderr, "lm train: %s\n", why.text);
    return fits && fflush(stdout) == 0 ? DONE : FAILED;
}

static inline int lm_train_main(int argc, char **argv)
{
    kit_args a;
    lm_settings *s = (lm_settings *)kit_new(1, sizeof *s);
    lm_recipe *p = (lm_recipe *)kit_new(1, sizeof *p);
    lm_run r;
    memset(&a, 0, sizeof a);
    memset(&r, 0, sizeof r);
    a.program = "lm train";
    a.summary = "lm train: a language model with any encoding, trained and validated";
    a.closing =
        "  lm train --size nano --pe rope                         a first model, two minutes\n"
        "  lm train --size micro --pe alibi --data data/corpus    on shards of `lm prepare`\n"
        "  lm train --size tiny --dry-run                         what would it take?\n"
        "  lm train --tokens 12M --target-budgets 6M,12M          two models from one run\n"
        "  lm train --resume results/lm/RUN/latest.safetensors    go on\n"
        "  lm train --wsd-stage decay_only --resume results/lm/RUN/ready_for_decay_6M.safetensors";
    int code = 2;
    r.source = (lm_source *)kit_new(1, sizeof *r.source);
    if (!lm_settings_read(s, &a, argc, argv) || !lm__train_check(&a, s)
        || !lm_recipe_make(p, &a, s)) code = a.exit_code;
    else if (s->dry_run) code = lm__dry_run(s, p);
    else {
#ifdef _OPENMP
        if (s->threads > 0) omp_set_num_threads(s->threads);
#endif
        kit_catch_stop();
        kit_say_precision(s->precision, posenc_bf16_unit());
        code = lm__train_with(&r, s, p, &a, argv[0]);
    }
    posenc_model_free(r.model);
    lm_source_close(r.source);
    free(r.source);
    lm_settings_free(s);
    free(s);
    free(p);
    return code;
}

#endif
