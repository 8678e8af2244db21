/* lm/lab.h - what the experiments of `lm results` have in common: what was asked for, trials that
   are trained and measured once, claims with a verdict, figures over seeds, small models

   Include posenc.h first. An experiment (lm_study) says how many trials it has and makes each of
   them ready by its number; everything that runs, clears, resumes and counts them stands here. */
#ifndef LM_LAB_H
#define LM_LAB_H

#include "kit/cells.h"
#include "kit/csv.h"
#include "kit/trial.h"

enum { LM_WORDS, LM_SUMS, LM_DISTANCE, LM_STUDIES };

typedef struct lm_setup {
    kit_list pe;
    const char *text, *out, *only;         /* only: one of the experiments; NULL: all             */
    int seeds, steps, threads, resume, quick, quiet;         /* steps 0: as many as usual         */
    uint64_t seed;                         /* the first of `seeds`                                */
    kit_corpus corpus;                     /* open when words are measured, else empty            */
    spec_text spec[KIT_LIST_ROOM];         /* of words                                            */
    int specs;
    double *value[LM_STUDIES];             /* (trials, numbers) of each experiment                */
} lm_setup;

static inline int lm_steps_of(const lm_setup *s, int quick, int full)
{
    return s->steps ? s->steps : s->quick ? quick : full;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* What is trained, how, and what is asked of it then: measure fills t.value. */
typedef struct lm_lesson lm_lesson;
struct lm_lesson {
    kit_trial t;
    kit_text line;                         /* t.settings                                          */
    posenc_config config;
    kit_training how;                      /* how.model: while it is trained and measured         */
    int (*measure)(lm_lesson *l, kit_error *why);
    void *feed;                            /* data of both, freed with the lesson                 */
};

typedef struct lm_study {
    const char *name, *title;              /* name: what --only calls it                          */
    int which, numbers;                    /* numbers: of each trial                              */
    int (*trials)(const lm_setup *s);
    void (*make)(lm_lesson *l, const lm_setup *s, int trial);
    void (*print)(const lm_setup *s);      /* its table, on stdout                                */
    int (*report)(kit_report *p, const lm_setup *s, kit_error *why);      /* section, CSV and SVG */
} lm_study;

static inline double *lm_numbers(const lm_setup *s, const lm_study *e, int trial)
{
    return s->value[e->which] + (size_t)trial * (size_t)e->numbers;
}

static inline lm_lesson lm_lesson_open(const lm_setup *s, const lm_study *e, int trial)
{
    lm_lesson l;
    memset(&l, 0, sizeof l);
    l.config.threads = s->threads;
    e->make(&l, s, trial);
    l.t.settings = l.line.data;
    l.t.value = lm_numbers(s, e, trial);
    l.t.n = e->numbers;
    l.how.user = l.feed;
    return l;
}

static inline void lm_lesson_close(lm_lesson *l)
{
    kit_text_free(&l->line);
    free(l->feed);
}

static inline int lm__lesson_learn(lm_lesson *l, kit_lab *lab, kit_error *why)
{
    posenc_error said;
    if (posenc_model_create(&l->how.model, &l->config, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text), FAILED;
    int code = kit_trial_train(&l->t, lab, &l->how, why);
    if (code == DONE && !l->measure(l, why)) code = FAILED;
    if (code == DONE && kit_stopped()) code = STOPPED;
    if (code == DONE && !kit_trial_save(&l->t, lab, why)) code = FAILED;
    posenc_model_free(l->how.model);
    return code;
}

/* Its numbers are read, or it is trained, measured and saved. DONE, FAILED or STOPPED. */
static inline int lm_lesson_run(lm_lesson *l, kit_lab *lab, kit_error *why)
{
    long steps = l->how.steps * (l->how.weight ? l->how.weight : 1);
    int known = kit_trial_read(&l->t, lab, why), code = known < 0 ? FAILED : DONE;
    if (known == 1) lab->bar.skipped += steps;
    if (known == 0) code = lm__lesson_learn(l, lab, why);
    lab->before += steps;
    return code;
}

static inline void lm_study_room(lm_setup *s, const lm_study *e)
{
    size_t n = (size_t)e->trials(s) * (size_t)e->numbers;
    s->value[e->which] = (double *)kit_new(n, sizeof(double));
}

static inline long lm_study_work(const lm_setup *s, const lm_study *e)
{
    long work = 0;
    for (int i = 0; i < e->trials(s); i++) {
        lm_lesson l = lm_lesson_open(s, e, i);
        work += l.how.steps * (l.how.weight ? l.how.weight : 1);
        lm_lesson_close(&l);
    }
    return work;
}

static inline int lm_study_clear(const lm_setup *s, const lm_study *e, const kit_lab *lab,
                                 kit_error *why)
{
    int good = 1;
    for (int i = 0; i < e->trials(s) && good; i++) {
        lm_lesson l = lm_lesson_open(s, e, i);
        good = kit_trial_clear(&l.t, lab, why);
        lm_lesson_close(&l);
    }
    return good;
}

static inline int lm_study_run(const lm_setup *s, const lm_study *e, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    for (int i = 0; i < e->trials(s) && code == DONE; i++) {
        lm_lesson l = lm_lesson_open(s, e, i);
        code = lm_lesson_run(&l, lab, why);
        lm_lesson_close(&l);
    }
    return code;
}

/* ---- claims -------------------------------------------------------------------------------------
   What is expected, what came out, and whether the two say the same. The rule stands in the code
   before anything is measured; a figure that is not a number never passes. */

typedef enum lm_verdict {
    LM_NOT_MEASURED, LM_REPRODUCED, LM_DIFFERENT, LM_NOT_REPRODUCED, LM_VERDICTS
} lm_verdict;

typedef struct lm_claim {
    char what[240], expected[200], ours[240];
    lm_verdict verdict;
    char reason[400];                      /* why, where it did not come out                      */
} lm_claim;

static inline const char *lm_verdict_word(lm_verdict v)
{
    static const char *const word[] = { "not measured", "reproduced", "different",
                                        "not reproduced" };
    return word[v];
}

/* direction: the same direction but another size is different, not refuted; 0: there is none */
static inline lm_verdict lm_judge(int measured, int holds, int direction)
{
    return !measured ? LM_NOT_MEASURED : holds ? LM_REPRODUCED : direction ? LM_DIFFERENT
                                                                           : LM_NOT_REPRODUCED;
}

static inline lm_claim lm_claim_open(const char *what, const char *expected)
{
    lm_claim c;
    memset(&c, 0, sizeof c);
    snprintf(c.what, sizeof c.what, "%s", what);
    snprintf(c.expected, sizeof c.expected, "%s", expected);
    return c;
}

KIT_FORMAT(2, 3) static inline void lm_claim_ours(lm_claim *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (c->verdict == LM_NOT_MEASURED) snprintf(c->ours, sizeof c->ours, "-");
    else vsnprintf(c->ours, sizeof c->ours, format, args);
    va_end(args);
}

static inline void lm_claim_reason(lm_claim *c, const char *reason)
{
    if (c->verdict == LM_NOT_REPRODUCED || c->verdict == LM_DIFFERENT)
        snprintf(c->reason, sizeof c->reason, "%s", reason);
}

enum { LM_CLAIMS = 24 };
static int lm_verdicts_told[LM_VERDICTS];  /* of all experiments in the report */

/* as a table, and below it what is known about those that differ */
static inline void lm_report_claims(kit_report *p, const lm_claim *c, int n)
{
    static const char *const head[4] = { "claim", "expected", "ours", "verdict" };
    const char *cell[LM_CLAIMS * 4];
    for (int i = 0; i < n; i++) {
        cell[i * 4] = c[i].what;
        cell[i * 4 + 1] = c[i].expected;
        cell[i * 4 + 2] = c[i].ours;
        cell[i * 4 + 3] = lm_verdict_word(c[i].verdict);
        lm_verdicts_told[c[i].verdict]++;
    }
    kit_table table = { head, cell, n, 4, 0, NULL };
    kit_report_table(p, &table);
    for (int i = 0; i < n; i++)
        if (*c[i].reason)
            kit_report_text(p, "**%s: %s** %s", lm_verdict_word(c[i].verdict), c[i].what,
                            c[i].reason);
}

static inline void lm_print_claims(const lm_claim *c, int n)
{
    for (int i = 0; i < n; i++)
        printf("  %-14s %s\n                 expected: %s; ours: %s\n",
               lm_verdict_word(c[i].verdict), c[i].what, c[i].expected, c[i].ours);
}

/* ---- figures over seeds ---------------------------------------------------------------------- */

enum { LM_SEEDS = 20 };

/* mean, lowest and highest; NaN stays NaN */
typedef struct lm_spread { double mean, low, high; } lm_spread;

static inline lm_spread lm_spread_of(const double *v, int n)
{
    lm_spread s = { 0, v[0], v[0] };
    for (int i = 0; i < n; i++) {
        s.mean += v[i] / n;
        s.low = v[i] < s.low ? v[i] : s.low;
        s.high = v[i] > s.high ? v[i] : s.high;
    }
    if (!(s.mean == s.mean)) s.low = s.high = s.mean;
    return s;
}

/* the larger, the smaller; not a number when either is not */
static inline double lm_larger(double a, double b) { return a >= b || a != a ? a : b; }
static inline double lm_smaller(double a, double b) { return a <= b || a != a ? a : b; }

static inline void lm_put_spread(kit_cells *c, int row, int col, lm_spread v, int seeds)
{
    if (!(v.mean == v.mean)) kit_cells_put(c, row, col, "-");
    else if (seeds == 1) kit_cells_put(c, row, col, "%.3f", v.mean);
    else kit_cells_put(c, row, col, "%.3f (%.3f..%.3f)", v.mean, v.low, v.high);
}

/* ---- charts ---------------------------------------------------------------------------------- */

static inline kit_chart lm_chart_of(const char *title, const char *x_label, const char *y_label)
{
    kit_chart c;
    memset(&c, 0, sizeof c);
    c.title = title;
    c.x_label = x_label;
    c.y_label = y_label;
    return c;
}

/* A line for each name, y (names, n) over x (n); "none" is grey, a line without numbers left out.
   Saved as a file of its own and put into the report. */
static inline int lm_report_lines(kit_report *p, const lm_setup *s, const char *file, kit_chart *c,
                                  const char *const *name, int names, const double *x,
                                  const double *y, int n, const char *caption, kit_error *why)
{
    kit_series *line = (kit_series *)kit_new((size_t)names, sizeof *line);
    kit_text svg = { NULL, 0, 0 };
    for (int i = 0; i < names; i++) {
        kit_series one = { name[i], x, y + i * n, n, strcmp(name[i], "none") == 0 };
        int numbers = 0;
        for (int k = 0; k < n; k++) numbers += isfinite(one.y[k]) != 0;
        if (numbers) line[c->count++] = one;
    }
    c->series = line;
    kit_chart_svg(&svg, c);
    int done = kit_save_in(s->out, file, &svg, why);
    kit_report_svg(p, &svg, file, c->title, caption);
    kit_text_free(&svg);
    free(line);
    return done;
}

/* shares from 0 to 1 in cells; the warmth begins at `low`, what guessing gets */
static inline int lm_report_heat(kit_report *p, const lm_setup *s, const char *file,
                                 const char *title, const char *x_label, const char *const *row,
                                 int rows, const char *const *col, int cols, const double *value,
                                 double low, kit_error *why)
{
    kit_heat h = { title, x_label, row, col, value, rows, cols, low, 1 };
    kit_text svg = { NULL, 0, 0 };
    kit_heat_svg(&svg, &h);
    int done = kit_save_in(s->out, file, &svg, why);
    kit_report_svg(p, &svg, file, title, "");
    kit_text_free(&svg);
    return done;
}

/* ---- small models ---------------------------------------------------------------------------- */

/* nano: RMSNorm, SwiGLU, no biases, tied head, QK-norm before the turn */
static inline void lm_nano(posenc_config *c, const char *spec, uint64_t seed)
{
    c->encoding = spec;
    c->vocab = 256;
    c->context = 128;
    c->batch = 32;
    c->layers = 3;
    c->channels = 96;
    c->heads = 3;
    c->hidden = 384;
    c->causal = 1;
    c->norm = POSENC_RMSNORM;
    c->norm_eps = 1e-5;
    c->activation = POSENC_SWIGLU;
    c->no_bias = 1;
    c->qk_norm = POSENC_QK_NORM_BEFORE;
    c->tied_head = 1;
    c->scale_embedding = 1;
    c->seed = seed;
}

/* AdamW .9/.95, decay .1, clip 1; warm-up over an eighth, falling over the last fifth. A shorter
   warm-up cost runs of the tasks: alibi found no key in 600 steps after 40 of it, and nearly all
   by step 390 after 66. */
static inline void lm_plan(kit_training *t, double rate, int steps)
{
    t->steps = steps;
    t->optimizer.beta1 = 0.9;
    t->optimizer.beta2 = 0.95;
    t->optimizer.decay = 0.1;
    t->optimizer.clip = 1;
    t->schedule.kind = POSENC_WSD;
    t->schedule.peak = rate;
    t->schedule.warmup = steps / 8;
    t->schedule.total = steps;
    t->schedule.decay = steps / 5;
}

/* Whether the most likely token is the target, a tie or NaN being wrong. The model was shown the
   right answer up to each place: as long as all were right it has seen what it would have written,
   so that all of an answer right is the exact match of greedy decoding. */
static inline int lm_is_right(const float *logits, int vocab, int target)
{
    for (int v = 0; v < vocab; v++)
        if (v != target && !(logits[v] < logits[target])) return 0;
    return logits[target] == logits[target];
}

/* the logits of all rows of a batch */
static inline int lm_ask(posenc_model *m, const posenc_batch *batch, float *logits, kit_error *why)
{
    posenc_error said;
    if (posenc_model_forward(m, batch, &said) == POSENC_OK
        && posenc_model_logits(m, logits, 0, batch->B * batch->T, &said) == POSENC_OK)
        return 1;
    return kit_fail(why, "%s", said.text);
}

#endif
