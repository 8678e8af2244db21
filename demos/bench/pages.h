/* bench/pages.h - the output of scaling: charts, tables, CSV, JSON and a report */
#ifndef BENCH_PAGES_H
#define BENCH_PAGES_H

#include "bench/costs.h"
#include "bench/tables.h"

static int study_points(const study *s)
{
    int n = 0;
    for (int i = 0; i < s->lines; i++) n += s->line[i].n;
    return n;
}

/* ---- charts ---------------------------------------------------------------------------------- */

static void draw_study(kit_text *svg, const study *s)
{
    kit_series series[STUDY_LINES];
    kit_chart c;
    memset(&c, 0, sizeof c);
    for (int i = 0; i < s->lines; i++) {
        const study_line *l = &s->line[i];
        kit_series one = { l->name, l->x, l->y, l->n, l->plain };
        series[i] = one;
        for (int k = 0; k < l->n && !s->log_y; k++) c.y_high = fmax(c.y_high, 1.05 * l->y[k]);
    }
    c.title = s->title;
    c.x_label = s->x_label;
    c.y_label = s->y_label;
    c.series = series;
    c.count = s->lines;
    c.log_x = 2;
    c.log_y = s->log_y;
    kit_chart_svg(svg, &c);
}

/* at how many lengths an encoding was measured; none is the measure and has no row of its own */
static int cost_count(const costs *all, int e)
{
    int n = 0;
    for (int at = 0; at < COST_LENGTHS; at++) n += isfinite(all->at[e][at].ratio) != 0;
    return e == POSENC_NONE ? 0 : n;
}

static int any_cost(const costs *all)
{
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) if (cost_count(all, e)) return 1;
    return 0;
}

static void draw_costs(kit_text *svg, const costs *all)
{
    const char *name[POSENC_ENCODING_COUNT];
    static const char *const column[COST_LENGTHS] = { "32", "512", "4096" };
    double value[POSENC_ENCODING_COUNT * COST_LENGTHS], most = 1.5;
    int rows = 0;
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        if (cost_count(all, e) == 0) continue;
        for (int at = 0; at < COST_LENGTHS; at++) {
            value[rows * COST_LENGTHS + at] = all->at[e][at].ratio;
            most = fmax(most, all->at[e][at].ratio);       /* which passes over what is NAN */
        }
        name[rows++] = posenc_encoding_get(e)->name;
    }
    kit_heat h = { "Time of a step, none = 1", "tokens in a text", name, column, value, rows,
                   COST_LENGTHS, 1, most };
    kit_heat_svg(svg, &h);
}

/* ---- CSV and JSON ---------------------------------------------------------------------------- */

/* Megabytes in the study of memory, tokens in a second in the others. */
static double point_value(const study_line *l, int i)
{
    return l->time[i].samples ? 1e3 * l->y[i] : l->y[i];
}

static int save_points(const scaling *a, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "study,line,x,value,step_ms,step_ms_low,step_ms_high");
    for (int k = 0; k < STUDIES; k++)
        for (int i = 0; i < a->study[k].lines; i++)
            for (int n = 0; n < a->study[k].line[i].n; n++) {
                const study_line *l = &a->study[k].line[i];
                double ms = l->time[n].samples ? 1e3 : NAN;
                kit_csv_text(&t, a->study[k].slug);
                kit_csv_text(&t, l->name);
                kit_csv_real(&t, l->x[n], 0);
                kit_csv_real(&t, point_value(l, n), 3);
                kit_csv_real(&t, ms * l->time[n].median, 6);
                kit_csv_real(&t, ms * l->time[n].low, 6);
                kit_csv_real(&t, ms * l->time[n].high, 6);
                kit_csv_end(&t);
            }
    int done = kit_save_in(a->set->out, "scaling.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static int save_costs(const scaling *a, const costs *all, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "encoding,length,ratio,ratio_low,ratio_high,tokens_per_second");
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++)
        for (int at = 0; at < COST_LENGTHS; at++) {
            const cost *c = &all->at[e][at];
            kit_csv_text(&t, posenc_encoding_get(e)->name);
            kit_csv_int(&t, cost_lengths[at]);
            kit_csv_real(&t, c->ratio, 4);
            kit_csv_real(&t, c->low, 4);
            kit_csv_real(&t, c->high, 4);
            kit_csv_real(&t, c->tokens, 0);
            kit_csv_end(&t);
        }
    int done = kit_save_in(a->set->out, "costs.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static void json_point(kit_text *t, const study *s, const study_line *l, int n)
{
    kit_json_open(t, NULL, '{');
    kit_json_text(t, "study", s->slug);
    kit_json_text(t, "line", l->name);
    kit_json_real(t, "x", l->x[n]);
    kit_json_real(t, l->time[n].samples ? "tokens_per_second" : "megabytes", point_value(l, n));
    if (l->time[n].samples) {
        kit_json_open(t, "seconds", '{');
        json_seconds(t, l->time[n].median, l->time[n].low, l->time[n].high);
        kit_json_close(t, '}');
    }
    kit_json_close(t, '}');
}

static void json_cost(kit_text *t, const costs *all, int e)
{
    kit_json_open(t, NULL, '{');
    kit_json_text(t, "encoding", posenc_encoding_get(e)->name);
    kit_json_open(t, "ratio", '[');
    for (int at = 0; at < COST_LENGTHS; at++) kit_json_real(t, NULL, all->at[e][at].ratio);
    kit_json_close(t, ']');
    kit_json_open(t, "tokens_per_second", '[');
    for (int at = 0; at < COST_LENGTHS; at++) kit_json_real(t, NULL, all->at[e][at].tokens);
    kit_json_close(t, ']');
    if (all->wrong[e][0]) kit_json_text(t, "wrong", all->wrong[e]);
    kit_json_close(t, '}');
}

static int save_scaling_json(const scaling *a, const costs *all, const machine *m, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_json_open(&t, NULL, '{');
    kit_json_text(&t, "posenc", POSENC_VERSION_STRING);
    kit_json_text(&t, "command", a->set->command.data);
    json_machine(&t, m);
    kit_json_open(&t, "points", '[');
    for (int k = 0; k < STUDIES; k++)
        for (int i = 0; i < a->study[k].lines; i++)
            for (int n = 0; n < a->study[k].line[i].n; n++)
                json_point(&t, &a->study[k], &a->study[k].line[i], n);
    kit_json_close(&t, ']');
    kit_json_open(&t, "lengths", '[');
    for (int at = 0; at < COST_LENGTHS; at++) kit_json_int(&t, NULL, cost_lengths[at]);
    kit_json_close(&t, ']');
    kit_json_open(&t, "costs", '[');
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) json_cost(&t, all, e);
    kit_put_string(&t, "]}\n");
    int done = kit_save_in(a->set->out, "scaling.json", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the terminal and the report ------------------------------------------------------------- */

enum { COST_COLUMNS = 1 + 2 * COST_LENGTHS };
static const char *const cost_headings[COST_COLUMNS] = {
    "encoding", "T = 32", "low - high", "T = 512", "low - high", "T = 4096", "low - high"
};

static void say_cost(cell_text cell[COST_COLUMNS], const costs *all, int e)
{
    memset(cell, 0, COST_COLUMNS * sizeof *cell);
    snprintf(cell[0], CELL, "%s", posenc_encoding_get(e)->name);
    for (int at = 0; at < COST_LENGTHS; at++) {
        const cost *c = &all->at[e][at];
        if (!isfinite(c->ratio)) continue;
        snprintf(cell[1 + 2 * at], CELL, "%.2f", c->ratio);
        snprintf(cell[2 + 2 * at], CELL, "%.2f - %.2f", c->low, c->high);
    }
}

static void print_costs(const costs *all)
{
    cell_text cell[COST_COLUMNS];
    if (!any_cost(all)) return;
    printf("\nTime of a step, none = 1\n  %-16s %7s %13s %7s %13s %7s %13s\n", cost_headings[0],
           cost_headings[1], cost_headings[2], cost_headings[3], cost_headings[4],
           cost_headings[5], cost_headings[6]);
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        if (cost_count(all, e) == 0) continue;
        say_cost(cell, all, e);
        printf("  %-16s %7s %13s %7s %13s %7s %13s\n", cell[0], cell[1], cell[2], cell[3], cell[4],
               cell[5], cell[6]);
    }
}

/* a row for each x, a column for each line */
static void print_study(const study *s)
{
    const study_line *most = &s->line[0];
    if (study_points(s) == 0) return;
    printf("\n%s, %s\n  %-34s", s->title, s->y_label, s->x_label);
    for (int i = 0; i < s->lines; i++) printf(" %16s", s->line[i].name);
    for (int i = 1; i < s->lines; i++) if (s->line[i].n > most->n) most = &s->line[i];
    for (int n = 0; n < most->n; n++) {
        printf("\n  %-34g", most->x[n]);
        for (int i = 0; i < s->lines; i++)
            if (n < s->line[i].n) printf(" %16.1f", s->line[i].y[n]);
    }
    printf("\n");
}

static void print_scaling(const scaling *a, const costs *all, const machine *m)
{
    kit_text line = { NULL, 0, 0 };
    machine_say(&line, m);
    printf("%s\n", line.data);
    for (int k = 0; k < STUDIES; k++) print_study(&a->study[k]);
    print_costs(all);
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++)
        if (all->wrong[e][0]) printf("%s %s\n", posenc_encoding_get(e)->name, all->wrong[e]);
    if (a->remarks.size) printf("\n%s", a->remarks.data);
    kit_text_free(&line);
}

static int report_study(kit_report *p, const study *s, const char *folder, kit_error *why)
{
    kit_text svg = { NULL, 0, 0 };
    char file[64];
    if (study_points(s) == 0) return 1;
    draw_study(&svg, s);
    snprintf(file, sizeof file, "%s.svg", s->slug);
    kit_report_heading(p, s->title);
    kit_report_text(p, "%s", s->says);
    kit_report_svg(p, &svg, file, s->title, "");
    int done = kit_save_in(folder, file, &svg, why);
    kit_text_free(&svg);
    return done;
}

static void report_cost_table(kit_report *p, const costs *all)
{
    static cell_text cell[POSENC_ENCODING_COUNT][COST_COLUMNS];
    const char *words[POSENC_ENCODING_COUNT * COST_COLUMNS];
    kit_table table = { cost_headings, words, 0, COST_COLUMNS, 0, NULL };
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        if (cost_count(all, e) == 0) continue;
        say_cost(cell[e], all, e);
        for (int c = 0; c < COST_COLUMNS; c++) words[table.rows * COST_COLUMNS + c] = cell[e][c];
        table.rows++;
    }
    kit_report_table(p, &table);
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++)
        if (all->wrong[e][0])
            kit_report_text(p, "`%s` %s", posenc_encoding_get(e)->name, all->wrong[e]);
}

static int report_costs(kit_report *p, const costs *all, const char *folder, kit_error *why)
{
    kit_text svg = { NULL, 0, 0 };
    if (!any_cost(all)) return 1;
    draw_costs(&svg, all);
    kit_report_heading(p, "What an encoding costs");
    kit_report_text(p, "The time of a training step with each encoding, as a multiple of the same "
                    "step without any: causal, 2 layers, 64 channels, 4 heads, 4096 tokens in a "
                    "step. Models take turns, and the ratio is the median over the turns; low and "
                    "high tell how far it can be trusted.");
    kit_report_svg(p, &svg, "costs.svg", "heat table of the costs of each encoding", "");
    report_cost_table(p, all);
    int done = kit_save_in(folder, "costs.svg", &svg, why);
    kit_text_free(&svg);
    return done;
}

static int save_scaling_report(const scaling *a, const costs *all, const machine *m, kit_error *why)
{
    kit_report p;
    kit_text line = { NULL, 0, 0 };
    kit_error ignored;
    const char *out = a->set->out;
    int done = 1;
    machine_say(&line, m);
    kit_report_begin(&p, "How does posenc.h scale here?");
    kit_report_text(&p, "%s. Whole training steps, the median of %d samples.", line.data,
                    a->set->repeats);
    for (int k = 0; k < STUDIES && done; k++) done = report_study(&p, &a->study[k], out, why);
    done = done && report_costs(&p, all, out, why);
    kit_report_heading(&p, "The same again");
    kit_report_code(&p, a->set->command.data);
    kit_text_free(&line);
    return kit_report_save(&p, out, done ? why : &ignored) && done;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void run_studies(scaling *a, costs *all)
{
    long costs_count = COST_LENGTHS * POSENC_ENCODING_COUNT;
    a->bar = kit_progress_begin("scaling", study_count(a->set) + costs_count, 0, a->set->quiet);
    study_memory(a);
    study_length(a);
    study_batch(a);
    study_width(a);
    study_threads(a);
    measure_costs(a, all);
    kit_progress_clear(&a->bar);
}

static int do_scaling(machine *m, const settings *s, kit_error *why)
{
    static scaling a;
    static costs all;
    a.set = s;
    m->copy = bench_copy_rate(COPY_BYTES, 0.3);
    machine_seen(m, bench_peak_of(bench_fp32_loop(), PEAK_SECONDS), 0);
    run_studies(&a, &all);
    machine_seen(m, bench_peak_of(bench_fp32_loop(), PEAK_SECONDS), 0);
    print_scaling(&a, &all, m);
    int done = save_points(&a, why) && save_costs(&a, &all, why)
            && save_scaling_json(&a, &all, m, why) && save_scaling_report(&a, &all, m, why);
    kit_text_free(&a.remarks);
    return !done ? FAILED : kit_stopped() ? STOPPED : DONE;
}

#endif
