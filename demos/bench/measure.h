/* bench/measure.h - how long does it take? Warm up, then several samples; median, low and high */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "kit/files.h"
#include "kit/progress.h"
#include <math.h>

enum { BENCH_SAMPLES = 64, BENCH_FEWEST = 3 };      /* most samples of a work, and fewest */

typedef struct timing {                    /* seconds of one repetition                           */
    double median, low, high;
    int samples;                           /* 0: not measured                                     */
    long repetitions;                      /* in each sample                                      */
} timing;

/* Memory on the boundary of a cache line, where PyTorch puts its own; free() it. */
static inline void *bench_room(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes ? bytes : 64) == 0) return memory;
    fprintf(stderr, "out of memory: %zu bytes did not fit\n", bytes);
    exit(1);
}

static inline int bench__by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* the value in the middle; sorts v */
static inline double bench_median(double *v, int n)
{
    if (n == 0) return NAN;
    qsort(v, (size_t)n, sizeof *v, bench__by_size);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

static inline timing bench_sum_up(double *seconds, int n, long repetitions)
{
    timing t = { 0, 0, 0, 0, 0 };
    if (n == 0) return t;
    t.median = bench_median(seconds, n);
    t.low = seconds[0];
    t.high = seconds[n - 1];
    t.samples = n;
    t.repetitions = repetitions;
    return t;
}

/* Runs for the length of one sample, at least once; how many repetitions that is. The first one
   does not count unless it fills the sample alone: memory is touched for the first time. */
static inline long bench__warm_up(void (*go)(void *), void *user, double share)
{
    double began = kit_seconds(), spent;
    long n = 0;
    go(user);
    spent = kit_seconds() - began;
    if (spent >= share) return 1;
    began = kit_seconds();
    do {
        go(user);
        n++;
        spent = kit_seconds() - began;
    } while (spent < 0.5 * share && !kit_stopped());
    return (long)ceil(share / spent * (double)n);
}

/* Samples of seconds / repeats each. A work whose single repetition is longer than that gets fewer
   of them, but never fewer than BENCH_FEWEST. Ctrl-C ends it with the samples there are. */
static inline timing bench_measure(void (*go)(void *), void *user, double seconds, int repeats)
{
    double sample[BENCH_SAMPLES], began = kit_seconds();
    long repetitions = bench__warm_up(go, user, seconds / repeats);
    int n = 0;
    while (n < repeats && !kit_stopped()) {
        double start = kit_seconds();
        if (n >= BENCH_FEWEST && start - began > 8 * seconds) break;
        for (long i = 0; i < repetitions; i++) go(user);
        sample[n++] = (kit_seconds() - start) / (double)repetitions;
    }
    return bench_sum_up(sample, n, repetitions);
}

#endif
