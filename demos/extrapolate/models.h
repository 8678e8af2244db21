/* extrapolate/models.h - the language models of E1: trained on texts of 128 bytes, asked at any
   length

   One trial for each encoding and seed: trained, measured on the same held-out bytes at every
   length, and kept. text.h tells what came out; scaling.h stretches the rope models, long.h reads
   far longer texts. */
#ifndef EXTRAPOLATE_MODELS_H
#define EXTRAPOLATE_MODELS_H

#include "lab.h"

/* ---- what is measured ------------------------------------------------------------------------ */

enum { TEXT_LENGTHS = 8, TEXT_FULL = 4, TEXT_PLACES = 12, TEXT_STRIDE = 32,
       TEXT_PLACES_LENGTH = 1024, TEXT_NUMBERS = TEXT_LENGTHS + TEXT_FULL + TEXT_PLACES };
enum { TEXT_BYTES = 61440, TEXT_BYTES_STEP = 30720, TEXT_FULL_BYTES = 8192 };

/* texts side by side; TEXT_BYTES is a multiple of each */
static const int text_length[TEXT_LENGTHS] = { 128, 160, 192, 256, 384, 512, 1024, 2048 };
/* full context: texts 32 apart, of which the last 32 bytes count */
static const int text_full[TEXT_FULL] = { 128, 192, 256, 512 };
/* the places of a text of 1024 in groups: the first one of each, and the end */
static const int text_place[TEXT_PLACES + 1] = { 0,   16,  32,  64,  96,  128, 160,
                                                 192, 256, 384, 512, 768, 1024 };

static int text_length_index(int T)
{
    for (int i = 0; i < TEXT_LENGTHS; i++)
        if (text_length[i] == T) return i;
    return -1;
}

/* as many held-out bytes as there are, in a number that every length divides */
static long text_bytes(const settings *s)
{
    size_t most = s->quick ? TEXT_BYTES_STEP : TEXT_BYTES;
    size_t room = s->corpus.held.size ? s->corpus.held.size - 1 : 0;
    return (long)((room < most ? room : most) / TEXT_BYTES_STEP * TEXT_BYTES_STEP);
}

/* ---- the models ------------------------------------------------------------------------------ */

static struct {
    spec_text spec[KIT_LIST_ROOM];
    int specs;
    double *value;                         /* (specs, seeds, TEXT_NUMBERS)                        */
} text;

static int text_steps(const settings *s) { return steps_of(s, 150, 1000); }

static double *text_numbers(const settings *s, int spec, int seed)
{
    return text.value + (size_t)(spec * s->seeds + seed) * TEXT_NUMBERS;
}

/* windows from anywhere in the text: which ones is a function of seed and step alone */
typedef struct feed {
    const kit_text *from;
    uint64_t seed;
    int B, T, first;                       /* first: number of the first step                     */
    int *tokens, *targets;                 /* (B,T)                                               */
} feed;

static feed feed_open(const kit_text *from, uint64_t seed, int B, int T)
{
    feed f = { from, seed, B, T, 0, NULL, NULL };
    f.tokens = (int *)kit_new((size_t)B * (size_t)T, sizeof(int));
    f.targets = (int *)kit_new((size_t)B * (size_t)T, sizeof(int));
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
    kit_random r = kit_random_open(f->seed, KIT_RANDOM_TRAIN, (uint64_t)(f->first + step));
    for (int b = 0; b < f->B; b++) {
        int at = kit_random_below(&r, (int)(f->from->size - (size_t)f->T));
        kit_corpus_window(f->tokens + b * f->T, f->targets + b * f->T, f->from, (size_t)at, f->T);
    }
    batch->B = f->B;
    batch->T = f->T;
    batch->tokens = f->tokens;
    batch->targets = f->targets;
}

/* the line of settings of a trial: what decides its numbers, and the text is a part of that */
static void text_settings(kit_text *line, const settings *s, const char *what, const char *spec,
                          uint64_t seed, int steps)
{
    kit_put(line,
            "extrapolate %s: --pe %s --seed %" PRIu64
            " --steps %d --measured %ld --text %s, sum %010" PRIx64,
            what, spec, seed, steps, text_bytes(s), s->corpus.name, s->corpus.sum >> 24);
}

static kit_trial text_trial(kit_text *line, const settings *s, const char *spec, uint64_t seed,
                            double *value)
{
    kit_trial t;
    char slug[128];
    memset(&t, 0, sizeof t);
    kit_spec_slug(slug, sizeof slug, spec);
    snprintf(t.name, sizeof t.name, "text-%s-s%" PRIu64, slug, seed);
    text_settings(line, s, "text", spec, seed, text_steps(s));
    t.settings = line->data;
    t.value = value;
    t.n = TEXT_NUMBERS;
    return t;
}

static int text_train(posenc_model *m, const kit_trial *t, const settings *s, uint64_t seed,
                      kit_lab *lab, kit_error *why)
{
    feed f = feed_open(&s->corpus.train, seed, NANO_BATCH, NANO_CONTEXT);
    kit_training how = nano_training(m, text_steps(s));
    how.fill = feed_fill;
    how.user = &f;
    int code = kit_trial_train(t, lab, &how, why);
    feed_close(&f);
    return code;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* texts of T in one call: about as many bytes whatever T is */
static int text_batch(int T) { return T < 4096 ? 4096 / T : 1; }

/* bits per byte of m, asked for texts of T under an encoding (NULL: its own), side by side */
static int text_bits(double *bits, posenc_model *m, const char *encoding, const settings *s, int T,
                     kit_error *why)
{
    posenc_model *longer = kit_longer(m, encoding, T, text_batch(T), why);
    int good = longer
            && kit_bits_per_byte(bits, longer, &s->corpus.held, T, 0, T, text_bytes(s), why);
    posenc_model_free(longer);
    return good;
}

/* the same bytes for every T: a longer text begins earlier */
static int text_bits_full(double *bits, posenc_model *m, const settings *s, int T, kit_error *why)
{
    size_t skip = (size_t)(text_full[TEXT_FULL - 1] - T);
    kit_text from = { s->corpus.held.data + skip, s->corpus.held.size - skip, 0 };
    posenc_model *longer = kit_longer(m, NULL, T, text_batch(T), why);
    int good = longer && kit_bits_per_byte(bits, longer, &from, T, T - TEXT_STRIDE, TEXT_STRIDE,
                                           TEXT_FULL_BYTES, why);
    posenc_model_free(longer);
    return good;
}

/* Surprise in bits of every byte of B texts of T, and whether it was the likeliest one. */
static int text_surprise(float *bits, unsigned char *hit, posenc_model *m, const feed *f,
                         kit_error *why)
{
    int rows = f->B * f->T, V = posenc_model_config(m)->vocab;
    float *logits = (float *)kit_new((size_t)rows * (size_t)V, sizeof *logits);
    posenc_batch batch;
    posenc_error said;
    memset(&batch, 0, sizeof batch);
    batch.B = f->B;
    batch.T = f->T;
    batch.tokens = f->tokens;
    int good = (posenc_model_forward(m, &batch, &said) == POSENC_OK
                && posenc_model_logits(m, logits, 0, rows, &said) == POSENC_OK)
            || kit_fail(why, "%s", said.text);
    if (good) posenc_crossentropy(bits, NULL, logits, f->targets, 1, rows, V);
    for (int r = 0; r < rows && good; r++) {
        const float *row = logits + (size_t)r * (size_t)V;
        int best = 0;
        for (int v = 1; v < V; v++)
            if (row[v] > row[best]) best = v;
        hit[r] = best == f->targets[r];
        bits[r] /= (float)log(2);
    }
    free(logits);
    return good;
}

/* Texts of T side by side: mean surprise by place, and the share of hits (either may be NULL). */
static int text_by_place(double *bits, double *hits, posenc_model *m, const kit_text *from, int T,
                         long count, kit_error *why)
{
    feed f = feed_open(from, 0, posenc_model_config(m)->batch, T);
    size_t room = (size_t)f.B * (size_t)T;
    float *one = (float *)kit_new(room, sizeof *one);
    unsigned char *hit = (unsigned char *)kit_new(room, 1);
    long texts = count / T, caught = 0;
    int good = 1, most = f.B;
    for (int t = 0; bits && t < T; t++) bits[t] = 0;
    for (long at = 0; at < texts && good; at += f.B) {
        f.B = texts - at < most ? (int)(texts - at) : most;
        for (int b = 0; b < f.B; b++)
            kit_corpus_window(f.tokens + b * T, f.targets + b * T, from,
                              (size_t)(at + b) * (size_t)T, T);
        good = text_surprise(one, hit, m, &f, why);
        for (int i = 0; i < f.B * T; i++) {
            caught += hit[i];
            if (bits) bits[i % T] += (double)one[i] / (double)texts;
        }
    }
    if (hits) *hits = (double)caught / (double)(texts * T);
    free(one);
    free(hit);
    feed_close(&f);
    return good;
}

/* loss by place in texts of 1024, the places in groups */
static int text_groups(double *value, posenc_model *m, const settings *s, kit_error *why)
{
    enum { T = TEXT_PLACES_LENGTH };
    double *bits = (double *)kit_new(T, sizeof *bits);
    posenc_model *longer = kit_longer(m, NULL, T, text_batch(T), why);
    int good = longer && text_by_place(bits, NULL, longer, &s->corpus.held, T, text_bytes(s), why);
    for (int g = 0; g < TEXT_PLACES; g++) {
        int n = text_place[g + 1] - text_place[g];
        value[g] = 0;
        for (int t = text_place[g]; t < text_place[g + 1]; t++) value[g] += bits[t] / n;
    }
    posenc_model_free(longer);
    free(bits);
    return good;
}

/* All numbers of a trained model; NaN where the encoding cannot go. */
static int text_measure(double *value, posenc_model *m, const settings *s, kit_error *why)
{
    const posenc_config *c = posenc_model_config(m);
    kit_error no;
    for (int i = 0; i < TEXT_NUMBERS; i++) value[i] = NAN;
    for (int i = 0; i < TEXT_LENGTHS && !kit_stopped(); i++)
        if (kit_reaches(c, text_length[i], &no)
            && !text_bits(&value[i], m, NULL, s, text_length[i], why))
            return 0;
    for (int i = 0; i < TEXT_FULL && !kit_stopped(); i++)
        if (kit_reaches(c, text_full[i], &no)
            && !text_bits_full(&value[TEXT_LENGTHS + i], m, s, text_full[i], why)) return 0;
    return !kit_reaches(c, TEXT_PLACES_LENGTH, &no) || kit_stopped()
        || text_groups(value + TEXT_LENGTHS + TEXT_FULL, m, s, why);
}

/* ---- one trial ------------------------------------------------------------------------------- */

/* Trained, measured and saved, each unless it was before. keep: receives the model (NULL: not
   wanted); then it is loaded even where the numbers are known. */
static int text_trial_run(posenc_model **keep, double *value, const settings *s, const char *spec,
                          uint64_t seed, kit_lab *lab, kit_error *why)
{
    kit_text line = { NULL, 0, 0 };
    kit_trial t = text_trial(&line, s, spec, seed, value);
    posenc_config config = nano_config(spec, seed);
    posenc_model *m = NULL;
    posenc_error said;
    int known = kit_trial_read(&t, lab, why), code = known < 0 ? FAILED : DONE;
    if (known == 1 && !keep) lab->bar.skipped += text_steps(s);
    else if (code == DONE) {
        config.threads = s->threads;
        if (posenc_model_create(&m, &config, &said) == POSENC_OK)
            code = text_train(m, &t, s, seed, lab, why);
        else code = (kit_fail(why, "%s", said.text), FAILED);
        if (code == DONE && !known && !text_measure(value, m, s, why)) code = FAILED;
        if (code == DONE && kit_stopped()) code = STOPPED;
        if (code == DONE && !known && !kit_trial_save(&t, lab, why)) code = FAILED;
    }
    lab->before += text_steps(s);
    if (code == DONE && keep) *keep = m;
    else posenc_model_free(m);
    kit_text_free(&line);
    return code;
}

/* Before another experiment uses a trial of this one: what is finished and fits stays, even without
   --resume; the same numbers would come out again. */
static int text_trial_clear(const settings *s, const char *spec, uint64_t seed, int borrowed,
                            const kit_lab *lab, kit_error *why)
{
    double value[TEXT_NUMBERS];
    kit_text line = { NULL, 0, 0 };
    kit_trial t = text_trial(&line, s, spec, seed, value);
    kit_lab look = *lab;
    kit_error no;
    look.resume = 1;
    int good = (borrowed && kit_trial_read(&t, &look, &no) == 1) || kit_trial_clear(&t, lab, why);
    kit_text_free(&line);
    return good;
}

/* ---- which encodings ------------------------------------------------------------------------- */

static int text_check(const settings *s, kit_args *a)
{
    static const kit_list usual = { { "none sinusoidal learned rope xpos alibi kerple t5" }, 1 };
    if (text.specs) return 1;                                /* long.h reads the same list */
    text.specs = kit_read_specs(a, s->pe.count ? &s->pe : &usual, text.spec);
    for (int i = 0; i < text.specs; i++) {
        posenc_config c = nano_config(text.spec[i], 1);
        posenc_bytes bytes;
        posenc_error said;
        if (posenc_model_bytes(&bytes, &c, &said) != POSENC_OK)
            return kit_usage(a, "%s", said.text);
        if (!kit_spec_reaches(a, text.spec[i], NANO_CONTEXT)) return 0;
    }
    return text.specs > 0;
}

/* every experiment on text needs so much of it */
static int text_suffices(const settings *s, kit_error *why)
{
    if (text_bytes(s) > 0) return 1;
    return kit_fail(
        why, "%s leaves %zu bytes to measure on, and %d are needed: a text of about %d bytes",
        s->corpus.name, s->corpus.held.size, TEXT_BYTES_STEP + 1, TEXT_BYTES_STEP * 20 + 2000);
}

/* its number in the list; -1 where it was not asked for */
static int text_find(const char *spec)
{
    for (int i = 0; i < text.specs; i++)
        if (strcmp(text.spec[i], spec) == 0) return i;
    return -1;
}

static int text_has(const char *spec) { return text_find(spec) >= 0; }

#endif
