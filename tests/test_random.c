/* The random numbers: Philox4x32-10 against its published vectors, and dropout's masks: how
   often, from which counter, and that neither seeds, steps, sites nor cuts of the batch get
   mixed up.                                                                                      */
#include "posenc.h"
#include "check.h"

/* ---- Philox ---------------------------------------------------------------------------------- */

/* the three known-answer vectors of philox4x32, 10 rounds, published with the Random123 library */
TEST philox_gives_the_published_words(int which)
{
    static const uint32_t counter[3][4] = {
        { 0, 0, 0, 0 },
        { 0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu },
        { 0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u } };
    static const uint64_t key[3] = { 0, 0xffffffffffffffffu, 0x299f31d0a4093822u };
    static const uint32_t answer[3][4] = {
        { 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u },
        { 0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu },
        { 0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u } };
    uint32_t out[4];
    posenc_philox(out, counter[which], key[which]);
    for (int i = 0; i < 4; i++) ASSERT_EQ_FMT(answer[which][i], out[i], "%08x");
    PASS();
}

/* ---- dropout --------------------------------------------------------------------------------- */

enum { N = 100000 };
static posenc_float ones[N], y[N], z[N];

static posenc_dropout draw(double rate, uint64_t seed, uint32_t step, uint32_t site, uint64_t first)
{
    posenc_dropout how;
    how.rate = rate; how.seed = seed; how.step = step; how.site = site; how.first = first;
    return how;
}
static void mask(posenc_float *to, size_t n, posenc_dropout how)
{
    for (size_t i = 0; i < n; i++) ones[i] = (posenc_float)1;
    posenc_dropout_apply(to, ones, n, how);
}
static double share_kept(const posenc_float *m, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) kept += (double)m[i] != 0.0;
    return (double)kept / (double)n;
}
static double share_alike(const posenc_float *a, const posenc_float *b, size_t n)
{
    size_t alike = 0;
    for (size_t i = 0; i < n; i++) alike += ((double)a[i] != 0.0) == ((double)b[i] != 0.0);
    return (double)alike / (double)n;
}

/* within five standard deviations */
TEST dropout_drops_the_share_it_was_asked_for(double rate)
{
    mask(y, N, draw(rate, 7, 1, 2, 0));
    ASSERT_LTE(fabs(share_kept(y, N) - (1.0 - rate)), 5.0 * sqrt(rate * (1.0 - rate) / N));
    PASS();
}

TEST dropout_keeps_the_mean(double rate)
{
    double sum = 0.0;
    mask(y, N, draw(rate, 7, 1, 2, 0));
    for (int i = 0; i < N; i++) sum += (double)y[i];
    ASSERT_LTE(fabs(sum / N - 1.0), 5.0 * sqrt(rate / (1.0 - rate) / N));
    PASS();
}

/* Element i depends on word i mod 4 of the counter {i/4 low, i/4 high, step, site} alone:
   everything that is dropped has a smaller word than everything that is kept, and the border
   lies at the rate.                                                                              */
TEST dropout_uses_the_documented_counter(uint64_t first)
{
    uint32_t largest_dropped = 0, smallest_kept = 0xffffffffu;
    const double rate = 0.3;
    mask(y, 4099, draw(rate, 0x123456789abcdef0u, 11, 35, first));
    for (int i = 0; i < 4099; i++) {
        uint64_t index = first + (uint64_t)i;
        uint32_t counter[4], word[4];
        counter[0] = (uint32_t)(index / 4);
        counter[1] = (uint32_t)(index / 4 >> 32);
        counter[2] = 11;
        counter[3] = 35;
        posenc_philox(word, counter, 0x123456789abcdef0u);
        if ((double)y[i] == 0.0) {
            if (word[index % 4] > largest_dropped) largest_dropped = word[index % 4];
        } else if (word[index % 4] < smallest_kept)
            smallest_kept = word[index % 4];
    }
    ASSERT_LT(largest_dropped, smallest_kept);
    ASSERT_LTE(largest_dropped / 4294967296.0, rate);
    ASSERT_GTE(smallest_kept / 4294967296.0, rate - 1e-6);
    PASS();
}

/* A second mask with one number changed agrees with the first no more often than chance: .25 +
   .25.                                                                                           */
TEST dropout_masks_are_unrelated(posenc_dropout other)
{
    mask(y, N, draw(0.5, 7, 1, 2, 0));
    mask(z, N, other);
    ASSERT_LTE(fabs(share_alike(y, z, N) - 0.5), 5.0 * 0.5 / sqrt(N));
    PASS();
}

TEST neighbours_in_a_mask_are_unrelated(int apart)
{
    mask(y, N, draw(0.5, 7, 1, 2, 0));
    ASSERT_LTE(fabs(share_alike(y, y + apart, N - 2048) - 0.5), 5.0 * 0.5 / sqrt(N - 2048));
    PASS();
}

/* Rows first .. of a batch, drawn by themselves, are the rows they are in the whole batch. */
TEST mask_does_not_depend_on_where_the_batch_is_cut(uint64_t base)
{
    static const size_t cut[] = { 0, 1, 2, 3, 4, 5, 7, 64, 129, 1000, 4099, 9999 };
    mask(y, 10000, draw(0.4, 3, 5, 6, base));
    for (int i = 0; i + 1 < 12; i++) {
        size_t n = cut[i + 1] - cut[i];
        mask(z, n, draw(0.4, 3, 5, 6, base + cut[i]));
        ASSERT_MEM_EQ((y + cut[i]), z, n * sizeof *y);
    }
    PASS();
}

TEST same_numbers_give_the_same_mask(void)
{
    mask(y, N, draw(0.4, 3, 5, 6, 9));
    mask(z, N, draw(0.4, 3, 5, 6, 9));
    ASSERT_MEM_EQ(y, z, sizeof y);
    PASS();
}

/* The gradient goes through the very elements the forward let through. */
TEST backward_is_the_same_call(void)
{
    posenc_dropout how = draw(0.4, 3, 5, 6, 9);
    mask(y, 1000, how);
    fill_random(z, 1000);
    for (int i = 0; i < 1000; i++) ones[i] = z[i] * y[i];
    posenc_dropout_apply(z, z, 1000, how);
    ASSERT_CLOSE(ones, z, 1000, 1e-6);
    PASS();
}

SUITE(philox)
{
    static const char *name[] = { "for_zeros", "for_ones", "for_pi" };
    for (int i = 0; i < 3; i++) {
        label_test("%s", name[i]);
        RUN_TESTp(philox_gives_the_published_words, i);
    }
}

SUITE(dropout_masks)
{
    static const double rate[] = { 0.01, 0.1, 0.5, 0.9 };
    /* 17179869184 = 4 * 2^32 */
    static const uint64_t first[] = { 0, 2, 4294967295u, 17179869183u };
    for (int i = 0; i < 4; i++) {
        label_test("%g", rate[i]); RUN_TESTp(dropout_drops_the_share_it_was_asked_for, rate[i]);
        label_test("%g", rate[i]); RUN_TESTp(dropout_keeps_the_mean, rate[i]);
        label_test("from_%.0f", (double)first[i]);
        RUN_TESTp(dropout_uses_the_documented_counter, first[i]);
        label_test("from_%.0f", (double)first[i]);
        RUN_TESTp(mask_does_not_depend_on_where_the_batch_is_cut, first[i]);
    }
    label_test("for_another_seed");  RUN_TESTp(dropout_masks_are_unrelated, draw(0.5, 8, 1, 2, 0));
    label_test("for_a_seed_that_differs_high_up");
    RUN_TESTp(dropout_masks_are_unrelated, draw(0.5, 7 + ((uint64_t)1 << 40), 1, 2, 0));
    label_test("for_another_step");  RUN_TESTp(dropout_masks_are_unrelated, draw(0.5, 7, 2, 2, 0));
    label_test("for_another_site");  RUN_TESTp(dropout_masks_are_unrelated, draw(0.5, 7, 1, 3, 0));
    label_test("for_another_place"); RUN_TESTp(dropout_masks_are_unrelated, draw(0.5, 7, 1, 2, N));
    label_test("1");    RUN_TESTp(neighbours_in_a_mask_are_unrelated, 1);
    label_test("4");    RUN_TESTp(neighbours_in_a_mask_are_unrelated, 4);
    label_test("1024"); RUN_TESTp(neighbours_in_a_mask_are_unrelated, 1024);
    RUN_TEST(same_numbers_give_the_same_mask);
    RUN_TEST(backward_is_the_same_call);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(philox);
    RUN_SUITE(dropout_masks);
    GREATEST_MAIN_END();
}
