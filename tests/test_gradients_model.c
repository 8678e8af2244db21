/* The gradient of every tensor of every kind of model against finite differences, in double.
   Tensors are taken from the model itself, and encodings from their table, so nothing new can be
   left out.                                                                                      */
#define _POSIX_C_SOURCE 200809L
#define POSENC_DOUBLE
#include "posenc.h"
#include "check.h"
#include "models.h"

enum { B = 2, T = 7 };

typedef struct nudge {                           /* the loss as a function of one tensor          */
    posenc_model *m;
    posenc_tensor *t;
    posenc_float *x;
    const posenc_batch *batch;
    int dropped;
} nudge;

/* Without dropout the loss comes from a plain forward. With it, only training draws the masks;
   they hang on the step, which does not move, and the gradients that pile up meanwhile are
   cleared at the end.                                                                            */
static double loss_of(void *ctx)
{
    nudge *n = (nudge *)ctx;
    posenc_error why;
    double loss = HUGE_VAL;
    posenc_status status;
    posenc_model_set(n->m, n->t->data, n->x, n->t->count);
    status = n->dropped ? posenc_model_train(n->m, n->batch, &loss, &why)
                        : posenc_model_loss(n->m, n->batch, &loss, &why);
    return status == POSENC_OK ? loss : HUGE_VAL;
}

/* gains and scales near one, all the rest at random and large enough to matter */
static void randomize(posenc_model *m)
{
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *x = copy_tensor(m, t->data, t->count);
        double spread = t->dims == 2 && t->shape[1] > 32 ? 0.1 : 0.4;
        for (size_t k = 0; k < t->count; k++) x[k] += spread * check_random();
        posenc_model_set(m, t->data, x, t->count);
        free(x);
    }
}

static int ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* A key bias adds q.b to a whole row of scores, which softmax does not see, unless the key is
   turned by its position or normed on the way: then it matters.                                  */
static int key_bias_vanishes(const posenc_config *c)
{
    posenc_spec list[POSENC_SPECS];
    int count = 0, turned = 0;
    posenc_spec_parse(list, &count, POSENC_SPECS, c->encoding, NULL);
    for (int i = 0; i < count; i++)
        turned |= posenc_encoding_get(list[i].encoding)->where == POSENC_QUERY_KEY
               && list[i].encoding != POSENC_QTEMP;
    return !turned && !c->qk_norm;
}

TEST check_tensor(nudge *n, const posenc_float *grad)
{
    int zero = ends_in(n->t->name, "k_proj.bias") && key_bias_vanishes(posenc_model_config(n->m));
    gradient_of of;
    of.name = n->t->name;
    of.x = n->x;
    of.dx = grad;
    of.n = n->t->count;
    ASSERTm(check_text, gradient_check(loss_of, n, &of, 1, 0, zero));
    PASS();
}

TEST check_all(posenc_model *m, const posenc_batch *batch)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_float *all, *grad;
    posenc_error why;
    double loss = HUGE_VAL, plain = HUGE_VAL;
    nudge n;
    memset(&n, 0, sizeof n);
    n.m = m;
    n.batch = batch;
    n.dropped = c->dropout_embedding > 0 || c->dropout_attention > 0 || c->dropout_branch > 0
             || c->dropout_hidden > 0;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, batch, &loss, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_loss(m, batch, &plain, &why));
    if (n.dropped) ASSERTm("dropout is on and changes nothing", fabs(loss - plain) > 1e-6);
    else           ASSERTm("train and loss disagree on the loss", loss == plain);
    all = grad = copy_of(m, GRADIENTS);
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        n.t = posenc_model_parameter(m, i);
        n.x = copy_tensor(m, n.t->data, n.t->count);
        if (!n.t->frozen) CHECK_CALL(check_tensor(&n, grad));
        posenc_model_set(m, n.t->data, n.x, n.t->count);
        memset(n.x, 0, n.t->count * sizeof *n.x);
        posenc_model_set(m, n.t->grad, n.x, n.t->count);
        grad += n.t->count;
        free(n.x);
    }
    ASSERT_EQ(0, posenc_model_steps(m));                                 /* the masks stood still */
    free(all);
    PASS();
}

enum { PLAIN = 0, POSITIONS = 1, SEGMENTS = 2, FRACTIONS = 4, DIVIDED = 8, TYPES = 16 };

TEST every_tensor_has_the_right_gradient(const char *config, const char *more, int with)
{
    posenc_model *m = make_model("%s %s", config, more);
    data d;
    ASSERTm(check_text, m);
    check_seed = 11;
    randomize(m);
    fill_data(&d, m, B, T, 3);
    if (with & (POSITIONS | FRACTIONS)) add_positions(&d);
    if (with & FRACTIONS) for (int r = 0; r < B * T; r++) d.positions[r] += 0.25 * (r % 4);
    if (with & SEGMENTS) add_segments(&d);
    if (with & DIVIDED) d.batch.divisor = 29;
    if (with & TYPES) add_types_and_keep(&d, posenc_model_config(m)->token_types);
    CHECK_CALL(check_all(m, &d.batch));
    posenc_model_free(m);
    PASS();
}

/* A test that looks for a vanishing gradient must have met one, and one that does not vanish. */
TEST key_bias_is_dead_alone_and_alive_when_turned(void)
{
    static const struct { const char *more; int vanishes; } list[] = {
        { "encoding=learned", 1 }, { "encoding=relative+sinusoidal", 1 }, { "encoding=rope", 0 },
        { "encoding=none qk_norm=before", 0 }
    };
    for (int i = 0; i < 4; i++) {
        posenc_model *m = make_model("%s %s", kinds[CLASSIFIER].config, list[i].more);
        posenc_float *g;
        posenc_tensor *t;
        posenc_error why;
        double norm = 0, loss;
        data d;
        ASSERTm(check_text, m);
        randomize(m);
        fill_data(&d, m, B, T, 3);
        ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
        t = posenc_model_find(m, "blocks.1.attn.k_proj.bias");
        ASSERT(t);
        g = copy_tensor(m, t->grad, t->count);
        for (size_t k = 0; k < t->count; k++) norm += g[k] * g[k];
        ASSERT_EQ(list[i].vanishes, key_bias_vanishes(posenc_model_config(m)));
        if (list[i].vanishes) ASSERT_LTE(sqrt(norm), 1e-15);
        else                  ASSERT_GT(sqrt(norm), 1e-6);
        free(g);
        posenc_model_free(m);
    }
    PASS();
}

SUITE(models)
{
    static const struct { const char *name; int kind; const char *more; int with; } variants[] = {
        { "classifier",                CLASSIFIER, "", PLAIN },
        { "next_token",                NEXT_TOKEN, "", PLAIN },
        { "modern",                    MODERN, "", PLAIN },
        { "modern_rope_qk_norm_before", MODERN, "encoding=rope", PLAIN },
        { "modern_rope_qk_norm_after", MODERN, "encoding=rope qk_norm=after", PLAIN },
        { "modern_rope_interleaved",   MODERN, "encoding=rope:layout=interleaved,dim=2", PLAIN },
        { "modern_no_qk_norm",         MODERN, "encoding=rope qk_norm=off", PLAIN },
        { "modern_lrope_qk_norm_after", MODERN, "encoding=lrope qk_norm=after", PLAIN },
        { "modern_lrope_no_qk_norm",   MODERN, "encoding=lrope:layout=interleaved qk_norm=off",
          POSITIONS },
        { "modern_untied",             MODERN, "encoding=rope tied_head=0", PLAIN },
        { "modern_with_biases",        MODERN, "encoding=rope no_bias=0 norm=layernorm", PLAIN },
        { "modern_one_kv_head",        MODERN, "encoding=rope kv_heads=1", PLAIN },
        { "post_norm_classifier",      CLASSIFIER,
          "norm_place=post embedding_norm=1 encoding=learned", PLAIN },
        { "post_norm_next_token",      NEXT_TOKEN,
          "norm_place=post embedding_norm=1 encoding=learned", PLAIN },
        { "post_norm_modern",          MODERN, "norm_place=post embedding_norm=1 encoding=rope",
          PLAIN },
        { "embedding_norm_before_pre_norm", CLASSIFIER, "embedding_norm=1 encoding=sininit",
          PLAIN },
        { "gelu_tanh",                 NEXT_TOKEN, "activation=gelu_tanh", PLAIN },
        { "silu",                      NEXT_TOKEN, "activation=silu", PLAIN },
        { "relu",                      NEXT_TOKEN, "activation=relu", PLAIN },
        { "swiglu_with_biases",        CLASSIFIER, "activation=swiglu", PLAIN },
        { "geglu",                     MODERN, "encoding=rope activation=geglu", PLAIN },
        { "geglu_tanh_with_biases",    CLASSIFIER, "activation=geglu_tanh", PLAIN },
        { "wide_heads",                MODERN, "encoding=rope head_channels=6", PLAIN },
        { "narrow_heads",              NEXT_TOKEN, "encoding=relative head_channels=2", PLAIN },
        { "heads_that_do_not_divide",  CLASSIFIER, "encoding=rope heads=3 head_channels=6", PLAIN },
        { "parallel",                  NEXT_TOKEN, "encoding=rope:dim=2 parallel=1", PLAIN },
        { "without_norms",             CLASSIFIER, "encoding=learned norm=none", PLAIN },
        { "without_norms_modern",      MODERN, "encoding=lrope norm=none", PLAIN },
        { "without_norms_behind_branches", NEXT_TOKEN, "encoding=rope norm=none norm_place=post", PLAIN },
        { "without_residuals",         NEXT_TOKEN, "encoding=learned no_residual=1", PLAIN },
        { "without_residuals_post_norm", CLASSIFIER, "encoding=learned no_residual=1 norm_place=post", PLAIN },
        { "without_either",            NEXT_TOKEN, "encoding=learned norm=none no_residual=1", PLAIN },
        { "parallel_modern",           MODERN, "encoding=lrope parallel=1", PLAIN },
        { "types_and_padding",         CLASSIFIER, "encoding=learned token_types=2", TYPES },
        { "types_normed",              NEXT_TOKEN,
          "encoding=learned token_types=3 embedding_norm=1 norm_place=post", TYPES },
        { "padding_on_the_left",       MODERN, "encoding=rope", TYPES | POSITIONS },
        { "window",                    NEXT_TOKEN, "window=3 encoding=t5", PLAIN },
        { "window_on_both_sides",      CLASSIFIER, "window=2 encoding=relative", PLAIN },
        { "segments",                  NEXT_TOKEN, "encoding=rope", SEGMENTS },
        { "segments_and_padding",      CLASSIFIER, "encoding=learned+relative",
          SEGMENTS | POSITIONS },
        { "scaled_embedding",          NEXT_TOKEN, "scale_embedding=1 encoding=sinusoidal", PLAIN },
        { "scaled_tied_embedding",     MODERN, "scale_embedding=1 encoding=learned", PLAIN },
        { "attention_scale",           NEXT_TOKEN, "attention_scale=1 encoding=t5", PLAIN },
        { "own_divisor",               NEXT_TOKEN, "encoding=rope", DIVIDED },
        { "several_encodings",         CLASSIFIER,
          "encoding=learned+continuous:hidden=8+lrope+relative+t5+alibi", POSITIONS },
        { "fractional_positions",      CLASSIFIER, "encoding=continuous:hidden=8,length=7+lrope",
          FRACTIONS },
        { "rope_over_the_width",       CLASSIFIER, "encoding=rope:over=width", PLAIN },
        { "rope_over_less_than_the_channels", CLASSIFIER, "encoding=lrope:over=width head_channels=3", PLAIN },
        { "rope_over_more_than_the_channels", CLASSIFIER, "encoding=lrope:over=width head_channels=5", PLAIN },
        { "lrope_over_the_width",      CLASSIFIER, "encoding=lrope:over=width,layout=interleaved",
          POSITIONS },
        { "lrope_over_the_width_qk_norm_before", MODERN,
          "encoding=lrope:over=width kv_heads=4", PLAIN },
        { "lrope_over_the_width_qk_norm_after", MODERN,
          "encoding=lrope:over=width kv_heads=4 qk_norm=after", PLAIN },
        { "every_second_layer_does_not_turn", MODERN, "encoding=lrope:nope_every=2 layers=4",
          POSITIONS },
        { "nor_with_qk_norm_after",    MODERN,
          "encoding=lrope:nope_every=2 layers=3 qk_norm=after", PLAIN },
        { "llama4",                    MODERN,
          "encoding=rope:nope_every=2+qtemp:every=2,original=2,rate=0.7 layers=4", PLAIN },
        { "tempered_biases",           NEXT_TOKEN, "encoding=qtemp:form=logn,original=3+t5",
          POSITIONS },
        { "yarn_trailing",             CLASSIFIER,
          "encoding=rope:dim=2,offset=2,scaling=yarn,factor=4,original=8", PLAIN },
        { "dynamic",                   MODERN,
          "encoding=rope:scaling=dynamic,factor=2,original=4", POSITIONS },
        { "longrope",                  MODERN,
          "encoding=rope:scaling=longrope,factor=4,original=4,short=1/2,long=1.5/3", PLAIN },
        { "xpos_qk_norm_after",        MODERN, "encoding=xpos:scale_base=16 qk_norm=after", PLAIN },
        { "bias_for_each_layer",       CLASSIFIER,
          "encoding=t5:per_layer=1+relative+kerple:per_layer=1+lalibi", POSITIONS },
        { "kerple_power",              NEXT_TOKEN, "encoding=kerple:form=power", PLAIN },
        { "past_alone",                NEXT_TOKEN, "encoding=relative:bidirectional=-1,distance=3",
          PLAIN },
        { "swin_for_each_layer",       CLASSIFIER, "encoding=swin:per_layer=1", POSITIONS },
        { "scaled_sinusoids",          CLASSIFIER, "encoding=sinusoidal:scaled=1,layout=concat",
          PLAIN },
        { "scaled_sinusoids_at_own_positions", NEXT_TOKEN,
          "encoding=sinusoidal:scaled=1,frequencies=t2t", POSITIONS },
        { "table_with_an_offset",      CLASSIFIER, "encoding=learned:offset=2", POSITIONS },
        { "one_hidden_layer",          CLASSIFIER, "encoding=continuous:hidden=8,depth=1", PLAIN },
        { "learned_fourier_on_a_grid", CLASSIFIER,
          "encoding=learned_fourier:axes=2,hidden=8,features=6,length=1", POSITIONS },
        { "dropout_of_the_embedding",  CLASSIFIER, "encoding=learned dropout_embedding=0.2",
          PLAIN },
        { "dropout_of_the_map",        CLASSIFIER, "encoding=relative dropout_attention=0.3",
          PLAIN },
        { "dropout_of_the_branches",   CLASSIFIER, "encoding=learned dropout_branch=0.2", PLAIN },
        { "dropout_of_the_hidden",     CLASSIFIER, "encoding=learned dropout_hidden=0.3", PLAIN },
        { "dropout_everywhere_classifier", CLASSIFIER,
          "encoding=learned+relative" EVERYWHERE_DROPPED, PLAIN },
        { "dropout_everywhere_next_token", NEXT_TOKEN,
          "encoding=continuous:hidden=8+t5" EVERYWHERE_DROPPED, SEGMENTS },
        { "dropout_everywhere_modern", MODERN, "encoding=lrope" EVERYWHERE_DROPPED, PLAIN },
        { "dropout_everywhere_post_norm", MODERN,
          "encoding=lrope norm_place=post embedding_norm=1 qk_norm=after" EVERYWHERE_DROPPED,
          POSITIONS }
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        label_test("%s", variants[i].name);
        RUN_TESTp(every_tensor_has_the_right_gradient, kinds[variants[i].kind].config,
                  variants[i].more, variants[i].with);
    }
    RUN_TEST(key_bias_is_dead_alone_and_alive_when_turned);
}

/* Each row of the table in each kind of model, and in one of them at positions of its own. */
SUITE(encodings)
{
    for (int k = 0; k < KINDS; k++) {
        for (int e = 0; posenc_encoding_get(e); e++) {
            const posenc_encoding_info *info = posenc_encoding_get(e);
            char more[200];
            snprintf(more, sizeof more, "%s%s", encoding_word(e),
                     strstr(info->keys, "hidden") ? ",hidden=8" : "");
            label_test("%s_in_%s", info->name, kinds[k].name);
            RUN_TESTp(every_tensor_has_the_right_gradient, kinds[k].config, more, PLAIN);
            if (k != MODERN) continue;
            label_test("%s_in_%s_at_own_positions", info->name, kinds[k].name);
            RUN_TESTp(every_tensor_has_the_right_gradient, kinds[k].config, more, POSITIONS);
        }
    }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(models);
    RUN_SUITE(encodings);
    GREATEST_MAIN_END();
}
