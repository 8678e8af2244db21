/* Small models and batches for the tests behind door three. Include it after check.h.

       posenc_model *m = make_model("%s encoding=%s", kinds[k].config, "rope");
       data d;
       fill_data(&d, m, 3, 7, 1);
       ASSERTm(check_text, m && train_steps(m, 0, 10));

   Every helper that can fail leaves its reason in check_text. They are for POSIX: a test that
   includes this file defines _POSIX_C_SOURCE or _DEFAULT_SOURCE first.                           */
#ifndef POSENC_TESTS_MODELS_H
#define POSENC_TESTS_MODELS_H
#include <unistd.h>

/* The three kinds, two layers each: every test that loops over them says so by name. */
static const struct kind { const char *name, *config; } kinds[] = {
    { "classifier",
      "vocab=11 context=16 batch=3 classes=4 channels=16 heads=4 hidden=24 mask_padding=1" },
    { "next_token",
      "vocab=11 context=16 batch=3 channels=16 heads=4 hidden=24 causal=1 activation=gelu" },
    { "modern",
      "vocab=11 context=16 batch=3 channels=16 heads=4 kv_heads=2 hidden=24 causal=1 norm=rmsnorm"
                    " activation=swiglu no_bias=1 qk_norm=before tied_head=1" }
};
enum { CLASSIFIER, NEXT_TOKEN, MODERN, KINDS };
#define EVERYWHERE_DROPPED \
    " dropout_embedding=0.1 dropout_attention=0.2 dropout_branch=0.15 dropout_hidden=0.25"

/* "encoding=name", with what depends on the context by default pinned down, and small enough for what
   the encoding does to show                                                                      */
static inline const char *encoding_word(int e)
{
    static char text[160];
    const posenc_encoding_info *info = posenc_encoding_get(e);
    const char *keys = info->keys, *more = "";
    if (strstr(keys, "width")) more = strstr(keys, "height") ? ":width=4,height=4" : ":width=4";
    if (strstr(keys, "length")) more = ":length=16";
    if (strstr(keys, "length") && strstr(keys, "width")) more = ":length=16,width=4,height=4";
    if (e == POSENC_ROPE || e == POSENC_LROPE) more = "";
    if (e == POSENC_ROPE2D) more = ":width=4";
    if (e == POSENC_INTEGER) more = ":length=16,spread=first";    /* LayerNorm hides the other */
    if (e == POSENC_QTEMP) more = ":original=2,rate=0.5";
    snprintf(text, sizeof text, "encoding=%s%s", info->name, more);
    return text;
}

/* ---- making ---------------------------------------------------------------------------------- */

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline posenc_model *make_model_on(const posenc_backend *backend, const char *format, ...)
{
    char text[1024], spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_error why;
    posenc_model *m = NULL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memset(&c, 0, sizeof c);
    why.text[0] = 0;
    c.backend = backend;
    c.threads = 1;                              /* small models are not worth a second one     */
    if (posenc_config_parse(&c, spec, text, &why) == POSENC_OK) posenc_model_create(&m, &c, &why);
    if (!m) snprintf(check_text, sizeof check_text, "%.150s: %.200s", text, why.text);
    return m;
}
#define make_model(...) make_model_on(NULL, __VA_ARGS__)

enum { DATA_ROOM = 512 };
typedef struct data {
    posenc_batch batch;
    int tokens[DATA_ROOM], targets[DATA_ROOM], segments[DATA_ROOM], types[DATA_ROOM];
    double positions[DATA_ROOM];
    unsigned char keep[DATA_ROOM];
} data;

/* a whole number in 0 .. n-1, from the caller's own state: two threads may fill data at once */
static inline int data_random(uint32_t *state, int n)
{
    uint32_t x = *state += 0x9e3779b9u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return (int)(((uint64_t)(x ^ (x >> 16)) * (uint32_t)n) >> 32);
}

/* Random tokens and targets. Where padding is masked, row b ends in b padding tokens, the first
   row in none; a next-token batch ignores every fifth target. Token 0 is kept for padding.       */
static inline void fill_data(data *d, const posenc_model *m, int B, int T, uint32_t seed)
{
    const posenc_config *c = posenc_model_config(m);
    uint32_t state = seed * 977u + 5;
    memset(d, 0, sizeof *d);
    for (int r = 0; r < B * T; r++) {
        int left = T - r % T;
        d->tokens[r] = c->vocab > 1 ? 1 + data_random(&state, c->vocab - 1) : 0;
        if (c->mask_padding && left <= r / T && left < T) d->tokens[r] = c->padding_token;
        d->targets[r] = data_random(&state, c->classes ? c->classes : c->vocab);
        if (!c->classes && r % 5 == 4) d->targets[r] = POSENC_IGNORE;
    }
    d->batch.B = B;
    d->batch.T = T;
    d->batch.tokens = d->tokens;
    d->batch.targets = d->targets;
}

/* positions that repeat and jump, whole, near each other and inside a table of 16 */
static inline void add_positions(data *d)
{
    static const double pos[14] = { 3, 1, 4, 1, 5, 9, 2,   6, 5, 3, 5, 8, 9, 7 };
    for (int r = 0; r < d->batch.B * d->batch.T; r++) d->positions[r] = pos[r % 14];
    d->batch.positions = d->positions;
}
/* types by turns, and row b begins with b tokens that are padding */
static inline void add_types_and_keep(data *d, int types)
{
    for (int r = 0; r < d->batch.B * d->batch.T; r++) {
        d->types[r] = r % 3 % (types ? types : 1);
        d->keep[r] = r % d->batch.T >= r / d->batch.T;
    }
    if (types) d->batch.types = d->types;
    d->batch.keep = d->keep;
}
/* two documents in a row, cut in another place in each row */
static inline void add_segments(data *d)
{
    int T = d->batch.T;
    for (int r = 0; r < d->batch.B * T; r++) d->segments[r] = r % T >= 2 + r / T ? 7 : 3;
    d->batch.segments = d->segments;
}

/* ---- running --------------------------------------------------------------------------------- */

/* a fresh batch, forward, backward and update for each of the steps from..from+steps-1 */
static inline int train_steps(posenc_model *m, int from, int steps)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_optimizer o;
    posenc_error why;
    double loss;
    data d;
    memset(&o, 0, sizeof o);
    o.decay = 0.1;
    o.clip = 1.0;
    for (int s = from; s < from + steps; s++) {
        fill_data(&d, m, c->batch, c->context < 7 ? c->context : 7, (uint32_t)(s + 1));
        d.batch.first_sample = (uint64_t)(s * c->batch);
        if (posenc_model_train(m, &d.batch, &loss, &why) != POSENC_OK
            || posenc_model_update(m, &o, 1e-2, NULL, &why) != POSENC_OK) {
            snprintf(check_text, sizeof check_text, "step %d: %.300s", s, why.text);
            return 0;
        }
    }
    return 1;
}

/* ---- looking --------------------------------------------------------------------------------- */

enum { WEIGHTS, GRADIENTS, MOMENT1, MOMENT2 };
static inline posenc_float *part_of(const posenc_tensor *t, int part)
{
    if (part == WEIGHTS) return t->data;
    return part == GRADIENTS ? t->grad : part == MOMENT1 ? t->moment1 : t->moment2;
}
/* all tensors of a part one behind the other; give it back with free() */
static inline posenc_float *copy_of(posenc_model *m, int part)
{
    size_t n = posenc_model_numbers(m);
    posenc_float *all = (posenc_float *)malloc((n + 1) * sizeof *all), *at = all;
    for (int i = 0; i < posenc_model_parameters(m) && all; i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_model_get(m, at, part_of(t, part), t->count);
        at += t->count;
    }
    return all;
}
static inline posenc_float *copy_tensor(posenc_model *m, const posenc_float *data_at, size_t n)
{
    posenc_float *copy = (posenc_float *)malloc((n + 1) * sizeof *copy);
    if (copy) posenc_model_get(m, copy, data_at, n);
    return copy;
}

/* 1 when each tensor of the part has the same bits in both models, or is as near as tolerance */
static inline int same_part(posenc_model *a, posenc_model *b, int part, double tolerance)
{
    int same = posenc_model_parameters(a) == posenc_model_parameters(b);
    if (!same) snprintf(check_text, sizeof check_text, "the models have different tensors");
    for (int i = 0; i < posenc_model_parameters(a) && same; i++) {
        const posenc_tensor *s = posenc_model_parameter(a, i), *t = posenc_model_parameter(b, i);
        posenc_float *x = copy_tensor(a, part_of(s, part), s->count);
        posenc_float *y = copy_tensor(b, part_of(t, part), t->count);
        double off = s->count == t->count ? norm_diff(y, x, s->count) : HUGE_VAL;
        same = s->count == t->count && !strcmp(s->name, t->name);
        if (tolerance > 0) same = same && off <= tolerance;
        else               same = same && !memcmp(x, y, s->count * sizeof *x);
        if (!same)
            snprintf(check_text, sizeof check_text, "part %d of %s differs by %.3g of its norm",
                     part, s->name, off);
        free(x);
        free(y);
    }
    return same;
}
/* weights, moments and step, bit for bit */
static inline int same_state(posenc_model *a, posenc_model *b)
{
    if (posenc_model_steps(a) != posenc_model_steps(b)) {
        snprintf(check_text, sizeof check_text, "step %lu against %lu",
                 (unsigned long)posenc_model_steps(a), (unsigned long)posenc_model_steps(b));
        return 0;
    }
    return same_part(a, b, WEIGHTS, 0) && same_part(a, b, MOMENT1, 0)
        && same_part(a, b, MOMENT2, 0);
}

/* does the text hold the pieces, all of them, wherever they stand? NULL ends the list */
static inline int mentions(const char *text, ...)
{
    va_list list;
    const char *piece;
    int all = 1;
    va_start(list, text);
    while ((piece = va_arg(list, const char *)) != NULL)
        if (!strstr(text, piece)) {
            snprintf(check_text, sizeof check_text, "'%s' is not in '%.300s'", piece, text);
            all = 0;
        }
    va_end(list);
    return all;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* a name of our own in the folder for such things */
static inline void temporary_path(char *path, size_t room, const char *name)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, room, "%s/posenc_%s_%ld", folder && *folder ? folder : "/tmp", name,
             (long)getpid());
}
#endif
