/* What every encoding that turns queries and keys must keep, whatever its frequencies: lengths,
   scores that see distances alone, the identity where it stands at 0, one layout for the other,
   cached keys turned again, exact angles a million tokens on. And for every row of the table:
   decoding one token at a time from a cache gives what all tokens at once give.                  */
#include "posenc.h"
#include "check.h"

enum { T = 12, H = 4, D = 16, C = H * D, PAIRS = D / 2, CONTEXT = 64,
       ROOM = (POSENC_AXES + 1) * PAIRS };

/* every way there is to turn; the rows of the table are checked to be among them */
static const char *turning[] = {
    "rope", "rope:layout=interleaved", "rope:base=500000", "rope:dim=6,offset=4",
    "rope:dim=8,offset=8,layout=interleaved",
    "rope:scaling=linear,factor=4", "rope:scaling=ntk,factor=4",
    "rope:scaling=dynamic,factor=2,original=16,length=100",
    "rope:scaling=yarn,factor=8,original=32", "rope:scaling=yarn,factor=8,original=32,truncate=-1",
    "rope:scaling=yarn,factor=8,original=32,attention=1.5",
    "rope:scaling=llama3,factor=8,original=32",
    "rope:scaling=longrope,factor=4,original=16,length=40,short=1/1/1/2/2/2/3/3,long=1/2/3/4/5/6/7/8",
    "rope:scaling=proportional,proportion=0.5", "rope:scaling=factors,long=1/2/3/4/5/6/7/8",
    "lrope", "lrope:layout=interleaved,dim=8,offset=2",
    "rope2d", "rope2d:split=alternate,layout=interleaved", "rope2d:factor=3,dim=8",
    "rope_pixel:width=9,height=7", "rope_pixel:width=9,height=7,resolution=32,layout=interleaved",
    "rope_dino:width=9,height=7", "rope_dino:width=9,height=7,base=30,layout=interleaved",
    "mrope", "mrope:sections=4/2/2,order=interleaved", "mrope:sections=2/3/3,layout=interleaved",
    "mrope:dim=8,offset=4",
    "xpos", "xpos:center=30,scale_base=40", "xpos:layout=interleaved,dim=8,offset=3",
};
enum { TURNING = sizeof turning / sizeof *turning };

/* ---- one encoding, ready to turn ------------------------------------------------------------- */

typedef struct turner {
    posenc_spec spec;
    posenc_rotation by[2];                                    /* of queries, of keys              */
    double room[2][ROOM];
    posenc_float scale[PAIRS];                                /* lrope's                          */
    int axes;
} turner;
static turner one, two;

static const posenc_shape shape = { C, H, D, CONTEXT, 1 };

static int prepare(turner *u, const char *text, double length)
{
    posenc_error why;
    int count = 0;
    memset(u, 0, sizeof *u);
    if (posenc_spec_parse(&u->spec, &count, 1, text, &why) != POSENC_OK
        || posenc_spec_complete(&u->spec, &shape, &why) != POSENC_OK) {
        snprintf(check_text, sizeof check_text, "%.100s: %.250s", text, why.text);
        return 0;
    }
    u->axes = posenc_spec_axes(&u->spec);
    if (posenc_encoding_get(u->spec.encoding)->where != POSENC_QUERY_KEY
        || u->spec.encoding == POSENC_QTEMP) return 1;
    for (int i = 0; i < PAIRS; i++) u->scale[i] = (posenc_float)(0.5 + 0.125 * i);
    for (int key = 0; key < 2; key++) {
        u->by[key] = posenc_spec_rotation(u->room[key], &u->spec, key, length);
        if (u->spec.encoding == POSENC_LROPE) u->by[key].scale = u->scale;
    }
    return 1;
}

static posenc_turns turns_for(const turner *u, posenc_float *cosine, posenc_float *sine, int rows)
{
    posenc_turns turns;
    turns.cosine = cosine;
    turns.sine = sine;
    turns.rows = rows;
    turns.pairs = u->spec.dim / 2;
    turns.row_b = 0;
    turns.offset = u->spec.offset;
    turns.layout = u->spec.layout;
    return turns;
}

/* x (rows, heads, D) in place, as queries or as keys; pos (rows, given) */
static void turn_at(posenc_float *x, int rows, int heads, const double *pos, int given,
                    const turner *u, int key)
{
    posenc_float cosine[T * PAIRS], sine[T * PAIRS];
    double at[T * POSENC_AXES];
    posenc_turns turns = turns_for(u, cosine, sine, rows);
    posenc_spec_coordinates(at, &u->spec, pos, given, rows);
    posenc_turns_fill(turns, at, &u->by[key]);
    posenc_turn(posenc_heads_bthd(x, 1, rows, heads, D), turns);
}

static int first_of(const posenc_spec *s, int i)
{
    return s->offset + (s->layout == POSENC_HALF ? i : 2 * i);
}
static int second_of(const posenc_spec *s, int i)
{
    return first_of(s, i) + (s->layout == POSENC_HALF ? s->dim / 2 : 1);
}
static double pair_length(const posenc_float *head, const posenc_spec *s, int i)
{
    return hypot((double)head[first_of(s, i)], (double)head[second_of(s, i)]);
}

TEST every_row_that_turns_is_in_the_list(int encoding)
{
    const char *name = posenc_encoding_get(encoding)->name;
    for (int i = 0; i < TURNING; i++)
        if (!strncmp(turning[i], name, strlen(name))
            && strchr(":", turning[i][strlen(name)])) PASS();
    if (encoding == POSENC_QTEMP) PASS();                               /* has tests of its own   */
    FAILm("an encoding that turns and is not in the list of this file");
}

/* ---- what a turn keeps ----------------------------------------------------------------------- */

/* Pairs keep their length but for the magnitude; xpos stretches queries by what it shrinks keys.
   What does not turn keeps its bits.                                                             */
TEST lengths_are_kept(const char *text)
{
    static const double pos[T] = { 0, 1, 2, 3.5, 7, 11, 20, 33, 47, 55, 62, 63 };
    posenc_float x[T * H * D], q[T * H * D], k[T * H * D];
    ASSERTm(check_text, prepare(&one, text, CONTEXT));
    fill_random(x, T * H * D);
    memcpy(q, x, sizeof x);
    memcpy(k, x, sizeof x);
    turn_at(q, T, H, pos, 1, &one, 0);
    turn_at(k, T, H, pos, 1, &one, 1);
    for (int n = 0; n < T * H; n++) {
        const posenc_spec *s = &one.spec;
        double m = one.by[0].magnitude != 0.0 ? one.by[0].magnitude : 1.0;
        for (int i = 0; i < s->dim / 2; i++) {
            double was = pair_length(x + n * D, s, i), of_q = pair_length(q + n * D, s, i);
            double of_k = pair_length(k + n * D, s, i);
            ASSERT_LTE(fabs(of_q * of_k - m * m * was * was), 2e-6);
            if (s->encoding != POSENC_XPOS) ASSERT_LTE(fabs(of_q - m * was), 1e-6);
        }
        for (int d = 0; d < D; d++)
            if (d < s->offset || d >= s->offset + s->dim) {
                ASSERT_EQ((double)x[n * D + d], (double)q[n * D + d]);
                ASSERT_EQ((double)x[n * D + d], (double)k[n * D + d]);
            }
    }
    ASSERT_GT(max_abs_diff(x, q, T * H * D), 0.1);
    PASS();
}

/* the score of head 0 with the query at p and the key at p_key */
static double score_at(const posenc_float *q, const posenc_float *k, const double *p,
                       const double *p_key, const turner *u)
{
    posenc_float a[D], b[D];
    memcpy(a, q, sizeof a);
    memcpy(b, k, sizeof b);
    turn_at(a, 1, 1, p, u->axes, u, 0);
    turn_at(b, 1, 1, p_key, u->axes, u, 1);
    return weighted_sum(a, b, D);
}

/* Moved on together, by any amount on any axis, they score the same; moved apart they do not. */
TEST scores_see_distances_alone(const char *text)
{
    static const double shifts[] = { 1, 5, 200, 1999 };
    double p[POSENC_AXES], p_key[POSENC_AXES], here;
    posenc_float q[D], k[D];
    ASSERTm(check_text, prepare(&one, text, CONTEXT));
    fill_random(q, D);
    fill_random(k, D);
    for (int a = 0; a < POSENC_AXES; a++) { p[a] = 6 + a; p_key[a] = 3 - a; }
    here = score_at(q, k, p, p_key, &one);
    for (int a = 0; a < one.axes; a++) {
        for (int i = 0; i < 4; i++) {
            double far_p[POSENC_AXES], far_key[POSENC_AXES];
            memcpy(far_p, p, sizeof p);
            memcpy(far_key, p_key, sizeof p);
            far_p[a] += shifts[i];
            far_key[a] += shifts[i];
            /* xpos: two lengths whose product stays, each rounded */
            ASSERT_LTE(fabs(score_at(q, k, far_p, far_key, &one) - here),
                       one.spec.scale_base > 0.0 && one.spec.scale_base < 100.0 ? 2e-5 : 5e-6);
        }
        p[a] += 1;
        ASSERT_GT(fabs(score_at(q, k, p, p_key, &one) - here), 1e-4);
        p[a] -= 1;
    }
    PASS();
}

TEST xpos_scores_do_not_depend_on_the_center(double other)
{
    char text[64];
    posenc_float q[D], k[D];
    double here;
    fill_random(q, D);
    fill_random(k, D);
    snprintf(text, sizeof text, "xpos:center=%g", other);
    ASSERTm(check_text, prepare(&one, "xpos", CONTEXT) && prepare(&two, text, CONTEXT));
    for (double p = 0; p < 600; p += 150)
        for (double p_key = 0; p_key <= p; p_key += 50) {
            here = score_at(q, k, &p, &p_key, &one);
            ASSERT_LTE(fabs(here - score_at(q, k, &p, &p_key, &two)), 5e-6);
        }
    PASS();
}

/* Further apart the scores of xpos fade: a vector with itself, its angles held still. */
TEST xpos_fades_with_the_distance(void)
{
    static const double still[PAIRS];
    posenc_float q[D];
    double before = HUGE_VAL, key = 0;
    for (int d = 0; d < D; d++) q[d] = 1;
    ASSERTm(check_text, prepare(&one, "xpos:scale_base=64", CONTEXT));
    one.by[0].frequency = one.by[1].frequency = still;
    for (double p = 0; p < 300; p += 20) {
        double now = score_at(q, q, &p, &key, &one);
        ASSERT_LT(now, before - 1e-3);
        before = now;
    }
    PASS();
}

/* Where every angle is 0 the bits stay: at position 0, or in the middle of a picture of 7 x 9 that
   is measured from -1 to 1.                                                                      */
TEST nothing_turns_at_zero(const char *text)
{
    static const double origin[3] = { 0, 0, 0 }, middle[3] = { 3, 4, 0 };
    const double *zero = strncmp(text, "rope_", 5) ? origin : middle;
    posenc_float x[H * D], y[H * D];
    ASSERTm(check_text, prepare(&one, text, CONTEXT));
    for (int key = 0; key < 2; key++) {
        fill_random(x, H * D);
        memcpy(y, x, sizeof x);
        turn_at(y, 1, H, zero, one.axes, &one, key);
        ASSERT_MEM_EQ(x, y, sizeof x);
    }
    PASS();
}

/* Our own sine and cosine, on both sides of the angle where the C library takes over, on every tier. */
TEST sines_and_cosines_are_right_to_the_last_bits(const char *tier)
{
    enum { N = 4000 };
    static posenc_float c[N], sn[N];
    static double pos[N];
    const double one = 1;
    posenc_turns turns = { c, sn, N, 1, 0, 0, POSENC_HALF };
    posenc_rotation by = { 1, 1, &one, NULL, 0, 1, NULL };
    if (!posenc_use_tier(tier)) SKIPm("this CPU or this build does not have it");
    for (int i = 0; i < N; i++)
        pos[i] = (i % 2 ? -1 : 1) * pow(10, -3 + 10.0 * i / N) * (1 + 0.3 * check_random());
    pos[0] = 0; pos[1] = 1.6e6; pos[2] = -1.5999999e6; pos[3] = 1048575;
    for (int i = 4; i < 40; i++) pos[i] = (i - 20) * 0.78539816339744831;           /* the seams */
    posenc_turns_fill(turns, pos, &by);
    posenc_use_tier(NULL);
    for (int i = 0; i < N; i++) {
        ASSERT_LTE(fabs((double)c[i] - cos(pos[i])), 6e-8);
        ASSERT_LTE(fabs((double)sn[i] - sin(pos[i])), 6e-8);
    }
    PASS();
}

/* xpos in its center: lengths of 1, the angles of rope */
TEST xpos_is_rope_in_its_center(void)
{
    posenc_float x[H * D], y[H * D];
    double center = 30;
    ASSERTm(check_text, prepare(&one, "xpos:center=30", CONTEXT) && prepare(&two, "rope", CONTEXT));
    for (int key = 0; key < 2; key++) {
        fill_random(x, H * D);
        memcpy(y, x, sizeof x);
        turn_at(x, 1, H, &center, 1, &one, key);
        turn_at(y, 1, H, &center, 1, &two, key);
        ASSERT_MEM_EQ(y, x, sizeof x);
    }
    PASS();
}

/* queries alone, by tau(p) >= 1, which does not fall */
TEST temperature_rises_and_starts_at_1(const char *text)
{
    posenc_float tau[200], x[H * D], y[H * D];
    double pos[200];
    ASSERTm(check_text, prepare(&one, text, CONTEXT));
    posenc_positions_range(pos, 200, 0.0);
    posenc_spec_temperature(tau, &one.spec, pos, 200);
    ASSERT_EQ(1.0, (double)tau[0]);
    for (int t = 1; t < 200; t++) ASSERT(tau[t] >= tau[t - 1]);
    ASSERT_GT((double)tau[199], 1.1);
    fill_random(x, H * D);
    for (int n = 0; n < H * D; n++) y[n] = x[n] * tau[100];
    posenc_temper(posenc_heads_bthd(x, 1, 1, H, D), tau + 100, 0);
    ASSERT_MEM_EQ(y, x, sizeof x);
    PASS();
}

/* Llama 4, Ministral 3, smooth and log-n, by hand at the edges of their steps */
TEST temperatures_match_the_formulas(void)
{
    static const struct { const char *text; double p, want; } known[] = {
        { "qtemp:original=8192", 8190, 1.0 },
        { "qtemp:original=8192", 8191, 1.0693147180559945 },            /* 1 + ln(2)/10           */
        { "qtemp:form=ministral,original=8192", 8191, 1.0 },
        { "qtemp:form=ministral,original=8192", 8192, 1.0693147180559945 },
        { "qtemp:form=smooth,original=8,rate=0.5", 6, 1.0 },
        { "qtemp:form=smooth,original=8,rate=0.5", 15, 1.3465735902799727 },   /* 1 + ln(2)/2     */
        { "qtemp:form=logn,original=8", 7, 1.0 },
        { "qtemp:form=logn,original=8", 63, 2.0 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        posenc_float tau;
        ASSERTm(check_text, prepare(&one, known[i].text, CONTEXT));
        posenc_spec_temperature(&tau, &one.spec, &known[i].p, 1);
        ASSERTm(known[i].text, fabs((double)tau - known[i].want) <= 2e-7);
    }
    PASS();
}

/* temperatures for each sample of a batch */
TEST every_sample_may_have_temperatures_of_its_own(void)
{
    enum { B = 2, N = B * 3 * H * D };
    posenc_float x[N], y[N], tau[B * 3] = { 1, 2, 3, 4, 5, 6 };
    fill_random(x, N);
    for (int n = 0; n < N; n++) y[n] = x[n] * tau[n / (H * D)];
    posenc_temper(posenc_heads_bthd(x, B, 3, H, D), tau, 3);
    ASSERT_MEM_EQ(y, x, sizeof x);
    PASS();
}

/* ---- one layout for the other ---------------------------------------------------------------- */

/* Projections of a model in one layout, turned into the other: the scores of every head with every
   key head it reads stay. dim, offset: the part of the head that turns.                          */
TEST converted_weights_give_the_same_scores(int dim, int offset, int Hk, int to)
{
    enum { W = 20 };
    static posenc_float wq[H * D * W], wk[H * D * W], cq[H * D * W], ck[H * D * W], back[H * D * W];
    posenc_float x[T * W], q[T * H * D], k[T * H * D];
    double before[H * T * T], pos[T];
    const char *name[] = { "interleaved", "half" };
    int from_half = to == POSENC_INTERLEAVED;
    fill_random(wq, H * D * W); fill_random(wk, H * D * W); fill_random(x, T * W);
    posenc_positions_range(pos, T, 3.0);
    posenc_layout_convert(cq, wq, H, D, W, dim, offset, to);
    posenc_layout_convert(ck, wk, Hk, D, W, dim, offset, to);
    for (int pass = 0; pass < 2; pass++) {
        char text[80];
        double worst = 0.0;
        snprintf(text, sizeof text, "rope:layout=%s,dim=%d,offset=%d",
                 name[pass ? !from_half : from_half],
                 dim, offset);
        ASSERTm(check_text, prepare(&one, text, CONTEXT));
        posenc_linear_forward(q, x, pass ? cq : wq, NULL, T, W, H * D);
        posenc_linear_forward(k, x, pass ? ck : wk, NULL, T, W, Hk * D);
        turn_at(q, T, H, pos, 1, &one, 0);
        turn_at(k, T, Hk, pos, 1, &one, 1);
        for (int h = 0; h < H; h++) for (int i = 0; i < T; i++) for (int j = 0; j < T; j++) {
            double now = weighted_sum(q + (i * H + h) * D, k + (j * Hk + h * Hk / H) * D, D);
            if (pass) worst = fmax(worst, fabs(now - before[(h * T + i) * T + j]));
            else before[(h * T + i) * T + j] = now;
        }
        ASSERT_LTE(worst, 5e-5);                                        /* of scores around 20    */
    }
    ASSERT_GT(max_abs_diff(wq, cq, H * D * W), 0.1);                    /* something was moved    */
    posenc_layout_convert(back, cq, H, D, W, dim, offset,
                          to == POSENC_HALF ? POSENC_INTERLEAVED : POSENC_HALF);
    ASSERT_MEM_EQ(wq, back, sizeof wq);
    for (int r = 0; r < H * D; r++)                                     /* rows that do not turn  */
        if (r % D < offset || r % D >= offset + dim)
            ASSERT_MEM_EQ((wq + r * W), (cq + r * W), W * sizeof *wq);
    PASS();
}

/* of a bias, rows of one number each: evens first, odds after, within the range */
TEST conversion_of_a_bias_is_known(void)
{
    static const posenc_float bias[] = { 0, 1, 2, 3, 4, 5, 6, 7,   10, 11, 12, 13, 14, 15, 16, 17 };
    static const posenc_float want[] = { 0, 1, 3, 5, 2, 4, 6, 7,   10, 11, 13, 15, 12, 14, 16, 17 };
    posenc_float got[16], back[16];
    posenc_layout_convert(got, bias, 2, 8, 1, 6, 1, POSENC_HALF);
    ASSERT_MEM_EQ(want, got, sizeof want);
    posenc_layout_convert(back, got, 2, 8, 1, 6, 1, POSENC_INTERLEAVED);
    ASSERT_MEM_EQ(bias, back, sizeof bias);
    PASS();
}

/* ---- cached keys turned again ---------------------------------------------------------------- */

/* keys turned where `before` put them, then by the turn between, stand where `now` puts new ones */
TEST keys_turned_again_equal_fresh_ones(const char *before, double length, double from,
                                        const char *now, double new_length, double to)
{
    posenc_float x[T * H * D], y[T * H * D], cosine[T * PAIRS], sine[T * PAIRS];
    double pos[T], new_pos[T], at[T * POSENC_AXES], new_at[T * POSENC_AXES], largest = 1.0;
    posenc_turns between;
    ASSERTm(check_text, prepare(&one, before, length) && prepare(&two, now, new_length));
    if (strcmp(before, now))
        for (int i = 0; i < PAIRS; i++) two.scale[i] = (posenc_float)(0.9 - 0.07 * i);
    posenc_positions_range(pos, T, from);
    posenc_positions_range(new_pos, T, to);
    for (int t = 0; t < T; t += 3) new_pos[t] += 2;                     /* and not all alike      */
    fill_random(x, T * H * D);
    memcpy(y, x, sizeof x);
    turn_at(x, T, H, pos, 1, &one, 1);
    turn_at(y, T, H, new_pos, 1, &two, 1);
    ASSERT_GT(max_abs_diff(x, y, T * H * D), 1e-2);
    posenc_spec_coordinates(at, &one.spec, pos, 1, T);
    posenc_spec_coordinates(new_at, &two.spec, new_pos, 1, T);
    between = turns_for(&two, cosine, sine, T);
    posenc_turns_between(between, new_at, &two.by[1], at, &one.by[1]);
    posenc_turn(posenc_heads_bthd(x, 1, T, H, D), between);
    for (int n = 0; n < T * H * D; n++) if (fabs((double)y[n]) > largest) largest = fabs((double)y[n]);
    ASSERT_CLOSE(y, x, T * H * D, 2e-6 * largest);
    PASS();
}

/* ---- exact angles ---------------------------------------------------------------------------- */

/* The bar: base 10000, heads of 128, every pair within 1e-6 of the true cosine at a million tokens.
   Single-precision angles are off by 1e-2 there.                                                 */
TEST cosines_are_right_a_million_tokens_on(double p)
{
    enum { WIDE = 128, HALF = WIDE / 2 };
    static const posenc_shape wide = { WIDE, 1, WIDE, 2048, 1 };
    posenc_float cosine[HALF], sine[HALF], head[WIDE];
    double room[(POSENC_AXES + 1) * HALF], worst = 0.0, worst_turned = 0.0;
    posenc_spec s;
    posenc_rotation by;
    posenc_turns turns = { cosine, sine, 1, HALF, 0, 0, POSENC_HALF };
    memset(&s, 0, sizeof s);
    s.encoding = POSENC_ROPE;
    ASSERT_EQ(POSENC_OK, posenc_spec_complete(&s, &wide, NULL));
    by = posenc_spec_rotation(room, &s, 0, p + 1);
    posenc_turns_fill(turns, &p, &by);
    for (int i = 0; i < HALF; i++) { head[i] = 1; head[i + HALF] = 0; }
    posenc_rope_forward(posenc_heads_bthd(head, 1, 1, 1, WIDE), &p, POSENC_HALF, 10000.0);
    for (int i = 0; i < HALF; i++) {
        long double angle = (long double)p * powl(10000.0L, -2.0L * i / WIDE);
        double right = (double)cosl(angle), right_sine = (double)sinl(angle);
        double off = fmax(fabs((double)cosine[i] - right), fabs((double)sine[i] - right_sine));
        double off_turned = fmax(fabs((double)head[i] - right),
                                 fabs((double)head[i + HALF] - right_sine));
        if (!(off <= worst)) worst = off;
        if (!(off_turned <= worst_turned)) worst_turned = off_turned;
    }
    ASSERT_LTE(worst, 1e-6);
    ASSERT_LTE(worst_turned, 1e-6);
    PASS();
}

/* ---- a key/value cache ----------------------------------------------------------------------- */

enum { SCRATCH = 65536 };

/* One layer of attention over tokens 0 .. T-1 with the encoding at all of its places. */
static struct layer {
    posenc_spec spec;
    posenc_part part[POSENC_PARTS];
    posenc_float *w[POSENC_PARTS];
    int parts, Hk, axes, where;
    posenc_float wq[C * C], wk[C * C], wv[C * C];
    posenc_float bias[H * CONTEXT];
    turner turner;
} layer;

/* rows first .. first+n-1 of the input, position added, projected, turned */
static void project(posenc_float *q, posenc_float *k, posenc_float *v, const posenc_float *x,
                    int first, int n)
{
    static posenc_float in[T * C], scratch[SCRATCH];
    double pos[T], at[T * POSENC_AXES];
    posenc_positions_range(pos, n, first);
    posenc_spec_coordinates(at, &layer.spec, pos, 1, n);
    memcpy(in, x + first * C, (size_t)n * C * sizeof *in);
    if (layer.where == POSENC_EMBEDDING)
        posenc_spec_rows_forward(in, scratch, &layer.spec, layer.w, at, 1, n, C);
    posenc_linear_forward(q, in, layer.wq, NULL, n, C, C);
    posenc_linear_forward(k, in, layer.wk, NULL, n, C, layer.Hk * D);
    posenc_linear_forward(v, in, layer.wv, NULL, n, C, layer.Hk * D);
    if (layer.where != POSENC_QUERY_KEY || layer.spec.encoding == POSENC_QTEMP) return;
    turn_at(q, n, H, pos, 1, &layer.turner, 0);
    turn_at(k, n, layer.Hk, pos, 1, &layer.turner, 1);
}

/* queries at first .. first+n-1 see all keys up to their own place */
static void attend(posenc_float *out, posenc_float *q, posenc_float *k, posenc_float *v, int first,
                   int n)
{
    static posenc_float scratch[SCRATCH], lse[H * T];
    posenc_float tau[T];
    posenc_attention how;
    int q_at[T], k_at[T], keys = first + n;
    double pos[T], at[T * POSENC_AXES];
    posenc_positions_range(pos, keys, 0.0);
    posenc_spec_coordinates(at, &layer.spec, pos, 1, keys);
    memset(&how, 0, sizeof how);
    how.causal = 1;
    if (layer.where == POSENC_SCORE) {
        for (int j = 0; j < keys; j++)
            k_at[j] = posenc_spec_place(&layer.spec, at + j * layer.axes);
        for (int i = 0; i < n; i++) q_at[i] = k_at[first + i];
        how.bias = layer.bias;
        how.past = how.future = CONTEXT / 2 - 1;
        how.q_at = q_at;
        how.k_at = k_at;
    }
    if (layer.spec.encoding == POSENC_QTEMP) {
        posenc_spec_temperature(tau, &layer.spec, pos + first, n);
        how.q_scale = tau;
    }
    if (posenc_attention_scratch(1, n, keys, H, D, &how) > SCRATCH) abort();
    posenc_attention_forward(posenc_heads_bthd(out, 1, n, H, D), lse,
                             posenc_heads_bthd(q, 1, n, H, D),
                             posenc_heads_bthd(k, 1, keys, layer.Hk, D),
                             posenc_heads_bthd(v, 1, keys, layer.Hk, D), &how, scratch);
}

static int layer_begin(const char *text, int Hk)
{
    static posenc_float memory[65536];
    posenc_float *free_from = memory;
    memset(&layer, 0, sizeof layer);
    if (!prepare(&layer.turner, text, CONTEXT)) return 0;
    layer.spec = layer.turner.spec;
    layer.axes = layer.turner.axes;
    layer.where = posenc_encoding_get(layer.spec.encoding)->where;
    layer.Hk = Hk;
    layer.parts = posenc_spec_parts(layer.part, &layer.spec, &shape);
    for (int i = 0; i < layer.parts; i++) {
        size_t n = (size_t)layer.part[i].rows * (layer.part[i].columns ? layer.part[i].columns : 1);
        layer.w[i] = free_from;
        fill_random(layer.w[i], n);
        free_from += n;
        if (free_from > memory + 65536) {
            snprintf(check_text, sizeof check_text, "%s learns more than this test has room for",
                     text);
            return 0;
        }
    }
    fill_random(layer.wq, C * C); fill_random(layer.wk, C * C); fill_random(layer.wv, C * C);
    for (int n = 0; n < C * C; n++) layer.wq[n] /= 16;                  /* scores of a few units  */
    if (layer.where == POSENC_SCORE)
        posenc_spec_bias_forward(layer.bias, &layer.spec, layer.w, H, CONTEXT / 2 - 1,
                                 CONTEXT / 2 - 1);
    return 1;
}

/* Token by token, each with its own place, its keys and values kept: the rows of all at once. And
   the encoding is alive: with the tokens in another order, the last one gets something else.     */
TEST cached_decoding_equals_full_decoding(const char *text, int Hk)
{
    static posenc_float x[T * C], q[T * C], k[T * C], v[T * C];
    static posenc_float all[T * C], step[T * C], mixed[T * C];
    double largest = 1;
    int where;
    ASSERTm(check_text, layer_begin(text, Hk));
    where = layer.where;
    if (where == POSENC_EMBEDDING)
        ASSERT_LTE(posenc_spec_rows_scratch(&layer.spec, T, C), (size_t)SCRATCH);
    fill_random(x, T * C);
    for (int n = 0; n < T * C; n++) all[n] = step[n] = mixed[n] = (posenc_float)NAN;
    project(q, k, v, x, 0, T);
    attend(all, q, k, v, 0, T);
    for (int n = 0; n < T * C; n++) q[n] = k[n] = v[n] = (posenc_float)NAN;
    for (int t = 0; t < T; t++) {
        project(q, k + t * Hk * D, v + t * Hk * D, x, t, 1);
        attend(step + t * C, q, k, v, t, 1);
    }
    for (int n = 0; n < T * C; n++) if (fabs((double)all[n]) > largest) largest = fabs((double)all[n]);
    ASSERT_NORM_CLOSE(all, step, T * C, 1e-6);
    ASSERT_CLOSE(all, step, T * C, 1e-5 * largest);       /* one query sums in another order than many */

    for (int t = 0; t < T - 1; t++) memcpy(mixed + t * C, x + (T - 2 - t) * C, C * sizeof *x);
    memcpy(mixed + (T - 1) * C, x + (T - 1) * C, C * sizeof *x);
    memcpy(x, mixed, sizeof x);
    project(q, k, v, x, 0, T);
    attend(mixed, q, k, v, 0, T);
    if (where == POSENC_NOWHERE || layer.spec.encoding == POSENC_QTEMP)
        ASSERT_LTE(max_abs_diff(all + (T - 1) * C, mixed + (T - 1) * C, C), 1e-5);
    else ASSERT_GT(max_abs_diff(all + (T - 1) * C, mixed + (T - 1) * C, C), 1e-4);
    PASS();
}

/* ---- biases that are the same in other words ------------------------------------------------- */

/* +m p_j in every row: what is the same for all keys of a query is nothing to a softmax. */
static void rising(void *user, posenc_float *row, int b, int h, int i, int j0, int n)
{
    const posenc_float *slope = (const posenc_float *)user;
    (void)b; (void)i;
    for (int j = 0; j < n; j++) row[j] += slope[h] * (posenc_float)(j0 + j);
}

TEST alibi_is_a_rising_line_over_the_keys(int heads)
{
    static posenc_float q[T * 6 * D], k[T * 6 * D], v[T * 6 * D], lse[6 * T];
    static posenc_float a[T * 6 * D], b[T * 6 * D];
    static posenc_float scratch[65536], bias[6 * T], slope[6];
    posenc_attention how;
    posenc_row_bias row = { rising, NULL, slope };
    posenc_shape six = shape;
    size_t n = (size_t)T * heads * D;
    posenc_spec s;
    six.H = heads;
    memset(&s, 0, sizeof s);
    s.encoding = POSENC_ALIBI;
    ASSERT_EQ(POSENC_OK, posenc_spec_complete(&s, &six, NULL));
    memset(bias, 0, sizeof bias);
    posenc_spec_bias_forward(bias, &s, NULL, heads, T - 1, 0);
    posenc_alibi_slopes(slope, heads, 8.0);
    fill_random(q, n); fill_random(k, n); fill_random(v, n);
    memset(&how, 0, sizeof how);
    how.causal = 1;
    for (int pass = 0; pass < 2; pass++) {
        how.bias = pass ? NULL : bias;
        how.past = pass ? 0 : T - 1;
        how.row_bias = pass ? &row : NULL;
        ASSERT_LTE(posenc_attention_scratch(1, T, T, heads, D, &how), (size_t)65536);
        posenc_attention_forward(posenc_heads_bthd(pass ? b : a, 1, T, heads, D), lse,
                                 posenc_heads_bthd(q, 1, T, heads, D),
                                 posenc_heads_bthd(k, 1, T, heads, D),
                                 posenc_heads_bthd(v, 1, T, heads, D), &how, scratch);
    }
    ASSERT_CLOSE(a, b, n, 2e-6);
    PASS();
}

/* With a bucket for each distance on either side t5's table is the clipped one in another order */
TEST t5_with_many_buckets_is_relative(void)
{
    enum { M = 8, BUCKETS = 4 * M, REACH = M - 1, ENTRIES = 2 * REACH + 1 };
    posenc_float t5[BUCKETS * H], clipped[(2 * REACH + 1) * H], a[H * ENTRIES], b[H * ENTRIES];
    posenc_float *w[2] = { t5, clipped };
    posenc_spec s[2];
    int count = 0;
    ASSERT_EQ(POSENC_OK, posenc_spec_parse(s, &count, 2, "t5:buckets=32,distance=64,bidirectional=1"
                                           "+relative:distance=7", NULL));
    ASSERT_EQ(2, count);
    for (int i = 0; i < 2; i++) ASSERT_EQ(POSENC_OK, posenc_spec_complete(&s[i], &shape, NULL));
    fill_random(t5, BUCKETS * H);
    for (int d = -REACH; d <= REACH; d++)                      /* key after the query: upper half */
        for (int h = 0; h < H; h++)
            clipped[(-d + REACH) * H + h] = t5[(d >= 0 ? d : BUCKETS / 2 - d) * H + h];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    posenc_spec_bias_forward(a, &s[0], &w[0], H, REACH, REACH);
    posenc_spec_bias_forward(b, &s[1], &w[1], H, REACH, REACH);
    ASSERT_MEM_EQ(a, b, sizeof a);
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(turns_keep)
{
    static const double centers[] = { 1, 31.5, 500, -100 };
    static const char *forms[] = { "qtemp:original=8", "qtemp:form=ministral,original=8",
                                   "qtemp:form=smooth,original=8", "qtemp:form=logn,original=8" };
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++)
        if (posenc_encoding_get(i)->where == POSENC_QUERY_KEY) {
            label_test("%s", posenc_encoding_get(i)->name);
            RUN_TESTp(every_row_that_turns_is_in_the_list, i);
        }
    for (int i = 0; i < TURNING; i++) {
        const char *text = turning[i];
        label_test("%s", text); RUN_TESTp(lengths_are_kept, text);
        label_test("%s", text); RUN_TESTp(scores_see_distances_alone, text);
        if (!strncmp(text, "xpos", 4)) continue;                        /* has lengths everywhere */
        if (strstr(text, "yarn") || strstr(text, "longrope")) continue;
        label_test("%s", text); RUN_TESTp(nothing_turns_at_zero, text);
    }
    for (int i = 0; i < 4; i++) {
        label_test("%g", centers[i]);
        RUN_TESTp(xpos_scores_do_not_depend_on_the_center, centers[i]);
        label_test("%s", forms[i]);   RUN_TESTp(temperature_rises_and_starts_at_1, forms[i]);
    }
    label_test("c");      RUN_TESTp(sines_and_cosines_are_right_to_the_last_bits, "c");
    label_test("avx2");   RUN_TESTp(sines_and_cosines_are_right_to_the_last_bits, "avx2");
    label_test("avx512"); RUN_TESTp(sines_and_cosines_are_right_to_the_last_bits, "avx512");
    RUN_TEST(xpos_is_rope_in_its_center);
    RUN_TEST(xpos_fades_with_the_distance);
    RUN_TEST(temperatures_match_the_formulas);
    RUN_TEST(every_sample_may_have_temperatures_of_its_own);
}

SUITE(layouts)
{
    static const int part[][2] = { { D, 0 }, { 8, 0 }, { 8, 8 }, { 6, 3 } };
    RUN_TEST(conversion_of_a_bias_is_known);
    for (int i = 0; i < 4; i++)
        for (int Hk = 1; Hk <= H; Hk *= 2) {
            label_test("%d_from_%d_on_%d_key_heads_to_half", part[i][0], part[i][1], Hk);
            RUN_TESTp(converted_weights_give_the_same_scores, part[i][0], part[i][1], Hk,
                      POSENC_HALF);
            label_test("%d_from_%d_on_%d_key_heads_to_interleaved", part[i][0], part[i][1], Hk);
            RUN_TESTp(converted_weights_give_the_same_scores, part[i][0], part[i][1], Hk,
                      POSENC_INTERLEAVED);
        }
}

#define LISTS "short=1/1/1/2/2/2/3/3,long=1/2/3/4/5/6/7/8"
SUITE(turned_again)
{
    static const struct { const char *label, *before; double length, from; const char *now;
                          double new_length, to; } moves[] = {
        { "shift", "rope", 20, 20, "rope", 20, 5 },
        { "shift_far", "rope:layout=interleaved", 2e6, 1e6, "rope:layout=interleaved", 2e6, 17 },
        { "partial", "rope:dim=8,offset=4", 20, 20, "rope:dim=8,offset=4", 20, 3 },
        { "linear_to_yarn", "rope:scaling=linear,factor=4", 9, 9,
          "rope:scaling=yarn,factor=8,original=32", 9, 9 },
        { "yarn_to_plain", "rope:scaling=yarn,factor=8,original=32", 9, 9, "rope", 9, 4 },
        { "longrope_short_to_long", "rope:scaling=longrope,factor=4,original=16," LISTS, 16, 4,
          "rope:scaling=longrope,factor=4,original=16," LISTS, 17, 4 },
        { "longrope_long_to_short",
          "rope:scaling=longrope,factor=4,original=16,attention=1.3," LISTS, 40,
          4, "rope:scaling=longrope,factor=4,original=16," LISTS, 10, 0 },
        { "dynamic_longer", "rope:scaling=dynamic,factor=2,original=16", 20, 5,
          "rope:scaling=dynamic,factor=2,original=16", 50, 5 },
        { "another_base", "rope:base=500000", 30, 30, "rope:base=100", 30, 2 },
        { "lrope", "lrope", 20, 20, "lrope:base=10000.5", 20, 5 },
        { "rope2d", "rope2d:width=5", 20, 20, "rope2d:width=7", 20, 3 },
        { "mrope", "mrope:sections=2/3/3", 20, 20,
          "mrope:sections=4/2/2,order=interleaved", 20, 3 },
        { "dino", "rope_dino:width=9,height=7", 20, 20, "rope_dino:width=5,height=5", 20, 3 },
        { "xpos", "xpos:scale_base=40", 64, 40, "xpos:scale_base=40", 64, 11 },
        { "xpos_center", "xpos:scale_base=40", 64, 40, "xpos:scale_base=40,center=50", 64, 11 },
        { "xpos_to_rope", "xpos", 64, 40, "rope", 64, 40 },
        { "rope_to_xpos", "rope", 64, 40, "xpos", 64, 40 },
    };
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        label_test("%s", moves[i].label);
        RUN_TESTp(keys_turned_again_equal_fresh_ones, moves[i].before, moves[i].length,
                  moves[i].from, moves[i].now, moves[i].new_length, moves[i].to);
    }
}

SUITE(exact_angles)
{
    static const double far[] = { 1, 131071, 1048575, 16777217, 1073741825.0 };
    for (int i = 0; i < 5; i++) {
        label_test("%.0f", far[i]);
        RUN_TESTp(cosines_are_right_a_million_tokens_on, far[i]);
    }
}

SUITE(caches)
{
    static const char *more[] = {
        "qtemp:original=4", "qtemp:form=logn,original=3", "rope:dim=8,offset=8,layout=interleaved",
        "rope:scaling=dynamic,factor=2,original=4,length=40",
        "rope:scaling=yarn,factor=8,original=32",
        "xpos:scale_base=20,center=1", "mrope:sections=4/2/2,order=interleaved", "rope2d:width=3",
        "learned:offset=2", "sinusoidal:scaled=1", "continuous:depth=1,hidden=9",
        "sincos2d:width=3",
        "fourier:axes=2,width=4,height=3", "swin:width=7,height=10", "t5:buckets=8,distance=7",
        "relative:bidirectional=-1,distance=3", "kerple:form=power",
    };
    for (int Hk = H; Hk >= 1; Hk /= 2) {
        for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
            label_test("%s_%d_key_heads", posenc_encoding_get(i)->name, Hk);
            RUN_TESTp(cached_decoding_equals_full_decoding, posenc_encoding_get(i)->name, Hk);
        }
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            label_test("%s_%d_key_heads", more[i], Hk);
            RUN_TESTp(cached_decoding_equals_full_decoding, more[i], Hk);
        }
    }
    label_test("4_heads"); RUN_TESTp(alibi_is_a_rising_line_over_the_keys, 4);
    label_test("6_heads"); RUN_TESTp(alibi_is_a_rising_line_over_the_keys, 6);
    RUN_TEST(t5_with_many_buckets_is_relative);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(turns_keep);
    RUN_SUITE(layouts);
    RUN_SUITE(turned_again);
    RUN_SUITE(exact_angles);
    RUN_SUITE(caches);
    GREATEST_MAIN_END();
}
