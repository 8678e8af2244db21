/* marker/report.h - what a reader gets: curves, loss by position, and what to make of them

   Every sentence that judges is chosen by the figures of the run it stands in. */
#ifndef MARKER_REPORT_H
#define MARKER_REPORT_H

#include "figures.h"
#include "kit/report.h"
#include "kit/svg.h"

/* ---- pictures -------------------------------------------------------------------------------- */

static int is_none(const char *spec) { return strcmp(spec, "none") == 0; }

/* room below and above, for the floor and for marks */
static void curve_range(kit_chart *c)
{
    double low = c->level, high = 0;
    for (int s = 0; s < c->count; s++)
        for (int e = 0; e < c->series[s].n; e++) {
            low = fmin(low, c->series[s].y[e]);
            high = fmax(high, c->series[s].y[e]);
        }
    c->y_low = low / 1.2;
    c->y_high = high * 1.1;
}

/* Test loss by epoch at one depth. */
static void draw_curves(kit_text *svg, const family *f, int d)
{
    int epochs = last_epoch(f->set);
    size_t count = (size_t)f->specs, n = (size_t)epochs;
    double *x = (double *)kit_new(n * (count + 1), sizeof *x), *y = x + n;
    kit_series *line = (kit_series *)kit_new(count, sizeof *line);
    kit_chart chart;
    char title[64];
    for (int e = 0; e < epochs; e++) x[e] = e + 1;
    for (int s = 0; s < f->specs; s++, y += n) {
        kit_series one = { f->spec[s], x, y, epochs, is_none(f->spec[s]) };
        for (int e = 0; e < epochs; e++) y[e] = loss_at(f, s, d, e + 1).mean;
        line[s] = one;
    }
    memset(&chart, 0, sizeof chart);
    snprintf(title, sizeof title, "Test loss by epoch, depth %d", f->set->depths.item[d]);
    chart.title = title;
    chart.x_label = "epoch (logarithmic)";
    chart.y_label = "test loss (logarithmic)";
    chart.series = line;
    chart.count = f->specs;
    chart.whole_x = 1;
    chart.log_x = 2;
    chart.log_y = 10;
    chart.level = marker_floor(f->published ? 2 : 1);
    chart.level_name = f->published ? "floor of the added encodings" : "floor";
    chart.level_left = 1;
    curve_range(&chart);
    kit_chart_svg(svg, &chart);
    free(x);
    free(line);
}

/* Loss by position at one depth, after the last epoch. */
static void draw_positions(kit_text *svg, const family *f, int d)
{
    const char *column[GROUPS];
    double *value = (double *)kit_new((size_t)f->specs * GROUPS, sizeof *value);
    kit_heat heat;
    char title[64];
    for (int g = 0; g < GROUPS; g++) column[g] = groups[g].name;
    for (int i = 0; i < f->specs * GROUPS; i++)
        value[i] = group_loss(f, i / GROUPS, d, last_epoch(f->set), i % GROUPS);
    memset(&heat, 0, sizeof heat);
    snprintf(title, sizeof title, "Loss by position, depth %d", f->set->depths.item[d]);
    heat.title = title;
    heat.x_label = "position in the sequence (8-62: their mean)";
    heat.row_name = f->spec;
    heat.col_name = column;
    heat.value = value;
    heat.rows = f->specs;
    heat.cols = GROUPS;
    heat.low = 0.002;
    heat.high = 5;
    kit_heat_svg(svg, &heat);
    free(value);
}

/* Draws, saves beside the tables and puts into the report. */
static int show_picture(kit_report *p, const family *f, int d, int positions, kit_error *why)
{
    kit_text svg = { NULL, 0, 0 };
    char name[64], file[96], alt[96];
    int depth = f->set->depths.item[d];
    (positions ? draw_positions : draw_curves)(&svg, f, d);
    snprintf(name, sizeof name, "%s_depth_%d.svg", positions ? "positions" : "curve", depth);
    snprintf(file, sizeof file, "%s%s", strcmp(f->folder, f->set->out) ? "published/" : "", name);
    snprintf(alt, sizeof alt, "%s of every encoding at depth %d",
             positions ? "loss by position" : "test loss by epoch", depth);
    int done = kit_save_in(f->folder, name, &svg, why);
    kit_report_svg(p, &svg, file, alt, "");
    kit_text_free(&svg);
    return done;
}

static int show_pictures(kit_report *p, const family *f, int positions, kit_error *why)
{
    for (int d = 0; d < f->set->depths.count; d++)
        if (!show_picture(p, f, d, positions, why)) return 0;
    return 1;
}

/* ---- tables in the report -------------------------------------------------------------------- */

/* A table that owns its cells. */
typedef struct cells { char (*text)[64]; const char **cell; int cols; } cells;

static cells cells_new(int rows, int cols)
{
    cells c;
    c.cols = cols;
    c.text = (char (*)[64])kit_new((size_t)(rows * cols), sizeof *c.text);
    c.cell = (const char **)kit_new((size_t)(rows * cols), sizeof *c.cell);
    for (int i = 0; i < rows * cols; i++) c.cell[i] = c.text[i];
    return c;
}

KIT_FORMAT(4, 5) static void cells_put(cells *c, int row, int col, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->text[row * c->cols + col], sizeof *c->text, format, args);
    va_end(args);
}

/* The first row of the cells is the heading. */
static void cells_show(kit_report *p, cells *c, int rows)
{
    kit_table table = { c->cell, c->cell + c->cols, rows - 1, c->cols, 0, NULL };
    kit_report_table(p, &table);
    free(c->text);
    free((void *)c->cell);
}

static void put_figure(cells *c, int row, int col, figure v, int seeds)
{
    if (seeds > 1) cells_put(c, row, col, "%.4f ± %.4f", v.mean, v.spread);
    else cells_put(c, row, col, "%.4f", v.mean);
}

static void show_last(kit_report *p, const family *f)
{
    const settings *set = f->set;
    cells c = cells_new(f->specs + 1, set->depths.count + 1);
    cells_put(&c, 0, 0, "encoding");
    for (int d = 0; d < set->depths.count; d++)
        cells_put(&c, 0, d + 1, "depth %d", set->depths.item[d]);
    for (int s = 0; s < f->specs; s++) {
        cells_put(&c, s + 1, 0, "%.63s", f->spec[s]);
        for (int d = 0; d < set->depths.count; d++)
            put_figure(&c, s + 1, d + 1, last_loss(f, s, d), set->seeds);
    }
    cells_show(p, &c, f->specs + 1);
}

/* depth x epochs, folded away */
static void show_all(kit_report *p, const family *f)
{
    const settings *set = f->set;
    int E = set->epochs.count, rows = 1 + set->depths.count * f->specs;
    cells c = cells_new(rows, E + 2);
    cells_put(&c, 0, 0, "encoding");
    cells_put(&c, 0, 1, "depth");
    for (int e = 0; e < E; e++)
        cells_put(&c, 0, e + 2, "%d epoch%s", set->epochs.item[e],
                  set->epochs.item[e] > 1 ? "s" : "");
    for (int i = 0; i < rows - 1; i++) {
        int d = i / f->specs, s = i % f->specs;
        cells_put(&c, i + 1, 0, "%.63s", f->spec[s]);
        cells_put(&c, i + 1, 1, "%d", set->depths.item[d]);
        for (int e = 0; e < E; e++)
            put_figure(&c, i + 1, e + 2, loss_at(f, s, d, set->epochs.item[e]), set->seeds);
    }
    kit_report_fold(p, "all depths and epochs");
    cells_show(p, &c, rows);
    kit_report_unfold(p);
}

/* Which positions make up what is above the floor, at the greatest depth. */
static void show_excess(kit_report *p, const family *f)
{
    int d = f->set->depths.count - 1, epoch = last_epoch(f->set);
    cells c = cells_new(f->specs + 1, 4);
    cells_put(&c, 0, 0, "encoding, depth %d", f->set->depths.item[d]);
    cells_put(&c, 0, 1, "above the floor");
    cells_put(&c, 0, 2, "largest part of it");
    cells_put(&c, 0, 3, "its share");
    for (int s = 0; s < f->specs; s++) {
        int unknown = surprises(f, f->spec[s]), most = 0;
        double excess[GROUPS], all = 0;
        for (int g = 0; g < GROUPS; g++) {
            int count = groups[g].last - groups[g].first + 1;
            int free_of_blame = (g == 0 && unknown > 0) || (g == 4 && unknown > 1);
            excess[g] = (group_loss(f, s, d, epoch, g) - (free_of_blame ? log(MARKER_VALUES) : 0))
                        * count / MARKER_LENGTH;
            all += excess[g];
            if (excess[g] > excess[most]) most = g;
        }
        cells_put(&c, s + 1, 0, "%.63s", f->spec[s]);
        cells_put(&c, s + 1, 1, "%.4f", all);
        cells_put(&c, s + 1, 2, "position %s, %s", groups[most].name, groups[most].task);
        cells_put(&c, s + 1, 3, "%.0f %%", all > 0 ? 100 * excess[most] / all : 0);
    }
    cells_show(p, &c, f->specs + 1);
}

/* ---- a sample of predictions -------------------------------------------------------------------
   The first test sequences with the model's answers, where something happens. */

enum { SHOWN = 11, SAMPLES = 3, SAMPLE_ROWS = 1 + 3 * SAMPLES };
typedef struct sample { char cell[SAMPLE_ROWS][SHOWN + 1][10]; int rows; } sample;

static void token_name(char name[10], int token, int wrong)
{
    static const char *const marker[] = { "0", "START", "MIDDLE", "END" };
    if (token < 4) snprintf(name, 10, "%s%s", marker[token], wrong ? "?" : "");
    else snprintf(name, 10, "%d%s", token % 1000, wrong ? "?" : "");
}

static int likeliest(const float *logits)
{
    int best = 0;
    for (int v = 1; v < MARKER_VOCAB; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

/* of a run whose model is still open */
static int sample_take(sample *out, run *r, kit_error *why)
{
    static const int shown[SHOWN] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 62, 63 };
    static const char *const name[3] = { "token", "target", "answer" };
    int B = fill_batch(r, &r->test, NULL, 0);
    if (!net_logits(&r->net, r->logits, r->tokens, B, why)) return 0;
    out->rows = 1 + 3 * (B < SAMPLES ? B : SAMPLES);
    snprintf(out->cell[0][0], sizeof out->cell[0][0], "position");
    for (int i = 0; i < SHOWN; i++)
        snprintf(out->cell[0][i + 1], sizeof out->cell[0][0], "%d", shown[i]);
    for (int row = 1; row < out->rows; row++) {
        int which = (row - 1) % 3;
        snprintf(out->cell[row][0], sizeof out->cell[0][0], "%s", name[which]);
        for (int i = 0; i < SHOWN; i++) {
            int at = (row - 1) / 3 * MARKER_LENGTH + shown[i];
            int said = likeliest(r->logits + at * MARKER_VOCAB);
            token_name(out->cell[row][i + 1], which == 0 ? r->tokens[at]
                                            : which == 1 ? r->targets[at] : said,
                       which == 2 && said != r->targets[at]);
        }
    }
    return 1;
}

static void sample_print(const sample *p)
{
    for (int row = 0; row < p->rows; row++) {
        printf("%s%-9s", row % 3 == 1 ? "\n" : "", p->cell[row][0]);
        for (int i = 1; i <= SHOWN; i++) printf(" %6s", p->cell[row][i]);
        printf("\n");
    }
}

static void tell_sample(kit_report *p, const sample *said)
{
    const char *cell[SAMPLE_ROWS * (SHOWN + 1)];
    kit_table table = { cell, cell + SHOWN + 1, said->rows - 1, SHOWN + 1, 0, NULL };
    for (int i = 0; i < said->rows * (SHOWN + 1); i++)
        cell[i] = said->cell[i / (SHOWN + 1)][i % (SHOWN + 1)];
    kit_report_heading(p, "What the model says");
    kit_report_text(p, "The first test sequences; ? marks an answer that is wrong.");
    kit_report_table(p, &table);
}

/* ---- the fair comparison --------------------------------------------------------------------- */

static const char *seeds_words(const settings *s)
{
    static char text[32];
    snprintf(text, sizeof text, s->seeds > 1 ? "mean of %d seeds" : "one seed", s->seeds);
    return text;
}

static void tell_opening(kit_report *p, const family *f)
{
    int best_s = 0, best_d = 0, none = family_find(f, "none");
    for (int s = 0; s < f->specs; s++)
        for (int d = 0; d < f->set->depths.count; d++)
            if (last_loss(f, s, d).mean < last_loss(f, best_s, best_d).mean) {
                best_s = s;
                best_d = d;
            }
    kit_report_text(p,
                    "With the same causal blocks for every encoding the lowest test loss here is "
                    "**%.4f** (`%s`, depth %d, %s); nobody who sees the past alone can get below "
                    "**%.4f**.%s",
                    last_loss(f, best_s, best_d).mean, f->spec[best_s], f->set->depths.item[best_d],
                    seeds_words(f->set), marker_floor(1),
                    f->set->quick
                        ? " This is the **quick** version: an encoding that is behind may "
                          "only be slower."
                        : "");
    if (none >= 0 && f->specs > 1)
        kit_report_text(p, "Without any position (`none`) the same blocks end at **%.4f**: most of "
                        "the template can be read off the tokens themselves, and the table of "
                        "positions below shows what cannot.", last_loss(f, none, best_d).mean);
}

static void tell_task(kit_report *p)
{
    enum { COLS = 11 };
    static const char *const head[COLS] = { "position", "0", "1", "2", "3", "4", "5", "6", "7",
                                            "8 ... 62", "63" };
    static const char *const cell[2 * COLS] = {
        "token", "START", "a", "a+1", "a+2", "MIDDLE", "a+3", "a+4", "END", "0 ... 0", "0",
        "target", "a", "a+1", "a+2", "MIDDLE", "a+3", "a+4", "END", "0", "0 ... 0", "START"
    };
    static const kit_table table = { head, cell, 2, COLS, 0, NULL };
    kit_report_heading(p, "The task");
    kit_report_table(p, &table);
    kit_report_text(
        p,
        "`a` is uniform in 10..80. The target is the next token, and after the last "
        "token comes START again. Only `a` is a surprise: one of 71 values at one of 64 "
        "positions, so the mean loss has the floor ln(71)/64 = %.4f.",
        marker_floor(1));
    kit_report_text(
        p, "Three things need more than the token itself. At position 3 the same value "
           "that was followed by its successor is followed by MIDDLE, and at 6 by END: how "
           "far is the marker? At position 4 the value must be fetched from before MIDDLE. "
           "At position 63 a zero is followed by START, after 55 zeros that look the same: "
           "one has to know that it is the last.");
    kit_report_text(p,
                    "Sequences are drawn independently, as in the published experiment. There are "
                    "only 71 different ones, so the test asks whether the rule was learnt, not "
                    "whether it reaches values never seen.");
}

static void tell_fair_setting(kit_report *p, const settings *s)
{
    kit_report_text(
        p,
        "%d sequences, four fifths for training; pre-norm causal blocks with LayerNorm, "
        "ReLU, %d channels, %d heads, a feed-forward of %d and dropout %g; token "
        "embeddings start with a spread of 1; Adam at a constant rate of %g, batch %d. "
        "Nothing of that depends on the encoding. Because the rate is constant, one "
        "training passes through all numbers of epochs and is measured on the way. "
        "Figures are test losses, %s%s.",
        s->sequences, s->d_model, s->heads, s->ffn, s->dropout, s->lr, s->batch, seeds_words(s),
        s->seeds > 1 ? " ± standard deviation" : "");
}

/* What the hardest position costs those that learn no absolute position. */
static void tell_last_position(kit_report *p, const family *f)
{
    static const char *const name[] = { "none", "alibi", "t5" };
    int epoch = last_epoch(f->set), D = f->set->depths.count, none = family_find(f, "none");
    if (none >= 0)
        kit_report_text(
            p,
            "`none` is not blind: behind a causal mask token 3 sees four tokens and "
            "token 63 sees 64, so positions near the start can be told apart by how much "
            "there is to see. At position 63 the hint is faint: 64 tokens instead of 63. "
            "Who cannot tell the 56 zeros apart does best by expecting START once in 56, "
            "at a loss of ln(56) = %.2f there.",
            log(56));
    for (int i = 0; i < 3; i++) {
        int s = family_find(f, name[i]);
        if (s < 0) continue;
        char deep[64] = "";
        if (D > 1)
            snprintf(deep, sizeof deep, ", %.2f at depth %d", position_loss(f, s, D - 1, epoch, 63),
                     f->set->depths.item[D - 1]);
        kit_report_text(p, "`%s` has %.2f there at depth %d%s.", name[i],
                        position_loss(f, s, 0, epoch, 63), f->set->depths.item[0], deep);
    }
}

static int tell_fair(kit_report *p, const family *f, kit_error *why)
{
    kit_report_heading(p, "The same blocks for every encoding");
    tell_fair_setting(p, f->set);
    show_last(p, f);
    show_all(p, f);
    if (!show_pictures(p, f, 0, why)) return 0;
    kit_report_heading(p, "Which positions are hard, and for whom");
    kit_report_text(p, "Mean test loss of each position after the last epoch. Position 0 costs "
                    "everybody at least ln(71) = %.2f. All 64 are in `positions.csv`.",
                    log(MARKER_VALUES));
    if (!show_pictures(p, f, 1, why)) return 0;
    show_excess(p, f);
    tell_last_position(p, f);
    return 1;
}

/* ---- the published comparison -------------------------------------------------------------------
   Figures of the notebook RanMo1990/PositionalEncodingExample (May 2025, seed 42), to stand beside
   ours; rows are depth 1, 4, 16, columns epochs 1, 4, 16. */

static const struct { const char *spec; double loss[3][3]; } published_figures[] = {
    { "sinusoidal", { { .7871, .3949, .1488 }, { .6835, .3223, .1410 }, { .6664, .4399, .4147 } } },
    { "sininit", { { .7122, .3726, .1450 }, { .6249, .2809, .1414 }, { .6069, .4416, .3922 } } },
    { "learned", { { .7194, .3298, .1471 }, { .6684, .3388, .1420 }, { .5997, .4335, .3359 } } },
    { "rope", { { .9259, .5937, .4204 }, { 1.1675, .5025, .5285 }, { .8959, .8496, .8483 } } },
    { "lrope", { { .8761, .5821, .2899 }, { .9803, .5273, .4717 }, { .9537, .8506, .8494 } } }
};
enum { PUBLISHED = sizeof published_figures / sizeof *published_figures };

static int is_published(const char *spec)
{
    for (int i = 0; i < PUBLISHED; i++)
        if (strcmp(published_figures[i].spec, spec) == 0) return 1;
    return 0;
}

/* NaN: there is no such figure */
static double published_loss(const char *spec, int depth, int epochs)
{
    int row = depth == 1 ? 0 : depth == 4 ? 1 : depth == 16 ? 2 : -1;
    int col = epochs == 1 ? 0 : epochs == 4 ? 1 : epochs == 16 ? 2 : -1;
    for (int i = 0; i < PUBLISHED && row >= 0 && col >= 0; i++)
        if (strcmp(published_figures[i].spec, spec) == 0)
            return published_figures[i].loss[row][col];
    return NAN;
}

static void show_beside(kit_report *p, const family *f)
{
    const settings *set = f->set;
    int D = set->depths.count, epochs = last_epoch(set);
    cells c = cells_new(f->specs + 1, 2 * D + 1);
    cells_put(&c, 0, 0, "encoding");
    for (int d = 0; d < D; d++) {
        cells_put(&c, 0, 2 * d + 1, "depth %d, here", set->depths.item[d]);
        cells_put(&c, 0, 2 * d + 2, "depth %d, published", set->depths.item[d]);
    }
    for (int s = 0; s < f->specs; s++) {
        cells_put(&c, s + 1, 0, "%.63s", f->spec[s]);
        for (int d = 0; d < D; d++) {
            double theirs = published_loss(f->spec[s], set->depths.item[d], epochs);
            put_figure(&c, s + 1, 2 * d + 1, last_loss(f, s, d), set->seeds);
            if (isfinite(theirs)) cells_put(&c, s + 1, 2 * d + 2, "%.4f", theirs);
            else cells_put(&c, s + 1, 2 * d + 2, "-");
        }
    }
    cells_show(p, &c, f->specs + 1);
}

/* The argument for the floor of 2 ln(71)/64, and the figures that confirm or contradict it. */
static void tell_across(kit_report *p, const family *f)
{
    int s = family_find(f, "learned"), epoch = last_epoch(f->set), d = 0;
    for (int i = 0; s < 0 && i < f->specs; i++)
        if (surprises(f, f->spec[i]) == 2) s = i;
    if (s < 0) return;
    kit_report_text(
        p,
        "**The added encodings** sat in encoder layers that expect (position, batch, "
        "channel) but were given (batch, position, channel). So they attend across the "
        "batch: a token sees the tokens at its own position in the other sequences, and "
        "of its own sequence nothing but itself. Token and position are enough for 62 of "
        "the 64 targets. After START the value is unknown anyway; after MIDDLE it is "
        "unknown too, since the token that carries it is out of sight and every "
        "neighbour in the batch is a MIDDLE as well. Hence the floor 2 ln(71)/64 = %.4f.",
        marker_floor(2));
    double first = position_loss(f, s, d, epoch, 0), middle = position_loss(f, s, d, epoch, 4);
    double rest = last_loss(f, s, d).mean - (first + middle) / MARKER_LENGTH;
    kit_report_text(p, "Measured with `%s` at depth %d: %.2f at position 0 and %.2f at position 4, "
                    "against ln(71) = %.2f each; the other 62 together add %.4f to the mean. No "
                    "positional encoding could do better there, because attention could not fetch "
                    "anything from another position.", f->spec[s], f->set->depths.item[d], first,
                    middle, log(MARKER_VALUES), rest);
}

static void tell_rotary(kit_report *p, const family *f)
{
    int s = family_find(f, "rope"), D = f->set->depths.count;
    if (s < 0) s = family_find(f, "lrope");
    if (s < 0) return;
    char deep[96] = "";
    if (D > 1)
        snprintf(deep, sizeof deep, ", and %.4f at depth %d: depth %s", last_loss(f, s, D - 1).mean,
                 f->set->depths.item[D - 1],
                 last_loss(f, s, D - 1).mean > last_loss(f, s, 0).mean ? "hurts" : "helps");
    kit_report_text(
        p,
        "**The rotary encodings** sat in bare attention: one head over the whole width, "
        "no residual, no norm, no feed-forward, no mask. Unmasked, they may look at the "
        "answer, so their floor is 0. But without a residual a token only reaches the "
        "next layer as far as attention happens to look at it, and every layer averages "
        "once more. Measured with `%s`: %.4f at depth %d%s.",
        f->spec[s], last_loss(f, s, 0).mean, f->set->depths.item[0], deep);
}

static int tell_published(kit_report *p, const family *f, kit_error *why)
{
    kit_report_heading(p, "The published comparison, as it was");
    kit_report_text(
        p,
        "A published notebook (RanMo1990/PositionalEncodingExample) found learned "
        "positions best and rotary ones far behind. It compared five encodings, but not "
        "in the same model. Here are its two models again, with PyTorch's initial values; "
        "columns marked published are its own figures (one seed), the others are ours "
        "after %d epochs, %s.",
        last_epoch(f->set), seeds_words(f->set));
    show_beside(p, f);
    show_all(p, f);
    tell_across(p, f);
    tell_rotary(p, f);
    if (!show_pictures(p, f, 0, why) || !show_pictures(p, f, 1, why)) return 0;
    kit_report_text(p,
                    "What still differs from the notebook: the random numbers, hence the sequences "
                    "and the first weights; one training measured on the way instead of three; and "
                    "the added encodings' head has no bias.");
    return 1;
}

/* ---- which conclusion survives --------------------------------------------------------------- */

/* The published five among the fair runs at a depth: which is lowest and which highest, how far the
   lowest is ahead of the next, and how far apart the seeds of one encoding are. */
typedef struct field { int lowest, highest, count; double lead, spread; } field;

static field field_at(const family *f, int d)
{
    field v = { -1, -1, 0, HUGE_VAL, 0 };
    for (int s = 0; s < f->specs; s++) {
        figure here = last_loss(f, s, d);
        if (!is_published(f->spec[s])) continue;
        v.count++;
        if (v.lowest < 0 || here.mean < last_loss(f, v.lowest, d).mean) v.lowest = s;
        if (v.highest < 0 || here.mean > last_loss(f, v.highest, d).mean) v.highest = s;
        v.spread = fmax(v.spread, here.spread);
    }
    for (int s = 0; s < f->specs; s++)
        if (is_published(f->spec[s]) && s != v.lowest)
            v.lead = fmin(v.lead, last_loss(f, s, d).mean - last_loss(f, v.lowest, d).mean);
    return v;
}

/* A comparison says something once the best has come within one and a half times the floor. */
static int settled(const family *f, int d)
{
    return last_loss(f, field_at(f, d).lowest, d).mean <= 1.5 * marker_floor(1);
}

/* "Learned positions are best": alone, in a tie within two spreads of the seeds, or not? */
static void judge_learned(kit_report *p, const family *f, int depths)
{
    int learned = family_find(f, "learned"), best = 0, tied = 0;
    if (learned < 0) return;
    for (int d = 0; d < f->set->depths.count; d++) {
        field v = field_at(f, d);
        double behind = last_loss(f, learned, d).mean - last_loss(f, v.lowest, d).mean;
        if (!settled(f, d)) continue;
        tied += behind <= 2 * v.spread;
        best += v.lowest == learned && v.lead > 2 * v.spread;
        kit_report_text(
            p,
            "Depth %d: lowest `%s` %.4f, highest `%s` %.4f, `learned` %.4f; the seeds of "
            "one encoding spread by up to %.4f.",
            f->set->depths.item[d], f->spec[v.lowest], last_loss(f, v.lowest, d).mean,
            f->spec[v.highest], last_loss(f, v.highest, d).mean, last_loss(f, learned, d).mean,
            v.spread);
    }
    kit_report_text(
        p,
        "So **\"learned positions are consistently best\" %s**: in equal blocks `learned` "
        "leads by more than two spreads at %d of %d depths, and lies within two spreads of "
        "the lowest at %d.",
        best == depths   ? "survives"
        : tied == depths ? "becomes a tie"
                         : "does not survive",
        best, depths, tied);
}

/* "Rotary encodings are far behind": the gap between rope and learned in both kinds of blocks. */
static void judge_rotary(kit_report *p, const family *fair, const family *old, int depths)
{
    int a = family_find(fair, "learned"), b = family_find(fair, "rope");
    int c = family_find(old, "learned"), e = family_find(old, "rope"), kept = 0;
    if (a < 0 || b < 0 || c < 0 || e < 0) return;
    for (int d = 0; d < fair->set->depths.count; d++) {
        figure learned = last_loss(fair, a, d), rope = last_loss(fair, b, d);
        double here = rope.mean - learned.mean;
        double there = last_loss(old, e, d).mean - last_loss(old, c, d).mean;
        if (!settled(fair, d)) continue;
        kept += here > 0.1 * there && here > 2 * fmax(learned.spread, rope.spread);
        kit_report_text(p, "Depth %d: `rope` minus `learned` is %+.4f in the published blocks and "
                        "%+.4f in equal ones.", fair->set->depths.item[d], there, here);
    }
    kit_report_text(p, "So **\"rotary encodings underperform\" %s**: %s.",
                    kept == depths ? "survives" : kept ? "survives in part" : "does not survive",
                    kept ? "a gap beyond the spread of the seeds and a tenth of the old one remains"
                         : "the gap came from the blocks around them, not from the encoding");
}

static void tell_verdict(kit_report *p, const family *fair, const family *old)
{
    kit_report_heading(p, "Which conclusion survives");
    int depths = 0;
    for (int d = 0; d < fair->set->depths.count; d++)
        depths += field_at(fair, d).lowest >= 0 && settled(fair, d);
    if (fair->set->seeds < 2 || depths == 0) {
        kit_report_text(p,
                        "That takes at least two seeds, and models trained until the best is near "
                        "the floor; `marker grid --blocks both` without `--quick` does both.");
        return;
    }
    kit_report_text(p,
                    "Compared are %d of the five published encodings. A difference counts when it "
                    "is larger than twice the standard deviation over seeds%s.",
                    field_at(fair, 0).count,
                    depths < fair->set->depths.count
                        ? "; depths whose best is still far from the floor are left out"
                        : "");
    judge_learned(p, fair, depths);
    judge_rotary(p, fair, old, depths);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void tell_again(kit_report *p, const family *f, const char *command)
{
    const settings *s = f->set;
    kit_text again = { NULL, 0, 0 };
    kit_put(&again, "build/marker %s --blocks %s --pe \"", command, s->blocks);
    for (int i = 0; i < f->specs; i++) kit_put(&again, "%s%s", i ? " " : "", f->spec[i]);
    kit_put_string(&again, "\" --depth ");
    for (int i = 0; i < s->depths.count; i++)
        kit_put(&again, "%s%d", i ? "," : "", s->depths.item[i]);
    kit_put_string(&again, " --epochs ");
    for (int i = 0; i < s->epochs.count; i++)
        kit_put(&again, "%s%d", i ? "," : "", s->epochs.item[i]);
    kit_put(&again, " --seed %" PRIu64 " --seeds %d ", s->seed, s->seeds);
    settings_print(&again, s);
    kit_report_heading(p, "The same figures again");
    kit_report_text(p, "On the same processor type, with any number of threads:");
    kit_report_code(p, again.data);
    kit_report_text(p,
                    "Beside this page: `grid.csv`, `history.csv` (every epoch), `positions.csv`, "
                    "`timing.csv` (seconds on your machine), the pictures as SVG, and %s.",
                    strcmp(command, "grid") == 0
                        ? "`runs/` with a folder and a checkpoint for each run"
                        : "the checkpoints `last.safetensors` and `best.safetensors`");
    kit_text_free(&again);
}

static int save_tables(const family *f, kit_error *why)
{
    return save_progress(f, why) && save_family_table(positions_csv, f, "positions.csv", why);
}

/* Everything that finished families leave behind; either may be NULL, and so may the sample. */
static int leave_results(const family *fair, const family *old, const char *command,
                         const sample *said, kit_error *why)
{
    const family *one = fair ? fair : old;
    kit_report p;
    if ((fair && !save_tables(fair, why)) || (old && !save_tables(old, why))) return 0;
    kit_report_begin(&p, "Which positional encoding can finish a template?");
    if (fair) tell_opening(&p, fair);
    tell_task(&p);
    int done = !fair || tell_fair(&p, fair, why);
    done = done && (!old || tell_published(&p, old, why));
    if (said) tell_sample(&p, said);
    if (fair && old) tell_verdict(&p, fair, old);
    else if (old)
        kit_report_text(&p, "`--blocks both --resume` adds the fair comparison, and with it which "
                        "conclusion survives.");
    tell_again(&p, one, command);
    int saved = kit_report_save(&p, one->set->out, why);
    return done && saved;
}

#endif
