/* POSENC_NO_SIMD removes the kernels: plain C is the only tier, and no intrinsics header is included. */
#ifndef POSENC_NO_SIMD
#define POSENC_NO_SIMD
#endif
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

int main(void)
{
    expect_three_doors();
    EXPECT(strcmp(posenc_cpu_tier(), "c") == 0);
    EXPECT(!posenc_use_tier("avx2") && !posenc_use_tier("avx512") && !posenc_use_tier("neon"));
    EXPECT(posenc_use_tier("c") && posenc_use_tier(NULL));
    EXPECT(strcmp(posenc_cpu_tier(), "c") == 0);
#if defined(_IMMINTRIN_H_INCLUDED) || defined(__IMMINTRIN_H) || \
    defined(_AARCH64_NEON_H_) || defined(__ARM_NEON_H)
    EXPECT(!"an intrinsics header was included");
#endif
    return expect_end();
}
