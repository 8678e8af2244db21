/* bench/torch.h - the same works in PyTorch, by demos/bench_torch.py in a process of its own

   Each group is asked for right after our own measurement of it, so that both see the same machine:
   once with the system's malloc as it is, and once with a malloc that keeps its memory. By default
   glibc gives large blocks back and gets them again, page by page, in every step, which costs
   PyTorch more than some of the works do. */
#ifndef BENCH_TORCH_H
#define BENCH_TORCH_H

#include "bench/results.h"
#include <sys/wait.h>

enum { THEIR_NAME = BENCH_NAME + 16 };

typedef struct torch {
    const settings *set;
    results *all;
    int there;
    char script[KIT_PATH];
    kit_text names;                        /* "\nNAME\nNAME\n": the works that it has             */
    char log[KIT_PATH];                    /* the path of what it says on stderr                  */
} torch;

static const char *const torch_malloc[2] = {
    "", "MALLOC_TRIM_THRESHOLD_=1000000000000 MALLOC_MMAP_THRESHOLD_=1000000000000 "
        "MALLOC_TOP_PAD_=268435456 "
};
static const char *const torch_suffix[2] = { "", "+malloc" };

/* ---- starting it ----------------------------------------------------------------------------- */

/* 'as the shell wants it' */
static void put_quoted(kit_text *t, const char *s)
{
    kit_put_string(t, "'");
    for (; *s; s++) {
        if (*s == '\'') kit_put_string(t, "'\\''");
        else kit_put_bytes(t, s, 1);
    }
    kit_put_string(t, "'");
}

static int find_script(torch *t, const char *program)
{
    const char *given = t->set->script;
    if (given) snprintf(t->script, sizeof t->script, "%.*s", KIT_PATH - 1, given);
    else find_file(t->script, program, "demos/bench_torch.py");
    return kit_exists(t->script);
}

static void put_log(kit_text *command, const torch *t)
{
    kit_put_string(command, " 2>>");
    put_quoted(command, t->log);
}

/* What we told OpenMP about our own threads is not meant for PyTorch's. */
static void put_python(kit_text *command, const torch *t, const char *before)
{
    if (getenv(WAIT_IS_OURS)) kit_put_string(command, "unset GOMP_SPINCOUNT; ");
    kit_put_string(command, before);
    put_quoted(command, t->set->python);
    kit_put_string(command, " ");
    put_quoted(command, t->script);
}

/* The names that it knows; none where Python or torch are missing. */
static void torch_list(torch *t)
{
    kit_text command = { NULL, 0, 0 };
    char line[256];
    put_python(&command, t, "");
    kit_put_string(&command, " --list");
    put_log(&command, t);
    FILE *pipe = popen(command.data, "r");
    kit_put_string(&t->names, "\n");
    while (pipe && fgets(line, sizeof line, pipe)) kit_put_string(&t->names, line);
    t->there = pipe && pclose(pipe) == 0 && t->names.size > 1;
    kit_text_free(&command);
}

static void torch_open(torch *t, const settings *s, const char *program, results *r)
{
    kit_error why;
    memset(t, 0, sizeof *t);
    t->set = s;
    t->all = r;
    if (strcmp(s->compare, "torch") != 0) return;
    if (!find_script(t, program)) {
        kit_put(&r->remarks, "No PyTorch beside it: there is no %s; name one with --script.\n",
                t->script);
        return;
    }
    if (!kit_join(t->log, s->out, "torch.log", &why)) return;
    unlink(t->log);
    torch_list(t);
    if (!t->there && !kit_stopped())
        kit_put(&r->remarks, "No PyTorch beside it: %s %s --list does not work (%s says why); name "
                "a Python that has torch with --python.\n", s->python, t->script, t->log);
}

/* An empty log says nothing. */
static void torch_close(torch *t)
{
    struct stat st;
    if (t->log[0] && stat(t->log, &st) == 0 && st.st_size == 0) unlink(t->log);
    kit_text_free(&t->names);
}

/* ---- asking it ------------------------------------------------------------------------------- */

static int torch_has(const torch *t, const char *name)
{
    char line[THEIR_NAME + 2];
    snprintf(line, sizeof line, "\n%.*s\n", THEIR_NAME - 1, name);
    return strstr(t->names.data, line) != NULL;
}

/* step/pattern/fp32 with dropout by random bytes is step/pattern_bytes/fp32 over there */
static int bytes_name(char *name, size_t room, const char *ours)
{
    const char *rest = "step/pattern/";
    size_t n = strlen(rest);
    if (strncmp(ours, rest, n) != 0) return 0;
    snprintf(name, room, "step/pattern_bytes/%s", ours + n);
    return 1;
}

/* the names of a group, with commas; returns how many of its works PyTorch has */
static int put_names(kit_text *t, const torch *side, const result *r, int count)
{
    char other[THEIR_NAME];
    int known = 0;
    for (int i = 0; i < count; i++) {
        if (!torch_has(side, r[i].work->name)) continue;
        kit_put(t, "%s%s", known++ ? "," : "", r[i].work->name);
        if (bytes_name(other, sizeof other, r[i].work->name) && torch_has(side, other))
            kit_put(t, ",%s", other);
    }
    return known;
}

/* NAME\tVARIANT\tMEDIAN\tLOW\tHIGH; a line for a work that was not asked for is passed over */
static void read_line(const char *line, result *r, int count, int pass)
{
    char name[THEIR_NAME], how[32], other[THEIR_NAME];
    variant v;
    int read = sscanf(line, "%79[^\t]\t%31[^\t]\t%lf\t%lf\t%lf", name, how, &v.median, &v.low,
                      &v.high);
    if (read != 5 || !(v.median > 0 && v.low > 0 && v.high > 0)) return;
    for (int i = 0; i < count; i++) {
        int bytes = bytes_name(other, sizeof other, r[i].work->name) && strcmp(other, name) == 0;
        if (!bytes && strcmp(r[i].work->name, name) != 0) continue;
        if (r[i].variants == BENCH_VARIANTS) return;
        snprintf(v.name, sizeof v.name, "%s%s%s", how, bytes ? "+bytes" : "",
                 torch_suffix[pass]);
        r[i].variant[r[i].variants++] = v;
    }
}

/* "# torch 2.9, 2 threads, malloc default" without its malloc, which differs from pass to pass */
static void read_version(char version[160], const char *line)
{
    size_t n = strcspn(line + 2, "\n");
    const char *end = strstr(line + 2, ", malloc");
    if (version[0] || strncmp(line, "# torch", 7) != 0) return;
    snprintf(version, 160, "%.*s", (int)(end ? (size_t)(end - line - 2) : n), line + 2);
}

/* 1: it said all and ended well */
static int torch_pass(const torch *t, result *r, int count, int pass, kit_progress *bar, long done)
{
    const settings *s = t->set;
    kit_text command = { NULL, 0, 0 }, names = { NULL, 0, 0 };
    char line[512], note[THEIR_NAME];
    int known = put_names(&names, t, r, count), code = 0;
    if (known == 0) return 1;
    put_python(&command, t, torch_malloc[pass]);
    kit_put(&command, " --threads %d --seconds %g --repeats %d --filter %s%s", posenc_threads(),
            s->seconds, s->repeats, names.data, s->compile ? " --compile" : "");
    put_log(&command, t);
    FILE *pipe = popen(command.data, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        read_version(t->all->torch, line);
        read_line(line, r, count, pass);
        snprintf(note, sizeof note, "PyTorch %.*s", (int)strcspn(line, "\t\n"), line);
        kit_progress_at(bar, done, note);
    }
    if (pipe) code = pclose(pipe);
    kit_text_free(&command);
    kit_text_free(&names);
    return pipe && code == 0;
}

/* Both passes over a group of results; done: works that the progress counts as finished. */
static void torch_group(const torch *t, result *r, int count, kit_progress *bar, long done)
{
    for (int pass = 0; pass < 2 && t->there && !kit_stopped(); pass++, done += count) {
        kit_progress_at(bar, done, "PyTorch");
        if (!torch_pass(t, r, count, pass, bar, done) && !kit_stopped())
            kit_put(&t->all->remarks, "PyTorch did not finish %s%s; %s says why.\n", r->work->group,
                    torch_suffix[pass], t->log);
    }
}

#endif
