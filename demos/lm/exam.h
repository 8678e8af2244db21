/* lm/exam.h - what every examination of a model shares: the model, the text, the lengths, the
   answers

   A model is opened once, as it was trained. For each length it is asked for, an inference model
   with the same weights is made (kit_longer), if its encoding reaches so far; if it does not,
   the row of that length holds the library's sentence, and nothing has failed.

   Answers come from posenc_generate: the prompts' forward once, then one row of work per new
   token, with the keys and values of what came before in a cache. Include posenc.h first. */
#ifndef LM_EXAM_H
#define LM_EXAM_H

#include "lm/checkpoint.h"
#include "lm/source.h"

enum {
    LM_CONTEXTS = 16,                      /* most lengths of one examination                     */
    LM_LONGEST = 1 << 20,                  /* tokens of a context                                 */
    LM_ROWS = 32,                          /* most texts side by side                             */
    LM_ROW_TOKENS = 8192,                  /* tokens side by side, as long as a text has fewer    */
    LM_WHY = 320
};
#define LM_EXAM_BYTES ((size_t)2 << 30)    /* memory a model made for a length may take, more rows
                                              than one apart */

typedef struct lm_exam {
    const char *path;                      /* of the checkpoint or the run's folder               */
    posenc_model *model;                   /* as trained                                          */
    lm_note note;
    int trained;                           /* its context                                         */
    int bytes;                             /* 1: its tokens are bytes                             */
    int context[LM_CONTEXTS], contexts;
    uint64_t seed;
    int samples, few, quick, quiet, verbose;
    const char *wording;                   /* of the needle: "auto", "key", "code"                */
    const char *examples;                  /* file of prompts and answers; NULL: made here        */
    long max_tokens;                       /* of the text; 0: all                                 */
    int *token;                            /* the text                                            */
    long tokens;
    char text_name[KIT_PATH];
    kit_text filler;                       /* the same as bytes: what needles are hidden in       */
    kit_progress bar;
    long before;                           /* work that is done                                   */
} lm_exam;

/* ---- lengths --------------------------------------------------------------------------------- */

static inline const char *lm_regime(const lm_exam *x, int T)
{
    return T <= x->trained ? "interp" : "extrap";
}

static inline int lm__context_add(lm_exam *x, double T, const char *word, kit_error *why)
{
    if (!(T >= 2 && T <= LM_LONGEST))
        return kit_fail(why,
                        "--contexts: %.40s is not a length from 2 to %d, nor a multiple of the "
                        "training length as in 2x",
                        word, LM_LONGEST);
    for (int i = 0; i < x->contexts; i++)
        if (x->context[i] == (int)T) return 1;
    if (x->contexts == LM_CONTEXTS)
        return kit_fail(why, "--contexts takes %d lengths at most", LM_CONTEXTS);
    x->context[x->contexts++] = (int)T;
    return 1;
}

/* "1x,2x,4096": multiples of the training length, and lengths */
static inline int lm_contexts_read(lm_exam *x, const char *text, kit_error *why)
{
    x->contexts = 0;
    for (const char *at = text; *(at += strspn(at, ", "));) {
        char *end;
        double T = strtod(at, &end);
        if (end > at && *end == 'x') { T *= x->trained; end++; }
        if (end == at || !strchr(", ", *end)) T = 0;
        if (!lm__context_add(x, floor(T), at, why)) return 0;
        at = end;
    }
    return x->contexts > 0 || kit_fail(why, "--contexts names no length");
}

/* ---- a model for a length -------------------------------------------------------------------- */

/* so many texts side by side that LM_ROW_TOKENS are, and memory stays bounded */
static inline int lm_rows_for(const posenc_config *trained, int T)
{
    posenc_config c = *trained;
    posenc_bytes bytes;
    int rows = LM_ROW_TOKENS / T;
    rows = rows < 1 ? 1 : rows > LM_ROWS ? LM_ROWS : rows;
    c.context = T;
    c.inference = 1;
    for (; rows > 1; rows /= 2) {
        c.batch = rows;
        if (posenc_model_bytes(&bytes, &c, NULL) == POSENC_OK && bytes.total <= LM_EXAM_BYTES)
            break;
    }
    return rows;
}

/* can texts of T be read at all? 0: why has the reason, which is no failure */
static inline int lm_exam_reaches(const lm_exam *x, int T, char reason[LM_WHY])
{
    kit_error why;
    reason[0] = 0;
    if (kit_reaches(posenc_model_config(x->model), T, &why)) return 1;
    snprintf(reason, LM_WHY, "cannot: %.300s", why.text);
    return 0;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* share: of `work`, what is done of the part under way */
static inline void lm_exam_tick(lm_exam *x, double share, long work, const char *label)
{
    kit_progress_at(&x->bar, x->before + (long)(share * (double)work), label);
}

/* ---- the text -------------------------------------------------------------------------------- */

static inline void lm__text_token(lm_exam *x, int token)
{
    if ((x->tokens & (x->tokens - 1)) == 0 && x->tokens >= 1024) {       /* full: 1024, 2048, ... */
        int *more = (int *)kit_new(2 * (size_t)x->tokens, sizeof *more);
        memcpy(more, x->token, (size_t)x->tokens * sizeof *more);
        free(x->token);
        x->token = more;
    }
    if (!x->token) x->token = (int *)kit_new(1024, sizeof *x->token);
    x->token[x->tokens++] = token;
}

/* a document: byte 0, which no text has, and its bytes */
static inline void lm__text_document(lm_exam *x, const char *text, size_t n)
{
    lm__text_token(x, LM_PAD);
    for (size_t i = 0; i < n && (x->max_tokens == 0 || x->tokens <= x->max_tokens); i++)
        lm__text_token(x, (unsigned char)text[i]);
}

static inline int lm__text_line(lm_exam *x, const char *path, const char *line, size_t n,
                                long number, kit_error *why)
{
    kit_json d;
    kit_error said;
    const char *text;
    if (!kit_json_read(&d, path, line, n, 0, &said))
        return kit_fail(why, "line %ld of %.150s: %.250s", number, path, said.text);
    int good = kit_json_text_at(&d, d.node, "text", KIT_NEEDED, &text, &said);
    if (good) lm__text_document(x, text, strlen(text));
    else kit_fail(why, "line %ld of %.150s: %.250s", number, path, said.text);
    kit_json_free(&d);
    return good;
}

/* cut: the file goes on behind what was read, so its last line may be half a line */
static inline int lm__text_lines(lm_exam *x, const char *path, const kit_text *file, int cut,
                                 kit_error *why)
{
    const char *at = file->data, *end = at + file->size;
    for (long number = 1; at < end; number++) {
        const char *stop = (const char *)memchr(at, '\n', (size_t)(end - at));
        if (!stop && cut) break;
        if (!stop) stop = end;
        size_t blank = strspn(at, " \t\r");
        if (at + blank < stop && !lm__text_line(x, path, at, (size_t)(stop - at), number, why))
            return 0;
        if (x->max_tokens && x->tokens > x->max_tokens) break;
        at = stop + 1;
    }
    return 1;
}

/* the first `most` bytes; cut: there are more */
static inline int lm__read_start(kit_text *t, const char *path, size_t most, int *cut,
                                 kit_error *why)
{
    char piece[16384];
    FILE *f = fopen(path, "rb");
    size_t got = 1;
    if (!f) return kit_fail(why, "cannot open %.200s: %s", path, strerror(errno));
    while (t->size < most && (got = fread(piece, 1, sizeof piece, f)) > 0)
        kit_put_bytes(t, piece, got);
    *cut = got > 0 && fgetc(f) != EOF;
    int code = ferror(f) ? errno : 0;
    fclose(f);
    return code == 0 || kit_fail(why, "cannot read %.200s: %s", path, strerror(code));
}

static inline int lm__text_file(lm_exam *x, const char *path, kit_error *why)
{
    kit_text file = { NULL, 0, 0 };
    size_t length = strlen(path);
    int cut = 0, lines = length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
    size_t most = x->max_tokens ? (size_t)x->max_tokens * (lines ? 16 : 1) : KIT_CORPUS_MOST;
    int good = lm__read_start(&file, path, most, &cut, why);
    snprintf(x->text_name, sizeof x->text_name, "%s", path);
    if (good && lines) good = lm__text_lines(x, path, &file, cut, why);
    else if (good) lm__text_document(x, file.data ? file.data : "", file.size);
    kit_text_free(&file);
    return good;
}

/* the tokens a source holds out, from its first one on */
static inline int lm__text_held(lm_exam *x, const lm_source *s, kit_error *why)
{
    uint64_t n = s->held_tokens;
    int V = posenc_model_config(x->model)->vocab;
    if (s->window)
        return kit_fail(why, "%.200s has tasks in windows of %d tokens, no text: --examples reads "
                             "the questions of lm tasks", s->name, s->window);
    if (s->vocab > V)
        return kit_fail(why, "%.200s has tokens up to %d, the model's vocabulary ends at %d",
                        s->name, s->vocab - 1, V - 1);
    if (x->max_tokens && n > (uint64_t)x->max_tokens) n = (uint64_t)x->max_tokens + 1;
    if (n > INT32_MAX)
        return kit_fail(why, "%.200s has %" PRIu64 " tokens; --max-tokens takes some of them",
                        s->name, n);
    x->tokens = (long)n;
    x->token = (int *)kit_new((size_t)n, sizeof *x->token);
    return lm_data_read(&s->held.data[0], x->token, s->first, (int)n, why);
}

/* data, val: as lm train takes them; both NULL: the corpus, or sentences of our own */
static inline int lm__text_source(lm_exam *x, const char *data, const char *val,
                                  const char *program, kit_error *why)
{
    lm_source s;
    int good = lm_source_open(&s, data, val, x->trained, program, why);
    if (good && s.has_held) good = lm__text_held(x, &s, why);
    else if (good) lm__text_document(x, s.corpus.held.data, s.corpus.held.size);
    if (good)
        snprintf(x->text_name, sizeof x->text_name, "%.300s%.250s",
                 val ? "" : "the held-out part of ", val ? val : s.name);
    lm_source_close(&s);
    return good;
}

/* Nobody said what to read: what the run held out, if its data is still there, else the corpus. */
static inline int lm__text_default(lm_exam *x, const char *program, kit_error *why)
{
    char first[256];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(x->note.data, ":,"), x->note.data);
    if (kit_exists(first) && lm__text_source(x, x->note.data, NULL, program, why)) return 1;
    free(x->token);
    x->token = NULL;
    x->tokens = 0;
    return !x->bytes || lm__text_source(x, NULL, NULL, program, why);
}

/* text: a file, plain or .jsonl with "text"; data, val: as lm train takes them. A model of other
   tokens than bytes reads shards alone: without any it has no text. */
static inline int lm_text_open(lm_exam *x, const char *text, const char *data, const char *val,
                               const char *program, kit_error *why)
{
    int good = data || val ? lm__text_source(x, data, val, program, why)
             : text && x->bytes ? lm__text_file(x, text, why)
                                : lm__text_default(x, program, why);
    if (!good) return 0;
    for (long i = 0; x->bytes && i < x->tokens; i++) {
        char byte = (char)x->token[i];
        if (byte) kit_put_bytes(&x->filler, &byte, 1);
    }
    return !x->bytes || x->tokens >= 3
           || kit_fail(why, "%.200s has no text to measure on", x->text_name);
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef struct lm_question {
    kit_text prompt, target;               /* bytes; byte 0 comes before the prompt by itself     */
    int most;                              /* new tokens                                          */
    kit_text got;
    int right, mark;                       /* mark: the asker's own                               */
} lm_question;

static inline void lm_questions_free(lm_question *q, int n)
{
    for (int i = 0; i < n; i++) {
        kit_text_free(&q[i].prompt);
        kit_text_free(&q[i].target);
        kit_text_free(&q[i].got);
    }
    free(q);
}

/* Slots of a cache that it takes: byte 0, the prompt and the answer, whose last token is never read
   again. The longest of n. */
static inline int lm_questions_slots(const lm_question *q, int n)
{
    int longest = 0;
    for (int i = 0; i < n; i++)
        if ((int)q[i].prompt.size + q[i].most > longest)
            longest = (int)q[i].prompt.size + q[i].most;
    return longest;
}

static inline int lm__shorter(const void *a, const void *b)
{
    const lm_question *p = *(lm_question *const *)a, *q = *(lm_question *const *)b;
    if (p->prompt.size != q->prompt.size) return p->prompt.size < q->prompt.size ? -1 : 1;
    return p < q ? -1 : p > q;
}

/* Short ones first, so that those side by side are of one length, more or less. */
static inline lm_question **lm__questions_sorted(lm_question *q, int n)
{
    lm_question **sorted = (lm_question **)kit_new((size_t)n, sizeof *sorted);
    for (int i = 0; i < n; i++) sorted[i] = &q[i];
    qsort(sorted, (size_t)n, sizeof *sorted, lm__shorter);
    return sorted;
}

/* How many of the next n fit side by side. Prompts end at one slot, the longest one's, and the
   longest answer follows: both together must not need more slots than there are. */
static inline int lm__questions_beside(lm_question *const *q, int n, int rows, int slots)
{
    int prompt = 0, most = 0, b = 0;
    for (; b < n && b < rows; b++) {
        int p = (int)q[b]->prompt.size > prompt ? (int)q[b]->prompt.size : prompt;
        int m = q[b]->most > most ? q[b]->most : most;
        if (b > 0 && p + m > slots) break;
        prompt = p;
        most = m;
    }
    return b;
}

/* the answer ends before the first stop token */
static inline void lm__question_take(lm_question *q, const int *out, int count)
{
    for (int i = 0; i < count && out[i] != '\n' && out[i] != LM_PAD; i++) {
        char byte = (char)out[i];
        kit_put_bytes(&q->got, &byte, 1);
    }
    q->right = q->got.size == q->target.size
            && (q->got.size == 0 || memcmp(q->got.data, q->target.data, q->got.size) == 0);
}

/* ends a row when it has what its question wants */
typedef struct lm__quota { lm_question *const *q; int drawn[LM_ROWS]; } lm__quota;

static inline int lm__count_token(void *user, int row, int token)
{
    lm__quota *c = (lm__quota *)user;
    (void)token;
    return ++c->drawn[row] < c->q[row]->most;
}

/* prompt (rows,T) and length (rows) of a batch */
static inline int *lm__prompts(lm_question *const *q, int *length, int rows, int T)
{
    int *prompt = (int *)kit_new((size_t)rows * (size_t)T, sizeof *prompt);
    for (int b = 0; b < rows; b++) {
        int *row = prompt + (size_t)b * (size_t)T;
        length[b] = (int)q[b]->prompt.size + 1;
        row[0] = LM_PAD;
        for (int t = 1; t < length[b]; t++) row[t] = (unsigned char)q[b]->prompt.data[t - 1];
    }
    return prompt;
}

/* rows questions side by side */
static inline int lm__answer_rows(posenc_model *m, lm_question *const *q, int rows, kit_error *why)
{
    static const int stop[2] = { '\n', LM_PAD };
    posenc_cache *cache = NULL;
    posenc_error said;
    posenc_generation how;
    lm__quota quota = { q, { 0 } };
    int length[LM_ROWS], count[LM_ROWS], T = 0, most = 0;
    for (int b = 0; b < rows; b++) {
        if ((int)q[b]->prompt.size + 1 > T) T = (int)q[b]->prompt.size + 1;
        if (q[b]->most > most) most = q[b]->most;
    }
    int *prompt = lm__prompts(q, length, rows, T);
    int *out = (int *)kit_new((size_t)rows * (size_t)most, sizeof *out);
    memset(&how, 0, sizeof how);
    how.most = most;
    how.stop = stop;
    how.stops = 2;
    how.token = lm__count_token;
    how.user = &quota;
    int good = posenc_cache_create(&cache, m, rows, T + most - 1, &said) == POSENC_OK
            && posenc_generate(out, count, m, cache, prompt, length, T, &how, &said) == POSENC_OK;
    if (!good) kit_fail(why, "%s", said.text);
    for (int b = 0; b < rows && good; b++)
        lm__question_take(q[b], out + (size_t)b * (size_t)most, count[b]);
    posenc_cache_free(cache);
    free(prompt);
    free(out);
    return good;
}

/* The likeliest answers, and whether they are right to the byte. The caller has made sure that the
   encoding reaches. */
static inline int lm_answer(lm_exam *x, lm_question *q, int n, long work, const char *label,
                            kit_error *why)
{
    int slots = lm_questions_slots(q, n), rows = lm_rows_for(posenc_model_config(x->model), slots);
    posenc_model *m = kit_longer(x->model, NULL, slots, rows, why);
    lm_question **sorted = lm__questions_sorted(q, n);
    int good = m != NULL;
    for (int at = 0, now; at < n && good && !kit_stopped(); at += now) {
        now = lm__questions_beside(sorted + at, n - at, rows, slots);
        good = lm__answer_rows(m, sorted + at, now, why);
        lm_exam_tick(x, (double)(at + now) / n, work, label);
    }
    free(sorted);
    posenc_model_free(m);
    return good;
}

/* ---- opening --------------------------------------------------------------------------------- */

static inline int lm_exam_open(lm_exam *x, const char *path, int threads, kit_error *why)
{
    x->path = path;
    if (!lm_model_open(&x->model, &x->note, path, 0, 1, threads, why)) return 0;
    x->trained = posenc_model_config(x->model)->context;
    x->bytes = strcmp(x->note.vocabulary, "bytes") == 0;
    if (!x->bytes || posenc_model_config(x->model)->vocab >= 256) return 1;
    return kit_fail(why, "%.200s says its tokens are bytes, and has %d of them, not 256", path,
                    posenc_model_config(x->model)->vocab);
}

static inline void lm_exam_close(lm_exam *x)
{
    posenc_model_free(x->model);
    free(x->token);
    kit_text_free(&x->filler);
}

/* ---- Wilson's interval ----------------------------------------------------------------------- */

/* The 95 % interval of a share of which k of n were seen; unlike the normal one it stays within
   0..1 and has a width at 0 and n. z = 1.96:

       (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)        (Wilson 1927) */
static inline void lm_wilson(double *low, double *high, int k, int n)
{
    double z = 1.959963984540054, p, middle, half, whole;
    *low = 0;
    *high = 1;
    if (n <= 0) return;
    p = (double)k / n;
    whole = 1 + z * z / n;
    middle = p + z * z / (2.0 * n);
    half = z * sqrt(p * (1 - p) / n + z * z / (4.0 * n * n));
    *low = k == 0 ? 0 : (middle - half) / whole;
    *high = k == n ? 1 : (middle + half) / whole;
}

#endif
