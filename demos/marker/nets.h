/* marker/nets.h - the three kinds of model that marker trains, behind one set of calls

   NET_FAIR     the library's transformer, causal and pre-norm: the same blocks for every encoding.
   NET_ACROSS   the published additive models: post-norm encoder layers that were handed (batch,
                position, width) where PyTorch expects (position, batch, width). So they attend
                across the batch: a token sees the tokens at its own position in the other
                sequences, never its own sequence. Here the same comes from a batch whose rows are
                positions and whose columns are samples.
   NET_ROTARY   the published rotary models, rotary.h.

   Batches are (B, 64) tokens and targets in every case. */
#ifndef MARKER_NETS_H
#define MARKER_NETS_H

#include "data.h"
#include "rotary.h"

typedef enum net_kind { NET_FAIR, NET_ACROSS, NET_ROTARY } net_kind;

/* everything that decides a model */
typedef struct net_plan {
    net_kind kind;
    const char *spec;
    int depth, batch, width, heads, hidden, threads;
    int precision;                         /* of products; the rotary model has fp32 only         */
    double dropout;                        /* of the fair blocks                                  */
    uint64_t seed;
} net_plan;

typedef struct net {
    net_plan plan;
    posenc_model *model;                   /* NET_FAIR, NET_ACROSS                                */
    rotary *rotary;                        /* NET_ROTARY                                          */
    size_t parameters;
    int *tokens, *targets;                 /* NET_ACROSS: the batch turned round, (64, B)         */
    double *positions;
    float *logits;
} net;

/* ---- how a model is made ---------------------------------------------------------------------
   Fair: token embeddings start with a spread of 1, like PyTorch's. It is one setting for all
   encodings, and large enough that sine waves (0.7 on average) do not drown the tokens. No dropout
   by default: the models are small and see 400 steps, and what they have to learn is exact.
   Published: PyTorch's own first values where they differ from the library's, below and in
   net__start_published. */

static inline posenc_config net_config(const net_plan *p)
{
    posenc_config c;
    int across = p->kind == NET_ACROSS;
    memset(&c, 0, sizeof c);
    c.encoding = across && strcmp(p->spec, "learned") == 0 ? "learned:init=1" : p->spec;
    c.vocab = MARKER_VOCAB;
    c.context = across && p->batch > MARKER_LENGTH ? p->batch : MARKER_LENGTH;
    c.batch = across ? MARKER_LENGTH : p->batch;
    c.layers = p->depth;
    c.channels = p->width;
    c.heads = p->heads;
    c.hidden = p->hidden;
    c.causal = !across;
    c.norm_place = across ? POSENC_POST_NORM : POSENC_PRE_NORM;
    c.activation = POSENC_RELU;
    c.embedding_init = 1;
    c.dropout_attention = c.dropout_branch = c.dropout_hidden = across ? 0.1 : p->dropout;
    c.precision = p->precision;
    c.threads = p->threads;
    c.seed = p->seed;
    return c;
}

static inline rotary_config net_rotary_config(const net_plan *p)
{
    rotary_config c;
    memset(&c, 0, sizeof c);
    c.vocab = MARKER_VOCAB;
    c.length = MARKER_LENGTH;
    c.batch = p->batch;
    c.width = p->width;
    c.layers = p->depth;
    c.learned = strcmp(p->spec, "lrope") == 0;
    c.base = 10000;
    c.threads = p->threads > 0 ? p->threads : posenc_threads();
    c.seed = p->seed;
    return c;
}

/* Whether it can be, before anything is made. */
static inline int net_check(const net_plan *p, kit_error *why)
{
    posenc_config c = net_config(p);
    posenc_bytes bytes;
    posenc_error said;
    if (p->kind == NET_ROTARY && p->width % 2)
        return kit_fail(why, "rotary encodings turn pairs of channels: --d-model %d is odd",
                        p->width);
    if (p->kind == NET_ROTARY) return 1;
    if (posenc_model_bytes(&bytes, &c, &said) != POSENC_OK) return kit_fail(why, "%s", said.text);
    return 1;
}

/* ends in */
static inline int net__ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Where PyTorch's encoder layer starts otherwise than the library: the three products of attention
   are one matrix (3C, C) under Xavier's rule, and the biases of the feed-forward are not zero. */
static inline double net__published_bound(const net_plan *p, const char *name)
{
    if (net__ends(name, "q_proj.weight") || net__ends(name, "k_proj.weight")
        || net__ends(name, "v_proj.weight")) return sqrt(6.0 / (p->width + 3 * p->width));
    if (net__ends(name, "mlp.up_proj.bias")) return 1 / sqrt((double)p->width);
    if (net__ends(name, "mlp.down_proj.bias")) return 1 / sqrt((double)p->hidden);
    return 0;
}

static inline void net__start_published(net *n)
{
    for (int i = 0; i < posenc_model_parameters(n->model); i++) {
        posenc_tensor *t = posenc_model_parameter(n->model, i);
        double bound = net__published_bound(&n->plan, t->name);
        if (bound == 0) continue;
        kit_random r = kit_random_open(n->plan.seed, ROTARY_WEIGHTS, (uint64_t)i);
        float *value = (float *)kit_new(t->count, sizeof *value);
        for (size_t k = 0; k < t->count; k++)
            value[k] = (float)(bound * (2 * rotary__uniform(&r) - 1));
        posenc_model_set(n->model, t->data, value, t->count);
        free(value);
    }
}

static inline int net_open(net *n, const net_plan *p, kit_error *why)
{
    posenc_error said;
    size_t rows = (size_t)p->batch * MARKER_LENGTH;
    memset(n, 0, sizeof *n);
    n->plan = *p;
    if (p->kind == NET_ROTARY) {
        rotary_config c = net_rotary_config(p);
        n->rotary = rotary_new(&c);
        n->parameters = n->rotary->numbers;
        return 1;
    }
    posenc_config c = net_config(p);
    if (posenc_model_create(&n->model, &c, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    n->parameters = posenc_model_numbers(n->model);
    if (p->kind == NET_FAIR) return 1;
    n->tokens = (int *)kit_new(rows, sizeof(int));
    n->targets = (int *)kit_new(rows, sizeof(int));
    n->positions = (double *)kit_new(rows, sizeof(double));
    n->logits = (float *)kit_new(rows * MARKER_VOCAB, sizeof(float));
    net__start_published(n);
    return 1;
}

static inline void net_close(net *n)
{
    posenc_model_free(n->model);
    rotary_free(n->rotary);
    free(n->tokens);
    free(n->targets);
    free(n->positions);
    free(n->logits);
    memset(n, 0, sizeof *n);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* targets NULL: forward only. Rows of an ordinary batch are samples; across the batch they are
   positions, and then dropout's samples are the positions too. */
static inline posenc_batch net__batch(net *n, const int *tokens, const int *targets, int B,
                                      uint64_t first)
{
    posenc_batch b;
    memset(&b, 0, sizeof b);
    b.B = B;
    b.T = MARKER_LENGTH;
    b.tokens = tokens;
    b.targets = targets;
    b.first_sample = first;
    if (n->plan.kind == NET_FAIR) return b;
    for (int t = 0; t < MARKER_LENGTH; t++)
        for (int i = 0; i < B; i++) {
            n->tokens[t * B + i] = tokens[i * MARKER_LENGTH + t];
            if (targets) n->targets[t * B + i] = targets[i * MARKER_LENGTH + t];
            n->positions[t * B + i] = t;
        }
    b.B = MARKER_LENGTH;
    b.T = B;
    b.tokens = n->tokens;
    b.targets = targets ? n->targets : NULL;
    b.positions = n->positions;
    b.first_sample = 0;
    return b;
}

static inline posenc_optimizer net__adam(void)
{
    posenc_optimizer o;
    memset(&o, 0, sizeof o);
    o.kind = POSENC_ADAM;
    return o;
}

static inline int net__train_rotary(net *n, const int *tokens, const int *targets, int B,
                                    double rate, double *loss, kit_error *why)
{
    posenc_optimizer adam = net__adam();
    *loss = rotary_train(n->rotary, tokens, targets, B);
    if (!isfinite(*loss))
        return kit_fail(why, "the loss is not a number at step %" PRIu64 "; try a smaller --lr",
                        n->rotary->steps);
    rotary_update(n->rotary, &adam, rate);
    return 1;
}

/* One step of Adam; loss: the mean over all targets, with dropout on where there is any. first: the
   number of the first sequence within the epoch. */
static inline int net_train(net *n, const int *tokens, const int *targets, int B, uint64_t first,
                            double rate, double *loss, kit_error *why)
{
    posenc_optimizer adam = net__adam();
    posenc_error said;
    if (n->rotary) return net__train_rotary(n, tokens, targets, B, rate, loss, why);
    posenc_batch b = net__batch(n, tokens, targets, B, first);
    if (posenc_model_train(n->model, &b, loss, &said) != POSENC_OK
        || posenc_model_update(n->model, &adam, rate, NULL, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    return 1;
}

/* logits (B, 64, vocabulary), without dropout */
static inline int net_logits(net *n, float *logits, const int *tokens, int B, kit_error *why)
{
    size_t V = MARKER_VOCAB, rows = (size_t)B * MARKER_LENGTH;
    posenc_error said;
    if (n->rotary) {
        rotary_forward(n->rotary, tokens, B);
        memcpy(logits, n->rotary->logits, rows * V * sizeof *logits);
        return 1;
    }
    posenc_batch b = net__batch(n, tokens, NULL, B, 0);
    int across = n->plan.kind == NET_ACROSS;
    float *to = across ? n->logits : logits;
    if (posenc_model_forward(n->model, &b, &said) != POSENC_OK
        || posenc_model_logits(n->model, to, 0, (int)rows, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    for (int t = 0; across && t < MARKER_LENGTH; t++)
        for (int i = 0; i < B; i++)
            memcpy(logits + ((size_t)i * MARKER_LENGTH + (size_t)t) * V,
                   n->logits + ((size_t)t * (size_t)B + (size_t)i) * V, V * sizeof *logits);
    return 1;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static inline uint64_t net_steps(const net *n)
{
    return n->rotary ? n->rotary->steps : posenc_model_steps(n->model);
}

/* state: with all that --resume needs */
static inline int net_save(net *n, const char *path, int state, const char *note, kit_error *why)
{
    posenc_error said;
    if (n->rotary) return rotary_save(n->rotary, path, state, note, why);
    if (posenc_model_save(n->model, path, state ? POSENC_WEIGHTS_AND_STATE : POSENC_WEIGHTS, note,
                          &said) != POSENC_OK) return kit_fail(why, "%s", said.text);
    return 1;
}

static inline int net_load(net *n, const char *path, char *note, size_t room, kit_error *why)
{
    posenc_error said;
    if (n->rotary) return rotary_load(n->rotary, path, note, room, why);
    if (posenc_model_load(n->model, path, POSENC_WEIGHTS_AND_STATE, note, room, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    return 1;
}

#endif
