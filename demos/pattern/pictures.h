/* pattern/pictures.h - attention maps: every head of one run, and all encodings under one another

       draw_attention      a run's own picture; also fills its mean_map and picture
       draw_side_by_side   all encodings of an experiment on one sheet
       draw_curves         their accuracy by epoch */
#ifndef PATTERN_PICTURES_H
#define PATTERN_PICTURES_H

#include "pattern/train.h"
#include "kit/png.h"
#include "kit/svg.h"

/* ---- attention maps --------------------------------------------------------------------------
   Of one validation sequence: every layer and head of a run, and their mean over heads. */

enum { MOST = 16 };                        /* layers, heads and runs on one sheet */

/* "layer 0", "layer 1", ... */
static void number_names(const char *name[MOST], char room[MOST][16], const char *word, int n)
{
    for (int i = 0; i < n; i++) {
        snprintf(room[i], sizeof room[i], "%s %d", word, i);
        name[i] = room[i];
    }
}

static int at_most(int n, int most) { return n < most ? n : most; }

/* The sequence to show: of the first few, the first with the fewest places to look at, but with
   some. */
static int shown_sequence(const run *r, unsigned char *mark)
{
    int T = r->set->seq_len, best = 0, fewest = T + 1, look = at_most(r->val->count, 50);
    for (int i = look - 1; i >= -1; i--) {                 /* ends by marking the one chosen */
        int at = i < 0 ? best : i, n = 0;
        memset(mark, 0, (size_t)T);
        r->task->marks(mark, r->val->tokens + (size_t)at * (size_t)T, T, r->val->labels[at]);
        for (int t = 0; t < T; t++) n += mark[t];
        if (n > 0 && n <= fewest) { fewest = n; best = at; }
    }
    return best;
}

/* What both sheets below have in common; points: how wide a map is, about. */
static kit_sheet attention_sheet(const run *r, const unsigned char *mark, int points)
{
    kit_sheet sheet;
    memset(&sheet, 0, sizeof sheet);
    sheet.mark = mark;
    sheet.height = sheet.width = r->set->seq_len;
    sheet.cell = points / r->set->seq_len > 1 ? points / r->set->seq_len : 1;
    sheet.x_label = "key position";
    sheet.y_label = "query position";
    sheet.value_label = "attention weight";
    sheet.power = 0.5;                     /* most weights are near 1/T: the root spreads them */
    return sheet;
}

static int draw_heads(run *r, const float *maps, kit_error *why)
{
    const settings *s = r->set;
    size_t size = (size_t)s->seq_len * (size_t)s->seq_len;
    const float *map[MOST * MOST];
    const char *layer[MOST], *head[MOST];
    char layer_room[MOST][16], head_room[MOST][16], title[128], about[128];
    unsigned char *mark = (unsigned char *)kit_new((size_t)s->seq_len, 1);
    int label = r->val->labels[shown_sequence(r, mark)];
    kit_sheet sheet = attention_sheet(r, mark, 160);
    sheet.rows = at_most(s->layers, MOST);
    sheet.cols = at_most(s->heads, MOST);
    for (int l = 0; l < sheet.rows; l++)
        for (int h = 0; h < sheet.cols; h++)
            map[l * sheet.cols + h] = maps + (size_t)(l * s->heads + h) * size;
    number_names(layer, layer_room, "layer", sheet.rows);
    number_names(head, head_room, "head", sheet.cols);
    snprintf(title, sizeof title, "Attention of every head: %.80s", r->spec);
    snprintf(about, sizeof about, "a validation sequence of class %d; triangles point at the "
             "places that decide it", label);
    sheet.title = title;
    sheet.subtitle = about;
    sheet.map = map;
    sheet.row_name = layer;
    sheet.col_name = head;
    int done = kit_sheet_save(&r->picture, &sheet, r->folder, "attention.png", why);
    free(mark);
    return done;
}

/* Runs the model on one sequence and takes its maps: maps (layers, heads, T, T), r->mean_map. */
static int take_maps(run *r, float *maps, int sequence, kit_error *why)
{
    int H = r->set->heads;
    size_t size = (size_t)r->set->seq_len * (size_t)r->set->seq_len;
    posenc_batch batch;
    posenc_error said;
    fill_batch(r, &batch, r->val, NULL, sequence);
    batch.B = 1;
    if (posenc_model_forward(r->model, &batch, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    for (int l = 0; l < r->set->layers; l++) {
        float *layer = maps + (size_t)(l * H) * size, *mean = r->mean_map + (size_t)l * size;
        if (posenc_model_attention(r->model, layer, l, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text);
        for (size_t i = 0; i < (size_t)H * size; i++) mean[i % size] += layer[i] / (float)H;
    }
    return 1;
}

static int draw_attention(run *r, kit_error *why)
{
    size_t T = (size_t)r->set->seq_len;
    float *maps = (float *)kit_new((size_t)(r->set->layers * r->set->heads) * T * T, sizeof(float));
    unsigned char *mark = (unsigned char *)kit_new(T, 1);
    int done = take_maps(r, maps, shown_sequence(r, mark), why)
            && (!KIT_HAS_PNG || draw_heads(r, maps, why));
    free(mark);
    free(maps);
    return done;
}

/* All encodings under one another, with their first seed; a column per layer. */
static int draw_side_by_side(experiment *e, kit_error *why)
{
    size_t T = (size_t)e->set.seq_len;
    const float *map[MOST * MOST];
    const char *layer[MOST], *name[MOST];
    char layer_room[MOST][16];
    unsigned char *mark = (unsigned char *)kit_new(T, 1);
    kit_sheet sheet = attention_sheet(&e->run[0], mark, 256);
    shown_sequence(&e->run[0], mark);
    sheet.rows = at_most(e->methods, MOST);
    sheet.cols = at_most(e->set.layers, MOST);
    for (int i = 0; i < sheet.rows; i++) {
        name[i] = e->spec[i];
        for (int l = 0; l < sheet.cols; l++)
            map[i * sheet.cols + l] = e->run[i * e->seeds].mean_map + (size_t)l * T * T;
    }
    number_names(layer, layer_room, "layer", sheet.cols);
    sheet.title = "Where the attention goes";
    sheet.subtitle = "one validation sequence, mean over heads;\n"
                     "triangles point at the places that decide its class";
    sheet.map = map;
    sheet.row_name = name;
    sheet.col_name = layer;
    int done = kit_sheet_save(&e->sheet, &sheet, e->folder, "attention.png", why);
    free(mark);
    return done;
}

/* ---- curves ---------------------------------------------------------------------------------- */

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
    chart.y_low = e->task->classes > 4 ? 0.1 : 0.2;
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
