/* kit/json.h - JSON (RFC 8259), built in a kit_text; one object to a line makes a JSON-lines log

       kit_json_open(&t, NULL, '{');
       kit_json_text(&t, "method", "rope");
       kit_json_int(&t, "epoch", 3);
       kit_json_close(&t, '}');

   A key of NULL means an element of an array, or the outermost value. */
#ifndef KIT_JSON_H
#define KIT_JSON_H

#include "files.h"
#include <inttypes.h>
#include <math.h>

static inline void kit__json_string(kit_text *t, const char *s)
{
    kit_put_string(t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') kit_put(t, "\\%c", c);
        else if (c < 32) kit_put(t, "\\u%04x", c);
        else kit_put_bytes(t, s, 1);
    }
    kit_put_string(t, "\"");
}

/* A comma is due unless a bracket, a colon or a line was just opened. */
static inline void kit__json_key(kit_text *t, const char *key)
{
    char last = t->size > 0 ? t->data[t->size - 1] : '\n';
    if (!strchr("{[:\n", last)) kit_put_string(t, ",");
    if (!key) return;
    kit__json_string(t, key);
    kit_put_string(t, ":");
}

static inline void kit_json_open(kit_text *t, const char *key, char bracket)
{
    kit__json_key(t, key);
    kit_put_bytes(t, &bracket, 1);
}

static inline void kit_json_close(kit_text *t, char bracket) { kit_put_bytes(t, &bracket, 1); }

static inline void kit_json_line(kit_text *t) { kit_put_string(t, "\n"); }

static inline void kit_json_text(kit_text *t, const char *key, const char *s)
{
    kit__json_key(t, key);
    kit__json_string(t, s);
}

static inline void kit_json_int(kit_text *t, const char *key, long long v)
{
    kit__json_key(t, key);
    kit_put(t, "%lld", v);
}

static inline void kit_json_u64(kit_text *t, const char *key, uint64_t v)
{
    kit__json_key(t, key);
    kit_put(t, "%" PRIu64, v);
}

/* JSON has no NaN: null stands for it */
static inline void kit_json_real(kit_text *t, const char *key, double v)
{
    kit__json_key(t, key);
    if (isfinite(v)) kit_put(t, "%.9g", v);
    else kit_put_string(t, "null");
}

#endif
