/* Products in bfloat16: against loops in double over inputs rounded here, by another way of rounding;
   then whole models beside their fp32 twins. Where the machine has no unit for it, the same calls must
   be the fp32 ones bit for bit, which is tested everywhere on a tier without one.                */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include "models.h"

enum { ROOM = 700000, GUARD = 64 };
static posenc_float x[ROOM], w[ROOM], dy[ROOM], y[ROOM + GUARD], expected[ROOM], scratch[2 * ROOM];
static double xr[ROOM], wr[ROOM], dyr[ROOM];

static int has_unit(void) { return strcmp(posenc_bf16_unit(), "none") != 0; }

/* to 8 bits of mantissa by adding and taking away, not by cutting bits */
static double rounded(double v)
{
    double big = ldexp(1.5, 45) * pow(2, floor(log2(fabs(v)))); /* its last bit weighs 2^-7 of v   */
    return v == 0 ? 0 : (v + big) - big;
}
static void fill(posenc_float *to, double *round, size_t n)
{
    fill_random(to, n);
    for (size_t i = 0; i < n; i++) round[i] = has_unit() ? rounded((double)to[i]) : (double)to[i];
}

/* runs one of the three products into y, with guards behind it and behind the scratch */
static void run(int form, int R, int in, int out, int add)
{
    size_t room = posenc_bf16_scratch(R, in, out), n = (size_t)(form == 0 ? R * out : form == 1 ? R * in
                                                                                            : out * in);
    for (size_t i = 0; i < room; i++) scratch[i] = (posenc_float)NAN;
    for (size_t i = 0; i < n + GUARD; i++) y[i] = i < n ? (add ? 2 : form == 2 ? 0 : (posenc_float)NAN) : 7;
    for (int i = 0; i < GUARD; i++) scratch[room + (size_t)i] = 5;
    if (form == 0) posenc_linear_forward_bf16(y, x, w, NULL, R, in, out, scratch);
    if (form == 1) posenc_linear_backward_bf16(y, NULL, NULL, dy, x, w, R, in, out, add, scratch);
    if (form == 2) posenc_linear_backward_bf16(NULL, y, NULL, dy, x, w, R, in, out, 0, scratch);
}
/* element (i,j) of the product in double */
static double wanted(int form, int i, int j, int R, int in, int out)
{
    double sum = 0;
    int k = form == 0 ? in : form == 1 ? out : R;
    for (int e = 0; e < k; e++)
        sum += form == 0 ? xr[i * in + e] * wr[j * in + e]
             : form == 1 ? dyr[i * out + e] * wr[e * in + j] : dyr[e * out + i] * xr[e * in + j];
    return sum;
}
TEST product_is_right(int form, int R, int in, int out, int add)
{
    int m = form == 2 ? out : R, n = form == 0 ? out : in, k = form == 0 ? in : form == 1 ? out : R;
    ASSERT_LTE(posenc_bf16_scratch(R, in, out) + GUARD, sizeof scratch / sizeof *scratch);
    fill(x, xr, (size_t)R * in);
    fill(w, wr, (size_t)out * in);
    fill(dy, dyr, (size_t)R * out);
    run(form, R, in, out, add);
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++)
        expected[i * n + j] = (posenc_float)(wanted(form, i, j, R, in, out) + (add ? 2 : 0));
    ASSERT_CLOSE(expected, y, (size_t)m * n, 2e-7 * (k + 10));
    for (int i = 0; i < GUARD; i++) ASSERT_EQ((double)y[m * n + i], 7.0);
    for (int i = 0; i < GUARD; i++)
        ASSERT_EQ((double)scratch[posenc_bf16_scratch(R, in, out) + (size_t)i], 5.0);
    PASS();
}
TEST products_match_the_definition(int form, int add)
{
    static const int size[][3] = { { 1, 1, 1 }, { 1, 2, 3 }, { 2, 1, 5 }, { 3, 7, 4 }, { 12, 32, 32 },
                                   { 13, 33, 31 }, { 48, 64, 96 }, { 49, 65, 97 }, { 5, 400, 7 },
                                   { 7, 5, 801 }, { 500, 9, 11 }, { 96, 128, 64 }, { 100, 130, 70 } };
    for (int s = 0; s < 13; s++)
        CHECK_CALL(product_is_right(form, size[s][0], size[s][1], size[s][2], add));
    PASS();
}

/* 1 + 2^-8 lies half-way between two bfloat16 numbers and goes to the even one, 1; 1 + 3 2^-8 to the even
   one above                                                                                      */
TEST ties_go_to_the_even_number(void)
{
    posenc_float one = 1;
    if (!has_unit()) SKIPm("no unit for bfloat16 on this machine");
    x[0] = 1 + (posenc_float)ldexp(1, -8);
    posenc_linear_forward_bf16(y, x, &one, NULL, 1, 1, 1, scratch);
    ASSERT_EQ((double)y[0], 1.0);
    x[0] = 1 + 3 * (posenc_float)ldexp(1, -8);
    posenc_linear_forward_bf16(y, x, &one, NULL, 1, 1, 1, scratch);
    ASSERT_EQ((double)y[0], 1 + ldexp(1, -6));
    PASS();
}
TEST what_is_not_finite_stays_so(double value)
{
    for (int i = 0; i < 3 * 40; i++) x[i] = 1;
    for (int i = 0; i < 5 * 40; i++) w[i] = 1;
    x[40 + 17] = (posenc_float)value;
    posenc_linear_forward_bf16(y, x, w, NULL, 3, 40, 5, scratch);
    for (int j = 0; j < 5; j++) {
        ASSERT_EQ((double)y[j], 40.0);
        ASSERT_EQ((double)y[10 + j], 40.0);
        ASSERT(isnan(value) ? isnan((double)y[5 + j]) : (double)y[5 + j] == value);
    }
    PASS();
}
TEST bias_is_added_in_float(void)
{
    posenc_float bias[3] = { 1.0009765625f, 2, -3 };                /* the first is no bfloat16      */
    for (int i = 0; i < 8; i++) x[i] = w[i] = 0;
    posenc_linear_forward_bf16(y, x, w, bias, 2, 2, 3, scratch);
    for (int r = 0; r < 2; r++) for (int o = 0; o < 3; o++) ASSERT_EQ((double)y[r * 3 + o], (double)bias[o]);
    PASS();
}

TEST without_a_unit_it_is_the_fp32_product(void)
{
    enum { R = 37, IN = 50, OUT = 29 };
    int fine;
    fill(x, xr, R * IN);
    fill(w, wr, OUT * IN);
    ASSERT(posenc_use_tier("c"));
    fine = !has_unit();
    posenc_linear_forward(expected, x, w, NULL, R, IN, OUT);
    posenc_linear_forward_bf16(y, x, w, NULL, R, IN, OUT, scratch);
    posenc_use_tier(NULL);
    ASSERT(fine);
    ASSERT_MEM_EQ(expected, y, R * OUT * sizeof *y);
    PASS();
}

/* ---- models ---------------------------------------------------------------------------------- */

/* how far two tensors lie apart, as a share of the second's length */
static double apart(const posenc_float *p, const posenc_float *q, size_t n)
{
    double gap = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        gap += ((double)p[i] - (double)q[i]) * ((double)p[i] - (double)q[i]);
        size += (double)q[i] * (double)q[i];
    }
    return sqrt(gap / size);
}
/* The gradients of a model in bf16 are those of fp32 but for some parts in a hundred; not the same ones
   where there is a unit. A key's bias has no gradient at all and is left out.                    */
TEST gradients_are_near_those_of_fp32(int k)
{
    posenc_model *m = make_model("%s precision=bf16 channels=64 hidden=96 encoding=learned", kinds[k].config);
    posenc_model *twin = make_model("%s channels=64 hidden=96 encoding=learned", kinds[k].config);
    double loss = NAN, other = NAN, worst = 0;
    static data d;
    if (m && twin) {
        fill_data(&d, m, 3, 16, 3);
        if (posenc_model_train(m, &d.batch, &loss, NULL) != POSENC_OK
            || posenc_model_train(twin, &d.batch, &other, NULL) != POSENC_OK) loss = NAN;
        for (int i = 0; i < posenc_model_parameters(m); i++) {
            posenc_tensor *t = posenc_model_parameter(m, i);
            double gap;
            if (strstr(t->name, "k_proj.bias")) continue;
            gap = apart(t->grad, posenc_model_parameter(twin, i)->grad, t->count);
            if (!(gap <= worst)) worst = gap;
        }
    }
    posenc_model_free(m);
    posenc_model_free(twin);
    ASSERT_LTE(fabs(loss - other), 0.01 * fabs(other));
    ASSERT_LTE(worst, 0.05);
    if (has_unit()) ASSERT_GT(worst, 1e-4);
    else            ASSERT_EQ(worst, 0.0);
    PASS();
}
TEST training_brings_the_loss_down(int k)
{
    posenc_model *m = make_model("%s precision=bf16 channels=32 encoding=rope", kinds[k].config);
    posenc_optimizer o;
    double first = NAN, last = NAN;
    static data d;
    memset(&o, 0, sizeof o);
    if (m) fill_data(&d, m, 3, 16, 5);
    for (int s = 0; m && s < 60; s++) {
        if (posenc_model_train(m, &d.batch, &last, NULL) != POSENC_OK) last = NAN;
        if (s == 0) first = last;
        posenc_model_update(m, &o, 3e-3, NULL, NULL);
    }
    posenc_model_free(m);
    ASSERTm(check_text, m != NULL);
    ASSERT_LT(last, 0.5 * first);
    PASS();
}
TEST logits_come_from_the_same_products(void)
{
    enum { V = 11 };
    posenc_model *m = make_model("%s precision=bf16 encoding=rope", kinds[NEXT_TOKEN].config);
    posenc_float logits[3 * 7 * V], losses[3 * 7];
    double loss = NAN, sum = 0;
    static data d;
    int good = 0, counted = 0;
    if (m) {
        fill_data(&d, m, 3, 7, 5);
        good = posenc_model_loss(m, &d.batch, &loss, NULL) == POSENC_OK
            && posenc_model_logits(m, logits, 0, 21, NULL) == POSENC_OK;
        posenc_crossentropy(losses, NULL, logits, d.targets, 1, 21, V);
        for (int r = 0; r < 21; r++) { sum += (double)losses[r]; counted += d.targets[r] >= 0; }
    }
    posenc_model_free(m);
    ASSERT(good);
    ASSERT_LTE(fabs(sum / counted - loss), 1e-6 * fabs(loss));
    PASS();
}
TEST bits_do_not_depend_on_the_threads(void)
{
    posenc_model *one = make_model("%s precision=bf16 channels=64 hidden=192 encoding=rope threads=1",
                                   kinds[MODERN].config);
    posenc_model *two = make_model("%s precision=bf16 channels=64 hidden=192 encoding=rope threads=3",
                                   kinds[MODERN].config);
    static data d;
    double a = NAN, b = NAN;
    int same = one && two;
    if (same) {
        fill_data(&d, one, 3, 16, 9);
        posenc_model_train(one, &d.batch, &a, NULL);
        posenc_model_train(two, &d.batch, &b, NULL);
        for (int i = 0; i < posenc_model_parameters(one); i++) {
            posenc_tensor *t = posenc_model_parameter(one, i);
            same &= !memcmp(t->grad, posenc_model_parameter(two, i)->grad, t->count * sizeof *t->grad);
        }
    }
    posenc_model_free(one);
    posenc_model_free(two);
    ASSERT(same);
    ASSERT_EQ(a, b);
    PASS();
}
TEST back_end_without_it_is_refused(void)
{
    posenc_backend plain = *posenc_cpu_backend();
    posenc_model *m;
    plain.name = "plain";
    plain.linear_forward_bf16 = NULL;
    m = make_model_on(&plain, "%s precision=bf16", kinds[MODERN].config);
    posenc_model_free(m);
    ASSERT(!m);
    ASSERTm(check_text, strstr(check_text, "plain") && strstr(check_text, "bf16"));
    PASS();
}
TEST config_text_keeps_the_precision(void)
{
    posenc_model *m = make_model("%s precision=bf16", kinds[MODERN].config);
    char text[POSENC_SPEC_TEXT];
    if (m) posenc_config_print(text, sizeof text, posenc_model_config(m));
    posenc_model_free(m);
    ASSERTm(check_text, m != NULL);
    ASSERTm(text, strstr(text, "precision=bf16"));
    PASS();
}

SUITE(products)
{
    static const char *form[] = { "forward", "dx", "dw" };
    for (int f = 0; f < 3; f++) {
        label_test("%s", form[f]); RUN_TESTp(products_match_the_definition, f, 0);
    }
    label_test("dx_added"); RUN_TESTp(products_match_the_definition, 1, 1);
    RUN_TEST(ties_go_to_the_even_number);
    label_test("nan");      RUN_TESTp(what_is_not_finite_stays_so, NAN);
    label_test("infinity"); RUN_TESTp(what_is_not_finite_stays_so, (double)HUGE_VALF);
    RUN_TEST(bias_is_added_in_float);
    RUN_TEST(without_a_unit_it_is_the_fp32_product);
}
#ifdef EMULATED_AMX
TEST tiles_were_used(void)
{
    if (!has_unit()) SKIPm("rows left over by the tiles need AVX512-BF16");
    ASSERT_STR_EQ("amx", posenc_bf16_unit());
    ASSERT(amx_dots);
    ASSERT(!amx_ready);
    PASS();
}
#endif

SUITE(models)
{
    for (int k = 0; k < KINDS; k++) {
        label_test("%s", kinds[k].name); RUN_TESTp(gradients_are_near_those_of_fp32, k);
        label_test("%s", kinds[k].name); RUN_TESTp(training_brings_the_loss_down, k);
    }
    RUN_TEST(logits_come_from_the_same_products);
    RUN_TEST(bits_do_not_depend_on_the_threads);
    RUN_TEST(back_end_without_it_is_refused);
    RUN_TEST(config_text_keeps_the_precision);
#ifdef EMULATED_AMX
    RUN_TEST(tiles_were_used);
#endif
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    printf("bfloat16: %s\n", posenc_bf16_unit());
    RUN_SUITE(products);
    RUN_SUITE(models);
    GREATEST_MAIN_END();
}
