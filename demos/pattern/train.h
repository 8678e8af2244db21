/* pattern/train.h - the training of one run: steps, epochs, and what is saved after each */
#ifndef PATTERN_TRAIN_H
#define PATTERN_TRAIN_H

#include "pattern/tables.h"
#include "kit/progress.h"

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

/* Steps until the epoch is over or somebody presses Ctrl-C. The order of the samples is a function
   of seed and epoch alone, so that a resumed epoch walks through the same one. */
static int train_epoch(run *r, kit_progress *bar, kit_error *why)
{
    int steps = steps_per_epoch(r);
    double started = kit_seconds(), *seconds = &r->seconds[r->epochs_done], before = *seconds;
    kit_random random = kit_random_open(r->seed, KIT_RANDOM_ORDER, (uint64_t)r->epochs_done);
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

/* The epoch's row of the history, then the checkpoints. best goes first: if the power fails between
   the two, the epoch is done again and ends in the same best. */
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
        && save_logs(r, 1, r->folder, why);
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
    char label[64];
    snprintf(label, sizeof label, "%d/%d %.40s", r->number, r->of, r->spec);
    kit_progress bar = kit_progress_begin(label, steps * r->set->epochs,
                                          steps * r->epochs_done + r->step, r->set->quiet);
    while (r->epochs_done < r->set->epochs) {
        int went = train_epoch(r, &bar, why), stopped = went && r->step < steps;
        if (stopped) went = run_save(r, "last.safetensors", POSENC_WEIGHTS_AND_STATE, why)
                         && save_logs(r, 1, r->folder, why);
        else         went = went && finish_epoch(r, why);
        kit_progress_clear(&bar);
        if (!went) return FAILED;
        if (stopped) return STOPPED;
        print_epoch(r);
    }
    return DONE;
}

#endif
