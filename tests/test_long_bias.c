/* A bias that depends on the distance alone, forward and backward, through attention over a long
   text: memory grows with H*T and never with T*T. A few rows, columns and distances of the result
   are computed again directly, in double. POSENC_SLOW=1 in the environment runs the full length. */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include <sys/resource.h>

enum { H = 8, D = 8, C = H * D, FULL = 16384, SHORT = 4096 };

/* ---- one pass -------------------------------------------------------------------------------- */

typedef struct long_run {
    int T;
    posenc_spec spec;
    posenc_part part[POSENC_PARTS];
    posenc_float *w[POSENC_PARTS], *dw[POSENC_PARTS];
    int parts;
    posenc_float *q, *k, *v, *out, *dout, *dq, *dk, *dv;             /* (T,H,D)                   */
    posenc_float *bias, *dbias, *lse, *scratch;                      /* (H,T), (H,T), (H,T)       */
    size_t taken, scratch_count;                                     /* bytes, elements           */
} long_run;
static long_run s;
static void *blocks[64];
static int block_count;

static void give_back(void *unused)
{
    (void)unused;
    while (block_count > 0) free(blocks[--block_count]);
    memset(&s, 0, sizeof s);
}
static posenc_float *take(size_t n, int random)
{
    posenc_float *x = block_count < 64 ? (posenc_float *)calloc(n, sizeof *x) : NULL;
    if (!x) { printf("\nno memory for a test\n"); exit(EXIT_FAILURE); }
    blocks[block_count++] = x;
    s.taken += n * sizeof *x;
    if (random) fill_random(x, n);
    return x;
}

/* everything there is, counted */
static int begin(const char *text, int T, posenc_attention *how)
{
    posenc_shape shape = { C, H, D, 0, 1 };
    posenc_error why;
    size_t n = (size_t)T * C;
    int count = 0;
    memset(&s, 0, sizeof s);
    memset(how, 0, sizeof *how);
    s.T = shape.context = T;
    if (posenc_spec_parse(&s.spec, &count, 1, text, &why) != POSENC_OK
        || posenc_spec_complete(&s.spec, &shape, &why) != POSENC_OK) {
        snprintf(check_text, sizeof check_text, "%.60s: %.300s", text, why.text);
        return 0;
    }
    s.parts = posenc_spec_parts(s.part, &s.spec, &shape);
    for (int i = 0; i < s.parts; i++) {
        size_t all = (size_t)s.part[i].rows * (s.part[i].columns ? s.part[i].columns : 1);
        s.w[i] = take(all, 1);
        s.dw[i] = take(all, 0);
    }
    s.q = take(n, 1);    s.k = take(n, 1);    s.v = take(n, 1);    s.dout = take(n, 1);
    s.out = take(n, 0);  s.dq = take(n, 0);   s.dk = take(n, 0);   s.dv = take(n, 0);
    s.bias = take((size_t)H * T, 0);
    s.dbias = take((size_t)H * T, 0);
    s.lse = take((size_t)H * T, 0);
    posenc_spec_bias_forward(s.bias, &s.spec, s.w, H, T - 1, 0);
    how->causal = 1;
    how->bias = s.bias;
    how->past = T - 1;
    s.scratch_count = posenc_attention_scratch(1, T, T, H, D, how);
    s.scratch = take(s.scratch_count, 0);
    return 1;
}

static posenc_heads heads(posenc_float *x) { return posenc_heads_bthd(x, 1, s.T, H, D); }

static void forward_and_backward(const posenc_attention *how)
{
    posenc_attention_forward(heads(s.out), s.lse, heads(s.q), heads(s.k), heads(s.v), how,
                             s.scratch);
    posenc_attention_backward(heads(s.dq), heads(s.dk), heads(s.dv), s.dbias, heads(s.dout),
                              heads(s.out), s.lse, heads(s.q), heads(s.k), heads(s.v), how,
                              s.scratch);
    posenc_spec_bias_backward(s.dw, s.dbias, &s.spec, s.w, H, s.T - 1, 0);
}

/* largest size that the process ever had, in bytes */
static double peak_bytes(void)
{
    struct rusage use;
    if (getrusage(RUSAGE_SELF, &use)) return HUGE_VAL;
#ifdef __APPLE__
    return (double)use.ru_maxrss;
#else
    return (double)use.ru_maxrss * 1024.0;
#endif
}

/* ---- the same, directly ---------------------------------------------------------------------- */

static double dot(const posenc_float *a, int i, const posenc_float *b, int j, int h)
{
    return weighted_sum(a + ((size_t)i * H + h) * D, b + ((size_t)j * H + h) * D, D);
}
static double score(int h, int i, int j)
{
    return dot(s.q, i, s.k, j, h) / sqrt((double)D) + (double)s.bias[(size_t)h * s.T + i - j];
}
/* log of the sum of row i */
static double row_lse(int h, int i)
{
    double top = -HUGE_VAL, sum = 0.0;
    for (int j = 0; j <= i; j++) top = fmax(top, score(h, i, j));
    for (int j = 0; j <= i; j++) sum += exp(score(h, i, j) - top);
    return top + log(sum);
}
/* gradient of score (i,j); lse and delta = dout_i . out_i belong to the row */
static double dscore(int h, int i, int j, double lse, double delta)
{
    return exp(score(h, i, j) - lse) * (dot(s.dout, i, s.v, j, h) - delta);
}

/* out and dq of query i, and its lse */
TEST row_is_right(int h, int i)
{
    double out[D] = { 0 }, dq[D] = { 0 }, lse = row_lse(h, i), delta = 0.0, largest = 0.0;
    size_t at = ((size_t)i * H + h) * D;
    for (int j = 0; j <= i; j++) {
        double p = exp(score(h, i, j) - lse);
        for (int d = 0; d < D; d++) out[d] += p * (double)s.v[((size_t)j * H + h) * D + d];
    }
    for (int d = 0; d < D; d++) delta += out[d] * (double)s.dout[at + d];
    for (int j = 0; j <= i; j++) {
        double ds = dscore(h, i, j, lse, delta) / sqrt((double)D);
        for (int d = 0; d < D; d++) dq[d] += ds * (double)s.k[((size_t)j * H + h) * D + d];
    }
    ASSERT_LTE(fabs((double)s.lse[(size_t)h * s.T + i] - lse), 1e-5 * fmax(1.0, fabs(lse)));
    for (int d = 0; d < D; d++) largest = fmax(largest, fabs(dq[d]));
    for (int d = 0; d < D; d++) {
        ASSERT_LTE(fabs((double)s.out[at + d] - out[d]), 1e-5);
        ASSERT_LTE(fabs((double)s.dq[at + d] - dq[d]), 1e-4 * largest + 1e-6);
    }
    PASS();
}

/* lse and delta of every row of a head, in double: what columns and distances need */
static double *row_lses, *row_deltas;

static void all_rows(int h)
{
    for (int i = 0; i < s.T; i++) {
        row_lses[i] = (double)s.lse[(size_t)h * s.T + i];            /* row_is_right looked at it */
        row_deltas[i] = dot(s.dout, i, s.out, i, h);
    }
}

/* dk and dv of key j */
TEST column_is_right(int h, int j)
{
    double dk[D] = { 0 }, dv[D] = { 0 }, largest = 0.0;
    size_t at = ((size_t)j * H + h) * D;
    for (int i = j; i < s.T; i++) {
        double ds = dscore(h, i, j, row_lses[i], row_deltas[i]) / sqrt((double)D);
        double p = exp(score(h, i, j) - row_lses[i]);
        for (int d = 0; d < D; d++) {
            dk[d] += ds * (double)s.q[((size_t)i * H + h) * D + d];
            dv[d] += p * (double)s.dout[((size_t)i * H + h) * D + d];
        }
    }
    for (int d = 0; d < D; d++) largest = fmax(largest, fmax(fabs(dk[d]), fabs(dv[d])));
    for (int d = 0; d < D; d++) {
        ASSERT_LTE(fabs((double)s.dk[at + d] - dk[d]), 1e-4 * largest + 1e-6);
        ASSERT_LTE(fabs((double)s.dv[at + d] - dv[d]), 1e-4 * largest + 1e-6);
    }
    PASS();
}

/* dbias of a distance: the sum along a diagonal; rounding grows with the number of terms         */
TEST distance_is_right(int h, int distance)
{
    double sum = 0.0, size = 0.0;
    for (int i = distance; i < s.T; i++) {
        double ds = dscore(h, i, i - distance, row_lses[i], row_deltas[i]);
        sum += ds;
        size += fabs(ds);
    }
    ASSERT_LTE(fabs((double)s.dbias[(size_t)h * s.T + distance] - sum), 2e-5 * size + 1e-7);
    PASS();
}

/* ---- the tests ------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WATCHED 1
#endif
#endif
#ifndef WATCHED
#define WATCHED 0
#endif

/* the bar: everything together under a gigabyte */
TEST fits_into_a_gigabyte(const char *text, int T)
{
    posenc_attention how;
    static const double share[] = { 0, 0.0001, 0.05, 0.33, 0.75, 1 };
    double before = peak_bytes(), after;
    ASSERTm(check_text, begin(text, T, &how));
    ASSERT_LT((double)s.taken, 1e9);
    forward_and_backward(&how);
    after = peak_bytes();
    ASSERT_LT(after, 1e9);
    /* A map of one head alone would be T*T*4 bytes: nothing of that size was ever there. Checkers of
       memory keep books of their own, so that only the bar itself holds under them; and a short text
       does not stand out from what OpenMP takes for its first threads.                           */
    if (!WATCHED && T >= SHORT)
        ASSERT_LT(after - before, (double)s.taken + 0.25 * T * T * sizeof(posenc_float));
    row_lses = (double *)take(2 * (size_t)T, 0);
    row_deltas = (double *)take(2 * (size_t)T, 0);
    for (int n = 0; n < 6; n++)
        CHECK_CALL(row_is_right((3 * n) % H, (int)(share[n] * (T - 1))));
    for (int h = 0; h < H; h += 3) {
        all_rows(h);
        for (int n = 0; n < 6; n++) {
            CHECK_CALL(column_is_right(h, (int)(share[n] * (T - 1))));
            CHECK_CALL(distance_is_right(h, (int)(share[n] * (T - 1))));
        }
        CHECK_CALL(distance_is_right(h, 1));
        CHECK_CALL(distance_is_right(h, 2));
    }
    /* what is trained got something */
    for (int i = 0; i < s.parts; i++) {
        size_t all = (size_t)s.part[i].rows * (s.part[i].columns ? s.part[i].columns : 1);
        ASSERT_GT(weighted_sum(s.dw[i], s.dw[i], all), 1e-12);
    }
    PASS();
}

/* elements for twice the text, and for a text of a million: never more than in proportion */
TEST scratch_grows_with_the_length_and_not_its_square(void)
{
    posenc_attention how;
    posenc_float nothing = 0;
    size_t once, twice, million;
    memset(&how, 0, sizeof how);
    how.causal = 1;
    how.bias = &nothing;                                             /* the size alone is asked   */
    how.past = FULL - 1;
    once = posenc_attention_scratch(1, FULL, FULL, H, D, &how);
    how.past = 2 * FULL - 1;
    twice = posenc_attention_scratch(1, 2 * FULL, 2 * FULL, H, D, &how);
    how.past = 1048575;
    million = posenc_attention_scratch(1, 1048576, 1048576, H, D, &how);
    ASSERT_LTE(twice, 2 * once);
    ASSERT_LTE(million, 64 * once);
    ASSERT_LTE(once, (size_t)4 * H * FULL * (D + 4) + 65536);
    PASS();
}

TEST full_length_on_demand(const char *text)
{
    const char *slow = getenv("POSENC_SLOW");
    if (!slow || !*slow || !strcmp(slow, "0"))
        SKIPm("T 16384 takes long: set POSENC_SLOW=1 to run it; T 4096 was run");
    CHECK_CALL(fits_into_a_gigabyte(text, FULL));
    PASS();
}

SUITE(long_biases)
{
    SET_TEARDOWN(give_back, NULL);
    RUN_TEST(scratch_grows_with_the_length_and_not_its_square);
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
        const posenc_encoding_info *e = posenc_encoding_get(i);
        if (e->where != POSENC_SCORE || i == POSENC_SWIN) continue;     /* swin: a grid, no line  */
        label_test("%s_%d", e->name, i == POSENC_T5 ? SHORT : 1024);
        RUN_TESTp(fits_into_a_gigabyte, e->name, i == POSENC_T5 ? SHORT : 1024);
    }
    label_test("t5_%d", FULL); RUN_TESTp(full_length_on_demand, "t5");
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(long_biases);
    GREATEST_MAIN_END();
}
