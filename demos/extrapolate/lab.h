/* extrapolate/lab.h - what the experiments share: settings, the shape of one, and verdicts */
#ifndef EXTRAPOLATE_LAB_H
#define EXTRAPOLATE_LAB_H

#include "kit/cells.h"
#include "kit/csv.h"
#include "kit/trial.h"

typedef struct settings {
    kit_list pe;
    const char *text, *out;
    int seeds, steps, threads, resume, quick, quiet;         /* steps 0: as many as usual */
    uint64_t seed;                         /* the first of `seeds`                                */
    kit_corpus corpus;                     /* open before any experiment runs                     */
} settings;

/* training steps of an experiment: what was asked for, or its own numbers */
static int steps_of(const settings *s, int quick, int full)
{
    return s->steps ? s->steps : s->quick ? quick : full;
}

/* An experiment is one command of the program and one section of the report. Its figures live in
   its own file; run fills them, trial by trial, and the others read them. */
typedef struct experiment {
    const char *name, *title;              /* name: the command                                   */
    const char *help;                      /* its line in --help                                  */
    int (*check)(const settings *s, kit_args *a);    /* what cannot be; may be NULL */
    long (*work)(const settings *s);       /* steps it trains, for the bar                        */
    int (*clear)(const settings *s, const kit_lab *lab, kit_error *why); /* kit_trial_clear, each */
    int (*run)(const settings *s, kit_lab *lab, kit_error *why);         /* DONE, FAILED, STOPPED */
    void (*print)(const settings *s);      /* its table, on stdout                                */
    int (*report)(kit_report *p, const settings *s, kit_error *why);  /* its section, CSV and SVG */
} experiment;

/* ---- verdicts -----------------------------------------------------------------------------------
   A published result, ours beside it, and whether the two say the same. The rule stands in the code
   before anything is measured; a figure that is not a number never passes. */

typedef enum verdict { NOT_MEASURED, REPRODUCED, DIFFERENT, NOT_REPRODUCED } verdict;

typedef struct claim {
    char what[200], published[160], ours[160];
    verdict verdict;
    char reason[400];                      /* why, where it is not reproduced                     */
} claim;

static const char *verdict_word(verdict v)
{
    static const char *const word[] = { "not measured", "reproduced", "different",
                                        "not reproduced" };
    return word[v];
}

/* reproduced when the rule holds; NaN in what the rule compares makes it false */
static verdict judge(int measured, int holds)
{
    return !measured ? NOT_MEASURED : holds ? REPRODUCED : NOT_REPRODUCED;
}

/* the same direction but another size is different, not refuted */
static verdict judge_size(int measured, int holds, int direction)
{
    return !measured ? NOT_MEASURED : holds ? REPRODUCED : direction ? DIFFERENT : NOT_REPRODUCED;
}

static const char *claim_figures(const claim *c)
{
    return c->verdict == NOT_MEASURED ? "-" : c->ours;
}

KIT_FORMAT(2, 3) static void claim_ours(claim *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->ours, sizeof c->ours, format, args);
    va_end(args);
}

static claim claim_open(const char *what, const char *published)
{
    claim c;
    memset(&c, 0, sizeof c);
    snprintf(c.what, sizeof c.what, "%s", what);
    snprintf(c.published, sizeof c.published, "%s", published);
    return c;
}

/* why a claim did not come out, where it did not */
static void claim_reason(claim *c, const char *reason)
{
    if (c->verdict == NOT_REPRODUCED || c->verdict == DIFFERENT)
        snprintf(c->reason, sizeof c->reason, "%s", reason);
}

enum { CLAIM_COLUMNS = 4, MOST_CLAIMS = 24 };

static int verdicts_told[NOT_REPRODUCED + 1];     /* of all experiments in the report */

/* the verdicts as a table, and below it what is known about those that differ */
static void report_claims(kit_report *p, const claim *c, int n)
{
    static const char *const head[CLAIM_COLUMNS] = { "claim", "published", "ours", "verdict" };
    const char *cell[MOST_CLAIMS * CLAIM_COLUMNS];
    for (int i = 0; i < n; i++) {
        cell[i * CLAIM_COLUMNS] = c[i].what;
        cell[i * CLAIM_COLUMNS + 1] = c[i].published;
        cell[i * CLAIM_COLUMNS + 2] = claim_figures(&c[i]);
        cell[i * CLAIM_COLUMNS + 3] = verdict_word(c[i].verdict);
        verdicts_told[c[i].verdict]++;
    }
    kit_table table = { head, cell, n, CLAIM_COLUMNS, 0, NULL };
    kit_report_table(p, &table);
    for (int i = 0; i < n; i++)
        if (*c[i].reason)
            kit_report_text(p, "**%s: %s** %s", verdict_word(c[i].verdict), c[i].what, c[i].reason);
}

static void print_claims(const claim *c, int n)
{
    for (int i = 0; i < n; i++)
        printf("  %-14s %s\n                 published: %s; ours: %s\n", verdict_word(c[i].verdict),
               c[i].what, c[i].published, claim_figures(&c[i]));
}

/* ---- seeds ----------------------------------------------------------------------------------- */

enum { MOST_SEEDS = 20 };

/* mean, lowest and highest over the seeds; NaN stays NaN */
typedef struct spread { double mean, low, high; } spread;

static spread spread_of(const double *v, int n)
{
    spread s = { 0, v[0], v[0] };
    for (int i = 0; i < n; i++) {
        s.mean += v[i] / n;
        s.low = v[i] < s.low ? v[i] : s.low;
        s.high = v[i] > s.high ? v[i] : s.high;
    }
    if (!(s.mean == s.mean)) s.low = s.high = s.mean;
    return s;
}

/* ---- charts ---------------------------------------------------------------------------------- */

/* a little room above and below, so that no line runs along the frame */
static void chart_room(kit_chart *c, const double *y, int n)
{
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int i = 0; i < n; i++)
        if (isfinite(y[i])) {
            low = fmin(low, y[i]);
            high = fmax(high, y[i]);
        }
    if (!(high > low)) return;
    c->y_low = low - 0.05 * (high - low);
    c->y_high = high + 0.05 * (high - low);
}

static int has_numbers(const double *y, int n)
{
    for (int i = 0; i < n; i++)
        if (isfinite(y[i])) return 1;
    return 0;
}

/* A line for each name, y (names, n) over x (n); those called "none" are grey, those without a
   number left out. Title, labels and axes come in *c. Saved as a file of its own and put into the
   report. */
static int report_lines(kit_report *p, const settings *s, const char *file, kit_chart *c,
                        const char *const *name, int names, const double *x, const double *y, int n,
                        kit_error *why)
{
    kit_series *line = (kit_series *)kit_new((size_t)names, sizeof *line);
    kit_text svg = { NULL, 0, 0 };
    for (int i = 0; i < names; i++) {
        kit_series one = { name[i], x, y + i * n, n, strcmp(name[i], "none") == 0 };
        if (has_numbers(one.y, n)) line[c->count++] = one;
    }
    c->series = line;
    if (c->log_y == 0 && c->y_low == 0 && c->y_high == 0) chart_room(c, y, names * n);
    kit_chart_svg(&svg, c);
    int done = kit_save_in(s->out, file, &svg, why);
    kit_report_svg(p, &svg, file, c->title, "");
    kit_text_free(&svg);
    free(line);
    return done;
}

static kit_chart chart_of(const char *title, const char *x_label, const char *y_label)
{
    kit_chart c;
    memset(&c, 0, sizeof c);
    c.title = title;
    c.x_label = x_label;
    c.y_label = y_label;
    c.log_x = 2;
    return c;
}

/* ---- the small language model ---------------------------------------------------------------- */

/* nano: RMSNorm, SwiGLU, QK-norm, tied head; 467,808 parameters without an encoding's. The
   embedding is multiplied by sqrt(channels) as in Vaswani et al.: without that waves of height 1
   drown tokens of 0.02, and sinusoidal is still at the letters' frequencies when others read
   words. */
enum { NANO_BATCH = 32, NANO_CONTEXT = 128 };

static posenc_config nano_config(const char *spec, uint64_t seed)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = spec;
    c.vocab = 256;
    c.context = NANO_CONTEXT;
    c.batch = NANO_BATCH;
    c.layers = 3;
    c.channels = 96;
    c.heads = 3;
    c.hidden = 384;
    c.causal = 1;
    c.norm = POSENC_RMSNORM;
    c.activation = POSENC_SWIGLU;
    c.no_bias = 1;
    c.qk_norm = POSENC_QK_NORM_BEFORE;
    c.tied_head = 1;
    c.scale_embedding = 1;
    c.seed = seed;
    return c;
}

/* AdamW .9/.95, decay .1, clip 1; 2e-3 after a warm-up, falling over the last fifth */
static kit_training nano_training(posenc_model *m, int steps)
{
    kit_training t;
    memset(&t, 0, sizeof t);
    t.model = m;
    t.steps = steps;
    t.optimizer.beta1 = 0.9;
    t.optimizer.beta2 = 0.95;
    t.optimizer.decay = 0.1;
    t.optimizer.clip = 1;
    t.schedule.kind = POSENC_WSD;
    t.schedule.peak = 2e-3;
    t.schedule.warmup = steps / 15;
    t.schedule.total = steps;
    t.schedule.decay = steps / 5;
    return t;
}

#endif
