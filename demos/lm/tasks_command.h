/* lm/tasks_command.h - lm tasks: texts with one right answer, to train on and to be asked

   Training data are windows of T + 1 tokens. Each holds whole texts only: none is ever cut, and the
   longest, which need all of it, get one to themselves. What is left over is byte 0. Include
   posenc.h first. */
#ifndef LM_TASKS_COMMAND_H
#define LM_TASKS_COMMAND_H

#include "kit/args.h"
#include "kit/cells.h"
#include "kit/training.h"
#include "lm/examples.h"
#include "lm/shards.h"

/* ---- packing ------------------------------------------------------------------------------------
   First fit: a text goes into the first open window that has room, or into a new one. Windows leave
   when no text fits any more, or when too many are open the oldest; so a million texts need the
   memory of LM_PACK_OPEN windows. */

enum { LM_PACK_OPEN = 256,
       LM_PACK_LEAST = 6 };                /* tokens of the shortest text: byte 0 and 1+2=3       */

typedef struct lm_pack {
    int W;                                 /* tokens of a window                                  */
    int *token[LM_PACK_OPEN], used[LM_PACK_OPEN], open;
    uint64_t windows, filled;              /* that have left; tokens of texts in them             */
    int (*put)(void *user, const int *token, int W, kit_error *why);
    void *user;
} lm_pack;

static inline void lm_pack_begin(lm_pack *p, int W,
                                 int (*put)(void *user, const int *token, int W, kit_error *why),
                                 void *user)
{
    memset(p, 0, sizeof *p);
    p->W = W;
    p->put = put;
    p->user = user;
}

static inline void lm_pack_free(lm_pack *p)
{
    while (p->open > 0) free(p->token[--p->open]);
}

static inline int lm__pack_leave(lm_pack *p, int i, kit_error *why)
{
    int *token = p->token[i];
    int good = p->put(p->user, token, p->W, why);
    p->windows++;
    p->filled += (uint64_t)p->used[i];
    for (p->open--; i < p->open; i++) {
        p->token[i] = p->token[i + 1];
        p->used[i] = p->used[i + 1];
    }
    free(token);
    return good;
}

static inline int lm_pack_add(lm_pack *p, const lm_example *e, kit_error *why)
{
    size_t n = lm_example_size(e);
    int i = 0;
    if (n > (size_t)p->W)
        return kit_fail(why, "a text of %s has %zu tokens, a window %d", e->task, n, p->W);
    while (i < p->open && p->W - p->used[i] < (int)n) i++;
    if (i == LM_PACK_OPEN) {
        if (!lm__pack_leave(p, 0, why)) return 0;
        i--;
    }
    if (i == p->open) {
        p->token[i] = (int *)kit_new((size_t)p->W, sizeof(int));
        p->used[i] = 0;
        p->open++;
    }
    lm_example_tokens(p->token[i] + p->used[i], e);
    p->used[i] += (int)n;
    return p->W - p->used[i] >= LM_PACK_LEAST || lm__pack_leave(p, i, why);
}

static inline int lm_pack_end(lm_pack *p, kit_error *why)
{
    while (p->open > 0)
        if (!lm__pack_leave(p, 0, why)) return 0;
    return 1;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

#define LM_TASKS_PUBLISHED "passkey:.2,copy_distance:.25,reverse:.18,sort:.17,no_carry_add:.12," \
                           "simple_copy:.08"
enum { LM_TASKS_EVAL = LM_EXAMPLES / 2,    /* most examples of a task in an evaluation            */
       LM_TASKS_VAL = 20,                  /* one validation example for so many of training      */
       LM_TASKS_FILLER = 256 << 20,        /* bytes of a filler that are used                     */
       LM_TASKS_SHOWN = 3 };               /* examples of a task and split in samples.txt         */

typedef struct lm_tasks_plan {
    int task[LM_TASKS], tasks;
    double weight[LM_TASKS];               /* sums to 1                                           */
    int count, eval, T, replace, quiet;
    uint64_t seed, eval_seed;
    const char *asked, *filler_path, *out;
    kit_text filler;                       /* empty: sentences of our own                         */
} lm_tasks_plan;

static inline void lm__tasks_names(char *text, size_t room)
{
    size_t n = 0;
    for (int i = 0; i < LM_TASKS && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, i ? " %s" : "%s", lm_task_name[i]);
}

static inline int lm__tasks_weight(double *weight, kit_args *a, const char *word, size_t n)
{
    const char *colon = (const char *)memchr(word, ':', n);
    char *end = NULL;
    *weight = 1;
    if (!colon) return 1;
    *weight = strtod(colon + 1, &end);
    if (end == word + n && end > colon + 1 && *weight > 0 && *weight <= 1e9) return 1;
    return kit_usage(a, "--tasks: in '%.*s' the weight is no number above 0", (int)n, word);
}

/* "name" or "name:weight", n letters */
static inline int lm__tasks_word(lm_tasks_plan *p, kit_args *a, const char *word, size_t n)
{
    char name[64], names[256];
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    name[strcspn(name, ":")] = 0;
    lm__tasks_names(names, sizeof names);
    int task = lm_task_find(name);
    if (task < 0) return kit_usage(a, "--tasks: there is no '%s', only %s", name, names);
    for (int i = 0; i < p->tasks; i++)
        if (p->task[i] == task) return kit_usage(a, "--tasks has %s twice", name);
    p->task[p->tasks] = task;
    return lm__tasks_weight(&p->weight[p->tasks++], a, word, n);
}

static inline int lm__tasks_list(lm_tasks_plan *p, kit_args *a)
{
    double sum = 0;
    p->tasks = 0;
    for (const char *at = p->asked; *at;) {
        size_t n = strcspn(at, ",");
        if (!lm__tasks_word(p, a, at, n)) return 0;
        at += n + (at[n] == ',');
    }
    if (p->tasks == 0) return kit_usage(a, "--tasks names none");
    for (int i = 0; i < p->tasks; i++) sum += p->weight[i];
    for (int i = 0; i < p->tasks; i++) p->weight[i] /= sum;
    return 1;
}

static inline int lm__tasks_fit(const lm_tasks_plan *p, kit_args *a)
{
    kit_error why;
    for (int i = 0; i < p->tasks; i++)
        if (!lm_task_fits(p->task[i], p->T, &why)) return kit_usage(a, "%s", why.text);
    return 1;
}

/* A text, or shards of bytes; documents end where others begin. */
static inline int lm__tasks_filler(lm_tasks_plan *p, kit_error *why)
{
    lm_data d;
    int token[4096], good = 1;
    if (!p->filler_path) return 1;
    if (!lm_data_open(&d, p->filler_path, "filler", why)) return 0;
    if (d.vocab != 256)
        good = kit_fail(why, "%.200s has a vocabulary of %d; a filler is bytes, 256", d.name,
                        d.vocab);
    uint64_t size = d.tokens < LM_TASKS_FILLER ? d.tokens : LM_TASKS_FILLER;
    for (uint64_t at = 0; at < size && good;) {
        int n = size - at < 4096 ? (int)(size - at) : 4096;
        char piece[4096];
        good = lm_data_read(&d, token, at, n, why);
        for (int i = 0; i < n && good; i++) piece[i] = (char)(token[i] ? token[i] : '\n');
        if (good) kit_put_bytes(&p->filler, piece, (size_t)n);
        at += (uint64_t)n;
    }
    lm_data_close(&d);
    return good;
}

/* the task of training example `index`: each as often as its weight says */
static inline int lm__tasks_draw(const lm_tasks_plan *p, uint64_t seed, uint64_t index)
{
    kit_random r = kit_random_open(seed, LM__TASK_PURPOSE + 4 * LM_TASKS, index);
    double at = kit_random_word(&r) / 4294967296.0;
    int i = 0;
    while (i + 1 < p->tasks && at >= p->weight[i]) at -= p->weight[i++];
    return p->task[i];
}

/* ---- windows to train on --------------------------------------------------------------------- */

/* what became of them: [0] to train on, [1] to validate with */
typedef struct lm_tasks_done {
    uint64_t examples[2][LM_TASKS], tokens[2][LM_TASKS], windows[2], filled[2];
    uint64_t id[LM_TASKS], ood[LM_TASKS];  /* in the evaluations                                  */
    int longest[LM_TASKS];                 /* tokens of the longest question with its answer      */
} lm_tasks_done;

static inline int lm__tasks_put(void *user, const int *token, int W, kit_error *why)
{
    return lm_writer_put((lm_writer *)user, token, (size_t)W, why);
}

/* Validation examples are in distribution, of prompts that are never trained on; their numbers
   begin where those of the evaluation never come. */
static inline int lm__tasks_one(lm_tasks_done *done, lm_pack *pack, const lm_tasks_plan *p, int val,
                                int i, kit_error *why)
{
    uint64_t seed = val ? p->eval_seed : p->seed, index = (uint64_t)val << 32 | (unsigned)i;
    int task = lm__tasks_draw(p, seed, index);
    lm_example e;
    if (!lm_task_make(&e, task, val ? LM_ID : LM_TRAINING, seed, index, p->T, &p->filler, why))
        return 0;
    int good = lm_pack_add(pack, &e, why);
    done->examples[val][task]++;
    done->tokens[val][task] += lm_example_size(&e);
    lm_example_free(&e);
    return good;
}

/* DONE, FAILED or STOPPED */
static inline int lm__tasks_windows(lm_tasks_done *done, lm_writer *w, const lm_tasks_plan *p,
                                    int val, kit_progress *bar, kit_error *why)
{
    int count = val ? (p->count + LM_TASKS_VAL - 1) / LM_TASKS_VAL : p->count, good = 1;
    lm_pack pack;
    lm_pack_begin(&pack, p->T + 1, lm__tasks_put, w);
    for (int i = 0; i < count && good && !kit_stopped(); i++) {
        good = lm__tasks_one(done, &pack, p, val, i, why);
        kit_progress_at(bar, (val ? p->count : 0) + i, val ? "validation" : "training");
    }
    good = good && lm_pack_end(&pack, why);
    lm_pack_free(&pack);
    w->docs = (uint64_t)count;
    done->windows[val] = pack.windows;
    done->filled[val] = pack.filled;
    return !good ? FAILED : kit_stopped() ? STOPPED : DONE;
}

/* ---- questions ------------------------------------------------------------------------------- */

/* an example for people: the bar stands between what is given and what is asked */
static inline void lm__tasks_show(kit_text *t, const lm_example *e, const char *split)
{
    kit_put(t, "%s, %s, level %g, %zu tokens\n    ", e->task, split, e->level, lm_example_size(e));
    for (size_t i = 0; i < e->prompt.size; i++) {
        if (e->prompt.data[i] == '\n') kit_put_string(t, "\\n");
        else kit_put_bytes(t, e->prompt.data + i, 1);
    }
    kit_put(t, "|%s\n", e->target.data);
}

static inline int lm__tasks_samples(kit_text *t, const lm_tasks_plan *p, int task, kit_error *why)
{
    static const char *const name[] = { "train", "id", "ood" };
    for (int split = 0; split < 3; split++)
        for (int i = 0; i < LM_TASKS_SHOWN; i++) {
            uint64_t seed = split == LM_TRAINING ? p->seed : p->eval_seed;
            lm_example e;
            if (!lm_task_make(&e, task, split, seed, (uint64_t)i, p->T, &p->filler, why)) return 0;
            lm__tasks_show(t, &e, name[split]);
            lm_example_free(&e);
        }
    kit_put_string(t, "\n");
    return 1;
}

static inline int lm__tasks_question(kit_text *t, lm_tasks_done *done, const lm_tasks_plan *p,
                                     int task, int split, int i, kit_error *why)
{
    lm_example e;
    if (!lm_task_make(&e, task, split, p->eval_seed, (uint64_t)i, p->T, &p->filler, why)) return 0;
    int good = lm_example_put(t, &e, why), size = (int)lm_example_size(&e);
    if (size > done->longest[task]) done->longest[task] = size;
    ++*(split == LM_OOD ? &done->ood[task] : &done->id[task]);
    lm_example_free(&e);
    return good;
}

/* half in distribution, then half out of it; an odd number has one more in */
static inline int lm__tasks_questions(kit_text *t, lm_tasks_done *done, const lm_tasks_plan *p,
                                      int task, kit_error *why)
{
    int half = (p->eval + 1) / 2;
    for (int i = 0; i < p->eval && !kit_stopped(); i++) {
        int split = i < half ? LM_ID : LM_OOD;
        if (!lm__tasks_question(t, done, p, task, split, i < half ? i : i - half, why)) return 0;
        if (t->size > LM_EXAMPLES_BYTES)
            return kit_fail(why, "%d questions of %s and context %d are more than the %d bytes that"
                            " are read again: ask for fewer with --eval", p->eval,
                            lm_task_name[task], p->T, LM_EXAMPLES_BYTES);
    }
    return 1;
}

/* The settings are the first line: whoever finds the folder can make it again. */
static inline void lm__tasks_settings(kit_text *t, const lm_tasks_plan *p)
{
    kit_put(t, "lm tasks --tasks %s --count %d --eval %d --context %d --seed %" PRIu64
            " --eval-seed %" PRIu64, p->asked, p->count, p->eval, p->T, p->seed, p->eval_seed);
    if (p->filler_path) kit_put(t, " --filler %s", p->filler_path);
    kit_put_string(t, "\n\n");
}

/* questions[task] and samples.txt, still in memory; DONE, FAILED or STOPPED */
static inline int lm__tasks_ask(kit_text questions[LM_TASKS], kit_text *samples,
                                lm_tasks_done *done, const lm_tasks_plan *p, kit_progress *bar,
                                kit_error *why)
{
    int before = p->count + p->count / LM_TASKS_VAL;
    lm__tasks_settings(samples, p);
    for (int i = 0; i < p->tasks && !kit_stopped(); i++) {
        int task = p->task[i];
        if (!lm__tasks_questions(&questions[task], done, p, task, why)
            || !lm__tasks_samples(samples, p, task, why)) return FAILED;
        kit_progress_at(bar, (long)before + (long)(i + 1) * p->eval, "questions");
    }
    return kit_stopped() ? STOPPED : DONE;
}

/* eval_<task>.jsonl and samples.txt. Questions of an earlier set go: they would be taken for this
   one's. */
static inline int lm__tasks_save(const kit_text questions[LM_TASKS], const kit_text *samples,
                                 const lm_tasks_plan *p, kit_error *why)
{
    for (int task = 0; task < LM_TASKS; task++) {
        char name[64], path[KIT_PATH];
        snprintf(name, sizeof name, "eval_%s.jsonl", lm_task_name[task]);
        if (!kit_join(path, p->out, name, why)) return 0;
        if (questions[task].size == 0) unlink(path);
        else if (!kit_save(path, &questions[task], why)) return 0;
    }
    return kit_save_in(p->out, "samples.txt", samples, why);
}

/* ---- lm tasks -------------------------------------------------------------------------------- */

static inline void lm__tasks_say_windows(const lm_tasks_done *done, const lm_tasks_plan *p,
                                         int val, const char *what)
{
    uint64_t room = done->windows[val] * (uint64_t)(p->T + 1);
    printf("%s: %" PRIu64 " windows of %d tokens, %.1f %% filled\n", what, done->windows[val],
           p->T + 1, 100.0 * (double)done->filled[val] / (double)room);
}

static inline void lm__tasks_say(const lm_tasks_done *done, const lm_tasks_plan *p)
{
    static const char *const head[] = { "task", "train", "tokens", "validation", "id", "ood",
                                        "longest question" };
    kit_cells c = kit_cells_new(p->tasks + 1, 7);
    for (int i = 0; i < 7; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int i = 0; i < p->tasks; i++) {
        int task = p->task[i];
        kit_cells_put(&c, i + 1, 0, "%s", lm_task_name[task]);
        kit_cells_put(&c, i + 1, 1, "%" PRIu64, done->examples[0][task]);
        kit_cells_put(&c, i + 1, 2, "%" PRIu64, done->tokens[0][task]);
        kit_cells_put(&c, i + 1, 3, "%" PRIu64, done->examples[1][task]);
        kit_cells_put(&c, i + 1, 4, "%" PRIu64, done->id[task]);
        kit_cells_put(&c, i + 1, 5, "%" PRIu64, done->ood[task]);
        kit_cells_put(&c, i + 1, 6, "%d", done->longest[task]);
    }
    kit_cells_print(&c);
    kit_cells_free(&c);
    lm__tasks_say_windows(done, p, 0, "training");
    lm__tasks_say_windows(done, p, 1, "validation");
    printf("in %s; train on it with --data %s and a context of %d\n", p->out, p->out, p->T);
}

/* Everything is made first; then questions and samples are saved, and last the shards appear: a
   folder with a meta.json is complete. */
static inline int lm__tasks_write(lm_tasks_done *done, const lm_tasks_plan *p, lm_writer w[2],
                                  kit_error *why)
{
    static const char *const split[] = { "train", "val" };
    long work = (long)p->count + p->count / LM_TASKS_VAL + (long)p->tasks * p->eval;
    kit_progress bar = kit_progress_begin("lm tasks", work, 0, p->quiet);
    kit_text questions[LM_TASKS], samples = { NULL, 0, 0 };
    int code = lm_folder_ready(p->out, p->replace, why) ? DONE : FAILED;
    memset(questions, 0, sizeof questions);
    for (int i = 0; i < 2 && code == DONE; i++)
        code = lm_writer_open(&w[i], p->out, "tasks", split[i], 256, 0, p->T + 1, LM_SHARD_TOKENS,
                              why) ? lm__tasks_windows(done, &w[i], p, i, &bar, why) : FAILED;
    if (code == DONE) code = lm__tasks_ask(questions, &samples, done, p, &bar, why);
    if (code == DONE && (!lm__tasks_save(questions, &samples, p, why)
                         || !lm_writers_commit(w, 2, "bytes", why))) code = FAILED;
    for (int task = 0; task < LM_TASKS; task++) kit_text_free(&questions[task]);
    kit_text_free(&samples);
    kit_progress_clear(&bar);
    return code;
}

static inline int lm__tasks_run(lm_tasks_plan *p)
{
    lm_tasks_done done;
    lm_writer w[2];
    kit_error why;
    memset(&done, 0, sizeof done);
    memset(w, 0, sizeof w);
    kit_catch_stop();
    int code = lm__tasks_filler(p, &why) ? lm__tasks_write(&done, p, w, &why) : FAILED;
    lm_writers_close(w, 2);
    kit_text_free(&p->filler);
    if (code == FAILED) fprintf(stderr, "lm tasks: %s\n", why.text);
    if (code == STOPPED) fprintf(stderr, "lm tasks: stopped, no shard was written\n");
    if (code == DONE && !p->quiet) lm__tasks_say(&done, p);
    return fflush(stdout) == 0 ? code : FAILED;
}

static inline lm_tasks_plan lm__tasks_defaults(void)
{
    lm_tasks_plan p;
    memset(&p, 0, sizeof p);
    p.asked = LM_TASKS_PUBLISHED;
    p.count = 100000;
    p.eval = 1000;
    p.T = 128;
    p.seed = 42;
    p.eval_seed = 123;
    p.out = "results/lm/tasks";
    return p;
}

static inline int lm_tasks_main(int argc, char **argv)
{
    lm_tasks_plan p = lm__tasks_defaults();
    kit_args a;
    memset(&a, 0, sizeof a);
    kit_option options[] = {
        kit_word("tasks", &p.asked, "LIST", "names with weights, name:0.2,..."),
        kit_int("count", &p.count, 1, 1 << 30, "examples to train on"),
        kit_int("eval", &p.eval, 0, LM_TASKS_EVAL, "questions of each task, half of them longer"),
        kit_int("context", &p.T, 32, LM_TASK_CONTEXT - 1, "of the model, in bytes"),
        kit_u64("seed", &p.seed, "of what is trained on"),
        kit_u64("eval-seed", &p.eval_seed, "of validation and questions"),
        kit_word("filler", &p.filler_path, "FILE", "text to hide things in [sentences of our own]"),
        kit_word("out", &p.out, "DIR", "folder to write into"),
        kit_switch("replace", &p.replace, "take the place of a set that is in DIR"),
        kit_switch("quiet", &p.quiet, "print nothing but mistakes"),
        kit_no_more()
    };
    a.program = "lm tasks";
    a.summary = "lm tasks: texts with one right answer, to train on and to be asked";
    a.options = options;
    a.closing =
        "Tasks: passkey copy_distance reverse sort no_carry_add simple_copy (published mixture),\n"
        "addition sorting reversal copy (older ones), key needle (as lm eval asks them).\n\n"
        "DIR gets tasks_train_*.bin and tasks_val_*.bin (llm.c, windows of context + 1 bytes that\n"
        "hold whole examples only), meta.json, eval_TASK.jsonl and samples.txt.\n\n"
        "  lm tasks\n"
        "  lm tasks --tasks passkey,key --context 256 --filler data/corpus --out data/passkey\n"
        "  lm tasks --tasks addition:0.7,sorting:0.3 --count 1000000 --out data/sums";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (!lm__tasks_list(&p, &a) || !lm__tasks_fit(&p, &a)) return a.exit_code;
    return lm__tasks_run(&p);
}

#endif
