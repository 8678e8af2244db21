/* lm/examples.h - examples in a file, one JSON object to a line

       {"task":"sort","split":"id","level":3,"prompt":"sort: c a b -> ","target":"a b c"}

   Other keys may stand beside these five, for whoever wrote them. The reader is strict in all else:
   the file may come from anywhere. Include posenc.h first. */
#ifndef LM_EXAMPLES_H
#define LM_EXAMPLES_H

#include "kit/json.h"
#include "lm/tasks.h"

enum { LM_EXAMPLES = 1 << 18,              /* most of them in a file                              */
       LM_EXAMPLES_BYTES = 256 << 20 };

typedef struct lm_examples { lm_example *item; size_t count, room; } lm_examples;

static inline void lm_examples_free(lm_examples *list)
{
    for (size_t i = 0; i < list->count; i++) lm_example_free(&list->item[i]);
    free(list->item);
    memset(list, 0, sizeof *list);
}

/* e's texts are the list's from now on */
static inline void lm_examples_add(lm_examples *list, const lm_example *e)
{
    if (list->count == list->room) {
        size_t room = 2 * list->room + 64;
        lm_example *item = (lm_example *)kit_new(room, sizeof *item);
        if (list->count) memcpy(item, list->item, list->count * sizeof *item);
        free(list->item);
        list->item = item;
        list->room = room;
    }
    list->item[list->count++] = *e;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* what a reader would refuse is not written */
static inline int lm__example_is_text(const kit_text *t, const lm_example *e, const char *what,
                                      kit_error *why)
{
    if (t->size == 0) return kit_fail(why, "an example of %s has an empty %s", e->task, what);
    for (size_t i = 0; i < t->size;) {
        int bytes = kit__utf8_bytes(t->data + i, t->size - i);
        if (bytes == 0 || t->data[i] == 0)
            return kit_fail(why, "an example of %s has byte 0x%02X at place %zu of its %s, which is"
                            " no text", e->task, (unsigned char)t->data[i], i, what);
        i += (size_t)bytes;
    }
    return 1;
}

/* a line behind what t holds */
static inline int lm_example_put(kit_text *t, const lm_example *e, kit_error *why)
{
    if (!lm__example_is_text(&e->prompt, e, "prompt", why)
        || !lm__example_is_text(&e->target, e, "target", why)) return 0;
    kit_json_open(t, NULL, '{');
    kit_json_text(t, "task", e->task);
    kit_json_text(t, "split", e->ood ? "ood" : "id");
    kit_json_real(t, "level", e->level);
    kit_json_text(t, "prompt", e->prompt.data);
    kit_json_text(t, "target", e->target.data);
    kit_json_close(t, '}');
    kit_json_line(t);
    return 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

static inline int lm__example_names(const kit_json *d, lm_example *e, kit_error *why)
{
    const char *task = NULL, *split = NULL;
    char shown[64];
    if (!kit_json_text_at(d, d->node, "task", KIT_NEEDED, &task, why)
        || !kit_json_text_at(d, d->node, "split", KIT_NEEDED, &split, why)) return 0;
    int known = lm_task_find(task);
    if (known < 0)
        return kit_json_fail(d, kit_json_find(d->node, "task"), why, "there is no task %s",
                             kit_plain(shown, sizeof shown, task, strlen(task)));
    e->task = lm_task_name[known];
    e->ood = strcmp(split, "ood") == 0;
    if (e->ood || strcmp(split, "id") == 0) return 1;
    return kit_json_fail(d, kit_json_find(d->node, "split"), why, "split is %s, expected id or ood",
                         kit_plain(shown, sizeof shown, split, strlen(split)));
}

static inline int lm__example_text(const kit_json *d, const char *key, kit_text *t,
                                   kit_error *why)
{
    const char *text = NULL;
    if (!kit_json_text_at(d, d->node, key, KIT_NEEDED, &text, why)) return 0;
    if (!*text) return kit_json_fail(d, kit_json_find(d->node, key), why, "the %s is empty", key);
    kit_put_string(t, text);
    return 1;
}

/* e is to be freed even if this fails */
static inline int lm__example_read(lm_example *e, const char *name, const char *line, size_t n,
                                   kit_error *why)
{
    kit_json doc;
    memset(e, 0, sizeof *e);
    if (!kit_json_read(&doc, name, line, n, 0, why)) return 0;
    int good = lm__example_names(&doc, e, why)
            && kit_json_real_at(&doc, doc.node, "level", KIT_NEEDED, 0, 1e9, &e->level, why)
            && lm__example_text(&doc, "prompt", &e->prompt, why)
            && lm__example_text(&doc, "target", &e->target, why);
    kit_json_free(&doc);
    return good;
}

static inline int lm__examples_split(lm_examples *list, const kit_text *file, const char *path,
                                     kit_error *why)
{
    for (size_t at = 0; at < file->size;) {
        char name[300];
        lm_example e;
        const char *end = (const char *)memchr(file->data + at, '\n', file->size - at);
        size_t n = end ? (size_t)(end - file->data) - at : file->size - at;
        if (list->count == LM_EXAMPLES)
            return kit_fail(why, "%.200s has more than %d examples", path, LM_EXAMPLES);
        snprintf(name, sizeof name, "example %zu of %.140s", list->count + 1, path);
        if (!lm__example_read(&e, name, file->data + at, n, why)) {
            lm_example_free(&e);
            return 0;
        }
        lm_examples_add(list, &e);
        at += n + 1;
    }
    if (list->count == 0) return kit_fail(why, "%.200s has no example", path);
    return 1;
}

/* All of a file, or none: then list is empty and needs no lm_examples_free. */
static inline int lm_examples_read(lm_examples *list, const char *path, kit_error *why)
{
    kit_text file = { NULL, 0, 0 };
    memset(list, 0, sizeof *list);
    int good = kit_read_file(&file, path, LM_EXAMPLES_BYTES, why)
            && lm__examples_split(list, &file, path, why);
    kit_text_free(&file);
    if (!good) lm_examples_free(list);
    return good;
}

#endif
