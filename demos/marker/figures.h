/* marker/figures.h - what the runs add up to: means over seeds, loss by position, CSV tables

   A family is all runs with one kind of blocks. The fair one writes into --out itself, the
   published one into the folder published inside it. */
#ifndef MARKER_FIGURES_H
#define MARKER_FIGURES_H

#include "kit/specs.h"
#include "runs.h"

typedef struct family {
    const settings *set;
    int published;
    char folder[KIT_PATH];
    const char *spec[KIT_LIST_ROOM];
    int specs;
    run *r;                                /* (specs, depths, seeds)                              */
} family;

static int family_runs(const family *f) { return f->specs * f->set->depths.count * f->set->seeds; }

static run *family_run(const family *f, int s, int d, int k)
{
    return &f->r[(s * f->set->depths.count + d) * f->set->seeds + k];
}

/* number of the encoding, -1 when it was not run */
static int family_find(const family *f, const char *spec)
{
    for (int s = 0; f && s < f->specs; s++)
        if (strcmp(f->spec[s], spec) == 0) return s;
    return -1;
}

/* ---- figures --------------------------------------------------------------------------------- */

typedef struct figure { double mean, spread; } figure;   /* spread: standard deviation over seeds */

/* test loss of encoding s at depth number d after an epoch counted from 1 */
static figure loss_at(const family *f, int s, int d, int epoch)
{
    figure v = { 0, 0 };
    int n = f->set->seeds;
    for (int k = 0; k < n; k++) v.mean += family_run(f, s, d, k)->row[epoch - 1].test_loss / n;
    for (int k = 0; k < n; k++) {
        double away = family_run(f, s, d, k)->row[epoch - 1].test_loss - v.mean;
        v.spread += n > 1 ? away * away / (n - 1) : 0;
    }
    v.spread = sqrt(v.spread);
    return v;
}

static figure last_loss(const family *f, int s, int d)
{
    return loss_at(f, s, d, last_epoch(f->set));
}

/* mean over seeds of one position's loss */
static double position_loss(const family *f, int s, int d, int epoch, int position)
{
    double sum = 0;
    for (int k = 0; k < f->set->seeds; k++)
        sum += (double)family_run(f, s, d, k)->row[epoch - 1].position[position];
    return sum / f->set->seeds;
}

/* Positions that no model of this kind can know: the value after START; the published additive
   models never see their own sequence, so after MIDDLE they do not know it either; the published
   rotary ones may look at the answer. */
static int surprises(const family *f, const char *spec)
{
    if (!f->published) return 1;
    return strcmp(spec, "rope") == 0 || strcmp(spec, "lrope") == 0 ? 0 : 2;
}

/* Positions 8..62 all turn a zero into a zero: one column stands for them. */
enum { GROUPS = 10 };
static const struct { int first, last; const char *name, *task; } groups[GROUPS] = {
    { 0, 0, "0", "START to a" }, { 1, 1, "1", "a to a+1" }, { 2, 2, "2", "a+1 to a+2" },
    { 3, 3, "3", "a+2 to MIDDLE" }, { 4, 4, "4", "MIDDLE to a+3" }, { 5, 5, "5", "a+3 to a+4" },
    { 6, 6, "6", "a+4 to END" }, { 7, 7, "7", "END to 0" }, { 8, 62, "8-62", "0 to 0" },
    { 63, 63, "63", "the last 0 to START" }
};

static double group_loss(const family *f, int s, int d, int epoch, int g)
{
    double sum = 0;
    for (int p = groups[g].first; p <= groups[g].last; p++) sum += position_loss(f, s, d, epoch, p);
    return sum / (groups[g].last - groups[g].first + 1);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void grid_csv(kit_text *t, const family *f)
{
    const settings *set = f->set;
    kit_csv_head(t, "pe,depth,epochs,seed,train_loss,test_loss");
    for (int i = 0; i < f->specs * set->depths.count; i++)
        for (int e = 0; e < set->epochs.count; e++)
            for (int k = 0; k < set->seeds; k++) {
                const run *r = &f->r[i * set->seeds + k];
                int epoch = set->epochs.item[e];
                if (r->epochs_done < epoch) continue;
                put_run(t, r);
                kit_put(t, ",%d,%" PRIu64, epoch, r->seed);
                kit_csv_real(t, r->row[epoch - 1].train_loss, 6);
                kit_csv_real(t, r->row[epoch - 1].test_loss, 6);
                kit_csv_end(t);
            }
}

static void positions_csv(kit_text *t, const family *f)
{
    const settings *set = f->set;
    kit_csv_head(t, "pe,depth,epochs,position,loss");
    for (int s = 0; s < f->specs; s++)
        for (int d = 0; d < set->depths.count; d++)
            for (int e = 0; e < set->epochs.count; e++)
                for (int p = 0; p < MARKER_LENGTH; p++) {
                    put_run(t, family_run(f, s, d, 0));
                    kit_csv_int(t, set->epochs.item[e]);
                    kit_csv_int(t, p);
                    kit_csv_real(t, position_loss(f, s, d, set->epochs.item[e], p), 6);
                    kit_csv_end(t);
                }
}

static int save_family_table(void (*make)(kit_text *, const family *), const family *f,
                             const char *name, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    make(&t, f);
    int done = kit_save_in(f->folder, name, &t, why);
    kit_text_free(&t);
    return done;
}

/* What is known so far: written after each run, so that a long grid can be watched. */
static int save_progress(const family *f, kit_error *why)
{
    int runs = family_runs(f);
    return save_family_table(grid_csv, f, "grid.csv", why)
        && save_table(history_csv, f->r, runs, f->folder, "history.csv", why)
        && save_table(timing_csv, f->r, runs, f->folder, "timing.csv", why);
}

/* ---- the table on the terminal --------------------------------------------------------------- */

static const char *block_words(const family *f)
{
    return f->published ? "the published blocks" : "fair blocks";
}

static void print_table(const family *f)
{
    const settings *set = f->set;
    int wide = 10, E = set->epochs.count;
    for (int s = 0; s < f->specs; s++)
        if ((int)strlen(f->spec[s]) > wide) wide = (int)strlen(f->spec[s]);
    printf("\ntest loss with %s, mean of %d seed%s\n", block_words(f), set->seeds,
           set->seeds > 1 ? "s" : "");
    printf("%-*s", wide, "depth");
    for (int d = 0; d < set->depths.count; d++)
        printf("  %7d%*s", set->depths.item[d], 8 * (E - 1), "");
    printf("\n%-*s", wide, "epochs");
    for (int i = 0; i < set->depths.count * E; i++)
        printf("%s%7d", i % E ? " " : "  ", set->epochs.item[i % E]);
    printf("\n");
    for (int s = 0; s < f->specs; s++) {
        printf("%-*s", wide, f->spec[s]);
        for (int i = 0; i < set->depths.count * E; i++)
            printf("%s%7.4f", i % E ? " " : "  ",
                   loss_at(f, s, i / E, set->epochs.item[i % E]).mean);
        printf("\n");
    }
    if (f->published)
        printf("floor: %.4f for added encodings, 0 for rotary ones\n", marker_floor(2));
    else printf("floor: %.4f\n", marker_floor(1));
}

#endif
