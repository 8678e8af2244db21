/* kit/training.h - train a model for so many steps, and go on after whatever stopped it

   Everything that decides a step is a function of the step's number (data, dropout, rate), so a run
   that was killed and goes on from its checkpoint leaves the same bits as one that was not. The
   checkpoint's note has the settings on its first line, so that --resume cannot mix two
   experiments, and the curve of the loss behind it. Include posenc.h first. */
#ifndef KIT_TRAINING_H
#define KIT_TRAINING_H

#include "progress.h"
#include "specs.h"

enum { DONE = 0, FAILED = 1, STOPPED = 130 };      /* exit codes, beside args.h's 2; 130: Ctrl-C */
enum { KIT_TRAIN_POINTS = 50, KIT_TRAIN_SAVE_SECONDS = 20 };

typedef struct kit_training {
    posenc_model *model;
    posenc_optimizer optimizer;
    posenc_schedule schedule;
    int steps;
    void (*fill)(void *user, posenc_batch *batch, int step);      /* tokens and targets of a step */
    void *user;
    const char *settings;                  /* one line of flags: what decides the figures         */
    const char *path;                      /* of the checkpoint; NULL: none is kept               */
    int resume;                            /* 0: what stands at path is overwritten               */
    long weight;                           /* what a step counts for on the bar; 0: 1             */
    double loss[KIT_TRAIN_POINTS];         /* out: means over steps/KIT_TRAIN_POINTS steps each   */
    int points;                            /* out: how many of them are done                      */
    double sum;                            /* of the point under way                              */
    int since;
    int diverged;                          /* out: 1 when it failed on a loss or gradient that is
                                              not finite, which may be what one wants to know     */
} kit_training;

/* the step behind which point i ends */
static inline int kit_train_step_of(const kit_training *t, int i)
{
    return (int)((int64_t)t->steps * (i + 1) / KIT_TRAIN_POINTS);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static inline int kit__train_save(const kit_training *t, kit_error *why)
{
    posenc_error said;
    kit_text note = { NULL, 0, 0 };
    if (!t->path) return 1;
    kit_put(&note, "%s\npoints %d since %d sum %.17g\n", t->settings, t->points, t->since, t->sum);
    for (int i = 0; i < t->points; i++) kit_put(&note, "%.17g\n", t->loss[i]);
    posenc_status status = posenc_model_save(t->model, t->path, POSENC_WEIGHTS_AND_STATE, note.data,
                                             &said);
    kit_text_free(&note);
    return status == POSENC_OK ? 1 : kit_fail(why, "%s", said.text);
}

/* the curve so far; a file may say anything, so every number is held against what it can be */
static inline int kit__train_read_curve(kit_training *t, const char *line)
{
    int used = 0;
    if (sscanf(line, "points %d since %d sum %lf\n%n", &t->points, &t->since, &t->sum, &used) != 3
        || t->points < 0 || t->points > KIT_TRAIN_POINTS || t->since < 0) return 0;
    for (int i = 0; i < t->points; i++) {
        line += used;
        if (sscanf(line, "%lf\n%n", &t->loss[i], &used) != 1) return 0;
    }
    int begun = t->points ? kit_train_step_of(t, t->points - 1) : 0;
    return posenc_model_steps(t->model) == (uint64_t)begun + (uint64_t)t->since;
}

static inline int kit__train_load(kit_training *t, kit_error *why)
{
    enum { ROOM = 4 * POSENC_SPEC_TEXT + 64 * KIT_TRAIN_POINTS };
    posenc_error said;
    kit_text ours = { NULL, 0, 0 };
    char *note = (char *)kit_new(ROOM, 1);
    kit_put(&ours, "%s\n", t->settings);
    int good = posenc_model_load(t->model, t->path, POSENC_WEIGHTS_AND_STATE, note, ROOM, &said)
                   == POSENC_OK || kit_fail(why, "%s", said.text);
    good = good && kit_note_begins(note, &ours, t->path, why);
    if (good && !kit__train_read_curve(t, note + ours.size))
        good = kit_fail(why, "%s has a damaged note", t->path);
    if (good && posenc_model_steps(t->model) > (uint64_t)t->steps)
        good = kit_fail(why, "%s has been trained for %" PRIu64 " steps already, more than %d",
                        t->path, posenc_model_steps(t->model), t->steps);
    kit_text_free(&ours);
    free(note);
    return good;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static inline int kit__train_step(kit_training *t, int step, kit_error *why)
{
    posenc_batch batch;
    posenc_error said;
    double loss;
    memset(&batch, 0, sizeof batch);
    t->fill(t->user, &batch, step);
    posenc_status status = posenc_model_train(t->model, &batch, &loss, &said);
    if (status == POSENC_OK)
        status = posenc_model_update(t->model, &t->optimizer, posenc_rate(&t->schedule, step), NULL,
                                     &said);
    t->diverged = status == POSENC_NOT_FINITE;
    if (status != POSENC_OK) return kit_fail(why, "%s", said.text);
    t->sum += loss;
    t->since++;
    if (step + 1 == kit_train_step_of(t, t->points)) {
        t->loss[t->points++] = t->sum / t->since;
        t->sum = t->since = 0;
    }
    return 1;
}

/* From the start, or from the checkpoint, to the last step, which leaves a checkpoint. The bar
   shows `before` + the steps done here. Returns DONE, FAILED, or STOPPED after Ctrl-C. steps must
   be at least KIT_TRAIN_POINTS. */
static inline int kit_train(kit_training *t, kit_progress *bar, long before, const char *label,
                            kit_error *why)
{
    double saved = kit_seconds();
    long weight = t->weight ? t->weight : 1;
    t->points = t->since = t->diverged = 0;
    t->sum = 0;
    if (t->path && t->resume && kit_exists(t->path) && !kit__train_load(t, why)) return FAILED;
    int step = (int)posenc_model_steps(t->model), first = step;
    bar->skipped += weight * step;
    for (; step < t->steps && !kit_stopped(); step++) {
        if (!kit__train_step(t, step, why)) return FAILED;
        kit_progress_at(bar, before + weight * (step + 1), label);
        if (kit_seconds() - saved < KIT_TRAIN_SAVE_SECONDS || step + 1 == t->steps) continue;
        if (!kit__train_save(t, why)) return FAILED;
        saved = kit_seconds();
    }
    if (step > first && !kit__train_save(t, why)) return FAILED;
    return step < t->steps ? STOPPED : DONE;
}

#endif
