/* lm/distance.h - E6: taught to find a key at distances up to 128, asked up to 512

   A text is   _ filler.. K x1 x2 x3 x4 filler.. ? x1 x2 x3 x4 E   and the distance is that from K
   to the question. Four symbols are to be found and said in order; there are 16 of them, and the
   filler is made of others, as a number stands in prose. Only the answer is learned.

   Examples are aligned: one to a window, never cut. pos-enc-bench cuts a stream of examples into
   windows anywhere; one that is as long as a window is whole in one window of 135. The last two
   ways show what that does: the same examples, at its four distances, aligned and cut. */
#ifndef LM_DISTANCE_H
#define LM_DISTANCE_H

#include "lm/lab.h"

/* ---- the task: pure functions ---------------------------------------------------------------- */

enum { LM_SEEK_BEGIN, LM_SEEK_MARK, LM_SEEK_ASK, LM_SEEK_END, LM_SEEK_FILLER, LM_SEEK_FILLERS = 8,
       LM_SEEK_SYMBOL = LM_SEEK_FILLER + LM_SEEK_FILLERS, LM_SEEK_SYMBOLS = 16,
       LM_SEEK_VOCAB = LM_SEEK_SYMBOL + LM_SEEK_SYMBOLS };
enum { LM_SEEK_WIDE = 4,                   /* symbols of a key                                    */
       LM_SEEK_LEAST = 8, LM_SEEK_NEAR = 128, LM_SEEK_FAR = 512,   /* trained up to, asked up to */
       LM_SEEK_T = LM_SEEK_NEAR + LM_SEEK_WIDE + 2,        /* tokens of a window of training     */
       LM_SEEK_MOST = LM_SEEK_FAR + LM_SEEK_WIDE + 2 };

/* tokens of a text, END not counted: it is a target only */
static inline int lm_seek_length(int lead, int distance)
{
    return lead + distance + LM_SEEK_WIDE + 2;
}

static inline void lm__seek_filler(int *tokens, kit_random *r, int n)
{
    for (int i = 0; i < n; i++) tokens[i] = LM_SEEK_FILLER + kit_random_below(r, LM_SEEK_FILLERS);
}

/* Writes lm_seek_length tokens and the target of each; the mark stands behind `lead` fillers. */
static inline void lm_seek_text(int *tokens, int *targets, kit_random *r, int lead, int distance)
{
    int key[LM_SEEK_WIDE], mark = 1 + lead, ask = mark + distance;
    int T = lm_seek_length(lead, distance);
    lm__seek_filler(tokens, r, T);
    tokens[0] = LM_SEEK_BEGIN;
    tokens[mark] = LM_SEEK_MARK;
    tokens[ask] = LM_SEEK_ASK;
    for (int i = 0; i < LM_SEEK_WIDE; i++) {
        key[i] = LM_SEEK_SYMBOL + kit_random_below(r, LM_SEEK_SYMBOLS);
        tokens[mark + 1 + i] = tokens[ask + 1 + i] = key[i];
    }
    for (int t = 0; t < T; t++)
        targets[t] = t < ask ? POSENC_IGNORE : t + 1 < T ? tokens[t + 1] : LM_SEEK_END;
}

/* the distances of pos-enc-bench: a quarter, a half, three quarters and all of the window */
static inline int lm_seek_quarter(kit_random *r)
{
    return LM_SEEK_NEAR / 4 * (1 + kit_random_below(r, 4));
}

/* A window of its own: any distance up to 128 and any place that leaves room for it; with quarters
   one of the four distances, the text at the beginning. Padding behind it. */
static inline void lm_seek_aligned(int *tokens, int *targets, kit_random *r, int quarters)
{
    int distance = quarters ? lm_seek_quarter(r)
                            : LM_SEEK_LEAST + kit_random_below(r, LM_SEEK_NEAR - LM_SEEK_LEAST + 1);
    int lead = quarters ? 0 : kit_random_below(r, LM_SEEK_NEAR - distance + 1);
    int end = lm_seek_length(lead, distance);
    lm_seek_text(tokens, targets, r, lead, distance);
    for (; end < LM_SEEK_T; end++) {
        tokens[end] = LM_SEEK_BEGIN;
        targets[end] = POSENC_IGNORE;
    }
}

/* A window cut out of a stream of texts at the four distances, END included, wherever it falls: at
   `phase` of a stream that begins with a text. LM_SEEK_PHASES windows' worth of them. */
enum { LM_SEEK_PHASES = 8 * (LM_SEEK_T + 1) };

static inline void lm_seek_cut(int *tokens, int *targets, kit_random *r)
{
    int text[LM_SEEK_T], target[LM_SEEK_T], phase = kit_random_below(r, LM_SEEK_PHASES);
    for (int at = -phase, T; at < LM_SEEK_T; at += T + 1) {
        int distance = lm_seek_quarter(r);
        T = lm_seek_length(0, distance);
        lm_seek_text(text, target, r, 0, distance);
        for (int t = 0; t <= T; t++) {
            if (at + t < 0 || at + t >= LM_SEEK_T) continue;
            tokens[at + t] = t < T ? text[t] : LM_SEEK_END;
            targets[at + t] = t < T ? target[t] : POSENC_IGNORE;
        }
    }
}

/* 1 when all that was asked for is right; logits (T, LM_SEEK_VOCAB) */
static inline int lm_seek_is_exact(const float *logits, const int *targets, int T)
{
    for (int t = 0; t < T; t++)
        if (targets[t] != POSENC_IGNORE
            && !lm_is_right(logits + (size_t)t * LM_SEEK_VOCAB, LM_SEEK_VOCAB, targets[t]))
            return 0;
    return 1;
}

/* ---- trials ---------------------------------------------------------------------------------- */

enum { LM_SEEK_BATCH = 16, LM_SEEK_ASKED = 64, LM_SEEK_DISTANCES = 14,
       LM_SEEK_QUICK = 500, LM_SEEK_FULL = 1000 };             /* steps */
static const int lm_seek_distance[LM_SEEK_DISTANCES] = { 16,  24,  32,  48,  64,  96,  112,
                                                       128, 136, 160, 192, 256, 384, 512 };
enum { LM_SEEK_ROPE, LM_SEEK_SINUSOIDAL, LM_SEEK_LEARNED, LM_SEEK_ALIBI, LM_SEEK_T5, LM_SEEK_KERPLE,
       LM_SEEK_NONE, LM_SEEK_WHOLE, LM_SEEK_CUT, LM_SEEK_WAYS };

/* examples: 0 at any distance and place, 1 at the four distances, 2 these cut anywhere. learned has
   rows for the longest text, though none past 134 is ever trained. */
static const struct { const char *name, *spec; int examples, quick; } lm_seek_way[LM_SEEK_WAYS] = {
    { "rope", "rope", 0, 1 },     { "sinusoidal", "sinusoidal", 0, 0 },
    { "learned", "learned:rows=518", 0, 0 },
    { "alibi", "alibi", 0, 1 },   { "t5", "t5", 0, 0 },
    { "kerple", "kerple", 0, 0 }, { "none", "none", 0, 0 },
    { "rope, four distances", "rope", 1, 1 },
    { "rope, four distances, cut", "rope", 2, 1 }
};

typedef struct lm__distance_feed {
    int examples;
    uint64_t seed;
    int tokens[LM_SEEK_BATCH * LM_SEEK_MOST], targets[LM_SEEK_BATCH * LM_SEEK_MOST];
    float logits[LM_SEEK_BATCH * LM_SEEK_MOST * LM_SEEK_VOCAB];
} lm__distance_feed;

static inline void lm__distance_fill(void *user, posenc_batch *batch, int step)
{
    lm__distance_feed *f = (lm__distance_feed *)user;
    for (int b = 0; b < LM_SEEK_BATCH; b++) {
        uint64_t index = (uint64_t)step * LM_SEEK_BATCH + (uint64_t)b;
        kit_random r = kit_random_open(f->seed, KIT_RANDOM_TRAIN, index);
        int *tokens = f->tokens + b * LM_SEEK_T, *targets = f->targets + b * LM_SEEK_T;
        if (f->examples == 2) lm_seek_cut(tokens, targets, &r);
        else lm_seek_aligned(tokens, targets, &r, f->examples);
    }
    batch->B = LM_SEEK_BATCH;
    batch->T = LM_SEEK_T;
    batch->tokens = f->tokens;
    batch->targets = f->targets;
}

/* texts first .. first + 15 of one distance, the mark right at the beginning */
static inline void lm__distance_ask(lm__distance_feed *f, posenc_batch *batch, int distance,
                                    int first)
{
    int T = lm_seek_length(0, distance);
    for (int b = 0; b < LM_SEEK_BATCH; b++) {
        uint64_t index = (uint64_t)(distance * LM_SEEK_ASKED + first + b);
        kit_random r = kit_random_open(f->seed, KIT_RANDOM_TEST, index);
        lm_seek_text(f->tokens + b * T, f->targets + b * T, &r, 0, distance);
    }
    memset(batch, 0, sizeof *batch);
    batch->B = LM_SEEK_BATCH;
    batch->T = T;
    batch->tokens = f->tokens;
}

static inline int lm__distance_measure_one(double *share, lm__distance_feed *f, posenc_model *m,
                                           int distance, kit_error *why)
{
    int exact = 0;
    for (int first = 0; first < LM_SEEK_ASKED; first += LM_SEEK_BATCH) {
        posenc_batch batch;
        lm__distance_ask(f, &batch, distance, first);
        if (!lm_ask(m, &batch, f->logits, why)) return 0;
        for (int b = 0; b < batch.B; b++)
            exact += lm_seek_is_exact(f->logits + (size_t)(b * batch.T) * LM_SEEK_VOCAB,
                                     f->targets + b * batch.T, batch.T);
    }
    *share = (double)exact / LM_SEEK_ASKED;
    return 1;
}

static inline int lm__distance_measure(kit_lesson *l, kit_error *why)
{
    posenc_model *longer = kit_longer(l->how.model, NULL, LM_SEEK_MOST, LM_SEEK_BATCH, why);
    int good = longer != NULL;
    for (int i = 0; i < LM_SEEK_DISTANCES && good && !kit_stopped(); i++)
        good = lm__distance_measure_one(&l->t.value[i], (lm__distance_feed *)l->feed, longer,
                                        lm_seek_distance[i], why);
    posenc_model_free(longer);
    return good;
}

static inline int lm__distance_asked(const lm_setup *s, int way)
{
    return !s->quick || lm_seek_way[way].quick;
}

static inline int lm__distance_way(const lm_setup *s, int i)
{
    int way = 0;
    for (; way < LM_SEEK_WAYS; way++)
        if (lm__distance_asked(s, way) && i-- == 0) break;
    return way;
}

static inline int lm__distance_ways(const lm_setup *s)
{
    int n = 0;
    for (int way = 0; way < LM_SEEK_WAYS; way++) n += lm__distance_asked(s, way);
    return n;
}

static inline int lm__distance_trials(const lm_setup *s) { return lm__distance_ways(s) * s->seeds; }

static inline void lm__distance_make(kit_lesson *l, const lm_setup *s, int trial)
{
    static const char *const kind[3] = { "", "-four", "-cut" };
    int way = lm__distance_way(s, trial / s->seeds);
    char slug[64];
    lm__distance_feed *f = (lm__distance_feed *)kit_new(1, sizeof *f);
    l->feed = f;
    f->examples = lm_seek_way[way].examples;
    f->seed = s->seed + (uint64_t)(trial % s->seeds);
    lm_nano(&l->config, lm_seek_way[way].spec, f->seed);
    l->config.vocab = LM_SEEK_VOCAB;
    l->config.context = LM_SEEK_T;
    l->config.batch = LM_SEEK_BATCH;
    lm_plan(&l->how, 2e-3, lm_steps_of(s, LM_SEEK_QUICK, LM_SEEK_FULL));
    l->how.fill = lm__distance_fill;
    l->measure = lm__distance_measure;
    kit_spec_slug(slug, sizeof slug, lm_seek_way[way].spec);
    snprintf(l->t.name, sizeof l->t.name, "distance-%s%s-s%" PRIu64, slug, kind[f->examples],
             f->seed);
    kit_put(&l->line, "lm results distance: --pe %s --examples %d --seed %" PRIu64 " --steps %d",
            lm_seek_way[way].spec, f->examples, f->seed, l->how.steps);
}

static inline void lm__distance_print(const lm_setup *s);
static inline int lm__distance_report(kit_report *p, const lm_setup *s, kit_error *why);

static const lm_study lm_distance = {
    "distance", "E6: finding a key, further than ever seen", LM_DISTANCE, LM_SEEK_DISTANCES,
    lm__distance_trials, lm__distance_make, lm__distance_print, lm__distance_report
};

/* ---- figures --------------------------------------------------------------------------------- */

static inline double lm__distance_number(const lm_setup *s, int way, int k, int i)
{
    int row = 0;
    if (!lm__distance_asked(s, way)) return NAN;
    for (int w = 0; w < way; w++) row += lm__distance_asked(s, w);
    return lm_numbers(s, &lm_distance, row * s->seeds + k)[i];
}

/* exact match, mean of the distances from .. to, over the seeds */
static inline kit_spread lm__distance_exact(const lm_setup *s, int way, int from, int to)
{
    double v[LM_SEEDS] = { 0 };
    int n = 0;
    for (int i = 0; i < LM_SEEK_DISTANCES; i++) {
        if (lm_seek_distance[i] < from || lm_seek_distance[i] > to) continue;
        for (int k = 0; k < s->seeds; k++) v[k] += lm__distance_number(s, way, k, i);
        n++;
    }
    for (int k = 0; k < s->seeds; k++) v[k] = n ? v[k] / n : NAN;
    return kit_spread_of(v, s->seeds);
}

static inline double lm__distance_at(const lm_setup *s, int way, int distance)
{
    return lm__distance_exact(s, way, distance, distance).mean;
}

static inline double lm__distance_within(const lm_setup *s, int way)
{
    return lm__distance_exact(s, way, 1, LM_SEEK_NEAR).mean;
}

static inline double lm__distance_beyond(const lm_setup *s, int way)
{
    return lm__distance_exact(s, way, 192, LM_SEEK_FAR).mean;
}

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { LM_SEEK_CLAIMS = 6 };

/* from .. to were run and learned within the length; else nothing is to be said of what is beyond.
   NaN stays in, to be seen. */
static inline int lm__distance_solved(const lm_setup *s, int from, int to)
{
    for (int way = from; way <= to; way++)
        if (!lm__distance_asked(s, way) || lm__distance_within(s, way) < 0.5) return 0;
    return 1;
}

static inline kit_claim lm__distance_claim_within(const lm_setup *s)
{
    kit_claim c = kit_claim_open("With aligned examples every encoding finds the key at distances "
                                 "up to 128 (exact match at least 0.9).",
                                 "0.9 or more at 1x for a model trained on the task (the bar)");
    double least = HUGE_VAL;
    int who = 0;
    for (int way = 0; way < LM_SEEK_WHOLE; way++) {
        double share = lm__distance_within(s, way);
        if (!lm__distance_asked(s, way)) continue;
        if (!(share >= least)) who = way;
        least = lm_smaller(least, share);
    }
    c.verdict = kit_judge_size(1, least >= 0.9, 0);
    kit_claim_ours(&c, "the least: %s %.3f", lm_seek_way[who].name, least);
    kit_claim_reason(&c, "Not trained long enough for all of them: what is lost within the length "
                         "says nothing about what happens beyond it.");
    return c;
}

static inline kit_claim lm__distance_claim_drop(const lm_setup *s)
{
    kit_claim c = kit_claim_open("`rope`, `sinusoidal` and `learned` drop past 128: at 192 to 512 "
                                 "each has less than half of what it has within.",
                                 "they drop (by their perplexity beyond the length, Press et al. "
                                 "2022)");
    int all = 1, any = 0;
    for (int way = LM_SEEK_ROPE; way <= LM_SEEK_LEARNED; way++) {
        int drops = lm__distance_beyond(s, way) < 0.5 * lm__distance_within(s, way);
        all = all && drops;
        any = any || drops;
    }
    c.verdict = kit_judge_size(lm__distance_solved(s, LM_SEEK_ROPE, LM_SEEK_LEARNED), all, any);
    kit_claim_ours(&c, "192 to 512: rope %.3f, sinusoidal %.3f, learned %.3f",
                   lm__distance_beyond(s, LM_SEEK_ROPE), lm__distance_beyond(s, LM_SEEK_SINUSOIDAL),
                   lm__distance_beyond(s, LM_SEEK_LEARNED));
    return c;
}

static inline kit_claim lm__distance_claim_alibi(const lm_setup *s)
{
    kit_claim c = kit_claim_open("`alibi` falls with the distance, within the window already (128 "
                                 "below 32), and does not break at its end (160 at least half of "
                                 "128).",
                                 "steep slopes cannot look far; no break at the training length");
    double near = lm__distance_at(s, LM_SEEK_ALIBI, 32);
    double end = lm__distance_at(s, LM_SEEK_ALIBI, 128);
    double past = lm__distance_at(s, LM_SEEK_ALIBI, 160);
    c.verdict = kit_judge_size(lm__distance_solved(s, LM_SEEK_ALIBI, LM_SEEK_ALIBI),
                         end < near && past >= 0.5 * end && end > 0,
                         past >= 0.5 * end && end > 0);
    kit_claim_ours(&c, "at 32: %.3f, 128: %.3f, 160: %.3f, 512: %.3f", near, end, past,
                   lm__distance_at(s, LM_SEEK_ALIBI, 512));
    kit_claim_reason(&c, "With three heads the gentlest slope is 1/256: over 128 places it takes "
                         "off half a unit, which a marked key outweighs.");
    return c;
}

static inline kit_claim lm__distance_claim_slow(const lm_setup *s)
{
    kit_claim c = kit_claim_open("`t5`, `kerple` and `none` degrade slowest: at 192 to 512 each of "
                                 "them is ahead of `rope`, `sinusoidal` and `learned`.",
                                 "learned biases and no encoding go furthest (Kazemnejad et al. "
                                 "2023, Chi et al. 2022)");
    double slow = HUGE_VAL, best = -1, fast = -1;
    for (int way = LM_SEEK_ROPE; way <= LM_SEEK_LEARNED; way++)
        fast = lm_larger(fast, lm__distance_beyond(s, way));
    for (int way = LM_SEEK_T5; way <= LM_SEEK_NONE; way++) {
        slow = lm_smaller(slow, lm__distance_beyond(s, way));
        best = lm_larger(best, lm__distance_beyond(s, way));
    }
    c.verdict = kit_judge_size(lm__distance_solved(s, LM_SEEK_ROPE, LM_SEEK_NONE), slow > fast,
                         best > fast);
    kit_claim_ours(&c, "192 to 512: t5 %.3f, kerple %.3f, none %.3f; the best of the others %.3f",
                   lm__distance_beyond(s, LM_SEEK_T5), lm__distance_beyond(s, LM_SEEK_KERPLE),
                   lm__distance_beyond(s, LM_SEEK_NONE), fast);
    return c;
}

static inline kit_claim lm__distance_claim_cut(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Cut anywhere, the largest distance is never learned: at 128 less "
                                 "than 0.1, and at least 0.9 from the same examples aligned.",
                                 "an example as long as the window is whole in 1 window of 135");
    double cut = lm__distance_at(s, LM_SEEK_CUT, 128);
    double whole = lm__distance_at(s, LM_SEEK_WHOLE, 128);
    c.verdict = kit_judge_size(lm__distance_solved(s, LM_SEEK_WHOLE, LM_SEEK_WHOLE),
                         cut < 0.1 && whole >= 0.9, cut < whole - 0.2);
    kit_claim_ours(&c, "cut %.3f, aligned %.3f", cut, whole);
    kit_claim_reason(&c, "What a relative encoding learns about finding a key at 32 to 96 may "
                         "carry it to 128, within which all distances between tokens are known.");
    return c;
}

static inline kit_claim lm__distance_claim_cost(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Cutting costs most where examples are long: the loss of exact "
                                 "answers at 96 and 128 is larger than that at 32 and 64.",
                                 "whole in about 75, 50, 25 and 1 of 100 windows");
    double lost[2] = { 0, 0 };
    for (int i = 0; i < 2; i++)
        for (int k = 1; k <= 2; k++)
            lost[i] += (lm__distance_at(s, LM_SEEK_WHOLE, 64 * i + 32 * k)
                        - lm__distance_at(s, LM_SEEK_CUT, 64 * i + 32 * k)) / 2;
    c.verdict = kit_judge_size(lm__distance_solved(s, LM_SEEK_WHOLE, LM_SEEK_WHOLE),
                         lost[1] > lost[0] + 0.05, lost[1] > 0.05);
    kit_claim_ours(&c, "lost at 32 and 64: %.3f, at 96 and 128: %.3f", lost[0], lost[1]);
    return c;
}

static inline int lm__distance_claims(kit_claim c[LM_SEEK_CLAIMS], const lm_setup *s)
{
    int n = 0;
    c[n++] = lm__distance_claim_within(s);
    c[n++] = lm__distance_claim_drop(s);
    c[n++] = lm__distance_claim_alibi(s);
    c[n++] = lm__distance_claim_slow(s);
    c[n++] = lm__distance_claim_cut(s);
    c[n++] = lm__distance_claim_cost(s);
    return n;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static inline kit_cells lm__distance_cells(const lm_setup *s)
{
    static const int at[] = { 32, 64, 96, 128, 160, 256, 512 };
    enum { AT = sizeof at / sizeof *at };
    kit_cells c = kit_cells_new(1 + lm__distance_ways(s), AT + 2);
    kit_cells_put(&c, 0, 0, "encoding");
    for (int i = 0; i < AT; i++) kit_cells_put(&c, 0, i + 1, "%d", at[i]);
    kit_cells_put(&c, 0, AT + 1, "192 to 512");
    for (int row = 1; row < c.rows; row++) {
        int way = lm__distance_way(s, row - 1);
        kit_cells_put(&c, row, 0, "%s", lm_seek_way[way].name);
        for (int i = 0; i < AT; i++)
            lm_put_spread(&c, row, i + 1, lm__distance_exact(s, way, at[i], at[i]), 1);
        lm_put_spread(&c, row, AT + 1, lm__distance_exact(s, way, 192, LM_SEEK_FAR), s->seeds);
    }
    return c;
}

static inline void lm__distance_print(const lm_setup *s)
{
    kit_claim c[LM_SEEK_CLAIMS];
    kit_cells cells = lm__distance_cells(s);
    printf("\nE6: exact keys by distance, trained up to %d (%d seed%s)\n", LM_SEEK_NEAR, s->seeds,
           s->seeds > 1 ? "s" : "");
    kit_cells_print(&cells);
    kit_cells_free(&cells);
    kit_print_claims("expected", c, lm__distance_claims(c, s));
}

static inline int lm__distance_save(const lm_setup *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "way,seed,distance,exact");
    for (int i = 0; i < lm__distance_trials(s) * LM_SEEK_DISTANCES; i++) {
        int trial = i / LM_SEEK_DISTANCES, k = i % LM_SEEK_DISTANCES;
        kit_csv_text(&t, lm_seek_way[lm__distance_way(s, trial / s->seeds)].name);
        kit_csv_u64(&t, s->seed + (uint64_t)(trial % s->seeds));
        kit_csv_int(&t, lm_seek_distance[k]);
        kit_csv_real(&t, lm_numbers(s, &lm_distance, trial)[k], 4);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "distance.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the section ----------------------------------------------------------------------------- */

static inline int lm__distance_chart(kit_report *p, const lm_setup *s, const char *file,
                                     const char *title, int first, int count, kit_error *why)
{
    double x[LM_SEEK_DISTANCES], y[LM_SEEK_WAYS * LM_SEEK_DISTANCES];
    const char *name[LM_SEEK_WAYS];
    for (int i = 0; i < count; i++) {
        name[i] = lm_seek_way[first + i].name;
        for (int k = 0; k < LM_SEEK_DISTANCES; k++)
            y[i * LM_SEEK_DISTANCES + k] = lm__distance_at(s, first + i, lm_seek_distance[k]);
    }
    for (int k = 0; k < LM_SEEK_DISTANCES; k++) x[k] = lm_seek_distance[k];
    kit_chart c = lm_chart_of(title, "distance (logarithmic; trained up to 128)", "exact answers");
    c.log_x = 2;
    c.percent = 1;
    c.y_high = 1;
    return kit_report_lines(p, s->out, file, &c, name, count, x, y, LM_SEEK_DISTANCES, "", why);
}

static inline void lm__distance_tell(kit_report *p, const lm_setup *s)
{
    kit_report_text(p,
                    "Somewhere in a text of fillers stands a mark and behind it four symbols out "
                    "of %d; at the question they are to be said again. The nano model reads "
                    "windows of %d tokens, %d a step, %d steps, and learns the answers; every "
                    "distance from %d to %d from the mark to the question is equally likely. Then "
                    "%d texts of each distance are asked. An answer counts if all four symbols and "
                    "the end are right. %d seed%s.",
                    LM_SEEK_SYMBOLS, LM_SEEK_T, LM_SEEK_BATCH,
                    lm_steps_of(s, LM_SEEK_QUICK, LM_SEEK_FULL), LM_SEEK_LEAST, LM_SEEK_NEAR,
                    LM_SEEK_ASKED, s->seeds, s->seeds > 1 ? "s" : "");
}

static inline int lm__distance_report(kit_report *p, const lm_setup *s, kit_error *why)
{
    kit_claim c[LM_SEEK_CLAIMS];
    kit_cells cells = lm__distance_cells(s);
    kit_report_heading(p, lm_distance.title);
    lm__distance_tell(p, s);
    kit_cells_show(p, &cells);
    kit_cells_free(&cells);
    int done = lm__distance_chart(p, s, "distance.svg", "Exact keys by distance", LM_SEEK_ROPE,
                                  LM_SEEK_WHOLE, why);
    kit_report_text(p, "**Cut windows.** pos-enc-bench lays its examples end to end and cuts the "
                       "stream into windows of 1,025 tokens wherever they fall. An example at the "
                       "largest distance is as long as the window, so that it is nearly never "
                       "whole: its answer is asked for where its key is out of sight. Below, "
                       "`rope` learns from the same examples, at a quarter, a half, three quarters "
                       "and all of the window, once aligned and once cut:");
    done = done
        && lm__distance_chart(p, s, "distance-cut.svg", "Aligned and cut", LM_SEEK_WHOLE, 2, why);
    kit_report_claims(p, "expected", c, lm__distance_claims(c, s));
    return done && lm__distance_save(s, why);
}

#endif
