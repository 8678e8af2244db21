/* kit/csv.h - tables as comma-separated text (RFC 4180), built in a kit_text

       kit_csv_text(&t, "learned"); kit_csv_int(&t, 3); kit_csv_real(&t, 0.25, 6); kit_csv_end(&t);

   Numbers always use a point: the demos never call setlocale. */
#ifndef KIT_CSV_H
#define KIT_CSV_H

#include "files.h"
#include <inttypes.h>
#include <math.h>

static inline void kit__csv_comma(kit_text *t)
{
    if (t->size > 0 && t->data[t->size - 1] != '\n') kit_put_string(t, ",");
}

/* Quoted only when it must be; a spec string such as rope:base=10,dim=8 must. */
static inline void kit_csv_text(kit_text *t, const char *s)
{
    kit__csv_comma(t);
    if (!strpbrk(s, ",\"\r\n") && *s) { kit_put_string(t, s); return; }
    kit_put_string(t, "\"");
    for (; *s; s++) {
        if (*s == '"') kit_put_string(t, "\"");
        kit_put_bytes(t, s, 1);
    }
    kit_put_string(t, "\"");
}

static inline void kit_csv_int(kit_text *t, long long v)
{
    kit__csv_comma(t);
    kit_put(t, "%lld", v);
}

static inline void kit_csv_u64(kit_text *t, uint64_t v)
{
    kit__csv_comma(t);
    kit_put(t, "%" PRIu64, v);
}

/* digits after the point; what is not a number is written NA, as tables do */
static inline void kit_csv_real(kit_text *t, double v, int digits)
{
    kit__csv_comma(t);
    if (isfinite(v)) kit_put(t, "%.*f", digits, v);
    else kit_put_string(t, "NA");
}

static inline void kit_csv_end(kit_text *t) { kit_put_string(t, "\n"); }

/* a whole heading: "method,seed,epoch" */
static inline void kit_csv_head(kit_text *t, const char *columns) { kit_put(t, "%s\n", columns); }

#endif
