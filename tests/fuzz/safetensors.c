/* kit/safetensors.h: any file is read or refused, and of what was read every number can be had. */
#define _DEFAULT_SOURCE
#include "fuzz.h"
#include "kit/safetensors.h"

static void read_all(const kit_tensors *set)
{
    kit_error why;
    float x[64];
    for (size_t i = 0; i < set->count; i++) {
        const kit_tensor *t = &set->tensor[i];
        FUZZ_HOLDS(kit_tensors_find(set, t->name) == t);
        FUZZ_HOLDS(!kit_tensor_floats(set, t, t->count, 1, x, &why));
        for (uint64_t at = 0; at < t->count && t->type < KIT_DTYPES_READ; at += 64) {
            size_t n = t->count - at < 64 ? (size_t)(t->count - at) : 64;
            FUZZ_HOLDS(kit_tensor_floats(set, t, at, n, x, &why));
        }
    }
}

static void open_file(const uint8_t *file, size_t n, int map)
{
    const char *path = fuzz_file("model.safetensors", file, n);
    kit_tensors set;
    kit_error why;
    why.text[0] = 0;
    if (kit__tensors_open(&set, path, map, &why)) {
        read_all(&set);
        kit_tensors_close(&set);
    } else {
        FUZZ_HOLDS(strstr(why.text, path) && !set.shard && !set.tensor);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint8_t *copy = (uint8_t *)fuzz_string(data, n);
    open_file(copy, n, n % 2);
    if (fuzz_mend_length(copy, n)) open_file(copy, n, n % 2);
    free(copy);
    return 0;
}
