/* lm/shards.h: any shard beside any meta.json is read or refused, and of what was read every token
   can be asked for; nothing but the files of the folder is ever opened.

   An input is two files: meta.json up to the first byte 255, which JSON never has, then the shard. A
   header of llm.c is 1,024 bytes long, so one is put in front when the shard begins with an 'L' (its
   count from the bytes behind that), and the rest are the tokens.                                */
#define _DEFAULT_SOURCE
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "fuzz.h"
#include "lm/mix.h"

static char meta_path[320], shard_path[320];

static void remove_files(void)
{
    unlink(meta_path);
    unlink(shard_path);
}

/* 'L', 'l': a header of 16 or 32 bits with the count that follows in two bytes; '=' after it: the
   count that is right */
static void write_shard(const uint8_t *data, size_t n)
{
    uint8_t *file = (uint8_t *)calloc(LM_HEADER + n + 1, 1);
    size_t size = 0;
    if (n >= 3 && (*data == 'L' || *data == 'l')) {
        int wide = *data == 'l';
        uint32_t magic = wide ? LM_MAGIC_32 : LM_MAGIC_16, count = data[1] | (uint32_t)data[2] << 8;
        if (data[1] == '=') count = (uint32_t)((n - 3) / (wide ? 4 : 2));
        for (int i = 0; i < 4; i++) {
            file[i] = (uint8_t)(magic >> 8 * i);
            file[8 + i] = (uint8_t)(count >> 8 * i);
        }
        file[4] = wide ? 7 : 1;
        data += 3;
        n -= 3;
        size = LM_HEADER;
    }
    if (n) memcpy(file + size, data, n);
    fuzz_file("x_train_000000.bin", file, size + n);
    free(file);
}

static void read_all(const lm_data *d)
{
    int token[64];
    kit_error why;
    FUZZ_HOLDS(d->tokens > 0 && d->shards > 0 && d->vocab > 0 && d->eot < d->vocab);
    FUZZ_HOLDS(!lm_data_read(d, token, d->tokens, 1, &why));
    for (uint64_t at = 0; at < d->tokens; at += 50) {
        int n = d->tokens - at < 64 ? (int)(d->tokens - at) : 64;
        why.text[0] = 0;
        int good = lm_data_read(d, token, at, n, &why);
        FUZZ_HOLDS(good || strstr(why.text, "but the vocabulary ends at"));
        for (int i = 0; i < n && good; i++) FUZZ_HOLDS(token[i] >= 0 && token[i] < d->vocab);
    }
    FUZZ_HOLDS(lm_data_sum(d) == lm_data_sum(d));
}

static void draw(const char *split)
{
    static lm_mix m;
    int tokens[16], targets[16];
    kit_error why;
    if (!lm_mix_open(&m, fuzz_folder, split, &why)) return;
    for (uint64_t i = 0; i < 8; i++) lm_mix_sample(&m, tokens, targets, 1 + (int)i, 1, i, &why);
    lm_mix_close(&m);
}

static void open_one(const char *path, const char *split)
{
    lm_data d;
    kit_error why;
    why.text[0] = 0;
    if (!lm_data_open(&d, path, split, &why)) {
        FUZZ_HOLDS(strstr(why.text, fuzz_folder) && !d.shard && !d.shards);
        return;
    }
    for (int i = 0; i < d.shards; i++)
        FUZZ_HOLDS(strncmp(d.shard[i].path, fuzz_folder, strlen(fuzz_folder)) == 0
                   && !strchr(d.shard[i].path + strlen(fuzz_folder) + 1, '/'));
    read_all(&d);
    lm_data_close(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *cut = n ? (const uint8_t *)memchr(data, 255, n) : NULL;
    size_t meta = cut ? (size_t)(cut - data) : 0;
    int first = !fuzz_folder[0];
    snprintf(meta_path, sizeof meta_path, "%s", fuzz_file("meta.json", data, meta));
    if (meta == 0) unlink(meta_path);
    write_shard(cut ? cut + 1 : data, cut ? n - meta - 1 : n);
    snprintf(shard_path, sizeof shard_path, "%s/x_train_000000.bin", fuzz_folder);
    if (first) atexit(remove_files);
    open_one(fuzz_folder, "train");
    open_one(fuzz_folder, NULL);
    open_one(shard_path, "val");
    draw("train");
    return 0;
}
