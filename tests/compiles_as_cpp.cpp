/* The header is C++11 as well as C99: the implementation compiled by a C++ compiler, its names kept
   free of C++ decoration so that C files can link to them. */
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

namespace other { extern "C" const char *posenc_explain(int); }     /* the plain C name, declared anew */

int main()
{
    expect_three_doors();
    EXPECT(strcmp(posenc_explain(POSENC_BAD_CONFIG), other::posenc_explain(POSENC_BAD_CONFIG)) == 0);
    return expect_end();
}
