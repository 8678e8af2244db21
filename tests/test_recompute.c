/* recompute=1: a model that forgets what is inside its blocks and computes it again has every bit
   of the model that keeps it. Trained side by side, whatever the encoding, the block and the batch;
   what can be read in between; how much memory it saves; checkpoints from one into the other.    */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "models.h"

enum { B = 3, LAYERS = 3, CHANNELS = 16, ROOM = 8192 };

static posenc_model *kept, *again;              /* the same model, without and with recompute     */
static int rows;                                /* B * T of the batch they saw last               */

static void give_back(void *unused)
{
    (void)unused;
    posenc_model_free(kept);
    posenc_model_free(again);
    kept = again = NULL;
}
static int make_both(const char *config, const char *more)
{
    kept = make_model("%s layers=3 seed=5 %s", config, more);
    if (kept) again = make_model("%s layers=3 seed=5 %s recompute=1", config, more);
    return kept && again;
}

/* ---- one and the same ------------------------------------------------------------------------ */

static int differ(const char *what, int layer)
{
    snprintf(check_text, sizeof check_text, "%s of layer %d is not the same", what, layer);
    return 0;
}
static int said(const posenc_error *why)
{
    snprintf(check_text, sizeof check_text, "%.300s", why->text);
    return 0;
}

/* what the last batch wrote of an activation, in both models */
static int same_activation(const char *ours, const char *theirs, int layer)
{
    static posenc_float x[ROOM], y[ROOM];
    posenc_tensor *s = posenc_model_find(kept, ours), *t = posenc_model_find(again, theirs);
    size_t n = s ? s->count / s->shape[0] * (size_t)rows : 0;
    if (!s || !t || s->count != t->count || s->count > ROOM) return differ(ours, layer);
    posenc_model_get(kept, x, s->data, n);
    posenc_model_get(again, y, t->data, n);
    return memcmp(x, y, n * sizeof *x) ? differ(ours, layer) : 1;
}
static int same_stream(void)
{
    char name[64];
    int same = same_activation("embedding", "embedding", 0);
    for (int l = 0; l < LAYERS && same; l++) {
        snprintf(name, sizeof name, "blocks.%d.out", l);
        same = same_activation(name, name, l);
    }
    return same;
}
/* the one room, named by block 0, holds what is inside of this one */
static int same_inside(int layer)
{
    int same = 1, seen = 0;
    for (int i = 0; i < posenc_model_activations(again) && same; i++) {
        const char *theirs = posenc_model_activation(again, i)->name;
        char ours[64];
        if (strncmp(theirs, "blocks.0.", 9) || !strcmp(theirs, "blocks.0.out")) continue;
        snprintf(ours, sizeof ours, "blocks.%d.%.40s", layer, theirs + 9);
        same = same_activation(ours, theirs, layer);
        seen++;
    }
    return same && seen >= 9 ? 1 : same ? differ("the list of activations", layer) : 0;
}
static int same_maps(void)
{
    static posenc_float x[ROOM], y[ROOM];
    posenc_error why;
    int same = 1;
    for (int l = 0; l < LAYERS && same; l++) {
        memset(x, 0, sizeof x);
        memset(y, 0, sizeof y);
        if (posenc_model_attention(kept, x, l, &why) != POSENC_OK
            || posenc_model_attention(again, y, l, &why) != POSENC_OK) return said(&why);
        same = memcmp(x, y, sizeof x) ? differ("the map", l) : 1;
    }
    return same;
}

/* ---- three steps side by side ---------------------------------------------------------------- */

enum { PLAIN = 0, POSITIONS = 1, SEGMENTS = 2, TYPES = 4, DIVIDED = 8 };

/* another length in each step; the last batch is short */
static void fill_step(data *d, int step, int with)
{
    static const int length[] = { 7, 16, 5 };
    fill_data(d, kept, step == 2 ? B - 1 : B, length[step % 3], (uint32_t)step + 1);
    d->batch.first_sample = (uint64_t)(step * B);
    rows = d->batch.B * d->batch.T;
    if (with & POSITIONS) add_positions(d);
    if (with & SEGMENTS) add_segments(d);
    if (with & TYPES) add_types_and_keep(d, posenc_model_config(kept)->token_types);
    if (with & DIVIDED) d->batch.divisor = 29;
}

typedef posenc_status run(posenc_model *m, const posenc_batch *batch, double *loss,
                          posenc_error *why);
static int same_loss(run *of, const posenc_batch *batch)
{
    posenc_error why;
    double one = -1, other = -2;
    if (of(kept, batch, &one, &why) != POSENC_OK || of(again, batch, &other, &why) != POSENC_OK)
        return said(&why);
    snprintf(check_text, sizeof check_text, "loss %.17g, and again %.17g", one, other);
    return one == other;
}
static int update_both(void)
{
    posenc_optimizer o;
    posenc_error why;
    memset(&o, 0, sizeof o);
    o.decay = 0.1;
    o.clip = 1;
    return (posenc_model_update(kept, &o, 1e-2, NULL, &why) == POSENC_OK
            && posenc_model_update(again, &o, 1e-2, NULL, &why) == POSENC_OK) || said(&why);
}
/* maps are asked for between the passes: they may not disturb what is added up */
static int same_step(int step, int with)
{
    data d;
    fill_step(&d, step, with);
    return same_loss(posenc_model_train, &d.batch) && same_part(kept, again, GRADIENTS, 0)
        && same_stream() && same_inside(0) && same_maps() && same_stream()
        && same_loss(posenc_model_loss, &d.batch) && same_stream() && same_inside(LAYERS - 1)
        && same_maps()
        && same_loss(posenc_model_train, &d.batch) && same_part(kept, again, GRADIENTS, 0)
        && update_both() && same_state(kept, again);
}

TEST same_bits_in_three_steps(const char *config, const char *more, int with)
{
    ASSERTm(check_text, make_both(config, more));
    ASSERT_EQ(1, posenc_model_config(again)->recompute);
    ASSERT(posenc_model_find(kept, "blocks.1.attn.q"));
    ASSERTm("the inside of every block is kept", !posenc_model_find(again, "blocks.1.attn.q"));
    for (int step = 0; step < 3; step++) {
        int same = same_step(step, with);
        ASSERTm(check_text, same);
    }
    PASS();
}

TEST number_of_threads_does_not_matter(const char *more)
{
    posenc_model *two = make_model("%s layers=3 channels=64 hidden=256 threads=2 recompute=1"
                                   EVERYWHERE_DROPPED " %s", kinds[MODERN].config, more);
    kept = make_model("%s layers=3 channels=64 hidden=256" EVERYWHERE_DROPPED " %s",
                      kinds[MODERN].config, more);
    again = make_model("%s layers=3 channels=64 hidden=256 recompute=1" EVERYWHERE_DROPPED " %s",
                       kinds[MODERN].config, more);
    ASSERTm(check_text, two && kept && again);
    ASSERTm(check_text, train_steps(kept, 0, 2) && train_steps(again, 0, 2)
            && train_steps(two, 0, 2));
    ASSERTm(check_text, same_state(kept, again) && same_state(kept, two));
    posenc_model_free(two);
    PASS();
}

TEST frozen_tensors_stay_and_the_rest_moves_alike(void)
{
    ASSERTm(check_text, make_both(kinds[MODERN].config, "encoding=lrope+t5:per_layer=1"));
    for (int i = 0; i < posenc_model_parameters(kept); i += 2)
        posenc_model_parameter(kept, i)->frozen = posenc_model_parameter(again, i)->frozen = 1;
    for (int step = 0; step < 3; step++) {
        int same = same_step(step, PLAIN);
        ASSERTm(check_text, same);
    }
    PASS();
}

/* ---- an encoding of the caller's own --------------------------------------------------------- */

/* callbacks run on the host, with numbers that come and go through the same room */
static double bend(void *user, int h, int H, int d, const posenc_float *w)
{
    (void)user; (void)H;
    return (double)w[h] * d;
}
static void bend_back(void *user, posenc_float *dw, double dbias, int h, int H, int d,
                      const posenc_float *w)
{
    (void)user; (void)H; (void)w;
    dw[h] += (posenc_float)(dbias * d);
}
static void tilt(void *user, posenc_float *row, double p, int C, const posenc_float *w)
{
    (void)user;
    for (int c = 0; c < C; c++) row[c] += w[c] * (posenc_float)p;
}
static void tilt_back(void *user, posenc_float *dw, const posenc_float *drow, double p, int C,
                      const posenc_float *w)
{
    (void)user; (void)w;
    for (int c = 0; c < C; c++) dw[c] += drow[c] * (posenc_float)p;
}
static const posenc_custom own[] = {
    { .name = "bend", .parameters = 4, .bias = bend, .bias_backward = bend_back },
    { .name = "tilt", .parameters = CHANNELS, .row = tilt, .row_backward = tilt_back }
};

static posenc_model *with_own(int recompute)
{
    char spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_error why;
    posenc_model *m = NULL;
    memset(&c, 0, sizeof c);
    c.layers = LAYERS;
    c.recompute = recompute;
    if (posenc_config_parse(&c, spec, kinds[NEXT_TOKEN].config, &why) != POSENC_OK) return NULL;
    c.encoding = "bend+tilt";
    c.custom = own;
    c.customs = 2;
    if (posenc_model_create(&m, &c, &why) != POSENC_OK) said(&why);
    return m;
}
TEST encodings_of_the_callers_own_are_called_again(void)
{
    kept = with_own(0);
    again = with_own(1);
    ASSERTm(check_text, kept && again);
    for (int step = 0; step < 3; step++) {
        int same = same_step(step, PLAIN);
        ASSERTm(check_text, same);
    }
    PASS();
}

/* ---- what can be read ------------------------------------------------------------------------ */

typedef struct seen { int calls, wrong; posenc_float q[LAYERS][ROOM], map[LAYERS][ROOM]; } seen;
static seen in_kept, in_again;
static void look(void *user, posenc_model *m, int layer)
{
    seen *s = (seen *)user;
    char name[64];
    posenc_tensor *q;
    snprintf(name, sizeof name, "blocks.%d.attn.q", posenc_model_config(m)->recompute ? 0 : layer);
    q = posenc_model_find(m, name);
    posenc_model_get(m, s->q[layer], q->data, q->count);
    s->wrong += posenc_model_attention(m, s->map[layer], layer, NULL) != POSENC_OK;
    s->wrong += posenc_model_attention(m, s->map[layer], !layer, NULL) == POSENC_OK;
    s->calls++;
}
/* once, in the forward, and what is asked for there does not disturb the backward */
TEST watching_shows_every_block_once(const char *more)
{
    data d;
    int same;
    memset(&in_kept, 0, sizeof in_kept);
    memset(&in_again, 0, sizeof in_again);
    ASSERTm(check_text, make_both(kinds[NEXT_TOKEN].config, more));
    posenc_model_watch(kept, look, &in_kept);
    posenc_model_watch(again, look, &in_again);
    fill_step(&d, 0, PLAIN);
    same = same_loss(posenc_model_train, &d.batch) && same_part(kept, again, GRADIENTS, 0);
    ASSERTm(check_text, same);
    ASSERT_EQ(LAYERS, in_again.calls);
    ASSERT_EQ(0, in_again.wrong);
    ASSERT_MEM_EQ(&in_kept, &in_again, sizeof in_kept);
    PASS();
}

/* ready or not, a map is of the weights it was made with */
TEST maps_wait_for_a_forward(void)
{
    static posenc_float map[ROOM];
    posenc_error why;
    ASSERTm(check_text, make_both(kinds[NEXT_TOKEN].config, "encoding=rope"));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(again, map, 0, &why));
    ASSERTm(check_text, train_steps(again, 0, 1));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(again, map, 0, &why));
    ASSERTm(check_text, mentions(why.text, "after a forward", (char *)0));
    PASS();
}

TEST generation_gives_the_same_tokens(void)
{
    static const int prompt[6] = { 3, 1, 4, 1, 5, 0 }, length[2] = { 3, 2 };
    int out[2][2 * 9], count[2];
    ASSERTm(check_text, make_both(kinds[MODERN].config, "encoding=rope"));
    ASSERTm(check_text, train_steps(kept, 0, 2) && train_steps(again, 0, 2));
    memset(out, 0, sizeof out);
    for (int i = 0; i < 2; i++) {
        posenc_model *m = i ? again : kept;
        posenc_cache *cache = NULL;
        posenc_generation how;
        posenc_error why;
        memset(&how, 0, sizeof how);
        how.most = 9;
        ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&cache, m, 2, 16, &why));
        ASSERT_EQm(why.text, POSENC_OK,
                   posenc_generate(out[i], count, m, cache, prompt, length, 3, &how, &why));
        posenc_cache_free(cache);
    }
    ASSERT_MEM_EQ(out[0], out[1], sizeof out[0]);
    ASSERTm(check_text, train_steps(kept, 2, 2) && train_steps(again, 2, 2)
            && same_state(kept, again));
    PASS();
}

/* The room inside has been written over since: what comes out of the block is the first to tell. */
TEST overflow_is_traced_to_the_block(int layer)
{
    posenc_float x[CHANNELS];
    posenc_tensor *t;
    posenc_error why;
    char name[64];
    double loss;
    data d;
    ASSERTm(check_text, make_both(kinds[NEXT_TOKEN].config, "encoding=learned"));
    for (int i = 0; i < CHANNELS; i++) x[i] = (posenc_float)3e38;
    snprintf(name, sizeof name, "blocks.%d.mlp.up_proj.weight", layer);
    t = posenc_model_find(again, name);
    posenc_model_set(again, t->data + 2 * CHANNELS, x, CHANNELS);
    snprintf(name, sizeof name, "blocks.%d.norm2.weight", layer);
    for (int i = 0; i < CHANNELS; i++) x[i] = (posenc_float)1e6;
    posenc_model_set(again, posenc_model_find(again, name)->data, x, CHANNELS);
    fill_step(&d, 0, PLAIN);
    ASSERT_EQ(POSENC_NOT_FINITE, posenc_model_train(again, &d.batch, &loss, &why));
    snprintf(name, sizeof name, "blocks.%d.out", layer);
    ASSERTm(check_text, mentions(why.text, "step 0", name, (char *)0));
    PASS();
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t activation_bytes(const char *more)
{
    char text[512], spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_bytes bytes;
    posenc_error why;
    memset(&c, 0, sizeof c);
    c.threads = 1;
    snprintf(text, sizeof text, "vocab=50 context=64 batch=8 channels=64 causal=1 %s", more);
    if (posenc_config_parse(&c, spec, text, &why) != POSENC_OK
        || posenc_model_bytes(&bytes, &c, &why) != POSENC_OK) { said(&why); return 0; }
    return bytes.activations;
}
/* R C numbers for a layer, and the few kilobytes of its names */
TEST a_layer_more_takes_one_row_of_the_stream(void)
{
    size_t row = 8 * 64 * 64 * sizeof(posenc_float), names = 8192;             /* C = 64, R = 512 */
    size_t eight = activation_bytes("layers=8 recompute=1");
    size_t nine = activation_bytes("layers=9 recompute=1");
    size_t all = activation_bytes("layers=9");
    ASSERT(eight > 0 && nine >= eight + row && nine <= eight + row + names);
    ASSERT_GTE(all - nine, 8 * 15 * row);                /* h1 q k v a mid h2, and up, act of 4 C */
    PASS();
}
TEST one_layer_takes_as_much_as_ever(void)
{
    ASSERT_EQ(activation_bytes("layers=1"), activation_bytes("layers=1 recompute=1"));
    ASSERT_EQ(activation_bytes("inference=1"), activation_bytes("inference=1 recompute=1"));
    PASS();
}

/* ---- text and files -------------------------------------------------------------------------- */

TEST the_key_is_written_where_it_is_set(void)
{
    char text[POSENC_SPEC_TEXT + 2048], spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_error why;
    posenc_model *none;
    ASSERTm(check_text, make_both(kinds[CLASSIFIER].config, "encoding=rope"));
    posenc_config_print(text, sizeof text, posenc_model_config(kept));
    ASSERTm("older readers know no such key", !strstr(text, "recompute"));
    posenc_config_print(text, sizeof text, posenc_model_config(again));
    ASSERTm(check_text, mentions(text, " recompute=1 ", (char *)0));
    memset(&c, 0, sizeof c);
    ASSERT_EQ(POSENC_OK, posenc_config_parse(&c, spec, text, &why));
    ASSERT_EQ(1, c.recompute);
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_config_parse(&c, spec, "recompute=2", &why));
    c.recompute = -1;
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_model_create(&none, &c, &why));
    ASSERTm(check_text, mentions(why.text, "recompute", (char *)0));
    PASS();
}

/* A run that stops in one of the two models goes on in the other as if nothing had been. */
TEST checkpoint_goes_on_in_the_other_model(int recompute)
{
    char path[256], spec[POSENC_SPEC_TEXT];
    posenc_model *first, *rest;
    posenc_config c;
    posenc_error why;
    ASSERTm(check_text, make_both(kinds[MODERN].config, "encoding=lrope+t5" EVERYWHERE_DROPPED));
    first = recompute ? again : kept;
    rest = recompute ? kept : again;
    temporary_path(path, sizeof path, "recompute");
    ASSERTm(check_text, train_steps(first, 0, 3) && train_steps(rest, 7, 1));
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_save(first, path, POSENC_WEIGHTS_AND_STATE, NULL, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_checkpoint_config(&c, spec, path, &why));
    ASSERT_EQ(recompute, c.recompute);
    ASSERT_EQm(why.text, POSENC_OK,
               posenc_model_load(rest, path, POSENC_WEIGHTS_AND_STATE, NULL, 0, &why));
    remove(path);
    ASSERTm(check_text, train_steps(first, 3, 3) && train_steps(rest, 3, 3)
            && same_state(first, rest));
    PASS();
}

/* ---- which ----------------------------------------------------------------------------------- */

SUITE(encodings)
{
    SET_TEARDOWN(give_back, NULL);
    for (int k = 0; k < KINDS; k++) {
        for (int e = 0; posenc_encoding_get(e); e++) {
            const posenc_encoding_info *info = posenc_encoding_get(e);
            const char *small = strstr(info->keys, "hidden") ? ",hidden=8" : "";
            char more[300];
            snprintf(more, sizeof more, "%s%s", encoding_word(e), small);
            label_test("%s_in_%s", info->name, kinds[k].name);
            RUN_TESTp(same_bits_in_three_steps, kinds[k].config, more, PLAIN);
            label_test("%s_in_%s_dropped_at_own_positions", info->name, kinds[k].name);
            snprintf(more, sizeof more, "%s%s" EVERYWHERE_DROPPED, encoding_word(e), small);
            RUN_TESTp(same_bits_in_three_steps, kinds[k].config, more, POSITIONS);
        }
    }
}

SUITE(blocks)
{
    static const struct { const char *name; int kind; const char *more; int with; } variants[] = {
        { "qk_norm_after",      MODERN, "encoding=rope qk_norm=after", PLAIN },
        { "qk_norm_off",        MODERN, "encoding=rope qk_norm=off", PLAIN },
        { "layernorm_with_biases", MODERN, "encoding=rope no_bias=0 norm=layernorm", PLAIN },
        { "untied",             MODERN, "encoding=rope tied_head=0", PLAIN },
        { "one_kv_head",        MODERN, "encoding=rope kv_heads=1", PLAIN },
        { "wide_heads",         MODERN, "encoding=rope head_channels=6", PLAIN },
        { "geglu",              CLASSIFIER, "encoding=learned activation=geglu", PLAIN },
        { "post_norm",          CLASSIFIER, "encoding=learned norm_place=post", PLAIN },
        { "post_norm_modern",   MODERN, "encoding=rope norm_place=post embedding_norm=1", PLAIN },
        { "post_norm_dropped",  NEXT_TOKEN,
          "encoding=lrope norm_place=post embedding_norm=1 qk_norm=after" EVERYWHERE_DROPPED,
          POSITIONS },
        { "embedding_norm",     CLASSIFIER, "encoding=sininit embedding_norm=1", PLAIN },
        { "parallel",           NEXT_TOKEN, "encoding=rope:dim=2 parallel=1", PLAIN },
        { "parallel_dropped",   MODERN, "encoding=lrope parallel=1" EVERYWHERE_DROPPED, PLAIN },
        { "norm_none",          CLASSIFIER, "encoding=learned norm=none", PLAIN },
        { "norm_none_post",     NEXT_TOKEN, "encoding=rope norm=none norm_place=post", PLAIN },
        { "no_residual",        NEXT_TOKEN, "encoding=learned no_residual=1", PLAIN },
        { "no_residual_post",   CLASSIFIER, "encoding=learned no_residual=1 norm_place=post",
          PLAIN },
        { "no_residual_norm_none", NEXT_TOKEN, "encoding=learned norm=none no_residual=1", PLAIN },
        { "dropped_embedding",  CLASSIFIER, "encoding=learned dropout_embedding=0.2", PLAIN },
        { "dropped_map",        CLASSIFIER, "encoding=relative dropout_attention=0.3", PLAIN },
        { "dropped_branches",   CLASSIFIER, "encoding=learned dropout_branch=0.2", PLAIN },
        { "dropped_hidden",     CLASSIFIER, "encoding=learned dropout_hidden=0.3", PLAIN },
        { "dropped_altogether", MODERN, "encoding=rope dropout_hidden=1", PLAIN },
        { "bf16",               MODERN, "encoding=rope precision=bf16", PLAIN },
        { "bf16_dropped",       CLASSIFIER, "encoding=t5 precision=bf16" EVERYWHERE_DROPPED,
          PLAIN },
        { "bf16_post_norm",     NEXT_TOKEN, "encoding=rope precision=bf16 norm_place=post", PLAIN },
        { "packed",             NEXT_TOKEN, "encoding=rope+t5", SEGMENTS },
        { "packed_and_padded",  CLASSIFIER, "encoding=learned+relative", SEGMENTS | POSITIONS },
        { "padded_on_the_left", MODERN, "encoding=rope", TYPES | POSITIONS },
        { "types",              CLASSIFIER, "encoding=learned token_types=2", TYPES },
        { "window",             NEXT_TOKEN, "encoding=t5 window=3", PLAIN },
        { "own_divisor",        NEXT_TOKEN, "encoding=rope", DIVIDED },
        { "attention_scale",    NEXT_TOKEN, "encoding=t5 attention_scale=1", PLAIN },
        { "scaled_embedding",   MODERN, "encoding=learned scale_embedding=1", PLAIN },
        { "several_encodings",  CLASSIFIER,
          "encoding=learned+continuous:hidden=8+lrope+relative+t5+alibi", POSITIONS },
        { "tables_for_each_layer", CLASSIFIER,
          "encoding=t5:per_layer=1+relative+kerple:per_layer=1+lalibi" EVERYWHERE_DROPPED,
          POSITIONS },
        { "swin_for_each_layer", CLASSIFIER, "encoding=swin:per_layer=1", POSITIONS },
        { "lrope_over_the_width", MODERN, "encoding=lrope:over=width kv_heads=4 qk_norm=after",
          PLAIN },
        { "every_second_layer_does_not_turn", MODERN, "encoding=lrope:nope_every=2", POSITIONS },
        { "llama4",             MODERN,
          "encoding=rope:nope_every=2+qtemp:every=2,original=2,rate=0.7", PLAIN },
        { "xpos_qk_norm_after", MODERN, "encoding=xpos:scale_base=16 qk_norm=after", PLAIN },
        { "dynamic",            MODERN, "encoding=rope:scaling=dynamic,factor=2,original=4", PLAIN }
    };
    SET_TEARDOWN(give_back, NULL);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        label_test("%s", variants[i].name);
        RUN_TESTp(same_bits_in_three_steps, kinds[variants[i].kind].config, variants[i].more,
                  variants[i].with);
    }
    label_test("rope"); RUN_TESTp(number_of_threads_does_not_matter, "encoding=rope");
    label_test("bf16"); RUN_TESTp(number_of_threads_does_not_matter, "encoding=t5 precision=bf16");
    RUN_TEST(frozen_tensors_stay_and_the_rest_moves_alike);
    RUN_TEST(encodings_of_the_callers_own_are_called_again);
}

SUITE(around_them)
{
    SET_TEARDOWN(give_back, NULL);
    label_test("pre");  RUN_TESTp(watching_shows_every_block_once, "encoding=rope+t5:per_layer=1");
    label_test("post");
    RUN_TESTp(watching_shows_every_block_once, "encoding=lrope norm_place=post");
    RUN_TEST(maps_wait_for_a_forward);
    RUN_TEST(generation_gives_the_same_tokens);
    for (int l = 0; l < LAYERS; l++) {
        label_test("%d", l);
        RUN_TESTp(overflow_is_traced_to_the_block, l);
    }
    RUN_TEST(a_layer_more_takes_one_row_of_the_stream);
    RUN_TEST(one_layer_takes_as_much_as_ever);
    RUN_TEST(the_key_is_written_where_it_is_set);
    label_test("with"); RUN_TESTp(checkpoint_goes_on_in_the_other_model, 1);
    label_test("without"); RUN_TESTp(checkpoint_goes_on_in_the_other_model, 0);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(encodings);
    RUN_SUITE(blocks);
    RUN_SUITE(around_them);
    GREATEST_MAIN_END();
}
