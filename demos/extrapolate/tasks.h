/* extrapolate/tasks.h - what short models are asked at greater length: pure functions of random
   numbers

       copying   repeat, replace, copy, reverse n symbols     (Kazemnejad et al. 2023)
       masking   fill in bytes that were taken out            (Haviv et al. 2022)
       gaps      which pair of values stands at its distance  (the pattern task, told in distances)

   Nothing here knows of a model. Include posenc.h first (random numbers, positions). */
#ifndef EXTRAPOLATE_TASKS_H
#define EXTRAPOLATE_TASKS_H

#include "kit/random.h"
#include <math.h>

/* ---- copying ------------------------------------------------------------------------------------
   A text is   BOS prompt SEP answer EOS   and only the answer, EOS included, is asked for. How long
   it must be is said by the prompt alone, in the one way there is: by being as long.

       rsc   BOS     a a .. a    SEP  a a .. a    EOS        the same symbol, n times
       rdc   BOS a b a a .. a    SEP  b b .. b    EOS        "replace a by b in a a .. a"
       cmc   BOS     x1 x2 .. xn SEP  x1 x2 .. xn EOS
       mc    BOS     x1 x2 .. xn SEP  xn .. x2 x1 EOS                                          */

typedef enum copy_kind { COPY_RSC, COPY_RDC, COPY_CMC, COPY_MC, COPY_KINDS } copy_kind;

enum { COPY_PAD, COPY_BOS, COPY_SEP, COPY_EOS, COPY_FIRST, COPY_SYMBOLS = 32,
       COPY_VOCAB = COPY_FIRST + COPY_SYMBOLS };
enum { COPY_SHORT = 20, COPY_LONG = 40,    /* trained up to, tested up to                         */
       COPY_MOST = 2 * COPY_LONG + 4 };    /* tokens of the longest text                          */
enum { COPY_HELD = 4 };                    /* one item in so many is never trained on             */

/* symbols that make an item: drawn freely, everything else of it follows */
static inline int copy_free(int kind, int n)
{
    return kind == COPY_RSC ? 1 : kind == COPY_RDC ? 2 : n;
}

/* tokens of a text of n: BOS, prompt, SEP, answer. EOS is a target only. */
static inline int copy_length(int kind, int n) { return 2 * n + 2 + (kind == COPY_RDC ? 2 : 0); }

/* Items with these symbols belong to the test. For each n that is one choice in four of the last
   symbol, whatever the others are, so that no length is all trained on or all held out. */
static inline int copy_is_held(const int *symbol, int count, int n)
{
    int sum = n;
    for (int i = 0; i < count; i++) sum += symbol[i];
    return sum % COPY_HELD == 0;
}

/* Longer texts than any in training are all new. rdc's two symbols differ. */
static inline void copy_draw(int *symbol, kit_random *r, int kind, int n, int held)
{
    int count = copy_free(kind, n), any = n > COPY_SHORT;
    do
        for (int i = 0; i < count; i++) symbol[i] = kit_random_below(r, COPY_SYMBOLS);
    while ((kind == COPY_RDC && symbol[0] == symbol[1])
           || (!any && copy_is_held(symbol, count, n) != held));
}

static inline int copy_prompt(int kind, const int *symbol, int i)
{
    return COPY_FIRST + (kind == COPY_RSC || kind == COPY_RDC ? symbol[0] : symbol[i]);
}

static inline int copy_answer(int kind, const int *symbol, int n, int i)
{
    return COPY_FIRST + (kind == COPY_RSC ? symbol[0] : kind == COPY_RDC ? symbol[1]
                         : kind == COPY_CMC ? symbol[i] : symbol[n - 1 - i]);
}

/* Writes copy_length(kind, n) tokens and the target of each. */
static inline void copy_text(int *tokens, int *targets, int kind, const int *symbol, int n)
{
    int length = copy_length(kind, n), t = 0, asked;
    tokens[t++] = COPY_BOS;
    for (int i = 0; kind == COPY_RDC && i < 2; i++) tokens[t++] = COPY_FIRST + symbol[i];
    for (int i = 0; i < n; i++) tokens[t++] = copy_prompt(kind, symbol, i);
    asked = t;                                             /* from SEP on */
    tokens[t++] = COPY_SEP;
    for (int i = 0; i < n; i++) tokens[t++] = copy_answer(kind, symbol, n, i);
    for (t = 0; t < length; t++)
        targets[t] = t < asked ? POSENC_IGNORE : t + 1 < length ? tokens[t + 1] : COPY_EOS;
}

/* A row of training: a text of n and one of 21 - n, so that every row is full and every n from 1 to
   20 equally likely. The two do not see each other (segments), and positions start again. random:
   places are drawn out of 0 .. most-1 instead, in order (Ruoss et al. 2023). */
enum { COPY_PAIR = COPY_SHORT + 1 };

static inline int copy_row_length(int kind)
{
    return 2 * COPY_PAIR + 4 + (kind == COPY_RDC ? 4 : 0);
}

static inline void copy_places(double *positions, kit_random *r, int length, int most)
{
    if (most == 0) posenc_positions_range(positions, length, 0);
    else posenc_positions_random(positions, length, most, kit_random_word(r));
}

static inline void copy_row(int *tokens, int *targets, int *segments, double *positions,
                            kit_random *r, int kind, int most)
{
    int n = 1 + kit_random_below(r, COPY_SHORT), symbol[COPY_SHORT], at = 0;
    for (int part = 0; part < 2; part++, n = COPY_PAIR - n) {
        int length = copy_length(kind, n);
        copy_draw(symbol, r, kind, n, 0);
        copy_text(tokens + at, targets + at, kind, symbol, n);
        copy_places(positions + at, r, length, most);
        for (int t = 0; t < length; t++) segments[at + t] = part;
        at += length;
    }
}

/* 1 when the most likely token is the target wherever there is one; a tie or NaN is wrong. The
   model was shown the right answer up to each place, and that decides whether it would have written
   the same by itself: as long as every token was right it has seen exactly what it would have
   written, and the first wrong one it would have written too. So this is the exact match of greedy
   decoding, in one pass. */
static inline int copy_is_exact(const float *logits, const int *targets, int T)
{
    for (int t = 0; t < T; t++) {
        const float *row = logits + (size_t)t * COPY_VOCAB;
        for (int v = 0; v < COPY_VOCAB && targets[t] != POSENC_IGNORE; v++)
            if (v != targets[t] && !(row[v] < row[targets[t]])) return 0;
    }
    return 1;
}

/* logits (B,T,COPY_VOCAB), targets (B,T) */
static inline double copy_exact_share(const float *logits, const int *targets, int B, int T)
{
    int exact = 0;
    for (int b = 0; b < B; b++)
        exact += copy_is_exact(logits + (size_t)(b * T) * COPY_VOCAB, targets + b * T, T);
    return (double)exact / B;
}

/* ---- masking ------------------------------------------------------------------------------------
   15 bytes in 100 are taken out, a token of its own in the place of each, and asked for. (BERT
   leaves a tenth of them as they are and makes another tenth wrong, for the sake of later tasks
   that see no mask. Nothing follows here, and a byte that may be left as it is would tell even a
   model without places.) */

enum { MASK_TOKEN = 256, MASK_VOCAB = 257, MASK_PERCENT = 15 };

/* tokens hold bytes; those taken out become targets, the others are not asked for */
static inline void mask_bytes(int *tokens, int *targets, kit_random *r, int T)
{
    for (int t = 0; t < T; t++) {
        int out = kit_random_below(r, 100) < MASK_PERCENT;
        targets[t] = out ? tokens[t] : POSENC_IGNORE;
        if (out) tokens[t] = MASK_TOKEN;
    }
}

/* ---- gaps ---------------------------------------------------------------------------------------
   The pattern task asks which of three pairs of values stands in its two places. In distances:
   which pair stands with its second value exactly so far behind its first, wherever that is. So the
   question is the same for any length. All six values are in every text, once each, and the two
   other pairs stand as close together, at any distance but their own: neither what is there nor who
   is close gives it away. */

enum { GAP_CLASSES = 3, GAP_FAR = 12,      /* decoys stand up to so far apart, on either side     */
       GAP_VOCAB = 20, GAP_LEAST = 32 };   /* shortest text in which everything has room          */

static const struct { int value[2], gap; } gap_pair[GAP_CLASSES] = {     /* as in pattern/tasks.h */
    { { 5, 8 }, 4 }, { { 3, 9 }, 5 }, { { 7, 4 }, 5 }
};

static inline int gap_is_value(int token)
{
    for (int c = 0; c < GAP_CLASSES; c++)
        if (token == gap_pair[c].value[0] || token == gap_pair[c].value[1]) return 1;
    return 0;
}

/* how far the second value of pair c stands behind the first; T when one of them is missing */
static inline int gap_of(const int *tokens, int T, int c)
{
    int at[2] = { -1, -1 };
    for (int t = 0; t < T; t++)
        for (int i = 0; i < 2; i++)
            if (tokens[t] == gap_pair[c].value[i]) at[i] = t;
    return at[0] < 0 || at[1] < 0 ? T : at[1] - at[0];
}

/* a distance from -12 to 12, neither 0 nor the pair's own */
static inline int gap_decoy(kit_random *r, int own)
{
    int gap;
    do gap = kit_random_below(r, 2 * GAP_FAR + 1) - GAP_FAR; while (gap == 0 || gap == own);
    return gap;
}

/* Puts pair c anywhere with that gap between its values, on places that hold 0 still. */
static inline void gap_put(int *tokens, kit_random *r, int T, int c, int gap)
{
    int first, second;
    do {
        first = kit_random_below(r, T);
        second = first + gap;
    } while (second < 0 || second >= T || tokens[first] || tokens[second]);
    tokens[first] = gap_pair[c].value[0];
    tokens[second] = gap_pair[c].value[1];
}

/* any token but 0 and the six values */
static inline int gap_filler(kit_random *r)
{
    int token;
    do token = 1 + kit_random_below(r, GAP_VOCAB - 1); while (gap_is_value(token));
    return token;
}

static inline void gap_make(int *tokens, int *label, kit_random *r, int T)
{
    *label = kit_random_below(r, GAP_CLASSES);
    memset(tokens, 0, (size_t)T * sizeof *tokens);
    for (int c = 0; c < GAP_CLASSES; c++)
        gap_put(tokens, r, T, c, c == *label ? gap_pair[c].gap : gap_decoy(r, gap_pair[c].gap));
    for (int t = 0; t < T; t++)
        if (tokens[t] == 0) tokens[t] = gap_filler(r);
}

/* Two ways to ask. By the text: one label (GAP_CLASSES) for the mean over all places. By the place:
   at the first value of each pair, is the second one at its distance? The class is then the surest
   yes. */
enum { GAP_YES = GAP_VOCAB, GAP_NO, GAP_TOKENS };

/* the pair whose first value this is; -1: none */
static inline int gap_asked(int token)
{
    for (int c = 0; c < GAP_CLASSES; c++)
        if (token == gap_pair[c].value[0]) return c;
    return -1;
}

static inline void gap_targets(int *targets, const int *tokens, int T, int label)
{
    for (int t = 0; t < T; t++) {
        int c = gap_asked(tokens[t]);
        targets[t] = c < 0 ? POSENC_IGNORE : c == label ? GAP_YES : GAP_NO;
    }
}

/* the class a model gives a text, logits (T, GAP_TOKENS); -1 when they are not numbers */
static inline int gap_answer(const float *logits, const int *tokens, int T)
{
    int best = -1;
    float surest = -HUGE_VALF;
    for (int t = 0; t < T; t++) {
        const float *row = logits + (size_t)t * GAP_TOKENS;
        if (gap_asked(tokens[t]) < 0 || !(row[GAP_YES] - row[GAP_NO] > surest)) continue;
        surest = row[GAP_YES] - row[GAP_NO];
        best = gap_asked(tokens[t]);
    }
    return best;
}

#endif
