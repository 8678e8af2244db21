/* lm/probe.h - what a table of positions is like: rank, size, how well a shift of it is linear

   Two small tools of linear algebra (a QR decomposition with column pivoting, least squares) and
   what they say of PE(0), PE(1), .., without a model. Include posenc.h first. */
#ifndef LM_PROBE_H
#define LM_PROBE_H

#include "kit/files.h"
#include "kit/random.h"
#include <float.h>
#include <math.h>

/* ---- rank and least squares ---------------------------------------------------------------------
   Householder reflections that take the longest remaining column first: A P = Q R. */

typedef struct lm_matrix { int rows, cols; double *x; } lm_matrix;     /* column after column */

static inline lm_matrix lm_matrix_new(int rows, int cols)
{
    lm_matrix m = { rows, cols, NULL };
    m.x = (double *)kit_new((size_t)rows * (size_t)cols, sizeof *m.x);
    return m;
}

static inline double *lm_column(const lm_matrix *m, int j)
{
    return m->x + (size_t)j * (size_t)m->rows;
}

static inline double lm__dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* columns k.. from row k on: the longest one moves to k */
static inline void lm__qr_pivot(lm_matrix *a, int *order, int k)
{
    int best = k, n = a->rows - k;
    double longest = -1;
    for (int j = k; j < a->cols; j++) {
        double length = lm__dot(lm_column(a, j) + k, lm_column(a, j) + k, n);
        if (length > longest) { longest = length; best = j; }
    }
    for (int i = 0; best != k && i < a->rows; i++) {
        double kept = lm_column(a, k)[i];
        lm_column(a, k)[i] = lm_column(a, best)[i];
        lm_column(a, best)[i] = kept;
    }
    int kept = order[k];
    order[k] = order[best];
    order[best] = kept;
}

/* x -= 2 v (v'x) / (v'v) for columns from.. of m, rows k.. */
static inline void lm__reflect(lm_matrix *m, int from, const double *v, double size, int k)
{
    for (int j = from; j < m->cols; j++) {
        double *x = lm_column(m, j) + k, share = 2 * lm__dot(v, x, m->rows - k) / size;
        for (int i = 0; i < m->rows - k; i++) x[i] -= share * v[i];
    }
}

/* Turns A into R and B (NULL: none) into Q'B; order says which column stands where. The rank is how
   many diagonal entries stand above eps * max(rows, cols) * the first. */
static inline int lm_qr(lm_matrix *a, lm_matrix *b, int *order, double eps)
{
    int most = a->rows < a->cols ? a->rows : a->cols, rank = 0;
    double first = 0, *v = (double *)kit_new((size_t)a->rows, sizeof *v);
    for (int j = 0; j < a->cols; j++) order[j] = j;
    for (int k = 0; k < most; k++, rank++) {
        int n = a->rows - k;
        lm__qr_pivot(a, order, k);
        double *x = lm_column(a, k) + k, length = sqrt(lm__dot(x, x, n));
        if (k == 0) first = length;
        if (!(length > eps * (a->rows > a->cols ? a->rows : a->cols) * first)) break;
        memcpy(v, x, (size_t)n * sizeof *v);
        v[0] += x[0] < 0 ? -length : length;
        double size = lm__dot(v, v, n);
        lm__reflect(a, k, v, size, k);
        if (b) lm__reflect(b, 0, v, size, k);
    }
    free(v);
    return rank;
}

/* x (cols of a, cols of b): a x = b as nearly as can be, with as few columns of a as its rank. a
   and b are used up. Returns the rank. */
static inline int lm_least_squares(lm_matrix *x, lm_matrix *a, lm_matrix *b, double eps)
{
    int *order = (int *)kit_new((size_t)a->cols, sizeof *order), rank = lm_qr(a, b, order, eps);
    for (int c = 0; c < b->cols; c++)
        for (int i = a->cols - 1; i >= 0; i--) {
            double v = i < rank ? lm_column(b, c)[i] : 0;
            for (int j = i + 1; j < rank && i < rank; j++)
                v -= lm_column(a, j)[i] * lm_column(x, c)[order[j]];
            lm_column(x, c)[order[i]] = i < rank ? v / lm_column(a, i)[i] : 0;
        }
    free(order);
    return rank;
}

/* ---- what a table of positions is like ----------------------------------------------------------
   table (n, C), row after row */

static inline int lm_table_rank(const double *table, int n, int C, double eps)
{
    lm_matrix a = lm_matrix_new(n, C);
    int *order = (int *)kit_new((size_t)C, sizeof *order);
    for (int i = 0; i < n * C; i++) lm_column(&a, i % C)[i / C] = table[i];
    int rank = lm_qr(&a, NULL, order, eps);
    free(order);
    free(a.x);
    return rank;
}

/* a drawn half of the positions is for learning, the other for the test */
static inline int lm__probe_half(int p)
{
    kit_random r = kit_random_open(1, KIT_RANDOM_ORDER, (uint64_t)p);
    return kit_random_below(&r, 2);
}

/* rows p of a half: PE(p) and 1 into a, PE(p + k) into b */
static inline void lm__probe_rows(lm_matrix *a, lm_matrix *b, const double *table, int n, int C,
                                  int k, int half)
{
    int rows = 0, row = 0;
    for (int p = 0; p + k < n; p++) rows += lm__probe_half(p) == half;
    *a = lm_matrix_new(rows, C + 1);
    *b = lm_matrix_new(rows, C);
    for (int p = 0; p + k < n; p++) {
        if (lm__probe_half(p) != half) continue;
        lm_column(a, C)[row] = 1;
        for (int c = 0; c < C; c++) {
            lm_column(a, c)[row] = table[(size_t)p * (size_t)C + (size_t)c];
            lm_column(b, c)[row] = table[(size_t)(p + k) * (size_t)C + (size_t)c];
        }
        row++;
    }
}

/* 1 - (squares left over) / (squares around the mean), of all columns together */
static inline double lm__probe_score(const lm_matrix *x, const lm_matrix *a, const lm_matrix *b)
{
    double left = 0, all = 0;
    for (int c = 0; c < b->cols; c++) {
        double mean = 0;
        for (int i = 0; i < b->rows; i++) mean += lm_column(b, c)[i] / b->rows;
        for (int i = 0; i < b->rows; i++) {
            double got = 0, want = lm_column(b, c)[i];
            for (int j = 0; j < a->cols; j++) got += lm_column(a, j)[i] * lm_column(x, c)[j];
            left += (want - got) * (want - got);
            all += (want - mean) * (want - mean);
        }
    }
    return 1 - left / all;
}

/* How well PE(p + k) is a linear function of PE(p): R^2 on the half that it was not fitted to. */
static inline double lm_shift_r2(const double *table, int n, int C, int k, double eps)
{
    lm_matrix a, b, x = lm_matrix_new(C + 1, C);
    lm__probe_rows(&a, &b, table, n, C, k, 0);
    lm_least_squares(&x, &a, &b, eps);
    free(a.x);
    free(b.x);
    lm__probe_rows(&a, &b, table, n, C, k, 1);
    double r2 = lm__probe_score(&x, &a, &b);
    free(a.x);
    free(b.x);
    free(x.x);
    return r2;
}

/* mean L2 size of the rows */
static inline double lm_table_size(const double *table, int n, int C)
{
    double sum = 0;
    for (int p = 0; p < n; p++)
        sum += sqrt(lm__dot(table + (size_t)p * (size_t)C, table + (size_t)p * (size_t)C, C)) / n;
    return sum;
}

/* how much of that is the same in all rows: the size of the mean row */
static inline double lm_table_constant(const double *table, int n, int C)
{
    double square = 0;
    for (int c = 0; c < C; c++) {
        double mean = 0;
        for (int p = 0; p < n; p++) mean += table[(size_t)p * (size_t)C + (size_t)c] / n;
        square += mean * mean;
    }
    return sqrt(square);
}

/* The table of an encoding that is added and has nothing to learn, as the library computes it; 0
   where it is none of those. table (n, C) */
static inline int lm_spec_table(double *table, const char *spec, int n, int C)
{
    posenc_spec list[POSENC_SPECS];
    posenc_shape shape = { C, 3, C / 3, n, 1 };
    int count = 0;
    size_t room = (size_t)n * (size_t)C;
    if (posenc_spec_parse(list, &count, POSENC_SPECS, spec, NULL) != POSENC_OK || count != 1
        || posenc_spec_complete(list, &shape, NULL) != POSENC_OK)
        return 0;
    const posenc_encoding_info *info = posenc_encoding_get(list[0].encoding);
    if (info->where != POSENC_EMBEDDING || info->learns) return 0;
    size_t scratch = posenc_spec_rows_scratch(list, n, C);
    float *row = (float *)kit_new(room + scratch, sizeof *row);
    posenc_spec_rows_forward(row, row + room, list, NULL, NULL, 1, n, C);
    for (size_t i = 0; i < room; i++) table[i] = (double)row[i];
    free(row);
    return 1;
}

enum { LM_TABLE_SHORT = 128, LM_TABLE_LONG = 1024, LM_SHIFTS = 3, LM_WORDS_C = 96 };
static const int lm_shift[LM_SHIFTS] = { 1, 4, 16 };

typedef struct lm_table_facts {
    int rank[2];                           /* of 128 and of 1,024 positions                       */
    double r2[LM_SHIFTS], size, constant;  /* shifts within 1,024; sizes within 128               */
} lm_table_facts;

static inline int lm_table_measure(lm_table_facts *t, const char *spec)
{
    size_t room = (size_t)LM_TABLE_LONG * LM_WORDS_C;
    double *table = (double *)kit_new(room, sizeof *table);
    int good = lm_spec_table(table, spec, LM_TABLE_LONG, LM_WORDS_C);
    if (good) {
        t->rank[0] = lm_table_rank(table, LM_TABLE_SHORT, LM_WORDS_C, FLT_EPSILON);
        t->rank[1] = lm_table_rank(table, LM_TABLE_LONG, LM_WORDS_C, FLT_EPSILON);
        for (int i = 0; i < LM_SHIFTS; i++)
            t->r2[i] = lm_shift_r2(table, LM_TABLE_LONG, LM_WORDS_C, lm_shift[i], FLT_EPSILON);
        t->size = lm_table_size(table, LM_TABLE_SHORT, LM_WORDS_C);
        t->constant = lm_table_constant(table, LM_TABLE_SHORT, LM_WORDS_C);
    }
    free(table);
    return good;
}

#endif
