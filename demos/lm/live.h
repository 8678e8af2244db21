/* lm/live.h - a run as one sees it on the terminal

       nano_rope_6M_s1  ▇▆▅▄▃▃▂▂▁▁  loss 2.0312  lr 0.002  61.4k tok/s  MFU 32.1%
       3.07M of 6.14M  50 s left                           (one line, rewritten in place)

   As wide as the terminal: what does not fit is left out, the least needed first. The curve is the
   loss of the whole run so far, in blocks where the locale says UTF-8, else in ASCII. Piped: plain
   lines, after ten seconds or when another per cent is done, whichever comes later, but at least
   every ten minutes. Quiet: nothing. All of it goes to stderr. */
#ifndef LM_LIVE_H
#define LM_LIVE_H

#include "kit/progress.h"
#include "kit/read_json.h"
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>

enum {
    LM_SPARK = 64,                         /* means of the loss that are kept                     */
    LM_SPARK_LEAST = 8, LM_SPARK_MOST = 32 /* columns of the curve                                */
};
typedef enum lm_live_mode { LM_QUIET, LM_TERMINAL, LM_PLAIN } lm_live_mode;

typedef struct lm_live {
    char name[64];
    uint64_t total, first, tokens;         /* first: of the first step that was shown             */
    double started, first_at, drawn;       /* seconds                                             */
    double loss, rate, speed, mfu;         /* as given last                                       */
    double mean[LM_SPARK];                 /* of `every` losses each                              */
    int points, every, since;
    double sum;                            /* of the `since` losses after the last mean           */
    lm_live_mode mode;
    int utf8, columns;                     /* columns: 0: ask the terminal                        */
    int visible;                           /* columns of the line that stands there               */
    int per_cent;                          /* of the last plain line                              */
    FILE *to;
} lm_live;

/* ---- words ----------------------------------------------------------------------------------- */

/* 1234567 as 1.23M */
static inline void lm_say_many(char text[24], double n)
{
    static const char *const unit[] = { "", "k", "M", "B", "T" };
    int u = 0;
    for (; fabs(n) >= 999.5 && u < 4; u++) n /= 1000;
    int digits = u == 0 || fabs(n) >= 99.95 ? 0 : fabs(n) >= 9.995 ? 1 : 2;
    snprintf(text, 24, "%.*f%s", digits, n, unit[u]);
}

/* LC_ALL, else LC_CTYPE, else LANG decides, as for every program */
static inline int lm__says_utf8(void)
{
    static const char *const name[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(name[i]);
        if (!value || !*value) continue;
        return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8")
            || strstr(value, "utf-8");
    }
    return 0;
}

static inline int lm__columns(const lm_live *v)
{
    const char *said = getenv("COLUMNS");
    if (v->columns) return v->columns;
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(fileno(v->to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
#endif
    int n = said ? atoi(said) : 0;
    return n > 0 && n < 10000 ? n : 80;
}

/* ---- the curve ------------------------------------------------------------------------------- */

/* When the room is used up, neighbours become one: the curve always spans the run. */
static inline void lm__spark_add(lm_live *v, double loss)
{
    if (!isfinite(loss)) return;
    v->sum += loss;
    if (++v->since < v->every) return;
    v->mean[v->points++] = v->sum / v->since;
    v->sum = v->since = 0;
    if (v->points < LM_SPARK) return;
    for (int i = 0; i < LM_SPARK / 2; i++)
        v->mean[i] = 0.5 * (v->mean[2 * i] + v->mean[2 * i + 1]);
    v->points = LM_SPARK / 2;
    v->every *= 2;
}

static inline int lm__by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The scale ends where nine tenths of the values do: the first losses would press all others into
   the lowest row. */
static inline void lm__spark_scale(double *low, double *high, const double *y, int n)
{
    double sorted[LM_SPARK] = { 0 };
    for (int i = 0; i < n; i++) sorted[i] = y[i];
    qsort(sorted, (size_t)n, sizeof *sorted, lm__by_size);
    *low = sorted[0];
    *high = sorted[n * 9 / 10];
}

/* at most `columns` of them; returns how many */
static inline int lm__spark(kit_text *t, const lm_live *v, int columns)
{
    static const char ascii[] = "_.-~=+*#";
    double y[LM_SPARK], low, high;
    int n = v->points < columns ? v->points : columns;
    if (n < 1) return 0;
    for (int i = 0; i < n; i++) {
        int from = i * v->points / n, to = (i + 1) * v->points / n;
        y[i] = 0;
        for (int k = from; k < to; k++) y[i] += v->mean[k] / (to - from);
    }
    lm__spark_scale(&low, &high, y, n);
    for (int i = 0; i < n; i++) {
        double part = high > low ? (y[i] - low) / (high - low) : 0;
        int level = part >= 1 ? 7 : (int)(part * 8);
        if (v->utf8) kit_put(t, "\xe2\x96%c", 0x81 + level);              /* U+2581 .. U+2588 */
        else kit_put_bytes(t, ascii + level, 1);
    }
    return n;
}

/* ---- the line -------------------------------------------------------------------------------- */

enum { LM__NAME, LM__SPARK, LM__LOSS, LM__RATE, LM__SPEED, LM__MFU, LM__DONE, LM__LEFT, LM__PARTS };

/* Measured over this session, validations and checkpoints included. */
static inline void lm__say_left(char text[48], const lm_live *v, double now)
{
    double speed = v->tokens > v->first && now > v->first_at
                       ? (double)(v->tokens - v->first) / (now - v->first_at) : v->speed;
    double left = v->total > v->tokens ? (double)(v->total - v->tokens) : 0;
    char said[32] = "?";
    if (left == 0) snprintf(said, sizeof said, "0 s");
    else if (speed > 0) kit_say_seconds(said, sizeof said, left / speed);
    snprintf(text, 48, "%s left", said);
}

/* All parts but the curve; what is not known is empty. */
static inline void lm__live_parts(char part[LM__PARTS][64], const lm_live *v, double now)
{
    char done[24], total[24], speed[24];
    memset(part, 0, LM__PARTS * sizeof *part);
    lm_say_many(done, (double)v->tokens);
    lm_say_many(total, (double)v->total);
    lm_say_many(speed, v->speed);
    snprintf(part[LM__NAME], 64, "%s", v->name);
    snprintf(part[LM__LOSS], 64, "loss %.4f", v->loss);
    if (isfinite(v->rate)) snprintf(part[LM__RATE], 64, "lr %.3g", v->rate);
    if (v->speed > 0) snprintf(part[LM__SPEED], 64, "%s tok/s", speed);
    if (v->mfu > 0) snprintf(part[LM__MFU], 64, "MFU %.1f%%", 100 * v->mfu);
    snprintf(part[LM__DONE], 64, "%s of %s", done, total);
    lm__say_left(part[LM__LEFT], v, now);
}

/* The columns each part gets, 0: left out. The curve takes what is over. */
static inline void lm__live_widths(int width[LM__PARTS], char part[LM__PARTS][64], int points,
                                   int room)
{
    static const int least_needed[LM__PARTS - 1] = { LM__RATE, LM__MFU, LM__NAME, LM__SPEED,
                                                     LM__SPARK, LM__DONE, LM__LEFT };
    int used = -2;                         /* two blanks between parts, none before the first     */
    for (int i = 0; i < LM__PARTS; i++) {
        width[i] = (int)strlen(part[i]);
        if (i == LM__SPARK) width[i] = points < LM_SPARK_LEAST ? points : LM_SPARK_LEAST;
        used += width[i] ? width[i] + 2 : 0;
    }
    for (int k = 0; used > room && k < LM__PARTS - 1; k++) {
        int *out = &width[least_needed[k]];
        used -= *out ? *out + 2 : 0;
        *out = 0;
    }
    if (used > room) width[LM__LOSS] = room;
    if (!width[LM__SPARK]) return;
    width[LM__SPARK] += room - used;
    if (width[LM__SPARK] > LM_SPARK_MOST) width[LM__SPARK] = LM_SPARK_MOST;
}

/* The whole line, at most `room` columns wide; returns its columns. */
static inline int lm__live_text(kit_text *t, const lm_live *v, double now, int room)
{
    char part[LM__PARTS][64];
    int width[LM__PARTS], used = 0;
    lm__live_parts(part, v, now);
    lm__live_widths(width, part, v->points, room);
    for (int i = 0; i < LM__PARTS; i++) {
        if (!width[i]) continue;
        if (used) kit_put_string(t, "  ");
        used += used ? 2 : 0;
        if (i == LM__SPARK) { used += lm__spark(t, v, width[i]); continue; }
        kit_put_bytes(t, part[i], (size_t)width[i]);
        used += width[i];
    }
    return used;
}

/* ---- begin, step, end ------------------------------------------------------------------------ */

/* A line that stands there has made the cursor stay in its last row, as long as the terminal was
   not made narrower since; then the rest of it scrolls away with the text above. */
static inline void lm__live_wipe(lm_live *v)
{
    int room = lm__columns(v) - 1;
    int wide = v->visible < room ? v->visible : room;
    if (v->visible) fprintf(v->to, "\r%*s\r", wide, "");
    v->visible = 0;
}

static inline void lm__live_draw(lm_live *v, double now)
{
    kit_text t = { NULL, 0, 0 };
    int room = lm__columns(v) - 1;         /* the last column would make some terminals wrap      */
    int used = lm__live_text(&t, v, now, room > 0 ? room : 1);
    int rest = (v->visible < room ? v->visible : room) - used;
    fprintf(v->to, "\r%s%*s", t.data ? t.data : "", rest > 0 ? rest : 0, "");
    fflush(v->to);
    v->visible = used;
    kit_text_free(&t);
}

static inline void lm__live_plain(lm_live *v, double now)
{
    kit_text t = { NULL, 0, 0 };
    lm__live_text(&t, v, now, 240);
    fprintf(v->to, "%s\n", t.data ? t.data : "");
    fflush(v->to);
    kit_text_free(&t);
}

static inline lm_live lm__live_new(const char *name, uint64_t total, lm_live_mode mode, FILE *to)
{
    lm_live v;
    memset(&v, 0, sizeof v);
    kit_plain(v.name, 40, name, strlen(name));
    v.total = total;
    v.started = v.drawn = kit_seconds();
    v.loss = v.rate = v.speed = v.mfu = NAN;
    v.every = 1;
    v.mode = mode;
    v.utf8 = mode == LM_TERMINAL && lm__says_utf8();
    v.to = to;
    return v;
}

static inline lm_live lm_live_begin(const char *name, uint64_t total_tokens, int quiet)
{
    const char *kind = getenv("TERM");
    int terminal = isatty(2) && !(kind && strcmp(kind, "dumb") == 0);
    return lm__live_new(name, total_tokens, quiet ? LM_QUIET : terminal ? LM_TERMINAL : LM_PLAIN,
                        stderr);
}

/* Ten seconds and another per cent; ten minutes at the latest. */
static inline int lm__plain_is_due(const lm_live *v, double now)
{
    int per_cent = v->total ? (int)(100.0 * (double)v->tokens / (double)v->total) : 0;
    double pause = now - v->drawn;
    return pause >= 600 || (pause >= 10 && per_cent > v->per_cent);
}

/* loss: nats. rate: learning rate. mfu: a share of 1. What is not known is NaN. */
static inline void lm_live_step(lm_live *v, uint64_t tokens, double loss, double rate,
                                double tokens_per_second, double mfu)
{
    double now = kit_seconds();
    if (v->tokens == 0) {
        v->first = tokens;
        v->first_at = now;
    }
    v->tokens = tokens;
    v->loss = loss;
    v->rate = rate;
    v->speed = tokens_per_second;
    v->mfu = mfu;
    lm__spark_add(v, loss);
    if (v->mode == LM_TERMINAL && now - v->drawn >= 0.1) lm__live_draw(v, now);
    else if (v->mode == LM_PLAIN && lm__plain_is_due(v, now)) lm__live_plain(v, now);
    else return;
    v->drawn = now;
    v->per_cent = v->total ? (int)(100.0 * (double)tokens / (double)v->total) : 0;
}

/* A line that stays, without its end: a validation, a checkpoint, a branch. Whatever else prints
   to the terminal during a run calls it, or lm_live_clear first. */
KIT_FORMAT(2, 3) static inline void lm_live_line(lm_live *v, const char *format, ...)
{
    char text[1024];
    va_list args;
    if (v->mode == LM_QUIET) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)                   /* names from files reach somebody's terminal */
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    lm__live_wipe(v);
    fprintf(v->to, "%s\n", text);
    fflush(v->to);
    v->drawn -= v->mode == LM_TERMINAL ? 1 : 0;     /* the next step brings the other one back    */
}

static inline void lm_live_clear(lm_live *v)
{
    if (v->mode != LM_QUIET) lm__live_wipe(v);
    fflush(v->to);
}

/* The last state stays, as a plain line. */
static inline void lm_live_end(lm_live *v)
{
    char took[32], done[24], total[24];
    if (v->mode == LM_QUIET) return;
    lm__live_wipe(v);
    if (v->tokens == 0) return;
    kit_say_seconds(took, sizeof took, kit_seconds() - v->started);
    lm_say_many(done, (double)v->tokens);
    lm_say_many(total, (double)v->total);
    fprintf(v->to, "%s: loss %.4f, %s of %s tokens, %s\n", v->name, v->loss, done, total, took);
    fflush(v->to);
}

#endif
