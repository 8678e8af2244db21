/* bench/tables.h - what was measured, as a table on the terminal, CSV, JSON and a report */
#ifndef BENCH_TABLES_H
#define BENCH_TABLES_H

#include "bench/results.h"
#include "kit/csv.h"
#include "kit/json.h"
#include "kit/report.h"

/* ---- groups ---------------------------------------------------------------------------------- */

typedef struct group { const char *prefix, *title, *says; } group;

static const group groups[] = {
    { "product/fp32", "Products, fp32",
      "MxKxN: M rows, K inputs, N outputs; 2 M K N operations. forward: y = x w', dx = dy w, "
      "dw += dy' x." },
    { "product/bf16", "Products, bf16",
      "The same shapes. Ours read and write fp32 and round inside; PyTorch's arrays are bf16 from "
      "the start, half the bytes." },
    { "rope", "Turning queries and keys",
      "q and k (8,16,2048,64), in place, half layout; tables ready. Each number counts as read "
      "once and written once; in place that is half the memory of a copy, so the share may be "
      "above 100 %. PyTorch has no such operation: it is put together from several." },
    { "attention", "Attention, forward and backward",
      "(8,16,1024,64), causal: 7 B H T T D operations, half of the whole map. bias: a learned "
      "number for each head and distance, and its gradient." },
    { "rows", "Rows",
      "4096 x 512 numbers, cross-entropy 512 x 65536, embedding from a table of 65536 rows. Every "
      "array counts once for each time it must be read or written. Forward only, but "
      "layernorm_backward; cross-entropy gives loss and gradient." },
    { "step/pattern", "Training steps: pattern",
      "`build/pattern train --pe learned` with its defaults: batch 32, 32 tokens, 3 layers of 128 "
      "channels, dropout 0.1; pattern_plain has no dropout." },
    { "step/marker", "Training steps: marker",
      "`build/marker train` with its fair blocks: batch 32, 64 tokens, 64 channels, depth 1, 4 and "
      "16; sinusoidal, or rope." },
    { "step/micro", "Training steps: language model, micro",
      "256 bytes of context, batch 16, 4 layers of 256 channels, SwiGLU, RMSNorm, QK-norm, tied "
      "head, rope." },
    { "step/tiny", "Training steps: language model, tiny",
      "1024 tokens of 65536, batch 4, 6 layers of 512 channels, the rest as micro." },
    { "decode", "Writing a token",
      "tiny, one text, a cache of 128 slots. Bytes are those of the weights, each read once: 4 of a "
      "weight in fp32, 2 in bf16." }
};
enum { GROUPS = sizeof groups / sizeof groups[0] };

/* The results of a group lie side by side: the first of them and how many. */
static int group_results(const results *r, const group *g, int *first)
{
    int n = 0;
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->result[i].work->group, g->prefix) != 0) continue;
        if (n++ == 0) *first = i;
    }
    return n;
}

/* ---- cells ----------------------------------------------------------------------------------- */

enum { OF_PEAK = 4, OURS = 5, COLUMNS = 11, CELL = 80 };  /* OURS: columns without PyTorch */
typedef char cell_text[CELL];

static const char *const headings[COLUMNS] = {
    "work", "ms", "low - high", "rate", "of peak",
    "PyTorch ms", "best ms", "best is", "best/ours", "low - high", "default/ours"
};

/* digits after the point, so that about four count */
static int digits_of(double v) { return v < 0.1 ? 4 : v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0; }

static void say_number(cell_text c, double v, const char *unit)
{
    c[0] = 0;
    if (isfinite(v)) snprintf(c, CELL, "%.*f%s", digits_of(v), v, unit);
}

static void say_range(cell_text c, double low, double high)
{
    c[0] = 0;
    if (isfinite(low) && isfinite(high))
        snprintf(c, CELL, "%.*f - %.*f", digits_of(low), low, digits_of(high), high);
}

static void say_rate(cell_text c, const result *r)
{
    char count[32];
    double rate = rate_of(r);
    c[0] = 0;
    if (!isfinite(rate)) return;
    if (r->work->unit == OPERATIONS) say_number(c, rate * 1e-9, " GFLOP/s");
    if (r->work->unit == BYTES) say_number(c, rate * 1e-9, " GB/s");
    if (r->work->unit != TOKENS) return;
    kit_say_count(count, (size_t)(rate + 0.5));
    snprintf(c, CELL, "%s tokens/s", count);
}

static void say_torch(cell_text c[COLUMNS], const result *r)
{
    const variant *plain = default_variant(r), *best = best_variant(r);
    if (r->ours.samples == 0) return;
    if (plain) say_number(c[5], plain->median * 1e3, "");
    if (best) say_number(c[6], best->median * 1e3, "");
    if (best) snprintf(c[7], CELL, "%s", best->name);
    if (best) snprintf(c[8], CELL, "%.2f", times_faster(r, best));
    if (best) snprintf(c[9], CELL, "%.2f - %.2f", times_low(r, best), times_high(r, best));
    if (plain) snprintf(c[10], CELL, "%.2f", times_faster(r, plain));
}

static void say_result(cell_text c[COLUMNS], const result *r)
{
    memset(c, 0, COLUMNS * sizeof *c);
    snprintf(c[0], CELL, "%s", r->work->name);
    if (r->ours.samples) say_number(c[1], r->ours.median * 1e3, "");
    if (r->ours.samples) say_range(c[2], r->ours.low * 1e3, r->ours.high * 1e3);
    say_rate(c[3], r);
    if (isfinite(share_of(r))) snprintf(c[4], CELL, "%.0f %%", 100 * share_of(r));
    say_torch(c, r);
    if (r->wrong[0]) snprintf(c[3], CELL, "failed, see below");
}

/* With PyTorch beside it in a group: does any of its results have it? */
static int has_torch(const result *r, int count)
{
    for (int i = 0; i < count; i++) if (r[i].variants) return 1;
    return 0;
}

/* what the shares of a group are taken of */
static void say_peak(kit_text *t, const result *r, int count)
{
    double low = HUGE_VAL, high = 0;
    for (int i = 0; i < count; i++) {
        low = fmin(low, r[i].peak * 1e-9);
        high = fmax(high, r[i].peak * 1e-9);
    }
    if (high <= 0) kit_put_string(t, "no peak measured");
    else if (r->work->unit != BYTES) kit_put(t, "peak just before: %.1f GFLOP/s", high);
    else if (low == high) kit_put(t, "copy of as many bytes: %.1f GB/s", high);
    else kit_put(t, "copies of as many bytes: %.1f to %.1f GB/s", low, high);
}

/* ---- on the terminal ------------------------------------------------------------------------- */

static int is_flush_left(int column) { return column == 0 || column == 7; }

static void print_line(cell_text c[COLUMNS], const int wide[COLUMNS], int columns)
{
    for (int i = 0; i < columns; i++) {
        int width = is_flush_left(i) ? -wide[i] : wide[i];
        printf("  %*s", width, c[i]);
    }
    printf("\n");
}

static void print_group(const result *r, int count, const char *title)
{
    cell_text head[COLUMNS], cell[COLUMNS];
    kit_text peak = { NULL, 0, 0 };
    int wide[COLUMNS], columns = has_torch(r, count) ? COLUMNS : OURS;
    for (int c = 0; c < COLUMNS; c++) {
        snprintf(head[c], CELL, "%s", headings[c]);
        wide[c] = (int)strlen(headings[c]);
    }
    for (int i = 0; i < count; i++) {
        say_result(cell, &r[i]);
        for (int c = 0; c < COLUMNS; c++)
            if ((int)strlen(cell[c]) > wide[c]) wide[c] = (int)strlen(cell[c]);
    }
    say_peak(&peak, r, count);
    printf("\n%s (%s)\n", title, peak.data);
    print_line(head, wide, columns);
    for (int i = 0; i < count; i++) {
        say_result(cell, &r[i]);
        print_line(cell, wide, columns);
    }
    kit_text_free(&peak);
}

static const char *const torch_legend =
    "best/ours: PyTorch's best time over ours, above 1 posenc.h is faster; low - high: quickest "
    "sample\nof the one against slowest of the other. default: eager. +malloc: malloc keeps its "
    "memory. +bytes:\ndropout by random bytes.";

static void print_results(const results *r)
{
    kit_text line = { NULL, 0, 0 };
    int first = 0;
    machine_say(&line, &r->machine);
    printf("%s\n", line.data);
    if (r->torch[0]) printf("%s\n", r->torch);
    for (int g = 0; g < GROUPS; g++) {
        int n = group_results(r, &groups[g], &first);
        if (n > 0) print_group(&r->result[first], n, groups[g].title);
    }
    if (r->torch[0]) printf("\n%s\n", torch_legend);
    if (r->remarks.size) printf("\n%s", r->remarks.data);
    kit_text_free(&line);
}

/* ---- CSV and JSON ---------------------------------------------------------------------------- */

static const char *const unit_names[] = { "operations", "bytes", "tokens" };

static void csv_row(kit_text *t, const result *r, const machine *m)
{
    const variant *plain = default_variant(r), *best = best_variant(r);
    double ms = r->ours.samples ? 1e3 : NAN;
    kit_csv_text(t, r->work->name);
    kit_csv_text(t, m->tier);
    kit_csv_int(t, m->threads);
    kit_csv_text(t, unit_names[r->work->unit]);
    kit_csv_real(t, r->work->amount, 0);
    kit_csv_real(t, ms * r->ours.median, 6);
    kit_csv_real(t, ms * r->ours.low, 6);
    kit_csv_real(t, ms * r->ours.high, 6);
    kit_csv_int(t, r->ours.samples);
    kit_csv_int(t, r->ours.repetitions);
    kit_csv_real(t, rate_of(r), 0);
    kit_csv_real(t, r->peak > 0 ? r->peak : NAN, 0);
    kit_csv_real(t, share_of(r), 4);
    kit_csv_real(t, plain ? 1e3 * plain->median : NAN, 6);
    kit_csv_real(t, best ? 1e3 * best->median : NAN, 6);
    kit_csv_text(t, best ? best->name : "");
    kit_csv_real(t, times_faster(r, best), 4);
    kit_csv_real(t, times_low(r, best), 4);
    kit_csv_real(t, times_high(r, best), 4);
    kit_csv_real(t, times_faster(r, plain), 4);
    kit_csv_text(t, r->wrong);
    kit_csv_end(t);
}

static int save_csv(const results *r, const char *folder, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "work,tier,threads,unit,amount,ms,ms_low,ms_high,samples,repetitions,"
                 "per_second,peak,of_peak,torch_ms,torch_best_ms,torch_best,best_over_ours,"
                 "best_over_ours_low,best_over_ours_high,default_over_ours,wrong");
    for (int i = 0; i < r->count; i++) csv_row(&t, &r->result[i], &r->machine);
    int done = kit_save_in(folder, "bench.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static void json_machine(kit_text *t, const machine *m)
{
    kit_json_open(t, "machine", '{');
    kit_json_text(t, "cpu", m->cpu);
    kit_json_text(t, "tier", m->tier);
    kit_json_text(t, "bf16", m->bf16);
    kit_json_int(t, "threads", m->threads);
    kit_json_text(t, "wait", m->wait);
    kit_json_text(t, "compiler", m->compiler);
    kit_json_real(t, "peak", m->peak);
    kit_json_real(t, "peak_bf16", m->peak_bf16 > 0 ? m->peak_bf16 : NAN);
    kit_json_real(t, "copy", m->copy);
    kit_json_close(t, '}');
}

static void json_seconds(kit_text *t, double median, double low, double high)
{
    kit_json_real(t, "median", median);
    kit_json_real(t, "low", low);
    kit_json_real(t, "high", high);
}

static void json_torch(kit_text *t, const result *r)
{
    const variant *plain = default_variant(r), *best = best_variant(r);
    kit_json_open(t, "torch", '[');
    for (int i = 0; i < r->variants; i++) {
        const variant *v = &r->variant[i];
        kit_json_open(t, NULL, '{');
        kit_json_text(t, "variant", v->name);
        json_seconds(t, v->median, v->low, v->high);
        kit_json_close(t, '}');
    }
    kit_json_close(t, ']');
    if (!best) return;
    kit_json_text(t, "torch_best", best->name);
    kit_json_real(t, "best_over_ours", times_faster(r, best));
    kit_json_real(t, "best_over_ours_low", times_low(r, best));
    kit_json_real(t, "best_over_ours_high", times_high(r, best));
    kit_json_real(t, "default_over_ours", times_faster(r, plain));
}

static void json_result(kit_text *t, const result *r)
{
    kit_json_open(t, NULL, '{');
    kit_json_text(t, "work", r->work->name);
    kit_json_text(t, "unit", unit_names[r->work->unit]);
    kit_json_real(t, "amount", r->work->amount);
    if (r->ours.samples) {
        kit_json_open(t, "seconds", '{');
        json_seconds(t, r->ours.median, r->ours.low, r->ours.high);
        kit_json_close(t, '}');
    }
    kit_json_int(t, "samples", r->ours.samples);
    kit_json_int(t, "repetitions", r->ours.repetitions);
    kit_json_real(t, "per_second", rate_of(r));
    kit_json_real(t, "peak", r->peak > 0 ? r->peak : NAN);
    kit_json_real(t, "of_peak", share_of(r));
    if (r->variants) json_torch(t, r);
    if (r->wrong[0]) kit_json_text(t, "wrong", r->wrong);
    kit_json_close(t, '}');
}

static int save_json(const results *r, const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_json_open(&t, NULL, '{');
    kit_json_text(&t, "posenc", POSENC_VERSION_STRING);
    kit_json_text(&t, "command", s->command.data);
    kit_json_text(&t, "torch", r->torch);
    json_machine(&t, &r->machine);
    kit_json_open(&t, "works", '[');
    for (int i = 0; i < r->count; i++) {
        if (i) kit_put_string(&t, ",");
        kit_json_line(&t);
        json_result(&t, &r->result[i]);
    }
    kit_put_string(&t, "\n]}\n");
    int done = kit_save_in(s->out, "bench.json", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* some of the columns; the share of the peak is drawn as a bar where it is among them */
static void report_columns(kit_report *p, const result *r, int count, const int *column,
                           int columns)
{
    cell_text (*cell)[COLUMNS] = (cell_text (*)[COLUMNS])kit_new((size_t)count, sizeof *cell);
    const char *words[BENCH_WORKS * COLUMNS], *head[COLUMNS];
    double share[BENCH_WORKS];
    kit_table table = { head, words, count, columns, 0, share };
    for (int c = 0; c < columns; c++) {
        head[c] = headings[column[c]];
        if (column[c] == OF_PEAK) table.bar_column = c;
    }
    for (int i = 0; i < count; i++) {
        say_result(cell[i], &r[i]);
        share[i] = share_of(&r[i]);
        for (int c = 0; c < columns; c++) words[i * columns + c] = cell[i][column[c]];
    }
    kit_report_table(p, &table);
    free(cell);
}

static void report_group(kit_report *p, const result *r, int count)
{
    static const int ours[] = { 0, 1, 2, 3, 4 }, torch[] = { 0, 8, 9, 10, 6, 7, 5 };
    kit_text peak = { NULL, 0, 0 };
    say_peak(&peak, r, count);
    kit_report_text(p, "%c%s.", toupper((unsigned char)peak.data[0]), peak.data + 1);
    report_columns(p, r, count, ours, 5);
    if (has_torch(r, count)) report_columns(p, r, count, torch, 7);
    kit_text_free(&peak);
}

static void report_opening(kit_report *p, const results *r, const settings *s)
{
    kit_text line = { NULL, 0, 0 };
    machine_say(&line, &r->machine);
    kit_report_text(p, "%s.", line.data);
    kit_report_text(p, "Times are the median of %d samples, each of as many repetitions as fill "
                    "%.3g s; low and high are the quickest and the slowest sample. The peak is a "
                    "loop of multiply-adds in registers on all threads, or the copy of as many "
                    "bytes, both measured just before; a step's share counts its products and "
                    "attention only.", s->repeats, s->seconds / s->repeats);
    if (r->torch[0])
        kit_report_text(p, "Beside it the same works in PyTorch (%s), each group right after ours, "
                        "twice: with the system's malloc as it is, and with one that keeps its "
                        "memory (`+malloc`)%s. Default is eager, as it comes; best is the fastest "
                        "of all; `+bytes` has dropout by random bytes, written in PyTorch. "
                        "**best/ours** above 1: posenc.h is faster. Its low - high are the "
                        "quickest sample of the one against the slowest of the other.",
                        r->torch, s->compile ? ", and compiled as well" : "");
    kit_text_free(&line);
}

static void report_remarks(kit_report *p, const results *r)
{
    for (const char *at = r->remarks.data; at && *at; at += strcspn(at, "\n") + 1)
        kit_report_text(p, "%.*s", (int)strcspn(at, "\n"), at);
}

static int save_report(const results *r, const settings *s, kit_error *why)
{
    kit_report p;
    int first = 0;
    kit_report_begin(&p, "How fast is posenc.h here?");
    report_opening(&p, r, s);
    report_remarks(&p, r);
    for (int g = 0; g < GROUPS; g++) {
        int n = group_results(r, &groups[g], &first);
        if (n == 0) continue;
        kit_report_heading(&p, groups[g].title);
        kit_report_text(&p, "%s", groups[g].says);
        report_group(&p, &r->result[first], n);
    }
    kit_report_heading(&p, "The same again");
    kit_report_code(&p, s->command.data);
    return kit_report_save(&p, s->out, why);
}

#endif
