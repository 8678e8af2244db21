/* The language-model demo's data: files of every kind read as one row, the writer's bytes, mixing,
   and samples that are a function of their number; text that becomes shards; shards from elsewhere;
   files that lie, and files that change while they are read.                                     */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include "lm/fetch.h"
#include "lm/mix.h"
#include "lm/prepare.h"

static char folder[200], path[KIT_PATH];
static kit_error why;
static lm_data d;

/* ---- files ----------------------------------------------------------------------------------- */

/* folder/name, in `path` too; folders of the name are made */
static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int write_file(const char *name, const void *bytes, size_t n)
{
    char up[KIT_PATH];
    snprintf(up, sizeof up, "%s", at(name));
    *strrchr(up, '/') = 0;
    if (!kit_make_folders(up, &why)) return 0;
    remove(at(name));
    FILE *f = fopen(path, "wb");
    int good = f && (n == 0 || fwrite(bytes, 1, n, f) == n);
    if (f && fclose(f) != 0) good = 0;
    return good;
}

static int write_text(const char *name, const char *text) { return write_file(name, text, strlen(text)); }

static void put_number(kit_text *t, uint32_t x, int width)
{
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(x >> 8 * i);
    kit_put_bytes(t, bytes, (size_t)width);
}

static void put_header(kit_text *t, uint32_t magic, uint32_t version, uint32_t count)
{
    put_number(t, magic, 4);
    put_number(t, version, 4);
    put_number(t, count, 4);
    for (int i = 3; i < 256; i++) put_number(t, 0, 4);
}

/* tokens first, first + 1, ... modulo the vocabulary; magic 0: headerless */
static int write_tokens(const char *name, uint32_t magic, int width, uint32_t first, int n, uint32_t vocab)
{
    kit_text t = { NULL, 0, 0 };
    if (magic) put_header(&t, magic, magic == LM_MAGIC_32 ? 7 : 1, (uint32_t)n);
    for (int i = 0; i < n; i++) put_number(&t, (first + (uint32_t)i) % vocab, width);
    int good = write_file(name, t.data, t.size);
    kit_text_free(&t);
    return good;
}

static int is_counting(const lm_data *data, uint32_t first)
{
    int token[64];
    for (uint64_t i = 0; i < data->tokens; i += 64) {
        int n = data->tokens - i < 64 ? (int)(data->tokens - i) : 64;
        if (!lm_data_read(data, token, i, n, &why)) return 0;
        for (int k = 0; k < n; k++)
            if (token[k] != (int)((first + i + (uint64_t)k) % (uint64_t)data->vocab)) return 0;
    }
    return 1;
}

static int refused(const char *name, const char *split, const char *said1, const char *said2)
{
    lm_data other;
    why.text[0] = 0;
    if (lm_data_open(&other, name, split, &why)) {
        lm_data_close(&other);
        snprintf(check_text, sizeof check_text, "%.200s was read", name);
        return 0;
    }
    snprintf(check_text, sizeof check_text, "it said: %.380s", why.text);
    return strstr(why.text, said1) && strstr(why.text, said2) && !other.shard;
}

/* ---- every kind ------------------------------------------------------------------------------ */

TEST llm_c_shards_are_read(void)
{
    ASSERT(write_tokens("a/x_train_000001.bin", LM_MAGIC_16, 2, 50200, 500, 50257));
    ASSERTm(why.text, lm_data_open(&d, at("a/x_train_000001.bin"), NULL, &why));
    ASSERT(d.tokens == 500 && d.vocab == 50257 && d.eot == 50256 && d.window == 0);
    ASSERT(is_counting(&d, 50200));
    lm_data_close(&d);
    ASSERT(write_tokens("a/y.bin", LM_MAGIC_32, 4, 128200, 300, 128256));
    ASSERTm(why.text, lm_data_open(&d, at("a/y.bin"), "val", &why));
    ASSERT(d.tokens == 300 && d.vocab == 128256 && d.eot == 128000);
    ASSERT(is_counting(&d, 128200));
    lm_data_close(&d);
    PASS();
}

TEST headerless_shards_are_read_where_meta_json_lists_them(int width)
{
    const char *meta = width == 2
        ? "{\"split\":\"train\",\"shard_range\":[0,880],\"total_tokens\":700,\"total_docs\":3,\"num_shards\":2,"
          "\"shard_size\":400,\"dtype\":\"uint16\",\"vocab_size\":65536,"
          "\"shards\":[\"train_w00_0000.bin\",\"train_w01_0000.bin\"]}"
        : "{\"num_shards\":2,\"dtype\":\"uint32\",\"vocab_size\":100000,\"eot\":5,"
          "\"shards\":[\"train_w00_0000.bin\",{\"name\":\"train_w01_0000.bin\",\"tokens\":300}]}";
    uint32_t vocab = width == 2 ? 65536 : 100000;
    ASSERT(write_text("h/train/meta.json", meta));
    ASSERT(write_tokens("h/train/train_w00_0000.bin", 0, width, vocab - 100, 400, vocab));
    ASSERT(write_tokens("h/train/train_w01_0000.bin", 0, width, 300, 300, vocab));
    ASSERTm(why.text, lm_data_open(&d, at("h/train"), NULL, &why));
    ASSERT(d.tokens == 700 && d.vocab == (int)vocab && d.shards == 2 && d.eot == (width == 2 ? -1 : 5));
    ASSERT(is_counting(&d, vocab - 100));
    lm_data_close(&d);
    ASSERTm(why.text, lm_data_open(&d, at("h"), "train", &why));       /* a folder for each split */
    ASSERT_EQ(d.tokens, 700);
    lm_data_close(&d);
    ASSERT(lm_data_open(&d, at("h/train/train_w01_0000.bin"), "val", &why));      /* named: taken */
    ASSERT_EQ(d.tokens, 300);
    lm_data_close(&d);
    ASSERTm(check_text, refused(at("h/train"), "val", "none of the split val", "2 shards"));
    ASSERTm(check_text, refused(at("h"), "val", "holds no shards", "lm prepare"));
    PASS();
}

TEST any_other_file_is_bytes(void)
{
    static const char text[] = "The\xc3\xa9 quick\0brown";
    int token[32];
    ASSERT(write_file("t/text", text, sizeof text));
    ASSERT(lm_data_open(&d, at("t/text"), NULL, &why));
    ASSERT(d.tokens == sizeof text && d.vocab == 256 && d.eot == 0);
    ASSERT(lm_data_read(&d, token, 0, (int)sizeof text, &why));
    for (size_t i = 0; i < sizeof text; i++) ASSERT_EQ(token[i], (unsigned char)text[i]);
    lm_data_close(&d);
    ASSERT(write_text("t/meta.json", "{\"shards\": nonsense"));   /* is not about a text */
    ASSERT(lm_data_open(&d, at("t/text"), NULL, &why));
    lm_data_close(&d);
    for (size_t n = 1; n < 5; n++) {
        ASSERT(write_file("t/short", text, n));
        ASSERT(lm_data_open(&d, at("t/short"), NULL, &why));
        ASSERT_EQ(d.tokens, n);
        lm_data_close(&d);
    }
    PASS();
}

TEST a_folder_gives_the_shards_of_a_split(void)
{
    ASSERT(write_tokens("s/set_val_000000.bin", LM_MAGIC_16, 2, 7, 10, 50257));
    ASSERT(write_tokens("s/set_train_000002.bin", LM_MAGIC_16, 2, 25, 30, 50257));
    ASSERT(write_tokens("s/set_train_000001.bin", LM_MAGIC_16, 2, 5, 20, 50257));
    ASSERT(write_text("s/readme.txt", "not a shard"));
    ASSERT(lm_data_open(&d, at("s"), "train", &why));
    ASSERT(d.tokens == 50 && is_counting(&d, 5));
    lm_data_close(&d);
    ASSERT(lm_data_open(&d, at("s/"), "validation", &why));
    ASSERT(d.tokens == 10 && is_counting(&d, 7));
    lm_data_close(&d);
    ASSERT(lm_data_open(&d, at("s"), NULL, &why));
    ASSERT_EQ(d.tokens, 60);
    lm_data_close(&d);
    ASSERT(write_tokens("n/one.bin", LM_MAGIC_16, 2, 0, 10, 50257));
    ASSERT(write_tokens("n/two.bin", LM_MAGIC_16, 2, 10, 10, 50257));
    ASSERT(lm_data_open(&d, at("n"), "val", &why));         /* no name has a split: all of them */
    ASSERT(d.tokens == 20 && is_counting(&d, 0));
    lm_data_close(&d);
    PASS();
}

TEST splits_are_words_of_names(void)
{
    ASSERT(lm__same(lm__split_of("train.bin"), "train"));
    ASSERT(lm__same(lm__split_of("edu_fineweb_val_000000.bin"), "val"));
    ASSERT(lm__same(lm__split_of("train_w00_0000.bin"), "train"));
    ASSERT(lm__same(lm__split_of("test_train_000000.bin"), "train"));
    ASSERT(lm__same(lm__split_of("x-validation.bin"), "val"));
    ASSERT(lm__split_of("trainer_000000.bin") == NULL);
    ASSERT(lm__split_of("strain_value.bin") == NULL);
    PASS();
}

/* ---- one row --------------------------------------------------------------------------------- */

TEST windows_cross_the_borders_of_shards(void)
{
    static const int length[4] = { 10, 1, 7, 13 };
    kit_text list = { NULL, 0, 0 };
    int token[32], first = 0;
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "b/%d.bin", i);
        ASSERT(write_tokens(name, LM_MAGIC_16, 2, (uint32_t)first, length[i], 50257));
        kit_put(&list, "%s%s", i ? "," : "", at(name));
        first += length[i];
    }
    ASSERTm(why.text, lm_data_open(&d, list.data, NULL, &why));
    ASSERT_EQ(d.tokens, 31);
    for (int from = 0; from <= 31; from++)
        for (int n = 0; n <= 31 - from; n++) {
            memset(token, 0xff, sizeof token);
            ASSERT(lm_data_read(&d, token, (uint64_t)from, n, &why));
            for (int i = 0; i < n; i++) ASSERT_EQ(token[i], from + i);
            ASSERT_EQ(token[n], -1);
        }
    ASSERT(!lm_data_read(&d, token, 0, 32, &why) && strstr(why.text, "31 tokens"));
    ASSERT(!lm_data_read(&d, token, 31, 1, &why));
    ASSERT(!lm_data_read(&d, token, UINT64_MAX, 2, &why));          /* at + n wraps round */
    ASSERT(!lm_data_read(&d, token, 0, -1, &why));
    lm_data_close(&d);
    kit_text_free(&list);
    PASS();
}

/* A file with a hole takes no room on the disk. */
TEST places_beyond_4_GB_are_found(void)
{
    const uint64_t tokens = 3000000000u;
    unsigned char two[2] = { 0x39, 0x30 };
    int token[3];
    ASSERT(write_text("far/meta.json", "{\"dtype\":\"uint16\",\"vocab_size\":20000,\"shards\":[\"f.bin\"]}"));
    int file = open(at("far/f.bin"), O_WRONLY | O_CREAT, 0666);
    int made = file >= 0 && ftruncate(file, (off_t)(2 * tokens)) == 0
            && pwrite(file, two, 2, (off_t)(2 * (tokens - 2))) == 2;
    if (file >= 0) close(file);
    if (!made || !lm_data_open(&d, at("far"), NULL, &why)) SKIPm("no room for a file of 6 GB");
    ASSERT_EQ(d.tokens, tokens);
    ASSERT(lm_data_read(&d, token, tokens - 3, 3, &why));
    ASSERT(token[0] == 0 && token[1] == 12345 && token[2] == 0);
    lm_data_close(&d);
    unlink(path);
    PASS();
}

TEST a_token_beyond_the_vocabulary_is_named(void)
{
    int token[8];
    ASSERT(write_text("v/meta.json", "{\"dtype\":\"uint16\",\"vocab_size\":256,\"shards\":[\"a.bin\",\"b.bin\"]}"));
    ASSERT(write_tokens("v/a.bin", 0, 2, 0, 10, 65536));
    ASSERT(write_tokens("v/b.bin", 0, 2, 250, 10, 65536));
    ASSERT(lm_data_open(&d, at("v"), NULL, &why));
    ASSERT(lm_data_read(&d, token, 8, 8, &why) && token[7] == 255);
    ASSERT(!lm_data_read(&d, token, 9, 8, &why));
    ASSERTm(why.text, strstr(why.text, "v/b.bin: token 6 is 256, but the vocabulary ends at 255"));
    lm_data_close(&d);
    PASS();
}

TEST a_fingerprint_knows_other_data(void)
{
    char bytes[5000];
    uint64_t sum;
    memset(bytes, 'x', sizeof bytes);
    ASSERT(write_file("f/one", bytes, sizeof bytes) && lm_data_open(&d, at("f/one"), NULL, &why));
    sum = lm_data_sum(&d);
    lm_data_close(&d);
    ASSERT(write_file("f/moved", bytes, sizeof bytes) && lm_data_open(&d, at("f/moved"), NULL, &why));
    ASSERT_EQ(lm_data_sum(&d), sum);
    lm_data_close(&d);
    ASSERT(write_file("f/short", bytes, sizeof bytes - 1) && lm_data_open(&d, at("f/short"), NULL, &why));
    ASSERT(lm_data_sum(&d) != sum);
    lm_data_close(&d);
    bytes[sizeof bytes - 1] = 'y';
    ASSERT(write_file("f/other", bytes, sizeof bytes) && lm_data_open(&d, at("f/other"), NULL, &why));
    ASSERT(lm_data_sum(&d) != sum);
    lm_data_close(&d);
    ASSERT(write_file("f/tiny", bytes, 1) && lm_data_open(&d, at("f/tiny"), NULL, &why));
    ASSERT(lm_data_sum(&d) != sum);
    lm_data_close(&d);
    PASS();
}

/* ---- files that lie -------------------------------------------------------------------------- */

static const struct bad_shard {
    const char *name;
    uint32_t magic, version, count;
    size_t size;                                        /* of the file, the header in it */
    const char *said1, *said2;
} bad_shards[] = {
    { "count_more", LM_MAGIC_16, 1, 101, 1224, "has 1224 bytes, but its header says 101", "cut short" },
    { "count_less", LM_MAGIC_16, 1, 99, 1224, "99 tokens, which are 1222", "added to" },
    { "odd", LM_MAGIC_16, 1, 100, 1225, "has 1225 bytes", "added to" },
    { "none", LM_MAGIC_16, 1, 0, 1024, "has 0 for its number of tokens", "" },
    { "negative", LM_MAGIC_16, 1, 0xffffffffu, 1224, "has 4294967295 for its number", "2147483647" },
    { "huge", LM_MAGIC_16, 1, 0x7fffffffu, 1224, "2147483647 tokens, which are 4294968318", "cut short" },
    { "huge_32", LM_MAGIC_32, 7, 0x7fffffffu, 1224, "8589935612", "cut short" },
    { "header_short", LM_MAGIC_16, 1, 0, 1023, "has 1023 bytes", "header alone takes 1024" },
    { "header_four", LM_MAGIC_16, 1, 0, 4, "has 4 bytes", "header alone takes 1024" },
    { "version_2", LM_MAGIC_16, 2, 100, 1224, "of version 2", "version 1 is read" },
    { "version_1", LM_MAGIC_32, 1, 100, 1424, "of version 1", "version 7 is read" },
    { "choices", 20240522, 1, 5, 1224, "multiple-choice file of llm.c", "not tokens" },
    { "model", 20240326, 3, 5, 1224, "is a model of llm.c", "not tokens" },
    { "words", 20240328, 1, 5, 1224, "is a tokenizer of llm.c", "not tokens" },
    { "gz", 0x00088b1f, 0, 0, 1224, "is compressed", "lm prepare" },
    { "empty", 0, 0, 0, 0, "is empty", "" }
};

TEST bad_shard_is_refused(const struct bad_shard *b)
{
    kit_text t = { NULL, 0, 0 };
    put_header(&t, b->magic, b->version, b->count);
    for (int i = 0; i < 100; i++) put_number(&t, 1, 4);
    ASSERT(write_file("bad/shard.bin", t.data, b->size));
    kit_text_free(&t);
    ASSERTm(check_text, refused(at("bad/shard.bin"), NULL, b->said1, b->said2));
    ASSERTm(why.text, strstr(why.text, path));
    PASS();
}

#define GOOD "\"dtype\":\"uint16\",\"vocab_size\":300,\"shards\":[\"x.bin\"]}"
static const struct bad_meta { const char *name, *text, *said1, *said2; } bad_metas[] = {
    { "not_json", "{\"shards\":[", "meta.json, line 1", "expected" },
    { "no_list", "{\"shards\":5}", "shards is 5", "expected a list" },
    { "number", "{\"dtype\":\"uint16\",\"shards\":[7]}", "a shard is a whole number", "name of a file" },
    { "above", "{\"dtype\":\"uint16\",\"shards\":[\"../x.bin\"]}", "'../x.bin'", "plain name" },
    { "root", "{\"dtype\":\"uint16\",\"shards\":[\"/etc/passwd\"]}", "'/etc/passwd'", "plain name" },
    { "inside", "{\"dtype\":\"uint16\",\"shards\":[{\"name\":\"a/x.bin\"}]}", "'a/x.bin'", "plain name" },
    { "back", "{\"dtype\":\"uint16\",\"shards\":[\"a\\\\x.bin\"]}", "'a\\x.bin'", "plain name" },
    { "dots", "{\"dtype\":\"uint16\",\"shards\":[\"..\"]}", "'..'", "plain name" },
    { "nameless", "{\"dtype\":\"uint16\",\"shards\":[\"\"]}", "''", "plain name" },
    { "steers", "{\"dtype\":\"uint16\",\"shards\":[\"\\u001b[31m\"]}", "'?[31m'", "plain name" },
    { "zero", "{\"dtype\":\"uint16\",\"shards\":[\"x\\u0000.bin\"]}", "a shard is a text", "name of a file" },
    { "missing", "{\"dtype\":\"uint16\",\"shards\":[\"x.bin\",\"z.bin\"]}", "z.bin", "No such file" },
    { "twice", "{\"dtype\":\"uint16\",\"shards\":[\"x.bin\",\"x.bin\"]}", "x.bin is listed twice", "" },
    { "none", "{\"dtype\":\"uint16\",\"shards\":[]}", "holds no shards", "" },
    { "type", "{\"dtype\":\"float32\",\"shards\":[\"x.bin\"]}", "dtype is float32", "expected uint16" },
    { "typeless", "{\"shards\":[\"x.bin\"]}", "x.bin", "does not say its dtype" },
    { "type_number", "{\"dtype\":16,\"shards\":[\"x.bin\"]}", "dtype is 16", "expected a text" },
    { "wide", "{\"dtype\":\"uint32\",\"shards\":[\"x.bin\"]}", "x.bin", "does not say its vocab_size" },
    { "odd", "{\"dtype\":\"uint32\",\"vocab_size\":9,\"shards\":[\"y.bin\"]}", "y.bin has 42 bytes",
      "no whole tokens of 4" },
    { "vocab_zero", "{\"vocab_size\":0,\"dtype\":\"uint16\",\"shards\":[\"x.bin\"]}", "vocab_size is 0", "1 to" },
    { "vocab_huge", "{\"vocab_size\":4294967296,\"shards\":[]}", "vocab_size is 4294967296", "" },
    { "vocab_real", "{\"vocab_size\":1e3,\"shards\":[]}", "vocab_size is 1e3", "whole number" },
    { "eot", "{\"eot\":300," GOOD, "x.bin: eot is 300", "ends at 299" },
    { "eot_bytes", "{\"eot\":256,\"dtype\":\"uint8\",\"shards\":[\"x.bin\"]}", "eot is 256", "ends at 255" },
    { "eot_less", "{\"eot\":-2," GOOD, "eot is -2", "" },
    { "window", "{\"window\":3," GOOD, "x.bin has 40 tokens", "no whole windows of 3" },
    { "window_1", "{\"window\":1," GOOD, "window of 1 token", "" },
    { "window_less", "{\"window\":-5," GOOD, "window is -5", "" },
    { "many", "{\"num_shards\":2," GOOD, "1 shards are listed and 2 announced", "20000" },
    { "tokens", "{\"dtype\":\"uint16\",\"shards\":[{\"name\":\"x.bin\",\"tokens\":41}]}",
      "x.bin has 40 tokens", "meta.json says 41" },
    { "total", "{\"total_tokens\":41,\"dtype\":\"uint16\",\"shards\":[{\"name\":\"x.bin\",\"tokens\":40}]}",
      "total_tokens is 41", "have 40" },
    { "wraps", "{\"dtype\":\"uint16\",\"shards\":[{\"name\":\"x.bin\",\"tokens\":18446744073709551615},"
      "{\"name\":\"y.bin\",\"tokens\":41}]}", "more than 2^64", "" },
    { "lies", "{\"dtype\":\"uint32\",\"vocab_size\":300,\"shards\":[\"m.bin\"]}", "m.bin is llm.c uint16",
      "tokens of 4 bytes" }
};

static int write_for_meta(void)
{
    return write_tokens("m/x.bin", 0, 2, 0, 40, 300) && write_tokens("m/y.bin", 0, 2, 0, 21, 300)
        && write_tokens("m/m.bin", LM_MAGIC_16, 2, 0, 40, 300);
}

TEST bad_meta_is_refused(const struct bad_meta *b)
{
    ASSERT(write_for_meta() && write_text("m/meta.json", b->text));
    ASSERTm(check_text, refused(at("m"), NULL, b->said1, b->said2));
    ASSERTm(why.text, strstr(why.text, folder));
    PASS();
}

TEST the_same_files_are_read_where_meta_json_is_right(void)
{
    ASSERT(write_for_meta());
    ASSERT(write_text("m/meta.json", "{\"eot\":299,\"window\":8,\"num_shards\":1,\"total_tokens\":99," GOOD));
    ASSERTm(why.text, lm_data_open(&d, at("m"), NULL, &why));
    ASSERT(d.tokens == 40 && d.window == 8 && d.vocab == 300 && d.eot == 299);
    lm_data_close(&d);
    ASSERT(write_text("m/meta.json", "{\"vocab_size\":300,\"shards\":[\"m.bin\"]}"));
    ASSERTm(why.text, lm_data_open(&d, at("m"), NULL, &why));
    ASSERT(d.tokens == 40 && d.vocab == 300 && d.eot == -1);
    lm_data_close(&d);
    ASSERT(write_text("m/meta.json", "{\"vocab_size\":50257,\"shards\":[\"m.bin\"]}"));
    ASSERT(lm_data_open(&d, at("m"), NULL, &why) && d.eot == 50256);
    lm_data_close(&d);
    PASS();
}

TEST a_meta_json_of_megabytes_or_depths_is_refused(void)
{
    kit_text t = { NULL, 0, 0 };
    ASSERT(write_for_meta());
    kit_put_string(&t, "{\"shards\":");
    for (int i = 0; i < 100000; i++) kit_put_string(&t, "[");
    ASSERT(write_file("m/meta.json", t.data, t.size));
    ASSERTm(check_text, refused(at("m"), NULL, "nested deeper", "meta.json"));
    while (t.size <= LM_META_BYTES) kit_put_string(&t, "                                ");
    ASSERT(write_file("m/meta.json", t.data, t.size));
    ASSERTm(check_text, refused(at("m"), NULL, "at most 4194304 are read", "meta.json"));
    t.size = 0;
    kit_put_string(&t, "{\"shards\":[");
    for (int i = 0; i <= LM_SHARDS; i++) kit_put(&t, "%s\"%d\"", i ? "," : "", i);
    kit_put_string(&t, "]}");
    ASSERT(write_file("m/meta.json", t.data, t.size));
    ASSERTm(check_text, refused(at("m"), NULL, "20001 shards are listed", "at most 20000"));
    kit_text_free(&t);
    PASS();
}

TEST what_is_no_file_is_refused(void)
{
    ASSERTm(check_text, refused(at("nowhere"), NULL, "cannot open", "No such file"));
    ASSERTm(check_text, refused("", NULL, "0 letters", ""));
    ASSERTm(check_text, refused("/dev/null", NULL, "/dev/null is a device or a pipe", ""));
    ASSERT(kit_make_folders(at("e/folder.bin"), &why));
    ASSERTm(check_text, refused(at("e"), NULL, "folder.bin is a folder", "not a plain file"));
    ASSERT(kit_make_folders(at("e2"), &why) && mkfifo(at("e2/pipe.bin"), 0666) == 0);
    ASSERTm(check_text, refused(at("e2"), NULL, "pipe.bin is a device or a pipe", ""));
    ASSERT(kit_make_folders(at("e3"), &why));
    ASSERTm(check_text, refused(at("e3"), "train", "holds no shards", "lm prepare"));
    PASS();
}

TEST shards_of_two_vocabularies_are_no_row(void)
{
    char list[2 * KIT_PATH];
    ASSERT(write_text("r/text", "abc") && write_tokens("r/x.bin", LM_MAGIC_16, 2, 0, 9, 300));
    snprintf(list, sizeof list, "%s/r/text,%s/r/x.bin", folder, folder);
    ASSERTm(check_text, refused(list, NULL, "vocabulary 256, begin 0", "50257, 50256"));
    PASS();
}

/* ---- files that change ----------------------------------------------------------------------- */

TEST a_shard_that_is_cut_short_is_a_sentence(void)
{
    int token[8];
    ASSERT(write_tokens("c/x.bin", LM_MAGIC_16, 2, 0, 40000, 50257));
    ASSERT(lm_data_open(&d, at("c/x.bin"), NULL, &why));
    ASSERT(lm_data_read(&d, token, 39990, 8, &why));
    ASSERT_EQ(truncate(at("c/x.bin"), 2000), 0);
    ASSERT(!lm_data_read(&d, token, 39990, 8, &why));
    ASSERTm(why.text, strstr(why.text, "c/x.bin has changed") && strstr(why.text, "81024 bytes and has 2000"));
    ASSERT_EQ(unlink(at("c/x.bin")), 0);
    ASSERT(!lm_data_read(&d, token, 0, 8, &why));
    ASSERTm(why.text, strstr(why.text, "is not any more: No such file"));
    ASSERT(write_tokens("c/x.bin", LM_MAGIC_16, 2, 1, 40000, 50257));
    ASSERT(!lm_data_read(&d, token, 0, 8, &why));
    ASSERTm(why.text, strstr(why.text, "in another file"));
    lm_data_close(&d);
    PASS();
}

/* ---- the writer ------------------------------------------------------------------------------ */

static int same_file(const char *name, const void *bytes, size_t n)
{
    kit_text t = { NULL, 0, 0 };
    int same = kit_read_file(&t, at(name), 1 << 24, &why) && t.size == n && memcmp(t.data, bytes, n) == 0;
    kit_text_free(&t);
    return same;
}

/* Written out by hand from the format: 20240520 is 0x0134d888. */
TEST the_writer_s_bytes_are_llm_c_s(void)
{
    unsigned char golden[1024 + 6] = { 0x88, 0xd8, 0x34, 0x01, 1, 0, 0, 0, 3 };
    unsigned char golden32[1024 + 4] = { 0xa1, 0xd9, 0x34, 0x01, 7, 0, 0, 0, 1 };
    int tokens[3] = { 50256, 1, 513 }, large = 100000;
    lm_writer w[2];
    golden[1024] = 0x50; golden[1025] = 0xc4; golden[1026] = 1; golden[1028] = 1; golden[1029] = 2;
    golden32[1024] = 0xa0; golden32[1025] = 0x86; golden32[1026] = 1;
    ASSERT(lm_folder_ready(at("w"), 0, &why));
    ASSERT(lm_writer_open(&w[0], path, "set", "train", 50257, 50256, 0, 100, &why));
    ASSERT(lm_writer_put(&w[0], tokens, 3, &why));
    ASSERT(!kit_exists(at("w/set_train_000000.bin")));          /* not before all is there */
    ASSERT(lm_writers_commit(w, 1, "gpt2", &why));
    lm_writers_close(w, 1);
    ASSERT(same_file("w/set_train_000000.bin", golden, sizeof golden));
    ASSERT(lm_folder_ready(at("w32"), 0, &why));
    ASSERT(lm_writer_open(&w[1], path, "set", "val", 128256, 128000, 0, 100, &why));
    ASSERT(lm_writer_put(&w[1], &large, 1, &why) && lm_writers_commit(&w[1], 1, "tokens", &why));
    lm_writers_close(&w[1], 1);
    ASSERT(same_file("w32/set_val_000000.bin", golden32, sizeof golden32));
    PASS();
}

static int count_files(const char *name)
{
    lm__names l;
    int n = lm__names_list(&l, at(name), "", &why) ? l.count : -1;
    lm__names_free(&l);
    return n;
}

/* 100 tokens in shards of at most 30 (whole windows of 8: 24), 16 for validation */
static int write_set(const char *name, int window, int vocab)
{
    lm_writer w[2];
    int tokens[104];
    const char *where = at(name);
    memset(w, 0, sizeof w);
    for (int i = 0; i < 104; i++) tokens[i] = i % vocab;
    int good = lm_writer_open(&w[0], where, "set", "train", vocab, 0, window, 30, &why)
            && lm_writer_open(&w[1], where, "set", "val", vocab, 0, window, 30, &why)
            && lm_writer_put(&w[0], tokens, window ? 104 : 100, &why) && lm_writer_put(&w[1], tokens, 16, &why)
            && lm_writers_commit(w, 2, "bytes", &why);
    lm_writers_close(w, 2);
    return good;
}

TEST what_was_written_is_read(int window)
{
    const char *name = window ? "ww" : "wp";
    int full = window ? 24 : 30;
    ASSERT(lm_folder_ready(at(name), 0, &why) && write_set(name, window, 256));
    ASSERTm(why.text, lm_data_open(&d, at(name), "train", &why));
    ASSERT(d.tokens == (window ? 104 : 100) && d.vocab == 256 && d.eot == 0 && d.window == window);
    ASSERT_EQ(d.shards, window ? 5 : 4);
    ASSERT_EQ(d.shard[0].tokens, (uint64_t)full);
    ASSERT(is_counting(&d, 0));
    lm_data_close(&d);
    ASSERT(lm_data_open(&d, at(name), "val", &why));
    ASSERT_EQ(d.tokens, 16);
    lm_data_close(&d);
    ASSERT_EQ(count_files(name), window ? 7 : 6);
    PASS();
}

TEST a_folder_with_shards_is_refused_or_replaced(void)
{
    ASSERT(lm_folder_ready(at("again"), 0, &why) && write_set("again", 8, 256));
    ASSERT(write_text("again/notes.bin.txt", "mine"));
    ASSERT(!lm_folder_ready(at("again"), 0, &why) && strstr(why.text, "--replace"));
    ASSERT(lm_folder_ready(at("again"), 1, &why) && write_set("again", 0, 200));
    ASSERT(lm_data_open(&d, at("again"), NULL, &why));
    ASSERT(d.window == 0 && d.vocab == 200 && d.tokens == 116);
    lm_data_close(&d);
    ASSERT_EQ(count_files("again"), 7);           /* 5 shards, meta.json, notes: one of 6 is gone */
    ASSERT(write_text("others/x.bin", "abc"));
    ASSERT(!lm_folder_ready(at("others"), 1, &why) && strstr(why.text, "no meta.json knows"));
    PASS();
}

TEST what_is_not_committed_leaves_nothing(void)
{
    lm_writer w;
    int token = 300, tokens[100] = { 0 };
    ASSERT(lm_folder_ready(at("gone"), 0, &why));
    ASSERT(lm_writer_open(&w, path, "set", "train", 256, 0, 8, 30, &why));
    ASSERT(lm_writer_put(&w, tokens, 99, &why));
    ASSERT(count_files("gone") > 0);
    ASSERT(!lm_writer_put(&w, &token, 1, &why) && strstr(why.text, "token 300"));
    ASSERT(!lm_writers_commit(&w, 1, "bytes", &why) && strstr(why.text, "99 tokens are no whole windows"));
    lm_writers_close(&w, 1);
    ASSERT_EQ(count_files("gone"), 0);
    PASS();
}

/* /dev/full stands where the shard would be: every write says that the disk is full. */
TEST a_full_disk_is_a_sentence(void)
{
    static int tokens[2 * LM__PIECE];
    lm_writer w;
    if (!kit_exists("/dev/full")) SKIP();
    ASSERT(lm_folder_ready(at("full"), 0, &why));
    ASSERT(lm_writer_open(&w, path, "set", "train", 256, 0, 0, LM_SHARD_TOKENS, &why));
    ASSERT_EQ(symlink("/dev/full", at("full/set_train_000000.bin.tmp")), 0);
    ASSERT(!lm_writer_put(&w, tokens, 2 * LM__PIECE, &why));
    ASSERTm(why.text, strstr(why.text, "full/set_train_000000.bin: No space left"));
    lm_writers_close(&w, 1);
    ASSERT_EQ(count_files("full"), 0);
    PASS();
}

/* ---- mixing ---------------------------------------------------------------------------------- */

static lm_mix m;

/* names with their weights, in the test's folder */
static int open_mix(const char *split, const char *one, const char *two, const char *three)
{
    char text[4 * KIT_PATH];
    const char *name[3] = { one, two, three };
    text[0] = 0;
    for (int i = 0; i < 3 && name[i]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s/%s", i ? "," : "", folder, name[i]);
    return lm_mix_open(&m, text, split, &why);
}

static int write_sources(void)
{
    char bytes[4096];
    for (int i = 0; i < 4096; i++) bytes[i] = (char)('a' + i % 7);
    int good = write_file("x/a", bytes, 4000);
    for (int i = 0; i < 4096; i++) bytes[i] = (char)('A' + i % 5);
    return good && write_file("x/b", bytes, 3000) && write_file("x/c", "0123456789", 10);
}

TEST shares_are_exact_and_spread_out(void)
{
    int count[3] = { 0 }, run = 0, longest = 0;
    ASSERT(write_sources() && open_mix(NULL, "x/a:0.7", "x/b:0.2", "x/c:0.1"));
    for (int i = 0; i < LM_CYCLE; i++) {
        int s = lm_mix_source(&m, (uint64_t)i);
        count[s]++;
        for (int k = 0; k < 3; k++)
            ASSERT(fabs(count[k] - m.weight[k] * (i + 1)) < 1);       /* at every moment, not at the end */
        run = s == 0 ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    ASSERT(count[0] == 6300 && count[1] == 1800 && count[2] == 900);
    ASSERT(longest <= 5);                                             /* no blocks */
    for (int i = 0; i < 50; i++) {
        ASSERT_EQ(lm_mix_source(&m, (uint64_t)i), lm_mix_source(&m, (uint64_t)i + LM_CYCLE));
        ASSERT_EQ(lm_mix_source(&m, (uint64_t)i), lm_mix_source(&m, (uint64_t)i + LM_CYCLE * 1000000000000u));
    }
    lm_mix_close(&m);
    PASS();
}

/* sevenths of 9,000 are no whole numbers: 1285.7, 1285.7 and 6428.6 */
TEST odd_shares_are_rounded_to_a_whole_cycle(void)
{
    int count[3] = { 0 };
    ASSERT(open_mix(NULL, "x/a", "x/b", "x/c:5"));
    for (int i = 0; i < LM_CYCLE; i++) count[lm_mix_source(&m, (uint64_t)i)]++;
    ASSERT(count[0] == 1286 && count[1] == 1286 && count[2] == 6428);
    ASSERT_EQ(m.quota[0] + m.quota[1] + m.quota[2], LM_CYCLE);
    lm_mix_close(&m);
    PASS();
}

TEST the_order_of_nine_to_one(void)
{
    static const char order[] = "0000010000" "0000010000";            /* tenths: 5 behind, so at 5 */
    ASSERT(open_mix(NULL, "x/a:9", "x/b", NULL));
    ASSERT_IN_RANGE(0.9, m.weight[0], 1e-12);
    for (int i = 0; i < 20; i++) ASSERT_EQ(lm_mix_source(&m, (uint64_t)i), order[i] - '0');
    lm_mix_close(&m);
    ASSERT(open_mix(NULL, "x/a", "x/b", "x/c"));
    for (int i = 0; i < 30; i++) ASSERT_EQ(lm_mix_source(&m, (uint64_t)i), i % 3);
    lm_mix_close(&m);
    PASS();
}

TEST bad_mixtures_are_refused(void)
{
    char nine[10 * 300] = "";
    ASSERT(!open_mix(NULL, "x/a:0", NULL, NULL) && strstr(why.text, "weight of"));
    ASSERT(!open_mix(NULL, "x/a:-1", NULL, NULL) && strstr(why.text, "'-1'"));
    ASSERT(!open_mix(NULL, "x/a:nan", NULL, NULL) && strstr(why.text, "'nan'"));
    ASSERT(!open_mix(NULL, "x/a:inf", NULL, NULL) && strstr(why.text, "'inf'"));
    ASSERT(!open_mix(NULL, "x/a:", NULL, NULL) && strstr(why.text, "''"));
    ASSERT(!open_mix(NULL, "x/a:1x", NULL, NULL) && strstr(why.text, "'1x'"));
    ASSERT(!open_mix(NULL, "x/a:1", "x/b:1e-9", NULL) && strstr(why.text, "less than one sample in 9000"));
    ASSERT(!open_mix(NULL, "x/a", "x/nowhere", NULL) && strstr(why.text, "nowhere"));
    ASSERT(!open_mix(NULL, "x/a", "r/x.bin", NULL) && strstr(why.text, "vocabulary of 256"));
    ASSERT(!lm_mix_open(&m, "", NULL, &why) && !lm_mix_open(&m, ",", NULL, &why));
    for (int i = 0; i < 9; i++)
        snprintf(nine + strlen(nine), sizeof nine - strlen(nine), "%s%s/x/a", i ? "," : "", folder);
    ASSERT(!lm_mix_open(&m, nine, NULL, &why) && strstr(why.text, "more than 8"));
    ASSERT(write_text("x/co:2", "hello, colon") && open_mix(NULL, "x/co:2", NULL, NULL));
    ASSERT_EQ(m.data[0].tokens, 12);                                  /* a name, since it is there */
    lm_mix_close(&m);
    PASS();
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { T = 8 };

static int sample(int *row, uint64_t seed, uint64_t i)
{
    return lm_mix_sample(&m, row, row + T, T, seed, i, &why);
}

TEST a_sample_never_depends_on_earlier_calls(void)
{
    static int forth[500][2 * T];
    int row[2 * T], other = 0;
    ASSERT(open_mix(NULL, "x/a:0.7", "x/b:0.3", NULL));
    for (uint64_t i = 0; i < 500; i++) ASSERT(sample(forth[i], 1, i));
    for (int i = 499; i >= 0; i--) {                                  /* backwards */
        ASSERT(sample(row, 1, (uint64_t)i));
        ASSERT_EQ(memcmp(row, forth[i], sizeof row), 0);
    }
    lm_mix_close(&m);
    ASSERT(open_mix(NULL, "x/a:0.7", "x/b:0.3", NULL));               /* a run that begins at 123 */
    for (int i = 123; i < 500; i += 7) {
        ASSERT(sample(row, 1, (uint64_t)i));
        ASSERT_EQ(memcmp(row, forth[i], sizeof row), 0);
        ASSERT(sample(row, 2, (uint64_t)i));
        other += memcmp(row, forth[i], sizeof row) != 0;
    }
    ASSERT(other > 30);                                               /* of 54: another seed */
    lm_mix_close(&m);
    PASS();
}

TEST a_sample_lies_in_its_source_and_targets_follow(void)
{
    int row[2 * T], start[3993] = { 0 }, seen = 0;
    ASSERT(open_mix(NULL, "x/a:0.7", "x/b:0.3", NULL));
    for (uint64_t i = 0; i < 2000; i++) {
        int upper = lm_mix_source(&m, i), first = upper ? 'A' : 'a', cycle = upper ? 5 : 7;
        ASSERT(sample(row, 3, i));
        for (int t = 0; t < T; t++) {
            ASSERT(row[t] >= first && row[t] < first + cycle);
            ASSERT_EQ(row[T + t] - first, (row[t] - first + 1) % cycle);
        }
        for (int t = 0; t + 1 < T; t++) ASSERT_EQ(row[T + t], row[t + 1]);
    }
    lm_mix_close(&m);
    ASSERT(open_mix(NULL, "x/c", NULL, NULL));                        /* 10 bytes: starts 0 and 1 */
    for (uint64_t i = 0; i < 400; i++) {
        ASSERT(sample(row, 3, i));
        ASSERT(row[0] == '0' || row[0] == '1');
        ASSERT_EQ(row[2 * T - 1], row[0] + T);
        start[row[0] - '0']++;
    }
    seen = start[0];
    ASSERT(seen > 150 && seen < 250);
    ASSERT(!lm_mix_sample(&m, row, row, 10, 3, 0, &why) && strstr(why.text, "has 10 tokens"));
    ASSERT(strstr(why.text, "takes 11"));
    lm_mix_close(&m);
    PASS();
}

/* windows of 9: 0, text, padding; some end without any */
TEST aligned_windows_are_whole_and_padding_is_no_target(void)
{
    int token[40 * 9] = { 0 }, row[2 * T], seen[40] = { 0 };
    lm_writer w;
    for (int k = 0; k < 40; k++)
        for (int i = 1; i < 9 - k % 4; i++) token[9 * k + i] = 1 + k;
    ASSERT(lm_folder_ready(at("aligned"), 0, &why));
    ASSERT(lm_writer_open(&w, path, "tasks", "train", 256, 0, 9, 40, &why));
    ASSERT(lm_writer_put(&w, token, 40 * 9, &why) && lm_writers_commit(&w, 1, "bytes", &why));
    lm_writers_close(&w, 1);
    ASSERT(open_mix("train", "aligned", NULL, NULL));
    for (uint64_t i = 0; i < 600; i++) {
        ASSERT(sample(row, 1, i));
        int k = row[1] - 1;
        seen[k] = 1;
        for (int t = 0; t < T; t++) {
            int target = token[9 * k + t + 1];
            ASSERT_EQ(row[t], token[9 * k + t]);
            ASSERT_EQ(row[T + t], target == 0 ? POSENC_IGNORE : target);
        }
    }
    for (int k = 0; k < 40; k++) ASSERT(seen[k]);
    ASSERT(!lm_mix_sample(&m, row, row, T - 1, 1, 0, &why));
    ASSERTm(why.text, strstr(why.text, "windows of 9 tokens, a context of 7 takes 8"));
    lm_mix_close(&m);
    PASS();
}

/* n = 3 2^62: a plain remainder would give the first third twice as often */
TEST large_draws_are_fair(void)
{
    int third[3] = { 0 };
    for (uint64_t i = 0; i < 3000; i++) {
        kit_random r = kit_random_open(1, LM_RANDOM_WINDOW, i);
        uint64_t x = lm__random_below(&r, (uint64_t)3 << 62);
        ASSERT(x < (uint64_t)3 << 62);
        third[x >> 62]++;
    }
    for (int i = 0; i < 3; i++) ASSERT(third[i] > 900 && third[i] < 1100);
    PASS();
}

/* ---- lm prepare ------------------------------------------------------------------------------ */

static kit_text said;                      /* what the command printed */

/* stdin, stdout and stderr of a process to be */
static void redirect(const char *input, const char *output)
{
    int in = open(input, O_RDONLY), out = open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(99);
}

/* Runs a command in a process of its own and keeps what it says. Its words are separated by blanks;
   @ stands for the test's folder. input: a file for its stdin, NULL for nothing. */
static int run(int (*command)(int, char **), const char *input, const char *words)
{
    char *argv[32] = { (char *)"lm" }, in[KIT_PATH], out[KIT_PATH];
    kit_text line = { NULL, 0, 0 };
    int argc = 1, status = 0;
    for (; *words; words++) kit_put_bytes(&line, *words == '@' ? folder : words, *words == '@' ? strlen(folder) : 1);
    for (char *word = strtok(line.data, " "); word && argc < 32; word = strtok(NULL, " ")) argv[argc++] = word;
    snprintf(in, sizeof in, "%s", input ? at(input) : "/dev/null");
    snprintf(out, sizeof out, "%s", at("said"));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        redirect(in, out);
        int code = command(argc, argv);
        fflush(stdout);
        _exit(code);
    }
    said.size = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    kit_put_string(&said, "it said: ");
    if (!kit_read_file(&said, out, 1 << 20, &why)) return -1;
    kit_text_free(&line);
    return WEXITSTATUS(status);
}

/* all text of a split of a prepared set; documents are separated by their zeros */
static kit_text text_of(const char *name, const char *split)
{
    kit_text t = { NULL, 0, 0 };
    if (!lm_data_open(&d, at(name), split, &why)) return t;
    for (uint64_t i = 0; i < d.tokens; i++) {
        int token;
        if (lm_data_read(&d, &token, i, 1, &why)) put_number(&t, (uint32_t)token, 1);
    }
    lm_data_close(&d);
    return t;
}

static int zeros_in(const kit_text *t)
{
    int n = 0;
    for (size_t i = 0; i < t->size; i++) n += t->data[i] == 0;
    return n;
}

/* Lines "document K ..." of which every third comes twice, K from 0 to n - 1. */
static int write_lines(const char *name, int n)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < n; i++) {
        kit_put(&t, "document %d of many, %d\n", i, i * 7919 % 1000);
        if (i % 3 == 0) kit_put(&t, "document %d of many, %d\n", i, i * 7919 % 1000);
    }
    int good = write_file(name, t.data, t.size);
    kit_text_free(&t);
    return good;
}

/* bit 1, 2, 4 for train, val, filler: where each document K went */
static int places(int *place, int *times, int n, const char *name)
{
    int good = 1;
    for (int s = 0; s < LM_SPLITS; s++) {
        kit_text t = text_of(name, lm_split_name[s]);
        for (size_t i = 0; i < t.size; i++) {
            int k = -1;
            if (t.data[i] != 0) continue;
            if (sscanf(t.data + i + 1, "document %d of many", &k) != 1 || k < 0 || k >= n) good = 0;
            else { place[k] |= 1 << s; times[k]++; }
        }
        kit_text_free(&t);
    }
    return good;
}

/* Whole documents, the same text always in the same split, nothing lost, shares as asked. */
TEST no_document_is_in_two_splits(int n, double val)
{
    static int place[6000], times[6000];
    char command[200];
    int in[3] = { 0 };
    ASSERT(n <= 6000 && write_lines("p/lines.txt", n));
    snprintf(command, sizeof command, "@/p/lines.txt --documents line --out @/p%d --shard-tokens 5000 --val=%g", n, val);
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, command), "%d");
    snprintf(command, sizeof command, "p%d", n);
    memset(place, 0, sizeof place);
    memset(times, 0, sizeof times);
    ASSERT(places(place, times, n, command));
    for (int k = 0; k < n; k++) {
        ASSERT(place[k] == 1 || place[k] == 2 || place[k] == 4);
        ASSERT_EQ(times[k], k % 3 == 0 ? 2 : 1);
        for (int s = 0; s < 3; s++) in[s] += place[k] == 1 << s;
    }
    double off = 4 * sqrt(n * val);
    ASSERT_IN_RANGE(n * val, in[LM_VAL], off);
    ASSERT_IN_RANGE(n * 0.01, in[LM_FILLER], 4 * sqrt(n * 0.01));
    ASSERT(strstr(said.data, "split   documents"));
    PASS();
}

/* A book: the numbers 0000000 to 0019999, a line each. */
static int write_book(const char *name, int lines)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < lines; i++) kit_put(&t, "%07d\n", i);
    int good = write_file(name, t.data, t.size);
    kit_text_free(&t);
    return good;
}

TEST a_large_document_gives_its_end(const char *name, int lines)
{
    char command[200];
    kit_text part[3], all = { NULL, 0, 0 };
    ASSERT(write_book("p/book", lines));
    snprintf(command, sizeof command, "@/p/book --out @/%s --shard-tokens 30000 --name book", name);
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, command), "%d");
    for (int s = 0; s < 3; s++) {
        part[s] = text_of(name, lm_split_name[s]);
        ASSERT(part[s].size > 1 && part[s].data[0] == 0);
        ASSERT_EQ(zeros_in(&part[s]), 1);
        ASSERT_EQ(part[s].data[part[s].size - 1], '\n');              /* cut behind a line */
        kit_put_bytes(&all, part[s].data + 1, part[s].size - 1);
    }
    ASSERT_IN_RANGE(0.94 * 8 * lines, (double)part[0].size, 10);
    ASSERT_IN_RANGE(0.05 * 8 * lines, (double)part[1].size, 17);
    ASSERT(same_file("p/book", all.data, all.size));                  /* all of it, in its order */
    for (int s = 0; s < 3; s++) kit_text_free(&part[s]);
    kit_text_free(&all);
    PASS();
}

TEST gz_and_stdin_are_the_same_text(void)
{
    char command[3 * KIT_PATH], book[KIT_PATH];
    kit_text whole = { NULL, 0, 0 }, t;
    int lines = 20000;
    ASSERT(write_book("g/in put;x", lines));
    if (system("gzip --version >/dev/null 2>&1") != 0) SKIP();
    snprintf(book, sizeof book, "%s", at("g/in put;x"));
    snprintf(command, sizeof command, "gzip -c '%s' >%s/g/packed", book, folder);
    ASSERT_EQ(system(command), 0);
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/g/packed --out @/g1"), "%d");      /* by content */
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, "g/in put;x", "- --out @/g2"), "%d");
    ASSERT(kit_read_file(&whole, at("g1/text_train_000000.bin"), 1 << 24, &why));
    ASSERT(same_file("g2/text_train_000000.bin", whole.data, whole.size));
    t = text_of("g1", "train");
    ASSERT(t.size > 150000 && memcmp(t.data, "\0" "0000000\n0000001\n", 17) == 0);
    kit_text_free(&t);
    kit_text_free(&whole);
    ASSERT_EQ(truncate(at("g/packed"), 3000), 0);
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "@/g/packed --out @/g3"), "%d");
    ASSERTm(said.data, strstr(said.data, "gzip cannot read") && strstr(said.data, "g/packed"));
    ASSERT_EQ(count_files("g3"), 0);
    PASS();
}

TEST paragraphs_and_lines_are_documents(void)
{
    static const char text[] = "one\ntwo\r\n \t\nthree\n\n\n\nfour\nfive";
    kit_text t;
    ASSERT(write_text("q/t", text));
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/q/t --documents blank --val 0 --filler 0 --out @/q1"), "%d");
    t = text_of("q1", "train");
    ASSERT_EQ(t.size, 24u);
    ASSERT_EQ(memcmp(t.data, "\0one\ntwo\0three\0four\nfive", 24), 0);
    kit_text_free(&t);
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/q/t --documents line --val 0 --filler 0 --out @/q2"), "%d");
    t = text_of("q2", "train");
    ASSERT_EQ(t.size, 24u);
    ASSERT_EQ(memcmp(t.data, "\0one\0two\0three\0four\0five", 24), 0);
    kit_text_free(&t);
    PASS();
}

TEST folders_are_read_in_order_and_only_their_texts(void)
{
    kit_text t;
    ASSERT(write_text("o/b", "bee") && write_text("o/a/z", "zed") && write_text("o/a/y", "why"));
    ASSERT(write_text("o/.hidden", "hid") && write_file("o/c", "bin\0ary", 7));
    ASSERT_EQ(symlink("..", at("o/a/up")), 0);
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/o/ --val 0 --filler 0 --out @/o1"), "%d");
    t = text_of("o1", "train");
    ASSERT(t.size == 12 && memcmp(t.data, "\0why\0zed\0bee", 12) == 0);
    kit_text_free(&t);
    ASSERTm(said.data, strstr(said.data, "no text and were left out: 1 (") && strstr(said.data, "/o/c)"));
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "@/o/c --out @/o2"), "%d");
    ASSERTm(said.data, strstr(said.data, "is not a text: byte 3 of it is 0"));
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "@/o/b @/o --out @/o3"), "%d");
    ASSERTm(said.data, strstr(said.data, "are the same file"));
    PASS();
}

TEST zeros_far_in_a_text_become_blanks(void)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < 3000; i++) kit_put_string(&t, "ab ");
    t.data[6000] = t.data[8000] = 0;
    ASSERT(write_file("z/t", t.data, t.size));
    t.data[6000] = t.data[8000] = ' ';
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/z/t --val 0 --filler 0 --out @/z1"), "%d");
    ASSERTm(said.data, strstr(said.data, "zero bytes that became blanks, since byte 0 begins documents: 2\n"));
    kit_text got = text_of("z1", "train");
    ASSERT(got.size == 9001 && memcmp(got.data + 1, t.data, 9000) == 0);
    kit_text_free(&got);
    kit_text_free(&t);
    PASS();
}

TEST few_files_are_shared_out_fairly(void)
{
    kit_text t;
    for (int i = 0; i < 20; i++) {
        char name[32], text[32];
        snprintf(name, sizeof name, "few/%02d", i);
        snprintf(text, sizeof text, "file number %02d", i);
        ASSERT(write_text(name, text));
    }
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/few --val 0.1 --filler 0.1 --out @/few1"), "%d");
    for (int s = 1; s < 3; s++) {
        t = text_of("few1", lm_split_name[s]);
        ASSERT_EQ(zeros_in(&t), 2);
        kit_text_free(&t);
    }
    PASS();
}

TEST prepare_says_what_is_wrong(void)
{
    ASSERT(write_text("y/t", "a text that is too short to share"));
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "@/y/t --out @/y1"), "%d");
    ASSERTm(said.data, strstr(said.data, "nothing is left for val: 1 documents"));
    ASSERT_EQ(count_files("y1"), 0);
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "@/y/nowhere --out @/y1"), "%d");
    ASSERTm(said.data, strstr(said.data, "y/nowhere: No such file"));
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "/dev/zero --out @/y1"), "%d");
    ASSERTm(said.data, strstr(said.data, "is a device or a pipe"));
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "- --out @/y1"), "%d");
    ASSERTm(said.data, strstr(said.data, "there is no text"));
    ASSERT_EQ_FMT(2, run(lm_prepare_main, NULL, "--out @/y1"), "%d");
    ASSERT_EQ_FMT(2, run(lm_prepare_main, NULL, "@/y/t --name a/b"), "%d");
    ASSERT_EQ_FMT(2, run(lm_prepare_main, NULL, "@/y/t --vall 0.1"), "%d");
    ASSERTm(said.data, strstr(said.data, "did you mean --val?"));
    ASSERT_EQ_FMT(2, run(lm_prepare_main, NULL, "@/y/t --documents page"), "%d");
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/y/t --val 0 --out @/y2"), "%d");
    ASSERT_EQ_FMT(FAILED, run(lm_prepare_main, NULL, "@/y/t --val 0 --out @/y2"), "%d");
    ASSERTm(said.data, strstr(said.data, "holds a set of shards already"));
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "@/y/t --val 0 --out @/y2 --replace"), "%d");
    ASSERT_EQ_FMT(DONE, run(lm_prepare_main, NULL, "--help"), "%d");
    PASS();
}

/* The command has read a part of a pipe when it is told to stop. */
TEST what_is_stopped_leaves_nothing(void)
{
    char *argv[] = { (char *)"lm", (char *)"-", (char *)"--documents=line", (char *)"--out", NULL, NULL };
    static char text[1 << 20];
    char out[KIT_PATH], stop[KIT_PATH];
    int ends[2], status = 0;
    snprintf(out, sizeof out, "%s", at("stopped"));
    snprintf(stop, sizeof stop, "%s", at("said"));
    argv[4] = out;
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 40 ? 'x' : '\n';
    ASSERT_EQ(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        redirect("/dev/null", stop);
        if (dup2(ends[0], 0) < 0) _exit(99);
        _exit(lm_prepare_main(5, argv));
    }
    close(ends[0]);
    ASSERT_EQ(write(ends[1], text, sizeof text), (ssize_t)sizeof text);   /* all but 64 KB is read */
    ASSERT(count_files("stopped") > 0);                                   /* temporary files */
    kill(child, SIGTERM);
    close(ends[1]);
    ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    ASSERT_EQ_FMT(STOPPED, WEXITSTATUS(status), "%d");
    ASSERT_EQ(count_files("stopped"), 0);
    PASS();
}

/* ---- lm info --------------------------------------------------------------------------------- */

TEST info_shows_what_is_there(void)
{
    ASSERT_EQ_FMT(DONE, run(lm_info_main, NULL, "@/q1 @/s"), "%d");
    ASSERTm(said.data, strstr(said.data, "q1: 24 tokens in 1 shard, vocabulary 256, documents begin with 0"));
    ASSERTm(said.data, strstr(said.data, "text_train_000000.bin  llm.c uint16  train      24          3\n"));
    ASSERTm(said.data, strstr(said.data, "train begins: \\00one\\ntwo\\00three"));
    ASSERTm(said.data, strstr(said.data, "vocabulary 50257") && strstr(said.data, "train begins: 5 6 7 8 9"));
    ASSERT_EQ_FMT(DONE, run(lm_info_main, NULL, "@/aligned --full"), "%d");
    ASSERTm(said.data, strstr(said.data, "windows of 9") && strstr(said.data, "  windows\n"));
    ASSERT_EQ_FMT(DONE, run(lm_info_main, NULL, "@/h"), "%d");          /* a folder for each split */
    ASSERT_EQ_FMT(FAILED, run(lm_info_main, NULL, "@/nowhere"), "%d");
    ASSERT_EQ_FMT(FAILED, run(lm_info_main, NULL, "@/v"), "%d");
    ASSERTm(said.data, strstr(said.data, "v/b.bin: token 6 is 256"));
    ASSERT_EQ_FMT(2, run(lm_info_main, NULL, ""), "%d");
    PASS();
}

/* ---- lm fetch -------------------------------------------------------------------------------- */

TEST sums_are_those_of_the_standard(void)
{
    static const char *const text[] = { "", "abc", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq" };
    static const char *const sum[] = {
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" };
    char got[65], piece[1000];
    lm__sha256 h;
    for (int i = 0; i < 3; i++) {
        lm__sha256_begin(&h);
        lm__sha256_put(&h, text[i], strlen(text[i]));
        lm__sha256_end(got, &h);
        ASSERT_STR_EQ(sum[i], got);
    }
    memset(piece, 'a', sizeof piece);
    lm__sha256_begin(&h);
    for (int i = 0; i < 1000; i++) lm__sha256_put(&h, piece, sizeof piece);      /* a million */
    lm__sha256_end(got, &h);
    ASSERT_STR_EQ("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", got);
    ASSERT(lm__sum_listed(got, "x\n\nBA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  dir/a.bin\r\n", "a.bin"));
    ASSERT_STR_EQ(sum[1], got);
    ASSERT(!lm__sum_listed(got, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  xa.bin\n", "a.bin"));
    PASS();
}

TEST fetch_prints_what_it_would_do(void)
{
    ASSERT_EQ_FMT(DONE, run(lm_fetch_main, NULL, "fineweb-edu --shards 2 --dry-run --out @/it's"), "%d");
    ASSERTm(said.data, strstr(said.data, "'https://huggingface.co/datasets/karpathy/fineweb-edu-100B-gpt2-token-shards"
                              "/resolve/main/edu_fineweb_val_000000.bin'\n"));
    ASSERTm(said.data, strstr(said.data, "edu_fineweb_train_000002.bin'\n") && !strstr(said.data, "train_000003"));
    ASSERTm(said.data, strstr(said.data, "/it'\\''s/edu_fineweb_train_000001.bin' "));
    ASSERT(!kit_exists(at("it's")));
    ASSERT_EQ_FMT(2, run(lm_fetch_main, NULL, "gutenberg"), "%d");
    ASSERT_EQ_FMT(2, run(lm_fetch_main, NULL, "fineweb --shards 104"), "%d");
    ASSERT_EQ_FMT(2, run(lm_fetch_main, NULL, "--shards 1"), "%d");
    PASS();
}

static int has_curl(void) { return system("curl --version >/dev/null 2>&1") == 0; }

/* The mirror is a folder of ours: nothing here needs a network. What has arrived of one shard begins
   with other tokens than the mirror's, to see that it was kept. */
TEST fetch_goes_on_where_it_was_broken_off(void)
{
    char sum[65], list[400];
    int token[2];
    if (!has_curl()) SKIP();
    ASSERT(write_tokens("far/edu_fineweb_val_000000.bin", LM_MAGIC_16, 2, 0, 5000, 50257));
    ASSERT(write_tokens("far/edu_fineweb_train_000001.bin", LM_MAGIC_16, 2, 7, 6000, 50257));
    ASSERT(lm__sha256_file(sum, at("far/edu_fineweb_val_000000.bin"), &why));
    snprintf(list, sizeof list, "%s  edu_fineweb_val_000000.bin\n", sum);
    ASSERT(write_text("far/sums", list));
    ASSERT(write_tokens("got/edu_fineweb_train_000001.bin.part", LM_MAGIC_16, 2, 90, 6000, 50257));
    ASSERT_EQ(truncate(at("got/edu_fineweb_train_000001.bin.part"), 5001), 0);
    ASSERT(write_text("got/edu_fineweb_val_000000.bin.part", "<html>an error page</html>"));
    ASSERT_EQ_FMT(DONE, run(lm_fetch_main, NULL, "fineweb-edu --from file://@/far --out @/got --sha256 @/far/sums"), "%d");
    ASSERT(lm_data_open(&d, at("got"), "train", &why));
    ASSERT(d.tokens == 6000 && lm_data_read(&d, token, 0, 2, &why) && token[0] == 90 && token[1] == 91);
    ASSERT(lm_data_read(&d, token, 5998, 2, &why) && token[0] == 6005 && token[1] == 6006);
    lm_data_close(&d);
    ASSERT_EQ(count_files("got"), 2);
    ASSERT_EQ_FMT(DONE, run(lm_fetch_main, NULL, "fineweb-edu --from file://@/nowhere --out @/got"), "%d");
    ASSERTm(said.data, strstr(said.data, "train_000001.bin is there"));
    list[0] = list[0] == '0' ? '1' : '0';
    ASSERT(write_text("far/sums", list));
    ASSERT_EQ_FMT(FAILED, run(lm_fetch_main, NULL, "fineweb-edu --out @/got --sha256 @/far/sums"), "%d");
    ASSERTm(said.data, strstr(said.data, "has the SHA-256"));
    PASS();
}

TEST fetch_says_why_it_failed(void)
{
    if (!has_curl()) SKIP();
    ASSERT_EQ_FMT(FAILED, run(lm_fetch_main, NULL, "fineweb-edu --from http://127.0.0.1:1 --out @/none"), "%d");
    ASSERTm(said.data, strstr(said.data, "no network: http://127.0.0.1:1/edu_fineweb_val_000000.bin cannot be"));
    ASSERT(write_text("page/edu_fineweb_val_000000.bin", "<html>not what was asked for</html>"));
    ASSERT_EQ_FMT(FAILED, run(lm_fetch_main, NULL, "fineweb-edu --from file://@/page --out @/none"), "%d");
    ASSERTm(said.data, strstr(said.data, "is no shard of llm.c"));
    ASSERT(write_tokens("page/edu_fineweb_val_000000.bin", LM_MAGIC_16, 2, 0, 5000, 50257));
    ASSERT_EQ(truncate(at("page/edu_fineweb_val_000000.bin"), 3000), 0);
    ASSERT_EQ_FMT(FAILED, run(lm_fetch_main, NULL, "fineweb-edu --from file://@/page --out @/none"), "%d");
    ASSERTm(said.data, strstr(said.data, "it was cut short"));
    ASSERT(!kit_exists(at("none/edu_fineweb_val_000000.bin")));
    PASS();
}

/* ---------------------------------------------------------------------------------------------- */

static void run_readers(void)
{
    RUN_TEST(llm_c_shards_are_read);
    RUN_TESTp(headerless_shards_are_read_where_meta_json_lists_them, 2);
    RUN_TESTp(headerless_shards_are_read_where_meta_json_lists_them, 4);
    RUN_TEST(any_other_file_is_bytes);
    RUN_TEST(a_folder_gives_the_shards_of_a_split);
    RUN_TEST(splits_are_words_of_names);
    RUN_TEST(windows_cross_the_borders_of_shards);
    RUN_TEST(places_beyond_4_GB_are_found);
    RUN_TEST(a_token_beyond_the_vocabulary_is_named);
    RUN_TEST(a_fingerprint_knows_other_data);
}

static void run_liars(void)
{
    for (size_t i = 0; i < sizeof bad_shards / sizeof *bad_shards; i++) {
        label_test("%s", bad_shards[i].name);
        RUN_TESTp(bad_shard_is_refused, &bad_shards[i]);
    }
    for (size_t i = 0; i < sizeof bad_metas / sizeof *bad_metas; i++) {
        label_test("%s", bad_metas[i].name);
        RUN_TESTp(bad_meta_is_refused, &bad_metas[i]);
    }
    RUN_TEST(the_same_files_are_read_where_meta_json_is_right);
    RUN_TEST(a_meta_json_of_megabytes_or_depths_is_refused);
    RUN_TEST(what_is_no_file_is_refused);
    RUN_TEST(shards_of_two_vocabularies_are_no_row);
    RUN_TEST(a_shard_that_is_cut_short_is_a_sentence);
}

static void run_writers(void)
{
    RUN_TEST(the_writer_s_bytes_are_llm_c_s);
    RUN_TESTp(what_was_written_is_read, 0);
    RUN_TESTp(what_was_written_is_read, 8);
    RUN_TEST(a_folder_with_shards_is_refused_or_replaced);
    RUN_TEST(what_is_not_committed_leaves_nothing);
    RUN_TEST(a_full_disk_is_a_sentence);
}

static void run_mixtures(void)
{
    RUN_TEST(shares_are_exact_and_spread_out);
    RUN_TEST(odd_shares_are_rounded_to_a_whole_cycle);
    RUN_TEST(the_order_of_nine_to_one);
    RUN_TEST(bad_mixtures_are_refused);
    RUN_TEST(a_sample_never_depends_on_earlier_calls);
    RUN_TEST(a_sample_lies_in_its_source_and_targets_follow);
    RUN_TEST(aligned_windows_are_whole_and_padding_is_no_target);
    RUN_TEST(large_draws_are_fair);
}

static void run_commands(void)
{
    RUN_TESTp(no_document_is_in_two_splits, 600, 0.05);           /* by what is furthest behind */
    RUN_TESTp(no_document_is_in_two_splits, 6000, 0.2);           /* and by their hashes */
    RUN_TESTp(a_large_document_gives_its_end, "l1", 20000);
    RUN_TESTp(a_large_document_gives_its_end, "l2", 500);         /* a single one */
    RUN_TEST(gz_and_stdin_are_the_same_text);
    RUN_TEST(paragraphs_and_lines_are_documents);
    RUN_TEST(folders_are_read_in_order_and_only_their_texts);
    RUN_TEST(zeros_far_in_a_text_become_blanks);
    RUN_TEST(few_files_are_shared_out_fairly);
    RUN_TEST(prepare_says_what_is_wrong);
    RUN_TEST(what_is_stopped_leaves_nothing);
    RUN_TEST(info_shows_what_is_there);
    RUN_TEST(sums_are_those_of_the_standard);
    RUN_TEST(fetch_prints_what_it_would_do);
    RUN_TEST(fetch_goes_on_where_it_was_broken_off);
    RUN_TEST(fetch_says_why_it_failed);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    char command[64];
    GREATEST_MAIN_BEGIN();
    snprintf(folder, sizeof folder, "/tmp/posenc_lm_shards_%ld", (long)getpid());
    if (!kit_make_folders(folder, &why)) return 1;
    run_readers();
    run_liars();
    run_writers();
    run_mixtures();
    run_commands();
    kit_text_free(&said);
    snprintf(command, sizeof command, "rm -r /tmp/posenc_lm_shards_%ld", (long)getpid());
    if (system(command) != 0) return 1;
    GREATEST_MAIN_END();
}
