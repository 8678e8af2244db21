/* The marker demo: its sequences, what each kind of model may look at, and its checkpoints.      */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "marker/nets.h"

/* ---- data ------------------------------------------------------------------------------------ */

TEST sequence_follows_the_template(int a)
{
    int tokens[MARKER_LENGTH], targets[MARKER_LENGTH];
    const int head[8] = { 1, a, a + 1, a + 2, 2, a + 3, a + 4, 3 };
    marker_sequence(tokens, a);
    marker_targets(targets, tokens);
    for (int t = 0; t < 64; t++) ASSERT_EQ(tokens[t], t < 8 ? head[t] : 0);
    for (int t = 0; t < 63; t++) ASSERT_EQ(targets[t], tokens[t + 1]);
    ASSERT_EQ(targets[63], 1);                                         /* wraps round to START */
    PASS();
}

TEST first_value_is_uniform_in_10_to_80(void)
{
    enum { N = 71000 };
    int seen[100] = { 0 };
    marker_data d = marker_data_make(5, KIT_RANDOM_TRAIN, N);
    for (int i = 0; i < N; i++) {
        int a = d.tokens[i * 64 + 1];
        ASSERT(a >= 10 && a <= 80);
        ASSERT(d.tokens[i * 64 + 6] == a + 4 && d.targets[i * 64] == a);
        seen[a]++;
    }
    for (int a = 10; a <= 80; a++) ASSERT(seen[a] > 800 && seen[a] < 1200);      /* 1000 +- 32 */
    marker_data_free(&d);
    PASS();
}

/* Drawn independently, four to one: neither a copy of the other, and any item the same in a longer
   list.                                                                                          */
TEST split_is_four_to_one_and_reproducible(void)
{
    marker_data train, test, again, other;
    int same = 0;
    marker_data_split(&train, &test, 3, 1000);
    marker_data_split(&again, &other, 3, 500);
    ASSERT_EQ(train.count, 800);
    ASSERT_EQ(test.count, 200);
    ASSERT_EQ(memcmp(train.tokens, again.tokens, 400 * 64 * sizeof(int)), 0);
    ASSERT_EQ(memcmp(test.targets, other.targets, 100 * 64 * sizeof(int)), 0);
    for (int i = 0; i < 200; i++) same += train.tokens[i * 64 + 1] == test.tokens[i * 64 + 1];
    ASSERT(same < 20);                                                 /* 200/71 expected */
    marker_data_free(&train); marker_data_free(&test);
    marker_data_free(&again); marker_data_free(&other);
    PASS();
}

TEST floors_are_those_of_the_issue(void)
{
    ASSERT(fabs(marker_floor(1) - 0.0666) < 5e-5);
    ASSERT(fabs(marker_floor(2) - 0.1332) < 5e-5);
    PASS();
}

/* ---- who may look at what ----------------------------------------------------------------------
 */

enum { SAMPLES = 5 };

static net_plan plan_of(net_kind kind, const char *spec)
{
    net_plan p = { kind, spec, 2, 8, 16, 4, 32, 1, 0, 0, 9 };
    return p;
}

/* 1: the logits of sample i at position t change when token (j, u) does */
static int depends(net *n, marker_data *d, int i, int t, int j, int u)
{
    size_t all = SAMPLES * 64 * MARKER_VOCAB, at = (size_t)(i * 64 + t) * MARKER_VOCAB;
    float *before = (float *)malloc(all * sizeof *before),
          *after = (float *)malloc(all * sizeof *after);
    kit_error why;
    int *token = &d->tokens[j * 64 + u], kept = *token, changed = -1;
    if (net_logits(n, before, d->tokens, SAMPLES, &why)) {
        *token = 97;
        if (net_logits(n, after, d->tokens, SAMPLES, &why))
            changed = memcmp(before + at, after + at, MARKER_VOCAB * sizeof *after) != 0;
        *token = kept;
    }
    free(before);
    free(after);
    return changed;
}

TEST models_see_what_they_should(net_kind kind, const char *spec, int past, int future,
                                 int neighbour)
{
    marker_data d = marker_data_make(1, KIT_RANDOM_TEST, SAMPLES);
    net_plan p = plan_of(kind, spec);
    kit_error why;
    net n;
    ASSERTm(why.text, net_open(&n, &p, &why));
    ASSERT_EQ(depends(&n, &d, 2, 4, 2, 4), 1);                         /* its own token         */
    ASSERT_EQ(depends(&n, &d, 2, 4, 2, 1), past);
    ASSERT_EQ(depends(&n, &d, 2, 4, 2, 5), future);
    ASSERT_EQ(depends(&n, &d, 2, 4, 3, 4), neighbour);                 /* same position, another */
    ASSERT_EQ(depends(&n, &d, 2, 4, 3, 1), 0);                         /* elsewhere in another   */
    net_close(&n);
    marker_data_free(&d);
    PASS();
}

/* Positions are the sequence's, not the batch's: two zeros of one sequence get different answers.
 */
TEST across_the_batch_knows_the_position(const char *spec)
{
    marker_data d = marker_data_make(1, KIT_RANDOM_TEST, SAMPLES);
    float *logits = (float *)malloc(SAMPLES * 64 * MARKER_VOCAB * sizeof *logits);
    net_plan p = plan_of(NET_ACROSS, spec);
    kit_error why;
    net n;
    ASSERTm(why.text, net_open(&n, &p, &why) && net_logits(&n, logits, d.tokens, SAMPLES, &why));
    ASSERT(norm_diff(logits + 20 * MARKER_VOCAB, logits + 40 * MARKER_VOCAB, MARKER_VOCAB) > 1e-3);
    net_close(&n);
    marker_data_free(&d);
    free(logits);
    PASS();
}

TEST training_lowers_the_loss(net_kind kind, const char *spec)
{
    marker_data d = marker_data_make(1, KIT_RANDOM_TRAIN, SAMPLES);
    net_plan p = plan_of(kind, spec);
    double first = 0, loss = 0;
    kit_error why;
    net n;
    ASSERTm(why.text, net_open(&n, &p, &why));
    for (int step = 0; step < 60; step++) {
        ASSERTm(why.text, net_train(&n, d.tokens, d.targets, SAMPLES, 0, 1e-2, &loss, &why));
        if (step == 0) first = loss;
    }
    ASSERT_EQ(net_steps(&n), 60);
    ASSERT(loss < 0.5 * first);
    net_close(&n);
    marker_data_free(&d);
    PASS();
}

/* ---- the bare model's checkpoints
 * ---------------------------------------------------------------- */

static char path[512];                                     /* beside the program */
static const char *const text = "a \"note\"\nwith \\ and two lines\n";

static net trained(const char *spec, uint64_t seed)
{
    marker_data d = marker_data_make(1, KIT_RANDOM_TRAIN, SAMPLES);
    net_plan p = plan_of(NET_ROTARY, spec);
    kit_error why;
    double loss;
    net n;
    p.seed = seed;
    net_open(&n, &p, &why);
    for (int i = 0; i < 3; i++) net_train(&n, d.tokens, d.targets, SAMPLES, 0, 1e-2, &loss, &why);
    marker_data_free(&d);
    return n;
}

TEST checkpoint_comes_back_bit_for_bit(const char *spec)
{
    net a = trained(spec, 1), b = trained(spec, 2);
    size_t bytes = a.rotary->numbers * sizeof(float);
    char note[256];
    kit_error why;
    b.rotary->steps = 0;
    ASSERTm(why.text, net_save(&a, path, 1, text, &why));
    ASSERTm(why.text, net_load(&b, path, note, sizeof note, &why));
    ASSERT_STR_EQ(text, note);
    ASSERT_EQ(net_steps(&b), 3);
    ASSERT_EQ(memcmp(a.rotary->param, b.rotary->param, bytes), 0);
    ASSERT_EQ(memcmp(a.rotary->moment1, b.rotary->moment1, bytes), 0);
    ASSERT_EQ(memcmp(a.rotary->moment2, b.rotary->moment2, bytes), 0);
    net_close(&a); net_close(&b);
    remove(path);
    PASS();
}

/* Cut anywhere, longer than it should be, of another model, or with any byte of the header changed:
   refused, and the model stays as it was.                                                        */
TEST damaged_checkpoints_are_refused(void)
{
    net a = trained("lrope", 1), b = trained("lrope", 2), other = trained("rope", 1);
    size_t bytes = b.rotary->numbers * sizeof(float);
    float *kept = (float *)malloc(bytes);
    kit_text whole = { NULL, 0, 0 };
    kit_error why;
    char note[256];
    int refused = 0, tried = 0;
    memcpy(kept, b.rotary->param, bytes);
    ASSERT(net_save(&a, path, 1, "note", &why) && rotary__read_file(&whole, path, 1u << 30, &why));
    for (size_t cut = 0; cut < whole.size; cut += cut < 4096 ? 61 : 9973, tried++) {
        ASSERT(kit_save_bytes(path, whole.data, cut, &why));
        refused += !net_load(&b, path, note, sizeof note, &why);
    }
    for (size_t at = 0; at < 1500; at += 13, tried++) {
        if (at >= 8 + 48 && at < 8 + 70) { refused++; continue; }      /* the step and the note */
        whole.data[at] ^= 0x15;
        ASSERT(kit_save_bytes(path, whole.data, whole.size, &why));
        refused += !net_load(&b, path, note, sizeof note, &why);
        whole.data[at] ^= 0x15;
    }
    ASSERT_EQ(refused, tried);
    kit_put_bytes(&whole, "more", 4);
    ASSERT(kit_save(path, &whole, &why) && !net_load(&b, path, note, sizeof note, &why));
    ASSERT(net_save(&other, path, 1, "note", &why) && !net_load(&b, path, note, sizeof note, &why));
    ASSERT(net_save(&a, path, 0, "note", &why) && !net_load(&b, path, note, sizeof note, &why));
    ASSERT_EQ(memcmp(kept, b.rotary->param, bytes), 0);
    ASSERT_EQ(net_steps(&b), 3);
    net_close(&a); net_close(&b); net_close(&other);
    kit_text_free(&whole);
    free(kept);
    remove(path);
    PASS();
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    snprintf(path, sizeof path, "%.490s.safetensors", argv[0]);
    GREATEST_MAIN_BEGIN();
    RUN_TESTp(sequence_follows_the_template, 10);
    RUN_TESTp(sequence_follows_the_template, 80);
    RUN_TEST(first_value_is_uniform_in_10_to_80);
    RUN_TEST(split_is_four_to_one_and_reproducible);
    RUN_TEST(floors_are_those_of_the_issue);
    label_test("fair");
    RUN_TESTp(models_see_what_they_should, NET_FAIR, "learned", 1, 0, 0);
    label_test("across");
    RUN_TESTp(models_see_what_they_should, NET_ACROSS, "learned", 0, 0, 1);
    label_test("rotary");
    RUN_TESTp(models_see_what_they_should, NET_ROTARY, "rope", 1, 1, 0);
    RUN_TESTp(across_the_batch_knows_the_position, "learned");
    RUN_TESTp(across_the_batch_knows_the_position, "sinusoidal");
    RUN_TESTp(across_the_batch_knows_the_position, "sininit");
    RUN_TESTp(training_lowers_the_loss, NET_FAIR, "rope");
    RUN_TESTp(training_lowers_the_loss, NET_ACROSS, "sininit");
    RUN_TESTp(training_lowers_the_loss, NET_ROTARY, "lrope");
    RUN_TESTp(checkpoint_comes_back_bit_for_bit, "rope");
    RUN_TESTp(checkpoint_comes_back_bit_for_bit, "lrope");
    RUN_TEST(damaged_checkpoints_are_refused);
    GREATEST_MAIN_END();
}
