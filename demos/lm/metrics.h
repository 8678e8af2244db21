/* lm/metrics.h - metrics.jsonl: what a run measured, one JSON object to a line

       {"tokens":40960,"train/loss":2.5,"train/lr":0.002,"grad/layer_0_norm":0.125}

   "tokens" comes first and is the axis of everything; the other keys are named as pos-enc-bench
   names them, so that one notebook reads both. A number reads back as the same double; what is not
   finite is null. A line reaches the disk whole, with an fsync, or is taken away again.

   A run that was killed has lines beyond its last checkpoint, and perhaps half a line. Opening the
   log at the checkpoint's tokens drops both; the steps that are done again write them again. */
#ifndef LM_METRICS_H
#define LM_METRICS_H

#include "events.h"
#include "kit/json.h"
#include "kit/read_json.h"

enum { LM_LINE = 1 << 20 };                /* longest line that is read: bytes                    */

typedef struct lm_log {
    lm_tail tail;                          /* metrics.jsonl                                       */
    lm_events events;
    int tensorboard;
    uint64_t tokens;                       /* of the line under way                               */
    double wall;
    kit_text line;
} lm_log;

/* ---- reading lines --------------------------------------------------------------------------- */

typedef struct lm_lines { const char *path; FILE *file; kit_text line; long number; } lm_lines;

static inline int lm_lines_open(lm_lines *r, const char *path, kit_error *why)
{
    struct stat st;
    memset(r, 0, sizeof *r);
    r->path = path;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return kit_fail(why, "%.300s is not a file", path);
    r->file = fopen(path, "rb");
    if (!r->file) return kit_fail(why, "cannot open %.300s: %s", path, strerror(errno));
    return 1;
}

static inline void lm_lines_close(lm_lines *r)
{
    if (r->file) fclose(r->file);
    kit_text_free(&r->line);
    memset(r, 0, sizeof *r);
}

/* 1: r->line is the next line, without its end. 0: there are no more; what a crash left without an
   end is no line. -1: *why says what is wrong. */
static inline int lm_lines_next(lm_lines *r, kit_error *why)
{
    char piece[4096];
    size_t used = 0;
    int c;
    r->line.size = 0;
    r->number++;
    while ((c = getc(r->file)) != EOF && c != '\n') {
        piece[used++] = (char)c;
        if (used < sizeof piece) continue;
        kit_put_bytes(&r->line, piece, used);
        used = 0;
        if (r->line.size > LM_LINE)
            return kit_fail(why, "%.300s, line %ld: longer than %d bytes", r->path, r->number,
                            LM_LINE) - 1;
    }
    kit_put_bytes(&r->line, piece, used);
    if (ferror(r->file))
        return kit_fail(why, "cannot read %.300s: %s", r->path, strerror(errno)) - 1;
    return c == '\n';
}

/* The line as a document and its tokens. The reader of JSON takes it for a text of one line: the
   place it names gets the number of the line in the file. Free the document in either case. */
static inline int lm_line_read(kit_json *d, uint64_t *tokens, const lm_lines *r, kit_error *why)
{
    static const char one[] = ", line 1, ";
    kit_error said;
    if (kit_json_read(d, "", r->line.data, r->line.size, 2 * LM_LINE, &said)
        && kit_json_u64_at(d, d->node, "tokens", KIT_NEEDED, tokens, &said)) return 1;
    size_t skip = strncmp(said.text, one, sizeof one - 1) == 0 ? sizeof one - 1 : 0;
    return kit_fail(why, "%.300s, line %ld, %.150s", r->path, r->number, said.text + skip);
}

/* ---- copying lines up to a number of tokens -------------------------------------------------- */

/* the numbers of an old line, for an event file that was not there at the time */
static inline void lm__line_events(lm_events *e, const kit_json *d, uint64_t tokens)
{
    double v;
    for (const kit_json_node *k = kit_json_first(d->node); k; k = kit_json_next(d->node, k))
        if (strcmp(k->as.text, "tokens") != 0 && kit_json_to_real(kit_json_value(k), &v))
            lm_event_scalar(&e->pending, lm__wall(), tokens, k->as.text, v);
}

static inline int lm__lines_copy(FILE *to, lm_lines *r, uint64_t most, lm_events *e, kit_error *why)
{
    int got;
    while ((got = lm_lines_next(r, why)) > 0) {
        kit_json d;
        uint64_t tokens = 0;
        int good = lm_line_read(&d, &tokens, r, why);
        if (good && tokens <= most) {
            fwrite(r->line.data, 1, r->line.size, to);
            putc('\n', to);
            if (e) lm__line_events(e, &d, tokens);
            if (e && e->pending.size > LM_LINE) good = lm_events_flush(e, why);
        }
        kit_json_free(&d);
        if (!good) return 0;
    }
    return got == 0 && (!e || lm_events_flush(e, why));
}

/* 0: fine, else an errno; the file is closed in either case */
static inline int lm__finish(FILE *file)
{
    int code = fflush(file) != 0 || ferror(file) ? errno ? errno : EIO : 0;
    if (code == 0 && fsync(fileno(file)) != 0 && errno != EINVAL) code = errno;
    if (fclose(file) != 0 && code == 0) code = errno;
    return code;
}

/* `to` appears whole or stays as it was; it may be `from`. Nothing is held in memory: a long run
   has hundreds of megabytes of lines. */
static inline int lm__log_copy(const char *from, const char *to, uint64_t tokens, lm_events *e,
                               kit_error *why)
{
    char temporary[KIT_PATH + 8];
    lm_lines r;
    int done = 0;
    snprintf(temporary, sizeof temporary, "%s.tmp", to);
    if (!lm_lines_open(&r, from, why)) return 0;
    FILE *out = fopen(temporary, "wb");
    if (!out) kit_fail(why, "cannot write %.300s: %s", to, strerror(errno));
    if (out) {
        done = lm__lines_copy(out, &r, tokens, e, why);
        int code = lm__finish(out);
        if (done && code == 0 && rename(temporary, to) != 0) code = errno;
        if (done && code) done = kit_fail(why, "cannot write %.300s: %s", to, strerror(code));
        if (!done) unlink(temporary);
        else kit__sync_folder_of(to);
    }
    lm_lines_close(&r);
    return done;
}

static inline int lm_log_path(char path[KIT_PATH], const char *folder, kit_error *why)
{
    return kit_join(path, folder, "metrics.jsonl", why);
}

/* A branch begins with its parent's lines up to where it left it. */
static inline int lm_log_replay(const char *from_folder, const char *to_folder, uint64_t tokens,
                                kit_error *why)
{
    char from[KIT_PATH], to[KIT_PATH];
    return kit_make_folders(to_folder, why) && lm_log_path(from, from_folder, why)
        && lm_log_path(to, to_folder, why) && lm__log_copy(from, to, tokens, NULL, why);
}

/* ---- writing lines --------------------------------------------------------------------------- */

static inline void lm_log_close(lm_log *g)
{
    lm_tail_close(&g->tail);
    lm_events_close(&g->events);
    kit_text_free(&g->line);
}

/* The first event file of a folder that has lines already (a branch, or --tensorboard given later)
   tells what they say. */
static inline int lm__log_open(lm_log *g, const char *folder, uint64_t tokens, kit_error *why)
{
    char path[KIT_PATH];
    int tell = g->tensorboard && !lm_events_exist(folder);
    return kit_make_folders(folder, why) && lm_log_path(path, folder, why)
        && (!g->tensorboard || lm_events_open(&g->events, folder, tokens, why))
        && (!kit_exists(path)
            || lm__log_copy(path, path, tokens, tell ? &g->events : NULL, why))
        && lm_tail_open(&g->tail, path, 0, why);
}

/* tokens: of the checkpoint the run goes on from, 0 for a new run. A new run in a folder with old
   lines keeps those at 0 tokens: remove metrics.jsonl first. Needs lm_log_close only after a 1. */
static inline int lm_log_open(lm_log *g, const char *folder, int tensorboard, uint64_t tokens,
                              kit_error *why)
{
    memset(g, 0, sizeof *g);
    g->tail.file = g->events.tail.file = -1;
    g->tensorboard = tensorboard;
    if (lm__log_open(g, folder, tokens, why)) return 1;
    lm_log_close(g);
    return 0;
}

static inline void lm_log_begin(lm_log *g, uint64_t tokens)
{
    g->line.size = 0;
    g->tokens = tokens;
    g->wall = lm__wall();
    kit_json_open(&g->line, NULL, '{');
    kit_json_u64(&g->line, "tokens", tokens);
}

/* with the fewest digits that read back as the same double */
static inline void lm_put_real(kit_text *t, double v)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    kit_put_string(t, text);
}

/* one event too, unless v is not finite */
static inline void lm_log_real(lm_log *g, const char *key, double v)
{
    kit__json_key(&g->line, key);
    if (!isfinite(v)) {
        kit_put_string(&g->line, "null");
        return;
    }
    lm_put_real(&g->line, v);
    if (g->tensorboard) lm_event_scalar(&g->events.pending, g->wall, g->tokens, key, v);
}

/* What is not UTF-8 becomes U+FFFD: a sample of a model of bytes may be anything. */
static inline void lm_put_utf8(kit_text *t, const char *s, size_t n)
{
    while (n > 0) {
        int bytes = kit__utf8_bytes(s, n);
        if (bytes) kit_put_bytes(t, s, (size_t)bytes);
        else kit_put_string(t, "\xef\xbf\xbd");
        s += bytes ? bytes : 1;
        n -= bytes ? (size_t)bytes : 1;
    }
}

static inline void lm_log_text(lm_log *g, const char *key, const char *v)
{
    kit_text clean = { NULL, 0, 0 };
    lm_put_utf8(&clean, v, strlen(v));
    kit_json_text(&g->line, key, clean.data ? clean.data : "");
    kit_text_free(&clean);
}

/* The lines before stay whole whatever happens here. */
static inline int lm_log_end(lm_log *g, kit_error *why)
{
    kit_json_close(&g->line, '}');
    kit_json_line(&g->line);
    int done = lm_tail_add(&g->tail, &g->line, 1, why);
    g->line.size = 0;
    if (g->tensorboard && done) return lm_events_flush(&g->events, why);
    g->events.pending.size = 0;
    return done;
}

#endif
