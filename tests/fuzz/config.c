/* posenc_config_parse: any text is a config or is refused; one that is printed reads as itself, and
   the model it describes, if it is a small one, can be made and run.                             */
#define _DEFAULT_SOURCE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "fuzz.h"

static void run_model(const posenc_config *c)
{
    static const int tokens[4] = { 0, 0, 0, 0 };
    posenc_model *m = NULL;
    posenc_bytes bytes;
    posenc_batch batch;
    posenc_error why;
    memset(&batch, 0, sizeof batch);
    batch.B = 1;
    batch.T = c->context < 4 ? c->context : 4;
    batch.tokens = tokens;
    if (posenc_model_bytes(&bytes, c, &why) != POSENC_OK || bytes.total > (size_t)1 << 20) return;
    if (posenc_model_create(&m, c, &why) == POSENC_OK) posenc_model_forward(m, &batch, &why);
    posenc_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char spec[POSENC_SPEC_TEXT], again[POSENC_SPEC_TEXT];
    static char one[3 * POSENC_SPEC_TEXT], two[3 * POSENC_SPEC_TEXT];
    char *text = fuzz_string(data, n);
    posenc_config c, d;
    posenc_error why;
    why.text[0] = 0;
    memset(&c, 0, sizeof c);
    memset(&d, 0, sizeof d);
    if (posenc_config_parse(&c, spec, text, &why) != POSENC_OK) {
        FUZZ_HOLDS(strlen(why.text) > 10);
    } else {
        posenc_config_print(one, sizeof one, &c);
        FUZZ_HOLDS(posenc_config_parse(&d, again, one, &why) == POSENC_OK);
        posenc_config_print(two, sizeof two, &d);
        FUZZ_HOLDS(strcmp(one, two) == 0);
        c.threads = 1;
        run_model(&c);
    }
    free(text);
    return 0;
}
