/* POSENC_DETERMINISTIC: plain C fuses multiplication and addition as the SIMD tiers do, and gives the
   same bits. */
#define POSENC_DETERMINISTIC
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

enum { M = 7, N = 19, K = 333 };
static posenc_float a[M * K], b[N * K], plain[M * N], other[M * N];

int main(void)
{
    static const char *tiers[] = { "avx2", "avx512", "neon" };
    for (int i = 0; i < M * K; i++) a[i] = (posenc_float)sin(1.0 + i);
    for (int i = 0; i < N * K; i++) b[i] = (posenc_float)cos(2.0 + 3.0 * i);

    expect_three_doors();
    EXPECT(posenc_use_tier("c") && strcmp(posenc_cpu_tier(), "c") == 0);
    posenc_product(plain, a, b, M, N, K, POSENC_B_T);
    for (int t = 0; t < 3; t++) {
        if (!posenc_use_tier(tiers[t])) continue;     /* this CPU has no such tier                    */
        memset(other, 0, sizeof other);
        posenc_product(other, a, b, M, N, K, POSENC_B_T);
        EXPECT(memcmp(plain, other, sizeof plain) == 0);
    }
    EXPECT(posenc_use_tier(NULL));
    return expect_end();
}
