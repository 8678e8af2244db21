/* One update of each optimizer against its formula in double, step by step; the schedules at
   their corners; the sum of squares that clipping needs.                                         */
#include "posenc.h"
#include "check.h"
#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- the formulas ---------------------------------------------------------------------------- */

enum { N = 53, STEPS = 25 };
static posenc_float w[N + 8], m[N + 8], v[N + 8], g[N + 8], expected[N];
static double W[N], M[N], U[N];

static posenc_optimizer optimizer(int kind)
{
    posenc_optimizer o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    return o;
}
static void fresh(void)
{
    fill_random(w, N + 8);
    for (int i = 0; i < N + 8; i++) m[i] = v[i] = 0;
    for (int i = 0; i < N; i++) { W[i] = (double)w[i]; M[i] = U[i] = 0.0; }
}

/* one number, one step, as the papers and PyTorch write it */
static void by_formula(int i, double grad, const posenc_optimizer *o, double b1, double b2,
                       double eps, double rate, double decay, int t)
{
    if (o->kind == POSENC_SGD) {
        double d = grad + decay * W[i];
        if (o->momentum != 0.0) {
            M[i] = t == 1 ? d : o->momentum * M[i] + d;
            d = o->nesterov ? d + o->momentum * M[i] : M[i];
        }
        W[i] -= rate * d;
        return;
    }
    if (o->kind == POSENC_ADAMW) W[i] -= rate * decay * W[i];
    else grad += decay * W[i];
    M[i] = b1 * M[i] + (1.0 - b1) * grad;
    U[i] = b2 * U[i] + (1.0 - b2) * grad * grad;
    W[i] -= rate * (M[i] / (1.0 - pow(b1, t))) / (sqrt(U[i] / (1.0 - pow(b2, t))) + eps);
}

/* STEPS updates with random gradients, a rate that changes and a gradient scale; o->decay must
   not matter                                                                                     */
TEST updates_follow_the_formula(posenc_optimizer o, double b1, double b2, double eps, double decay)
{
    const posenc_optimizer given = o;
    fresh();
    o.decay = 99.0;
    for (int t = 1; t <= STEPS; t++) {
        double rate = 0.02 / t;
        fill_random(g, N);
        posenc_optimizer_apply(w, m, v, g, N, &o, rate, 0.5, decay, (uint64_t)t);
        for (int i = 0; i < N; i++)
            by_formula(i, 0.5 * (double)g[i], &given, b1, b2, eps, rate, decay, t);
    }
    for (int i = 0; i < N; i++) expected[i] = (posenc_float)W[i];
    ASSERT_CLOSE(expected, w, N, 2e-6);
    if (o.kind != POSENC_SGD || o.momentum != 0.0) {
        for (int i = 0; i < N; i++) expected[i] = (posenc_float)M[i];
        ASSERT_NORM_CLOSE(expected, m, N, 2e-6);
    }
    if (o.kind != POSENC_SGD) {
        for (int i = 0; i < N; i++) expected[i] = (posenc_float)U[i];
        ASSERT_NORM_CLOSE(expected, v, N, 2e-6);
    }
    PASS();
}

TEST update_stops_at_its_end(int kind)
{
    posenc_optimizer o = optimizer(kind);
    o.momentum = 0.9;
    for (size_t n = 0; n <= 40; n++) {
        fresh();
        fill_random(g, N + 8);
        posenc_optimizer_apply(w, m, v, g, n, &o, 0.1, 1.0, 0.0, 1);
        for (size_t i = 0; i < N; i++) ASSERT_EQ(i < n, (double)w[i] != W[i]);
    }
    PASS();
}

/* The first Adam step has length rate, whatever the gradient's size: both means lack the same
   factor.                                                                                        */
TEST first_adam_step_has_the_length_of_the_rate(double size)
{
    posenc_optimizer o = optimizer(POSENC_ADAM);
    fresh();
    for (int i = 0; i < N; i++) g[i] = (posenc_float)(i % 2 ? size : -size);
    posenc_optimizer_apply(w, m, v, g, N, &o, 0.01, 1.0, 0.0, 1);
    for (int i = 0; i < N; i++) expected[i] = (posenc_float)(W[i] + (i % 2 ? -0.01 : 0.01));
    ASSERT_CLOSE(expected, w, N, 1e-6);
    PASS();
}

TEST adamw_shrinks_weights_that_get_no_gradient(void)
{
    posenc_optimizer o = optimizer(POSENC_ADAMW);
    fresh();
    for (int i = 0; i < N; i++) g[i] = 0;
    posenc_optimizer_apply(w, m, v, g, N, &o, 0.1, 1.0, 0.5, 1);
    for (int i = 0; i < N; i++) expected[i] = (posenc_float)(0.95 * W[i]);
    ASSERT_CLOSE(expected, w, N, 1e-7);
    PASS();
}

TEST zero_gradient_moves_nothing(int kind)
{
    posenc_optimizer o = optimizer(kind);
    fresh();
    for (int i = 0; i < N; i++) g[i] = 0;
    posenc_optimizer_apply(w, m, v, g, N, &o, 0.1, 1.0, 0.0, 1);
    for (int i = 0; i < N; i++) ASSERT_EQ(W[i], (double)w[i]);
    PASS();
}

TEST plain_sgd_needs_no_moments(void)
{
    posenc_optimizer o = optimizer(POSENC_SGD);
    fresh();
    fill_random(g, N);
    posenc_optimizer_apply(w, NULL, NULL, g, N, &o, 0.1, 1.0, 0.0, 1);
    for (int i = 0; i < N; i++) expected[i] = (posenc_float)(W[i] - 0.1 * (double)g[i]);
    ASSERT_CLOSE(expected, w, N, 1e-6);
    PASS();
}

/* Bias correction must not fail late in a long run, where b^t has long vanished. */
TEST late_steps_are_finite(int kind)
{
    posenc_optimizer o = optimizer(kind);
    fresh();
    fill_random(g, N); fill_random(m, N);
    for (int i = 0; i < N; i++) v[i] = 1;
    posenc_optimizer_apply(w, m, v, g, N, &o, 0.1, 1.0, 0.0, (uint64_t)1 << 62);
    ASSERT_LTE(max_abs_diff(w, w, N), 0.0);
    PASS();
}

/* ---- the sum of squares ---------------------------------------------------------------------- */

enum { MANY = 1200007 };
static posenc_float many[MANY];

TEST sum_of_squares_is_right(int n)
{
    double sum = 0.0;
    fill_random(many, (size_t)n);
    for (int i = 0; i < n; i++) sum += (double)many[i] * (double)many[i];
    ASSERT_LTE(fabs(posenc_sum_squares(many, (size_t)n) - sum), 1e-12 * sum);
    PASS();
}

TEST sum_of_squares_has_the_same_bits_at_1_2_and_3_threads(int n)
{
#ifdef _OPENMP
    double one;
    fill_random(many, (size_t)n);
    omp_set_num_threads(1);
    one = posenc_sum_squares(many, (size_t)n);
    for (int threads = 2; threads <= 3; threads++) {
        double more;
        omp_set_num_threads(threads);
        more = posenc_sum_squares(many, (size_t)n);
        ASSERT_MEM_EQ(&one, &more, sizeof one);
    }
    PASS();
#else
    (void)n;
    SKIPm("compiled without OpenMP");
#endif
}

TEST sum_of_squares_does_not_overflow_and_shows_nan(void)
{
    posenc_float big[3] = { (posenc_float)1e30, 2, (posenc_float)-1e30 };
    ASSERT_LTE(fabs(posenc_sum_squares(big, 3) / 2e60 - 1.0), 1e-6);
    big[1] = (posenc_float)NAN;
    ASSERT(isnan(posenc_sum_squares(big, 3)));
    ASSERT_EQ(0.0, posenc_sum_squares(big, 0));
    PASS();
}

/* ---- schedules ------------------------------------------------------------------------------- */

static posenc_schedule schedule(int kind, double floor_share, int warmup, int total, int decay)
{
    posenc_schedule s;
    s.kind = kind;
    s.peak = 2.0;
    s.floor = floor_share;
    s.warmup = warmup;
    s.total = total;
    s.decay = decay;
    return s;
}
TEST rate_at_a_step(posenc_schedule s, long step, double want)
{
    ASSERT_LTE(fabs(posenc_rate(&s, step) - want), 1e-12);
    PASS();
}

TEST rate_never_rises_after_the_warm_up_nor_leaves_its_bounds(int kind)
{
    posenc_schedule s = schedule(kind, 0.1, 10, 100, 0);
    for (int step = 0; step < 300; step++) {
        double now = posenc_rate(&s, step), next = posenc_rate(&s, step + 1);
        ASSERT(now > 0.0 && now <= 2.0);
        if (step < 9) ASSERT_GT(next, now);
        if (step >= 10) ASSERT_LTE(next, now);
        if (step >= 10) ASSERT_GTE(now, 0.2 - 1e-15);
        if (step >= 10) ASSERT_LTE(now - next, 0.2 + 1e-12);                        /* no cliff */
    }
    PASS();
}

/* zero steps in all, warm-up longer than the run, decay longer than the run: a number, never NaN */
TEST odd_schedules_give_finite_rates(int kind)
{
    static const int odd[][3] = { { 0, 0, 0 },  { 10, 0, 0 },   { 10, 5, 0 },
                                  { 0, 5, 50 }, { 10, 10, 10 }, { 0, 1, 0 } };
    for (int i = 0; i < 6; i++) for (int step = 0; step < 30; step++) {
        posenc_schedule s = schedule(kind, 0.1, odd[i][0], odd[i][1], odd[i][2]);
        double rate = posenc_rate(&s, step);
        ASSERT(rate >= 0.0 && rate <= 2.0);
    }
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(optimizers)
{
    static const char *name[] = { "adamw", "adam", "sgd" };
    posenc_optimizer o = optimizer(POSENC_SGD);
    label_test("sgd");                 RUN_TESTp(updates_follow_the_formula, o, 0, 0, 0, 0.0);
    label_test("sgd_with_decay");      RUN_TESTp(updates_follow_the_formula, o, 0, 0, 0, 0.1);
    o.momentum = 0.9;
    label_test("momentum");            RUN_TESTp(updates_follow_the_formula, o, 0, 0, 0, 0.0);
    label_test("momentum_with_decay"); RUN_TESTp(updates_follow_the_formula, o, 0, 0, 0, 0.1);
    o.nesterov = 1;
    label_test("nesterov");            RUN_TESTp(updates_follow_the_formula, o, 0, 0, 0, 0.0);
    label_test("nesterov_with_decay"); RUN_TESTp(updates_follow_the_formula, o, 0, 0, 0, 0.1);
    o = optimizer(POSENC_ADAM);
    label_test("adam");
    RUN_TESTp(updates_follow_the_formula, o, 0.9, 0.999, 1e-8, 0.0);
    label_test("adam_with_decay");
    RUN_TESTp(updates_follow_the_formula, o, 0.9, 0.999, 1e-8, 0.1);
    o.beta1 = 0.8; o.beta2 = 0.95; o.eps = 0.01;
    label_test("adam_with_its_own_numbers");
    RUN_TESTp(updates_follow_the_formula, o, 0.8, 0.95, 0.01, 0.1);
    o.beta1 = -1;
    label_test("adam_without_a_mean");
    RUN_TESTp(updates_follow_the_formula, o, 0.0, 0.95, 0.01, 0.0);
    o = optimizer(POSENC_ADAMW);
    label_test("adamw");
    RUN_TESTp(updates_follow_the_formula, o, 0.9, 0.999, 1e-8, 0.0);
    label_test("adamw_with_decay");
    RUN_TESTp(updates_follow_the_formula, o, 0.9, 0.999, 1e-8, 0.1);
    for (int i = 0; i < 3; i++) {
        label_test("%s", name[i]); RUN_TESTp(update_stops_at_its_end, i);
        label_test("%s", name[i]); RUN_TESTp(zero_gradient_moves_nothing, i);
        label_test("%s", name[i]); RUN_TESTp(late_steps_are_finite, i);
    }
    label_test("for_small_gradients"); RUN_TESTp(first_adam_step_has_the_length_of_the_rate, 1e-3);
    label_test("for_large_gradients"); RUN_TESTp(first_adam_step_has_the_length_of_the_rate, 1e6);
    RUN_TEST(adamw_shrinks_weights_that_get_no_gradient);
    RUN_TEST(plain_sgd_needs_no_moments);
}

SUITE(sums)
{
    static const int size[] = { 1, 7, 4095, 4096, 4097, 100003, MANY };
    for (int i = 0; i < 7; i++) {
        label_test("of_%d", size[i]); RUN_TESTp(sum_of_squares_is_right, size[i]);
    }
    for (int i = 0; i < 7; i += 2) {
        label_test("of_%d", size[i]);
        RUN_TESTp(sum_of_squares_has_the_same_bits_at_1_2_and_3_threads, size[i]);
    }
    RUN_TEST(sum_of_squares_does_not_overflow_and_shows_nan);
}

SUITE(schedules)
{
    static const char *name[] = { "constant", "linear", "cosine", "wsd" };
    static const struct {
        const char *label;
        int kind;
        double floor;
        int warmup, total, decay;
        long step;
        double want;
    } at[] = {
        { "constant_first", POSENC_CONSTANT, 0, 0, 0, 0, 0, 2.0 },
        { "constant_far_on", POSENC_CONSTANT, 0, 0, 0, 0, 1000000, 2.0 },
        { "constant_warm_up_first", POSENC_CONSTANT, 0, 10, 0, 0, 0, 0.2 },
        { "constant_warm_up_last", POSENC_CONSTANT, 0, 10, 0, 0, 9, 2.0 },
        { "constant_after_warm_up", POSENC_CONSTANT, 0, 10, 0, 0, 10, 2.0 },
        { "linear_warm_up_middle", POSENC_LINEAR, 0, 10, 110, 0, 4, 1.0 },
        { "linear_start_of_the_fall", POSENC_LINEAR, 0, 10, 110, 0, 10, 2.0 },
        { "linear_middle", POSENC_LINEAR, 0, 10, 110, 0, 60, 1.0 },
        { "linear_end", POSENC_LINEAR, 0, 10, 110, 0, 110, 0.0 },
        { "linear_past_the_end", POSENC_LINEAR, 0.1, 10, 110, 0, 5000, 0.2 },
        { "linear_floor_middle", POSENC_LINEAR, 0.5, 10, 110, 0, 60, 1.5 },
        { "cosine_start_of_the_fall", POSENC_COSINE, 0, 10, 110, 0, 10, 2.0 },
        { "cosine_quarter", POSENC_COSINE, 0, 10, 110, 0, 35, 1.7071067811865476 },
        { "cosine_middle", POSENC_COSINE, 0, 10, 110, 0, 60, 1.0 },
        { "cosine_floor_middle", POSENC_COSINE, 0.5, 10, 110, 0, 60, 1.5 },
        { "cosine_end", POSENC_COSINE, 0.1, 10, 110, 0, 110, 0.2 },
        { "cosine_past_the_end", POSENC_COSINE, 0.1, 10, 110, 0, 9999, 0.2 },
        { "wsd_stable", POSENC_WSD, 0, 10, 200, 50, 149, 2.0 },
        { "wsd_start_of_the_fall", POSENC_WSD, 0, 10, 200, 50, 150, 2.0 },
        { "wsd_middle_of_the_fall", POSENC_WSD, 0, 10, 200, 50, 175, 1.0 },
        { "wsd_end", POSENC_WSD, 0.1, 10, 200, 50, 200, 0.2 },
        { "wsd_default_decay_begins", POSENC_WSD, 0, 10, 200, 0, 180, 2.0 },
        { "wsd_default_decay_middle", POSENC_WSD, 0, 10, 200, 0, 190, 1.0 },
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        label_test("%s", at[i].label);
        RUN_TESTp(rate_at_a_step,
                  schedule(at[i].kind, at[i].floor, at[i].warmup, at[i].total, at[i].decay),
                  at[i].step, at[i].want);
    }
    for (int i = 0; i < 4; i++) {
        label_test("%s", name[i]);
        RUN_TESTp(rate_never_rises_after_the_warm_up_nor_leaves_its_bounds, i);
        label_test("%s", name[i]); RUN_TESTp(odd_schedules_give_finite_rates, i);
    }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(optimizers);
    RUN_SUITE(sums);
    RUN_SUITE(schedules);
    GREATEST_MAIN_END();
}
