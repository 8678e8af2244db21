/* kit/args.h - the command line: sub-commands and flags from one table

   --key value and --key=value are the same. --help shows every flag with its default, which is
   whatever the variable holds when kit_args_read is called. Anything wrong is one sentence on
   stderr and exit code 2; an unknown flag is answered with the nearest right one. */
#ifndef KIT_ARGS_H
#define KIT_ARGS_H

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kit_kind {
    KIT_SWITCH,                            /* int, set to 1; takes no value                       */
    KIT_INT,                               /* int from low to high                                */
    KIT_U64,                               /* uint64_t                                            */
    KIT_REAL,                              /* double from low to high                             */
    KIT_TEXT,                              /* const char *, one of choices when there are any     */
    KIT_LIST                               /* kit_list; the flag may be repeated                  */
} kit_kind;

enum { KIT_LIST_ROOM = 64 };
typedef struct kit_list { const char *item[KIT_LIST_ROOM]; int count; } kit_list;

typedef struct kit_option {
    const char *name;                      /* without the dashes; NULL ends the table             */
    kit_kind kind;
    void *value;
    double low, high;                      /* both ends belong to the range                       */
    const char *choices;                   /* KIT_TEXT: "plain|balanced"; NULL: anything          */
    const char *word;                      /* what --help calls the value                         */
    const char *help;
    int given;                             /* set to 1 when the flag was on the command line      */
} kit_option;

/* One row of the table each; the types of the variables are checked by the compiler. */
static inline kit_option kit__option(const char *name, kit_kind kind, void *value, const char *word,
                                     const char *help)
{
    kit_option o;
    memset(&o, 0, sizeof o);
    o.name = name;
    o.kind = kind;
    o.value = value;
    o.word = word;
    o.help = help;
    return o;
}

static inline kit_option kit_switch(const char *name, int *value, const char *help)
{
    return kit__option(name, KIT_SWITCH, value, NULL, help);
}

static inline kit_option kit_int(const char *name, int *value, int low, int high, const char *help)
{
    kit_option o = kit__option(name, KIT_INT, value, "N", help);
    o.low = low;
    o.high = high;
    return o;
}

static inline kit_option kit_u64(const char *name, uint64_t *value, const char *help)
{
    return kit__option(name, KIT_U64, value, "N", help);
}

static inline kit_option kit_real(const char *name, double *value, double low, double high,
                                  const char *help)
{
    kit_option o = kit__option(name, KIT_REAL, value, "X", help);
    o.low = low;
    o.high = high;
    return o;
}

static inline kit_option kit_word(const char *name, const char **value, const char *word,
                                  const char *help)
{
    return kit__option(name, KIT_TEXT, (void *)value, word, help);
}

static inline kit_option kit_choice(const char *name, const char **value, const char *choices,
                                    const char *help)
{
    kit_option o = kit__option(name, KIT_TEXT, (void *)value, NULL, help);
    o.choices = choices;
    return o;
}

static inline kit_option kit_several(const char *name, kit_list *value, const char *word,
                                     const char *help)
{
    return kit__option(name, KIT_LIST, value, word, help);
}

static inline kit_option kit_no_more(void)
{
    return kit__option(NULL, KIT_SWITCH, NULL, NULL, NULL);
}

typedef struct kit_command { const char *name, *help; } kit_command;  /* NULL name ends the table */

typedef struct kit_args {
    const char *program;                   /* "pattern"                                           */
    const char *summary;                   /* what it is for, first lines of --help               */
    const kit_command *commands;           /* NULL: the program has none                          */
    kit_option *options;
    const char *operand;                   /* "CHECKPOINT": other words it takes; NULL: none      */
    const char *closing;                   /* last lines of --help: examples; NULL: none          */
    kit_list operands;                     /* out: the other words                                */
    int command;                           /* out: number of the command                          */
    int exit_code;                         /* out: 0 after --help, 2 after a mistake              */
} kit_args;

/* ---- the nearest right word ------------------------------------------------------------------ */

/* Fewest insertions, deletions and replacements that turn one word into the other. */
static inline int kit__word_distance(const char *a, const char *b)
{
    int row[64], n = (int)strlen(b);
    if (n > 62) return 1000;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int replace = corner + (a[i - 1] != b[j - 1]);
            int shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            corner = row[j];
            row[j] = replace < shorter + 1 ? replace : shorter + 1;
        }
    }
    return row[n];
}

/* A word that begins like the right one ("epoch" for "epochs") counts as a single slip. */
static inline int kit__word_slips(const char *typed, const char *right)
{
    size_t n = strlen(typed);
    if (n > 1 && strncmp(typed, right, n) == 0) return 1;
    return kit__word_distance(typed, right);
}

static inline const char *kit__nearest_option(const kit_args *a, const char *typed)
{
    const char *best = "help";
    int fewest = kit__word_slips(typed, best);
    for (const kit_option *o = a->options; o->name; o++) {
        int slips = kit__word_slips(typed, o->name);
        if (slips < fewest) { fewest = slips; best = o->name; }
    }
    return best;
}

static inline const char *kit__nearest_command(const kit_args *a, const char *typed)
{
    const char *best = a->commands[0].name;
    for (const kit_command *c = a->commands; c->name; c++)
        if (kit__word_slips(typed, c->name) < kit__word_slips(typed, best)) best = c->name;
    return best;
}

/* ---- help ------------------------------------------------------------------------------------ */

static inline void kit__print_default(const kit_option *o)
{
    switch (o->kind) {
    case KIT_SWITCH: break;
    case KIT_INT:    printf(" [%d]", *(const int *)o->value); break;
    case KIT_U64:    printf(" [%" PRIu64 "]", *(const uint64_t *)o->value); break;
    case KIT_REAL:   printf(" [%g]", *(const double *)o->value); break;
    case KIT_TEXT:
        if (*(const char *const *)o->value) printf(" [%s]", *(const char *const *)o->value);
        break;
    case KIT_LIST: {
        const kit_list *list = (const kit_list *)o->value;
        for (int i = 0; i < list->count; i++) printf("%s%s", i ? " " : " [", list->item[i]);
        if (list->count) printf("]");
        break;
    }
    }
}

static inline void kit__help(const kit_args *a)
{
    printf("%s\n\nusage: %s", a->summary, a->program);
    if (a->commands) {
        for (const kit_command *c = a->commands; c->name; c++)
            printf("%s%s", c == a->commands ? " " : "|", c->name);
    }
    printf("%s%s [--flag value | --flag=value ...]\n\n", a->operand ? " " : "",
           a->operand ? a->operand : "");
    for (const kit_command *c = a->commands; c && c->name; c++)
        printf("  %-22s %s\n", c->name, c->help);
    if (a->commands) printf("\n");
    for (const kit_option *o = a->options; o->name; o++) {
        char left[96];
        int n = snprintf(left, sizeof left, "--%s %s", o->name,
                         o->choices ? o->choices
                         : o->word  ? o->word
                                    : "");
        if (n > 22) printf("  %s\n  %-22s %s", left, "", o->help);   /* two lines if it must be */
        else printf("  %-22s %s", left, o->help);
        kit__print_default(o);
        printf("\n");
    }
    printf("  %-22s %s\n", "--help", "this page");
    if (a->closing) printf("\n%s\n", a->closing);
}

/* ---- reading --------------------------------------------------------------------------------- */

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline int kit_usage(kit_args *a, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", a->program);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    a->exit_code = 2;
    return 0;
}

static inline int kit__one_of(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *at = choices; *at; at += strcspn(at, "|"), at += (*at == '|')) {
        if (n > 0 && strcspn(at, "|") == n && strncmp(at, text, n) == 0) return 1;
    }
    return 0;
}

static inline int kit__read_int(kit_args *a, kit_option *o, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || (double)v < o->low || (double)v > o->high)
        return kit_usage(a, "--%s takes a whole number from %.0f to %.0f, not '%s'", o->name,
                         o->low, o->high, text);
    *(int *)o->value = (int)v;
    return 1;
}

static inline int kit__read_u64(kit_args *a, kit_option *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end || errno || strchr(text, '-'))      /* strtoull would wrap -1 round */
        return kit_usage(a, "--%s takes a whole number from 0 to 2^64 - 1, not '%s'",
                         o->name, text);
    *(uint64_t *)o->value = v;
    return 1;
}

static inline int kit__read_real(kit_args *a, kit_option *o, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= o->low && v <= o->high))   /* written so that NaN fails */
        return kit_usage(a, "--%s takes a number from %g to %g, not '%s'", o->name, o->low, o->high,
                         text);
    *(double *)o->value = v;
    return 1;
}

static inline int kit__read_value(kit_args *a, kit_option *o, const char *text)
{
    switch (o->kind) {
    case KIT_SWITCH: *(int *)o->value = 1; return 1;
    case KIT_INT:    return kit__read_int(a, o, text);
    case KIT_U64:    return kit__read_u64(a, o, text);
    case KIT_REAL:   return kit__read_real(a, o, text);
    case KIT_TEXT:
        if (o->choices && !kit__one_of(o->choices, text))
            return kit_usage(a, "--%s is one of %s, not '%s'", o->name, o->choices, text);
        *(const char **)o->value = text;
        return 1;
    case KIT_LIST: {
        kit_list *list = (kit_list *)o->value;
        if (!o->given) list->count = 0;                     /* the first one replaces the default */
        if (list->count == KIT_LIST_ROOM)
            return kit_usage(a, "--%s was given more than %d times", o->name, KIT_LIST_ROOM);
        list->item[list->count++] = text;
        return 1;
    }
    }
    return 0;
}

/* argv[i] is a flag: reads it and its value; returns how many words were used, 0 after a
   mistake. */
static inline int kit__read_flag(kit_args *a, char **argv, int i, int argc)
{
    const char *typed = argv[i] + 2, *equals = strchr(typed, '=');
    size_t n = equals ? (size_t)(equals - typed) : strlen(typed);
    kit_option *o = a->options;
    while (o->name && (strlen(o->name) != n || strncmp(o->name, typed, n) != 0)) o++;
    if (!o->name) {
        char word[48];
        snprintf(word, sizeof word, "%.*s", (int)(n < 47 ? n : 47), typed);
        return kit_usage(a, "there is no flag --%s; did you mean --%s?", word,
                         kit__nearest_option(a, word));
    }
    if (o->kind == KIT_SWITCH && equals) return kit_usage(a, "--%s takes no value", o->name);

    int words = o->kind == KIT_SWITCH || equals ? 1 : 2;
    if (words == 2 && (i + 1 >= argc || strncmp(argv[i + 1], "--", 2) == 0))
        return kit_usage(a, "--%s needs a value", o->name);
    if (!kit__read_value(a, o, equals ? equals + 1 : argv[i + (words == 2)])) return 0;
    o->given = 1;
    return words;
}

static inline int kit__read_command(kit_args *a, const char *typed)
{
    for (int i = 0; a->commands[i].name; i++)
        if (strcmp(a->commands[i].name, typed) == 0) { a->command = i; return 1; }
    return kit_usage(a, "there is no command '%s'; did you mean %s?", typed,
                     kit__nearest_command(a, typed));
}

/* 1: all is read, run. 0: leave with a->exit_code, everything has been said. */
static inline int kit_args_read(kit_args *a, int argc, char **argv)
{
    a->command = -1;
    a->operands.count = 0;
    a->exit_code = 0;
    for (int i = 1; i < argc; i++)                              /* --help wins wherever it stands */
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            kit__help(a);
            return 0;
        }

    for (int i = 1, words; i < argc; i += words) {
        words = 1;
        if (strncmp(argv[i], "--", 2) == 0) {
            words = kit__read_flag(a, argv, i, argc);
            if (words == 0) return 0;
        } else if (a->commands && a->command < 0) {
            if (!kit__read_command(a, argv[i])) return 0;
        } else if (a->operand && a->operands.count < KIT_LIST_ROOM) {
            a->operands.item[a->operands.count++] = argv[i];
        } else {
            return kit_usage(
                a, "'%s' is one word too many; flags begin with --, and --help lists them",
                argv[i]);
        }
    }
    if (a->commands && a->command < 0)
        return kit_usage(a, "say what to do, for example '%s %s'; --help lists all", a->program,
                         a->commands[0].name);
    return 1;
}

/* whether the flag was on the command line, as opposed to keeping its default */
static inline int kit_given(const kit_args *a, const char *name)
{
    for (const kit_option *o = a->options; o->name; o++)
        if (strcmp(o->name, name) == 0) return o->given;
    return 0;
}

#endif
