/* lm/memory.h - does a model fit, and what would help if it does not

   Asked before anything is allocated: a machine that swaps trains nothing. Include posenc.h first.
   */
#ifndef LM_MEMORY_H
#define LM_MEMORY_H

#include "lm/settings.h"

/* the number behind a word in a file such as /proc/meminfo; word NULL: the file is the number; 0:
   it is not there */
static inline uint64_t lm__number_in(const char *path, const char *word)
{
    char line[256], *end;
    uint64_t found = 0;
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    while (!found && fgets(line, sizeof line, f)) {
        size_t n = word ? strlen(word) : 0;
        if (word && strncmp(line, word, n) != 0) continue;
        found = strtoull(line + n, &end, 10);
        if (end == line + n) found = 0;
        if (strncmp(end, " kB", 3) == 0) found *= 1024;
        if (!word) break;
    }
    fclose(f);
    return found;
}

/* what a container has left of its own limit; UINT64_MAX: it has none */
static inline uint64_t lm__container_memory(void)
{
    static const char *const file[][2] = {
        { "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current" },
        { "/sys/fs/cgroup/memory/memory.limit_in_bytes",
          "/sys/fs/cgroup/memory/memory.usage_in_bytes" }
    };
    for (int i = 0; i < 2; i++) {
        uint64_t limit = lm__number_in(file[i][0], NULL), used = lm__number_in(file[i][1], NULL);
        if (limit) return limit > used ? limit - used : 1;           /* "max" is no number        */
    }
    return UINT64_MAX;
}

/* Bytes a program may still have without anybody swapping; 0: not known here. */
static inline uint64_t lm_free_memory(void)
{
    uint64_t all = lm__number_in("/proc/meminfo", "MemAvailable:");
    uint64_t ours = lm__container_memory();
    return all && ours < all ? ours : all;
}

/* ---- what a run takes ------------------------------------------------------------------------ */

static inline void lm_say_bytes(char text[24], double bytes)
{
    if (bytes < 1e9) snprintf(text, 24, "%.3g MB", bytes / 1e6);
    else snprintf(text, 24, "%.3g GB", bytes / 1e9);
}

/* 0: the config is bad */
static inline double lm_bytes_of(const lm_recipe *p, int batch, int recompute, posenc_bytes *bytes)
{
    posenc_bytes own;
    posenc_config c = p->model;
    c.batch = batch;
    c.recompute = recompute;
    if (!bytes) bytes = &own;
    if (posenc_model_bytes(bytes, &c, NULL) != POSENC_OK) return 0;
    return (double)bytes->total + 8.0 * (double)p->per_step;         /* tokens and targets        */
}

/* the largest batch that divides an update's samples and fits; 0: none does */
static inline int lm__batch_that_fits(const lm_recipe *p, int recompute, double room)
{
    for (int b = p->samples; b >= 1; b--)
        if (p->samples % b == 0 && lm_bytes_of(p, b, recompute, NULL) <= room) return b;
    return 0;
}

static inline void lm__put_advice(kit_text *t, const char *begin, const lm_recipe *p, int batch,
                                  int recompute)
{
    char need[24];
    lm_say_bytes(need, lm_bytes_of(p, batch, recompute, NULL));
    kit_put_string(t, begin);
    if (batch != p->batch)
        kit_put(t, "--batch-size %d --grad-accum-steps %d", batch, p->samples / batch);
    if (recompute && !p->model.recompute) kit_put(t, "%s--recompute", batch != p->batch ? " " : "");
    kit_put(t, " (%s, the same steps)", need);
}

/* the largest preset whose parameters, gradients and moments fit with some to spare */
static inline const char *lm__size_that_fits(double room)
{
    for (int i = LM_SIZES - 1; i >= 0; i--) {
        posenc_config c = lm_size_config(lm_size_get(i), "none");
        if (1.1 * 16 * lm_parameters(&c) + 5e8 < room) return lm_size_get(i)->name;
    }
    return NULL;
}

static inline void lm__advise(kit_text *t, const lm_recipe *p, double room)
{
    int plain = lm__batch_that_fits(p, p->model.recompute, room);
    int again = lm__batch_that_fits(p, 1, room);
    if (plain) lm__put_advice(t, "; it would fit with ", p, plain, p->model.recompute);
    if (!p->model.recompute && again > plain)
        lm__put_advice(t, plain ? ", or with " : "; it would fit with ", p, again, 1);
    if (plain || again) return;
    kit_put_string(t, "; it takes fewer --layers, --channels or --vocab");
    if (lm__size_that_fits(room)) kit_put(t, ", or --size %s", lm__size_that_fits(room));
}

/* 1: it fits, or nobody knows. room: of --memory, 0 for what is free. */
static inline int lm_memory_check(const lm_recipe *p, const char *size, kit_error *why)
{
    posenc_bytes b;
    double need = lm_bytes_of(p, p->batch, p->model.recompute, &b);
    double room = p->memory ? (double)p->memory : (double)lm_free_memory();
    char part[4][24], all[24], free_[24];
    if (room == 0 || need <= room) return 1;
    const double bytes[4] = { (double)b.parameters, (double)b.gradients, (double)b.moments,
                              (double)b.activations };
    for (int i = 0; i < 4; i++) lm_say_bytes(part[i], bytes[i]);
    lm_say_bytes(all, need);
    lm_say_bytes(free_, room);
    kit_text t = { NULL, 0, 0 };
    lm__advise(&t, p, room);
    kit_fail(why, "%s takes %s (parameters %s, gradients %s, moments %s, activations %s) and %s "
             "%s%s", size, all, part[0], part[1], part[2], part[3], free_,
             p->memory ? "is what --memory allows" : "is free", t.data);
    kit_text_free(&t);
    return 0;
}

#endif
