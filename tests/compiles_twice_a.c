/* Two files of one program share the header: this one holds the implementation, compiles_twice_b.c calls
   it. The header was met here before, without the code, as it happens when another header includes it;
   and it is met again after. */
#include "posenc.h"
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "posenc.h"

int calls_from_the_other_file(void);

int main(void)
{
    return calls_from_the_other_file();
}
