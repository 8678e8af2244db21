/* depth: what goes wrong when self-attention is stacked deep? Measured instead of remembered.

       build/depth --quick                  a first look, about a minute
       build/depth                          five kinds of blocks, depth 1 to 32, two seeds
       build/depth --cost                   time and memory against the length, tiled beside plain
       build/depth --help

   Next-byte models with and without residuals and norms, with their first weights and trained.
   Behind every layer: can a probe still read the position, are all tokens alike by now, where does
   attention look, how large are gradients and activations; then whether it trained at all, and what
   longer texts cost. demos/depth.md is the story.

   Writes into --out: layers.csv, runs.csv, curves.csv, attention_alone.csv, claims.csv, the charts
   as SVG, report.html, report.md, and runs/ with the numbers of each run. Same seed and settings:
   every file has the same bytes, also when the run was stopped (Ctrl-C, power cut) and went on with
   --resume. What the clock says is in cost/ alone. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/threads.h"
#include "depth/cost.h"

enum { HELD_LEAST = 8192 };                /* fewer held-out bytes tell nothing                   */

static int finish(int code, const settings *s, const kit_error *why)
{
    if (code == FAILED) fprintf(stderr, "depth: %s\n", why->text);
    if (code == STOPPED && s->cost) fprintf(stderr, "depth: stopped; nothing was saved\n");
    else if (code == STOPPED)
        fprintf(stderr, "depth: stopped, all is saved in %s; add --resume to go on\n", s->out);
    if (code == DONE) printf("\nreport: %s/report.html\n", s->out);
    if (fflush(stdout) != 0) code = FAILED;
    return code;
}

static int open_text(settings *s, const char *program, kit_error *why)
{
    if (!kit_corpus_open(&s->corpus, s->text, program, why)) return 0;
    if (s->corpus.held.size < HELD_LEAST)
        return kit_fail(why,
                        "%.200s has %zu bytes; a twentieth is held out, and %d of those are needed",
                        s->corpus.name, s->corpus.train.size + s->corpus.held.size, HELD_LEAST);
    if (s->corpus.own && !s->quiet)
        printf("no corpus here (make corpus fetches it): sentences of our own making instead\n");
    return 1;
}

static int do_stacks(settings *s, const char *program, kit_error *why)
{
    kit_lab lab;
    if (!open_text(s, program, why)) return FAILED;
    study y = study_list(s);
    memset(&lab, 0, sizeof lab);
    lab.program = program;
    lab.out = s->out;
    lab.resume = s->resume;
    lab.quiet = s->quiet;
    lab.bar = kit_progress_begin("steps x layers", study_work(&y), 0, s->quiet);
    int code = study_run(&y, &lab, why);
    kit_progress_clear(&lab.bar);
    if (code == DONE && !leave_results(&y, why)) code = FAILED;
    study_free(&y);
    kit_corpus_free(&s->corpus);
    return code;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* "1,4,16": rising whole numbers */
static int read_depths(kit_args *a, numbers *list, const char *text)
{
    const char *at = text;
    for (list->count = 0; at; list->count++) {
        char *end;
        long v = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
        if (v < 1 || v > MOST_DEPTH || (*end != ',' && *end != 0))
            return kit_usage(
                a, "--depth takes whole numbers from 1 to %d with commas between, not '%s'",
                MOST_DEPTH, text);
        if (list->count == MOST_DEPTHS)
            return kit_usage(a, "--depth takes %d numbers at most", MOST_DEPTHS);
        if (list->count > 0 && v <= list->item[list->count - 1])
            return kit_usage(a, "--depth wants each number larger than the one before, not '%s'",
                             text);
        list->item[list->count] = (int)v;
        at = *end ? end + 1 : NULL;
    }
    return 1;
}

/* What is known to be impossible before anything is made. */
static int check_models(kit_args *a, const settings *s)
{
    for (int i = 0; i < s->specs; i++) {
        stack k = { PRE_NORM, 1, 1, 1, s->spec[i], NULL };
        posenc_config c = stack_config(&k, s, s->seed);
        posenc_bytes bytes;
        posenc_error said;
        if (posenc_model_bytes(&bytes, &c, &said) != POSENC_OK)
            return kit_usage(a, "%s", said.text);
        if (!kit_spec_reaches(a, s->spec[i], LENGTH)) return 0;
    }
    return 1;
}

static int check_settings(kit_args *a, settings *s, kit_list *pe)
{
    static char folder[KIT_PATH];
    if (!s->depth_text) s->depth_text = s->quick ? "1,4,16" : "1,2,4,8,16,32";
    if (!kit_given(a, "steps") && s->quick) s->steps = 100;
    if (!kit_given(a, "seeds") && s->quick) s->seeds = 1;
    if (pe->count == 0) {
        pe->count = 1;
        pe->item[0] =
            s->quick ? "sinusoidal none rope" : "sinusoidal learned:init=0.7 none rope alibi";
    }
    if (!read_depths(a, &s->depths, s->depth_text)) return 0;
    s->specs = kit_read_specs(a, pe, s->spec);
    if (s->specs == 0 || !check_models(a, s)) return 0;
    if (s->specs > LINES)
        return kit_usage(a, "--pe takes %d encodings at most, not %d", LINES, s->specs);
    if (!s->out) s->out = "results/depth";
    if (!s->cost || kit_given(a, "out")) return 1;
    snprintf(folder, sizeof folder, "%s/cost", s->out);
    s->out = folder;
    return 1;
}

static void default_settings(settings *s)
{
    s->steps = 400;
    s->seeds = 2;
    s->seed = 1;
    s->lr = 3e-3;
}

int main(int argc, char **argv)
{
    static settings s;
    kit_list pe = { { NULL }, 0 };
    kit_error why;
    default_settings(&s);
    kit_option options[] = {
        kit_several("pe", &pe, "SPEC", "name[:key=value,...][+...]; blanks between several"),
        kit_word("depth", &s.depth_text, "N,N", "how many blocks [1,2,4,8,16,32; quick: 1,4,16]"),
        kit_int("steps", &s.steps, KIT_TRAIN_POINTS, 1000000, "of training; quick: 100"),
        kit_real("lr", &s.lr, 0, 10, "highest learning rate, the same for all"),
        kit_word("text", &s.text, "FILE",
                 "what to learn from [make corpus, else our own sentences]"),
        kit_int("seeds", &s.seeds, 1, MOST_SEEDS, "seeds from --seed on; quick: 1"),
        kit_u64("seed", &s.seed, "of weights and data"),
        kit_int("threads", &s.threads, 0, 1024, "0: all cores; changes no figure but --cost's"),
        kit_switch("cost", &s.cost,
                   "time and memory of attention against the length, and nothing else"),
        kit_word("out", &s.out, "DIR", "[results/depth; cost: results/depth/cost]"),
        kit_switch("resume", &s.resume, "go on with what is in --out"),
        kit_switch("quick", &s.quick, "fewer depths, steps and encodings, for a first look"),
        kit_switch("quiet", &s.quiet, "print the verdicts only"),
        kit_no_more()
    };
    kit_args a;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    a.program = "depth";
    a.summary = "depth: what goes wrong when self-attention is stacked deep?";
    a.options = options;
    a.closing =
        "Without --pe: sinusoidal learned:init=0.7 none rope alibi (quick: sinusoidal none rope).\n"
        "The first one is tried in all kinds of blocks at every depth, the others in the usual\n"
        "block at every second depth. learned:init=0.7 begins as large as sine waves are.\n\n"
        "  depth --quick\n"
        "  depth --pe \"rope alibi\" --depth 1,2,4 --steps 300";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (!check_settings(&a, &s, &pe)) return a.exit_code;
#ifdef _OPENMP
    if (s.threads > 0) omp_set_num_threads(s.threads);
#endif
    kit_catch_stop();
    return finish(s.cost ? do_cost(&s, &why) : do_stacks(&s, argv[0], &why), &s, &why);
}
