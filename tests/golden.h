/* Reads the golden files: safetensors, as tests/golden/make_golden.py writes them. It is a second, much
   smaller reader than the library's own, so that a fault there cannot hide itself here.
   Include it after posenc.h; the comparisons at the end need check.h in front of it as well.

       golden_open(&file, "tests/golden/layers.safetensors");
       const posenc_float *x = golden_numbers(&file, "linear.x");
       ASSERT_GOLDEN(&file, "linear.y", y, n, 1e-5);

   A tensor that is not there reads as NaN (or 0 for whole numbers) and is remembered: every later
   ASSERT_GOLDEN of that file fails and names it.                                                   */
#ifndef POSENC_TESTS_GOLDEN_H
#define POSENC_TESTS_GOLDEN_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOLDEN_TENSORS = 4096, GOLDEN_MISSING_ROOM = 8192 };

typedef struct golden_tensor {
    char name[64], kind[8];                 /* kind: F32, F64, I32 or U8                             */
    int dims, shape[4];
    size_t count;
    const unsigned char *raw;
    posenc_float *numbers;                  /* converted on demand, freed with the file              */
    double *exact;
    int *whole;
} golden_tensor;

typedef struct golden_file {
    const char *path;
    unsigned char *bytes;
    golden_tensor list[GOLDEN_TENSORS];
    int count;
    char wrong[200];                        /* what was asked for and not found; "" when all is well  */
} golden_file;

/* ---- opening ----------------------------------------------------------------------------------- */

static inline uint64_t golden_little(const unsigned char *p, int n)
{
    uint64_t x = 0;
    for (int i = n - 1; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

/* "text" at *at into out; *at moves behind it. 0: there is none */
static inline int golden_word(const char **at, char *out, size_t room)
{
    size_t n = 0;
    if (**at != '"') return 0;
    for (++*at; **at && **at != '"'; ++*at) if (n + 1 < room) out[n++] = **at;
    out[n] = 0;
    return *(*at)++ == '"';
}

/* {"name":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}, ...}, without blanks inside */
static inline int golden_parse(golden_file *f, const char *at, const unsigned char *data, size_t bytes)
{
    if (*at++ != '{') return 0;
    while (*at == '"') {
        golden_tensor *t = &f->list[f->count];
        unsigned long from, to, size;
        char key[16];
        if (f->count == GOLDEN_TENSORS) return 0;
        if (!golden_word(&at, t->name, sizeof t->name) || strncmp(at, ":{", 2)) return 0;
        at += 2;
        if (!golden_word(&at, key, sizeof key) || strcmp(key, "dtype") || *at++ != ':') return 0;
        if (!golden_word(&at, t->kind, sizeof t->kind) || strncmp(at, ",\"shape\":[", 10)) return 0;
        at += 10;
        t->count = 1;
        while (*at != ']') {
            char *end;
            if (t->dims == 4) return 0;
            t->shape[t->dims] = (int)strtol(at, &end, 10);
            if (end == at) return 0;
            t->count *= (size_t)t->shape[t->dims++];
            at = *end == ',' ? end + 1 : end;
        }
        if (sscanf(at, "],\"data_offsets\":[%lu,%lu]}", &from, &to) != 2) return 0;
        size = !strcmp(t->kind, "F64") ? 8 : !strcmp(t->kind, "U8") ? 1
             : !strcmp(t->kind, "F32") || !strcmp(t->kind, "I32") ? 4 : 0;
        if (to < from || to > bytes || to - from != size * t->count || size == 0) return 0;
        t->raw = data + from;
        f->count++;
        at = strchr(at, '}') + 1;
        if (*at == ',') at++;
    }
    return *at == '}' && f->count > 0;
}

static inline int golden_open(golden_file *f, const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = 0;
    uint64_t header = 0;
    char *text;
    int good = 0;
    memset(f, 0, sizeof *f);
    f->path = path;
    if (!file) {
        snprintf(f->wrong, sizeof f->wrong, "%s cannot be opened: run from the top folder, or make golden",
                 path);
        return 0;
    }
    if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) > 8 && !fseek(file, 0, SEEK_SET)
        && (f->bytes = (unsigned char *)malloc((size_t)size)) != NULL)
        good = fread(f->bytes, 1, (size_t)size, file) == (size_t)size;
    fclose(file);
    if (good) {
        header = golden_little(f->bytes, 8);
        good = header <= (uint64_t)size - 8 && (text = (char *)malloc((size_t)header + 1)) != NULL;
    }
    if (good) {
        memcpy(text, f->bytes + 8, (size_t)header);
        text[header] = 0;
        good = golden_parse(f, text, f->bytes + 8 + header, (size_t)((uint64_t)size - 8 - header));
        free(text);
    }
    if (!good) snprintf(f->wrong, sizeof f->wrong, "%s is damaged: make golden writes it again", path);
    return good;
}

static inline void golden_close(golden_file *f)
{
    for (int i = 0; i < f->count; i++) {
        free(f->list[i].numbers);
        free(f->list[i].exact);
        free(f->list[i].whole);
    }
    free(f->bytes);
    memset(f, 0, sizeof *f);
}

/* ---- reading ----------------------------------------------------------------------------------- */

/* NULL when there is none, which is allowed */
static inline golden_tensor *golden_find(golden_file *f, const char *name)
{
    for (int i = 0; i < f->count; i++) if (!strcmp(f->list[i].name, name)) return &f->list[i];
    return NULL;
}

/* the same where it is a fault */
static inline golden_tensor *golden_need(golden_file *f, const char *name)
{
    golden_tensor *t = golden_find(f, name);
    if (!t && !f->wrong[0]) snprintf(f->wrong, sizeof f->wrong, "%s has no %s", f->path, name);
    return t;
}

static inline double golden_at(const golden_tensor *t, size_t i)
{
    if (!strcmp(t->kind, "U8")) return t->raw[i];
    if (!strcmp(t->kind, "F64")) {
        uint64_t bits = golden_little(t->raw + 8 * i, 8);
        double x;
        memcpy(&x, &bits, 8);
        return x;
    } else {
        uint32_t bits = (uint32_t)golden_little(t->raw + 4 * i, 4);
        float x;
        int32_t n;
        memcpy(&x, &bits, 4);
        memcpy(&n, &bits, 4);
        return !strcmp(t->kind, "F32") ? (double)x : (double)n;
    }
}

static inline const posenc_float *golden_numbers(golden_file *f, const char *name)
{
    static posenc_float nothing[GOLDEN_MISSING_ROOM];
    golden_tensor *t = golden_need(f, name);
    if (t && !t->numbers
        && (t->numbers = (posenc_float *)malloc((t->count + 1) * sizeof *t->numbers)) != NULL)
        for (size_t i = 0; i < t->count; i++) t->numbers[i] = (posenc_float)golden_at(t, i);
    if (t && t->numbers) return t->numbers;
    for (int i = 0; i < GOLDEN_MISSING_ROOM; i++) nothing[i] = (posenc_float)NAN;
    return nothing;
}

static inline const double *golden_exact(golden_file *f, const char *name)
{
    static double nothing[GOLDEN_MISSING_ROOM];
    golden_tensor *t = golden_need(f, name);
    if (t && !t->exact && (t->exact = (double *)malloc((t->count + 1) * sizeof *t->exact)) != NULL)
        for (size_t i = 0; i < t->count; i++) t->exact[i] = golden_at(t, i);
    if (t && t->exact) return t->exact;
    for (int i = 0; i < GOLDEN_MISSING_ROOM; i++) nothing[i] = NAN;
    return nothing;
}

static inline const int *golden_whole(golden_file *f, const char *name)
{
    static int nothing[GOLDEN_MISSING_ROOM];
    golden_tensor *t = golden_need(f, name);
    if (t && !t->whole && (t->whole = (int *)malloc((t->count + 1) * sizeof *t->whole)) != NULL)
        for (size_t i = 0; i < t->count; i++) t->whole[i] = (int)golden_at(t, i);
    return t && t->whole ? t->whole : nothing;
}

/* U8 as it lies in the file: masks */
static inline const unsigned char *golden_bytes(golden_file *f, const char *name)
{
    static const unsigned char nothing[GOLDEN_MISSING_ROOM];
    golden_tensor *t = golden_need(f, name);
    return t && !strcmp(t->kind, "U8") ? t->raw : nothing;
}

/* size along a dimension, 1 when the tensor is missing */
static inline int golden_size(golden_file *f, const char *name, int dimension)
{
    golden_tensor *t = golden_need(f, name);
    return t && dimension < t->dims ? t->shape[dimension] : 1;
}

#ifdef POSENC_TESTS_CHECK_H
/* ---- comparing -----------------------------------------------------------------------------------
   Row by row: |difference| <= tolerance * max(largest |expected| of that row, floor). A row is the whole
   tensor for ASSERT_GOLDEN, the last dimension for ASSERT_GOLDEN_ROWS and one number for
   ASSERT_GOLDEN_EACH, so that a large number elsewhere cannot soften the comparison. With floor 0 a row
   that should be zero must be exactly zero.                                                        */

enum { GOLDEN_WHOLE, GOLDEN_ROWS, GOLDEN_EACH };

static inline int golden_close_to(golden_file *f, const char *name, const posenc_float *got, size_t n,
                                  double tolerance, double floor, int by)
{
    golden_tensor *t = golden_need(f, name);
    const posenc_float *expected = golden_numbers(f, name);
    size_t row = by == GOLDEN_EACH ? 1 : by == GOLDEN_ROWS && t ? (size_t)t->shape[t->dims - 1] : n;
    if (f->wrong[0]) { snprintf(check_text, sizeof check_text, "%s", f->wrong); return 0; }
    if (t->count != n || n == 0) {
        snprintf(check_text, sizeof check_text, "%s: %lu numbers in the file, %lu to compare", name,
                 (unsigned long)t->count, (unsigned long)n);
        return 0;
    }
    for (size_t first = 0; first < n; first += row) {
        double scale = floor, worst;
        size_t at;
        for (size_t i = 0; i < row; i++) {
            double size = fabs((double)expected[first + i]);
            if (size > scale) scale = size;
        }
        worst = max_abs_diff_at(expected + first, got + first, row, &at);
        if (worst <= tolerance * scale) continue;
        at += first;
        snprintf(check_text, sizeof check_text, "%s: [%lu of %lu] expected %.9g, got %.9g, difference %.3g"
                 " above %.3g", name, (unsigned long)at, (unsigned long)n, (double)expected[at],
                 (double)got[at], worst, tolerance * scale);
        return 0;
    }
    return 1;
}
#define ASSERT_GOLDEN(FILE_, NAME, GOT, N, TOL) \
    ASSERTm(check_text, golden_close_to(FILE_, NAME, GOT, N, TOL, 0.0, GOLDEN_WHOLE))
#define ASSERT_GOLDEN_FLOOR(FILE_, NAME, GOT, N, TOL, FLOOR) \
    ASSERTm(check_text, golden_close_to(FILE_, NAME, GOT, N, TOL, FLOOR, GOLDEN_WHOLE))
#define ASSERT_GOLDEN_ROWS(FILE_, NAME, GOT, N, TOL) \
    ASSERTm(check_text, golden_close_to(FILE_, NAME, GOT, N, TOL, 0.0, GOLDEN_ROWS))
#define ASSERT_GOLDEN_EACH(FILE_, NAME, GOT, N, TOL, FLOOR) \
    ASSERTm(check_text, golden_close_to(FILE_, NAME, GOT, N, TOL, FLOOR, GOLDEN_EACH))
#endif
#endif
