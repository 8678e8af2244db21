/* marker/rotary.h - the rotary models of the published comparison: attention and nothing else

       x = embedding[token]
       x = out(attention(turn(q(x)), turn(k(x)), v(x)))        once for each layer
       logits = head(x)

   One head over the whole width, interleaved pairs, no mask, no residual, no norm, no feed-forward:
   the library's transformer has no such block, so this one is made of its layers, with a backward
   of its own. `lrope` trains a factor for each frequency of each layer, `rope` has none. Initial
   values are PyTorch's: embedding N(0,1), weights and biases uniform within 1/sqrt(inputs).

   All parameters lie in one array, their gradients and moments in three more like it. A checkpoint
   is a safetensors file. Include posenc.h first. */
#ifndef MARKER_ROTARY_H
#define MARKER_ROTARY_H

#include "kit/files.h"
#include "kit/json.h"
#include "kit/random.h"
#include <inttypes.h>
#include <math.h>

enum { ROTARY_WEIGHTS = 0x7DA74D01 };      /* purpose of kit_random, one stream for each tensor */

typedef struct rotary_config {
    int vocab, length, batch, width, layers;
    int learned;                           /* 1: lrope                                            */
    double base;
    int threads;                           /* of attention                                        */
    uint64_t seed;
} rotary_config;

typedef struct rotary_tensor {
    char name[64];
    int rows, cols;                        /* cols 0: a vector                                    */
    size_t at, count;                      /* its place in the arrays                             */
} rotary_tensor;

/* one layer's share of an array, or the whole's */
typedef struct rotary_layer {
    posenc_float *q, *qb, *k, *kb, *v, *vb, *o, *ob, *scale;
} rotary_layer;

/* what a layer keeps for the backward; R = batch * length */
typedef struct rotary_saved {
    posenc_float *x;                       /* (R,C) its input                                     */
    posenc_float *q, *k, *v;               /* (R,C) before the turn                               */
    posenc_float *qt, *kt;                 /* (R,C) after it                                      */
    posenc_float *a, *lse;                 /* (R,C) attention's result, (R)                       */
} rotary_saved;

typedef struct rotary {
    rotary_config c;
    rotary_tensor *tensor;
    int tensors;
    size_t numbers;
    posenc_float *param, *grad, *moment1, *moment2;                /* (numbers)                   */
    rotary_saved *saved;                   /* (layers + 1); the last has x alone                  */
    posenc_float *room, *logits, *loss, *scratch;
    posenc_float *dx, *da, *dq, *dk, *dv;  /* (R,C)                                               */
    uint64_t steps;
} rotary;

/* ---- parameters ------------------------------------------------------------------------------ */

static inline void rotary__add(rotary *m, int layer, const char *name, int rows, int cols)
{
    rotary_tensor *t = &m->tensor[m->tensors++];
    if (layer < 0) snprintf(t->name, sizeof t->name, "%s", name);
    else snprintf(t->name, sizeof t->name, "blocks.%d.attn.%s", layer, name);
    t->rows = rows;
    t->cols = cols;
    t->at = m->numbers;
    t->count = (size_t)rows * (size_t)(cols ? cols : 1);
    m->numbers += t->count;
}

/* The order is relied on: rotary__layer counts along it. */
static inline void rotary__list(rotary *m)
{
    static const char *const product[] = { "q_proj", "k_proj", "v_proj", "out_proj" };
    int C = m->c.width, V = m->c.vocab;
    m->tensor = (rotary_tensor *)kit_new((size_t)(9 * m->c.layers + 3), sizeof *m->tensor);
    rotary__add(m, -1, "token_embedding.weight", V, C);
    for (int l = 0; l < m->c.layers; l++) {
        char name[32];
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "%s.weight", product[i]);
            rotary__add(m, l, name, C, C);
            snprintf(name, sizeof name, "%s.bias", product[i]);
            rotary__add(m, l, name, C, 0);
        }
        if (m->c.learned) rotary__add(m, l, "scale", C / 2, 0);
    }
    rotary__add(m, -1, "lm_head.weight", V, C);
    rotary__add(m, -1, "lm_head.bias", V, 0);
}

static inline rotary_layer rotary__layer(const rotary *m, posenc_float *array, int layer)
{
    size_t C = (size_t)m->c.width, V = (size_t)m->c.vocab;
    size_t each = 4 * (C * C + C) + (m->c.learned ? C / 2 : 0);
    posenc_float *at = array + V * C + (size_t)layer * each, *four[4];
    for (int i = 0; i < 4; i++, at += C * C + C) four[i] = at;
    rotary_layer w = { four[0], four[0] + C * C, four[1], four[1] + C * C, four[2], four[2] + C * C,
                       four[3], four[3] + C * C, m->c.learned ? at : NULL };
    return w;
}

static inline posenc_float *rotary__head(const rotary *m, posenc_float *array)
{
    return array + m->tensor[m->tensors - 2].at;
}

static inline double rotary__uniform(kit_random *r)
{
    return ((double)kit_random_word(r) + 0.5) / 4294967296.0;
}

/* Biases and weights of a product share their bound: all have C inputs. */
static inline void rotary__start(rotary *m)
{
    double bound = 1 / sqrt((double)m->c.width);
    for (int i = 0; i < m->tensors; i++) {
        const rotary_tensor *t = &m->tensor[i];
        kit_random r = kit_random_open(m->c.seed, ROTARY_WEIGHTS, (uint64_t)i);
        int scale = strstr(t->name, ".scale") != NULL;
        for (size_t k = 0; k < t->count; k++) {
            double u = rotary__uniform(&r), w = bound * (2 * u - 1);
            if (i == 0) w = sqrt(-2 * log(u)) * cos(6.283185307179586 * rotary__uniform(&r));
            m->param[t->at + k] = (posenc_float)(scale ? 1 : w);
        }
    }
}

/* ---- room ------------------------------------------------------------------------------------ */

static inline posenc_float *rotary__floats(posenc_float **room, size_t n)
{
    posenc_float *at = *room;
    *room += n;
    return at;
}

static inline void rotary__room(rotary *m)
{
    size_t R = (size_t)m->c.batch * (size_t)m->c.length, n = R * (size_t)m->c.width;
    size_t L = (size_t)m->c.layers, V = (size_t)m->c.vocab;
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.threads = m->c.threads;
    size_t scratch = posenc_attention_scratch(m->c.batch, m->c.length, m->c.length, 1, m->c.width,
                                              &how);
    size_t all = L * (7 * n + R) + 6 * n + R * V + R + scratch + 4 * m->numbers;
    m->room = (posenc_float *)kit_new(all, sizeof *m->room);
    m->saved = (rotary_saved *)kit_new(L + 1, sizeof *m->saved);
    posenc_float *at = m->room;
    for (size_t l = 0; l <= L; l++) {
        rotary_saved *s = &m->saved[l];
        s->x = rotary__floats(&at, n);
        if (l == L) break;
        s->q = rotary__floats(&at, n); s->k = rotary__floats(&at, n); s->v = rotary__floats(&at, n);
        s->qt = rotary__floats(&at, n); s->kt = rotary__floats(&at, n);
        s->a = rotary__floats(&at, n); s->lse = rotary__floats(&at, R);
    }
    m->dx = rotary__floats(&at, n); m->da = rotary__floats(&at, n);
    m->dq = rotary__floats(&at, n); m->dk = rotary__floats(&at, n); m->dv = rotary__floats(&at, n);
    m->logits = rotary__floats(&at, R * V); m->loss = rotary__floats(&at, R);
    m->scratch = rotary__floats(&at, scratch);
    m->param = rotary__floats(&at, m->numbers); m->grad = rotary__floats(&at, m->numbers);
    m->moment1 = rotary__floats(&at, m->numbers); m->moment2 = rotary__floats(&at, m->numbers);
}

static inline rotary *rotary_new(const rotary_config *c)
{
    rotary *m = (rotary *)kit_new(1, sizeof *m);
    m->c = *c;
    rotary__list(m);
    rotary__room(m);
    rotary__start(m);
    return m;
}

static inline void rotary_free(rotary *m)
{
    if (!m) return;
    free(m->tensor);
    free(m->saved);
    free(m->room);
    free(m);
}

/* ---- forward, backward, update --------------------------------------------------------------- */

static inline void rotary__turn(const rotary *m, posenc_heads x, const posenc_float *scale)
{
    if (scale) posenc_lrope_forward(x, scale, NULL, POSENC_INTERLEAVED, m->c.base);
    else posenc_rope_forward(x, NULL, POSENC_INTERLEAVED, m->c.base);
}

/* before: the queries or keys as they were before the turn */
static inline void rotary__turn_back(const rotary *m, posenc_heads dx, posenc_float *dscale,
                                     posenc_heads before, const posenc_float *scale)
{
    if (scale)
        posenc_lrope_backward(dx, dscale, before, scale, NULL, POSENC_INTERLEAVED, m->c.base);
    else posenc_rope_backward(dx, NULL, POSENC_INTERLEAVED, m->c.base);
}

static inline posenc_heads rotary__view(const rotary *m, posenc_float *x, int B)
{
    return posenc_heads_bthd(x, B, m->c.length, 1, m->c.width);
}

static inline void rotary__layer_forward(rotary *m, int layer, int B)
{
    rotary_saved *s = &m->saved[layer];
    rotary_layer w = rotary__layer(m, m->param, layer);
    int C = m->c.width, R = B * m->c.length;
    size_t bytes = (size_t)R * (size_t)C * sizeof(posenc_float);
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.threads = m->c.threads;
    posenc_linear_forward(s->q, s->x, w.q, w.qb, R, C, C);
    posenc_linear_forward(s->k, s->x, w.k, w.kb, R, C, C);
    posenc_linear_forward(s->v, s->x, w.v, w.vb, R, C, C);
    memcpy(s->qt, s->q, bytes);
    memcpy(s->kt, s->k, bytes);
    rotary__turn(m, rotary__view(m, s->qt, B), w.scale);
    rotary__turn(m, rotary__view(m, s->kt, B), w.scale);
    posenc_attention_forward(rotary__view(m, s->a, B), s->lse, rotary__view(m, s->qt, B),
                             rotary__view(m, s->kt, B), rotary__view(m, s->v, B), &how, m->scratch);
    posenc_linear_forward(m->saved[layer + 1].x, s->a, w.o, w.ob, R, C, C);
}

/* m->dx comes in as the gradient of the layer's output and leaves as that of its input. */
static inline void rotary__layer_backward(rotary *m, int layer, int B)
{
    rotary_saved *s = &m->saved[layer];
    rotary_layer w = rotary__layer(m, m->param, layer), g = rotary__layer(m, m->grad, layer);
    int C = m->c.width, R = B * m->c.length;
    posenc_heads dq = rotary__view(m, m->dq, B), dk = rotary__view(m, m->dk, B);
    posenc_attention how;
    memset(&how, 0, sizeof how);
    how.threads = m->c.threads;
    posenc_linear_backward(m->da, g.o, g.ob, m->dx, s->a, w.o, R, C, C, 0);
    posenc_attention_backward(dq, dk, rotary__view(m, m->dv, B), NULL, rotary__view(m, m->da, B),
                              rotary__view(m, s->a, B), s->lse, rotary__view(m, s->qt, B),
                              rotary__view(m, s->kt, B), rotary__view(m, s->v, B), &how,
                              m->scratch);
    rotary__turn_back(m, dq, g.scale, rotary__view(m, s->q, B), w.scale);
    rotary__turn_back(m, dk, g.scale, rotary__view(m, s->k, B), w.scale);
    posenc_linear_backward(m->dx, g.q, g.qb, m->dq, s->x, w.q, R, C, C, 0);
    posenc_linear_backward(m->dx, g.k, g.kb, m->dk, s->x, w.k, R, C, C, 1);
    posenc_linear_backward(m->dx, g.v, g.vb, m->dv, s->x, w.v, R, C, C, 1);
}

/* tokens (B, length); fills m->logits (B, length, vocab) */
static inline void rotary_forward(rotary *m, const int *tokens, int B)
{
    int C = m->c.width, V = m->c.vocab, R = B * m->c.length;
    const posenc_float *head = rotary__head(m, m->param);
    posenc_embedding_forward(m->saved[0].x, tokens, m->param, 1, R, V, C, 0);
    for (int l = 0; l < m->c.layers; l++) rotary__layer_forward(m, l, B);
    posenc_linear_forward(m->logits, m->saved[m->c.layers].x, head, head + (size_t)V * (size_t)C, R,
                          C, V);
}

/* Forward, mean loss over all B * length targets, backward: adds to m->grad. */
static inline double rotary_train(rotary *m, const int *tokens, const int *targets, int B)
{
    int C = m->c.width, V = m->c.vocab, R = B * m->c.length;
    posenc_float *dhead = rotary__head(m, m->grad);
    double sum = 0;
    rotary_forward(m, tokens, B);
    posenc_crossentropy(m->loss, m->logits, m->logits, targets, 1.0 / R, R, V);
    for (int r = 0; r < R; r++) sum += m->loss[r];
    posenc_linear_backward(m->dx, dhead, dhead + (size_t)V * (size_t)C, m->logits,
                           m->saved[m->c.layers].x, rotary__head(m, m->param), R, C, V, 0);
    for (int l = m->c.layers - 1; l >= 0; l--) rotary__layer_backward(m, l, B);
    posenc_embedding_backward(m->grad, m->dx, tokens, 1, R, V, C);
    return sum / R;
}

static inline void rotary_update(rotary *m, const posenc_optimizer *o, double rate)
{
    m->steps++;
    posenc_optimizer_apply(m->param, m->moment1, m->moment2, m->grad, m->numbers, o, rate, 1,
                           o->decay, m->steps);
    memset(m->grad, 0, m->numbers * sizeof *m->grad);
}

/* ---- checkpoints -----------------------------------------------------------------------------
   8 bytes length of the header, the header in JSON, the numbers. Apart from step and note the
   header follows from the geometry, so a file that was damaged or made by another program differs
   in it. */

static inline void rotary__header_tensor(kit_text *t, const char *name, long long rows, int cols,
                                         size_t first, size_t count)
{
    const size_t size = sizeof(posenc_float);
    kit_json_open(t, name, '{');
    kit_json_text(t, "dtype", size == 4 ? "F32" : "F64");
    kit_json_open(t, "shape", '[');
    kit_json_int(t, NULL, rows);
    if (cols) kit_json_int(t, NULL, cols);
    kit_json_close(t, ']');
    kit_json_open(t, "data_offsets", '[');
    kit_json_int(t, NULL, (long long)(first * size));
    kit_json_int(t, NULL, (long long)((first + count) * size));
    kit_json_close(t, ']');
    kit_json_close(t, '}');
}

/* What stands behind the note: every tensor, and the moments as two long vectors. */
static inline void rotary__header_rest(kit_text *t, const rotary *m, int state)
{
    kit_put_string(t, "}");                                        /* ends the metadata */
    for (int i = 0; i < m->tensors; i++)
        rotary__header_tensor(t, m->tensor[i].name, m->tensor[i].rows, m->tensor[i].cols,
                              m->tensor[i].at, m->tensor[i].count);
    if (state) {
        long long n = (long long)m->numbers;
        rotary__header_tensor(t, "adam.moment1", n, 0, m->numbers, m->numbers);
        rotary__header_tensor(t, "adam.moment2", n, 0, 2 * m->numbers, m->numbers);
    }
    kit_json_close(t, '}');
}

static inline void rotary__header(kit_text *t, const rotary *m, int state, const char *note)
{
    kit_put(t, "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"%" PRIu64 "\",\"note\":", m->steps);
    kit__json_string(t, note);
    rotary__header_rest(t, m, state);
    while (t->size % 8) kit_put_string(t, " ");
}

/* state: with the moments, for --resume */
static inline int rotary_save(const rotary *m, const char *path, int state, const char *note,
                              kit_error *why)
{
    kit_text header = { NULL, 0, 0 }, file = { NULL, 0, 0 };
    unsigned char length[8];
    size_t bytes = m->numbers * sizeof(posenc_float);
    rotary__header(&header, m, state, note);
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header.size >> 8 * i);
    kit_put_bytes(&file, length, 8);
    kit_put_bytes(&file, header.data, header.size);
    kit_put_bytes(&file, m->param, bytes);
    if (state) kit_put_bytes(&file, m->moment1, bytes);
    if (state) kit_put_bytes(&file, m->moment2, bytes);
    int done = kit_save(path, &file, why);
    kit_text_free(&header);
    kit_text_free(&file);
    return done;
}

/* Reads at most `most` bytes; a file with more of them comes back longer than it should be. */
static inline int rotary__read_file(kit_text *t, const char *path, size_t most, kit_error *why)
{
    char piece[8192];
    FILE *file = fopen(path, "rb");
    size_t n;
    if (!file) return kit_fail(why, "cannot read %s: %s", path, strerror(errno));
    while (t->size <= most && (n = fread(piece, 1, sizeof piece, file)) > 0)
        kit_put_bytes(t, piece, n);
    int good = !ferror(file);
    fclose(file);
    return good ? 1 : kit_fail(why, "cannot read %s to its end", path);
}

/* A JSON string as kit_json writes it, from behind its opening quote; returns what follows it. */
static inline const char *rotary__read_string(char *text, size_t room, const char *at)
{
    size_t n = 0;
    for (; *at && *at != '"'; at++) {
        unsigned code = (unsigned char)*at;
        if (*at == '\\' && at[1] == 'u') {
            if (sscanf(at + 2, "%4x", &code) != 1 || code > 127 || strnlen(at, 6) < 6) return NULL;
            at += 5;
        } else if (*at == '\\') {
            code = (unsigned char)*++at;
            if (!code) return NULL;
        }
        if (n + 1 >= room) return NULL;
        text[n++] = (char)code;
    }
    text[n] = 0;
    return *at ? at + 1 : NULL;
}

/* The header, from byte 8 of the file on. Returns where the numbers begin, or 0. */
static inline size_t rotary__read_header(const rotary *m, kit_text *t, uint64_t *steps, char *note,
                                         size_t room)
{
    uint64_t length = 0;
    int used = 0;
    for (int i = 7; i >= 0 && t->size > 8; i--) length = length << 8 | (unsigned char)t->data[i];
    if (length == 0 || length > t->size - 8 || memchr(t->data + 8, 0, (size_t)length)) return 0;
    char *header = (char *)kit_new((size_t)length + 1, 1);
    memcpy(header, t->data + 8, (size_t)length);
    sscanf(header, "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"%" SCNu64 "\",\"note\":\"%n",
           steps, &used);
    const char *rest = used ? rotary__read_string(note, room, header + used) : NULL;
    kit_text expected = { NULL, 0, 0 };
    rotary__header_rest(&expected, m, 1);
    int same = rest && strncmp(rest, expected.data, expected.size) == 0
            && strspn(rest + expected.size, " ") == strlen(rest + expected.size);
    kit_text_free(&expected);
    free(header);
    return same ? 8 + (size_t)length : 0;
}

/* With moments and step. On failure the model is as it was. */
static inline int rotary_load(rotary *m, const char *path, char *note, size_t room, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    uint64_t steps = 0;
    size_t bytes = m->numbers * sizeof(posenc_float);
    size_t header = 8 * room + 256 * (size_t)m->tensors + 4096;       /* surely enough for one */
    int done = rotary__read_file(&t, path, 3 * bytes + header, why);
    size_t at = done ? rotary__read_header(m, &t, &steps, note, room) : 0;
    if (done && (at == 0 || t.size - at != 3 * bytes))
        done = kit_fail(why, "%s is not a whole checkpoint of this model", path);
    if (done) {
        memcpy(m->param, t.data + at, bytes);
        memcpy(m->moment1, t.data + at + bytes, bytes);
        memcpy(m->moment2, t.data + at + 2 * bytes, bytes);
        m->steps = steps;
    }
    kit_text_free(&t);
    return done;
}

#endif
