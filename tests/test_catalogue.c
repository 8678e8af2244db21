/* Every encoding of the table against an independent oracle, outputs and gradients, through the
   calls that take a spec. The numbers and who computed them are in
   tests/golden/catalogue.safetensors, the way of comparing in catalogue.h. Once for each kernel
   tier that this CPU has.                                                                        */
#include "posenc.h"
#include "check.h"
#include "catalogue.h"

static golden_file file;
static const char *tier;

TEST golden_file_is_whole(void)
{
    char name[CATALOGUE_NAME];
    ASSERTm(file.wrong, file.wrong[0] == 0);
    ASSERTm("there is no case in it", catalogue_case(name, &file, 0));
    PASS();
}

static int cases_of[POSENC_ENCODING_COUNT];       /* counted by the first round */

TEST matches_its_oracle(const char *name)
{
    static catalogue_result r;
    static char text[600];
    int good = catalogue_run(&r, &file, name);
    snprintf(text, sizeof text, "%.120s (%.60s): %s", r.spec, r.oracle, r.wrong);
    if (r.encoding >= 0) cases_of[r.encoding]++;
    ASSERTm(text, good);
    PASS();
}

/* one that was added to the table and has no golden values fails by name */
TEST has_a_golden_case(int encoding)
{
    if (cases_of[encoding]) PASS();
    FAILm("no case of this encoding in catalogue.safetensors: add one to oracle_catalogue.py");
}

/* every case says who is the judge of it */
TEST case_names_its_oracle(const char *name)
{
    static catalogue_result r;
    catalogue_run(&r, &file, name);
    ASSERT_GT(strlen(r.oracle), 3);
    PASS();
}

/* ---- how parameters start: of a model with this encoding, where it is not by chance ---------- */

/* "pe.lalibi.slope", or "blocks.0.pe.lrope.scale" */
static posenc_tensor *tensor_of(posenc_model *m, const char *encoding, const char *part)
{
    char name[64];
    posenc_tensor *t;
    snprintf(name, sizeof name, "pe.%s.%s", encoding, part);
    if ((t = posenc_model_find(m, name)) != NULL) return t;
    snprintf(name, sizeof name, "blocks.0.pe.%s.%s", encoding, part);
    return posenc_model_find(m, name);
}

TEST parameters_start_as_the_oracle_says(const char *name)
{
    static catalogue_result r;
    static posenc_float got[1024];
    static char text[300];
    char key[96];
    size_t length = strlen(name);
    posenc_config c;
    static posenc_error why;
    posenc_model *m = NULL;
    golden_tensor *shape;
    int starts = 0, good = 1;
    catalogue_run(&r, &file, name);
    snprintf(key, sizeof key, "%s.shape", name);
    shape = golden_find(&file, key);
    ASSERT(shape != NULL && r.encoding > 0);
    memset(&c, 0, sizeof c);
    c.encoding = r.spec;
    c.vocab = 5;
    c.channels = (int)golden_at(shape, 0);
    c.heads = (int)golden_at(shape, 1);
    c.context = (int)golden_at(shape, 3);
    c.causal = (int)golden_at(shape, 4);
    c.layers = c.threads = 1;
    if (posenc_encoding_get(r.encoding)->where == POSENC_EMBEDDING) c.heads = 1;
    for (int i = 0; i < file.count && good; i++) {
        golden_tensor *want = &file.list[i];
        const posenc_tensor *t;
        if (strncmp(want->name, name, length)
            || strncmp(want->name + length, ".start.", 7)) continue;
        starts++;
        if (!m && posenc_model_create(&m, &c, &why) != POSENC_OK) FAILm(why.text);
        t = tensor_of(m, posenc_encoding_get(r.encoding)->name, want->name + length + 7);
        good = t && t->count == want->count && t->count <= 1024;
        if (good) posenc_model_get(m, got, t->data, t->count);
        for (size_t n = 0; good && n < want->count; n++)
            good = fabs((double)got[n] - golden_at(want, n)) <= 1e-6;
        snprintf(text, sizeof text, "%s starts with something else", want->name);
    }
    posenc_model_free(m);
    ASSERTm(text, good);
    ASSERT_GTE(starts, 1);
    PASS();
}

/* kerple: r1 anywhere in 0 .. 2, r2 in 0 .. 1, as the paper's code has it */
TEST kerple_starts_anywhere_in_its_range(void)
{
    enum { HEADS = 64 };
    posenc_config c;
    posenc_model *m = NULL;
    posenc_tensor *t;
    posenc_float w[2 * HEADS];
    double most[2] = { 0, 0 }, least[2] = { 9, 9 };
    memset(&c, 0, sizeof c);
    c.encoding = "kerple";
    c.vocab = 5;
    c.context = 8;
    c.channels = c.heads = HEADS;
    c.layers = c.threads = 1;
    ASSERT_EQ_FMT((int)POSENC_OK, (int)posenc_model_create(&m, &c, NULL), "%d");
    t = tensor_of(m, "kerple", "weight");
    if (t && t->count == 2 * HEADS) posenc_model_get(m, w, t->data, t->count);
    else for (int i = 0; i < 2 * HEADS; i++) w[i] = (posenc_float)NAN;
    posenc_model_free(m);
    for (int i = 0; i < 2 * HEADS; i++) {
        ASSERT(w[i] >= 0 && w[i] <= 2);
        most[i % 2] = fmax(most[i % 2], (double)w[i]);
        least[i % 2] = fmin(least[i % 2], (double)w[i]);
    }
    ASSERT(least[0] < 0.2 && least[1] < 0.1);
    ASSERT(most[1] > 0.9 && most[1] <= 1.0);
    ASSERT_GT(most[0], 1.8);
    PASS();
}

/* ---- the driver itself ----------------------------------------------------------------------- */

/* what the driver must look at, by the end of the tensor's name */
static int is_output(const char *what)
{
    static const char *outputs[] = { "rows", "yq", "yk", "dxq", "dxk", "bias", "frequency",
                                     "magnitude" };
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (!strcmp(what, outputs[i])) return 1;
    return !strncmp(what, "dw.", 3);
}

static void write_number(golden_tensor *t, size_t i, double value)
{
    unsigned char *raw = file.bytes + (t->raw - file.bytes);
    if (!strcmp(t->kind, "F64")) memcpy(raw + 8 * i, &value, 8);
    else { float f = (float)value; memcpy(raw + 4 * i, &f, 4); }
}

/* One expected number changed by a few times what is allowed, or made NaN: the case must fail, for
   each of its outputs, and name it. Put back, it passes again.                                   */
TEST changed_expectation_is_noticed(const char *name)
{
    static catalogue_result r;
    size_t length = strlen(name);
    int outputs = 0;
    uint16_t one = 1;
    if (*(unsigned char *)&one != 1) SKIPm("the file is written for little-endian machines");
    ASSERTm(r.wrong, catalogue_run(&r, &file, name));
    for (int i = 0; i < file.count; i++) {
        golden_tensor *t = &file.list[i];
        size_t at;
        double kept, largest = 0.0, allowed;
        if (strncmp(t->name, name, length) || t->name[length] != '.') continue;
        if (!is_output(t->name + length + 1)) continue;
        ASSERTm(t->name, !strcmp(t->kind, "F32") || !strcmp(t->kind, "F64"));
        for (size_t n = 0; n < t->count; n++) largest = fmax(largest, fabs(golden_at(t, n)));
        allowed = r.tolerance * fmax(largest, 1.0);
        at = (size_t)check_random_below((int)t->count);
        kept = golden_at(t, at);
        for (int nan = 0; nan < 2; nan++) {
            static catalogue_result changed;
            write_number(t, at, nan ? NAN : kept + 4.0 * allowed + fabs(kept) * 1e-5);
            ASSERTm(t->name, !catalogue_run(&changed, &file, name));
            ASSERTm(t->name, !(changed.ratio <= 1.0));
            ASSERTm(changed.wrong, strstr(changed.wrong, t->name) != NULL);
        }
        write_number(t, at, kept);
        outputs++;
    }
    ASSERT_GTE(outputs, 1);
    ASSERTm(r.wrong, catalogue_run(&r, &file, name));
    PASS();
}

/* A tensor that is missing is a failure, not something to pass over. */
TEST missing_expectation_is_noticed(const char *name)
{
    static catalogue_result r;
    size_t length = strlen(name);
    for (int i = 0; i < file.count; i++) {
        golden_tensor *t = &file.list[i];
        const char *what = t->name + length + 1;
        char first = t->name[0];
        int optional = !strcmp(what, "frequency") || !strcmp(what, "magnitude");
        if (strncmp(t->name, name, length) || t->name[length] != '.') continue;
        if (!is_output(what) || optional) continue;
        t->name[0] = '#';
        ASSERTm(t->name, !catalogue_run(&r, &file, name));
        t->name[0] = first;
    }
    PASS();
}

TEST unknown_case_fails(void)
{
    static catalogue_result r;
    ASSERT_FALSE(catalogue_run(&r, &file, "no_such_case"));
    ASSERT(!(r.ratio <= 1.0));
    ASSERT_GT(strlen(r.wrong), 10);
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(golden_catalogue_file) { RUN_TEST(golden_file_is_whole); }

SUITE(golden_catalogue)
{
    char name[CATALOGUE_NAME];
    for (int i = 0; catalogue_case(name, &file, i); i++) {
        label_test("%s_%s", name, tier);
        RUN_TESTp(matches_its_oracle, name);
    }
}

static int has_start(const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < file.count; i++)
        if (!strncmp(file.list[i].name, name, n) && !strncmp(file.list[i].name + n, ".start.", 7))
            return 1;
    return 0;
}

SUITE(first_values)
{
    char name[CATALOGUE_NAME];
    RUN_TEST(kerple_starts_anywhere_in_its_range);
    for (int i = 0; catalogue_case(name, &file, i); i++)
        if (has_start(name)) {
            label_test("%s", name);
            RUN_TESTp(parameters_start_as_the_oracle_says, name);
        }
}

SUITE(the_driver)
{
    char name[CATALOGUE_NAME];
    for (int i = POSENC_NONE + 1; i < POSENC_ENCODING_COUNT; i++) {
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(has_a_golden_case, i);
    }
    RUN_TEST(unknown_case_fails);
    for (int i = 0; catalogue_case(name, &file, i); i++) {
        label_test("%s", name);
        RUN_TESTp(case_names_its_oracle, name);
        label_test("%s", name);
        RUN_TESTp(changed_expectation_is_noticed, name);
        label_test("%s", name);
        RUN_TESTp(missing_expectation_is_noticed, name);
    }
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    static const char *const tiers[] = { "c", "avx2", "avx512", "neon" };
    int whole = golden_open(&file, "tests/golden/catalogue.safetensors");
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(golden_catalogue_file);
    for (int i = 0; i < 4 && whole; i++) {
        tier = tiers[i];
        if (!posenc_use_tier(tier)) continue;
        RUN_SUITE(golden_catalogue);
    }
    if (whole) RUN_SUITE(first_values);
    if (whole) RUN_SUITE(the_driver);
    golden_close(&file);
    GREATEST_MAIN_END();
}
