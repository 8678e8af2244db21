/* Biases added to scores: alibi, the clipped relative table, t5, and the vector of distances
   they all fill.                                                                                 */
#include "posenc.h"
#include "check.h"
#include "attention_cases.h"

enum { H = 3, PAST = 300, FUTURE = 200, WIDTH = FUTURE + 1 + PAST };
static posenc_float bias[H * WIDTH], dbias[H * WIDTH], expected[H * WIDTH], table[600 * H],
    dtable[600 * H];

static void fill_with(posenc_float *x, size_t n, double value)
{
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)value;
}

/* ---- alibi ----------------------------------------------------------------------------------- */

TEST alibi_slopes_are_the_published_ones(int heads, const double *want)
{
    posenc_float slope[16];
    posenc_alibi_slopes(slope, heads, 8.0);
    for (int h = 0; h < heads; h++) ASSERT_LTE(fabs((double)slope[h] - want[h]), 1e-7);
    PASS();
}

TEST alibi_slopes_follow_bias_max(void)
{
    posenc_float slope[4];
    posenc_alibi_slopes(slope, 4, 4.0);
    for (int h = 0; h < 4; h++) ASSERT_LTE(fabs((double)slope[h] - pow(2.0, -(h + 1))), 1e-7);
    PASS();
}

TEST alibi_is_minus_slope_times_distance_on_both_sides(void)
{
    posenc_float slope[H];
    posenc_alibi_slopes(slope, H, 8.0);
    fill_with(bias, H * WIDTH, 1);
    posenc_alibi_forward(bias, H, PAST, FUTURE, 8.0);
    for (int h = 0; h < H; h++) for (int d = -FUTURE; d <= PAST; d++)
        expected[h * WIDTH + d + FUTURE] = (posenc_float)(1.0 - (double)slope[h] * abs(d));
    ASSERT_CLOSE(expected, bias, H * WIDTH, 2e-5);
    PASS();
}

/* Softmax removes what is the same along a row: -m |i-j| and +m j give the same causal
   attention.                                                                                     */
static void slope_times_key(void *user, posenc_float *row, int b, int h, int i, int j0, int n)
{
    const posenc_float *slope = (const posenc_float *)user;
    (void)b; (void)i;
    for (int j = 0; j < n; j++) row[j] += slope[h] * (posenc_float)(j0 + j);
}
TEST alibi_equals_a_slope_over_the_keys_in_causal_attention(void)
{
    static attention_run run;
    attention_case c = { .B = 1, .Tq = 40, .Tk = 67, .H = 4, .Hk = 4, .D = 8, .causal = 1,
                         .past = 66 };
    posenc_float slope[4], *out;
    posenc_row_bias rows = { slope_times_key, NULL, NULL };
    attention_begin(&run, c);
    fill_with(run.bias, run.bias_count, 0);
    posenc_alibi_forward(run.bias, 4, 66, 0, 8.0);
    attention_tiled_forward(&run);
    out = run.out.data;
    run.out.data = take(run.q_count);
    posenc_alibi_slopes(slope, 4, 8.0);
    rows.user = slope;
    run.how.bias = NULL;
    run.how.row_bias = &rows;
    attention_tiled_forward(&run);
    ASSERT_CLOSE(out, run.out.data, run.q_count, 2e-6);
    PASS();
}

/* ---- the clipped relative table -------------------------------------------------------------- */

/* row clamp(key - query, -clip, clip) + clip = clamp(-d, ...) + clip */
static int relative_row(int d, int clip)
{
    return (-d < -clip ? -clip : -d > clip ? clip : -d) + clip;
}

TEST relative_reads_the_row_of_the_clipped_distance(int clip)
{
    fill_random(table, (size_t)(2 * clip + 1) * H);
    fill_with(bias, H * WIDTH, 1);
    posenc_relative_forward(bias, table, clip, H, PAST, FUTURE);
    for (int h = 0; h < H; h++) for (int d = -FUTURE; d <= PAST; d++)
        expected[h * WIDTH + d + FUTURE] = (posenc_float)1 + table[relative_row(d, clip) * H + h];
    ASSERT_CLOSE(expected, bias, H * WIDTH, 0.0);
    PASS();
}

/* The past stands in the lower rows: a key one step back reads row clip - 1. */
TEST relative_counts_key_minus_query(void)
{
    /* clip 1; distances -1, 0, 1 */
    posenc_float small[3 * 1] = { 10, 20, 30 }, row[3] = { 0, 0, 0 };
    posenc_relative_forward(row, small, 1, 1, 1, 1);
    ASSERT_EQ((double)row[2], 10.0);
    ASSERT_EQ((double)row[1], 20.0);
    ASSERT_EQ((double)row[0], 30.0);
    PASS();
}

TEST relative_backward_sums_distances_into_rows(int clip)
{
    static posenc_float want[600 * H];
    fill_random(dbias, H * WIDTH); fill_with(dtable, (size_t)(2 * clip + 1) * H, 2);
    posenc_relative_backward(dtable, dbias, clip, H, PAST, FUTURE);
    for (int n = 0; n < (2 * clip + 1) * H; n++) {
        double sum = 2.0;
        for (int d = -FUTURE; d <= PAST; d++)
            if (relative_row(d, clip) == n / H) sum += (double)dbias[n % H * WIDTH + d + FUTURE];
        want[n] = (posenc_float)sum;
    }
    ASSERT_CLOSE(want, dtable, (size_t)(2 * clip + 1) * H, 2e-5);
    PASS();
}

/* ---- t5 -------------------------------------------------------------------------------------- */

/* first distance of each bucket with 32 buckets up to 128, as the published model has them */
TEST t5_buckets_are_the_published_ones_causal(void)
{
    static const int first[32] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
        16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113
    };
    for (int d = 0, n = 0; d <= 1000; d++) {
        if (n < 31 && d == first[n + 1]) n++;
        ASSERT_EQ_FMT(n, posenc_t5_bucket(d, 32, 128, 0), "%d");
    }
    ASSERT_EQ(31, posenc_t5_bucket(2147483647, 32, 128, 0));
    /* the future */
    for (int d = -1000; d < 0; d++) ASSERT_EQ_FMT(0, posenc_t5_bucket(d, 32, 128, 0), "%d");
    PASS();
}

TEST t5_buckets_are_the_published_ones_on_both_sides(void)
{
    static const int first[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91 };
    for (int d = 0, n = 0; d <= 1000; d++) {
        if (n < 15 && d == first[n + 1]) n++;
        ASSERT_EQ_FMT(n, posenc_t5_bucket(d, 32, 128, 1), "%d");
        if (d) ASSERT_EQ_FMT(16 + n, posenc_t5_bucket(-d, 32, 128, 1), "%d");
    }
    ASSERT_EQ(15, posenc_t5_bucket(2147483647, 32, 128, 1));
    ASSERT_EQ(31, posenc_t5_bucket(-2147483647, 32, 128, 1));
    PASS();
}

TEST t5_buckets_never_leave_the_table(int both_sides)
{
    static const int buckets[] = { 2, 4, 6, 32, 36, 64 }, reach[] = { 1, 2, 3, 8, 50, 128, 100000 };
    for (int n = 0; n < 6; n++) for (int r = 0; r < 7; r++) for (int d = -700; d <= 700; d++) {
        int b = posenc_t5_bucket(d, buckets[n], reach[r], both_sides);
        ASSERT(b >= 0 && b < buckets[n]);
    }
    PASS();
}

TEST t5_reads_the_row_of_the_bucket(int both_sides)
{
    fill_random(table, 32 * H); fill_with(bias, H * WIDTH, 1);
    posenc_t5_forward(bias, table, 32, 128, both_sides, H, PAST, FUTURE);
    for (int h = 0; h < H; h++) for (int d = -FUTURE; d <= PAST; d++)
        expected[h * WIDTH + d + FUTURE] =
            (posenc_float)1 + table[posenc_t5_bucket(d, 32, 128, both_sides) * H + h];
    ASSERT_CLOSE(expected, bias, H * WIDTH, 0.0);
    PASS();
}

TEST t5_backward_sums_distances_into_buckets(int both_sides)
{
    posenc_float want[32 * H];
    fill_random(dbias, H * WIDTH); fill_with(dtable, 32 * H, 2);
    posenc_t5_backward(dtable, dbias, 32, 128, both_sides, H, PAST, FUTURE);
    for (int n = 0; n < 32 * H; n++) {
        double sum = 2.0;
        for (int d = -FUTURE; d <= PAST; d++)
            if (posenc_t5_bucket(d, 32, 128, both_sides) == n / H)
                sum += (double)dbias[n % H * WIDTH + d + FUTURE];
        want[n] = (posenc_float)sum;
    }
    ASSERT_CLOSE(want, dtable, 32 * H, 2e-5);
    PASS();
}

/* With a bucket for every distance t5 is the relative table, its two halves put end to end. */
TEST t5_with_many_buckets_is_the_relative_table(void)
{
    enum { CLIP = 60, BUCKETS = 256 };                   /* 64 exact distances on either side */
    static posenc_float other[(2 * CLIP + 1) * H];
    fill_random(table, BUCKETS * H);
    for (int d = -CLIP; d <= CLIP; d++) for (int h = 0; h < H; h++)
        other[(-d + CLIP) * H + h] = table[(d >= 0 ? d : BUCKETS / 2 - d) * H + h];
    fill_with(bias, H * (2 * CLIP + 1), 0); fill_with(expected, H * (2 * CLIP + 1), 0);
    posenc_t5_forward(bias, table, BUCKETS, 1000, 1, H, CLIP, CLIP);
    posenc_relative_forward(expected, other, CLIP, H, CLIP, CLIP);
    ASSERT_CLOSE(expected, bias, H * (2 * CLIP + 1), 0.0);
    PASS();
}

/* ---- the vector of distances ----------------------------------------------------------------- */

TEST gather_reads_rows_and_skips_those_outside(void)
{
    static const int row[6] = { 2, 0, -1, 3, 2, 1000000 };
    /* 3 rows; the last is not ours */
    static const posenc_float rows[4 * 2] = { 1, 2, 3, 4, 5, 6, 1000, 1000 };
    static const double want[12] = { 15, 11, 10, 10, 15, 10,   16, 12, 10, 10, 16, 10 };
    posenc_float got[12], d[8] = { 7, 7, 7, 7, 7, 7, 7, 7 };     /* 3 rows, and one more to watch */
    static const posenc_float up[12] = { 1, 2, 4, 8, 16, 32,   3, 5, 7, 9, 11, 13 };
    fill_with(got, 12, 10);
    posenc_gather_forward(got, rows, row, 2, 6, 3);
    for (int n = 0; n < 12; n++) ASSERT_EQ((double)got[n], want[n]);
    posenc_gather_backward(d, up, row, 2, 6, 3);
    ASSERT_EQ((double)d[0], 9.0);  ASSERT_EQ((double)d[1], 12.0);            /* row 0: entry 1    */
    ASSERT_EQ((double)d[2], 7.0);  ASSERT_EQ((double)d[3], 7.0);             /* row 1: nobody     */
    ASSERT_EQ((double)d[4], 24.0); ASSERT_EQ((double)d[5], 21.0);       /* row 2: entries 0 and 4 */
    ASSERT_EQ((double)d[6], 7.0);  ASSERT_EQ((double)d[7], 7.0);       /* past the table: nothing */
    PASS();
}

TEST expand_writes_the_bias_of_every_distance(int Tq, int Tk, int past, int future)
{
    enum { ROOM = H * 40 * 40 };
    static posenc_float scores[ROOM], want[ROOM];
    fill_random(bias, (size_t)H * (future + 1 + past)); fill_with(scores, ROOM, 1);
    for (int h = 0; h < H; h++) for (int i = 0; i < Tq; i++) for (int j = 0; j < Tk; j++) {
        int d = i + Tk - Tq - j;
        d = d > past ? past : d < -future ? -future : d;
        want[(h * Tq + i) * Tk + j] = (posenc_float)1 + bias[h * (future + 1 + past) + d + future];
    }
    posenc_bias_expand(scores, bias, H, Tq, Tk, past, future);
    ASSERT_CLOSE(want, scores, (size_t)H * Tq * Tk, 0.0);
    PASS();
}

/* Several biases in one vector simply add up. */
TEST biases_combine_by_adding(void)
{
    static posenc_float one[H * WIDTH], two[H * WIDTH];
    fill_random(table, 32 * H);
    fill_with(bias, H * WIDTH, 0); fill_with(one, H * WIDTH, 0); fill_with(two, H * WIDTH, 0);
    posenc_alibi_forward(one, H, PAST, FUTURE, 8.0);
    posenc_t5_forward(two, table, 32, 128, 1, H, PAST, FUTURE);
    posenc_alibi_forward(bias, H, PAST, FUTURE, 8.0);
    posenc_t5_forward(bias, table, 32, 128, 1, H, PAST, FUTURE);
    for (int n = 0; n < H * WIDTH; n++) expected[n] = one[n] + two[n];
    ASSERT_CLOSE(expected, bias, H * WIDTH, 0.0);
    PASS();
}

TEST a_vector_of_one_distance_works(void)
{
    posenc_float small[3 * 2] = { 1, 2, 3, 4, 5, 6 }, one[2] = { 0, 0 };
    posenc_alibi_forward(one, 2, 0, 0, 8.0);
    ASSERT_EQ((double)one[0], 0.0);
    posenc_relative_forward(one, small, 1, 2, 0, 0);
    ASSERT_EQ((double)one[0], 3.0);
    ASSERT_EQ((double)one[1], 4.0);
    PASS();
}

SUITE(score_biases)
{
    static const double for_8[] = { .5, .25, .125, .0625, .03125, .015625, .0078125, .00390625 };
    static const double for_6[] = { .25, .0625, .015625, .00390625, .5, .125 };
    static const double for_12[] = { .5, .25, .125, .0625, .03125, .015625, .0078125, .00390625,
                                     .70710678118, .35355339059, .17677669530, .08838834765 };
    static const double for_1[] = { .00390625 };
    static const char *side[] = { "causal", "on_both_sides" };
    static const int clip[] = { 0, 1, 16, 128, 250 };
    label_test("1_head");   RUN_TESTp(alibi_slopes_are_the_published_ones, 1, for_1);
    label_test("6_heads");  RUN_TESTp(alibi_slopes_are_the_published_ones, 6, for_6);
    label_test("8_heads");  RUN_TESTp(alibi_slopes_are_the_published_ones, 8, for_8);
    label_test("12_heads"); RUN_TESTp(alibi_slopes_are_the_published_ones, 12, for_12);
    RUN_TEST(alibi_slopes_follow_bias_max);
    RUN_TEST(alibi_is_minus_slope_times_distance_on_both_sides);
    RUN_TEST(alibi_equals_a_slope_over_the_keys_in_causal_attention);
    for (int i = 0; i < 5; i++) {
        label_test("clip_%d", clip[i]);
        RUN_TESTp(relative_reads_the_row_of_the_clipped_distance, clip[i]);
        label_test("clip_%d", clip[i]);
        RUN_TESTp(relative_backward_sums_distances_into_rows, clip[i]);
    }
    RUN_TEST(relative_counts_key_minus_query);
    RUN_TEST(t5_buckets_are_the_published_ones_causal);
    RUN_TEST(t5_buckets_are_the_published_ones_on_both_sides);
    for (int s = 0; s < 2; s++) {
        label_test("%s", side[s]); RUN_TESTp(t5_buckets_never_leave_the_table, s);
        label_test("%s", side[s]); RUN_TESTp(t5_reads_the_row_of_the_bucket, s);
        label_test("%s", side[s]); RUN_TESTp(t5_backward_sums_distances_into_buckets, s);
    }
    RUN_TEST(t5_with_many_buckets_is_the_relative_table);
    RUN_TEST(gather_reads_rows_and_skips_those_outside);
    label_test("square");
    RUN_TESTp(expand_writes_the_bias_of_every_distance, 33, 33, 32, 32);
    label_test("with_a_cache");   RUN_TESTp(expand_writes_the_bias_of_every_distance, 3, 40, 39, 2);
    label_test("beyond_its_ends");
    RUN_TESTp(expand_writes_the_bias_of_every_distance, 40, 40, 5, 0);
    RUN_TEST(biases_combine_by_adding);
    RUN_TEST(a_vector_of_one_distance_works);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(score_biases);
    give_back();
    GREATEST_MAIN_END();
}
