/* For the drop-in programs (compiles_*): each shows one way of taking the header into a project, and
   checks the effect of the switch it is about. They do without check.h, so that nothing but posenc.h
   stands between the compiler and the code. Include it after posenc.h; it is C99 and C++11.

       int main(void) { expect_three_doors(); EXPECT(...); return expect_end(); }                   */
#ifndef POSENC_TESTS_EXPECT_H
#define POSENC_TESTS_EXPECT_H
#include <math.h>
#include <stdio.h>
#include <string.h>

static int expect_failed;
#define EXPECT(CONDITION) do { if (!(CONDITION)) { expect_failed++;                                 \
    printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #CONDITION); } } while (0)

/* NaN is not near anything */
static inline int expect_near(double want, double got, double tolerance)
{
    return fabs(want - got) <= tolerance;
}

static inline int expect_end(void)
{
    printf("Pass: %d, fail: %d, skip: 0\n", expect_failed ? 0 : 1, expect_failed ? 1 : 0);
    return expect_failed ? 1 : 0;
}

/* One step of a tiny causal model: the smallest thing that goes through everything behind door three. */
static inline posenc_status expect_tiny_model(double *loss, posenc_error *why)
{
    static const int tokens[8]  = { 1, 2, 3, 4, 5, 6, 7, 0 };
    static const int targets[8] = { 2, 3, 4, 5, 6, 7, 0, 1 };
    posenc_model *model = NULL;
    posenc_config config;
    posenc_batch batch;
    posenc_optimizer optimizer;
    posenc_status status;
    memset(&config, 0, sizeof config);
    memset(&batch, 0, sizeof batch);
    memset(&optimizer, 0, sizeof optimizer);
    config.encoding = "rope";
    config.vocab = 8; config.context = 8;
    config.layers = 1; config.channels = 16; config.heads = 2;
    config.causal = 1;
    batch.B = 1; batch.T = 8;
    batch.tokens = tokens; batch.targets = targets;
    status = posenc_model_create(&model, &config, why);
    if (status == POSENC_OK) status = posenc_model_train(model, &batch, loss, why);
    if (status == POSENC_OK) status = posenc_model_update(model, &optimizer, 1e-3, NULL, why);
    posenc_model_free(model);
    return status;
}

/* A call and a known value behind each door. */
static inline void expect_three_doors(void)
{
    const double tolerance = sizeof(posenc_float) == sizeof(double) ? 1e-12 : 1e-6;
    const double at = 1.0;
    posenc_float table[8], q[2] = { 1, 0 }, y[2] = { 3, 4 };
    posenc_spec spec[POSENC_SPECS];
    posenc_error why;
    double loss = -1.0;
    int count = 0;

    posenc_sinusoidal(table, NULL, 2, 4, 10000.0);
    EXPECT(expect_near(0.0, table[0], tolerance) && expect_near(1.0, table[1], tolerance));
    EXPECT(expect_near(sin(1.0), table[4], tolerance) && expect_near(cos(0.01), table[7], tolerance));

    posenc_rope_forward(posenc_heads_bthd(q, 1, 1, 1, 2), &at, POSENC_HALF, 10000.0);
    EXPECT(expect_near(cos(1.0), q[0], tolerance) && expect_near(sin(1.0), q[1], tolerance));

    EXPECT(posenc_spec_parse(spec, &count, POSENC_SPECS, "learned+alibi", &why) == POSENC_OK);
    EXPECT(count == 2 && spec[0].encoding == POSENC_LEARNED && spec[1].encoding == POSENC_ALIBI);
    EXPECT(posenc_spec_parse(spec, &count, POSENC_SPECS, "rpoe", &why) != POSENC_OK);
    EXPECT(strstr(why.text, "rope") != NULL);         /* a wrong name is answered with the right ones */

    posenc_softmax_forward(y, y, 1, 2);
    EXPECT(expect_near(1.0 / (1.0 + exp(1.0)), y[0], tolerance));

    EXPECT(expect_tiny_model(&loss, &why) == POSENC_OK);
    EXPECT(loss > 0.5 && loss < 8.0);                 /* untrained: near log 8 = 2.08                 */
}
#endif
