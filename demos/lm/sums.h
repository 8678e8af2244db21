/* lm/sums.h - E5: taught to add numbers of 1 to 5 digits, asked for up to 10

   A text is   _ a + b = c E   with the digits of all three numbers in reverse, ones first, so that
   every digit of the sum is known when it is written. Only the answer is learned. Whoever wants to
   add has to find digits of the same place, and that is where encodings differ: abacus (McLeish et
   al. 2024) numbers the digits within each number, from a place that is drawn anew for each text of
   training, so that it has seen more places than any number had digits. */
#ifndef LM_SUMS_H
#define LM_SUMS_H

#include "lm/lab.h"

/* ---- the task: pure functions ---------------------------------------------------------------- */

enum { LM_SUM_BEGIN, LM_SUM_DIGIT, LM_SUM_PLUS = LM_SUM_DIGIT + 10, LM_SUM_EQUALS, LM_SUM_END,
       LM_SUM_VOCAB };
enum { LM_SUM_SHORT = 5, LM_SUM_LONG = 10, /* digits: trained up to, asked up to                  */
       LM_SUM_PLACES = LM_SUM_LONG + 2,    /* tokens of the longest answer, its end included      */
       LM_SUM_MOST = 3 * LM_SUM_LONG + 4,  /* tokens of the longest text                          */
       LM_SUM_HELD = 8 };                  /* one sum in so many is never trained on              */

/* a and b of n digits, ones first */
typedef struct lm_sum { int n, a[LM_SUM_LONG], b[LM_SUM_LONG]; } lm_sum;

/* kept for the test: a drawn eighth, so that no rule of arithmetic tells which */
static inline int lm_sum_is_held(const lm_sum *s)
{
    uint64_t index = (uint64_t)s->n;
    for (int i = s->n - 1; i >= 0; i--) index = 100 * index + (uint64_t)(10 * s->a[i] + s->b[i]);
    kit_random r = kit_random_open(0, KIT_RANDOM_ORDER, index);
    return kit_random_below(&r, LM_SUM_HELD) == 0;
}

/* Leading digits are not 0 (but of numbers of one digit). Longer sums than any in training are all
   new. */
static inline void lm_sum_draw(lm_sum *s, kit_random *r, int n, int held)
{
    s->n = n;
    do
        for (int i = 0; i < n; i++) {
            int low = i == n - 1 && n > 1;
            s->a[i] = low + kit_random_below(r, 10 - low);
            s->b[i] = low + kit_random_below(r, 10 - low);
        }
    while (n <= LM_SUM_SHORT && lm_sum_is_held(s) != held);
}

static inline int lm_sum_number(int *tokens, const int *digit, int n)
{
    for (int i = 0; i < n; i++) tokens[i] = LM_SUM_DIGIT + digit[i];
    return n;
}

/* digits of a + b, ones first: n or n + 1 of them */
static inline int lm_sum_answer(int *digit, const lm_sum *s)
{
    int carry = 0;
    for (int i = 0; i < s->n; i++) {
        int sum = s->a[i] + s->b[i] + carry;
        digit[i] = sum % 10;
        carry = sum / 10;
    }
    digit[s->n] = carry;
    return s->n + carry;
}

/* Writes the tokens of a text and the target of each; returns how many, 3 n + 4 at most. */
static inline int lm_sum_text(int *tokens, int *targets, const lm_sum *s)
{
    int answer[LM_SUM_LONG + 1], digits = lm_sum_answer(answer, s), t = 0, asked;
    tokens[t++] = LM_SUM_BEGIN;
    t += lm_sum_number(tokens + t, s->a, s->n);
    tokens[t++] = LM_SUM_PLUS;
    t += lm_sum_number(tokens + t, s->b, s->n);
    asked = t;                                             /* from the = on */
    tokens[t++] = LM_SUM_EQUALS;
    t += lm_sum_number(tokens + t, answer, digits);
    for (int i = 0; i < t; i++)
        targets[i] = i < asked ? POSENC_IGNORE : i + 1 < t ? tokens[i + 1] : LM_SUM_END;
    return t;
}

/* Abacus: digits are numbered within their number, from `first` on; all other tokens share row 0,
   which is no place. */
static inline void lm_abacus(double *positions, const int *tokens, int T, int first)
{
    for (int t = 0, place = 0; t < T; t++) {
        int digit = tokens[t] >= LM_SUM_DIGIT && tokens[t] < LM_SUM_DIGIT + 10;
        positions[t] = digit ? first + place : 0;
        place = digit ? place + 1 : 0;
    }
}

/* A row of training: sums of n and of 6 - n digits, so that every n from 1 to 5 is equally likely
   and rows are full. The two do not see each other and positions start again. offsets 0: places
   count from 0; k: abacus from one of the rows 1 .. k. */
enum { LM_SUM_ROW = 3 * (LM_SUM_SHORT + 1) + 8,
       LM_SUM_OFFSETS = 8 };               /* rows 1 .. 12 are trained, 1 .. 11 are asked for     */

static inline void lm_sum_places(double *positions, const int *tokens, int T, int first)
{
    if (first) lm_abacus(positions, tokens, T, first);
    else posenc_positions_range(positions, T, 0);
}

static inline void lm_sum_row(int *tokens, int *targets, int *segments, double *positions,
                              kit_random *r, int offsets)
{
    int n = 1 + kit_random_below(r, LM_SUM_SHORT), at = 0;
    for (int part = 0; part < 2; part++, n = LM_SUM_SHORT + 1 - n) {
        lm_sum s;
        lm_sum_draw(&s, r, n, 0);
        int T = lm_sum_text(tokens + at, targets + at, &s);
        int first = offsets ? 1 + kit_random_below(r, offsets) : 0;
        lm_sum_places(positions + at, tokens + at, T, first);
        for (int t = at; t < at + T; t++) segments[t] = part;
        at += T;
    }
    for (; at < LM_SUM_ROW; at++) {
        tokens[at] = LM_SUM_BEGIN;
        targets[at] = POSENC_IGNORE;
        segments[at] = 2;
        positions[at] = 0;
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct lm_sum_score {
    int asked, exact, seen[LM_SUM_PLACES], right[LM_SUM_PLACES];    /* by token of the answer */
} lm_sum_score;

/* logits (T, LM_SUM_VOCAB) and targets of one text; each token is judged behind the right ones */
static inline void lm_sum_count(lm_sum_score *score, const float *logits, const int *targets, int T)
{
    int place = 0, exact = 1;
    for (int t = 0; t < T; t++) {
        if (targets[t] == POSENC_IGNORE) continue;
        int right = lm_is_right(logits + (size_t)t * LM_SUM_VOCAB, LM_SUM_VOCAB, targets[t]);
        score->seen[place]++;
        score->right[place++] += right;
        exact = exact && right;
    }
    score->asked++;
    score->exact += exact;
}

/* ---- trials ---------------------------------------------------------------------------------- */

enum { LM_SUM_BATCH = 32, LM_SUM_ASKED = 128, LM_SUM_CONTEXT = LM_SUM_MOST,
       LM_SUM_QUICK = 1500, LM_SUM_FULL = 2500,            /* steps */
       LM_SUM_NUMBERS = LM_SUM_LONG * (1 + LM_SUM_PLACES) };
enum { LM_SUM_LEARNED, LM_SUM_SINUSOIDAL, LM_SUM_ROPE, LM_SUM_ALIBI, LM_SUM_T5, LM_SUM_NONE,
       LM_SUM_ABACUS, LM_SUM_WAYS };

/* init: rows start as large as tokens do with the factor sqrt(d) */
static const struct { const char *name, *spec; int offsets, quick; } lm_sum_way[LM_SUM_WAYS] = {
    { "learned", "learned:init=0.2", 0, 1 }, { "sinusoidal", "sinusoidal", 0, 0 },
    { "rope", "rope", 0, 1 },
    { "alibi", "alibi", 0, 0 },     { "t5", "t5", 0, 0 },                 { "none", "none", 0, 1 },
    { "abacus", "learned:rows=16,init=0.2", LM_SUM_OFFSETS, 1 }
};

typedef struct lm__sums_feed {
    int offsets;
    uint64_t seed;
    int tokens[LM_SUM_BATCH * LM_SUM_MOST], targets[LM_SUM_BATCH * LM_SUM_MOST];
    int segments[LM_SUM_BATCH * LM_SUM_MOST], length[LM_SUM_BATCH];
    double positions[LM_SUM_BATCH * LM_SUM_MOST];
    float logits[LM_SUM_BATCH * LM_SUM_MOST * LM_SUM_VOCAB];
} lm__sums_feed;

static inline void lm__sums_fill(void *user, posenc_batch *batch, int step)
{
    lm__sums_feed *f = (lm__sums_feed *)user;
    for (int b = 0; b < LM_SUM_BATCH; b++) {
        uint64_t index = (uint64_t)step * LM_SUM_BATCH + (uint64_t)b;
        kit_random r = kit_random_open(f->seed, KIT_RANDOM_TRAIN, index);
        int at = b * LM_SUM_ROW;
        lm_sum_row(f->tokens + at, f->targets + at, f->segments + at, f->positions + at, &r,
                   f->offsets);
    }
    batch->B = LM_SUM_BATCH;
    batch->T = LM_SUM_ROW;
    batch->tokens = f->tokens;
    batch->targets = f->targets;
    batch->segments = f->segments;
    batch->positions = f->positions;
}

/* Texts first .. first + 63 of n digits, from those never trained on. Rows are as long as the
   longest text can be; what stands behind a text is not seen by it. */
static inline void lm__sums_ask(lm__sums_feed *f, posenc_batch *batch, int n, int first)
{
    int T = 3 * n + 4;
    for (int b = 0; b < LM_SUM_BATCH; b++) {
        uint64_t index = (uint64_t)(n * LM_SUM_ASKED + first + b);
        kit_random r = kit_random_open(f->seed, KIT_RANDOM_TEST, index);
        lm_sum s;
        lm_sum_draw(&s, &r, n, 1);
        int at = b * T;
        int end = at + (f->length[b] = lm_sum_text(f->tokens + at, f->targets + at, &s));
        for (; end < at + T; end++) {
            f->tokens[end] = LM_SUM_BEGIN;
            f->targets[end] = POSENC_IGNORE;
        }
        lm_sum_places(f->positions + at, f->tokens + at, T, f->offsets != 0);
    }
    memset(batch, 0, sizeof *batch);
    batch->B = LM_SUM_BATCH;
    batch->T = T;
    batch->tokens = f->tokens;
    batch->positions = f->positions;
}

/* the share of exact answers of n digits, and of right tokens by place */
static inline int lm__sums_measure_one(double *exact, double *place, kit_lesson *l, int n,
                                       kit_error *why)
{
    lm__sums_feed *f = (lm__sums_feed *)l->feed;
    lm_sum_score score;
    memset(&score, 0, sizeof score);
    for (int first = 0; first < LM_SUM_ASKED; first += LM_SUM_BATCH) {
        posenc_batch batch;
        lm__sums_ask(f, &batch, n, first);
        if (!lm_ask(l->how.model, &batch, f->logits, why)) return 0;
        for (int b = 0; b < batch.B; b++)
            lm_sum_count(&score, f->logits + (size_t)(b * batch.T) * LM_SUM_VOCAB,
                         f->targets + b * batch.T, f->length[b]);
    }
    *exact = (double)score.exact / score.asked;
    for (int i = 0; i < LM_SUM_PLACES; i++)
        place[i] = score.seen[i] ? (double)score.right[i] / score.seen[i] : NAN;
    return 1;
}

static inline int lm__sums_measure(kit_lesson *l, kit_error *why)
{
    double *place = l->t.value + LM_SUM_LONG;
    for (int n = 1; n <= LM_SUM_LONG && !kit_stopped(); n++, place += LM_SUM_PLACES)
        if (!lm__sums_measure_one(&l->t.value[n - 1], place, l, n, why)) return 0;
    return 1;
}

/* ways of this run are counted through; -1 where one has none */
static inline int lm__sums_asked(const lm_setup *s, int way)
{
    return !s->quick || lm_sum_way[way].quick;
}

static inline int lm__sums_way(const lm_setup *s, int i)
{
    int way = 0;
    for (; way < LM_SUM_WAYS; way++)
        if (lm__sums_asked(s, way) && i-- == 0) break;
    return way;
}

static inline int lm__sums_ways(const lm_setup *s)
{
    int n = 0;
    for (int way = 0; way < LM_SUM_WAYS; way++) n += lm__sums_asked(s, way);
    return n;
}

static inline int lm__sums_trials(const lm_setup *s) { return lm__sums_ways(s) * s->seeds; }

static inline void lm__sums_make(kit_lesson *l, const lm_setup *s, int trial)
{
    int way = lm__sums_way(s, trial / s->seeds);
    lm__sums_feed *f = (lm__sums_feed *)kit_new(1, sizeof *f);
    l->feed = f;
    f->offsets = lm_sum_way[way].offsets;
    f->seed = s->seed + (uint64_t)(trial % s->seeds);
    lm_nano(&l->config, lm_sum_way[way].spec, f->seed);
    l->config.vocab = LM_SUM_VOCAB;
    l->config.context = LM_SUM_CONTEXT;
    l->config.batch = LM_SUM_BATCH;
    l->config.layers = 4;
    l->config.channels = 128;
    l->config.heads = 4;
    l->config.hidden = 256;
    lm_plan(&l->how, 2e-3, lm_steps_of(s, LM_SUM_QUICK, LM_SUM_FULL));
    l->how.fill = lm__sums_fill;
    l->measure = lm__sums_measure;
    snprintf(l->t.name, sizeof l->t.name, "sums-%s-s%" PRIu64, lm_sum_way[way].name, f->seed);
    kit_put(&l->line, "lm results sums: --pe %s --offsets %d --seed %" PRIu64 " --steps %d",
            lm_sum_way[way].spec, f->offsets, f->seed, l->how.steps);
}

static inline void lm__sums_print(const lm_setup *s);
static inline int lm__sums_report(kit_report *p, const lm_setup *s, kit_error *why);

static const lm_study lm_sums = {
    "sums", "E5: addition, longer than ever seen", LM_SUMS, LM_SUM_NUMBERS, lm__sums_trials,
    lm__sums_make, lm__sums_print, lm__sums_report
};

/* ---- figures --------------------------------------------------------------------------------- */

/* number i of a way with seed k; NaN where the way was not run */
static inline double lm__sums_number(const lm_setup *s, int way, int k, int i)
{
    int row = 0;
    if (!lm__sums_asked(s, way)) return NAN;
    for (int w = 0; w < way; w++) row += lm__sums_asked(s, w);
    return lm_numbers(s, &lm_sums, row * s->seeds + k)[i];
}

/* exact match of from .. to digits, over the seeds */
static inline kit_spread lm__sums_exact(const lm_setup *s, int way, int from, int to)
{
    double v[LM_SEEDS] = { 0 };
    for (int k = 0; k < s->seeds; k++)
        for (int n = from; n <= to; n++)
            v[k] += lm__sums_number(s, way, k, n - 1) / (to - from + 1);
    return kit_spread_of(v, s->seeds);
}

static inline double lm__sums_beyond(const lm_setup *s, int way)
{
    return lm__sums_exact(s, way, LM_SUM_SHORT + 1, LM_SUM_LONG).mean;
}

static inline double lm__sums_place(const lm_setup *s, int way, int n, int place)
{
    double v[LM_SEEDS] = { 0 };
    int i = LM_SUM_LONG + (n - 1) * LM_SUM_PLACES + place;
    for (int k = 0; k < s->seeds; k++) v[k] = lm__sums_number(s, way, k, i);
    return kit_spread_of(v, s->seeds).mean;
}

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { LM_SUM_CLAIMS = 5 };

/* What fails within the length says nothing about what is beyond it. NaN stays in, to be seen. */
static inline int lm__sums_solved(const lm_setup *s, int way)
{
    return lm__sums_asked(s, way) && !(lm__sums_exact(s, way, 1, LM_SUM_SHORT).mean < 0.5);
}

static inline kit_claim lm__sums_claim_within(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Every encoding adds numbers of 1 to 5 digits that it was not "
                                 "trained on (exact match at least 0.9).",
                                 "87 of 100 without an encoding, 100 with abacus, in length (a "
                                 "replication with 10.6M parameters)");
    double least = HUGE_VAL;
    int who = 0;
    for (int way = 0; way < LM_SUM_WAYS; way++) {
        double share = lm__sums_exact(s, way, 1, LM_SUM_SHORT).mean;
        if (!lm__sums_asked(s, way)) continue;
        if (!(share >= least)) who = way;
        least = lm_smaller(least, share);
    }
    c.verdict = kit_judge_size(1, least >= 0.9, 0);
    kit_claim_ours(&c, "the least: %s %.3f", lm_sum_way[who].name, least);
    kit_claim_reason(&c, "Not trained long enough for all of them: what is lost within the length "
                         "says nothing about what happens beyond it.");
    return c;
}

static inline kit_claim lm__sums_claim_cliff(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Whoever counts tokens fails two digits past the training: at 7 "
                                 "digits each encoding but abacus that adds within its length is "
                                 "right at most 1 time in 10.",
                                 "0 one or two digits past, with every encoding that counts tokens "
                                 "(three replications)");
    double most = -1, most_far = -1;
    int who = 0, solved = 0;
    for (int way = 0; way < LM_SUM_ABACUS; way++) {
        double share = lm__sums_exact(s, way, 7, 7).mean;
        if (!lm__sums_solved(s, way)) continue;
        solved++;
        if (!(share <= most)) who = way;
        most = lm_larger(most, share);
        most_far = lm_larger(most_far, lm__sums_exact(s, way, 10, 10).mean);
    }
    c.verdict = kit_judge_size(solved > 0, most <= 0.1, most_far <= 0.1);
    kit_claim_ours(&c, "at 7 digits the most is %s %.3f; at 10 digits the most is %.3f",
                   lm_sum_way[who].name, most, most_far);
    return c;
}

static inline kit_claim lm__sums_claim_abacus(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Abacus with a drawn offset goes further: on 6 to 10 digits at "
                                 "least 0.1 more exact answers than any other.",
                                 "20 to 100 digits: 0.93 (McLeish et al. 2024); small models 0.31, "
                                 "or 0 (replications)");
    double abacus = lm__sums_beyond(s, LM_SUM_ABACUS), other = 0;
    for (int way = 0; way < LM_SUM_ABACUS; way++)
        if (lm__sums_asked(s, way)) other = lm_larger(other, lm__sums_beyond(s, way));
    c.verdict =
        kit_judge_size(lm__sums_solved(s, LM_SUM_ABACUS), abacus >= other + 0.1, abacus > other);
    kit_claim_ours(&c, "abacus %.3f, the best other %.3f", abacus, other);
    kit_claim_reason(&c, "Numbers longer than any in training are a new thing even where each of "
                         "their places is known: the published models saw numbers of 1 to 20 "
                         "digits, these of 1 to 5, from which less can be learned about length.");
    return c;
}

static inline kit_claim lm__sums_claim_seeds(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Seeds decide: the best run of abacus on 6 to 10 digits is at "
                                 "least 0.2 better than the mean.",
                                 "mean 0.31, best 0.93 (replication, 3.4M parameters)");
    kit_spread v = lm__sums_exact(s, LM_SUM_ABACUS, LM_SUM_SHORT + 1, LM_SUM_LONG);
    c.verdict =
        kit_judge_size(s->seeds > 1 && lm__sums_solved(s, LM_SUM_ABACUS), v.high - v.mean >= 0.2,
                         v.high - v.mean >= 0.05);
    kit_claim_ours(&c, "mean %.3f, lowest %.3f, best %.3f", v.mean, v.low, v.high);
    return c;
}

static inline kit_claim lm__sums_claim_places(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Where abacus errs in sums of 7 digits, it errs at the far end: "
                                 "places 1 to 5 are right more often than those from 6 on.",
                                 "each place by itself is known, the end of the number is not");
    double near = 0, far = 0;
    for (int i = 0; i < LM_SUM_SHORT; i++)
        near += lm__sums_place(s, LM_SUM_ABACUS, 7, i) / LM_SUM_SHORT;
    for (int i = LM_SUM_SHORT; i < 8; i++)
        far += lm__sums_place(s, LM_SUM_ABACUS, 7, i) / (8 - LM_SUM_SHORT);
    c.verdict =
        kit_judge_size(lm__sums_solved(s, LM_SUM_ABACUS) && (near < 1 || far < 1), near > far, 0);
    kit_claim_ours(&c, "places 1 to 5: %.3f, from 6 on: %.3f", near, far);
    return c;
}

static inline int lm__sums_claims(kit_claim c[LM_SUM_CLAIMS], const lm_setup *s)
{
    int n = 0;
    c[n++] = lm__sums_claim_within(s);
    c[n++] = lm__sums_claim_cliff(s);
    c[n++] = lm__sums_claim_abacus(s);
    c[n++] = lm__sums_claim_places(s);
    c[n++] = lm__sums_claim_seeds(s);
    return n;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static inline kit_cells lm__sums_cells(const lm_setup *s)
{
    static const int digits[] = { 6, 7, 8, 10 };
    kit_cells c = kit_cells_new(1 + lm__sums_ways(s), 8);
    static const char *const head[8] = { "encoding", "1 to 5 digits", "6", "7", "8", "10",
                                         "6 to 10", "best seed, 6 to 10" };
    for (int i = 0; i < 8; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int row = 1; row < c.rows; row++) {
        int way = lm__sums_way(s, row - 1);
        kit_spread beyond = lm__sums_exact(s, way, LM_SUM_SHORT + 1, LM_SUM_LONG);
        kit_cells_put(&c, row, 0, "%s", lm_sum_way[way].name);
        lm_put_spread(&c, row, 1, lm__sums_exact(s, way, 1, LM_SUM_SHORT), s->seeds);
        for (int i = 0; i < 4; i++)
            lm_put_spread(&c, row, 2 + i, lm__sums_exact(s, way, digits[i], digits[i]), 1);
        lm_put_spread(&c, row, 6, beyond, 1);
        kit_cells_put(&c, row, 7, "%.3f", beyond.high);
    }
    return c;
}

static inline void lm__sums_print(const lm_setup *s)
{
    kit_claim c[LM_SUM_CLAIMS];
    kit_cells cells = lm__sums_cells(s);
    printf("\nE5: exact sums by digits, trained on 1 to %d (%d seed%s)\n", LM_SUM_SHORT, s->seeds,
           s->seeds > 1 ? "s" : "");
    kit_cells_print(&cells);
    kit_cells_free(&cells);
    kit_print_claims("expected", c, lm__sums_claims(c, s));
}

static inline int lm__sums_save(const lm_setup *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "way,seed,digits,place,share");       /* place 0: the whole answer */
    for (int i = 0; i < lm__sums_trials(s) * LM_SUM_NUMBERS; i++) {
        int trial = i / LM_SUM_NUMBERS, k = i % LM_SUM_NUMBERS, part = k - LM_SUM_LONG;
        double share = lm_numbers(s, &lm_sums, trial)[k];
        if (!(share == share)) continue;
        kit_csv_text(&t, lm_sum_way[lm__sums_way(s, trial / s->seeds)].name);
        kit_csv_u64(&t, s->seed + (uint64_t)(trial % s->seeds));
        kit_csv_int(&t, 1 + (part < 0 ? k : part / LM_SUM_PLACES));
        kit_csv_int(&t, part < 0 ? 0 : 1 + part % LM_SUM_PLACES);
        kit_csv_real(&t, share, 4);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "sums.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the section ----------------------------------------------------------------------------- */

static inline int lm__sums_chart(kit_report *p, const lm_setup *s, kit_error *why)
{
    double x[LM_SUM_LONG], y[LM_SUM_WAYS * LM_SUM_LONG];
    const char *name[LM_SUM_WAYS];
    for (int way = 0; way < LM_SUM_WAYS; way++) {
        name[way] = lm_sum_way[way].name;
        for (int n = 1; n <= LM_SUM_LONG; n++)
            y[way * LM_SUM_LONG + n - 1] = lm__sums_exact(s, way, n, n).mean;
    }
    for (int n = 1; n <= LM_SUM_LONG; n++) x[n - 1] = n;
    kit_chart c = lm_chart_of("Exact sums by digits", "digits of each number (trained on 1 to 5)",
                              "exact answers");
    c.whole_x = c.percent = 1;
    c.y_high = 1;
    return kit_report_lines(p, s->out, "sums.svg", &c, name, LM_SUM_WAYS, x, y, LM_SUM_LONG, "",
                            why);
}

static inline int lm__sums_heat(kit_report *p, const lm_setup *s, int way, kit_error *why)
{
    static const char *const row[LM_SUM_PLACES] = { "ones", "tens", "place 3", "place 4",
                                                    "place 5", "place 6", "place 7", "place 8",
                                                    "place 9", "place 10", "place 11", "place 12" };
    static const char *const col[LM_SUM_LONG] = { "1", "2", "3", "4", "5", "6", "7", "8", "9",
                                                  "10" };
    double value[LM_SUM_PLACES * LM_SUM_LONG];
    char title[64], file[64];
    for (int i = 0; i < LM_SUM_PLACES * LM_SUM_LONG; i++)
        value[i] = lm__sums_place(s, way, i % LM_SUM_LONG + 1, i / LM_SUM_LONG);
    snprintf(title, sizeof title, "%s: which digit is right", lm_sum_way[way].name);
    snprintf(file, sizeof file, "sums-%s.svg", lm_sum_way[way].name);
    return lm_report_heat(p, s, file, title, "digits of each number", row, LM_SUM_PLACES, col,
                          LM_SUM_LONG, value, 0.1, why);
}

/* abacus first, the others for those who ask */
static inline int lm__sums_heats(kit_report *p, const lm_setup *s, kit_error *why)
{
    kit_report_text(p, "Digit by digit: the share of right tokens of the answer, each behind the "
                       "right ones before it. The last of an answer is the end sign, or the digit "
                       "that a carry adds. Guessing a digit gets 0.10.");
    int done = lm__sums_heat(p, s, LM_SUM_ABACUS, why);
    kit_report_fold(p, "the other encodings");
    for (int way = 0; way < LM_SUM_ABACUS && done; way++)
        if (lm__sums_asked(s, way)) done = lm__sums_heat(p, s, way, why);
    kit_report_unfold(p);
    return done;
}

static inline void lm__sums_tell(kit_report *p, const lm_setup *s)
{
    kit_report_text(p,
                    "A text is `_a+b=cE` with the digits of all numbers in reverse; a model of 4 "
                    "layers and 128 channels learns the answers of sums of 1 to %d digits, %d sums "
                    "a step, %d steps, and is asked for up to %d digits. One sum in %d is kept for "
                    "the test; %d of each length are asked. An answer counts if every digit and "
                    "the end are right. %d seed%s.",
                    LM_SUM_SHORT, 2 * LM_SUM_BATCH, lm_steps_of(s, LM_SUM_QUICK, LM_SUM_FULL),
                    LM_SUM_LONG, LM_SUM_HELD, LM_SUM_ASKED, s->seeds,
                    s->seeds > 1 ? "s (mean, lowest and highest); after the last step" : "");
    kit_report_text(p,
                    "**abacus** is a learned table whose rows are not places of the text but of "
                    "the number: ones, tens, hundreds of all three share a row each, counted in "
                    "training from a row drawn out of 1 to %d, in the test from 1. All other "
                    "tokens share row 0. Its rows, and those of `learned`, start as large as "
                    "tokens do (0.2 a channel; at the usual 0.02 a place drowns in its digit).",
                    LM_SUM_OFFSETS);
}

static inline int lm__sums_report(kit_report *p, const lm_setup *s, kit_error *why)
{
    kit_claim c[LM_SUM_CLAIMS];
    kit_cells cells = lm__sums_cells(s);
    kit_report_heading(p, lm_sums.title);
    lm__sums_tell(p, s);
    kit_cells_show(p, &cells);
    kit_cells_free(&cells);
    int done = lm__sums_chart(p, s, why) && lm__sums_heats(p, s, why);
    kit_report_claims(p, "expected", c, lm__sums_claims(c, s));
    return done && lm__sums_save(s, why);
}

#endif
