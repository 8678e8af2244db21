/* The data of the pattern demo: labels follow from the tokens by a check that shares no code with
   what made them, classes are about equally frequent, token counts say nothing where they should
   not, and the same seed gives the same data. */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "pattern/tasks.h"

enum { SEQUENCES = 3000, VOCAB = 20 };

static dataset make(int which, uint32_t purpose, uint64_t seed)
{
    return dataset_make(SEQUENCES, purpose, &tasks[which], tasks[which].length, VOCAB, seed);
}

static const int *sequence(const dataset *d, int i) { return d->tokens + i * d->length; }

/* where a value stands; -1 unless it stands there exactly once */
static int only_place(const int *x, int T, int value)
{
    int at = -1, n = 0;
    for (int t = 0; t < T; t++)
        if (x[t] == value) { at = t; n++; }
    return n == 1 ? at : -1;
}

/* ---- an independent label for each task; -1: this sequence should not exist ------------------ */

static int label_of_pattern(const int *x, int T)
{
    int first = x[3] == 5 && x[7] == 8, second = x[5] == 3 && x[10] == 9;
    int third = x[15] == 7 && x[20] == 4;
    if (T < 21 || first + second + third != 1) return -1;
    return second ? 1 : third ? 2 : 0;
}

static int label_of_balanced(const int *x, int T)
{
    static const int value[6] = { 5, 8, 3, 9, 7, 4 }, home[6] = { 3, 7, 5, 10, 15, 20 };
    int at_home = 0, c = label_of_pattern(x, T);
    for (int v = 0; v < 6; v++) {
        int at = only_place(x, T, value[v]);
        if (at < 0) return -1;
        at_home += at == home[v];
    }
    return at_home == 2 ? c : -1;                  /* the true pair and nobody else */
}

static int label_of_sorting(const int *x, int T)
{
    int drops = 0, lowest = x[0], highest = x[0];
    for (int t = 1; t < T; t++) {
        drops += x[t - 1] > x[t];
        lowest = x[t] < lowest ? x[t] : lowest;
        highest = x[t] > highest ? x[t] : highest;
    }
    return lowest == highest ? -1 : drops == 0;
}

static int label_of_distance(const int *x, int T)
{
    int five = only_place(x, T, 5), eight = only_place(x, T, 8);
    if (five < 0 || eight < 0) return -1;
    double share = fabs((double)five - eight) / T;
    return share < 0.2 ? 0 : share < 0.4 ? 1 : share < 0.6 ? 2 : share < 0.8 ? 3 : 4;
}

static int label_of_grid(const int *x, int T)
{
    int five = only_place(x, T, 5), eight = only_place(x, T, 8);
    if (T != 64 || five < 0 || eight < 0) return -1;
    if (five % 8 == eight % 8 || five / 8 == eight / 8) return -1;
    int left = five % 8 < eight % 8, above = five / 8 < eight / 8;
    return left ? (above ? 3 : 2) : above ? 1 : 0;
}

static int (*const label_of[TASK_COUNT])(const int *, int) = {
    label_of_balanced, label_of_pattern, label_of_sorting, label_of_distance, label_of_grid
};

/* ---- what holds for every task --------------------------------------------------------------- */

TEST labels_follow_from_the_tokens(int which)
{
    dataset d = make(which, KIT_RANDOM_TRAIN, 7);
    int wrong = 0, outside = 0;
    for (int i = 0; i < d.count; i++) {
        wrong += label_of[which](sequence(&d, i), d.length) != d.labels[i];
        for (int t = 0; t < d.length; t++)
            outside += sequence(&d, i)[t] < 1 || sequence(&d, i)[t] >= VOCAB;
    }
    dataset_free(&d);
    ASSERT_EQ_FMT(0, wrong, "%d");
    ASSERT_EQ_FMT(0, outside, "%d");
    PASS();
}

/* within five standard deviations */
TEST classes_are_equally_frequent(int which)
{
    dataset d = make(which, KIT_RANDOM_TRAIN, 11);
    int count[8] = { 0 }, classes = tasks[which].classes;
    for (int i = 0; i < d.count; i++) count[d.labels[i]]++;
    dataset_free(&d);
    double p = 1.0 / classes, off = 5 * sqrt(p * (1 - p) / SEQUENCES);
    for (int c = 0; c < classes; c++) ASSERT_LTE(fabs((double)count[c] / SEQUENCES - p), off);
    PASS();
}

TEST the_same_seed_gives_the_same_data(int which)
{
    dataset a = make(which, KIT_RANDOM_TRAIN, 5), b = make(which, KIT_RANDOM_TRAIN, 5);
    dataset other = make(which, KIT_RANDOM_TRAIN, 6);
    size_t bytes = (size_t)(a.count * a.length) * sizeof(int);
    int same = memcmp(a.tokens, b.tokens, bytes) == 0
            && memcmp(a.labels, b.labels, (size_t)a.count * sizeof(int)) == 0;
    int differs = memcmp(a.tokens, other.tokens, bytes) != 0;
    dataset_free(&a);
    dataset_free(&b);
    dataset_free(&other);
    ASSERT(same);
    ASSERT(differs);
    PASS();
}

/* No validation sequence is one of the training sequences: drawn independently they could be, but
   with so many tokens that does not happen. */
TEST validation_is_not_training(int which)
{
    dataset train = make(which, KIT_RANDOM_TRAIN, 3), val = make(which, KIT_RANDOM_VALIDATION, 3);
    size_t bytes = (size_t)train.length * sizeof(int);
    int shared = 0;
    for (int i = 0; i < 300; i++)
        for (int k = 0; k < train.count; k++)
            shared += memcmp(sequence(&val, i), sequence(&train, k), bytes) == 0;
    dataset_free(&train);
    dataset_free(&val);
    ASSERT_EQ_FMT(0, shared, "%d");
    PASS();
}

/* Pictures point at something: one to four places at least in some sequences, none out of range. */
TEST marks_are_where_the_answer_is(int which)
{
    dataset d = make(which, KIT_RANDOM_VALIDATION, 9);
    unsigned char mark[64];
    int twos = 0;
    for (int i = 0; i < 200; i++) {
        int n = 0;
        memset(mark, 0, sizeof mark);
        tasks[which].marks(mark, sequence(&d, i), d.length, d.labels[i]);
        for (int t = 0; t < d.length; t++) n += mark[t];
        twos += n >= 2;
    }
    dataset_free(&d);
    ASSERT_GT(twos, which == 2 ? 50 : 199);        /* a sorted sequence has no place to point at */
    PASS();
}

/* ---- what holds for one ---------------------------------------------------------------------- */

/* Every class has exactly the six values once, and the others as often as any other class. */
TEST balanced_counts_do_not_tell_the_class(void)
{
    dataset d = make(0, KIT_RANDOM_TRAIN, 13);
    double count[3][VOCAB] = { { 0 } }, of_class[3] = { 0 };
    for (int i = 0; i < d.count; i++) {
        of_class[d.labels[i]]++;
        for (int t = 0; t < d.length; t++) count[d.labels[i]][sequence(&d, i)[t]]++;
    }
    dataset_free(&d);
    for (int v = 1; v < VOCAB; v++)
        for (int c = 0; c < 3; c++) {
            double mean = count[c][v] / of_class[c], expected = 26.0 / (VOCAB - 1 - 6);
            int special = (v >= 3 && v <= 5) || (v >= 7 && v <= 9);
            if (special) ASSERT_EQ_FMT(1.0, mean, "%g");
            else ASSERT_LTE(fabs(mean - expected), 5 * sqrt(expected / of_class[c]));
        }
    PASS();
}

TEST rules_get_what_they_must(void)
{
    dataset balanced = make(0, KIT_RANDOM_VALIDATION, 1), plain = make(1, KIT_RANDOM_VALIDATION, 1);
    double bag = rule_accuracy(RULE_COUNTS, &balanced), leak = rule_accuracy(RULE_COUNTS, &plain);
    double order = rule_accuracy(RULE_SIGNED, &balanced);
    double apart = rule_accuracy(RULE_UNSIGNED, &balanced);
    dataset_free(&balanced);
    dataset_free(&plain);
    ASSERT_LTE(fabs(bag - 1.0 / 3), 1e-9);
    ASSERT_GT(leak, 0.55);
    ASSERT_LT(leak, 0.80);
    ASSERT_GT(order, apart);                  /* knowing which comes first is worth something */
    ASSERT_GT(apart, 0.85);
    ASSERT_LT(order, 1.0);
    PASS();
}

/* Half of the unsorted sequences are one exchange from order: sorting them moves two tokens
   only. */
TEST half_of_the_unsorted_lack_one_exchange(void)
{
    dataset d = make(2, KIT_RANDOM_TRAIN, 17);
    int unsorted = 0, near = 0, x[32];
    for (int i = 0; i < d.count; i++) {
        int moved = 0;
        if (d.labels[i] == 1) continue;
        memcpy(x, sequence(&d, i), sizeof x);
        for (int a = 1; a < 32; a++)
            for (int b = a; b > 0 && x[b] < x[b - 1]; b--) task_swap(x, b, b - 1);
        for (int t = 0; t < 32; t++) moved += x[t] != sequence(&d, i)[t];
        unsorted++;
        near += moved == 2;
    }
    dataset_free(&d);
    ASSERT_LTE(fabs((double)near / unsorted - 0.5), 5 * sqrt(0.25 / unsorted));
    PASS();
}

TEST shortest_lengths_and_vocabularies_work(int which)
{
    const task *k = &tasks[which];
    dataset d = dataset_make(200, KIT_RANDOM_TRAIN, k, k->least_length, k->least_vocab, 1);
    int seen[8] = { 0 }, wrong = 0;
    for (int i = 0; i < d.count; i++) {
        seen[d.labels[i]] = 1;
        if (which != 4) wrong += label_of[which](sequence(&d, i), d.length) != d.labels[i];
    }
    dataset_free(&d);
    ASSERT_EQ_FMT(0, wrong, "%d");
    for (int c = 0; c < k->classes; c++) ASSERT(seen[c]);
    PASS();
}

TEST sides_of_squares(void)
{
    ASSERT_EQ_FMT(8, task_side(64), "%d");
    ASSERT_EQ_FMT(1, task_side(1), "%d");
    ASSERT_EQ_FMT(0, task_side(32), "%d");
    ASSERT_EQ_FMT(0, task_side(63), "%d");
    PASS();
}

SUITE(pattern_tasks)
{
    for (int i = 0; i < TASK_COUNT; i++) {
        char name[64];
        task_slug(name, sizeof name, &tasks[i]);
        label_test("%s", name); RUN_TESTp(labels_follow_from_the_tokens, i);
        label_test("%s", name); RUN_TESTp(classes_are_equally_frequent, i);
        label_test("%s", name); RUN_TESTp(the_same_seed_gives_the_same_data, i);
        label_test("%s", name); RUN_TESTp(validation_is_not_training, i);
        label_test("%s", name); RUN_TESTp(marks_are_where_the_answer_is, i);
        label_test("%s", name); RUN_TESTp(shortest_lengths_and_vocabularies_work, i);
    }
    RUN_TEST(balanced_counts_do_not_tell_the_class);
    RUN_TEST(rules_get_what_they_must);
    RUN_TEST(half_of_the_unsorted_lack_one_exchange);
    RUN_TEST(sides_of_squares);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(pattern_tasks);
    GREATEST_MAIN_END();
}
