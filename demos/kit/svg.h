/* kit/svg.h - line charts and heat tables as SVG: axes, round ticks, a legend, text that stays text

   The same string is a file of its own and can stand inside an HTML page. It brings its own colours for
   light and dark surroundings. Lines differ in colour AND in their marks, since about one reader in
   twenty cannot rely on the colours. */
#ifndef KIT_SVG_H
#define KIT_SVG_H

#include "files.h"
#include <math.h>

typedef struct kit_series {
    const char *name;
    const double *x, *y;                   /* a y that is not finite leaves a gap                     */
    int n;
    int plain;                             /* 1: grey and dashed, for a control                       */
} kit_series;

typedef struct kit_chart {
    const char *title, *x_label, *y_label;
    const kit_series *series;
    int count;
    double y_low, y_high;                  /* both 0: taken from the data                             */
    int percent;                           /* 1: y is a share, shown as per cent                      */
    int whole_x;                           /* 1: x counts something (epochs): no fractions            */
    int log_x, log_y;                      /* base of a logarithmic axis, 2 or 10; 0: linear          */
    const char *level_name;                /* a thin horizontal line with a name (chance); NULL: none */
    double level;
    int level_left;                        /* 1: its name stands on the left, where lines begin       */
} kit_chart;

enum { KIT_CHART_WIDTH = 480, KIT_CHART_LEFT = 68, KIT_CHART_RIGHT = 16, KIT_CHART_TOP = 44,
       KIT_CHART_PLOT = 250, KIT_CHART_COLOURS = 8 };

/* "<" and friends; used for HTML as well */
static inline void kit_put_escaped(kit_text *t, const char *s)
{
    for (; *s; s++) {
        if      (*s == '&') kit_put_string(t, "&amp;");
        else if (*s == '<') kit_put_string(t, "&lt;");
        else if (*s == '>') kit_put_string(t, "&gt;");
        else if (*s == '"') kit_put_string(t, "&quot;");
        else kit_put_bytes(t, s, 1);
    }
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` steps cover the span */
static inline double kit_round_step(double span, int wanted)
{
    if (!(span > 0)) return 1;
    double power = pow(10, floor(log10(span / wanted))), part = span / wanted / power;
    return power * (part < 1.5 ? 1 : part < 3.5 ? 2 : part < 7.5 ? 5 : 10);
}

/* ---- the frame ------------------------------------------------------------------------------- */

/* What the axes cover, in the units of the paper: logarithms where the axis is logarithmic. */
typedef struct kit__frame { double x0, x1, y0, y1; int log_x, log_y; } kit__frame;

/* 0 and below have no place on a logarithmic axis: not finite, so that lines leave a gap. */
static inline double kit__chart_unit(double v, int log_base)
{
    return log_base ? v > 0 ? log10(v) : NAN : v;
}

static inline double kit__chart_x(const kit__frame *f, double x)
{
    return KIT_CHART_LEFT
           + (kit__chart_unit(x, f->log_x) - f->x0) / (f->x1 - f->x0)
                 * (KIT_CHART_WIDTH - KIT_CHART_LEFT - KIT_CHART_RIGHT);
}

static inline double kit__chart_y(const kit__frame *f, double y)
{
    return KIT_CHART_TOP + (f->y1 - kit__chart_unit(y, f->log_y)) / (f->y1 - f->y0) * KIT_CHART_PLOT;
}

static inline kit__frame kit__chart_frame(const kit_chart *c)
{
    kit__frame f = { HUGE_VAL, -HUGE_VAL, HUGE_VAL, -HUGE_VAL, c->log_x, c->log_y };
    for (int s = 0; s < c->count; s++)
        for (int i = 0; i < c->series[s].n; i++) {
            double x = kit__chart_unit(c->series[s].x[i], c->log_x);
            double y = kit__chart_unit(c->series[s].y[i], c->log_y);
            if (!isfinite(x) || !isfinite(y)) continue;
            if (x < f.x0) f.x0 = x;
            if (x > f.x1) f.x1 = x;
            if (y < f.y0) f.y0 = y;
            if (y > f.y1) f.y1 = y;
        }
    if (c->y_low != 0 || c->y_high != 0) {
        f.y0 = kit__chart_unit(c->y_low, c->log_y);
        f.y1 = kit__chart_unit(c->y_high, c->log_y);
    }
    if (!(f.x1 >= f.x0)) { f.x0 = 0; f.x1 = 1; }                      /* nothing to show */
    if (!(f.y1 >= f.y0)) { f.y0 = 0; f.y1 = 1; }
    if (f.x1 == f.x0) { f.x0 -= 0.5; f.x1 += 0.5; }                   /* a single point */
    if (f.y1 == f.y0) { f.y0 -= 0.5; f.y1 += 0.5; }
    return f;
}

/* The first round number of an axis at or above from, or the one after it. A logarithmic axis has the
   powers of its base; base 10 over less than three decades also 2 and 5 times them. */
static inline double kit__log_tick(double from, int base, int fine)
{
    double power = pow(base, floor(log10(from) / log10(base) + 1e-9));
    static const double part[4] = { 1, 2, 5, 10 };
    for (int i = 0; base == 10 && fine && i < 4; i++)
        if (power * part[i] >= from * (1 - 1e-9)) return power * part[i];
    return power >= from * (1 - 1e-9) ? power : power * base;
}

static inline void kit__chart_number(kit_text *t, double v, double step, int percent)
{
    double shown = percent ? 100 * v : v, unit = percent ? 100 * step : step;
    int digits = unit >= 1 ? 0 : (int)ceil(-log10(unit) - 1e-9);
    kit_put(t, "%.*f%s", digits < 9 ? digits : 9, fabs(shown) < unit / 1e6 ? 0 : shown,
            percent ? "%" : "");
}

static inline void kit__chart_y_tick(kit_text *t, const kit__frame *f, double v)
{
    double y = kit__chart_y(f, v);
    kit_put(t, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", KIT_CHART_LEFT,
            KIT_CHART_WIDTH - KIT_CHART_RIGHT, y, y);
    kit_put(t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", KIT_CHART_LEFT - 8, y + 5);
}

/* a number of a logarithmic axis; far from 1 as 10 with an exponent, for which the margin has room */
static inline void kit__chart_log_number(kit_text *t, double v, int percent)
{
    double exponent = floor(log10(v) + 0.5);
    if (fabs(exponent) > 3 && fabs(v / pow(10, exponent) - 1) < 1e-6)
        kit_put(t, "10<tspan dy=\"-6\" font-size=\"11\">%g</tspan></text>\n", exponent);
    else kit_put(t, percent ? "%g%%</text>\n" : "%g</text>\n", percent ? 100 * v : v);
}

static inline void kit__chart_y_axis(kit_text *t, const kit_chart *c, const kit__frame *f)
{
    double step = kit_round_step(f->y1 - f->y0, 5), end = pow(10, f->y1) * (1 + 1e-9);
    if (c->log_y) {
        int fine = f->y1 - f->y0 < 3, base = c->log_y;
        while (f->y1 - f->y0 > 9 * log10(base)) base *= c->log_y;   /* twelve decades: every second one */
        for (double v = pow(10, f->y0); (v = kit__log_tick(v, base, fine)) <= end; v *= 1.01) {
            kit__chart_y_tick(t, f, v);
            kit__chart_log_number(t, v, c->percent);
        }
        return;
    }
    for (double v = ceil(f->y0 / step - 1e-9) * step; v <= f->y1 + step * 1e-9; v += step) {
        kit__chart_y_tick(t, f, v);
        kit__chart_number(t, v, step, c->percent);
        kit_put_string(t, "</text>\n");
    }
}

static inline void kit__chart_x_tick(kit_text *t, const kit__frame *f, double v)
{
    double x = kit__chart_x(f, v);
    int bottom = KIT_CHART_TOP + KIT_CHART_PLOT;
    int cut = v >= 1000 && x + 2 * KIT_CHART_RIGHT > KIT_CHART_WIDTH;  /* four digits at the right end */
    kit_put(t, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, bottom,
            bottom + 5);
    kit_put(t, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">", cut ? KIT_CHART_WIDTH - 2.0 : x,
            bottom + 21, cut ? "end" : "middle");
}

static inline void kit__chart_x_axis(kit_text *t, const kit_chart *c, const kit__frame *f)
{
    double step = kit_round_step(f->x1 - f->x0, 8), end = pow(10, f->x1) * (1 + 1e-9);
    int bottom = KIT_CHART_TOP + KIT_CHART_PLOT, fine = f->x1 - f->x0 < 3;
    if (c->whole_x && step < 1) step = 1;
    if (c->log_x)
        for (double v = pow(10, f->x0); (v = kit__log_tick(v, c->log_x, fine)) <= end; v *= 1.01) {
            kit__chart_x_tick(t, f, v);
            kit_put(t, "%g</text>\n", v);
        }
    else
        for (double v = ceil(f->x0 / step - 1e-9) * step; v <= f->x1 + step * 1e-9; v += step) {
            kit__chart_x_tick(t, f, v);
            kit__chart_number(t, v, step, 0);
            kit_put_string(t, "</text>\n");
        }
    kit_put(t, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>\n", KIT_CHART_LEFT,
            KIT_CHART_WIDTH - KIT_CHART_RIGHT, bottom, bottom);
}

/* ---- the lines ------------------------------------------------------------------------------- */

/* Middle tones that hold on white and on near-black; hues in an order that keeps neighbours apart. */
static inline const char *kit__chart_colour(const kit_chart *c, int s)
{
    static const char *const tone[KIT_CHART_COLOURS] = {
        "#2f7fd6", "#d9541e", "#1f9d6b", "#b454c4", "#b98a00", "#d63a6e", "#0f97a8", "#7a7f2a"
    };
    int place = 0;
    if (c->series[s].plain) return "#8a8f98";
    for (int i = 0; i < s; i++) place += !c->series[i].plain;
    return tone[place % KIT_CHART_COLOURS];
}

/* The ninth line has the first one's colour again, so every round of colours shifts the shapes. */
static inline void kit__chart_mark(kit_text *t, int s, double x, double y, const char *colour)
{
    int shape = s + s / KIT_CHART_COLOURS * 3;
    static const char *const path[8] = {
        /* around 0,0 */
        "M-4,0a4,4 0 1 0 8,0a4,4 0 1 0 -8,0z",
        "M-3.6,-3.6h7.2v7.2h-7.2z",
        "M0,-5L4.6,3.4h-9.2z",
        "M0,-5L5,0L0,5L-5,0z",
        "M0,5L4.6,-3.4h-9.2z",
        "M-1.4,-4.5h2.8v3.1h3.1v2.8h-3.1v3.1h-2.8v-3.1h-3.1v-2.8h3.1z",
        "M-5,-1.6h10v3.2h-10z",
        "M-1.6,-5h3.2v10h-3.2z"
    };
    kit_put(t, "<path transform=\"translate(%.1f,%.1f)\" d=\"%s\" fill=\"%s\"/>", x, y,
            path[shape % 8], colour);
}

static inline void kit__chart_line(kit_text *t, const kit_chart *c, int s, const kit__frame *f)
{
    const kit_series *line = &c->series[s];
    const char *colour = kit__chart_colour(c, s);
    int open = 0;
    kit_put(t, "<path class=\"line\" stroke=\"%s\"%s d=\"", colour,
            line->plain ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < line->n; i++) {
        int there = isfinite(kit__chart_y(f, line->y[i]));
        if (there)
            kit_put(t, "%c%.1f,%.1f", open ? 'L' : 'M', kit__chart_x(f, line->x[i]),
                    kit__chart_y(f, line->y[i]));
        open = there;
    }
    kit_put_string(t, "\"/>");
    int every = (line->n + 24) / 25;                                  /* about 25 marks at most */
    for (int i = 0; i < line->n; i += every)
        if (isfinite(kit__chart_y(f, line->y[i])))
            kit__chart_mark(t, s, kit__chart_x(f, line->x[i]), kit__chart_y(f, line->y[i]), colour);
    kit_put_string(t, "\n");
}

/* Names below the plot, as many to a row as fit. Returns the height used; t NULL: only measures. */
static inline int kit__chart_legend(kit_text *t, const kit_chart *c, int top)
{
    int left = 12, x = left, y = top;
    for (int s = 0; s < c->count; s++) {
        int width = 48 + 8 * (int)strlen(c->series[s].name);         /* 8: a generous letter */
        if (x > left && x + width > KIT_CHART_WIDTH) { x = left; y += 24; }
        if (t) {
            const char *colour = kit__chart_colour(c, s);
            kit_put(
                t, "<line class=\"line\" stroke=\"%s\"%s x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>",
                colour, c->series[s].plain ? " stroke-dasharray=\"6 4\"" : "", x, x + 26, y, y);
            kit__chart_mark(t, s, x + 13, y, colour);
            kit_put(t, "<text x=\"%d\" y=\"%d\">", x + 32, y + 5);
            kit_put_escaped(t, c->series[s].name);
            kit_put_string(t, "</text>\n");
        }
        x += width;
    }
    return y - top + 24;
}

/* Its name stands on the line, or below it where the title is near. */
static inline void kit__chart_level(kit_text *t, const kit_chart *c, const kit__frame *f)
{
    double unit = kit__chart_unit(c->level, c->log_y), y = kit__chart_y(f, c->level);
    double base = y < KIT_CHART_TOP + 16 ? y + 17 : y - 5;
    if (!c->level_name || !(unit >= f->y0 && unit <= f->y1)) return;
    kit_put(t, "<line class=\"level\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", KIT_CHART_LEFT,
            KIT_CHART_WIDTH - KIT_CHART_RIGHT, y, y);
    kit_put(t, "<text class=\"soft halo\" x=\"%d\" y=\"%.1f\"%s>",
            c->level_left ? KIT_CHART_LEFT + 4 : KIT_CHART_WIDTH - KIT_CHART_RIGHT - 4, base,
            c->level_left ? "" : " text-anchor=\"end\"");
    kit_put_escaped(t, c->level_name);
    kit_put_string(t, "</text>\n");
}

/* ---- the chart ------------------------------------------------------------------------------- */

static inline void kit__chart_open(kit_text *t, const char *kind, const char *title, int height)
{
    kit_put(t,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" viewBox=\"0 0 %d %d\" "
            "role=\"img\" aria-label=\"",
            kind, KIT_CHART_WIDTH, height);
    kit_put_escaped(t, title);
    kit_put_string(
        t, "\">\n<style>"
           ".kit-chart{font:15px system-ui,sans-serif;max-width:640px;width:100%}"
           ".kit-chart .paper{fill:#fff}.kit-chart text{fill:#24292f}.kit-chart .soft{fill:#6a737d}"
           ".kit-chart .halo{paint-order:stroke;stroke:#fff;stroke-width:5px}"
           ".kit-chart .title{font-weight:600;font-size:17px}.kit-chart .grid{stroke:#e3e6ea}"
           ".kit-chart .axis{stroke:#8a8f98}.kit-chart .level{stroke:#8a8f98;stroke-dasharray:2 3}"
           ".kit-chart .line{fill:none;stroke-width:2.2;stroke-linejoin:round}"
           "@media (prefers-color-scheme:dark){.kit-chart .paper{fill:#16191d}.kit-chart "
           "text{fill:#e3e6ea}"
           ".kit-chart .soft{fill:#9aa2ab}.kit-chart .grid{stroke:#2d333b}"
           ".kit-chart .halo{stroke:#16191d}}"
           "</style>\n");
    kit_put(t, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n", KIT_CHART_WIDTH, height);
    kit_put_string(t, "<text class=\"title\" x=\"12\" y=\"25\">");
    kit_put_escaped(t, title);
    kit_put_string(t, "</text>\n");
}

static inline void kit_chart_svg(kit_text *t, const kit_chart *c)
{
    int middle = (KIT_CHART_LEFT + KIT_CHART_WIDTH - KIT_CHART_RIGHT) / 2,
        bottom = KIT_CHART_TOP + KIT_CHART_PLOT;
    int legend = bottom + 68;
    kit__frame f = kit__chart_frame(c);
    kit__chart_open(t, "kit-chart", c->title, legend + kit__chart_legend(NULL, c, legend));
    kit_put(t, "<text class=\"soft\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">", middle,
            bottom + 44);
    kit_put_escaped(t, c->x_label);
    kit_put(t,
            "</text>\n<text class=\"soft\" transform=\"translate(14,%d) rotate(-90)\" "
            "text-anchor=\"middle\">",
            KIT_CHART_TOP + KIT_CHART_PLOT / 2);
    kit_put_escaped(t, c->y_label);
    kit_put_string(t, "</text>\n");
    kit__chart_y_axis(t, c, &f);
    kit__chart_x_axis(t, c, &f);
    for (int s = 0; s < c->count; s++) kit__chart_line(t, c, s, &f);
    kit__chart_level(t, c, &f);
    kit__chart_legend(t, c, legend);
    kit_put_string(t, "</svg>\n");
}

/* ---- a heat table: numbers in cells, the larger the warmer ------------------------------------
   For values over several powers of ten: the warmth follows the logarithm from low (none) to high. */

typedef struct kit_heat {
    const char *title, *x_label;
    const char *const *row_name, *const *col_name;
    const double *value;                   /* (rows, cols)                                            */
    int rows, cols;
    double low, high;
} kit_heat;

static inline void kit__heat_cell(kit_text *t, double v, double warmth, double x, double y, double width)
{
    const char *form = v >= 9.995 ? "%.1f" : v >= 0.0995 ? "%.2f" : v >= 0.0005 ? "%.3f" : "%.0f";
    if (!isfinite(v)) return;
    kit_put(t, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"24\" fill=\"#d9541e\" "
               "fill-opacity=\"%.2f\"/>", x, y, width - 1, warmth > 0 ? warmth < 1 ? warmth : 1 : 0);
    kit_put(t, "<text class=\"cell\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
            x + width / 2, y + 17);
    kit_put(t, form, v);
    kit_put_string(t, "</text>\n");
}

static inline void kit_heat_svg(kit_text *t, const kit_heat *h)
{
    int longest = 0, top = 72, height = top + 25 * h->rows + 12;
    for (int r = 0; r < h->rows; r++)
        if ((int)strlen(h->row_name[r]) > longest) longest = (int)strlen(h->row_name[r]);
    int left = 20 + 8 * (longest < 16 ? longest : 16);
    double width = (double)(KIT_CHART_WIDTH - 8 - left) / (h->cols ? h->cols : 1);
    kit__chart_open(t, "kit-chart kit-heat", h->title, height);
    kit_put_string(t, "<style>.kit-heat .cell{font-size:12px}.kit-heat{min-width:440px}"
                      "figure:has(>.kit-heat){overflow-x:auto}</style>\n");  /* scrolls on a phone */
    kit_put(t, "<text class=\"soft cell\" x=\"%d\" y=\"46\">", left);
    kit_put_escaped(t, h->x_label);
    kit_put_string(t, "</text>\n");
    for (int c = 0; c < h->cols; c++) {
        kit_put(t, "<text class=\"cell\" x=\"%.1f\" y=\"65\" text-anchor=\"middle\">",
                left + (c + 0.5) * width);
        kit_put_escaped(t, h->col_name[c]);
        kit_put_string(t, "</text>\n");
    }
    for (int r = 0; r < h->rows; r++) {
        kit_put(t, "<text x=\"12\" y=\"%d\">", top + 25 * r + 17);
        kit_put_escaped(t, h->row_name[r]);
        kit_put_string(t, "</text>\n");
        for (int c = 0; c < h->cols; c++) {
            double v = h->value[r * h->cols + c];
            double warmth = v > 0 ? log(v / h->low) / log(h->high / h->low) : 0;
            kit__heat_cell(t, v, 0.75 * warmth, left + c * width, top + 25 * r, width);
        }
    }
    kit_put_string(t, "</svg>\n");
}

#endif
