/* POSENC_DOUBLE makes posenc_float a double, and results are good to double precision, not just wider. */
#define POSENC_DOUBLE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

int main(void)
{
    enum { K = 1000 };
    static posenc_float a[K], b[K];
    posenc_float sum = 0, x = 1.0 / 3.0, y;
    double exact = 0.0;
    for (int k = 0; k < K; k++) { a[k] = 1.0 / (k + 1); b[k] = k % 7 + 0.1; exact += a[k] * b[k]; }

    expect_three_doors();
    EXPECT(sizeof(posenc_float) == sizeof(double));
    posenc_product(&sum, a, b, 1, 1, K, 0);
    EXPECT(expect_near(exact, sum, 1e-11));
    posenc_activation_forward(&y, &x, POSENC_SILU, 1);
    EXPECT(expect_near(x / (1.0 + exp(-x)), y, 1e-13));
    return expect_end();
}
