/* gallery/plot.h - panels on the canvas of kit/canvas.h: a heat map, or a few lines

       panel p = panel_heat(64, 64, "position similarity");       then fill p.value
       plot_page(&image, "rope", "what it does", panels, 3, "a note", &why);
       plot_small(&image, &p, x, y);                              the same without axes

   kit/png.h has sheets of maps that are all of one size and one scale. Here every panel has its
   own: a table beside a similarity beside a curve. */
#ifndef GALLERY_PLOT_H
#define GALLERY_PLOT_H

#include "kit/png.h"

enum {
    PLOT = 384,                            /* points, about, of a large panel's side              */
    SMALL = 128,                           /* and at most of a small one's                        */
    EDGE = 24, GAP = 26,                   /* around a page, between its panels                   */
    BESIDE = 92, BAR = 16,                 /* room for the numbers on the left; the colour bar    */
    LEVELS = 40,                           /* colours of a small panel, an even number: 0 is one  */
    PANELS = 4, LINES_MOST = 8             /* on a page; in a panel                               */
};

typedef enum panel_kind { HEAT, LINES } panel_kind;

/* A number that is not one is grey (masked, or no value); infinity is paper, between the parts of a
   mosaic. */
typedef struct panel {
    panel_kind kind;
    int rows, cols;                        /* of the map; of lines: how many, points of each      */
    float *value;                          /* (rows, cols)                                        */
    char title[120];
    const char *x_label, *y_label;         /* NULL: that side of a map has no numbers             */
    double x0, x1, y0, y1;                 /* what first and last column and row stand for        */
    double low, high;                      /* ends of the colours or of the y axis; 0, 0: chosen  */
    int diverging;                         /* blue, white, red around 0; else violet to yellow    */
    int reverse;                           /* yellow to violet: what is little is what is near    */
    int log;                               /* lines: the y axis counts powers of ten              */
    const char *name[LINES_MOST];          /* of the lines; NULL: no legend                       */
    int control;                           /* lines: 1: the first one is grey, to compare with    */
} panel;

static inline panel panel_make(panel_kind kind, int rows, int cols, const char *title)
{
    panel p;
    memset(&p, 0, sizeof p);
    p.kind = kind;
    p.rows = rows;
    p.cols = cols;
    p.value = (float *)kit_new((size_t)rows * (size_t)cols, sizeof(float));
    p.x1 = cols - 1;
    p.y1 = rows - 1;
    snprintf(p.title, sizeof p.title, "%s", title);
    return p;
}

static inline void panel_free(panel *p)
{
    free(p->value);
    p->value = NULL;
}

/* ---- what values mean ------------------------------------------------------------------------ */

/* Ends of the colours or of the y axis. A bent axis has the ends of its logarithms. */
static inline void panel_range(const panel *p, double *low, double *high)
{
    double least = HUGE_VAL, most = -HUGE_VAL;
    for (int i = 0; i < p->rows * p->cols; i++) {
        double v = (double)p->value[i];
        if (p->log) v = log10(v);
        if (!isfinite(v)) continue;
        if (v < least) least = v;
        if (v > most) most = v;
    }
    if (p->low != 0 || p->high != 0) { least = p->low; most = p->high; }
    if (!(most >= least)) { least = 0; most = 1; }
    if (p->diverging) { most = fmax(most, -least); least = -most; }
    if (most - least < 1e-12) { least -= 0.5; most += 0.5; }
    double pad = p->kind == LINES ? 0.03 * (most - least) : 0;
    *low = least - pad;
    *high = most + pad;
}

static inline kit_color heat_color(const panel *p, double v, double low, double high)
{
    double share = (v - low) / (high - low);
    if (isinf(v)) return kit_grey(255);
    if (isnan(v)) return kit_grey(200);
    if (p->diverging) return kit_diverging(2 * share - 1);
    return kit_sequential(p->reverse ? 1 - share : share);
}

/* Lines are in an order (heads do more and more), and so are their colours. */
static inline kit_color line_color(const panel *p, int line)
{
    int others = p->rows - p->control, at = line - p->control;
    if (at < 0) return kit_grey(150);
    if (others < 3) return kit_oklch(0.55, 0.19, at ? 150 : 27);
    return kit_oklch(0.32 + 0.45 * at / (others - 1), 0.15, 295.0 - 250.0 * at / (others - 1));
}

/* ---- the inside of a panel ------------------------------------------------------------------- */

typedef struct box { int x, y, w, h; } box;

static inline int cell_of(int n, int points) { return n < points ? points / n : 1; }

/* Maps have cells of whole points, so that none is wider than its neighbour; one with more numbers
   than points shows every second or third. */
static inline box inside_of(const panel *p, int points)
{
    box b = { 0, 0, points, points };
    if (p->kind == LINES) return b;
    b.w = p->cols > points ? p->cols / ((p->cols + points - 1) / points)
                           : p->cols * cell_of(p->cols, points);
    b.h = p->rows > points ? p->rows / ((p->rows + points - 1) / points)
                           : p->rows * cell_of(p->rows, points);
    return b;
}

/* levels: so many colours at most, 0: as they come. Few make a small file. */
static inline void draw_heat(kit_image *image, const panel *p, box b, int levels)
{
    double low, high;
    panel_range(p, &low, &high);
    double step = levels ? (high - low) / levels : 0;
    for (int y = 0; y < b.h; y++)
        for (int x = 0; x < b.w; x++) {
            int row = (int)((long)y * p->rows / b.h), col = (int)((long)x * p->cols / b.w);
            double v = (double)p->value[row * p->cols + col];
            if (levels) v = low + step * floor((v - low) / step + 0.5);
            kit_fill(image, b.x + x, b.y + y, 1, 1, heat_color(p, v, low, high));
        }
}

static inline void draw_stroke(kit_image *image, double x0, double y0, double x1, double y1,
                               int thick, kit_color c)
{
    int steps = (int)ceil(fmax(fabs(x1 - x0), fabs(y1 - y0))) + 1;
    for (int i = 0; i <= steps; i++) {
        double t = (double)i / steps;
        kit_fill(image, (int)floor(x0 + t * (x1 - x0)) - thick / 2,
                 (int)floor(y0 + t * (y1 - y0)) - thick / 2, thick, thick, c);
    }
}

static inline void draw_lines(kit_image *image, const panel *p, box b, int thick)
{
    double low, high;
    panel_range(p, &low, &high);
    for (int line = 0; line < p->rows; line++) {
        double x0 = 0, y0 = NAN;
        for (int i = 0; i < p->cols; i++) {
            double v = (double)p->value[line * p->cols + i];
            double x = b.x + 2 + (double)i / (p->cols > 1 ? p->cols - 1 : 1) * (b.w - 5);
            double y = b.y + (high - (p->log ? log10(v) : v)) / (high - low) * (b.h - 1);
            if (isfinite(y) && isfinite(y0))
                draw_stroke(image, x0, y0, x, y, thick, line_color(p, line));
            x0 = x;
            y0 = y;
        }
    }
}

static inline void draw_inside(kit_image *image, const panel *p, box b, int thick, int levels)
{
    if (p->kind == HEAT) draw_heat(image, p, b, levels);
    else draw_lines(image, p, b, thick);
    kit_outline(image, b.x - 1, b.y - 1, b.w + 2, b.h + 2, 1, kit_grey(120));
}

/* without axes, in a square of SMALL points with its corner at x, y */
static inline void plot_small(kit_image *image, const panel *p, int x, int y)
{
    box b = inside_of(p, SMALL);
    b.x = x;
    b.y = y;
    draw_inside(image, p, b, 2, LEVELS);
}

/* ---- axes ------------------------------------------------------------------------------------ */

static inline int tick_text(char text[24], double v, int log)
{
    if (log && v > 3.5) snprintf(text, 24, "1e%.0f", v);
    else snprintf(text, 24, "%.6g", log ? pow(10, v) : fabs(v) < 1e-12 ? 0 : v);
    return kit_text_width(text, 2);
}

/* as far apart as whole numbers allow, where only those make sense */
static inline double tick_step(double first, double last, int wanted, int whole)
{
    double step = kit_round_step(fabs(last - first), wanted);
    return whole && step < 1 ? 1 : step;
}

/* where on the x axis a number stands, as a share of its length; cells have their number in the
   middle */
static inline double place_below(const panel *p, double v)
{
    double share = p->x1 > p->x0 ? (v - p->x0) / (p->x1 - p->x0) : 0;
    return p->kind == HEAT ? (share * (p->cols - 1) + 0.5) / p->cols : share;
}

/* steps so wide that no number touches the next */
static inline double step_below(const panel *p, box b)
{
    double step = 0;
    for (int wanted = 6; wanted > 0; wanted--) {
        char text[24];
        step = tick_step(p->x0, p->x1, wanted, p->kind == HEAT);
        double apart = (place_below(p, step) - place_below(p, 0)) * b.w;
        if (tick_text(text, p->x1, 0) + 14 < apart) break;
    }
    return step;
}

static inline void ticks_below(kit_image *image, const panel *p, box b)
{
    double step = step_below(p, b);
    for (double v = ceil(p->x0 / step - 1e-9) * step; v <= p->x1 + 1e-9; v += step) {
        char text[24];
        int x = b.x + (int)(place_below(p, v) * (b.w - 1));
        tick_text(text, v, 0);
        kit_fill(image, x, b.y + b.h + 1, 1, 5, kit_grey(120));
        kit_write_centred(image, x, b.y + b.h + 9, text, 2, kit_grey(60));
    }
}

/* One number on the left; the axis of lines gets a thin line across as well. */
static inline void tick_left(kit_image *image, const panel *p, box b, int y, double v)
{
    char text[24];
    int wide = tick_text(text, v, p->log);
    if (p->kind == LINES) kit_fill(image, b.x, y, b.w, 1, kit_grey(228));
    kit_fill(image, b.x - 6, y, 5, 1, kit_grey(120));
    kit_write(image, b.x - 10 - wide, y - 7, text, 2, kit_grey(60));
}

static inline void ticks_left(kit_image *image, const panel *p, box b)
{
    double low, high, top = p->y0, foot = p->y1;
    if (p->kind == LINES) { panel_range(p, &low, &high); top = low; foot = high; }
    double step = tick_step(top, foot, 6, p->kind == HEAT || p->log);
    for (double v = ceil(top / step - 1e-9) * step; v <= foot + 1e-9 * step; v += step) {
        double share = (v - top) / (foot - top);
        if (p->kind == HEAT) share = (share * (p->rows - 1) + 0.5) / p->rows;
        if (p->kind == LINES) share = 1 - share;
        tick_left(image, p, b, b.y + (int)(share * (b.h - 1)), v);
    }
}

static inline void color_bar(kit_image *image, const panel *p, box b)
{
    double low, high;
    int x = b.x + b.w + 14, h = b.h > 200 ? 200 : b.h;
    panel_range(p, &low, &high);
    double step = kit_round_step(high - low, 4);
    for (int i = 0; i < h; i++)
        kit_fill(image, x, b.y + i, BAR, 1,
                 heat_color(p, high - (i + 0.5) / h * (high - low), low, high));
    for (double v = ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) {
        char text[24];
        int y = b.y + (int)((high - v) / (high - low) * (h - 1));
        tick_text(text, v, 0);
        kit_fill(image, x + BAR, y, 4, 1, kit_grey(120));
        kit_write(image, x + BAR + 8, y - 7, text, 2, kit_grey(60));
    }
}

/* Names of the lines, as many to a row as fit. Returns the height; image NULL: only measures. */
static inline int draw_legend(kit_image *image, const panel *p, int x, int y, int wide)
{
    int at = 0, height = 0;
    for (int i = 0; p->kind == LINES && i < p->rows && p->name[i]; i++) {
        int w = 34 + kit_text_width(p->name[i], 2) + 18;
        if (height == 0 || at + w > wide + 18) { at = 0; height += 24; }
        if (image) {
            kit_fill(image, x + at, y + height - 19, 26, 3, line_color(p, i));
            kit_write(image, x + at + 34, y + height - 24, p->name[i], 2, kit_grey(60));
        }
        at += w;
    }
    return height ? height + 4 : 0;
}

/* ---- a panel with everything around it ------------------------------------------------------- */

static inline int numbers_right(const panel *p) { return p->kind == HEAT ? 14 + BAR + 70 : 14; }

static inline int title_width(const panel *p)
{
    return BESIDE + kit__most(inside_of(p, PLOT).w + numbers_right(p), PLOT);
}

static inline int title_height(const panel *p)
{
    return kit_write_lines(NULL, 0, 0, title_width(p), p->title, 2, kit_grey(0)) + 6;
}

/* what stands below the inside: numbers, a label, names of lines */
static inline int foot_height(const panel *p)
{
    return (p->x_label ? 56 : 8) + draw_legend(NULL, p, 0, 0, PLOT);
}

/* title: the height that the titles of a row of panels need, so that their insides are level */
static inline void plot_large(kit_image *image, const panel *p, int x, int y, int title)
{
    box b = inside_of(p, PLOT);
    b.x = x + BESIDE;
    b.y = y + title;
    kit_write_lines(image, x, y, title_width(p), p->title, 2, kit_grey(20));
    if (p->y_label) ticks_left(image, p, b);
    if (p->x_label) ticks_below(image, p, b);
    draw_inside(image, p, b, 3, 0);
    if (p->kind == HEAT) color_bar(image, p, b);
    if (p->x_label)
        kit_write_centred(image, b.x + b.w / 2, b.y + b.h + 34, p->x_label, 2, kit_grey(90));
    if (p->y_label)
        kit_write_up(image, x, b.y + (b.h + kit_text_width(p->y_label, 2)) / 2, p->y_label, 2,
                     kit_grey(90));
    draw_legend(image, p, b.x, b.y + b.h + 58, PLOT);
}

/* ---- a page: a heading, panels two by two, a note -------------------------------------------- */

typedef struct places {
    int x[PANELS], y[PANELS], title[PANELS];   /* corners of the panels; heights of their titles  */
    int note_x, note_y, note_w;            /* the note: below, or beside a last panel by itself   */
    int width, height;                     /* of the page                                         */
} places;

/* Panels i and i + 1 side by side at y; returns the height they take. */
static inline int place_row(places *at, const panel *p, int i, int n, int second, int y)
{
    int end = i + 2 < n ? i + 2 : n, title = 0, below = 0;
    for (int k = i; k < end; k++) {
        title = kit__most(title, title_height(&p[k]));
        below = kit__most(below, inside_of(&p[k], PLOT).h + foot_height(&p[k]));
    }
    for (int k = i; k < end; k++) {
        at->x[k] = k == i ? EDGE : second;
        at->y[k] = y;
        at->title[k] = title;
    }
    return title + below;
}

/* In two columns, as wide as their widest. */
static inline places place_panels(const panel *p, int n, int top)
{
    places at;
    int column[2] = { 0, 0 };
    memset(&at, 0, sizeof at);
    for (int i = 0; i < n; i++) column[i % 2] = kit__most(column[i % 2], title_width(&p[i]));
    at.note_x = EDGE + column[0] + GAP;
    at.height = top;
    for (int i = 0; i < n; i += 2) {
        at.note_y = at.height;
        at.height += place_row(&at, p, i, n, at.note_x, at.height) + GAP;
    }
    at.width = kit__most(900, at.note_x + column[1] + EDGE);
    if (n % 2 == 0 || n == 1) { at.note_x = EDGE; at.note_y = at.height; }
    at.note_w = at.width - EDGE - at.note_x;
    return at;
}

static inline int plot_page(kit_image *image, const char *title, const char *line, const panel *p,
                            int n, const char *note, kit_error *why)
{
    places at = place_panels(p, n, 0);
    int wide = at.width - 2 * EDGE;
    int above = kit_write_lines(NULL, 0, 0, wide, title, 4, kit_grey(0))
              + kit_write_lines(NULL, 0, 0, wide, line, 2, kit_grey(0));
    at = place_panels(p, n, EDGE + above + 18);
    int end = at.note_y + kit_write_lines(NULL, 0, 0, at.note_w, note, 2, kit_grey(0)) + EDGE;
    if (!kit_image_make(image, at.width, kit__most(at.height, end), kit_grey(255), why)) return 0;
    int y = EDGE + kit_write_lines(image, EDGE, EDGE, wide, title, 4, kit_grey(20));
    kit_write_lines(image, EDGE, y, wide, line, 2, kit_grey(80));
    for (int i = 0; i < n; i++) plot_large(image, &p[i], at.x[i], at.y[i], at.title[i]);
    kit_write_lines(image, at.note_x, at.note_y, at.note_w, note, 2, kit_grey(80));
    return 1;
}

/* The picture as folder/stem.png, or .svg without stb; an SVG of more than `most` bytes is left
   out, as kit_picture_save does. The bytes stay for a report. */
static inline int plot_save(kit_picture *p, const kit_image *image, size_t most, const char *folder,
                            const char *stem, kit_error *why)
{
    char file[sizeof p->file];             /* stem may lie in the same page as p */
    snprintf(file, sizeof file, "%.120s.%s", stem, KIT_HAS_PNG ? "png" : "svg");
    memset(p, 0, sizeof *p);
    if (KIT_HAS_PNG && !kit_png_encode(&p->bytes, image, why)) return 0;
    if (!KIT_HAS_PNG) kit_image_svg(&p->bytes, image);
    if (!KIT_HAS_PNG && p->bytes.size > most) kit_text_free(&p->bytes);
    if (p->bytes.size == 0) return 1;
    memcpy(p->file, file, sizeof file);
    return kit_save_in(folder, p->file, &p->bytes, why);
}

#endif
