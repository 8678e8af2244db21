/* kit/cells.h - a table that owns its cells; row 0 is the heading

       kit_cells c = kit_cells_new(rows + 1, columns);
       kit_cells_put(&c, 0, 0, "encoding");  kit_cells_put(&c, 1, 0, "%s", name);
       kit_cells_print(&c);  kit_cells_show(&report, &c);  kit_cells_free(&c); */
#ifndef KIT_CELLS_H
#define KIT_CELLS_H

#include "report.h"

enum { KIT_CELL = 400 };
typedef struct kit_cells { char (*text)[KIT_CELL]; const char **cell; int rows, cols; } kit_cells;

static inline kit_cells kit_cells_new(int rows, int cols)
{
    kit_cells c = { NULL, NULL, rows, cols };
    size_t n = (size_t)rows * (size_t)cols;
    c.text = (char (*)[KIT_CELL])kit_new(n, sizeof *c.text);
    c.cell = (const char **)kit_new(n, sizeof *c.cell);
    for (size_t i = 0; i < n; i++) c.cell[i] = c.text[i];
    return c;
}

KIT_FORMAT(4, 5)
static inline void kit_cells_put(kit_cells *c, int row, int col, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->text[row * c->cols + col], sizeof *c->text, format, args);
    va_end(args);
}

static inline void kit_cells_free(kit_cells *c)
{
    free(c->text);
    free((void *)c->cell);
}

static inline void kit_cells_show(kit_report *p, const kit_cells *c)
{
    kit_table table = { c->cell, c->cell + c->cols, c->rows - 1, c->cols, 0, NULL };
    kit_report_table(p, &table);
}

/* on the terminal: the first column flush left, the others right */
static inline void kit_cells_print(const kit_cells *c)
{
    for (int r = 0; r < c->rows; r++) {
        for (int k = 0; k < c->cols; k++) {
            int wide = 0;
            for (int i = 0; i < c->rows; i++) {
                int length = (int)strlen(c->text[i * c->cols + k]);
                if (length > wide) wide = length;
            }
            printf("%s%*s", k ? "  " : "", k ? wide : -wide, c->text[r * c->cols + k]);
        }
        printf("\n");
    }
}

#endif
