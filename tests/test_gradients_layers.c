/* The backward of every layer against finite differences, in double. The loss is sum(w*y) with
   fixed random w, so that dy = w. Each parameter's gradient starts at zero, each activation's at
   NaN.                                                                                           */
#define POSENC_DOUBLE
#include "posenc.h"
#include "check.h"

enum { R = 7, IN = 5, OUT = 6, BIG = 8192 };

/* one struct for all layers: inputs, weights, outputs, saved, gradients */
typedef struct layer {
    posenc_float x[BIG], y[BIG], w[BIG], dx[BIG], p1[BIG], p2[BIG], dp1[BIG], dp2[BIG], s1[BIG],
        s2[BIG];
    posenc_float scratch[1 << 16];
    int id[64], kind, rows, bias;
    unsigned char keep[64];
    posenc_dropout how;
    double eps;
} layer;
static layer s;

static void fresh(int kind)
{
    memset(&s, 0, sizeof s);
    fill_random(s.x, BIG); fill_random(s.w, BIG); fill_random(s.p1, BIG); fill_random(s.p2, BIG);
    for (int i = 0; i < BIG; i++) s.dx[i] = s.y[i] = NAN;
    s.kind = kind;
}

/* ---- linear ---------------------------------------------------------------------------------- */

static double linear(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_linear_forward(l->y, l->x, l->p1, l->bias ? l->p2 : NULL, l->rows, IN, OUT);
    return weighted_sum(l->w, l->y, (size_t)l->rows * OUT);
}
TEST linear_gradient(int rows, int bias)
{
    gradient_of list[] = { { "x", s.x, s.dx, (size_t)rows * IN },
                           { "weight", s.p1, s.dp1, OUT * IN },
                           { "bias", s.p2, s.dp2, OUT } };
    fresh(0);
    s.rows = rows; s.bias = bias;
    posenc_linear_backward(s.dx, s.dp1, bias ? s.dp2 : NULL, s.w, s.x, s.p1, rows, IN, OUT, 0);
    ASSERT_GRADIENT(linear, &s, list, bias ? 3 : 2, 0);
    PASS();
}

/* y = linear(x) + linear(x) with another weight: the second backward adds to dx. */
static double two_linears(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_linear_forward(l->y, l->x, l->p1, NULL, R, IN, OUT);
    posenc_linear_forward(l->s1, l->x, l->p2, NULL, R, IN, OUT);
    posenc_residual(l->y, l->y, l->s1, R * OUT);
    return weighted_sum(l->w, l->y, R * OUT);
}
TEST residual_of_two_linears_gradient(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, R * IN },
                           { "first", s.p1, s.dp1, OUT * IN },
                           { "second", s.p2, s.dp2, OUT * IN } };
    fresh(0);
    posenc_linear_backward(s.dx, s.dp1, NULL, s.w, s.x, s.p1, R, IN, OUT, 0);
    posenc_linear_backward(s.dx, s.dp2, NULL, s.w, s.x, s.p2, R, IN, OUT, 1);
    ASSERT_GRADIENT(two_linears, &s, list, 3, 0);
    PASS();
}

/* ---- softmax and norms ----------------------------------------------------------------------- */

static double softmax(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_softmax_forward(l->y, l->x, R, IN);
    return weighted_sum(l->w, l->y, R * IN);
}
TEST softmax_gradient(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, R * IN } };
    fresh(0);
    softmax(&s);
    posenc_softmax_backward(s.dx, s.w, s.y, R, IN);
    ASSERT_GRADIENT(softmax, &s, list, 1, 0);
    PASS();
}

static double layernorm(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_layernorm_forward(l->y, l->s1, l->s2, l->x, l->p1, l->bias ? l->p2 : NULL, l->eps, R,
                             OUT);
    return weighted_sum(l->w, l->y, R * OUT);
}
TEST layernorm_gradient(int bias, double eps)
{
    gradient_of list[] = { { "x", s.x, s.dx, R * OUT },
                           { "gain", s.p1, s.dp1, OUT },
                           { "bias", s.p2, s.dp2, OUT } };
    fresh(0);
    s.bias = bias; s.eps = eps;
    layernorm(&s);
    posenc_layernorm_backward(s.dx, s.dp1, bias ? s.dp2 : NULL, s.w, s.s1, s.s2, s.x, s.p1, R, OUT);
    ASSERT_GRADIENT(layernorm, &s, list, bias ? 3 : 2, 0);
    PASS();
}

static double rmsnorm(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_rmsnorm_forward(l->y, l->s1, l->x, l->p1, l->eps, R, OUT);
    return weighted_sum(l->w, l->y, R * OUT);
}
TEST rmsnorm_gradient(double eps)
{
    gradient_of list[] = { { "x", s.x, s.dx, R * OUT }, { "gain", s.p1, s.dp1, OUT } };
    fresh(0);
    s.eps = eps;
    rmsnorm(&s);
    posenc_rmsnorm_backward(s.dx, s.dp1, s.w, s.s1, s.x, s.p1, R, OUT);
    ASSERT_GRADIENT(rmsnorm, &s, list, 2, 0);
    PASS();
}

/* ---- activations, SwiGLU, dropout ------------------------------------------------------------ */

enum { N = 200 };

static double activation(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_activation_forward(l->y, l->x, l->kind, N);
    return weighted_sum(l->w, l->y, N);
}
TEST activation_gradient(int kind)
{
    gradient_of list[] = { { "x", s.x, s.dx, N } };
    fresh(kind);
    for (int i = 0; i < N; i++) s.x[i] *= 4;
    posenc_activation_backward(s.dx, s.w, s.x, kind, N);
    ASSERT_GRADIENT(activation, &s, list, 1, 0);
    PASS();
}

static double swiglu(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_gated_forward(l->y, l->x, l->p1, POSENC_SILU, N);
    return weighted_sum(l->w, l->y, N);
}
TEST swiglu_gradient(void)
{
    gradient_of list[] = { { "gate", s.x, s.dx, N }, { "up", s.p1, s.dp1, N } };
    fresh(0);
    for (int i = 0; i < N; i++) s.x[i] *= 4;
    posenc_gated_backward(s.dx, s.dp1, s.w, s.x, s.p1, POSENC_SILU, N);
    ASSERT_GRADIENT(swiglu, &s, list, 2, 0);
    PASS();
}

static double dropout(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_dropout_apply(l->y, l->x, N, l->how);
    return weighted_sum(l->w, l->y, N);
}
TEST dropout_gradient(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, N } };
    fresh(0);
    s.how.rate = 0.4; s.how.seed = 5; s.how.step = 6; s.how.site = 7; s.how.first = 89;
    posenc_dropout_apply(s.dx, s.w, N, s.how);
    ASSERT_GRADIENT(dropout, &s, list, 1, 0);
    PASS();
}

/* ---- embedding and pool ---------------------------------------------------------------------- */

enum { ROWS = 9, B = 3, T = 6, C = 5 };

static double embedding(void *ctx)
{
    layer *l = (layer *)ctx;
    for (int i = 0; i < B * T * C; i++) l->y[i] = l->x[i];
    posenc_embedding_forward(l->y, l->id, l->p1, 1.7, B * T, ROWS, C, 1);
    return weighted_sum(l->w, l->y, B * T * C);
}
TEST embedding_gradient(void)
{
    gradient_of list[] = { { "table", s.p1, s.dp1, ROWS * C } };
    fresh(0);
    for (int n = 0; n < B * T; n++) s.id[n] = check_random_below(ROWS);
    s.id[4] = -1; s.id[5] = ROWS; s.id[7] = s.id[8] = s.id[9] = 3;
    posenc_embedding_backward(s.dp1, s.w, s.id, 1.7, B * T, ROWS, C);
    ASSERT_GRADIENT(embedding, &s, list, 1, 0);
    PASS();
}

static double pool(void *ctx)
{
    layer *l = (layer *)ctx;
    posenc_pool_forward(l->y, l->x, l->kind ? l->keep : NULL, B, T, C);
    return weighted_sum(l->w, l->y, B * C);
}
TEST pool_gradient(int masked)
{
    gradient_of list[] = { { "x", s.x, s.dx, B * T * C } };
    fresh(masked);
    /* sample 1: padding alone */
    for (int n = 0; n < B * T; n++) s.keep[n] = n / T == 1 ? 0 : n % 3 != 1;
    posenc_pool_backward(s.dx, s.w, masked ? s.keep : NULL, B, T, C);
    ASSERT_GRADIENT(pool, &s, list, 1, 0);
    PASS();
}

/* ---- losses ---------------------------------------------------------------------------------- */

enum { V = 11, HC = 4 };

static double crossentropy(void *ctx)
{
    layer *l = (layer *)ctx;
    double sum = 0.0;
    posenc_crossentropy(l->y, NULL, l->x, l->id, 1.0, R, V);
    for (int r = 0; r < R; r++) sum += 0.3 * l->y[r];
    return sum;
}
TEST crossentropy_gradient(void)
{
    gradient_of list[] = { { "logits", s.x, s.dx, R * V } };
    fresh(0);
    for (int r = 0; r < R; r++) s.id[r] = r % V;
    s.id[2] = POSENC_IGNORE; s.id[3] = V;
    posenc_crossentropy(s.y, s.dx, s.x, s.id, 0.3, R, V);
    ASSERT_GRADIENT(crossentropy, &s, list, 1, 0);
    PASS();
}

static int ids[2048];
static double head_loss(void *ctx)
{
    layer *l = (layer *)ctx;
    double sum = 0.0;
    posenc_head_loss(l->y, NULL, NULL, NULL, l->x, l->p1, l->bias ? l->p2 : NULL, ids, 1.0, l->rows,
                     HC, V, l->scratch);
    for (int r = 0; r < l->rows; r++) sum += 0.3 * l->y[r];
    return sum;
}
TEST head_loss_gradient(int rows, int bias)
{
    gradient_of list[] = { { "x", s.x, s.dx, (size_t)rows * HC }, { "weight", s.p1, s.dp1, V * HC },
                           { "bias", s.p2, s.dp2, V } };
    fresh(0);
    s.rows = rows; s.bias = bias;
    for (int r = 0; r < rows; r++) ids[r] = r % 6 == 5 ? POSENC_IGNORE : (3 * r) % V;
    ASSERT_LTE(posenc_head_scratch(rows, V), (size_t)1 << 16);
    posenc_head_loss(s.y, s.dx, s.dp1, bias ? s.dp2 : NULL, s.x, s.p1, bias ? s.p2 : NULL, ids, 0.3,
                     rows, HC, V, s.scratch);
    ASSERT_GRADIENT(head_loss, &s, list, bias ? 3 : 2, 0);
    PASS();
}

SUITE(gradients_of_layers)
{
    static const char *kind[] = { "relu", "gelu", "gelu_tanh", "silu" };
    label_test("of_7_rows");      RUN_TESTp(linear_gradient, 7, 1);
    label_test("of_130_rows");    RUN_TESTp(linear_gradient, 130, 1);
    label_test("without_bias");   RUN_TESTp(linear_gradient, 7, 0);
    RUN_TEST(residual_of_two_linears_gradient);
    RUN_TEST(softmax_gradient);
    label_test("with_bias");      RUN_TESTp(layernorm_gradient, 1, 1e-5);
    label_test("without_bias");   RUN_TESTp(layernorm_gradient, 0, 1e-5);
    label_test("large_epsilon");  RUN_TESTp(layernorm_gradient, 1, 0.5);
    label_test("small_epsilon");  RUN_TESTp(rmsnorm_gradient, 1e-6);
    label_test("large_epsilon");  RUN_TESTp(rmsnorm_gradient, 0.5);
    for (int i = 0; i < 4; i++) { label_test("%s", kind[i]); RUN_TESTp(activation_gradient, i); }
    RUN_TEST(swiglu_gradient);
    RUN_TEST(dropout_gradient);
    RUN_TEST(embedding_gradient);
    label_test("with_padding");    RUN_TESTp(pool_gradient, 1);
    label_test("without_padding"); RUN_TESTp(pool_gradient, 0);
    RUN_TEST(crossentropy_gradient);
    label_test("of_7_rows");      RUN_TESTp(head_loss_gradient, 7, 1);
    label_test("in_two_chunks");  RUN_TESTp(head_loss_gradient, 1030, 1);
    label_test("without_bias");   RUN_TESTp(head_loss_gradient, 7, 0);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(gradients_of_layers);
    GREATEST_MAIN_END();
}
