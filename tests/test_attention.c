/* Attention's values: against a loop in double that follows the definition, the tiled version
   against the plain one, at sizes that cross tile edges, and at the edges of the masks.          */
#include "posenc.h"
#include "check.h"
#include "attention_cases.h"

static attention_run run;

/* ---- the definition, in double --------------------------------------------------------------- */

/* The channels of one head, turned by hand: y = m R x, as [2.5] says, for the row of token
   (b,t).                                                                                         */
static void turned(double *y, posenc_heads x, const posenc_turns *turns, int b, int t, int h)
{
    const posenc_float *p = x.data + b * x.sb + t * x.st + h * x.sh;
    for (int d = 0; d < x.D; d++) y[d] = (double)p[d];
    if (!turns || b * turns->row_b + t >= turns->rows) return;
    for (int i = 0; i < turns->pairs; i++) {
        int half = turns->layout == POSENC_HALF;
        int one = turns->offset + (half ? i : 2 * i), two = one + (half ? turns->pairs : 1);
        double c = (double)turns->cosine[(b * turns->row_b + t) * turns->pairs + i];
        double s = (double)turns->sine  [(b * turns->row_b + t) * turns->pairs + i];
        double x1 = y[one], x2 = y[two];
        y[one] = x1 * c - x2 * s;
        y[two] = x1 * s + x2 * c;
    }
}

static int may_see(const attention_run *r, int b, int i, int j)
{
    const posenc_attention *how = &r->how;
    int at = i + r->c.Tk - r->c.Tq;
    if (how->causal && j > at) return 0;
    if (how->window && abs(at - j) >= how->window) return 0;
    if (how->keep && !how->keep[b * r->c.Tk + j]) return 0;
    if (how->q_segment && how->q_segment[b * r->c.Tq + i] != how->k_segment[b * r->c.Tk + j])
        return 0;
    return 1;
}

/* out and the map before dropout; mask: what dropout does to a map of ones */
static void definition(double *out, double *map, const attention_run *r, const posenc_float *mask)
{
    int B = r->c.B, Tq = r->c.Tq, Tk = r->c.Tk, H = r->c.H, Hk = r->c.Hk, D = r->c.D;
    const posenc_attention *how = &r->how;
    double scale = how->scale != 0.0 ? how->scale : 1.0 / sqrt(D);
    double q[128], k[128];
    for (int b = 0; b < B; b++) for (int h = 0; h < H; h++) for (int i = 0; i < Tq; i++) {
        double *p = map + (((size_t)b * H + h) * Tq + i) * Tk,
               *o = out + (((size_t)b * Tq + i) * H + h) * D;
        double top = -HUGE_VAL, sum = 0.0;
        turned(q, r->q, how->q_turns, b, i, h);
        for (int j = 0; j < Tk; j++) {
            double score = 0.0;
            if (!may_see(r, b, i, j)) { p[j] = -HUGE_VAL; continue; }
            turned(k, r->k, how->k_turns, b, j, h * Hk / H);
            for (int d = 0; d < D; d++) score += q[d] * k[d];
            score *= scale;
            if (how->bias) {
                int n = (how->q_at ? how->q_at[b * Tq + i] : i + Tk - Tq)
                        - (how->k_at ? how->k_at[b * Tk + j] : j);
                n = n > how->past ? how->past : n < -how->future ? -how->future : n;
                score += (double)how->bias[h * (how->future + 1 + how->past) + n + how->future];
            }
            if (how->row_bias) score += (double)r->pattern.table[h * 7 + pattern_row(b, i, j)];
            p[j] = score;
            if (score > top) top = score;
        }
        for (int j = 0; j < Tk; j++) sum += p[j] = p[j] > -HUGE_VAL ? exp(p[j] - top) : 0.0;
        for (int j = 0; j < Tk; j++) if (sum > 0.0) p[j] /= sum;
        for (int d = 0; d < D; d++) {
            o[d] = 0.0;
            for (int j = 0; j < Tk; j++)
                o[d] += p[j] * (double)mask[p - map + j]
                      * (double)r->v.data[(((size_t)b * Tk + j) * Hk + h * Hk / H) * D + d];
        }
    }
}

/* rounded to posenc_float, for ASSERT_CLOSE */
static posenc_float *rounded(const double *x, size_t n)
{
    posenc_float *y = take(n);
    for (size_t i = 0; i < n; i++) y[i] = (posenc_float)x[i];
    return y;
}

/* the case that was begun last */
TEST both_versions_are_right(void)
{
    double *out, *map;
    posenc_float *ones, *mask, *expected, *expected_map;
    out = (double *)take_bytes(run.q_count * sizeof *out);
    map = (double *)take_bytes(run.map_count * sizeof *map);
    ones = take(run.map_count);
    mask = take(run.map_count);
    for (size_t i = 0; i < run.map_count; i++) ones[i] = (posenc_float)1;
    posenc_dropout_apply(mask, ones, run.map_count, run.how.dropout);
    definition(out, map, &run, mask);
    expected = rounded(out, run.q_count);
    expected_map = rounded(map, run.map_count);

    attention_plain_forward(&run);
    ASSERT_CLOSE(expected, run.out.data, run.q_count, 1e-5);
    if (run.c.dropout == 0.0) ASSERT_CLOSE(expected_map, run.map, run.map_count, 1e-5);
    memset(run.out.data, 0xff, run.q_count * sizeof(posenc_float));
    attention_tiled_forward(&run);
    ASSERT_CLOSE(expected, run.out.data, run.q_count, 1e-5);
    PASS();
}

TEST both_versions_follow_the_definition(const attention_case *c)
{
    attention_begin(&run, *c);
    CHECK_CALL(both_versions_are_right());
    PASS();
}

/* Tables that end inside the second sample: what lies past them is not turned, nor is the table
   read there.                                                                                    */
TEST tokens_past_a_table_of_turns_are_not_turned(int layout)
{
    attention_case c = { .B = 2, .Tq = 40, .Tk = 70, .H = 2, .Hk = 2, .D = 8 };
    c.turns = layout;
    attention_begin(&run, c);
    run.q_turns.rows = 40 + 7;
    run.k_turns.rows = 70 + 9;
    for (int n = run.q_turns.rows * 4; n < 2 * 40 * 4; n++)
        run.q_turns.cosine[n] = run.q_turns.sine[n] = (posenc_float)NAN;
    for (int n = run.k_turns.rows * 4; n < 2 * 70 * 4; n++)
        run.k_turns.cosine[n] = run.k_turns.sine[n] = (posenc_float)NAN;
    CHECK_CALL(both_versions_are_right());
    attention_tiled_backward(&run);
    ASSERT_LTE(max_abs_diff(run.dq.data, run.dq.data, run.q_count), 0.0);               /* no NaN */
    ASSERT_LTE(max_abs_diff(run.dk.data, run.dk.data, run.k_count), 0.0);
    PASS();
}

/* ---- tiled against plain --------------------------------------------------------------------- */

/* Gradients of a key sum over many queries: 1e-5 of the largest entry, when that is above 1. */
static double largest(const posenc_float *x, size_t n)
{
    double top = 1.0;
    for (size_t i = 0; i < n; i++) if (fabs((double)x[i]) > top) top = fabs((double)x[i]);
    return top;
}
#define ASSERT_AGREE(PLAIN, TILED, N) ASSERT_CLOSE(PLAIN, TILED, N, 1e-5 * largest(PLAIN, N))

/* Forward and backward with both, from the same numbers. */
TEST versions_agree(attention_case c)
{
    posenc_float *out, *dq, *dk, *dv, *dbias = NULL, *drow = NULL;
    attention_begin(&run, c);
    attention_plain_forward(&run);
    attention_plain_backward(&run);
    out = run.out.data; dq = run.dq.data; dk = run.dk.data; dv = run.dv.data;
    run.out.data = take(run.q_count); run.dq.data = take(run.q_count);
    run.dk.data  = take(run.k_count); run.dv.data = take(run.k_count);
    if (run.bias) { dbias = run.dbias; run.dbias = take_zero(run.bias_count); }
    if (c.row_bias) {
        drow = run.pattern.dtable;
        run.pattern.dtable = take_zero((size_t)c.H * 7);
        pattern_restart(&run.pattern);
    }
    attention_tiled_forward(&run);
    attention_tiled_backward(&run);
    ASSERT_AGREE(out, run.out.data, run.q_count);
    ASSERT_AGREE(dq, run.dq.data, run.q_count);
    ASSERT_AGREE(dk, run.dk.data, run.k_count);
    ASSERT_AGREE(dv, run.dv.data, run.k_count);
    if (run.bias) ASSERT_AGREE(dbias, run.dbias, run.bias_count);
    if (c.row_bias) ASSERT_AGREE(drow, run.pattern.dtable, (size_t)c.H * 7);
    PASS();
}

TEST tiled_agrees_with_plain(const attention_case *c)
{
    CHECK_CALL(versions_agree(*c));
    PASS();
}

static const int widths[] = { 4, 16, 30, 64, 80 };

TEST tiled_agrees_with_plain_at_length(int T)
{
    for (int n = 0; n < 5; n++) {
        attention_case c = { .B = 1, .Tq = T, .Tk = T, .H = 1, .Hk = 1, .D = widths[n] };
        CHECK_CALL(versions_agree(c));
        c.causal = 1;
        CHECK_CALL(versions_agree(c));
        c.window = 7;
        CHECK_CALL(versions_agree(c));
        c.causal = 0;
        CHECK_CALL(versions_agree(c));
    }
    PASS();
}

TEST tiled_agrees_with_plain_with_everything_at_length(int T)
{
    for (int n = 0; n < 5; n++) {
        attention_case c = { .B = 1, .Tq = T, .Tk = T, .H = 1, .Hk = 1, .D = widths[n],
                             .past = 20, .future = 9,
                             .padding = 1, .row_bias = 1, .turns = POSENC_HALF };
        c.dropout = widths[n] <= 16 ? 0.2 : 0.0; /* the plain version draws anew for each channel */
        c.causal = c.segments = n % 2;
        CHECK_CALL(versions_agree(c));
    }
    PASS();
}

TEST tiled_agrees_with_plain_for_a_cache_of(int Tk)
{
    static const int queries[] = { 1, 2, 31, 33, 65 };
    for (int n = 0; n < 5; n++) {
        attention_case c = { .B = 1, .Tq = queries[n], .Tk = Tk, .H = 2, .Hk = 1, .D = 16,
                             .causal = 1,
                             .past = 50 };
        CHECK_CALL(versions_agree(c));
    }
    PASS();
}

/* ---- the edges ------------------------------------------------------------------------------- */

static int all_zero(const posenc_float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) if (!((double)x[i] == 0.0)) return 0;
    return 1;
}

/* a second row of the batch that is padding from end to end */
static unsigned char *hide_second_row(int Tk)
{
    unsigned char *keep = (unsigned char *)take_bytes((size_t)2 * Tk);
    for (int j = 0; j < 2 * Tk; j++) keep[j] = j < Tk;
    return keep;
}

TEST fully_masked_rows_give_zero_and_no_gradient(int T, int tiled)
{
    attention_case c = { .B = 2, .Tq = T, .Tk = T, .H = 2, .Hk = 2, .D = 8, .past = T,
                         .future = T, .row_bias = 1 };
    size_t half;
    attention_begin(&run, c);
    run.how.keep = hide_second_row(T);
    half = run.q_count / 2;
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT(all_zero(run.out.data + half, half));
    ASSERT(all_zero(run.dq.data + half, half));
    ASSERT(all_zero(run.dk.data + half, half));
    ASSERT(all_zero(run.dv.data + half, half));
    ASSERT_LTE(max_abs_diff(run.dbias, run.dbias, run.bias_count), 0.0);                /* no NaN */
    ASSERT_LTE(max_abs_diff(run.pattern.dtable, run.pattern.dtable, 14), 0.0);
    ASSERT_LTE(max_abs_diff(run.dk.data, run.dk.data, half), 0.0);
    ASSERT_FALSE(all_zero(run.out.data, half));
    ASSERT_FALSE(all_zero(run.dv.data, half));
    PASS();
}

/* With more queries than keys the first queries stand before the first key: causal, they see
   nothing.                                                                                       */
TEST queries_before_the_first_key_give_zero(int tiled)
{
    attention_case c = { .B = 1, .Tq = 5, .Tk = 3, .H = 1, .Hk = 1, .D = 4, .causal = 1 };
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT(all_zero(run.out.data, 2 * 4));
    ASSERT(all_zero(run.dq.data, 2 * 4));
    ASSERT_CLOSE(run.v.data, run.out.data + 2 * 4, 4, 1e-7);          /* query 2 sees key 0 alone */
    ASSERT_LTE(max_abs_diff(run.dk.data, run.dk.data, run.k_count), 0.0);
    PASS();
}

/* One query, one key: the softmax is 1 whatever the score. */
TEST one_token_returns_its_value(int tiled)
{
    attention_case c = { .B = 2, .Tq = 1, .Tk = 1, .H = 3, .Hk = 3, .D = 5, .causal = 1 };
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT_CLOSE(run.v.data, run.out.data, run.q_count, 1e-6);
    ASSERT_CLOSE(run.dout.data, run.dv.data, run.q_count, 1e-6);
    ASSERT(max_abs_diff(run.dq.data, take_zero(run.q_count), run.q_count) <= 1e-6);
    ASSERT(max_abs_diff(run.dk.data, take_zero(run.k_count), run.k_count) <= 1e-6);
    PASS();
}

TEST map_rows_sum_to_one_or_to_zero(const attention_case *c)
{
    attention_begin(&run, *c);
    run.how.dropout.rate = 0.0;
    attention_plain_forward(&run);
    for (int r = 0; r < run.c.B * c->H * c->Tq; r++) {
        const posenc_float *p = run.map + (size_t)r * c->Tk;
        int b = r / c->Tq / c->H, i = r % c->Tq;
        double sum = 0.0;
        int seen = 0;
        for (int j = 0; j < c->Tk; j++) {
            sum += (double)p[j];
            if (may_see(&run, b, i, j)) seen = 1;
            else ASSERT_EQ((double)p[j], 0.0);
        }
        ASSERT_LTE(fabs(sum - seen), 1e-5);
    }
    PASS();
}

TEST plain_forward_without_out_stops_at_the_map(void)
{
    attention_case c = { .Tq = 9, .Tk = 9, .H = 3, .Hk = 3, .D = 8, .causal = 1, .past = 8 };
    posenc_float *map;
    posenc_heads nowhere;
    attention_begin(&run, c);
    attention_plain_forward(&run);
    map = run.map;
    run.map = take(run.map_count);
    nowhere = run.out;
    nowhere.data = NULL;
    posenc_attention_plain_forward(nowhere, run.map, run.q, run.k, run.v, &run.how);
    ASSERT_MEM_EQ(map, run.map, run.map_count * sizeof *map);
    PASS();
}

/* lse is the log of the sum of exp of the scores: recomputed from the plain map's largest entry. */
TEST saved_logarithm_gives_back_the_map(void)
{
    attention_case c = { .B = 1, .Tq = 40, .Tk = 70, .H = 1, .Hk = 1, .D = 8, .causal = 1 };
    attention_begin(&run, c);
    attention_plain_forward(&run);
    attention_tiled_forward(&run);
    for (int i = 0; i < 40; i++) for (int j = 0; j <= i + 30; j++) {
        double score = weighted_sum(run.q.data + i * 8, run.k.data + j * 8, 8) / sqrt(8.0);
        ASSERT_LTE(fabs(exp(score - (double)run.lse[i]) - (double)run.map[i * 70 + j]), 1e-5);
    }
    PASS();
}

/* Scores of several thousand: the largest takes all, nothing overflows, in either direction. */
TEST huge_scores_do_not_overflow(int tiled)
{
    attention_case c = { .B = 1, .Tq = 40, .Tk = 40, .H = 1, .Hk = 1, .D = 4, .scale = 20000.0,
                         .causal = 1 };
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    for (int i = 0; i < 40; i++) {
        int best = 0;
        for (int j = 1; j <= i; j++)
            if (weighted_sum(run.q.data + i * 4, run.k.data + j * 4, 4)
                > weighted_sum(run.q.data + i * 4, run.k.data + best * 4, 4)) best = j;
        ASSERT_CLOSE(run.v.data + best * 4, run.out.data + i * 4, 4, 1e-3);
    }
    ASSERT_LTE(max_abs_diff(run.dq.data, run.dq.data, run.q_count), 0.0);
    ASSERT_LTE(max_abs_diff(run.dk.data, run.dk.data, run.k_count), 0.0);
    ASSERT_LTE(max_abs_diff(run.dv.data, run.dv.data, run.k_count), 0.0);
    PASS();
}

/* Minus infinity from a callback hides a key as a mask does, and a whole row of it gives zero. */
static void hide_odd_keys(void *user, posenc_float *row, int b, int h, int i, int j0, int n)
{
    (void)user; (void)b; (void)h;
    for (int j = 0; j < n; j++) if (i == 3 || (j0 + j) % 2) row[j] = -(posenc_float)INFINITY;
}
TEST minus_infinity_in_a_row_bias_hides_keys(int T, int tiled)
{
    attention_case c = { .B = 1, .Tq = T, .Tk = T, .H = 2, .Hk = 2, .D = 4 };
    posenc_row_bias hide = { hide_odd_keys, NULL, NULL };
    unsigned char *keep;
    posenc_float *out, *dk;
    attention_begin(&run, c);
    keep = (unsigned char *)take_bytes((size_t)T);
    for (int j = 0; j < T; j++) keep[j] = j % 2 == 0;
    run.how.keep = keep;
    attention_plain_forward(&run);
    attention_plain_backward(&run);
    out = run.out.data; dk = run.dk.data;
    run.out.data = take(run.q_count);
    run.how.keep = NULL;
    run.how.row_bias = &hide;
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT(all_zero(run.out.data + 3 * 8, 8));
    ASSERT(all_zero(run.dq.data + 3 * 8, 8));
    ASSERT_CLOSE(out, run.out.data, 3 * 8, 1e-6);
    ASSERT_CLOSE(out + 4 * 8, run.out.data + 4 * 8, run.q_count - 4 * 8, 1e-6);
    ASSERT(all_zero(run.dk.data + 8, 8));
    ASSERT_LTE(max_abs_diff(dk, run.dk.data, run.k_count), 10.0);                       /* no NaN */
    PASS();
}

/* "No limit" written as the largest number there is. */
TEST widest_window_hides_nothing(int tiled)
{
    attention_case c = { .Tq = 9, .Tk = 12, .H = 2, .Hk = 2, .D = 8 };
    posenc_float *out;
    attention_begin(&run, c);
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    out = run.out.data;
    run.out.data = take(run.q_count);
    run.how.window = 2147483647;
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    ASSERT_MEM_EQ(out, run.out.data, run.q_count * sizeof *out);
    PASS();
}

/* A score that is not a number must not pass for a hidden one: the only key of query 0 has one. */
TEST nan_in_the_only_key_is_not_hidden(int tiled)
{
    attention_case c = { .B = 1, .Tq = 3, .Tk = 3, .H = 1, .Hk = 1, .D = 4, .causal = 1 };
    attention_begin(&run, c);
    run.k.data[0] = (posenc_float)NAN;
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    for (int n = 0; n < 12; n++) ASSERT(isnan((double)run.out.data[n]));
    PASS();
}

/* ---- dropout of the map ---------------------------------------------------------------------- */

TEST dropout_of_everything_gives_zero(int tiled)
{
    attention_case c = { .Tq = 9, .Tk = 9, .H = 3, .Hk = 3, .D = 8, .dropout = 1.0, .past = 8,
                         .future = 8 };
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT(all_zero(run.out.data, run.q_count));
    ASSERT(all_zero(run.dq.data, run.q_count));
    ASSERT(all_zero(run.dk.data, run.k_count));
    ASSERT(all_zero(run.dv.data, run.k_count));
    ASSERT(all_zero(run.dbias, run.bias_count));
    PASS();
}

TEST dropout_of_nothing_changes_nothing(void)
{
    attention_case c = { .Tq = 40, .Tk = 40, .H = 2, .Hk = 2, .D = 8, .causal = 1 };
    posenc_float *out;
    attention_begin(&run, c);
    attention_tiled_forward(&run);
    out = run.out.data;
    run.out.data = take(run.q_count);
    run.how.dropout.seed = 99;
    run.how.dropout.site = 5;
    attention_tiled_forward(&run);
    ASSERT_MEM_EQ(out, run.out.data, run.q_count * sizeof *out);
    PASS();
}

/* Sample b alone, with the index of its first element, draws what it drew inside the batch. */
TEST dropout_does_not_depend_on_how_the_batch_is_cut(void)
{
    attention_case c = { .B = 3, .Tq = 35, .Tk = 35, .H = 2, .Hk = 2, .D = 8, .causal = 1,
                         .dropout = 0.4 };
    posenc_float *whole;
    posenc_heads q, k, v, out;
    size_t one;
    attention_begin(&run, c);
    attention_tiled_forward(&run);
    whole = run.out.data;
    one = run.q_count / 3;
    q = run.q; k = run.k; v = run.v; out = run.out;
    out.data = take(one);
    q.B = k.B = v.B = out.B = 1;
    for (int b = 0; b < 3; b++) {
        posenc_attention how = run.how;
        how.dropout.first += (uint64_t)b * 2 * 35 * 35;
        q.data = run.q.data + b * one; k.data = run.k.data + b * one; v.data = run.v.data + b * one;
        posenc_attention_forward(out, run.lse, q, k, v, &how, run.scratch);
        ASSERT_MEM_EQ((whole + b * one), out.data, one * sizeof *whole);
    }
    PASS();
}

/* ---- views and grouping ---------------------------------------------------------------------- */

/* q, k and v side by side in one (B,T,3,H,D) buffer, gradients likewise: what a fused projection
   gives.                                                                                         */
TEST strided_views_give_the_same_bits(void)
{
    enum { B = 2, T = 37, H = 3, D = 8, N = B * T * H * D };
    attention_case c = { .B = B, .Tq = T, .Tk = T, .H = H, .Hk = H, .D = D, .causal = 1,
                         .past = T };
    posenc_float *qkv, *dqkv, *dbias;
    posenc_heads view[3], grad[3], given[3], expected[3];
    attention_begin(&run, c);
    attention_tiled_forward(&run);
    attention_tiled_backward(&run);
    given[0] = run.q; given[1] = run.k; given[2] = run.v;
    expected[0] = run.dq; expected[1] = run.dk; expected[2] = run.dv;
    qkv = take(3 * N); dqkv = take(3 * N); dbias = take_zero(run.bias_count);
    for (int n = 0; n < 3; n++) {
        view[n] = given[n];
        view[n].data = qkv + n * H * D;
        view[n].sb = 3 * T * H * D;
        view[n].st = 3 * H * D;
        view[n].sh = D;
        grad[n] = view[n];
        grad[n].data = dqkv + n * H * D;
        for (int i = 0; i < B * T; i++)
            memcpy(qkv + (i * 3 + n) * H * D, given[n].data + i * H * D, H * D * sizeof *qkv);
    }
    {
        posenc_float *out = take(N);
        posenc_attention_forward(posenc_heads_bthd(out, B, T, H, D), run.lse, view[0], view[1],
                                 view[2], &run.how, run.scratch);
        ASSERT_MEM_EQ(run.out.data, out, N * sizeof *out);
        posenc_attention_backward(grad[0], grad[1], grad[2], dbias, run.dout, run.out, run.lse,
                                  view[0], view[1], view[2], &run.how, run.scratch);
    }
    for (int n = 0; n < 3; n++) for (int i = 0; i < B * T; i++)
        ASSERT_MEM_EQ((expected[n].data + i * H * D), (dqkv + (i * 3 + n) * H * D),
                      H * D * sizeof *qkv);
    ASSERT_MEM_EQ(run.dbias, dbias, run.bias_count * sizeof *dbias);
    PASS();
}

/* (B,H,T,D) memory gives what (B,T,H,D) memory gives, in both versions. */
TEST heads_first_memory_gives_the_same(int tiled)
{
    enum { B = 2, T = 37, H = 3, D = 8, N = B * T * H * D };
    attention_case c = { .B = B, .Tq = T, .Tk = T, .H = H, .Hk = H, .D = D, .causal = 1 };
    posenc_float *moved[4];
    posenc_heads q, k, v, out;
    attention_begin(&run, c);
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    for (int n = 0; n < 4; n++) moved[n] = take(N);
    for (int from = 0; from < N; from++) {
        int d = from % D, h = from / D % H, t = from / D / H % T, b = from / D / H / T;
        int to = ((b * H + h) * T + t) * D + d;
        moved[0][to] = run.q.data[from];
        moved[1][to] = run.k.data[from];
        moved[2][to] = run.v.data[from];
    }
    q = posenc_heads_bhtd(moved[0], B, H, T, D); k = posenc_heads_bhtd(moved[1], B, H, T, D);
    v = posenc_heads_bhtd(moved[2], B, H, T, D); out = posenc_heads_bhtd(moved[3], B, H, T, D);
    if (tiled) posenc_attention_forward(out, run.lse, q, k, v, &run.how, run.scratch);
    else       posenc_attention_plain_forward(out, run.map, q, k, v, &run.how);
    for (int b = 0; b < B; b++) for (int t = 0; t < T; t++) for (int h = 0; h < H; h++)
        ASSERT_MEM_EQ((run.out.data + ((b * T + t) * H + h) * D),
                      (moved[3] + ((b * H + h) * T + t) * D), D * sizeof(posenc_float));
    PASS();
}

/* Grouped heads equal full heads whose keys and values are written out once per query head; the
   gradient of a shared key is the sum over its group.                                            */
TEST grouped_heads_equal_repeated_heads(int tiled)
{
    enum { B = 2, T = 33, H = 6, HK = 2, G = H / HK, D = 8 };
    attention_case c = { .B = B, .Tq = T, .Tk = T, .H = H, .Hk = HK, .D = D, .causal = 1 };
    posenc_float *sum_k, *sum_v;
    attention_run one;
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    one = run;
    one.c.Hk = H;
    one.k = take_heads(B, T, H, D, 0); one.v = take_heads(B, T, H, D, 0);
    one.dk = take_heads(B, T, H, D, 0); one.dv = take_heads(B, T, H, D, 0);
    one.dq = take_heads(B, T, H, D, 0); one.out = take_heads(B, T, H, D, 0);
    for (int i = 0; i < B * T; i++) for (int h = 0; h < H; h++) {
        memcpy(one.k.data + (i * H + h) * D, run.k.data + (i * HK + h / G) * D,
               D * sizeof(posenc_float));
        memcpy(one.v.data + (i * H + h) * D, run.v.data + (i * HK + h / G) * D,
               D * sizeof(posenc_float));
    }
    if (tiled) { attention_tiled_forward(&one); attention_tiled_backward(&one); }
    else       { attention_plain_forward(&one); attention_plain_backward(&one); }
    sum_k = take_zero(run.k_count); sum_v = take_zero(run.k_count);
    for (int i = 0; i < B * T; i++) for (int h = 0; h < H; h++) for (int d = 0; d < D; d++) {
        sum_k[(i * HK + h / G) * D + d] += one.dk.data[(i * H + h) * D + d];
        sum_v[(i * HK + h / G) * D + d] += one.dv.data[(i * H + h) * D + d];
    }
    ASSERT_CLOSE(one.out.data, run.out.data, run.q_count, 1e-6);
    ASSERT_CLOSE(one.dq.data, run.dq.data, run.q_count, 1e-6);
    ASSERT_CLOSE(sum_k, run.dk.data, run.k_count, 1e-5);
    ASSERT_CLOSE(sum_v, run.dv.data, run.k_count, 1e-5);
    PASS();
}

/* ---- position enters ------------------------------------------------------------------------- */

/* Turning on the way in equals turning a copy beforehand, and turning the gradients back
   afterwards.                                                                                    */
TEST turning_on_the_way_in_equals_turning_before(int tiled)
{
    attention_case c = { .B = 2, .Tq = 40, .Tk = 67, .H = 4, .Hk = 2, .D = 16, .causal = 1,
                         .turns = POSENC_HALF, .turn_offset = 4, .turn_pairs = 5 };
    posenc_float *out, *dq, *dk, *dv;
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    out = run.out.data; dq = run.dq.data; dk = run.dk.data; dv = run.dv.data;
    run.out.data = take(run.q_count); run.dq.data = take(run.q_count);
    run.dk.data = take(run.k_count); run.dv.data = take(run.k_count);
    run.how.q_turns = run.how.k_turns = NULL;
    posenc_turn(run.q, run.q_turns);
    posenc_turn(run.k, run.k_turns);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    posenc_turn_back(run.dq, run.q_turns);
    posenc_turn_back(run.dk, run.k_turns);
    ASSERT_CLOSE(out, run.out.data, run.q_count, 1e-6);
    ASSERT_CLOSE(dq, run.dq.data, run.q_count, 1e-5);
    ASSERT_CLOSE(dk, run.dk.data, run.k_count, 1e-5);
    ASSERT_CLOSE(dv, run.dv.data, run.k_count, 1e-5);
    PASS();
}

/* Queries and keys are inputs: attention that turns them must not change the caller's. */
TEST inputs_are_left_as_they_were(int tiled)
{
    attention_case c = { .B = 2, .Tq = 33, .Tk = 65, .H = 4, .Hk = 2, .D = 8, .causal = 1,
                         .past = 60,
                         .turns = POSENC_INTERLEAVED };
    posenc_float *q, *k, *v, *bias;
    attention_begin(&run, c);
    q = take(run.q_count);
    k = take(run.k_count);
    v = take(run.k_count);
    bias = take(run.bias_count);
    memcpy(q, run.q.data, run.q_count * sizeof *q); memcpy(k, run.k.data, run.k_count * sizeof *k);
    memcpy(v, run.v.data, run.k_count * sizeof *v);
    memcpy(bias, run.bias, run.bias_count * sizeof *bias);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT_MEM_EQ(q, run.q.data, run.q_count * sizeof *q);
    ASSERT_MEM_EQ(k, run.k.data, run.k_count * sizeof *k);
    ASSERT_MEM_EQ(v, run.v.data, run.k_count * sizeof *v);
    ASSERT_MEM_EQ(bias, run.bias, run.bias_count * sizeof *bias);
    PASS();
}

/* dbias and the callback's sums are added to, dq, dk, dv are overwritten (take() fills them with
   NaN).                                                                                          */
TEST gradient_of_the_bias_is_added_to(int tiled)
{
    attention_case c = { .Tq = 9, .Tk = 9, .H = 3, .Hk = 3, .D = 8, .past = 8, .future = 8 };
    posenc_float *once;
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    once = run.dbias;
    run.dbias = take(run.bias_count);
    for (size_t e = 0; e < run.bias_count; e++) {
        run.dbias[e] = (posenc_float)5;
        once[e] += (posenc_float)5;
    }
    if (tiled) attention_tiled_backward(&run); else attention_plain_backward(&run);
    ASSERT_CLOSE(once, run.dbias, run.bias_count, 2e-6);
    PASS();
}

TEST backward_without_dbias_gives_the_same_gradients(int tiled)
{
    attention_case c = { .Tq = 40, .Tk = 40, .H = 3, .Hk = 3, .D = 8, .past = 8, .future = 8 };
    posenc_float *dq;
    attention_begin(&run, c);
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    dq = run.dq.data;
    run.dq.data = take(run.q_count);
    run.dbias = NULL;
    if (tiled) attention_tiled_backward(&run); else attention_plain_backward(&run);
    ASSERT_MEM_EQ(dq, run.dq.data, run.q_count * sizeof *dq);
    PASS();
}

/* A distance bias given as a vector equals the same bias given row by row. */
static void vector_as_rows(void *user, posenc_float *row, int b, int h, int i, int j0, int n)
{
    const attention_run *r = (const attention_run *)user;
    (void)b;
    for (int j = 0; j < n; j++) {
        int d = i + r->c.Tk - r->c.Tq - (j0 + j);
        d = d > r->c.past ? r->c.past : d < -r->c.future ? -r->c.future : d;
        row[j] += r->bias[h * (r->c.future + 1 + r->c.past) + d + r->c.future];
    }
}
TEST vector_and_callback_agree(int Tq, int Tk)
{
    attention_case c = { .Tq = Tq, .Tk = Tk, .H = 3, .Hk = 3, .D = 8, .past = 30, .future = 12 };
    posenc_row_bias rows = { vector_as_rows, NULL, NULL };
    posenc_float *out;
    attention_begin(&run, c);
    rows.user = &run;
    attention_tiled_forward(&run);
    out = run.out.data;
    run.out.data = take(run.q_count);
    run.how.bias = NULL;
    run.how.row_bias = &rows;
    attention_tiled_forward(&run);
    ASSERT_CLOSE(out, run.out.data, run.q_count, 1e-6);
    PASS();
}

TEST callback_of_the_backward_comes_in_order(int tiled)
{
    attention_case c = { .B = 2, .Tq = 70, .Tk = 135, .H = 3, .Hk = 1, .D = 8, .row_bias = 1 };
    attention_begin(&run, c);
    run.how.threads = 2;
    run.scratch = take(posenc_attention_scratch(2, 70, 135, 3, 8, &run.how));
    if (tiled) { attention_tiled_forward(&run); attention_tiled_backward(&run); }
    else       { attention_plain_forward(&run); attention_plain_backward(&run); }
    ASSERT_GTE(run.pattern.calls, 2 * 3 * 70);
    ASSERT(run.pattern.in_order);
    /* to the last key */
    for (int i = 0; i < 70; i++) ASSERT_EQ_FMT(135, run.pattern.next[i], "%d");
    PASS();
}

/* Only distances matter: the same rows and positions, shifted by 1000 in a table of distances. */
TEST shifted_positions_change_nothing(void)
{
    attention_case c = { .Tq = 9, .Tk = 9, .H = 3, .Hk = 3, .D = 8, .past = 20, .future = 15,
                         .at = 1 };
    posenc_float *out;
    attention_begin(&run, c);
    attention_tiled_forward(&run);
    out = run.out.data;
    run.out.data = take(run.q_count);
    for (int n = 0; n < 2 * 9; n++) {
        ((int *)run.how.q_at)[n] += 1000000;
        ((int *)run.how.k_at)[n] += 1000000;
    }
    attention_tiled_forward(&run);
    ASSERT_MEM_EQ(out, run.out.data, run.q_count * sizeof *out);
    for (int n = 0; n < 2 * 9; n++) ((int *)run.how.q_at)[n] += 1;
    attention_tiled_forward(&run);
    ASSERT_GT(max_abs_diff(out, run.out.data, run.q_count), 1e-3);
    PASS();
}

/* One token at a time against a growing cache gives what all at once gives. */
TEST one_query_at_a_time_equals_all_at_once(void)
{
    enum { T = 70, H = 2, D = 8 };
    attention_case c = { .B = 1, .Tq = T, .Tk = T, .H = H, .Hk = H, .D = D, .causal = 1,
                         .window = 40, .past = T };
    posenc_float *out;
    attention_begin(&run, c);
    attention_tiled_forward(&run);
    out = take(H * D);
    for (int t = 0; t < T; t++) {
        posenc_heads q = posenc_heads_bthd(run.q.data + t * H * D, 1, 1, H, D);
        posenc_heads k = posenc_heads_bthd(run.k.data, 1, t + 1, H, D),
                     v = posenc_heads_bthd(run.v.data, 1, t + 1, H, D);
        posenc_attention_forward(posenc_heads_bthd(out, 1, 1, H, D), run.lse, q, k, v, &run.how,
                                 run.scratch);
        ASSERT_CLOSE(run.out.data + t * H * D, out, H * D, 1e-6);
    }
    PASS();
}

/* Packed rows: each segment by itself gives what it gave in the pack. */
TEST packed_rows_equal_separate_rows(void)
{
    enum { T = 75, H = 2, D = 8 };
    static const int from[] = { 0, 20, 53, 75 };
    attention_case c = { .B = 1, .Tq = T, .Tk = T, .H = H, .Hk = H, .D = D, .causal = 1,
                         .past = T };
    int *segment;
    posenc_float *out;
    attention_begin(&run, c);
    segment = take_ints(T);
    for (int s = 0; s < 3; s++) for (int t = from[s]; t < from[s + 1]; t++) segment[t] = s;
    run.how.q_segment = run.how.k_segment = segment;
    attention_tiled_forward(&run);
    run.how.q_segment = run.how.k_segment = NULL;
    out = take(T * H * D);
    for (int s = 0; s < 3; s++) {
        int n = from[s + 1] - from[s], at = from[s] * H * D;
        posenc_attention_forward(posenc_heads_bthd(out + at, 1, n, H, D), run.lse,
                                 posenc_heads_bthd(run.q.data + at, 1, n, H, D),
                                 posenc_heads_bthd(run.k.data + at, 1, n, H, D),
                                 posenc_heads_bthd(run.v.data + at, 1, n, H, D), &run.how,
                                 run.scratch);
    }
    ASSERT_CLOSE(out, run.out.data, T * H * D, 1e-6);
    PASS();
}

TEST scratch_does_not_grow_with_the_square_of_the_length(void)
{
    posenc_attention how = { 0 };
    size_t small = posenc_attention_scratch(1, 1024, 1024, 4, 64, &how);
    size_t large = posenc_attention_scratch(1, 8192, 8192, 4, 64, &how);
    ASSERT_LTE(large, 8 * small);
    ASSERT_LT(large, (size_t)8192 * 8192 / 4);
    PASS();
}

/* A NaN in one query stays in that query's row. */
TEST nan_in_one_query_stays_in_its_row(int tiled)
{
    attention_case c = { .B = 1, .Tq = 40, .Tk = 40, .H = 1, .Hk = 1, .D = 8 };
    posenc_float *out;
    attention_begin(&run, c);
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    out = run.out.data;
    run.out.data = take(run.q_count);
    run.q.data[5 * 8 + 2] = (posenc_float)NAN;
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    ASSERT_MEM_EQ(out, run.out.data, 5 * 8 * sizeof *out);
    ASSERT_MEM_EQ((out + 6 * 8), (run.out.data + 6 * 8), 34 * 8 * sizeof *out);
    for (int d = 0; d < 8; d++) ASSERT(isnan((double)run.out.data[5 * 8 + d]));
    PASS();
}

/* A NaN in a key that is seen is not hidden by the softmax. */
TEST nan_in_a_key_reaches_every_query_that_sees_it(int tiled)
{
    attention_case c = { .B = 1, .Tq = 40, .Tk = 40, .H = 1, .Hk = 1, .D = 8, .causal = 1 };
    attention_begin(&run, c);
    run.k.data[35 * 8] = (posenc_float)NAN;
    if (tiled) attention_tiled_forward(&run); else attention_plain_forward(&run);
    ASSERT_LTE(max_abs_diff(run.out.data, run.out.data, 35 * 8), 0.0);
    for (int i = 35; i < 40; i++) ASSERT(isnan((double)run.out.data[i * 8]));
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

static const char *version[] = { "plain", "tiled" };
#define RUN_BOTH(F)                                                                                \
    for (int tiled = 0; tiled < 2; tiled++) {                                                      \
        label_test("%s", version[tiled]);                                                          \
        RUN_TESTp(F, tiled);                                                                       \
    }

SUITE(attention_values)
{
    static const int lengths[] = { 1, 2, 31, 32, 33, 63, 64, 65, 100, 130 };
    for (int i = 0; i < ATTENTION_CASES; i++) {
        label_test("%s", attention_cases[i].name);
        RUN_TESTp(both_versions_follow_the_definition, &attention_cases[i]);
        label_test("%s", attention_cases[i].name);
        RUN_TESTp(tiled_agrees_with_plain, &attention_cases[i]);
        label_test("%s", attention_cases[i].name);
        RUN_TESTp(map_rows_sum_to_one_or_to_zero, &attention_cases[i]);
    }
    for (int i = 0; i < 10; i++) {
        label_test("%d", lengths[i]);
        RUN_TESTp(tiled_agrees_with_plain_at_length, lengths[i]);
        label_test("%d", lengths[i]);
        RUN_TESTp(tiled_agrees_with_plain_with_everything_at_length, lengths[i]);
    }
    for (int i = 5; i < 10; i++) {
        label_test("%d", lengths[i]);
        RUN_TESTp(tiled_agrees_with_plain_for_a_cache_of, lengths[i]);
    }
}

SUITE(attention_edges)
{
    static const int lengths[] = { 9, 70 };
    for (int i = 0; i < 2; i++) for (int tiled = 0; tiled < 2; tiled++) {
        label_test("T%d_%s", lengths[i], version[tiled]);
        RUN_TESTp(fully_masked_rows_give_zero_and_no_gradient, lengths[i], tiled);
        label_test("T%d_%s", lengths[i], version[tiled]);
        RUN_TESTp(minus_infinity_in_a_row_bias_hides_keys, lengths[i], tiled);
    }
    RUN_BOTH(queries_before_the_first_key_give_zero);
    RUN_BOTH(one_token_returns_its_value);
    RUN_BOTH(huge_scores_do_not_overflow);
    RUN_BOTH(dropout_of_everything_gives_zero);
    RUN_BOTH(widest_window_hides_nothing);
    RUN_BOTH(nan_in_one_query_stays_in_its_row);
    RUN_BOTH(nan_in_the_only_key_is_not_hidden);
    RUN_BOTH(nan_in_a_key_reaches_every_query_that_sees_it);
    RUN_TEST(dropout_of_nothing_changes_nothing);
    RUN_TEST(dropout_does_not_depend_on_how_the_batch_is_cut);
    RUN_TEST(plain_forward_without_out_stops_at_the_map);
    RUN_TEST(saved_logarithm_gives_back_the_map);
    RUN_TEST(scratch_does_not_grow_with_the_square_of_the_length);
}

SUITE(attention_views_and_positions)
{
    RUN_TEST(strided_views_give_the_same_bits);
    RUN_BOTH(heads_first_memory_gives_the_same);
    RUN_BOTH(grouped_heads_equal_repeated_heads);
    RUN_BOTH(turning_on_the_way_in_equals_turning_before);
    label_test("interleaved");
    RUN_TESTp(tokens_past_a_table_of_turns_are_not_turned, POSENC_INTERLEAVED);
    label_test("half");
    RUN_TESTp(tokens_past_a_table_of_turns_are_not_turned, POSENC_HALF);
    RUN_BOTH(inputs_are_left_as_they_were);
    RUN_BOTH(gradient_of_the_bias_is_added_to);
    RUN_BOTH(backward_without_dbias_gives_the_same_gradients);
    RUN_BOTH(callback_of_the_backward_comes_in_order);
    label_test("square");
    RUN_TESTp(vector_and_callback_agree, 70, 70);
    label_test("cache");
    RUN_TESTp(vector_and_callback_agree, 3, 70);
    RUN_TEST(shifted_positions_change_nothing);
    RUN_TEST(one_query_at_a_time_equals_all_at_once);
    RUN_TEST(packed_rows_equal_separate_rows);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(attention_values);
    RUN_SUITE(attention_edges);
    RUN_SUITE(attention_views_and_positions);
    give_back();
    GREATEST_MAIN_END();
}
