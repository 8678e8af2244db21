/* Positions and the encodings that are added to embeddings: sinusoidal, learned, sininit,
   continuous.                                                                                    */
#include "posenc.h"
#include "check.h"

static void fill_with(posenc_float *x, size_t n, double value)
{
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)value;
}

/* ---- positions ------------------------------------------------------------------------------- */

TEST range_counts_from_an_offset(void)
{
    double p[4];
    posenc_positions_range(p, 4, 16777216.0);                    /* 2^24: floats would stick here */
    for (int t = 0; t < 4; t++) ASSERT_EQ(p[t], 16777216.0 + t);
    posenc_positions_range(p, 2, -0.5);
    ASSERT_EQ(p[0], -0.5);
    ASSERT_EQ(p[1], 0.5);
    PASS();
}

TEST padding_is_not_counted_and_never_negative(void)
{
    static const unsigned char keep[18] = { 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0 };  /* then zeros */
    static const double want[18]        = { 0, 0, 0, 1, 1, 2, 0, 1, 2, 2, 2, 2 };
    double p[18];
    posenc_positions_mask(p, keep, 3, 6);
    for (int n = 0; n < 18; n++) ASSERT_EQ(p[n], want[n]);
    PASS();
}

TEST packed_rows_start_again_at_zero(void)
{
    static const int segment[] = { 5, 5, 5, 2, 2, 5,   5, 7, 7, 7, 7, 8 };
    static const double want[] = { 0, 1, 2, 0, 1, 0,   0, 0, 1, 2, 3, 0 };
    double p[12];
    posenc_positions_packed(p, segment, 2, 6);
    for (int n = 0; n < 12; n++) ASSERT_EQ(p[n], want[n]);
    PASS();
}

/* ---- the table of encodings ------------------------------------------------------------------ */

TEST every_row_of_the_table_is_filled_in(void)
{
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
        const posenc_encoding_info *e = posenc_encoding_get(i);
        ASSERTm("a row is missing", e != NULL);
        ASSERT(e->name && e->name[0]);
        ASSERT(e->keys != NULL);
        ASSERT(e->line && strlen(e->line) >= 20);
        ASSERT(e->learns == 0 || e->learns == 1);
        for (int j = 0; j < i; j++) ASSERT(strcmp(e->name, posenc_encoding_get(j)->name) != 0);
    }
    PASS();
}

TEST outside_the_table_there_is_nothing(void)
{
    ASSERT_EQ(NULL, posenc_encoding_get(-1));
    ASSERT_EQ(NULL, posenc_encoding_get(POSENC_ENCODING_COUNT));
    ASSERT_STR_EQ("rope", posenc_encoding_get(POSENC_ROPE)->name);
    ASSERT_EQ(POSENC_SCORE, posenc_encoding_get(POSENC_ALIBI)->where);
    ASSERT_EQ(1, posenc_encoding_get(POSENC_LEARNED)->learns);
    PASS();
}

/* ---- sinusoidal ------------------------------------------------------------------------------ */

enum { B = 3, T = 11, C = 14, N = B * T * C };
static posenc_float table[64 * 32], x[N], dx[N], expected[N], dtable[64 * 32];

/* with C channels, ceil(C/2) frequencies; an odd C ends in a sine */
static double wave(double p, int c, int channels, double base)
{
    double angle = p * pow(base, -(double)(c / 2 * 2) / channels);
    return c % 2 ? cos(angle) : sin(angle);
}

TEST sinusoidal_matches_the_formula(int channels)
{
    static const double pos[] = { 0, 1, 2.5, -3, 100, 16777217.0, 1073741825.0 };
    posenc_float want[7 * 32];
    fill_with(table, 7 * 32, NAN);
    posenc_sinusoidal(table, pos, 7, channels, 500.0);
    for (int t = 0; t < 7; t++) for (int c = 0; c < channels; c++)
        want[t * channels + c] = (posenc_float)wave(pos[t], c, channels, 500.0);
    ASSERT_CLOSE(want, table, (size_t)7 * channels, 1e-6);
    PASS();
}

TEST sinusoidal_without_positions_counts_from_zero(void)
{
    double pos[T];
    posenc_float other[T * C];
    posenc_positions_range(pos, T, 0.0);
    posenc_sinusoidal(table, NULL, T, C, 10000.0);
    posenc_sinusoidal(other, pos, T, C, 10000.0);
    ASSERT_MEM_EQ(table, other, sizeof other);
    ASSERT_EQ((double)table[0], 0.0);
    ASSERT_EQ((double)table[1], 1.0);
    PASS();
}

/* sin(a)^2 + cos(a)^2: every row of an even table has length sqrt(C/2), every inner product of
   two rows depends on their distance alone.                                                      */
TEST sinusoidal_rows_see_distances_only(void)
{
    static const double far_apart[] = { 3, 10, 5003, 5010, 900003, 900010 };
    posenc_sinusoidal(table, far_apart, 6, 32, 10000.0);
    for (int t = 0; t < 6; t++)
        ASSERT_LTE(fabs(weighted_sum(table + t * 32, table + t * 32, 32) - 16.0), 1e-5);
    for (int t = 2; t < 6; t += 2)
        ASSERT_LTE(fabs(weighted_sum(table, table + 32, 32)
                        - weighted_sum(table + t * 32, table + (t + 1) * 32, 32)), 1e-5);
    PASS();
}

TEST rows_are_added_to_every_sample(void)
{
    fill_random(table, T * C); fill_random(x, N);
    for (int n = 0; n < N; n++) expected[n] = x[n] + table[n % (T * C)];
    posenc_rows_forward(x, table, B, T, C);
    ASSERT_MEM_EQ(expected, x, sizeof x);
    PASS();
}

TEST gradient_of_rows_is_the_sum_over_samples(void)
{
    fill_random(dx, N); fill_with(dtable, T * C, 2); fill_with(expected, T * C, 2);
    posenc_rows_backward(dtable, dx, B, T, C);
    for (int n = 0; n < N; n++) expected[n % (T * C)] += dx[n];
    ASSERT_CLOSE(expected, dtable, T * C, 1e-6);
    PASS();
}

/* ---- learned --------------------------------------------------------------------------------- */

/* repeated, fractional, outside on either side, not even a number */
static const double odd_positions[T] = { 4, 0, 4, 2.4, 2.6, -0.4, -1, 6, 1e300, -1e300, 5.49 };
static const int    odd_rows[T]      = { 4, 0, 4, 2,   3,   0,    -1, -1, -1,   -1,     5 };
enum { ROWS = 6 };

TEST learned_adds_the_nearest_row_and_nothing_outside(void)
{
    fill_random(table, ROWS * C); fill_random(x, N);
    for (int n = 0; n < N; n++) {
        int row = odd_rows[n / C % T];
        expected[n] = row < 0 ? x[n] : x[n] + table[row * C + n % C];
    }
    posenc_learned_forward(x, table, odd_positions, B, T, C, ROWS);
    ASSERT_MEM_EQ(expected, x, sizeof x);
    PASS();
}

TEST learned_gradient_is_scattered_and_lost_outside(void)
{
    fill_random(dx, N);
    fill_with(dtable, (ROWS + 1) * C, 2);
    fill_with(expected, (ROWS + 1) * C, 2);
    posenc_learned_backward(dtable, dx, odd_positions, B, T, C, ROWS);
    for (int n = 0; n < N; n++)
        if (odd_rows[n / C % T] >= 0) expected[odd_rows[n / C % T] * C + n % C] += dx[n];
    ASSERT_CLOSE(expected, dtable, (ROWS + 1) * C, 2e-6);
    for (int c = 0; c < C; c++) ASSERT_EQ((double)dtable[C + c], 2.0);     /* nobody was at row 1 */
    PASS();
}

TEST learned_at_positions_that_are_not_numbers_does_nothing(void)
{
    const double bad[3] = { NAN, INFINITY, -INFINITY };
    fill_random(table, ROWS * C); fill_random(x, 3 * C); fill_with(dtable, ROWS * C, 2);
    memcpy(expected, x, 3 * C * sizeof *x);
    posenc_learned_forward(x, table, bad, 1, 3, C, ROWS);
    posenc_learned_backward(dtable, x, bad, 1, 3, C, ROWS);
    ASSERT_MEM_EQ(expected, x, 3 * C * sizeof *x);
    for (int n = 0; n < ROWS * C; n++) ASSERT_EQ((double)dtable[n], 2.0);
    PASS();
}

TEST learned_without_positions_counts_from_zero_to_the_end_of_the_table(void)
{
    fill_random(table, ROWS * C); fill_random(x, N);
    for (int n = 0; n < N; n++) expected[n] = n / C % T < ROWS ? x[n] + table[n % (T * C)] : x[n];
    posenc_learned_forward(x, table, NULL, B, T, C, ROWS);
    ASSERT_MEM_EQ(expected, x, sizeof x);
    fill_with(dtable, (ROWS + 1) * C, 0); fill_with(expected, (ROWS + 1) * C, 0);
    posenc_learned_backward(dtable, dx, NULL, B, T, C, ROWS);
    for (int n = 0; n < N; n++) if (n / C % T < ROWS) expected[n % (T * C)] += dx[n];
    ASSERT_CLOSE(expected, dtable, (ROWS + 1) * C, 2e-6);
    PASS();
}

/* sininit is learned with a table that starts as sinusoidal. */
TEST sininit_starts_as_sinusoidal(void)
{
    double pos[T];
    posenc_float sines[T * C];
    posenc_positions_range(pos, T, 5.0);
    fill_random(x, N); memcpy(expected, x, sizeof x);
    posenc_sinusoidal(table, NULL, 32, C, 10000.0);
    posenc_sinusoidal(sines, pos, T, C, 10000.0);
    posenc_learned_forward(x, table, pos, B, T, C, 32);
    posenc_rows_forward(expected, sines, B, T, C);
    ASSERT_CLOSE(expected, x, N, 1e-6);
    PASS();
}

/* ---- continuous ------------------------------------------------------------------------------ */

enum { HID = 10 };
static posenc_float w1[HID], b1[HID], w2[HID * HID], b2[HID], w3[C * HID], b3[C], scratch[4096];

static void continuous_by_definition(posenc_float *to, const double *pos, double length,
                                     int length_t)
{
    for (int t = 0; t < length_t; t++) {
        double h1[HID], h2[HID], u = (pos ? pos[t] : t) / length;
        for (int i = 0; i < HID; i++) h1[i] = fmax(0.0, (double)w1[i] * u + (double)b1[i]);
        for (int i = 0; i < HID; i++) {
            double sum = (double)b2[i];
            for (int j = 0; j < HID; j++) sum += (double)w2[i * HID + j] * h1[j];
            h2[i] = fmax(0.0, sum);
        }
        for (int c = 0; c < C; c++) {
            double sum = (double)b3[c];
            for (int j = 0; j < HID; j++) sum += (double)w3[c * HID + j] * h2[j];
            for (int b = 0; b < B; b++) to[(b * length_t + t) * C + c] += (posenc_float)sum;
        }
    }
}

TEST continuous_matches_the_definition(const double *pos, double length, int length_t)
{
    posenc_continuous w = { w1, b1, w2, b2, w3, b3 };
    fill_random(w1, HID); fill_random(b1, HID); fill_random(w2, HID * HID); fill_random(b2, HID);
    fill_random(w3, C * HID); fill_random(b3, C); fill_random(x, N);
    memcpy(expected, x, sizeof x);
    fill_with(scratch, 4096, NAN);
    ASSERT_LTE(posenc_continuous_scratch(length_t, C, HID), (size_t)4096);
    continuous_by_definition(expected, pos, length, length_t);
    posenc_continuous_forward(x, scratch, &w, pos, length, B, length_t, C, HID);
    ASSERT_CLOSE(expected, x, N, 5e-6);
    PASS();
}

/* Two backwards from the same forward: the scratch is not used up, the second adds the same
   again.                                                                                         */
TEST continuous_backward_adds_to_the_gradients(void)
{
    static posenc_float g[2][6][C * HID], kept[4096];
    posenc_continuous w = { w1, b1, w2, b2, w3, b3 }, dw;
    static const int size[6] = { HID, HID, HID * HID, HID, C * HID, C };
    fill_random(w1, HID); fill_random(b1, HID); fill_random(w2, HID * HID); fill_random(b2, HID);
    fill_random(w3, C * HID); fill_random(b3, C); fill_random(x, N); fill_random(dx, N);
    memset(g, 0, sizeof g);
    posenc_continuous_forward(x, scratch, &w, NULL, 20.0, B, T, C, HID);
    memcpy(kept, scratch, sizeof kept);
    for (int round = 0; round < 3; round++) {
        posenc_float **field[6] = { &dw.w1, &dw.b1, &dw.w2, &dw.b2, &dw.w3, &dw.b3 };
        for (int i = 0; i < 6; i++) *field[i] = g[round > 0][i];
        memcpy(scratch, kept, sizeof kept);
        posenc_continuous_backward(&dw, dx, scratch, &w, B, T, C, HID);
    }
    for (int i = 0; i < 6; i++) {
        ASSERT_GT(sqrt(weighted_sum(g[0][i], g[0][i], (size_t)size[i])), 1e-2);
        for (int n = 0; n < size[i]; n++) g[0][i][n] *= (posenc_float)2;
        ASSERT_CLOSE(g[0][i], g[1][i], (size_t)size[i], 1e-4);
    }
    PASS();
}

SUITE(positions)
{
    RUN_TEST(range_counts_from_an_offset);
    RUN_TEST(padding_is_not_counted_and_never_negative);
    RUN_TEST(packed_rows_start_again_at_zero);
    RUN_TEST(every_row_of_the_table_is_filled_in);
    RUN_TEST(outside_the_table_there_is_nothing);
}

SUITE(added_encodings)
{
    static const int channels[] = { 1, 2, 7, 14, 32 };
    static const double fractions[T] = { 0, 0.5, 3, 3, 40, -7, 1e3, 2, 1, 19.5, 20 };
    for (int i = 0; i < 5; i++) {
        label_test("for_%d_channels", channels[i]);
        RUN_TESTp(sinusoidal_matches_the_formula, channels[i]);
    }
    RUN_TEST(sinusoidal_without_positions_counts_from_zero);
    RUN_TEST(sinusoidal_rows_see_distances_only);
    RUN_TEST(rows_are_added_to_every_sample);
    RUN_TEST(gradient_of_rows_is_the_sum_over_samples);
    RUN_TEST(learned_adds_the_nearest_row_and_nothing_outside);
    RUN_TEST(learned_gradient_is_scattered_and_lost_outside);
    RUN_TEST(learned_at_positions_that_are_not_numbers_does_nothing);
    RUN_TEST(learned_without_positions_counts_from_zero_to_the_end_of_the_table);
    RUN_TEST(sininit_starts_as_sinusoidal);
    label_test("for_whole_positions");
    RUN_TESTp(continuous_matches_the_definition, NULL, 20.0, T);
    label_test("for_any_positions");
    RUN_TESTp(continuous_matches_the_definition, fractions, 1000.0, T);
    label_test("for_one_token");
    RUN_TESTp(continuous_matches_the_definition, NULL, 1.0, 1);
    RUN_TEST(continuous_backward_adds_to_the_gradients);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(positions);
    RUN_SUITE(added_encodings);
    GREATEST_MAIN_END();
}
