/* bench/steps.h - whole training steps: forward, loss, backward, clipping, update

   pattern   demos/pattern with its defaults; pattern_plain is the same without dropout
   marker    demos/marker's fair blocks at depth 1, 4 and 16, sinusoidal or rope
   micro     a modern language model over bytes: RMSNorm, SwiGLU, QK-norm, tied head, no biases
   tiny      the same with a vocabulary of 65536 and a context of 1024
   decode    tiny writes one token: every weight is read once, so its bytes are the measure */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include "bench/works.h"
#include "lm/sizes.h"
#include "marker/nets.h"

/* ---- configurations -------------------------------------------------------------------------- */

static posenc_config pattern_model(const char *spec, double dropout)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = spec;
    c.vocab = 20;
    c.context = 32;
    c.classes = 3;
    c.batch = 32;
    c.layers = 3;
    c.channels = 128;
    c.heads = 8;
    c.hidden = 512;
    c.mask_padding = 1;
    c.activation = POSENC_RELU;
    c.embedding_init = 0.5;
    c.dropout_embedding = c.dropout_attention = c.dropout_branch = c.dropout_hidden = dropout;
    return c;
}

static posenc_config marker_model(const char *spec, int depth)
{
    net_plan p;
    memset(&p, 0, sizeof p);               /* NET_FAIR, no dropout */
    p.spec = spec;
    p.depth = depth;
    p.batch = 32;
    p.width = 64;
    p.heads = 4;
    p.hidden = 128;
    return net_config(&p);
}

static posenc_config language_model(const char *spec, int tiny)
{
    posenc_config c = lm_size_config(lm_size_find(tiny ? "tiny" : "micro"), spec);
    c.batch = tiny ? 4 : 16;
    return c;
}

enum { PATTERN_MODEL, PLAIN_MODEL, MARKER_MODEL, MICRO_MODEL, TINY_MODEL };

static posenc_config step_config(const work *w)
{
    int kind = w->form;
    posenc_config c = kind == MARKER_MODEL ? marker_model(w->spec, w->size[0])
                    : kind >= MICRO_MODEL  ? language_model(w->spec, kind == TINY_MODEL)
                                           : pattern_model(w->spec, kind == PLAIN_MODEL ? 0 : 0.1);
    c.threads = posenc_threads();
    c.seed = 1;
#ifdef POSENC_BF16_PRODUCTS
    if (w->precision == BF16) c.precision = POSENC_BF16;
#endif
    return c;
}

static posenc_optimizer step_optimizer(const work *w)
{
    posenc_optimizer o;
    memset(&o, 0, sizeof o);               /* AdamW */
    if (w->form == MARKER_MODEL) o.kind = POSENC_ADAM;
    if (w->form != MARKER_MODEL) o.clip = 1;
    if (w->form <= PLAIN_MODEL) o.decay = 0.01;
    if (w->form >= MICRO_MODEL) { o.decay = 0.1; o.beta2 = 0.95; }
    return o;
}

/* Operations of a step: six for each weight of a product and token (two forward, four backward),
   and fourteen B H T T D for each layer's attention, half of that if it is causal. */
static double step_operations(const posenc_config *c)
{
    double C = c->channels, T = c->context, tokens = c->batch * T;
    double block = 4 * C * C + (c->activation == POSENC_SWIGLU ? 3 : 2) * C * c->hidden;
    double head = c->classes ? C * c->classes / T : C * c->vocab;
    double maps = 14 * tokens * T * C * c->layers * (c->causal ? 0.5 : 1);
    return 6 * tokens * (c->layers * block + head) + maps;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Small numbers more often than large ones, as in text, but from first on. */
static void draw_tokens(int *tokens, size_t n, int first, int vocab)
{
    kit_random r = kit_random_open(1, KIT_RANDOM_TRAIN, 0);
    for (size_t i = 0; i < n; i++) {
        double u = kit_random_word(&r) / 4294967296.0;
        tokens[i] = first + (int)((vocab - first) * u * u * u);
    }
}

/* Token 0 is padding where padding is masked, and is not drawn then: every token counts. */
static void step_batch(stage *s, const posenc_config *c)
{
    size_t n = (size_t)c->batch * (size_t)c->context;
    s->tokens = (int *)kit_new(n + 1, sizeof(int));
    s->targets = (int *)kit_new(n, sizeof(int));
    draw_tokens(s->tokens, n + 1, c->mask_padding, c->vocab);
    for (size_t i = 0; i < n; i++)
        s->targets[i] = c->classes ? (int)(i % (size_t)c->classes) : s->tokens[i + 1];
    memset(&s->batch, 0, sizeof s->batch);
    s->batch.B = c->batch;
    s->batch.T = c->context;
    s->batch.tokens = s->tokens;
    s->batch.targets = s->targets;
}

/* A model of this kind with a batch to train on; scaling.h uses it too. */
static int step_start(stage *s, const posenc_config *c, const posenc_optimizer *o, kit_error *why)
{
    posenc_error said;
    step_batch(s, c);
    s->optimizer = *o;
    if (posenc_model_create(&s->model, c, &said) == POSENC_OK) return 1;
    return kit_fail(why, "%s", said.text);
}

/* marker's own sequences: mostly zeros, which is not the same work as a mixture */
static void marker_step_batch(stage *s)
{
    for (int i = 0; i < s->batch.B; i++) {
        int *tokens = s->tokens + i * MARKER_LENGTH, *targets = s->targets + i * MARKER_LENGTH;
        marker_sequence(tokens, MARKER_LEAST + i % MARKER_VALUES);
        marker_targets(targets, tokens);
    }
}

static int step_open(stage *s, const work *w, kit_error *why)
{
    posenc_config c = step_config(w);
    posenc_optimizer o = step_optimizer(w);
    if (!step_start(s, &c, &o, why)) return 0;
    if (w->form == MARKER_MODEL) marker_step_batch(s);
    return 1;
}

static void step_go(void *user)
{
    stage *s = (stage *)user;
    double loss;
    if (s->wrong.text[0]) return;
    if (posenc_model_train(s->model, &s->batch, &loss, &s->wrong) != POSENC_OK
        || posenc_model_update(s->model, &s->optimizer, 1e-4, NULL, &s->wrong) != POSENC_OK) {
        if (!s->wrong.text[0]) snprintf(s->wrong.text, sizeof s->wrong.text, "the step failed");
        return;
    }
    s->wrong.text[0] = 0;
}

/* ---- a token --------------------------------------------------------------------------------- */

enum { DECODE_SLOTS = 128 };

static int decode_open(stage *s, const work *w, kit_error *why)
{
    posenc_config c = language_model("rope", 1);
    posenc_optimizer none;
    posenc_error said;
    memset(&none, 0, sizeof none);
    c.batch = 1;
    c.context = DECODE_SLOTS;
    c.inference = 1;
    c.threads = posenc_threads();
    c.precision = w->precision == BF16 ? POSENC_BF16 : POSENC_FP32;
    if (!step_start(s, &c, &none, why)) return 0;
    s->batch.T = 1;
    s->a[0] = bench_numbers((size_t)c.vocab);
    if (posenc_cache_create(&s->cache, s->model, 1, DECODE_SLOTS, &said) == POSENC_OK) return 1;
    return kit_fail(why, "%s", said.text);
}

static void decode_go(void *user)
{
    stage *s = (stage *)user;
    if (s->wrong.text[0]) return;
    if (posenc_cache_used(s->cache) == DECODE_SLOTS) posenc_cache_clear(s->cache);
    if (posenc_model_extend(s->model, s->cache, &s->batch, &s->wrong) != POSENC_OK
        || posenc_model_logits(s->model, s->a[0], 0, 1, &s->wrong) != POSENC_OK) return;
    s->wrong.text[0] = 0;
}

static void add_decoding(work_list *l, int precision)
{
    posenc_config c = language_model("rope", 1);
    double blocks = c.layers * (4.0 * c.channels * c.channels + 3.0 * c.channels * c.hidden);
    work *w = add_work(l, "decode", "decode/tiny/%s", precision == BF16 ? "bf16" : "fp32");
    w->precision = precision;
    w->unit = BYTES;
    w->amount = (blocks + (double)c.vocab * c.channels) * (precision == BF16 ? 2 : 4);
    w->open = decode_open;
    w->go = decode_go;
}

/* ---- the list -------------------------------------------------------------------------------- */

static void add_step(work_list *l, const char *group, const char *name, int kind, int depth,
                     const char *spec, int precision)
{
    work *w = add_work(l, group, "step/%s/%s", name, precision == BF16 ? "bf16" : "fp32");
    w->form = kind;
    w->size[0] = depth;
    w->spec = spec;
    w->precision = precision;
    w->heavy = kind == TINY_MODEL;
    posenc_config c = step_config(w);
    w->unit = TOKENS;
    w->amount = (double)c.batch * c.context;
    w->operations = step_operations(&c);
    w->open = step_open;
    w->go = step_go;
}

static void add_steps(work_list *l, int bf16)
{
    add_step(l, "step/pattern", "pattern", PATTERN_MODEL, 0, "learned", FP32);
    add_step(l, "step/pattern", "pattern_plain", PLAIN_MODEL, 0, "learned", FP32);
    if (bf16) add_step(l, "step/pattern", "pattern", PATTERN_MODEL, 0, "learned", BF16);
    add_step(l, "step/marker", "marker1", MARKER_MODEL, 1, "sinusoidal", FP32);
    add_step(l, "step/marker", "marker4", MARKER_MODEL, 4, "sinusoidal", FP32);
    add_step(l, "step/marker", "marker16", MARKER_MODEL, 16, "sinusoidal", FP32);
    add_step(l, "step/marker", "marker1_rope", MARKER_MODEL, 1, "rope", FP32);
    add_step(l, "step/marker", "marker4_rope", MARKER_MODEL, 4, "rope", FP32);
    add_step(l, "step/marker", "marker16_rope", MARKER_MODEL, 16, "rope", FP32);
    for (int precision = FP32; precision <= (bf16 ? BF16 : FP32); precision++)
        add_step(l, "step/micro", "micro", MICRO_MODEL, 0, "rope", precision);
    for (int precision = FP32; precision <= (bf16 ? BF16 : FP32); precision++)
        add_step(l, "step/tiny", "tiny", TINY_MODEL, 0, "rope", precision);
}

/* every work of this build, in the order of the table */
static void list_works(work_list *l)
{
#ifdef POSENC_BF16_PRODUCTS
    int bf16 = 1;
#else
    int bf16 = 0;
#endif
    l->count = 0;
    add_products(l, FP32);
    if (bf16) add_products(l, BF16);
    add_rope(l);
    add_attention(l);
    add_rows(l);
    add_steps(l, bf16);
    add_decoding(l, FP32);
    if (bf16) add_decoding(l, BF16);
}

#endif
