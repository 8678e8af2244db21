/* kit/report.h - one story, told twice: report.html and report.md

   The page is a single file without scripts or links to elsewhere: pictures are inside it, it
   follows the reader's light or dark setting and reads on a phone (wide tables and pictures scroll
   by themselves, the page never does). The Markdown has the same words and points to the files
   beside it.

   In texts `like this` is code and **like this** is strong, in both. */
#ifndef KIT_REPORT_H
#define KIT_REPORT_H

#include "files.h"
#include "svg.h"                           /* kit_put_escaped */
#include <ctype.h>

typedef struct kit_report { kit_text html, md; } kit_report;

typedef struct kit_table {
    const char *const *head;               /* (cols)                                              */
    const char *const *cell;               /* (rows, cols)                                        */
    int rows, cols;
    int bar_column;                        /* draws a bar behind the numbers of a column; 0: none */
    const double *bar;                     /* (rows) its length, 0..1                             */
} kit_table;

/* 602115 as 602,115 */
static inline void kit_say_count(char text[32], size_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%zu", n), used = 0;
    for (int i = 0; i < length && used < 30; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The two marks of Markdown we use become tags; everything else is escaped. */
static inline void kit__report_inline(kit_text *t, const char *s)
{
    int code = 0, strong = 0;
    for (; *s; s++) {
        char one[2] = { *s, 0 };
        if (*s == '`') {
            kit_put_string(t, code ? "</code>" : "<code>");
            code = !code;
        } else if (!code && s[0] == '*' && s[1] == '*') {
            kit_put_string(t, strong ? "</strong>" : "<strong>");
            strong = !strong;
            s++;
        } else {
            kit_put_escaped(t, one);
        }
    }
}

static inline void kit_report_begin(kit_report *r, const char *title)
{
    memset(r, 0, sizeof *r);
    kit_put_string(&r->html,
                   "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" "
                   "href=\"data:,\">\n<title>");
    kit_put_escaped(&r->html, title);
    kit_put_string(
        &r->html,
        "</title>\n<style>\n"
        ":root{--paper:#fff;--ink:#24292f;--soft:#57606a;--line:#d8dde3;--shade:#f4f6f8;--bar:#"
        "cfe3f8}\n"
        "@media (prefers-color-scheme:dark){:root{--paper:#16191d;--ink:#e3e6ea;--soft:#9aa2ab;"
        "--line:#343b44;--shade:#20252b;--bar:#1f4468}}\n"
        "body{margin:0;background:var(--paper);color:var(--ink);font:17px/1.55 "
        "system-ui,sans-serif}\n"
        "main{max-width:52rem;margin:0 auto;padding:1rem 1rem 4rem}\n"
        "h1{font-size:1.7rem;line-height:1.2;margin:1.2rem 0 "
        ".6rem}h2{font-size:1.25rem;margin:2.2rem 0 .6rem}\n"
        "p{margin:.7rem 0}code{font:.9em "
        "ui-monospace,monospace;background:var(--shade);padding:.1em .3em;"
        "border-radius:4px;overflow-wrap:anywhere}\n"
        "pre{background:var(--shade);padding:.8rem;border-radius:8px;white-space:pre-wrap}pre "
        "code{padding:0}\n"
        ".wide{overflow-x:auto;margin:1rem "
        "0}table{border-collapse:collapse;font-size:.95rem;min-width:100%}\n"
        "th,td{padding:.4rem .7rem;border-bottom:1px solid "
        "var(--line);text-align:left;white-space:nowrap}\n"
        "td.l{white-space:normal;min-width:9rem}th{color:var(--soft);font-weight:600;white-"
        "space:normal;vertical-align:bottom}.n{text-align:right;"
        "font-variant-numeric:tabular-nums}\n"
        "figure{margin:1.4rem 0}figcaption{color:var(--soft);font-size:.93rem;margin-top:.4rem}\n"
        "figure img{display:block;background:#fff;border:1px solid "
        "var(--line);border-radius:8px;box-sizing:border-box;max-width:100%}\n"
        "@media (max-width:46rem){figure img{max-width:none;width:46rem}}\n"
        "@media (prefers-color-scheme:dark){figure img{filter:brightness(.9)}}\n"
        "summary{cursor:pointer;color:var(--soft);padding:.3rem 0}\n"
        "</style>\n<main>\n<h1>");
    kit_put_escaped(&r->html, title);
    kit_put_string(&r->html, "</h1>\n");
    kit_put(&r->md, "# %s\n\n", title);
}

static inline void kit_report_heading(kit_report *r, const char *text)
{
    kit_put_string(&r->html, "<h2>");
    kit_put_escaped(&r->html, text);
    kit_put_string(&r->html, "</h2>\n");
    kit_put(&r->md, "## %s\n\n", text);
}

KIT_FORMAT(2, 3) static inline void kit_report_text(kit_report *r, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    kit_put_string(&r->html, "<p>");
    kit__report_inline(&r->html, text);
    kit_put_string(&r->html, "</p>\n");
    kit_put(&r->md, "%s\n\n", text);
}

static inline void kit_report_code(kit_report *r, const char *text)
{
    kit_put_string(&r->html, "<pre><code>");
    kit_put_escaped(&r->html, text);
    kit_put_string(&r->html, "</code></pre>\n");
    kit_put(&r->md, "```\n%s\n```\n\n", text);
}

/* What follows until kit_report_unfold is shown when the reader asks for it. */
static inline void kit_report_fold(kit_report *r, const char *summary)
{
    kit_put_string(&r->html, "<details><summary>");
    kit_put_escaped(&r->html, summary);
    kit_put_string(&r->html, "</summary>\n");
}

static inline void kit_report_unfold(kit_report *r) { kit_put_string(&r->html, "</details>\n"); }

/* ---- tables ---------------------------------------------------------------------------------- */

static inline int kit__numeric(const char *s)
{
    if (*s == '-' || *s == '+') s++;
    return isdigit((unsigned char)*s) || *s == 0;
}

/* A column of numbers is set flush right, its heading too. */
static inline int kit__numeric_column(const kit_table *t, int c)
{
    for (int r = 0; r < t->rows; r++)
        if (!kit__numeric(t->cell[r * t->cols + c])) return 0;
    return t->rows > 0;
}

static inline void kit__report_cell(kit_report *r, const kit_table *t, int row, int col)
{
    const char *text = t->cell[row * t->cols + col];
    const char *kind = kit__numeric_column(t, col) ? " class=\"n\"" : "";
    if (!*kind && strlen(text) > 24) kind = " class=\"l\"";            /* long: may wrap */
    kit_put(&r->html, "<td%s", kind);
    if (t->bar && col == t->bar_column && col > 0) {
        double share = 100 * (t->bar[row] > 0 ? t->bar[row] < 1 ? t->bar[row] : 1 : 0);
        kit_put(
            &r->html,
            " style=\"background:linear-gradient(to right,var(--bar) %.1f%%,transparent %.1f%%)\"",
            share, share);
    }
    kit_put_string(&r->html, ">");
    kit__report_inline(&r->html, text);
    kit_put_string(&r->html, "</td>");
    kit_put_string(&r->md, "| ");
    for (; *text; text++) kit_put(&r->md, "%s%c", *text == '|' ? "\\" : "", *text);
    kit_put_string(&r->md, col == t->cols - 1 ? " |\n" : " ");
}

static inline void kit_report_table(kit_report *r, const kit_table *t)
{
    kit_put_string(&r->html, "<div class=\"wide\"><table>\n<tr>");
    for (int c = 0; c < t->cols; c++) {
        kit_put(&r->html, "<th%s>", kit__numeric_column(t, c) ? " class=\"n\"" : "");
        kit_put_escaped(&r->html, t->head[c]);
        kit_put_string(&r->html, "</th>");
        kit_put(&r->md, "| %s ", t->head[c]);
    }
    kit_put_string(&r->html, "</tr>\n");
    kit_put_string(&r->md, "|\n");
    for (int c = 0; c < t->cols; c++)
        kit_put_string(&r->md, kit__numeric_column(t, c) ? "|---:" : "|---");
    kit_put_string(&r->md, "|\n");
    for (int row = 0; row < t->rows; row++) {
        kit_put_string(&r->html, "<tr>");
        for (int c = 0; c < t->cols; c++) kit__report_cell(r, t, row, c);
        kit_put_string(&r->html, "</tr>\n");
    }
    kit_put_string(&r->html, "</table></div>\n");
    kit_put_string(&r->md, "\n");
}

/* ---- pictures -------------------------------------------------------------------------------- */

static inline void kit_put_base64(kit_text *t, const void *bytes, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i += 3) {
        unsigned long v = (unsigned long)b[i] << 16;
        char four[4];
        if (i + 1 < n) v |= (unsigned long)b[i + 1] << 8;
        if (i + 2 < n) v |= b[i + 2];
        for (int k = 0; k < 4; k++) four[k] = digit[v >> (18 - 6 * k) & 63];
        if (i + 1 >= n) four[2] = '=';
        if (i + 2 >= n) four[3] = '=';
        kit_put_bytes(t, four, 4);
    }
}

static inline void kit__report_caption(kit_report *r, const char *file, const char *alt,
                                       const char *caption)
{
    if (*caption) {
        kit_put_string(&r->html, "<figcaption>");
        kit__report_inline(&r->html, caption);
        kit_put_string(&r->html, "</figcaption>");
    }
    kit_put_string(&r->html, "</figure>\n");
    kit_put(&r->md, "![%s](%s)\n\n%s%s", alt, file, caption, *caption ? "\n\n" : "");
}

/* file: the same picture beside the report, for the Markdown. alt: what it shows, for those who
   cannot see it. */
static inline void kit_report_svg(kit_report *r, const kit_text *svg, const char *file,
                                  const char *alt, const char *caption)
{
    kit_put_string(&r->html, "<figure>");
    kit_put_bytes(&r->html, svg->data, svg->size);
    kit__report_caption(r, file, alt, caption);
}

static inline void kit_report_png(kit_report *r, const kit_text *png, const char *file,
                                  const char *alt, const char *caption)
{
    kit_put_string(&r->html, "<figure><div class=\"wide\"><img alt=\"");
    kit_put_escaped(&r->html, alt);
    kit_put_string(&r->html, "\" src=\"data:image/png;base64,");
    kit_put_base64(&r->html, png->data, png->size);
    kit_put_string(&r->html, "\"></div>");
    kit__report_caption(r, file, alt, caption);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Writes folder/report.html and folder/report.md and gives the memory back. */
static inline int kit_report_save(kit_report *r, const char *folder, kit_error *why)
{
    kit_put_string(&r->html, "</main>\n</html>\n");
    int done = kit_save_in(folder, "report.md", &r->md, why)
               && kit_save_in(folder, "report.html", &r->html, why);
    kit_text_free(&r->html);
    kit_text_free(&r->md);
    return done;
}

#endif
