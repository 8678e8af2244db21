/* lm/eval.h - lm eval: perplexity beyond the training length, exact match, keys and needles

       lm eval results/lm/nano_rope_6.144M_s42                everything, with a report
       lm eval final.safetensors --task ppl --contexts 1x,2x,8192 --text book.txt

   Tiers as published: 1 perplexity, 2 tasks with one right answer, 3 passkey and needles. Include
   posenc.h first. */
#ifndef LM_EVAL_H
#define LM_EVAL_H

#include "lm/eval_report.h"

typedef struct lm_eval_settings {
    const char *task, *text, *data, *contexts, *output, *out, *program;
    int tier, threads;
    char folder[KIT_PATH];
} lm_eval_settings;

/* ---- the plan -------------------------------------------------------------------------------- */

static inline int lm__tier_tasks(int tier)
{
    static const int tasks[4] = { LM_ASK_ALL, LM_ASK_PPL, LM_ASK_EXACT,
                                  LM_ASK_PASSKEY | LM_ASK_NIAH };
    return tasks[tier];
}

static inline int lm__task_tasks(const char *task)
{
    if (strcmp(task, "ppl") == 0) return LM_ASK_PPL;
    if (strcmp(task, "exact") == 0 || strcmp(task, "algorithmic") == 0) return LM_ASK_EXACT;
    if (strcmp(task, "passkey") == 0) return LM_ASK_PASSKEY;
    if (strcmp(task, "niah") == 0) return LM_ASK_NIAH;
    return LM_ASK_ALL;
}

static inline int lm__passkey_samples(const lm_exam *x)        /* of each depth */
{
    return ((x->samples ? x->samples : x->quick ? 15 : 100) + LM_SPOTS - 1) / LM_SPOTS;
}

static inline int lm__niah_samples(const lm_exam *x)
{
    return x->samples ? x->samples : x->quick ? 4 : 20;
}

/* tokens that go through the model, more or less: what the bar counts */
static inline long lm__ppl_work(const lm_exam *x) { return 2 * x->tokens; }
static inline long lm__exact_work(const lm_exam *x) { return (long)x->samples * x->trained; }
static inline long lm__needles_work(int depths, int samples, int T)
{
    return (long)depths * samples * T;
}

static inline long lm__eval_work(const lm_exam *x, const lm_scores *s, int rows)
{
    long work = 0;
    for (int i = 0; i < x->contexts; i++) {
        int T = x->context[i];
        if (s->asked & LM_ASK_PPL) work += lm__ppl_work(x);
        if (s->asked & LM_ASK_PASSKEY)
            work += LM_KEYS * lm__needles_work(LM_SPOTS, lm__passkey_samples(x), T);
        if (s->asked & LM_ASK_NIAH) work += lm__needles_work(LM_DEPTHS, lm__niah_samples(x), T);
    }
    return work + rows * lm__exact_work(x);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static inline int lm__eval_ppl(lm_scores *s, lm_exam *x, kit_error *why)
{
    for (int i = 0; i < x->contexts && !kit_stopped(); i++) {
        if (!lm_ppl_measure(&s->ppl[i], x, x->context[i], lm__ppl_work(x), why)) return 0;
        x->before += lm__ppl_work(x);
    }
    return 1;
}

static inline int lm__eval_exact(lm_scores *s, lm_exam *x, const lm_examples *c, kit_error *why)
{
    for (int i = 0; i < s->exacts && !kit_stopped(); i++) {
        if (!lm_exact_ask(&s->exact[i], x, c, lm__exact_work(x), why)) return 0;
        x->before += lm__exact_work(x);
    }
    return 1;
}

static inline int lm__eval_needles(lm_needles *all, lm_exam *x, int wording, int depths,
                                   int samples, const char *name, kit_error *why)
{
    for (int i = 0; i < x->contexts && !kit_stopped(); i++) {
        long work = lm__needles_work(depths, samples, x->context[i]);
        memset(&all[i], 0, sizeof all[i]);
        all[i].context = x->context[i];
        all[i].depths = depths;
        all[i].total = samples;
        if (!lm_needles_ask(&all[i], x, wording, work, name, why)) return 0;
        x->before += work;
    }
    return 1;
}

/* The wording of the heat map: what was asked for, or the one in which more passkeys were found
   at the first length. */
static inline int lm__niah_wording(const lm_scores *s, const lm_exam *x)
{
    for (int w = 0; w < LM_KEYS; w++)
        if (strcmp(x->wording, lm_wording_name[w]) == 0) return w;
    if (!(s->asked & LM_ASK_PASSKEY)) return LM_WORDS_KEY;
    return lm_needles_share(&s->passkey[LM_WORDS_CODE][0]) > lm_needles_share(&s->passkey[0][0]);
}

static inline int lm__eval_keys(lm_scores *s, lm_exam *x, kit_error *why)
{
    int n = lm__passkey_samples(x);
    for (int w = 0; w < LM_KEYS && s->asked & LM_ASK_PASSKEY; w++)
        if (!lm__eval_needles(s->passkey[w], x, w, LM_SPOTS, n, "passkey", why)) return 0;
    s->wording = lm__niah_wording(s, x);
    if (!(s->asked & LM_ASK_NIAH)) return 1;
    return lm__eval_needles(s->niah, x, s->wording, LM_DEPTHS, lm__niah_samples(x), "needle", why);
}

/* All that s->asked says. What a model's encoding or vocabulary cannot is said in the scores. */
static inline int lm_eval_ask(lm_scores *s, lm_exam *x, kit_error *why)
{
    lm_examples c = { NULL, 0, 0 };
    double began = kit_seconds();
    int good = 1, kept = x->samples, exact = x->bytes && s->asked & LM_ASK_EXACT;
    if (!x->bytes)
        snprintf(s->no_tasks, LM_WHY,
                 "The tokens of this model are no bytes (%.16s): tasks, keys and "
                 "needles are texts, and only perplexity on shards (--data) is measured.",
                 x->note.vocabulary);
    x->samples = kept ? kept : x->quick ? 16 : 100;
    if (exact && x->examples) good = lm_exact_read(&c, x, x->examples, why);
    else if (exact) lm_exact_make(&c, x);
    if (good && exact) s->exacts = lm_exact_rows(s->exact, &c, x);
    long work = lm__eval_work(x, s, s->exacts);
    x->bar = kit_progress_begin("lm eval", work, 0, x->quiet);
    x->before = 0;
    if (good && s->asked & LM_ASK_PPL) good = lm__eval_ppl(s, x, why);
    if (good && exact) good = lm__eval_exact(s, x, &c, why);
    x->samples = kept;
    if (good && x->bytes) good = lm__eval_keys(s, x, why);
    kit_progress_clear(&x->bar);
    lm_examples_free(&c);
    s->seconds = kit_seconds() - began;
    return good;
}

/* ---- where it goes --------------------------------------------------------------------------- */

/* <run>/eval for a run's folder; results/lm/eval_<name of the file> for a file */
static inline int lm__eval_folder(lm_eval_settings *s, const char *path, kit_error *why)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    int length = (int)(dot && dot > name ? dot - name : (long)strlen(name)), n;
    if (s->out) n = snprintf(s->folder, sizeof s->folder, "%s", s->out);
    else if (lm__is_folder(path)) n = snprintf(s->folder, sizeof s->folder, "%s/eval", path);
    else n = snprintf(s->folder, sizeof s->folder, "results/lm/eval_%.*s", length, name);
    if (n < 0 || n >= KIT_PATH)
        return kit_fail(why, "the path %.40s... is longer than %d bytes", s->folder, KIT_PATH - 1);
    return kit_make_folders(s->folder, why);
}

static inline int lm__eval_save(const lm_eval_settings *set, const lm_exam *x, const lm_scores *s,
                                kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    lm_eval_json(&t, x, s);
    int good = set->output ? kit_save(set->output, &t, why)
                           : kit_save_in(set->folder, "eval.json", &t, why);
    kit_text_free(&t);
    return good && lm_eval_report(x, s, set->folder, why);
}

static inline int lm__eval_run(lm_eval_settings *set, lm_exam *x, lm_scores *s, kit_error *why)
{
    if (!lm__eval_folder(set, x->path, why) || !lm_exam_open(x, x->path, set->threads, why)
        || !lm_contexts_read(x, set->contexts, why)
        || !lm_text_open(x, set->text, set->data, NULL, set->program, why)
        || !lm_eval_ask(s, x, why))
        return FAILED;
    if (kit_stopped()) return STOPPED;
    lm_eval_print(x, s);
    return lm__eval_save(set, x, s, why) ? DONE : FAILED;
}

static inline int lm__eval_finish(int code, const lm_eval_settings *set, const kit_error *why)
{
    if (code == FAILED) fprintf(stderr, "lm eval: %s\n", why->text);
    if (code == STOPPED) fprintf(stderr, "lm eval: stopped, nothing was written\n");
    if (code == DONE)
        printf("\nnumbers: %s%s\nreport: %s/report.html\n", set->output ? set->output : set->folder,
               set->output ? "" : "/eval.json", set->folder);
    return fflush(stdout) == 0 && !ferror(stdout) ? code : FAILED;
}

/* ---- the command line ------------------------------------------------------------------------ */

static inline int lm__eval_check(kit_args *a, lm_eval_settings *set, lm_exam *x, lm_scores *s)
{
    long tokens[2] = { 65536, 16384 };
    if (a->operands.count != 1)
        return kit_usage(a, "one checkpoint, or one run's folder, is needed");
    if (set->text && set->data)
        return kit_usage(a, "--text and --data are two texts; one is measured");
    x->path = a->operands.item[0];
    s->asked = lm__tier_tasks(set->tier) & lm__task_tasks(set->task);
    if (!s->asked)
        return kit_usage(a, "--task %s is not of tier %d: 1 ppl, 2 exact, 3 passkey and niah",
                         set->task, set->tier);
    if (!kit_given(a, "max-tokens")) x->max_tokens = tokens[x->quick];
    if (x->quick && !kit_given(a, "contexts")) set->contexts = "1x,2x,4x";
    return 1;
}

static inline void lm__eval_options(kit_option *o, lm_eval_settings *set, lm_exam *x,
                                    int *max_tokens)
{
    const kit_option table[] = {
        kit_choice("task", &set->task, "ppl|exact|algorithmic|passkey|niah|all",
                   "algorithmic is another word for exact"),
        kit_int("tier", &set->tier, 0, 3, "1: ppl, 2: exact, 3: passkey and niah; 0: all"),
        kit_word("text", &set->text, "FILE",
                 "to measure on: plain, or .jsonl with \"text\" [what training held out]"),
        kit_word("data", &set->data, "PATH", "instead: what lm train --data PATH holds out"),
        kit_word("examples", &x->examples, "FILE",
                 "questions of lm tasks, .jsonl [made on the fly]"),
        kit_word("contexts", &set->contexts, "LIST", "lengths, or multiples of the trained one"),
        kit_int("samples", &x->samples, 0, 100000,
                "questions of each task and split, of each context's passkeys, of each needle's "
                "cell; "
                "0: 100, 100, 20"),
        kit_int("few-shot", &x->few, 0, LM_SHOTS,
                "examples before a question, in further rows; 0: none"),
        kit_int("max-tokens", max_tokens, 0, INT32_MAX - 1, "of the text; 0: all"),
        kit_choice("wording", &x->wording, "auto|key|code",
                   "of niah: KEY:40712, or The code is 40712; auto: where more passkeys were "
                   "found"),
        kit_word("output", &set->output, "FILE", "the numbers [eval.json in --out]"),
        kit_word("out", &set->out, "DIR", "[<run>/eval, or results/lm/eval_<name>]"),
        kit_switch("verbose", &x->verbose, "print every prompt, what was expected, what came"),
        kit_u64("seed", &x->seed, "of the questions"),
        kit_int("threads", &set->threads, 0, 1024, "0: all cores; changes no figure but seconds"),
        kit_switch("quick", &x->quick, "1x, 2x, 4x and few questions, for a first look"),
        kit_switch("quiet", &x->quiet, "no progress bar"),
        kit_no_more()
    };
    memcpy(o, table, sizeof table);
}

static inline int lm_eval_main(int argc, char **argv)
{
    lm_eval_settings set;
    lm_exam x;
    kit_error why = { "" };
    memset(&set, 0, sizeof set);
    memset(&x, 0, sizeof x);
    lm_scores *s = (lm_scores *)kit_new(1, sizeof *s);
    int max_tokens = 65536;
    set.task = "all";
    set.contexts = "1x,2x,4x,8x";
    set.program = argv[0];
    x.wording = "auto";
    x.few = 3;
    x.seed = 123;
    kit_option options[24];
    lm__eval_options(options, &set, &x, &max_tokens);
    kit_args a;
    memset(&a, 0, sizeof a);
    a.program = "lm eval";
    a.summary = "lm eval: perplexity past the training length, exact match, passkeys, needles";
    a.options = options;
    a.operand = "CHECKPOINT";
    a.closing = "  lm eval results/lm/nano_rope_6.144M_s42\n"
                "  lm eval final.safetensors --task ppl --contexts 1x,2x,8192 --text book.txt\n"
                "  lm eval RUN --tier 2 --examples eval.jsonl --few-shot 0 --verbose\n"
                "CHECKPOINT is a file, or a run's folder (its best, else final, else latest).";
    int code = kit_args_read(&a, argc, argv);
    x.max_tokens = max_tokens;
    if (!code || !lm__eval_check(&a, &set, &x, s)) { free(s); return a.exit_code; }
    kit_catch_stop();
    code = lm__eval_run(&set, &x, s, &why);
    lm_exam_close(&x);
    free(s);
    return lm__eval_finish(code, &set, &why);
}

#endif
