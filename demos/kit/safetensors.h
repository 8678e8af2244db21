/* kit/safetensors.h - published weights: one safetensors file, or a folder of them with an index

       kit_tensors set;
       if (!kit_tensors_open(&set, "models/gpt2", &why)) ...            a folder, a file, an index
       for (size_t i = 0; i < set.count; i++) puts(set.tensor[i].name);
       const kit_tensor *t = kit_tensors_find(&set, "wte.weight");
       if (t && kit_tensor_floats(&set, t, 0, n, floats, &why)) ...     n numbers from number 0
       kit_tensors_close(&set);

   A file:   8 bytes   N, little-endian as everything here
             N bytes   JSON: { "__metadata__": { text: text, ... },
                               name: { "dtype": "F32", "shape": [rows, columns],
                                       "data_offsets": [begin, end] }, ... }
             the rest  data, row by row; offsets count from here, and leave neither gap nor overlap

   An index: { "weight_map": { name: "model-00001-of-00002.safetensors", ... }, ... } in the file
             model.safetensors.index.json, beside the files it names

   Files are read as if an enemy had written them; every length, offset and product is checked
   before it is used, and a message names the file, the tensor and the numbers. Data are mapped
   where the system can, so that opening costs nothing; a file that is cut short while it is open
   ends the program, as with any mapped file. */
#ifndef KIT_SAFETENSORS_H
#define KIT_SAFETENSORS_H

#include "read_json.h"
#include <sys/mman.h>

enum {
    KIT_TENSOR_DIMS = 8,
    KIT_SHARDS = 1000,                     /* most files of one model                             */
    KIT_HEADER_BYTES = 100000000           /* most bytes of a header: the format's own limit      */
};

typedef enum kit_dtype {
    KIT_F32, KIT_F16, KIT_BF16, KIT_F64, KIT_I32, KIT_I64,
    KIT_DTYPES_READ                        /* those from here on are known by their size alone    */
} kit_dtype;

static const struct { const char *name; int bytes; } kit__dtypes[] = {
    { "F32", 4 }, { "F16", 2 }, { "BF16", 2 }, { "F64", 8 }, { "I32", 4 }, { "I64", 8 },
    { "BOOL", 1 }, { "U8", 1 }, { "I8", 1 }, { "F8_E4M3", 1 }, { "F8_E5M2", 1 }, { "F8_E8M0", 1 },
    { "U16", 2 }, { "I16", 2 }, { "U32", 4 }, { "U64", 8 }, { "C64", 8 }, { NULL, 0 }
};

typedef struct kit_tensor {
    const char *name;
    int type;                              /* kit_dtype, or beyond: kit_dtype_name                */
    int dims;                              /* 0: a single number                                  */
    uint64_t shape[KIT_TENSOR_DIMS];
    uint64_t count;                        /* numbers                                             */
    uint64_t begin, end;                   /* bytes of its file's data                            */
    int shard;                             /* which file                                          */
} kit_tensor;

typedef struct kit_shard {
    char path[KIT_PATH];
    kit_json header;                       /* holds the names of the tensors                      */
    uint64_t size, data;                   /* bytes of the file; where its data begin             */
    const unsigned char *map;              /* (size) the whole file; NULL: read it by way of file */
    int file;                              /* -1: mapped, or not open                             */
} kit_shard;

typedef struct kit_tensors {
    kit_tensor *tensor;                    /* (count) of all files, by name                       */
    size_t count, room;
    kit_shard *shard;
    int shards;
} kit_tensors;

static inline const char *kit_dtype_name(int type) { return kit__dtypes[type].name; }

/* "4096 x 11008" */
static inline void kit_tensor_shape(char text[200], const kit_tensor *t)
{
    size_t used = (size_t)snprintf(text, 200, "%s", t->dims ? "" : "single");
    for (int i = 0; i < t->dims; i++)
        used += (size_t)snprintf(text + used, 200 - used, "%s%llu", i ? " x " : "",
                                 (unsigned long long)t->shape[i]);
}

/* ---- one tensor of a header ------------------------------------------------------------------ */

/* Always 0. "FILE: tensor NAME ..." */
KIT_FORMAT(4, 5) static inline int kit__tensor_fail(const kit_shard *s, const char *name,
                                                    kit_error *why, const char *format, ...)
{
    char said[240], shown[80];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return kit_fail(why, "%.180s: tensor %s %s", s->path,
                    kit_plain(shown, sizeof shown, name, strlen(name)), said);
}

/* *x *= y; 0 when that is beyond 64 bits */
static inline int kit__times(uint64_t *x, uint64_t y)
{
    if (y != 0 && *x > UINT64_MAX / y) return 0;
    *x *= y;
    return 1;
}

static inline int kit__tensor_type(kit_tensor *t, const kit_shard *s, const kit_json_node *dtype,
                                   kit_error *why)
{
    const char *word;
    char shown[40];
    if (!kit_json_to_text(dtype, &word))
        return kit__tensor_fail(s, t->name, why, "has %s for a dtype",
                                kit_json_type_name(dtype->type));
    for (t->type = 0; kit__dtypes[t->type].name; t->type++)
        if (strcmp(kit__dtypes[t->type].name, word) == 0) return 1;
    return kit__tensor_fail(s, t->name, why, "has the dtype %s, which is unknown",
                            kit_plain(shown, sizeof shown, word, strlen(word)));
}

/* a list of whole numbers, room at most */
static inline int kit__tensor_list(uint64_t *x, int room, const kit_tensor *t, const kit_shard *s,
                                   const char *key, const kit_json_node *list, kit_error *why)
{
    char shown[40];
    if (list->type != KIT_JSON_LIST)
        return kit__tensor_fail(s, t->name, why, "has %s for %s, expected a list",
                                kit__json_shown(shown, &s->header, list), key);
    if (list->count > (uint32_t)room)
        return kit__tensor_fail(s, t->name, why, "has %u numbers in %s, at most %d are read",
                                (unsigned)list->count, key, room);
    for (const kit_json_node *n = kit_json_first(list); n; n = kit_json_next(list, n), x++)
        if (!kit_json_to_u64(n, x))
            return kit__tensor_fail(s, t->name, why, "has %s in %s, expected a whole number",
                                    kit__json_shown(shown, &s->header, n), key);
    return 1;
}

/* Where it lies must be inside the file, and as long as its shape says. */
static inline int kit__tensor_place(kit_tensor *t, const kit_shard *s, const uint64_t offset[2],
                                    kit_error *why)
{
    typedef unsigned long long large;
    uint64_t bytes = (uint64_t)kit__dtypes[t->type].bytes, data = s->size - s->data;
    char shape[200];
    int fits = 1;
    t->begin = offset[0];
    t->end = offset[1];
    t->count = 1;
    for (int i = 0; i < t->dims; i++) fits = fits && kit__times(&t->count, t->shape[i]);
    kit_tensor_shape(shape, t);
    if (!fits || !kit__times(&bytes, t->count))
        return kit__tensor_fail(s, t->name, why, "(%.100s) has more than 2^64 bytes", shape);
    if (t->begin > t->end || t->end > data)
        return kit__tensor_fail(s, t->name, why, "lies at %llu to %llu of %llu bytes of data",
                                (large)t->begin, (large)t->end, (large)data);
    if (t->end - t->begin != bytes)
        return kit__tensor_fail(s, t->name, why,
                                "lies at %llu to %llu, but %s (%.100s) takes %llu bytes",
                                (large)t->begin, (large)t->end, kit_dtype_name(t->type), shape,
                                (large)bytes);
    return 1;
}

static inline int kit__tensor_read(kit_tensor *t, const kit_shard *s, const kit_json_node *key,
                                   kit_error *why)
{
    const kit_json_node *entry = kit_json_value(key), *dtype = kit_json_find(entry, "dtype");
    const kit_json_node *shape = kit_json_find(entry, "shape");
    const kit_json_node *offsets = kit_json_find(entry, "data_offsets");
    uint64_t offset[2];
    if (!kit_json_to_text(key, &t->name))
        return kit_json_fail(&s->header, key, why, "the name of a tensor has a zero inside");
    if (!dtype || !shape || !offsets || entry->count != 3)
        return kit__tensor_fail(s, t->name, why, "is not made of dtype, shape and data_offsets");
    if (!kit__tensor_type(t, s, dtype, why)
        || !kit__tensor_list(t->shape, KIT_TENSOR_DIMS, t, s, "shape", shape, why)
        || !kit__tensor_list(offset, 2, t, s, "data_offsets", offsets, why)) return 0;
    t->dims = (int)shape->count;
    if (offsets->count != 2)
        return kit__tensor_fail(s, t->name, why, "has %u data_offsets, expected 2",
                                (unsigned)offsets->count);
    return kit__tensor_place(t, s, offset, why);
}

/* ---- one file -------------------------------------------------------------------------------- */

/* n bytes from an offset of the file */
static inline int kit__shard_read(const kit_shard *s, void *to, uint64_t offset, size_t n,
                                  kit_error *why)
{
    char *at = (char *)to;
    while (n > 0) {
        ssize_t got = pread(s->file, at, n, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return kit_fail(why, "cannot read %.200s: %s", s->path, strerror(errno));
        if (got == 0)
            return kit_fail(why, "%.200s ends at byte %llu; it had %llu when it was opened",
                            s->path, (unsigned long long)offset, (unsigned long long)s->size);
        at += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 1;
}

/* Only a plain file: it has a size, and opening it does not wait for somebody to write. */
static inline int kit__shard_file(kit_shard *s, kit_error *why)
{
    struct stat st;
    int code = stat(s->path, &st) == 0 ? 0 : errno;
    if (code == 0 && !S_ISREG(st.st_mode))
        return kit_fail(why, "%.200s is not a plain file", s->path);
    if (code == 0) s->file = open(s->path, O_RDONLY);
    if (code == 0 && (s->file < 0 || fstat(s->file, &st) != 0)) code = errno;
    if (code) return kit_fail(why, "cannot open %.200s: %s", s->path, strerror(code));
    s->size = (uint64_t)st.st_size;
    return 1;
}

/* where the data begin: behind a header whose length is believed when the format and the file have
   room for it */
static inline int kit__shard_begin(kit_shard *s, kit_error *why)
{
    unsigned char raw[8];
    uint64_t length = 0;
    if (s->size < 10)
        return kit_fail(why, "%.200s has %llu bytes, too few for a safetensors file", s->path,
                        (unsigned long long)s->size);
    if (!kit__shard_read(s, raw, 0, 8, why)) return 0;
    if (memcmp(raw, "version ", 8) == 0)
        return kit_fail(why, "%.200s only points to the file, which git lfs pull brings", s->path);
    for (int i = 0; i < 8; i++) length |= (uint64_t)raw[i] << 8 * i;
    if (length < 2 || length > KIT_HEADER_BYTES || length > s->size - 8)
        return kit_fail(why, "%.200s is not a safetensors file: its first 8 bytes ask for a header"
                        " of %llu bytes in a file of %llu", s->path, (unsigned long long)length,
                        (unsigned long long)s->size);
    s->data = 8 + length;
    return 1;
}

static inline int kit__shard_header(kit_shard *s, kit_error *why)
{
    kit_text text;
    char name[256];
    if (!kit__shard_begin(s, why)) return 0;
    text.size = (size_t)s->data - 8;
    text.room = text.size + 1;
    text.data = (char *)kit_new(text.room, 1);
    snprintf(name, sizeof name, "the header of %.200s", s->path);
    if (kit__shard_read(s, text.data, 8, text.size, why)
        && kit_json_read(&s->header, name, text.data, text.size, KIT_HEADER_BYTES, why)) {
        s->header.own = text;
        return 1;
    }
    kit_text_free(&text);
    return 0;
}

static inline int kit__shard_metadata(const kit_shard *s, const kit_json_node *metadata,
                                      kit_error *why)
{
    const kit_json_node *key = kit_json_first(metadata);
    if (metadata->type != KIT_JSON_OBJECT)
        return kit_json_fail(&s->header, metadata, why, "__metadata__ is %s, expected an object",
                             kit_json_type_name(metadata->type));
    for (; key; key = kit_json_next(metadata, key))
        if (kit_json_value(key)->type != KIT_JSON_TEXT)
            return kit_json_fail(&s->header, key, why, "__metadata__ holds %s, expected texts",
                                 kit_json_type_name(kit_json_value(key)->type));
    return 1;
}

static inline int kit__by_place(const void *a, const void *b)
{
    const kit_tensor *x = (const kit_tensor *)a, *y = (const kit_tensor *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors of a file, those from number first on, lie one behind the other, from the first byte
   of its data to the last. */
static inline int kit__shard_layout(const kit_tensors *set, size_t first, const kit_shard *s,
                                    kit_error *why)
{
    typedef unsigned long long large;
    size_t n = set->count - first;
    const void **order = (const void **)kit_new(n, sizeof *order);
    uint64_t at = 0, data = s->size - s->data;
    int good = 1;
    for (size_t i = 0; i < n; i++) order[i] = &set->tensor[first + i];
    kit_sort(order, n, kit__by_place);
    for (size_t i = 0; i < n && good; i++) {
        const kit_tensor *t = (const kit_tensor *)order[i];
        if (t->begin != at)
            good = kit__tensor_fail(s, t->name, why, "lies at %llu to %llu, %s: the one before it"
                                    " ends at %llu", (large)t->begin, (large)t->end,
                                    t->begin < at ? "over another" : "behind a gap", (large)at);
        at = t->end;
    }
    free((void *)order);
    if (good && at != data)
        return kit_fail(why, "%.200s has %llu bytes of data, its tensors take %llu", s->path,
                        (large)data, (large)at);
    return good;
}

/* where file and memory are one; elsewhere the file stays open and is read piece by piece */
static inline void kit__shard_map(kit_shard *s)
{
    if (s->size > SIZE_MAX) return;
    void *map = mmap(NULL, (size_t)s->size, PROT_READ, MAP_PRIVATE, s->file, 0);
    if (map == MAP_FAILED) return;
    s->map = (const unsigned char *)map;
    close(s->file);
    s->file = -1;
}

/* ---- all tensors of the files ---------------------------------------------------------------- */

static inline void kit_tensors_close(kit_tensors *set)
{
    for (int i = 0; i < set->shards; i++) {
        kit_shard *s = &set->shard[i];
        if (s->map) munmap((void *)s->map, (size_t)s->size);
        if (s->file >= 0) close(s->file);
        kit_json_free(&s->header);
    }
    free(set->shard);
    free(set->tensor);
    memset(set, 0, sizeof *set);
}

static inline kit_tensor *kit__tensors_add(kit_tensors *set)
{
    if (set->count == set->room) {
        set->room = set->room ? 2 * set->room : 64;
        kit_tensor *more = (kit_tensor *)kit_new(set->room, sizeof *more);
        if (set->count) memcpy(more, set->tensor, set->count * sizeof *more);
        free(set->tensor);
        set->tensor = more;
    }
    return &set->tensor[set->count++];
}

/* shard i, whose path is known */
static inline int kit__tensors_read(kit_tensors *set, int i, int map, kit_error *why)
{
    kit_shard *s = &set->shard[i];
    size_t first = set->count;
    if (!kit__shard_file(s, why) || !kit__shard_header(s, why)) return 0;
    const kit_json_node *root = s->header.node;
    if (root->type != KIT_JSON_OBJECT || root->at != 0)             /* blanks may only follow it */
        return kit_fail(why, "the header of %.200s does not begin with {", s->path);
    for (const kit_json_node *key = kit_json_first(root); key; key = kit_json_next(root, key)) {
        if (key->count == 12 && memcmp(key->as.text, "__metadata__", 12) == 0) {
            if (!kit__shard_metadata(s, kit_json_value(key), why)) return 0;
            continue;
        }
        kit_tensor *t = kit__tensors_add(set);
        if (!kit__tensor_read(t, s, key, why)) return 0;
        t->shard = i;
    }
    if (!kit__shard_layout(set, first, s, why)) return 0;
    if (map) kit__shard_map(s);
    return 1;
}

static inline void kit__tensors_make_shards(kit_tensors *set, size_t n)
{
    set->shard = (kit_shard *)kit_new(n, sizeof *set->shard);
    set->shards = (int)n;
    for (int i = 0; i < set->shards; i++) set->shard[i].file = -1;
}

static inline int kit__by_name(const void *a, const void *b)
{
    return strcmp(((const kit_tensor *)a)->name, ((const kit_tensor *)b)->name);
}

static inline void kit__tensors_sort(kit_tensors *set)
{
    const void **order = (const void **)kit_new(set->count, sizeof *order);
    kit_tensor *sorted = (kit_tensor *)kit_new(set->count, sizeof *sorted);
    for (size_t i = 0; i < set->count; i++) order[i] = &set->tensor[i];
    kit_sort(order, set->count, kit__by_name);
    for (size_t i = 0; i < set->count; i++) sorted[i] = *(const kit_tensor *)order[i];
    free((void *)order);
    free(set->tensor);
    set->tensor = sorted;
    set->room = set->count;
}

/* NULL if there is none */
static inline const kit_tensor *kit_tensors_find(const kit_tensors *set, const char *name)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int side = strcmp(name, set->tensor[middle].name);
        if (side == 0) return &set->tensor[middle];
        if (side < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

/* ---- an index -----------------------------------------------------------------------------------
   Its weight_map and the files must agree in every tensor. Its total_size is not looked at: there
   are good models in which it is wrong, and the files themselves say how large they are. */

static inline const char *kit__file_of(const kit_shard *s)
{
    const char *slash = strrchr(s->path, '/');
    return slash ? slash + 1 : s->path;
}

/* A file beside the index and nowhere else, and nothing that would steer a terminal. */
static inline int kit__plain_name(const kit_json_node *n)
{
    const char *name;
    if (!kit_json_to_text(n, &name) || n->count == 0 || strstr(name, "..")) return 0;
    for (; *name; name++)
        if (*name <= ' ' || *name > '~' || strchr("/\\:", *name)) return 0;
    return 1;
}

/* the different files of a weight_map, in a list to free(); 0 after a mistake */
static inline size_t kit__index_files(const void ***list, const kit_json *index,
                                      const kit_json_node *map, kit_error *why)
{
    const void **file = (const void **)kit_new(map->count, sizeof *file);
    size_t n = 0, different = 0;
    *list = file;
    for (const kit_json_node *key = kit_json_first(map); key; key = kit_json_next(map, key)) {
        const kit_json_node *value = kit_json_value(key);
        char shown[80];
        file[n++] = value;
        if (kit__plain_name(value)) continue;
        if (value->type == KIT_JSON_TEXT) kit_plain(shown, 80, value->as.text, value->count);
        else snprintf(shown, sizeof shown, "%s", kit_json_type_name(value->type));
        return (size_t)kit_json_fail(index, value, why, "expected the plain name of a file, found"
                                     " '%s'", shown);
    }
    kit_sort(file, n, kit__json_order);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || kit__json_order(file[i], file[different - 1])) file[different++] = file[i];
    if (different > 0 && different <= KIT_SHARDS) return different;
    return (size_t)kit_json_fail(index, map, why, "weight_map names %zu files, expected 1 to %d",
                                 different, KIT_SHARDS);
}

/* the paths of the shards: those of the index with another name at the end */
static inline int kit__index_paths(kit_tensors *set, const char *path, const kit_json *index,
                                   const kit_json_node *map, kit_error *why)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    const void **file;
    size_t n = kit__index_files(&file, index, map, why);
    int good = n > 0;
    kit__tensors_make_shards(set, n);
    for (size_t i = 0; i < n && good; i++) {
        const char *name = ((const kit_json_node *)file[i])->as.text;
        int used = snprintf(set->shard[i].path, KIT_PATH, "%.*s%s", folder, path, name);
        if (used >= KIT_PATH)
            good = kit_fail(why, "%.200s: the path of %.60s... is longer than %d bytes", path, name,
                            KIT_PATH - 1);
    }
    free((void *)file);
    return good;
}

/* tensor i stands in the index, for the file it is in, and in no other file */
static inline int kit__index_has(const kit_tensors *set, size_t i, const kit_json_node *map,
                                 const char *path, kit_error *why)
{
    const kit_tensor *t = &set->tensor[i];
    const kit_shard *s = &set->shard[t->shard];
    const kit_json_node *file = kit_json_find(map, t->name);
    if (i > 0 && kit__by_name(t - 1, t) == 0)
        return kit__tensor_fail(s, t->name, why, "is also in %.80s",
                                kit__file_of(&set->shard[t[-1].shard]));
    if (!file) return kit__tensor_fail(s, t->name, why, "is not in %.200s", path);
    if (strcmp(file->as.text, kit__file_of(s)) != 0)
        return kit__tensor_fail(s, t->name, why, "should be in %.80s, says %.120s", file->as.text,
                                path);
    return 1;
}

static inline int kit__index_agrees(const kit_tensors *set, const kit_json *index,
                                    const kit_json_node *map, const char *path, kit_error *why)
{
    for (size_t i = 0; i < set->count; i++)
        if (!kit__index_has(set, i, map, path, why)) return 0;
    for (const kit_json_node *key = kit_json_first(map); key; key = kit_json_next(map, key)) {
        const char *name;
        char shown[80];
        if (kit_json_to_text(key, &name) && kit_tensors_find(set, name)) continue;
        return kit_json_fail(index, key, why, "tensor %s is not in %.120s",
                             kit_plain(shown, sizeof shown, key->as.text, key->count),
                             kit_json_value(key)->as.text);
    }
    return 1;
}

static inline int kit__index_open(kit_tensors *set, const char *path, int map, kit_error *why)
{
    kit_json index;
    const kit_json_node *names = NULL;
    if (!kit_json_load(&index, path, 0, why)) return 0;
    int good = kit_json_inside_at(&index, index.node, "weight_map", KIT_NEEDED, KIT_JSON_OBJECT,
                                  &names, why)
            && kit__index_paths(set, path, &index, names, why);
    for (int i = 0; i < set->shards && good; i++) good = kit__tensors_read(set, i, map, why);
    if (good) kit__tensors_sort(set);
    good = good && kit__index_agrees(set, &index, names, path, why);
    kit_json_free(&index);
    return good;
}

/* ---- opening --------------------------------------------------------------------------------- */

static inline int kit__file_open(kit_tensors *set, const char *path, int map, kit_error *why)
{
    kit__tensors_make_shards(set, 1);
    if (strlen(path) >= KIT_PATH)
        return kit_fail(why, "the path %.40s... is longer than %d bytes", path, KIT_PATH - 1);
    strcpy(set->shard[0].path, path);
    if (!kit__tensors_read(set, 0, map, why)) return 0;
    kit__tensors_sort(set);
    return 1;
}

static inline int kit__folder_open(kit_tensors *set, const char *folder, int map, kit_error *why)
{
    char path[KIT_PATH];
    if (!kit_join(path, folder, "model.safetensors", why)) return 0;
    if (kit_exists(path)) return kit__file_open(set, path, map, why);
    if (!kit_join(path, folder, "model.safetensors.index.json", why)) return 0;
    if (kit_exists(path)) return kit__index_open(set, path, map, why);
    return kit_fail(why, "%.200s has neither model.safetensors nor model.safetensors.index.json",
                    folder);
}

/* map 0: as on a system that cannot map files */
static inline int kit__tensors_open(kit_tensors *set, const char *path, int map, kit_error *why)
{
    struct stat st;
    size_t n = strlen(path);
    int good;
    memset(set, 0, sizeof *set);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) good = kit__folder_open(set, path, map, why);
    else if (n > 5 && strcmp(path + n - 5, ".json") == 0)
        good = kit__index_open(set, path, map, why);
    else good = kit__file_open(set, path, map, why);
    if (!good) kit_tensors_close(set);
    return good;
}

/* A safetensors file, an index (its name ends in .json), or a folder that has model.safetensors or
   model.safetensors.index.json. */
static inline int kit_tensors_open(kit_tensors *set, const char *path, kit_error *why)
{
    return kit__tensors_open(set, path, 1, why);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Below 2^-14 a half has no leading one: as the fraction of a float it is too small by 2^112, and
   the product puts that right for all the others, too. */
static inline float kit__from_f16(const unsigned char *raw)
{
    uint32_t h = raw[0] | (uint32_t)raw[1] << 8, bits = (h & 0x7FFF) << 13;
    float x;
    memcpy(&x, &bits, 4);
    x *= 5192296858534827628530496329220096.0f;                                   /* 2^112 */
    if ((h & 0x7C00) == 0x7C00) {                                   /* infinite or not a number */
        bits |= 0x7F800000;
        memcpy(&x, &bits, 4);
    }
    return h & 0x8000 ? -x : x;
}

static inline float kit__from_bf16(const unsigned char *raw)
{
    uint32_t bits = (uint32_t)raw[0] << 16 | (uint32_t)raw[1] << 24;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline float kit__from_f64(const unsigned char *raw)
{
    double x;
    memcpy(&x, raw, 8);
    return (float)x;
}

static inline float kit__from_i32(const unsigned char *raw)
{
    int32_t x;
    memcpy(&x, raw, 4);
    return (float)x;
}

static inline float kit__from_i64(const unsigned char *raw)
{
    int64_t x;
    memcpy(&x, raw, 8);
    return (float)x;
}

static inline void kit__to_floats(float *out, int type, const unsigned char *raw, size_t n)
{
    size_t i;
    switch (type) {
    case KIT_F32:  memcpy(out, raw, 4 * n); break;
    case KIT_F16:  for (i = 0; i < n; i++) out[i] = kit__from_f16(raw + 2 * i); break;
    case KIT_BF16: for (i = 0; i < n; i++) out[i] = kit__from_bf16(raw + 2 * i); break;
    case KIT_F64:  for (i = 0; i < n; i++) out[i] = kit__from_f64(raw + 8 * i); break;
    case KIT_I32:  for (i = 0; i < n; i++) out[i] = kit__from_i32(raw + 4 * i); break;
    case KIT_I64:  for (i = 0; i < n; i++) out[i] = kit__from_i64(raw + 8 * i); break;
    }
}

/* n numbers of a tensor from number `first` on, row by row. What a float cannot hold is rounded. */
static inline int kit_tensor_floats(const kit_tensors *set, const kit_tensor *t, uint64_t first,
                                    size_t n, float *out, kit_error *why)
{
    enum { PIECE = 2048 };
    unsigned char raw[PIECE * 8];
    const kit_shard *s = &set->shard[t->shard];
    size_t width = (size_t)kit__dtypes[t->type].bytes;
    if (t->type >= KIT_DTYPES_READ)
        return kit__tensor_fail(s, t->name, why, "is %s, which is not read as floats",
                                kit_dtype_name(t->type));
    if (first > t->count || n > t->count - first)
        return kit__tensor_fail(s, t->name, why, "has %llu numbers, asked for %zu from %llu on",
                                (unsigned long long)t->count, n, (unsigned long long)first);
    for (size_t at = 0; at < n; at += PIECE) {
        size_t some = n - at;
        if (some > PIECE) some = PIECE;
        uint64_t offset = s->data + t->begin + (first + at) * width;
        if (!s->map && !kit__shard_read(s, raw, offset, some * width, why)) return 0;
        kit__to_floats(out + at, t->type, s->map ? s->map + offset : raw, some);
    }
    return 1;
}

#endif
