/* The library against PyTorch in float64: layers, attention, encodings, optimizers and whole models, outputs
   and gradients. The numbers are in tests/golden/, with the script that made them. Everything runs once per
   kernel tier that this CPU has.                                                                     */
#include "posenc.h"
#include "check.h"
#include "golden.h"

static golden_file layers, attentions, encodings;

/* ---- memory of one test: exact sizes, so that a sanitizer sees every step too far ------------------ */

static void *taken[512];
static int taken_count;
static posenc_model *model;
static golden_file expected;                /* of the model now tested */

static void *take(size_t bytes)
{
    void *p = taken_count < 512 ? malloc(bytes ? bytes : 1) : NULL;
    if (!p) { puts("out of memory in the test itself"); exit(EXIT_FAILURE); }
    return taken[taken_count++] = p;
}

static void give_back(void *unused)
{
    (void)unused;
    while (taken_count) free(taken[--taken_count]);
    posenc_model_free(model);
    model = NULL;
    golden_close(&expected);
}

/* room for results: NaN, so that an element nobody writes fails */
static posenc_float *blank(size_t n)
{
    posenc_float *x = take(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)NAN;
    return x;
}

/* room for gradients of parameters, which are added to */
static posenc_float *zeros(size_t n)
{
    posenc_float *x = take(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = 0;
    return x;
}

/* a copy that may be changed in place */
static posenc_float *copy(golden_file *f, const char *name)
{
    golden_tensor *t = golden_need(f, name);
    size_t n = t ? t->count : 1;
    posenc_float *x = take(n * sizeof *x);
    memcpy(x, golden_numbers(f, name), n * sizeof *x);
    return x;
}

/* "linear" and "dx" make "linear.dx"; the last eight results stay valid */
static const char *in(const char *group, const char *name)
{
    static char text[8][96];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(text[turn], sizeof text[turn], "%s.%s", group, name);
    return text[turn];
}

/* ---- layers ------------------------------------------------------------------------------------------ */

#define L(NAME) golden_numbers(&layers, in(name, NAME))

TEST linear_matches_pytorch(const char *name)
{
    int R = golden_size(&layers, in(name, "x"), 0), from = golden_size(&layers, in(name, "x"), 1);
    int to = golden_size(&layers, in(name, "y"), 1), has_bias = golden_find(&layers, in(name, "b")) != NULL;
    size_t nx = (size_t)R * from, ny = (size_t)R * to, nw = (size_t)to * from;
    posenc_float *y = blank(ny), *dx = blank(nx), *dw = zeros(nw), *db = zeros(to);
    posenc_linear_forward(y, L("x"), L("w"), has_bias ? L("b") : NULL, R, from, to);
    posenc_linear_backward(dx, dw, has_bias ? db : NULL, L("dy"), L("x"), L("w"), R, from, to, 0);
    ASSERT_GOLDEN(&layers, in(name, "y"), y, ny, 1e-5);
    ASSERT_GOLDEN(&layers, in(name, "dx"), dx, nx, 1e-5);
    ASSERT_GOLDEN(&layers, in(name, "dw"), dw, nw, 1e-5);
    if (has_bias) ASSERT_GOLDEN(&layers, in(name, "db"), db, to, 1e-5);
    PASS();
}

/* one row of it is -infinity from end to end, one overflows exp */
TEST softmax_matches_pytorch(void)
{
    const char *name = "softmax";
    int R = golden_size(&layers, "softmax.x", 0), n = golden_size(&layers, "softmax.x", 1);
    posenc_float *y = blank((size_t)R * n), *dx = blank((size_t)R * n);
    posenc_softmax_forward(y, L("x"), R, n);
    posenc_softmax_backward(dx, L("dy"), y, R, n);
    ASSERT_GOLDEN_ROWS(&layers, "softmax.y", y, (size_t)R * n, 1e-5);
    ASSERT_GOLDEN_ROWS(&layers, "softmax.dx", dx, (size_t)R * n, 1e-5);
    PASS();
}

TEST layernorm_matches_pytorch(const char *name)
{
    int R = golden_size(&layers, in(name, "x"), 0), n = golden_size(&layers, in(name, "x"), 1);
    int has_bias = golden_find(&layers, in(name, "bias")) != NULL;
    size_t all = (size_t)R * n;
    posenc_float *y = blank(all), *mean = blank(R), *rstd = blank(R), *dx = blank(all), *dgain = zeros(n),
                 *dbias = zeros(n);
    posenc_layernorm_forward(y, mean, rstd, L("x"), L("gain"), has_bias ? L("bias") : NULL,
                             *golden_exact(&layers, in(name, "eps")), R, n);
    posenc_layernorm_backward(dx, dgain, has_bias ? dbias : NULL, L("dy"), mean, rstd, L("x"), L("gain"),
                              R, n);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "y"), y, all, 1e-5);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "dx"), dx, all, 1e-5);
    ASSERT_GOLDEN(&layers, in(name, "dgain"), dgain, n, 1e-5);
    if (has_bias) ASSERT_GOLDEN(&layers, in(name, "dbias"), dbias, n, 1e-5);
    PASS();
}

TEST rmsnorm_matches_pytorch(const char *name)
{
    int R = golden_size(&layers, in(name, "x"), 0), n = golden_size(&layers, in(name, "x"), 1);
    size_t all = (size_t)R * n;
    posenc_float *y = blank(all), *r = blank(R), *dx = blank(all), *dgain = zeros(n);
    posenc_rmsnorm_forward(y, r, L("x"), L("gain"), *golden_exact(&layers, in(name, "eps")), R, n);
    posenc_rmsnorm_backward(dx, dgain, L("dy"), r, L("x"), L("gain"), R, n);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "y"), y, all, 1e-5);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "dx"), dx, all, 1e-5);
    ASSERT_GOLDEN(&layers, in(name, "dgain"), dgain, n, 1e-5);
    PASS();
}

/* from -100 to 100: below 1 the difference itself is held to 1e-6, above it in proportion */
TEST activation_matches_pytorch(const char *name, int kind)
{
    int n = golden_size(&layers, "activation.x", 0);
    const posenc_float *x = golden_numbers(&layers, "activation.x");
    posenc_float *y = blank(n), *dx = blank(n);
    posenc_activation_forward(y, x, kind, n);
    posenc_activation_backward(dx, golden_numbers(&layers, "activation.dy"), x, kind, n);
    ASSERT_GOLDEN_EACH(&layers, in(name, "y"), y, n, 1e-6, 1.0);
    ASSERT_GOLDEN_EACH(&layers, in(name, "dx"), dx, n, 1e-6, 1.0);
    PASS();
}

TEST swiglu_matches_pytorch(void)
{
    const char *name = "swiglu";
    int n = golden_size(&layers, "swiglu.y", 0);
    posenc_float *y = blank(n), *dgate = blank(n), *dup = blank(n);
    posenc_gated_forward(y, L("gate"), L("up"), POSENC_SILU, n);
    posenc_gated_backward(dgate, dup, L("dy"), L("gate"), L("up"), POSENC_SILU, n);
    ASSERT_GOLDEN_EACH(&layers, "swiglu.y", y, n, 1e-6, 1.0);
    ASSERT_GOLDEN_EACH(&layers, "swiglu.dgate", dgate, n, 1e-6, 1.0);
    ASSERT_GOLDEN_EACH(&layers, "swiglu.dup", dup, n, 1e-6, 1.0);
    PASS();
}

/* ids come twice: their gradients add up */
TEST embedding_matches_pytorch(const char *name)
{
    int rows = golden_size(&layers, in(name, "table"), 0), C = golden_size(&layers, in(name, "table"), 1);
    int R = golden_size(&layers, in(name, "id"), 0);
    double scale = *golden_exact(&layers, in(name, "scale"));
    const int *id = golden_whole(&layers, in(name, "id"));
    posenc_float *x = blank((size_t)R * C), *dtable = zeros((size_t)rows * C);
    posenc_embedding_forward(x, id, L("table"), scale, R, rows, C, 0);
    posenc_embedding_backward(dtable, L("dx"), id, scale, R, rows, C);
    ASSERT_GOLDEN(&layers, in(name, "x"), x, (size_t)R * C, 1e-6);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "dtable"), dtable, (size_t)rows * C, 1e-6);
    PASS();
}

/* the last row of the batch is padding from end to end: mean 0, gradient 0 */
TEST mean_pooling_matches_pytorch(int masked)
{
    int B = golden_size(&layers, "pool.x", 0), T = golden_size(&layers, "pool.x", 1);
    int C = golden_size(&layers, "pool.x", 2);
    const char *name = masked ? "pool" : "pool_all";
    const unsigned char *keep = masked ? golden_bytes(&layers, "pool.keep") : NULL;
    posenc_float *y = blank((size_t)B * C), *dx = blank((size_t)B * T * C);
    posenc_pool_forward(y, golden_numbers(&layers, "pool.x"), keep, B, T, C);
    posenc_pool_backward(dx, golden_numbers(&layers, "pool.dy"), keep, B, T, C);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "y"), y, (size_t)B * C, 1e-6);
    ASSERT_GOLDEN_ROWS(&layers, in(name, "dx"), dx, (size_t)B * T * C, 1e-6);
    PASS();
}

/* some targets are ignored; some rows are sure, right and wrong */
TEST crossentropy_matches_pytorch(void)
{
    const char *name = "crossentropy";
    int R = golden_size(&layers, "crossentropy.logits", 0);
    int V = golden_size(&layers, "crossentropy.logits", 1);
    double scale = *golden_exact(&layers, "crossentropy.scale");
    const int *target = golden_whole(&layers, "crossentropy.target");
    posenc_float *loss = blank(R), *dlogits = blank((size_t)R * V);
    posenc_crossentropy(loss, dlogits, L("logits"), target, scale, R, V);
    ASSERT_GOLDEN(&layers, "crossentropy.loss", loss, R, 1e-6);
    /* the sure and right row has a gradient of 1e-26: what is left of it is rounding */
    ASSERT_GOLDEN(&layers, "crossentropy.dlogits", dlogits, (size_t)R * V, 1e-6);
    for (int r = 0; r < R; r++) {
        if (target[r] != POSENC_IGNORE) continue;
        ASSERT_EQ(0.0, loss[r]);
        for (int v = 0; v < V; v++) ASSERT_EQ(0.0, dlogits[r * V + v]);
    }
    PASS();
}

TEST head_with_loss_matches_pytorch(void)
{
    const char *name = "head";
    int R = golden_size(&layers, "head.x", 0), C = golden_size(&layers, "head.x", 1);
    int V = golden_size(&layers, "head.w", 0);
    const int *target = golden_whole(&layers, "crossentropy.target");
    posenc_float *loss = blank(R), *dx = blank((size_t)R * C), *dw = zeros((size_t)V * C), *db = zeros(V);
    posenc_head_loss(loss, dx, dw, db, L("x"), L("w"), L("b"), target,
                     *golden_exact(&layers, "crossentropy.scale"), R, C, V, blank(posenc_head_scratch(R, V)));
    ASSERT_GOLDEN(&layers, "head.loss", loss, R, 1e-5);
    ASSERT_GOLDEN_ROWS(&layers, "head.dx", dx, (size_t)R * C, 1e-5);
    ASSERT_GOLDEN(&layers, "head.dw", dw, (size_t)V * C, 1e-5);
    ASSERT_GOLDEN(&layers, "head.db", db, V, 1e-5);
    PASS();
}

/* Five steps with given gradients; one weight never gets any, one so little that eps shows. Small weights
   and large steps: a step wrong by 6e-6, which 1 - 0.999f would give, is seen.                        */
TEST optimizer_matches_pytorch(const char *name, posenc_optimizer o)
{
    int n = golden_size(&layers, "optimizer.g", 1), steps = golden_size(&layers, "optimizer.g", 0);
    posenc_float *w = copy(&layers, "optimizer.w"), *m = zeros(n), *v = zeros(n);
    const posenc_float *g = golden_numbers(&layers, "optimizer.g");
    o.beta1 = 0.8; o.beta2 = 0.999; o.eps = 1e-6;
    for (int t = 1; t <= steps; t++)
        posenc_optimizer_apply(w, m, v, g + (size_t)(t - 1) * n, n, &o, 0.03, 1.0, 0.2, (uint64_t)t);
    ASSERT_GOLDEN(&layers, in("optimizer", name), w, n, 1e-6);
    PASS();
}

/* ---- attention --------------------------------------------------------------------------------------- */

typedef struct attention_case {
    int B, Tq, Tk, H, Hk, D;
    size_t nq, nk;                          /* elements of q and of k */
    posenc_attention how;
    posenc_turns q_turns, k_turns;
    posenc_heads q, k, v, dout, out, dq, dk, dv;
    posenc_float *dbias;
} attention_case;

static void fill_turns(posenc_turns *turns, const char *name, const char *positions, int T)
{
    const int *shape = golden_whole(&attentions, in(name, "turns"));     /* layout, dim, offset */
    golden_tensor *pos = golden_need(&attentions, in(name, positions));
    double frequency[32];
    posenc_rotation by = { shape[1] / 2, 1, frequency, NULL, 0, 1, NULL };
    turns->layout = shape[0];
    turns->pairs = shape[1] / 2;
    turns->offset = shape[2];
    turns->row_b = pos && pos->dims == 2 ? T : 0;     /* each batch row has positions of its own */
    turns->rows = pos ? (int)pos->count : 0;
    turns->cosine = blank((size_t)turns->rows * turns->pairs);
    turns->sine = blank((size_t)turns->rows * turns->pairs);
    posenc_rope_frequencies(frequency, shape[1], *golden_exact(&attentions, in(name, "base")));
    posenc_turns_fill(*turns, golden_exact(&attentions, in(name, positions)), &by);
}

static void attention_begin(attention_case *a, const char *name)
{
    golden_file *f = &attentions;
    const int *how = golden_whole(f, in(name, "how"));
    char inputs[64];
    memset(a, 0, sizeof *a);
    a->B = how[0]; a->Tq = how[1]; a->Tk = how[2]; a->H = how[3]; a->Hk = how[4]; a->D = how[5];
    a->how.causal = how[6]; a->how.window = how[7]; a->how.past = how[8]; a->how.future = how[9];
    a->nq = (size_t)a->B * a->Tq * a->H * a->D;
    a->nk = (size_t)a->B * a->Tk * a->Hk * a->D;
    snprintf(inputs, sizeof inputs, "inputs.%dx%dx%dx%dx%dx%d", how[0], how[1], how[2], how[3], how[4],
             how[5]);
    a->q    = posenc_heads_bthd(copy(f, in(inputs, "q")), a->B, a->Tq, a->H, a->D);
    a->k    = posenc_heads_bthd(copy(f, in(inputs, "k")), a->B, a->Tk, a->Hk, a->D);
    a->v    = posenc_heads_bthd(copy(f, in(inputs, "v")), a->B, a->Tk, a->Hk, a->D);
    a->dout = posenc_heads_bthd(copy(f, in(inputs, "dout")), a->B, a->Tq, a->H, a->D);
    a->out  = posenc_heads_bthd(blank(a->nq), a->B, a->Tq, a->H, a->D);
    a->dq   = posenc_heads_bthd(blank(a->nq), a->B, a->Tq, a->H, a->D);
    a->dk   = posenc_heads_bthd(blank(a->nk), a->B, a->Tk, a->Hk, a->D);
    a->dv   = posenc_heads_bthd(blank(a->nk), a->B, a->Tk, a->Hk, a->D);
    if (golden_find(f, in(name, "scale"))) a->how.scale = *golden_exact(f, in(name, "scale"));
    if (golden_find(f, in(name, "keep"))) a->how.keep = golden_bytes(f, in(name, "keep"));
    if (golden_find(f, in(name, "q_segment"))) {
        a->how.q_segment = golden_whole(f, in(name, "q_segment"));
        a->how.k_segment = golden_whole(f, in(name, "k_segment"));
    }
    if (golden_find(f, in(name, "q_at"))) {
        a->how.q_at = golden_whole(f, in(name, "q_at"));
        a->how.k_at = golden_whole(f, in(name, "k_at"));
    }
    if (golden_find(f, in(name, "bias"))) {
        a->how.bias = golden_numbers(f, in(name, "bias"));
        a->dbias = zeros((size_t)a->H * (a->how.future + 1 + a->how.past));
    }
    if (golden_find(f, in(name, "turns"))) {
        fill_turns(&a->q_turns, name, "q_pos", a->Tq);
        fill_turns(&a->k_turns, name, "k_pos", a->Tk);
        a->how.q_turns = &a->q_turns;
        a->how.k_turns = &a->k_turns;
    }
}

/* What both attentions must give. Gradients that vanish by nature (a query that sees one key) are held to
   1e-6, all others to 1e-5 of their largest. Queries that see nothing give exact zeros.              */
TEST attention_agrees(attention_case *a, const char *name)
{
    golden_file *f = &attentions;
    const unsigned char *seen = golden_bytes(f, in(name, "seen"));
    ASSERT_GOLDEN(f, in(name, "out"), a->out.data, a->nq, 1e-5);
    ASSERT_GOLDEN_FLOOR(f, in(name, "dq"), a->dq.data, a->nq, 1e-5, 0.1);
    ASSERT_GOLDEN_FLOOR(f, in(name, "dk"), a->dk.data, a->nk, 1e-5, 0.1);
    ASSERT_GOLDEN(f, in(name, "dv"), a->dv.data, a->nk, 1e-5);
    if (a->dbias) ASSERT_GOLDEN_FLOOR(f, in(name, "dbias"), a->dbias,
                                      (size_t)a->H * (a->how.future + 1 + a->how.past), 1e-5, 0.1);
    for (int b = 0; b < a->B; b++)
        for (int i = 0; i < a->Tq; i++)
            for (int h = 0; h < a->H; h++) {
                size_t row = ((size_t)(b * a->Tq + i) * a->H + h) * a->D;
                if (seen[(b * a->H + h) * a->Tq + i]) continue;
                for (int d = 0; d < a->D; d++) {
                    ASSERT_EQ(0.0, a->out.data[row + d]);
                    ASSERT_EQ(0.0, a->dq.data[row + d]);
                }
            }
    PASS();
}

TEST tiled_attention_matches_pytorch(const char *name)
{
    attention_case a;
    posenc_float *lse, *scratch;
    const posenc_float *want = golden_numbers(&attentions, in(name, "lse"));
    const unsigned char *seen = golden_bytes(&attentions, in(name, "seen"));
    attention_begin(&a, name);
    lse = blank((size_t)a.B * a.H * a.Tq);
    scratch = blank(posenc_attention_scratch(a.B, a.Tq, a.Tk, a.H, a.D, &a.how));
    posenc_attention_forward(a.out, lse, a.q, a.k, a.v, &a.how, scratch);
    posenc_attention_backward(a.dq, a.dk, a.dv, a.dbias, a.dout, a.out, lse, a.q, a.k, a.v, &a.how, scratch);
    CHECK_CALL(attention_agrees(&a, name));
    for (int i = 0; i < a.B * a.H * a.Tq; i++)
        if (seen[i]) ASSERT_CLOSE(want + i, lse + i, 1, 1e-5);
    PASS();
}

TEST plain_attention_matches_pytorch(const char *name)
{
    attention_case a;
    posenc_float *map, *dmap;
    size_t n;
    attention_begin(&a, name);
    n = (size_t)a.B * a.H * a.Tq * a.Tk;
    map = blank(n);
    dmap = blank(n);
    posenc_attention_plain_forward(a.out, map, a.q, a.k, a.v, &a.how);
    if (golden_find(&attentions, in(name, "map"))) ASSERT_GOLDEN(&attentions, in(name, "map"), map, n, 1e-5);
    posenc_attention_plain_backward(a.dq, a.dk, a.dv, a.dbias, dmap, a.dout, map, a.q, a.k, a.v, &a.how);
    CHECK_CALL(attention_agrees(&a, name));
    PASS();
}

/* ---- encodings --------------------------------------------------------------------------------------- */

#define E(NAME) golden_numbers(&encodings, in(name, NAME))

/* even and odd widths; whole, fractional, negative positions and one past 2^24 */
TEST sinusoidal_table_matches_the_formula(const char *name)
{
    int T = golden_size(&encodings, name, 0), C = golden_size(&encodings, name, 1);
    posenc_float *table = blank((size_t)T * C);
    posenc_sinusoidal(table, golden_exact(&encodings, "sinusoidal.pos"), T, C,
                      *golden_exact(&encodings, in(name, "base")));
    ASSERT_GOLDEN(&encodings, name, table, (size_t)T * C, 1e-6);
    PASS();
}

TEST rope_matches_pytorch(const char *name, int layout, double base)
{
    int B = golden_size(&encodings, "rope.x", 0), T = golden_size(&encodings, "rope.x", 1);
    int H = golden_size(&encodings, "rope.x", 2), D = golden_size(&encodings, "rope.x", 3);
    size_t n = (size_t)B * T * H * D;
    const double *pos = golden_exact(&encodings, "rope.pos");
    posenc_float *x = copy(&encodings, "rope.x"), *dx = copy(&encodings, "rope.dy");
    posenc_rope_forward(posenc_heads_bthd(x, B, T, H, D), pos, layout, base);
    posenc_rope_backward(posenc_heads_bthd(dx, B, T, H, D), pos, layout, base);
    ASSERT_GOLDEN_ROWS(&encodings, in(name, "y"), x, n, 2e-6);
    ASSERT_GOLDEN_ROWS(&encodings, in(name, "dx"), dx, n, 2e-6);
    PASS();
}

TEST lrope_matches_pytorch(const char *name, int layout)
{
    int B = golden_size(&encodings, "lrope.x", 0), T = golden_size(&encodings, "lrope.x", 1);
    int H = golden_size(&encodings, "lrope.x", 2), D = golden_size(&encodings, "lrope.x", 3);
    size_t n = (size_t)B * T * H * D;
    const double *pos = golden_exact(&encodings, "lrope.pos");
    const posenc_float *scale = golden_numbers(&encodings, "lrope.scale");
    posenc_float *y = copy(&encodings, "lrope.x"), *x = copy(&encodings, "lrope.x");
    posenc_float *dx = copy(&encodings, "lrope.dy"), *dscale = zeros(D / 2);
    posenc_lrope_forward(posenc_heads_bthd(y, B, T, H, D), scale, pos, layout, 10000.0);
    posenc_lrope_backward(posenc_heads_bthd(dx, B, T, H, D), dscale, posenc_heads_bthd(x, B, T, H, D),
                          scale, pos, layout, 10000.0);
    ASSERT_GOLDEN_ROWS(&encodings, in(name, "y"), y, n, 2e-6);
    ASSERT_GOLDEN_ROWS(&encodings, in(name, "dx"), dx, n, 2e-6);
    ASSERT_GOLDEN_EACH(&encodings, in(name, "dscale"), dscale, D / 2, 1e-5, 0.0);
    PASS();
}

/* a row read three times, fractions that round, two positions outside the table */
TEST learned_table_matches_pytorch(void)
{
    const char *name = "learned";
    int B = golden_size(&encodings, "learned.x", 0), T = golden_size(&encodings, "learned.x", 1);
    int C = golden_size(&encodings, "learned.x", 2), rows = golden_size(&encodings, "learned.table", 0);
    const double *pos = golden_exact(&encodings, "learned.pos");
    posenc_float *x = copy(&encodings, "learned.x"), *dtable = zeros((size_t)rows * C);
    posenc_learned_forward(x, E("table"), pos, B, T, C, rows);
    posenc_learned_backward(dtable, E("dx"), pos, B, T, C, rows);
    ASSERT_GOLDEN(&encodings, "learned.y", x, (size_t)B * T * C, 1e-6);
    ASSERT_GOLDEN_ROWS(&encodings, "learned.dtable", dtable, (size_t)rows * C, 1e-6);
    PASS();
}

TEST continuous_network_matches_pytorch(void)
{
    static const char *const part[6] = { "w1", "b1", "w2", "b2", "w3", "b3" };
    int B = golden_size(&encodings, "continuous.x", 0), T = golden_size(&encodings, "continuous.x", 1);
    int C = golden_size(&encodings, "continuous.x", 2), hidden = golden_size(&encodings, "continuous.w1", 0);
    size_t h = (size_t)hidden, size[6] = { h, h, h * h, h, (size_t)C * h, (size_t)C };
    const double *pos = golden_exact(&encodings, "continuous.pos");
    posenc_float *x = copy(&encodings, "continuous.x"), *w[6], *dw[6];
    posenc_float *scratch = blank(posenc_continuous_scratch(T, C, hidden));
    posenc_continuous weights, gradients;
    for (int i = 0; i < 6; i++) {
        w[i] = copy(&encodings, in("continuous", part[i]));
        dw[i] = zeros(size[i]);
    }
    weights.w1 = w[0];    gradients.w1 = dw[0];
    weights.b1 = w[1];    gradients.b1 = dw[1];
    weights.w2 = w[2];    gradients.w2 = dw[2];
    weights.b2 = w[3];    gradients.b2 = dw[3];
    weights.w3 = w[4];    gradients.w3 = dw[4];
    weights.b3 = w[5];    gradients.b3 = dw[5];
    posenc_continuous_forward(x, scratch, &weights, pos, 4.0, B, T, C, hidden);
    ASSERT_GOLDEN(&encodings, "continuous.y", x, (size_t)B * T * C, 1e-5);
    posenc_continuous_backward(&gradients, golden_numbers(&encodings, "continuous.dx"), scratch, &weights,
                               B, T, C, hidden);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "continuous.d%s", part[i]);
        ASSERT_GOLDEN(&encodings, name, dw[i], size[i], 1e-5);
    }
    PASS();
}

TEST alibi_slopes_match_the_formula(const char *name, int H, double bias_max)
{
    posenc_float *slope = blank(H);
    posenc_alibi_slopes(slope, H, bias_max);
    ASSERT_GOLDEN(&encodings, name, slope, H, 1e-7);
    PASS();
}

TEST alibi_bias_matches_the_formula(void)
{
    posenc_float *bias = zeros(6 * (4 + 1 + 9));
    posenc_alibi_forward(bias, 6, 9, 4, 8.0);
    ASSERT_GOLDEN(&encodings, "alibi.bias", bias, 6 * (4 + 1 + 9), 1e-7);
    PASS();
}

/* distances reach beyond the clip on both sides */
TEST relative_table_matches_pytorch(void)
{
    enum { CLIP = 3, H = 3, PAST = 7, FUTURE = 5, N = H * (FUTURE + 1 + PAST), M = (2 * CLIP + 1) * H };
    const char *name = "relative";
    posenc_float *bias = zeros(N), *dtable = zeros(M);
    posenc_relative_forward(bias, E("table"), CLIP, H, PAST, FUTURE);
    posenc_relative_backward(dtable, E("dbias"), CLIP, H, PAST, FUTURE);
    ASSERT_GOLDEN(&encodings, "relative.bias", bias, N, 1e-7);
    ASSERT_GOLDEN(&encodings, "relative.dtable", dtable, M, 1e-6);
    PASS();
}

TEST t5_matches_pytorch(int buckets, int distance, int bidirectional)
{
    enum { H = 3, PAST = 40, FUTURE = 30, N = H * (FUTURE + 1 + PAST) };
    char name[32];
    const int *bucket;
    posenc_float *bias = zeros(N), *dtable = zeros((size_t)buckets * H);
    snprintf(name, sizeof name, "t5.%d.%d.%d", buckets, distance, bidirectional);
    bucket = golden_whole(&encodings, in(name, "bucket"));
    for (int d = -300; d <= 300; d++)
        ASSERT_EQ_FMT(bucket[d + 300], posenc_t5_bucket(d, buckets, distance, bidirectional), "%d");
    posenc_t5_forward(bias, E("table"), buckets, distance, bidirectional, H, PAST, FUTURE);
    posenc_t5_backward(dtable, E("dbias"), buckets, distance, bidirectional, H, PAST, FUTURE);
    ASSERT_GOLDEN(&encodings, in(name, "bias"), bias, N, 1e-7);
    ASSERT_GOLDEN_ROWS(&encodings, in(name, "dtable"), dtable, (size_t)buckets * H, 3e-6);
    PASS();
}

/* fewer queries than keys, distances beyond both ends of the vector */
TEST expanded_bias_matches_pytorch(void)
{
    enum { H = 2, TQ = 3, TK = 7, PAST = 4, FUTURE = 1 };
    posenc_float *scores = copy(&encodings, "expand.scores");
    posenc_bias_expand(scores, golden_numbers(&encodings, "expand.bias"), H, TQ, TK, PAST, FUTURE);
    ASSERT_GOLDEN(&encodings, "expand.out", scores, H * TQ * TK, 1e-6);
    PASS();
}

/* ---- whole models ------------------------------------------------------------------------------------ */

typedef struct model_case {
    const char *name;
    int key_bias_is_dead;                   /* softmax removes what all keys share, unless they are turned or
                                               normed: then the gradient of k_proj.bias is zero          */
    posenc_config config;
} model_case;

/* Room for more rows and longer texts than the batch has, wherever that is no nuisance. */
static const model_case models[] = {
    { "classifier", 1, {
        .vocab = 13, .context = 12, .classes = 3, .batch = 6, .layers = 2, .channels = 16, .heads = 4,
        .hidden = 20, .mask_padding = 1, .padding_token = 0, .encoding = "learned" } },
    { "causal", 1, {
        .vocab = 13, .context = 10, .batch = 3, .layers = 2, .channels = 20, .heads = 4, .hidden = 18,
        .causal = 1, .activation = POSENC_GELU, .encoding = "relative:distance=4" } },
    { "modern", 0, {
        .vocab = 13, .context = 8, .batch = 5, .layers = 2, .channels = 24, .heads = 4, .kv_heads = 2,
        .hidden = 10, .causal = 1, .norm = POSENC_RMSNORM, .activation = POSENC_SWIGLU, .no_bias = 1,
        .qk_norm = POSENC_QK_NORM_BEFORE, .tied_head = 1, .encoding = "rope:layout=half" } },
    { "postnorm", 1, {
        .vocab = 13, .context = 10, .batch = 3, .layers = 2, .channels = 16, .heads = 4, .hidden = 18,
        .mask_padding = 1, .padding_token = 0, .norm_place = POSENC_POST_NORM, .embedding_norm = 1,
        .scale_embedding = 1, .activation = POSENC_GELU_TANH,
        .encoding = "sinusoidal+t5:buckets=8,distance=6" } },
    { "turned", 0, {
        .vocab = 13, .context = 11, .batch = 4, .layers = 2, .channels = 16, .heads = 4, .hidden = 20,
        .causal = 1, .window = 6, .norm = POSENC_RMSNORM, .activation = POSENC_SILU,
        .qk_norm = POSENC_QK_NORM_AFTER, .encoding = "lrope:layout=interleaved,base=100+alibi" } },
};
enum { MODELS = sizeof models / sizeof models[0] };

static posenc_error why;

/* Makes the model, loads PyTorch's weights into it and opens its golden values. */
TEST model_begin(const model_case *c)
{
    static char path[96], weights[96];
    snprintf(path, sizeof path, "tests/golden/%s.safetensors", c->name);
    snprintf(weights, sizeof weights, "tests/golden/%s.weights.safetensors", c->name);
    ASSERTm(expected.wrong, golden_open(&expected, path));
    why.text[0] = 0;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_create(&model, &c->config, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(model, weights, POSENC_WEIGHTS, NULL, 0, &why));
    PASS();
}

static posenc_batch model_batch(const char *prefix)
{
    posenc_batch batch;
    char name[64];
    memset(&batch, 0, sizeof batch);
    snprintf(name, sizeof name, "%stokens", prefix);
    batch.B = golden_size(&expected, name, 0);
    batch.T = golden_size(&expected, name, 1);
    batch.tokens = golden_whole(&expected, name);
    snprintf(name, sizeof name, "%stargets", prefix);
    batch.targets = golden_whole(&expected, name);
    snprintf(name, sizeof name, "%spositions", prefix);
    if (golden_find(&expected, name)) batch.positions = golden_exact(&expected, name);
    snprintf(name, sizeof name, "%ssegments", prefix);
    if (golden_find(&expected, name)) batch.segments = golden_whole(&expected, name);
    return batch;
}

static int is_key_bias(const char *name)
{
    return strstr(name, "attn.k_proj.bias") != NULL;
}

/* Every tensor of the weights file is a tensor of the model, of the same shape and now with the same numbers,
   and the other way round.                                                                           */
TEST model_has_the_tensors_of_the_file(const model_case *c)
{
    static char path[96];
    CHECK_CALL(model_begin(c));
    golden_close(&expected);
    snprintf(path, sizeof path, "tests/golden/%s.weights.safetensors", c->name);
    ASSERTm(expected.wrong, golden_open(&expected, path));
    ASSERT_EQ_FMT(expected.count, posenc_model_parameters(model), "%d tensors");
    for (int i = 0; i < expected.count; i++) {
        golden_tensor *t = &expected.list[i];
        posenc_tensor *mine = posenc_model_find(model, t->name);
        posenc_float *data;
        ASSERTm(t->name, mine != NULL);
        ASSERT_EQm(t->name, t->dims, mine->dims);
        ASSERT_EQm(t->name, t->count, mine->count);
        for (int d = 0; d < t->dims; d++) ASSERT_EQm(t->name, t->shape[d], mine->shape[d]);
        data = blank(t->count);
        posenc_model_get(model, data, mine->data, mine->count);
        ASSERT_GOLDEN(&expected, t->name, data, t->count, 0.0);
        ASSERT_EQm(t->name, t->dims >= 2 ? 1.0 : 0.0, mine->decay);
    }
    PASS();
}

TEST model_gives_the_logits_and_loss(const model_case *c, const char *prefix)
{
    posenc_batch batch;
    golden_tensor *logits;
    posenc_float *got;
    char name[64];
    double loss = NAN, want;
    CHECK_CALL(model_begin(c));
    batch = model_batch(prefix);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(model, &batch, &why));
    snprintf(name, sizeof name, "%slogits", prefix);
    logits = golden_need(&expected, name);
    ASSERTm(expected.wrong, logits != NULL);
    got = blank(logits->count);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(model, got, 0, logits->shape[0], &why));
    ASSERT_GOLDEN_ROWS(&expected, name, got, logits->count, 2e-5);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_loss(model, &batch, &loss, &why));
    snprintf(name, sizeof name, "%sloss", prefix);
    want = *golden_exact(&expected, name);
    ASSERT_LTE(fabs(loss - want), 1e-5 * want);
    PASS();
}

/* Compares every parameter (grads: its gradient) with prefix + name of the file. Neither side may have a
   tensor that the other lacks; all 0: the file may lack some on purpose.                             */
TEST model_tensors_agree(const model_case *c, const char *prefix, int grads, int all, double tolerance)
{
    int found = 0, in_file = 0;
    for (int i = 0; i < posenc_model_parameters(model); i++) {
        posenc_tensor *mine = posenc_model_parameter(model, i);
        posenc_float *got = blank(mine->count);
        golden_tensor *t;
        char name[96];
        snprintf(name, sizeof name, "%s%s", prefix, mine->name);
        t = golden_find(&expected, name);
        if (!t && !all) continue;
        snprintf(check_text, sizeof check_text, "the file has no %s of that size", name);
        ASSERTm(check_text, t && t->count == mine->count);
        found++;
        posenc_model_get(model, got, grads ? mine->grad : mine->data, mine->count);
        if (c->key_bias_is_dead && is_key_bias(mine->name)) {
            /* noise of rounding, which Adam turns into steps: only its size can be checked */
            posenc_float *zero = zeros(mine->count);
            if (grads) ASSERT_CLOSE(zero, got, mine->count, 1e-6);
            continue;
        }
        ASSERTm(check_text,
                check_norm_close(name, golden_numbers(&expected, name), got, mine->count, tolerance));
    }
    for (int i = 0; i < expected.count; i++)
        in_file += !strncmp(expected.list[i].name, prefix, strlen(prefix));
    ASSERT_EQ_FMT(in_file, found, "%d tensors");
    ASSERT(found > 0);
    PASS();
}

TEST model_gives_every_gradient(const model_case *c, const char *prefix)
{
    posenc_batch batch;
    char name[64];
    double loss = NAN, want;
    CHECK_CALL(model_begin(c));
    batch = model_batch(prefix);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(model, &batch, &loss, &why));
    snprintf(name, sizeof name, "%sloss", prefix);
    want = *golden_exact(&expected, name);
    ASSERT_LTE(fabs(loss - want), 1e-5 * want);
    snprintf(name, sizeof name, "%sgrad.", prefix);
    CHECK_CALL(model_tensors_agree(c, name, 1, prefix[0] == 0, 1e-5));
    PASS();
}

TEST model_follows_ten_steps_of_adamw(const model_case *c)
{
    posenc_batch batch;
    posenc_optimizer o;
    const double *losses, *norms;
    CHECK_CALL(model_begin(c));
    batch = model_batch("");
    losses = golden_exact(&expected, "losses");
    norms = golden_exact(&expected, "norms");
    memset(&o, 0, sizeof o);
    o.kind = POSENC_ADAMW;
    o.decay = 0.1;
    o.clip = 1.0;
    for (int step = 0; step < 10; step++) {
        double loss = NAN, norm = NAN;
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(model, &batch, &loss, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_update(model, &o, 1e-2, &norm, &why));
        snprintf(check_text, sizeof check_text, "step %d: loss %.9g, expected %.9g; norm %.9g, expected %.9g",
                 step, loss, losses[step], norm, norms[step]);
        ASSERT_LTEm(check_text, fabs(loss - losses[step]), 1e-5 * losses[step]);
        ASSERT_LTEm(check_text, fabs(norm - norms[step]), 5e-5 * norms[step]);
    }
    ASSERT_EQ(10u, posenc_model_steps(model));
    CHECK_CALL(model_tensors_agree(c, "after.", 0, 1, 2e-5));
    PASS();
}

/* ---- running ----------------------------------------------------------------------------------------- */

static const char *tier;                    /* the kernels in use */

TEST golden_file_is_whole(const golden_file *f)
{
    ASSERTm(f->wrong, f->count > 0 && !f->wrong[0]);
    PASS();
}

/* The other suites need these three: without one of them they do not run at all. */
SUITE(golden_files)
{
    label_test("layers");
    RUN_TESTp(golden_file_is_whole, &layers);
    label_test("attention");
    RUN_TESTp(golden_file_is_whole, &attentions);
    label_test("encodings");
    RUN_TESTp(golden_file_is_whole, &encodings);
}

#define RUN(CASE, TEST_, ...) do { label_test("%s_%s", CASE, tier); RUN_TESTp(TEST_, __VA_ARGS__); } while (0)
#define RUN_PLAIN(TEST_)      do { label_test("%s", tier); RUN_TEST(TEST_); } while (0)

SUITE(golden_layers)
{
    static const posenc_optimizer adamw = { .kind = POSENC_ADAMW }, adam = { .kind = POSENC_ADAM },
        sgd = { .kind = POSENC_SGD }, momentum = { .kind = POSENC_SGD, .momentum = 0.7 },
        nesterov = { .kind = POSENC_SGD, .momentum = 0.7, .nesterov = 1 };
    SET_TEARDOWN(give_back, NULL);
    RUN("with_bias", linear_matches_pytorch, "linear");
    RUN("without_bias", linear_matches_pytorch, "linear_plain");
    RUN("wide", linear_matches_pytorch, "linear_wide");
    RUN_PLAIN(softmax_matches_pytorch);
    RUN("with_bias", layernorm_matches_pytorch, "layernorm");
    RUN("without_bias", layernorm_matches_pytorch, "layernorm_plain");
    RUN("large_eps", layernorm_matches_pytorch, "layernorm_eps");
    RUN("small_eps", rmsnorm_matches_pytorch, "rmsnorm");
    RUN("large_eps", rmsnorm_matches_pytorch, "rmsnorm_eps");
    RUN("relu", activation_matches_pytorch, "activation.relu", POSENC_RELU);
    RUN("gelu", activation_matches_pytorch, "activation.gelu", POSENC_GELU);
    RUN("gelu_tanh", activation_matches_pytorch, "activation.gelu_tanh", POSENC_GELU_TANH);
    RUN("silu", activation_matches_pytorch, "activation.silu", POSENC_SILU);
    RUN_PLAIN(swiglu_matches_pytorch);
    RUN("plain", embedding_matches_pytorch, "embedding");
    RUN("scaled", embedding_matches_pytorch, "embedding_scaled");
    RUN("all_tokens", mean_pooling_matches_pytorch, 0);
    RUN("padding", mean_pooling_matches_pytorch, 1);
    RUN_PLAIN(crossentropy_matches_pytorch);
    RUN_PLAIN(head_with_loss_matches_pytorch);
    RUN("adamw", optimizer_matches_pytorch, "adamw", adamw);
    RUN("adam", optimizer_matches_pytorch, "adam", adam);
    RUN("sgd", optimizer_matches_pytorch, "sgd", sgd);
    RUN("momentum", optimizer_matches_pytorch, "sgd_momentum", momentum);
    RUN("nesterov", optimizer_matches_pytorch, "sgd_nesterov", nesterov);
}

/* one test per case of the file, so that a new case there needs no line here */
SUITE(golden_attention)
{
    SET_TEARDOWN(give_back, NULL);
    for (int i = 0; i < attentions.count; i++) {
        char name[64];
        size_t n = strlen(attentions.list[i].name);
        if (n < 5 || strcmp(attentions.list[i].name + n - 4, ".how")) continue;
        snprintf(name, sizeof name, "%.*s", (int)n - 4, attentions.list[i].name);
        RUN(name, tiled_attention_matches_pytorch, name);
        RUN(name, plain_attention_matches_pytorch, name);
    }
}

SUITE(golden_encodings)
{
    SET_TEARDOWN(give_back, NULL);
    RUN("even_width", sinusoidal_table_matches_the_formula, "sinusoidal.even");
    RUN("odd_width", sinusoidal_table_matches_the_formula, "sinusoidal.odd");
    RUN("base_100", sinusoidal_table_matches_the_formula, "sinusoidal.base");
    RUN("interleaved", rope_matches_pytorch, "rope.interleaved.10000", POSENC_INTERLEAVED, 10000.0);
    RUN("interleaved_base_500000", rope_matches_pytorch, "rope.interleaved.500000", POSENC_INTERLEAVED,
        500000.0);
    RUN("half", rope_matches_pytorch, "rope.half.10000", POSENC_HALF, 10000.0);
    RUN("half_base_500000", rope_matches_pytorch, "rope.half.500000", POSENC_HALF, 500000.0);
    RUN("interleaved", lrope_matches_pytorch, "lrope.interleaved", POSENC_INTERLEAVED);
    RUN("half", lrope_matches_pytorch, "lrope.half", POSENC_HALF);
    RUN_PLAIN(learned_table_matches_pytorch);
    RUN_PLAIN(continuous_network_matches_pytorch);
    RUN("4_heads", alibi_slopes_match_the_formula, "alibi.slopes.4", 4, 8.0);
    RUN("6_heads", alibi_slopes_match_the_formula, "alibi.slopes.6", 6, 8.0);
    RUN("8_heads", alibi_slopes_match_the_formula, "alibi.slopes.8", 8, 8.0);
    RUN("12_heads", alibi_slopes_match_the_formula, "alibi.slopes.12", 12, 8.0);
    RUN("6_heads_max_4", alibi_slopes_match_the_formula, "alibi.slopes.6.max4", 6, 4.0);
    RUN_PLAIN(alibi_bias_matches_the_formula);
    RUN_PLAIN(relative_table_matches_pytorch);
    RUN("32_128_causal", t5_matches_pytorch, 32, 128, 0);
    RUN("32_128_bidirectional", t5_matches_pytorch, 32, 128, 1);
    RUN("8_20_causal", t5_matches_pytorch, 8, 20, 0);
    RUN("8_20_bidirectional", t5_matches_pytorch, 8, 20, 1);
    RUN_PLAIN(expanded_bias_matches_pytorch);
}

SUITE(golden_models)
{
    SET_TEARDOWN(give_back, NULL);
    for (int i = 0; i < MODELS; i++) {
        const model_case *c = &models[i];
        RUN(c->name, model_has_the_tensors_of_the_file, c);
        RUN(c->name, model_gives_the_logits_and_loss, c, "");
        RUN(c->name, model_gives_every_gradient, c, "");
        RUN(c->name, model_follows_ten_steps_of_adamw, c);
        if (strcmp(c->name, "modern") && strcmp(c->name, "turned")) continue;
        label_test("%s_packed_%s", c->name, tier);
        RUN_TESTp(model_gives_the_logits_and_loss, c, "packed.");
        label_test("%s_packed_%s", c->name, tier);
        RUN_TESTp(model_gives_every_gradient, c, "packed.");
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    static const char *const tiers[] = { "c", "avx2", "avx512", "neon" };
    int whole = golden_open(&layers, "tests/golden/layers.safetensors");
    whole &= golden_open(&attentions, "tests/golden/attention.safetensors");
    whole &= golden_open(&encodings, "tests/golden/encodings.safetensors");
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(golden_files);
    for (int i = 0; i < 4 && whole; i++) {
        tier = tiers[i];
        if (!posenc_use_tier(tier)) continue;
        RUN_SUITE(golden_layers);
        RUN_SUITE(golden_attention);
        RUN_SUITE(golden_encodings);
        RUN_SUITE(golden_models);
    }
    golden_close(&layers);
    golden_close(&attentions);
    golden_close(&encodings);
    GREATEST_MAIN_END();
}
