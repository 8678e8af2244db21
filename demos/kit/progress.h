/* kit/progress.h - how far, how long still; and Ctrl-C

   On a terminal: one line that redraws itself on stderr. Piped: a plain line after ten seconds,
   then ever more rarely, so that a log stays readable. Quiet: nothing. Figures that matter go to
   stdout, never through here. */
#ifndef KIT_PROGRESS_H
#define KIT_PROGRESS_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- time ------------------------------------------------------------------------------------ */

/* seconds from some fixed moment; not moved by a change of the wall clock */
static inline double kit_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "8 s", "2 min 05 s", "1 h 10 min": as precise as one would say it */
static inline void kit_say_seconds(char *text, size_t room, double seconds)
{
    long s = seconds < 0 ? 0 : seconds > 3.15e9 ? 3150000000L : (long)(seconds + 0.5);
    if (s < 60) snprintf(text, room, "%ld s", s);
    else if (s < 3600) snprintf(text, room, "%ld min %02ld s", s / 60, s % 60);
    else snprintf(text, room, "%ld h %02ld min", s / 3600, s / 60 % 60);
}

/* ---- the bar --------------------------------------------------------------------------------- */

typedef struct kit_progress {
    const char *label;
    long total, skipped;                   /* skipped: done before this run began (a resumed one) */
    double started, drawn;
    int mode;                              /* 0 quiet, 1 terminal, 2 plain lines                  */
    int visible;                           /* 1: a line stands on the terminal, to be cleared */
} kit_progress;

static inline kit_progress kit_progress_begin(const char *label, long total, long skipped,
                                              int quiet)
{
    kit_progress p;
    memset(&p, 0, sizeof p);
    p.label = label;
    p.total = total > 0 ? total : 1;
    p.skipped = skipped;
    p.started = p.drawn = kit_seconds();
    p.mode = quiet ? 0 : isatty(2) ? 1 : 2;
    return p;
}

static inline void kit__progress_line(char *line, size_t room, const kit_progress *p, long done,
                                      const char *note)
{
    char left[32] = "?", bar[21];
    double fresh = (double)(done - p->skipped);
    if (fresh > 0)
        kit_say_seconds(left, sizeof left,
                        (kit_seconds() - p->started) / fresh * (double)(p->total - done));
    if (p->mode == 2) {
        snprintf(line, room, "%s: %ld of %ld, %s left, %s", p->label, done, p->total, left, note);
        return;
    }
    int full = (int)(20.0 * (double)done / (double)p->total);
    for (int i = 0; i < 20; i++) bar[i] = i < full ? '#' : '.';
    bar[20] = 0;
    snprintf(line, room, "%-.20s [%s] %3.0f%%  %s left  %s", p->label, bar,
             100.0 * (double)done / (double)p->total, left, note);
}

static inline void kit_progress_at(kit_progress *p, long done, const char *note)
{
    double now = kit_seconds(), pause = p->mode == 1 ? 0.1 : 10 + 0.1 * (now - p->started);
    char line[320];
    if (p->mode == 0 || now - p->drawn < pause) return;
    p->drawn = now;
    kit__progress_line(line, sizeof line, p, done, note);
    if (p->mode == 2) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    fprintf(stderr, "\r%-78.78s", line);   /* 78: never wraps, which would break \r */
    fflush(stderr);
    p->visible = 1;
}

/* Call it before printing anything else: wipes the bar so that the line is free. */
static inline void kit_progress_clear(kit_progress *p)
{
    if (p->visible) fprintf(stderr, "\r%78s\r", "");
    p->visible = 0;
}

/* ---- Ctrl-C -------------------------------------------------------------------------------------
   The first one only raises a flag, which the training loop reads after each step; the handler then
   stands down, so that a second Ctrl-C ends the program at once. */

static volatile sig_atomic_t kit__stop = 0;

static inline void kit__on_stop(int number) { (void)number; kit__stop = 1; }

static inline void kit_catch_stop(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = kit__on_stop;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);              /* a limit on file sizes is an error of write() instead */
}

static inline int kit_stopped(void) { return kit__stop != 0; }

#endif
