/* lm/sizes.h - the presets: how large a model is, what it is trained with, what a token costs

   nano, micro and mini are ours, over bytes, for a machine at hand. tiny to large are
   pos-enc-bench's, with its rates, batches and budgets. All are the same network: RMSNorm, SwiGLU
   4d wide, queries and keys normed before they are turned, no biases, one matrix for embedding and
   head. So a model of d channels, L layers and heads of width D has

       V d + L (4 d^2 + 12 d^2 + 2 d + 2 D) + d       parameters, and what its encoding learns.

   Include posenc.h first. */
#ifndef LM_SIZES_H
#define LM_SIZES_H

#include "kit/args.h"
#include "kit/files.h"

typedef struct lm_size {
    const char *name;
    int channels, layers, heads, context, vocab;
    double rate;                           /* peak learning rate                                  */
    int batch;                             /* samples of an update                                */
    double tokens;                         /* budget: published, or ours                          */
    int published;                         /* 1: half the budget is a target of its own (20 N)    */
} lm_size;

enum { LM_SIZES = 7 };

/* ours: 1,500 steps of 32 x 128, 1,300 of 16 x 256, 4,000 of 16 x 512 */
static inline const lm_size *lm_size_get(int i)
{
    static const lm_size size[LM_SIZES] = {
        { "nano",   96,   3,  3,  128,  256,   2e-3, 32, 6144000, 0 },
        { "micro",  256,  4,  8,  256,  256,   1e-3, 16, 5324800, 0 },
        { "mini",   384,  6,  6,  512,  256,   1e-3, 16, 32768000, 0 },
        { "tiny",   512,  6,  8,  1024, 65536, 6e-4, 64, 2.4e9, 1 },
        { "small",  768,  12, 12, 1024, 65536, 3e-4, 32, 6.6e9, 1 },
        { "medium", 1024, 24, 16, 1024, 65536, 2e-4, 16, 18.8e9, 1 },
        { "large",  2048, 16, 32, 1024, 65536, 1e-4, 8,  48.4e9, 1 }
    };
    return i >= 0 && i < LM_SIZES ? &size[i] : NULL;
}

#define LM_SIZE_NAMES "nano|micro|mini|tiny|small|medium|large"

/* NULL: there is none of that name */
static inline const lm_size *lm_size_find(const char *name)
{
    for (int i = 0; i < LM_SIZES; i++)
        if (strcmp(lm_size_get(i)->name, name) == 0) return lm_size_get(i);
    return NULL;
}

/* encoding must stay while the config is in use */
static inline posenc_config lm_size_config(const lm_size *s, const char *encoding)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = encoding;
    c.vocab = s->vocab;
    c.context = s->context;
    c.layers = s->layers;
    c.channels = s->channels;
    c.heads = s->heads;
    c.hidden = 4 * s->channels;
    c.causal = 1;
    c.norm = POSENC_RMSNORM;
    c.norm_eps = 1e-5;
    c.activation = POSENC_SWIGLU;
    c.no_bias = 1;
    c.qk_norm = POSENC_QK_NORM_BEFORE;
    c.tied_head = 1;
    return c;
}

/* ---- what a token costs ---------------------------------------------------------------------- */

/* weights that multiply each token: projections, the hidden layer, the head */
static inline double lm__weights_per_token(const posenc_config *c)
{
    double d = c->channels ? c->channels : 64, H = c->heads ? c->heads : 4;
    double width = c->head_channels ? H * c->head_channels : d;      /* of queries               */
    double keys = c->kv_heads ? width / H * c->kv_heads : width;
    double hidden = c->hidden ? c->hidden : 4 * d;
    double products = c->activation >= POSENC_SWIGLU ? 3 : 2;        /* a gate is one more       */
    int layers = c->layers ? c->layers : 2;
    return layers * (2 * d * width + 2 * d * keys + products * d * hidden) + d * c->vocab;
}

/* A forward multiplies and adds each weight once and, in each layer, each query with the keys it
   sees and their values; a backward does both twice. The mean query of a causal text of T sees
   (T + 1)/2 keys. */
static inline double lm_flops_per_token(const posenc_config *c, int T)
{
    double d = c->channels ? c->channels : 64, H = c->heads ? c->heads : 4;
    double width = c->head_channels ? H * c->head_channels : d;
    double seen = c->causal ? (T + 1) / 2.0 : T;
    int layers = c->layers ? c->layers : 2;
    if (c->window && c->causal && c->window < T)                     /* w (w+1)/2, then w each   */
        seen = ((double)c->window * (c->window + 1) / 2 + (double)(T - c->window) * c->window) / T;
    return 6 * lm__weights_per_token(c) + 12 * layers * width * seen;
}

/* Single numbers in the parameters, counted by the library itself. 0: bad config. Tensors begin at
   multiples of 64 bytes, which adds nothing where every row has 16 numbers or a multiple: all
   presets, with any encoding that learns nothing. */
static inline double lm_parameters(const posenc_config *c)
{
    posenc_bytes bytes;
    posenc_config plain = *c;
    plain.batch = 1;
    plain.inference = 0;
    if (posenc_model_bytes(&bytes, &plain, NULL) != POSENC_OK) return 0;
    return (double)bytes.parameters / sizeof(posenc_float);
}

/* ---- budgets as people write them ------------------------------------------------------------ */

/* "2.4B", "60M", "1500k", "4096": tokens; 0 if it is not one of at least 1 and at most 10^15 */
static inline uint64_t lm_read_tokens(const char *text)
{
    char *end;
    double v = strtod(text, &end), unit = 1;
    if (end == text || !(v > 0)) return 0;
    if (strchr("kK", *end) && *end) { unit = 1e3; end++; }
    else if (strchr("mM", *end) && *end) { unit = 1e6; end++; }
    else if (strchr("bBgG", *end) && *end) { unit = 1e9; end++; }
    else if (strchr("tT", *end) && *end) { unit = 1e12; end++; }
    v = floor(v * unit + 0.5);
    return *end || !(v >= 1 && v <= 1e15) ? 0 : (uint64_t)v;
}

/* The shortest way that says it to four digits: 6144000 is 6.144M, 2400000000 is 2.4B. */
static inline void lm_say_tokens(char *text, size_t room, uint64_t tokens)
{
    double v = (double)tokens;
    if (tokens < 10000) snprintf(text, room, "%" PRIu64, tokens);
    else if (v < 999950) snprintf(text, room, "%.4gK", v / 1e3);
    else if (v < 999.95e6) snprintf(text, room, "%.4gM", v / 1e6);
    else if (v < 999.95e9) snprintf(text, room, "%.4gB", v / 1e9);
    else snprintf(text, room, "%.4gT", v / 1e12);
}

#endif
