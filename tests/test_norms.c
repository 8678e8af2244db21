/* LayerNorm and RMSNorm: values, the symmetries they have by construction, and rows that divide
   by zero.                                                                                       */
#include "posenc.h"
#include "check.h"

enum { R = 13, N = 67, M = R * N };
static const double eps = 1e-5;
static posenc_float x[M], gain[N], bias[N], dy[M], y[M], mean[R], rstd[R], dx[M], dgain[N],
    dbias[N];
static posenc_float expected[M], other[M];

static void fresh(void)
{
    fill_random(x, M); fill_random(gain, N); fill_random(bias, N); fill_random(dy, M);
    for (int i = 0; i < M; i++) y[i] = dx[i] = (posenc_float)NAN;
    for (int i = 0; i < N; i++) dgain[i] = dbias[i] = (posenc_float)0;
}
static int all_finite(const posenc_float *p, size_t n) { return max_abs_diff(p, p, n) == 0.0; }

/* ---- LayerNorm ------------------------------------------------------------------------------- */

TEST layernorm_matches_the_definition(int with_bias)
{
    fresh();
    posenc_layernorm_forward(y, mean, rstd, x, gain, with_bias ? bias : NULL, eps, R, N);
    for (int r = 0; r < R; r++) {
        double m = 0.0, v = 0.0;
        for (int i = 0; i < N; i++) m += (double)x[r * N + i] / N;
        for (int i = 0; i < N; i++)
            v += ((double)x[r * N + i] - m) * ((double)x[r * N + i] - m) / N;
        ASSERT_LTE(fabs((double)mean[r] - m), 1e-6);
        ASSERT_LTE(fabs((double)rstd[r] - 1.0 / sqrt(v + eps)), 1e-5);
        for (int i = 0; i < N; i++)
            expected[r * N + i] =
                (posenc_float)((double)gain[i] * ((double)x[r * N + i] - m) / sqrt(v + eps)
                               + (with_bias ? (double)bias[i] : 0.0));
    }
    ASSERT_CLOSE(expected, y, M, 2e-6);
    PASS();
}

/* The variance comes from differences to the mean, not from the mean of squares: 1000 + noise
   survives.                                                                                      */
TEST layernorm_survives_a_large_offset(void)
{
    fresh();
    posenc_layernorm_forward(expected, mean, rstd, x, gain, bias, eps, R, N);
    for (int i = 0; i < M; i++) {
        /* rounds x to multiples of 2^-11 at worst */
        other[i] = (posenc_float)((double)x[i] + 4096.0);
        x[i] = (posenc_float)((double)other[i] - 4096.0);
    }
    posenc_layernorm_forward(expected, mean, rstd, x, gain, bias, eps, R, N);
    posenc_layernorm_forward(y, mean, rstd, other, gain, bias, eps, R, N);
    ASSERT_CLOSE(expected, y, M, 2e-3);
    PASS();
}

TEST layernorm_of_a_constant_row_is_its_bias(void)
{
    fresh();
    for (int i = 0; i < N; i++) x[i] = (posenc_float)0.5;
    posenc_layernorm_forward(y, mean, rstd, x, gain, bias, eps, R, N);
    posenc_layernorm_backward(dx, dgain, dbias, dy, mean, rstd, x, gain, R, N);
    ASSERT_CLOSE(bias, y, N, 1e-4);
    ASSERT(all_finite(dx, M));
    ASSERT(all_finite(dgain, N));
    PASS();
}

/* Adding a constant to a row changes nothing, so that dx sums to zero; with eps 0 scaling does not
   either, so that dx is at right angles to x.                                                    */
TEST layernorm_gradient_is_at_right_angles_to_shift_and_scale(void)
{
    double along_shift = 0.0, along_scale = 0.0;
    fresh();
    posenc_layernorm_forward(y, mean, rstd, x, gain, bias, 0.0, R, N);
    posenc_layernorm_backward(dx, dgain, dbias, dy, mean, rstd, x, gain, R, N);
    for (int i = 0; i < N; i++) {
        along_shift += (double)dx[i];
        along_scale += (double)dx[i] * (double)x[i];
    }
    ASSERT(all_finite(dx, M));
    ASSERT_LTE(fabs(along_shift), 1e-5);
    ASSERT_LTE(fabs(along_scale), 1e-5);
    PASS();
}

TEST layernorm_backward_matches_the_formula(void)
{
    posenc_float want_gain[N], want_bias[N];
    fresh();
    for (int i = 0; i < N; i++) dgain[i] = dbias[i] = (posenc_float)2;
    posenc_layernorm_forward(y, mean, rstd, x, gain, bias, eps, R, N);
    posenc_layernorm_backward(dx, dgain, dbias, dy, mean, rstd, x, gain, R, N);
    for (int r = 0; r < R; r++) {
        double m = (double)mean[r], s = (double)rstd[r], g = 0.0, gh = 0.0;
        for (int i = 0; i < N; i++) {
            double up = (double)gain[i] * (double)dy[r * N + i];
            g += up / N;
            gh += up * ((double)x[r * N + i] - m) * s / N;
        }
        for (int i = 0; i < N; i++)
            expected[r * N + i] = (posenc_float)(s * ((double)gain[i] * (double)dy[r * N + i] - g
                                                      - ((double)x[r * N + i] - m) * s * gh));
    }
    for (int i = 0; i < N; i++) {
        double dg = 2.0, d = 2.0;
        for (int r = 0; r < R; r++) {
            dg +=
                (double)dy[r * N + i] * ((double)x[r * N + i] - (double)mean[r]) * (double)rstd[r];
            d += (double)dy[r * N + i];
        }
        want_gain[i] = (posenc_float)dg; want_bias[i] = (posenc_float)d;
    }
    ASSERT_CLOSE(expected, dx, M, 5e-6);
    ASSERT_CLOSE(want_gain, dgain, N, 1e-5);
    ASSERT_CLOSE(want_bias, dbias, N, 1e-5);
    PASS();
}

TEST layernorm_without_bias_needs_no_dbias(void)
{
    fresh();
    posenc_layernorm_forward(y, mean, rstd, x, gain, NULL, eps, R, N);
    posenc_layernorm_backward(dx, dgain, dbias, dy, mean, rstd, x, gain, R, N);
    memcpy(expected, dx, sizeof dx);
    posenc_layernorm_backward(dx, dgain, NULL, dy, mean, rstd, x, gain, R, N);
    ASSERT_MEM_EQ(expected, dx, sizeof dx);
    PASS();
}

TEST layernorm_of_one_channel_is_its_bias(void)
{
    posenc_float x1 = 3, g1 = 2, b1 = 5, y1 = 0, m1, s1, dy1 = 7, dx1 = 1, dg1 = 0, db1 = 0;
    posenc_layernorm_forward(&y1, &m1, &s1, &x1, &g1, &b1, eps, 1, 1);
    posenc_layernorm_backward(&dx1, &dg1, &db1, &dy1, &m1, &s1, &x1, &g1, 1, 1);
    ASSERT_EQ((double)y1, 5.0);
    ASSERT_EQ((double)dx1, 0.0);
    ASSERT_EQ((double)db1, 7.0);
    PASS();
}

/* ---- RMSNorm --------------------------------------------------------------------------------- */

TEST rmsnorm_matches_the_definition(void)
{
    fresh();
    posenc_rmsnorm_forward(y, rstd, x, gain, eps, R, N);
    for (int r = 0; r < R; r++) {
        double v = 0.0;
        for (int i = 0; i < N; i++) v += (double)x[r * N + i] * (double)x[r * N + i] / N;
        ASSERT_LTE(fabs((double)rstd[r] - 1.0 / sqrt(v + eps)), 1e-5);
        for (int i = 0; i < N; i++)
            expected[r * N + i] =
                (posenc_float)((double)gain[i] * (double)x[r * N + i] / sqrt(v + eps));
    }
    ASSERT_CLOSE(expected, y, M, 2e-6);
    PASS();
}

TEST rmsnorm_backward_matches_the_formula(void)
{
    posenc_float want[N];
    fresh();
    for (int i = 0; i < N; i++) dgain[i] = (posenc_float)2;
    posenc_rmsnorm_forward(y, rstd, x, gain, eps, R, N);
    posenc_rmsnorm_backward(dx, dgain, dy, rstd, x, gain, R, N);
    for (int r = 0; r < R; r++) {
        double s = (double)rstd[r], gx = 0.0;
        for (int i = 0; i < N; i++)
            gx += (double)gain[i] * (double)dy[r * N + i] * (double)x[r * N + i] / N;
        for (int i = 0; i < N; i++)
            expected[r * N + i] = (posenc_float)(s * (double)gain[i] * (double)dy[r * N + i]
                                                 - s * s * s * (double)x[r * N + i] * gx);
    }
    for (int i = 0; i < N; i++) {
        double dg = 2.0;
        for (int r = 0; r < R; r++)
            dg += (double)dy[r * N + i] * (double)x[r * N + i] * (double)rstd[r];
        want[i] = (posenc_float)dg;
    }
    ASSERT_CLOSE(expected, dx, M, 5e-6);
    ASSERT_CLOSE(want, dgain, N, 1e-5);
    PASS();
}

/* With eps 0, twice the input gives the same output, and the gradient is at right angles to the
   input.                                                                                         */
TEST rmsnorm_does_not_see_the_scale(void)
{
    double along_scale = 0.0;
    fresh();
    posenc_rmsnorm_forward(y, rstd, x, gain, 0.0, R, N);
    posenc_rmsnorm_backward(dx, dgain, dy, rstd, x, gain, R, N);
    for (int i = 0; i < N; i++) along_scale += (double)dx[i] * (double)x[i];
    for (int i = 0; i < M; i++) x[i] *= (posenc_float)2;
    posenc_rmsnorm_forward(expected, rstd, x, gain, 0.0, R, N);
    ASSERT_CLOSE(expected, y, M, 1e-6);
    ASSERT(all_finite(dx, M));
    ASSERT_LTE(fabs(along_scale), 1e-5);
    PASS();
}

TEST rmsnorm_of_a_zero_row_is_zero(void)
{
    fresh();
    for (int i = 0; i < N; i++) x[i] = (posenc_float)0;
    posenc_rmsnorm_forward(y, rstd, x, gain, eps, R, N);
    posenc_rmsnorm_backward(dx, dgain, dy, rstd, x, gain, R, N);
    for (int i = 0; i < N; i++) ASSERT_EQ((double)y[i], 0.0);
    ASSERT(all_finite(dx, M));
    ASSERT(all_finite(dgain, N));
    PASS();
}

static void norm_forward(int rms, posenc_float *to, const posenc_float *from)
{
    if (rms) posenc_rmsnorm_forward(to, rstd, from, gain, eps, R, N);
    else     posenc_layernorm_forward(to, mean, rstd, from, gain, bias, eps, R, N);
}
static void norm_backward(int rms, posenc_float *to, const posenc_float *from)
{
    if (rms) posenc_rmsnorm_backward(to, dgain, from, rstd, x, gain, R, N);
    else     posenc_layernorm_backward(to, dgain, dbias, from, mean, rstd, x, gain, R, N);
}

/* y may be x, and dx may be dy. */
TEST in_place_is_the_same(int rms)
{
    fresh();
    memcpy(other, x, sizeof x);
    norm_forward(rms, other, other);
    norm_forward(rms, y, x);
    ASSERT_MEM_EQ(y, other, sizeof y);
    memcpy(other, dy, sizeof dy);
    norm_backward(rms, other, other);
    norm_backward(rms, dx, dy);
    ASSERT_MEM_EQ(dx, other, sizeof dx);
    PASS();
}

TEST nan_in_one_row_stays_there(int rms)
{
    fresh();
    x[4 * N + 9] = (posenc_float)NAN;
    if (rms) posenc_rmsnorm_forward(y, rstd, x, gain, eps, R, N);
    else     posenc_layernorm_forward(y, mean, rstd, x, gain, bias, eps, R, N);
    ASSERT(all_finite(y, 4 * N));
    ASSERT(all_finite(y + 5 * N, M - 5 * N));
    for (int i = 0; i < N; i++) ASSERT(isnan((double)y[4 * N + i]));
    PASS();
}

SUITE(norms)
{
    label_test("with_bias");
    RUN_TESTp(layernorm_matches_the_definition, 1);
    label_test("without_bias");
    RUN_TESTp(layernorm_matches_the_definition, 0);
    RUN_TEST(layernorm_survives_a_large_offset);
    RUN_TEST(layernorm_of_a_constant_row_is_its_bias);
    RUN_TEST(layernorm_gradient_is_at_right_angles_to_shift_and_scale);
    RUN_TEST(layernorm_backward_matches_the_formula);
    RUN_TEST(layernorm_without_bias_needs_no_dbias);
    RUN_TEST(layernorm_of_one_channel_is_its_bias);
    RUN_TEST(rmsnorm_matches_the_definition);
    RUN_TEST(rmsnorm_backward_matches_the_formula);
    RUN_TEST(rmsnorm_does_not_see_the_scale);
    RUN_TEST(rmsnorm_of_a_zero_row_is_zero);
    label_test("layernorm"); RUN_TESTp(in_place_is_the_same, 0);
    label_test("rmsnorm");   RUN_TESTp(in_place_is_the_same, 1);
    label_test("of_layernorm");
    RUN_TESTp(nan_in_one_row_stays_there, 0);
    label_test("of_rmsnorm");
    RUN_TESTp(nan_in_one_row_stays_there, 1);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(norms);
    GREATEST_MAIN_END();
}
