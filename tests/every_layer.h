/* Every function of doors one and two that does arithmetic, once, on fixed inputs large enough
   to be shared among threads and odd enough to leave a remainder in every vector loop. Each run
   writes all its outputs one after another into out and returns how many there are. The tests of
   threads and of tiers run the list twice under different conditions and compare.                */
#ifndef POSENC_TESTS_EVERY_LAYER_H
#define POSENC_TESTS_EVERY_LAYER_H

#include "attention_cases.h"

enum { EVERY_ROOM = 1 << 20 };

/* inputs: the same for the same seed; memory goes back at the start of the next run */
static inline posenc_float *given(size_t n, uint32_t seed)
{
    posenc_float *x = take(n);
    fill_random_seeded(x, n, seed);
    return x;
}
/* outputs that start as zeros, one after another */
static inline posenc_float *next_zero(posenc_float *out, size_t *used, size_t n)
{
    posenc_float *at = out + *used;
    memset(at, 0, n * sizeof *at);
    *used += n;
    return at;
}

enum { EL_R = 331, EL_C = 95, EL_F = 130 };                  /* rows, channels, hidden width      */

static inline size_t run_product(posenc_float *out, int form)
{
    enum { M = 133, NN = 151, K = 310 };
    posenc_float *a = given(M * K, 1), *b = given(K * NN, 2);
    fill_random_seeded(out, M * NN, 3);
    posenc_product(out, a, b, M, NN, K, form);
    return M * NN;
}
static inline size_t run_product_ab (posenc_float *out) { return run_product(out, 0); }
static inline size_t run_product_atb(posenc_float *out)
{
    return run_product(out, POSENC_A_T | POSENC_ADD);
}
static inline size_t run_product_abt(posenc_float *out) { return run_product(out, POSENC_B_T); }
static inline size_t run_product_atbt(posenc_float *out)
{
    return run_product(out, POSENC_A_T | POSENC_B_T);
}
static inline size_t run_product_tall(posenc_float *out)
{
    posenc_float *a = given(5003 * 9, 1), *b = given(9 * 7, 2);
    posenc_product(out, a, b, 5003, 7, 9, 0);
    return 5003 * 7;
}

static inline size_t run_linear(posenc_float *out)
{
    size_t n = 0;
    posenc_float *x = given(EL_R * EL_C, 1), *w = given(EL_F * EL_C, 2), *b = given(EL_F, 3),
                 *dy = given(EL_R * EL_F, 4);
    posenc_float *y = next_zero(out, &n, EL_R * EL_F), *dx = next_zero(out, &n, EL_R * EL_C);
    posenc_float *dw = next_zero(out, &n, EL_F * EL_C), *db = next_zero(out, &n, EL_F);
    posenc_linear_forward(y, x, w, b, EL_R, EL_C, EL_F);
    posenc_linear_backward(dx, dw, db, dy, x, w, EL_R, EL_C, EL_F, 0);
    return n;
}
/* rows that are read against a large weight without packing it */
static inline size_t run_few_rows(posenc_float *out)
{
    enum { IN = 273, OUT = 250 };
    size_t n = 0;
    posenc_float *x = given(3 * IN, 1), *w = given(OUT * IN, 2), *b = given(OUT, 3);
    posenc_linear_forward(next_zero(out, &n, OUT), x, w, b, 1, IN, OUT);
    posenc_linear_forward(next_zero(out, &n, 3 * OUT), x, w, NULL, 3, IN, OUT);
    return n;
}
static inline size_t run_softmax(posenc_float *out)
{
    size_t n = 0;
    posenc_float *x = given(EL_R * EL_F, 1), *dy = given(EL_R * EL_F, 2);
    posenc_float *y = next_zero(out, &n, EL_R * EL_F), *dx = next_zero(out, &n, EL_R * EL_F);
    posenc_softmax_forward(y, x, EL_R, EL_F);
    posenc_softmax_backward(dx, dy, y, EL_R, EL_F);
    return n;
}
static inline size_t run_layernorm(posenc_float *out)
{
    size_t n = 0;
    posenc_float *x = given(EL_R * EL_F, 1), *dy = given(EL_R * EL_F, 2), *g = given(EL_F, 3),
                 *b = given(EL_F, 4);
    posenc_float *y = next_zero(out, &n, EL_R * EL_F), *dx = next_zero(out, &n, EL_R * EL_F);
    posenc_float *dg = next_zero(out, &n, EL_F), *db = next_zero(out, &n, EL_F);
    posenc_float *mean = next_zero(out, &n, EL_R), *rstd = next_zero(out, &n, EL_R);
    posenc_layernorm_forward(y, mean, rstd, x, g, b, 1e-5, EL_R, EL_F);
    posenc_layernorm_backward(dx, dg, db, dy, mean, rstd, x, g, EL_R, EL_F);
    return n;
}
static inline size_t run_rmsnorm(posenc_float *out)
{
    size_t n = 0;
    posenc_float *x = given(EL_R * EL_F, 1), *dy = given(EL_R * EL_F, 2), *g = given(EL_F, 3);
    posenc_float *y = next_zero(out, &n, EL_R * EL_F), *dx = next_zero(out, &n, EL_R * EL_F);
    posenc_float *dg = next_zero(out, &n, EL_F), *r = next_zero(out, &n, EL_R);
    posenc_rmsnorm_forward(y, r, x, g, 1e-5, EL_R, EL_F);
    posenc_rmsnorm_backward(dx, dg, dy, r, x, g, EL_R, EL_F);
    return n;
}
static inline size_t run_activation(posenc_float *out, int kind)
{
    enum { COUNT = 50007 };
    size_t n = 0;
    posenc_float *x = given(COUNT, 1), *dy = given(COUNT, 2);
    posenc_float *y = next_zero(out, &n, COUNT), *dx = next_zero(out, &n, COUNT);
    for (int i = 0; i < COUNT; i++) x[i] *= (posenc_float)6;
    posenc_activation_forward(y, x, kind, COUNT);
    posenc_activation_backward(dx, dy, x, kind, COUNT);
    return n;
}
static inline size_t run_relu(posenc_float *out)      { return run_activation(out, POSENC_RELU); }
static inline size_t run_gelu(posenc_float *out)      { return run_activation(out, POSENC_GELU); }
static inline size_t run_gelu_tanh(posenc_float *out)
{
    return run_activation(out, POSENC_GELU_TANH);
}
static inline size_t run_silu(posenc_float *out)      { return run_activation(out, POSENC_SILU); }
static inline size_t run_swiglu(posenc_float *out)
{
    enum { COUNT = 50007 };
    size_t n = 0;
    posenc_float *gate = given(COUNT, 1), *up = given(COUNT, 2), *dy = given(COUNT, 3);
    posenc_float *y = next_zero(out, &n, COUNT), *dgate = next_zero(out, &n, COUNT),
                 *dup = next_zero(out, &n, COUNT);
    posenc_gated_forward(y, gate, up, POSENC_SILU, COUNT);
    posenc_gated_backward(dgate, dup, dy, gate, up, POSENC_SILU, COUNT);
    return n;
}
static inline size_t run_dropout(posenc_float *out)
{
    enum { COUNT = 50007 };
    posenc_dropout how = { 0.1, 1, 2, 3, 5 };
    posenc_dropout_apply(out, given(COUNT, 1), COUNT, how);
    return COUNT;
}
static inline size_t run_residual(posenc_float *out)
{
    enum { COUNT = 50007 };
    posenc_residual(out, given(COUNT, 1), given(COUNT, 2), COUNT);
    return COUNT;
}
static inline size_t run_embedding(posenc_float *out)
{
    enum { ROWS = 17 };                                    /* few rows: many threads meet in each */
    size_t n = 0;
    int *id = take_ints(EL_R);
    posenc_float *table = given(ROWS * EL_C, 1), *dx = given(EL_R * EL_C, 2);
    posenc_float *x = next_zero(out, &n, EL_R * EL_C), *dtable = next_zero(out, &n, ROWS * EL_C);
    for (int r = 0; r < EL_R; r++) id[r] = r * 7 % (ROWS + 1);
    posenc_embedding_forward(x, id, table, 1.5, EL_R, ROWS, EL_C, 0);
    posenc_embedding_backward(dtable, dx, id, 1.5, EL_R, ROWS, EL_C);
    return n;
}
static inline size_t run_pool(posenc_float *out)
{
    enum { B = 5, T = 67 };
    size_t n = 0;
    unsigned char *keep = (unsigned char *)take_bytes(B * T);
    posenc_float *x = given(B * T * EL_C, 1), *dy = given(B * EL_C, 2);
    posenc_float *y = next_zero(out, &n, B * EL_C), *dx = next_zero(out, &n, B * T * EL_C);
    for (int i = 0; i < B * T; i++) keep[i] = i % 5 != 0;
    posenc_pool_forward(y, x, keep, B, T, EL_C);
    posenc_pool_backward(dx, dy, keep, B, T, EL_C);
    return n;
}
static inline size_t run_crossentropy(posenc_float *out)
{
    size_t n = 0;
    int *target = take_ints(EL_R);
    posenc_float *loss = next_zero(out, &n, EL_R), *d = next_zero(out, &n, EL_R * EL_F);
    for (int r = 0; r < EL_R; r++) target[r] = r * 11 % EL_F;
    posenc_crossentropy(loss, d, given(EL_R * EL_F, 1), target, 0.1, EL_R, EL_F);
    return n;
}
static inline size_t run_head(posenc_float *out)
{
    enum { V = 517 };
    size_t n = 0;
    int *target = take_ints(EL_R);
    posenc_float *loss = next_zero(out, &n, EL_R), *dx = next_zero(out, &n, EL_R * EL_C);
    posenc_float *dw = next_zero(out, &n, V * EL_C), *db = next_zero(out, &n, V);
    for (int r = 0; r < EL_R; r++) target[r] = r * 11 % V;
    posenc_head_loss(loss, dx, dw, db, given(EL_R * EL_C, 1), given(V * EL_C, 2), given(V, 3),
                     target, 0.1, EL_R, EL_C, V, take(posenc_head_scratch(EL_R, V)));
    return n;
}

static inline size_t run_attention(posenc_float *out, attention_case c, int tiled)
{
    static attention_run r;
    size_t n = 0;
    check_seed = 77;
    attention_begin(&r, c);
    r.how.threads = posenc_threads();
    r.scratch = take(posenc_attention_scratch(r.c.B, c.Tq, c.Tk, c.H, c.D, &r.how));
    r.out.data = next_zero(out, &n, r.q_count); r.dq.data = next_zero(out, &n, r.q_count);
    r.dk.data = next_zero(out, &n, r.k_count); r.dv.data = next_zero(out, &n, r.k_count);
    if (r.bias) r.dbias = next_zero(out, &n, r.bias_count);
    if (c.row_bias) r.pattern.dtable = next_zero(out, &n, (size_t)c.H * 7);
    if (tiled) { attention_tiled_forward(&r); attention_tiled_backward(&r); }
    else       { attention_plain_forward(&r); attention_plain_backward(&r); }
    return n;
}
static const attention_case shared_case = {
    .B = 3, .Tq = 70, .Tk = 101, .H = 4, .Hk = 2, .D = 24, .causal = 1, .padding = 1, .past = 30,
    .turns = POSENC_HALF, .dropout = 0.1
};
static const attention_case callback_case = {
    .B = 2, .Tq = 70, .Tk = 70, .H = 2, .Hk = 2, .D = 16, .window = 40, .row_bias = 1, .past = 10,
    .future = 10
};
static const attention_case single_case = {
    .B = 1, .Tq = 130, .Tk = 130, .H = 1, .Hk = 1, .D = 40, .past = 60, .future = 60
};
static inline size_t run_attention_tiled(posenc_float *out)
{
    return run_attention(out, shared_case, 1);
}
static inline size_t run_attention_callback(posenc_float *out)
{
    return run_attention(out, callback_case, 1);
}
static inline size_t run_attention_single(posenc_float *out)
{
    return run_attention(out, single_case, 1);
}
static inline size_t run_attention_plain(posenc_float *out)
{
    return run_attention(out, shared_case, 0);
}

static inline size_t run_rows(posenc_float *out)
{
    enum { B = 7, T = 45 };
    size_t n = 0;
    posenc_float *dx = given(B * T * EL_C, 2), *table = take(T * EL_C);
    posenc_float *x = next_zero(out, &n, B * T * EL_C), *dtable = next_zero(out, &n, T * EL_C);
    posenc_sinusoidal(table, NULL, T, EL_C, 10000.0);
    posenc_rows_forward(x, table, B, T, EL_C);
    posenc_rows_backward(dtable, dx, B, T, EL_C);
    return n;
}
static inline size_t run_learned(posenc_float *out)
{
    enum { B = 7, T = 45, ROWS = 10 };
    size_t n = 0;
    double pos[T];
    posenc_float *dx = given(B * T * EL_C, 2), *table = given(ROWS * EL_C, 1);
    posenc_float *x = next_zero(out, &n, B * T * EL_C), *dtable = next_zero(out, &n, ROWS * EL_C);
    for (int t = 0; t < T; t++) pos[t] = t * 3 % (ROWS + 1);
    posenc_learned_forward(x, table, pos, B, T, EL_C, ROWS);
    posenc_learned_backward(dtable, dx, pos, B, T, EL_C, ROWS);
    return n;
}
static inline size_t run_continuous(posenc_float *out)
{
    enum { B = 3, T = 101, HID = 37 };
    size_t n = 0;
    posenc_continuous w = { given(HID, 1), given(HID, 2),        given(HID * HID, 3),
                            given(HID, 4), given(EL_C * HID, 5), given(EL_C, 6) },
                      dw;
    posenc_float *dx = given(B * T * EL_C, 7),
                 *scratch = take(posenc_continuous_scratch(T, EL_C, HID));
    posenc_float *x = next_zero(out, &n, B * T * EL_C);
    dw.w1 = next_zero(out, &n, HID);
    dw.b1 = next_zero(out, &n, HID);
    dw.w2 = next_zero(out, &n, HID * HID);
    dw.b2 = next_zero(out, &n, HID);
    dw.w3 = next_zero(out, &n, EL_C * HID);
    dw.b3 = next_zero(out, &n, EL_C);
    posenc_continuous_forward(x, scratch, &w, NULL, 50.0, B, T, EL_C, HID);
    posenc_continuous_backward(&dw, dx, scratch, &w, B, T, EL_C, HID);
    return n;
}
static inline size_t run_lrope(posenc_float *out, int layout)
{
    enum { B = 3, T = 61, H = 3, D = 26, N = B * T * H * D };
    size_t n = 0;
    posenc_float *scale = given(D / 2, 1), *raw = given(N, 2);
    posenc_float *x = next_zero(out, &n, N), *dx = next_zero(out, &n, N),
                 *dscale = next_zero(out, &n, D / 2);
    memcpy(x, raw, N * sizeof *x);
    fill_random_seeded(dx, N, 3);
    posenc_lrope_forward(posenc_heads_bthd(x, B, T, H, D), scale, NULL, layout, 100.0);
    posenc_lrope_backward(posenc_heads_bthd(dx, B, T, H, D), dscale,
                          posenc_heads_bthd(raw, B, T, H, D), scale, NULL, layout, 100.0);
    return n;
}
static inline size_t run_lrope_interleaved(posenc_float *out)
{
    return run_lrope(out, POSENC_INTERLEAVED);
}
static inline size_t run_lrope_half(posenc_float *out) { return run_lrope(out, POSENC_HALF); }
static inline size_t run_rope(posenc_float *out)
{
    enum { B = 3, T = 61, H = 3, D = 26, N = B * T * H * D };
    fill_random_seeded(out, 2 * N, 1);
    posenc_rope_forward (posenc_heads_bthd(out, B, T, H, D), NULL, POSENC_HALF, 100.0);
    posenc_rope_backward(posenc_heads_bhtd(out + N, B, H, T, D), NULL, POSENC_INTERLEAVED, 100.0);
    return 2 * N;
}
static inline size_t run_biases(posenc_float *out)
{
    enum { H = 5, PAST = 200, FUTURE = 100, W = PAST + 1 + FUTURE, CLIP = 50 };
    size_t n = 0;
    posenc_float *d = given(H * W, 3);
    posenc_float *bias = next_zero(out, &n, H * W), *drel = next_zero(out, &n, (2 * CLIP + 1) * H);
    posenc_float *dt5 = next_zero(out, &n, 32 * H), *scores = next_zero(out, &n, H * 60 * 70);
    posenc_alibi_forward(bias, H, PAST, FUTURE, 8.0);
    posenc_relative_forward(bias, given((2 * CLIP + 1) * H, 1), CLIP, H, PAST, FUTURE);
    posenc_t5_forward(bias, given(32 * H, 2), 32, 128, 1, H, PAST, FUTURE);
    posenc_relative_backward(drel, d, CLIP, H, PAST, FUTURE);
    posenc_t5_backward(dt5, d, 32, 128, 1, H, PAST, FUTURE);
    posenc_bias_expand(scores, bias, H, 60, 70, PAST, FUTURE);
    return n;
}
static inline size_t run_optimizer(posenc_float *out, int kind, double momentum)
{
    enum { COUNT = 30011 };
    size_t n = 0;
    posenc_optimizer o = { 0 };
    posenc_float *w = next_zero(out, &n, COUNT), *m = next_zero(out, &n, COUNT),
                 *v = next_zero(out, &n, COUNT);
    o.kind = kind; o.momentum = momentum; o.nesterov = momentum > 0.0;
    fill_random_seeded(w, COUNT, 1);
    for (uint64_t t = 1; t <= 3; t++)
        posenc_optimizer_apply(w, m, v, given(COUNT, 10 + (uint32_t)t), COUNT, &o, 0.01, 0.7, 0.1,
                               t);
    return n;
}
static inline size_t run_adamw(posenc_float *out) { return run_optimizer(out, POSENC_ADAMW, 0.0); }
static inline size_t run_adam(posenc_float *out)  { return run_optimizer(out, POSENC_ADAM, 0.0); }
static inline size_t run_sgd(posenc_float *out)   { return run_optimizer(out, POSENC_SGD, 0.9); }
static inline size_t run_sum_squares(posenc_float *out)
{
    size_t n = 0;
    for (size_t count = 1; count < 200000; count = count * 3 + 1) {   /* the double, in two parts */
        double s = posenc_sum_squares(given(count, 1), count);
        out[n++] = (posenc_float)s;
        out[n] = (posenc_float)(s - (double)out[n - 1]);
        n++;
    }
    return n;
}

typedef struct layer_run { const char *name; size_t (*run)(posenc_float *out); } layer_run;

static const layer_run every_layer[] = {
    { "product_ab", run_product_ab },
    { "product_atb", run_product_atb },
    { "product_abt", run_product_abt },
    { "product_atbt", run_product_atbt },
    { "product_tall", run_product_tall },
    { "linear", run_linear },
    { "few_rows", run_few_rows },
    { "softmax", run_softmax },
    { "layernorm", run_layernorm },
    { "rmsnorm", run_rmsnorm },
    { "relu", run_relu },
    { "gelu", run_gelu },
    { "gelu_tanh", run_gelu_tanh },
    { "silu", run_silu },
    { "swiglu", run_swiglu },
    { "dropout", run_dropout },
    { "residual", run_residual },
    { "embedding", run_embedding },
    { "pool", run_pool },
    { "crossentropy", run_crossentropy },
    { "head", run_head },
    { "attention_tiled", run_attention_tiled },
    { "attention_callback", run_attention_callback },
    { "attention_single", run_attention_single },
    { "attention_plain", run_attention_plain },
    { "rows", run_rows },
    { "learned", run_learned },
    { "continuous", run_continuous },
    { "rope", run_rope },
    { "lrope_interleaved", run_lrope_interleaved },
    { "lrope_half", run_lrope_half },
    { "biases", run_biases },
    { "adamw", run_adamw },
    { "adam", run_adam },
    { "sgd", run_sgd },
    { "sum_squares", run_sum_squares },
};
enum { EVERY_LAYER = sizeof every_layer / sizeof *every_layer };

static inline size_t run_layer(const layer_run *l, posenc_float *out)
{
    give_back();
    return l->run(out);
}
#endif
