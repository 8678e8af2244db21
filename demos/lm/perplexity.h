/* lm/perplexity.h - perplexity and bits per byte with a sliding window

   A text of n + 1 tokens has n targets, each token but the first. It is read in windows of T
   that begin T/2 apart; the first window counts all its targets, a later one those that no
   window before it had:

       |======= T counted =======|
                    |............|== T/2 ===|
                                 |..........|== T/2 ===|
                                      |..............|=|    the last ends with the text

   so every target counts exactly once and, past the first window, has T/2 tokens or more before
   it. Each window is a full forward: what stands in a window is all the model sees. Include
   posenc.h first. */
#ifndef LM_PERPLEXITY_H
#define LM_PERPLEXITY_H

#include "lm/exam.h"

/* begin: the window's first token, in the text. from: the first target of the window that
   counts. */
typedef struct lm_window { long begin; int from; } lm_window;

typedef struct lm_ppl {
    int context;
    double nats;                           /* mean surprise of a token; NaN: not measured         */
    long targets, windows;
    double seconds;
    char why[LM_WHY];                      /* "": measured                                        */
} lm_ppl;

static inline int lm_stride(int T) { return T > 1 ? T / 2 : 1; }

/* 0: the text has not even one */
static inline long lm_window_count(long targets, int T)
{
    long stride = lm_stride(T);
    return targets < T ? 0 : 1 + (targets - T + stride - 1) / stride;
}

static inline lm_window lm_window_at(long targets, int T, long k)
{
    long stride = lm_stride(T), first = k ? T + (k - 1) * stride : 0;
    lm_window w = { k * stride, 0 };
    if (w.begin + T > targets) w.begin = targets - T;
    w.from = (int)(first - w.begin);
    return w;
}

/* targets before the one that counts are passed over */
static inline void lm__window_fill(int *tokens, int *targets, const int *text, lm_window w, int T)
{
    for (int t = 0; t < T; t++) {
        tokens[t] = text[w.begin + t];
        targets[t] = t < w.from ? POSENC_IGNORE : text[w.begin + t + 1];
    }
}

/* sum of the surprise in nats of windows k .. k + rows - 1 */
static inline int lm__windows_sum(double *sum, posenc_model *m, const lm_exam *x, int *room, int T,
                                  long k, int rows, kit_error *why)
{
    posenc_batch batch;
    posenc_error said;
    int *targets = room + (size_t)rows * (size_t)T;
    for (int b = 0; b < rows; b++)
        lm__window_fill(room + b * T, targets + b * T, x->token,
                        lm_window_at(x->tokens - 1, T, k + b), T);
    memset(&batch, 0, sizeof batch);
    batch.B = rows;
    batch.T = T;
    batch.tokens = room;
    batch.targets = targets;
    batch.divisor = 1;
    if (posenc_model_loss(m, &batch, sum, &said) == POSENC_OK) return 1;
    return kit_fail(why, "%s", said.text);
}

static inline int lm__ppl_run(lm_ppl *p, posenc_model *m, lm_exam *x, long work, kit_error *why)
{
    int T = p->context, rows = posenc_model_config(m)->batch, good = 1;
    int *room = (int *)kit_new(2 * (size_t)rows * (size_t)T, sizeof *room);
    double total = 0, sum = 0, began = kit_seconds();
    for (long k = 0; k < p->windows && good && !kit_stopped(); k += rows) {
        int now = p->windows - k < rows ? (int)(p->windows - k) : rows;
        char label[48];
        good = lm__windows_sum(&sum, m, x, room, T, k, now, why);
        total += sum;
        snprintf(label, sizeof label, "perplexity at %d", T);
        lm_exam_tick(x, (double)(k + now) / (double)p->windows, work, label);
    }
    p->seconds = kit_seconds() - began;
    p->nats = good && !kit_stopped() ? total / (double)p->targets : NAN;
    if (good && !kit_stopped() && !isfinite(p->nats))
        snprintf(p->why, sizeof p->why, "the model's surprise is not a finite number");
    free(room);
    return good;
}

/* One length. What the encoding cannot read, or the text is too short for, is said in p->why. */
static inline int lm_ppl_measure(lm_ppl *p, lm_exam *x, int T, long work, kit_error *why)
{
    memset(p, 0, sizeof *p);
    p->context = T;
    p->nats = NAN;
    p->targets = x->tokens ? x->tokens - 1 : 0;
    p->windows = lm_window_count(p->targets, T);
    if (!lm_exam_reaches(x, T, p->why)) return 1;
    if (x->tokens == 0)
        return snprintf(p->why, sizeof p->why,
                        "needs --data: shards of the model's own vocabulary"),
               1;
    if (p->windows == 0)
        return snprintf(p->why, sizeof p->why, "the text has %ld tokens, no window of %d",
                        x->tokens, T),
               1;
    posenc_model *m =
        kit_longer(x->model, NULL, T, lm_rows_for(posenc_model_config(x->model), T), why);
    int good = m && lm__ppl_run(p, m, x, work, why);
    posenc_model_free(m);
    return good;
}

static inline double lm_ppl_bits(const lm_ppl *p) { return p->nats / log(2); }

#endif
