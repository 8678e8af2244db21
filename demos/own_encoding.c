/* own_encoding: a positional encoding of your own, without touching the header.

       make build/own_encoding && build/own_encoding

   A bias b_h(d) = -exp(w_h) sqrt|d|, w_h trained: two callbacks. Prints its gradient beside finite
   differences, then learns to name the token three places before: watch the slopes. */
#define POSENC_IMPLEMENTATION
#include "posenc.h"

enum { HEADS = 4, B = 16, T = 24, N = B * T };
static int tokens[N], targets[N];
static const posenc_batch batch = { .B = B, .T = T, .tokens = tokens, .targets = targets };

static double fade(void *user, int h, int H, int d, const float *w)
{
    return (void)user, (void)H, -exp(w[h]) * sqrt(abs(d));
}
static void fade_backward(void *user, float *dw, double g, int h, int H, int d, const float *w)
{
    dw[h] += (float)(g * fade(user, h, H, d, w));                              /* db/dw_h = b */
}
static void roll(uint32_t dice)
{
    for (int i = 0; i < N; i++) tokens[i] = (int)((dice = dice * 1664525u + 1013904223u) >> 29);
    for (int i = 0; i < N; i++) targets[i] = i % T < 3 ? POSENC_IGNORE : tokens[i - 3];
}
static double loss_at(posenc_model *m, posenc_float *at, float w)
{
    double loss = NAN;
    posenc_model_set(m, at, &w, 1);
    return posenc_model_loss(m, &batch, &loss, NULL), loss;
}

int main(void)
{
    posenc_custom own = { .name = "fade", .parameters = HEADS, .bias = fade,
                          .bias_backward = fade_backward };
    posenc_config config = { .encoding = "fade", .custom = &own, .customs = 1, .vocab = 8,
                             .batch = B, .context = T, .causal = 1, .activation = POSENC_GELU };
    posenc_model *model;
    posenc_error why;
    double loss; float g[HEADS];
    if (posenc_model_create(&model, &config, &why) != POSENC_OK) return puts(why.text), 1;
    posenc_tensor *t = posenc_model_find(model, "pe.fade.weight");
    for (int i = 0; i < 600; i++) {
        roll((uint32_t)i);
        posenc_model_train(model, &batch, &loss, &why);
        posenc_model_get(model, g, t->grad, HEADS);
        for (int h = 0; h < HEADS && i == 0; h++) {
            double up = loss_at(model, t->data + h, 0.02f), down = loss_at(model, t->data + h, -0.02f);
            printf("head %d: gradient %+.5f, finite difference %+.5f\n", h, g[h], (up - down) / 0.04);
            loss_at(model, t->data + h, 0);
        }
        posenc_model_update(model, &(posenc_optimizer){ 0 }, 3e-3, NULL, &why);
        if (i % 200 == 0 || i == 599) printf("step %3d  loss %.4f\n", i, loss);
    }
    posenc_model_get(model, g, t->data, HEADS);
    for (int h = 0; h < HEADS; h++) printf("head %d: b(d) = -%.2f sqrt|d|\n", h, exp(g[h]));
    posenc_model_free(model);
}
