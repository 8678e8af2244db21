/* pattern/pictures.h - where the heads look, what the positions look like, and curves

       draw_attention      a run's own pictures: every head, and what its encoding knows of positions
       draw_side_by_side   all encodings of an experiment on one sheet
       draw_curves         their accuracy by epoch                                                    */
#ifndef PATTERN_PICTURES_H
#define PATTERN_PICTURES_H

#include "pattern/train.h"
#include "kit/svg.h"

/* The sequence to show: of the first few, the first with the fewest places to look at, but with
   some. */
static int shown_sequence(const run *r, unsigned char *mark)
{
    int T = r->set->seq_len, best = 0, fewest = T + 1;
    int look = r->val->count < 50 ? r->val->count : 50;
    for (int i = look - 1; i >= -1; i--) {                 /* ends by marking the one chosen */
        int at = i < 0 ? best : i, n = 0;
        memset(mark, 0, (size_t)T);
        r->task->marks(mark, r->val->tokens + (size_t)at * (size_t)T, T, r->val->labels[at]);
        for (int t = 0; t < T; t++) n += mark[t];
        if (n > 0 && n <= fewest) { fewest = n; best = at; }
    }
    return best;
}

static kit_maps_style maps_style(const unsigned char *mark, char about[128], int label)
{
    kit_maps_style style;
    memset(&style, 0, sizeof style);
    snprintf(about, 128, "a validation sequence of class %d; triangles point at the places that "
             "decide it", label);
    style.about = about;
    style.mark = mark;
    return style;
}

/* More than 16 layers or heads would take several sheets: the first is shown. */
static int draw_attention(run *r, kit_error *why)
{
    int T = r->set->seq_len;
    unsigned char *mark = (unsigned char *)kit_new((size_t)T, 1);
    int sequence = shown_sequence(r, mark);
    const int *tokens = r->val->tokens + (size_t)sequence * (size_t)T;
    char about[128];
    kit_maps_style style = maps_style(mark, about, r->val->labels[sequence]);
    int done = kit_maps_take(&r->maps, r->model, tokens, T, why)
            && kit_maps_draw_page(&r->heads, &r->maps, &style, r->spec, NULL, 0, r->folder,
                                  "attention", why)
            && kit_album_make(&r->album, r->model, T, r->spec, r->folder, why);
    free(mark);
    free(r->maps.map);                     /* the report needs the means only */
    r->maps.map = NULL;
    return done;
}

/* All encodings under one another, with their first seed; a column per layer. */
static int draw_side_by_side(experiment *e, kit_error *why)
{
    size_t n = (size_t)e->methods;
    const kit_maps **maps = (const kit_maps **)kit_new(n, sizeof *maps);
    const char **name = (const char **)kit_new(n, sizeof *name);
    unsigned char *mark = (unsigned char *)kit_new((size_t)e->set.seq_len, 1);
    int label = e->val[0].labels[shown_sequence(&e->run[0], mark)];
    char about[128];
    kit_maps_style style = maps_style(mark, about, label);
    for (int i = 0; i < e->methods; i++) {
        maps[i] = &e->run[i * e->seeds].maps;
        name[i] = e->spec[i];
    }
    int done = kit_maps_draw_models(&e->sheet, maps, name, e->methods, -1, &style, 0, e->folder,
                                    "attention", why);
    free(mark);
    free((void *)name);
    free((void *)maps);
    return done;
}

/* ---- curves ---------------------------------------------------------------------------------- */

/* Where the axis begins: a whole tenth somewhat below the least there is to show. */
static double chart_floor(const experiment *e)
{
    double least = 1.0 / e->task->classes;
    for (int i = 0; i < e->methods * e->seeds; i++)
        for (int k = 0; k < e->run[i].epochs_done; k++)
            if (e->run[i].row[k].val_acc < least) least = e->run[i].row[k].val_acc;
    return least < 0.1 ? 0 : floor(10 * least - 0.2) / 10;
}

/* Validation accuracy by epoch, mean over seeds. */
static int draw_curves(experiment *e, kit_error *why)
{
    size_t epochs = (size_t)e->set.epochs;
    double *x = (double *)kit_new(epochs * (size_t)(e->methods + 1), sizeof(double));
    double *y = x + epochs;
    kit_series *line = (kit_series *)kit_new((size_t)e->methods, sizeof *line);
    kit_chart chart;
    char title[96];
    for (size_t i = 0; i < epochs; i++) x[i] = (double)i + 1;
    for (int m = 0; m < e->methods; m++, y += epochs) {
        const run *r = &e->run[m * e->seeds];
        for (size_t i = 0; i < epochs; i++) y[i] = mean_after(r, e->seeds, (int)i);
        line[m].name = e->spec[m];
        line[m].x = x;
        line[m].y = y;
        line[m].n = (int)epochs;
        line[m].plain = is_none(e->spec[m]);
    }
    snprintf(title, sizeof title, "Validation accuracy: %s%s%s%s", e->task->name,
             e->task->data ? ", " : "", e->task->data ? e->task->data : "",
             e->task->data ? " data" : "");
    memset(&chart, 0, sizeof chart);
    chart.title = title;
    chart.x_label = "epoch";
    chart.y_label = "sequences classified right";
    chart.series = line;
    chart.count = e->methods;
    chart.y_low = chart_floor(e);
    chart.y_high = 1.0;
    chart.percent = chart.whole_x = 1;
    chart.level_name = "chance";
    chart.level = 1.0 / e->task->classes;
    kit_chart_svg(&e->curves, &chart);
    free(x);
    free(line);
    return kit_save_in(e->folder, "curves.svg", &e->curves, why);
}

#endif
