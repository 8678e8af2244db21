/* Turning queries and keys: values, what a rotation must keep, layouts, views, parts of a head,
   tables that end early, and the learned frequencies. Positions are never all zero: there every
   rotation is right.                                                                             */
#include "posenc.h"
#include "check.h"

enum { B = 2, T = 7, H = 3, D = 16, N = B * T * H * D, PAIRS = D / 2 };
static posenc_float x[N], y[N], z[N], expected[N], cosine[4096], sine[4096];

static const int layouts[] = { POSENC_INTERLEAVED, POSENC_HALF };
static const char *layout_name[] = { "interleaved", "half" };

/* channels of pair i of a turned range that starts at offset */
static int first_of(int i, int offset, int layout)
{
    return offset + (layout == POSENC_HALF ? i : 2 * i);
}
static int second_of(int i, int offset, int pairs, int layout)
{
    return first_of(i, offset, layout) + (layout == POSENC_HALF ? pairs : 1);
}

/* to = one head turned by angle p * w_i * scale_i, in double */
static void turn_by_hand(posenc_float *to, const posenc_float *from, double p,
                         const posenc_float *scale, int layout, double base)
{
    for (int i = 0; i < PAIRS; i++) {
        int one = first_of(i, 0, layout), two = second_of(i, 0, PAIRS, layout);
        double angle = p * pow(base, -2.0 * i / D) * (scale ? (double)scale[i] : 1.0);
        to[one] = (posenc_float)((double)from[one] * cos(angle) - (double)from[two] * sin(angle));
        to[two] = (posenc_float)((double)from[one] * sin(angle) + (double)from[two] * cos(angle));
    }
}

TEST values_match_the_formula(int layout)
{
    static const double pos[T] = { 1, 2, 3.5, 100, -8, 16777217.0, 1073741825.0 };
    fill_random(x, N);
    for (int n = 0; n < B * T * H; n++)
        turn_by_hand(expected + n * D, x + n * D, pos[n / H % T], NULL, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), pos, layout, 10000.0);
    ASSERT_CLOSE(expected, x, N, 1e-6);
    PASS();
}

/* Heads wider than any run the library may cut them into. */
TEST wide_heads_match_the_formula(int layout)
{
    enum { WIDE = 326, HALF = WIDE / 2 };
    static posenc_float head[WIDE], want[WIDE];
    double p = 3.0;
    fill_random(head, WIDE);
    for (int i = 0; i < HALF; i++) {
        int one = first_of(i, 0, layout), two = second_of(i, 0, HALF, layout);
        double angle = p * pow(10000.0, -2.0 * i / WIDE);
        want[one] = (posenc_float)((double)head[one] * cos(angle) - (double)head[two] * sin(angle));
        want[two] = (posenc_float)((double)head[one] * sin(angle) + (double)head[two] * cos(angle));
    }
    posenc_rope_forward(posenc_heads_bthd(head, 1, 1, 1, WIDE), &p, layout, 10000.0);
    ASSERT_CLOSE(want, head, WIDE, 1e-6);
    PASS();
}

TEST frequencies_are_a_falling_geometric_row(void)
{
    static const double want[] = { 1.0,  0.316227766,   0.1,   0.0316227766,
                                   0.01, 0.00316227766, 0.001, 0.000316227766 };
    double frequency[8];
    posenc_rope_frequencies(frequency, 16, 10000.0);
    for (int i = 0; i < 8; i++) ASSERT_LTE(fabs(frequency[i] - want[i]), 1e-9);
    PASS();
}

TEST without_positions_tokens_are_counted_from_zero(int layout)
{
    double pos[T];
    posenc_positions_range(pos, T, 0.0);
    fill_random(x, N); memcpy(y, x, sizeof x); memcpy(z, x, sizeof x);
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(y, B, T, H, D), pos, layout, 10000.0);
    ASSERT_MEM_EQ(y, x, sizeof x);
    for (int b = 0; b < B; b++)
        ASSERT_MEM_EQ((z + b * T * H * D), (x + b * T * H * D), H * D * sizeof *x);
    ASSERT_GT(max_abs_diff(z, x, N), 0.1);
    PASS();
}

TEST rotation_keeps_the_length_of_every_pair(int layout)
{
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, layout, 10000.0);
    for (int n = 0; n < B * T * H; n++) for (int i = 0; i < PAIRS; i++) {
        int one = n * D + first_of(i, 0, layout), two = n * D + second_of(i, 0, PAIRS, layout);
        double before = (double)y[one] * (double)y[one] + (double)y[two] * (double)y[two];
        double after  = (double)x[one] * (double)x[one] + (double)x[two] * (double)x[two];
        ASSERT_LTE(fabs(before - after), 1e-6);
    }
    PASS();
}

/* A query at 3 and a key at 1 score the same as both moved on by shift. */
TEST score_sees_distances_only(int layout, double shift)
{
    posenc_float q[D], k[D], q2[D], k2[D], q3[D];
    double at_q = 3, at_k = 1, far_q = 3 + shift, far_k = 1 + shift, next = 4;
    fill_random(q, D); fill_random(k, D);
    memcpy(q2, q, sizeof q); memcpy(k2, k, sizeof k); memcpy(q3, q, sizeof q);
    posenc_rope_forward(posenc_heads_bthd(q,  1, 1, 1, D), &at_q,  layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(k,  1, 1, 1, D), &at_k,  layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(q2, 1, 1, 1, D), &far_q, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(k2, 1, 1, 1, D), &far_k, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(q3, 1, 1, 1, D), &next,  layout, 10000.0);
    ASSERT_LTE(fabs(weighted_sum(q, k, D) - weighted_sum(q2, k2, D)), 2e-6);
    ASSERT_GT(fabs(weighted_sum(q, k, D) - weighted_sum(q3, k, D)), 1e-3);
    PASS();
}

/* Channels sorted evens first, odds after turn interleaved pairs into halves: same scores, same
   bits.                                                                                          */
TEST sorting_channels_turns_one_layout_into_the_other(void)
{
    fill_random(x, N);
    for (int n = 0; n < B * T * H; n++) for (int i = 0; i < PAIRS; i++) {
        y[n * D + i] = x[n * D + 2 * i];
        y[n * D + PAIRS + i] = x[n * D + 2 * i + 1];
    }
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, POSENC_INTERLEAVED, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(y, B, T, H, D), NULL, POSENC_HALF, 10000.0);
    for (int n = 0; n < B * T * H; n++) for (int i = 0; i < PAIRS; i++) {
        ASSERT_EQ((double)y[n * D + i], (double)x[n * D + 2 * i]);
        ASSERT_EQ((double)y[n * D + PAIRS + i], (double)x[n * D + 2 * i + 1]);
    }
    PASS();
}

TEST backward_undoes_forward(int layout)
{
    static const double pos[T] = { 5, 1, 3.5, 100, -8, 16777217.0, 2 };
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_rope_forward(posenc_heads_bthd(y, B, T, H, D), pos, layout, 10000.0);
    ASSERT_GT(max_abs_diff(x, y, N), 0.1);
    posenc_rope_backward(posenc_heads_bthd(y, B, T, H, D), pos, layout, 10000.0);
    ASSERT_CLOSE(x, y, N, 1e-6);
    PASS();
}

TEST both_memory_orders_agree(int layout)
{
    fill_random(x, N);
    for (int n = 0; n < N; n++) {
        int d = n % D, h = n / D % H, t = n / D / H % T, b = n / D / H / T;
        y[((b * H + h) * T + t) * D + d] = x[n];
    }
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bhtd(y, B, H, T, D), NULL, layout, 10000.0);
    for (int n = 0; n < N; n++) {
        int d = n % D, h = n / D % H, t = n / D / H % T, b = n / D / H / T;
        ASSERT_EQ((double)x[n], (double)y[((b * H + h) * T + t) * D + d]);
    }
    PASS();
}

/* Heads inside a wider buffer: what lies between them is not touched. */
TEST gaps_of_a_strided_view_are_left_alone(int layout)
{
    enum { SH = D + 3, ST = H * SH + 5, SB = T * ST + 7 };
    static posenc_float wide[B * SB];
    posenc_heads view;
    fill_random(x, N);
    for (int n = 0; n < B * SB; n++) wide[n] = (posenc_float)9;
    for (int n = 0; n < N; n++)
        wide[n / D / H / T * SB + n / D / H % T * ST + n / D % H * SH + n % D] = x[n];
    view.data = wide;
    view.B = B;
    view.T = T;
    view.H = H;
    view.D = D;
    view.sb = SB;
    view.st = ST;
    view.sh = SH;
    posenc_rope_forward(view, NULL, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, layout, 10000.0);
    for (int n = 0; n < N; n++) {
        posenc_float *place =
            &wide[n / D / H / T * SB + n / D / H % T * ST + n / D % H * SH + n % D];
        ASSERT_EQ((double)x[n], (double)*place);
        *place = (posenc_float)9;
    }
    for (int n = 0; n < B * SB; n++) ASSERT_EQ((double)wide[n], 9.0);
    PASS();
}

TEST one_token_at_its_position_equals_its_row_in_the_whole(int layout)
{
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, layout, 10000.0);
    for (int t = 0; t < T; t++) {                        /* as a key/value cache does */
        double p = t;
        posenc_rope_forward(posenc_heads_bthd(y + t * H * D, 1, 1, H, D), &p, layout, 10000.0);
    }
    ASSERT_MEM_EQ(x, y, T * H * D * sizeof *x);
    PASS();
}

TEST nan_stays_in_its_pair(int layout)
{
    fill_random(x, N); memcpy(y, x, sizeof x);
    x[5 * D + first_of(2, 0, layout)] = (posenc_float)NAN;
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), NULL, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(y, B, T, H, D), NULL, layout, 10000.0);
    for (int n = 0; n < N; n++) {
        int hit =
            n == 5 * D + first_of(2, 0, layout) || n == 5 * D + second_of(2, 0, PAIRS, layout);
        ASSERT_EQ(hit, isnan((double)x[n]) != 0);
        if (!hit) ASSERT_EQ((double)x[n], (double)y[n]);
    }
    PASS();
}

/* ---- tables of turns ------------------------------------------------------------------------- */

/* a table for rows positions, pairs pairs, frequencies of a head of 2*pairs channels */
static posenc_turns turns_of(const double *pos, int rows, int pairs, int row_b, int offset,
                             int layout, double magnitude)
{
    double frequency[64];
    posenc_rotation by = { pairs, 1, frequency, NULL, 0, 1, NULL };
    posenc_turns turns;
    turns.cosine = cosine; turns.sine = sine;
    turns.rows = rows;
    turns.pairs = pairs;
    turns.row_b = row_b;
    turns.offset = offset;
    turns.layout = layout;
    posenc_rope_frequencies(frequency, 2 * pairs, 10000.0);
    by.magnitude = magnitude;
    posenc_turns_fill(turns, pos, &by);
    return turns;
}

TEST table_of_turns_equals_rope(int layout)
{
    double pos[T];
    posenc_positions_range(pos, T, 11.0);
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), pos, layout, 10000.0);
    posenc_turn(posenc_heads_bthd(y, B, T, H, D), turns_of(pos, T, PAIRS, 0, 0, layout, 1.0));
    ASSERT_CLOSE(x, y, N, 1e-6);
    PASS();
}

TEST channels_outside_the_turned_range_are_left_alone(int layout)
{
    enum { OFFSET = 4, SOME = 3 };
    double pos[T], frequency[SOME];
    posenc_positions_range(pos, T, 1.0);
    posenc_rope_frequencies(frequency, 2 * SOME, 10000.0);
    fill_random(x, N); memcpy(expected, x, sizeof x);
    for (int n = 0; n < B * T * H; n++) for (int i = 0; i < SOME; i++) {
        int one = n * D + first_of(i, OFFSET, layout),
            two = n * D + second_of(i, OFFSET, SOME, layout);
        double angle = pos[n / H % T] * frequency[i];
        expected[one] = (posenc_float)((double)x[one] * cos(angle) - (double)x[two] * sin(angle));
        expected[two] = (posenc_float)((double)x[one] * sin(angle) + (double)x[two] * cos(angle));
    }
    memcpy(y, x, sizeof x);
    posenc_turn(posenc_heads_bthd(x, B, T, H, D), turns_of(pos, T, SOME, 0, OFFSET, layout, 1.0));
    ASSERT_CLOSE(expected, x, N, 1e-6);
    for (int n = 0; n < N; n++)
        if (n % D < OFFSET || n % D >= OFFSET + 2 * SOME) ASSERT_EQ((double)y[n], (double)x[n]);
    PASS();
}

TEST rows_past_the_table_are_left_alone(int layout)
{
    double pos[B * T];
    posenc_turns turns;
    for (int n = 0; n < B * T; n++) pos[n] = n + 1;
    turns = turns_of(pos, B * T, PAIRS, T, 0, layout, 1.0);
    turns.rows = T + 3;                                  /* ends inside the second sample */
    for (int n = turns.rows * PAIRS; n < 4096; n++) cosine[n] = sine[n] = (posenc_float)NAN;
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_turn(posenc_heads_bthd(x, B, T, H, D), turns);
    ASSERT_MEM_EQ((y + (T + 3) * H * D), (x + (T + 3) * H * D), (N - (T + 3) * H * D) * sizeof *x);
    for (int n = 0; n < T + 3; n++)
        ASSERT_GT(max_abs_diff(y + n * H * D, x + n * H * D, H * D), 1e-3);
    posenc_turn_back(posenc_heads_bthd(x, B, T, H, D), turns);
    ASSERT_CLOSE(y, x, N, 1e-6);
    PASS();
}

TEST every_sample_may_have_positions_of_its_own(int layout)
{
    double pos[B * T];
    for (int n = 0; n < B * T; n++) pos[n] = n < T ? n : 3 * n + 100;
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_turn(posenc_heads_bthd(x, B, T, H, D), turns_of(pos, B * T, PAIRS, T, 0, layout, 1.0));
    for (int b = 0; b < B; b++)
        posenc_rope_forward(posenc_heads_bthd(y + b * T * H * D, 1, T, H, D), pos + b * T, layout,
                            10000.0);
    ASSERT_CLOSE(y, x, N, 1e-6);
    PASS();
}

TEST turn_then_turn_back_is_the_identity(int layout)
{
    double pos[T];
    posenc_turns turns;
    posenc_positions_range(pos, T, 1000.0);
    turns = turns_of(pos, T, PAIRS - 2, 0, 1, layout, 1.0);
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_turn(posenc_heads_bthd(x, B, T, H, D), turns);
    ASSERT_GT(max_abs_diff(x, y, N), 0.1);
    posenc_turn_back(posenc_heads_bthd(x, B, T, H, D), turns);
    ASSERT_CLOSE(y, x, N, 1e-6);
    PASS();
}

/* <turn x, g> = <x, turn_back g>: the transpose, not the inverse, which a magnitude tells apart. */
TEST turn_back_is_the_transpose(int layout)
{
    double pos[T], left, right;
    posenc_turns turns;
    posenc_positions_range(pos, T, 1000.0);
    turns = turns_of(pos, T, PAIRS, 0, 0, layout, 1.5);
    fill_random(x, N); memcpy(y, x, sizeof x); fill_random(z, N);
    posenc_turn(posenc_heads_bthd(y, B, T, H, D), turns);
    left = weighted_sum(y, z, N);
    ASSERT_LTE(fabs(weighted_sum(y, y, N) - 2.25 * weighted_sum(x, x, N)), 1e-3);
    posenc_turn_back(posenc_heads_bthd(z, B, T, H, D), turns);
    right = weighted_sum(x, z, N);
    ASSERT_LTE(fabs(left - right), 1e-4);
    PASS();
}

/* A key turned for position 20 and then by the difference stands where a raw key turned for 5
   stands.                                                                                        */
TEST cached_keys_can_be_turned_again(int layout)
{
    double old = 20, now = 5, move = -15;
    fill_random(x, H * D); memcpy(y, x, H * D * sizeof *x);
    posenc_rope_forward(posenc_heads_bthd(x, 1, 1, H, D), &old,  layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(x, 1, 1, H, D), &move, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(y, 1, 1, H, D), &now,  layout, 10000.0);
    ASSERT_CLOSE(y, x, H * D, 2e-6);
    PASS();
}

/* ---- learned frequencies --------------------------------------------------------------------- */

static posenc_float scale[PAIRS], dscale[PAIRS];

TEST lrope_with_scale_1_is_rope(int layout)
{
    for (int i = 0; i < PAIRS; i++) scale[i] = 1;
    fill_random(x, N); memcpy(y, x, sizeof x);
    posenc_lrope_forward(posenc_heads_bthd(x, B, T, H, D), scale, NULL, layout, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(y, B, T, H, D), NULL, layout, 10000.0);
    ASSERT_MEM_EQ(y, x, sizeof x);
    PASS();
}

TEST lrope_scales_each_frequency(int layout)
{
    static const double pos[T] = { 1, 2, 3.5, 100, -8, 5, 77 };
    fill_random(scale, PAIRS); fill_random(x, N);
    for (int n = 0; n < B * T * H; n++)
        turn_by_hand(expected + n * D, x + n * D, pos[n / H % T], scale, layout, 100.0);
    posenc_lrope_forward(posenc_heads_bthd(x, B, T, H, D), scale, pos, layout, 100.0);
    ASSERT_CLOSE(expected, x, N, 1e-6);
    PASS();
}

/* dscale_i = sum p w_i (g2 y1 - g1 y2), added to; dx turned back. */
TEST lrope_backward_matches_the_formula(int layout)
{
    static const double pos[T] = { 1, 2, 3.5, 10, -8, 5, 7 };
    posenc_float want[PAIRS];
    fill_random(scale, PAIRS); fill_random(x, N); fill_random(z, N); memcpy(y, x, sizeof x);
    memcpy(expected, z, sizeof z);
    posenc_lrope_forward(posenc_heads_bthd(y, B, T, H, D), scale, pos, layout, 100.0);
    for (int i = 0; i < PAIRS; i++) {
        double sum = 2.0;
        for (int n = 0; n < B * T * H; n++) {
            int one = n * D + first_of(i, 0, layout), two = n * D + second_of(i, 0, PAIRS, layout);
            sum += pos[n / H % T] * pow(100.0, -2.0 * i / D)
                 * ((double)z[two] * (double)y[one] - (double)z[one] * (double)y[two]);
        }
        want[i] = (posenc_float)sum;
        dscale[i] = 2;
    }
    posenc_lrope_backward(posenc_heads_bthd(z, B, T, H, D), dscale,
                          posenc_heads_bthd(x, B, T, H, D), scale, pos, layout, 100.0);
    ASSERT_CLOSE(want, dscale, PAIRS, 2e-4);
    posenc_lrope_forward(posenc_heads_bthd(z, B, T, H, D), scale, pos, layout, 100.0);
    ASSERT_CLOSE(expected, z, N, 2e-6);
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

#define RUN_LAYOUTS(F) \
    for (int l = 0; l < 2; l++) { label_test("%s", layout_name[l]); RUN_TESTp(F, layouts[l]); }

SUITE(rope)
{
    static const double shift[] = { 1, 100, 5000, 16777216.0, 1e9 };
    RUN_TEST(frequencies_are_a_falling_geometric_row);
    RUN_LAYOUTS(values_match_the_formula);
    RUN_LAYOUTS(wide_heads_match_the_formula);
    RUN_LAYOUTS(without_positions_tokens_are_counted_from_zero);
    RUN_LAYOUTS(rotation_keeps_the_length_of_every_pair);
    for (int l = 0; l < 2; l++) for (int s = 0; s < 5; s++) {
        label_test("%s_moved_by_%.0f", layout_name[l], shift[s]);
        RUN_TESTp(score_sees_distances_only, layouts[l], shift[s]);
    }
    RUN_TEST(sorting_channels_turns_one_layout_into_the_other);
    RUN_LAYOUTS(backward_undoes_forward);
    RUN_LAYOUTS(both_memory_orders_agree);
    RUN_LAYOUTS(gaps_of_a_strided_view_are_left_alone);
    RUN_LAYOUTS(one_token_at_its_position_equals_its_row_in_the_whole);
    RUN_LAYOUTS(nan_stays_in_its_pair);
}

SUITE(turns)
{
    RUN_LAYOUTS(table_of_turns_equals_rope);
    RUN_LAYOUTS(channels_outside_the_turned_range_are_left_alone);
    RUN_LAYOUTS(rows_past_the_table_are_left_alone);
    RUN_LAYOUTS(every_sample_may_have_positions_of_its_own);
    RUN_LAYOUTS(turn_then_turn_back_is_the_identity);
    RUN_LAYOUTS(turn_back_is_the_transpose);
    RUN_LAYOUTS(cached_keys_can_be_turned_again);
}

SUITE(lrope)
{
    RUN_LAYOUTS(lrope_with_scale_1_is_rope);
    RUN_LAYOUTS(lrope_scales_each_frequency);
    RUN_LAYOUTS(lrope_backward_matches_the_formula);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(rope);
    RUN_SUITE(turns);
    RUN_SUITE(lrope);
    GREATEST_MAIN_END();
}
