/* Who asks for memory, when, how much, and what happens when there is none. Every allocation of
   the library goes through the two hooks below.                                                  */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

enum { LOG = 16 };
static size_t asked[LOG];                         /* sizes of the first allocations, in order     */
static int made, live, fail_at = -1, fill = 0xA5;
static size_t asked_bytes;

static void *hooked_malloc(size_t bytes)
{
    char *block = made == fail_at ? NULL : (char *)malloc(bytes + 16);
    if (made < LOG) asked[made] = bytes;
    made++;
    asked_bytes += bytes;
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    memset(block + 16, fill, bytes);              /* nobody may count on zeros                    */
    live++;
    return block + 16;
}
static void hooked_free(void *memory)
{
    char *block = (char *)memory - 16;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    memset(block + 16, 0xDD, bytes);
    live--;
    free(block);
}
#define POSENC_MALLOC(bytes) hooked_malloc(bytes)
#define POSENC_FREE(memory)  hooked_free(memory)
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "check.h"
#include "models.h"
#include "every_layer.h"

enum { B = 3, T = 7 };
static const char *const rich_encoding[KINDS] = { "learned+relative", "continuous+t5+sinusoidal",
                                                  "lrope+alibi" };

static void start_counting(int fail)
{
    made = 0;
    asked_bytes = 0;
    fail_at = fail;
    memset(asked, 0, sizeof asked);
}

/* ---- how much, and when ---------------------------------------------------------------------- */

/* is there an allocation of this size among the first n? */
static int was_asked(size_t bytes, int n)
{
    for (int i = 0; i < n && i < LOG; i++) if (asked[i] == bytes) return 1;
    return 0;
}

TEST model_takes_the_bytes_that_were_announced(int k, const char *more)
{
    char text[512], spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_bytes bytes;
    posenc_error why;
    posenc_model *m = NULL;
    memset(&c, 0, sizeof c);
    snprintf(text, sizeof text, "%s encoding=%s %s", kinds[k].config, rich_encoding[k], more);
    ASSERT_EQm(why.text, POSENC_OK, posenc_config_parse(&c, spec, text, &why));
    start_counting(-1);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_bytes(&bytes, &c, &why));
    ASSERT_EQm("asking how much takes nothing", 0, made);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_create(&m, &c, &why));
    ASSERT_EQm("one block per arena and one for the host", c.inference ? 4 : 6, made);
    ASSERT(was_asked(bytes.parameters, made));
    ASSERT(c.inference ? bytes.gradients == 0 : was_asked(bytes.gradients, made));
    ASSERT(c.inference ? bytes.moments == 0 : was_asked(bytes.moments, made));
    ASSERT_EQ(bytes.total, bytes.parameters + bytes.gradients + bytes.moments + bytes.activations);
    ASSERT_EQ_FMT(asked_bytes, bytes.total, "%zu");
    ASSERT_GTE(bytes.parameters, posenc_model_numbers(m) * sizeof(posenc_float));
    posenc_model_free(m);
    ASSERT_EQ(0, live);
    PASS();
}

TEST nothing_is_allocated_inside_a_step(int k, const char *more)
{
    posenc_model *m = make_model("%s encoding=%s %s" EVERYWHERE_DROPPED, kinds[k].config,
                                 rich_encoding[k], more);
    posenc_float logits[1024];
    posenc_optimizer o;
    posenc_error why;
    double loss;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    o.clip = 1;
    start_counting(0);                            /* and the first that is tried fails            */
    for (int step = 0; step < 3; step++) {
        fill_data(&d, m, B, T - step, (uint32_t)step);
        if (step == 1) { add_positions(&d); add_segments(&d); }
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_update(m, &o, 1e-3, NULL, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_loss(m, &d.batch, &loss, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(m, &d.batch, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(m, logits, 0, B, &why));
    }
    ASSERT_EQ(0, made);
    fail_at = -1;
    posenc_model_free(m);
    ASSERT_EQ(0, live);
    PASS();
}

/* The hooks fill every block with rubbish; two kinds of rubbish must give one result. */
TEST result_does_not_depend_on_what_was_in_memory(int k, const char *more)
{
    posenc_model *m[2];
    for (int i = 0; i < 2; i++) {
        fill = i ? 0x3C : 0xFF;                                    /* small numbers; not a number */
        m[i] = make_model("%s encoding=%s %s" EVERYWHERE_DROPPED, kinds[k].config, rich_encoding[k],
                          more);
        ASSERTm(check_text, m[i] && train_steps(m[i], 0, 4));
    }
    fill = 0xA5;
    ASSERTm(check_text, same_state(m[0], m[1]));
    posenc_model_free(m[0]);
    posenc_model_free(m[1]);
    PASS();
}

TEST doors_one_and_two_allocate_nothing(const layer_run *layer)
{
    static posenc_float out[EVERY_ROOM];
    start_counting(0);
    ASSERT_GT(run_layer(layer, out), (size_t)0);
    ASSERT_EQ(0, made);
    fail_at = -1;
    PASS();
}

/* ---- when there is none ---------------------------------------------------------------------- */

/* each allocation of a call fails in turn, LEAST of them or more; without a failure the call
   succeeds                                                                                       */
#define FAIL_EACH(LEAST, CALL) do {                                                                \
        int failing_ = 0, held_ = live;                                                            \
        for (;; failing_++) {                                                                      \
            posenc_status status_;                                                                 \
            start_counting(failing_);                                                              \
            why.text[0] = 0;                                                                       \
            status_ = CALL;                                                                        \
            fail_at = -1;                                                                          \
            if (status_ == POSENC_OK) break;                                                       \
            ASSERT_EQm(why.text, POSENC_OUT_OF_MEMORY, status_);                                   \
            ASSERTm(check_text, mentions(why.text, "no memory", (char *)0));                       \
            ASSERT_EQm("a failed call left something behind", held_, live);                        \
            ASSERT(failing_ < 100);                                                                \
        }                                                                                          \
        ASSERT_GTEm("fewer allocations failed than should", failing_, (LEAST));                    \
    } while (0)

TEST create_without_memory_says_so_and_leaves_nothing(int k, int inference)
{
    char text[512], spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_error why;
    posenc_model *m = NULL;
    memset(&c, 0, sizeof c);
    snprintf(text, sizeof text, "%s encoding=%s inference=%d", kinds[k].config, rich_encoding[k],
             inference);
    ASSERT_EQm(why.text, POSENC_OK, posenc_config_parse(&c, spec, text, &why));
    FAIL_EACH(inference ? 4 : 6, posenc_model_create(&m, &c, &why));
    posenc_model_free(m);
    ASSERT_EQ(0, live);
    for (int i = 0; i < (inference ? 4 : 6); i++) {
        start_counting(i);
        m = (posenc_model *)(void *)&c;
        ASSERT_EQ(POSENC_OUT_OF_MEMORY, posenc_model_create(&m, &c, NULL));
        ASSERT(m == NULL);
    }
    fail_at = -1;
    PASS();
}

TEST save_and_load_without_memory_change_nothing(void)
{
    posenc_model *a = make_model("%s encoding=learned", kinds[NEXT_TOKEN].config);
    posenc_model *b = make_model("%s encoding=learned seed=9", kinds[NEXT_TOKEN].config);
    posenc_model *twin = make_model("%s encoding=learned seed=9", kinds[NEXT_TOKEN].config);
    char path[256], spec[POSENC_SPEC_TEXT], note[8];
    posenc_config c;
    posenc_error why;
    int held;
    ASSERTm(check_text, a && b && twin && train_steps(a, 0, 2));
    temporary_path(path, sizeof path, "allocations");
    FAIL_EACH(1, posenc_model_save(a, path, POSENC_WEIGHTS_AND_STATE, "old", &why));
    held = live;
    for (int i = 0; ; i++) {                      /* a failed load leaves the weights alone       */
        posenc_status status;
        start_counting(i);
        status = posenc_model_load(b, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why);
        fail_at = -1;
        ASSERT_EQ(held, live);
        if (status == POSENC_OK) break;
        ASSERT_EQ(POSENC_OUT_OF_MEMORY, status);
        ASSERTm(check_text, same_state(b, twin));
    }
    ASSERTm(check_text, same_state(a, b));
    start_counting(0);                            /* a failed save leaves the old file alone      */
    ASSERT_EQ(POSENC_OUT_OF_MEMORY,
              posenc_model_save(twin, path, POSENC_WEIGHTS_AND_STATE, "new", &why));
    fail_at = -1;
    FAIL_EACH(1, posenc_checkpoint_config(&c, spec, path, &why));
    FAIL_EACH(1, posenc_model_load(twin, path, POSENC_WEIGHTS_AND_STATE, note, sizeof note, &why));
    ASSERT_STR_EQ("old", note);
    ASSERTm(check_text, same_state(a, twin));
    remove(path);
    posenc_model_free(a);
    posenc_model_free(b);
    posenc_model_free(twin);
    ASSERT_EQ(0, live);
    PASS();
}

TEST attention_map_without_memory_says_so(int k)
{
    posenc_model *m = make_model("%s encoding=%s", kinds[k].config, rich_encoding[k]);
    posenc_float map[B * 4 * T * T];
    posenc_error why;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 1);
    ASSERT_EQ(POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    FAIL_EACH(1, posenc_model_attention(m, map, 1, &why));
    posenc_model_free(m);
    ASSERT_EQ(0, live);
    PASS();
}

/* Files that are refused leave nothing behind either, wherever in them the fault is. */
TEST refused_files_leave_nothing_behind(void)
{
    posenc_model *m = make_model("%s", kinds[NEXT_TOKEN].config);
    char path[256], whole[65536], spec[POSENC_SPEC_TEXT];
    size_t n;
    posenc_config c;
    posenc_error why;
    FILE *f;
    int held;
    ASSERTm(check_text, m);
    temporary_path(path, sizeof path, "allocations");
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(m, path, POSENC_WEIGHTS, "", &why));
    f = fopen(path, "rb");
    ASSERT(f);
    n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    held = live;
    for (size_t cut = 0; cut < n; cut += 997) {
        f = fopen(path, "wb");
        ASSERT(f && fwrite(whole, 1, cut, f) == cut);
        fclose(f);
        ASSERT_NEQ(POSENC_OK, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
        ASSERT_EQ(held, live);
        ASSERT_NEQ(POSENC_OK, posenc_checkpoint_config(&c, spec, path, &why));
        ASSERT_EQ(held, live);
    }
    remove(path);
    posenc_model_free(m);
    ASSERT_EQ(0, live);
    PASS();
}

/* a test that failed does not make the next one fail */
static void forget(void *nothing) { (void)nothing; live = 0; start_counting(-1); fill = 0xA5; }

/* A file of a few bytes that claims to have a header of many does not make us ask for them. */
TEST small_file_cannot_ask_for_much(void)
{
    posenc_model *m = make_model("%s", kinds[NEXT_TOKEN].config);
    unsigned char bytes[64] = { 0, 0, 0, 4, 0, 0, 0, 0, '{', '}' };             /* 64 MB, it says */
    char path[256];
    posenc_error why;
    FILE *f;
    ASSERTm(check_text, m);
    temporary_path(path, sizeof path, "allocations");
    f = fopen(path, "wb");
    ASSERT(f && fwrite(bytes, 1, sizeof bytes, f) == sizeof bytes);
    fclose(f);
    start_counting(-1);
    ASSERT_EQ(POSENC_BAD_FILE, posenc_model_load(m, path, POSENC_WEIGHTS, NULL, 0, &why));
    ASSERT_LT(asked_bytes, (size_t)10000);
    remove(path);
    posenc_model_free(m);
    PASS();
}

SUITE(allocations)
{
    SET_SETUP(forget, NULL);
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(model_takes_the_bytes_that_were_announced, k, "");
        label_test("%s_inference", kinds[k].name);
        RUN_TESTp(model_takes_the_bytes_that_were_announced, k, "inference=1");
        label_test("%s_large", kinds[k].name);
        RUN_TESTp(model_takes_the_bytes_that_were_announced, k,
                  "layers=3 batch=7 context=61 embedding_norm=1 threads=5");
        label_test("%s_recompute", kinds[k].name);
        RUN_TESTp(model_takes_the_bytes_that_were_announced, k, "layers=5 recompute=1");
        for (int again = 0; again < 2; again++) {
            const char *more = again ? "layers=3 recompute=1" : "";
            label_test("%s%s", kinds[k].name, again ? "_recompute" : "");
            RUN_TESTp(nothing_is_allocated_inside_a_step, k, more);
            label_test("%s%s", kinds[k].name, again ? "_recompute" : "");
            RUN_TESTp(result_does_not_depend_on_what_was_in_memory, k, more);
        }
    }
    for (int i = 0; i < EVERY_LAYER; i++) {
        label_test("%s", every_layer[i].name);
        RUN_TESTp(doors_one_and_two_allocate_nothing, &every_layer[i]);
    }
}

SUITE(no_memory)
{
    SET_SETUP(forget, NULL);
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(create_without_memory_says_so_and_leaves_nothing, k, 0);
        label_test("%s_inference", kinds[k].name);
        RUN_TESTp(create_without_memory_says_so_and_leaves_nothing, k, 1);
        label_test("%s", kinds[k].name); RUN_TESTp(attention_map_without_memory_says_so, k);
    }
    RUN_TEST(save_and_load_without_memory_change_nothing);
    RUN_TEST(refused_files_leave_nothing_behind);
    RUN_TEST(small_file_cannot_ask_for_much);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(allocations);
    RUN_SUITE(no_memory);
    give_back();
    GREATEST_MAIN_END();
}
