/* extrapolate/trials.h - a trial of these experiments from end to end */
#ifndef EXTRAPOLATE_TRIALS_H
#define EXTRAPOLATE_TRIALS_H

#include "lab.h"

/* What is trained, how, and what is asked of it then: measure fills t.value. */
typedef struct lesson lesson;
struct lesson {
    kit_trial t;
    kit_text line;                         /* t.settings                                          */
    posenc_config config;
    kit_training how;                      /* how.model: while it is trained and measured         */
    int (*measure)(lesson *l, kit_error *why);
};

static int lesson_learn(lesson *l, kit_lab *lab, kit_error *why)
{
    posenc_error said;
    int code = DONE;
    if (posenc_model_create(&l->how.model, &l->config, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text), FAILED;
    code = kit_trial_train(&l->t, lab, &l->how, why);
    if (code == DONE && !l->measure(l, why)) code = FAILED;
    if (code == DONE && kit_stopped()) code = STOPPED;
    if (code == DONE && !kit_trial_save(&l->t, lab, why)) code = FAILED;
    posenc_model_free(l->how.model);
    return code;
}

/* Its numbers are read, or it is trained, measured and saved. DONE, FAILED or STOPPED. */
static int lesson_run(lesson *l, kit_lab *lab, kit_error *why)
{
    int known = kit_trial_read(&l->t, lab, why), code = known < 0 ? FAILED : DONE;
    if (known == 1) lab->bar.skipped += l->how.steps;
    if (known == 0) code = lesson_learn(l, lab, why);
    lab->before += l->how.steps;
    return code;
}

#endif
