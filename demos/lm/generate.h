/* lm/generate.h - lm generate: what a model goes on with, byte by byte as it comes

       lm generate results/lm/nano_rope_6.144M_s42 --prompt "It was" --tokens 400

   Once the cache is full, the oldest tokens behind the first are forgotten, a quarter of all at
   a time, where the encoding allows it: positions that entered the embedding cannot be taken out
   again, and generation ends there with a sentence. Include posenc.h first. */
#ifndef LM_GENERATE_H
#define LM_GENERATE_H

#include "lm/checkpoint.h"
#include "lm/letters.h"

enum { LM_PROMPT_MOST = 64 << 20, LM_GENERATE_MOST = 1 << 24 };

typedef struct lm_author {
    const char *path, *prompt, *file;
    int tokens, samples, context, threads, raw, bare, endless;
    posenc_sampling sampling;
    posenc_model *model;
    posenc_cache *cache;
    lm_note note;
    int bytes, eot, slots, forgets;        /* forgets: a full cache can be gone on with           */
    char cannot[256];                      /* why it cannot                                       */
    int *token, length;                    /* the prompt, what begins a text before it            */
    lm_letters letters;
    long made;                             /* new tokens of all samples                           */
    int ended;                             /* the text under way drew the end of the document     */
    double seconds;
} lm_author;

/* ---- output ---------------------------------------------------------------------------------- */

/* 0: nobody reads any more */
static inline int lm__emit(lm_author *w, int token)
{
    kit_text t = { NULL, 0, 0 };
    char byte = (char)token;
    if (!w->bytes) kit_put(&t, "%d ", token);
    else if (w->raw) kit_put_bytes(&t, &byte, 1);
    else lm_letters_put(&w->letters, &t, (unsigned char)token);
    if (t.size) fwrite(t.data, 1, t.size, stdout);
    if (t.size) fflush(stdout);
    kit_text_free(&t);
    return !ferror(stdout);
}

static inline void lm__emit_end(lm_author *w)
{
    kit_text t = { NULL, 0, 0 };
    lm_letters_end(&w->letters, &t);
    kit_put_string(&t, "\n");
    if (!w->raw) fwrite(t.data, 1, t.size, stdout);
    fflush(stdout);
    kit_text_free(&t);
}

static inline int lm__new_token(void *user, int row, int token)
{
    lm_author *w = (lm_author *)user;
    (void)row;
    w->made++;
    w->ended = token == w->eot && !w->endless;
    return !w->ended && lm__emit(w, token) && !kit_stopped();
}

/* ---- the prompt ------------------------------------------------------------------------------ */

/* token numbers with blanks or commas between */
static inline int lm__prompt_numbers(lm_author *w, const char *text, kit_error *why)
{
    int V = posenc_model_config(w->model)->vocab;
    for (const char *at = text; *(at += strspn(at, ", \n\t\r"));) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || v < 0 || v >= V)
            return kit_fail(why,
                            "'%.20s' is not a token from 0 to %d: this model's tokens are no bytes "
                            "(%.16s), and its prompt is their numbers",
                            at, V - 1, w->note.vocabulary);
        w->token[w->length++] = (int)v;
        at = end;
    }
    return 1;
}

static inline int lm__prompt_read(lm_author *w, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    int good = 1;
    if (w->prompt) kit_put_string(&t, w->prompt);
    if (w->file)
        good = kit_read_file(&t, strcmp(w->file, "-") == 0 ? "/dev/stdin" : w->file, LM_PROMPT_MOST,
                             why);
    w->token = (int *)kit_new(t.size + 2, sizeof *w->token);
    if (w->eot >= 0) w->token[w->length++] = w->eot;
    if (good && w->bytes)
        for (size_t i = 0; i < t.size; i++) w->token[w->length++] = (unsigned char)t.data[i];
    else if (good && t.size) good = lm__prompt_numbers(w, t.data, why);
    kit_text_free(&t);
    return good
        && (w->length > 0 || kit_fail(why, "an empty prompt, and nothing that begins a text"));
}

/* What is too long for the cache: its end stays, if what comes later may be forgotten as well. */
static inline int lm__prompt_cut(lm_author *w, kit_error *why)
{
    if (w->length <= w->slots) return 1;
    if (!w->forgets)
        return kit_fail(why, "the prompt has %d tokens, the context %d: %.200s", w->length,
                        w->slots, w->cannot);
    int gone = w->length - w->slots;
    fprintf(stderr, "lm generate: the prompt has %d tokens; its last %d are read\n", w->length,
            w->slots);
    memmove(w->token, w->token + gone, (size_t)w->slots * sizeof *w->token);
    w->length = w->slots;
    return 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* the plan of a sample; each has a seed of its own */
static inline posenc_generation lm__generation(lm_author *w, int sample)
{
    posenc_generation how;
    memset(&how, 0, sizeof how);
    how.sampling = w->sampling;
    how.sampling.seed += (uint64_t)sample;
    how.most = w->tokens;
    how.stop = &w->eot;
    how.stops = w->eot >= 0 && !w->endless;
    how.token = lm__new_token;
    how.user = w;
    if (w->forgets) {
        how.anchor = w->slots > 4;
        how.forget = w->slots > 4 ? w->slots / 4 : 1;
    }
    return how;
}

static inline void lm__echo(lm_author *w, int sample)
{
    if (w->samples > 1 && !w->raw) printf("%s---- %d ----\n", sample ? "\n" : "", sample + 1);
    for (int i = w->eot >= 0 && w->token[0] == w->eot; i < w->length && !w->bare; i++)
        lm__emit(w, w->token[i]);
}

static inline int lm__write_sample(lm_author *w, int sample, kit_error *why)
{
    posenc_generation how = lm__generation(w, sample);
    posenc_error said;
    int count = 0, *out = (int *)kit_new((size_t)w->tokens, sizeof *out);
    double began = kit_seconds();
    memset(&w->letters, 0, sizeof w->letters);
    lm__echo(w, sample);
    posenc_status status = posenc_generate(out, &count, w->model, w->cache, w->token, &w->length,
                                           w->length, &how, &said);
    lm__emit_end(w);
    w->seconds += kit_seconds() - began;
    free(out);
    if (ferror(stdout)) return kit_fail(why, "cannot write the output: %s", strerror(errno));
    if (status == POSENC_FULL && !w->forgets)
        return kit_fail(why, "the context of %d tokens is full after %d new ones, of %d: %.200s",
                        w->slots, count, w->tokens, w->cannot);
    return status == POSENC_OK || kit_fail(why, "%s", said.text);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* An empty cache that forgets nothing says whether it could. */
static inline int lm__author_cache(lm_author *w, kit_error *why)
{
    posenc_error said;
    w->slots = posenc_model_config(w->model)->context;
    if (posenc_cache_create(&w->cache, w->model, 1, w->slots, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    w->forgets = posenc_cache_forget(w->cache, 0, 0, &said) == POSENC_OK;
    if (!w->forgets) snprintf(w->cannot, sizeof w->cannot, "%.250s", said.text);
    return 1;
}

static inline int lm__author_open(lm_author *w, kit_error *why)
{
    if (!lm_model_open(&w->model, &w->note, w->path, w->context, 1, w->threads, why)) return 0;
    w->bytes = strcmp(w->note.vocabulary, "bytes") == 0;
    w->eot = w->bytes ? 0 : strcmp(w->note.vocabulary, "gpt2") == 0 ? 50256 : -1;
    if (w->eot >= posenc_model_config(w->model)->vocab) w->eot = -1;
    if (!lm__prompt_read(w, why) || !lm__author_cache(w, why)) return 0;
    if (!w->bytes)
        fprintf(stderr,
                "lm generate: tokens of this model are no bytes (%s): they come as numbers\n",
                w->note.vocabulary);
    return lm__prompt_cut(w, why);
}

static inline int lm__generate_run(lm_author *w, kit_error *why)
{
    int good = lm__author_open(w, why);
    for (int i = 0; i < w->samples && good && !kit_stopped(); i++)
        good = lm__write_sample(w, i, why);
    if (w->made)
        fprintf(stderr, "%ld tokens in %.2f s, %.0f tokens/s, prompts read as well\n", w->made,
                w->seconds, (double)w->made / w->seconds);
    if (!good) fprintf(stderr, "lm generate: %s\n", why->text);
    posenc_cache_free(w->cache);
    posenc_model_free(w->model);
    free(w->token);
    return !good ? FAILED : kit_stopped() ? STOPPED : DONE;
}

static inline void lm__generate_options(kit_option *o, lm_author *w)
{
    const kit_option table[] = {
        kit_word("prompt", &w->prompt, "TEXT", "to go on from; numbers where tokens are no bytes"),
        kit_word("file", &w->file, "FILE", "the prompt from a file; -: from what is piped in"),
        kit_int("tokens", &w->tokens, 1, LM_GENERATE_MOST, "new ones"),
        kit_real("temperature", &w->sampling.temperature, 0, 100, "0: always the likeliest token"),
        kit_int("top-k", &w->sampling.top_k, 0, 1 << 24, "0: all tokens may be drawn"),
        kit_real("top-p", &w->sampling.top_p, 0, 1,
                 "the likeliest that make up this share; 0, 1: all"),
        kit_real("repetition", &w->sampling.repetition, 0.01, 100,
                 "above 1: tokens that came before are less likely"),
        kit_u64("seed", &w->sampling.seed, "of the draws; sample i has seed + i"),
        kit_int("samples", &w->samples, 1, 10000, "texts, one after the other"),
        kit_int("context", &w->context, 0, 1 << 20, "tokens that are remembered; 0: as trained"),
        kit_switch("endless", &w->endless, "go on behind the end of a document"),
        kit_switch("bare", &w->bare, "do not write the prompt first"),
        kit_switch("raw", &w->raw, "bytes as they are, for a pipe"),
        kit_int("threads", &w->threads, 0, 1024, "0: all cores; changes no token"),
        kit_no_more()
    };
    memcpy(o, table, sizeof table);
}

static inline int lm_generate_main(int argc, char **argv)
{
    lm_author w;
    kit_error why = { "" };
    memset(&w, 0, sizeof w);
    w.tokens = 256;
    w.samples = 1;
    w.sampling.temperature = 0.8;
    w.sampling.top_p = 1;
    w.sampling.repetition = 1;
    w.sampling.seed = 1;
    kit_option options[20];
    lm__generate_options(options, &w);
    kit_args a;
    memset(&a, 0, sizeof a);
    a.program = "lm generate";
    a.summary = "lm generate: go on with a text";
    a.options = options;
    a.operand = "CHECKPOINT";
    a.closing = "  lm generate results/lm/nano_rope_6.144M_s42 --prompt \"It was\" --tokens 400\n"
                "  lm generate final.safetensors --temperature 0 --file question.txt --bare\n"
                "CHECKPOINT is a file, or a run's folder (its best, else final, else latest).";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (a.operands.count != 1)
        return kit_usage(&a, "one checkpoint, or one run's folder, is needed"), a.exit_code;
    if (w.prompt && w.file)
        return kit_usage(&a, "--prompt and --file are two prompts"), a.exit_code;
    w.path = a.operands.item[0];
    kit_catch_stop();
    return lm__generate_run(&w, &why);
}

#endif
