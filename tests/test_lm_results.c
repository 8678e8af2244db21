/* The experiments of `lm results`: what is asked, what counts as right, what is said of a table of
   positions, which trials there are, and that a trial which was killed ends in the same numbers. */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "lm/results.h"
#include <sys/wait.h>

static kit_error why;
static char folder[KIT_PATH];
static lm_setup setup;

static kit_random item(uint32_t purpose, int index)
{
    return kit_random_open(7, purpose, (uint64_t)index);
}

/* ---- sums: what is asked --------------------------------------------------------------------- */

static int tokens[2048], targets[2048], segments[2048];
static double positions[2048];

/* tokens as letters: _ begins, 0-9, + and =, E ends */
static char sum_letter(int token)
{
    return token < 0 ? '.' : "_0123456789+=E"[token];
}

static void sum_said(char *said, const int *t, int n)
{
    for (int i = 0; i < n; i++) said[i] = sum_letter(t[i]);
    said[n] = 0;
}

TEST sums_are_written_in_reverse(void)
{
    static const lm_sum sum = { 3, { 9, 4, 1 }, { 2, 6, 8 } };       /* 149 + 862 = 1011 */
    char said[64];
    int T = lm_sum_text(tokens, targets, &sum);
    sum_said(said, tokens, T);
    ASSERT_STR_EQ("_941+268=1101", said);
    sum_said(said, targets, T);
    ASSERT_STR_EQ("........1101E", said);
    PASS();
}

/* the number that stands in text[0..n), ones first */
static long long number_of(const int *text, int n)
{
    long long v = 0;
    while (n-- > 0) v = 10 * v + text[n] - LM_SUM_DIGIT;
    return v;
}

/* read back as somebody would who knows nothing of how they are made */
TEST sums_are_right(void)
{
    for (int n = 1; n <= LM_SUM_LONG; n++)
        for (int i = 0; i < 200; i++) {
            kit_random r = item(KIT_RANDOM_TEST, 1000 * n + i);
            lm_sum sum;
            lm_sum_draw(&sum, &r, n, 1);
            int T = lm_sum_text(tokens, targets, &sum), answer = 2 * n + 3;
            ASSERT(T <= 3 * n + 4 && tokens[0] == LM_SUM_BEGIN);
            ASSERT(tokens[n + 1] == LM_SUM_PLUS && tokens[answer - 1] == LM_SUM_EQUALS);
            ASSERT(n == 1 || (tokens[n] != LM_SUM_DIGIT && tokens[answer - 2] != LM_SUM_DIGIT));
            ASSERT(number_of(tokens + 1, n) + number_of(tokens + n + 2, n)
                   == number_of(tokens + answer, T - answer));
            for (int t = 0; t < T; t++)
                ASSERT_EQ(targets[t], t < answer - 1 ? POSENC_IGNORE
                                      : t + 1 < T    ? tokens[t + 1] : LM_SUM_END);
        }
    PASS();
}

TEST sums_of_the_test_are_never_trained_on(void)
{
    int held = 0;
    for (int i = 0; i < 10000; i++) {
        lm_sum s = { 2, { i % 10, i / 10 % 10 }, { i / 100 % 10, i / 1000 } };
        held += lm_sum_is_held(&s);
    }
    ASSERT(held > 1150 && held < 1350);                    /* an eighth of 10,000: 1,250 +- 33 */
    for (int i = 0; i < 500; i++) {
        kit_random r = item(KIT_RANDOM_TRAIN, i), q = item(KIT_RANDOM_TEST, i);
        lm_sum s;
        lm_sum_draw(&s, &r, 1 + i % LM_SUM_SHORT, 0);
        ASSERT_FALSE(lm_sum_is_held(&s));
        lm_sum_draw(&s, &q, 1 + i % LM_SUM_SHORT, 1);
        ASSERT(lm_sum_is_held(&s));
    }
    PASS();
}

TEST abacus_numbers_digits_within_numbers(void)
{
    static const lm_sum sum = { 3, { 9, 4, 1 }, { 2, 6, 8 } };
    static const double expected[13] = { 0, 3, 4, 5, 0, 3, 4, 5, 0, 3, 4, 5, 6 };
    static const int odd[6] = { LM_SUM_DIGIT, LM_SUM_PLUS, LM_SUM_DIGIT + 9, LM_SUM_DIGIT,
                                LM_SUM_END, LM_SUM_DIGIT };
    static const double places[6] = { 1, 0, 1, 2, 0, 1 };
    int T = lm_sum_text(tokens, targets, &sum);
    lm_abacus(positions, tokens, T, 3);
    for (int t = 0; t < T; t++) ASSERT_EQ(positions[t], expected[t]);
    lm_abacus(positions, odd, 6, 1);
    for (int t = 0; t < 6; t++) ASSERT_EQ(positions[t], places[t]);
    PASS();
}

/* Two sums of n and 6 - n digits, each with its own segment and its own places; only these
   lengths, about equally often; the table of abacus is never read past its end. */
TEST rows_hold_two_sums(int offsets)
{
    int seen[LM_SUM_SHORT + 1] = { 0 }, first[LM_SUM_OFFSETS + 1] = { 0 };
    for (int i = 0; i < 2000; i++) {
        kit_random r = item(KIT_RANDOM_TRAIN, i);
        int digits[2] = { 0, 0 }, begin[2] = { 0, 0 };
        lm_sum_row(tokens, targets, segments, positions, &r, offsets);
        for (int t = LM_SUM_ROW - 1; t >= 0; t--) {
            if (segments[t] < 2) begin[segments[t]] = t;
            else ASSERT(tokens[t] == LM_SUM_BEGIN && targets[t] == POSENC_IGNORE);
            ASSERT(positions[t] >= 0 && positions[t] < (offsets ? 16 : LM_SUM_ROW));
        }
        for (int part = 0; part < 2; part++) {
            int at = begin[part];
            ASSERT_EQ(tokens[at], LM_SUM_BEGIN);
            while (tokens[at + 1 + digits[part]] != LM_SUM_PLUS) digits[part]++;
            ASSERT_EQ(positions[at], 0.0);
            if (offsets) first[(int)positions[at + 1]]++;
            else ASSERT_EQ(positions[at + 5], 5.0);
        }
        ASSERT_EQ(digits[0] + digits[1], LM_SUM_SHORT + 1);
        seen[digits[0]]++;
    }
    for (int n = 1; n <= LM_SUM_SHORT; n++) ASSERT(seen[n] > 330 && seen[n] < 470);  /* 400 +- 18 */
    for (int k = 1; k <= offsets; k++) ASSERT(first[k] > 400 && first[k] < 600);     /* 500 +- 21 */
    PASS();
}

/* ---- sums: what counts ----------------------------------------------------------------------- */

static float logits[2048 * 32];

/* logits whose largest is the target, wherever there is one */
static void answer_right(int T, int vocab)
{
    for (int i = 0; i < T * vocab; i++) logits[i] = (float)(i % 5) / 10;
    for (int t = 0; t < T; t++)
        if (targets[t] != POSENC_IGNORE) logits[t * vocab + targets[t]] = 1;
}

/* 4 texts of which one is all right, one has a wrong digit, one a tie, one a NaN */
TEST digits_and_answers_are_counted(void)
{
    static const lm_sum sum = { 2, { 9, 4 }, { 2, 6 } };             /* 49 + 62 = 111 */
    lm_sum_score score;
    int T = lm_sum_text(tokens, targets, &sum), asked = T - 4;
    memset(&score, 0, sizeof score);
    for (int i = 0; i < 4; i++) {
        static const float other[4] = { 0, 5, 1, NAN };
        answer_right(T, LM_SUM_VOCAB);
        logits[LM_SUM_BEGIN] = 9;                          /* nobody asked there */
        logits[(asked + i) * LM_SUM_VOCAB + LM_SUM_PLUS] = other[i];
        lm_sum_count(&score, logits, targets, T);
    }
    ASSERT_EQ(score.asked, 4);
    ASSERT_EQ(score.exact, 1);
    for (int place = 0; place < LM_SUM_PLACES; place++) {
        ASSERT_EQ(score.seen[place], place < 4 ? 4 : 0);
        ASSERT_EQ(score.right[place], place == 0 ? 4 : place < 4 ? 3 : 0);
    }
    PASS();
}

/* ---- distance -------------------------------------------------------------------------------- */

/* _ begins, K ? E, fillers a.., symbols A.. */
static char key_letter(int t)
{
    return (char)(t < 0 ? '.' : t < LM_SEEK_FILLER ? "_K?E"[t]
                  : t < LM_SEEK_SYMBOL ? 'a' + t - LM_SEEK_FILLER : 'A' + t - LM_SEEK_SYMBOL);
}

/* the rules of the task, read back from a text */
static int key_is_right(int lead, int distance)
{
    int T = lm_seek_length(lead, distance), mark = 1 + lead, ask = mark + distance, good = 1;
    for (int t = 0; t < T; t++) {
        int in_key = t > mark && t <= mark + LM_SEEK_WIDE, answer = t > ask;
        char c = key_letter(tokens[t]);
        if (t == 0) good = good && c == '_';
        else if (t == mark) good = good && c == 'K';
        else if (t == ask) good = good && c == '?';
        else if (in_key || answer) good = good && c >= 'A' && c < 'A' + LM_SEEK_SYMBOLS;
        else good = good && c >= 'a' && c < 'a' + LM_SEEK_FILLERS;
        if (answer) good = good && tokens[t] == tokens[t - distance];
        int next = t + 1 < T ? tokens[t + 1] : LM_SEEK_END;
        good = good && targets[t] == (t < ask ? POSENC_IGNORE : next);
    }
    return good;
}

TEST keys_are_asked_for_behind_the_question(void)
{
    for (int i = 0; i < LM_SEEK_DISTANCES; i++)
        for (int lead = 0; lead < 3; lead++) {
            kit_random r = item(KIT_RANDOM_TEST, i);
            lm_seek_text(tokens, targets, &r, lead, lm_seek_distance[i]);
            ASSERT(lm_seek_length(lead, lm_seek_distance[i]) <= LM_SEEK_MOST + 2);
            ASSERT(key_is_right(lead, lm_seek_distance[i]));
        }
    PASS();
}

/* how far the first question of a window is behind its mark */
static int distance_in(int T, int *mark)
{
    int ask = 0;
    for (*mark = 0; *mark < T && tokens[*mark] != LM_SEEK_MARK;) ++*mark;
    while (ask < T && tokens[ask] != LM_SEEK_ASK) ask++;
    return ask - *mark;
}

TEST aligned_windows_hold_one_example(int quarters)
{
    int seen[LM_SEEK_NEAR + 1] = { 0 }, most_lead = 0;
    for (int i = 0; i < 4000; i++) {
        kit_random r = item(KIT_RANDOM_TRAIN, i);
        int mark, asked = 0;
        lm_seek_aligned(tokens, targets, &r, quarters);
        int distance = distance_in(LM_SEEK_T, &mark);
        ASSERT(distance >= LM_SEEK_LEAST && distance <= LM_SEEK_NEAR);
        ASSERT(key_is_right(mark - 1, distance));
        for (int t = 0; t < LM_SEEK_T; t++) asked += targets[t] != POSENC_IGNORE;
        ASSERT_EQ(asked, LM_SEEK_WIDE + 1);
        most_lead = mark - 1 > most_lead ? mark - 1 : most_lead;
        seen[distance]++;
    }
    ASSERT(quarters ? most_lead == 0 : most_lead > 100);
    for (int d = LM_SEEK_LEAST; d <= LM_SEEK_NEAR; d++) {
        if (!quarters) ASSERT(seen[d] > 5 && seen[d] < 70);                      /* 33 +- 6 */
        else if (d % 32) ASSERT_EQ(seen[d], 0);
        else ASSERT(seen[d] > 880 && seen[d] < 1120);                            /* 1000 +- 27 */
    }
    PASS();
}

/* The stream goes on in targets, answers are asked for whether their key is in sight or not, and
   the longer an example is, the more rarely it is whole: in 97, 65, 33 and 1 windows of 135. */
TEST cut_windows_lose_the_longest(void)
{
    int whole[4] = { 0 }, asked[4] = { 0 }, cut_off = 0;
    for (int i = 0; i < 20000; i++) {
        kit_random r = item(KIT_RANDOM_TRAIN, i);
        lm_seek_cut(tokens, targets, &r);
        for (int t = 0, begun = -1; t < LM_SEEK_T; t++) {
            if (tokens[t] == LM_SEEK_BEGIN) begun = t;
            ASSERT(targets[t] == POSENC_IGNORE || t + 1 == LM_SEEK_T
                   || targets[t] == tokens[t + 1]);
            if (tokens[t] != LM_SEEK_ASK) continue;
            ASSERT(targets[t] != POSENC_IGNORE);
            if (begun < 0) { cut_off++; continue; }
            int distance = t - begun - 1;
            ASSERT(distance % 32 == 0 && distance >= 32 && distance <= 128);
            asked[distance / 32 - 1]++;
            whole[distance / 32 - 1] += t + LM_SEEK_WIDE < LM_SEEK_T;
        }
    }
    ASSERT(cut_off > 10000);
    ASSERT(whole[0] > 9 * whole[2] / 4 && whole[1] > 3 * whole[2] / 2);
    ASSERT(whole[3] > 0 && whole[3] < whole[0] / 40);
    ASSERT(asked[3] < asked[0] / 15);
    PASS();
}

TEST a_key_is_exact_or_not(void)
{
    kit_random r = item(KIT_RANDOM_TEST, 3);
    int T = lm_seek_length(0, 16);
    lm_seek_text(tokens, targets, &r, 0, 16);
    answer_right(T, LM_SEEK_VOCAB);
    ASSERT(lm_seek_is_exact(logits, targets, T));
    logits[3 * LM_SEEK_VOCAB] = 9;
    ASSERT(lm_seek_is_exact(logits, targets, T));
    for (int t = T - LM_SEEK_WIDE - 1; t < T; t++) {
        answer_right(T, LM_SEEK_VOCAB);
        logits[t * LM_SEEK_VOCAB + LM_SEEK_MARK] = t % 2 ? 1 : NAN;
        ASSERT_FALSE(lm_seek_is_exact(logits, targets, T));
    }
    PASS();
}

/* ---- rank and least squares ------------------------------------------------------------------ */

static lm_matrix matrix_of(const double *rows, int n, int cols)
{
    lm_matrix m = lm_matrix_new(n, cols);
    for (int i = 0; i < n * cols; i++) lm_column(&m, i % cols)[i / cols] = rows[i];
    return m;
}

TEST ranks_are_known(void)
{
    static const double one[12] = { 1, 2, 3, 2, 4, 6, 3, 6, 9, -1, -2, -3 };
    static const double two[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, none[4] = { 0 };
    static const double three[12] = { 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0 };
    static const double near[4] = { 1, 1, 1, 1 + 1e-6 };
    ASSERT_EQ(lm_table_rank(one, 4, 3, DBL_EPSILON), 1);
    ASSERT_EQ(lm_table_rank(two, 3, 3, DBL_EPSILON), 2);
    ASSERT_EQ(lm_table_rank(three, 4, 3, DBL_EPSILON), 3);
    ASSERT_EQ(lm_table_rank(three, 3, 4, DBL_EPSILON), 3);
    ASSERT_EQ(lm_table_rank(none, 2, 2, DBL_EPSILON), 0);
    ASSERT_EQ(lm_table_rank(near, 2, 2, DBL_EPSILON), 2);
    ASSERT_EQ(lm_table_rank(near, 2, 2, 1e-6), 1);
    PASS();
}

/* y = 2 + 3 x through (0,1) (1,7) (2,6) (3,12): by hand y = 1.7 + 3.2 x; and the same with a column
   too many */
TEST least_squares_are_known(int cols)
{
    static const double a3[12] = { 1, 0, 1, 1, 1, 3, 1, 2, 5, 1, 3, 7 };     /* 1, x, 1 + 2x */
    static const double y[4] = { 1, 7, 6, 12 };
    double rows[12];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < cols; j++) rows[i * cols + j] = a3[i * 3 + j];
    lm_matrix a = matrix_of(rows, 4, cols), b = matrix_of(y, 4, 1), x = lm_matrix_new(cols, 1);
    int rank = lm_least_squares(&x, &a, &b, DBL_EPSILON);
    double third = cols == 3 ? x.x[2] : 0;
    ASSERT_EQ(rank, 2);
    ASSERT_IN_RANGE(1.7, x.x[0] + third, 1e-12);
    ASSERT_IN_RANGE(3.2, x.x[1] + 2 * third, 1e-12);
    free(a.x);
    free(b.x);
    free(x.x);
    PASS();
}

/* The residual is at right angles to every column: what least squares means. */
TEST residuals_are_at_right_angles(void)
{
    enum { N = 40, C = 7 };
    double rows[N * C], y[N];
    for (int i = 0; i < N * C; i++) rows[i] = check_random();
    for (int i = 0; i < N; i++) y[i] = check_random();
    lm_matrix a = matrix_of(rows, N, C), b = matrix_of(y, N, 1), x = lm_matrix_new(C, 1);
    ASSERT_EQ(lm_least_squares(&x, &a, &b, DBL_EPSILON), C);
    for (int c = 0; c < C; c++) {
        double sum = 0;
        for (int i = 0; i < N; i++) {
            double left = y[i];
            for (int j = 0; j < C; j++) left -= rows[i * C + j] * x.x[j];
            sum += left * rows[i * C + c];
        }
        ASSERT_IN_RANGE(0.0, sum, 1e-12);
    }
    free(a.x);
    free(b.x);
    free(x.x);
    PASS();
}

/* ---- tables of positions --------------------------------------------------------------------- */

enum { POS = 512, DIM = 24 };
static double table[POS * DIM];

TEST a_shift_of_sinusoids_is_linear(int k)
{
    for (int i = 0; i < POS * DIM; i++) {
        double angle = i / DIM * pow(10000, -(double)(i % DIM / 2 * 2) / DIM);
        table[i] = i % 2 ? cos(angle) : sin(angle);
    }
    ASSERT_IN_RANGE(1.0, lm_shift_r2(table, POS, DIM, k, DBL_EPSILON), 1e-9);
    PASS();
}

/* Of the bits of p only the last one of p + 1 is linear: 1 - b. Each of the others flips where all
   below are set; far up that is rare, so that b itself is nearly right. */
TEST a_shift_of_bits_is_not(void)
{
    double last[POS];
    for (int i = 0; i < POS * DIM; i++) table[i] = i / DIM >> (DIM - 1 - i % DIM) & 1;
    for (int p = 0; p < POS; p++) last[p] = p & 1;
    double r2 = lm_shift_r2(table, POS, DIM, 1, DBL_EPSILON);
    ASSERT(r2 > 0.4 && r2 < 0.8);
    ASSERT_IN_RANGE(1.0, lm_shift_r2(last, POS, 1, 1, DBL_EPSILON), 1e-12);
    for (int i = 0; i < POS * DIM; i++) table[i] = check_random();
    ASSERT(lm_shift_r2(table, POS, DIM, 1, DBL_EPSILON) < 0.01);     /* no shift at all */
    PASS();
}

/* the library's own tables: ranks that can be counted by hand, sizes that have a formula */
TEST tables_of_the_library_are_as_theory_has_them(void)
{
    static const char *const spec[4] = { "binary", "binary_norm", "decimal", "decimal_norm" };
    static const int rank[4][2] = { { 7, 10 }, { 8, 11 }, { 3, 4 }, { 4, 5 } };
    lm_table_facts t;
    for (int i = 0; i < 4; i++) {
        ASSERT(lm_table_measure(&t, spec[i]));
        ASSERT_EQ(t.rank[0], rank[i][0]);
        ASSERT_EQ(t.rank[1], rank[i][1]);
        ASSERT(t.r2[0] < 0.99);
    }
    ASSERT(lm_table_measure(&t, "sinusoidal"));
    ASSERT_IN_RANGE(sqrt(48), t.size, 1e-4);               /* 48 pairs of sine and cosine */
    for (int k = 0; k < LM_SHIFTS; k++) ASSERT(t.r2[k] > 0.9999 && t.r2[k] <= 1);
    ASSERT(lm_table_measure(&t, "binary_norm"));
    ASSERT_IN_RANGE(sqrt(96), t.size, 1e-4);
    ASSERT_IN_RANGE(sqrt(89), t.constant, 1e-4);       /* bits of 0..127 are even, 89 are -1 */
    ASSERT_FALSE(lm_table_measure(&t, "learned"));
    ASSERT_FALSE(lm_table_measure(&t, "rope"));
    PASS();
}

TEST a_kink_stands_out_from_its_neighbours(void)
{
    double bits[LM_WORDS_T];
    for (int p = 0; p < LM_WORDS_T; p++) bits[p] = 3 - 0.01 * p;
    ASSERT_IN_RANGE(0.0, lm_kink(bits, 64), 1e-12);        /* a slope is none */
    bits[64] += 0.5;
    ASSERT_IN_RANGE(0.5, lm_kink(bits, 64), 1e-12);
    ASSERT_IN_RANGE(-0.125, lm_kink(bits, 60), 1e-12);
    PASS();
}

/* ---- a model's loss by place ----------------------------------------------------------------- */

static posenc_model *tiny(int vocab, int context, int batch)
{
    posenc_config c;
    posenc_model *m = NULL;
    posenc_error said;
    memset(&c, 0, sizeof c);
    lm_nano(&c, "sinusoidal", 3);
    c.vocab = vocab;
    c.context = context;
    c.batch = batch;
    c.layers = 1;
    c.channels = 16;
    c.heads = 2;
    c.hidden = 16;
    c.threads = 1;
    posenc_model_create(&m, &c, &said);
    return m;
}

/* Places are means over the same windows as one total: their sum is that of the library's loss. */
TEST bits_by_place_add_up_to_the_loss(void)
{
    enum { STARTS = 4, WINDOWS = LM_WORDS_BLOCKS * STARTS };
    kit_corpus corpus;
    lm__words_feed *f = (lm__words_feed *)kit_new(1, sizeof *f);
    posenc_model *m = tiny(256, LM_WORDS_T, LM_WORDS_BATCH);
    double bits[LM_WORDS_T], sum = 0, loss = 0;
    static int in[WINDOWS * LM_WORDS_T], out[WINDOWS * LM_WORDS_T];
    posenc_batch batch;
    memset(&corpus, 0, sizeof corpus);
    kit_sentences(&corpus.held, 4000, 1);
    f->corpus = &corpus;
    f->starts = STARTS;
    ASSERT(m != NULL && lm__words_places(bits, m, f, &why));
    for (int p = 0; p < LM_WORDS_T; p++) sum += bits[p] / LM_WORDS_T;
    for (int w = 0; w < WINDOWS; w++)
        kit_corpus_window(in + w * LM_WORDS_T, out + w * LM_WORDS_T, &corpus.held,
                          (size_t)(w / STARTS) * (corpus.held.size / LM_WORDS_BLOCKS)
                              + (size_t)(w % STARTS), LM_WORDS_T);
    memset(&batch, 0, sizeof batch);
    batch.B = WINDOWS;
    batch.T = LM_WORDS_T;
    batch.tokens = in;
    batch.targets = out;
    ASSERT(posenc_model_loss(m, &batch, &loss, NULL) == POSENC_OK);
    ASSERT_IN_RANGE(loss / log(2), sum, 1e-4);
    ASSERT(bits[0] != bits[1]);
    posenc_model_free(m);
    kit_text_free(&corpus.held);
    free(f);
    PASS();
}

/* ---- trials ---------------------------------------------------------------------------------- */

static void set_up(int quick, int seeds)
{
    static kit_args a;
    memset(&setup, 0, sizeof setup);
    setup.quick = quick;
    setup.seeds = seeds;
    setup.seed = 1;
    setup.threads = 1;
    setup.out = folder;
    lm_words_check(&setup, &a);
    for (int i = 0; i < LM_STUDIES; i++) lm_study_room(&setup, lm__results_study(i));
}

static void tear_down(void)
{
    for (int i = 0; i < LM_STUDIES; i++) free(setup.value[i]);
}

/* no two of them keep their numbers in one file, and each has what it needs to be trained */
TEST trials_are_all_different(int quick)
{
    static char name[256][192];
    static const int count[2][LM_STUDIES] = { { 69, 21, 27 }, { 8, 4, 4 } };
    int n = 0;
    set_up(quick, quick ? 1 : 3);
    for (int e = 0; e < LM_STUDIES; e++) {
        const lm_study *study = lm__results_study(e);
        ASSERT_EQ(study->which, e);
        ASSERT_EQ(study->trials(&setup), count[quick][e]);
        for (int i = 0; i < study->trials(&setup); i++, n++) {
            kit_lesson l = lm_lesson_open(&setup, study, i);
            posenc_bytes bytes;
            strcpy(name[n], l.t.name);
            for (int k = 0; k < n; k++) ASSERT(strcmp(name[k], name[n]) != 0);
            ASSERT(posenc_model_bytes(&bytes, &l.config, NULL) == POSENC_OK);
            ASSERT(l.how.steps >= KIT_TRAIN_POINTS && l.how.fill && l.measure && l.t.n > 0);
            lm_lesson_close(&l);
        }
    }
    tear_down();
    PASS();
}

/* a verdict must not come out of figures that are no numbers; three claims need no model */
TEST nothing_is_reproduced_by_nan(void)
{
    kit_claim c[KIT_CLAIMS];
    set_up(0, 2);
    for (int e = 0; e < LM_STUDIES; e++) {
        const lm_study *study = lm__results_study(e);
        for (int i = 0; i < study->trials(&setup) * study->numbers; i++) setup.value[e][i] = NAN;
    }
    int n = lm__sums_claims(c, &setup);
    n += lm__distance_claims(c + n, &setup);
    ASSERT_EQ(n, LM_SUM_CLAIMS + LM_SEEK_CLAIMS);
    for (int i = 0; i < n; i++)
        ASSERT(c[i].verdict != KIT_REPRODUCED && c[i].verdict != KIT_DIFFERENT);
    ASSERT_EQ(lm__words_claims(c, &setup), LM_WORDS_CLAIMS);
    for (int i = 3; i < LM_WORDS_CLAIMS; i++)
        ASSERT(c[i].verdict != KIT_REPRODUCED && c[i].verdict != KIT_DIFFERENT);
    tear_down();
    PASS();
}

/* one figure of one seed that is no number, whichever way it is of, spoils what is said of all */
TEST one_nan_is_enough(void)
{
    static const double v[3] = { 1, NAN, 2 };
    set_up(0, 2);
    for (int way = 0; way < LM_SUM_ABACUS; way++) {
        for (int i = 0; i < lm_sums.trials(&setup) * LM_SUM_NUMBERS; i++)
            setup.value[LM_SUMS][i] = i % LM_SUM_NUMBERS < LM_SUM_SHORT;
        ASSERT_EQ((int)lm__sums_claim_within(&setup).verdict, (int)KIT_REPRODUCED);
        ASSERT_EQ((int)lm__sums_claim_cliff(&setup).verdict, (int)KIT_REPRODUCED);
        lm_numbers(&setup, &lm_sums, 2 * way + 1)[6] = NAN;          /* 7 digits */
        lm_numbers(&setup, &lm_sums, 2 * way + 1)[2] = NAN;          /* 3 digits */
        ASSERT_EQ((int)lm__sums_claim_within(&setup).verdict, (int)KIT_NOT_REPRODUCED);
        ASSERT((int)lm__sums_claim_cliff(&setup).verdict != (int)KIT_REPRODUCED);
    }
    kit_spread spread = kit_spread_of(v, 3);
    ASSERT(spread.mean != spread.mean && spread.low != spread.low && spread.high != spread.high);
    ASSERT(lm_larger(1, NAN) != lm_larger(1, NAN) && lm_larger(NAN, 1) != lm_larger(NAN, 1));
    ASSERT(lm_smaller(1, NAN) != lm_smaller(1, NAN) && lm_smaller(NAN, 1) != lm_smaller(NAN, 1));
    ASSERT(lm_larger(1, 2) > 1 && lm_smaller(1, 2) < 2);
    tear_down();
    PASS();
}

/* figures made up so that every rule holds: each claim can come out */
TEST rules_hold_where_they_should(void)
{
    kit_claim c[KIT_CLAIMS];
    set_up(0, 2);
    for (int i = 0; i < lm_sums.trials(&setup); i++) {
        double *v = lm_numbers(&setup, &lm_sums, i);
        int abacus = i / 2 == LM_SUM_ABACUS;
        for (int n = 0; n < LM_SUM_LONG; n++) v[n] = n < 5 ? 1 : abacus ? i % 2 : 0.05;
        for (int k = LM_SUM_LONG; k < LM_SUM_NUMBERS; k++)
            v[k] = (k - LM_SUM_LONG) % LM_SUM_PLACES < 5 ? 0.9 : 0.3;
    }
    for (int i = 0, n = lm__sums_claims(c, &setup); i < n; i++)
        ASSERT_EQ_FMT((int)KIT_REPRODUCED, (int)c[i].verdict, "%d");
    for (int i = 0; i < lm_distance.trials(&setup) * LM_SEEK_DISTANCES; i++) {
        int way = i / 2 / LM_SEEK_DISTANCES, d = lm_seek_distance[i % LM_SEEK_DISTANCES];
        double beyond = way <= LM_SEEK_LEARNED ? 0.1 : 0.6;
        setup.value[LM_DISTANCE][i] = way == LM_SEEK_CUT ? d < 96 ? 0.95 : 0.05
                                    : d <= 128 ? 1 - 0.0001 * d : beyond;
    }
    for (int i = 0, n = lm__distance_claims(c, &setup); i < n; i++)
        ASSERT_EQ_FMT((int)KIT_REPRODUCED, (int)c[i].verdict, "%d");
    tear_down();
    PASS();
}

/* ---- killed and resumed ---------------------------------------------------------------------- */

static int stop_at, kill_at;

static void fill(void *user, posenc_batch *batch, int step)
{
    if (step == kill_at) raise(SIGKILL);
    if (step == stop_at) kit__stop = 1;
    lm__sums_fill(user, batch, step);
}

/* the abacus trial with a model of a few hundred parameters; numbers (LM_SUM_NUMBERS) */
static int run(double *numbers, const char *name, int stop, int kill)
{
    kit_lab lab;
    memset(&lab, 0, sizeof lab);
    lab.out = folder;
    lab.resume = 1;
    lab.bar = kit_progress_begin("x", 1, 0, 1);
    kit_lesson l = lm_lesson_open(&setup, &lm_sums, LM_SUM_ABACUS);
    snprintf(l.t.name, sizeof l.t.name, "%s", name);
    l.t.value = numbers;
    l.config.layers = 1;
    l.config.channels = 16;
    l.config.heads = 2;
    l.config.hidden = 16;
    l.how.fill = fill;
    stop_at = stop;
    kill_at = kill;
    kit__stop = 0;
    int code = kit_trial_clear(&l.t, &lab, &why) ? kit_lesson_run(&l, &lab, &why) : FAILED;
    kit__stop = 0;
    lm_lesson_close(&l);
    return code;
}

/* Stopped at step 24, killed at 40 by a process that had saved nothing since, finished by a third:
   the same numbers as in one go. The fourth only reads them. */
TEST what_was_killed_ends_in_the_same_numbers(void)
{
    static double whole[LM_SUM_NUMBERS], half[LM_SUM_NUMBERS], again[LM_SUM_NUMBERS];
    int status = 0, told = 0;
    set_up(0, 1);
    setup.steps = 60;
    ASSERT_EQ(run(whole, "whole", -1, -1), DONE);
    ASSERT_EQ(run(half, "half", 23, -1), STOPPED);
    pid_t child = fork();
    if (child == 0) _exit(run(half, "half", -1, 40));
    ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ASSERT_EQ(run(half, "half", -1, -1), DONE);
    ASSERT_EQ(run(again, "half", -1, 0), DONE);
    for (int i = 0; i < LM_SUM_NUMBERS; i++) {
        ASSERT(half[i] == whole[i] || (half[i] != half[i] && whole[i] != whole[i]));
        ASSERT(half[i] == again[i] || (half[i] != half[i] && again[i] != again[i]));
        if (whole[i] == whole[i]) {
            ASSERT(whole[i] >= 0 && whole[i] <= 1);
            told += whole[i] > 0 && whole[i] < 1;
        }
    }
    ASSERT(told > 10);                                     /* there was something to get wrong */
    setup.steps = 61;
    ASSERT_EQ(run(half, "half", -1, -1), FAILED);          /* another experiment */
    ASSERT(strstr(why.text, "--steps 60") != NULL);
    tear_down();
    PASS();
}

/* ---- the command line ------------------------------------------------------------------------ */

static int command(const char *one, const char *two, const char *three, const char *four)
{
    const char *words[6] = { "build/lm", one, two, three, four, NULL };
    int argc = 1, status = 0;
    while (words[argc]) argc++;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(99);
        _exit(lm_results_main(argc, (char **)words));
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status) : -1;
}

TEST wrong_flags_are_answered_with_2(void)
{
    ASSERT_EQ(command("--help", NULL, NULL, NULL), 0);
    ASSERT_EQ(command("--only", "numbers", NULL, NULL), 2);
    ASSERT_EQ(command("--only=sums", "--pe", "rope", NULL), 2);
    ASSERT_EQ(command("--only=distance", "--text", "x", NULL), 2);
    ASSERT_EQ(command("--pe", "ropo", NULL, NULL), 2);
    ASSERT_EQ(command("--pe=learned:rows=64", NULL, NULL, NULL), 2);
    ASSERT_EQ(command("--steps", "10", NULL, NULL), 2);
    ASSERT_EQ(command("--sed", "10", NULL, NULL), 2);
    ASSERT_EQ(command("--text", "/nowhere/at/all", "--out", folder), FAILED);
    PASS();
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    char gone[KIT_PATH + 16];
    GREATEST_MAIN_BEGIN();
    snprintf(folder, sizeof folder, "/tmp/posenc_lm_results_%ld", (long)getpid());
    if (!kit_make_folders(folder, &why)) return 1;
    RUN_TEST(sums_are_written_in_reverse);
    RUN_TEST(sums_are_right);
    RUN_TEST(sums_of_the_test_are_never_trained_on);
    RUN_TEST(abacus_numbers_digits_within_numbers);
    RUN_TESTp(rows_hold_two_sums, 0);
    RUN_TESTp(rows_hold_two_sums, LM_SUM_OFFSETS);
    RUN_TEST(digits_and_answers_are_counted);
    RUN_TEST(keys_are_asked_for_behind_the_question);
    RUN_TESTp(aligned_windows_hold_one_example, 0);
    RUN_TESTp(aligned_windows_hold_one_example, 1);
    RUN_TEST(cut_windows_lose_the_longest);
    RUN_TEST(a_key_is_exact_or_not);
    RUN_TEST(ranks_are_known);
    RUN_TESTp(least_squares_are_known, 2);
    RUN_TESTp(least_squares_are_known, 3);
    RUN_TEST(residuals_are_at_right_angles);
    for (int i = 0; i < LM_SHIFTS; i++) {
        label_test("k%d", lm_shift[i]);
        RUN_TESTp(a_shift_of_sinusoids_is_linear, lm_shift[i]);
    }
    RUN_TEST(a_shift_of_bits_is_not);
    RUN_TEST(tables_of_the_library_are_as_theory_has_them);
    RUN_TEST(a_kink_stands_out_from_its_neighbours);
    RUN_TEST(bits_by_place_add_up_to_the_loss);
    RUN_TESTp(trials_are_all_different, 0);
    RUN_TESTp(trials_are_all_different, 1);
    RUN_TEST(nothing_is_reproduced_by_nan);
    RUN_TEST(one_nan_is_enough);
    RUN_TEST(rules_hold_where_they_should);
    RUN_TEST(what_was_killed_ends_in_the_same_numbers);
    RUN_TEST(wrong_flags_are_answered_with_2);
    snprintf(gone, sizeof gone, "rm -r %s", folder);
    if (system(gone) != 0) return 1;
    GREATEST_MAIN_END();
}
