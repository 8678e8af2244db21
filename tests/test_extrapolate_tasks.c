/* The tasks of the extrapolate demo: what is asked, what is kept for the test, what counts as right. */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "extrapolate/tasks.h"

/* ---- copying --------------------------------------------------------------------------------- */

static int tokens[COPY_MOST], targets[COPY_MOST], symbol[COPY_LONG];

static kit_random item(uint32_t purpose, int index) { return kit_random_open(7, purpose, (uint64_t)index); }

TEST texts_are_written_as_the_task_says(int kind, const char *text)
{
    static const int three[3] = { 6, 1, 9 };               /* g, b, j */
    char said[64] = "", asked[64] = "";
    copy_text(tokens, targets, kind, three, 3);
    for (int t = 0; t < copy_length(kind, 3); t++) {
        static const char mark[] = "?<|>";
        snprintf(said + t, 2, "%c", tokens[t] < COPY_FIRST ? mark[tokens[t]] : 'a' + tokens[t] - COPY_FIRST);
        snprintf(asked + t, 2, "%c", targets[t] == POSENC_IGNORE ? '.' : targets[t] < COPY_FIRST
                                     ? mark[targets[t]] : 'a' + targets[t] - COPY_FIRST);
    }
    strcat(strcat(said, " "), asked);
    ASSERT_STR_EQ(text, said);
    PASS();
}

/* Every target is the token that follows; the last one ends the answer; the prompt is not asked for. */
TEST targets_are_what_follows_the_prompt(int kind)
{
    for (int n = 1; n <= COPY_LONG; n++) {
        kit_random r = item(KIT_RANDOM_TEST, n);
        int T = copy_length(kind, n), asked = 0;
        ASSERT(T <= COPY_MOST);
        copy_draw(symbol, &r, kind, n, 1);
        copy_text(tokens, targets, kind, symbol, n);
        ASSERT_EQ(tokens[0], COPY_BOS);
        for (int t = 0; t < T; t++) {
            ASSERT(tokens[t] >= 0 && tokens[t] < COPY_VOCAB);
            asked += targets[t] != POSENC_IGNORE;
            if (targets[t] == POSENC_IGNORE) ASSERT(asked == 0);
            else ASSERT_EQ(targets[t], t + 1 < T ? tokens[t + 1] : COPY_EOS);
        }
        ASSERT_EQ(asked, n + 1);
        ASSERT_EQ(tokens[T - n - 1], COPY_SEP);
    }
    PASS();
}

/* A text of training is never one of the test, and a quarter of each length is kept for it. */
TEST held_texts_are_never_trained_on(int kind)
{
    for (int n = 1; n <= COPY_SHORT; n++) {
        int count = copy_free(kind, n);
        for (int i = 0; i < 200; i++) {
            kit_random r = item(KIT_RANDOM_TRAIN, i), q = item(KIT_RANDOM_TEST, i);
            copy_draw(symbol, &r, kind, n, 0);
            ASSERT(!copy_is_held(symbol, count, n));
            copy_draw(symbol, &q, kind, n, 1);
            ASSERT(copy_is_held(symbol, count, n));
            if (kind == COPY_RDC) ASSERT(symbol[0] != symbol[1]);
        }
        int held = 0;
        memset(symbol, 0, sizeof symbol);
        for (symbol[count - 1] = 0; symbol[count - 1] < COPY_SYMBOLS; symbol[count - 1]++)
            held += copy_is_held(symbol, count, n);
        ASSERT_EQ(held, COPY_SYMBOLS / COPY_HELD);
    }
    PASS();
}

/* Rows are full, hold two texts of n and 21 - n, and only lengths 1 to 20 occur, all about equally. */
TEST rows_hold_two_short_texts(int kind, int most)
{
    enum { ROWS = 2000, T = 2 * COPY_PAIR + 8 };
    int row[T], target[T], segment[T], seen[COPY_SHORT + 1] = { 0 }, length = copy_row_length(kind);
    double place[T];
    ASSERT(length <= T);
    for (int i = 0; i < ROWS; i++) {
        kit_random r = item(KIT_RANDOM_TRAIN, i);
        int second = 0, asked[2] = { 0, 0 };
        copy_row(row, target, segment, place, &r, kind, most);
        for (int t = 0; t < length; t++) {
            second += segment[t] == 0;
            asked[segment[t]] += target[t] != POSENC_IGNORE;
            if (t > 0 && segment[t] == segment[t - 1]) ASSERT(place[t] > place[t - 1]);
            ASSERT(place[t] >= 0 && place[t] < (most ? most : length) && place[t] == floor(place[t]));
            if (most == 0) ASSERT(place[t] == (segment[t] ? t - second : t));
        }
        ASSERT(row[0] == COPY_BOS && row[second] == COPY_BOS && segment[second] == 1);
        ASSERT_EQ(asked[0] + asked[1], COPY_PAIR + 2);
        ASSERT_EQ(second, copy_length(kind, asked[0] - 1));
        seen[asked[0] - 1]++;
    }
    for (int n = 1; n <= COPY_SHORT; n++) ASSERT(seen[n] > 60 && seen[n] < 140);          /* 100 +- 10 */
    PASS();
}

/* logits whose largest is the target everywhere */
static void answer_right(float *logits, int T)
{
    for (int i = 0; i < T * COPY_VOCAB; i++) logits[i] = (float)(i % 7) / 10;
    for (int t = 0; t < T; t++)
        if (targets[t] != POSENC_IGNORE) logits[t * COPY_VOCAB + targets[t]] = 1;
}

/* One wrong symbol, a tie or a NaN makes an answer wrong; what is said about the prompt does not count. */
TEST exact_means_every_symbol(void)
{
    enum { N = 5 };
    static float logits[COPY_MOST * COPY_VOCAB];
    kit_random r = item(KIT_RANDOM_TEST, 1);
    int T = copy_length(COPY_CMC, N);
    copy_draw(symbol, &r, COPY_CMC, N, 1);
    copy_text(tokens, targets, COPY_CMC, symbol, N);
    answer_right(logits, T);
    ASSERT(copy_is_exact(logits, targets, T));
    logits[2 * COPY_VOCAB + 3] = 9;
    ASSERT(copy_is_exact(logits, targets, T));
    for (int t = T - N - 1; t < T; t++)
        for (int i = 0; i < 3; i++) {
            static const float other[3] = { 2, 1, NAN };
            int v = (targets[t] + 1) % COPY_VOCAB;
            answer_right(logits, T);
            logits[t * COPY_VOCAB + v] = other[i];
            ASSERT_FALSE(copy_is_exact(logits, targets, T));
        }
    answer_right(logits, T);
    logits[(T - 1) * COPY_VOCAB + targets[T - 1]] = NAN;
    ASSERT_FALSE(copy_is_exact(logits, targets, T));
    PASS();
}

TEST share_counts_whole_texts(void)
{
    enum { N = 3, B = 4 };
    static float logits[B * (2 * N + 2) * COPY_VOCAB];
    static int all[B * (2 * N + 2)];
    int T = copy_length(COPY_RSC, N);
    for (int b = 0; b < B; b++) {
        symbol[0] = b;
        copy_text(tokens, targets, COPY_RSC, symbol, N);
        answer_right(logits + b * T * COPY_VOCAB, T);
        memcpy(all + b * T, targets, (size_t)T * sizeof(int));
    }
    ASSERT_EQ(copy_exact_share(logits, all, B, T), 1.0);
    logits[(2 * T - 1) * COPY_VOCAB] = 5;                  /* text 1 does not end where it should */
    ASSERT_EQ(copy_exact_share(logits, all, B, T), 0.75);
    PASS();
}

/* ---- masking --------------------------------------------------------------------------------- */

TEST masked_bytes_are_asked_for_and_no_others(void)
{
    enum { T = 100000 };
    static int text[T], asked[T];
    kit_random r = item(KIT_RANDOM_TRAIN, 1);
    int out = 0;
    for (int t = 0; t < T; t++) text[t] = t % 256;
    mask_bytes(text, asked, &r, T);
    for (int t = 0; t < T; t++) {
        ASSERT_EQ(text[t], asked[t] == POSENC_IGNORE ? t % 256 : MASK_TOKEN);
        if (asked[t] != POSENC_IGNORE) ASSERT_EQ(asked[t], t % 256);
        out += asked[t] != POSENC_IGNORE;
    }
    ASSERT(out > 14500 && out < 15500);                    /* 15,000 +- 113 */
    PASS();
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* The pair of the class stands at its distance, the others near each other at another one; each of the six
   values once, so that every class has the same tokens. */
TEST one_pair_stands_at_its_gap(int T)
{
    int *text = (int *)malloc((size_t)T * sizeof *text), good = 1, seen[GAP_CLASSES] = { 0 };
    for (int i = 0; i < 3000; i++) {
        kit_random r = item(KIT_RANDOM_TRAIN, i);
        int label, values = 0;
        gap_make(text, &label, &r, T);
        for (int t = 0; t < T; t++) {
            values += gap_is_value(text[t]);
            good = good && text[t] >= 1 && text[t] < GAP_VOCAB;
        }
        for (int c = 0; c < GAP_CLASSES; c++) {
            int gap = gap_of(text, T, c);
            good = good && (gap == gap_pair[c].gap) == (c == label) && gap != 0 && abs(gap) <= GAP_FAR;
        }
        good = good && values == 2 * GAP_CLASSES;
        seen[label]++;
    }
    free(text);
    ASSERT(good);
    for (int c = 0; c < GAP_CLASSES; c++) ASSERT(seen[c] > 850 && seen[c] < 1150);       /* 1000 +- 26 */
    PASS();
}

/* The pairs are those of the published task, whose places are fixed: only the distances remain. */
TEST gaps_are_those_of_the_pattern_task(void)
{
    static const int place[GAP_CLASSES][2] = { { 3, 7 }, { 5, 10 }, { 15, 20 } };
    for (int c = 0; c < GAP_CLASSES; c++) ASSERT_EQ(gap_pair[c].gap, place[c][1] - place[c][0]);
    PASS();
}

TEST answer_is_the_surest_yes(void)
{
    enum { T = GAP_LEAST };
    float logits[T * GAP_TOKENS] = { 0 };
    int text[T], asked[T], label, n = 0;
    kit_random r = item(KIT_RANDOM_TEST, 3);
    gap_make(text, &label, &r, T);
    gap_targets(asked, text, T, label);
    for (int t = 0; t < T; t++) {
        n += asked[t] != POSENC_IGNORE;
        logits[t * GAP_TOKENS + GAP_YES] = 5;              /* where nobody asks */
        if (asked[t] == POSENC_IGNORE) continue;
        ASSERT_EQ(asked[t], gap_asked(text[t]) == label ? GAP_YES : GAP_NO);
        logits[t * GAP_TOKENS + GAP_YES] = asked[t] == GAP_YES ? 1 : 2;
        logits[t * GAP_TOKENS + GAP_NO] = asked[t] == GAP_YES ? -1 : 1;
    }
    ASSERT_EQ(n, GAP_CLASSES);
    ASSERT_EQ(gap_answer(logits, text, T), label);
    for (int i = 0; i < T * GAP_TOKENS; i++) logits[i] = NAN;
    ASSERT_EQ(gap_answer(logits, text, T), -1);
    PASS();
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    static const char *const name[COPY_KINDS] = { "rsc", "rdc", "cmc", "mc" };
    static const char *const text[COPY_KINDS] = { "<ggg|ggg ....ggg>", "<gbggg|bbb ......bbb>",
                                                  "<gbj|gbj ....gbj>", "<gbj|jbg ....jbg>" };
    GREATEST_MAIN_BEGIN();
    for (int kind = 0; kind < COPY_KINDS; kind++) {
        label_test("%s", name[kind]);
        RUN_TESTp(texts_are_written_as_the_task_says, kind, text[kind]);
        label_test("%s", name[kind]);
        RUN_TESTp(targets_are_what_follows_the_prompt, kind);
        label_test("%s", name[kind]);
        RUN_TESTp(held_texts_are_never_trained_on, kind);
        label_test("%s", name[kind]);
        RUN_TESTp(rows_hold_two_short_texts, kind, 0);
        label_test("%s_drawn", name[kind]);
        RUN_TESTp(rows_hold_two_short_texts, kind, 128);
    }
    RUN_TEST(exact_means_every_symbol);
    RUN_TEST(share_counts_whole_texts);
    RUN_TEST(masked_bytes_are_asked_for_and_no_others);
    RUN_TESTp(one_pair_stands_at_its_gap, 32);
    RUN_TESTp(one_pair_stands_at_its_gap, 100);
    RUN_TEST(gaps_are_those_of_the_pattern_task);
    RUN_TEST(answer_is_the_surest_yes);
    GREATEST_MAIN_END();
}
