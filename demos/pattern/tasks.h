/* pattern/tasks.h - what the model has to see: labelled sequences of tokens, out of random numbers

       pattern   which of three pairs of values stands in its places      (plain and balanced data)
       sorting   whether the tokens stand in order
       distance  which fifth of the length separates the 5 from the 8
       grid      whether the 5 is left of the 8, and whether it is above it, on a square of tokens

   A task of these kinds and one kind of data make one row of the table `tasks`. Token 0 is padding
   in every task: nobody attends to it and the mean leaves it out, so no task draws it.

   Include posenc.h first (random numbers). */
#ifndef PATTERN_TASKS_H
#define PATTERN_TASKS_H

#include "kit/files.h"
#include "kit/random.h"

typedef struct task {
    const char *name, *data;               /* data NULL: there is one kind only                   */
    int classes;
    int length;                            /* of a sequence, unless told otherwise                */
    int least_length, least_vocab;
    int square;                            /* 1: the length must be a square number               */
    void (*make)(int *tokens, int *label, kit_random *r, int T, int vocab);
    void (*marks)(unsigned char *mark, const int *tokens, int T, int label);   /* where to look */
    const char *question, *about;          /* for the report                                      */
} task;

/* ---- drawing tokens -------------------------------------------------------------------------- */

static inline int task_is_one_of(int token, const int *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i] == token) return 1;
    return 0;
}

/* Any token but padding and those in the list. */
static inline int task_draw(kit_random *r, int vocab, const int *but, int n)
{
    int token;
    do token = 1 + kit_random_below(r, vocab - 1); while (task_is_one_of(token, but, n));
    return token;
}

/* the side of a square of n tokens; 0: n is not a square number */
static inline int task_side(int n)
{
    int side = 1;
    while (side * side < n) side++;
    return side * side == n ? side : 0;
}

/* ---- pattern --------------------------------------------------------------------------------- */

static const struct { int place[2], value[2]; } task_pairs[3] = {
    { { 3, 7 }, { 5, 8 } }, { { 5, 10 }, { 3, 9 } }, { { 15, 20 }, { 7, 4 } }
};

static inline int task_pair_stands(const int *tokens, int c)
{
    return tokens[task_pairs[c].place[0]] == task_pairs[c].value[0]
        && tokens[task_pairs[c].place[1]] == task_pairs[c].value[1];
}

/* Uniform tokens. If one pair stands there by chance it names the class; if two do, the sequence is
   drawn again; if none does, one is written in. The pairs' places are disjoint, so writing one
   cannot complete another: whatever comes out holds exactly one pair. */
static inline void task_make_plain(int *tokens, int *label, kit_random *r, int T, int vocab)
{
    int standing;
    do {
        standing = 0;
        for (int t = 0; t < T; t++) tokens[t] = task_draw(r, vocab, NULL, 0);
        for (int c = 0; c < 3; c++)
            if (task_pair_stands(tokens, c)) { standing++; *label = c; }
    } while (standing > 1);
    if (standing == 1) return;
    *label = kit_random_below(r, 3);
    for (int k = 0; k < 2; k++) tokens[task_pairs[*label].place[k]] = task_pairs[*label].value[k];
}

/* Puts value v of the pairs (0..5) at a free place that is not its own. A free place holds 0.
   Always finds one: there are 21 places and more for six values. */
static inline void task_put_elsewhere(int *tokens, kit_random *r, int T, int v)
{
    int t;
    do t = kit_random_below(r, T); while (tokens[t] != 0 || t == task_pairs[v / 2].place[v % 2]);
    tokens[t] = task_pairs[v / 2].value[v % 2];
}

/* All six values once in every sequence, the true pair in its places, none of the other four in its
   own, and the rest drawn without them: the counts are the same for every class. */
static inline void task_make_balanced(int *tokens, int *label, kit_random *r, int T, int vocab)
{
    static const int values[6] = { 5, 8, 3, 9, 7, 4 };
    *label = kit_random_below(r, 3);
    memset(tokens, 0, (size_t)T * sizeof *tokens);
    for (int k = 0; k < 2; k++) tokens[task_pairs[*label].place[k]] = task_pairs[*label].value[k];
    for (int v = 0; v < 6; v++)
        if (v / 2 != *label) task_put_elsewhere(tokens, r, T, v);
    for (int t = 0; t < T; t++)
        if (tokens[t] == 0) tokens[t] = task_draw(r, vocab, values, 6);
}

static inline void task_mark_pair(unsigned char *mark, const int *tokens, int T, int label)
{
    (void)tokens; (void)T;
    mark[task_pairs[label].place[0]] = mark[task_pairs[label].place[1]] = 1;
}

/* ---- sorting --------------------------------------------------------------------------------- */

static inline int task_by_size(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static inline int task_is_sorted(const int *tokens, int T)
{
    for (int t = 1; t < T; t++)
        if (tokens[t] < tokens[t - 1]) return 0;
    return 1;
}

static inline void task_swap(int *tokens, int i, int j)
{
    int kept = tokens[i];
    tokens[i] = tokens[j];
    tokens[j] = kept;
}

/* The same multisets in both classes, so that the bag says nothing. Half of the unsorted sequences
   are one exchange away from order: a model that looks at a few tokens only is not enough. */
static inline void task_make_sorting(int *tokens, int *label, kit_random *r, int T, int vocab)
{
    int i, j;
    do {
        for (int t = 0; t < T; t++) tokens[t] = task_draw(r, vocab, NULL, 0);
        qsort(tokens, (size_t)T, sizeof *tokens, task_by_size);
    } while (tokens[0] == tokens[T - 1]);                  /* all the same has one order only */
    *label = kit_random_below(r, 2);
    if (*label == 1) return;
    if (kit_random_below(r, 2)) {
        do {
            i = kit_random_below(r, T);
            j = kit_random_below(r, T);
        } while (tokens[i] == tokens[j]);
        task_swap(tokens, i, j);
        return;
    }
    do
        for (i = T - 1; i > 0; i--) task_swap(tokens, i, kit_random_below(r, i + 1));
    while (task_is_sorted(tokens, T));
}

/* Where the order breaks; a sorted sequence has no such place. */
static inline void task_mark_breaks(unsigned char *mark, const int *tokens, int T, int label)
{
    (void)label;
    for (int t = 1; t < T; t++)
        if (tokens[t] < tokens[t - 1]) mark[t - 1] = mark[t] = 1;
}

/* ---- distance and grid: one 5 and one 8 ------------------------------------------------------ */

static const int task_markers[2] = { 5, 8 };

static inline void task_make_around(int *tokens, kit_random *r, int T, int vocab, int five,
                                    int eight)
{
    for (int t = 0; t < T; t++) tokens[t] = task_draw(r, vocab, task_markers, 2);
    tokens[five] = 5;
    tokens[eight] = 8;
}

/* Classes equally likely, then the distances of that class, then the places, then which comes
   first. */
static inline void task_make_distance(int *tokens, int *label, kit_random *r, int T, int vocab)
{
    int d;
    *label = kit_random_below(r, 5);
    do d = 1 + kit_random_below(r, T - 1); while (5 * d / T != *label);
    int first = kit_random_below(r, T - d), turned = kit_random_below(r, 2);
    task_make_around(tokens, r, T, vocab, turned ? first + d : first, turned ? first : first + d);
}

/* a and b from 0..n-1, different */
static inline void task_draw_two(kit_random *r, int n, int *a, int *b)
{
    *a = kit_random_below(r, n);
    *b = (*a + 1 + kit_random_below(r, n - 1)) % n;
}

static inline void task_make_grid(int *tokens, int *label, kit_random *r, int T, int vocab)
{
    int side = task_side(T), row[2], col[2];
    task_draw_two(r, side, &row[0], &row[1]);
    task_draw_two(r, side, &col[0], &col[1]);
    *label = 2 * (col[0] < col[1]) + (row[0] < row[1]);
    task_make_around(tokens, r, T, vocab, row[0] * side + col[0], row[1] * side + col[1]);
}

static inline void task_mark_markers(unsigned char *mark, const int *tokens, int T, int label)
{
    (void)label;
    for (int t = 0; t < T; t++)
        if (task_is_one_of(tokens[t], task_markers, 2)) mark[t] = 1;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define TASK_PAIRS                                                                                 \
    "Two values **at their places** (counted from 0) decide: class 0 has a 5 at place 3 and an "   \
    "8 at place 7; class 1 a 3 at 5 and a 9 at 10; class 2 a 7 at 15 and a 4 at 20. The same "     \
    "values elsewhere mean nothing. "

static const task tasks[] = {
    { "pattern", "balanced", 3, 32, 21, 10, 0, task_make_balanced, task_mark_pair,
      "Which pair of values stands in its places?",
      TASK_PAIRS "In the **balanced** data all six values stand in every sequence, once each; only "
      "the true pair is in its places, and none of the other four is in its own. So every class "
      "has the same tokens, and only their order tells." },
    { "pattern", "plain", 3, 32, 21, 10, 0, task_make_plain, task_mark_pair,
      "Which pair of values stands in its places?",
      TASK_PAIRS "In the **plain** data the other tokens are drawn at random, so that the values "
      "of the true pair are always there and those of the others only by luck." },
    { "sorting", NULL, 2, 32, 2, 3, 0, task_make_sorting, task_mark_breaks,
      "Are the tokens in order?",
      "Class 1: the tokens do not decrease from left to right. Class 0: they do somewhere; half of "
      "these sequences are shuffled whole, half are sorted but for one exchange of two different "
      "values. Both classes have the same kinds of tokens." },
    { "distance", NULL, 5, 32, 6, 9, 0, task_make_distance, task_mark_markers,
      "How far apart are two values?",
      "Every sequence has one 5 and one 8, in either order. The class is the fifth of the length "
      "into which their distance falls." },
    { "grid", NULL, 4, 64, 4, 9, 1, task_make_grid, task_mark_markers,
      "Which marker is left, which is above?",
      "The tokens are a square, read row by row as image patches are. One 5 and one 8 stand in it, "
      "in different rows and columns; the class says whether the 5 is left of the 8 and whether it "
      "is above it. An encoding that knows one number for each place must find rows and columns in "
      "it." }
};
enum { TASK_COUNT = (int)(sizeof tasks / sizeof *tasks) };

/* "pattern-balanced", "grid": the task's folder */
static inline void task_slug(char *text, size_t room, const task *k)
{
    snprintf(text, room, "%s%s%s", k->name, k->data ? "-" : "", k->data ? k->data : "");
}

/* ---- data sets ------------------------------------------------------------------------------- */

typedef struct dataset {
    int *tokens, *labels;                  /* (count, length), (count) */
    int count, length;
} dataset;

/* Sequence i depends on seed, purpose and i alone. */
static inline dataset dataset_make(int count, uint32_t purpose, const task *k, int length,
                                   int vocab, uint64_t seed)
{
    dataset d;
    d.count = count;
    d.length = length;
    d.tokens = (int *)kit_new((size_t)count * (size_t)length, sizeof(int));
    d.labels = (int *)kit_new((size_t)count, sizeof(int));
    for (int i = 0; i < count; i++) {
        kit_random r = kit_random_open(seed, purpose, (uint64_t)i);
        k->make(d.tokens + (size_t)i * (size_t)length, &d.labels[i], &r, length, vocab);
    }
    return d;
}

static inline void dataset_free(dataset *d)
{
    free(d->tokens);
    free(d->labels);
    memset(d, 0, sizeof *d);
}

/* ---- what simple rules reach on the pattern task -----------------------------------------------
   Each rule gives every class a number and takes the largest, at random among equals; what it gets
   right on the very sequences a model is judged by says how much of the answer it could have had
   without places. */

enum { RULE_COUNTS, RULE_SIGNED, RULE_UNSIGNED, RULE_COUNT };

static inline int rule_how_often(const int *tokens, int T, int value)
{
    int n = 0;
    for (int t = 0; t < T; t++) n += tokens[t] == value;
    return n;
}

/* whether b stands as far behind a as in the pair's places; either_side: or as far before it */
static inline int rule_gap(const int *tokens, int T, int c, int either_side)
{
    int a = task_pairs[c].value[0], b = task_pairs[c].value[1];
    int gap = task_pairs[c].place[1] - task_pairs[c].place[0];
    for (int t = 0; t + gap < T; t++) {
        if (tokens[t] == a && tokens[t + gap] == b) return 1;
        if (either_side && tokens[t] == b && tokens[t + gap] == a) return 1;
    }
    return 0;
}

/* RULE_COUNTS: the pair's values were written into 30 random tokens, so a class is as likely as the
   product of how often its two values occur: nothing that sees counts alone does better on
   average. */
static inline int rule_score(int rule, const int *tokens, int T, int c)
{
    if (rule != RULE_COUNTS) return rule_gap(tokens, T, c, rule == RULE_UNSIGNED);
    return rule_how_often(tokens, T, task_pairs[c].value[0])
         * rule_how_often(tokens, T, task_pairs[c].value[1]);
}

static inline double rule_accuracy(int rule, const dataset *d)
{
    double right = 0;
    for (int i = 0; i < d->count; i++) {
        const int *tokens = d->tokens + (size_t)i * (size_t)d->length;
        int best = -1, equals = 0, hit = 0;
        for (int c = 0; c < 3; c++) {
            int score = rule_score(rule, tokens, d->length, c);
            if (score > best) { best = score; equals = hit = 0; }
            if (score == best) { equals++; hit |= c == d->labels[i]; }
        }
        right += hit ? 1.0 / equals : 0;
    }
    return d->count ? right / d->count : 0;
}

#endif
