/* Positions on a grid: sincos2d and rope2d, on their own buffers and in a model. */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include "models.h"

enum { ROWS = 3, COLUMNS = 5, T = ROWS * COLUMNS, H = 2, D = 8, N = T * H * D };

TEST grid_is_numbered_in_reading_order(void)
{
    double p[2 * T];
    posenc_positions_grid(p, ROWS, COLUMNS);
    for (int y = 0; y < ROWS; y++)
        for (int x = 0; x < COLUMNS; x++) {
            ASSERT_EQ(p[2 * (y * COLUMNS + x)], y);
            ASSERT_EQ(p[2 * (y * COLUMNS + x) + 1], x);
        }
    PASS();
}

/* The waves of the row beside those of the column, each a table of [5.3] of its own width. */
TEST sincos2d_is_two_tables_side_by_side(int C)
{
    double p[2 * T], one[2];
    posenc_float table[T * 32], want[2 * 32];
    int half = 2 * ((C + 3) / 4);
    posenc_positions_grid(p, ROWS, COLUMNS);
    for (int t = 0; t < 2 * T; t++) p[t] = 1.5 * p[t] - 2;              /* anywhere, not just 0.. */
    posenc_sincos2d(table, p, T, C, 300.0);
    for (int t = 0; t < T; t++) {
        one[0] = p[2 * t];
        one[1] = p[2 * t + 1];
        posenc_sinusoidal(want, one, 1, half, 300.0);
        posenc_sinusoidal(want + half, one + 1, 1, half, 300.0);
        ASSERT_CLOSE(want, table + t * C, C, 1e-7);
    }
    PASS();
}

static void turn_grid(posenc_float *x, const double *p, int layout)
{
    static posenc_float cosine[T * D / 2], sine[T * D / 2];
    double frequency[D];
    posenc_rotation by = { D / 2, 2, frequency, NULL, 0, 1, NULL };
    posenc_turns turns = { cosine, sine, T, D / 2, 0, 0, layout };
    posenc_rope2d_frequencies(frequency, D, 100.0);
    posenc_turns_fill(turns, p, &by);
    posenc_turn(posenc_heads_bthd(x, 1, T, H, D), turns);
}

/* Interleaved, the pairs of the row are the first half of a head and those of the column the rest:
   two ropes of half the width. */
TEST rope2d_is_two_ropes(void)
{
    double p[2 * T], row[T], column[T];
    posenc_float x[N], y[N];
    posenc_heads first, second;
    posenc_positions_grid(p, ROWS, COLUMNS);
    for (int t = 0; t < T; t++) { row[t] = p[2 * t]; column[t] = p[2 * t + 1]; }
    fill_random(x, N);
    memcpy(y, x, sizeof x);
    turn_grid(x, p, POSENC_INTERLEAVED);
    first = second = posenc_heads_bthd(y, 1, T, H, D);
    first.D = second.D = D / 2;
    second.data += D / 2;
    posenc_rope_forward(first, row, POSENC_INTERLEAVED, 100.0);
    posenc_rope_forward(second, column, POSENC_INTERLEAVED, 100.0);
    ASSERT_CLOSE(y, x, N, 1e-6);
    PASS();
}

static double score(const posenc_float *x, int i, int j)
{
    return weighted_sum(x + (size_t)i * H * D, x + (size_t)j * H * D, D);
}

/* The same vector in every place: its score with itself is a function of the two distances. */
TEST rope2d_scores_see_rows_and_columns_apart(int layout)
{
    double p[2 * T];
    posenc_float x[N];
    fill_random(x, H * D);
    for (int t = 1; t < T; t++) memcpy(x + t * H * D, x, H * D * sizeof *x);
    posenc_positions_grid(p, ROWS, COLUMNS);
    turn_grid(x, p, layout);
    ASSERT_LTE(fabs(score(x, 0, 1) - score(x, 8, 9)), 1e-5);                    /* one to the right */
    ASSERT_LTE(fabs(score(x, 0, COLUMNS) - score(x, 9, 9 + COLUMNS)), 1e-5);          /* one below */
    ASSERT_GT(fabs(score(x, 0, 1) - score(x, 0, COLUMNS)), 1e-3);
    ASSERT_GT(fabs(score(x, 4, 5) - score(x, 0, 1)), 1e-3);   /* next in reading order, but far off */
    PASS();
}

/* ---- in a model: positions are the numbers of the patches -------------------------------------- */

static int logits_at(posenc_float *logits, posenc_model *m, const double *p)
{
    data d;
    posenc_error why;
    fill_data(&d, m, 1, 8, 3);
    for (int t = 0; t < 8; t++) d.positions[t] = p ? p[t] : t;
    d.batch.positions = p ? d.positions : NULL;
    return posenc_model_forward(m, &d.batch, &why) == POSENC_OK
        && posenc_model_logits(m, logits, 0, 1, &why) == POSENC_OK;
}

#define GRID_MODEL "vocab=11 context=64 batch=1 classes=4 channels=16 heads=2 hidden=24 encoding=%s"

/* A 2 x 4 picture of numbers y * width + x. rope2d sees distances: moving it as a whole changes
   nothing, giving its rows another length does. */
TEST rope2d_model_sees_the_grid(void)
{
    posenc_model *m = make_model(GRID_MODEL, "rope2d:width=8");
    double here[8], moved[8], line[8];
    posenc_float a[4], b[4], c[4];
    ASSERTm(check_text, m != NULL);
    for (int t = 0; t < 8; t++) {
        here[t] = t / 4 * 8 + t % 4;
        moved[t] = here[t] + 3 * 8 + 2;
        line[t] = t;
    }
    ASSERT(logits_at(a, m, here) && logits_at(b, m, moved) && logits_at(c, m, line));
    posenc_model_free(m);
    ASSERT_CLOSE(a, b, 4, 1e-5);
    ASSERT_GT(max_abs_diff(a, c, 4), 1e-5);
    PASS();
}

/* Without a width the grid is the smallest square that holds the context. */
TEST grid_is_square_unless_told(const char *name)
{
    char with[32], without[32];
    posenc_model *m, *n;
    posenc_float a[4], b[4], c[4];
    snprintf(with, sizeof with, "%s:width=8", name);
    snprintf(without, sizeof without, "%s", name);
    m = make_model(GRID_MODEL, with);
    n = make_model(GRID_MODEL, without);
    ASSERTm(check_text, m && n);
    ASSERT(logits_at(a, m, NULL) && logits_at(b, n, NULL));
    posenc_model_free(n);
    snprintf(with, sizeof with, "%s:width=3", name);
    n = make_model(GRID_MODEL, with);
    ASSERT(n && logits_at(c, n, NULL));
    posenc_model_free(m);
    posenc_model_free(n);
    ASSERT_MEM_EQ(a, b, sizeof a);
    ASSERT_GT(max_abs_diff(a, c, 4), 1e-5);
    PASS();
}

TEST wrong_grids_are_refused(const char *encoding, const char *word)
{
    posenc_model *m = make_model(GRID_MODEL, encoding);
    int refused = m == NULL;
    posenc_model_free(m);
    ASSERT(refused);
    ASSERTm(check_text, strstr(check_text, word) != NULL);
    PASS();
}

SUITE(grids)
{
    static const int channels[] = { 4, 7, 8, 14, 16, 30 };
    RUN_TEST(grid_is_numbered_in_reading_order);
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++) {
        label_test("with_%d_channels", channels[i]);
        RUN_TESTp(sincos2d_is_two_tables_side_by_side, channels[i]);
    }
    RUN_TEST(rope2d_is_two_ropes);
    label_test("half");        RUN_TESTp(rope2d_scores_see_rows_and_columns_apart, POSENC_HALF);
    label_test("interleaved");
    RUN_TESTp(rope2d_scores_see_rows_and_columns_apart, POSENC_INTERLEAVED);
    RUN_TEST(rope2d_model_sees_the_grid);
    label_test("sincos2d"); RUN_TESTp(grid_is_square_unless_told, "sincos2d");
    label_test("rope2d");   RUN_TESTp(grid_is_square_unless_told, "rope2d");
    label_test("width_0");  RUN_TESTp(wrong_grids_are_refused, "sincos2d:width=0", "width");
    label_test("dim_6");    RUN_TESTp(wrong_grids_are_refused, "rope2d:dim=6", "multiple of 4");
    label_test("dim_too_wide"); RUN_TESTp(wrong_grids_are_refused, "rope2d:dim=12", "12");
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(grids);
    GREATEST_MAIN_END();
}
