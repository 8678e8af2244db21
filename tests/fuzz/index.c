/* kit/safetensors.h: any index beside two good files; nothing but those two is ever opened. */
#define _DEFAULT_SOURCE
#include "fuzz.h"
#include "kit/safetensors.h"

static void make_shard(const char *name, const char *tensor)
{
    char file[200] = { 0 };
    int n = snprintf(file + 8, sizeof file - 8, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[1],"
                     "\"data_offsets\":[0,4]}}", tensor);
    file[0] = (char)n;
    fuzz_file(name, file, 8 + (size_t)n + 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kit_tensors set;
    kit_error why;
    float x;
    if (!fuzz_folder[0]) {
        make_shard("a.safetensors", "x");
        make_shard("b.safetensors", "y");
    }
    fuzz_file("model.safetensors.index.json", data, n);
    why.text[0] = 0;
    if (!kit_tensors_open(&set, fuzz_folder, &why)) {
        FUZZ_HOLDS(strstr(why.text, fuzz_folder));
        return 0;
    }
    FUZZ_HOLDS(set.count == (size_t)set.shards && set.count <= 2);
    for (size_t i = 0; i < set.count; i++)
        FUZZ_HOLDS(kit_tensor_floats(&set, &set.tensor[i], 0, 1, &x, &why) && x == 0);
    kit_tensors_close(&set);
    return 0;
}
