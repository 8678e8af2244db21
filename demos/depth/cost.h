/* depth/cost.h - what attention costs against the length: time and memory, tiled beside plain

   Seconds are figures of one machine at one moment, so they stay out of the report that repeats
   byte for byte: this page is made by --cost alone, into a folder of its own. */
#ifndef DEPTH_COST_H
#define DEPTH_COST_H

#include "bench/measure.h"
#include "report.h"

enum { COST_HEADS = 4, COST_WIDTH = 64, COST_FIRST = 64, COST_LENGTHS = 7, COST_LAYERS = 16,
       COST_PLAIN_MOST = 1024 };           /* the definition in plain loops: minutes beyond that  */

typedef struct cost {
    int T;
    timing tiled, plain;                   /* a forward and a backward; plain: no samples if long */
    double tiled_bytes, plain_bytes;       /* beyond what both read and write                     */
    double model_bytes, maps_bytes;        /* a model of 16 layers in training; its maps, if kept */
} cost;

/* q, k, v, out and their gradients, of one text */
typedef struct desk {
    int T;
    float *room, *lse, *scratch, *map, *dmap;
    posenc_heads x[8];
    posenc_attention how;
} desk;
enum { DESK_Q, DESK_K, DESK_V, DESK_OUT, DESK_DQ, DESK_DK, DESK_DV, DESK_DOUT };

static size_t cost_scratch(int T, const posenc_attention *how)
{
    return posenc_attention_scratch(1, T, T, COST_HEADS, COST_WIDTH, how);
}

static desk desk_open(int T, int threads)
{
    desk d;
    size_t n = (size_t)T * COST_HEADS * COST_WIDTH,
           square = (size_t)COST_HEADS * (size_t)T * (size_t)T;
    kit_random r = kit_random_open(1, KIT_RANDOM_TEST, (uint64_t)T);
    memset(&d, 0, sizeof d);
    d.T = T;
    d.how.causal = 1;
    d.how.threads = threads;
    d.room = (float *)bench_room(8 * n * sizeof(float));
    for (int i = 0; i < 8; i++)
        d.x[i] = posenc_heads_bthd(d.room + (size_t)i * n, 1, T, COST_HEADS, COST_WIDTH);
    for (size_t i = 0; i < 8 * n; i++)
        d.room[i] = (float)(2 * (kit_random_word(&r) / 4294967296.0) - 1);
    d.lse = (float *)bench_room((size_t)T * COST_HEADS * sizeof(float));
    d.scratch = (float *)bench_room(cost_scratch(T, &d.how) * sizeof(float));
    if (T > COST_PLAIN_MOST) return d;
    d.map = (float *)bench_room(square * sizeof(float));
    d.dmap = (float *)bench_room(square * sizeof(float));
    return d;
}

static void desk_close(desk *d)
{
    free(d->room);
    free(d->lse);
    free(d->scratch);
    free(d->map);
    free(d->dmap);
}

static void go_tiled(void *user)
{
    desk *d = (desk *)user;
    posenc_heads *x = d->x;
    posenc_attention_forward(x[DESK_OUT], d->lse, x[DESK_Q], x[DESK_K], x[DESK_V], &d->how,
                             d->scratch);
    posenc_attention_backward(x[DESK_DQ], x[DESK_DK], x[DESK_DV], NULL, x[DESK_DOUT], x[DESK_OUT],
                              d->lse, x[DESK_Q], x[DESK_K], x[DESK_V], &d->how, d->scratch);
}

static void go_plain(void *user)
{
    desk *d = (desk *)user;
    posenc_heads *x = d->x;
    posenc_attention_plain_forward(x[DESK_OUT], d->map, x[DESK_Q], x[DESK_K], x[DESK_V], &d->how);
    posenc_attention_plain_backward(x[DESK_DQ], x[DESK_DK], x[DESK_DV], NULL, d->dmap, x[DESK_DOUT],
                                    d->map, x[DESK_Q], x[DESK_K], x[DESK_V], &d->how);
}

/* by the sizes that the calls ask for; nothing is measured */
static void cost_memory(cost *c, const settings *s)
{
    posenc_attention how;
    posenc_bytes bytes;
    double T = c->T;
    stack k = { PRE_NORM, COST_LAYERS, 1, 1, s->spec[0], NULL };
    posenc_config config = stack_config(&k, s, 1);
    memset(&how, 0, sizeof how);
    how.causal = 1;
    how.threads = s->threads > 0 ? s->threads : posenc_threads();
    c->tiled_bytes = 4 * (T * COST_HEADS + (double)cost_scratch(c->T, &how));
    c->plain_bytes = 4 * 2.0 * COST_HEADS * T * T;
    config.batch = 1;
    config.context = c->T;
    c->model_bytes =
        posenc_model_bytes(&bytes, &config, NULL) == POSENC_OK ? (double)bytes.total : NAN;
    c->maps_bytes = 4 * (double)COST_LAYERS * HEADS * T * T;
}

static void cost_time(cost *c, const settings *s)
{
    int threads = s->threads > 0 ? s->threads : posenc_threads();
    double seconds = s->quick ? 0.1 : 0.4;
    desk d = desk_open(c->T, threads);
    c->tiled = bench_measure(go_tiled, &d, seconds, 9);
    if (c->T <= COST_PLAIN_MOST) c->plain = bench_measure(go_plain, &d, seconds, 9);
    desk_close(&d);
}

/* ---- what is left behind --------------------------------------------------------------------- */

static double milliseconds(timing t) { return t.samples ? 1e3 * t.median : NAN; }

static void put_time(kit_text *t, timing v)
{
    put_number(t, milliseconds(v));
    put_number(t, v.samples ? 1e3 * v.low : NAN);
    put_number(t, v.samples ? 1e3 * v.high : NAN);
}

static void cost_csv(kit_text *t, const cost *c)
{
    kit_csv_head(t, "tokens,tiled_ms,tiled_low,tiled_high,plain_ms,plain_low,plain_high,"
                    "tiled_bytes,plain_bytes,model_bytes,maps_bytes");
    for (int i = 0; i < COST_LENGTHS; i++) {
        kit_csv_int(t, c[i].T);
        put_time(t, c[i].tiled);
        put_time(t, c[i].plain);
        kit_csv_real(t, c[i].tiled_bytes, 0);
        kit_csv_real(t, c[i].plain_bytes, 0);
        kit_csv_real(t, c[i].model_bytes, 0);
        kit_csv_real(t, c[i].maps_bytes, 0);
        kit_csv_end(t);
    }
}

static void show_times(findings *f, const cost *c)
{
    drawing *d = drawing_new("Attention forward and backward", "tokens (logarithmic)",
                             "milliseconds (logarithmic)");
    drawing_line(d, "tiled", 0);
    for (int i = 0; i < COST_LENGTHS; i++) drawing_point(d, c[i].T, milliseconds(c[i].tiled));
    drawing_line(d, "plain", 0);
    for (int i = 0; i < COST_LENGTHS; i++) drawing_point(d, c[i].T, milliseconds(c[i].plain));
    d->chart.log_x = 2;
    d->chart.log_y = 10;
    show(f, d, "cost_time", "Causal, one text, 4 heads of 64 channels; medians.");
}

static void show_memory(findings *f, const cost *c)
{
    drawing *d = drawing_new("Memory", "tokens (logarithmic)", "megabytes (logarithmic)");
    static const char *const name[4] = { "one attention, tiled", "one attention, plain",
                                         "model of 16 layers", "its maps, if kept" };
    for (int l = 0; l < 4; l++) {
        drawing_line(d, name[l], 0);
        for (int i = 0; i < COST_LENGTHS; i++)
            drawing_point(d, c[i].T, 1e-6 * (l == 0 ? c[i].tiled_bytes : l == 1 ? c[i].plain_bytes
                                             : l == 2 ? c[i].model_bytes : c[i].maps_bytes));
    }
    d->chart.log_x = 2;
    d->chart.log_y = 10;
    show(f, d, "cost_memory", "By the sizes that the library asks for.");
}

static void table_cost(findings *f, const cost *c)
{
    static const char *const head[] = { "tokens",    "tiled, ms", "times the row above", "plain, ms",
                                        "tiled, MB", "plain, MB", "model, MB", "its maps, MB" };
    kit_cells t = kit_cells_new(1 + COST_LENGTHS, 8);
    put_head(&t, head);
    for (int i = 0; i < COST_LENGTHS; i++) {
        kit_cells_put(&t, i + 1, 0, "%d", c[i].T);
        kit_cells_put(&t, i + 1, 1, "%.3g", milliseconds(c[i].tiled));
        if (i == 0) kit_cells_put(&t, i + 1, 2, "-");
        else kit_cells_put(&t, i + 1, 2, "%.1f", c[i].tiled.median / c[i - 1].tiled.median);
        kit_cells_put(&t, i + 1, 3, c[i].plain.samples ? "%.3g" : "-", milliseconds(c[i].plain));
        kit_cells_put(&t, i + 1, 4, "%.2f", 1e-6 * c[i].tiled_bytes);
        kit_cells_put(&t, i + 1, 5, "%.2f", 1e-6 * c[i].plain_bytes);
        kit_cells_put(&t, i + 1, 6, "%.1f", 1e-6 * c[i].model_bytes);
        kit_cells_put(&t, i + 1, 7, "%.1f", 1e-6 * c[i].maps_bytes);
    }
    if (!f->study->set->quiet) kit_cells_print(&t);
    show_cells(f, &t);
}

/* From 2,048 to 4,096 tokens: fourfold is the square, twofold a line. */
static void tell_cost(findings *f, const cost *c)
{
    const cost *half = &c[COST_LENGTHS - 2], *whole = &c[COST_LENGTHS - 1];
    double time = milliseconds(whole->tiled) / milliseconds(half->tiled);
    double memory = whole->tiled_bytes / half->tiled_bytes;
    verdict v = judge(time, 3, 2.2), w = judge(memory, 3, 2.2);
    kit_report_text(&f->page,
                    "**\"The time of attention grows with the square of the length\" %s%s.** From "
                    "%d to %d tokens: %.1f times, tiled. The rule: 3 times or more, or no more "
                    "than 2.2.",
                    v == IN_PART ? "holds " : "", verdict_word(v), half->T, whole->T, time);
    kit_report_text(
        &f->page,
        "**\"Its memory does, too\" %s%s.** Tiled: %.1f times. A map of all pairs never has to "
        "exist (Dao et al. 2022); who keeps it pays %.0f MB for one layer at %d tokens.",
        w == IN_PART ? "holds " : "", verdict_word(w), memory, 1e-6 * whole->plain_bytes, whole->T);
    printf("%-14s time grows with the square: %.1f times from %d to %d\n", verdict_word(v), time,
           half->T, whole->T);
    printf("%-14s memory does, too: %.1f times\n", verdict_word(w), memory);
}

static int cost_report(findings *f, const cost *c)
{
    const settings *s = f->study->set;
    kit_text table = { NULL, 0, 0 };
    kit_error ignored;
    cost_csv(&table, c);
    if (!kit_save_in(s->out, "cost.csv", &table, f->why)) f->failed = 1;
    kit_text_free(&table);
    kit_report_begin(&f->page, "What attention costs against the length");
    kit_report_text(&f->page,
                    "Median of %d samples, %s kernels, %d thread%s, on the machine this was made "
                    "on. Plain attention builds the map of all pairs and keeps it for the "
                    "backward, tiled attention never has it. The plain one is the definition in "
                    "scalar loops, which nobody made fast, and is not timed beyond %d tokens: how "
                    "both grow can be compared, not how high they stand.",
                    9, posenc_cpu_tier(), s->threads > 0 ? s->threads : posenc_threads(),
                    (s->threads > 0 ? s->threads : posenc_threads()) > 1 ? "s" : "", COST_PLAIN_MOST);
    show_times(f, c);
    show_memory(f, c);
    table_cost(f, c);
    tell_cost(f, c);
    kit_report_code(&f->page, "build/depth --cost");
    int saved = kit_report_save(&f->page, s->out, f->failed ? &ignored : f->why);
    return saved && !f->failed;
}

static int do_cost(const settings *s, kit_error *why)
{
    static findings f;
    static study none;
    cost c[COST_LENGTHS];
    kit_progress bar = kit_progress_begin("lengths", COST_LENGTHS, 0, s->quiet);
    none.set = s;
    f.study = &none;
    f.why = why;
    if (!kit_make_folders(s->out, why)) return FAILED;
    for (int i = 0; i < COST_LENGTHS && !kit_stopped(); i++) {
        memset(&c[i], 0, sizeof c[i]);
        c[i].T = COST_FIRST << i;
        kit_progress_at(&bar, i, "tiled beside plain");
        cost_memory(&c[i], s);
        cost_time(&c[i], s);
    }
    kit_progress_clear(&bar);
    return kit_stopped() ? STOPPED : cost_report(&f, c) ? DONE : FAILED;
}

#endif
