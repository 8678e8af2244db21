/* kit/canvas.h - a picture in memory: two colour maps, rectangles, a small font, lines of text

   It knows nothing of files; png.h draws heat maps on it and turns it into PNG or SVG. */
#ifndef KIT_CANVAS_H
#define KIT_CANVAS_H

#include "files.h"
#include <math.h>

/* ---- colours ------------------------------------------------------------------------------------
   Both maps are paths through OKLab (Ottosson 2020), a space in which equal steps look equally
   large and L is how light a colour looks. The lightness therefore rises evenly by construction:
   the map reads the same in grey, on paper and to the colour-blind. */

typedef struct kit_color { unsigned char r, g, b; } kit_color;

static inline double kit__srgb(double linear)
{
    double v = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

/* lightness 0..1, chroma 0..about 0.3, hue in degrees */
static inline kit_color kit_oklch(double L, double chroma, double hue)
{
    double angle = hue * 0.017453292519943295, a = chroma * cos(angle), b = chroma * sin(angle);
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
    if (x >= x1) return;
    for (int row = y < 0 ? 0 : y; row < y1; row++) {
        unsigned char *at = p->rgb + 3 * ((size_t)row * (size_t)p->width + (size_t)x);
        for (int i = x; i < x1; i++, at += 3) { at[0] = c.r; at[1] = c.g; at[2] = c.b; }
    }
}

/* a frame of so many points inside the rectangle */
static inline void kit_outline(kit_image *p, int x, int y, int w, int h, int thick, kit_color c)
{
    kit_fill(p, x, y, w, thick, c);
    kit_fill(p, x, y + h - thick, w, thick, c);
    kit_fill(p, x, y, thick, h, c);
    kit_fill(p, x + w - thick, y, thick, h, c);
}

static inline int kit_image_make(kit_image *p, int width, int height, kit_color paper,
                                 kit_error *why)
{
    p->width = width;
    p->height = height;
    p->rgb = NULL;
    if (width < 1 || height < 1 || width > 30000 || height > 30000
        || (double)width * height > 1e8)
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
   5 x 9 points each: seven rows above the base line, two below. A row is one digit in base 32, its
   five bits from left to right: in "4AHHVHH00" (A) the first row 4 is ..#.. and the fifth, V, is
   #####. */

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

/* One of the four quarters of a point (right, low: 0 or 1). A corner takes the value its two
   neighbours agree on, unless a third agrees as well: slanted strokes lose their steps when drawn
   large. */
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

static inline void kit_write_centred(kit_image *p, int x, int y, const char *s, int scale,
                                     kit_color c)
{
    kit_write(p, x - kit_text_width(s, scale) / 2, y, s, scale, c);
}

/* ---- lines ------------------------------------------------------------------------------------
   Nothing runs out of a picture: text is broken into lines, at a blank if there is one, after a
   sign of a spec string otherwise, and in the middle of a word when nothing else is left. */

/* how many letters of s go on a line that has room for so many */
static inline int kit__line_letters(const char *s, int room)
{
    int n = (int)strcspn(s, "\n"), blank = 0, sign = 0;
    if (room < 1) room = 1;
    if (n <= room) return n;
    for (int i = 1; i <= room; i++) {
        if (s[i] == ' ') blank = i;
        if (i > 1 && strchr(",:+/=", s[i - 1])) sign = i;
    }
    return blank ? blank : sign ? sign : room;
}

/* Writes s in lines of at most `wide` points and returns their height. p NULL: only measures. */
static inline int kit_write_lines(kit_image *p, int x, int y, int wide, const char *s, int scale,
                                  kit_color c)
{
    int height = 0;
    while (s && *s) {
        char line[256];
        int n = kit__line_letters(s, wide / (6 * scale) < 250 ? wide / (6 * scale) : 250);
        snprintf(line, sizeof line, "%.*s", n < 250 ? n : 250, s);
        if (p) kit_write(p, x, y + height, line, scale, c);
        height += 11 * scale;
        s += n;
        if (*s == ' ' || *s == '\n') s++;
    }
    return height;
}

/* The same with each line in the middle of the room. */
static inline void kit__lines_centred(kit_image *p, int middle, int y, int wide, const char *s,
                                      int scale, kit_color c)
{
    while (s && *s) {
        char line[256];
        int n = kit__line_letters(s, wide / (6 * scale) < 250 ? wide / (6 * scale) : 250);
        snprintf(line, sizeof line, "%.*s", n, s);
        kit_write_centred(p, middle, y, line, scale, c);
        y += 11 * scale;
        s += n;
        if (*s == ' ' || *s == '\n') s++;
    }
}

#endif
