/* extrapolate/masked.h - E2: no encoding at all, in a model that looks back and in one that looks
   both ways

   "Transformer Language Models without Positional Encodings Still Learn Positional Information"
   (Haviv et al. 2022) for a laptop. A causal model can count who came before; one that sees
   everything at once gets a bag of bytes: whatever the order, it answers the same. The causal half
   are the models of E1, at the length they were trained for; the same net learns to fill in bytes
   here. */
#ifndef EXTRAPOLATE_MASKED_H
#define EXTRAPOLATE_MASKED_H

#include "models.h"
#include "tasks.h"

enum { MASK_LENGTH = 32, MASK_BATCH = 128, MASK_TEXTS = 1920, MASK_SPECS = 5,
       MASK_NUMBERS = 1 + KIT_TRAIN_POINTS };

/* published: perplexity of a word, WikiText-103 (causal), and of a masked one */
static const struct { const char *spec; double causal, masked; } mask_pe[MASK_SPECS] = {
    { "none", 20.97, 147.18 }, { "learned", 20.42, 4.06 }, { "sinusoidal", 20.16, 4.07 },
    { "alibi", 19.71, 4.00 }, { "rope", NAN, NAN }
};
enum { MASK_NONE, MASK_LEARNED, MASK_SINE, MASK_ALIBI, MASK_ROPE };

/* nats per byte by encoding and seed: the next byte; masked bytes, then the course of the training
   loss */
static struct {
    double causal[MASK_SPECS][MOST_SEEDS], masked[MASK_SPECS][MOST_SEEDS][MASK_NUMBERS];
} mask_loss;

static int mask_done(const settings *s, int spec)
{
    return !s->quick || spec == MASK_NONE || spec == MASK_ROPE;
}
static int mask_steps(const settings *s) { return steps_of(s, 400, 1600); }

/* ---- one trial ------------------------------------------------------------------------------- */

typedef struct mask_feed {
    const kit_text *train, *held;
    uint64_t seed;
    int tokens[MASK_BATCH * MASK_LENGTH], targets[MASK_BATCH * MASK_LENGTH];
} mask_feed;

static void mask_batch(posenc_batch *batch, mask_feed *f)
{
    memset(batch, 0, sizeof *batch);
    batch->B = MASK_BATCH;
    batch->T = MASK_LENGTH;
    batch->tokens = f->tokens;
    batch->targets = f->targets;
}

static void mask_window(mask_feed *f, const kit_text *text, size_t at, int b, kit_random *r)
{
    int *tokens = f->tokens + b * MASK_LENGTH, *targets = f->targets + b * MASK_LENGTH;
    kit_corpus_window(tokens, targets, text, at, MASK_LENGTH);
    mask_bytes(tokens, targets, r, MASK_LENGTH);
}

static void mask_fill(void *user, posenc_batch *batch, int step)
{
    mask_feed *f = (mask_feed *)user;
    kit_random r = kit_random_open(f->seed, KIT_RANDOM_TRAIN, (uint64_t)step);
    for (int b = 0; b < MASK_BATCH; b++)
        mask_window(f, f->train, (size_t)kit_random_below(&r, (int)f->train->size - MASK_LENGTH), b,
                    &r);
    mask_batch(batch, f);
}

/* held-out texts side by side, in whole batches */
static int mask_texts(const settings *s)
{
    size_t there = s->corpus.held.size ? (s->corpus.held.size - 1) / MASK_LENGTH : 0;
    return (int)(there < MASK_TEXTS ? there : MASK_TEXTS) / MASK_BATCH * MASK_BATCH;
}

/* Mean loss of the masked bytes of the held-out texts: the same texts and the same masks for every
   model. */
static int mask_measure(kit_lesson *l, kit_error *why)
{
    mask_feed *f = (mask_feed *)l->how.user;
    size_t texts = (f->held->size - 1) / MASK_LENGTH;
    double sum = 0, loss;
    long asked = 0;
    texts = (texts < MASK_TEXTS ? texts : MASK_TEXTS) / MASK_BATCH * MASK_BATCH;
    for (size_t at = 0; at < texts; at += MASK_BATCH) {
        kit_random r = kit_random_open(1, KIT_RANDOM_TEST, at);
        posenc_batch batch;
        posenc_error said;
        for (int b = 0; b < MASK_BATCH; b++)
            mask_window(f, f->held, (at + (size_t)b) * MASK_LENGTH, b, &r);
        mask_batch(&batch, f);
        batch.divisor = 1;
        if (posenc_model_loss(l->how.model, &batch, &loss, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text);
        for (int i = 0; i < MASK_BATCH * MASK_LENGTH; i++) asked += f->targets[i] != POSENC_IGNORE;
        sum += loss;
    }
    l->t.value[0] = sum / (double)asked;
    memcpy(l->t.value + 1, l->how.loss, sizeof l->how.loss);
    return 1;
}

static kit_lesson mask_lesson(mask_feed *f, const settings *s, int spec, int k)
{
    kit_lesson l;
    memset(&l, 0, sizeof l);
    f->train = &s->corpus.train;
    f->held = &s->corpus.held;
    f->seed = s->seed + (uint64_t)k;
    l.config = nano_config(mask_pe[spec].spec, f->seed);
    l.config.context = MASK_LENGTH;
    l.config.batch = MASK_BATCH;
    l.config.causal = 0;
    l.config.vocab = MASK_VOCAB;
    l.config.threads = s->threads;
    l.how = nano_training(NULL, mask_steps(s));
    l.how.fill = mask_fill;
    l.how.user = f;
    l.measure = mask_measure;
    snprintf(l.t.name, sizeof l.t.name, "masked-%s-s%" PRIu64, mask_pe[spec].spec, f->seed);
    kit_put(&l.line,
            "extrapolate masked: --pe %s --seed %" PRIu64 " --steps %d --text %s, sum %010" PRIx64,
            mask_pe[spec].spec, f->seed, l.how.steps, s->corpus.name, s->corpus.sum >> 24);
    l.t.settings = l.line.data;
    l.t.value = mask_loss.masked[spec][k];
    l.t.n = MASK_NUMBERS;
    return l;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static long mask_work(const settings *s)
{
    long steps = 0;
    for (int spec = 0; spec < MASK_SPECS; spec++)
        if (mask_done(s, spec)) steps += (long)s->seeds * (mask_steps(s) + text_steps(s));
    return steps;
}

/* the causal model of an encoding and seed is one of E1's trials: read, or trained now */
static int mask_causal(const settings *s, int spec, int k, kit_lab *lab, kit_error *why)
{
    double bits[TEXT_NUMBERS];
    int code = text_trial_run(NULL, bits, s, mask_pe[spec].spec, s->seed + (uint64_t)k, lab, why);
    mask_loss.causal[spec][k] = code == DONE ? bits[text_length_index(NANO_CONTEXT)] * log(2) : NAN;
    return code;
}

static int mask_ready(const settings *s, kit_lesson *l, int spec, int k, const kit_lab *lab,
                      kit_error *why)
{
    return kit_trial_clear(&l->t, lab, why)
                   && text_trial_clear(s, mask_pe[spec].spec, s->seed + (uint64_t)k, 1, lab, why)
               ? DONE
               : FAILED;
}

/* all trials one after the other: made ready for a new run (run NULL), or run */
static int mask_each(const settings *s, const kit_lab *lab, kit_lab *run, kit_error *why)
{
    mask_feed *f = (mask_feed *)kit_new(1, sizeof *f);
    int code = DONE;
    for (int i = 0; i < MASK_SPECS * s->seeds && code == DONE; i++) {
        int spec = i / s->seeds, k = i % s->seeds;
        if (!mask_done(s, spec)) continue;
        kit_lesson l = mask_lesson(f, s, spec, k);
        code = run ? kit_lesson_run(&l, run, why) : mask_ready(s, &l, spec, k, lab, why);
        if (run && code == DONE) code = mask_causal(s, spec, k, run, why);
        kit_text_free(&l.line);
    }
    free(f);
    return code;
}

static int mask_clear(const settings *s, const kit_lab *lab, kit_error *why)
{
    if (mask_texts(s) == 0)
        return kit_fail(why, "%s leaves %zu bytes for the test, and %d are needed", s->corpus.name,
                        s->corpus.held.size, MASK_BATCH * MASK_LENGTH + 1);
    return text_suffices(s, why) && mask_each(s, lab, NULL, why) == DONE;
}

static int mask_run(const settings *s, kit_lab *lab, kit_error *why)
{
    return mask_each(s, lab, lab, why);
}

/* ---- figures --------------------------------------------------------------------------------- */

static kit_spread mask_spread(const settings *s, int spec, int masked)
{
    double v[MOST_SEEDS] = { NAN };
    for (int k = 0; k < s->seeds && mask_done(s, spec); k++)
        v[k] = masked ? mask_loss.masked[spec][k][0] : mask_loss.causal[spec][k];
    return kit_spread_of(v, s->seeds);
}

/* nats by which an encoding is worse than another one */
static double mask_behind(const settings *s, int spec, int other, int masked)
{
    return mask_spread(s, spec, masked).mean - mask_spread(s, other, masked).mean;
}

static double mask_worse(const settings *s, int spec, int masked)
{
    return mask_behind(s, spec, MASK_LEARNED, masked);
}

/* Nats per byte of who knows how frequent each byte is in the training text, and nothing else. */
static double mask_frequencies(const settings *s)
{
    double count[256] = { 0 }, nats = 0;
    const kit_text *train = &s->corpus.train, *held = &s->corpus.held;
    size_t n = (size_t)mask_texts(s) * MASK_LENGTH;
    for (size_t i = 0; i < train->size; i++) count[(unsigned char)train->data[i]]++;
    for (size_t i = 0; i < n; i++)
        nats -= log((count[(unsigned char)held->data[i]] + 1) / ((double)train->size + 256))
                / (double)n;
    return nats;
}

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { MASK_CLAIMS = 5 };

static kit_claim mask_claim_masked(const settings *s)
{
    kit_claim c =
        kit_claim_open("Looking both ways, `none` is at least 1 nat worse than `learned`.", "perple"
                                                                                            "xity "
                                                                                            "147."
                                                                                            "18 "
                                                                                            "beside"
                                                                                            " 4.06:"
                                                                                            " +3."
                                                                                            "59 "
                                                                                            "nats "
                                                                                            "a "
                                                                                            "word");
    double worse = mask_worse(s, MASK_NONE, 1);
    c.verdict = kit_judge_size(!s->quick, worse >= 1, worse >= 0.1);
    kit_claim_ours(&c, "%+.3f nats a byte", worse);
    kit_claim_reason(&c, "`none` cannot fall below what the frequencies of bytes tell; `learned` "
                         "has not been trained long enough to get a nat below that.");
    return c;
}

static kit_claim mask_claim_causal(const settings *s)
{
    kit_claim c =
        kit_claim_open("Looking back only, `none` is within 0.15 nats of `learned`.", "perplexity "
                                                                                      "20.97 "
                                                                                      "beside "
                                                                                      "20.42: "
                                                                                      "+0.03 nats "
                                                                                      "a word");
    double worse = mask_worse(s, MASK_NONE, 0);
    c.verdict = kit_judge_size(!s->quick, fabs(worse) <= 0.15, worse < mask_worse(s, MASK_NONE, 1));
    kit_claim_ours(&c, "%+.3f nats a byte", worse);
    kit_claim_reason(&c, "A causal model without an encoding has to learn to count first, and a "
                         "small one trained for minutes is still at it.");
    return c;
}

static kit_claim mask_claim_sinusoidal(const settings *s)
{
    kit_claim c = kit_claim_open("Looking both ways, `sinusoidal` is as good as `learned` (within "
                                 "0.15 nats).",
                                 "perplexity 4.07 beside 4.06");
    double worse = mask_worse(s, MASK_SINE, 1);
    c.verdict =
        kit_judge_size(!s->quick, fabs(worse) <= 0.15, worse < mask_worse(s, MASK_NONE, 1) / 2);
    kit_claim_ours(&c, "%+.3f nats a byte", worse);
    kit_claim_reason(&c, "Which neighbour is which has to be found out first, and in runs as short "
                         "as these that moment decides the figure (see the course of the loss).");
    return c;
}

static kit_claim mask_claim_alibi(const settings *s)
{
    kit_claim c = kit_claim_open("Looking both ways, `alibi` is as good as `learned` (within 0.15 "
                                 "nats, or better).",
                                 "perplexity 4.00 beside 4.06");
    double worse = mask_worse(s, MASK_ALIBI, 1);
    c.verdict = kit_judge_size(!s->quick, worse <= 0.15, worse < mask_worse(s, MASK_NONE, 1) / 2);
    kit_claim_ours(&c, "%+.3f nats a byte", worse);
    kit_claim_reason(&c, "Our penalty is the same on both sides: it tells how far a byte stands "
                         "and not whether before or behind, which matters more for letters than "
                         "for words.");
    return c;
}

static kit_claim mask_claim_rope(const settings *s)
{
    kit_claim c = kit_claim_open("The same beside `rope`: looking both ways, `none` is at least 1 "
                                 "nat worse.",
                                 "`rope` is not in the paper");
    double worse = mask_behind(s, MASK_NONE, MASK_ROPE, 1);
    c.verdict = kit_judge_size(1, worse >= 1, worse >= 0.1);
    kit_claim_ours(&c, "%+.3f nats a byte; looking back only %+.3f", worse,
                   mask_behind(s, MASK_NONE, MASK_ROPE, 0));
    kit_claim_reason(&c, "`rope` has not been trained long enough to get a nat below a bag of "
                         "bytes.");
    return c;
}

static int mask_claims(kit_claim c[MASK_CLAIMS], const settings *s)
{
    c[0] = mask_claim_masked(s);
    c[1] = mask_claim_causal(s);
    c[2] = mask_claim_sinusoidal(s);
    c[3] = mask_claim_alibi(s);
    c[4] = mask_claim_rope(s);
    return MASK_CLAIMS;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void mask_put(kit_cells *c, int row, int col, const settings *s, int spec, int masked)
{
    kit_spread v = mask_spread(s, spec, masked);
    double published = masked ? mask_pe[spec].masked : mask_pe[spec].causal;
    if (s->seeds == 1) kit_cells_put(c, row, col, "%.3f", v.mean);
    else kit_cells_put(c, row, col, "%.3f (%.3f..%.3f)", v.mean, v.low, v.high);
    kit_cells_put(c, row, col + 1, "%.3f", v.mean / log(2));
    if (published == published) kit_cells_put(c, row, col + 2, "%.2f", published);
    else kit_cells_put(c, row, col + 2, "-");
}

static kit_cells mask_cells(const settings *s)
{
    static const char *const head[7] = {
        "encoding", "causal: nats a byte", "bits", "published perplexity", "masked: nats a byte",
        "bits",     "published perplexity"
    };
    int row = 1;
    kit_cells c = kit_cells_new(1 + MASK_SPECS, 7);
    for (int i = 0; i < 7; i++) kit_cells_put(&c, 0, i, "%s", head[i]);
    for (int spec = 0; spec < MASK_SPECS; spec++) {
        if (!mask_done(s, spec)) continue;
        kit_cells_put(&c, row, 0, "%s", mask_pe[spec].spec);
        mask_put(&c, row, 1, s, spec, 0);
        mask_put(&c, row++, 4, s, spec, 1);
    }
    c.rows = row;
    return c;
}

static void mask_print(const settings *s)
{
    kit_claim c[MASK_CLAIMS];
    kit_cells table = mask_cells(s);
    printf("\nE2: loss on held-out text, the next byte (causal) and masked bytes (both ways; %s, "
           "mean of %d seed%s)\n",
           s->corpus.name, s->seeds, s->seeds > 1 ? "s" : "");
    kit_cells_print(&table);
    printf("  frequencies of bytes alone: %.3f nats\n", mask_frequencies(s));
    kit_print_claims("published", c, mask_claims(c, s));
    kit_cells_free(&table);
}

static int mask_save_csv(const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,seed,causal_nats,masked_nats");
    for (int i = 0; i < MASK_SPECS * s->seeds; i++) {
        int spec = i / s->seeds, k = i % s->seeds;
        if (!mask_done(s, spec)) continue;
        kit_csv_text(&t, mask_pe[spec].spec);
        kit_csv_u64(&t, s->seed + (uint64_t)k);
        kit_csv_real(&t, mask_loss.causal[spec][k], 5);
        kit_csv_real(&t, mask_loss.masked[spec][k][0], 5);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "masked.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- the section ----------------------------------------------------------------------------- */

/* The training loss of the masked models, means over the seeds. What lies above the frame, in the
   first steps, is not drawn. */
static int mask_chart(kit_report *p, const settings *s, double level, kit_error *why)
{
    double x[KIT_TRAIN_POINTS], y[MASK_SPECS * KIT_TRAIN_POINTS] = { 0 };
    const char *name[MASK_SPECS];
    int lines = 0;
    kit_chart c = chart_of("Filling in masked bytes: the course of learning", "training steps",
                           "nats per masked byte");
    for (int i = 0; i < KIT_TRAIN_POINTS; i++) x[i] = mask_steps(s) * (i + 1.0) / KIT_TRAIN_POINTS;
    for (int spec = 0; spec < MASK_SPECS; spec++) {
        if (!mask_done(s, spec)) continue;
        for (int i = 0; i < KIT_TRAIN_POINTS * s->seeds; i++)
            y[lines * KIT_TRAIN_POINTS + i % KIT_TRAIN_POINTS] +=
                mask_loss.masked[spec][i / KIT_TRAIN_POINTS][1 + i % KIT_TRAIN_POINTS] / s->seeds;
        name[lines++] = mask_pe[spec].spec;
    }
    for (int i = 0; i < lines * KIT_TRAIN_POINTS; i++)
        if (y[i] > 4) y[i] = NAN;
    c.log_x = 0;
    c.whole_x = 1;
    c.y_low = 1;
    c.y_high = 4;
    c.level = level;
    c.level_name = "frequencies of bytes alone";
    return report_lines(p, s, "masked.svg", &c, name, lines, x, y, KIT_TRAIN_POINTS, why);
}

static void mask_tell_setting(kit_report *p, const settings *s, double frequencies)
{
    kit_report_text(p,
                    "A model without any encoding, once causal and once looking both ways; the "
                    "same net of 0.5M parameters for both. **Causal**: it predicts the next byte "
                    "in texts of %d (the models of E1, %d steps). **Masked**: it fills in %d %% of "
                    "the bytes of texts of %d, taken out at random (all replaced by a mask; BERT "
                    "leaves some and falsifies some), %d steps of %d texts. %d seed%s, %s.",
                    NANO_CONTEXT, text_steps(s), MASK_PERCENT, MASK_LENGTH, mask_steps(s),
                    MASK_BATCH, s->seeds, s->seeds > 1 ? "s (mean, lowest and highest)" : "",
                    s->corpus.name);
    kit_report_text(p,
                    "Looking both ways without an encoding, all masked places of a text are one "
                    "and the same to the model: it gives them the same answer, whatever the order. "
                    "It can guess by frequency (%.3f nats a byte), a little better by counting the "
                    "text at hand, and that is all. A causal model sees one byte more at each "
                    "place, and can count.",
                    frequencies);
    kit_report_text(p, "The masked texts are short for the sake of `learned`: to use a neighbour, "
                       "a table has to learn for each place which one is next to it. With 128 "
                       "places it was still at 3.05 nats after 1,200 steps; with 32 the picture "
                       "shows when it begins to see them, and how much sooner `rope` does, for "
                       "which next to it is the same everywhere.");
    kit_report_text(p, "Published beside ours: perplexities of words by far larger models (Haviv "
                       "et al. 2022). What carries over is who is beside whom, not the figures.");
    if (s->quick)
        kit_report_text(
            p, "This is the **quick** version, a first look: one seed, two encodings, %d steps.",
            mask_steps(s));
}

static int mask_report(kit_report *p, const settings *s, kit_error *why)
{
    kit_claim c[MASK_CLAIMS];
    kit_cells table = mask_cells(s);
    double frequencies = mask_frequencies(s);
    kit_report_heading(p, "E2: no encoding at all");
    mask_tell_setting(p, s, frequencies);
    kit_cells_show(p, &table);
    kit_cells_free(&table);
    if (!mask_chart(p, s, frequencies, why)) return 0;
    kit_report_claims(p, "published", c, mask_claims(c, s));
    return mask_save_csv(s, why);
}

static const experiment masked_experiment = {
    "masked", "E2: no encoding at all",
    "E2 without encoding: a causal model beside one that looks both ways", NULL,
    mask_work, mask_clear, mask_run, mask_print, mask_report
};

#endif
