/* extrapolate/text.h - E1: bits per byte beyond the training length

   The table of "Train short, test long" (Press et al. 2021) for a laptop. Every encoding predicts
   the same bytes at every length, so that a difference is never one of the text. */
#ifndef EXTRAPOLATE_TEXT_H
#define EXTRAPOLATE_TEXT_H

#include "models.h"

/* ---- the experiment -------------------------------------------------------------------------- */

static long text_work(const settings *s) { return (long)text.specs * s->seeds * text_steps(s); }

static int text_clear(const settings *s, const kit_lab *lab, kit_error *why)
{
    if (!text_suffices(s, why)) return 0;
    for (int i = 0; i < text.specs * s->seeds; i++)
        if (!text_trial_clear(s, text.spec[i / s->seeds], s->seed + (uint64_t)(i % s->seeds), 0,
                              lab, why))
            return 0;
    return 1;
}

static int text_run(const settings *s, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    text.value =
        (double *)kit_new((size_t)(text.specs * s->seeds) * TEXT_NUMBERS, sizeof *text.value);
    for (int i = 0; i < text.specs * s->seeds && code == DONE; i++)
        code =
            text_trial_run(NULL, text_numbers(s, i / s->seeds, i % s->seeds), s,
                           text.spec[i / s->seeds], s->seed + (uint64_t)(i % s->seeds), lab, why);
    return code;
}

/* ---- figures --------------------------------------------------------------------------------- */

static kit_spread text_spread(const settings *s, int spec, int number)
{
    double v[MOST_SEEDS] = { 0 };
    for (int k = 0; k < s->seeds; k++) v[k] = text_numbers(s, spec, k)[number];
    return kit_spread_of(v, s->seeds);
}

/* mean over seeds at a length, texts side by side; NaN when the encoding was not run or cannot */
static double text_at(const settings *s, const char *spec, int T)
{
    int i = text_find(spec);
    return i < 0 ? NAN : text_spread(s, i, text_length_index(T)).mean;
}

/* how much worse it is than at the training length */
static double text_worse(const settings *s, const char *spec, int T)
{
    return text_at(s, spec, T) - text_at(s, spec, NANO_CONTEXT);
}

static double text_full_worse(const settings *s, const char *spec)
{
    int i = text_find(spec), last = TEXT_LENGTHS + TEXT_FULL - 1;
    return i < 0 ? NAN : text_spread(s, i, last).mean - text_spread(s, i, TEXT_LENGTHS).mean;
}

/* ---- claims: the rules stand here, before anything is measured ------------------------------- */

enum { TEXT_CLAIMS = 9 };

static kit_claim text_claim_equal(const settings *s)
{
    kit_claim c = kit_claim_open("At the training length every encoding but `none` lies within 0.1 "
                                 "bits per byte.",
                                 "perplexity 18.66 to 19.34 at 1,024: 0.05 bits per word (Press et "
                                 "al.)");
    double v[KIT_LIST_ROOM];
    int n = 0;
    for (int i = 0; i < text.specs; i++)
        if (strcmp(text.spec[i], "none")) v[n++] = text_spread(s, i, 0).mean;
    if (n == 0) return c;
    kit_spread all = kit_spread_of(v, n);
    c.verdict = kit_judge(n > 1, all.high - all.low <= 0.1);
    kit_claim_ours(&c, "%.3f to %.3f bits per byte", all.low, all.high);
    kit_claim_reason(&c, "Trained for minutes, an encoding that learns its positions slower is "
                         "still behind: the gap is one of time, and closes with more steps.");
    return c;
}

static kit_claim text_claim_alibi(const settings *s)
{
    kit_claim c =
        kit_claim_open("`alibi` at 8 times the length is at most 0.05 worse than at 1x.", "perplexi"
                                                                                          "ty "
                                                                                          "18.66 "
                                                                                          "at 1x, "
                                                                                          "18.01 "
                                                                                          "at 6x, "
                                                                                          "17.98 "
                                                                                          "at 16x "
                                                                                          "(Press "
                                                                                          "et "
                                                                                          "al.)");
    double worse = text_worse(s, "alibi", 1024);
    c.verdict = kit_judge(text_has("alibi"), worse <= 0.05);
    kit_claim_ours(&c, "%+.3f bits per byte", worse);
    return c;
}

static kit_claim text_claim_flat(const settings *s)
{
    kit_claim c = kit_claim_open("What `alibi` gains on longer texts is fewer bytes without a "
                                 "past: with full context it is flat (within 0.05 from 128 to "
                                 "512).",
                                 "perplexity 17.98 at 1x, 18.28 at 4x, stride 1 (Press et al.)");
    double worse = text_full_worse(s, "alibi");
    c.verdict = kit_judge(text_has("alibi"), fabs(worse) <= 0.05);
    kit_claim_ours(&c, "%+.3f bits per byte", worse);
    return c;
}

static kit_claim text_claim_sinusoidal(const settings *s)
{
    kit_claim c = kit_claim_open("`sinusoidal` at twice the length is at least 0.3 worse.", "perple"
                                                                                            "xity "
                                                                                            "19.34 "
                                                                                            "at "
                                                                                            "1x, "
                                                                                            "51.09 "
                                                                                            "at "
                                                                                            "2x: "
                                                                                            "1.4 "
                                                                                            "bits "
                                                                                            "per "
                                                                                            "word "
                                                                                            "(Press"
                                                                                            " et "
                                                                                            "al.)");
    double worse = text_worse(s, "sinusoidal", 256);
    c.verdict = kit_judge_size(text_has("sinusoidal"), worse >= 0.3, worse >= 0.05);
    kit_claim_ours(&c, "%+.3f bits per byte", worse);
    return c;
}

/* Compared by how much each is worse than at the training length: they do not start level. */
static kit_claim text_claim_rope(const settings *s)
{
    static const int T[3] = { 256, 512, 1024 };
    kit_claim c = kit_claim_open("`rope` loses more than `alibi` and less than `sinusoidal`, at 2, "
                                 "4 and 8 times the length.",
                                 "at 2x, in bits per word: -0.05, +0.69, +1.40 (Press et al.)");
    int between = 1, above = 1;
    for (int i = 0; i < 3; i++) {
        above = above && text_worse(s, "rope", T[i]) > text_worse(s, "alibi", T[i]);
        between = between && text_worse(s, "rope", T[i]) < text_worse(s, "sinusoidal", T[i]);
    }
    c.verdict = kit_judge_size(text_has("rope") && text_has("alibi") && text_has("sinusoidal"),
                               above && between, above);
    kit_claim_ours(&c, "at 2x: alibi %+.3f, rope %+.3f, sinusoidal %+.3f",
                   text_worse(s, "alibi", 256), text_worse(s, "rope", 256),
                   text_worse(s, "sinusoidal", 256));
    return c;
}

static kit_claim text_claim_learned(void)
{
    kit_claim c =
        kit_claim_open("`learned` refuses texts longer than its table, and says so.", "there is no "
                                                                                      "row to add");
    posenc_config config = nano_config("learned", 1);
    kit_error why = { "" };
    int refuses = kit_reaches(&config, NANO_CONTEXT, &why);
    refuses = refuses && !kit_reaches(&config, 160, &why) && strstr(why.text, "128") != NULL;
    c.verdict = kit_judge(text_has("learned"), refuses);
    kit_claim_ours(&c, "%.150s", why.text);
    return c;
}

static kit_claim text_claim_t5(const settings *s)
{
    kit_claim c = kit_claim_open("`t5` is no worse at 2x than at 1x.", "perplexity 18.80 at 1x, "
                                                                       "18.34 at 2x, 21.76 at 6x "
                                                                       "(Press et al.)");
    double worse = text_worse(s, "t5", 256);
    c.verdict = kit_judge_size(text_has("t5"), worse <= 0, worse < text_worse(s, "rope", 256));
    kit_claim_ours(&c, "%+.3f at 2x, %+.3f at 8x", worse, text_worse(s, "t5", 1024));
    kit_claim_reason(&c, "All distances from about 113 on share the last bucket. In the published "
                         "model, trained on 1,024, nearly every pair of words fell into it; in "
                         "ours, trained on 128, hardly any, so that what it holds beyond is a "
                         "guess.");
    return c;
}

static kit_claim text_claim_none(const settings *s)
{
    kit_claim c = kit_claim_open("Without an encoding texts of 2x lose more than with `alibi`, "
                                 "less than with `rope`.",
                                 "perplexity 14, 30, above 250 at 1.75x (1.3B model of code, "
                                 "Kazemnejad et al.)");
    double none = text_worse(s, "none", 256), low = text_worse(s, "alibi", 256);
    double high = text_worse(s, "rope", 256);
    c.verdict = kit_judge_size(text_has("none") && text_has("alibi") && text_has("rope"),
                               none > low && none < high, none > low);
    kit_claim_ours(&c, "alibi %+.3f, none %+.3f, rope %+.3f", low, none, high);
    kit_claim_reason(&c, "What a model without an encoding knows of places it has to count out by "
                         "itself, and what a small one learns of that in minutes ends with the "
                         "length it was trained on.");
    return c;
}

static kit_claim text_claim_early(const settings *s)
{
    kit_claim c = kit_claim_open("A quarter past its length `sinusoidal` has lost already, `rope` "
                                 "hardly: it gains until 1.5x at most.",
                                 "they gain for 20 to 50 and for 100 to 200 words past 512 (Press "
                                 "et al.)");
    double sine = text_worse(s, "sinusoidal", 160), rope = text_worse(s, "rope", 160);
    c.verdict =
        kit_judge_size(text_has("sinusoidal") && text_has("rope"),
                       sine > 0 && rope < sine && rope <= 0.02 && text_worse(s, "rope", 192) > rope,
                       sine > 0 && rope < sine);
    kit_claim_ours(&c, "at 160: sinusoidal %+.3f, rope %+.3f; rope at 192 %+.3f", sine, rope,
                   text_worse(s, "rope", 192));
    return c;
}

static int text_claims(kit_claim c[TEXT_CLAIMS], const settings *s)
{
    int n = 0;
    c[n++] = text_claim_equal(s);
    c[n++] = text_claim_alibi(s);
    c[n++] = text_claim_flat(s);
    c[n++] = text_claim_sinusoidal(s);
    c[n++] = text_claim_rope(s);
    c[n++] = text_claim_learned();
    c[n++] = text_claim_early(s);
    c[n++] = text_claim_t5(s);
    c[n++] = text_claim_none(s);
    return n;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Numbers first .. first + n - 1 of each encoding, a column each; what is not a number stays
   empty. */
static kit_cells text_cells(const settings *s, const int *T, int n, int first, int spreads)
{
    kit_cells c = kit_cells_new(text.specs + 1, n + 1);
    kit_cells_put(&c, 0, 0, "encoding");
    for (int i = 0; i < n; i++) kit_cells_put(&c, 0, i + 1, "%d", T[i]);
    for (int e = 0; e < text.specs; e++) {
        kit_cells_put(&c, e + 1, 0, "%.95s", text.spec[e]);
        for (int i = 0; i < n; i++) {
            kit_spread v = text_spread(s, e, first + i);
            if (!(v.mean == v.mean)) continue;
            if (!spreads || s->seeds == 1) kit_cells_put(&c, e + 1, i + 1, "%.3f", v.mean);
            else kit_cells_put(&c, e + 1, i + 1, "%.3f (%.3f..%.3f)", v.mean, v.low, v.high);
        }
    }
    return c;
}

static void text_print(const settings *s)
{
    kit_claim c[TEXT_CLAIMS];
    kit_cells side = text_cells(s, text_length, TEXT_LENGTHS, 0, 0);
    printf("\nE1: bits per byte of texts of so many bytes, trained on texts of %d (%s, mean of %d "
           "seed%s)\n",
           NANO_CONTEXT, s->corpus.name, s->seeds, s->seeds > 1 ? "s" : "");
    kit_cells_print(&side);
    kit_cells_free(&side);
    kit_print_claims("published", c, text_claims(c, s));
}

static void text_csv_rows(kit_text *t, const settings *s, const char *kind, const int *at, int n,
                          int first)
{
    for (int i = 0; i < text.specs * s->seeds * n; i++) {
        int e = i / n / s->seeds, k = i / n % s->seeds;
        kit_csv_text(t, text.spec[e]);
        kit_csv_u64(t, s->seed + (uint64_t)k);
        kit_csv_text(t, kind);
        kit_csv_int(t, at[i % n]);
        kit_csv_real(t, text_numbers(s, e, k)[first + i % n], 5);
        kit_csv_end(t);
    }
}

static int text_save_csv(const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,seed,kind,length,bits_per_byte");
    text_csv_rows(&t, s, "side by side", text_length, TEXT_LENGTHS, 0);
    text_csv_rows(&t, s, "full context", text_full, TEXT_FULL, TEXT_LENGTHS);
    text_csv_rows(&t, s, "from place", text_place, TEXT_PLACES, TEXT_LENGTHS + TEXT_FULL);
    int done = kit_save_in(s->out, "text.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* numbers first .. first + n - 1, means over seeds, at the places `at` */
static int text_chart(kit_report *p, const settings *s, const char *file, kit_chart c,
                      const int *at, int n, int first, kit_error *why)
{
    const char *name[KIT_LIST_ROOM];
    double *x = (double *)kit_new((size_t)(n * (text.specs + 1)), sizeof *x), *y = x + n;
    for (int i = 0; i < n; i++) x[i] = at[i];
    for (int e = 0; e < text.specs; e++) {
        name[e] = text.spec[e];
        for (int i = 0; i < n; i++) y[e * n + i] = text_spread(s, e, first + i).mean;
    }
    int done = report_lines(p, s, file, &c, name, text.specs, x, y, n, why);
    free(x);
    return done;
}

static int text_pictures(kit_report *p, const settings *s, kit_error *why)
{
    const char *bits = "bits per byte";
    int middle[TEXT_PLACES];
    for (int i = 0; i < TEXT_PLACES; i++) middle[i] = (text_place[i] + text_place[i + 1]) / 2;
    if (!text_chart(p, s, "text.svg",
                    chart_of("Read side by side, trained at 128",
                             "length of the texts (logarithmic)", bits),
                    text_length, TEXT_LENGTHS, 0, why))
        return 0;
    kit_report_text(p,
                    "A byte at the beginning of a text has little to go by, and longer texts have "
                    "fewer beginnings. So a second measurement counts only bytes that have the "
                    "whole length behind them: texts %d apart, of which the last %d bytes count.",
                    TEXT_STRIDE, TEXT_STRIDE);
    if (!text_chart(
            p, s, "text_full.svg",
            chart_of("The last 32 bytes of each text", "length of the texts (logarithmic)", bits),
            text_full, TEXT_FULL, TEXT_LENGTHS, why))
        return 0;
    kit_report_text(p, "And where inside a long text does it go wrong? The surprise of a byte by "
                       "its place:");
    return text_chart(
        p, s, "text_places.svg",
        chart_of("Inside texts of 1,024, by place", "place in the text (logarithmic)", bits),
        middle, TEXT_PLACES, TEXT_LENGTHS + TEXT_FULL, why);
}

/* ---- the section ----------------------------------------------------------------------------- */

/* the library's sentence for each encoding that cannot go on */
static void text_tell_refusals(kit_report *p)
{
    for (int e = 0; e < text.specs; e++) {
        posenc_config c = nano_config(text.spec[e], 1);
        kit_error why;
        for (int i = 0; i < TEXT_LENGTHS; i++) {
            if (kit_reaches(&c, text_length[i], &why)) continue;
            kit_report_text(p, "`%s` has no number from %d on. The library says: %s.", text.spec[e],
                            text_length[i], why.text);
            break;
        }
    }
}

/* Press et al. 2022, table of their appendix: WikiText-103, 247M parameters, trained at 1,024 */
enum { PRESS_ROWS = 4, PRESS_LENGTHS = 4 };
static const struct { const char *spec; double perplexity[PRESS_LENGTHS]; } press[PRESS_ROWS] = {
    { "sinusoidal", { 19.34, 29.82, 51.09, 337.5 } }, { "rope", { 19.33, 22.59, 31.17, 77.70 } },
    { "t5", { 18.80, 18.42, 18.34, 29.54 } },         { "alibi", { 18.66, 18.22, 18.05, 17.97 } }
};

static void text_tell_published(kit_report *p, const settings *s)
{
    static const int ours[PRESS_LENGTHS] = { 128, 192, 256, 1024 };
    static const char *const head[PRESS_LENGTHS] = { "1x", "1.5x", "2x", "10x; ours 8x" };
    kit_cells c = kit_cells_new(2 * PRESS_ROWS + 1, PRESS_LENGTHS + 2);
    kit_cells_put(&c, 0, 0, "encoding");
    kit_cells_put(&c, 0, 1, "whose");
    for (int i = 0; i < PRESS_LENGTHS; i++) kit_cells_put(&c, 0, i + 2, "%s", head[i]);
    for (int r = 0; r < PRESS_ROWS; r++)
        for (int i = 0; i < PRESS_LENGTHS; i++) {
            const double *v = press[r].perplexity;
            double at = text_at(s, press[r].spec, ours[i]);
            kit_cells_put(&c, 2 * r + 1, 0, "%s", press[r].spec);
            kit_cells_put(&c, 2 * r + 1, 1, "published: perplexity of words");
            kit_cells_put(&c, 2 * r + 2, 0, "%s", press[r].spec);
            kit_cells_put(&c, 2 * r + 2, 1, "ours: bits per byte");
            kit_cells_put(&c, 2 * r + 1, i + 2, i ? "%.2f (%+.2f bits)" : "%.2f", v[i],
                          log2(v[i] / v[0]));
            if (at == at) kit_cells_put(&c, 2 * r + 2, i + 2, i ? "%.3f (%+.3f)" : "%.3f", at,
                                    at - text_at(s, press[r].spec, 128));
        }
    kit_report_text(p, "**Beside the published figures** (Press et al. 2022: 247M parameters, "
                       "WikiText-103, trained on texts of 1,024 words; ours: 0.5M parameters, "
                       "bytes, trained on 128). A word is about six bytes, so a bit per word is "
                       "about a sixth of a bit per byte.");
    kit_cells_show(p, &c);
    kit_cells_free(&c);
}

static void text_tell_setting(kit_report *p, const settings *s)
{
    char measured[32];
    kit_say_count(measured, (size_t)text_bytes(s));
    kit_report_text(p,
                    "A language model of bytes (3 layers, 96 channels, 3 heads, 467,808 parameters "
                    "besides the encoding's) learns from texts of %d bytes for %d steps of %d "
                    "texts, and is then asked to read longer ones. %s bytes of held-out text are "
                    "predicted, the same ones at every length. Text: %s; %d seed%s. Bits per byte, "
                    "texts of so many bytes side by side:",
                    NANO_CONTEXT, text_steps(s), NANO_BATCH, measured, s->corpus.name, s->seeds,
                    s->seeds > 1 ? "s (mean, lowest and highest)" : "");
    if (s->corpus.own)
        kit_report_text(p, "**These sentences are far easier than prose: the rules below are meant "
                           "for the corpus (`make corpus`).**");
    if (s->quick)
        kit_report_text(p, "This is the **quick** version: models that have hardly begun to learn. "
                           "What needs a trained model may not show yet.");
}

static int text_report(kit_report *p, const settings *s, kit_error *why)
{
    kit_claim c[TEXT_CLAIMS];
    kit_report_heading(p, "E1: beyond the training length");
    text_tell_setting(p, s);
    kit_cells side = text_cells(s, text_length, TEXT_LENGTHS, 0, 1);
    kit_cells full = text_cells(s, text_full, TEXT_FULL, TEXT_LENGTHS, 1);
    kit_cells_show(p, &side);
    text_tell_refusals(p);
    int done = text_pictures(p, s, why);
    kit_report_fold(p, "the bytes with full context, as a table");
    kit_cells_show(p, &full);
    kit_report_unfold(p);
    text_tell_published(p, s);
    kit_report_claims(p, "published", c, text_claims(c, s));
    kit_cells_free(&side);
    kit_cells_free(&full);
    return done && text_save_csv(s, why);
}

static const experiment text_experiment = {
    "text", "E1: beyond the training length",
    "E1 bits per byte beyond the training length, by encoding", text_check, text_work,
    text_clear, text_run, text_print, text_report
};

#endif
