/* bench/works.h - the works that are measured: products, turns, attention and rows

   A work has a name, an amount (operations, bytes or tokens of one repetition) and two functions:
   open makes its arrays, go does it once. The names are those of bench_torch.py, which does the
   same works in PyTorch. Include posenc.h first. */
#ifndef BENCH_WORKS_H
#define BENCH_WORKS_H

#include "bench/measure.h"
#include "kit/random.h"

enum { BENCH_ARRAYS = 12, BENCH_NAME = 64 };

typedef enum unit { OPERATIONS, BYTES, TOKENS } unit;
enum { FP32, BF16 };                       /* precision of products                               */
enum { FORWARD, DX, DW };                  /* form of a product                                   */

typedef struct stage stage;

typedef struct work {
    char name[BENCH_NAME];
    const char *group;                     /* how the names of its group begin                    */
    unit unit;
    double amount;                         /* of the unit, in one repetition                      */
    double operations;                     /* of a step's products and attention                  */
    int size[4], form, precision;
    int heavy;                             /* 1: seconds for a repetition; not with --quick       */
    const char *spec;                      /* of a model                                          */
    int (*open)(stage *, const struct work *, kit_error *);
    void (*go)(void *stage);
} work;

/* what a work has while it is measured */
struct stage {
    const work *work;
    float *a[BENCH_ARRAYS];
    int *id;
    posenc_model *model;                   /* steps only, down to wrong                           */
    posenc_cache *cache;                   /* decoding                                            */
    posenc_batch batch;
    posenc_optimizer optimizer;
    int *tokens, *targets;
    posenc_error wrong;                    /* text empty: all is well                             */
};

static void stage_close(stage *s)
{
    for (int i = 0; i < BENCH_ARRAYS; i++) free(s->a[i]);
    free(s->id);
    free(s->tokens);
    free(s->targets);
    posenc_cache_free(s->cache);
    posenc_model_free(s->model);
    memset(s, 0, sizeof *s);
}

/* n numbers between -1 and 1; how random they are does not matter */
static float *bench_numbers(size_t n)
{
    float *x = (float *)bench_room(n * sizeof *x);
    uint32_t state = 12345;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) * (2.0f / 16777216.0f) - 1.0f;
    }
    return x;
}

static void stage_arrays(stage *s, int count, size_t n)
{
    for (int i = 0; i < count; i++) s->a[i] = bench_numbers(n);
}

/* numbers from first to first + n - 1 */
static int *bench_ids(size_t count, int first, int n)
{
    int *id = (int *)kit_new(count, sizeof *id);
    kit_random r = kit_random_open(1, KIT_RANDOM_TRAIN, 0);
    for (size_t i = 0; i < count; i++) id[i] = first + kit_random_below(&r, n);
    return id;
}

/* ---- products --------------------------------------------------------------------------------
   MxKxN: M rows, K inputs, N outputs. Each of the three forms costs 2 M K N operations. */

static int product_open(stage *s, const work *w, kit_error *why)
{
    size_t m = (size_t)w->size[0], k = (size_t)w->size[1], n = (size_t)w->size[2];
    (void)why;
    s->a[0] = bench_numbers(m * k);                        /* x */
    s->a[1] = bench_numbers(n * k);                        /* w */
    s->a[2] = bench_numbers(m * n);                        /* y, dy */
    s->a[3] = bench_numbers(w->form == DW ? n * k : m * k);   /* dw, dx */
#ifdef POSENC_BF16_PRODUCTS
    if (w->precision == BF16)
        s->a[4] = bench_numbers(posenc_bf16_scratch(w->size[0], w->size[1], w->size[2]));
#endif
    return 1;
}

#ifdef POSENC_BF16_PRODUCTS
static void product_bf16_go(void *user)
{
    stage *s = (stage *)user;
    const int *n = s->work->size, form = s->work->form;
    float **a = s->a;
    if (form == FORWARD)
        posenc_linear_forward_bf16(a[2], a[0], a[1], NULL, n[0], n[1], n[2], a[4]);
    else posenc_linear_backward_bf16(form == DX ? a[3] : NULL, form == DW ? a[3] : NULL, NULL, a[2],
                                     a[0], a[1], n[0], n[1], n[2], 0, a[4]);
}
#endif

static void product_go(void *user)
{
    stage *s = (stage *)user;
    const int *n = s->work->size, form = s->work->form;
    float **a = s->a;
    if (form == FORWARD) posenc_linear_forward(a[2], a[0], a[1], NULL, n[0], n[1], n[2]);
    else posenc_linear_backward(form == DX ? a[3] : NULL, form == DW ? a[3] : NULL, NULL, a[2],
                                a[0], a[1], n[0], n[1], n[2], 0);
}

/* ---- turns and attention --------------------------------------------------------------------- */

static posenc_turns rope_turns(const stage *s)
{
    posenc_turns t = { s->a[2], s->a[3], s->work->size[2], s->work->size[3] / 2, 0, 0,
                       POSENC_HALF };
    return t;
}

/* q and k (B,H,T,D), both read and written once. The tables are filled before, as a model does once
   a step. */
static int rope_open(stage *s, const work *w, kit_error *why)
{
    size_t heads = (size_t)w->size[0] * (size_t)w->size[1], T = (size_t)w->size[2];
    size_t D = (size_t)w->size[3];
    double frequency[256];
    posenc_rotation by;
    (void)why;
    stage_arrays(s, 2, heads * T * D);
    s->a[2] = bench_numbers(T * D / 2);
    s->a[3] = bench_numbers(T * D / 2);
    posenc_rope_frequencies(frequency, w->size[3], 10000);
    memset(&by, 0, sizeof by);
    by.pairs = w->size[3] / 2;
    by.frequency = frequency;
    posenc_turns_fill(rope_turns(s), NULL, &by);
    return 1;
}

static void rope_go(void *user)
{
    stage *s = (stage *)user;
    const int *n = s->work->size;
    posenc_turn(posenc_heads_bhtd(s->a[0], n[0], n[1], n[2], n[3]), rope_turns(s));
    posenc_turn(posenc_heads_bhtd(s->a[1], n[0], n[1], n[2], n[3]), rope_turns(s));
}

/* Causal, forward and backward. The forward has two products over the map (q k', p v), the backward
   five (q k' again, dv, dp, dq, dk): 4 and 10 times B H T T D operations, of which the causal map
   needs half: 7 B H T T D. Arrays: q k v out dout dq dk dv (B,H,T,D), lse, scratch, bias, dbias. */
enum { Q, K, V, OUT, DOUT, DQ, DK, DV, LSE, SCRATCH, BIAS, DBIAS };

static posenc_attention attention_how(const stage *s)
{
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.causal = 1;
    how.threads = posenc_threads();
    if (s->a[BIAS]) {
        how.bias = s->a[BIAS];
        how.past = s->work->size[2] - 1;
    }
    return how;
}

static int attention_open(stage *s, const work *w, kit_error *why)
{
    const int *n = w->size;
    size_t rows = (size_t)n[0] * (size_t)n[1] * (size_t)n[2], heads = (size_t)n[1] * (size_t)n[2];
    (void)why;
    stage_arrays(s, LSE, rows * (size_t)n[3]);
    s->a[LSE] = bench_numbers(rows);
    if (w->form) {
        s->a[BIAS] = bench_numbers(heads);
        s->a[DBIAS] = bench_numbers(heads);
    }
    posenc_attention how = attention_how(s);
    s->a[SCRATCH] = bench_numbers(posenc_attention_scratch(n[0], n[2], n[2], n[1], n[3], &how));
    return 1;
}

static posenc_heads attention_heads(const stage *s, int i)
{
    const int *n = s->work->size;
    return posenc_heads_bhtd(s->a[i], n[0], n[1], n[2], n[3]);
}

static void attention_go(void *user)
{
    stage *s = (stage *)user;
    posenc_attention how = attention_how(s);
    posenc_heads q = attention_heads(s, Q), k = attention_heads(s, K), v = attention_heads(s, V);
    posenc_heads out = attention_heads(s, OUT);
    posenc_attention_forward(out, s->a[LSE], q, k, v, &how, s->a[SCRATCH]);
    posenc_attention_backward(attention_heads(s, DQ), attention_heads(s, DK),
                              attention_heads(s, DV), s->a[DBIAS], attention_heads(s, DOUT), out,
                              s->a[LSE], q, k, v, &how, s->a[SCRATCH]);
}

/* ---- rows ------------------------------------------------------------------------------------
   Every array counts once for each time it has to be read or written, however often a kernel does
   it; what belongs to a row or a column alone (means, gains, numbers of tokens) does not count. */

typedef struct row_work {
    const char *name;
    int rows, columns;
    int arrays, moved;                     /* different ones, and reads plus writes               */
    void (*go)(void *stage);
} row_work;

enum { PER_ROW = 6 };                      /* arrays 6 and 7 have a number for each row           */
enum { PER_COLUMN = 8 };                   /* 8 to 11 one for each column                         */
enum { EMBEDDED = 65536 };                 /* rows of the embedding's table                       */

static size_t cells(const stage *s)
{
    return (size_t)s->work->size[0] * (size_t)s->work->size[1];
}

static void layernorm_go(void *user)
{
    stage *s = (stage *)user;
    posenc_layernorm_forward(s->a[1], s->a[6], s->a[7], s->a[0], s->a[8], s->a[9], 1e-5,
                             s->work->size[0], s->work->size[1]);
}

static void layernorm_backward_go(void *user)
{
    stage *s = (stage *)user;
    posenc_layernorm_backward(s->a[2], s->a[10], s->a[11], s->a[1], s->a[6], s->a[7], s->a[0],
                              s->a[8], s->work->size[0], s->work->size[1]);
}

static void rmsnorm_go(void *user)
{
    stage *s = (stage *)user;
    posenc_rmsnorm_forward(s->a[1], s->a[6], s->a[0], s->a[8], 1e-5, s->work->size[0],
                           s->work->size[1]);
}

static void softmax_go(void *user)
{
    stage *s = (stage *)user;
    posenc_softmax_forward(s->a[1], s->a[0], s->work->size[0], s->work->size[1]);
}

static void gelu_go(void *user)
{
    stage *s = (stage *)user;
    posenc_activation_forward(s->a[1], s->a[0], POSENC_GELU, cells(s));
}

static void relu_go(void *user)
{
    stage *s = (stage *)user;
    posenc_activation_forward(s->a[1], s->a[0], POSENC_RELU, cells(s));
}

static void swiglu_go(void *user)
{
    stage *s = (stage *)user;
    posenc_gated_forward(s->a[2], s->a[0], s->a[1], POSENC_SILU, cells(s));
}

static void dropout_go(void *user)
{
    stage *s = (stage *)user;
    posenc_dropout how = { 0.1, 1, 0, 0, 0 };
    posenc_dropout_apply(s->a[1], s->a[0], cells(s), how);
}

static void adamw_go(void *user)
{
    stage *s = (stage *)user;
    posenc_optimizer o;
    memset(&o, 0, sizeof o);
    posenc_optimizer_apply(s->a[0], s->a[1], s->a[2], s->a[3], cells(s), &o, 1e-3, 1, 0.01, 1000);
}

static void embedding_go(void *user)
{
    stage *s = (stage *)user;
    posenc_embedding_forward(s->a[0], s->id, s->a[1], 1, s->work->size[0], EMBEDDED,
                             s->work->size[1], 0);
}

static void crossentropy_go(void *user)
{
    stage *s = (stage *)user;
    posenc_crossentropy(s->a[6], s->a[1], s->a[0], s->id, 1.0 / s->work->size[0], s->work->size[0],
                        s->work->size[1]);
}

static const row_work row_works[] = {
    { "rows/layernorm",          4096, 512, 2, 2, layernorm_go },           /* x | y              */
    { "rows/layernorm_backward", 4096, 512, 3, 3, layernorm_backward_go },  /* x dy | dx          */
    { "rows/rmsnorm",            4096, 512, 2, 2, rmsnorm_go },             /* x | y              */
    { "rows/softmax",            4096, 512, 2, 2, softmax_go },             /* x | y              */
    { "rows/gelu",               4096, 512, 2, 2, gelu_go },                /* x | y              */
    { "rows/relu",               4096, 512, 2, 2, relu_go },                /* x | y              */
    { "rows/swiglu",             4096, 512, 3, 3, swiglu_go },              /* gate up | y        */
    { "rows/dropout",            4096, 512, 2, 2, dropout_go },             /* x | y              */
    { "rows/adamw",              4096, 512, 4, 7, adamw_go },               /* w m v g | w m v    */
    { "rows/embedding",          4096, 512, 1, 2, embedding_go },           /* rows of table | x  */
    { "rows/crossentropy",       512, 65536, 2, 2, crossentropy_go }        /* logits | dlogits   */
};
enum { ROW_WORKS = sizeof row_works / sizeof row_works[0] };

/* adamw's second moment is never negative; the embedding's table is larger than what is read */
static int rows_open(stage *s, const work *w, kit_error *why)
{
    size_t R = (size_t)w->size[0], C = (size_t)w->size[1];
    (void)why;
    stage_arrays(s, w->form, R * C);
    for (int i = PER_ROW; i < PER_COLUMN; i++) s->a[i] = bench_numbers(R);
    for (int i = PER_COLUMN; i < BENCH_ARRAYS; i++) s->a[i] = bench_numbers(C);
    s->id = bench_ids(R, 0, EMBEDDED);
    for (size_t i = 0; w->go == adamw_go && i < R * C; i++) s->a[2][i] = 1;
    if (w->go == embedding_go) s->a[1] = bench_numbers(EMBEDDED * C);
    return 1;
}

/* ---- the list -------------------------------------------------------------------------------- */

enum { BENCH_WORKS = 128 };
typedef struct work_list { work work[BENCH_WORKS]; int count; } work_list;

KIT_FORMAT(3, 4) static work *add_work(work_list *l, const char *group, const char *format, ...)
{
    work *w = &l->work[l->count++];
    va_list args;
    memset(w, 0, sizeof *w);
    va_start(args, format);
    vsnprintf(w->name, sizeof w->name, format, args);
    va_end(args);
    w->group = group;
    return w;
}

static void add_products(work_list *l, int precision)
{
    static const int shape[6][3] = { { 1024, 128, 128 },  { 1024, 128, 512 },
                                     { 1024, 512, 128 },  { 2048, 64, 128 },
                                     { 4096, 512, 512 },  { 4096, 512, 2048 } };
    static const char *const form[3] = { "forward", "dx", "dw" };
    static const char *const group[2] = { "product/fp32", "product/bf16" };
    for (int i = 0; i < 18; i++) {
        const int *n = shape[i / 3];
        work *w = add_work(l, group[precision], "%s/%dx%dx%d/%s", group[precision], n[0], n[1],
                           n[2], form[i % 3]);
        memcpy(w->size, n, sizeof shape[0]);
        w->form = i % 3;
        w->precision = precision;
        w->amount = w->operations = 2.0 * n[0] * n[1] * n[2];
        w->open = product_open;
        w->go = product_go;
#ifdef POSENC_BF16_PRODUCTS
        if (precision == BF16) w->go = product_bf16_go;
#endif
    }
}

static void add_rope(work_list *l)
{
    work *w = add_work(l, "rope", "rope/8x16x2048x64");
    const int size[4] = { 8, 16, 2048, 64 };
    memcpy(w->size, size, sizeof size);
    w->unit = BYTES;
    w->amount = 4.0 * sizeof(float) * 8 * 16 * 2048 * 64;
    w->open = rope_open;
    w->go = rope_go;
}

static void add_attention(work_list *l)
{
    const int n[4] = { 8, 16, 1024, 64 };
    for (int biased = 0; biased < 2; biased++) {
        work *w = add_work(l, "attention", "attention/8x16x1024x64/%s", biased ? "bias" : "causal");
        memcpy(w->size, n, sizeof n);
        w->form = biased;
        w->amount = w->operations = 7.0 * n[0] * n[1] * n[2] * n[2] * n[3];
        w->open = attention_open;
        w->go = attention_go;
    }
}

static void add_rows(work_list *l)
{
    for (int i = 0; i < ROW_WORKS; i++) {
        const row_work *r = &row_works[i];
        work *w = add_work(l, "rows", "%s", r->name);
        w->size[0] = r->rows;
        w->size[1] = r->columns;
        w->form = r->arrays;
        w->unit = BYTES;
        w->amount = (double)sizeof(float) * r->moved * r->rows * r->columns;
        w->open = rows_open;
        w->go = r->go;
    }
}

#endif
