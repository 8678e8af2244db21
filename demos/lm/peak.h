/* lm/peak.h - what the machine can do at most, to hold a model's arithmetic against: bench's loop
   of multiply-adds in registers [bench/peak.h]. Include posenc.h first. */
#ifndef LM_PEAK_H
#define LM_PEAK_H

#if defined(__GNUC__)                      /* its copies in memory are not used here              */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#include "bench/peak.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Operations in a second on all threads, in the products' precision; 0: there is no loop for it.
   Several short looks: who is interrupted while the loop's length is found measures nonsense. */
static inline double lm_peak(int precision, double seconds)
{
    double best = 0;
    for (int i = 0; i < 8; i++) {
        bench_loop loop = precision == POSENC_BF16 ? bench_bf16_loop() : bench_fp32_loop();
        double peak = bench_peak_of(loop, seconds / 8);
        if (peak > best) best = peak;
    }
    return best;
}

#endif
