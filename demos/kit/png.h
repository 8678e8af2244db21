/* kit/png.h - heat maps as PNG: one, or a contact sheet of many, on the canvas of canvas.h

   PNG files come from Sean Barrett's stb_image_write, which the Makefile looks for and announces
   with POSENC_STB_IMAGE_WRITE (1: it is stb/stb_image_write.h, 2: stb_image_write.h). Without it
   everything here still compiles, KIT_HAS_PNG is 0, kit_png_encode says how to get it, and
   kit_picture_save writes SVG instead.

   stb's own file writer does not look at what fwrite returns, so that a full disk goes unnoticed.
   We take its bytes into memory and save them ourselves. */
#ifndef KIT_PNG_H
#define KIT_PNG_H

#include "canvas.h"
#include "svg.h"                           /* kit_round_step */
#include <math.h>

#if defined(POSENC_STB_IMAGE_WRITE)
enum { KIT_HAS_PNG = 1 };
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#endif
#define STB_IMAGE_WRITE_IMPLEMENTATION
#if POSENC_STB_IMAGE_WRITE == 1
#include "stb/stb_image_write.h"
#else
#include "stb_image_write.h"
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#else
enum { KIT_HAS_PNG = 0 };
#endif

/* the one line a demo prints when it has to leave the pictures out */
#define KIT_NO_PNG "no PNG pictures: stb_image_write.h was not found when this was compiled; " \
                   "install Debian's package libstb-dev, or say make STB=dir"

/* ---- a sheet of heat maps -----------------------------------------------------------------------
   One map or many in a grid, all of one size and one colour scale, so that they can be compared. A
   number that is not finite (a pair that a mask forbids) is grey, and the sheet says so.

        title
        subtitle
                  col 0     col 1
         row 0    [map]     [map]    | high
         row 1    [map]     [map]    | low
                  axis labels, note                                                             */

typedef struct kit_sheet {
    const char *title, *subtitle, *note;   /* any may be NULL                                     */
    int rows, cols;                        /* of the grid of maps                                 */
    const float *const *map;               /* rows*cols pointers to height*width numbers, or NULL */
    int height, width, cell;               /* of one map; side of one number in points            */
    const char *const *row_name;           /* (rows) names beside the grid, or NULL               */
    const char *const *col_name;           /* (cols) names above it, or NULL                      */
    const char *const *map_name;           /* (rows*cols) a name above each map instead, or NULL  */
    const char *x_label, *y_label;         /* what runs along the axes of a map                   */
    const char *const *x_tick, *const *y_tick;   /* a word for each column, row; NULL: numbers    */
    int tick_times;                        /* numbers count in steps of this; 0 means 1           */
    const unsigned char *mark;             /* (width) columns to point at; NULL: none             */
    const unsigned char *frame;            /* (rows*cols) maps to put a frame around; NULL: none  */
    double low, high;                      /* ends of the colours; both 0: taken from the maps    */
    double power;                          /* colour by ((v-low)/(high-low))^power; 0 means 1     */
    int decades;                           /* colour by log10(v), so many below high; 0: off      */
    int diverging;                         /* signed numbers: blue, white, red                    */
    const char *value_label;               /* what the colours mean                               */
    const char *absent_label;              /* what grey means; NULL: "none"                       */
} kit_sheet;

enum { KIT_MARGIN = 24, KIT_BAR = 22, KIT_NAME_LETTERS = 22, KIT_TICK_LETTERS = 14 };

typedef struct kit__layout {               /* where things stand, in points */
    int map_w, map_h, gap_x, gap_y;        /* one map, and what lies between two              */
    int names_w, ticks_w, ticks_h;         /* names of rows; ticks beside and below           */
    int left, right, top, bottom;          /* of the grid                                     */
    int bar_x, bar_h, title_w;             /* the colour bar; how long a line of the title is */
    int body, width, height;               /* body: where the grid and the bar have both ended */
    double low, high;                      /* ends of the colours                             */
    int absent;                            /* 1: there is something grey                      */
} kit__layout;

/* ---- colours of a sheet ---- */

static inline void kit__sheet_range(const kit_sheet *s, kit__layout *at)
{
    double least = 0, most = 0;
    at->absent = 0;
    for (int m = 0; m < s->rows * s->cols; m++)
        for (int i = 0; s->map[m] && i < s->height * s->width; i++) {
            double v = s->map[m][i];
            if (!isfinite(v)) { at->absent = 1; continue; }
            if (v < least) least = v;
            if (v > most) most = v;
        }
    if (s->low != 0 || s->high != 0) { least = s->low; most = s->high; }
    if (s->diverging) { most = most > -least ? most : -least; least = -most; }
    if (!(most > least)) most = least + 1;
    at->low = least;
    at->high = most;
}

/* where on the colour bar a number stands: 0 at its foot, 1 at its top */
static inline double kit__sheet_place(const kit_sheet *s, const kit__layout *at, double v)
{
    double share = kit__unit((v - at->low) / (at->high - at->low));
    if (s->diverging && s->power > 0) {
        double far = pow(fabs(2 * share - 1), s->power);
        return 0.5 + 0.5 * (share < 0.5 ? -far : far);
    }
    if (s->diverging) return share;
    if (s->decades > 0) return v > 0 ? kit__unit(1 + log10(v / at->high) / s->decades) : 0;
    return s->power > 0 ? pow(share, s->power) : share;
}

static inline double kit__sheet_value(const kit_sheet *s, const kit__layout *at, double place)
{
    if (s->diverging && s->power > 0) {
        double far = pow(fabs(2 * place - 1), 1 / s->power);
        return place < 0.5 ? at->low * far : at->high * far;
    }
    if (!s->diverging && s->decades > 0) return at->high * pow(10, s->decades * (place - 1));
    if (!s->diverging && s->power > 0) place = pow(place, 1 / s->power);
    return at->low + place * (at->high - at->low);
}

static inline kit_color kit__sheet_color(const kit_sheet *s, double place)
{
    return s->diverging ? kit_diverging(2 * place - 1) : kit_sequential(place);
}

static inline kit_color kit__absent_color(void) { return kit_grey(196); }
static inline kit_color kit__mark_color(void) { return kit_oklch(0.55, 0.2, 25); }

/* ---- ticks ---- */

/* Below 5 points a cell has no room for a word: then places are counted instead. */
static inline int kit__has_words(const kit_sheet *s, const char *const *word)
{
    return word && s->cell >= 5;
}

static inline int kit__word_scale(const kit_sheet *s) { return s->cell >= 20 ? 2 : 1; }

/* Narrow cells put every second word further out, so that neighbours do not touch. */
static inline int kit__word_levels(const kit_sheet *s) { return s->cell >= 9 ? 1 : 2; }

static inline const char *kit__tick_word(char room[KIT_TICK_LETTERS + 3], const char *word)
{
    if (strlen(word) <= KIT_TICK_LETTERS) return word;
    snprintf(room, KIT_TICK_LETTERS + 3, "%.*s..", KIT_TICK_LETTERS, word);
    return room;
}

/* how far out from the map the widest word or number reaches */
static inline int kit__words_width(const kit_sheet *s, const char *const *word, int n)
{
    int widest = 0, letters = KIT_TICK_LETTERS + 2;
    for (int i = 0; i < n; i++) {
        int w = (int)strlen(word[i]);
        if (w > widest) widest = w < letters ? w : letters;
    }
    return widest * 6 * kit__word_scale(s);
}

static inline int kit__number_width(const kit_sheet *s, int n)
{
    char number[16];
    snprintf(number, sizeof number, "%d", (n - 1) * (s->tick_times ? s->tick_times : 1));
    return kit_text_width(number, 2);
}

static inline int kit__tick_step(int n, int cell, int room)
{
    int step = 1;
    while (step * cell < room || n / step > 12) step *= 2;
    return step;
}

/* Words below a map stand upright where they fit between their neighbours, and climb otherwise. */
static inline int kit__words_lie(const kit_sheet *s)
{
    return kit__words_width(s, s->x_tick, s->width) + 2 <= s->cell;
}

static inline void kit__sheet_words_x(kit_image *p, const kit_sheet *s, int x, int y)
{
    int scale = kit__word_scale(s), step = kit__words_width(s, s->x_tick, s->width) + 4;
    for (int i = 0; i < s->width; i++) {
        char room[KIT_TICK_LETTERS + 3];
        const char *word = kit__tick_word(room, s->x_tick[i]);
        kit_color c = s->mark && s->mark[i] ? kit__mark_color() : kit_grey(50);
        int middle = x + i * s->cell + s->cell / 2, out = i % kit__word_levels(s) * step + 6;
        if (out > 6) kit_fill(p, middle, y + 2, 1, out - 4, kit_grey(190));
        if (kit__words_lie(s)) kit_write_centred(p, middle + scale / 2, y + 6, word, scale, c);
        else kit_write_up(p, middle - 4 * scale + scale / 2, y + out + kit_text_width(word, scale),
                          word, scale, c);
    }
}

static inline void kit__sheet_ticks_x(kit_image *p, const kit_sheet *s, int x, int y)
{
    int step = kit__tick_step(s->width, s->cell, kit__number_width(s, s->width) + 10);
    if (kit__has_words(s, s->x_tick)) { kit__sheet_words_x(p, s, x, y); return; }
    for (int i = 0; i < s->width; i += step) {
        int middle = x + i * s->cell + s->cell / 2;
        char number[16];
        snprintf(number, sizeof number, "%d", i * (s->tick_times ? s->tick_times : 1));
        kit_fill(p, middle, y + 1, 1, 4, kit_grey(120));
        kit_write_centred(p, middle, y + 8, number, 2, kit_grey(60));
    }
}

static inline void kit__sheet_words_y(kit_image *p, const kit_sheet *s, int x, int y)
{
    int scale = kit__word_scale(s), step = kit__words_width(s, s->y_tick, s->height) + 4;
    for (int i = 0; i < s->height; i++) {
        char room[KIT_TICK_LETTERS + 3];
        const char *word = kit__tick_word(room, s->y_tick[i]);
        int middle = y + i * s->cell + s->cell / 2, out = i % kit__word_levels(s) * step + 6;
        if (out > 6) kit_fill(p, x - out + 2, middle, out - 4, 1, kit_grey(190));
        kit_write(p, x - out - kit_text_width(word, scale), middle - 3 * scale - scale / 2, word,
                  scale, kit_grey(50));
    }
}

static inline void kit__sheet_ticks_y(kit_image *p, const kit_sheet *s, int x, int y)
{
    int step = kit__tick_step(s->height, s->cell, 24);
    if (kit__has_words(s, s->y_tick)) { kit__sheet_words_y(p, s, x, y); return; }
    for (int i = 0; i < s->height; i += step) {
        int middle = y + i * s->cell + s->cell / 2;
        char number[16];
        snprintf(number, sizeof number, "%d", i * (s->tick_times ? s->tick_times : 1));
        kit_fill(p, x - 5, middle, 4, 1, kit_grey(120));
        kit_write(p, x - 9 - kit_text_width(number, 2), middle - 7, number, 2, kit_grey(60));
    }
}

/* ---- layout ---- */

static inline int kit__most(int a, int b) { return a > b ? a : b; }

static inline int kit__widest(const char *const *word, int n, int scale)
{
    int widest = 0;
    for (int i = 0; word && i < n; i++) widest = kit__most(widest, kit_text_width(word[i], scale));
    return widest;
}

static inline int kit__names_room(const kit__layout *at) { return at->map_w + at->gap_x - 8; }

/* lines that the longest name above a map needs */
static inline int kit__heads_height(const kit_sheet *s, const kit__layout *at)
{
    const char *const *name = s->map_name ? s->map_name : s->col_name;
    int height = 0, n = s->map_name ? s->rows * s->cols : s->cols;
    for (int i = 0; name && i < n; i++)
        height = kit__most(height, kit_write_lines(NULL, 0, 0, kit__names_room(at), name[i], 2,
                                                   kit_grey(0)));
    return height ? height + 6 : 0;
}

static inline void kit__layout_edges(const kit_sheet *s, kit__layout *at)
{
    int names = kit__widest(s->row_name, s->rows, 2), most = 12 * KIT_NAME_LETTERS;
    int levels = kit__word_levels(s);
    at->names_w = s->row_name ? (names < most ? names : most) + 16 : 0;
    at->ticks_w = 9 + kit__number_width(s, s->height);
    at->ticks_h = 8 + 18;
    if (kit__has_words(s, s->y_tick))
        at->ticks_w = 6 + levels * (kit__words_width(s, s->y_tick, s->height) + 4);
    if (kit__has_words(s, s->x_tick))
        at->ticks_h = kit__words_lie(s)
                          ? 8 + 9 * kit__word_scale(s)
                          : 6 + levels * (kit__words_width(s, s->x_tick, s->width) + 4);
}

/* The narrowest lines that are as few as can be: a title never leaves one letter to its last. */
static inline int kit__even_width(const char *s, int wide, int scale)
{
    int height = kit_write_lines(NULL, 0, 0, wide, s, scale, kit_grey(0));
    if (height <= 11 * scale) return wide;
    while (kit_write_lines(NULL, 0, 0, wide - 6 * scale, s, scale, kit_grey(0)) == height)
        wide -= 6 * scale;
    return wide;
}

/* The title and what stands below it, above the grid; needs at->width. */
static inline int kit__opening_height(const kit_sheet *s, kit__layout *at)
{
    int wide = at->width - 2 * KIT_MARGIN;
    at->title_w = kit__even_width(s->title, wide, 4);
    return kit_write_lines(NULL, 0, 0, at->title_w, s->title, 4, kit_grey(0))
         + kit_write_lines(NULL, 0, 0, wide, s->subtitle, 2, kit_grey(0)) + 10;
}

static inline void kit__layout_width(const kit_sheet *s, kit__layout *at)
{
    int title = s->title ? kit_text_width(s->title, 4) : 0;
    at->left = KIT_MARGIN + at->names_w + (s->y_label ? 30 : 0) + at->ticks_w;
    at->right = at->left + s->cols * (at->map_w + at->gap_x) - at->gap_x;
    at->bar_x = at->right + 28;
    if (s->x_label)
        at->bar_x = kit__most(at->bar_x, at->left + kit_text_width(s->x_label, 2) + 28);
    at->width = at->bar_x + KIT_BAR + 90 + (s->value_label ? 30 : 0);
    at->width = kit__most(at->width, 2 * KIT_MARGIN + (title < 600 ? title : 600));
}

static inline kit__layout kit__sheet_layout(const kit_sheet *s)
{
    kit__layout at;
    memset(&at, 0, sizeof at);
    kit__sheet_range(s, &at);
    at.map_w = s->width * s->cell;
    at.map_h = s->height * s->cell;
    at.gap_x = kit__most(18, (s->col_name || s->map_name ? 100 : 0) - at.map_w);
    kit__layout_edges(s, &at);
    kit__layout_width(s, &at);
    int heads = kit__heads_height(s, &at), mark = s->mark ? 14 : 0;
    at.gap_y = 18 + mark + (s->map_name ? heads : 0);
    at.top = KIT_MARGIN + kit__opening_height(s, &at) + heads + mark;
    at.bottom = at.top + s->rows * (at.map_h + at.gap_y) - at.gap_y;
    int grid_h = at.bottom - at.top;
    at.bar_h = kit__most(grid_h < 400 ? grid_h : 400, 120);
    if (s->value_label) at.bar_h = kit__most(at.bar_h, kit_text_width(s->value_label, 2));
    at.body = at.bottom + at.ticks_h + (s->x_label ? 28 : 0);
    at.body = kit__most(at.body, at.top + at.bar_h + (at.absent ? 40 : 10));
    if (s->y_label) at.body = kit__most(at.body, at.top + kit_text_width(s->y_label, 2));
    at.height = at.body + 18
              + kit_write_lines(NULL, 0, 0, at.width - 2 * KIT_MARGIN, s->note, 2, kit_grey(0)) + 8;
    return at;
}

/* ---- drawing ---- */

/* a triangle that points down to column i */
static inline void kit__sheet_mark(kit_image *p, int x, int y, kit_color c)
{
    for (int i = 0; i < 8; i++) kit_fill(p, x - 7 + i, y - 12 + i, 15 - 2 * i, 1, c);
}

static inline void kit__sheet_cells(kit_image *p, const kit_sheet *s, const kit__layout *at,
                                    const float *v, int x, int y)
{
    for (int i = 0; i < s->height; i++)
        for (int j = 0; j < s->width; j++) {
            double value = v[i * s->width + j];
            kit_color c = isfinite(value) ? kit__sheet_color(s, kit__sheet_place(s, at, value))
                                          : kit__absent_color();
            kit_fill(p, x + j * s->cell, y + i * s->cell, s->cell, s->cell, c);
        }
}

static inline void kit__sheet_map(kit_image *p, const kit_sheet *s, const kit__layout *at, int row,
                                  int col)
{
    int n = row * s->cols + col;
    int x = at->left + col * (at->map_w + at->gap_x), y = at->top + row * (at->map_h + at->gap_y);
    if (col == 0) kit__sheet_ticks_y(p, s, x, y);
    if (row == s->rows - 1 || (n + s->cols < s->rows * s->cols && !s->map[n + s->cols]))
        kit__sheet_ticks_x(p, s, x, y + at->map_h);
    if (!s->map[n]) return;
    kit_outline(p, x - 1, y - 1, at->map_w + 2, at->map_h + 2, 1, kit_grey(120));
    kit__sheet_cells(p, s, at, s->map[n], x, y);
    for (int j = 0; s->mark && j < s->width; j++)
        if (s->mark[j])
            kit__sheet_mark(p, x + j * s->cell + s->cell / 2, y - 2, kit__mark_color());
    if (s->frame && s->frame[n])
        kit_outline(p, x - 5, y - 5, at->map_w + 10, at->map_h + 10, 3, kit__mark_color());
    if (s->map_name)
        kit_write_lines(p, x, y - (s->mark ? 14 : 0) - kit__heads_height(s, at),
                        kit__names_room(at), s->map_name[n], 2, kit_grey(20));
}

/* A number beside the bar, unless it would touch one that is there. taken: the bar in points.
   Returns the width it takes. */
static inline int kit__bar_number(kit_image *p, const kit_sheet *s, const kit__layout *at, double v,
                                  int digits, unsigned char *taken)
{
    int x = at->bar_x, level = (int)((1 - kit__sheet_place(s, at, v)) * (at->bar_h - 1));
    int from = kit__most(0, level - 12);
    int to = level + 12 < at->bar_h ? level + 12 : at->bar_h - 1;
    char number[32];
    for (int i = from; i <= to; i++) if (taken[i]) return 0;
    memset(taken + from, 1, (size_t)(to - from + 1));
    snprintf(number, sizeof number, "%.*g", digits, v);
    kit_fill(p, x + KIT_BAR, at->top + level, 4, 1, kit_grey(120));
    kit_write(p, x + KIT_BAR + 8, at->top + level - 7, number, 2, kit_grey(60));
    return kit_text_width(number, 2);
}

/* The number nearest to v that has a single digit, and zeros. */
static inline double kit__one_digit(double v)
{
    double digit = fabs(v) > 1e-300 ? pow(10, floor(log10(fabs(v)))) : 1;
    return digit * floor(v / digit + 0.5);
}

/* Round numbers: even steps on a linear scale, one digit each where the scale is bent. The ends
   come first, since they say most. Returns the width of the widest. */
static inline int kit__bar_numbers(kit_image *p, const kit_sheet *s, const kit__layout *at)
{
    unsigned char *taken = (unsigned char *)kit_new((size_t)at->bar_h, 1);
    double step = kit_round_step(at->high - at->low, 5);
    int bent = (s->power > 0 && s->power != 1) || (!s->diverging && s->decades > 0);
    int parts = s->diverging ? 6 : 5, wide = 0;
    if (bent) wide = kit__bar_number(p, s, at, at->high, 2, taken);
    if (bent && (s->diverging || s->decades == 0))
        wide = kit__most(wide, kit__bar_number(p, s, at, at->low, 2, taken));
    for (int i = s->decades > 0 ? 0 : 1; bent && i < parts; i++) {
        double v = kit__one_digit(kit__sheet_value(s, at, (double)i / parts));
        wide = kit__most(wide, kit__bar_number(p, s, at, v, 2, taken));
    }
    for (double k = ceil(at->low / step - 1e-9); !bent && k * step <= at->high + 1e-9 * step; k++)
        wide = kit__most(wide, kit__bar_number(p, s, at, k * step + 0.0, 6, taken));
    free(taken);
    return wide;
}

/* the colour bar, beside the grid */
static inline void kit__sheet_bar(kit_image *p, const kit_sheet *s, const kit__layout *at)
{
    int x = at->bar_x, y = at->top, h = at->bar_h;
    for (int i = 0; i < h; i++)
        kit_fill(p, x, y + i, KIT_BAR, 1, kit__sheet_color(s, 1 - (i + 0.5) / h));
    int wide = kit__bar_numbers(p, s, at);
    if (s->value_label)
        kit_write_up(p, x + KIT_BAR + 18 + (wide < 80 ? wide : 80),
                     y + kit_text_width(s->value_label, 2), s->value_label, 2, kit_grey(60));
    if (!at->absent) return;
    kit_fill(p, x, y + h + 14, KIT_BAR, 18, kit__absent_color());
    kit_write(p, x + KIT_BAR + 8, y + h + 16, s->absent_label ? s->absent_label : "none", 2,
              kit_grey(60));
}

static inline void kit__sheet_words(kit_image *p, const kit_sheet *s, const kit__layout *at)
{
    int wide = at->width - 2 * KIT_MARGIN, y = KIT_MARGIN, grid_h = at->bottom - at->top;
    int heads = at->top - kit__heads_height(s, at) - (s->mark ? 14 : 0);
    y += kit_write_lines(p, KIT_MARGIN, y, at->title_w, s->title, 4, kit_grey(20));
    kit_write_lines(p, KIT_MARGIN, y, wide, s->subtitle, 2, kit_grey(80));
    for (int c = 0; s->col_name && !s->map_name && c < s->cols; c++)
        kit__lines_centred(p, at->left + c * (at->map_w + at->gap_x) + at->map_w / 2, heads,
                           kit__names_room(at), s->col_name[c], 2, kit_grey(20));
    for (int r = 0; s->row_name && r < s->rows; r++) {
        int room = at->names_w - 4, from = at->top + r * (at->map_h + at->gap_y);
        int tall = kit_write_lines(NULL, 0, 0, room, s->row_name[r], 2, kit_grey(0));
        kit_write_lines(p, KIT_MARGIN, from + kit__most(0, at->map_h - tall) / 2, room,
                        s->row_name[r], 2, kit_grey(20));
    }
    if (s->y_label) {
        int length = kit_text_width(s->y_label, 2);
        int foot = at->top + kit__most(length, (grid_h + length) / 2);
        kit_write_up(p, KIT_MARGIN + at->names_w, foot, s->y_label, 2, kit_grey(80));
    }
    if (s->x_label) {
        int length = kit_text_width(s->x_label, 2), middle = (at->left + at->right - length) / 2;
        kit_write(p, kit__most(at->left, middle), at->bottom + at->ticks_h + 8, s->x_label, 2,
                  kit_grey(80));
    }
    kit_write_lines(p, KIT_MARGIN, at->body + 18, wide, s->note, 2, kit_grey(80));
}

/* Draws the whole sheet on a new image; free it with kit_image_free. */
static inline int kit_sheet_draw(kit_image *p, const kit_sheet *s, kit_error *why)
{
    double across = (double)s->cols * ((double)s->width * s->cell + 200);
    double down = (double)s->rows * ((double)s->height * s->cell + 200);
    memset(p, 0, sizeof *p);
    if (!(across < 40000 && down < 40000) || s->cell < 1 || s->width < 1 || s->height < 1)
        return kit_fail(why, "a picture of %d x %d maps of %d x %d numbers is out of range",
                        s->rows, s->cols, s->height, s->width);
    kit__layout at = kit__sheet_layout(s);
    if (!kit_image_make(p, at.width, at.height, kit_grey(255), why)) return 0;
    for (int r = 0; r < s->rows; r++)
        for (int c = 0; c < s->cols; c++) kit__sheet_map(p, s, &at, r, c);
    kit__sheet_bar(p, s, &at);
    kit__sheet_words(p, s, &at);
    return 1;
}

/* The side of a cell that makes a map of n numbers about `points` wide: at most 40, so that a map
   of four numbers stays small, and at least 1. */
static inline int kit_cell_for(int n, int points)
{
    int cell = n > 0 ? points / n : 1;
    return cell < 1 ? 1 : cell > 40 ? 40 : cell;
}

/* ---- PNG bytes ------------------------------------------------------------------------------- */

#if defined(POSENC_STB_IMAGE_WRITE)

static inline void kit__png_take(void *text, void *bytes, int n)
{
    kit_put_bytes((kit_text *)text, bytes, (size_t)n);
}

static inline int kit_png_encode(kit_text *png, const kit_image *p, kit_error *why)
{
    stbi_write_force_png_filter = 0;       /* half the time, for a quarter more bytes */
    if (!stbi_write_png_to_func(kit__png_take, png, p->width, p->height, 3, p->rgb, 3 * p->width))
        return kit_fail(why, "no memory to encode a picture of %d x %d points", p->width,
                        p->height);
    return 1;
}

#else

static inline int kit_png_encode(kit_text *png, const kit_image *p, kit_error *why)
{
    (void)png; (void)p;
    return kit_fail(why, "%s", KIT_NO_PNG);
}

#endif

/* ---- SVG, where there is no PNG -----------------------------------------------------------------
   The same picture out of rectangles of one colour each. Larger than a PNG and just as faithful; a
   heat map with cells of several points comes to a few hundred kilobytes. */

static inline int kit__same_color(const kit_image *p, size_t a, size_t b)
{
    return memcmp(p->rgb + 3 * a, p->rgb + 3 * b, 3) == 0;
}

/* The rectangle of one colour with its corner at x, y, as wide and then as high as it can be. It
   reaches half a point under its neighbours to the right and below, which are drawn later: without
   that the paper shines through between them as soon as the picture is scaled. */
static inline void kit__svg_rectangle(kit_text *t, const kit_image *p, unsigned char *done, int x,
                                      int y)
{
    size_t stride = (size_t)p->width, from = (size_t)y * stride + (size_t)x;
    const unsigned char *c = p->rgb + 3 * from;
    int w = 1, h = 1, whole = 1;
    while (x + w < p->width && !done[from + (size_t)w]
           && kit__same_color(p, from, from + (size_t)w)) w++;
    while (whole && y + h < p->height) {
        size_t row = from + (size_t)h * stride;
        for (int i = 0; i < w && whole; i++)
            whole = !done[row + (size_t)i] && kit__same_color(p, from, row + (size_t)i);
        h += whole;
    }
    for (int i = 0; i < h; i++) memset(done + from + (size_t)i * stride, 1, (size_t)w);
    if (c[0] == 255 && c[1] == 255 && c[2] == 255) return;          /* the paper is white already */
    kit_put(t, "<path fill=\"#%02x%02x%02x\" d=\"M%d,%dh%d.5v%d.5h-%d.5z\"/>\n", c[0], c[1], c[2],
            x, y, w, h, w);
}

static inline void kit_image_svg(kit_text *t, const kit_image *p)
{
    unsigned char *done = (unsigned char *)kit_new((size_t)p->width, (size_t)p->height);
    kit_put(t, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "style=\"max-width:100%%;height:auto\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            p->width, p->height, p->width, p->width, p->height);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++)
            if (!done[(size_t)y * (size_t)p->width + (size_t)x])
                kit__svg_rectangle(t, p, done, x, y);
    kit_put_string(t, "</svg>\n");
    free(done);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Draws, encodes and saves a sheet as folder/name; the bytes stay in png for a report to embed. */
static inline int kit_sheet_save(kit_text *png, const kit_sheet *s, const char *folder,
                                 const char *name, kit_error *why)
{
    kit_image image;
    if (!kit_sheet_draw(&image, s, why)) return 0;
    int done = kit_png_encode(png, &image, why) && kit_save_in(folder, name, png, why);
    kit_image_free(&image);
    return done;
}

/* The same for whoever has no PNG as well: stem.png, or stem.svg where it does not grow too large.
   A picture that is left out has no bytes and no file name. */
typedef struct kit_picture { char file[128]; kit_text bytes; } kit_picture;

enum { KIT_SVG_MOST = 4 << 20 };           /* bytes of the largest SVG that is kept */

static inline int kit_picture_save(kit_picture *p, const kit_sheet *s, const char *folder,
                                   const char *stem, kit_error *why)
{
    kit_image image;
    memset(p, 0, sizeof *p);
    if (!kit_sheet_draw(&image, s, why)) return 0;
    int done = 1;
    if (KIT_HAS_PNG) done = kit_png_encode(&p->bytes, &image, why);
    else kit_image_svg(&p->bytes, &image);
    kit_image_free(&image);
    if (!KIT_HAS_PNG && p->bytes.size > KIT_SVG_MOST) kit_text_free(&p->bytes);
    if (!done || p->bytes.size == 0) return done;
    snprintf(p->file, sizeof p->file, "%.120s.%s", stem, KIT_HAS_PNG ? "png" : "svg");
    return kit_save_in(folder, p->file, &p->bytes, why);
}

static inline void kit_picture_free(kit_picture *p) { kit_text_free(&p->bytes); }

#endif
