/* Texts with one right answer: every pattern is taken apart and worked out again here, in another way than
   it was made; splits never meet; lengths are right to the byte; packing loses and cuts nothing; files of
   examples come back, and hostile ones are refused.                                                      */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "lm/tasks_command.h"

enum { T = 128 };
static char folder[KIT_PATH];
static kit_error why;

static int make(lm_example *e, int task, int split, uint64_t seed, uint64_t index)
{
    return lm_task_make(e, task, split, seed, index, T, NULL, &why);
}

/* ---- the answer, worked out again ------------------------------------------------------------------ */

/* what stands between a beginning and an ending; NULL if the text has not both */
static const char *between(char out[4096], const char *text, const char *begin, const char *end)
{
    size_t n = strlen(text), b = strlen(begin), e = strlen(end);
    if (n < b + e || n - b - e >= 4096 || memcmp(text, begin, b) != 0 || memcmp(text + n - e, end, e) != 0)
        return NULL;
    memcpy(out, text + b, n - b - e);
    out[n - b - e] = 0;
    return out;
}

/* "a b c": how many letters; 0 if it is anything else */
static int items_of(char *item, const char *text)
{
    int n = 0;
    for (;; text += 2) {
        if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9')) return 0;
        item[n++] = *text;
        if (text[1] == 0) break;
        if (text[1] != ' ') return 0;
    }
    for (int i = 1; i < n; i++)
        if ((item[i] <= '9') != (item[0] <= '9')) return 0;            /* digits or letters, not both */
    return n;
}

static int count_of(const char *item, int n, char c)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += item[i] == c;
    return count;
}

static int list_is_right(int task, const char *given, const char *answer)
{
    char a[256], b[256];
    int n = items_of(a, given), good = n > 0 && items_of(b, answer) == n;
    for (int i = 0; i < n && good; i++) {
        if (task == LM_REVERSE) good = a[i] == b[n - 1 - i];
        else if (task == LM_SIMPLE_COPY) good = a[i] == b[i];
        else good = count_of(a, n, b[i]) == 1 && count_of(b, n, b[i]) == 1 && (i == 0 || b[i - 1] < b[i]);
    }
    return good ? n : 0;
}

/* digits only, and no zero in front of others */
static int is_number(const char *text)
{
    size_t n = strspn(text, "0123456789");
    return n > 0 && text[n] == 0 && (n == 1 || *text != '0');
}

static unsigned long long rest_of(const char *digits, unsigned long long m)
{
    unsigned long long rest = 0;
    for (; *digits; digits++) rest = (rest * 10 + (unsigned)(*digits - '0')) % m;
    return rest;
}

/* The sum is right modulo three primes whose product is beyond 2^90, and not longer than it can be: for up
   to 27 digits that is proof, beyond it a mistake of a digit or a carry would still show. */
static int sum_is_right(const char *given, const char *answer, int carries)
{
    static const unsigned long long prime[] = { 2147483647, 2147483629, 2147483587 };
    char a[128];
    const char *b = strchr(given, '+');
    size_t n = b ? (size_t)(b++ - given) : 0;
    memcpy(a, given, n);
    a[n] = 0;
    if (n == 0 || !is_number(a) || !is_number(b) || !is_number(answer) || strlen(b) != n) return 0;
    for (int i = 0; i < 3; i++)
        if ((rest_of(a, prime[i]) + rest_of(b, prime[i])) % prime[i] != rest_of(answer, prime[i])) return 0;
    for (size_t i = 0; i < n && !carries; i++)
        if (a[i] > '4' || b[i] > '4' || a[0] == '0' || b[0] == '0' || answer[i] - '0' != a[i] + b[i] - 2 * '0')
            return 0;
    return strlen(answer) == n || (carries && strlen(answer) == n + 1 && *answer == '1') ? (int)n : 0;
}

/* "[3,1,2]" */
static int numbers_of(int *number, const char *text)
{
    int n = 0, used = 0;
    if (*text++ != '[') return 0;
    for (;; text++) {
        if (sscanf(text, "%2d%n", &number[n], &used) != 1 || *text < '0' || (used == 2 && *text == '0')) return 0;
        n++;
        text += used;
        if (*text != ',') break;
    }
    return strcmp(text, "]") == 0 ? n : 0;
}

static int numbers_are_right(const char *given, const char *answer)
{
    int a[64], b[64], n = numbers_of(a, given), good = n > 0 && numbers_of(b, answer) == n;
    for (int i = 0; i < n && good; i++) {
        int in_a = 0, in_b = 0;
        for (int k = 0; k < n; k++) { in_a += a[k] == b[i]; in_b += b[k] == b[i]; }
        good = in_a == in_b && (i == 0 || b[i - 1] <= b[i]);
    }
    return good ? n : 0;
}

static int letters_are_right(const char *given, const char *answer, int backward)
{
    int n = (int)strlen(given), good = n > 0 && (int)strlen(answer) == n;
    for (int i = 0; i < n && good; i++)
        good = given[i] >= 'a' && given[i] <= 'z' && answer[i] == given[backward ? n - 1 - i : i];
    return good ? n : 0;
}

/* The two askings with what lies between; the answer is what the first one was told. */
static int is_told_before(const lm_example *e, const char *begin, const char *stop, const char *question)
{
    char inside[4096], told[64];
    if (e->prompt.size > 4000 || !between(inside, e->prompt.data, begin, question)) return 0;
    const char *end = strstr(inside, stop);
    if (!end || end - inside > 60) return 0;
    snprintf(told, sizeof told, "%.*s", (int)(end - inside), inside);
    return strlen(end) > strlen(stop) && strcmp(told, e->target.data) == 0;
}

/* bytes before and behind the line of the key */
static int key_is_right(const lm_example *e, size_t *before, size_t *behind)
{
    char line[32];
    snprintf(line, sizeof line, "KEY:%s\n", e->target.data);
    const char *at = strstr(e->prompt.data, line), *end = e->prompt.data + e->prompt.size;
    if (!at || strlen(line) != 10 || !strchr("0123456789", e->target.data[0]) || memcmp(end - 4, "KEY:", 4)) return 0;
    *before = (size_t)(at - e->prompt.data);
    *behind = (size_t)(end - 4 - (at + 10));
    return strspn(e->target.data, "0123456789") == 5 && e->target.size == 5;
}

/* how many items, digits or numbers it has; 1 for the others; 0: wrong */
static int right(const lm_example *e)
{
    char x[4096], item[64];
    size_t before, behind;
    const char *p = e->prompt.data, *t = e->target.data;
    switch (lm_task_find(e->task)) {
    case LM_PASSKEY:
        return is_told_before(e, "The code is ", ". ", "The code is ") && e->target.size <= 5
            && strspn(t, "0123456789") == e->target.size;
    case LM_COPY_DISTANCE: return is_told_before(e, "COPY: ", " ||| ", "PASTE: ") && items_of(item, t) == 5;
    case LM_REVERSE:       return between(x, p, "reverse: ", " -> ") ? list_is_right(LM_REVERSE, x, t) : 0;
    case LM_SORT:          return between(x, p, "sort: ", " -> ") ? list_is_right(LM_SORT, x, t) : 0;
    case LM_SIMPLE_COPY:   return between(x, p, "copy: ", " -> ") ? list_is_right(LM_SIMPLE_COPY, x, t) : 0;
    case LM_NO_CARRY_ADD:  return between(x, p, "add: ", "=") ? sum_is_right(x, t, 0) : 0;
    case LM_ADDITION:      return between(x, p, "", "=") ? sum_is_right(x, t, 1) : 0;
    case LM_SORTING:       return between(x, p, "sort:", "->") ? numbers_are_right(x, t) : 0;
    case LM_REVERSAL:      return between(x, p, "rev:", "->") ? letters_are_right(x, t, 1) : 0;
    case LM_COPY:          return between(x, p, "copy:", "->") ? letters_are_right(x, t, 0) : 0;
    default:               return key_is_right(e, &before, &behind);
    }
}

/* The checks above check: a wrong letter anywhere in the answer is wrong. */
TEST a_wrong_answer_is_seen(int task)
{
    lm_example e;
    for (uint64_t index = 0; index < 20; index++) {
        ASSERT(make(&e, task, LM_ID, 1, index) && right(&e));
        for (size_t i = 0; i < e.target.size; i++) {
            char kept = e.target.data[i];
            e.target.data[i] = (char)(kept == '7' ? '8' : kept == 'q' ? 'r' : kept < 'a' ? '7' : 'q');
            ASSERT(!right(&e));
            e.target.data[i] = kept;
        }
        lm_example_free(&e);
    }
    PASS();
}

/* ---- patterns and ranges --------------------------------------------------------------------------- */

static const struct { int low, high, far; } range[LM_TASKS] = {
    { 0, 0, 0 }, { 0, 0, 0 }, { 3, 8, 16 }, { 3, 6, 10 }, { 2, 5, 8 }, { 4, 12, 20 },
    { 1, 20, 40 }, { 1, 10, 20 }, { 1, 20, 40 }, { 1, 50, 100 }, { 0, 0, 0 }, { 0, 0, 0 }
};

TEST every_text_is_right_and_in_its_range(int task, int split)
{
    enum { N = 1500 };
    int far = split == LM_OOD, seen[101] = { 0 }, low = range[task].low, high = range[task].high;
    if (far) { low = high + 1; high = range[task].far; }
    for (uint64_t i = 0; i < N; i++) {
        lm_example e;
        ASSERT(make(&e, task, split, 42, i));
        int n = right(&e);
        ASSERTm(e.prompt.data, n > 0);
        ASSERT_EQ(e.ood, far);
        ASSERT_STR_EQ(lm_task_name[task], e.task);
        ASSERT(strlen(e.prompt.data) == e.prompt.size && strlen(e.target.data) == e.target.size);
        if (split != LM_OOD) ASSERT(lm_example_size(&e) <= T + 1);
        if (range[task].far) {
            ASSERT(n >= low && n <= high && e.level == n);
            seen[n]++;
        }
        lm_example_free(&e);
    }
    for (int n = low; n <= high && range[task].far; n++) {
        int even = N / (high - low + 1), slack = split == LM_TRAINING ? even / 2 + 20 : 1;
        ASSERT(abs(seen[n] - even) <= slack);
    }
    PASS();
}

TEST half_the_items_are_digits(int task)
{
    int digits = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        lm_example e;
        ASSERT(make(&e, task, LM_TRAINING, 42, i));
        digits += e.target.data[0] <= '9';
        lm_example_free(&e);
    }
    ASSERT(digits > 900 && digits < 1100);                   /* 1000 +- 22 */
    PASS();
}

TEST carries_do_occur_in_addition(void)
{
    int longer = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        lm_example e;
        ASSERT(make(&e, LM_ADDITION, LM_TRAINING, 42, i));
        longer += 2 * e.target.size > e.prompt.size - 2;
        lm_example_free(&e);
    }
    ASSERT(longer > 350 && longer < 650);
    PASS();
}

/* ---- distance and depth, to the byte --------------------------------------------------------------- */

/* what lies before the question is floor(d (T - question - answer)) bytes; at d = 1 a window is full */
TEST distances_are_exact(int task, int context)
{
    static const double near_by[] = { .25, .5, .75, 1 }, far[] = { 1.5, 2 };
    int question = task == LM_PASSKEY ? 12 : 7, seen = 0;
    for (int split = LM_ID; split <= LM_OOD; split++)
        for (uint64_t i = 0; i < 40; i++) {
            double d = split == LM_ID ? near_by[i % 4] : far[i % 2];
            lm_example e;
            ASSERT(lm_task_make(&e, task, split, 3, i, context, NULL, &why));
            int answer = (int)e.target.size, before = (int)e.prompt.size - question;
            ASSERT(right(&e) && e.level == d);
            ASSERT_EQ(before, (int)floor(d * (context - question - answer)));
            ASSERT_EQ(e.prompt.data[before - 1], ' ');
            if (d == 1) ASSERT_EQ(lm_example_size(&e), (size_t)context + 1);
            if (d > 1) ASSERT(lm_example_size(&e) > (size_t)context + 1);
            seen |= d == 1;
            lm_example_free(&e);
        }
    ASSERT(seen);
    PASS();
}

TEST keys_stand_at_their_depth(int task, int context)
{
    int depths = task == LM_KEY ? 3 : 11;
    for (int split = LM_ID; split <= LM_OOD; split++)
        for (int i = 0; i < 2 * depths; i++) {
            double depth = i % depths / (depths - 1.0);
            size_t before, behind, length = (size_t)(split == LM_OOD ? 2 * context : context);
            lm_example e, same;
            ASSERT(lm_task_make(&e, task, split, 3, (uint64_t)i, context, NULL, &why));
            ASSERT(key_is_right(&e, &before, &behind));
            ASSERT_EQ(lm_example_size(&e), length + 1);
            ASSERT(fabs((double)before - depth * (double)(before + behind)) <= .5);
            ASSERT(lm_key_make(&same, depth, 3, (uint64_t)i, (int)length, &why));
            ASSERT_EQ(lm_example_size(&same), length + 1);
            lm_example_free(&e);
            lm_example_free(&same);
        }
    PASS();
}

/* the smallest context works in every split, and one less is refused with both numbers */
TEST small_contexts_work_or_say_how_small(int task)
{
    int least = lm_task_least(task);
    char number[16];
    lm_example e;
    ASSERT(least <= 128);
    for (int split = 0; split < 3; split++)
        for (uint64_t i = 0; i < 200; i++) {
            ASSERT(lm_task_make(&e, task, split, 9, i, least, NULL, &why) && right(&e));
            if (split != LM_OOD) ASSERT(lm_example_size(&e) <= (size_t)least + 1);
            lm_example_free(&e);
        }
    ASSERT_EQ(lm_task_make(&e, task, LM_ID, 9, 0, least - 1, NULL, &why), 0);
    snprintf(number, sizeof number, " %d ", least);
    ASSERT(strstr(why.text, number) && strstr(why.text, lm_task_name[task]));
    snprintf(number, sizeof number, "not %d", least - 1);
    ASSERT(strstr(why.text, number) != NULL);
    ASSERT_EQ(lm_task_make(&e, task, LM_ID, 9, 0, INT32_MAX, NULL, &why), 0);
    PASS();
}

TEST tasks_and_depths_that_are_not_there_are_refused(void)
{
    lm_example e;
    ASSERT_EQ(lm_task_find("sorted"), -1);
    ASSERT_EQ(lm_task_find("needle"), LM_NEEDLE);
    ASSERT_EQ(make(&e, LM_TASKS, LM_ID, 1, 0), 0);
    ASSERT_EQ(make(&e, -1, LM_ID, 1, 0), 0);
    ASSERT_EQ(lm_key_make(&e, NAN, 1, 0, T, &why), 0);
    ASSERT_EQ(lm_key_make(&e, 1.01, 1, 0, T, &why), 0);
    ASSERT_EQ(lm_key_make(&e, .5, 1, 0, 31, &why), 0);
    PASS();
}

/* ---- filler ---------------------------------------------------------------------------------------- */

static int is_utf8(const kit_text *t)
{
    for (size_t i = 0; i < t->size;) {
        int n = kit__utf8_bytes(t->data + i, t->size - i);
        if (n == 0 || t->data[i] == 0) return 0;
        i += (size_t)n;
    }
    return 1;
}

/* Whatever is in a filler, and however short it is: the length is right and the text is text. */
TEST any_filler_will_do(const char *bytes, size_t n)
{
    char own[1024];
    kit_text filler = { own, n, sizeof own };
    memcpy(own, bytes, n);
    for (uint64_t i = 0; i < 100; i++) {
        lm_example e;
        ASSERT(lm_task_make(&e, LM_PASSKEY, LM_ID, 5, i, 200, &filler, &why));
        int before = (int)floor(e.level * (200 - 12 - (int)e.target.size));
        ASSERT_EQ(e.prompt.size, (size_t)before + 12);
        ASSERT(is_utf8(&e.prompt));
        lm_example_free(&e);
    }
    PASS();
}

TEST filler_is_the_text_that_was_given(void)
{
    kit_text filler = { NULL, 0, 0 };
    char inside[4096];
    lm_example e;
    kit_put_string(&filler, "uno due tre quattro cinque sei sette otto nove dieci undici dodici ");
    for (uint64_t i = 3; i < 40; i += 4) {                   /* distance 1 */
        ASSERT(lm_task_make(&e, LM_PASSKEY, LM_ID, 5, i, 110, &filler, &why));
        ASSERT(between(inside, e.prompt.data, "The code is ", "The code is "));
        char *from = strstr(inside, ". ") + 2, twice[200];
        from[strlen(from) - 1] = 0;                          /* the blank that is always last */
        snprintf(twice, sizeof twice, "%s%s", filler.data, filler.data);
        char *found = strstr(twice, from);
        ASSERT(found && strlen(from) > 50 && (found == twice || found[-1] == ' '));
        lm_example_free(&e);
    }
    kit_text_free(&filler);
    PASS();
}

/* ---- numbers of examples --------------------------------------------------------------------------- */

static int same_example(const lm_example *a, const lm_example *b)
{
    return a->prompt.size == b->prompt.size && memcmp(a->prompt.data, b->prompt.data, a->prompt.size) == 0
        && a->target.size == b->target.size && memcmp(a->target.data, b->target.data, a->target.size) == 0
        && a->level == b->level;
}

/* Item 17 is the same whether 0 to 16 were made, and another one for another seed, split or task. */
TEST an_item_depends_on_its_number_alone(int task, int split)
{
    lm_example first, other, again;
    ASSERT(make(&first, task, split, 7, 17));
    for (uint64_t i = 0; i < 17; i++) {
        ASSERT(make(&other, task, split, 7, i));
        ASSERT(!same_example(&first, &other));
        lm_example_free(&other);
    }
    ASSERT(make(&again, task, split, 7, 17) && same_example(&first, &again));
    lm_example_free(&again);
    ASSERT(make(&other, task, split, 8, 17) && !same_example(&first, &other));
    lm_example_free(&other);
    ASSERT(make(&other, task, split, 7, ((uint64_t)1 << 32) + 17) && !same_example(&first, &other));
    lm_example_free(&other);
    lm_example_free(&first);
    PASS();
}

static uint64_t sum_of(uint64_t sum, const kit_text *t)
{
    for (size_t i = 0; i < t->size; i++) sum = (sum ^ (unsigned char)t->data[i]) * 1099511628211u;
    return sum;
}

/* Data sets of today are those of tomorrow, and of another machine. */
TEST texts_are_the_same_on_every_machine(void)
{
    uint64_t sum = 14695981039346656037u;
    for (int task = 0; task < LM_TASKS; task++)
        for (int split = 0; split < 3; split++)
            for (uint64_t i = 0; i < 10; i++) {
                lm_example e;
                ASSERT(make(&e, task, split, 42, i));
                sum = sum_of(sum_of(sum, &e.prompt), &e.target);
                lm_example_free(&e);
            }
    ASSERT_EQ_FMT(0x3372c5f311beacc5ULL, (unsigned long long)sum, "%llx");
    PASS();
}

/* ---- nobody is asked what somebody was taught ------------------------------------------------------ */

static int by_letters(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Training of three seeds, one of them the evaluation's own: none of its prompts is an evaluation's. */
TEST splits_have_no_prompt_in_common(int task)
{
    enum { TRAIN = 2000, EVAL = 400 };
    static const uint64_t seed[3] = { 42, 123, 7 };
    static char *taught[3 * TRAIN];
    int clash = 0, repeated = 0;
    lm_example e;
    for (int i = 0; i < 3 * TRAIN; i++) {
        ASSERT(make(&e, task, LM_TRAINING, seed[i / TRAIN], (uint64_t)(i % TRAIN)));
        taught[i] = e.prompt.data;
        kit_text_free(&e.target);
    }
    qsort(taught, 3 * TRAIN, sizeof *taught, by_letters);
    for (int i = 1; i < 3 * TRAIN; i++) repeated += strcmp(taught[i - 1], taught[i]) == 0;
    for (int i = 0; i < 2 * EVAL; i++) {
        ASSERT(make(&e, task, i < EVAL ? LM_ID : LM_OOD, 123, (uint64_t)(i % EVAL)));
        clash += bsearch(&e.prompt.data, taught, 3 * TRAIN, sizeof *taught, by_letters) != NULL;
        lm_example_free(&e);
    }
    for (int i = 0; i < 3 * TRAIN; i++) free(taught[i]);
    ASSERT_EQ(clash, 0);
    if (task == LM_REVERSAL) ASSERT(repeated > 100);         /* the search does find what is the same */
    PASS();
}

/* One in LM_HELD, of every kind of prompt. */
TEST one_prompt_in_eight_is_held_back(int task)
{
    enum { N = 4000 };
    int held = 0;
    for (uint64_t i = 0; i < N; i++) {
        lm_example e;
        kit_random r = kit_random_open(11, 99, i);
        memset(&e, 0, sizeof e);
        e.level = lm_task_level(task, 0, (int)i % lm_task_levels(task, 0));
        lm__task_write(&e, &r, task, LM_ID, T, NULL);
        held += lm_prompt_is_held(&e.prompt);
        lm_example_free(&e);
    }
    ASSERT(held > N / 8 - 180 && held < N / 8 + 180);        /* 500 +- 21, more where few can be told apart */
    PASS();
}

/* ---- packing --------------------------------------------------------------------------------------- */

typedef struct shelf { int *token; int windows, room; } shelf;

static int put_window(void *user, const int *token, int W, kit_error *no)
{
    shelf *s = (shelf *)user;
    if (s->windows == s->room) return kit_fail(no, "the shelf is full");
    memcpy(s->token + (size_t)s->windows++ * (size_t)W, token, (size_t)W * sizeof *token);
    return 1;
}

/* the texts in a row of tokens, each of them checked and counted by its sum; 0: something was cut */
static int texts_of(uint64_t *sum, const int *token, int W)
{
    int n = 0;
    for (int at = 0; at < W; ) {
        kit_text t = { NULL, 0, 0 };
        if (token[at++] != 0) return 0;
        for (; at < W && token[at] != 0; at++) {
            char c = (char)token[at];
            kit_put_bytes(&t, &c, 1);
        }
        if (t.size) *sum += sum_of(1, &t);                    /* a sum of sums: order does not count */
        n += t.size > 0;
        kit_text_free(&t);
    }
    return n;
}

static void text_of(kit_text *t, const lm_example *e)
{
    kit_put_bytes(t, e->prompt.data, e->prompt.size);
    kit_put_bytes(t, e->target.data, e->target.size);
}

static int any_task(uint64_t i) { return (int)(i * 7 % LM_TASKS); }

TEST packing_loses_nothing_and_cuts_nothing(int texts)
{
    enum { W = T + 1, MOST = 4000 };
    static int first[MOST * W], second[MOST * W];
    uint64_t put = 0, got = 0, tokens = 0, filled = 0;
    int found = 0;
    for (int turn = 0; turn < 2; turn++) {
        shelf s = { turn ? second : first, 0, MOST };
        lm_pack p;
        memset(s.token, turn ? 1 : 2, sizeof first);
        lm_pack_begin(&p, W, put_window, &s);
        put = got = tokens = 0;
        found = 0;
        for (uint64_t i = 0; i < (uint64_t)texts; i++) {
            kit_text t = { NULL, 0, 0 };
            lm_example e;
            ASSERT(make(&e, any_task(i), LM_TRAINING, 5, i));
            ASSERT(lm_pack_add(&p, &e, &why));
            text_of(&t, &e);
            put += sum_of(1, &t);
            tokens += lm_example_size(&e);
            kit_text_free(&t);
            lm_example_free(&e);
        }
        ASSERT(lm_pack_end(&p, &why));
        ASSERT_EQ(p.windows, (uint64_t)s.windows);
        for (int w = 0; w < s.windows; w++) {
            int n = texts_of(&got, s.token + w * W, W);
            ASSERT(n > 0);
            found += n;
        }
        ASSERT(put == got && found == texts);
        ASSERT_EQ(p.filled, tokens);
        filled = 100 * p.filled / (p.windows * W);
        if (turn) ASSERT_EQ(memcmp(first, second, (size_t)s.windows * W * sizeof(int)), 0);
        lm_pack_free(&p);
    }
    if (texts > 1000) ASSERT(filled >= 93 && filled <= 100);
    PASS();
}

TEST texts_longer_than_a_window_are_refused(void)
{
    shelf s = { NULL, 0, 0 };
    lm_pack p;
    lm_example e;
    lm_pack_begin(&p, 40, put_window, &s);
    ASSERT(make(&e, LM_COPY_DISTANCE, LM_ID, 5, 0));         /* 45 tokens */
    ASSERT_EQ(lm_pack_add(&p, &e, &why), 0);
    ASSERT(strstr(why.text, "40") && strstr(why.text, "copy_distance"));
    lm_example_free(&e);
    ASSERT(lm_task_make(&e, LM_ADDITION, LM_ID, 5, 0, 100, NULL, &why));
    ASSERT(lm_pack_add(&p, &e, &why));
    ASSERT_EQ(lm_pack_end(&p, &why), 0);                     /* nobody takes the window */
    ASSERT_STR_EQ("the shelf is full", why.text);
    lm_example_free(&e);
    lm_pack_free(&p);
    PASS();
}

/* First fit: a short text goes back to the first window with room for it. */
TEST short_texts_fill_the_first_gap(void)
{
    enum { W = 30 };
    static const char *const text[] = { "rev:abcdefghij->|jihgfedcba", "copy:abc->|abc", "rev:ab->|ba" };
    static const int order[] = { 0, 1, 1, 2, 2 };
    static int token[10 * W];
    shelf s = { token, 0, 10 };
    lm_pack p;
    lm_pack_begin(&p, W, put_window, &s);
    for (int i = 0; i < 5; i++) {                            /* 27, 14, 14, 11, 11 tokens */
        lm_example e = { "copy", 0, 0, { NULL, 0, 0 }, { NULL, 0, 0 } };
        const char *whole = text[order[i]], *bar = strchr(whole, '|');
        kit_put_bytes(&e.prompt, whole, (size_t)(bar - whole));
        kit_put_string(&e.target, bar + 1);
        ASSERT(lm_pack_add(&p, &e, &why));
        lm_example_free(&e);
    }
    ASSERT(lm_pack_end(&p, &why));
    ASSERT_EQ(s.windows, 3);                                 /* 27 at once, 14 + 14 at once, 11 + 11 */
    ASSERT_EQ(token[W + 14], 0);
    ASSERT_EQ(token[2 * W + 11], 0);
    ASSERT_EQ(p.filled, 77u);
    lm_pack_free(&p);
    PASS();
}

/* ---- which targets count --------------------------------------------------------------------------- */

/* A window packed by hand, beside it what must count: 1 an answer, 2 what ends a text, 0 the rest. */
TEST only_answers_and_ends_count(int shift)
{
    enum { MOST = 4096 };
    static int token[MOST + 1], role[MOST + 1], targets[MOST];
    int n = 0, whole;
    for (uint64_t i = (uint64_t)shift; ; i++) {
        lm_example e;
        ASSERT(make(&e, any_task(i), (int)(i % 3), 5, i));
        int size = (int)lm_example_size(&e);
        if (n + size <= MOST + 1) {
            lm_example_tokens(token + n, &e);
            for (int k = 0; k < size; k++) role[n + k] = k > (int)e.prompt.size;
            role[n] = n > 0 ? 2 : 0;
        }
        lm_example_free(&e);
        if (n + size > MOST + 1) break;
        n += size;
    }
    whole = n;
    for (; n <= MOST; n++) { token[n] = 0; role[n] = n == whole ? 2 : 0; }
    for (int mode = 0; mode < 2; mode++)
        for (int t_max = MOST; t_max >= MOST - 200; t_max -= 50) {
            for (int t = 0; t < t_max; t++) targets[t] = token[t + 1] ? token[t + 1] : POSENC_IGNORE;
            lm_task_mask(targets, token, t_max, mode);
            for (int t = 0; t < t_max; t++) {
                int counts = mode == LM_LOSS_ALL ? token[t + 1] != 0 || role[t + 1] == 2 : role[t + 1] != 0;
                if (t_max < whole && t > t_max - 200) continue;          /* a text this test has cut */
                ASSERT_EQ(targets[t], counts ? token[t + 1] : POSENC_IGNORE);
            }
        }
    PASS();
}

/* A text of distance 1 fills its window: its answer counts to the last byte, and there is no end. */
TEST a_full_window_has_its_answer(void)
{
    int token[T + 1], targets[T];
    lm_example e;
    ASSERT(make(&e, LM_PASSKEY, LM_ID, 5, 3) && lm_example_size(&e) == T + 1);
    lm_example_tokens(token, &e);
    for (int t = 0; t < T; t++) targets[t] = token[t + 1];
    lm_task_mask(targets, token, T, LM_LOSS_TARGET);
    for (int t = 0; t < T; t++)
        ASSERT_EQ(targets[t], t + 1 > (int)e.prompt.size ? token[t + 1] : POSENC_IGNORE);
    lm_example_free(&e);
    PASS();
}

/* A filler that asks the same: only what follows the last asking counts. */
TEST the_last_asking_is_the_question(int task, const char *filler_text)
{
    int token[T + 1], targets[T];
    kit_text filler = { NULL, 0, 0 };
    kit_put_string(&filler, filler_text);
    for (uint64_t i = 0; i < 40; i++) {
        lm_example e;
        ASSERT(lm_task_make(&e, task, LM_ID, 5, i, T, &filler, &why));
        memset(token, 0, sizeof token);
        lm_example_tokens(token, &e);
        for (int t = 0; t < T; t++) targets[t] = token[t + 1];
        lm_task_mask(targets, token, T, LM_LOSS_TARGET);
        int from = (int)e.prompt.size, to = (int)lm_example_size(&e);
        for (int t = 0; t < T; t++)
            ASSERT_EQ(targets[t], t >= from && t < to ? token[t + 1] : POSENC_IGNORE);
        lm_example_free(&e);
    }
    kit_text_free(&filler);
    PASS();
}

/* A text one token short of its window: the last target is its end, and lm_mix_sample has taken it for
   padding. */
TEST an_end_in_the_last_place_counts(int task)
{
    int token[T + 1], targets[T], n;
    lm_example e;
    ASSERT(make(&e, task, LM_ID, 5, 0));
    n = (int)lm_example_size(&e);
    ASSERT(n <= T);
    lm_example_tokens(token, &e);
    for (int t = 0; t < n; t++) targets[t] = t + 1 < n ? token[t + 1] : POSENC_IGNORE;
    lm_task_mask(targets, token, n, LM_LOSS_TARGET);
    for (int t = 0; t < n; t++)
        ASSERT_EQ(targets[t], t + 1 == n ? 0 : t + 1 > (int)e.prompt.size ? token[t + 1] : POSENC_IGNORE);
    lm_example_free(&e);
    PASS();
}

/* Plain text counts whole, even where it looks a little like a task. */
TEST other_text_counts_whole(void)
{
    static const char text[] = "1+1 is two; 3-2=1. Add: nothing\n\0The rest -> of it";
    enum { N = sizeof text - 2 };
    int token[N], targets[N];
    for (int t = 0; t < N; t++) {
        token[t] = (unsigned char)text[t];
        targets[t] = (unsigned char)text[t + 1];
    }
    lm_task_mask(targets, token, N, LM_LOSS_TARGET);
    for (int t = 0; t < N; t++) ASSERT_EQ(targets[t], (unsigned char)text[t + 1]);
    PASS();
}

/* ---- files of examples ----------------------------------------------------------------------------- */

static int write_text(char path[KIT_PATH], const char *name, const char *text, size_t n)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_bytes(&t, text, n);
    int done = kit_join(path, folder, name, &why) && kit_save(path, &t, &why);
    kit_text_free(&t);
    return done;
}

static const char *const awkward[] = {
    "\"quoted\" and \\ back \\\\ \\n", "a\nb\tc\rd\x01\x1f\x7f", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
    "{\"task\":\"sort\"}", "\\u0041 \\\"", " ", "\xef\xbb\xbf", "]},\n{"
};
enum { AWKWARD = sizeof awkward / sizeof *awkward };

TEST awkward_bytes_come_back(void)
{
    char path[KIT_PATH];
    kit_text t = { NULL, 0, 0 };
    lm_examples list;
    for (int i = 0; i < AWKWARD; i++) {
        lm_example e = { lm_task_name[i], i % 2, i / 8.0, { NULL, 0, 0 }, { NULL, 0, 0 } };
        kit_put_string(&e.prompt, awkward[i]);
        kit_put_string(&e.target, awkward[AWKWARD - 1 - i]);
        ASSERT(lm_example_put(&t, &e, &why));
        lm_example_free(&e);
    }
    ASSERT(write_text(path, "awkward.jsonl", t.data, t.size));
    ASSERTm(why.text, lm_examples_read(&list, path, &why));
    ASSERT_EQ(list.count, (size_t)AWKWARD);
    for (int i = 0; i < AWKWARD; i++) {
        ASSERT_STR_EQ(awkward[i], list.item[i].prompt.data);
        ASSERT_STR_EQ(awkward[AWKWARD - 1 - i], list.item[i].target.data);
        ASSERT_STR_EQ(lm_task_name[i], list.item[i].task);
        ASSERT(list.item[i].ood == i % 2 && list.item[i].level == i / 8.0);
        ASSERT_EQ(list.item[i].prompt.size, strlen(awkward[i]));
    }
    lm_examples_free(&list);
    kit_text_free(&t);
    PASS();
}

/* a zero, half a letter, nothing at all */
TEST what_is_no_text_is_not_written(void)
{
    static const struct { const char *bytes; size_t n; } no_text[] = {
        { "a\0b", 3 }, { "\xc3", 1 }, { "ok \x80", 4 }, { "\xed\xa0\x80", 3 }, { "", 0 }
    };
    for (size_t i = 0; i < sizeof no_text / sizeof *no_text; i++)
        for (int which = 0; which < 2; which++) {
            lm_example e = { "sort", 0, 1, { NULL, 0, 0 }, { NULL, 0, 0 } };
            kit_text t = { NULL, 0, 0 };
            kit_put_bytes(which ? &e.prompt : &e.target, no_text[i].bytes, no_text[i].n);
            kit_put_string(which ? &e.target : &e.prompt, "good");
            ASSERT_EQ(lm_example_put(&t, &e, &why), 0);
            ASSERT_EQ(t.size, 0u);
            ASSERT(strstr(why.text, which ? "prompt" : "target") != NULL);
            lm_example_free(&e);
        }
    PASS();
}

#define GOOD "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"}\n"

/* A word that the sentence must have, and the text. */
static const struct { const char *word, *text; } hostile[] = {
    { "no example",    "" },
    { "example 2",     GOOD "\n" GOOD },
    { "example 2",     GOOD "{\"task\":\"sort\"" },
    { "example 1",     "[]" },
    { "example 1",     "null\n" },
    { "prompt",        "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"target\":\"t\"}" },
    { "target",        "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\"}" },
    { "level",         "{\"task\":\"sort\",\"split\":\"id\",\"prompt\":\"p\",\"target\":\"t\"}" },
    { "level",         "{\"task\":\"sort\",\"split\":\"id\",\"level\":-1,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "level",         "{\"task\":\"sort\",\"split\":\"id\",\"level\":\"3\",\"prompt\":\"p\",\"target\":\"t\"}" },
    { "too large",     "{\"task\":\"sort\",\"split\":\"id\",\"level\":1e999,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "expected",      "{\"task\":\"sort\",\"split\":\"id\",\"level\":NaN,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "no task srot",  "{\"task\":\"srot\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "task",          "{\"task\":7,\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "interpolation", "{\"task\":\"sort\",\"split\":\"interpolation\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "prompt is empty", "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"\",\"target\":\"t\"}" },
    { "target is empty", "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"\"}" },
    { "zero inside",   "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"a\\u0000b\",\"target\":\"t\"}" },
    { "comes twice",   "{\"task\":\"sort\",\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"}" },
    { "UTF-8",         "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"\xc3\",\"target\":\"t\"}" },
    { "half of a pair", "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"\\ud800\",\"target\":\"t\"}" },
    { "nothing more",  "{\"task\":\"sort\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"} x" },
    { "no task ?[2J",  "{\"task\":\"\\u001b[2J\",\"split\":\"id\",\"level\":3,\"prompt\":\"p\",\"target\":\"t\"}" }
};

TEST hostile_files_are_refused_in_a_sentence(size_t i)
{
    char path[KIT_PATH];
    lm_examples list;
    ASSERT(write_text(path, "hostile.jsonl", hostile[i].text, strlen(hostile[i].text)));
    why.text[0] = 0;
    ASSERT_EQ(lm_examples_read(&list, path, &why), 0);
    ASSERTm(why.text, strstr(why.text, hostile[i].word) != NULL);
    ASSERT(strstr(why.text, "hostile.jsonl") != NULL);
    ASSERT(list.item == NULL && list.count == 0);
    PASS();
}

/* A file may end without its last newline, with other keys, with \r\n: all that is the same file. Cut
   anywhere else it is refused, whole lines apart. */
TEST files_may_end_at_a_line_only(void)
{
    static const char text[] = GOOD "{\"by\":[1,{}],\"task\":\"copy\",\"split\":\"ood\",\"level\":51,"
                               "\"prompt\":\"p\",\"target\":\"t\"}\r\n";
    char path[KIT_PATH];
    for (size_t n = 0; n < sizeof text; n++) {
        size_t lines = (n + 1 >= sizeof GOOD - 1) + (n + 3 >= sizeof text - 1 + 1);
        int good = n == sizeof GOOD - 1 || n == sizeof GOOD - 2 || n + 3 >= sizeof text;
        lm_examples list;
        ASSERT(write_text(path, "cut.jsonl", text, n));
        ASSERT_EQ(lm_examples_read(&list, path, &why), good);
        if (good) ASSERT_EQ(list.count, lines);
        if (lines == 2 && good) ASSERT(list.item[1].ood == 1 && list.item[1].level == 51);
        lm_examples_free(&list);
    }
    ASSERT_EQ(lm_examples_read(&(lm_examples){ NULL, 0, 0 }, "/nowhere/x.jsonl", &why), 0);
    PASS();
}

/* ---- the command ----------------------------------------------------------------------------------- */

/* runs it with words; standard error and output go to a file */
static int run(const char *words)
{
    static char copy[2048];
    char *argv[40] = { (char *)"lm" }, path[KIT_PATH];
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *w = strtok(copy, " "); w && argc < 40; w = strtok(NULL, " ")) argv[argc++] = w;
    fflush(stdout);
    fflush(stderr);
    kit_join(path, folder, "said", &why);
    int out = dup(1), err = dup(2), said = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(said, 1);
    dup2(said, 2);
    int code = lm_tasks_main(argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    close(said);
    return code;
}

static int said(const char *word)
{
    char path[KIT_PATH];
    kit_text t = { NULL, 0, 0 };
    int has = kit_join(path, folder, "said", &why) && kit_read_file(&t, path, 1 << 20, &why) && t.data
           && strstr(t.data, word) != NULL;
    kit_text_free(&t);
    return has;
}

static int run_in(const char *name, const char *words)
{
    char all[KIT_PATH + 1024];
    snprintf(all, sizeof all, "%s --out %s/%s", words, folder, name);
    return run(all);
}

/* the bytes of folder/name/file */
static int bytes_of(kit_text *t, const char *name, const char *file)
{
    char path[2 * KIT_PATH];
    memset(t, 0, sizeof *t);
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    return kit_read_file(t, path, 1 << 26, &why);
}

static int token_at(const kit_text *t, size_t at)
{
    const unsigned char *p = (const unsigned char *)t->data + at;
    return p[0] | p[1] << 8;
}

static uint32_t number_at(const kit_text *t, size_t at)
{
    return (uint32_t)token_at(t, at) | (uint32_t)token_at(t, at + 2) << 16;
}

/* Shards read by hand: header, whole windows, whole texts. */
TEST shards_hold_whole_windows_of_whole_texts(const char *file, int texts)
{
    enum { W = T + 1 };
    kit_text t;
    uint64_t sum = 0;
    int found = 0, token[W];
    ASSERT(bytes_of(&t, "a", file));
    ASSERT_EQ(number_at(&t, 0), 20240520u);
    ASSERT_EQ(number_at(&t, 4), 1u);
    ASSERT_EQ(t.size, 1024 + 2 * (size_t)number_at(&t, 8));
    ASSERT(number_at(&t, 8) > 0 && number_at(&t, 8) % W == 0);
    for (size_t at = 1024; at < t.size; at += 2 * W) {
        for (int i = 0; i < W; i++) token[i] = token_at(&t, at + 2 * (size_t)i);
        int n = texts_of(&sum, token, W);
        ASSERT(n > 0);
        found += n;
    }
    ASSERT_EQ(found, texts);
    kit_text_free(&t);
    PASS();
}

TEST questions_are_half_in_and_half_out(int task)
{
    char path[2 * KIT_PATH];
    lm_examples list;
    int ood = 0;
    snprintf(path, sizeof path, "%s/a/eval_%s.jsonl", folder, lm_task_name[task]);
    ASSERTm(why.text, lm_examples_read(&list, path, &why));
    ASSERT_EQ(list.count, 41u);
    for (size_t i = 0; i < list.count; i++) {
        ASSERT(right(&list.item[i]));
        ASSERT_STR_EQ(lm_task_name[task], list.item[i].task);
        ASSERT(list.item[i].ood || lm_prompt_is_held(&list.item[i].prompt));
        ood += list.item[i].ood;
    }
    ASSERT_EQ(ood, 20);
    lm_examples_free(&list);
    PASS();
}

static int same_files(const char *a, const char *b, const char *file)
{
    kit_text one, two;
    int same = bytes_of(&one, a, file) & bytes_of(&two, b, file);
    same = same && one.size == two.size && memcmp(one.data, two.data, one.size) == 0;
    kit_text_free(&one);
    kit_text_free(&two);
    return same;
}

TEST the_same_words_make_the_same_files(void)
{
    ASSERT(same_files("a", "b", "tasks_train_000000.bin") && same_files("a", "b", "meta.json"));
    ASSERT(same_files("a", "b", "tasks_val_000000.bin") && same_files("a", "b", "eval_passkey.jsonl"));
    ASSERT(same_files("a", "b", "samples.txt"));
    ASSERT_EQ(run_in("c", "--count 3000 --eval 41 --seed 43"), DONE);
    ASSERT(!same_files("a", "c", "tasks_train_000000.bin") && same_files("a", "c", "eval_passkey.jsonl"));
    ASSERT(same_files("a", "c", "tasks_val_000000.bin"));
    ASSERT_EQ(run_in("d", "--count 3000 --eval 41 --eval-seed 43 --quiet"), DONE);
    ASSERT(!said("windows"));
    ASSERT(same_files("a", "d", "tasks_train_000000.bin") && !same_files("a", "d", "eval_passkey.jsonl"));
    ASSERT(!same_files("a", "d", "tasks_val_000000.bin"));
    PASS();
}

TEST the_reader_of_shards_knows_the_windows(void)
{
    char path[2 * KIT_PATH];
    lm_data d;
    snprintf(path, sizeof path, "%s/a", folder);
    ASSERTm(why.text, lm_data_open(&d, path, "train", &why));
    ASSERT(d.window == T + 1 && d.vocab == 256 && d.eot == 0 && d.tokens % (T + 1) == 0);
    lm_data_close(&d);
    ASSERT(lm_data_open(&d, path, "val", &why) && d.window == T + 1);
    lm_data_close(&d);
    PASS();
}

/* each task as often as its weight says: 3 in 4 and 1 in 4 of 3,000 */
TEST weights_are_kept(void)
{
    kit_text t;
    int sums = 0, texts = 0;
    ASSERT_EQ(run_in("w", "--tasks=addition:0.3,reversal:0.1 --count 3000 --eval 0"), DONE);
    ASSERT(bytes_of(&t, "w", "tasks_train_000000.bin"));
    for (size_t at = 1024; at + 2 < t.size; at += 2) {
        int starts = t.data[at] == 0 && t.data[at + 2] != 0;
        texts += starts;
        sums += starts && t.data[at + 2] != 'r';
    }
    ASSERT_EQ(texts, 3000);
    ASSERT(sums > 2150 && sums < 2350);                      /* 2250 +- 24 */
    kit_text_free(&t);
    ASSERT_EQ(bytes_of(&t, "w", "eval_addition.jsonl"), 0);
    PASS();
}

TEST a_filler_comes_from_text_or_shards(void)
{
    char path[KIT_PATH], words[2 * KIT_PATH];
    kit_text text = { NULL, 0, 0 }, t;
    for (int i = 0; i < 400; i++) kit_put(&text, "Zeile %d\n", i);
    ASSERT(write_text(path, "filler.txt", text.data, text.size));
    snprintf(words, sizeof words, "--tasks passkey --count 50 --eval 4 --filler %s", path);
    ASSERT_EQ(run_in("f", words), DONE);
    ASSERT(bytes_of(&t, "f", "eval_passkey.jsonl") && strstr(t.data, "Zeile 3") != NULL);
    kit_text_free(&t);
    snprintf(words, sizeof words, "--tasks passkey --count 50 --eval 4 --filler %s/a/tasks_val_000000.bin", folder);
    ASSERT_EQ(run_in("g", words), DONE);
    ASSERT(bytes_of(&t, "g", "eval_passkey.jsonl") && strstr(t.data, "\\u000a") != NULL);
    kit_text_free(&t);
    kit_text_free(&text);
    PASS();
}

/* A set is not overwritten unasked; asked, nothing of the old one stays. */
TEST an_old_set_stays_or_goes_whole(void)
{
    kit_text t;
    ASSERT_EQ(run_in("c", "--count 10 --eval 2"), FAILED);
    ASSERT(said("--replace"));
    ASSERT(same_files("a", "c", "eval_passkey.jsonl"));
    kit__stop = 1;                                           /* as if Ctrl-C had come at once */
    ASSERT_EQ(run_in("c", "--count 10 --eval 2 --replace"), STOPPED);
    kit__stop = 0;
    ASSERT(same_files("a", "c", "eval_passkey.jsonl"));
    ASSERT_EQ(bytes_of(&t, "c", "tasks_train_000000.bin.tmp"), 0);
    ASSERT_EQ(run_in("c", "--count 10 --eval 2 --replace --tasks key"), DONE);
    ASSERT_EQ(bytes_of(&t, "c", "eval_passkey.jsonl"), 0);
    ASSERT(bytes_of(&t, "c", "eval_key.jsonl"));
    kit_text_free(&t);
    PASS();
}

TEST wrong_words_get_a_sentence(const char *words, const char *word)
{
    char path[2 * KIT_PATH];
    ASSERT_EQ(run_in("wrong", words), 2);
    ASSERTm(word, said(word));
    snprintf(path, sizeof path, "%s/wrong", folder);
    ASSERT(!kit_exists(path));
    PASS();
}

TEST folders_that_cannot_be_are_a_failure(void)
{
    ASSERT_EQ(run_in("said/x", "--count 10"), FAILED);       /* below a file */
    ASSERT(said("lm tasks: "));
    ASSERT_EQ(run_in("v", "--count 10 --filler /nowhere/at/all"), FAILED);
    ASSERT(said("/nowhere/at/all"));
    ASSERT_EQ(run("--help"), 0);
    ASSERT(said("--filler") && said("needle"));
    PASS();
}

/* ---------------------------------------------------------------------------------------------------- */

static void run_generators(void)
{
    static const char *const split[] = { "train", "id", "ood" };
    for (int task = 0; task < LM_TASKS; task++) {
        for (int s = 0; s < 3; s++) {
            label_test("%s_%s", lm_task_name[task], split[s]);
            RUN_TESTp(every_text_is_right_and_in_its_range, task, s);
            label_test("%s_%s", lm_task_name[task], split[s]);
            RUN_TESTp(an_item_depends_on_its_number_alone, task, s);
        }
        label_test("%s", lm_task_name[task]);
        RUN_TESTp(a_wrong_answer_is_seen, task);
        label_test("%s", lm_task_name[task]);
        RUN_TESTp(small_contexts_work_or_say_how_small, task);
        label_test("%s", lm_task_name[task]);
        RUN_TESTp(splits_have_no_prompt_in_common, task);
        label_test("%s", lm_task_name[task]);
        RUN_TESTp(one_prompt_in_eight_is_held_back, task);
    }
}

static void run_places(void)
{
    static const int context[] = { 128, 256, 1024 };
    for (int i = 0; i < 3; i++) {
        label_test("passkey_%d", context[i]);
        RUN_TESTp(distances_are_exact, LM_PASSKEY, context[i]);
        label_test("copy_distance_%d", context[i]);
        RUN_TESTp(distances_are_exact, LM_COPY_DISTANCE, context[i]);
        label_test("key_%d", context[i]);
        RUN_TESTp(keys_stand_at_their_depth, LM_KEY, context[i]);
        label_test("needle_%d", context[i]);
        RUN_TESTp(keys_stand_at_their_depth, LM_NEEDLE, context[i]);
    }
    RUN_TESTp(half_the_items_are_digits, LM_COPY_DISTANCE);
    RUN_TESTp(half_the_items_are_digits, LM_SORT);
    RUN_TEST(carries_do_occur_in_addition);
    RUN_TEST(tasks_and_depths_that_are_not_there_are_refused);
    RUN_TEST(texts_are_the_same_on_every_machine);
}

static void run_fillers(void)
{
    char every[256];
    for (int i = 0; i < 256; i++) every[i] = (char)(i * 37);
    label_test("every_byte");
    RUN_TESTp(any_filler_will_do, every, sizeof every);
    label_test("letters_of_many_bytes");
    RUN_TESTp(any_filler_will_do, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9);
    label_test("one_byte");
    RUN_TESTp(any_filler_will_do, "x", 1);
    label_test("nothing");
    RUN_TESTp(any_filler_will_do, "", 0);
    RUN_TEST(filler_is_the_text_that_was_given);
}

static void run_windows(void)
{
    label_test("one");
    RUN_TESTp(packing_loses_nothing_and_cuts_nothing, 1);
    label_test("many");
    RUN_TESTp(packing_loses_nothing_and_cuts_nothing, 5000);
    RUN_TEST(texts_longer_than_a_window_are_refused);
    RUN_TEST(short_texts_fill_the_first_gap);
    for (int i = 0; i < 5; i++) {
        label_test("%d", i);
        RUN_TESTp(only_answers_and_ends_count, i * 100);
    }
    RUN_TEST(a_full_window_has_its_answer);
    label_test("passkey");
    RUN_TESTp(the_last_asking_is_the_question, LM_PASSKEY, "The code is 77. Or not. The code is what? ");
    label_test("copy_distance");
    RUN_TESTp(the_last_asking_is_the_question, LM_COPY_DISTANCE, "PASTE: a b c d e COPY: KEY:12345 = ");
    RUN_TESTp(an_end_in_the_last_place_counts, LM_REVERSE);
    RUN_TEST(other_text_counts_whole);
}

static void run_files(void)
{
    RUN_TEST(awkward_bytes_come_back);
    RUN_TEST(what_is_no_text_is_not_written);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        label_test("%d", (int)i);
        RUN_TESTp(hostile_files_are_refused_in_a_sentence, i);
    }
    RUN_TEST(files_may_end_at_a_line_only);
}

static void run_command(void)
{
    static const char *const wrong[][2] = {
        { "--tasks sort,srot", "srot" }, { "--tasks sort,sort", "twice" }, { "--tasks sort:0", "weight" },
        { "--tasks sort:nan", "weight" }, { "--tasks sort:", "weight" }, { "--tasks ,", "only passkey" },
        { "--context 64", "97" }, { "--count 0", "--count" }, { "--cuont 7", "--count" },
        { "--tasks=", "none" }
    };
    RUN_TESTp(shards_hold_whole_windows_of_whole_texts, "tasks_train_000000.bin", 3000);
    RUN_TESTp(shards_hold_whole_windows_of_whole_texts, "tasks_val_000000.bin", 150);
    for (int task = 0; task <= LM_SIMPLE_COPY; task++) {
        label_test("%s", lm_task_name[task]);
        RUN_TESTp(questions_are_half_in_and_half_out, task);
    }
    RUN_TEST(the_same_words_make_the_same_files);
    RUN_TEST(the_reader_of_shards_knows_the_windows);
    RUN_TEST(weights_are_kept);
    RUN_TEST(a_filler_comes_from_text_or_shards);
    RUN_TEST(an_old_set_stays_or_goes_whole);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        label_test("%d", (int)i);
        RUN_TESTp(wrong_words_get_a_sentence, wrong[i][0], wrong[i][1]);
    }
    RUN_TEST(folders_that_cannot_be_are_a_failure);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    char command[64];
    GREATEST_MAIN_BEGIN();
    snprintf(folder, sizeof folder, "/tmp/posenc_lm_tasks_%ld", (long)getpid());
    if (!kit_make_folders(folder, &why)) return 1;
    run_generators();
    run_places();
    run_fillers();
    run_windows();
    run_files();
    if (run_in("a", "--count 3000 --eval 41") == DONE && said("windows of 129 tokens")
        && run_in("b", "--count 3000 --eval 41") == DONE) run_command();
    else { printf("FAIL lm_tasks_main\n"); return 1; }
    snprintf(command, sizeof command, "rm -r /tmp/posenc_lm_tasks_%ld", (long)getpid());
    if (system(command) != 0) return 1;
    GREATEST_MAIN_END();
}
