/* lm train: presets, config files, the arithmetic of budgets, and that a run which was cut into
   batches, stopped, killed or branched leaves what one that was left alone leaves.                 
         */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

/* whatever the program allocates goes through here */
static int allocations;
static void *counted_calloc(size_t n, size_t size) { allocations++; return calloc(n, size); }
#define calloc counted_calloc

#include "lm/peak.h"
#include "lm/source.h"

/* The peak is not what is tested; a sample of a certain number brings the signal asked for. */
#define lm_peak(precision) ((void)(precision), 1e9)
static int signal_of = 0;
static uint64_t signal_at;
static int sample_with_signal(const lm_source *s, int *tokens, int *targets, int T, uint64_t seed,
                              uint64_t i, kit_error *why)
{
    if (signal_of && i == signal_at) raise(signal_of);
    return lm_source_sample(s, tokens, targets, T, seed, i, why);
}
#define lm_source_sample sample_with_signal
#include "lm/train.h"

static char folder[KIT_PATH], text_path[KIT_PATH];
static kit_error why;

/* ---- calling the program --------------------------------------------------------------------- */

/* "train" and the words of a line, of a model that takes a fraction of a millisecond a step */
static int train(const char *line)
{
    static char words[4096];
    char *argv[96];
    int argc = 0;
    snprintf(words, sizeof words,
             "lm --channels 16 --layers 2 --heads 2 --context 16 --batch-size 8 --lr 0.01 "
             "--warmup-steps 4 --threads 1 --quiet --eval-tokens 512 --data %s %s", text_path,
             line);
    for (char *w = strtok(words, " "); w && argc < 95; w = strtok(NULL, " ")) argv[argc++] = w;
    argv[argc] = NULL;
    kit__stop = 0;
    fflush(stdout);
    return lm_train_main(argc, argv);
}

/* The same in a process of its own, which gets `number` when it asks for sample `at`. Returns the
   exit code, or minus the signal that ended it. */
static int train_until(int number, uint64_t at, const char *line)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal_of = number;
        signal_at = at;
        if (!freopen("/dev/null", "w", stderr)) _exit(99);
        _exit(train(line));
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return -1000;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* what a call says on stderr */
static const char *said_by(int want, const char *line)
{
    static char said[2048];
    char path[KIT_PATH];
    kit_text t = { NULL, 0, 0 };
    int kept = dup(2);
    snprintf(path, sizeof path, "%.900s/said", folder);
    if (!freopen(path, "w", stderr)) return "";
    int code = train(line);
    fflush(stderr);
    dup2(kept, 2);
    close(kept);
    if (!kit_read_file(&t, path, 4096, &why)) return "";
    snprintf(said, sizeof said, "%s%s", code == want ? "" : "(another exit code) ",
             t.data ? t.data : "");
    kit_text_free(&t);
    return said;
}

static const char *in_folder(const char *name)
{
    static char path[4][KIT_PATH];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, KIT_PATH, "%.500s/%.400s", folder, name);
    return p;
}

static int same_files(const char *one, const char *other)
{
    kit_text a = { NULL, 0, 0 }, b = { NULL, 0, 0 };
    int same = kit_read_file(&a, in_folder(one), 1 << 26, &why)
               && kit_read_file(&b, in_folder(other), 1 << 26, &why)
               && a.size == b.size && a.size > 1000 && memcmp(a.data, b.data, a.size) == 0;
    kit_text_free(&a);
    kit_text_free(&b);
    return same;
}

/* largest difference of two checkpoints' weights; NaN when one cannot be opened */
static double weights_apart(const char *one, const char *other)
{
    posenc_model *a = NULL, *b = NULL;
    lm_note n;
    double most = NAN;
    if (lm_model_open(&a, &n, in_folder(one), 0, 1, 1, &why)
        && lm_model_open(&b, &n, in_folder(other), 0, 1, 1, &why)) most = 0;
    for (int i = 0; most == most && i < posenc_model_parameters(a); i++) {
        const posenc_tensor *p = posenc_model_parameter(a, i), *q = posenc_model_parameter(b, i);
        for (size_t k = 0; k < p->count; k++)
            most = fmax(most, fabs((double)p->data[k] - q->data[k]));
    }
    posenc_model_free(a);
    posenc_model_free(b);
    return most;
}

/* ---- presets --------------------------------------------------------------------------------- */

TEST presets_have_the_published_numbers_of_parameters(void)
{
    static const double want[LM_SIZES] = { 467808, 4262400, 14259840, 58727680, 163598592,
                                           469815296, 1208029184 };
    for (int i = 0; i < LM_SIZES; i++) {
        posenc_config c = lm_size_config(lm_size_get(i), "rope");
        ASSERT_EQ_FMT(want[i], lm_parameters(&c), "%.0f");
    }
    posenc_config c = lm_size_config(lm_size_find("nano"), "rope");
    posenc_model *m;
    posenc_error said;
    ASSERT_EQ(posenc_model_create(&m, &c, &said), POSENC_OK);
    ASSERT_EQ((size_t)467808, posenc_model_numbers(m));
    posenc_model_free(m);
    ASSERT(lm_size_find("huge") == NULL);
    ASSERT(lm_size_get(LM_SIZES) == NULL && lm_size_get(-1) == NULL);
    PASS();
}

/* 6 N of the weights that multiply, and 6 L d (T + 1) of causal attention */
TEST a_token_costs_what_its_products_cost(void)
{
    posenc_config c = lm_size_config(lm_size_find("tiny"), "rope");
    double products = 6.0 * (6 * 16 * 512.0 * 512 + 512.0 * 65536);
    ASSERT_IN_RANGE(products + 6.0 * 6 * 512 * 1025, lm_flops_per_token(&c, 1024), 1.0);
    c.window = 1;                          /* each sees itself alone */
    ASSERT_IN_RANGE(products + 12.0 * 6 * 512, lm_flops_per_token(&c, 1024), 1.0);
    PASS();
}

static int recipe_of(lm_recipe *p, lm_settings *s, const char *line)
{
    static char words[1024];
    char *argv[64];
    kit_args a;
    int argc = 0;
    snprintf(words, sizeof words, "lm %s", line);
    for (char *w = strtok(words, " "); w && argc < 63; w = strtok(NULL, " ")) argv[argc++] = w;
    argv[argc] = NULL;
    memset(&a, 0, sizeof a);
    a.program = "lm train";
    return lm_settings_read(s, &a, argc, argv) && lm_recipe_make(p, &a, s);
}

TEST the_published_tables_come_out(void)
{
    static const char *const line[] = { "--size tiny", "--model-size small", "--size=medium",
                                        "--size large --pe-type none" };
    static const int64_t want[4][5] = {    /* steps, warm-up, decay, its start, checkpoints */
        { 36621, 1098, 3662, 32959, 1831 }, { 201416, 2000, 20141, 181275, 10070 },
        { 1147460, 2000, 114746, 1032714, 57373 }, { 5908203, 2000, 590820, 5317383, 295410 }
    };
    static const double rate[] = { 6e-4, 3e-4, 2e-4, 1e-4 };
    static const double scaled[] = { 6e-4, 3.6e-4, 2.13e-4, 1.33e-4 };
    lm_recipe *p = (lm_recipe *)kit_new(1, sizeof *p);
    lm_settings *s = (lm_settings *)kit_new(1, sizeof *s);
    for (int i = 0; i < 4; i++) {
        char more[128];
        ASSERT(recipe_of(p, s, line[i]));
        ASSERT_EQ_FMT(want[i][0], p->steps, "%" PRId64);
        ASSERT_EQ_FMT(want[i][1], p->warmup, "%" PRId64);
        ASSERT_EQ_FMT(want[i][2], lm_decay_steps(p, s->decay, p->budget), "%" PRId64);
        ASSERT_EQ_FMT(want[i][3], lm_decay_start(p, s->decay, p->budget), "%" PRId64);
        ASSERT_EQ_FMT((int)want[i][4], p->checkpoint, "%d");
        ASSERT_EQ_FMT(rate[i], p->schedule.peak, "%g");
        ASSERT(p->targets == 1 && p->target[0] == p->budget / 2);
        snprintf(more, sizeof more, "%s --rule scaled", line[i]);
        ASSERT(recipe_of(p, s, more));
        ASSERT_IN_RANGE(scaled[i], p->schedule.peak, 0.01 * scaled[i]);
        ASSERT_IN_RANGE(6e-4 / p->schedule.peak * 1000, (double)p->warmup, 0.6);
    }
    free(p);
    free(s);
    PASS();
}

/* the reference's own figures: half the peak half-way up and half-way down */
TEST the_rate_rises_stays_and_falls(void)
{
    lm_recipe *p = (lm_recipe *)kit_new(1, sizeof *p);
    lm_settings *s = (lm_settings *)kit_new(1, sizeof *s);
    lm_run r;
    memset(&r, 0, sizeof r);
    ASSERT(recipe_of(p, s, "--steps 100 --warmup-steps 10 --lr 1 --batch-size 1 --context 16"));
    r.set = s;
    r.recipe = p;
    lm_run_begin(&r);
    ASSERT_EQ_FMT(0.1, posenc_rate(&r.schedule, 0), "%g");
    ASSERT_EQ_FMT(0.5, posenc_rate(&r.schedule, 4), "%g");
    ASSERT_EQ_FMT(1.0, posenc_rate(&r.schedule, 10), "%g");
    ASSERT_EQ_FMT(1.0, posenc_rate(&r.schedule, 90), "%g");
    ASSERT_IN_RANGE(0.5, posenc_rate(&r.schedule, 95), 1e-12);
    ASSERT_IN_RANGE(0.1, posenc_rate(&r.schedule, 99), 1e-12);
    lm_run_schedule(&r, 50, 70);           /* a branch */
    ASSERT_EQ_FMT(1.0, posenc_rate(&r.schedule, 50), "%g");
    ASSERT_IN_RANGE(0.5, posenc_rate(&r.schedule, 60), 1e-12);
    ASSERT_EQ_FMT(0.0, posenc_rate(&r.schedule, 70), "%g");
    ASSERT(recipe_of(p, s, "--steps 100 --decay 0 --batch-size 1 --context 16"));
    lm_run_begin(&r);
    ASSERT_EQ_FMT(p->schedule.peak, posenc_rate(&r.schedule, 99), "%g");
    free(p);
    free(s);
    PASS();
}

TEST budgets_are_read_and_said(void)
{
    char text[24];
    ASSERT_EQ((uint64_t)2400000000u, lm_read_tokens("2.4B"));
    ASSERT_EQ((uint64_t)60000000, lm_read_tokens("60M"));
    ASSERT_EQ((uint64_t)1500000, lm_read_tokens("1500k"));
    ASSERT_EQ((uint64_t)4096, lm_read_tokens("4096"));
    static const char *const bad[] = { "", "-3", "0", "nan", "inf", "3x", "4MM", "1e30", "M" };
    for (int i = 0; i < 9; i++) ASSERT_EQ((uint64_t)0, lm_read_tokens(bad[i]));
    static const struct { uint64_t n; const char *says; } row[] = {
        { 6144000, "6.144M" }, { 2400000000u, "2.4B" }, { 9999, "9999" }, { 122880, "122.9K" },
        { 999999, "1M" }, { 48400000000u, "48.4B" }
    };
    for (int i = 0; i < 6; i++) {
        lm_say_tokens(text, sizeof text, row[i].n);
        ASSERT_STR_EQ(row[i].says, text);
    }
    PASS();
}

/* ---- notes ----------------------------------------------------------------------------------- */

TEST a_note_reads_back_and_a_damaged_one_is_refused(void)
{
    lm_note n, m;
    kit_text t = { NULL, 0, 0 };
    memset(&n, 0, sizeof n);
    strcpy(n.size, "nano");
    strcpy(n.data, "a \"quoted\" corpus");
    strcpy(n.vocabulary, "bytes");
    strcpy(n.stage, "decay");
    n.context = 128;
    n.step = n.samples = 7;
    n.tokens = UINT64_MAX;
    n.budget = 9;
    n.seed = 3;
    n.best = 1.25;
    lm_note_write(&t, &n, "\"unknown\":[1,2]");
    ASSERT(lm_note_read(&m, t.data, &why));
    ASSERT_EQ(memcmp(&n, &m, sizeof n), 0);
    n.best = INFINITY;
    t.size = 0;
    lm_note_write(&t, &n, NULL);
    ASSERT(strstr(t.data, "\"best\":null}") && lm_note_read(&m, t.data, &why) && isinf(m.best));
    static const char *const bad[] = { "", "{}", "{\"lm\":2}", "[1]", "{\"lm\":1,\"size\":3}" };
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(lm_note_read(&m, bad[i], &why), 0);
        ASSERT(strlen(why.text) > 10);
    }
    char *place = strstr(t.data, "nano");
    memcpy(place, "\\n\\n", 4);            /* other letters, the same length */
    ASSERT(lm_note_read(&m, t.data, &why));
    place = strstr(t.data, "\"context\":128");
    memcpy(place, "\"context\":-28", 13);
    ASSERT_EQ(lm_note_read(&m, t.data, &why), 0);
    kit_text_free(&t);
    PASS();
}

/* ---- config files ---------------------------------------------------------------------------- */

static int write_file(const char *name, const char *text)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, text);
    int done = kit_save(in_folder(name), &t, &why);
    kit_text_free(&t);
    return done;
}

static int recipe_from(lm_recipe *p, lm_settings *s, const char *text, const char *flags)
{
    char line[2 * KIT_PATH];
    snprintf(line, sizeof line, "--config %s %s", in_folder("c.yaml"), flags);
    return write_file("c.yaml", text) && recipe_of(p, s, line);
}

TEST a_config_is_read_and_flags_win(void)
{
    lm_recipe *p = (lm_recipe *)kit_new(1, sizeof *p);
    lm_settings *s = (lm_settings *)kit_new(1, sizeof *s);
    static const char text[] =
        "---\n# a comment\nsize: micro      # ours\npe: 'rope:base=500000'\r\n\n"
        "training:\n  learning_rate: 5e-4\n  tokens: 2M\n  target_budgets: [1M, \"2M\"]\n"
        "  deeper:\n    grad-accum-steps: 2\n    decay_tokens: null\nrecompute: true\n"
        "tensorboard: no\ndata: \"a # b\"\n";
    ASSERT(recipe_from(p, s, text, "--seed 7"));
    ASSERT_STR_EQ("micro", s->size);
    ASSERT_STR_EQ("rope:base=500000", p->pe);
    ASSERT_STR_EQ("a # b", s->data);
    ASSERT(p->schedule.peak == 5e-4 && p->budget == 2000000 && p->accum == 2 && s->seed == 7);
    ASSERT(p->targets == 2 && p->target[0] == 1000000 && p->target[1] == 2000000);
    ASSERT(s->recompute == 1 && s->tensorboard == 0 && s->decay_tokens == NULL);
    lm_settings_free(s);
    ASSERT(recipe_from(p, s, text, "--lr 1e-3 --size=nano --steps 50 --target-budgets=100000"));
    ASSERT(p->schedule.peak == 1e-3 && p->steps == 50 && p->targets == 1);
    ASSERT_STR_EQ("nano", s->size);
    lm_settings_free(s);
    ASSERT(recipe_from(p, s, "target_budgets:\n  - 100k\n  - 200k\ntokens: 1M\n", ""));
    ASSERT(p->targets == 2 && p->target[1] == 200000);
    lm_settings_free(s);
    free(p);
    free(s);
    PASS();
}

TEST a_config_that_is_wrong_is_refused_with_its_line(void)
{
    static const char *const row[][2] = {
        { "size: nano\nepohcs: 3\n", "line 2: there is no key" },
        { "lerning_rate: 3\n", "did you mean" },
        { "lr: 1e-3\nlearning_rate: 2e-3\n", "line 2: lr comes twice; line 1" },
        { "lr: many\n", "line 1: --lr takes a number" },
        { "size: huge\n", "line 1: --size is one of" },
        { "recompute: perhaps\n", "line 1: recompute is true or false" },
        { "just words\n", "line 1: expected 'key: value'" },
        { "- 3\n", "line 1: a list has to belong" },
        { "a{}: 3\n", "line 1: expected 'key: value'" },
        { "tokens: -4\n", "--tokens takes a number of tokens" }
    };
    for (int i = 0; i < 10; i++) {
        char line[KIT_PATH + 32];
        ASSERT(write_file("bad.yaml", row[i][0]));
        snprintf(line, sizeof line, "--config %s --dry-run", in_folder("bad.yaml"));
        const char *said = said_by(2, line);
        ASSERTm(said, strstr(said, row[i][1]) != NULL);
        ASSERTm(said, strchr(said, '\n') == said + strlen(said) - 1);
    }
    PASS();
}

TEST the_resolved_config_gives_the_same_run(void)
{
    lm_recipe *p = (lm_recipe *)kit_new(1, sizeof *p);
    lm_settings *s = (lm_settings *)kit_new(1, sizeof *s);
    kit_text one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
    ASSERT(recipe_of(p, s, "--size mini --pe rope:base=1e6+alibi --lr 3e-3 --layers 3 "
                           "--dropout 0.1 --target-budgets 8M,32M --grad-accum-steps 2 --decay 0.2 "
                           "--recompute"));
    lm_settings_print(&one, s, p);
    lm_settings_free(s);
    ASSERT(recipe_from(p, s, one.data, ""));
    lm_settings_print(&two, s, p);
    ASSERT_STR_EQ(one.data, two.data);
    lm_settings_free(s);
    kit_text_free(&one);
    kit_text_free(&two);
    free(p);
    free(s);
    PASS();
}

/* ---- a run is a function of its settings ----------------------------------------------------- */

static int train_in(const char *name, const char *line)
{
    char all[2048];
    snprintf(all, sizeof all, "--checkpoint-dir %s %s", in_folder(name), line);
    return train(all);
}

TEST cutting_an_update_into_batches_changes_nothing_that_counts(void)
{
    ASSERT_EQ(train_in("whole", "--steps 12 --dropout 0.1 --batch-size 8"), DONE);
    ASSERT_EQ(train_in("cut", "--steps 12 --dropout 0.1 --batch-size 2 --grad-accum-steps 4"),
              DONE);
    ASSERT_EQ(train_in("other", "--steps 12 --dropout 0.1 --batch-size 4"), DONE);
    ASSERT_IN_RANGE(0.0, weights_apart("whole/final.safetensors", "cut/final.safetensors"), 2e-4);
    ASSERT(weights_apart("whole/final.safetensors", "other/final.safetensors") > 1e-2);
    PASS();
}

TEST recomputed_activations_are_the_same(void)
{
    ASSERT_EQ(train_in("again_whole", "--steps 12 --dropout 0.1 --recompute"), DONE);
    ASSERT_EQ(0.0, weights_apart("whole/final.safetensors", "again_whole/final.safetensors"));
    PASS();
}

#define STRAIGHT "--steps 30 --dropout 0.1 --checkpoint-interval 15 --eval-interval 10 "          \
                 "--log-interval 4"

TEST a_killed_run_goes_on_to_the_same_bytes(void)
{
    char line[2048];
    ASSERT_EQ(train_in("straight", STRAIGHT), DONE);
    snprintf(line, sizeof line, "--checkpoint-dir %s " STRAIGHT, in_folder("killed"));
    ASSERT_EQ(train_until(SIGKILL, 8 * 22 + 3, line), -SIGKILL);
    ASSERT(kit_exists(in_folder("killed/step_15.safetensors")));
    ASSERT(!kit_exists(in_folder("killed/final.safetensors")));
    ASSERT_EQ(train_in("killed", STRAIGHT " --resume auto"), DONE);
    ASSERT(same_files("straight/final.safetensors", "killed/final.safetensors"));
    ASSERT(same_files("straight/best.safetensors", "killed/best.safetensors"));
    ASSERT(same_files("straight/step_15.safetensors", "killed/step_15.safetensors"));
    ASSERT_EQ(train_in("killed", STRAIGHT " --resume auto"), DONE);      /* nothing left to do */
    ASSERT(same_files("straight/final.safetensors", "killed/final.safetensors"));
    PASS();
}

TEST a_run_that_is_told_to_stop_saves_and_goes_on(void)
{
    char line[2048];
    snprintf(line, sizeof line, "--checkpoint-dir %s " STRAIGHT, in_folder("stopped"));
    ASSERT_EQ(train_until(SIGTERM, 8 * 21 + 3, line), STOPPED);
    ASSERT(kit_exists(in_folder("stopped/latest.safetensors")));
    snprintf(line, sizeof line, "--resume %s --threads 1 --quiet",
             in_folder("stopped/latest.safetensors"));
    ASSERT_EQ(train(line), DONE);          /* the config beside it says the rest */
    ASSERT(same_files("straight/final.safetensors", "stopped/final.safetensors"));
    PASS();
}

/* told to stop while the last validation runs: what is left to do is done when it goes on */
TEST a_run_stopped_behind_its_last_update_is_not_done(void)
{
    ASSERT_EQ(train_in("end", STRAIGHT), DONE);
    ASSERT(unlink(in_folder("end/final.safetensors")) == 0);
    ASSERT(unlink(in_folder("end/report.html")) == 0);
    ASSERT_EQ(train_in("end", STRAIGHT " --resume auto"), DONE);
    ASSERT(same_files("straight/final.safetensors", "end/final.safetensors"));
    ASSERT(kit_exists(in_folder("end/report.html")));
    PASS();
}

/* ---- branches -------------------------------------------------------------------------------- */

/* budgets of 20 and 40 updates; the warm-up is given, so a branch is the shorter run, step by step
   */
#define BRANCHING "--steps 40 --target-budgets 2560,5120 --dropout 0.1 --eval-interval 10"

TEST a_branch_is_the_shorter_run_and_the_longer_one_does_not_notice(void)
{
    ASSERT_EQ(train_in("tree", BRANCHING), DONE);
    ASSERT_EQ(train_in("trunk", BRANCHING " --branch off"), DONE);
    ASSERT_EQ(train_in("short", "--steps 20 --dropout 0.1 --eval-interval 10"), DONE);
    ASSERT(kit_exists(in_folder("tree/ready_for_decay_2560.safetensors")));
    ASSERT(!kit_exists(in_folder("tree/ready_for_decay_5120.safetensors")));
    ASSERT(same_files("tree/final.safetensors", "trunk/final.safetensors"));
    ASSERT_EQ(0.0, weights_apart("tree/decay_2560/final.safetensors", "short/final.safetensors"));
    ASSERT(weights_apart("tree/decay_2560", "tree") > 1e-3);
    PASS();
}

TEST a_branch_begins_with_its_parents_metrics(void)
{
    kit_text t = { NULL, 0, 0 };
    ASSERT(kit_read_file(&t, in_folder("tree/decay_2560/metrics.jsonl"), 1 << 20, &why));
    ASSERT(strstr(t.data, "{\"tokens\":1280,") != NULL);             /* update 10 of the parent   */
    ASSERT(strstr(t.data, "{\"tokens\":2560,") != NULL);
    ASSERT(strstr(t.data, "{\"tokens\":3840,") == NULL);
    ASSERT(strstr(t.data, "\"wsd/stage\":1") && strstr(t.data, "\"wsd/stage\":2"));
    ASSERT(strstr(t.data, "\"wsd/decay_start_step\":18") != NULL);
    kit_text_free(&t);
    PASS();
}

TEST a_branch_by_hand_is_the_same_and_needs_no_more_than_the_file(void)
{
    char line[2048];
    ASSERT_EQ(train_in("later", BRANCHING " --branch later"), DONE);
    ASSERT(!kit_exists(in_folder("later/decay_2560")));
    ASSERT(same_files("later/ready_for_decay_2560.safetensors",
                      "tree/ready_for_decay_2560.safetensors"));
    snprintf(line, sizeof line, "--wsd-stage decay_only --resume %s",
             in_folder("later/ready_for_decay_2560.safetensors"));
    ASSERT_EQ(train(line), DONE);
    ASSERT(same_files("later/decay_2560/final.safetensors", "tree/decay_2560/final.safetensors"));
    snprintf(line, sizeof line, "--wsd-stage decay_only --resume %s --decay-tokens 640",
             in_folder("later/ready_for_decay_2560.safetensors"));
    ASSERT_EQ(train(line), DONE);          /* 18 + 5 updates */
    ASSERT(kit_exists(in_folder("later/decay_2944/final.safetensors")));
    PASS();
}

/* updates 18 and 19 of the branch read samples 144 .. 159 first, update 18 of the trunk once more
   */
TEST a_run_killed_in_its_branch_goes_on_there(void)
{
    char line[2048];
    snprintf(line, sizeof line, "--checkpoint-dir %s " BRANCHING, in_folder("felled"));
    ASSERT_EQ(train_until(SIGKILL, 8 * 19 + 2, line), -SIGKILL);
    ASSERT(kit_exists(in_folder("felled/decay_2560/config.yaml")));
    ASSERT(!kit_exists(in_folder("felled/decay_2560/final.safetensors")));
    ASSERT_EQ(train_in("felled", BRANCHING " --resume auto"), DONE);
    ASSERT(same_files("felled/final.safetensors", "tree/final.safetensors"));
    ASSERT(same_files("felled/decay_2560/final.safetensors", "tree/decay_2560/final.safetensors"));
    snprintf(line, sizeof line, "--checkpoint-dir %s " BRANCHING, in_folder("halted"));
    ASSERT_EQ(train_until(SIGINT, 8 * 19 + 2, line), STOPPED);
    ASSERT(kit_exists(in_folder("halted/decay_2560/latest.safetensors")));
    ASSERT_EQ(train_in("halted", BRANCHING " --resume auto"), DONE);
    ASSERT(same_files("halted/final.safetensors", "tree/final.safetensors"));
    ASSERT(same_files("halted/decay_2560/final.safetensors", "tree/decay_2560/final.safetensors"));
    PASS();
}

/* ---- what is refused ------------------------------------------------------------------------- */

static const char *said_in(const char *name, const char *line)
{
    char all[2048];
    snprintf(all, sizeof all, "--checkpoint-dir %s %s", in_folder(name), line);
    return said_by(FAILED, all);
}

TEST a_run_is_not_mixed_with_another(void)
{
    static const char *const row[][2] = {
        { STRAIGHT, "--overwrite starts over" },
        { STRAIGHT " --resume auto --seed 3", "--seed 42, not 3" },
        { STRAIGHT " --resume auto --layers 1", "layers=2" },
        { STRAIGHT " --resume auto --batch-size 4", "8 texts of 16 tokens" },
        { STRAIGHT " --resume auto --lr 0.02", "another schedule" },
        { STRAIGHT " --resume auto --steps 50", "--tokens or --decay differ" },
        { STRAIGHT " --resume auto --data tests/check.h", "is other data" }
    };
    for (int i = 0; i < 7; i++) {
        const char *said = said_in("straight", row[i][0]);
        ASSERTm(said, strstr(said, row[i][1]) != NULL && said[0] != '(');
    }
    ASSERT(same_files("straight/final.safetensors", "killed/final.safetensors"));
    ASSERT_EQ(train_in("again", "--steps 4"), DONE);
    ASSERT_EQ(train_in("again", "--steps 5 --overwrite"), DONE);
    ASSERT_EQ(train_in("again", "--steps 5 --resume auto"), DONE);
    PASS();
}

/* the budget may grow as long as the rate stands at its peak */
TEST a_longer_budget_goes_on_from_the_plateau(void)
{
    char line[2048];
    ASSERT_EQ(train_in("far", "--steps 60 --checkpoint-interval 10 --keep 9"), DONE);
    ASSERT_EQ(train_in("near", "--steps 30 --checkpoint-interval 10 --keep 9"), DONE);
    snprintf(line, sizeof line, "--resume %s --steps 60 --checkpoint-interval 10 --keep 9",
             in_folder("near/step_20.safetensors"));
    ASSERT_EQ(train(line), DONE);
    ASSERT_EQ(0.0, weights_apart("far/final.safetensors", "near/final.safetensors"));
    PASS();
}

TEST another_architecture_gets_another_folder(void)
{
    char line[2048];
    snprintf(line, sizeof line, "--out %s --steps 3", in_folder("runs"));
    ASSERT_EQ(train(line), DONE);
    snprintf(line, sizeof line, "--out %s --steps 3 --layers 1", in_folder("runs"));
    ASSERT_EQ(train(line), DONE);
    ASSERT(kit_exists(in_folder("runs/nano_rope_384_s42/final.safetensors")));
    ASSERT(kit_exists(in_folder("runs/nano_rope_384_s42_v2/final.safetensors")));
    snprintf(line, sizeof line, "--out %s --steps 3 --layers 1 --resume auto", in_folder("runs"));
    ASSERT_EQ(train(line), DONE);
    ASSERT(!kit_exists(in_folder("runs/nano_rope_384_s42_v3")));
    PASS();
}

/* One weight of the state becomes a NaN, in the file itself. */
TEST a_loss_that_is_no_number_stops_and_leaves_the_state(void)
{
    kit_text t = { NULL, 0, 0 };
    ASSERT_EQ(train_in("nan", "--steps 30 --checkpoint-interval 10"), DONE);
    ASSERT(kit_read_file(&t, in_folder("nan/step_20.safetensors"), 1 << 26, &why));
    size_t header = 8 + (size_t)((unsigned char)t.data[0] | (unsigned char)t.data[1] << 8
                                 | (unsigned char)t.data[2] << 16);
    float bad = NAN;
    for (int i = 0; i < 256 * 16; i++) memcpy(t.data + header + 4 * i, &bad, 4);
    ASSERT(kit_save_bytes(in_folder("nan/latest.safetensors"), t.data, t.size, &why));
    ASSERT(unlink(in_folder("nan/final.safetensors")) == 0);
    const char *said = said_in("nan", "--steps 30 --checkpoint-interval 10 --resume auto");
    ASSERTm(said, strstr(said, "step 20") && strstr(said, "token_embedding.weight"));
    ASSERTm(said, strstr(said, "nan/latest.safetensors"));
    kit_text now = { NULL, 0, 0 };
    ASSERT(kit_read_file(&now, in_folder("nan/latest.safetensors"), 1 << 26, &why));
    ASSERT(now.size == t.size && memcmp(now.data, t.data, t.size) == 0);
    kit_text_free(&now);
    kit_text_free(&t);
    PASS();
}

TEST step_files_are_kept_as_asked(void)
{
    ASSERT_EQ(train_in("kept", "--steps 60 --checkpoint-interval 10 --keep 2"), DONE);
    ASSERT(!kit_exists(in_folder("kept/step_30.safetensors")));
    ASSERT(kit_exists(in_folder("kept/step_40.safetensors")));
    ASSERT(kit_exists(in_folder("kept/step_50.safetensors")));
    ASSERT(same_files("kept/latest.safetensors", "kept/final.safetensors"));
    ASSERT_EQ(train_in("kept0", "--steps 60 --checkpoint-interval 10 --keep 0"), DONE);
    ASSERT(!kit_exists(in_folder("kept0/step_50.safetensors")));
    PASS();
}

TEST a_model_too_large_is_refused_with_what_would_help(void)
{
    lm_recipe *p = (lm_recipe *)kit_new(1, sizeof *p);
    lm_settings *s = (lm_settings *)kit_new(1, sizeof *s);
    ASSERT(recipe_of(p, s, "--size tiny --memory 8G"));
    ASSERT_EQ(lm_memory_check(p, s->size, &why), 0);
    ASSERTm(why.text, strstr(why.text, "tiny takes") && strstr(why.text, "--grad-accum-steps"));
    ASSERTm(why.text, strstr(why.text, "--recompute"));
    int batch = lm__batch_that_fits(p, 0, 8e9);
    ASSERT(batch >= 1 && batch < 64 && 64 % batch == 0);
    ASSERT(lm_bytes_of(p, batch, 0, NULL) <= 8e9 && lm_bytes_of(p, 2 * batch, 0, NULL) > 8e9);
    ASSERT(recipe_of(p, s, "--size large --memory 8G"));
    ASSERT_EQ(lm_memory_check(p, s->size, &why), 0);
    ASSERTm(why.text, strstr(why.text, "--size small"));
    ASSERT(recipe_of(p, s, "--size nano --memory 8G"));
    ASSERT_EQ(lm_memory_check(p, s->size, &why), 1);
    free(p);
    free(s);
    PASS();
}

/* ---- what is measured ------------------------------------------------------------------------ */

typedef struct lab { lm_settings s; lm_recipe p; lm_run r; lm_trainer t; lm_source source; } lab;

static lab *lab_open(const char *line)
{
    char all[2048];
    lab *l = (lab *)kit_new(1, sizeof *l);
    snprintf(all, sizeof all,
             "--channels 16 --layers 2 --heads 2 --context 16 --batch-size 8 --lr 0.01 "
             "--warmup-steps 4 --threads 1 --eval-tokens 200 --data %s %s", text_path, line);
    if (!recipe_of(&l->p, &l->s, all)
        || !lm_source_open(&l->source, l->s.data, NULL, 16, "lm", &why)
        || posenc_model_create(&l->r.model, &l->p.model, NULL) != POSENC_OK) return NULL;
    lm__choose_decay(l->r.model, l->s.decay_on);
    l->r.set = &l->s;
    l->r.recipe = &l->p;
    l->r.source = &l->source;
    lm_run_begin(&l->r);
    lm_trainer_open(&l->t, &l->p, &l->source, posenc_model_config(l->r.model), "lm");
    return l;
}

static void lab_close(lab *l)
{
    lm_trainer_close(&l->t);
    posenc_model_free(l->r.model);
    lm_source_close(&l->source);
    free(l);
}

TEST an_update_is_measured_as_it_is(void)
{
    lab *l = lab_open("--steps 20 --weight-decay 0.5");
    ASSERT(l != NULL);
    posenc_model *m = l->r.model;
    size_t n = posenc_model_numbers(m), at = 0;
    float *before = (float *)kit_new(n, sizeof *before);
    for (int i = 0; i < 9; i++) ASSERT_EQ(lm_update(&l->r, &l->t, 0, &why), 1);
    for (int i = 0; i < posenc_model_parameters(m); at += posenc_model_parameter(m, i++)->count)
        memcpy(before + at, posenc_model_parameter(m, i)->data,
               posenc_model_parameter(m, i)->count * sizeof *before);
    ASSERT_EQ(lm_update(&l->r, &l->t, 1, &why), 1);
    double steps = 0, old = 0, now = 0;
    at = 0;
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *p = posenc_model_parameter(m, i);
        for (size_t k = 0; k < p->count; k++, at++) {
            double d = (double)p->data[k] - before[at];
            steps += d * d;
            old += (double)before[at] * before[at];
            now += (double)p->data[k] * p->data[k];
        }
    }
    const lm_signals *g = &l->t.signals;
    ASSERT_IN_RANGE(sqrt(steps / old), g->update_ratio, 1e-3 * g->update_ratio);
    ASSERT_IN_RANGE(sqrt(now), g->weight_norm, 1e-6 * g->weight_norm);
    ASSERT(g->update_ratio > 1e-3);
    double all = (g->grad_std * g->grad_std + g->grad_mean * g->grad_mean) * (double)n;
    ASSERT_IN_RANGE(l->t.norm, sqrt(all), 1e-5 * l->t.norm);
    ASSERT(g->layer[0] > 0 && g->layer[1] > 0 && g->grad_max > g->grad_std);
    double layers = sqrt(g->layer[0] * g->layer[0] + g->layer[1] * g->layer[1]);
    ASSERT(layers < l->t.norm);
    free(before);
    lab_close(l);
    PASS();
}

TEST logits_are_measured_as_they_are(void)
{
    lab *l = lab_open("--steps 20");
    ASSERT(l != NULL);
    ASSERT_EQ(lm_update(&l->r, &l->t, 1, &why), 1);
    const lm_signals *g = &l->t.signals;
    ASSERT_IN_RANGE(log(256), g->entropy, 0.05);                     /* nothing is known yet      */
    ASSERT(g->logits_min < g->logits_mean && g->logits_mean < g->logits_max && g->logits_std > 0);
    float row[4] = { 0, 0, 0, 0 };
    ASSERT_IN_RANGE(log(4), lm__entropy(row, 4), 1e-12);
    row[2] = 1000;
    ASSERT_IN_RANGE(0, lm__entropy(row, 4), 1e-12);
    lab_close(l);
    PASS();
}

/* 200 tokens in texts of 16: thirteen, read in two batches, spread over what is held out */
TEST validation_is_the_mean_over_what_is_held_out(void)
{
    lab *l = lab_open("--steps 20");
    ASSERT(l != NULL);
    double mean = 0, sum = 0;
    int tokens[16], targets[16];
    ASSERT_EQ(l->t.texts, 13);
    ASSERT_EQ(lm_validate(&mean, &l->r, &l->t, l->t.texts, &why), 1);
    for (int k = 0; k < 13; k++) {
        posenc_batch b;
        double loss;
        int held[17];
        uint64_t at = l->source.first + lm__text_place(&l->source, 16, k, 13);
        memset(&b, 0, sizeof b);
        b.B = 1;
        b.T = 16;
        b.tokens = tokens;
        b.targets = targets;
        ASSERT(lm_source_text(&l->source, tokens, targets, 16, k, 13, &why));
        ASSERT(lm_data_read(&l->source.held.data[0], held, at, 17, &why));
        ASSERT_EQ(memcmp(held, tokens, sizeof tokens), 0);
        ASSERT_EQ(memcmp(held + 1, targets, sizeof targets), 0);
        ASSERT_EQ(posenc_model_loss(l->r.model, &b, &loss, NULL), POSENC_OK);
        sum += loss;
    }
    ASSERT_IN_RANGE(sum / 13, mean, 1e-6);
    ASSERT(l->source.first >= l->source.mix.data[0].tokens);         /* training stays clear      */
    lab_close(l);
    PASS();
}

/* No two overlap, the first is at the beginning, and the gap behind the last is no larger than
   others: also for numbers that do not divide what there is. */
TEST texts_to_validate_on_cover_all_of_it(void)
{
    static const int counts[] = { 1, 2, 3, 7, 50, 51, 99, 100 };
    lm_source s;
    memset(&s, 0, sizeof s);
    for (int window = 0; window <= 17; window += 17) {
        uint64_t step = window ? 17 : 16;
        s.window = window;
        s.held_tokens = 100 * step + 1;    /* a hundred texts */
        for (int i = 0; i < 8; i++) {
            int n = counts[i];
            ASSERT_EQ((uint64_t)0, lm__text_place(&s, 16, 0, n));
            for (int k = 1; k < n; k++) {
                uint64_t gap = lm__text_place(&s, 16, k, n) - lm__text_place(&s, 16, k - 1, n);
                ASSERT(gap >= step && gap <= (100 / (uint64_t)n + 1) * step && gap % step == 0);
            }
            uint64_t left = 100 * step - lm__text_place(&s, 16, n - 1, n);
            ASSERT(left >= step && left <= (100 / (uint64_t)n + 1) * step);
        }
    }
    PASS();
}

TEST a_step_allocates_nothing(void)
{
    lab *l = lab_open("--steps 20 --dropout 0.1 --grad-accum-steps 2");
    ASSERT(l != NULL);
    allocations = 0;
    for (int i = 0; i < 5; i++) ASSERT_EQ(lm_update(&l->r, &l->t, 0, &why), 1);
    ASSERT_EQ(allocations, 0);
    free(kit_new(1, 1));
    ASSERT_EQ(allocations, 1);             /* it does count */
    lab_close(l);
    PASS();
}

TEST weights_decay_where_they_should(void)
{
    static const char *const on[] = { "products", "matrices", "all" };
    static const char *const name[] = { "blocks.0.attn.q_proj.weight", "token_embedding.weight",
                                        "norm.weight" };
    for (int i = 0; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof line, "--steps 20 --decay-on %s", on[i]);
        lab *l = lab_open(line);
        ASSERT(l != NULL);
        for (int k = 0; k < 3; k++)
            ASSERT_EQ(k <= i ? 1.0 : 0.0, posenc_model_find(l->r.model, name[k])->decay);
        lab_close(l);
    }
    PASS();
}

TEST every_metric_is_written_under_its_name(void)
{
    static const char *const key[] = {
        "train/loss", "train/ppl", "train/tokens_per_sec", "train/step", "train/tokens", "train/lr",
        "train/grad_norm", "train/grad_clipped", "train/samples_seen", "train/tokens_per_step",
        "train/progress_pct", "train/mfu", "train/logits_mean", "train/logits_std",
        "train/logits_min", "train/logits_max", "train/entropy", "param/weight_norm", "wsd/stage",
        "wsd/target_budget", "wsd/branch_tokens", "wsd/decay_start_step", "wsd/decay_progress_pct",
        "time/data_ms", "time/step_ms", "grad/layer_0_norm", "grad/layer_1_norm", "grad/mean",
        "grad/std", "grad/max", "grad/update_norm_ratio", "val/loss", "val/ppl", "val/best_loss",
        "val/bits_per_byte"
    };                                     /* and at the end, if that is not too much, the rest   */
    kit_text t = { NULL, 0, 0 };
    ASSERT(kit_read_file(&t, in_folder("straight/metrics.jsonl"), 1 << 20, &why));
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "\"%s\":", key[i]);
        ASSERTm(key[i], strstr(t.data, quoted) != NULL);
    }
    ASSERT(strstr(t.data, ":null") == NULL);
    kit_text_free(&t);
    PASS();
}

TEST the_loss_falls(void)
{
    lm_note n, first;
    posenc_model *m;
    ASSERT_EQ(train_in("learns", "--steps 150 --eval-interval 50"), DONE);
    ASSERT(lm_model_open(&m, &n, in_folder("learns"), 0, 1, 1, &why));
    posenc_model_free(m);
    ASSERT(lm_model_open(&m, &first, in_folder("straight"), 0, 1, 1, &why));
    posenc_model_free(m);
    kit_text t = { NULL, 0, 0 };
    ASSERT(kit_read_file(&t, in_folder("learns/metrics.jsonl"), 1 << 20, &why));
    const char *all = strstr(t.data, "\"val/all_loss\":");
    ASSERT(all && !strstr(all + 1, "\"val/all_loss\":"));           /* at the end alone          */
    ASSERT_IN_RANGE(n.best, strtod(all + 15, NULL), 0.2);
    kit_text_free(&t);
    ASSERT(n.best < 2.9 && n.best < first.best && n.tokens == 150 * 128 && n.context == 16);
    ASSERT_STR_EQ("bytes", n.vocabulary);
    PASS();
}

TEST an_opened_model_reads_longer_texts_where_it_can(void)
{
    posenc_model *m;
    lm_note n;
    ASSERT(lm_model_open(&m, &n, in_folder("learns"), 64, 2, 1, &why));
    ASSERT_EQ(64, posenc_model_config(m)->context);
    ASSERT_EQ(2, posenc_model_config(m)->batch);
    posenc_model_free(m);
    ASSERT_EQ(train_in("table", "--steps 3 --pe learned"), DONE);
    ASSERT_EQ(lm_model_open(&m, &n, in_folder("table"), 64, 1, 1, &why), 0);
    ASSERTm(why.text, m == NULL && strstr(why.text, "16"));
    ASSERT(lm_model_open(&m, &n, in_folder("table"), 8, 1, 1, &why));
    posenc_model_free(m);
    ASSERT_EQ(lm_model_open(&m, &n, in_folder("runs"), 0, 1, 1, &why), 0);
    ASSERT(strstr(why.text, "no checkpoint"));
    ASSERT_EQ(lm_model_open(&m, &n, text_path, 0, 1, 1, &why), 0);
    PASS();
}

/* without --data: from memory, the same samples for the same numbers */
TEST our_own_sentences_are_a_source_too(void)
{
    lm_source *s = (lm_source *)kit_new(1, sizeof *s);
    int tokens[16], targets[16], again[16];
    kit_corpus_open(&s->corpus, text_path, "x", &why);
    lm__source_corpus(s);
    ASSERT(s->held_tokens > 1000 && s->vocab == 256);
    ASSERT(lm_source_sample(s, tokens, targets, 16, 42, 7, &why));
    ASSERT(lm_source_sample(s, again, targets, 16, 42, 7, &why));
    ASSERT_EQ(memcmp(tokens, again, sizeof tokens), 0);
    ASSERT_EQ(memcmp(tokens + 1, targets, 15 * sizeof *tokens), 0);
    ASSERT(lm_source_sample(s, again, targets, 16, 43, 7, &why));
    ASSERT(memcmp(tokens, again, sizeof tokens) != 0);
    ASSERT_EQ(8, lm_source_texts(s, 16, 128));
    ASSERT(lm_source_text(s, tokens, targets, 16, 7, 8, &why));
    lm_source_close(s);
    free(s);
    PASS();
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int make_folder(void)
{
    kit_text t = { NULL, 0, 0 };
    const char *place = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.500s/lm_train_XXXXXX", place && *place ? place : "/tmp");
    if (!mkdtemp(folder)) return 0;
    snprintf(text_path, sizeof text_path, "%.900s/text", folder);
    kit_sentences(&t, 60000, 1);
    int done = kit_save(text_path, &t, &why);
    kit_text_free(&t);
    return done;
}

static void remove_folder(void)
{
    char command[KIT_PATH + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) printf("%s stays\n", folder);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    if (!make_folder()) return 1;
    RUN_TEST(presets_have_the_published_numbers_of_parameters);
    RUN_TEST(a_token_costs_what_its_products_cost);
    RUN_TEST(the_published_tables_come_out);
    RUN_TEST(the_rate_rises_stays_and_falls);
    RUN_TEST(budgets_are_read_and_said);
    RUN_TEST(a_note_reads_back_and_a_damaged_one_is_refused);
    RUN_TEST(a_config_is_read_and_flags_win);
    RUN_TEST(a_config_that_is_wrong_is_refused_with_its_line);
    RUN_TEST(the_resolved_config_gives_the_same_run);
    RUN_TEST(cutting_an_update_into_batches_changes_nothing_that_counts);
    RUN_TEST(recomputed_activations_are_the_same);
    RUN_TEST(a_killed_run_goes_on_to_the_same_bytes);
    RUN_TEST(a_run_that_is_told_to_stop_saves_and_goes_on);
    RUN_TEST(a_run_stopped_behind_its_last_update_is_not_done);
    RUN_TEST(a_branch_is_the_shorter_run_and_the_longer_one_does_not_notice);
    RUN_TEST(a_branch_begins_with_its_parents_metrics);
    RUN_TEST(a_branch_by_hand_is_the_same_and_needs_no_more_than_the_file);
    RUN_TEST(a_run_killed_in_its_branch_goes_on_there);
    RUN_TEST(a_run_is_not_mixed_with_another);
    RUN_TEST(a_longer_budget_goes_on_from_the_plateau);
    RUN_TEST(another_architecture_gets_another_folder);
    RUN_TEST(a_loss_that_is_no_number_stops_and_leaves_the_state);
    RUN_TEST(step_files_are_kept_as_asked);
    RUN_TEST(a_model_too_large_is_refused_with_what_would_help);
    RUN_TEST(an_update_is_measured_as_it_is);
    RUN_TEST(logits_are_measured_as_they_are);
    RUN_TEST(validation_is_the_mean_over_what_is_held_out);
    RUN_TEST(texts_to_validate_on_cover_all_of_it);
    RUN_TEST(a_step_allocates_nothing);
    RUN_TEST(weights_decay_where_they_should);
    RUN_TEST(every_metric_is_written_under_its_name);
    RUN_TEST(the_loss_falls);
    RUN_TEST(an_opened_model_reads_longer_texts_where_it_can);
    RUN_TEST(our_own_sentences_are_a_source_too);
    remove_folder();
    GREATEST_MAIN_END();
}
