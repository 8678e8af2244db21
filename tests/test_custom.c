/* Encodings of the caller's own, by callback, in a model: they train, their gradients are right,
   they are saved and loaded, they agree with the table's own where they say the same, and a struct
   that cannot be is refused with a sentence. In double, so that finite differences are sharp.    */
#define _DEFAULT_SOURCE
#define POSENC_DOUBLE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "check.h"
#include "models.h"

enum { VOCAB = 11, CONTEXT = 12, CHANNELS = 16, HEADS = 4, WIDTH = CHANNELS / HEADS };

/* ---- four encodings -------------------------------------------------------------------------- */

static int calls;                                       /* of any callback with a user pointer    */

/* a free vector for each position, as learned */
static void table_row(void *user, posenc_float *row, double p, int C, const posenc_float *w)
{
    (void)user;
    for (int c = 0; c < C; c++) row[c] += w[(int)p * C + c];
}
static void table_back(void *user, posenc_float *dw, const posenc_float *drow, double p, int C,
                       const posenc_float *w)
{
    (void)user; (void)w;
    for (int c = 0; c < C; c++) dw[(int)p * C + c] += drow[c];
}

/* two numbers per channel, a wave of the position: a sin(b p); starts at 0.5 and 1/(1 + c) */
static void wave_start(void *user, posenc_float *w)
{
    ++*(int *)user;
    for (int c = 0; c < CHANNELS; c++) { w[2 * c] = 0.5; w[2 * c + 1] = 1.0 / (1 + c); }
}
static void wave_row(void *user, posenc_float *row, double p, int C, const posenc_float *w)
{
    ++*(int *)user;
    for (int c = 0; c < C; c++) row[c] += w[2 * c] * sin(w[2 * c + 1] * p);
}
static void wave_back(void *user, posenc_float *dw, const posenc_float *drow, double p, int C,
                      const posenc_float *w)
{
    ++*(int *)user;
    for (int c = 0; c < C; c++) {
        dw[2 * c]     += drow[c] * sin(w[2 * c + 1] * p);
        dw[2 * c + 1] += drow[c] * w[2 * c] * p * cos(w[2 * c + 1] * p);
    }
}

/* a parabola of the distance for each head, not the same on both sides: u d + v d^2 */
static void bend_start(void *user, posenc_float *w)
{
    (void)user;
    for (int h = 0; h < HEADS; h++) { w[2 * h] = 0.1 * (h - 1); w[2 * h + 1] = -0.02 * (h + 1); }
}
static double bend(void *user, int h, int H, int d, const posenc_float *w)
{
    (void)user; (void)H;
    return w[2 * h] * d + w[2 * h + 1] * d * d;
}
static void bend_back(void *user, posenc_float *dw, double dbias, int h, int H, int d,
                      const posenc_float *w)
{
    (void)user; (void)H; (void)w;
    dw[2 * h]     += dbias * d;
    dw[2 * h + 1] += dbias * d * d;
}

/* what the table has already, in our own words */
static double my_alibi(void *user, int h, int H, int d, const posenc_float *w)
{
    (void)w;
    ++*(int *)user;
    return -pow(2.0, -8.0 * (h + 1) / H) * fabs((double)d);
}
static double my_double(void *user, int h, int H, int d, const posenc_float *w)
{
    return 2.0 * my_alibi(user, h, H, d, w);
}
static double my_frequency(void *user, int i, int pairs)
{
    return pow(*(double *)user, -(double)i / pairs);
}
/* a row that learns nothing: the position in the first channel */
static void my_number(void *user, posenc_float *row, double p, int C, const posenc_float *w)
{
    (void)user; (void)C; (void)w;
    row[0] += 0.25 * p;
}

static double base = 10000.0;
static const posenc_custom own[] = {
    { .name = "table", .parameters = CONTEXT * CHANNELS, .row = table_row,
      .row_backward = table_back },
    { .name = "wave", .user = &calls, .parameters = 2 * CHANNELS, .start = wave_start,
      .row = wave_row, .row_backward = wave_back },
    { .name = "bend", .parameters = 2 * HEADS, .start = bend_start, .bias = bend,
      .bias_backward = bend_back },
    { .name = "my_alibi", .user = &calls, .bias = my_alibi },
    { .name = "my_double", .user = &calls, .bias = my_double },
    { .name = "my_turn", .user = &base, .frequency = my_frequency },
    { .name = "my_number", .row = my_number },
};
enum { OWN = sizeof own / sizeof *own };

/* ---- models with them ------------------------------------------------------------------------ */

static posenc_model *model, *other;

static void give_back(void *unused)
{
    (void)unused;
    posenc_model_free(model);
    posenc_model_free(other);
    model = other = NULL;
}

static const char *causal =
    "vocab=11 context=12 batch=3 channels=16 heads=4 hidden=24 causal=1 seed=5";
static const char *classifier =
    "vocab=11 context=12 batch=3 classes=4 channels=16 heads=4 hidden=24 mask_padding=1 seed=5";
static const char *grouped =
    "vocab=11 context=12 batch=3 channels=16 heads=4 kv_heads=2 hidden=24 causal=1 norm=rmsnorm"
    " seed=5";

static posenc_error why;
static posenc_status make(posenc_model **m, const char *text, const char *encoding,
                          const posenc_custom *list, int count)
{
    static char spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_status status;
    memset(&c, 0, sizeof c);
    why.text[0] = 0;
    status = posenc_config_parse(&c, spec, text, &why);
    c.encoding = encoding;
    c.custom = list;
    c.customs = count;
    c.threads = 1;
    return status != POSENC_OK ? status : posenc_model_create(m, &c, &why);
}

/* 1 when the model was made; otherwise the reason is in check_text */
static int made(posenc_model **m, const char *text, const char *encoding)
{
    if (make(m, text, encoding, own, OWN) == POSENC_OK) return 1;
    snprintf(check_text, sizeof check_text, "%.60s: %.300s", encoding, why.text);
    return 0;
}

static int logits_of(posenc_float *logits, posenc_model *m, const posenc_batch *batch)
{
    int rows = posenc_model_config(m)->classes ? batch->B : batch->B * batch->T;
    if (posenc_model_forward(m, batch, &why) == POSENC_OK
        && posenc_model_logits(m, logits, 0, rows, &why) == POSENC_OK) return 1;
    snprintf(check_text, sizeof check_text, "%.300s", why.text);
    return 0;
}

enum { B = 3, T = 9, LOGITS = B * T * VOCAB };

/* ---- the same in other words ----------------------------------------------------------------- */

/* pairs of specs that say the same; positions: given or not */
TEST gives_the_logits_of(const char *mine, const char *theirs, const char *text, int positions)
{
    posenc_float a[LOGITS], b[LOGITS], none[LOGITS];
    size_t n;
    data d;
    ASSERTm(check_text, made(&model, text, mine) && made(&other, text, theirs));
    fill_data(&d, model, B, T, 2);
    if (positions) add_positions(&d);
    n = (size_t)B * (posenc_model_config(model)->classes ? 4 : T * VOCAB);
    ASSERTm(check_text, logits_of(a, model, &d.batch) && logits_of(b, other, &d.batch));
    ASSERT_CLOSE(b, a, n, 1e-12);
    posenc_model_free(other);
    ASSERTm(check_text, made(&other, text, "none") && logits_of(none, other, &d.batch));
    ASSERT_GT(max_abs_diff(none, a, n), 1e-6);                          /* it does something      */
    PASS();
}

/* the same weights in `learned` and in a table of ours: same logits, same gradient of the table */
TEST own_table_is_learned(int positions)
{
    posenc_float table[CONTEXT * CHANNELS], a[LOGITS], b[LOGITS];
    posenc_float da[CONTEXT * CHANNELS], db[CONTEXT * CHANNELS];
    posenc_tensor *mine, *theirs;
    double loss[2];
    data d;
    ASSERTm(check_text, made(&model, causal, "table") && made(&other, causal, "learned"));
    mine = posenc_model_find(model, "pe.table.weight");
    theirs = posenc_model_find(other, "pe.learned.weight");
    ASSERT(mine && theirs);
    ASSERT_EQ(mine->count, theirs->count);
    posenc_model_get(model, table, mine->data, mine->count);
    for (size_t i = 0; i < mine->count; i++) ASSERT_EQ(0.0, table[i]);  /* no start: zeros        */
    fill_random(table, mine->count);
    posenc_model_set(model, mine->data, table, mine->count);
    posenc_model_set(other, theirs->data, table, mine->count);
    fill_data(&d, model, B, T, 2);
    if (positions) add_positions(&d);
    ASSERTm(check_text, logits_of(a, model, &d.batch) && logits_of(b, other, &d.batch));
    ASSERT_CLOSE(b, a, LOGITS, 1e-12);
    ASSERT_EQ(POSENC_OK, posenc_model_train(model, &d.batch, &loss[0], &why));
    ASSERT_EQ(POSENC_OK, posenc_model_train(other, &d.batch, &loss[1], &why));
    posenc_model_get(model, da, mine->grad, mine->count);
    posenc_model_get(other, db, theirs->grad, mine->count);
    ASSERT_NORM_CLOSE(db, da, mine->count, 1e-10);
    PASS();
}

/* ---- gradients ------------------------------------------------------------------------------- */

static struct run { posenc_model *m; data d; posenc_tensor *t; posenc_float *host; } run;

static double model_loss(void *ctx)
{
    struct run *r = (struct run *)ctx;
    double loss = NAN;
    posenc_model_set(r->m, r->t->data, r->host, r->t->count);
    if (posenc_model_loss(r->m, &r->d.batch, &loss, &why) != POSENC_OK) return NAN;
    return loss;
}

/* every parameter of ours in a model of this spec */
TEST gradients_match_finite_differences(const char *encoding, const char *text, int positions)
{
    static posenc_float host[512], grad[512];
    int checked = 0;
    double loss;
    ASSERTm(check_text, made(&model, text, encoding));
    memset(&run, 0, sizeof run);
    run.m = model;
    fill_data(&run.d, model, B, T, 3);
    if (positions) add_positions(&run.d);
    ASSERTm(why.text, posenc_model_train(model, &run.d.batch, &loss, &why) == POSENC_OK);
    for (int i = 0; i < posenc_model_parameters(model); i++) {
        posenc_tensor *t = posenc_model_parameter(model, i);
        gradient_of list[1];
        if (strncmp(t->name, "pe.", 3)) continue;
        ASSERT_LTE(t->count, (size_t)512);
        run.t = t;
        run.host = host;
        posenc_model_get(model, host, t->data, t->count);
        posenc_model_get(model, grad, t->grad, t->count);
        list[0] = (gradient_of){ t->name, host, grad, t->count };
        ASSERT_GRADIENT(model_loss, &run, list, 1, 0);
        posenc_model_set(model, t->data, host, t->count);
        checked++;
    }
    ASSERT_GTE(checked, 1);
    PASS();
}

/* two batches accumulate: the gradients add */
TEST gradients_add_up(void)
{
    posenc_float once[2 * CHANNELS], twice[2 * CHANNELS];
    posenc_tensor *t;
    double loss;
    data d;
    ASSERTm(check_text, made(&model, causal, "wave"));
    t = posenc_model_find(model, "pe.wave.weight");
    ASSERT(t != NULL);
    fill_data(&d, model, B, T, 3);
    ASSERT_EQ(POSENC_OK, posenc_model_train(model, &d.batch, &loss, &why));
    posenc_model_get(model, once, t->grad, t->count);
    ASSERT_EQ(POSENC_OK, posenc_model_train(model, &d.batch, &loss, &why));
    posenc_model_get(model, twice, t->grad, t->count);
    for (size_t i = 0; i < t->count; i++) once[i] *= 2;
    ASSERT_NORM_CLOSE(once, twice, t->count, 1e-12);
    PASS();
}

/* ---- training -------------------------------------------------------------------------------- */

/* copy of a tensor's numbers; they must fit */
static size_t numbers_of(posenc_float *to, posenc_model *m, const char *name)
{
    const posenc_tensor *t = posenc_model_find(m, name);
    if (!t || t->count > 512) return 0;
    posenc_model_get(m, to, t->data, t->count);
    return t->count;
}

/* one batch by heart: the loss falls, what is ours moves, what is frozen does not */
TEST model_learns_with(const char *encoding, const char *text, const char *tensor)
{
    posenc_float before[512], after[512];
    posenc_optimizer o;
    double first = 0, loss = 0;
    size_t n;
    data d;
    memset(&o, 0, sizeof o);
    ASSERTm(check_text, made(&model, text, encoding));
    fill_data(&d, model, B, T, 4);
    n = tensor ? numbers_of(before, model, tensor) : 0;
    ASSERT(!tensor || n > 0);
    for (int pass = 0; pass < 2; pass++) {
        if (tensor && pass) {
            posenc_model_find(model, tensor)->frozen = 1;
            memcpy(before, after, n * sizeof *before);
        }
        for (int step = 0; step < (pass ? 3 : 40); step++) {
            ASSERTm(why.text, posenc_model_train(model, &d.batch, &loss, &why) == POSENC_OK);
            if (step == 0 && !pass) first = loss;
            ASSERTm(why.text, posenc_model_update(model, &o, 1e-2, NULL, &why) == POSENC_OK);
        }
        if (!pass) ASSERT_LT(loss, 0.5 * first);
        if (!tensor) PASS();
        numbers_of(after, model, tensor);
        if (pass) ASSERT_MEM_EQ(before, after, n * sizeof *before);
        else for (size_t i = 0; i < n; i++) ASSERT(fabs(after[i]) <= 1e3 && isfinite(after[i]));
        if (!pass) ASSERT_GT(max_abs_diff(before, after, n), 1e-3);
    }
    PASS();
}

/* user reaches the callbacks; start is called once, row not more often than once for each token */
TEST callbacks_are_called_with_their_user(void)
{
    posenc_float logits[LOGITS], w[512];
    data d;
    calls = 0;
    ASSERTm(check_text, made(&model, causal, "wave"));
    ASSERT_EQ(1, calls);
    ASSERT_EQ((size_t)2 * CHANNELS, numbers_of(w, model, "pe.wave.weight"));
    for (int c = 0; c < CHANNELS; c++) {
        ASSERT_EQ(0.5, w[2 * c]);
        ASSERT_EQ(1.0 / (1 + c), w[2 * c + 1]);
    }
    fill_data(&d, model, B, T, 4);
    calls = 0;
    ASSERTm(check_text, logits_of(logits, model, &d.batch));
    ASSERT(calls >= T && calls <= B * T);
    PASS();
}

/* several at once: each does its own part, with one of the table's among them */
TEST several_act_together(void)
{
    posenc_float all[LOGITS], less[LOGITS];
    static const char *fewer[] = { "bend+my_turn+alibi", "wave+my_turn+alibi", "wave+bend+alibi",
                                   "wave+bend+my_turn" };
    data d;
    ASSERTm(check_text, made(&model, causal, "wave+bend+my_turn+alibi"));
    ASSERT(posenc_model_find(model, "pe.wave.weight") != NULL);
    ASSERT(posenc_model_find(model, "pe.bend.weight") != NULL);
    fill_data(&d, model, B, T, 4);
    ASSERTm(check_text, logits_of(all, model, &d.batch));
    for (int i = 0; i < 4; i++) {
        ASSERTm(check_text, made(&other, causal, fewer[i]) && logits_of(less, other, &d.batch));
        ASSERTm(fewer[i], max_abs_diff(all, less, LOGITS) > 1e-5);
        posenc_model_free(other);
        other = NULL;
    }
    PASS();
}

/* ours and theirs on the same scores, or twice as much of one */
TEST two_biases_add_up(void)
{
    posenc_float a[LOGITS], b[LOGITS];
    data d;
    ASSERTm(check_text, made(&model, causal, "my_alibi+alibi"));
    ASSERTm(check_text, made(&other, causal, "my_double"));
    fill_data(&d, model, B, T, 4);
    ASSERTm(check_text, logits_of(a, model, &d.batch) && logits_of(b, other, &d.batch));
    ASSERT_CLOSE(a, b, LOGITS, 1e-12);
    PASS();
}

/* ---- positions ------------------------------------------------------------------------------- */

TEST rows_take_any_position_and_biases_whole_ones(void)
{
    posenc_float logits[LOGITS], moved[LOGITS];
    data d;
    ASSERTm(check_text, made(&model, causal, "wave"));
    fill_data(&d, model, B, T, 4);
    add_positions(&d);
    ASSERTm(check_text, logits_of(logits, model, &d.batch));
    d.positions[3] += 0.5;
    ASSERTm(check_text, logits_of(moved, model, &d.batch));
    ASSERT_GT(max_abs_diff(logits, moved, LOGITS), 1e-6);
    d.positions[3] = NAN;
    ASSERT_EQ_FMT((int)POSENC_BAD_INPUT, (int)posenc_model_forward(model, &d.batch, &why), "%d");

    ASSERTm(check_text, made(&other, causal, "bend"));
    add_positions(&d);
    ASSERTm(check_text, logits_of(logits, other, &d.batch));
    d.positions[3] += 0.5;
    ASSERT_EQ_FMT((int)POSENC_BAD_INPUT, (int)posenc_model_forward(other, &d.batch, &why), "%d");
    ASSERTm(check_text, mentions(why.text, "bend", NULL));
    PASS();
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST checkpoint_keeps_their_parameters(void)
{
    char path[256], spec[POSENC_SPEC_TEXT];
    posenc_float a[LOGITS], b[LOGITS];
    posenc_config c;
    posenc_status saved, status, without, with, loaded = POSENC_FILE;
    data d;
    ASSERTm(check_text, made(&model, causal, "wave+bend") && train_steps(model, 0, 5));
    temporary_path(path, sizeof path, "custom");
    saved = posenc_model_save(model, path, POSENC_WEIGHTS_AND_STATE, NULL, &why);
    ASSERTm(why.text, saved == POSENC_OK);
    memset(&c, 0, sizeof c);
    status = posenc_checkpoint_config(&c, spec, path, &why);
    c.threads = 1;
    without = posenc_model_create(&other, &c, NULL);             /* the file knows names only     */
    c.custom = own;
    c.customs = OWN;
    with = posenc_model_create(&other, &c, &why);
    if (with == POSENC_OK)
        loaded = posenc_model_load(other, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why);
    remove(path);
    ASSERT_EQ_FMT((int)POSENC_OK, (int)status, "%d");
    ASSERT_STR_EQ("wave+bend", spec);
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)without, "%d");
    ASSERTm(why.text, with == POSENC_OK && loaded == POSENC_OK);
    ASSERTm(check_text, same_state(model, other));
    fill_data(&d, model, B, T, 4);
    ASSERTm(check_text, logits_of(a, model, &d.batch) && logits_of(b, other, &d.batch));
    ASSERT_MEM_EQ(a, b, sizeof a);
    ASSERTm(check_text, train_steps(model, 5, 3) && train_steps(other, 5, 3));
    ASSERTm(check_text, same_state(model, other));
    PASS();
}

/* without gradients, without moments: the same logits */
TEST inference_model_has_them_too(void)
{
    char text[160];
    posenc_float a[LOGITS], b[LOGITS];
    data d;
    snprintf(text, sizeof text, "%s inference=1", causal);
    ASSERTm(check_text, made(&model, causal, "wave+bend+my_turn"));
    ASSERTm(check_text, made(&other, text, "wave+bend+my_turn"));
    fill_data(&d, model, B, T, 4);
    ASSERTm(check_text, logits_of(a, model, &d.batch) && logits_of(b, other, &d.batch));
    ASSERT_CLOSE(a, b, LOGITS, 1e-12);
    PASS();
}

/* ---- wrong use ------------------------------------------------------------------------------- */

TEST refused_with_a_sentence(const char *encoding, const posenc_custom *list, int count,
                             const char *words)
{
    char word[64];
    posenc_status status = make(&model, causal, encoding, list, count);
    ASSERTm("it was taken", status != POSENC_OK);
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)status, "%d");
    ASSERT(model == NULL);
    ASSERT_GT(strlen(why.text), 20);
    while (*words) {
        int n = (int)strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", n, words);
        ASSERTm(check_text, mentions(why.text, word, NULL));
        words += n + (words[n] == ' ');
    }
    PASS();
}

/* a name nobody has: all there are, ours behind the table's */
TEST unknown_name_lists_theirs_and_ours(void)
{
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)make(&model, causal, "wavy", own, OWN), "%d");
    ASSERTm(check_text, mentions(why.text, "'wavy'", NULL));
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++)
        ASSERTm(check_text, mentions(why.text, posenc_encoding_get(i)->name, NULL));
    for (int i = 0; i < OWN; i++) ASSERTm(check_text, mentions(why.text, own[i].name, NULL));
    ASSERT_EQ_FMT((int)POSENC_BAD_CONFIG, (int)make(&model, causal, "wave", NULL, 0), "%d");
    ASSERTm(check_text, mentions(why.text, "'wave'", "rope", NULL));
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(customs_in_a_model)
{
    static const char *trained[] = { "table", "wave", "bend", "wave+bend", "table+my_turn",
                                     "wave+bend+my_turn+alibi" };
    SET_TEARDOWN(give_back, NULL);
    for (int p = 0; p < 2; p++) {
        const char *at = p ? "positions" : "plain";
        label_test("alibi_causal_%s", at);
        RUN_TESTp(gives_the_logits_of, "my_alibi", "alibi", causal, p);
        label_test("alibi_classifier_%s", at);
        RUN_TESTp(gives_the_logits_of, "my_alibi", "alibi", classifier, p);
        label_test("alibi_grouped_%s", at);
        RUN_TESTp(gives_the_logits_of, "my_alibi", "alibi", grouped, p);
        label_test("rope_causal_%s", at);
        RUN_TESTp(gives_the_logits_of, "my_turn", "rope", causal, p);
        label_test("rope_grouped_%s", at);
        RUN_TESTp(gives_the_logits_of, "my_turn+my_alibi", "rope+alibi", grouped, p);
        label_test("integer_%s", at);                                   /* 0.25 p is p / 4        */
        RUN_TESTp(gives_the_logits_of, "my_number", "integer:length=4,spread=first", causal, p);
        label_test("%s", at); RUN_TESTp(own_table_is_learned, p);
        for (int i = 0; i < 6; i++) {
            label_test("%s_causal_%s", trained[i], at);
            RUN_TESTp(gradients_match_finite_differences, trained[i], causal, p);
            label_test("%s_classifier_%s", trained[i], at);
            RUN_TESTp(gradients_match_finite_differences, trained[i], classifier, p);
        }
    }
    label_test("bend_grouped"); RUN_TESTp(gradients_match_finite_differences, "bend", grouped, 0);
    RUN_TEST(gradients_add_up);
    label_test("table"); RUN_TESTp(model_learns_with, "table", causal, "pe.table.weight");
    label_test("wave");  RUN_TESTp(model_learns_with, "wave", classifier, "pe.wave.weight");
    label_test("bend");  RUN_TESTp(model_learns_with, "bend", causal, "pe.bend.weight");
    label_test("my_turn"); RUN_TESTp(model_learns_with, "my_turn", grouped, NULL);
    label_test("all");
    RUN_TESTp(model_learns_with, "wave+bend+my_turn+alibi", causal, "pe.bend.weight");
    RUN_TEST(callbacks_are_called_with_their_user);
    RUN_TEST(several_act_together);
    RUN_TEST(two_biases_add_up);
    RUN_TEST(rows_take_any_position_and_biases_whole_ones);
    RUN_TEST(checkpoint_keeps_their_parameters);
    RUN_TEST(inference_model_has_them_too);
}

SUITE(customs_that_cannot_be)
{
    static const posenc_custom bad[] = {
        { .row = my_number },
        { .name = "", .row = my_number },
        { .name = "a:b", .row = my_number },
        { .name = "a+b", .row = my_number },
        { .name = "a b", .row = my_number },
        { .name = "rope", .row = my_number },
        { .name = "mlp", .row = my_number },                    /* another name of continuous     */
        { .name = "idle" },
        { .name = "both", .row = my_number, .bias = my_alibi },
        { .name = "oneway", .parameters = 7, .row = wave_row },
        { .name = "oneway", .parameters = 7, .bias = bend, .row_backward = wave_back },
        { .name = "minus", .parameters = -1, .row = my_number },
        { .name = "spin", .parameters = 3, .frequency = my_frequency },
        { .name = "a_name_that_is_much_too_long_for_a_tensor_to_bear", .row = my_number },
        { .name = "quo\"te", .row = my_number },            /* would break a checkpoint's header  */
        { .name = "back\\slash", .row = my_number },
        { .name = "\xff\x01", .row = my_number },
    };
    static const char *words[] = { "name", "name", "name", "name", "name", "'rope'", "'mlp'",
                                   "idle 0 row frequency bias", "both 2", "oneway 7 backward",
                                   "oneway 7 backward", "minus -1", "spin 3", "name", "name", "name",
                                   "name" };
    static const posenc_custom twins[] = { { .name = "twin", .row = my_number },
                                           { .name = "twin", .bias = my_alibi, .user = &calls } };
    SET_TEARDOWN(give_back, NULL);
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        label_test("%d", i);
        RUN_TESTp(refused_with_a_sentence, "none", &bad[i], 1, words[i]);
    }
    label_test("twins");   RUN_TESTp(refused_with_a_sentence, "twin", twins, 2, "'twin'");
    label_test("two_turns");
    RUN_TESTp(refused_with_a_sentence, "rope+my_turn", own, OWN, "rope my_turn");
    label_test("with_a_key");
    RUN_TESTp(refused_with_a_sentence, "wave:base=3", own, OWN, "wave base");
    RUN_TEST(unknown_name_lists_theirs_and_ours);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(customs_in_a_model);
    RUN_SUITE(customs_that_cannot_be);
    GREATEST_MAIN_END();
}
