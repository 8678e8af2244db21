/* lm/signals.h - what a training step looks like from inside: gradients, updates, logits

   Read at log intervals only, a piece of a tensor at a time, so that they cost nothing otherwise
   and no second copy of anything. Include posenc.h first. */
#ifndef LM_SIGNALS_H
#define LM_SIGNALS_H

#include "kit/files.h"
#include <math.h>

enum { LM_PIECE = 4096, LM_LOGIT_ROWS = 256 };

typedef struct lm_signals {
    double grad_mean, grad_std, grad_max;  /* of all gradients, before clipping; max of |g|       */
    double *layer;                         /* (layers) norm of a block's gradient                 */
    int layers;
    double weight_norm, update_ratio;      /* |w|, |last update| / |w before it|                  */
    double logits_mean, logits_std, logits_min, logits_max, entropy;
    posenc_float *piece;                   /* (4, LM_PIECE)                                       */
    posenc_float *logits;                  /* (V)                                                 */
} lm_signals;

static inline void lm_signals_open(lm_signals *g, const posenc_config *c)
{
    memset(g, 0, sizeof *g);
    g->layers = c->layers;
    g->layer = (double *)kit_new((size_t)c->layers, sizeof *g->layer);
    g->piece = (posenc_float *)kit_new(4 * LM_PIECE, sizeof *g->piece);
    g->logits = (posenc_float *)kit_new((size_t)c->vocab, sizeof *g->logits);
}

static inline void lm_signals_close(lm_signals *g)
{
    free(g->layer);
    free(g->piece);
    free(g->logits);
    memset(g, 0, sizeof *g);
}

static inline size_t lm__piece_of(const posenc_tensor *t, size_t at)
{
    return t->count - at < LM_PIECE ? t->count - at : LM_PIECE;
}

/* the block a tensor belongs to; -1: none */
static inline int lm__block_of(const char *name)
{
    static const char prefix[] = "blocks.";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    return atoi(name + sizeof prefix - 1);
}

/* ---- gradients: behind posenc_model_train, before posenc_model_update ------------------------ */

typedef struct lm__sums { double n, sum, squares, most; } lm__sums;

static inline double lm__gradient_sums(lm__sums *all, lm_signals *g, posenc_model *m,
                                       const posenc_tensor *t)
{
    double squares = 0;
    for (size_t at = 0, n; at < t->count; at += n) {
        n = lm__piece_of(t, at);
        posenc_model_get(m, g->piece, t->grad + at, n);
        for (size_t i = 0; i < n; i++) {
            double v = g->piece[i];
            all->sum += v;
            squares += v * v;
            if (fabs(v) > all->most) all->most = fabs(v);
        }
    }
    all->n += (double)t->count;
    all->squares += squares;
    return squares;
}

static inline void lm_signals_gradients(lm_signals *g, posenc_model *m)
{
    lm__sums all = { 0, 0, 0, 0 };
    for (int l = 0; l < g->layers; l++) g->layer[l] = 0;
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        int layer = lm__block_of(t->name);
        if (!t->grad || t->frozen) continue;
        double squares = lm__gradient_sums(&all, g, m, t);
        if (layer >= 0 && layer < g->layers) g->layer[layer] += squares;
    }
    for (int l = 0; l < g->layers; l++) g->layer[l] = sqrt(g->layer[l]);
    g->grad_mean = all.n ? all.sum / all.n : 0;
    g->grad_std = all.n ? sqrt(fmax(0, all.squares / all.n - g->grad_mean * g->grad_mean)) : 0;
    g->grad_max = all.most;
}

/* ---- updates: behind posenc_model_update ------------------------------------------------------
   AdamW leaves w' = w (1 - rate decay) - u with u = rate m^ / (sqrt(v^) + eps), m^ = m / (1 -
   b1^t), v^ = v / (1 - b2^t). Both moments are still there, so the weight before is known without a
   copy: w = (w' + u) / (1 - rate decay). */

typedef struct lm__adam { double rate, first, second, eps; } lm__adam;

static inline void lm__update_piece(double sums[3], const lm_signals *g, const lm__adam *a,
                                    double keep, size_t n)
{
    const posenc_float *w = g->piece, *m = w + LM_PIECE, *v = m + LM_PIECE;
    for (size_t i = 0; i < n; i++) {
        double u = a->rate * m[i] / a->first / (sqrt(v[i] / a->second) + a->eps);
        double before = (w[i] + u) / keep, step = w[i] - before;
        sums[0] += (double)w[i] * w[i];
        sums[1] += before * before;
        sums[2] += step * step;
    }
}

/* o, rate: as they were given to the update that has just been made */
static inline void lm_signals_update(lm_signals *g, posenc_model *m, const posenc_optimizer *o,
                                     double rate)
{
    double sums[3] = { 0, 0, 0 }, t = (double)posenc_model_steps(m);
    lm__adam a = { rate, 1 - pow(o->beta1, t), 1 - pow(o->beta2, t), o->eps > 0 ? o->eps : 1e-8 };
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *p = posenc_model_parameter(m, i);
        if (!p->moment1 || !p->moment2 || p->frozen) continue;
        for (size_t at = 0, n; at < p->count; at += n) {
            n = lm__piece_of(p, at);
            posenc_model_get(m, g->piece, p->data + at, n);
            posenc_model_get(m, g->piece + LM_PIECE, p->moment1 + at, n);
            posenc_model_get(m, g->piece + 2 * LM_PIECE, p->moment2 + at, n);
            lm__update_piece(sums, g, &a, 1 - rate * o->decay * p->decay, n);
        }
    }
    g->weight_norm = sqrt(sums[0]);
    g->update_ratio = sums[1] > 0 ? sqrt(sums[2] / sums[1]) : 0;
}

/* ---- logits: behind posenc_model_train ------------------------------------------------------- */

/* mean surprise of the model about its own next token, in nats */
static inline double lm__entropy(const posenc_float *x, int V)
{
    double top = -INFINITY, z = 0, sum = 0;
    for (int i = 0; i < V; i++) if (x[i] > top) top = x[i];
    for (int i = 0; i < V; i++) {
        double e = exp(x[i] - top);
        z += e;
        sum += e * (x[i] - top);
    }
    return log(z) - sum / z;
}

/* Every 8th row of the last batch, LM_LOGIT_ROWS at most: further apart then. */
static inline int lm_signals_logits(lm_signals *g, posenc_model *m, int rows, kit_error *why)
{
    int V = posenc_model_config(m)->vocab, apart = 8, read = 0;
    double sum = 0, squares = 0, entropy = 0;
    posenc_error said;
    while (rows / apart > LM_LOGIT_ROWS) apart += 8;
    g->logits_min = INFINITY;
    g->logits_max = -INFINITY;
    for (int r = 0; r < rows; r += apart, read++) {
        if (posenc_model_logits(m, g->logits, r, 1, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text);
        for (int i = 0; i < V; i++) {
            double x = g->logits[i];
            sum += x;
            squares += x * x;
            if (x < g->logits_min) g->logits_min = x;
            if (x > g->logits_max) g->logits_max = x;
        }
        entropy += lm__entropy(g->logits, V);
    }
    double n = (double)read * V;
    g->logits_mean = sum / n;
    g->logits_std = sqrt(fmax(0, squares / n - g->logits_mean * g->logits_mean));
    g->entropy = entropy / read;
    return 1;
}

#endif
