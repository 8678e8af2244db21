/* lm/compare.h - lm compare: several encodings under one budget

       lm compare --pe "rope none alibi" --seeds 3 --out results/lm/mine
       lm compare --pe "rope none alibi" --seeds 3 --out results/lm/mine --resume

   Each encoding and seed is a run of `lm train` in a process of its own, so that one that fails,
   or takes all the memory, does not take the others along. Then its perplexity at multiples of
   the training length is measured, and the figures are kept in <out>/runs. With --resume what
   has figures is not done again, and what was under way goes on from its last state, also after
   kill -9. Include posenc.h first. */
#ifndef LM_COMPARE_H
#define LM_COMPARE_H

#include "kit/csv.h"
#include "lm/eval_report.h"
#include "lm/sizes.h"
#include <sys/wait.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { LM_COMPARE_SEEDS = 16, LM_ARGUMENTS = 64, LM_COMPARE_NUMBERS = 2 + LM_CONTEXTS };
enum { LM_PARAMETERS, LM_SPEED, LM_BITS };                /* where a trial's numbers stand        */

typedef struct lm_compare {
    kit_list pe;
    spec_text spec[KIT_LIST_ROOM];
    int specs, seeds, resume, quick, quiet, threads, max_tokens;
    uint64_t seed;
    const char *size, *tokens, *data, *val, *contexts, *out, *train, *program;
    int context[LM_CONTEXTS], columns;     /* known once a model was opened                       */
    int trained, bytes;
    double *value;                         /* (specs, seeds, LM_COMPARE_NUMBERS)                  */
    char (*failed)[LM_WHY];                /* (specs, seeds) "": it has figures                   */
    kit_lab lab;
} lm_compare;

static inline double *lm_compare_numbers(const lm_compare *c, int spec, int seed)
{
    return c->value + (size_t)(spec * c->seeds + seed) * LM_COMPARE_NUMBERS;
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* what decides the figures of a trial */
static inline void lm__compare_settings(kit_text *t, const lm_compare *c, int trial)
{
    kit_put(t, "--pe %s --seed %" PRIu64 " --size %s --tokens %s --data %s --val %s --contexts %s "
               "--max-tokens %d --train %s", c->spec[trial / c->seeds],
            c->seed + (uint64_t)(trial % c->seeds), c->size, c->tokens ? c->tokens : "preset",
            c->data ? c->data : "corpus", c->val ? c->val : "held-out", c->contexts, c->max_tokens,
            c->train ? c->train : "-");
}

/* settings: filled in, to be freed */
static inline kit_trial lm__compare_trial(const lm_compare *c, int trial, kit_text *settings)
{
    kit_trial t;
    char slug[128];
    memset(&t, 0, sizeof t);
    kit_spec_slug(slug, sizeof slug, c->spec[trial / c->seeds]);
    snprintf(t.name, sizeof t.name, "%s-%s-s%" PRIu64, c->size, slug,
             c->seed + (uint64_t)(trial % c->seeds));
    lm__compare_settings(settings, c, trial);
    t.settings = settings->data;
    t.value = c->value + (size_t)trial * LM_COMPARE_NUMBERS;
    t.n = LM_COMPARE_NUMBERS;
    return t;
}

static inline int lm__compare_folder(char folder[KIT_PATH], const lm_compare *c, const kit_trial *t,
                                     kit_error *why)
{
    char name[224];
    snprintf(name, sizeof name, "runs/%s", t->name);
    return kit_join(folder, c->out, name, why);
}

/* ---- training, in a process of its own ------------------------------------------------------- */

typedef struct lm__command {
    char *word[LM_ARGUMENTS];
    int words;
    kit_text room[LM_ARGUMENTS];
} lm__command;

static inline void lm__command_word(lm__command *m, const char *word)
{
    if (m->words == LM_ARGUMENTS - 1) return;
    kit_put_string(&m->room[m->words], word);
    m->word[m->words] = m->room[m->words].data;
    m->words++;
}

static inline void lm__command_flag(lm__command *m, const char *flag, const char *value)
{
    if (!value) return;
    lm__command_word(m, flag);
    lm__command_word(m, value);
}

static inline void lm__command_free(lm__command *m)
{
    for (int i = 0; i < m->words; i++) kit_text_free(&m->room[i]);
}

/* "--lr 1e-3 --batch-size 8", as somebody wrote it */
static inline void lm__command_more(lm__command *m, const char *text)
{
    for (; text && *(text += strspn(text, " ")); text += strcspn(text, " ")) {
        char word[512];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, " "), text);
        lm__command_word(m, word);
    }
}

static inline void lm__compare_command(lm__command *m, const lm_compare *c, int trial,
                                       const char *folder)
{
    char seed[24], threads[16];
    memset(m, 0, sizeof *m);
    snprintf(seed, sizeof seed, "%" PRIu64, c->seed + (uint64_t)(trial % c->seeds));
    snprintf(threads, sizeof threads, "%d", c->threads);
    lm__command_word(m, c->program);
    lm__command_word(m, "train");
    lm__command_flag(m, "--size", c->size);
    lm__command_flag(m, "--pe", c->spec[trial / c->seeds]);
    lm__command_flag(m, "--seed", seed);
    lm__command_flag(m, "--tokens", c->tokens);
    lm__command_flag(m, "--data", c->data);
    lm__command_flag(m, "--val", c->val);
    lm__command_flag(m, "--checkpoint-dir", folder);
    lm__command_flag(m, "--threads", threads);
    lm__command_flag(m, "--branch", "off");
    lm__command_flag(m, "--eval-tokens", "16384");         /* the figures are measured afterwards */
    if (c->resume) lm__command_flag(m, "--resume", "auto");
    else lm__command_word(m, "--overwrite");
    if (c->quiet) lm__command_word(m, "--quiet");
    lm__command_more(m, c->train);
}

/* A child that outlives us would write where the next `lm compare --resume` trains: where the
   system can, it ends with us. What it prints goes to stderr: stdout is for the table. */
static inline void lm__become(char *const *word)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(2, 1);
    execv("/proc/self/exe", word);
#else
    dup2(2, 1);
#endif
    execvp(word[0], word);
    _exit(127);
}

/* Its exit code; 128 and more: a signal ended it. Ctrl-C reaches the child as well; a stop that was
   sent to us alone is passed on. */
static inline int lm__child_wait(pid_t child)
{
    int status = 0, told = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        if (kit_stopped() && !told) { kill(child, SIGTERM); told = 1; }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int lm__compare_train(const lm_compare *c, int trial, const char *folder,
                                    kit_error *why)
{
    lm__command m;
    lm__compare_command(&m, c, trial, folder);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) lm__become(m.word);
    lm__command_free(&m);
    if (child < 0) return kit_fail(why, "cannot start lm train: %s", strerror(errno)), FAILED;
    int code = lm__child_wait(child);
    if (kit_stopped() || code == STOPPED) return STOPPED;
    if (code != 0)
        kit_fail(why, "lm train ended with %s %d; what it said stands above",
                 code < 128 ? "code" : "signal", code < 128 ? code : code - 128);
    return code ? FAILED : DONE;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static inline int lm__compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The middle one of all train/tokens_per_sec in metrics.jsonl, NaN when there is none: a run
   that was stopped and went on has idle time between its lines, but not in them. */
static inline double lm_run_speed(const char *folder)
{
    char path[KIT_PATH];
    kit_text file = { NULL, 0, 0 };
    kit_error unsaid;
    double speed[512], middle = NAN;
    int n = 0;
    if (kit_join(path, folder, "metrics.jsonl", &unsaid))
        kit_read_file(&file, path, KIT_CORPUS_MOST, &unsaid);
    for (const char *at = file.data; at && *at && n < 512;
         at += strcspn(at, "\n"), at += *at == '\n') {
        kit_json d;
        if (!kit_json_read(&d, path, at, strcspn(at, "\n"), 0, &unsaid)) continue;
        const kit_json_node *v = kit_json_find(d.node, "train/tokens_per_sec");
        if (v && kit_json_to_real(v, &speed[n])) n++;
        kit_json_free(&d);
    }
    kit_text_free(&file);
    if (n) qsort(speed, (size_t)n, sizeof *speed, lm__compare_reals);
    if (n) middle = speed[n / 2];
    return middle;
}

/* lengths and their count; the same for all, since all are of one size */
static inline int lm__compare_exam(lm_exam *x, lm_compare *c, const char *folder, kit_error *why)
{
    char path[KIT_PATH];
    x->max_tokens = c->max_tokens;
    x->quiet = 1;
    if (!kit_join(path, folder, "final.safetensors", why)) return 0;
    if (!lm_exam_open(x, kit_exists(path) ? path : folder, c->threads, why)
        || !lm_contexts_read(x, c->contexts, why))
        return 0;
    c->trained = x->trained;
    c->bytes = x->bytes;
    c->columns = x->contexts;
    memcpy(c->context, x->context, sizeof c->context);
    return 1;
}

static inline int lm__compare_measure(lm_compare *c, double *value, const char *folder,
                                      kit_error *why)
{
    lm_exam x;
    lm_ppl p;
    memset(&x, 0, sizeof x);
    for (int i = 0; i < LM_COMPARE_NUMBERS; i++) value[i] = NAN;
    int good = lm__compare_exam(&x, c, folder, why)
            && lm_text_open(&x, NULL, c->data, c->val, c->program, why);
    if (good) value[LM_PARAMETERS] = (double)posenc_model_numbers(x.model);
    value[LM_SPEED] = lm_run_speed(folder);
    for (int i = 0; good && i < x.contexts && !kit_stopped(); i++) {
        good = lm_ppl_measure(&p, &x, x.context[i], 1, why);
        value[LM_BITS + i] = lm_ppl_bits(&p);
    }
    lm_exam_close(&x);
    return good;
}

/* ---- running --------------------------------------------------------------------------------- */

/* A trial whose training fails is noted and leaves the others alone. */
static inline int lm__compare_do(lm_compare *c, int trial, const kit_trial *t, kit_error *why)
{
    char folder[KIT_PATH];
    if (!lm__compare_folder(folder, c, t, why)) return FAILED;
    int code = lm__compare_train(c, trial, folder, why);
    if (code == DONE && !lm__compare_measure(c, t->value, folder, why)) code = FAILED;
    if (code == DONE && kit_stopped()) code = STOPPED;
    if (code == DONE) return kit_trial_save(t, &c->lab, why) ? DONE : FAILED;
    for (int i = 0; i < LM_COMPARE_NUMBERS; i++) t->value[i] = NAN;
    if (code == STOPPED) return STOPPED;
    snprintf(c->failed[trial], LM_WHY, "%.300s", why->text);
    fprintf(stderr, "lm compare: %s: %s\n", t->name, why->text);
    return DONE;
}

static inline int lm__compare_run_one(lm_compare *c, int trial, double began, int *fresh,
                                      kit_error *why)
{
    kit_text settings = { NULL, 0, 0 };
    char left[32] = "?";
    kit_trial t = lm__compare_trial(c, trial, &settings);
    int all = c->specs * c->seeds, there = kit_trial_read(&t, &c->lab, why), code = DONE;
    if (*fresh)
        kit_say_seconds(left, sizeof left, (kit_seconds() - began) / *fresh * (all - trial));
    if (there < 0) code = FAILED;
    if (there == 0) {
        if (!c->quiet)
            fprintf(stderr, "lm compare: %d of %d, %s%s%s\n", trial + 1, all, t.name,
                    *fresh ? ", time left: " : "", *fresh ? left : "");
        code = lm__compare_do(c, trial, &t, why);
        ++*fresh;
    }
    kit_text_free(&settings);
    return code;
}

static inline int lm__compare_clear(lm_compare *c, kit_error *why)
{
    int good = 1;
    for (int i = 0; i < c->specs * c->seeds && good; i++) {
        kit_text settings = { NULL, 0, 0 };
        kit_trial t = lm__compare_trial(c, i, &settings);
        good = kit_trial_clear(&t, &c->lab, why);
        kit_text_free(&settings);
    }
    return good;
}

/* The lengths of trials that were all done before. */
static inline int lm__compare_lengths(lm_compare *c, kit_error *why)
{
    for (int i = 0; i < c->specs * c->seeds && c->columns == 0; i++) {
        char folder[KIT_PATH];
        lm_exam x;
        kit_text settings = { NULL, 0, 0 };
        kit_trial t = lm__compare_trial(c, i, &settings);
        memset(&x, 0, sizeof x);
        if (lm__compare_folder(folder, c, &t, why)) lm__compare_exam(&x, c, folder, why);
        lm_exam_close(&x);
        kit_text_free(&settings);
    }
    return c->columns > 0;
}

static inline int lm__compare_run(lm_compare *c, kit_error *why)
{
    double began = kit_seconds();
    int code = lm__compare_clear(c, why) ? DONE : FAILED, fresh = 0;
    c->lab.resume = 1;                     /* what is there now is of this run, or was asked for  */
    for (int i = 0; i < c->specs * c->seeds && code == DONE; i++)
        code = kit_stopped() ? STOPPED : lm__compare_run_one(c, i, began, &fresh, why);
    if (code == DONE && !lm__compare_lengths(c, why)) code = FAILED;
    return code;
}

/* ---- what came out --------------------------------------------------------------------------- */

typedef struct lm_range { double mean, low, high; int n; } lm_range;

/* of the seeds that have this number */
static inline lm_range lm_compare_spread(const lm_compare *c, int spec, int number)
{
    lm_range s = { 0, HUGE_VAL, -HUGE_VAL, 0 };
    for (int k = 0; k < c->seeds; k++) {
        double v = lm_compare_numbers(c, spec, k)[number];
        if (!isfinite(v)) continue;
        s.mean += v;
        s.low = v < s.low ? v : s.low;
        s.high = v > s.high ? v : s.high;
        s.n++;
    }
    s.mean = s.n ? s.mean / s.n : NAN;
    return s;
}

/* what an empty cell means: its trials failed, or the encoding cannot read so far */
static inline const char *lm__compare_empty(const lm_compare *c, int spec)
{
    for (int k = 0; k < c->seeds; k++)
        if (!c->failed[spec * c->seeds + k][0]) return "cannot";
    return "failed";
}

static inline void lm__compare_cell(kit_cells *cells, int row, int col, const lm_range *s,
                                    const char *empty)
{
    if (s->n == 0) kit_cells_put(cells, row, col, "%s", empty);
    else if (s->n == 1) kit_cells_put(cells, row, col, "%.3f", s->mean);
    else kit_cells_put(cells, row, col, "%.3f (%.3f..%.3f)", s->mean, s->low, s->high);
}

static inline void lm__compare_row(kit_cells *cells, const lm_compare *c, int e)
{
    char count[32];
    lm_range parameters = lm_compare_spread(c, e, LM_PARAMETERS);
    lm_range speed = lm_compare_spread(c, e, LM_SPEED);
    const char *empty = lm__compare_empty(c, e);
    kit_say_count(count, parameters.n ? (size_t)parameters.mean : 0);
    kit_cells_put(cells, e + 1, 0, "%.200s", c->spec[e]);
    kit_cells_put(cells, e + 1, 1, "%s", parameters.n ? count : empty);
    kit_cells_put(cells, e + 1, 2, speed.n ? "%.0f" : "-", speed.mean);
    for (int i = 0; i < c->columns; i++) {
        lm_range s = lm_compare_spread(c, e, LM_BITS + i);
        lm__compare_cell(cells, e + 1, 3 + i, &s, empty);
    }
}

static inline kit_cells lm__compare_cells(const lm_compare *c)
{
    kit_cells cells = kit_cells_new(c->specs + 1, 3 + c->columns);
    kit_cells_put(&cells, 0, 0, "encoding");
    kit_cells_put(&cells, 0, 1, "parameters");
    kit_cells_put(&cells, 0, 2, "tokens/s");
    for (int i = 0; i < c->columns; i++)
        kit_cells_put(&cells, 0, 3 + i, "%d (%.4gx)", c->context[i],
                      (double)c->context[i] / c->trained);
    for (int e = 0; e < c->specs; e++) lm__compare_row(&cells, c, e);
    return cells;
}

static inline int lm__compare_csv(const lm_compare *c, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,seed,parameters,tokens_per_second,context,bits");
    for (int i = 0; i < c->specs * c->seeds * c->columns; i++) {
        int trial = i / c->columns;
        const double *v = c->value + (size_t)trial * LM_COMPARE_NUMBERS;
        kit_csv_text(&t, c->spec[trial / c->seeds]);
        kit_csv_u64(&t, c->seed + (uint64_t)(trial % c->seeds));
        kit_csv_real(&t, v[LM_PARAMETERS], 0);
        kit_csv_real(&t, v[LM_SPEED], 0);
        kit_csv_int(&t, c->context[i % c->columns]);
        kit_csv_real(&t, v[LM_BITS + i % c->columns], 5);
        kit_csv_end(&t);
    }
    int good = kit_save_in(c->out, "compare.csv", &t, why);
    kit_text_free(&t);
    return good;
}

static inline int lm__compare_figure(kit_report *p, const lm_compare *c, kit_error *why)
{
    kit_text svg = { NULL, 0, 0 };
    kit_chart chart;
    double context[LM_CONTEXTS];
    kit_series *line = (kit_series *)kit_new((size_t)c->specs, sizeof *line);
    double *bits = (double *)kit_new((size_t)(c->specs * c->columns), sizeof *bits);
    for (int i = 0; i < c->columns; i++) context[i] = c->context[i];
    for (int e = 0; e < c->specs; e++) {
        kit_series one = { c->spec[e], context, bits + e * c->columns, c->columns,
                           strcmp(c->spec[e], "none") == 0 };
        line[e] = one;
        for (int i = 0; i < c->columns; i++)
            bits[e * c->columns + i] = lm_compare_spread(c, e, LM_BITS + i).mean;
    }
    memset(&chart, 0, sizeof chart);
    chart.title = c->bytes ? "Bits per byte by context" : "Bits per token by context";
    chart.x_label = "tokens of a window";
    chart.y_label = "bits";
    chart.series = line;
    chart.count = c->specs;
    chart.log_x = 2;
    kit_chart_svg(&svg, &chart);
    int good = lm__save_figure(p, &svg, c->out, "compare.svg", chart.title,
                               "Means over seeds. A line that ends: the encoding reads no further.",
                               why);
    free(line);
    free(bits);
    return good;
}

/* Why cells are empty: the library's own sentence for each encoding, and what failed. */
static inline void lm__compare_reasons(kit_report *p, const lm_compare *c)
{
    for (int e = 0; e < c->specs; e++) {
        const lm_size *size = lm_size_find(c->size);
        posenc_config config = lm_size_config(size, c->spec[e]);
        kit_error why;
        config.context = c->trained;
        for (int i = 0; i < c->columns; i++)
            if (!kit_reaches(&config, c->context[i], &why)) {
                kit_report_text(p, "`%s` cannot read %d tokens: %s.", c->spec[e], c->context[i],
                                why.text);
                break;
            }
    }
    for (int i = 0; i < c->specs * c->seeds; i++)
        if (c->failed[i][0])
            kit_report_text(p, "`%s`, seed %" PRIu64 ", **failed**: %s.", c->spec[i / c->seeds],
                            c->seed + (uint64_t)(i % c->seeds), c->failed[i]);
}

static inline void lm__compare_again(kit_report *p, const lm_compare *c)
{
    kit_text t = { NULL, 0, 0 };
    kit_put(&t, "lm compare --pe \"");
    for (int e = 0; e < c->specs; e++) kit_put(&t, "%s%s", e ? " " : "", c->spec[e]);
    kit_put(&t, "\" --size %s --seed %" PRIu64 " --seeds %d --contexts %s --max-tokens %d", c->size,
            c->seed, c->seeds, c->contexts, c->max_tokens);
    if (c->tokens) kit_put(&t, " --tokens %s", c->tokens);
    if (c->data) kit_put(&t, " --data \"%s\"", c->data);
    if (c->val) kit_put(&t, " --val \"%s\"", c->val);
    if (c->train) kit_put(&t, " --train=\"%s\"", c->train);
    kit_report_heading(p, "The same figures again");
    kit_report_code(p, t.data);
    kit_text_free(&t);
}

static inline int lm__compare_report(const lm_compare *c, kit_error *why)
{
    kit_report p;
    kit_error ignored;
    kit_cells cells = lm__compare_cells(c);
    kit_report_begin(&p, "Encodings under one budget");
    kit_report_text(
        &p,
        "Size `%s`, %s tokens each, %d seed%s from %" PRIu64 " on, trained on windows of %d "
        "tokens. The columns are bits per %s%s of one held-out text, read in sliding "
        "windows of so many tokens: past %d every place is one that no model of the table "
        "was trained on. tokens/s is the middle figure of training on this machine.",
        c->size, c->tokens ? c->tokens : "the preset's", c->seeds, c->seeds > 1 ? "s" : "", c->seed,
        c->trained, c->bytes ? "byte" : "token",
        c->seeds > 1 ? ", mean (lowest..highest seed)," : "", c->trained);
    kit_cells_show(&p, &cells);
    kit_cells_free(&cells);
    int good = lm__compare_figure(&p, c, why) && lm__compare_csv(c, why);
    lm__compare_reasons(&p, c);
    lm__compare_again(&p, c);
    return kit_report_save(&p, c->out, good ? why : &ignored) && good;
}

static inline int lm__compare_finish(int code, const lm_compare *c, kit_error *why)
{
    int failed = 0;
    if (code == DONE) {
        kit_cells cells = lm__compare_cells(c);
        kit_cells_print(&cells);
        kit_cells_free(&cells);
        if (!lm__compare_report(c, why)) code = FAILED;
    }
    for (int i = 0; i < c->specs * c->seeds; i++) failed += c->failed[i][0] != 0;
    if (code == DONE) printf("\nreport: %s/report.html\n", c->out);
    if (code == FAILED) fprintf(stderr, "lm compare: %s\n", why->text);
    if (code == DONE && failed) {
        fprintf(stderr, "lm compare: %d of %d runs failed; with --resume they are tried again\n",
                failed, c->specs * c->seeds);
        code = FAILED;
    }
    if (code == STOPPED)
        fprintf(stderr, "lm compare: stopped, all is saved in %s; add --resume to go on\n", c->out);
    return fflush(stdout) == 0 && !ferror(stdout) ? code : FAILED;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* What decides which run is which is compare's own to say: given to every run once more it would
   put one encoding's figures into another's row. */
static inline int lm__compare_more_check(kit_args *a, const char *text)
{
    static const char *const own[] = { "size", "model-size", "pe", "pe-type", "seed", "tokens", "steps",
                                       "data", "val", "out", "run-name", "checkpoint-dir", "resume",
                                       "overwrite", "config", "threads", "branch" };
    for (; text && *(text += strspn(text, " ")); text += strcspn(text, " ")) {
        int n = (int)strcspn(text, " =");
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            if (n > 2 && strncmp(text, "--", 2) == 0 && strlen(own[i]) == (size_t)n - 2
                && strncmp(text + 2, own[i], (size_t)n - 2) == 0)
                return kit_usage(a, "--train cannot have --%s: it differs from run to run, or "
                                    "lm compare has a flag for it", own[i]);
    }
    return 1;
}

static inline int lm__compare_check(kit_args *a, lm_compare *c)
{
    if (!lm__compare_more_check(a, c->train)) return 0;
    if (c->pe.count == 0)
        c->pe.item[c->pe.count++] = c->quick ? "rope none alibi sinusoidal"
                                             : "none sinusoidal rope alibi t5 learned";
    if (c->quick && !c->tokens) c->tokens = "500k";
    if (c->quick && !kit_given(a, "seeds")) c->seeds = 1;
    if (c->quick && !kit_given(a, "max-tokens")) c->max_tokens = 16384;
    c->specs = kit_read_specs(a, &c->pe, c->spec);
    for (int e = 0; e < c->specs; e++)
        if (!kit_spec_reaches(a, c->spec[e], lm_size_find(c->size)->context)) return 0;
    return c->specs > 0;
}

static inline void lm__compare_options(kit_option *o, lm_compare *c)
{
    const kit_option table[] = {
        kit_several("pe", &c->pe, "SPEC",
                    "name[:key=value,...][+...]; blanks between several [six of them; quick: "
                    "four]"),
        kit_choice("size", &c->size, LM_SIZE_NAMES, "preset of lm train"),
        kit_word("tokens", &c->tokens, "N", "budget of each run: 6M, 1500k [the preset's]"),
        kit_int("seeds", &c->seeds, 1, LM_COMPARE_SEEDS, "of each encoding, from --seed on"),
        kit_u64("seed", &c->seed, "of weights and data"),
        kit_word("data", &c->data, "PATH:W,...", "as lm train takes it [the corpus, else our own]"),
        kit_word("val", &c->val, "PATH", "as lm train takes it [what --data holds out]"),
        kit_word("contexts", &c->contexts, "LIST", "lengths, or multiples of the trained one"),
        kit_int("max-tokens", &c->max_tokens, 0, INT32_MAX - 1, "to measure on; 0: all held out"),
        kit_word("train", &c->train, "FLAGS",
                 "more flags for lm train: --train=\"--lr 1e-3 --batch-size 8\""),
        kit_word("out", &c->out, "DIR", "where everything is written"),
        kit_switch("resume", &c->resume, "go on from what is in --out"),
        kit_int("threads", &c->threads, 0, 1024, "0: all cores; changes no figure but seconds"),
        kit_switch("quick", &c->quick, "four encodings, one seed, 500k tokens: a first look"),
        kit_switch("quiet", &c->quiet, "no progress"),
        kit_no_more()
    };
    memcpy(o, table, sizeof table);
}

static inline int lm_compare_main(int argc, char **argv)
{
    static lm_compare c;
    kit_error why = { "" };
    memset(&c, 0, sizeof c);
    c.size = "nano";
    c.seeds = 1;
    c.seed = 42;
    c.contexts = "1x,2x,4x,8x";
    c.max_tokens = 65536;
    c.out = "results/lm/compare";
    c.program = argv[0];
    kit_option options[20];
    lm__compare_options(options, &c);
    kit_args a;
    memset(&a, 0, sizeof a);
    a.program = "lm compare";
    a.summary = "lm compare: trains and evaluates several encodings under one budget";
    a.options = options;
    a.closing = "  lm compare --quick\n"
                "  lm compare --pe \"rope none alibi\" --tokens 6M --seeds 3 --out "
                "results/lm/mine\n"
                "  lm compare --pe \"rope none alibi\" --tokens 6M --seeds 3 --out results/lm/mine "
                "--resume";
    if (!kit_args_read(&a, argc, argv) || !lm__compare_check(&a, &c)) return a.exit_code;
    c.lab.program = c.program;
    c.lab.out = c.out;
    c.lab.resume = c.resume;
    c.value = (double *)kit_new((size_t)(c.specs * c.seeds) * LM_COMPARE_NUMBERS, sizeof *c.value);
    c.failed = (char (*)[LM_WHY])kit_new((size_t)(c.specs * c.seeds), sizeof *c.failed);
    kit_catch_stop();
    int code = lm__compare_finish(lm__compare_run(&c, &why), &c, &why);
    free(c.value);
    free(c.failed);
    return code;
}

#endif
