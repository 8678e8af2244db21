/* hello_rope: you have queries and keys already and want positions in them, nothing else.

       make && build/hello_rope

   One query and one key, five places apart, slide along the sequence together; then the key alone
   moves away. rope turns each pair of channels by an angle that grows with the position, so the first
   four scores agree (only the distance counts) and the last four do not. No table, no set-up, no
   longest length: position one million costs what position 0 costs. */
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include <stdio.h>

static double score(double at_q, double at_k)
{
    float q[8] = { 1, 0, 2, 1, 0, 1, 1, 3 }, k[8] = { 0, 1, 1, 1, 2, 0, 1, 1 };     /* 1 head of 8 */
    double sum = 0;
    posenc_rope_forward(posenc_heads_bthd(q, 1, 1, 1, 8), &at_q, POSENC_HALF, 10000.0);
    posenc_rope_forward(posenc_heads_bthd(k, 1, 1, 1, 8), &at_k, POSENC_HALF, 10000.0);
    for (int d = 0; d < 8; d++) sum += q[d] * k[d];
    return sum;
}

int main(void)
{
    static const double at[8][2] = { { 5, 0 },  { 105, 100 }, { 10005, 10000 }, { 1000005, 1000000 },
                                     { 5, 5 },  { 5, 4 },     { 5, 2 },         { 5, 0 } };
    printf("query at    key at   distance     score\n");
    for (int i = 0; i < 8; i++) {
        if (i == 4) printf("\n");
        printf("%8.0f  %8.0f   %8.0f   %7.4f\n", at[i][0], at[i][1], at[i][0] - at[i][1],
               score(at[i][0], at[i][1]));
    }
    return ferror(stdout) || fflush(stdout) != 0;
}
