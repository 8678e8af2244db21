/* lm/prepare.h - lm prepare: text becomes shards; lm info: what is in shards

       lm prepare book.txt letters/ --out data/mine         files, folders, .gz; - is stdin
       lm info data/mine

   Text is read as bytes; byte 0, which text has not, begins every document. What is trained on
   (train), what is validated on (val) and what tasks hide things in (filler) never share text:

   - A document of LM_LARGE bytes or more, or one that is all there is, is cut: its end goes to
     val and filler, by their shares, and the rest to train. Cuts fall behind a line or a word.
   - A smaller one goes whole to one split. The first LM_FEW go where the split is furthest behind
     its share of the bytes, so that few files are shared out fairly; later ones by a hash of their
     text, so that no order in the data shows in the choice. A text that comes again, byte for byte,
     goes where it went before.

   The same input makes the same shards. Nothing appears in --out before all of it is written. */
#ifndef LM_PREPARE_H
#define LM_PREPARE_H

#include "../kit/args.h"
#include "../kit/cells.h"
#include "../kit/progress.h"
#include "../kit/training.h"
#include "shards.h"
#include <sys/wait.h>

enum {
    LM_LARGE = 64 << 10,                   /* a document so long is cut                           */
    LM_FEW = 1000,                         /* documents shared out by what is furthest behind     */
    LM_DOCUMENT_MOST = 64 << 20,           /* more is taken as several documents                  */
    LM_CUT_ALONE = 1000,                   /* a single document below that is not worth cutting   */
    LM__PEEK = 4096                        /* a zero in there: not a text                         */
};
enum { LM_TRAIN, LM_VAL, LM_FILLER, LM_SPLITS };

static const char *const lm_split_name[LM_SPLITS] = { "train", "val", "filler" };

typedef struct lm__input {
    char path[KIT_PATH];
    uint64_t bytes;
    dev_t device;
    ino_t inode;
    int found;                             /* in a folder; 0: it was named                        */
} lm__input;

typedef struct lm__prepare {
    const char *out, *name, *documents;    /* documents: file, blank or line                      */
    double share[LM_SPLITS];
    int shard_tokens, replace, quiet;
    lm__input *input;
    int inputs, room;
    lm_writer w[LM_SPLITS];
    kit_text doc, first;                   /* under way; the first one, until a second shows up   */
    size_t line;                           /* where the line under way begins in doc              */
    uint64_t docs, bytes[LM_SPLITS], zeros;
    uint64_t seen[LM_FEW];                 /* hashes of the first whole documents ...             */
    unsigned char went[LM_FEW];            /* ... and their splits                                */
    int few, skipped;
    char skipped_name[80];
    kit_progress bar;
    uint64_t done;                         /* bytes of the inputs behind us                       */
} lm__prepare;

/* ---- which split ----------------------------------------------------------------------------- */

/* FNV-1a, stirred so that every bit of the text moves every bit of the hash */
static inline uint64_t lm__hash(const char *text, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

static inline int lm__furthest_behind(const lm__prepare *p, size_t n)
{
    double all = (double)(p->bytes[0] + p->bytes[1] + p->bytes[2] + n), most = 0;
    int split = LM_TRAIN;
    for (int s = 0; s < LM_SPLITS; s++) {
        double behind = p->share[s] * all - (double)p->bytes[s];
        if (behind > most) { most = behind; split = s; }
    }
    return split;
}

static inline int lm__split_for(lm__prepare *p, const char *text, size_t n)
{
    uint64_t hash = lm__hash(text, n);
    double place = (double)(hash >> 11) / 9007199254740992.0;
    for (int i = 0; i < p->few; i++)
        if (p->seen[i] == hash) return p->went[i];
    if (p->few < LM_FEW) {
        p->seen[p->few] = hash;
        return p->went[p->few++] = (unsigned char)lm__furthest_behind(p, n);
    }
    return place < p->share[LM_VAL] ? LM_VAL
         : place < p->share[LM_VAL] + p->share[LM_FILLER] ? LM_FILLER : LM_TRAIN;
}

/* Near `at`, behind the end of a line, else of a word, else of a UTF-8 letter. */
static inline size_t lm__cut(const char *text, size_t n, size_t at)
{
    size_t least = at > 1000 ? at - 1000 : 0, i;
    if (at >= n) return n;
    for (i = at; i > least; i--)
        if (text[i - 1] == '\n') return i;
    for (i = at; i > least; i--)
        if (text[i - 1] == ' ') return i;
    for (i = at; i > 0 && ((unsigned char)text[i] & 0xC0) == 0x80; i--) {}
    return i;
}

static inline int lm__write_part(lm__prepare *p, int split, const char *text, size_t n,
                                 kit_error *why)
{
    if (n == 0) return 1;
    p->bytes[split] += n;
    return lm_writer_document(&p->w[split], text, n, why);
}

static inline int lm__deal(lm__prepare *p, const char *text, size_t n, int alone, kit_error *why)
{
    if (n < LM_LARGE && !(alone && n >= LM_CUT_ALONE))
        return lm__write_part(p, lm__split_for(p, text, n), text, n, why);
    double held = p->share[LM_VAL] + p->share[LM_FILLER];
    size_t val = lm__cut(text, n, (size_t)((double)n * (1 - held)));
    size_t filler = lm__cut(text, n, (size_t)((double)n * (1 - p->share[LM_FILLER])));
    if (filler < val) filler = val;
    if (p->share[LM_FILLER] <= 0) filler = n;
    if (held <= 0) val = n;
    if (p->share[LM_VAL] <= 0) val = filler;
    return lm__write_part(p, LM_TRAIN, text, val, why)
           && lm__write_part(p, LM_VAL, text + val, filler - val, why)
           && lm__write_part(p, LM_FILLER, text + filler, n - filler, why);
}

/* ---- documents ------------------------------------------------------------------------------- */

/* The first document waits for a second: whether it is alone decides what becomes of it. */
static inline int lm__document_done(lm__prepare *p, kit_error *why)
{
    int good = 1;
    if (p->doc.size > 0 && p->docs++ == 0) {
        kit_text empty = p->first;
        p->first = p->doc;
        p->doc = empty;
    } else if (p->doc.size > 0) {
        good = (p->docs > 2 || lm__deal(p, p->first.data, p->first.size, 0, why))
               && lm__deal(p, p->doc.data, p->doc.size, 0, why);
    }
    p->doc.size = p->line = 0;
    return good;
}

/* A document beyond the limit ends at a line, and the rest begins the next. */
static inline int lm__document_too_long(lm__prepare *p, kit_error *why)
{
    kit_text rest = { NULL, 0, 0 };
    size_t at = lm__cut(p->doc.data, p->doc.size, LM_DOCUMENT_MOST);
    kit_put_bytes(&rest, p->doc.data + at, p->doc.size - at);
    p->doc.size = at;
    int good = lm__document_done(p, why);
    kit_put_bytes(&p->doc, rest.data, rest.size);
    for (p->line = rest.size; p->line > 0 && rest.data[p->line - 1] != '\n'; p->line--) {}
    kit_text_free(&rest);
    return good;
}

static inline int lm__line_is_blank(const lm__prepare *p)
{
    for (size_t i = p->line; i < p->doc.size; i++)
        if (!strchr(" \t\r\n", p->doc.data[i])) return 0;
    return 1;
}

/* a line has ended, and doc holds it with its '\n' */
static inline int lm__line_done(lm__prepare *p, kit_error *why)
{
    int by_line = p->documents[0] == 'l', blank = lm__line_is_blank(p);
    if (by_line || blank) {
        if (blank) p->doc.size = p->line;
        while (p->doc.size > 0 && strchr("\r\n", p->doc.data[p->doc.size - 1])) p->doc.size--;
        return lm__document_done(p, why);
    }
    p->line = p->doc.size;
    return 1;
}

static inline int lm__feed(lm__prepare *p, char *piece, size_t n, kit_error *why)
{
    int whole = p->documents[0] == 'f';
    for (size_t i = 0; i < n; i++)
        if (piece[i] == 0) { piece[i] = ' '; p->zeros++; }
    while (n > 0) {
        const char *end = whole ? NULL : (const char *)memchr(piece, '\n', n);
        size_t take = end ? (size_t)(end - piece) + 1 : n;
        kit_put_bytes(&p->doc, piece, take);
        if (end && !lm__line_done(p, why)) return 0;
        if (p->doc.size > LM_DOCUMENT_MOST && !lm__document_too_long(p, why)) return 0;
        piece += take;
        n -= take;
    }
    return 1;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static inline void lm__input_add(lm__prepare *p, const char *path, const struct stat *st, int found)
{
    if (p->inputs == p->room) {
        p->room = p->room ? 2 * p->room : 16;
        lm__input *more = (lm__input *)kit_new((size_t)p->room, sizeof *more);
        if (p->inputs) memcpy(more, p->input, (size_t)p->inputs * sizeof *more);
        free(p->input);
        p->input = more;
    }
    lm__input *in = &p->input[p->inputs++];
    snprintf(in->path, sizeof in->path, "%s", path);
    in->found = found;
    if (st) {
        in->bytes = (uint64_t)st->st_size;
        in->device = st->st_dev;
        in->inode = st->st_ino;
    }
}

/* Folders in folders are followed, links to folders are not: they may lead round in a circle. */
static inline int lm__input_folder(lm__prepare *p, const char *folder, int depth, kit_error *why)
{
    lm__names l;
    char path[KIT_PATH];
    struct stat st;
    if (depth > 64) return kit_fail(why, "%.300s is more than 64 folders deep", folder);
    int good = lm__names_list(&l, folder, "", why);
    for (int i = 0; i < l.count && good; i++) {
        good = kit_join(path, folder, (const char *)l.order[i], why);
        if (!good || lstat(path, &st) != 0) continue;
        if (S_ISDIR(st.st_mode)) good = lm__input_folder(p, path, depth + 1, why);
        else if (S_ISREG(st.st_mode)) lm__input_add(p, path, &st, 1);
    }
    lm__names_free(&l);
    return good;
}

static inline int lm__input_name(lm__prepare *p, const char *path, kit_error *why)
{
    char folder[KIT_PATH];
    struct stat st;
    size_t n = strlen(path);
    if (n == 0 || n >= KIT_PATH) return kit_fail(why, "'%.60s' is not the name of a file", path);
    if (strcmp(path, "-") == 0) {
        lm__input_add(p, path, NULL, 0);
        return 1;
    }
    if (stat(path, &st) != 0)
        return kit_fail(why, "cannot open %.300s: %s", path, strerror(errno));
    if (S_ISREG(st.st_mode)) {
        lm__input_add(p, path, &st, 0);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return kit_fail(why, "%.300s is a device or a pipe; - reads what comes by a pipe", path);
    while (n > 1 && path[n - 1] == '/') n--;
    snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    return lm__input_folder(p, folder, 0, why);
}

static inline int lm__by_file(const void *a, const void *b)
{
    const lm__input *x = (const lm__input *)a, *y = (const lm__input *)b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* The same file twice would be trained on and held out. */
static inline int lm__inputs_differ(const lm__prepare *p, kit_error *why)
{
    const void **order = (const void **)kit_new((size_t)p->inputs, sizeof *order);
    int n = 0, good = 1;
    for (int i = 0; i < p->inputs; i++)
        if (p->input[i].inode) order[n++] = &p->input[i];
    kit_sort(order, (size_t)n, lm__by_file);
    for (int i = 1; i < n && good; i++)
        if (lm__by_file(order[i - 1], order[i]) == 0)
            good = kit_fail(why, "%.200s and %.200s are the same file: what is trained on and what"
                            " is held out would share it", ((const lm__input *)order[i - 1])->path,
                            ((const lm__input *)order[i])->path);
    free((void *)order);
    return good;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* gzip reads the open file as its stdin, so that no name is ever an argument. Returns the end to
   read from, -1 after a mistake. */
static inline int lm__gunzip(int file, pid_t *child, kit_error *why)
{
    int ends[2];
    if (pipe(ends) != 0) { kit_fail(why, "cannot make a pipe: %s", strerror(errno)); return -1; }
    fflush(stdout);
    *child = fork();
    if (*child == 0) {
        if (dup2(file, 0) < 0 || dup2(ends[1], 1) < 0) _exit(126);
        close(ends[0]);
        close(ends[1]);
        execlp("gzip", "gzip", "-dc", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (*child > 0) return ends[0];
    close(ends[0]);
    kit_fail(why, "cannot start gzip: %s", strerror(errno));
    return -1;
}

static inline int lm__gunzip_end(pid_t child, const char *path, kit_error *why)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return kit_fail(why, "%.300s is compressed, and there is no gzip to read it", path);
    return kit_fail(why, "gzip cannot read %.300s to its end; it may be cut short", path);
}

static inline void lm__show_progress(lm__prepare *p, int file, const char *path)
{
    off_t at = lseek(file, 0, SEEK_CUR);
    char note[64];
    snprintf(note, sizeof note, "%.60s", path);
    kit_progress_at(&p->bar, (long)((p->done + (at > 0 ? (uint64_t)at : 0)) >> 10), note);
}

static inline ssize_t lm__read(int file, char *piece, size_t room)
{
    size_t n = 0;
    while (n < room) {
        ssize_t got = read(file, piece + n, room - n);
        if (got < 0 && errno == EINTR && !kit_stopped()) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

/* What is not a text is passed over in a folder and refused by name; 1: it was passed over. */
static inline int lm__not_a_text(lm__prepare *p, const lm__input *in, const char *piece, size_t n,
                                 int *good, kit_error *why)
{
    const char *zero = (const char *)memchr(piece, 0, n < LM__PEEK ? n : LM__PEEK);
    if (!zero) return 0;
    if (in->found && p->skipped++ == 0)
        snprintf(p->skipped_name, sizeof p->skipped_name, "%.79s", in->path);
    if (!in->found)
        *good = kit_fail(why, "%.300s is not a text: byte %d of it is 0",
                         in->path[0] == '-' ? "stdin" : in->path, (int)(zero - piece));
    return 1;
}

static inline int lm__read_text(lm__prepare *p, const lm__input *in, int from, int file,
                                kit_error *why)
{
    enum { ROOM = 1 << 16 };
    char *piece = (char *)kit_new(ROOM, 1);
    int good = 1;
    ssize_t got = 0;
    for (int first = 1; good && !kit_stopped(); first = 0) {
        got = lm__read(from, piece, ROOM);
        if (got <= 0 || (first && lm__not_a_text(p, in, piece, (size_t)got, &good, why))) break;
        good = lm__feed(p, piece, (size_t)got, why);
        lm__show_progress(p, file, in->path);
    }
    if (good && got < 0 && !kit_stopped())
        good = kit_fail(why, "cannot read %.300s: %s", in->path, strerror(errno));
    free(piece);
    if (good && !kit_stopped() && p->documents[0] != 'f' && p->doc.size > 0)
        good = lm__line_done(p, why);
    return good && !kit_stopped() ? lm__document_done(p, why) : good;
}

static inline int lm__read_gz(lm__prepare *p, const lm__input *in, int file, kit_error *why)
{
    pid_t child = -1;
    kit_error other;
    int from = lm__gunzip(file, &child, why);
    if (from < 0) return 0;
    int skipped = p->skipped, good = lm__read_text(p, in, from, file, why);
    close(from);                           /* a gzip that still writes ends by that */
    if (!good || kit_stopped() || p->skipped > skipped)
        (void)lm__gunzip_end(child, in->path, &other);
    else good = lm__gunzip_end(child, in->path, why);
    return good;
}

static inline int lm__read_input(lm__prepare *p, const lm__input *in, kit_error *why)
{
    unsigned char head[2] = { 0, 0 };
    int good, file = strcmp(in->path, "-") == 0 ? 0 : open(in->path, O_RDONLY);
    if (file < 0) return kit_fail(why, "cannot open %.300s: %s", in->path, strerror(errno));
    int gz = pread(file, head, 2, 0) == 2 && head[0] == 0x1f && head[1] == 0x8b;
    good = gz ? lm__read_gz(p, in, file, why) : lm__read_text(p, in, file, file, why);
    if (file > 0) close(file);
    p->done += in->bytes;
    return good;
}

/* ---- lm prepare ------------------------------------------------------------------------------ */

static inline int lm__prepare_writers(lm__prepare *p, kit_error *why)
{
    if (!lm_folder_ready(p->out, p->replace, why)) return 0;
    for (int s = 0; s < LM_SPLITS; s++)
        if (!lm_writer_open(&p->w[s], p->out, p->name, lm_split_name[s], 256, 0, 0,
                            (uint64_t)p->shard_tokens, why)) return 0;
    return 1;
}

static inline int lm__prepare_enough(const lm__prepare *p, kit_error *why)
{
    typedef unsigned long long large;
    if (p->docs == 0)
        return kit_fail(why, "there is no text in what was named (%d files, %d of them no text)",
                        p->inputs, p->skipped);
    for (int s = LM_TRAIN; s <= LM_VAL; s++)
        if (p->share[s] > 0 && p->w[s].tokens == 0)
            return kit_fail(why, "nothing is left for %s: %llu documents are too few for a share"
                            " of %g; give more text, --documents blank or line, or another --val"
                            " (0 for none)", lm_split_name[s], (large)p->docs, p->share[s]);
    return 1;
}

static inline int lm__prepare_all(lm__prepare *p, kit_error *why)
{
    uint64_t total = 0;
    for (int i = 0; i < p->inputs; i++) total += p->input[i].bytes;
    p->bar = kit_progress_begin("prepare", (long)(total >> 10), 0, p->quiet);
    for (int i = 0; i < p->inputs && !kit_stopped(); i++)
        if (!lm__read_input(p, &p->input[i], why)) return FAILED;
    kit_progress_clear(&p->bar);
    if (kit_stopped()) return STOPPED;
    if (p->docs == 1 && !lm__deal(p, p->first.data, p->first.size, 1, why)) return FAILED;
    if (!lm__prepare_enough(p, why)) return FAILED;
    return lm_writers_commit(p->w, LM_SPLITS, "bytes", why) ? DONE : FAILED;
}

static inline void lm__prepare_table(const lm__prepare *p)
{
    static const char *const head[] = { "split", "documents", "bytes", "tokens", "shards" };
    kit_cells c = kit_cells_new(LM_SPLITS + 1, 5);
    for (int k = 0; k < 5; k++) kit_cells_put(&c, 0, k, "%s", head[k]);
    for (int s = 0; s < LM_SPLITS; s++) {
        kit_cells_put(&c, s + 1, 0, "%s", lm_split_name[s]);
        kit_cells_put(&c, s + 1, 1, "%" PRIu64, p->w[s].docs);
        kit_cells_put(&c, s + 1, 2, "%" PRIu64, p->bytes[s]);
        kit_cells_put(&c, s + 1, 3, "%" PRIu64, p->w[s].tokens);
        kit_cells_put(&c, s + 1, 4, "%d", p->w[s].shards);
    }
    kit_cells_print(&c);
    kit_cells_free(&c);
    printf("in %s, read from %d file%s: %" PRIu64 " document%s; one of %d KB or more, or the only"
           " one,\nis cut at its end, others go whole to one split\n", p->out,
           p->inputs - p->skipped, p->inputs - p->skipped == 1 ? "" : "s", p->docs,
           p->docs == 1 ? "" : "s", LM_LARGE >> 10);
    if (p->zeros)
        printf("zero bytes that became blanks, since byte 0 begins documents: %" PRIu64 "\n",
               p->zeros);
    if (p->skipped)
        printf("files of the folders that are no text and were left out: %d (%s%s)\n", p->skipped,
               p->skipped_name, p->skipped > 1 ? ", ..." : "");
}

static inline int lm__prepare_run(lm__prepare *p, const kit_list *operands)
{
    kit_error why;
    int good = 1, code = FAILED;
    for (int i = 0; i < operands->count && good; i++)
        good = lm__input_name(p, operands->item[i], &why);
    good = good && lm__inputs_differ(p, &why) && lm__prepare_writers(p, &why);
    if (good) code = lm__prepare_all(p, &why);
    if (code == DONE) lm__prepare_table(p);
    kit_progress_clear(&p->bar);
    if (code == FAILED) fprintf(stderr, "lm prepare: %s\n", why.text);
    if (code == STOPPED) fprintf(stderr, "lm prepare: stopped; nothing was written\n");
    lm_writers_close(p->w, LM_SPLITS);
    kit_text_free(&p->doc);
    kit_text_free(&p->first);
    free(p->input);
    return fflush(stdout) == 0 ? code : FAILED;
}

static inline int lm_prepare_main(int argc, char **argv)
{
    static lm__prepare p;
    memset(&p, 0, sizeof p);
    p.out = "results/lm/data";
    p.name = "text";
    p.documents = "file";
    p.share[LM_VAL] = 0.05;
    p.share[LM_FILLER] = 0.01;
    p.shard_tokens = LM_SHARD_TOKENS;
    kit_option options[] = {
        kit_word("out", &p.out, "DIR", "where the shards and meta.json go"),
        kit_word("name", &p.name, "NAME", "of the set: NAME_train_000000.bin ..."),
        kit_choice("documents", &p.documents, "file|blank|line",
                   "what ends a document: its file, a blank line, every line"),
        kit_real("val", &p.share[LM_VAL], 0, 0.4, "share held out for validation"),
        kit_real("filler", &p.share[LM_FILLER], 0, 0.4, "share that tasks hide things in"),
        kit_int("shard-tokens", &p.shard_tokens, 1, INT32_MAX, "most tokens of a shard"),
        kit_switch("replace", &p.replace, "put them in the place of an earlier set in --out"),
        kit_switch("quiet", &p.quiet, "no progress"),
        kit_no_more()
    };
    kit_args a;
    memset(&a, 0, sizeof a);
    a.program = "lm prepare";
    a.summary = "lm prepare: text becomes shards of tokens (llm.c's .bin files and meta.json)";
    a.operand = "PATH...";
    a.options = options;
    a.closing =
        "PATH: text files, folders (all texts in them, by name), either may be .gz; - is stdin.\n"
        "Every byte is a token, and byte 0 begins a document; zeros in a text become blanks.\n"
        "Train, val and filler share no text: documents of 64 KB or more are cut at their ends,\n"
        "smaller ones go whole to one split.\n\n"
        "  lm prepare book.txt --out data/book\n"
        "  lm prepare letters/ diaries/ --out data/letters --name letters --val 0.1\n"
        "  zcat news.gz | lm prepare - --documents blank --out data/news";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (a.operands.count == 0)
        kit_usage(&a, "say what to read, for example 'lm prepare book.txt --out data/book'");
    else if (!lm__plain_name(p.name) || strlen(p.name) > 60)
        kit_usage(&a, "--name is what the names of files begin with, not '%.80s'", p.name);
    if (a.exit_code) return a.exit_code;
    p.share[LM_TRAIN] = 1 - p.share[LM_VAL] - p.share[LM_FILLER];
    kit_catch_stop();
    return lm__prepare_run(&p, &a.operands);
}

/* ---- lm info --------------------------------------------------------------------------------- */

enum { LM__INFO_ROWS = 20, LM__INFO_SCAN = 50000000, LM__INFO_SHOWN = 48 };

/* Documents that begin in a shard; every token is looked at on the way. */
static inline int lm__info_count(uint64_t *docs, const lm_data *d, const lm__shard *s,
                                 kit_error *why)
{
    enum { ROOM = 4096 };
    int token[ROOM];
    *docs = 0;
    for (uint64_t at = 0; at < s->tokens; at += ROOM) {
        int n = s->tokens - at < ROOM ? (int)(s->tokens - at) : ROOM;
        if (!lm__shard_read(s, token, at, n, why)) return 0;
        for (int i = 0; i < n; i++) *docs += token[i] == d->eot;
    }
    return 1;
}

static inline int lm__info_row(kit_cells *c, int row, const lm_data *d, const lm__shard *s,
                               uint64_t *scan, kit_error *why)
{
    const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
    uint64_t docs = 0;
    int counted = s->tokens <= *scan;
    if (counted && !lm__info_count(&docs, d, s, why)) return 0;
    if (counted) *scan -= s->tokens;
    kit_cells_put(c, row, 0, "%.200s", name);
    kit_cells_put(c, row, 1, "%s", s->kind);
    kit_cells_put(c, row, 2, "%s", s->split ? s->split : "-");
    kit_cells_put(c, row, 3, "%" PRIu64, s->tokens);
    if (d->window) kit_cells_put(c, row, 4, "%" PRIu64, s->tokens / (uint64_t)d->window);
    else if (counted && d->eot >= 0) kit_cells_put(c, row, 4, "%" PRIu64, docs);
    else kit_cells_put(c, row, 4, "-");
    return 1;
}

static inline int lm__info_shards(const lm_data *d, int full, kit_error *why)
{
    static const char *const head[] = { "shard", "kind", "split", "tokens", "documents" };
    int rows = d->shards < LM__INFO_ROWS || full ? d->shards : LM__INFO_ROWS, good = 1;
    uint64_t scan = full ? UINT64_MAX : LM__INFO_SCAN;
    kit_cells c = kit_cells_new(rows + 1, 5);
    for (int k = 0; k < 5; k++) kit_cells_put(&c, 0, k, "%s", head[k]);
    if (d->window) kit_cells_put(&c, 0, 4, "windows");
    for (int i = 0; i < rows && good; i++)
        good = lm__info_row(&c, i + 1, d, &d->shard[i], &scan, why);
    if (good) kit_cells_print(&c);
    if (good && rows < d->shards) printf("... and %d more shards\n", d->shards - rows);
    kit_cells_free(&c);
    return good;
}

/* the first tokens of each split: of bytes the text, of others the ids */
static inline int lm__info_begins(const lm_data *d, const lm__shard *s, kit_error *why)
{
    int token[LM__INFO_SHOWN], bytes = d->vocab == 256, n = bytes ? LM__INFO_SHOWN : 12;
    if (s->tokens < (uint64_t)n) n = (int)s->tokens;
    if (!lm__shard_read(s, token, 0, n, why)) return 0;
    printf("%s begins:%s", s->split ? s->split : "it", bytes ? " " : "");
    for (int i = 0; i < n; i++)
        printf(!bytes ? " %d" : token[i] >= 32 && token[i] < 127 ? "%c"
               : token[i] == '\n' ? "\\n" : "\\%02x", token[i]);
    printf("\n");
    return 1;
}

static inline int lm__info_all_begin(const lm_data *d, kit_error *why)
{
    for (int i = 0; i < d->shards; i++) {
        int k = 0;
        while (d->shard[k].split != d->shard[i].split) k++;
        if (k == i && !lm__info_begins(d, &d->shard[i], why)) return 0;
    }
    return 1;
}

static inline int lm__info_one(const char *path, const char *split, int full, kit_error *why)
{
    lm_data d;
    if (!lm_data_open(&d, path, split, why)) return 0;
    printf("%s: %" PRIu64 " tokens in %d shard%s, vocabulary %d, ", path, d.tokens, d.shards,
           d.shards == 1 ? "" : "s", d.vocab);
    if (d.eot < 0) printf("what begins a document is not known");
    else printf("documents begin with %d", d.eot);
    if (d.window) printf(", windows of %d", d.window);
    printf("; fingerprint %016" PRIx64 "\n", lm_data_sum(&d));
    int good = lm__info_shards(&d, full, why) && lm__info_all_begin(&d, why);
    lm_data_close(&d);
    return good;
}

/* A folder may hold nothing but a folder for each split. */
static inline int lm__info(const char *path, int full, kit_error *why)
{
    static const char *const split[] = { "train", "val", "filler", "test" };
    char inner[KIT_PATH];
    int seen = 0;
    if (lm__info_one(path, NULL, full, why)) return 1;
    for (int i = 0; i < 4; i++) {
        struct stat st;
        kit_error other;
        if (!kit_join(inner, path, split[i], &other) || stat(inner, &st) != 0
            || !S_ISDIR(st.st_mode)) continue;
        if (!lm__info_one(inner, NULL, full, why)) return 0;
        seen++;
    }
    return seen > 0;
}

static inline int lm_info_main(int argc, char **argv)
{
    int full = 0;
    kit_option options[] = {
        kit_switch("full", &full, "read every token of every shard, and show them all"),
        kit_no_more()
    };
    kit_args a;
    kit_error why;
    memset(&a, 0, sizeof a);
    a.program = "lm info";
    a.summary = "lm info: what is in shards: their kind, tokens, documents, and how they begin";
    a.operand = "PATH...";
    a.options = options;
    a.closing =
        "PATH: shards, folders of them, or any file, whose bytes are then the tokens. Documents\n"
        "are counted in the first 50 million tokens; --full counts, and checks, all.\n\n"
        "  lm info data/book\n"
        "  lm info data/fineweb-edu/edu_fineweb_val_000000.bin --full";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    if (a.operands.count == 0) {
        kit_usage(&a, "say what to look at, for example 'lm info data/book'");
        return a.exit_code;
    }
    for (int i = 0; i < a.operands.count; i++) {
        if (i) printf("\n");
        if (lm__info(a.operands.item[i], full, &why)) continue;
        fprintf(stderr, "lm info: %s\n", why.text);
        return FAILED;
    }
    return fflush(stdout) == 0 ? DONE : FAILED;
}

#endif
