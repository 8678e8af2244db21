/* Softmax, cross-entropy, the head that never stores its logits, the embedding and the mean
   pool.                                                                                          */
#include "posenc.h"
#include "check.h"

static void fill_with(posenc_float *x, size_t n, double value)
{
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)value;
}
static int all_finite(const posenc_float *x, size_t n) { return max_abs_diff(x, x, n) == 0.0; }
static int all_equal(const posenc_float *x, size_t n, double value)
{
    for (size_t i = 0; i < n; i++) if (!((double)x[i] == value)) return 0;
    return 1;
}

/* ---- softmax --------------------------------------------------------------------------------- */

enum { R = 19, V = 37, M = R * V };
static posenc_float x[M], y[M], dy[M], dx[M], expected[M];

TEST softmax_matches_the_definition(int n)
{
    fill_random(x, (size_t)R * n);
    for (int i = 0; i < R * n; i++) x[i] *= (posenc_float)8;
    fill_with(y, (size_t)R * n, NAN);
    posenc_softmax_forward(y, x, R, n);
    for (int r = 0; r < R; r++) {
        double sum = 0.0;
        for (int i = 0; i < n; i++) sum += exp((double)x[r * n + i]);
        for (int i = 0; i < n; i++)
            expected[r * n + i] = (posenc_float)(exp((double)x[r * n + i]) / sum);
    }
    ASSERT_CLOSE(expected, y, (size_t)R * n, 1e-6);
    PASS();
}

TEST softmax_of_shifted_rows_is_the_same(void)
{
    fill_random(x, M);
    posenc_softmax_forward(expected, x, R, V);
    for (int i = 0; i < M; i++) x[i] += (posenc_float)512;
    posenc_softmax_forward(y, x, R, V);
    ASSERT_CLOSE(expected, y, M, 2e-5);                  /* x itself was rounded to 2^-14 */
    PASS();
}

TEST softmax_of_huge_numbers_is_finite(void)
{
    posenc_float in[6] = { (posenc_float)3e38,  0,    (posenc_float)-3e38, (posenc_float)-3e38,
                           (posenc_float)-3e38, -5000 };
    posenc_float out[6];
    posenc_softmax_forward(out, in, 2, 3);
    ASSERT_EQ((double)out[0], 1.0);
    ASSERT_EQ((double)out[1], 0.0);
    ASSERT_EQ((double)out[5], 1.0);
    ASSERT(all_finite(out, 6));
    PASS();
}

TEST softmax_of_minus_infinity_alone_is_zero(void)
{
    fill_random(x, M);
    fill_with(x + V, V, -INFINITY);
    x[0] = x[5] = (posenc_float)-INFINITY;
    posenc_softmax_forward(y, x, R, V);
    ASSERT(all_finite(y, M));
    ASSERT(all_equal(y + V, V, 0.0));
    ASSERT_EQ((double)y[0], 0.0);
    ASSERT_GT((double)y[1], 0.0);
    fill_random(dy, M);
    fill_with(dx, M, NAN);
    posenc_softmax_backward(dx, dy, y, R, V);
    ASSERT(all_finite(dx, M));
    ASSERT(all_equal(dx + V, V, 0.0));
    ASSERT_EQ((double)dx[0], 0.0);
    PASS();
}

TEST softmax_may_be_done_in_place(void)
{
    fill_random(x, M);
    posenc_softmax_forward(y, x, R, V);
    posenc_softmax_forward(x, x, R, V);
    ASSERT_MEM_EQ(y, x, sizeof x);
    PASS();
}

TEST softmax_backward_matches_the_formula(void)
{
    fill_random(x, M); fill_random(dy, M);
    posenc_softmax_forward(y, x, R, V);
    posenc_softmax_backward(dx, dy, y, R, V);
    for (int r = 0; r < R; r++) {
        double dot = weighted_sum(dy + r * V, y + r * V, V), sum = 0.0;
        for (int i = 0; i < V; i++) {
            expected[r * V + i] =
                (posenc_float)((double)y[r * V + i] * ((double)dy[r * V + i] - dot));
            sum += (double)dx[r * V + i];
        }
        ASSERT_LTE(fabs(sum), 1e-6);
    }
    ASSERT_CLOSE(expected, dx, M, 1e-6);
    PASS();
}

TEST softmax_of_a_row_with_nan_is_nan(void)
{
    fill_random(x, M);
    x[3 * V + 4] = (posenc_float)NAN;
    posenc_softmax_forward(y, x, R, V);
    for (int i = 0; i < V; i++) ASSERT(isnan((double)y[3 * V + i]));
    ASSERT(all_finite(y, 3 * V));
    ASSERT(all_finite(y + 4 * V, M - 4 * V));
    PASS();
}

/* ---- cross-entropy --------------------------------------------------------------------------- */

static int target[R];
static posenc_float loss[R], wanted_loss[R];

/* rows 2 and 5 ignored, 7 and 8 outside */
static void fresh_targets(void)
{
    fill_random(x, M);
    for (int i = 0; i < M; i++) x[i] *= (posenc_float)5;
    for (int r = 0; r < R; r++) target[r] = check_random_below(V);
    target[2] = target[5] = POSENC_IGNORE;
    target[7] = V; target[8] = -1;
    for (int r = 0; r < R; r++) {
        int skip = target[r] < 0 || target[r] >= V;
        double sum = 0.0;
        for (int i = 0; i < V; i++) sum += exp((double)x[r * V + i]);
        wanted_loss[r] = (posenc_float)(skip ? 0.0 : log(sum) - (double)x[r * V + target[r]]);
        for (int i = 0; i < V; i++)
            expected[r * V + i] =
                (posenc_float)(skip ? 0.0
                                    : 0.25 * (exp((double)x[r * V + i]) / sum - (i == target[r])));
    }
    fill_with(loss, R, NAN); fill_with(dx, M, NAN);
}

TEST crossentropy_matches_the_definition(void)
{
    fresh_targets();
    posenc_crossentropy(loss, dx, x, target, 0.25, R, V);
    ASSERT_CLOSE(wanted_loss, loss, R, 1e-5);
    ASSERT_CLOSE(expected, dx, M, 1e-6);
    PASS();
}

TEST crossentropy_skips_targets_that_are_ignored_or_outside(void)
{
    static const int skipped[] = { 2, 5, 7, 8 };
    fresh_targets();
    posenc_crossentropy(loss, dx, x, target, 0.25, R, V);
    for (int n = 0; n < 4; n++) {
        ASSERT_EQ((double)loss[skipped[n]], 0.0);
        ASSERT(all_equal(dx + skipped[n] * V, V, 0.0));
    }
    PASS();
}

TEST crossentropy_with_all_targets_ignored_is_zero(void)
{
    fresh_targets();
    for (int r = 0; r < R; r++) target[r] = POSENC_IGNORE;
    posenc_crossentropy(loss, dx, x, target, 1.0, R, V);
    ASSERT(all_equal(loss, R, 0.0));
    ASSERT(all_equal(dx, M, 0.0));
    PASS();
}

TEST crossentropy_may_write_over_the_logits_or_leave_the_gradient_out(void)
{
    fresh_targets();
    posenc_crossentropy(loss, dx, x, target, 0.25, R, V);
    memcpy(wanted_loss, loss, sizeof loss);
    fill_with(loss, R, NAN);
    posenc_crossentropy(loss, NULL, x, target, 0.25, R, V);
    ASSERT_MEM_EQ(wanted_loss, loss, sizeof loss);
    fill_with(loss, R, NAN);
    posenc_crossentropy(loss, x, x, target, 0.25, R, V);
    ASSERT_MEM_EQ(wanted_loss, loss, sizeof loss);
    ASSERT_MEM_EQ(dx, x, sizeof x);
    PASS();
}

TEST crossentropy_of_huge_logits_is_finite(void)
{
    posenc_float in[4] = { 30000, -30000, 30000, -30000 }, out[4], l[2];
    int t[2] = { 0, 1 };
    posenc_crossentropy(l, out, in, t, 1.0, 2, 2);
    ASSERT_EQ((double)l[0], 0.0);
    ASSERT_EQ((double)l[1], 60000.0);
    ASSERT_EQ((double)out[0], 0.0);
    ASSERT_EQ((double)out[2], 1.0);
    ASSERT_EQ((double)out[3], -1.0);
    PASS();
}

TEST crossentropy_of_one_class_is_zero(void)
{
    posenc_float in = 3, out = 1, l = 1;
    int t = 0;
    posenc_crossentropy(&l, &out, &in, &t, 1.0, 1, 1);
    ASSERT_EQ((double)l, 0.0);
    ASSERT_EQ((double)out, 0.0);
    PASS();
}

TEST crossentropy_shows_nan_in_the_logits(void)
{
    fresh_targets();
    target[3] = 1;
    x[3 * V + 9] = (posenc_float)NAN;
    posenc_crossentropy(loss, dx, x, target, 1.0, R, V);
    ASSERT(isnan((double)loss[3]));
    ASSERT_FALSE(isnan((double)loss[4]));
    PASS();
}

/* ---- the head with its loss ------------------------------------------------------------------ */

enum { HR = 2100, HC = 12, HV = 71 };     /* a chunk is at most 1024 rows: two borders and a rest */
static posenc_float hx[HR * HC], hw[HV * HC], hb[HV], logits[HR * HV], dlogits[HR * HV], hloss[HR],
    hloss2[HR];
static posenc_float hdx[HR * HC], hdw[HV * HC], hdb[HV], hdx2[HR * HC], hdw2[HV * HC], hdb2[HV],
    scratch[5 << 20];
static int htarget[HR];

static void fresh_head(int rows)
{
    fill_random(hx, HR * HC); fill_random(hw, HV * HC); fill_random(hb, HV);
    for (int r = 0; r < HR; r++) htarget[r] = r % 9 == 4 ? POSENC_IGNORE : check_random_below(HV);
    htarget[rows - 1] = 3;
    fill_with(hloss, HR, NAN);
    fill_with(hloss2, HR, NAN);
    fill_with(hdx, HR * HC, NAN);
    fill_with(hdx2, HR * HC, NAN);
    fill_with(hdw, HV * HC, 2);
    fill_with(hdw2, HV * HC, 2);
    fill_with(hdb, HV, 3);
    fill_with(hdb2, HV, 3);
    fill_with(scratch, 2 << 20, NAN);
}
static void head_in_steps(const posenc_float *b, posenc_float *db, int rows)
{
    posenc_linear_forward(logits, hx, hw, b, rows, HC, HV);
    posenc_crossentropy(hloss, dlogits, logits, htarget, 0.5, rows, HV);
    posenc_linear_backward(hdx, hdw, db, dlogits, hx, hw, rows, HC, HV, 0);
}

TEST head_loss_equals_product_then_crossentropy(int rows)
{
    fresh_head(rows);
    ASSERT_LTE(posenc_head_scratch(rows, HV), (size_t)2 << 20);
    head_in_steps(hb, hdb, rows);
    posenc_head_loss(hloss2, hdx2, hdw2, hdb2, hx, hw, hb, htarget, 0.5, rows, HC, HV, scratch);
    ASSERT_CLOSE(hloss, hloss2, (size_t)rows, 1e-5);
    ASSERT_CLOSE(hdx, hdx2, (size_t)rows * HC, 1e-5);
    ASSERT_CLOSE(hdw, hdw2, HV * HC, 2e-5);
    ASSERT_CLOSE(hdb, hdb2, HV, 2e-5);
    for (int r = rows; r < HR; r++) ASSERT(isnan((double)hloss2[r]));
    PASS();
}

/* A vocabulary so large that only 512 rows go at a time. */
TEST head_loss_of_a_large_vocabulary_equals_product_then_crossentropy(int rows)
{
    enum { BV = 8200, BC = 2, BR = 1025 };
    static posenc_float z[BR * BV], dz[BR * BV], bw[BV * BC], bdw[BV * BC], bdw2[BV * BC];
    fresh_head(rows);
    fill_random(bw, BV * BC);
    memset(bdw, 0, sizeof bdw); memset(bdw2, 0, sizeof bdw2);
    ASSERT_EQ(posenc_head_scratch(rows, BV), (size_t)512 * BV);
    posenc_linear_forward(z, hx, bw, NULL, rows, BC, BV);
    posenc_crossentropy(hloss, dz, z, htarget, 0.5, rows, BV);
    posenc_linear_backward(hdx, bdw, NULL, dz, hx, bw, rows, BC, BV, 0);
    posenc_head_loss(hloss2, hdx2, bdw2, NULL, hx, bw, NULL, htarget, 0.5, rows, BC, BV, scratch);
    ASSERT_CLOSE(hloss, hloss2, (size_t)rows, 1e-5);
    ASSERT_CLOSE(hdx, hdx2, (size_t)rows * BC, 1e-5);
    ASSERT_CLOSE(bdw, bdw2, BV * BC, 1e-5);
    PASS();
}

TEST head_loss_without_bias_equals_product_then_crossentropy(void)
{
    fresh_head(77);
    head_in_steps(NULL, NULL, 77);
    posenc_head_loss(hloss2, hdx2, hdw2, NULL, hx, hw, NULL, htarget, 0.5, 77, HC, HV, scratch);
    ASSERT_CLOSE(hloss, hloss2, 77, 1e-5);
    ASSERT_CLOSE(hdx, hdx2, 77 * HC, 1e-5);
    ASSERT_CLOSE(hdw, hdw2, HV * HC, 2e-5);
    PASS();
}

TEST head_loss_alone_touches_no_gradient(void)
{
    fresh_head(77);
    posenc_head_loss(hloss, hdx, hdw, hdb, hx, hw, hb, htarget, 0.5, 77, HC, HV, scratch);
    posenc_head_loss(hloss2, NULL, NULL, NULL, hx, hw, hb, htarget, 0.5, 77, HC, HV, scratch);
    ASSERT_MEM_EQ(hloss, hloss2, 77 * sizeof *hloss);
    posenc_head_loss(hloss2, NULL, hdw2, hdb2, hx, hw, hb, htarget, 0.5, 77, HC, HV, scratch);
    ASSERT_MEM_EQ(hloss, hloss2, 77 * sizeof *hloss);
    ASSERT(all_equal(hdw2, HV * HC, 2.0));
    ASSERT(all_equal(hdb2, HV, 3.0));
    PASS();
}

TEST head_loss_with_all_targets_ignored_is_zero(void)
{
    fresh_head(77);
    for (int r = 0; r < HR; r++) htarget[r] = POSENC_IGNORE;
    posenc_head_loss(hloss, hdx, hdw, hdb, hx, hw, hb, htarget, 0.5, 77, HC, HV, scratch);
    ASSERT(all_equal(hloss, 77, 0.0));
    ASSERT(all_equal(hdx, 77 * HC, 0.0));
    ASSERT(all_equal(hdw, HV * HC, 2.0));
    ASSERT(all_equal(hdb, HV, 3.0));
    PASS();
}

TEST head_scratch_does_not_grow_with_the_rows(void)
{
    size_t some = posenc_head_scratch(4096, 50000), many = posenc_head_scratch(1 << 20, 50000);
    ASSERT_LTE(many, 2 * some);
    ASSERT_LT(some, (size_t)4096 * 50000 / 4);
    PASS();
}

/* ---- the embedding --------------------------------------------------------------------------- */

enum { ER = 11, ROWS = 6, C = 9 };
static posenc_float ex[ER * C], table[ROWS * C], dtable[ROWS * C], wanted[ER * C],
    dwanted[ROWS * C];
static const int id[ER] = { 3, 0, 5, 3, -1, 6, 3, 2147483647, -2147483647, 1, 0 };

static int inside(int n) { return n >= 0 && n < ROWS; }

TEST embedding_reads_rows_and_gives_zeros_outside(void)
{
    fill_random(table, ROWS * C); fill_with(ex, ER * C, NAN);
    posenc_embedding_forward(ex, id, table, 2.0, ER, ROWS, C, 0);
    for (int r = 0; r < ER; r++) for (int i = 0; i < C; i++)
        wanted[r * C + i] =
            inside(id[r]) ? (posenc_float)2 * table[id[r] * C + i] : (posenc_float)0;
    ASSERT_CLOSE(wanted, ex, ER * C, 0.0);
    PASS();
}

TEST embedding_with_add_adds_and_leaves_ids_outside_alone(void)
{
    fill_random(table, ROWS * C); fill_with(ex, ER * C, 1);
    posenc_embedding_forward(ex, id, table, 2.0, ER, ROWS, C, 1);
    for (int r = 0; r < ER; r++) for (int i = 0; i < C; i++)
        wanted[r * C + i] =
            (posenc_float)1
            + (inside(id[r]) ? (posenc_float)2 * table[id[r] * C + i] : (posenc_float)0);
    ASSERT_CLOSE(wanted, ex, ER * C, 1e-6);
    PASS();
}

TEST embedding_backward_sums_repeated_ids(void)
{
    fill_random(ex, ER * C); fill_with(dtable, ROWS * C, 5); fill_with(dwanted, ROWS * C, 5);
    posenc_embedding_backward(dtable, ex, id, 2.0, ER, ROWS, C);
    for (int r = 0; r < ER; r++) for (int i = 0; i < C; i++)
        if (inside(id[r])) dwanted[id[r] * C + i] += (posenc_float)2 * ex[r * C + i];
    ASSERT_CLOSE(dwanted, dtable, ROWS * C, 2e-6);
    ASSERT(all_equal(dtable + 2 * C, C, 5.0));                       /* nobody asked for row 2 */
    PASS();
}

/* ---- the mean pool --------------------------------------------------------------------------- */

enum { PB = 3, PT = 7, PN = PB * PT * C };
static posenc_float px[PN], pdx[PN], py[PB * C], pdy[PB * C], pwanted[PN];
static const unsigned char keep[PB * PT] = { 1, 0, 1, 1,   0, 0, 1, 0, 0, 0, 0,
                                             0, 0, 0, 255, 1, 1, 1, 1, 1, 1 };

TEST pool_is_the_mean_of_what_is_kept(int masked)
{
    fill_random(px, PN); fill_with(py, PB * C, NAN);
    posenc_pool_forward(py, px, masked ? keep : NULL, PB, PT, C);
    for (int b = 0; b < PB; b++) for (int i = 0; i < C; i++) {
        double sum = 0.0, n = 0.0;
        for (int t = 0; t < PT; t++)
            if (!masked || keep[b * PT + t]) { sum += (double)px[(b * PT + t) * C + i]; n += 1.0; }
        pwanted[b * C + i] = (posenc_float)(n > 0.0 ? sum / n : 0.0);
    }
    ASSERT_CLOSE(pwanted, py, PB * C, 1e-6);
    PASS();
}

TEST pool_backward_shares_out_among_what_is_kept(int masked)
{
    fill_random(pdy, PB * C); fill_with(pdx, PN, NAN);
    posenc_pool_backward(pdx, pdy, masked ? keep : NULL, PB, PT, C);
    for (int b = 0; b < PB; b++) {
        int n = 0;
        for (int t = 0; t < PT; t++) n += !masked || keep[b * PT + t];
        for (int t = 0; t < PT; t++) for (int i = 0; i < C; i++)
            pwanted[(b * PT + t) * C + i] =
                (posenc_float)(!masked || keep[b * PT + t] ? (double)pdy[b * C + i] / n : 0.0);
    }
    ASSERT_CLOSE(pwanted, pdx, PN, 1e-6);
    PASS();
}

TEST pool_of_padding_alone_is_zero_and_so_is_its_gradient(void)
{
    fill_random(px, PN); fill_random(pdy, PB * C); fill_with(pdx, PN, NAN);
    posenc_pool_forward(py, px, keep, PB, PT, C);
    posenc_pool_backward(pdx, pdy, keep, PB, PT, C);
    ASSERT(all_equal(py + C, C, 0.0));
    ASSERT(all_equal(pdx + PT * C, PT * C, 0.0));
    ASSERT(all_finite(py, PB * C));
    ASSERT(all_finite(pdx, PN));
    PASS();
}

TEST pool_does_not_read_padding(void)
{
    fill_random(px, PN);
    posenc_pool_forward(pwanted, px, keep, PB, PT, C);
    for (int n = 0; n < PB * PT; n++) if (!keep[n]) fill_with(px + n * C, C, NAN);
    posenc_pool_forward(py, px, keep, PB, PT, C);
    ASSERT_MEM_EQ(pwanted, py, sizeof py);
    PASS();
}

TEST pool_of_one_token_is_that_token(void)
{
    fill_random(px, PB * C);
    posenc_pool_forward(py, px, NULL, PB, 1, C);
    ASSERT_CLOSE(px, py, PB * C, 0.0);
    PASS();
}

SUITE(softmax)
{
    static const int width[] = { 1, 2, 7, 16, 33, V };
    for (int i = 0; i < 6; i++) {
        label_test("of_%d", width[i]);
        RUN_TESTp(softmax_matches_the_definition, width[i]);
    }
    RUN_TEST(softmax_of_shifted_rows_is_the_same);
    RUN_TEST(softmax_of_huge_numbers_is_finite);
    RUN_TEST(softmax_of_minus_infinity_alone_is_zero);
    RUN_TEST(softmax_may_be_done_in_place);
    RUN_TEST(softmax_backward_matches_the_formula);
    RUN_TEST(softmax_of_a_row_with_nan_is_nan);
}

SUITE(crossentropy)
{
    RUN_TEST(crossentropy_matches_the_definition);
    RUN_TEST(crossentropy_skips_targets_that_are_ignored_or_outside);
    RUN_TEST(crossentropy_with_all_targets_ignored_is_zero);
    RUN_TEST(crossentropy_may_write_over_the_logits_or_leave_the_gradient_out);
    RUN_TEST(crossentropy_of_huge_logits_is_finite);
    RUN_TEST(crossentropy_of_one_class_is_zero);
    RUN_TEST(crossentropy_shows_nan_in_the_logits);
}

SUITE(head)
{
    static const int rows[] = { 1, 2, 31, 65, 257, 1023, 1024, 1025, HR };
    for (int i = 0; i < 9; i++) {
        label_test("of_%d_rows", rows[i]);
        RUN_TESTp(head_loss_equals_product_then_crossentropy, rows[i]);
    }
    label_test("in_1_chunk");
    RUN_TESTp(head_loss_of_a_large_vocabulary_equals_product_then_crossentropy, 512);
    label_test("in_3_chunks");
    RUN_TESTp(head_loss_of_a_large_vocabulary_equals_product_then_crossentropy, 1025);
    RUN_TEST(head_loss_without_bias_equals_product_then_crossentropy);
    RUN_TEST(head_loss_alone_touches_no_gradient);
    RUN_TEST(head_loss_with_all_targets_ignored_is_zero);
    RUN_TEST(head_scratch_does_not_grow_with_the_rows);
}

SUITE(embedding_and_pool)
{
    RUN_TEST(embedding_reads_rows_and_gives_zeros_outside);
    RUN_TEST(embedding_with_add_adds_and_leaves_ids_outside_alone);
    RUN_TEST(embedding_backward_sums_repeated_ids);
    label_test("with_padding");
    RUN_TESTp(pool_is_the_mean_of_what_is_kept, 1);
    label_test("without_padding");
    RUN_TESTp(pool_is_the_mean_of_what_is_kept, 0);
    label_test("with_padding");
    RUN_TESTp(pool_backward_shares_out_among_what_is_kept, 1);
    label_test("without_padding");
    RUN_TESTp(pool_backward_shares_out_among_what_is_kept, 0);
    RUN_TEST(pool_of_padding_alone_is_zero_and_so_is_its_gradient);
    RUN_TEST(pool_does_not_read_padding);
    RUN_TEST(pool_of_one_token_is_that_token);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(softmax);
    RUN_SUITE(crossentropy);
    RUN_SUITE(head);
    RUN_SUITE(embedding_and_pool);
    GREATEST_MAIN_END();
}
