/* extrapolate/scaling.h - E4: rope stretched beyond its training length

   The rope models of text.h, read at 1 to 8 times their length under each scaling: as they are, and
   after a little training on texts of 4 times the length. The scalings are those of [5.7.1], with
   the settings of their papers; none was tuned here. */
#ifndef EXTRAPOLATE_SCALING_H
#define EXTRAPOLATE_SCALING_H

#include "models.h"

/* 640: a quarter beyond the fine-tuned length, as in the published table (10,240 after 8,192) */
enum { SCALINGS = 5, SCALING_LENGTHS = 5, SCALING_FACTOR = 4,
       SCALING_ZERO = SCALINGS * SCALING_LENGTHS + 2 * SCALINGS,
       SCALING_TUNED_T = SCALING_FACTOR * NANO_CONTEXT,
       SCALING_TUNED_BATCH = NANO_BATCH / SCALING_FACTOR };
enum { SCALED_NONE, SCALED_LINEAR, SCALED_NTK, SCALED_DYNAMIC, SCALED_YARN };

static const int scaling_length[SCALING_LENGTHS] = { 128, 256, 512, 640, 1024 };
enum { AT_1X, AT_2X, AT_4X, AT_5X, AT_8X };

/* dynamic with factor 1 is the published rule: base stretched by length / original, whatever it
   is */
static const struct { const char *name, *spec, *fitted; } scaling[SCALINGS] = {
    { "none", "rope", "rope" },
    { "linear", "rope:scaling=linear,factor=4", "rope:scaling=linear,factor=%d" },
    { "ntk", "rope:scaling=ntk,factor=4", "rope:scaling=ntk,factor=%d" },
    { "dynamic", "rope:scaling=dynamic,factor=1,original=128",
      "rope:scaling=dynamic,factor=1,original=128" },
    { "yarn", "rope:scaling=yarn,factor=4,original=128",
      "rope:scaling=yarn,factor=%d,original=128" }
};

static double *scaling_zero;            /* (seeds, SCALING_ZERO): factor 4; then fitted at 2x, 8x */
static double *scaling_tuned;              /* (seeds, SCALINGS, SCALING_LENGTHS)                  */

/* ---- trials ---------------------------------------------------------------------------------- */

static int scaling_steps(const settings *s)
{
    int steps = text_steps(s) / 20;                              /* 5 % */
    return steps > KIT_TRAIN_POINTS ? steps : KIT_TRAIN_POINTS;
}

static uint64_t scaling_seed(const settings *s, int k) { return s->seed + (uint64_t)k; }

/* number r of SCALINGS: after fine-tuning; SCALINGS itself: as trained */
static kit_trial scaling_trial(kit_text *line, const settings *s, int r, int k)
{
    const char *name = r < SCALINGS ? scaling[r].name : "zero";
    kit_trial t;
    memset(&t, 0, sizeof t);
    snprintf(t.name, sizeof t.name, "scaling-%s-s%" PRIu64, name, scaling_seed(s, k));
    text_settings(line, s, "scaling", name, scaling_seed(s, k), text_steps(s));
    t.settings = line->data;
    t.n = r < SCALINGS ? SCALING_LENGTHS : SCALING_ZERO;
    t.value = r < SCALINGS ? scaling_tuned + (k * SCALINGS + r) * SCALING_LENGTHS
                           : scaling_zero + k * SCALING_ZERO;
    return t;
}

static int scaling_measure_zero(double *value, posenc_model *m, const settings *s, kit_error *why)
{
    static const int fitted[2] = { 2, 8 };
    int done = 1;
    for (int i = 0; i < SCALINGS * SCALING_LENGTHS && done && !kit_stopped(); i++)
        done = text_bits(&value[i], m, scaling[i / SCALING_LENGTHS].spec, s,
                         scaling_length[i % SCALING_LENGTHS], why);
    value += SCALINGS * SCALING_LENGTHS;
    for (int i = 0; i < 2 * SCALINGS && done && !kit_stopped(); i++) {
        char spec[96];
        snprintf(spec, sizeof spec, scaling[i / 2].fitted, fitted[i % 2]);
        done = text_bits(&value[i], m, spec, s, fitted[i % 2] * NANO_CONTEXT, why);
    }
    return done;
}

/* A tenth of the peak rate, falling to 0, on texts of four times the length and a quarter as many,
   so that a step sees as many bytes as before. */
static int scaling_train(posenc_model *m, const kit_trial *t, const settings *s, int k,
                         kit_lab *lab, kit_error *why)
{
    feed f = feed_open(&s->corpus.train, scaling_seed(s, k), SCALING_TUNED_BATCH, SCALING_TUNED_T);
    kit_training how = nano_training(m, scaling_steps(s));
    f.first = text_steps(s);                        /* texts that the first training has not seen */
    how.fill = feed_fill;
    how.user = &f;
    how.schedule.kind = POSENC_LINEAR;
    how.schedule.peak /= 10;
    how.schedule.warmup = scaling_steps(s) / 10;
    int code = kit_trial_train(t, lab, &how, why);
    feed_close(&f);
    return code;
}

static int scaling_tune(double *value, posenc_model *base, const kit_trial *t, const settings *s,
                        int r, int k, kit_lab *lab, kit_error *why)
{
    posenc_config config = nano_config(scaling[r].spec, scaling_seed(s, k));
    posenc_model *m;
    posenc_error said;
    config.context = SCALING_TUNED_T;
    config.batch = SCALING_TUNED_BATCH;
    config.threads = s->threads;
    if (posenc_model_create(&m, &config, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text), FAILED;
    int code = kit_copy_weights(m, base, why) ? scaling_train(m, t, s, k, lab, why) : FAILED;
    for (int i = 0; i < SCALING_LENGTHS && code == DONE; i++)
        if (!text_bits(&value[i], m, scaling[r].spec, s, scaling_length[i], why)) code = FAILED;
        else if (kit_stopped()) code = STOPPED;
    posenc_model_free(m);
    return code;
}

/* Trial r of seed k, unless its numbers are there. base: the trained model, opened when it is
   needed. */
static int scaling_trial_run(posenc_model **base, const settings *s, int r, int k, kit_lab *lab,
                             kit_error *why)
{
    double value[TEXT_NUMBERS];
    kit_text line = { NULL, 0, 0 };
    kit_trial t = scaling_trial(&line, s, r, k);
    int steps = r < SCALINGS ? scaling_steps(s) : 0, known = kit_trial_read(&t, lab, why);
    int code = known < 0 ? FAILED : DONE;
    if (known == 1) lab->bar.skipped += steps;
    if (known == 0 && !*base)
        code = text_trial_run(base, value, s, "rope", scaling_seed(s, k), lab, why);
    if (known == 0 && code == DONE && r < SCALINGS)
        code = scaling_tune(t.value, *base, &t, s, r, k, lab, why);
    else if (known == 0 && code == DONE && !scaling_measure_zero(t.value, *base, s, why))
        code = FAILED;
    if (known == 0 && code == DONE && kit_stopped()) code = STOPPED;
    if (known == 0 && code == DONE && !kit_trial_save(&t, lab, why)) code = FAILED;
    lab->before += steps;
    kit_text_free(&line);
    return code;
}

/* ---- the experiment -------------------------------------------------------------------------- */

static long scaling_work(const settings *s)
{
    return (long)s->seeds * (text_steps(s) + SCALINGS * scaling_steps(s));
}

static int scaling_clear(const settings *s, const kit_lab *lab, kit_error *why)
{
    int good = text_suffices(s, why);
    scaling_zero = (double *)kit_new((size_t)s->seeds * SCALING_ZERO, sizeof(double));
    scaling_tuned =
        (double *)kit_new((size_t)s->seeds * SCALINGS * SCALING_LENGTHS, sizeof(double));
    for (int k = 0; k < s->seeds && good; k++) {
        good = text_trial_clear(s, "rope", scaling_seed(s, k), 1, lab, why);
        for (int r = 0; r <= SCALINGS && good; r++) {
            kit_text line = { NULL, 0, 0 };
            kit_trial t = scaling_trial(&line, s, r, k);
            good = kit_trial_clear(&t, lab, why);
            kit_text_free(&line);
        }
    }
    return good;
}

static int scaling_run(const settings *s, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    for (int k = 0; k < s->seeds && code == DONE; k++) {
        posenc_model *base = NULL;
        long before = lab->before;
        for (int r = SCALINGS; r >= 0 && code == DONE; r--)
            code = scaling_trial_run(&base, s, r, k, lab, why);
        if (!base) lab->bar.skipped += text_steps(s);
        lab->before = before + text_steps(s) + SCALINGS * scaling_steps(s);
        posenc_model_free(base);
    }
    return code;
}

/* ---- figures --------------------------------------------------------------------------------- */

static kit_spread scaling_zero_at(const settings *s, int r, int at)
{
    double v[MOST_SEEDS] = { 0 };
    for (int k = 0; k < s->seeds; k++)
        v[k] = scaling_zero[k * SCALING_ZERO + r * SCALING_LENGTHS + at];
    return kit_spread_of(v, s->seeds);
}

/* with the factor that the length asks for: at 2x and 8x measured so, at 1x no scaling, at 4x as
   above */
static kit_spread scaling_fitted_at(const settings *s, int r, int at)
{
    double v[MOST_SEEDS] = { 0 };
    if (at == AT_1X) return scaling_zero_at(s, SCALED_NONE, at);
    if (at == AT_4X) return scaling_zero_at(s, r, at);
    for (int k = 0; k < s->seeds; k++)
        v[k] = scaling_zero[k * SCALING_ZERO + SCALINGS * SCALING_LENGTHS + 2 * r + (at == AT_8X)];
    return kit_spread_of(v, s->seeds);
}

static kit_spread scaling_tuned_at(const settings *s, int r, int at)
{
    double v[MOST_SEEDS] = { 0 };
    for (int k = 0; k < s->seeds; k++)
        v[k] = scaling_tuned[(k * SCALINGS + r) * SCALING_LENGTHS + at];
    return kit_spread_of(v, s->seeds);
}

/* ---- claims ---------------------------------------------------------------------------------- */

enum { SCALING_CLAIMS = 8 };

static kit_claim scaling_claim_any(const settings *s)
{
    kit_claim c =
        kit_claim_open("Every scaling beats none at 4 times the length, without retraining.", "so "
                                                                                              "for "
                                                                                              "each"
                                                                                              " ("
                                                                                              "Chen"
                                                                                              " et "
                                                                                              "al.,"
                                                                                              " blo"
                                                                                              "c97,"
                                                                                              " Pen"
                                                                                              "g "
                                                                                              "et "
                                                                                              "al. "
                                                                                              "2023"
                                                                                              ")");
    double none = scaling_zero_at(s, SCALED_NONE, AT_4X).mean;
    int beats = 0;
    for (int r = 1; r < SCALINGS; r++) beats += scaling_zero_at(s, r, AT_4X).mean < none;
    c.verdict = kit_judge_size(1, beats == SCALINGS - 1, beats > 0);
    kit_claim_ours(&c, "none %.3f; linear %.3f, ntk %.3f, dynamic %.3f, yarn %.3f", none,
                   scaling_zero_at(s, SCALED_LINEAR, AT_4X).mean,
                   scaling_zero_at(s, SCALED_NTK, AT_4X).mean,
                   scaling_zero_at(s, SCALED_DYNAMIC, AT_4X).mean,
                   scaling_zero_at(s, SCALED_YARN, AT_4X).mean);
    return c;
}

/* a has lower loss than b, at one length */
static kit_claim scaling_claim_order(const settings *s, const char *what, const char *published,
                                     int a, int b, kit_spread (*at)(const settings *, int, int),
                                     int length)
{
    kit_claim c = kit_claim_open(what, published);
    kit_spread low = at(s, a, length), high = at(s, b, length);
    c.verdict = kit_judge(1, low.mean < high.mean);
    kit_claim_ours(&c, "%s %.3f, %s %.3f", scaling[a].name, low.mean, scaling[b].name, high.mean);
    return c;
}

/* how much worse a is than b, as trained and at one length */
static double scaling_zero_gap(const settings *s, int a, int b, int at)
{
    return scaling_zero_at(s, a, at).mean - scaling_zero_at(s, b, at).mean;
}

static kit_claim scaling_claim_short(const settings *s)
{
    kit_claim c = kit_claim_open("Scaled by 4, `linear` costs texts of the training length (more "
                                 "than 0.02).",
                                 "PI is worse within the original window (Chen et al.)");
    double cost = scaling_zero_gap(s, SCALED_LINEAR, SCALED_NONE, AT_1X);
    c.verdict = kit_judge_size(1, cost > 0.02, cost > 0);
    kit_claim_ours(&c, "%+.3f bits per byte", cost);
    return c;
}

static kit_claim scaling_claim_dynamic(const settings *s)
{
    kit_claim c = kit_claim_open("`dynamic` costs them nothing (less than 0.001).", "dynamic "
                                                                                    "scaling "
                                                                                    "leaves short "
                                                                                    "texts as they "
                                                                                    "were (Peng et "
                                                                                    "al.)");
    double cost = scaling_zero_gap(s, SCALED_DYNAMIC, SCALED_NONE, AT_1X);
    c.verdict = kit_judge(1, fabs(cost) < 0.001);
    kit_claim_ours(&c, "%+.4f bits per byte", cost);
    return c;
}

static kit_claim scaling_claim_catches_up(const settings *s)
{
    kit_claim c = kit_claim_open("After brief fine-tuning at 4x `linear` has caught up with `ntk` "
                                 "there.",
                                 "fine-tuned, PI is ahead of NTK (Peng et al.)");
    double before = scaling_zero_gap(s, SCALED_LINEAR, SCALED_NTK, AT_4X);
    double after = scaling_tuned_at(s, SCALED_LINEAR, AT_4X).mean
                 - scaling_tuned_at(s, SCALED_NTK, AT_4X).mean;
    c.verdict = kit_judge_size(1, after <= 0, after < before / 2);
    kit_claim_ours(&c, "linear minus ntk: %+.3f before, %+.3f after", before, after);
    return c;
}

static int scaling_claims(kit_claim c[SCALING_CLAIMS], const settings *s)
{
    int n = 0;
    c[n++] = scaling_claim_any(s);
    c[n++] = scaling_claim_order(s, "`ntk` beats `linear` without retraining, at 4x.",
                                 "NTK ahead of PI without fine-tuning (Peng et al.)", SCALED_NTK,
                                 SCALED_LINEAR, scaling_zero_at, AT_4X);
    c[n++] = scaling_claim_order(s, "`yarn` beats `ntk` without retraining, at 4x.",
                                 "YaRN ahead of NTK (Peng et al.)", SCALED_YARN, SCALED_NTK,
                                 scaling_zero_at, AT_4X);
    c[n++] = scaling_claim_short(s);
    c[n++] = scaling_claim_dynamic(s);
    c[n++] = scaling_claim_catches_up(s);
    c[n++] = scaling_claim_order(
        s, "Fine-tuned at 4x and read a quarter beyond, `ntk` is ahead of `linear`.",
        "perplexity 6.24 and 8.07 at 10,240 after 8,192 (Peng et al.)", SCALED_NTK, SCALED_LINEAR,
        scaling_tuned_at, AT_5X);
    c[n++] = scaling_claim_order(s, "And `yarn` is ahead of `ntk` there.",
                                 "perplexity 6.04 and 6.24 (Peng et al.)", SCALED_YARN, SCALED_NTK,
                                 scaling_tuned_at, AT_5X);
    return n;
}

/* ---- output ---------------------------------------------------------------------------------- */

static kit_cells scaling_cells(const settings *s, kit_spread (*at)(const settings *, int, int),
                               int spreads)
{
    kit_cells c = kit_cells_new(SCALINGS + 1, SCALING_LENGTHS + 1);
    kit_cells_put(&c, 0, 0, "scaling");
    for (int i = 0; i < SCALING_LENGTHS; i++) kit_cells_put(&c, 0, i + 1, "%d", scaling_length[i]);
    for (int i = 0; i < SCALINGS * SCALING_LENGTHS; i++) {
        int r = i / SCALING_LENGTHS, n = i % SCALING_LENGTHS;
        kit_spread v = at(s, r, n);
        kit_cells_put(&c, r + 1, 0, "%s", scaling[r].name);
        if (at == scaling_fitted_at && n == AT_5X) continue;
        if (!spreads || s->seeds == 1) kit_cells_put(&c, r + 1, n + 1, "%.3f", v.mean);
        else kit_cells_put(&c, r + 1, n + 1, "%.3f (%.3f..%.3f)", v.mean, v.low, v.high);
    }
    return c;
}

static void scaling_print(const settings *s)
{
    kit_claim c[SCALING_CLAIMS];
    kit_cells zero = scaling_cells(s, scaling_zero_at, 0),
              tuned = scaling_cells(s, scaling_tuned_at, 0);
    printf("\nE4: rope trained on %d, bits per byte at other lengths, factor 4, not retrained\n",
           NANO_CONTEXT);
    kit_cells_print(&zero);
    printf("after %d steps on texts of %d\n", scaling_steps(s), SCALING_TUNED_T);
    kit_cells_print(&tuned);
    kit_print_claims("published", c, scaling_claims(c, s));
    kit_cells_free(&zero);
    kit_cells_free(&tuned);
}

static void scaling_csv_row(kit_text *t, const settings *s, int r, int k, const char *stage,
                            int length, double v)
{
    kit_csv_text(t, scaling[r].name);
    kit_csv_u64(t, scaling_seed(s, k));
    kit_csv_text(t, stage);
    kit_csv_int(t, length);
    kit_csv_real(t, v, 5);
    kit_csv_end(t);
}

static int scaling_save_csv(const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "scaling,seed,stage,length,bits_per_byte");
    for (int i = 0; i < s->seeds * SCALINGS; i++) {
        int k = i / SCALINGS, r = i % SCALINGS;
        const double *zero = scaling_zero + k * SCALING_ZERO,
                     *fitted = zero + SCALINGS * SCALING_LENGTHS;
        const double *tuned = scaling_tuned + i * SCALING_LENGTHS;
        for (int n = 0; n < SCALING_LENGTHS; n++)
            scaling_csv_row(&t, s, r, k, "factor 4", scaling_length[n],
                            zero[r * SCALING_LENGTHS + n]);
        scaling_csv_row(&t, s, r, k, "factor 2", 256, fitted[2 * r]);
        scaling_csv_row(&t, s, r, k, "factor 8", 1024, fitted[2 * r + 1]);
        for (int n = 0; n < SCALING_LENGTHS; n++)
            scaling_csv_row(&t, s, r, k, "fine-tuned", scaling_length[n], tuned[n]);
    }
    int done = kit_save_in(s->out, "scaling.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static int scaling_chart(kit_report *p, const settings *s, const char *file, const char *title,
                         kit_spread (*at)(const settings *, int, int), kit_error *why)
{
    kit_chart c = chart_of(title, "length of the texts (logarithmic)", "bits per byte");
    const char *name[SCALINGS];
    double x[SCALING_LENGTHS], y[SCALINGS * SCALING_LENGTHS];
    for (int i = 0; i < SCALING_LENGTHS; i++) x[i] = scaling_length[i];
    for (int r = 0; r < SCALINGS; r++) {
        name[r] = scaling[r].name;
        for (int i = 0; i < SCALING_LENGTHS; i++) y[r * SCALING_LENGTHS + i] = at(s, r, i).mean;
    }
    return report_lines(p, s, file, &c, name, SCALINGS, x, y, SCALING_LENGTHS, why);
}

static void scaling_show(kit_report *p, const settings *s,
                         kit_spread (*at)(const settings *, int, int))
{
    kit_cells c = scaling_cells(s, at, 1);
    kit_cells_show(p, &c);
    kit_cells_free(&c);
}

static int scaling_report(kit_report *p, const settings *s, kit_error *why)
{
    kit_claim c[SCALING_CLAIMS];
    char measured[32];
    kit_say_count(measured, (size_t)text_bytes(s));
    kit_report_heading(p, "E4: rope stretched");
    kit_report_text(p,
                    "The `rope` models of E1, trained on texts of %d, read longer ones: turned as "
                    "before (none), with positions divided by 4 (linear, \"PI\"), with a base that "
                    "slows the slow pairs alone (ntk), the same by as much as the text needs "
                    "(dynamic), or pair by pair with sharper scores (yarn). Bits per byte of %s "
                    "held-out bytes.",
                    NANO_CONTEXT, measured);
    kit_report_text(p, "**Without retraining**, factor 4 at every length:");
    scaling_show(p, s, scaling_zero_at);
    int done =
        scaling_chart(p, s, "scaling_zero.svg", "Not retrained, factor 4", scaling_zero_at, why);
    kit_report_fold(p, "with the factor that each length asks for");
    scaling_show(p, s, scaling_fitted_at);
    kit_report_unfold(p);
    kit_report_text(
        p, "**After brief fine-tuning**: %d steps of %d texts of %d bytes, at a tenth of the rate.",
        scaling_steps(s), SCALING_TUNED_BATCH, SCALING_TUNED_T);
    scaling_show(p, s, scaling_tuned_at);
    done = done
           && scaling_chart(p, s, "scaling_tuned.svg", "Fine-tuned on texts of 512",
                            scaling_tuned_at, why);
    kit_report_claims(p, "published", c, scaling_claims(c, s));
    return done && scaling_save_csv(s, why);
}

static const experiment scaling_experiment = {
    "scaling", "E4: rope stretched", "E4 rope's scalings, as trained and after brief fine-tuning",
    NULL, scaling_work, scaling_clear, scaling_run, scaling_print, scaling_report
};

#endif
