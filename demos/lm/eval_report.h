/* lm/eval_report.h - what an examination found: eval.json, report.html and report.md, the
   terminal

   Keys of eval.json are those of pos-enc-bench's evaluation:

       ppl_<context>_<interp|extrap>              perplexity of a token; bpb_... bits per byte
       <task>_<id|ood>_<accuracy|correct|total>           with examples: <task>_<id|ood>_3shot_...
       passkey_<context>_<beginning|middle|end|avg>_<interp|extrap>     passkey_code_... the other
       niah_<context>_<percent>pct_<interp|extrap>, niah_<context>_avg_...
       niah_overall_avg, niah_heatmap

   interp: no longer than trained. What could not be asked stands under "cannot" with the reason.
   Include posenc.h first. */
#ifndef LM_EVAL_REPORT_H
#define LM_EVAL_REPORT_H

#include "kit/cells.h"
#include "lm/needle.h"
#include "lm/perplexity.h"

enum { LM_ASK_PPL = 1, LM_ASK_EXACT = 2, LM_ASK_PASSKEY = 4, LM_ASK_NIAH = 8, LM_ASK_ALL = 15 };

typedef struct lm_scores {
    int asked;                             /* LM_ASK_...                                          */
    int wording;                           /* of niah                                             */
    lm_ppl ppl[LM_CONTEXTS];               /* (contexts), and so are the needles                  */
    lm_exact exact[LM_EXACT_ROWS];
    int exacts;
    lm_needles passkey[LM_KEYS][LM_CONTEXTS], niah[LM_CONTEXTS];
    char no_tasks[LM_WHY];                 /* why this model is asked for perplexity alone        */
    double seconds;
} lm_scores;

/* ---- keys ------------------------------------------------------------------------------------ */

typedef char lm_key[96];

static inline void lm_key_ppl(lm_key key, const lm_exam *x, const char *what, int context)
{
    snprintf(key, sizeof(lm_key), "%s_%d_%s", what, context, lm_regime(x, context));
}

static inline void lm_key_exact(lm_key key, const lm_exact *row, const char *what)
{
    int n =
        snprintf(key, sizeof(lm_key), "%s_%s_", lm_task_name[row->task], row->ood ? "ood" : "id");
    if (row->shots) n += snprintf(key + n, sizeof(lm_key) - (size_t)n, "%dshot_", row->shots);
    snprintf(key + n, sizeof(lm_key) - (size_t)n, "%s", what);
}

static inline void lm_key_passkey(lm_key key, const lm_exam *x, int wording, int context,
                                  const char *spot)
{
    snprintf(key, sizeof(lm_key), "passkey_%s%d_%s_%s", wording == LM_WORDS_CODE ? "code_" : "",
             context, spot, lm_regime(x, context));
}

/* depth: of LM_DEPTHS; -1: their mean */
static inline void lm_key_niah(lm_key key, const lm_exam *x, int context, int depth)
{
    const char *regime = lm_regime(x, context);
    if (depth < 0) snprintf(key, sizeof(lm_key), "niah_%d_avg_%s", context, regime);
    else snprintf(key, sizeof(lm_key), "niah_%d_%dpct_%s", context, 10 * depth, regime);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* NaN: nothing was asked */
static inline double lm_share(int correct, int total)
{
    return total > 0 ? (double)correct / total : NAN;
}

static inline double lm_needles_share(const lm_needles *s)
{
    return s->why[0] ? NAN : lm_share(lm_needles_correct(s), s->depths * s->total);
}

/* mean over the rows of one kind that were asked */
static inline double lm_exact_average(const lm_scores *s, int ood, int shots)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->exacts; i++) {
        const lm_exact *row = &s->exact[i];
        if (row->ood != ood || row->shots != shots || row->total == 0) continue;
        sum += lm_share(row->correct, row->total);
        n++;
    }
    return n ? sum / n : NAN;
}

static inline double lm_niah_average(const lm_scores *s, int contexts)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < contexts; i++) {
        if (s->niah[i].why[0]) continue;
        sum += lm_needles_share(&s->niah[i]);
        n++;
    }
    return n ? sum / n : NAN;
}

/* ---- eval.json ------------------------------------------------------------------------------- */

static inline void lm__json_ppl(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    lm_key key;
    for (int i = 0; i < x->contexts; i++) {
        if (s->ppl[i].why[0]) continue;
        lm_key_ppl(key, x, "ppl", s->ppl[i].context);
        kit_json_real(t, key, exp(s->ppl[i].nats));
        lm_key_ppl(key, x, x->bytes ? "bpb" : "bits_per_token", s->ppl[i].context);
        kit_json_real(t, key, lm_ppl_bits(&s->ppl[i]));
    }
}

static inline void lm__json_average(kit_text *t, const lm_scores *s, int ood, int shots)
{
    lm_key key;
    double average = lm_exact_average(s, ood, shots);
    int n = snprintf(key, sizeof key, "average_%s_", ood ? "ood" : "id");
    if (shots) n += snprintf(key + n, sizeof key - (size_t)n, "%dshot_", shots);
    snprintf(key + n, sizeof key - (size_t)n, "accuracy");
    if (isfinite(average)) kit_json_real(t, key, average);
}

static inline void lm__json_exact(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    lm_key key;
    for (int i = 0; i < s->exacts; i++) {
        const lm_exact *row = &s->exact[i];
        if (row->why[0]) continue;
        lm_key_exact(key, row, "accuracy");
        kit_json_real(t, key, lm_share(row->correct, row->total));
        lm_key_exact(key, row, "correct");
        kit_json_int(t, key, row->correct);
        lm_key_exact(key, row, "total");
        kit_json_int(t, key, row->total);
    }
    for (int ood = 0; ood < 2; ood++) {
        lm__json_average(t, s, ood, 0);
        if (x->few) lm__json_average(t, s, ood, x->few);
    }
}

static inline void lm__json_passkey(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    lm_key key;
    for (int w = 0; w < LM_KEYS; w++)
        for (int i = 0; i < x->contexts; i++) {
            const lm_needles *n = &s->passkey[w][i];
            if (n->why[0]) continue;
            for (int d = 0; d < LM_SPOTS; d++) {
                lm_key_passkey(key, x, w, n->context, lm_spot_name[d]);
                kit_json_real(t, key, lm_share(n->correct[d], n->total));
            }
            lm_key_passkey(key, x, w, n->context, "avg");
            kit_json_real(t, key, lm_needles_share(n));
        }
}

static inline void lm__json_heatmap(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    kit_json_open(t, "niah_heatmap", '{');
    kit_json_open(t, "contexts", '[');
    for (int i = 0; i < x->contexts; i++) kit_json_int(t, NULL, s->niah[i].context);
    kit_json_close(t, ']');
    kit_json_open(t, "depths_percent", '[');
    for (int d = 0; d < LM_DEPTHS; d++) kit_json_int(t, NULL, 10 * d);
    kit_json_close(t, ']');
    kit_json_open(t, "accuracy", '[');                           /* a list for each context       */
    for (int i = 0; i < x->contexts; i++) {
        const lm_needles *n = &s->niah[i];
        kit_json_open(t, NULL, '[');
        for (int d = 0; d < LM_DEPTHS; d++)
            kit_json_real(t, NULL, n->why[0] ? NAN : lm_share(n->correct[d], n->total));
        kit_json_close(t, ']');
    }
    kit_json_close(t, ']');
    kit_json_close(t, '}');
}

static inline void lm__json_niah(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    lm_key key;
    for (int i = 0; i < x->contexts; i++) {
        const lm_needles *n = &s->niah[i];
        if (n->why[0]) continue;
        for (int d = 0; d < LM_DEPTHS; d++) {
            lm_key_niah(key, x, n->context, d);
            kit_json_real(t, key, lm_share(n->correct[d], n->total));
        }
        lm_key_niah(key, x, n->context, -1);
        kit_json_real(t, key, lm_needles_share(n));
    }
    kit_json_real(t, "niah_overall_avg", lm_niah_average(s, x->contexts));
    lm__json_heatmap(t, x, s);
}

/* key: reason, for everything that was asked for and could not be */
static inline void lm__json_cannot(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    lm_key key;
    kit_json_open(t, "cannot", '{');
    for (int i = 0; i < x->contexts && s->asked & LM_ASK_PPL; i++)
        if (s->ppl[i].why[0]) {
            lm_key_ppl(key, x, "ppl", s->ppl[i].context);
            kit_json_text(t, key, s->ppl[i].why);
        }
    for (int i = 0; i < s->exacts; i++)
        if (s->exact[i].why[0]) {
            lm_key_exact(key, &s->exact[i], "accuracy");
            kit_json_text(t, key, s->exact[i].why);
        }
    for (int i = 0; i < 3 * x->contexts && !s->no_tasks[0]; i++) {
        int kind = i / x->contexts, ask = kind < LM_KEYS ? LM_ASK_PASSKEY : LM_ASK_NIAH;
        const lm_needles *n = kind < LM_KEYS ? &s->passkey[kind][i % x->contexts]
                                             : &s->niah[i % x->contexts];
        if (!(s->asked & ask) || !n->why[0]) continue;
        if (kind < LM_KEYS) lm_key_passkey(key, x, kind, n->context, "avg");
        else lm_key_niah(key, x, n->context, -1);
        kit_json_text(t, key, n->why);
    }
    if (s->no_tasks[0]) kit_json_text(t, "tasks", s->no_tasks);
    kit_json_close(t, '}');
}

static inline void lm_eval_json(kit_text *t, const lm_exam *x, const lm_scores *s)
{
    const posenc_config *c = posenc_model_config(x->model);
    int tasks = !s->no_tasks[0];
    kit_json_open(t, NULL, '{');
    kit_json_text(t, "checkpoint", x->path);
    kit_json_text(t, "size", x->note.size);
    kit_json_text(t, "encoding", c->encoding);
    kit_json_u64(t, "parameters", posenc_model_numbers(x->model));
    kit_json_int(t, "trained_context", x->trained);
    kit_json_u64(t, "trained_tokens", x->note.tokens);
    kit_json_text(t, "text", x->text_name);
    kit_json_int(t, "targets", x->tokens ? x->tokens - 1 : 0);
    kit_json_u64(t, "seed", x->seed);
    kit_json_int(t, "few_shot", x->few);
    if (s->asked & LM_ASK_NIAH) kit_json_text(t, "niah_wording", lm_wording_name[s->wording]);
    kit_json_open(t, "results", '{');
    if (s->asked & LM_ASK_PPL) lm__json_ppl(t, x, s);
    if (tasks && s->asked & LM_ASK_EXACT) lm__json_exact(t, x, s);
    if (tasks && s->asked & LM_ASK_PASSKEY) lm__json_passkey(t, x, s);
    if (tasks && s->asked & LM_ASK_NIAH) lm__json_niah(t, x, s);
    kit_json_close(t, '}');
    lm__json_cannot(t, x, s);
    kit_json_real(t, "seconds", s->seconds);
    kit_json_close(t, '}');
    kit_json_line(t);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static inline void lm__cell_share(kit_cells *c, int row, int col, double share)
{
    if (isfinite(share)) kit_cells_put(c, row, col, "%.1f %%", 100 * share);
    else kit_cells_put(c, row, col, "-");
}

static inline void lm__cell_interval(kit_cells *c, int row, int col, int correct, int total)
{
    double low, high;
    lm_wilson(&low, &high, correct, total);
    if (total > 0) kit_cells_put(c, row, col, "%.1f..%.1f %%", 100 * low, 100 * high);
    else kit_cells_put(c, row, col, "-");
}

static inline void lm__cells_head(kit_cells *c, const char *const *word)
{
    for (int i = 0; i < c->cols; i++) kit_cells_put(c, 0, i, "%s", word[i]);
}

static inline kit_cells lm_ppl_cells(const lm_exam *x, const lm_scores *s)
{
    static const char *const head[7] = { "context", "regime", "bits per byte", "perplexity",
                                         "targets", "windows", "remark" };
    kit_cells c = kit_cells_new(x->contexts + 1, 7);
    lm__cells_head(&c, head);
    if (!x->bytes) kit_cells_put(&c, 0, 2, "bits per token");
    for (int i = 0; i < x->contexts; i++) {
        const lm_ppl *p = &s->ppl[i];
        kit_cells_put(&c, i + 1, 0, "%d", p->context);
        kit_cells_put(&c, i + 1, 1, "%.4gx, %s", (double)p->context / x->trained,
                      lm_regime(x, p->context));
        for (int k = 2; k < 6; k++) kit_cells_put(&c, i + 1, k, "-");
        kit_cells_put(&c, i + 1, 6, "%s", p->why);
        if (p->why[0]) continue;
        kit_cells_put(&c, i + 1, 2, "%.3f", lm_ppl_bits(p));
        kit_cells_put(&c, i + 1, 3, "%.3f", exp(p->nats));
        kit_cells_put(&c, i + 1, 4, "%ld", p->targets);
        kit_cells_put(&c, i + 1, 5, "%ld", p->windows);
        kit_cells_put(&c, i + 1, 6, "%.0f tokens/s", 2 * (double)p->targets / (p->seconds + 1e-9));
    }
    return c;
}

static inline void lm__exact_row(kit_cells *c, int r, const lm_exam *x, const lm_exact *row)
{
    kit_cells_put(c, r, 0, "%s", lm_task_name[row->task]);
    kit_cells_put(c, r, 1, row->ood ? "out" : "in");
    kit_cells_put(c, r, 2, "%d", row->shots);
    lm__cell_share(c, r, 3, lm_share(row->correct, row->total));
    lm__cell_interval(c, r, 4, row->correct, row->total);
    kit_cells_put(c, r, 5, row->total ? "%d of %d" : "-", row->correct, row->total);
    kit_cells_put(c, r, 6, row->longest ? "%d" : "-", row->longest);
    if (row->why[0]) kit_cells_put(c, r, 7, "%s", row->why);
    else if (row->longest > x->trained) kit_cells_put(c, r, 7, "past the trained length");
}

static inline kit_cells lm_exact_cells(const lm_exam *x, const lm_scores *s)
{
    static const char *const head[8] = { "task", "distribution", "examples", "accuracy",
                                         "95 % interval", "right", "longest", "remark" };
    kit_cells c = kit_cells_new(s->exacts + 1, 8);
    lm__cells_head(&c, head);
    for (int i = 0; i < s->exacts; i++) lm__exact_row(&c, i + 1, x, &s->exact[i]);
    return c;
}

static inline kit_cells lm_passkey_cells(const lm_exam *x, const lm_needles *all)
{
    static const char *const head[8] = { "context", "regime", "beginning", "middle", "end",
                                         "all", "95 % interval", "remark" };
    kit_cells c = kit_cells_new(x->contexts + 1, 8);
    lm__cells_head(&c, head);
    for (int i = 0; i < x->contexts; i++) {
        const lm_needles *n = &all[i];
        int total = n->why[0] ? 0 : n->total;
        kit_cells_put(&c, i + 1, 0, "%d", n->context);
        kit_cells_put(&c, i + 1, 1, "%.4gx, %s", (double)n->context / x->trained,
                      lm_regime(x, n->context));
        for (int d = 0; d < LM_SPOTS; d++)
            lm__cell_share(&c, i + 1, 2 + d, lm_share(n->correct[d], total));
        lm__cell_share(&c, i + 1, 5, lm_needles_share(n));
        lm__cell_interval(&c, i + 1, 6, lm_needles_correct(n), LM_SPOTS * total);
        kit_cells_put(&c, i + 1, 7, "%s", n->why);
    }
    return c;
}

static inline kit_cells lm_niah_cells(const lm_exam *x, const lm_scores *s)
{
    static const char *const head[6] = { "context", "regime", "all depths", "95 % interval",
                                         "questions", "remark" };
    kit_cells c = kit_cells_new(x->contexts + 1, 6);
    lm__cells_head(&c, head);
    for (int i = 0; i < x->contexts; i++) {
        const lm_needles *n = &s->niah[i];
        int total = n->why[0] ? 0 : LM_DEPTHS * n->total;
        kit_cells_put(&c, i + 1, 0, "%d", n->context);
        kit_cells_put(&c, i + 1, 1, "%.4gx, %s", (double)n->context / x->trained,
                      lm_regime(x, n->context));
        lm__cell_share(&c, i + 1, 2, lm_needles_share(n));
        lm__cell_interval(&c, i + 1, 3, lm_needles_correct(n), total);
        kit_cells_put(&c, i + 1, 4, total ? "%d" : "-", total);
        kit_cells_put(&c, i + 1, 5, "%s", n->why);
    }
    return c;
}

/* ---- pictures -------------------------------------------------------------------------------- */

static inline int lm__save_figure(kit_report *p, kit_text *svg, const char *folder,
                                  const char *file, const char *alt, const char *caption,
                                  kit_error *why)
{
    int good = kit_save_in(folder, file, svg, why);
    if (good) kit_report_svg(p, svg, file, alt, caption);
    kit_text_free(svg);
    return good;
}

static inline int lm__ppl_figure(kit_report *p, const lm_exam *x, const lm_scores *s,
                                 const char *folder, kit_error *why)
{
    double context[LM_CONTEXTS], bits[LM_CONTEXTS];
    kit_text svg = { NULL, 0, 0 };
    kit_series line = { posenc_model_config(x->model)->encoding, context, bits, 0, 0 };
    kit_chart chart;
    for (int i = 0; i < x->contexts; i++)
        if (!s->ppl[i].why[0]) {
            context[line.n] = s->ppl[i].context;
            bits[line.n++] = lm_ppl_bits(&s->ppl[i]);
        }
    if (line.n == 0) return 1;
    memset(&chart, 0, sizeof chart);
    chart.title = x->bytes ? "Bits per byte by context" : "Bits per token by context";
    chart.x_label = "tokens of a window";
    chart.y_label = "bits";
    chart.series = &line;
    chart.count = 1;
    chart.log_x = 2;
    kit_chart_svg(&svg, &chart);
    return lm__save_figure(p, &svg, folder, "perplexity.svg", chart.title,
                           "Every window predicts the same targets; past the training length the "
                           "line shows what the encoding makes of places it never saw.", why);
}

/* x: contexts, y: share of right answers, a line for each spot */
static inline int lm__passkey_figure(kit_report *p, const lm_exam *x, const lm_needles *all,
                                     int wording, const char *folder, kit_error *why)
{
    double context[LM_CONTEXTS], share[LM_SPOTS][LM_CONTEXTS];
    char title[64], file[32];
    kit_text svg = { NULL, 0, 0 };
    kit_series line[LM_SPOTS];
    kit_chart chart;
    int there = 0;
    for (int d = 0; d < LM_SPOTS; d++) {
        kit_series one = { lm_spot_name[d], context, share[d], x->contexts, 0 };
        line[d] = one;
    }
    for (int i = 0; i < x->contexts * LM_SPOTS; i++) {
        const lm_needles *n = &all[i / LM_SPOTS];
        context[i / LM_SPOTS] = n->context;
        share[i % LM_SPOTS][i / LM_SPOTS] =
            n->why[0] ? NAN : lm_share(n->correct[i % LM_SPOTS], n->total);
        there |= !n->why[0];
    }
    if (!there) return 1;
    memset(&chart, 0, sizeof chart);
    snprintf(title, sizeof title, "Keys found, wording \"%s\"", lm_wording_name[wording]);
    snprintf(file, sizeof file, "passkey_%s.svg", lm_wording_name[wording]);
    chart.title = title;
    chart.x_label = "tokens of the context";
    chart.y_label = "found";
    chart.series = line;
    chart.count = LM_SPOTS;
    chart.y_high = 1;
    chart.percent = 1;
    chart.log_x = 2;
    kit_chart_svg(&svg, &chart);
    return lm__save_figure(p, &svg, folder, file, title, "", why);
}

static inline int lm__niah_figure(kit_report *p, const lm_exam *x, const lm_scores *s,
                                  const char *folder, kit_error *why)
{
    char depth[LM_DEPTHS][8], context[LM_CONTEXTS][16];
    const char *row[LM_DEPTHS], *col[LM_CONTEXTS];
    double value[LM_DEPTHS * LM_CONTEXTS];
    kit_text svg = { NULL, 0, 0 };
    for (int d = 0; d < LM_DEPTHS; d++) {
        snprintf(depth[d], sizeof *depth, "%d %%", 10 * d);
        row[d] = depth[d];
        for (int i = 0; i < x->contexts; i++) {
            const lm_needles *n = &s->niah[i];
            snprintf(context[i], sizeof *context, "%d", n->context);
            col[i] = context[i];
            value[d * x->contexts + i] = n->why[0] ? NAN : 100 * lm_share(n->correct[d], n->total);
        }
    }
    kit_heat heat = { "Needles found, per cent",
                      "context; rows: depth, 0 % is the beginning",
                      row,
                      col,
                      value,
                      LM_DEPTHS,
                      x->contexts,
                      5,
                      100 };
    kit_heat_svg(&svg, &heat);
    return lm__save_figure(p, &svg, folder, "niah.svg", "needles found by depth and context",
                           "Empty cells: the encoding cannot read that far.", why);
}

/* tasks down, the four ways of asking across */
static inline int lm__exact_figure(kit_report *p, const lm_exam *x, const lm_scores *s,
                                   const char *folder, kit_error *why)
{
    const char *name[LM_TASKS], *col[4] = { "in", "in, shots", "out", "out, shots" };
    double value[LM_TASKS * 4];
    int cols = x->few ? 4 : 2, rows = 0;
    kit_text svg = { NULL, 0, 0 };
    for (int i = 0; i < LM_TASKS * 4; i++) value[i] = NAN;
    if (!x->few) col[1] = col[2];
    for (int i = 0; i < s->exacts; i++) {
        const lm_exact *row = &s->exact[i];
        int at = rows ? rows - 1 : 0;
        if (rows == 0 || name[at] != lm_task_name[row->task]) {
            at = rows++;
            name[at] = lm_task_name[row->task];
        }
        if (row->total)
            value[at * cols + row->ood * cols / 2 + (row->shots > 0)] =
                100 * lm_share(row->correct, row->total);
    }
    kit_heat heat = { "Right answers, per cent",
                      "in and out of distribution, without and with examples",
                      name,
                      col,
                      value,
                      rows,
                      cols,
                      5,
                      100 };
    kit_heat_svg(&svg, &heat);
    return lm__save_figure(p, &svg, folder, "tasks.svg", "right answers by task", "", why);
}

/* ---- the report ------------------------------------------------------------------------------ */

static inline void lm__cells_tell(kit_report *p, kit_cells c)
{
    kit_cells_show(p, &c);
    kit_cells_free(&c);
}

static inline int lm__tell_ppl(kit_report *p, const lm_exam *x, const lm_scores *s,
                               const char *folder, kit_error *why)
{
    kit_report_heading(p, "Perplexity with a sliding window");
    if (x->tokens)
        kit_report_text(p,
                        "Measured on %s: %ld targets. Windows begin half a context apart; each "
                        "target "
                        "counts **exactly once**, and past the first window it has half a context "
                        "or "
                        "more before it. Every window is one full forward, so that it sees what "
                        "lies "
                        "inside it and nothing else.",
                        x->text_name, x->tokens - 1);
    lm__cells_tell(p, lm_ppl_cells(x, s));
    return lm__ppl_figure(p, x, s, folder, why);
}

static inline int lm__tell_exact(kit_report *p, const lm_exam *x, const lm_scores *s,
                                 const char *folder, kit_error *why)
{
    kit_report_heading(p, "Tasks with one right answer");
    kit_report_text(p,
                    "The likeliest byte each time, with a key/value cache; an answer counts when "
                    "it is "
                    "right to the byte and ends there. In distribution: lengths as in training; "
                    "out "
                    "of it: longer ones. `longest` counts the tokens of a question and its answer. "
                    "`examples` is how many questions with answers stood before. "
                    "A model that was not trained on a task has no reason to know what is wanted. "
                    "Questions are %s%s.",
                    x->examples ? "those of "
                                : "made here, none of them a "
                                  "training example of `lm tasks`",
                    x->examples ? x->examples : "");
    int good = lm__exact_figure(p, x, s, folder, why);
    kit_report_fold(p, "All rows, with intervals");
    lm__cells_tell(p, lm_exact_cells(x, s));
    kit_report_unfold(p);
    return good;
}

static inline int lm__tell_passkey(kit_report *p, const lm_exam *x, const lm_scores *s,
                                   const char *folder, kit_error *why)
{
    static const char *const how[LM_KEYS] = { "The published wording: `KEY:40712` on a line of its "
                                              "own, in stock sentences; the text ends in "
                                              "`KEY:`. The tasks `key` and `needle` of `lm tasks` "
                                              "train it.",
                                              "The wording of the task `passkey`: `The code is "
                                              "40712.` in the text of the first section; the "
                                              "text ends in `The code is`." };
    int good = 1;
    kit_report_heading(p, "Passkey at three depths");
    for (int w = 0; w < LM_KEYS && good; w++) {
        kit_report_text(p, "%s", how[w]);
        lm__cells_tell(p, lm_passkey_cells(x, s->passkey[w]));
        good = lm__passkey_figure(p, x, s->passkey[w], w, folder, why);
    }
    return good;
}

static inline int lm__tell_niah(kit_report *p, const lm_exam *x, const lm_scores *s,
                                const char *folder, kit_error *why)
{
    kit_report_heading(p, "Needle in a haystack");
    kit_report_text(p,
                    "Eleven depths of each context, wording `%s`. The text and the key are the "
                    "same at "
                    "all depths.",
                    lm_wording_name[s->wording]);
    int good = lm__niah_figure(p, x, s, folder, why);
    lm__cells_tell(p, lm_niah_cells(x, s));
    return good;
}

static inline void lm__tell_model(kit_report *p, const lm_exam *x, const lm_scores *s)
{
    const posenc_config *c = posenc_model_config(x->model);
    char count[32], took[32];
    kit_say_count(count, posenc_model_numbers(x->model));
    kit_say_seconds(took, sizeof took, s->seconds);
    kit_report_text(p,
                    "`%s`: %s parameters, %d layers of %d channels and %d heads, encoding `%s`, "
                    "trained "
                    "on windows of %d tokens (%" PRIu64 " in all). Asked for %s.",
                    x->path, count, c->layers, c->channels, c->heads, c->encoding, x->trained,
                    x->note.tokens, took);
}

static inline int lm_eval_report(const lm_exam *x, const lm_scores *s, const char *folder,
                                 kit_error *why)
{
    kit_report p;
    kit_error ignored;
    int good = 1, tasks = s->asked & ~LM_ASK_PPL;
    kit_report_begin(&p, "Evaluation of a language model");
    lm__tell_model(&p, x, s);
    if (s->asked & LM_ASK_PPL) good = lm__tell_ppl(&p, x, s, folder, why);
    if (s->no_tasks[0] && tasks) {
        kit_report_heading(&p, "Tasks");
        kit_report_text(&p, "%s", s->no_tasks);
        tasks = 0;
    }
    if (good && tasks & LM_ASK_EXACT) good = lm__tell_exact(&p, x, s, folder, why);
    if (good && tasks & LM_ASK_PASSKEY) good = lm__tell_passkey(&p, x, s, folder, why);
    if (good && tasks & LM_ASK_NIAH) good = lm__tell_niah(&p, x, s, folder, why);
    return kit_report_save(&p, folder, good ? why : &ignored) && good;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static inline void lm__cells_say(const char *title, kit_cells c)
{
    printf("\n%s\n", title);
    kit_cells_print(&c);
    kit_cells_free(&c);
}

static inline void lm_eval_print(const lm_exam *x, const lm_scores *s)
{
    int tasks = s->no_tasks[0] ? 0 : s->asked;
    if (s->asked & LM_ASK_PPL) lm__cells_say("sliding-window perplexity", lm_ppl_cells(x, s));
    if (s->no_tasks[0] && s->asked & ~LM_ASK_PPL) printf("\n%s\n", s->no_tasks);
    if (tasks & LM_ASK_EXACT) lm__cells_say("exact match", lm_exact_cells(x, s));
    for (int w = 0; w < LM_KEYS && tasks & LM_ASK_PASSKEY; w++)
        lm__cells_say(w ? "passkey, \"The code is ...\"" : "passkey, \"KEY:...\"",
                      lm_passkey_cells(x, s->passkey[w]));
    if (tasks & LM_ASK_NIAH) lm__cells_say("needle in a haystack", lm_niah_cells(x, s));
}

#endif
