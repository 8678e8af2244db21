/* lm/run_report.h - `lm report FOLDER`: report.html and report.md of a run

   From metrics.jsonl and config.yaml alone, so that it can be made during a run, after a crash and
   on another machine. Every key is read into a series that never has more than LM_POINTS places:
   when they are used up, neighbours become one and each place stands for twice as many lines. What
   a run did not measure has no chart. Include posenc.h first. */
#ifndef LM_RUN_REPORT_H
#define LM_RUN_REPORT_H

#include "kit/args.h"
#include "kit/cells.h"
#include "kit/training.h"
#include "live.h"
#include "metrics.h"

enum {
    LM_POINTS = 512,                       /* of a series; a chart shows at most half as many     */
    LM_LAYERS = 64,                        /* per-layer norms that are read                       */
    LM_MARKS = 32,                         /* branches and changes of stage                       */
    LM_CONFIG_BYTES = 1 << 20
};

/* ---- a series -------------------------------------------------------------------------------- */

typedef struct lm_place { double x, y; } lm_place;          /* means of tokens and of values      */

typedef struct lm_series {
    lm_place at[LM_POINTS], sum;           /* sum: of the place under way                         */
    int n, since, every;
    long count, missing;                   /* numbers, and nulls, in all                          */
    double last, low, high, low_x, high_x, missing_x;
} lm_series;

static inline void lm__series_place(lm_series *s, lm_place p)
{
    s->at[s->n++] = p;
    if (s->n < LM_POINTS) return;
    for (int i = 0; i < LM_POINTS / 2; i++) {
        const lm_place *a = &s->at[2 * i], *b = a + 1;
        lm_place one = { 0.5 * (a->x + b->x), 0.5 * (a->y + b->y) };
        s->at[i] = one;
    }
    s->n = LM_POINTS / 2;
    s->every *= 2;
}

static inline void lm__series_flush(lm_series *s)
{
    if (!s->since) return;
    lm_place p = { s->sum.x / s->since, s->sum.y / s->since };
    s->since = 0;
    lm__series_place(s, p);
}

static inline void lm__series_add(lm_series *s, double x, double y)
{
    if (s->count == 0) s->every = 1;
    if (s->count == 0 || y < s->low) { s->low = y; s->low_x = x; }
    if (s->count == 0 || y > s->high) { s->high = y; s->high_x = x; }
    s->last = y;
    s->count++;
    if (s->since == 0) s->sum.x = s->sum.y = 0;
    s->sum.x += x;
    s->sum.y += y;
    if (++s->since == s->every) lm__series_flush(s);
}

static inline void lm__series_miss(lm_series *s, double x)
{
    if (s->missing++ == 0) s->missing_x = x;
}

/* ---- what is read ---------------------------------------------------------------------------- */

enum { LM__TRAIN_LOSS, LM__VAL_LOSS, LM__LR, LM__GRAD_NORM, LM__GRAD_MEAN, LM__GRAD_STD,
       LM__GRAD_MAX, LM__RATIO, LM__WEIGHTS, LM__TOKENS_SEC, LM__SHARE, LM__STEP_MS, LM__DATA_MS,
       LM__LOGITS_MEAN, LM__LOGITS_STD, LM__LOGITS_MIN, LM__LOGITS_MAX, LM__ENTROPY, LM__STEP,
       LM__STAGE, LM__BRANCH, LM__DECAYED, LM__READY, LM__KEYS };

static const char *const lm__key[LM__KEYS] = {
    "train/loss", "val/loss", "train/lr", "train/grad_norm", "grad/mean", "grad/std", "grad/max",
    "grad/update_norm_ratio", "param/weight_norm", "train/tokens_per_sec", "train/mfu",
    "time/step_ms", "time/data_ms", "train/logits_mean", "train/logits_std", "train/logits_min",
    "train/logits_max", "train/entropy", "train/step", "wsd/stage", "wsd/branch_tokens",
    "wsd/decay_progress_pct", "wsd/ready_for_decay"
};

/* a branch is left behind here, or the decay begins */
typedef struct lm_mark { double x; int decay; } lm_mark;

typedef struct lm_history {
    lm_series key[LM__KEYS], layer[LM_LAYERS];
    lm_mark mark[LM_MARKS];
    int layers, marks;                     /* layers: one past the highest that is there          */
    long lines;
    uint64_t tokens;                       /* of the last line                                    */
    int decayed;                           /* 1: a decay has begun                                */
} lm_history;

/* In the order of their places; the same place may be told on every line. */
static inline void lm__mark(lm_history *h, double x, int decay)
{
    for (int i = 0; i < h->marks; i++)
        if (h->mark[i].decay == decay && fabs(h->mark[i].x - x) <= 1e-9 * x) return;
    if (h->marks == LM_MARKS || !(x > 0)) return;
    int i = h->marks++;
    for (; i > 0 && h->mark[i - 1].x > x; i--) h->mark[i] = h->mark[i - 1];
    h->mark[i].x = x;
    h->mark[i].decay = decay;
}

/* seen: the last four keys on one line, NaN where they were not. A run whose stage is 2 is a branch
   itself: its decay began where it left its parent. Any other decays where it has progressed. */
static inline void lm__note_stages(lm_history *h, const double *seen)
{
    double x = (double)h->tokens, stage = seen[0], left = seen[LM__BRANCH - LM__STAGE];
    int branch = stage == 2, decays = branch || seen[LM__DECAYED - LM__STAGE] > 0;
    if (isfinite(seen[LM__READY - LM__STAGE])) lm__mark(h, x, 0);
    if (!decays || h->decayed) return;
    lm__mark(h, branch && isfinite(left) ? left : x, 1);
    h->decayed = 1;
}

/* "grad/layer_7_norm" as 7, anything else as -1 */
static inline int lm__layer_of(const char *key)
{
    int layer = -1, used = 0;
    if (sscanf(key, "grad/layer_%2d_norm%n", &layer, &used) != 1 || key[used] || !used) return -1;
    return layer >= 0 && layer < LM_LAYERS ? layer : -1;
}

static inline lm_series *lm__series_of(lm_history *h, const char *key, int *which)
{
    for (*which = 0; *which < LM__KEYS; ++*which)
        if (strcmp(key, lm__key[*which]) == 0) return &h->key[*which];
    int layer = lm__layer_of(key);
    if (layer >= h->layers) h->layers = layer + 1;
    return layer < 0 ? NULL : &h->layer[layer];
}

/* Keys that no chart is made of may hold anything. */
static inline int lm__history_line(lm_history *h, const kit_json *d, const lm_lines *r,
                                   kit_error *why)
{
    double x = (double)h->tokens, seen[LM__KEYS - LM__STAGE];
    for (int i = 0; i < LM__KEYS - LM__STAGE; i++) seen[i] = NAN;
    for (const kit_json_node *k = kit_json_first(d->node); k; k = kit_json_next(d->node, k)) {
        const kit_json_node *value = kit_json_value(k);
        double v;
        int which;
        lm_series *s = lm__series_of(h, k->as.text, &which);
        if (!s) continue;
        if (value->type == KIT_JSON_NULL) { lm__series_miss(s, x); continue; }
        if (!kit_json_to_real(value, &v))
            return kit_fail(why, "%.300s, line %ld: %.60s is %s, expected a number or null",
                            r->path, r->number, k->as.text, kit_json_type_name(value->type));
        lm__series_add(s, x, v);
        if (which >= LM__STAGE && which < LM__KEYS) seen[which - LM__STAGE] = v;
    }
    lm__note_stages(h, seen);
    return 1;
}

static inline int lm__history_next(lm_history *h, const lm_lines *r, kit_error *why)
{
    kit_json d;
    uint64_t before = h->tokens;
    int good = lm_line_read(&d, &h->tokens, r, why);
    if (good && h->tokens < before)
        good = kit_fail(why, "%.300s, line %ld: tokens go back from %" PRIu64 " to %" PRIu64,
                        r->path, r->number, before, h->tokens);
    good = good && lm__history_line(h, &d, r, why);
    kit_json_free(&d);
    h->lines += good;
    return good;
}

static inline int lm_history_read(lm_history *h, const char *path, kit_error *why)
{
    lm_lines r;
    int got;
    if (!lm_lines_open(&r, path, why)) return 0;
    while ((got = lm_lines_next(&r, why)) > 0)
        if (!lm__history_next(h, &r, why)) {
            got = -1;
            break;
        }
    lm_lines_close(&r);
    for (int i = 0; i < LM__KEYS; i++) lm__series_flush(&h->key[i]);
    for (int i = 0; i < LM_LAYERS; i++) lm__series_flush(&h->layer[i]);
    return got == 0;
}

/* ---- charts ---------------------------------------------------------------------------------- */

static inline void lm__say_place(char text[32], double tokens)
{
    kit_say_count(text, !(tokens > 0) ? 0 : tokens < 1e19 ? (size_t)tokens : (size_t)-1);
}

enum { LM_LINES = 10, LM_SHOWN = 200 };    /* lines of a chart, places of a line                  */

/* of the upright axis: from the lowest value; from 0; from 0 but logarithmic where the largest is
   more than twenty times the smallest */
typedef enum lm__scale { LM__FROM_LOWEST, LM__FROM_ZERO, LM__WIDE } lm__scale;

typedef struct lm_drawing {
    kit_chart chart;
    kit_series line[LM_LINES];
    char name[LM_LINES][32], x_label[32], y_label[64];
    double x[LM_LINES][LM_SHOWN], y[LM_LINES][LM_SHOWN];
    double x_unit, from;                   /* places before `from` tokens are not drawn           */
    lm__scale scale;
} lm_drawing;

static inline lm_drawing *lm__drawing_new(const lm_history *h, const char *title, const char *y)
{
    static const char *const unit[] = { "tokens", "thousand tokens", "million tokens",
                                        "billion tokens" };
    lm_drawing *d = (lm_drawing *)kit_new(1, sizeof *d);
    int u = h->tokens < 1000 ? 0 : h->tokens < 1000000 ? 1 : h->tokens < 1000000000 ? 2 : 3;
    d->x_unit = pow(1000, u);
    snprintf(d->x_label, sizeof d->x_label, "%s", unit[u]);
    snprintf(d->y_label, sizeof d->y_label, "%s", y);
    d->chart.title = title;
    d->chart.x_label = d->x_label;
    d->chart.y_label = d->y_label;
    d->chart.series = d->line;
    return d;
}

/* Neighbours become one until LM_SHOWN are enough. */
static inline void lm__draw(lm_drawing *d, const char *name, const lm_series *s)
{
    int k = d->chart.count, first = 0, n = 0;
    while (first < s->n && s->at[first].x < d->from) first++;
    int group = (s->n - first + LM_SHOWN - 1) / LM_SHOWN;
    if (k == LM_LINES || first == s->n) return;
    for (int i = first; i < s->n; i += group, n++) {
        int end = i + group < s->n ? i + group : s->n;
        double x = 0, y = 0;
        for (int j = i; j < end; j++) {
            x += s->at[j].x / (end - i);
            y += s->at[j].y / (end - i);
        }
        d->x[k][n] = x / d->x_unit;
        d->y[k][n] = y;
    }
    snprintf(d->name[k], sizeof d->name[k], "%s", name);
    kit_series line = { d->name[k], d->x[k], d->y[k], n, 0 };
    d->line[k] = line;
    d->chart.count++;
}

typedef struct lm__box { double x0, x1, y0, y1; } lm__box;

static inline lm__box lm__drawn(const lm_drawing *d)
{
    lm__box b = { HUGE_VAL, -HUGE_VAL, HUGE_VAL, -HUGE_VAL };
    for (int k = 0; k < d->chart.count; k++)
        for (int i = 0; i < d->line[k].n; i++) {
            b.x0 = fmin(b.x0, d->x[k][i]);
            b.x1 = fmax(b.x1, d->x[k][i]);
            b.y0 = fmin(b.y0, d->y[k][i]);
            b.y1 = fmax(b.y1, d->y[k][i]);
        }
    return b;
}

/* Upright grey lines, all branches one series and all decays another: gaps stand between them. */
static inline void lm__draw_marks(lm_drawing *d, const lm_history *h, int decay, lm__box b)
{
    int k = d->chart.count, n = 0;
    for (int i = 0; i < h->marks && k < LM_LINES; i++) {
        double x = h->mark[i].x / d->x_unit;
        if (h->mark[i].decay != decay || !(x >= b.x0 && x <= b.x1)) continue;
        for (int end = 0; end < 3; end++, n++) {
            d->x[k][n] = x;
            d->y[k][n] = end == 0 ? b.y0 : end == 1 ? b.y1 : NAN;
        }
    }
    if (n == 0) return;
    snprintf(d->name[k], sizeof d->name[k], "%s", decay ? "decay begins" : "branch");
    kit_series line = { d->name[k], d->x[k], d->y[k], n, 1 };
    d->line[k] = line;
    d->chart.count++;
}

/* What the upright axis covers. Tick labels stay short: an axis from 0 has round ones. */
static inline void lm__set_axis(lm_drawing *d, lm__box *b)
{
    if (d->scale == LM__WIDE && b->y0 > 0 && b->y1 > 20 * b->y0) {
        d->chart.log_y = 10;
        return;
    }
    if (d->scale == LM__FROM_LOWEST || b->y0 < 0 || !(b->y1 > 0)) return;
    b->y0 = 0;
    b->y1 *= 1.05;
    d->chart.y_high = b->y1;
}

/* The margin has room for a few digits: very small and very large numbers get a unit. */
static inline void lm__scale_y(lm_drawing *d, lm__box b)
{
    double most = fmax(fabs(b.y0), fabs(b.y1));
    double unit = most >= 1e4 ? 1e3 : most >= 0.1 || most == 0 ? 1 : most >= 1e-4 ? 1e-3 : 1e-6;
    const char *name = unit == 1e3 ? ", thousands" : unit == 1e-3 ? ", thousandths"
                     : unit == 1e-6 ? ", millionths" : "";
    size_t used = strlen(d->y_label);
    if (d->chart.percent) unit = 1;
    for (int k = 0; k < d->chart.count; k++)
        for (int i = 0; i < d->line[k].n; i++) d->y[k][i] /= unit;
    d->chart.y_high /= unit;
    snprintf(d->y_label + used, sizeof d->y_label - used, "%s%s", d->chart.percent ? "" : name,
             d->chart.log_y ? ", logarithmic" : "");
}

typedef struct lm_page {
    kit_report report;
    const char *folder;
    kit_error *why;
    int failed;                            /* 1: a file could not be written, *why says which     */
} lm_page;

/* saves it beside the report, shows it and gives it back; without a line there is no chart */
static inline void lm__show(lm_page *p, const lm_history *h, lm_drawing *d, const char *file,
                            const char *caption)
{
    kit_text svg = { NULL, 0, 0 };
    if (d->chart.count) {
        lm__box b = lm__drawn(d);
        lm__set_axis(d, &b);
        lm__draw_marks(d, h, 0, b);
        lm__draw_marks(d, h, 1, b);
        lm__scale_y(d, b);
        kit_chart_svg(&svg, &d->chart);
        if (!p->failed && !kit_save_in(p->folder, file, &svg, p->why)) p->failed = 1;
        kit_report_svg(&p->report, &svg, file, d->chart.title, caption);
    }
    kit_text_free(&svg);
    free(d);
}

/* ---- which charts there are ------------------------------------------------------------------ */

typedef struct lm_chart {
    const char *file, *title, *y_label, *caption;
    int key[4], keys;
    const char *name[4];
    lm__scale scale;
    double from;                           /* share of the run that is left out                   */
} lm_chart;

static const lm_chart lm__chart[] = {
    { "loss.svg", "Loss", "nats per token", "", { LM__TRAIN_LOSS, LM__VAL_LOSS }, 2,
      { "training", "validation" }, LM__FROM_LOWEST, 0 },
    { "loss_late.svg", "Loss without the first fifth", "nats per token",
      "The same on a scale of its own: the first steps hide what comes after.",
      { LM__TRAIN_LOSS, LM__VAL_LOSS }, 2, { "training", "validation" }, LM__FROM_LOWEST, 0.2 },
    { "rate.svg", "Learning rate", "rate", "", { LM__LR }, 1, { "learning rate" },
      LM__FROM_ZERO, 0 },
    { "gradient.svg", "Norm of the gradient", "norm, before clipping", "", { LM__GRAD_NORM }, 1,
      { "all parameters" }, LM__WIDE, 0 },
    { "speed.svg", "Speed", "tokens per second", "", { LM__TOKENS_SEC }, 1,
      { "tokens per second" }, LM__FROM_ZERO, 0 },
    { "mfu.svg", "Share of the machine's peak", "per cent", "", { LM__SHARE }, 1,
      { "model FLOPs utilisation" }, LM__FROM_ZERO, 0 },
    { "time.svg", "Time of a step", "milliseconds", "", { LM__STEP_MS, LM__DATA_MS }, 2,
      { "step", "of it reading data" }, LM__FROM_ZERO, 0 },
    { "logits.svg", "Logits", "logit", "",
      { LM__LOGITS_MEAN, LM__LOGITS_STD, LM__LOGITS_MIN, LM__LOGITS_MAX }, 4,
      { "mean", "standard deviation", "lowest", "highest" }, LM__FROM_LOWEST, 0 },
    { "entropy.svg", "Entropy of the predictions", "nats per token",
      "Below the loss: the model is too sure of itself. Above: not sure enough.",
      { LM__ENTROPY, LM__TRAIN_LOSS }, 2, { "entropy", "training loss" }, LM__FROM_LOWEST, 0 },
    { "grads.svg", "Elements of the gradient", "element", "",
      { LM__GRAD_MEAN, LM__GRAD_STD, LM__GRAD_MAX }, 3,
      { "mean", "standard deviation", "largest" }, LM__WIDE, 0 },
    { "update.svg", "An update beside the weights", "ratio of norms", "", { LM__RATIO }, 1,
      { "update / weights" }, LM__WIDE, 0 },
    { "weights.svg", "Norm of the weights", "norm", "", { LM__WEIGHTS }, 1,
      { "all parameters" }, LM__FROM_LOWEST, 0 }
};

/* The training loss beside the entropy is for comparison: alone it makes no second chart. */
static inline int lm__planned(const lm_history *h, const lm_chart *plan)
{
    if (plan->key[0] == LM__ENTROPY) return h->key[LM__ENTROPY].n > 0;
    for (int i = 0; i < plan->keys; i++)
        if (h->key[plan->key[i]].n > 0) return 1;
    return 0;
}

/* A mean hides what a single step did. */
static inline const char *lm__caption(char text[160], const lm_history *h, const lm_chart *plan)
{
    const lm_series *s = &h->key[LM__GRAD_NORM];
    char place[32];
    if (plan->key[0] != LM__GRAD_NORM) return plan->caption;
    lm__say_place(place, s->high_x);
    snprintf(text, 160, "The highest that was measured is %.4g, at token %s.", s->high, place);
    return text;
}

static inline void lm__show_plan(lm_page *p, const lm_history *h, const lm_chart *plan)
{
    char text[160];
    if (!lm__planned(h, plan)) return;
    lm_drawing *d = lm__drawing_new(h, plan->title, plan->y_label);
    d->from = plan->from * (double)h->tokens;
    d->scale = plan->scale;
    d->chart.percent = plan->key[0] == LM__SHARE;
    for (int i = 0; i < plan->keys; i++) lm__draw(d, plan->name[i], &h->key[plan->key[i]]);
    lm__show(p, h, d, plan->file, lm__caption(text, h, plan));
}

/* Of a deep stack eight layers, the first and the last among them. */
static inline void lm__show_layers(lm_page *p, const lm_history *h)
{
    lm_drawing *d = lm__drawing_new(h, "Norm of the gradient by layer", "norm");
    int shown = h->layers < 8 ? h->layers : 8;
    d->scale = LM__WIDE;
    for (int i = 0; i < shown; i++) {
        char name[32];
        int layer = shown > 1 ? i * (h->layers - 1) / (shown - 1) : 0;
        snprintf(name, sizeof name, "layer %d", layer);
        lm__draw(d, name, &h->layer[layer]);
    }
    lm__show(p, h, d, "layers.svg", "");
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct lm_figure { const char *name, *form; int key, best; double unit; } lm_figure;

/* best: -1 the lowest is, 1 the highest, 0 none; unit 0: exp instead */
static const lm_figure lm__figure[] = {
    { "training loss, nats per token", "%.4f", LM__TRAIN_LOSS, -1, 1 },
    { "validation loss, nats per token", "%.4f", LM__VAL_LOSS, -1, 1 },
    { "validation, bits per token", "%.4f", LM__VAL_LOSS, -1, 1.4426950408889634 },
    { "validation, perplexity", "%.3f", LM__VAL_LOSS, -1, 0 },
    { "learning rate", "%.3g", LM__LR, 0, 1 },
    { "norm of the gradient", "%.3f", LM__GRAD_NORM, 0, 1 },
    { "entropy, nats per token", "%.4f", LM__ENTROPY, 0, 1 },
    { "tokens per second", "%.0f", LM__TOKENS_SEC, 1, 1 },
    { "share of the machine's peak, per cent", "%.1f", LM__SHARE, 1, 100 },
    { "milliseconds of a step", "%.1f", LM__STEP_MS, -1, 1 },
    { "step", "%.0f", LM__STEP, 0, 1 }
};
enum { LM__FIGURES = sizeof lm__figure / sizeof *lm__figure };

KIT_FORMAT(4, 0) static inline void lm__put_figure(kit_cells *c, int row, int col,
                                                   const char *form, double v, double unit)
{
    char text[64];
    snprintf(text, sizeof text, form, unit == 0 ? exp(v) : unit * v);
    kit_cells_put(c, row, col, "%s", text);
}

static inline void lm__figures(lm_page *p, const lm_history *h)
{
    static const char *const head[4] = { "figure", "last", "best", "best at token" };
    kit_cells c = kit_cells_new(LM__FIGURES + 1, 4);
    char place[32];
    int row = 1;
    for (int i = 0; i < 4; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int i = 0; i < (int)LM__FIGURES; i++) {
        const lm_figure *f = &lm__figure[i];
        const lm_series *s = &h->key[f->key];
        if (!s->count) continue;
        kit_cells_put(&c, row, 0, "%s", f->name);
        lm__put_figure(&c, row, 1, f->form, s->last, f->unit);
        if (f->best) {
            lm__put_figure(&c, row, 2, f->form, f->best < 0 ? s->low : s->high, f->unit);
            lm__say_place(place, f->best < 0 ? s->low_x : s->high_x);
            kit_cells_put(&c, row, 3, "%s", place);
        }
        row++;
    }
    c.rows = row;
    if (row > 1) kit_cells_show(&p->report, &c);
    kit_cells_free(&c);
}

static inline void lm__stages(lm_page *p, const lm_history *h)
{
    kit_cells c = kit_cells_new(h->marks + 1, 2);
    kit_cells_put(&c, 0, 0, "at token");
    kit_cells_put(&c, 0, 1, "what");
    for (int i = 0; i < h->marks; i++) {
        char place[32];
        lm__say_place(place, h->mark[i].x);
        kit_cells_put(&c, i + 1, 0, "%s", place);
        kit_cells_put(&c, i + 1, 1, "%s", h->mark[i].decay ? "the learning rate begins to decay"
                                                         : "a branch leaves the run");
    }
    if (h->marks) {
        kit_report_heading(&p->report, "Stages");
        kit_cells_show(&p->report, &c);
    }
    kit_cells_free(&c);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* What was no number is the first thing to know about a run. */
static inline void lm__tell_missing(lm_page *p, const lm_history *h)
{
    for (int i = 0; i < LM__KEYS; i++) {
        char place[32];
        if (!h->key[i].missing) continue;
        lm__say_place(place, h->key[i].missing_x);
        kit_report_text(&p->report, "**`%s` was not a finite number, first at token %s; lines of "
                                    "this kind: %ld.**", lm__key[i], place, h->key[i].missing);
    }
}

/* the last part of a path */
static inline void lm__run_name(char name[128], const char *folder)
{
    size_t end = strlen(folder), begin;
    while (end > 1 && folder[end - 1] == '/') end--;
    for (begin = end; begin > 0 && folder[begin - 1] != '/'; begin--) {}
    kit_plain(name, 128, folder + begin, end - begin);
}

/* for a shell: as it is, or in quotes */
static inline void lm__put_word(kit_text *t, const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789_./,=+-";
    if (*word && word[strspn(word, safe)] == 0) {
        kit_put_string(t, word);
        return;
    }
    kit_put_string(t, "'");
    for (; *word; word++) {
        if (*word == '\'') kit_put_string(t, "'\\''");
        else kit_put_bytes(t, word, 1);
    }
    kit_put_string(t, "'");
}

/* In a folder of its own, so that it replaces nothing. A decay begins with the state its parent
   left for it: PARENT/decay_6M with PARENT/ready_for_decay_6M.safetensors. */
static inline void lm__again(kit_text *t, const char *path, const kit_text *config)
{
    char name[128], folder[KIT_PATH], other[KIT_PATH + 32];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    while (folder[0] && folder[strlen(folder) - 1] == '/') folder[strlen(folder) - 1] = 0;
    lm__run_name(name, folder);
    kit_put_string(t, "build/lm train --config ");
    lm__put_word(t, path);
    if (config->data && strstr(config->data, "wsd_stage: decay_only")) {
        snprintf(other, sizeof other, "%.*sready_for_%s.safetensors",
                 (int)(strlen(folder) - strlen(name)), folder, name);
        kit_put_string(t, " --resume ");
        lm__put_word(t, other);
    }
    snprintf(other, sizeof other, "results/again/%s", name);
    kit_put_string(t, " --checkpoint-dir ");
    lm__put_word(t, other);
}

static inline void lm__tell_config(lm_page *p)
{
    char path[KIT_PATH];
    kit_text raw = { NULL, 0, 0 }, config = raw, again = raw;
    kit_error said;
    if (kit_join(path, p->folder, "config.yaml", &said)
        && kit_read_file(&raw, path, LM_CONFIG_BYTES, &said)) {
        lm_put_utf8(&config, raw.data ? raw.data : "", raw.data ? strlen(raw.data) : 0);
        lm__again(&again, path, &config);
        kit_report_heading(&p->report, "The same run again");
        kit_report_code(&p->report, again.data);
        kit_report_heading(&p->report, "Settings");
        kit_report_code(&p->report, config.data ? config.data : "");
    } else kit_report_text(&p->report, "Its settings are not known: %s.", said.text);
    kit_text_free(&raw);
    kit_text_free(&config);
    kit_text_free(&again);
}

static inline void lm__tell_run(lm_page *p, const lm_history *h)
{
    char tokens[32], lines[32];
    kit_say_count(tokens, (size_t)h->tokens);
    kit_say_count(lines, (size_t)h->lines);
    if (h->lines == 0) kit_report_text(&p->report, "Nothing has been measured yet.");
    else kit_report_text(&p->report, "%s tokens read, measured on %s lines of `metrics.jsonl`. "
                                     "Where a chart has more lines than places, a place shows the "
                                     "mean of its lines.", tokens, lines);
}

/* ---- the report ------------------------------------------------------------------------------ */

static inline int lm__report_of(const lm_history *h, const char *folder, kit_error *why)
{
    char name[128], title[160];
    lm_page p;
    memset(&p, 0, sizeof p);
    p.folder = folder;
    p.why = why;
    lm__run_name(name, folder);
    snprintf(title, sizeof title, "Training run %s", name);
    kit_report_begin(&p.report, title);
    lm__tell_run(&p, h);
    lm__tell_missing(&p, h);
    lm__figures(&p, h);
    lm__stages(&p, h);
    if (h->lines) kit_report_heading(&p.report, "Curves");
    for (size_t i = 0; i < sizeof lm__chart / sizeof *lm__chart; i++) {
        lm__show_plan(&p, h, &lm__chart[i]);
        if (lm__chart[i].key[0] == LM__GRAD_NORM) lm__show_layers(&p, h);
    }
    lm__tell_config(&p);
    kit_error ignored;
    return kit_report_save(&p.report, folder, p.failed ? &ignored : why) && !p.failed;
}

/* folder/report.html, report.md and the charts as SVG */
static inline int lm_run_report(const char *folder, kit_error *why)
{
    char path[KIT_PATH];
    lm_history *h = (lm_history *)kit_new(1, sizeof *h);
    int done = lm_log_path(path, folder, why) && lm_history_read(h, path, why)
            && lm__report_of(h, folder, why);
    free(h);
    return done;
}

/* ---- lm report ------------------------------------------------------------------------------- */

static inline int lm__report_args(kit_args *a, int argc, char **argv)
{
    if (!kit_args_read(a, argc, argv)) return 0;
    if (a->operands.count == 0)
        return kit_usage(a, "say which run, for example 'lm report results/lm/nano_rope_6M_s1'");
    return 1;
}

static inline int lm_report_main(int argc, char **argv)
{
    kit_option options[] = { kit_no_more() };
    kit_args a;
    kit_error why;
    int code = DONE;
    memset(&a, 0, sizeof a);
    a.program = "lm report";
    a.summary = "Charts and tables of a training run, from its metrics.jsonl and config.yaml:\n"
                "FOLDER/report.html (one file, opens anywhere), FOLDER/report.md and the charts.\n"
                "It can be made while the run goes on.";
    a.options = options;
    a.operand = "FOLDER ...";
    a.closing = "examples:\n  lm report results/lm/nano_rope_6M_s1\n"
                "  lm report results/lm/*/";
    if (!lm__report_args(&a, argc, argv)) return a.exit_code;
    for (int i = 0; i < a.operands.count; i++) {
        if (lm_run_report(a.operands.item[i], &why)) {
            printf("%s/report.html\n", a.operands.item[i]);
        } else {
            fprintf(stderr, "lm report: %s\n", why.text);
            code = FAILED;
        }
    }
    return fflush(stdout) == 0 ? code : FAILED;
}

#endif
