/* posenc.h [9]: any file loads into a small model, or is refused and leaves the model as it was.  */
#define _DEFAULT_SOURCE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "fuzz.h"

#define SMALL "vocab=5 context=4 layers=1 channels=4 heads=2 hidden=4 no_bias=1 norm=rmsnorm " \
              "causal=1 encoding=learned threads=1"
enum { ROOM = 1024 };
static posenc_model *model;

static posenc_model *make_model(const char *text)
{
    char spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_error why;
    posenc_model *m = NULL;
    memset(&c, 0, sizeof c);
    FUZZ_HOLDS(posenc_config_parse(&c, spec, text, &why) == POSENC_OK);
    FUZZ_HOLDS(posenc_model_create(&m, &c, &why) == POSENC_OK);
    FUZZ_HOLDS(3 * posenc_model_numbers(m) <= ROOM);
    return m;
}

/* weights, moments, and the step behind them; the model has not trained, so that is all there is */
static void remember(posenc_float *x)
{
    memset(x, 0, ROOM * sizeof *x);
    for (int i = 0; i < posenc_model_parameters(model); i++) {
        const posenc_tensor *t = posenc_model_parameter(model, i);
        posenc_model_get(model, x, t->data, t->count);
        posenc_model_get(model, x + t->count, t->moment1, t->count);
        posenc_model_get(model, x + 2 * t->count, t->moment2, t->count);
        x += 3 * t->count;
    }
}

static void load(const char *path, int what)
{
    static posenc_float before[ROOM], after[ROOM];
    char note[8];
    posenc_error why;
    uint64_t steps = posenc_model_steps(model), seed = posenc_model_config(model)->seed;
    why.text[0] = 0;
    remember(before);
    posenc_status status = posenc_model_load(model, path, what, note, sizeof note, &why);
    if (status == POSENC_OK) return;
    remember(after);
    FUZZ_HOLDS(status == POSENC_BAD_FILE && strlen(why.text) > 10);
    FUZZ_HOLDS(memcmp(before, after, sizeof before) == 0);
    FUZZ_HOLDS(steps == posenc_model_steps(model) && seed == posenc_model_config(model)->seed);
}

static void open_file(const uint8_t *file, size_t n)
{
    const char *path = fuzz_file("model.safetensors", file, n);
    char spec[POSENC_SPEC_TEXT];
    posenc_config c;
    posenc_error why;
    why.text[0] = 0;
    if (posenc_checkpoint_config(&c, spec, path, &why) != POSENC_OK)
        FUZZ_HOLDS(strlen(why.text) > 10);
    load(path, POSENC_WEIGHTS);
    load(path, POSENC_WEIGHTS_AND_STATE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = (uint8_t *)fuzz_string(data, n);
    if (!model) model = make_model(SMALL);
    open_file(copy, n);
    if (fuzz_mend_length(copy, n)) open_file(copy, n);
    free(copy);
    return 0;
}
