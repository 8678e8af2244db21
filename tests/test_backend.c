/* A back end whose memory nobody can touch: its arenas are unreadable except while one of its
   own functions runs. Whatever looks into a tensor from the host's side, in the transformer, the
   checkpoint or the maps, dies here. What it computes is the CPU's, so the bits must be too.     */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include "models.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { B = 3, T = 7 };

/* ---- the memory ------------------------------------------------------------------------------ */

enum { ARENAS = 32 };
static struct arena { char *pages, *memory; size_t bytes; } arenas[ARENAS];
static int inside, refuse_alloc = -1, allocated;
static const char *trouble;                       /* what sync will report                        */

static void protect(int how)
{
    for (int i = 0; i < ARENAS; i++)
        if (arenas[i].pages && mprotect(arenas[i].pages, arenas[i].bytes, how) != 0) abort();
}
static void enter(void) { if (inside++ == 0) protect(PROT_READ | PROT_WRITE); }
static void leave(void) { if (--inside == 0) protect(PROT_NONE); }

/* The end of the memory is the end of a page and the next one belongs to nobody: a function that
   writes past the arena is caught as well.                                                       */
static void *locked_alloc(void *user, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page + page;
    int i = 0;
    (void)user;
    while (i < ARENAS && arenas[i].pages) i++;
    if (i == ARENAS || allocated++ == refuse_alloc) return NULL;
    arenas[i].pages = (char *)mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arenas[i].pages == (char *)MAP_FAILED) { arenas[i].pages = NULL; return NULL; }
    arenas[i].bytes = whole - page;
    arenas[i].memory = arenas[i].pages + arenas[i].bytes - (bytes + 63) / 64 * 64;
    return arenas[i].memory;
}
static void locked_release(void *user, void *memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    (void)user;
    for (int i = 0; i < ARENAS; i++) {
        if (!arenas[i].pages || arenas[i].memory != memory) continue;
        munmap(arenas[i].pages, arenas[i].bytes + page);
        memset(&arenas[i], 0, sizeof arenas[i]);
        return;
    }
    abort();                                                       /* not ours, or released twice */
}
static int arenas_left(void)
{
    int n = 0;
    for (int i = 0; i < ARENAS; i++) n += arenas[i].pages != NULL;
    return n;
}

/* ---- the table --------------------------------------------------------------------------------
   Every entry of posenc_backend, with its arguments once as declared and once as passed on.      */

#define FLOATS posenc_float *
#define CONSTS const posenc_float *
#define MEMORY(X)                                                                                  \
    X(upload,   (void *u, void *a, const void *b, size_t n), (u, a, b, n))                         \
    X(download, (void *u, void *a, const void *b, size_t n), (u, a, b, n))                         \
    X(zero,     (void *u, void *a, size_t n), (u, a, n))                                           \
    X(copy,     (void *u, void *a, const void *b, size_t n), (u, a, b, n))
#define LAYERS(X)                                                                                  \
    X(linear_forward, (FLOATS a, CONSTS b, CONSTS c, CONSTS d, int i, int j, int k),               \
      (a, b, c, d, i, j, k))                                                                       \
    X(linear_backward, (FLOATS a, FLOATS b, FLOATS c, CONSTS d, CONSTS e, CONSTS f, int i, int j,  \
      int k, int l), (a, b, c, d, e, f, i, j, k, l))                                               \
    X(layernorm_forward, (FLOATS a, FLOATS b, FLOATS c, CONSTS d, CONSTS e, CONSTS f, double x,    \
      int i, int j), (a, b, c, d, e, f, x, i, j))                                                  \
    X(layernorm_backward, (FLOATS a, FLOATS b, FLOATS c, CONSTS d, CONSTS e, CONSTS f, CONSTS g,   \
      CONSTS h, int i, int j), (a, b, c, d, e, f, g, h, i, j))                                     \
    X(rmsnorm_forward, (FLOATS a, FLOATS b, CONSTS c, CONSTS d, double x, int i, int j),           \
      (a, b, c, d, x, i, j))                                                                       \
    X(rmsnorm_backward, (FLOATS a, FLOATS b, CONSTS c, CONSTS d, CONSTS e, CONSTS f, int i, int j),\
      (a, b, c, d, e, f, i, j))                                                                    \
    X(activation_forward, (FLOATS a, CONSTS b, int i, size_t n), (a, b, i, n))                     \
    X(activation_backward, (FLOATS a, CONSTS b, CONSTS c, int i, size_t n), (a, b, c, i, n))       \
    X(gated_forward, (FLOATS a, CONSTS b, CONSTS c, int d, size_t n), (a, b, c, d, n))             \
    X(gated_backward, (FLOATS a, FLOATS b, CONSTS c, CONSTS d, CONSTS e, int f, size_t n),         \
      (a, b, c, d, e, f, n))                                                                       \
    X(dropout_apply, (FLOATS a, CONSTS b, size_t n, posenc_dropout how), (a, b, n, how))           \
    X(residual, (FLOATS a, CONSTS b, CONSTS c, size_t n), (a, b, c, n))                            \
    X(embedding_forward, (FLOATS a, const int *b, CONSTS c, double x, int i, int j, int k, int l), \
      (a, b, c, x, i, j, k, l))                                                                    \
    X(embedding_backward, (FLOATS a, CONSTS b, const int *c, double x, int i, int j, int k),       \
      (a, b, c, x, i, j, k))                                                                       \
    X(pool_forward, (FLOATS a, CONSTS b, const unsigned char *c, int i, int j, int k),             \
      (a, b, c, i, j, k))                                                                          \
    X(pool_backward, (FLOATS a, CONSTS b, const unsigned char *c, int i, int j, int k),            \
      (a, b, c, i, j, k))                                                                          \
    X(head_loss, (FLOATS a, FLOATS b, FLOATS c, FLOATS d, CONSTS e, CONSTS f, CONSTS g,            \
      const int *h, double x, int i, int j, int k, FLOATS s),                                      \
      (a, b, c, d, e, f, g, h, x, i, j, k, s))                                                     \
    X(linear_forward_bf16, (FLOATS a, CONSTS b, CONSTS c, CONSTS d, int i, int j, int k, FLOATS s),\
      (a, b, c, d, i, j, k, s))                                                                    \
    X(linear_backward_bf16, (FLOATS a, FLOATS b, FLOATS c, CONSTS d, CONSTS e, CONSTS f, int i,    \
      int j, int k, int l, FLOATS s), (a, b, c, d, e, f, i, j, k, l, s))                           \
    X(head_loss_bf16, (FLOATS a, FLOATS b, FLOATS c, FLOATS d, CONSTS e, CONSTS f, CONSTS g,       \
      const int *h, double x, int i, int j, int k, FLOATS s),                                      \
      (a, b, c, d, e, f, g, h, x, i, j, k, s))                                                     \
    X(bf16_round, (uint16_t *a, CONSTS b, size_t n), (a, b, n))                                    \
    X(linear_few_bf16, (FLOATS a, CONSTS b, const uint16_t *c, CONSTS d, int i, int j, int k),     \
      (a, b, c, d, i, j, k))                                                                       \
    X(attention_forward, (posenc_heads a, FLOATS b, posenc_heads c, posenc_heads d, posenc_heads e,\
      const posenc_attention *how, FLOATS s), (a, b, c, d, e, how, s))                             \
    X(attention_backward, (posenc_heads a, posenc_heads b, posenc_heads c, FLOATS d,               \
      posenc_heads e, posenc_heads f, CONSTS g, posenc_heads h, posenc_heads i, posenc_heads j,    \
      const posenc_attention *how, FLOATS s), (a, b, c, d, e, f, g, h, i, j, how, s))              \
    X(rows_forward, (FLOATS a, CONSTS b, int i, int j, int k), (a, b, i, j, k))                    \
    X(rows_backward, (FLOATS a, CONSTS b, int i, int j, int k), (a, b, i, j, k))                   \
    X(waves_forward, (FLOATS a, CONSTS b, double x, int i, int j), (a, b, x, i, j))                \
    X(waves_backward, (FLOATS a, CONSTS b, CONSTS c, int i, int j), (a, b, c, i, j))               \
    X(turns_fill, (posenc_turns a, const double *b, const posenc_rotation *c), (a, b, c))          \
    X(turns_backward, (FLOATS a, posenc_heads b, posenc_heads c, posenc_turns d, const double *e,  \
      const posenc_rotation *f), (a, b, c, d, e, f))                                               \
    X(turn, (posenc_heads a, posenc_turns b), (a, b))                                              \
    X(turn_back, (posenc_heads a, posenc_turns b), (a, b))                                         \
    X(gather_forward, (FLOATS a, CONSTS b, const int *c, int i, int j, int k), (a, b, c, i, j, k)) \
    X(gather_backward, (FLOATS a, CONSTS b, const int *c, int i, int j, int k), (a, b, c, i, j, k))\
    X(curve_forward, (FLOATS a, CONSTS b, int i, int j, int k, int l, int m),                      \
      (a, b, i, j, k, l, m))                                                                       \
    X(curve_backward, (FLOATS a, CONSTS b, CONSTS c, int i, int j, int k, int l, int m),           \
      (a, b, c, i, j, k, l, m))                                                                    \
    X(optimizer_apply, (FLOATS a, FLOATS b, FLOATS c, CONSTS d, size_t n,                          \
      const posenc_optimizer *o, double x, double y, double z, uint64_t t),                        \
      (a, b, c, d, n, o, x, y, z, t))

#define X(name, parameters, arguments) CALLED_##name,
enum { CALLED_alloc, CALLED_release, CALLED_sync, CALLED_sum_squares, MEMORY(X) LAYERS(X) ENTRIES };
#undef X
#define X(name, parameters, arguments) #name,
static const char *const entry_name[ENTRIES] = { "alloc", "release", "sync", "sum_squares",
                                                 MEMORY(X) LAYERS(X) };
#undef X
static unsigned long called[ENTRIES];

#define X(name, parameters, arguments)                                                             \
    static void locked_##name parameters                                                           \
    {                                                                                              \
        called[CALLED_##name]++;                                                                   \
        enter();                                                                                   \
        posenc_cpu_backend()->name arguments;                                                      \
        leave();                                                                                   \
    }
MEMORY(X)
LAYERS(X)
#undef X
static double locked_sum_squares(const posenc_float *x, size_t n)
{
    double sum;
    called[CALLED_sum_squares]++;
    enter();
    sum = posenc_cpu_backend()->sum_squares(x, n);
    leave();
    return sum;
}
static void *counted_alloc(void *user, size_t bytes)
{
    called[CALLED_alloc]++;
    return locked_alloc(user, bytes);
}
static void counted_release(void *user, void *memory)
{
    called[CALLED_release]++;
    locked_release(user, memory);
}
static const char *locked_sync(void *user)
{
    called[CALLED_sync]++;
    (void)user;
    return trouble;
}

static const posenc_backend *locked(void)
{
    static posenc_backend b;
    b.name = "locked";
    b.user = NULL;
    b.alloc = counted_alloc;
    b.release = counted_release;
    b.sync = locked_sync;
    b.sum_squares = locked_sum_squares;
#define X(name, parameters, arguments) b.name = locked_##name;
    MEMORY(X)
    LAYERS(X)
#undef X
    return &b;
}

/* ---- the tests ------------------------------------------------------------------------------- */

/* An entry added to the table must be added here, or this back end would not be complete. */
TEST every_entry_of_the_table_is_wrapped(void)
{
    ASSERT_EQ(sizeof(posenc_backend),
              sizeof(char *) + sizeof(void *) + ENTRIES * sizeof(void (*)(void)));
    PASS();
}

/* A test of the trap itself: whoever reads a tensor from outside is killed. */
TEST reading_a_tensor_from_outside_is_deadly(int writing)
{
    posenc_model *m = make_model_on(locked(), "%s", kinds[CLASSIFIER].config);
    volatile posenc_float *x;
    posenc_float got;
    int status = 0;
    pid_t child;
    ASSERTm(check_text, m);
    x = posenc_model_find(m, "head.weight")->data;
    fflush(NULL);
    child = fork();
    ASSERT(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        if (writing) x[3] = 1;
        else         got = x[3], (void)got;
        _exit(0);
    }
    ASSERT_EQ(child, waitpid(child, &status, 0));
    ASSERT(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS));
    posenc_model_get(m, &got, (const posenc_float *)(x + 3), 1);          /* the front door works */
    ASSERT(got == got);
    posenc_model_free(m);
    PASS();
}

static int same_numbers(const posenc_float *a, const posenc_float *b, size_t n)
{
    return !memcmp(a, b, n * sizeof *a);
}

TEST trains_with_the_cpus_bits(int k, const char *more)
{
    static posenc_float ours[2][4096], theirs[2][4096];
    posenc_model *a = make_model_on(NULL, "%s %s", kinds[k].config, more);
    posenc_model *b = make_model_on(locked(), "%s %s", kinds[k].config, more);
    posenc_error why;
    double one = -1, other = -2;
    int rows;
    data d;
    ASSERTm(check_text, a && b);
    ASSERTm(check_text, train_steps(a, 0, 3) && train_steps(b, 0, 3) && same_state(a, b));
    for (int own = 0; own < 2; own++) {
        fill_data(&d, a, B, T, 9);
        if (own) { add_positions(&d); add_segments(&d); }
        rows = posenc_model_config(a)->classes ? B : B * T;
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(a, &d.batch, &one, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(b, &d.batch, &other, &why));
        ASSERT_EQ(one, other);
        ASSERTm(check_text, same_part(a, b, GRADIENTS, 0));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(a, ours[0], 0, rows, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(b, theirs[0], 0, rows, &why));
        ASSERT(same_numbers(ours[0], theirs[0],
                            (size_t)rows * (posenc_model_config(a)->classes ? 4 : 11)));
        for (int layer = 0; layer < 2; layer++) {
            ASSERT_EQm(why.text, POSENC_OK, posenc_model_attention(a, ours[1], layer, &why));
            ASSERT_EQm(why.text, POSENC_OK, posenc_model_attention(b, theirs[1], layer, &why));
            ASSERT(same_numbers(ours[1], theirs[1], B * 4 * T * T));
        }
    }
    posenc_model_free(a);
    posenc_model_free(b);
    ASSERT_EQ(0, arenas_left());
    PASS();
}

TEST inference_runs_locked_too(int k)
{
    static posenc_float ours[4096], theirs[4096];
    posenc_model *a = make_model_on(NULL, "%s encoding=rope+learned inference=1", kinds[k].config);
    posenc_model *b = make_model_on(locked(), "%s encoding=rope+learned inference=1",
                                    kinds[k].config);
    posenc_error why;
    data d;
    ASSERTm(check_text, a && b);
    fill_data(&d, a, B, T, 9);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(a, &d.batch, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(b, &d.batch, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(a, ours, 0, B, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(b, theirs, 0, B, &why));
    ASSERT(same_numbers(ours, theirs, (size_t)B * (posenc_model_config(a)->classes ? 4 : 11)));
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

/* A NaN is looked for in every tensor: through the front door. */
TEST culprit_is_found_without_looking_in(void)
{
    posenc_model *m = make_model_on(locked(), "%s encoding=learned", kinds[CLASSIFIER].config);
    posenc_float bad = (posenc_float)NAN;
    posenc_error why;
    double loss;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 9);
    posenc_model_set(m, posenc_model_find(m, "blocks.1.norm1.bias")->data + 3, &bad, 1);
    ASSERT_EQ(POSENC_NOT_FINITE, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, "blocks.1.norm1.bias", (char *)0));
    posenc_model_free(m);
    PASS();
}

TEST checkpoint_goes_through_the_table(void)
{
    char path[256];
    posenc_model *a = make_model_on(locked(), "%s encoding=lrope", kinds[MODERN].config);
    posenc_model *b = make_model_on(locked(), "%s encoding=lrope", kinds[MODERN].config);
    posenc_error why;
    temporary_path(path, sizeof path, "backend");
    ASSERTm(check_text, a && b && train_steps(a, 0, 3));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(a, path, POSENC_WEIGHTS_AND_STATE, "", &why));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_load(b, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    ASSERTm(check_text, same_state(a, b));
    remove(path);
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

/* What the device says went wrong reaches the caller, whichever call it was. */
TEST trouble_of_the_device_reaches_the_caller(void)
{
    posenc_model *m = make_model_on(locked(), "%s", kinds[CLASSIFIER].config);
    posenc_float logits[4];
    posenc_optimizer o;
    posenc_error why;
    double loss;
    data d;
    memset(&o, 0, sizeof o);
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 9);
    trouble = "card 3 has fallen off the bus";
    ASSERT_NEQ(POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    ASSERTm(check_text, mentions(why.text, "locked", trouble, (char *)0));
    why.text[0] = 0;
    ASSERT_NEQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, trouble, (char *)0));
    why.text[0] = 0;
    ASSERT_NEQ(POSENC_OK, posenc_model_update(m, &o, 1e-3, NULL, &why));
    ASSERTm(check_text, mentions(why.text, trouble, (char *)0));
    ASSERT_NEQm("logits of a failed forward", POSENC_OK,
                posenc_model_logits(m, logits, 0, 1, &why));
    trouble = NULL;
    ASSERT_EQ(POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    posenc_model_free(m);
    PASS();
}

/* a cache, forgetting, drawing: the same tokens, and nobody looks into the back end's memory */
TEST generation_runs_locked_too(const char *more)
{
    static const int prompt[6] = { 3, 1, 4, 1, 5, 0 }, length[2] = { 3, 2 };
    int out[2][2 * 9], count[2];
    posenc_error why;
    for (int own = 0; own < 2; own++) {
        posenc_model *m = make_model_on(own ? locked() : NULL, "%s inference=1 %s", kinds[MODERN].config, more);
        posenc_cache *c = NULL;
        posenc_generation how;
        ASSERTm(check_text, m);
        memset(&how, 0, sizeof how);
        how.most = 9;
        how.forget = 2;
        how.anchor = 1;
        how.sampling.temperature = 1;
        ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, 2, 8, &why));
        ASSERT_EQm(why.text, POSENC_OK,
                   posenc_generate(out[own], count, m, c, prompt, length, 3, &how, &why));
        posenc_cache_free(c);
        posenc_model_free(m);
    }
    ASSERT_MEM_EQ(out[0], out[1], sizeof out[0]);
    ASSERT_EQ(0, arenas_left());
    PASS();
}
TEST cache_that_cannot_be_had_leaves_nothing_behind(void)
{
    posenc_model *m = make_model_on(locked(), "%s", kinds[MODERN].config);
    int before = arenas_left();
    ASSERTm(check_text, m);
    for (int i = 0; i < 4; i++) {
        posenc_cache *c;
        posenc_error why;
        allocated = 0;
        refuse_alloc = i;
        ASSERT_EQ(POSENC_OUT_OF_MEMORY, posenc_cache_create(&c, m, 2, 8, &why));
        refuse_alloc = -1;
        ASSERT(c == NULL);
        ASSERT_EQ(before, arenas_left());
    }
    posenc_model_free(m);
    PASS();
}

TEST arena_that_cannot_be_had_leaves_nothing_behind(int inference)
{
    for (int i = 0; i < (inference ? 3 : 5); i++) {
        posenc_model *m;
        allocated = 0;
        refuse_alloc = i;
        m = make_model_on(locked(), "%s inference=%d", kinds[MODERN].config, inference);
        refuse_alloc = -1;
        ASSERT(m == NULL);
        ASSERTm(check_text, mentions(check_text, "memory", (char *)0));
        ASSERT_EQ(0, arenas_left());
    }
    PASS();
}

TEST entry_was_called(int entry)
{
    ASSERTm(entry_name[entry], called[entry] > 0);
    PASS();
}

SUITE(locked_back_end)
{
    static const struct { const char *name; int kind; const char *more; } variants[] = {
        { "classifier_dropped", CLASSIFIER, "encoding=learned+relative" EVERYWHERE_DROPPED },
        { "post_norm",          NEXT_TOKEN,
          "encoding=continuous norm_place=post embedding_norm=1" EVERYWHERE_DROPPED },
        { "turned_first",       MODERN,     "encoding=lrope qk_norm=after" EVERYWHERE_DROPPED },
        { "several_encodings",  MODERN,
          "encoding=learned+sinusoidal+continuous+lrope+relative+t5+alibi" },
        { "two_threads",        MODERN,     "encoding=rope threads=2 channels=64 hidden=256" },
        { "bf16",               MODERN,     "encoding=rope precision=bf16" },
        { "recompute",          MODERN,
          "encoding=lrope+t5:per_layer=1 recompute=1 layers=3" EVERYWHERE_DROPPED },
        { "recompute_post_norm", CLASSIFIER,
          "encoding=learned+relative norm_place=post recompute=1 layers=3" EVERYWHERE_DROPPED },
        { "recompute_bf16",     NEXT_TOKEN, "encoding=rope precision=bf16 recompute=1" }
    };
    RUN_TEST(every_entry_of_the_table_is_wrapped);
    label_test("reading"); RUN_TESTp(reading_a_tensor_from_outside_is_deadly, 0);
    label_test("writing"); RUN_TESTp(reading_a_tensor_from_outside_is_deadly, 1);
    for (int e = 0; posenc_encoding_get(e); e++) {
        for (int k = 0; k < KINDS; k++) {
            char more[80];
            snprintf(more, sizeof more, "encoding=%s", posenc_encoding_get(e)->name);
            label_test("%s_%s", kinds[k].name, posenc_encoding_get(e)->name);
            RUN_TESTp(trains_with_the_cpus_bits, k, more);
        }
    }
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        label_test("%s", variants[i].name);
        RUN_TESTp(trains_with_the_cpus_bits, variants[i].kind, variants[i].more);
    }
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(inference_runs_locked_too, k);
    }
    label_test("rope"); RUN_TESTp(generation_runs_locked_too, "encoding=rope");
    label_test("lrope"); RUN_TESTp(generation_runs_locked_too, "encoding=lrope+t5");
    label_test("bf16"); RUN_TESTp(generation_runs_locked_too, "encoding=rope precision=bf16");
    RUN_TEST(cache_that_cannot_be_had_leaves_nothing_behind);
    RUN_TEST(culprit_is_found_without_looking_in);
    RUN_TEST(checkpoint_goes_through_the_table);
    RUN_TEST(trouble_of_the_device_reaches_the_caller);
    label_test("training"); RUN_TESTp(arena_that_cannot_be_had_leaves_nothing_behind, 0);
    label_test("inference"); RUN_TESTp(arena_that_cannot_be_had_leaves_nothing_behind, 1);
}

/* last: what the models above never used is dead weight in the table, or a hole in these tests */
SUITE(whole_table)
{
    for (int i = 0; i < ENTRIES; i++) {
        label_test("%s", entry_name[i]);
        RUN_TESTp(entry_was_called, i);
    }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(locked_back_end);
    RUN_SUITE(whole_table);
    GREATEST_MAIN_END();
}
