/* The backward of every encoding against finite differences, in double, through the calls that take
   a spec: each row of the table as it is, and a list of variants with every key that changes a
   formula. A row that enters at a place not known here fails by name, and so does a key without a
   variant.                                                                                       */
#define POSENC_DOUBLE
#include "posenc.h"
#include "check.h"
#include "attention_cases.h"

enum { B = 2, T = 7, H = 2, D = 8, C = H * D, CONTEXT = 12 };

/* positions that repeat and jump, whole, inside a table of CONTEXT */
static const double places[B * T] = { 3, 1, 4, 1, 5, 9, 2,   6, 5, 3, 5, 8, 9, 7 };

typedef struct spec_run {
    posenc_spec spec;
    posenc_shape shape;
    posenc_part part[POSENC_PARTS];
    int parts, key;
    posenc_float *w[POSENC_PARTS], *dw[POSENC_PARTS];
    size_t count[POSENC_PARTS];
    double at[B * T * POSENC_AXES];
    posenc_float *x, *y, *dx, *weight, *scratch;           /* weight: of the loss                 */
    size_t n;
    posenc_turns turns;
    posenc_rotation by;
    double room[(POSENC_AXES + 1) * C / 2];
    posenc_float tau[B * T];
} spec_run;
static spec_run s;
static attention_run a;

/* A spec for a model of `channels`, its tensors random; 0: refused, the reason is in check_text.
   Call give_back or attention_begin first.                                                       */
static int begin(const char *text, int channels)
{
    posenc_error why;
    int count = 0;
    memset(&s, 0, sizeof s);
    s.shape.C = channels; s.shape.H = H; s.shape.D = D; s.shape.context = CONTEXT;
    s.shape.causal = 1;
    if (posenc_spec_parse(&s.spec, &count, 1, text, &why) != POSENC_OK
        || posenc_spec_complete(&s.spec, &s.shape, &why) != POSENC_OK) {
        snprintf(check_text, sizeof check_text, "%.100s: %.250s", text, why.text);
        return 0;
    }
    s.parts = posenc_spec_parts(s.part, &s.spec, &s.shape);
    for (int i = 0; i < s.parts; i++) {
        s.count[i] = (size_t)s.part[i].rows * (s.part[i].columns ? s.part[i].columns : 1);
        s.w[i] = take_random(s.count[i]);
        s.dw[i] = s.part[i].fixed ? NULL : take_zero(s.count[i]);
    }
    /* kerple reads its numbers from 0.01 on: stay clear of the bend */
    if (s.spec.encoding == POSENC_KERPLE)
        for (size_t i = 0; i < s.count[0]; i++) s.w[0][i] = 0.7 + 0.4 * s.w[0][i];
    posenc_spec_coordinates(s.at, &s.spec, places, 1, B * T);
    if (posenc_spec_check_positions(&s.spec, s.at, B * T, &why) != POSENC_OK) {
        snprintf(check_text, sizeof check_text, "%.100s: %.250s", text, why.text);
        return 0;
    }
    return 1;
}
/* everything trained, and x if it is there */
static int list_gradients(gradient_of list[POSENC_PARTS + 1])
{
    int n = 0;
    if (s.x) list[n++] = (gradient_of){ "x", s.x, s.dx, s.n };
    for (int i = 0; i < s.parts; i++)
        if (s.dw[i]) list[n++] = (gradient_of){ s.part[i].name, s.w[i], s.dw[i], s.count[i] };
    return n;
}

/* ---- added ----------------------------------------------------------------------------------- */

static double rows_loss(void *ctx)
{
    spec_run *r = (spec_run *)ctx;
    memcpy(r->y, r->x, r->n * sizeof *r->y);
    posenc_spec_rows_forward(r->y, r->scratch, &r->spec, r->w, r->at, B, T, r->shape.C);
    return weighted_sum(r->weight, r->y, r->n);
}
static void rows_backward(posenc_float *const *dw)
{
    rows_loss(&s);
    posenc_spec_rows_backward(dw, s.weight, s.scratch, &s.spec, s.w, s.at, B, T, s.shape.C);
}

TEST check_rows(const char *text, int channels)
{
    gradient_of list[POSENC_PARTS + 1];
    give_back();
    ASSERTm(check_text, begin(text, channels));
    s.n = (size_t)B * T * channels;
    s.x = take_random(s.n);
    s.y = take(s.n);
    s.weight = take_random(s.n);
    s.dx = s.weight;                                                /* dx passes as it is         */
    s.scratch = take(posenc_spec_rows_scratch(&s.spec, T, channels));
    rows_backward(s.dw);
    ASSERT_GRADIENT(rows_loss, &s, list, list_gradients(list), 0);

    /* what is not wanted is left out and changes nothing else; what is there is added to */
    for (int without = 0; without < s.parts; without++) {
        posenc_float *again[POSENC_PARTS];
        if (!s.dw[without]) continue;
        for (int i = 0; i < s.parts; i++) {
            again[i] = i == without || !s.dw[i] ? NULL : take(s.count[i]);
            for (size_t e = 0; again[i] && e < s.count[i]; e++) again[i][e] = 3.0;
        }
        rows_backward(again);
        for (int i = 0; i < s.parts; i++)
            for (size_t e = 0; again[i] && e < s.count[i]; e++)
                ASSERT_LTE(fabs(again[i][e] - s.dw[i][e] - 3.0), 1e-12);
    }
    PASS();
}

/* ---- turned ---------------------------------------------------------------------------------- */

static posenc_heads turned(posenc_float *p)
{
    int wide = s.spec.over == POSENC_OVER_WIDTH;
    return posenc_heads_bthd(p, B, T, wide ? 1 : H, wide ? C : D);
}
static double turn_loss(void *ctx)
{
    spec_run *r = (spec_run *)ctx;
    memcpy(r->y, r->x, r->n * sizeof *r->y);
    if (r->spec.encoding == POSENC_QTEMP) posenc_temper(turned(r->y), r->tau, T);
    else {
        posenc_turns_fill(r->turns, r->at, &r->by);
        posenc_turn(turned(r->y), r->turns);
    }
    return weighted_sum(r->weight, r->y, r->n);
}

TEST check_turn(const char *text, int key)
{
    gradient_of list[POSENC_PARTS + 1];
    give_back();
    ASSERTm(check_text, begin(text, C));
    s.n = (size_t)B * T * C;
    s.x = take_random(s.n);
    s.y = take(s.n);
    s.dx = take(s.n);
    s.weight = take_random(s.n);
    memcpy(s.dx, s.weight, s.n * sizeof *s.dx);
    if (s.spec.encoding == POSENC_QTEMP) {
        posenc_spec_temperature(s.tau, &s.spec, s.at, B * T);
        posenc_temper(turned(s.dx), s.tau, T);
        ASSERT_GRADIENT(turn_loss, &s, list, list_gradients(list), 0);
        PASS();
    }
    s.by = posenc_spec_rotation(s.room, &s.spec, key, 10.0);
    if (s.parts) s.by.scale = s.w[0];
    ASSERT_EQ(s.spec.dim / 2, s.by.pairs);
    s.turns.rows = B * T;
    s.turns.pairs = s.by.pairs;
    s.turns.row_b = T;
    s.turns.offset = s.spec.offset;
    s.turns.layout = s.spec.layout;
    s.turns.cosine = take((size_t)B * T * s.by.pairs);
    s.turns.sine   = take((size_t)B * T * s.by.pairs);
    turn_loss(&s);
    posenc_turn_back(turned(s.dx), s.turns);
    if (s.parts)
        posenc_turns_backward(s.dw[0], turned(s.dx), turned(s.x), s.turns, s.at, &s.by);
    ASSERT_GRADIENT(turn_loss, &s, list, list_gradients(list), 0);

    /* x and dx both after the turn say the same, for turns that keep lengths */
    if (s.parts) {
        posenc_float *other = take_zero(s.count[0]), *after = take(s.n);
        turn_loss(&s);                                            /* with everything put back     */
        memcpy(after, s.weight, s.n * sizeof *after);
        posenc_turns_backward(other, turned(after), turned(s.y), s.turns, s.at, &s.by);
        ASSERT_NORM_CLOSE(s.dw[0], other, s.count[0], 1e-12);
    }
    PASS();
}

/* The same through attention, q and k turned on the way in as queries and as keys: what xpos is
   for. The scale of lrope gets its gradient from both.                                           */
static posenc_rotation as_query, as_key;
static double room_k[(POSENC_AXES + 1) * C / 2];

static double turned_attention_loss(void *ctx)
{
    spec_run *r = (spec_run *)ctx;
    posenc_turns_fill(a.q_turns, r->at, &as_query);
    posenc_turns_fill(a.k_turns, r->at, &as_key);
    attention_tiled_forward(&a);
    return weighted_sum(a.dout.data, a.out.data, a.q_count);
}
TEST check_turned_attention(const char *text)
{
    static const attention_case plain = { .B = B, .Tq = T, .Tk = T, .H = H, .Hk = 1, .D = D,
                                          .causal = 1 };
    gradient_of list[4];
    posenc_turns turns;
    attention_begin(&a, plain);
    ASSERTm(check_text, begin(text, C));
    as_query = posenc_spec_rotation(s.room, &s.spec, 0, 10.0);
    as_key = posenc_spec_rotation(room_k, &s.spec, 1, 10.0);
    if (s.parts) as_query.scale = as_key.scale = s.w[0];
    memset(&turns, 0, sizeof turns);
    turns.rows = B * T;
    turns.pairs = as_query.pairs;
    turns.row_b = T;
    turns.offset = s.spec.offset;
    turns.layout = s.spec.layout;
    a.q_turns = a.k_turns = turns;
    a.q_turns.cosine = take((size_t)B * T * turns.pairs);
    a.q_turns.sine   = take((size_t)B * T * turns.pairs);
    a.k_turns.cosine = take((size_t)B * T * turns.pairs);
    a.k_turns.sine   = take((size_t)B * T * turns.pairs);
    a.how.q_turns = &a.q_turns;
    a.how.k_turns = &a.k_turns;
    a.scratch = take(posenc_attention_scratch(B, T, T, H, D, &a.how));
    turned_attention_loss(&s);
    attention_tiled_backward(&a);
    list[0] = (gradient_of){ "q", a.q.data, a.dq.data, a.q_count };
    list[1] = (gradient_of){ "k", a.k.data, a.dk.data, a.k_count };
    if (s.parts) {                             /* attention gave dq and dk as they are before it  */
        posenc_turns_backward(s.dw[0], a.dq, a.q, a.q_turns, s.at,
                              &as_query);
        posenc_turns_backward(s.dw[0], a.dk, a.k, a.k_turns, s.at,
                              &as_key);
        list[2] = (gradient_of){ s.part[0].name, s.w[0], s.dw[0], s.count[0] };
    }
    ASSERT_GRADIENT(turned_attention_loss, &s, list, s.parts ? 3 : 2, 0);
    PASS();
}

/* ---- added to scores: seen through attention ------------------------------------------------- */

static double bias_loss(void *ctx)
{
    spec_run *r = (spec_run *)ctx;
    memset(a.bias, 0, a.bias_count * sizeof *a.bias);
    posenc_spec_bias_forward(a.bias, &r->spec, r->w, H, a.c.past, a.c.future);
    attention_tiled_forward(&a);
    return weighted_sum(a.dout.data, a.out.data, a.q_count);
}

/* whole positions for attention, or for swin the grid's own numbers */
static void take_places(void)
{
    int *at = take_ints((size_t)B * T);
    double one[POSENC_AXES];
    for (int n = 0; n < B * T; n++) {
        posenc_spec_coordinates(one, &s.spec, &places[n], 1, 1);
        at[n] = posenc_spec_place(&s.spec, one);
    }
    a.how.q_at = a.how.k_at = at;
}

TEST check_bias(const char *text, int causal, int past, int future)
{
    attention_case c = { .B = B, .Tq = T, .Tk = T, .H = H, .Hk = H, .D = 4 };
    gradient_of list[POSENC_PARTS + 2];
    int n = 0;
    c.causal = causal;
    c.past = past;
    c.future = future;
    attention_begin(&a, c);
    ASSERTm(check_text, begin(text, C));
    take_places();
    bias_loss(&s);
    attention_tiled_backward(&a);
    posenc_spec_bias_backward(s.dw, a.dbias, &s.spec, s.w, H, past, future);
    for (int i = 0; i < s.parts; i++)
        list[n++] = (gradient_of){ s.part[i].name, s.w[i], s.dw[i], s.count[i] };
    list[n++] = (gradient_of){ "q", a.q.data, a.dq.data, a.q_count };
    list[n++] = (gradient_of){ "k", a.k.data, a.dk.data, a.k_count };
    ASSERT_GRADIENT(bias_loss, &s, list, n, 0);
    PASS();
}

/* kerple outside its bounds: read as the bound, gradient exactly 0 */
TEST kerple_learns_nothing_outside_its_bounds(const char *text)
{
    posenc_float w[2 * H], at_bound[2 * H], dw[2 * H], bias[H * 12], same[H * 12], dbias[H * 12];
    posenc_float *list[1] = { w }, *bound[1] = { at_bound }, *dlist[1] = { dw };
    int power = strstr(text, "power") != NULL;
    ASSERTm(check_text, begin(text, C));
    w[0] = -3.0;  at_bound[0] = 0.01;                                  /* r1 of head 0            */
    w[1] = 0.5;   at_bound[1] = 0.5;                                   /* r2                      */
    w[2] = 1.5;   at_bound[2] = 1.5;                                   /* head 1                  */
    w[3] = power ? 2.5 : 0.001;  at_bound[3] = power ? 2.0 : 0.01;
    memset(bias, 0, sizeof bias); memset(same, 0, sizeof same); memset(dw, 0, sizeof dw);
    fill_random(dbias, H * 12);
    posenc_spec_bias_forward(bias, &s.spec, list, H, 8, 3);
    posenc_spec_bias_forward(same, &s.spec, bound, H, 8, 3);
    ASSERT_CLOSE(same, bias, H * 12, 1e-15);
    posenc_spec_bias_backward(dlist, dbias, &s.spec, list, H, 8, 3);
    ASSERT_EQ(0.0, dw[0]);
    ASSERT_EQ(0.0, dw[3]);
    ASSERT(fabs(dw[1]) > 1e-6 && fabs(dw[2]) > 1e-3);
    PASS();
}

/* ---- attention with a temperature for each query --------------------------------------------- */

static double tempered_loss(void *ctx)
{
    attention_run *r = (attention_run *)ctx;
    attention_tiled_forward(r);
    return weighted_sum(r->dout.data, r->out.data, r->q_count);
}
static double plain_tempered_loss(void *ctx)
{
    attention_run *r = (attention_run *)ctx;
    attention_plain_forward(r);
    return weighted_sum(r->dout.data, r->out.data, r->q_count);
}
TEST tempered_attention_gradient_matches_finite_differences(attention_case c, int plain)
{
    gradient_of list[4];
    posenc_float *tau;
    int n = 3;
    attention_begin(&a, c);
    tau = take((size_t)B * c.Tq);
    for (int i = 0; i < B * c.Tq; i++) tau[i] = 0.5 + 0.25 * (i % 7);
    a.how.q_scale = tau;
    a.scratch = take(posenc_attention_scratch(B, c.Tq, c.Tk, c.H, c.D, &a.how));
    if (plain) { plain_tempered_loss(&a); attention_plain_backward(&a); }
    else       { tempered_loss(&a);       attention_tiled_backward(&a); }
    list[0] = (gradient_of){ "q", a.q.data, a.dq.data, a.q_count };
    list[1] = (gradient_of){ "k", a.k.data, a.dk.data, a.k_count };
    list[2] = (gradient_of){ "v", a.v.data, a.dv.data, a.k_count };
    if (a.bias)
        list[n++] = (gradient_of){ "bias", a.bias, a.dbias,
                                   a.bias_count };
    ASSERT_GRADIENT(plain ? plain_tempered_loss : tempered_loss, &a, list, n, 0);
    PASS();
}

/* q_scale is q times tau, but for the bias, which it leaves alone */
TEST tempered_attention_is_attention_of_tempered_queries(attention_case c)
{
    posenc_float *tau, *out;
    attention_begin(&a, c);
    tau = take((size_t)B * c.Tq);
    for (int i = 0; i < B * c.Tq; i++) tau[i] = 0.5 + 0.25 * (i % 7);
    a.how.q_scale = tau;
    a.scratch = take(posenc_attention_scratch(B, c.Tq, c.Tk, c.H, c.D, &a.how));
    attention_tiled_forward(&a);
    out = take(a.q_count);
    memcpy(out, a.out.data, a.q_count * sizeof *out);
    a.how.q_scale = NULL;
    posenc_temper(a.q, tau, c.Tq);
    attention_tiled_forward(&a);
    ASSERT_CLOSE(a.out.data, out, a.q_count, 1e-12);
    PASS();
}

/* ---- what the table of layer functions got for them ------------------------------------------ */

enum { WAVE_ROWS = 3, WAVE_N = 5 };
static struct waves {
    posenc_float a[WAVE_ROWS * WAVE_N], da[WAVE_ROWS * WAVE_N];
    posenc_float y[WAVE_ROWS * 2 * WAVE_N], weight[WAVE_ROWS * 2 * WAVE_N];
} waves;

static double waves_loss(void *ctx)
{
    struct waves *v = (struct waves *)ctx;
    posenc_waves_forward(v->y, v->a, 0.7, WAVE_ROWS, WAVE_N);
    return weighted_sum(v->weight, v->y, WAVE_ROWS * 2 * WAVE_N);
}
TEST waves_gradient_matches_finite_differences(void)
{
    gradient_of list[] = { { "a", waves.a, waves.da, WAVE_ROWS * WAVE_N } };
    fill_random(waves.a, WAVE_ROWS * WAVE_N);
    fill_random(waves.weight, WAVE_ROWS * 2 * WAVE_N);
    for (int i = 0; i < WAVE_ROWS * WAVE_N; i++) waves.a[i] *= 9;
    waves_loss(&waves);
    for (int r = 0; r < WAVE_ROWS; r++) for (int i = 0; i < WAVE_N; i++) {
        double a = waves.a[r * WAVE_N + i];
        ASSERT_LTE(fabs(waves.y[r * 2 * WAVE_N + i] - 0.7 * sin(a)), 1e-14);
        ASSERT_LTE(fabs(waves.y[r * 2 * WAVE_N + WAVE_N + i] - 0.7 * cos(a)), 1e-14);
    }
    posenc_waves_backward(waves.da, waves.weight, waves.y, WAVE_ROWS, WAVE_N);
    ASSERT_GRADIENT(waves_loss, &waves, list, 1, 0);
    PASS();
}

static struct curve {
    int encoding, form, n;
    posenc_float w[2 * H], dw[2 * H], bias[H * 12], weight[H * 12];
} curve;

static double curve_loss(void *ctx)
{
    struct curve *v = (struct curve *)ctx;
    memset(v->bias, 0, sizeof v->bias);
    posenc_curve_forward(v->bias, v->w, v->encoding, v->form, H, 7, 4);
    return weighted_sum(v->weight, v->bias, H * 12);
}
TEST curve_gradient_matches_finite_differences(int encoding, int form)
{
    gradient_of list[] = { { "w", curve.w, curve.dw, encoding == POSENC_LALIBI ? H : 2 * H } };
    memset(&curve, 0, sizeof curve);
    curve.encoding = encoding;
    curve.form = form;
    fill_random(curve.w, 2 * H);
    fill_random(curve.weight, H * 12);
    if (encoding == POSENC_KERPLE)
        for (int i = 0; i < 2 * H; i++) curve.w[i] = 0.7 + 0.4 * curve.w[i];
    posenc_curve_backward(curve.dw, curve.weight, curve.w, encoding, form, H, 7, 4);
    ASSERT_GRADIENT(curve_loss, &curve, list, 1, 0);
    PASS();
}

/* ---- the table, and variants of its rows ----------------------------------------------------- */

TEST gradient_matches_finite_differences(const char *text)
{
    posenc_spec spec;
    posenc_error why;
    int count = 0;
    if (posenc_spec_parse(&spec, &count, 1, text, &why) != POSENC_OK) {
        snprintf(check_text, sizeof check_text, "%.300s", why.text);
        FAILm(check_text);
    }
    switch (posenc_encoding_get(spec.encoding)->where) {
    case POSENC_EMBEDDING:
        CHECK_CALL(check_rows(text, C));
        if (spec.encoding != POSENC_RANDOM_FOURIER) CHECK_CALL(check_rows(text, 15));
        PASS();
    case POSENC_QUERY_KEY:
        CHECK_CALL(check_turn(text, 0));
        CHECK_CALL(check_turn(text, 1));
        if (spec.encoding != POSENC_QTEMP && spec.over == POSENC_OVER_HEAD)
            CHECK_CALL(check_turned_attention(text));
        PASS();
    case POSENC_SCORE:
        /* every distance within reach, and so few that most read the ends of the vector */
        CHECK_CALL(check_bias(text, 0, 30, 30));
        CHECK_CALL(check_bias(text, 1, 8, 0));
        if (spec.encoding != POSENC_SWIN) CHECK_CALL(check_bias(text, 0, 2, 1));
        PASS();
    default: FAILm("an encoding without a gradient check");
    }
}

static const char *variants[] = {
    "sinusoidal:base=100,layout=concat", "sinusoidal:base=100,layout=cosfirst",
    "sinusoidal:frequencies=t2t", "sinusoidal:frequencies=t2t,layout=concat",
    "sinusoidal:scaled=1", "sinusoidal:scaled=1,layout=concat,frequencies=t2t,base=50",
    "sinonly:base=100",
    "binary:digits=5", "binary_norm:digits=5", "decimal:digits=2", "decimal_norm:digits=2",
    "integer:length=7", "integer:spread=first",
    "learned:rows=20,offset=2", "sininit:rows=15,offset=1,base=100",
    "continuous:hidden=6,depth=1,length=5", "continuous:hidden=9,depth=2",
    "sincos2d:base=100,width=3", "sincos2d:width=3,layout=concat,swap=1", "sincos2d:swap=1",
    "sincos3d:base=100,width=2,height=3",
    "fourier:length=9,resolution=5", "fourier:bands=log", "fourier:axes=2,width=4,height=3",
    "random_fourier:length=9", "random_fourier:axes=2,width=4,height=3",
    "learned_fourier:features=6,hidden=5,length=9",
    "learned_fourier:features=8,hidden=5,axes=2,width=4,height=3",
    "rope:base=100,layout=interleaved", "rope:dim=4,offset=2", "rope:over=width",
    "rope:dim=6,offset=1,layout=interleaved", "rope:over=width,layout=interleaved",
    "rope:scaling=linear,factor=4", "rope:scaling=ntk,factor=4",
    "rope:scaling=dynamic,factor=2,original=4",
    "rope:scaling=dynamic,factor=2,original=4,length=40",
    "rope:scaling=yarn,factor=8,original=16,fast=4,slow=0.5",
    "rope:scaling=yarn,factor=8,original=16,truncate=-1,attention=1.3",
    "rope:scaling=yarn,factor=8,original=16,mscale=0.7,mscale_all=0.5",
    "rope:scaling=llama3,factor=8,original=16,low=1,high=4",
    "rope:scaling=longrope,factor=4,original=4,short=1/1.5/2/3,long=4/5/6/7",
    "rope:scaling=longrope,factor=4,original=400,short=1/1.5/2/3,long=4/5/6/7",
    "rope:scaling=proportional,proportion=0.5,factor=2", "rope:scaling=factors,long=1/1.5/2/3",
    "lrope:base=100,layout=interleaved", "lrope:dim=4,offset=2", "lrope:over=width",
    "rope2d:base=100,width=3,split=alternate", "rope2d:layout=interleaved,factor=2",
    "rope2d:dim=4,offset=3",
    "rope_pixel:width=4,height=3,resolution=16", "rope_pixel:layout=interleaved,dim=4,offset=1",
    "rope_pixel:nope_every=3",
    "rope_dino:base=50,width=4,height=3", "rope_dino:layout=interleaved,dim=4,offset=1",
    "mrope:sections=1/1/2", "mrope:sections=2/1/1,order=interleaved",
    "mrope:base=100,dim=6,offset=2", "mrope:layout=interleaved",
    "xpos:scale_base=20,center=3", "xpos:layout=interleaved,base=100", "xpos:dim=4,offset=2",
    "qtemp:form=llama4,original=3", "qtemp:form=ministral,rate=0.7,original=3",
    "qtemp:form=smooth,original=3", "qtemp:form=logn,original=3",
    "relative:distance=3", "relative:bidirectional=-1,distance=5",
    "alibi:bias_max=4", "alibi:heads=1", "lalibi:bias_max=4",
    "t5:buckets=8,distance=7,bidirectional=1", "t5:buckets=8,distance=7,bidirectional=-1",
    "swin:width=3,height=4", "swin:width=4,height=3",
    "kerple:form=log", "kerple:form=power", "sandwich:buckets=16",
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Keys that say how a table starts or which layers it is for change no formula. */
TEST every_key_has_a_variant(int encoding)
{
    const posenc_encoding_info *e = posenc_encoding_get(encoding);
    const char *at = e->keys;
    static char text[200];
    while (*at) {
        int n = (int)strcspn(at, ","), found = 0;
        char key[40];
        snprintf(key, sizeof key, "%.*s=", n, at);
        at += n + (at[n] == ',');
        if (strstr("init= nope_every= every= per_layer=", key)) continue;
        for (int i = 0; i < VARIANTS && !found; i++) {
            const char *colon = strchr(variants[i], ':');
            const char *hit = colon ? strstr(colon, key) : NULL;
            found = colon && (size_t)(colon - variants[i]) == strlen(e->name)
                 && !strncmp(variants[i], e->name, strlen(e->name))
                 && hit && (hit[-1] == ':' || hit[-1] == ',');
        }
        snprintf(text, sizeof text, "no variant of %s has the key %.30s", e->name, key);
        ASSERTm(text, found);
    }
    PASS();
}

SUITE(gradients_of_the_table)
{
    for (int i = POSENC_NONE + 1; i < POSENC_ENCODING_COUNT; i++) {  /* none has nothing to check */
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(gradient_matches_finite_differences, posenc_encoding_get(i)->name);
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(every_key_has_a_variant, i);
    }
    for (int i = 0; i < VARIANTS; i++) {
        label_test("%s", variants[i]);
        RUN_TESTp(gradient_matches_finite_differences, variants[i]);
    }
    label_test("log");   RUN_TESTp(kerple_learns_nothing_outside_its_bounds, "kerple:form=log");
    label_test("power"); RUN_TESTp(kerple_learns_nothing_outside_its_bounds, "kerple:form=power");
}

SUITE(gradients_of_their_parts)
{
    static const char *tempered[] = { "full", "causal", "fewer_queries", "grouped_heads",
                                      "distance_bias", "turned_half", "all_together",
                                      "across_tiles" };
    RUN_TEST(waves_gradient_matches_finite_differences);
    label_test("lalibi");
    RUN_TESTp(curve_gradient_matches_finite_differences, POSENC_LALIBI, 0);
    label_test("kerple_log");
    RUN_TESTp(curve_gradient_matches_finite_differences, POSENC_KERPLE, POSENC_KERPLE_LOG);
    label_test("kerple_power");
    RUN_TESTp(curve_gradient_matches_finite_differences, POSENC_KERPLE, POSENC_KERPLE_POWER);
    for (size_t n = 0; n < sizeof tempered / sizeof *tempered; n++)
        for (int i = 0; i < ATTENTION_CASES; i++) {
            if (strcmp(attention_cases[i].name, tempered[n])) continue;
            for (int plain = 0; plain < 2; plain++) {
                label_test("%s_%s", plain ? "plain" : "tiled", tempered[n]);
                RUN_TESTp(tempered_attention_gradient_matches_finite_differences,
                          attention_cases[i], plain);
            }
            label_test("%s", tempered[n]);
            RUN_TESTp(tempered_attention_is_attention_of_tempered_queries, attention_cases[i]);
        }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(gradients_of_the_table);
    RUN_SUITE(gradients_of_their_parts);
    give_back();
    GREATEST_MAIN_END();
}
