/* pattern: can a transformer see that a value stands at a place?

       make demo                                      five encodings in less than a minute
       build/pattern train --pe learned --epochs 3
       build/pattern compare                          nine encodings, 20 epochs each
       build/pattern compare --pe "none rope alibi" --epochs 5
       build/pattern --help

   Two values of a sequence of 32 random tokens decide its class, by where they stand:
       class 0: 5 at place 3 and 8 at 7    class 1: 3 at 5 and 9 at 10    class 2: 7 at 15 and 4 at 20
   A transformer without positions sees the tokens as a bag and can only guess from their counts. What
   to look for: how far each encoding gets above `none`, how soon, and where its attention goes.

   Writes into --out: summary.csv, history.csv, history.jsonl, timing.csv, curves.svg, attention maps,
   report.html, report.md, and a folder for each encoding with its checkpoints. Same seed and settings:
   every file but timing.csv has the same bytes, also when the run was stopped (Ctrl-C, power cut) and
   went on with --resume. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/args.h"
#include "kit/csv.h"
#include "kit/json.h"
#include "kit/png.h"
#include "kit/progress.h"
#include "kit/random.h"
#include "kit/report.h"
#include "kit/svg.h"
#include "kit/threads.h"

enum { DONE = 0, FAILED = 1, STOPPED = 130 };      /* exit codes, beside args.h's 2; 130: Ctrl-C */

/* ---- settings -------------------------------------------------------------------------------- */

typedef struct settings {
    kit_list pe;
    int epochs, batch, d_model, heads, layers, ffn, seq_len, vocab, train, val, threads;
    double lr, decay, clip, dropout;
    uint64_t seed;
    const char *out;
    int resume, quick, quiet;
} settings;

/* What decides the figures, as flags: printed in the report, and kept in a checkpoint so that --resume
   cannot mix two experiments. The number of epochs is left out: a run may go on for longer. */
static void settings_print(kit_text *t, const settings *s)
{
    kit_put(t, "--train %d --val %d --batch %d --lr %g --weight-decay %g --clip %g --dropout %g ",
            s->train, s->val, s->batch, s->lr, s->decay, s->clip, s->dropout);
    kit_put(t, "--d-model %d --heads %d --layers %d --ffn %d --seq-len %d --vocab %d --seed %" PRIu64,
            s->d_model, s->heads, s->layers, s->ffn, s->seq_len, s->vocab, s->seed);
}

/* ---- the task --------------------------------------------------------------------------------
   A task makes a sequence and its label out of random numbers. Token 0 is padding in every task:
   nobody attends to it and the mean leaves it out. */

typedef struct task {
    const char *name;
    int classes, least_length, least_vocab;
    void (*make)(int *tokens, int *label, kit_random *r, const settings *s);
    void (*marks)(unsigned char *mark, int label);         /* sets the places that decide the class */
    const char *about;                                     /* for the report                         */
} task;

static const struct { int place[2], value[2]; } pairs[3] = {
    { { 3, 7 }, { 5, 8 } }, { { 5, 10 }, { 3, 9 } }, { { 15, 20 }, { 7, 4 } }
};

static int pair_stands(const int *tokens, int c)
{
    return tokens[pairs[c].place[0]] == pairs[c].value[0]
        && tokens[pairs[c].place[1]] == pairs[c].value[1];
}

/* Uniform tokens. If one pair stands there by chance it names the class; if two do, the sequence is
   drawn again; if none does, one is written in. The pairs' places are disjoint, so writing one cannot
   complete another: whatever comes out holds exactly one pair. */
static void pattern_make(int *tokens, int *label, kit_random *r, const settings *s)
{
    int standing;
    do {
        standing = 0;
        for (int t = 0; t < s->seq_len; t++) tokens[t] = 1 + kit_random_below(r, s->vocab - 1);
        for (int c = 0; c < 3; c++)
            if (pair_stands(tokens, c)) { standing++; *label = c; }
    } while (standing > 1);
    if (standing == 1) return;
    *label = kit_random_below(r, 3);
    for (int k = 0; k < 2; k++) tokens[pairs[*label].place[k]] = pairs[*label].value[k];
}

static void pattern_marks(unsigned char *mark, int label)
{
    mark[pairs[label].place[0]] = mark[pairs[label].place[1]] = 1;
}

static const task tasks[] = {
    { "pattern", 3, 21, 10, pattern_make, pattern_marks,
      "A sequence of random tokens belongs to one of three classes. Two values **at their places** "
      "(counted from 0) decide: class 0 has a 5 at place 3 and an 8 at place 7; class 1 a 3 at 5 and "
      "a 9 at 10; class 2 a 7 at 15 and a 4 at 20. The same values elsewhere mean nothing." }
};

typedef struct dataset { int *tokens, *labels, count; } dataset;     /* (count, seq_len), (count) */

static dataset dataset_make(int count, uint32_t purpose, const task *k, const settings *s)
{
    dataset d;
    d.count = count;
    d.tokens = (int *)kit_new((size_t)count * (size_t)s->seq_len, sizeof(int));
    d.labels = (int *)kit_new((size_t)count, sizeof(int));
    for (int i = 0; i < count; i++) {
        kit_random r = kit_random_open(s->seed, purpose, (uint64_t)i);
        k->make(d.tokens + (size_t)i * (size_t)s->seq_len, &d.labels[i], &r, s);
    }
    return d;
}

static void dataset_free(dataset *d)
{
    free(d->tokens);
    free(d->labels);
}

/* ---- one run: a model, its history, its folder ----------------------------------------------- */

typedef struct epoch_row { double train_loss, train_acc, val_loss, val_acc; } epoch_row;

typedef struct run {
    const settings *set;
    const task *task;
    const dataset *train, *val;
    const char *spec;
    char slug[128], folder[KIT_PATH];      /* slug: the spec as a file name                       */
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
    float *mean_map;                       /* (layers, T, T) attention, mean over heads           */
    kit_text picture;                      /* PNG: attention of every head                        */
} run;

/* embedding_init: what is added to the embedding should begin neither drowned by the tokens nor
   drowning them, and a learned table begins at 0.02 while sine waves have 0.7. Measured after 100 steps:
   with tokens at 0.02 sinusoidal is still at chance, with tokens at 1.0 learned has hardly begun; 0.2,
   between the two, serves both. Encodings that enter elsewhere do not care. */
static posenc_config run_config(const settings *s, const task *k, const char *spec)
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
    c.embedding_init = 0.2;
    c.dropout_embedding = c.dropout_attention = c.dropout_branch = c.dropout_hidden = s->dropout;
    c.threads = s->threads;
    c.seed = s->seed;
    return c;
}

static void spec_slug(char *slug, size_t room, const char *spec)
{
    size_t n = 0;
    for (; *spec && n + 1 < room; spec++)
        slug[n++] = isalnum((unsigned char)*spec) || strchr("+-.=", *spec) ? *spec : '_';
    slug[n] = 0;
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
    r->mean_map = (float *)kit_new((size_t)s->layers * T * T, sizeof(float));
}

/* alone: the run's files go into --out itself, not into a folder of their own inside it. */
static int run_open(run *r, const settings *s, const task *k, const char *spec, int alone,
                    kit_error *why)
{
    posenc_error said;
    posenc_config config = run_config(s, k, spec);
    r->set = s;
    r->task = k;
    r->spec = spec;
    r->best = -1;
    spec_slug(r->slug, sizeof r->slug, spec);
    run_room(r);
    if (alone) snprintf(r->folder, sizeof r->folder, "%s", s->out);
    else if (!kit_join(r->folder, s->out, r->slug, why)) return 0;
    if (posenc_model_create(&r->model, &config, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    r->parameters = posenc_model_numbers(r->model);
    return 1;
}

/* Of a finished run the report needs figures and pictures, not the model. */
static void run_close_model(run *r)
{
    posenc_model_free(r->model);
    r->model = NULL;
}

static void run_close(run *r)
{
    run_close_model(r);
    free(r->row);
    free(r->seconds);
    free(r->order);
    free(r->tokens);
    free(r->targets);
    free(r->logits);
    free(r->mean_map);
    kit_text_free(&r->picture);
}

/* ---- checkpoints -----------------------------------------------------------------------------
   The note in a checkpoint says where in the run we are: the settings on one line, the place on the
   next, then a line per epoch. No wall-clock time is in it, so that equal runs give equal bytes. */

static void note_settings(kit_text *t, const run *r)
{
    kit_put(t, "pattern: task %s --pe %s ", r->task->name, r->spec);
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
    int read = sscanf(line, "epochs %d step %d correct %ld best %d loss_sum %lf\n%n", &r->epochs_done,
                      &r->step, &r->correct, &r->best, &r->loss_sum, &used);
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

/* how many letters "--lr 0.5 --clip 1" gives to its first flag */
static int flag_letters(const char *flags)
{
    const char *next = strstr(flags + 1, " --");
    size_t line = strcspn(flags, "\n");
    return (int)(next && (size_t)(next - flags) < line ? (size_t)(next - flags) : line);
}

/* The first line. If it differs from ours the sentence has the first flag that does. */
static int note_same_settings(const run *r, const char *note, const char *path, size_t *length,
                              kit_error *why)
{
    kit_text ours = { NULL, 0, 0 };
    size_t at = 0, flag = 0;
    note_settings(&ours, r);
    for (; at < ours.size && note[at] == ours.data[at]; at++)
        if (strncmp(note + at, "--", 2) == 0) flag = at;
    int same = at == ours.size;
    const char *theirs = note + flag, *mine = ours.data + flag;
    if (!same && flag == 0) kit_fail(why, "%s is not a checkpoint of this program", path);
    else if (!same)
        kit_fail(why, "%s was trained with %.*s, not %.*s; without --resume it is overwritten", path,
                 flag_letters(theirs), theirs, flag_letters(mine), mine);
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
    size_t room = 4096 + 128 * (size_t)(r->set->epochs + 1000);    /* a longer note is cut, and fails */
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

/* ---- tables of one or several runs ----------------------------------------------------------- */

static void history_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "method,seed,epoch,train_loss,train_acc,val_loss,val_acc");
    for (int i = 0; i < count; i++)
        for (int e = 0; e < r[i].epochs_done; e++) {
            const epoch_row *row = &r[i].row[e];
            kit_csv_text(t, r[i].spec);
            kit_put(t, ",%" PRIu64 ",%d", r[i].set->seed, e + 1);
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
            kit_json_int(t, "seed", (long long)r[i].set->seed);
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
            kit_csv_text(t, r[i].spec);
            kit_put(t, ",%" PRIu64 ",%d", r[i].set->seed, e + 1);
            kit_csv_real(t, r[i].seconds[e], 3);
            kit_csv_end(t);
        }
}

static const epoch_row *last_row(const run *r) { return &r->row[r->epochs_done - 1]; }

static double total_seconds(const run *r)
{
    double sum = 0;
    for (int e = 0; e < r->epochs_done; e++) sum += r->seconds[e];
    return sum;
}

static int is_none(const run *r) { return strcmp(r->spec, "none") == 0; }

/* What the others are held against: the last accuracy without positions. NaN: nobody ran it. */
static double none_accuracy(const run *r, int count)
{
    for (int i = 0; i < count; i++)
        if (is_none(&r[i])) return last_row(&r[i])->val_acc;
    return NAN;
}

/* first epoch, from 1, with 99 % of the validation sequences right; 0: never */
static int epochs_to_99(const run *r)
{
    for (int e = 0; e < r->epochs_done; e++)
        if (r->row[e].val_acc >= 0.99) return e + 1;
    return 0;
}

static void summary_csv(kit_text *t, const run *r, int count)
{
    kit_csv_head(t, "method,params,best_val_acc,best_epoch,epochs_to_99,final_val_acc,"
                    "final_train_acc,gain_over_none");
    for (int i = 0; i < count; i++) {
        int soon = epochs_to_99(&r[i]);
        kit_csv_text(t, r[i].spec);
        kit_csv_int(t, (long long)r[i].parameters);
        kit_csv_real(t, r[i].row[r[i].best].val_acc, 4);
        kit_csv_int(t, r[i].best + 1);
        kit_csv_real(t, soon ? soon : NAN, 0);
        kit_csv_real(t, last_row(&r[i])->val_acc, 4);
        kit_csv_real(t, last_row(&r[i])->train_acc, 4);
        kit_csv_real(t, last_row(&r[i])->val_acc - none_accuracy(r, count), 4);
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

static int save_tables(const run *r, int count, const char *folder, kit_error *why)
{
    return save_table(history_csv, r, count, folder, "history.csv", why)
        && save_table(history_jsonl, r, count, folder, "history.jsonl", why)
        && save_table(timing_csv, r, count, folder, "timing.csv", why);
}

/* ---- training -------------------------------------------------------------------------------- */

static int fill_batch(run *r, posenc_batch *b, const dataset *d, const int *order, int first)
{
    size_t T = (size_t)r->set->seq_len;
    int B = d->count - first < r->set->batch ? d->count - first : r->set->batch;
    for (int i = 0; i < B; i++) {
        size_t from = (size_t)(order ? order[first + i] : first + i);
        memcpy(r->tokens + (size_t)i * T, d->tokens + from * T, T * sizeof(int));
        r->targets[i] = d->labels[from];
    }
    memset(b, 0, sizeof *b);
    b->B = B;
    b->T = (int)T;
    b->tokens = r->tokens;
    b->targets = r->targets;
    b->first_sample = (uint64_t)first;
    return B;
}

/* of the last forward's rows, how many have their largest logit at the target */
static int count_correct(run *r, int B, long *correct, kit_error *why)
{
    posenc_error said;
    int classes = r->task->classes;
    if (posenc_model_logits(r->model, r->logits, 0, B, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    for (int i = 0; i < B; i++) {
        const float *logit = r->logits + i * classes;
        int best = 0;
        for (int c = 1; c < classes; c++)
            if (logit[c] > logit[best]) best = c;
        *correct += best == r->targets[i];
    }
    return 1;
}

static int evaluate(run *r, const dataset *d, double *loss, double *accuracy, kit_error *why)
{
    posenc_batch batch;
    posenc_error said;
    double sum = 0, mean;
    long correct = 0;
    for (int first = 0; first < d->count; first += r->set->batch) {
        int B = fill_batch(r, &batch, d, NULL, first);
        if (posenc_model_loss(r->model, &batch, &mean, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text);
        if (!count_correct(r, B, &correct, why)) return 0;
        sum += mean * B;
    }
    *loss = sum / d->count;
    *accuracy = (double)correct / d->count;
    return 1;
}

/* The training accuracy is taken on the way, with dropout on, so it may lag behind the other. */
static int train_step(run *r, kit_error *why)
{
    posenc_batch batch;
    posenc_error said;
    posenc_optimizer o;
    double loss;
    int B = fill_batch(r, &batch, r->train, r->order, r->step * r->set->batch);
    memset(&o, 0, sizeof o);                               /* AdamW with its usual constants */
    o.decay = r->set->decay;
    o.clip = r->set->clip;
    if (posenc_model_train(r->model, &batch, &loss, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    if (!count_correct(r, B, &r->correct, why)) return 0;
    if (posenc_model_update(r->model, &o, r->set->lr, NULL, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    r->loss_sum += loss * B;
    r->step++;
    return 1;
}

/* Steps until the epoch is over or somebody presses Ctrl-C. The order of the samples is a function of
   seed and epoch alone, so that a resumed epoch walks through the same one. */
static int train_epoch(run *r, kit_progress *bar, kit_error *why)
{
    int steps = steps_per_epoch(r);
    double started = kit_seconds(), *seconds = &r->seconds[r->epochs_done], before = *seconds;
    kit_random random = kit_random_open(r->set->seed, KIT_RANDOM_ORDER, (uint64_t)r->epochs_done);
    kit_random_order(&random, r->order, r->train->count);
    while (r->step < steps && !kit_stopped()) {
        char note[64];
        if (!train_step(r, why)) return 0;
        int seen = r->step < steps ? r->step * r->set->batch : r->train->count;
        snprintf(note, sizeof note, "epoch %d, loss %.3f", r->epochs_done + 1, r->loss_sum / seen);
        kit_progress_at(bar, (long)r->epochs_done * steps + r->step, note);
    }
    *seconds = before + kit_seconds() - started;
    return 1;
}

/* The epoch's row of the history, then the checkpoints. best goes first: if the power fails between the
   two, the epoch is done again and ends in the same best. */
static int finish_epoch(run *r, kit_error *why)
{
    epoch_row *row = &r->row[r->epochs_done];
    double started = kit_seconds();
    row->train_loss = r->loss_sum / r->train->count;
    row->train_acc = (double)r->correct / r->train->count;
    if (!evaluate(r, r->val, &row->val_loss, &row->val_acc, why)) return 0;
    r->seconds[r->epochs_done++] += kit_seconds() - started;
    r->step = 0;
    r->correct = 0;
    r->loss_sum = 0;
    if (r->best < 0 || row->val_acc > r->row[r->best].val_acc) {
        r->best = r->epochs_done - 1;
        if (!run_save(r, "best.safetensors", POSENC_WEIGHTS, why)) return 0;
    }
    return run_save(r, "last.safetensors", POSENC_WEIGHTS_AND_STATE, why)
        && save_tables(r, 1, r->folder, why);
}

static void print_epoch(const run *r)
{
    const epoch_row *row = last_row(r);
    if (r->set->quiet) return;
    printf("  epoch %*d   loss %.4f   train %5.1f %%   val loss %.4f   val %5.1f %%   %.1f s\n",
           r->set->epochs > 9 ? 2 : 1, r->epochs_done, row->train_loss, 100 * row->train_acc,
           row->val_loss, 100 * row->val_acc, r->seconds[r->epochs_done - 1]);
    fflush(stdout);
}

static int train_run(run *r, kit_error *why)
{
    long steps = steps_per_epoch(r);
    kit_progress bar = kit_progress_begin(r->spec, steps * r->set->epochs,
                                          steps * r->epochs_done + r->step, r->set->quiet);
    while (r->epochs_done < r->set->epochs) {
        int went = train_epoch(r, &bar, why), stopped = went && r->step < steps;
        if (stopped) went = run_save(r, "last.safetensors", POSENC_WEIGHTS_AND_STATE, why)
                         && save_tables(r, 1, r->folder, why);
        else         went = went && finish_epoch(r, why);
        kit_progress_clear(&bar);
        if (!went) return FAILED;
        if (stopped) return STOPPED;
        print_epoch(r);
    }
    return DONE;
}

/* ---- attention maps --------------------------------------------------------------------------
   Of the first validation sequence: every layer and head of a run, and their mean over heads. */

enum { MOST = 16 };                        /* layers, heads and runs on one sheet */

/* "layer 0", "layer 1", ... */
static void number_names(const char *name[MOST], char room[MOST][16], const char *word, int n)
{
    for (int i = 0; i < n; i++) {
        snprintf(room[i], sizeof room[i], "%s %d", word, i);
        name[i] = room[i];
    }
}

static int at_most(int n, int most) { return n < most ? n : most; }

/* What both sheets below have in common; points: how wide a map is, about. */
static kit_sheet attention_sheet(const run *r, unsigned char *mark, int points)
{
    kit_sheet sheet;
    memset(&sheet, 0, sizeof sheet);
    r->task->marks(mark, r->val->labels[0]);
    sheet.mark = mark;
    sheet.height = sheet.width = r->set->seq_len;
    sheet.cell = points / r->set->seq_len > 1 ? points / r->set->seq_len : 1;
    sheet.x_label = "key position";
    sheet.y_label = "query position";
    sheet.value_label = "attention weight";
    sheet.power = 0.5;                     /* most weights are near 1/T: the root spreads them out */
    return sheet;
}

static int draw_heads(run *r, const float *maps, kit_error *why)
{
    const settings *s = r->set;
    size_t size = (size_t)s->seq_len * (size_t)s->seq_len;
    const float *map[MOST * MOST];
    const char *layer[MOST], *head[MOST];
    char layer_room[MOST][16], head_room[MOST][16], title[128], about[128];
    unsigned char *mark = (unsigned char *)kit_new((size_t)s->seq_len, 1);
    kit_sheet sheet = attention_sheet(r, mark, 160);
    sheet.rows = at_most(s->layers, MOST);
    sheet.cols = at_most(s->heads, MOST);
    for (int l = 0; l < sheet.rows; l++)
        for (int h = 0; h < sheet.cols; h++)
            map[l * sheet.cols + h] = maps + (size_t)(l * s->heads + h) * size;
    number_names(layer, layer_room, "layer", sheet.rows);
    number_names(head, head_room, "head", sheet.cols);
    snprintf(title, sizeof title, "Attention of every head: %.80s", r->spec);
    snprintf(about, sizeof about, "the first validation sequence, class %d; triangles point at the "
             "places that decide it", r->val->labels[0]);
    sheet.title = title;
    sheet.subtitle = about;
    sheet.map = map;
    sheet.row_name = layer;
    sheet.col_name = head;
    int done = kit_sheet_save(&r->picture, &sheet, r->folder, "attention.png", why);
    free(mark);
    return done;
}

/* Runs the model on one sequence and takes its maps: maps (layers, heads, T, T), r->mean_map. */
static int take_maps(run *r, float *maps, kit_error *why)
{
    int H = r->set->heads;
    size_t size = (size_t)r->set->seq_len * (size_t)r->set->seq_len;
    posenc_batch batch;
    posenc_error said;
    fill_batch(r, &batch, r->val, NULL, 0);
    batch.B = 1;
    if (posenc_model_forward(r->model, &batch, &said) != POSENC_OK)
        return kit_fail(why, "%s", said.text);
    for (int l = 0; l < r->set->layers; l++) {
        float *layer = maps + (size_t)(l * H) * size, *mean = r->mean_map + (size_t)l * size;
        if (posenc_model_attention(r->model, layer, l, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text);
        for (size_t i = 0; i < (size_t)H * size; i++) mean[i % size] += layer[i] / (float)H;
    }
    return 1;
}

static int draw_attention(run *r, kit_error *why)
{
    size_t T = (size_t)r->set->seq_len;
    float *maps = (float *)kit_new((size_t)(r->set->layers * r->set->heads) * T * T, sizeof(float));
    int done = take_maps(r, maps, why) && (!KIT_HAS_PNG || draw_heads(r, maps, why));
    free(maps);
    return done;
}

/* All runs under one another, a column per layer. */
static int draw_side_by_side(kit_text *png, const run *r, int count, const char *folder,
                             kit_error *why)
{
    size_t T = (size_t)r[0].set->seq_len;
    const float *map[MOST * MOST];
    const char *layer[MOST], *name[MOST];
    char layer_room[MOST][16];
    unsigned char *mark = (unsigned char *)kit_new(T, 1);
    kit_sheet sheet = attention_sheet(&r[0], mark, 256);
    sheet.rows = at_most(count, MOST);
    sheet.cols = at_most(r[0].set->layers, MOST);
    for (int i = 0; i < sheet.rows; i++) {
        name[i] = r[i].spec;
        for (int l = 0; l < sheet.cols; l++)
            map[i * sheet.cols + l] = r[i].mean_map + (size_t)l * T * T;
    }
    number_names(layer, layer_room, "layer", sheet.cols);
    sheet.title = "Where the attention goes";
    sheet.subtitle = "one validation sequence, mean over heads;\n"
                     "triangles point at the places that decide its class";
    sheet.map = map;
    sheet.row_name = name;
    sheet.col_name = layer;
    int done = kit_sheet_save(png, &sheet, folder, "attention.png", why);
    free(mark);
    return done;
}

/* ---- what the reader gets: a table on the terminal, curves, a report ------------------------- */

/* 602115 as 602,115 */
static void say_count(char text[32], size_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%zu", n), used = 0;
    for (int i = 0; i < length && used < 30; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

static void say_gain(char text[32], const run *r, double none)
{
    double gain = 100 * (last_row(r)->val_acc - none);
    if (is_none(r) || !isfinite(gain)) snprintf(text, 32, "-");
    else snprintf(text, 32, "%+.1f points", gain);
}

static void print_table(const run *r, int count)
{
    double none = none_accuracy(r, count);
    int wide = 10;
    for (int i = 0; i < count; i++)
        if ((int)strlen(r[i].spec) > wide) wide = (int)strlen(r[i].spec);
    printf("\n%-*s   parameters   validation   gain over none   seconds\n", wide, "method");
    for (int i = 0; i < count; i++) {
        char parameters[32], gain[32];
        say_count(parameters, r[i].parameters);
        say_gain(gain, &r[i], none);
        printf("%-*s   %10s   %8.1f %%   %14s   %7.1f\n", wide, r[i].spec, parameters,
               100 * last_row(&r[i])->val_acc, gain, total_seconds(&r[i]));
    }
}

/* Validation accuracy by epoch. */
static int draw_curves(kit_text *svg, const run *r, int count, const char *folder, kit_error *why)
{
    size_t epochs = (size_t)r[0].set->epochs;
    double *x = (double *)kit_new(epochs * (size_t)(count + 1), sizeof(double)), *y = x + epochs;
    kit_series *line = (kit_series *)kit_new((size_t)count, sizeof *line);
    kit_chart chart;
    for (size_t e = 0; e < epochs; e++) x[e] = (double)e + 1;
    for (int i = 0; i < count; i++, y += epochs) {
        for (int e = 0; e < r[i].epochs_done; e++) y[e] = r[i].row[e].val_acc;
        line[i].name = r[i].spec;
        line[i].x = x;
        line[i].y = y;
        line[i].n = r[i].epochs_done;
        line[i].plain = is_none(&r[i]);
    }
    memset(&chart, 0, sizeof chart);
    chart.title = "Validation accuracy";
    chart.x_label = "epoch";
    chart.y_label = "sequences classified right";
    chart.series = line;
    chart.count = count;
    chart.y_low = 0.2;
    chart.y_high = 1.0;
    chart.percent = chart.whole_x = 1;
    chart.level_name = "chance";
    chart.level = 1.0 / r[0].task->classes;
    kit_chart_svg(svg, &chart);
    free(x);
    free(line);
    return kit_save_in(folder, "curves.svg", svg, why);
}

static void report_opening(kit_report *p, const run *r, int count)
{
    const settings *s = r[0].set;
    double none = none_accuracy(r, count);
    int best = 0;
    for (int i = 1; i < count; i++)
        if (last_row(&r[i])->val_acc > last_row(&r[best])->val_acc) best = i;
    if (isfinite(none) && count > 1)
        kit_report_text(p, "Without positions the model classifies **%.1f %%** of unseen sequences. "
                        "The best here, `%s`, reaches **%.1f %%**.", 100 * none, r[best].spec,
                        100 * last_row(&r[best])->val_acc);
    kit_report_text(p, "One seed, %d epoch%s of %d training sequences, %d validation sequences. The "
                    "accuracy is that of the last epoch, not of the best one.", s->epochs,
                    s->epochs > 1 ? "s" : "", s->train, s->val);
    if (s->quick)
        kit_report_text(p, "This is the **quick** version, made to end within a minute: an encoding "
                        "that is behind here may only be slower. `pattern compare` without "
                        "`--quick` trains to the end.");
}

static void report_results(kit_report *p, const run *r, int count)
{
    enum { COLS = 5 };
    static const char *const head[COLS] = { "encoding", "validation accuracy", "gain over none",
                                            "99 % after", "parameters" };
    char (*text)[COLS][32] = (char (*)[COLS][32])kit_new((size_t)count, sizeof *text);
    const char **cell = (const char **)kit_new((size_t)(count * COLS), sizeof *cell);
    double *bar = (double *)kit_new((size_t)count, sizeof *bar);
    kit_table table = { head, cell, count, COLS, 1, bar };
    for (int i = 0; i < count; i++) {
        int soon = epochs_to_99(&r[i]);
        for (int c = 1; c < COLS; c++) cell[i * COLS + c] = text[i][c];
        cell[i * COLS] = r[i].spec;
        bar[i] = last_row(&r[i])->val_acc;
        snprintf(text[i][1], 32, "%.1f %%", 100 * bar[i]);
        say_gain(text[i][2], &r[i], none_accuracy(r, count));
        if (soon) snprintf(text[i][3], 32, "%d epoch%s", soon, soon > 1 ? "s" : "");
        else snprintf(text[i][3], 32, "not reached");
        say_count(text[i][4], r[i].parameters);
    }
    kit_report_table(p, &table);
    free(text);
    free((void *)cell);
    free(bar);
}

/* Name, where it enters, and one line on each encoding in use: from the library's own table. */
static void report_encodings(kit_report *p, const run *r, int count)
{
    static const char *const where[] = { "nowhere", "the embedding", "query and key", "the score" };
    static const char *const head[] = { "encoding", "enters at", "what it is" };
    const char *cell[3 * POSENC_ENCODING_COUNT];
    unsigned char used[POSENC_ENCODING_COUNT] = { 0 };
    kit_table table = { head, cell, 0, 3, 0, NULL };
    for (int i = 0; i < count; i++) {
        posenc_spec list[POSENC_SPECS];
        int parts = 0;
        if (posenc_spec_parse(list, &parts, POSENC_SPECS, r[i].spec, NULL) != POSENC_OK) continue;
        for (int k = 0; k < parts; k++) used[list[k].encoding] = 1;
        if (parts == 0) used[POSENC_NONE] = 1;
    }
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        const posenc_encoding_info *info = posenc_encoding_get(e);
        if (!used[e]) continue;
        cell[3 * table.rows] = info->name;
        cell[3 * table.rows + 1] = where[info->where];
        cell[3 * table.rows + 2] = info->line;
        table.rows++;
    }
    kit_report_table(p, &table);
}

static void report_explanation(kit_report *p, const run *r, int count)
{
    kit_report_heading(p, "The task, and why guessing is not the control");
    kit_report_text(p, "%s", r[0].task->about);
    kit_report_text(p, "Without positions attention treats a sequence as a bag of tokens. That bag "
                    "still says something: the two values of the true pair are always in it, those of "
                    "the other pairs only by luck. So `none` ends well above the %.0f %% of pure "
                    "guessing, and the honest measure of an encoding is its gain over `none`.",
                    100.0 / r[0].task->classes);
    kit_report_text(p, "Encodings that enter at the score know distances only. They can still find a "
                    "place, because the two ends of the sequence are visible: a token with three "
                    "neighbours to its left is at place 3. That takes more training than reading the "
                    "place off the embedding.");
    report_encodings(p, r, count);
}

static void report_pictures(kit_report *p, const run *r, int count, const kit_text *sheet)
{
    kit_report_heading(p, "Where the attention goes");
    if (!KIT_HAS_PNG) kit_report_text(p, "There are %s.", KIT_NO_PNG);
    if (KIT_HAS_PNG && count > 1)
        kit_report_png(p, sheet, "attention.png", "attention maps of all encodings side by side",
                       "The same sequence under each encoding, averaged over heads. Rows of a map are "
                       "the tokens that look, columns the tokens looked at; a bright stripe below a "
                       "triangle means that a deciding token is read.");
    for (int i = 0; KIT_HAS_PNG && i < count; i++) {
        char file[160], summary[160], alt[160];
        snprintf(file, sizeof file, "%s/attention.png", count > 1 ? r[i].slug : ".");
        snprintf(summary, sizeof summary, "every head of %.120s", r[i].spec);
        snprintf(alt, sizeof alt, "attention maps of every head of %.100s", r[i].spec);
        if (count > 1) kit_report_fold(p, summary);
        kit_report_png(p, &r[i].picture, file, alt, "");
        if (count > 1) kit_report_unfold(p);
    }
}

static void report_settings(kit_report *p, const run *r, int count)
{
    const settings *s = r[0].set;
    kit_text again = { NULL, 0, 0 };
    kit_put(&again, "build/pattern %s --pe \"", count > 1 ? "compare" : "train");
    for (int i = 0; i < count; i++) kit_put(&again, "%s%s", i ? " " : "", r[i].spec);
    kit_put(&again, "\" --epochs %d ", s->epochs);
    settings_print(&again, s);
    kit_report_heading(p, "The same figures again");
    kit_report_text(p, "%d pre-norm blocks, mean over the tokens, linear head; AdamW. On the same "
                    "processor type, with any number of threads:", s->layers);
    kit_report_code(p, again.data);
    kit_report_text(p, "Beside this page: `summary.csv`, `history.csv`, `history.jsonl`, `timing.csv` "
                    "(seconds per epoch on your machine), `curves.svg`, the pictures, and the "
                    "checkpoints `last.safetensors` and `best.safetensors` of each run.");
    kit_text_free(&again);
}

/* Everything that a finished list of runs leaves behind in folder. */
static int leave_results(const run *r, int count, const char *folder, kit_error *why)
{
    kit_text curves = { NULL, 0, 0 }, sheet = { NULL, 0, 0 };
    kit_report p;
    int done = save_tables(r, count, folder, why)
            && save_table(summary_csv, r, count, folder, "summary.csv", why)
            && draw_curves(&curves, r, count, folder, why)
            && (!KIT_HAS_PNG || count == 1 || draw_side_by_side(&sheet, r, count, folder, why));
    if (done) {
        kit_report_begin(&p, "Which positional encoding sees where a value stands?");
        report_opening(&p, r, count);
        report_results(&p, r, count);
        kit_report_svg(&p, &curves, "curves.svg", "validation accuracy by epoch", "");
        report_explanation(&p, r, count);
        report_pictures(&p, r, count, &sheet);
        report_settings(&p, r, count);
        done = kit_report_save(&p, folder, why);
    }
    kit_text_free(&curves);
    kit_text_free(&sheet);
    return done;
}

/* ---- commands -------------------------------------------------------------------------------- */

typedef char spec_text[POSENC_SPEC_TEXT];

static void print_opening(const run *r)
{
    char parameters[32];
    int begun = r->epochs_done + (r->step > 0), finished = r->epochs_done == r->set->epochs;
    say_count(parameters, r->parameters);
    if (r->set->quiet) return;
    printf("%s: %s parameters, %d steps an epoch%s\n", r->spec, parameters, steps_per_epoch(r),
           finished ? ", trained already" : begun ? ", going on" : "");
    fflush(stdout);
}

/* One encoding from start to finish. The tables are saved again at the end: a run that is found trained
   already may have been killed just before they were written. */
static int do_run(run *r, kit_error *why)
{
    if (!kit_make_folders(r->folder, why)) return FAILED;
    if (r->set->resume && !run_resume(r, why)) return FAILED;
    print_opening(r);
    int code = train_run(r, why);
    if (code == DONE && !(save_tables(r, 1, r->folder, why) && draw_attention(r, why))) code = FAILED;
    run_close_model(r);
    return code;
}

static int do_runs(run *r, const settings *s, const task *k, spec_text *spec, int count, int alone,
                   kit_error *why)
{
    dataset train = dataset_make(s->train, KIT_RANDOM_TRAIN, k, s);
    dataset val = dataset_make(s->val, KIT_RANDOM_VALIDATION, k, s);
    int code = DONE;
    for (int i = 0; i < count && code == DONE; i++) {
        r[i].train = &train;
        r[i].val = &val;
        code = run_open(&r[i], s, k, spec[i], alone, why) ? do_run(&r[i], why) : FAILED;
    }
    if (code == DONE && !leave_results(r, count, s->out, why)) code = FAILED;
    dataset_free(&train);
    dataset_free(&val);
    return code;
}

static int train_and_report(const settings *s, const task *k, spec_text *spec, int count, int alone)
{
    kit_error why;
    run *r = (run *)kit_new((size_t)count, sizeof *r);
    kit_catch_stop();
    int code = kit_make_folders(s->out, &why) ? do_runs(r, s, k, spec, count, alone, &why) : FAILED;
    if (code == FAILED) fprintf(stderr, "pattern: %s\n", why.text);
    if (code == STOPPED)
        fprintf(stderr, "pattern: stopped, all is saved in %s; add --resume to go on\n", s->out);
    if (code == DONE) {
        print_table(r, count);
        if (!KIT_HAS_PNG) printf("\n%s\n", KIT_NO_PNG);
        printf("\nreport: %s/report.html\n", s->out);
        if (fflush(stdout) != 0) code = FAILED;
    }
    for (int i = 0; i < count; i++) run_close(&r[i]);
    free(r);
    return code;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* One spec, written back in the library's own words, so that an alias and its name are one method. */
static int read_spec(kit_args *a, spec_text *spec, int count, const char *at, size_t n)
{
    posenc_spec list[POSENC_SPECS];
    posenc_error said;
    spec_text word;
    int parts;
    if (n >= sizeof word || count == KIT_LIST_ROOM)
        return kit_usage(a, "--pe takes %d encodings of %d letters at most", KIT_LIST_ROOM,
                         POSENC_SPEC_TEXT - 1);
    memcpy(word, at, n);
    word[n] = 0;
    if (posenc_spec_parse(list, &parts, POSENC_SPECS, word, &said) != POSENC_OK)
        return kit_usage(a, "%s", said.text);
    posenc_spec_print(spec[count], POSENC_SPEC_TEXT, list, parts);
    for (int k = 0; k < count; k++)
        if (strcmp(spec[k], spec[count]) == 0) return kit_usage(a, "--pe has %s twice", spec[k]);
    return 1;
}

/* Spec strings contain commas, so a list is separated by blanks or semicolons, or given flag by flag.
   Returns how many; 0 after a mistake. */
static int read_specs(kit_args *a, const kit_list *pe, spec_text *spec)
{
    int count = 0;
    for (int i = 0; i < pe->count; i++) {
        const char *at = pe->item[i] + strspn(pe->item[i], " ;");
        while (*at) {
            size_t n = strcspn(at, " ;");
            if (!read_spec(a, spec, count, at, n)) return 0;
            count++;
            at += n + strspn(at + n, " ;");
        }
    }
    return count ? count : kit_usage(a, "--pe names no encoding");
}

/* What is known to be impossible before anything is made. */
static int check_settings(kit_args *a, const settings *s, const task *k, spec_text *spec, int count)
{
    if (s->seq_len < k->least_length)
        return kit_usage(a, "--seq-len %d is too short: the task %s needs %d", s->seq_len, k->name,
                         k->least_length);
    if (s->vocab < k->least_vocab)
        return kit_usage(a, "--vocab %d is too small: the task %s needs %d", s->vocab, k->name,
                         k->least_vocab);
    for (int i = 0; i < count; i++) {
        posenc_config config = run_config(s, k, spec[i]);
        posenc_bytes bytes;
        posenc_error said;
        if (posenc_model_bytes(&bytes, &config, &said) != POSENC_OK)
            return kit_usage(a, "%s", said.text);
    }
    return 1;
}

static void quick_settings(const kit_args *a, settings *s)
{
    if (!kit_given(a, "epochs")) s->epochs = 4;
    if (!kit_given(a, "train")) s->train = 640;
    if (!kit_given(a, "val")) s->val = 256;
}

static settings default_settings(void)
{
    settings s;
    memset(&s, 0, sizeof s);
    s.epochs = 20;
    s.batch = 32;
    s.lr = 1e-3;
    s.decay = 0.01;
    s.clip = 1.0;
    s.dropout = 0.1;
    s.d_model = 128;
    s.heads = 8;
    s.layers = 3;
    s.ffn = 512;
    s.seq_len = 32;
    s.vocab = 20;
    s.train = 5000;
    s.val = 1000;
    s.seed = 1;
    return s;
}

int main(int argc, char **argv)
{
    enum { TRAIN, COMPARE };
    static const kit_command commands[] = {
        { "train", "one encoding" },
        { "compare", "several, one after the other" },
        { NULL, NULL }
    };
    settings s = default_settings();
    kit_option options[] = {
        kit_several("pe",       &s.pe, "SPEC",       "name[:key=value,...][+...]; blanks between several"),
        kit_int("epochs",       &s.epochs, 1, 10000, "passes over the training data"),
        kit_int("batch",        &s.batch, 1, 65536,  "sequences per step"),
        kit_real("lr",          &s.lr, 0, 10,        "learning rate"),
        kit_real("weight-decay", &s.decay, 0, 10,    "AdamW's decay of the weights"),
        kit_real("clip",        &s.clip, 0, 1e9,     "largest norm of the gradients; 0: no limit"),
        kit_real("dropout",     &s.dropout, 0, 1,    "share dropped in embedding, map, branches, FFN"),
        kit_int("d-model",      &s.d_model, 1, 8192, "width of the model"),
        kit_int("heads",        &s.heads, 1, 1024,   "attention heads; must divide the width"),
        kit_int("layers",       &s.layers, 1, 1024,  "blocks"),
        kit_int("ffn",          &s.ffn, 1, 65536,    "hidden width of a block's FFN"),
        kit_int("seq-len",      &s.seq_len, 1, 4096, "tokens in a sequence"),
        kit_int("vocab",        &s.vocab, 2, 65536,  "tokens there are; 0 is padding"),
        kit_int("train",        &s.train, 1, 9999999, "training sequences"),
        kit_int("val",          &s.val, 1, 9999999,  "validation sequences"),
        kit_u64("seed",         &s.seed,             "of data, weights, order and dropout"),
        kit_int("threads",      &s.threads, 0, 1024, "0: all cores; changes no figure"),
        kit_word("out",         &s.out, "DIR",       "[results/pattern; train: results/pattern/SPEC]"),
        kit_switch("resume",    &s.resume,           "go on from the checkpoints in --out"),
        kit_switch("quick",     &s.quick,            "fewer sequences and epochs, for a first look"),
        kit_switch("quiet",     &s.quiet,            "print the final table only"),
        kit_no_more()
    };
    kit_args a;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    a.program = "pattern";
    a.summary = "pattern: can a transformer see that a value stands at a place?";
    a.commands = commands;
    a.options = options;
    a.closing = "Without --pe, train takes learned, compare --quick takes none sinusoidal learned\n"
                "relative continuous, and compare adds t5 alibi rope lrope to them.\n\n"
                "  pattern train --pe rope --epochs 3\n"
                "  pattern compare --quick --pe \"none learned+alibi rope:base=100\"";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;

    static spec_text spec[KIT_LIST_ROOM];
    const task *k = &tasks[0];
    char folder[KIT_PATH], slug[128];
    if (s.quick) quick_settings(&a, &s);
    if (!kit_given(&a, "pe")) {
        s.pe.count = 1;
        s.pe.item[0] = a.command == TRAIN ? "learned"
                     : s.quick ? "none sinusoidal learned relative continuous"
                     : "none sinusoidal learned relative continuous t5 alibi rope lrope";
    }
    int count = read_specs(&a, &s.pe, spec);
    if (count > 1 && a.command == TRAIN)
        count = kit_usage(&a, "train takes one encoding, not %d; compare takes several", count);
    if (count == 0 || !check_settings(&a, &s, k, spec, count)) return a.exit_code;

    spec_slug(slug, sizeof slug, spec[0]);
    snprintf(folder, sizeof folder, "results/pattern%s%s", a.command == TRAIN ? "/" : "",
             a.command == TRAIN ? slug : "");
    if (!s.out) s.out = folder;
    return train_and_report(&s, k, spec, count, a.command == TRAIN);
}
