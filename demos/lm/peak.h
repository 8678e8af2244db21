/* lm/peak.h - what the machine can do at most, to hold a model's arithmetic against

   Bench's loops of multiply-adds in registers [bench/peak.h], in tries so short that many of them
   come through whole on a machine that others use too. Include posenc.h first. */
#ifndef LM_PEAK_H
#define LM_PEAK_H

#if defined(__GNUC__)                      /* not all of it is used here                          */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "bench/peak.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

enum { LM_PEAK_TURNS = 50000, LM_PEAK_TRIES = 60 };      /* a try takes 0.2 to 0.5 ms             */

/* seconds of one try on all threads */
static inline double lm__peak_try(const bench_loop *loop, int threads)
{
    static volatile float sink;
    double began = kit_seconds();
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int t = 0; t < threads; t++) {
        float left = loop->turns(LM_PEAK_TURNS);
        if (left < 0) sink = left;         /* never, but the compiler cannot know                 */
    }
    (void)sink;
    return kit_seconds() - began;
}

/* Operations in a second on all threads, in the products' precision; the best of many tries. 0:
   there is no loop for it. */
static inline double lm_peak(int precision)
{
    bench_loop loop = precision == POSENC_BF16 ? bench_bf16_loop() : bench_fp32_loop();
    int threads = posenc_threads();
    double least = INFINITY;
    if (!loop.turns) return 0;
    for (int i = 0; i < LM_PEAK_TRIES && !kit_stopped(); i++)
        least = fmin(least, lm__peak_try(&loop, threads));
    return 2.0 * BENCH_CHAINS * loop.lanes * LM_PEAK_TURNS * threads / least;
}

#endif
