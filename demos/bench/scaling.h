/* bench/scaling.h - speed and memory against length, batch, width and threads

   One small causal model throughout: 2 layers, 64 channels, 4 heads, a vocabulary of 256, unless
   the experiment is about one of these. Against the length a step always has 4096 tokens, so that
   only attention and the encoding can make a difference. */
#ifndef BENCH_SCALING_H
#define BENCH_SCALING_H

#include "bench/results.h"

enum { STEP_TOKENS = 4096, STUDY_POINTS = 16, STUDY_LINES = 6 };

/* ---- a study: lines of a chart --------------------------------------------------------------- */

typedef struct study_line {
    const char *name;
    int plain;                             /* 1: a control                                        */
    int n;
    double x[STUDY_POINTS], y[STUDY_POINTS];
    timing time[STUDY_POINTS];             /* of a step; all zero in the study of memory          */
} study_line;

typedef struct study {
    const char *slug, *title, *x_label, *y_label, *says;
    int log_y;
    study_line line[STUDY_LINES];
    int lines;
} study;

enum { LENGTH, BATCH, WIDTH, THREADS, MEMORY, STUDIES };

typedef struct scaling {
    const settings *set;
    kit_progress bar;
    long done;
    kit_text remarks;                      /* sentences about what could not be, a line each      */
    study study[STUDIES];
} scaling;

static study *study_begin(scaling *a, int which, const char *slug, const char *title,
                          const char *x_label, const char *says)
{
    study *s = &a->study[which];
    s->slug = slug;
    s->title = title;
    s->x_label = x_label;
    s->y_label = "thousand tokens/s";
    s->says = says;
    return s;
}

static study_line *study_add(study *s, const char *name)
{
    study_line *l = &s->line[s->lines++];
    l->name = name;
    return l;
}

static posenc_config small_model(const char *spec, int T, int B)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = spec;
    c.vocab = 256;
    c.context = T;
    c.batch = B;
    c.layers = 2;
    c.channels = 64;
    c.heads = 4;
    c.causal = 1;
    c.seed = 1;
    c.threads = posenc_threads();
    return c;
}

static int small_start(stage *s, const posenc_config *c, kit_error *why)
{
    posenc_optimizer o;
    memset(&o, 0, sizeof o);
    memset(s, 0, sizeof *s);
    return step_start(s, c, &o, why);
}

/* A point: thousands of tokens in a second. What cannot be is left out with a remark. */
static void study_point(scaling *a, study_line *l, double x, const posenc_config *c)
{
    stage s;
    kit_error why;
    timing t = { 0, 0, 0, 0, 0 };
    why.text[0] = 0;
    if (kit_stopped() || l->n == STUDY_POINTS) return;
    kit_progress_at(&a->bar, a->done++, l->name);
    if (small_start(&s, c, &why))
        t = bench_measure(step_go, &s, a->set->seconds, a->set->repeats);
    if (s.wrong.text[0]) kit_fail(&why, "%s", s.wrong.text);
    stage_close(&s);
    if (why.text[0]) kit_put(&a->remarks, "%s at %g: %s\n", l->name, x, why.text);
    if (why.text[0] || t.samples == 0) return;
    l->x[l->n] = x;
    l->y[l->n] = 1e-3 * c->batch * c->context / t.median;
    l->time[l->n++] = t;
}

/* ---- the studies ----------------------------------------------------------------------------- */

static const int lengths[] = { 32, 64, 128, 256, 512, 1024, 2048, 4096 };
static const int quick_lengths[] = { 32, 256, 1024, 4096 };
static const char *const shown_encodings[] = { "none", "sinusoidal", "learned", "rope", "alibi",
                                               "t5" };
enum { LENGTHS = 8, QUICK_LENGTHS = 4, SHOWN_ENCODINGS = 6, QUICK_ENCODINGS = 4 };

static int batch_for(int T) { return T < STEP_TOKENS ? STEP_TOKENS / T : 1; }

static void study_length(scaling *a)
{
    static const char *const quick[] = { "none", "learned", "rope", "t5" };
    study *s = study_begin(a, LENGTH, "length", "Speed against length",
                           "tokens in a text; a step has 4096",
                           "Every step has 4096 tokens, in many short texts or in one long one. "
                           "The more of them see each other, the more work a token is.");
    int all = a->set->quick ? QUICK_ENCODINGS : SHOWN_ENCODINGS;
    for (int e = 0; e < all; e++) {
        const char *spec = a->set->quick ? quick[e] : shown_encodings[e];
        study_line *l = study_add(s, spec);
        l->plain = e == 0;
        for (int i = 0; i < (a->set->quick ? QUICK_LENGTHS : LENGTHS); i++) {
            int T = a->set->quick ? quick_lengths[i] : lengths[i];
            posenc_config c = small_model(spec, T, batch_for(T));
            study_point(a, l, T, &c);
        }
    }
}

static void study_batch(scaling *a)
{
    study *s = study_begin(a, BATCH, "batch", "Speed against batch", "texts in a step",
                           "Small steps do not fill the machine: each operator waits for all "
                           "threads, and rereads the weights. rope, 2 layers of 64 channels.");
    static const int length[2] = { 32, 256 };
    static const char *const name[2] = { "32 tokens each", "256 tokens each" };
    for (int k = 0; k < 2; k++) {
        study_line *l = study_add(s, name[k]);
        for (int B = 1; B <= 64; B *= a->set->quick ? 4 : 2) {
            posenc_config c = small_model("rope", length[k], B);
            study_point(a, l, B, &c);
        }
    }
}

static void study_width(scaling *a)
{
    study *s = study_begin(a, WIDTH, "width", "Speed against width", "channels",
                           "Products grow with the square of the width, everything else with the "
                           "width. rope, heads of 16 channels, 2 layers, 8 texts of 128 tokens.");
    study_line *l = study_add(s, "rope");
    s->log_y = 10;
    for (int C = 32; C <= (a->set->quick ? 512 : 1024); C *= a->set->quick ? 4 : 2) {
        posenc_config c = small_model("rope", 128, 8);
        c.channels = C;
        c.heads = C / 16;
        study_point(a, l, C, &c);
    }
}

static void use_threads(int n)
{
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

/* 1, 2, 4, ... and all of them */
static void study_threads(scaling *a)
{
    study *s = study_begin(a, THREADS, "threads", "Speed against threads", "threads",
                           "The larger the step, the nearer to a straight line. rope, 2 layers, 16 "
                           "texts of 128 tokens.");
    static const int width[2] = { 64, 256 };
    static const char *const name[2] = { "64 channels", "256 channels" };
    int most = posenc_threads();
    for (int k = 0; k < 2; k++) {
        study_line *l = study_add(s, name[k]);
        for (int n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
            use_threads(n);
            posenc_config c = small_model("rope", 128, 16);
            c.channels = width[k];
            c.heads = width[k] / 16;
            study_point(a, l, n, &c);
        }
    }
    use_threads(most);
}

/* Nothing is allocated: the library says what a model would take. Megabytes. */
static void study_memory(scaling *a)
{
    study *s = study_begin(a, MEMORY, "memory", "Memory against length", "tokens in a text",
                           "What a model takes for training with one text at a time: weights, "
                           "gradients, moments and activations. Attention is tiled, so it grows "
                           "with the length; maps kept for the backward would grow with its "
                           "square.");
    study_line *ours = study_add(s, "posenc.h, rope"), *maps = study_add(s, "plain maps alone");
    s->y_label = "megabytes";
    s->log_y = 10;
    maps->plain = 1;
    for (int T = 32; T <= 4096; T *= 2) {
        posenc_config c = small_model("rope", T, 1);
        posenc_bytes bytes;
        if (posenc_model_bytes(&bytes, &c, NULL) != POSENC_OK) continue;
        ours->x[ours->n] = maps->x[maps->n] = T;
        ours->y[ours->n++] = 1e-6 * (double)bytes.total;
        maps->y[maps->n++] = 1e-6 * c.layers * c.heads * (double)T * T * sizeof(posenc_float);
    }
}

/* points that are timed, for the bar */
static long study_count(const settings *s)
{
    int threads = 0;
    for (int n = 1; n <= posenc_threads(); n *= 2) threads++;
    long length = s->quick ? QUICK_ENCODINGS * QUICK_LENGTHS : SHOWN_ENCODINGS * LENGTHS;
    return length + (s->quick ? 2 * 4 + 3 : 2 * 7 + 6) + 2 * threads;
}

#endif
