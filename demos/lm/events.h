/* lm/events.h - TensorBoard's event files: `tensorboard --logdir results/lm` shows the runs

   A file is a row of records, numbers little-endian:

       u64 n | u32 masked(crc32c(the 8 bytes of n)) | n bytes | u32 masked(crc32c(the n bytes))

   with masked(c) = (c rotated right by 15) + 0xa282ead8. The n bytes are an Event in the wire
   format of protocol buffers, where a field is (number << 3 | kind) and then its value:

       1 double wall_time   2 varint step   3 text file_version   5 Summary   7 SessionLog
       Summary: 1 Value ... Value: 1 tag   2 float   4 Image   8 Tensor   9 Metadata

   A step is the number of tokens seen, which may be beyond 2^32. A run that goes on writes a new
   file that begins with a SessionLog START: what older files say from that step on is not shown. */
#ifndef LM_EVENTS_H
#define LM_EVENTS_H

#include "kit/files.h"
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <time.h>

/* ---- CRC-32C --------------------------------------------------------------------------------- */

/* Castagnoli's polynomial, reflected; bit by bit, since a run writes a few kB in a second */
static inline uint32_t lm_crc32c(const void *bytes, size_t n)
{
    const unsigned char *at = (const unsigned char *)bytes;
    uint32_t crc = 0xffffffffu;
    for (; n > 0; n--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    return ~crc;
}

static inline uint32_t lm_masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

/* ---- the wire format ------------------------------------------------------------------------- */

enum { LM__VARINT = 0, LM__EIGHT = 1, LM__BYTES = 2, LM__FOUR = 5 };

static inline void lm__wire_whole(kit_text *t, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        unsigned char low = (unsigned char)(v >> 8 * i);
        kit_put_bytes(t, &low, 1);
    }
}

/* seven bits a byte, the lowest first; the top bit says that more follow */
static inline void lm__wire_varint(kit_text *t, uint64_t v)
{
    for (; v > 127; v >>= 7) lm__wire_whole(t, (v & 127) | 128, 1);
    lm__wire_whole(t, v, 1);
}

static inline void lm__wire_field(kit_text *t, int field, int kind)
{
    lm__wire_varint(t, (uint64_t)(field << 3 | kind));
}

static inline void lm__wire_number(kit_text *t, int field, uint64_t v)
{
    lm__wire_field(t, field, LM__VARINT);
    lm__wire_varint(t, v);
}

static inline void lm__wire_bytes(kit_text *t, int field, const void *bytes, size_t n)
{
    lm__wire_field(t, field, LM__BYTES);
    lm__wire_varint(t, n);
    kit_put_bytes(t, bytes, n);
}

static inline void lm__wire_text(kit_text *t, int field, const char *s)
{
    lm__wire_bytes(t, field, s, strlen(s));
}

/* what stands inside is given back: it is part of t now */
static inline void lm__wire_inside(kit_text *t, int field, kit_text *inside)
{
    lm__wire_bytes(t, field, inside->data, inside->size);
    kit_text_free(inside);
}

static inline void lm__wire_double(kit_text *t, int field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    lm__wire_field(t, field, LM__EIGHT);
    lm__wire_whole(t, bits, 8);
}

/* beyond the largest float stands infinity: the conversion itself would be undefined */
static inline void lm__wire_float(kit_text *t, int field, double v)
{
    float f = v > FLT_MAX ? HUGE_VALF : v < -FLT_MAX ? -HUGE_VALF : (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    lm__wire_field(t, field, LM__FOUR);
    lm__wire_whole(t, bits, 4);
}

/* ---- records: each function adds one to t ---------------------------------------------------- */

static inline void lm__record(kit_text *t, kit_text *event)
{
    size_t start = t->size;
    lm__wire_whole(t, event->size, 8);
    lm__wire_whole(t, lm_masked(lm_crc32c(t->data + start, 8)), 4);
    kit_put_bytes(t, event->data, event->size);
    lm__wire_whole(t, lm_masked(lm_crc32c(event->data, event->size)), 4);
    kit_text_free(event);
}

static inline kit_text lm__event(double wall, uint64_t step)
{
    kit_text event = { NULL, 0, 0 };
    lm__wire_double(&event, 1, wall);
    lm__wire_number(&event, 2, step);
    return event;
}

/* Event { wall, step, Summary { Value } } */
static inline void lm__record_value(kit_text *t, double wall, uint64_t step, kit_text *value)
{
    kit_text event = lm__event(wall, step), summary = { NULL, 0, 0 };
    lm__wire_inside(&summary, 1, value);
    lm__wire_inside(&event, 5, &summary);
    lm__record(t, &event);
}

/* the first record of every file */
static inline void lm_event_version(kit_text *t, double wall)
{
    kit_text event = lm__event(wall, 0);
    lm__wire_text(&event, 3, "brain.Event:2");
    lm__record(t, &event);
}

/* From this step on, what was written before does not count. */
static inline void lm_event_start(kit_text *t, double wall, uint64_t step)
{
    kit_text event = lm__event(wall, step), session = { NULL, 0, 0 };
    lm__wire_number(&session, 1, 1);
    lm__wire_inside(&event, 7, &session);
    lm__record(t, &event);
}

static inline void lm_event_scalar(kit_text *t, double wall, uint64_t step, const char *tag,
                                   double v)
{
    kit_text value = { NULL, 0, 0 };
    lm__wire_text(&value, 1, tag);
    lm__wire_float(&value, 2, v);
    lm__record_value(t, wall, step, &value);
}

/* Markdown, on TensorBoard's page of texts: a tensor of one string, shape (1) */
static inline void lm_event_text(kit_text *t, double wall, uint64_t step, const char *tag,
                                 const char *text)
{
    kit_text value = { NULL, 0, 0 }, tensor = value, shape = value, size = value, plugin = value,
             metadata = value;
    enum { STRING = 7 };                   /* of TensorFlow's data types                          */
    lm__wire_number(&size, 1, 1);
    lm__wire_inside(&shape, 2, &size);
    lm__wire_number(&tensor, 1, STRING);
    lm__wire_inside(&tensor, 2, &shape);
    lm__wire_text(&tensor, 8, text);
    lm__wire_text(&plugin, 1, "text");
    lm__wire_inside(&metadata, 1, &plugin);
    lm__wire_text(&value, 1, tag);
    lm__wire_inside(&value, 8, &tensor);
    lm__wire_inside(&value, 9, &metadata);
    lm__record_value(t, wall, step, &value);
}

/* big-endian, as PNG has it */
static inline uint32_t lm__png_number(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* size and colours are read from the PNG's first chunk; 0 when it is no PNG */
static inline int lm_event_png(kit_text *t, double wall, uint64_t step, const char *tag,
                               const kit_text *png, kit_error *why)
{
    static const unsigned char channels[7] = { 1, 0, 3, 3, 2, 0, 4 };     /* by PNG's colour type */
    const unsigned char *at = (const unsigned char *)png->data;
    kit_text value = { NULL, 0, 0 }, image = value;
    if (png->size < 33 || memcmp(at, "\x89PNG\r\n\x1a\n", 8) != 0 || memcmp(at + 12, "IHDR", 4) != 0
        || at[25] > 6 || !channels[at[25]])
        return kit_fail(why, "the picture %.80s of %zu bytes is no PNG", tag, png->size);
    lm__wire_number(&image, 1, lm__png_number(at + 20));
    lm__wire_number(&image, 2, lm__png_number(at + 16));
    lm__wire_number(&image, 3, channels[at[25]]);
    lm__wire_bytes(&image, 4, png->data, png->size);
    lm__wire_text(&value, 1, tag);
    lm__wire_inside(&value, 4, &image);
    lm__record_value(t, wall, step, &value);
    return 1;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A file that only grows, by whole pieces: what a full disk cut is taken away again. */
typedef struct lm_tail { char path[KIT_PATH]; int file; off_t size; } lm_tail;

static inline int lm_tail_open(lm_tail *f, const char *path, int flags, kit_error *why)
{
    snprintf(f->path, sizeof f->path, "%s", path);
    f->file = open(path, O_WRONLY | O_CREAT | O_APPEND | flags, 0666);
    if (f->file < 0) return kit_fail(why, "cannot open %s: %s", path, strerror(errno));
    f->size = lseek(f->file, 0, SEEK_END);
    return 1;
}

static inline void lm_tail_close(lm_tail *f)
{
    if (f->file >= 0) close(f->file);
    f->file = -1;
}

static inline int lm_tail_add(lm_tail *f, const kit_text *t, int sync, kit_error *why)
{
    size_t done = 0;
    int code = 0;
    while (done < t->size && code == 0) {
        ssize_t wrote = write(f->file, t->data + done, t->size - done);
        if (wrote >= 0) done += (size_t)wrote;
        else if (errno != EINTR) code = errno;
    }
    if (code == 0 && sync && fsync(f->file) != 0 && errno != EINVAL) code = errno;
    if (code == 0) {
        f->size += (off_t)t->size;
        return 1;
    }
    (void)!ftruncate(f->file, f->size);
    return kit_fail(why, "cannot write %s: %s", f->path, strerror(code));
}

typedef struct lm_events { lm_tail tail; kit_text pending; } lm_events;

static inline double lm__wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int lm_events_exist(const char *folder)
{
    static const char begins[] = "events.out.tfevents.";
    DIR *list = opendir(folder);
    int found = 0;
    for (struct dirent *e; list && !found && (e = readdir(list));)
        found = strncmp(e->d_name, begins, sizeof begins - 1) == 0;
    if (list) closedir(list);
    return found;
}

/* Readers take the files of a folder in the order of their names: the time comes first. */
static inline int lm__events_name(char path[KIT_PATH], const char *folder, kit_error *why)
{
    char host[80] = "host", name[200];
    if (gethostname(host, sizeof host) != 0) snprintf(host, sizeof host, "host");
    host[sizeof host - 1] = 0;
    for (int n = 0; n < 1000; n++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010ld.%s.%ld.%d", (long)time(NULL), host,
                 (long)getpid(), n);
        if (!kit_join(path, folder, name, why)) return 0;
        if (!kit_exists(path)) return 1;
    }
    return kit_fail(why, "there are 1000 event files of this second in %.300s", folder);
}

static inline int lm_events_flush(lm_events *e, kit_error *why)
{
    int done = lm_tail_add(&e->tail, &e->pending, 0, why);
    e->pending.size = 0;
    return done;
}

/* a new file, of a run that has seen `tokens` */
static inline int lm_events_open(lm_events *e, const char *folder, uint64_t tokens, kit_error *why)
{
    char path[KIT_PATH];
    if (!lm__events_name(path, folder, why) || !lm_tail_open(&e->tail, path, O_EXCL, why)) return 0;
    lm_event_version(&e->pending, lm__wall());
    lm_event_start(&e->pending, lm__wall(), tokens + 1);
    return lm_events_flush(e, why);
}

static inline void lm_events_close(lm_events *e)
{
    lm_tail_close(&e->tail);
    kit_text_free(&e->pending);
}

#endif
