/* kit/random.h - random numbers for data: a pure function of seed, purpose and index

   Item 17 of a data set is the same whether or not items 0..16 were ever made, in any order and on
   any machine. Include posenc.h first: its counter-based posenc_philox does the work. */
#ifndef KIT_RANDOM_H
#define KIT_RANDOM_H

#include <stdint.h>
#include <string.h>

/* The library's own draws (weights, dropout) put small numbers where the purpose stands; these are
   large, so that one seed can serve both. */
enum { KIT_RANDOM_TRAIN = 0x7DA70001, KIT_RANDOM_VALIDATION, KIT_RANDOM_TEST, KIT_RANDOM_ORDER };

typedef struct kit_random {
    uint64_t seed;
    uint32_t counter[4], word[4];
    int left;                              /* words not used yet */
} kit_random;

static inline kit_random kit_random_open(uint64_t seed, uint32_t purpose, uint64_t index)
{
    kit_random r;
    memset(&r, 0, sizeof r);
    r.seed = seed;
    r.counter[0] = (uint32_t)index;
    r.counter[1] = (uint32_t)(index >> 32);
    r.counter[3] = purpose;
    return r;
}

static inline uint32_t kit_random_word(kit_random *r)
{
    if (r->left == 0) {
        posenc_philox(r->word, r->counter, r->seed);
        r->counter[2]++;
        r->left = 4;
    }
    return r->word[--r->left];
}

/* 0..n-1, each equally likely: the few words that would favour small numbers are drawn again */
static inline int kit_random_below(kit_random *r, int n)
{
    uint32_t bound = (uint32_t)n, unfair = (0u - bound) % bound;
    uint64_t product;
    do product = (uint64_t)kit_random_word(r) * bound; while ((uint32_t)product < unfair);
    return (int)(product >> 32);
}

/* order[0..n-1] becomes a random permutation */
static inline void kit_random_order(kit_random *r, int *order, int n)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = kit_random_below(r, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

#endif
