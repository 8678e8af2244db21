/* kit/maps.h - pictures of a model: where its heads look

       kit_maps maps;
       kit_maps_take(&maps, model, tokens, T, &why);             every layer and head, one input
       kit_maps_draw_page(&picture, &maps, &style, "learned", NULL, 0, folder, "heads", &why);
       kit_maps_draw_models(&picture, list, names, count, -1, &style, 0, folder, "models", &why);

   Include posenc.h first; everything goes through its public calls. The maps are float: this is for
   the ordinary build of the library, not for POSENC_DOUBLE. Sheets have room for so many maps and
   no more; what does not fit goes on further pages or is left out, and the picture says which. */
#ifndef KIT_MAPS_H
#define KIT_MAPS_H

#include "png.h"
#include "report.h"

enum {
    KIT_MAPS_SIDE = 16,                    /* layers, heads or models on one sheet                */
    KIT_MAPS_LAYERS = 8                    /* layers beside each other when models are compared   */
};

/* ---- taking the maps ------------------------------------------------------------------------- */

typedef struct kit_maps {
    int layers, heads, T;
    float *map;                            /* (layers, heads, T, T); NaN where a mask forbids     */
    float *mean;                           /* (layers, T, T), over the heads                      */
} kit_maps;

/* Whether the token at i may look at the one at j. */
static inline int kit_may_look(const posenc_config *c, const int *tokens, int i, int j)
{
    int apart = i < j ? j - i : i - j;
    if (c->causal && j > i) return 0;
    if (c->window > 0 && apart >= c->window) return 0;
    return !(tokens && c->mask_padding && tokens[j] == c->padding_token);
}

static inline void kit_maps_free(kit_maps *m)
{
    free(m->map);
    free(m->mean);
    memset(m, 0, sizeof *m);
}

static inline const float *kit_maps_of(const kit_maps *m, int layer, int head)  /* head -1: mean */
{
    size_t size = (size_t)m->T * (size_t)m->T;
    if (layer < 0 || layer >= m->layers || head < -1 || head >= m->heads) return NULL;
    if (head < 0) return m->mean + (size_t)layer * size;
    return m->map ? m->map + ((size_t)layer * (size_t)m->heads + (size_t)head) * size : NULL;
}

/* A weight of zero and a forbidden pair are two things: the second becomes NaN, drawn grey. Returns
   0 if there is a NaN already: a broken model must not pass for a mask. */
static inline int kit__maps_mask(kit_maps *m, const posenc_config *c, const int *tokens, int layer)
{
    size_t T = (size_t)m->T, size = T * T, heads = (size_t)m->heads;
    float *map = m->map + (size_t)layer * heads * size, *mean = m->mean + (size_t)layer * size;
    for (size_t at = 0; at < size; at++) {
        int seen = kit_may_look(c, tokens, (int)(at / T), (int)(at % T));
        double sum = 0;
        for (size_t h = 0; h < heads; h++) {
            sum += (double)map[h * size + at];
            if (!seen) map[h * size + at] = NAN;
        }
        if (!isfinite(sum)) return 0;
        mean[at] = seen ? (float)(sum / (double)heads) : NAN;
    }
    return 1;
}

/* After a forward: every layer's maps into the room that is there. */
static inline int kit__maps_read(kit_maps *m, posenc_model *model, const int *tokens,
                                 kit_error *why)
{
    size_t size = (size_t)m->heads * (size_t)m->T * (size_t)m->T;
    posenc_error said;
    for (int l = 0; l < m->layers; l++) {
        if (posenc_model_attention(model, m->map + (size_t)l * size, l, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text);
        if (!kit__maps_mask(m, posenc_model_config(model), tokens, l))
            return kit_fail(why, "the attention of layer %d is not a number", l);
    }
    return 1;
}

/* Runs the model on one sequence and takes every map. Free them with kit_maps_free. */
static inline int kit_maps_take(kit_maps *m, posenc_model *model, const int *tokens, int T,
                                kit_error *why)
{
    const posenc_config *c = posenc_model_config(model);
    size_t size = (size_t)c->layers * (size_t)T * (size_t)T;
    posenc_batch batch;
    posenc_error said;
    memset(m, 0, sizeof *m);
    memset(&batch, 0, sizeof batch);
    batch.B = 1;
    batch.T = T;
    batch.tokens = tokens;
    double bytes = 4.0 * c->layers * (c->heads + 1.0) * T * T;
    if (bytes > 4e9)
        return kit_fail(why, "the maps of %d layers, %d heads and %d tokens take %.0f GB; give it "
                        "fewer tokens", c->layers, c->heads, T, bytes / 1e9);
    if (posenc_model_forward(model, &batch, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    m->layers = c->layers;
    m->heads = c->heads;
    m->T = T;
    m->map = (float *)kit_new((size_t)c->heads * size, sizeof(float));
    m->mean = (float *)kit_new(size, sizeof(float));
    if (kit__maps_read(m, model, tokens, why)) return 1;
    kit_maps_free(m);
    return 0;
}

/* ---- a head in figures ----------------------------------------------------------------------- */

typedef struct kit_look {
    double entropy;                        /* bits, mean over the tokens that look                */
    double evenness;                       /* entropy as a share of the most there could be       */
    double distance;                       /* mean distance looked at                             */
    double previous, same, next, first;    /* weight on these tokens; NaN: they are never seen    */
    double most;                           /* share of all attention that the most read key has   */
    int key;                               /* which one that is                                   */
} kit_look;

typedef struct kit__tally { double sum; int rows; } kit__tally;

static inline void kit__tally_add(kit__tally *t, double v) { t->sum += v; t->rows++; }
static inline double kit__tally_mean(kit__tally t) { return t.rows ? t.sum / t.rows : NAN; }

/* One row into its tallies: entropy, evenness, distance, and the four tokens by name. */
static inline void kit__look_row(kit__tally tally[7], const float *row, int i, int T, int even)
{
    const int at[4] = { i - 1, i, i + 1, 0 };
    double entropy = 0, distance = 0, share = 0;
    int seen = 0;
    for (int j = 0; j < T; j++) seen += isfinite(row[j]) != 0;
    if (seen == 0) return;
    if (even) share = 1.0 / seen;
    for (int j = 0; j < T; j++) {
        double w = even ? share : (double)row[j];
        if (!isfinite(row[j])) continue;
        entropy -= w > 0 ? w * log2(w) : 0;
        distance += w * (i < j ? j - i : i - j);
    }
    kit__tally_add(&tally[0], entropy);
    if (seen > 1) kit__tally_add(&tally[1], entropy / log2(seen));
    kit__tally_add(&tally[2], distance);
    for (int k = 0; k < 4; k++)
        if (at[k] >= 0 && at[k] < T && isfinite(row[at[k]]))
            kit__tally_add(&tally[3 + k], even ? share : (double)row[at[k]]);
}

/* Which column of a map has most of its weight: a stripe in the picture. */
static inline void kit__look_key(kit_look *k, const float *map, int T, int even)
{
    double *sum = (double *)kit_new((size_t)T, sizeof(double)), all = 0;
    for (int i = 0; i < T; i++) {
        const float *row = map + (size_t)i * (size_t)T;
        int seen = 0;
        for (int j = 0; j < T; j++) seen += isfinite(row[j]) != 0;
        for (int j = 0; j < T; j++)
            if (isfinite(row[j])) sum[j] += even ? 1.0 / seen : (double)row[j];
        all += seen > 0;
    }
    k->key = 0;
    for (int j = 1; j < T; j++) if (sum[j] > sum[k->key]) k->key = j;
    k->most = all > 0 ? sum[k->key] / all : NAN;
    free(sum);
}

/* even 1: the figures of a head that looks at all it may see alike, to hold the others against */
static inline kit_look kit_map_look(const float *map, int T, int even)
{
    kit__tally tally[7];
    kit_look k;
    memset(tally, 0, sizeof tally);
    for (int i = 0; i < T; i++)
        kit__look_row(tally, map + (size_t)i * (size_t)T, i, T, even);
    k.entropy = kit__tally_mean(tally[0]);
    k.evenness = kit__tally_mean(tally[1]);
    k.distance = kit__tally_mean(tally[2]);
    k.previous = kit__tally_mean(tally[3]);
    k.same = kit__tally_mean(tally[4]);
    k.next = kit__tally_mean(tally[5]);
    k.first = kit__tally_mean(tally[6]);
    kit__look_key(&k, map, T, even);
    return k;
}

/* ---- what all sheets share ------------------------------------------------------------------- */

typedef struct kit_maps_style {            /* all zero: numbers on the axes, no marks, root       */
    const char *about;                     /* what the input is; NULL: nothing is said            */
    const char *const *word;               /* (T) tokens as words; NULL: places are counted       */
    const unsigned char *mark;             /* (T) keys to point at; NULL: none                    */
    const char *scale;                     /* of the colours: "root", "linear", "log"             */
    int cell;                              /* points a weight takes; 0: chosen                    */
} kit_maps_style;

typedef struct kit_names { const char **name; char (*room)[32]; } kit_names;

/* "layer 0", "layer 3", ...: word and number[i], or first + i without numbers */
static inline kit_names kit_names_make(const char *word, int first, const int *number, int n)
{
    kit_names names;
    names.name = (const char **)kit_new((size_t)n, sizeof *names.name);
    names.room = (char (*)[32])kit_new((size_t)n, sizeof *names.room);
    for (int i = 0; i < n; i++) {
        snprintf(names.room[i], sizeof names.room[i], "%.15s %d", word,
                 number ? number[i] : first + i);
        names.name[i] = names.room[i];
    }
    return names;
}

static inline void kit_names_free(kit_names *names)
{
    free((void *)names->name);
    free(names->room);
}

/* A map that is too long for its place is drawn in blocks of k x k, each with its largest weight: a
   mean would wash out the single sharp one that matters. Blocks that a mask forbids stay NaN. */
static inline float *kit__maps_blocks(const float *map, int T, int k)
{
    int n = (T + k - 1) / k;
    float *block = (float *)kit_new((size_t)n * (size_t)n, sizeof(float));
    for (int i = 0; i < n * n; i++) block[i] = NAN;
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) {
            float v = map[(size_t)i * (size_t)T + (size_t)j], *to = &block[i / k * n + j / k];
            if (isfinite(v) && !(*to >= v)) *to = v;
        }
    return block;
}

typedef struct kit__grid {                 /* the maps of a sheet, in blocks if they must be      */
    kit_sheet sheet;
    const float **map;
    float **own;
    int k;
    unsigned char *mark;
    char note[160];
} kit__grid;

static inline void kit__grid_free(kit__grid *g)
{
    for (int i = 0; g->own && i < g->sheet.rows * g->sheet.cols; i++) free(g->own[i]);
    free(g->own);
    free((void *)g->map);
    free(g->mark);
}

static inline void kit__grid_scale(kit_sheet *s, const char *scale)
{
    if (scale && strcmp(scale, "log") == 0) s->decades = 3;
    else if (!scale || strcmp(scale, "linear") != 0)
        s->power = 0.5;                    /* most weights are near 1/T: the root spreads them */
}

/* points: how wide a map should be, about */
static inline void kit__grid_open(kit__grid *g, int rows, int cols, int T, int points,
                                  const kit_maps_style *style)
{
    kit_sheet *s = &g->sheet;
    memset(g, 0, sizeof *g);
    g->k = style->cell > 0 ? 1 : (T + points - 1) / points;
    s->rows = rows;
    s->cols = cols;
    s->height = s->width = (T + g->k - 1) / g->k;
    s->cell = style->cell > 0 ? style->cell : kit_cell_for(s->width, points);
    s->tick_times = g->k;
    int words = style->word && g->k == 1 && s->cell >= (rows * cols > 1 ? 12 : 5);
    s->x_label = words ? "key (looked at)" : "key position";
    s->y_label = words ? "query (looks)" : "query position";
    s->value_label = "attention weight";
    s->absent_label = "masked";
    s->x_tick = s->y_tick = words ? style->word : NULL;
    kit__grid_scale(s, style->scale);
    g->mark = (unsigned char *)kit_new((size_t)s->width, 1);
    for (int i = 0; style->mark && i < T; i++) g->mark[i / g->k] |= style->mark[i];
    s->mark = style->mark ? g->mark : NULL;
    g->map = (const float **)kit_new((size_t)(rows * cols), sizeof *g->map);
    g->own = (float **)kit_new((size_t)(rows * cols), sizeof *g->own);
    s->map = g->map;
    if (g->k > 1)
        snprintf(g->note, sizeof g->note, "each point is the largest of %d x %d weights", g->k,
                 g->k);
    s->note = g->k > 1 ? g->note : NULL;
}

static inline void kit__grid_put(kit__grid *g, int at, const float *map, int T)
{
    if (map && g->k > 1) map = g->own[at] = kit__maps_blocks(map, T, g->k);
    g->map[at] = map;
}

/* ---- every head, one head, several models ---------------------------------------------------- */

/* sheets for n of a kind, and how many each then has: 18 are 9 and 9, not 16 and 2 */
static inline int kit__sheets(int n) { return (n + KIT_MAPS_SIDE - 1) / KIT_MAPS_SIDE; }
static inline int kit__per_sheet(int n) { return (n + kit__sheets(n) - 1) / kit__sheets(n); }

static inline int kit_maps_pages(const kit_maps *m)
{
    return kit__sheets(m->layers) * kit__sheets(m->heads);
}

/* "layers 0 to 15 of 24, heads 16 to 31 of 32; sheet 2 of 4", and what the input is */
static inline void kit__page_about(char *text, size_t room, const kit_maps *m, int page, int layer,
                                   int head, const kit__grid *g, const kit_maps_style *style)
{
    int pages = kit_maps_pages(m), n = 0;
    if (pages > 1)
        n = snprintf(text, room, "layers %d to %d of %d, heads %d to %d of %d; sheet %d of %d%s",
                     layer, layer + g->sheet.rows - 1, m->layers, head, head + g->sheet.cols - 1,
                     m->heads, page + 1, pages, style->about ? "\n" : "");
    if (style->about) snprintf(text + n, room - (size_t)n, "%s", style->about);
    else if (pages == 1) text[0] = 0;
}

/* A row of maps for each layer, a column for each head. frame (layers, heads) picks out maps. */
static inline int kit_maps_draw_page(kit_picture *p, const kit_maps *m, const kit_maps_style *style,
                                     const char *name, const unsigned char *frame, int page,
                                     const char *folder, const char *stem, kit_error *why)
{
    int across = kit__sheets(m->heads), rows = kit__per_sheet(m->layers);
    int cols = kit__per_sheet(m->heads);
    int layer = page / across * rows, head = page % across * cols;
    if (rows > m->layers - layer) rows = m->layers - layer;
    if (cols > m->heads - head) cols = m->heads - head;
    char title[160], about[600];
    unsigned char framed[KIT_MAPS_SIDE * KIT_MAPS_SIDE] = { 0 };
    kit__grid g;
    kit__grid_open(&g, rows, cols, m->T, 160, style);
    kit_names layers = kit_names_make("layer", layer, NULL, rows);
    kit_names heads = kit_names_make("head", head, NULL, cols);
    for (int i = 0; i < rows * cols; i++) {
        int l = layer + i / cols, h = head + i % cols;
        kit__grid_put(&g, i, kit_maps_of(m, l, h), m->T);
        framed[i] = frame ? frame[l * m->heads + h] : 0;
    }
    snprintf(title, sizeof title, "Attention of every head: %.100s", name);
    kit__page_about(about, sizeof about, m, page, layer, head, &g, style);
    g.sheet.title = title;
    g.sheet.subtitle = about;
    g.sheet.row_name = layers.name;
    g.sheet.col_name = heads.name;
    g.sheet.frame = frame ? framed : NULL;
    int done = kit_picture_save(p, &g.sheet, folder, stem, why);
    kit_names_free(&layers);
    kit_names_free(&heads);
    kit__grid_free(&g);
    return done;
}

/* One map by itself, large; head -1 is the mean over heads. */
static inline int kit_maps_draw_head(kit_picture *p, const kit_maps *m, const kit_maps_style *style,
                                     const char *name, int layer, int head, const char *folder,
                                     const char *stem, kit_error *why)
{
    char title[200];
    kit__grid g;
    kit__grid_open(&g, 1, 1, m->T, 640, style);
    kit__grid_put(&g, 0, kit_maps_of(m, layer, head), m->T);
    if (head < 0) snprintf(title, sizeof title, "%.100s: layer %d, mean of heads", name, layer);
    else snprintf(title, sizeof title, "%.100s: layer %d, head %d", name, layer, head);
    g.sheet.title = title;
    g.sheet.subtitle = style->about;
    int done = kit_picture_save(p, &g.sheet, folder, stem, why);
    kit__grid_free(&g);
    return done;
}

/* Up to `most` of n layers, first and last among them. Returns how many. */
static inline int kit__choose_layers(int *layer, int n, int most)
{
    int count = n < most ? n : most;
    for (int i = 0; i < count; i++)
        layer[i] = count > 1 ? (int)((double)i * (n - 1) / (count - 1) + 0.5) : 0;
    return count;
}

/* The same input under several models: a row each, a column per layer, the mean over heads or one
   head. All must have the same T. More than 16 models take more than one page. */
static inline int kit_maps_draw_models(kit_picture *p, const kit_maps *const *m,
                                       const char *const *name, int count, int head,
                                       const kit_maps_style *style, int page, const char *folder,
                                       const char *stem, kit_error *why)
{
    int rows = kit__per_sheet(count), first = page * rows, n = 0;
    int layer[KIT_MAPS_LAYERS], deepest = 0;
    if (rows > count - first) rows = count - first;
    char about[700], which[32] = "mean over heads";
    kit__grid g;
    for (int i = 0; i < count; i++) deepest = kit__most(deepest, m[i]->layers);
    int cols = kit__choose_layers(layer, deepest, KIT_MAPS_LAYERS);
    kit__grid_open(&g, rows, cols, m[0]->T, 256, style);
    for (int i = 0; i < rows * cols; i++) {
        const kit_maps *of = m[first + i / cols];
        kit__grid_put(&g, i, kit_maps_of(of, layer[i % cols], head), of->T);
    }
    kit_names layers = kit_names_make("layer", 0, layer, cols);
    if (head >= 0) snprintf(which, sizeof which, "head %d", head);
    n = snprintf(about, sizeof about, "the same input under each encoding, %s", which);
    if (deepest > cols) n += snprintf(about + n, 80, "; %d of %d layers", cols, deepest);
    if (count > rows)
        n += snprintf(about + n, 80, "; models %d to %d of %d", first + 1, first + rows, count);
    if (style->about) snprintf(about + n, sizeof about - (size_t)n, "\n%s", style->about);
    g.sheet.title = "Where the attention goes";
    g.sheet.subtitle = about;
    g.sheet.row_name = name + first;
    g.sheet.col_name = layers.name;
    int done = kit_picture_save(p, &g.sheet, folder, stem, why);
    kit_names_free(&layers);
    kit__grid_free(&g);
    return done;
}

/* ---- a picture in a report ------------------------------------------------------------------- */

/* within: the folder of the picture, seen from the report; "" or "name/" */
static inline void kit_report_picture(kit_report *r, const kit_picture *p, const char *within,
                                      const char *alt, const char *caption)
{
    char file[300];
    if (!p->file[0]) return;
    snprintf(file, sizeof file, "%.160s%s", within, p->file);
    if (KIT_HAS_PNG) kit_report_png(r, &p->bytes, file, alt, caption);
    else kit_report_svg(r, &p->bytes, file, alt, caption);
}

#endif
