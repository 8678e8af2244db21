/* Where positions come from: padding, random places, augmentation, text with pictures, coordinates
   of a grid. Tables made longer or shorter. And what door one says to specs and positions that
   cannot be: a sentence with the numbers in it.                                                  */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include "models.h"
#include <limits.h>

/* ---- padding --------------------------------------------------------------------------------- */

/* RoBERTa, padding token 1, one row padded behind and one on both sides, by hand; the same numbers
   as transformers' create_position_ids_from_input_ids gives.                                     */
TEST padding_is_counted_as_roberta_does(void)
{
    static const int tokens[12] = { 0, 7, 9, 2, 1, 1,   1, 1, 0, 5, 2, 1 };
    static const double want[12] = { 2, 3, 4, 5, 1, 1,   1, 1, 2, 3, 4, 1 };
    double p[12];
    posenc_positions_padding(p, tokens, 1, 2, 6);
    for (int n = 0; n < 12; n++) ASSERT_EQ(want[n], p[n]);
    PASS();
}
TEST padding_token_0_leaves_1_as_the_first_position(void)
{
    static const int tokens[5] = { 0, 3, 0, 3, 3 };
    static const double want[5] = { 0, 1, 0, 2, 3 };
    double p[5];
    posenc_positions_padding(p, tokens, 0, 1, 5);
    for (int n = 0; n < 5; n++) ASSERT_EQ(want[n], p[n]);
    PASS();
}

/* ---- random places --------------------------------------------------------------------------- */

TEST random_places_are_distinct_sorted_and_in_range(int n, double most, uint64_t seed)
{
    double p[512], again[512], other[512];
    ASSERT_EQ(1, posenc_positions_random(p, n, most, seed));
    ASSERT_EQ(1, posenc_positions_random(again, n, most, seed));
    ASSERT_EQ(1, posenc_positions_random(other, n, most, seed + 1));
    ASSERT_MEM_EQ(p, again, (size_t)n * sizeof *p);
    for (int t = 0; t < n; t++) {
        ASSERT(p[t] >= 0 && p[t] < most && p[t] == floor(p[t]));
        if (t) ASSERT_GT(p[t], p[t - 1]);
    }
    if (most > n + 8) ASSERT(memcmp(p, other, (size_t)n * sizeof *p) != 0);
    PASS();
}
TEST all_places_there_are_is_all_of_them(void)
{
    double p[40];
    for (int n = 1; n <= 40; n++) {
        ASSERT_EQ(1, posenc_positions_random(p, n, n, (uint64_t)n));
        for (int t = 0; t < n; t++) ASSERT_EQ((double)t, p[t]);
    }
    PASS();
}
TEST more_places_than_there_are_is_refused(void)
{
    double p[8];
    for (int n = 0; n < 8; n++) p[n] = NAN;
    ASSERT_EQ(0, posenc_positions_random(p, 8, 7, 3));
    for (int n = 0; n < 8; n++) ASSERT_EQ((double)n, p[n]);
    ASSERT_EQ(0, posenc_positions_random(p, 3, 0, 3));
    ASSERT_EQ(0, posenc_positions_random(p, 3, NAN, 3));
    for (int n = 0; n < 3; n++) ASSERT_EQ((double)n, p[n]);
    PASS();
}
/* 3 of 10, 4000 times: each number about 1200 times, standard deviation 29 */
TEST every_place_is_as_likely(void)
{
    int seen[10] = { 0 };
    double p[3];
    for (uint64_t seed = 0; seed < 4000; seed++) {
        posenc_positions_random(p, 3, 10, seed);
        for (int t = 0; t < 3; t++) seen[(int)p[t]]++;
    }
    for (int i = 0; i < 10; i++) ASSERT(seen[i] > 1050 && seen[i] < 1350);
    PASS();
}

/* ---- augmentation ---------------------------------------------------------------------------- */

enum { TOKENS = 9, AXES = 2, NUMBERS = TOKENS * AXES };
static void plain_positions(double *p) { for (int n = 0; n < NUMBERS; n++) p[n] = 1 + 3 * n % 17; }

TEST shift_moves_an_axis_as_one(void)
{
    double p[NUMBERS], q[NUMBERS], least = 9, most = -9;
    plain_positions(p);
    for (uint64_t seed = 0; seed < 300; seed++) {
        memcpy(q, p, sizeof p);
        posenc_positions_augment(q, TOKENS, AXES, 5.0, 0.0, 0.0, seed);
        for (int n = 0; n < NUMBERS; n++)
            ASSERT_LTE(fabs((q[n] - p[n]) - (q[n % AXES] - p[n % AXES])), 1e-12);
        ASSERT(fabs(q[0] - p[0]) <= 5.0 && fabs(q[1] - p[1]) <= 5.0);
        ASSERT_GT(fabs((q[0] - p[0]) - (q[1] - p[1])), 1e-9);            /* one for each axis     */
        least = fmin(least, q[0] - p[0]);
        most = fmax(most, q[0] - p[0]);
    }
    ASSERT(least < -4.5 && most > 4.5);                                 /* all of the range       */
    PASS();
}
TEST jitter_moves_each_token_by_itself(void)
{
    double p[NUMBERS], q[NUMBERS], least = 9, most = -9;
    plain_positions(p);
    for (uint64_t seed = 0; seed < 100; seed++) {
        memcpy(q, p, sizeof p);
        posenc_positions_augment(q, TOKENS, AXES, 0.0, 0.5, 1.0, seed);
        for (int n = 0; n < NUMBERS; n++) {
            double move = q[n] - p[n];
            ASSERT_LTE(fabs(move), 0.5);
            if (n) ASSERT_GT(fabs(move - (q[n - 1] - p[n - 1])), 1e-12);
            least = fmin(least, move);
            most = fmax(most, move);
        }
    }
    ASSERT(least < -0.49 && most > 0.49);
    PASS();
}
/* as often shorter as longer, evenly in the logarithm */
TEST stretch_multiplies_an_axis(void)
{
    double p[NUMBERS], q[NUMBERS], sum = 0.0, least = 9, most = 0;
    int beyond = 0;
    plain_positions(p);
    for (uint64_t seed = 0; seed < 1000; seed++) {
        double factor[AXES];
        memcpy(q, p, sizeof p);
        posenc_positions_augment(q, TOKENS, AXES, 0.0, 0.0, 4.0, seed);
        for (int a = 0; a < AXES; a++) factor[a] = q[a] / p[a];
        for (int n = 0; n < NUMBERS; n++) ASSERT_LTE(fabs(q[n] - p[n] * factor[n % AXES]), 1e-12);
        ASSERT(factor[0] >= 0.25 - 1e-12 && factor[0] <= 4.0 + 1e-12);
        ASSERT_GT(fabs(factor[0] - factor[1]), 1e-9);
        sum += log(factor[0]);
        beyond += factor[0] > 2.0;                                      /* a quarter of log space */
        least = fmin(least, factor[0]);
        most = fmax(most, factor[0]);
    }
    ASSERT(least < 0.26 && most > 3.8);
    ASSERT_LTE(fabs(sum / 1000), 0.13);                                 /* 5 standard deviations  */
    ASSERT(beyond > 180 && beyond < 320);
    PASS();
}
TEST parts_that_are_left_out_change_nothing(void)
{
    double p[NUMBERS], q[NUMBERS];
    plain_positions(p);
    memcpy(q, p, sizeof p);
    posenc_positions_augment(q, TOKENS, AXES, 0.0, 0.0, 0.0, 7);
    ASSERT_MEM_EQ(p, q, sizeof p);
    posenc_positions_augment(q, TOKENS, AXES, 0.0, 0.0, 1.0, 7);
    ASSERT_MEM_EQ(p, q, sizeof p);
    PASS();
}
/* factor first, then shift, then jitter */
TEST augmentation_stays_in_its_bounds_and_follows_the_seed(void)
{
    double p[NUMBERS], q[NUMBERS], again[NUMBERS], other[NUMBERS];
    plain_positions(p);
    for (uint64_t seed = 0; seed < 200; seed++) {
        memcpy(q, p, sizeof p);
        memcpy(again, p, sizeof p);
        memcpy(other, p, sizeof p);
        posenc_positions_augment(q, TOKENS, AXES, 3.0, 0.25, 2.0, seed);
        posenc_positions_augment(again, TOKENS, AXES, 3.0, 0.25, 2.0, seed);
        posenc_positions_augment(other, TOKENS, AXES, 3.0, 0.25, 2.0, seed + 1000);
        ASSERT_MEM_EQ(q, again, sizeof q);
        ASSERT(memcmp(q, other, sizeof q) != 0);
        for (int n = 0; n < NUMBERS; n++)
            ASSERT(q[n] >= p[n] / 2 - 3.25 - 1e-12 && q[n] <= p[n] * 2 + 3.25 + 1e-12);
    }
    PASS();
}

/* ---- text and pictures ----------------------------------------------------------------------- */

/* Qwen2-VL: 3 words, a picture of 4 x 4 patches merged to 2 x 2, 2 words. */
TEST a_picture_among_words_stands_as_in_qwen2_vl(void)
{
    static const posenc_block blocks[] = { { 0, 0, 3, 0 }, { 1, 2, 2, 1 }, { 0, 0, 2, 0 } };
    static const double want[9][3] = { { 0, 0, 0 }, { 1, 1, 1 }, { 2, 2, 2 },
                                       { 3, 3, 3 }, { 3, 3, 4 }, { 3, 4, 3 }, { 3, 4, 4 },
                                       { 5, 5, 5 }, { 6, 6, 6 } };
    double p[9 * 3];
    ASSERT_EQ(7.0, posenc_positions_mrope(p, blocks, 3));
    for (int n = 0; n < 27; n++) ASSERT_EQ(want[n / 3][n % 3], p[n]);
    PASS();
}
/* A wide picture first: the words follow its last column. */
TEST words_follow_the_longer_side(void)
{
    static const posenc_block blocks[] = { { 1, 2, 5, 0 }, { 0, 0, 1, 0 }, { 1, 3, 1, 0 } };
    double p[(10 + 1 + 3) * 3];
    ASSERT_EQ(9.0, posenc_positions_mrope(p, blocks, 3));
    ASSERT_EQ(4.0, p[9 * 3 + 2]);                                       /* last column            */
    for (int a = 0; a < 3; a++) ASSERT_EQ(5.0, p[10 * 3 + a]);          /* the word               */
    for (int y = 0; y < 3; y++) {
        ASSERT_EQ(6.0, p[(11 + y) * 3]);
        ASSERT_EQ(6.0 + y, p[(11 + y) * 3 + 1]);
        ASSERT_EQ(6.0, p[(11 + y) * 3 + 2]);
    }
    PASS();
}
/* Three frames of 2 x 2, as in transformers' own example: times 0, 1, 2 or, Qwen2.5-VL, 0, 50, 100.
   The words stand behind the largest coordinate so far.                                          */
TEST frames_of_a_film_are_step_apart(double step, double last)
{
    posenc_block blocks[] = { { 3, 2, 2, 0 }, { 0, 0, 2, 0 } };
    double p[14 * 3];
    blocks[0].step = step;
    ASSERT_EQ(last + 3, posenc_positions_mrope(p, blocks, 2));
    for (int n = 0; n < 12; n++) {
        ASSERT_EQ(n / 4 * step, p[3 * n]);
        ASSERT_EQ((double)(n / 2 % 2), p[3 * n + 1]);
        ASSERT_EQ((double)(n % 2), p[3 * n + 2]);
    }
    for (int a = 0; a < 3; a++) {
        ASSERT_EQ(last + 1, p[12 * 3 + a]);
        ASSERT_EQ(last + 2, p[13 * 3 + a]);
    }
    PASS();
}

/* ---- coordinates of an encoding -------------------------------------------------------------- */

static const posenc_shape small = { 16, 2, 8, 32, 1 };
static posenc_error why;

static posenc_status complete(posenc_spec *s, const char *text, const posenc_shape *shape)
{
    int count = 0;
    posenc_status status;
    memset(s, 0, sizeof *s);
    why.text[0] = 0;
    status = posenc_spec_parse(s, &count, 1, text, &why);
    return status != POSENC_OK ? status : posenc_spec_complete(s, shape, &why);
}

/* pos and want end in HUGE_VAL; given numbers for each token of pos, axes for each of want */
TEST coordinates_are_known(const char *text, int given, const double *pos, int axes,
                           const double *want)
{
    posenc_spec s;
    double at[64];
    int T = 0;
    ASSERTm(why.text, complete(&s, text, &small) == POSENC_OK);
    ASSERT_EQ(axes, posenc_spec_axes(&s));
    while (pos[T * given] != HUGE_VAL) T++;
    for (int n = 0; n < 64; n++) at[n] = NAN;
    posenc_spec_coordinates(at, &s, pos, given, T);
    for (int n = 0; n < T * axes; n++) ASSERT_LTE(fabs(at[n] - want[n]), 1e-12);
    ASSERT_EQ(HUGE_VAL, want[T * axes]);                                /* the test is complete   */
    ASSERT(isnan(at[T * axes]));
    PASS();
}

/* a grid that is not given is the smallest square, or cube, that holds the context */
TEST grids_are_square_unless_told(const char *text, int context, int width, int height)
{
    posenc_shape shape = { 24, 2, 8, 0, 0 };
    posenc_spec s;
    shape.context = context;
    ASSERTm(why.text, complete(&s, text, &shape) == POSENC_OK);
    ASSERT_EQ(width, s.width);
    if (height) ASSERT_EQ(height, s.height);
    PASS();
}

/* row * (2 width - 1) + column: no two offsets on the grid have the same difference */
TEST places_on_a_grid_tell_down_from_across(void)
{
    static const posenc_shape twenty = { 16, 2, 8, 20, 1 };
    posenc_spec s;
    int row_of[200];
    memset(row_of, -1, sizeof row_of);
    ASSERTm(why.text, complete(&s, "swin:width=5,height=4", &twenty) == POSENC_OK);
    for (int i = 0; i < 20; i++) for (int j = 0; j < 20; j++) {
        double a[3], b[3], p = i, q = j;
        int d, row = (i / 5 - j / 5 + 3) * 9 + (i % 5 - j % 5 + 4);
        posenc_spec_coordinates(a, &s, &p, 1, 1);
        posenc_spec_coordinates(b, &s, &q, 1, 1);
        d = posenc_spec_place(&s, a) - posenc_spec_place(&s, b) + 100;
        ASSERT(d >= 0 && d < 200);
        if (row_of[d] < 0) row_of[d] = row;
        ASSERT_EQ(row, row_of[d]);
    }
    PASS();
}
TEST place_of_all_others_is_the_position(void)
{
    posenc_spec s;
    double p = 1234567;
    ASSERTm(why.text, complete(&s, "alibi", &small) == POSENC_OK);
    ASSERT_EQ(1234567, posenc_spec_place(&s, &p));
    p = -3;
    ASSERT_EQ(-3, posenc_spec_place(&s, &p));
    PASS();
}

/* ---- tables of another length -------------------------------------------------------------------
   F = torch.nn.functional; x = torch.tensor([[1,-2],[.5,3],[2,1],[-1,4.]], dtype=torch.float64)
   F.interpolate(x.T[None], size=n, mode='linear', align_corners=False)[0].T                      */
static const posenc_float table4[4 * 2] = { 1, -2, 0.5, 3, 2, 1, -1, 4 };

TEST resized_table_matches_torch(int rows, const posenc_float *want)
{
    posenc_float got[16];
    for (int n = 0; n < 16; n++) got[n] = (posenc_float)NAN;
    posenc_learned_resize(got, rows, table4, 4, 2);
    ASSERT_CLOSE(want, got, (size_t)rows * 2, 1e-6);
    ASSERT(rows == 8 || isnan((double)got[rows * 2]));
    PASS();
}
TEST table_of_the_same_length_stays(void)
{
    posenc_float got[8], one[2] = { 3, 4 }, many[6];
    posenc_learned_resize(got, 4, table4, 4, 2);
    ASSERT_MEM_EQ(table4, got, sizeof got);
    posenc_learned_resize(many, 3, one, 1, 2);                     /* one row is all there is     */
    for (int r = 0; r < 3; r++) ASSERT_MEM_EQ(one, (many + 2 * r), sizeof one);
    PASS();
}

/* BART and OPT: two rows that no position ever reads. */
TEST learned_with_an_offset_skips_rows(void)
{
    enum { C = 16, ROWS = 34, T = 3 };
    posenc_spec s;
    posenc_part part[POSENC_PARTS];
    posenc_float table[ROWS * C], dtable[ROWS * C], x[T * C], dx[T * C], scratch[4096];
    posenc_float *w[1] = { table }, *dw[1] = { dtable };
    static const double at[T] = { 0, 31, 5 };
    ASSERTm(why.text, complete(&s, "learned:offset=2", &small) == POSENC_OK);
    ASSERT_EQ(1, posenc_spec_parts(part, &s, &small));
    ASSERT_EQ(ROWS, part[0].rows);
    ASSERT_EQ(C, part[0].columns);
    ASSERT_STR_EQ("weight", part[0].name);
    ASSERT_LTE(posenc_spec_rows_scratch(&s, T, C), (size_t)4096);
    fill_random(table, ROWS * C);
    fill_random(dx, T * C);
    memset(x, 0, sizeof x);
    memset(dtable, 0, sizeof dtable);
    posenc_spec_rows_forward(x, scratch, &s, w, at, 1, T, C);
    posenc_spec_rows_backward(dw, dx, scratch, &s, w, at, 1, T, C);
    for (int t = 0; t < T; t++) {
        int row = (int)at[t] + 2;
        ASSERT_MEM_EQ((table + row * C), (x + t * C), C * sizeof *x);
        ASSERT_MEM_EQ((dx + t * C), (dtable + row * C), C * sizeof *x);
    }
    for (int c = 0; c < 2 * C; c++) ASSERT_EQ(0.0, (double)dtable[c]);
    ASSERT_EQ(POSENC_OK, posenc_spec_check_positions(&s, at, T, &why));
    PASS();
}
/* RoBERTa: positions from padding, a table that has the padding's rows in front */
TEST padded_tokens_read_the_row_of_padding(void)
{
    enum { C = 16, ROWS = 10, PAD = 1, T = 5 };
    static const int tokens[T] = { 1, 1, 6, 7, 8 };
    static const int rows[T] = { 1, 1, 2, 3, 4 };
    posenc_spec s;
    posenc_float table[ROWS * C], x[T * C], scratch[4096], *w[1] = { table };
    double p[T];
    posenc_positions_padding(p, tokens, PAD, 1, T);
    ASSERTm(why.text, complete(&s, "learned:rows=10", &small) == POSENC_OK);
    ASSERTm(why.text, posenc_spec_check_positions(&s, p, T, &why) == POSENC_OK);
    fill_random(table, ROWS * C);
    memset(x, 0, sizeof x);
    posenc_spec_rows_forward(x, scratch, &s, w, p, 1, T, C);
    for (int t = 0; t < T; t++) ASSERT_MEM_EQ((table + rows[t] * C), (x + t * C), C * sizeof *x);
    PASS();
}
/* at NULL with one axis: 0, 1, 2 ... */
TEST without_positions_tokens_are_counted_from_zero(const char *text)
{
    enum { C = 16, T = 6 };
    posenc_spec s;
    posenc_float x[T * C], y[T * C], scratch[8192], table[32 * C], *w[1] = { table };
    double p[T];
    posenc_positions_range(p, T, 0.0);
    ASSERTm(why.text, complete(&s, text, &small) == POSENC_OK);
    ASSERT_LTE(posenc_spec_rows_scratch(&s, T, C), (size_t)8192);
    fill_random(table, 32 * C);
    fill_random(x, T * C);
    memcpy(y, x, sizeof x);
    posenc_spec_rows_forward(x, scratch, &s, w, NULL, 1, T, C);
    posenc_spec_rows_forward(y, scratch, &s, w, p, 1, T, C);
    ASSERT_MEM_EQ(y, x, sizeof x);
    PASS();
}

/* ---- wrong use ------------------------------------------------------------------------------- */

/* 1 when text holds every one of the words, which are separated by blanks */
static int holds(const char *text, const char *words)
{
    char word[64];
    while (*words) {
        int n = (int)strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", n, words);
        if (!strstr(text, word)) {
            snprintf(check_text, sizeof check_text, "'%s' is not in '%.300s'", word, text);
            return 0;
        }
        words += n + (words[n] == ' ');
    }
    return 1;
}

TEST spec_is_refused_with_a_sentence(const char *text, posenc_shape shape, const char *words)
{
    posenc_spec s;
    static char message[600];
    posenc_status status = complete(&s, text, &shape);
    snprintf(message, sizeof message, "'%s' was taken", text);
    ASSERTm(message, status != POSENC_OK);
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)status, "%d");
    ASSERTm(check_text, holds(why.text, words));
    ASSERT_GT(strlen(why.text), 20);
    if (posenc_spec_parse(&s, &(int){ 0 }, 1, text, NULL) == POSENC_OK)   /* why may be NULL      */
        ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)posenc_spec_complete(&s, &shape, NULL), "%d");
    PASS();
}
/* next door to a wrong one, and right */
TEST spec_is_taken(const char *text, posenc_shape shape)
{
    posenc_spec s;
    ASSERTm(why.text, complete(&s, text, &shape) == POSENC_OK);
    PASS();
}
/* completing twice changes nothing, and every default is there */
TEST completing_twice_is_completing_once(int encoding)
{
    posenc_spec s, again;
    ASSERTm(why.text, complete(&s, posenc_encoding_get(encoding)->name, &small) == POSENC_OK);
    again = s;
    ASSERTm(why.text, posenc_spec_complete(&again, &small, &why) == POSENC_OK);
    ASSERT_MEM_EQ(&s, &again, sizeof s);
    PASS();
}

TEST positions_are_refused_with_a_sentence(const char *text, int context, double p,
                                           const char *words)
{
    posenc_shape shape = small;
    posenc_spec s;
    double at[3 * POSENC_AXES];
    const double pos[3] = { 0, 1, p };
    shape.context = context;
    ASSERTm(why.text, complete(&s, text, &shape) == POSENC_OK);
    posenc_spec_coordinates(at, &s, pos, 1, 3);
    ASSERTm("the first two are good", posenc_spec_check_positions(&s, at, 2, &why) == POSENC_OK);
    ASSERT_EQ_FMT((int)POSENC_BAD_INPUT, (int)posenc_spec_check_positions(&s, at, 3, &why), "%d");
    ASSERTm(check_text, holds(why.text, words));
    ASSERT_EQ_FMT((int)POSENC_BAD_INPUT, (int)posenc_spec_check_positions(&s, at, 3, NULL), "%d");
    PASS();
}
TEST positions_are_taken(const char *text, int context, double p)
{
    posenc_shape shape = small;
    posenc_spec s;
    double at[POSENC_AXES];
    shape.context = context;
    ASSERTm(why.text, complete(&s, text, &shape) == POSENC_OK);
    posenc_spec_coordinates(at, &s, &p, 1, 1);
    ASSERTm(why.text, posenc_spec_check_positions(&s, at, 1, &why) == POSENC_OK);
    PASS();
}
TEST no_encoding_stands_at_nan(int encoding, double p)
{
    posenc_spec s;
    double at[POSENC_AXES];
    ASSERTm(why.text, complete(&s, posenc_encoding_get(encoding)->name, &small) == POSENC_OK);
    for (int a = 0; a < POSENC_AXES; a++) at[a] = p;
    ASSERT_EQ_FMT((int)POSENC_BAD_INPUT, (int)posenc_spec_check_positions(&s, at, 1, &why), "%d");
    ASSERT_GT(strlen(why.text), 20);
    PASS();
}

/* A model without tokens, channels or heads: defaults that come from them would divide by zero.
   Either the shape is refused, or all that comes of it is finite.                                */
TEST empty_shape_is_refused_or_harmless(int encoding, posenc_shape shape, const char *word)
{
    static posenc_float scratch[65536], table[65536], x[64];
    posenc_float *w[POSENC_PARTS] = { table, table, table, table, table, table };
    const posenc_encoding_info *e = posenc_encoding_get(encoding);
    posenc_part part[POSENC_PARTS];
    posenc_spec s;
    double at[POSENC_AXES], p = 0;
    int parts;
    if (complete(&s, e->name, &shape) != POSENC_OK) {
        ASSERTm(check_text, holds(why.text, word));
        PASS();
    }
    parts = posenc_spec_parts(part, &s, &shape);
    for (int i = 0; i < parts; i++) ASSERTm("a tensor without rows", part[i].rows > 0);
    posenc_spec_coordinates(at, &s, &p, 1, 1);
    for (int a = 0; a < posenc_spec_axes(&s); a++) ASSERTm("a coordinate is NaN", isfinite(at[a]));
    if (e->where != POSENC_EMBEDDING) PASS();
    memset(x, 0, sizeof x);
    ASSERT_LTE(posenc_spec_rows_scratch(&s, 1, shape.C), (size_t)65536);
    posenc_spec_rows_forward(x, scratch, &s, w, at, 1, 1, shape.C);
    for (int c = 0; c < shape.C; c++) ASSERTm("a row is not finite", isfinite((double)x[c]));
    PASS();
}

/* Fields of the struct are held to the same ranges as the words of a text. */
TEST field_of_the_struct_is_refused(posenc_spec s, const char *words)
{
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)posenc_spec_complete(&s, &small, &why), "%d");
    ASSERTm(check_text, holds(why.text, words));
    PASS();
}
/* No coordinates: tokens 0, 1, 2, ... of the grid in reading order, as if they were written out. */
TEST without_coordinates_a_grid_is_read_in_order(const char *text)
{
    enum { T = 12, C = 16 };
    static posenc_float x[T * C], y[T * C], scratch[4096], table[512];
    posenc_float *w[POSENC_PARTS] = { table, table, table, table, table, table };
    double at[T * POSENC_AXES];
    posenc_spec s;
    ASSERTm(why.text, complete(&s, text, &small) == POSENC_OK);
    ASSERT_LTE(posenc_spec_rows_scratch(&s, T, C), (size_t)4096);
    fill_random(table, 512);
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    posenc_spec_coordinates(at, &s, NULL, 1, T);
    posenc_spec_rows_forward(x, scratch, &s, w, at, 1, T, C);
    posenc_spec_rows_forward(y, scratch, &s, w, NULL, 1, T, C);
    ASSERT_MEM_EQ(x, y, sizeof x);
    ASSERT_GT(weighted_sum(x, x, T * C), 0.1);
    ASSERT_EQ_FMT((int)POSENC_OK, (int)posenc_spec_check_positions(&s, NULL, T, &why), "%d");
    PASS();
}
/* 0 in a text means no, not "as usual" */
TEST zero_means_no(void)
{
    posenc_spec s;
    ASSERTm(why.text, complete(&s, "t5:bidirectional=0", &small) == POSENC_OK);
    ASSERT_EQ_FMT(-1, s.bidirectional, "%d");
    ASSERTm(why.text, complete(&s, "rope:scaling=yarn,factor=2,original=16,truncate=0", &small)
                      == POSENC_OK);
    ASSERT_EQ_FMT(-1, s.truncate, "%d");
    PASS();
}

TEST encoding_outside_the_table_is_refused(int encoding, const char *words)
{
    posenc_spec s;
    memset(&s, 0, sizeof s);
    s.encoding = encoding;
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)posenc_spec_complete(&s, &small, &why), "%d");
    ASSERTm(check_text, holds(why.text, words));
    PASS();
}

TEST negative_window_is_refused(void)
{
    posenc_model *m = make_model("vocab=5 context=8 channels=8 heads=2 causal=1 window=-1");
    int refused = m == NULL;
    posenc_model_free(m);
    ASSERT(refused);
    ASSERTm(check_text, holds(check_text, "window"));
    PASS();
}
/* window 0 is the default: everything is seen. A window of 1 sees itself alone. */
TEST window_0_means_none(void)
{
    posenc_float logits[3][8 * 5];
    static const char *words[] = { "", " window=0", " window=1" };
    for (int i = 0; i < 3; i++) {
        posenc_model *m = make_model("vocab=5 context=8 channels=8 heads=2 causal=1 seed=3%s",
                                     words[i]);
        data d;
        posenc_error no;
        ASSERTm(check_text, m != NULL);
        fill_data(&d, m, 1, 8, 5);
        if (posenc_model_forward(m, &d.batch, &no) == POSENC_OK)
            posenc_model_logits(m, logits[i], 0, 8, &no);
        posenc_model_free(m);
    }
    ASSERT_MEM_EQ(logits[0], logits[1], sizeof *logits);
    ASSERT_GT(max_abs_diff(logits[0], logits[2], 8 * 5), 1e-4);
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(sources)
{
    RUN_TEST(padding_is_counted_as_roberta_does);
    RUN_TEST(padding_token_0_leaves_1_as_the_first_position);
    label_test("7_of_100");    RUN_TESTp(random_places_are_distinct_sorted_and_in_range, 7, 100, 1);
    label_test("99_of_100");
    RUN_TESTp(random_places_are_distinct_sorted_and_in_range, 99, 100, 2);
    label_test("512_of_2048");
    RUN_TESTp(random_places_are_distinct_sorted_and_in_range, 512, 2048, 3);
    label_test("512_of_1e7");
    RUN_TESTp(random_places_are_distinct_sorted_and_in_range, 512, 1e7, 4);
    label_test("1_of_1");      RUN_TESTp(random_places_are_distinct_sorted_and_in_range, 1, 1, 5);
    RUN_TEST(all_places_there_are_is_all_of_them);
    RUN_TEST(more_places_than_there_are_is_refused);
    RUN_TEST(every_place_is_as_likely);
    RUN_TEST(shift_moves_an_axis_as_one);
    RUN_TEST(jitter_moves_each_token_by_itself);
    RUN_TEST(stretch_multiplies_an_axis);
    RUN_TEST(parts_that_are_left_out_change_nothing);
    RUN_TEST(augmentation_stays_in_its_bounds_and_follows_the_seed);
    RUN_TEST(a_picture_among_words_stands_as_in_qwen2_vl);
    RUN_TEST(words_follow_the_longer_side);
    label_test("1");  RUN_TESTp(frames_of_a_film_are_step_apart, 1.0, 2.0);
    label_test("50"); RUN_TESTp(frames_of_a_film_are_step_apart, 50.0, 100.0);
}

#define END HUGE_VAL
SUITE(coordinates)
{
    static const double index[] = { 0, 1, 7, 13, END };
    static const double cells[] = { 0, 0, 0, 1, 1, 2, 2, 3, END };           /* width 5           */
    static const double film[]  = { 0, 0, 0, 0, 0, 1, 1, 0, 1, 2, 0, 1, END };   /* 3 x 2         */
    static const double pixel[] = { -1, -1, -1, -0.5, -1 / 3.0, 0, 1 / 3.0, 0.5, END };  /* 5 x 4 */
    static const double dino[]  = { -0.75, -0.8, -0.75, -0.4, -0.25, 0, 0.25, 0.4, END };
    static const double text[]  = { 0, 0, 0, 1, 1, 1, 7, 7, 7, 13, 13, 13, END };
    static const double three[] = { 4, 5, 6, 7, 8.5, 9, END };
    static const double line[]  = { 0, 1, 7, 13, END };
    label_test("rope2d");   RUN_TESTp(coordinates_are_known, "rope2d:width=5", 1, index, 2, cells);
    label_test("sincos2d");
    RUN_TESTp(coordinates_are_known, "sincos2d:width=5", 1, index, 2, cells);
    label_test("swin");
    RUN_TESTp(coordinates_are_known, "swin:width=5,height=7", 1, index, 2, cells);
    label_test("sincos3d");
    RUN_TESTp(coordinates_are_known, "sincos3d:width=3,height=2", 1, index, 3, film);
    label_test("rope_pixel");
    RUN_TESTp(coordinates_are_known, "rope_pixel:width=5,height=4", 1, index, 2, pixel);
    label_test("rope_pixel_cells");
    RUN_TESTp(coordinates_are_known, "rope_pixel:width=5,height=4", 2, cells, 2, pixel);
    label_test("rope_dino");
    RUN_TESTp(coordinates_are_known, "rope_dino:width=5,height=4", 1, index, 2, dino);
    label_test("rope_dino_cells");
    RUN_TESTp(coordinates_are_known, "rope_dino:width=5,height=4", 2, cells, 2, dino);
    label_test("mrope_text"); RUN_TESTp(coordinates_are_known, "mrope", 1, index, 3, text);
    label_test("mrope_given"); RUN_TESTp(coordinates_are_known, "mrope", 3, three, 3, three);
    label_test("rope2d_given");
    RUN_TESTp(coordinates_are_known, "rope2d:width=5", 2, cells, 2, cells);
    label_test("rope");     RUN_TESTp(coordinates_are_known, "rope", 1, index, 1, line);
    label_test("sincos2d"); RUN_TESTp(grids_are_square_unless_told, "sincos2d", 26, 6, 0);
    label_test("rope2d");   RUN_TESTp(grids_are_square_unless_told, "rope2d", 25, 5, 0);
    label_test("swin");     RUN_TESTp(grids_are_square_unless_told, "swin", 10, 4, 4);
    label_test("rope_dino"); RUN_TESTp(grids_are_square_unless_told, "rope_dino", 17, 5, 5);
    label_test("sincos3d"); RUN_TESTp(grids_are_square_unless_told, "sincos3d", 28, 4, 4);
    label_test("sincos3d_cube"); RUN_TESTp(grids_are_square_unless_told, "sincos3d", 27, 3, 3);
    RUN_TEST(places_on_a_grid_tell_down_from_across);
    RUN_TEST(place_of_all_others_is_the_position);
}

SUITE(tables)
{
    static const posenc_float seven[14] = {
        1, -2, 0.82142857f, -0.21428571f, 0.53571429f, 2.6428571f, 1.25f, 2,
        1.7857143f, 1.2142857f, 0.071428571f, 2.9285714f, -1, 4 };
    static const posenc_float three[6] = { 0.91666667f, -1.1666667f, 1.25f, 2, -0.5f, 3.5f };
    static const posenc_float two[4] = { 0.75f, 0.5f, 0.5f, 2.5f }, one[2] = { 1.25f, 2 };
    static const char *counted[] = { "learned", "sinusoidal", "binary", "integer", "sinonly",
                                     "fourier" };
    label_test("4_to_7"); RUN_TESTp(resized_table_matches_torch, 7, seven);
    label_test("4_to_3"); RUN_TESTp(resized_table_matches_torch, 3, three);
    label_test("4_to_2"); RUN_TESTp(resized_table_matches_torch, 2, two);
    label_test("4_to_1"); RUN_TESTp(resized_table_matches_torch, 1, one);
    RUN_TEST(table_of_the_same_length_stays);
    RUN_TEST(learned_with_an_offset_skips_rows);
    RUN_TEST(padded_tokens_read_the_row_of_padding);
    for (int i = 0; i < 6; i++) {
        label_test("%s", counted[i]);
        RUN_TESTp(without_positions_tokens_are_counted_from_zero, counted[i]);
    }
}

SUITE(wrong_use)
{
    static const posenc_shape odd = { 14, 2, 7, 32, 1 }, none = { 0, 0, 0, 32, 1 };
    static const posenc_shape no_context = { 16, 2, 8, 0, 1 };
    static const posenc_shape long_text = { 16, 2, 8, 200000, 1 };
    static const posenc_shape long_enough = { 16, 2, 8, 32768, 1 };
    static const posenc_shape looking_ahead = { 16, 2, 8, 32, 0 };
    static const posenc_shape two = { 2, 1, 2, 32, 1 }, fifteen = { 15, 1, 15, 32, 1 };
    static const struct bad { const char *text; const posenc_shape *shape; const char *words; }
    bad[] = {
        { "rope", &odd, "7" },                     { "lrope", &odd, "7" },
        { "xpos", &odd, "7" },
        { "rope:dim=5", &small, "5" },             { "mrope:dim=5", &small, "5" },
        { "rope:dim=10", &small, "10 8" },         { "xpos:dim=10", &small, "10 8" },
        { "rope:dim=6,offset=4", &small, "6 4 8" }, { "mrope:dim=6,offset=4", &small, "6 4 8" },
        { "lrope:dim=8,offset=1", &small, "8 1" }, { "rope2d:dim=8,offset=4", &small, "8 4" },
        { "rope:over=width,dim=18", &small, "18 16" },
        { "rope2d:dim=6", &small, "6 4" },         { "rope_pixel:dim=6", &small, "6 4" },
        { "rope_dino:dim=2", &small, "2 4" },      { "rope2d", &two, "2 4" },
        { "rope:scaling=linear,factor=0", &small, "'0' factor" },
        { "rope:scaling=linear,factor=-2", &small, "'-2' factor" },
        { "rope2d:factor=0", &small, "'0' factor" },
        { "rope:scaling=longrope,factor=4,original=16", &small, "longrope short 4" },
        { "rope:scaling=longrope,factor=4,original=16,short=1/2/3/4", &small, "longrope long 4" },
        { "rope:scaling=factors", &small, "factors long 4" },
        { "rope:scaling=factors,long=1/2/3", &small, "3 4" },
        { "rope:scaling=factors,long=1/2/3/4/5", &small, "5 4" },
        { "rope:scaling=longrope,factor=4,original=16,short=1/2,long=1/2/3/4", &small, "short 4" },
        { "rope:scaling=factors,long=1/2/0/4", &small, "1/2/0/4" },
        { "rope:scaling=factors,long=1/2/x/4", &small, "1/2/x/4" },
        { "rope:scaling=longrope,factor=4,original=1,short=1/1/1/1,long=2/2/2/2", &small,
          "original 1" },
        { "rope:scaling=proportional,proportion=1.5", &small, "1.5" },
        { "mrope:sections=1/1/1", &small, "1/1/1 4" },
        { "mrope:sections=2/2/2", &small, "2/2/2 4" },
        { "mrope:sections=1/3", &small, "sections" },
        { "mrope:sections=1/1/1/1", &small, "sections" },
        { "binary:digits=17", &small, "17 16" },   { "decimal:digits=20", &small, "20 16" },
        { "learned:rows=0", &small, "'0'" },       { "learned:rows=5,offset=5", &small, "5" },
        { "xpos:center=1", &long_text, "200000" }, { "xpos", &long_text, "200000" },
        { "sinusoidal:layout=half", &small, "half interleaved concat" },
        { "rope:layout=concat", &small, "concat interleaved half" },
        { "rope:layout=cosfirst", &small, "cosfirst interleaved half" },
        { "qtemp:form=log", &small, "qtemp llama4 ministral" },
        { "qtemp:form=power", &small, "qtemp llama4 ministral" },
        { "kerple:form=llama4", &small, "kerple log power" },
        { "kerple:form=logn", &small, "kerple log power" },
        { "sincos2d:width=0", &small, "width '0'" }, { "rope_dino:height=0", &small, "height '0'" },
        { "random_fourier", &fifteen, "15" },
        { "learned_fourier:features=5", &small, "5" },
        { "alibi:heads=3", &small, "3 2" },
        { "continuous:depth=3", &small, "'3' depth" },
        { "fourier:axes=4", &small, "'4' axes" },
        { "rope", &none, "0" },
        { "rope:factor=4", &small, "factor 4 scaling" },
        { "rope:original=64", &small, "original 64 scaling" },
        { "rope:scaling=longrope,original=16,short=1/1/1/1,long=2/2/2/2", &small,
          "factor attention" },
        { "rope_pixel:base=7", &small, "base resolution" },
        { "xpos:scale_base=1", &looking_ahead, "causal scale_base 1 32" },
    };
    static const struct { const char *text; const posenc_shape *shape; } good[] = {
        { "rope:dim=4,offset=4", &small }, { "rope:over=width,dim=16", &small },
        { "mrope:sections=2/1/1", &small }, { "rope:scaling=factors,long=1/2/3/4", &small },
        { "binary:digits=16", &small }, { "xpos:center=1", &long_enough },
        { "rope2d:dim=4", &small },
        { "kerple:form=power", &small }, { "qtemp:form=logn", &small }, { "alibi:heads=1", &small },
        { "alibi:heads=2", &small }, { "sinusoidal", &odd }, { "sincos2d:layout=concat", &small },
        { "learned:rows=6,offset=5", &small }, { "mrope:order=interleaved", &small },
        { "xpos", &looking_ahead }, { "rope:attention=1.5", &small },
        { "rope:scaling=longrope,attention=1,original=1,short=1/1/1/1,long=2/2/2/2", &small },
    };
    static const struct { posenc_spec s; const char *words; } fields[] = {
        { { .encoding = POSENC_ROPE, .base = -5 }, "base -5" },
        { { .encoding = POSENC_ROPE, .base = NAN }, "base nan" },
        { { .encoding = POSENC_ROPE, .scaling = POSENC_NTK, .factor = -1 }, "factor -1" },
        { { .encoding = POSENC_CONTINUOUS, .depth = 7 }, "depth 7 2" },
        { { .encoding = POSENC_CONTINUOUS, .hidden = -4 }, "hidden -4" },
        { { .encoding = POSENC_ROPE, .offset = -4 }, "offset -4" },
        { { .encoding = POSENC_RELATIVE, .distance = INT_MAX }, "distance 2147483647" },
        { { .encoding = POSENC_SWIN, .width = -6, .height = -6 }, "width -6" },
        { { .encoding = POSENC_ROPE, .scaling = 99 }, "scaling 99 yarn" },
        { { .encoding = POSENC_ROPE, .layout = -1 }, "layout -1" },
        { { .encoding = POSENC_XPOS, .center = NAN }, "center nan" },
        { { .encoding = POSENC_MROPE, .sections = { 1, -1, 4 } }, "sections -1" },
        { { .encoding = POSENC_ROPE, .long_factor = { 1, -2 } }, "long -2" },
    };
    static const posenc_shape endless = { 16, 2, 8, INT_MAX, 1 };
    static const struct outside { const char *text; int context; double p; const char *words; }
    outside[] = {
        { "learned", 32, 32, "32" },              { "learned:rows=20", 20, 20, "20" },
        { "learned", 32, -1, "-1" },              { "sininit", 32, 32, "32" },
        { "learned:rows=10,offset=2", 8, 8, "8" },
        { "learned", 32, 1.5, "1.5" },            { "binary", 32, 1.5, "1.5" },
        { "binary:digits=3", 8, 8, "8 7" },       { "binary", 32, 65536, "65536 65535" },
        { "binary_norm:digits=3", 8, 9, "9 7" },  { "decimal:digits=2", 32, 100, "100 99" },
        { "decimal_norm:digits=2", 32, 123, "123 99" }, { "decimal", 32, 0.5, "0.5" },
        { "binary", 32, -1, "-1" },               { "decimal", 32, -4, "-4" },
        { "swin:width=3,height=2", 6, 6, "2" },
        { "relative", 32, 0.5, "0.5" },           { "alibi", 32, 2.25, "2.25" },
        { "xpos", 32, 1e6, "1000000" },
    };
    static const struct { const char *text; int context; double p; } inside[] = {
        { "learned", 32, 31 }, { "learned:rows=10,offset=2", 8, 7 }, { "binary:digits=3", 8, 7 },
        { "decimal:digits=2", 32, 99 }, { "sinusoidal", 32, 1.5 }, { "rope", 32, -3.25 },
        { "rope", 32, 1e12 }, { "integer", 32, 1e9 }, { "continuous", 32, 99.5 },
        { "swin:width=3,height=2", 6, 5 }, { "alibi", 32, -7 }, { "decimal", 32, 1e15 - 1 },
        { "xpos", 32, 3.5 }, { "mrope", 32, 2.5 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        label_test("%s", bad[i].text);
        RUN_TESTp(spec_is_refused_with_a_sentence, bad[i].text, *bad[i].shape, bad[i].words);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        label_test("%s", good[i].text);
        RUN_TESTp(spec_is_taken, good[i].text, *good[i].shape);
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        label_test("%s_at_%g", outside[i].text, outside[i].p);
        RUN_TESTp(positions_are_refused_with_a_sentence, outside[i].text, outside[i].context,
                  outside[i].p, outside[i].words);
    }
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        label_test("%s_at_%g", inside[i].text, inside[i].p);
        RUN_TESTp(positions_are_taken, inside[i].text, inside[i].context, inside[i].p);
    }
    for (int i = POSENC_NONE + 1; i < POSENC_ENCODING_COUNT; i++) {
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(no_encoding_stands_at_nan, i, NAN);
        label_test("%s_inf", posenc_encoding_get(i)->name);
        RUN_TESTp(no_encoding_stands_at_nan, i, INFINITY);
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(completing_twice_is_completing_once, i);
    }
    for (int i = POSENC_NONE + 1; i < POSENC_ENCODING_COUNT; i++) {
        label_test("%s_without_context", posenc_encoding_get(i)->name);
        RUN_TESTp(empty_shape_is_refused_or_harmless, i, no_context, "0");
        label_test("%s_of_endless_context", posenc_encoding_get(i)->name);
        RUN_TESTp(spec_is_refused_with_a_sentence, posenc_encoding_get(i)->name, endless,
                  "2147483647");
        label_test("%s_without_width", posenc_encoding_get(i)->name);
        RUN_TESTp(empty_shape_is_refused_or_harmless, i, none, "0");
    }
    label_test("999"); RUN_TESTp(encoding_outside_the_table_is_refused, 999, "999");
    label_test("-1");  RUN_TESTp(encoding_outside_the_table_is_refused, -1, "-1");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        label_test("%s", fields[i].words);
        RUN_TESTp(field_of_the_struct_is_refused, fields[i].s, fields[i].words);
    }
    RUN_TEST(zero_means_no);
    for (int i = 0; i < 3; i++) {
        static const char *grids[] = { "sincos2d:width=4", "sincos3d:width=2,height=3",
                                       "fourier:axes=2,width=4" };
        label_test("%s", grids[i]);
        RUN_TESTp(without_coordinates_a_grid_is_read_in_order, grids[i]);
    }
    RUN_TEST(negative_window_is_refused);
    RUN_TEST(window_0_means_none);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(sources);
    RUN_SUITE(coordinates);
    RUN_SUITE(tables);
    RUN_SUITE(wrong_use);
    GREATEST_MAIN_END();
}
