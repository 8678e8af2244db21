/* pattern/run.h - one run: a model with one encoding and one seed, its history, its checkpoints */
#ifndef PATTERN_RUN_H
#define PATTERN_RUN_H

#include "pattern/tasks.h"
#include "kit/positions.h"
#include "kit/specs.h"

enum { DONE = 0, FAILED = 1, STOPPED = 130 };      /* exit codes, beside args.h's 2; 130: Ctrl-C */

/* ---- settings -------------------------------------------------------------------------------- */

typedef struct settings {
    kit_list pe;
    const char *task, *data, *precision, *device, *out;
    int epochs, batch, d_model, heads, layers, ffn, seq_len, vocab, train, val, seeds, threads;
    double lr, decay, clip, dropout, embedding_init;
    uint64_t seed;                         /* the first of `seeds`                                */
    int resume, quick, quiet;
} settings;

/* What decides the figures, as flags: printed in the report, and kept in a checkpoint so that
   --resume cannot mix two experiments. The number of epochs is left out: a run may go on for
   longer. So are the seed, the task and the length, which a list of runs has several of. */
static void settings_print(kit_text *t, const settings *s)
{
    kit_put(t, "--train %d --val %d --batch %d --lr %g --weight-decay %g --clip %g --dropout %g ",
            s->train, s->val, s->batch, s->lr, s->decay, s->clip, s->dropout);
    kit_put(t, "--d-model %d --heads %d --layers %d --ffn %d --vocab %d --embedding-init %g",
            s->d_model, s->heads, s->layers, s->ffn, s->vocab, s->embedding_init);
    if (strcmp(s->precision, "fp32") != 0) kit_put(t, " --precision %s", s->precision);
}

static dataset training_data(const settings *s, const task *k, uint64_t seed)
{
    return dataset_make(s->train, KIT_RANDOM_TRAIN, k, s->seq_len, s->vocab, seed);
}

static dataset validation_data(const settings *s, const task *k, uint64_t seed)
{
    return dataset_make(s->val, KIT_RANDOM_VALIDATION, k, s->seq_len, s->vocab, seed);
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct epoch_row { double train_loss, train_acc, val_loss, val_acc; } epoch_row;

typedef struct run {
    const settings *set;
    const task *task;
    const dataset *train, *val;
    const char *spec;
    uint64_t seed;
    int number, of;                        /* this is run `number` (from 1) `of` so many          */
    char slug[160], folder[KIT_PATH];      /* slug: spec and seed as a file name                  */
    posenc_model *model;
    size_t parameters;
    epoch_row *row;                        /* (epochs) filled up to epochs_done                   */
    double *seconds;                       /* (epochs)                                            */
    int epochs_done, step;                 /* whole epochs; steps of the one under way            */
    double loss_sum;                       /* over the samples of the epoch under way             */
    long correct;
    int best;                              /* epoch of the best validation accuracy, -1: none yet */
    int *order, *tokens, *targets;         /* the epoch's order; one batch                        */
    float *logits;
    kit_maps maps;                         /* attention, mean over heads                          */
    kit_picture heads;                     /* attention of every head                             */
    kit_album album;                       /* what the encoding knows of positions                */
} run;

/* Why embedding_init is 0.5 unless told otherwise: what is added to the embedding should begin
   neither drowned by the tokens nor drowning them, and a learned table begins at 0.02 while sine
   waves have 0.7. With tokens at 0.02 sinusoidal is still at chance after 100 steps, with tokens at
   1.0 learned has hardly begun. Between the two, 0.5 was chosen by the validation accuracy of
   relative, the slowest to begin, with seed 1: 94 % after 8 epochs of plain data; with 0.2 it had
   75 % after 7. */
static posenc_config run_config(const settings *s, const task *k, const char *spec, uint64_t seed)
{
    posenc_config c;
    memset(&c, 0, sizeof c);
    c.encoding = spec;
    c.vocab = s->vocab;
    c.context = s->seq_len;
    c.classes = k->classes;
    c.batch = s->batch;
    c.layers = s->layers;
    c.channels = s->d_model;
    c.heads = s->heads;
    c.hidden = s->ffn;
    c.mask_padding = 1;
    c.activation = POSENC_RELU;
    c.embedding_init = s->embedding_init;
    c.dropout_embedding = c.dropout_attention = c.dropout_branch = c.dropout_hidden = s->dropout;
    c.precision = strcmp(s->precision, "bf16") == 0 ? POSENC_BF16 : POSENC_FP32;
    c.threads = s->threads;
    c.seed = seed;
    return c;
}

/* Where the run lives. alone: its files go into folder itself, not into one of their own inside
   it. */
static int run_place(run *r, const char *folder, int alone, kit_error *why)
{
    char name[128];
    kit_spec_slug(name, sizeof name, r->spec);
    snprintf(r->slug, sizeof r->slug, "%s-s%" PRIu64, name, r->seed);
    if (!alone) return kit_join(r->folder, folder, r->slug, why);
    snprintf(r->folder, sizeof r->folder, "%s", folder);
    return 1;
}

/* Without --resume everything begins anew. Old checkpoints go before the first run starts:
   otherwise a run that is killed and resumed would meet, further down its list, those of an earlier
   experiment. */
static int run_forget(const run *r, kit_error *why)
{
    static const char *const name[] = { "last.safetensors", "best.safetensors" };
    for (int i = 0; i < 2; i++) {
        char path[KIT_PATH];
        if (!kit_join(path, r->folder, name[i], why)) return 0;
        if (unlink(path) != 0 && errno != ENOENT && errno != ENOTDIR)
            return kit_fail(why, "cannot remove the old %s: %s", path, strerror(errno));
    }
    return 1;
}

static int steps_per_epoch(const run *r)
{
    return (r->train->count + r->set->batch - 1) / r->set->batch;
}

static void run_room(run *r)
{
    const settings *s = r->set;
    size_t T = (size_t)s->seq_len;
    r->row = (epoch_row *)kit_new((size_t)s->epochs, sizeof *r->row);
    r->seconds = (double *)kit_new((size_t)s->epochs, sizeof *r->seconds);
    r->order = (int *)kit_new((size_t)s->train, sizeof(int));
    r->tokens = (int *)kit_new((size_t)s->batch * T, sizeof(int));
    r->targets = (int *)kit_new((size_t)s->batch, sizeof(int));
    r->logits = (float *)kit_new((size_t)(s->batch * r->task->classes), sizeof(float));
}

static int run_open(run *r, kit_error *why)
{
    posenc_error said;
    posenc_config config = run_config(r->set, r->task, r->spec, r->seed);
    r->best = -1;
    run_room(r);
    if (posenc_model_create(&r->model, &config, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    r->parameters = posenc_model_numbers(r->model);
    return 1;
}

/* Of a finished run the report needs figures and pictures, not the model nor the room for
   training. */
static void run_close_model(run *r)
{
    posenc_model_free(r->model);
    free(r->order);
    free(r->tokens);
    free(r->targets);
    free(r->logits);
    r->model = NULL;
    r->order = r->tokens = r->targets = NULL;
    r->logits = NULL;
}

static void run_close_pictures(run *r)
{
    kit_picture_free(&r->heads);
    kit_album_free(&r->album);
}

static void run_close(run *r)
{
    run_close_model(r);
    free(r->row);
    free(r->seconds);
    kit_maps_free(&r->maps);
    run_close_pictures(r);
}

/* ---- checkpoints -----------------------------------------------------------------------------
   The note in a checkpoint says where in the run we are: the settings on one line, the place on the
   next, then a line per epoch. No wall-clock time is in it, so that equal runs give equal bytes. */

static void note_settings(kit_text *t, const run *r)
{
    kit_put(t, "pattern: --task %s ", r->task->name);
    if (r->task->data) kit_put(t, "--data %s ", r->task->data);
    kit_put(t, "--pe %s --seed %" PRIu64 " --seq-len %d ", r->spec, r->seed, r->set->seq_len);
    settings_print(t, r->set);
    kit_put_string(t, "\n");
}

static void note_print(kit_text *t, const run *r)
{
    note_settings(t, r);
    kit_put(t, "epochs %d step %d correct %ld best %d loss_sum %.17g\n", r->epochs_done, r->step,
            r->correct, r->best, r->loss_sum);
    for (int e = 0; e < r->epochs_done; e++)
        kit_put(t, "%.17g %.17g %.17g %.17g\n", r->row[e].train_loss, r->row[e].train_acc,
                r->row[e].val_loss, r->row[e].val_acc);
}

/* The second line. A file may say anything, so every number is held against what it can be. */
static const char *note_read_place(run *r, const char *line)
{
    int used = 0, steps = steps_per_epoch(r);
    int read = sscanf(line, "epochs %d step %d correct %ld best %d loss_sum %lf\n%n",
                      &r->epochs_done, &r->step, &r->correct, &r->best, &r->loss_sum, &used);
    if (read != 5 || r->epochs_done < 0 || r->step < 0 || r->step >= steps) return NULL;
    if (r->best < -1 || r->best >= r->epochs_done) return NULL;
    uint64_t all = (uint64_t)r->epochs_done * (uint64_t)steps + (uint64_t)r->step;
    return posenc_model_steps(r->model) == all ? line + used : NULL;
}

static const char *note_read_row(epoch_row *row, const char *line)
{
    int used = 0, read = sscanf(line, "%lf %lf %lf %lf\n%n", &row->train_loss, &row->train_acc,
                                &row->val_loss, &row->val_acc, &used);
    return read == 4 ? line + used : NULL;
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
    if (line && r->epochs_done + (r->step > 0) > r->set->epochs)
        return kit_fail(why, "%s is already in epoch %d; ask for at least as many --epochs", path,
                        r->epochs_done + (r->step > 0));
    for (int e = 0; line && e < r->epochs_done; e++) line = note_read_row(&r->row[e], line);
    return line ? 1 : kit_fail(why, "%s has a damaged note", path);
}

static int run_save(run *r, const char *name, int what, kit_error *why)
{
    char path[KIT_PATH];
    posenc_error said;
    kit_text note = { NULL, 0, 0 };
    if (!kit_join(path, r->folder, name, why)) return 0;
    note_print(&note, r);
    posenc_status status = posenc_model_save(r->model, path, what, note.data, &said);
    kit_text_free(&note);
    return status == POSENC_OK ? 1 : kit_fail(why, "%s", said.text);
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
        if (epoch >= 1 && epoch <= r->set->epochs) r->seconds[epoch - 1] = atof(last + 1);
    }
    fclose(file);
}

/* Goes on where last.safetensors stopped; without that file the run starts at the beginning. */
static int run_resume(run *r, kit_error *why)
{
    char path[KIT_PATH];
    posenc_error said;
    size_t room = 4096 + 128 * (size_t)(r->set->epochs + 1000);   /* a longer note is cut, fails */
    if (!kit_join(path, r->folder, "last.safetensors", why)) return 0;
    if (!kit_exists(path)) return 1;
    char *note = (char *)kit_new(room, 1);
    int what = POSENC_WEIGHTS_AND_STATE;
    int loaded = posenc_model_load(r->model, path, what, note, room, &said) == POSENC_OK;
    int done = loaded ? note_read(r, note, path, why) : kit_fail(why, "%s", said.text);
    free(note);
    timing_read(r);
    return done;
}

#endif
