/* kit/study.h - what experiments have in common that train many models: trials from end to end,
   claims with a verdict, figures over seeds, lines in a report

   Include posenc.h first. */
#ifndef KIT_STUDY_H
#define KIT_STUDY_H

#include "cells.h"
#include "trial.h"

/* ---- lessons --------------------------------------------------------------------------------- */

/* What is trained, how, and what is asked of it then: measure fills t.value. */
typedef struct kit_lesson kit_lesson;
struct kit_lesson {
    kit_trial t;
    kit_text line;                         /* t.settings                                          */
    posenc_config config;
    kit_training how;                      /* how.model: while it is trained and measured         */
    int (*measure)(kit_lesson *l, kit_error *why);
    void *feed;                            /* data of both, freed with the lesson                 */
};

static inline int kit__lesson_learn(kit_lesson *l, kit_lab *lab, kit_error *why)
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
static inline int kit_lesson_run(kit_lesson *l, kit_lab *lab, kit_error *why)
{
    long steps = l->how.steps * (l->how.weight ? l->how.weight : 1);
    int known = kit_trial_read(&l->t, lab, why), code = known < 0 ? FAILED : DONE;
    if (known == 1) lab->bar.skipped += steps;
    if (known == 0) code = kit__lesson_learn(l, lab, why);
    lab->before += steps;
    return code;
}

/* ---- claims -------------------------------------------------------------------------------------
   What was published or is expected, what came out, and whether the two say the same. The rule
   stands in the code before anything is measured; a figure that is not a number never passes. */

typedef enum kit_verdict {
    KIT_NOT_MEASURED, KIT_REPRODUCED, KIT_DIFFERENT, KIT_NOT_REPRODUCED, KIT_VERDICTS
} kit_verdict;

typedef struct kit_claim {
    char what[240], published[200], ours[240];
    kit_verdict verdict;
    char reason[400];                      /* why, where it did not come out                      */
} kit_claim;

static inline const char *kit_verdict_word(kit_verdict v)
{
    static const char *const word[] = { "not measured", "reproduced", "different",
                                        "not reproduced" };
    return word[v];
}

/* reproduced when the rule holds; NaN in what the rule compares makes it false */
static inline kit_verdict kit_judge(int measured, int holds)
{
    return !measured ? KIT_NOT_MEASURED : holds ? KIT_REPRODUCED : KIT_NOT_REPRODUCED;
}

/* direction: the same direction but another size is different, not refuted; 0: there is none */
static inline kit_verdict kit_judge_size(int measured, int holds, int direction)
{
    return !measured ? KIT_NOT_MEASURED : holds ? KIT_REPRODUCED : direction ? KIT_DIFFERENT
                                                                             : KIT_NOT_REPRODUCED;
}

static inline kit_claim kit_claim_open(const char *what, const char *published)
{
    kit_claim c;
    memset(&c, 0, sizeof c);
    snprintf(c.what, sizeof c.what, "%s", what);
    snprintf(c.published, sizeof c.published, "%s", published);
    return c;
}

static inline const char *kit__claim_figures(const kit_claim *c)
{
    return c->verdict == KIT_NOT_MEASURED ? "-" : c->ours;
}

KIT_FORMAT(2, 3) static inline void kit_claim_ours(kit_claim *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->ours, sizeof c->ours, format, args);
    va_end(args);
}

static inline void kit_claim_reason(kit_claim *c, const char *reason)
{
    if (c->verdict == KIT_NOT_REPRODUCED || c->verdict == KIT_DIFFERENT)
        snprintf(c->reason, sizeof c->reason, "%s", reason);
}

enum { KIT_CLAIMS = 24 };
static int kit_verdicts_told[KIT_VERDICTS];  /* of all experiments in the report */

/* As a table, and below it what is known about those that differ. other: what the column beside
   ours is called, "published" or "expected". */
static inline void kit_report_claims(kit_report *p, const char *other, const kit_claim *c, int n)
{
    const char *const head[4] = { "claim", other, "ours", "verdict" };
    const char *cell[KIT_CLAIMS * 4];
    for (int i = 0; i < n; i++) {
        cell[i * 4] = c[i].what;
        cell[i * 4 + 1] = c[i].published;
        cell[i * 4 + 2] = kit__claim_figures(&c[i]);
        cell[i * 4 + 3] = kit_verdict_word(c[i].verdict);
        kit_verdicts_told[c[i].verdict]++;
    }
    kit_table table = { head, cell, n, 4, 0, NULL };
    kit_report_table(p, &table);
    for (int i = 0; i < n; i++)
        if (*c[i].reason)
            kit_report_text(p, "**%s: %s** %s", kit_verdict_word(c[i].verdict), c[i].what,
                            c[i].reason);
}

static inline void kit_print_claims(const char *other, const kit_claim *c, int n)
{
    for (int i = 0; i < n; i++)
        printf("  %-14s %s\n                 %s: %s; ours: %s\n",
               kit_verdict_word(c[i].verdict), c[i].what, other, c[i].published,
               kit__claim_figures(&c[i]));
}

/* ---- figures over seeds ---------------------------------------------------------------------- */

/* mean, lowest and highest; NaN stays NaN */
typedef struct kit_spread { double mean, low, high; } kit_spread;

static inline kit_spread kit_spread_of(const double *v, int n)
{
    kit_spread s = { 0, v[0], v[0] };
    for (int i = 0; i < n; i++) {
        s.mean += v[i] / n;
        s.low = v[i] < s.low ? v[i] : s.low;
        s.high = v[i] > s.high ? v[i] : s.high;
    }
    if (!(s.mean == s.mean)) s.low = s.high = s.mean;
    return s;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line for each name, y (names, n) over x (n); "none" is grey, a line without numbers left out.
   Saved as a file of its own and put into the report. */
static inline int kit_report_lines(kit_report *p, const char *folder, const char *file,
                                   kit_chart *c, const char *const *name, int names,
                                   const double *x, const double *y, int n, const char *caption,
                                   kit_error *why)
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
    int done = kit_save_in(folder, file, &svg, why);
    kit_report_svg(p, &svg, file, c->title, caption);
    kit_text_free(&svg);
    free(line);
    return done;
}

#endif
