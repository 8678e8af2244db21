/* Examinations of a language model: every target of a sliding window counts once, answers drawn with a
   cache are those of full forwards, right and wrong are told apart, keys lie where they should, letters
   reach the terminal whole; the commands from end to end on models made here. Called as `... train`, this
   program stands in for lm train, so that lm compare has something to start.                         */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "lm/eval.h"
#include "lm/generate.h"
#include "lm/compare.h"

static char folder[KIT_PATH];
static kit_error why;

static const char *in_folder(const char *name)
{
    static char path[8][KIT_PATH];
    static int next;
    next = (next + 1) % 8;
    snprintf(path[next], KIT_PATH, "%.900s/%s", folder, name);
    return path[next];
}

/* ---- models ---------------------------------------------------------------------------------- */

static posenc_model *tiny(const char *encoding, int vocab, int context)
{
    posenc_config c;
    posenc_model *m = NULL;
    memset(&c, 0, sizeof c);
    c.encoding = encoding;
    c.vocab = vocab;
    c.context = context;
    c.batch = 16;
    c.layers = 1;
    c.channels = 32;
    c.heads = 2;
    c.causal = c.tied_head = 1;
    c.norm = POSENC_RMSNORM;
    c.embedding_init = 0.3;                               /* far from all bytes alike, untrained  */
    c.seed = 5;
    posenc_model_create(&m, &c, NULL);
    return m;
}

static int save(posenc_model *m, const char *path, const char *vocabulary)
{
    lm_note n;
    kit_text t = { NULL, 0, 0 };
    memset(&n, 0, sizeof n);
    snprintf(n.size, sizeof n.size, "nano");
    snprintf(n.data, sizeof n.data, "made here");
    snprintf(n.vocabulary, sizeof n.vocabulary, "%s", vocabulary);
    snprintf(n.stage, sizeof n.stage, "full");
    n.context = posenc_model_config(m)->context;
    lm_note_write(&t, &n, NULL);
    int good = posenc_model_save(m, path, POSENC_WEIGHTS, t.data, NULL) == POSENC_OK;
    kit_text_free(&t);
    return good;
}

/* letters, "->", "ok", byte 0: learnt in a few hundred steps */
static void fill_ok(int *tokens, int *targets, int T, int rows)
{
    for (int i = 0; i < rows * T; i++) tokens[i] = 0;
    for (int b = 0; b < rows; b++) {
        int *row = tokens + b * T, n = 1 + check_random_below(T - 8), at = 1;
        for (int i = 0; i < n; i++) row[at++] = 'a' + check_random_below(26);
        memcpy(row + at, (int[4]){ '-', '>', 'o', 'k' }, 4 * sizeof *row);
        for (int t = 0; t < T; t++)
            targets[b * T + t] = t > at + 3 ? (int)POSENC_IGNORE : t < T - 1 ? row[t + 1] : 0;
    }
}

static posenc_model *taught(void)
{
    enum { T = 32, ROWS = 16 };
    static int tokens[ROWS * T], targets[ROWS * T];
    posenc_model *m = tiny("rope", 256, T);
    posenc_optimizer o;
    posenc_batch batch;
    memset(&o, 0, sizeof o);
    memset(&batch, 0, sizeof batch);
    batch.B = ROWS;
    batch.T = T;
    batch.tokens = tokens;
    batch.targets = targets;
    for (int i = 0; i < 150; i++) {
        double loss;
        fill_ok(tokens, targets, T, ROWS);
        posenc_model_train(m, &batch, &loss, NULL);
        posenc_model_update(m, &o, 5e-3, NULL, NULL);
    }
    return m;
}

static int exam_of(lm_exam *x, const char *path)
{
    memset(x, 0, sizeof *x);
    x->quiet = 1;
    x->samples = 100;
    x->seed = 1;
    return lm_exam_open(x, path, 0, &why);
}

/* n tokens that are no text, so that every window differs */
static void text_of(lm_exam *x, long n)
{
    x->tokens = n;
    x->token = (int *)kit_new((size_t)n, sizeof *x->token);
    for (long i = 0; i < n; i++) x->token[i] = (int)(i * i * 7 + i * 13) % 251;
}

/* ---- windows --------------------------------------------------------------------------------- */

TEST every_target_counts_once(void)
{
    for (int T = 1; T <= 17; T++)
        for (long targets = T; targets <= 70; targets++) {
            int seen[80] = { 0 };
            long n = lm_window_count(targets, T);
            ASSERT(n >= 1);
            for (long k = 0; k < n; k++) {
                lm_window w = lm_window_at(targets, T, k);
                ASSERT(w.begin >= 0 && w.begin + T <= targets);
                ASSERT(w.from >= 0 && w.from < T);
                ASSERT(k == 0 || w.from >= T - lm_stride(T));            /* half a window before it */
                for (int t = w.from; t < T; t++) seen[w.begin + t]++;
            }
            for (long i = 0; i < targets; i++) ASSERT_EQ_FMT(1, seen[i], "%d");
        }
    ASSERT_EQ(lm_window_count(7, 8), 0);
    ASSERT_EQ(lm_window_count(8, 8), 1);
    PASS();
}

/* nats of the token behind place t of a window, from the logits, in double */
static double surprise(posenc_model *m, const int *window, int T, int t)
{
    posenc_float z[256];
    posenc_batch b;
    double sum = 0;
    memset(&b, 0, sizeof b);
    b.B = 1;
    b.T = T;
    b.tokens = window;
    if (posenc_model_forward(m, &b, NULL) != POSENC_OK) return NAN;
    if (posenc_model_logits(m, z, t, 1, NULL) != POSENC_OK) return NAN;
    for (int v = 0; v < 256; v++) sum += exp((double)z[v]);
    return log(sum) - z[window[t + 1]];
}

/* Target by target: the window it belongs to is the first of 0, T/2, T ... that has it, or the one at
   the text's end. */
TEST perplexity_is_that_of_the_logits(int T)
{
    enum { N = 61 };
    lm_exam x;
    lm_ppl p;
    double sum = 0;
    ASSERT(exam_of(&x, in_folder("plain.safetensors")));
    text_of(&x, N);
    ASSERT(lm_ppl_measure(&p, &x, T, 1, &why));
    ASSERT_STR_EQ("", p.why);
    posenc_model *m = kit_longer(x.model, NULL, T, 1, &why);
    ASSERT(m != NULL);
    for (int i = 0; i < N - 1; i++) {
        int begin = 0;
        while (begin + T <= i) begin += T / 2;
        if (begin + T > N - 1) begin = N - 1 - T;
        sum += surprise(m, x.token + begin, T, i - begin);
    }
    ASSERT_EQ(p.targets, N - 1);
    ASSERT(fabs(p.nats - sum / (N - 1)) <= 1e-5 * p.nats);
    ASSERT(fabs(lm_ppl_bits(&p) - p.nats / log(2)) < 1e-12);
    posenc_model_free(m);
    lm_exam_close(&x);
    PASS();
}

TEST one_window_is_the_loss_of_the_library(void)
{
    lm_exam x;
    lm_ppl p;
    double loss;
    posenc_batch b;
    ASSERT(exam_of(&x, in_folder("plain.safetensors")));
    text_of(&x, x.trained + 1);
    memset(&b, 0, sizeof b);
    b.B = 1;
    b.T = x.trained;
    b.tokens = x.token;
    b.targets = x.token + 1;
    ASSERT_EQ(POSENC_OK, posenc_model_loss(x.model, &b, &loss, NULL));
    ASSERT(lm_ppl_measure(&p, &x, x.trained, 1, &why));
    ASSERT_EQ(p.windows, 1);
    ASSERT(fabs(p.nats - loss) <= 1e-6 * loss);
    lm_exam_close(&x);
    PASS();
}

TEST what_cannot_be_measured_says_why(void)
{
    lm_exam x;
    lm_ppl p;
    ASSERT(exam_of(&x, in_folder("learned.safetensors")));
    text_of(&x, 100);
    ASSERT(lm_ppl_measure(&p, &x, 32, 1, &why));
    ASSERT(strstr(p.why, "16 rows") != NULL && !(p.nats == p.nats));
    ASSERT(lm_ppl_measure(&p, &x, 16, 1, &why));
    ASSERT(p.why[0] == 0 && isfinite(p.nats));
    x.tokens = 10;
    ASSERT(lm_ppl_measure(&p, &x, 16, 1, &why));
    ASSERT(strstr(p.why, "10 tokens") != NULL);
    lm_exam_close(&x);
    PASS();
}

TEST lengths_are_multiples_and_numbers(void)
{
    lm_exam x;
    memset(&x, 0, sizeof x);
    x.trained = 16;
    ASSERT(lm_contexts_read(&x, "1x, 2x,1.5x 100,32", &why));
    ASSERT_EQ(x.contexts, 4);                                               /* 2x and 32 are one */
    ASSERT_EQ(x.context[0], 16);
    ASSERT_EQ(x.context[1], 32);
    ASSERT_EQ(x.context[2], 24);
    ASSERT_EQ(x.context[3], 100);
    static const char *const bad[] = { "", "x", "1y", "0x", "-4", "nan", "1e9", "2x3" };
    for (int i = 0; i < 8; i++) ASSERT_EQ(lm_contexts_read(&x, bad[i], &why), 0);
    PASS();
}

/* ---- texts ----------------------------------------------------------------------------------- */

static int write_text(const char *name, const char *text)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, text);
    int good = kit_save_in(folder, name, &t, &why);
    kit_text_free(&t);
    return good;
}

TEST documents_begin_with_byte_0(void)
{
    static const int both[] = { 0, 'a', 'b', 0, 0xC3, 0xA9 };
    lm_exam x;
    ASSERT(write_text("two.jsonl", "{\"text\":\"ab\"}\n\n{\"id\":3,\"text\":\"\\u00e9\"}\n"));
    ASSERT(exam_of(&x, in_folder("plain.safetensors")));
    ASSERT(lm_text_open(&x, in_folder("two.jsonl"), NULL, NULL, "x", &why));
    ASSERT_EQ(x.tokens, 6);
    ASSERT_EQ(0, memcmp(x.token, both, sizeof both));
    ASSERT_EQ(x.filler.size, (size_t)4);
    lm_exam_close(&x);
    ASSERT(exam_of(&x, in_folder("plain.safetensors")));
    x.max_tokens = 5;
    ASSERT(write_text("plain.txt", "hello world"));
    ASSERT(lm_text_open(&x, in_folder("plain.txt"), NULL, NULL, "x", &why));
    ASSERT_EQ(x.tokens, 6);                                        /* five targets, as was asked */
    ASSERT_EQ(0, memcmp(x.filler.data, "hello", 5));
    lm_exam_close(&x);
    PASS();
}

TEST bad_texts_are_refused_with_their_line(void)
{
    lm_exam x;
    ASSERT(exam_of(&x, in_folder("plain.safetensors")));
    ASSERT(write_text("bad.jsonl", "{\"text\":\"ab\"}\n{\"txt\":\"ab\"}\n"));
    ASSERT_EQ(lm_text_open(&x, in_folder("bad.jsonl"), NULL, NULL, "x", &why), 0);
    ASSERT(strstr(why.text, "line 2") != NULL);
    ASSERT_EQ(lm_text_open(&x, in_folder("nothing.txt"), NULL, NULL, "x", &why), 0);
    ASSERT(strstr(why.text, "nothing.txt") != NULL);
    lm_exam_close(&x);
    PASS();
}

/* ---- answers --------------------------------------------------------------------------------- */

/* without a cache: a full forward for each token */
static void slow_answer(kit_text *got, posenc_model *m, const lm_question *q)
{
    int token[64], n = 1;
    token[0] = 0;
    for (size_t i = 0; i < q->prompt.size; i++) token[n++] = (unsigned char)q->prompt.data[i];
    for (int k = 0; k < q->most; k++) {
        posenc_float z[256];
        posenc_batch b;
        int best = 0;
        memset(&b, 0, sizeof b);
        b.B = 1;
        b.T = n;
        b.tokens = token;
        posenc_model_forward(m, &b, NULL);
        posenc_model_logits(m, z, n - 1, 1, NULL);
        for (int v = 1; v < 256; v++) if (z[v] > z[best]) best = v;
        if (best == 0 || best == '\n') return;
        char byte = (char)best;
        kit_put_bytes(got, &byte, 1);
        token[n++] = best;
    }
}

/* Prompts and answers of all lengths side by side, up to the last slot of a table. */
TEST answers_are_those_of_full_forwards(const char *name)
{
    enum { N = 24, T = 16 };
    lm_exam x;
    ASSERT(exam_of(&x, in_folder(name)));
    lm_question *q = (lm_question *)kit_new(N, sizeof *q);
    posenc_model *m = kit_longer(x.model, NULL, T, 1, &why);
    ASSERT(m != NULL);
    for (int i = 0; i < N; i++) {
        int length = 1 + check_random_below(T - 2);
        for (int k = 0; k < length; k++) kit_put(&q[i].prompt, "%c", 'a' + check_random_below(26));
        q[i].most = i % 2 ? T - length : 1 + check_random_below(T - length);
        slow_answer(&q[i].target, m, &q[i]);
    }
    ASSERT_EQ(lm_questions_slots(q, N), T);
    ASSERT(lm_answer(&x, q, N, 1, "", &why));
    int drawn = 0;
    for (int i = 0; i < N; i++) {
        ASSERT_EQ(q[i].target.size, q[i].got.size);
        ASSERT(q[i].right);
        drawn += (int)q[i].got.size;
    }
    ASSERT(drawn > N);
    lm_questions_free(q, N);
    posenc_model_free(m);
    lm_exam_close(&x);
    PASS();
}

static int taken(const char *target, const char *out)
{
    int token[16], n = (int)strlen(out), right;
    lm_question q;
    memset(&q, 0, sizeof q);
    kit_put_string(&q.target, target);
    for (int i = 0; i < n; i++) token[i] = out[i] == '0' ? 0 : (unsigned char)out[i];
    lm__question_take(&q, token, n);
    right = q.right;
    kit_text_free(&q.target);
    kit_text_free(&q.got);
    return right;
}

TEST an_answer_is_right_to_the_byte_and_ends(void)
{
    ASSERT(taken("ok", "ok") && taken("ok", "ok\nmore") && taken("ok", "ok0more"));
    ASSERT(!taken("ok", "okk") && !taken("ok", "o") && !taken("ok", "oK") && !taken("ok", ""));
    ASSERT(!taken("ok", "\nok") && taken("a b", "a b") && !taken("a b", "a b "));
    PASS();
}

#define CASE(split, prompt, target)                                                                \
    "{\"task\":\"reversal\",\"split\":\"" split "\",\"level\":1,\"prompt\":\"" prompt              \
    "\",\"target\":\"" target "\"}\n"

TEST right_and_wrong_are_told_apart(void)
{
    lm_exam x;
    lm_examples c;
    lm_exact row[LM_EXACT_ROWS];
    ASSERT(write_text("cases.jsonl",
                      CASE("id", "ab->", "ok") CASE("id", "qwe->", "ok") CASE("id", "x->", "o")
                      CASE("ood", "abcdefghij->", "no") CASE("id", "zz->", "okk")
                      CASE("ood", "klmnopqrst->", "ok") CASE("id", "left out->", "ok")));
    ASSERT(exam_of(&x, in_folder("taught.safetensors")));
    x.samples = 4;
    x.few = 2;
    x.examples = in_folder("cases.jsonl");
    ASSERT(lm_exact_read(&c, &x, x.examples, &why));
    ASSERT_EQ(c.count, (size_t)6);                            /* the fifth of a split is not read */
    ASSERT_EQ(4, lm_exact_rows(row, &c, &x));
    for (int i = 0; i < 4; i++) ASSERT(lm_exact_ask(&row[i], &x, &c, 1, &why));
    ASSERT_EQ(row[0].total, 4);
    ASSERT_EQ(row[0].correct, 2);            /* "o" goes on to "ok", "okk" ends before its time   */
    ASSERT_EQ(row[0].longest, 8);            /* byte 0, "qwe->", "ok"; its end is not read again  */
    ASSERT(row[1].shots == 2 && row[1].total == 4 && row[1].longest > 20);
    ASSERT(row[2].ood == 1 && row[2].total == 2 && row[2].correct == 1);
    ASSERT(row[3].shots == 2 && row[3].why[0] == 0);
    x.few = 4;
    lm_exact_rows(row, &c, &x);
    ASSERT(lm_exact_ask(&row[1], &x, &c, 1, &why));
    ASSERT(strstr(row[1].why, "too few") != NULL && row[1].total == 0);
    lm_examples_free(&c);
    lm_exam_close(&x);
    PASS();
}

/* An example that fills the training length to its last byte has no room left for its end. */
TEST the_end_is_not_asked_for_beyond_the_training_length(void)
{
    lm_exam x;
    lm_examples c;
    lm_exact row[LM_EXACT_ROWS];
    ASSERT(write_text("full.jsonl", CASE("id", "abcdefghijkl->", "ok") CASE("ood", "b->", "ok")));
    ASSERT(exam_of(&x, in_folder("learned.safetensors")));         /* 16 rows, and nothing beyond */
    x.examples = in_folder("full.jsonl");
    ASSERT(lm_exact_read(&c, &x, x.examples, &why));
    lm_exact_rows(row, &c, &x);
    ASSERT(lm_exact_ask(&row[0], &x, &c, 1, &why));
    ASSERT(row[0].why[0] == 0 && row[0].longest == 16 && row[0].total == 1);
    lm_examples_free(&c);
    lm_exam_close(&x);
    PASS();
}

TEST intervals_are_wilsons(void)
{
    static const struct { int k, n; double low, high; } known[] = {
        { 0, 10, 0, 0.2775 }, { 10, 10, 0.7225, 1 }, { 5, 10, 0.2366, 0.7634 },
        { 1, 100, 0.0018, 0.0545 }, { 90, 100, 0.8256, 0.9448 }, { 81, 263, 0.2553, 0.3662 }
    };
    for (int i = 0; i < 6; i++) {
        double low, high;
        lm_wilson(&low, &high, known[i].k, known[i].n);
        ASSERT(fabs(low - known[i].low) < 1e-4 && fabs(high - known[i].high) < 1e-4);
    }
    double low, high;
    lm_wilson(&low, &high, 0, 0);
    ASSERT(low == 0 && high == 1);
    PASS();
}

/* ---- needles --------------------------------------------------------------------------------- */

TEST a_code_lies_at_its_depth(void)
{
    enum { T = 256 };
    kit_text filler = { NULL, 0, 0 };
    char code[6] = "", around[T] = "", other[T];
    kit_sentences(&filler, 5000, 1);
    for (int d = 0; d <= 10; d++) {
        lm_question q;
        char said[40];
        memset(&q, 0, sizeof q);
        ASSERT(lm_code_make(&q, d / 10.0, &filler, 7, 3, T, &why));
        ASSERT_EQ(lm_questions_slots(&q, 1), T);
        ASSERT_EQ(q.target.size, (size_t)5);
        if (d == 0) memcpy(code, q.target.data, 6);
        ASSERT_STR_EQ(code, q.target.data);                   /* the same code at every depth */
        snprintf(said, sizeof said, "The code is %s. ", code);
        const char *at = strstr(q.prompt.data, said);
        ASSERT(at && !strstr(at + 1, said));
        snprintf(other, sizeof other, "%.*s%s", (int)(at - q.prompt.data), q.prompt.data, at + 19);
        if (d == 0) snprintf(around, sizeof around, "%.255s", other);
        ASSERT_STR_EQ(around, other);                         /* and the same text around it      */
        double depth = (double)(at - q.prompt.data) / (T - 36);
        ASSERT(fabs(depth - d / 10.0) < 0.15);
        if (d == 0) ASSERT_EQ(at, q.prompt.data);
        if (d == 10) ASSERT(strlen(at) < 12 + 19 + 32);
        ASSERT_STR_EQ("The code is ", q.prompt.data + q.prompt.size - 12);
        kit_text_free(&q.prompt);
        kit_text_free(&q.target);
    }
    lm_question q;
    memset(&q, 0, sizeof q);
    ASSERT_EQ(lm_code_make(&q, 0, &filler, 7, 3, LM_CODE_LEAST - 1, &why), 0);
    ASSERT(lm_code_make(&q, 1, &filler, 7, 3, LM_CODE_LEAST, &why));
    kit_text_free(&q.prompt);
    kit_text_free(&q.target);
    kit_text_free(&filler);
    PASS();
}

TEST keys_have_their_names(void)
{
    lm_exam x;
    lm_key key;
    lm_exact row;
    memset(&x, 0, sizeof x);
    memset(&row, 0, sizeof row);
    x.trained = 128;
    lm_key_ppl(key, &x, "ppl", 128);
    ASSERT_STR_EQ("ppl_128_interp", key);
    lm_key_ppl(key, &x, "ppl", 129);
    ASSERT_STR_EQ("ppl_129_extrap", key);
    row.task = LM_NO_CARRY_ADD;
    lm_key_exact(key, &row, "accuracy");
    ASSERT_STR_EQ("no_carry_add_id_accuracy", key);
    row.ood = 1;
    row.shots = 3;
    lm_key_exact(key, &row, "total");
    ASSERT_STR_EQ("no_carry_add_ood_3shot_total", key);
    lm_key_passkey(key, &x, LM_WORDS_KEY, 256, "middle");
    ASSERT_STR_EQ("passkey_256_middle_extrap", key);
    lm_key_passkey(key, &x, LM_WORDS_CODE, 64, "avg");
    ASSERT_STR_EQ("passkey_code_64_avg_interp", key);
    lm_key_niah(key, &x, 512, 3);
    ASSERT_STR_EQ("niah_512_30pct_extrap", key);
    lm_key_niah(key, &x, 512, -1);
    ASSERT_STR_EQ("niah_512_avg_extrap", key);
    PASS();
}

/* ---- letters --------------------------------------------------------------------------------- */

static const char *shown(kit_text *t, const char *bytes, size_t n)
{
    lm_letters l;
    memset(&l, 0, sizeof l);
    t->size = 0;
    kit_put_string(t, "");
    for (size_t i = 0; i < n; i++) lm_letters_put(&l, t, (unsigned char)bytes[i]);
    lm_letters_end(&l, t);
    kit_put_bytes(t, "", 1);
    return t->data;
}

TEST letters_come_whole(void)
{
    static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82z";
    static const int ready[] = { 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11 };
    lm_letters l;
    kit_text t = { NULL, 0, 0 };
    memset(&l, 0, sizeof l);
    for (int i = 0; i < 11; i++) {
        lm_letters_put(&l, &t, (unsigned char)text[i]);
        ASSERT_EQ_FMT(ready[i], (int)t.size, "%d");
    }
    ASSERT_EQ(0, memcmp(t.data, text, 11));
    kit_text_free(&t);
    PASS();
}

TEST what_is_no_letter_is_shown_as_a_sign(void)
{
    static const struct { const char *bytes, *shown; } known[] = {
        { "\xC3", LM_NO_LETTER },                             /* the text ends in its middle      */
        { "\xC3" "a", LM_NO_LETTER "a" },                     /* it breaks off, a is not lost     */
        { "\x80", LM_NO_LETTER },                             /* a middle without a beginning     */
        { "\xC0\xAF", LM_NO_LETTER LM_NO_LETTER },            /* overlong                         */
        { "\xE0\x80\xAF", LM_NO_LETTER LM_NO_LETTER LM_NO_LETTER },
        { "\xED\xA0\x80", LM_NO_LETTER LM_NO_LETTER LM_NO_LETTER },     /* half of a pair         */
        { "\xF4\x90\x80\x80", LM_NO_LETTER LM_NO_LETTER LM_NO_LETTER LM_NO_LETTER },
        { "\xE2\x82\xC3\xA9", LM_NO_LETTER "\xC3\xA9" },
        { "\x1b[2J", "\xE2\x90\x9B[2J" },                     /* escape                           */
        { "\r\x7f\a", "\xE2\x90\x8D\xE2\x90\xA1\xE2\x90\x87" },
        { "\xC2\x9B" "1m", LM_NO_LETTER "1m" },               /* escape in one letter             */
        { "\t\n", "\t\n" }
    };
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < 12; i++)
        ASSERT_STR_EQ(known[i].shown, shown(&t, known[i].bytes, strlen(known[i].bytes)));
    ASSERT_STR_EQ("\xE2\x90\x80", shown(&t, "", 1));                          /* byte 0 */
    kit_text_free(&t);
    PASS();
}

TEST no_bytes_make_what_is_no_text(void)
{
    kit_text t = { NULL, 0, 0 };
    for (int round = 0; round < 300; round++) {
        char bytes[64];
        for (int i = 0; i < 64; i++) bytes[i] = (char)(round % 2 ? check_random_below(256)
                                                                 : 0x80 + check_random_below(128));
        shown(&t, bytes, 64);
        for (size_t i = 0; i + 1 < t.size;) {
            int n = kit__utf8_bytes(t.data + i, t.size - 1 - i);
            unsigned char c = (unsigned char)t.data[i];
            ASSERT(n > 0);
            ASSERT(c == '\n' || c == '\t' || (c >= 32 && c != 127));
            ASSERT(c != 0xC2 || (unsigned char)t.data[i + 1] >= 0xA0);
            i += (size_t)n;
        }
    }
    kit_text_free(&t);
    PASS();
}

/* ---- the commands ---------------------------------------------------------------------------- */

/* Runs a command with what it prints in a file; words end with NULL. */
static int run_command(int (*command)(int, char **), const char *printed, const char *const *word)
{
    char *argv[40];
    int argc = 0, out = dup(1), err = dup(2);
    int file = open(printed, O_WRONLY | O_CREAT | O_TRUNC, 0666), none = open("/dev/null", O_WRONLY);
    for (; word[argc]; argc++) argv[argc] = strdup(word[argc]);
    argv[argc] = NULL;
    fflush(NULL);
    dup2(file, 1);
    dup2(none, 2);
    int code = command(argc, argv);
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    close(file);
    close(none);
    for (int i = 0; i < argc; i++) free(argv[i]);
    return code;
}

static double number_at(const kit_json *d, const char *inside, const char *key)
{
    const kit_json_node *o = kit_json_find(d->node, inside), *v = o ? kit_json_find(o, key) : NULL;
    double x = NAN;
    if (v) kit_json_to_real(v, &x);
    return x;
}

/* rows of all tables of a report, and how many tables are empty */
static void count_tables(const kit_text *md, int *tables, int *empty)
{
    *tables = *empty = 0;
    for (const char *at = md->data; at && (at = strstr(at, "\n|---")) != NULL; at++) {
        const char *row = strchr(at + 1, '\n');
        ++*tables;
        *empty += !row || row[1] != '|';
    }
}

TEST eval_leaves_numbers_and_a_report(void)
{
    const char *checkpoint = in_folder("taught.safetensors"), *out = in_folder("report");
    const char *const word[] = { "lm", checkpoint, "--contexts", "1x,2x,64", "--samples", "2", "--out",
                                 out, "--text", in_folder("long.txt"), "--few-shot=1", "--quiet", NULL };
    kit_text text = { NULL, 0, 0 }, md = { NULL, 0, 0 };
    kit_json d;
    int tables, empty;
    kit_sentences(&text, 2000, 1);
    ASSERT(kit_save_in(folder, "long.txt", &text, &why));
    ASSERT_EQ_FMT(0, run_command(lm_eval_main, in_folder("said.txt"), word), "%d");
    ASSERT(kit_json_load(&d, in_folder("report/eval.json"), 0, &why));
    ASSERT(number_at(&d, "results", "ppl_32_interp") > 1);
    ASSERT(number_at(&d, "results", "bpb_64_extrap") > 0);
    ASSERT(number_at(&d, "results", "no_carry_add_ood_total") == 2);
    ASSERT(number_at(&d, "results", "average_id_accuracy") >= 0);
    ASSERT(number_at(&d, "results", "passkey_64_end_extrap") >= 0);
    ASSERT(number_at(&d, "results", "niah_64_100pct_extrap") >= 0);
    ASSERT(number_at(&d, "results", "niah_overall_avg") >= 0);
    ASSERT(kit_json_find(kit_json_find(d.node, "cannot"), "copy_distance_id_accuracy") != NULL);
    kit_json_free(&d);
    ASSERT(kit_read_file(&md, in_folder("report/report.md"), 1 << 20, &why));
    count_tables(&md, &tables, &empty);
    ASSERT_EQ(tables, 5);                     /* perplexity, tasks, passkey twice, needles */
    ASSERT_EQ(empty, 0);
    ASSERT(kit_exists(in_folder("report/niah.svg")) && kit_exists(in_folder("report/report.html")));
    kit_text_free(&text);
    kit_text_free(&md);
    PASS();
}

TEST eval_says_what_it_cannot(void)
{
    const char *const ids[] = { "lm", in_folder("ids.safetensors"), "--out", in_folder("ids"), "--quiet",
                                NULL };
    const char *const wrong[] = { "lm", in_folder("taught.safetensors"), "--tier", "1", "--task", "niah",
                                  NULL };
    const char *const nothing[] = { "lm", in_folder("nowhere"), "--out", in_folder("no"), NULL };
    kit_json d;
    const char *tasks = "";
    ASSERT_EQ_FMT(0, run_command(lm_eval_main, in_folder("said.txt"), ids), "%d");
    ASSERT(kit_json_load(&d, in_folder("ids/eval.json"), 0, &why));
    ASSERT(kit_json_to_text(kit_json_find(kit_json_find(d.node, "cannot"), "tasks"), &tasks));
    ASSERT(strstr(tasks, "no bytes") != NULL);
    ASSERT(kit_json_find(kit_json_find(d.node, "cannot"), "ppl_16_interp") != NULL);
    kit_json_free(&d);
    ASSERT_EQ_FMT(2, run_command(lm_eval_main, in_folder("said.txt"), wrong), "%d");
    ASSERT_EQ_FMT(1, run_command(lm_eval_main, in_folder("said.txt"), nothing), "%d");
    PASS();
}

static int says(const char *file, const char *expected)
{
    kit_text t = { NULL, 0, 0 };
    int good = kit_read_file(&t, file, 1 << 20, &why)
            && t.size == strlen(expected) && memcmp(t.data, expected, t.size) == 0;
    kit_text_free(&t);
    return good;
}

TEST generate_goes_on_and_stops(void)
{
    const char *said = in_folder("said.txt"), *taught_path = in_folder("taught.safetensors");
    const char *const greedy[] = { "lm", taught_path, "--prompt", "abc->", "--temperature", "0", NULL };
    const char *const bare[] = { "lm", taught_path, "--prompt", "abc->", "--temperature=0", "--bare",
                                 "--tokens", "1", NULL };
    const char *const full[] = { "lm", in_folder("learned.safetensors"), "--prompt", "abc",
                                 "--endless", "--tokens", "40", NULL };
    const char *const on[] = { "lm", taught_path, "--prompt", "abc", "--endless", "--tokens", "200", "--raw",
                               "--bare", NULL };
    const char *const two[] = { "lm", taught_path, "--prompt", "a", "--file", "b", NULL };
    struct stat st;
    ASSERT_EQ_FMT(0, run_command(lm_generate_main, said, greedy), "%d");
    ASSERT(says(said, "abc->ok\n"));
    ASSERT_EQ_FMT(0, run_command(lm_generate_main, said, bare), "%d");
    ASSERT(says(said, "o\n"));
    ASSERT_EQ_FMT(1, run_command(lm_generate_main, said, full), "%d");         /* 16 rows, then full */
    ASSERT_EQ_FMT(0, run_command(lm_generate_main, said, on), "%d");           /* forgets, six times */
    ASSERT(stat(said, &st) == 0 && st.st_size == 200);
    ASSERT_EQ_FMT(2, run_command(lm_generate_main, said, two), "%d");
    PASS();
}

/* ---- lm train's understudy ------------------------------------------------------------------- */

/* Leaves what lm train would, with the seed in the weights; alibi with seed 2 fails. */
static int train_instead(int argc, char **argv)
{
    const char *pe = "none", *dir = ".", *seed = "1";
    char path[KIT_PATH];
    kit_text log = { NULL, 0, 0 };
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--pe") == 0) pe = argv[i + 1];
        if (strcmp(argv[i], "--checkpoint-dir") == 0) dir = argv[i + 1];
        if (strcmp(argv[i], "--seed") == 0) seed = argv[i + 1];
    }
    if (strcmp(pe, "alibi") == 0 && strcmp(seed, "2") == 0) return FAILED;
    posenc_model *m = tiny(pe, 256, 16);
    if (!m || !kit_make_folders(dir, &why)) return FAILED;
    for (int i = 0; i < 3; i++)
        kit_put(&log, "{\"tokens\":%d,\"train/tokens_per_sec\":%d}\n", i, (i * 2 + 1) % 3 * 10 + 10);
    snprintf(path, sizeof path, "%.900s/final.safetensors", dir);
    int good = save(m, path, "bytes") && kit_save_in(dir, "metrics.jsonl", &log, &why);
    kit_text_free(&log);
    posenc_model_free(m);
    return good ? DONE : FAILED;
}

static int csv_rows(const char *needle)
{
    kit_text t = { NULL, 0, 0 };
    int n = 0;
    if (!kit_read_file(&t, in_folder("cmp/compare.csv"), 1 << 20, &why)) return -1;
    for (const char *at = t.data; (at = strstr(at, needle)) != NULL; at++) n++;
    kit_text_free(&t);
    return n;
}

/* An emulator of another processor may run a program that the system itself cannot start. */
static int starts_itself(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_lm_eval", "are-you-there", (char *)NULL);
        _exit(1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
        && WEXITSTATUS(status) == DONE;
}

TEST compare_measures_each_and_goes_on(const char *program)
{
    const char *const word[] = { program, "--pe", "rope learned alibi", "--seeds", "2", "--seed", "1",
                                 "--contexts", "1x,2x", "--max-tokens", "300", "--out", in_folder("cmp"),
                                 "--val", in_folder("long.txt"), "--quiet", "--resume", NULL };
    const char *said = in_folder("said.txt");
    struct stat before, after;
    if (!starts_itself()) SKIPm("a program cannot start itself here, as under an emulator");
    ASSERT_EQ_FMT(1, run_command(lm_compare_main, said, word), "%d");       /* alibi 2 has failed */
    ASSERT_EQ(4, csv_rows("rope,"));
    ASSERT_EQ(2, csv_rows(",20,32,NA"));                                    /* learned, at 32 */
    ASSERT_EQ(2, csv_rows("alibi,2,NA,NA,"));
    ASSERT(stat(in_folder("cmp/runs/nano-rope-s1/final.safetensors"), &before) == 0);
    ASSERT(stat(in_folder("cmp/runs/nano-alibi-s2.numbers"), &after) != 0);
    ASSERT_EQ_FMT(1, run_command(lm_compare_main, said, word), "%d");
    ASSERT(stat(in_folder("cmp/runs/nano-rope-s1/final.safetensors"), &after) == 0);
    ASSERT(before.st_ino == after.st_ino);                              /* it was not trained again */
    ASSERT_EQ(4, csv_rows("rope,"));
    ASSERT(kit_exists(in_folder("cmp/report.html")));
    PASS();
}

TEST means_leave_out_what_is_missing(void)
{
    double v[2 * LM_COMPARE_NUMBERS];
    lm_compare c;
    memset(&c, 0, sizeof c);
    c.specs = 1;
    c.seeds = 2;
    c.value = v;
    for (int i = 0; i < 2 * LM_COMPARE_NUMBERS; i++) v[i] = NAN;
    lm_range r = lm_compare_spread(&c, 0, LM_BITS);
    ASSERT(r.n == 0 && !(r.mean == r.mean));
    v[LM_BITS] = 2;
    r = lm_compare_spread(&c, 0, LM_BITS);
    ASSERT(r.n == 1 && r.mean == 2 && r.low == 2 && r.high == 2);
    v[LM_COMPARE_NUMBERS + LM_BITS] = 3;
    r = lm_compare_spread(&c, 0, LM_BITS);
    ASSERT(r.n == 2 && r.mean == 2.5 && r.low == 2 && r.high == 3);
    PASS();
}

/* ---- all ------------------------------------------------------------------------------------- */

static int make_models(void)
{
    posenc_model *plain = tiny("rope", 256, 16), *table = tiny("learned", 256, 16);
    posenc_model *ids = tiny("rope", 300, 16), *ok = taught();
    int good = save(plain, in_folder("plain.safetensors"), "bytes")
            && save(table, in_folder("learned.safetensors"), "bytes")
            && save(ids, in_folder("ids.safetensors"), "tokens")
            && save(ok, in_folder("taught.safetensors"), "bytes");
    posenc_model_free(plain);
    posenc_model_free(table);
    posenc_model_free(ids);
    posenc_model_free(ok);
    return good;
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    char command[KIT_PATH + 16];
    if (argc > 1 && strcmp(argv[1], "are-you-there") == 0) return DONE;
    if (argc > 1 && strcmp(argv[1], "train") == 0) return train_instead(argc, argv);
    GREATEST_MAIN_BEGIN();
    snprintf(folder, sizeof folder, "/tmp/posenc_lm_eval_%ld", (long)getpid());
    if (!kit_make_folder(folder, &why) || !make_models()) return 1;
    RUN_TEST(every_target_counts_once);
    RUN_TESTp(perplexity_is_that_of_the_logits, 16);
    RUN_TESTp(perplexity_is_that_of_the_logits, 7);
    RUN_TESTp(perplexity_is_that_of_the_logits, 32);
    RUN_TEST(one_window_is_the_loss_of_the_library);
    RUN_TEST(what_cannot_be_measured_says_why);
    RUN_TEST(lengths_are_multiples_and_numbers);
    RUN_TEST(documents_begin_with_byte_0);
    RUN_TEST(bad_texts_are_refused_with_their_line);
    RUN_TESTp(answers_are_those_of_full_forwards, "plain.safetensors");
    RUN_TESTp(answers_are_those_of_full_forwards, "learned.safetensors");
    RUN_TEST(an_answer_is_right_to_the_byte_and_ends);
    RUN_TEST(right_and_wrong_are_told_apart);
    RUN_TEST(the_end_is_not_asked_for_beyond_the_training_length);
    RUN_TEST(intervals_are_wilsons);
    RUN_TEST(a_code_lies_at_its_depth);
    RUN_TEST(keys_have_their_names);
    RUN_TEST(letters_come_whole);
    RUN_TEST(what_is_no_letter_is_shown_as_a_sign);
    RUN_TEST(no_bytes_make_what_is_no_text);
    RUN_TEST(eval_leaves_numbers_and_a_report);
    RUN_TEST(eval_says_what_it_cannot);
    RUN_TEST(generate_goes_on_and_stops);
    RUN_TESTp(compare_measures_each_and_goes_on, argv[0]);
    RUN_TEST(means_leave_out_what_is_missing);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command) != 0) return 1;
    GREATEST_MAIN_END();
}
