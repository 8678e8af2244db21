/* published/weights.h - published weights into a model of ours

   posenc_model_published says where each of our tensors lies; this reads it from safetensors files.
   A tensor of ours that is not there is an error, one of theirs that we have no use for (a pooler, a
   saved list of positions) is named. */
#ifndef PUBLISHED_WEIGHTS_H
#define PUBLISHED_WEIGHTS_H

#include "kit/safetensors.h"
#include "published/config.h"

/* The same model is saved with and without the name of the class around it. */
static inline const kit_tensor *published_around(const kit_tensors *set, const char *name)
{
    static const char *const around[] = { "bert.", "transformer.", "model.", "gpt_neox." };
    const char *inside = strchr(name, '.');
    const kit_tensor *t = kit_tensors_find(set, name);
    char longer[160];
    for (int i = 0; i < 4 && !t; i++) {
        snprintf(longer, sizeof longer, "%s%s", around[i], name);
        t = kit_tensors_find(set, longer);
        if (!t && inside && strncmp(name, around[i], strlen(around[i])) == 0)
            t = kit_tensors_find(set, inside + 1);
    }
    return t;
}

/* BERT's first files call the gain and bias of a LayerNorm gamma and beta. */
static inline const kit_tensor *published_find(const kit_tensors *set, const char *name)
{
    const kit_tensor *t = published_around(set, name);
    const char *norm = strstr(name, "LayerNorm.");
    char older[128];
    if (t || !norm) return t;
    snprintf(older, sizeof older, "%.*s%s", (int)(norm + 10 - name), name,
             strcmp(norm + 10, "weight") == 0 ? "gamma" : "beta");
    return published_around(set, older);
}

static inline int published_fits(const kit_tensor *t, const posenc_published *p, const char *ours,
                          kit_error *why)
{
    char shape[200], second[16] = "";
    int fits = t->type < KIT_DTYPES_READ && t->dims == p->dims;
    for (int i = 0; i < p->dims && fits; i++) fits = t->shape[i] == (uint64_t)p->shape[i];
    if (fits) return 1;
    kit_tensor_shape(shape, t);
    if (p->dims > 1) snprintf(second, sizeof second, ", %d", p->shape[1]);
    return kit_fail(why, "%.90s is %s %.60s, and our %.60s needs numbers of shape [%d%s]", t->name,
                    kit_dtype_name(t->type), shape, ours, p->shape[0], second);
}

/* (rows, columns) of theirs become columns of ours, a stretch of rows of theirs at a time */
static inline int published_turned(posenc_model *m, const posenc_tensor *t, const kit_tensors *set,
                            const kit_tensor *from, const posenc_published *p, kit_error *why)
{
    size_t rows = (size_t)t->shape[0], columns = (size_t)t->shape[1], wide = (size_t)p->shape[1];
    float *theirs = (float *)kit_new(wide, sizeof(float));
    posenc_float *ours = (posenc_float *)kit_new(rows * columns, sizeof *ours);
    int good = 1;
    for (size_t c = 0; c < columns && good; c++) {
        good = kit_tensor_floats(set, from, c * wide, wide, theirs, why);
        for (size_t r = 0; r < rows; r++) ours[r * columns + c] = theirs[(size_t)p->first + r];
    }
    if (good) posenc_model_set(m, t->data, ours, rows * columns);
    free(theirs);
    free(ours);
    return good;
}

static inline int published_straight(posenc_model *m, const posenc_tensor *t, const kit_tensors *set,
                              const kit_tensor *from, const posenc_published *p, kit_error *why)
{
    size_t columns = t->dims == 2 ? (size_t)t->shape[1] : 1, run = (size_t)p->run;
    size_t most = run * columns < 1 << 20 ? run * columns : 1 << 20;       /* numbers at a time */
    float *some = (float *)kit_new(most, sizeof(float));
    int good = 1;
    for (size_t r = 0; r < (size_t)t->shape[0] && good; r += run) {
        size_t first = ((size_t)p->first + r / run * (size_t)p->apart) * columns;
        for (size_t at = 0; at < run * columns && good; at += most) {
            size_t n = run * columns - at < most ? run * columns - at : most;
            good = kit_tensor_floats(set, from, first + at, n, some, why);
            if (good) posenc_model_set(m, t->data + r * columns + at, some, n);
        }
    }
    free(some);
    return good;
}

static inline int published_load_one(posenc_model *m, int i, int family, const kit_tensors *set,
                              unsigned char *used, kit_error *why)
{
    const posenc_tensor *t = posenc_model_parameter(m, i);
    posenc_published p;
    const kit_tensor *from;
    if (!posenc_model_published(&p, m, i, family))
        return kit_fail(why, "%s: models of this type have no such tensor", t->name);
    from = published_find(set, p.name);
    if (!from)
        return kit_fail(why, "%.180s has no tensor %.90s, which is our %s", set->shard[0].path, p.name,
                        t->name);
    if (!published_fits(from, &p, t->name, why)) return 0;
    used[from - set->tensor] = 1;
    return (p.transposed ? published_turned : published_straight)(m, t, set, from, &p, why);
}

/* All tensors of m from set. unused: names of theirs that were not read, a line each; NULL: never mind. */
static inline int published_load(posenc_model *m, int family, const kit_tensors *set, kit_text *unused,
                          kit_error *why)
{
    unsigned char *used = (unsigned char *)kit_new(set->count + 1, 1);
    int good = 1;
    for (int i = 0; i < posenc_model_parameters(m) && good; i++)
        good = published_load_one(m, i, family, set, used, why);
    for (size_t i = 0; i < set->count && good && unused; i++)
        if (!used[i]) {
            const char *name = set->tensor[i].name;
            char shown[100];
            kit_put(unused, "%s\n", kit_plain(shown, sizeof shown, name, strlen(name)));
        }
    free(used);
    return good;
}

#endif
