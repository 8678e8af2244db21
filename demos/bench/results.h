/* bench/results.h - what is asked for, and what was measured */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "bench/peak.h"
#include "bench/steps.h"
#include "kit/args.h"

enum { DONE = 0, FAILED = 1, STOPPED = 130 };          /* exit codes; 2: a wrong command line */
enum { BENCH_VARIANTS = 12 };
#define WAIT_IS_OURS "BENCH_WAIT_IS_OURS"  /* in the environment: GOMP_SPINCOUNT was set by us  */

typedef struct settings {
    kit_list filter;
    const char *compare, *python, *script, *text, *out, *wait;
    int repeats, steps, threads, compile, quick, quiet;
    double seconds;
    kit_text command;                      /* the command line as it was typed                    */
} settings;

typedef struct machine {
    char cpu[96], compiler[48];
    const char *tier, *bf16, *wait;        /* bf16: the unit that multiplies it                   */
    int threads;
    double peak, peak_bf16, copy;          /* the best of all groups; copy of COPY_BYTES          */
} machine;

/* one way of doing a work in PyTorch: seconds of one repetition */
typedef struct variant { char name[64]; double median, low, high; } variant;

typedef struct result {
    const work *work;
    timing ours;
    double peak;                           /* operations or bytes in a second; 0: not known       */
    variant variant[BENCH_VARIANTS];
    int variants;
    char wrong[256];                       /* why it was not measured                             */
} result;

typedef struct results {
    work_list list;
    result result[BENCH_WORKS];            /* of the works that are wanted, in the list's order   */
    int count;
    machine machine;
    char torch[160];                       /* its version and threads; empty: not compared        */
    kit_text remarks;                      /* sentences about what did not work, a line each      */
} results;

/* A file of the project: beside the folder that the program is in, or in this one. */
static void find_file(char path[KIT_PATH], const char *program, const char *name)
{
    const char *slash = strrchr(program, '/');
    int n = slash ? (int)(slash - program) : 1;
    snprintf(path, KIT_PATH, "%.*s/../%.100s", n < 900 ? n : 900, slash ? program : ".", name);
    if (!kit_exists(path)) snprintf(path, KIT_PATH, "%.100s", name);
}

/* ---- which works ----------------------------------------------------------------------------- */

/* whether a comma list has a part that the name contains */
static int list_matches(const char *list, const char *name)
{
    char part[BENCH_NAME];
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n > 0 && n < sizeof part) {
            memcpy(part, list, n);
            part[n] = 0;
            if (strstr(name, part)) return 1;
        }
        list += n + (list[n] == ',');
    }
    return 0;
}

static int is_wanted(const settings *s, const work *w)
{
    if (s->quick && w->heavy) return 0;
    for (int i = 0; i < s->filter.count; i++)
        if (list_matches(s->filter.item[i], w->name)) return 1;
    return s->filter.count == 0;
}

static int choose_works(results *r, const settings *s)
{
    list_works(&r->list);
    for (int i = 0; i < r->list.count; i++)
        if (is_wanted(s, &r->list.work[i])) r->result[r->count++].work = &r->list.work[i];
    return r->count;
}

/* ---- figures of a result --------------------------------------------------------------------- */

/* of the unit, in a second */
static double rate_of(const result *r)
{
    return r->ours.samples ? r->work->amount / r->ours.median : NAN;
}

/* Share of the peak; of a step, its operations against the peak of arithmetic. Not known: NAN. */
static double share_of(const result *r)
{
    double amount = r->work->unit == TOKENS ? r->work->operations : r->work->amount;
    return r->ours.samples && r->peak > 0 ? amount / r->ours.median / r->peak : NAN;
}

static const variant *find_variant(const result *r, const char *name)
{
    for (int i = 0; i < r->variants; i++)
        if (strcmp(r->variant[i].name, name) == 0) return &r->variant[i];
    return NULL;
}

/* as PyTorch comes: eager, with the system's malloc as it is */
static const variant *default_variant(const result *r) { return find_variant(r, "eager"); }

static const variant *best_variant(const result *r)
{
    const variant *best = NULL;
    for (int i = 0; i < r->variants; i++)
        if (!best || r->variant[i].median < best->median) best = &r->variant[i];
    return best;
}

/* PyTorch's time over ours, NAN where there is none */
static double times_faster(const result *r, const variant *v)
{
    return v && r->ours.samples ? v->median / r->ours.median : NAN;
}

static double times_low(const result *r, const variant *v)
{
    return v && r->ours.samples ? v->low / r->ours.high : NAN;
}

static double times_high(const result *r, const variant *v)
{
    return v && r->ours.samples ? v->high / r->ours.low : NAN;
}

/* ---- the machine ----------------------------------------------------------------------------- */

enum { COPY_BYTES = 1 << 28 };             /* read and written in all: far beyond any cache      */

static void machine_cpu(char *name, size_t room)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, room, "CPU of unknown name");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(name, room, "%.90s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file) fclose(file);
}

static machine machine_here(void)
{
    machine m;
    const char *wait = getenv("GOMP_SPINCOUNT") ? "spin shortly" : getenv("OMP_WAIT_POLICY");
    memset(&m, 0, sizeof m);
    machine_cpu(m.cpu, sizeof m.cpu);
#if defined(__clang__)
    snprintf(m.compiler, sizeof m.compiler, "clang %d.%d.%d", __clang_major__, __clang_minor__,
             __clang_patchlevel__);
#elif defined(__GNUC__)
    snprintf(m.compiler, sizeof m.compiler, "gcc %d.%d.%d", __GNUC__, __GNUC_MINOR__,
             __GNUC_PATCHLEVEL__);
#else
    snprintf(m.compiler, sizeof m.compiler, "another compiler");
#endif
    m.tier = posenc_cpu_tier();
    m.bf16 = bench_bf16_unit();
    m.threads = posenc_threads();
    m.wait = wait ? wait : "OpenMP's own";
    return m;
}

/* the highest peaks so far */
static void machine_seen(machine *m, double peak, double peak_bf16)
{
    if (peak > m->peak) m->peak = peak;
    if (peak_bf16 > m->peak_bf16) m->peak_bf16 = peak_bf16;
}

static void machine_say(kit_text *t, const machine *m)
{
    kit_put(t, "%s, %s kernels, %d thread%s, %s; peak %.1f GFLOP/s", m->cpu, m->tier, m->threads,
            m->threads == 1 ? "" : "s", m->compiler, m->peak * 1e-9);
    if (m->peak_bf16 > 0) kit_put(t, " (bf16 %.1f)", m->peak_bf16 * 1e-9);
    kit_put(t, ", copy %.1f GB/s", m->copy * 1e-9);
}

#endif
