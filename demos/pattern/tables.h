/* pattern/tables.h - figures: an experiment, its summary over seeds, CSV and JSON lines

   An experiment is one row of the table of tasks with a list of encodings and a number of seeds: a
   run for each encoding and seed. */
#ifndef PATTERN_TABLES_H
#define PATTERN_TABLES_H

#include "pattern/run.h"
#include "kit/csv.h"
#include "kit/json.h"
#include <math.h>

/* One encoding over all its seeds. Accuracies are those of the last epoch, on validation data. */
typedef struct method {
    const char *spec;
    size_t parameters;
    double mean, low, high;
    double best, best_epoch, train;        /* means; the epoch counts from 1                      */
    double to_99;                          /* mean epoch that first has 99 %; NaN unless all have */
} method;

typedef struct experiment {
    settings set;                          /* with this task's own length                         */
    const task *task;
    char out[KIT_PATH], folder[KIT_PATH];  /* out: of all experiments together                    */
    int methods, seeds;
    spec_text *spec;                       /* (methods)                                           */
    dataset *train, *val;                  /* (seeds)                                             */
    run *run;                              /* (methods, seeds)                                    */
    method *method;                        /* (methods), once all runs are done                   */
    kit_text curves;                       /* the pictures, once drawn                            */
    kit_picture sheet;
} experiment;

static int is_none(const char *spec) { return strcmp(spec, "none") == 0; }

static const epoch_row *last_row(const run *r) { return &r->row[r->epochs_done - 1]; }

static double total_seconds(const run *r)
{
    double sum = 0;
    for (int e = 0; e < r->epochs_done; e++) sum += r->seconds[e];
    return sum;
}

/* first epoch, from 1, with 99 % of the validation sequences right; NaN: never */
static double epochs_to_99(const run *r)
{
    for (int e = 0; e < r->epochs_done; e++)
        if (r->row[e].val_acc >= 0.99) return e + 1;
    return NAN;
}

/* ---- over seeds ------------------------------------------------------------------------------ */

static method method_sum_up(const run *r, int seeds)
{
    method m;
    memset(&m, 0, sizeof m);
    m.spec = r[0].spec;
    m.parameters = r[0].parameters;
    m.low = 1;
    for (int k = 0; k < seeds; k++) {
        double last = last_row(&r[k])->val_acc;
        m.mean += last / seeds;
        m.train += last_row(&r[k])->train_acc / seeds;
        m.best += r[k].row[r[k].best].val_acc / seeds;
        m.best_epoch += (r[k].best + 1.0) / seeds;
        m.to_99 += epochs_to_99(&r[k]) / seeds;            /* one NaN makes the sum one */
        m.low = last < m.low ? last : m.low;
        m.high = last > m.high ? last : m.high;
    }
    return m;
}

/* mean accuracy after an epoch counted from 0 */
static double mean_after(const run *r, int seeds, int epoch)
{
    double sum = 0;
    for (int k = 0; k < seeds; k++) sum += r[k].row[epoch].val_acc;
    return sum / seeds;
}

static const method *find_method(const experiment *e, const char *spec)
{
    for (int i = 0; e && i < e->methods; i++)
        if (strcmp(e->method[i].spec, spec) == 0) return &e->method[i];
    return NULL;
}

/* What the others are held against: the mean without positions. NaN: nobody ran it. */
static double none_accuracy(const experiment *e)
{
    const method *none = find_method(e, "none");
    return none ? none->mean : NAN;
}

/* ---- one row for each epoch of each run ------------------------------------------------------ */

static void row_begin(kit_text *t, const run *r)
{
    kit_csv_text(t, r->spec);
    kit_csv_u64(t, r->seed);
}

static void history_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "method,seed,epoch,train_loss,train_acc,val_loss,val_acc");
    for (int i = 0; i < count; i++)
        for (int e = 0; e < r[i].epochs_done; e++) {
            const epoch_row *row = &r[i].row[e];
            row_begin(t, &r[i]);
            kit_csv_int(t, e + 1);
            kit_csv_real(t, row->train_loss, 6);
            kit_csv_real(t, row->train_acc, 4);
            kit_csv_real(t, row->val_loss, 6);
            kit_csv_real(t, row->val_acc, 4);
            kit_csv_end(t);
        }
}

static void history_jsonl(kit_text *t, const run *r, int count)
{
    for (int i = 0; i < count; i++)
        for (int e = 0; e < r[i].epochs_done; e++) {
            kit_json_open(t, NULL, '{');
            kit_json_text(t, "method", r[i].spec);
            kit_json_u64(t, "seed", r[i].seed);
            kit_json_int(t, "epoch", e + 1);
            kit_json_real(t, "train_loss", r[i].row[e].train_loss);
            kit_json_real(t, "train_acc", r[i].row[e].train_acc);
            kit_json_real(t, "val_loss", r[i].row[e].val_loss);
            kit_json_real(t, "val_acc", r[i].row[e].val_acc);
            kit_json_close(t, '}');
            kit_json_line(t);
        }
}

static void timing_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "method,seed,epoch,seconds");
    for (int i = 0; i < count; i++)
        for (int e = 0; e < r[i].epochs_done + (r[i].step > 0); e++) {
            row_begin(t, &r[i]);
            kit_csv_int(t, e + 1);
            kit_csv_real(t, r[i].seconds[e], 3);
            kit_csv_end(t);
        }
}

/* ---- one row for each run, one for each encoding --------------------------------------------- */

static void seeds_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "method,seed,best_val_acc,best_epoch,epochs_to_99,final_val_acc");
    for (int i = 0; i < count; i++) {
        row_begin(t, &r[i]);
        kit_csv_real(t, r[i].row[r[i].best].val_acc, 4);
        kit_csv_int(t, r[i].best + 1);
        kit_csv_real(t, epochs_to_99(&r[i]), 0);
        kit_csv_real(t, last_row(&r[i])->val_acc, 4);
        kit_csv_end(t);
    }
}

static void summary_csv(kit_text *t, const experiment *e)
{
    int digits = e->seeds > 1 ? 2 : 0;                     /* of a mean of epochs */
    kit_csv_head(t, "method,params,best_val_acc,best_epoch,epochs_to_99,final_val_acc,"
                    "final_train_acc,gain_over_none");
    for (int i = 0; i < e->methods; i++) {
        const method *m = &e->method[i];
        kit_csv_text(t, m->spec);
        kit_csv_int(t, (long long)m->parameters);
        kit_csv_real(t, m->best, 4);
        kit_csv_real(t, m->best_epoch, digits);
        kit_csv_real(t, m->to_99, digits);
        kit_csv_real(t, m->mean, 4);
        kit_csv_real(t, m->train, 4);
        kit_csv_real(t, m->mean - none_accuracy(e), 4);
        kit_csv_end(t);
    }
}

/* ---- saving ---------------------------------------------------------------------------------- */

static int save_table(void (*make)(kit_text *, const run *, int), const run *r, int count,
                      const char *folder, const char *name, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    make(&t, r, count);
    int done = kit_save_in(folder, name, &t, why);
    kit_text_free(&t);
    return done;
}

/* what a run keeps up to date in its own folder */
static int save_logs(const run *r, int count, const char *folder, kit_error *why)
{
    return save_table(history_csv, r, count, folder, "history.csv", why)
        && save_table(history_jsonl, r, count, folder, "history.jsonl", why)
        && save_table(timing_csv, r, count, folder, "timing.csv", why);
}

static int save_tables(const experiment *e, const char *folder, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    int count = e->methods * e->seeds;
    summary_csv(&t, e);
    int done = kit_save_in(folder, "summary.csv", &t, why)
            && save_logs(e->run, count, folder, why)
            && save_table(seeds_csv, e->run, count, folder, "seeds.csv", why);
    kit_text_free(&t);
    return done;
}

/* The sequences themselves: label,t0,t1,... */
static int save_dataset(const dataset *d, const char *folder, const char *name, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, "label");
    for (int k = 0; k < d->length; k++) kit_put(&t, ",t%d", k);
    kit_csv_end(&t);
    for (int i = 0; i < d->count; i++) {
        kit_csv_int(&t, d->labels[i]);
        for (int k = 0; k < d->length; k++) kit_csv_int(&t, d->tokens[i * d->length + k]);
        kit_csv_end(&t);
    }
    int done = kit_save_in(folder, name, &t, why);
    kit_text_free(&t);
    return done;
}

#endif
