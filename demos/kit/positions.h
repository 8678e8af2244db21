/* kit/positions.h - pictures of a model: what it knows about positions, and its embeddings

       kit_positions k = kit_positions_of(model);                    which pictures make sense
       kit_album_make(&album, model, T, "learned", folder, &why);    all of those

   Include posenc.h first; everything goes through its public calls. */
#ifndef KIT_POSITIONS_H
#define KIT_POSITIONS_H

#include "maps.h"

/* ---- what a model knows about positions ------------------------------------------------------
   table: vectors are added to the embedding, and can be compared with each other.
   turns: queries and keys are turned; what can be compared is the score of a query and a key that
          are the same vector, by where they stand.
   bias:  numbers are added to the scores, and are drawn as they are. */

typedef struct kit_positions {
    int table, turns, bias;                /* 1: this picture makes sense                         */
    int turns_by_layer;                    /* 1: each layer turns in its own way                  */
    int turns_on_grid;                     /* 1: by row and column                                */
    int other;                             /* 1: something else is there that nobody draws yet    */
} kit_positions;

/* A model's own config has every default filled in, those of its encodings as well. */
static inline int kit__specs_of(posenc_spec list[POSENC_SPECS], const posenc_model *m)
{
    int n = 0;
    const char *text = posenc_model_config(m)->encoding;
    return posenc_spec_parse(list, &n, POSENC_SPECS, text, NULL) == POSENC_OK ? n : 0;
}

static inline kit_positions kit_positions_of(const posenc_model *m)
{
    kit_positions k = { 0, 0, 0, 0, 0, 0 };
    posenc_spec list[POSENC_SPECS];
    int n = kit__specs_of(list, m);
    for (int i = 0; i < n; i++) {
        int e = list[i].encoding;
        if (e == POSENC_NONE) continue;
        if (posenc_encoding_get(e)->where == POSENC_EMBEDDING) k.table = 1;
        else if (e == POSENC_ROPE) k.turns = 1;
        else if (e == POSENC_ROPE2D) k.turns = k.turns_on_grid = 1;
        else if (e == POSENC_LROPE) k.turns = k.turns_by_layer = 1;
        else if (e == POSENC_ALIBI || e == POSENC_RELATIVE || e == POSENC_T5) k.bias = 1;
        else k.other = 1;
    }
    return k;
}

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

/* similarity (n, n): the cosine between any two of n rows of C numbers; NaN for a row of zeros */
static inline void kit_cosines(float *similarity, const float *row, int n, int C)
{
    double *length = (double *)kit_new((size_t)n, sizeof(double));
    for (int i = 0; i < n; i++)
        length[i] = sqrt(posenc_sum_squares(row + (size_t)i * (size_t)C, (size_t)C));
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            const float *a = row + (size_t)i * (size_t)C, *b = row + (size_t)j * (size_t)C;
            double dot = 0, both = length[i] * length[j];
            for (int c = 0; c < C; c++) dot += (double)a[c] * (double)b[c];
            double cosine = both > 0 ? i == j ? 1 : dot / both : NAN;
            similarity[(size_t)i * (size_t)n + (size_t)j] = (float)cosine;
            similarity[(size_t)j * (size_t)n + (size_t)i] = (float)cosine;
        }
    free(length);
}

/* rope2d: token t of a picture stands in row t / width and column t % width */
static inline void kit__turn_grid(posenc_heads rows, const posenc_spec *s)
{
    size_t T = (size_t)rows.T, pairs = (size_t)s->dim / 2;
    double *at = (double *)kit_new(2 * T + pairs, sizeof(double));
    float *table = (float *)kit_new(2 * T * pairs, sizeof(float));
    posenc_turns turns = { table, table + T * pairs, rows.T, s->dim / 2, 0, 0, s->layout, 2 };
    for (int t = 0; t < rows.T; t++) {
        at[2 * t] = t / s->width;
        at[2 * t + 1] = t % s->width;
    }
    posenc_rope2d_frequencies(at + 2 * T, s->dim, s->base);
    posenc_turns_fill(turns, at, at + 2 * T, NULL, 1);
    posenc_turn(rows, turns);
    free(at);
    free(table);
}

/* Turns rows x (T, D) by what a spec does in a layer; a spec that turns nothing leaves them. */
static inline void kit__turn_rows(float *x, posenc_model *m, const posenc_spec *s, int layer, int T,
                                  int D)
{
    posenc_heads rows = posenc_heads_bthd(x, 1, T, 1, D);
    char name[64];
    rows.D = s->dim;
    if (s->encoding == POSENC_ROPE) posenc_rope_forward(rows, NULL, s->layout, s->base);
    if (s->encoding == POSENC_ROPE2D) kit__turn_grid(rows, s);
    if (s->encoding != POSENC_LROPE) return;
    snprintf(name, sizeof name, "blocks.%d.pe.lrope.scale", layer);
    posenc_tensor *scale = posenc_model_find(m, name);
    if (!scale || (int)scale->count != s->dim / 2) return;
    float *host = (float *)kit_new(scale->count, sizeof(float));
    posenc_model_get(m, host, scale->data, scale->count);
    posenc_lrope_forward(rows, host, NULL, s->layout, s->base);
    free(host);
}

/* similarity (T, T): the mean over pairs of channels of cos(theta_i - theta_j), which is the score
   of a query and a key that are the same vector, relative to that at distance 0. */
static inline void kit_turn_similarity(float *similarity, posenc_model *m, int layer, int T)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_spec list[POSENC_SPECS];
    int specs = kit__specs_of(list, m), D = c->channels / c->heads;
    float *x = (float *)kit_new((size_t)T * (size_t)D, sizeof(float));
    for (int e = 0; e < specs; e++) {
        if (posenc_encoding_get(list[e].encoding)->where != POSENC_QUERY_KEY) continue;
        int dim = list[e].dim, half = list[e].layout != POSENC_INTERLEAVED;
        for (int t = 0; t < T; t++)        /* (1, 0) in each pair, wherever the layout puts it */
            for (int d = 0; d < D; d++)
                x[t * D + d] = half && d < dim ? d < dim / 2 : d % 2 == 0;
        kit__turn_rows(x, m, &list[e], layer, T, D);
        break;
    }
    kit_cosines(similarity, x, T, D);
    free(x);
}

/* Adds a spec's bias by distance, (H, 2T - 1). */
static inline void kit__add_bias(float *bias, posenc_model *m, const posenc_spec *s, int T)
{
    const posenc_config *c = posenc_model_config(m);
    int H = c->heads, rows = s->encoding == POSENC_T5 ? s->buckets : 2 * s->distance + 1;
    if (s->encoding == POSENC_ALIBI)
        posenc_alibi_forward(bias, H, T - 1, T - 1, s->bias_max);
    if (s->encoding != POSENC_RELATIVE && s->encoding != POSENC_T5) return;
    posenc_tensor *t = posenc_model_find(m, s->encoding == POSENC_T5 ? "pe.t5.weight"
                                                                     : "pe.relative.weight");
    if (!t || t->count != (size_t)rows * (size_t)H) return;
    float *table = (float *)kit_new(t->count, sizeof(float));
    posenc_model_get(m, table, t->data, t->count);
    if (s->encoding == POSENC_T5)
        posenc_t5_forward(bias, table, s->buckets, s->distance, s->bidirectional > 0, H, T - 1,
                          T - 1);
    else
        posenc_relative_forward(bias, table, s->distance, H, T - 1, T - 1);
    free(table);
}

/* bias (H, T, T): what is added to the scores of each head; NaN where it never counts */
static inline void kit_position_bias(float *bias, posenc_model *m, int T)
{
    const posenc_config *c = posenc_model_config(m);
    posenc_spec list[POSENC_SPECS];
    int specs = kit__specs_of(list, m);
    size_t size = (size_t)T * (size_t)T;
    float *by_distance = (float *)kit_new((size_t)c->heads * (size_t)(2 * T - 1), sizeof(float));
    for (int e = 0; e < specs; e++) kit__add_bias(by_distance, m, &list[e], T);
    memset(bias, 0, (size_t)c->heads * size * sizeof *bias);
    posenc_bias_expand(bias, by_distance, c->heads, T, T, T - 1, T - 1);
    for (size_t i = 0; i < (size_t)c->heads * size; i++) {
        int query = (int)(i % size / (size_t)T), key = (int)(i % (size_t)T);
        if (!kit_may_look(c, NULL, query, key)) bias[i] = NAN;
    }
    free(by_distance);
}

/* ---- the album: positions and embeddings of one model ---------------------------------------- */

enum {
    KIT_ALBUM_ROOM = 5,                    /* pictures                                            */
    KIT_ALBUM_HEADS = 32,                  /* heads whose bias is drawn                           */
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
    double least = 1;
    for (int i = 0; i < s->height * s->width; i++)
        if ((double)cosine[i] < least) least = (double)cosine[i];
    if (least < 0.8 || least > 0.999999) return;
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

static inline int kit__album_similarity(kit_album *a, const float *table, int T, int C,
                                        const char *name, const char *folder, kit_error *why)
{
    float *cosine = (float *)kit_new((size_t)T * (size_t)T, sizeof(float));
    const float *map = cosine;
    kit_sheet s = kit__square_sheet(&map, T, "position");
    kit_cosines(cosine, table, T, C);
    kit__tell_apart(&s, cosine);
    s.subtitle = "cosine similarity of the vectors of two positions";
    s.absent_label = "no value";
    int done = kit__album_add(a, &s, "Position similarity", name, folder, "position_similarity",
                              "How alike the vectors of two positions are. A bright band along the "
                              "diagonal means that neighbours are alike, so that nearness can be "
                              "read off; a diagonal of single points means that every position is "
                              "a name of its own. A row unlike all others is a position that "
                              "training has singled out.", why);
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

static inline int kit__album_turns(kit_album *a, posenc_model *m, int T, const char *name,
                                   const char *folder, kit_error *why)
{
    int layer[KIT_MAPS_LAYERS] = { 0 }, layers = posenc_model_config(m)->layers;
    int n = kit_positions_of(m).turns_by_layer ? kit__choose_layers(layer, layers, KIT_MAPS_LAYERS)
                                               : 1;
    size_t size = (size_t)T * (size_t)T;
    float *cosine = (float *)kit_new((size_t)n * size, sizeof(float));
    const float *map[KIT_MAPS_LAYERS];
    kit_names names = kit_names_make("layer", 0, layer, n);
    kit_sheet s = kit__square_sheet(map, T, "position");
    for (int i = 0; i < n; i++) {
        map[i] = cosine + (size_t)i * size;
        kit_turn_similarity(cosine + (size_t)i * size, m, layer[i], T);
    }
    s.cols = n;
    s.cell = kit_cell_for(T, n > 1 ? 256 : 512);
    s.col_name = n > 1 ? names.name : NULL;
    s.value_label = "mean cosine";
    s.subtitle = "the score of equal query and key, relative to that at distance 0";
    const char *line = "Queries and keys are turned by their positions. Shown is the mean over the "
                       "pairs of channels of the cosine of the angle between two positions, which "
                       "is the score of a query and a key that are the same vector. It depends on "
                       "the distance alone: every diagonal has one colour.";
    const char *grid = "Queries and keys are turned by their rows and columns. Shown is the mean "
                       "over the pairs of channels of the cosine of the angle between two places, "
                       "which is the score of a query and a key that are the same vector. It "
                       "depends on the rows and the columns between them: blocks are rows of the "
                       "grid, and the same column in the next row is near.";
    int done = kit__album_add(a, &s, "Rotation similarity", name, folder, "rotation_similarity",
                              kit_positions_of(m).turns_on_grid ? grid : line, why);
    kit_names_free(&names);
    free(cosine);
    return done;
}

static inline int kit__album_bias(kit_album *a, posenc_model *m, int T, const char *name,
                                  const char *folder, kit_error *why)
{
    int heads = posenc_model_config(m)->heads;
    int n = heads < KIT_ALBUM_HEADS ? heads : KIT_ALBUM_HEADS;
    int cols = n < 8 ? n : 8, rows = (n + cols - 1) / cols;
    size_t size = (size_t)T * (size_t)T;
    float *bias = (float *)kit_new((size_t)heads * size, sizeof(float));
    const float *map[KIT_ALBUM_HEADS + 8] = { NULL };
    char about[80] = "what is added to the score of a query and a key";
    kit_names names = kit_names_make("head", 0, NULL, rows * cols);
    kit_sheet s = kit__square_sheet(map, T, "position");
    kit_position_bias(bias, m, T);
    for (int h = 0; h < n; h++) map[h] = bias + (size_t)h * size;
    if (n < heads) snprintf(about, sizeof about, "heads 0 to %d of %d", n - 1, heads);
    s.rows = rows;
    s.cols = cols;
    s.cell = kit_cell_for(T, 160);
    s.low = s.high = 0;
    s.x_label = "key position";
    s.y_label = "query position";
    s.power = 0.5;                         /* heads may differ a hundredfold: alibi's do */
    s.value_label = "added to score";
    s.absent_label = "masked";
    s.map_name = names.name;
    s.subtitle = about;
    int done = kit__album_add(a, &s, "Bias of the scores", name, folder, "bias",
                              "A number for each head and distance is added to the score before "
                              "the softmax: blue takes attention away, red adds to it. One unit "
                              "is a factor of 2.7 in weight.", why);
    kit_names_free(&names);
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
        && (!k.bias || kit__album_bias(a, m, T, name, folder, why))
        && kit__album_tokens(a, m, name, folder, why);
}

#endif
