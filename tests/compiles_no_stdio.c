/* POSENC_NO_STDIO leaves the checkpoints out. Every function that could touch a file is given a name that
   no library has, so that one call left in the header does not link; and the names of the checkpoint
   functions are free for others. */
#define fopen   no_such_function_open
#define fclose  no_such_function_close
#define fread   no_such_function_read
#define fwrite  no_such_function_write
#define fseek   no_such_function_seek
#define fflush  no_such_function_flush
#define rename  no_such_function_rename
#define remove  no_such_function_remove
#define POSENC_NO_STDIO
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "expect.h"

static int posenc_model_save(int x) { return x + 1; }
static int posenc_model_load(int x) { return x + 2; }
static int posenc_checkpoint_config(int x) { return x + 3; }

int main(void)
{
    expect_three_doors();
    EXPECT(posenc_model_save(1) + posenc_model_load(1) + posenc_checkpoint_config(1) == 9);
    return expect_end();
}
