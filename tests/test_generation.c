/* Generation: what a cache keeps is what a forward over the whole text would compute, in every
   encoding; drawing tokens; the loop around both.                                                */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "models.h"
#include <limits.h>

enum { B = 3, T = 12, V = 11 };
static const double NEAR = 2e-5;

/* weights large enough for every part of the model to matter */
static void shake(posenc_model *m)
{
    check_seed = 5;
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *x = copy_tensor(m, t->data, t->count);
        for (size_t k = 0; k < t->count && !t->frozen; k++) x[k] += (posenc_float)(0.3 * check_random());
        posenc_model_set(m, t->data, x, t->count);
        free(x);
    }
}

/* the logits of every token of a whole forward, (B, T, V) */
static int whole(posenc_model *m, posenc_float *logits, const posenc_batch *batch)
{
    posenc_error why;
    if (posenc_model_forward(m, batch, &why) == POSENC_OK
        && posenc_model_logits(m, logits, 0, batch->B * batch->T, &why) == POSENC_OK) return 1;
    snprintf(check_text, sizeof check_text, "forward: %.300s", why.text);
    return 0;
}

/* the same through a cache, in the pieces given: their lengths add up to the batch's */
static int in_pieces(posenc_model *m, posenc_cache *c, posenc_float *logits, const posenc_batch *batch,
                     const int *piece)
{
    posenc_error why;
    for (int from = 0; from < batch->T; from += *piece++) {
        int n = *piece, tokens[B * T];
        unsigned char keep[B * T];
        posenc_float some[B * T * V];
        posenc_batch b;
        memset(&b, 0, sizeof b);
        b.B = batch->B;
        b.T = n;
        b.tokens = tokens;
        b.keep = batch->keep ? keep : NULL;
        for (int r = 0; r < b.B * n; r++) {
            tokens[r] = batch->tokens[r / n * batch->T + from + r % n];
            keep[r] = batch->keep ? batch->keep[r / n * batch->T + from + r % n] : 1;
        }
        if (posenc_model_extend(m, c, &b, &why) != POSENC_OK
            || posenc_model_logits(m, some, 0, b.B * n, &why) != POSENC_OK) {
            snprintf(check_text, sizeof check_text, "extend at %d: %.300s", from, why.text);
            return 0;
        }
        for (int r = 0; r < b.B * n; r++)
            memcpy(logits + ((size_t)(r / n) * batch->T + from + r % n) * V, some + (size_t)r * V,
                   V * sizeof *logits);
    }
    return 1;
}

static const int one_by_one[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const int mixed[] = { 5, 1, 1, 3, 2 };

TEST a_cache_gives_what_a_whole_forward_gives(const char *config, const int *piece)
{
    posenc_model *m = make_model("%s", config);
    posenc_cache *c = NULL;
    posenc_error why;
    posenc_float expected[B * T * V], got[B * T * V];
    data d;
    ASSERTm(check_text, m);
    shake(m);
    fill_data(&d, m, B, T, 4);
    ASSERTm(check_text, whole(m, expected, &d.batch));
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, B, T, &why));
    ASSERTm(check_text, in_pieces(m, c, got, &d.batch, piece));
    ASSERT_EQ(T, posenc_cache_used(c));
    ASSERT_CLOSE(expected, got, B * T * V, NEAR);
    posenc_cache_clear(c);                                   /* and once more: nothing is left behind */
    ASSERTm(check_text, in_pieces(m, c, expected, &d.batch, piece));
    ASSERT_MEM_EQ(expected, got, sizeof got);
    posenc_cache_free(c);
    posenc_model_free(m);
    PASS();
}

/* row b begins with b padding tokens; alone and without padding it must come out the same */
TEST padding_before_a_text_changes_nothing(const char *config)
{
    posenc_model *m = make_model("%s", config);
    posenc_cache *c = NULL;
    posenc_error why;
    posenc_float expected[B * T * V], got[B * T * V];
    data d;
    ASSERTm(check_text, m);
    shake(m);
    fill_data(&d, m, B, T, 4);
    add_types_and_keep(&d, 0);
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, B, T, &why));
    ASSERTm(check_text, in_pieces(m, c, got, &d.batch, mixed));
    for (int b = 0; b < B; b++) {
        posenc_batch alone;
        memset(&alone, 0, sizeof alone);
        alone.B = 1;
        alone.T = T - b;
        alone.tokens = d.tokens + b * T + b;
        ASSERTm(check_text, whole(m, expected, &alone));
        ASSERT_CLOSE(expected, got + (b * T + b) * V, (T - b) * V, NEAR);
    }
    posenc_cache_free(c);
    posenc_model_free(m);
    PASS();
}

/* In a single layer a key knows its own token only: what is left after forgetting is what a forward
   over the tokens that are left would have kept.                                                 */
TEST forgetting_leaves_what_the_rest_alone_would_leave(const char *config, int from, int n)
{
    posenc_model *m = make_model("%s layers=1", config);
    posenc_cache *c = NULL;
    posenc_error why;
    posenc_float expected[B * T * V], got[B * V];
    int tokens[B * T], last[B], left = T - 1 - n;
    data d;
    posenc_batch rest, step;
    ASSERTm(check_text, m);
    shake(m);
    fill_data(&d, m, B, T, 4);
    memset(&rest, 0, sizeof rest);
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < left; t++) tokens[b * (left + 1) + t] = d.tokens[b * T + (t < from ? t : t + n)];
        tokens[b * (left + 1) + left] = last[b] = d.tokens[b * T + T - 1];
    }
    rest.B = B;
    rest.T = left + 1;
    rest.tokens = tokens;
    ASSERTm(check_text, whole(m, expected, &rest));
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, B, T, &why));
    step = d.batch;
    step.targets = NULL;
    {
        int first[B * T];
        for (int r = 0; r < B * (T - 1); r++) first[r] = d.tokens[r / (T - 1) * T + r % (T - 1)];
        step.T = T - 1;
        step.tokens = first;
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_extend(m, c, &step, &why));
    }
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_forget(c, from, n, &why));
    ASSERT_EQ(left, posenc_cache_used(c));
    step.T = 1;
    step.tokens = last;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_extend(m, c, &step, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(m, got, 0, B, &why));
    for (int b = 0; b < B; b++)
        ASSERT_CLOSE(expected + (b * (left + 1) + left) * V, got + b * V, V, NEAR);
    posenc_cache_free(c);
    posenc_model_free(m);
    PASS();
}

TEST wrong_use_of_a_cache_is_refused(void)
{
    posenc_model *m = make_model("%s encoding=learned", kinds[NEXT_TOKEN].config), *other;
    posenc_model *both_ways = make_model("%s", kinds[CLASSIFIER].config);
    posenc_cache *c = NULL, *none = NULL;
    posenc_error why;
    data d;
    ASSERTm(check_text, m && both_ways);
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_create(&none, both_ways, 1, 4, &why));
    ASSERTm(check_text, mentions(why.text, "causal", (char *)0));
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_create(&none, m, 4, 4, &why));
    ASSERTm(check_text, mentions(why.text, "4 x 4", "3 x 16", (char *)0));
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_create(&none, m, 1, 17, &why));
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_create(&none, m, 1, 0, &why));
    ASSERT(none == NULL);
    ASSERT_EQ(POSENC_OK, posenc_cache_create(&c, m, 2, 6, &why));
    fill_data(&d, m, 2, 5, 1);
    ASSERT_EQ(POSENC_OK, posenc_model_extend(m, c, &d.batch, &why));
    ASSERT_EQ(POSENC_FULL, posenc_model_extend(m, c, &d.batch, &why));
    ASSERTm(check_text, mentions(why.text, "5 tokens", "5 of the cache's 6", (char *)0));
    ASSERT_EQ(5, posenc_cache_used(c));
    d.batch.T = 1;
    d.batch.B = 1;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_extend(m, c, &d.batch, &why));
    d.batch.B = 2;
    d.tokens[1] = V;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_extend(m, c, &d.batch, &why));
    d.tokens[1] = 1;
    d.batch.segments = d.segments;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_extend(m, c, &d.batch, &why));
    d.batch.segments = NULL;
    other = make_model("%s encoding=learned", kinds[NEXT_TOKEN].config);
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_extend(other, c, &d.batch, &why));
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_forget(c, 0, 1, &why));
    ASSERTm(check_text, mentions(why.text, "learned", (char *)0));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_cache_forget(c, 3, 3, &why));
    ASSERT_EQ(POSENC_OK, posenc_model_extend(m, c, &d.batch, &why));      /* after all that, it still runs */
    {
        posenc_float map[2 * 4 * 36];
        ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(m, map, 0, &why));
        ASSERTm(check_text, mentions(why.text, "cache", (char *)0));
    }
    posenc_cache_free(c);
    posenc_cache_free(NULL);
    posenc_model_free(m);
    posenc_model_free(other);
    posenc_model_free(both_ways);
    PASS();
}

/* gains behind the turn do not trade places with another turn: what cannot be right is refused */
TEST keys_normed_behind_their_turn_stay_where_they_are(void)
{
    posenc_model *m = make_model("%s encoding=rope qk_norm=after", kinds[MODERN].config);
    posenc_model *d = make_model("%s encoding=rope:scaling=dynamic,original=4,factor=2 qk_norm=after",
                                 kinds[MODERN].config);
    posenc_cache *c = NULL, *none = NULL;
    posenc_error why;
    data batch;
    ASSERTm(check_text, m && d);
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_create(&none, d, 1, 8, &why));
    ASSERTm(check_text, mentions(why.text, "qk_norm=after", (char *)0));
    ASSERT_EQ(POSENC_OK, posenc_cache_create(&c, m, 2, 8, &why));
    fill_data(&batch, m, 2, 6, 1);
    ASSERT_EQ(POSENC_OK, posenc_model_extend(m, c, &batch.batch, &why));
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_cache_forget(c, 0, 2, &why));
    ASSERTm(check_text, mentions(why.text, "qk_norm=after", (char *)0));
    ASSERT_EQm("the last ones move nobody", POSENC_OK, posenc_cache_forget(c, 4, 2, &why));
    ASSERT_EQ(4, posenc_cache_used(c));
    posenc_cache_free(c);
    posenc_model_free(m);
    posenc_model_free(d);
    PASS();
}

/* a fixed bias is tabulated for the context: positions of old and new tokens may not lie further apart */
TEST positions_out_of_reach_are_refused(void)
{
    posenc_model *m = make_model("%s encoding=alibi", kinds[NEXT_TOKEN].config);
    posenc_cache *c = NULL;
    posenc_error why;
    data d;
    ASSERTm(check_text, m);
    ASSERT_EQ(POSENC_OK, posenc_cache_create(&c, m, 1, 8, &why));
    fill_data(&d, m, 1, 2, 1);
    ASSERT_EQ(POSENC_OK, posenc_model_extend(m, c, &d.batch, &why));
    d.positions[0] = 1000;
    d.batch.T = 1;
    d.batch.positions = d.positions;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_extend(m, c, &d.batch, &why));
    ASSERTm(check_text, mentions(why.text, "1000", "alibi", (char *)0));
    ASSERT_EQ(2, posenc_cache_used(c));
    d.positions[0] = 9;
    ASSERT_EQ(POSENC_OK, posenc_model_extend(m, c, &d.batch, &why));
    posenc_cache_free(c);
    posenc_model_free(m);
    PASS();
}

TEST bytes_of_a_cache_grow_with_its_keys(void)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.vocab = V;
    c.context = 64;
    c.batch = 2;
    c.layers = 3;
    c.channels = 32;
    c.heads = 4;
    c.kv_heads = 2;
    c.causal = 1;
    size_t small = posenc_cache_bytes(&c, 1, 32), large = posenc_cache_bytes(&c, 2, 64);
    size_t keys = sizeof(posenc_float) * 2 * 3 * 16;         /* of a token: k, v, layers, two heads of 8 */
    ASSERT(small >= 32 * keys && small < 32 * keys + 4096);
    ASSERT(large >= 128 * keys && large < 128 * keys + 8192);
    c.heads = 5;
    ASSERT_EQ(0, posenc_cache_bytes(&c, 1, 32));
    PASS();
}

/* ---- weights in bfloat16 --------------------------------------------------------------------- */

/* the layer by its definition, with weights rounded to bfloat16 and nothing else */
TEST few_rows_in_bf16_round_the_weight_alone(int rows, int in, int out)
{
    size_t n = (size_t)in * out;
    posenc_float *w = (posenc_float *)malloc(n * sizeof *w), *x = (posenc_float *)malloc(n * sizeof *x);
    posenc_float *y = (posenc_float *)malloc((size_t)rows * out * sizeof *y), *bias = x + (size_t)rows * in;
    uint16_t *half = (uint16_t *)malloc(n * sizeof *half);
    ASSERT(w && x && y && half && n > (size_t)rows * in + out);
    fill_random_seeded(w, n, 3);
    fill_random_seeded(x, n, 4);
    posenc_bf16_round(half, w, n);
    posenc_linear_few_bf16(y, x, half, bias, rows, in, out);
    for (int r = 0; r < rows; r++) for (int o = 0; o < out; o++) {
        double sum = (double)bias[o];
        for (int i = 0; i < in; i++) {
            uint32_t u = (uint32_t)half[(size_t)o * in + i] << 16;
            float rounded;
            memcpy(&rounded, &u, sizeof rounded);
            ASSERT(fabs((double)rounded - (double)w[(size_t)o * in + i]) <= 0x1p-8 * fabs((double)rounded));
            sum += (double)x[r * in + i] * (double)rounded;
        }
        ASSERT_IN_RANGE(sum, (double)y[r * out + o], 3e-5);
    }
    free(w);
    free(x);
    free(y);
    free(half);
    PASS();
}

static int one_token(posenc_model *m, posenc_float *logits)
{
    static const int token[1] = { 4 };
    posenc_batch b;
    posenc_error why;
    memset(&b, 0, sizeof b);
    b.B = b.T = 1;
    b.tokens = token;
    return posenc_model_forward(m, &b, &why) == POSENC_OK
        && posenc_model_logits(m, logits, 0, 1, &why) == POSENC_OK;
}

/* near what fp32 gives, not equal to it, and anew when a weight changes, by hand or from a file */
TEST a_model_in_bf16_follows_its_weights(void)
{
    const char *path = "build/generation.safetensors";
    posenc_model *exact = make_model("%s encoding=rope inference=1", kinds[MODERN].config);
    posenc_model *half = make_model("%s encoding=rope inference=1 precision=bf16", kinds[MODERN].config);
    posenc_float want[V], got[V], before[V];
    posenc_tensor *t;
    posenc_error why;
    posenc_bytes small, large;
    ASSERTm(check_text, exact && half);
    ASSERT_EQ(POSENC_OK, posenc_model_bytes(&small, posenc_model_config(exact), &why));
    ASSERT_EQ(POSENC_OK, posenc_model_bytes(&large, posenc_model_config(half), &why));
    ASSERT_EQ(small.parameters + small.parameters / sizeof(posenc_float) * 2, large.parameters);
    shake(exact);
    shake(half);
    ASSERT(one_token(exact, want) && one_token(half, got));
    ASSERT_NORM_CLOSE(want, got, V, 0.02);
    ASSERTm("nothing was rounded", memcmp(want, got, sizeof got) != 0);
    memcpy(before, got, sizeof got);
    for (int i = 0; i < 2; i++) {
        posenc_model *m = i ? half : exact;
        t = posenc_model_find(m, "blocks.0.mlp.up_proj.weight");
        posenc_float *x = copy_tensor(m, t->data, t->count);
        for (size_t k = 0; k < t->count; k++) x[k] *= -2;
        posenc_model_set(m, t->data, x, t->count);
        free(x);
    }
    ASSERT(one_token(exact, want) && one_token(half, got));
    ASSERT_NORM_CLOSE(want, got, V, 0.02);
    ASSERT(memcmp(before, got, sizeof got) != 0);
    shake(exact);
    ASSERT(one_token(exact, want));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_save(exact, path, POSENC_WEIGHTS, NULL, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_load(half, path, POSENC_WEIGHTS, NULL, 0, &why));
    remove(path);
    ASSERT(one_token(half, got));
    ASSERT_NORM_CLOSE(want, got, V, 0.02);
    posenc_model_free(exact);
    posenc_model_free(half);
    PASS();
}

/* ---- watching -------------------------------------------------------------------------------- */

enum { LAYERS = 3, MAP = B * 4 * T * T };
typedef struct seen { int calls, refused; posenc_float out[LAYERS][B * T * 16], map[LAYERS][MAP]; } seen;

static void look(void *user, posenc_model *m, int layer)
{
    seen *s = (seen *)user;
    posenc_error why;
    posenc_tensor *t = posenc_model_find(m, "blocks.0.out");
    s->calls++;
    posenc_model_get(m, s->out[layer], t->data, B * T * 16);
    s->refused += posenc_model_attention(m, s->map[layer], layer, &why) != POSENC_OK;
    s->refused += 10 * (posenc_model_attention(m, s->map[layer], (layer + 1) % LAYERS, &why) == POSENC_OK);
}

/* an inference model shows from watch what one that keeps everything has after its forward */
TEST watching_shows_every_layer(const char *config)
{
    static seen s;
    posenc_model *lean = make_model("%s inference=1 layers=3", config), *full = make_model("%s layers=3", config);
    posenc_float map[MAP], out[B * T * 16];
    posenc_error why;
    data d;
    ASSERTm(check_text, lean && full);
    memset(&s, 0, sizeof s);
    shake(lean);
    shake(full);
    fill_data(&d, full, B, T, 4);
    posenc_model_watch(lean, look, &s);
    ASSERT_EQ(POSENC_OK, posenc_model_forward(lean, &d.batch, &why));
    ASSERT_EQ(POSENC_OK, posenc_model_forward(full, &d.batch, &why));
    ASSERT_EQ(LAYERS, s.calls);
    ASSERT_EQ(0, s.refused);
    for (int layer = 0; layer < LAYERS; layer++) {
        char name[32];
        snprintf(name, sizeof name, "blocks.%d.out", layer);
        posenc_model_get(full, out, posenc_model_find(full, name)->data, B * T * 16);
        ASSERT_MEM_EQ(out, s.out[layer], sizeof out);
        ASSERT_EQ(POSENC_OK, posenc_model_attention(full, map, layer, &why));
        ASSERT_MEM_EQ(map, s.map[layer], sizeof map);
    }
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(lean, map, 0, &why));
    ASSERTm(check_text, mentions(why.text, "watch", (char *)0));
    posenc_model_watch(lean, NULL, NULL);
    ASSERT_EQ(POSENC_OK, posenc_model_forward(lean, &d.batch, &why));
    ASSERT_EQ(LAYERS, s.calls);
    posenc_model_free(lean);
    posenc_model_free(full);
    PASS();
}

/* ---- drawing --------------------------------------------------------------------------------- */

static int draw(const posenc_float *logits, int n, const posenc_sampling *how, uint64_t index)
{
    posenc_float z[64];
    memcpy(z, logits, (size_t)n * sizeof *z);
    return posenc_sample(z, n, NULL, 0, how, index);
}

TEST greedy_takes_the_first_of_the_largest(void)
{
    static const posenc_float z[5] = { 1, 3, -2, 3, 0 };
    posenc_sampling how;
    memset(&how, 0, sizeof how);
    ASSERT_EQ(1, draw(z, 5, &how, 0));
    how.top_k = 1;
    how.temperature = 1;
    for (int i = 0; i < 50; i++) {                                    /* equal ones both stay */
        int v = draw(z, 5, &how, (uint64_t)i);
        ASSERT(v == 1 || v == 3);
    }
    PASS();
}

TEST logits_that_are_no_numbers(void)
{
    posenc_float z[4] = { -HUGE_VALF, (posenc_float)NAN, -HUGE_VALF, (posenc_float)NAN };
    posenc_sampling how;
    memset(&how, 0, sizeof how);
    ASSERT_EQ(-1, posenc_sample(z, 4, NULL, 0, &how, 0));
    z[2] = -5;
    z[3] = (posenc_float)NAN;
    how.temperature = 1;
    for (int i = 0; i < 20; i++) ASSERT_EQ(2, draw(z, 4, &how, (uint64_t)i));
    z[0] = HUGE_VALF;
    ASSERT_EQ(0, draw(z, 4, &how, 3));
    PASS();
}

/* frequencies of many draws against the softmax: within five standard deviations */
TEST draws_follow_the_softmax(double temperature, int top_k, double top_p, int stay)
{
    static const posenc_float z[6] = { 0.5f, 2, -1, 1.5f, 0, 1 };
    static const int order[6] = { 1, 3, 5, 0, 4, 2 };                  /* from the largest on */
    enum { N = 20000 };
    int seen[6] = {0};
    double p[6] = {0}, sum = 0;
    posenc_sampling how;
    memset(&how, 0, sizeof how);
    how.temperature = temperature;
    how.top_k = top_k;
    how.top_p = top_p;
    how.seed = 3;
    for (int i = 0; i < stay; i++) sum += p[order[i]] = exp((double)z[order[i]] / temperature);
    for (int i = 0; i < N; i++) seen[draw(z, 6, &how, (uint64_t)i)]++;
    for (int v = 0; v < 6; v++) {
        double want = p[v] / sum, spread = sqrt(N * want * (1 - want));
        ASSERT(fabs(seen[v] - N * want) <= 5 * spread + 1e-9);
    }
    PASS();
}

TEST repetition_makes_seen_tokens_less_likely(void)
{
    posenc_float z[4] = { 2, 1.5f, -1, -1.2f };
    static const int seen[4] = { 0, 0, 2, 99 };
    posenc_sampling how;
    memset(&how, 0, sizeof how);
    how.repetition = 1.5;
    ASSERT_EQ(1, posenc_sample(z, 4, seen, 4, &how, 0));
    ASSERT_IN_RANGE(2 / 1.5, z[0], 1e-6);                     /* once, though it was seen twice */
    ASSERT_IN_RANGE(-1.5, z[2], 1e-6);
    ASSERT_IN_RANGE(-1.2, z[3], 1e-6);
    PASS();
}

TEST draws_depend_on_seed_and_index_alone(void)
{
    posenc_float z[40];
    posenc_sampling how;
    int same = 0, other = 0;
    memset(&how, 0, sizeof how);
    how.temperature = 2;
    fill_random_seeded(z, 40, 8);
    for (int i = 0; i < 200; i++) {
        how.seed = 1;
        int a = draw(z, 40, &how, (uint64_t)i), b = draw(z, 40, &how, (uint64_t)i);
        how.seed = 2;
        same += a == b;
        other += a == draw(z, 40, &how, (uint64_t)i);
    }
    ASSERT_EQ(200, same);
    ASSERT(other < 50);
    PASS();
}

/* ---- the loop -------------------------------------------------------------------------------- */

enum { MOST = 8 };
static const int prompts[B * 5] = { 3, 1, 4, 1, 5,   9, 2, 6, 0, 0,   7, 0, 0, 0, 0 };
static const int lengths[B] = { 5, 3, 1 };

/* the reference: the whole text again for each token, one row alone */
static int by_hand(posenc_model *m, int *out, int row, const posenc_sampling *how)
{
    int text[5 + MOST], n = lengths[row];
    posenc_float logits[T * V + 4 * V];
    posenc_batch b;
    memset(&b, 0, sizeof b);
    memcpy(text, prompts + row * 5, (size_t)n * sizeof *text);
    b.B = 1;
    b.tokens = text;
    for (int i = 0; i < MOST; i++, n++) {
        b.T = n;
        if (!whole(m, logits, &b)) return 0;
        out[i] = text[n] = posenc_sample(logits + (size_t)(n - 1) * V, V, text, n, how,
                                         (uint64_t)row << 32 | (uint32_t)i);
    }
    return 1;
}

TEST generated_text_is_that_of_a_forward_for_each_token(const char *config, double temperature)
{
    posenc_model *m = make_model("%s", config);
    posenc_cache *c = NULL;
    posenc_generation how;
    posenc_error why;
    int out[B * MOST], count[B], expected[MOST], kinds_of_token = 0;
    ASSERTm(check_text, m);
    shake(m);
    memset(&how, 0, sizeof how);
    how.most = MOST;
    how.sampling.temperature = temperature;
    how.sampling.top_k = 7;
    how.sampling.top_p = 0.95;
    how.sampling.repetition = 1.2;
    how.sampling.seed = 6;
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, B, 16, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
    for (int b = 0; b < B; b++) {
        ASSERT_EQ(MOST, count[b]);
        ASSERTm(check_text, by_hand(m, expected, b, &how.sampling));
        ASSERT_MEM_EQ(expected, out + b * MOST, sizeof expected);
        for (int i = 1; i < MOST; i++) kinds_of_token += expected[i] != expected[i - 1];
    }
    ASSERTm("the same token all the time proves nothing", temperature == 0 || kinds_of_token > 3);
    posenc_cache_free(c);
    posenc_model_free(m);
    PASS();
}

typedef struct listener { int calls, last[B]; } listener;
static int third_is_enough(void *user, int row, int token)
{
    listener *l = (listener *)user;
    l->calls++;
    l->last[row] = token;
    return row != 2 || l->calls < 7;
}

TEST rows_end_at_stop_tokens_and_at_the_listener(void)
{
    posenc_model *m = make_model("%s encoding=rope", kinds[MODERN].config);
    posenc_cache *c = NULL;
    posenc_generation how;
    posenc_error why;
    listener l;
    int free_run[B * MOST], out[B * MOST], count[B], stop[1];
    ASSERTm(check_text, m);
    shake(m);
    memset(&how, 0, sizeof how);
    memset(&l, 0, sizeof l);
    how.most = MOST;
    how.sampling.temperature = 1;
    how.sampling.seed = 6;
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, B, 16, &why));
    ASSERT_EQ(POSENC_OK, posenc_generate(free_run, count, m, c, prompts, lengths, 5, &how, &why));
    stop[0] = free_run[1];                                       /* row 0 ends at its second token */
    how.stop = stop;
    how.stops = 1;
    how.token = third_is_enough;
    how.user = &l;
    ASSERT_EQ(POSENC_OK, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
    ASSERT(count[0] <= 2 && out[count[0] - 1] == stop[0]);
    ASSERT_EQ(count[0] + count[1] + count[2], l.calls);
    for (int b = 0; b < B; b++) {
        ASSERT_MEM_EQ(free_run + b * MOST, out + b * MOST, (size_t)count[b] * sizeof *out);
        ASSERT_EQ(out[b * MOST + count[b] - 1], l.last[b]);
    }
    ASSERT(count[2] < MOST);
    posenc_cache_free(c);
    posenc_model_free(m);
    PASS();
}

TEST a_full_cache_ends_or_forgets(void)
{
    posenc_model *m = make_model("%s encoding=rope", kinds[MODERN].config);
    posenc_cache *c = NULL;
    posenc_generation how;
    posenc_error why;
    int out[B * MOST], more[B * MOST], count[B], empty[B] = { 5, 0, 1 };
    ASSERTm(check_text, m);
    shake(m);
    memset(&how, 0, sizeof how);
    how.most = MOST;
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&c, m, B, 8, &why));
    ASSERT_EQ(POSENC_FULL, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
    for (int b = 0; b < B; b++) ASSERT_EQ(4, count[b]);         /* 3 slots, and one that needs none */
    how.forget = 3;
    how.anchor = 1;
    ASSERT_EQm(why.text, POSENC_OK, posenc_generate(more, count, m, c, prompts, lengths, 5, &how, &why));
    for (int b = 0; b < B; b++) {
        ASSERT_EQ(MOST, count[b]);
        ASSERT_MEM_EQ(out + b * MOST, more + b * MOST, 4 * sizeof *out);
    }
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_generate(out, count, m, c, prompts, empty, 5, &how, &why));
    ASSERTm(check_text, mentions(why.text, "row 1", (char *)0));
    how.most = 0;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
    how.most = INT_MAX;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
    how.most = MOST;
    how.forget = 9;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
    ASSERTm(check_text, mentions(why.text, "8 slots", "forget 9", (char *)0));
    {
        posenc_tensor *t = posenc_model_find(m, "norm.weight");
        posenc_float *x = copy_tensor(m, t->data, t->count);
        x[0] = (posenc_float)NAN;
        posenc_model_set(m, t->data, x, t->count);
        free(x);
        how.forget = 3;
        ASSERT_EQ(POSENC_NOT_FINITE, posenc_generate(out, count, m, c, prompts, lengths, 5, &how, &why));
        ASSERTm(check_text, mentions(why.text, "row 0", (char *)0));
    }
    posenc_model_free(m);
    posenc_cache_free(c);                                   /* the other way round is fine as well */
    PASS();
}

/* ---- suites ---------------------------------------------------------------------------------- */

static const char *with_encoding(int kind, const char *word)
{
    static char text[512];
    snprintf(text, sizeof text, "%s %s", kinds[kind].config, word);
    return text;
}

SUITE(cache_of_every_encoding)
{
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++)
        for (int kind = NEXT_TOKEN; kind <= MODERN; kind++) {
            const char *name = posenc_encoding_get(e)->name;
            label_test("%s_%s", name, kinds[kind].name);
            RUN_TESTp(a_cache_gives_what_a_whole_forward_gives, with_encoding(kind, encoding_word(e)), mixed);
            if (e == POSENC_SWIN || e == POSENC_SINCOS3D) continue;             /* places, not a line */
            label_test("%s_%s", name, kinds[kind].name);
            RUN_TESTp(padding_before_a_text_changes_nothing, with_encoding(kind, encoding_word(e)));
        }
}

SUITE(cache)
{
    static const struct { const char *name, *more; } list[] = {
        { "one_by_one", "encoding=rope" }, { "window", "encoding=rope window=3" },
        { "yarn", "encoding=rope:scaling=yarn,original=4,factor=4" },
        { "qk_norm_after", "encoding=rope qk_norm=after" },
        { "over_the_width", "encoding=rope:over=width kv_heads=4" },
        { "wide_heads", "encoding=rope head_channels=6" }, { "parallel", "encoding=rope parallel=1" },
        { "nope_every", "encoding=rope:nope_every=2 layers=4" }, { "inference", "encoding=rope inference=1" },
        { "trained", "encoding=lrope+alibi" }, { "post_norm", "encoding=t5 norm_place=post" }
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        label_test("%s", list[i].name);
        RUN_TESTp(a_cache_gives_what_a_whole_forward_gives, with_encoding(MODERN, list[i].more), one_by_one);
    }
    static const char *const movable[] = { "none", "rope", "rope:layout=interleaved,dim=2", "lrope", "xpos",
                                           "alibi", "t5", "rope+relative", "rope:scaling=yarn,original=4,factor=4",
                                           "rope:scaling=dynamic,original=4,factor=2" };
    for (int i = 0; i < 10; i++)                /* dynamic: n = 0 tells whether keys follow the length */
        for (int which = 0; which < 3; which++) {
            int from = which == 1 ? 2 : 0, n = which == 2 ? 0 : 4;
            char word[96];
            snprintf(word, sizeof word, "encoding=%s", movable[i]);
            label_test("%s_%d_from_%d", movable[i], n, from);
            RUN_TESTp(forgetting_leaves_what_the_rest_alone_would_leave, with_encoding(MODERN, word), from, n);
        }
    RUN_TEST(wrong_use_of_a_cache_is_refused);
    RUN_TEST(keys_normed_behind_their_turn_stay_where_they_are);
    RUN_TEST(positions_out_of_reach_are_refused);
    RUN_TEST(bytes_of_a_cache_grow_with_its_keys);
}

SUITE(bfloat16)
{
    static const int sizes[4][3] = { { 1, 40, 9 }, { 2, 1030, 70 }, { 3, 64, 130 }, { 4, 2049, 7 } };
    for (int i = 0; i < 4; i++) {
        label_test("%d_x_%d_x_%d", sizes[i][0], sizes[i][1], sizes[i][2]);
        RUN_TESTp(few_rows_in_bf16_round_the_weight_alone, sizes[i][0], sizes[i][1], sizes[i][2]);
    }
    RUN_TEST(a_model_in_bf16_follows_its_weights);
}

SUITE(watching)
{
    static const char *const words[] = { "encoding=rope", "encoding=lrope", "encoding=t5:per_layer=1",
                                         "encoding=learned+alibi" };
    for (int i = 0; i < 4; i++) {
        label_test("%s", words[i] + 9);
        RUN_TESTp(watching_shows_every_layer, with_encoding(MODERN, words[i]));
    }
}

SUITE(sampling)
{
    RUN_TEST(greedy_takes_the_first_of_the_largest);
    RUN_TEST(logits_that_are_no_numbers);
    label_test("all");
    RUN_TESTp(draws_follow_the_softmax, 1.0, 0, 0.0, 6);
    label_test("warm");
    RUN_TESTp(draws_follow_the_softmax, 3.0, 0, 1.0, 6);
    label_test("top_3");
    RUN_TESTp(draws_follow_the_softmax, 1.0, 3, 0.0, 3);
    label_test("top_k_above_the_vocabulary");
    RUN_TESTp(draws_follow_the_softmax, 1.0, 60, 0.0, 6);
    label_test("top_p");                             /* shares .41 .25 .15 .09 .055 .02: .7 needs three */
    RUN_TESTp(draws_follow_the_softmax, 1.0, 0, 0.7, 3);
    label_test("top_p_of_almost_nothing");
    RUN_TESTp(draws_follow_the_softmax, 1.0, 0, 1e-9, 1);
    label_test("top_k_then_top_p");                       /* of three: .50 .31 .19: .75 needs two */
    RUN_TESTp(draws_follow_the_softmax, 1.0, 3, 0.75, 2);
    RUN_TEST(repetition_makes_seen_tokens_less_likely);
    RUN_TEST(draws_depend_on_seed_and_index_alone);
}

SUITE(generation)
{
    static const char *const words[] = { "encoding=rope", "encoding=learned", "encoding=alibi window=4",
                                         "encoding=t5 kv_heads=1" };
    for (int i = 0; i < 4; i++)
        for (int warm = 0; warm < 2; warm++) {
            label_test("%s_%s", words[i] + 9, warm ? "drawn" : "greedy");
            RUN_TESTp(generated_text_is_that_of_a_forward_for_each_token,
                      with_encoding(i % 2 ? NEXT_TOKEN : MODERN, words[i]), warm * 0.9);
        }
    RUN_TEST(rows_end_at_stop_tokens_and_at_the_listener);
    RUN_TEST(a_full_cache_ends_or_forgets);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(cache_of_every_encoding);
    RUN_SUITE(cache);
    RUN_SUITE(bfloat16);
    RUN_SUITE(watching);
    RUN_SUITE(sampling);
    RUN_SUITE(generation);
    GREATEST_MAIN_END();
}
