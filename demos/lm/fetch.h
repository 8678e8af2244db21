/* lm/fetch.h - lm fetch: public sets of shards in llm.c's format, brought here by curl

       lm fetch fineweb-edu --shards 10 --out data/fineweb-edu

   One validation shard and N for training, 100 million GPT-2 tokens (200 MB) each. A shard arrives
   as NAME.part and gets its name when its header, its size and, where a list has one, its SHA-256
   are right, so that a name stands for a whole file. What was broken off goes on where it stopped;
   what is there is not fetched again. curl gets its arguments one by one, not through a shell. */
#ifndef LM_FETCH_H
#define LM_FETCH_H

#include "../kit/args.h"
#include "../kit/progress.h"
#include "../kit/training.h"
#include "shards.h"
#include <ctype.h>
#include <sys/wait.h>

typedef struct lm__public { const char *name, *repository, *prefix; int shards; } lm__public;

/* numbered from 1; number 0 is the validation shard */
static const lm__public lm__publics[] = {
    { "fineweb-edu", "karpathy/fineweb-edu-100B-gpt2-token-shards", "edu_fineweb", 1001 },
    { "fineweb", "kjj0/fineweb10B-gpt2", "fineweb", 103 },
    { NULL, NULL, NULL, 0 }
};

typedef struct lm__fetch {
    const lm__public *set;
    const char *out, *from, *sums;
    int shards, dry_run;
    kit_text list;                         /* of --sha256                                         */
} lm__fetch;

/* ---- SHA-256 (FIPS 180-4) --------------------------------------------------------------------
   Words are 32 bits, big-endian; r(x, n) turns right. A block of 16 words is stretched to 64:

       w_t = w_{t-16} + s0(w_{t-15}) + w_{t-7} + s1(w_{t-2})

   and stirred into the state a..h in 64 rounds. The constants are the first 32 bits behind the
   point of the cube roots of the first 64 primes; of 8 square roots the state one begins with. */

typedef struct lm__sha256 {
    uint32_t state[8];
    unsigned char block[64];
    size_t used;
    uint64_t bytes;
} lm__sha256;

static inline uint32_t lm__turned(uint32_t x, int n) { return x >> n | x << (32 - n); }

static inline void lm__sha256_begin(lm__sha256 *h)
{
    static const uint32_t first[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19
    };
    memset(h, 0, sizeof *h);
    memcpy(h->state, first, sizeof first);
}

static inline void lm__sha256_block(lm__sha256 *h)
{
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2
    };
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)h->block[4 * t] << 24 | (uint32_t)h->block[4 * t + 1] << 16
             | (uint32_t)h->block[4 * t + 2] << 8 | (uint32_t)h->block[4 * t + 3];
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + (lm__turned(a, 7) ^ lm__turned(a, 18) ^ a >> 3) + w[t - 7]
             + (lm__turned(b, 17) ^ lm__turned(b, 19) ^ b >> 10);
    }
    memcpy(s, h->state, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t a = s[0], e = s[4];
        uint32_t one = s[7] + (lm__turned(e, 6) ^ lm__turned(e, 11) ^ lm__turned(e, 25))
                     + ((e & s[5]) ^ (~e & s[6])) + k[t] + w[t];
        uint32_t two = (lm__turned(a, 2) ^ lm__turned(a, 13) ^ lm__turned(a, 22))
                     + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) h->state[i] += s[i];
}

static inline void lm__sha256_put(lm__sha256 *h, const void *bytes, size_t n)
{
    const unsigned char *at = (const unsigned char *)bytes;
    h->bytes += n;
    while (n > 0) {
        size_t take = 64 - h->used < n ? 64 - h->used : n;
        memcpy(h->block + h->used, at, take);
        h->used += take;
        at += take;
        n -= take;
        if (h->used < 64) break;
        lm__sha256_block(h);
        h->used = 0;
    }
}

/* a 1 bit, zeros, and the length in bits */
static inline void lm__sha256_end(char text[65], lm__sha256 *h)
{
    unsigned char length[8], one = 0x80, zero = 0;
    uint64_t bits = 8 * h->bytes;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> 8 * (7 - i));
    lm__sha256_put(h, &one, 1);
    while (h->used != 56) lm__sha256_put(h, &zero, 1);
    lm__sha256_put(h, length, 8);
    for (int i = 0; i < 8; i++) snprintf(text + 8 * i, 9, "%08x", (unsigned)h->state[i]);
}

static inline int lm__sha256_file(char text[65], const char *path, kit_error *why)
{
    enum { ROOM = 1 << 16 };
    lm__sha256 h;
    ssize_t got;
    int file = open(path, O_RDONLY);
    if (file < 0) return kit_fail(why, "cannot open %.300s: %s", path, strerror(errno));
    char *piece = (char *)kit_new(ROOM, 1);
    lm__sha256_begin(&h);
    while ((got = read(file, piece, ROOM)) > 0) lm__sha256_put(&h, piece, (size_t)got);
    int code = got < 0 ? errno : 0;
    lm__sha256_end(text, &h);
    free(piece);
    close(file);
    return code ? kit_fail(why, "cannot read %.300s: %s", path, strerror(code)) : 1;
}

/* "hex  name" lines, as sha256sum writes them. 1: the file is listed, sum is its. */
static inline int lm__sum_listed(char sum[65], const char *list, const char *name)
{
    for (const char *line = list; line && *line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        size_t hex = strspn(line, "0123456789abcdefABCDEF"), n = strcspn(line, "\r\n");
        const char *at = line + hex;
        if (hex != 64 || n < 66) continue;
        at += strspn(at, " *");
        for (const char *c = at; c < line + n; c++)           /* a list may have folders' names */
            if (*c == '/') at = c + 1;
        if ((size_t)(line + n - at) != strlen(name) || memcmp(at, name, strlen(name)) != 0)
            continue;
        for (int i = 0; i < 64; i++) sum[i] = (char)tolower((unsigned char)line[i]);
        sum[64] = 0;
        return 1;
    }
    return 0;
}

/* ---- one shard ------------------------------------------------------------------------------- */

static inline void lm__shard_name(char name[96], const lm__fetch *f, int number)
{
    snprintf(name, 96, "%s_%s_%06d.bin", f->set->prefix, number ? "train" : "val", number);
}

static inline int lm__shard_url(char url[KIT_PATH], const lm__fetch *f, int number, kit_error *why)
{
    char name[96];
    int n;
    lm__shard_name(name, f, number);
    if (f->from) n = snprintf(url, KIT_PATH, "%s/%s", f->from, name);
    else n = snprintf(url, KIT_PATH, "https://huggingface.co/datasets/%s/resolve/main/%s",
                      f->set->repository, name);
    return n < KIT_PATH ? 1 : kit_fail(why, "the address %.60s... is too long", url);
}

/* header, size, and the sum if one is listed */
static inline int lm__shard_is_good(const lm__fetch *f, const char *path, const char *name,
                                    kit_error *why)
{
    char expected[65], sum[65];
    lm__shard s;
    lm__meta none;
    memset(&s, 0, sizeof s);
    memset(&none, 0, sizeof none);
    snprintf(s.path, sizeof s.path, "%s", path);
    int good = lm__shard_map(&s, why) && lm__shard_recognise(&s, &none, NULL, why);
    if (good && s.width != 2)
        good = kit_fail(why, "%.300s is no shard of llm.c: it does not begin with %d", path,
                        LM_MAGIC_16);
    if (s.map) munmap((void *)s.map, (size_t)s.size);
    if (!good || !f->list.data || !lm__sum_listed(expected, f->list.data, name)) return good;
    if (!lm__sha256_file(sum, path, why)) return 0;
    if (strcmp(sum, expected) == 0) return 1;
    return kit_fail(why, "%.200s has the SHA-256 %.16s..., %.100s says %.16s...: remove it and"
                    " fetch it again", path, sum, f->sums, expected);
}

/* What curl's exit codes mean, for those that happen. */
static inline int lm__curl_failed(int code, const char *url, kit_error *why)
{
    if (code == 127)
        return kit_fail(why, "there is no curl here; install it, or run the commands of --dry-run"
                        " elsewhere");
    if (code == 6 || code == 7 || code == 28 || code == 35)
        return kit_fail(why, "no network: %.200s cannot be reached; what has arrived is kept, and"
                        " the same command goes on", url);
    if (code == 22)
        return kit_fail(why, "the server does not give %.200s (curl's code 22); see above", url);
    if (code == 23)
        return kit_fail(why, "curl cannot write what it fetches; is the disk full?");
    return kit_fail(why, "curl ended with code %d at %.200s; what has arrived is kept, and the same"
                    " command goes on", code, url);
}

static inline int lm__curl(const char *url, const char *part, kit_error *why)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execlp("curl", "curl", "-fL", "-C", "-", "--retry", "3", "-o", part, "--", url,
               (char *)NULL);
        _exit(127);
    }
    if (child < 0) return kit_fail(why, "cannot start curl: %s", strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 1;
    return lm__curl_failed(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), url,
                           why);
}

/* 1: a beginning that curl may go on with; what is no shard, or too much of one, is thrown away */
static inline void lm__part_check(const char *part)
{
    unsigned char head[12];
    struct stat st;
    int file = open(part, O_RDONLY);
    if (file < 0) return;
    int read12 = pread(file, head, 12, 0) == 12, sized = fstat(file, &st) == 0;
    close(file);
    if (!read12 || !sized || lm__word(head) != LM_MAGIC_16
        || (uint64_t)st.st_size > LM_HEADER + 2 * (uint64_t)lm__word(head + 8)) unlink(part);
}

static inline int lm__fetch_shard(const lm__fetch *f, int number, kit_error *why)
{
    char name[96], path[KIT_PATH], part[KIT_PATH], url[KIT_PATH];
    kit_error other;
    lm__shard_name(name, f, number);
    if (!lm__shard_url(url, f, number, why) || !kit_join(path, f->out, name, why)) return 0;
    if (kit_exists(path)) {
        if (!lm__shard_is_good(f, path, name, why)) return 0;
        printf("%s is there\n", path);
        return 1;
    }
    if (strlen(path) + 6 > KIT_PATH) return kit_fail(why, "the path %.60s... is too long", path);
    snprintf(part, sizeof part, "%.*s.part", KIT_PATH - 6, path);
    lm__part_check(part);
    printf("%s\n", url);
    fflush(stdout);
    if (!lm__shard_is_good(f, part, name, &other) && !lm__curl(url, part, why)) return 0;
    if (!lm__shard_is_good(f, part, name, why)) return 0;
    if (rename(part, path) != 0)
        return kit_fail(why, "cannot write %.300s: %s", path, strerror(errno));
    return 1;
}

/* ---- lm fetch -------------------------------------------------------------------------------- */

/* in single quotes, as a shell takes it */
static inline void lm__put_quoted(kit_text *t, const char *word)
{
    kit_put_string(t, "'");
    for (; *word; word++) {
        if (*word == '\'') kit_put_string(t, "'\\''");
        else kit_put_bytes(t, word, 1);
    }
    kit_put_string(t, "'");
}

static inline int lm__fetch_print(const lm__fetch *f, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    char name[96], path[KIT_PATH], url[KIT_PATH];
    int good = 1;
    kit_put_string(&t, "mkdir -p ");
    lm__put_quoted(&t, f->out);
    for (int i = 0; i <= f->shards && good; i++) {
        lm__shard_name(name, f, i);
        good = lm__shard_url(url, f, i, why) && kit_join(path, f->out, name, why);
        kit_put_string(&t, "\ncurl -fL -C - --retry 3 -o ");
        lm__put_quoted(&t, path);
        kit_put_string(&t, " ");
        lm__put_quoted(&t, url);
    }
    if (good) printf("%s\n", t.data);
    kit_text_free(&t);
    return good;
}

static inline int lm__fetch_all(lm__fetch *f, kit_error *why)
{
    if (f->sums && !kit_read_file(&f->list, f->sums, 1 << 24, why)) return FAILED;
    if (!kit_make_folders(f->out, why)) return FAILED;
    printf("%d shards of %s (200 MB each, %.1f GB in all) into %s\n", f->shards + 1,
           f->set->repository, 0.2 * (f->shards + 1), f->out);
    for (int i = 0; i <= f->shards; i++) {
        if (!lm__fetch_shard(f, i, why)) return kit_stopped() ? STOPPED : FAILED;
        if (kit_stopped()) return STOPPED;
    }
    printf("all %d are there; lm info %s shows them\n", f->shards + 1, f->out);
    return DONE;
}

static inline int lm__fetch_settings(lm__fetch *f, kit_args *a)
{
    const lm__public *set = lm__publics;
    if (a->operands.count != 1)
        return kit_usage(a, "say which set: fineweb-edu or fineweb");
    while (set->name && strcmp(set->name, a->operands.item[0]) != 0) set++;
    if (!set->name)
        return kit_usage(a, "there is no set '%.60s'; there are fineweb-edu and fineweb",
                         a->operands.item[0]);
    if (f->shards > set->shards)
        return kit_usage(a, "--shards is %d, %s has %d for training", f->shards, set->name,
                         set->shards);
    f->set = set;
    return 1;
}

static inline int lm_fetch_main(int argc, char **argv)
{
    lm__fetch f;
    memset(&f, 0, sizeof f);
    f.shards = 1;
    f.out = "results/lm/fineweb";
    kit_option options[] = {
        kit_int("shards", &f.shards, 1, 1001, "for training; one more is for validation"),
        kit_word("out", &f.out, "DIR", "where they go"),
        kit_word("from", &f.from, "URL", "a mirror: the address in front of the files' names"),
        kit_word("sha256", &f.sums, "FILE", "sums to check, as sha256sum writes them"),
        kit_switch("dry-run", &f.dry_run, "print the commands, fetch nothing"),
        kit_no_more()
    };
    kit_args a;
    kit_error why;
    memset(&a, 0, sizeof a);
    a.program = "lm fetch";
    a.summary = "lm fetch: public shards of GPT-2 tokens, 100 million (200 MB) each";
    a.operand = "SET";
    a.options = options;
    a.closing =
        "SET: fineweb-edu (karpathy/fineweb-edu-100B-gpt2-token-shards, up to 1001 shards) or\n"
        "fineweb (kjj0/fineweb10B-gpt2, up to 103). What was broken off goes on when the same\n"
        "command is given again. The fetching is done by curl.\n\n"
        "  lm fetch fineweb-edu --shards 10 --out data/fineweb-edu\n"
        "  lm fetch fineweb-edu --shards 2 --dry-run";
    if (!kit_args_read(&a, argc, argv) || !lm__fetch_settings(&f, &a)) return a.exit_code;
    kit_catch_stop();
    int code = f.dry_run ? lm__fetch_print(&f, &why) ? DONE : FAILED : lm__fetch_all(&f, &why);
    kit_text_free(&f.list);
    if (code == FAILED) fprintf(stderr, "lm fetch: %s\n", why.text);
    if (code == STOPPED)
        fprintf(stderr, "lm fetch: stopped; the same command goes on with what has arrived\n");
    return fflush(stdout) == 0 ? code : FAILED;
}

#endif
