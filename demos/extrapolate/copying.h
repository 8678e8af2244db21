/* extrapolate/copying.h - E3: taught to repeat and copy up to 20 symbols, asked for up to 40

   The tasks of "The Impact of Positional Encoding on Length Generalization" (Kazemnejad et al.
   2023) for a laptop: a model of 0.8M parameters instead of 107M, 64,000 to 77,000 texts instead of
   2.5 million. Whoever has to count must know how long the answer already is, and that is where
   encodings differ. */
#ifndef EXTRAPOLATE_COPYING_H
#define EXTRAPOLATE_COPYING_H

#include "lab.h"
#include "tasks.h"

enum { COPY_ROWS = 32,                     /* of two texts each: 64 a step, as published          */
       COPY_ASKED = 64,                    /* texts of each length in the test                    */
       COPY_PLACES = 128,                  /* places are drawn out of so many                     */
       COPY_KNOWN = 5, COPY_WAYS = 7 };

static const struct { const char *name, *spec; int most; } copy_way[COPY_WAYS] = {
    { "none", "none", 0 }, { "t5", "t5", 0 }, { "alibi", "alibi", 0 }, { "rope", "rope", 0 },
    { "sinusoidal", "sinusoidal", 0 },
    { "rope, drawn places", "rope", COPY_PLACES },
    { "sinusoidal, drawn places", "sinusoidal", COPY_PLACES }
};
enum { WAY_NONE, WAY_T5, WAY_ALIBI, WAY_ROPE, WAY_SINE, WAY_ROPE_DRAWN, WAY_SINE_DRAWN };

/* published: exact match on lengths 21 to 40, means of three seeds, in the order of the first five
   ways */
static const struct {
    const char *name, *about;
    int steps;
    double published[COPY_KNOWN];
} copy_task[COPY_KINDS] = {
    { "rsc", "repeat one symbol n times", 1000, { 0.986, 0.771, 0.289, 0.000, 0.000 } },
    { "rdc", "replace a by b in n times a", 1000, { 0.967, 0.939, 0.170, 0.016, 0.000 } },
    { "cmc", "copy n symbols", 1200, { 0.305, 0.419, 0.331, 0.011, 0.028 } },
    { "mc", "reverse n symbols", 1200, { 0.230, 0.242, 0.171, 0.078, 0.023 } }
};

/* exact match by task, way, seed and length; copy_done: whether that task and way were run */
static double copy_share[COPY_KINDS][COPY_WAYS][MOST_SEEDS][COPY_LONG];

static int copy_done(const settings *s, int kind, int way)
{
    if (s->quick) return kind == COPY_RSC && way < COPY_KNOWN;
    return way < COPY_KNOWN || kind == COPY_RSC || kind == COPY_RDC;
}

static int copy_steps(const settings *s, int kind)
{
    return steps_of(s, 300, copy_task[kind].steps);
}

/* ---- one trial ------------------------------------------------------------------------------- */

typedef struct copy_feed {
    int kind, most;
    uint64_t seed;
    int tokens[COPY_ASKED * COPY_MOST], targets[COPY_ASKED * COPY_MOST];
    int segments[COPY_ASKED * COPY_MOST];
    double positions[COPY_ASKED * COPY_MOST];
} copy_feed;

static void copy_fill(void *user, posenc_batch *batch, int step)
{
    copy_feed *f = (copy_feed *)user;
    int T = copy_row_length(f->kind);
    for (int b = 0; b < COPY_ROWS; b++) {
        kit_random r =
            kit_random_open(f->seed, KIT_RANDOM_TRAIN, (uint64_t)step * COPY_ROWS + (uint64_t)b);
        copy_row(f->tokens + b * T, f->targets + b * T, f->segments + b * T, f->positions + b * T,
                 &r, f->kind, f->most);
    }
    batch->B = COPY_ROWS;
    batch->T = T;
    batch->tokens = f->tokens;
    batch->targets = f->targets;
    batch->segments = f->segments;
    batch->positions = f->positions;
}

/* COPY_ASKED texts of n from those that are never trained on */
static void copy_ask(copy_feed *f, posenc_batch *batch, int n)
{
    int T = copy_length(f->kind, n), symbol[COPY_LONG];
    for (int b = 0; b < COPY_ASKED; b++) {
        kit_random r = kit_random_open(f->seed, KIT_RANDOM_TEST, (uint64_t)(n * COPY_ASKED + b));
        copy_draw(symbol, &r, f->kind, n, 1);
        copy_text(f->tokens + b * T, f->targets + b * T, f->kind, symbol, n);
        copy_places(f->positions + b * T, &r, T, f->most);
    }
    memset(batch, 0, sizeof *batch);
    batch->B = COPY_ASKED;
    batch->T = T;
    batch->tokens = f->tokens;
    batch->positions = f->positions;
}

/* share of exact answers for each n */
static int copy_measure(kit_lesson *l, kit_error *why)
{
    copy_feed *f = (copy_feed *)l->how.user;
    posenc_model *m = l->how.model;
    float *logits = (float *)kit_new(COPY_ASKED * COPY_MOST * COPY_VOCAB, sizeof *logits);
    int good = 1;
    for (int n = 1; n <= COPY_LONG && good; n++) {
        posenc_batch batch;
        posenc_error said;
        copy_ask(f, &batch, n);
        good = (posenc_model_forward(m, &batch, &said) == POSENC_OK
                && posenc_model_logits(m, logits, 0, batch.B * batch.T, &said) == POSENC_OK)
            || kit_fail(why, "%s", said.text);
        l->t.value[n - 1] = good ? copy_exact_share(logits, f->targets, batch.B, batch.T) : NAN;
    }
    free(logits);
    return good;
}

/* Pre-norm with RMSNorm and ReLU and no biases, as T5 has it; so is the embedding's size. */
static posenc_config copy_config(const char *spec, uint64_t seed, int threads)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = spec;
    c.vocab = COPY_VOCAB;
    c.context = COPY_MOST;
    c.batch = COPY_ASKED;
    c.layers = 4;
    c.channels = 128;
    c.heads = 4;
    c.causal = 1;
    c.norm = POSENC_RMSNORM;
    c.no_bias = 1;
    c.embedding_init = 1;
    c.seed = seed;
    c.threads = threads;
    return c;
}

static kit_lesson copy_lesson(copy_feed *f, const settings *s, int kind, int way, int k)
{
    kit_lesson l;
    char slug[64];
    memset(&l, 0, sizeof l);
    f->kind = kind;
    f->most = copy_way[way].most;
    f->seed = s->seed + (uint64_t)k;
    l.config = copy_config(copy_way[way].spec, f->seed, s->threads);
    l.how = nano_training(NULL, copy_steps(s, kind));
    l.how.schedule.peak = 1e-3;
    l.how.fill = copy_fill;
    l.how.user = f;
    l.measure = copy_measure;
    kit_spec_slug(slug, sizeof slug, copy_way[way].spec);
    snprintf(l.t.name, sizeof l.t.name, "copying-%s-%s%s-s%" PRIu64, copy_task[kind].name, slug,
             f->most ? "-drawn" : "", f->seed);
    kit_put(&l.line,
            "extrapolate copying: --task %s --pe %s --places %d --seed %" PRIu64 " --steps %d",
            copy_task[kind].name, copy_way[way].spec, f->most, f->seed, l.how.steps);
    l.t.settings = l.line.data;
    l.t.value = copy_share[kind][way][k];
    l.t.n = COPY_LONG;
    return l;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static long copy_work(const settings *s)
{
    long steps = 0;
    for (int kind = 0; kind < COPY_KINDS; kind++)
        for (int way = 0; way < COPY_WAYS; way++)
            if (copy_done(s, kind, way)) steps += (long)s->seeds * copy_steps(s, kind);
    return steps;
}

/* all trials one after the other: made ready for a new run (run NULL), or run */
static int copy_each(const settings *s, const kit_lab *lab, kit_lab *run, kit_error *why)
{
    copy_feed *f = (copy_feed *)kit_new(1, sizeof *f);
    int code = DONE;
    for (int i = 0; i < COPY_KINDS * COPY_WAYS * s->seeds && code == DONE; i++) {
        int kind = i / s->seeds / COPY_WAYS, way = i / s->seeds % COPY_WAYS;
        if (!copy_done(s, kind, way)) continue;
        kit_lesson l = copy_lesson(f, s, kind, way, i % s->seeds);
        code = run ? kit_lesson_run(&l, run, why) : kit_trial_clear(&l.t, lab, why) ? DONE : FAILED;
        kit_text_free(&l.line);
    }
    free(f);
    return code;
}

static int copy_clear(const settings *s, const kit_lab *lab, kit_error *why)
{
    return copy_each(s, lab, NULL, why) == DONE;
}

static int copy_run(const settings *s, kit_lab *lab, kit_error *why)
{
    return copy_each(s, lab, lab, why);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* exact match of lengths from..to, over the seeds; NaN where it was not run */
static kit_spread copy_spread(const settings *s, int kind, int way, int from, int to)
{
    double v[MOST_SEEDS] = { 0 };
    for (int k = 0; k < s->seeds; k++)
        for (int n = from; n <= to; n++) v[k] += copy_share[kind][way][k][n - 1] / (to - from + 1);
    if (!copy_done(s, kind, way)) v[0] = NAN;
    return kit_spread_of(v, s->seeds);
}

static double copy_beyond(const settings *s, int kind, int way)
{
    return copy_spread(s, kind, way, COPY_SHORT + 1, COPY_LONG).mean;
}

static double copy_within(const settings *s, int kind, int way)
{
    return copy_spread(s, kind, way, 1, COPY_SHORT).mean;
}

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { COPY_CLAIMS = COPY_KINDS + 3 };

/* not a number when either is not */
static double copy_larger(double a, double b) { return a >= b || a != a ? a : b; }

static kit_claim copy_claim_order(const settings *s, int kind)
{
    const double *p = copy_task[kind].published;
    char what[200], published[160];
    double none = copy_beyond(s, kind, WAY_NONE), t5 = copy_beyond(s, kind, WAY_T5);
    double alibi = copy_beyond(s, kind, WAY_ALIBI), rope = copy_beyond(s, kind, WAY_ROPE);
    double sine = copy_beyond(s, kind, WAY_SINE), best = copy_larger(none, t5),
           least = copy_larger(rope, sine);
    snprintf(what, sizeof what,
             "%s, lengths 21 to 40: the better of `none` and `t5` is ahead of `alibi`, that of "
             "`rope` and `sinusoidal`, and these two stay below 0.1.",
             copy_task[kind].name);
    snprintf(published, sizeof published,
             "none %.3f, t5 %.3f, alibi %.3f, rope %.3f, sinusoidal %.3f", p[0], p[1], p[2], p[3],
             p[4]);
    kit_claim c = kit_claim_open(what, published);
    c.verdict = kit_judge_size(copy_done(s, kind, 0), best > alibi && alibi > least && least < 0.1,
                               best > least && least < 0.1);
    kit_claim_ours(&c, "none %.3f, t5 %.3f, alibi %.3f, rope %.3f, sinusoidal %.3f", none, t5,
                   alibi, rope, sine);
    kit_claim_reason(&c, "A small model trained for a minute: which of the ways to do it a run "
                         "finds depends on the seed (see lowest and highest), and an order among "
                         "means of so few is loose.");
    return c;
}

static kit_claim copy_claim_within(const settings *s)
{
    kit_claim c = kit_claim_open("Every encoding solves every task on lengths 1 to 20, on texts it "
                                 "was not trained on (exact match at least 0.9).",
                                 "about 0.99 up to 20 (rsc)");
    double least = HUGE_VAL;
    for (int kind = 0; kind < COPY_KINDS; kind++)
        for (int way = 0; way < COPY_KNOWN; way++) {
            double share = copy_within(s, kind, way);
            if (copy_done(s, kind, way) && least == least && !(share >= least)) least = share;
        }
    c.verdict = kit_judge(1, least >= 0.9);
    kit_claim_ours(&c, "the worst mean of a task and an encoding is %.3f", least);
    kit_claim_reason(&c, "Not trained long enough for all of them: what is lost within the length "
                         "says nothing about what happens beyond it.");
    return c;
}

static kit_claim copy_claim_cliff(const settings *s)
{
    kit_claim c = kit_claim_open("rsc at 21, one more than ever seen: `rope` and `sinusoidal` "
                                 "break down at once (below 0.1), `none` does not (above 0.9).",
                                 "rope 0.004, sinusoidal 0, none about 0.99");
    double none = copy_spread(s, COPY_RSC, WAY_NONE, 21, 21).mean;
    double rope = copy_spread(s, COPY_RSC, WAY_ROPE, 21, 21).mean;
    double sine = copy_spread(s, COPY_RSC, WAY_SINE, 21, 21).mean;
    c.verdict =
        kit_judge_size(1, rope < 0.1 && sine < 0.1 && none > 0.9, rope < none && sine < none);
    kit_claim_ours(&c, "rope %.3f, sinusoidal %.3f, none %.3f", rope, sine, none);
    return c;
}

static kit_claim copy_claim_drawn(const settings *s)
{
    kit_claim c = kit_claim_open("Drawn places carry `rope` and `sinusoidal` beyond the length: on "
                                 "the mean of rsc and rdc each gains at least 0.12.",
                                 "+0.12, mean of 15 other tasks (Ruoss et al. 2023)");
    double gain[2] = { 0, 0 };
    for (int i = 0; i < 2; i++)
        for (int kind = COPY_RSC; kind <= COPY_RDC; kind++)
            gain[i] +=
                (copy_beyond(s, kind, WAY_ROPE_DRAWN + i) - copy_beyond(s, kind, WAY_ROPE + i)) / 2;
    c.verdict = kit_judge_size(copy_done(s, COPY_RSC, WAY_ROPE_DRAWN),
                           gain[0] >= 0.12 && gain[1] >= 0.12, gain[0] > 0.02 || gain[1] > 0.02);
    kit_claim_ours(&c, "rope %+.3f, sinusoidal %+.3f", gain[0], gain[1]);
    kit_claim_reason(&c, "Gaps between places differ from text to text, so that a model has to "
                         "learn order instead of distance, and that takes longer than these runs.");
    return c;
}

static int copy_claims(kit_claim c[COPY_CLAIMS], const settings *s)
{
    int n = 0;
    for (int kind = 0; kind < COPY_KINDS; kind++) c[n++] = copy_claim_order(s, kind);
    c[n++] = copy_claim_cliff(s);
    c[n++] = copy_claim_within(s);
    c[n++] = copy_claim_drawn(s);
    return n;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void copy_put(kit_cells *c, int row, int col, kit_spread v, int seeds)
{
    if (!(v.mean == v.mean)) kit_cells_put(c, row, col, "-");
    else if (seeds == 1) kit_cells_put(c, row, col, "%.3f", v.mean);
    else kit_cells_put(c, row, col, "%.3f (%.2f..%.2f)", v.mean, v.low, v.high);
}

/* three rows for each task: published, ours beyond the length, ours within */
static kit_cells copy_cells(const settings *s)
{
    kit_cells c = kit_cells_new(1 + 3 * COPY_KINDS, 2 + COPY_KNOWN);
    kit_cells_put(&c, 0, 0, "task");
    kit_cells_put(&c, 0, 1, "lengths");
    for (int way = 0; way < COPY_KNOWN; way++)
        kit_cells_put(&c, 0, 2 + way, "%s", copy_way[way].name);
    for (int kind = 0; kind < COPY_KINDS; kind++) {
        int row = 1 + 3 * kind;
        for (int i = 0; i < 3; i++) kit_cells_put(&c, row + i, 0, "%s", copy_task[kind].name);
        kit_cells_put(&c, row, 1, "21 to 40, published");
        kit_cells_put(&c, row + 1, 1, "21 to 40, ours");
        kit_cells_put(&c, row + 2, 1, "1 to 20, ours");
        for (int way = 0; way < COPY_KNOWN; way++) {
            kit_cells_put(&c, row, 2 + way, "%.3f", copy_task[kind].published[way]);
            copy_put(&c, row + 1, 2 + way, copy_spread(s, kind, way, COPY_SHORT + 1, COPY_LONG),
                     s->seeds);
            copy_put(&c, row + 2, 2 + way, copy_spread(s, kind, way, 1, COPY_SHORT), s->seeds);
        }
    }
    return c;
}

/* places in order and places drawn, beyond the length and within */
static kit_cells copy_drawn_cells(const settings *s)
{
    static const int way[4] = { WAY_ROPE, WAY_ROPE_DRAWN, WAY_SINE, WAY_SINE_DRAWN };
    kit_cells c = kit_cells_new(5, 6);
    kit_cells_put(&c, 0, 0, "task");
    kit_cells_put(&c, 0, 1, "lengths");
    for (int i = 0; i < 4; i++) kit_cells_put(&c, 0, 2 + i, "%s", copy_way[way[i]].name);
    for (int r = 0; r < 4; r++) {
        int kind = r / 2, within = r % 2;
        kit_cells_put(&c, 1 + r, 0, "%s", copy_task[kind].name);
        kit_cells_put(&c, 1 + r, 1, within ? "1 to 20" : "21 to 40");
        for (int i = 0; i < 4; i++)
            copy_put(&c, 1 + r, 2 + i, copy_spread(s, kind, way[i], within ? 1 : COPY_SHORT + 1,
                                                   within ? COPY_SHORT : COPY_LONG), s->seeds);
    }
    return c;
}

static void copy_print(const settings *s)
{
    kit_claim c[COPY_CLAIMS];
    kit_cells table = copy_cells(s), drawn = copy_drawn_cells(s);
    printf("\nE3: exact match of repeated and copied symbols, trained on 1 to 20 (mean of %d "
           "seed%s)\n",
           s->seeds, s->seeds > 1 ? "s" : "");
    kit_cells_print(&table);
    if (!s->quick) kit_cells_print(&drawn);
    kit_print_claims("published", c, copy_claims(c, s));
    kit_cells_free(&table);
    kit_cells_free(&drawn);
}

static int copy_save_csv(const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "task,pe,places,seed,length,exact_match");
    for (int i = 0; i < COPY_KINDS * COPY_WAYS * s->seeds * COPY_LONG; i++) {
        int n = i % COPY_LONG, k = i / COPY_LONG % s->seeds;
        int way = i / COPY_LONG / s->seeds % COPY_WAYS, kind = i / COPY_LONG / s->seeds / COPY_WAYS;
        if (!copy_done(s, kind, way)) continue;
        kit_csv_text(&t, copy_task[kind].name);
        kit_csv_text(&t, copy_way[way].spec);
        kit_csv_text(&t, copy_way[way].most ? "drawn" : "in order");
        kit_csv_u64(&t, s->seed + (uint64_t)k);
        kit_csv_int(&t, n + 1);
        kit_csv_real(&t, copy_share[kind][way][k][n], 6);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "copying.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the section ----------------------------------------------------------------------------- */

static int copy_chart(kit_report *p, const settings *s, int kind, kit_error *why)
{
    double x[COPY_LONG], y[COPY_WAYS * COPY_LONG];
    const char *name[COPY_WAYS];
    char title[96], file[64];
    int lines = 0;
    snprintf(title, sizeof title, "%s: %s", copy_task[kind].name, copy_task[kind].about);
    snprintf(file, sizeof file, "copying-%s.svg", copy_task[kind].name);
    for (int way = 0; way < COPY_WAYS; way++) {
        if (!copy_done(s, kind, way)) continue;
        for (int n = 1; n <= COPY_LONG; n++) {
            x[n - 1] = n;
            y[lines * COPY_LONG + n - 1] = copy_spread(s, kind, way, n, n).mean;
        }
        name[lines++] = copy_way[way].name;
    }
    kit_chart c = chart_of(title, "n (trained on 1 to 20)", "exact answers");
    c.log_x = 0;
    c.whole_x = c.percent = 1;
    c.y_high = 1;
    return report_lines(p, s, file, &c, name, lines, x, y, COPY_LONG, why);
}

static void copy_tell_setting(kit_report *p, const settings *s)
{
    kit_report_text(p,
                    "Four tasks whose answer is as long as the question: **rsc** repeats a symbol "
                    "as often as it stands in the prompt, **rdc** writes another one as often, "
                    "**cmc** copies n symbols, **mc** reverses them. Trained on n from 1 to %d, "
                    "asked up to %d; an answer counts only if every symbol and the end are right.",
                    COPY_SHORT, COPY_LONG);
    kit_report_text(p,
                    "The model: a causal transformer of 4 layers, 128 channels and 4 heads (0.8M "
                    "parameters; the published one has 107M), %d symbols, 64 texts a step, %d "
                    "steps (cmc and mc: %d). Only the answer is learned. A quarter of all texts of "
                    "each length is kept for the test, %d of which are asked for each n. %d "
                    "seed%s.",
                    COPY_SYMBOLS, copy_steps(s, COPY_RSC), copy_steps(s, COPY_CMC), COPY_ASKED,
                    s->seeds, s->seeds > 1 ? "s (mean, lowest and highest)" : "");
    if (s->quick)
        kit_report_text(p, "This is the **quick** version, a first look: one task, one seed, "
                           "models that have hardly learned it.");
}

static void copy_tell_drawn(kit_report *p, const settings *s)
{
    kit_cells drawn = copy_drawn_cells(s);
    kit_report_text(p,
                    "**Drawn places.** What breaks `rope` and `sinusoidal` is a place they never "
                    "saw. If the places of a text are drawn out of 0 to %d and sorted, in training "
                    "and in the test (Ruoss et al. 2023), no place is new:",
                    COPY_PLACES - 1);
    kit_cells_show(p, &drawn);
    kit_cells_free(&drawn);
}

static int copy_report(kit_report *p, const settings *s, kit_error *why)
{
    kit_claim c[COPY_CLAIMS];
    kit_cells table = copy_cells(s);
    int done = 1;
    kit_report_heading(p, "E3: repeat and copy, longer than ever seen");
    copy_tell_setting(p, s);
    kit_cells_show(p, &table);
    kit_cells_free(&table);
    for (int kind = 0; kind < COPY_KINDS && done; kind++)
        if (copy_done(s, kind, 0)) done = copy_chart(p, s, kind, why);
    if (!s->quick) copy_tell_drawn(p, s);
    kit_report_claims(p, "published", c, copy_claims(c, s));
    return done && copy_save_csv(s, why);
}

static const experiment copying_experiment = {
    "copying", "E3: repeat and copy, longer than ever seen",
    "E3 repeat and copy tasks, trained on 1 to 20 symbols, asked for 40", NULL, copy_work,
    copy_clear, copy_run, copy_print, copy_report
};

#endif
