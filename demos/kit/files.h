/* kit/files.h - text that grows, folders, and files that appear whole or not at all

   A function that can fail returns 1 when it worked and 0 when it did not; then *why holds one
   sentence for the person at the terminal.

   Everything a demo writes is first built in memory (kit_text) and then saved in one piece:
   temporary file, fsync, rename. Whoever reads results/ during a run, or after a power cut, finds
   the old file or the new one and never half of either. */
#ifndef KIT_FILES_H
#define KIT_FILES_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__GNUC__)
#define KIT_FORMAT(at, first) __attribute__((format(printf, at, first)))
#else
#define KIT_FORMAT(at, first)
#endif

enum { KIT_PATH = 1024 };                  /* longest path the demos handle, with its final 0 */

typedef struct kit_error { char text[512]; } kit_error;

/* Always 0, so that a failing function can end with `return kit_fail(why, ...)`. */
KIT_FORMAT(2, 3) static inline int kit_fail(kit_error *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    for (char *c = why->text; *c; c++)              /* names from files reach somebody's terminal */
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    return 0;
}

/* count items of size bytes, all zero; free() them. A demo that runs out of memory has nothing
   better to do than say so: its checkpoints are on disk. */
static inline void *kit_new(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (memory) return memory;
    fprintf(stderr, "out of memory: %zu items of %zu bytes did not fit\n", count, size);
    exit(1);
}

/* ---- text that grows ----------------------------------------------------------------------------
   Also holds bytes (a PNG). All zero is an empty one. */

typedef struct kit_text {
    char *data;                            /* ends in a 0 that size does not count; NULL: empty */
    size_t size, room;
} kit_text;

static inline void kit_put_bytes(kit_text *t, const void *bytes, size_t n)
{
    if (n == 0) return;
    if (n >= t->room - t->size) {
        size_t room = 2 * (t->size + n) + 256;
        char *data = (char *)kit_new(room, 1);
        if (t->data) memcpy(data, t->data, t->size);
        free(t->data);
        t->data = data;
        t->room = room;
    }
    memcpy(t->data + t->size, bytes, n);
    t->size += n;
    t->data[t->size] = 0;
}

static inline void kit_put_string(kit_text *t, const char *s)
{
    kit_put_bytes(t, s, strlen(s));
}

KIT_FORMAT(2, 3) static inline void kit_put(kit_text *t, const char *format, ...)
{
    char small[512], *text = small;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n < 0) return;                     /* only a broken multibyte character does that */
    if (n >= (int)sizeof small) {
        text = (char *)kit_new((size_t)n + 1, 1);
        va_start(args, format);
        vsnprintf(text, (size_t)n + 1, format, args);
        va_end(args);
    }
    kit_put_bytes(t, text, (size_t)n);
    if (text != small) free(text);
}

static inline void kit_text_free(kit_text *t)
{
    free(t->data);
    memset(t, 0, sizeof *t);
}

/* ---- folders --------------------------------------------------------------------------------- */

static inline int kit_make_folder(const char *path, kit_error *why)
{
    struct stat st;
    if (mkdir(path, 0777) == 0) return 1;
    int code = errno;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return 1;
        code = ENOTDIR;
    }
    return kit_fail(why, "cannot make the folder %s: %s", path, strerror(code));
}

/* the folder and those above it */
static inline int kit_make_folders(const char *path, kit_error *why)
{
    char part[KIT_PATH];
    size_t n = strlen(path);
    if (n == 0) return kit_fail(why, "cannot make a folder without a name");
    if (n >= sizeof part)
        return kit_fail(why, "the path %.40s... is longer than %d bytes", path, KIT_PATH - 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] != '/' && path[i] != 0) continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (!kit_make_folder(part, why)) return 0;
    }
    return 1;
}

/* folder/name */
static inline int kit_join(char path[KIT_PATH], const char *folder, const char *name,
                           kit_error *why)
{
    int n = snprintf(path, KIT_PATH, "%s/%s", folder, name);
    if (n < 0 || n >= KIT_PATH)
        return kit_fail(why, "the path %.40s.../%s is longer than %d bytes", folder, name,
                        KIT_PATH - 1);
    return 1;
}

static inline int kit_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* All of it into an open file, down to the disk. Returns 0 or an errno: a full disk may show in any
   of the calls, and close() is the last that can say so. Closes the file in every case. */
static inline int kit__write_and_close(int file, const void *bytes, size_t n)
{
    const char *at = (const char *)bytes;
    int code = 0;
    while (n > 0 && code == 0) {
        ssize_t wrote = write(file, at, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) { code = errno; break; }
        at += wrote;
        n -= (size_t)wrote;
    }
    if (code == 0 && fsync(file) != 0 && errno != EINVAL) code = errno;   /* EINVAL: not a disk */
    if (close(file) != 0 && code == 0) code = errno;
    return code;
}

/* The rename itself reaches the disk with its folder. A file system that refuses loses nothing. */
static inline void kit__sync_folder_of(const char *path)
{
    char folder[KIT_PATH];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof folder) return;
    memcpy(folder, path, n);
    folder[n] = 0;
    int file = open(n ? folder : slash ? "/" : ".", O_RDONLY);
    if (file < 0) return;
    (void)!fsync(file);
    close(file);
}

/* Renaming onto a pipe or a device (--out /dev/...) would put a plain file in its place: those are
   written to as they are. */
static inline int kit__is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* The temporary name is always the same: what a killed program left behind, the next save takes
   away. */
static inline int kit_save_bytes(const char *path, const void *bytes, size_t n, kit_error *why)
{
    char temporary[KIT_PATH];
    int special = kit__is_special(path), flags = special ? O_WRONLY : O_WRONLY | O_CREAT | O_TRUNC;
    int length = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (length < 0 || length >= (int)sizeof temporary)
        return kit_fail(why, "the path %.40s... is longer than %d bytes", path, KIT_PATH - 1);

    int file = open(special ? path : temporary, flags, 0666);
    if (file < 0) return kit_fail(why, "cannot write %s: %s", path, strerror(errno));
    int code = kit__write_and_close(file, bytes, n);
    if (code == 0 && !special && rename(temporary, path) != 0) code = errno;
    if (code != 0) {
        if (!special) unlink(temporary);
        return kit_fail(why, "cannot write %s: %s", path, strerror(code));
    }
    if (!special) kit__sync_folder_of(path);
    return 1;
}

static inline int kit_save(const char *path, const kit_text *t, kit_error *why)
{
    return kit_save_bytes(path, t->data ? t->data : "", t->size, why);
}

/* the same as folder/name */
static inline int kit_save_in(const char *folder, const char *name, const kit_text *t,
                              kit_error *why)
{
    char path[KIT_PATH];
    return kit_join(path, folder, name, why) && kit_save(path, t, why);
}

/* All bytes of a file (or a pipe, which does not know its size before) behind what t holds. What
   has more than most bytes is refused, a file before memory is asked for. */
static inline int kit_read_file(kit_text *t, const char *path, size_t most, kit_error *why)
{
    char piece[16384];
    struct stat st;
    size_t n = 0;
    ssize_t got = 0;
    int file = open(path, O_RDONLY);
    if (file < 0) return kit_fail(why, "cannot open %.200s: %s", path, strerror(errno));
    if (fstat(file, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size > most)
        n = (size_t)st.st_size;
    while (n <= most) {
        got = read(file, piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        kit_put_bytes(t, piece, (size_t)got);
        n += (size_t)got;
    }
    int code = got < 0 ? errno : 0;
    close(file);
    if (code) return kit_fail(why, "cannot read %.200s: %s", path, strerror(code));
    if (n > most)
        return kit_fail(why, "%.200s has %zu bytes or more; at most %zu are read", path, n, most);
    return 1;
}

#endif
