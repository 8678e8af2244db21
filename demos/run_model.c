/* run_model: a published model, from a Hugging Face folder, in one C program

       build/run_model DIR                                          its card: what it is, what it takes
       build/run_model DIR --tokens 15496,11,995 --logits 5         the five likeliest next tokens
       build/run_model DIR --tokens 15496,11,995 --generate 40      40 more, greedily
       build/run_model DIR --tokens 15496,11 --tokens 40,716 --generate 40 --temperature 0.8
       build/run_model DIR --tokens 101,7592,2088,102 --embed       mean of the last hidden states
       build/run_model --help

   DIR holds config.json and model.safetensors, or an index with its shards, in F32, F16 or BF16:
   BERT, GPT-2, Llama, Mistral, Qwen3, GPT-NeoX, BLOOM and T5 encoders. Texts go in and come out as
   token numbers; several --tokens are several texts at once, of any lengths.

   What to look for: the spec string in the card, which is the whole positional encoding in a line.
   The parts: published/config.h (config.json), published/weights.h (tensors), kit/safetensors.h. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/args.h"
#include "kit/progress.h"
#include "kit/report.h"
#include "kit/threads.h"
#include "published/weights.h"

enum { DONE = 0, FAILED = 1, TEXTS = KIT_LIST_ROOM };

typedef struct settings {
    kit_list tokens;
    const char *precision;
    int logits, generate, embed, context, threads, top_k;
    double temperature, top_p, repetition;
    uint64_t seed;
} settings;

typedef struct texts { int *token[TEXTS], length[TEXTS], count, longest; } texts;

typedef struct session {
    const settings *set;
    published p;
    posenc_model *m;
    texts in;
    kit_text unused;                       /* names of tensors that were not read                 */
} session;

/* ---- token numbers --------------------------------------------------------------------------- */

static int read_text(texts *t, const char *list, int vocab, kit_error *why)
{
    int n = 0, *token = (int *)kit_new(strlen(list) + 1, sizeof(int));
    t->token[t->count] = token;
    for (const char *at = list; *at; ) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',' && *end != ' ') || v < 0 || v >= vocab)
            return kit_fail(why, "--tokens takes numbers from 0 to %d with commas between them, not "
                            "'%.40s'", vocab - 1, at);
        token[n++] = (int)v;
        at = end + strspn(end, ", ");
    }
    if (n == 0) return kit_fail(why, "--tokens needs at least one number");
    t->length[t->count++] = n;
    if (n > t->longest) t->longest = n;
    return 1;
}

static int read_texts(texts *t, const settings *s, int vocab, kit_error *why)
{
    for (int i = 0; i < s->tokens.count; i++)
        if (!read_text(t, s->tokens.item[i], vocab, why)) {
            t->count++;                                       /* so that it is freed */
            return 0;
        }
    return 1;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* room for the texts and what follows them, no more: activations are made for it */
static int choose_room(session *s, kit_error *why)
{
    posenc_config *c = &s->p.config;
    int more = s->set->generate ? s->set->generate - 1 : 0;     /* the last one is not read again */
    int needed = s->in.longest + more;
    int fixed = s->p.family == POSENC_AS_BERT || s->p.family == POSENC_AS_GPT2;
    c->context = s->set->context ? s->set->context : needed ? needed : 1;
    c->batch = s->in.count ? s->in.count : 1;
    if (needed > c->context)
        return kit_fail(why, "%d tokens are needed, and --context is %d", needed, c->context);
    if (fixed && c->context > s->p.length)
        return kit_fail(why, s->set->context ? "--context is %d, and the model has positions for %d"
                                             : "%d tokens are needed, and the model has positions for %d",
                        c->context, s->p.length);
    return 1;
}

/* A config that asks for more than the files hold is told so before memory is taken for it. */
static int enough_numbers(const posenc_config *c, const kit_tensors *set, kit_error *why)
{
    posenc_config plain = *c;
    posenc_bytes bytes;
    posenc_error said;
    double there = 0, needed;
    plain.precision = POSENC_FP32;
    if (posenc_model_bytes(&bytes, &plain, &said) != POSENC_OK) return kit_fail(why, "%s", said.text);
    needed = (double)(bytes.parameters / sizeof(posenc_float));
    for (size_t i = 0; i < set->count; i++) there += (double)set->tensor[i].count;
    if (needed <= 1.25 * there + 1e6) return 1;                 /* ours lie in whole lines of the cache */
    return kit_fail(why, "config.json describes %.0f numbers, and the files hold %.0f", needed, there);
}

static int open_model(session *s, const char *folder, kit_error *why)
{
    posenc_config *c = &s->p.config;
    posenc_error said;
    kit_tensors set;
    c->inference = 1;
    c->threads = s->set->threads;
    c->precision = strcmp(s->set->precision, "bf16") == 0 ? POSENC_BF16 : POSENC_FP32;
    if (!kit_tensors_open(&set, folder, why)) return 0;
    int good = enough_numbers(c, &set, why);
    if (good && posenc_model_create(&s->m, c, &said) != POSENC_OK) good = kit_fail(why, "%s", said.text);
    good = good && published_load(s->m, s->p.family, &set, &s->unused, why);
    kit_tensors_close(&set);
    return good;
}

/* ---- the card -------------------------------------------------------------------------------- */

/* names of tensors that were not read: with --embed, whose output is numbers alone, as a warning */
static void print_unused(const session *s, FILE *to)
{
    for (const char *at = s->unused.size ? s->unused.data : ""; *at; at += strcspn(at, "\n") + 1)
        fprintf(to, "not used    %.*s\n", (int)strcspn(at, "\n"), at);
}

static void print_card(const session *s)
{
    static const char *const norms[] = { "LayerNorm", "RMSNorm" };
    static const char *const acts[] = { "ReLU", "GELU", "GELU (tanh)", "SiLU", "SwiGLU", "GEGLU",
                                        "GEGLU (tanh)" };
    const posenc_config *c = posenc_model_config(s->m);
    posenc_bytes bytes;
    char count[32];
    kit_say_count(count, posenc_model_numbers(s->m));
    posenc_model_bytes(&bytes, c, NULL);
    printf("type        %s\nparameters  %s\nencoding    %s\n", s->p.type, count, s->p.spec);
    printf("blocks      %d of %d channels, %d heads of %d", c->layers, c->channels, c->heads,
           c->head_channels);
    if (c->kv_heads != c->heads) printf(" (%d of keys and values)", c->kv_heads);
    printf(", hidden %d\n            %s %s, %s%s%s\n", c->hidden, norms[c->norm],
           c->norm_place == POSENC_POST_NORM ? "after" : "before", acts[c->activation],
           c->qk_norm ? ", QK-norm" : "", c->parallel ? ", branches side by side" : "");
    printf("vocabulary  %d%s\n", c->vocab,
           !s->p.has_logits ? ", no head" : c->tied_head ? ", head tied to it" : "");
    if (s->p.length) printf("length      %d\n", s->p.length);
    if (c->window) printf("window      %d\n", c->window);
    printf("memory      %.1f MB of weights, %.1f MB for %d x %d tokens", 1e-6 * (double)bytes.parameters,
           1e-6 * (double)bytes.activations, c->batch, c->context);
    if (c->causal)
        printf(", %.1f MB of cache",
               1e-6 * (double)posenc_cache_bytes(c, c->batch, c->context));
    printf("\n");
    print_unused(s, stdout);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static int forward(session *s, int row, kit_error *why)
{
    posenc_batch b;
    posenc_error said;
    memset(&b, 0, sizeof b);
    b.B = 1;
    b.T = s->in.length[row];
    b.tokens = s->in.token[row];
    if (posenc_model_forward(s->m, &b, &said) == POSENC_OK) return 1;
    return kit_fail(why, "%s", said.text);
}

/* the likeliest tokens to come next, with their share */
static int show_logits(session *s, int row, kit_error *why)
{
    int V = s->p.config.vocab, n = s->set->logits < V ? s->set->logits : V;
    posenc_float *z = (posenc_float *)kit_new((size_t)V, sizeof *z);
    posenc_error said;
    double sum = 0, top;
    int good = forward(s, row, why);
    if (good && posenc_model_logits(s->m, z, s->in.length[row] - 1, 1, &said) != POSENC_OK)
        good = kit_fail(why, "%s", said.text);
    for (int i = 0; i < n && good; i++) {
        int best = -1;
        for (int v = 0; v < V; v++) if (z[v] == z[v] && (best < 0 || z[v] > z[best])) best = v;
        if (best < 0 || z[best] - z[best] != 0) {
            good = i > 0 || kit_fail(why, "text %d: no logit is a finite number", row + 1);
            break;
        }
        if (i == 0) {
            top = z[best];
            for (int v = 0; v < V; v++) sum += z[v] == z[v] ? exp(z[v] - top) : 0;
            printf("\ntext %d: next token, logit, share\n", row + 1);
        }
        printf("  %8d  %9.4f  %5.1f %%\n", best, (double)z[best], 100 * exp(z[best] - top) / sum);
        z[best] = -HUGE_VALF;
    }
    free(z);
    return good;
}

/* mean of the last hidden states, of length one */
static int show_embedding(session *s, int row, kit_error *why)
{
    int C = s->p.config.channels, T = s->in.length[row];
    const char *last = posenc_model_find(s->m, "norm") ? "norm" : "blocks.0.out";
    double *mean = (double *)kit_new((size_t)C, sizeof *mean), norm = 0;
    posenc_float *x = (posenc_float *)kit_new((size_t)C * (size_t)T, sizeof *x);
    int good = forward(s, row, why);
    if (good) posenc_model_get(s->m, x, posenc_model_find(s->m, last)->data, (size_t)C * (size_t)T);
    for (int i = 0; i < C * T; i++) mean[i % C] += x[i] / T;
    for (int c = 0; c < C; c++) norm += mean[c] * mean[c];
    if (good && !(norm > 0 && norm - norm == 0))
        good = kit_fail(why, "text %d: the mean of its hidden states is %s", row + 1,
                        norm == 0 ? "zero, and has no direction" : "not a finite number");
    for (int c = 0; c < C && good; c++) printf("%s%.7g", c ? " " : "", mean[c] / sqrt(norm));
    if (good) printf("\n");
    free(mean);
    free(x);
    return good;
}

static int print_token(void *user, int row, int token)
{
    if (*(const int *)user == 1) printf(" %d", token);
    fflush(stdout);
    (void)row;
    return !ferror(stdout);                                              /* nobody reads any more */
}

static posenc_generation plan(const session *s, int *count)
{
    posenc_generation g;
    memset(&g, 0, sizeof g);
    g.most = s->set->generate;
    g.sampling.temperature = s->set->temperature;
    g.sampling.top_k = s->set->top_k;
    g.sampling.top_p = s->set->top_p;
    g.sampling.repetition = s->set->repetition;
    g.sampling.seed = s->set->seed;
    g.stop = s->p.stop;
    g.stops = s->p.stops;
    g.token = print_token;
    g.user = count;
    return g;
}

static int write_on(session *s, posenc_cache *cache, int *prompt, int *out, kit_error *why)
{
    int count[TEXTS], rows = s->in.count, made = 0;
    posenc_generation g = plan(s, &rows);
    posenc_error said;
    for (int b = 0; b < rows; b++)
        memcpy(prompt + (size_t)b * (size_t)s->in.longest, s->in.token[b],
               (size_t)s->in.length[b] * sizeof *prompt);
    if (rows == 1) printf("\ntext 1:");
    double began = kit_seconds();
    posenc_status status = posenc_generate(out, count, s->m, cache, prompt, s->in.length,
                                           s->in.longest, &g, &said);
    double took = kit_seconds() - began;
    if (status != POSENC_OK) return kit_fail(why, "%s", said.text);
    for (int b = 0; b < rows; b++) {
        if (rows > 1) printf("\ntext %d:", b + 1);
        for (int i = 0; i < count[b] && rows > 1; i++) printf(" %d", out[b * g.most + i]);
        made += count[b];
    }
    printf("\n\n%d tokens, %.2f s, %.1f tokens/s with the prompts' forward\n", made, took, made / took);
    return 1;
}

static int generate(session *s, kit_error *why)
{
    posenc_cache *cache = NULL;
    posenc_error said;
    size_t rows = (size_t)s->in.count;
    int *prompt = (int *)kit_new(rows * (size_t)s->in.longest, sizeof(int));
    int *out = (int *)kit_new(rows * (size_t)s->set->generate, sizeof(int));
    int good = posenc_cache_create(&cache, s->m, s->in.count, s->p.config.context, &said) == POSENC_OK;
    if (!good) kit_fail(why, "%s", said.text);
    good = good && write_on(s, cache, prompt, out, why);
    posenc_cache_free(cache);
    free(prompt);
    free(out);
    return good;
}

static int run(session *s, const char *folder, kit_error *why)
{
    const settings *set = s->set;
    if (!published_read(&s->p, folder, why) || !read_texts(&s->in, set, s->p.config.vocab, why)) return 0;
    if ((set->logits || set->generate) && !s->p.has_logits)
        return kit_fail(why, "a model of type %s has no next token; --embed is for it", s->p.type);
    if (!choose_room(s, why) || !open_model(s, folder, why)) return 0;
    if (set->embed) print_unused(s, stderr);
    else            print_card(s);
    for (int row = 0; row < s->in.count; row++) {
        if (set->logits && !show_logits(s, row, why)) return 0;
        if (set->embed && !show_embedding(s, row, why)) return 0;
    }
    return !set->generate || generate(s, why);
}

/* ---- the command line ------------------------------------------------------------------------ */

int main(int argc, char **argv)
{
    settings s;
    static session all;
    kit_error why;
    kit_wait_patiently(argv);
    memset(&s, 0, sizeof s);
    s.precision = "fp32";
    kit_option options[] = {
        kit_several("tokens",   &s.tokens, "N,N,N",        "a text, as token numbers"),
        kit_int("logits",       &s.logits, 0, 1 << 20,     "show so many of the likeliest next tokens"),
        kit_int("generate",     &s.generate, 0, 1 << 20,   "so many new tokens"),
        kit_switch("embed",     &s.embed,                  "print the mean of the last hidden states"),
        kit_real("temperature", &s.temperature, 0, 100,    "0: always the likeliest token"),
        kit_int("top-k",        &s.top_k, 0, 1 << 24,      "0: all tokens may be drawn"),
        kit_real("top-p",       &s.top_p, 0, 1,            "0: all of them"),
        kit_real("repetition",  &s.repetition, 0, 100,     "above 1: tokens seen before are less likely"),
        kit_u64("seed",         &s.seed,                   "of the draws"),
        kit_int("context",      &s.context, 0, 1 << 24,    "slots; 0: as many as are needed"),
        kit_int("threads",      &s.threads, 0, 1024,       "0: all cores"),
        kit_choice("precision", &s.precision, "fp32|bf16", "of the products"),
        kit_no_more()
    };
    kit_args a;
    memset(&a, 0, sizeof a);
    a.program = "run_model";
    a.summary = "run_model: a published model, from a Hugging Face folder";
    a.options = options;
    a.operand = "DIR";
    a.closing = "  run_model DIR --tokens 15496,11,995 --generate 40";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (a.operands.count != 1) return kit_usage(&a, "one folder is needed"), a.exit_code;
    if ((s.logits || s.generate || s.embed) && s.tokens.count == 0)
        return kit_usage(&a, "--logits, --generate and --embed need --tokens"), a.exit_code;
    all.set = &s;
    why.text[0] = 0;
    int good = run(&all, a.operands.item[0], &why);
    if (!good) fprintf(stderr, "run_model: %s\n", why.text);
    for (int i = 0; i < all.in.count; i++) free(all.in.token[i]);
    kit_text_free(&all.unused);
    posenc_model_free(all.m);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "run_model: cannot write the output: %s\n", strerror(errno));
        good = 0;
    }
    return good ? DONE : FAILED;
}
