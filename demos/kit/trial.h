/* kit/trial.h - an experiment is a list of trials; each is trained and measured once

   A trial leaves two files in <out>/runs: a checkpoint while it trains, and its numbers once they
   are measured. With --resume a trial whose numbers are there is not done again, and one that was
   under way goes on, so that an experiment of hours survives kill -9 and ends in the same bytes.
   Without --resume both are removed before anything starts. */
#ifndef KIT_TRIAL_H
#define KIT_TRIAL_H

#include "corpus.h"
#include "training.h"

typedef struct kit_lab {
    const char *program, *out;             /* out: the folder of results                          */
    int resume, quiet;
    kit_progress bar;                      /* counts what the experiment likes, e.g. steps        */
    long before;                           /* of that, what earlier trials did                    */
} kit_lab;

typedef struct kit_trial {
    char name[192];                        /* of its files: "text-rope-s1"                        */
    const char *settings;                  /* one line of flags: what decides the numbers         */
    double *value;                         /* (n) what was measured                               */
    int n;
} kit_trial;

static inline int kit__trial_path(char path[KIT_PATH], const kit_lab *lab, const kit_trial *t,
                                  const char *ending, kit_error *why)
{
    char name[224];
    snprintf(name, sizeof name, "runs/%s.%s", t->name, ending);
    return kit_join(path, lab->out, name, why);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static inline int kit__trial_parse(kit_trial *t, const char *path, const kit_text *file,
                                   kit_error *why)
{
    kit_text ours = { NULL, 0, 0 };
    kit_put(&ours, "%s\n", t->settings);
    int good = kit_note_begins(file->data ? file->data : "", &ours, path, why), used = 0;
    const char *at = good ? file->data + ours.size : "";
    kit_text_free(&ours);
    for (int i = 0; i < t->n && good; i++, at += used)
        good = sscanf(at, "%lf\n%n", &t->value[i], &used) == 1
            || kit_fail(why, "%s has %d numbers, %d are expected: remove it", path, i, t->n);
    return good;
}

/* 1: the numbers were there; 0: they were not; -1: a file is there that is not ours */
static inline int kit_trial_read(kit_trial *t, const kit_lab *lab, kit_error *why)
{
    char path[KIT_PATH];
    kit_text file = { NULL, 0, 0 };
    if (!kit__trial_path(path, lab, t, "numbers", why)) return -1;
    if (!lab->resume || !kit_exists(path)) return 0;
    int good = kit_read_file(&file, path, 1 << 24, why) && kit__trial_parse(t, path, &file, why);
    kit_text_free(&file);
    return good ? 1 : -1;
}

static inline int kit_trial_save(const kit_trial *t, const kit_lab *lab, kit_error *why)
{
    char path[KIT_PATH];
    kit_text file = { NULL, 0, 0 };
    kit_put(&file, "%s\n", t->settings);
    for (int i = 0; i < t->n; i++) kit_put(&file, "%.17g\n", t->value[i]);
    int good = kit__trial_path(path, lab, t, "numbers", why) && kit_save(path, &file, why);
    kit_text_free(&file);
    return good;
}

/* Called for every trial of a list before the first one starts. */
static inline int kit_trial_clear(const kit_trial *t, const kit_lab *lab, kit_error *why)
{
    static const char *const ending[] = { "numbers", "safetensors" };
    char path[KIT_PATH];
    if (!kit_join(path, lab->out, "runs", why) || !kit_make_folders(path, why)) return 0;
    for (int i = 0; i < 2 && !lab->resume; i++) {
        if (!kit__trial_path(path, lab, t, ending[i], why)) return 0;
        if (unlink(path) != 0 && errno != ENOENT)
            return kit_fail(why, "cannot remove the old %s: %s", path, strerror(errno));
    }
    return 1;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Trains by the plan in *how (model, optimizer, schedule, steps, fill, user), from the start or
   from the trial's checkpoint. Returns DONE, FAILED or STOPPED. */
static inline int kit_trial_train(const kit_trial *t, kit_lab *lab, kit_training *how,
                                  kit_error *why)
{
    char path[KIT_PATH];
    if (!kit__trial_path(path, lab, t, "safetensors", why)) return FAILED;
    how->settings = t->settings;
    how->path = path;
    how->resume = lab->resume;
    int code = kit_train(how, &lab->bar, lab->before, t->name, why);
    how->path = NULL;
    kit_progress_clear(&lab->bar);
    return code;
}

static inline posenc_shape kit__shape_of(const posenc_config *c, int context)
{
    int width = c->head_channels ? c->head_channels : c->channels / c->heads;
    posenc_shape shape = { c->channels, c->heads, width, context, c->causal };
    return shape;
}

/* to's weights become those of `from`; both have the same tensors, or it is refused */
static inline int kit_copy_weights(posenc_model *to, posenc_model *from, kit_error *why)
{
    int n = posenc_model_parameters(from);
    for (int i = 0; i < n; i++) {
        const posenc_tensor *old = posenc_model_parameter(from, i);
        const posenc_tensor *own = posenc_model_find(to, old->name);
        if (!own || own->count != old->count)
            return kit_fail(why, "a model for texts of %d has not the %zu numbers of %s",
                            posenc_model_config(to)->context, old->count, old->name);
        float *host = (float *)kit_new(old->count, sizeof *host);
        posenc_model_get(from, host, old->data, old->count);
        posenc_model_set(to, own->data, host, old->count);
        free(host);
    }
    return posenc_model_parameters(to) == n
           || kit_fail(why, "a model has %d tensors, not the %d of the other",
                       posenc_model_parameters(to), n);
}

/* An inference model with the weights of m, for texts up to `context` and under an encoding that
   has the same parameters as m's (NULL: m's own): the same model, asked for more than it was
   trained for. A model's config has every default of its encoding written out, so that none moves
   with the context (the middle of xpos, the unit of integer). NULL when it cannot be, with the
   reason. */
static inline posenc_model *kit_longer(posenc_model *m, const char *encoding, int context,
                                       int batch, kit_error *why)
{
    posenc_config c = *posenc_model_config(m);
    posenc_error said;
    posenc_model *longer;
    c.context = context;
    c.batch = batch;
    c.inference = 1;
    if (encoding) c.encoding = encoding;
    if (posenc_model_create(&longer, &c, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text), NULL;
    if (kit_copy_weights(longer, m, why)) return longer;
    posenc_model_free(longer);
    return NULL;
}

/* Can a model that was trained with this config read texts of T? If not, the library's own sentence
   says why. */
static inline int kit_reaches(const posenc_config *c, int T, kit_error *why)
{
    posenc_spec list[POSENC_SPECS];
    posenc_shape trained = kit__shape_of(c, c->context), asked = kit__shape_of(c, T);
    posenc_error said;
    int n, good = posenc_spec_parse(list, &n, POSENC_SPECS, c->encoding, &said) == POSENC_OK;
    for (int i = 0; good && i < n; i++)
        good = posenc_spec_complete(&list[i], &trained, &said) == POSENC_OK   /* defaults as then */
            && posenc_spec_complete(&list[i], &asked, &said) == POSENC_OK
            && posenc_spec_check_positions(&list[i], NULL, T, &said) == POSENC_OK;
    return good || kit_fail(why, "%s", said.text);
}

/* ---- bits per byte --------------------------------------------------------------------------- */

/* Texts of T bytes side by side, the next `count` bytes of the held-out text predicted. Mean
   surprise in bits of the bytes from place `first` of each text on: 0 counts all of them; T - 32
   with texts 32 apart (stride 32) gives every counted byte at least T - 32 bytes to look back
   on. */
static inline int kit_bits_per_byte(double *bits, posenc_model *m, const kit_text *text, int T,
                                    int first, int stride, long count, kit_error *why)
{
    const posenc_config *c = posenc_model_config(m);
    int B = c->batch, got = 0;
    int *tokens = (int *)kit_new((size_t)B * (size_t)T, sizeof(int));
    int *targets = (int *)kit_new((size_t)B * (size_t)T, sizeof(int));
    double sum = 0, loss;
    long counted = 0;
    int good = 1;
    for (size_t at = 0; good && counted < count; at += (size_t)stride) {
        if (at + (size_t)T >= text->size) {
            good = kit_fail(
                why, "the held-out text has %zu bytes, too few to predict %ld in texts of %d",
                text->size, count, T);
            break;
        }
        kit_corpus_window(tokens + got * T, targets + got * T, text, at, T);
        for (int t = 0; t < first; t++) targets[got * T + t] = POSENC_IGNORE;
        counted += T - first;
        if (++got < B && counted < count) continue;
        posenc_batch batch;
        posenc_error said;
        memset(&batch, 0, sizeof batch);
        batch.B = got;
        batch.T = T;
        batch.tokens = tokens;
        batch.targets = targets;
        batch.divisor = 1;
        good = posenc_model_loss(m, &batch, &loss, &said) == POSENC_OK
               || kit_fail(why, "%s", said.text);
        sum += loss;
        got = 0;
    }
    *bits = sum / (double)counted / log(2);
    free(tokens);
    free(targets);
    return good;
}

#endif
