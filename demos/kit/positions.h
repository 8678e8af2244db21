/* kit/positions.h - pictures of a model: what it knows about positions, and its embeddings

       kit_positions k = kit_positions_of(model);                    which pictures make sense
       kit_album_make(&album, model, T, "learned", folder, &why);    all of those
       kit_encoding_open(&e, model, &spec, layer);                   one encoding, to draw by hand

   Include posenc.h first; everything goes through its public calls. No encoding is named here where
   the table can be asked instead: a new row of it is drawn without a change. */
#ifndef KIT_POSITIONS_H
#define KIT_POSITIONS_H

#include "maps.h"

/* ---- what a model knows about positions ------------------------------------------------------
   table:  vectors are added to the embedding, and can be compared with each other.
   turns:  queries and keys are turned; what can be compared is the score of a query and a key that
           are the same vector, by where they stand.
   temper: scores of a query are multiplied by a number that grows with its position.
   bias:   numbers are added to the scores, and are drawn as they are. */

typedef struct kit_positions {
    int table, turns, temper, bias;        /* 1: this picture makes sense                         */
    int turns_by_layer, bias_by_layer;     /* 1: each layer has its own                           */
    int turns_on_grid;                     /* 1: by row and column                                */
    int turns_fade;                        /* 1: the distance shortens them as well               */
    int other;                             /* 1: something else is there that nobody draws yet    */
} kit_positions;

static inline posenc_shape kit_shape_of(const posenc_config *c)
{
    posenc_shape s = { c->channels, c->heads, c->channels / c->heads, c->context, c->causal };
    return s;
}

/* The encodings of a model, as it completed them. Returns how many; -1: there is one that this
   library does not know by itself. */
static inline int kit_specs_of(posenc_spec list[POSENC_SPECS], const posenc_model *m)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_shape shape = kit_shape_of(c);
    int n = 0;
    if (posenc_spec_parse(list, &n, POSENC_SPECS, c->encoding, NULL) != POSENC_OK) return -1;
    for (int i = 0; i < n; i++)
        if (posenc_spec_complete(&list[i], &shape, NULL) != POSENC_OK) return -1;
    return n;
}

/* mrope has three axes, but text stands at the same place on all of them: a line */
static inline int kit_spec_on_grid(const posenc_spec *s)
{
    return s->encoding != POSENC_MROPE && posenc_spec_axes(s) > 1;
}

static inline void kit__positions_add(kit_positions *k, const posenc_spec *s)
{
    const posenc_encoding_info *info = posenc_encoding_get(s->encoding);
    int where = (int)info->where;
    if (where == POSENC_NOWHERE) return;
    if (where == POSENC_EMBEDDING) k->table = 1;
    else if (s->encoding == POSENC_QTEMP) k->temper = 1;
    else if (where == POSENC_QUERY_KEY) {
        k->turns = 1;
        k->turns_by_layer |= s->encoding == POSENC_LROPE || s->nope_every > 0;
        k->turns_on_grid |= kit_spec_on_grid(s);
        k->turns_fade |= s->encoding == POSENC_XPOS;
    } else if (where == POSENC_SCORE) {
        k->bias = 1;
        k->bias_by_layer |= s->per_layer > 0;
    } else {
        k->other = 1;
    }
}

static inline kit_positions kit_positions_of(const posenc_model *m)
{
    kit_positions k;
    posenc_spec list[POSENC_SPECS];
    int n = kit_specs_of(list, m);
    memset(&k, 0, sizeof k);
    k.other = n < 0;
    for (int i = 0; i < n; i++) kit__positions_add(&k, &list[i]);
    return k;
}

/* ---- one encoding of a model -------------------------------------------------------------------
   Its spec, and the numbers it has learnt, in host memory. */

typedef struct kit_encoding {
    posenc_spec spec;
    posenc_shape shape;
    posenc_float *w[POSENC_PARTS];
    int parts, layer;
} kit_encoding;

/* A tensor that the layers share, or the layer's own; NULL: there is none. */
static inline posenc_tensor *kit__part_of(posenc_model *m, const char *encoding, const char *part,
                                          int layer)
{
    char name[128];
    snprintf(name, sizeof name, "pe.%s.%s", encoding, part);
    posenc_tensor *t = posenc_model_find(m, name);
    if (t) return t;
    snprintf(name, sizeof name, "blocks.%d.pe.%s.%s", layer, encoding, part);
    return posenc_model_find(m, name);
}

static inline void kit_encoding_open(kit_encoding *e, posenc_model *m, const posenc_spec *s,
                                     int layer)
{
    posenc_part part[POSENC_PARTS];
    memset(e, 0, sizeof *e);
    e->spec = *s;
    e->shape = kit_shape_of(posenc_model_config(m));
    e->layer = layer;
    e->parts = posenc_spec_parts(part, s, &e->shape);
    for (int i = 0; i < e->parts; i++) {
        size_t n = (size_t)part[i].rows * (size_t)(part[i].columns ? part[i].columns : 1);
        posenc_tensor *t = kit__part_of(m, posenc_encoding_get(s->encoding)->name, part[i].name,
                                        layer);
        e->w[i] = (posenc_float *)kit_new(n, sizeof *e->w[i]);
        if (t && t->count == n) posenc_model_get(m, e->w[i], t->data, n);
    }
}

static inline void kit_encoding_free(kit_encoding *e)
{
    for (int i = 0; i < e->parts; i++) free(e->w[i]);
    memset(e, 0, sizeof *e);
}

/* What the encoding reads of T tokens, (T, axes), from positions of `given` numbers each; pos NULL:
   0, 1, 2, ... free() it. */
static inline double *kit_encoding_places(const kit_encoding *e, const double *pos, int given,
                                          int T)
{
    double *at = (double *)kit_new((size_t)T * POSENC_AXES, sizeof(double));
    double *count = (double *)kit_new((size_t)T, sizeof(double));
    posenc_positions_range(count, T, 0);
    posenc_spec_coordinates(at, &e->spec, pos ? pos : count, pos ? given : 1, T);
    free(count);
    return at;
}

/* EMBEDDING: table (T, C) of what is added at these places */
static inline void kit_encoding_rows(float *table, const kit_encoding *e, const double *at, int T)
{
    int C = e->shape.C;
    float *scratch = (float *)kit_new(posenc_spec_rows_scratch(&e->spec, T, C), sizeof(float));
    memset(table, 0, (size_t)T * (size_t)C * sizeof *table);
    posenc_spec_rows_forward(table, scratch, &e->spec, e->w, at, 1, T, C);
    free(scratch);
}

/* QUERY_KEY: 0 where a layer leaves queries and keys as they are */
static inline int kit_encoding_turns(const kit_encoding *e)
{
    int every = e->spec.nope_every;
    return e->spec.encoding != POSENC_QTEMP && (every <= 0 || (e->layer + 1) % every != 0);
}

/* Lengths times cosines and sines, (T, dim/2) each, of queries (key 0) or keys (1). */
static inline void kit_encoding_waves(float *cosine, float *sine, const kit_encoding *e, int key,
                                      const double *at, int T)
{
    int pairs = e->spec.dim / 2;
    double *room = (double *)kit_new((POSENC_AXES + 1) * (size_t)pairs, sizeof(double));
    posenc_rotation by = posenc_spec_rotation(room, &e->spec, key, T);
    posenc_turns turns = { cosine, sine, T, pairs, 0, 0, POSENC_HALF };
    if (e->parts > 0) by.scale = e->w[0];
    posenc_turns_fill(turns, at, &by);
    free(room);
}

/* Turns rows x (T, width) as the layer does; those that it leaves alone stay. */
static inline void kit_encoding_turn(float *x, const kit_encoding *e, int key, const double *at,
                                     int T, int width)
{
    size_t n = (size_t)T * (size_t)(e->spec.dim / 2);
    if (!kit_encoding_turns(e)) return;
    float *wave = (float *)kit_new(2 * n, sizeof(float));
    posenc_turns turns = { wave, wave + n, T, e->spec.dim / 2, 0, e->spec.offset, e->spec.layout };
    kit_encoding_waves(wave, wave + n, e, key, at, T);
    posenc_turn(posenc_heads_bthd(x, 1, T, 1, width), turns);
    free(wave);
}

/* SCORE: adds what tokens at these places get, to bias (H, T, T). A bias is a vector over the
   differences of the whole numbers that stand for two tokens. */
static inline void kit_encoding_bias(float *bias, const kit_encoding *e, const double *at, int T)
{
    int H = e->shape.H, axes = posenc_spec_axes(&e->spec), far = 0;
    int *place = (int *)kit_new((size_t)T, sizeof(int));
    for (int t = 0; t < T; t++) {
        place[t] = posenc_spec_place(&e->spec, at + (size_t)t * (size_t)axes);
        far = kit__most(far, abs(place[t] - place[0]));
    }
    far *= 2;                              /* from the furthest one on one side to the other */
    size_t n = 2 * (size_t)far + 1, size = (size_t)T * (size_t)T;
    float *line = (float *)kit_new((size_t)H * n, sizeof(float));
    posenc_spec_bias_forward(line, &e->spec, e->w, H, far, far);
    for (size_t i = 0; i < (size_t)H * size; i++) {
        int apart = place[i % size / (size_t)T] - place[i % (size_t)T];
        bias[i] += line[i / size * n + (size_t)(apart + far)];
    }
    free(line);
    free(place);
}

/* ---- comparing positions --------------------------------------------------------------------- */

static inline double kit__dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* score (n, n): the product of row i of q and row j of k, relative to what each row has with its
   own; NaN for a row of zeros */
static inline void kit_scores(float *score, const float *q, const float *k, int n, int C)
{
    double *own = (double *)kit_new((size_t)n, sizeof(double));
    size_t wide = (size_t)C;
    for (int i = 0; i < n; i++) own[i] = kit__dot(q + (size_t)i * wide, k + (size_t)i * wide, C);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double both = own[i] * own[j], product = NAN;
            if (both > 0 && i == j) product = 1;
            else if (both > 0)
                product = kit__dot(q + (size_t)i * wide, k + (size_t)j * wide, C) / sqrt(both);
            score[(size_t)i * (size_t)n + (size_t)j] = (float)product;
        }
    free(own);
}

/* similarity (n, n): the cosine between any two of n rows of C numbers; NaN for a row of zeros */
static inline void kit_cosines(float *similarity, const float *row, int n, int C)
{
    kit_scores(similarity, row, row, n, C);
}

/* distance (n, n): the length of the difference between any two rows */
static inline void kit_distances(float *distance, const float *row, int n, int C)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            const float *a = row + (size_t)i * (size_t)C, *b = row + (size_t)j * (size_t)C;
            double sum = 0;
            for (int c = 0; c < C; c++)
                sum += ((double)a[c] - (double)b[c]) * ((double)a[c] - (double)b[c]);
            distance[(size_t)i * (size_t)n + (size_t)j] = (float)sqrt(sum);
        }
}

#define KIT_ONE_WAY 0.999999               /* a cosine above it is 1 but for rounding */

/* The least of n cosines that are numbers. Near 1 all rows point the same way, and their cosines
   would make a picture of one colour. */
static inline double kit_least_cosine(const float *cosine, size_t n)
{
    double least = 1;
    for (size_t i = 0; i < n; i++)
        if ((double)cosine[i] < least) least = (double)cosine[i];
    return least;
}

/* ---- of a whole model ------------------------------------------------------------------------ */

/* table (T, C): what is added at places 0..T-1. Read off the model itself, as its first activation
   less the token's vector, so that it is right for every encoding that adds. */
static inline int kit_position_table(float *table, posenc_model *m, int T, kit_error *why)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_tensor *sum = posenc_model_find(m, "embedding_norm.input");
    posenc_tensor *words = posenc_model_find(m, "token_embedding.weight");
    size_t C = (size_t)c->channels;
    posenc_batch batch;
    posenc_error said;
    if (!sum) sum = posenc_model_find(m, "embedding");
    if (!sum || !words) return kit_fail(why, "the model has no embedding to read");
    int *tokens = (int *)kit_new((size_t)T, sizeof(int));
    float *word = (float *)kit_new(C, sizeof(float));
    memset(&batch, 0, sizeof batch);
    batch.B = 1;
    batch.T = T;
    batch.tokens = tokens;                 /* all of them token 0 */
    int done = posenc_model_forward(m, &batch, &said) == POSENC_OK;
    if (!done) kit_fail(why, "%s", said.text);
    if (done) {
        double scale = c->scale_embedding ? sqrt((double)C) : 1;
        posenc_model_get(m, table, sum->data, (size_t)T * C);
        posenc_model_get(m, word, words->data, C);
        for (size_t i = 0; i < (size_t)T * C; i++) table[i] -= (float)(scale * (double)word[i % C]);
    }
    free(tokens);
    free(word);
    return done;
}

/* similarity (T, T): the score of a query and a key that are the same vector, relative to that at
   distance 0. All channels are 1, so that every pair counts alike: what remains of the product is
   the mean over pairs of cos(theta_i - theta_j). */
static inline void kit_turn_similarity(float *similarity, posenc_model *m, int layer, int T)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_spec list[POSENC_SPECS];
    int specs = kit_specs_of(list, m), width = c->channels / c->heads;
    for (int s = 0; s < specs; s++)        /* pairs may reach across the heads */
        if (list[s].over == POSENC_OVER_WIDTH) width = c->channels;
    size_t n = (size_t)T * (size_t)width;
    float *q = (float *)kit_new(2 * n, sizeof(float)), *k = q + n;
    for (size_t i = 0; i < 2 * n; i++) q[i] = 1;
    for (int s = 0; s < specs; s++) {
        kit_encoding e;
        if (posenc_encoding_get(list[s].encoding)->where != POSENC_QUERY_KEY) continue;
        kit_encoding_open(&e, m, &list[s], layer);
        double *at = kit_encoding_places(&e, NULL, 1, T);
        kit_encoding_turn(q, &e, 0, at, T, width);
        kit_encoding_turn(k, &e, 1, at, T, width);
        free(at);
        kit_encoding_free(&e);
    }
    kit_scores(similarity, q, k, T, width);
    free(q);
}

/* bias (H, T, T): what a layer adds to the scores of each head; NaN where it never counts */
static inline void kit_position_bias(float *bias, posenc_model *m, int layer, int T)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_spec list[POSENC_SPECS];
    int specs = kit_specs_of(list, m);
    size_t size = (size_t)T * (size_t)T, all = (size_t)c->heads * size;
    memset(bias, 0, all * sizeof *bias);
    for (int s = 0; s < specs; s++) {
        kit_encoding e;
        if (posenc_encoding_get(list[s].encoding)->where != POSENC_SCORE) continue;
        kit_encoding_open(&e, m, &list[s], layer);
        double *at = kit_encoding_places(&e, NULL, 1, T);
        kit_encoding_bias(bias, &e, at, T);
        free(at);
        kit_encoding_free(&e);
    }
    for (size_t i = 0; i < all; i++) {
        int query = (int)(i % size / (size_t)T), key = (int)(i % (size_t)T);
        if (!kit_may_look(c, NULL, query, key)) bias[i] = NAN;
    }
}

/* factor (n): by what the scores of the query at pos are multiplied */
static inline void kit_position_temperature(float *factor, const posenc_model *m, const double *pos,
                                            int n)
{
    posenc_spec list[POSENC_SPECS];
    int specs = kit_specs_of(list, m);
    float *tau = (float *)kit_new((size_t)n, sizeof(float));
    for (int i = 0; i < n; i++) factor[i] = 1;
    for (int s = 0; s < specs; s++) {
        if (list[s].encoding != POSENC_QTEMP) continue;
        posenc_spec_temperature(tau, &list[s], pos, n);
        for (int i = 0; i < n; i++) factor[i] *= tau[i];
    }
    free(tau);
}

/* ---- the album: positions and embeddings of one model ---------------------------------------- */

enum {
    KIT_ALBUM_ROOM = 6,                    /* pictures                                            */
    KIT_ALBUM_HEADS = 32,                  /* heads whose bias is drawn                           */
    KIT_ALBUM_STEPS = 64,                  /* positions along a strip of temperatures             */
    KIT_ALBUM_ROWS = 512,                  /* positions or tokens in a picture                    */
    KIT_ALBUM_CHANNELS = 1024              /* channels in a picture of a table                    */
};

typedef struct kit_album {
    kit_picture picture[KIT_ALBUM_ROOM];
    const char *caption[KIT_ALBUM_ROOM];
    char alt[KIT_ALBUM_ROOM][160];
    int count;
} kit_album;

static inline void kit_album_free(kit_album *a)
{
    for (int i = 0; i < a->count; i++) kit_picture_free(&a->picture[i]);
    a->count = 0;
}

/* Draws a sheet as the album's next picture; the title, in small letters, is the text for those who
   cannot see it. */
static inline int kit__album_add(kit_album *a, kit_sheet *s, const char *title, const char *name,
                                 const char *folder, const char *stem, const char *caption,
                                 kit_error *why)
{
    char whole[200];
    snprintf(whole, sizeof whole, "%s: %.100s", title, name);
    s->title = whole;
    snprintf(a->alt[a->count], sizeof a->alt[0], "%.40s of %.100s", title, name);
    a->caption[a->count] = caption;
    return kit_picture_save(&a->picture[a->count++], s, folder, stem, why);
}

static inline kit_sheet kit__square_sheet(const float *const *map, int n, const char *axis)
{
    kit_sheet s;
    memset(&s, 0, sizeof s);
    s.rows = s.cols = 1;
    s.map = map;
    s.height = s.width = n;
    s.cell = kit_cell_for(n, 512);
    s.x_label = s.y_label = axis;
    s.diverging = 1;
    s.low = -1;
    s.high = 1;
    s.value_label = "cosine similarity";
    return s;
}

/* Vectors that all point nearly the same way would make a picture of one colour: then the colours
   begin at the least cosine there is. */
static inline void kit__tell_apart(kit_sheet *s, const float *cosine)
{
    double least = kit_least_cosine(cosine, (size_t)s->height * (size_t)s->width);
    if (least < 0.8 || least > KIT_ONE_WAY) return;
    s->diverging = 0;
    s->low = least;
    s->note = "all point nearly the same way: the colours begin at the least";
}

static inline int kit__album_table(kit_album *a, const float *table, int T, int C, const char *name,
                                   const char *folder, kit_error *why)
{
    int shown = C < KIT_ALBUM_CHANNELS ? C : KIT_ALBUM_CHANNELS;
    int rows = T < 64 || T < 2 * C ? T : kit__most(64, 2 * C);        /* else it is a thin strip */
    float *part = (float *)kit_new((size_t)rows * (size_t)shown, sizeof(float));
    const float *map = part;
    char about[160] = "what is added to the embedding: a row for each position";
    kit_sheet s = kit__square_sheet(&map, rows, "position");
    for (int t = 0; t < rows; t++)
        memcpy(part + (size_t)t * (size_t)shown, table + (size_t)t * (size_t)C,
               (size_t)shown * sizeof *part);
    if (shown < C || rows < T)
        snprintf(about, sizeof about, "what is added to the embedding: positions 0 to %d of %d, "
                 "channels 0 to %d of %d", rows - 1, T, shown - 1, C);
    s.width = shown;
    s.cell = kit_cell_for(kit__most(shown, rows), 768);
    s.x_label = "channel";
    s.low = s.high = 0;
    s.value_label = "value";
    s.subtitle = about;
    int done = kit__album_add(a, &s, "Position vectors", name, folder, "positions",
                              "The vectors that are added to the embedding, one row for each "
                              "position. Blue is negative, red positive.", why);
    free(part);
    return done;
}

/* Vectors that point exactly the same way differ in length alone: then the distance is drawn. */
static inline void kit__sheet_of_distances(kit_sheet *s)
{
    s->diverging = 0;
    s->low = s->high = 0;
    s->value_label = "distance";
    s->subtitle = "distance between the vectors of two positions, which all point the same way";
}

static inline int kit__album_similarity(kit_album *a, const float *table, int T, int C,
                                        const char *name, const char *folder, kit_error *why)
{
    size_t size = (size_t)T * (size_t)T;
    float *cosine = (float *)kit_new(size, sizeof(float));
    const float *map = cosine;
    kit_sheet s = kit__square_sheet(&map, T, "position");
    kit_cosines(cosine, table, T, C);
    int one_way = T > 1 && kit_least_cosine(cosine, size) > KIT_ONE_WAY;
    s.subtitle = "cosine similarity of the vectors of two positions";
    s.absent_label = "no value";
    if (one_way) {
        kit_distances(cosine, table, T, C);
        kit__sheet_of_distances(&s);
    } else {
        kit__tell_apart(&s, cosine);
    }
    const char *likeness = "How alike the vectors of two positions are. A bright band along the "
                           "diagonal means that neighbours are alike, so that nearness can be "
                           "read off; a diagonal of single points means that every position is "
                           "a name of its own. A row unlike all others is a position that "
                           "training has singled out.";
    const char *length = "How far the vectors of two positions are apart. They all point the same "
                         "way, so that a position shows in the length of its vector alone.";
    int done = kit__album_add(a, &s, "Position similarity", name, folder, "position_similarity",
                              one_way ? length : likeness, why);
    free(cosine);
    return done;
}

static inline int kit__album_positions(kit_album *a, posenc_model *m, int T, const char *name,
                                       const char *folder, kit_error *why)
{
    int C = posenc_model_config(m)->channels;
    float *table = (float *)kit_new((size_t)T * (size_t)C, sizeof(float));
    int done = kit_position_table(table, m, T, why)
            && kit__album_table(a, table, T, C, name, folder, why)
            && kit__album_similarity(a, table, T, C, name, folder, why);
    free(table);
    return done;
}

static inline const char *kit__turns_caption(const kit_positions *k)
{
    if (k->turns_fade)
        return "Queries and keys are turned by their positions, and the further a key lies back "
               "the shorter it is for the query. Shown is the score of a query and a key that are "
               "the same vector, relative to that at distance 0. It depends on the distance "
               "alone: every diagonal has one colour.";
    if (k->turns_on_grid)
        return "Queries and keys are turned by their rows and columns. Shown is the mean over the "
               "pairs of channels of the cosine of the angle between two places, which is the "
               "score of a query and a key that are the same vector. It depends on the rows and "
               "the columns between them: blocks are rows of the grid, and the same column in the "
               "next row is near.";
    return "Queries and keys are turned by their positions. Shown is the mean over the pairs of "
           "channels of the cosine of the angle between two positions, which is the score of a "
           "query and a key that are the same vector. It depends on the distance alone: every "
           "diagonal has one colour.";
}

static inline int kit__album_turns(kit_album *a, posenc_model *m, int T, const char *name,
                                   const char *folder, kit_error *why)
{
    const posenc_config *c = posenc_model_config(m);
    kit_positions k = kit_positions_of(m);
    int layer[KIT_MAPS_LAYERS] = { 0 };
    int n = k.turns_by_layer ? kit__choose_layers(layer, c->layers, KIT_MAPS_LAYERS) : 1;
    size_t size = (size_t)T * (size_t)T;
    float *cosine = (float *)kit_new((size_t)n * size, sizeof(float));
    const float *map[KIT_MAPS_LAYERS];
    kit_names names = kit_names_make("layer", 0, layer, n);
    kit_sheet s = kit__square_sheet(map, T, "position");
    for (int i = 0; i < n; i++) {
        map[i] = cosine + (size_t)i * size;
        kit_turn_similarity(cosine + (size_t)i * size, m, layer[i], T);
    }
    for (size_t i = 0; k.turns_fade && i < (size_t)n * size; i++)   /* what follows would grow */
        if (!kit_may_look(c, NULL, (int)(i % size / (size_t)T), (int)(i % (size_t)T)))
            cosine[i] = NAN;
    s.cols = n;
    s.cell = kit_cell_for(T, n > 1 ? 256 : 512);
    s.col_name = n > 1 ? names.name : NULL;
    s.value_label = k.turns_fade ? "score" : "mean cosine";
    s.absent_label = "masked";
    s.subtitle = "the score of equal query and key, relative to that at distance 0";
    int done = kit__album_add(a, &s, "Rotation similarity", name, folder, "rotation_similarity",
                              kit__turns_caption(&k), why);
    kit_names_free(&names);
    free(cosine);
    return done;
}

/* Temperatures change far beyond a sequence that is drawn: the strip goes on to eight times the
   length at which they begin. */
static inline double kit__temper_reach(const posenc_model *m, int T)
{
    posenc_spec list[POSENC_SPECS];
    int specs = kit_specs_of(list, m);
    double reach = T;
    for (int s = 0; s < specs; s++)
        if (list[s].encoding == POSENC_QTEMP && 8 * list[s].original > reach)
            reach = 8 * list[s].original;
    return reach;
}

static inline int kit__album_temper(kit_album *a, posenc_model *m, int T, const char *name,
                                    const char *folder, kit_error *why)
{
    enum { N = KIT_ALBUM_STEPS, HIGH = 8 };
    int step = (int)ceil(kit__temper_reach(m, T) / N);
    double pos[N];
    float strip[HIGH * N];
    const float *map = strip;
    const char *no_word[HIGH] = { "", "", "", "", "", "", "", "" };
    kit_sheet s = kit__square_sheet(&map, N, NULL);
    for (int i = 0; i < N; i++) pos[i] = (double)i * step;
    kit_position_temperature(strip, m, pos, N);
    for (int i = N; i < HIGH * N; i++) strip[i] = strip[i - N];
    s.height = HIGH;
    s.tick_times = step;
    s.x_label = "position of the query";
    s.y_tick = no_word;
    s.diverging = 0;
    s.high = (double)strip[N - 1] > 1 ? (double)strip[N - 1] : 2;
    s.low = 1;
    s.value_label = "factor";
    s.subtitle = "by what the scores of a query are multiplied";
    return kit__album_add(a, &s, "Temperature", name, folder, "temperature",
                          "The longer the text, the more tokens share the attention of a query. "
                          "Its scores are multiplied by a number that grows with its position, so "
                          "that the largest still stand out.", why);
}

/* A map for each head, a row of them for each layer that is drawn. layer[0..layers-1] are those. */
static inline void kit__bias_maps(const float **map, float *bias, posenc_model *m, int T,
                                  const int *layer, int layers, int heads)
{
    size_t size = (size_t)T * (size_t)T, all = (size_t)posenc_model_config(m)->heads * size;
    for (int l = 0; l < layers; l++) {
        kit_position_bias(bias + (size_t)l * all, m, layer[l], T);
        for (int h = 0; h < heads; h++)
            map[l * heads + h] = bias + (size_t)l * all + (size_t)h * size;
    }
}

/* One bias for all layers: heads in rows of eight. A layer's own: a row for each, eight heads. */
static inline void kit__bias_sheet(kit_sheet *s, int layers, int heads, const kit_names *head,
                                   const kit_names *layer)
{
    s->cols = heads < 8 ? heads : 8;
    s->rows = layers > 1 ? layers : (heads + s->cols - 1) / s->cols;
    if (layers > 1) { s->row_name = layer->name; s->col_name = head->name; }
    else s->map_name = head->name;
    s->low = s->high = 0;
    s->x_label = "key position";
    s->y_label = "query position";
    s->power = 0.5;                        /* heads may differ a hundredfold: alibi's do */
    s->value_label = "added to score";
    s->absent_label = "masked";
}

static inline int kit__album_bias(kit_album *a, posenc_model *m, int T, const char *name,
                                  const char *folder, kit_error *why)
{
    const posenc_config *c = posenc_model_config(m);
    int layer[KIT_MAPS_LAYERS] = { 0 }, layers = 1, most = KIT_ALBUM_HEADS;
    if (kit_positions_of(m).bias_by_layer)
        layers = kit__choose_layers(layer, c->layers, KIT_MAPS_LAYERS);
    if (layers > 1) most = 8;
    int heads = c->heads < most ? c->heads : most;
    size_t all = (size_t)c->heads * (size_t)T * (size_t)T;
    float *bias = (float *)kit_new((size_t)layers * all, sizeof(float));
    const float *map[KIT_MAPS_LAYERS * 8 + KIT_ALBUM_HEADS] = { NULL };
    char about[80] = "what is added to the score of a query and a key";
    kit_names names = kit_names_make("head", 0, NULL, KIT_ALBUM_HEADS + 8);
    kit_names rows = kit_names_make("layer", 0, layer, layers);
    kit_sheet s = kit__square_sheet(map, T, "position");
    kit__bias_maps(map, bias, m, T, layer, layers, heads);
    kit__bias_sheet(&s, layers, heads, &names, &rows);
    if (heads < c->heads) snprintf(about, sizeof about, "heads 0 to %d of %d", heads - 1, c->heads);
    s.cell = kit_cell_for(T, 160);
    s.subtitle = about;
    int done = kit__album_add(a, &s, "Bias of the scores", name, folder, "bias",
                              "A number for each head and distance is added to the score before "
                              "the softmax: blue takes attention away, red adds to it. One unit "
                              "is a factor of 2.7 in weight.", why);
    kit_names_free(&names);
    kit_names_free(&rows);
    free(bias);
    return done;
}

static inline int kit__album_tokens(kit_album *a, posenc_model *m, const char *name,
                                    const char *folder, kit_error *why)
{
    posenc_tensor *words = posenc_model_find(m, "token_embedding.weight");
    const posenc_config *c = posenc_model_config(m);
    int n = c->vocab < KIT_ALBUM_ROWS ? c->vocab : KIT_ALBUM_ROWS;
    if (!words) return 1;
    float *row = (float *)kit_new((size_t)n * (size_t)c->channels, sizeof(float));
    float *cosine = (float *)kit_new((size_t)n * (size_t)n, sizeof(float));
    const float *map = cosine;
    char about[80] = "cosine similarity of the vectors of two tokens";
    kit_sheet s = kit__square_sheet(&map, n, "token");
    posenc_model_get(m, row, words->data, (size_t)n * (size_t)c->channels);
    kit_cosines(cosine, row, n, c->channels);
    kit__tell_apart(&s, cosine);
    if (n < c->vocab) snprintf(about, sizeof about, "tokens 0 to %d of %d", n - 1, c->vocab);
    s.absent_label = "no value";
    s.subtitle = about;
    int done = kit__album_add(a, &s, "Token similarity", name, folder, "token_similarity",
                              "How alike the embeddings of two tokens are. Training moves tokens "
                              "together that mean the same to the task; a fresh model shows noise "
                              "around 0.", why);
    free(row);
    free(cosine);
    return done;
}

/* Every picture that makes sense for the model's encodings, saved in folder. */
static inline int kit_album_make(kit_album *a, posenc_model *m, int T, const char *name,
                                 const char *folder, kit_error *why)
{
    kit_positions k = kit_positions_of(m);
    memset(a, 0, sizeof *a);
    if (T > KIT_ALBUM_ROWS) T = KIT_ALBUM_ROWS;
    return (!k.table || kit__album_positions(a, m, T, name, folder, why))
        && (!k.turns || kit__album_turns(a, m, T, name, folder, why))
        && (!k.temper || kit__album_temper(a, m, T, name, folder, why))
        && (!k.bias || kit__album_bias(a, m, T, name, folder, why))
        && kit__album_tokens(a, m, name, folder, why);
}

#endif
