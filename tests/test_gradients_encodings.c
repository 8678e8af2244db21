/* The backward of the encodings that have calls of their own in door one against finite differences,
   in double. All rows of the table, by their specs, are in test_gradients_catalogue.c.           */
#define POSENC_DOUBLE
#include "posenc.h"
#include "check.h"
#include "attention_cases.h"

enum { B = 2, T = 7, H = 2, D = 8, C = H * D, N = B * T * C, ROWS = 12, HID = 6 };

typedef struct encoding_run {
    posenc_float x[N], y[N], w[N], dx[N];
    posenc_float table[1024], dtable[1024];              /* whatever is learnt                    */
    double pos[B * T];
    posenc_continuous net, dnet;
    posenc_float scratch[4096];
    int layout, clip, buckets, both_sides;
    posenc_turns turns;
    posenc_rotation by;
    attention_run attention;
} encoding_run;
static encoding_run s;

/* positions that repeat, jump and stay inside the learned table */
static void fresh(void)
{
    static const double pos[B * T] = { 3, 1, 4, 1, 5, 9, 2,   6, 5, 3, 5, 8, 9, 7 };
    memset(&s, 0, sizeof s);
    fill_random(s.x, N); fill_random(s.w, N); fill_random(s.table, 1024);
    memcpy(s.pos, pos, sizeof pos);
}

/* Adding a row does not look at x: dy goes through as it is. */
static void pass_through(void) { memcpy(s.dx, s.w, sizeof s.dx); }

/* ---- added ----------------------------------------------------------------------------------- */

static double sinusoidal(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_sinusoidal(r->scratch, r->pos, T, C, 100.0);
    posenc_rows_forward(r->y, r->scratch, B, T, C);
    return weighted_sum(r->w, r->y, N);
}
TEST check_sinusoidal(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, N } };
    fresh();
    pass_through();
    ASSERT_GRADIENT(sinusoidal, &s, list, 1, 0);
    PASS();
}

static double sincos2d(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_sincos2d(r->scratch, r->pos, T, C, 100.0);                  /* B*T = 2*T coordinates */
    posenc_rows_forward(r->y, r->scratch, B, T, C);
    return weighted_sum(r->w, r->y, N);
}
TEST check_sincos2d(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, N } };
    fresh();
    pass_through();
    ASSERT_GRADIENT(sincos2d, &s, list, 1, 0);
    PASS();
}

static double rows(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_rows_forward(r->y, r->table, B, T, C);
    return weighted_sum(r->w, r->y, N);
}
TEST rows_gradient_matches_finite_differences(void)
{
    gradient_of list[] = { { "table", s.table, s.dtable, T * C } };
    fresh();
    posenc_rows_backward(s.dtable, s.w, B, T, C);
    ASSERT_GRADIENT(rows, &s, list, 1, 0);
    PASS();
}

static double learned(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_learned_forward(r->y, r->table, r->pos, B, T, C, ROWS);
    return weighted_sum(r->w, r->y, N);
}
TEST check_learned(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, N }, { "table", s.table, s.dtable, ROWS * C } };
    fresh();
    pass_through();
    posenc_learned_backward(s.dtable, s.w, s.pos, B, T, C, ROWS);
    ASSERT_GRADIENT(learned, &s, list, 2, 0);
    PASS();
}
TEST check_sininit(void)
{
    gradient_of list[] = { { "x", s.x, s.dx, N }, { "table", s.table, s.dtable, ROWS * C } };
    fresh();
    posenc_sinusoidal(s.table, NULL, ROWS, C, 10000.0);
    pass_through();
    posenc_learned_backward(s.dtable, s.w, s.pos, B, T, C, ROWS);
    ASSERT_GRADIENT(learned, &s, list, 2, 0);
    PASS();
}
TEST learned_gradient_with_positions_outside_matches_finite_differences(void)
{
    gradient_of list[] = { { "table", s.table, s.dtable, ROWS * C } };
    fresh();
    s.pos[1] = -1; s.pos[2] = ROWS; s.pos[3] = 1e18;
    posenc_learned_backward(s.dtable, s.w, s.pos, B, T, C, ROWS);
    ASSERT_GRADIENT(learned, &s, list, 1, 0);
    PASS();
}

static void lay_out(posenc_continuous *net, posenc_float *p)
{
    net->w1 = p; net->b1 = p + HID; net->w2 = net->b1 + HID; net->b2 = net->w2 + HID * HID;
    net->w3 = net->b2 + HID; net->b3 = net->w3 + C * HID;
}
static double continuous(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_continuous_forward(r->y, r->scratch, &r->net, r->pos, 5.0, B, T, C, HID);
    return weighted_sum(r->w, r->y, N);
}
TEST check_continuous(void)
{
    gradient_of list[7];
    fresh();
    lay_out(&s.net, s.table); lay_out(&s.dnet, s.dtable);
    list[0] = (gradient_of){ "x",  s.x, s.dx, N };
    list[1] = (gradient_of){ "w1", s.net.w1, s.dnet.w1, HID };
    list[2] = (gradient_of){ "b1", s.net.b1, s.dnet.b1, HID };
    list[3] = (gradient_of){ "w2", s.net.w2, s.dnet.w2, HID * HID };
    list[4] = (gradient_of){ "b2", s.net.b2, s.dnet.b2, HID };
    list[5] = (gradient_of){ "w3", s.net.w3, s.dnet.w3, C * HID };
    list[6] = (gradient_of){ "b3", s.net.b3, s.dnet.b3, C };
    ASSERT_LTE(posenc_continuous_scratch(T, C, HID), (size_t)4096);
    continuous(&s);
    pass_through();
    posenc_continuous_backward(&s.dnet, s.w, s.scratch, &s.net, B, T, C, HID);
    ASSERT_GRADIENT(continuous, &s, list, 7, 0);
    PASS();
}

/* ---- turned ---------------------------------------------------------------------------------- */

static posenc_heads heads(posenc_float *p) { return posenc_heads_bthd(p, B, T, H, D); }

static double rope(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_rope_forward(heads(r->y), r->pos, r->layout, 100.0);
    return weighted_sum(r->w, r->y, N);
}
TEST check_rope(int layout)
{
    gradient_of list[] = { { "x", s.x, s.dx, N } };
    fresh();
    s.layout = layout;
    pass_through();
    posenc_rope_backward(heads(s.dx), s.pos, layout, 100.0);
    ASSERT_GRADIENT(rope, &s, list, 1, 0);
    PASS();
}

static double lrope(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_lrope_forward(heads(r->y), r->table, r->pos, r->layout, 100.0);
    return weighted_sum(r->w, r->y, N);
}
TEST check_lrope(int layout)
{
    gradient_of list[] = { { "x", s.x, s.dx, N }, { "scale", s.table, s.dtable, D / 2 } };
    fresh();
    s.layout = layout;
    pass_through();
    posenc_lrope_backward(heads(s.dx), s.dtable, heads(s.x), s.table, s.pos, layout, 100.0);
    ASSERT_GRADIENT(lrope, &s, list, 2, 0);
    PASS();
}

/* Turns of a part of each head, positions for each sample, a magnitude, frequencies that are
   learnt.                                                                                        */
static double turns(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    memcpy(r->y, r->x, sizeof r->y);
    posenc_turns_fill(r->turns, r->pos, &r->by);
    posenc_turn(heads(r->y), r->turns);
    return weighted_sum(r->w, r->y, N);
}
TEST turns_gradient_matches_finite_differences(int layout)
{
    enum { PAIRS = 3 };
    gradient_of list[] = { { "x", s.x, s.dx, N }, { "scale", s.table, s.dtable, PAIRS } };
    double frequency[PAIRS];
    fresh();
    posenc_rope_frequencies(frequency, 2 * PAIRS, 50.0);
    s.by = (posenc_rotation){ PAIRS, 1, frequency, NULL, 0, 1.3, s.table };
    s.turns.cosine = s.scratch; s.turns.sine = s.scratch + 512;
    s.turns.rows = B * T;
    s.turns.pairs = PAIRS;
    s.turns.row_b = T;
    s.turns.offset = 1;
    s.turns.layout = layout;
    turns(&s);
    pass_through();
    posenc_turn_back(heads(s.dx), s.turns);
    posenc_turns_backward(s.dtable, heads(s.dx), heads(s.x), s.turns, s.pos, &s.by);
    ASSERT_GRADIENT(turns, &s, list, 2, 0);
    PASS();
}

/* rope2d, with a trained scale on top: row and column of each token in the same two samples. */
TEST check_rope2d(int layout)
{
    gradient_of list[] = { { "x", s.x, s.dx, N }, { "scale", s.table, s.dtable, D / 2 } };
    double frequency[D];
    fresh();
    posenc_rope2d_frequencies(frequency, D, 50.0);
    s.by = (posenc_rotation){ D / 2, 2, frequency, NULL, 0, 1.3, s.table };
    s.turns.cosine = s.scratch; s.turns.sine = s.scratch + 512;
    s.turns.rows = T;
    s.turns.pairs = D / 2;
    s.turns.layout = layout;
    turns(&s);
    pass_through();
    posenc_turn_back(heads(s.dx), s.turns);
    posenc_turns_backward(s.dtable, heads(s.dx), heads(s.x), s.turns, s.pos, &s.by);
    ASSERT_GRADIENT(turns, &s, list, 2, 0);
    PASS();
}

/* Tokens past the end of a table are not turned: their gradient passes, and teaches the scale
   nothing.                                                                                       */
TEST turns_gradient_past_the_table_matches_finite_differences(int layout)
{
    gradient_of list[] = { { "x", s.x, s.dx, N }, { "scale", s.table, s.dtable, D / 2 } };
    double frequency[D / 2];
    fresh();
    posenc_rope_frequencies(frequency, D, 50.0);
    s.by = (posenc_rotation){ D / 2, 1, frequency, NULL, 0, 1.3, s.table };
    s.turns.cosine = s.scratch; s.turns.sine = s.scratch + 512;
    s.turns.rows = T + 2;
    s.turns.pairs = D / 2;
    s.turns.row_b = T;
    s.turns.offset = 0;
    s.turns.layout = layout;
    turns(&s);
    pass_through();
    posenc_turn_back(heads(s.dx), s.turns);
    posenc_turns_backward(s.dtable, heads(s.dx), heads(s.x), s.turns, s.pos, &s.by);
    ASSERT_GRADIENT(turns, &s, list, 2, 0);
    PASS();
}

/* ---- added to scores: the table is seen through attention ------------------------------------ */

static double through_attention(encoding_run *r)
{
    attention_tiled_forward(&r->attention);
    return weighted_sum(r->attention.dout.data, r->attention.out.data, r->attention.q_count);
}
static void clear_bias(encoding_run *r)
{
    memset(r->attention.bias, 0, r->attention.bias_count * sizeof *r->attention.bias);
}

static const attention_case biased = { .B = 2, .Tq = 7, .Tk = 9, .H = 3, .Hk = 3, .D = 4,
                                       .past = 8, .future = 6 };

static double relative(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    clear_bias(r);
    posenc_relative_forward(r->attention.bias, r->table, r->clip, 3, 8, 6);
    return through_attention(r);
}
TEST check_relative(int clip)
{
    gradient_of list[] = { { "table", s.table, s.dtable, (size_t)(2 * clip + 1) * 3 } };
    fresh();
    s.clip = clip;
    attention_begin(&s.attention, biased);
    relative(&s);
    attention_tiled_backward(&s.attention);
    posenc_relative_backward(s.dtable, s.attention.dbias, clip, 3, 8, 6);
    ASSERT_GRADIENT(relative, &s, list, 1, 0);
    PASS();
}

static double t5(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    clear_bias(r);
    posenc_t5_forward(r->attention.bias, r->table, 8, 7, r->both_sides, 3, 8, 6);
    return through_attention(r);
}
TEST check_t5(int both_sides)
{
    gradient_of list[] = { { "table", s.table, s.dtable, 8 * 3 } };
    fresh();
    s.both_sides = both_sides;
    attention_begin(&s.attention, biased);
    t5(&s);
    attention_tiled_backward(&s.attention);
    posenc_t5_backward(s.dtable, s.attention.dbias, 8, 7, both_sides, 3, 8, 6);
    ASSERT_GRADIENT(t5, &s, list, 1, 0);
    PASS();
}

/* alibi learns nothing; queries and keys must still get their gradients with it in the scores. */
static double alibi(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    clear_bias(r);
    posenc_alibi_forward(r->attention.bias, 3, 8, 6, 8.0);
    return through_attention(r);
}
TEST check_alibi(void)
{
    gradient_of list[2];
    fresh();
    attention_begin(&s.attention, biased);
    alibi(&s);
    attention_tiled_backward(&s.attention);
    list[0] = (gradient_of){ "q", s.attention.q.data, s.attention.dq.data, s.attention.q_count };
    list[1] = (gradient_of){ "k", s.attention.k.data, s.attention.dk.data, s.attention.k_count };
    ASSERT_GRADIENT(alibi, &s, list, 2, 0);
    PASS();
}

static int bucket_of[15];
static double gathered(void *ctx)
{
    encoding_run *r = (encoding_run *)ctx;
    clear_bias(r);
    posenc_gather_forward(r->attention.bias, r->table, bucket_of, 3, 15, 4);
    return through_attention(r);
}
TEST gather_gradient_matches_finite_differences(void)
{
    gradient_of list[] = { { "table", s.table, s.dtable, 4 * 3 } };
    fresh();
    for (int e = 0; e < 15; e++) bucket_of[e] = e * 5 % 6 - 1;            /* -1 and 4 are outside */
    attention_begin(&s.attention, biased);
    gathered(&s);
    attention_tiled_backward(&s.attention);
    posenc_gather_backward(s.dtable, s.attention.dbias, bucket_of, 3, 15, 4);
    ASSERT_GRADIENT(gathered, &s, list, 1, 0);
    PASS();
}

/* ---- the table drives the list --------------------------------------------------------------- */

TEST gradient_matches_finite_differences(int encoding)
{
    switch (encoding) {
    case POSENC_SINUSOIDAL: CHECK_CALL(check_sinusoidal()); PASS();
    case POSENC_SINCOS2D:   CHECK_CALL(check_sincos2d());   PASS();
    case POSENC_LEARNED:    CHECK_CALL(check_learned());    PASS();
    case POSENC_SININIT:    CHECK_CALL(check_sininit());    PASS();
    case POSENC_CONTINUOUS: CHECK_CALL(check_continuous()); PASS();
    case POSENC_ROPE:
        CHECK_CALL(check_rope(POSENC_INTERLEAVED));
        CHECK_CALL(check_rope(POSENC_HALF));
        PASS();
    case POSENC_LROPE:
        CHECK_CALL(check_lrope(POSENC_INTERLEAVED));
        CHECK_CALL(check_lrope(POSENC_HALF));
        PASS();
    case POSENC_ROPE2D:
        CHECK_CALL(check_rope2d(POSENC_INTERLEAVED));
        CHECK_CALL(check_rope2d(POSENC_HALF));
        PASS();
    case POSENC_RELATIVE: CHECK_CALL(check_relative(20)); CHECK_CALL(check_relative(3)); PASS();
    case POSENC_ALIBI:    CHECK_CALL(check_alibi()); PASS();
    case POSENC_T5:       CHECK_CALL(check_t5(1)); CHECK_CALL(check_t5(0)); PASS();
    default: FAILm("an encoding without a call of its own");
    }
}

SUITE(gradients_of_encodings)
{
    static const int own_calls[] = { POSENC_SINUSOIDAL, POSENC_SINCOS2D, POSENC_LEARNED,
                                     POSENC_SININIT, POSENC_CONTINUOUS, POSENC_ROPE, POSENC_LROPE,
                                     POSENC_ROPE2D, POSENC_RELATIVE, POSENC_ALIBI, POSENC_T5 };
    for (size_t i = 0; i < sizeof own_calls / sizeof *own_calls; i++) {
        label_test("for_%s", posenc_encoding_get(own_calls[i])->name);
        RUN_TESTp(gradient_matches_finite_differences, own_calls[i]);
    }
    RUN_TEST(rows_gradient_matches_finite_differences);
    RUN_TEST(learned_gradient_with_positions_outside_matches_finite_differences);
    label_test("interleaved");
    RUN_TESTp(turns_gradient_matches_finite_differences, POSENC_INTERLEAVED);
    label_test("half");        RUN_TESTp(turns_gradient_matches_finite_differences, POSENC_HALF);
    label_test("interleaved");
    RUN_TESTp(turns_gradient_past_the_table_matches_finite_differences, POSENC_INTERLEAVED);
    label_test("half");
    RUN_TESTp(turns_gradient_past_the_table_matches_finite_differences, POSENC_HALF);
    RUN_TEST(gather_gradient_matches_finite_differences);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(gradients_of_encodings);
    give_back();
    GREATEST_MAIN_END();
}
