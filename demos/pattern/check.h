/* pattern/check.h - is this machine set up? One line for each thing, ok or FAILED */
#ifndef PATTERN_CHECK_H
#define PATTERN_CHECK_H

#include "pattern/tasks.h"
#include "kit/png.h"
#include <sys/statvfs.h>

enum { CHECK_MEGABYTES = 300 };            /* a whole comparison leaves about 200 */

/* Prints a line; returns ok, so that verdicts can be added up. */
KIT_FORMAT(3, 4) static int check_line(int ok, const char *name, const char *format, ...)
{
    char text[KIT_PATH + 600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("%-7s %-10s %s\n", ok ? "ok" : "FAILED", name, text);
    return ok;
}

static void check_compiler(void)
{
#if defined(__clang__)
    check_line(1, "compiler", "clang %d.%d.%d, C %ld", __clang_major__, __clang_minor__,
               __clang_patchlevel__, __STDC_VERSION__);
#elif defined(__GNUC__)
    check_line(1, "compiler", "gcc %d.%d.%d, C %ld", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__,
               __STDC_VERSION__);
#else
    check_line(1, "compiler", "not gcc nor clang, C %ld", __STDC_VERSION__);
#endif
    check_line(1, "header", "posenc.h %s, numbers of %d bytes", POSENC_VERSION_STRING,
               (int)sizeof(posenc_float));
    check_line(1, "kernels", "%s", posenc_cpu_tier());
}

static int check_threads(int wanted)
{
    int here = posenc_threads();
#ifdef _OPENMP
    return check_line(here >= 1, "threads", "%d used, with OpenMP", wanted > 0 ? wanted : here);
#else
    (void)wanted;
    return check_line(here == 1, "threads", "1: compiled without -fopenmp");
#endif
}

/* ---- a gradient ------------------------------------------------------------------------------
   A tiny model with three encodings that enter at three places. Along u = g/|g| the loss must rise
   by |g| per unit of length: (loss(w + h u) - loss(w - h u)) / 2h against |g|. In float a loss of
   about 1 carries a noise of 1e-7, so h = 0.01 is far above it. */

typedef struct check_model {
    posenc_model *model;
    posenc_batch batch;
    int tokens[4 * 8], targets[4];
} check_model;

static int check_model_make(check_model *c, posenc_error *said)
{
    posenc_config config;
    memset(c, 0, sizeof *c);
    memset(&config, 0, sizeof config);
    config.encoding = "learned+lrope+relative";
    config.vocab = 10;
    config.context = 8;
    config.classes = 3;
    config.batch = 4;
    config.layers = 2;
    config.channels = 16;
    config.heads = 2;
    config.embedding_init = 0.5;
    config.seed = 1;
    for (int i = 0; i < 4 * 8; i++) c->tokens[i] = 1 + 7 * i % 9;
    for (int i = 0; i < 4; i++) c->targets[i] = i % 3;
    c->batch.B = 4;
    c->batch.T = 8;
    c->batch.tokens = c->tokens;
    c->batch.targets = c->targets;
    return posenc_model_create(&c->model, &config, said) == POSENC_OK;
}

/* w += step * g for every tensor, through host memory; returns |g|^2 */
static double check_move(posenc_model *m, double step)
{
    double squares = 0;
    for (int i = 0; i < posenc_model_parameters(m); i++) {
        const posenc_tensor *t = posenc_model_parameter(m, i);
        posenc_float *w = (posenc_float *)kit_new(2 * t->count, sizeof *w), *g = w + t->count;
        posenc_model_get(m, w, t->data, t->count);
        posenc_model_get(m, g, t->grad, t->count);
        squares += posenc_sum_squares(g, t->count);
        for (size_t k = 0; k < t->count; k++) w[k] += (posenc_float)(step * g[k]);
        posenc_model_set(m, t->data, w, t->count);
        free(w);
    }
    return squares;
}

static int check_gradient(void)
{
    check_model c;
    posenc_error said;
    double loss, up = 0, down = 0, h = 0.01, norm = 0;
    int went = check_model_make(&c, &said)
            && posenc_model_train(c.model, &c.batch, &loss, &said) == POSENC_OK;
    if (went) {
        norm = sqrt(check_move(c.model, 0));
        check_move(c.model, h / norm);
        went = posenc_model_loss(c.model, &c.batch, &up, &said) == POSENC_OK;
        check_move(c.model, -2 * h / norm);
        went = went && posenc_model_loss(c.model, &c.batch, &down, &said) == POSENC_OK;
    }
    posenc_model_free(c.model);
    if (!went) return check_line(0, "gradient", "%s", said.text);
    double numeric = (up - down) / (2 * h), larger = norm > fabs(numeric) ? norm : fabs(numeric);
    return check_line(fabs(numeric - norm) <= 1e-3 * larger, "gradient",
                      "%.6f by backward, %.6f by finite differences (within 0.1 %%)",
                      norm, numeric);
}

/* ---- the disk -------------------------------------------------------------------------------- */

static int check_disk(const char *out)
{
    struct statvfs disk;
    kit_error why;
    kit_text some = { NULL, 0, 0 };
    char path[KIT_PATH];
    kit_put_string(&some, "written by pattern check\n");
    int wrote = kit_make_folders(out, &why) && kit_join(path, out, "check.txt", &why)
             && kit_save(path, &some, &why);
    kit_text_free(&some);
    if (!wrote) return check_line(0, "writing", "%s", why.text);
    unlink(path);
    check_line(1, "writing", "into %s", out);
    if (statvfs(out, &disk) != 0) return check_line(0, "disk", "%s: %s", out, strerror(errno));
    double free_megabytes = (double)disk.f_bavail * (double)disk.f_frsize / 1e6;
    return check_line(free_megabytes >= CHECK_MEGABYTES, "disk", "%.0f MB free (%d wanted)",
                      free_megabytes, CHECK_MEGABYTES);
}

/* The exit code: 0 only if all that matters is ok. PNG pictures are worth having, no more. */
static int check_machine(const char *out, int threads)
{
    check_compiler();
    int ok = check_threads(threads);
    ok = check_gradient() && ok;
    if (KIT_HAS_PNG) check_line(1, "pictures", "PNG and SVG");
    else printf("%-7s %-10s SVG only: %s\n", "note", "pictures", KIT_NO_PNG);
    ok = check_disk(out) && ok;
    printf("\n%s\n", ok ? "all is ok" : "something FAILED: see above");
    return ok ? 0 : 1;
}

#endif
