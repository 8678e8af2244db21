/* bench/costs.h - what each encoding of the table costs, as a multiple of a step without any

   The models take turns: a sample of none, then one of each of a few encodings, and again. An
   encoding's ratio is taken within its turn, so that a machine that becomes slower during the
   experiment makes all of them slower and none of them worse. */
#ifndef BENCH_COSTS_H
#define BENCH_COSTS_H

#include "bench/scaling.h"

enum { COST_LENGTHS = 3, CHUNK = 8 };      /* CHUNK: models that take turns, none is the first    */

static const int cost_lengths[COST_LENGTHS] = { 32, 512, 4096 };

typedef struct cost {
    double ratio, low, high;               /* to none; NAN: not measured                          */
    double tokens;                         /* in a second                                         */
} cost;

typedef struct costs {
    cost at[POSENC_ENCODING_COUNT][COST_LENGTHS];
    char wrong[POSENC_ENCODING_COUNT][400];             /* why it could not run; empty: it could  */
} costs;

/* the models of a turn */
typedef struct turns {
    stage stage[CHUNK];
    int encoding[CHUNK], count;
    double seconds[CHUNK][BENCH_SAMPLES];
    int samples;
} turns;

static void turns_add(turns *t, costs *all, int e, int T)
{
    posenc_config c = small_model(posenc_encoding_get(e)->name, T, batch_for(T));
    kit_error why;
    stage *s = &t->stage[t->count];
    int fine = small_start(s, &c, &why);
    if (fine) step_go(s);                                  /* touches its memory */
    if (fine && s->wrong.text[0]) fine = kit_fail(&why, "%s", s->wrong.text);
    if (!fine) {
        stage_close(s);
        snprintf(all->wrong[e], sizeof all->wrong[e], "at %d tokens: %.380s", T, why.text);
        return;
    }
    t->encoding[t->count++] = e;
}

static double turn_seconds(stage *s, long repetitions)
{
    double began = kit_seconds();
    for (long i = 0; i < repetitions; i++) step_go(s);
    return (kit_seconds() - began) / (double)repetitions;
}

static void turns_measure(turns *t, const settings *set)
{
    double share = set->seconds / set->repeats;
    long repetitions = bench__warm_up(step_go, &t->stage[0], share);
    for (t->samples = 0; t->samples < set->repeats && !kit_stopped(); t->samples++)
        for (int i = 0; i < t->count; i++)
            t->seconds[i][t->samples] = turn_seconds(&t->stage[i], repetitions);
}

static void turns_read(turns *t, costs *all, int at)
{
    double ratio[BENCH_SAMPLES];
    for (int i = 0; i < t->count; i++) {
        cost *c = &all->at[t->encoding[i]][at];
        for (int k = 0; k < t->samples; k++) ratio[k] = t->seconds[i][k] / t->seconds[0][k];
        timing r = bench_sum_up(ratio, t->samples, 1);
        c->ratio = r.median;
        c->low = r.low;
        c->high = r.high;
    }
    for (int i = 0; i < t->count; i++)
        all->at[t->encoding[i]][at].tokens =
            STEP_TOKENS / bench_median(t->seconds[i], t->samples);
}

/* none and the next few; returns where to go on */
static int turns_run(scaling *a, costs *all, int first, int at)
{
    static turns t;
    int e = first;
    memset(&t, 0, sizeof t);
    turns_add(&t, all, POSENC_NONE, cost_lengths[at]);
    if (t.count == 0) return POSENC_ENCODING_COUNT;        /* no measure, no ratios */
    for (; e < POSENC_ENCODING_COUNT && t.count < CHUNK; e++)
        if (e != POSENC_NONE) turns_add(&t, all, e, cost_lengths[at]);
    turns_measure(&t, a->set);
    if (t.samples) turns_read(&t, all, at);
    for (int i = 0; i < t.count; i++) stage_close(&t.stage[i]);
    return e;
}

static void measure_costs(scaling *a, costs *all)
{
    cost nothing = { NAN, NAN, NAN, NAN };
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++)
        for (int at = 0; at < COST_LENGTHS; at++) all->at[e][at] = nothing;
    for (int at = 0; at < COST_LENGTHS; at++)
        for (int e = 0; e < POSENC_ENCODING_COUNT && !kit_stopped(); ) {
            int next = turns_run(a, all, e, at);
            a->done += next - e;
            kit_progress_at(&a->bar, a->done, posenc_encoding_get(next - 1)->name);
            e = next;
        }
}

#endif
