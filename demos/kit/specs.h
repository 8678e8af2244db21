/* kit/specs.h - what demos that train have in common: lists of encodings, and notes in checkpoints

   Include posenc.h first. A note is a text that a checkpoint carries. Its first line holds the
   settings of a run as flags, so that --resume cannot mix two experiments. */
#ifndef KIT_SPECS_H
#define KIT_SPECS_H

#include "args.h"
#include "files.h"
#include <ctype.h>

typedef char spec_text[POSENC_SPEC_TEXT];

/* One spec, written back in the library's own words: an alias and its name are one method. */
static inline int kit__read_spec(kit_args *a, spec_text *spec, int count, const char *at, size_t n)
{
    posenc_spec list[POSENC_SPECS];
    posenc_error said;
    spec_text word;
    int parts;
    if (n >= sizeof word || count == KIT_LIST_ROOM)
        return kit_usage(a, "--pe takes %d encodings of %d letters at most", KIT_LIST_ROOM,
                         POSENC_SPEC_TEXT - 1);
    memcpy(word, at, n);
    word[n] = 0;
    if (posenc_spec_parse(list, &parts, POSENC_SPECS, word, &said) != POSENC_OK)
        return kit_usage(a, "%s", said.text);
    posenc_spec_print(spec[count], POSENC_SPEC_TEXT, list, parts);
    for (int k = 0; k < count; k++)
        if (strcmp(spec[k], spec[count]) == 0) return kit_usage(a, "--pe has %s twice", spec[k]);
    return 1;
}

/* Spec strings contain commas, so a list is separated by blanks or semicolons, or given flag by
   flag. spec has room for KIT_LIST_ROOM. Returns how many; 0 after a mistake. */
static inline int kit_read_specs(kit_args *a, const kit_list *pe, spec_text *spec)
{
    int count = 0;
    for (int i = 0; i < pe->count; i++) {
        const char *at = pe->item[i] + strspn(pe->item[i], " ;");
        while (*at) {
            size_t n = strcspn(at, " ;");
            if (!kit__read_spec(a, spec, count, at, n)) return 0;
            count++;
            at += n + strspn(at + n, " ;");
        }
    }
    return count ? count : kit_usage(a, "--pe names no encoding");
}

/* A table that ends before the sequences do would be found out by the first batch only. */
static inline int kit_spec_reaches(kit_args *a, const char *spec, int T)
{
    posenc_spec list[POSENC_SPECS];
    int parts = 0;
    posenc_spec_parse(list, &parts, POSENC_SPECS, spec, NULL);
    for (int i = 0; i < parts; i++)
        if (list[i].rows > 0 && list[i].rows < T)
            return kit_usage(a, "%s has %d rows, too few for sequences of %d tokens", spec,
                             list[i].rows, T);
    return 1;
}

/* one line for people who asked for bf16 where there is no unit for it */
static inline void kit_say_precision(const char *precision, const char *unit)
{
    if (strcmp(precision, "bf16") == 0 && strcmp(unit, "none") == 0)
        fprintf(stderr, "--precision bf16: this processor multiplies in fp32 only, and so do we\n");
}

/* a spec as the name of a file */
static inline void kit_spec_slug(char *slug, size_t room, const char *spec)
{
    size_t n = 0;
    for (; *spec && n + 1 < room; spec++)
        slug[n++] = isalnum((unsigned char)*spec) || strchr("+-.=", *spec) ? *spec : '_';
    slug[n] = 0;
}

/* how many letters "--lr 0.5 --clip 1" gives to its first flag */
static inline int kit__flag_letters(const char *flags)
{
    const char *next = strstr(flags + 1, " --");
    size_t line = strcspn(flags, "\n");
    return (int)(next && (size_t)(next - flags) < line ? (size_t)(next - flags) : line);
}

/* Whether a note begins with our line of settings; if not, the sentence has the first flag that
   differs. */
static inline int kit_note_begins(const char *note, const kit_text *ours, const char *path,
                                  kit_error *why)
{
    size_t at = 0, flag = 0;
    for (; at < ours->size && note[at] == ours->data[at]; at++)
        if (strncmp(note + at, "--", 2) == 0) flag = at;
    const char *theirs = note + flag, *mine = ours->data + flag;
    if (at == ours->size) return 1;
    if (flag == 0) return kit_fail(why, "%s is not a checkpoint of this program", path);
    return kit_fail(why, "%s was trained with %.*s, not %.*s; without --resume it is overwritten",
                    path, kit__flag_letters(theirs), theirs, kit__flag_letters(mine), mine);
}

#endif
