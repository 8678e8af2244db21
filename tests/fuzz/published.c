/* published/config.h: any config.json is a model we know or is refused with a sentence; what it becomes,
   if it is a small one, can be made and run.                                                     */
#define _DEFAULT_SOURCE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "fuzz.h"
#include "published/config.h"

static void run_published(published *p)
{
    static const int tokens[2] = { 0, 0 };
    posenc_model *m = NULL;
    posenc_bytes bytes;
    posenc_batch batch;
    posenc_error why;
    memset(&batch, 0, sizeof batch);
    batch.B = 1;
    batch.T = 2;
    batch.tokens = tokens;
    p->config.context = 4;
    p->config.inference = 1;
    p->config.threads = 1;
    if (posenc_model_bytes(&bytes, &p->config, &why) != POSENC_OK || bytes.total > (size_t)1 << 20) return;
    if (posenc_model_create(&m, &p->config, &why) == POSENC_OK) posenc_model_forward(m, &batch, &why);
    posenc_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static published p;
    char *text = fuzz_string(data, n);                   /* a copy of its own: overruns are seen */
    kit_error why;
    why.text[0] = 0;
    memset(&p, 0, sizeof p);
    if (kit_json_read(&p.json, "config.json", text, strlen(text), 0, &why) && published_understand(&p, &why))
        run_published(&p);
    else
        FUZZ_HOLDS(strlen(why.text) > 10);
    free(text);
    return 0;
}
