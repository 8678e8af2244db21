/* gallery/sheet.h - the contact sheet: every row of the table, two small panels each, in groups by
   where position enters */
#ifndef GALLERY_SHEET_H
#define GALLERY_SHEET_H

#include "gallery/pages.h"

enum { ACROSS = 5, TILE_W = 2 * SMALL + 34, TILE_H = SMALL + 48 };

static const struct group { const char *title, *reads; } groups[] = {
    { "Nowhere", "" },
    { "Added to the embedding",
      "Left: the vector of each position (down) by channel. Right: how alike the vectors of two "
      "positions are. On a grid: some of the channels, and likeness with the place in the middle."
    },
    { "Turn queries and keys",
      "Left: the cosine of the angle, by position (down) and pair of channels. Right: the score of "
      "a query (down) and a key that are the same vector. qtemp: the factor of a query's scores by "
      "its position, and what it saves." },
    { "Added to the scores",
      "Left: what is added by distance, for each head. Right: the same for each query (down) and "
      "key, one head." }
};
static const char sheet_opening[] =
    "Red is positive, blue negative, white zero; yellow is more, violet less; grey is masked or has "
    "no value. Positions count from the top and from the left.\nWhat is learned is drawn as it "
    "starts: noise is what training begins with.\nEvery picture large, with axes and the spec that "
    "was drawn: build/gallery";

/* pages of a group: rows of the table, without variants */
static inline int in_group(const page *p, int where)
{
    return !p->extra && (int)posenc_encoding_get(p->encoding)->where == where;
}

static inline void draw_tile(kit_image *image, const page *p, int x, int y)
{
    kit_write(image, x, y, p->title, 2, kit_grey(20));
    for (int i = 0; i < 2 && i < p->panels; i++)
        plot_small(image, &p->panel[i], x + i * (SMALL + 10), y + 22);
}

/* A heading, a sentence on how to read it, and rows of tiles from y on. Returns the y that follows;
   image NULL: only measures. */
static inline int draw_group(kit_image *image, const page *p, int count, int where, int y)
{
    int wide = ACROSS * TILE_W - 24, n = 0;
    if (where != POSENC_NOWHERE) {
        if (image) kit_write(image, EDGE, y, groups[where].title, 4, kit_grey(20));
        y += 44;
        y += kit_write_lines(image, EDGE, y, wide, groups[where].reads, 2, kit_grey(90)) + 12;
    }
    for (int i = 0; i < count; i++) {
        if (!in_group(&p[i], where)) continue;
        if (image) draw_tile(image, &p[i], EDGE + n % ACROSS * TILE_W, y + n / ACROSS * TILE_H);
        n++;
    }
    if (where == POSENC_NOWHERE)           /* beside its single tile: how to read the sheet */
        kit_write_lines(image, EDGE + TILE_W, y + 22, wide - TILE_W, sheet_opening, 2,
                        kit_grey(60));
    return y + (n + ACROSS - 1) / ACROSS * TILE_H + 14;
}

static inline int draw_sheet(kit_image *image, const page *p, int count, int y)
{
    if (image)
        kit_write(image, EDGE, y, "Where does position enter? Every encoding of posenc.h", 4,
                  kit_grey(20));
    y += 64;
    for (int where = POSENC_NOWHERE; where <= POSENC_SCORE; where++)
        y = draw_group(image, p, count, where, y);
    return y;
}

static inline int sheet_save(kit_picture *out, const page *p, int count, const char *folder,
                             kit_error *why)
{
    kit_image image;
    int width = 2 * EDGE + ACROSS * TILE_W - 24, height = draw_sheet(NULL, p, count, EDGE);
    if (!kit_image_make(&image, width, height, kit_grey(255), why)) return 0;
    draw_sheet(&image, p, count, EDGE);
    int done = plot_save(out, &image, 2 * KIT_SVG_MOST, folder, "gallery", why);
    kit_image_free(&image);
    return done;
}

#endif
