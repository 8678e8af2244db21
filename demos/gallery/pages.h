/* gallery/pages.h - an encoding as a page of panels

       page p;
       page_make(&p, &shown[i], &why);         a model is made, and its encodings are drawn
       page_save(&p, folder, &why);

   Which panels a page has follows from where the encoding enters and from how many axes it reads,
   not from its name: a new row of the table gets a page without a change here. shown.h says with
   which numbers each is drawn. Learned encodings are drawn as a fresh model has them. */
#ifndef GALLERY_PAGES_H
#define GALLERY_PAGES_H

#include "gallery/plot.h"
#include "kit/positions.h"
#include "kit/specs.h"

enum { SHOWN_T = 64, SHOWN_C = 64, SHOWN_H = 8, LONGEST = 1024, MOSAIC = 4 };

typedef struct display {
    const char *name;                      /* of its picture; NULL: the encoding's, or the spec   */
    const char *spec;
    int T, C, H, causal;                   /* 0: 64, 64, and 8 heads for scores, 1 for the others */
    const char *note;                      /* what to see; NULL: nothing is said                  */
} display;

typedef struct page {
    int encoding;                          /* of the first part of the spec                       */
    char spec[POSENC_SPEC_TEXT];           /* as it was asked for                                 */
    char title[200], line[200], note[1600], slug[120];
    char again[POSENC_SPEC_TEXT + 100];    /* flags that draw it once more                        */
    int extra;                             /* 1: not a row of the table but a variant of one      */
    panel panel[PANELS];
    int panels;
    kit_picture picture;
} page;

static inline void page_free(page *p)
{
    for (int i = 0; i < p->panels; i++) panel_free(&p->panel[i]);
    p->panels = 0;
    kit_picture_free(&p->picture);
}

static inline void page_add(page *p, panel add)
{
    if (p->panels < PANELS) p->panel[p->panels++] = add;
    else panel_free(&add);                 /* the third of a sum of many has no place */
}

static inline void label(panel *p, const char *x, const char *y)
{
    p->x_label = x;
    p->y_label = y;
}

/* ---- positions on a grid --------------------------------------------------------------------- */

typedef struct grid { int frames, height, width; } grid;

static inline grid grid_of(const posenc_spec *s, int T)
{
    grid g = { 1, T / s->width, s->width };
    if (posenc_spec_axes(s) > 2) { g.height = s->height; g.frames = T / (g.width * g.height); }
    return g;
}

/* the token in the middle: the rest is compared with it */
static inline int middle_of(grid g)
{
    return (g.frames / 2 * g.height + g.height / 2) * g.width + g.width / 2;
}

/* Pictures of the grid, n down and n across: tile k shows column[k] of v (tokens, wide) from token
   first[k] on. */
static inline panel mosaic(const float *v, int wide, const int *first, const int *column, int n,
                           grid g, const char *title)
{
    int rows = n * (g.height + 1) - 1, cols = n * (g.width + 1) - 1;
    panel p = panel_make(HEAT, rows, cols, title);
    for (int i = 0; i < rows * cols; i++) {
        int y = i / cols % (g.height + 1), x = i % cols % (g.width + 1);
        int k = i / cols / (g.height + 1) * n + i % cols / (g.width + 1);
        int gap = y == g.height || x == g.width || first[k] < 0;
        size_t token = gap ? 0 : (size_t)(first[k] + y * g.width + x);
        p.value[i] = gap ? HUGE_VALF : v[token * (size_t)wide + (size_t)column[k]];
    }
    p.diverging = 1;
    return p;
}

/* Sixteen columns on a flat grid; in space and time four of them, frame by frame. */
static inline panel mosaic_of_columns(const float *v, int wide, grid g, const char *title)
{
    int first[MOSAIC * MOSAIC] = { 0 }, column[MOSAIC * MOSAIC];
    for (int k = 0; k < MOSAIC * MOSAIC; k++) {
        int down = k / MOSAIC, across = k % MOSAIC;
        column[k] = k * wide / (MOSAIC * MOSAIC);
        if (g.frames == 1) continue;
        column[k] = down < 3 ? down * wide / 3 + 2 : 2 * wide / 3 + 6;
        first[k] = across < g.frames ? across * g.height * g.width : -1;
    }
    return mosaic(v, wide, first, column, MOSAIC, g, title);
}

/* The row of a (T, T) map that belongs to the token in the middle, laid out as the grid. */
static inline panel map_of_middle(const float *map, int T, grid g, const char *title)
{
    const float *row = map + (size_t)middle_of(g) * (size_t)T;
    int n = g.frames > 1 ? 2 : 1, first[4] = { 0 }, column[4] = { 0 };
    for (int k = 0; k < n * n; k++) first[k] = k < g.frames ? k * g.height * g.width : -1;
    return mosaic(row, 1, first, column, n, g, title);
}

/* ---- added to the embedding ------------------------------------------------------------------ */

/* Likeness is yellow: from the least there is, so that no range of it is lost. */
static inline void likeness_colors(panel *p, const float *cosine, size_t n)
{
    p->diverging = 0;
    p->low = kit_least_cosine(cosine, n);
    p->high = 1;
    if (p->high - p->low < 1e-6) p->low = -1;            /* all alike, as far as one can see */
}

/* a map (rows, cols) as a panel */
static inline panel heat_of(const float *map, int rows, int cols, const char *title, const char *x,
                            const char *y)
{
    panel p = panel_make(HEAT, rows, cols, title);
    memcpy(p.value, map, (size_t)rows * (size_t)cols * sizeof *map);
    p.diverging = 1;
    p.x_label = x;
    p.y_label = y;
    return p;
}

/* g: the grid on which the positions stand; NULL: they stand in a line */
static inline void add_similarity(page *p, const float *table, int T, int C, const grid *g)
{
    size_t size = (size_t)T * (size_t)T;
    float *map = (float *)kit_new(size, sizeof(float));
    kit_cosines(map, table, T, C);
    int one_way = T > 1 && kit_least_cosine(map, size) > KIT_ONE_WAY;
    if (one_way) kit_distances(map, table, T, C);
    panel s = g ? map_of_middle(map, T, *g, "cosine between the middle and every place")
                : heat_of(map, T, T, one_way ? "distance (all point the same way)"
                                             : "cosine between positions", "position", "position");
    likeness_colors(&s, map, size);
    if (one_way) { s.low = s.high = 0; s.reverse = 1; }
    page_add(p, s);
    free(map);
}

static inline void add_rows(page *p, const kit_encoding *e, int T)
{
    int C = e->shape.C, on_grid = kit_spec_on_grid(&e->spec);
    double *at = kit_encoding_places(e, NULL, 1, T);
    float *table = (float *)kit_new((size_t)T * (size_t)C, sizeof(float));
    kit_encoding_rows(table, e, at, T);
    int rows = T < PLOT ? T : PLOT;        /* a row that is not drawn at all would deceive */
    panel whole = heat_of(table, rows, C, rows < T ? "added to the embedding, first positions"
                                                   : "what is added to the embedding",
                          "channel", "position");
    if (on_grid) {
        grid g = grid_of(&e->spec, T);
        page_add(p, mosaic_of_columns(table, C, g, g.frames > 1
                                      ? "four channels (down) in four frames"
                                      : "sixteen of the channels, each on the grid"));
        add_similarity(p, table, T, C, &g);
        page_add(p, whole);
    } else {
        page_add(p, whole);
        add_similarity(p, table, T, C, NULL);
    }
    free(table);
    free(at);
}

/* ---- turns queries and keys ------------------------------------------------------------------ */

static inline int turned_width(const kit_encoding *e)
{
    return e->spec.over == POSENC_OVER_WIDTH ? e->shape.C : e->shape.D;
}

/* Rows of ones (T, width) turned as queries, and behind them the same as keys; free() them. */
static inline float *turned_ones(const kit_encoding *e, const double *at, int T)
{
    int width = turned_width(e);
    size_t n = (size_t)T * (size_t)width;
    float *q = (float *)kit_new(2 * n, sizeof(float));
    for (size_t i = 0; i < 2 * n; i++) q[i] = 1;
    kit_encoding_turn(q, e, 0, at, T, width);
    kit_encoding_turn(q + n, e, 1, at, T, width);
    return q;
}

/* score (n): of a query at position d with a key at 0 that is the same vector, d = 0 .. n-1 */
static inline void score_by_distance(float *score, const kit_encoding *e, int n)
{
    int width = turned_width(e);
    double *at = kit_encoding_places(e, NULL, 1, n);
    float *q = turned_ones(e, at, n), *first_key = q + (size_t)n * (size_t)width;
    for (int d = 0; d < n; d++)
        score[d] = (float)(kit__dot(q + (size_t)d * (size_t)width, first_key, width) / width);
    free(q);
    free(at);
}

static inline void add_angles(page *p, const kit_encoding *e, const double *at, int T)
{
    int pairs = e->spec.dim / 2;
    size_t n = (size_t)T * (size_t)pairs;
    float *cosine = (float *)kit_new(2 * n, sizeof(float));
    kit_encoding_waves(cosine, cosine + n, e, 0, at, T);
    page_add(p, kit_spec_on_grid(&e->spec)
                    ? mosaic_of_columns(cosine, pairs, grid_of(&e->spec, T),
                                        "cosine of the angle: sixteen of the pairs on the grid")
                    : heat_of(cosine, T, pairs, e->spec.encoding == POSENC_XPOS
                              ? "a query's length times the cosine of its angle"
                              : "cosine of the angle by which a pair is turned", "pair",
                              e->spec.encoding == POSENC_MROPE ? "token" : "position"));
    free(cosine);
}

static inline void add_turn_scores(page *p, const kit_encoding *e, const double *at, int T)
{
    size_t size = (size_t)T * (size_t)T;
    float *map = (float *)kit_new(size, sizeof(float)), *q = turned_ones(e, at, T);
    int width = turned_width(e);
    kit_scores(map, q, q + (size_t)T * (size_t)width, T, width);
    for (size_t i = 0; e->shape.causal && i < size; i++)
        if (i % (size_t)T > i / (size_t)T) map[i] = NAN;
    panel s = kit_spec_on_grid(&e->spec)
                  ? map_of_middle(map, T, grid_of(&e->spec, T),
                                  "score of the middle with every place, if both are one vector")
                  : heat_of(map, T, T, "score of query and key, if both are one vector",
                            "key position", "query position");
    likeness_colors(&s, map, size);
    page_add(p, s);
    free(q);
    free(map);
}

/* rope by itself as well, to compare with */
static inline kit_encoding plain_rope(const kit_encoding *e)
{
    kit_encoding plain = *e;
    memset(&plain.spec, 0, sizeof plain.spec);
    plain.parts = 0;
    plain.spec.encoding = POSENC_ROPE;
    plain.spec.base = e->spec.base;
    plain.spec.dim = e->spec.dim;
    plain.spec.over = e->spec.over;
    posenc_spec_complete(&plain.spec, &plain.shape, NULL);
    return plain;
}

static inline int is_plain_rope(const posenc_spec *s)
{
    return (s->encoding == POSENC_ROPE && s->scaling == POSENC_SCALING_NONE)
        || s->encoding == POSENC_LROPE;
}

static inline void add_score_curve(page *p, const kit_encoding *e, int n)
{
    int both = !is_plain_rope(&e->spec);
    kit_encoding plain = plain_rope(e);
    panel s = panel_make(LINES, both ? 2 : 1, n,
                         "score of query and key by distance, if both are one vector");
    if (both) score_by_distance(s.value, &plain, n);
    score_by_distance(s.value + (both ? n : 0), e, n);
    label(&s, "distance", "score");
    s.control = both;
    if (both) { s.name[0] = "rope"; s.name[1] = "this one"; }
    page_add(p, s);
}

/* ---- rope, rescaled: frequencies before and after -------------------------------------------- */

/* 2 pi / frequency of each pair; a pair that does not turn has none */
static inline void wavelengths(float *wave, const kit_encoding *e, double length)
{
    int pairs = e->spec.dim / 2;
    double *room = (double *)kit_new((POSENC_AXES + 1) * (size_t)pairs, sizeof(double));
    posenc_rotation by = posenc_spec_rotation(room, &e->spec, 0, length);
    for (int i = 0; i < pairs; i++)
        wave[i] = by.frequency[i] > 0 ? (float)(6.283185307179586 / by.frequency[i]) : NAN;
    free(room);
}

/* from 1, as fast as before, to 4 or what there is above */
static inline void slowness_axis(panel *p)
{
    p->low = 1;
    p->high = 4;
    for (int i = 0; i < p->rows * p->cols; i++)
        if ((double)p->value[i] > p->high) p->high = (double)p->value[i];
    label(p, "pair", "times");
}

static inline void add_scaling(page *p, const kit_encoding *e, int T)
{
    int pairs = e->spec.dim / 2;
    kit_encoding plain = plain_rope(e);
    panel w = panel_make(LINES, 2, pairs, "wavelength of each pair, in positions");
    panel s = panel_make(LINES, 1, pairs, "how much slower each pair turns");
    wavelengths(w.value, &plain, T);
    wavelengths(w.value + pairs, e, T);
    for (int i = 0; i < pairs; i++) s.value[i] = w.value[pairs + i] / w.value[i];
    label(&w, "pair", "wavelength");
    slowness_axis(&s);
    w.log = w.control = 1;
    w.name[0] = "rope";
    w.name[1] = "this one";
    page_add(p, w);
    add_score_curve(p, e, T);
    page_add(p, s);
}

/* One line for each of several scalings: how much slower, and the score near by, where rope itself
   is the first line. */
static inline void add_scalings(page *p, const kit_encoding *e, const char *const *name, int n,
                                int T)
{
    int pairs = e[0].spec.dim / 2, near = 33;
    kit_encoding plain = plain_rope(&e[0]);
    float *before = (float *)kit_new((size_t)pairs, sizeof(float));
    float *far = (float *)kit_new((size_t)T, sizeof(float));
    panel slow = panel_make(LINES, n, pairs, "how much slower each pair turns");
    panel score = panel_make(LINES, n + 1, near, "score of near query and key, if one vector");
    wavelengths(before, &plain, T);
    score_by_distance(score.value, &plain, near);
    for (int i = 0; i < n; i++) {
        wavelengths(slow.value + i * pairs, &e[i], T);
        for (int k = 0; k < pairs; k++) slow.value[i * pairs + k] /= before[k];
        score_by_distance(far, &e[i], T);                /* some rules look at the whole length */
        memcpy(score.value + (i + 1) * near, far, (size_t)near * sizeof *far);
        slow.name[i] = score.name[i + 1] = name[i];
    }
    score.name[0] = "rope";
    score.control = 1;
    slowness_axis(&slow);
    label(&score, "distance", "score");
    page_add(p, slow);
    page_add(p, score);
    free(before);
    free(far);
}

/* Words, a picture and words again: where mrope differs from rope. (T, 3); free() it. */
static inline double *places_of_a_page(int T)
{
    int words = T / 8, side = (int)sqrt((double)(T - words));
    posenc_block block[3] = { { 0, 0, words, 0 }, { 1, side, side, 1 }, { 0, 0, 0, 0 } };
    double *pos = (double *)kit_new(3 * (size_t)T, sizeof(double));
    block[2].columns = T - words - side * side;
    posenc_positions_mrope(pos, block, 3);
    return pos;
}

static inline void add_turns(page *p, const kit_encoding *e, int T)
{
    int sections = e->spec.encoding == POSENC_MROPE;
    double *pos = sections ? places_of_a_page(T) : NULL;
    double *at = kit_encoding_places(e, pos, 3, T);
    if (e->spec.scaling != POSENC_SCALING_NONE) {
        add_scaling(p, e, T);
    } else {
        add_angles(p, e, at, T);
        add_turn_scores(p, e, at, T);
        if (!sections && !kit_spec_on_grid(&e->spec)) add_score_curve(p, e, 4 * T);
    }
    free(at);
    free(pos);
}

/* ---- tempers queries ------------------------------------------------------------------------- */

/* The weight of one key whose score is 10 above all others, by the number of these: without and
   with the temperature. */
static inline panel weight_of_one(const double *pos, const float *tau, int n)
{
    panel p = panel_make(LINES, 2, n, "attention to one key whose score is 10 above the others'");
    for (int i = 0; i < n; i++) {
        p.value[i] = (float)(1 / (1 + pos[i] * exp(-10.0)));
        p.value[n + i] = (float)(1 / (1 + pos[i] * exp(-10.0 * (double)tau[i])));
    }
    p.control = 1;
    p.name[0] = "without";
    p.name[1] = "with it";
    return p;
}

static inline void add_temper(page *p, const kit_encoding *e)
{
    enum { N = 513 };
    double pos[N], reach = 8 * e->spec.original;
    panel t = panel_make(LINES, 1, N, "by what the scores of a query are multiplied");
    for (int i = 0; i < N; i++) pos[i] = floor(reach * i / (N - 1));
    posenc_spec_temperature(t.value, &e->spec, pos, N);
    panel w = weight_of_one(pos, t.value, N);
    t.x1 = w.x1 = reach;
    label(&t, "position of the query", "factor");
    label(&w, "position of the query", "weight");
    page_add(p, t);
    page_add(p, w);
}

/* ---- added to the scores --------------------------------------------------------------------- */

/* bias (H, T, T) at distance d of head h */
static inline float bias_at(const float *bias, int T, int h, int d)
{
    int query = d > 0 ? d : 0, key = d > 0 ? 0 : -d;
    return bias[((size_t)h * (size_t)T + (size_t)query) * (size_t)T + (size_t)key];
}

/* A table of numbers is drawn as strips, which show what shares a number; a formula as curves. */
static inline int is_a_table(const kit_encoding *e)
{
    posenc_part part[POSENC_PARTS];
    int n = posenc_spec_parts(part, &e->spec, &e->shape);
    return n == 1 && part[0].columns == e->shape.H && part[0].rows != e->shape.H;
}

static inline panel bias_by_distance(const float *bias, const kit_encoding *e, int T)
{
    int H = e->shape.H, future = e->shape.causal ? 0 : T - 1, n = future + T;
    int table = is_a_table(e);
    panel p = panel_make(table ? HEAT : LINES, H, n, table
                         ? "added at a distance, a strip for each head"
                         : "added at a distance: a line for each head, the first is darkest");
    for (int i = 0; i < H * n; i++) p.value[i] = bias_at(bias, T, i / n, i % n - future);
    p.diverging = table;
    p.x0 = -future;
    p.x1 = T - 1;
    label(&p, future ? "distance (the past is positive)" : "distance", table ? "head" : "bias");
    return p;
}

/* Four heads of a bias over a grid, each by how far down and how far across. */
static inline panel bias_by_offset(const float *bias, const kit_encoding *e, int T)
{
    grid g = grid_of(&e->spec, T), wide = { 1, 2 * g.height - 1, 2 * g.width - 1 };
    int size = wide.height * wide.width, heads = e->shape.H < 4 ? e->shape.H : 4;
    int first[4] = { -1, -1, -1, -1 }, column[4] = { 0 };
    float *by = (float *)kit_new((size_t)heads * (size_t)size, sizeof(float));
    for (int i = 0; i < heads * size; i++) {
        int dy = i % size / wide.width - g.height + 1, dx = i % wide.width - g.width + 1;
        int query = (dy > 0 ? dy : 0) * g.width + (dx > 0 ? dx : 0);
        int key = query - dy * g.width - dx;
        by[i] = bias[((size_t)(i / size) * (size_t)T + (size_t)query) * (size_t)T + (size_t)key];
    }
    for (int h = 0; h < heads; h++) first[h] = h * size;
    panel p = mosaic(by, 1, first, column, 2, wide, "");
    snprintf(p.title, sizeof p.title, "%d heads: added by offset, down and across", heads);
    free(by);
    return p;
}

static inline void add_bias(page *p, const kit_encoding *e, int T)
{
    size_t size = (size_t)T * (size_t)T;
    int on_grid = kit_spec_on_grid(&e->spec), head = on_grid || is_a_table(e) ? 0 : e->shape.H / 2;
    double *at = kit_encoding_places(e, NULL, 1, T);
    float *bias = (float *)kit_new((size_t)e->shape.H * size, sizeof(float));
    char title[80];
    kit_encoding_bias(bias, e, at, T);
    page_add(p, on_grid ? bias_by_offset(bias, e, T) : bias_by_distance(bias, e, T));
    snprintf(title, sizeof title, "added to the scores of head %d", head);
    panel one = heat_of(bias + (size_t)head * size, T, T, title, "key position", "query position");
    for (size_t i = 0; e->shape.causal && i < size; i++)
        if (i % (size_t)T > i / (size_t)T) one.value[i] = NAN;
    page_add(p, one);
    free(bias);
    free(at);
}

/* ---- nowhere --------------------------------------------------------------------------------- */

/* What attention does to tokens that are all alike, with a causal mask: the library is asked. */
static inline void add_nothing(page *p, int T)
{
    float *zero = (float *)kit_new((size_t)T, sizeof(float));
    posenc_heads x = posenc_heads_bthd(zero, 1, T, 1, 1), none = x;
    posenc_attention how;
    panel map = panel_make(HEAT, T, T,
                           "attention among equal tokens, causal: log10");
    panel last = panel_make(LINES, 1, T, "weight of each token that place i sees");
    none.data = NULL;
    memset(&how, 0, sizeof how);
    how.causal = 1;
    posenc_attention_plain_forward(none, map.value, x, x, x, &how);
    for (int i = 0; i < T; i++) last.value[i] = map.value[i * T];
    for (int i = 0; i < T * T; i++) {
        map.value[i] = log10f(map.value[i]);
        if (i % T > i / T) map.value[i] = NAN;
    }
    label(&map, "key position", "query position");
    label(&last, "place i", "weight");
    page_add(p, map);
    page_add(p, last);
    free(zero);
}

/* ---- a page ---------------------------------------------------------------------------------- */

static inline void add_encoding(page *p, const kit_encoding *e, int T)
{
    switch (posenc_encoding_get(e->spec.encoding)->where) {
    case POSENC_EMBEDDING: add_rows(p, e, T); break;
    case POSENC_QUERY_KEY:
        if (e->spec.encoding == POSENC_QTEMP) add_temper(p, e);
        else add_turns(p, e, T);
        break;
    case POSENC_SCORE: add_bias(p, e, T); break;
    default: add_nothing(p, T); break;
    }
}

/* A bias is drawn for several heads, anything else for one: a wide head has many pairs to turn. */
static inline int page_heads(const display *d)
{
    posenc_spec list[POSENC_SPECS];
    int n = 0, turns = 0, biased = 0;
    posenc_spec_parse(list, &n, POSENC_SPECS, d->spec, NULL);
    for (int i = 0; i < n; i++) {
        biased |= posenc_encoding_get(list[i].encoding)->where == POSENC_SCORE;
        turns |= posenc_encoding_get(list[i].encoding)->where == POSENC_QUERY_KEY;
    }
    return d->H ? d->H : !biased ? 1 : turns ? SHOWN_H / 2 : SHOWN_H;
}

/* The smallest model that has these encodings: their tables start in it as in any other. */
static inline posenc_config page_config(const display *d)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = d->spec;
    c.vocab = 2;
    c.context = d->T ? d->T : SHOWN_T;
    c.channels = d->C ? d->C : SHOWN_C;
    c.heads = page_heads(d);
    c.causal = d->causal;
    c.layers = c.hidden = c.inference = c.threads = 1;
    c.seed = 1;
    return c;
}

static inline posenc_model *page_model(const display *d, kit_error *why)
{
    posenc_config c = page_config(d);
    posenc_model *m = NULL;
    posenc_error said;
    if (posenc_model_create(&m, &c, &said) != POSENC_OK) kit_fail(why, "%s", said.text);
    return m;
}

/* Whether a spec can be drawn. Digits and tables may end before the page does: without a length of
   its own the display gets the longest that fits. The first sentence is the one that says why. */
static inline int display_fits(display *d, kit_error *why)
{
    posenc_spec list[POSENC_SPECS];
    posenc_bytes bytes;
    posenc_error said;
    int n = 0, given = d->T > 0;
    if (posenc_spec_parse(list, &n, POSENC_SPECS, d->spec, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    if (n && list[0].encoding == POSENC_XPOS) d->causal = 1;          /* it is for nothing else */
    for (int T = given ? d->T : SHOWN_T; T > 0; T = given ? 0 : T - 1) {
        int first = d->T == 0 || given;
        d->T = T;
        posenc_config c = page_config(d);
        if (posenc_model_bytes(&bytes, &c, first ? &said : NULL) == POSENC_OK) return 1;
    }
    return kit_fail(why, "%s", said.text);
}

/* As many tokens as the encodings have places for: digits and tables end somewhere. */
static inline int page_length(const kit_encoding *e, int n, int T)
{
    for (int i = 0; i < n; i++) {
        double *at = kit_encoding_places(&e[i], NULL, 1, T);
        while (T > 1 && posenc_spec_check_positions(&e[i].spec, at, T, NULL) != POSENC_OK) T--;
        free(at);
    }
    return T;
}

static inline void page_words(page *p, const display *d, const kit_encoding *e, int n, int T)
{
    const posenc_encoding_info *info = posenc_encoding_get(e[0].spec.encoding);
    int score = info->where == POSENC_SCORE, used = 0;
    size_t room = sizeof p->note;
    snprintf(p->title, sizeof p->title, "%.190s",
             d->name ? d->name : p->extra ? d->spec : info->name);
    snprintf(p->line, sizeof p->line, "%s", n > 1 ? "several encodings at once" : info->line);
    if (d->note) used = snprintf(p->note, room, "%s\n", d->note);
    used += snprintf(p->note + used, room - (size_t)used, "Drawn: %.600s", d->spec);
    if (e[0].spec.encoding == POSENC_QTEMP || info->where == POSENC_NOWHERE) return;
    snprintf(p->note + used, room - (size_t)used, score ? ", %d positions, %d heads%s"
             : ", %d positions, %d channels%s", T, score ? e[0].shape.H : e[0].shape.C,
             e[0].shape.causal ? ", causal" : "");
}

static inline void page_flags(page *p, const display *d, const posenc_config *c)
{
    int n = snprintf(p->again, sizeof p->again, "--spec %s", d->spec);
    if (d->T || d->C || d->H)
        n += snprintf(p->again + n, sizeof p->again - (size_t)n,
                      " --context %d --channels %d --heads %d", c->context, c->channels, c->heads);
    if (d->causal) snprintf(p->again + n, sizeof p->again - (size_t)n, " --causal");
}

static inline void page_draw(page *p, const display *d, posenc_model *m, const posenc_spec *list,
                             int n)
{
    kit_encoding e[POSENC_SPECS];
    for (int i = 0; i < n; i++) kit_encoding_open(&e[i], m, &list[i], 0);
    int T = page_length(e, n, posenc_model_config(m)->context);
    page_words(p, d, e, n, T);
    page_flags(p, d, posenc_model_config(m));
    for (int i = 0; i < n; i++) add_encoding(p, &e[i], T);
    for (int i = 0; i < n; i++) kit_encoding_free(&e[i]);
}

/* extra 1: a variant, known by its spec instead of its name */
static inline int page_make(page *p, const display *d, int extra, kit_error *why)
{
    posenc_spec list[POSENC_SPECS];
    posenc_error said;
    int n = 0;
    memset(p, 0, sizeof *p);
    p->extra = extra;
    if (posenc_spec_parse(list, &n, POSENC_SPECS, d->spec, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    if (n == 0) { memset(list, 0, sizeof *list); n = 1; }               /* "none" is no part */
    p->encoding = list[0].encoding;
    snprintf(p->spec, sizeof p->spec, "%s", d->spec);
    kit_spec_slug(p->slug, sizeof p->slug,
                  d->name ? d->name : extra ? d->spec : posenc_encoding_get(p->encoding)->name);
    posenc_model *m = page_model(d, why);
    if (!m) return 0;
    if (p->encoding != POSENC_NONE) n = kit_specs_of(list, m);       /* every default filled in */
    page_draw(p, d, m, list, n);
    posenc_model_free(m);
    return 1;
}

/* A page that holds several displays of one shape against each other; all turn with a scaling. */
static inline int page_compare(page *p, const display *d, int n, kit_error *why)
{
    kit_encoding e[LINES_MOST];
    const char *name[LINES_MOST];
    int made = 0;
    memset(p, 0, sizeof *p);
    p->extra = 1;
    p->encoding = POSENC_ROPE;
    for (; made < n && made < LINES_MOST - 1; made++) {
        posenc_spec list[POSENC_SPECS];
        posenc_model *m = page_model(&d[made], why);
        if (!m) break;
        kit_specs_of(list, m);
        kit_encoding_open(&e[made], m, &list[0], 0);
        name[made] = strchr(d[made].name, '_') + 1;
        posenc_model_free(m);
    }
    if (made == n) add_scalings(p, e, name, n, d[0].T);
    for (int i = 0; i < made; i++) kit_encoding_free(&e[i]);
    return made == n;
}

static inline int page_save(page *p, const char *folder, kit_error *why)
{
    kit_image image;
    if (!plot_page(&image, p->title, p->line, p->panel, p->panels, p->note, why)) return 0;
    int done = plot_save(&p->picture, &image, KIT_SVG_MOST, folder, p->slug, why);
    kit_image_free(&image);
    return done;
}

#endif
