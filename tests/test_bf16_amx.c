/* The tests of test_bf16.c once more, with AMX's tile registers played by the few lines below: what the
   kernel loads, multiplies and stores is the same on every machine, the unit itself on few. The play
   also sees to it that the registers are configured before they are used, and given back.          */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#define PLAY static __attribute__((unused))        /* where there is no such kernel, nobody calls */

static __thread float amx_tile[8][16][16];
static __thread int amx_ready;
static int amx_dots;

PLAY void amx_begin(const unsigned char *config)
{
    assert(!amx_ready && config[0] == 1);                       /* palette 1                        */
    for (int t = 0; t < 8; t++) assert(config[16 + 2 * t] == 64 && config[48 + t] == 16);
    memset(amx_tile, 0xFF, sizeof amx_tile);                    /* nobody may count on zeros        */
    amx_ready = 1;
}
PLAY void amx_end(void) { assert(amx_ready); amx_ready = 0; }
PLAY void amx_load(int t, const float *p, long row)
{
    assert(amx_ready);
    for (int r = 0; r < 16; r++) memcpy(amx_tile[t][r], p + r * row, 64);
}
PLAY void amx_store(int t, float *p, long row)
{
    assert(amx_ready);
    for (int r = 0; r < 16; r++) memcpy(p + r * row, amx_tile[t][r], 64);
}
PLAY float amx_half(float word, int upper)                    /* one of the two numbers of a word */
{
    uint32_t u;
    float x;
    memcpy(&u, &word, sizeof u);
    u = upper ? u & 0xFFFF0000u : u << 16;
    memcpy(&x, &u, sizeof x);
    return x;
}
/* sum[m][n] += a[m][k] b[k][n] over 16 words k of two numbers each */
PLAY void amx_dot(int sum, int a, int b)
{
    assert(amx_ready && sum < 4 && a >= 4 && b >= 4);
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++)
            for (int k = 0; k < 16; k++)
                for (int half = 0; half < 2; half++)
                    amx_tile[sum][m][n] += amx_half(amx_tile[a][m][k], half)
                                         * amx_half(amx_tile[b][k][n], half);
    amx_dots = 1;                                               /* written by all, always the same  */
}

#define PE__AMX_TARGET
#define PE__AMX_HERE()           1
#define PE__AMX_BEGIN(c)         amx_begin(c)
#define PE__AMX_END()            amx_end()
#define PE__AMX_ZERO(t)          (assert(amx_ready), memset(amx_tile[t], 0, sizeof amx_tile[t]))
#define PE__AMX_LOAD(t, p, row)  amx_load(t, p, (long)(row))
#define PE__AMX_DOT(t, a, b)     amx_dot(t, a, b)
#define PE__AMX_STORE(t, p, row) amx_store(t, p, (long)(row))
#define POSENC_IMPLEMENTATION
#define EMULATED_AMX
#include "test_bf16.c"
