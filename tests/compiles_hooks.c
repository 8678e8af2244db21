/* POSENC_MALLOC, POSENC_FREE and POSENC_ASSERT are really used: allocations are counted, one at a time is
   made to fail, and a broken argument is seen by the assert. */
#include <stdlib.h>

static int live, made, fail_at = -1, complaints;
static void *counting_malloc(size_t bytes)
{
    void *memory = made == fail_at ? NULL : malloc(bytes);
    made++;
    live += memory != NULL;
    return memory;
}
static void counting_free(void *memory)
{
    live -= memory != NULL;
    free(memory);
}
#define POSENC_MALLOC(bytes) counting_malloc(bytes)
#define POSENC_FREE(memory)  counting_free(memory)
#define POSENC_ASSERT(c)     ((c) ? (void)0 : (void)complaints++)
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

int main(void)
{
    posenc_float odd[6] = { 1, 2, 3, 77, 77, 77 };
    posenc_error why;
    double loss;
    int all;

    expect_three_doors();
    all = made;
    EXPECT(all > 0);                                  /* the hooks were called                        */
    EXPECT(live == 0);                                /* and gave everything back                     */
    EXPECT(complaints == 0);

    /* Each allocation fails once: a status with a sentence, nothing left behind. */
    for (int i = 0; i < all; i++) {
        made = 0; fail_at = i;
        why.text[0] = '\0';
        EXPECT(expect_tiny_model(&loss, &why) == POSENC_OUT_OF_MEMORY);
        EXPECT(why.text[0] != '\0');
        EXPECT(live == 0);
    }
    fail_at = -1;
    EXPECT(expect_tiny_model(&loss, &why) == POSENC_OK && live == 0);

    /* rope turns pairs, so an odd width breaks its contract. The assert hears of it; with an assert that
       goes on, as this one does, nothing outside the head is written. */
    posenc_rope_forward(posenc_heads_bthd(odd, 1, 1, 1, 3), NULL, POSENC_HALF, 10000.0);
    EXPECT(complaints > 0);
    EXPECT(odd[3] == 77 && odd[4] == 77 && odd[5] == 77);
    return expect_end();
}
