/* Door three: whole transformers. What they learn, what they refuse, and what must not depend on
   how a run is cut up: threads, batches, ranks. Gradients are in test_gradients_model.c.         */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "models.h"
#include <limits.h>
#include <pthread.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { B = 3, T = 7 };
static const double NEVER = -12345.0;                     /* a loss that nobody computes */

static int is_key_bias(const posenc_tensor *t) { return strstr(t->name, "k_proj.bias") != NULL; }

/* all logits after a forward of this batch; NULL with a reason in check_text */
enum { LOGITS = 1024 };
static posenc_float *logits_of(posenc_model *m, const posenc_batch *batch,
                               posenc_float logits[LOGITS])
{
    const posenc_config *c = posenc_model_config(m);
    int rows = c->classes ? batch->B : batch->B * batch->T;
    posenc_error why;
    memset(logits, 0, LOGITS * sizeof *logits);
    if (posenc_model_forward(m, batch, &why) == POSENC_OK
        && posenc_model_logits(m, logits, 0, rows, &why) == POSENC_OK) return logits;
    snprintf(check_text, sizeof check_text, "%.300s", why.text);
    return NULL;
}

/* reads the first n numbers of an activation */
static posenc_float *activation_of(posenc_model *m, size_t n, const char *format, int layer)
{
    char name[64];
    posenc_tensor *t;
    snprintf(name, sizeof name, format, layer);
    t = posenc_model_find(m, name);
    snprintf(check_text, sizeof check_text, "no activation %s", name);
    return t && t->count >= n ? copy_tensor(m, t->data, n) : NULL;
}

/* ---- learning -------------------------------------------------------------------------------- */

TEST overfits_one_batch(const struct kind *k)
{
    posenc_model *m = make_model("%s encoding=learned", k->config);
    posenc_optimizer o;
    posenc_error why;
    double loss = NEVER, first = NEVER;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    o.clip = 1.0;
    fill_data(&d, m, B, T, 1);
    for (int b = 0; b < B; b++) d.tokens[b * T] = 1 + b;           /* no two rows begin alike */
    for (int step = 0; step < 150; step++) {
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_update(m, &o, 1e-2, NULL, &why));
        if (step == 0) first = loss;
    }
    ASSERT_GT(first, 1.0);
    ASSERT_LTE(loss, 0.02);
    ASSERT_GTE(loss, 0.0);
    ASSERT_EQ(150, posenc_model_steps(m));
    posenc_model_free(m);
    PASS();
}

TEST gradients_add_up_until_the_update_clears_them(void)
{
    posenc_model *m = make_model("%s encoding=relative", kinds[CLASSIFIER].config);
    posenc_optimizer o;
    posenc_error why;
    posenc_float *once, *twice;
    size_t n;
    double loss, norm = NEVER, sum = 0;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    fill_data(&d, m, B, T, 1);
    n = posenc_model_numbers(m);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    once = copy_of(m, GRADIENTS);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    twice = copy_of(m, GRADIENTS);
    for (size_t i = 0; i < n; i++) { once[i] *= 2; sum += (double)twice[i] * twice[i]; }
    ASSERT_NORM_CLOSE(once, twice, n, 1e-5);
    ASSERT_EQ(POSENC_OK, posenc_model_update(m, &o, 1e-3, &norm, &why));
    ASSERT_LTE(fabs(norm - sqrt(sum)), 1e-6 * norm);
    free(twice);
    twice = copy_of(m, GRADIENTS);
    for (size_t i = 0; i < n; i++) ASSERT_EQ(0, twice[i]);
    free(once);
    free(twice);
    posenc_model_free(m);
    PASS();
}

/* With plain SGD at rate 1 the weights move by the clipped gradient, so by exactly the limit. */
TEST clipping_limits_the_norm_of_all_gradients_together(void)
{
    posenc_model *m = make_model("%s encoding=learned", kinds[NEXT_TOKEN].config);
    posenc_optimizer o;
    posenc_error why;
    posenc_float *before, *after;
    double loss, norm = NEVER, moved = 0;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    o.kind = POSENC_SGD;
    o.clip = 0.125;
    fill_data(&d, m, B, T, 1);
    before = copy_of(m, WEIGHTS);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT_EQ(POSENC_OK, posenc_model_update(m, &o, 1.0, &norm, &why));
    after = copy_of(m, WEIGHTS);
    for (size_t i = 0; i < posenc_model_numbers(m); i++)
        moved += ((double)after[i] - before[i]) * ((double)after[i] - before[i]);
    ASSERT_GT(norm, 0.25);                                       /* what it was before, not after */
    ASSERT_LTE(fabs(sqrt(moved) - 0.125), 1e-5);
    free(before);
    free(after);
    posenc_model_free(m);
    PASS();
}

/* The gradients are cleared before the update, so only the decay moves anything. */
TEST decay_shrinks_matrices_and_leaves_vectors(void)
{
    posenc_model *m = make_model("%s encoding=learned", kinds[CLASSIFIER].config);
    posenc_optimizer o;
    posenc_error why;
    posenc_float *before, *after, *x, *y;
    posenc_tensor *spared;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    o.decay = 0.5;
    before = x = copy_of(m, WEIGHTS);
    spared = posenc_model_find(m, "head.weight");
    ASSERT(spared && spared->decay == 1);
    spared->decay = 0;                                                     /* the caller's choice */
    ASSERT_EQ(POSENC_OK, posenc_model_update(m, &o, 0.1, NULL, &why));
    after = y = copy_of(m, WEIGHTS);
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        double keep = t->dims == 2 && t != spared ? 1 - 0.1 * 0.5 : 1;
        for (size_t k = 0; k < t->count; k++)
            ASSERTm(t->name, fabs(keep * x[k] - y[k]) <= 1e-6 * fabs(keep * x[k]));
        x += t->count;
        y += t->count;
    }
    free(before);
    free(after);
    posenc_model_free(m);
    PASS();
}

TEST seed_decides_the_weights_and_nothing_else_does(void)
{
    posenc_model *a = make_model("%s seed=5 encoding=learned", kinds[NEXT_TOKEN].config);
    posenc_model *b = make_model("%s seed=5 encoding=learned batch=9 threads=3",
                                 kinds[NEXT_TOKEN].config);
    posenc_model *c = make_model("%s seed=6 encoding=learned", kinds[NEXT_TOKEN].config);
    ASSERTm(check_text, a && b && c);
    ASSERTm(check_text, same_part(a, b, WEIGHTS, 0));
    for (int i = 0; i < posenc_model_parameters(a); i++) {
        const posenc_tensor *s = posenc_model_parameter(a, i), *t = posenc_model_parameter(c, i);
        posenc_float *x = copy_tensor(a, s->data, s->count), *y = copy_tensor(c, t->data, t->count);
        if (s->dims == 2) ASSERT_GTm(s->name, norm_diff(x, y, s->count), 0.5);
        free(x);
        free(y);
    }
    posenc_model_free(a);
    posenc_model_free(b);
    posenc_model_free(c);
    PASS();
}

/* Gains are one, biases zero, tables normal, products uniform within 1/sqrt(inputs). */
TEST first_values_are_as_described(int k)
{
    static const char *const encoding[KINDS] = { "learned+relative", "sininit+t5", "lrope" };
    posenc_model *m = make_model("%s encoding=%s channels=64 hidden=96 vocab=50", kinds[k].config,
                                 encoding[k]);
    posenc_float first[200][4];
    int matrices = 0;
    ASSERTm(check_text, m);
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *x = copy_tensor(m, t->data, t->count), waves[16 * 64];
        double bound = 1 / sqrt((double)t->shape[1]), spread = bound / sqrt(3.0);
        double sum = 0, square = 0, top = 0;
        int bias = strstr(t->name, "bias") != NULL;
        for (size_t j = 0; j < t->count; j++) {
            sum += x[j];
            square += (double)x[j] * x[j];
            top = fmax(top, fabs((double)x[j]));
            if (t->dims == 1) ASSERT_EQm(t->name, bias ? 0 : 1, x[j]);
        }
        if (!strcmp(t->name, "pe.sininit.weight")) {
            posenc_sinusoidal(waves, NULL, 16, 64, 10000);
            ASSERT_CLOSE(waves, x, 16 * 64, 1e-6);
        } else if (t->dims == 2) {
            if (strstr(t->name, "token_emb") || strstr(t->name, "pe."))
                spread = strstr(t->name, "t5") ? 1 / 8.0 : 0.02;
            else
                ASSERTm(t->name, top <= bound && top > 0.9 * bound);
            ASSERT_LTm(t->name, fabs(sqrt(square / (double)t->count) / spread - 1), 0.25);
            ASSERT_LTm(t->name, fabs(sum / (double)t->count), 0.3 * spread);
            memcpy(first[matrices], x, sizeof first[0]);
            for (int j = 0; j < matrices; j++)
                ASSERTm(t->name, memcmp(first[j], x, sizeof first[0]));
            matrices++;
        }
        free(x);
    }
    ASSERT_GT(matrices, 12);
    posenc_model_free(m);
    PASS();
}

/* ---- the same bits however the work is cut --------------------------------------------------- */

/* wide enough that every loop has work for three threads */
#define WIDE " layers=1 context=33 channels=64 hidden=256 batch=5" EVERYWHERE_DROPPED
static const char *const rich_encoding[KINDS] = { "learned+relative", "continuous+t5",
                                                  "lrope+alibi" };

TEST ten_steps_have_the_same_bits_at_1_2_and_3_threads(int k)
{
    posenc_model *one = make_model("%s encoding=%s threads=1" WIDE, kinds[k].config,
                                   rich_encoding[k]);
    ASSERTm(check_text, one && train_steps(one, 0, 10));
#ifdef _OPENMP
    for (int threads = 2; threads <= 3; threads++) {
        posenc_model *many = make_model("%s encoding=%s threads=%d" WIDE, kinds[k].config,
                                        rich_encoding[k], threads);
        ASSERTm(check_text, many && train_steps(many, 0, 10));
        ASSERTm(check_text, same_state(one, many));
        posenc_model_free(many);
    }
    posenc_model_free(one);
    PASS();
#else
    posenc_model_free(one);
    SKIPm("compiled without OpenMP");
#endif
}

/* a back end that notes how many threads there are while it works */
static int threads_inside;
static void noting_residual(posenc_float *y, const posenc_float *a, const posenc_float *b, size_t n)
{
    threads_inside = posenc_threads();
    posenc_residual(y, a, b, n);
}
TEST threads_are_the_models_inside_and_the_callers_outside(void)
{
    posenc_backend noting = *posenc_cpu_backend();
    posenc_model *m;
    noting.residual = noting_residual;
    m = make_model_on(&noting, "%s threads=2", kinds[CLASSIFIER].config);
    ASSERTm(check_text, m);
    ASSERT_EQ(2, posenc_model_config(m)->threads);
#ifdef _OPENMP
    omp_set_num_threads(3);
    ASSERTm(check_text, train_steps(m, 0, 1));
    ASSERT_EQ(2, threads_inside);
    ASSERT_EQ(3, posenc_threads());
    omp_set_num_threads(2);
    posenc_model_free(m);
    PASS();
#else
    ASSERTm(check_text, train_steps(m, 0, 1));
    ASSERT_EQ(1, threads_inside);
    posenc_model_free(m);
    SKIPm("compiled without OpenMP");
#endif
}

typedef struct host_thread { int k, good; posenc_model *m; } host_thread;
static void *train_alone(void *argument)
{
    host_thread *h = (host_thread *)argument;
    h->good = h->m && train_steps(h->m, 0, 4);
    return NULL;
}
TEST two_models_on_two_host_threads_do_not_disturb_each_other(int threads)
{
    host_thread alone[2], together[2];
    pthread_t id[2];
    memset(alone, 0, sizeof alone);
    memset(together, 0, sizeof together);
    for (int i = 0; i < 2; i++) {
        alone[i].m = make_model("%s encoding=%s threads=%d" WIDE, kinds[i].config, rich_encoding[i],
                                threads);
        together[i].m = make_model("%s encoding=%s threads=%d" WIDE, kinds[i].config,
                                   rich_encoding[i], threads);
        train_alone(&alone[i]);
        ASSERTm(check_text, alone[i].good);
    }
    posenc_use_tier(NULL);                         /* the choice of kernels is made anew, by both */
    for (int i = 0; i < 2; i++)
        ASSERT_EQ(0, pthread_create(&id[i], NULL, train_alone, &together[i]));
    for (int i = 0; i < 2; i++) ASSERT_EQ(0, pthread_join(id[i], NULL));
    for (int i = 0; i < 2; i++) {
        ASSERTm(check_text, together[i].good);
        ASSERTm(check_text, same_state(alone[i].m, together[i].m));
        posenc_model_free(alone[i].m);
        posenc_model_free(together[i].m);
    }
    PASS();
}

/* Rows 0..2 in one call, or rows 0,1 and row 2 in two: the same gradients, because masks hang on
   the sample's number in the whole data and the divisor is given. A wrong number gives others.   */
TEST batch_cut_in_two_gives_the_same_gradients(int k)
{
    posenc_model *whole = make_model("%s encoding=%s" EVERYWHERE_DROPPED, kinds[k].config,
                                     rich_encoding[k]);
    posenc_model *parts = make_model("%s encoding=%s" EVERYWHERE_DROPPED, kinds[k].config,
                                     rich_encoding[k]);
    posenc_error why;
    double loss = NEVER, one = NEVER, two = NEVER;
    data d;
    posenc_batch b;
    ASSERTm(check_text, whole && parts);
    fill_data(&d, whole, B, T, 4);
    d.batch.first_sample = 100;
    d.batch.divisor = 13;
    ASSERT_EQ(POSENC_OK, posenc_model_train(whole, &d.batch, &loss, &why));
    for (int right = 0; right < 2; right++) {
        posenc_float *all = copy_of(whole, GRADIENTS), *sum, *x, *y;
        b = d.batch;
        b.B = 2;
        ASSERT_EQ(POSENC_OK, posenc_model_train(parts, &b, &one, &why));
        b.B = 1;
        b.tokens += 2 * T;
        b.targets += posenc_model_config(whole)->classes ? 2 : 2 * T;
        b.first_sample = right ? 102 : 0;
        ASSERT_EQ(POSENC_OK, posenc_model_train(parts, &b, &two, &why));
        sum = copy_of(parts, GRADIENTS);
        if (right) ASSERT_LTE(fabs(one + two - loss), 1e-5 * loss);
        else       ASSERT_GT(norm_diff(all, sum, posenc_model_numbers(whole)), 1e-3);
        x = all;
        y = sum;
        for (int i = 0; i < posenc_model_parameters(whole) && right; i++) {
            const posenc_tensor *t = posenc_model_parameter(whole, i);
            if (!is_key_bias(t)) ASSERT_LTEm(t->name, norm_diff(y, x, t->count), 1e-5);
            x += t->count;
            y += t->count;
        }
        memset(sum, 0, posenc_model_numbers(parts) * sizeof *sum);
        for (int i = 0; i < posenc_model_parameters(parts); i++) {
            posenc_tensor *t = posenc_model_parameter(parts, i);
            posenc_model_set(parts, t->grad, sum, t->count);
        }
        free(all);
        free(sum);
    }
    posenc_model_free(whole);
    posenc_model_free(parts);
    PASS();
}

/* ---- encodings are alive --------------------------------------------------------------------- */

TEST parameters_of_an_encoding_move_in_training(int e)
{
    const posenc_encoding_info *info = posenc_encoding_get(e);
    posenc_model *m = make_model("%s %s", kinds[CLASSIFIER].config, encoding_word(e));
    posenc_float *before, *x;
    char piece[64];
    int found = 0;
    ASSERTm(check_text, m);
    snprintf(piece, sizeof piece, "pe.%s.", info->name);
    before = x = copy_of(m, WEIGHTS);
    for (int i = 0; i < posenc_model_parameters(m); i++)   /* what the decay does is not learning */
        posenc_model_parameter(m, i)->decay = 0;
    ASSERTm(check_text, train_steps(m, 0, 5));
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *y = copy_tensor(m, t->data, t->count);
        if (t->frozen) {
            ASSERT_EQm(t->name, 0, memcmp(x, y, t->count * sizeof *y));
        } else if (strstr(t->name, piece)) {
            ASSERT_GTm(t->name, max_abs_diff(x, y, t->count), 1e-3);
            found++;
        }
        x += t->count;
        free(y);
    }
    ASSERT_EQm("the table says whether an encoding learns", info->learns, found > 0);
    free(before);
    posenc_model_free(m);
    PASS();
}

TEST permuted_positions_change_the_output(int e, int k)
{
    posenc_float straight[LOGITS], permuted[LOGITS];
    posenc_model *m = make_model("%s %s", kinds[k].config, encoding_word(e));
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 10));
    fill_data(&d, m, B, T, 50);
    ASSERTm(check_text, logits_of(m, &d.batch, straight));
    for (int r = 0; r < B * T; r++) d.positions[r] = (r % T) * 3 % T;               /* T is prime */
    d.batch.positions = d.positions;
    ASSERTm(check_text, logits_of(m, &d.batch, permuted));
    if (e == POSENC_NONE) ASSERT_MEM_EQ(straight, permuted, sizeof straight);
    else                  ASSERT_GT(max_abs_diff(straight, permuted, LOGITS), 1e-5);
    d.batch.positions = NULL;                                        /* and back, without a trace */
    ASSERTm(check_text, logits_of(m, &d.batch, permuted));
    ASSERT_MEM_EQ(straight, permuted, sizeof straight);
    posenc_model_free(m);
    PASS();
}

/* Without a mask and without positions a transformer sees a set: permute the tokens and every
   output goes with its token.                                                                    */
TEST none_without_a_mask_is_permutation_equivariant(const char *encoding, int equivariant)
{
    static const int order[T] = { 4, 0, 6, 2, 5, 1, 3 };
    posenc_float straight[LOGITS], permuted[LOGITS], back[LOGITS];
    posenc_model *m = make_model("%s causal=0 encoding=%s", kinds[NEXT_TOKEN].config, encoding);
    data d;
    int tokens[B * T], V = 11;
    ASSERTm(check_text, m && train_steps(m, 0, 5));
    fill_data(&d, m, B, T, 9);
    ASSERTm(check_text, logits_of(m, &d.batch, straight));
    for (int r = 0; r < B * T; r++) tokens[r] = d.tokens[r / T * T + order[r % T]];
    d.batch.tokens = tokens;
    ASSERTm(check_text, logits_of(m, &d.batch, permuted));
    memset(back, 0, sizeof back);
    for (int r = 0; r < B * T; r++)
        memcpy(back + (r / T * T + order[r % T]) * V, permuted + r * V, (size_t)V * sizeof *back);
    if (equivariant) ASSERT_CLOSE(straight, back, LOGITS, 1e-5);
    else             ASSERT_GT(max_abs_diff(straight, back, LOGITS), 1e-3);
    posenc_model_free(m);
    PASS();
}

TEST given_positions_from_0_are_the_default(int e)
{
    posenc_float unsaid[LOGITS], said[LOGITS];
    posenc_model *m = make_model("%s %s", kinds[CLASSIFIER].config, encoding_word(e));
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 5));
    fill_data(&d, m, B, T, 8);
    ASSERTm(check_text, logits_of(m, &d.batch, unsaid));
    for (int r = 0; r < B * T; r++) d.positions[r] = r % T;
    d.batch.positions = d.positions;
    ASSERTm(check_text, logits_of(m, &d.batch, said));
    ASSERT_CLOSE(unsaid, said, LOGITS, 1e-6);
    posenc_model_free(m);
    PASS();
}

/* Three rows with positions of their own give what each of them gives alone. */
TEST each_row_has_positions_of_its_own(int e)
{
    posenc_float together[LOGITS], alone[LOGITS];
    posenc_model *m = make_model("%s %s", kinds[CLASSIFIER].config, encoding_word(e));
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 5));
    fill_data(&d, m, B, T, 8);
    for (int r = 0; r < B * T; r++) d.positions[r] = (r % T) * (r / T + 2) % T + r / T;
    d.batch.positions = d.positions;
    ASSERTm(check_text, logits_of(m, &d.batch, together));
    d.batch.B = 1;
    for (int b = 0; b < B; b++) {
        d.batch.tokens = d.tokens + b * T;
        d.batch.positions = d.positions + b * T;
        ASSERTm(check_text, logits_of(m, &d.batch, alone));
        ASSERT_CLOSE(alone, together + 4 * b, 4, 1e-6);
    }
    posenc_model_free(m);
    PASS();
}

TEST encodings_of_distance_do_not_see_a_shift(int e)
{
    posenc_float here[LOGITS], there[LOGITS];
    posenc_model *m = make_model("%s %s", kinds[NEXT_TOKEN].config, encoding_word(e));
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 5));
    fill_data(&d, m, B, T, 8);
    ASSERTm(check_text, logits_of(m, &d.batch, here));
    for (int r = 0; r < B * T; r++) d.positions[r] = 5000 + r % T;
    d.batch.positions = d.positions;
    ASSERTm(check_text, logits_of(m, &d.batch, there));
    ASSERT_CLOSE(here, there, LOGITS, 1e-4);
    posenc_model_free(m);
    PASS();
}

/* ---- sizes of a batch ------------------------------------------------------------------------ */

TEST shorter_than_the_context_is_like_a_shorter_context(int e)
{
    posenc_float a[LOGITS], b[LOGITS];
    posenc_model *lengthy = make_model("%s %s", kinds[CLASSIFIER].config, encoding_word(e));
    posenc_model *tight = make_model("%s %s context=%d", kinds[CLASSIFIER].config, encoding_word(e),
                                     T);
    data d;
    ASSERTm(check_text, lengthy && tight);
    fill_data(&d, lengthy, B, T, 2);
    ASSERTm(check_text, logits_of(lengthy, &d.batch, a) && logits_of(tight, &d.batch, b));
    ASSERT_CLOSE(a, b, LOGITS, 1e-6);
    ASSERT_GT(fabs(a[0]), 1e-4);
    posenc_model_free(lengthy);
    posenc_model_free(tight);
    PASS();
}

/* Logits of the first tokens do not change when more follow, from T = 1 on. */
TEST causal_model_does_not_see_the_future(int e)
{
    posenc_float full[LOGITS], cut[LOGITS];
    posenc_model *m = make_model("%s %s", kinds[MODERN].config, encoding_word(e));
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 3));
    fill_data(&d, m, 1, T, 2);
    ASSERTm(check_text, logits_of(m, &d.batch, full));
    for (int t = 1; t < T; t++) {
        d.batch.T = t;
        ASSERTm(check_text, logits_of(m, &d.batch, cut));
        ASSERT_CLOSE(full, cut, (size_t)t * 11, 1e-6);
    }
    posenc_model_free(m);
    PASS();
}

TEST one_token_can_be_trained_on(const struct kind *k, int e)
{
    posenc_model *m = make_model("%s %s" EVERYWHERE_DROPPED, k->config, encoding_word(e));
    posenc_optimizer o;
    posenc_error why;
    double loss = NEVER, norm = NEVER;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    fill_data(&d, m, 1, 1, 2);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT(loss > 0 && loss < 20);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_update(m, &o, 1e-3, &norm, &why));
    ASSERT(norm > 0 && norm < 1e3);
    posenc_model_free(m);
    PASS();
}

TEST short_last_batch_gives_each_row_what_it_had(const struct kind *k)
{
    posenc_float full[LOGITS], part[LOGITS];
    posenc_model *m = make_model("%s encoding=rope+learned", k->config);
    int per = 4;
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 3));
    fill_data(&d, m, B, T, 2);
    if (!posenc_model_config(m)->classes) per = T * 11;
    ASSERTm(check_text, logits_of(m, &d.batch, full));
    for (int rows = 1; rows < B; rows++) {
        d.batch.B = rows;
        ASSERTm(check_text, logits_of(m, &d.batch, part));
        ASSERT_CLOSE(full, part, (size_t)(rows * per), 1e-6);
        for (int i = rows * per; i < LOGITS; i++) ASSERT_EQ(0, part[i]);
    }
    posenc_model_free(m);
    PASS();
}

/* Two documents in one row, each with its own positions, are two rows. */
TEST packed_documents_do_not_see_each_other(const char *encoding)
{
    posenc_float packed[LOGITS], alone[LOGITS];
    posenc_model *m = make_model("%s encoding=%s", kinds[MODERN].config, encoding);
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 3));
    fill_data(&d, m, 1, T, 2);
    for (int t = 0; t < T; t++) d.segments[t] = t >= 3;
    posenc_positions_packed(d.positions, d.segments, 1, T);
    d.batch.positions = d.positions;
    d.batch.segments = d.segments;
    ASSERTm(check_text, logits_of(m, &d.batch, packed));
    d.batch.positions = NULL;
    d.batch.segments = NULL;
    d.batch.T = 3;
    ASSERTm(check_text, logits_of(m, &d.batch, alone));
    ASSERT_CLOSE(alone, packed, 3 * 11, 1e-5);
    d.batch.T = T - 3;
    d.batch.tokens += 3;
    ASSERTm(check_text, logits_of(m, &d.batch, alone));
    ASSERT_CLOSE(alone, packed + 3 * 11, (T - 3) * 11, 1e-5);
    posenc_model_free(m);
    PASS();
}

/* ---- nothing to learn from, nothing to see --------------------------------------------------- */

TEST all_targets_ignored_give_loss_0_and_gradient_0(const struct kind *k)
{
    posenc_model *m = make_model("%s encoding=learned+lrope+relative", k->config);
    posenc_optimizer o;
    posenc_error why;
    posenc_float *g;
    double loss = NEVER, norm = NEVER;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    fill_data(&d, m, B, T, 2);
    for (int r = 0; r < B * T; r++) d.targets[r] = POSENC_IGNORE;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT_EQ(0.0, loss);
    g = copy_of(m, GRADIENTS);
    for (size_t i = 0; i < posenc_model_numbers(m); i++) ASSERT_EQ(0, g[i]);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_update(m, &o, 1e-3, &norm, &why));
    ASSERT_EQ(0.0, norm);
    free(g);
    posenc_model_free(m);
    PASS();
}

/* A row of padding pools to zero, so the classifier answers with its bias; others do not notice. */
TEST row_of_padding_gives_the_bias_and_disturbs_nobody(int e)
{
    posenc_float usual[LOGITS], padded[LOGITS], bias[4], *g;
    posenc_model *m = make_model("%s %s", kinds[CLASSIFIER].config, encoding_word(e));
    posenc_error why;
    double loss = NEVER;
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 3));
    fill_data(&d, m, B, T, 2);
    ASSERTm(check_text, logits_of(m, &d.batch, usual));
    for (int t = 0; t < T; t++) d.tokens[1 * T + t] = 0;
    ASSERTm(check_text, logits_of(m, &d.batch, padded));
    posenc_model_get(m, bias, posenc_model_find(m, "head.bias")->data, 4);
    ASSERT_CLOSE(bias, padded + 4, 4, 0);
    ASSERT_MEM_EQ(usual, padded, 4 * sizeof *usual);
    ASSERT_MEM_EQ(&usual[8], &padded[8], 4 * sizeof *usual);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    g = copy_of(m, GRADIENTS);
    ASSERT_CLOSE(g, g, posenc_model_numbers(m), 0);                                     /* no NaN */
    free(g);
    posenc_model_free(m);
    PASS();
}

/* Everything is padding: the head's bias alone can learn. */
TEST batch_of_padding_teaches_the_bias_alone(void)
{
    posenc_model *m = make_model("%s encoding=learned+lrope+relative", kinds[CLASSIFIER].config);
    posenc_error why;
    posenc_float *g, *x;
    double loss = NEVER, bias = 0, rest = 0;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 2);
    memset(d.tokens, 0, sizeof d.tokens);
    d.targets[0] = d.targets[1] = d.targets[2] = 1;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT_LTE(fabs(loss - log(4.0)), 1e-6);
    g = x = copy_of(m, GRADIENTS);
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        double sum = 0;
        for (size_t k = 0; k < t->count; k++) sum += fabs((double)x[k]);
        if (!strcmp(t->name, "head.bias")) bias = sum;
        else                               rest += sum;
        x += t->count;
    }
    ASSERT_LTE(fabs(bias - 1.5), 1e-6);                          /* 3/4 of the target and 3 x 1/4 */
    ASSERT_EQ(0.0, rest);
    free(g);
    posenc_model_free(m);
    PASS();
}

/* Padding first: under a causal mask those queries see no key at all. */
TEST queries_that_see_nothing_get_zeros_and_no_NaN(int e)
{
    posenc_model *m = make_model("%s %s mask_padding=1", kinds[NEXT_TOKEN].config,
                                 encoding_word(e));
    posenc_tensor *out;
    posenc_error why;
    posenc_float *g, *a, map[B * 4 * T * T];
    double loss = NEVER;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 2);
    for (int b = 0; b < B; b++) d.tokens[b * T] = d.tokens[b * T + 1] = 0;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT(loss > 0 && loss < 20);
    g = copy_of(m, GRADIENTS);
    ASSERT_CLOSE(g, g, posenc_model_numbers(m), 0);
    out = posenc_model_find(m, "blocks.1.attn.out");
    a = copy_tensor(m, out->data, B * T * 16);
    for (int r = 0; r < B * T; r++)
        for (int c = 0; c < 16; c++) ASSERT((a[r * 16 + c] == 0) == (r % T < 2));
    ASSERT_EQ(POSENC_OK, posenc_model_attention(m, map, 1, &why));
    for (int r = 0; r < B * 4 * T; r++)
        for (int j = 0; j < T; j++) if (r % T < 2) ASSERT_EQ(0, map[r * T + j]);
    free(g);
    free(a);
    posenc_model_free(m);
    PASS();
}

/* Dropping everything at one place leaves the rest alive. At 1 the two branches are gone. */
TEST dropout_of_1_drops_all_and_stays_finite(const char *place)
{
    posenc_model *m = make_model("%s encoding=learned+relative %s=1", kinds[CLASSIFIER].config,
                                 place);
    posenc_error why;
    posenc_tensor *t;
    posenc_float *g;
    double loss = NEVER, sum = 0;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 2);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERT(loss > 0 && loss < 20);
    g = copy_of(m, GRADIENTS);
    ASSERT_CLOSE(g, g, posenc_model_numbers(m), 0);
    free(g);
    t = posenc_model_find(m, !strcmp(place, "dropout_embedding") ? "token_embedding.weight"
                                                                 : "blocks.0.mlp.up_proj.weight");
    g = copy_tensor(m, t->grad, t->count);
    for (size_t i = 0; i < t->count; i++) sum += fabs((double)g[i]);
    if (strcmp(place, "dropout_attention")) ASSERT_EQ(0.0, sum);
    else                                    ASSERT_GT(sum, 0.0);
    free(g);
    posenc_model_free(m);
    PASS();
}

/* Which of the hidden numbers of each layer were dropped: '1' for zero. The plain values are
   silu's, so that none of them is zero by itself.                                                */
static int dropped_of(posenc_model *m, const posenc_batch *batch, int layer, char mask[B * T * 24])
{
    posenc_float *x;
    posenc_error why;
    double loss;
    if (posenc_model_train(m, batch, &loss, &why) != POSENC_OK) return 0;
    x = activation_of(m, B * T * 24, "blocks.%d.mlp.act", layer);
    if (!x) return 0;
    for (int i = 0; i < B * T * 24; i++) mask[i] = x[i] == 0 ? '1' : '0';
    free(x);
    return 1;
}
static int differences(const char *a, const char *b, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += a[i] != b[i];
    return count;
}

/* A mask hangs on seed, step, place, sample and T: another one for each, else the same. */
TEST dropout_mask_depends_on_what_it_should(void)
{
    enum { N = B * T * 24, HALF = N / 2, MANY = N / 3 };  /* two masks at rate 1/2 differ in half */
    static const char config[] = "activation=silu dropout_hidden=0.5 encoding=learned";
    posenc_model *m = make_model("%s %s seed=1", kinds[NEXT_TOKEN].config, config);
    posenc_model *other = make_model("%s %s seed=2", kinds[NEXT_TOKEN].config, config);
    char first[N], mask[N];
    int dropped = 0;
    posenc_optimizer o;
    posenc_error why;
    data d;
    memset(&o, 0, sizeof o);
    ASSERTm(check_text, m && other);
    fill_data(&d, m, B, T, 5);
    ASSERTm(check_text, dropped_of(m, &d.batch, 0, first));
    for (int i = 0; i < N; i++) dropped += first[i] == '1';
    ASSERT_LT(abs(dropped - HALF), 5 * 11);                                      /* 5 deviations */
    ASSERTm(check_text, dropped_of(m, &d.batch, 0, mask));
    ASSERT_EQm("the same again", 0, differences(first, mask, N));
    ASSERTm(check_text, dropped_of(m, &d.batch, 1, mask));
    ASSERT_GTm("another layer", differences(first, mask, N), MANY);
    ASSERTm(check_text, dropped_of(other, &d.batch, 0, mask));
    ASSERT_GTm("another seed", differences(first, mask, N), MANY);
    ASSERT_GTm("another sample", differences(first, first + T * 24, T * 24), MANY / B);
    ASSERT_GTm("another token", differences(first, first + 24, 24), 24 / 6);
    d.batch.first_sample = 1;
    ASSERTm(check_text, dropped_of(m, &d.batch, 0, mask));
    ASSERT_EQm("sample 1 of the data, wherever it stands", 0,
               differences(first + T * 24, mask, 2 * T * 24));
    d.batch.first_sample = 0;
    ASSERT_EQ(POSENC_OK, posenc_model_update(m, &o, 1e-3, NULL, &why));
    ASSERTm(check_text, dropped_of(m, &d.batch, 0, mask));
    ASSERT_GTm("another step", differences(first, mask, N), MANY);
    ASSERT_EQ(POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    {
        posenc_float *x = activation_of(m, N, "blocks.%d.mlp.act", 0);
        ASSERTm(check_text, x);
        for (int i = 0; i < N; i++) ASSERTm("a plain forward drops nothing", x[i] != 0);
        free(x);
    }
    posenc_model_free(m);
    posenc_model_free(other);
    PASS();
}

/* Each of the five places has masks of its own: with all rates equal no two of them may agree. */
TEST dropout_places_do_not_share_a_mask(void)
{
    enum { C = 16, N = B * T * C };
    posenc_model *m = make_model("%s hidden=16 activation=silu encoding=learned dropout_hidden=0.5"
                                 " dropout_embedding=0.5 dropout_branch=0.5",
                                 kinds[NEXT_TOKEN].config);
    posenc_float *x, *mid, *out, *act;
    char mask[4][N];
    posenc_error why;
    double loss;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 5);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    x = activation_of(m, N, "embedding", 0);
    mid = activation_of(m, N, "blocks.%d.mid", 0);
    act = activation_of(m, N, "blocks.%d.mlp.act", 0);
    out = activation_of(m, N, "blocks.%d.out", 0);
    ASSERT(x && mid && act && out);
    for (int i = 0; i < N; i++) {
        mask[0][i] = x[i] == 0;
        mask[1][i] = mid[i] == x[i];                           /* nothing was added by the branch */
        mask[2][i] = act[i] == 0;
        mask[3][i] = out[i] == mid[i];
    }
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++) ASSERT_GT(differences(mask[a], mask[b], N), N / 3);
    free(x); free(mid); free(act); free(out);
    posenc_model_free(m);
    PASS();
}

/* ---- frozen tensors, models without gradients ------------------------------------------------ */

TEST frozen_tensors_stay_and_the_others_move(int k, int odd)
{
    posenc_model *m = make_model("%s encoding=%s", kinds[k].config, rich_encoding[k]);
    posenc_float *before, *x, *g;
    posenc_error why;
    double loss;
    data d;
    ASSERTm(check_text, m);
    for (int i = 0; i < posenc_model_parameters(m); i++)
        posenc_model_parameter(m, i)->frozen = i % 2 == odd;
    before = x = copy_of(m, WEIGHTS);
    ASSERTm(check_text, train_steps(m, 0, 3));
    fill_data(&d, m, B, T, 77);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *y = copy_tensor(m, t->data, t->count);
        if (t->frozen) ASSERT_MEM_EQm(t->name, x, y, t->count * sizeof *x);
        else if (!is_key_bias(t)) ASSERT_GTm(t->name, max_abs_diff(x, y, t->count), 1e-4);
        g = copy_tensor(m, t->grad, t->count);
        for (size_t i2 = 0; i2 < t->count && t->frozen; i2++) ASSERT_EQm(t->name, 0, g[i2]);
        x += t->count;
        free(y);
        free(g);
    }
    free(before);
    posenc_model_free(m);
    PASS();
}

/* What is not frozen gets the gradient it would get anyway. */
TEST freezing_does_not_change_other_gradients(int k)
{
    posenc_model *a = make_model("%s encoding=%s" EVERYWHERE_DROPPED, kinds[k].config,
                                 rich_encoding[k]);
    posenc_model *b = make_model("%s encoding=%s" EVERYWHERE_DROPPED, kinds[k].config,
                                 rich_encoding[k]);
    posenc_error why;
    double loss;
    data d;
    ASSERTm(check_text, a && b);
    fill_data(&d, a, B, T, 5);
    ASSERT_EQ(POSENC_OK, posenc_model_train(a, &d.batch, &loss, &why));
    for (int i = 0; i < posenc_model_parameters(b); i++)
        posenc_model_parameter(b, i)->frozen = i % 3 != 0;
    ASSERT_EQ(POSENC_OK, posenc_model_train(b, &d.batch, &loss, &why));
    for (int i = 0; i < posenc_model_parameters(b); i++) {
        const posenc_tensor *s = posenc_model_parameter(a, i), *t = posenc_model_parameter(b, i);
        posenc_float *x = copy_tensor(a, s->grad, s->count), *y = copy_tensor(b, t->grad, t->count);
        if (!t->frozen) ASSERT_MEM_EQm(t->name, x, y, t->count * sizeof *x);
        free(x);
        free(y);
    }
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

TEST inference_model_gives_the_same_answers_in_less_room(int k, const char *more)
{
    posenc_float full[LOGITS], lean[LOGITS];
    posenc_model *a = make_model("%s encoding=%s %s", kinds[k].config, rich_encoding[k], more);
    posenc_model *b = make_model("%s encoding=%s %s inference=1", kinds[k].config, rich_encoding[k],
                                 more);
    posenc_bytes training, inference;
    posenc_error why;
    double one = NEVER, other = NEVER;
    data d;
    ASSERTm(check_text, a && b);
    fill_data(&d, a, B, T, 5);
    ASSERTm(check_text, logits_of(a, &d.batch, full) && logits_of(b, &d.batch, lean));
    ASSERT_MEM_EQ(full, lean, sizeof full);
    ASSERT_EQ(POSENC_OK, posenc_model_loss(a, &d.batch, &one, &why));
    ASSERT_EQ(POSENC_OK, posenc_model_loss(b, &d.batch, &other, &why));
    ASSERT_EQ(one, other);
    ASSERT_EQ(POSENC_OK, posenc_model_bytes(&training, posenc_model_config(a), &why));
    ASSERT_EQ(POSENC_OK, posenc_model_bytes(&inference, posenc_model_config(b), &why));
    ASSERT_EQ(training.parameters, inference.parameters);
    ASSERT_EQ(0, inference.gradients);
    ASSERT_EQ(0, inference.moments);
    ASSERT_EQ(2 * training.gradients, training.moments);
    ASSERT_LT(inference.activations, training.activations);
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

TEST inference_model_refuses_to_train(void)
{
    posenc_model *m = make_model("%s inference=1", kinds[CLASSIFIER].config);
    posenc_float map[B * 4 * T * T];
    posenc_optimizer o;
    posenc_error why;
    double loss = NEVER;
    data d;
    ASSERTm(check_text, m);
    memset(&o, 0, sizeof o);
    fill_data(&d, m, B, T, 5);
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, "inference", (char *)0));
    why.text[0] = 0;
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_model_update(m, &o, 1e-3, NULL, &why));
    ASSERTm(check_text, mentions(why.text, "inference", (char *)0));
    ASSERT_EQ(POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    ASSERT_NEQ(POSENC_OK, posenc_model_attention(m, map, 0, &why));
    ASSERTm(check_text, mentions(why.text, "inference", (char *)0));
    ASSERT(posenc_model_parameter(m, 0)->grad == NULL
           && posenc_model_parameter(m, 0)->moment1 == NULL);
    posenc_model_free(m);
    PASS();
}

/* ---- not a number ---------------------------------------------------------------------------- */

static void poison(posenc_model *m, posenc_float *at, double with)
{
    posenc_float x = (posenc_float)with;
    posenc_model_set(m, at, &x, 1);
}

TEST NaN_in_a_weight_stops_with_step_and_tensor(const char *tensor, double with)
{
    posenc_model *m = make_model("%s encoding=learned+relative", kinds[CLASSIFIER].config);
    posenc_model *healthy = make_model("%s encoding=learned+relative", kinds[CLASSIFIER].config);
    posenc_tensor *t;
    posenc_float kept, *g;
    posenc_error why;
    double loss = NEVER;
    data d;
    ASSERTm(check_text, m && healthy && train_steps(m, 0, 3) && train_steps(healthy, 0, 3));
    t = posenc_model_find(m, tensor);
    ASSERTm(tensor, t);
    posenc_model_get(m, &kept, t->data + t->count / 2, 1);
    fill_data(&d, m, B, T, 5);
    for (int v = 0; v < 10; v++) d.tokens[v] = v % 11;            /* all of the embedding is used */
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));     /* something to clear */
    poison(m, t->data + t->count / 2, with);
    ASSERT_EQ(POSENC_NOT_FINITE, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, "step 3", tensor, (char *)0));
    ASSERT(!(loss - loss == 0));
    g = copy_of(m, GRADIENTS);
    for (size_t i = 0; i < posenc_model_numbers(m); i++) ASSERT_EQ(0, g[i]);
    posenc_model_set(m, t->data + t->count / 2, &kept, 1);           /* mended, it simply goes on */
    ASSERTm(check_text, same_state(m, healthy));
    ASSERTm(check_text, train_steps(m, 3, 2) && train_steps(healthy, 3, 2));
    ASSERTm(check_text, same_state(m, healthy));
    free(g);
    posenc_model_free(m);
    posenc_model_free(healthy);
    PASS();
}

/* All weights are numbers, but a product of them is not: the activation where it began is named. */
TEST overflow_is_traced_to_the_first_activation(void)
{
    posenc_model *m = make_model("%s encoding=learned", kinds[NEXT_TOKEN].config);
    posenc_tensor *t;
    posenc_error why;
    posenc_float x[16];
    double loss = NEVER;
    data d;
    ASSERTm(check_text, m);
    t = posenc_model_find(m, "blocks.1.mlp.up_proj.weight");
    for (int i = 0; i < 16; i++) x[i] = 3e38f;
    posenc_model_set(m, t->data + 16 * 2, x, 16);
    t = posenc_model_find(m, "blocks.1.norm2.weight");
    for (int i = 0; i < 16; i++) x[i] = 1e6f;
    posenc_model_set(m, t->data, x, 16);
    fill_data(&d, m, B, T, 5);
    ASSERT_EQ(POSENC_NOT_FINITE, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, "step 0", "blocks.1.mlp.up", (char *)0));
    posenc_model_free(m);
    PASS();
}

TEST bad_gradient_leaves_everything_as_it_was(const char *tensor, double with)
{
    posenc_model *m = make_model("%s encoding=rope", kinds[MODERN].config);
    posenc_model *healthy = make_model("%s encoding=rope", kinds[MODERN].config);
    posenc_optimizer o;
    posenc_tensor *t;
    posenc_float *g;
    posenc_error why;
    double loss = NEVER, norm = NEVER;
    data d;
    ASSERTm(check_text, m && healthy && train_steps(m, 0, 2) && train_steps(healthy, 0, 2));
    memset(&o, 0, sizeof o);
    fill_data(&d, m, B, T, 5);
    ASSERT_EQ(POSENC_OK, posenc_model_train(m, &d.batch, &loss, &why));
    t = posenc_model_find(m, tensor);
    ASSERTm(tensor, t);
    poison(m, t->grad + t->count - 1, with);
    ASSERT_EQ(POSENC_NOT_FINITE, posenc_model_update(m, &o, 1e-2, &norm, &why));
    ASSERTm(check_text, mentions(why.text, "step 2", tensor, (char *)0));
    ASSERT(!(norm - norm == 0));
    ASSERTm(check_text, same_state(m, healthy));
    g = copy_of(m, GRADIENTS);
    for (size_t i = 0; i < posenc_model_numbers(m); i++) ASSERT_EQ(0, g[i]);
    free(g);
    posenc_model_free(m);
    posenc_model_free(healthy);
    PASS();
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* one thing wrong with a batch that is otherwise fine */
typedef struct wrong_batch {
    const char *name;
    void (*spoil)(data *d);
    const char *config, *said1, *said2;
} wrong_batch;
static void token_below(data *d)      { d->tokens[T + 3] = -1; }
static void token_above(data *d)      { d->tokens[T + 3] = 11; }
static void target_above(data *d)     { d->targets[2] = 11; }
static void target_below(data *d)     { d->targets[2] = -7; }
static void class_above(data *d)      { d->targets[2] = 4; }
static void too_many_rows(data *d)    { d->batch.B = 4; }
static void no_rows(data *d)          { d->batch.B = 0; }
static void negative_rows(data *d)    { d->batch.B = -2; }
static void too_many_tokens(data *d)  { d->batch.T = 17; }
static void no_time(data *d)          { d->batch.T = 0; }
static void no_tokens(data *d)        { d->batch.tokens = NULL; }
static void no_targets(data *d)       { d->batch.targets = NULL; }
static void put(data *d, double p)
{
    for (int r = 0; r < B * T; r++) d->positions[r] = r % T;
    d->positions[T + 2] = p;
    d->batch.positions = d->positions;
}
static void position_nan(data *d)      { put(d, NAN); }
static void position_infinite(data *d) { put(d, HUGE_VAL); }
static void position_16(data *d)       { put(d, 16); }
static void position_negative(data *d) { put(d, -1); }
static void position_between(data *d)  { put(d, 2.5); }
static void position_huge(data *d)     { put(d, 3e9); }
static void nothing(data *d)           { (void)d; }

static const wrong_batch wrong_batches[] = {
    { "token_below_0",            token_below,       "", "-1", "11" },
    { "token_above_the_vocabulary", token_above,     "", "token 11", "11" },
    { "target_above_the_vocabulary", target_above,   "", "11", "10" },
    { "target_below_0",           target_below,      "", "-7", "10" },
    { "target_above_the_classes", class_above,       "classes=4", "4", "3" },
    { "too_many_rows",            too_many_rows,     "", "4 x 7", "3 x 16" },
    { "no_rows",                  no_rows,           "", "0 x 7", "3 x 16" },
    { "negative_rows",            negative_rows,     "", "-2 x 7", "3 x 16" },
    { "too_many_tokens",          too_many_tokens,   "", "3 x 17", "3 x 16" },
    { "no_time",                  no_time,           "", "3 x 0", "3 x 16" },
    { "no_tokens",                no_tokens,         "", "tokens", "no" },
    { "no_targets",               no_targets,        "", "targets", "no" },
    { "position_NaN",             position_nan,      "encoding=rope", "rope", "nan" },
    { "position_infinite",        position_infinite, "encoding=sinusoidal", "sinusoidal", "inf" },
    { "position_NaN_for_none",    position_nan,      "", "place 2", "row 1" },
    { "position_past_the_table",  position_16,       "encoding=learned", "position 16", "16 rows" },
    { "position_before_the_table", position_negative, "encoding=sininit", "-1", "16 rows" },
    { "position_between_two_rows", position_between, "encoding=learned", "2.5", "whole" },
    { "position_between_two_distances", position_between, "encoding=relative", "2.5", "whole" },
    { "position_too_far_for_alibi", position_16,     "encoding=alibi", "0 and 16", "more than 15" },
    { "position_huge",            position_huge,     "encoding=t5", "t5", "3e+09" },
    { "learned_table_too_short",  nothing,           "encoding=learned:rows=5", "7 tokens",
      "5 rows" },
    { "sininit_table_too_short",  nothing,           "encoding=rope+sininit:rows=6", "7 tokens",
      "6 rows" }
};

TEST bad_input_is_refused_with_its_numbers(const wrong_batch *w)
{
    posenc_model *m = make_model("%s %s", kinds[NEXT_TOKEN].config, w->config);
    posenc_float *before, *after, logits[11];
    posenc_batch good;
    posenc_error why;
    double loss = NEVER;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 5);
    good = d.batch;
    good.T = 4;                                   /* short enough for every table here            */
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_train(m, &good, &loss, &why));
    loss = NEVER;
    w->spoil(&d);
    before = copy_of(m, GRADIENTS);
    why.text[0] = 0;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_train(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, w->said1, w->said2, (char *)0));
    why.text[0] = 0;
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_loss(m, &d.batch, &loss, &why));
    ASSERTm(check_text, mentions(why.text, w->said1, w->said2, (char *)0));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_loss(m, &d.batch, &loss, NULL));
    ASSERT_EQ(NEVER, loss);
    ASSERT_EQm("logits of a batch that was refused", POSENC_BAD_INPUT,
               posenc_model_logits(m, logits, 0, 1, &why));
    after = copy_of(m, GRADIENTS);
    ASSERT_MEM_EQ(before, after, posenc_model_numbers(m) * sizeof *before);
    free(before);
    free(after);
    posenc_model_free(m);
    PASS();
}

/* Targets are not needed to go forward, and padding may be anything a target may not be. */
TEST forward_needs_no_targets(void)
{
    posenc_float logits[LOGITS];
    posenc_model *m = make_model("%s", kinds[NEXT_TOKEN].config);
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 5);
    d.batch.targets = NULL;
    ASSERTm(check_text, logits_of(m, &d.batch, logits));
    posenc_model_free(m);
    PASS();
}

static const struct wrong_config { const char *name, *more, *said1, *said2; } wrong_configs[] = {
    { "heads_do_not_divide",      "heads=5", "5", "16" },
    { "more_heads_than_channels", "heads=32", "32", "16" },
    { "kv_heads_do_not_divide",   "kv_heads=3", "3", "4" },
    { "parallel_without_residual", "parallel=1 no_residual=1", "parallel", "no_residual" },
    { "a_norm_that_is_none",      "norm=none embedding_norm=1", "norm", "none" },
    { "more_kv_heads_than_heads", "kv_heads=8", "8", "4" },
    { "unknown_encoding",         "encoding=rpoe", "rpoe", "rope" },
    { "empty_encoding_after_plus", "encoding=rope+", "''", "alibi" },
    { "unknown_key",              "encoding=rope:bass=3", "bass", "base" },
    { "key_without_value",        "encoding=rope:base", "base", "key=value" },
    { "value_out_of_range",       "encoding=rope:base=0.5", "0.5", "1e+18" },
    { "two_rotations",            "encoding=rope+lrope", "rope", "lrope" },
    { "twice_the_same",           "encoding=alibi+learned+alibi", "alibi", "twice" },
    { "twice_the_same_by_alias",  "encoding=mlp+continuous", "continuous", "twice" },
    { "nine_encodings",           "encoding=none+none+none+none+none+none+none+none+none", "8",
      "encodings" },
    { "odd_head_width",           "encoding=rope channels=20", "5", "odd" },
    { "odd_rotated_width",        "encoding=lrope:dim=3", "3", "odd" },
    { "rotation_wider_than_a_head", "encoding=rope:dim=6", "6", "4" },
    { "t5_with_2_buckets_both_ways", "encoding=t5:buckets=2 causal=0", "2", "4" },
    { "t5_with_odd_buckets",      "encoding=t5:buckets=7,bidirectional=1", "7", "even" },
    { "t5_with_a_tiny_distance",  "encoding=t5:buckets=16,distance=8", "8", "distance" },
    { "tied_classifier",          "classes=3 tied_head=1", "3", "tied_head" },
    { "padding_outside_the_vocabulary", "mask_padding=1 padding_token=11", "11", "padding_token" },
    { "no_vocabulary",            "vocab=0", "vocab", "0" },
    { "no_context",               "context=0", "context", "0" },
    { "dropout_above_1",          "dropout_hidden=1.5", "dropout_hidden", "1.5" },
    { "dropout_below_0",          "dropout_branch=-0.1", "dropout_branch", "-0.1" },
    { "dropout_NaN",              "dropout_branch=nan", "dropout_branch", "nan" },
    { "negative_layers",          "layers=-1", "layers", "-1" },
    { "fractional_layers",        "layers=1.5", "layers", "1.5" },
    { "unknown_activation",       "activation=sigmoid", "activation", "sigmoid" },
    { "unknown_config_key",       "colour=red", "colour", "unknown" },
    { "config_key_without_value", "causal", "causal", "value" },
    { "negative_seed",            "seed=-1", "seed", "-1" },
    { "more_rows_than_can_be_counted", "batch=1048576 context=16777216", "1048576", "16777216" },
    { "larger_than_memory_has_addresses",
      "layers=4096 channels=131072 hidden=1048576 batch=1024 context=65536 heads=1", "address",
      "model" }
};

TEST bad_config_is_refused_with_its_numbers(const struct wrong_config *w)
{
    char text[512], spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_bytes bytes;
    posenc_error why;
    posenc_model *m = NULL;
    posenc_status status;
    memset(&c, 0, sizeof c);
    memset(&bytes, 0xff, sizeof bytes);
    why.text[0] = 0;
    snprintf(text, sizeof text, "%s %s", kinds[NEXT_TOKEN].config, w->more);
    status = posenc_config_parse(&c, spec, text, &why);
    if (status == POSENC_OK) {
        int not_a_model;
        m = (posenc_model *)(void *)&not_a_model;
        status = posenc_model_create(&m, &c, &why);
        ASSERT_EQm("bytes and create disagree", status, posenc_model_bytes(&bytes, &c, NULL));
        ASSERT_EQ(0, bytes.total);
        ASSERT(m == NULL);
    }
    ASSERT_EQm(why.text, POSENC_BAD_CONFIG, status);
    ASSERTm(check_text, mentions(why.text, w->said1, w->said2, (char *)0));
    PASS();
}

TEST messages_hold_no_control_characters(void)
{
    posenc_config c;
    posenc_error why;
    char spec[POSENC_SPEC_TEXT];
    memset(&c, 0, sizeof c);
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_config_parse(&c, spec, "vo\033[31mcab\177=4", &why));
    ASSERTm(why.text, strstr(why.text, "vo?[31mcab?"));
    PASS();
}

/* The same for numbers that only a struct can hold: the parser would have caught them. */
TEST bad_struct_is_refused_with_its_numbers(void)
{
#define TRY(field, value, said) do {                                                               \
        posenc_config c; posenc_error why; posenc_model *m = NULL;                                 \
        memset(&c, 0, sizeof c); c.vocab = 11; c.context = 16; why.text[0] = 0;                    \
        c.field = (value);                                                                         \
        ASSERT_EQm(#field, POSENC_BAD_CONFIG, posenc_model_create(&m, &c, &why));                  \
        ASSERT(m == NULL);                                                                         \
        ASSERTm(check_text, mentions(why.text, #field, said, (char *)0));                          \
    } while (0)
    TRY(vocab, -3, "-3");               TRY(context, -1, "-1");     TRY(classes, -2, "-2");
    TRY(batch, -1, "-1");               TRY(layers, -4, "-4");      TRY(channels, -64, "-64");
    TRY(heads, -4, "-4");               TRY(kv_heads, -1, "-1");    TRY(window, -1, "-1");
    TRY(hidden, INT_MIN, "-2147483648");                            TRY(causal, 2, "2");
    TRY(norm, 3, "3");                  TRY(norm_place, -1, "-1");  TRY(activation, 7, "7");
    TRY(qk_norm, 3, "3");               TRY(norm_eps, NAN, "nan");  TRY(norm_eps, -1, "-1");
    TRY(head_channels, -8, "-8");       TRY(token_types, -1, "-1"); TRY(parallel, 2, "2");
    TRY(attention_scale, HUGE_VAL, "inf");                          TRY(embedding_init, -1, "-1");
    TRY(dropout_embedding, 2, "2");     TRY(dropout_attention, -0.5, "-0.5");
    TRY(dropout_branch, NAN, "nan");    TRY(threads, -2, "-2");     TRY(inference, 7, "7");
#undef TRY
    PASS();
}

/* An update changes the head under the hidden states of the forward before it. */
TEST logits_are_refused_between_an_update_and_the_next_forward(void)
{
    posenc_model *m = make_model("%s", kinds[NEXT_TOKEN].config);
    posenc_float room[16];
    posenc_error why;
    ASSERTm(check_text, m && train_steps(m, 0, 1));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_logits(m, room, 0, 1, &why));
    ASSERTm(check_text, mentions(why.text, "after a forward", (char *)0));
    posenc_model_free(m);
    PASS();
}

TEST logits_and_maps_are_refused_before_a_forward_and_outside(void)
{
    posenc_model *m = make_model("%s", kinds[NEXT_TOKEN].config);
    posenc_float room[B * 4 * T * T];
    posenc_error why;
    data d;
    ASSERTm(check_text, m);
    fill_data(&d, m, B, T, 5);
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_logits(m, room, 0, 1, &why));
    ASSERTm(check_text, mentions(why.text, "after a forward", (char *)0));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(m, room, 0, &why));
    ASSERTm(check_text, mentions(why.text, "after a forward", (char *)0));
    ASSERT_EQ(POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    ASSERT_EQ(POSENC_OK, posenc_model_logits(m, room, B * T - 1, 1, &why));
    ASSERT_EQ(POSENC_OK, posenc_model_logits(m, room, B * T, 0, &why));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_logits(m, room, B * T, 1, &why));
    ASSERTm(check_text, mentions(why.text, "21", (char *)0));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_logits(m, room, -1, 1, &why));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_logits(m, room, 0, -1, &why));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_logits(m, room, 5, INT_MAX, &why));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(m, room, 2, &why));
    ASSERTm(check_text, mentions(why.text, "layer 2", (char *)0));
    ASSERT_EQ(POSENC_BAD_INPUT, posenc_model_attention(m, room, -1, &why));
    posenc_model_free(m);
    PASS();
}

/* ---- looking inside -------------------------------------------------------------------------- */

/* The names are a contract: checkpoints and other programs know them. */
TEST every_tensor_is_reached_by_its_name(int k, const char *names)
{
    posenc_model *m = make_model("%s encoding=%s", kinds[k].config, rich_encoding[k]);
    size_t numbers = 0;
    int named = 0;
    ASSERTm(check_text, m);
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        posenc_tensor *t = posenc_model_parameter(m, i);
        ASSERT_EQ(t, posenc_model_find(m, t->name));             /* so no other has the same name */
        ASSERT(t->data && t->grad && t->moment1 && t->moment2);
        ASSERT_EQ(t->count, (size_t)t->shape[0] * (t->dims == 2 ? t->shape[1] : 1));
        numbers += t->count;
    }
    for (int i = 0; i < posenc_model_activations(m); i++) {
        posenc_tensor *t = posenc_model_activation(m, i);
        ASSERT_EQ(t, posenc_model_find(m, t->name));
        ASSERT(t->data && !t->grad && !t->moment1 && !t->moment2);
    }
    ASSERT_EQ(numbers, posenc_model_numbers(m));
    ASSERT(posenc_model_parameter(m, -1) == NULL);
    ASSERT(posenc_model_parameter(m, posenc_model_parameters(m)) == NULL);
    ASSERT(posenc_model_activation(m, -1) == NULL);
    ASSERT(posenc_model_activation(m, posenc_model_activations(m)) == NULL);
    ASSERT(posenc_model_find(m, "nobody") == NULL);
    while (*names) {                                 /* names with a dot first are in both blocks */
        char name[2][80];
        int n = (int)strcspn(names, " "), blocks = *names == '.' ? 2 : 1;
        for (int b = 0; b < blocks; b++) {
            snprintf(name[b], sizeof *name, *names == '.' ? "blocks.%d%.*s" : "%.0d%.*s", b, n,
                     names);
            ASSERTm(name[b], posenc_model_find(m, name[b]));
            named++;
        }
        names += n;
        names += strspn(names, " ");
    }
    ASSERT_EQm("a tensor that this test does not know", posenc_model_parameters(m), named);
    posenc_model_free(m);
    PASS();
}
#define BLOCK_WITH_BIASES                                                                          \
    ".norm1.weight .norm1.bias .norm2.weight .norm2.bias .attn.q_proj.weight .attn.q_proj.bias "   \
    ".attn.k_proj.weight .attn.k_proj.bias .attn.v_proj.weight .attn.v_proj.bias "                 \
    ".attn.out_proj.weight .attn.out_proj.bias .mlp.up_proj.weight .mlp.up_proj.bias "             \
    ".mlp.down_proj.weight .mlp.down_proj.bias "
static const char *const all_names[KINDS] = {
    "token_embedding.weight norm.weight norm.bias head.weight head.bias pe.learned.weight "
    "pe.relative.weight " BLOCK_WITH_BIASES,
    "token_embedding.weight norm.weight norm.bias lm_head.weight pe.continuous.w1 pe.continuous.b1 "
    "pe.continuous.w2 pe.continuous.b2 pe.continuous.w3 pe.continuous.b3 pe.t5.weight "
    BLOCK_WITH_BIASES,
    "token_embedding.weight norm.weight .norm1.weight .norm2.weight .attn.q_proj.weight "
    ".attn.k_proj.weight .attn.v_proj.weight .attn.q_norm.weight .attn.k_norm.weight "
    ".attn.out_proj.weight .mlp.gate_proj.weight .mlp.up_proj.weight .mlp.down_proj.weight "
    ".pe.lrope.scale"
};

/* The residual stream adds up, and the head reads its end. */
TEST activations_are_what_their_names_say(void)
{
    enum { R = B * T, C = 16, N = R * C };
    posenc_model *m = make_model("%s encoding=sinusoidal", kinds[CLASSIFIER].config);
    posenc_float waves[T * C], table[11 * C], logits[LOGITS], expected[N], w[C * C], b[C],
        head[4 * C], bias[4];
    posenc_float *embedding, *out, *mid, *norm, *pooled, *last, mean[R], rstd[R];
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 2));
    fill_data(&d, m, B, T, 5);
    ASSERTm(check_text, logits_of(m, &d.batch, logits));

    ASSERTm(check_text, (embedding = activation_of(m, N, "embedding", 0)) != NULL);
    posenc_sinusoidal(waves, NULL, T, C, 10000);
    posenc_model_get(m, table, posenc_model_find(m, "token_embedding.weight")->data, 11 * C);
    for (int i = 0; i < N; i++)
        expected[i] = table[d.tokens[i / C] * C + i % C] + waves[i % (T * C)];
    ASSERT_CLOSE(expected, embedding, N, 1e-6);

    ASSERTm(check_text, (out = activation_of(m, N, "blocks.%d.attn.out", 0)) != NULL);
    ASSERTm(check_text, (mid = activation_of(m, N, "blocks.%d.mid", 0)) != NULL);
    posenc_model_get(m, w, posenc_model_find(m, "blocks.0.attn.out_proj.weight")->data, C * C);
    posenc_model_get(m, b, posenc_model_find(m, "blocks.0.attn.out_proj.bias")->data, C);
    posenc_linear_forward(expected, out, w, b, R, C, C);
    for (int i = 0; i < N; i++) expected[i] += embedding[i];
    ASSERT_CLOSE(expected, mid, N, 1e-5);

    ASSERTm(check_text, (last = activation_of(m, N, "blocks.%d.out", 1)) != NULL);
    ASSERTm(check_text, (norm = activation_of(m, N, "norm", 0)) != NULL);
    posenc_model_get(m, w, posenc_model_find(m, "norm.weight")->data, C);
    posenc_model_get(m, b, posenc_model_find(m, "norm.bias")->data, C);
    posenc_layernorm_forward(expected, mean, rstd, last, w, b, 1e-5, R, C);
    ASSERT_CLOSE(expected, norm, N, 1e-5);

    ASSERTm(check_text, (pooled = activation_of(m, B * C, "pooled", 0)) != NULL);
    for (int i = 0; i < B * C; i++) {
        int kept = 0;
        expected[i] = 0;
        for (int t = 0; t < T; t++) {
            if (!d.tokens[i / C * T + t]) continue;
            expected[i] += norm[(i / C * T + t) * C + i % C];
            kept++;
        }
        expected[i] /= (posenc_float)kept;
    }
    ASSERT_CLOSE(expected, pooled, B * C, 1e-5);
    posenc_model_get(m, head, posenc_model_find(m, "head.weight")->data, 4 * C);
    posenc_model_get(m, bias, posenc_model_find(m, "head.bias")->data, 4);
    posenc_linear_forward(expected, pooled, head, bias, B, C, 4);
    ASSERT_CLOSE(expected, logits, B * 4, 1e-5);
    free(embedding); free(out); free(mid); free(last); free(norm); free(pooled);
    posenc_model_free(m);
    PASS();
}

/* What a block leaves at its two ends, with and without what a deep stack is normally held up by. */
TEST branches_are_joined_as_the_config_says(const char *more, int residual)
{
    enum { R = B * T, C = 16, F = 24, N = R * C };
    posenc_model *m = make_model("%s encoding=learned norm=none %s", kinds[NEXT_TOKEN].config, more);
    posenc_float logits[LOGITS], expected[N], w[C * F], b[C];
    posenc_float *embedding, *seen, *out, *mid, *act, *last;
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 2));
    ASSERT(posenc_model_find(m, "norm.weight") == NULL && posenc_model_find(m, "blocks.0.norm1.weight") == NULL);
    fill_data(&d, m, B, T, 5);
    ASSERTm(check_text, logits_of(m, &d.batch, logits));
    ASSERTm(check_text, (embedding = activation_of(m, N, "embedding", 0)) != NULL);
    ASSERTm(check_text, (seen = activation_of(m, N, "blocks.%d.norm1", 0)) != NULL);
    ASSERT_MEM_EQ(embedding, seen, N * sizeof *seen);
    ASSERTm(check_text, (out = activation_of(m, N, "blocks.%d.attn.out", 0)) != NULL);
    ASSERTm(check_text, (mid = activation_of(m, N, "blocks.%d.mid", 0)) != NULL);
    posenc_model_get(m, w, posenc_model_find(m, "blocks.0.attn.out_proj.weight")->data, C * C);
    posenc_model_get(m, b, posenc_model_find(m, "blocks.0.attn.out_proj.bias")->data, C);
    posenc_linear_forward(expected, out, w, b, R, C, C);
    for (int i = 0; i < N && residual; i++) expected[i] += embedding[i];
    ASSERT_CLOSE(expected, mid, N, 1e-5);
    ASSERTm(check_text, (act = activation_of(m, R * F, "blocks.%d.mlp.act", 0)) != NULL);
    ASSERTm(check_text, (last = activation_of(m, N, "blocks.%d.out", 0)) != NULL);
    posenc_model_get(m, w, posenc_model_find(m, "blocks.0.mlp.down_proj.weight")->data, C * F);
    posenc_model_get(m, b, posenc_model_find(m, "blocks.0.mlp.down_proj.bias")->data, C);
    posenc_linear_forward(expected, act, w, b, R, F, C);
    for (int i = 0; i < N && residual; i++) expected[i] += mid[i];
    ASSERT_CLOSE(expected, last, N, 1e-5);
    free(embedding); free(seen); free(out); free(mid); free(act); free(last);
    posenc_model_free(m);
    PASS();
}

TEST loss_is_the_cross_entropy_of_the_logits(const struct kind *k)
{
    posenc_float logits[LOGITS];
    posenc_model *m = make_model("%s encoding=rope", k->config);
    posenc_error why;
    double loss = NEVER, sum = 0;
    int rows, V, counted = 0;
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 2));
    fill_data(&d, m, B, T, 5);
    d.targets[1] = POSENC_IGNORE;
    ASSERTm(check_text, logits_of(m, &d.batch, logits));
    rows = posenc_model_config(m)->classes ? B : B * T;
    V = posenc_model_config(m)->classes ? 4 : 11;
    for (int r = 0; r < rows; r++) {
        double total = 0;
        if (d.targets[r] == POSENC_IGNORE) continue;
        for (int v = 0; v < V; v++) total += exp((double)logits[r * V + v]);
        sum += log(total) - logits[r * V + d.targets[r]];
        counted++;
    }
    ASSERT_EQ(POSENC_OK, posenc_model_loss(m, &d.batch, &loss, &why));
    ASSERT_LTE(fabs(loss - sum / counted), 1e-5);
    d.batch.divisor = 100;
    ASSERT_EQ(POSENC_OK, posenc_model_loss(m, &d.batch, &loss, &why));
    ASSERT_LTE(fabs(loss - sum / 100), 1e-5);
    posenc_model_free(m);
    PASS();
}

/* A vocabulary so large that the head works in pieces of 32 rows. */
TEST large_vocabulary_is_taken_in_pieces(void)
{
    enum { V = 40000, ROWS = 48 };
    posenc_float *all = (posenc_float *)malloc(ROWS * V * sizeof *all);
    posenc_float *one = (posenc_float *)malloc(V * sizeof *one);
    posenc_model *m = make_model("vocab=%d context=16 batch=3 layers=1 channels=4 heads=1", V);
    posenc_error why;
    double loss = NEVER, sum = 0;
    data d;
    ASSERTm(check_text, m && all && one);
    fill_data(&d, m, 3, 16, 5);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_loss(m, &d.batch, &loss, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(m, all, 0, ROWS, &why));
    for (int r = 0; r < ROWS; r++) {
        double total = 0;
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_logits(m, one, r, 1, &why));
        ASSERT_CLOSE(one, all + (size_t)r * V, V, 1e-6);
        if (d.targets[r] == POSENC_IGNORE) continue;
        for (int v = 0; v < V; v++) total += exp((double)one[v]);
        sum += log(total) - one[d.targets[r]];
    }
    ASSERT_LTE(fabs(loss - sum / 39), 1e-4);                       /* 9 of 48 targets are ignored */
    free(all);
    free(one);
    posenc_model_free(m);
    PASS();
}

/* may query i of row b look at key j? straight from the definition of each mask */
static int may_see(const posenc_config *c, const data *d, int b, int i, int j)
{
    if (c->causal && j > i) return 0;
    if (c->window && abs(i - j) >= c->window) return 0;
    if (c->mask_padding && d->tokens[b * T + j] == c->padding_token) return 0;
    return !d->batch.segments || d->segments[b * T + i] == d->segments[b * T + j];
}

/* Rows sum to one, masked keys get nothing, and map times values is what the model computed. */
TEST attention_maps_are_those_the_model_used(int k, const char *more, int segmented)
{
    enum { H = 4, D = 4, C = H * D };
    posenc_model *m = make_model("%s %s", kinds[k].config, more);
    const posenc_config *c;
    posenc_float map[B * H * T * T];
    posenc_error why;
    data d;
    ASSERTm(check_text, m && train_steps(m, 0, 4));
    c = posenc_model_config(m);
    fill_data(&d, m, B, T, 5);
    if (segmented) add_segments(&d);
    if (segmented) add_positions(&d);
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    for (int layer = 0; layer < c->layers; layer++) {
        int K = c->kv_heads * D;
        posenc_float *out = activation_of(m, B * T * C, "blocks.%d.attn.out", layer);
        posenc_float *v = activation_of(m, (size_t)(B * T * K), "blocks.%d.attn.v", layer);
        ASSERTm(check_text, out && v);
        ASSERT_EQm(why.text, POSENC_OK, posenc_model_attention(m, map, layer, &why));
        for (int r = 0; r < B * H * T; r++) {
            int b = r / (H * T), h = r / T % H, i = r % T, visible = 0;
            double sum = 0, mix[D] = { 0, 0, 0, 0 };
            for (int j = 0; j < T; j++) {
                double p = map[r * T + j];
                visible += may_see(c, &d, b, i, j);
                if (!may_see(c, &d, b, i, j)) ASSERT_EQ(0.0, p);
                ASSERT(p >= 0 && p <= 1);
                sum += p;
                for (int x = 0; x < D; x++)
                    mix[x] += p * v[(b * T + j) * K + h * c->kv_heads / H * D + x];
            }
            ASSERT_LTE(fabs(sum - (visible > 0)), 1e-5);
            for (int x = 0; x < D; x++)
                ASSERT_LTE(fabs(mix[x] - out[(b * T + i) * C + h * D + x]), 1e-5);
        }
        free(out);
        free(v);
    }
    posenc_model_free(m);
    PASS();
}

/* A scale of s is queries s sqrt(D) times as long. */
TEST attention_scale_is_used(void)
{
    posenc_float scaled[LOGITS], longer[LOGITS];
    posenc_model *a = make_model("%s encoding=rope attention_scale=1.25", kinds[NEXT_TOKEN].config);
    posenc_model *b = make_model("%s encoding=rope", kinds[NEXT_TOKEN].config);
    data d;
    ASSERTm(check_text, a && b);
    fill_data(&d, a, B, T, 5);
    for (int layer = 0; layer < 2; layer++) {
        char name[40];
        posenc_tensor *t;
        posenc_float *x;
        snprintf(name, sizeof name, "blocks.%d.attn.q_proj.weight", layer);
        t = posenc_model_find(b, name);
        x = copy_tensor(b, t->data, t->count);
        for (size_t i = 0; i < t->count; i++) x[i] *= 2.5f;                       /* 1.25 sqrt(4) */
        posenc_model_set(b, t->data, x, t->count);
        free(x);
    }
    ASSERTm(check_text, logits_of(a, &d.batch, scaled) && logits_of(b, &d.batch, longer));
    ASSERT_CLOSE(scaled, longer, LOGITS, 1e-5);
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

/* No switch is forgotten on the way. (Biases start at zero, so no_bias is not here.) */
TEST switch_changes_the_output(const char *base, const char *more)
{
    posenc_float usual[LOGITS], other[LOGITS];
    posenc_model *a = make_model("%s encoding=rope %s", kinds[NEXT_TOKEN].config, base);
    posenc_model *b = make_model("%s encoding=rope %s %s", kinds[NEXT_TOKEN].config, base, more);
    data d;
    ASSERTm(check_text, a && b);
    fill_data(&d, a, B, T, 5);
    d.tokens[2] = d.tokens[T + 1] = 0;                                /* something to mask */
    ASSERTm(check_text, logits_of(a, &d.batch, usual) && logits_of(b, &d.batch, other));
    ASSERT_LTE(max_abs_diff(other, other, LOGITS), 0.0);
    ASSERT(memcmp(usual, other, sizeof usual));
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

/* Positions may lie further apart than the context is long. A table that shouts at one distance
   alone makes every query look at the key which stands at it, and from the clip on all distances
   are one.                                                                                       */
TEST learned_biases_reach_beyond_the_context(int spacing, int row, int nearest)
{
    enum { H = 4 };
    posenc_model *m = make_model("%s encoding=relative", kinds[NEXT_TOKEN].config);
    posenc_float map[H * T * T], loud[H] = { 60, 60, 60, 60 }, *zeros;
    posenc_tensor *t;
    posenc_error why;
    data d;
    ASSERTm(check_text, m);
    t = posenc_model_find(m, "pe.relative.weight");
    zeros = (posenc_float *)calloc(t->count, sizeof *zeros);
    posenc_model_set(m, t->data, zeros, t->count);
    posenc_model_set(m, t->data + (size_t)row * H, loud, H);
    free(zeros);
    fill_data(&d, m, 1, T, 5);
    for (int i = 0; i < T; i++) d.positions[i] = 1000 + spacing * i;
    d.batch.positions = d.positions;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_forward(m, &d.batch, &why));
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_attention(m, map, 0, &why));
    for (int r = 0; r < H * T; r++) {
        int i = r % T;
        double heard = 0;
        for (int j = 0; j < T; j++)
            if (row == 0 ? i - j >= nearest : i - j == nearest) heard += map[r * T + j];
        if (i >= nearest) ASSERT_GT(heard, 0.999);
    }
    posenc_model_free(m);
    PASS();
}

/* ---- configurations as text ------------------------------------------------------------------ */

TEST config_goes_through_text_and_back(const char *text)
{
    posenc_config a, b;
    char spec_a[POSENC_SPEC_TEXT], spec_b[POSENC_SPEC_TEXT], first[2048], second[2048], tiny[10];
    posenc_error why;
    size_t n;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    ASSERT_EQm(why.text, POSENC_OK, posenc_config_parse(&a, spec_a, text, &why));
    n = posenc_config_print(first, sizeof first, &a);
    ASSERT_EQ(strlen(first), n);
    ASSERT_EQm(why.text, POSENC_OK, posenc_config_parse(&b, spec_b, first, &why));
    ASSERT_EQ(n, posenc_config_print(second, sizeof second, &b));
    ASSERT_STR_EQ(first, second);
    if (a.encoding) ASSERT_STR_EQ(a.encoding, b.encoding);
    a.encoding = b.encoding = NULL;
    ASSERT_MEM_EQ(&a, &b, sizeof a);                           /* every field, and none forgotten */
    b.encoding = spec_b;
    ASSERT_EQ(n, posenc_config_print(NULL, 0, &b));
    ASSERT_EQ(n, posenc_config_print(tiny, sizeof tiny, &b));
    ASSERT_EQ(sizeof tiny - 1, strlen(tiny));
    PASS();
}

/* each field on its own, at a value that is not its default */
TEST every_field_of_a_config_survives_as_text(void)
{
    posenc_config a, b;
    char spec[POSENC_SPEC_TEXT], text[2048];
    posenc_error why;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.encoding = "rope:base=500000+alibi";
    a.vocab = 20; a.context = 33; a.classes = 3; a.batch = 5; a.layers = 4; a.channels = 96;
    a.heads = 6; a.kv_heads = 3; a.hidden = 100; a.causal = 1; a.window = 9; a.mask_padding = 1;
    a.padding_token = 7; a.norm = POSENC_RMSNORM; a.norm_place = POSENC_POST_NORM;
    a.norm_eps = 1e-6; a.embedding_norm = 1; a.activation = POSENC_SWIGLU; a.no_bias = 1;
    a.no_residual = 1;
    a.qk_norm = POSENC_QK_NORM_AFTER; a.tied_head = 1; a.scale_embedding = 1;
    a.attention_scale = 1.0 / 3; a.embedding_init = 0.1; a.dropout_embedding = 0.1;
    a.dropout_attention = 0.2; a.dropout_branch = 0.3; a.dropout_hidden = 1; a.inference = 1;
    a.recompute = 1;
    a.threads = 2;
    a.seed = 18446744073709551615u;
    posenc_config_print(text, sizeof text, &a);
    ASSERT_EQm(why.text, POSENC_OK, posenc_config_parse(&b, spec, text, &why));
    ASSERT_STR_EQ(a.encoding, b.encoding);
    a.encoding = b.encoding = NULL;
    ASSERT_MEM_EQ(&a, &b, sizeof a);
    PASS();
}

/* What a model says of itself makes the same model again. */
TEST config_of_a_model_makes_the_same_model(int k, int e)
{
    posenc_model *a = make_model("%s %s", kinds[k].config, encoding_word(e)), *b;
    char text[POSENC_SPEC_TEXT + 2048];
    ASSERTm(check_text, a);
    posenc_config_print(text, sizeof text, posenc_model_config(a));
    b = make_model("%s", text);
    ASSERTm(check_text, b);
    ASSERT_STR_EQ(posenc_model_config(a)->encoding, posenc_model_config(b)->encoding);
    ASSERTm(check_text, train_steps(a, 0, 2) && train_steps(b, 0, 2) && same_state(a, b));
    posenc_model_free(a);
    posenc_model_free(b);
    PASS();
}

TEST aliases_are_taken_and_never_shown(void)
{
    static const char *const list[][2] = {
        { "learnable", "learned:rows=16,init=0.02" }, { "learned_absolute",
          "learned:rows=16,init=0.02" },
        { "relclip", "relative:distance=128,bidirectional=1,init=0.02" },
        { "learned_relative", "relative:distance=128,bidirectional=1,init=0.02" }
    };
    for (int i = 0; i < 4; i++) {
        posenc_model *m = make_model("%s encoding=%s", kinds[CLASSIFIER].config, list[i][0]);
        ASSERTm(check_text, m);
        ASSERT_STR_EQ(list[i][1], posenc_model_config(m)->encoding);
        posenc_model_free(m);
    }
    PASS();
}

TEST defaults_are_those_of_the_comments(void)
{
    posenc_config c;
    const posenc_config *d;
    posenc_model *m = NULL;
    posenc_error why;
    memset(&c, 0, sizeof c);
    c.vocab = 7;
    c.context = 9;
    ASSERT_EQm(why.text, POSENC_OK, posenc_model_create(&m, &c, &why));
    d = posenc_model_config(m);
    ASSERT_STR_EQ("none", d->encoding);
    ASSERT(d->batch == 1 && d->layers == 2 && d->channels == 64 && d->heads == 4
           && d->kv_heads == 4);
    ASSERT(d->hidden == 256 && d->norm_eps == 1e-5 && d->embedding_init == 0.02
           && d->attention_scale == 0.25);
    ASSERT_EQ(posenc_threads(), d->threads);
    ASSERT_EQ(posenc_cpu_backend(), d->backend);
    posenc_model_free(m);
    posenc_model_free(NULL);
    PASS();
}

TEST version_is_the_same_in_three_places(void)
{
    char line[200] = "", expected[32];
    FILE *f = fopen("posenc.h", "r");
    snprintf(expected, sizeof expected, "%d.%d.%d", POSENC_VERSION / 10000,
             POSENC_VERSION / 100 % 100, POSENC_VERSION % 100);
    ASSERT_STR_EQ(expected, POSENC_VERSION_STRING);
    if (!f) SKIPm("posenc.h is not in the folder this runs in");
    ASSERT(fgets(line, sizeof line, f) != NULL);
    fclose(f);
    snprintf(expected, sizeof expected, "posenc.h - v%s - ", POSENC_VERSION_STRING);
    ASSERTm(check_text, mentions(line, expected, (char *)0));
    PASS();
}

TEST every_status_has_words(void)
{
    for (int s = POSENC_OK; s <= POSENC_FULL; s++) {
        ASSERT(strlen(posenc_explain(s)) > 3 && strcmp(posenc_explain(s), "unknown status"));
        for (int t = POSENC_OK; t < s; t++) ASSERT(strcmp(posenc_explain(s), posenc_explain(t)));
    }
    ASSERT_STR_EQ("unknown status", posenc_explain(999));
    ASSERT_STR_EQ("unknown status", posenc_explain(-1));
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(learning)
{
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(overfits_one_batch, &kinds[k]);
    }
    RUN_TEST(gradients_add_up_until_the_update_clears_them);
    RUN_TEST(clipping_limits_the_norm_of_all_gradients_together);
    RUN_TEST(decay_shrinks_matrices_and_leaves_vectors);
    RUN_TEST(seed_decides_the_weights_and_nothing_else_does);
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(first_values_are_as_described, k);
    }
}

SUITE(same_bits)
{
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(ten_steps_have_the_same_bits_at_1_2_and_3_threads, k);
    }
    RUN_TEST(threads_are_the_models_inside_and_the_callers_outside);
    for (int n = 1; n <= 2; n++) {
        label_test("threads_%d", n);
        RUN_TESTp(two_models_on_two_host_threads_do_not_disturb_each_other, n);
    }
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(batch_cut_in_two_gives_the_same_gradients, k);
    }
}

SUITE(encodings)
{
    for (int e = 0; posenc_encoding_get(e); e++) {
        const posenc_encoding_info *info = posenc_encoding_get(e);
        label_test("%s", info->name); RUN_TESTp(parameters_of_an_encoding_move_in_training, e);
        for (int k = 0; k < KINDS; k++) {
            label_test("%s_%s", info->name, kinds[k].name);
            RUN_TESTp(permuted_positions_change_the_output, e, k);
        }
        label_test("%s", info->name); RUN_TESTp(given_positions_from_0_are_the_default, e);
        label_test("%s", info->name); RUN_TESTp(each_row_has_positions_of_its_own, e);
        if (info->where == POSENC_EMBEDDING || e == POSENC_QTEMP || e == POSENC_SWIN)
            continue;                      /* qtemp sees places, swin has none outside its grid */
        label_test("%s", info->name); RUN_TESTp(encodings_of_distance_do_not_see_a_shift, e);
    }
    RUN_TESTp(none_without_a_mask_is_permutation_equivariant, "none", 1);
    label_test("but_learned_is_not");
    RUN_TESTp(none_without_a_mask_is_permutation_equivariant, "learned", 0);
}

SUITE(sizes)
{
    static const char *const packable[] = { "none", "rope", "learned", "relative", "t5+sinusoidal",
                                            "lrope+alibi" };
    for (int e = 0; posenc_encoding_get(e); e++) {
        const char *name = posenc_encoding_get(e)->name;
        label_test("%s", name); RUN_TESTp(shorter_than_the_context_is_like_a_shorter_context, e);
        label_test("%s", name); RUN_TESTp(causal_model_does_not_see_the_future, e);
        label_test("%s_%s", name, kinds[e % KINDS].name);
        RUN_TESTp(one_token_can_be_trained_on, &kinds[e % KINDS], e);
    }
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(short_last_batch_gives_each_row_what_it_had, &kinds[k]);
    }
    for (int i = 0; i < 6; i++) {
        label_test("%s", packable[i]);
        RUN_TESTp(packed_documents_do_not_see_each_other, packable[i]);
    }
}

SUITE(nothing_there)
{
    static const char *const places[] = { "dropout_embedding", "dropout_attention",
                                          "dropout_branch", "dropout_hidden" };
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(all_targets_ignored_give_loss_0_and_gradient_0, &kinds[k]);
    }
    for (int e = 0; posenc_encoding_get(e); e++) {
        label_test("%s", posenc_encoding_get(e)->name);
        RUN_TESTp(row_of_padding_gives_the_bias_and_disturbs_nobody, e);
        label_test("%s", posenc_encoding_get(e)->name);
        RUN_TESTp(queries_that_see_nothing_get_zeros_and_no_NaN, e);
    }
    RUN_TEST(batch_of_padding_teaches_the_bias_alone);
    RUN_TEST(dropout_mask_depends_on_what_it_should);
    RUN_TEST(dropout_places_do_not_share_a_mask);
    for (int i = 0; i < 4; i++) {
        label_test("%s", places[i]);
        RUN_TESTp(dropout_of_1_drops_all_and_stays_finite, places[i]);
    }
}

SUITE(parts_of_a_model)
{
    for (int k = 0; k < KINDS; k++) {
        for (int odd = 0; odd < 2; odd++) {
            label_test("%s_%s", kinds[k].name, odd ? "odd" : "even");
            RUN_TESTp(frozen_tensors_stay_and_the_others_move, k, odd);
        }
        label_test("%s", kinds[k].name); RUN_TESTp(freezing_does_not_change_other_gradients, k);
        label_test("%s", kinds[k].name);
        RUN_TESTp(inference_model_gives_the_same_answers_in_less_room, k, "");
    }
    label_test("post_norm");
    RUN_TESTp(inference_model_gives_the_same_answers_in_less_room, MODERN,
              "norm_place=post embedding_norm=1 qk_norm=after");
    RUN_TEST(inference_model_refuses_to_train);
}

SUITE(not_a_number)
{
    static const char *const poisoned[] = { "blocks.1.attn.v_proj.weight", "blocks.0.norm2.weight",
                                            "head.bias", "pe.relative.weight",
                                            "token_embedding.weight" };
    for (int i = 0; i < 5; i++) {
        label_test("%s", poisoned[i]);
        RUN_TESTp(NaN_in_a_weight_stops_with_step_and_tensor, poisoned[i], NAN);
    }
    label_test("infinity");
    RUN_TESTp(NaN_in_a_weight_stops_with_step_and_tensor, "head.weight", HUGE_VAL);
    RUN_TEST(overflow_is_traced_to_the_first_activation);
    label_test("NaN");
    RUN_TESTp(bad_gradient_leaves_everything_as_it_was, "blocks.0.mlp.gate_proj.weight", NAN);
    label_test("infinity");
    RUN_TESTp(bad_gradient_leaves_everything_as_it_was, "norm.weight", -HUGE_VAL);
}

SUITE(refused)
{
    for (size_t i = 0; i < sizeof wrong_batches / sizeof *wrong_batches; i++) {
        label_test("%s", wrong_batches[i].name);
        RUN_TESTp(bad_input_is_refused_with_its_numbers, &wrong_batches[i]);
    }
    RUN_TEST(forward_needs_no_targets);
    for (size_t i = 0; i < sizeof wrong_configs / sizeof *wrong_configs; i++) {
        label_test("%s", wrong_configs[i].name);
        RUN_TESTp(bad_config_is_refused_with_its_numbers, &wrong_configs[i]);
    }
    RUN_TEST(bad_struct_is_refused_with_its_numbers);
    RUN_TEST(messages_hold_no_control_characters);
    RUN_TEST(logits_and_maps_are_refused_before_a_forward_and_outside);
    RUN_TEST(logits_are_refused_between_an_update_and_the_next_forward);
}

SUITE(looking_inside)
{
    static const struct { const char *name; int kind; const char *more; int segmented; } maps[] = {
        { "padded",       CLASSIFIER, "encoding=learned", 0 },
        { "padded_by_4",  CLASSIFIER, "encoding=learned padding_token=4", 0 },
        { "causal",       NEXT_TOKEN, "encoding=t5", 0 },
        { "grouped",      MODERN,     "encoding=rope", 0 },
        { "turned_first", MODERN,     "encoding=lrope qk_norm=after", 0 },
        { "turned_later", MODERN,     "encoding=lrope:layout=interleaved,dim=2", 1 },
        { "window",       NEXT_TOKEN, "encoding=relative window=3", 0 },
        { "window_both",  CLASSIFIER, "encoding=alibi window=2", 0 },
        { "segments",     NEXT_TOKEN, "encoding=rope+relative", 1 },
        { "segments_and_padding", CLASSIFIER, "encoding=alibi+t5", 1 },
        { "scaled",       NEXT_TOKEN, "attention_scale=2", 0 }
    };
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(every_tensor_is_reached_by_its_name, k, all_names[k]);
    }
    RUN_TEST(activations_are_what_their_names_say);
    label_test("added"); RUN_TESTp(branches_are_joined_as_the_config_says, "", 1);
    label_test("replaced"); RUN_TESTp(branches_are_joined_as_the_config_says, "no_residual=1", 0);
    RUN_TEST(large_vocabulary_is_taken_in_pieces);
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(loss_is_the_cross_entropy_of_the_logits, &kinds[k]);
    }
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        label_test("%s", maps[i].name);
        RUN_TESTp(attention_maps_are_those_the_model_used, maps[i].kind, maps[i].more,
                  maps[i].segmented);
    }
}

SUITE(switches)
{
    static const char *const list[] = {
        "causal=0", "window=2", "mask_padding=1", "mask_padding=1 padding_token=3", "norm=rmsnorm", "norm=none", "no_residual=1",
        "norm_place=post", "norm_eps=0.1", "embedding_norm=1", "activation=relu",
        "activation=gelu_tanh", "activation=silu", "activation=swiglu", "qk_norm=before",
        "qk_norm=after", "tied_head=1", "scale_embedding=1", "attention_scale=1",
        "embedding_init=0.5", "kv_heads=2", "layers=1", "seed=1", "encoding=rope:base=100",
        "encoding=rope:dim=2", "encoding=rope:layout=interleaved", "encoding=rope+alibi",
        "encoding=rope+alibi:bias_max=4", "encoding=rope+learned:init=1",
        "encoding=rope+t5:buckets=4", "encoding=rope+sinusoidal:base=9"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        label_test("%s", list[i]);
        RUN_TESTp(switch_changes_the_output, "", list[i]);
    }
    label_test("norm_eps_of_rmsnorm");
    RUN_TESTp(switch_changes_the_output, "norm=rmsnorm", "norm_eps=0.1");
    RUN_TEST(attention_scale_is_used);
}

SUITE(reach)
{
    label_test("distance_40"); RUN_TESTp(learned_biases_reach_beyond_the_context, 20, 128 - 40, 2);
    label_test("distance_127");
    RUN_TESTp(learned_biases_reach_beyond_the_context, 127, 128 - 127, 1);
    label_test("the_clip"); RUN_TESTp(learned_biases_reach_beyond_the_context, 50, 0, 3);
}

SUITE(as_text)
{
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name);
        RUN_TESTp(config_goes_through_text_and_back, kinds[k].config);
    }
    label_test("in_strange_spelling");
    RUN_TESTp(config_goes_through_text_and_back,
              " \t\nvocab=5\tcontext=1e1\n\nnorm_eps=1e-06 seed=18446744073709551615 "
              "encoding=rope:base=1e+6,layout=interleaved+t5:buckets=8 attention_scale=0.1 ");
    RUN_TEST(every_field_of_a_config_survives_as_text);
    for (int e = 0; posenc_encoding_get(e); e++) {
        label_test("%s", posenc_encoding_get(e)->name);
        RUN_TESTp(config_of_a_model_makes_the_same_model, e % KINDS, e);
    }
    RUN_TEST(aliases_are_taken_and_never_shown);
    RUN_TEST(defaults_are_those_of_the_comments);
    RUN_TEST(version_is_the_same_in_three_places);
    RUN_TEST(every_status_has_words);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(learning);
    RUN_SUITE(same_bits);
    RUN_SUITE(encodings);
    RUN_SUITE(sizes);
    RUN_SUITE(nothing_there);
    RUN_SUITE(parts_of_a_model);
    RUN_SUITE(not_a_number);
    RUN_SUITE(refused);
    RUN_SUITE(looking_inside);
    RUN_SUITE(switches);
    RUN_SUITE(reach);
    RUN_SUITE(as_text);
    GREATEST_MAIN_END();
}
