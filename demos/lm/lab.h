/* lm/lab.h - what the experiments of `lm results` have in common: what was asked for, trials that
   are trained and measured once, claims with a verdict, figures over seeds, small models

   Include posenc.h first. An experiment (lm_study) says how many trials it has and makes each of
   them ready by its number; everything that runs, clears, resumes and counts them stands here. */
#ifndef LM_LAB_H
#define LM_LAB_H

#include "kit/csv.h"
#include "kit/study.h"

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

typedef struct lm_study {
    const char *name, *title;              /* name: what --only calls it                          */
    int which, numbers;                    /* numbers: of each trial                              */
    int (*trials)(const lm_setup *s);
    void (*make)(kit_lesson *l, const lm_setup *s, int trial);
    void (*print)(const lm_setup *s);      /* its table, on stdout                                */
    int (*report)(kit_report *p, const lm_setup *s, kit_error *why);      /* section, CSV and SVG */
} lm_study;

static inline double *lm_numbers(const lm_setup *s, const lm_study *e, int trial)
{
    return s->value[e->which] + (size_t)trial * (size_t)e->numbers;
}

static inline kit_lesson lm_lesson_open(const lm_setup *s, const lm_study *e, int trial)
{
    kit_lesson l;
    memset(&l, 0, sizeof l);
    l.config.threads = s->threads;
    e->make(&l, s, trial);
    l.t.settings = l.line.data;
    l.t.value = lm_numbers(s, e, trial);
    l.t.n = e->numbers;
    l.how.user = l.feed;
    return l;
}

static inline void lm_lesson_close(kit_lesson *l)
{
    kit_text_free(&l->line);
    free(l->feed);
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
        kit_lesson l = lm_lesson_open(s, e, i);
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
        kit_lesson l = lm_lesson_open(s, e, i);
        good = kit_trial_clear(&l.t, lab, why);
        lm_lesson_close(&l);
    }
    return good;
}

static inline int lm_study_run(const lm_setup *s, const lm_study *e, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    for (int i = 0; i < e->trials(s) && code == DONE; i++) {
        kit_lesson l = lm_lesson_open(s, e, i);
        code = kit_lesson_run(&l, lab, why);
        lm_lesson_close(&l);
    }
    return code;
}

/* ---- figures over seeds ---------------------------------------------------------------------- */

enum { LM_SEEDS = 20 };

/* the larger, the smaller; not a number when either is not */
static inline double lm_larger(double a, double b) { return a >= b || a != a ? a : b; }
static inline double lm_smaller(double a, double b) { return a <= b || a != a ? a : b; }

static inline void lm_put_spread(kit_cells *c, int row, int col, kit_spread v, int seeds)
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
