/* extrapolate: train short, test long - the published results, measured on a laptop

       build/extrapolate all --quick                  every experiment in small, about five minutes
       build/extrapolate all                          about 90 minutes on two cores
       build/extrapolate text                         E1 beyond the training length
       build/extrapolate masked                       E2 no encoding, causal and bidirectional
       build/extrapolate copying                      E3 repeat and copy longer than ever seen
       build/extrapolate scaling                      E4 rope's scalings, fine-tuned and not
       build/extrapolate pattern                      the pattern task, 32 to 512 tokens
       build/extrapolate long                         texts of 512 to 8,192: accuracy, time, memory
       build/extrapolate --help

   Each claim stands beside what was published and what came out here, with a verdict by a rule that
   is fixed in the code. What to look for: who goes on past the length it was trained for (alibi,
   kerple), who breaks at once (sinusoidal), who cannot (learned), and what a scaling of rope saves.

   Writes into --out: report.html, report.md, a CSV table for each experiment, its charts as SVG,
   and runs/ with a checkpoint and a file of numbers for each trial. With --resume what is finished
   is not done again and what was under way goes on, also after kill -9; `all --resume` gathers into
   one report what single commands have done. `make corpus` fetches the text that the rules are made
   for. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/threads.h"
#include "extrapolate/copying.h"
#include "extrapolate/long.h"
#include "extrapolate/masked.h"
#include "extrapolate/pattern.h"
#include "extrapolate/scaling.h"
#include "extrapolate/text.h"

static const experiment *const experiments[] = {
    &text_experiment,    &masked_experiment,  &copying_experiment,
    &scaling_experiment, &pattern_experiment, &long_experiment
};
enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

/* ---- running --------------------------------------------------------------------------------- */

/* a command is one of the experiments, or all of them */
typedef struct choice { int first, count; } choice;

static int clear_all(const choice *c, const settings *s, const kit_lab *lab, kit_error *why)
{
    for (int i = c->first; i < c->first + c->count; i++)
        if (!experiments[i]->clear(s, lab, why)) return 0;
    return 1;
}

static int run_all(const choice *c, const settings *s, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    for (int i = c->first; i < c->first + c->count && code == DONE; i++) {
        code = experiments[i]->run(s, lab, why);
        kit_progress_clear(&lab->bar);
        if (code == DONE) experiments[i]->print(s);
        fflush(stdout);
    }
    return code;
}

static void say_verdicts(char *text, size_t room)
{
    snprintf(text, room, "%d reproduced, %d different, %d not reproduced, %d not measured",
             kit_verdicts_told[KIT_REPRODUCED], kit_verdicts_told[KIT_DIFFERENT], kit_verdicts_told[KIT_NOT_REPRODUCED],
             kit_verdicts_told[KIT_NOT_MEASURED]);
}

static void tell_verdicts(kit_report *p)
{
    char text[160];
    say_verdicts(text, sizeof text);
    kit_report_heading(p, "The verdicts");
    kit_report_text(p,
                    "Of the claims above: %s. A claim is **reproduced** when the rule beside it "
                    "holds, **different** when the direction is the same and the size is not. The "
                    "rules stand in the code and were there before the figures; nothing was tuned "
                    "until a row came out.",
                    text);
}

static void tell_again(kit_report *p, const choice *c, const settings *s)
{
    kit_text again = { NULL, 0, 0 };
    kit_put(&again, "build/extrapolate %s --seed %" PRIu64 " --seeds %d%s",
            c->count > 1 ? "all" : experiments[c->first]->name, s->seed, s->seeds,
            s->quick ? " --quick" : "");
    if (s->steps) kit_put(&again, " --steps %d", s->steps);
    for (int i = 0; i < s->pe.count; i++) kit_put(&again, " --pe \"%s\"", s->pe.item[i]);
    if (s->text) kit_put(&again, " --text \"%s\"", s->text);
    kit_report_heading(p, "The same figures again");
    kit_report_text(p, "On the same type of processor, with any number of threads; seconds are "
                       "those of this machine.");
    kit_report_code(p, again.data);
    kit_text_free(&again);
}

static int report_all(const choice *c, const settings *s, kit_error *why)
{
    kit_report p;
    kit_error ignored;
    int done = 1;
    kit_report_begin(&p, c->count > 1 ? "Train short, test long" : experiments[c->first]->title);
    for (int i = c->first; i < c->first + c->count && done; i++)
        done = experiments[i]->report(&p, s, why);
    tell_verdicts(&p);
    tell_again(&p, c, s);
    return kit_report_save(&p, s->out, done ? why : &ignored) && done;
}

static int finish(int code, const settings *s, const kit_error *why)
{
    if (code == FAILED) fprintf(stderr, "extrapolate: %s\n", why->text);
    if (code == STOPPED)
        fprintf(stderr, "extrapolate: stopped, all is saved in %s; add --resume to go on\n",
                s->out);
    if (code == DONE) {
        char text[160];
        say_verdicts(text, sizeof text);
        printf("\nverdicts: %s\nreport: %s/report.html\n", text, s->out);
    }
    return fflush(stdout) == 0 ? code : FAILED;
}

static int do_experiments(const choice *c, settings *s, const char *program)
{
    kit_error why;
    kit_lab lab;
    long work = 0;
    int code = DONE;
    memset(&lab, 0, sizeof lab);
    lab.program = program;
    lab.out = s->out;
    lab.resume = s->resume;
    lab.quiet = s->quiet;
    if (!kit_corpus_open(&s->corpus, s->text, program, &why) || !clear_all(c, s, &lab, &why))
        code = FAILED;
    lab.resume = 1;          /* what is there now is of this run, or was asked for */
    for (int i = c->first; i < c->first + c->count; i++) work += experiments[i]->work(s);
    lab.bar = kit_progress_begin("steps", work, 0, s->quiet);
    if (code == DONE) code = run_all(c, s, &lab, &why);
    kit_progress_clear(&lab.bar);
    if (code == DONE && !report_all(c, s, &why)) code = FAILED;
    kit_corpus_free(&s->corpus);
    return finish(code, s, &why);
}

/* ---- the command line ------------------------------------------------------------------------ */

static int check_settings(kit_args *a, settings *s, choice *c)
{
    const char *name = a->commands[a->command].name;
    int all = a->command == EXPERIMENTS, takes_pe = all;
    c->first = all ? 0 : a->command;
    c->count = all ? EXPERIMENTS : 1;
    if (strcmp(name, "text") == 0 || strcmp(name, "long") == 0) takes_pe = 1;
    if (kit_given(a, "pe") && !takes_pe)
        return kit_usage(a, "--pe is for text, long and all; the encodings of %s are part of it",
                         name);
    if (s->steps > 0 && s->steps < KIT_TRAIN_POINTS)
        return kit_usage(a, "--steps takes %d at least, not %d", KIT_TRAIN_POINTS, s->steps);
    if (!kit_given(a, "seeds") && s->quick) s->seeds = 1;
    for (int i = c->first; i < c->first + c->count; i++)
        if (experiments[i]->check && !experiments[i]->check(s, a)) return 0;
    return 1;
}

int main(int argc, char **argv)
{
    static settings s;
    kit_command commands[EXPERIMENTS + 2];
    kit_option options[] = {
        kit_several("pe", &s.pe, "SPEC",
                    "text, long: name[:key=value,...][+...]; blanks between several"),
        kit_word("text", &s.text, "FILE",
                 "text to learn from [the corpus, else sentences of our own]"),
        kit_int("seeds", &s.seeds, 1, MOST_SEEDS, "seeds from --seed on; quick: 1"),
        kit_u64("seed", &s.seed, "of weights and data"),
        kit_int("steps", &s.steps, 0, 1000000, "of training, for every model; 0: as many as usual"),
        kit_int("threads", &s.threads, 0, 1024, "0: all cores; changes no figure but seconds"),
        kit_word("out", &s.out, "DIR", "where everything is written"),
        kit_switch("resume", &s.resume, "go on from what is in --out"),
        kit_switch("quick", &s.quick, "one seed, few steps, for a first look: all in five minutes"),
        kit_switch("quiet", &s.quiet, "no progress bar"),
        kit_no_more()
    };
    kit_args a;
    choice c;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    memset(commands, 0, sizeof commands);
    for (int i = 0; i < EXPERIMENTS; i++) {
        commands[i].name = experiments[i]->name;
        commands[i].help = experiments[i]->help;
    }
    commands[EXPERIMENTS].name = "all";
    commands[EXPERIMENTS].help = "one after the other, about 90 minutes on two cores";
    s.seeds = 3;
    s.seed = 1;
    s.out = "results/extrapolate";
    a.program = "extrapolate";
    a.summary = "extrapolate: train short, test long - the published results on a laptop";
    a.commands = commands;
    a.options = options;
    a.closing = "  extrapolate all --quick\n"
                "  extrapolate text --pe \"rope alibi learned+alibi\"\n"
                "  extrapolate all --resume";
    if (!kit_args_read(&a, argc, argv) || !check_settings(&a, &s, &c)) return a.exit_code;
#ifdef _OPENMP
    if (s.threads > 0) omp_set_num_threads(s.threads);
#endif
    kit_catch_stop();
    return do_experiments(&c, &s, argv[0]);
}
