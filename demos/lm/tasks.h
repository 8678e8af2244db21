/* lm/tasks.h - texts with one right answer: a pure function of task, split, seed and index

       passkey        The code is 4071. <filler>The code is |4071           1 to 5 digits
       copy_distance  COPY: a x b k a ||| <filler>PASTE: |a x b k a         5 items
       reverse        reverse: a b c -> |c b a                              3-8 items, far 9-16
       sort           sort: c a b -> |a b c                                 3-6, all different, 7-10
       no_carry_add   add: 12+34=|46                                        2-5 digits 0-4, 6-8
       simple_copy    copy: a b c d -> |a b c d                             4-12, 13-20
       addition       17+34=|51                                             1-20 digits, 21-40
       sorting        sort:[3,1,2]->|[1,2,3]                                1-10 numbers, 11-20
       reversal       rev:abc->|cba                                         1-20 letters, 21-40
       copy           copy:abc->|abc                                        1-50 letters, 51-100
       key, needle    <filler>KEY:40712\n<filler>KEY:|40712                 3 and 11 depths

   The bar is not in the text: prompt to its left, target to its right. Items are digits or
   lower-case letters, half and half. A text is bytes, and byte 0 stands before it when it is read.

   Distance d of a context T: of the usable bytes U = T - |question| - |answer|, floor(d U) lie
   before the question, in training and in distribution d = .25 .5 .75 1, out of it 1.5 2. So the
   example of d = 1 is, with its byte 0, exactly the T + 1 tokens of a window. The context of key
   and needle is counted the same way; out of distribution it is 2 T.

   Nobody is tested on what somebody trained on: a hash of the prompt says for one in LM_HELD that
   it belongs to the evaluation, whatever seed and index led to it. Out of distribution all texts
   are longer than any in it. Include posenc.h first. */
#ifndef LM_TASKS_H
#define LM_TASKS_H

#include "kit/corpus.h"
#include "kit/read_json.h"

enum { LM_PASSKEY, LM_COPY_DISTANCE, LM_REVERSE, LM_SORT, LM_NO_CARRY_ADD, LM_SIMPLE_COPY,
       LM_ADDITION, LM_SORTING, LM_REVERSAL, LM_COPY, LM_KEY, LM_NEEDLE, LM_TASKS };
enum { LM_TRAINING, LM_ID, LM_OOD };       /* splits                                              */
enum { LM_LOSS_ALL, LM_LOSS_TARGET };      /* which targets count                                 */
enum { LM_HELD = 8,                        /* one prompt in so many is never trained on           */
       LM_TASK_CONTEXT = 1 << 24,
       LM_ITEMS = 5,                       /* of copy_distance                                    */
       LM_KEY_DIGITS = 5, LM_KEY_LEAST = 32,
       LM__TASK_PURPOSE = 0x7A5C0000 };    /* of random numbers: + 4 task + split                 */

typedef struct lm_example {
    const char *task;                      /* one of lm_task_name                                 */
    int ood;
    double level;                          /* items or digits; distance; depth of the key         */
    kit_text prompt, target;
} lm_example;

static const char *const lm_task_name[LM_TASKS] = {
    "passkey", "copy_distance", "reverse", "sort", "no_carry_add", "simple_copy",
    "addition", "sorting", "reversal", "copy", "key", "needle"
};

/* What begins its texts (NULL: many things do) and what stands last before the answer; lengths
   low..high in distribution, high+1..far out of it. */
static const struct lm__task_form {
    const char *head, *cue;
    int low, high, far;
} lm__task_rule[LM_TASKS] = {
    { "The code is ", "The code is ", 0, 0, 0 },
    { "COPY: ",       "PASTE: ",      0, 0, 0 },
    { "reverse: ",    " -> ",         3, 8, 16 },
    { "sort: ",       " -> ",         3, 6, 10 },
    { "add: ",        "=",            2, 5, 8 },
    { "copy: ",       " -> ",         4, 12, 20 },
    { NULL,           "=",            1, 20, 40 },
    { "sort:[",       "->",           1, 10, 20 },
    { "rev:",         "->",           1, 20, 40 },
    { "copy:",        "->",           1, 50, 100 },
    { NULL,           "KEY:",         0, 0, 0 },
    { NULL,           "KEY:",         0, 0, 0 }
};

static inline int lm_task_find(const char *name)
{
    for (int i = 0; i < LM_TASKS; i++)
        if (strcmp(lm_task_name[i], name) == 0) return i;
    return -1;
}

static inline void lm_example_free(lm_example *e)
{
    kit_text_free(&e->prompt);
    kit_text_free(&e->target);
}

/* tokens: byte 0, prompt, target */
static inline size_t lm_example_size(const lm_example *e)
{
    return 1 + e->prompt.size + e->target.size;
}

static inline void lm_example_tokens(int *tokens, const lm_example *e)
{
    *tokens++ = 0;
    for (size_t i = 0; i < e->prompt.size; i++) *tokens++ = (unsigned char)e->prompt.data[i];
    for (size_t i = 0; i < e->target.size; i++) *tokens++ = (unsigned char)e->target.data[i];
}

/* ---- levels ---------------------------------------------------------------------------------- */

static inline int lm__task_by_length(int task) { return lm__task_rule[task].far > 0; }
static inline int lm__task_is_key(int task) { return task == LM_KEY || task == LM_NEEDLE; }

/* how many there are, in distribution or out of it */
static inline int lm_task_levels(int task, int ood)
{
    const struct lm__task_form *rule = &lm__task_rule[task];
    if (lm__task_is_key(task)) return task == LM_KEY ? 3 : 11;
    if (!lm__task_by_length(task)) return ood ? 2 : 4;
    return ood ? rule->far - rule->high : rule->high - rule->low + 1;
}

static inline double lm_task_level(int task, int ood, int i)
{
    const struct lm__task_form *rule = &lm__task_rule[task];
    if (lm__task_is_key(task)) return (double)i / (lm_task_levels(task, ood) - 1);
    if (!lm__task_by_length(task)) return ood ? 1.5 + .5 * i : .25 * (i + 1);
    return (ood ? rule->high + 1 : rule->low) + i;
}

/* bytes of the longest text with n items, digits or numbers */
static inline int lm__task_most_bytes(int task, int n)
{
    int head = lm__task_rule[task].head ? (int)strlen(lm__task_rule[task].head) : 0;
    switch (task) {
    case LM_NO_CARRY_ADD: return head + n + 1 + n + 1 + n;
    case LM_ADDITION:     return n + 1 + n + 1 + n + 1;
    case LM_SORTING:      return head + 3 * n + 2 + 1 + 3 * n;
    case LM_REVERSAL:
    case LM_COPY:         return head + n + 2 + n;
    default:              return head + (2 * n - 1) + 4 + (2 * n - 1);
    }
}

/* The smallest context in which everything of training and in distribution fits. By distance: at a
   quarter of it the head and a byte of filler still lie before the question. */
static inline int lm_task_least(int task)
{
    if (lm__task_is_key(task)) return LM_KEY_LEAST;
    if (task == LM_PASSKEY) return 4 * (12 + 5 + 2 + 1) + 12 + 5;
    if (task == LM_COPY_DISTANCE) return 4 * (6 + 9 + 5 + 1) + 7 + 9;
    return lm__task_most_bytes(task, lm__task_rule[task].high);
}

static inline int lm_task_fits(int task, int T, kit_error *why)
{
    if (task < 0 || task >= LM_TASKS)
        return kit_fail(why, "task %d: there are %d, numbered from 0", task, LM_TASKS);
    if (T >= lm_task_least(task) && T <= LM_TASK_CONTEXT) return 1;
    return kit_fail(why, "%s needs a context of %d to %d tokens (bytes), not %d",
                    lm_task_name[task], lm_task_least(task), LM_TASK_CONTEXT, T);
}

/* ---- filler ---------------------------------------------------------------------------------- */

/* What is no whole UTF-8 letter becomes blanks: pieces are cut by bytes, and JSON holds letters. */
static inline void lm__task_clean(char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        int bytes = kit__utf8_bytes(text + i, n - i);
        if (bytes == 0 || text[i] == 0) text[i] = ' ';
        i += bytes ? (size_t)bytes : 1;
    }
}

/* where a word begins, at a random place or soon behind it */
static inline size_t lm_task_word(kit_random *r, const kit_text *text)
{
    size_t size = text->size < INT32_MAX ? text->size : INT32_MAX;
    size_t at = (size_t)kit_random_below(r, (int)size);
    for (size_t i = at; i < at + 32 && i < size; i++)
        if (text->data[i] == ' ' || text->data[i] == '\n') return (i + 1) % size;
    return at;
}

/* n bytes; the last is a blank, so that no word runs into what follows. A short text comes again
   and again. Without any: sentences nobody has seen before. */
static inline void lm__task_put_filler(kit_text *t, kit_random *r, const kit_text *text, size_t n)
{
    kit_text own = { NULL, 0, 0 };
    uint64_t high = kit_random_word(r), seed = high << 32 | kit_random_word(r);
    size_t at = 0, first = t->size;
    if (!text || text->size == 0) {
        kit_sentences(&own, n, seed);
        text = &own;
    } else at = lm_task_word(r, text);
    for (size_t left = n; left > 0;) {
        size_t piece = text->size - at < left ? text->size - at : left;
        kit_put_bytes(t, text->data + at, piece);
        left -= piece;
        at = 0;
    }
    t->data[first + n - 1] = ' ';
    lm__task_clean(t->data + first, n);
    kit_text_free(&own);
}

/* ---- what the tasks are made of -------------------------------------------------------------- */

static inline void lm__task_put_digits(kit_text *t, kit_random *r, int n)
{
    for (int i = 0; i < n; i++) kit_put(t, "%d", kit_random_below(r, 10));
}

/* n digits or lower-case letters */
static inline void lm__task_items(char *item, kit_random *r, int n)
{
    int letters = kit_random_below(r, 2);
    for (int i = 0; i < n; i++)
        item[i] = (char)(letters ? 'a' + kit_random_below(r, 26) : '0' + kit_random_below(r, 10));
}

/* the same, each at most once; n <= 10 */
static inline void lm__task_unlike_items(char *item, kit_random *r, int n)
{
    int order[26], letters = kit_random_below(r, 2);
    kit_random_order(r, order, letters ? 26 : 10);
    for (int i = 0; i < n; i++) item[i] = (char)((letters ? 'a' : '0') + order[i]);
}

static inline void lm__task_put_spaced(kit_text *t, const char *item, int n)
{
    for (int i = 0; i < n; i++) kit_put(t, i ? " %c" : "%c", item[i]);
}

static inline int lm__task_order_bytes(const void *a, const void *b)
{
    return *(const unsigned char *)a - *(const unsigned char *)b;
}

static inline void lm__task_turn_round(char *item, int n)
{
    for (int i = 0; i < n / 2; i++) {
        char kept = item[i];
        item[i] = item[n - 1 - i];
        item[n - 1 - i] = kept;
    }
}

/* ---- passkey, copy_distance: what was said at the beginning is asked for at the end ---------- */

static inline void lm__task_at_distance(lm_example *e, kit_random *r, int task, int T,
                                        const kit_text *filler)
{
    const char *question = lm__task_rule[task].cue;
    char item[LM_ITEMS];
    if (task == LM_PASSKEY) {
        lm__task_put_digits(&e->target, r, 1 + kit_random_below(r, 5));
        kit_put(&e->prompt, "The code is %s. ", e->target.data);
    } else {
        lm__task_items(item, r, LM_ITEMS);
        lm__task_put_spaced(&e->target, item, LM_ITEMS);
        kit_put(&e->prompt, "COPY: %s ||| ", e->target.data);
    }
    double usable = (double)T - (double)strlen(question) - (double)e->target.size;
    size_t before = (size_t)(e->level * usable);     /* lm_task_least: more than is there already */
    lm__task_put_filler(&e->prompt, r, filler, before - e->prompt.size);
    kit_put_string(&e->prompt, question);
}

/* ---- reverse, sort, simple_copy -------------------------------------------------------------- */

static inline void lm__task_list(lm_example *e, kit_random *r, int task, int n)
{
    char item[32];
    if (task == LM_SORT) lm__task_unlike_items(item, r, n);
    else lm__task_items(item, r, n);
    kit_put_string(&e->prompt, lm__task_rule[task].head);
    lm__task_put_spaced(&e->prompt, item, n);
    kit_put_string(&e->prompt, lm__task_rule[task].cue);
    if (task == LM_REVERSE) lm__task_turn_round(item, n);
    if (task == LM_SORT) qsort(item, (size_t)n, 1, lm__task_order_bytes);
    lm__task_put_spaced(&e->target, item, n);
}

/* ---- no_carry_add, addition ------------------------------------------------------------------ */

/* n digits below `digits`; the first of several is not 0, and of no_carry_add's no first one is */
static inline void lm__task_number(char *digit, kit_random *r, int n, int digits, int zero)
{
    for (int i = 0; i < n; i++) {
        int least = i == 0 && !zero;
        digit[i] = (char)('0' + least + kit_random_below(r, digits - least));
    }
    digit[n] = 0;
}

static inline void lm__task_sum(lm_example *e, kit_random *r, int task, int n)
{
    char a[64], b[64], sum[64];
    int digits = task == LM_NO_CARRY_ADD ? 5 : 10, zero = task == LM_ADDITION && n == 1, carry = 0;
    lm__task_number(a, r, n, digits, zero);
    lm__task_number(b, r, n, digits, zero);
    kit_put(&e->prompt, "%s%s+%s=", task == LM_NO_CARRY_ADD ? "add: " : "", a, b);
    for (int i = n - 1; i >= 0; i--) {
        int at = a[i] - '0' + b[i] - '0' + carry;
        carry = at / 10;
        sum[i] = (char)('0' + at % 10);
    }
    if (carry) kit_put_string(&e->target, "1");
    kit_put_bytes(&e->target, sum, (size_t)n);
}

/* ---- sorting, reversal, copy ----------------------------------------------------------------- */

static inline void lm__task_put_numbers(kit_text *t, const unsigned char *number, int n)
{
    for (int i = 0; i < n; i++) kit_put(t, "%s%d", i ? "," : "[", number[i]);
    kit_put_string(t, "]");
}

static inline void lm__task_numbers(lm_example *e, kit_random *r, int n)
{
    unsigned char number[32];
    for (int i = 0; i < n; i++) number[i] = (unsigned char)kit_random_below(r, 100);
    kit_put_string(&e->prompt, "sort:");
    lm__task_put_numbers(&e->prompt, number, n);
    kit_put_string(&e->prompt, "->");
    qsort(number, (size_t)n, 1, lm__task_order_bytes);
    lm__task_put_numbers(&e->target, number, n);
}

static inline void lm__task_letters(lm_example *e, kit_random *r, int task, int n)
{
    char letter[128];
    for (int i = 0; i < n; i++) letter[i] = (char)('a' + kit_random_below(r, 26));
    kit_put(&e->prompt, "%s%.*s->", lm__task_rule[task].head, n, letter);
    if (task == LM_REVERSAL) lm__task_turn_round(letter, n);
    kit_put_bytes(&e->target, letter, (size_t)n);
}

/* ---- key, needle ----------------------------------------------------------------------------- */

static const char *const lm__task_stock[] = {
    "The kettle was put on the stove. ", "Snow lay on the roofs of the village. ",
    "A cart went by. ", "Somebody had left a gate open. ", "The bread was still warm. ",
    "It would be dark soon. "
};

/* n bytes of the sentences above in their order, from a random one on */
static inline void lm__task_put_stock(kit_text *t, kit_random *r, size_t n)
{
    int sentences = (int)(sizeof lm__task_stock / sizeof *lm__task_stock);
    size_t end = t->size + n;
    for (int i = kit_random_below(r, sentences); t->size < end; i = (i + 1) % sentences) {
        size_t left = end - t->size, length = strlen(lm__task_stock[i]);
        kit_put_bytes(t, lm__task_stock[i], length < left ? length : left);
    }
}

/* The evaluation's passkey at any depth (0: first thing in the text, 1: right before the question)
   of a context of n tokens, byte 0 and all but the last byte of the answer included. */
static inline void lm__task_key(lm_example *e, kit_random *r, int n)
{
    size_t stock = (size_t)(n - LM_KEY_DIGITS - 10 - 4);
    size_t before = (size_t)(e->level * (double)stock + .5);
    kit_text text = { NULL, 0, 0 };
    lm__task_put_stock(&text, r, stock);
    lm__task_put_digits(&e->target, r, LM_KEY_DIGITS);
    kit_put_bytes(&e->prompt, text.data, before);
    kit_put(&e->prompt, "KEY:%s\n", e->target.data);
    kit_put_bytes(&e->prompt, text.data + before, stock - before);
    kit_put_string(&e->prompt, "KEY:");
    kit_text_free(&text);
}

/* ---- making one ------------------------------------------------------------------------------ */

/* whether nobody may train on this prompt; FNV-1a, whose lowest bits need a stir */
static inline int lm_prompt_is_held(const kit_text *prompt)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < prompt->size; i++)
        sum = (sum ^ (unsigned char)prompt->data[i]) * 1099511628211u;
    sum = (sum ^ sum >> 29) * 0xBF58476D1CE4E5B9u;
    return (sum >> 32) % LM_HELD == 0;
}

/* In training, key and needle stand anywhere in texts of any length: the short ones teach what is
   wanted, the long ones how far away it can be. */
static inline void lm__task_write(lm_example *e, kit_random *r, int task, int split, int T,
                                  const kit_text *filler)
{
    int n = (int)e->level;
    if (lm__task_is_key(task)) {
        int length = split == LM_OOD ? 2 * T : T;
        if (split == LM_TRAINING) {
            length = LM_KEY_LEAST + kit_random_below(r, T - LM_KEY_LEAST + 1);
            e->level = kit_random_below(r, 1001) / 1000.0;
        }
        lm__task_key(e, r, length);
    } else if (!lm__task_by_length(task)) lm__task_at_distance(e, r, task, T, filler);
    else if (task == LM_NO_CARRY_ADD || task == LM_ADDITION) lm__task_sum(e, r, task, n);
    else if (task == LM_SORTING) lm__task_numbers(e, r, n);
    else if (task == LM_REVERSAL || task == LM_COPY) lm__task_letters(e, r, task, n);
    else lm__task_list(e, r, task, n);
}

/* Draws until the prompt belongs to the split, 8 times on average for an evaluation. */
static inline int lm__task_draw(lm_example *e, kit_random *r, int task, int split, int T,
                                const kit_text *filler)
{
    for (int tries = 0; tries < 4000; tries++) {
        e->prompt.size = e->target.size = 0;
        lm__task_write(e, r, task, split, T, filler);
        if (split == LM_OOD || lm_prompt_is_held(&e->prompt) == (split == LM_ID)) return 1;
    }
    return 0;
}

/* Example number index of a task. split: LM_TRAINING, LM_ID or LM_OOD; evaluations go through their
   levels in turn. filler: text to hide things in, NULL for sentences of our own. T: the context. */
static inline int lm_task_make(lm_example *e, int task, int split, uint64_t seed, uint64_t index,
                               int T, const kit_text *filler, kit_error *why)
{
    memset(e, 0, sizeof *e);
    if (!lm_task_fits(task, T, why)) return 0;
    int ood = split == LM_OOD, levels = lm_task_levels(task, ood);
    uint32_t purpose = (uint32_t)(LM__TASK_PURPOSE + 4 * task + split);
    kit_random r = kit_random_open(seed, purpose, index);
    int level = (int)(index % (unsigned)levels);
    if (split == LM_TRAINING) level = kit_random_below(&r, levels);
    e->task = lm_task_name[task];
    e->ood = ood;
    e->level = lm_task_level(task, ood, level);
    if (lm__task_draw(e, &r, task, split, T, filler)) return 1;
    lm_example_free(e);
    return kit_fail(why, "%s has no text of level %g for split %d", lm_task_name[task],
                    lm_task_level(task, ood, level), split);
}

/* A key at a depth of 0 to 1 in a context of n tokens, for an evaluation at any length. It is one
   that nobody trained on. */
static inline int lm_key_make(lm_example *e, double depth, uint64_t seed, uint64_t index, int n,
                              kit_error *why)
{
    memset(e, 0, sizeof *e);
    if (!lm_task_fits(LM_KEY, n, why)) return 0;
    if (!(depth >= 0 && depth <= 1)) return kit_fail(why, "depth %g is not in 0..1", depth);
    kit_random r = kit_random_open(seed, (uint32_t)(LM__TASK_PURPOSE + 4 * LM_KEY + 3), index);
    e->task = lm_task_name[LM_KEY];
    e->level = depth;
    do {
        e->prompt.size = e->target.size = 0;
        lm__task_key(e, &r, n);
    } while (!lm_prompt_is_held(&e->prompt));
    return 1;
}

/* ---- which targets count ------------------------------------------------------------------------
   Answers need no marks: how a text begins tells its task, and the task what stands last before
   the answer. A byte 0 that ends a text counts as well, or no model would learn to stop; those
   that pad a window do not. What is no text of a task counts whole. */

typedef struct lm__task_row { const int *tokens; int T, last; } lm__task_row;     /* T + 1 tokens */

static inline int lm__task_token(const lm__task_row *x, int i)
{
    return i < x->T ? x->tokens[i] : x->last;
}

static inline int lm__task_reads(const lm__task_row *x, int at, int end, const char *word)
{
    for (; *word; word++, at++)
        if (at < 0 || at >= end || lm__task_token(x, at) != (unsigned char)*word) return 0;
    return 1;
}

static inline int lm__task_digits(const lm__task_row *x, int from, int to)
{
    for (int i = from; i < to; i++)
        if (lm__task_token(x, i) < '0' || lm__task_token(x, i) > '9') return 0;
    return from < to;
}

/* behind the last word in from..end; -1: there is none */
static inline int lm__task_behind(const lm__task_row *x, int from, int end, const char *word)
{
    int n = (int)strlen(word);
    for (int at = end - n; at >= from; at--)
        if (lm__task_reads(x, at, end, word)) return at + n;
    return -1;
}

/* where the answer of the text from..end begins; -1: it is no text of a task */
static inline int lm__task_answer(const lm__task_row *x, int from, int end)
{
    int key = lm__task_behind(x, end - LM_KEY_DIGITS - 4, end, "KEY:");
    if (key == end - LM_KEY_DIGITS && key - 4 >= from && lm__task_digits(x, key, end)) return key;
    for (int task = 0; task < LM_TASKS; task++) {
        const struct lm__task_form *rule = &lm__task_rule[task];
        if (rule->head && lm__task_reads(x, from, end, rule->head))
            return lm__task_behind(x, from + (int)strlen(rule->head), end, rule->cue);
    }
    int equals = lm__task_behind(x, from, end, "="), plus = lm__task_behind(x, from, equals, "+");
    int sum = plus > 0 && equals > 0 && lm__task_digits(x, from, plus - 1)
           && lm__task_digits(x, plus, equals - 1);
    return sum ? equals : -1;
}

/* The targets of a window of tasks, T tokens and what follows each: others become POSENC_IGNORE.
   A last target that is POSENC_IGNORE already is taken for byte 0. */
static inline void lm_task_mask(int *targets, const int *tokens, int T, int loss)
{
    lm__task_row x = { tokens, T, targets[T - 1] == POSENC_IGNORE ? 0 : targets[T - 1] };
    for (int from = 0, end; from <= T; from = end) {
        int text = from + (lm__task_token(&x, from) == 0);
        for (end = text; end <= T && lm__task_token(&x, end) != 0;) end++;
        int answer = loss == LM_LOSS_TARGET ? lm__task_answer(&x, text, end) : -1;
        for (int i = text > 0 ? text : 1; i < end; i++)
            targets[i - 1] = i >= answer ? lm__task_token(&x, i) : POSENC_IGNORE;
        if (end <= T) targets[end - 1] = end > text ? 0 : POSENC_IGNORE;
    }
}

#endif
