/* The bare rotary model of demos/marker against finite differences, in double: every tensor by
   name, through two layers, with fixed and with trained frequencies. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_DOUBLE
#include "posenc.h"
#include "check.h"
#include "marker/rotary.h"

enum { B = 2, T = 5, V = 11, C = 6 };

typedef struct model_case { rotary *m; int tokens[B * T], targets[B * T]; } model_case;

static double mean_loss(void *ctx)
{
    model_case *k = (model_case *)ctx;
    posenc_float loss[B * T];
    double sum = 0;
    rotary_forward(k->m, k->tokens, B);
    posenc_crossentropy(loss, NULL, k->m->logits, k->targets, 1, B * T, V);
    for (int r = 0; r < B * T; r++) sum += loss[r];
    return sum / (B * T);
}

static model_case make_case(int learned, int layers)
{
    rotary_config c = { V, T, B, C, layers, learned, 100.0, 1, 7 };
    model_case k;
    k.m = rotary_new(&c);
    for (int i = 0; i < B * T; i++) {
        k.tokens[i] = check_random_below(V);
        k.targets[i] = check_random_below(V);
    }
    if (learned) /* away from 1, where a forgotten factor would not show */
        for (int l = 0; l < layers; l++)
            for (int i = 0; i < C / 2; i++)
                rotary__layer(k.m, k.m->param, l).scale[i] = 0.6 + 0.3 * i;
    return k;
}

TEST every_tensor_has_the_right_gradient(int learned, int layers)
{
    model_case k = make_case(learned, layers);
    double loss = rotary_train(k.m, k.tokens, k.targets, B);
    posenc_float *grad = (posenc_float *)malloc(k.m->numbers * sizeof *grad);
    ASSERT(grad && fabs(loss - mean_loss(&k)) <= 1e-12);
    memcpy(grad, k.m->grad, k.m->numbers * sizeof *grad);
    ASSERT_EQ(k.m->tensors, 3 + layers * (8 + learned));
    for (int i = 0; i < k.m->tensors; i++) {
        const rotary_tensor *t = &k.m->tensor[i];
        gradient_of one = { t->name, k.m->param + t->at, grad + t->at, t->count };
        ASSERT_GRADIENT(mean_loss, &k, &one, 1, 0);
    }
    free(grad);
    rotary_free(k.m);
    PASS();
}

/* Gradients of parameters add, so that a batch may come in parts. */
TEST a_second_backward_adds(void)
{
    model_case k = make_case(1, 2);
    size_t n = k.m->numbers;
    posenc_float *once = (posenc_float *)malloc(n * sizeof *once);
    rotary_train(k.m, k.tokens, k.targets, B);
    for (size_t i = 0; i < n; i++) once[i] = 2 * k.m->grad[i];
    rotary_train(k.m, k.tokens, k.targets, B);
    ASSERT_NORM_CLOSE(once, k.m->grad, n, 1e-12);
    free(once);
    rotary_free(k.m);
    PASS();
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    for (int learned = 0; learned < 2; learned++)
        for (int layers = 1; layers <= 2; layers++) {
            label_test("%s_layers%d", learned ? "lrope" : "rope", layers);
            RUN_TESTp(every_tensor_has_the_right_gradient, learned, layers);
        }
    RUN_TEST(a_second_backward_adds);
    GREATEST_MAIN_END();
}
