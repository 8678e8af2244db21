/* extrapolate/long.h - texts of 512 to 8,192 bytes: what they cost, and what is read in them

   The models of E1 with the first seed, asked for texts of up to 64 times their training length.
   Beside it what a training step on one such text takes, in seconds and in bytes: attention is
   tiled, so memory grows with T while time grows with its square. */
#ifndef EXTRAPOLATE_LONG_H
#define EXTRAPOLATE_LONG_H

#include "models.h"

enum { LONG_LENGTHS = 5, LONG_BYTES = 65536, LONG_QUICK_BYTES = 16384, LONG_STEPS = 3 };
enum { LONG_BITS, LONG_HITS, LONG_SECONDS, LONG_MEMORY, LONG_KINDS };
static const int long_length[LONG_LENGTHS] = { 512, 1024, 2048, 4096, 8192 };

static double *long_value;                 /* (specs, LONG_KINDS, LONG_LENGTHS)                   */

/* a quick run stops at 4,096: a step on 8,192 alone takes seconds */
static int long_lengths(const settings *s) { return s->quick ? LONG_LENGTHS - 1 : LONG_LENGTHS; }

static double long_at(int spec, int kind, int i)
{
    return long_value[(spec * LONG_KINDS + kind) * LONG_LENGTHS + i];
}

static long long_bytes(const settings *s)
{
    size_t most = s->quick ? LONG_QUICK_BYTES : LONG_BYTES,
           longest = (size_t)long_length[LONG_LENGTHS - 1];
    size_t room = s->corpus.held.size ? s->corpus.held.size - 1 : 0;
    return (long)((room < most ? room : most) / longest * longest);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int long_read(double *bits, double *hits, posenc_model *m, const settings *s, int T,
                     kit_error *why)
{
    posenc_model *longer = kit_longer(m, NULL, T, text_batch(T), why);
    double *place = (double *)kit_new((size_t)T, sizeof *place);
    int good = longer && text_by_place(place, hits, longer, &s->corpus.held, T, long_bytes(s), why);
    *bits = 0;
    for (int t = 0; t < T; t++) *bits += place[t] / T;
    free(place);
    posenc_model_free(longer);
    return good;
}

/* what is trained on one text of T, encoded as m is */
static posenc_config long_config(const posenc_model *m, int T)
{
    posenc_config c = *posenc_model_config(m);
    c.context = T;
    c.batch = 1;
    return c;
}

/* seconds of forward and backward together: the quickest of a few, after one that does not count */
static int long_step(double *seconds, const posenc_config *c, const settings *s, kit_error *why)
{
    feed f = feed_open(&s->corpus.train, s->seed, 1, c->context);
    posenc_model *m;
    posenc_batch batch;
    posenc_error said;
    posenc_status status = posenc_model_create(&m, c, &said);
    memset(&batch, 0, sizeof batch);
    *seconds = HUGE_VAL;
    for (int i = 0; i <= LONG_STEPS && status == POSENC_OK && !kit_stopped(); i++) {
        double loss, began;
        feed_fill(&f, &batch, i);
        began = kit_seconds();
        status = posenc_model_train(m, &batch, &loss, &said);
        if (i > 0) *seconds = fmin(*seconds, kit_seconds() - began);
        if (s->quick && i == 1) break;
    }
    posenc_model_free(m);
    feed_close(&f);
    return status == POSENC_OK || kit_fail(why, "%s", said.text);
}

static int long_measure_one(double *value, posenc_model *m, const settings *s, int i,
                            kit_error *why)
{
    posenc_config c = long_config(m, long_length[i]);
    posenc_bytes bytes;
    posenc_error said;
    if (posenc_model_bytes(&bytes, &c, &said) != POSENC_OK) return kit_fail(why, "%s", said.text);
    value[LONG_MEMORY * LONG_LENGTHS + i] = (double)bytes.total;
    return long_read(&value[LONG_BITS * LONG_LENGTHS + i], &value[LONG_HITS * LONG_LENGTHS + i], m,
                     s, long_length[i], why)
           && long_step(&value[LONG_SECONDS * LONG_LENGTHS + i], &c, s, why);
}

/* NaN where the encoding cannot go */
static int long_measure(double *value, posenc_model *m, const settings *s, kit_error *why)
{
    kit_error no;
    int good = 1;
    for (int i = 0; i < LONG_KINDS * LONG_LENGTHS; i++) value[i] = NAN;
    for (int i = 0; i < long_lengths(s) && good && !kit_stopped(); i++)
        if (kit_reaches(posenc_model_config(m), long_length[i], &no))
            good = long_measure_one(value, m, s, i, why);
    return good;
}

/* What is added where every map is kept for the backward, as without tiles. */
static double long_maps(int T)
{
    posenc_config c = nano_config("none", 1);
    return (double)c.layers * c.heads * T * T * sizeof(float);
}

/* ---- the experiment -------------------------------------------------------------------------- */

static kit_trial long_trial(kit_text *line, const settings *s, int spec)
{
    char slug[128];
    kit_trial t;
    memset(&t, 0, sizeof t);
    kit_spec_slug(slug, sizeof slug, text.spec[spec]);
    snprintf(t.name, sizeof t.name, "long-%s-s%" PRIu64, slug, s->seed);
    text_settings(line, s, "long", text.spec[spec], s->seed, text_steps(s));
    t.settings = line->data;
    t.value = long_value + spec * LONG_KINDS * LONG_LENGTHS;
    t.n = LONG_KINDS * LONG_LENGTHS;
    return t;
}

static int long_trial_run(const settings *s, int spec, kit_lab *lab, kit_error *why)
{
    double value[TEXT_NUMBERS];
    kit_text line = { NULL, 0, 0 };
    kit_trial t = long_trial(&line, s, spec);
    posenc_model *base = NULL;
    int known = kit_trial_read(&t, lab, why), code = known < 0 ? FAILED : DONE;
    if (known == 1) {
        lab->bar.skipped += text_steps(s);
        lab->before += text_steps(s);
    }
    if (known == 0) code = text_trial_run(&base, value, s, text.spec[spec], s->seed, lab, why);
    if (known == 0 && code == DONE && !long_measure(t.value, base, s, why)) code = FAILED;
    if (known == 0 && code == DONE && kit_stopped()) code = STOPPED;
    if (known == 0 && code == DONE && !kit_trial_save(&t, lab, why)) code = FAILED;
    posenc_model_free(base);
    kit_text_free(&line);
    return code;
}

static long long_work(const settings *s) { return (long)text.specs * text_steps(s); }

static int long_clear(const settings *s, const kit_lab *lab, kit_error *why)
{
    int good = text_suffices(s, why);
    long_value =
        (double *)kit_new((size_t)(text.specs * LONG_KINDS * LONG_LENGTHS), sizeof(double));
    for (int i = 0; i < text.specs && good; i++) {
        kit_text line = { NULL, 0, 0 };
        kit_trial t = long_trial(&line, s, i);
        good = text_trial_clear(s, text.spec[i], s->seed, 1, lab, why)
               && kit_trial_clear(&t, lab, why);
        kit_text_free(&line);
    }
    return good;
}

static int long_run(const settings *s, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    for (int i = 0; i < text.specs && code == DONE; i++) code = long_trial_run(s, i, lab, why);
    return code;
}

/* ---- claims ---------------------------------------------------------------------------------- */

enum { LONG_CLAIMS = 3 };

/* first encoding that reached the longest text; -1: none did */
static int long_whole(const settings *s)
{
    for (int e = 0; e < text.specs; e++)
        if (isfinite(long_at(e, LONG_MEMORY, long_lengths(s) - 1))) return e;
    return -1;
}

/* the largest ratio of one kind between the two longest texts; NaN when an encoding's is not a
   number */
static double long_growth(const settings *s, int kind)
{
    double most = NAN;
    int last = long_lengths(s) - 1;
    for (int e = 0; e < text.specs; e++) {
        double ratio = long_at(e, kind, last) / long_at(e, kind, last - 1);
        if (isfinite(long_at(e, LONG_MEMORY, last)) && !(ratio <= most)) most = ratio;
    }
    return most;
}

static int long_claims(kit_claim c[LONG_CLAIMS], const settings *s)
{
    int whole = long_whole(s), last = long_lengths(s) - 1, alibi = text_find("alibi");
    c[0] = kit_claim_open("Tiled attention needs memory in proportion to T: twice the text, at "
                          "most 2.05 times the bytes, whatever the encoding.",
                          "linear in T (Dao et al. 2022)");
    c[0].verdict = kit_judge(whole >= 0, long_growth(s, LONG_MEMORY) <= 2.05);
    kit_claim_ours(&c[0], "%.2f times from %d to %d", long_growth(s, LONG_MEMORY),
                   long_length[last - 1], long_length[last]);
    c[1] = kit_claim_open("Time still grows faster than T: more than 2.5 times for twice the text.",
                          "quadratic in T (Vaswani et al. 2017)");
    double slower = long_growth(s, LONG_SECONDS);
    c[1].verdict = kit_judge_size(whole >= 0, slower > 2.5, slower > 2);
    kit_claim_ours(&c[1], "%.2f times from %d to %d", slower, long_length[last - 1],
                   long_length[last]);
    c[2] = kit_claim_open("`alibi` reads texts of 64 times (quick: 32 times) the training length "
                          "as well as those of 4 times (0.05).",
                          "perplexity 17.97 at 10x, 17.98 at 16x (Press et al.)");
    double worse = alibi < 0 ? NAN : long_at(alibi, LONG_BITS, last) - long_at(alibi, LONG_BITS, 0);
    c[2].verdict = kit_judge(alibi >= 0, worse <= 0.05);
    kit_claim_ours(&c[2], "%+.3f bits per byte", worse);
    return LONG_CLAIMS;
}

/* ---- output ---------------------------------------------------------------------------------- */

static const struct {
    const char *title, *label, *file, *form;
    double unit;
    int log_y;
} long_kind[LONG_KINDS] = {
    { "Bits per byte", "bits per byte", "long_bits.svg", "%.3f", 1, 0 },
    { "Next byte guessed right", "share of bytes", "long_hits.svg", "%.1f%%", 100, 0 },
    { "A training step on one text", "seconds (logarithmic)", "long_seconds.svg", "%.3f s", 1, 10 },
    { "Memory of that step", "MB (logarithmic)", "long_memory.svg", "%.1f MB", 1e-6, 10 }
};

static kit_cells long_cells(const settings *s, int kind)
{
    int n = long_lengths(s);
    kit_cells c = kit_cells_new(text.specs + 1, n + 1);
    kit_cells_put(&c, 0, 0, "%s", long_kind[kind].title);
    for (int i = 0; i < n; i++) kit_cells_put(&c, 0, i + 1, "%d", long_length[i]);
    for (int i = 0; i < text.specs * n; i++) {
        double v = long_at(i / n, kind, i % n);
        kit_cells_put(&c, i / n + 1, 0, "%s", text.spec[i / n]);
        kit_cells_put(&c, i / n + 1, i % n + 1, isfinite(v) ? long_kind[kind].form : "-",
                      v * long_kind[kind].unit);
    }
    return c;
}

static void long_print(const settings *s)
{
    kit_claim c[LONG_CLAIMS];
    printf("\nlong texts, by the models of E1 with seed %" PRIu64 "\n", s->seed);
    for (int kind = 0; kind < LONG_KINDS; kind++) {
        kit_cells table = long_cells(s, kind);
        kit_cells_print(&table);
        kit_cells_free(&table);
    }
    kit_print_claims("published", c, long_claims(c, s));
}

static int long_save_csv(const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "pe,length,bits_per_byte,accuracy,step_seconds,step_bytes,plain_maps_bytes");
    for (int i = 0; i < text.specs * long_lengths(s); i++) {
        int e = i / long_lengths(s), n = i % long_lengths(s);
        kit_csv_text(&t, text.spec[e]);
        kit_csv_int(&t, long_length[n]);
        kit_csv_real(&t, long_at(e, LONG_BITS, n), 5);
        kit_csv_real(&t, long_at(e, LONG_HITS, n), 5);
        kit_csv_real(&t, long_at(e, LONG_SECONDS, n), 5);
        kit_csv_real(&t, long_at(e, LONG_MEMORY, n), 0);
        kit_csv_real(&t, long_maps(long_length[n]), 0);
        kit_csv_end(&t);
    }
    int done = kit_save_in(s->out, "long.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* a line for each encoding; for memory one more: the same with the maps kept */
static int long_chart(kit_report *p, const settings *s, int kind, kit_error *why)
{
    kit_chart c =
        chart_of(long_kind[kind].title, "length of the text (logarithmic)", long_kind[kind].label);
    const char *name[KIT_LIST_ROOM + 1];
    int n = long_lengths(s), lines = text.specs, whole = long_whole(s);
    double x[LONG_LENGTHS], *y = (double *)kit_new((size_t)((lines + 1) * n), sizeof *y);
    double unit = kind == LONG_MEMORY ? long_kind[kind].unit : 1;
    for (int i = 0; i < n; i++) x[i] = long_length[i];
    for (int e = 0; e < lines; e++) {
        name[e] = text.spec[e];
        for (int i = 0; i < n; i++) y[e * n + i] = unit * long_at(e, kind, i);
    }
    if (kind == LONG_MEMORY && whole >= 0) {
        name[lines] = "with plain maps";
        for (int i = 0; i < n; i++)
            y[lines * n + i] = unit * (long_at(whole, kind, i) + long_maps(long_length[i]));
        lines++;
    }
    c.log_y = long_kind[kind].log_y;
    c.percent = kind == LONG_HITS;
    int done = report_lines(p, s, long_kind[kind].file, &c, name, lines, x, y, n, why);
    free(y);
    return done;
}

static void long_tell_refusals(kit_report *p)
{
    for (int e = 0; e < text.specs; e++) {
        posenc_config c = nano_config(text.spec[e], 1);
        kit_error why;
        if (!kit_reaches(&c, long_length[0], &why))
            kit_report_text(p, "`%s` cannot. The library says: %s.", text.spec[e], why.text);
    }
}

static void long_tell_maps(kit_report *p, const settings *s)
{
    kit_cells c = kit_cells_new(2, long_lengths(s) + 1);
    kit_cells_put(&c, 0, 0, "on top of it, were they kept");
    kit_cells_put(&c, 1, 0, "plain attention maps");
    for (int i = 0; i < long_lengths(s); i++) {
        kit_cells_put(&c, 0, i + 1, "%d", long_length[i]);
        kit_cells_put(&c, 1, i + 1, "%.1f MB", 1e-6 * long_maps(long_length[i]));
    }
    kit_cells_show(p, &c);
    kit_cells_free(&c);
}

static const char long_experiment_title[] = "Long texts: what is read, and what it costs";

static int long_report(kit_report *p, const settings *s, kit_error *why)
{
    kit_claim c[LONG_CLAIMS];
    int done = 1;
    char measured[32];
    kit_say_count(measured, (size_t)long_bytes(s));
    kit_report_heading(p, long_experiment_title);
    kit_report_text(p,
                    "The models of E1 with seed %" PRIu64
                    ", trained on texts of %d, read %s held-out bytes in texts of up to %d. A "
                    "training step is forward and backward on one such text; its memory is what a "
                    "model with gradients, moments and activations for that length takes.",
                    s->seed, NANO_CONTEXT, measured, long_length[long_lengths(s) - 1]);
    long_tell_refusals(p);
    for (int kind = 0; kind < LONG_KINDS && done; kind++) {
        kit_cells table = long_cells(s, kind);
        kit_cells_show(p, &table);
        kit_cells_free(&table);
        if (kind == LONG_MEMORY) long_tell_maps(p, s);
        done = long_chart(p, s, kind, why);
    }
    kit_report_claims(p, "published", c, long_claims(c, s));
    return done && long_save_csv(s, why);
}

static const experiment long_experiment = {
    "long", long_experiment_title,
    "texts of 512 to 8,192: accuracy, time and memory, by encoding",
    text_check, long_work, long_clear, long_run, long_print, long_report
};

#endif
