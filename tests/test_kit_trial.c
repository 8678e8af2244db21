/* Text to learn from, training that goes on where it was killed, trials whose numbers are kept, and the
   same model asked for longer texts.                                                             */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "kit/trial.h"
#include <sys/wait.h>

static char folder[KIT_PATH];
static kit_error why;

/* ---- text ------------------------------------------------------------------------------------ */

static uint64_t sum_of(const kit_text *t, size_t n)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) sum = (sum ^ (unsigned char)t->data[i]) * 1099511628211u;
    return sum;
}

TEST sentences_are_the_same_on_every_machine(void)
{
    kit_text one = { NULL, 0, 0 }, longer = { NULL, 0, 0 }, other = { NULL, 0, 0 };
    kit_sentences(&one, 4096, 1);
    kit_sentences(&longer, 100000, 1);
    kit_sentences(&other, 4096, 2);
    ASSERT(one.size >= 4096 && longer.size >= 100000);
    ASSERT_EQ(memcmp(one.data, longer.data, one.size), 0);
    ASSERT(memcmp(one.data, other.data, 1000) != 0);
    ASSERT_EQ_FMT(0x2fd38621ccfa944dULL, (unsigned long long)sum_of(&one, 4096), "%llx");
    for (size_t i = 0; i < longer.size; i++)
        ASSERT(longer.data[i] == '\n' || (longer.data[i] >= ' ' && longer.data[i] <= 'z'));
    kit_text_free(&one);
    kit_text_free(&longer);
    kit_text_free(&other);
    PASS();
}

/* A file that says 0 1 2 ... so that every byte tells where it stood. */
static int write_numbers(char path[KIT_PATH], const char *name, int lines)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < lines; i++) kit_put(&t, "%07d\n", i);
    int done = kit_join(path, folder, name, &why) && kit_save(path, &t, &why);
    kit_text_free(&t);
    return done;
}

TEST a_file_is_cut_in_two_and_nothing_is_lost(void)
{
    char path[KIT_PATH];
    kit_corpus c, again;
    ASSERT(write_numbers(path, "numbers.txt", 5000));
    ASSERT(kit_corpus_open(&c, path, "x", &why));
    ASSERT_EQ(c.train.size + c.held.size, (size_t)40000);
    ASSERT_EQ(c.held.size, (size_t)2000);
    ASSERT_EQ(memcmp(c.held.data, "0004750\n", 8), 0);
    ASSERT_EQ(memcmp(c.train.data + c.train.size - 8, "0004749\n", 8), 0);
    ASSERT_EQ(c.own, 0);
    ASSERT(write_numbers(path, "numbers.txt", 5001) && kit_corpus_open(&again, path, "x", &why));
    ASSERT(again.sum != c.sum);
    kit_corpus_free(&c);
    kit_corpus_free(&again);
    PASS();
}

TEST a_text_too_short_or_missing_is_refused_in_a_sentence(void)
{
    char path[KIT_PATH];
    kit_corpus c;
    ASSERT(write_numbers(path, "short.txt", 100));
    ASSERT_EQ(kit_corpus_open(&c, path, "x", &why), 0);
    ASSERT(strstr(why.text, "800 bytes") != NULL);
    kit_corpus_free(&c);
    ASSERT_EQ(kit_corpus_open(&c, "/nowhere/at/all", "x", &why), 0);
    ASSERT(strstr(why.text, "/nowhere/at/all") != NULL);
    kit_corpus_free(&c);
    PASS();
}

TEST a_window_has_the_byte_that_follows_each(void)
{
    char bytes[] = "ab\xe9" "d";
    kit_text t = { bytes, 4, 0 };
    int tokens[3], targets[3];
    kit_corpus_window(tokens, targets, &t, 0, 3);
    ASSERT_EQ(tokens[0], 'a');
    ASSERT_EQ(tokens[2], 0xe9);
    ASSERT_EQ(targets[1], 0xe9);
    ASSERT_EQ(targets[2], 'd');
    PASS();
}

/* ---- a small model --------------------------------------------------------------------------- */

enum { T = 16, V = 256, STEPS = 60 };

static posenc_config small(const char *spec)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = spec;
    c.vocab = V;
    c.context = T;
    c.batch = 3;
    c.layers = 2;
    c.channels = 24;
    c.heads = 2;
    c.hidden = 32;
    c.causal = 1;
    c.dropout_branch = 0.1;                /* so that a resumed run must find its masks again     */
    c.threads = 1;
    c.seed = 5;
    return c;
}

static posenc_model *model_of(const char *spec)
{
    posenc_config c = small(spec);
    posenc_model *m = NULL;
    posenc_error said;
    posenc_model_create(&m, &c, &said);
    return m;
}

static kit_text numbers(int lines)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < lines; i++) kit_put(&t, "%07d\n", i * 7);
    return t;
}

/* ---- longer ---------------------------------------------------------------------------------- */

/* logits of the first `rows` places of one text of n tokens */
static int read_text(float *logits, posenc_model *m, int n, int rows)
{
    int tokens[2 * T];
    posenc_batch batch;
    for (int t = 0; t < n; t++) tokens[t] = (t * 37 + 11) % V;
    memset(&batch, 0, sizeof batch);
    batch.B = 1;
    batch.T = n;
    batch.tokens = tokens;
    return posenc_model_forward(m, &batch, NULL) == POSENC_OK
        && posenc_model_logits(m, logits, 0, rows, NULL) == POSENC_OK;
}

/* A causal model cannot know that more is to come: the first places of a longer text get the same
   answers, unless some default of the encoding moved with the context. Those that cannot go on say so. */
TEST a_longer_model_is_the_same_function(const char *name)
{
    static float here[T * V], there[T * V];
    posenc_model *m = model_of(name), *longer;
    ASSERT(m != NULL);
    ASSERT(kit_reaches(posenc_model_config(m), T, &why));
    ASSERT(read_text(here, m, T, T));
    longer = kit_longer(m, NULL, T, 1, &why);
    ASSERT(longer != NULL && read_text(there, longer, T, T));
    ASSERT_CLOSE(here, there, T * V, 1e-5);
    posenc_model_free(longer);
    if (kit_reaches(posenc_model_config(m), 2 * T, &why)) {
        longer = kit_longer(m, NULL, 2 * T, 1, &why);
        ASSERT(longer != NULL && read_text(there, longer, 2 * T, T));
        ASSERT_CLOSE(here, there, T * V, 1e-5);
        posenc_model_free(longer);
    } else ASSERT(strstr(why.text, name) != NULL);
    posenc_model_free(m);
    PASS();
}

TEST a_table_refuses_with_its_size(void)
{
    posenc_config c = small("learned");
    ASSERT(kit_reaches(&c, T, &why));
    ASSERT_EQ(kit_reaches(&c, T + 1, &why), 0);
    ASSERT(strstr(why.text, "16 rows") != NULL);
    PASS();
}

TEST weights_go_only_where_they_fit(void)
{
    posenc_model *m = model_of("none"), *other = model_of("t5");
    ASSERT_EQ(kit_copy_weights(m, other, &why), 0);
    ASSERT(strstr(why.text, "t5") != NULL);
    ASSERT_EQ(kit_copy_weights(other, m, &why), 0);          /* t5's own would stay as they are */
    ASSERT(strstr(why.text, "tensors") != NULL);
    ASSERT_EQ(kit_longer(m, "t5", T, 1, &why) == NULL, 1);
    posenc_model_free(m);
    posenc_model_free(other);
    PASS();
}

/* ---- bits per byte --------------------------------------------------------------------------- */

/* the same, one text at a time, from the logits */
static double bits_directly(posenc_model *m, const kit_text *text, int first, int stride, int texts)
{
    static float logits[T * V];
    double sum = 0;
    for (int i = 0; i < texts; i++) {
        int tokens[T], targets[T];
        posenc_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.B = 1;
        batch.T = T;
        batch.tokens = tokens;
        kit_corpus_window(tokens, targets, text, (size_t)(i * stride), T);
        posenc_model_forward(m, &batch, NULL);
        posenc_model_logits(m, logits, 0, T, NULL);
        for (int t = first; t < T; t++) {
            double all = 0;
            for (int v = 0; v < V; v++) all += exp((double)logits[t * V + v]);
            sum += log2(all) - (double)logits[t * V + targets[t]] / log(2);
        }
    }
    return sum / (texts * (T - first));
}

/* 7 texts in batches of 3: the last batch is a short one */
TEST bits_per_byte_are_those_of_the_logits(int first, int stride)
{
    posenc_model *m = model_of("rope");
    kit_text text = numbers(100);
    double bits = NAN;
    ASSERT(kit_bits_per_byte(&bits, m, &text, T, first, stride, 7 * (T - first), &why));
    ASSERT_IN_RANGE(bits_directly(m, &text, first, stride, 7), bits, 1e-5);
    ASSERT_EQ(kit_bits_per_byte(&bits, m, &text, T, first, stride, 1000000, &why), 0);
    ASSERT(strstr(why.text, "800 bytes") != NULL);
    kit_text_free(&text);
    posenc_model_free(m);
    PASS();
}

/* ---- training that is stopped ------------------------------------------------------------------ */

/* What a step reads is a function of its number. At step `stop` somebody presses Ctrl-C; at step `kill`
   the power fails. */
typedef struct lesson { int tokens[3 * T], targets[3 * T], stop, kill; kit_text text; } lesson;

static void fill(void *user, posenc_batch *batch, int step)
{
    lesson *l = (lesson *)user;
    if (step == l->kill) raise(SIGKILL);
    if (step == l->stop) kit__stop = 1;
    for (int b = 0; b < 3; b++)
        kit_corpus_window(l->tokens + b * T, l->targets + b * T, &l->text, (size_t)(step * 11 + b * 100), T);
    batch->B = 3;
    batch->T = T;
    batch->tokens = l->tokens;
    batch->targets = l->targets;
}

static int train(const char *name, const char *settings, int stop, int kill)
{
    kit_progress bar = kit_progress_begin("x", STEPS, 0, 1);
    lesson l = { { 0 }, { 0 }, stop, kill, { NULL, 0, 0 } };
    char path[KIT_PATH];
    kit_training t;
    memset(&t, 0, sizeof t);
    kit_join(path, folder, name, &why);
    l.text = numbers(500);
    t.model = model_of("learned");
    t.schedule.peak = 1e-2;
    t.steps = STEPS;
    t.fill = fill;
    t.user = &l;
    t.settings = settings;
    t.path = path;
    t.resume = 1;
    kit__stop = 0;
    int code = kit_train(&t, &bar, 0, "x", &why);
    kit__stop = 0;
    if (code == DONE && t.points != KIT_TRAIN_POINTS) code = -1;
    for (int i = 0; i < t.points; i++)
        if (!(t.loss[i] > 0 && t.loss[i] < 7)) code = -1;    /* means, not sums: ln 256 is 5.5 */
    posenc_model_free(t.model);
    kit_text_free(&l.text);
    return code;
}

static int same_bytes(const char *a, const char *b)
{
    kit_text one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
    char path[KIT_PATH];
    int read = kit_join(path, folder, a, &why) && kit_read_file(&one, path, 1 << 24, &why)
            && kit_join(path, folder, b, &why) && kit_read_file(&two, path, 1 << 24, &why);
    int same = read && one.size > 1000 && one.size == two.size && memcmp(one.data, two.data, one.size) == 0;
    kit_text_free(&one);
    kit_text_free(&two);
    return same;
}

/* The killed one runs in a process of its own; it has saved nothing since step 24. */
TEST what_was_killed_ends_in_the_same_bytes(void)
{
    int status = 0;
    ASSERT_EQ(train("whole.safetensors", "run: --a 1", -1, -1), DONE);
    ASSERT_EQ(train("half.safetensors", "run: --a 1", 23, -1), STOPPED);
    ASSERT(!same_bytes("whole.safetensors", "half.safetensors"));
    pid_t child = fork();
    if (child == 0) _exit(train("half.safetensors", "run: --a 1", -1, 40));
    ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ASSERT_EQ(train("half.safetensors", "run: --a 1", -1, -1), DONE);
    ASSERT(same_bytes("whole.safetensors", "half.safetensors"));
    PASS();
}

TEST two_experiments_are_not_mixed(void)
{
    ASSERT_EQ(train("mixed.safetensors", "run: --a 1 --b 2", 23, -1), STOPPED);
    ASSERT_EQ(train("mixed.safetensors", "run: --a 1 --b 3", -1, -1), FAILED);
    ASSERT(strstr(why.text, "--b 2") != NULL && strstr(why.text, "--b 3") != NULL);
    PASS();
}

/* ---- numbers that are kept --------------------------------------------------------------------- */

TEST numbers_come_back_as_they_were(void)
{
    double put[4] = { 0.1, NAN, -1e-300, 5 }, got[4] = { 0 };
    kit_trial t = { "kept", "run: --a 1", put, 4 };
    kit_lab lab;
    memset(&lab, 0, sizeof lab);
    lab.out = folder;
    lab.resume = 1;
    ASSERT(kit_trial_clear(&t, &lab, &why));                 /* makes the folder */
    ASSERT_EQ(kit_trial_read(&t, &lab, &why), 0);
    ASSERT(kit_trial_save(&t, &lab, &why));
    t.value = got;
    ASSERT_EQ(kit_trial_read(&t, &lab, &why), 1);
    ASSERT(got[0] == put[0] && got[1] != got[1] && got[2] == put[2] && got[3] == put[3]);
    t.settings = "run: --a 2";
    ASSERT_EQ(kit_trial_read(&t, &lab, &why), -1);
    ASSERT(strstr(why.text, "--a 1") != NULL);
    t.settings = "run: --a 1";
    t.n = 5;
    ASSERT_EQ(kit_trial_read(&t, &lab, &why), -1);
    lab.resume = 0;
    t.n = 4;
    ASSERT_EQ(kit_trial_read(&t, &lab, &why), 0);            /* there, but not asked for */
    ASSERT(kit_trial_clear(&t, &lab, &why));
    lab.resume = 1;
    ASSERT_EQ(kit_trial_read(&t, &lab, &why), 0);            /* not there any more */
    PASS();
}

/* ---------------------------------------------------------------------------------------------- */

/* encodings of a line of text; those of grids and pictures have no longer text to go to */
static int is_for_text(int i)
{
    posenc_config c = small(posenc_encoding_get(i)->name);
    posenc_bytes bytes;
    return posenc_model_bytes(&bytes, &c, NULL) == POSENC_OK && kit_reaches(&c, T, &why);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    char command[64];
    GREATEST_MAIN_BEGIN();
    snprintf(folder, sizeof folder, "/tmp/posenc_kit_trial_%ld", (long)getpid());
    if (!kit_make_folders(folder, &why)) return 1;
    RUN_TEST(sentences_are_the_same_on_every_machine);
    RUN_TEST(a_file_is_cut_in_two_and_nothing_is_lost);
    RUN_TEST(a_text_too_short_or_missing_is_refused_in_a_sentence);
    RUN_TEST(a_window_has_the_byte_that_follows_each);
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
        if (!is_for_text(i)) continue;
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(a_longer_model_is_the_same_function, posenc_encoding_get(i)->name);
    }
    RUN_TEST(a_table_refuses_with_its_size);
    RUN_TEST(weights_go_only_where_they_fit);
    RUN_TESTp(bits_per_byte_are_those_of_the_logits, 0, T);
    RUN_TESTp(bits_per_byte_are_those_of_the_logits, T - 4, 4);
    RUN_TEST(what_was_killed_ends_in_the_same_bytes);
    RUN_TEST(two_experiments_are_not_mixed);
    RUN_TEST(numbers_come_back_as_they_were);
    snprintf(command, sizeof command, "rm -r /tmp/posenc_kit_trial_%ld", (long)getpid());
    if (system(command) != 0) return 1;
    GREATEST_MAIN_END();
}
