/* depth/report.h - what a reader gets: for each claim the charts, a table and the verdict */
#ifndef DEPTH_REPORT_H
#define DEPTH_REPORT_H

#include "kit/cells.h"
#include "verdicts.h"

/* everything a section needs */
typedef struct findings {
    const study *study;
    lonely alone;
    double bytes_alone;
    claim claim[CLAIMS];
    kit_report page;
    kit_error *why;
    int failed;                            /* 1: a file could not be written, *why says which     */
} findings;

/* saves beside the tables, puts into the report and gives the drawing back */
static void show(findings *f, drawing *d, const char *slug, const char *caption)
{
    kit_text svg = { NULL, 0, 0 };
    char file[64];
    snprintf(file, sizeof file, "%s.svg", slug);
    kit_chart_svg(&svg, &d->chart);
    if (!kit_save_in(f->study->set->out, file, &svg, f->why)) f->failed = 1;
    kit_report_svg(&f->page, &svg, file, d->chart.title, caption);
    kit_text_free(&svg);
    free(d);
}

static void show_cells(findings *f, kit_cells *c)
{
    kit_cells_show(&f->page, c);
    kit_cells_free(c);
}

static void put_head(kit_cells *c, const char *const *head)
{
    for (int i = 0; i < c->cols; i++) kit_cells_put(c, 0, i, "%s", head[i]);
}

/* 0.012, 1.2e-08, or a dash */
static void put_value(kit_cells *c, int row, int col, double v)
{
    if (!isfinite(v)) kit_cells_put(c, row, col, "-");
    else if (fabs(v) < 1e-3 && fabs(v) > 1e-9) kit_cells_put(c, row, col, "%.1e", v);
    else kit_cells_put(c, row, col, "%.3f", fabs(v) < 1e-9 ? 0 : v);
}

/* R², where less than 0 says no more than 0 does */
static void put_known(kit_cells *c, int row, int col, double r2)
{
    put_value(c, row, col, r2 < 0 ? 0 : r2);
}

/* Where all tokens of a text are the same to float's last digits, what is left of variance is
   rounding. */
static double share_at(const study *y, const stack *k, int phase, int layer)
{
    return at_layer(y, k, phase, layer, AWAY) > 1e-5 ? at_layer(y, k, phase, layer, SHARE) : NAN;
}

static void tell_verdict(findings *f, int which)
{
    const claim *c = &f->claim[which];
    kit_report_text(&f->page, "**\"%s\" %s%s.** %s. The rule: %s.", c->said,
                    c->verdict == IN_PART ? "holds " : c->verdict == NOT_MEASURED ? "was " : "",
                    verdict_word(c->verdict), c->ours, c->rule);
}

static const char *of_depth(char text[96], const char *what, int depth)
{
    snprintf(text, 96, "%s, depth %d", what, depth);
    return text;
}

enum { TRAINING_KINDS = 3 };               /* the kinds that train are the first ones             */

/* ---- 1: the position ------------------------------------------------------------------------- */

static drawing *drawing_probe(const char *title, double high)
{
    drawing *d = drawing_new(title, "layer (0: embedding)", "R² on unseen texts");
    d->chart.y_low = -0.05 * high;
    d->chart.y_high = high;
    return d;
}

static void show_probe_encodings(findings *f)
{
    const study *y = f->study;
    char title[96];
    int depth = shared_depth(y->set);
    drawing *d = drawing_probe(of_depth(title, "Position read by a probe, trained", depth), 1);
    draw_encodings(d, y, depth, TRAINED, R2, 0);
    show(f, d, "position_encodings",
         "Usual blocks. Only what is added at the bottom can be read there; the others act inside "
         "attention, and what they leave in a layer is little.");
}

static void show_probe_kinds(findings *f, int phase)
{
    const study *y = f->study;
    char title[96];
    const char *what = phase ? "Position by block, trained" : "Position by block, untrained";
    drawing *d = drawing_probe(of_depth(title, what, deepest(y->set)), 1);
    draw_kinds(d, y, phase ? TRAINING_KINDS : KINDS, phase, R2, 0);
    show(f, d, phase ? "position_blocks_trained" : "position_blocks",
         phase ? "The kinds of blocks that train." : "");
}

static void show_probe_none(findings *f)
{
    const study *y = f->study;
    const stack *k = study_find(y, PRE_NORM, "none", shared_depth(y->set), 1);
    if (!k) return;
    const stack *wide = study_find(y, PRE_NORM, "none", deepest(y->set), 0);
    drawing *d = drawing_probe("Position without an encoding", 0.5);
    draw_layers(d, y, k, "causal, untrained", UNTRAINED, R2, 0);
    draw_layers(d, y, k, "causal, trained", TRAINED, R2, 0);
    draw_layers(d, y, wide, "both sides, untrained", UNTRAINED, R2, 0);
    show(f, d, "position_none", "Who sees only the past can tell how much of it there is.");
}

static void show_share(findings *f)
{
    const study *y = f->study;
    char title[96];
    drawing *d = drawing_new(of_depth(title, "Variance that is position", deepest(y->set)),
                             "layer (0: embedding)", "share (logarithmic)");
    d->chart.log_y = 10;
    draw_layers(d, y, kind_at(y, PRE_NORM), "pre-norm, untrained", UNTRAINED, SHARE, 0);
    draw_layers(d, y, kind_at(y, PRE_NORM), "pre-norm, trained", TRAINED, SHARE, 0);
    draw_layers(d, y, kind_at(y, POST_NORM), "post-norm, trained", TRAINED, SHARE, 0);
    draw_layers(d, y, kind_at(y, NO_NORM), "no norm, trained", TRAINED, SHARE, 0);
    show(f, d, "position_share", "How much of what tells tokens apart is their position.");
}

static void table_position(findings *f)
{
    const study *y = f->study;
    const settings *s = y->set;
    static const char *const head[] = { "blocks",        "encoding",    "depth",
                                        "R² below",      "halfway",     "behind the last",
                                        "eighths right", "share below", "share behind" };
    kit_cells c = kit_cells_new(1 + KINDS + s->specs - 1, 9);
    put_head(&c, head);
    for (int row = 1; row < c.rows; row++) {
        int kind = row <= KINDS ? row - 1 : PRE_NORM;
        const char *spec = s->spec[row <= KINDS ? 0 : row - KINDS];
        int depth = row <= KINDS ? deepest(s) : shared_depth(s);
        const stack *k = study_find(y, kind, spec, depth, 1);
        kit_cells_put(&c, row, 0, "%s", kinds[kind].name);
        kit_cells_put(&c, row, 1, "`%.90s`", spec);
        kit_cells_put(&c, row, 2, "%d", depth);
        put_known(&c, row, 3, at_layer(y, k, TRAINED, 0, R2));
        put_known(&c, row, 4, at_layer(y, k, TRAINED, depth / 2, R2));
        put_known(&c, row, 5, at_top(y, k, TRAINED, R2));
        put_value(&c, row, 6, at_top(y, k, TRAINED, EIGHTHS));
        put_value(&c, row, 7, share_at(y, k, TRAINED, 0));
        put_value(&c, row, 8, share_at(y, k, TRAINED, depth));
    }
    show_cells(f, &c);
}

static void section_position(findings *f)
{
    kit_report_heading(&f->page, "1. Does the position fade?");
    kit_report_text(&f->page,
                    "Behind every block a linear probe (ridge regression on %d texts, its strength "
                    "chosen on %d more) guesses the position of a token of %d unseen texts: R² 1 "
                    "is all known, 0 nothing. Guessing the eighth of the text is right one time in "
                    "eight by chance. The share says how much of the variance of a layer's tokens "
                    "lies between positions.",
                    WINDOWS / 2, WINDOWS / 4, WINDOWS / 4);
    show_probe_kinds(f, UNTRAINED);
    show_probe_kinds(f, TRAINED);
    show_share(f);
    show_probe_encodings(f);
    show_probe_none(f);
    table_position(f);
    tell_verdict(f, FADES);
    tell_verdict(f, FADES_WITHOUT);
    tell_verdict(f, KNOWS);
}

/* ---- 2: rank --------------------------------------------------------------------------------- */

static void show_alone(findings *f)
{
    drawing *d =
        drawing_new("Attention alone: distance from rank one", "layer", "distance (logarithmic)");
    d->chart.log_y = 10;
    d->chart.y_low = 1e-16;
    d->chart.y_high = 2;
    for (int i = 0; i < ALONE_KINDS; i++) {
        drawing_line(d, alones[i].name, 0);
        for (int l = 0; l <= ALONE_LAYERS; l++) drawing_point(d, l, f->alone.away[i][l]);
    }
    show(f, d, "attention_alone",
         "Random weights, no feed-forward, no norm, in double, which ends at 1e-16. Distance: |X - "
         "mean token| / |X|.");
}

static void show_cosine(findings *f, int phase)
{
    const study *y = f->study;
    char title[96];
    const char *what = phase ? "How alike tokens are, trained" : "How alike tokens are, untrained";
    drawing *d = drawing_new(of_depth(title, what, deepest(y->set)), "layer (0: embedding)",
                             "mean cosine of two tokens");
    draw_kinds(d, y, KINDS, phase, COSINE, 0);
    d->chart.y_low = 0;
    d->chart.y_high = 1.02;
    show(f, d, phase ? "cosine_trained" : "cosine_untrained", "");
}

static void table_rank(findings *f)
{
    const study *y = f->study;
    static const char *const head[] = { "blocks", "cosine, untrained", "the same, both sides seen",
                                        "trained", "stable rank, untrained", "trained",
                                        "mean removed, untrained", "trained" };
    kit_cells c = kit_cells_new(1 + KINDS, 8);
    put_head(&c, head);
    for (int kind = 0; kind < KINDS; kind++) {
        const stack *k = kind_at(y, kind);
        const stack *wide = study_find(y, kind, y->set->spec[0], deepest(y->set), 0);
        kit_cells_put(&c, kind + 1, 0, "%s", kinds[kind].name);
        put_value(&c, kind + 1, 1, at_top(y, k, UNTRAINED, COSINE));
        put_value(&c, kind + 1, 2, at_top(y, wide, UNTRAINED, COSINE));
        put_value(&c, kind + 1, 3, at_top(y, k, TRAINED, COSINE));
        put_value(&c, kind + 1, 4, at_top(y, k, UNTRAINED, RANK));
        put_value(&c, kind + 1, 5, at_top(y, k, TRAINED, RANK));
        put_value(&c, kind + 1, 6, at_top(y, k, UNTRAINED, RANK_CENTRED));
        put_value(&c, kind + 1, 7, at_top(y, k, TRAINED, RANK_CENTRED));
    }
    show_cells(f, &c);
}

static void section_rank(findings *f)
{
    kit_report_heading(&f->page, "2. Do all tokens become the same?");
    kit_report_text(&f->page,
                    "Every row of an attention map is a mean, and means of means are alike. "
                    "Measured behind the last of %d blocks (%s): the cosine of two tokens of a "
                    "text, and the stable rank |X|²(Frobenius) / |X|²(largest singular value) of "
                    "its %d x %d matrix, which is 1 when all tokens are multiples of one.",
                    deepest(f->study->set), f->study->set->spec[0], LENGTH, WIDTH);
    show_alone(f);
    show_cosine(f, UNTRAINED);
    show_cosine(f, TRAINED);
    table_rank(f);
    tell_verdict(f, COLLAPSES);
    tell_verdict(f, COLLAPSES_USUAL);
}

/* ---- 3: where attention looks ---------------------------------------------------------------- */

static void show_attention(findings *f, int measure, const char *slug, const char *what,
                           const char *label, double level, const char *level_name)
{
    const study *y = f->study;
    char title[96];
    drawing *d = drawing_new(of_depth(title, what, shared_depth(y->set)), "block", label);
    draw_encodings(d, y, shared_depth(y->set), TRAINED, measure, 1);
    d->chart.level = level;
    d->chart.level_name = level_name;
    d->chart.y_low = 0;
    d->chart.y_high = 1.02;
    show(f, d, slug, "");
}

static void table_attention(findings *f)
{
    const study *y = f->study;
    const settings *s = y->set;
    static const char *const head[] = { "encoding", "entropy, untrained", "trained", "lowest block",
                                        "near, untrained", "trained", "most local head",
                                        "mean distance, untrained", "trained" };
    kit_cells c = kit_cells_new(2 + s->specs, 9);
    look even = look_uniform(LENGTH, 1, REACH, REACH);
    int depth = shared_depth(s);
    put_head(&c, head);
    for (int e = 0; e < s->specs; e++) {
        const stack *k = study_find(y, PRE_NORM, s->spec[e], depth, 1);
        kit_cells_put(&c, e + 1, 0, "`%.90s`", s->spec[e]);
        put_value(&c, e + 1, 1, over_blocks(y, k, UNTRAINED, ENTROPY, 1, depth));
        put_value(&c, e + 1, 2, over_blocks(y, k, TRAINED, ENTROPY, 1, depth));
        put_value(&c, e + 1, 3, extreme(y, k, TRAINED, ENTROPY, -1));
        put_value(&c, e + 1, 4, over_blocks(y, k, UNTRAINED, NEAR, 1, depth));
        put_value(&c, e + 1, 5, over_blocks(y, k, TRAINED, NEAR, 1, depth));
        put_value(&c, e + 1, 6, extreme(y, k, TRAINED, NEAREST, 1));
        put_value(&c, e + 1, 7, over_blocks(y, k, UNTRAINED, DISTANCE, 1, depth));
        put_value(&c, e + 1, 8, over_blocks(y, k, TRAINED, DISTANCE, 1, depth));
    }
    kit_cells_put(&c, s->specs + 1, 0, "(looking everywhere alike)");
    for (int i = 1; i <= 3; i++) put_value(&c, s->specs + 1, i, even.entropy);
    for (int i = 4; i <= 6; i++) put_value(&c, s->specs + 1, i, even.near);
    for (int i = 7; i <= 8; i++) put_value(&c, s->specs + 1, i, even.distance);
    show_cells(f, &c);
}

static void section_attention(findings *f)
{
    double even = look_uniform(LENGTH, 1, REACH, REACH).near;
    kit_report_heading(&f->page, "3. Where do deep layers look?");
    kit_report_text(&f->page,
                    "Relative entropy: 1 when a token looks at all tokens before it alike, 0 when "
                    "it looks at one. Near: the share of attention that stays within %d places, "
                    "the token itself included. Means over heads and over the tokens from place %d "
                    "on, usual blocks, depth %d.",
                    REACH, REACH, shared_depth(f->study->set));
    show_attention(f, ENTROPY, "entropy", "Entropy of attention, trained",
                   "of the most it could be", 1, NULL);
    show_attention(f, NEAREST, "locality", "Near places, most local head", "share within 8 places",
                   even, "uniform");
    table_attention(f);
    tell_verdict(f, UNIFORM);
    tell_verdict(f, LOCAL);
}

/* ---- 4: gradients, scale, training ----------------------------------------------------------- */

static void show_start(findings *f, int count, int measure, const char *slug, const char *what)
{
    const study *y = f->study;
    char title[96];
    int first = measure == SCALE ? 0 : 1;
    drawing *d = drawing_new(of_depth(title, what, deepest(y->set)),
                             first ? "block" : "layer (0: embedding)",
                             first ? "norm (logarithmic)" : "root mean square (logarithmic)");
    draw_kinds(d, y, count, UNTRAINED, measure, first);
    d->chart.log_y = 10;
    show(f, d, slug, "");
}

static void show_losses(findings *f)
{
    const study *y = f->study;
    const settings *s = y->set;
    char title[96];
    snprintf(title, sizeof title, "After %d steps", s->steps);
    drawing *d = drawing_new(title, "blocks (logarithmic)", "bits per held-out byte");
    for (int kind = 0; kind < KINDS; kind++) {
        drawing_line(d, kinds[kind].name, 0);
        for (int i = 0; i < s->depths.count; i++) {
            int depth = s->depths.item[i];
            drawing_point(d, depth, bits_at(y, study_find(y, kind, s->spec[0], depth, 1)));
        }
    }
    d->chart.log_x = 2;
    d->chart.level = f->bytes_alone;
    d->chart.level_name = "byte counts alone";
    d->chart.level_left = 1;
    show(f, d, "loss_by_depth", "");
}

static void table_losses(findings *f)
{
    const study *y = f->study;
    const settings *s = y->set;
    int D = s->depths.count;
    kit_cells c = kit_cells_new(1 + KINDS, D + 6);
    kit_cells_put(&c, 0, 0, "blocks");
    for (int i = 0; i < D; i++) kit_cells_put(&c, 0, i + 1, "depth %d", s->depths.item[i]);
    kit_cells_put(&c, 0, D + 1, "gradient, first block");
    kit_cells_put(&c, 0, D + 2, "last block");
    kit_cells_put(&c, 0, D + 3, "first to last, trained");
    kit_cells_put(&c, 0, D + 4, "queries and keys, weakest block");
    kit_cells_put(&c, 0, D + 5, "scale behind the last");
    for (int kind = 0; kind < KINDS; kind++) {
        const stack *last = kind_at(y, kind);
        kit_cells_put(&c, kind + 1, 0, "%s", kinds[kind].name);
        for (int i = 0; i < D; i++) {
            const stack *k = study_find(y, kind, s->spec[0], s->depths.item[i], 1);
            if (!isfinite(bits_at(y, k))) kit_cells_put(&c, kind + 1, i + 1, "-");
            else if (s->seeds > 1)
                kit_cells_put(&c, kind + 1, i + 1, "%.2f ± %.2f", bits_at(y, k),
                              tail_spread(y, k, BITS_1X));
            else kit_cells_put(&c, kind + 1, i + 1, "%.2f", bits_at(y, k));
        }
        kit_cells_put(&c, kind + 1, D + 1, "%.1e", at_layer(y, last, UNTRAINED, 1, GRADIENT));
        kit_cells_put(&c, kind + 1, D + 2, "%.1e", at_top(y, last, UNTRAINED, GRADIENT));
        kit_cells_put(&c, kind + 1, D + 3, "%.1e",
                      at_layer(y, last, TRAINED, 1, GRADIENT) / at_top(y, last, TRAINED, GRADIENT));
        kit_cells_put(&c, kind + 1, D + 4, "%.1e", extreme(y, last, UNTRAINED, QK_GRADIENT, -1));
        kit_cells_put(&c, kind + 1, D + 5, "%.1e", at_top(y, last, UNTRAINED, SCALE));
    }
    show_cells(f, &c);
}

static void section_training(findings *f)
{
    const settings *s = f->study->set;
    kit_report_heading(&f->page, "4. Does it train?");
    kit_report_text(&f->page,
                    "Bits per byte of %ld held-out bytes, `%s`, the same rate for all (AdamW, %g, "
                    "warm-up over a tenth of the steps, gradients clipped at 1). Somebody who "
                    "knows how often each byte occurs and nothing else needs %.2f. Gradients are "
                    "norms over all weights of a block and scale is the root mean square of what "
                    "it puts out, both with the weights it starts with, depth %d.",
                    held_bytes(s), s->spec[0], s->lr, f->bytes_alone, deepest(s));
    show_start(f, KINDS, GRADIENT, "gradients", "Gradient norm at the start");
    show_start(f, NEITHER, GRADIENT, "gradients_near", "Gradient norm, all but 'neither'");
    show_start(f, NEITHER, QK_GRADIENT, "gradients_qk", "Gradient of queries and keys alone");
    show_start(f, KINDS, SCALE, "scale", "Size of activations at the start");
    show_start(f, NEITHER, SCALE, "scale_near", "Size of activations, all but 'neither'");
    show_losses(f);
    table_losses(f);
    tell_verdict(f, HIGHWAY);
    tell_verdict(f, FAINT);
    tell_verdict(f, FAINT_QK);
    tell_verdict(f, POST_FAILS);
}

/* ---- 5, 6: longer texts ---------------------------------------------------------------------- */

static void show_longer(findings *f)
{
    const study *y = f->study;
    const settings *s = y->set;
    char title[96];
    snprintf(title, sizeof title, "Read at %d, trained at %d", 4 * LENGTH, LENGTH);
    drawing *d = drawing_new(title, "blocks (logarithmic)", "bits per byte above 1x");
    for (int e = 0; e < s->specs && d->chart.count < LINES; e++) {
        const stack *flat = study_find(y, PRE_NORM, s->spec[e], s->depths.item[0], 1);
        if (!isfinite(rise(y, flat, BITS_4X))) continue;
        drawing_line(d, s->spec[e], strcmp(s->spec[e], "none") == 0);
        for (int i = 0; i < s->depths.count; i += 2)
            drawing_point(
                d, s->depths.item[i],
                rise(y, study_find(y, PRE_NORM, s->spec[e], s->depths.item[i], 1), BITS_4X));
    }
    d->chart.log_x = 2;
    show(f, d, "longer",
         "A table of positions (`learned`) ends at the trained length and has no line.");
}

static void table_longer(findings *f)
{
    const study *y = f->study;
    const settings *s = y->set;
    int D = (s->depths.count + 1) / 2;
    kit_cells c = kit_cells_new(1 + s->specs, 1 + 3 * D);
    kit_cells_put(&c, 0, 0, "encoding");
    for (int i = 0; i < 3 * D; i++)
        kit_cells_put(&c, 0, i + 1, "depth %d, %dx", s->depths.item[i / 3 * 2], 1 << i % 3);
    for (int e = 0; e < s->specs; e++) {
        kit_cells_put(&c, e + 1, 0, "`%.90s`", s->spec[e]);
        for (int i = 0; i < 3 * D; i++) {
            const stack *k = study_find(y, PRE_NORM, s->spec[e], s->depths.item[i / 3 * 2], 1);
            put_value(&c, e + 1, i + 1, tail_mean(y, k, BITS_1X + i % 3));
        }
    }
    show_cells(f, &c);
}

static void section_longer(findings *f)
{
    kit_report_heading(&f->page, "5. What does a longer text cost?");
    kit_report_text(&f->page, "Time is a figure of your machine, so it has a page of its own: "
                              "`build/depth --cost` measures tiled beside plain attention from 64 "
                              "to 4,096 tokens, and the memory of both.");
    kit_report_heading(&f->page, "6. Does depth hurt beyond the training length?");
    kit_report_text(&f->page,
                    "Trained on texts of %d bytes, read in texts of %d, %d and %d, the same %ld "
                    "held-out bytes each time; usual blocks.",
                    LENGTH, LENGTH, 2 * LENGTH, 4 * LENGTH, held_bytes(f->study->set));
    show_longer(f);
    table_longer(f);
    tell_verdict(f, LONGER);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void tell_opening(findings *f)
{
    const settings *s = f->study->set;
    kit_cells c = kit_cells_new(1 + CLAIMS, 3);
    kit_report_text(&f->page,
                    "Next-byte models of %d channels, %d heads, feed-forward %d, trained on texts "
                    "of %d bytes of %s for %d steps of %d texts; %d seed%s. Blocks: pre-norm "
                    "(residuals, a norm before each branch: the usual one), post-norm, no norm, no "
                    "residual (norms, but a branch replaces its input), and neither. Small models, "
                    "briefly trained: what is shown is what happens in them.",
                    WIDTH, HEADS, HIDDEN, LENGTH,
                    s->corpus.own ? "sentences of our own making" : s->corpus.name, s->steps, BATCH,
                    s->seeds, s->seeds > 1 ? "s, of which the charts show the mean" : "");
    kit_cells_put(&c, 0, 0, "what people say");
    kit_cells_put(&c, 0, 1, "ours");
    kit_cells_put(&c, 0, 2, "verdict");
    for (int i = 0; i < CLAIMS; i++) {
        kit_cells_put(&c, i + 1, 0, "%s", f->claim[i].said);
        kit_cells_put(&c, i + 1, 1, "%s", f->claim[i].ours);
        kit_cells_put(&c, i + 1, 2, "%s", verdict_word(f->claim[i].verdict));
    }
    show_cells(f, &c);
}

static void tell_again(findings *f)
{
    const settings *s = f->study->set;
    kit_text again = { NULL, 0, 0 };
    kit_put_string(&again, "build/depth --pe \"");
    for (int i = 0; i < s->specs; i++) kit_put(&again, "%s%s", i ? " " : "", s->spec[i]);
    kit_put_string(&again, "\" --depth ");
    for (int i = 0; i < s->depths.count; i++)
        kit_put(&again, "%s%d", i ? "," : "", s->depths.item[i]);
    kit_put(&again, " --steps %d --lr %g --seed %" PRIu64 " --seeds %d", s->steps, s->lr, s->seed,
            s->seeds);
    if (s->text) kit_put(&again, " --text %s", s->text);
    kit_report_heading(&f->page, "The same figures again");
    kit_report_text(&f->page, "On the same processor type, with any number of threads:");
    kit_report_code(&f->page, again.data);
    kit_report_text(&f->page, "Beside this page: `layers.csv` (every measure of every layer), "
                              "`runs.csv`, `curves.csv` (losses on the way), "
                              "`attention_alone.csv`, `claims.csv`, and the pictures as SVG.");
    kit_text_free(&again);
}

static int save_claims(const findings *f)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "claim,verdict,ours,rule");
    for (int i = 0; i < CLAIMS; i++) {
        kit_csv_text(&t, f->claim[i].said);
        kit_csv_text(&t, verdict_word(f->claim[i].verdict));
        kit_csv_text(&t, f->claim[i].ours);
        kit_csv_text(&t, f->claim[i].rule);
        kit_csv_end(&t);
    }
    int done = kit_save_in(f->study->set->out, "claims.csv", &t, f->why);
    kit_text_free(&t);
    return done;
}

static void print_claims(const claim *c)
{
    for (int i = 0; i < CLAIMS; i++)
        printf("%-14s %s\n               %s\n", verdict_word(c[i].verdict), c[i].said, c[i].ours);
}

static int leave_results(const study *y, kit_error *why)
{
    static findings f;
    const settings *s = y->set;
    f.study = y;
    f.why = why;
    f.alone = lonely_run(s);
    f.bytes_alone = bytes_alone(&s->corpus, held_bytes(s));
    claims_make(f.claim, y, &f.alone, f.bytes_alone);
    if (!save_csv(layers_csv, y, "layers.csv", why) || !save_csv(runs_csv, y, "runs.csv", why)
        || !save_csv(curves_csv, y, "curves.csv", why) || !lonely_save(&f.alone, s->out, why)
        || !save_claims(&f)) return 0;
    kit_report_begin(&f.page, "What happens in a deep stack of self-attention?");
    tell_opening(&f);
    section_position(&f);
    section_rank(&f);
    section_attention(&f);
    section_training(&f);
    section_longer(&f);
    tell_again(&f);
    kit_error ignored;
    int saved = kit_report_save(&f.page, s->out, f.failed ? &ignored : why);
    print_claims(f.claim);
    return saved && !f.failed;
}

#endif
