/* The product in every form, and the linear layer made of it, against loops in double. */
#include "posenc.h"
#include "check.h"

enum { ROOM = 400000, GUARD = 64 };
static posenc_float a[ROOM], b[ROOM], c[ROOM + GUARD], expected[ROOM + GUARD], start[ROOM];

static const char *form_name[8] = { "ab",       "atb",       "abt",       "atbt",
                                    "ab_added", "atb_added", "abt_added", "atbt_added" };

/* expected (m,n) = [start +] a b, summed in double */
static void by_definition(int m, int n, int k, int form)
{
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        double sum = form & POSENC_ADD ? (double)start[i * n + j] : 0.0;
        for (int e = 0; e < k; e++)
            sum += (double)a[form & POSENC_A_T ? e * m + i : i * k + e]
                 * (double)b[form & POSENC_B_T ? j * k + e : e * n + j];
        expected[i * n + j] = (posenc_float)sum;
    }
}

/* Fills, runs, compares; NaN where nothing may be read, and a guard behind c that must stay. */
TEST product_is_right(int m, int n, int k, int form)
{
    fill_random(a, (size_t)m * k);
    fill_random(b, (size_t)k * n);
    for (int i = 0; i < m * n; i++) {
        start[i] = (posenc_float)check_random();
        c[i] = form & POSENC_ADD ? start[i] : (posenc_float)NAN;
    }
    for (int i = 0; i < GUARD; i++) c[m * n + i] = (posenc_float)7;
    by_definition(m, n, k, form);
    posenc_product(c, a, b, m, n, k, form);
    ASSERT_CLOSE(expected, c, (size_t)m * n, 1e-7 * (k + 10));
    for (int i = 0; i < GUARD; i++) ASSERT_EQ((double)c[m * n + i], 7.0);
    PASS();
}

TEST product_matches_the_definition_for_small_sizes(int form)
{
    static const int size[] = { 1, 2, 3, 5, 8, 13, 16, 17, 31, 33, 70 };
    for (int m = 0; m < 11; m++) for (int n = 0; n < 11; n++) for (int k = 0; k < 11; k++)
        CHECK_CALL(product_is_right(size[m], size[n], size[k], form));
    PASS();
}

TEST product_matches_the_definition_across_blocks(int form)
{
    static const int size[][3] = { { 1, 1, 3000 },   { 7, 5, 1031 },   { 70, 69, 700 },
                                   { 129, 257, 65 }, { 257, 40, 513 }, { 3, 1100, 40 },
                                   { 1100, 3, 40 },  { 1, 777, 300 },  { 777, 1, 300 } };
    for (int s = 0; s < 9; s++)
        CHECK_CALL(product_is_right(size[s][0], size[s][1], size[s][2], form));
    PASS();
}

TEST product_over_nothing_is_zero_or_what_was_there(void)
{
    c[0] = c[1] = (posenc_float)NAN;
    posenc_product(c, a, b, 1, 2, 0, 0);
    ASSERT_EQ((double)c[0], 0.0);
    ASSERT_EQ((double)c[1], 0.0);
    c[0] = c[1] = (posenc_float)3;
    posenc_product(c, a, b, 1, 2, 0, POSENC_ADD);
    ASSERT_EQ((double)c[0], 3.0);
    ASSERT_EQ((double)c[1], 3.0);
    PASS();
}

TEST product_with_no_rows_or_columns_writes_nothing(void)
{
    c[0] = (posenc_float)3;
    posenc_product(c, a, b, 0, 5, 4, 0);
    posenc_product(c, a, b, 5, 0, 4, 0);
    ASSERT_EQ((double)c[0], 3.0);
    PASS();
}

/* Zero times NaN is NaN: no form may skip it, or a broken run would look whole. */
TEST nan_reaches_its_row_and_no_other(int form)
{
    enum { M = 19, N = 23, K = 37 };
    fill_random(a, M * K);
    memset(b, 0, sizeof(posenc_float) * K * N);
    memset(c, 0, sizeof(posenc_float) * M * N);
    a[form & POSENC_A_T ? 20 * M + 6 : 6 * K + 20] = (posenc_float)NAN;
    posenc_product(c, a, b, M, N, K, form);
    for (int i = 0; i < M; i++) for (int j = 0; j < N; j++)
        ASSERT_EQ(i == 6, isnan((double)c[i * N + j]) != 0);
    PASS();
}

/* ---- the linear layer ------------------------------------------------------------------------ */

enum { R = 67, IN = 41, OUT = 53 };
static posenc_float x[R * IN], w[OUT * IN], bias[OUT], y[R * OUT], dy[R * OUT];
static posenc_float dx[R * IN], dw[OUT * IN], db[OUT];
static posenc_float wanted_dx[R * IN], wanted_dw[OUT * IN], wanted_db[OUT];

/* gradients by definition, added to nothing */
static void linear_by_definition(void)
{
    fill_random(x, R * IN);
    fill_random(w, OUT * IN);
    fill_random(bias, OUT);
    fill_random(dy, R * OUT);
    for (int r = 0; r < R; r++) for (int i = 0; i < IN; i++) {
        double sum = 0.0;
        for (int o = 0; o < OUT; o++) sum += (double)dy[r * OUT + o] * (double)w[o * IN + i];
        wanted_dx[r * IN + i] = (posenc_float)sum;
    }
    for (int o = 0; o < OUT; o++) {
        double total = 0.0;
        for (int r = 0; r < R; r++) total += (double)dy[r * OUT + o];
        wanted_db[o] = (posenc_float)total;
        for (int i = 0; i < IN; i++) {
            double sum = 0.0;
            for (int r = 0; r < R; r++) sum += (double)dy[r * OUT + o] * (double)x[r * IN + i];
            wanted_dw[o * IN + i] = (posenc_float)sum;
        }
    }
}
static void fill_with(posenc_float *to, size_t n, double value)
{
    for (size_t i = 0; i < n; i++) to[i] = (posenc_float)value;
}
static void add_to_all(posenc_float *to, size_t n, double value)
{
    for (size_t i = 0; i < n; i++) to[i] += (posenc_float)value;
}

TEST linear_forward_is_product_plus_bias(int with_bias)
{
    linear_by_definition();
    fill_with(y, R * OUT, NAN);
    posenc_linear_forward(y, x, w, with_bias ? bias : NULL, R, IN, OUT);
    for (int r = 0; r < R; r++) for (int o = 0; o < OUT; o++) {
        double sum = with_bias ? (double)bias[o] : 0.0;
        for (int i = 0; i < IN; i++) sum += (double)x[r * IN + i] * (double)w[o * IN + i];
        expected[r * OUT + o] = (posenc_float)sum;
    }
    ASSERT_CLOSE(expected, y, R * OUT, 5e-6);
    PASS();
}

TEST linear_backward_overwrites_dx_and_adds_to_dw_and_db(void)
{
    linear_by_definition();
    fill_with(dx, R * IN, NAN); fill_with(dw, OUT * IN, 2.0); fill_with(db, OUT, 3.0);
    posenc_linear_backward(dx, dw, db, dy, x, w, R, IN, OUT, 0);
    add_to_all(wanted_dw, OUT * IN, 2.0); add_to_all(wanted_db, OUT, 3.0);
    ASSERT_CLOSE(wanted_dx, dx, R * IN, 1e-5);
    ASSERT_CLOSE(wanted_dw, dw, OUT * IN, 1e-5);
    ASSERT_CLOSE(wanted_db, db, OUT, 1e-5);
    PASS();
}

TEST linear_backward_with_add_adds_to_dx(void)
{
    linear_by_definition();
    fill_with(dx, R * IN, 4.0); fill_with(dw, OUT * IN, 0.0); fill_with(db, OUT, 0.0);
    posenc_linear_backward(dx, dw, db, dy, x, w, R, IN, OUT, 1);
    add_to_all(wanted_dx, R * IN, 4.0);
    ASSERT_CLOSE(wanted_dx, dx, R * IN, 1e-5);
    ASSERT_CLOSE(wanted_dw, dw, OUT * IN, 1e-5);
    PASS();
}

TEST linear_backward_leaves_out_what_is_not_wanted(void)
{
    linear_by_definition();
    fill_with(dw, OUT * IN, 0.0);
    posenc_linear_backward(NULL, dw, NULL, dy, x, w, R, IN, OUT, 0);
    ASSERT_CLOSE(wanted_dw, dw, OUT * IN, 1e-5);
    fill_with(dx, R * IN, NAN);
    posenc_linear_backward(dx, NULL, NULL, dy, x, w, R, IN, OUT, 0);
    ASSERT_CLOSE(wanted_dx, dx, R * IN, 1e-5);
    fill_with(db, OUT, 0.0);
    posenc_linear_backward(NULL, NULL, db, dy, x, w, R, IN, OUT, 0);
    ASSERT_CLOSE(wanted_db, db, OUT, 1e-5);
    PASS();
}

/* One to six rows against a weight that is large enough to be read where it lies, with sizes that leave
   something over everywhere.                                                                     */
TEST few_rows_of_a_large_layer(int rows, int in, int out)
{
    size_t n = (size_t)in * out;
    posenc_float *big = (posenc_float *)malloc(n * sizeof *big), *from = (posenc_float *)malloc(n * sizeof *big);
    posenc_float *to = (posenc_float *)malloc((size_t)rows * out * sizeof *to);
    ASSERT(big && from && to);
    fill_random(big, n);
    fill_random(from, (size_t)rows * in);
    fill_random(to, (size_t)out);
    memcpy(from + (size_t)rows * in, to, (size_t)out * sizeof *to);                   /* the bias */
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        fill_with(to, (size_t)rows * out, NAN);
        posenc_linear_forward(to, from, big, with_bias ? from + (size_t)rows * in : NULL, rows, in, out);
        for (int r = 0; r < rows; r++) for (int o = 0; o < out; o++) {
            double sum = with_bias ? (double)from[(size_t)rows * in + o] : 0.0;
            for (int i = 0; i < in; i++) sum += (double)from[r * in + i] * (double)big[(size_t)o * in + i];
            ASSERT_IN_RANGE(sum, (double)to[r * out + o], 2e-5);
        }
    }
    free(big);
    free(from);
    free(to);
    PASS();
}

TEST linear_layer_of_one_row_and_one_channel(void)
{
    posenc_float x1 = 3, w1 = -2, b1 = 5, y1 = 0, dy1 = 7, dx1 = 0, dw1 = 1, db1 = 2;
    posenc_linear_forward(&y1, &x1, &w1, &b1, 1, 1, 1);
    posenc_linear_backward(&dx1, &dw1, &db1, &dy1, &x1, &w1, 1, 1, 1, 0);
    ASSERT_EQ((double)y1, -1.0);
    ASSERT_EQ((double)dx1, -14.0);
    ASSERT_EQ((double)dw1, 22.0);
    ASSERT_EQ((double)db1, 9.0);
    PASS();
}

SUITE(products)
{
    for (int form = 0; form < 8; form++) {
        label_test("%s", form_name[form]);
        RUN_TESTp(product_matches_the_definition_for_small_sizes, form);
        label_test("%s", form_name[form]);
        RUN_TESTp(product_matches_the_definition_across_blocks, form);
        label_test("%s", form_name[form]);
        RUN_TESTp(nan_reaches_its_row_and_no_other, form);
    }
    RUN_TEST(product_over_nothing_is_zero_or_what_was_there);
    RUN_TEST(product_with_no_rows_or_columns_writes_nothing);
}

SUITE(linear_layers)
{
    label_test("with_bias");
    RUN_TESTp(linear_forward_is_product_plus_bias, 1);
    label_test("without_bias");
    RUN_TESTp(linear_forward_is_product_plus_bias, 0);
    RUN_TEST(linear_backward_overwrites_dx_and_adds_to_dw_and_db);
    RUN_TEST(linear_backward_with_add_adds_to_dx);
    RUN_TEST(linear_backward_leaves_out_what_is_not_wanted);
    RUN_TEST(linear_layer_of_one_row_and_one_channel);
    for (int rows = 1; rows <= 6; rows++) {
        label_test("%d_x_259_x_301", rows);
        RUN_TESTp(few_rows_of_a_large_layer, rows, 259, 301);
        label_test("%d_x_1024_x_66", rows);
        RUN_TESTp(few_rows_of_a_large_layer, rows, 1024, 66);
    }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(products);
    RUN_SUITE(linear_layers);
    GREATEST_MAIN_END();
}
