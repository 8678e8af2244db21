/* extrapolate/pattern.h - the pattern task told in distances: trained at 32 tokens, asked at 32 to
   512

   Which of three pairs of values stands with its second value exactly so far behind its first? The
   question is the same at any length, and nothing that has to be seen is more than twelve places
   away: what changes is how much else there is. Asked at the pairs themselves, that is a test of
   the encoding. Asked of the mean over all places, as the classifier of demos/pattern is, one of
   the text's tokens in 32 says what matters in training and one in 512 at the end, so that the mean
   fails long before the encoding does; two encodings are asked that way too, to show it. */
#ifndef EXTRAPOLATE_PATTERN_H
#define EXTRAPOLATE_PATTERN_H

#include "lab.h"
#include "tasks.h"

enum { GAP_BATCH = 32, GAP_LENGTHS = 5, GAP_TEXTS = 512, GAP_QUICK_TEXTS = 256, GAP_STEPS = 1000,
       GAP_MOST = 512, GAP_WAYS = 12 };

static const int gap_length[GAP_LENGTHS] = { 32, 64, 128, 256, 512 };

/* mean: the whole text is asked. All encodings at the pairs first, then two more by the mean. */
static const struct { const char *name, *spec; int mean; } gap_way[GAP_WAYS] = {
    { "none", "none", 0 }, { "learned", "learned", 0 }, { "sinusoidal", "sinusoidal", 0 },
    { "rope", "rope", 0 }, { "alibi", "alibi", 0 }, { "kerple", "kerple", 0 },
    { "relative", "relative", 0 }, { "relative:distance=16", "relative:distance=16", 0 },
    { "t5", "t5", 0 },
    { "t5:distance=32", "t5:distance=32", 0 }, { "rope, by the mean", "rope", 1 },
    { "t5:distance=32, by the mean", "t5:distance=32", 1 }
};
enum { GAP_NONE, GAP_LEARNED, GAP_SINE, GAP_ROPE, GAP_ALIBI, GAP_KERPLE, GAP_RELATIVE,
       GAP_RELATIVE_16, GAP_T5, GAP_T5_32, GAP_ROPE_MEAN, GAP_T5_MEAN };

/* accuracy by way, seed and length; NaN where the encoding cannot go */
static double gap_right[GAP_WAYS][MOST_SEEDS][GAP_LENGTHS];

static int gap_done(const settings *s, int way)
{
    return !s->quick || way == GAP_NONE || way == GAP_SINE || way == GAP_ROPE || way == GAP_ALIBI
        || way == GAP_RELATIVE || way == GAP_RELATIVE_16;
}

static int gap_steps(const settings *s) { return steps_of(s, 400, GAP_STEPS); }

/* ---- one trial ------------------------------------------------------------------------------- */

typedef struct gap_feed {
    uint64_t seed;
    int mean, asked;                       /* asked: texts of each length in the test             */
    int tokens[GAP_BATCH * GAP_MOST], targets[GAP_BATCH * GAP_MOST], label[GAP_BATCH];
} gap_feed;

static void gap_draw(gap_feed *f, posenc_batch *batch, uint32_t purpose, int first, int T)
{
    memset(batch, 0, sizeof *batch);
    for (int b = 0; b < GAP_BATCH; b++) {
        kit_random r = kit_random_open(f->seed, purpose, (uint64_t)(first + b));
        gap_make(f->tokens + b * T, &f->label[b], &r, T);
        gap_targets(f->targets + b * T, f->tokens + b * T, T, f->label[b]);
    }
    batch->B = GAP_BATCH;
    batch->T = T;
    batch->tokens = f->tokens;
    batch->targets = f->mean ? f->label : f->targets;
}

static void gap_fill(void *user, posenc_batch *batch, int step)
{
    gap_draw((gap_feed *)user, batch, KIT_RANDOM_TRAIN, step * GAP_BATCH, GAP_LEAST);
}

static int gap_class(const float *logits, const gap_feed *f, int b, int T)
{
    int best = 0;
    if (!f->mean) return gap_answer(logits + (size_t)(b * T) * GAP_TOKENS, f->tokens + b * T, T);
    logits += b * GAP_CLASSES;
    for (int c = 1; c < GAP_CLASSES; c++)
        if (logits[c] > logits[best]) best = c;
    return logits[best] == logits[best] ? best : -1;
}

/* share of the texts of T that m, a model for such texts, tells right */
static int gap_accuracy(double *right, posenc_model *m, gap_feed *f, int T, kit_error *why)
{
    float *logits = (float *)kit_new((size_t)(GAP_BATCH * T) * GAP_TOKENS, sizeof *logits);
    int hits = 0, good = 1;
    for (int first = 0; first < f->asked && good; first += GAP_BATCH) {
        posenc_batch batch;
        posenc_error said;
        gap_draw(f, &batch, KIT_RANDOM_TEST, first, T);
        good = (posenc_model_forward(m, &batch, &said) == POSENC_OK
                && posenc_model_logits(m, logits, 0, f->mean ? GAP_BATCH : GAP_BATCH * T, &said)
                       == POSENC_OK)
               || kit_fail(why, "%s", said.text);
        for (int b = 0; b < GAP_BATCH && good; b++)
            hits += gap_class(logits, f, b, T) == f->label[b];
    }
    *right = good ? (double)hits / f->asked : NAN;
    free(logits);
    return good;
}

static int gap_measure(kit_lesson *l, kit_error *why)
{
    gap_feed *f = (gap_feed *)l->how.user;
    int good = 1;
    for (int i = 0; i < GAP_LENGTHS && good; i++) {
        kit_error no;
        l->t.value[i] = NAN;
        if (!kit_reaches(&l->config, gap_length[i], &no)) continue;
        posenc_model *m = kit_longer(l->how.model, NULL, gap_length[i], GAP_BATCH, why);
        good = m && gap_accuracy(&l->t.value[i], m, f, gap_length[i], why);
        posenc_model_free(m);
    }
    return good;
}

static posenc_config gap_config(int way, uint64_t seed, int threads)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = gap_way[way].spec;
    c.vocab = GAP_TOKENS;
    c.context = GAP_LEAST;
    c.classes = gap_way[way].mean ? GAP_CLASSES : 0;
    c.batch = GAP_BATCH;
    c.layers = 2;
    c.channels = 64;
    c.heads = 4;
    c.seed = seed;
    c.threads = threads;
    return c;
}

static int gap_texts(const settings *s) { return s->quick ? GAP_QUICK_TEXTS : GAP_TEXTS; }

static kit_lesson gap_lesson(gap_feed *f, const settings *s, int way, int k)
{
    kit_lesson l;
    char slug[64];
    memset(&l, 0, sizeof l);
    f->seed = s->seed + (uint64_t)k;
    f->mean = gap_way[way].mean;
    f->asked = gap_texts(s);
    l.config = gap_config(way, f->seed, s->threads);
    l.how = nano_training(NULL, gap_steps(s));
    l.how.fill = gap_fill;
    l.how.user = f;
    l.measure = gap_measure;
    kit_spec_slug(slug, sizeof slug, gap_way[way].spec);
    snprintf(l.t.name, sizeof l.t.name, "pattern-%s%s-s%" PRIu64, slug, f->mean ? "-mean" : "",
             f->seed);
    kit_put(&l.line,
            "extrapolate pattern: --pe %s --asked %s --seed %" PRIu64 " --steps %d --texts %d",
            gap_way[way].spec, f->mean ? "mean" : "pairs", f->seed, l.how.steps, f->asked);
    l.t.settings = l.line.data;
    l.t.value = gap_right[way][k];
    l.t.n = GAP_LENGTHS;
    return l;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static long gap_work(const settings *s)
{
    long steps = 0;
    for (int way = 0; way < GAP_WAYS; way++)
        if (gap_done(s, way)) steps += (long)s->seeds * gap_steps(s);
    return steps;
}

/* all trials one after the other: made ready for a new run (run NULL), or run */
static int gap_each(const settings *s, const kit_lab *lab, kit_lab *run, kit_error *why)
{
    gap_feed *f = (gap_feed *)kit_new(1, sizeof *f);
    int code = DONE;
    for (int i = 0; i < GAP_WAYS * s->seeds && code == DONE; i++) {
        if (!gap_done(s, i / s->seeds)) continue;
        kit_lesson l = gap_lesson(f, s, i / s->seeds, i % s->seeds);
        code = run ? kit_lesson_run(&l, run, why) : kit_trial_clear(&l.t, lab, why) ? DONE : FAILED;
        kit_text_free(&l.line);
    }
    free(f);
    return code;
}

static int gap_clear(const settings *s, const kit_lab *lab, kit_error *why)
{
    return gap_each(s, lab, NULL, why) == DONE;
}

static int gap_run(const settings *s, kit_lab *lab, kit_error *why)
{
    return gap_each(s, lab, lab, why);
}

/* ---- figures --------------------------------------------------------------------------------- */

static kit_spread gap_spread(const settings *s, int way, int length)
{
    double v[MOST_SEEDS] = { NAN };
    for (int k = 0; k < s->seeds && gap_done(s, way); k++) v[k] = gap_right[way][k][length];
    return kit_spread_of(v, s->seeds);
}

/* at the longest texts */
static double gap_far(const settings *s, int way)
{
    return gap_spread(s, way, GAP_LENGTHS - 1).mean;
}
static double gap_near(const settings *s, int way) { return gap_spread(s, way, 0).mean; }

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { GAP_CLAIMS = 6 };

static kit_claim gap_claim_chance(const settings *s)
{
    kit_claim c = kit_claim_open("Looking both ways, `none` only guesses: within 0.06 of one in "
                                 "three at every length.",
                                 "permutation-equivariant (a theorem; Haviv et al. 2022 measure "
                                 "it)");
    int holds = 1;
    for (int i = 0; i < GAP_LENGTHS; i++)
        holds = holds && fabs(gap_spread(s, GAP_NONE, i).mean - 1 / 3.0) <= 0.06;
    c.verdict = kit_judge(1, holds);
    kit_claim_ours(&c, "%.3f at 32, %.3f at 512", gap_near(s, GAP_NONE), gap_far(s, GAP_NONE));
    return c;
}

static kit_claim gap_claim_alibi(const settings *s)
{
    kit_claim c = kit_claim_open("`alibi` at 512 is within 0.03 of what it is at 32.", "built for "
                                                                                       "it (Press "
                                                                                       "et al. "
                                                                                       "2022)");
    c.verdict = kit_judge(1, fabs(gap_far(s, GAP_ALIBI) - gap_near(s, GAP_ALIBI)) <= 0.03
                         && gap_near(s, GAP_ALIBI) > 0.5);
    kit_claim_ours(&c, "%.3f at 32, %.3f at 512", gap_near(s, GAP_ALIBI), gap_far(s, GAP_ALIBI));
    kit_claim_reason(&c, "Held only if it has learned the task at 32 (above 0.5).");
    return c;
}

static kit_claim gap_claim_sinusoidal(const settings *s)
{
    kit_claim c =
        kit_claim_open("`sinusoidal` loses at least a third of its lead over chance by 64.", "fails"
                                                                                             " from"
                                                                                             " the "
                                                                                             "first"
                                                                                             " plac"
                                                                                             "es "
                                                                                             "it "
                                                                                             "never"
                                                                                             " saw "
                                                                                             "(Pres"
                                                                                             "s et "
                                                                                             "al. "
                                                                                             "2022"
                                                                                             ")");
    double lead = gap_near(s, GAP_SINE) - 1 / 3.0, left = gap_spread(s, GAP_SINE, 1).mean - 1 / 3.0;
    c.verdict = kit_judge_size(1, lead > 0.1 && left <= lead * 2 / 3, lead > 0.1 && left < lead);
    kit_claim_ours(&c, "%.3f at 32, %.3f at 64, %.3f at 512", lead + 1 / 3.0, left + 1 / 3.0,
                   gap_far(s, GAP_SINE));
    kit_claim_reason(&c, "It has to have learned the task at 32 before it can lose it.");
    return c;
}

static kit_claim gap_claim_rope(const settings *s)
{
    kit_claim c = kit_claim_open("`rope` goes on further than `sinusoidal` (at 512, by 0.1).", "per"
                                                                                               "ple"
                                                                                               "xit"
                                                                                               "y "
                                                                                               "at "
                                                                                               "2x:"
                                                                                               " ro"
                                                                                               "tar"
                                                                                               "y "
                                                                                               "31,"
                                                                                               " si"
                                                                                               "nus"
                                                                                               "oid"
                                                                                               "al "
                                                                                               "51 "
                                                                                               "(Pr"
                                                                                               "ess"
                                                                                               " et"
                                                                                               " al"
                                                                                               ". "
                                                                                               "202"
                                                                                               "2"
                                                                                               ")");
    c.verdict = kit_judge(1, gap_far(s, GAP_ROPE) >= gap_far(s, GAP_SINE) + 0.1);
    kit_claim_ours(&c, "at 512: rope %.3f, sinusoidal %.3f", gap_far(s, GAP_ROPE),
                   gap_far(s, GAP_SINE));
    return c;
}

static kit_claim gap_claim_clip(const settings *s)
{
    kit_claim c = kit_claim_open("A table of distances goes on if its last row was trained: "
                                 "`relative` clipped at 16 stays within 0.03 from 32 to 512, "
                                 "clipped at 128 it does not.",
                                 "clipping at k is meant for this (Shaw et al. 2018)");
    double kept = gap_far(s, GAP_RELATIVE_16) - gap_near(s, GAP_RELATIVE_16);
    double lost = gap_far(s, GAP_RELATIVE) - gap_near(s, GAP_RELATIVE);
    c.verdict =
        kit_judge_size(1, gap_near(s, GAP_RELATIVE_16) > 0.5 && kept >= -0.03 && lost < -0.03,
                           kept > lost);
    kit_claim_ours(&c, "from 32 to 512: clipped at 16 %+.3f, at 128 %+.3f", kept, lost);
    kit_claim_reason(&c, "A head that spreads its attention over a text reads less of each token "
                         "in a longer one. Runs that did not learn to point sharply at 32 lose by "
                         "that, whatever the table says.");
    return c;
}

static kit_claim gap_claim_mean(const settings *s)
{
    kit_claim c = kit_claim_open("Asked by the mean over all places, `t5:distance=32` loses 0.2 or "
                                 "more from 32 to 512, asked at the pairs less than 0.1: it is the "
                                 "mean that does not go on.",
                                 "none: a question of ours");
    double mean = gap_far(s, GAP_T5_MEAN) - gap_near(s, GAP_T5_MEAN);
    double pairs = gap_far(s, GAP_T5_32) - gap_near(s, GAP_T5_32);
    c.verdict = kit_judge(gap_done(s, GAP_T5_MEAN), mean <= -0.2 && pairs > -0.1);
    kit_claim_ours(&c, "by the mean %+.3f, at the pairs %+.3f", mean, pairs);
    kit_claim_reason(&c, "Either the task was not learned that way, or the figure differs.");
    return c;
}

static int gap_claims(kit_claim c[GAP_CLAIMS], const settings *s)
{
    c[0] = gap_claim_chance(s);
    c[1] = gap_claim_alibi(s);
    c[2] = gap_claim_sinusoidal(s);
    c[3] = gap_claim_rope(s);
    c[4] = gap_claim_clip(s);
    c[5] = gap_claim_mean(s);
    return GAP_CLAIMS;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static kit_cells gap_cells(const settings *s)
{
    int row = 1;
    kit_cells c = kit_cells_new(1 + GAP_WAYS, 1 + GAP_LENGTHS);
    kit_cells_put(&c, 0, 0, "encoding");
    for (int i = 0; i < GAP_LENGTHS; i++) kit_cells_put(&c, 0, 1 + i, "%d", gap_length[i]);
    for (int way = 0; way < GAP_WAYS; way++) {
        if (!gap_done(s, way)) continue;
        kit_cells_put(&c, row, 0, "%s", gap_way[way].name);
        for (int i = 0; i < GAP_LENGTHS; i++) {
            kit_spread v = gap_spread(s, way, i);
            if (!(v.mean == v.mean)) kit_cells_put(&c, row, 1 + i, "refused");
            else if (s->seeds == 1) kit_cells_put(&c, row, 1 + i, "%.3f", v.mean);
            else kit_cells_put(&c, row, 1 + i, "%.3f (%.2f..%.2f)", v.mean, v.low, v.high);
        }
        row++;
    }
    c.rows = row;
    return c;
}

static void gap_print(const settings *s)
{
    kit_claim c[GAP_CLAIMS];
    kit_cells table = gap_cells(s);
    printf("\nPattern, told in distances: accuracy by length, trained at 32 (chance 1/3, mean of "
           "%d seed%s)\n",
           s->seeds, s->seeds > 1 ? "s" : "");
    kit_cells_print(&table);
    kit_print_claims("published", c, gap_claims(c, s));
    kit_cells_free(&table);
}

static int gap_save_csv(const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,asked,seed,length,accuracy");
    for (int i = 0; i < GAP_WAYS * s->seeds * GAP_LENGTHS; i++) {
        int length = i % GAP_LENGTHS, k = i / GAP_LENGTHS % s->seeds,
            way = i / GAP_LENGTHS / s->seeds;
        if (!gap_done(s, way)) continue;
        kit_csv_text(&t, gap_way[way].spec);
        kit_csv_text(&t, gap_way[way].mean ? "mean" : "pairs");
        kit_csv_u64(&t, s->seed + (uint64_t)k);
        kit_csv_int(&t, gap_length[length]);
        kit_csv_real(&t, gap_right[way][k][length], 6);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "pattern.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the section ----------------------------------------------------------------------------- */

/* lines of those ways that were run */
static int gap_chart(kit_report *p, const settings *s, const char *file, const char *title,
                     const int *way, int ways, kit_error *why)
{
    double x[GAP_LENGTHS], y[GAP_WAYS * GAP_LENGTHS];
    const char *name[GAP_WAYS];
    int lines = 0;
    for (int i = 0; i < GAP_LENGTHS; i++) x[i] = gap_length[i];
    for (int w = 0; w < ways; w++) {
        if (!gap_done(s, way[w])) continue;
        for (int i = 0; i < GAP_LENGTHS; i++)
            y[lines * GAP_LENGTHS + i] = gap_spread(s, way[w], i).mean;
        name[lines++] = gap_way[way[w]].name;
    }
    kit_chart c = chart_of(title, "tokens in the text (logarithmic)", "accuracy");
    c.percent = 1;
    c.y_low = 0.2;
    c.y_high = 1;
    c.level = 1 / 3.0;
    c.level_name = "chance";
    c.level_left = 1;
    return report_lines(p, s, file, &c, name, lines, x, y, GAP_LENGTHS, why);
}

static int gap_charts(kit_report *p, const settings *s, kit_error *why)
{
    static const int pairs[] = { GAP_NONE,   GAP_LEARNED,  GAP_SINE,        GAP_ROPE, GAP_ALIBI,
                                 GAP_KERPLE, GAP_RELATIVE, GAP_RELATIVE_16, GAP_T5,   GAP_T5_32 };
    static const int mean[] = { GAP_ROPE, GAP_ROPE_MEAN, GAP_T5_32, GAP_T5_MEAN };
    if (!gap_chart(p, s, "pattern.svg", "Asked at the pairs, trained at 32", pairs, 10, why))
        return 0;
    if (s->quick) return 1;
    kit_report_text(p, "**By the mean.** The classifier of `demos/pattern` reads the mean over all "
                       "places. In a text of 32 tokens one in 32 knows the answer, in one of 512 "
                       "one in 512: what that one says shrinks, and whatever small leaning the "
                       "others have does not.");
    return gap_chart(p, s, "pattern-mean.svg", "At the pairs, and by the mean over all places",
                     mean, 4, why);
}

static void gap_tell_setting(kit_report *p, const settings *s)
{
    kit_report_text(p,
                    "The pattern task names places, which are no longer the same question in a "
                    "longer text. Told in distances it is: a text has a 5 and an 8, a 3 and a 9, a "
                    "7 and a 4, and the class says which of the three pairs has its second value "
                    "exactly 4, 5 and 5 places behind the first. The two other pairs stand as "
                    "close together (up to %d places, on either side), at any distance but their "
                    "own. All that matters is near; what grows is the rest.",
                    GAP_FAR);
    kit_report_text(p,
                    "Two layers, 64 channels, 4 heads, looking both ways; %d steps of %d texts of "
                    "%d tokens, then %d texts of each length. Asked at the first value of each "
                    "pair: is the second one at its distance? The surest yes is the answer. %d "
                    "seed%s.",
                    gap_steps(s), GAP_BATCH, GAP_LEAST, gap_texts(s), s->seeds,
                    s->seeds > 1 ? "s (mean, lowest and highest)" : "");
    if (s->quick)
        kit_report_text(p, "This is the **quick** version, a first look: one seed, fewer "
                           "encodings, models that have hardly learned the task.");
}

static int gap_report(kit_report *p, const settings *s, kit_error *why)
{
    kit_claim c[GAP_CLAIMS];
    kit_cells table = gap_cells(s);
    kit_report_heading(p, "The pattern task, told in distances");
    gap_tell_setting(p, s);
    kit_cells_show(p, &table);
    kit_cells_free(&table);
    if (!gap_charts(p, s, why)) return 0;
    kit_report_claims(p, "published", c, gap_claims(c, s));
    return gap_save_csv(s, why);
}

static const experiment pattern_experiment = {
    "pattern", "The pattern task, told in distances",
    "the pattern task told in distances, 32 to 512 tokens", NULL, gap_work, gap_clear,
    gap_run, gap_print, gap_report
};

#endif
