/* POSENC_STATIC keeps everything inside one file. The Makefile compiles this file twice, the second time
   with SECOND_FILE, and links both: each brings the whole implementation, so that a function that is
   not static would be defined twice and would not link. */
#define POSENC_STATIC
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

typedef const char *(*tier_function)(void);
tier_function second_files_tier(void);

#ifdef SECOND_FILE
tier_function second_files_tier(void)
{
    return posenc_cpu_tier;
}
#else
int main(void)
{
    expect_three_doors();
    EXPECT(second_files_tier() != posenc_cpu_tier);                    /* two copies of their own */
    EXPECT(strcmp(second_files_tier()(), posenc_cpu_tier()) == 0);
    return expect_end();
}
#endif
