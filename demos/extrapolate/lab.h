/* extrapolate/lab.h - what the experiments share: settings, the shape of one, and verdicts */
#ifndef EXTRAPOLATE_LAB_H
#define EXTRAPOLATE_LAB_H

#include "kit/csv.h"
#include "kit/study.h"

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

/* ---- seeds ----------------------------------------------------------------------------------- */

enum { MOST_SEEDS = 20 };

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

/* the same in the report and as a file of its own, on an axis that has room */
static int report_lines(kit_report *p, const settings *s, const char *file, kit_chart *c,
                        const char *const *name, int names, const double *x, const double *y, int n,
                        kit_error *why)
{
    if (c->log_y == 0 && c->y_low == 0 && c->y_high == 0) chart_room(c, y, names * n);
    return kit_report_lines(p, s->out, file, c, name, names, x, y, n, "", why);
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
