/* ReLU, both GELUs, SiLU, SwiGLU, the residual and dropout: values, slopes, far ends, odd
   lengths, and calls in place.                                                                   */
#include "posenc.h"
#include "check.h"

enum { N = 4001, KINDS = 4 };
static const char *kind_name[KINDS] = { "relu", "gelu", "gelu_tanh", "silu" };
static posenc_float x[N], y[N + 64], dy[N], dx[N], expected[N], gate[N], up[N], dgate[N], dup[N];

static const double half_root = 0.70710678118654752440;           /* 1 / sqrt(2)     */
static const double root_2_pi = 0.79788456080286535588;           /* sqrt(2 / pi)    */

static double f(int kind, double v)
{
    switch (kind) {
    case POSENC_RELU: return v > 0.0 ? v : 0.0;
    case POSENC_GELU: return 0.5 * v * (1.0 + erf(v * half_root));
    case POSENC_GELU_TANH: return 0.5 * v * (1.0 + tanh(root_2_pi * (v + 0.044715 * v * v * v)));
    default: return v / (1.0 + exp(-v));
    }
}
static double slope(int kind, double v)
{
    double t;
    switch (kind) {
    case POSENC_RELU: return v > 0.0 ? 1.0 : 0.0;
    case POSENC_GELU:
        return 0.5 * (1.0 + erf(v * half_root)) + v * exp(-0.5 * v * v) * 0.5 * root_2_pi;
    case POSENC_GELU_TANH:
        t = tanh(root_2_pi * (v + 0.044715 * v * v * v));
        return 0.5 * (1.0 + t)
               + 0.5 * v * (1.0 - t * t) * root_2_pi * (1.0 + 3.0 * 0.044715 * v * v);
    default: t = 1.0 / (1.0 + exp(-v)); return t * (1.0 + v * (1.0 - t));
    }
}

/* -12 .. 12 in small steps, dy random */
static void fresh(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = (posenc_float)((i - N / 2) * 0.006);
        y[i] = dx[i] = (posenc_float)NAN;
    }
    fill_random(dy, N);
}

TEST values_match_the_formula(int kind)
{
    fresh();
    posenc_activation_forward(y, x, kind, N);
    for (int i = 0; i < N; i++) expected[i] = (posenc_float)f(kind, (double)x[i]);
    ASSERT_CLOSE(expected, y, N, 2e-6);
    PASS();
}

TEST slopes_match_the_formula(int kind)
{
    fresh();
    posenc_activation_backward(dx, dy, x, kind, N);
    for (int i = 0; i < N; i++)
        expected[i] = (posenc_float)((double)dy[i] * slope(kind, (double)x[i]));
    ASSERT_CLOSE(expected, dx, N, 2e-6);
    PASS();
}

/* Far out every one of them is the identity on the right and zero on the left, with slopes to
   match.                                                                                         */
TEST far_ends_are_flat_and_finite(int kind)
{
    static const double far_out[] = { 50.0, 1e3, 1e10, 1e30 };
    for (int i = 0; i < 4; i++) {
        posenc_float in[2] = { (posenc_float)far_out[i], (posenc_float)-far_out[i] }, out[2],
                     g[2] = { 1, 1 };
        posenc_activation_forward(out, in, kind, 2);
        posenc_activation_backward(g, g, in, kind, 2);
        ASSERT_EQ((double)out[0], (double)in[0]);
        ASSERT(fabs((double)out[1]) <= 1e-6);
        ASSERT_EQ((double)g[0], 1.0);
        ASSERT(fabs((double)g[1]) <= 1e-6);
    }
    PASS();
}

TEST nan_is_not_hidden(int kind)
{
    posenc_float in[3] = { 1, (posenc_float)NAN, 2 }, out[3], g[3] = { 1, (posenc_float)NAN, 1 };
    posenc_activation_forward(out, in, kind, 3);
    ASSERT(isnan((double)out[1]));
    in[1] = 1;
    posenc_activation_backward(g, g, in, kind, 3);
    ASSERT(isnan((double)g[1]));
    ASSERT_FALSE(isnan((double)out[0]) || isnan((double)out[2]) || isnan((double)g[0])
                 || isnan((double)g[2]));
    PASS();
}

TEST every_length_is_done_to_its_end_and_no_further(int kind)
{
    fresh();
    fill_random(x, 80);
    for (size_t n = 0; n <= 80; n++) {
        for (int i = 0; i < 96; i++) y[i] = (posenc_float)7;
        posenc_activation_forward(y, x, kind, n);
        for (size_t i = 0; i < n; i++) ASSERT(fabs((double)y[i] - f(kind, (double)x[i])) <= 1e-6);
        for (size_t i = n; i < 96; i++) ASSERT_EQ((double)y[i], 7.0);
    }
    PASS();
}

TEST backward_may_write_over_dy(int kind)
{
    fresh();
    posenc_activation_backward(dx, dy, x, kind, N);
    posenc_activation_backward(dy, dy, x, kind, N);
    ASSERT_MEM_EQ(dx, dy, sizeof dx);
    PASS();
}

TEST relu_has_slope_zero_at_zero(void)
{
    posenc_float zero = 0, g = 1;
    posenc_activation_backward(&g, &g, &zero, POSENC_RELU, 1);
    ASSERT_EQ((double)g, 0.0);
    PASS();
}

/* ---- SwiGLU ---------------------------------------------------------------------------------- */

/* kind: as a config has it; plain: f alone */
TEST gated_is_f_of_gate_times_up(int kind, int plain)
{
    fresh();
    memcpy(gate, x, sizeof gate);
    fill_random(up, N);
    posenc_gated_forward(y, gate, up, kind, N);
    for (int i = 0; i < N; i++)
        expected[i] = (posenc_float)(f(plain, (double)gate[i]) * (double)up[i]);
    ASSERT_CLOSE(expected, y, N, 2e-6);
    PASS();
}

TEST gated_backward_matches_the_formula(int kind, int plain)
{
    static posenc_float want_up[N];
    fresh();
    memcpy(gate, x, sizeof gate);
    fill_random(up, N);
    for (int i = 0; i < N; i++) {
        dgate[i] = dup[i] = (posenc_float)NAN;
        expected[i] =
            (posenc_float)((double)dy[i] * (double)up[i] * slope(plain, (double)gate[i]));
        want_up[i]  = (posenc_float)((double)dy[i] * f(plain, (double)gate[i]));
    }
    posenc_gated_backward(dgate, dup, dy, gate, up, kind, N);
    ASSERT_CLOSE(expected, dgate, N, 2e-6);
    ASSERT_CLOSE(want_up, dup, N, 5e-6);
    PASS();
}

TEST gated_backward_may_write_over_dy(int kind, int which)
{
    fresh();
    memcpy(gate, x, sizeof gate);
    fill_random(up, N);
    posenc_gated_backward(dgate, dup, dy, gate, up, kind, N);
    if (which == 0) {
        posenc_gated_backward(dy, expected, dy, gate, up, kind, N);
        ASSERT_MEM_EQ(dgate, dy, sizeof dy);
        ASSERT_MEM_EQ(dup, expected, sizeof dup);
    } else {
        posenc_gated_backward(expected, dy, dy, gate, up, kind, N);
        ASSERT_MEM_EQ(dgate, expected, sizeof dy);
        ASSERT_MEM_EQ(dup, dy, sizeof dup);
    }
    PASS();
}

TEST swiglu_is_finite_far_out(void)
{
    posenc_float g[4] = { 200, -200, (posenc_float)1e20, (posenc_float)-1e20 },
                 u[4] = { 2, 2, 2, 2 }, out[4];
    posenc_float d[4] = { 1, 1, 1, 1 }, dg[4], du[4];
    posenc_gated_forward(out, g, u, POSENC_SWIGLU, 4);
    posenc_gated_backward(dg, du, d, g, u, POSENC_SWIGLU, 4);
    ASSERT_EQ((double)out[0], 400.0);
    ASSERT(fabs((double)out[1]) <= 1e-6);
    ASSERT_LTE(max_abs_diff(out, out, 4), 0.0);
    ASSERT_LTE(max_abs_diff(dg, dg, 4), 0.0);
    ASSERT_LTE(max_abs_diff(du, du, 4), 0.0);
    PASS();
}

/* ---- the residual ---------------------------------------------------------------------------- */

TEST residual_adds_and_may_write_over_either(void)
{
    fresh();
    for (int i = 0; i < N; i++) expected[i] = x[i] + dy[i];
    posenc_residual(y, x, dy, N);
    ASSERT_MEM_EQ(expected, y, N * sizeof *y);
    memcpy(gate, x, sizeof gate);
    posenc_residual(gate, gate, dy, N);
    ASSERT_MEM_EQ(expected, gate, sizeof gate);
    posenc_residual(dy, x, dy, N);
    ASSERT_MEM_EQ(expected, dy, sizeof dy);
    PASS();
}

/* ---- dropout (what it draws is in test_random.c) --------------------------------------------- */

TEST dropout_rate_0_copies(void)
{
    posenc_dropout how = { 0.0, 1, 2, 3, 4 };
    fresh();
    posenc_dropout_apply(y, x, N, how);
    ASSERT_MEM_EQ(x, y, sizeof x);
    PASS();
}

TEST dropout_rate_1_gives_zeros(void)
{
    posenc_dropout how = { 1.0, 1, 2, 3, 4 };
    fresh();
    x[5] = (posenc_float)INFINITY;                       /* zero times infinity must not show */
    posenc_dropout_apply(y, x, N, how);
    for (int i = 0; i < N; i++) ASSERT_EQ((double)y[i], 0.0);
    PASS();
}

TEST dropout_scales_what_it_keeps(void)
{
    posenc_dropout how = { 0.25, 1, 2, 3, 4 };
    int kept = 0;
    fresh();
    x[N / 2] = 1;                                        /* no zero among the inputs */
    posenc_dropout_apply(y, x, N, how);
    for (int i = 0; i < N; i++) {
        ASSERT((double)y[i] == 0.0
               || fabs((double)y[i] - (double)x[i] / 0.75) <= 1e-6 * fabs((double)x[i]));
        kept += (double)y[i] != 0.0;
    }
    ASSERT_GT(kept, N / 2);
    ASSERT_LT(kept, N);
    PASS();
}

TEST dropout_in_place_gives_the_same(void)
{
    posenc_dropout how = { 0.5, 1, 2, 3, 4 };
    fresh();
    posenc_dropout_apply(y, x, N, how);
    posenc_dropout_apply(x, x, N, how);
    ASSERT_MEM_EQ(y, x, sizeof x);
    PASS();
}

TEST dropout_does_every_length_to_its_end(void)
{
    posenc_dropout how = { 0.5, 1, 2, 3, 0 };
    fresh();
    for (uint64_t first = 0; first < 5; first++) for (size_t n = 0; n <= 40; n++) {
        how.first = first;
        for (int i = 0; i < 64; i++) y[i] = (posenc_float)7;
        posenc_dropout_apply(y, x, n, how);
        for (size_t i = 0; i < n; i++) ASSERT_NEQ((double)y[i], 7.0);
        for (size_t i = n; i < 64; i++) ASSERT_EQ((double)y[i], 7.0);
    }
    PASS();
}

SUITE(activations)
{
    for (int kind = 0; kind < KINDS; kind++) {
        label_test("%s", kind_name[kind]); RUN_TESTp(values_match_the_formula, kind);
        label_test("%s", kind_name[kind]); RUN_TESTp(slopes_match_the_formula, kind);
        label_test("%s", kind_name[kind]); RUN_TESTp(far_ends_are_flat_and_finite, kind);
        label_test("%s", kind_name[kind]); RUN_TESTp(nan_is_not_hidden, kind);
        label_test("%s", kind_name[kind]);
        RUN_TESTp(every_length_is_done_to_its_end_and_no_further, kind);
        label_test("%s", kind_name[kind]); RUN_TESTp(backward_may_write_over_dy, kind);
    }
    RUN_TEST(relu_has_slope_zero_at_zero);
    static const struct { const char *name; int kind, plain; } gated[4] = {
        { "silu", POSENC_SILU, POSENC_SILU }, { "swiglu", POSENC_SWIGLU, POSENC_SILU },
        { "geglu", POSENC_GEGLU, POSENC_GELU }, { "geglu_tanh", POSENC_GEGLU_TANH, POSENC_GELU_TANH }
    };
    for (int i = 0; i < 4; i++) {
        label_test("%s", gated[i].name);
        RUN_TESTp(gated_is_f_of_gate_times_up, gated[i].kind, gated[i].plain);
        label_test("%s", gated[i].name);
        RUN_TESTp(gated_backward_matches_the_formula, gated[i].kind, gated[i].plain);
        for (int which = 0; which < 2; which++) {
            label_test("%s_as_%s", gated[i].name, which ? "dup" : "dgate");
            RUN_TESTp(gated_backward_may_write_over_dy, gated[i].kind, which);
        }
    }
    RUN_TEST(swiglu_is_finite_far_out);
    RUN_TEST(residual_adds_and_may_write_over_either);
}

SUITE(dropout)
{
    RUN_TEST(dropout_rate_0_copies);
    RUN_TEST(dropout_rate_1_gives_zeros);
    RUN_TEST(dropout_scales_what_it_keeps);
    RUN_TEST(dropout_in_place_gives_the_same);
    RUN_TEST(dropout_does_every_length_to_its_end);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(activations);
    RUN_SUITE(dropout);
    GREATEST_MAIN_END();
}
