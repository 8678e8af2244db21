/* Attention problems shared by the tests of values, gradients, threads and tiers: one table of
   cases that names every mask and every way position may enter, and one struct that builds a
   case on fixed random numbers. Memory comes from take(), each block by itself so that a
   sanitizer sees an overrun; a test may leave at any point, since the next begin (or give_back
   at the end of main) returns all of it.                                                         */
#ifndef POSENC_TESTS_ATTENTION_CASES_H
#define POSENC_TESTS_ATTENTION_CASES_H

#include "check.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static void *taken[256];
static int taken_count;

static inline void give_back(void)
{
    while (taken_count > 0) free(taken[--taken_count]);
}
static inline void *take_bytes(size_t bytes)
{
    void *block = taken_count < 256 ? malloc(bytes ? bytes : 1) : NULL;
    if (!block) { printf("\nno memory for a test\n"); exit(EXIT_FAILURE); }
    taken[taken_count++] = block;
    return block;
}
/* n numbers, all NaN: what must be overwritten shows when it is not */
static inline posenc_float *take(size_t n)
{
    posenc_float *x = (posenc_float *)take_bytes(n * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)NAN;
    return x;
}
static inline posenc_float *take_random(size_t n)
{
    posenc_float *x = take(n);
    fill_random(x, n);
    return x;
}
static inline posenc_float *take_zero(size_t n)
{
    posenc_float *x = take(n);
    memset(x, 0, n * sizeof *x);
    return x;
}
static inline int *take_ints(size_t n) { return (int *)take_bytes(n * sizeof(int)); }

/* ---- a bias by callback -------------------------------------------------------------------------
   Adds one of 7 numbers per head, chosen by a pattern that is not a distance. The backward sums
   into dtable and notes whether the calls came in order: samples and heads rising, and for each
   query its stretches from left to right, none twice.                                            */

enum { PATTERN_ROWS = 256 };                /* longest Tq */

typedef struct pattern_bias {
    posenc_float *table, *dtable;           /* (H,7) */
    int calls, in_order;                    /* of the backward                                    */
    int head, next[PATTERN_ROWS];          /* b * 64 + h of its last call; next key of each query */
} pattern_bias;

static inline void pattern_restart(pattern_bias *p)
{
    p->calls = 0;
    p->in_order = 1;
    p->head = -1;
}

static inline int pattern_row(int b, int i, int j) { return (b + 3 * i + 5 * j) % 7; }

static inline void pattern_forward(void *user, posenc_float *row, int b, int h, int i, int j0,
                                   int n)
{
    pattern_bias *p = (pattern_bias *)user;
    for (int j = 0; j < n; j++) row[j] += p->table[h * 7 + pattern_row(b, i, j0 + j)];
}
static inline void pattern_backward(void *user, const posenc_float *drow, int b, int h, int i,
                                    int j0, int n)
{
    pattern_bias *p = (pattern_bias *)user;
    if (b * 64 + h != p->head) memset(p->next, 0, sizeof p->next);
    if (b * 64 + h < p->head || j0 < p->next[i]) p->in_order = 0;
    p->head = b * 64 + h;
    p->next[i] = j0 + n;
    p->calls++;
    for (int j = 0; j < n; j++) p->dtable[h * 7 + pattern_row(b, i, j0 + j)] += drow[j];
}

/* ---- the cases ------------------------------------------------------------------------------- */

typedef struct attention_case {
    const char *name;
    int B, Tq, Tk, H, Hk, D;
    double scale;
    int causal, window, padding, segments;
    int past, future;                       /* past > 0: a distance bias of that reach            */
    int at;                                 /* 1: whole positions of our own for that bias        */
    int row_bias;                           /* 1: the callback above                              */
    int turns;                              /* a layout: turn q and k                             */
    int turn_offset, turn_pairs;            /* 0, 0: the whole head                               */
    double dropout;
} attention_case;

static const attention_case attention_cases[] = {
    { .name = "full",               .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8 },
    { .name = "scale",              .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .scale = 1.7 },
    { .name = "causal",             .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .causal = 1 },
    { .name = "padding",            .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .padding = 1 },
    { .name = "window",             .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .window = 3 },
    { .name = "segments",           .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .segments = 1 },
    { .name = "causal_window",      .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .causal = 1,
      .window = 4 },
    { .name = "causal_padding",     .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .causal = 1,
      .padding = 1 },
    { .name = "causal_segments",    .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .causal = 1,
      .segments = 1 },
    { .name = "fewer_queries",      .Tq = 4,  .Tk = 11, .H = 3, .Hk = 3, .D = 8, .causal = 1 },
    { .name = "more_queries",       .Tq = 11, .Tk = 6,  .H = 3, .Hk = 3, .D = 8, .causal = 1 },
    { .name = "grouped_heads",      .Tq = 9,  .Tk = 9,  .H = 6, .Hk = 2, .D = 8, .causal = 1 },
    { .name = "one_key_head",       .Tq = 7,  .Tk = 9,  .H = 4, .Hk = 1, .D = 8 },
    { .name = "distance_bias",      .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .past = 8,
      .future = 8 },
    { .name = "clipped_bias",       .Tq = 12, .Tk = 12, .H = 3, .Hk = 3, .D = 8, .past = 3,
      .future = 2 },
    { .name = "causal_bias",        .Tq = 5,  .Tk = 12, .H = 4, .Hk = 2, .D = 8, .causal = 1,
      .past = 11 },
    { .name = "bias_positions",     .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .past = 20,
      .future = 15, .at = 1 },
    { .name = "row_bias",           .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .row_bias = 1 },
    { .name = "turned_half",        .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8,
      .turns = POSENC_HALF },
    { .name = "turned_interleaved", .Tq = 5,  .Tk = 9,  .H = 4, .Hk = 2, .D = 8,
      .turns = POSENC_INTERLEAVED },
    { .name = "turned_in_part",     .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 12, .causal = 1,
      .turns = POSENC_HALF, .turn_offset = 2, .turn_pairs = 4 },
    { .name = "dropout",            .Tq = 9,  .Tk = 9,  .H = 3, .Hk = 3, .D = 8, .dropout = 0.3 },
    { .name = "causal_dropout",     .Tq = 6,  .Tk = 9,  .H = 4, .Hk = 2, .D = 8, .causal = 1,
      .dropout = 0.5 },
    { .name = "all_together",       .Tq = 13, .Tk = 21, .H = 4, .Hk = 2, .D = 10, .scale = 0.9,
      .causal = 1, .window = 12, .padding = 1, .segments = 1, .past = 6, .future = 2, .at = 1,
      .row_bias = 1,
      .turns = POSENC_INTERLEAVED, .turn_offset = 2, .turn_pairs = 3, .dropout = 0.2 },
    { .name = "across_tiles",       .Tq = 70, .Tk = 135, .H = 2, .Hk = 1, .D = 6, .causal = 1,
      .window = 90, .padding = 1, .past = 40, .future = 3, .row_bias = 1, .turns = POSENC_HALF,
      .dropout = 0.1 },
    /* keys 0..127 are seen by nobody, in whole tiles; heads as wide as a tile of the product */
    { .name = "unseen_tiles",       .Tq = 70, .Tk = 300, .H = 4, .Hk = 2, .D = 32, .causal = 1,
      .window = 40 },
    { .name = "unseen_queries",     .Tq = 150, .Tk = 70, .H = 2, .Hk = 1, .D = 16, .causal = 1 },
    { .name = "wide_window",        .Tq = 140, .Tk = 140, .H = 2, .Hk = 2, .D = 64, .window = 30,
      .past = 12, .future = 9 },
};
enum { ATTENTION_CASES = sizeof attention_cases / sizeof *attention_cases };

typedef struct attention_run {
    attention_case c;
    posenc_attention how;
    posenc_row_bias row_bias;
    pattern_bias pattern;
    posenc_turns q_turns, k_turns;
    posenc_heads q, k, v, out, dout, dq, dk, dv;
    posenc_float *bias, *dbias;             /* (H, bias_n) */
    posenc_float *lse, *scratch, *map, *dmap;
    size_t q_count, k_count, bias_count, map_count;
} attention_run;

static inline posenc_heads take_heads(int B, int T, int H, int D, int random)
{
    size_t n = (size_t)B * T * H * D;
    return posenc_heads_bthd(random ? take_random(n) : take(n), B, T, H, D);
}

/* turns of positions first + t + 3 b, a row for each token */
static inline posenc_turns take_turns(int B, int T, double first, int pairs, int offset, int layout)
{
    posenc_turns turns;
    double *p = (double *)take_bytes((size_t)B * T * sizeof *p), frequency[64];
    posenc_rotation by = { pairs, 1, frequency, NULL, 0, 1.25, NULL };
    turns.cosine = take((size_t)B * T * pairs);
    turns.sine   = take((size_t)B * T * pairs);
    turns.rows = B * T; turns.pairs = pairs; turns.row_b = T;
    turns.offset = offset; turns.layout = layout;
    for (int b = 0; b < B; b++) posenc_positions_range(p + b * T, T, first + 3 * b);
    posenc_rope_frequencies(frequency, 2 * pairs, 100.0);
    /* a magnitude: the transpose must keep it */
    posenc_turns_fill(turns, p, &by);
    return turns;
}

/* Builds everything but runs nothing. B 0 means 2; how.threads is 1. */
static inline void attention_begin(attention_run *r, attention_case c)
{
    int B = c.B ? c.B : 2, ahead = c.Tk - c.Tq;
    give_back();
    memset(r, 0, sizeof *r);
    c.B = B;
    r->c = c;
    r->q = take_heads(B, c.Tq, c.H,  c.D, 1);
    r->k = take_heads(B, c.Tk, c.Hk, c.D, 1);
    r->v = take_heads(B, c.Tk, c.Hk, c.D, 1);
    r->dout = take_heads(B, c.Tq, c.H, c.D, 1);
    r->out = take_heads(B, c.Tq, c.H,  c.D, 0);
    r->dq  = take_heads(B, c.Tq, c.H,  c.D, 0);
    r->dk  = take_heads(B, c.Tk, c.Hk, c.D, 0);
    r->dv  = take_heads(B, c.Tk, c.Hk, c.D, 0);
    r->q_count = (size_t)B * c.Tq * c.H * c.D;
    r->k_count = (size_t)B * c.Tk * c.Hk * c.D;
    r->map_count = (size_t)B * c.H * c.Tq * c.Tk;
    r->lse = take((size_t)B * c.H * c.Tq);
    r->map = take(r->map_count);
    r->dmap = take(r->map_count);

    r->how.scale = c.scale;
    r->how.causal = c.causal;
    r->how.window = c.window;
    r->how.threads = 1;
    if (c.padding) {                                  /* holes, and a long tail in the second row */
        unsigned char *keep = (unsigned char *)take_bytes((size_t)B * c.Tk);
        for (int b = 0; b < B; b++)
            for (int j = 0; j < c.Tk; j++)
                keep[b * c.Tk + j] = j % 4 != 1 && (b == 0 || j < 2 * c.Tk / 3);
        r->how.keep = keep;
    }
    if (c.segments) {
        int *qs = take_ints((size_t)B * c.Tq), *ks = take_ints((size_t)B * c.Tk);
        for (int b = 0; b < B; b++) {
            for (int j = 0; j < c.Tk; j++) ks[b * c.Tk + j] = (j + b) * 3 / c.Tk;
            for (int i = 0; i < c.Tq; i++)
                qs[b * c.Tq + i] = i + ahead < 0 ? 0 : (i + ahead + b) * 3 / c.Tk;
        }
        r->how.q_segment = qs;
        r->how.k_segment = ks;
    }
    if (c.past || c.future) {
        r->bias_count = (size_t)c.H * (c.future + 1 + c.past);
        r->bias = take_random(r->bias_count);
        r->dbias = take_zero(r->bias_count);
        r->how.bias = r->bias;
        r->how.past = c.past;
        r->how.future = c.future;
    }
    if (c.at) {                                        /* far apart, repeated, not rising         */
        int *qa = take_ints((size_t)B * c.Tq), *ka = take_ints((size_t)B * c.Tk);
        for (int n = 0; n < B * c.Tq; n++) qa[n] = 2 * (n % 7) + n / 5;
        for (int n = 0; n < B * c.Tk; n++) ka[n] = 3 * (n % 5) + n / 6;
        r->how.q_at = qa;
        r->how.k_at = ka;
    }
    if (c.row_bias) {
        r->pattern.table  = take_random((size_t)c.H * 7);
        r->pattern.dtable = take_zero((size_t)c.H * 7);
        pattern_restart(&r->pattern);
        r->row_bias.forward = pattern_forward;
        r->row_bias.backward = pattern_backward;
        r->row_bias.user = &r->pattern;
        r->how.row_bias = &r->row_bias;
    }
    if (c.turns) {
        int pairs = c.turn_pairs ? c.turn_pairs : c.D / 2;
        r->q_turns = take_turns(B, c.Tq, ahead, pairs, c.turn_offset, c.turns);
        r->k_turns = take_turns(B, c.Tk, 0,     pairs, c.turn_offset, c.turns);
        r->how.q_turns = &r->q_turns;
        r->how.k_turns = &r->k_turns;
    }
    if (c.dropout > 0.0) {
        r->how.dropout.rate = c.dropout;
        r->how.dropout.seed = 42;
        r->how.dropout.step = 3;
        r->how.dropout.site = 17;
        r->how.dropout.first = 1000;
    }
    r->scratch = take(posenc_attention_scratch(B, c.Tq, c.Tk, c.H, c.D, &r->how));
}

static inline void attention_tiled_forward(attention_run *r)
{
    posenc_attention_forward(r->out, r->lse, r->q, r->k, r->v, &r->how, r->scratch);
}
static inline void attention_tiled_backward(attention_run *r)
{
    posenc_attention_backward(r->dq, r->dk, r->dv, r->dbias, r->dout, r->out, r->lse, r->q, r->k,
                              r->v, &r->how, r->scratch);
}
static inline void attention_plain_forward(attention_run *r)
{
    posenc_attention_plain_forward(r->out, r->map, r->q, r->k, r->v, &r->how);
}
static inline void attention_plain_backward(attention_run *r)
{
    posenc_attention_plain_backward(r->dq, r->dk, r->dv, r->dbias, r->dmap, r->dout, r->map, r->q,
                                    r->k, r->v, &r->how);
}
#endif
