/* lm/source.h - what a run reads: samples to train on, and texts it never trains on

   With --data, files and shards by weight [mix.h]; without, the corpus of `make corpus` or
   sentences of our own, which lie in memory and are drawn from like a plain file of bytes. What is
   validated on is --val, else what the first source keeps apart as its split "val", else its last
   twentieth, which training then leaves alone. Include posenc.h first. */
#ifndef LM_SOURCE_H
#define LM_SOURCE_H

#include "lm/mix.h"
#include "lm/tasks.h"
#include "kit/corpus.h"

typedef struct lm_source {
    int shards;                            /* 1: mix and held; 0: corpus                          */
    lm_mix mix, held;
    int has_mix, has_held;
    kit_corpus corpus;
    char name[256];
    const char *vocabulary;                /* "bytes", "gpt2", "tokens"                           */
    int vocab;                             /* of all sources                                      */
    uint64_t tokens, sum;                  /* all to train on; fingerprint of all                 */
    uint64_t first, held_tokens;           /* validation: from place `first` on; 0 tokens: none   */
    int window;                            /* of the validation: 0, or W aligned                  */
    int cut;                               /* 1: the last twentieth is held out                   */
    int loss;                              /* of windows of tasks: LM_LOSS_ALL, or LM_LOSS_TARGET */
    int *row;                              /* (T + 1) of a validation                             */
} lm_source;

static inline void lm_source_close(lm_source *s)
{
    if (s->has_mix) lm_mix_close(&s->mix);
    if (s->has_held) lm_mix_close(&s->held);
    kit_corpus_free(&s->corpus);
    free(s->row);
    memset(s, 0, sizeof *s);
}

/* ---- opening --------------------------------------------------------------------------------- */

static inline void lm__source_corpus(lm_source *s)
{
    snprintf(s->name, sizeof s->name, "%.255s", s->corpus.name);
    s->vocabulary = "bytes";
    s->vocab = 256;
    s->tokens = s->corpus.train.size;
    s->sum = s->corpus.sum;
    s->held_tokens = s->corpus.held.size;
}

static inline void lm__source_describe(lm_source *s, const char *data)
{
    s->sum = 14695981039346656037u;
    for (int i = 0; i < s->mix.sources; i++) {
        const lm_data *d = &s->mix.data[i];
        if (d->vocab > s->vocab) s->vocab = d->vocab;
        s->tokens += d->tokens;
        s->sum = (s->sum ^ lm_data_sum(d)) * 1099511628211u;
    }
    s->vocabulary = s->vocab <= 256 ? "bytes" : s->mix.data[0].eot == 50256 ? "gpt2" : "tokens";
    snprintf(s->name, sizeof s->name, "%.255s", data);
}

/* The last twentieth of the first source; whole windows where it has them. */
static inline void lm__source_cut(lm_source *s)
{
    lm_data *d = &s->mix.data[0];
    uint64_t kept = d->tokens / 20 * 19;
    if (d->window > 0) kept = kept / (uint64_t)d->window * (uint64_t)d->window;
    s->first = kept;
    s->held_tokens = d->tokens - kept;
    s->tokens -= s->held_tokens;
    d->tokens = kept;
    s->cut = 1;
}

/* text: of --data or --val. The first source of it is validated on. */
static inline int lm__source_held(lm_source *s, const char *text, const char *split, kit_error *why)
{
    if (!lm_mix_open(&s->held, text, split, why)) return 0;
    s->has_held = 1;
    s->held_tokens = s->held.data[0].tokens;
    s->window = s->held.data[0].window;
    return 1;
}

static inline int lm__source_mix(lm_source *s, const char *data, const char *val, kit_error *why)
{
    kit_error unsaid;
    if (!lm_mix_open(&s->mix, data, "train", why)) return 0;
    s->shards = s->has_mix = 1;
    lm__source_describe(s, data);
    if (val) return lm__source_held(s, val, "val", why);
    int apart = lm__source_held(s, data, "val", &unsaid)
                && lm_data_sum(&s->held.data[0]) != lm_data_sum(&s->mix.data[0]);
    if (apart) return 1;
    if (s->has_held) lm_mix_close(&s->held);
    s->has_held = 0;
    if (!lm__source_held(s, data, "train", why)) return 0;
    lm__source_cut(s);
    return 1;
}

/* data, val: as on the command line, NULL for none; T: of a sample; program: argv[0] */
static inline int lm_source_open(lm_source *s, const char *data, const char *val, int T,
                                 const char *program, kit_error *why)
{
    memset(s, 0, sizeof *s);
    if (data && !lm__source_mix(s, data, val, why)) return 0;
    if (!data && !kit_corpus_open(&s->corpus, NULL, program, why)) return 0;
    if (!data) lm__source_corpus(s);
    if (!data && val && !lm__source_held(s, val, "val", why)) return 0;
    s->row = (int *)kit_new((size_t)T + 1, sizeof *s->row);
    if (s->tokens <= (uint64_t)T)
        return kit_fail(why, "%.200s has %" PRIu64 " tokens to train on, too few for texts of %d",
                        s->name, s->tokens, T);
    if (s->window && s->window != T + 1)
        return kit_fail(why, "what is validated on has windows of %d tokens, which fit --context "
                             "%d, not %d", s->window, s->window - 1, T);
    return 1;
}

/* ---- samples to train on --------------------------------------------------------------------- */

/* Sample i of the whole run, wherever it is asked for. */
static inline int lm_source_sample(const lm_source *s, int *tokens, int *targets, int T,
                                   uint64_t seed, uint64_t i, kit_error *why)
{
    if (s->shards) {
        if (!lm_mix_sample(&s->mix, tokens, targets, T, seed, i, why)) return 0;
        if (s->mix.data[lm_mix_source(&s->mix, i)].window) lm_task_mask(targets, tokens, T, s->loss);
        return 1;
    }
    kit_random r = kit_random_open(seed, KIT_RANDOM_TRAIN, i);
    int starts = (int)(s->corpus.train.size - (size_t)T);            /* below 2^30 [kit/corpus.h] */
    kit_corpus_window(tokens, targets, &s->corpus.train, (size_t)kit_random_below(&r, starts), T);
    return 1;
}

/* ---- texts to validate on -------------------------------------------------------------------- */

/* How many texts of T make up `tokens`, as far as there are any; they never overlap. */
static inline int lm_source_texts(const lm_source *s, int T, uint64_t tokens)
{
    uint64_t step = s->window ? (uint64_t)s->window : (uint64_t)T;
    uint64_t most = s->window ? s->held_tokens / step
                  : s->held_tokens ? (s->held_tokens - 1) / step : 0;
    uint64_t n = (tokens + (uint64_t)T - 1) / (uint64_t)T;
    if (n > most) n = most;
    return n > 1 << 30 ? 1 << 30 : (int)n;
}

/* Where text k of n begins, from s->first on: spread evenly over all that is held out. */
static inline uint64_t lm__text_place(const lm_source *s, int T, int k, int n)
{
    uint64_t step = s->window ? (uint64_t)s->window : (uint64_t)T;
    uint64_t most = s->window ? s->held_tokens / step : (s->held_tokens - 1) / step;
    uint64_t each = most / (uint64_t)n, rest = most % (uint64_t)n;   /* k * most may not fit      */
    return ((uint64_t)k * each + (uint64_t)k * rest / (uint64_t)n) * step;
}

/* Text k of n. Padding is not asked for. */
static inline int lm_source_text(lm_source *s, int *tokens, int *targets, int T, int k, int n,
                                 kit_error *why)
{
    uint64_t at = s->first + lm__text_place(s, T, k, n);
    if (!s->has_held) {
        kit_corpus_window(tokens, targets, &s->corpus.held, (size_t)at, T);
        return 1;
    }
    if (!lm_data_read(&s->held.data[0], s->row, at, T + 1, why)) return 0;
    memcpy(tokens, s->row, (size_t)T * sizeof *tokens);
    memcpy(targets, s->row + 1, (size_t)T * sizeof *targets);
    if (s->window) lm_task_mask(targets, tokens, T, s->loss);
    return 1;
}

#endif
