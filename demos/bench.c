/* bench: how fast is this machine, and how much of it does posenc.h use?

       build/bench machine                            kernels, threads, peak, copies
       build/bench run                                every kernel and whole training steps
       build/bench run --compare torch --compile      PyTorch beside it, in the same run
       build/bench run --filter product/fp32,rope --threads 1
       build/bench scaling --quick                    against length, batch, width, threads
       build/bench curves                             what bf16 learns beside fp32
       build/bench --help

   A rate says little by itself, so each stands beside what the machine could do a moment before: a
   loop of multiply-adds in registers for arithmetic, a copy of the same number of bytes for what is
   bound by memory. What to look for: the share of the peak; the ratio to PyTorch's best, whose
   spread tells whether it means anything; and, in scaling, what each encoding costs.

   run writes into --out: report.html, report.md, bench.csv and bench.json; scaling the same with
   scaling.csv, scaling.json and charts (SVG); curves curves.csv and charts. Figures of a machine that does other things at the
   same time are worth nothing: low and high show it.

   The parts: measure.h (samples), peak.h (the machine), works.h and steps.h (what is measured),
   results.h, torch.h (PyTorch), tables.h (run's output), scaling.h, costs.h and pages.h, curves.h. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "bench/curves.h"
#include "bench/pages.h"
#include "bench/torch.h"
#include "kit/threads.h"

/* ---- run ------------------------------------------------------------------------------------- */

/* the peaks of a group, taken again for each: a machine has moods */
typedef struct peaks { double fp32, bf16, copied, copy; } peaks;

static double peak_for(peaks *p, const work *w, double seconds)
{
    if (w->unit != BYTES) return w->precision == FP32 ? p->fp32 : w->unit == TOKENS ? 0 : p->bf16;
    if (p->copied != w->amount) {
        p->copied = w->amount;
        p->copy = bench_copy_rate(w->amount, seconds);
    }
    return p->copy;
}

static void run_work(result *r, peaks *p, const settings *s)
{
    stage on;
    kit_error why;
    memset(&on, 0, sizeof on);
    on.work = r->work;
    r->peak = peak_for(p, r->work, s->seconds < 0.3 ? s->seconds : 0.3);
    if (!r->work->open(&on, r->work, &why)) snprintf(r->wrong, sizeof r->wrong, "%.255s", why.text);
    else r->ours = bench_measure(r->work->go, &on, s->seconds, s->repeats);
    if (on.wrong.text[0]) snprintf(r->wrong, sizeof r->wrong, "%.255s", on.wrong.text);
    if (r->wrong[0]) r->ours.samples = 0;
    stage_close(&on);
}

static void run_group(results *r, int first, int count, const torch *t, const settings *s,
                      kit_progress *bar)
{
    peaks p = { 0, 0, 0, 0 };
    long done = first * (t->there ? 3 : 1);
    p.fp32 = bench_peak_of(bench_fp32_loop(), PEAK_SECONDS);
    if (strcmp(r->result[first].work->group, "product/bf16") == 0)
        p.bf16 = bench_peak_of(bench_bf16_loop(), PEAK_SECONDS);
    machine_seen(&r->machine, p.fp32, p.bf16);
    for (int i = first; i < first + count && !kit_stopped(); i++) {
        result *one = &r->result[i];
        kit_progress_at(bar, done++, one->work->name);
        run_work(one, &p, s);
        if (one->wrong[0]) kit_put(&r->remarks, "%s failed: %s\n", one->work->name, one->wrong);
    }
    torch_group(t, &r->result[first], count, bar, done);
}

/* Nothing of a work that Ctrl-C came before is shown. */
static void drop_unmeasured(results *r)
{
    int kept = 0;
    for (int i = 0; i < r->count; i++)
        if (r->result[i].ours.samples || r->result[i].wrong[0]) r->result[kept++] = r->result[i];
    r->count = kept;
}

static void run_groups(results *r, const torch *t, const settings *s)
{
    kit_progress bar = kit_progress_begin("bench", r->count * (t->there ? 3 : 1), 0, s->quiet);
    int first = 0;
    kit_progress_at(&bar, 0, "the machine");
    r->machine.copy = bench_copy_rate(COPY_BYTES, 0.3);
    for (int g = 0; g < GROUPS && !kit_stopped(); g++) {
        int n = group_results(r, &groups[g], &first);
        if (n > 0) run_group(r, first, n, t, s, &bar);
    }
    kit_progress_clear(&bar);
    drop_unmeasured(r);
}

static int any_wrong(const results *r)
{
    for (int i = 0; i < r->count; i++) if (r->result[i].wrong[0]) return 1;
    return 0;
}

static int do_run(results *r, const settings *s, const char *program, kit_error *why)
{
    torch t;
    torch_open(&t, s, program, r);
    run_groups(r, &t, s);
    torch_close(&t);
    print_results(r);
    if (!save_csv(r, s->out, why) || !save_json(r, s, why)) return FAILED;
    if (!save_report(r, s, why)) return FAILED;
    if (kit_stopped()) return STOPPED;
    return any_wrong(r) ? kit_fail(why, "at least one work failed"), FAILED : DONE;
}

/* ---- machine --------------------------------------------------------------------------------- */

static void do_machine(const machine *m)
{
    static const double megabytes[] = { 0.25, 4, 32, 256 };
    printf("cpu        %s\nkernels    %s\nthreads    %d, waiting: %s\ncompiler   %s\n", m->cpu,
           m->tier, m->threads, m->wait, m->compiler);
    fflush(stdout);
    printf("peak       %.1f GFLOP/s, fp32 multiply-adds\n",
           1e-9 * bench_peak_of(bench_fp32_loop(), 5 * PEAK_SECONDS));
    if (strcmp(m->bf16, "none") != 0)
        printf("           %.1f GFLOP/s, bf16 by %s\n",
               1e-9 * bench_peak_of(bench_bf16_loop(), 5 * PEAK_SECONDS), m->bf16);
    for (int i = 0; i < 4 && !kit_stopped(); i++)
        printf("%-10s %.1f GB/s, %g MB read and written\n", i ? "" : "copy",
               1e-9 * bench_copy_rate(megabytes[i] * 1048576, 0.3), megabytes[i]);
}

/* ---- the command line ------------------------------------------------------------------------ */

enum { RUN, SCALING, CURVES, MACHINE };

static int can_write(const char *folder, kit_error *why)
{
    if (!kit_make_folders(folder, why)) return 0;
    if (access(folder, W_OK) == 0) return 1;
    return kit_fail(why, "cannot write into %s: %s", folder, strerror(errno));
}

static int act(int command, results *r, const settings *s, const char *program)
{
    kit_error why;
    int code = DONE;
    why.text[0] = 0;
    r->machine = machine_here();
    if (command == MACHINE) do_machine(&r->machine);
    else if (!can_write(s->out, &why)) code = FAILED;
    else if (command == RUN) code = do_run(r, s, program, &why);
    else if (command == SCALING) code = do_scaling(&r->machine, s, &why);
    else code = do_curves(&r->machine, s, program, &why);
    if (code == FAILED) fprintf(stderr, "bench: %s\n", why.text);
    if (code == STOPPED) fprintf(stderr, "bench: stopped; what was measured is in %s\n", s->out);
    else if (command != MACHINE && code == DONE) printf("\nreport: %s/report.html\n", s->out);
    return fflush(stdout) != 0 && code == DONE ? FAILED : code;
}

static settings default_settings(void)
{
    settings s;
    memset(&s, 0, sizeof s);
    s.compare = "none";
    s.python = "python3";
    s.wait = "shortly";
    s.seconds = 0.7;
    s.repeats = 7;
    s.steps = 400;
    return s;
}

static void finish_settings(const kit_args *a, settings *s, int argc, char **argv)
{
    static const char *const folder[] = { "results/bench", "results/bench/scaling",
                                          "results/bench/curves", NULL };
    if (!s->out) s->out = folder[a->command];
    if (s->quick && !kit_given(a, "steps")) s->steps = 40;
    if (s->quick && !kit_given(a, "seconds")) s->seconds = 0.1;
    if (s->quick && !kit_given(a, "repeats")) s->repeats = 3;
    for (int i = 0; i < argc; i++) kit_put(&s->command, "%s%s", i ? " " : "", argv[i]);
}

/* How to wait can only be said before a program starts, see kit/threads.h. */
static void start_threads(const settings *s, char **argv)
{
    if (strcmp(s->wait, "shortly") == 0) {
        if (!getenv("OMP_WAIT_POLICY") && !getenv("GOMP_SPINCOUNT")) setenv(WAIT_IS_OURS, "1", 1);
        kit_wait_patiently(argv);
    }
#ifdef _OPENMP
    if (s->threads > 0) omp_set_num_threads(s->threads);
#endif
}

int main(int argc, char **argv)
{
    static const kit_command commands[] = {
        { "run", "kernels and training steps against the machine's peak" },
        { "scaling", "tokens/s and memory against length, batch, width, threads, encoding" },
        { "curves", "the same training in fp32 and in bf16" },
        { "machine", "the kernels in use, threads, peak and copy bandwidth; writes nothing" },
        { NULL, NULL }
    };
    static results r;
    settings s = default_settings();
    kit_option options[] = {
        kit_several("filter",  &s.filter, "TEXT,TEXT",  "run: works whose name contains one"),
        kit_real("seconds",    &s.seconds, 0.001, 600,  "for all samples of a work"),
        kit_int("repeats",     &s.repeats, 1, BENCH_SAMPLES, "samples"),
        kit_int("threads",     &s.threads, 0, 1024,     "0: all cores"),
        kit_choice("wait",     &s.wait, "shortly|spin",
                   "how our threads wait for each other; spin is OpenMP's own way"),
        kit_choice("compare",  &s.compare, "torch|none", "run: PyTorch beside it"),
        kit_word("python",     &s.python, "PATH",       "a Python that has torch"),
        kit_word("script",     &s.script, "PATH",       "[demos/bench_torch.py]"),
        kit_switch("compile",  &s.compile,              "torch.compile as well"),
        kit_int("steps",       &s.steps, 1, 1000000,    "curves: of each training"),
        kit_word("text",       &s.text, "FILE",         "curves: what to learn [posenc.h]"),
        kit_word("out",        &s.out, "DIR", "[results/bench; others: results/bench/COMMAND]"),
        kit_switch("quick",    &s.quick, "0.1 s, 3 samples, no step of seconds; curves: 40 steps"),
        kit_switch("quiet",    &s.quiet,                "print the final tables only"),
        kit_no_more()
    };
    kit_args a;
    memset(&a, 0, sizeof a);
    a.program = "bench";
    a.summary = "bench: how fast is this machine, and how much of it does posenc.h use?";
    a.commands = commands;
    a.options = options;
    a.closing = "  bench run --filter product/fp32,rope --seconds 2\n"
                "  bench run --compare torch --python venv/bin/python --compile\n"
                "  bench scaling --quick";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    start_threads(&s, argv);
    finish_settings(&a, &s, argc, argv);
    if (a.command == RUN && choose_works(&r, &s) == 0)
        return kit_usage(&a, "no work has '%s' in its name%s", s.filter.item[0],
                         s.quick ? ", or --quick leaves it out" : ""), a.exit_code;
    kit_catch_stop();
    int code = act(a.command, &r, &s, argv[0]);
    kit_text_free(&s.command);
    kit_text_free(&r.remarks);
    return code;
}
