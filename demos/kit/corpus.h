/* kit/corpus.h - text to learn from, byte by byte: a file, the corpus, or sentences of our own

   In this order: the file somebody names; build/corpus, which `make corpus` fetches (41 MB of
   English prose); sentences made here, so that every program runs on a machine without a network.
   What is trained on and what is tested on never overlap: of a file the last twentieth is held
   out. */
#ifndef KIT_CORPUS_H
#define KIT_CORPUS_H

#include "files.h"
#include "random.h"

enum { KIT_CORPUS_LEAST = 20000, KIT_CORPUS_MOST = 1 << 30, KIT_SENTENCES = 4 << 20 };

typedef struct kit_corpus {
    kit_text train, held;
    char name[KIT_PATH];                   /* what to call it in a report                         */
    int own;                               /* 1: our sentences, which are far easier than prose   */
    uint64_t sum;                          /* of all bytes: the same name may be another text     */
} kit_corpus;

static inline void kit_corpus_free(kit_corpus *c)
{
    kit_text_free(&c->train);
    kit_text_free(&c->held);
}

/* ---- sentences of our own -----------------------------------------------------------------------
   Simple English that leaves something to learn at every range: letters make words, verbs agree
   with their nouns, and a paragraph keeps to its two people, their place and their thing, so that
   whoever remembers more of it guesses better. The same seed gives the same text. */

typedef struct kit__story { const char *who[2], *place, *thing; int many; } kit__story;

static inline const char *kit__pick(kit_random *r, const char *const *word)
{
    int n = 0;
    while (word[n]) n++;
    return word[kit_random_below(r, n)];
}

static const char *const kit__people[] = {
    "Anna", "Bernard", "Clara", "Dorothy", "Edmund", "Frances", "George", "Harriet", "Isaac",
    "Jane", "Katherine", "Laurence", "Margaret", "Nathaniel", "Oliver", "Philippa", "Quentin",
    "Rosamund", "Samuel", "Theodora", "Ursula", "Victor", "Winifred", "the miller", "the captain",
    "the widow", "the old teacher", "the doctor", "the gardener", "the stranger", NULL
};
static const char *const kit__places[] = {
    "the harbour", "the garden", "the library", "the market", "the mill", "the church",
    "the station", "the kitchen", "the forest", "the bridge", "the school", "the island",
    "the orchard", "the tower", "the valley", "the inn by the river", "the house on the hill", NULL
};
static const char *const kit__things[] = {
    "letter", "lantern", "key", "map", "book", "basket", "clock", "ring", "ladder", "violin",
    "boat", "painting", "chair", "coat", "knife", "mirror", "wheel", "stone", "box", "bell", NULL
};
static const char *const kit__hows[] = {
    "quietly", "at once", "with great care", "before dawn", "in the rain", "without a word",
    "again", "as usual", "after supper", "in a hurry", "for the third time", "at last", NULL
};
static const char *const kit__likes[] = {
    "old", "heavy", "little", "broken", "green", "famous", "strange", "empty", "golden", "lost",
    "beautiful", "wooden", "dark", "narrow", "forgotten", NULL
};
static const char *const kit__deeds[] = {
    "carried", "found", "hid", "mended", "sold", "painted", "remembered", "watched", "borrowed",
    "described", "followed", "dropped", "opened", "washed", "counted", NULL
};
static const char *const kit__times[] = {
    "that evening", "one morning", "in winter", "a year later", "on the first day", "soon", "twice",
    NULL
};
static const char *const kit__thoughts[] = {
    "thought that", "said that", "knew that", "wrote that", "feared that", "dreamt that",
    "denied that", "was glad that", "had heard that", NULL
};

static inline const char *kit__someone(kit_random *r, const kit__story *s)
{
    return s->who[kit_random_below(r, 3) == 0];
}

/* One draw a statement: in which order a call's arguments are computed is the compiler's choice. */
static inline void kit__things_of(kit_text *t, kit_random *r, const kit__story *s)
{
    const char *like = kit__pick(r, kit__likes);
    kit_put(t, "%s %s %s%s", s->many ? "those" : "the", like, s->thing, s->many ? "s" : "");
}

/* who did what: the core of every sentence */
static inline void kit__clause(kit_text *t, kit_random *r, const kit__story *s)
{
    int form = kit_random_below(r, 5);
    const char *who = kit__someone(r, s), *deed = kit__pick(r, kit__deeds),
               *how = kit__pick(r, kit__hows);
    if (form == 0) kit_put(t, "%s went to %s %s", who, s->place, how);
    else if (form == 1) {
        kit__things_of(t, r, s);
        kit_put(t, " %s still in %s", s->many ? "were" : "was", s->place);
    } else if (form == 2) kit_put(t, "%s and %s waited at %s", s->who[0], s->who[1], s->place);
    else {
        kit_put(t, "%s %s ", who, deed);
        kit__things_of(t, r, s);
        kit_put(t, " %s", how);
    }
}

static inline void kit__sentence(kit_text *t, kit_random *r, const kit__story *s)
{
    size_t from = t->size;
    int form = kit_random_below(r, 4);
    if (form == 0) kit_put(t, "%s ", kit__someone(r, s));
    if (form == 0) kit_put(t, "%s ", kit__pick(r, kit__thoughts));
    if (form == 1) kit_put(t, "%s, ", kit__pick(r, kit__times));
    kit__clause(t, r, s);
    if (form == 2) {
        kit_put_string(t, kit_random_below(r, 2) ? ", and " : ", but ");
        kit__clause(t, r, s);
    }
    if (t->data[from] >= 'a' && t->data[from] <= 'z') t->data[from] += 'A' - 'a';
    kit_put_string(t, ". ");
}

static inline kit__story kit__story_make(kit_random *r)
{
    kit__story s;
    s.who[0] = kit__pick(r, kit__people);
    do s.who[1] = kit__pick(r, kit__people); while (s.who[1] == s.who[0]);
    s.place = kit__pick(r, kit__places);
    s.thing = kit__pick(r, kit__things);
    s.many = kit_random_below(r, 3) == 0;
    return s;
}

static inline void kit_sentences(kit_text *t, size_t n, uint64_t seed)
{
    for (uint64_t paragraph = 0; t->size < n; paragraph++) {
        kit_random r = kit_random_open(seed, KIT_RANDOM_TRAIN, paragraph);
        kit__story s = kit__story_make(&r);
        for (int i = 6 + kit_random_below(&r, 8); i > 0; i--) kit__sentence(t, &r, &s);
        t->data[t->size - 1] = '\n';
    }
}

/* ---- where the text comes from --------------------------------------------------------------- */

/* the last twentieth of what was read becomes the held-out text */
static inline void kit__corpus_split(kit_corpus *c)
{
    size_t kept = c->train.size / 20 * 19;
    kit_put_bytes(&c->held, c->train.data + kept, c->train.size - kept);
    c->train.size = kept;
    c->train.data[kept] = 0;
}

static inline int kit__corpus_file(kit_corpus *c, const char *path, kit_error *why)
{
    snprintf(c->name, sizeof c->name, "%s", path);
    if (!kit_read_file(&c->train, path, KIT_CORPUS_MOST, why)) return 0;
    if (c->train.size < KIT_CORPUS_LEAST)
        return kit_fail(why, "%.200s has %zu bytes; a text to learn from needs %d", path,
                        c->train.size, KIT_CORPUS_LEAST);
    kit__corpus_split(c);
    return 1;
}

static inline int kit__corpus_folder(kit_corpus *c, const char *folder, kit_error *why)
{
    char path[KIT_PATH];
    snprintf(c->name, sizeof c->name, "the corpus");
    return kit_join(path, folder, "train.txt", why)
           && kit_read_file(&c->train, path, KIT_CORPUS_MOST, why)
           && kit_join(path, folder, "val.txt", why)
           && kit_read_file(&c->held, path, KIT_CORPUS_MOST, why);
}

/* where `make corpus` leaves it: beside the program, or below the folder one stands in */
static inline int kit__corpus_find(char folder[KIT_PATH], const char *program)
{
    const char *slash = strrchr(program, '/');
    for (int i = 0; i < 2; i++) {
        char file[KIT_PATH + 16];
        if (i == 0)
            snprintf(folder, KIT_PATH, "%.*s/corpus", slash ? (int)(slash - program) : 0, program);
        else snprintf(folder, KIT_PATH, "build/corpus");
        snprintf(file, sizeof file, "%s/val.txt", folder);     /* the last file that is written */
        if (kit_exists(file)) return 1;
    }
    return 0;
}

/* FNV-1a, eight bytes at a time */
static inline uint64_t kit__corpus_sum(uint64_t sum, const kit_text *t)
{
    for (size_t i = 0; i + 8 <= t->size; i += 8) {
        uint64_t word = 0;
        for (int k = 0; k < 8; k++)
            word |= (uint64_t)(unsigned char)t->data[i + (size_t)k] << 8 * k;
        sum = (sum ^ word) * 1099511628211u;
    }
    return sum;
}

static inline int kit__corpus_take(kit_corpus *c, const char *file, const char *program,
                                   kit_error *why)
{
    char folder[KIT_PATH];
    if (file) return kit__corpus_file(c, file, why);
    if (kit__corpus_find(folder, program)) return kit__corpus_folder(c, folder, why);
    snprintf(c->name, sizeof c->name, "sentences of our own making");
    c->own = 1;
    kit_sentences(&c->train, KIT_SENTENCES, 1);
    kit__corpus_split(c);
    return 1;
}

/* file: what somebody named, or NULL. program: argv[0]. */
static inline int kit_corpus_open(kit_corpus *c, const char *file, const char *program,
                                  kit_error *why)
{
    memset(c, 0, sizeof *c);
    if (!kit__corpus_take(c, file, program, why)) return 0;
    c->sum = kit__corpus_sum(kit__corpus_sum(14695981039346656037u, &c->train), &c->held);
    return 1;
}

/* T bytes from `at` on, and the byte that follows each; at + T < size */
static inline void kit_corpus_window(int *tokens, int *targets, const kit_text *text, size_t at,
                                     int T)
{
    for (int t = 0; t < T; t++) {
        tokens[t] = (unsigned char)text->data[at + (size_t)t];
        targets[t] = (unsigned char)text->data[at + (size_t)t + 1];
    }
}

#endif
