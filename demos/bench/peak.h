/* bench/peak.h - what this machine can do: multiply-adds in registers, copies in memory

   The peak of arithmetic is a loop of fused multiply-adds that never leaves the registers, in the
   instructions of the tier that the library uses: a <- a x + y with x < 1, which settles at
   y / (1 - x) and so meets neither infinities nor denormals. Twelve accumulators cover the latency
   of two units with four or five cycles each, and leave room in sixteen registers for x and y. They
   are variables with names, since an array of them may end up in memory. Include posenc.h first. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include "bench/measure.h"

#if !defined(POSENC_NO_SIMD) && defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define BENCH_X86 1
#endif
#if defined(BENCH_X86) && defined(POSENC_BF16_PRODUCTS) && (defined(__clang__) || __GNUC__ >= 10)
#define BENCH_BF16 1
#endif

/* ---- multiply-adds --------------------------------------------------------------------------- */

#define BENCH_ACCUMULATORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define BENCH_START(i) a##i = SET(start + 0.125f * i);
#define BENCH_TURN(i)  a##i = FMA(a##i, x, y);
#define BENCH_SUM(i)   a0 = ADD(a0, a##i);
#define BENCH_FMA_LOOP                                                                             \
    const float start = bench__start;                                                              \
    BENCH_ACCUMULATORS(BENCH_START)                                                                \
    for (long i = 0; i < turns; i++) { BENCH_ACCUMULATORS(BENCH_TURN) }                            \
    BENCH_ACCUMULATORS(BENCH_SUM)

enum { BENCH_CHAINS = 12 };                /* accumulators above */

/* read at run time: what a compiler knows it computes beforehand */
static volatile float bench__start = 1.5f, bench__shrink = 0.96875f, bench__add = 0.03125f;
static volatile int bench__zero = 0;

#if defined(__GNUC__)
typedef float bench_four __attribute__((vector_size(16)));       /* what any 64-bit processor has */
#define SET(v)       bench__all(v)
enum { BENCH_LANES_C = 4 };
static inline float bench__first(bench_four a) { return a[0]; }
static inline bench_four bench__all(float v) { bench_four a = { v, v, v, v }; return a; }
#else
typedef float bench_four;
#define SET(v)       (v)
enum { BENCH_LANES_C = 1 };
static inline float bench__first(bench_four a) { return a; }
#endif
#define FMA(a, b, c) ((a) * (b) + (c))
#define ADD(a, b)    ((a) + (b))
static float bench__turns_c(long turns)
{
    bench_four a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11;
    const bench_four x = SET(bench__shrink), y = SET(bench__add);
    BENCH_FMA_LOOP
    return bench__first(a0);
}
#undef SET
#undef FMA
#undef ADD

#ifdef BENCH_X86
#define SET(v)       _mm256_set1_ps(v)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b)    _mm256_add_ps(a, b)
__attribute__((target("avx2,fma"))) static float bench__turns_avx2(long turns)
{
    __m256 a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11;
    const __m256 x = SET(bench__shrink), y = SET(bench__add);
    BENCH_FMA_LOOP
    return _mm_cvtss_f32(_mm256_castps256_ps128(a0));
}
#undef SET
#undef FMA
#undef ADD

#define SET(v)       _mm512_set1_ps(v)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b)    _mm512_add_ps(a, b)
__attribute__((target("avx512f"))) static float bench__turns_avx512(long turns)
{
    __m512 a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11;
    const __m512 x = SET(bench__shrink), y = SET(bench__add);
    BENCH_FMA_LOOP
    return _mm_cvtss_f32(_mm512_castps512_ps128(a0));
}
#endif

/* a <- a + x y with pairs of bf16 in x and y; both are zero, which costs the same */
#ifdef BENCH_BF16
#undef FMA
#define FMA(a, b, c) _mm512_dpbf16_ps(a, (__m512bh)(b), (__m512bh)(c))
__attribute__((target("avx512f,avx512bf16"))) static float bench__turns_bf16(long turns)
{
    __m512 a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11;
    const __m512i x = _mm512_set1_epi32(bench__zero), y = _mm512_set1_epi32(bench__zero);
    BENCH_FMA_LOOP
    return _mm_cvtss_f32(_mm512_castps512_ps128(a0));
}
#endif
#undef SET
#undef FMA
#undef ADD

typedef struct bench_loop {
    float (*turns)(long);
    int lanes;                             /* multiply-adds of one instruction                    */
} bench_loop;

/* the loop for the tier in use */
static bench_loop bench_fp32_loop(void)
{
    bench_loop l = { bench__turns_c, BENCH_LANES_C };
#ifdef BENCH_X86
    const char *tier = posenc_cpu_tier();
    if (strcmp(tier, "avx2") == 0) { l.turns = bench__turns_avx2; l.lanes = 8; }
    else if (strcmp(tier, "c") != 0) { l.turns = bench__turns_avx512; l.lanes = 16; }
#endif
    return l;
}

/* what multiplies bf16: "none" means that the products are those of fp32 */
static const char *bench_bf16_unit(void)
{
#ifdef POSENC_BF16_PRODUCTS
    return posenc_bf16_unit();
#else
    return "none";
#endif
}

/* turns NULL: there is no loop for this unit */
static bench_loop bench_bf16_loop(void)
{
    bench_loop l = { NULL, 0 };
    if (strcmp(bench_bf16_unit(), "none") == 0) return bench_fp32_loop();
#ifdef BENCH_BF16
    if (strcmp(bench_bf16_unit(), "avx512_bf16") == 0) {
        l.turns = bench__turns_bf16;
        l.lanes = 32;
    }
#endif
    return l;
}

#define PEAK_SECONDS 0.15
static volatile float bench__sink;

static void bench__turn(const bench_loop *loop, long turns)
{
    float left = loop->turns(turns);
    if (left < 0) bench__sink = left;                      /* never, but the compiler cannot know */
}

/* about two milliseconds: long against the clock, short against whatever else wants the core */
static long bench__turns_of_a_try(const bench_loop *loop)
{
    long turns = 1000;
    for (double took = 0; took < 0.001; turns *= 2) {
        double start = kit_seconds();
        bench__turn(loop, turns);
        took = kit_seconds() - start;
    }
    return turns;
}

static void bench__all_threads(const bench_loop *loop, long turns)
{
    int threads = posenc_threads();
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int t = 0; t < threads; t++) bench__turn(loop, turns);
}

/* Operations in a second on all threads; a multiply-add is two. The best of many short tries: a
   peak is what the machine can do when nobody disturbs it. 0: there is no loop for it. */
static double bench_peak_of(bench_loop loop, double seconds)
{
    double best = 0, began = kit_seconds();
    if (!loop.turns) return 0;
    long turns = bench__turns_of_a_try(&loop);
    double work = 2.0 * BENCH_CHAINS * loop.lanes * (double)turns * posenc_threads();
    while (kit_seconds() - began < seconds && !kit_stopped()) {
        double start = kit_seconds();
        bench__all_threads(&loop, turns);
        best = fmax(best, work / (kit_seconds() - start));
    }
    return best;
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct bench_copy { char *to, *from; size_t bytes; } bench_copy;

static void bench__copy_go(void *user)
{
    const bench_copy *c = (const bench_copy *)user;
    int threads = posenc_threads();
    size_t share = c->bytes / (size_t)threads / 64 * 64;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int t = 0; t < threads; t++) {
        size_t first = share * (size_t)t;
        memcpy(c->to + first, c->from + first, t == threads - 1 ? c->bytes - first : share);
    }
    bench__sink = (float)c->to[c->bytes - 1];
}

/* Bytes in a second of a copy that reads and writes `moved` bytes in all, half of them each, on all
   threads; the best of several tries. */
static double bench_copy_rate(double moved, double seconds)
{
    bench_copy c;
    c.bytes = (size_t)(moved / 2);
    c.to = (char *)bench_room(c.bytes);
    c.from = (char *)bench_room(c.bytes);
    memset(c.from, 1, c.bytes);
    timing t = bench_measure(bench__copy_go, &c, seconds, 5);
    free(c.to);
    free(c.from);
    return t.low > 0 ? moved / t.low : 0;
}

#endif
