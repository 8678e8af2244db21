/* Runs the cases of tests/golden/catalogue.safetensors, made by tests/golden/oracle_catalogue.py,
   through the calls of door one that take a spec [2.5.1]. Include it after posenc.h. It needs no
   test framework, so that a program can prove its own numbers with it:

       static golden_file file;                               (it is large)
       char name[CATALOGUE_NAME];
       catalogue_result r;
       golden_open(&file, "tests/golden/catalogue.safetensors");
       for (int i = 0; catalogue_case(name, &file, i); i++)
           if (!catalogue_run(&r, &file, name)) printf("%s: %s\n", name, r.wrong);
       golden_close(&file);

   What is held against what. The law of tolerances is 2e-7 * max(1, angle) + 1e-6, where the angle
   p * w counts only for an oracle that rounds it to single precision. These oracles do not, and
   neither does the library: a far position is no excuse here, and CATALOGUE_LAW = 1.2e-6 holds
   everywhere.
     values       |difference| <= law * max(1, |expected|), number by number
     gradients    |difference| <= law * largest |expected| of the tensor; all zero must be all zero
     frequencies, magnitude, places     |difference| <= 1e-6 * |expected|, number by number
   NaN and infinity are infinitely far from everything. A case may say which layer it is about: what
   the caller does then (nope_every, every) is done here.                                         */
#ifndef POSENC_TESTS_CATALOGUE_H
#define POSENC_TESTS_CATALOGUE_H
#include "golden.h"
#include <float.h>
#include <stdarg.h>

#define CATALOGUE_LAW 1.2e-6
enum { CATALOGUE_NAME = 48, CATALOGUE_BLOCKS = 64 };

typedef struct catalogue_result {
    int encoding;                       /* its row in POSENC_ENCODINGS; -1: the spec is refused   */
    char spec[POSENC_SPEC_TEXT];
    char oracle[256];                   /* where the expected numbers are from                    */
    double error;                       /* largest |difference| of all outputs                    */
    double tolerance;                   /* the law above                                          */
    double ratio;                       /* largest |difference| / what is allowed: good up to 1   */
    size_t compared;                    /* numbers                                                */
    char wrong[400];                    /* "" when all is well                                    */
} catalogue_result;

/* ---- one case at work ------------------------------------------------------------------------ */

typedef struct catalogue_work {
    golden_file *file;
    const char *name;                       /* of the case                                        */
    catalogue_result *result;
    posenc_spec spec;
    posenc_shape shape;
    posenc_part part[POSENC_PARTS];
    int parts, T, given;                    /* tokens, and numbers in the file for each of them   */
    double *pos, *at, length;               /* (T,given), (T,axes)                                */
    posenc_float *w[POSENC_PARTS], *dw[POSENC_PARTS];
    int broken;                             /* the case cannot be run, whatever its numbers       */
    void *block[CATALOGUE_BLOCKS];
    int blocks;
} catalogue_work;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline void catalogue_fail(catalogue_work *k, const char *format, ...)
{
    va_list arguments;
    if (k->broken++) return;                                      /* the first reason is the one  */
    va_start(arguments, format);
    vsnprintf(k->result->wrong, sizeof k->result->wrong, format, arguments);
    va_end(arguments);
}

/* zeros, returned at the end of the case; never NULL */
static inline void *catalogue_take(catalogue_work *k, size_t bytes)
{
    void *block = k->blocks < CATALOGUE_BLOCKS ? calloc(bytes ? bytes : 1, 1) : NULL;
    if (!block) { fprintf(stderr, "no memory for a golden case\n"); exit(EXIT_FAILURE); }
    return k->block[k->blocks++] = block;
}
static inline posenc_float *catalogue_zeros(catalogue_work *k, size_t n)
{
    return (posenc_float *)catalogue_take(k, n * sizeof(posenc_float));
}
/* room for results: NaN, so that a number nobody writes fails */
static inline posenc_float *catalogue_blank(catalogue_work *k, size_t n)
{
    posenc_float *x = catalogue_zeros(k, n);
    for (size_t i = 0; i < n; i++) x[i] = (posenc_float)NAN;
    return x;
}

/* tensor "<case>.<what>", or NULL */
static inline golden_tensor *catalogue_find(catalogue_work *k, const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", k->name, what);
    return golden_find(k->file, name);
}
/* the same with n numbers; anything else is a fault of the case */
static inline golden_tensor *catalogue_need(catalogue_work *k, const char *what, size_t n)
{
    golden_tensor *t = catalogue_find(k, what);
    if (!t) catalogue_fail(k, "%s has no %s.%s", k->file->path, k->name, what);
    else if (t->count != n)
        catalogue_fail(k, "%s.%s has %lu numbers in the file, and %lu here", k->name, what,
                       (unsigned long)t->count, (unsigned long)n);
    return t && t->count == n ? t : NULL;
}
/* a copy of it; NaN when it is missing */
static inline posenc_float *catalogue_copy(catalogue_work *k, const char *what, size_t n)
{
    golden_tensor *t = catalogue_need(k, what, n);
    posenc_float *x = catalogue_blank(k, n);
    for (size_t i = 0; t && i < n; i++) x[i] = (posenc_float)golden_at(t, i);
    return x;
}
/* a single number, or the other one when the file has none */
static inline double catalogue_number(catalogue_work *k, const char *what, double otherwise)
{
    golden_tensor *t = catalogue_find(k, what);
    return t && t->count == 1 ? golden_at(t, 0) : otherwise;
}
static inline void catalogue_text(catalogue_work *k, char *text, size_t room, const char *what)
{
    golden_tensor *t = catalogue_find(k, what);
    size_t n = t ? t->count : 0;
    if (!t || strcmp(t->kind, "U8")) catalogue_fail(k, "%s has no text %s", k->name, what);
    else if (n >= room) catalogue_fail(k, "%s.%s is too long a text", k->name, what);
    if (!t || strcmp(t->kind, "U8") || n >= room) n = 0;
    if (n) memcpy(text, t->raw, n);
    text[n] = 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

enum { CATALOGUE_VALUE, CATALOGUE_GRADIENT, CATALOGUE_EXACT };

/* one number against one number: keeps the worst, and words for it */
static inline void catalogue_one(catalogue_work *k, const char *what, size_t i, double expected,
                                 double got, double allowed)
{
    catalogue_result *r = k->result;
    double off = fabs(got - expected), ratio;
    if (!(off <= DBL_MAX)) off = HUGE_VAL;
    ratio = off == 0.0 ? 0.0 : off / allowed;                         /* allowed 0: infinity      */
    if (!(ratio <= DBL_MAX)) ratio = HUGE_VAL;
    if (off > r->error) r->error = off;
    r->compared++;
    if (ratio <= r->ratio) return;
    r->ratio = ratio;
    if (ratio > 1.0 && !k->broken)
        snprintf(r->wrong, sizeof r->wrong, "%s.%s: [%lu] expected %.9g, got %.9g, difference %.3g,"
                 " allowed %.3g", k->name, what, (unsigned long)i, expected, got, off, allowed);
}

static inline void catalogue_compare(catalogue_work *k, const char *what, const posenc_float *got,
                                     size_t n, int kind)
{
    golden_tensor *t = catalogue_need(k, what, n);
    double largest = 0.0, law = k->result->tolerance;
    if (!t) return;
    if (n == 0) { catalogue_fail(k, "%s.%s is empty", k->name, what); return; }
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(golden_at(t, i)));
    for (size_t i = 0; i < n; i++) {
        double expected = golden_at(t, i);
        double size = kind == CATALOGUE_VALUE ? fmax(1.0, fabs(expected)) : largest;
        catalogue_one(k, what, i, expected, (double)got[i], law * size);
    }
}
static inline void catalogue_compare_exact(catalogue_work *k, const char *what, const double *got,
                                           size_t n)
{
    golden_tensor *t = catalogue_need(k, what, n);
    for (size_t i = 0; t && i < n; i++)
        catalogue_one(k, what, i, golden_at(t, i), got[i], 1e-6 * fabs(golden_at(t, i)));
}
/* the gradients of everything that is trained */
static inline void catalogue_compare_parameters(catalogue_work *k)
{
    for (int i = 0; i < k->parts; i++) {
        const posenc_part *p = &k->part[i];
        char what[64];
        snprintf(what, sizeof what, "dw.%s", p->name);
        if (p->fixed) {
            if (catalogue_find(k, what)) catalogue_fail(k, "%s is never trained", p->name);
        } else
            catalogue_compare(k, what, k->dw[i], (size_t)p->rows * (p->columns ? p->columns : 1),
                              CATALOGUE_GRADIENT);
    }
}

/* the largest of n numbers, whatever their sign */
static inline double catalogue_largest(const double *x, size_t n)
{
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(x[i]));
    return largest;
}

/* the tokens' positions, and the coordinates that the encoding reads of them */
static inline int catalogue_positions(catalogue_work *k)
{
    golden_tensor *t = catalogue_find(k, "pos");
    posenc_error why;
    if (!t || t->dims < 1 || t->dims > 2) {
        catalogue_fail(k, "%s has no pos", k->name);
        return 0;
    }
    k->T = t->shape[0];
    k->given = t->dims == 2 ? t->shape[1] : 1;
    k->pos = (double *)catalogue_take(k, t->count * sizeof *k->pos);
    k->at  = (double *)catalogue_take(k, (size_t)k->T * POSENC_AXES * sizeof *k->at);
    for (size_t i = 0; i < t->count; i++) k->pos[i] = golden_at(t, i);
    k->length = catalogue_number(k, "length", catalogue_largest(k->pos, t->count) + 1.0);
    posenc_spec_coordinates(k->at, &k->spec, k->pos, k->given, k->T);
    if (posenc_spec_check_positions(&k->spec, k->at, k->T, &why) != POSENC_OK)
        catalogue_fail(k, "%s: its positions are refused: %.300s", k->name, why.text);
    return !k->broken;
}

/* ---- the three places where position enters -------------------------------------------------- */

static inline void catalogue_rows(catalogue_work *k)
{
    int T = k->T, C = k->shape.C;
    size_t n = (size_t)T * C;
    posenc_float *x = catalogue_zeros(k, n), *drows = catalogue_copy(k, "drows", n);
    posenc_float *scratch = catalogue_blank(k, posenc_spec_rows_scratch(&k->spec, T, C));
    posenc_spec_rows_forward(x, scratch, &k->spec, k->w, k->at, 1, T, C);
    posenc_spec_rows_backward(k->dw, drows, scratch, &k->spec, k->w, k->at, 1, T, C);
    catalogue_compare(k, "rows", x, n, CATALOGUE_VALUE);
    catalogue_compare_parameters(k);
}

/* Is the case's layer one that this encoding leaves alone? */
static inline int catalogue_rests(catalogue_work *k)
{
    int layer = (int)catalogue_number(k, "layer", 0.0);
    int n = k->spec.nope_every, every = k->spec.every;
    return (n > 0 && (layer + 1) % n == 0) || (every > 1 && (layer + 1) % every != 0);
}

/* x turned as a query or as a key, and dy turned back */
static inline void catalogue_turn(catalogue_work *k, int key)
{
    const posenc_spec *s = &k->spec;
    int T = k->T, H = k->shape.H, D = k->shape.D, wide = s->over == POSENC_OVER_WIDTH;
    int rests = catalogue_rests(k);
    size_t n = (size_t)T * H * D;
    posenc_float *y = catalogue_copy(k, "x", n), *dx = catalogue_copy(k, "dy", n);
    posenc_float *x = catalogue_copy(k, "x", n);
    posenc_heads vy = posenc_heads_bthd(y, 1, T, wide ? 1 : H, wide ? H * D : D), vx = vy, vdx = vy;
    vx.data = x;
    vdx.data = dx;
    if (s->encoding == POSENC_QTEMP) {
        posenc_float *tau = catalogue_blank(k, (size_t)T);
        posenc_spec_temperature(tau, s, k->at, T);
        if (!key && !rests) posenc_temper(vy, tau, 0);
        if (!key && !rests) posenc_temper(vdx, tau, 0);
    } else {
        double *room =
            (double *)catalogue_take(k, (size_t)(POSENC_AXES + 1) * (s->dim / 2) * sizeof *room);
        posenc_rotation by = posenc_spec_rotation(room, s, key, k->length);
        double magnitude = by.magnitude != 0.0 ? by.magnitude : 1.0;
        posenc_turns turns;
        turns.rows = T;
        turns.pairs = s->dim / 2;
        turns.row_b = 0;
        turns.offset = s->offset;
        turns.layout = s->layout;
        turns.cosine = catalogue_blank(k, (size_t)T * turns.pairs);
        turns.sine   = catalogue_blank(k, (size_t)T * turns.pairs);
        if (k->parts) by.scale = k->w[0];
        posenc_turns_fill(turns, k->at, &by);
        if (!rests) posenc_turn(vy, turns);
        if (!rests) posenc_turn_back(vdx, turns);
        if (k->parts && !rests) posenc_turns_backward(k->dw[0], vdx, vx, turns, k->at, &by);
        if (catalogue_find(k, "frequency"))
            catalogue_compare_exact(k, "frequency", by.frequency,
                                    (size_t)(by.axes ? by.axes : 1) * turns.pairs);
        if (catalogue_find(k, "magnitude")) catalogue_compare_exact(k, "magnitude", &magnitude, 1);
    }
    catalogue_compare(k, key ? "yk" : "yq", y, n, CATALOGUE_VALUE);
    catalogue_compare(k, key ? "dxk" : "dxq", dx, n, CATALOGUE_GRADIENT);
}

static inline void catalogue_bias(catalogue_work *k)
{
    golden_tensor *reach = catalogue_need(k, "reach", 2);
    int past = reach ? (int)golden_at(reach, 0) : 1, future = reach ? (int)golden_at(reach, 1) : 0;
    size_t n = (size_t)k->shape.H * (future + 1 + past);
    posenc_float *bias = catalogue_zeros(k, n), *dbias = catalogue_copy(k, "dbias", n);
    posenc_spec_bias_forward(bias, &k->spec, k->w, k->shape.H, past, future);
    posenc_spec_bias_backward(k->dw, dbias, &k->spec, k->w, k->shape.H, past, future);
    catalogue_compare(k, "bias", bias, n, CATALOGUE_VALUE);
    catalogue_compare_parameters(k);
    if (catalogue_find(k, "line") && catalogue_positions(k)) {     /* where attention puts tokens */
        double *line = (double *)catalogue_take(k, (size_t)k->T * sizeof *line);
        int axes = posenc_spec_axes(&k->spec);
        for (int t = 0; t < k->T; t++)
            line[t] = posenc_spec_place(&k->spec, k->at + (size_t)t * axes);
        catalogue_compare_exact(k, "line", line, (size_t)k->T);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

/* the spec, completed, and its tensors; 0: refused */
static inline int catalogue_begin(catalogue_work *k)
{
    catalogue_result *r = k->result;
    golden_tensor *shape = catalogue_need(k, "shape", 5);
    posenc_error why;
    int count = 0;
    catalogue_text(k, r->spec, sizeof r->spec, "spec");
    catalogue_text(k, r->oracle, sizeof r->oracle, "oracle");
    if (k->broken) return 0;
    k->shape.C       = (int)golden_at(shape, 0);
    k->shape.H       = (int)golden_at(shape, 1);
    k->shape.D       = (int)golden_at(shape, 2);
    k->shape.context = (int)golden_at(shape, 3);
    k->shape.causal  = (int)golden_at(shape, 4);
    if (posenc_spec_parse(&k->spec, &count, 1, r->spec, &why) != POSENC_OK
        || posenc_spec_complete(&k->spec, &k->shape, &why) != POSENC_OK) {
        catalogue_fail(k, "%s: '%.100s' is refused: %.200s", k->name, r->spec, why.text);
        return 0;
    }
    r->encoding = k->spec.encoding;
    k->parts = posenc_spec_parts(k->part, &k->spec, &k->shape);
    for (int i = 0; i < k->parts; i++) {
        const posenc_part *p = &k->part[i];
        size_t n = (size_t)p->rows * (p->columns ? p->columns : 1);
        char what[64];
        snprintf(what, sizeof what, "w.%s", p->name);
        k->w[i] = catalogue_copy(k, what, n);
        k->dw[i] = p->fixed ? NULL : catalogue_zeros(k, n);
    }
    return !k->broken;
}

/* 1 when every number of the case is as near as it should be; otherwise 0, and r->wrong says why */
static inline int catalogue_run(catalogue_result *r, golden_file *file, const char *name)
{
    catalogue_work k;
    memset(&k, 0, sizeof k);
    memset(r, 0, sizeof *r);
    k.file = file;
    k.name = name;
    k.result = r;
    r->encoding = -1;
    r->tolerance = CATALOGUE_LAW;
    r->ratio = -1.0;                                   /* nothing compared yet                    */
    if (catalogue_begin(&k)) {
        switch (posenc_encoding_get(r->encoding)->where) {
        case POSENC_EMBEDDING:
            if (!catalogue_positions(&k)) break;
            catalogue_rows(&k);
            break;
        case POSENC_QUERY_KEY:
            if (!catalogue_positions(&k)) break;
            catalogue_turn(&k, 0);
            catalogue_turn(&k, 1);
            catalogue_compare_parameters(&k);
            break;
        case POSENC_SCORE:
            catalogue_bias(&k);
            break;
        default: catalogue_fail(&k, "%s enters nowhere: there is nothing to compare", r->spec);
        }
    }
    if (r->compared == 0) catalogue_fail(&k, "%s: nothing was compared", name);
    if (k.broken) r->ratio = HUGE_VAL;
    while (k.blocks > 0) free(k.block[--k.blocks]);
    return r->ratio <= 1.0;
}

/* the name of case i, in the order of the file; 0 when there are not that many */
static inline int catalogue_case(char name[CATALOGUE_NAME], const golden_file *file, int i)
{
    for (int t = 0; t < file->count; t++) {
        const char *full = file->list[t].name;
        size_t n = strlen(full);
        if (n < 6 || strcmp(full + n - 5, ".spec") || i-- > 0) continue;
        n -= 5;
        if (n >= CATALOGUE_NAME) n = CATALOGUE_NAME - 1;
        memcpy(name, full, n);
        name[n] = 0;
        return 1;
    }
    return 0;
}
#endif
