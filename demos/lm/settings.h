/* lm/settings.h - what a run is asked to be: flags, config files, and the file a run leaves of them

   A config file is flat YAML, one flag a line, with dashes or underscores:

       size: nano                # from here on a comment
       learning_rate: 2e-3       # pos-enc-bench's names are understood
       training:                 # a section only groups the lines below it
         tokens: 2.4B
         target_budgets: [1.2B, 2.4B]

   A key that is no flag is refused with the nearest one, a key that comes twice as well. What
   stands on the command line wins. Include posenc.h first. */
#ifndef LM_SETTINGS_H
#define LM_SETTINGS_H

#include "lm/sizes.h"
#include "kit/specs.h"

/* ---- config files ---------------------------------------------------------------------------- */

enum { LM_CONFIG_LONGEST = 1 << 20, LM_CONFIG_KEYS = 256, LM_CONFIG_KEY = 48 };

/* called with each key and value of a file; 0 ends the reading, with a sentence in *why */
typedef int lm_config_take(void *user, const char *key, const char *value, int line,
                           kit_error *why);

typedef struct lm__config {
    const char *name;                      /* of the file, for messages                           */
    int line;                              /* from 1                                              */
    char key[LM_CONFIG_KEYS][LM_CONFIG_KEY];
    char *value[LM_CONFIG_KEYS];           /* in the text itself; NULL: none, a section           */
    int at[LM_CONFIG_KEYS];                /* lines                                               */
    int keys;
    kit_error *why;
} lm__config;

KIT_FORMAT(2, 3) static inline int lm__config_fail(lm__config *c, const char *format, ...)
{
    char said[320];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return kit_fail(c->why, "%.150s, line %d: %s", c->name, c->line, said);
}

/* Where the line ends for YAML: at a # behind a blank, outside quotes; blanks before it go too. A
   quote opens at the beginning of a word, so that "it's" has none. */
static inline void lm__config_trim(char *line)
{
    char quote = 0;
    size_t n = 0;
    for (; line[n]; n++) {
        int begins = n == 0 || strchr(" \t[,", line[n - 1]) != NULL;
        if (quote) { if (line[n] == quote) quote = 0; }
        else if (begins && (line[n] == '"' || line[n] == '\'')) quote = line[n];
        else if (begins && line[n] == '#') break;
    }
    while (n > 0 && strchr(" \t\r", line[n - 1])) n--;
    line[n] = 0;
}

/* quotes go, and the brackets and blanks of [a, b] */
static inline char *lm__config_value(char *v)
{
    size_t n = strlen(v);
    char first = *v;
    if (n >= 2 && (first == '"' || first == '\'') && v[n - 1] == first) {
        v[n - 1] = 0;
        return v + 1;
    }
    if (n < 2 || first != '[' || v[n - 1] != ']') return v;
    v[n - 1] = 0;
    char *to = v;
    for (const char *at = v + 1; *at; at++) if (!strchr(" \t\"'", *at)) *to++ = *at;
    *to = 0;
    return v;
}

/* "- item" below a key without a value: one more word of its list */
static inline int lm__config_item(lm__config *c, char *item)
{
    if (c->keys == 0) return lm__config_fail(c, "a list has to belong to a key");
    char **list = &c->value[c->keys - 1];
    item = lm__config_value(item + strspn(item, " \t"));
    if (!*list) {
        *list = item;
        return 1;
    }
    size_t n = strlen(*list);              /* what was read lies before what is read: it has room */
    (*list)[n] = ',';
    memmove(*list + n + 1, item, strlen(item) + 1);
    return 1;
}

/* learning_rate -> learning-rate -> lr */
static inline void lm__config_name(char key[LM_CONFIG_KEY])
{
    static const char *const other[][2] = {
        { "learning-rate", "lr" }, { "max-seq-len", "context" }, { "seq-len", "context" },
        { "d-model", "channels" }, { "n-layers", "layers" }, { "n-heads", "heads" },
        { "vocab-size", "vocab" }, { "max-tokens", "tokens" }, { "decay-ratio", "decay" },
        { "clip", "grad-clip" }, { "max-grad-norm", "grad-clip" }, { "dtype", "precision" },
        { "warmup", "warmup-steps" }, { "model-size", "size" }, { "pe-type", "pe" }
    };
    for (char *c = key; *c; c++) if (*c == '_') *c = '-';
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcmp(key, other[i][0]) == 0) snprintf(key, LM_CONFIG_KEY, "%s", other[i][1]);
}

static inline int lm__config_pair(lm__config *c, char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    char shown[48];
    snprintf(shown, sizeof shown, "%.40s", text);
    if (n == 0 || text[n] != ':' || (text[n + 1] && !strchr(" \t", text[n + 1])))
        return lm__config_fail(c, "expected 'key: value', found '%s'", shown);
    if (n >= LM_CONFIG_KEY)
        return lm__config_fail(c, "the key %s... has more than %d letters", shown,
                               LM_CONFIG_KEY - 1);
    if (c->keys == LM_CONFIG_KEYS)
        return lm__config_fail(c, "there are more than %d keys", LM_CONFIG_KEYS);
    char *key = c->key[c->keys], *value = text + n + 1;
    value += strspn(value, " \t");
    memcpy(key, text, n);
    key[n] = 0;
    lm__config_name(key);
    c->value[c->keys] = *value ? lm__config_value(value) : NULL;
    c->at[c->keys++] = c->line;
    return 1;
}

static inline int lm__config_line(lm__config *c, char *line)
{
    lm__config_trim(line);
    line += strspn(line, " \t");
    if (!*line || strcmp(line, "---") == 0) return 1;
    if (line[0] == '-' && strchr(" \t", line[1])) return lm__config_item(c, line + 1);
    return lm__config_pair(c, line);
}

/* hands key i on, unless it is a section, or comes a second time */
static inline int lm__config_give(lm__config *c, int i, lm_config_take *take, void *user)
{
    const char *v = c->value[i];
    c->line = c->at[i];
    if (!v) return 1;
    for (int k = 0; k < i; k++)
        if (c->value[k] && strcmp(c->key[k], c->key[i]) == 0)
            return lm__config_fail(c, "%s comes twice; line %d had it", c->key[i], c->at[k]);
    if (strcmp(v, "null") == 0 || strcmp(v, "~") == 0) return 1;
    return take(user, c->key[i], v, c->line, c->why);
}

/* Reads a file's text, which must end in a 0, is changed and has to stay: values are handed on as
   pointers into it. */
static inline int lm_config_parse(char *text, size_t size, const char *name, lm_config_take *take,
                                  void *user, kit_error *why)
{
    lm__config *c = (lm__config *)kit_new(1, sizeof *c);
    int good = 1;
    c->name = name;
    c->why = why;
    if (strlen(text) != size) good = kit_fail(why, "%.200s has a zero byte: it is no text", name);
    for (char *line = text, *next; good && line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        c->line++;
        good = lm__config_line(c, line);
    }
    for (int i = 0; good && i < c->keys; i++) good = lm__config_give(c, i, take, user);
    free(c);
    return good;
}

/* ---- config files for a table of flags ------------------------------------------------------- */

static inline int lm__yes(const char *v, int *yes)
{
    static const char *const word[] = { "false", "no", "off", "0", "true", "yes", "on", "1" };
    for (int i = 0; i < 8; i++) if (strcmp(v, word[i]) == 0) { *yes = i / 4; return 1; }
    return 0;
}

typedef struct lm__config_flags { kit_args *a; const char *name; } lm__config_flags;

static inline int lm__config_flag(void *user, const char *key, const char *value, int line,
                                  kit_error *why)
{
    lm__config_flags *f = (lm__config_flags *)user;
    kit_option *o = f->a->options;
    kit_args speaker = *f->a;
    char program[256];
    while (o->name && strcmp(o->name, key) != 0) o++;
    if (!o->name)
        return kit_fail(why, "%.150s, line %d: there is no key %s; did you mean %s?", f->name, line,
                        key, kit__nearest_option(f->a, key));
    snprintf(program, sizeof program, "%.40s: %.150s, line %d", f->a->program, f->name, line);
    speaker.program = program;
    why->text[0] = 0;                      /* what follows says its sentence itself               */
    if (o->kind == KIT_SWITCH) {
        if (!lm__yes(value, (int *)o->value))
            return kit_usage(&speaker, "%s is true or false, not '%.60s'", key, value);
    } else if (!kit__read_value(&speaker, o, value)) return 0;
    o->given = 1;
    return 1;
}

/* The file's values become the flags'. 0: a->exit_code, and all has been said. own: the file's
   text, to be kept as long as the flags. */
static inline int lm_config_read(kit_args *a, kit_text *own, const char *path)
{
    lm__config_flags f;
    kit_error why;
    f.a = a;
    f.name = path;
    why.text[0] = 0;
    a->exit_code = 2;
    if (!kit_read_file(own, path, LM_CONFIG_LONGEST, &why)) return kit_usage(a, "%s", why.text);
    if (!own->data) return 1;                                        /* empty                     */
    if (lm_config_parse(own->data, own->size, path, lm__config_flag, &f, &why)) return 1;
    return why.text[0] ? kit_usage(a, "%s", why.text) : 0;
}

/* the value of --name or --name=, NULL if it is not on the command line; the last one counts */
static inline const char *lm_argument(int argc, char **argv, const char *name)
{
    const char *found = NULL;
    size_t n = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, n) != 0) continue;
        if (argv[i][n + 2] == '=') found = argv[i] + n + 3;
        else if (!argv[i][n + 2] && i + 1 < argc) found = argv[i + 1];
    }
    return found;
}

/* For commands that know no --config of their own: its lines as flags, --key=value, in front of
   those on the command line, which so win; "key: true" is --key and "key: false" nothing. */
typedef struct lm_config_words { char **word; int count; kit_text text; } lm_config_words;

static inline int lm__config_word(void *user, const char *key, const char *value, int line,
                                 kit_error *why)
{
    lm_config_words *w = (lm_config_words *)user;
    (void)line;
    (void)why;
    if (strcmp(value, "false") == 0) return 1;
    size_t n = strlen(key) + strlen(value) + 4;
    char *word = (char *)kit_new(n, 1);
    if (strcmp(value, "true") == 0) snprintf(word, n, "--%s", key);
    else snprintf(word, n, "--%s=%s", key, value);
    w->word[w->count++] = word;
    return 1;
}

/* argv[0] stays the first. They live until the program ends. */
static inline int lm_config_expand(lm_config_words *w, int argc, char **argv, kit_error *why)
{
    const char *path = lm_argument(argc, argv, "config");
    memset(w, 0, sizeof *w);
    w->word = (char **)kit_new((size_t)argc + LM_CONFIG_KEYS + 1, sizeof *w->word);
    w->word[w->count++] = argv[0];
    if (path && (!kit_read_file(&w->text, path, LM_CONFIG_LONGEST, why)
                 || (w->text.data && !lm_config_parse(w->text.data, w->text.size, path,
                                                      lm__config_word, w, why)))) return 0;
    for (int i = 1; i < argc; i++) {
        int named = strcmp(argv[i], "--config") == 0;
        if (named) i++;
        else if (strncmp(argv[i], "--config=", 9) != 0) w->word[w->count++] = argv[i];
    }
    return 1;
}

/* ---- the flags of lm train ------------------------------------------------------------------- */

enum { LM_OPTIONS = 64, LM_TARGETS = 8,
       LM_BRANCH_LEAST = 100 };            /* updates: shorter runs branch if told to only      */

typedef struct lm_settings {
    const char *size, *pe, *data, *val, *tokens, *eval_tokens, *schedule, *qk_norm, *precision;
    const char *branch, *target_budgets, *stage, *decay_tokens, *decay_on, *rule, *loss;
    const char *resume, *out, *run_name, *checkpoint_dir, *memory, *config;
    int batch, accum, steps, warmup, context, layers, channels, heads, vocab, threads, keep;
    int log_interval, eval_interval, checkpoint_interval, save_seconds;
    int recompute, dry_run, quiet, tensorboard, overwrite;
    double lr, floor, decay, dropout, clip, weight_decay;
    uint64_t seed;
    kit_option option[LM_OPTIONS];
    kit_text file;                         /* the config, which texts above point into            */
} lm_settings;

static inline void lm__settings_default(lm_settings *s)
{
    memset(s, 0, sizeof *s);
    s->size = "nano";
    s->pe = "rope";
    s->schedule = "wsd";
    s->qk_norm = "before-rope";
    s->precision = "fp32";
    s->branch = "now";
    s->stage = "full";
    s->decay_on = "products";
    s->loss = "all";
    s->rule = "published";
    s->out = "results/lm";
    s->accum = 1;
    s->warmup = -1;
    s->keep = 3;
    s->log_interval = 10;
    s->save_seconds = 60;
    s->decay = 0.1;
    s->clip = 1;
    s->weight_decay = 0.1;
    s->seed = 42;
}

/* what the model is and what it reads */
static inline int lm__options_model(lm_settings *s, kit_option *o)
{
    int n = 0;
    o[n++] = kit_choice("size", &s->size, LM_SIZE_NAMES, "preset; what follows changes it");
    o[n++] = kit_word("pe", &s->pe, "SPEC", "encoding: name[:key=value,...][+...]");
    o[n++] = kit_int("context", &s->context, 0, 1 << 24, "tokens a text has; 0: the preset's");
    o[n++] = kit_int("layers", &s->layers, 0, 4096, "0: the preset's");
    o[n++] = kit_int("channels", &s->channels, 0, 1 << 17, "width; 0: the preset's");
    o[n++] = kit_int("heads", &s->heads, 0, 4096, "0: the preset's");
    o[n++] = kit_int("vocab", &s->vocab, 0, 1 << 24, "0: the preset's, or the data's");
    o[n++] = kit_choice("qk-norm", &s->qk_norm, "before-rope|after-rope|off",
                        "norm of queries and keys");
    o[n++] = kit_real("dropout", &s->dropout, 0, 1, "embedding, attention, branches, hidden layer");
    o[n++] = kit_choice("precision", &s->precision, "fp32|bf16", "of products");
    o[n++] = kit_switch("recompute", &s->recompute,
                        "keep one layer's activations, compute the others again");
    o[n++] = kit_word("data", &s->data, "PATH:W,...",
                      "files or folders with weights [make corpus, or our own sentences]");
    o[n++] = kit_word("val", &s->val, "PATH", "to validate on [what --data holds out]");
    return n;
}

/* how it is trained */
static inline int lm__options_training(lm_settings *s, kit_option *o)
{
    int n = 0;
    o[n++] = kit_word("tokens", &s->tokens, "N", "budget: 2.4B, 60M, 1500k [the preset's]");
    o[n++] = kit_int("steps", &s->steps, 0, 1 << 30, "updates, instead of --tokens");
    o[n++] = kit_int("batch-size", &s->batch, 0, 1 << 20, "texts at a time; 0: the preset's");
    o[n++] = kit_int("grad-accum-steps", &s->accum, 1, 1 << 20, "batches of an update");
    o[n++] = kit_real("lr", &s->lr, 0, 10, "peak learning rate; 0: the preset's");
    o[n++] = kit_int("warmup-steps", &s->warmup, -1, 1 << 30, "-1: 3 % of all, at most 2000");
    o[n++] = kit_choice("rule", &s->rule, "published|scaled",
                        "scaled: rate / and 1000 warm-up steps * sqrt(N/59M)");
    o[n++] = kit_choice("schedule", &s->schedule, "wsd|cosine|linear|constant",
                        "wsd: warm up, stay, decay");
    o[n++] = kit_real("decay", &s->decay, 0, 1, "wsd: share of the final decay");
    o[n++] = kit_real("min-lr", &s->floor, 0, 1, "last rate, as a share of the peak");
    o[n++] = kit_real("grad-clip", &s->clip, 0, 1e9, "largest norm of the gradient; 0: any");
    o[n++] = kit_real("weight-decay", &s->weight_decay, 0, 10, "AdamW's");
    o[n++] = kit_choice("loss", &s->loss, "all|answers",
                        "what counts in windows of tasks (lm tasks): every byte, or answers");
    o[n++] = kit_choice("decay-on", &s->decay_on, "products|matrices|all",
                        "matrices: embeddings too; all: norms too, as pos-enc-bench");
    o[n++] = kit_u64("seed", &s->seed, "of weights, data and dropout");
    o[n++] = kit_int("threads", &s->threads, 0, 1024, "0: all cores; changes no figure");
    o[n++] = kit_word("target-budgets", &s->target_budgets, "N,N",
                      "budgets to branch for [tiny to large: half of all, all]");
    o[n++] = kit_choice("branch", &s->branch, "now|later|off",
                        "now: decay for each; later: save the state for it");
    o[n++] = kit_choice("wsd-stage", &s->stage, "full|decay_only",
                        "decay_only: from --resume FILE, over --decay-tokens");
    o[n++] = kit_word("decay-tokens", &s->decay_tokens, "N", "of decay_only [as the file says]");
    return n;
}

/* where it goes and what it tells */
static inline int lm__options_run(lm_settings *s, kit_option *o)
{
    int n = 0;
    o[n++] = kit_word("config", &s->config, "FILE", "flags from a file; those here win");
    o[n++] = kit_word("resume", &s->resume, "auto|FILE", "go on; auto: from the run's last state");
    o[n++] = kit_switch("overwrite", &s->overwrite, "start over where a run is");
    o[n++] = kit_word("out", &s->out, "DIR", "runs are folders in it");
    o[n++] = kit_word("run-name", &s->run_name, "NAME", "[size_encoding_budget_sSEED]");
    o[n++] = kit_word("checkpoint-dir", &s->checkpoint_dir, "DIR", "the run's folder itself");
    o[n++] = kit_int("log-interval", &s->log_interval, 1, 1 << 30, "updates between metrics");
    o[n++] = kit_int("eval-interval", &s->eval_interval, 0, 1 << 30,
                     "updates between validations; 0: 10 in all, or 500");
    o[n++] = kit_word("eval-tokens", &s->eval_tokens, "N", "to validate on [128k, or 1M]");
    o[n++] = kit_int("checkpoint-interval", &s->checkpoint_interval, 0, 1 << 30,
                     "updates between step files; 0: 20 in all");
    o[n++] = kit_int("keep", &s->keep, 0, 1 << 30, "step files that stay");
    o[n++] = kit_int("save-seconds", &s->save_seconds, 1, 1 << 30,
                     "latest.safetensors is never older");
    o[n++] = kit_switch("tensorboard", &s->tensorboard, "write an event file too");
    o[n++] = kit_word("memory", &s->memory, "8G", "may be used [what is free]");
    o[n++] = kit_switch("dry-run", &s->dry_run, "say what it would take, do nothing");
    o[n++] = kit_switch("quiet", &s->quiet, "no progress");
    o[n++] = kit_choice("model-size", &s->size, LM_SIZE_NAMES, "the same as --size");
    o[n++] = kit_word("pe-type", &s->pe, "SPEC", "the same as --pe");
    return n;
}

static inline void lm__settings_options(lm_settings *s)
{
    int n = lm__options_model(s, s->option);
    n += lm__options_training(s, s->option + n);
    n += lm__options_run(s, s->option + n);
    s->option[n] = kit_no_more();
}

static inline void lm_settings_free(lm_settings *s)
{
    kit_text_free(&s->file);
}

/* A checkpoint's folder, or the run's own, has the config the run was made with. */
static inline int lm__settings_beside(char path[KIT_PATH], int argc, char **argv)
{
    const char *resume = lm_argument(argc, argv, "resume");
    const char *folder = lm_argument(argc, argv, "checkpoint-dir");
    if (!resume) return 0;
    const char *slash = strrchr(resume, '/');
    if (strcmp(resume, "auto") != 0)
        snprintf(path, KIT_PATH, "%.*s%sconfig.yaml", slash ? (int)(slash - resume) : 0, resume,
                 slash ? "/" : "");
    else if (folder) snprintf(path, KIT_PATH, "%.900s/config.yaml", folder);
    else return 0;
    return kit_exists(path);
}

/* 1: all is read. 0: leave with a->exit_code. */
static inline int lm_settings_read(lm_settings *s, kit_args *a, int argc, char **argv)
{
    char beside[KIT_PATH];
    const char *config = lm_argument(argc, argv, "config");
    lm__settings_default(s);
    lm__settings_options(s);
    a->options = s->option;
    a->exit_code = 2;
    for (int i = 1; i < argc; i++)                                   /* the defaults, unchanged   */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return kit_args_read(a, argc, argv);
    if (!config && lm__settings_beside(beside, argc, argv)) config = beside;
    if (config && !lm_config_read(a, &s->file, config)) return 0;
    if (lm_argument(argc, argv, "steps")) s->tokens = NULL;          /* one says how long, and    */
    if (lm_argument(argc, argv, "tokens")) s->steps = 0;             /* flags win                 */
    return kit_args_read(a, argc, argv);
}

static inline int lm_given(const lm_settings *s, const char *name)
{
    for (const kit_option *o = s->option; o->name; o++)
        if (strcmp(o->name, name) == 0) return o->given;
    return 0;
}

/* ---- the plan: what the settings come to ----------------------------------------------------- */

typedef struct lm_recipe {
    lm_size size;                          /* with what was changed                               */
    spec_text pe;
    posenc_config model;
    posenc_optimizer optimizer;
    posenc_schedule schedule;
    int T, batch, accum, samples;          /* samples = batch * accum of an update                */
    uint64_t per_step, budget;             /* tokens                                              */
    int64_t steps, warmup;
    uint64_t target[LM_TARGETS];           /* rising; none is above the budget                    */
    int targets;
    uint64_t eval_tokens, decay_tokens, memory;                      /* 0: not given              */
    int log, eval, checkpoint;
    double parameters;
} lm_recipe;

static inline int lm__recipe_tokens(kit_args *a, const char *flag, const char *text,
                                    uint64_t *tokens)
{
    *tokens = 0;
    if (!text) return 1;
    *tokens = lm_read_tokens(text);
    return *tokens ? 1 : kit_usage(a, "--%s takes a number of tokens such as 4096, 1500k, 60M or "
                                      "2.4B, not '%.40s'", flag, text);
}

/* "8G", "512M", a number of bytes */
static inline int lm__recipe_memory(kit_args *a, const char *text, uint64_t *bytes)
{
    *bytes = 0;
    if (!text) return 1;
    *bytes = lm_read_tokens(text);
    return *bytes ? 1 : kit_usage(a, "--memory takes a size such as 8G or 512M, not '%.40s'", text);
}

static inline int lm__recipe_target(kit_args *a, const lm_recipe *p, const char *word,
                                    uint64_t target)
{
    if (p->targets == LM_TARGETS)
        return kit_usage(a, "--target-budgets takes %d at most", LM_TARGETS);
    if (p->targets && target <= p->target[p->targets - 1])
        return kit_usage(a, "--target-budgets wants each larger than the one before, not %s", word);
    if (target > p->budget)
        return kit_usage(a, "--target-budgets has %s, but the run ends after %" PRIu64 " tokens",
                         word, p->budget);
    if (target / p->per_step < 2)
        return kit_usage(a, "--target-budgets has %s, less than two updates of %" PRIu64 " tokens",
                         word, p->per_step);
    return 1;
}

static inline int lm__recipe_targets(kit_args *a, const lm_settings *s, lm_recipe *p)
{
    const char *at = s->target_budgets;
    int wsd = strcmp(s->schedule, "wsd") == 0;
    p->targets = 0;
    if (!at && p->size.published && wsd && p->steps >= LM_BRANCH_LEAST)
        p->target[p->targets++] = p->budget / 2;
    if (!at) return 1;
    if (!wsd)
        return kit_usage(a, "--target-budgets branches before a decay, which --schedule wsd has");
    while (*at) {
        char word[40];
        size_t n = strcspn(at, ",");
        uint64_t target = 0;
        snprintf(word, sizeof word, "%.*s", (int)(n < 39 ? n : 39), at);
        if (!lm__recipe_tokens(a, "target-budgets", word, &target)
            || !lm__recipe_target(a, p, word, target)) return 0;
        p->target[p->targets++] = target;
        at += n + (at[n] == ',');
    }
    return 1;
}

static inline int lm__recipe_model(kit_args *a, const lm_settings *s, lm_recipe *p)
{
    posenc_spec list[POSENC_SPECS];
    posenc_error said;
    int parts;
    if (posenc_spec_parse(list, &parts, POSENC_SPECS, s->pe, &said) != POSENC_OK)
        return kit_usage(a, "%s", said.text);
    posenc_spec_print(p->pe, sizeof p->pe, list, parts);
    if (s->context) p->size.context = s->context;
    if (s->layers) p->size.layers = s->layers;
    if (s->channels) p->size.channels = s->channels;
    if (s->heads) p->size.heads = s->heads;
    if (s->vocab) p->size.vocab = s->vocab;
    p->T = p->size.context;
    posenc_config c = lm_size_config(&p->size, p->pe);
    c.qk_norm = POSENC_QK_NORM_BEFORE;
    if (strcmp(s->qk_norm, "off") == 0) c.qk_norm = POSENC_QK_NORM_OFF;
    if (strcmp(s->qk_norm, "after-rope") == 0) c.qk_norm = POSENC_QK_NORM_AFTER;
    c.dropout_embedding = c.dropout_attention = c.dropout_branch = c.dropout_hidden = s->dropout;
    c.precision = strcmp(s->precision, "bf16") == 0 ? POSENC_BF16 : POSENC_FP32;
    c.seed = s->seed;
    c.threads = s->threads;
    c.batch = p->batch;
    c.recompute = s->recompute;
    p->model = c;
    posenc_bytes bytes;
    if (posenc_model_bytes(&bytes, &c, &said) != POSENC_OK) return kit_usage(a, "%s", said.text);
    p->parameters = lm_parameters(&c);
    return kit_spec_reaches(a, p->pe, p->T);
}

/* how many updates, and how many of them rise and fall */
static inline void lm__recipe_schedule(const lm_settings *s, lm_recipe *p)
{
    static const char *const kind[] = { "constant", "linear", "cosine", "wsd" };
    int scaled = strcmp(s->rule, "scaled") == 0;
    double scale = scaled ? sqrt(p->parameters / 58727680.0) : 1;
    memset(&p->schedule, 0, sizeof p->schedule);
    for (int i = 0; i < 4; i++) if (strcmp(s->schedule, kind[i]) == 0) p->schedule.kind = i;
    p->warmup = s->warmup >= 0 ? s->warmup : (int64_t)(0.03 * (double)p->steps);
    if (s->warmup < 0 && p->warmup > 2000) p->warmup = 2000;
    if (s->warmup < 0 && scaled) p->warmup = (int64_t)(1000 * scale + 0.5);
    p->schedule.peak = s->lr > 0 ? s->lr : scaled ? 6e-4 / scale : p->size.rate;
    p->schedule.floor = s->floor;
    p->schedule.warmup = p->warmup;
}

static inline void lm__recipe_optimizer(const lm_settings *s, lm_recipe *p)
{
    memset(&p->optimizer, 0, sizeof p->optimizer);
    p->optimizer.kind = POSENC_ADAMW;
    p->optimizer.beta1 = 0.9;
    p->optimizer.beta2 = 0.95;
    p->optimizer.decay = s->weight_decay;
    p->optimizer.clip = s->clip;
}

static inline int lm__recipe_budget(kit_args *a, const lm_settings *s, lm_recipe *p)
{
    if (!lm__recipe_tokens(a, "tokens", s->tokens, &p->budget)) return 0;
    if (s->steps && s->tokens)
        return kit_usage(a, "--steps and --tokens both say how long; give one");
    if (!p->budget) p->budget = (uint64_t)p->size.tokens;
    if (s->steps) p->budget = (uint64_t)s->steps * p->per_step;
    p->steps = (int64_t)(p->budget / p->per_step);
    if (p->steps < 1)
        return kit_usage(a, "--tokens %" PRIu64 " is less than one update of %d x %d tokens",
                         p->budget, p->samples, p->T);
    return 1;
}

static inline void lm__recipe_intervals(const lm_settings *s, lm_recipe *p)
{
    int64_t eval = p->steps / 10, file = p->steps / 20;
    p->log = s->log_interval;
    p->eval = s->eval_interval ? s->eval_interval : p->size.published ? 500
            : eval < 25 ? 25 : eval > 500 ? 500 : (int)eval;
    if (file > 1 << 30) file = 1 << 30;
    p->checkpoint = s->checkpoint_interval ? s->checkpoint_interval : file < 25 ? 25 : (int)file;
}

/* 1: the plan is made. 0: leave with a->exit_code, all has been said. */
static inline int lm_recipe_make(lm_recipe *p, kit_args *a, const lm_settings *s)
{
    memset(p, 0, sizeof *p);
    p->size = *lm_size_find(s->size);
    p->batch = s->batch ? s->batch : p->size.batch;
    p->accum = s->accum;
    if ((double)p->batch * p->accum > 1 << 24)
        return kit_usage(a, "an update of %d x %d texts is more than %d", p->accum, p->batch,
                         1 << 24);
    p->samples = p->batch * p->accum;
    if (!lm__recipe_model(a, s, p)) return 0;
    p->per_step = (uint64_t)p->samples * (uint64_t)p->T;
    if (!lm__recipe_budget(a, s, p) || !lm__recipe_targets(a, s, p)
        || !lm__recipe_tokens(a, "eval-tokens", s->eval_tokens, &p->eval_tokens)
        || !lm__recipe_tokens(a, "decay-tokens", s->decay_tokens, &p->decay_tokens)
        || !lm__recipe_memory(a, s->memory, &p->memory)) return 0;
    if (!p->eval_tokens) p->eval_tokens = p->size.published ? 1000000 : 131072;
    lm__recipe_schedule(s, p);
    lm__recipe_optimizer(s, p);
    lm__recipe_intervals(s, p);
    return 1;
}

/* ---- when a decay begins --------------------------------------------------------------------- */

/* Updates of the decay at the end of a budget: its share, at least one if there is any. */
static inline int64_t lm_decay_steps(const lm_recipe *p, double share, uint64_t budget)
{
    int64_t all = (int64_t)(budget / p->per_step);
    int64_t n = (int64_t)((uint64_t)(share * (double)budget) / p->per_step);
    if (share > 0 && n < 1) n = 1;
    return n < all ? n : all;
}

/* The update behind which a budget's decay begins: where a run of that budget would begin it, so
   that a branch is that run, step by step. */
static inline int64_t lm_decay_start(const lm_recipe *p, double share, uint64_t budget)
{
    return (int64_t)(budget / p->per_step) - lm_decay_steps(p, share, budget);
}

/* ---- the resolved config --------------------------------------------------------------------- */

static inline void lm__put_text(kit_text *t, const char *key, const char *v)
{
    if (!v) return;
    kit_put(t, "%s: ", key);
    if (strpbrk(v, "#'\":[]{}, ") && !strchr(v, '"')) kit_put(t, "\"%s\"\n", v);
    else kit_put(t, "%s\n", v);
}

/* with the fewest digits that read back as the same number */
static inline void lm__put_number(kit_text *t, const char *key, double v)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    kit_put(t, "%s: %s\n", key, text);
}

static inline void lm__put_model(kit_text *t, const lm_settings *s, const lm_recipe *p)
{
    const lm_size *preset = lm_size_find(s->size);
    lm__put_text(t, "size", s->size);
    lm__put_text(t, "pe", p->pe);
    kit_put(t, "context: %d\n", p->T);
    if (p->size.layers != preset->layers) kit_put(t, "layers: %d\n", p->size.layers);
    if (p->size.channels != preset->channels) kit_put(t, "channels: %d\n", p->size.channels);
    if (p->size.heads != preset->heads) kit_put(t, "heads: %d\n", p->size.heads);
    if (p->size.vocab != preset->vocab) kit_put(t, "vocab: %d\n", p->size.vocab);
    lm__put_text(t, "qk_norm", s->qk_norm);
    lm__put_number(t, "dropout", s->dropout);
    lm__put_text(t, "precision", s->precision);
    kit_put(t, "recompute: %s\n", s->recompute ? "true" : "false");
    lm__put_text(t, "data", s->data);
    lm__put_text(t, "val", s->val);
}

static inline void lm__put_training(kit_text *t, const lm_settings *s, const lm_recipe *p)
{
    kit_put(t, "tokens: %" PRIu64 "\nbatch_size: %d\ngrad_accum_steps: %d\n", p->budget, p->batch,
            p->accum);
    lm__put_number(t, "lr", p->schedule.peak);
    kit_put(t, "warmup_steps: %" PRId64 "\n", p->warmup);
    lm__put_text(t, "schedule", s->schedule);
    lm__put_number(t, "decay", s->decay);
    lm__put_number(t, "min_lr", s->floor);
    lm__put_number(t, "grad_clip", s->clip);
    lm__put_number(t, "weight_decay", s->weight_decay);
    lm__put_text(t, "decay_on", s->decay_on);
    lm__put_text(t, "loss", s->loss);
    kit_put(t, "seed: %" PRIu64 "\n", s->seed);
    if (p->targets) kit_put_string(t, "target_budgets: [");
    for (int i = 0; i < p->targets; i++)
        kit_put(t, "%s%" PRIu64 "%s", i ? ", " : "", p->target[i], i + 1 < p->targets ? "" : "]\n");
    lm__put_text(t, "branch", s->branch);
}

/* What the run is, as a config file of its own: --config with it is the same run. Memory, threads
   and folders are not part of it. */
static inline void lm_settings_print(kit_text *t, const lm_settings *s, const lm_recipe *p)
{
    kit_put(t, "# lm train: %s, %.0f parameters, %" PRId64 " updates of %" PRIu64 " tokens\n",
            s->size, p->parameters, p->steps, p->per_step);
    lm__put_model(t, s, p);
    lm__put_training(t, s, p);
    kit_put(t, "log_interval: %d\neval_interval: %d\neval_tokens: %" PRIu64 "\n", p->log, p->eval,
            p->eval_tokens);
    kit_put(t, "checkpoint_interval: %d\nkeep: %d\nsave_seconds: %d\ntensorboard: %s\n",
            p->checkpoint, s->keep, s->save_seconds, s->tensorboard ? "true" : "false");
}

#endif
