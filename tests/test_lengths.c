/* What follows from the formulas alone about order and length, exactly: what a model without positions
   cannot tell apart, what a table learns beyond the longest text, what ALiBi does to a map, how far a
   window reaches. Measurements of the same questions belong to the experiments; nothing here is trained
   until it comes out.                                                                            */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "models.h"

enum { B = 2, T = 12, V = 11 };
#define PLAIN  "vocab=11 context=16 batch=2 channels=16 heads=4 hidden=24 activation=gelu "
#define RECENT "vocab=11 context=16 batch=2 channels=16 heads=4 kv_heads=2 hidden=24 norm=rmsnorm " \
               "activation=swiglu no_bias=1 qk_norm=before tied_head=1 "

/* weights large enough for attention to matter, the same for every model of one shape */
static void shake(posenc_model *m)
{
    check_seed = 5;
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *x = copy_tensor(m, t->data, t->count);
        for (size_t k = 0; k < t->count; k++) x[k] += (posenc_float)(0.3 * check_random());
        posenc_model_set(m, t->data, x, t->count);
        free(x);
    }
}
static posenc_model *shaken(const char *config, const char *more)
{
    posenc_model *m = make_model("%s %s", config, more);
    if (m) shake(m);
    return m;
}

/* the logits of every token, (B, T, V) */
static int logits_of(posenc_model *m, posenc_float *logits, const posenc_batch *batch)
{
    posenc_error why;
    int good = posenc_model_forward(m, batch, &why) == POSENC_OK
            && posenc_model_logits(m, logits, 0, batch->B * batch->T, &why) == POSENC_OK;
    if (!good) snprintf(check_text, sizeof check_text, "%.300s", why.text);
    return good;
}

/* ---- order ----------------------------------------------------------------------------------- */

static const int shuffled[T] = { 7, 2, 11, 0, 5, 9, 1, 10, 4, 3, 8, 6 };

/* how far the logits of a shuffled text are from the shuffled logits of the text, by their norms */
static double off_after_shuffling(posenc_model *m)
{
    static posenc_float before[B * T * V], after[B * T * V], expected[B * T * V];
    data d, e;
    fill_data(&d, m, B, T, 3);
    e = d;
    e.batch.tokens = e.tokens;
    for (int r = 0; r < B * T; r++) e.tokens[r] = d.tokens[r / T * T + shuffled[r % T]];
    if (!logits_of(m, before, &d.batch) || !logits_of(m, after, &e.batch)) return NAN;
    for (int r = 0; r < B * T; r++)
        memcpy(expected + r * V, before + (r / T * T + shuffled[r % T]) * V, V * sizeof *before);
    return norm_diff(after, expected, B * T * V);
}

TEST without_positions_order_is_invisible(const char *config)
{
    posenc_model *m = shaken(config, "encoding=none");
    ASSERTm(check_text, m);
    ASSERT_LTE(off_after_shuffling(m), 1e-6);
    posenc_model_free(m);
    PASS();
}
/* A causal mask shows it; so does every encoding. */
TEST order_shows(const char *config, const char *more)
{
    posenc_model *m = shaken(config, more);
    ASSERTm(check_text, m);
    ASSERT_GTE(off_after_shuffling(m), 1e-2);
    posenc_model_free(m);
    PASS();
}

/* Every query sees copies of one value, whatever the mask: their mean is that value, at every place. */
TEST without_positions_equal_tokens_stay_equal(const char *config, int causal)
{
    static posenc_float z[B * T * V];
    posenc_model *m = make_model("%s encoding=none causal=%d", config, causal);
    data d;
    ASSERTm(check_text, m);
    shake(m);
    fill_data(&d, m, B, T, 3);
    for (int r = 0; r < B * T; r++) d.tokens[r] = 4;
    ASSERTm(check_text, logits_of(m, z, &d.batch));
    for (int r = 1; r < B * T; r++) ASSERT_LTE(norm_diff(z + r * V, z, V), 1e-6);
    posenc_model_free(m);
    PASS();
}

/* ---- length ---------------------------------------------------------------------------------- */

/* Rows that no token of the text stood at keep gradient 0 and their first values, to the bit. */
TEST rows_beyond_the_longest_text_learn_nothing(const char *name)
{
    enum { SHORT = 7, C = 16, ROWS = 16 };
    posenc_model *m = make_model(PLAIN "encoding=%s", name);
    posenc_optimizer adam;
    posenc_tensor *t;
    posenc_float *before, *gradient, *after;
    posenc_error why;
    double loss;
    data d;
    char tensor[32];
    ASSERTm(check_text, m);
    snprintf(tensor, sizeof tensor, "pe.%s.weight", name);
    t = posenc_model_find(m, tensor);
    ASSERT(t && t->count == ROWS * C);
    memset(&adam, 0, sizeof adam);
    before = copy_tensor(m, t->data, t->count);
    fill_data(&d, m, B, SHORT, 1);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    gradient = copy_tensor(m, t->grad, t->count);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_update(m, &adam, 1e-2, NULL, &why));
    after = copy_tensor(m, t->data, t->count);
    for (int row = 0; row < ROWS; row++) {
        double size = 0;
        for (int c = 0; c < C; c++) size += fabs((double)gradient[row * C + c]);
        if (row < SHORT) ASSERT_GT(size, 0);
        else             ASSERT_EQ(size, 0);
        ASSERT_EQ(row >= SHORT, !memcmp(before + row * C, after + row * C, C * sizeof *before));
    }
    free(before);
    free(gradient);
    free(after);
    posenc_model_free(m);
    PASS();
}

/* P_ij / P_ii with ALiBi is exp(-slope (i - j)) times what it is without: content and distance multiply,
   so a distance that was never seen has its factor all the same.                                 */
TEST alibi_multiplies_the_map_by_an_exponential(void)
{
    enum { H = 4, D = 8, N = 20 };
    static posenc_float q[N * H * D], k[N * H * D], bias[H * (2 * N - 1)], slope[H];
    static posenc_float plain[H * N * N], steep[H * N * N];
    posenc_heads nothing = posenc_heads_bthd(NULL, 1, N, H, D);
    posenc_attention how;
    fill_random(q, N * H * D);
    fill_random(k, N * H * D);
    memset(&how, 0, sizeof how);
    how.causal = 1;
    posenc_attention_plain_forward(nothing, plain, posenc_heads_bthd(q, 1, N, H, D),
                                   posenc_heads_bthd(k, 1, N, H, D), nothing, &how);
    posenc_alibi_slopes(slope, H, 8);
    posenc_alibi_forward(bias, H, N - 1, N - 1, 8);
    how.bias = bias;
    how.past = how.future = N - 1;
    posenc_attention_plain_forward(nothing, steep, posenc_heads_bthd(q, 1, N, H, D),
                                   posenc_heads_bthd(k, 1, N, H, D), nothing, &how);
    for (int h = 0; h < H; h++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j <= i; j++) {
                const posenc_float *P = plain + (h * N + i) * N, *A = steep + (h * N + i) * N;
                double ratio = (double)A[j] / (double)A[i] / ((double)P[j] / (double)P[i]);
                double expected = exp(-(double)slope[h] * (i - j));
                ASSERT_LTE(fabs(ratio - expected), 2e-5 * expected);
            }
    PASS();
}

/* Sines and cosines of a sum are sums of products: the rows of two places k apart have the same dot
   product wherever they stand, also at places that no text of training reached.                  */
TEST sinusoidal_rows_see_only_their_distance(int apart)
{
    enum { C = 32, N = 400 };
    static posenc_float row[N * C];
    posenc_sinusoidal(row, NULL, N, C, 10000.0);
    double first = 0, worst = 0;
    for (int p = 0; p + apart < N; p++) {
        double dot = 0;
        for (int c = 0; c < C; c++) dot += (double)row[p * C + c] * row[(p + apart) * C + c];
        if (p == 0) first = dot;
        if (!(fabs(dot - first) <= worst)) worst = dot == dot ? fabs(dot - first) : HUGE_VAL;
    }
    ASSERT_LTE(worst, 1e-6 * C);
    PASS();
}

/* A text moved along changes nothing for encodings of the distance, and something for the others. */
TEST a_moved_text(const char *more, int the_same)
{
    static posenc_float here[B * T * V], there[B * T * V];
    posenc_model *m = make_model(RECENT "causal=1 encoding=%s", more);
    data d;
    ASSERTm(check_text, m);
    shake(m);
    fill_data(&d, m, B, T, 3);
    ASSERTm(check_text, logits_of(m, here, &d.batch));
    for (int r = 0; r < B * T; r++) d.positions[r] = 900 + r % T;
    d.batch.positions = d.positions;
    ASSERTm(check_text, logits_of(m, there, &d.batch));
    if (the_same) ASSERT_LTE(norm_diff(there, here, B * T * V), 2e-6);
    else          ASSERT_GTE(norm_diff(there, here, B * T * V), 1e-2);
    posenc_model_free(m);
    PASS();
}

/* Position interpolation: factor 4 at four times the position is where one started. */
TEST linear_scaling_divides_positions(void)
{
    static posenc_float one[B * T * V], four[B * T * V];
    posenc_model *m = shaken(RECENT "causal=1", "encoding=rope");
    posenc_model *scaled = shaken(RECENT "causal=1", "encoding=rope:scaling=linear,factor=4");
    data d;
    ASSERTm(check_text, m && scaled);
    fill_data(&d, m, B, T, 3);
    ASSERTm(check_text, logits_of(m, one, &d.batch));
    for (int r = 0; r < B * T; r++) d.positions[r] = 4 * (r % T);
    d.batch.positions = d.positions;
    ASSERTm(check_text, logits_of(scaled, four, &d.batch));
    ASSERT_LTE(norm_diff(four, one, B * T * V), 1e-6);
    posenc_model_free(m);
    posenc_model_free(scaled);
    PASS();
}

/* Each layer looks window - 1 tokens back, so that many layers reach so many times that, and no further:
   the logits behind keep their bits.                                                             */
TEST a_window_reaches_its_width_times_the_layers(int window, int layers)
{
    static posenc_float before[T * V], after[T * V];
    posenc_model *m = make_model(PLAIN "causal=1 encoding=rope window=%d layers=%d", window, layers);
    int reach = layers * (window - 1);
    data d;
    ASSERTm(check_text, m);
    shake(m);
    fill_data(&d, m, 1, T, 3);
    ASSERTm(check_text, logits_of(m, before, &d.batch));
    d.tokens[0] = d.tokens[0] % (V - 1) + 1;
    ASSERTm(check_text, logits_of(m, after, &d.batch));
    for (int t = 0; t < T; t++)
        ASSERT_EQ(t > reach, !memcmp(before + t * V, after + t * V, V * sizeof *after));
    posenc_model_free(m);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const struct { const char *name, *config; } kind[] = { { "plain", PLAIN }, { "recent", RECENT } };
    static const char *const all[] = { "sinusoidal", "learned", "continuous:init=0.5", "rope", "alibi", "t5:init=1",
                                       "relative:init=1" };
    static const struct { const char *name, *more; int same; } moved[] = {
        { "rope_stays", "rope", 1 }, { "alibi_stays", "alibi", 1 }, { "t5_stays", "t5:init=1", 1 },
        { "none_stays", "none", 1 }, { "sinusoidal_differs", "sinusoidal", 0 } };
    GREATEST_MAIN_BEGIN();
    for (int k = 0; k < 2; k++) {
        label_test("%s", kind[k].name);
        RUN_TESTp(without_positions_order_is_invisible, kind[k].config);
        label_test("%s_behind_a_causal_mask", kind[k].name);
        RUN_TESTp(order_shows, kind[k].config, "encoding=none causal=1");
        for (int causal = 0; causal < 2; causal++) {
            label_test("%s_%s", kind[k].name, causal ? "causal" : "both_ways");
            RUN_TESTp(without_positions_equal_tokens_stay_equal, kind[k].config, causal);
        }
    }
    for (int e = 0; e < (int)(sizeof all / sizeof *all); e++) {
        char more[64];
        snprintf(more, sizeof more, "encoding=%s", all[e]);
        label_test("to_%s", all[e]);
        RUN_TESTp(order_shows, PLAIN, more);
    }
    label_test("learned"); RUN_TESTp(rows_beyond_the_longest_text_learn_nothing, "learned");
    label_test("sininit"); RUN_TESTp(rows_beyond_the_longest_text_learn_nothing, "sininit");
    RUN_TEST(alibi_multiplies_the_map_by_an_exponential);
    label_test("1_apart");   RUN_TESTp(sinusoidal_rows_see_only_their_distance, 1);
    label_test("200_apart"); RUN_TESTp(sinusoidal_rows_see_only_their_distance, 200);
    for (int i = 0; i < (int)(sizeof moved / sizeof *moved); i++) {
        label_test("%s", moved[i].name);
        RUN_TESTp(a_moved_text, moved[i].more, moved[i].same);
    }
    RUN_TEST(linear_scaling_divides_positions);
    label_test("3_by_2"); RUN_TESTp(a_window_reaches_its_width_times_the_layers, 3, 2);
    label_test("2_by_5"); RUN_TESTp(a_window_reaches_its_width_times_the_layers, 2, 5);
    GREATEST_MAIN_END();
}
