/* Checkpoints: what is saved comes back bit for bit, a run that was stopped goes on as if it had
   not been, and no file, however it was made, does anything but load or be refused with a
   sentence.                                                                                      */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
static void *rubbish(size_t bytes)                /* memory that is anything but zero             */
{
    void *memory = malloc(bytes);
    if (memory) memset(memory, 0xA5, bytes);
    return memory;
}
#define POSENC_MALLOC(bytes) rubbish(bytes)
#define POSENC_FREE(memory)  free(memory)
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "check.h"
#include "models.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static const char *const rich_encoding[KINDS] = { "learned+relative", "continuous:hidden=8+t5",
                                                  "lrope+alibi" };
static char path[256], temporary[260];            /* the checkpoint, and what it is called first  */

/* a model small enough that all of its file can be spoilt byte by byte */
#define SMALL "vocab=5 context=4 layers=1 channels=4 heads=2 hidden=4 no_bias=1 norm=rmsnorm " \
              "causal=1"

/* ---- whole files in memory ------------------------------------------------------------------- */

typedef struct file { unsigned char *at; size_t n; } file;

static file read_file(const char *name)
{
    file f = { NULL, 0 };
    FILE *in = fopen(name, "rb");
    if (!in) return f;
    fseek(in, 0, SEEK_END);
    f.n = (size_t)ftell(in);
    rewind(in);
    f.at = (unsigned char *)malloc(f.n + 1);
    if (fread(f.at, 1, f.n, in) != f.n) f.n = 0;
    fclose(in);
    return f;
}
static int write_file(const char *name, const void *at, size_t n)
{
    FILE *out = fopen(name, "wb");
    int good = out && fwrite(at, 1, n, out) == n;
    return out && fclose(out) == 0 && good;
}
static int file_is(const char *name, file f)
{
    file g = read_file(name);
    int same = g.at && g.n == f.n && !memcmp(f.at, g.at, f.n);
    free(g.at);
    return same;
}
static int exists(const char *name)
{
    struct stat s;
    return stat(name, &s) == 0;
}
static void put_length(unsigned char *to, uint64_t n)
{
    for (int i = 0; i < 8; i++) to[i] = (unsigned char)(n >> (8 * i));
}
static size_t get_length(const unsigned char *from)
{
    uint64_t n = 0;
    for (int i = 0; i < 8; i++) n |= (uint64_t)from[i] << (8 * i);
    return (size_t)n;
}
/* writes length, header and data as a checkpoint */
static int write_checkpoint(const char *header, const void *data_at, size_t n)
{
    size_t length = strlen(header);
    unsigned char *all = (unsigned char *)malloc(8 + length + n + 1);
    int good;
    put_length(all, length);
    memcpy(all + 8, header, length);
    memcpy(all + 8 + length, data_at, n);
    good = write_file(path, all, 8 + length + n);
    free(all);
    return good;
}

static posenc_model *saved_model(int what, const char *config)
{
    posenc_error why;
    posenc_model *m = make_model("%s", config);
    if (!m || !train_steps(m, 0, 2)) return NULL;
    if (posenc_model_save(m, path, what, "n", &why) == POSENC_OK) return m;
    snprintf(check_text, sizeof check_text, "%.300s", why.text);
    return NULL;
}

/* ---- what is saved comes back ---------------------------------------------------------------- */

TEST resumed_run_has_the_bits_of_the_uninterrupted_one(int k)
{
    posenc_model *whole = make_model("%s encoding=%s seed=3" EVERYWHERE_DROPPED, kinds[k].config,
                                     rich_encoding[k]);
    posenc_model *half = make_model("%s encoding=%s seed=3" EVERYWHERE_DROPPED, kinds[k].config,
                                    rich_encoding[k]);
    posenc_model *rest = make_model("%s encoding=%s seed=4" EVERYWHERE_DROPPED, kinds[k].config,
                                    rich_encoding[k]);
    posenc_error why;
    ASSERTm(check_text, whole && half && rest);
    ASSERTm(check_text, train_steps(whole, 0, 10) && train_steps(half, 0, 5)
            && train_steps(rest, 0, 1));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_save(half, path, POSENC_WEIGHTS_AND_STATE, NULL, &why));
    ASSERT_FALSE(exists(temporary));
    posenc_model_free(half);
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_load(rest, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    ASSERT_EQ(5, posenc_model_steps(rest));
    ASSERT_EQm("the seed is part of the state", 3, posenc_model_config(rest)->seed);
    ASSERTm(check_text, train_steps(rest, 5, 5) && same_state(whole, rest));
    posenc_model_free(whole);
    posenc_model_free(rest);
    PASS();
}

/* The same with nothing left of the first process but the file, which says what to make. */
TEST run_goes_on_in_another_process(void)
{
    posenc_model *whole = make_model("%s encoding=lrope" EVERYWHERE_DROPPED, kinds[MODERN].config);
    posenc_model *end;
    posenc_error why;
    int status = 0;
    ASSERTm(check_text, whole);
    remove(path);
    for (int half = 0; half < 2; half++) {
        pid_t child;
        fflush(NULL);
        child = fork();
        ASSERT(child >= 0);
        if (child == 0) {
            char spec[POSENC_SPEC_TEXT];
            posenc_config c;
            posenc_model *m = NULL;
            if (half == 0) {
                m = make_model("%s encoding=lrope" EVERYWHERE_DROPPED, kinds[MODERN].config);
            } else if (posenc_checkpoint_config(&c, spec, path, &why) == POSENC_OK) {
                c.threads = 1;
                posenc_model_create(&m, &c, &why);
                if (!m) _exit(2);
                if (posenc_model_load(m, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why)) _exit(2);
            }
            if (!m || !train_steps(m, 5 * half, 5)) _exit(3);
            _exit(posenc_model_save(m, path, POSENC_WEIGHTS_AND_STATE, NULL, &why) ? 4 : 0);
        }
        ASSERT_EQ(child, waitpid(child, &status, 0));
        ASSERT(WIFEXITED(status));
        ASSERT_EQ(0, WEXITSTATUS(status));
    }
    end = make_model("%s encoding=lrope" EVERYWHERE_DROPPED, kinds[MODERN].config);
    ASSERTm(check_text, end && train_steps(whole, 0, 10));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_load(end, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    ASSERTm(check_text, same_state(whole, end));
    posenc_model_free(whole);
    posenc_model_free(end);
    PASS();
}

/* A process that is killed while it saves over and over leaves a whole file every time. */
TEST killed_while_saving_leaves_a_whole_file(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS_AND_STATE, SMALL);
    posenc_error why;
    ASSERTm(check_text, m);
    for (int round = 0; round < 5; round++) {
        struct timespec pause = { 0, 0 };
        int status;
        pid_t child;
        pause.tv_nsec = (7 + 3 * round) * 1000000L;
        fflush(NULL);
        child = fork();
        ASSERT(child >= 0);
        while (child == 0)
            if (posenc_model_save(m, path, POSENC_WEIGHTS_AND_STATE, "again", &why)) _exit(1);
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        ASSERT_EQ(child, waitpid(child, &status, 0));
        ASSERTm("the child stopped by itself: it could not save", WIFSIGNALED(status));
        ASSERT_EQm(why.text, POSENC_OK,
                   posenc_model_load(m, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    }
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(m, path, POSENC_WEIGHTS_AND_STATE, "", &why));
    ASSERT_FALSEm("a save removes what a killed one left", exists(temporary));
    posenc_model_free(m);
    PASS();
}

/* Gradients that were gathered for other weights are not those of the loaded ones. */
TEST load_forgets_gathered_gradients(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL);
    posenc_float *g;
    posenc_error why;
    double loss, sum = 0;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, 1, 4, 3);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    g = copy_of(m, GRADIENTS);
    for (size_t i = 0; i < posenc_model_numbers(m); i++) sum += fabs((double)g[i]);
    ASSERT_EQ(0.0, sum);
    free(g);
    posenc_model_free(m);
    PASS();
}

TEST file_does_not_depend_on_the_number_of_threads(void)
{
    posenc_model *a = make_model("%s encoding=rope threads=1", kinds[MODERN].config);
    posenc_model *b = make_model("%s encoding=rope threads=2", kinds[MODERN].config);
    posenc_error why;
    file f;
    ASSERTm(check_text, a && b && train_steps(a, 0, 2) && train_steps(b, 0, 2));
    ASSERT_EQ(POSENC_OK, posenc_model_save(a, path, POSENC_WEIGHTS_AND_STATE, "x", &why));
    f = read_file(path);
    ASSERT_EQ(POSENC_OK, posenc_model_save(b, path, POSENC_WEIGHTS_AND_STATE, "x", &why));
    ASSERT(file_is(path, f));
    free(f.at);
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

TEST note_comes_back_as_it_was(const char *note)
{
    static char got[20000], small[8];
    posenc_model *m = make_model(SMALL);
    posenc_error why;
    ASSERTm(check_text, m);
    memset(got, 'x', sizeof got);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(m, path, POSENC_WEIGHTS, note, &why));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_load(m, path, POSENC_WEIGHTS, got, sizeof got, &why));
    ASSERT_STR_EQ(note ? note : "", got);
    memset(small, 'x', sizeof small);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, small, 5, &why));
    ASSERT(strlen(small) <= 4 && !strncmp(small, got, strlen(small)));
    ASSERT_EQ('x', small[5]);
    posenc_model_free(m);
    PASS();
}

/* As other programs write it: escapes outside ASCII, in two halves beyond 16 bits. */
TEST note_of_others_is_read_with_all_its_escapes(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL);
    static const char written[] = "\"note\":\"\\u00fc\\u20AC\\ud83d\\ude00 "
                                  "\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"";
    char *header, note[64], *found;
    posenc_error why;
    file f;
    size_t length;
    ASSERTm(check_text, m);
    f = read_file(path);
    length = get_length(f.at);
    header = (char *)calloc(length + sizeof written + 1, 1);
    memcpy(header, f.at + 8, length);
    found = strstr(header, "\"note\":\"n\"");
    ASSERT(found);
    memmove(found + strlen(written), found + 10, strlen(found + 10) + 1);
    memcpy(found, written, strlen(written));
    ASSERT(write_checkpoint(header, f.at + 8 + length, f.n - 8 - length));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_load(m, path, POSENC_WEIGHTS, note, sizeof note, &why));
    ASSERT_STR_EQ("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80 \"\\/\b\f\n\r\tA", note);
    free(header);
    free(f.at);
    posenc_model_free(m);
    PASS();
}

TEST checkpoint_knows_its_config(int k)
{
    posenc_model *b = NULL, *a = make_model("%s encoding=%s norm_eps=1e-06 seed=77",
                                            kinds[k].config, rich_encoding[k]);
    char spec[POSENC_SPEC_TEXT], one[2048], two[2048];
    posenc_config c, d;
    posenc_error why;
    ASSERTm(check_text, a);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(a, path, POSENC_WEIGHTS, NULL, &why));
    memset(&c, 0xff, sizeof c);
    ASSERT_EQm(why.text, POSENC_OK, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERT_EQm("threads belong to the machine", 0, c.threads);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_create(&b, &c, &why));
    d = *posenc_model_config(a);
    d.threads = posenc_model_config(b)->threads;
    posenc_config_print(one, sizeof one, &d);
    posenc_config_print(two, sizeof two, posenc_model_config(b));
    ASSERT_STR_EQ(one, two);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(b, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, same_part(a, b, WEIGHTS, 0));
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

/* Where the header says a tensor is, there it is: read without the library's reader. */
TEST file_holds_what_its_header_says(const char *name, int part)
{
    static const char *const prefix[] = { "", "", "adam.m.", "adam.v." };
    posenc_model *m = saved_model(POSENC_WEIGHTS_AND_STATE, kinds[CLASSIFIER].config);
    char key[80], *header, *found;
    unsigned long begin = 0, end = 0;
    posenc_tensor *t;
    posenc_float *x;
    size_t length;
    file f;
    ASSERTm(check_text, m);
    t = posenc_model_find(m, name);
    ASSERTm(name, t);
    f = read_file(path);
    length = get_length(f.at);
    ASSERT_EQm("data begin on a cache line", 0, (8 + length) % 64);
    header = (char *)calloc(length + 1, 1);
    memcpy(header, f.at + 8, length);
    snprintf(key, sizeof key, "\"%s%s\":{\"dtype\":\"F32\"", prefix[part], name);
    found = strstr(header, key);
    ASSERTm(key, found);
    found = strstr(found, "\"data_offsets\":[");
    ASSERT(found && sscanf(found, "\"data_offsets\":[%lu,%lu]", &begin, &end) == 2);
    ASSERT_EQ(t->count * 4, end - begin);
    ASSERT(8 + length + end <= f.n);
    x = copy_tensor(m, part_of(t, part), t->count);
    ASSERT_MEM_EQ(x, &f.at[8 + length + begin], t->count * 4);
    free(x);
    free(header);
    free(f.at);
    posenc_model_free(m);
    PASS();
}

/* ---- other people's number formats ----------------------------------------------------------- */

/* the value of a pattern of bits, from the definition of the format */
static double value_of(unsigned bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int e = (int)(bits >> fraction_bits) & top, f = (int)(bits & ((1u << fraction_bits) - 1));
    double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
    if (e == top) return f ? NAN : sign * HUGE_VAL;
    return sign * ldexp(e ? f + (1 << fraction_bits) : f, (e ? e : 1) - bias - fraction_bits);
}

/* A file of one type whose largest tensor holds all 65,536 patterns of 16 bits. */
TEST every_number_of_a_16_bit_format_is_read(const char *type, int exponent_bits, int fraction_bits)
{
    posenc_model *m = make_model("vocab=4096 context=4 layers=1 channels=16 heads=1 hidden=4 "
                                 "no_bias=1 tied_head=1");
    unsigned char *data_at = (unsigned char *)calloc(200000, 1);
    posenc_float *x;
    posenc_error why;
    posenc_tensor *t;
    char header[8192];
    size_t used = 1, at = 0;
    ASSERTm(check_text, m);
    strcpy(header, "{");
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        t = posenc_model_parameter(m, i);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d",
                                 i ? "," : "", t->name, type, t->shape[0]);
        if (t->dims == 2)
            used += (size_t)snprintf(header + used, sizeof header - used, ",%d", t->shape[1]);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "],\"data_offsets\":[%lu,%lu]}",
                                 (unsigned long)at, (unsigned long)(at + 2 * t->count));
        for (size_t k = 0; k < t->count && t->count == 65536; k++) {
            data_at[at + 2 * k] = (unsigned char)k;
            data_at[at + 2 * k + 1] = (unsigned char)(k >> 8);
        }
        at += 2 * t->count;
    }
    strcat(header, "}");
    ASSERT(write_checkpoint(header, data_at, at));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    t = posenc_model_find(m, "token_embedding.weight");
    ASSERT_EQ(65536, t->count);
    x = copy_tensor(m, t->data, t->count);
    for (unsigned k = 0; k < 65536; k++) {
        double v = value_of(k, exponent_bits, fraction_bits);
        if (v != v) ASSERT(x[k] != x[k]);
        else        ASSERT(x[k] == (posenc_float)v && !signbit(x[k]) == !signbit(v));
    }
    free(x);
    free(data_at);
    posenc_model_free(m);
    PASS();
}

/* Tensors of four types in one file, in another order than the model's, with blanks all over. */
TEST types_may_be_mixed_and_lie_in_any_order(void)
{
    static const char *const types[] = { "F64", "F16", "F32", "BF16" };
    static const int width[] = { 8, 2, 4, 2 };
    posenc_model *m = make_model(SMALL);
    static unsigned char data_at[65536];
    static char header[8192];
    posenc_error why;
    size_t used = 0, at = 0;
    int n;
    ASSERTm(check_text, m);
    n = posenc_model_parameters(m);
    used += (size_t)snprintf(header, sizeof header, " { ");
    for (int i = n - 1; i >= 0; i--) {
        posenc_tensor *t = posenc_model_parameter(m, i);
        int type = i % 4;
        for (size_t k = 0; k < t->count; k++) {                 /* 1 + k/64: exact in all of them */
            double v = 1 + (double)(k % 64) / 64;
            float f = (float)v;
            uint32_t bits;
            uint16_t half;
            memcpy(&bits, &f, 4);
            half = (uint16_t)(type == 1 ? 0x3C00 + (k % 64) * 16 : bits >> 16);
            if (type == 0)      memcpy(data_at + at + 8 * k, &v, 8);
            else if (type == 2) memcpy(data_at + at + 4 * k, &f, 4);
            else                memcpy(data_at + at + 2 * k, &half, 2);
        }
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\n\t\"%s\" : { \"data_offsets\" : [ %lu , %lu ] , "
                                 "\"shape\" : [ %d", i == n - 1 ? "" : " ,", t->name,
                                 (unsigned long)at,
                                 (unsigned long)(at + t->count * (size_t)width[type]), t->shape[0]);
        if (t->dims == 2)
            used += (size_t)snprintf(header + used, sizeof header - used, " ,\r %d", t->shape[1]);
        used += (size_t)snprintf(header + used, sizeof header - used, " ] , \"dtype\" : \"%s\" }",
                                 types[type]);
        at += t->count * (size_t)width[type];
    }
    snprintf(header + used, sizeof header - used, " } \n");
    ASSERT(write_checkpoint(header, data_at, at));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    for (int i = 0; i < n; i++) {
        posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *x = copy_tensor(m, t->data, t->count);
        for (size_t k = 0; k < t->count; k++)
            ASSERT_EQm(t->name, (posenc_float)(1 + (double)(k % 64) / 64), x[k]);
        free(x);
    }
    ASSERT_EQm("it has no state", POSENC_BAD_FILE,
               posenc_model_load(m, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    posenc_model_free(m);
    PASS();
}

/* ---- what does not fit the model ------------------------------------------------------------- */

TEST weights_alone_cannot_resume_a_run(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL), *twin = make_model(SMALL);
    posenc_error why;
    ASSERTm(check_text, m && twin && train_steps(twin, 0, 2));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_model_load(m, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, "adam.m.", (char *)0));
    ASSERTm(check_text, same_state(m, twin));
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST state_serves_as_weights_and_leaves_the_step_alone(void)
{
    posenc_model *a = saved_model(POSENC_WEIGHTS_AND_STATE, SMALL);
    posenc_model *b = make_model(SMALL " seed=8");
    posenc_model *lean = make_model(SMALL " inference=1");
    posenc_error why;
    ASSERTm(check_text, a && b && lean && train_steps(b, 0, 1));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(b, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, same_part(a, b, WEIGHTS, 0));
    ASSERT_EQ(1, posenc_model_steps(b));
    ASSERT_EQ(8, posenc_model_config(b)->seed);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(lean, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, same_part(a, lean, WEIGHTS, 0));
    ASSERT_EQ(POSENC_BAD_CONFIG,
              posenc_model_load(lean, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, "inference", (char *)0));
    ASSERT_EQ(POSENC_BAD_CONFIG,
              posenc_model_save(lean, path, POSENC_WEIGHTS_AND_STATE, NULL, &why));
    ASSERTm(check_text, mentions(why.text, "inference", (char *)0));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(lean, path, POSENC_WEIGHTS, NULL, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(a, path, POSENC_WEIGHTS, NULL, 0, &why));
    posenc_model_free(a);
    posenc_model_free(b);
    posenc_model_free(lean);
    PASS();
}

TEST another_geometry_is_refused_with_both(const char *more, const char *said1, const char *said2)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL), *other = make_model(SMALL " %s", more);
    posenc_model *twin = make_model(SMALL " %s", more);
    posenc_error why;
    ASSERTm(check_text, m && other && twin);
    ASSERT_EQ(POSENC_BAD_FILE, posenc_model_load(other, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, said1, said2, (char *)0));
    ASSERTm(check_text, same_state(other, twin));
    posenc_model_free(m);
    posenc_model_free(other);
    posenc_model_free(twin);
    PASS();
}

/* ---- files that lie -------------------------------------------------------------------------- */

/* 1 when the file is refused with a sentence and m is as its twin is */
static int refused(posenc_model *m, posenc_model *twin, int what)
{
    posenc_error why;
    posenc_config c;
    char spec[POSENC_SPEC_TEXT];
    posenc_status status;
    why.text[0] = 0;
    status = posenc_model_load(m, path, what, NULL, 0, &why);
    if (status != POSENC_BAD_FILE || strlen(why.text) < 10 || strlen(why.text) >= sizeof why.text) {
        snprintf(check_text, sizeof check_text, "%s: '%.300s'", posenc_explain(status), why.text);
        return 0;
    }
    posenc_checkpoint_config(&c, spec, path, &why);
    return same_state(m, twin);
}

TEST truncated_file_is_refused(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS_AND_STATE, SMALL), *twin;
    file f;
    ASSERTm(check_text, m && (twin = make_model(SMALL)) && train_steps(twin, 0, 2));
    f = read_file(path);
    for (size_t n = 0; n < f.n; n += 97) {
        ASSERT(write_file(path, f.at, n));
        ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS_AND_STATE));
    }
    ASSERT(write_file(path, f.at, f.n - 1));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    f.at[f.n] = 0;                                                  /* one byte too many */
    ASSERT(write_file(path, f.at, f.n + 1));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS_AND_STATE));
    free(f.at);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST wrong_header_length_is_refused(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL), *twin;
    uint64_t right, wrong[12];
    file f;
    ASSERTm(check_text, m && (twin = make_model(SMALL)) && train_steps(twin, 0, 2));
    f = read_file(path);
    right = get_length(f.at);
    wrong[0] = 0;            wrong[1] = 1;            wrong[2] = 2;
    wrong[3] = right - 64;   wrong[4] = right + 1;    wrong[5] = f.n - 8;
    wrong[6] = f.n;          wrong[7] = 100000001;    wrong[8] = 0x7fffffff;
    wrong[9] = 0xffffffffu;  wrong[10] = (uint64_t)1 << 63;
    wrong[11] = ~(uint64_t)0;
    for (int i = 0; i < 12; i++) {
        put_length(f.at, wrong[i]);
        ASSERT(write_file(path, f.at, f.n));
        ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    }
    free(f.at);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

/* Pieces of a good header of SMALL, and lies. norm.weight is 4 numbers at 80 to 96. */
#define OFFSETS    "\"data_offsets\":[80,96]"
#define TYPE(word) "\"norm.weight\":{\"dtype\":" word
#define ENTRY      TYPE("\"F32\"") ",\"shape\":[4]," OFFSETS "}"
static const struct lie { const char *name, *from, *to; } lies[] = {
    { "offsets_overlap",             "[80,96]",     "[76,92]" },
    { "offsets_leave_a_gap",         "[80,96]",     "[84,100]" },
    { "offsets_of_another_tensor",   "[80,96]",  "[0,16]" },
    { "offsets_reversed",            "[80,96]",     "[96,80]" },
    { "offsets_too_long",            "[80,96]",     "[80,100]" },
    { "offsets_too_short",           "[80,96]",     "[80,92]" },
    { "offsets_beyond_the_file",     "[80,96]",    "[1000000,1000016]" },
    { "offsets_huge",                "[80,96]",     "[9007199254740976,9007199254740992]" },
    { "offsets_past_64_bits",        "[80,96]",
      "[99999999999999999999999980,99999999999999999999999996]" },
    { "offsets_negative",            "[80,96]",     "[-16,0]" },
    { "offsets_fractional",          "[80,96]",     "[80.0,96.0]" },
    { "offsets_exponential",         "[80,96]",     "[8e1,96]" },
    { "offsets_one",                 "[80,96]",     "[80]" },
    { "offsets_three",               "[80,96]",     "[80,96,97]" },
    { "offsets_none",                "[80,96]",     "[]" },
    { "offsets_text",                "[80,96]",     "\"80,96\"" },
    { "offsets_null",                "[80,96]",     "null" },
    { "offsets_not_closed",          "[80,96]}",    "[80,96}" },
    { "shape_larger",                "[4]," OFFSETS, "[5]," OFFSETS },
    { "shape_of_nothing",            "[4]," OFFSETS, "[0],\"data_offsets\":[80,80]" },
    { "shape_of_a_number",           "[4]," OFFSETS, "[]," OFFSETS },
    { "shape_split",                 "[4]," OFFSETS, "[2,2]," OFFSETS },
    { "shape_with_ones",             "[4]," OFFSETS, "[4,1]," OFFSETS },
    { "shape_of_five",               "[4]," OFFSETS, "[4,1,1,1,1]," OFFSETS },
    { "shape_product_past_64_bits",  "[4]," OFFSETS, "[4294967296,4294967296]," OFFSETS },
    { "shape_product_wraps_to_4",    "[4]," OFFSETS, "[2147483649,2147483649,4,4]," OFFSETS },
    { "shape_zero_times_huge",       "[4]," OFFSETS,
      "[0,9007199254740991],\"data_offsets\":[80,80]" },
    { "shape_huge",                  "[4]," OFFSETS, "[9007199254740993]," OFFSETS },
    { "shape_negative",              "[4]," OFFSETS, "[-4]," OFFSETS },
    { "shape_nested",                "[4]," OFFSETS, "[[4]]," OFFSETS },
    { "shape_missing",               "\"shape\":[4]," OFFSETS, OFFSETS },
    { "type_integer",                TYPE("\"F32\""), TYPE("\"I32\"") },
    { "type_quarter",                TYPE("\"F32\""), TYPE("\"F8_E4M3\"") },
    { "type_empty",                  TYPE("\"F32\""), TYPE("\"\"") },
    { "type_number",                 TYPE("\"F32\""), TYPE("32") },
    { "type_wider",                  TYPE("\"F32\""), TYPE("\"F64\"") },
    { "type_narrower",               TYPE("\"F32\""), TYPE("\"F16\"") },
    { "type_missing",                TYPE("\"F32\","), "\"norm.weight\":{" },
    { "name_twice",                  "\"norm.weight\"", "\"lm_head.weight\"" },
    { "name_twice_in_disguise",      "\"norm.weight\"", "\"lm_head\\u002eweight\"" },
    { "name_unknown",                "\"norm.weight\"", "\"norm.wait\"" },
    { "name_of_an_activation",       "\"norm.weight\"", "\"embedding\"" },
    { "name_empty",                  "\"norm.weight\"", "\"\"" },
    { "name_with_a_zero",            "\"norm.weight\"", "\"norm.weight\\u0000\"" },
    { "name_with_half_an_escape",    "\"norm.weight\"", "\"norm.weight\\u00\"" },
    { "name_with_a_bad_escape",      "\"norm.weight\"", "\"norm\\.weight\"" },
    { "name_with_a_line_break",      "\"norm.weight\"", "\"norm.\nweight\"" },
    { "name_not_quoted",             "\"norm.weight\"", "norm.weight" },
    { "name_not_closed",             "\"norm.weight\"", "\"norm.weight" },
    { "field_unknown",               "\"norm.weight\":{", "\"norm.weight\":{\"size\":16," },
    { "field_empty",                 ENTRY, "\"norm.weight\":{}" },
    { "entry_is_null",               ENTRY, "\"norm.weight\":null" },
    { "entry_is_missing",            ENTRY ",", "" },
    { "comma_missing",               "[80,96]},", "[80,96]}" },
    { "comma_twice",                 "[80,96]},", "[80,96]},," },
    { "comma_at_the_end",            "[80,96]},", "[80,96],}," },
    { "colon_missing",               "\"norm.weight\":", "\"norm.weight\"" },
    { "metadata_of_numbers",         "\"note\":\"n\"", "\"note\":5" },
    { "metadata_nested",             "\"note\":\"n\"", "\"note\":{}" },
    { "metadata_not_closed",         "\"note\":\"n\"}", "\"note\":\"n\"" },
    { "metadata_with_a_line_break",  "\"note\":\"n\"", "\"note\":\"n\n\"" },
    { "metadata_is_a_list",          "\"note\":\"n\"}", "\"note\":\"n\"],[\"" },
    { "ends_in_a_word",              "]}}", "]}}x" },
    { "ends_twice",                  "]}}", "]}}}" },
    { "ends_and_begins_again",       "]}}", "]}}{}" },
    { "ends_too_early",              "]}}", "]}" },
    { "begins_otherwise",            "{\"__metadata__\"", "[\"__metadata__\"" },
    { "begins_twice",                "{\"__metadata__\"", "{{\"__metadata__\"" },
    { "begins_with_a_mark",          "{\"__metadata__\"", "\xef\xbb\xbf{\"__metadata__\"" }
};

/* the header of f with the first `from` replaced; data as they are */
static int write_lie(file f, const char *from, const char *to)
{
    size_t length = get_length(f.at), room = length + strlen(to) + 1;
    char *header = (char *)calloc(room, 1), *copy = (char *)calloc(length + 1, 1), *found;
    int good;
    memcpy(copy, f.at + 8, length);
    found = strstr(copy, from);
    if (found)
        snprintf(header, room, "%.*s%s%s", (int)(found - copy), copy, to, found + strlen(from));
    good = found && write_checkpoint(header, f.at + 8 + length, f.n - 8 - length);
    free(header);
    free(copy);
    snprintf(check_text, sizeof check_text, "'%s' is not in the header that was saved", from);
    return good;
}

TEST lie_is_refused_and_changes_nothing(const struct lie *l)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL), *twin;
    file f;
    ASSERTm(check_text, m && (twin = make_model(SMALL)) && train_steps(twin, 0, 2));
    f = read_file(path);
    ASSERTm(check_text, write_lie(f, l->from, l->to));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    free(f.at);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST sentence_about_a_lie_has_its_numbers(const char *from, const char *to, const char *said1,
                                          const char *said2)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL);
    posenc_error why;
    file f;
    ASSERTm(check_text, m);
    f = read_file(path);
    ASSERTm(check_text, write_lie(f, from, to));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, "norm.weight", said1, said2, (char *)0));
    free(f.at);
    posenc_model_free(m);
    PASS();
}

/* Writes a sound file for m, all zeros, whose first tensor has another shape, or with one more. */
static int write_crafted(posenc_model *m, const char *shape, size_t numbers, const char *more)
{
    static const unsigned char zeros[4096];
    char header[4096];
    size_t used = 1, at = 0;
    strcpy(header, "{");
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        size_t bytes = 4 * (i || !shape ? t->count : numbers);
        char own[40];
        snprintf(own, sizeof own, t->dims == 2 ? "%d,%d" : "%d", t->shape[0], t->shape[1]);
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
                                 "\"data_offsets\":[%lu,%lu]},", t->name, i || !shape ? own : shape,
                                 (unsigned long)at, (unsigned long)(at + bytes));
        at += bytes;
    }
    if (more) {
        snprintf(header + used, sizeof header - used,
                 "\"%s\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[%lu,%lu]}}",
                 more, (unsigned long)at, (unsigned long)(at + 16));
        at += 16;
    } else {
        strcpy(header + used - 1, "}");
    }
    return write_checkpoint(header, zeros, at);
}

/* Everything else about the file is right, so the shape alone must give it away. */
TEST sound_file_with_another_shape_is_refused(const char *shape, int numbers)
{
    posenc_model *m = make_model(SMALL), *twin = make_model(SMALL);
    posenc_error why;
    ASSERTm(check_text, m && twin);
    ASSERT(write_crafted(m, shape, (size_t)numbers, NULL));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, "token_embedding.weight", "5 x 4", (char *)0));
    ASSERTm(why.text, !strstr(why.text, "119361"));        /* 0xA5A5A5A5A5A5A5A5 begins like this */
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST sound_file_with_one_tensor_more_is_refused(const char *more, const char *said)
{
    posenc_model *m = make_model(SMALL), *twin = make_model(SMALL);
    posenc_error why;
    ASSERTm(check_text, m && twin);
    ASSERT(write_crafted(m, NULL, 0, more));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, more, said, (char *)0));
    ASSERT(write_crafted(m, NULL, 0, NULL));                    /* without it the file is welcome */
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

/* 4 x 1048577 x 1099510579201 numbers are 16 bytes when counted in 64 bits, but not in truth. */
TEST shape_that_wraps_around_is_refused_without_a_model(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL);
    posenc_config c;
    posenc_error why;
    char spec[POSENC_SPEC_TEXT];
    file f;
    ASSERTm(check_text, m);
    f = read_file(path);
    ASSERT_EQm(why.text, POSENC_OK, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERTm(check_text,
            write_lie(f, "[4],\"data_offsets\":[80,96]",
                      "[4,1048577,1099510579201],\"data_offsets\":[80,96]"));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERTm(check_text, mentions(why.text, path, "norm.weight", (char *)0));
    free(f.at);
    posenc_model_free(m);
    PASS();
}

TEST state_that_lies_is_refused(const char *from, const char *to)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS_AND_STATE, SMALL), *twin;
    file f;
    ASSERTm(check_text, m && (twin = make_model(SMALL)) && train_steps(twin, 0, 2));
    f = read_file(path);
    ASSERTm(check_text, write_lie(f, from, to));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS_AND_STATE));
    free(f.at);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST deep_nesting_is_refused(const char *unit)
{
    enum { DEEP = 200000 };
    posenc_model *m = make_model(SMALL), *twin = make_model(SMALL);
    char *header = (char *)malloc(DEEP * strlen(unit) + 1), *at = header;
    ASSERTm(check_text, m && twin);
    for (int i = 0; i < DEEP; i++) { memcpy(at, unit, strlen(unit)); at += strlen(unit); }
    *at = 0;
    ASSERT(write_checkpoint(header, "", 0));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    free(header);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

/* A hundred thousand tensors of no size: refused without comparing each with each. */
TEST crowd_of_tensors_is_refused(void)
{
    enum { CROWD = 100000 };
    posenc_model *m = make_model(SMALL), *twin = make_model(SMALL);
    char *header = (char *)malloc((size_t)CROWD * 80 + 16);
    size_t used = 1;
    ASSERTm(check_text, m && twin);
    strcpy(header, "{");
    for (int i = 0; i < CROWD; i++)
        used += (size_t)sprintf(header + used,
                                "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],"
                                "\"data_offsets\":[0,0]}",
                                i ? "," : "", i);
    strcpy(header + used, "}");
    ASSERT(write_checkpoint(header, "", 0));
    ASSERTm(check_text, refused(m, twin, POSENC_WEIGHTS));
    free(header);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST what_is_no_file_is_refused(void)
{
    static const struct { const char *name; const char *bytes; size_t n; } list[] = {
        { "empty",          "", 0 },
        { "seven bytes",    "\2\0\0\0\0\0\0", 7 },
        { "length alone",   "\2\0\0\0\0\0\0\0", 8 },
        { "half a header",  "\2\0\0\0\0\0\0\0{", 9 },
        { "nothing inside", "\2\0\0\0\0\0\0\0{}", 10 },
        { "a list",         "\2\0\0\0\0\0\0\0[]", 10 },
        { "data too many",  "\2\0\0\0\0\0\0\0{}x", 11 },
        { "text",           "This is not a safetensors file at all, it is a sentence.\n", 57 }
    };
    posenc_model *m = make_model(SMALL), *twin = make_model(SMALL);
    posenc_error why;
    posenc_config c;
    char spec[POSENC_SPEC_TEXT];
    ASSERTm(check_text, m && twin);
    for (int i = 0; i < 8; i++) {
        ASSERT(write_file(path, list[i].bytes, list[i].n));
        ASSERTm(list[i].name, refused(m, twin, POSENC_WEIGHTS));
        ASSERT_EQm(list[i].name, POSENC_BAD_FILE, posenc_checkpoint_config(&c, spec, path, &why));
    }
    remove(path);
    ASSERT_EQ(POSENC_FILE, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, strerror(ENOENT), (char *)0));
    ASSERT_EQ(POSENC_FILE, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERTm(check_text, mentions(why.text, path, (char *)0));
    ASSERT_EQ(0, mkdir(path, 0700));                                               /* a folder */
    ASSERT_NEQ(POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, mentions(why.text, path, (char *)0));
    ASSERT_EQ(0, rmdir(path));
    ASSERTm(check_text, same_state(m, twin));
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

/* A foreign file has no config of ours: it is weights, and nothing else. */
TEST file_of_others_has_no_config(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS, SMALL);
    posenc_config c;
    posenc_error why;
    char spec[POSENC_SPEC_TEXT];
    file f;
    ASSERTm(check_text, m);
    f = read_file(path);
    ASSERTm(check_text, write_lie(f, "\"posenc\":", "\"other\":"));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERTm(check_text, mentions(why.text, path, "config", (char *)0));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERTm(check_text, write_lie(f, "vocab=5", "vocab=-5"));
    ASSERT_EQ(POSENC_BAD_FILE, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERTm(check_text, mentions(why.text, "vocab", "-5", (char *)0));
    free(f.at);
    posenc_model_free(m);
    PASS();
}

/* ---- a disk that will not take it ------------------------------------------------------------ */

/* A limit on the size of files stands in for a disk that is full. */
TEST full_disk_leaves_the_old_checkpoint(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS_AND_STATE, kinds[NEXT_TOKEN].config);
    struct rlimit before, small;
    posenc_error why;
    file f;
    ASSERTm(check_text, m && train_steps(m, 2, 1));
    f = read_file(path);
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    signal(SIGXFSZ, SIG_IGN);
    for (size_t room = 0; room < f.n; room = room ? room * 5 : 7) {
        posenc_status status;
        small = before;
        small.rlim_cur = (rlim_t)room;
        ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &small));
        why.text[0] = 0;
        status = posenc_model_save(m, path, POSENC_WEIGHTS_AND_STATE, "new", &why);
        ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &before));              /* the report is a file, too */
        ASSERT_EQ(POSENC_FILE, status);
        ASSERTm(check_text, mentions(why.text, path, strerror(EFBIG), (char *)0));
        ASSERT(file_is(path, f));
        ASSERT_FALSE(exists(temporary));
    }
    small.rlim_cur = (rlim_t)f.n - 1;                                         /* all but one byte */
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &small));
    ASSERT_EQ(POSENC_FILE, posenc_model_save(m, path, POSENC_WEIGHTS_AND_STATE, "n", &why));
    ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &before));
    ASSERT(file_is(path, f) && !exists(temporary));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_save(m, path, POSENC_WEIGHTS_AND_STATE, "n", &why));
    ASSERT_FALSE(file_is(path, f));
    free(f.at);
    posenc_model_free(m);
    PASS();
}

TEST folder_that_is_missing_is_named(void)
{
    posenc_model *m = make_model(SMALL);
    char nowhere[300], lengthy[600];
    posenc_error why;
    ASSERTm(check_text, m);
    snprintf(nowhere, sizeof nowhere, "%s.missing/checkpoint", path);
    ASSERT_EQ(POSENC_FILE, posenc_model_save(m, nowhere, POSENC_WEIGHTS, "", &why));
    ASSERTm(check_text, mentions(why.text, nowhere, strerror(ENOENT), (char *)0));
    snprintf(lengthy, sizeof lengthy, "%s%0300d", path, 1);               /* no name is that long */
    ASSERT_EQ(POSENC_FILE, posenc_model_save(m, lengthy, POSENC_WEIGHTS, "", &why));
    ASSERTm(check_text, mentions(why.text, strerror(ENAMETOOLONG), (char *)0));
    posenc_model_free(m);
    PASS();
}

TEST folder_of_that_name_stays(void)
{
    posenc_model *m = make_model(SMALL);
    posenc_error why;
    ASSERTm(check_text, m);
    remove(path);
    ASSERT_EQ(0, mkdir(path, 0700));
    ASSERT_EQ(POSENC_FILE, posenc_model_save(m, path, POSENC_WEIGHTS, "", &why));
    ASSERTm(check_text, mentions(why.text, path, "nothing was changed", (char *)0));
    ASSERT_FALSE(exists(temporary));
    ASSERT_EQ(0, rmdir(path));
    posenc_model_free(m);
    PASS();
}

TEST read_only_folder_leaves_the_old_checkpoint(void)
{
    posenc_model *m = make_model(SMALL);
    char folder[300], inside[320];
    posenc_status status;
    posenc_error why;
    file f;
    ASSERTm(check_text, m);
    if (geteuid() == 0) { posenc_model_free(m); SKIPm("root may write into any folder"); }
    snprintf(folder, sizeof folder, "%s.folder", path);
    snprintf(inside, sizeof inside, "%s/checkpoint", folder);
    ASSERT_EQ(0, mkdir(folder, 0700));
    ASSERT_EQ(POSENC_OK, posenc_model_save(m, inside, POSENC_WEIGHTS, "old", &why));
    f = read_file(inside);
    ASSERT_EQ(0, chmod(folder, 0500));
    status = posenc_model_save(m, inside, POSENC_WEIGHTS, "new", &why);
    ASSERT_EQ(0, chmod(folder, 0700));
    ASSERT_EQ(POSENC_FILE, status);
    ASSERTm(check_text, mentions(why.text, inside, strerror(EACCES), (char *)0));
    ASSERT(file_is(inside, f));
    remove(inside);
    rmdir(folder);
    free(f.at);
    posenc_model_free(m);
    PASS();
}

/* ---- a thousand of each ---------------------------------------------------------------------- */

/* one or two small accidents in n bytes; returns the new length, at most room */
static size_t mutate(unsigned char *x, size_t n, size_t room, size_t interesting)
{
    static const char *const words[] = { "{", "}", "[", "]", "\"", ",", ":", "\\", "\\u0000", "9",
                                         "-", "0", "e9", "99999999999999999999", "null", " ", "=",
                                         "+", "__metadata__" };
    if (interesting > n) interesting = n;
    for (int k = 1 + check_random_below(2); k > 0 && n > 1; k--) {
        size_t within = check_random_below(8) && interesting < n ? interesting : n;
        size_t at = (size_t)check_random_below((int)within);
        size_t piece = 1 + (size_t)check_random_below(12);
        const char *word = words[check_random_below((int)(sizeof words / sizeof *words))];
        switch (check_random_below(7)) {
        case 0: x[at] ^= (unsigned char)(1u << check_random_below(8)); break;
        case 1: x[at] = (unsigned char)check_random_below(256); break;
        case 2:                                                                /* a piece is lost */
            if (at + piece > n) piece = n - at;
            memmove(x + at, x + at + piece, n - at - piece);
            n -= piece;
            break;
        case 3:                                                                 /* or comes twice */
            if (at + piece > n || n + piece > room) break;
            memmove(x + at + piece, x + at, n - at);
            n += piece;
            break;
        case 4: n = at; break;                                                  /* or is the last */
        case 5:                                                      /* a word is written over it */
            piece = strlen(word);
            if (at + piece <= n) memcpy(x + at, word, piece);
            break;
        default:                                                              /* or between */
            piece = strlen(word);
            if (n + piece > room) break;
            memmove(x + at + piece, x + at, n - at);
            memcpy(x + at, word, piece);
            n += piece;
        }
    }
    return n;
}

TEST thousand_mutated_checkpoints_load_or_are_refused(void)
{
    posenc_model *m = saved_model(POSENC_WEIGHTS_AND_STATE, SMALL " encoding=learned"), *twin;
    unsigned char *x;
    int loaded = 0, rejected = 0;
    size_t whole;
    posenc_error why;
    file f;
    ASSERTm(check_text, m && (twin = make_model(SMALL " encoding=learned"))
            && train_steps(twin, 0, 2));
    f = read_file(path);
    x = (unsigned char *)malloc(f.n + 4096);
    whole = get_length(f.at);
    check_seed = 2024;
    for (int i = 0; i < 1000; i++) {
        int what = i % 3 ? POSENC_WEIGHTS_AND_STATE : POSENC_WEIGHTS;
        char note[32], spec[POSENC_SPEC_TEXT];
        posenc_config c;
        posenc_status status;
        size_t n;
        memcpy(x, f.at, f.n);
        if (i % 2) {                               /* the header alone, with its length put right */
            size_t length = mutate(x + 8, whole, whole + 4096, whole);
            put_length(x, length);
            memcpy(x + 8 + length, f.at + 8 + whole, f.n - 8 - whole);
            n = f.n - whole + length;
        } else {                                                          /* anywhere in the file */
            n = mutate(x, f.n, f.n + 4096, 8 + whole);
        }
        ASSERT(write_file(path, x, n));
        why.text[0] = 0;
        posenc_checkpoint_config(&c, spec, path, &why);
        why.text[0] = 0;
        status = posenc_model_load(m, path, what, note, sizeof note, &why);
        if (status == POSENC_OK) {                  /* only data, or the note, or blanks were hit */
            loaded++;
            ASSERT(write_file(path, f.at, f.n));
            ASSERT_EQm(why.text, POSENC_OK,
                       posenc_model_load(m, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
        } else {
            rejected++;
            ASSERT_EQm(why.text, POSENC_BAD_FILE, status);
            ASSERT_GT(strlen(why.text), (size_t)10);
        }
        ASSERTm(check_text, same_state(m, twin));
    }
    ASSERT_GT(rejected, 500);
    ASSERT_GT(loaded, 10);
    free(x);
    free(f.at);
    posenc_model_free(m);
    posenc_model_free(twin);
    PASS();
}

TEST thousand_mutated_configs_make_a_model_or_are_refused(void)
{
    int good = 0, bad = 0;
    check_seed = 99;
    for (int i = 0; i < 1000; i++) {
        char text[1024], spec[POSENC_SPEC_TEXT];
        posenc_model *m = NULL;
        posenc_bytes bytes;
        posenc_error why;
        posenc_config c;
        posenc_status status;
        size_t n;
        snprintf(text, sizeof text, "%s encoding=%s seed=5 dropout_hidden=0.1",
                 kinds[i % KINDS].config, rich_encoding[i % KINDS]);
        n = mutate((unsigned char *)text, strlen(text), sizeof text - 1, sizeof text);
        text[n] = 0;
        memset(&c, 0, sizeof c);
        memset(&bytes, 0, sizeof bytes);
        why.text[0] = 0;
        status = posenc_config_parse(&c, spec, text, &why);
        c.threads = 1;
        if (status == POSENC_OK) status = posenc_model_bytes(&bytes, &c, &why);
        if (status == POSENC_OK && bytes.total < (size_t)1 << 24)
            status = posenc_model_create(&m, &c, &why);
        if (status == POSENC_OK) {
            good++;
            if (m && posenc_model_config(m)->batch < 9) ASSERTm(text, train_steps(m, 0, 1));
        } else {
            bad++;
            ASSERT_EQm(text, POSENC_BAD_CONFIG, status);
            ASSERT_GTm(text, strlen(why.text), (size_t)10);
            ASSERT(m == NULL);
        }
        posenc_model_free(m);
    }
    ASSERT_GT(good, 20);
    ASSERT_GT(bad, 100);
    PASS();
}

/* ---- the official library -------------------------------------------------------------------- */

/* PYTHON in the environment names the Python to ask. */
static int run_python(const char *script)
{
    const char *python = getenv("PYTHON");
    char command[2048];
    if (!python || !*python) python = "python3";
    snprintf(command, sizeof command, "'%s' -c '%s' >/dev/null 2>&1", python, script);
    fflush(NULL);
    return system(command);
}

TEST official_library_reads_and_writes_the_same_file(int what)
{
    posenc_model *m = make_model("%s encoding=lrope+learned", kinds[MODERN].config);
    posenc_model *other = make_model("%s encoding=lrope+learned seed=2", kinds[MODERN].config);
    posenc_error why;
    char script[1800], note[64];
    ASSERTm(check_text, m && other && train_steps(m, 0, 2) && train_steps(other, 0, 1));
    if (run_python("import safetensors, numpy") != 0) {
        posenc_model_free(m);
        posenc_model_free(other);
        SKIPm("no Python with safetensors and numpy; PYTHON may name one");
    }
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(m, path, what, "say \"\xc3\xbc\"\n", &why));
    snprintf(script, sizeof script,
             "from safetensors import safe_open\n"
             "from safetensors.numpy import save_file\n"
             "f = safe_open(\"%s\", \"np\")\n"
             "meta = f.metadata()\n"
             "assert meta[\"note\"] == \"say \\\"\\u00fc\\\"\\n\"\n"
             "assert meta[\"step\"] == \"2\" and meta[\"format\"] == \"pt\"\n"
             "all = {k: f.get_tensor(k) for k in f.keys()}\n"
             "assert len(all) == %d\n"
             "assert all[\"blocks.1.attn.k_proj.weight\"].shape == (8, 16)\n"
             "assert all[\"blocks.1.pe.lrope.scale\"].shape == (2,)\n"
             "save_file(all, \"%s\", meta)\n",
             path, posenc_model_parameters(m) * (what == POSENC_WEIGHTS_AND_STATE ? 3 : 1), path);
    ASSERT_EQm("the official library refuses our file", 0, run_python(script));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(other, path, what, note, sizeof note, &why));
    ASSERT_STR_EQ("say \"\xc3\xbc\"\n", note);
    if (what == POSENC_WEIGHTS_AND_STATE) ASSERTm(check_text, same_state(m, other));
    else                                  ASSERTm(check_text, same_part(m, other, WEIGHTS, 0));
    posenc_model_free(m);
    posenc_model_free(other);
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(coming_back)
{
    static char lengthy[15001];
    static const struct { const char *name, *note; } notes[] = {
        { "missing", NULL }, { "empty", "" }, { "plain", "epoch 3, loss 0.25" },
        { "quotes_and_slashes", "\"quoted\" \\back\\slash/ {\"json\":[1,2]}" },
        { "lines_and_tabs", "one\ntwo\r\n\tthree\b\f\x01\x1f\x7f" },
        { "UTF_8",
          "\xc3\xa4\xc3\xb6\xc3\xbc \xe2\x86\x92 \xe4\xbd\x8d\xe7\xbd\xae \xf0\x9f\x98\x80" },
        { "lengthy", lengthy }
    };
    memset(lengthy, '"', sizeof lengthy - 1);
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(resumed_run_has_the_bits_of_the_uninterrupted_one, k);
    }
    RUN_TEST(run_goes_on_in_another_process);
    RUN_TEST(killed_while_saving_leaves_a_whole_file);
    RUN_TEST(load_forgets_gathered_gradients);
    RUN_TEST(file_does_not_depend_on_the_number_of_threads);
    for (int i = 0; i < 7; i++) {
        label_test("%s", notes[i].name);
        RUN_TESTp(note_comes_back_as_it_was, notes[i].note);
    }
    RUN_TEST(note_of_others_is_read_with_all_its_escapes);
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(checkpoint_knows_its_config, k);
    }
    label_test("weights");
    RUN_TESTp(file_holds_what_its_header_says, "blocks.1.mlp.up_proj.weight", WEIGHTS);
    label_test("first_moments");
    RUN_TESTp(file_holds_what_its_header_says, "blocks.1.mlp.up_proj.weight", MOMENT1);
    label_test("second_moments");
    RUN_TESTp(file_holds_what_its_header_says, "blocks.0.attn.v_proj.bias", MOMENT2);
    label_test("F16"); RUN_TESTp(every_number_of_a_16_bit_format_is_read, "F16", 5, 10);
    label_test("BF16"); RUN_TESTp(every_number_of_a_16_bit_format_is_read, "BF16", 8, 7);
    RUN_TEST(types_may_be_mixed_and_lie_in_any_order);
    label_test("weights");
    RUN_TESTp(official_library_reads_and_writes_the_same_file, POSENC_WEIGHTS);
    label_test("state");
    RUN_TESTp(official_library_reads_and_writes_the_same_file, POSENC_WEIGHTS_AND_STATE);
}

SUITE(not_fitting)
{
    RUN_TEST(weights_alone_cannot_resume_a_run);
    RUN_TEST(state_serves_as_weights_and_leaves_the_step_alone);
    label_test("vocabulary");
    RUN_TESTp(another_geometry_is_refused_with_both, "vocab=6", "5 x 4", "6 x 4");
    label_test("hidden");
    RUN_TESTp(another_geometry_is_refused_with_both, "hidden=9", "4 x 4", "9 x 4");
    label_test("encoding");
    RUN_TESTp(another_geometry_is_refused_with_both, "encoding=learned", "has no",
              "pe.learned.weight");
    label_test("more_layers");
    RUN_TESTp(another_geometry_is_refused_with_both, "layers=2", "has no", "blocks.1.");
    label_test("fewer_tensors");
    RUN_TESTp(another_geometry_is_refused_with_both, "tied_head=1", "lacks", "lm_head.weight");
}

SUITE(lying)
{
    static const struct { const char *name, *from, *to; } states[] = {
        { "step_negative",    "\"step\":\"2\"", "\"step\":\"-2\"" },
        { "step_text",        "\"step\":\"2\"", "\"step\":\"two\"" },
        { "step_empty",       "\"step\":\"2\"", "\"step\":\"\"" },
        { "step_missing",     "\"step\":\"2\"", "\"stop\":\"2\"" },
        { "step_huge",        "\"step\":\"2\"", "\"step\":\"99999999999999999999\"" },
        { "step_with_a_tail", "\"step\":\"2\"", "\"step\":\"2 \"" },
        { "config_missing",   "\"posenc\":", "\"poseur\":" },
        { "config_unknown",   "vocab=5", "vocal=5" },
        { "moment_missing",   "adam.m.norm.weight", "adam.m.norm.wait" },
        { "moment_twice",     "adam.m.norm.weight", "adam.v.norm.weight" },
        { "moment_of_nobody", "adam.v.norm.weight", "adam.w.norm.weight" }
    };
    RUN_TEST(truncated_file_is_refused);
    RUN_TEST(wrong_header_length_is_refused);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        label_test("%s", lies[i].name);
        RUN_TESTp(lie_is_refused_and_changes_nothing, &lies[i]);
    }
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        label_test("%s", states[i].name);
        RUN_TESTp(state_that_lies_is_refused, states[i].from, states[i].to);
    }
    label_test("offsets");
    RUN_TESTp(sentence_about_a_lie_has_its_numbers, "[80,96]", "[84,100]", "84 to 100", "80 to 96");
    label_test("shape");
    RUN_TESTp(sentence_about_a_lie_has_its_numbers, "[4],\"data_offsets\":[80,96]",
              "[2,2],\"data_offsets\":[80,96]", "2 x 2", "4");
    label_test("number"); RUN_TESTp(sound_file_with_another_shape_is_refused, "", 1);
    label_test("fewer_rows"); RUN_TESTp(sound_file_with_another_shape_is_refused, "4,4", 16);
    label_test("fewer_columns"); RUN_TESTp(sound_file_with_another_shape_is_refused, "5,3", 15);
    label_test("transposed"); RUN_TESTp(sound_file_with_another_shape_is_refused, "4,5", 20);
    label_test("flat"); RUN_TESTp(sound_file_with_another_shape_is_refused, "20", 20);
    label_test("first_row"); RUN_TESTp(sound_file_with_another_shape_is_refused, "5", 5);
    label_test("three_deep"); RUN_TESTp(sound_file_with_another_shape_is_refused, "5,4,1", 20);
    label_test("twice");
    RUN_TESTp(sound_file_with_one_tensor_more_is_refused, "norm.weight", "twice");
    label_test("unknown");
    RUN_TESTp(sound_file_with_one_tensor_more_is_refused, "rotary.inv_freq", "lacks");
    label_test("unknown_state");
    RUN_TESTp(sound_file_with_one_tensor_more_is_refused, "adam.x", "lacks");
    label_test("activation");
    RUN_TESTp(sound_file_with_one_tensor_more_is_refused, "embedding", "lacks");
    RUN_TEST(shape_that_wraps_around_is_refused_without_a_model);
    label_test("braces"); RUN_TESTp(deep_nesting_is_refused, "{");
    label_test("lists"); RUN_TESTp(deep_nesting_is_refused, "[");
    label_test("objects"); RUN_TESTp(deep_nesting_is_refused, "{\"a\":");
    RUN_TEST(crowd_of_tensors_is_refused);
    RUN_TEST(what_is_no_file_is_refused);
    RUN_TEST(file_of_others_has_no_config);
}

SUITE(disks)
{
    RUN_TEST(full_disk_leaves_the_old_checkpoint);
    RUN_TEST(folder_that_is_missing_is_named);
    RUN_TEST(folder_of_that_name_stays);
    RUN_TEST(read_only_folder_leaves_the_old_checkpoint);
}

SUITE(thousands)
{
    RUN_TEST(thousand_mutated_checkpoints_load_or_are_refused);
    RUN_TEST(thousand_mutated_configs_make_a_model_or_are_refused);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    temporary_path(path, sizeof path, "checkpoint");
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    RUN_SUITE(coming_back);
    RUN_SUITE(not_fitting);
    RUN_SUITE(lying);
    RUN_SUITE(disks);
    RUN_SUITE(thousands);
    remove(path);
    remove(temporary);
    GREATEST_MAIN_END();
}
