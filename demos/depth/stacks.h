/* depth/stacks.h - the stacks that are compared, how they are trained, and what is read out of them

   A stack is a kind of block, an encoding and a depth, for each seed once: a next-byte model of 64
   channels. It is measured with the weights it starts with and, if it is trained, once more
   afterwards. Its numbers are a trial of kit/trial.h. */
#ifndef DEPTH_STACKS_H
#define DEPTH_STACKS_H

#include "kit/trial.h"
#include "maths.h"

enum { MOST_DEPTHS = 8, MOST_DEPTH = 64, MOST_SEEDS = 16, MOST_STACKS = 256 };
enum { LENGTH = 64, BATCH = 16, WIDTH = 64, HEADS = 4, HIDDEN = 256, VOCAB = 256 };
enum { WINDOWS = 256, REACH = 8, HELD_BYTES = 32768 };   /* windows: held-out texts looked into */

typedef struct numbers { int item[MOST_DEPTHS], count; } numbers;

typedef struct settings {
    const char *depth_text, *text, *out;
    numbers depths;
    spec_text spec[KIT_LIST_ROOM];
    int specs, steps, seeds, threads, resume, quick, quiet, cost;
    uint64_t seed;                         /* the first of `seeds`                                */
    double lr;
    kit_corpus corpus;
} settings;

/* ---- kinds of blocks ------------------------------------------------------------------------- */

enum { PRE_NORM, POST_NORM, NO_NORM, NO_RESIDUAL, NEITHER, KINDS };

static const struct { const char *name; int norm_place, norm, no_residual; } kinds[KINDS] = {
    { "pre-norm",    POSENC_PRE_NORM,  POSENC_LAYERNORM, 0 },          /* the usual block         */
    { "post-norm",   POSENC_POST_NORM, POSENC_LAYERNORM, 0 },          /* that of 2017            */
    { "no norm",     POSENC_PRE_NORM,  POSENC_NO_NORM,   0 },
    { "no residual", POSENC_PRE_NORM,  POSENC_LAYERNORM, 1 },   /* a branch replaces its input    */
    { "neither",     POSENC_PRE_NORM,  POSENC_NO_NORM,   1 }
};

/* ---- what is measured ---------------------------------------------------------------------------
   Layer 0 is the embedding, layer l what block l puts out; NaN where nothing is to be measured. */

enum {
    R2, EIGHTHS, SHARE,               /* the position: probe, probe in eighths, share of variance */
    COSINE, RANK, RANK_CENTRED, AWAY,      /* how alike tokens are; AWAY: distance from rank one */
    SCALE,                                 /* root mean square of the activations                 */
    GRADIENT, QK_GRADIENT,                 /* norm of the gradient of the layer's weights; of those
                                              that make queries and keys alone                    */
    ENTROPY, NEAR, DISTANCE,               /* where attention looks, mean of heads                */
    NEAREST,                               /* the same share as NEAR, of the head with most of it */
    MEASURES
};
static const char *const measure_names =
    "probe_r2,probe_eighths,position_share,cosine,stable_rank,stable_rank_centred,rank_one_"
    "distance,scale,gradient,gradient_qk,entropy,near,distance,nearest_head";

enum { UNTRAINED, TRAINED };
enum { TRAIN_LOSS, BITS_1X, BITS_2X, BITS_4X, CURVE, TAIL = CURVE + KIT_TRAIN_POINTS };

typedef struct stack {
    int kind, depth, causal, trained;
    const char *spec;
    double *value;                    /* (seeds, phases, depth + 1, MEASURES), then (seeds, TAIL) */
} stack;

static int stack_phases(const stack *k) { return k->trained ? 2 : 1; }
static size_t stack_layers_numbers(const stack *k)
{
    return (size_t)stack_phases(k) * (size_t)(k->depth + 1) * MEASURES;
}
static size_t stack_numbers(const stack *k) { return stack_layers_numbers(k) + TAIL; }

static double *stack_layer(const stack *k, int seed, int phase, int layer)
{
    return k->value + (size_t)seed * stack_numbers(k)
           + (size_t)(phase * (k->depth + 1) + layer) * MEASURES;
}
static double *stack_tail(const stack *k, int seed)
{
    return k->value + (size_t)seed * stack_numbers(k) + stack_layers_numbers(k);
}

/* ---- the list of stacks -------------------------------------------------------------------------
   The first encoding in every kind of block at every depth; the others in the usual block, at every
   second depth. Then, untrained and at the greatest depth, what attention to both sides does: each
   kind with the first encoding, and the usual block without any. */

typedef struct study { const settings *set; stack item[MOST_STACKS]; int count; } study;

static void study_add(study *y, int kind, const char *spec, int depth, int causal, int trained)
{
    stack k = { kind, depth, causal, trained, spec, NULL };
    k.value = (double *)kit_new((size_t)y->set->seeds * stack_numbers(&k), sizeof(double));
    y->item[y->count++] = k;
}

static int deepest(const settings *s) { return s->depths.item[s->depths.count - 1]; }

static study study_list(const settings *s)
{
    study y;
    memset(&y, 0, sizeof y);
    y.set = s;
    for (int kind = 0; kind < KINDS; kind++)
        for (int d = 0; d < s->depths.count; d++)
            study_add(&y, kind, s->spec[0], s->depths.item[d], 1, 1);
    for (int e = 1; e < s->specs; e++)
        for (int d = 0; d < s->depths.count; d += 2)
            study_add(&y, PRE_NORM, s->spec[e], s->depths.item[d], 1, 1);
    for (int kind = 0; kind < KINDS; kind++) study_add(&y, kind, s->spec[0], deepest(s), 0, 0);
    if (strcmp(s->spec[0], "none") != 0) study_add(&y, PRE_NORM, "none", deepest(s), 0, 0);
    return y;
}

static void study_free(study *y)
{
    for (int i = 0; i < y->count; i++) free(y->item[i].value);
}

/* NULL: it is not in the list */
static const stack *study_find(const study *y, int kind, const char *spec, int depth, int causal)
{
    for (int i = 0; i < y->count; i++) {
        const stack *k = &y->item[i];
        if (k->kind == kind && k->depth == depth && k->causal == causal
            && strcmp(k->spec, spec) == 0)
            return k;
    }
    return NULL;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Token embeddings start with a spread of 1, so that sine waves (0.7 on average) do not drown
   them. */
static posenc_config stack_config(const stack *k, const settings *s, uint64_t seed)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = k->spec;
    c.vocab = VOCAB;
    c.context = LENGTH;
    c.batch = BATCH;
    c.layers = k->depth;
    c.channels = WIDTH;
    c.heads = HEADS;
    c.hidden = HIDDEN;
    c.causal = k->causal;
    c.norm = kinds[k->kind].norm;
    c.norm_place = kinds[k->kind].norm_place;
    c.no_residual = kinds[k->kind].no_residual;
    c.activation = POSENC_RELU;
    c.embedding_init = 1;
    c.threads = s->threads;
    c.seed = seed;
    return c;
}

static posenc_model *stack_open(const stack *k, const settings *s, uint64_t seed, kit_error *why)
{
    posenc_config c = stack_config(k, s, seed);
    posenc_error said;
    posenc_model *m;
    if (posenc_model_create(&m, &c, &said) != POSENC_OK) kit_fail(why, "%s", said.text);
    return m;
}

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct feed {
    const settings *set;
    uint64_t seed;
    int *tokens, *targets;
    posenc_batch batch;
} feed;

static feed feed_open(const settings *s, uint64_t seed)
{
    feed f;
    memset(&f, 0, sizeof f);
    f.set = s;
    f.seed = seed;
    f.tokens = (int *)kit_new(BATCH * LENGTH, sizeof(int));
    f.targets = (int *)kit_new(BATCH * LENGTH, sizeof(int));
    f.batch.B = BATCH;
    f.batch.T = LENGTH;
    f.batch.tokens = f.tokens;
    f.batch.targets = f.targets;
    return f;
}

static void feed_close(feed *f)
{
    free(f->tokens);
    free(f->targets);
}

static void feed_fill(void *user, posenc_batch *batch, int step)
{
    feed *f = (feed *)user;
    const kit_text *from = &f->set->corpus.train;
    kit_random r = kit_random_open(f->seed, KIT_RANDOM_TRAIN, (uint64_t)step);
    for (int b = 0; b < BATCH; b++) {
        int at = kit_random_below(&r, (int)from->size - LENGTH);
        kit_corpus_window(f->tokens + b * LENGTH, f->targets + b * LENGTH, from, (size_t)at,
                          LENGTH);
    }
    *batch = f->batch;
}

/* batch i of WINDOWS / BATCH, spread evenly over the held-out text, the same for all models */
static void feed_held(feed *f, int i)
{
    const kit_text *from = &f->set->corpus.held;
    for (int b = 0; b < BATCH; b++) {
        size_t at = (from->size - LENGTH - 1) / WINDOWS * (size_t)(i * BATCH + b);
        kit_corpus_window(f->tokens + b * LENGTH, f->targets + b * LENGTH, from, at, LENGTH);
    }
}

/* ---- measuring one model --------------------------------------------------------------------- */

/* what layer 0..depth put out: x (depth + 1, WINDOWS * LENGTH, WIDTH) */
static const posenc_tensor *layer_output(posenc_model *m, int layer)
{
    char name[64];
    snprintf(name, sizeof name, layer ? "blocks.%d.out" : "embedding", layer - 1);
    return posenc_model_find(m, name);
}

static void measure_states(double *value, const float *x)
{
    enum { SEQUENCE = LENGTH * WIDTH };
    double token[SEQUENCE], centred[SEQUENCE];
    probed p = probe_position(x, WINDOWS, LENGTH, WIDTH);
    value[R2] = p.r2;
    value[EIGHTHS] = p.eighths;
    value[SHARE] = position_share(x, WINDOWS, LENGTH, WIDTH);
    value[SCALE] = root_mean_square(x, (size_t)WINDOWS * SEQUENCE);
    value[COSINE] = value[RANK] = value[RANK_CENTRED] = value[AWAY] = 0;
    for (int i = 0; i < BATCH; i++) {
        const float *one = x + (size_t)i * SEQUENCE;
        for (int k = 0; k < SEQUENCE; k++) token[k] = (double)one[k];
        remove_mean(centred, token, LENGTH, WIDTH);
        value[COSINE] += mean_cosine(one, LENGTH, WIDTH) / BATCH;
        value[RANK] += stable_rank(token, LENGTH, WIDTH) / BATCH;
        value[RANK_CENTRED] += stable_rank(centred, LENGTH, WIDTH) / BATCH;
        value[AWAY] += distance_from_rank_one(token, LENGTH, WIDTH) / BATCH;
    }
}

/* of block `layer`, counted from 1, behind a forward; rows that see fewer than REACH keys have no
   far */
static int measure_attention(double *value, posenc_model *m, int layer, float *map, kit_error *why)
{
    posenc_error said;
    double near[HEADS] = { 0 };
    value[ENTROPY] = value[NEAR] = value[DISTANCE] = value[NEAREST] = 0;
    if (posenc_model_attention(m, map, layer - 1, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    for (int i = 0; i < BATCH * HEADS; i++) {
        look l = look_of(map + (size_t)i * LENGTH * LENGTH, LENGTH, posenc_model_config(m)->causal,
                         REACH, REACH);
        value[ENTROPY] += l.entropy / (BATCH * HEADS);
        value[NEAR] += l.near / (BATCH * HEADS);
        value[DISTANCE] += l.distance / (BATCH * HEADS);
        near[i % HEADS] += l.near / BATCH;
    }
    for (int h = 0; h < HEADS; h++) value[NEAREST] = fmax(value[NEAREST], near[h]);
    return 1;
}

/* adds what tensor t has to its layer's squares */
static void add_gradient(double *value, posenc_model *m, const posenc_tensor *t)
{
    int layer = strncmp(t->name, "blocks.", 7) == 0 ? atoi(t->name + 7) + 1 : 0;
    if (layer == 0 && !strstr(t->name, "embedding") && strncmp(t->name, "pe.", 3) != 0) return;
    float *g = (float *)kit_new(t->count, sizeof *g);
    posenc_model_get(m, g, t->grad, t->count);
    double squares = posenc_sum_squares(g, t->count);
    value[layer * MEASURES + GRADIENT] += squares;
    if (strstr(t->name, "q_proj.weight") || strstr(t->name, "k_proj.weight"))
        value[layer * MEASURES + QK_GRADIENT] += squares;
    free(g);
}

/* Norm of the gradient of all weights of a block; of the embedding's tables for layer 0. It leaves
   gradients behind: for a model that is thrown away. NaN where the loss is not finite. */
static void measure_gradients(double *value, posenc_model *m, feed *f, int depth)
{
    double loss;
    posenc_error said;
    feed_held(f, 0);
    int fine = posenc_model_train(m, &f->batch, &loss, &said) == POSENC_OK;
    for (int l = 0; l <= depth; l++)
        value[l * MEASURES + GRADIENT] = value[l * MEASURES + QK_GRADIENT] = fine ? 0 : NAN;
    for (int i = 0; i < posenc_model_parameters(m) && fine; i++)
        add_gradient(value, m, posenc_model_parameter(m, i));
    for (int l = 0; l <= depth; l++)
        for (int k = GRADIENT; k <= QK_GRADIENT; k++)
            value[l * MEASURES + k] = l > 0 || k == GRADIENT ? sqrt(value[l * MEASURES + k]) : NAN;
}

/* value (depth + 1, MEASURES) */
static int measure_model(double *value, posenc_model *m, feed *f, kit_error *why)
{
    int depth = posenc_model_config(m)->layers, fine = 1;
    size_t rows = BATCH * LENGTH * WIDTH, all = WINDOWS * LENGTH * WIDTH;
    float *x = (float *)kit_new((size_t)(depth + 1) * all, sizeof *x);
    float *map = (float *)kit_new((size_t)BATCH * HEADS * LENGTH * LENGTH, sizeof *map);
    posenc_error said;
    for (int i = 0; i < (depth + 1) * MEASURES; i++) value[i] = NAN;
    for (int i = WINDOWS / BATCH - 1; i >= 0 && fine; i--) {          /* the first ones come last */
        feed_held(f, i);
        fine = posenc_model_forward(m, &f->batch, &said) == POSENC_OK
               || kit_fail(why, "%s", said.text);
        for (int l = 0; l <= depth && fine; l++)
            posenc_model_get(m, x + (size_t)l * all + (size_t)i * rows, layer_output(m, l)->data,
                             rows);
    }
    for (int l = 1; l <= depth && fine; l++)
        fine = measure_attention(value + l * MEASURES, m, l, map, why);
    for (int l = 0; l <= depth && fine; l++)
        measure_states(value + l * MEASURES, x + (size_t)l * all);
    if (fine) measure_gradients(value, m, f, depth);
    free(x);
    free(map);
    return fine;
}

/* Bits per byte of the held-out text in texts of the trained length and two and four times that.
   NaN where the encoding cannot go. */
static long held_bytes(const settings *s)
{
    long room = (long)(s->corpus.held.size - 1) / (4 * LENGTH) * (4 * LENGTH);
    return room < HELD_BYTES ? room : HELD_BYTES;
}

static int measure_beyond(double *tail, posenc_model *m, const settings *s, kit_error *why)
{
    for (int i = 0; i < 3; i++) {
        kit_error ignored;
        int T = LENGTH << i, fine;
        tail[BITS_1X + i] = NAN;
        if (!kit_reaches(posenc_model_config(m), T, &ignored)) continue;
        posenc_model *longer = kit_longer(m, NULL, T, BATCH * LENGTH / T, why);
        if (!longer) return 0;
        fine = kit_bits_per_byte(&tail[BITS_1X + i], longer, &s->corpus.held, T, 0, T,
                                 held_bytes(s), why);
        posenc_model_free(longer);
        if (!fine) return 0;
    }
    return 1;
}

/* ---- one trial ------------------------------------------------------------------------------- */

static kit_trial stack_trial(kit_text *line, const stack *k, const settings *s, int seed)
{
    kit_trial t;
    char slug[128];
    memset(&t, 0, sizeof t);
    kit_spec_slug(slug, sizeof slug, k->spec);
    snprintf(t.name, sizeof t.name, "%s-%s-%d%s-s%" PRIu64, kinds[k->kind].name, slug, k->depth,
             k->causal ? "" : "-both-sides", s->seed + (uint64_t)seed);
    for (char *c = t.name; *c; c++) if (*c == ' ') *c = '-';
    kit_put(line, "depth: --blocks %s --pe %s --depth %d --causal %d --seed %" PRIu64
            " --steps %d --lr %g --text %s, sum %010" PRIx64,
            kinds[k->kind].name, k->spec, k->depth, k->causal, s->seed + (uint64_t)seed,
            k->trained ? s->steps : 0, s->lr, s->corpus.name, s->corpus.sum >> 24);
    t.settings = line->data;
    t.value = k->value + (size_t)seed * stack_numbers(k);
    t.n = (int)stack_numbers(k);
    return t;
}

static long stack_work(const stack *k, const settings *s)
{
    return k->trained ? (long)s->steps * (k->depth + 1) : 0;
}

/* AdamW .9/.95, clip 1; the rate rises over a tenth of the steps, then follows half a cosine */
static kit_training stack_training(posenc_model *m, const settings *s)
{
    kit_training t;
    memset(&t, 0, sizeof t);
    t.model = m;
    t.steps = s->steps;
    t.optimizer.beta1 = 0.9;
    t.optimizer.beta2 = 0.95;
    t.optimizer.clip = 1;
    t.schedule.kind = POSENC_COSINE;
    t.schedule.peak = s->lr;
    t.schedule.floor = 0.1;
    t.schedule.warmup = s->steps / 10;
    t.schedule.total = s->steps;
    t.weight = posenc_model_config(m)->layers + 1;
    return t;
}

/* A loss that stops being a number is a finding: everything behind it stays NaN. */
static int stack_train(const kit_trial *t, const stack *k, kit_lab *lab, feed *f, int seed,
                       kit_error *why)
{
    const settings *s = f->set;
    double *tail = stack_tail(k, seed), *trained = stack_layer(k, seed, TRAINED, 0);
    posenc_model *m = stack_open(k, s, s->seed + (uint64_t)seed, why);
    if (!m) return FAILED;
    kit_training how = stack_training(m, s);
    how.fill = feed_fill;
    how.user = f;
    int code = kit_trial_train(t, lab, &how, why);
    for (int i = 0; i < how.points; i++) tail[CURVE + i] = how.loss[i];
    for (int i = 0; i < (k->depth + 1) * MEASURES; i++) trained[i] = NAN;
    if (code == FAILED && how.diverged) code = DONE;
    else if (code == DONE) {
        tail[TRAIN_LOSS] = how.loss[how.points - 1];
        if (!measure_beyond(tail, m, s, why) || !measure_model(trained, m, f, why)) code = FAILED;
    }
    posenc_model_free(m);
    return code;
}

/* the checkpoint of a trial that is done: twenty megabytes that nobody asks for any more */
static void forget_checkpoint(const kit_lab *lab, const kit_trial *t)
{
    char path[KIT_PATH];
    kit_error ignored;
    if (kit__trial_path(path, lab, t, "safetensors", &ignored)) unlink(path);
}

static int stack_measure(const kit_trial *t, const stack *k, kit_lab *lab, int seed,
                         const settings *s, kit_error *why)
{
    double *tail = stack_tail(k, seed);
    feed f = feed_open(s, s->seed + (uint64_t)seed);
    posenc_model *m = stack_open(k, s, f.seed, why);
    int code = m && measure_model(stack_layer(k, seed, UNTRAINED, 0), m, &f, why) ? DONE : FAILED;
    posenc_model_free(m);
    for (int i = 0; i < TAIL; i++) tail[i] = NAN;
    if (code == DONE && k->trained) code = stack_train(t, k, lab, &f, seed, why);
    feed_close(&f);
    if (code == DONE && !kit_trial_save(t, lab, why)) code = FAILED;
    if (code == DONE) forget_checkpoint(lab, t);
    return code;
}

static int stack_run(const stack *k, kit_lab *lab, int seed, const settings *s, kit_error *why)
{
    kit_text line = { NULL, 0, 0 };
    kit_trial t = stack_trial(&line, k, s, seed);
    int there = kit_trial_read(&t, lab, why), code = there < 0 ? FAILED : DONE;
    double began = kit_seconds();
    if (there == 0) code = stack_measure(&t, k, lab, seed, s, why);
    if (there == 1) lab->bar.skipped += stack_work(k, s);
    if (code == DONE) lab->before += stack_work(k, s);
    if (code == DONE && !lab->quiet && there == 0 && k->trained)
        printf("%-40s %.3f bits per byte, %.0f s\n", t.name, stack_tail(k, seed)[BITS_1X],
               kit_seconds() - began);
    fflush(stdout);
    kit_text_free(&line);
    return code;
}

/* the first seed of all stacks, then the next */
static int study_run(const study *y, kit_lab *lab, kit_error *why)
{
    int trials = y->count * y->set->seeds, code = DONE;
    for (int i = 0; i < trials && code == DONE; i++) {
        kit_text line = { NULL, 0, 0 };
        kit_trial t = stack_trial(&line, &y->item[i % y->count], y->set, i / y->count);
        if (!kit_trial_clear(&t, lab, why)) code = FAILED;
        kit_text_free(&line);
    }
    for (int i = 0; i < trials && code == DONE; i++)
        code = kit_stopped() ? STOPPED
                             : stack_run(&y->item[i % y->count], lab, i / y->count, y->set, why);
    return code;
}

static long study_work(const study *y)
{
    long sum = 0;
    for (int i = 0; i < y->count; i++) sum += stack_work(&y->item[i], y->set) * y->set->seeds;
    return sum;
}

#endif
