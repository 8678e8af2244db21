/* depth/maths.h - what is measured on a stack of layers: pure functions of arrays

   Tokens are rows: x (T,C) is one sequence in a layer, x (n,C) rows of many. Everything is computed
   in double and in a fixed order, so that no figure depends on threads. */
#ifndef DEPTH_MATHS_H
#define DEPTH_MATHS_H

#include "kit/files.h"
#include "kit/random.h"
#include <math.h>

/* ---- a linear probe --------------------------------------------------------------------------
   Ridge regression in closed form, features standardised by the rows it is fitted to:
       W = (Z'Z + lambda n I)^-1 Z'(Y - mean Y)         guess = mean Y + z W */

typedef struct ridge {
    int D, K, n;
    double *mean, *scale, *offset, *weight;      /* (D) (D) (K) (D,K)                            */
    double *gram, *target;                       /* (D,D) Z'Z, lower half; (D,K) Z'(Y - mean Y)  */
} ridge;

static inline void ridge_free(ridge *r)
{
    free(r->mean);
    free(r->scale);
    free(r->offset);
    free(r->weight);
    free(r->gram);
    free(r->target);
}

/* A channel whose spread is below float's resolution holds rounding and nothing else: scale 0. */
static inline void ridge__standardise(ridge *r, const float *x, int n)
{
    for (int d = 0; d < r->D; d++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n; i++) sum += (double)x[(size_t)i * (size_t)r->D + (size_t)d];
        r->mean[d] = sum / n;
        for (int i = 0; i < n; i++) {
            double away = (double)x[(size_t)i * (size_t)r->D + (size_t)d] - r->mean[d];
            squares += away * away;
        }
        double spread = sqrt(squares / n);
        r->scale[d] = spread > 1e-6 * fabs(r->mean[d]) && spread > 1e-30 ? 1 / spread : 0;
    }
}

static inline void ridge__row(const ridge *r, double *z, const float *x)
{
    for (int d = 0; d < r->D; d++) z[d] = ((double)x[d] - r->mean[d]) * r->scale[d];
}

/* a (D,D) = L L', then L L' W = W in place; a is positive definite */
static inline void ridge__solve(double *a, double *w, int D, int K)
{
    for (int i = 0; i < D; i++)
        for (int j = 0; j <= i; j++) {
            double sum = a[i * D + j];
            for (int k = 0; k < j; k++) sum -= a[i * D + k] * a[j * D + k];
            a[i * D + j] = i == j ? sqrt(sum) : sum / a[j * D + j];
        }
    for (int k = 0; k < K; k++) {
        for (int i = 0; i < D; i++) {
            for (int j = 0; j < i; j++) w[i * K + k] -= a[i * D + j] * w[j * K + k];
            w[i * K + k] /= a[i * D + i];
        }
        for (int i = D - 1; i >= 0; i--) {
            for (int j = i + 1; j < D; j++) w[i * K + k] -= a[j * D + i] * w[j * K + k];
            w[i * K + k] /= a[i * D + i];
        }
    }
}

/* the sums that every lambda starts from, of x (n,D) and y (n,K); ridge_at may then be called
   often */
static inline ridge ridge_sums(const float *x, const double *y, int n, int D, int K)
{
    ridge r = { D, K, n, NULL, NULL, NULL, NULL, NULL, NULL };
    size_t d = (size_t)D, k = (size_t)K;
    double *z = (double *)kit_new(d, sizeof *z);
    r.mean = (double *)kit_new(d, sizeof(double));
    r.scale = (double *)kit_new(d, sizeof(double));
    r.offset = (double *)kit_new(k, sizeof(double));
    r.weight = (double *)kit_new(d * k, sizeof(double));
    r.gram = (double *)kit_new(d * d, sizeof(double));
    r.target = (double *)kit_new(d * k, sizeof(double));
    ridge__standardise(&r, x, n);
    for (int i = 0; i < n * K; i++) r.offset[i % K] += y[i] / n;
    for (int i = 0; i < n; i++) {
        ridge__row(&r, z, x + (size_t)i * d);
        for (int a = 0; a < D; a++) {
            for (int b = 0; b <= a; b++) r.gram[a * D + b] += z[a] * z[b];
            for (int c = 0; c < K; c++) r.target[a * K + c] += z[a] * (y[i * K + c] - r.offset[c]);
        }
    }
    free(z);
    return r;
}

static inline void ridge_at(ridge *r, double lambda)
{
    size_t d = (size_t)r->D;
    double *a = (double *)kit_new(d * d, sizeof *a);
    memcpy(a, r->gram, d * d * sizeof *a);
    memcpy(r->weight, r->target, d * (size_t)r->K * sizeof *a);
    for (int i = 0; i < r->D; i++) a[i * r->D + i] += lambda * r->n;
    ridge__solve(a, r->weight, r->D, r->K);
    free(a);
}

/* guess (n,K) */
static inline void ridge_read(const ridge *r, double *guess, const float *x, int n)
{
    double *z = (double *)kit_new((size_t)r->D, sizeof *z);
    for (int i = 0; i < n; i++) {
        double *own = guess + (size_t)i * (size_t)r->K;
        ridge__row(r, z, x + (size_t)i * (size_t)r->D);
        memcpy(own, r->offset, (size_t)r->K * sizeof *own);
        for (int d = 0; d < r->D; d++)
            for (int k = 0; k < r->K; k++) own[k] += z[d] * r->weight[d * r->K + k];
    }
    free(z);
}

/* 1 - sum (y - guess)^2 / sum (y - mean y)^2 over every K-th number: 1 all known, 0 no better than
   the mean, below 0 worse than that */
static inline double r_squared(const double *y, const double *guess, int n, int K)
{
    double mean = 0, wrong = 0, all = 0;
    for (int i = 0; i < n; i++) mean += y[i * K] / n;
    for (int i = 0; i < n; i++) {
        wrong += (y[i * K] - guess[i * K]) * (y[i * K] - guess[i * K]);
        all += (y[i * K] - mean) * (y[i * K] - mean);
    }
    return 1 - wrong / all;
}

/* ---- how well a layer tells the position -----------------------------------------------------
   Rows are sequences of T tokens, one behind the other. The probe is fitted to the first half of
   the sequences, lambda is chosen on the next quarter, and what it then says of the last quarter
   counts: a layer without position ends at 0 and not far below. One column is the position itself,
   eight more say in which eighth of the sequence it lies. */

enum { PROBE_BINS = 8, PROBE_COLUMNS = 1 + PROBE_BINS };
typedef struct probed { double r2, eighths; } probed;  /* eighths: share of right ones */

static inline int probe__largest(const double *v, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

/* of the rows from `first` on, n of them */
static inline probed probe__score(const ridge *r, const float *x, const double *y, int first, int n,
                                  int T)
{
    double *guess = (double *)kit_new((size_t)n * PROBE_COLUMNS, sizeof *guess);
    probed p;
    int right = 0;
    ridge_read(r, guess, x + (size_t)first * (size_t)r->D, n);
    for (int i = 0; i < n; i++) {
        int own = (first + i) % T * PROBE_BINS / T;
        right += probe__largest(guess + i * PROBE_COLUMNS + 1, PROBE_BINS) == own;
    }
    p.r2 = r_squared(y + (size_t)first * PROBE_COLUMNS, guess, n, PROBE_COLUMNS);
    p.eighths = (double)right / n;
    free(guess);
    return p;
}

static inline probed probe_position(const float *x, int sequences, int T, int C)
{
    static const double lambda[] = { 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 1000 };
    int half = sequences / 2 * T, quarter = sequences / 4 * T, n = half + 2 * quarter, best = 6;
    double *y = (double *)kit_new((size_t)n * PROBE_COLUMNS, sizeof *y), highest = -HUGE_VAL;
    for (int i = 0; i < n; i++) {
        y[i * PROBE_COLUMNS] = (double)(i % T) / T;
        y[i * PROBE_COLUMNS + 1 + i % T * PROBE_BINS / T] = 1;
    }
    ridge r = ridge_sums(x, y, half, C, PROBE_COLUMNS);
    for (int i = 0; i < 7; i++) {
        ridge_at(&r, lambda[i]);
        double r2 = probe__score(&r, x, y, half, quarter, T).r2;
        if (r2 > highest) { highest = r2; best = i; }
    }
    ridge_at(&r, lambda[best]);
    probed p = probe__score(&r, x, y, half + quarter, quarter, T);
    ridge_free(&r);
    free(y);
    return p;
}

/* Which part of the rows' variance is there because they stand at different positions: one-way
   analysis of variance, T groups of n sequences, summed over channels.
       between = (MSB - MSW) / n     within = MSW     share = between / (between + within)
   Unbiased, so that rows without position have 0 on average, not 1/n. */
static inline double position_share(const float *x, int n, int T, int C)
{
    size_t width = (size_t)T * (size_t)C;
    double *mean = (double *)kit_new(width + (size_t)C, sizeof *mean), *all = mean + width;
    double msb = 0, msw = 0;
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++) mean[k] += (double)x[(size_t)i * width + k] / n;
    for (size_t k = 0; k < width; k++) all[k % (size_t)C] += mean[k] / T;
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++) {
            double away = (double)x[(size_t)i * width + k] - mean[k];
            msw += away * away / ((double)T * (n - 1));
        }
    for (size_t k = 0; k < width; k++) {
        double away = mean[k] - all[k % (size_t)C];
        msb += away * away * n / (T - 1);
    }
    free(mean);
    return (msb - msw) / n / ((msb - msw) / n + msw);
}

/* ---- how alike the tokens of a sequence are -------------------------------------------------- */

static inline double root_mean_square(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

/* mean of cos(x_i, x_j) over i != j: (|sum of unit vectors|^2 - T) / (T (T - 1)); NaN where a row
   is 0 */
static inline double mean_cosine(const float *x, int T, int C)
{
    double *sum = (double *)kit_new((size_t)C, sizeof *sum), all = 0;
    for (int t = 0; t < T; t++) {
        const float *row = x + (size_t)t * (size_t)C;
        double length = root_mean_square(row, (size_t)C) * sqrt((double)C);
        for (int c = 0; c < C; c++) sum[c] += (double)row[c] / length;
    }
    for (int c = 0; c < C; c++) all += sum[c] * sum[c];
    free(sum);
    return (all - T) / ((double)T * (T - 1));
}

/* y = x minus the mean token */
static inline void remove_mean(double *y, const double *x, int T, int C)
{
    for (int c = 0; c < C; c++) {
        double mean = 0;
        for (int t = 0; t < T; t++) mean += x[t * C + c] / T;
        for (int t = 0; t < T; t++) y[t * C + c] = x[t * C + c] - mean;
    }
}

static inline double sum_of_squares(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* |x - mean token| / |x|, the distance from rank one of Dong et al., in Frobenius norms */
static inline double distance_from_rank_one(const double *x, int T, int C)
{
    double *y = (double *)kit_new((size_t)T * (size_t)C, sizeof *y), away;
    remove_mean(y, x, T, C);
    away = sqrt(sum_of_squares(y, T * C) / sum_of_squares(x, T * C));
    free(y);
    return away;
}

/* Largest eigenvalue of a symmetric g (n,n) with none below 0: power iteration from the column with
   the largest diagonal entry, which cannot be at right angles to everything that matters. */
static inline double largest_eigenvalue(const double *g, int n)
{
    double *v = (double *)kit_new(2 * (size_t)n, sizeof *v), *w = v + n, value = 0, before = -1;
    int start = 0;
    for (int i = 0; i < n; i++)
        if (g[i * n + i] > g[start * n + start]) start = i;
    for (int i = 0; i < n; i++) v[i] = g[start * n + i];
    for (int turn = 0; turn < 2000 && fabs(value - before) > 1e-10 * value; turn++) {
        double length = sqrt(sum_of_squares(v, n));
        before = value;
        value = 0;
        for (int i = 0; i < n; i++) v[i] /= length;
        for (int i = 0; i < n; i++) {
            w[i] = 0;
            for (int j = 0; j < n; j++) w[i] += g[i * n + j] * v[j];
            value += w[i] * v[i];
        }
        memcpy(v, w, (size_t)n * sizeof *v);
    }
    free(v);
    return value;
}

/* |x|_F^2 / |x|_2^2: 1 when all rows are multiples of one, min(T,C) when all directions count
   alike */
static inline double stable_rank(const double *x, int T, int C)
{
    double *g = (double *)kit_new((size_t)T * (size_t)T, sizeof *g), all = sum_of_squares(x, T * C);
    for (int i = 0; i < T; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int c = 0; c < C; c++) sum += x[i * C + c] * x[j * C + c];
            g[i * T + j] = g[j * T + i] = sum;
        }
    double rank = all > 0 ? all / largest_eigenvalue(g, T) : NAN;
    free(g);
    return rank;
}

/* ---- where attention looks -------------------------------------------------------------------
   Of a map (T,T), rows from `first` on. entropy: of a row in relation to the most it could be, ln
   of the keys it sees; 1: it looks everywhere alike. near: its share within `reach` places, itself
   included. distance: mean |i - j|. */

typedef struct look { double entropy, near, distance; } look;

static inline look look_of(const float *map, int T, int causal, int reach, int first)
{
    look all = { 0, 0, 0 };
    for (int i = first; i < T; i++) {
        double entropy = 0, near = 0, distance = 0;
        int seen = causal ? i + 1 : T;
        for (int j = 0; j < seen; j++) {
            double p = (double)map[i * T + j];
            int apart = abs(i - j);
            if (p > 0) entropy -= p * log(p);
            near += apart < reach ? p : 0;
            distance += p * apart;
        }
        all.entropy += entropy / log(seen) / (T - first);
        all.near += near / (T - first);
        all.distance += distance / (T - first);
    }
    return all;
}

/* the same of a map that looks everywhere alike */
static inline look look_uniform(int T, int causal, int reach, int first)
{
    float *map = (float *)kit_new((size_t)T * (size_t)T, sizeof *map);
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) map[i * T + j] = 1 / (float)(causal ? i + 1 : T);
    look l = look_of(map, T, causal, reach, first);
    free(map);
    return l;
}

/* ---- attention and nothing else --------------------------------------------------------------
   The object of Dong et al.: layers of self-attention without feed-forward, norm or (skip 0)
   residual.
       x <- [x +] (softmax(q k' / sqrt(D)) v) o      q, k, v = x W, heads side by side
   In double, since float ends at 1e-7 and this goes much further down. Weights are uniform within
   sqrt(3/C): a product keeps the size of what it is given. */

typedef struct alone { int T, C, H, causal, skip; uint64_t seed; } alone;

enum { ALONE_RANDOM = 0x7DA70101 };

static inline double alone__number(kit_random *r)
{
    return 2 * (kit_random_word(r) / 4294967296.0) - 1;
}

/* y (T,C) = x w', w drawn for this layer and this product */
static inline void alone__product(double *y, const double *x, const alone *a, int layer, int which)
{
    int T = a->T, C = a->C;
    double *w = (double *)kit_new((size_t)C * (size_t)C, sizeof *w);
    kit_random r = kit_random_open(a->seed, ALONE_RANDOM, (uint64_t)(4 * layer + which + 1));
    for (int i = 0; i < C * C; i++) w[i] = sqrt(3.0 / C) * alone__number(&r);
    for (int t = 0; t < T; t++)
        for (int o = 0; o < C; o++) {
            double sum = 0;
            for (int c = 0; c < C; c++) sum += x[t * C + c] * w[o * C + c];
            y[t * C + o] = sum;
        }
    free(w);
}

/* one query of one head: out (D) = sum_j softmax_j(q.k_j / sqrt(D)) v_j; p (T) is room */
static inline void alone__query(double *out, double *p, const double *q, const double *k,
                                const double *v, int seen, int C, int D)
{
    double most = -HUGE_VAL, sum = 0;
    for (int j = 0; j < seen; j++) {
        p[j] = 0;
        for (int d = 0; d < D; d++) p[j] += q[d] * k[j * C + d] / sqrt((double)D);
        if (p[j] > most) most = p[j];
    }
    for (int j = 0; j < seen; j++) sum += p[j] = exp(p[j] - most);
    for (int d = 0; d < D; d++) {
        out[d] = 0;
        for (int j = 0; j < seen; j++) out[d] += p[j] / sum * v[j * C + d];
    }
}

static inline void alone__layer(double *x, double *room, const alone *a, int layer)
{
    int T = a->T, C = a->C, D = C / a->H, n = T * C;
    double *q = room, *k = q + n, *v = k + n, *y = v + n, *p = y + n;
    alone__product(q, x, a, layer, 0);
    alone__product(k, x, a, layer, 1);
    alone__product(v, x, a, layer, 2);
    for (int t = 0; t < T; t++)
        for (int h = 0; h < a->H; h++)
            alone__query(y + t * C + h * D, p, q + t * C + h * D, k + h * D, v + h * D,
                         a->causal ? t + 1 : T, C, D);
    alone__product(q, y, a, layer, 3);
    for (int i = 0; i < n; i++) x[i] = a->skip ? x[i] + q[i] : q[i];
}

/* away[0..layers]: the distance from rank one of random tokens, and behind each layer */
static inline void alone_run(double *away, const alone *a, int layers)
{
    int n = a->T * a->C;
    double *x = (double *)kit_new(5 * (size_t)n + (size_t)a->T, sizeof *x), *room = x + n;
    kit_random r = kit_random_open(a->seed, ALONE_RANDOM, 0);
    for (int i = 0; i < n; i++) x[i] = sqrt(3.0) * alone__number(&r);
    away[0] = distance_from_rank_one(x, a->T, a->C);
    for (int l = 0; l < layers; l++) {
        alone__layer(x, room, a, l);
        away[l + 1] = distance_from_rank_one(x, a->T, a->C);
    }
    free(x);
}

#endif
