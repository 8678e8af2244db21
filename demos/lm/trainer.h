/* lm/trainer.h - one update of a run, what it measures, and validation

   An update draws its samples by their numbers, sums the gradients of as many batches as it takes,
   and steps. Nothing here allocates, and how the samples are cut into batches changes neither
   samples nor dropout. Include posenc.h first. */
#ifndef LM_TRAINER_H
#define LM_TRAINER_H

#include "lm/live.h"
#include "lm/run.h"
#include "lm/signals.h"

/* what all runs of one program share: room for an update, and the terminal */
typedef struct lm_trainer {
    int *tokens, *targets;                 /* (samples, T)                                        */
    lm_signals signals;
    lm_live live;
    double flops, peak;                    /* of a token; of the machine in a second, 0: unknown  */
    double data_seconds, seconds;          /* since the last line of metrics                      */
    int timed;                             /* updates they were for                               */
    double norm, rate, loss;               /* of the last update                                  */
    int texts, all_texts;                  /* to validate on; at the end, 0: no more than texts   */
    const char *program;                   /* argv[0]                                             */
} lm_trainer;

static inline void lm_trainer_open(lm_trainer *t, const lm_recipe *p, lm_source *source,
                                   const posenc_config *c, const char *program)
{
    memset(t, 0, sizeof *t);
    t->tokens = (int *)kit_new((size_t)p->per_step, sizeof(int));
    t->targets = (int *)kit_new((size_t)p->per_step, sizeof(int));
    lm_signals_open(&t->signals, c);
    t->flops = lm_flops_per_token(c, p->T);
    t->texts = lm_source_texts(source, p->T, p->eval_tokens);
    t->all_texts = lm_source_texts(source, p->T, p->budget / 2);
    if (lm_source_texts(source, p->T, UINT64_MAX / 2) > t->all_texts) t->all_texts = 0;
    if (t->all_texts == t->texts) t->all_texts = 0;
    t->program = program;
}

static inline void lm_trainer_close(lm_trainer *t)
{
    free(t->tokens);
    free(t->targets);
    lm_signals_close(&t->signals);
}

/* share of the machine's arithmetic that is the model's; NaN: not known */
static inline double lm__mfu(const lm_trainer *t, double tokens_per_second)
{
    return t->peak > 0 ? t->flops * tokens_per_second / t->peak : NAN;
}

/* ---- one update ------------------------------------------------------------------------------ */

static inline int lm__draw_samples(lm_run *r, lm_trainer *t, kit_error *why)
{
    const lm_recipe *p = r->recipe;
    uint64_t first = (uint64_t)r->step * (uint64_t)p->samples;
    for (int i = 0; i < p->samples; i++) {
        size_t at = (size_t)i * (size_t)p->T;
        if (!lm_source_sample(r->source, t->tokens + at, t->targets + at, p->T, r->set->seed,
                              first + (uint64_t)i, why)) return 0;
    }
    return 1;
}

/* Sums over the update are divided by what is to be predicted in all of it, so that the cut into
   batches changes nothing. */
static inline double lm__counted(const int *targets, size_t n)
{
    double count = 0;
    for (size_t i = 0; i < n; i++) count += targets[i] != POSENC_IGNORE;
    return count > 0 ? count : 1;
}

static inline int lm__not_finite(const lm_run *r, const char *said, kit_error *why)
{
    char state[KIT_PATH];
    int there = lm_run_state(state, r->folder);
    return kit_fail(why, "%.250s; a smaller --lr or a longer --warmup-steps may help%s%.180s", said,
                    there ? ", the last good state is " : "", there ? state : "") - 1;
}

/* Gradients of one update, a batch at a time. 1, 0: stopped, or -1 with *why. */
static inline int lm__gradients(lm_run *r, lm_trainer *t, kit_error *why)
{
    const lm_recipe *p = r->recipe;
    posenc_batch b;
    posenc_error said;
    memset(&b, 0, sizeof b);
    b.B = p->batch;
    b.T = p->T;
    b.divisor = lm__counted(t->targets, (size_t)p->per_step);
    uint64_t first = (uint64_t)r->step * (uint64_t)p->samples;
    t->loss = 0;
    for (int k = 0; k < p->accum; k++) {
        double loss;
        size_t at = (size_t)k * (size_t)p->batch * (size_t)p->T;
        if (kit_stopped()) return 0;
        b.tokens = t->tokens + at;
        b.targets = t->targets + at;
        b.first_sample = first + (uint64_t)k * (uint64_t)p->batch;
        posenc_status status = posenc_model_train(r->model, &b, &loss, &said);
        if (status == POSENC_NOT_FINITE) return lm__not_finite(r, said.text, why);
        if (status != POSENC_OK) return kit_fail(why, "%s", said.text) - 1;
        t->loss += loss;
    }
    return 1;
}

static inline int lm__step(lm_run *r, lm_trainer *t, int look, kit_error *why)
{
    posenc_error said;
    int rows = r->recipe->batch * r->recipe->T;
    if (look) lm_signals_gradients(&t->signals, r->model);
    if (look && !lm_signals_logits(&t->signals, r->model, rows, why)) return -1;
    t->rate = posenc_rate(&r->schedule, r->step);
    posenc_status status = posenc_model_update(r->model, &r->recipe->optimizer, t->rate, &t->norm,
                                               &said);
    if (status == POSENC_NOT_FINITE) return lm__not_finite(r, said.text, why);
    if (status != POSENC_OK) return kit_fail(why, "%s", said.text) - 1;
    if (look) lm_signals_update(&t->signals, r->model, &r->recipe->optimizer, t->rate);
    r->step++;
    r->sum += t->loss;
    r->since++;
    return 1;
}

/* look: 1 leaves what a line of metrics tells of it. Returns 1, 0: stopped before it was made, or
   -1 with *why. */
static inline int lm_update(lm_run *r, lm_trainer *t, int look, kit_error *why)
{
    double began = kit_seconds();
    if (!lm__draw_samples(r, t, why)) return -1;
    t->data_seconds += kit_seconds() - began;
    int code = lm__gradients(r, t, why);
    if (code == 1) code = lm__step(r, t, look, why);
    t->seconds += kit_seconds() - began;
    t->timed++;
    return code;
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* tokens in a second since the last line of metrics, or since the program began */
static inline double lm__speed(const lm_run *r, const lm_trainer *t)
{
    return t->seconds > 0 ? t->timed * (double)r->recipe->per_step / t->seconds : 0;
}

static inline void lm__log_progress(lm_run *r, const lm_trainer *t)
{
    double speed = lm__speed(r, t), loss = r->sum / r->since, n = t->timed;
    lm_log *g = &r->log;
    lm_log_real(g, "train/loss", loss);
    lm_log_real(g, "train/ppl", exp(loss));
    lm_log_real(g, "train/tokens_per_sec", speed);
    lm_log_real(g, "train/step", (double)r->step);
    lm_log_real(g, "train/tokens", (double)lm_run_tokens(r));
    lm_log_real(g, "train/lr", t->rate);
    lm_log_real(g, "train/grad_norm", t->norm);
    lm_log_real(g, "train/grad_clipped", r->set->clip > 0 && t->norm > r->set->clip);
    lm_log_real(g, "train/samples_seen", (double)r->step * r->recipe->samples);
    lm_log_real(g, "train/tokens_per_step", (double)r->recipe->per_step);
    lm_log_real(g, "train/progress_pct", 100.0 * (double)r->step / (double)r->total);
    lm_log_real(g, "train/mfu", lm__mfu(t, speed));
    lm_log_real(g, "time/data_ms", 1e3 * t->data_seconds / n);
    lm_log_real(g, "time/step_ms", 1e3 * t->seconds / n);
}

static inline void lm__log_signals(lm_run *r, const lm_signals *s)
{
    lm_log *g = &r->log;
    char key[40];
    lm_log_real(g, "train/logits_mean", s->logits_mean);
    lm_log_real(g, "train/logits_std", s->logits_std);
    lm_log_real(g, "train/logits_min", s->logits_min);
    lm_log_real(g, "train/logits_max", s->logits_max);
    lm_log_real(g, "train/entropy", s->entropy);
    lm_log_real(g, "param/weight_norm", s->weight_norm);
    for (int l = 0; l < s->layers; l++) {
        snprintf(key, sizeof key, "grad/layer_%d_norm", l);
        lm_log_real(g, key, s->layer[l]);
    }
    lm_log_real(g, "grad/mean", s->grad_mean);
    lm_log_real(g, "grad/std", s->grad_std);
    lm_log_real(g, "grad/max", s->grad_max);
    lm_log_real(g, "grad/update_norm_ratio", s->update_ratio);
}

static inline void lm__log_stage(lm_run *r)
{
    lm_log *g = &r->log;
    double into = (double)(r->step - r->fall), all = (double)(r->total - r->fall);
    if (r->recipe->schedule.kind != POSENC_WSD) return;
    lm_log_real(g, "wsd/stage", strcmp(r->stage, "decay") == 0 ? 2 : 1);
    lm_log_real(g, "wsd/target_budget", (double)r->budget);
    lm_log_real(g, "wsd/branch_tokens", (double)r->fall * (double)r->recipe->per_step);
    lm_log_real(g, "wsd/decay_start_step", (double)r->fall);
    lm_log_real(g, "wsd/decay_progress_pct", all > 0 && into > 0 ? 100 * into / all : 0);
}

static inline int lm__log_line(lm_run *r, lm_trainer *t, kit_error *why)
{
    lm_log_begin(&r->log, lm_run_tokens(r));
    lm__log_progress(r, t);
    lm__log_signals(r, &t->signals);
    lm__log_stage(r);
    r->sum = 0;
    r->since = 0;
    t->seconds = t->data_seconds = t->timed = 0;
    return lm_log_end(&r->log, why);
}

/* ---- validation ------------------------------------------------------------------------------ */

/* Mean loss in nats over so many of the texts held out. 1, 0: stopped, or -1 with *why. */
static inline int lm_validate(double *mean, lm_run *r, lm_trainer *t, int texts, kit_error *why)
{
    const lm_recipe *p = r->recipe;
    double sum = 0, count = 0, loss;
    posenc_batch b;
    posenc_error said;
    memset(&b, 0, sizeof b);
    b.T = p->T;
    b.tokens = t->tokens;
    b.targets = t->targets;
    b.divisor = 1;
    for (int k = 0; k < texts; k += b.B) {
        if (kit_stopped()) return 0;
        b.B = texts - k < p->batch ? texts - k : p->batch;
        for (int i = 0; i < b.B; i++) {
            size_t at = (size_t)i * (size_t)p->T;
            if (!lm_source_text(r->source, t->tokens + at, t->targets + at, p->T, k + i, texts,
                                why)) return -1;
        }
        if (posenc_model_loss(r->model, &b, &loss, &said) != POSENC_OK)
            return kit_fail(why, "%s", said.text) - 1;
        sum += loss;
        for (size_t i = 0; i < (size_t)b.B * (size_t)p->T; i++)
            count += t->targets[i] != POSENC_IGNORE;
    }
    *mean = count > 0 ? sum / count : NAN;
    return 1;
}

/* all: over all that is held out, NaN in the middle of a run */
static inline int lm__log_validation(lm_run *r, double loss, double all, kit_error *why)
{
    lm_log *g = &r->log;
    lm_log_begin(g, lm_run_tokens(r));
    lm_log_real(g, "val/loss", loss);
    lm_log_real(g, "val/ppl", exp(loss));
    lm_log_real(g, "val/best_loss", r->best);
    if (strcmp(r->source->vocabulary, "bytes") == 0)
        lm_log_real(g, "val/bits_per_byte", loss / log(2));
    if (isfinite(all)) lm_log_real(g, "val/all_loss", all);
    if (isfinite(all) && strcmp(r->source->vocabulary, "bytes") == 0)
        lm_log_real(g, "val/all_bits_per_byte", all / log(2));
    return lm_log_end(g, why);
}

static inline void lm__say_validation(lm_run *r, lm_trainer *t, double loss, int better)
{
    char tokens[24], bits[40] = "";
    lm_say_tokens(tokens, sizeof tokens, lm_run_tokens(r));
    if (strcmp(r->source->vocabulary, "bytes") == 0)
        snprintf(bits, sizeof bits, ", %.4f bits per byte", loss / log(2));
    lm_live_line(&t->live, "validation at %s: loss %.4f%s%s", tokens, loss, bits,
                 better ? ", the best so far" : "");
}

/* DONE, FAILED or STOPPED. A stopped one is made when the run goes on. */
static inline int lm__run_validate(lm_run *r, lm_trainer *t, kit_error *why)
{
    double loss = 0, all = NAN;
    int due = r->step == r->total || r->step % r->recipe->eval == 0;
    if (!due || t->texts == 0 || r->validated == r->step || r->step == 0) return DONE;
    int code = lm_validate(&loss, r, t, t->texts, why);
    if (code == 1 && r->step == r->total && t->all_texts)
        code = lm_validate(&all, r, t, t->all_texts, why);
    if (code != 1) return code < 0 ? FAILED : STOPPED;
    int better = loss < r->best;
    if (better) r->best = loss;
    r->validated = r->step;
    r->all = all;
    if (!lm__log_validation(r, loss, all, why)) return FAILED;
    if (better && !lm_run_save(r, "best.safetensors", POSENC_WEIGHTS, why)) return FAILED;
    lm__say_validation(r, t, loss, better);
    return DONE;
}

#endif
