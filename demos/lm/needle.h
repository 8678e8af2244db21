/* lm/needle.h - a key hidden in a text: how far back, and how deep, can the model find it?

       passkey   3 depths (beginning, middle, end) of each context, in both wordings
       niah      11 depths of each context, a heat map

   Two wordings, since a question in words that no training text had measures the wording and not
   the memory:

       key    <stock sentences>KEY:40712\n<stock sentences>KEY:|     as published; key, needle
       code   <filler>The code is 40712. <filler>The code is |       as the task passkey is

   A context of T holds byte 0, all of the text and all of the answer but its last digit, so that
   the last one is drawn at the T-th place. The answer must be the five digits. Include posenc.h
   first. */
#ifndef LM_NEEDLE_H
#define LM_NEEDLE_H

#include "lm/exact.h"

enum { LM_KEYS = 2, LM_SPOTS = 3, LM_DEPTHS = 11, LM_CODE_LEAST = 48 };
enum { LM_WORDS_KEY, LM_WORDS_CODE };      /* wordings                                            */
enum { LM_RANDOM_CODE = 0x7A5CF000 };      /* purpose of random numbers                           */

static const char *const lm_spot_name[LM_SPOTS] = { "beginning", "middle", "end" };
static const char *const lm_wording_name[LM_KEYS] = { "key", "code" };

/* a context, all depths */
typedef struct lm_needles {
    int context, depths, total;            /* total: questions of each depth                      */
    int correct[LM_DEPTHS];
    char why[LM_WHY];
} lm_needles;

/* ---- questions ------------------------------------------------------------------------------- */

/* n bytes of the filler from `at` on, round and round */
static inline void lm__put_round(kit_text *t, const kit_text *filler, size_t at, size_t n)
{
    while (n > 0) {
        size_t left = filler->size - at, piece = n < left ? n : left;
        kit_put_bytes(t, filler->data + at, piece);
        n -= piece;
        at = (at + piece) % filler->size;
    }
}

static inline char lm__round_byte(const kit_text *filler, size_t at)
{
    return filler->data[at % filler->size];
}

/* A place between words at or before `at`; 0 stays 0. */
static inline size_t lm__between_words(const kit_text *filler, size_t start, size_t at)
{
    for (size_t i = at; i > 0 && at - i < 32; i--)
        if (strchr(" \n", lm__round_byte(filler, start + i - 1))) return i;
    return at;
}

/* T tokens with a five-digit code at a depth of 0 to 1. The text and the code do not depend on the
   depth, so that depths differ in nothing else. */
static inline int lm_code_make(lm_question *q, double depth, const kit_text *filler, uint64_t seed,
                               uint64_t index, int T, kit_error *why)
{
    static const char ask[] = "The code is ";
    kit_random r = kit_random_open(seed, LM_RANDOM_CODE, index);
    size_t own = 2 * strlen(ask) + 2 * LM_KEY_DIGITS + 2;           /* two askings, code, ". "    */
    if (T < LM_CODE_LEAST || filler->size < 64)
        return kit_fail(why,
                        "a code in a text needs a context of %d or more, not %d, and a text of 64 "
                        "bytes",
                        LM_CODE_LEAST, T);
    size_t stuff = (size_t)T - own, size = filler->size < INT32_MAX ? filler->size : INT32_MAX;
    size_t start = lm__between_words(filler, 0, (size_t)kit_random_below(&r, (int)size));
    size_t before = lm__between_words(filler, start, (size_t)(depth * (double)stuff + .5));
    for (int i = 0; i < LM_KEY_DIGITS; i++) kit_put(&q->target, "%d", kit_random_below(&r, 10));
    lm__put_round(&q->prompt, filler, start, before);
    kit_put(&q->prompt, "%s%s. ", ask, q->target.data);
    lm__put_round(&q->prompt, filler, (start + before) % filler->size, stuff - before);
    kit_put_string(&q->prompt, ask);
    q->most = LM_KEY_DIGITS;
    return 1;
}

static inline int lm__needle_make(lm_question *q, const lm_exam *x, int wording, double depth,
                                  uint64_t index, int T, kit_error *why)
{
    lm_example e;
    if (wording == LM_WORDS_CODE)
        return lm_code_make(q, depth, &x->filler, x->seed, index, T, why);
    if (!lm_key_make(&e, depth, x->seed, index, T, why)) return 0;
    q->prompt = e.prompt;
    q->target = e.target;
    q->most = LM_KEY_DIGITS;
    return 1;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static inline double lm_depth(int d, int depths) { return (double)d / (depths - 1); }

/* Fills in what is not known before: context, depths and total are. */
static inline int lm_needles_ask(lm_needles *s, lm_exam *x, int wording, long work,
                                 const char *name, kit_error *why)
{
    int n = s->depths * s->total, good = 1;
    char label[64];
    kit_error said;
    if (!lm_exam_reaches(x, s->context, s->why)) return 1;
    lm_question *q = (lm_question *)kit_new((size_t)n, sizeof *q);
    for (int i = 0; i < n && !s->why[0]; i++) {
        uint64_t index = (uint64_t)s->context << 32 | (uint64_t)(i / s->depths);
        q[i].mark = i % s->depths;
        if (!lm__needle_make(&q[i], x, wording, lm_depth(q[i].mark, s->depths), index, s->context,
                             &said))
            snprintf(s->why, LM_WHY, "cannot: %.300s", said.text);
    }
    snprintf(label, sizeof label, "%s %s at %d", name, lm_wording_name[wording], s->context);
    if (!s->why[0]) good = lm_answer(x, q, n, work, label, why);
    for (int i = 0; i < n && good && !s->why[0]; i++) s->correct[q[i].mark] += q[i].right;
    if (good && x->verbose && !s->why[0]) lm_questions_show(x, label, q, n);
    lm_questions_free(q, n);
    return good;
}

/* right answers of all depths */
static inline int lm_needles_correct(const lm_needles *s)
{
    int n = 0;
    for (int d = 0; d < s->depths; d++) n += s->correct[d];
    return n;
}

#endif
