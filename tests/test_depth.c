/* The measures of the depth demo on arrays whose answer is known: the probe for positions, how alike
   tokens are, where a map looks, and attention without anything around it.                       */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "depth/maths.h"

enum { T = 64, C = 24, TEXTS = 64 };

/* x (TEXTS,T,C) of noise, plus signal * position in a direction of its own */
static float *noise_with_position(double signal, int seed)
{
    size_t n = (size_t)TEXTS * T * C;
    posenc_float *x = (posenc_float *)malloc(n * sizeof *x), way[C];
    fill_random_seeded(x, (int)n, (uint32_t)seed);
    fill_random_seeded(way, C, 99);
    for (size_t i = 0; i < n; i++) x[i] += (posenc_float)(signal * (double)(i / C % T) / T) * way[i % C];
    return x;
}

/* ---- the probe ------------------------------------------------------------------------------- */

/* y = 3 + x w exactly: without a penalty the weights come back, whatever the features' scale      */
TEST ridge_recovers_a_planted_line(void)
{
    enum { N = 200, D = 5 };
    float x[N * D];
    double y[N], guess[N], w[D] = { 2, -1, 0.5, 4, 0 };
    fill_random_seeded(x, N * D, 4);
    for (int i = 0; i < N; i++) {
        y[i] = 3;
        for (int d = 0; d < D; d++) {
            x[i * D + d] = x[i * D + d] * (float)(1 + 10 * d) + 7;
            y[i] += w[d] * (double)x[i * D + d];
        }
    }
    ridge r = ridge_sums(x, y, N, D, 1);
    ridge_at(&r, 1e-12);
    for (int d = 0; d < D; d++) ASSERT(fabs(r.weight[d] * r.scale[d] - w[d]) < 1e-6);
    ridge_read(&r, guess, x, N);
    ASSERT(r_squared(y, guess, N, 1) > 1 - 1e-9);
    ridge_at(&r, 1e12);                                    /* all penalty: the mean and nothing else */
    ridge_read(&r, guess, x, N);
    ASSERT(fabs(r_squared(y, guess, N, 1)) < 1e-6);
    ridge_free(&r);
    PASS();
}

/* A constant channel has no spread to divide by; it must not become a NaN or count.               */
TEST ridge_ignores_a_dead_channel(void)
{
    enum { N = 50 };
    float x[N * 2];
    double y[N], guess[N];
    for (int i = 0; i < N; i++) {
        x[2 * i] = (float)i;
        x[2 * i + 1] = 1e6f;
        y[i] = 2.0 * i;
    }
    ridge r = ridge_sums(x, y, N, 2, 1);
    ridge_at(&r, 1e-9);
    ridge_read(&r, guess, x, N);
    ASSERT(r.scale[1] == 0 && r_squared(y, guess, N, 1) > 0.999);
    ridge_free(&r);
    PASS();
}

TEST r_squared_of_known_guesses(void)
{
    const double y[4] = { 0, 1, 2, 3 }, mean[4] = { 1.5, 1.5, 1.5, 1.5 }, worse[4] = { 3, 2, 1, 0 };
    ASSERT(r_squared(y, y, 4, 1) == 1);
    ASSERT(fabs(r_squared(y, mean, 4, 1)) < 1e-12);
    ASSERT(fabs(r_squared(y, worse, 4, 1) + 3) < 1e-12);               /* 1 - 20/5 */
    PASS();
}

TEST probe_finds_a_planted_position(void)
{
    float *x = noise_with_position(8, 1);
    probed p = probe_position(x, TEXTS, T, C);
    ASSERT(p.r2 > 0.95);
    ASSERT(p.eighths > 0.25);               /* one line, eight stretches: only the ends are easy  */
    free(x);
    PASS();
}

TEST probe_finds_nothing_in_noise(void)
{
    float *x = noise_with_position(0, 2);
    probed p = probe_position(x, TEXTS, T, C);
    ASSERT(fabs(p.r2) < 0.02);
    ASSERT(fabs(p.eighths - 0.125) < 0.05);
    free(x);
    PASS();
}

TEST eighths_are_read_from_one_hot_positions(void)
{
    enum { N = TEXTS * T };
    float *x = (float *)calloc((size_t)N * T, sizeof *x);
    for (int i = 0; i < N; i++) x[(size_t)i * T + (size_t)(i % T)] = 1;
    probed p = probe_position(x, TEXTS, T, T);
    ASSERT(p.r2 > 0.99 && p.eighths > 0.99);
    free(x);
    PASS();
}

/* noise in [-1,1) has a variance of 1/3; even and odd positions at -1 and 1 add 1 to it            */
TEST share_is_that_of_the_variances(void)
{
    float *x = noise_with_position(0, 3);
    ASSERT(fabs(position_share(x, TEXTS, T, C)) < 0.003);
    for (size_t i = 0; i < (size_t)TEXTS * T * C; i++) x[i] += (i / C % T) % 2 ? 1.0f : -1.0f;
    ASSERT(fabs(position_share(x, TEXTS, T, C) - 1 / (1 + 1.0 / 3)) < 0.01);
    for (size_t i = 0; i < (size_t)TEXTS * T * C; i++) x[i] = (float)(i / C % T);
    ASSERT(position_share(x, TEXTS, T, C) == 1);
    free(x);
    PASS();
}

/* ---- how alike tokens are -------------------------------------------------------------------- */

TEST cosine_of_known_tokens(void)
{
    const float same[6] = { 1, 2, 2, 4, 3, 6 }, right[4] = { 1, 0, 0, 5 }, opposite[4] = { 1, 1, -2, -2 };
    const float zero[4] = { 1, 1, 0, 0 };
    ASSERT(fabs(mean_cosine(same, 3, 2) - 1) < 1e-12);
    ASSERT(fabs(mean_cosine(right, 2, 2)) < 1e-12);
    ASSERT(fabs(mean_cosine(opposite, 2, 2) + 1) < 1e-12);
    ASSERT(!(mean_cosine(zero, 2, 2) > -2));                           /* no direction: no number */
    PASS();
}

TEST stable_rank_of_known_matrices(void)
{
    double unit[36] = { 0 }, one[12], two[6] = { 3, 0, 0, 4, 0, 0 }, zero[4] = { 0 };
    for (int i = 0; i < 6; i++) unit[i * 7] = 5;
    for (int i = 0; i < 12; i++) one[i] = (i / 3 + 1.0) * (i % 3 - 0.5);
    ASSERT(fabs(stable_rank(unit, 6, 6) - 6) < 1e-9);
    ASSERT(fabs(stable_rank(one, 4, 3) - 1) < 1e-9);
    ASSERT(fabs(stable_rank(two, 3, 2) - 25.0 / 16) < 1e-9);           /* (9 + 16) / 16 */
    ASSERT(!(stable_rank(zero, 2, 2) > 0));
    PASS();
}

/* two equal blocks: the largest eigenvalue is a double one, and the start must not matter         */
TEST largest_eigenvalue_of_known_matrices(void)
{
    const double g[16] = { 2, 1, 0, 0, 1, 2, 0, 0, 0, 0, 2, 1, 0, 0, 1, 2 }, d[4] = { 1, 0, 0, 9 };
    ASSERT(fabs(largest_eigenvalue(g, 4) - 3) < 1e-9);
    ASSERT(fabs(largest_eigenvalue(d, 2) - 9) < 1e-9);
    PASS();
}

TEST distance_from_rank_one_of_known_tokens(void)
{
    const double alike[6] = { 1, 2, 1, 2, 1, 2 }, apart[4] = { 1, 1, -1, -1 }, half[4] = { 2, 0, 0, 0 };
    ASSERT(distance_from_rank_one(alike, 3, 2) < 1e-12);
    ASSERT(fabs(distance_from_rank_one(apart, 2, 2) - 1) < 1e-12);     /* mean 0 */
    ASSERT(fabs(distance_from_rank_one(half, 2, 2) - sqrt(0.5)) < 1e-12);
    PASS();
}

/* ---- where a map looks ----------------------------------------------------------------------- */

TEST look_of_known_maps(int causal)
{
    enum { N = 16, NEAR = 4, FIRST = 4 };
    float self[N * N] = { 0 }, before[N * N] = { 0 };
    look even = look_uniform(N, causal, NEAR, FIRST), own, last;
    double near = 0, distance = 0;
    for (int i = 0; i < N; i++) {
        self[i * N + i] = 1;
        before[i * N + (i ? i - 1 : 0)] = 1;
    }
    own = look_of(self, N, causal, NEAR, FIRST);
    last = look_of(before, N, causal, NEAR, FIRST);
    for (int i = FIRST; i < N; i++) {
        int seen = causal ? i + 1 : N;
        for (int j = 0; j < seen; j++) {
            near += (abs(i - j) < NEAR) / (double)seen / (N - FIRST);
            distance += abs(i - j) / (double)seen / (N - FIRST);
        }
    }
    ASSERT(fabs(even.entropy - 1) < 1e-6);
    ASSERT(fabs(even.near - near) < 1e-6 && fabs(even.distance - distance) < 1e-5);
    ASSERT(own.entropy == 0 && own.near == 1 && own.distance == 0);
    ASSERT(last.entropy == 0 && last.near == 1 && last.distance == 1);
    PASS();
}

/* ---- attention alone ------------------------------------------------------------------------- */

/* What it looks at is a mean, so without residuals to both sides all tokens are one after a few layers;
   with them they are not. Each map's rows add up to 1: equal tokens stay equal.                   */
TEST attention_alone_collapses_and_residuals_hold(void)
{
    alone bare = { 32, 16, 4, 0, 0, 3 }, held = { 32, 16, 4, 0, 1, 3 }, causal = { 32, 16, 4, 1, 0, 3 };
    double a[7], b[7], c[7];
    alone_run(a, &bare, 6);
    alone_run(b, &held, 6);
    alone_run(c, &causal, 6);
    ASSERT(a[0] == b[0] && a[0] > 0.9);
    ASSERT(a[6] < 1e-12);
    ASSERT(b[6] > 0.05);
    ASSERT(c[6] > 1e-6 && c[6] < c[1]);
    PASS();
}

/* The library's own attention, in the same layer: q, k, v from one input, heads side by side.     */
TEST attention_alone_is_attention(void)
{
    enum { t = 9, c = 8, h = 2, n = t * c };
    alone a = { t, c, h, 1, 0, 5 };
    double x[n], room[4 * n + t], q[n], k[n], v[n], y[n], out[n];
    float fq[n], fk[n], fv[n], fy[n], map[h * t * t];
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.causal = 1;
    for (int i = 0; i < n; i++) x[i] = sin(i * i + 1.0);
    alone__product(q, x, &a, 0, 0);
    alone__product(k, x, &a, 0, 1);
    alone__product(v, x, &a, 0, 2);
    for (int i = 0; i < n; i++) { fq[i] = (float)q[i]; fk[i] = (float)k[i]; fv[i] = (float)v[i]; }
    posenc_attention_plain_forward(posenc_heads_bthd(fy, 1, t, h, c / h), map,
                                   posenc_heads_bthd(fq, 1, t, h, c / h),
                                   posenc_heads_bthd(fk, 1, t, h, c / h),
                                   posenc_heads_bthd(fv, 1, t, h, c / h), &how);
    for (int i = 0; i < n; i++) y[i] = (double)fy[i];
    alone__product(out, y, &a, 0, 3);
    alone__layer(x, room, &a, 0);
    for (int i = 0; i < n; i++) ASSERT(fabs(x[i] - out[i]) < 1e-5);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(ridge_recovers_a_planted_line);
    RUN_TEST(ridge_ignores_a_dead_channel);
    RUN_TEST(r_squared_of_known_guesses);
    RUN_TEST(probe_finds_a_planted_position);
    RUN_TEST(probe_finds_nothing_in_noise);
    RUN_TEST(eighths_are_read_from_one_hot_positions);
    RUN_TEST(share_is_that_of_the_variances);
    RUN_TEST(cosine_of_known_tokens);
    RUN_TEST(stable_rank_of_known_matrices);
    RUN_TEST(largest_eigenvalue_of_known_matrices);
    RUN_TEST(distance_from_rank_one_of_known_tokens);
    RUN_TEST1(look_of_known_maps, 0);
    RUN_TEST1(look_of_known_maps, 1);
    RUN_TEST(attention_alone_collapses_and_residuals_hold);
    RUN_TEST(attention_alone_is_attention);
    GREATEST_MAIN_END();
}
