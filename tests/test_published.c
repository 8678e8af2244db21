/* Published architectures: tiny models that transformers made and ran (tests/golden/make_published.py),
   loaded by the demo's own reader and matched in every hidden state and logit, with padding on either
   side, beyond the original length, and token by token through a cache.                           */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "golden.h"
#include "models.h"
#include "published/weights.h"

#define FOLDER "tests/golden/published/"
enum { LONG = 64, NEW = 20 };
static const double NEAR = 1e-4;

static const char *const folders[] = {
    "bert", "gpt2", "llama2", "llama3", "llama_linear", "llama_dynamic", "llama_yarn", "qwen3", "mistral",
    "gpt_neox", "gpt_neox_serial", "bloom", "bloom_6_heads", "t5", "t5_gated"
};
enum { FOLDERS = sizeof folders / sizeof *folders };

/* "llama_yarn" -> the folder whose weights it uses */
static void weights_of(char path[KIT_PATH], const char *name)
{
    char line[64] = "";
    FILE *f;
    snprintf(path, KIT_PATH, FOLDER "%s/weights.txt", name);
    f = fopen(path, "r");
    if (f && !fgets(line, sizeof line, f)) line[0] = 0;
    if (f) fclose(f);
    line[strcspn(line, "\r\n")] = 0;
    snprintf(path, KIT_PATH, FOLDER "%s", line[0] ? line : name);
}

typedef struct subject { published p; posenc_model *m; golden_file gold; } subject;

/* a model that keeps every layer's activations, with its weights; NULL gold: not found */
static int open_subject(subject *s, const char *name, int inference)
{
    char path[KIT_PATH];
    kit_error why;
    posenc_error said;
    kit_tensors set;
    memset(s, 0, sizeof *s);
    why.text[0] = said.text[0] = 0;
    snprintf(path, sizeof path, FOLDER "%s", name);
    int good = published_read(&s->p, path, &why);
    s->p.config.batch = 3;
    s->p.config.context = s->p.family == POSENC_AS_BERT || s->p.family == POSENC_AS_GPT2 ? s->p.length : LONG;
    s->p.config.inference = inference;
    s->p.config.threads = 1;
    if (good) good = posenc_model_create(&s->m, &s->p.config, &said) == POSENC_OK;
    weights_of(path, name);
    if (good) {
        good = kit_tensors_open(&set, path, &why) && published_load(s->m, s->p.family, &set, NULL, &why);
        kit_tensors_close(&set);
    }
    if (!good) snprintf(check_text, sizeof check_text, "%.180s%.180s", why.text, said.text);
    return good;
}
static int open_gold(subject *s, const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, FOLDER "%.40s/golden.safetensors", name);
    if (golden_open(&s->gold, path)) return 1;
    snprintf(check_text, sizeof check_text, "%s cannot be read", path);
    return 0;
}
static void close_subject(subject *s)
{
    posenc_model_free(s->m);
    golden_close(&s->gold);
}

/* side.ids, .mask, .positions and .types as a batch */
static void side_batch(data *d, subject *s, const char *side)
{
    char name[64];
    int n = 33;
    memset(d, 0, sizeof *d);
#define PART(what) (snprintf(name, sizeof name, "%s." what, side), golden_whole(&s->gold, name))
    memcpy(d->tokens, PART("ids"), (size_t)n * sizeof(int));
    for (int r = 0; r < n; r++) d->keep[r] = (unsigned char)PART("mask")[r];
    for (int r = 0; r < n; r++) d->positions[r] = PART("positions")[r];
    if (s->p.config.token_types) memcpy(d->types, PART("types"), (size_t)n * sizeof(int));
#undef PART
    d->batch.B = 3;
    d->batch.T = 11;
    d->batch.tokens = d->tokens;
    d->batch.keep = d->keep;
    d->batch.positions = d->positions;
    d->batch.types = s->p.config.token_types ? d->types : NULL;
}

/* rows of x that are no padding against the golden tensor: the largest difference */
static double worst(const subject *s, const char *side, const char *what, const posenc_float *x, int width,
                    const data *d)
{
    char name[64];
    double most = 0;
    const posenc_float *want;
    snprintf(name, sizeof name, "%s.%s", side, what);
    want = golden_numbers((golden_file *)&s->gold, name);
    for (int r = 0; r < 33; r++)
        for (int c = 0; c < width && d->keep[r]; c++) {
            double off = fabs((double)x[r * width + c] - (double)want[r * width + c]);
            if (!(off <= most)) most = off;
        }
    return most;
}

TEST hidden_states_and_logits_are_those_of_transformers(const char *folder, const char *side)
{
    static const struct { const char *gold, *ours; } states[] = {
        { "hidden.0", "embedding" }, { "hidden.1", "blocks.0.out" }, { "hidden.2", "blocks.1.out" },
        { "final", "norm" }
    };
    subject s;
    data d;
    posenc_error why;
    posenc_float x[33 * 80];
    ASSERTm(check_text, open_subject(&s, folder, 0));
    ASSERTm(check_text, open_gold(&s, folder));
    side_batch(&d, &s, side);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(s.m, &d.batch, &why));
    for (int i = 0; i < 4; i++) {
        const posenc_tensor *t = posenc_model_find(s.m, states[i].ours);
        if (!t) t = posenc_model_find(s.m, "blocks.1.out");              /* post-norm has no last norm */
        if (side[0] == 'l' && (i == 1 || i == 2)) continue;              /* not kept for the left side */
        posenc_model_get(s.m, x, t->data, (size_t)33 * t->shape[1]);
        double off = worst(&s, side, states[i].gold, x, t->shape[1], &d);
        snprintf(check_text, sizeof check_text, "%s %s is off by %.3g", side, states[i].gold, off);
        ASSERTm(check_text, off <= NEAR);
    }
    if (s.p.has_logits) {
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(s.m, x, 0, 33, &why));
        double off = worst(&s, side, "logits", x, s.p.config.vocab, &d);
        snprintf(check_text, sizeof check_text, "%s logits are off by %.3g", side, off);
        ASSERTm(check_text, off <= NEAR);
    }
    ASSERT_STR_EQ("", s.gold.wrong);
    close_subject(&s);
    PASS();
}

/* padding left out, inference model, 20 tokens of each of three prompts */
TEST greedy_text_is_that_of_transformers(const char *folder)
{
    subject s;
    data d;
    posenc_error why;
    posenc_cache *cache = NULL;
    posenc_generation how;
    int prompt[3 * 11], length[3], out[3 * NEW], count[3];
    ASSERTm(check_text, open_subject(&s, folder, 1));
    ASSERTm(check_text, open_gold(&s, folder));
    side_batch(&d, &s, "right");
    for (int b = 0; b < 3; b++) {
        length[b] = 0;
        for (int t = 0; t < 11; t++)
            if (d.keep[b * 11 + t]) prompt[b * 11 + length[b]++] = d.tokens[b * 11 + t];
    }
    memset(&how, 0, sizeof how);
    how.most = NEW;
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&cache, s.m, 3, 11 + NEW, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_generate(out, count, s.m, cache, prompt, length, 11, &how, &why));
    ASSERT_MEM_EQ(golden_whole(&s.gold, "greedy.ids"), out, sizeof out);
    ASSERT_STR_EQ("", s.gold.wrong);
    posenc_cache_free(cache);
    close_subject(&s);
    PASS();
}

TEST beyond_the_original_length(const char *folder)
{
    subject s;
    posenc_batch b;
    posenc_error why;
    static posenc_float x[LONG * 80];
    ASSERTm(check_text, open_subject(&s, folder, 0));
    ASSERTm(check_text, open_gold(&s, folder));
    memset(&b, 0, sizeof b);
    b.B = 1;
    b.T = golden_size(&s.gold, "long.ids", 1);
    b.tokens = golden_whole(&s.gold, "long.ids");
    ASSERT(b.T >= 24);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(s.m, &b, &why));
    if (s.p.has_logits) {
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(s.m, x, 0, b.T, &why));
        ASSERT_CLOSE(golden_numbers(&s.gold, "long.logits"), x, (size_t)b.T * s.p.config.vocab, NEAR);
    } else {
        const posenc_tensor *t = posenc_model_find(s.m, "norm");
        posenc_model_get(s.m, x, t->data, (size_t)b.T * t->shape[1]);
        ASSERT_CLOSE(golden_numbers(&s.gold, "long.final"), x, (size_t)b.T * t->shape[1], NEAR);
    }
    ASSERT_STR_EQ("", s.gold.wrong);
    close_subject(&s);
    PASS();
}

/* 200 tokens with a cache against a forward over the whole text for each of them, three lengths. The
   tiny GPT-2 has 36 positions, so it gets more of them and weights drawn anew.                    */
TEST two_hundred_cached_tokens_are_the_uncached_ones(const char *folder)
{
    enum { MANY = 200, SPACE = 224 };
    char path[KIT_PATH], spec[512];
    kit_error why_kit;
    posenc_error why;
    published p;
    posenc_model *m = NULL;
    posenc_cache *cache = NULL;
    kit_tensors set;
    posenc_generation how;
    static int out[3 * MANY], text[SPACE];
    int count[3], length[3] = { 5, 3, 1 }, prompt[15] = { 9, 8, 7, 6, 5,  11, 12, 13, 0, 0,  40, 0, 0, 0, 0 };
    posenc_float logits[80];
    snprintf(path, sizeof path, FOLDER "%s", folder);
    ASSERTm(why_kit.text, published_read(&p, path, &why_kit));
    memcpy(spec, p.spec, sizeof spec);
    int drawn = p.family == POSENC_AS_GPT2;
    if (drawn) snprintf(spec, sizeof spec, "learned:rows=%d,init=0.5", SPACE);
    if (drawn) p.config.embedding_init = 0.5;
    p.config.encoding = spec;
    p.config.batch = 3;
    p.config.context = SPACE;
    p.config.inference = 1;
    p.config.threads = 1;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_create(&m, &p.config, &why));
    weights_of(path, folder);
    ASSERTm(why_kit.text, kit_tensors_open(&set, path, &why_kit));
    if (!drawn) ASSERTm(why_kit.text, published_load(m, p.family, &set, NULL, &why_kit));
    kit_tensors_close(&set);
    memset(&how, 0, sizeof how);
    how.most = MANY;
    how.sampling.temperature = 1;                        /* drawn: greedy text soon repeats itself */
    how.sampling.seed = 4;
    ASSERT_EQm(why.text, POSENC_OK, posenc_cache_create(&cache, m, 3, SPACE, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_generate(out, count, m, cache, prompt, length, 5, &how, &why));
    for (int b = 0; b < 3; b++) {
        int n = length[b], same = 0;
        posenc_batch one;
        memset(&one, 0, sizeof one);
        memcpy(text, prompt + 5 * b, (size_t)n * sizeof *text);
        one.B = 1;
        one.tokens = text;
        for (int i = 0; i < MANY; i++) {
            one.T = n;
            ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(m, &one, &why));
            ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(m, logits, n - 1, 1, &why));
            same += posenc_sample(logits, p.config.vocab, text, n, &how.sampling,
                                  (uint64_t)b << 32 | (uint32_t)i) == out[b * MANY + i];
            text[n++] = out[b * MANY + i];
        }
        ASSERT_EQ(MANY, same);
    }
    posenc_cache_free(cache);
    posenc_model_free(m);
    PASS();
}

/* published_read of a folder with this config.json alone */
static int read_config(published *p, const char *config, kit_error *why)
{
    char folder[] = "/tmp/posenc-published-XXXXXX", path[KIT_PATH];
    why->text[0] = 0;
    if (!mkdtemp(folder)) return kit_fail(why, "no temporary folder");
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "w");
    if (!f) return kit_fail(why, "no temporary file");
    fputs(config, f);
    fclose(f);
    int read = published_read(p, folder, why);
    remove(path);
    remove(folder);
    return read;
}

/* what transformers makes of keys that are missing, given twice, or not for this type */
TEST settings_become_a_spec(const char *type, const char *more, const char *spec, int window, double eps)
{
    char config[1000];
    kit_error why;
    published p;
    snprintf(config, sizeof config, "{\"vocab_size\": 5, \"model_type\": \"%s\", \"hidden_size\": 8,"
             " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"intermediate_size\": 8,"
             " \"max_position_embeddings\": 64%s}", type, more);
    ASSERTm(why.text, read_config(&p, config, &why));
    ASSERT_STR_EQ(spec, p.spec);
    ASSERT_EQ(window, p.config.window);
    ASSERT_LTE(fabs(p.config.norm_eps - eps), 1e-9 * eps);
    PASS();
}

/* every config that says something we do not do is refused by the name of the key */
TEST unknown_settings_are_refused(const char *config, const char *said)
{
    kit_error why;
    published p;
    ASSERT_FALSE(read_config(&p, config, &why));
    for (const char *c = why.text; *c; c++) ASSERT((unsigned char)*c >= 32 && *c != 127);
    ASSERTm(check_text, mentions(why.text, said, (char *)0));
    PASS();
}

TEST a_tensor_that_is_missing_or_of_another_shape_is_named(void)
{
    subject s;
    kit_tensors set;
    kit_error why;
    ASSERTm(check_text, open_subject(&s, "llama3", 1));
    ASSERT(kit_tensors_open(&set, FOLDER "qwen3", &why));
    ASSERT_FALSE(published_load(s.m, POSENC_AS_LLAMA, &set, NULL, &why));
    ASSERTm(check_text, mentions(why.text, "q_proj", "48", "[32, 32]", (char *)0));
    kit_tensors_close(&set);
    ASSERT(kit_tensors_open(&set, FOLDER "gpt2", &why));
    ASSERT_FALSE(published_load(s.m, POSENC_AS_LLAMA, &set, NULL, &why));
    ASSERTm(check_text, mentions(why.text, "model.embed_tokens.weight", "token_embedding.weight", (char *)0));
    kit_tensors_close(&set);
    posenc_model_free(s.m);
    PASS();
}

SUITE(architectures)
{
    for (int i = 0; i < FOLDERS; i++) {
        label_test("%s_right", folders[i]);
        RUN_TESTp(hidden_states_and_logits_are_those_of_transformers, folders[i], "right");
        label_test("%s_left", folders[i]);
        RUN_TESTp(hidden_states_and_logits_are_those_of_transformers, folders[i], "left");
        if (strcmp(folders[i], "bert") == 0 || folders[i][0] == 't') continue;
        label_test("%s", folders[i]);
        RUN_TESTp(greedy_text_is_that_of_transformers, folders[i]);
    }
    static const char *const longer[] = { "llama3", "llama_linear", "llama_dynamic", "llama_yarn", "t5",
                                          "t5_gated" };
    for (int i = 0; i < 6; i++) {
        label_test("%s", longer[i]);
        RUN_TESTp(beyond_the_original_length, longer[i]);
    }
    static const char *const cached[] = { "gpt2", "llama2", "llama3", "llama_linear", "llama_yarn", "qwen3",
                                          "mistral", "gpt_neox", "gpt_neox_serial", "bloom", "bloom_6_heads" };
    for (int i = 0; i < 11; i++) {           /* not dynamic: its early keys saw other frequencies, as elsewhere */
        label_test("%s", cached[i]);
        RUN_TESTp(two_hundred_cached_tokens_are_the_uncached_ones, cached[i]);
    }
}

SUITE(refusals)
{
    static const struct { const char *name, *config, *said; } list[] = {
        { "no_type", "{\"vocab_size\": 5}", "model_type" },
        { "unknown_type", "{\"vocab_size\": 5, \"model_type\": \"mamba\"}", "mamba" },
        { "no_vocabulary", "{\"model_type\": \"gpt2\"}", "vocab_size" },
        { "negative_width", "{\"vocab_size\": 5, \"model_type\": \"gpt2\", \"n_embd\": -4}", "n_embd" },
        { "fraction_of_a_layer", "{\"vocab_size\": 5, \"model_type\": \"gpt2\", \"n_embd\": 8, \"n_head\": 2,"
          " \"n_layer\": 1.5}", "n_layer" },
        { "scaled_by_layer", "{\"vocab_size\": 5, \"model_type\": \"gpt2\", \"n_embd\": 8, \"n_head\": 2,"
          " \"n_layer\": 1, \"n_positions\": 8, \"scale_attn_by_inverse_layer_idx\": true}",
          "scale_attn_by_inverse_layer_idx" },
        { "biased_llama", "{\"vocab_size\": 5, \"model_type\": \"llama\", \"hidden_size\": 8,"
          " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"intermediate_size\": 8,"
          " \"max_position_embeddings\": 8, \"attention_bias\": true}", "attention_bias" },
        { "unknown_rope", "{\"vocab_size\": 5, \"model_type\": \"llama\", \"hidden_size\": 8,"
          " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"intermediate_size\": 8,"
          " \"max_position_embeddings\": 8, \"rope_scaling\": {\"type\": \"su\"}}", "'su'" },
        { "mixed_windows", "{\"vocab_size\": 5, \"model_type\": \"mistral\", \"hidden_size\": 8,"
          " \"num_attention_heads\": 2, \"num_hidden_layers\": 2, \"intermediate_size\": 8,"
          " \"max_position_embeddings\": 8, \"sliding_window\": 4, \"layer_types\": [\"full_attention\","
          " \"sliding_attention\"]}", "window" },
        { "qwen3_with_some_windows", "{\"vocab_size\": 5, \"model_type\": \"qwen3\", \"hidden_size\": 8,"
          " \"num_attention_heads\": 2, \"num_hidden_layers\": 30, \"intermediate_size\": 8,"
          " \"max_position_embeddings\": 8, \"sliding_window\": 4, \"use_sliding_window\": true}", "window" },
        { "bloom_without_heads", "{\"vocab_size\": 5, \"model_type\": \"bloom\", \"hidden_size\": 8,"
          " \"n_layer\": 1}", "n_head" },
        { "more_than_all_turns", "{\"vocab_size\": 5, \"model_type\": \"gpt_neox\", \"hidden_size\": 8,"
          " \"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"intermediate_size\": 8,"
          " \"max_position_embeddings\": 8, \"rotary_pct\": 1e18}", "rotary_pct" },
        { "relative_bert", "{\"vocab_size\": 5, \"model_type\": \"bert\", \"position_embedding_type\":"
          " \"relative_key\"}", "relative_key" },
        { "type_that_steers_a_terminal", "{\"vocab_size\": 5, \"model_type\": \"\\u001b[2Jx\\u007f\"}", "?[2Jx?" },
        { "not_json", "{\"vocab_size\": 5,}", "config.json" }
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        label_test("%s", list[i].name);
        RUN_TESTp(unknown_settings_are_refused, list[i].config, list[i].said);
    }
    RUN_TEST(a_tensor_that_is_missing_or_of_another_shape_is_named);
}

SUITE(meanings)
{
#define ROPE "rope:base=10000,layout=half"
    static const struct { const char *name, *type, *more, *spec; int window; double eps; } list[] = {
        { "nothing", "llama", "", ROPE, 0, 1e-6 },
        { "dynamic_has_one_length", "llama", ", \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4,"
          " \"original_max_position_embeddings\": 16}", ROPE ",scaling=dynamic,factor=4,original=64", 0, 1e-6 },
        { "yarn_has_two", "llama", ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4,"
          " \"original_max_position_embeddings\": 16}", ROPE ",scaling=yarn,factor=4,original=16", 0, 1e-6 },
        { "older_spelling_wins", "llama", ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4},"
          " \"rope_parameters\": {\"rope_type\": \"default\"}", ROPE ",scaling=linear,factor=4", 0, 1e-6 },
        { "older_spelling_empty", "llama", ", \"rope_scaling\": {}, \"rope_parameters\":"
          " {\"rope_type\": \"linear\", \"factor\": 2}", ROPE ",scaling=linear,factor=2", 0, 1e-6 },
        { "mistral_has_a_window", "mistral", "", ROPE, 4096, 1e-6 },
        { "mistral_without_one", "mistral", ", \"sliding_window\": null", ROPE, 0, 1e-6 },
        { "mistral_with_its_own", "mistral", ", \"sliding_window\": 7", ROPE, 7, 1e-6 },
        { "epsilon_of_zero", "llama", ", \"rms_norm_eps\": 0.0", ROPE, 0, 1e-30 }
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        label_test("%s", list[i].name);
        RUN_TESTp(settings_become_a_spec, list[i].type, list[i].more, list[i].spec, list[i].window,
                  list[i].eps);
    }
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(architectures);
    RUN_SUITE(refusals);
    RUN_SUITE(meanings);
    GREATEST_MAIN_END();
}
