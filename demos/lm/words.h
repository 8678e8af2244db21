/* lm/words.h - E7: why sin-only, binary and decimal positions work, or fail

   pos-enc-bench proposes to add a position to the embedding as sines alone, as bits, or as decimal
   digits, and published no figure. Theory has expectations:

       PE(p + k) = M_k PE(p)   holds for pairs of sine and cosine, so that a linear layer can shift
                               by k; a sine alone lacks its cosine, and a carry is not linear
       rank                    bits of 0..1023 span 10 directions, digits 4; a norm from -1 to 1
                               adds a constant direction that outweighs them
       size                    waves are of size sqrt(d/2), a token of 0.02 sqrt(d): hence the
                               factor sqrt(d) on the embedding

   All of that is measured here, on the tables and on small models of English text: bits per byte
   with the factor and without, and the loss at each place, which should jump where digits carry. */
#ifndef LM_WORDS_H
#define LM_WORDS_H

#include "lm/lab.h"
#include "lm/probe.h"

/* ---- which models ---------------------------------------------------------------------------- */

enum { LM_WORDS_T = 128, LM_WORDS_BATCH = 32, LM_WORDS_QUICK = 300, LM_WORDS_FULL = 500,
       LM_WORDS_BYTES = 61440,             /* measured side by side                               */
       LM_WORDS_BLOCKS = 8, LM_WORDS_STARTS = 512,     /* windows for the loss by place           */
       LM_WORDS_NUMBERS = 2 + LM_WORDS_T };    /* bits per byte, size of a token, bits by place   */

static inline int lm_words_check(lm_setup *s, kit_args *a)
{
    static const kit_list quick = { { "rope sinusoidal binary decimal" }, 1 };
    static const kit_list full = { { "none sinusoidal sinonly binary binary_norm decimal "
                                     "decimal_norm rope learned alibi t5 kerple xpos lrope" }, 1 };
    s->specs = kit_read_specs(a, s->pe.count ? &s->pe : s->quick ? &quick : &full, s->spec);
    for (int i = 0; i < s->specs; i++) {
        posenc_config c;
        posenc_bytes bytes;
        posenc_error said;
        memset(&c, 0, sizeof c);
        lm_nano(&c, s->spec[i], 1);
        if (posenc_model_bytes(&bytes, &c, &said) != POSENC_OK)
            return kit_usage(a, "%s", said.text);
        if (!kit_spec_reaches(a, s->spec[i], LM_WORDS_T)) return 0;
    }
    return s->specs > 0;
}

/* Encodings that are added, and two that are not for comparison, are also trained without the
   factor sqrt(d). */
static inline int lm_words_both(const char *spec)
{
    posenc_spec list[POSENC_SPECS];
    int count = 0, added = 0;
    posenc_spec_parse(list, &count, POSENC_SPECS, spec, NULL);
    for (int i = 0; i < count; i++)
        added += posenc_encoding_get(list[i].encoding)->where == POSENC_EMBEDDING;
    return added > 0 || strcmp(spec, "none") == 0 || strcmp(spec, "rope") == 0;
}

/* model m: the specs with the factor, then those that are trained without it too */
typedef struct lm__words_model { int spec, scaled; } lm__words_model;

static inline int lm__words_models(const lm_setup *s)
{
    int n = s->specs;
    for (int i = 0; i < s->specs; i++) n += lm_words_both(s->spec[i]);
    return n;
}

static inline lm__words_model lm__words_model_of(const lm_setup *s, int m)
{
    lm__words_model is = { m, 1 };
    int left = m - s->specs;
    if (left < 0) return is;
    is.scaled = 0;
    for (is.spec = 0; is.spec < s->specs; is.spec++)
        if (lm_words_both(s->spec[is.spec]) && left-- == 0) break;
    return is;
}

/* -1: not in this run */
static inline int lm__words_find(const lm_setup *s, const char *spec, int scaled)
{
    for (int m = 0; m < lm__words_models(s); m++) {
        lm__words_model is = lm__words_model_of(s, m);
        if (is.scaled == scaled && strcmp(s->spec[is.spec], spec) == 0) return m;
    }
    return -1;
}

/* ---- training and measuring ------------------------------------------------------------------ */

typedef struct lm__words_feed {
    const kit_corpus *corpus;
    uint64_t seed;
    int starts;                            /* of each block; 8 blocks make whole batches          */
    int tokens[LM_WORDS_BATCH * LM_WORDS_T], targets[LM_WORDS_BATCH * LM_WORDS_T];
    float logits[LM_WORDS_BATCH * LM_WORDS_T * 256];
} lm__words_feed;

static inline void lm__words_fill(void *user, posenc_batch *batch, int step)
{
    lm__words_feed *f = (lm__words_feed *)user;
    const kit_text *text = &f->corpus->train;
    kit_random r = kit_random_open(f->seed, KIT_RANDOM_TRAIN, (uint64_t)step);
    for (int b = 0; b < LM_WORDS_BATCH; b++) {
        int at = kit_random_below(&r, (int)(text->size - LM_WORDS_T));
        kit_corpus_window(f->tokens + b * LM_WORDS_T, f->targets + b * LM_WORDS_T, text, (size_t)at,
                          LM_WORDS_T);
    }
    batch->B = LM_WORDS_BATCH;
    batch->T = LM_WORDS_T;
    batch->tokens = f->tokens;
    batch->targets = f->targets;
}

static inline int lm__words_starts(int quick)
{
    return quick ? LM_WORDS_STARTS / 4 : LM_WORDS_STARTS;
}

/* held-out bytes to measure on, in whole windows */
static inline long lm__words_bytes(const lm_setup *s)
{
    size_t room = s->corpus.held.size ? s->corpus.held.size - 1 : 0;
    return (long)((room < LM_WORDS_BYTES ? room : LM_WORDS_BYTES) / LM_WORDS_T * LM_WORDS_T);
}

static inline int lm_words_suffices(const lm_setup *s, kit_error *why)
{
    size_t needed = LM_WORDS_BLOCKS * (size_t)(lm__words_starts(s->quick) + LM_WORDS_T + 1);
    if (s->corpus.held.size >= needed) return 1;
    return kit_fail(why, "%.200s leaves %zu bytes to measure on, and %zu are needed: a text of "
                         "about %zu bytes", s->corpus.name, s->corpus.held.size, needed,
                    20 * needed + 2000);
}

/* surprise in bits of a target */
static inline double lm__bits(const float *logits, int vocab, int target)
{
    double most = -HUGE_VAL, sum = 0;
    for (int v = 0; v < vocab; v++) most = logits[v] > most ? (double)logits[v] : most;
    for (int v = 0; v < vocab; v++) sum += exp((double)logits[v] - most);
    return (log(sum) + most - (double)logits[target]) / log(2);
}

/* Windows that start one byte apart, so that every place meets the same bytes but for a few at the
   ends, and two places can be compared. Blocks of them are spread over the text. bits (T) */
static inline int lm__words_places(double *bits, posenc_model *m, lm__words_feed *f, kit_error *why)
{
    const kit_text *text = &f->corpus->held;
    int starts = f->starts, windows = LM_WORDS_BLOCKS * starts;
    size_t apart = text->size / LM_WORDS_BLOCKS;
    memset(bits, 0, LM_WORDS_T * sizeof *bits);
    for (int i = 0; i < windows && !kit_stopped(); i += LM_WORDS_BATCH) {
        posenc_batch batch;
        memset(&batch, 0, sizeof batch);
        batch.B = LM_WORDS_BATCH;
        batch.T = LM_WORDS_T;
        batch.tokens = f->tokens;
        for (int b = 0; b < LM_WORDS_BATCH; b++)
            kit_corpus_window(f->tokens + b * LM_WORDS_T, f->targets + b * LM_WORDS_T, text,
                              apart * (size_t)((i + b) / starts) + (size_t)((i + b) % starts),
                              LM_WORDS_T);
        if (!lm_ask(m, &batch, f->logits, why)) return 0;
        for (int r = 0; r < LM_WORDS_BATCH * LM_WORDS_T; r++)
            bits[r % LM_WORDS_T] += lm__bits(f->logits + (size_t)r * 256, 256, f->targets[r])
                                    / windows;
    }
    return 1;
}

/* mean L2 size of what a byte of the held-out text brings into the model */
static inline double lm__words_token_size(posenc_model *m, const kit_text *text)
{
    const posenc_config *c = posenc_model_config(m);
    const posenc_tensor *t = posenc_model_find(m, "token_embedding.weight");
    if (!t) return NAN;
    float *w = (float *)kit_new(t->count, sizeof *w);
    double size[256], sum = 0, scale = c->scale_embedding ? sqrt(c->channels) : 1;
    posenc_model_get(m, w, t->data, t->count);
    for (int v = 0; v < 256; v++)
        size[v] = scale * sqrt(posenc_sum_squares(w + (size_t)v * (size_t)c->channels,
                                                  (size_t)c->channels));
    for (size_t i = 0; i < text->size; i++) sum += size[(unsigned char)text->data[i]];
    free(w);
    return sum / (double)text->size;
}

static inline int lm__words_measure(kit_lesson *l, kit_error *why)
{
    lm__words_feed *f = (lm__words_feed *)l->feed;
    posenc_model *m = l->how.model;
    long most = (long)((f->corpus->held.size - 1) / LM_WORDS_T * LM_WORDS_T);
    if (!kit_bits_per_byte(&l->t.value[0], m, &f->corpus->held, LM_WORDS_T, 0, LM_WORDS_T,
                           most < LM_WORDS_BYTES ? most : LM_WORDS_BYTES, why))
        return 0;
    l->t.value[1] = lm__words_token_size(m, &f->corpus->held);
    return lm__words_places(l->t.value + 2, m, f, why);
}

static inline int lm__words_trials(const lm_setup *s) { return lm__words_models(s) * s->seeds; }

static inline void lm__words_make(kit_lesson *l, const lm_setup *s, int trial)
{
    lm__words_model is = lm__words_model_of(s, trial / s->seeds);
    char slug[128];
    lm__words_feed *f = (lm__words_feed *)kit_new(1, sizeof *f);
    l->feed = f;
    f->corpus = &s->corpus;
    f->starts = lm__words_starts(s->quick);
    f->seed = s->seed + (uint64_t)(trial % s->seeds);
    lm_nano(&l->config, s->spec[is.spec], f->seed);
    l->config.scale_embedding = is.scaled;
    lm_plan(&l->how, 2e-3, lm_steps_of(s, LM_WORDS_QUICK, LM_WORDS_FULL));
    l->how.fill = lm__words_fill;
    l->measure = lm__words_measure;
    kit_spec_slug(slug, sizeof slug, s->spec[is.spec]);
    snprintf(l->t.name, sizeof l->t.name, "words-%s%s-s%" PRIu64, slug,
             is.scaled ? "" : "-unscaled", f->seed);
    kit_put(&l->line,
            "lm results words: --pe %s --scaled %d --seed %" PRIu64
            " --steps %d --measured %ld+%d --text %s, sum %010" PRIx64,
            s->spec[is.spec], is.scaled, f->seed, l->how.steps, lm__words_bytes(s),
            lm__words_starts(s->quick), s->corpus.name, s->corpus.sum >> 24);
}

static inline void lm__words_print(const lm_setup *s);
static inline int lm__words_report(kit_report *p, const lm_setup *s, kit_error *why);

static const lm_study lm_words = {
    "words", "E7: why sin-only, binary and decimal work or fail", LM_WORDS, LM_WORDS_NUMBERS,
    lm__words_trials, lm__words_make, lm__words_print, lm__words_report
};

/* ---- figures --------------------------------------------------------------------------------- */

/* number i of a model over the seeds; NaN where it was not run */
static inline kit_spread lm__words_spread(const lm_setup *s, int model, int i)
{
    double v[LM_SEEDS] = { NAN };
    for (int k = 0; k < s->seeds && model >= 0; k++)
        v[k] = lm_numbers(s, &lm_words, model * s->seeds + k)[i];
    return kit_spread_of(v, model < 0 ? 1 : s->seeds);
}

static inline double lm__words_bits(const lm_setup *s, const char *spec, int scaled)
{
    return lm__words_spread(s, lm__words_find(s, spec, scaled), 0).mean;
}

static inline int lm__words_has(const lm_setup *s, const char *spec)
{
    return lm__words_find(s, spec, 1) >= 0;
}

/* how much the loss at place c stands out from its neighbours four and five places away */
static inline double lm_kink(const double *bits, int c)
{
    return bits[c] - (bits[c - 5] + bits[c - 4] + bits[c + 4] + bits[c + 5]) / 4;
}

/* the same, mean over the places `first`, `first + step` .. `last` and over seeds */
static inline double lm__words_kink(const lm_setup *s, const char *spec, int first, int last,
                                    int step)
{
    int model = lm__words_find(s, spec, 1), n = (last - first) / step + 1;
    double sum = 0;
    for (int k = 0; k < s->seeds && model >= 0; k++)
        for (int c = first; c <= last; c += step)
            sum += lm_kink(lm_numbers(s, &lm_words, model * s->seeds + k) + 2, c) / n / s->seeds;
    return model < 0 ? NAN : sum;
}

static inline double lm__words_kink_bits(const lm_setup *s, const char *spec)
{
    return lm__words_kink(s, spec, 32, 96, 32);
}

static inline double lm__words_kink_tens(const lm_setup *s, const char *spec)
{
    return lm__words_kink(s, spec, 10, 120, 10);
}

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { LM_WORDS_CLAIMS = 10 };
static const char *const lm_words_reference[] = { "none", "sinonly", "binary", "binary_norm",
                                                  "decimal", "decimal_norm" };
enum { LM_WORDS_REFERENCE = sizeof lm_words_reference / sizeof *lm_words_reference };

/* the least bits of the reference system's others that are in this run; HUGE_VAL: none is */
static inline double lm__words_least_other(const lm_setup *s)
{
    double least = HUGE_VAL;
    for (int i = 0; i < LM_WORDS_REFERENCE; i++)
        if (lm__words_has(s, lm_words_reference[i]))
            least = lm_smaller(least, lm__words_bits(s, lm_words_reference[i], 1));
    return least;
}

static inline kit_claim lm__words_claim_best(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Of the eight encodings of pos-enc-bench `sinusoidal` and `rope` "
                                 "are best and level: within 0.05 bits per byte, no other more "
                                 "than 0.01 below the better.",
                                 "by theory: sinusoidal about as rope, and best");
    double sine = lm__words_bits(s, "sinusoidal", 1), rope = lm__words_bits(s, "rope", 1);
    double best = lm_smaller(sine, rope), other = lm__words_least_other(s);
    c.verdict = kit_judge_size(sine == sine && rope == rope && other < HUGE_VAL,
                         fabs(sine - rope) <= 0.05 && other >= best - 0.01, other >= best - 0.01);
    kit_claim_ours(&c, "sinusoidal %.3f, rope %.3f, the best other %.3f", sine, rope, other);
    return c;
}

static inline kit_claim lm__words_claim_sinonly(const lm_setup *s)
{
    kit_claim c = kit_claim_open("Within the training length `sinonly` is close to `sinusoidal`: "
                                 "at most 0.05 bits per byte worse.",
                                 "by theory: close, in distribution");
    double sine = lm__words_bits(s, "sinusoidal", 1), only = lm__words_bits(s, "sinonly", 1);
    c.verdict = kit_judge_size(sine == sine && lm__words_has(s, "sinonly"), only - sine <= 0.05,
                         only - sine <= 0.15);
    kit_claim_ours(&c, "sinonly %.3f, sinusoidal %.3f", only, sine);
    return c;
}

static inline kit_claim lm__words_claim_worse(const lm_setup *s)
{
    kit_claim c = kit_claim_open("`binary` and `decimal` are worse than `sinusoidal`, each by at "
                                 "least 0.02 bits per byte.",
                                 "by theory: worse");
    double sine = lm__words_bits(s, "sinusoidal", 1);
    double binary = lm__words_bits(s, "binary", 1) - sine;
    double decimal = lm__words_bits(s, "decimal", 1) - sine;
    c.verdict =
        kit_judge_size(binary == binary && decimal == decimal, binary >= 0.02 && decimal >= 0.02,
                         binary > 0 && decimal > 0);
    kit_claim_ours(&c, "binary %+.3f, decimal %+.3f", binary, decimal);
    return c;
}

/* a kink of at least 0.02 bits, and three times what rope has there */
static inline kit_claim lm__words_claim_kinks(const lm_setup *s, const char *spec, const char *at,
                                              double (*kink)(const lm_setup *, const char *))
{
    char what[240];
    snprintf(what, sizeof what,
             "`%s` has kinks at carries: the byte at %s costs at least 0.02 bits more than its "
             "neighbours, and 3 times what `rope` has there.", spec, at);
    kit_claim c = kit_claim_open(what, "by theory: visible kinks at carries");
    double own = kink(s, spec), rope = kink(s, "rope");
    c.verdict = kit_judge_size(own == own && rope == rope, own >= 0.02 && own >= 3 * fabs(rope),
                         own > fabs(rope));
    kit_claim_ours(&c, "%s %+.3f, rope %+.3f bits", spec, own, rope);
    return c;
}

static inline kit_claim lm__words_claim_norm(const lm_setup *s)
{
    kit_claim c = kit_claim_open("A norm hurts: `binary_norm` and `decimal_norm` are each at least "
                                 "0.01 bits per byte worse than `binary` and `decimal`.",
                                 "by theory: a constant offset of 9.5 beside tokens of 1.9");
    double binary = lm__words_bits(s, "binary_norm", 1) - lm__words_bits(s, "binary", 1);
    double decimal = lm__words_bits(s, "decimal_norm", 1) - lm__words_bits(s, "decimal", 1);
    c.verdict =
        kit_judge_size(binary == binary && decimal == decimal, binary >= 0.01 && decimal >= 0.01,
                         binary > 0 && decimal > 0);
    kit_claim_ours(&c, "binary %+.3f, decimal %+.3f", binary, decimal);
    kit_claim_reason(&c, "An offset that is the same everywhere can be learned away within a few "
                         "steps, and -1 and 1 are twice as far apart as 0 and 1.");
    return c;
}

static inline kit_claim lm__words_claim_factor(const lm_setup *s)
{
    kit_claim c = kit_claim_open("`sinusoidal` needs the factor sqrt(d): without it at least 0.05 "
                                 "bits per byte worse; `rope` does not (within 0.05).",
                                 "pos-enc-bench added the factor against instability, to added "
                                 "encodings only");
    double sine = lm__words_bits(s, "sinusoidal", 0) - lm__words_bits(s, "sinusoidal", 1);
    double rope = lm__words_bits(s, "rope", 0) - lm__words_bits(s, "rope", 1);
    c.verdict = kit_judge_size(sine == sine && rope == rope, sine >= 0.05 && fabs(rope) <= 0.05,
                         sine > fabs(rope));
    kit_claim_ours(&c, "without: sinusoidal %+.3f, rope %+.3f", sine, rope);
    return c;
}

/* R^2 of each shift, least and largest */
static inline kit_spread lm__words_shifts(const char *spec)
{
    lm_table_facts t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < LM_SHIFTS; i++) t.r2[i] = NAN;
    lm_table_measure(&t, spec);
    return kit_spread_of(t.r2, LM_SHIFTS);
}

static inline kit_claim lm__words_claim_linear(void)
{
    kit_claim c = kit_claim_open("A shift of the position by 1, 4, 16 is linear for `sinusoidal` "
                                 "(R^2 at least 0.9999) and not for `binary` and `decimal` (each "
                                 "below 0.99).",
                                 "exactly 1; carries are not linear");
    kit_spread sine = lm__words_shifts("sinusoidal"), binary = lm__words_shifts("binary");
    kit_spread decimal = lm__words_shifts("decimal");
    c.verdict = kit_judge_size(1, sine.low >= 0.9999 && binary.high < 0.99 && decimal.high < 0.99,
                         sine.low > binary.high && sine.low > decimal.high);
    kit_claim_ours(&c, "sinusoidal %.5f or more; binary %.3f..%.3f, decimal %.3f..%.3f", sine.low,
                   binary.low, binary.high, decimal.low, decimal.high);
    return c;
}

static inline kit_claim lm__words_claim_sines(void)
{
    kit_claim c = kit_claim_open("Without the cosines a shift is not linear: for `sinonly` R^2 "
                                 "stays below 0.99.",
                                 "the missing cosine");
    kit_spread v = lm__words_shifts("sinonly");
    c.verdict = kit_judge_size(1, v.low < 0.99, v.low < 0.9999);
    kit_claim_ours(&c, "R^2 %.5f to %.5f", v.low, v.high);
    kit_claim_reason(&c, "Each sine alone lacks its cosine, but there are as many frequencies as "
                         "channels, and over a stretch of positions the sines of its neighbours "
                         "add up to it.");
    return c;
}

static inline kit_claim lm__words_claim_rank(void)
{
    static const char *const spec[4] = { "binary", "binary_norm", "decimal", "decimal_norm" };
    static const int expected[4] = { 10, 11, 4, 5 };
    kit_claim c = kit_claim_open("Tables of 1,024 positions have rank 10, 11 (`binary`, normed), "
                                 "4, 5 (`decimal`, normed), and `sinusoidal` more than all of "
                                 "them.",
                                 "10, 10 and a constant, 4, 4 and a constant; high");
    lm_table_facts t, sine;
    int rank[4] = { 0 }, right = 1;
    memset(&sine, 0, sizeof sine);
    lm_table_measure(&sine, "sinusoidal");
    for (int i = 0; i < 4; i++) {
        memset(&t, 0, sizeof t);
        lm_table_measure(&t, spec[i]);
        rank[i] = t.rank[1];
        right = right && rank[i] == expected[i] && rank[i] < sine.rank[1];
    }
    c.verdict = kit_judge_size(1, right, 0);
    kit_claim_ours(&c, "%d, %d, %d, %d; sinusoidal %d", rank[0], rank[1], rank[2], rank[3],
                   sine.rank[1]);
    return c;
}

static inline int lm__words_claims(kit_claim c[LM_WORDS_CLAIMS], const lm_setup *s)
{
    int n = 0;
    c[n++] = lm__words_claim_linear();
    c[n++] = lm__words_claim_sines();
    c[n++] = lm__words_claim_rank();
    c[n++] = lm__words_claim_best(s);
    c[n++] = lm__words_claim_sinonly(s);
    c[n++] = lm__words_claim_worse(s);
    c[n++] = lm__words_claim_kinks(s, "binary", "32, 64 and 96", lm__words_kink_bits);
    c[n++] = lm__words_claim_kinks(s, "decimal", "10, 20 .. 120", lm__words_kink_tens);
    c[n++] = lm__words_claim_norm(s);
    c[n++] = lm__words_claim_factor(s);
    return n;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* what theory says of the tables of the reference system */
static const struct { const char *spec, *shift; int rank[2]; } lm_words_theory[] = {
    { "sinusoidal", "linear", { 0, 0 } },    { "sinonly", "not linear", { 0, 0 } },
    { "binary", "not linear", { 7, 10 } },   { "binary_norm", "not linear", { 8, 11 } },
    { "decimal", "not linear", { 3, 4 } },   { "decimal_norm", "not linear", { 4, 5 } }
};
enum { LM_WORDS_TABLES = sizeof lm_words_theory / sizeof *lm_words_theory };

/* "7 (7)", theory in brackets; it has no number for waves */
static inline void lm__words_put_rank(kit_cells *c, int row, int col, int theory, int measured)
{
    if (theory) kit_cells_put(c, row, col, "%d (%d)", measured, theory);
    else kit_cells_put(c, row, col, "%d (high)", measured);
}

static inline kit_cells lm__words_theory_cells(const lm_setup *s)
{
    static const char *const head[] = { "table", "shift, by theory", "R^2, k=1", "k=4", "k=16",
                                        "rank of 128", "of 1,024", "size of a row",
                                        "of the mean row", "bits per byte" };
    enum { COLS = sizeof head / sizeof *head };
    kit_cells c = kit_cells_new(1 + LM_WORDS_TABLES, COLS);
    for (int i = 0; i < COLS; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int i = 0; i < LM_WORDS_TABLES; i++) {
        lm_table_facts t;
        memset(&t, 0, sizeof t);
        lm_table_measure(&t, lm_words_theory[i].spec);
        kit_cells_put(&c, i + 1, 0, "%s", lm_words_theory[i].spec);
        kit_cells_put(&c, i + 1, 1, "%s", lm_words_theory[i].shift);
        for (int k = 0; k < LM_SHIFTS; k++) kit_cells_put(&c, i + 1, 2 + k, "%.4f", t.r2[k]);
        for (int k = 0; k < 2; k++)
            lm__words_put_rank(&c, i + 1, 5 + k, lm_words_theory[i].rank[k], t.rank[k]);
        kit_cells_put(&c, i + 1, 7, "%.2f", t.size);
        kit_cells_put(&c, i + 1, 8, "%.2f", t.constant);
        lm_put_spread(&c, i + 1, 9, lm__words_spread(s, lm__words_find(s, lm_words_theory[i].spec,
                                                                       1), 0), 1);
    }
    return c;
}

/* with the factor and without: bits, and the size of a token after training */
static inline kit_cells lm__words_cells(const lm_setup *s)
{
    static const char *const head[] = { "encoding", "bits per byte", "without sqrt(d)",
                                        "size of a token", "without sqrt(d)" };
    enum { COLS = sizeof head / sizeof *head };
    kit_cells c = kit_cells_new(1 + s->specs, COLS);
    for (int i = 0; i < COLS; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int e = 0; e < s->specs; e++) {
        int plain = lm__words_find(s, s->spec[e], 0);
        kit_cells_put(&c, e + 1, 0, "%.95s", s->spec[e]);
        lm_put_spread(&c, e + 1, 1, lm__words_spread(s, e, 0), s->seeds);
        lm_put_spread(&c, e + 1, 2, lm__words_spread(s, plain, 0), s->seeds);
        kit_cells_put(&c, e + 1, 3, "%.2f", lm__words_spread(s, e, 1).mean);
        if (plain >= 0) kit_cells_put(&c, e + 1, 4, "%.2f", lm__words_spread(s, plain, 1).mean);
        else kit_cells_put(&c, e + 1, 4, "-");
    }
    return c;
}

/* in thousandths of a bit */
static inline kit_cells lm__words_kink_cells(const lm_setup *s)
{
    static const char *const head[] = { "encoding", "at 32, 64, 96", "at 64", "at 10, 20 .. 120",
                                        "at 100" };
    enum { COLS = sizeof head / sizeof *head };
    kit_cells c = kit_cells_new(1 + s->specs, COLS);
    for (int i = 0; i < COLS; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int e = 0; e < s->specs; e++) {
        const char *spec = s->spec[e];
        kit_cells_put(&c, e + 1, 0, "%.95s", spec);
        kit_cells_put(&c, e + 1, 1, "%+.1f", 1000 * lm__words_kink_bits(s, spec));
        kit_cells_put(&c, e + 1, 2, "%+.1f", 1000 * lm__words_kink(s, spec, 64, 64, 1));
        kit_cells_put(&c, e + 1, 3, "%+.1f", 1000 * lm__words_kink_tens(s, spec));
        kit_cells_put(&c, e + 1, 4, "%+.1f", 1000 * lm__words_kink(s, spec, 100, 100, 1));
    }
    return c;
}

static inline void lm__words_print(const lm_setup *s)
{
    kit_claim c[LM_WORDS_CLAIMS];
    kit_cells theory = lm__words_theory_cells(s), cells = lm__words_cells(s);
    kit_cells kinks = lm__words_kink_cells(s);
    printf("\nE7: tables of positions, %d channels\n", LM_WORDS_C);
    kit_cells_print(&theory);
    printf("\nE7: trained on texts of %d bytes (%s, %d seed%s)\n", LM_WORDS_T, s->corpus.name,
           s->seeds, s->seeds > 1 ? "s" : "");
    kit_cells_print(&cells);
    printf("\nE7: thousandths of a bit that a byte at a carry costs more than its neighbours\n");
    kit_cells_print(&kinks);
    kit_cells_free(&kinks);
    kit_cells_free(&theory);
    kit_cells_free(&cells);
    kit_print_claims("expected", c, lm__words_claims(c, s));
}

static inline int lm__words_save_bits(const lm_setup *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,sqrt_d,seed,bits_per_byte,token_size");
    for (int i = 0; i < lm__words_trials(s); i++) {
        lm__words_model is = lm__words_model_of(s, i / s->seeds);
        kit_csv_text(&t, s->spec[is.spec]);
        kit_csv_int(&t, is.scaled);
        kit_csv_u64(&t, s->seed + (uint64_t)(i % s->seeds));
        kit_csv_real(&t, lm_numbers(s, &lm_words, i)[0], 5);
        kit_csv_real(&t, lm_numbers(s, &lm_words, i)[1], 4);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "words.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static inline int lm__words_save_places(const lm_setup *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,sqrt_d,place,bits");              /* means over seeds */
    for (int i = 0; i < lm__words_models(s) * LM_WORDS_T; i++) {
        lm__words_model is = lm__words_model_of(s, i / LM_WORDS_T);
        kit_csv_text(&t, s->spec[is.spec]);
        kit_csv_int(&t, is.scaled);
        kit_csv_int(&t, i % LM_WORDS_T);
        kit_csv_real(&t, lm__words_spread(s, i / LM_WORDS_T, 2 + i % LM_WORDS_T).mean, 5);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "words_places.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static inline int lm__words_save_tables(const lm_setup *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "table,rank_128,rank_1024,r2_1,r2_4,r2_16,row_size,constant_size");
    for (int i = 0; i < LM_WORDS_TABLES; i++) {
        lm_table_facts f;
        memset(&f, 0, sizeof f);
        lm_table_measure(&f, lm_words_theory[i].spec);
        kit_csv_text(&t, lm_words_theory[i].spec);
        for (int k = 0; k < 2; k++) kit_csv_int(&t, f.rank[k]);
        for (int k = 0; k < LM_SHIFTS; k++) kit_csv_real(&t, f.r2[k], 6);
        kit_csv_real(&t, f.size, 4);
        kit_csv_real(&t, f.constant, 4);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "words_tables.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the section ----------------------------------------------------------------------------- */

/* From place 8 on, the bits of some encodings less those of rope at the same place: what differs
   is the encoding and not the bytes. */
static inline int lm__words_chart(kit_report *p, const lm_setup *s, const char *file,
                                  const char *title, const char *const *spec, int n, kit_error *why)
{
    enum { FROM = 8, PLACES = LM_WORDS_T - FROM };
    double x[PLACES], y[4 * PLACES];
    int rope = lm__words_find(s, "rope", 1);
    for (int i = 0; i < PLACES; i++) x[i] = FROM + i;
    for (int i = 0; i < n * PLACES; i++) {
        int place = 2 + FROM + i % PLACES;
        int model = lm__words_find(s, spec[i / PLACES], 1);
        y[i] = 1000 * (lm__words_spread(s, model, place).mean
                       - lm__words_spread(s, rope, place).mean);
    }
    kit_chart c = lm_chart_of(title, "place in the text", "bits / 1,000 more than rope");
    c.level_name = "rope";
    c.level_left = 1;
    return kit_report_lines(p, s->out, file, &c, spec, n, x, y, PLACES, "", why);
}

static inline int lm__words_charts(kit_report *p, const lm_setup *s, kit_error *why)
{
    static const char *const waves[] = { "sinusoidal", "sinonly" };
    static const char *const bits[] = { "binary", "binary_norm" };
    static const char *const digits[] = { "decimal", "decimal_norm" };
    char windows[32];
    kit_say_count(windows, (size_t)(LM_WORDS_BLOCKS * lm__words_starts(s->quick)));
    if (!lm__words_has(s, "rope")) return 1;
    kit_report_text(p,
                    "**Place by place.** The surprise of a byte by its place in the text, less "
                    "that of `rope` at the same place. All places are measured on the same bytes "
                    "(windows that start one byte apart, %s in all). A code that carries looks "
                    "quite different after the carry, and whoever looks for the byte before has "
                    "to know that:", windows);
    if (lm__words_has(s, "binary") || lm__words_has(s, "binary_norm"))
        if (!lm__words_chart(p, s, "words-binary.svg", "Bits: carries at 16, 32, 64, 96", bits, 2,
                             why)) return 0;
    if (lm__words_has(s, "decimal") || lm__words_has(s, "decimal_norm"))
        if (!lm__words_chart(p, s, "words-decimal.svg", "Decimal digits: carries at tens", digits,
                             2, why)) return 0;
    if (lm__words_has(s, "sinusoidal") || lm__words_has(s, "sinonly"))
        return lm__words_chart(p, s, "words-waves.svg", "Waves: nothing carries", waves, 2, why);
    return 1;
}

static inline void lm__words_tell(kit_report *p, const lm_setup *s)
{
    char bytes[32], held[32];
    kit_say_count(held, (size_t)lm__words_bytes(s));
    kit_say_count(bytes, (size_t)lm_steps_of(s, LM_WORDS_QUICK, LM_WORDS_FULL) * LM_WORDS_BATCH
                             * LM_WORDS_T);
    kit_report_text(p,
                    "The **nano** model (3 layers, 96 channels, 3 heads, texts of %d bytes; "
                    "RMSNorm, SwiGLU, QK-norm, tied head) learns from %s: %s bytes for each "
                    "encoding, all with the same budget, and %d seed%s. It is measured on %s "
                    "bytes that were held out.",
                    LM_WORDS_T, s->corpus.name, bytes, s->seeds,
                    s->seeds > 1 ? "s (mean, lowest and highest)" : "", held);
    if (s->corpus.own)
        kit_report_text(p, "These sentences are far easier than prose; `make corpus` fetches the "
                           "text that the rules are made for.");
}

static inline void lm__words_tell_tables(kit_report *p, const lm_setup *s)
{
    kit_cells theory = lm__words_theory_cells(s);
    kit_report_text(p,
                    "**The tables.** What is added to a token of %d channels, before anything is "
                    "trained. R^2 says how well PE(p + k) is a linear function of PE(p): fitted on "
                    "a drawn half of the positions below 1,024, tested on the other half; 1 is "
                    "exactly. The rank counts directions above rounding, theory's figure beside "
                    "it. A token is %.2f long at the start, with the factor sqrt(d), and %.2f "
                    "without.",
                    LM_WORDS_C, 0.02 * LM_WORDS_C, 0.02 * sqrt(LM_WORDS_C));
    kit_cells_show(p, &theory);
    kit_cells_free(&theory);
}

static inline int lm__words_report(kit_report *p, const lm_setup *s, kit_error *why)
{
    kit_claim c[LM_WORDS_CLAIMS];
    kit_cells cells = lm__words_cells(s), kinks = lm__words_kink_cells(s);
    kit_report_heading(p, lm_words.title);
    lm__words_tell(p, s);
    lm__words_tell_tables(p, s);
    kit_report_text(p, "**The models**, trained with the embedding multiplied by sqrt(d), and some "
                       "without. The size of a token is that after training, the factor included:");
    kit_cells_show(p, &cells);
    kit_report_text(p, "**Kinks.** What a byte at a carry costs more than its neighbours four and "
                       "five places away, in thousandths of a bit, with sqrt(d):");
    kit_cells_show(p, &kinks);
    kit_cells_free(&cells);
    kit_cells_free(&kinks);
    int done = lm__words_charts(p, s, why);
    kit_report_claims(p, "expected", c, lm__words_claims(c, s));
    return done && lm__words_save_bits(s, why) && lm__words_save_places(s, why)
        && lm__words_save_tables(s, why);
}

#endif
