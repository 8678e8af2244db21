/* The other half of compiles_twice_a.c: declarations alone, included twice, and all the calls. */
#include "posenc.h"
#include "posenc.h"
#include "expect.h"

int calls_from_the_other_file(void);

int calls_from_the_other_file(void)
{
    expect_three_doors();
    EXPECT(posenc_encoding_get(POSENC_ROPE) && strcmp(posenc_encoding_get(POSENC_ROPE)->name, "rope") == 0);
    return expect_end();
}
