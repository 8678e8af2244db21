/* depth/figures.h - means over seeds, the CSV tables, and the charts by layer and by depth */
#ifndef DEPTH_FIGURES_H
#define DEPTH_FIGURES_H

#include "kit/csv.h"
#include "kit/svg.h"
#include "stacks.h"

/* ---- means over seeds; NaN where a seed has none --------------------------------------------- */

static double layer_mean(const study *y, const stack *k, int phase, int layer, int measure)
{
    double sum = 0;
    for (int i = 0; i < y->set->seeds; i++) sum += stack_layer(k, i, phase, layer)[measure];
    return sum / y->set->seeds;
}

static double tail_mean(const study *y, const stack *k, int which)
{
    double sum = 0;
    for (int i = 0; i < y->set->seeds; i++) sum += stack_tail(k, i)[which];
    return sum / y->set->seeds;
}

/* half the distance between the seeds that lie furthest apart */
static double tail_spread(const study *y, const stack *k, int which)
{
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int i = 0; i < y->set->seeds; i++) {
        low = fmin(low, stack_tail(k, i)[which]);
        high = fmax(high, stack_tail(k, i)[which]);
    }
    return (high - low) / 2;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void put_stack(kit_text *t, const study *y, const stack *k, int seed)
{
    kit_csv_text(t, kinds[k->kind].name);
    kit_csv_text(t, k->spec);
    kit_csv_text(t, k->causal ? "causal" : "both sides");
    kit_csv_int(t, k->depth);
    kit_csv_u64(t, y->set->seed + (uint64_t)seed);
}

/* six digits that matter: a gradient may be 1e-12 */
static void put_number(kit_text *t, double v)
{
    kit__csv_comma(t);
    if (isfinite(v)) kit_put(t, "%.6g", v);
    else kit_put_string(t, "NA");
}

static void layers_csv(kit_text *t, const study *y)
{
    kit_put(t, "blocks,pe,sees,depth,seed,phase,layer,%s\n", measure_names);
    for (int i = 0; i < y->count; i++)
        for (int seed = 0; seed < y->set->seeds; seed++)
            for (int row = 0; row < stack_phases(&y->item[i]) * (y->item[i].depth + 1); row++) {
                const stack *k = &y->item[i];
                int phase = row / (k->depth + 1), layer = row % (k->depth + 1);
                put_stack(t, y, k, seed);
                kit_csv_text(t, phase == TRAINED ? "trained" : "untrained");
                kit_csv_int(t, layer);
                for (int m = 0; m < MEASURES; m++)
                    put_number(t, stack_layer(k, seed, phase, layer)[m]);
                kit_csv_end(t);
            }
}

static void runs_csv(kit_text *t, const study *y)
{
    kit_csv_head(t, "blocks,pe,sees,depth,seed,steps,train_loss,bits_1x,bits_2x,bits_4x");
    for (int i = 0; i < y->count; i++)
        for (int seed = 0; seed < y->set->seeds && y->item[i].trained; seed++) {
            put_stack(t, y, &y->item[i], seed);
            kit_csv_int(t, y->set->steps);
            for (int v = TRAIN_LOSS; v <= BITS_4X; v++)
                put_number(t, stack_tail(&y->item[i], seed)[v]);
            kit_csv_end(t);
        }
}

static void curves_csv(kit_text *t, const study *y)
{
    kit_training plan;
    memset(&plan, 0, sizeof plan);
    plan.steps = y->set->steps;
    kit_csv_head(t, "blocks,pe,sees,depth,seed,step,loss");
    for (int i = 0; i < y->count; i++)
        for (int seed = 0; seed < y->set->seeds && y->item[i].trained; seed++)
            for (int p = 0; p < KIT_TRAIN_POINTS; p++) {
                put_stack(t, y, &y->item[i], seed);
                kit_csv_int(t, kit_train_step_of(&plan, p));
                put_number(t, stack_tail(&y->item[i], seed)[CURVE + p]);
                kit_csv_end(t);
            }
}

static int save_csv(void (*make)(kit_text *, const study *), const study *y, const char *name,
                    kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    make(&t, y);
    int done = kit_save_in(y->set->out, name, &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- attention and nothing else, drawn anew for every seed ----------------------------------- */

enum { ALONE_LAYERS = 12, ALONE_DRAWS = 8, ALONE_KINDS = 4 };
static const struct { const char *name; int causal, skip; } alones[ALONE_KINDS] = {
    { "alone", 0, 0 },
    { "alone, causal", 1, 0 },
    { "with residuals", 0, 1 },
    { "residuals, causal", 1, 1 }
};
typedef struct lonely { double away[ALONE_KINDS][ALONE_LAYERS + 1]; } lonely;  /* geometric means */

static lonely lonely_run(const settings *s)
{
    lonely all;
    memset(&all, 0, sizeof all);
    for (int i = 0; i < ALONE_KINDS * ALONE_DRAWS; i++) {
        int kind = i / ALONE_DRAWS;
        alone a = { LENGTH, WIDTH, HEADS, alones[kind].causal, alones[kind].skip,
                    s->seed + (uint64_t)(i % ALONE_DRAWS) };
        double away[ALONE_LAYERS + 1];
        alone_run(away, &a, ALONE_LAYERS);
        for (int l = 0; l <= ALONE_LAYERS; l++) all.away[kind][l] += log(away[l]) / ALONE_DRAWS;
    }
    for (int i = 0; i < ALONE_KINDS; i++)
        for (int l = 0; l <= ALONE_LAYERS; l++) all.away[i][l] = exp(all.away[i][l]);
    return all;
}

static int lonely_save(const lonely *a, const char *folder, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "layers,sees,residual,rank_one_distance");
    for (int i = 0; i < ALONE_KINDS; i++)
        for (int l = 0; l <= ALONE_LAYERS; l++) {
            kit_csv_int(&t, l);
            kit_csv_text(&t, alones[i].causal ? "causal" : "both sides");
            kit_csv_int(&t, alones[i].skip);
            put_number(&t, a->away[i][l]);
            kit_csv_end(&t);
        }
    int done = kit_save_in(folder, "attention_alone.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- charts ---------------------------------------------------------------------------------- */

enum { LINES = 8 };
typedef struct drawing {
    kit_chart chart;
    kit_series line[LINES];
    double x[LINES][MOST_DEPTH + 1], y[LINES][MOST_DEPTH + 1];
} drawing;

static drawing *drawing_new(const char *title, const char *x_label, const char *y_label)
{
    drawing *d = (drawing *)kit_new(1, sizeof *d);
    d->chart.title = title;
    d->chart.x_label = x_label;
    d->chart.y_label = y_label;
    d->chart.whole_x = 1;
    d->chart.series = d->line;
    return d;
}

/* an empty line, to be filled with points */
static kit_series *drawing_line(drawing *d, const char *name, int plain)
{
    int i = d->chart.count++;
    kit_series one = { name, d->x[i], d->y[i], 0, plain };
    d->line[i] = one;
    return &d->line[i];
}

static void drawing_point(drawing *d, double x, double y)
{
    int i = d->chart.count - 1, n = d->line[i].n++;
    d->x[i][n] = x;
    d->y[i][n] = y;
}

/* One measure of one stack from layer `first` on; k NULL: nothing is drawn. An R² below 0 says no
   more than 0 does: the probe knows nothing. */
static void draw_layers(drawing *d, const study *y, const stack *k, const char *name, int phase,
                        int measure, int first)
{
    if (!k || d->chart.count == LINES) return;
    drawing_line(d, name, 0);
    for (int l = first; l <= k->depth; l++) {
        double v = layer_mean(y, k, phase, l, measure);
        drawing_point(d, l, measure == R2 && v < 0 ? 0 : v);
    }
}

/* the usual block with every encoding at one depth */
static void draw_encodings(drawing *d, const study *y, int depth, int phase, int measure, int first)
{
    for (int e = 0; e < y->set->specs; e++) {
        draw_layers(d, y, study_find(y, PRE_NORM, y->set->spec[e], depth, 1), y->set->spec[e],
                    phase, measure, first);
        if (d->chart.count > e) d->line[e].plain = strcmp(y->set->spec[e], "none") == 0;
    }
}

/* the first encoding in the first `count` kinds of block, at the greatest depth */
static void draw_kinds(drawing *d, const study *y, int count, int phase, int measure, int first)
{
    for (int kind = 0; kind < count; kind++)
        draw_layers(d, y, study_find(y, kind, y->set->spec[0], deepest(y->set), 1),
                    kinds[kind].name, phase, measure, first);
}

#endif
