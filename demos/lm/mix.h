/* lm/mix.h - several sources, interleaved by weight; a sample is a function of its number

       lm_mix m;
       if (!lm_mix_open(&m, "data/corpus:0.9,data/tasks:0.1", "train", &why)) ...
       if (!lm_mix_sample(&m, tokens, targets, T, seed, number, &why)) ...
       lm_mix_close(&m);

   Sample i belongs to source s when s is furthest behind its share of the first i + 1 samples:

       s(i) = argmax_s  w_s (i + 1) - (samples of s before i)              ties: the first source

   With weights in LM_CYCLE-ths this repeats after LM_CYCLE samples, with every source at just its
   share, so one table of a cycle answers for any number. Where in its source the sample lies is
   drawn by its number too: nothing depends on which samples were read before, so that a run
   resumes, and batches are cut, by arithmetic alone. Include posenc.h first. */
#ifndef LM_MIX_H
#define LM_MIX_H

#include "../kit/random.h"
#include "shards.h"
#include <math.h>

enum {
    LM_CYCLE = 9000,                       /* 2^3 3^2 5^3: permille and thirds are exact          */
    LM_RANDOM_WINDOW = 0x7DA72001          /* purpose of the draw; see kit/random.h               */
};

typedef struct lm_mix {
    lm_data data[LM_SOURCES];
    double weight[LM_SOURCES];             /* shares: they add to 1                               */
    int sources;
    int quota[LM_SOURCES];                 /* samples of a cycle                                  */
    unsigned char cycle[LM_CYCLE];         /* which source a sample of the cycle is from          */
} lm_mix;

static inline void lm_mix_close(lm_mix *m)
{
    for (int i = 0; i < m->sources; i++) lm_data_close(&m->data[i]);
    memset(m, 0, sizeof *m);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Whole samples: rounded down, and what is left over goes to the largest remainders. */
static inline int lm__mix_quota(lm_mix *m, kit_error *why)
{
    double rest[LM_SOURCES];
    int left = LM_CYCLE;
    for (int i = 0; i < m->sources; i++) {
        m->quota[i] = (int)floor(m->weight[i] * LM_CYCLE + 1e-6);
        rest[i] = m->weight[i] * LM_CYCLE - m->quota[i];
        left -= m->quota[i];
    }
    for (; left > 0; left--) {
        int most = 0;
        for (int i = 1; i < m->sources; i++)
            if (rest[i] > rest[most]) most = i;
        m->quota[most]++;
        rest[most] -= 1;
    }
    for (int i = 0; i < m->sources; i++)
        if (m->quota[i] == 0)
            return kit_fail(why, "the weight of %.200s is %.2g of all, less than one sample in %d:"
                            " leave it out, or give it more", m->data[i].name, m->weight[i],
                            LM_CYCLE);
    return 1;
}

/* behind_s = quota_s (i + 1) - LM_CYCLE (samples of s before i), in whole numbers */
static inline void lm__mix_cycle(lm_mix *m)
{
    int behind[LM_SOURCES] = { 0 };
    for (int i = 0; i < LM_CYCLE; i++) {
        int most = 0;
        for (int s = 0; s < m->sources; s++) behind[s] += m->quota[s];
        for (int s = 1; s < m->sources; s++)
            if (behind[s] > behind[most]) most = s;
        behind[most] -= LM_CYCLE;
        m->cycle[i] = (unsigned char)most;
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

/* "path" or "path:weight". A name with a colon that is there as it stands has no weight. */
static inline int lm__mix_item(char path[KIT_PATH], double *weight, const char *item, size_t n,
                               kit_error *why)
{
    char *end;
    if (n == 0 || n >= KIT_PATH)
        return kit_fail(why, "a source has a name of %zu letters; 1 to %d can be", n,
                        KIT_PATH - 1);
    snprintf(path, KIT_PATH, "%.*s", (int)n, item);
    *weight = 1;
    char *colon = strrchr(path, ':');
    if (!colon || colon == path || strchr(colon, '/') || kit_exists(path)) return 1;
    *weight = strtod(colon + 1, &end);
    if (end == colon + 1 || *end || !(*weight > 0 && *weight <= 1e9))
        return kit_fail(why, "the weight of %.*s is '%.40s', expected a number above 0",
                        (int)(colon - path), path, colon + 1);
    *colon = 0;
    return 1;
}

static inline int lm__mix_add(lm_mix *m, const char *item, size_t n, const char *split,
                              kit_error *why)
{
    char path[KIT_PATH];
    lm_data *d = &m->data[m->sources];
    if (m->sources == LM_SOURCES)
        return kit_fail(why, "more than %d sources cannot be mixed", LM_SOURCES);
    if (!lm__mix_item(path, &m->weight[m->sources], item, n, why)
        || !lm_data_open(d, path, split, why)) return 0;
    m->sources++;
    if (d->vocab == m->data[0].vocab) return 1;
    return kit_fail(why, "%.180s has a vocabulary of %d and %.180s one of %d: they cannot be mixed",
                    m->data[0].name, m->data[0].vocab, d->name, d->vocab);
}

/* "path", or "path:0.9,other:0.1"; a weight is 1 where none is given */
static inline int lm_mix_open(lm_mix *m, const char *text, const char *split, kit_error *why)
{
    double sum = 0;
    int good = 1;
    memset(m, 0, sizeof *m);
    while (good) {
        size_t n = strcspn(text, ",");
        good = lm__mix_add(m, text, n, split, why);
        if (!text[n]) break;
        text += n + 1;
    }
    for (int i = 0; i < m->sources; i++) sum += m->weight[i];
    for (int i = 0; i < m->sources; i++) m->weight[i] /= sum;
    if (good && lm__mix_quota(m, why)) {
        lm__mix_cycle(m);
        return 1;
    }
    lm_mix_close(m);
    return 0;
}

/* ---- samples --------------------------------------------------------------------------------- */

static inline int lm_mix_source(const lm_mix *m, uint64_t sample)
{
    return m->cycle[sample % LM_CYCLE];
}

/* 0..n-1, each equally likely, beyond what 32 bits hold: numbers that would favour the small ones
   are drawn again */
static inline uint64_t lm__random_below(kit_random *r, uint64_t n)
{
    uint64_t unfair = (0 - n) % n, x;
    do {
        x = kit_random_word(r);
        x = x << 32 | kit_random_word(r);
    } while (x < unfair);
    return x % n;
}

/* where the T + 1 tokens of a sample begin in its source */
static inline int lm__mix_place(uint64_t *at, const lm_data *d, int T, uint64_t seed,
                                uint64_t sample, kit_error *why)
{
    kit_random r = kit_random_open(seed, LM_RANDOM_WINDOW, sample);
    if (d->window && d->window != T + 1)
        return kit_fail(why, "%.200s has windows of %d tokens, a context of %d takes %d: make it"
                        " again for this context", d->name, d->window, T, T + 1);
    if (d->tokens < (uint64_t)T + 1)
        return kit_fail(why, "%.200s has %llu tokens; a sample of the context %d takes %d", d->name,
                        (lm__large)d->tokens, T, T + 1);
    if (d->window) *at = lm__random_below(&r, d->tokens / (uint64_t)d->window) * (uint64_t)(T + 1);
    else *at = lm__random_below(&r, d->tokens - (uint64_t)T);
    return 1;
}

/* tokens and targets, T each. In windows that are padded, padding is nothing to predict. */
static inline int lm_mix_sample(const lm_mix *m, int *tokens, int *targets, int T, uint64_t seed,
                                uint64_t sample, kit_error *why)
{
    const lm_data *d = &m->data[lm_mix_source(m, sample)];
    uint64_t at = 0;
    if (T < 1) return kit_fail(why, "a sample of %d tokens has nothing to predict", T);
    if (!lm__mix_place(&at, d, T, seed, sample, why) || !lm_data_read(d, tokens, at, T, why)
        || !lm_data_read(d, targets + T - 1, at + (uint64_t)T, 1, why)) return 0;
    memmove(targets, tokens + 1, (size_t)(T - 1) * sizeof *targets);
    for (int t = 0; t < T && d->window; t++)
        if (targets[t] == LM_PAD) targets[t] = POSENC_IGNORE;
    return 1;
}

#endif
