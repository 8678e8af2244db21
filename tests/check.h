/* What every test shares: the choice of test framework, comparisons that a NaN can never pass, seeded
   random numbers and the gradient check. Include it after posenc.h: it speaks posenc_float.

       #define POSENC_IMPLEMENTATION
       #include "posenc.h"
       #include "check.h"

   ASSERT_CLOSE(expected, got, n, tol)        every |difference| <= tol
   ASSERT_NORM_CLOSE(expected, got, n, tol)   |got - expected| <= tol * |expected|, as whole vectors
   ASSERT_GRADIENT(loss, ctx, list, count, step)        the gradients in the list are right
   ASSERT_GRADIENT_ZERO(loss, ctx, list, count, step)   they are right and must vanish
   fill_random(x, n)   fill_random_seeded(x, n, seed)   check_random()   check_random_below(n)
   label_test("T%d_%s", T, name)              names the next RUN_TESTp                              */
#ifndef POSENC_TESTS_CHECK_H
#define POSENC_TESTS_CHECK_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "fast-math deletes the checks for NaN: a test compiled with it proves nothing"
#endif

#if defined(__has_include) && !defined(CHECK_STAND_IN)
#  if __has_include("greatest.h")
#    include "greatest.h"
#  else
#    include "greatest_lite.h"
#  endif
#else
#  include "greatest_lite.h"
#endif
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sentence that goes with the last failed check. */
static char check_text[400];

/* ---- labels ------------------------------------------------------------------------------------
   Names the next RUN_TESTp or RUN_TEST1: label_test("T%d", 7) shows test_name_T7.                  */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static inline void label_test(const char *format, ...)
{
    static char label[96];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(label, sizeof label, format, arguments);
    va_end(arguments);
    greatest_set_test_suffix(label);
}

/* ---- random numbers ----------------------------------------------------------------------------
   Small, seeded, the same on every machine: never rand(). Values are multiples of 2^-23 in [-1, 1),
   so that the float and the double build see the same ones.                                        */
static uint32_t check_seed = 1;

static inline uint32_t check_random_bits(void)
{
    uint32_t x = check_seed += 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}
static inline double check_random(void)
{
    return (double)(check_random_bits() >> 8) / 8388608.0 - 1.0;
}
/* a whole number in 0 .. n-1 */
static inline int check_random_below(int n)
{
    return (int)(((uint64_t)check_random_bits() * (uint32_t)n) >> 32);
}
static inline void fill_random(posenc_float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)check_random();
}
/* the same numbers whatever ran before; the running sequence of fill_random is left as it was */
static inline void fill_random_seeded(posenc_float *x, size_t n, uint32_t seed)
{
    uint32_t kept = check_seed;
    check_seed = seed;
    fill_random(x, n);
    check_seed = kept;
}

/* ---- comparisons -------------------------------------------------------------------------------
   Both give infinity as soon as a NaN or an infinity is met, and for n = 0, since comparing nothing
   is a mistake in the test.                                                                        */

/* largest |a-b|; *where (may be NULL) receives its index */
static inline double max_abs_diff_at(const posenc_float *a, const posenc_float *b, size_t n, size_t *where)
{
    double worst = 0.0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) {
            at = i;
            worst = d <= DBL_MAX ? d : HUGE_VAL;
            if (worst > DBL_MAX) break;
        }
    }
    if (where) *where = at;
    return n ? worst : HUGE_VAL;
}
static inline double max_abs_diff(const posenc_float *a, const posenc_float *b, size_t n)
{
    return max_abs_diff_at(a, b, n, NULL);
}

/* |a-b| / |b|; 0 when both are zero everywhere, infinity when only b is */
static inline double norm_diff(const posenc_float *a, const posenc_float *b, size_t n)
{
    double top = 0.0, bottom = 0.0, ratio;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        top += d * d;
        bottom += (double)b[i] * (double)b[i];
    }
    if (n == 0) return HUGE_VAL;
    if (top == 0.0 && bottom == 0.0) return 0.0;
    ratio = sqrt(top) / sqrt(bottom);
    return ratio <= DBL_MAX && bottom <= DBL_MAX ? ratio : HUGE_VAL;
}

static inline int check_close(const char *names, const posenc_float *expected, const posenc_float *got,
                              size_t n, double tolerance)
{
    size_t at;
    double worst = max_abs_diff_at(expected, got, n, &at);
    if (worst <= tolerance && worst <= DBL_MAX) return 1;
    if (n == 0) snprintf(check_text, sizeof check_text, "%s: nothing was compared, n = 0", names);
    else snprintf(check_text, sizeof check_text,
                  "%s: [%lu of %lu] expected %.9g, got %.9g, difference %.3g above %.3g", names,
                  (unsigned long)at, (unsigned long)n, (double)expected[at], (double)got[at], worst,
                  tolerance);
    return 0;
}
static inline int check_norm_close(const char *names, const posenc_float *expected,
                                   const posenc_float *got, size_t n, double tolerance)
{
    double ratio = norm_diff(got, expected, n);
    if (ratio <= tolerance && ratio <= DBL_MAX) return 1;
    snprintf(check_text, sizeof check_text, "%s: norm of the difference is %.3g of the expected norm, above"
             " %.3g (n = %lu)", names, ratio, tolerance, (unsigned long)n);
    return 0;
}
#define ASSERT_CLOSE(EXPECTED, GOT, N, TOL) \
    ASSERTm(check_text, check_close(#EXPECTED " ~ " #GOT, EXPECTED, GOT, N, TOL))
#define ASSERT_NORM_CLOSE(EXPECTED, GOT, N, TOL) \
    ASSERTm(check_text, check_norm_close(#EXPECTED " ~ " #GOT, EXPECTED, GOT, N, TOL))

/* ---- the gradient check ------------------------------------------------------------------------
   You write a loss that runs the forward on the arrays as they stand, most simply sum(w*y) with fixed
   random w, and run the backward once with dy = w. Then

       static double loss(void *ctx)
       {
           struct layer *s = ctx;
           posenc_rmsnorm_forward(s->y, s->r, s->x, s->gain, 1e-5, R, N);
           return weighted_sum(s->w, s->y, R * N);
       }
       ...
       gradient_of list[] = { { "x",    s.x,    s.dx,    R * N },
                              { "gain", s.gain, s.dgain, N     } };
       ASSERT_GRADIENT(loss, &s, list, 2, 0);

   Each array is checked by itself, so that a large gradient cannot hide a small wrong one: it is moved
   by +-step along u = g/|g| and along a random u of length 1, and (f(+) - f(-)) / 2 step must agree
   with g.u within 1e-3 of the larger of the two. There is no absolute part: it would let a dead
   gradient through. Both being zero fails, and so does a change of the loss that does not stand 100
   times above its rounding noise, which is measured on the spot: take a larger step then, or compile
   the test with POSENC_DOUBLE. When the two disagree only slightly the step is too large.
   step 0 means 1e-2 for float and 1e-5 for double. The arrays are put back bit for bit.
   An array whose gradient vanishes for a reason (a key bias under softmax) goes through
   ASSERT_GRADIENT_ZERO, which wants both sides to be rounding noise.                               */

typedef struct gradient_of {
    const char *name;
    posenc_float *x;                        /* what the loss depends on                              */
    const posenc_float *dx;                 /* its gradient, from the backward under test            */
    size_t n;
} gradient_of;

static inline double weighted_sum(const posenc_float *w, const posenc_float *y, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)w[i] * (double)y[i];
    return sum;
}

/* x = kept + distance * u, rounded; returns g . (x - kept), with the move that was really made */
static inline double check_move(const gradient_of *of, const posenc_float *kept, const double *u,
                                double distance)
{
    double change = 0.0;
    for (size_t i = 0; i < of->n; i++) {
        volatile posenc_float moved = (posenc_float)((double)kept[i] + distance * u[i]);
        of->x[i] = moved;
        change += (double)of->dx[i] * ((double)moved - (double)kept[i]);
    }
    return change;
}

/* One direction. Noise: third differences of seven values close together leave rounding alone,
   magnified sqrt(1 + 9 + 9 + 1) times.                                                             */
static inline int check_direction(double (*loss)(void *ctx), void *ctx, const gradient_of *of,
                                  const posenc_float *kept, const double *u, double step, int zero,
                                  const char *along)
{
    double f[7], plus, minus, numeric, analytic, larger, noise = 0.0;
    const char *wrong = NULL;
    for (int k = 0; k < 7; k++) { check_move(of, kept, u, (k - 3) * step / 8.0); f[k] = loss(ctx); }
    for (int k = 0; k < 4; k++) {
        double d = f[k + 3] - 3.0 * f[k + 2] + 3.0 * f[k + 1] - f[k];
        noise += d * d / 20.0 / 4.0;
    }
    noise = (sqrt(noise) + DBL_EPSILON * fabs(f[3])) / step;      /* as an error of the derivative   */
    analytic = check_move(of, kept, u, step);   plus  = loss(ctx);
    analytic -= check_move(of, kept, u, -step); minus = loss(ctx);
    memcpy(of->x, kept, of->n * sizeof *kept);
    analytic /= 2.0 * step;
    numeric = (plus - minus) / (2.0 * step);
    larger = fmax(fabs(numeric), fabs(analytic));

    if (!(fabs(numeric) <= DBL_MAX && fabs(analytic) <= DBL_MAX && noise <= DBL_MAX))
        wrong = "not a number";
    else if (zero && !(larger <= 100.0 * noise))
        wrong = "should vanish and does not";
    else if (!zero && larger == 0.0)
        wrong = "dead: neither the gradient nor the loss moves";
    else if (!zero && !(fabs(numeric - analytic) <= 1e-3 * larger))
        wrong = "the gradient is wrong, or the step is";
    else if (!zero && !(fabs(numeric) >= 100.0 * noise))
        wrong = "drowned in rounding noise: take a larger step or POSENC_DOUBLE";
    if (!wrong) return 1;
    snprintf(check_text, sizeof check_text, "gradient of %s along %s: %s (finite difference %.9g,"
             " backward %.9g, noise %.2g, step %g)", of->name, along, wrong, numeric, analytic, noise, step);
    return 0;
}

static inline int check_gradient(double (*loss)(void *ctx), void *ctx, const gradient_of *of, double step,
                                 int zero)
{
    size_t n = of->n;
    double norm = 0.0, length, dot;
    double *u = (double *)malloc((n + 1) * sizeof *u);
    posenc_float *kept = (posenc_float *)malloc((n + 1) * sizeof *kept);
    int good = u && kept && n;
    if (!good) snprintf(check_text, sizeof check_text, "gradient of %s: %s", of->name,
                        n ? "out of memory" : "nothing to check, n = 0");
    if (good) memcpy(kept, of->x, n * sizeof *kept);
    if (good) for (size_t i = 0; i < n; i++) norm += (double)of->dx[i] * (double)of->dx[i];
    norm = sqrt(norm);

    if (good && norm != 0.0) {
        for (size_t i = 0; i < n; i++) u[i] = (double)of->dx[i] / norm;
        good = check_direction(loss, ctx, of, kept, u, step, zero, "itself");
    }
    /* A random direction is nearly at right angles to g; one that is so by bad luck is drawn again. */
    for (int draw = 0; good && draw < 100; draw++) {
        length = dot = 0.0;
        for (size_t i = 0; i < n; i++) { u[i] = check_random(); length += u[i] * u[i]; }
        length = sqrt(length);
        for (size_t i = 0; i < n; i++) { u[i] /= length; dot += u[i] * (double)of->dx[i]; }
        if (length > 0.0 && fabs(dot) >= 0.5 * norm / sqrt((double)n)) break;
    }
    if (good) good = check_direction(loss, ctx, of, kept, u, step, zero, "a random direction");
    free(u); free(kept);
    return good;
}

/* 1 when every gradient of the list is right; otherwise 0, with the reason in check_text. zero: they
   are meant to vanish.                                                                             */
static inline int gradient_check(double (*loss)(void *ctx), void *ctx, const gradient_of *list, int count,
                                 double step, int zero)
{
    if (step == 0.0) step = sizeof(posenc_float) == sizeof(double) ? 1e-5 : 1e-2;
    if (count < 1) snprintf(check_text, sizeof check_text, "gradient check of an empty list");
    for (int i = 0; i < count; i++)
        if (!check_gradient(loss, ctx, &list[i], step, zero)) return 0;
    return count >= 1;
}
#define ASSERT_GRADIENT(LOSS, CTX, LIST, COUNT, STEP) \
    ASSERTm(check_text, gradient_check(LOSS, CTX, LIST, COUNT, STEP, 0))
#define ASSERT_GRADIENT_ZERO(LOSS, CTX, LIST, COUNT, STEP) \
    ASSERTm(check_text, gradient_check(LOSS, CTX, LIST, COUNT, STEP, 1))
#endif
