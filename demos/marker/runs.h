/* marker/runs.h - one training after the other, each in its folder, each able to go on after a stop

   A run is one encoding at one depth with one seed. It trains to the last of --epochs and is
   measured after every epoch: the learning rate is constant, so a run of 16 epochs passes through
   the very models that runs of 1 and 4 epochs would end in. */
#ifndef MARKER_RUNS_H
#define MARKER_RUNS_H

#include "kit/csv.h"
#include "kit/progress.h"
#include "kit/specs.h"
#include "nets.h"
#include <ctype.h>

enum { DONE = 0, FAILED = 1, STOPPED = 130 };      /* exit codes, beside args.h's 2; 130: Ctrl-C */
enum { MOST_NUMBERS = 16 };

typedef struct numbers { int item[MOST_NUMBERS], count; } numbers;            /* rising */

typedef struct settings {
    const char *depth_text, *epochs_text;
    numbers depths, epochs;
    int batch, d_model, heads, ffn, sequences, seeds, threads;
    double lr, dropout;
    uint64_t seed;
    const char *blocks, *device, *precision, *out;
    int resume, quick, quiet;
} settings;

static int last_epoch(const settings *s) { return s->epochs.item[s->epochs.count - 1]; }

/* What decides the figures of every run, as flags: for the report, and for checkpoints, so that
   --resume cannot mix two experiments. The published blocks have a dropout of their own. */
static void settings_print(kit_text *t, const settings *s)
{
    kit_put(t, "--sequences %d --batch %d --lr %g --dropout %g --d-model %d --heads %d --ffn %d",
            s->sequences, s->batch, s->lr, s->dropout, s->d_model, s->heads, s->ffn);
    if (strcmp(s->precision, "fp32") != 0) kit_put(t, " --precision %s", s->precision);
}

/* ---- one run --------------------------------------------------------------------------------- */

typedef struct epoch_row {
    double train_loss, test_loss;          /* train: on the way, dropout on; test: afterwards     */
    float position[MARKER_LENGTH];         /* test loss of each position                          */
} epoch_row;

typedef struct run {
    const settings *set;
    int published;                         /* 1: the blocks of the published comparison           */
    const char *spec;
    int depth;
    uint64_t seed;
    char folder[KIT_PATH];
    net net;
    marker_data train, test;
    epoch_row *row;                        /* (last epoch) filled up to epochs_done               */
    double *seconds;                       /* (last epoch)                                        */
    int epochs_done, step;                 /* whole epochs; steps of the one under way            */
    double loss_sum;                       /* over the sequences of the epoch under way           */
    int best;                              /* epoch of the lowest test loss, -1: none yet         */
    int *order, *tokens, *targets;         /* the epoch's order; one batch                        */
    float *logits, *losses;                /* of one batch                                        */
} run;

static net_plan run_plan(const settings *s, int published, const char *spec, int depth,
                         uint64_t seed)
{
    net_plan p;
    memset(&p, 0, sizeof p);
    int rotary_spec = strcmp(spec, "rope") == 0 || strcmp(spec, "lrope") == 0;
    p.kind = !published ? NET_FAIR : rotary_spec ? NET_ROTARY : NET_ACROSS;
    p.spec = spec;
    p.depth = depth;
    p.batch = s->batch;
    p.width = s->d_model;
    p.heads = s->heads;
    p.hidden = s->ffn;
    p.threads = s->threads;
    p.precision = strcmp(s->precision, "bf16") == 0 ? POSENC_BF16 : POSENC_FP32;
    p.dropout = s->dropout;
    p.seed = seed;
    return p;
}

static int steps_per_epoch(const run *r)
{
    int trained = r->set->sequences - marker_test_count(r->set->sequences);
    return (trained + r->set->batch - 1) / r->set->batch;
}

/* the history outlives the model: reports need it */
static void run_prepare(run *r)
{
    r->best = -1;
    r->row = (epoch_row *)kit_new((size_t)last_epoch(r->set), sizeof *r->row);
    r->seconds = (double *)kit_new((size_t)last_epoch(r->set), sizeof *r->seconds);
}

static int run_open(run *r, kit_error *why)
{
    const settings *s = r->set;
    size_t rows = (size_t)s->batch * MARKER_LENGTH;
    net_plan plan = run_plan(s, r->published, r->spec, r->depth, r->seed);
    marker_data_split(&r->train, &r->test, r->seed, s->sequences);
    r->order = (int *)kit_new((size_t)r->train.count, sizeof(int));
    r->tokens = (int *)kit_new(rows, sizeof(int));
    r->targets = (int *)kit_new(rows, sizeof(int));
    r->logits = (float *)kit_new(rows * MARKER_VOCAB, sizeof(float));
    r->losses = (float *)kit_new(rows, sizeof(float));
    return net_open(&r->net, &plan, why);
}

static void run_close(run *r)
{
    net_close(&r->net);
    marker_data_free(&r->train);
    marker_data_free(&r->test);
    free(r->order);
    free(r->tokens);
    free(r->targets);
    free(r->logits);
    free(r->losses);
    r->order = r->tokens = r->targets = NULL;
    r->logits = r->losses = NULL;
}

static void run_forget(run *r)
{
    run_close(r);
    free(r->row);
    free(r->seconds);
}

/* ---- checkpoints -----------------------------------------------------------------------------
   The note in a checkpoint: the settings on one line, the place in the run on the next, then a line
   per epoch. No wall-clock time is in it, so that equal runs give equal bytes. */

static void note_settings(kit_text *t, const run *r)
{
    kit_put(t, "marker: --blocks %s --pe %s --depth %d --seed %" PRIu64 " ",
            r->published ? "published" : "fair", r->spec, r->depth, r->seed);
    settings_print(t, r->set);
    kit_put_string(t, "\n");
}

static void note_print(kit_text *t, const run *r)
{
    note_settings(t, r);
    kit_put(t, "epochs %d step %d best %d loss_sum %.17g\n", r->epochs_done, r->step, r->best,
            r->loss_sum);
    for (int e = 0; e < r->epochs_done; e++) {
        kit_put(t, "%.17g %.17g", r->row[e].train_loss, r->row[e].test_loss);
        for (int p = 0; p < MARKER_LENGTH; p++) kit_put(t, " %.9g", (double)r->row[e].position[p]);
        kit_put_string(t, "\n");
    }
}

/* The second line. A file may say anything, so every number is held against what it can be. */
static const char *note_read_place(run *r, const char *line)
{
    int used = 0, steps = steps_per_epoch(r);
    int read = sscanf(line, "epochs %d step %d best %d loss_sum %lf\n%n", &r->epochs_done, &r->step,
                      &r->best, &r->loss_sum, &used);
    if (read != 4 || used == 0 || r->epochs_done < 0 || r->step < 0 || r->step >= steps)
        return NULL;
    if (r->best < -1 || r->best >= r->epochs_done || !isfinite(r->loss_sum)) return NULL;
    uint64_t all = (uint64_t)r->epochs_done * (uint64_t)steps + (uint64_t)r->step;
    return net_steps(&r->net) == all ? line + used : NULL;
}

static const char *note_read_number(double *value, const char *at)
{
    char *end;
    *value = strtod(at, &end);
    return end > at && isfinite(*value) ? end : NULL;
}

static const char *note_read_row(epoch_row *row, const char *at)
{
    at = note_read_number(&row->train_loss, at);
    if (at) at = note_read_number(&row->test_loss, at);
    for (int p = 0; at && p < MARKER_LENGTH; p++) {
        double v;
        at = note_read_number(&v, at);
        row->position[p] = (float)v;
    }
    return at;
}

static int note_same_settings(const run *r, const char *note, const char *path, size_t *length,
                              kit_error *why)
{
    kit_text ours = { NULL, 0, 0 };
    note_settings(&ours, r);
    int same = kit_note_begins(note, &ours, path, why);
    *length = ours.size;
    kit_text_free(&ours);
    return same;
}

static int note_read(run *r, const char *note, const char *path, kit_error *why)
{
    size_t length;
    if (!note_same_settings(r, note, path, &length, why)) return 0;
    const char *line = note_read_place(r, note + length);
    int begun = r->epochs_done + (r->step > 0);
    if (line && begun > last_epoch(r->set))
        return kit_fail(why, "%s is already in epoch %d; ask for at least as many --epochs", path,
                        begun);
    for (int e = 0; line && e < r->epochs_done; e++) line = note_read_row(&r->row[e], line);
    return line ? 1 : kit_fail(why, "%s has a damaged note", path);
}

static int run_save(run *r, const char *name, int state, kit_error *why)
{
    char path[KIT_PATH];
    kit_text note = { NULL, 0, 0 };
    if (!kit_join(path, r->folder, name, why)) return 0;
    note_print(&note, r);
    int done = net_save(&r->net, path, state, note.data, why);
    kit_text_free(&note);
    return done;
}

/* Goes on where last.safetensors stopped; without that file the run starts at the beginning. */
static int run_resume(run *r, kit_error *why)
{
    char path[KIT_PATH];
    size_t room = 8192 + 1200 * (size_t)(last_epoch(r->set) + 64);   /* a longer note fails */
    if (!kit_join(path, r->folder, "last.safetensors", why)) return 0;
    if (!kit_exists(path)) return 1;
    char *note = (char *)kit_new(room, 1);
    int done = net_load(&r->net, path, note, room, why) && note_read(r, note, path, why);
    free(note);
    return done;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_run(kit_text *t, const run *r)
{
    kit_csv_text(t, r->spec);
    kit_csv_int(t, r->depth);
}

static void timing_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "pe,depth,seed,epoch,seconds");
    for (int i = 0; i < count; i++)
        for (int e = 0; e < r[i].epochs_done + (r[i].step > 0); e++) {
            put_run(t, &r[i]);
            kit_put(t, ",%" PRIu64 ",%d", r[i].seed, e + 1);
            kit_csv_real(t, r[i].seconds[e], 3);
            kit_csv_end(t);
        }
}

static void history_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "pe,depth,seed,epoch,train_loss,test_loss");
    for (int i = 0; i < count; i++)
        for (int e = 0; e < r[i].epochs_done; e++) {
            put_run(t, &r[i]);
            kit_put(t, ",%" PRIu64 ",%d", r[i].seed, e + 1);
            kit_csv_real(t, r[i].row[e].train_loss, 6);
            kit_csv_real(t, r[i].row[e].test_loss, 6);
            kit_csv_end(t);
        }
}

static int save_table(void (*make)(kit_text *, const run *, int), const run *r, int count,
                      const char *folder, const char *name, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    make(&t, r, count);
    int done = kit_save_in(folder, name, &t, why);
    kit_text_free(&t);
    return done;
}

/* Seconds of the epochs done before, from timing.csv if it is there; they decide nothing. */
static void timing_read(run *r)
{
    char path[KIT_PATH], line[1024];
    kit_error ignored;
    FILE *file = kit_join(path, r->folder, "timing.csv", &ignored) ? fopen(path, "r") : NULL;
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        char *last = strrchr(line, ',');
        if (!last) continue;
        *last = 0;
        char *before = strrchr(line, ',');
        int epoch = before ? atoi(before + 1) : 0;
        if (epoch >= 1 && epoch <= last_epoch(r->set)) r->seconds[epoch - 1] = atof(last + 1);
    }
    fclose(file);
}

/* ---- training -------------------------------------------------------------------------------- */

/* One bar for all runs. A step of a deep model takes longer, so steps count by their layers; the
   one more stands for embedding and head. */
typedef struct pace { kit_progress bar; long before; } pace;

static long run_work(const run *r, long steps) { return steps * (r->depth + 1); }

static long run_steps_done(const run *r)
{
    return (long)r->epochs_done * steps_per_epoch(r) + r->step;
}

static int fill_batch(run *r, const marker_data *d, const int *order, int first)
{
    size_t T = MARKER_LENGTH;
    int B = d->count - first < r->set->batch ? d->count - first : r->set->batch;
    for (int i = 0; i < B; i++) {
        size_t from = (size_t)(order ? order[first + i] : first + i);
        memcpy(r->tokens + (size_t)i * T, d->tokens + from * T, T * sizeof(int));
        memcpy(r->targets + (size_t)i * T, d->targets + from * T, T * sizeof(int));
    }
    return B;
}

/* Mean cross-entropy over the test sequences, in all and for each position. */
static int evaluate(run *r, epoch_row *row, kit_error *why)
{
    double position[MARKER_LENGTH] = { 0 }, sum = 0;
    for (int first = 0; first < r->test.count; first += r->set->batch) {
        int B = fill_batch(r, &r->test, NULL, first), rows = B * MARKER_LENGTH;
        if (!net_logits(&r->net, r->logits, r->tokens, B, why)) return 0;
        posenc_crossentropy(r->losses, NULL, r->logits, r->targets, 1, rows, MARKER_VOCAB);
        for (int i = 0; i < rows; i++) position[i % MARKER_LENGTH] += r->losses[i];
    }
    for (int p = 0; p < MARKER_LENGTH; p++) {
        row->position[p] = (float)(position[p] / r->test.count);
        sum += position[p];
    }
    row->test_loss = sum / r->test.count / MARKER_LENGTH;
    return 1;
}

static int train_step(run *r, kit_error *why)
{
    double loss;
    int first = r->step * r->set->batch, B = fill_batch(r, &r->train, r->order, first);
    if (!net_train(&r->net, r->tokens, r->targets, B, (uint64_t)first, r->set->lr, &loss, why))
        return 0;
    r->loss_sum += loss * B;
    r->step++;
    return 1;
}

/* Steps until the epoch is over or somebody presses Ctrl-C. The order of the sequences is a
   function of seed and epoch alone, so that a resumed epoch walks through the same one. */
static int train_epoch(run *r, pace *p, kit_error *why)
{
    int steps = steps_per_epoch(r);
    double started = kit_seconds(), *seconds = &r->seconds[r->epochs_done], before = *seconds;
    kit_random random = kit_random_open(r->seed, KIT_RANDOM_ORDER, (uint64_t)r->epochs_done);
    kit_random_order(&random, r->order, r->train.count);
    while (r->step < steps && !kit_stopped()) {
        char note[64];
        if (!train_step(r, why)) return 0;
        snprintf(note, sizeof note, "%.16s depth %d seed %" PRIu64 " epoch %d", r->spec, r->depth,
                 r->seed, r->epochs_done + 1);
        kit_progress_at(&p->bar, p->before + run_work(r, run_steps_done(r)), note);
    }
    *seconds = before + kit_seconds() - started;
    return 1;
}

/* The epoch's row, then the checkpoints. best goes first: if the power fails between the two, the
   epoch is done again and ends in the same best. alone: only a single run keeps its best, a grid of
   them would fill the disk for nothing. */
static int finish_epoch(run *r, int alone, kit_error *why)
{
    epoch_row *row = &r->row[r->epochs_done];
    double started = kit_seconds();
    row->train_loss = r->loss_sum / r->train.count;
    if (!evaluate(r, row, why)) return 0;
    r->seconds[r->epochs_done++] += kit_seconds() - started;
    r->step = 0;
    r->loss_sum = 0;
    if (r->best < 0 || row->test_loss < r->row[r->best].test_loss) {
        r->best = r->epochs_done - 1;
        if (alone && !run_save(r, "best.safetensors", 0, why)) return 0;
    }
    return run_save(r, "last.safetensors", 1, why)
        && save_table(timing_csv, r, 1, r->folder, "timing.csv", why);
}

static void print_epoch(const run *r)
{
    const epoch_row *row = &r->row[r->epochs_done - 1];
    if (r->set->quiet) return;
    printf("  epoch %*d   train loss %.4f   test loss %.4f   %.1f s\n",
           last_epoch(r->set) > 9 ? 2 : 1, r->epochs_done, row->train_loss, row->test_loss,
           r->seconds[r->epochs_done - 1]);
    fflush(stdout);
}

static int train_run(run *r, pace *p, int alone, kit_error *why)
{
    int steps = steps_per_epoch(r);
    while (r->epochs_done < last_epoch(r->set)) {
        int went = train_epoch(r, p, why), stopped = went && r->step < steps;
        if (stopped) went = run_save(r, "last.safetensors", 1, why)
                         && save_table(timing_csv, r, 1, r->folder, "timing.csv", why);
        else         went = went && finish_epoch(r, alone, why);
        kit_progress_clear(&p->bar);
        if (!went) return FAILED;
        if (stopped) return STOPPED;
        if (alone) print_epoch(r);
    }
    return DONE;
}

/* From start, or from its checkpoint, to finish. The model stays open, to be looked at. */
static int do_run(run *r, pace *p, int alone, kit_error *why)
{
    if (!kit_make_folders(r->folder, why) || !run_open(r, why)) return FAILED;
    if (r->set->resume && !run_resume(r, why)) return FAILED;
    if (r->set->resume) timing_read(r);
    p->bar.skipped += run_work(r, run_steps_done(r));
    int code = train_run(r, p, alone, why);
    p->before += run_work(r, run_steps_done(r));
    return code;
}

#endif
