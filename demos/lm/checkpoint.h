/* lm/checkpoint.h - what a checkpoint of a language model says about itself, and opening one

   A checkpoint is what posenc_model_save writes: weights, perhaps moments, and the model's config.
   Its note is one line of JSON that says how it came about:

       {"lm":1,"size":"nano","data":"the corpus","vocabulary":"bytes","context":128,"step":1500,
        "samples":48000,"tokens":6144000,"budget":6144000,"stage":"full","seed":42,"best":1.38,...}

   Fields that a reader does not know are passed over. best is null as long as nothing was
   validated. Include posenc.h first. */
#ifndef LM_CHECKPOINT_H
#define LM_CHECKPOINT_H

#include "kit/json.h"
#include "kit/read_json.h"
#include "kit/trial.h"

enum { LM_NOTE_ROOM = 16384 };             /* longest note; a longer one is cut, and refused      */

typedef struct lm_note {
    char size[16], data[256], vocabulary[16], stage[8];
    int context;
    uint64_t step, samples, tokens, budget, seed;
    double best;                           /* lowest validation loss so far, nats; infinite: none */
} lm_note;

/* ---- notes ----------------------------------------------------------------------------------- */

/* more: further fields, `"key":value` with commas between, or NULL */
static inline void lm_note_write(kit_text *t, const lm_note *n, const char *more)
{
    kit_json_open(t, NULL, '{');
    kit_json_int(t, "lm", 1);
    kit_json_text(t, "size", n->size);
    kit_json_text(t, "data", n->data);
    kit_json_text(t, "vocabulary", n->vocabulary);
    kit_json_int(t, "context", n->context);
    kit_json_u64(t, "step", n->step);
    kit_json_u64(t, "samples", n->samples);
    kit_json_u64(t, "tokens", n->tokens);
    kit_json_u64(t, "budget", n->budget);
    kit_json_text(t, "stage", n->stage);
    kit_json_u64(t, "seed", n->seed);
    if (isfinite(n->best)) kit_put(t, ",\"best\":%.17g", n->best);
    else kit_put_string(t, ",\"best\":null");
    if (more && *more) kit_put(t, ",%s", more);
    kit_json_close(t, '}');
}

static inline int lm__note_word(const kit_json *d, const char *key, char *word, size_t room,
                                kit_error *why)
{
    const char *text = "";
    if (!kit_json_text_at(d, d->node, key, KIT_NEEDED, &text, why)) return 0;
    if (strlen(text) >= room)
        return kit_fail(why, "%s: %s has more than %d letters", d->name, key, (int)room - 1);
    snprintf(word, room, "%s", text);
    return 1;
}

static inline int lm__note_fields(lm_note *n, const kit_json *d, kit_error *why)
{
    const kit_json_node *o = d->node;
    int version;
    n->best = INFINITY;
    return kit_json_int_at(d, o, "lm", KIT_NEEDED, 1, 1, &version, why)
           && lm__note_word(d, "size", n->size, sizeof n->size, why)
           && lm__note_word(d, "data", n->data, sizeof n->data, why)
           && lm__note_word(d, "vocabulary", n->vocabulary, sizeof n->vocabulary, why)
           && lm__note_word(d, "stage", n->stage, sizeof n->stage, why)
           && kit_json_int_at(d, o, "context", KIT_NEEDED, 1, 1 << 30, &n->context, why)
           && kit_json_u64_at(d, o, "step", KIT_NEEDED, &n->step, why)
           && kit_json_u64_at(d, o, "samples", KIT_NEEDED, &n->samples, why)
           && kit_json_u64_at(d, o, "tokens", KIT_NEEDED, &n->tokens, why)
           && kit_json_u64_at(d, o, "budget", KIT_NEEDED, &n->budget, why)
           && kit_json_u64_at(d, o, "seed", KIT_NEEDED, &n->seed, why)
           && kit_json_real_at(d, o, "best", KIT_OPTIONAL, 0, 1e30, &n->best, why);
}

static inline int lm_note_read(lm_note *n, const char *text, kit_error *why)
{
    kit_json d;
    memset(n, 0, sizeof *n);
    if (!kit_json_read(&d, "the checkpoint's note", text, strlen(text), LM_NOTE_ROOM, why))
        return 0;
    int good = lm__note_fields(n, &d, why);
    kit_json_free(&d);
    return good;
}

/* ---- opening one for inference --------------------------------------------------------------- */

static inline int lm__is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The file that a path means: itself, or of a run's folder the best, else the last. */
static inline int lm_checkpoint_path(char file[KIT_PATH], const char *path, kit_error *why)
{
    static const char *const name[] = { "best.safetensors", "final.safetensors",
                                        "latest.safetensors" };
    if (!lm__is_folder(path)) {
        if (strlen(path) >= KIT_PATH)
            return kit_fail(why, "the path %.40s... is longer than %d bytes", path, KIT_PATH - 1);
        snprintf(file, KIT_PATH, "%s", path);
        return kit_exists(path) || kit_fail(why, "there is no %.200s; lm train makes one", path);
    }
    for (int i = 0; i < 3; i++) {
        if (!kit_join(file, path, name[i], why)) return 0;
        if (kit_exists(file)) return 1;
    }
    return kit_fail(why, "the folder %.200s has no checkpoint: no best, final or "
                    "latest.safetensors", path);
}

/* Weights of `file` into a new model of this config, and its note. */
static inline int lm__model_load(posenc_model **m, lm_note *n, const posenc_config *c,
                                 const char *file, int what, char *note, kit_error *why)
{
    posenc_error said;
    if (posenc_model_create(m, c, &said) != POSENC_OK) return kit_fail(why, "%s", said.text);
    if (posenc_model_load(*m, file, what, note, LM_NOTE_ROOM, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    kit_error inner;
    if (!lm_note_read(n, note, &inner))
        return kit_fail(why, "%.150s is not a checkpoint of lm: %.250s", file, inner.text);
    return 1;
}

/* An inference model for `batch` texts of `context` tokens (0: as trained) from a checkpoint, or
   from a run's folder (best, else final, else latest). What cannot read longer texts than it was
   trained on is refused with the library's sentence. */
static inline int lm_model_open(posenc_model **m, lm_note *n, const char *path, int context,
                                int batch, int threads, kit_error *why)
{
    char file[KIT_PATH];
    spec_text spec;
    posenc_config c;
    posenc_error said;
    *m = NULL;
    memset(n, 0, sizeof *n);
    if (!lm_checkpoint_path(file, path, why)) return 0;
    if (posenc_checkpoint_config(&c, spec, file, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    if (context > c.context && !kit_reaches(&c, context, why)) return 0;
    if (context > 0) c.context = context;
    c.batch = batch;
    c.threads = threads;
    c.inference = 1;
    char *note = (char *)kit_new(LM_NOTE_ROOM, 1);
    int good = lm__model_load(m, n, &c, file, POSENC_WEIGHTS, note, why);
    free(note);
    if (good) return 1;
    posenc_model_free(*m);
    *m = NULL;
    return 0;
}

#endif
