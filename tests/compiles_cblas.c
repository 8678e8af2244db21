/* POSENC_CBLAS gives large products to a BLAS: in every form, with bias and without, they are what the
   definition says; small ones stay with our own kernels. Calls are counted, so that a product which
   never reaches the BLAS is noticed. */
#ifndef POSENC_CBLAS
#define POSENC_CBLAS
#endif
#include <cblas.h>
static int calls;
#define cblas_sgemm(...) (calls++, cblas_sgemm(__VA_ARGS__))
#define cblas_dgemm(...) (calls++, cblas_dgemm(__VA_ARGS__))
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

enum { ROOM = 1100000 };
static posenc_float a[ROOM], b[ROOM], c[ROOM], bias[ROOM];

/* worst difference from the sum in double, as a share of what rounding may do over k terms */
static double off(int m, int n, int k, int form, const posenc_float *plus, double start)
{
    double worst = 0;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        double sum = (plus ? (double)plus[j] : 0.0) + start, here;
        for (int e = 0; e < k; e++)
            sum += (double)a[form & POSENC_A_T ? e * m + i : i * k + e]
                 * (double)b[form & POSENC_B_T ? j * k + e : e * n + j];
        here = fabs(sum - (double)c[i * n + j]) / (1e-7 * (k + 10));
        if (!(here <= worst)) worst = here;
    }
    return worst;
}

int main(void)
{
    static const struct { int m, n, k, by_blas; } size[] = {
        { 120, 130, 110, 1 }, { 7, 19, 33, 0 }, { 1, 1024, 1024, 1 }, { 1024, 1, 1024, 1 },
        { 1024, 1024, 1, 1 }, { 3, 5, 0, 0 },
    };
    expect_three_doors();
    for (int i = 0; i < ROOM; i++) {
        a[i] = (posenc_float)(i * 7919u % 2003u) / 1001 - 1;
        b[i] = (posenc_float)(i * 104729u % 1999u) / 999 - 1;
        bias[i] = (posenc_float)(i * 31337u % 997u) / 498 - 1;
    }
    for (int s = 0; s < (int)(sizeof size / sizeof *size); s++) for (int form = 0; form < 8; form++) {
        int m = size[s].m, n = size[s].n, k = size[s].k;
        calls = 0;
        for (int i = 0; i < m * n; i++) c[i] = (posenc_float)(form & POSENC_ADD ? 0.5 : NAN);
        posenc_product(c, a, b, m, n, k, form);
        EXPECT(off(m, n, k, form, NULL, form & POSENC_ADD ? 0.5 : 0.0) <= 1);
        EXPECT(calls == size[s].by_blas);
    }
    calls = 0;
    posenc_linear_forward(c, a, b, bias, 120, 110, 130);
    EXPECT(calls == 1 && off(120, 130, 110, POSENC_B_T, bias, 0.0) <= 1);
    posenc_linear_forward(c, a, b, NULL, 120, 110, 130);
    EXPECT(calls == 2 && off(120, 130, 110, POSENC_B_T, NULL, 0.0) <= 1);
    return expect_end();
}
