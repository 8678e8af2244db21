/* marker/data.h - the template that marker's models learn to finish

       position    0      1   2    3    4       5    6    7    8 ... 63
       token    START  a   a+1  a+2  MIDDLE  a+3  a+4  END  0 ... 0        a uniform in 10..80
       target   a      a+1 a+2  MID. a+3     a+4  END  0    0 ... START

   The target is the next token; the last one wraps round to START. Only `a` itself is a surprise,
   so nobody who sees the past alone can have a mean loss below ln(71)/64.

   Sequences are drawn independently, four for training to each one for the test, as in the
   published experiment. There are only 71 different ones: the test asks whether the rule was
   learnt, not whether it reaches values that were never seen. Include posenc.h first. */
#ifndef MARKER_DATA_H
#define MARKER_DATA_H

#include "kit/files.h"
#include "kit/random.h"
#include <math.h>

enum { MARKER_START = 1, MARKER_MIDDLE = 2, MARKER_END = 3, MARKER_LEAST = 10, MARKER_MOST = 80,
       MARKER_VALUES = MARKER_MOST - MARKER_LEAST + 1, MARKER_LENGTH = 64, MARKER_VOCAB = 100 };

/* Mean loss over the 64 positions when `surprises` of them hold a value that cannot be known. */
static inline double marker_floor(int surprises)
{
    return surprises * log(MARKER_VALUES) / MARKER_LENGTH;
}

static inline void marker_sequence(int tokens[MARKER_LENGTH], int a)
{
    const int head[8] = { MARKER_START, a, a + 1, a + 2, MARKER_MIDDLE, a + 3, a + 4, MARKER_END };
    for (int t = 0; t < MARKER_LENGTH; t++) tokens[t] = t < 8 ? head[t] : 0;
}

static inline void marker_targets(int targets[MARKER_LENGTH], const int tokens[MARKER_LENGTH])
{
    for (int t = 0; t < MARKER_LENGTH; t++) targets[t] = tokens[(t + 1) % MARKER_LENGTH];
}

typedef struct marker_data { int *tokens, *targets, count; } marker_data;  /* (count, 64) each */

static inline marker_data marker_data_make(uint64_t seed, uint32_t purpose, int count)
{
    marker_data d;
    d.count = count;
    d.tokens = (int *)kit_new((size_t)count * MARKER_LENGTH, sizeof(int));
    d.targets = (int *)kit_new((size_t)count * MARKER_LENGTH, sizeof(int));
    for (int i = 0; i < count; i++) {
        kit_random r = kit_random_open(seed, purpose, (uint64_t)i);
        int *tokens = d.tokens + (size_t)i * MARKER_LENGTH;
        marker_sequence(tokens, MARKER_LEAST + kit_random_below(&r, MARKER_VALUES));
        marker_targets(d.targets + (size_t)i * MARKER_LENGTH, tokens);
    }
    return d;
}

/* one in five is for the test */
static inline int marker_test_count(int sequences) { return sequences / 5; }

static inline void marker_data_split(marker_data *train, marker_data *test, uint64_t seed,
                                     int sequences)
{
    int tested = marker_test_count(sequences);
    *train = marker_data_make(seed, KIT_RANDOM_TRAIN, sequences - tested);
    *test = marker_data_make(seed, KIT_RANDOM_TEST, tested);
}

static inline void marker_data_free(marker_data *d)
{
    free(d->tokens);
    free(d->targets);
    memset(d, 0, sizeof *d);
}

#endif
