/* published/config.h - a Hugging Face config.json as a posenc_config

   What a model type does is in its code, not in its config: which norm, where it stands, whether
   branches run side by side. So each type has a function here that says it, with its defaults, and
   then reads the numbers. A setting that would change the computation and that we do not have is
   refused by name: a model that runs and gives other numbers would be worse. */
#ifndef PUBLISHED_CONFIG_H
#define PUBLISHED_CONFIG_H

#include "kit/read_json.h"

typedef struct published {
    char type[32];                         /* model_type                                          */
    int family;                            /* posenc_family                                       */
    posenc_config config;                  /* encoding points to spec                             */
    char spec[512];
    int length;                            /* positions it was made for; 0: any                   */
    int has_logits;                        /* else its output is the hidden states                */
    int stop[16], stops;                   /* eos_token_id, one or a list                         */
    kit_json json;
    const kit_json_node *root;
    kit_error *why;
} published;

/* ---- reading --------------------------------------------------------------------------------- */

static inline int want_int(published *p, const char *key, int *to)
{
    return kit_json_int_at(&p->json, p->root, key, KIT_NEEDED, 1, 1 << 24, to, p->why);
}
static inline int may_int(published *p, const char *key, int *to)
{
    return kit_json_int_at(&p->json, p->root, key, KIT_OPTIONAL, 0, 1 << 24, to, p->why);
}
static inline int may_real(published *p, const char *key, double *to)
{
    return kit_json_real_at(&p->json, p->root, key, KIT_OPTIONAL, 0, 1e18, to, p->why);
}
/* the epsilon of a norm; 0 would mean our default to posenc_config, so it becomes next to nothing */
static inline int may_epsilon(published *p, const char *key)
{
    if (!may_real(p, key, &p->config.norm_eps)) return 0;
    if (p->config.norm_eps == 0) p->config.norm_eps = 1e-30;
    return 1;
}
static inline int may_flag(published *p, const char *key, int *to)
{
    return kit_json_flag_at(&p->json, p->root, key, KIT_OPTIONAL, to, p->why);
}

/* a switch that must stand where we have it */
static inline int must_be(published *p, const char *key, int value)
{
    int is = value;
    if (!may_flag(p, key, &is)) return 0;
    if (is == value) return 1;
    return kit_fail(p->why, "%.200s: %s is %s, and only %s is known of %s", p->json.name, key,
                    is ? "true" : "false", value ? "true" : "false", p->type);
}

static inline int read_activation(published *p, const char *key, const char *otherwise)
{
    static const struct { const char *name; int kind; } known[] = {
        { "relu", POSENC_RELU }, { "gelu", POSENC_GELU }, { "gelu_new", POSENC_GELU_TANH },
        { "gelu_pytorch_tanh", POSENC_GELU_TANH }, { "gelu_fast", POSENC_GELU_TANH },
        { "silu", POSENC_SILU }, { "swish", POSENC_SILU }
    };
    const char *name = otherwise;
    if (!kit_json_text_at(&p->json, p->root, key, KIT_OPTIONAL, &name, p->why)) return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) { p->config.activation = known[i].kind; return 1; }
    return kit_fail(p->why, "%.200s: %s is '%.40s', which is not known here", p->json.name, key,
                    name);
}

/* ---- rope, in the spellings there are -----------------------------------------------------------
   rope_parameters { rope_type, rope_theta, factor ... }             since version 5
   rope_theta, and rope_scaling { rope_type or type, factor ... }    before
   rotary_emb_base and rotary_pct                                    GPT-NeoX */

static inline const char *rope_type(published *p, const kit_json_node *scaling)
{
    const char *type = "default";
    if (!kit_json_text_at(&p->json, scaling, "type", KIT_OPTIONAL, &type, p->why)) return NULL;
    if (!kit_json_text_at(&p->json, scaling, "rope_type", KIT_OPTIONAL, &type, p->why)) return NULL;
    return type;
}

/* keys of a scaling that go into the spec string as they are: ours, theirs */
static inline int add_scaling(published *p, kit_text *spec, const kit_json_node *scaling)
{
    static const char *const keys[][2] = {
        { "factor", "factor" }, { "low", "low_freq_factor" }, { "high", "high_freq_factor" },
        { "fast", "beta_fast" }, { "slow", "beta_slow" }, { "attention", "attention_factor" },
        { "mscale", "mscale" }, { "mscale_all", "mscale_all_dim" }
    };
    double original = p->length;
    const char *type = rope_type(p, scaling);
    int truncate = 1;
    if (!type) return 0;
    if (strcmp(type, "default") == 0) return 1;
    if (strcmp(type, "linear") && strcmp(type, "dynamic") && strcmp(type, "yarn")
        && strcmp(type, "llama3"))
        return kit_fail(p->why, "%.200s: rope_type '%.40s' is not known here", p->json.name, type);
    kit_put(spec, ",scaling=%s", type);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double x = 0;
        if (!kit_json_real_at(&p->json, scaling, keys[i][1], KIT_OPTIONAL, 0, 1e9, &x, p->why))
            return 0;
        if (x > 0) kit_put(spec, ",%s=%.17g", keys[i][0], x);
    }
    if (!kit_json_real_at(&p->json, scaling, "original_max_position_embeddings", KIT_OPTIONAL, 1,
                          1e9, &original, p->why)
        || !may_real(p, "original_max_position_embeddings", &original)
        || !kit_json_flag_at(&p->json, scaling, "truncate", KIT_OPTIONAL, &truncate, p->why))
        return 0;
    if (strcmp(type, "dynamic") == 0) original = p->length;             /* the other key is not for it */
    if (strcmp(type, "linear") != 0) kit_put(spec, ",original=%.17g", original);
    if (!truncate) kit_put_string(spec, ",truncate=-1");
    return 1;
}

static inline int read_rope(published *p, const char *base_key, const char *share_key, double share)
{
    const kit_json_node *scaling = NULL, *parameters = NULL;             /* the older one wins */
    kit_text spec = { NULL, 0, 0 };
    double base = 10000;
    int head = p->config.head_channels, good;
    if (!kit_json_inside_at(&p->json, p->root, "rope_scaling", KIT_OPTIONAL, KIT_JSON_OBJECT,
                            &scaling, p->why)
        || !kit_json_inside_at(&p->json, p->root, "rope_parameters", KIT_OPTIONAL, KIT_JSON_OBJECT,
                               &parameters, p->why)
        || !may_real(p, base_key, &base)
        || !kit_json_real_at(&p->json, p->root, share_key, KIT_OPTIONAL, 0, 1, &share, p->why)) return 0;
    if (!scaling || !kit_json_first(scaling)) scaling = parameters;
    if (scaling
        && (!kit_json_real_at(&p->json, scaling, "rope_theta", KIT_OPTIONAL, 1, 1e18, &base, p->why)
            || !kit_json_real_at(&p->json, scaling, "partial_rotary_factor", KIT_OPTIONAL, 0, 1,
                                 &share, p->why))) return 0;
    kit_put(&spec, "rope:base=%.17g,layout=half", base);
    if ((int)(head * share) < head) kit_put(&spec, ",dim=%d", (int)(head * share));
    good = !scaling || add_scaling(p, &spec, scaling);
    if (good && spec.size >= sizeof p->spec) good = kit_fail(p->why, "the spec of rope is too long");
    if (good) memcpy(p->spec, spec.data, spec.size + 1);
    kit_text_free(&spec);
    return good;
}

/* ---- the types ------------------------------------------------------------------------------- */

static inline int read_bert(published *p)
{
    posenc_config *c = &p->config;
    const char *positions = "absolute";
    p->family = POSENC_AS_BERT;
    c->norm_place = POSENC_POST_NORM;
    c->embedding_norm = 1;
    c->tied_head = 1;                                      /* no head of its own is made */
    c->norm_eps = 1e-12;
    c->token_types = 2;
    p->has_logits = 0;
    if (!kit_json_text_at(&p->json, p->root, "position_embedding_type", KIT_OPTIONAL, &positions,
                          p->why)) return 0;
    if (strcmp(positions, "absolute") != 0)
        return kit_fail(p->why, "%.200s: position_embedding_type '%.40s' is not known here",
                        p->json.name, positions);
    if (!want_int(p, "hidden_size", &c->channels) || !want_int(p, "num_attention_heads", &c->heads)
        || !want_int(p, "num_hidden_layers", &c->layers)
        || !want_int(p, "intermediate_size", &c->hidden)
        || !want_int(p, "max_position_embeddings", &p->length)
        || !may_int(p, "type_vocab_size", &c->token_types)
        || !may_epsilon(p, "layer_norm_eps") || !must_be(p, "is_decoder", 0)
        || !read_activation(p, "hidden_act", "gelu")) return 0;
    snprintf(p->spec, sizeof p->spec, "learned:rows=%d", p->length);
    return 1;
}

static inline int read_gpt2(published *p)
{
    posenc_config *c = &p->config;
    p->family = POSENC_AS_GPT2;
    c->causal = 1;
    c->tied_head = 1;
    if (!want_int(p, "n_embd", &c->channels) || !want_int(p, "n_head", &c->heads)
        || !want_int(p, "n_layer", &c->layers) || !want_int(p, "n_positions", &p->length)
        || !may_int(p, "n_inner", &c->hidden) || !may_epsilon(p, "layer_norm_epsilon")
        || !must_be(p, "scale_attn_weights", 1) || !must_be(p, "tie_word_embeddings", 1)
        || !must_be(p, "scale_attn_by_inverse_layer_idx", 0)
        || !must_be(p, "add_cross_attention", 0)
        || !read_activation(p, "activation_function", "gelu_new")) return 0;
    snprintf(p->spec, sizeof p->spec, "learned:rows=%d", p->length);
    return 1;
}

/* "layer_types": all full, or all with the window; a mixture we do not have */
static inline int read_window(published *p)
{
    const kit_json_node *types = NULL;
    int qwen = strcmp(p->type, "qwen3") == 0, L = p->config.layers;
    int window = qwen || !kit_json_find(p->root, "sliding_window") ? 4096 : 0, used = !qwen, from = qwen ? 28 : 0, slides = 0, full = 0;
    if (!may_int(p, "sliding_window", &window) || !may_flag(p, "use_sliding_window", &used)
        || !may_int(p, "max_window_layers", &from)
        || !kit_json_inside_at(&p->json, p->root, "layer_types", KIT_OPTIONAL, KIT_JSON_LIST, &types,
                               p->why)) return 0;
    for (const kit_json_node *n = types ? kit_json_first(types) : NULL; n;
         n = kit_json_next(types, n)) {
        const char *type = "";
        kit_json_to_text(n, &type);
        if (strcmp(type, "sliding_attention") == 0) slides = 1;
        else if (strcmp(type, "full_attention") == 0) full = 1;
        else return kit_fail(p->why, "%.200s: layer type '%.40s' is not known here", p->json.name,
                             type);
    }
    if (!types) { slides = used && window && from < L; full = !used || !window || from > 0; }
    if (slides && full)
        return kit_fail(p->why, "%.200s: some layers have a window and some have none, which is not "
                        "known here", p->json.name);
    p->config.window = slides ? window : 0;
    return 1;
}

static inline int read_llama(published *p)
{
    posenc_config *c = &p->config;
    p->family = POSENC_AS_LLAMA;
    c->causal = 1;
    c->norm = POSENC_RMSNORM;
    c->no_bias = 1;
    c->norm_eps = 1e-6;
    if (strcmp(p->type, "qwen3") == 0) { c->qk_norm = POSENC_QK_NORM_BEFORE; c->head_channels = 128; }
    if (!want_int(p, "hidden_size", &c->channels) || !want_int(p, "num_attention_heads", &c->heads)
        || !may_int(p, "num_key_value_heads", &c->kv_heads) || !may_int(p, "head_dim", &c->head_channels)
        || !want_int(p, "num_hidden_layers", &c->layers)
        || !want_int(p, "intermediate_size", &c->hidden)
        || !want_int(p, "max_position_embeddings", &p->length)
        || !may_epsilon(p, "rms_norm_eps") || !must_be(p, "attention_bias", 0)
        || !must_be(p, "mlp_bias", 0) || !may_flag(p, "tie_word_embeddings", &c->tied_head)
        || !read_activation(p, "hidden_act", "silu")) return 0;
    if (c->activation != POSENC_SILU)
        return kit_fail(p->why, "%.200s: hidden_act must be silu", p->json.name);
    c->activation = POSENC_SWIGLU;
    if (!c->head_channels) c->head_channels = c->channels / c->heads;
    if (strcmp(p->type, "llama") != 0 && !read_window(p)) return 0;
    return read_rope(p, "rope_theta", "partial_rotary_factor", 1);
}

static inline int read_neox(published *p)
{
    posenc_config *c = &p->config;
    p->family = POSENC_AS_NEOX;
    c->causal = 1;
    c->parallel = 1;
    if (!want_int(p, "hidden_size", &c->channels) || !want_int(p, "num_attention_heads", &c->heads)
        || !want_int(p, "num_hidden_layers", &c->layers)
        || !want_int(p, "intermediate_size", &c->hidden)
        || !want_int(p, "max_position_embeddings", &p->length)
        || !may_epsilon(p, "layer_norm_eps") || !must_be(p, "attention_bias", 1)
        || !may_flag(p, "use_parallel_residual", &c->parallel)
        || !may_flag(p, "tie_word_embeddings", &c->tied_head)
        || !read_activation(p, "hidden_act", "gelu")) return 0;
    c->head_channels = c->channels / c->heads;
    return read_rope(p, "rotary_emb_base", "rotary_pct", 0.25);
}

static inline int read_bloom(published *p)
{
    posenc_config *c = &p->config;
    p->family = POSENC_AS_BLOOM;
    c->causal = 1;
    c->embedding_norm = 1;
    c->activation = POSENC_GELU_TANH;
    c->tied_head = 1;
    if (!may_int(p, "n_embed", &c->channels) || !may_int(p, "hidden_size", &c->channels)
        || !may_int(p, "num_hidden_layers", &c->layers) || !may_int(p, "n_layer", &c->layers)
        || !may_int(p, "num_attention_heads", &c->heads) || !may_int(p, "n_head", &c->heads)
        || !may_epsilon(p, "layer_norm_epsilon")
        || !must_be(p, "apply_residual_connection_post_layernorm", 0)
        || !must_be(p, "tie_word_embeddings", 1)) return 0;
    if (!c->channels || !c->layers || !c->heads)
        return kit_fail(p->why, "%.200s: hidden_size or n_embed, n_layer and n_head are needed", p->json.name);
    c->hidden = 4 * c->channels;
    snprintf(p->spec, sizeof p->spec, "alibi");
    return 1;
}

static inline int read_t5(published *p)
{
    posenc_config *c = &p->config;
    const char *mlp = "relu";
    int buckets = 32, distance = 128;
    p->family = POSENC_AS_T5;
    c->norm = POSENC_RMSNORM;
    c->norm_eps = 1e-6;
    c->no_bias = 1;
    c->tied_head = 1;
    c->attention_scale = 1;
    p->has_logits = 0;
    if (!want_int(p, "d_model", &c->channels) || !want_int(p, "num_heads", &c->heads)
        || !want_int(p, "num_layers", &c->layers) || !want_int(p, "d_ff", &c->hidden)
        || !want_int(p, "d_kv", &c->head_channels)
        || !may_int(p, "relative_attention_num_buckets", &buckets)
        || !may_int(p, "relative_attention_max_distance", &distance)
        || !may_epsilon(p, "layer_norm_epsilon")
        || !kit_json_text_at(&p->json, p->root, "feed_forward_proj", KIT_OPTIONAL, &mlp, p->why))
        return 0;
    if (strcmp(mlp, "relu") == 0) c->activation = POSENC_RELU;
    else if (strcmp(mlp, "gated-gelu") == 0) c->activation = POSENC_GEGLU_TANH;
    else return kit_fail(p->why, "%.200s: feed_forward_proj '%.40s' is not known here", p->json.name,
                         mlp);
    snprintf(p->spec, sizeof p->spec, "t5:buckets=%d,distance=%d", buckets, distance);
    return 1;
}

/* ---- the file -------------------------------------------------------------------------------- */

static const struct { const char *type; int (*read)(published *p); } published_types[] = {
    { "bert", read_bert },   { "gpt2", read_gpt2 },     { "llama", read_llama },
    { "mistral", read_llama }, { "qwen3", read_llama }, { "gpt_neox", read_neox },
    { "bloom", read_bloom }, { "t5", read_t5 }
};

static inline int published_type(published *p)
{
    const char *type = NULL;
    if (!kit_json_text_at(&p->json, p->root, "model_type", KIT_NEEDED, &type, p->why)) return 0;
    snprintf(p->type, sizeof p->type, "%.31s", type);
    for (size_t i = 0; i < sizeof published_types / sizeof *published_types; i++)
        if (strcmp(published_types[i].type, type) == 0) return published_types[i].read(p);
    return kit_fail(p->why, "%.200s: model_type '%.40s' is not known here; bert, gpt2, llama, "
                    "mistral, qwen3, gpt_neox, bloom and t5 are", p->json.name, type);
}

/* one token or a list of them */
static inline void published_stop(published *p)
{
    const kit_json_node *n = kit_json_find(p->root, "eos_token_id");
    const kit_json_node *list = n && n->type == KIT_JSON_LIST ? n : NULL;
    for (n = list ? kit_json_first(list) : n; n && p->stops < 16; n = list ? kit_json_next(list, n) : NULL) {
        int64_t token;
        if (kit_json_to_i64(n, &token) && token >= 0 && token < p->config.vocab)
            p->stop[p->stops++] = (int)token;
    }
}

/* A document that was read becomes p, and is freed. p->config lacks context, batch and whatever else is
   the caller's to say. */
static inline int published_understand(published *p, kit_error *why)
{
    p->why = why;
    p->has_logits = 1;
    p->root = p->json.node;
    int good = want_int(p, "vocab_size", &p->config.vocab) && published_type(p);
    if (good) published_stop(p);
    p->config.encoding = p->spec;
    kit_json_free(&p->json);
    return good;
}

/* folder/config.json */
static inline int published_read(published *p, const char *folder, kit_error *why)
{
    char path[KIT_PATH];
    memset(p, 0, sizeof *p);
    return kit_join(path, folder, "config.json", why) && kit_json_load(&p->json, path, 1 << 24, why)
        && published_understand(p, why);
}

#endif
