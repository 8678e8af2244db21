/* kit/png.h - heat maps as PNG: a small canvas, a small font, two colour maps, a contact sheet

   PNG files come from Sean Barrett's stb_image_write, which the Makefile looks for and announces with
   POSENC_STB_IMAGE_WRITE (1: it is stb/stb_image_write.h, 2: stb_image_write.h). Without it everything
   here still compiles, KIT_HAS_PNG is 0 and kit_png_encode says how to get it.

   stb's own file writer does not look at what fwrite returns, so that a full disk goes unnoticed.
   We take its bytes into memory and save them ourselves. */
#ifndef KIT_PNG_H
#define KIT_PNG_H

#include "files.h"
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

/* ---- colours ------------------------------------------------------------------------------------
   Both maps are paths through OKLab (Ottosson 2020), a space in which equal steps look equally large
   and L is how light a colour looks. The lightness therefore rises evenly by construction: the map
   reads the same in grey, on paper and to the colour-blind. */

typedef struct kit_color { unsigned char r, g, b; } kit_color;

static inline double kit__srgb(double linear)
{
    double v = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

/* lightness 0..1, chroma 0..about 0.3, hue in degrees */
static inline kit_color kit_oklch(double L, double chroma, double hue)
{
    double a = chroma * cos(hue * 0.017453292519943295), b = chroma * sin(hue * 0.017453292519943295);
    double l = L + 0.3963377774 * a + 0.2158037573 * b;
    double m = L - 0.1055613458 * a - 0.0638541728 * b;
    double s = L - 0.0894841775 * a - 1.2914855480 * b;
    l = l * l * l; m = m * m * m; s = s * s * s;
    kit_color c;
    c.r = (unsigned char)(255 * kit__srgb(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s)
                          + 0.5);
    c.g = (unsigned char)(255 * kit__srgb(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s)
                          + 0.5);
    c.b = (unsigned char)(255 * kit__srgb(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)
                          + 0.5);
    return c;
}

static inline double kit__unit(double t) { return t > 0 ? t < 1 ? t : 1 : 0; }   /* NaN becomes 0 */

/* 0..1: from a dark violet over blue and green to a light yellow */
static inline kit_color kit_sequential(double t)
{
    t = kit__unit(t);
    return kit_oklch(0.20 + 0.74 * t, 0.10 + 0.05 * sin(3.14159265 * t), 295.0 - 190.0 * t);
}

/* -1..1: blue, white in the middle, red */
static inline kit_color kit_diverging(double t)
{
    double far = kit__unit(fabs(t));
    return kit_oklch(0.97 - 0.52 * far, 0.19 * far * (1.1 - 0.3 * far), t < 0 ? 255.0 : 27.0);
}

static inline kit_color kit_grey(int v)
{
    kit_color c;
    c.r = c.g = c.b = (unsigned char)v;
    return c;
}

/* ---- canvas ---------------------------------------------------------------------------------- */

typedef struct kit_image { int width, height; unsigned char *rgb; } kit_image;

/* Drawing outside the picture is cut off, never an error. */
static inline void kit_fill(kit_image *p, int x, int y, int w, int h, kit_color c)
{
    int x1 = x + w < p->width ? x + w : p->width, y1 = y + h < p->height ? y + h : p->height;
    if (x < 0) x = 0;
    for (int row = y < 0 ? 0 : y; row < y1; row++) {
        unsigned char *at = p->rgb + 3 * ((size_t)row * (size_t)p->width + (size_t)x);
        for (int i = x; i < x1; i++, at += 3) { at[0] = c.r; at[1] = c.g; at[2] = c.b; }
    }
}

static inline int kit_image_make(kit_image *p, int width, int height, kit_color paper, kit_error *why)
{
    p->width = width;
    p->height = height;
    p->rgb = NULL;
    if (width < 1 || height < 1 || width > 20000 || height > 20000)
        return kit_fail(why, "a picture of %d x %d points is out of range", width, height);
    p->rgb = (unsigned char *)kit_new(3 * (size_t)width, (size_t)height);
    kit_fill(p, 0, 0, width, height, paper);
    return 1;
}

static inline void kit_image_free(kit_image *p)
{
    free(p->rgb);
    p->rgb = NULL;
}

/* ---- letters ------------------------------------------------------------------------------------
   5 x 9 points each: seven rows above the base line, two below. A row is one digit in base 32, its five
   bits from left to right: in "4AHHVHH00" (A) the first row 4 is ..#.. and the fifth, V, is #####. */

static const char *const kit__font[95] = {
    "000000000", "444440400", "AA0000000", "AAVAVAA00", "4FKE5U400", "PP248JJ00", "CIICLID00",
    "440000000", "248884200", "842224800", "04LEL4000", "044V44000", "00000CC48", "000E00000",
    "00000CC00", "11248GG00", "EHJLPHE00", "4C4444E00", "EH1248V00", "EH161HE00", "26AIV2200",
    "VGU11HE00", "68GUHHE00", "V12244400", "EHHEHHE00", "EHHF12C00", "0CC0CC000", "0CC0CC480",
    "248G84200", "00V0V0000", "842124800", "EH1240400", "EHNLNGE00", "4AHHVHH00", "UHHUHHU00",
    "EHGGGHE00", "UHHHHHU00", "VGGUGGV00", "VGGUGGG00", "EHGNHHF00", "HHHVHHH00", "E44444E00",
    "72222IC00", "HIKOKIH00", "GGGGGGV00", "HRLLHHH00", "HPLJHHH00", "EHHHHHE00", "UHHUGGG00",
    "EHHHLID00", "UHHUKIH00", "FGGE11U00", "V44444400", "HHHHHHE00", "HHHHHA400", "HHHLLRH00",
    "HHA4AHH00", "HHA444400", "V1248GV00", "E88888E00", "GG8421100", "E22222E00", "4AH000000",
    "0000000V0", "840000000", "00E1FHF00", "GGUHHHU00", "00EGGGE00", "11FHHHF00", "00EHVGE00",
    "68U888800", "00FHHHF1E", "GGUHHHH00", "40C444E00", "2062222IC", "GGIKOKI00", "C44444E00",
    "00QLLLH00", "00UHHHH00", "00EHHHE00", "00UHHHUGG", "00FHHHF11", "00MPGGG00", "00FGE1U00",
    "88U889600", "00HHHHF00", "00HHHA400", "00HHLLA00", "00HA4AH00", "00HHHHF1E", "00V248V00",
    "244844200", "444444400", "844244800", "009LI0000",
};

static inline int kit__letter_bit(char letter, int x, int y)
{
    if (x < 0 || x > 4 || y < 0 || y > 8) return 0;
    char digit = kit__font[letter >= 32 && letter < 127 ? letter - 32 : '?' - 32][y];
    return (digit <= '9' ? digit - '0' : digit - 'A' + 10) >> (4 - x) & 1;
}

/* One of the four quarters of a point (right, low: 0 or 1). A corner takes the value its two neighbours
   agree on, unless a third agrees as well: slanted strokes lose their steps when drawn large. */
static inline int kit__letter_quarter(char letter, int x, int y, int right, int low)
{
    int side = kit__letter_bit(letter, x + (right ? 1 : -1), y),
        other_side = kit__letter_bit(letter, x + (right ? -1 : 1), y);
    int level = kit__letter_bit(letter, x, y + (low ? 1 : -1)),
        other_level = kit__letter_bit(letter, x, y + (low ? -1 : 1));
    if (side == level && side != other_level && level != other_side) return side;
    return kit__letter_bit(letter, x, y);
}

static inline int kit_text_width(const char *s, int scale)
{
    int n = (int)strlen(s);
    return n ? scale * (6 * n - 1) : 0;
}

/* x, y: upper left corner; the base line is 7*scale below. upward: the text climbs from x, y. */
static inline void kit__letters(kit_image *p, int x, int y, const char *s, int scale, int upward,
                                kit_color c)
{
    int size = scale > 1 ? scale / 2 : 1, parts = scale > 1 ? 2 : 1;
    for (int n = 0; s[n]; n++)
        for (int row = 0; row < 9 * parts; row++)
            for (int col = 0; col < 5 * parts; col++) {
                int on = parts == 2 ? kit__letter_quarter(s[n], col / 2, row / 2, col % 2, row % 2)
                                    : kit__letter_bit(s[n], col, row);
                int along = (6 * parts * n + col) * size, down = row * size;
                if (!on) continue;
                if (upward) kit_fill(p, x + down, y - along - size, size, size, c);
                else        kit_fill(p, x + along, y + down, size, size, c);
            }
}

/* scale 1, or an even number */
static inline void kit_write(kit_image *p, int x, int y, const char *s, int scale, kit_color c)
{
    kit__letters(p, x, y, s, scale, 0, c);
}

static inline void kit_write_up(kit_image *p, int x, int y, const char *s, int scale, kit_color c)
{
    kit__letters(p, x, y, s, scale, 1, c);
}

static inline void kit_write_centred(kit_image *p, int x, int y, const char *s, int scale, kit_color c)
{
    kit_write(p, x - kit_text_width(s, scale) / 2, y, s, scale, c);
}

/* ---- a sheet of heat maps -----------------------------------------------------------------------
   One map or many in a grid, all of one size and one colour scale, so that they can be compared.

        title
        subtitle
                  col 0     col 1
         row 0    [map]     [map]    | high
         row 1    [map]     [map]    | low
                  axis labels, note                                                                 */

typedef struct kit_sheet {
    const char *title, *subtitle, *note;   /* any may be NULL                                     */
    int rows, cols;                        /* of the grid of maps                                 */
    const float *const *map;               /* rows*cols pointers to height*width numbers, or NULL */
    int height, width, cell;               /* of one map; side of one number in points            */
    const char *const *row_name;           /* (rows) names beside the grid, or NULL               */
    const char *const *col_name;           /* (cols) names above it, or NULL                      */
    const char *x_label, *y_label;         /* what runs along the axes of a map                   */
    const char *const *x_tick, *const *y_tick;   /* a word for each column, row; NULL: numbers    */
    const unsigned char *mark;             /* (width) columns to point at; NULL: none             */
    double low, high;                      /* ends of the colours; both 0: taken from the maps    */
    double power;                          /* colour = ((v-low)/(high-low))^power; 0 means 1      */
    int diverging;                         /* signed numbers: blue, white, red                    */
    const char *value_label;               /* what the colours mean                               */
} kit_sheet;

typedef struct kit__layout {               /* where things stand, in points */
    int left, top, map_w, map_h, gap_x, gap_y, width, height, right;
} kit__layout;

static inline int kit__widest(const char *const *word, int n, int scale)
{
    int widest = 0;
    for (int i = 0; word && i < n; i++)
        if (kit_text_width(word[i], scale) > widest) widest = kit_text_width(word[i], scale);
    return widest;
}

static inline int kit__lines(const char *s)
{
    int n = s ? 1 : 0;
    for (; s && *s; s++) n += *s == '\n';
    return n;
}

static inline kit__layout kit__sheet_layout(const kit_sheet *s)
{
    kit__layout at;
    int ticks = s->y_tick ? kit__widest(s->y_tick, s->height, s->cell >= 16 ? 2 : 1) : 34, wide = 0;
    at.map_w = s->width * s->cell;
    at.map_h = s->height * s->cell;
    at.gap_x = s->x_tick ? ticks + 26 : 18;
    at.gap_y = (s->mark ? 16 : 0) + (s->x_tick ? 44 : 18);
    at.left = 24 + kit__widest(s->row_name, s->rows, 2) + (s->row_name ? 16 : 0)
              + (s->y_label ? 30 : 0) + ticks + 8;
    at.top = 24 + (s->title ? 44 : 0) + 26 * kit__lines(s->subtitle) + (s->col_name ? 28 : 0)
             + (s->mark ? 16 : 0) + 6;
    at.right = at.left + s->cols * (at.map_w + at.gap_x) - at.gap_x;
    at.width = at.right + 28 + 22 + 90 + (s->value_label ? 26 : 0);
    at.height = at.top + s->rows * (at.map_h + at.gap_y) - at.gap_y + (s->x_tick ? 40 : 26)
              + (s->x_label ? 30 : 0) + 26 * kit__lines(s->note) + 18;
    if (s->title) wide = 48 + kit_text_width(s->title, 4);
    if (at.width < wide) at.width = wide;
    return at;
}

static inline void kit__sheet_range(const kit_sheet *s, double *low, double *high)
{
    double least = 0, most = 0;
    for (int m = 0; m < s->rows * s->cols; m++)
        for (int i = 0; s->map[m] && i < s->height * s->width; i++) {
            if (s->map[m][i] < least) least = s->map[m][i];
            if (s->map[m][i] > most) most = s->map[m][i];
        }
    if (s->low != 0 || s->high != 0) { least = s->low; most = s->high; }
    if (s->diverging) { most = most > -least ? most : -least; least = -most; }
    if (!(most > least)) most = least + 1;
    *low = least;
    *high = most;
}

/* share: 0 at the low end of the scale, 1 at the high end */
static inline kit_color kit__sheet_color(const kit_sheet *s, double share)
{
    if (s->diverging) return kit_diverging(2 * share - 1);
    return kit_sequential(s->power > 0 ? pow(kit__unit(share), s->power) : share);
}

/* a triangle that points down to column i */
static inline void kit__sheet_mark(kit_image *p, int x, int y, kit_color c)
{
    for (int i = 0; i < 8; i++) kit_fill(p, x - 7 + i, y - 12 + i, 15 - 2 * i, 1, c);
}

static inline int kit__tick_step(int n, int cell, int room)
{
    int step = 1;
    while (step * cell < room || n / step > 12) step *= 2;
    return step;
}

static inline void kit__sheet_ticks_x(kit_image *p, const kit_sheet *s, int x, int y)
{
    int step = s->x_tick ? 1 : kit__tick_step(s->width, s->cell, 34), scale = s->cell >= 16 ? 2 : 1;
    for (int i = 0; i < s->width; i += step) {
        int middle = x + i * s->cell + s->cell / 2;
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        if (s->x_tick) {
            kit_write_up(p, middle - 4 * scale + scale / 2,
                         y + 6 + kit_text_width(s->x_tick[i], scale), s->x_tick[i], scale,
                         s->mark && s->mark[i] ? kit_oklch(0.55, 0.2, 25) : kit_grey(60));
            continue;
        }
        kit_fill(p, middle, y + 1, 1, 4, kit_grey(120));
        kit_write_centred(p, middle, y + 8, number, 2, kit_grey(60));
    }
}

static inline void kit__sheet_ticks_y(kit_image *p, const kit_sheet *s, int x, int y)
{
    int step = s->y_tick ? 1 : kit__tick_step(s->height, s->cell, 34),
        scale = s->y_tick && s->cell < 16 ? 1 : 2;
    for (int i = 0; i < s->height; i += step) {
        int middle = y + i * s->cell + s->cell / 2;
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        const char *word = s->y_tick ? s->y_tick[i] : number;
        if (!s->y_tick) kit_fill(p, x - 5, middle, 4, 1, kit_grey(120));
        kit_write(p, x - 9 - kit_text_width(word, scale), middle - 3 * scale - scale / 2, word,
                  scale, kit_grey(60));
    }
}

static inline void kit__sheet_map(kit_image *p, const kit_sheet *s, const kit__layout *at, int row,
                                  int col, double low, double high)
{
    const float *v = s->map[row * s->cols + col];
    int x = at->left + col * (at->map_w + at->gap_x), y = at->top + row * (at->map_h + at->gap_y);
    if (!v) return;
    kit_fill(p, x - 1, y - 1, at->map_w + 2, at->map_h + 2, kit_grey(120));
    for (int i = 0; i < s->height; i++)
        for (int j = 0; j < s->width; j++)
            kit_fill(p, x + j * s->cell, y + i * s->cell, s->cell, s->cell,
                     kit__sheet_color(s, (v[i * s->width + j] - low) / (high - low)));
    for (int j = 0; s->mark && j < s->width; j++)
        if (s->mark[j])
            kit__sheet_mark(p, x + j * s->cell + s->cell / 2, y - 2, kit_oklch(0.55, 0.2, 25));
    if (col == 0 || s->y_tick) kit__sheet_ticks_y(p, s, x, y);
    if (row == s->rows - 1 || s->x_tick) kit__sheet_ticks_x(p, s, x, y + at->map_h);
}

/* the colour bar, in the grid's first row and beside it */
static inline void kit__sheet_bar(kit_image *p, const kit_sheet *s, const kit__layout *at,
                                  double low, double high)
{
    int x = at->right + 28, y = at->top,
        h = at->map_h > 200 ? at->map_h
            : s->rows > 1   ? 2 * at->map_h
                            : at->map_h;
    for (int i = 0; i < h; i++) {
        double share = 1 - (i + 0.5) / h;
        if (!s->diverging && s->power > 0) share = pow(share, 1 / s->power);
        kit_fill(p, x, y + i, 22, 1, kit__sheet_color(s, share));
    }
    for (int i = 0; i <= 4; i++) {
        double height = i / 4.0,
               share = !s->diverging && s->power > 0 ? pow(height, 1 / s->power) : height;
        int level = y + (int)((1 - height) * (h - 1));
        char number[32];
        snprintf(number, sizeof number, "%.2g", low + share * (high - low));
        kit_fill(p, x + 22, level, 4, 1, kit_grey(120));
        kit_write(p, x + 30, level - 7 + (i == 4) * 7 - (i == 0) * 7, number, 2, kit_grey(60));
    }
    if (s->value_label && kit_text_width(s->value_label, 2) <= h)
        kit_write_up(p, x + 100, y + h, s->value_label, 2, kit_grey(60));
}

static inline void kit__sheet_lines(kit_image *p, int x, int *y, const char *s, kit_color c)
{
    char line[256];
    while (s) {
        size_t n = strcspn(s, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, s);
        kit_write(p, x, *y, line, 2, c);
        *y += 26;
        s = s[n] ? s + n + 1 : NULL;
    }
}

static inline void kit__sheet_words(kit_image *p, const kit_sheet *s, const kit__layout *at)
{
    int y = 24, grid_h = s->rows * (at->map_h + at->gap_y) - at->gap_y;
    if (s->title) kit_write(p, 24, y, s->title, 4, kit_grey(20));
    if (s->title) y += 44;
    kit__sheet_lines(p, 24, &y, s->subtitle, kit_grey(80));
    for (int c = 0; s->col_name && c < s->cols; c++)
        kit_write_centred(p, at->left + c * (at->map_w + at->gap_x) + at->map_w / 2,
                          at->top - 26 - (s->mark ? 14 : 0), s->col_name[c], 2, kit_grey(20));
    for (int r = 0; s->row_name && r < s->rows; r++)
        kit_write(p, 24, at->top + r * (at->map_h + at->gap_y) + at->map_h / 2 - 8, s->row_name[r],
                  2, kit_grey(20));
    if (s->y_label && kit_text_width(s->y_label, 2) <= grid_h)   /* else it would meet the title */
        kit_write_up(p, 24 + kit__widest(s->row_name, s->rows, 2) + (s->row_name ? 16 : 0),
                     at->top + grid_h / 2 + kit_text_width(s->y_label, 2) / 2, s->y_label, 2,
                     kit_grey(80));
    y = at->top + grid_h + (s->x_tick ? 40 : 32);
    if (s->x_label) kit_write_centred(p, (at->left + at->right) / 2, y, s->x_label, 2, kit_grey(80));
    y += s->x_label ? 34 : 4;
    kit__sheet_lines(p, 24, &y, s->note, kit_grey(80));
}

/* Draws the whole sheet on a new image; free it with kit_image_free. */
static inline int kit_sheet_draw(kit_image *p, const kit_sheet *s, kit_error *why)
{
    double low, high;
    kit__layout at = kit__sheet_layout(s);
    if (!kit_image_make(p, at.width, at.height, kit_grey(255), why)) return 0;
    kit__sheet_range(s, &low, &high);
    for (int r = 0; r < s->rows; r++)
        for (int c = 0; c < s->cols; c++) kit__sheet_map(p, s, &at, r, c, low, high);
    kit__sheet_bar(p, s, &at, low, high);
    kit__sheet_words(p, s, &at);
    return 1;
}

/* ---- PNG bytes ------------------------------------------------------------------------------- */

#if defined(POSENC_STB_IMAGE_WRITE)

static inline void kit__png_take(void *text, void *bytes, int n)
{
    kit_put_bytes((kit_text *)text, bytes, (size_t)n);
}

static inline int kit_png_encode(kit_text *png, const kit_image *p, kit_error *why)
{
    if (!stbi_write_png_to_func(kit__png_take, png, p->width, p->height, 3, p->rgb, 3 * p->width))
        return kit_fail(why, "no memory to encode a picture of %d x %d points", p->width, p->height);
    return 1;
}

#else

static inline int kit_png_encode(kit_text *png, const kit_image *p, kit_error *why)
{
    (void)png; (void)p;
    return kit_fail(why, "%s", KIT_NO_PNG);
}

#endif

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

#endif
