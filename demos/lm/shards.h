/* lm/shards.h - tokens on the disk: files of several kinds read as one long row, and the writer

       lm_data d;
       if (!lm_data_open(&d, "data/corpus", "train", &why)) ...     a folder, a file, or a,b,c
       if (!lm_data_read(&d, tokens, at, n, &why)) ...              n tokens from place `at` on
       lm_data_close(&d);

   A file is recognised by what is in it:

       llm.c        1,024 bytes of header (256 little-endian int32: magic, version, number of
                    tokens, zeros), then the tokens
                        magic 20240520, version 1: uint16, GPT-2's ids
                        magic 20240801, version 7: uint32, LLaMA-3's ids
       headerless   uint16 or uint32, little-endian, when meta.json beside it lists the file
       bytes        any other plain file; every byte is a token

   meta.json { "dtype": "uint16", "vocab_size": 256, "shards": [...] } may also say num_shards,
   total_tokens, total_docs, split, eot (the token that begins a document), and window (W: the
   tokens lie in windows of W that belong together). A shard is the plain name of a file, or
   { "name": ..., "split": ..., "tokens": ... }. Where it is, it decides what the folder holds:
   without it all *.bin count, in the order of their names. A split is named by meta.json or by a
   word of the file's name (set_train_000000.bin, val.bin).

   Files are read as if an enemy had written them. They are mapped; before a window is read, the
   size of its file is compared with what was mapped, so that a file which was cut short or taken
   away during a run is a sentence and not a signal. */
#ifndef LM_SHARDS_H
#define LM_SHARDS_H

#include "../kit/files.h"
#include "../kit/json.h"
#include "../kit/read_json.h"
#include <dirent.h>
#include <sys/mman.h>

enum { LM_PAD = 0, LM_SOURCES = 8 };

enum {
    LM_HEADER = 1024,                      /* bytes in front of llm.c's tokens                    */
    LM_MAGIC_16 = 20240520, LM_MAGIC_32 = 20240801,
    LM_VOCAB_GPT2 = 50257, LM_EOT_GPT2 = 50256, LM_VOCAB_LLAMA3 = 128256, LM_EOT_LLAMA3 = 128000,
    LM_VOCAB_MOST = 1 << 24,
    LM_META_BYTES = 4 << 20,               /* longest meta.json                                   */
    LM_SHARDS = 20000,                     /* most files of one row                               */
    LM_SHARD_TOKENS = 100000000            /* of a shard that is written, unless one says more    */
};

typedef unsigned long long lm__large;      /* what %llu takes, on every machine                   */

typedef struct lm__shard {
    char path[KIT_PATH];
    const char *kind, *split;              /* "llm.c uint16" ...; NULL: no split                  */
    const unsigned char *map;              /* (size) the whole file                               */
    uint64_t size, begin;                  /* bytes; where the tokens begin                       */
    uint64_t first, tokens;                /* place of its first token in the row; how many       */
    int width;                             /* bytes of a token                                    */
    int vocab, eot, window;
    dev_t device;                          /* which file it was                                   */
    ino_t inode;
} lm__shard;

typedef struct lm_data {
    char name[KIT_PATH];                   /* as it was named                                     */
    uint64_t tokens;                       /* all of them                                         */
    int vocab;                             /* one past the largest id there can be                */
    int eot;                               /* begins a document: 0 for bytes, 50256; -1 unknown   */
    int window;                            /* 0: plain; W: aligned windows of W tokens            */
    lm__shard *shard;                      /* (shards) in the order of the row                    */
    int shards, room;
} lm_data;

/* ---- splits: a word of a name ---------------------------------------------------------------- */

/* the split a word of n letters means, NULL if none */
static inline const char *lm__split_word(const char *word, size_t n)
{
    static const char *const means[][2] = {
        { "train", "train" }, { "training", "train" }, { "val", "val" }, { "valid", "val" },
        { "validation", "val" }, { "filler", "filler" }, { "test", "test" }
    };
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        if (strlen(means[i][0]) == n && memcmp(means[i][0], word, n) == 0) return means[i][1];
    return NULL;
}

/* The last such word: a set may be called "test" itself. */
static inline const char *lm__split_of(const char *name)
{
    const char *found = NULL;
    while (*name) {
        size_t n = strcspn(name, "_-. 0123456789");
        const char *split = lm__split_word(name, n);
        if (split) found = split;
        name += n ? n : 1;
    }
    return found;
}

static inline int lm__same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static inline int lm__ends(const char *name, const char *ending)
{
    size_t n = strlen(name), k = strlen(ending);
    return n >= k && strcmp(name + n - k, ending) == 0;
}

/* ---- meta.json ------------------------------------------------------------------------------- */

typedef struct lm__entry { const char *name, *split; uint64_t tokens; int counted; } lm__entry;

typedef struct lm__meta {
    kit_json doc;
    const kit_json_node *list;             /* its shards; NULL: there is no meta.json of ours     */
    lm__entry *entry;                      /* (entries) the same, read                            */
    const void **order;                    /* (entries) by name                                   */
    int entries;
    const char *split;
    int width;                             /* of a token in bytes, 0: it does not say             */
    int vocab, eot, window;                /* vocab 0, eot -1: it does not say                    */
} lm__meta;

static inline void lm__meta_close(lm__meta *m)
{
    kit_json_free(&m->doc);
    free(m->entry);
    free((void *)m->order);
    memset(m, 0, sizeof *m);
    m->eot = -1;
}

/* A file of the same folder and nothing that would steer a terminal. */
static inline int lm__plain_name(const char *name)
{
    if (!*name || *name == '.' || strlen(name) > 255) return 0;
    for (; *name; name++)
        if ((unsigned char)*name < ' ' || *name == 127 || *name == '/' || *name == '\\') return 0;
    return 1;
}

static inline int lm__meta_entry(const lm__meta *m, const kit_json_node *n, lm__entry *e,
                                 kit_error *why)
{
    const char *split = NULL;
    char shown[80];
    memset(e, 0, sizeof *e);
    if (n->type == KIT_JSON_OBJECT) {
        const kit_json_node *tokens = kit_json_find(n, "tokens");
        e->counted = tokens && tokens->type != KIT_JSON_NULL;
        if (!kit_json_text_at(&m->doc, n, "name", KIT_NEEDED, &e->name, why)
            || !kit_json_text_at(&m->doc, n, "split", KIT_OPTIONAL, &split, why)
            || !kit_json_u64_at(&m->doc, n, "tokens", KIT_OPTIONAL, &e->tokens, why)) return 0;
    } else if (!kit_json_to_text(n, &e->name)) {
        return kit_json_fail(&m->doc, n, why, "a shard is %s, expected the name of a file",
                             kit_json_type_name(n->type));
    }
    if (!lm__plain_name(e->name))
        return kit_json_fail(&m->doc, n, why, "the shard '%s' is not the plain name of a file",
                             kit_plain(shown, sizeof shown, e->name, strlen(e->name)));
    if (split) e->split = lm__split_word(split, strlen(split));
    if (!e->split) e->split = lm__split_of(e->name);
    if (!e->split && m->split) e->split = lm__split_word(m->split, strlen(m->split));
    return 1;
}

static inline int lm__meta_type(lm__meta *m, kit_error *why)
{
    static const char *const name[] = { "uint8", "uint16", "uint32" };
    const char *dtype = NULL;
    char shown[40];
    if (!kit_json_text_at(&m->doc, m->doc.node, "dtype", KIT_OPTIONAL, &dtype, why)) return 0;
    for (int i = 0; dtype && i < 3; i++)
        if (strcmp(dtype, name[i]) == 0) m->width = 1 << i;
    if (dtype && !m->width)
        return kit_json_fail(&m->doc, kit_json_find(m->doc.node, "dtype"), why,
                             "the dtype is %s, expected uint16 or uint32",
                             kit_plain(shown, sizeof shown, dtype, strlen(dtype)));
    return 1;
}

static inline int lm__by_entry(const void *a, const void *b)
{
    return strcmp(((const lm__entry *)a)->name, ((const lm__entry *)b)->name);
}

/* all entries, and their order by name; a shard that is listed twice would count twice */
static inline int lm__meta_entries(lm__meta *m, kit_error *why)
{
    char shown[80];
    m->entry = (lm__entry *)kit_new(m->list->count, sizeof *m->entry);
    m->order = (const void **)kit_new(m->list->count, sizeof *m->order);
    for (const kit_json_node *n = kit_json_first(m->list); n; n = kit_json_next(m->list, n)) {
        if (!lm__meta_entry(m, n, &m->entry[m->entries], why)) return 0;
        m->order[m->entries] = &m->entry[m->entries];
        m->entries++;
    }
    kit_sort(m->order, (size_t)m->entries, lm__by_entry);
    for (int i = 1; i < m->entries; i++) {
        const char *name = ((const lm__entry *)m->order[i])->name;
        if (lm__by_entry(m->order[i - 1], m->order[i]) == 0)
            return kit_json_fail(&m->doc, m->list, why, "the shard %s is listed twice",
                                 kit_plain(shown, sizeof shown, name, strlen(name)));
    }
    return 1;
}

/* What it counts must agree with what it lists. */
static inline int lm__meta_counts(lm__meta *m, kit_error *why)
{
    const kit_json_node *root = m->doc.node, *said = kit_json_find(root, "total_tokens");
    uint64_t shards = m->list->count, total = 0, sum = 0, counted = 0;
    if (!kit_json_u64_at(&m->doc, root, "num_shards", KIT_OPTIONAL, &shards, why)
        || !kit_json_u64_at(&m->doc, root, "total_tokens", KIT_OPTIONAL, &total, why)) return 0;
    if (m->list->count > LM_SHARDS || shards != m->list->count)
        return kit_json_fail(&m->doc, m->list, why, "%llu shards are listed and %llu announced; at"
                             " most %d are read", (lm__large)m->list->count, (lm__large)shards,
                             LM_SHARDS);
    if (!lm__meta_entries(m, why)) return 0;
    for (int i = 0; i < m->entries; i++) {
        if (m->entry[i].tokens > UINT64_MAX - sum)
            return kit_json_fail(&m->doc, m->list, why, "its shards have more than 2^64 tokens");
        sum += m->entry[i].tokens;
        counted += (uint64_t)m->entry[i].counted;
    }
    if (said && said->type != KIT_JSON_NULL && counted == shards && sum != total)
        return kit_json_fail(&m->doc, said, why, "total_tokens is %llu, but its shards have %llu",
                             (lm__large)total, (lm__large)sum);
    return 1;
}

static inline int lm__meta_read(lm__meta *m, kit_error *why)
{
    const kit_json_node *root = m->doc.node;
    if (root->type != KIT_JSON_OBJECT || !kit_json_find(root, "shards")) return 1;
    if (!kit_json_inside_at(&m->doc, root, "shards", KIT_NEEDED, KIT_JSON_LIST, &m->list, why)
        || !kit_json_text_at(&m->doc, root, "split", KIT_OPTIONAL, &m->split, why)
        || !kit_json_int_at(&m->doc, root, "vocab_size", KIT_OPTIONAL, 1, LM_VOCAB_MOST, &m->vocab,
                            why)
        || !kit_json_int_at(&m->doc, root, "eot", KIT_OPTIONAL, -1, LM_VOCAB_MOST, &m->eot, why)
        || !kit_json_int_at(&m->doc, root, "window", KIT_OPTIONAL, 0, 1 << 24, &m->window, why))
        return 0;
    if (m->window == 1)
        return kit_json_fail(&m->doc, root, why, "a window of 1 token has nothing to predict");
    return lm__meta_type(m, why) && lm__meta_counts(m, why);
}

/* folder/meta.json. That there is none is well, and so is one without "shards", which is somebody
   else's; m->list tells. */
static inline int lm__meta_open(lm__meta *m, const char *folder, kit_error *why)
{
    char path[KIT_PATH];
    struct stat st;
    memset(m, 0, sizeof *m);
    m->eot = -1;
    if (!kit_join(path, folder, "meta.json", why)) return 0;
    if (stat(path, &st) != 0) return 1;
    if (!S_ISREG(st.st_mode)) return kit_fail(why, "%.200s is not a plain file", path);
    if (!kit_json_load(&m->doc, path, LM_META_BYTES, why)) return 0;
    if (lm__meta_read(m, why)) return 1;
    lm__meta_close(m);
    return 0;
}

/* what it says about a file, NULL if it does not list it */
static inline const lm__entry *lm__meta_find(const lm__meta *m, const char *name)
{
    int low = 0, high = m->entries;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const lm__entry *e = (const lm__entry *)m->order[middle];
        int side = strcmp(name, e->name);
        if (side == 0) return e;
        if (side < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

/* ---- one file -------------------------------------------------------------------------------- */

static inline uint32_t lm__word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Only a plain file: it has a size, and opening it does not wait for somebody to write. */
static inline int lm__shard_map(lm__shard *s, kit_error *why)
{
    struct stat st;
    if (stat(s->path, &st) != 0)
        return kit_fail(why, "cannot open %.300s: %s", s->path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return kit_fail(why, "%.300s is %s, not a plain file", s->path,
                        S_ISDIR(st.st_mode) ? "a folder" : "a device or a pipe");
    int file = open(s->path, O_RDONLY);
    if (file < 0 || fstat(file, &st) != 0) {
        int code = errno;
        if (file >= 0) close(file);
        return kit_fail(why, "cannot open %.300s: %s", s->path, strerror(code));
    }
    s->size = (uint64_t)st.st_size;
    s->device = st.st_dev;
    s->inode = st.st_ino;
    void *map = s->size && s->size <= SIZE_MAX / 2
              ? mmap(NULL, (size_t)s->size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (s->size == 0) return kit_fail(why, "%.300s is empty", s->path);
    if (map == MAP_FAILED)
        return kit_fail(why, "cannot map the %llu bytes of %.300s: %s", (lm__large)s->size, s->path,
                        strerror(errno));
    s->map = (const unsigned char *)map;
    return 1;
}

/* The header counts; the file must be just as long. */
static inline int lm__shard_header(lm__shard *s, int width, uint32_t version, kit_error *why)
{
    if (s->size < LM_HEADER)
        return kit_fail(why, "%.300s begins like a shard of llm.c, but has %llu bytes and its"
                        " header alone takes %d", s->path, (lm__large)s->size, LM_HEADER);
    uint32_t has = lm__word(s->map + 4), count = lm__word(s->map + 8);
    uint64_t expected = LM_HEADER + (uint64_t)count * (uint64_t)width;
    if (has != version)
        return kit_fail(why, "%.300s is a shard of llm.c of version %u; version %u is read",
                        s->path, (unsigned)has, (unsigned)version);
    if (count == 0 || count > INT32_MAX)
        return kit_fail(why, "%.300s has %u for its number of tokens; 1 to %d can be", s->path,
                        (unsigned)count, INT32_MAX);
    if (s->size != expected)
        return kit_fail(why, "%.300s has %llu bytes, but its header says %u tokens, which are %llu:"
                        " it was %s", s->path, (lm__large)s->size, (unsigned)count,
                        (lm__large)expected, s->size < expected ? "cut short" : "added to");
    s->begin = LM_HEADER;
    s->width = width;
    s->tokens = count;
    return 1;
}

/* What would be read as bytes by mistake. */
static inline int lm__shard_is_text(const lm__shard *s, kit_error *why)
{
    uint32_t magic = s->size >= 4 ? lm__word(s->map) : 0;
    const char *what = magic == 20240522 ? "a multiple-choice file"
                     : magic == 20240326 || magic == 20240327 || magic == 20240527 ? "a model"
                     : magic == 20240328 ? "a tokenizer" : NULL;
    if (what) return kit_fail(why, "%.300s is %s of llm.c, not tokens", s->path, what);
    if ((magic & 0xffff) == 0x8b1f)
        return kit_fail(why, "%.300s is compressed; lm prepare reads it", s->path);
    return 1;
}

static inline int lm__shard_headerless(lm__shard *s, const lm__meta *m, kit_error *why)
{
    if (m->width == 0)
        return kit_fail(why, "meta.json lists %.300s, but does not say its dtype", s->path);
    if (s->size % (uint64_t)m->width)
        return kit_fail(why, "%.300s has %llu bytes: no whole tokens of %d bytes each", s->path,
                        (lm__large)s->size, m->width);
    s->kind = m->width == 1 ? "bytes" : m->width == 2 ? "headerless uint16" : "headerless uint32";
    s->width = m->width;
    s->tokens = s->size / (uint64_t)m->width;
    s->vocab = m->width == 1 ? 256 : m->width == 2 ? 65536 : 0;
    s->eot = m->width == 1 ? 0 : -1;
    return 1;
}

/* e: what meta.json says about this file, NULL if it does not list it */
static inline int lm__shard_recognise(lm__shard *s, const lm__meta *m, const lm__entry *e,
                                      kit_error *why)
{
    uint32_t magic = s->size >= 4 ? lm__word(s->map) : 0;
    if (magic == LM_MAGIC_16) {
        s->kind = "llm.c uint16";
        s->vocab = LM_VOCAB_GPT2;
        s->eot = LM_EOT_GPT2;
        return lm__shard_header(s, 2, 1, why);
    }
    if (magic == LM_MAGIC_32) {
        s->kind = "llm.c uint32";
        s->vocab = LM_VOCAB_LLAMA3;
        s->eot = LM_EOT_LLAMA3;
        return lm__shard_header(s, 4, 7, why);
    }
    if (e) return lm__shard_headerless(s, m, why);
    s->kind = "bytes";
    s->width = 1;
    s->tokens = s->size;
    s->vocab = 256;
    return lm__shard_is_text(s, why);
}

/* meta.json knows better than the file what its numbers mean, and must agree with it elsewhere */
static inline int lm__shard_meta(lm__shard *s, const lm__meta *m, const lm__entry *e,
                                 kit_error *why)
{
    if (m->width && m->width != s->width)
        return kit_fail(why, "%.300s is %s, but meta.json says tokens of %d bytes", s->path,
                        s->kind, m->width);
    if (m->vocab && m->vocab != s->vocab) {
        s->vocab = m->vocab;
        s->eot = -1;
    }
    if (m->eot >= 0) s->eot = m->eot;
    if (!s->vocab)
        return kit_fail(why, "meta.json lists %.300s, but does not say its vocab_size", s->path);
    if (s->eot >= s->vocab)
        return kit_fail(why, "%.300s: eot is %d, but the vocabulary ends at %d", s->path, s->eot,
                        s->vocab - 1);
    if (e->counted && e->tokens != s->tokens)
        return kit_fail(why, "%.300s has %llu tokens, but meta.json says %llu", s->path,
                        (lm__large)s->tokens, (lm__large)e->tokens);
    s->window = m->window;
    if (s->window && s->tokens % (uint64_t)s->window)
        return kit_fail(why, "%.300s has %llu tokens, which are no whole windows of %d", s->path,
                        (lm__large)s->tokens, s->window);
    return 1;
}

/* It is as it was when it was mapped: to read behind the end of a shortened file ends a program. */
static inline int lm__shard_stands(const lm__shard *s, kit_error *why)
{
    struct stat st;
    if (stat(s->path, &st) != 0)
        return kit_fail(why, "%.300s was there when the run began and is not any more: %s", s->path,
                        strerror(errno));
    if ((uint64_t)st.st_size != s->size || st.st_dev != s->device || st.st_ino != s->inode)
        return kit_fail(why, "%.300s has changed during the run: it had %llu bytes and has %llu%s",
                        s->path, (lm__large)s->size, (lm__large)st.st_size,
                        (uint64_t)st.st_size == s->size ? " in another file" : "");
    return 1;
}

static inline uint32_t lm__shard_token(const lm__shard *s, uint64_t i)
{
    const unsigned char *p = s->map + s->begin + i * (uint64_t)s->width;
    return s->width == 1 ? p[0] : s->width == 2 ? (uint32_t)p[0] | (uint32_t)p[1] << 8
                                                : lm__word(p);
}

/* ---- the row --------------------------------------------------------------------------------- */

static inline void lm_data_close(lm_data *d)
{
    for (int i = 0; i < d->shards; i++)
        if (d->shard[i].map) munmap((void *)d->shard[i].map, (size_t)d->shard[i].size);
    free(d->shard);
    memset(d, 0, sizeof *d);
}

static inline lm__shard *lm__data_new_shard(lm_data *d)
{
    if (d->shards == d->room) {
        d->room = d->room ? 2 * d->room : 8;
        lm__shard *more = (lm__shard *)kit_new((size_t)d->room, sizeof *more);
        if (d->shards) memcpy(more, d->shard, (size_t)d->shards * sizeof *more);
        free(d->shard);
        d->shard = more;
    }
    return &d->shard[d->shards++];
}

/* all shards of a row speak of the same things */
static inline int lm__data_join(lm_data *d, lm__shard *s, kit_error *why)
{
    const lm__shard *f = d->shard;
    if (s->vocab != f->vocab || s->eot != f->eot || s->window != f->window)
        return kit_fail(why, "%.180s (vocabulary %d, begin %d, window %d) and %.180s (%d, %d, %d)"
                        " cannot be one row of tokens", f->path, f->vocab, f->eot, f->window,
                        s->path, s->vocab, s->eot, s->window);
    if (s->tokens > UINT64_MAX - d->tokens)
        return kit_fail(why, "%.300s has more tokens than can be counted", s->path);
    s->first = d->tokens;
    d->tokens += s->tokens;
    d->vocab = f->vocab;
    d->eot = f->eot;
    d->window = f->window;
    return 1;
}

static inline int lm__data_add(lm_data *d, const char *path, const lm__meta *m, kit_error *why)
{
    const char *slash = strrchr(path, '/');
    const lm__entry *e = lm__meta_find(m, slash ? slash + 1 : path);
    if (d->shards == LM_SHARDS)
        return kit_fail(why, "%.300s has more than %d shards", d->name, LM_SHARDS);
    lm__shard *s = lm__data_new_shard(d);
    snprintf(s->path, sizeof s->path, "%s", path);
    s->split = e ? e->split : lm__split_of(slash ? slash + 1 : path);
    return lm__shard_map(s, why) && lm__shard_recognise(s, m, e, why)
           && (!e || lm__shard_meta(s, m, e, why)) && lm__data_join(d, s, why);
}

/* A file is taken whole, whatever split its name says: somebody named it. */
static inline int lm__data_file(lm_data *d, const char *path, kit_error *why)
{
    const char *slash = strrchr(path, '/');
    char folder[KIT_PATH];
    lm__meta m;
    snprintf(folder, sizeof folder, "%.*s%s", slash ? (int)(slash - path) : 1, slash ? path : ".",
             slash == path ? "/" : "");
    if (!lm__meta_open(&m, folder, why)) {
        if (lm__ends(path, ".bin")) return 0;            /* a text beside somebody's meta.json */
        memset(&m, 0, sizeof m);
    }
    int good = lm__data_add(d, path, &m, why);
    lm__meta_close(&m);
    return good;
}

/* ---- a folder -------------------------------------------------------------------------------- */

typedef struct lm__names { char (*name)[256]; const void **order; int count, room; } lm__names;

static inline void lm__names_free(lm__names *l)
{
    free(l->name);
    free((void *)l->order);
    memset(l, 0, sizeof *l);
}

static inline void lm__names_add(lm__names *l, const char *name)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        char (*more)[256] = (char (*)[256])kit_new((size_t)l->room, sizeof *more);
        if (l->count) memcpy(more, l->name, (size_t)l->count * sizeof *more);
        free(l->name);
        l->name = more;
    }
    snprintf(l->name[l->count++], sizeof *l->name, "%.255s", name);
}

static inline int lm__by_letters(const void *a, const void *b)
{
    return strcmp((const char *)a, (const char *)b);
}

static inline void lm__names_sort(lm__names *l)
{
    free((void *)l->order);
    l->order = (const void **)kit_new((size_t)l->count, sizeof *l->order);
    for (int i = 0; i < l->count; i++) l->order[i] = l->name[i];
    kit_sort(l->order, (size_t)l->count, lm__by_letters);
}

/* the names in a folder that end so, sorted; hidden ones are left out */
static inline int lm__names_list(lm__names *l, const char *folder, const char *ending,
                                 kit_error *why)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    memset(l, 0, sizeof *l);
    if (!dir) return kit_fail(why, "cannot open the folder %.300s: %s", folder, strerror(errno));
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) > 255) continue;
        if (lm__ends(entry->d_name, ending)) lm__names_add(l, entry->d_name);
    }
    closedir(dir);
    lm__names_sort(l);
    return 1;
}

/* Names in the order of meta.json, or of the alphabet; how many say their split. */
static inline int lm__folder_names(lm__names *l, const lm__meta *m, const char *folder,
                                   kit_error *why)
{
    memset(l, 0, sizeof *l);
    if (!m->list) return lm__names_list(l, folder, ".bin", why);
    for (int i = 0; i < m->entries; i++) lm__names_add(l, m->entry[i].name);
    l->order = (const void **)kit_new((size_t)l->count, sizeof *l->order);
    for (int i = 0; i < l->count; i++) l->order[i] = l->name[i];
    return 1;
}

static inline const char *lm__folder_split(const lm__meta *m, const char *name)
{
    const lm__entry *e = lm__meta_find(m, name);
    return e ? e->split : lm__split_of(name);
}

static inline int lm__folder_take(lm_data *d, const lm__names *l, const lm__meta *m,
                                  const char *folder, const char *split, kit_error *why)
{
    int named = 0, taken = 0;
    char path[KIT_PATH];
    for (int i = 0; i < l->count; i++)
        named += lm__folder_split(m, (const char *)l->order[i]) != NULL;
    for (int i = 0; i < l->count; i++) {
        const char *name = (const char *)l->order[i];
        if (split && named && !lm__same(lm__folder_split(m, name), split)) continue;
        if (!kit_join(path, folder, name, why) || !lm__data_add(d, path, m, why)) return 0;
        taken++;
    }
    if (taken) return 1;
    if (l->count)
        return kit_fail(why, "%.300s has %d shards, but none of the split %.40s", folder, l->count,
                        split);
    return kit_fail(why, "%.300s holds no shards (*.bin); lm prepare makes them of text", folder);
}

/* Where there is nothing but a folder of the split's name, the shards are in there. */
static inline int lm__data_folder(lm_data *d, const char *folder, const char *split, int inner,
                                  kit_error *why)
{
    char path[KIT_PATH];
    lm__names l;
    lm__meta m;
    struct stat st;
    if (!lm__meta_open(&m, folder, why)) return 0;
    int good = lm__folder_names(&l, &m, folder, why);
    if (good && l.count == 0 && !m.list && split && !inner && kit_join(path, folder, split, why)
        && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        good = lm__data_folder(d, path, split, 1, why);
    else good = good && lm__folder_take(d, &l, &m, folder, split, why);
    lm__names_free(&l);
    lm__meta_close(&m);
    return good;
}

static inline int lm__data_path(lm_data *d, const char *path, const char *split, kit_error *why)
{
    struct stat st;
    char folder[KIT_PATH];
    if (stat(path, &st) != 0)
        return kit_fail(why, "cannot open %.300s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return lm__data_file(d, path, why);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    return lm__data_folder(d, folder, split, 0, why);
}

/* path: a file, a folder (its shards of `split`: "train", "val", "filler"; NULL: all of them), or
   several with commas between */
static inline int lm_data_open(lm_data *d, const char *path, const char *split, kit_error *why)
{
    char one[KIT_PATH];
    size_t n = strlen(path);
    const char *known = split ? lm__split_word(split, strlen(split)) : NULL;
    memset(d, 0, sizeof *d);
    if (n == 0 || n >= KIT_PATH)
        return kit_fail(why, "the name of the data has %zu letters; 1 to %d can be", n,
                        KIT_PATH - 1);
    snprintf(d->name, sizeof d->name, "%s", path);
    int good = 1;
    while (good) {
        n = strcspn(path, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, path);
        good = lm__data_path(d, one, known ? known : split, why);
        if (!path[n]) break;
        path += n + 1;
    }
    if (!good) lm_data_close(d);
    return good;
}

/* the shard a token is in; at < tokens */
static inline const lm__shard *lm__data_find(const lm_data *d, uint64_t at)
{
    int low = 0, high = d->shards - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (d->shard[middle].first <= at) low = middle;
        else high = middle - 1;
    }
    return &d->shard[low];
}

static inline int lm__shard_read(const lm__shard *s, int *tokens, uint64_t at, int n,
                                 kit_error *why)
{
    if (!lm__shard_stands(s, why)) return 0;
    for (int i = 0; i < n; i++) {
        uint32_t token = lm__shard_token(s, at + (uint64_t)i);
        if (token >= (uint32_t)s->vocab)
            return kit_fail(why, "%.300s: token %llu is %u, but the vocabulary ends at %d", s->path,
                            (lm__large)(at + (uint64_t)i), (unsigned)token, s->vocab - 1);
        tokens[i] = (int)token;
    }
    return 1;
}

/* n tokens from place `at` of the row on, across the borders of shards */
static inline int lm_data_read(const lm_data *d, int *tokens, uint64_t at, int n, kit_error *why)
{
    if (n < 0 || (uint64_t)n > d->tokens || at > d->tokens - (uint64_t)n)
        return kit_fail(why, "%.300s has %llu tokens; %d from place %llu on are not there", d->name,
                        (lm__large)d->tokens, n, (lm__large)at);
    while (n > 0) {
        const lm__shard *s = lm__data_find(d, at);
        uint64_t left = s->first + s->tokens - at;
        int take = left < (uint64_t)n ? (int)left : n;
        if (!lm__shard_read(s, tokens, at - s->first, take, why)) return 0;
        tokens += take;
        at += (uint64_t)take;
        n -= take;
    }
    return 1;
}

/* A fingerprint of sizes and of 8 tokens at each of 64 places, so that --resume does not mix two
   data sets. Not of names: data may move. */
static inline uint64_t lm_data_sum(const lm_data *d)
{
    enum { PLACES = 64, TOKENS = 8 };
    uint64_t sum = 14695981039346656037u;
    const uint64_t about[4] = { d->tokens, (uint64_t)d->vocab, (uint64_t)d->window,
                                (uint64_t)d->shards };
    int token[TOKENS];
    kit_error why;
    for (int i = 0; i < 4; i++) sum = (sum ^ about[i]) * 1099511628211u;
    for (int i = 0; i < d->shards; i++) sum = (sum ^ d->shard[i].tokens) * 1099511628211u;
    int n = d->tokens < TOKENS ? (int)d->tokens : TOKENS;
    for (uint64_t i = 0; i < PLACES; i++) {
        uint64_t last = d->tokens - (uint64_t)n;
        uint64_t at = last / (PLACES - 1) * i + last % (PLACES - 1) * i / (PLACES - 1);
        if (!lm_data_read(d, token, at, n, &why)) continue;
        for (int k = 0; k < n; k++) sum = (sum ^ (uint64_t)token[k]) * 1099511628211u;
    }
    return sum;
}

/* ---- writing ------------------------------------------------------------------------------------
       lm_writer w[2];
       lm_folder_ready(folder, replace, &why)
       lm_writer_open(&w[0], folder, "corpus", "train", 256, 0, 0, LM_SHARD_TOKENS, &why)  ...
       lm_writer_document(&w[0], text, n, &why)                  bytes: a 0, then the text
       lm_writer_put(&w[0], tokens, n, &why)                     any tokens
       lm_writers_commit(w, 2, "bytes", &why)                    the set appears
       lm_writers_close(w, 2)                                    in every case

   Until commit there are only temporary files; close takes away what was not committed. Commit
   gives the shards their names and writes meta.json last. */

typedef struct lm_writer {
    char folder[KIT_PATH], set[80], split[16];
    int vocab, eot, window, width;
    uint64_t shard_tokens;                 /* most of a shard                                     */
    uint64_t tokens, docs;                 /* written so far                                      */
    uint64_t *count;                       /* (shards) tokens of each shard                       */
    int shards, room, named;               /* named: how many have their final names              */
    int done;                              /* the set has appeared and stays                      */
    int file;                              /* the shard being written, -1: none                   */
    unsigned char *piece;                  /* what goes to it next                                */
    size_t used;
} lm_writer;

enum { LM__PIECE = 1 << 18 };

/* A folder for new shards. One that holds some is refused, unless they are to be replaced: then
   meta.json must know them, so that nobody else's files are lost. */
static inline int lm_folder_ready(const char *folder, int replace, kit_error *why)
{
    lm__names l;
    char path[KIT_PATH];
    if (!kit_make_folders(folder, why) || !kit_join(path, folder, "meta.json", why)
        || !lm__names_list(&l, folder, ".bin", why)) return 0;
    int shards = l.count, meta = kit_exists(path);
    lm__names_free(&l);
    if (shards + meta == 0 || (meta && replace)) return 1;
    if (!meta)
        return kit_fail(why, "%.300s holds %d .bin files that no meta.json knows; choose another"
                        " folder", folder, shards);
    return kit_fail(why, "%.300s holds a set of shards already; choose another folder, or say"
                    " --replace", folder);
}

static inline int lm__writer_path(const lm_writer *w, char path[KIT_PATH], int shard,
                                  const char *ending, kit_error *why)
{
    char name[160];
    snprintf(name, sizeof name, "%s_%s_%06d.bin%s", w->set, w->split, shard, ending);
    return kit_join(path, w->folder, name, why);
}

/* window W: every shard holds whole windows. vocab above 65,536: uint32. */
static inline int lm_writer_open(lm_writer *w, const char *folder, const char *set,
                                 const char *split, int vocab, int eot, int window,
                                 uint64_t shard_tokens, kit_error *why)
{
    memset(w, 0, sizeof *w);
    w->file = -1;
    if (!lm__plain_name(set) || strlen(set) >= sizeof w->set || strlen(folder) >= KIT_PATH - 160)
        return kit_fail(why, "'%.60s' cannot begin the names of shards in %.200s", set, folder);
    if (vocab < 1 || vocab > LM_VOCAB_MOST || eot >= vocab)
        return kit_fail(why, "a vocabulary of %d with the begin %d cannot be written", vocab, eot);
    if (shard_tokens < 1 || shard_tokens > INT32_MAX || (uint64_t)window > shard_tokens)
        return kit_fail(why, "a shard cannot have %llu tokens: %d to %d", (lm__large)shard_tokens,
                        window > 1 ? window : 1, INT32_MAX);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    snprintf(w->set, sizeof w->set, "%s", set);
    snprintf(w->split, sizeof w->split, "%.15s", split);
    w->vocab = vocab;
    w->eot = eot;
    w->window = window;
    w->width = vocab > 65536 ? 4 : 2;
    w->shard_tokens = window ? shard_tokens - shard_tokens % (uint64_t)window : shard_tokens;
    w->piece = (unsigned char *)kit_new(LM__PIECE, 1);
    return 1;
}

static inline int lm__write_at(int file, const void *bytes, size_t n, uint64_t at)
{
    const char *p = (const char *)bytes;
    while (n > 0) {
        ssize_t wrote = pwrite(file, p, n, (off_t)at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return 0;
        p += wrote;
        n -= (size_t)wrote;
        at += (uint64_t)wrote;
    }
    return 1;
}

/* Always 0. */
static inline int lm__writer_fail(const lm_writer *w, kit_error *why)
{
    int code = errno;
    char path[KIT_PATH];
    if (!lm__writer_path(w, path, w->shards - 1, "", why)) return 0;
    return kit_fail(why, "cannot write %.300s: %s", path, strerror(code));
}

static inline int lm__writer_flush(lm_writer *w, kit_error *why)
{
    uint64_t at = LM_HEADER + w->count[w->shards - 1] * (uint64_t)w->width - w->used;
    if (!lm__write_at(w->file, w->piece, w->used, at)) return lm__writer_fail(w, why);
    w->used = 0;
    return 1;
}

static inline int lm__writer_begin(lm_writer *w, kit_error *why)
{
    char path[KIT_PATH];
    if (w->shards == LM_SHARDS)
        return kit_fail(why, "%.200s: %d shards are the most of a set; ask for larger ones",
                        w->folder, LM_SHARDS);
    if (w->shards == w->room) {
        w->room = w->room ? 2 * w->room : 16;
        uint64_t *more = (uint64_t *)kit_new((size_t)w->room, sizeof *more);
        if (w->shards) memcpy(more, w->count, (size_t)w->shards * sizeof *more);
        free(w->count);
        w->count = more;
    }
    w->count[w->shards++] = 0;
    if (!lm__writer_path(w, path, w->shards - 1, ".tmp", why)) return 0;
    w->file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return w->file >= 0 ? 1 : lm__writer_fail(w, why);
}

/* the shard under way gets its header and reaches the disk */
static inline int lm__writer_finish(lm_writer *w, kit_error *why)
{
    unsigned char header[LM_HEADER] = { 0 };
    uint32_t number[3] = { LM_MAGIC_16, 1, 0 };
    if (w->file < 0) return 1;
    if (w->width == 4) { number[0] = LM_MAGIC_32; number[1] = 7; }
    number[2] = (uint32_t)w->count[w->shards - 1];
    for (int i = 0; i < 12; i++) header[i] = (unsigned char)(number[i / 4] >> 8 * (i % 4));
    if (!lm__writer_flush(w, why)) return 0;
    int good = lm__write_at(w->file, header, sizeof header, 0) && fsync(w->file) == 0;
    int code = errno;
    if (close(w->file) != 0 && good) { good = 0; code = errno; }
    w->file = -1;
    errno = code;
    return good ? 1 : lm__writer_fail(w, why);
}

static inline int lm__writer_one(lm_writer *w, uint32_t token, kit_error *why)
{
    if (w->file >= 0 && w->count[w->shards - 1] == w->shard_tokens && !lm__writer_finish(w, why))
        return 0;
    if (w->file < 0 && !lm__writer_begin(w, why)) return 0;
    if (w->used + 4 > LM__PIECE && !lm__writer_flush(w, why)) return 0;
    for (int i = 0; i < w->width; i++) w->piece[w->used++] = (unsigned char)(token >> 8 * i);
    w->count[w->shards - 1]++;
    w->tokens++;
    return 1;
}

static inline int lm_writer_put(lm_writer *w, const int *tokens, size_t n, kit_error *why)
{
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= w->vocab)
            return kit_fail(why, "the token %d cannot be written: the vocabulary ends at %d",
                            tokens[i], w->vocab - 1);
        if (!lm__writer_one(w, (uint32_t)tokens[i], why)) return 0;
    }
    return 1;
}

/* eot, then the bytes, none of which is a 0 */
static inline int lm_writer_document(lm_writer *w, const char *text, size_t n, kit_error *why)
{
    if (!lm__writer_one(w, (uint32_t)w->eot, why)) return 0;
    for (size_t i = 0; i < n; i++)
        if (!lm__writer_one(w, (unsigned char)text[i], why)) return 0;
    w->docs++;
    return 1;
}

static inline void lm__meta_write(kit_text *t, const lm_writer *w, int writers,
                                  const char *vocabulary)
{
    uint64_t tokens = 0, docs = 0, shards = 0;
    for (int i = 0; i < writers; i++) {
        tokens += w[i].tokens;
        docs += w[i].docs;
        shards += (uint64_t)w[i].shards;
    }
    kit_json_open(t, NULL, '{');
    kit_json_text(t, "format", "llm.c");
    kit_json_text(t, "split", writers == 1 ? w->split : "all");
    kit_json_u64(t, "total_tokens", tokens);
    kit_json_u64(t, "total_docs", docs);
    kit_json_u64(t, "num_shards", shards);
    kit_json_u64(t, "shard_size", w->shard_tokens);
    kit_json_text(t, "dtype", w->width == 4 ? "uint32" : "uint16");
    kit_json_text(t, "vocabulary", vocabulary);
    kit_json_int(t, "vocab_size", w->vocab);
    if (w->eot >= 0) kit_json_int(t, "eot", w->eot);
    if (w->window) kit_json_int(t, "window", w->window);
}

static inline void lm__meta_write_lists(kit_text *t, const lm_writer *w, int writers)
{
    kit_json_open(t, "docs", '{');
    for (int i = 0; i < writers; i++) kit_json_u64(t, w[i].split, w[i].docs);
    kit_json_close(t, '}');
    kit_json_open(t, "shards", '[');
    for (int i = 0; i < writers; i++)
        for (int k = 0; k < w[i].shards; k++) {
            char name[160];
            snprintf(name, sizeof name, "%s_%s_%06d.bin", w[i].set, w[i].split, k);
            kit_put_string(t, k + i ? ",\n" : "\n");
            kit_put_string(t, "{");
            kit_json_text(t, "name", name);
            kit_json_text(t, "split", w[i].split);
            kit_json_u64(t, "tokens", w[i].count[k]);
            kit_json_close(t, '}');
        }
    kit_put_string(t, "\n]}\n");
}

/* What meta.json of an earlier set lists goes, and it first: shards are never without theirs. */
static inline int lm__folder_forget(const char *folder, kit_error *why)
{
    char path[KIT_PATH];
    lm__names l;
    lm__meta m;
    if (!lm__meta_open(&m, folder, why)) return 0;
    if (!kit_join(path, folder, "meta.json", why)
        || (m.list && unlink(path) != 0
            && !kit_fail(why, "cannot remove %.300s: %s", path, strerror(errno)))) {
        lm__meta_close(&m);
        return 0;
    }
    if (m.list && lm__folder_names(&l, &m, folder, why)) {
        for (int i = 0; i < l.count; i++)
            if (kit_join(path, folder, (const char *)l.order[i], why)) unlink(path);
        lm__names_free(&l);
    }
    lm__meta_close(&m);
    return 1;
}

static inline int lm__writer_name_all(lm_writer *w, kit_error *why)
{
    char from[KIT_PATH], to[KIT_PATH];
    for (; w->named < w->shards; w->named++) {
        if (!lm__writer_path(w, from, w->named, ".tmp", why)
            || !lm__writer_path(w, to, w->named, "", why)) return 0;
        if (rename(from, to) != 0)
            return kit_fail(why, "cannot write %.300s: %s", to, strerror(errno));
    }
    return 1;
}

/* The set appears: all writers of one folder, with the same vocabulary ("bytes", "gpt2", "tokens"),
   eot and window. */
static inline int lm_writers_commit(lm_writer *w, int writers, const char *vocabulary,
                                    kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < writers; i++)
        if (w[i].window && w[i].tokens % (uint64_t)w[i].window)
            return kit_fail(why, "%llu tokens are no whole windows of %d",
                            (lm__large)w[i].tokens, w[i].window);
    for (int i = 0; i < writers; i++)
        if (!lm__writer_finish(&w[i], why)) return 0;
    if (!lm__folder_forget(w->folder, why)) return 0;
    for (int i = 0; i < writers; i++)
        if (!lm__writer_name_all(&w[i], why)) return 0;
    lm__meta_write(&t, w, writers, vocabulary);
    lm__meta_write_lists(&t, w, writers);
    int good = kit_save_in(w->folder, "meta.json", &t, why);
    for (int i = 0; i < writers; i++) w[i].done = good;
    kit_text_free(&t);
    return good;
}

static inline void lm_writers_close(lm_writer *w, int writers)
{
    char path[KIT_PATH];
    kit_error why;
    for (int i = 0; i < writers; i++) {
        if (w[i].piece && w[i].file >= 0) close(w[i].file);
        for (int k = 0; k < w[i].shards && !w[i].done; k++)
            if (lm__writer_path(&w[i], path, k, k < w[i].named ? "" : ".tmp", &why))
                unlink(path);
        free(w[i].count);
        free(w[i].piece);
        memset(&w[i], 0, sizeof w[i]);
    }
}

#endif
