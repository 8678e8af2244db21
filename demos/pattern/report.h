/* pattern/report.h - what the reader gets: tables on the terminal, and the report

   The question is "which positional encoding should I use, and what goes wrong without one?".
   Sentences are chosen by the figures of this very run: a result that did not happen is not
   explained. Figures that others published stand in one table, named as such. */
#ifndef PATTERN_REPORT_H
#define PATTERN_REPORT_H

#include "pattern/pictures.h"
#include "kit/report.h"

/* ---- figures in words ------------------------------------------------------------------------ */

enum { BLIND, PARTLY, SEES };              /* at chance; better than that; 99 % and more */

static double chance(const experiment *e) { return 1.0 / e->task->classes; }

/* how far luck moves the accuracy of a guesser: one standard deviation of the mean over the
   seeds */
static double luck(const experiment *e)
{
    return sqrt(chance(e) * (1 - chance(e)) / ((double)e->set.val * e->seeds));
}

static int outcome(const experiment *e, const method *m)
{
    return m->mean >= 0.99 ? SEES : m->mean <= chance(e) + 3 * luck(e) + 0.01 ? BLIND : PARTLY;
}

/* "pattern, balanced data" */
static void say_task(char text[64], const experiment *e)
{
    const char *data = e->task->data;
    snprintf(text, 64, "%s%s%s%s", e->task->name, data ? ", " : "", data ? data : "",
             data ? " data" : "");
}

static void say_gain(char text[32], const experiment *e, const method *m)
{
    double gain = 100 * (m->mean - none_accuracy(e));
    if (is_none(m->spec) || !isfinite(gain)) snprintf(text, 32, "-");
    else snprintf(text, 32, "%+.1f points", fabs(gain) < 0.05 ? 0.0 : gain);        /* never -0.0 */
}

static void say_spread(char text[32], const method *m)
{
    snprintf(text, 32, "%.1f .. %.1f", 100 * m->low, 100 * m->high);
}

static void say_epochs(char text[32], double epochs)
{
    if (!isfinite(epochs)) snprintf(text, 32, "not reached");
    else if (epochs == floor(epochs)) snprintf(text, 32, "epoch %.0f", epochs);
    else snprintf(text, 32, "epoch %.1f", epochs);
}

/* "`learned`, `rope` and `t5`": the methods with an outcome; returns how many */
static int say_methods(kit_text *t, const experiment *e, int which)
{
    int count = 0, said = 0;
    for (int i = 0; i < e->methods; i++) count += outcome(e, &e->method[i]) == which;
    for (int i = 0; i < e->methods; i++) {
        if (outcome(e, &e->method[i]) != which) continue;
        kit_put(t, "%s`%s` (%.1f %%)", said == 0 ? "" : said + 1 == count ? " and " : ", ",
                e->method[i].spec, 100 * e->method[i].mean);
        said++;
    }
    return count;
}

/* ---- on the terminal ------------------------------------------------------------------------- */

static double seconds_of(const experiment *e, int i)
{
    double sum = 0;
    for (int k = 0; k < e->seeds; k++) sum += total_seconds(&e->run[i * e->seeds + k]);
    return sum;
}

static void print_table(const experiment *e, int name_it)
{
    char task_name[64];
    int wide = 10;
    say_task(task_name, e);
    for (int i = 0; i < e->methods; i++)
        if ((int)strlen(e->spec[i]) > wide) wide = (int)strlen(e->spec[i]);
    if (name_it) printf("\n%s", task_name);
    printf("\n%-*s   parameters   validation%s   gain over none   seconds\n", wide, "method",
           e->seeds > 1 ? "          spread" : "");
    for (int i = 0; i < e->methods; i++) {
        const method *m = &e->method[i];
        char parameters[32], gain[32], spread[32];
        kit_say_count(parameters, m->parameters);
        say_gain(gain, e, m);
        say_spread(spread, m);
        printf("%-*s   %10s   %8.1f %%", wide, m->spec, parameters, 100 * m->mean);
        if (e->seeds > 1) printf("   %13s", spread);
        printf("   %14s   %7.1f\n", gain, seconds_of(e, i));
    }
}

/* ---- tables in the report -------------------------------------------------------------------- */

enum { CELL = 80 };

/* A table filled cell by cell; all texts have one length, which is plenty. */
typedef struct grid { kit_table table; char (*text)[CELL]; const char **cell; double *bar; } grid;

static grid grid_make(const char *const *head, int rows, int cols, int bar_column)
{
    grid g;
    size_t n = (size_t)(rows * cols);
    g.text = (char (*)[CELL])kit_new(n, sizeof *g.text);
    g.cell = (const char **)kit_new(n, sizeof *g.cell);
    g.bar = (double *)kit_new((size_t)rows, sizeof *g.bar);
    for (size_t i = 0; i < n; i++) g.cell[i] = g.text[i];
    memset(&g.table, 0, sizeof g.table);
    g.table.head = head;
    g.table.cell = g.cell;
    g.table.rows = rows;
    g.table.cols = cols;
    g.table.bar_column = bar_column;
    g.table.bar = bar_column ? g.bar : NULL;
    return g;
}

static char *grid_at(grid *g, int row, int col) { return g->text[row * g->table.cols + col]; }

static void grid_report(kit_report *p, grid *g)
{
    kit_report_table(p, &g->table);
    free(g->text);
    free((void *)g->cell);
    free(g->bar);
}

/* "97.3 %", or a dash for what did not run */
static void say_percent(char *text, double share)
{
    if (isfinite(share)) snprintf(text, CELL, "%.1f %%", 100 * share);
    else snprintf(text, CELL, "-");
}

static void report_results(kit_report *p, const experiment *e)
{
    static const char *const one[] = { "encoding", "validation accuracy", "gain over none",
                                       "99 % first in", "parameters" };
    static const char *const many[] = { "encoding", "validation accuracy", "gain over none",
                                        "99 % first in", "parameters", "lowest .. highest" };
    int several = e->seeds > 1;
    grid g = grid_make(several ? many : one, e->methods, 5 + several, 1);
    for (int i = 0; i < e->methods; i++) {
        const method *m = &e->method[i];
        g.bar[i] = m->mean;
        snprintf(grid_at(&g, i, 0), CELL, "%.70s", m->spec);
        say_percent(grid_at(&g, i, 1), m->mean);
        say_gain(grid_at(&g, i, 2), e, m);
        say_epochs(grid_at(&g, i, 3), m->to_99);
        kit_say_count(grid_at(&g, i, 4), m->parameters);
        if (several) say_spread(grid_at(&g, i, 5), m);
    }
    grid_report(p, &g);
}

/* ---- in short -------------------------------------------------------------------------------- */

static void report_without(kit_report *p, const experiment *e)
{
    const method *none = find_method(e, "none");
    if (!none) return;
    if (outcome(e, none) == BLIND)
        kit_report_text(p, "**Without positions** the model gets **%.1f %%** of unseen sequences "
                        "right: guessing among %d classes gives %.1f %%. To a transformer without "
                        "positions a sequence is a bag of tokens, and here the bag does not tell "
                        "the class.",
                        100 * none->mean, e->task->classes, 100 * chance(e));
    else
        kit_report_text(p, "**Without positions** the model gets **%.1f %%** of unseen sequences "
                        "right, where guessing among %d classes gives %.1f %%.", 100 * none->mean,
                        e->task->classes, 100 * chance(e));
}

/* Who sees, who does so partly, who not at all. */
static void report_ranking(kit_report *p, const experiment *e)
{
    static const char *const verb[] = { "At chance: ", "Better than guessing, short of 99 %: ",
                                        "**99 % and more**: " };
    for (int which = SEES; which >= BLIND; which--) {
        kit_text names = { NULL, 0, 0 };
        if (say_methods(&names, e, which) > 0)
            kit_report_text(p, "%s%.3000s.", verb[which], names.data);
        kit_text_free(&names);
    }
}

/* The quickest among those that see; several may share the epoch. */
static void report_advice(kit_report *p, const experiment *e)
{
    kit_text names = { NULL, 0, 0 };
    double first = HUGE_VAL;
    for (int i = 0; i < e->methods; i++)
        if (e->method[i].to_99 < first) first = e->method[i].to_99;
    for (int i = 0; i < e->methods; i++)
        if (e->method[i].to_99 == first)
            kit_put(&names, "%s`%s`", names.size ? ", " : "", e->method[i].spec);
    if (isfinite(first)) {
        char when[32];
        say_epochs(when, first);
        kit_report_text(p, "**Which one?** First to 99 %% here: %.3000s (%s). What this experiment "
                        "does not measure: sequences longer than those trained on. There a learned "
                        "table has no rows left, while encodings that enter at the query and key "
                        "or at the score can still be asked.", names.data, when);
    } else {
        kit_report_text(p, "**Which one?** No encoding got to 99 %% in %d epoch%s, so the order "
                        "below is one of speed; longer training may change it.", e->set.epochs,
                        e->set.epochs > 1 ? "s" : "");
    }
    kit_text_free(&names);
}

static void report_opening(kit_report *p, const experiment *e)
{
    const settings *s = &e->set;
    report_without(p, e);
    if (e->methods > 1) report_ranking(p, e);
    if (e->methods > 1) report_advice(p, e);
    kit_report_text(p, "%d seed%s, %d epoch%s of %d training sequences, %d validation sequences. "
                    "Every accuracy is that of the last epoch, not of the best one%s.", e->seeds,
                    e->seeds > 1 ? "s" : "", s->epochs, s->epochs > 1 ? "s" : "", s->train, s->val,
                    e->seeds > 1 ? ", and a mean over the seeds" : "");
    if (s->quick)
        kit_report_text(p, "This is the **quick** version, made to end within a minute: an "
                        "encoding that is behind here may only be slower. `pattern compare` "
                        "without `--quick` trains to the end.");
}

/* ---- balanced and plain ---------------------------------------------------------------------- */

static const experiment *find_experiment(const experiment *e, int count, const char *data)
{
    for (int i = 0; i < count; i++)
        if (e[i].task->data && strcmp(e[i].task->data, data) == 0) return &e[i];
    return NULL;
}

static void report_both(kit_report *p, const experiment *balanced, const experiment *plain)
{
    static const char *const head[] = { "encoding", "balanced", "plain", "plain minus balanced" };
    grid g = grid_make(head, balanced->methods, 4, 0);
    for (int i = 0; i < balanced->methods; i++) {
        const method *m = &balanced->method[i], *other = find_method(plain, m->spec);
        double share = other ? other->mean : NAN;
        snprintf(grid_at(&g, i, 0), CELL, "%.70s", m->spec);
        say_percent(grid_at(&g, i, 1), m->mean);
        say_percent(grid_at(&g, i, 2), share);
        if (other) snprintf(grid_at(&g, i, 3), CELL, "%+.1f points", 100 * (share - m->mean));
        else snprintf(grid_at(&g, i, 3), CELL, "-");
    }
    grid_report(p, &g);
}

/* Why `none` is where it is on plain data, from the counts of the very sequences it was judged
   by. */
static void report_leak(kit_report *p, const experiment *plain)
{
    double none = none_accuracy(plain), counts = rule_accuracy(RULE_COUNTS, &plain->val[0]);
    kit_report_text(p, "In the plain data the bag tells a good deal: the two values of the true "
                    "pair are always in it, those of the other pairs only by luck. A rule that "
                    "sees nothing but how often each value occurs, and makes the best of it, gets "
                    "**%.1f %%** of the validation sequences.", 100 * counts);
    if (!isfinite(none)) return;
    if (none > counts + 3 * luck(plain))
        kit_report_text(p, "`none` got %.1f %%, more than that: look for a fault first.",
                        100 * none);
    else if (none > counts - 0.05)
        kit_report_text(p, "`none` got %.1f %%: about all there is. On plain data two thirds is "
                        "what no position at all is worth, and only what lies above counts.",
                        100 * none);
    else
        kit_report_text(p, "`none` got %.1f %%: not all of it, after %d epoch%s.", 100 * none,
                        plain->set.epochs, plain->set.epochs > 1 ? "s" : "");
}

static void report_rules(kit_report *p, const experiment *balanced, const experiment *plain)
{
    static const char *const head[] = { "a rule that knows only", "balanced", "plain" };
    static const char *const rule[RULE_COUNT] = {
        "how often each value occurs", "the distance between two values and which comes first",
        "the distance between two values"
    };
    grid g = grid_make(head, RULE_COUNT, 3, 0);
    for (int i = 0; i < RULE_COUNT; i++) {
        snprintf(grid_at(&g, i, 0), CELL, "%s", rule[i]);
        say_percent(grid_at(&g, i, 1), balanced ? rule_accuracy(i, &balanced->val[0]) : NAN);
        say_percent(grid_at(&g, i, 2), plain ? rule_accuracy(i, &plain->val[0]) : NAN);
    }
    kit_report_text(p, "How much can be had without knowing places? Three rules on the first "
                    "seed's validation sequences, no training involved:");
    grid_report(p, &g);
    kit_report_text(p, "The pairs stand 4, 5 and 5 places apart, so distances give most of the "
                    "answer and places the rest. Encodings that know distances only can make up "
                    "the difference because a sequence has two ends: a token with three neighbours "
                    "to its left is at place 3.");
}

static void report_data(kit_report *p, const experiment *balanced, const experiment *plain)
{
    if (!balanced && !plain) return;
    kit_report_heading(p, balanced && plain
                       ? "Two kinds of data, and why guessing is not the control" : "The data");
    if (balanced) kit_report_text(p, "%s", balanced->task->about);
    if (plain) kit_report_text(p, "%s", balanced ? strstr(plain->task->about, "In the **plain**")
                                                 : plain->task->about);
    if (balanced && plain) report_both(p, balanced, plain);
    if (plain) report_leak(p, plain);
    if (balanced && plain)
        kit_report_svg(p, &plain->curves, "pattern-plain/curves.svg",
                       "validation accuracy by epoch on plain data", "");
    report_rules(p, balanced, plain);
}

/* ---- each figure explained ------------------------------------------------------------------- */

/* the encoding of a spec with one part; POSENC_ENCODING_COUNT: several at once */
static int only_encoding(const char *spec)
{
    posenc_spec list[POSENC_SPECS];
    int parts = 0;
    if (posenc_spec_parse(list, &parts, POSENC_SPECS, spec, NULL) != POSENC_OK || parts > 1)
        return POSENC_ENCODING_COUNT;
    return parts == 1 ? list[0].encoding : POSENC_NONE;
}

static void explain_none(kit_text *t, const experiment *e, const method *m)
{
    if (strcmp(e->task->data, "plain") == 0) {
        kit_put(t, "Sees the counts and nothing else; what those are worth is in the table of "
                "rules.");
        return;
    }
    kit_put(t, "Sees a bag of tokens, and all bags are alike. ");
    if (outcome(e, m) == BLIND)
        kit_put(t, "Guessing gives %.1f %%, give or take %.1f points with so many sequences.",
                100 * chance(e), 100 * luck(e));
    else
        kit_put(t, "It should guess (%.1f %%) and did not: look for a fault before believing it.",
                100 * chance(e));
}

/* Absolute places: what enters at the embedding. */
static void explain_embedding(kit_text *t, const experiment *e, const method *m, int encoding)
{
    static const char *const end[] = {
        "but in this training the model did not begin to use it.",
        "but in this training the model did not come to make full use of it.",
        "so that a single layer can ask for a value and its place together."
    };
    const method *learned = find_method(e, "learned");
    kit_put(t, "The place is part of each token's vector, %s", end[outcome(e, m)]);
    double soon = isfinite(m->to_99) ? m->to_99 : HUGE_VAL;
    if (encoding == POSENC_CONTINUOUS && learned && learned->to_99 < soon)
        kit_put(t, " Later than `learned`: its network starts out with nearly the same vector for "
                "every place, and they must drift apart first.");
}

/* Distances with their sign: rotations and learned biases. */
static void explain_distances(kit_text *t, const experiment *e, const method *m, int encoding)
{
    double rule = rule_accuracy(RULE_SIGNED, &e->val[0]);
    const char *how = encoding == POSENC_ROPE || encoding == POSENC_LROPE
        ? "Query and key know how far apart they stand and which comes first: the 8 can ask for a "
          "5 four places before it."
        : "Each head has a number of its own for a distance to the left and to the right, and can "
          "so look a fixed number of places away.";
    kit_put_string(t, how);
    if (outcome(e, m) == BLIND)
        kit_put(t, " In this training the model did not begin to use it.");
    else if (m->mean > rule + 2 * luck(e))
        kit_put(t, " Distances alone are worth %.1f %% (the second rule); what lies above comes "
                "from the two ends of the sequence, by which a place can be told.", 100 * rule);
    else
        kit_put(t, " Distances alone are worth %.1f %% (the second rule): %.1f %% needs no places.",
                100 * rule, 100 * m->mean);
}

static void explain_alibi(kit_text *t, const experiment *e, const method *m)
{
    kit_put(t, "A fixed penalty that grows with the distance and is the same to the left and to "
            "the right: no head can pick out one distance, nor tell before from after. ");
    if (outcome(e, m) == BLIND) kit_put(t, "Nothing is left to tell the classes apart.");
    else if (outcome(e, m) == PARTLY)
        kit_put(t, "What it has comes from nearness and from the two ends, where a token has fewer "
                "neighbours on one side.");
    else
        kit_put(t, "It got there all the same: nearness to other tokens and to the two ends was "
                "enough.");
}

/* The pattern task only: its sentences speak of pairs and places. */
static void report_why(kit_report *p, const experiment *e)
{
    kit_report_heading(p, "Each figure explained");
    for (int i = 0; i < e->methods; i++) {
        const method *m = &e->method[i];
        int encoding = only_encoding(m->spec);
        int several = encoding == POSENC_ENCODING_COUNT;
        int where = several ? POSENC_NOWHERE : (int)posenc_encoding_get(encoding)->where;
        kit_text t = { NULL, 0, 0 };
        char when[32];
        say_epochs(when, m->to_99);
        kit_put(&t, "**%.200s, %.1f %%** (99 %%: %s). ", m->spec, 100 * m->mean, when);
        if (several) kit_put(&t, "Several encodings at once, each at its own place.");
        else if (encoding == POSENC_ALIBI) explain_alibi(&t, e, m);
        else if (where == POSENC_EMBEDDING) explain_embedding(&t, e, m, encoding);
        else if (where != POSENC_NOWHERE) explain_distances(&t, e, m, encoding);
        else explain_none(&t, e, m);
        kit_report_text(p, "%s", t.data);
        kit_text_free(&t);
    }
}

/* ---- the other tasks ------------------------------------------------------------------------- */

/* the best of those whose name ends in 2d, or of the others; NULL: there is none */
static const method *best_by_axes(const experiment *e, int two)
{
    const method *best = NULL;
    for (int i = 0; i < e->methods; i++)
        if ((strstr(e->method[i].spec, "2d") != NULL) == two
            && (!best || e->method[i].mean > best->mean)) best = &e->method[i];
    return best;
}

static void report_axes(kit_report *p, const experiment *e)
{
    const method *two = best_by_axes(e, 1), *one = best_by_axes(e, 0);
    if (!two || !one) return;
    double ahead = two->mean - one->mean;
    kit_report_text(p, "The best encoding that knows rows and columns, `%s`, has %.1f %%; the best "
                    "that knows one number for each place, `%s`, %.1f %%%s",
                    two->spec, 100 * two->mean, one->spec, 100 * one->mean,
                    ahead > 0.01 ? ". Here it pays to say what a row is."
                    : ahead < -0.01 ? ". Here knowing rows and columns did not help."
                    : ": no difference to speak of; a square this small can be learnt place by "
                      "place.");
}

static void report_task(kit_report *p, const experiment *e, int first)
{
    char title[128], file[128], slug[64];
    task_slug(slug, sizeof slug, e->task);
    snprintf(file, sizeof file, "%s/curves.svg", slug);
    snprintf(title, sizeof title, "%c%s: %s", e->task->name[0] - 'a' + 'A', e->task->name + 1,
             e->task->question);
    if (!first) {
        kit_report_heading(p, title);
        kit_report_text(p, "%s", e->task->about);
        report_without(p, e);
        report_ranking(p, e);
        report_results(p, e);
        kit_report_svg(p, &e->curves, file, "validation accuracy by epoch", "");
    } else {
        kit_report_heading(p, "The task");
        kit_report_text(p, "%s", e->task->about);
    }
    if (e->task->square) report_axes(p, e);
}

/* ---- figures others published ---------------------------------------------------------------- */

static void report_published(kit_report *p, const experiment *plain)
{
    static const struct { const char *spec; double readme, saved; } theirs[] = {
        { "learned", 0.95, 0.999 }, { "relative", 0.93, 0.680 }, { "continuous", 0.89, 0.864 },
        { "sinusoidal", 0.78, 0.975 }, { "none", 0.35, 0.583 }
    };
    static const char *const head[] = { "encoding", "published: README", "published: one epoch",
                                        "ours: one epoch", "ours: last epoch" };
    enum { ROWS = (int)(sizeof theirs / sizeof *theirs) };
    const settings *s = &plain->set;
    grid g = grid_make(head, ROWS, 5, 0);
    for (int i = 0; i < ROWS; i++) {
        const method *m = find_method(plain, theirs[i].spec);
        int at = m ? (int)(m - plain->method) * plain->seeds : 0;
        snprintf(grid_at(&g, i, 0), CELL, "%s", theirs[i].spec);
        snprintf(grid_at(&g, i, 1), CELL, "about %.0f %%", 100 * theirs[i].readme);
        say_percent(grid_at(&g, i, 2), theirs[i].saved);
        say_percent(grid_at(&g, i, 3), m ? mean_after(&plain->run[at], plain->seeds, 0) : NAN);
        say_percent(grid_at(&g, i, 4), m ? m->mean : NAN);
    }
    kit_report_heading(p, "Beside published figures (plain data)");
    kit_report_text(p, "The task, the sizes and the first five encodings are those of the project "
                    "B-VARUN-REDDY/ml-positional-encoding on GitHub. It publishes two sets of "
                    "figures that do not agree: those of its README, said to be the best of 20 "
                    "epochs, and a table saved by its comparison script, which ran for one epoch.");
    grid_report(p, &g);
    kit_report_text(p, "**What differs.** There token 0 is a value like any other, classes have "
                    "equal numbers of sequences, the token embedding starts at 0.02 (ours at %g), "
                    "weight decay is 1e-5 (ours %g), one epoch is 5000 sequences (ours %d) and the "
                    "seed is 42. The published 35 %% for none is not what this data gives: counts "
                    "alone are worth %.1f %% here, and that project's own saved table has 58.3 %%.",
                    s->embedding_init, s->decay, s->train,
                    100 * rule_accuracy(RULE_COUNTS, &plain->val[0]));
    kit_report_text(p, "**Parameters.** The README says 478K for learned. The layers of its code "
                    "add up to 602,115 with a table of 32 rows (vocabulary 20, width 128, 3 blocks "
                    "of 8 heads with an FFN of 512, 3 classes), and so do ours at those sizes.");
}

/* ---- pictures, encodings, settings ----------------------------------------------------------- */

static void report_sheet(kit_report *p, const experiment *e, int first)
{
    char within[96], slug[64], name[64], caption[512];
    if (e->methods == 1) return;
    task_slug(slug, sizeof slug, e->task);
    say_task(name, e);
    snprintf(within, sizeof within, "%s%s", first ? "" : slug, first ? "" : "/");
    snprintf(caption, sizeof caption, "The same sequence (%s) under each encoding, averaged over "
             "heads. Rows of a map are the tokens that look, columns the tokens looked at; a "
             "bright stripe below a triangle means that a deciding token is read.", name);
    if (!first) kit_report_fold(p, name);
    kit_report_picture(p, &e->sheet, within, "attention maps of all encodings side by side",
                       caption);
    if (!first) kit_report_unfold(p);
}

/* Every head of a run, then what its encoding knows of positions. */
static void report_run_pictures(kit_report *p, const run *r, const char *within)
{
    char alt[160];
    snprintf(alt, sizeof alt, "attention maps of every head of %.100s", r->spec);
    kit_report_picture(p, &r->heads, within, alt, "");
    for (int i = 0; i < r->album.count; i++)
        kit_report_picture(p, &r->album.picture[i], within, r->album.alt[i], r->album.caption[i]);
}

static void report_pictures(kit_report *p, const experiment *e, int count)
{
    int alone = strcmp(e[0].folder, e[0].out) == 0;
    char slug[64], within[320], summary[160];
    task_slug(slug, sizeof slug, e[0].task);
    kit_report_heading(p, "Where the attention goes");
    for (int i = 0; i < count; i++) report_sheet(p, &e[i], i == 0);
    for (int i = 0; i < e[0].methods; i++) {
        const run *r = &e[0].run[i * e[0].seeds];
        snprintf(within, sizeof within, "%s/%s/", slug, r->slug);
        snprintf(summary, sizeof summary, "every head of %.110s, and its positions", r->spec);
        if (e[0].methods > 1) kit_report_fold(p, summary);
        report_run_pictures(p, r, alone ? "" : within);
        if (e[0].methods > 1) kit_report_unfold(p);
    }
}

/* Name, where it enters, and one line on each encoding in use: from the library's own table. */
static void report_encodings(kit_report *p, const experiment *e, int count)
{
    static const char *const where[] = { "nowhere", "the embedding", "query and key", "the score" };
    static const char *const head[] = { "encoding", "enters at", "what it is" };
    const char *cell[3 * POSENC_ENCODING_COUNT];
    unsigned char used[POSENC_ENCODING_COUNT] = { 0 };
    kit_table table = { head, cell, 0, 3, 0, NULL };
    for (int i = 0; i < count; i++)
        for (int m = 0; m < e[i].methods; m++) {
            posenc_spec list[POSENC_SPECS];
            int parts = 0;
            posenc_spec_parse(list, &parts, POSENC_SPECS, e[i].spec[m], NULL);
            for (int k = 0; k < parts; k++) used[list[k].encoding] = 1;
            if (parts == 0) used[POSENC_NONE] = 1;
        }
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
        const posenc_encoding_info *info = posenc_encoding_get(i);
        if (!used[i]) continue;
        cell[3 * table.rows] = info->name;
        cell[3 * table.rows + 1] = where[info->where];
        cell[3 * table.rows + 2] = info->line;
        table.rows++;
    }
    kit_report_heading(p, "The encodings");
    kit_report_table(p, &table);
}

/* The command that makes the same figures; only flags that are not implied by others. */
static void put_command(kit_text *t, const experiment *e, int count)
{
    const settings *s = &e[0].set;
    int alone = strcmp(e[0].folder, e[0].out) == 0, own_length = 0;
    for (int i = 0; i < count; i++) own_length |= e[i].set.seq_len != e[i].task->length;
    kit_put(t, "build/pattern %s --task %s ", alone ? "train" : "compare", s->task);
    if (find_experiment(e, count, "plain") || find_experiment(e, count, "balanced"))
        kit_put(t, "--data %s ", s->data);
    if (s->quick) kit_put_string(t, "--quick ");
    for (int i = 0; i < s->pe.count; i++)
        kit_put(t, "%s%s%s", i ? " " : "--pe \"", s->pe.item[i], i == s->pe.count - 1 ? "\" " : "");
    if (own_length) kit_put(t, "--seq-len %d ", s->seq_len);
    kit_put(t, "--epochs %d --seed %" PRIu64 " ", s->epochs, s->seed);
    if (s->seeds > 1) kit_put(t, "--seeds %d ", s->seeds);
    settings_print(t, s);
}

static void report_settings(kit_report *p, const experiment *e, int count)
{
    kit_text again = { NULL, 0, 0 };
    put_command(&again, e, count);
    kit_report_heading(p, "The same figures again");
    kit_report_text(p, "%d pre-norm block%s, mean over the tokens, linear head; AdamW. On the same "
                    "processor type, with any number of threads:", e[0].set.layers,
                    e[0].set.layers > 1 ? "s" : "");
    kit_report_code(p, again.data);
    kit_report_text(p, "Beside this page: `summary.csv`, `seeds.csv`, `history.csv`, "
                    "`history.jsonl`, `timing.csv` (seconds per epoch on your machine), "
                    "`curves.svg` and the pictures%s. The checkpoints `last.safetensors` and "
                    "`best.safetensors` of each run are in its folder.",
                    count > 1 ? " of the first experiment; the others have a folder each" : "");
    kit_text_free(&again);
}

/* ---- the whole page -------------------------------------------------------------------------- */

static int save_report(const experiment *e, int count, const char *out, kit_error *why)
{
    const experiment *balanced = find_experiment(e, count, "balanced");
    const experiment *plain = find_experiment(e, count, "plain");
    char title[64], heading[96];
    kit_report p;
    say_task(title, e);
    snprintf(heading, sizeof heading, "Results: %s", title);
    kit_report_begin(&p, "Which positional encoding, and what goes wrong without one?");
    report_opening(&p, e);
    kit_report_heading(&p, heading);
    report_results(&p, e);
    kit_report_svg(&p, &e->curves, "curves.svg", "validation accuracy by epoch", "");
    report_data(&p, balanced, plain);
    if (balanced || plain) report_why(&p, e);
    for (int i = 0; i < count; i++)
        if (!e[i].task->data) report_task(&p, &e[i], i == 0);
    if (plain) report_published(&p, plain);
    report_pictures(&p, e, count);
    report_encodings(&p, e, count);
    report_settings(&p, e, count);
    return kit_report_save(&p, out, why);
}

#endif
