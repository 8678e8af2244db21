/* pattern: which positional encoding lets a transformer see where a value stands?

       make demo                                      five encodings in less than a minute
       build/pattern compare                          nine encodings, balanced and plain data
       build/pattern compare --task all --seeds 3     sorting, distance and a grid as well
       build/pattern train --pe learned --epochs 3
       build/pattern generate --data balanced         the sequences as CSV
       build/pattern check                            is this machine set up?
       build/pattern --help

   The main task: two values of a sequence of 32 random tokens decide its class, by where they
   stand:
       class 0: 5 at place 3 and 8 at 7    class 1: 3 at 5, 9 at 10    class 2: 7 at 15, 4 at 20
   A transformer without positions sees the tokens as a bag. In the plain data their counts give two
   thirds of the answers away; in the balanced data they say nothing, and `none` is at chance. What
   to look for: how far each encoding gets above `none`, how soon, and where its attention goes.

   compare writes into --out: report.html, report.md, the headline's tables and pictures, and a
   folder for each experiment (pattern-balanced, pattern-plain, ...) with its tables and a folder
   for each run. Same seed and settings: every file but timing.csv has the same bytes, also when the
   run was stopped (Ctrl-C, power cut) and went on with --resume.

   The parts: tasks.h (the data), run.h (a model and its checkpoints), tables.h (figures), train.h,
   pictures.h, report.h, and check.h for the command of that name. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/threads.h"
#include "pattern/check.h"
#include "pattern/report.h"

/* ---- commands -------------------------------------------------------------------------------- */

static void print_opening(const run *r)
{
    char parameters[32];
    int begun = r->epochs_done + (r->step > 0), finished = r->epochs_done == r->set->epochs;
    kit_say_count(parameters, r->parameters);
    if (r->set->quiet) return;
    printf("%s: %s parameters, %d steps an epoch%s\n", r->spec, parameters, steps_per_epoch(r),
           finished ? ", trained already" : begun ? ", going on" : "");
    fflush(stdout);
}

/* One run from start to finish. The logs are saved again at the end: a run that is found trained
   already may have been killed just before they were written. */
static int do_run(run *r, kit_error *why)
{
    if (!kit_make_folders(r->folder, why) || !run_open(r, why)) return FAILED;
    if (r->set->resume && !run_resume(r, why)) return FAILED;
    print_opening(r);
    int code = train_run(r, why);
    if (code == DONE && !(save_logs(r, 1, r->folder, why) && draw_attention(r, why))) code = FAILED;
    run_close_model(r);
    return code;
}

static void print_experiment(const experiment *e, int k)
{
    if (e->set.quiet) return;
    printf("\n%s%s%s%s, seed %" PRIu64 "\n", e->task->name, e->task->data ? ", " : "",
           e->task->data ? e->task->data : "", e->task->data ? " data" : "",
           e->set.seed + (uint64_t)k);
}

/* All encodings with the first seed, then all with the next: a table is there early. Of later seeds
   the picture is a file only; the report shows the first seed's. */
static int do_experiment(experiment *e, kit_error *why)
{
    int code = DONE;
    for (int k = 0; k < e->seeds && code == DONE; k++) {
        const settings *s = &e->set;
        uint64_t seed = s->seed + (uint64_t)k;
        e->train[k] = training_data(s, e->task, seed);
        e->val[k] = validation_data(s, e->task, seed);
        print_experiment(e, k);
        for (int i = 0; i < e->methods && code == DONE; i++) {
            run *r = &e->run[i * e->seeds + k];
            code = do_run(r, why);
            if (k > 0) run_close_pictures(r);
        }
    }
    if (code != DONE) return code;
    for (int i = 0; i < e->methods; i++)
        e->method[i] = method_sum_up(&e->run[i * e->seeds], e->seeds);
    int left = kit_make_folders(e->folder, why) && save_tables(e, e->folder, why)
            && draw_curves(e, why)
            && (e->methods == 1 || draw_side_by_side(e, why));
    return left ? DONE : FAILED;
}

/* The headline's files stand beside the report as well. */
static int save_headline(const experiment *e, const char *out, kit_error *why)
{
    if (strcmp(e->folder, out) == 0) return 1;
    return save_tables(e, out, why) && kit_save_in(out, "curves.svg", &e->curves, why)
        && (!e->sheet.file[0] || kit_save_in(out, e->sheet.file, &e->sheet.bytes, why));
}

static int do_experiments(experiment *e, int count, const char *out, kit_error *why)
{
    int code = DONE;
    if (!kit_make_folders(out, why)) return FAILED;
    for (int i = 0; i < count && !e[0].set.resume; i++)
        for (int k = 0; k < e[i].methods * e[i].seeds; k++)
            if (!run_forget(&e[i].run[k], why)) return FAILED;
    for (int i = 0; i < count && code == DONE; i++) code = do_experiment(&e[i], why);
    if (code == DONE && !(save_headline(&e[0], out, why) && save_report(e, count, out, why)))
        code = FAILED;
    return code;
}

static int train_and_report(experiment *e, int count)
{
    const char *out = e[0].out;
    kit_error why;
    kit_catch_stop();
    int code = do_experiments(e, count, out, &why);
    if (code == FAILED) fprintf(stderr, "pattern: %s\n", why.text);
    if (code == STOPPED)
        fprintf(stderr, "pattern: stopped, all is saved in %s; add --resume to go on\n", out);
    if (code == DONE) {
        for (int i = 0; i < count; i++) print_table(&e[i], count > 1);
        if (!KIT_HAS_PNG) printf("\n%s\n", KIT_NO_PNG);
        printf("\nreport: %s/report.html\n", out);
        if (fflush(stdout) != 0) code = FAILED;
    }
    return code;
}

/* The data of each experiment as CSV: in out itself if there is one only. */
static int generate(const experiment *e, int count)
{
    const char *out = e[0].out;
    kit_error why;
    int done = kit_make_folders(out, &why);
    for (int i = 0; i < count && done; i++) {
        const settings *s = &e[i].set;
        const char *folder = count > 1 ? e[i].folder : out;
        dataset train = training_data(s, e[i].task, s->seed);
        dataset val = validation_data(s, e[i].task, s->seed);
        done = kit_make_folders(folder, &why) && save_dataset(&train, folder, "train.csv", &why)
            && save_dataset(&val, folder, "val.csv", &why);
        dataset_free(&train);
        dataset_free(&val);
        if (done && !s->quiet)
            printf("%s/train.csv: %d sequences, val.csv: %d\n", folder, s->train, s->val);
    }
    if (!done) fprintf(stderr, "pattern: %s\n", why.text);
    return done ? DONE : FAILED;
}

/* ---- from settings to experiments ------------------------------------------------------------ */

enum { TRAIN, COMPARE, GENERATE, CHECK };

static int library_has(const char *name)
{
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++)
        if (strcmp(posenc_encoding_get(i)->name, name) == 0) return 1;
    return 0;
}

/* What is compared unless --pe says otherwise. On the grid the 2-D encodings are told how many
   columns there are; a library without them compares the others. */
static void default_encodings(char *list, size_t room, const settings *s, const task *k,
                              int command)
{
    static const char *const flat[] = { "sincos2d", "rope2d" };
    const char *some = "none sinusoidal learned relative continuous";
    if (command != COMPARE) snprintf(list, room, "learned");
    else if (k->square) snprintf(list, room, "none sinusoidal learned rope");
    else snprintf(list, room, "%s%s", some, s->quick ? "" : " t5 alibi rope lrope");
    for (int i = 0; i < 2 && k->square && command == COMPARE; i++)
        if (library_has(flat[i])) {
            size_t n = strlen(list);
            snprintf(list + n, room - n, " %s:width=%d", flat[i], task_side(s->seq_len));
        }
}

/* What is known to be impossible before anything is made. */
static int check_experiment(kit_args *a, const experiment *e)
{
    const settings *s = &e->set;
    const task *k = e->task;
    if (s->seq_len < k->least_length)
        return kit_usage(a, "--seq-len %d is too short: the task %s needs %d", s->seq_len, k->name,
                         k->least_length);
    if (k->square && !task_side(s->seq_len))
        return kit_usage(a, "--seq-len %d is not a square number, as the task %s needs: 4, 9, "
                         "16, 25, ...",
                         s->seq_len, k->name);
    if (s->vocab < k->least_vocab)
        return kit_usage(a, "--vocab %d is too small: the task %s needs %d", s->vocab, k->name,
                         k->least_vocab);
    for (int i = 0; i < e->methods; i++) {
        posenc_config config = run_config(s, k, e->spec[i], s->seed);
        posenc_bytes bytes;
        posenc_error said;
        if (posenc_model_bytes(&bytes, &config, &said) != POSENC_OK)
            return kit_usage(a, "%s", said.text);
        if (!kit_spec_reaches(a, e->spec[i], s->seq_len)) return 0;
    }
    return 1;
}

/* --out, or what stands for it when it was not given */
static int place_out(kit_args *a, experiment *e)
{
    char slug[128];
    kit_spec_slug(slug, sizeof slug, e->spec[0]);
    if (e->set.out && strlen(e->set.out) >= sizeof e->out)
        return kit_usage(a, "--out is longer than %d letters", KIT_PATH - 1);
    if (e->set.out) snprintf(e->out, sizeof e->out, "%s", e->set.out);
    else snprintf(e->out, sizeof e->out, "results/pattern%s%s", a->command == COMPARE ? "" : "/",
                  a->command == TRAIN ? slug : a->command == GENERATE ? "data" : "");
    return 1;
}

/* train: the files go into --out itself. */
static int place_runs(experiment *e, int command, kit_error *why)
{
    char slug[64];
    task_slug(slug, sizeof slug, e->task);
    if (command == TRAIN) snprintf(e->folder, sizeof e->folder, "%s", e->out);
    else if (!kit_join(e->folder, e->out, slug, why)) return 0;
    for (int i = 0; i < e->methods * e->seeds; i++) {
        run *r = &e->run[i];
        int k = i % e->seeds;
        r->set = &e->set;
        r->task = e->task;
        r->spec = e->spec[i / e->seeds];
        r->seed = e->set.seed + (uint64_t)k;
        r->train = &e->train[k];
        r->val = &e->val[k];
        if (!run_place(r, e->folder, command == TRAIN, why)) return 0;
    }
    return 1;
}

static int open_experiment(kit_args *a, experiment *e, const settings *s, const task *k)
{
    char list[256];
    kit_list pe = s->pe;
    kit_error why;
    e->set = *s;
    e->task = k;
    e->seeds = s->seeds;
    if (!kit_given(a, "seq-len")) e->set.seq_len = k->length;
    default_encodings(list, sizeof list, &e->set, k, a->command);
    if (pe.count == 0) pe.item[pe.count++] = list;
    e->spec = (spec_text *)kit_new(KIT_LIST_ROOM + 1, sizeof *e->spec);
    e->methods = kit_read_specs(a, &pe, e->spec);
    if (e->methods > 1 && a->command == TRAIN)
        return kit_usage(a, "train takes one encoding, not %d; compare takes several", e->methods);
    if (e->methods == 0 || !check_experiment(a, e) || !place_out(a, e)) return 0;
    e->run = (run *)kit_new((size_t)(e->methods * e->seeds), sizeof *e->run);
    e->method = (method *)kit_new((size_t)e->methods, sizeof *e->method);
    e->train = (dataset *)kit_new((size_t)e->seeds, sizeof *e->train);
    e->val = (dataset *)kit_new((size_t)e->seeds, sizeof *e->val);
    return place_runs(e, a->command, &why) ? 1 : kit_usage(a, "%s", why.text);
}

static void close_experiment(experiment *e)
{
    for (int i = 0; e->run && i < e->methods * e->seeds; i++) run_close(&e->run[i]);
    for (int k = 0; e->train && k < e->seeds; k++) dataset_free(&e->train[k]);
    for (int k = 0; e->val && k < e->seeds; k++) dataset_free(&e->val[k]);
    free(e->spec);
    free(e->run);
    free(e->method);
    free(e->train);
    free(e->val);
    kit_text_free(&e->curves);
    kit_picture_free(&e->sheet);
}

static int is_wanted(const task *k, const settings *s)
{
    if (strcmp(s->task, "all") != 0 && strcmp(s->task, k->name) != 0) return 0;
    return !k->data || strcmp(s->data, "both") == 0 || strcmp(s->data, k->data) == 0;
}

/* Returns how many; 0 after a mistake. */
static int open_experiments(kit_args *a, experiment *e, const settings *s)
{
    int count = 0, runs = 0;
    for (int i = 0; i < TASK_COUNT; i++)
        if (is_wanted(&tasks[i], s) && !open_experiment(a, &e[count++], s, &tasks[i])) return 0;
    for (int i = 0; i < count; i++) runs += e[i].methods * e[i].seeds;
    for (int i = 0, number = 1; i < count; i++)            /* in the order they will be done */
        for (int k = 0; k < e[i].seeds; k++)
            for (int m = 0; m < e[i].methods; m++) {
                e[i].run[m * e[i].seeds + k].number = number++;
                e[i].run[m * e[i].seeds + k].of = runs;
            }
    return count;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* A smaller model, so that within the same minute it takes more steps: on balanced data learned
   needs about 100 of them, and the full model gets no further than 60. */
static void quick_settings(const kit_args *a, settings *s)
{
    if (!kit_given(a, "epochs")) s->epochs = 4;
    if (!kit_given(a, "train")) s->train = 1280;
    if (!kit_given(a, "val")) s->val = 512;
    if (!kit_given(a, "lr")) s->lr = 3e-3;
    if (!kit_given(a, "layers")) s->layers = 2;
    if (!kit_given(a, "d-model")) s->d_model = 64;
    if (!kit_given(a, "heads")) s->heads = 4;
    if (!kit_given(a, "ffn")) s->ffn = 256;
}

static settings default_settings(void)
{
    settings s;
    memset(&s, 0, sizeof s);
    s.task = "pattern";
    s.precision = "fp32";
    s.device = "auto";
    s.epochs = 20;
    s.batch = 32;
    s.lr = 1e-3;
    s.decay = 0.01;
    s.clip = 1.0;
    s.dropout = 0.1;
    s.embedding_init = 0.5;
    s.d_model = 128;
    s.heads = 8;
    s.layers = 3;
    s.ffn = 512;
    s.seq_len = 32;
    s.vocab = 20;
    s.train = 5000;
    s.val = 1000;
    s.seed = 1;
    s.seeds = 1;
    return s;
}

/* What the flags may not say together, and what this build cannot do. */
static int check_settings(kit_args *a, settings *s)
{
    int one = a->command == TRAIN;
    kit_say_precision(s->precision, posenc_bf16_unit());
    if (strcmp(s->device, "cuda") == 0)
        return kit_usage(a, "--device cuda: there is no GPU code in this build; use auto or cpu");
    if (s->data && strcmp(s->task, "pattern") != 0 && strcmp(s->task, "all") != 0)
        return kit_usage(a, "--data %s concerns the task pattern only, not %s", s->data, s->task);
    if (!s->data) s->data = a->command == COMPARE ? "both" : "plain";
    if (one && (strcmp(s->task, "all") == 0 || strcmp(s->data, "both") == 0))
        return kit_usage(a, "train makes one run: name one --task and one kind of --data, or "
                         "compare");
    if (a->command != COMPARE && s->seeds > 1)
        return kit_usage(a, "--seeds %d needs compare: %s takes one seed", s->seeds,
                         a->commands[a->command].name);
    if (s->seed + (uint64_t)(s->seeds - 1) < s->seed)
        return kit_usage(a, "--seed is too large for %d seeds", s->seeds);
    return 1;
}

/* All that is left of main once the command line has been read. */
static int run_command(kit_args *a, settings *s)
{
    experiment e[TASK_COUNT];
    int code;
    memset(e, 0, sizeof e);
    if (a->command == CHECK) return check_machine(s->out ? s->out : "results/pattern", s->threads);
    if (!check_settings(a, s)) return a->exit_code;
    int count = open_experiments(a, e, s);
    if (count == 0) code = a->exit_code;
    else if (a->command == GENERATE) code = generate(e, count);
    else code = train_and_report(e, count);
    for (int i = 0; i < TASK_COUNT; i++) close_experiment(&e[i]);
    return code;
}

int main(int argc, char **argv)
{
    static const kit_command commands[] = {
        { "train", "one encoding on one task" },
        { "compare", "several, one after the other, and a report" },
        { "generate", "the sequences of a task as train.csv and val.csv" },
        { "check", "the set-up: compiler, kernels, threads, a gradient, PNG, disk" },
        { NULL, NULL }
    };
    settings s = default_settings();
    kit_option options[] = {
        kit_several("pe",       &s.pe, "SPEC",
                    "name[:key=value,...][+...]; blanks between several"),
        kit_choice("task",      &s.task, "pattern|sorting|distance|grid|all", "what is to be seen"),
        kit_choice("data",      &s.data, "plain|balanced|both",
                   "pattern only: whether token counts tell the class [compare: both; else plain]"),
        kit_int("epochs",       &s.epochs, 1, 10000, "passes over the training data"),
        kit_int("batch",        &s.batch, 1, 65536,  "sequences per step"),
        kit_real("lr",          &s.lr, 0, 10,        "learning rate"),
        kit_real("weight-decay", &s.decay, 0, 10,    "AdamW's decay of the weights"),
        kit_real("clip",        &s.clip, 0, 1e9,     "largest norm of the gradients; 0: no limit"),
        kit_real("dropout",     &s.dropout, 0, 1,    "share dropped: embedding, map, branch, FFN"),
        kit_real("embedding-init", &s.embedding_init, 1e-6, 10,
                 "standard deviation of the token embedding at the start"),
        kit_int("d-model",      &s.d_model, 1, 8192, "width of the model"),
        kit_int("heads",        &s.heads, 1, 1024,   "attention heads; must divide the width"),
        kit_int("layers",       &s.layers, 1, 1024,  "blocks"),
        kit_int("ffn",          &s.ffn, 1, 65536,    "hidden width of a block's FFN"),
        kit_int("seq-len",      &s.seq_len, 1, 4096, "tokens in a sequence; grid: a square, 64"),
        kit_int("vocab",        &s.vocab, 2, 65536,  "tokens there are; 0 is padding"),
        kit_int("train",        &s.train, 1, 9999999, "training sequences"),
        kit_int("val",          &s.val, 1, 9999999,  "validation sequences"),
        kit_u64("seed",         &s.seed,             "of data, weights, order and dropout"),
        kit_int("seeds",        &s.seeds, 1, 1000,   "compare: so many seeds, from --seed on"),
        kit_int("threads",      &s.threads, 0, 1024, "0: all cores; changes no figure"),
        kit_choice("precision", &s.precision, "fp32|bf16", "of the products; bf16 where the CPU has it"),
        kit_choice("device",    &s.device, "auto|cpu|cuda", "here the CPU only"),
        kit_word("out",         &s.out, "DIR",
                 "[results/pattern; train: results/pattern/SPEC; generate: results/pattern/data]"),
        kit_switch("resume",    &s.resume,           "go on from the checkpoints in --out"),
        kit_switch("quick",     &s.quick,            "a smaller model, fewer sequences and epochs"),
        kit_switch("quiet",     &s.quiet,            "print the final tables only"),
        kit_no_more()
    };
    kit_args a;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    a.program = "pattern";
    a.summary = "pattern: which positional encoding lets a transformer see where a value stands?";
    a.commands = commands;
    a.options = options;
    a.closing = "Without --pe, train takes learned; compare takes none sinusoidal learned\n"
                "relative continuous and, without --quick, t5 alibi rope lrope; on the grid none\n"
                "sinusoidal learned rope and the 2-D encodings. Without --resume a run begins\n"
                "anew.\n\n"
                "  pattern train --pe rope --epochs 3\n"
                "  pattern compare --task all --seeds 3\n"
                "  pattern compare --quick --pe \"none learned+alibi rope:base=100\"";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (s.quick) quick_settings(&a, &s);
    return run_command(&a, &s);
}
