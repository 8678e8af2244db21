/* Attention's backward against finite differences, in double: every mask, every way position
   enters, the tiled version and the plain one. The cases are in attention_cases.h.               */
#define POSENC_DOUBLE
#include "posenc.h"
#include "check.h"
#include "attention_cases.h"

static attention_run run;

static double tiled_loss(void *ctx)
{
    attention_run *r = (attention_run *)ctx;
    attention_tiled_forward(r);
    return weighted_sum(r->dout.data, r->out.data, r->q_count);
}
static double plain_loss(void *ctx)
{
    attention_run *r = (attention_run *)ctx;
    attention_plain_forward(r);
    return weighted_sum(r->dout.data, r->out.data, r->q_count);
}

/* q, k, v and whatever else the case learns */
static int gradients(gradient_of list[5], attention_run *r)
{
    int n = 0;
    list[n++] = (gradient_of){ "q", r->q.data, r->dq.data, r->q_count };
    list[n++] = (gradient_of){ "k", r->k.data, r->dk.data, r->k_count };
    list[n++] = (gradient_of){ "v", r->v.data, r->dv.data, r->k_count };
    if (r->bias) list[n++] = (gradient_of){ "bias", r->bias, r->dbias, r->bias_count };
    if (r->pattern.table)
        list[n++] =
            (gradient_of){ "row bias", r->pattern.table, r->pattern.dtable, (size_t)r->c.H * 7 };
    return n;
}

TEST tiled_gradient_matches_finite_differences(const attention_case *c)
{
    gradient_of list[5];
    int n;
    attention_begin(&run, *c);
    tiled_loss(&run);
    attention_tiled_backward(&run);
    n = gradients(list, &run);
    ASSERT_GRADIENT(tiled_loss, &run, list, n, 0);
    PASS();
}

TEST plain_gradient_matches_finite_differences(const attention_case *c)
{
    gradient_of list[5];
    int n;
    attention_begin(&run, *c);
    plain_loss(&run);
    attention_plain_backward(&run);
    n = gradients(list, &run);
    ASSERT_GRADIENT(plain_loss, &run, list, n, 0);
    PASS();
}

/* A constant added to every score of a row changes nothing: the gradient along that direction is
   zero.                                                                                          */
TEST gradient_of_a_constant_in_every_score_vanishes(void)
{
    attention_case c = { .Tq = 9, .Tk = 9, .H = 2, .Hk = 2, .D = 4, .past = 8, .future = 8 };
    double sum[2] = { 0.0, 0.0 }, size = 0.0;
    attention_begin(&run, c);
    tiled_loss(&run);
    attention_tiled_backward(&run);
    for (size_t e = 0; e < run.bias_count; e++) {
        sum[e / (run.bias_count / 2)] += run.dbias[e];
        size += fabs(run.dbias[e]);
    }
    ASSERT_GT(size, 0.1);
    ASSERT_LTE(fabs(sum[0]), 1e-12);
    ASSERT_LTE(fabs(sum[1]), 1e-12);
    PASS();
}

SUITE(gradients_of_attention)
{
    for (int i = 0; i < ATTENTION_CASES; i++) {
        label_test("%s", attention_cases[i].name);
        RUN_TESTp(tiled_gradient_matches_finite_differences, &attention_cases[i]);
        label_test("%s", attention_cases[i].name);
        RUN_TESTp(plain_gradient_matches_finite_differences, &attention_cases[i]);
    }
    RUN_TEST(gradient_of_a_constant_in_every_score_vanishes);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(gradients_of_attention);
    give_back();
    GREATEST_MAIN_END();
}
