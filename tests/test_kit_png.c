/* The pictures of the demos: the canvas, sheets of heat maps, and pictures of a model. What can be
   said about a picture without looking at it: nothing is cut at the edge (drawing outside is cut
   off silently, so a margin that stays white is the proof), light means more, grey none. */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "models.h"
#include "kit/maps.h"
#include "kit/png.h"
#include "kit/positions.h"

static kit_error why;

/* ---- helpers --------------------------------------------------------------------------------- */

static const unsigned char *point(const kit_image *p, int x, int y)
{
    return p->rgb + 3 * ((size_t)y * (size_t)p->width + (size_t)x);
}

static int is_white(const kit_image *p, int x, int y)
{
    const unsigned char *c = point(p, x, y);
    return c[0] == 255 && c[1] == 255 && c[2] == 255;
}

static int ink(const kit_image *p)
{
    int n = 0;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) n += !is_white(p, x, y);
    return n;
}

/* 1 when the outermost points are all white, so that nothing was cut */
static int has_margin(const kit_image *p, int points)
{
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            int edge = x < points || y < points || x >= p->width - points
                    || y >= p->height - points;
            if (edge && !is_white(p, x, y)) {
                snprintf(check_text, sizeof check_text, "ink at %d, %d of %d x %d", x, y, p->width,
                         p->height);
                return 0;
            }
        }
    return 1;
}

static double lightness(kit_color c)           /* of CIE: L* of the colour */
{
    double part[3] = { c.r / 255.0, c.g / 255.0, c.b / 255.0 };
    for (int i = 0; i < 3; i++)
        part[i] = part[i] <= 0.04045 ? part[i] / 12.92 : pow((part[i] + 0.055) / 1.055, 2.4);
    double Y = 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
    return Y > 0.008856 ? 116 * cbrt(Y) - 16 : 903.3 * Y;
}

static kit_sheet plain_sheet(const float *const *map, int n, int cell)
{
    kit_sheet s;
    memset(&s, 0, sizeof s);
    s.rows = s.cols = 1;
    s.map = map;
    s.height = s.width = n;
    s.cell = cell;
    return s;
}

/* ---- canvas ---------------------------------------------------------------------------------- */

TEST drawing_is_cut_at_the_edges(void)
{
    static const int box[][5] = {              /* x, y, w, h, points that are inside 9 x 7 */
        { -5, -5, 6, 6, 1 }, { 8, 6, 100, 100, 1 }, { 9, 0, 5, 5, 0 }, { 0, 7, 5, 5, 0 },
        { -10, 2, 30, 1, 9 }, { 3, -10, 1, 30, 7 }, { 2, 2, 0, 3, 0 }, { 2, 2, -1, 3, 0 },
        { -9, 0, 5, 5, 0 }, { 100, 100, 5, 5, 0 }, { -100, -100, 5, 5, 0 }
    };
    for (size_t i = 0; i < sizeof box / sizeof *box; i++) {
        kit_image p;
        ASSERT(kit_image_make(&p, 9, 7, kit_grey(255), &why));
        kit_fill(&p, box[i][0], box[i][1], box[i][2], box[i][3], kit_grey(0));
        int n = ink(&p);
        kit_image_free(&p);
        ASSERT_EQ_FMT(box[i][4], n, "%d");
    }
    PASS();
}

TEST letters_and_outlines_outside_are_harmless(void)
{
    kit_image p;
    ASSERT(kit_image_make(&p, 40, 30, kit_grey(255), &why));
    for (int scale = 1; scale <= 4; scale += scale) {
        kit_write(&p, -1000, -1000, "far", scale, kit_grey(0));
        kit_write(&p, 1000, 5, "far", scale, kit_grey(0));
        kit_write_up(&p, 5, -100, "far", scale, kit_grey(0));
        kit_outline(&p, -300, -300, 900, 900, 4, kit_grey(0));
    }
    ASSERT_EQ(0, ink(&p));
    kit_write(&p, 35, 26, "cut \377\001", 4, kit_grey(0));      /* letters that there are not */
    kit_outline(&p, 10, 5, 8, 6, 2, kit_grey(0));
    ASSERT(!is_white(&p, 10, 5) && !is_white(&p, 17, 10) && is_white(&p, 13, 7));
    kit_image_free(&p);
    PASS();
}

TEST impossible_pictures_are_refused(void)
{
    static const int size[][2] = { { 0, 5 }, { 5, 0 }, { -1, 5 }, { 40000, 5 }, { 29000, 29000 } };
    float one = 1;
    const float *map = &one;
    kit_sheet s = plain_sheet(&map, 100000, 40);
    kit_image p;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        ASSERT(!kit_image_make(&p, size[i][0], size[i][1], kit_grey(255), &why));
        ASSERT(strlen(why.text) > 10 && p.rgb == NULL);
    }
    ASSERT(!kit_sheet_draw(&p, &s, &why));
    s = plain_sheet(&map, 1, 0);
    ASSERT(!kit_sheet_draw(&p, &s, &why));
    PASS();
}

TEST colours_are_ordered_by_lightness(void)
{
    for (int i = 0; i < 100; i++) {
        ASSERT(lightness(kit_sequential((i + 1) / 100.0)) > lightness(kit_sequential(i / 100.0)));
        ASSERT(lightness(kit_diverging((i + 1) / 100.0)) < lightness(kit_diverging(i / 100.0)));
        ASSERT(lightness(kit_diverging(-(i + 1) / 100.0)) < lightness(kit_diverging(-i / 100.0)));
    }
    ASSERT(lightness(kit_sequential(1)) - lightness(kit_sequential(0)) > 60);
    ASSERT(lightness(kit_diverging(0)) > 90);
    ASSERT(lightness(kit_sequential(-5)) == lightness(kit_sequential(0)));
    ASSERT(lightness(kit_sequential(7)) == lightness(kit_sequential(1)));
    PASS();
}

TEST lines_keep_their_width(const char *text, int wide)
{
    enum { LEFT = 20 };
    for (int scale = 1; scale <= 4; scale += scale) {
        kit_image p;
        int room = wide > 6 * scale ? wide : 6 * scale;       /* a letter at least */
        int tall = kit_write_lines(NULL, 0, 0, wide, text, scale, kit_grey(0));
        ASSERT(kit_image_make(&p, LEFT + room + 60, tall + 60, kit_grey(255), &why));
        ASSERT_EQ(tall, kit_write_lines(&p, LEFT, 20, wide, text, scale, kit_grey(0)));
        for (int y = 0; y < p.height; y++)
            for (int x = 0; x < p.width; x++)
                if (!is_white(&p, x, y))
                    ASSERT(x >= LEFT && x < LEFT + room && y >= 20 && y < 20 + tall);
        ASSERT(ink(&p) > 0);
        kit_image_free(&p);
    }
    PASS();
}

/* ---- sheets ---------------------------------------------------------------------------------- */

#define LONG_WORD "rope:base=500000,layout=interleaved,dim=64+learned:rows=4096,init=0.02"

/* Everything a sheet can have, at a size: nothing may reach the edge of the picture. */
TEST nothing_is_cut(int rows, int cols, int n, int cell, int busy)
{
    size_t count = (size_t)n * (size_t)n;
    float *v = (float *)kit_new(count, sizeof(float));
    const float **map = (const float **)kit_new((size_t)(rows * cols), sizeof *map);
    const char **word = (const char **)kit_new((size_t)n, sizeof *word);
    const char **name = (const char **)kit_new((size_t)(rows * cols + rows + cols), sizeof *name);
    unsigned char *mark = (unsigned char *)kit_new((size_t)n, 1);
    unsigned char *frame = (unsigned char *)kit_new((size_t)(rows * cols), 1);
    kit_image p;
    for (size_t i = 0; i < count; i++) v[i] = (float)check_random();
    for (int i = 0; i < n; i++) { word[i] = i % 3 ? "12345" : LONG_WORD; mark[i] = 1; }
    for (int i = 0; i < rows * cols; i++) { map[i] = v; frame[i] = 1; }
    for (int i = 0; i < rows * cols + rows + cols; i++) name[i] = i % 2 ? "head 12" : LONG_WORD;
    kit_sheet s = plain_sheet(map, n, cell);
    s.rows = rows;
    s.cols = cols;
    v[0] = NAN;
    if (busy) {
        s.title = s.subtitle = s.note = "A long title: " LONG_WORD " " LONG_WORD;
        s.row_name = s.col_name = name;
        s.map_name = busy > 1 ? name : NULL;
        s.x_label = s.y_label = s.value_label = "quite a long label";
        s.x_tick = s.y_tick = word;
        s.mark = mark;
        s.frame = frame;
        s.diverging = busy > 1;
    }
    ASSERTm(why.text, kit_sheet_draw(&p, &s, &why));
    ASSERTm(check_text, has_margin(&p, 6));
    kit_image_free(&p);
    free(v); free((void *)map); free((void *)word); free((void *)name); free(mark); free(frame);
    PASS();
}

/* A map of one row: the colours of the cells, read back from the picture. */
static int draw_cells(kit_color *c, int n, const float *value, kit_sheet *s)
{
    kit_image p;
    s->map = &value;
    s->height = 1;
    s->width = n;
    s->cell = 10;
    if (!kit_sheet_draw(&p, s, &why)) return 0;
    kit__layout at = kit__sheet_layout(s);
    for (int i = 0; i < n; i++) {
        const unsigned char *from = point(&p, at.left + 10 * i + 5, at.top + 5);
        c[i].r = from[0]; c[i].g = from[1]; c[i].b = from[2];
    }
    kit_image_free(&p);
    return 1;
}

TEST light_means_more_on_every_scale(void)
{
    static const float value[6] = { 0, 0.002f, 0.01f, 0.1f, 0.5f, 1 };
    kit_sheet s = plain_sheet(NULL, 1, 1);
    kit_color c[6];
    for (int scale = 0; scale < 3; scale++) {
        s.power = scale == 1 ? 0.5 : 0;
        s.decades = scale == 2 ? 3 : 0;
        ASSERT(draw_cells(c, 6, value, &s));
        for (int i = scale ? 0 : 2; i < 5; i++) ASSERT(lightness(c[i + 1]) > lightness(c[i]));
    }
    PASS();
}

TEST what_is_not_a_number_is_grey(void)
{
    const float value[5] = { 1, NAN, HUGE_VALF, -HUGE_VALF, 0 }, none[2] = { NAN, NAN };
    kit_sheet s = plain_sheet(NULL, 1, 1);
    kit_color c[5];
    for (int diverging = 0; diverging < 2; diverging++) {
        s.diverging = diverging;
        ASSERT(draw_cells(c, 5, value, &s));
        for (int i = 1; i < 4; i++) ASSERT_EQ(0, memcmp(&c[i], &c[1], sizeof *c));
        ASSERT(c[1].r == c[1].g && c[1].g == c[1].b && c[1].r > 150 && c[1].r < 230);
        ASSERT(memcmp(&c[0], &c[1], sizeof *c) != 0 && memcmp(&c[4], &c[1], sizeof *c) != 0);
        ASSERT(memcmp(&c[0], &c[4], sizeof *c) != 0);       /* infinity has not spoilt the range */
        ASSERT(draw_cells(c, 2, none, &s));
    }
    PASS();
}

TEST the_bar_says_what_the_colours_are(void)
{
    kit_sheet s = plain_sheet(NULL, 1, 1);
    kit__layout at;
    memset(&at, 0, sizeof at);
    at.high = 0.7;
    for (int scale = 0; scale < 4; scale++) {
        s.power = scale == 1 || scale == 3 ? 0.5 : 0;
        s.decades = scale == 2 ? 3 : 0;
        s.diverging = scale == 3;
        at.low = scale == 3 ? -0.7 : 0;
        for (int i = 0; i <= 20; i++) {
            double place = i / 20.0, value = kit__sheet_value(&s, &at, place);
            ASSERT(fabs(kit__sheet_place(&s, &at, value) - place) <= 1e-9);
        }
    }
    PASS();
}

/* the picture again, from the rectangles of its SVG */
TEST svg_is_the_same_picture(void)
{
    const float value[4] = { 0, 0.3f, NAN, 1 };
    const float *map = value;
    kit_sheet s = plain_sheet(&map, 2, 12);
    kit_text svg = { NULL, 0, 0 };
    kit_image p, again;
    s.title = "Two by two";
    ASSERT(kit_sheet_draw(&p, &s, &why));
    kit_image_svg(&svg, &p);
    ASSERT(kit_image_make(&again, p.width, p.height, kit_grey(255), &why));
    for (const char *at = strstr(svg.data, "<path"); at; at = strstr(at + 1, "<path")) {
        unsigned r, g, b;
        int x, y, w, h;
        kit_color c;
        ASSERT_EQ(7, sscanf(at, "<path fill=\"#%2x%2x%2x\" d=\"M%d,%dh%d.5v%d.5h", &r, &g, &b, &x,
                            &y, &w, &h));
        c.r = (unsigned char)r; c.g = (unsigned char)g; c.b = (unsigned char)b;
        kit_fill(&again, x, y, w, h, c);
    }
    ASSERT_MEM_EQ(p.rgb, again.rgb, 3 * (size_t)p.width * (size_t)p.height);
    kit_text_free(&svg);
    kit_image_free(&p);
    kit_image_free(&again);
    PASS();
}

/* ---- maps of a model ------------------------------------------------------------------------- */

static const int some_tokens[12] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8 };

TEST rows_sum_to_one_and_masks_are_not_numbers(int k, const char *more)
{
    posenc_model *m = make_model("%s encoding=rope %s", kinds[k].config, more);
    ASSERTm(check_text, m);
    const posenc_config *c = posenc_model_config(m);
    int tokens[12];
    kit_maps maps;
    memcpy(tokens, some_tokens, sizeof tokens);
    tokens[11] = 0;                            /* padding, where that is masked */
    ASSERTm(why.text, kit_maps_take(&maps, m, tokens, 12, &why));
    ASSERT_EQ(c->layers, maps.layers);
    for (int l = 0; l < maps.layers; l++)
        for (int h = -1; h < maps.heads; h++)
            for (int i = 0; i < 12; i++) {
                double sum = 0;
                for (int j = 0; j < 12; j++) {
                    double v = (double)kit_maps_of(&maps, l, h)[12 * i + j];
                    int hidden = (c->causal && j > i) || (c->mask_padding && j == 11)
                              || (c->window && abs(i - j) >= c->window);
                    ASSERT_EQ(hidden, !isfinite(v));
                    if (!hidden) sum += v;
                }
                ASSERT(fabs(sum - 1) <= 1e-5);
            }
    ASSERT(!kit_maps_of(&maps, maps.layers, 0) && !kit_maps_of(&maps, 0, maps.heads));
    kit_maps_free(&maps);
    posenc_model_free(m);
    PASS();
}

TEST bad_tokens_are_refused(void)
{
    posenc_model *m = make_model("%s encoding=rope", kinds[NEXT_TOKEN].config);
    int tokens[2] = { 1, 99 };
    kit_maps maps;
    ASSERTm(check_text, m);
    ASSERT(!kit_maps_take(&maps, m, tokens, 2, &why));
    ASSERT(strstr(why.text, "99") && !maps.map && !maps.mean);
    posenc_model_free(m);
    PASS();
}

TEST a_model_with_nan_is_refused(void)
{
    posenc_model *m = make_model("%s encoding=rope", kinds[NEXT_TOKEN].config);
    kit_maps maps;
    ASSERTm(check_text, m);
    posenc_tensor *t = posenc_model_find(m, "blocks.1.attn.q_proj.weight");
    posenc_float *bad = (posenc_float *)kit_new(t->count, sizeof *bad);
    for (size_t i = 0; i < t->count; i++) bad[i] = NAN;
    posenc_model_set(m, t->data, bad, t->count);
    ASSERT(!kit_maps_take(&maps, m, some_tokens, 12, &why));
    ASSERT(strstr(why.text, "layer 1"));
    free(bad);
    posenc_model_free(m);
    PASS();
}

TEST figures_of_heads_that_are_known(void)
{
    enum { T = 8 };
    float same[T * T] = { 0 }, back[T * T], stripe[T * T] = { 0 }, none[T * T];
    for (int i = 0; i < T * T; i++) { back[i] = i % T > i / T ? NAN : 0; none[i] = NAN; }
    for (int i = 0; i < T; i++) {
        same[T * i + i] = 1;
        back[T * i + (i ? i - 1 : 0)] = 1;     /* causal: looks at the token before */
        stripe[T * i + 5] = 1;
    }
    kit_look k = kit_map_look(same, T, 0);
    ASSERT(k.entropy == 0 && k.evenness == 0 && k.distance == 0 && k.same == 1 && k.next == 0);
    k = kit_map_look(back, T, 0);
    ASSERT(k.previous == 1 && isnan(k.next) && fabs(k.distance - 7.0 / 8) <= 1e-12);
    k = kit_map_look(stripe, T, 0);
    ASSERT(k.key == 5 && k.most == 1 && k.entropy == 0);
    k = kit_map_look(stripe, T, 1);
    ASSERT(fabs(k.entropy - 3) <= 1e-12 && fabs(k.evenness - 1) <= 1e-12);
    ASSERT(fabs(k.most - 1.0 / 8) <= 1e-12 && fabs(k.first - 1.0 / 8) <= 1e-12);
    ASSERT(isnan(kit_map_look(none, T, 0).entropy) && isnan(kit_map_look(none, T, 0).most));
    PASS();
}

TEST long_maps_keep_their_peaks(void)
{
    enum { T = 7 };
    float map[T * T];
    for (int i = 0; i < T * T; i++) map[i] = i % T > i / T ? NAN : 0.01f;
    map[T * 4 + 1] = 0.9f;
    float *block = kit__maps_blocks(map, T, 3);              /* 3 x 3 blocks, the last ones small */
    ASSERT(block[3 * 1 + 0] == 0.9f && isnan(block[2]) && block[3 * 2 + 2] == 0.01f);
    free(block);
    PASS();
}

TEST sheets_share_out_what_is_many(void)
{
    int layer[KIT_MAPS_LAYERS];
    for (int n = 1; n <= 200; n++) {
        int count = kit__choose_layers(layer, n, KIT_MAPS_LAYERS);
        ASSERT_EQ(n < KIT_MAPS_LAYERS ? n : KIT_MAPS_LAYERS, count);
        ASSERT(layer[0] == 0 && layer[count - 1] == n - 1);
        for (int i = 1; i < count; i++) ASSERT(layer[i] > layer[i - 1]);
        ASSERT(kit__per_sheet(n) <= KIT_MAPS_SIDE);
        ASSERT(kit__per_sheet(n) * kit__sheets(n) >= n);
        ASSERT(kit__per_sheet(n) * (kit__sheets(n) - 1) < n);             /* no empty sheet */
    }
    PASS();
}

/* ---- positions ------------------------------------------------------------------------------- */

enum { T = 12 };

TEST every_encoding_is_drawn(int e)
{
    const posenc_encoding_info *info = posenc_encoding_get(e);
    posenc_model *m = make_model("%s encoding=%s", kinds[NEXT_TOKEN].config, info->name);
    ASSERTm(check_text, m);
    kit_positions k = kit_positions_of(m);
    ASSERT_EQ(e != POSENC_NONE, k.table + k.turns + k.temper + k.bias);
    ASSERT(!k.other);
    posenc_model_free(m);
    PASS();
}

static int symmetric_with_ones(const float *s, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if (s[n * i + j] != s[n * j + i]) return 0;
            if (i == j && s[n * i + j] != 1) return 0;
            if (!(fabs((double)s[n * i + j]) <= 1.00001)) return 0;
        }
    return 1;
}

TEST rows_that_are_all_alike_are_told_apart(void)
{
    float near[4] = { 1, 0.98f, 0.98f, 1 }, far[4] = { 1, -0.2f, -0.2f, 1 }, one = 1;
    const float *map = near;
    kit_sheet s = kit__square_sheet(&map, 2, "position");
    kit__tell_apart(&s, near);
    ASSERT(s.diverging == 0 && fabs(s.low - 0.98) <= 1e-6 && s.high == 1);
    s = kit__square_sheet(&map, 2, "position");
    kit__tell_apart(&s, far);
    ASSERT(s.diverging == 1 && s.low == -1);
    s = kit__square_sheet(&map, 1, "position");
    kit__tell_apart(&s, &one);
    ASSERT(s.diverging == 1 && s.low == -1);
    PASS();
}

TEST cosines_are_symmetric(void)
{
    float row[4 * 3] = { 1, 2, 3, -1, -2, -3, 0, 0, 0, 3, 0, -1 }, s[16];
    kit_cosines(s, row, 4, 3);
    ASSERT(fabs((double)s[1] + 1) <= 1e-6);                               /* opposite */
    ASSERT(fabs((double)s[3]) <= 1e-6);                                   /* at right angles */
    ASSERT(isnan(s[2]) && isnan(s[10]));                                  /* of a row of zeros */
    float random[20 * 7], big[400];
    fill_random(random, 140);
    kit_cosines(big, random, 20, 7);
    ASSERT(symmetric_with_ones(big, 20));
    PASS();
}

/* rope's frequencies by the formula: the mean over pairs of cos((i - j) w), channels that do not
   turn counting as angle 0 */
TEST rotation_sees_the_distance_alone(const char *spec, int D, int dim, double base)
{
    posenc_model *m = make_model("vocab=11 context=16 channels=%d heads=2 encoding=%s", 2 * D,
                                 spec);
    float s[T * T];
    ASSERTm(check_text, m);
    kit_turn_similarity(s, m, 1, T);
    ASSERT(symmetric_with_ones(s, T));
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) {
            double mean = (D - dim) / 2;
            for (int p = 0; p < dim / 2; p++) mean += cos((i - j) * pow(base, -2.0 * p / dim));
            ASSERT(fabs((double)s[T * i + j] - mean / (D / 2)) <= 1e-5);
        }
    posenc_model_free(m);
    PASS();
}

TEST trained_rotation_follows_its_scales(void)
{
    posenc_model *m = make_model("vocab=11 context=16 channels=8 heads=2 encoding=lrope");
    posenc_float scale[2] = { 0, 3 };
    float s[T * T];
    ASSERTm(check_text, m);
    posenc_model_set(m, posenc_model_find(m, "blocks.1.pe.lrope.scale")->data, scale, 2);
    kit_turn_similarity(s, m, 1, T);
    ASSERT(fabs((double)s[5] - (1 + cos(5 * 3 * 0.01)) / 2) <= 1e-5);     /* frequencies 1, 0.01 */
    kit_turn_similarity(s, m, 0, T);
    ASSERT(fabs((double)s[5] - (cos(5.0) + cos(5 * 0.01)) / 2) <= 1e-5);  /* layer 0 is untouched */
    posenc_model_free(m);
    PASS();
}

TEST the_table_is_what_is_added(const char *spec, const char *more)
{
    posenc_model *m = make_model("vocab=11 context=16 channels=8 heads=2 encoding=%s %s", spec,
                                 more);
    float table[T * 8], want[T * 8];
    ASSERTm(check_text, m);
    ASSERTm(why.text, kit_position_table(table, m, T, &why));
    if (strcmp(spec, "learned") == 0)
        posenc_model_get(m, want, posenc_model_find(m, "pe.learned.weight")->data, T * 8);
    else
        posenc_sinusoidal(want, NULL, T, 8, 10000.0);
    ASSERT_CLOSE(want, table, T * 8, 1e-6);
    posenc_model_free(m);
    PASS();
}

TEST the_bias_is_what_is_added(void)
{
    posenc_model *m = make_model("vocab=11 context=16 channels=8 heads=2 causal=1 encoding=alibi");
    posenc_float slope[2];
    float bias[2 * T * T];
    ASSERTm(check_text, m);
    posenc_alibi_slopes(slope, 2, 8.0);
    kit_position_bias(bias, m, 0, T);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++) {
                double got = (double)bias[(h * T + i) * T + j];
                if (j > i) ASSERT(isnan(got));
                else ASSERT(fabs(got + (double)slope[h] * (i - j)) <= 1e-6);
            }
    posenc_model_free(m);
    PASS();
}

TEST learned_biases_read_their_tables(const char *name, int rows, int causal)
{
    posenc_model *m = make_model("vocab=11 context=16 channels=8 heads=2 causal=%d encoding=%s",
                                 causal, name);
    float bias[2 * T * T], table[1024];
    char tensor[64];
    ASSERTm(check_text, m);
    snprintf(tensor, sizeof tensor, "pe.%s.weight", name);
    ASSERT_EQ((size_t)(2 * rows), posenc_model_find(m, tensor)->count);
    posenc_model_get(m, table, posenc_model_find(m, tensor)->data, (size_t)(2 * rows));
    kit_position_bias(bias, m, 0, T);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++) {
                int row = j - i + 128;
                if (strcmp(name, "t5") == 0) row = posenc_t5_bucket(i - j, 32, 128, !causal);
                if (causal && j > i) continue;
                ASSERT_EQ_FMT((double)table[2 * row + h], (double)bias[(h * T + i) * T + j], "%g");
            }
    posenc_model_free(m);
    PASS();
}

/* ---- what is drawn against what the model does ----------------------------------------------- */

/* Every query and key of a layer becomes the same vector, numbers of v: what is left of the scores
   is what the encodings put there. */
static int flatten(posenc_model *m, int layer, double v)
{
    static const char *const of[2] = { "q_proj", "k_proj" };
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.%s.%s", layer, of[i / 2],
                 i % 2 ? "bias" : "weight");
        posenc_tensor *t = posenc_model_find(m, name);
        if (!t) return 0;
        posenc_float *x = (posenc_float *)kit_new(t->count, sizeof *x);
        for (size_t k = 0; k < t->count; k++) x[k] = i % 2 ? (posenc_float)v : 0;
        posenc_model_set(m, t->data, x, t->count);
        free(x);
    }
    return 1;
}

/* How far a layer's attention is from the softmax of these scores (H, T, T); causal. */
static double off_attention(posenc_model *m, const float *score, int layer)
{
    int H = posenc_model_config(m)->heads;
    double worst = 0;
    kit_maps maps;
    if (!kit_maps_take(&maps, m, some_tokens, T, &why)) return HUGE_VAL;
    for (int r = 0; r < H * T; r++) {
        const float *s = score + (size_t)r * T;
        const float *got = kit_maps_of(&maps, layer, r / T) + (size_t)(r % T) * T;
        double sum = 0;
        for (int j = 0; j <= r % T; j++) sum += exp((double)s[j]);
        for (int j = 0; j <= r % T; j++) {
            double off = fabs(exp((double)s[j]) / sum - (double)got[j]);
            if (!(off <= worst)) worst = off;
        }
    }
    kit_maps_free(&maps);
    return worst;
}

TEST the_drawn_bias_is_what_attention_adds(const char *word, int layer)
{
    posenc_model *m = make_model("%s %s", kinds[NEXT_TOKEN].config, word);
    float bias[4 * T * T];
    ASSERTm(check_text, m);
    ASSERT(flatten(m, layer, 0));
    kit_position_bias(bias, m, layer, T);
    ASSERT(off_attention(m, bias, layer) <= 1e-5);
    double spread = 0;                     /* a bias of zeros would agree with a broken model */
    for (int j = 0; j < T; j++) spread += fabs((double)bias[(T - 1) * T + j] - (double)bias[0]);
    ASSERT(spread > 1e-3);
    posenc_model_free(m);
    PASS();
}

/* Vectors of ones have the score sqrt(D) at distance 0, times the temperature of the query. */
TEST the_drawn_turns_are_what_attention_does(const char *word, int layer)
{
    posenc_model *m = make_model("%s %s", kinds[NEXT_TOKEN].config, word);
    float score[4 * T * T], tau[T];
    double pos[T], least = 1;
    ASSERTm(check_text, m);
    ASSERT(flatten(m, layer, 1));
    for (int i = 0; i < T; i++) pos[i] = i;
    kit_position_temperature(tau, m, pos, T);
    kit_turn_similarity(score, m, layer, T);
    for (int i = 0; i < T * T; i++) if ((double)score[i] < least) least = (double)score[i];
    for (int i = 4 * T * T - 1; i >= 0; i--)          /* from the end: the heads are alike */
        score[i] = 2 * tau[i / T % T] * score[i % (T * T)];
    ASSERT(off_attention(m, score, layer) <= 1e-5);
    ASSERT_EQ(strstr(word, "nope_every=2") && layer == 1, least > 0.99);
    posenc_model_free(m);
    PASS();
}

TEST the_drawn_rows_are_what_the_model_adds(int e)
{
    posenc_model *m = make_model("%s %s", kinds[NEXT_TOKEN].config, encoding_word(e));
    posenc_spec list[POSENC_SPECS];
    float want[T * 16], got[T * 16];
    kit_encoding one;
    ASSERTm(check_text, m);
    ASSERT_EQ(1, kit_specs_of(list, m));
    kit_encoding_open(&one, m, &list[0], 0);
    double *at = kit_encoding_places(&one, NULL, 1, T);
    kit_encoding_rows(got, &one, at, T);
    ASSERTm(why.text, kit_position_table(want, m, T, &why));
    ASSERT_CLOSE(want, got, T * 16, 1e-6);
    free(at);
    kit_encoding_free(&one);
    posenc_model_free(m);
    PASS();
}

TEST layers_that_differ_are_told(void)
{
    posenc_model *m = make_model("%s encoding=rope:nope_every=2+t5:per_layer=1",
                                 kinds[NEXT_TOKEN].config);
    float bias[2][4 * T * T];
    ASSERTm(check_text, m);
    kit_positions k = kit_positions_of(m);
    ASSERT(k.turns && k.turns_by_layer && k.bias && k.bias_by_layer && !k.table && !k.temper);
    for (int l = 0; l < 2; l++) kit_position_bias(bias[l], m, l, T);
    ASSERT(memcmp(bias[0], bias[1], sizeof bias[0]) != 0);
    posenc_model_free(m);
    PASS();
}

TEST vectors_of_one_direction_are_drawn_by_distance(void)
{
    float row[4 * 2] = { 1, 2, 2, 4, 3, 6, 4, 8 }, cosine[16], distance[16];
    kit_cosines(cosine, row, 4, 2);
    kit_distances(distance, row, 4, 2);
    ASSERT(kit_least_cosine(cosine, 16) > KIT_ONE_WAY);
    ASSERT(distance[0] == 0 && fabs((double)distance[3] - 3 * sqrt(5.0)) <= 1e-6);
    PASS();
}

/* ---- files ----------------------------------------------------------------------------------- */

static void remove_album(const kit_album *a, const char *folder)
{
    char path[KIT_PATH];
    for (int i = 0; i < a->count; i++)
        if (kit_join(path, folder, a->picture[i].file, &why)) remove(path);
    rmdir(folder);
}

TEST an_album_is_written_for_every_encoding(int e)
{
    char folder[512];
    kit_album album;
    posenc_model *m = make_model("%s encoding=%s", kinds[CLASSIFIER].config,
                                 posenc_encoding_get(e)->name);
    ASSERTm(check_text, m);
    temporary_path(folder, sizeof folder, "album");
    ASSERTm(why.text, kit_make_folders(folder, &why));
    ASSERTm(why.text, kit_album_make(&album, m, T, "a name", folder, &why));
    kit_positions k = kit_positions_of(m);
    ASSERT_EQ(2 * k.table + k.turns + k.temper + k.bias + 1, album.count);
    for (int i = 0; i < album.count; i++) {
        char path[KIT_PATH];
        ASSERT(kit_join(path, folder, album.picture[i].file, &why) && kit_exists(path));
        ASSERT(album.picture[i].bytes.size > 1000 && album.alt[i][0] && album.caption[i][0]);
    }
    remove_album(&album, folder);
    kit_album_free(&album);
    posenc_model_free(m);
    PASS();
}

TEST a_folder_that_cannot_be_is_answered(void)
{
    posenc_model *m = make_model("%s encoding=rope", kinds[NEXT_TOKEN].config);
    kit_maps_style style;
    kit_picture p;
    kit_maps maps;
    memset(&style, 0, sizeof style);
    ASSERTm(check_text, m);
    ASSERT(kit_maps_take(&maps, m, some_tokens, T, &why));
    ASSERT(!kit_maps_draw_page(&p, &maps, &style, "x", NULL, 0, "/no/such/folder", "x", &why));
    ASSERT(strstr(why.text, "/no/such/folder"));
    kit_picture_free(&p);
    kit_maps_free(&maps);
    posenc_model_free(m);
    PASS();
}

/* ---- all ------------------------------------------------------------------------------------- */

SUITE(canvas)
{
    static const char *const text[] = {
        "a", "words of several lengths, some of them extraordinarily long", LONG_WORD,
        "two\nlines", "ends in a line\n", " leads with a blank"
    };
    RUN_TEST(drawing_is_cut_at_the_edges);
    RUN_TEST(letters_and_outlines_outside_are_harmless);
    RUN_TEST(impossible_pictures_are_refused);
    RUN_TEST(colours_are_ordered_by_lightness);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        for (int wide = 1; wide <= 1000; wide *= 10) {
            label_test("%d_in_%d", (int)i, wide);
            RUN_TESTp(lines_keep_their_width, text[i], wide);
        }
}

SUITE(sheets)
{
    static const int size[][4] = {             /* rows, cols, n, cell */
        { 1, 1, 1, 1 }, { 1, 1, 1, 40 }, { 2, 3, 1, 1 }, { 1, 1, 2, 5 }, { 1, 1, 3, 40 },
        { 3, 8, 4, 5 }, { 1, 1, 32, 20 }, { 2, 2, 32, 8 }, { 1, 1, 40, 13 }, { 1, 4, 100, 1 },
        { 1, 1, 512, 1 }, { 5, 1, 7, 9 }
    };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int busy = 0; busy < 3; busy++) {
            label_test("%dx%d_of_%d_at_%d_busy_%d", size[i][0], size[i][1], size[i][2], size[i][3],
                       busy);
            RUN_TESTp(nothing_is_cut, size[i][0], size[i][1], size[i][2], size[i][3], busy);
        }
    RUN_TEST(light_means_more_on_every_scale);
    RUN_TEST(what_is_not_a_number_is_grey);
    RUN_TEST(the_bar_says_what_the_colours_are);
    RUN_TEST(svg_is_the_same_picture);
}

SUITE(maps)
{
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(rows_sum_to_one_and_masks_are_not_numbers, k, "");
    }
    label_test("window");
    RUN_TESTp(rows_sum_to_one_and_masks_are_not_numbers, NEXT_TOKEN, "window=3");
    RUN_TEST(bad_tokens_are_refused);
    RUN_TEST(a_model_with_nan_is_refused);
    RUN_TEST(figures_of_heads_that_are_known);
    RUN_TEST(long_maps_keep_their_peaks);
    RUN_TEST(sheets_share_out_what_is_many);
}

SUITE(positions)
{
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        label_test("%s", posenc_encoding_get(e)->name);
        RUN_TESTp(every_encoding_is_drawn, e);
        label_test("%s", posenc_encoding_get(e)->name);
        RUN_TESTp(an_album_is_written_for_every_encoding, e);
    }
    RUN_TEST(cosines_are_symmetric);
    RUN_TEST(rows_that_are_all_alike_are_told_apart);
    RUN_TESTp(rotation_sees_the_distance_alone, "rope", 8, 8, 10000.0);
    RUN_TESTp(rotation_sees_the_distance_alone, "rope:layout=interleaved,base=50", 8, 8, 50.0);
    RUN_TESTp(rotation_sees_the_distance_alone, "rope:dim=4", 8, 4, 10000.0);
    RUN_TESTp(rotation_sees_the_distance_alone, "rope:dim=4,layout=interleaved", 8, 4, 10000.0);
    RUN_TESTp(rotation_sees_the_distance_alone, "lrope", 8, 8, 10000.0);
    RUN_TEST(trained_rotation_follows_its_scales);
    RUN_TESTp(the_table_is_what_is_added, "learned", "");
    RUN_TESTp(the_table_is_what_is_added, "learned", "embedding_norm=1 scale_embedding=1");
    RUN_TESTp(the_table_is_what_is_added, "sinusoidal", "classes=2 norm_place=post");
    RUN_TEST(the_bias_is_what_is_added);
    RUN_TESTp(learned_biases_read_their_tables, "relative", 257, 0);
    RUN_TESTp(learned_biases_read_their_tables, "t5", 32, 0);
    RUN_TESTp(learned_biases_read_their_tables, "t5", 32, 1);
    RUN_TEST(a_folder_that_cannot_be_is_answered);
}

SUITE(drawn)
{
    static const char *const bias[] = {
        "encoding=t5:per_layer=1", "encoding=relative:bidirectional=-1,distance=5",
        "encoding=alibi:heads=2", "encoding=alibi+t5:buckets=8", "encoding=kerple:form=power"
    };
    static const char *const turns[] = {
        "encoding=rope:scaling=yarn,factor=4,original=4,attention=1",
        "encoding=rope:scaling=dynamic,factor=2,original=4", "encoding=rope:dim=2,offset=2",
        "encoding=rope:nope_every=2", "encoding=rope+qtemp:original=2,rate=0.5",
        "encoding=lrope:layout=interleaved", "encoding=xpos:scale_base=8"
    };
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        int where = (int)posenc_encoding_get(e)->where;
        label_test("%s", posenc_encoding_get(e)->name);
        if (where == POSENC_EMBEDDING) RUN_TESTp(the_drawn_rows_are_what_the_model_adds, e);
        if (where == POSENC_SCORE)
            RUN_TESTp(the_drawn_bias_is_what_attention_adds, encoding_word(e), 0);
        if (where == POSENC_QUERY_KEY && e != POSENC_QTEMP)
            RUN_TESTp(the_drawn_turns_are_what_attention_does, encoding_word(e), 0);
    }
    for (int i = 0; i < (int)(sizeof bias / sizeof *bias); i++) {
        label_test("%s", bias[i]);
        RUN_TESTp(the_drawn_bias_is_what_attention_adds, bias[i], 1);
    }
    for (int i = 0; i < (int)(sizeof turns / sizeof *turns); i++) {
        label_test("%s", turns[i]);
        RUN_TESTp(the_drawn_turns_are_what_attention_does, turns[i], 1);
    }
    RUN_TEST(layers_that_differ_are_told);
    RUN_TEST(vectors_of_one_direction_are_drawn_by_distance);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(canvas);
    RUN_SUITE(sheets);
    RUN_SUITE(maps);
    RUN_SUITE(positions);
    RUN_SUITE(drawn);
    GREATEST_MAIN_END();
}
