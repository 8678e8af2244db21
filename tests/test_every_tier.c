/* Every set of kernels this CPU has against the plain C: close to it, and the SIMD ones equal
   bit for bit.                                                                                   */
#include "posenc.h"
#include "check.h"
#include "every_layer.h"

static posenc_float plain[EVERY_ROOM], one[EVERY_ROOM], two[EVERY_ROOM];

/* from the slowest to the fastest; the first is the one whose bits the others must give */
#if defined(__aarch64__)
static const char *const simd[] = { "neon" };
#else
static const char *const simd[] = { "avx2", "avx512" };
#endif
enum { SIMD = sizeof simd / sizeof *simd };

TEST tier_can_be_chosen_and_given_back(void)
{
    char best[32];
    posenc_use_tier(NULL);
    strncpy(best, posenc_cpu_tier(), sizeof best - 1);
    best[sizeof best - 1] = 0;
    ASSERT_EQ(1, posenc_use_tier("c"));
    ASSERT_STR_EQ("c", posenc_cpu_tier());
    ASSERT_EQ(0, posenc_use_tier("abacus"));
    ASSERT_EQ(0, posenc_use_tier(""));
    ASSERT_STR_EQ("c", posenc_cpu_tier());
    ASSERT(posenc_use_tier(NULL) != 0);
    ASSERT_STR_EQ(best, posenc_cpu_tier());
    PASS();
}

/* Rounding differs in order and in fused steps, nothing else: a millionth of the norm. */
TEST tier_is_close_to_c(const char *tier, const layer_run *layer)
{
    size_t n;
    if (!posenc_use_tier(tier)) SKIPm("this CPU or this build does not have it");
    n = run_layer(layer, one);
    posenc_use_tier("c");
    ASSERT_EQ(n, run_layer(layer, plain));
    posenc_use_tier(NULL);
    ASSERT_LTE(n, (size_t)EVERY_ROOM);
    ASSERT_NORM_CLOSE(plain, one, n, 2e-6);
    PASS();
}

/* For the faster SIMD tiers always. For plain C in loops over rows, which fuse nothing and sum in
   one order; products join them under POSENC_DETERMINISTIC. */
TEST tier_gives_the_bits_of_simd(const char *tier, const layer_run *layer)
{
    size_t n;
    if (!posenc_use_tier(simd[0])) SKIPm("no SIMD in this CPU or this build");
    n = run_layer(layer, one);
    if (!posenc_use_tier(tier)) {
        posenc_use_tier(NULL);
        SKIPm("this CPU or this build does not have it");
    }
    memset(two, 0xff, sizeof two);
    ASSERT_EQ(n, run_layer(layer, two));
    posenc_use_tier(NULL);
    ASSERT_MEM_EQ(one, two, n * sizeof *one);
    PASS();
}

/* Our own exp, seen through a softmax of two: exp(x) is the quotient of its results. */
TEST exp_is_right_to_the_last_bits(const char *tier)
{
    if (!posenc_use_tier(tier)) SKIPm("this CPU or this build does not have it");
    for (double v = -86; v <= 0; v += 0.0137) {
        posenc_float x[2], y[2];
        x[0] = 0;
        x[1] = (posenc_float)v;
        posenc_softmax_forward(y, x, 1, 2);
        ASSERT_LTE(fabs((double)y[1] / (double)y[0] / exp((double)x[1]) - 1), 4e-7);
    }
    posenc_use_tier(NULL);
    PASS();
}

/* Our own erf and tanh, seen through the two GELUs: y / x = (1 + f) / 2, with x small and large. */
TEST erf_and_tanh_are_right_to_the_last_bits(const char *tier)
{
    if (!posenc_use_tier(tier)) SKIPm("this CPU or this build does not have it");
    for (double v = 0.003; v <= 9; v += 0.00137) {
        posenc_float x[2], y[2], t[2];
        x[0] = (posenc_float)v;
        x[1] = (posenc_float)-v;
        posenc_activation_forward(y, x, POSENC_GELU, 2);
        posenc_activation_forward(t, x, POSENC_GELU_TANH, 2);
        for (int i = 0; i < 2; i++) {
            double u = (double)x[i], inner = 0.79788456080286536 * (u + 0.044715 * u * u * u);
            ASSERT_LTE(fabs((double)y[i] / u * 2 - 1 - erf(u * 0.70710678118654752)), 3e-7);
            ASSERT_LTE(fabs((double)t[i] / u * 2 - 1 - tanh(inner)), 3e-7);
        }
    }
    posenc_use_tier(NULL);
    PASS();
}

SUITE(tiers)
{
    static const char row_loops[] = " softmax layernorm rmsnorm relu gelu gelu_tanh silu swiglu dropout "
                                    "residual embedding crossentropy rope adamw adam sum_squares ";
    for (int i = 0; i < EVERY_LAYER; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", every_layer[i].name);
        if (!strstr(row_loops, word)) continue;
        label_test("c_%s", every_layer[i].name);
        RUN_TESTp(tier_gives_the_bits_of_simd, "c", &every_layer[i]);
    }
    label_test("c");
    RUN_TESTp(exp_is_right_to_the_last_bits, "c");
    label_test("c");
    RUN_TESTp(erf_and_tanh_are_right_to_the_last_bits, "c");
    for (int t = 0; t < SIMD; t++) {
        label_test("%s", simd[t]);
        RUN_TESTp(exp_is_right_to_the_last_bits, simd[t]);
        label_test("%s", simd[t]);
        RUN_TESTp(erf_and_tanh_are_right_to_the_last_bits, simd[t]);
    }
    RUN_TEST(tier_can_be_chosen_and_given_back);
    for (int t = 0; t < SIMD; t++) {
        const char *same = simd[t];                           /* whose bits are those of simd[0] */
        int there = posenc_use_tier(simd[t]);
        posenc_use_tier(NULL);
#ifdef POSENC_DETERMINISTIC
        if (t == 0) same = "c";
#endif
        for (int i = 0; i < (there ? EVERY_LAYER : 1); i++) {      /* one line if it is not there */
            const char *name = there ? every_layer[i].name : "at_all";
            label_test("%s_%s", simd[t], name);
            RUN_TESTp(tier_is_close_to_c, simd[t], &every_layer[i]);
            if (same == simd[0]) continue;
            label_test("%s_%s", same, name);
            RUN_TESTp(tier_gives_the_bits_of_simd, same, &every_layer[i]);
        }
    }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(tiers);
    give_back();
    GREATEST_MAIN_END();
}
