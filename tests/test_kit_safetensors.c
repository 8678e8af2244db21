/* The demos' reader of published weights: every number of every type, one file or many with an
   index, and files that lie about anything they say. Each file is read twice, mapped and not.    */
#define _DEFAULT_SOURCE
#include "posenc.h"
#include "check.h"
#include "models.h"
#include "golden.h"
#include "kit/safetensors.h"
#include <time.h>

static char folder[256], path[300];        /* a folder of our own, and model.safetensors in it */
static kit_tensors set;
static kit_error why;

/* ---- files ----------------------------------------------------------------------------------- */

static kit_text file_of(const char *header, const void *data, size_t n)
{
    kit_text t = { NULL, 0, 0 };
    unsigned char length[8] = { 0 };
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)strlen(header) >> 8 * i);
    kit_put_bytes(&t, length, 8);
    kit_put_string(&t, header);
    kit_put_bytes(&t, data, n);
    return t;
}

/* folder/name. A new file each time: some file systems take their time over one that is emptied. */
static int write_bytes(const char *name, const void *bytes, size_t n)
{
    char at[600];
    snprintf(at, sizeof at, "%s/%s", folder, name);
    remove(at);
    FILE *f = fopen(at, "wb");
    int good = f && (n == 0 || fwrite(bytes, 1, n, f) == n);
    return f && fclose(f) == 0 && good;
}

static int write_tensors(const char *name, const char *header, const void *data, size_t n)
{
    kit_text t = file_of(header, data, n);
    int good = write_bytes(name, t.data, t.size);
    kit_text_free(&t);
    return good;
}

/* one bit of a file that is there */
static int flip_bit(const char *name, size_t bit)
{
    char at[600];
    unsigned char c = 0;
    snprintf(at, sizeof at, "%s/%s", folder, name);
    int file = open(at, O_RDWR), good = file >= 0 && pread(file, &c, 1, (off_t)(bit / 8)) == 1;
    c = (unsigned char)(c ^ 1 << bit % 8);
    good = good && pwrite(file, &c, 1, (off_t)(bit / 8)) == 1;
    return file >= 0 && close(file) == 0 && good;
}

static void remove_all(void)
{
    static const char *const name[] = { "model.safetensors", "model.safetensors.index.json",
                                        "a.safetensors", "b.safetensors", "c.safetensors" };
    char at[600];
    for (int i = 0; i < 5; i++) {
        snprintf(at, sizeof at, "%s/%s", folder, name[i]);
        remove(at);
    }
}

/* Every number of every tensor of an open set, in pieces of three; the sum keeps it alive. */
static int reads_all_numbers(double *sum)
{
    for (size_t i = 0; i < set.count; i++) {
        const kit_tensor *t = &set.tensor[i];
        float x[3];
        if (t->type >= KIT_DTYPES_READ) continue;
        for (uint64_t at = 0; at < t->count; at += 3) {
            size_t n = t->count - at < 3 ? (size_t)(t->count - at) : 3;
            if (!kit_tensor_floats(&set, t, at, n, x, &why)) return 0;
            for (size_t k = 0; k < n; k++) *sum += (double)x[k];
        }
    }
    return 1;
}

/* 1 when both ways of reading refuse it with these words */
static int refused(const char *at, const char *said1, const char *said2)
{
    for (int map = 0; map < 2; map++) {
        why.text[0] = 0;
        int good = kit__tensors_open(&set, at, map, &why);
        if (good) kit_tensors_close(&set);
        snprintf(check_text, sizeof check_text, "%s: '%.300s'", good ? "read" : "refused",
                 why.text);
        if (good || set.tensor || set.shard || strlen(why.text) + 1 >= sizeof why.text
            || !strstr(why.text, said1) || !strstr(why.text, said2)) return 0;
    }
    return 1;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* the value of a pattern of bits, from the definition of the format */
static double value_of(unsigned bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int e = (int)(bits >> fraction_bits) & top, f = (int)(bits & ((1u << fraction_bits) - 1));
    double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
    if (e == top) return f ? NAN : sign * HUGE_VAL;
    return sign * ldexp(e ? f + (1 << fraction_bits) : f, (e ? e : 1) - bias - fraction_bits);
}

TEST every_number_of_a_16_bit_format_is_read(const char *type, int exponent, int fraction, int map)
{
    static unsigned char raw[131072];
    static float x[65536];
    char header[200];
    for (int k = 0; k < 65536; k++) {
        raw[2 * k] = (unsigned char)k;
        raw[2 * k + 1] = (unsigned char)(k >> 8);
    }
    snprintf(header, sizeof header, "{\"all\":{\"dtype\":\"%s\",\"shape\":[256,256],"
             "\"data_offsets\":[0,131072]}}", type);
    ASSERT(write_tensors("model.safetensors", header, raw, sizeof raw));
    ASSERTm(why.text, kit__tensors_open(&set, path, map, &why));
    ASSERT_EQ(map, set.shard[0].map != NULL);
    ASSERTm(why.text, kit_tensor_floats(&set, &set.tensor[0], 0, 65536, x, &why));
    for (unsigned k = 0; k < 65536; k++) {
        double v = value_of(k, exponent, fraction);
        if (v != v) ASSERT(x[k] != x[k]);
        else        ASSERT(x[k] == (float)v && !signbit(x[k]) == !signbit(v));
    }
    kit_tensors_close(&set);
    PASS();
}

/* All six types in one file, behind a header of odd length, so that no number is aligned. */
#define MIXED \
    "{\"__metadata__\":{\"format\":\"pt\"}," \
    "\"f64\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[44,68]}," \
    "\"i64\":{\"shape\":[1,3],\"data_offsets\":[68,92],\"dtype\":\"I64\"}," \
    "\"f32\":{\"dtype\":\"F32\",\"shape\":[3,1,1],\"data_offsets\":[0,12]}," \
    "\"i32\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[12,24]}," \
    "\"f16\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[24,30]}," \
    "\"bf16\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[30,36]}," \
    "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[2,2],\"data_offsets\":[36,40]}," \
    "\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[40,44]}," \
    "\"no\":{\"dtype\":\"F16\",\"shape\":[4,0,9],\"data_offsets\":[92,92]}}"

static kit_text mixed_file(const char *header)
{
    static const float f32[3] = { 1.5f, -2.25f, 3e-40f }, one = 7;
    static const int32_t i32[3] = { INT32_MIN, 0, 16777217 };
    static const uint16_t f16[3] = { 0x3E00, 0xC080, 0x0001 }, bf16[3] = { 0x3FC0, 0xC010, 0x0001 };
    static const double f64[3] = { 1.5, 1e-300, 1e300 };
    static const int64_t i64[3] = { INT64_MIN, -1, 9007199254740993 };
    unsigned char data[92] = { 0 };
    memcpy(data, f32, 12);
    memcpy(data + 12, i32, 12);
    memcpy(data + 24, f16, 6);
    memcpy(data + 30, bf16, 6);
    memcpy(data + 40, &one, 4);
    memcpy(data + 44, f64, 24);
    memcpy(data + 68, i64, 24);
    return file_of(header, data, sizeof data);
}

static int write_mixed(const char *header)
{
    kit_text t = mixed_file(header);
    int good = write_bytes("model.safetensors", t.data, t.size);
    kit_text_free(&t);
    return good;
}

static const struct { const char *name; int type, dims; float x[3]; } mixed[] = {
    { "bf16", KIT_BF16, 1, { 1.5f, -2.25f, 9.18354962e-41f } },
    { "f16",  KIT_F16,  1, { 1.5f, -2.25f, 5.9604644775390625e-8f } },
    { "f32",  KIT_F32,  3, { 1.5f, -2.25f, 3e-40f } },
    { "f64",  KIT_F64,  1, { 1.5f, 0, INFINITY } },
    { "i32",  KIT_I32,  1, { -2147483648.0f, 0, 16777216.0f } },
    { "i64",  KIT_I64,  2, { -9223372036854775808.0f, -1, 9007199254740992.0f } }
};

TEST types_may_be_mixed_and_lie_in_any_order(int map)
{
    float x[3] = { 0, 0, 0 };
    char shape[200];
    ASSERT(write_mixed(MIXED));
    ASSERTm(why.text, kit__tensors_open(&set, folder, map, &why));
    ASSERT_EQ(9, set.count);
    for (size_t i = 1; i < set.count; i++)
        ASSERT(strcmp(set.tensor[i - 1].name, set.tensor[i].name) < 0);
    for (int i = 0; i < 6; i++) {
        const kit_tensor *t = kit_tensors_find(&set, mixed[i].name);
        ASSERTm(mixed[i].name, t && t->type == mixed[i].type && t->dims == mixed[i].dims);
        ASSERT_EQ(3, t->count);
        ASSERTm(why.text, kit_tensor_floats(&set, t, 0, 3, x, &why));
        for (int k = 0; k < 3; k++) ASSERT_EQm(mixed[i].name, mixed[i].x[k], x[k]);
        ASSERT(kit_tensor_floats(&set, t, 1, 2, x, &why) && x[0] == mixed[i].x[1]);
        ASSERT(kit_tensor_floats(&set, t, 3, 0, x, &why));
    }
    const kit_tensor *one = kit_tensors_find(&set, "one"), *no = kit_tensors_find(&set, "no");
    ASSERT(one->dims == 0 && one->count == 1 && no->count == 0);
    ASSERT(kit_tensor_floats(&set, one, 0, 1, x, &why) && x[0] == 7);
    kit_tensor_shape(shape, one);
    ASSERT_STR_EQ("single", shape);
    kit_tensor_shape(shape, no);
    ASSERT_STR_EQ("4 x 0 x 9", shape);
    ASSERT(!kit_tensors_find(&set, "none") && !kit_tensors_find(&set, "__metadata__"));
    kit_tensors_close(&set);
    PASS();
}

TEST numbers_outside_a_tensor_are_refused(int map)
{
    static const struct { const char *name; uint64_t first; size_t n; const char *said; } list[] = {
        { "f32", 0, 4, "tensor f32 has 3 numbers, asked for 4 from 0 on" },
        { "f32", 3, 1, "tensor f32 has 3 numbers, asked for 1 from 3 on" },
        { "f32", UINT64_MAX, 2, "asked for 2 from 18446744073709551615 on" },
        { "f32", 1, SIZE_MAX, "from 1 on" },
        { "no", 0, 1, "tensor no has 0 numbers, asked for 1 from 0 on" },
        { "mask", 0, 1, "tensor mask is BOOL, which is not read as floats" }
    };
    float x[4] = { 5, 5, 5, 5 };
    ASSERT(write_mixed(MIXED));
    ASSERTm(why.text, kit__tensors_open(&set, path, map, &why));
    for (int i = 0; i < 6; i++) {
        const kit_tensor *t = kit_tensors_find(&set, list[i].name);
        ASSERT(!kit_tensor_floats(&set, t, list[i].first, list[i].n, x, &why));
        ASSERTm(why.text, strstr(why.text, path) && strstr(why.text, list[i].said));
        ASSERT_EQ(5, x[0]);
    }
    kit_tensors_close(&set);
    PASS();
}

/* Another reader (tests/golden.h), files that Python wrote: all numbers agree. */
TEST golden_file_reads_as_golden(const char *golden)
{
    static golden_file f;
    size_t compared = 0;
    ASSERTm(f.wrong, golden_open(&f, golden));
    ASSERTm(why.text, kit_tensors_open(&set, golden, &why));
    ASSERT_EQ(f.count, (int)set.count);
    for (int i = 0; i < f.count; i++) {
        const kit_tensor *t = kit_tensors_find(&set, f.list[i].name);
        ASSERTm(f.list[i].name, t && t->count == f.list[i].count && t->dims == f.list[i].dims);
        if (t->type >= KIT_DTYPES_READ) continue;
        float *x = (float *)malloc((t->count + 1) * sizeof *x);
        ASSERTm(why.text, kit_tensor_floats(&set, t, 0, (size_t)t->count, x, &why));
        for (size_t k = 0; k < t->count; k++)
            ASSERT_EQm(t->name, (float)golden_at(&f.list[i], k), x[k]);
        compared += (size_t)t->count;
        free(x);
    }
    ASSERT_GT(compared, 100);
    kit_tensors_close(&set);
    golden_close(&f);
    PASS();
}

TEST checkpoint_of_the_library_is_read(void)
{
    posenc_model *m = make_model("vocab=5 context=4 layers=1 channels=4 heads=2 hidden=4 causal=1");
    posenc_error said;
    float x[64];
    ASSERTm(check_text, m);
    ASSERT_EQm(said.text, POSENC_OK, posenc_model_save(m, path, POSENC_WEIGHTS, "note", &said));
    ASSERTm(why.text, kit_tensors_open(&set, path, &why));
    ASSERT_EQ(posenc_model_parameters(m), (int)set.count);
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *own = posenc_model_parameter(m, i);
        const kit_tensor *t = kit_tensors_find(&set, own->name);
        ASSERTm(own->name, t && t->count == own->count && t->count <= 64);
        ASSERT(kit_tensor_floats(&set, t, 0, own->count, x, &why));
        posenc_float *data = copy_tensor(m, own->data, own->count);
        ASSERT_MEM_EQ(data, x, own->count * sizeof *x);
        free(data);
    }
    kit_tensors_close(&set);
    posenc_model_free(m);
    PASS();
}

/* Five gigabytes, nearly all of them a hole: offsets past 32 bits, in two tensors. */
TEST file_beyond_4_gigabytes_is_read(int map)
{
    static const char header[] =
        "{\"big\":{\"dtype\":\"F32\",\"shape\":[1280,1048576],\"data_offsets\":[0,5368709120]},"
        "\"last\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5368709120,5368709124]}}";
    const float ends[2] = { 2.5f, -8 };
    float x[2] = { 0, 0 };
    off_t at = 8 + (off_t)sizeof header - 1 + 5368709116;
    if (sizeof(off_t) < 8) SKIPm("offsets of files have 32 bits here");
    ASSERT(write_tensors("model.safetensors", header, "", 0));
    int file = open(path, O_WRONLY);
    int good = file >= 0 && pwrite(file, ends, 8, at) == 8;
    if (file >= 0) close(file);
    if (!good) { remove(path); SKIPm("no file of 5 GB can be made here"); }
    ASSERTm(why.text, kit__tensors_open(&set, path, map, &why));
    ASSERTm(why.text, kit_tensor_floats(&set, &set.tensor[0], 1342177279, 1, x, &why));
    ASSERTm(why.text, kit_tensor_floats(&set, &set.tensor[1], 0, 1, x + 1, &why));
    ASSERT(x[0] == 2.5f && x[1] == -8);
    ASSERT(kit_tensor_floats(&set, &set.tensor[0], 1073741823, 2, x, &why) && x[1] == 0);
    kit_tensors_close(&set);
    remove(path);
    PASS();
}

/* ---- headers that lie ------------------------------------------------------------------------ */

/* The first `from` of MIXED replaced. */
static char *mixed_with(const char *from, const char *to)
{
    static char header[4096];
    const char *found = strstr(MIXED, from);
    if (!found) return NULL;
    snprintf(header, sizeof header, "%.*s%s%s", (int)(found - MIXED), MIXED, to,
             found + strlen(from));
    return header;
}

#define F32    "\"f32\":{\"dtype\":\"F32\",\"shape\":[3,1,1],\"data_offsets\":[0,12]}"
#define SHAPED "\"shape\":[3,1,1],\"data_offsets\":[0,12]"
static const struct lie { const char *name, *from, *to, *said1, *said2; } lies[] = {
    { "offsets_reversed", "[0,12]", "[12,0]", "tensor f32 lies at 12 to 0", "of 92 bytes" },
    { "offsets_beyond", "[68,92]", "[72,96]", "tensor i64 lies at 72 to 96", "of 92 bytes" },
    { "offsets_huge", "[0,12]", "[18446744073709551603,18446744073709551615]", "tensor f32",
      "at 18446744073709551603 to 18446744073709551615 of 92" },
    { "offsets_past_64_bits", "[0,12]", "[0,18446744073709551628]", "tensor f32 has",
      "18446744073709551628 in data_offsets, expected a whole number" },
    { "offsets_negative", "[0,12]", "[-12,0]", "tensor f32", "has -12 in data_offsets" },
    { "offsets_fractional", "[0,12]", "[0.0,12.0]", "tensor f32", "has 0.0 in data_offsets" },
    { "offsets_exponential", "[0,12]", "[0,12e0]", "tensor f32", "has 12e0 in data_offsets" },
    { "offsets_too_long", "[0,12]", "[0,16]", "tensor f32 lies at 0 to 16",
      "F32 (3 x 1 x 1) takes 12 bytes" },
    { "offsets_too_short", "[0,12]", "[0,11]", "tensor f32 lies at 0 to 11", "takes 12 bytes" },
    { "offsets_one", "[0,12]", "[0]", "tensor f32", "has 1 data_offsets, expected 2" },
    { "offsets_none", "[0,12]", "[]", "tensor f32", "has 0 data_offsets, expected 2" },
    { "offsets_three", "[0,12]", "[0,12,12]", "tensor f32", "has 3 numbers in data_offsets" },
    { "offsets_text", "[0,12]", "\"0,12\"", "tensor f32", "has a text for data_offsets" },
    { "offsets_null", "[0,12]", "null", "tensor f32", "has null for data_offsets" },
    { "offsets_nested", "[0,12]", "[[0,12]]", "tensor f32", "has a list in data_offsets" },
    { "overlap", "[12,24]", "[8,20]", "tensor i32 lies at 8 to 20, over another",
      "the one before it ends at 12" },
    { "same_place", "[12,24]", "[0,12]", "lies at 0 to 12, over another", "ends at 12" },
    { "gap", "\"shape\":[2,2],\"data_offsets\":[36,40]", "\"shape\":[3],\"data_offsets\":[37,40]",
      "tensor mask lies at 37 to 40, behind a gap", "the one before it ends at 36" },
    { "hole_in_front", SHAPED, "\"shape\":[2],\"data_offsets\":[4,12]",
      "tensor f32 lies at 4 to 12, behind a gap", "ends at 0" },
    { "rest_at_the_end", "\"shape\":[1,3],\"data_offsets\":[68,92]",
      "\"shape\":[2],\"data_offsets\":[68,84]", "tensor no lies at 92 to 92, behind a gap",
      "ends at 84" },
    { "empty_in_the_middle", "[92,92]", "[50,50]", "tensor no lies at 50 to 50, over another",
      "ends at 68" },
    { "shape_larger", "[3,1,1]", "[3,1,2]", "tensor f32 lies at 0 to 12",
      "F32 (3 x 1 x 2) takes 24 bytes" },
    { "shape_zero", "[3,1,1]", "[3,0,1]", "tensor f32 lies at 0 to 12", "takes 0 bytes" },
    { "shape_negative", "[3,1,1]", "[-3,-1,1]", "tensor f32", "has -3 in shape" },
    { "shape_wraps_to_12", "[3,1,1]", "[3,4294967296,4294967296,1]",
      "tensor f32 (3 x 4294967296 x 4294967296 x 1)", "more than 2^64 bytes" },
    { "shape_wraps_by_its_width", "[3,1,1]", "[4611686018427387907]",
      "tensor f32 (4611686018427387907)", "more than 2^64 bytes" },
    { "shape_huge_times_zero", "[3,1,1]", "[9223372036854775807,4,0]",
      "tensor f32 (9223372036854775807 x 4 x 0)", "more than 2^64 bytes" },
    { "shape_of_nine", "[3,1,1]", "[3,1,1,1,1,1,1,1,1]", "tensor f32", "has 9 numbers in shape, at"
      " most 8" },
    { "shape_text", "[3,1,1]", "\"3\"", "tensor f32", "has a text for shape, expected a list" },
    { "shape_number", "[3,1,1]", "3", "tensor f32", "has 3 for shape, expected a list" },
    { "shape_of_texts", "[3,1,1]", "[\"3\"]", "tensor f32", "has a text in shape" },
    { "type_unknown", "\"F32\",\"shape\":[3,", "\"F4\",\"shape\":[3,", "tensor f32",
      "has the dtype F4, which is unknown" },
    { "type_lower", "\"F32\",\"shape\":[3,", "\"f32\",\"shape\":[3,", "tensor f32", "dtype f32" },
    { "type_empty", "\"F32\",\"shape\":[3,", "\"\",\"shape\":[3,", "tensor f32",
      "has the dtype ," },
    { "type_zero", "\"F32\",\"shape\":[3,", "\"F32\\u0000\",\"shape\":[3,", "tensor f32",
      "has a text for a dtype" },
    { "type_number", "\"F32\",\"shape\":[3,", "32,\"shape\":[3,", "tensor f32",
      "has a whole number for a dtype" },
    { "type_wider", "\"F32\",\"shape\":[3,", "\"F64\",\"shape\":[3,", "tensor f32 lies at 0 to 12",
      "F64 (3 x 1 x 1) takes 24 bytes" },
    { "field_missing", ",\"shape\":[3,1,1]", "", "tensor f32", "is not made of dtype, shape and" },
    { "field_unknown", "\"f32\":{", "\"f32\":{\"sparse\":true,", "tensor f32", "is not made of" },
    { "field_twice", "\"f32\":{", "\"f32\":{\"dtype\":\"F32\",", "the header of",
      "dtype comes twice" },
    { "entry_empty", F32, "\"f32\":{}", "tensor f32", "is not made of dtype" },
    { "entry_null", F32, "\"f32\":null", "tensor f32", "is not made of dtype" },
    { "entry_list", F32, "\"f32\":[\"F32\",[3],[0,12]]", "tensor f32", "is not made of dtype" },
    { "name_twice", "\"i32\":{", "\"f32\":{", "the header of", "the key f32 comes twice" },
    { "name_twice_in_disguise", "\"i32\":{", "\"f\\u00332\":{", "the header of",
      "f32 comes twice" },
    { "name_with_a_zero", "\"f32\":{", "\"f32\\u0000\":{", "the header of", "has a zero inside" },
    { "name_that_steers", "\"f32\":{", "\"\\u001b[31m\":{\"x\":0,", "tensor ?[31m",
      "is not made of" },
    { "metadata_number", "\"pt\"", "5", "line 1, column 18", "__metadata__ holds a whole number" },
    { "metadata_list", "{\"format\":\"pt\"}", "[]", "column 17", "__metadata__ is a list" },
    { "metadata_twice", "{\"format\"", "{\"format\":\"\",\"format\"", "column 30", "comes twice" },
    { "blank_in_front", "{\"__", " {\"__", "the header of", "does not begin with {" },
    { "not_closed", "\"data_offsets\":[92,92]}}", "\"data_offsets\":[92,92]}", "line 1",
      "expected a comma or }, found the end of the text" },
    { "more_behind", "[92,92]}}", "[92,92]}}x", "line 1", "expected nothing more, found x" },
    { "not_UTF_8", "\"pt\"", "\"\xff\"", "column 28", "expected UTF-8, found byte 0xFF" },
    { "deep", "\"pt\"", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
      "column 89", "nested deeper than 64 brackets" }
};

TEST lie_is_refused(const struct lie *l)
{
    const char *header = mixed_with(l->from, l->to);
    ASSERTm("it is not in the header", header);
    ASSERT(write_mixed(header));
    ASSERTm(check_text, refused(path, l->said1, l->said2));
    ASSERTm(check_text, strstr(why.text, path));
    PASS();
}

/* Blanks behind the header are how writers align the data. */
TEST blanks_behind_the_header_are_welcome(void)
{
    ASSERT(write_mixed(MIXED "   \n "));
    ASSERTm(why.text, kit_tensors_open(&set, path, &why));
    kit_tensors_close(&set);
    PASS();
}

TEST header_of_no_tensor_is_a_file(void)
{
    ASSERT(write_tensors("model.safetensors", "{}", "", 0));
    ASSERTm(why.text, kit_tensors_open(&set, path, &why));
    ASSERT(set.count == 0 && !kit_tensors_find(&set, "") && set.shards == 1);
    kit_tensors_close(&set);
    ASSERT(write_tensors("model.safetensors", "{}", "x", 1));
    ASSERTm(check_text, refused(path, path, "has 1 bytes of data, its tensors take 0"));
    ASSERT(write_tensors("model.safetensors", "[]", "", 0));
    ASSERTm(check_text, refused(path, path, "does not begin with {"));
    PASS();
}

TEST wrong_length_is_refused(uint64_t length, const char *said)
{
    kit_text t = mixed_file(MIXED);
    for (int i = 0; i < 8; i++) t.data[i] = (char)(length >> 8 * i);
    ASSERT(write_bytes("model.safetensors", t.data, t.size));
    kit_text_free(&t);
    ASSERTm(check_text, refused(path, path, said));
    PASS();
}

TEST what_is_no_file_is_refused(void)
{
    static const struct { const char *bytes; size_t n; const char *said; } list[] = {
        { "", 0, "has 0 bytes, too few" },
        { "\2\0\0\0\0\0\0", 7, "has 7 bytes, too few" },
        { "\2\0\0\0\0\0\0\0{", 9, "has 9 bytes, too few" },
        { "version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull" },
        { "<!DOCTYPE html>", 15, "ask for a header of 5789751444030890300 bytes in a file of 15" }
    };
    char at[600];
    for (int i = 0; i < 5; i++) {
        ASSERT(write_bytes("model.safetensors", list[i].bytes, list[i].n));
        ASSERTm(check_text, refused(path, path, list[i].said));
    }
    remove(path);
    ASSERTm(check_text, refused(path, "cannot open", strerror(ENOENT)));
    ASSERTm(check_text, refused(folder, folder, "has neither model.safetensors nor"));
    ASSERT_EQ(0, mkfifo(path, 0600));
    ASSERTm(check_text, refused(path, path, "is not a plain file"));
    remove(path);
    snprintf(at, sizeof at, "%s/%0300d", folder, 1);
    ASSERTm(check_text, refused(at, "cannot open", strerror(ENAMETOOLONG)));
    PASS();
}

TEST path_too_long_is_refused(void)
{
    char lengthy[KIT_PATH + 10];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = 0;
    ASSERTm(check_text, refused(lengthy, "xxx", "longer than 1023 bytes"));
    PASS();
}

/* ---- a good file, spoilt --------------------------------------------------------------------- */

TEST every_cut_is_refused(void)
{
    kit_text t = mixed_file(MIXED);
    ASSERT(write_bytes("model.safetensors", t.data, t.size));
    for (size_t n = t.size; n-- > 0;) {
        ASSERT_EQ(0, truncate(path, (off_t)n));
        ASSERTm(check_text, refused(path, path, " "));
    }
    kit_put_string(&t, "x");
    ASSERT(write_bytes("model.safetensors", t.data, t.size));
    ASSERTm(check_text, refused(path, path, "has 93 bytes of data, its tensors take 92"));
    kit_text_free(&t);
    PASS();
}

TEST every_flipped_bit_is_read_or_refused(void)
{
    size_t bits = 8 * (8 + sizeof MIXED - 1 + 92);
    int good = 0, bad = 0;
    double sum = 0;
    ASSERT(write_mixed(MIXED));
    for (size_t i = 0; i < bits; i++) {
        ASSERT(flip_bit("model.safetensors", i));
        why.text[0] = 0;
        if (kit__tensors_open(&set, path, (int)(i % 2), &why)) {
            good++;
            ASSERTm(why.text, reads_all_numbers(&sum));
            kit_tensors_close(&set);
        } else {
            bad++;
            ASSERTm(why.text, strstr(why.text, path));
        }
        ASSERT(flip_bit("model.safetensors", i));
    }
    ASSERT_GT(good, 736);                                    /* those of the data, and names */
    ASSERT_GT(bad, 2000);
    PASS();
}

/* A file that is cut while it is open and not mapped: a sentence, no garbage. */
TEST file_cut_while_open_is_noticed(void)
{
    float x[3];
    ASSERT(write_mixed(MIXED));
    ASSERTm(why.text, kit__tensors_open(&set, path, 0, &why));
    ASSERT_EQ(0, truncate(path, (off_t)set.shard[0].size - 20));
    ASSERT(!kit_tensor_floats(&set, kit_tensors_find(&set, "i64"), 0, 3, x, &why));
    ASSERTm(why.text, strstr(why.text, path) && strstr(why.text, "ends at byte"));
    kit_tensors_close(&set);
    PASS();
}

TEST crowd_of_tensors_is_quick(int places)
{
    enum { CROWD = 50000 };
    kit_text t = { NULL, 0, 0 };
    clock_t begin;
    kit_put_string(&t, "{");
    for (int i = 0; i < CROWD; i++) {
        int at = places ? (int)((unsigned)i * 48271u % CROWD) : 0;
        kit_put(&t, "%s\"a name that begins alike %d\":{\"dtype\":\"U8\",\"shape\":[%d],"
                "\"data_offsets\":[%d,%d]}", i ? "," : "", at + i * !places, places, at,
                at + places);
    }
    kit_put_string(&t, "}");
    char *data = (char *)calloc(CROWD, 1);
    ASSERT(write_tensors("model.safetensors", t.data, data, places ? CROWD : 0));
    begin = clock();
    ASSERTm(why.text, kit_tensors_open(&set, path, &why));
    ASSERT_EQ(CROWD, set.count);
    ASSERT_LT((double)(clock() - begin) / CLOCKS_PER_SEC, 5);
    kit_tensors_close(&set);
    free(data);
    kit_text_free(&t);
    PASS();
}

/* ---- an index -------------------------------------------------------------------------------- */

#define SHARD(name) "{\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
#define INDEX(a, b) "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"x\":" a ",\"y\":" b "}}"

static int write_shards(const char *index, const char *a, const char *b)
{
    const float one = 1, two = 2;
    remove_all();
    return (!a || write_tensors("a.safetensors", a, &one, 4))
        && (!b || write_tensors("b.safetensors", b, &two, 4))
        && write_bytes("model.safetensors.index.json", index, strlen(index));
}

TEST shards_are_one_model(int map)
{
    static const char index[] = INDEX("\"b.safetensors\"", "\"a.safetensors\"");
    float x = 0;
    char at[600];
    ASSERT(write_shards(index, SHARD("y"), SHARD("x")));
    ASSERTm(why.text, kit__tensors_open(&set, folder, map, &why));
    ASSERT(set.count == 2 && set.shards == 2);
    ASSERT(kit_tensor_floats(&set, kit_tensors_find(&set, "x"), 0, 1, &x, &why) && x == 2);
    ASSERT(kit_tensor_floats(&set, kit_tensors_find(&set, "y"), 0, 1, &x, &why) && x == 1);
    kit_tensors_close(&set);
    snprintf(at, sizeof at, "%s/model.safetensors.index.json", folder);
    ASSERTm(why.text, kit__tensors_open(&set, at, map, &why));         /* the index by its name */
    kit_tensors_close(&set);
    ASSERT(write_mixed(MIXED));                                     /* a whole file goes first */
    ASSERTm(why.text, kit__tensors_open(&set, folder, map, &why));
    ASSERT_EQ(9, set.count);
    kit_tensors_close(&set);
    PASS();
}

#define GOOD INDEX("\"a.safetensors\"", "\"b.safetensors\"")
#define TWO "{\"x\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}," \
            "\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}"
static const struct index_lie { const char *name, *index, *a, *b, *said1, *said2; } index_lies[] = {
    { "file_missing", GOOD, SHARD("x"), NULL, "b.safetensors", "No such file" },
    { "shard_with_a_rest", GOOD, SHARD("x"), "{}", "b.safetensors",
      "has 4 bytes of data, its tensors take 0" },
    { "tensor_not_in_its_file", INDEX("\"a.safetensors\"", "\"a.safetensors\""), SHARD("x"), NULL,
      "line 1, column 64: tensor y", "is not in a.safetensors" },
    { "tensor_doubled", GOOD, SHARD("x"), TWO, "b.safetensors: tensor x",
      "is also in a.safetensors" },
    { "tensor_in_the_wrong_file", GOOD, SHARD("y"), SHARD("x"), "b.safetensors: tensor x",
      "should be in a.safetensors, says" },
    { "tensor_not_in_the_index", GOOD, SHARD("z"), SHARD("y"), "a.safetensors: tensor z",
      "is not in" },
    { "key_with_a_zero",
      "{\"weight_map\":{\"x\":\"a.safetensors\",\"x\\u0000\":\"a.safetensors\"}}",
      SHARD("x"), NULL, "column 36: tensor x?", "is not in a.safetensors" },
    { "key_twice", "{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"b.safetensors\"}}", SHARD("x"),
      SHARD("x"), "column 36", "the key x comes twice" },
    { "folder_above", INDEX("\"../a.safetensors\"", "\"b.safetensors\""), SHARD("x"), SHARD("y"),
      "line 1, column 48", "the plain name of a file, found '../a.safetensors'" },
    { "folder_named", INDEX("\"sub/a.safetensors\"", "\"b.safetensors\""), SHARD("x"), SHARD("y"),
      "column 48", "found 'sub/a.safetensors'" },
    { "folder_root", INDEX("\"/etc/passwd\"", "\"b.safetensors\""), SHARD("x"), SHARD("y"),
      "column 48", "found '/etc/passwd'" },
    { "folder_escaped", INDEX("\"\\u002e\\u002e\\u002fa\"", "\"b.safetensors\""), SHARD("x"),
      SHARD("y"), "column 48", "found '../a'" },
    { "folder_of_others", INDEX("\"..\\\\a\"", "\"b\""), NULL, NULL, "column 48", "found '..\\a'" },
    { "folder_two_dots", INDEX("\"..\"", "\"b\""), NULL, NULL, "column 48", "found '..'" },
    { "folder_one_dot", INDEX("\".\"", "\".\""), NULL, NULL, "/.", "is not a plain file" },
    { "drive", INDEX("\"C:a\"", "\"b\""), NULL, NULL, "column 48", "found 'C:a'" },
    { "name_empty", INDEX("\"\"", "\"b\""), NULL, NULL, "column 48", "found ''" },
    { "name_with_a_zero", INDEX("\"a.safetensors\\u0000b\"", "\"b\""), NULL, NULL, "column 48",
      "found 'a.safetensors?b'" },
    { "name_that_steers", INDEX("\"\\u001b[2J\"", "\"b\""), NULL, NULL, "column 48",
      "found '?[2J'" },
    { "name_number", INDEX("5", "\"b\""), NULL, NULL, "column 48", "found 'a whole number'" },
    { "name_null", INDEX("\"b\"", "null"), NULL, NULL, "column 56", "found 'null'" },
    { "map_missing", "{\"metadata\":{}}", NULL, NULL, "column 1", "has no weight_map" },
    { "map_list", "{\"weight_map\":[\"a\"]}", NULL, NULL, "column 15", "weight_map is a list" },
    { "map_empty", "{\"weight_map\":{}}", NULL, NULL, "column 15", "names 0 files, expected 1 to" },
    { "list", "[]", NULL, NULL, "column 1", "expected an object with weight_map, found a list" },
    { "nothing", "", NULL, NULL, "column 1", "expected a value, found the end of the text" },
    { "bad_shard", GOOD, SHARD("x"), "{\"y\":1}", "b.safetensors: tensor y", "is not made of" }
};

TEST index_that_lies_is_refused(const struct index_lie *l)
{
    ASSERT(write_shards(l->index, l->a, l->b));
    ASSERTm(check_text, refused(folder, l->said1, l->said2));
    ASSERTm(check_text, strstr(why.text, folder));
    PASS();
}

TEST too_many_shards_are_refused(void)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, "{\"weight_map\":{");
    for (int i = 0; i < 100000; i++)
        kit_put(&t, "%s\"t%d\":\"f%d.safetensors\"", i ? "," : "", i, i % (KIT_SHARDS + 1));
    kit_put_string(&t, "}}");
    ASSERT(write_shards(t.data, NULL, NULL));
    kit_text_free(&t);
    ASSERTm(check_text, refused(folder, folder, "names 1001 files, expected 1 to 1000"));
    PASS();
}

TEST every_cut_of_an_index_is_refused(void)
{
    ASSERT(write_shards(GOOD, SHARD("x"), SHARD("y")));
    for (size_t n = 0; n < sizeof GOOD - 1; n++) {
        ASSERT(write_bytes("model.safetensors.index.json", GOOD, n));
        ASSERTm(check_text, refused(folder, folder, "column"));
    }
    PASS();
}

TEST every_flipped_bit_of_an_index_is_read_or_refused(void)
{
    static const char index[] = "model.safetensors.index.json";
    int good = 0, bad = 0;
    ASSERT(write_shards(GOOD, SHARD("x"), SHARD("y")));
    for (size_t i = 0; i < 8 * (sizeof GOOD - 1); i++) {
        ASSERT(flip_bit(index, i));
        if (kit__tensors_open(&set, folder, (int)(i % 2), &why)) {
            good++;
            kit_tensors_close(&set);
        } else {
            bad++;
            ASSERTm(why.text, strstr(why.text, folder));
        }
        ASSERT(flip_bit(index, i));
    }
    ASSERT_GT(good, 50);                                  /* those inside "metadata" and the like */
    ASSERT_GT(bad, 300);
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(numbers)
{
    for (int map = 0; map < 2; map++) {
        const char *how = map ? "mapped" : "read";
        label_test("F16_%s", how);
        RUN_TESTp(every_number_of_a_16_bit_format_is_read, "F16", 5, 10, map);
        label_test("BF16_%s", how);
        RUN_TESTp(every_number_of_a_16_bit_format_is_read, "BF16", 8, 7, map);
        label_test("%s", how); RUN_TESTp(types_may_be_mixed_and_lie_in_any_order, map);
        label_test("%s", how); RUN_TESTp(numbers_outside_a_tensor_are_refused, map);
        label_test("%s", how); RUN_TESTp(file_beyond_4_gigabytes_is_read, map);
    }
    label_test("layers"); RUN_TESTp(golden_file_reads_as_golden, "tests/golden/layers.safetensors");
    label_test("modern"); RUN_TESTp(golden_file_reads_as_golden, "tests/golden/modern.safetensors");
    RUN_TEST(checkpoint_of_the_library_is_read);
}

SUITE(lying)
{
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        label_test("%s", lies[i].name);
        RUN_TESTp(lie_is_refused, &lies[i]);
    }
    RUN_TEST(blanks_behind_the_header_are_welcome);
    RUN_TEST(header_of_no_tensor_is_a_file);
    label_test("0"); RUN_TESTp(wrong_length_is_refused, 0, "a header of 0 bytes in a file of");
    label_test("1"); RUN_TESTp(wrong_length_is_refused, 1, "a header of 1 bytes in a file of");
    label_test("short"); RUN_TESTp(wrong_length_is_refused, sizeof MIXED - 2, "found the end");
    label_test("long"); RUN_TESTp(wrong_length_is_refused, sizeof MIXED, "found byte 0x00");
    label_test("all"); RUN_TESTp(wrong_length_is_refused, sizeof MIXED + 91, "found byte 0x00");
    label_test("beyond"); RUN_TESTp(wrong_length_is_refused, sizeof MIXED + 92, "in a file of");
    label_test("100_MB"); RUN_TESTp(wrong_length_is_refused, 100000001, "of 100000001 bytes");
    label_test("sign"); RUN_TESTp(wrong_length_is_refused, (uint64_t)1 << 63, "922337203685477");
    label_test("most"); RUN_TESTp(wrong_length_is_refused, UINT64_MAX, "18446744073709551615");
    RUN_TEST(what_is_no_file_is_refused);
    RUN_TEST(path_too_long_is_refused);
    RUN_TEST(every_cut_is_refused);
    RUN_TEST(every_flipped_bit_is_read_or_refused);
    RUN_TEST(file_cut_while_open_is_noticed);
    label_test("of_no_size"); RUN_TESTp(crowd_of_tensors_is_quick, 0);
    label_test("shuffled"); RUN_TESTp(crowd_of_tensors_is_quick, 1);
}

SUITE(indexes)
{
    label_test("read"); RUN_TESTp(shards_are_one_model, 0);
    label_test("mapped"); RUN_TESTp(shards_are_one_model, 1);
    for (size_t i = 0; i < sizeof index_lies / sizeof *index_lies; i++) {
        label_test("%s", index_lies[i].name);
        RUN_TESTp(index_that_lies_is_refused, &index_lies[i]);
    }
    RUN_TEST(too_many_shards_are_refused);
    RUN_TEST(every_cut_of_an_index_is_refused);
    RUN_TEST(every_flipped_bit_of_an_index_is_read_or_refused);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    temporary_path(folder, sizeof folder, "safetensors");
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (mkdir(folder, 0700) != 0) { perror(folder); return 1; }
    RUN_SUITE(numbers);
    RUN_SUITE(lying);
    RUN_SUITE(indexes);
    remove_all();
    rmdir(folder);
    GREATEST_MAIN_END();
}
