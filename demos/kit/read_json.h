/* kit/read_json.h - JSON (RFC 8259) that nobody promised: config.json, tokenizer.json, a header

       kit_json doc;
       int layers, heads = 8;                       the default: what the variable holds
       if (!kit_json_load(&doc, "config.json", 0, &why)) ...
       if (!kit_json_int_at(&doc, doc.node, "layers", KIT_NEEDED, 1, 1000, &layers, &why)
           || !kit_json_int_at(&doc, doc.node, "heads", KIT_OPTIONAL, 1, 1000, &heads, &why)) ...
       kit_json_free(&doc);

   The text becomes one flat array of nodes in the order of the text, the outermost value first:

       { "a": [1, 2], "b": true }       object  "a"  list  1  2  "b"  true
                                        span 7       span 3             a node and all inside it

   Whoever wrote the text may mean harm. Beyond what is not JSON, it is refused when it has more
   bytes than allowed, more than KIT_JSON_NODES values, or is nested deeper than KIT_JSON_DEPTH;
   when a key comes twice in an object; when it is not UTF-8 to the letter (overlong forms, halves
   of a surrogate pair, also as \u); when a number is beyond what a double holds. Time is n log n
   at worst.

   Whole numbers are exact from -2^63 to 2^64 - 1. A number is whole by the way it is written: 1000
   is, 1e3 and 1000.0 are not, so that nothing is rounded in silence; 20 digits and more are real.
   Every number can be read as a double, with a point whatever the locale.

   A function that can fail returns 0 and then *why names the file, the line and the column. */
#ifndef KIT_READ_JSON_H
#define KIT_READ_JSON_H

#include "files.h"
#include <math.h>
#include <stdint.h>

enum {
    KIT_JSON_BYTES = 64 << 20,             /* longest text, unless the caller says otherwise      */
    KIT_JSON_NODES = 8 << 20,              /* most values and keys in it                          */
    KIT_JSON_DEPTH = 64,                   /* brackets open at a time                             */
    KIT_JSON_DIGITS = 1200                 /* letters in a number: the longest double needs 1077  */
};

typedef enum kit_json_type {
    KIT_JSON_NULL, KIT_JSON_FALSE, KIT_JSON_TRUE, KIT_JSON_WHOLE, KIT_JSON_REAL, KIT_JSON_TEXT,
    KIT_JSON_LIST, KIT_JSON_OBJECT
} kit_json_type;

typedef struct kit_json_node {
    unsigned char type;                    /* kit_json_type                                       */
    unsigned char minus;                   /* of a whole number                                   */
    uint32_t at;                           /* where it begins in the text                         */
    uint32_t count;                        /* bytes of a text, elements, members                  */
    uint32_t span;                         /* nodes: itself and all inside it                     */
    union {
        uint64_t whole;                    /* without its minus                                   */
        double real;
        const char *text;                  /* ends in a 0 that count does not count               */
        const void **key;                  /* (count) its keys, sorted by kit__json_order         */
    } as;
} kit_json_node;

typedef struct kit_json {
    char name[256];                        /* what messages call it                               */
    const char *text;                      /* the caller's; stays where it is until the end       */
    size_t size;
    kit_json_node *node;                   /* (nodes) node[0] is the outermost value              */
    size_t nodes;
    char *letters;                         /* all texts, decoded                                  */
    const void **keys;                     /* of all objects                                      */
    kit_text own;                          /* the file, when kit_json_load read it                */
} kit_json;

/* ---- messages -------------------------------------------------------------------------------- */

/* Foreign text for a message: what would steer a terminal becomes '?', what is long is cut. */
static inline const char *kit_plain(char *shown, size_t room, const char *text, size_t n)
{
    size_t used = 0;
    for (size_t i = 0; i < n && used + 4 < room; i++) {
        unsigned char c = (unsigned char)text[i];
        shown[used++] = (char)(c < 32 || c > 126 ? '?' : c);
    }
    if (used < n) { memcpy(shown + used, "...", 3); used += 3; }
    shown[used] = 0;
    return shown;
}

/* counted from 1; columns are letters, not bytes */
static inline void kit__json_place(const kit_json *d, size_t at, long *line, long *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < at && i < d->size; i++) {
        unsigned char c = (unsigned char)d->text[i];
        if (c == '\n') { ++*line; *column = 1; }
        else if ((c & 0xC0) != 0x80) ++*column;
    }
}

static inline int kit__json_say(const kit_json *d, size_t at, kit_error *why, const char *format,
                                va_list args)
{
    char said[300];
    long line, column;
    kit__json_place(d, at, &line, &column);
    vsnprintf(said, sizeof said, format, args);
    return kit_fail(why, "%.180s, line %ld, column %ld: %s", d->name, line, column, said);
}

/* Always 0: `return kit_json_fail(doc, node, why, "there are %d of them", n)` */
KIT_FORMAT(4, 5) static inline int kit_json_fail(const kit_json *d, const kit_json_node *n,
                                                 kit_error *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    kit__json_say(d, n->at, why, format, args);
    va_end(args);
    return 0;
}

static inline const char *kit_json_type_name(int type)
{
    static const char *const name[] = { "null", "false", "true", "a whole number", "a number",
                                        "a text", "a list", "an object" };
    return name[type];
}

/* ---- reading: the ground --------------------------------------------------------------------- */

typedef struct kit__json_reader {
    kit_json *doc;
    const char *at, *end;
    char *to;                              /* where the next text goes                            */
    size_t room;                           /* nodes there is memory for                           */
    int depth;
    char point[8];                         /* what strtod takes for one in this locale            */
    kit_error *why;
} kit__json_reader;

static inline int kit__json_value(kit__json_reader *r);

/* Always 0, with a message about the letter at r->at. */
KIT_FORMAT(2, 3) static inline int kit__json_stop(kit__json_reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    kit__json_say(r->doc, (size_t)(r->at - r->doc->text), r->why, format, args);
    va_end(args);
    return 0;
}

static inline int kit__json_expected(kit__json_reader *r, const char *what)
{
    unsigned char c = r->at < r->end ? (unsigned char)*r->at : 0;
    if (r->at == r->end) return kit__json_stop(r, "expected %s, found the end of the text", what);
    if (c > 32 && c < 127) return kit__json_stop(r, "expected %s, found %c", what, c);
    return kit__json_stop(r, "expected %s, found byte 0x%02X", what, c);
}

static inline void kit__json_blank(kit__json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

/* takes c if it is the next letter but for blanks */
static inline int kit__json_takes(kit__json_reader *r, char c)
{
    kit__json_blank(r);
    if (r->at == r->end || *r->at != c) return 0;
    r->at++;
    return 1;
}

/* A new node, or NULL with a message. Earlier nodes may move: keep their numbers, not addresses. */
static inline kit_json_node *kit__json_add(kit__json_reader *r, kit_json_type type)
{
    kit_json *d = r->doc;
    if (d->nodes == KIT_JSON_NODES) {
        kit__json_stop(r, "there are more than %d values and keys", KIT_JSON_NODES);
        return NULL;
    }
    if (d->nodes == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        kit_json_node *more = (kit_json_node *)kit_new(room, sizeof *more);
        if (d->nodes) memcpy(more, d->node, d->nodes * sizeof *more);
        free(d->node);
        d->node = more;
        r->room = room;
    }
    kit_json_node *n = &d->node[d->nodes++];
    n->type = (unsigned char)type;
    n->at = (uint32_t)(r->at - d->text);
    n->span = 1;
    return n;
}

/* ---- reading: texts -------------------------------------------------------------------------- */

/* How many bytes the letter at p takes, of n that are left; 0 if it is not UTF-8. The second byte
   decides what the first cannot: overlong forms, surrogates (ED A0..) and the end at U+10FFFF. */
static inline int kit__utf8_bytes(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    int bytes = u[0] < 0x80 ? 1 : u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : 4;
    if (bytes == 1) return 1;
    if (u[0] < 0xC2 || u[0] > 0xF4 || (size_t)bytes > n) return 0;
    if (u[1] < (u[0] == 0xE0 ? 0xA0 : u[0] == 0xF0 ? 0x90 : 0x80)) return 0;
    if (u[1] > (u[0] == 0xED ? 0x9F : u[0] == 0xF4 ? 0x8F : 0xBF)) return 0;
    for (int i = 2; i < bytes; i++)
        if ((u[i] & 0xC0) != 0x80) return 0;
    return bytes;
}

static inline void kit__utf8_put(char **to, unsigned code)
{
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    unsigned first = more ? (0xFF00u >> (more + 1) & 0xFF) | code >> 6 * more : code;
    *(*to)++ = (char)first;
    while (more--) *(*to)++ = (char)(0x80 | (code >> 6 * more & 63));
}

/* the four digits of \uXXXX */
static inline int kit__json_hex(kit__json_reader *r, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = r->at < r->end ? *r->at : 0;
        int digit = c >= '0' && c <= '9' ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return kit__json_expected(r, "four hexadecimal digits behind \\u");
        *code = *code * 16 + (unsigned)digit;
    }
    return 1;
}

/* \uXXXX behind its u; two of them for what does not fit in 16 bits */
static inline int kit__json_code(kit__json_reader *r, unsigned *code)
{
    unsigned low;
    if (!kit__json_hex(r, code)) return 0;
    if (*code < 0xD800 || *code > 0xDFFF) return 1;
    if (*code > 0xDBFF)
        return kit__json_stop(r, "\\u%04X is the second half of a pair without the first", *code);
    if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
        return kit__json_stop(r, "\\u%04X is the first half of a pair without the second", *code);
    r->at += 2;
    if (!kit__json_hex(r, &low)) return 0;
    if (low < 0xDC00 || low > 0xDFFF)
        return kit__json_stop(r, "\\u%04X and \\u%04X are not a pair", *code, low);
    *code = 0x10000 + ((*code & 0x3FF) << 10) + (low & 0x3FF);
    return 1;
}

/* one escape behind its backslash */
static inline int kit__json_escape(kit__json_reader *r)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found = r->at < r->end && *r->at ? strchr(names, *r->at) : NULL;
    unsigned code;
    if (found) {
        *r->to++ = values[found - names];
        r->at++;
        return 1;
    }
    if (r->at == r->end || *r->at != 'u')
        return kit__json_expected(r, "one of \" \\ / b f n r t u behind \\");
    r->at++;
    if (!kit__json_code(r, &code)) return 0;
    kit__utf8_put(&r->to, code);
    return 1;
}

/* one letter or escape, from r->at to r->to; no letter grows on the way */
static inline int kit__json_letter(kit__json_reader *r)
{
    if (*r->at == '\\') {
        r->at++;
        return kit__json_escape(r);
    }
    if ((unsigned char)*r->at < 32) return kit__json_expected(r, "no control character in a text");
    int bytes = kit__utf8_bytes(r->at, (size_t)(r->end - r->at));
    if (!bytes) return kit__json_expected(r, "UTF-8");
    memcpy(r->to, r->at, (size_t)bytes);
    r->to += bytes;
    r->at += bytes;
    return 1;
}

static inline int kit__json_text(kit__json_reader *r)
{
    kit_json_node *n = kit__json_add(r, KIT_JSON_TEXT);
    if (!n) return 0;
    n->as.text = r->to;
    r->at++;
    while (r->at < r->end && *r->at != '"')
        if (!kit__json_letter(r)) return 0;
    if (r->at == r->end) return kit__json_expected(r, "a quote at the end of a text");
    n->count = (uint32_t)(r->to - n->as.text);
    r->at++;
    *r->to++ = 0;                          /* there is room: the text had quotes around it */
    return 1;
}

/* ---- reading: numbers and words -------------------------------------------------------------- */

static inline int kit__json_digits(kit__json_reader *r)
{
    const char *first = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > first ? 1 : kit__json_expected(r, "a digit");
}

/* The grammar of a number; *whole: it has neither point nor exponent. */
static inline int kit__json_shape(kit__json_reader *r, int *whole)
{
    if (*r->at == '-') r->at++;
    if (r->at < r->end && *r->at == '0') r->at++;              /* 007 ends here, and not as a 7 */
    else if (!kit__json_digits(r)) return 0;
    const char *integer = r->at;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!kit__json_digits(r)) return 0;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!kit__json_digits(r)) return 0;
    }
    *whole = r->at == integer;
    return 1;
}

/* 0 when the digits are more than 64 bits hold */
static inline int kit__json_whole(kit_json_node *n, const char *at, const char *end)
{
    uint64_t x = 0;
    n->minus = *at == '-';
    for (at += n->minus; at < end; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (x > (UINT64_MAX - digit) / 10) return 0;
        x = x * 10 + digit;
    }
    n->as.whole = x;
    return !n->minus || x <= (uint64_t)1 << 63;
}

/* strtod speaks the language of the locale and wants a 0 at the end: it gets a copy. */
static inline double kit__json_real(const kit__json_reader *r, const char *at)
{
    char copy[KIT_JSON_DIGITS + 16];
    size_t used = 0, point = strlen(r->point);
    for (; at < r->at; at++) {
        if (*at != '.') { copy[used++] = *at; continue; }
        memcpy(copy + used, r->point, point);
        used += point;
    }
    copy[used] = 0;
    return strtod(copy, NULL);
}

static inline int kit__json_number(kit__json_reader *r)
{
    kit_json_node *n = kit__json_add(r, KIT_JSON_WHOLE);
    const char *first = r->at;
    int whole;
    if (!n || !kit__json_shape(r, &whole)) return 0;
    if (whole && kit__json_whole(n, first, r->at)) return 1;
    n->type = KIT_JSON_REAL;
    int fits = r->at - first <= KIT_JSON_DIGITS;
    n->as.real = fits ? kit__json_real(r, first) : 0;
    if (fits && isfinite(n->as.real)) return 1;
    r->at = first;
    if (fits) return kit__json_stop(r, "the number is too large for a double");
    return kit__json_stop(r, "a number of more than %d letters", KIT_JSON_DIGITS);
}

static inline int kit__json_word(kit__json_reader *r, kit_json_type type)
{
    const char *word = kit_json_type_name(type);
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return kit__json_expected(r, "a value");
    if (!kit__json_add(r, type)) return 0;
    r->at += n;
    return 1;
}

/* what printf puts between the zeros of 0.0 */
static inline void kit__locale_point(char point[8])
{
    char probe[16];
    snprintf(probe, sizeof probe, "%.1f", 0.0);
    size_t n = strlen(probe) - 2;
    if (n > 7) n = 7;
    memcpy(point, probe + 1, n);
    point[n] = 0;
}

/* ---- reading: what has an inside ------------------------------------------------------------- */

static inline int kit__json_member(kit__json_reader *r)
{
    kit__json_blank(r);
    if (r->at == r->end || *r->at != '"') return kit__json_expected(r, "a key in quotes");
    if (!kit__json_text(r)) return 0;
    if (!kit__json_takes(r, ':')) return kit__json_expected(r, "a colon behind the key");
    return kit__json_value(r);
}

/* a list or an object, at its bracket */
static inline int kit__json_inside(kit__json_reader *r, kit_json_type type)
{
    int object = type == KIT_JSON_OBJECT;
    size_t self = r->doc->nodes;
    if (r->depth == KIT_JSON_DEPTH)
        return kit__json_stop(r, "nested deeper than %d brackets", KIT_JSON_DEPTH);
    if (!kit__json_add(r, type)) return 0;
    r->depth++;
    r->at++;
    if (!kit__json_takes(r, object ? '}' : ']')) {
        do {
            if (!(object ? kit__json_member(r) : kit__json_value(r))) return 0;
            r->doc->node[self].count++;
        } while (kit__json_takes(r, ','));
        if (!kit__json_takes(r, object ? '}' : ']'))
            return kit__json_expected(r, object ? "a comma or }" : "a comma or ]");
    }
    r->depth--;
    r->doc->node[self].span = (uint32_t)(r->doc->nodes - self);
    return 1;
}

/* Calls itself by way of lists and objects, KIT_JSON_DEPTH deep at most. */
static inline int kit__json_value(kit__json_reader *r)
{
    kit__json_blank(r);
    switch (r->at < r->end ? *r->at : 0) {
    case '{': return kit__json_inside(r, KIT_JSON_OBJECT);
    case '[': return kit__json_inside(r, KIT_JSON_LIST);
    case '"': return kit__json_text(r);
    case 'n': return kit__json_word(r, KIT_JSON_NULL);
    case 'f': return kit__json_word(r, KIT_JSON_FALSE);
    case 't': return kit__json_word(r, KIT_JSON_TRUE);
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7':
    case '8': case '9': return kit__json_number(r);
    default: return kit__json_expected(r, "a value");
    }
}

/* ---- keys: sorted, so that finding one is quick and a second of its name is seen ------------- */

typedef int kit_order(const void *, const void *);

/* two sorted pieces from[0..half) and from[half..n) into to */
static inline void kit__merge(const void **to, const void **from, size_t half, size_t n,
                              kit_order *order)
{
    size_t a = 0, b = half;
    for (size_t i = 0; i < n; i++)
        to[i] = b == n || (a < half && order(from[a], from[b]) <= 0) ? from[a++] : from[b++];
}

/* Pieces of 1, 2, 4, ... are merged. qsort might be a quicksort, and an enemy knows which orders
   make one slow. Equal items stay in their order. */
static inline void kit_sort(const void **item, size_t n, kit_order *order)
{
    if (n < 2) return;
    const void **from = item, **to = (const void **)kit_new(n, sizeof *to), **spare = to;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t i = 0; i < n; i += 2 * width) {
            size_t left = n - i, half = width < left ? width : left;
            kit__merge(to + i, from + i, half, 2 * width < left ? 2 * width : left, order);
        }
        const void **kept = from;
        from = to;
        to = kept;
    }
    if (from != item) memcpy(item, from, n * sizeof *item);
    free(spare);
}

/* Shorter ones first: most pairs are told apart without a look at their letters. */
static inline int kit__json_compare(const char *a, size_t n, const char *b, size_t m)
{
    return n != m ? (n < m ? -1 : 1) : n ? memcmp(a, b, n) : 0;
}

static inline int kit__json_order(const void *a, const void *b)
{
    const kit_json_node *x = (const kit_json_node *)a, *y = (const kit_json_node *)b;
    return kit__json_compare(x->as.text, x->count, y->as.text, y->count);
}

static inline int kit__json_sort_keys(kit_json *d, kit_json_node *object, kit_error *why)
{
    const void **key = object->as.key;
    size_t n = 0;
    char shown[64];
    for (kit_json_node *k = object + 1; n < object->count; k += 1 + k[1].span) key[n++] = k;
    kit_sort(key, n, kit__json_order);
    for (size_t i = 1; i < n; i++) {
        const kit_json_node *k = (const kit_json_node *)key[i];
        if (kit__json_order(key[i - 1], key[i]) == 0)
            return kit_json_fail(d, k, why, "the key %s comes twice in its object",
                                 kit_plain(shown, sizeof shown, k->as.text, k->count));
    }
    return 1;
}

/* Only now, when no node moves any more. */
static inline int kit__json_all_keys(kit_json *d, kit_error *why)
{
    size_t total = 0, used = 0;
    for (size_t i = 0; i < d->nodes; i++)
        if (d->node[i].type == KIT_JSON_OBJECT) total += d->node[i].count;
    d->keys = (const void **)kit_new(total, sizeof *d->keys);
    for (size_t i = 0; i < d->nodes; i++) {
        if (d->node[i].type != KIT_JSON_OBJECT) continue;
        d->node[i].as.key = d->keys + used;
        used += d->node[i].count;
        if (!kit__json_sort_keys(d, &d->node[i], why)) return 0;
    }
    return 1;
}

/* ---- documents ------------------------------------------------------------------------------- */

static inline void kit_json_free(kit_json *d)
{
    free(d->node);
    free(d->letters);
    free((void *)d->keys);
    kit_text_free(&d->own);
    memset(d, 0, sizeof *d);
}

static inline int kit__json_read(kit_json *d, kit_error *why)
{
    kit__json_reader r;
    memset(&r, 0, sizeof r);
    r.doc = d;
    r.why = why;
    r.at = d->text;
    r.end = d->text + d->size;
    r.to = d->letters = (char *)kit_new(d->size, 1);     /* decoded texts are not longer */
    kit__locale_point(r.point);
    if (!kit__json_value(&r)) return 0;
    kit__json_blank(&r);
    if (r.at < r.end) return kit__json_expected(&r, "nothing more");
    return kit__json_all_keys(d, why);
}

/* A text of size bytes, which needs no 0 at its end and must stay while the document is in use.
   name is what messages call it; most: bytes it may have, 0 for KIT_JSON_BYTES. */
static inline int kit_json_read(kit_json *d, const char *name, const char *text, size_t size,
                                size_t most, kit_error *why)
{
    memset(d, 0, sizeof *d);
    snprintf(d->name, sizeof d->name, "%.255s", name);
    d->text = size ? text : "";
    d->size = size;
    if (most == 0) most = KIT_JSON_BYTES;
    if (most > UINT32_MAX) most = UINT32_MAX;            /* nodes count in 32 bits */
    if (size > most)
        return kit_fail(why, "%.180s has %zu bytes; at most %zu are read", d->name, size, most);
    if (kit__json_read(d, why)) return 1;
    kit_json_free(d);
    return 0;
}

static inline int kit_json_load(kit_json *d, const char *path, size_t most, kit_error *why)
{
    kit_text own;
    memset(&own, 0, sizeof own);
    memset(d, 0, sizeof *d);
    if (most == 0) most = KIT_JSON_BYTES;
    if (kit_read_file(&own, path, most, why)
        && kit_json_read(d, path, own.data, own.size, most, why)) {
        d->own = own;
        return 1;
    }
    kit_text_free(&own);
    return 0;
}

/* ---- walking ------------------------------------------------------------------------------------
       for (const kit_json_node *n = kit_json_first(list); n; n = kit_json_next(list, n)) ...
   walks the elements of a list, or the keys of an object, in the order of the text; behind each key
   stands its value, kit_json_value(key). */

static inline const kit_json_node *kit_json_value(const kit_json_node *key) { return key + 1; }

static inline const kit_json_node *kit_json_first(const kit_json_node *inside)
{
    return inside->type >= KIT_JSON_LIST && inside->count ? inside + 1 : NULL;
}

static inline const kit_json_node *kit_json_next(const kit_json_node *inside,
                                                 const kit_json_node *n)
{
    n = inside->type == KIT_JSON_OBJECT ? n + 1 + n[1].span : n + n->span;
    return n < inside + inside->span ? n : NULL;
}

/* Element i, NULL if there is none. It counts from the first one: for a long list, walk. */
static inline const kit_json_node *kit_json_element(const kit_json_node *list, size_t i)
{
    if (list->type != KIT_JSON_LIST || i >= list->count) return NULL;
    const kit_json_node *n = list + 1;
    while (i--) n += n->span;
    return n;
}

/* The value under a key of n bytes, NULL if there is none or this is no object. */
static inline const kit_json_node *kit_json_find_bytes(const kit_json_node *object, const char *key,
                                                       size_t n)
{
    size_t low = 0, high = object->type == KIT_JSON_OBJECT ? object->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const kit_json_node *k = (const kit_json_node *)object->as.key[middle];
        int side = kit__json_compare(key, n, k->as.text, k->count);
        if (side == 0) return k + 1;
        if (side < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

static inline const kit_json_node *kit_json_find(const kit_json_node *object, const char *key)
{
    return kit_json_find_bytes(object, key, strlen(key));
}

/* ---- single values: 1 if the node is one ----------------------------------------------------- */

static inline int kit_json_to_u64(const kit_json_node *n, uint64_t *x)
{
    if (n->type != KIT_JSON_WHOLE || (n->minus && n->as.whole)) return 0;
    *x = n->as.whole;
    return 1;
}

static inline int kit_json_to_i64(const kit_json_node *n, int64_t *x)
{
    if (n->type != KIT_JSON_WHOLE || (!n->minus && n->as.whole > INT64_MAX)) return 0;
    *x = !n->minus ? (int64_t)n->as.whole : n->as.whole ? -1 - (int64_t)(n->as.whole - 1) : 0;
    return 1;
}

static inline int kit_json_to_real(const kit_json_node *n, double *x)
{
    if (n->type == KIT_JSON_WHOLE) *x = n->minus ? -(double)n->as.whole : (double)n->as.whole;
    else if (n->type == KIT_JSON_REAL) *x = n->as.real;
    else return 0;
    return 1;
}

/* Not a text with a 0 inside: it would look shorter than it is. */
static inline int kit_json_to_text(const kit_json_node *n, const char **text)
{
    if (n->type != KIT_JSON_TEXT || memchr(n->as.text, 0, n->count)) return 0;
    *text = n->as.text;
    return 1;
}

/* ---- members of an object, by key ---------------------------------------------------------------
   KIT_OPTIONAL: a key that is missing or null leaves *value as it was, its default. Anything else
   that is not what the function is for is an error, and so is a missing key with KIT_NEEDED. */

typedef enum kit_need { KIT_OPTIONAL, KIT_NEEDED } kit_need;

/* NULL: there is nothing to read, and *good tells whether that is well */
static inline const kit_json_node *kit__json_pick(const kit_json *d, const kit_json_node *object,
                                                  const char *key, kit_need need, int *good,
                                                  kit_error *why)
{
    const kit_json_node *found = kit_json_find(object, key);
    *good = object->type == KIT_JSON_OBJECT && (found || need == KIT_OPTIONAL);
    if (object->type != KIT_JSON_OBJECT)
        kit_json_fail(d, object, why, "expected an object with %s, found %s", key,
                      kit_json_type_name(object->type));
    else if (!*good)
        kit_json_fail(d, object, why, "the object has no %s", key);
    return found && found->type == KIT_JSON_NULL && need == KIT_OPTIONAL ? NULL : found;
}

/* a number as it is written, of anything else the kind */
static inline const char *kit__json_shown(char shown[40], const kit_json *d, const kit_json_node *n)
{
    const char *at = d->text + n->at;
    size_t length = 0;
    if (n->type != KIT_JSON_WHOLE && n->type != KIT_JSON_REAL) return kit_json_type_name(n->type);
    while (n->at + length < d->size && at[length] && strchr("+-.0123456789eE", at[length]))
        length++;
    return kit_plain(shown, 40, at, length);
}

static inline int kit_json_int_at(const kit_json *d, const kit_json_node *object, const char *key,
                                  kit_need need, int low, int high, int *value, kit_error *why)
{
    int good;
    const kit_json_node *n = kit__json_pick(d, object, key, need, &good, why);
    char shown[40];
    int64_t x;
    if (!n) return good;
    if (!kit_json_to_i64(n, &x) || x < low || x > high)
        return kit_json_fail(d, n, why, "%s is %s, expected a whole number from %d to %d", key,
                             kit__json_shown(shown, d, n), low, high);
    *value = (int)x;
    return 1;
}

static inline int kit_json_u64_at(const kit_json *d, const kit_json_node *object, const char *key,
                                  kit_need need, uint64_t *value, kit_error *why)
{
    int good;
    const kit_json_node *n = kit__json_pick(d, object, key, need, &good, why);
    char shown[40];
    if (!n) return good;
    if (kit_json_to_u64(n, value)) return 1;
    return kit_json_fail(d, n, why, "%s is %s, expected a whole number from 0 to 2^64 - 1", key,
                         kit__json_shown(shown, d, n));
}

static inline int kit_json_real_at(const kit_json *d, const kit_json_node *object, const char *key,
                                   kit_need need, double low, double high, double *value,
                                   kit_error *why)
{
    int good;
    const kit_json_node *n = kit__json_pick(d, object, key, need, &good, why);
    char shown[40];
    double x;
    if (!n) return good;
    if (!kit_json_to_real(n, &x) || x < low || x > high)
        return kit_json_fail(d, n, why, "%s is %s, expected a number from %g to %g", key,
                             kit__json_shown(shown, d, n), low, high);
    *value = x;
    return 1;
}

/* *value becomes 1 for true, 0 for false */
static inline int kit_json_flag_at(const kit_json *d, const kit_json_node *object, const char *key,
                                   kit_need need, int *value, kit_error *why)
{
    int good;
    const kit_json_node *n = kit__json_pick(d, object, key, need, &good, why);
    char shown[40];
    if (!n) return good;
    if (n->type != KIT_JSON_TRUE && n->type != KIT_JSON_FALSE)
        return kit_json_fail(d, n, why, "%s is %s, expected true or false", key,
                             kit__json_shown(shown, d, n));
    *value = n->type == KIT_JSON_TRUE;
    return 1;
}

/* the text is the document's and goes with it */
static inline int kit_json_text_at(const kit_json *d, const kit_json_node *object, const char *key,
                                   kit_need need, const char **value, kit_error *why)
{
    int good;
    const kit_json_node *n = kit__json_pick(d, object, key, need, &good, why);
    char shown[40];
    if (!n) return good;
    if (kit_json_to_text(n, value)) return 1;
    if (n->type == KIT_JSON_TEXT) return kit_json_fail(d, n, why, "%s has a zero inside", key);
    return kit_json_fail(d, n, why, "%s is %s, expected a text", key, kit__json_shown(shown, d, n));
}

/* type: KIT_JSON_LIST or KIT_JSON_OBJECT */
static inline int kit_json_inside_at(const kit_json *d, const kit_json_node *object,
                                     const char *key, kit_need need, kit_json_type type,
                                     const kit_json_node **value, kit_error *why)
{
    int good;
    const kit_json_node *n = kit__json_pick(d, object, key, need, &good, why);
    char shown[40];
    if (!n) return good;
    if (n->type != type)
        return kit_json_fail(d, n, why, "%s is %s, expected %s", key, kit__json_shown(shown, d, n),
                             kit_json_type_name(type));
    *value = n;
    return 1;
}

#endif
