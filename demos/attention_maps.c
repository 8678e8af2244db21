/* attention_maps: where does a trained model look, and what does it know about positions?

       build/pattern train --pe learned --epochs 3 --out results/learned
       build/attention_maps results/learned/best.safetensors
       build/attention_maps results/learned/best.safetensors results/rope/best.safetensors
       build/attention_maps model.safetensors --tokens "5 3 8 1 2" --layer 0 --head 3 --scale log
       build/attention_maps --help

   Every head as a picture of its own, a sheet of all of them, the same input under several models
   side by side, and pictures of the position vectors, rotations, biases and embeddings. A table
   says for each head how sharply it looks, how far, and at which neighbour, so that the few
   interesting ones are found among the many. What to look for: vertical stripes (a token everybody
   reads), lines beside the diagonal (a head that looks a fixed distance away), and heads that look
   at everything.

   Writes into --out: heads.csv, report.html, report.md, and the pictures; with several checkpoints
   each has a folder of its own there. Same checkpoint, input and flags: the same bytes in every
   file. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/args.h"
#include "kit/csv.h"
#include "kit/maps.h"
#include "kit/positions.h"
#include "kit/progress.h"
#include "kit/random.h"
#include "kit/report.h"
#include "kit/threads.h"
#include "pattern/tasks.h"                 /* inputs for the checkpoints of that demo */

enum { DONE = 0, FAILED = 1, WRONG = 2, STOPPED = 130 };                          /* exit codes */
enum { LONGEST = KIT_ALBUM_ROWS, SHORT = 64 };    /* tokens: at most; when nobody says how many */
enum { GALLERY = 32 };                            /* pictures of single heads inside the report */

typedef struct settings {
    const char *tokens, *tokens_from, *scale, *out;
    int length, layer, head, cell, csv, quiet, threads;
    uint64_t seed;
} settings;

/* ---- the heads worth a look ------------------------------------------------------------------ */

enum { SHARPEST, FARTHEST, STRIPE, PREVIOUS, SAME, NEXT, FIRST, TRAITS };

static const struct { const char *name, *says; } trait[TRAITS] = {
    { "sharpest", "the lowest entropy" },
    { "farthest", "the longest mean distance" },
    { "stripe",   "the most weight on a single key" },
    { "previous", "the most weight on the token before" },
    { "same",     "the most weight on the token itself" },
    { "next",     "the most weight on the token after" },
    { "first",    "the most weight on the first token" }
};

/* as a figure, and such that more of it is more of the trait */
static double trait_value(const kit_look *k, int which)
{
    const double value[TRAITS] = { k->entropy, k->distance, k->most, k->previous, k->same, k->next,
                                   k->first };
    return value[which];
}

static double trait_rank(const kit_look *k, int which)
{
    return which == SHARPEST ? -k->evenness : trait_value(k, which);
}

/* ---- one checkpoint -------------------------------------------------------------------------- */

typedef struct subject {
    const char *path;
    char spec[POSENC_SPEC_TEXT], name[96], slug[96], folder[KIT_PATH], within[128];
    char note[256];                        /* the first letters of the checkpoint's own note      */
    posenc_config config;
    posenc_model *model;
    size_t parameters;
    kit_maps maps;
    kit_look *look, even;                  /* (layers * heads); of a head that looks at all alike */
    int best[TRAITS];                      /* the head with most of each trait                    */
    kit_picture *page, *head;              /* sheets of every head; (layers * heads) single ones  */
    int pages;
    kit_album album;
} subject;

/* "learned+alibi" of "learned:rows=32,init=0.02+alibi:bias_max=8" */
static void name_of(char *name, size_t room, const char *spec)
{
    size_t n = 0;
    int inside = 0;
    for (; *spec && n + 1 < room; spec++) {
        if (*spec == ':') inside = 1;
        /* an exponent such as 1e+06 has a plus as well; names begin with a letter */
        if (*spec == '+' && isalpha((unsigned char)spec[1])) inside = 0;
        if (!inside) name[n++] = *spec;
    }
    name[n] = 0;
    if (n == 0) snprintf(name, room, "none");
}

/* Two checkpoints of one encoding are told apart by a number. */
static void tell_apart(subject *s, int i)
{
    char name[64];
    int before = 0;
    name_of(name, sizeof name, s[i].spec);
    for (int k = 0; k < i; k++) {
        char other[64];
        name_of(other, sizeof other, s[k].spec);
        before += strcmp(other, name) == 0;
    }
    snprintf(s[i].name, sizeof s[i].name, "%s", name);
    snprintf(s[i].slug, sizeof s[i].slug, "%s", name);
    if (before == 0) return;
    snprintf(s[i].name, sizeof s[i].name, "%s (%d)", name, before + 1);
    snprintf(s[i].slug, sizeof s[i].slug, "%s_%d", name, before + 1);
}

/* The library's sentence, with the file in front unless it is named already. */
static int fail_in(const subject *s, const char *sentence, kit_error *why)
{
    if (strstr(sentence, s->path)) return kit_fail(why, "%s", sentence);
    return kit_fail(why, "%s: %s", s->path, sentence);
}

static int subject_read(subject *s, const char *path, kit_error *why)
{
    posenc_error said;
    s->path = path;
    if (posenc_checkpoint_config(&s->config, s->spec, path, &said) != POSENC_OK)
        return fail_in(s, said.text, why);
    return 1;
}

/* A file may claim to be a model of any size. Its weights take two bytes at least in it, which
   tells before anything is allocated. */
static int size_is_honest(const subject *s, const posenc_bytes *bytes, kit_error *why)
{
    struct stat st;
    double numbers = (double)bytes->parameters / sizeof(posenc_float);
    if (stat(s->path, &st) == 0 && 2 * numbers <= (double)st.st_size) return 1;
    return kit_fail(why, "%s claims %.0f numbers and is too small to hold them", s->path, numbers);
}

/* Room for one sequence of T tokens is enough: the encodings in the spec already say how long their
   tables are, so that a shorter context changes nothing. */
static int subject_load(subject *s, int T, int threads, kit_error *why)
{
    posenc_bytes bytes;
    posenc_error said;
    s->config.encoding = s->spec;
    s->config.batch = 1;
    s->config.context = T;
    s->config.inference = 0;
    s->config.threads = threads;
    if (posenc_model_bytes(&bytes, &s->config, &said) != POSENC_OK)
        return fail_in(s, said.text, why);
    if (!size_is_honest(s, &bytes, why)) return 0;
    if (posenc_model_create(&s->model, &s->config, &said) != POSENC_OK)
        return fail_in(s, said.text, why);
    if (posenc_model_load(s->model, s->path, POSENC_WEIGHTS, s->note, sizeof s->note, &said)
        != POSENC_OK)
        return fail_in(s, said.text, why);
    if (strncmp(s->note, "marker: --blocks published", 26) == 0)
        return fail_in(s, "its blocks are the published ones, which attend across the batch; there "
                       "is no map of a sequence to draw", why);
    s->parameters = posenc_model_numbers(s->model);
    return 1;
}

static int heads_of(const subject *s) { return s->maps.layers * s->maps.heads; }

static void subject_free(subject *s)
{
    for (int i = 0; s->page && i < s->pages; i++) kit_picture_free(&s->page[i]);
    for (int i = 0; s->head && i < heads_of(s); i++) kit_picture_free(&s->head[i]);
    free(s->page);
    free(s->head);
    free(s->look);
    kit_album_free(&s->album);
    kit_maps_free(&s->maps);
    posenc_model_free(s->model);
}

/* ---- the input ------------------------------------------------------------------------------- */

typedef struct input {
    int tokens[LONGEST], T;
    unsigned char mark[LONGEST];
    int marked;
    char words[LONGEST][12];
    const char *word[LONGEST];
    char about[256];
} input;

static const char BLANKS[] = " ,\t\r\n";               /* what separates tokens */

typedef struct range { int vocab, padding; } range;      /* tokens that may stand in an input */

static int token_below(kit_random *r, range g)
{
    int v;
    do v = kit_random_below(r, g.vocab); while (g.vocab > 1 && v == g.padding);
    return v;
}

static void any_input(input *in, kit_random *r, range g)
{
    for (int t = 0; t < in->T; t++) in->tokens[t] = token_below(r, g);
    snprintf(in->about, sizeof in->about, "random tokens");
}

static void mark(input *in, int place, int value)
{
    in->tokens[place] = value;
    in->mark[place] = 1;
    in->marked = 1;
}

/* A sequence as the pattern demo makes it for a task; where it cannot, random tokens. */
static void task_input(input *in, kit_random *r, range g, const task *k)
{
    int label = 0, side = task_side(in->T);
    any_input(in, r, g);
    if (in->T < k->least_length || g.vocab < k->least_vocab) return;
    if (k->square && side == 0) return;
    k->make(in->tokens, &label, r, in->T, g.vocab);
    k->marks(in->mark, in->tokens, in->T, label);
    for (int t = 0; t < in->T; t++) in->marked |= in->mark[t];
    snprintf(in->about, sizeof in->about, "a sequence of the task %s, class %d%s", k->name, label,
             in->marked ? "; triangles point at the places that decide it" : "");
}

/* START a a+1 a+2 MIDDLE a+3 a+4 END, then zeros */
static void marker_input(input *in, kit_random *r, range g)
{
    any_input(in, r, g);
    if (in->T < 8 || g.vocab < 85) return;
    int a = 10 + kit_random_below(r, 71);
    const int start[8] = { 1, a, a + 1, a + 2, 2, a + 3, a + 4, 3 };
    memset(in->tokens, 0, sizeof in->tokens);
    memcpy(in->tokens, start, sizeof start);
    mark(in, 0, 1);
    mark(in, 4, 2);
    mark(in, 7, 3);
    snprintf(in->about, sizeof in->about, "a sequence of the marker task; triangles point at "
             "START, MIDDLE and END");
}

/* A checkpoint's note begins with the program and the task that made it. NULL: it is another's. */
static const task *task_of(const char *note)
{
    for (int i = 0; i < TASK_COUNT; i++) {
        char begins[96];
        int n = snprintf(begins, sizeof begins, "pattern: --task %s ", tasks[i].name);
        if (tasks[i].data)
            snprintf(begins + n, sizeof begins - (size_t)n, "--data %s ", tasks[i].data);
        if (strncmp(note, begins, strlen(begins)) == 0) return &tasks[i];
    }
    return NULL;
}

static range shared_range(const subject *s, int count)
{
    range g = { s[0].config.vocab, -1 };
    for (int i = 0; i < count; i++) {
        if (s[i].config.vocab < g.vocab) g.vocab = s[i].config.vocab;
        if (s[i].config.mask_padding) g.padding = s[i].config.padding_token;
    }
    return g;
}

static void make_input(input *in, const subject *s, int count, uint64_t seed)
{
    kit_random r = kit_random_open(seed, KIT_RANDOM_TEST, 0);
    const task *k = task_of(s[0].note);
    if (k) task_input(in, &r, shared_range(s, count), k);
    else if (strncmp(s[0].note, "marker:", 7) == 0) marker_input(in, &r, shared_range(s, count));
    else any_input(in, &r, shared_range(s, count));
    for (int t = 0; t < in->T; t++) in->tokens[t] %= shared_range(s, count).vocab;
}

/* A word that is no token, as it can be printed: a file may hold anything. */
static int no_token(const char *where, const char *at, kit_error *why)
{
    char word[41];
    size_t n = strcspn(at, BLANKS);
    if (n > 40) n = 40;
    for (size_t i = 0; i < n; i++) word[i] = isprint((unsigned char)at[i]) ? at[i] : '?';
    word[n] = 0;
    return kit_fail(why, "%s takes token numbers, not '%s'", where, word);
}

/* Token numbers separated by blanks or commas, however many. 0 after a mistake. */
static int parse_tokens(input *in, const char *text, const char *where, kit_error *why)
{
    in->T = 0;
    for (const char *at = text + strspn(text, BLANKS); *at; at += strspn(at, BLANKS)) {
        char *end;
        long v = strtol(at, &end, 10);
        if (end == at || (*end && !strchr(BLANKS, *end)) || v < 0 || v > 1 << 30)
            return no_token(where, at, why);
        if (in->T == LONGEST)
            return kit_fail(why, "%s has more than %d tokens, which is as many as are drawn", where,
                            LONGEST);
        in->tokens[in->T++] = (int)v;
        at = end;
    }
    return in->T ? 1 : kit_fail(why, "%s has no token", where);
}

static int read_tokens(input *in, const char *path, kit_error *why)
{
    kit_text text = { NULL, 0, 0 };
    char part[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    if (!file) return kit_fail(why, "cannot open %s: %s", path, strerror(errno));
    while ((n = fread(part, 1, sizeof part, file)) > 0 && text.size < 1 << 20)
        kit_put_bytes(&text, part, n);
    int bad = ferror(file);
    fclose(file);
    int done = bad ? kit_fail(why, "cannot read %s", path)
                   : parse_tokens(in, text.data ? text.data : "", path, why);
    kit_text_free(&text);
    return done;
}

/* After the models are loaded: the tokens must be theirs, and be seen. */
static int check_tokens(input *in, const subject *s, int count, kit_error *why)
{
    for (int i = 0; i < count; i++)
        for (int t = 0; t < in->T; t++)
            if (in->tokens[t] >= s[i].config.vocab)
                return kit_fail(why, "token %d at place %d is not in the vocabulary of %s, which "
                                "is 0 to %d", in->tokens[t], t, s[i].path, s[i].config.vocab - 1);
    for (int t = 0; t < in->T; t++) {
        snprintf(in->words[t], sizeof in->words[t], "%d", in->tokens[t]);
        in->word[t] = in->words[t];
    }
    return 1;
}

/* ---- figures --------------------------------------------------------------------------------- */

static void subject_figures(subject *s)
{
    int n = heads_of(s);
    s->look = (kit_look *)kit_new((size_t)n, sizeof *s->look);
    for (int i = 0; i < n; i++)
        s->look[i] = kit_map_look(kit_maps_of(&s->maps, i / s->maps.heads, i % s->maps.heads),
                                  s->maps.T, 0);
    s->even = kit_map_look(kit_maps_of(&s->maps, 0, 0), s->maps.T, 1);
    for (int k = 0; k < TRAITS; k++) {
        s->best[k] = 0;
        for (int i = 1; i < n; i++)
            if (trait_rank(&s->look[i], k) > trait_rank(&s->look[s->best[k]], k)) s->best[k] = i;
    }
}

/* Whether a head stands out: a third more of the trait than looking at all alike has, or an entropy
   a tenth below it. A causal mask hides the next token from all. */
static int stands_out(const subject *s, int k)
{
    const kit_look *look = &s->look[s->best[k]];
    if (k == SHARPEST) return look->evenness < 0.9;
    return trait_value(&s->even, k) > 0 && trait_value(look, k) > 1.33 * trait_value(&s->even, k);
}

/* "12.5 %", or a dash for what a mask hides from all */
static void say_share(char text[24], double share, int digits)
{
    if (isfinite(share)) snprintf(text, 24, "%.*f %%", digits, 100 * share);
    else snprintf(text, 24, "-");
}

static void print_look(const char *name, const kit_look *k)
{
    char text[6][24];
    say_share(text[0], k->evenness, 0);
    say_share(text[1], k->previous, 1);
    say_share(text[2], k->same, 1);
    say_share(text[3], k->next, 1);
    say_share(text[4], k->first, 1);
    say_share(text[5], k->most, 1);
    printf("  %-10s %7.2f bits %7s %8.1f %9s %7s %7s %7s %8s at %d\n", name, k->entropy, text[0],
           k->distance, text[1], text[2], text[3], text[4], text[5], k->key);
}

static void print_subject(const subject *s)
{
    char name[32];
    printf("%s: %d layers, %d heads, %d tokens\n", s->name, s->maps.layers, s->maps.heads,
           s->maps.T);
    printf("  layer head      entropy of most distance  previous    same    next   first  "
           "most read key\n");
    for (int i = 0; i < heads_of(s); i++) {
        snprintf(name, sizeof name, "%5d %4d", i / s->maps.heads, i % s->maps.heads);
        print_look(name, &s->look[i]);
    }
    print_look("all alike", &s->even);
    for (int k = 0; k < TRAITS; k++)
        if (stands_out(s, k))
            printf("  %s: layer %d, head %d has %s\n", trait[k].name, s->best[k] / s->maps.heads,
                   s->best[k] % s->maps.heads, trait[k].says);
    printf("\n");
}

static void csv_row(kit_text *t, const subject *s, int i)
{
    const kit_look *k = &s->look[i];
    kit_csv_text(t, s->name);
    kit_csv_int(t, i / s->maps.heads);
    kit_csv_int(t, i % s->maps.heads);
    kit_csv_real(t, k->entropy, 6);
    kit_csv_real(t, k->evenness, 6);
    kit_csv_real(t, k->distance, 6);
    kit_csv_real(t, k->previous, 6);
    kit_csv_real(t, k->same, 6);
    kit_csv_real(t, k->next, 6);
    kit_csv_real(t, k->first, 6);
    kit_csv_real(t, k->most, 6);
    kit_csv_int(t, k->key);
    kit_csv_end(t);
}

static int save_heads_csv(const subject *s, int count, const char *folder, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "model,layer,head,entropy_bits,evenness,distance,previous,same,next,first,"
                 "most,most_key");
    for (int i = 0; i < count; i++)
        for (int h = 0; h < heads_of(&s[i]); h++) csv_row(&t, &s[i], h);
    int done = kit_save_in(folder, "heads.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* Every weight; pairs that a mask forbids are left out. */
static int save_maps_csv(const subject *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    int T = s->maps.T;
    kit_csv_head(&t, "layer,head,query,key,weight");
    for (int i = 0; i < heads_of(s); i++) {
        const float *map = kit_maps_of(&s->maps, i / s->maps.heads, i % s->maps.heads);
        for (int at = 0; at < T * T; at++)
            if (isfinite(map[at]))
                kit_put(&t, "%d,%d,%d,%d,%.7g\n", i / s->maps.heads, i % s->maps.heads, at / T,
                        at % T, (double)map[at]);
    }
    int done = kit_save_in(s->folder, "maps.csv", &t, why);
    kit_text_free(&t);
    return done;
}

/* ---- pictures -------------------------------------------------------------------------------- */

static kit_maps_style style_of(const settings *set, const input *in)
{
    kit_maps_style style;
    memset(&style, 0, sizeof style);
    style.about = in->about;
    style.word = in->word;
    style.mark = in->marked ? in->mark : NULL;
    style.scale = set->scale;
    return style;
}

static int draw_pages(subject *s, const settings *set, const input *in, kit_error *why)
{
    unsigned char *frame = (unsigned char *)kit_new((size_t)heads_of(s), 1);
    kit_maps_style style = style_of(set, in);
    char about[400], stem[32] = "heads";
    int any = 0, done = 1;
    for (int k = 0; k < TRAITS; k++)
        if (stands_out(s, k)) frame[s->best[k]] = 1, any = 1;
    snprintf(about, sizeof about, "%s%s", in->about, any ? "; framed: heads that stand out" : "");
    style.about = about;
    style.word = NULL;                     /* too small for words: places are counted */
    s->pages = kit_maps_pages(&s->maps);
    s->page = (kit_picture *)kit_new((size_t)s->pages, sizeof *s->page);
    for (int i = 0; i < s->pages && done; i++) {
        if (i > 0) snprintf(stem, sizeof stem, "heads_%d", i + 1);
        done = kit_maps_draw_page(&s->page[i], &s->maps, &style, s->name, frame, i, s->folder, stem,
                                  why);
    }
    free(frame);
    return done;
}

static int wanted(const settings *set, int layer, int head)
{
    return (set->layer < 0 || set->layer == layer) && (set->head < 0 || set->head == head);
}

static int draw_heads(subject *s, const settings *set, const input *in, kit_error *why)
{
    kit_maps_style style = style_of(set, in);
    kit_progress bar = kit_progress_begin(s->name, heads_of(s), 0, set->quiet);
    int done = 1;
    s->head = (kit_picture *)kit_new((size_t)heads_of(s), sizeof *s->head);
    style.cell = set->cell;
    for (int i = 0; i < heads_of(s) && done && !kit_stopped(); i++) {
        int layer = i / s->maps.heads, head = i % s->maps.heads;
        char stem[64];
        snprintf(stem, sizeof stem, "layer%d_head%d", layer, head);
        if (wanted(set, layer, head))
            done = kit_maps_draw_head(&s->head[i], &s->maps, &style, s->name, layer, head,
                                      s->folder, stem, why);
        kit_progress_at(&bar, i + 1, "pictures");
    }
    kit_progress_clear(&bar);
    return done;
}

static int draw_models(kit_picture *p, const subject *s, int count, int page, const settings *set,
                       const input *in, kit_error *why)
{
    const kit_maps *maps[KIT_LIST_ROOM];
    const char *name[KIT_LIST_ROOM];
    kit_maps_style style = style_of(set, in);
    char stem[32] = "models";
    if (page > 0) snprintf(stem, sizeof stem, "models_%d", page + 1);
    for (int i = 0; i < count; i++) {
        maps[i] = &s[i].maps;
        name[i] = s[i].name;
    }
    return kit_maps_draw_models(p, maps, name, count, set->head, &style, page, set->out, stem, why);
}

/* ---- the report ------------------------------------------------------------------------------ */

static void report_opening(kit_report *p, const subject *s, int count, const settings *set,
                           const input *in)
{
    kit_text line = { NULL, 0, 0 };
    for (int t = 0; t < in->T; t++) kit_put(&line, "%s%d", t ? " " : "", in->tokens[t]);
    kit_report_text(p, "The input is %d tokens: %s.", in->T, in->about);
    kit_report_code(p, line.data);
    kit_report_text(p, "The pictures show where the heads of %s look on it. Every row of a map "
                    "belongs to a token that looks (the query) and shows how it shares out its "
                    "attention, 100 %% in all, among the tokens it looks at (the keys).",
                    count > 1 ? "each model" : s->name);
    kit_report_text(p, "**How to read a map.** A bright column is a token that everybody reads. A "
                    "bright diagonal is a head that looks at the token itself; a line beside it, "
                    "one that looks a fixed distance back or ahead. An even surface is a head that "
                    "looks at everything alike and takes the mean. Grey is what a mask hides. All "
                    "maps of a sheet share one scale of colours%s.",
                    strcmp(set->scale, "root") != 0 ? ""
                    : ", which rises with the root of the weight so that small weights can be told "
                      "apart");
    kit_text_free(&line);
}

static void report_checkpoints(kit_report *p, const subject *s, int count)
{
    static const char *const head[] = { "model", "layers", "heads", "width", "parameters",
                                        "encoding", "file" };
    char (*room)[4][32] = (char (*)[4][32])kit_new((size_t)count, sizeof *room);
    const char **cell = (const char **)kit_new(7 * (size_t)count, sizeof *cell);
    kit_table table = { head, cell, count, 7, 0, NULL };
    for (int i = 0; i < count; i++) {
        snprintf(room[i][0], 32, "%d", s[i].maps.layers);
        snprintf(room[i][1], 32, "%d", s[i].maps.heads);
        snprintf(room[i][2], 32, "%d", s[i].config.channels);
        snprintf(room[i][3], 32, "%zu", s[i].parameters);
        const char *row[7] = { s[i].name, room[i][0], room[i][1], room[i][2], room[i][3],
                               s[i].spec[0] ? s[i].spec : "none", s[i].path };
        memcpy((void *)(cell + 7 * i), row, sizeof row);
    }
    kit_report_table(p, &table);
    free(room);
    free((void *)cell);
}

static void report_notable(kit_report *p, const subject *s)
{
    int some = 0;
    for (int k = 0; k < TRAITS; k++) {
        char is[48], even[48], key[32] = "";
        const char *unit = k == SHARPEST ? " bits" : k == FARTHEST ? " places" : " %";
        double times = k == SHARPEST || k == FARTHEST ? 1 : 100;
        if (!stands_out(s, k)) continue;
        some = 1;
        snprintf(is, sizeof is, "%.2f%s", times * trait_value(&s->look[s->best[k]], k), unit);
        snprintf(even, sizeof even, "%.2f%s", times * trait_value(&s->even, k), unit);
        if (k == STRIPE) snprintf(key, sizeof key, " (place %d)", s->look[s->best[k]].key);
        kit_report_text(p, "**%s**: layer %d, head %d has %s%s, %s; looking at all alike has %s.",
                        trait[k].name, s->best[k] / s->maps.heads, s->best[k] % s->maps.heads,
                        trait[k].says, key, is, even);
    }
    if (!some)
        kit_report_text(p, "No head stands out: none has an entropy a tenth below that of looking "
                        "at all alike, or a third more of anything else below. The model takes the "
                        "mean of its tokens, as an untrained one does.");
}

static void look_cells(char room[9][24], const kit_look *k)
{
    char most[24];
    snprintf(room[1], 24, "%.2f", k->entropy);
    say_share(room[2], k->evenness, 0);
    snprintf(room[3], 24, "%.1f", k->distance);
    say_share(room[4], k->previous, 1);
    say_share(room[5], k->same, 1);
    say_share(room[6], k->next, 1);
    say_share(room[7], k->first, 1);
    say_share(most, k->most, 1);
    snprintf(room[8], 24, "%.10s at %d", most, k->key);
}

static void report_figures(kit_report *p, const subject *s)
{
    static const char *const head[] = { "layer, head", "entropy, bits", "of the most", "distance",
                                        "previous", "same", "next", "first", "most read key" };
    int rows = heads_of(s) + 1;
    char (*room)[9][24] = (char (*)[9][24])kit_new((size_t)rows, sizeof *room);
    const char **cell = (const char **)kit_new(9 * (size_t)rows, sizeof *cell);
    kit_table table = { head, cell, rows, 9, 0, NULL };
    for (int i = 0; i < rows; i++) {
        int last = i == rows - 1;
        if (last) snprintf(room[i][0], 24, "all alike");
        else snprintf(room[i][0], 24, "%d, %d", i / s->maps.heads, i % s->maps.heads);
        look_cells(room[i], last ? &s->even : &s->look[i]);
        for (int c = 0; c < 9; c++) cell[9 * i + c] = room[i][c];
    }
    kit_report_fold(p, "figures of every head");
    kit_report_text(p, "Means over the tokens that look. Entropy says how sharply a head looks: 0 "
                    "bits is a single token, and the most is what looking at all alike gives, in "
                    "the last row. The weights on the token before, itself, the token after and "
                    "the first one count only where a mask lets them be seen. The most read key is "
                    "the column with most of the map's weight.");
    kit_report_table(p, &table);
    kit_report_unfold(p);
    free(room);
    free((void *)cell);
}

/* The single heads: all of them when they are few, otherwise those that stand out. */
static void report_gallery(kit_report *p, const subject *s)
{
    int drawn = 0;
    unsigned char *show = (unsigned char *)kit_new((size_t)heads_of(s), 1);
    for (int i = 0; i < heads_of(s); i++) drawn += s->head[i].file[0] != 0;
    for (int i = 0; i < heads_of(s); i++) show[i] = drawn <= GALLERY;
    for (int k = 0; k < TRAITS; k++) if (stands_out(s, k)) show[s->best[k]] = 1;
    if (drawn == 0) { free(show); return; }
    kit_report_fold(p, drawn <= GALLERY ? "every head, large" : "the heads that stand out, large");
    for (int i = 0; i < heads_of(s); i++) {
        char alt[200];
        snprintf(alt, sizeof alt, "attention map of %s, layer %d, head %d", s->name,
                 i / s->maps.heads, i % s->maps.heads);
        if (show[i]) kit_report_picture(p, &s->head[i], s->within, alt, "");
    }
    kit_report_unfold(p);
    if (drawn > GALLERY)
        kit_report_text(p, "All %d are beside this page as `%slayerL_headH.%s`.", drawn, s->within,
                        KIT_HAS_PNG ? "png" : "svg");
    free(show);
}

static void report_album(kit_report *p, const subject *s)
{
    kit_positions k = kit_positions_of(s->model);
    if (!k.table && !k.turns && !k.temper && !k.bias && !k.other)
        kit_report_text(p, "The model has no positional encoding, so that there is nothing to draw "
                        "about its positions: two equal tokens look in the same way, wherever they "
                        "stand%s.",
                        s->config.causal ? ", except that a mask hides what follows" : "");
    if (k.other)
        kit_report_text(p, "Part of its encoding enters in a way that there is no picture of yet.");
    for (int i = 0; i < s->album.count; i++)
        kit_report_picture(p, &s->album.picture[i], s->within, s->album.alt[i],
                           s->album.caption[i]);
}

static void report_subject(kit_report *p, const subject *s)
{
    kit_report_heading(p, s->name);
    for (int i = 0; i < s->pages; i++) {
        char alt[200];
        snprintf(alt, sizeof alt, "attention maps of every head of %s", s->name);
        kit_report_picture(p, &s->page[i], s->within, alt,
                           i == 0 ? "A row for each layer, a column for each head, one scale of "
                                    "colours. Framed heads are named below." : "");
    }
    report_notable(p, s);
    report_figures(p, s);
    report_gallery(p, s);
    report_album(p, s);
}

static void report_again(kit_report *p, const subject *s, int count, const settings *set,
                         const input *in)
{
    kit_text again = { NULL, 0, 0 };
    kit_put_string(&again, "build/attention_maps");
    for (int i = 0; i < count; i++) kit_put(&again, " %s", s[i].path);
    kit_put_string(&again, " --tokens \"");
    for (int t = 0; t < in->T; t++) kit_put(&again, "%s%d", t ? " " : "", in->tokens[t]);
    kit_put(&again, "\" --scale %s", set->scale);
    kit_report_heading(p, "The same pictures again");
    kit_report_code(p, again.data);
    kit_report_text(p, "Beside this page: `heads.csv` with the figures of every head, the "
                    "pictures%s.",
                    set->csv ? ", and `maps.csv` with every weight"
                             : "; `--csv` adds every weight");
    kit_text_free(&again);
}

static int save_report(const subject *s, int count, const kit_picture *models, int pages,
                       const settings *set, const input *in, kit_error *why)
{
    kit_report p;
    kit_report_begin(&p, "Where does the model look?");
    report_opening(&p, s, count, set, in);
    report_checkpoints(&p, s, count);
    if (!KIT_HAS_PNG)
        kit_report_text(&p, "There are %s. Small pictures are SVG instead.", KIT_NO_PNG);
    if (count > 1) kit_report_heading(&p, "Side by side");
    for (int i = 0; i < pages; i++)
        kit_report_picture(&p, &models[i], "", "attention maps of all models side by side",
                           "The same input under each model. What differs between two rows is what "
                           "the encoding makes of it.");
    for (int i = 0; i < count; i++) report_subject(&p, &s[i]);
    report_again(&p, s, count, set, in);
    return kit_report_save(&p, set->out, why);
}

/* ---- the run --------------------------------------------------------------------------------- */

static int draw_subject(subject *s, int alone, const settings *set, const input *in, kit_error *why)
{
    if (alone) snprintf(s->folder, sizeof s->folder, "%s", set->out);
    else if (!kit_join(s->folder, set->out, s->slug, why)) return 0;
    if (!alone) snprintf(s->within, sizeof s->within, "%s/", s->slug);
    if (!kit_make_folders(s->folder, why)) return 0;
    kit_error said;
    if (!kit_maps_take(&s->maps, s->model, in->tokens, in->T, &said))
        return fail_in(s, said.text, why);
    subject_figures(s);
    return draw_pages(s, set, in, why) && draw_heads(s, set, in, why)
        && kit_album_make(&s->album, s->model, in->T, s->name, s->folder, why)
        && (!set->csv || save_maps_csv(s, why));
}

static int draw_all(subject *s, int count, const settings *set, const input *in, kit_error *why)
{
    kit_picture models[KIT_LIST_ROOM / KIT_MAPS_SIDE + 1];
    int pages = count > 1 ? (count + KIT_MAPS_SIDE - 1) / KIT_MAPS_SIDE : 0, done = 1;
    memset(models, 0, sizeof models);
    for (int i = 0; i < count && done; i++) {
        done = draw_subject(&s[i], count == 1, set, in, why);
        if (done && kit_stopped()) return STOPPED;
        if (done && !set->quiet) print_subject(&s[i]);
    }
    for (int i = 0; i < pages && done; i++)
        done = draw_models(&models[i], s, count, i, set, in, why);
    done = done && save_heads_csv(s, count, set->out, why)
        && save_report(s, count, models, pages, set, in, why);
    for (int i = 0; i < pages; i++) kit_picture_free(&models[i]);
    return done ? DONE : FAILED;
}

/* How many tokens: as many as were given, or as the shortest model takes, up to 64. */
static int choose_length(input *in, const subject *s, int count, const settings *set,
                         kit_error *why)
{
    int shortest = 0;
    for (int i = 1; i < count; i++)
        if (s[i].config.context < s[shortest].config.context) shortest = i;
    int room = s[shortest].config.context, want = in->T ? in->T : set->length;
    if (want > room)
        return kit_fail(why, "%d tokens are too many for %s, which takes %d", want,
                        s[shortest].path, room);
    in->T = want ? want : room < SHORT ? room : SHORT;
    return 1;
}

static int check_choice(const subject *s, int count, const settings *set, kit_error *why)
{
    for (int i = 0; i < count; i++) {
        if (set->layer >= s[i].config.layers)
            return kit_fail(why, "--layer %d: %s has layers 0 to %d", set->layer, s[i].path,
                            s[i].config.layers - 1);
        if (set->head >= s[i].config.heads)
            return kit_fail(why, "--head %d: %s has heads 0 to %d", set->head, s[i].path,
                            s[i].config.heads - 1);
    }
    return 1;
}

static int run(subject *s, int count, const kit_list *paths, const settings *set, input *in,
               kit_error *why)
{
    int given = in->T > 0;
    if (set->tokens_from && !read_tokens(in, set->tokens_from, why)) return FAILED;
    given = given || set->tokens_from;
    for (int i = 0; i < count; i++) {
        if (!subject_read(&s[i], paths->item[i], why)) return FAILED;
        tell_apart(s, i);
    }
    if (!choose_length(in, s, count, set, why) || !check_choice(s, count, set, why)) return WRONG;
    for (int i = 0; i < count; i++)
        if (!subject_load(&s[i], in->T, set->threads, why)) return FAILED;
    if (given) snprintf(in->about, sizeof in->about, "the tokens that were given");
    else make_input(in, s, count, set->seed);
    if (!check_tokens(in, s, count, why)) return set->tokens_from ? FAILED : WRONG;
    if (!kit_make_folders(set->out, why)) return FAILED;
    return draw_all(s, count, set, in, why);
}

int main(int argc, char **argv)
{
    settings set;
    memset(&set, 0, sizeof set);
    set.scale = "root";
    set.out = "results/attention_maps";
    set.layer = set.head = -1;
    set.seed = 1;
    kit_option options[] = {
        kit_word("tokens",      &set.tokens, "\"5 3 8\"", "the input, as token numbers"),
        kit_word("tokens-from", &set.tokens_from, "FILE", "the same from a file of numbers"),
        kit_int("length",       &set.length, 0, LONGEST, "tokens of the input made; 0: up to 64"),
        kit_u64("seed",         &set.seed,               "of the input made"),
        kit_int("layer",        &set.layer, -1, 9999,    "large pictures of this layer; -1: all"),
        kit_int("head",         &set.head, -1, 9999,     "of this head, also compared; -1: all"),
        kit_int("cell",         &set.cell, 0, 64,        "points for a weight; 0: chosen"),
        kit_choice("scale",     &set.scale, "root|linear|log", "of the colours"),
        kit_word("out",         &set.out, "DIR",         "folder for what is written"),
        kit_switch("csv",       &set.csv,                "write every weight into maps.csv"),
        kit_int("threads",      &set.threads, 0, 1024,   "0: all cores; changes no figure"),
        kit_switch("quiet",     &set.quiet,              "print where the report is, no more"),
        kit_no_more()
    };
    kit_args a;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    a.program = "attention_maps";
    a.summary = "attention_maps: where does a trained model look, and what does it know about "
                "positions?";
    a.options = options;
    a.operand = "CHECKPOINT [CHECKPOINT ...]";
    a.closing = "Without --tokens the input is made from --seed, for a checkpoint of another demo\n"
                "from its own task. Several checkpoints are shown the same input, side by side.\n\n"
                "  attention_maps results/pattern/learned/best.safetensors\n"
                "  attention_maps results/pattern/pattern-balanced/*-s1/last.safetensors --head 0\n"
                "  attention_maps results/marker/runs/rope-depth4-seed1/last.safetensors";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;

    static input in;
    static subject subjects[KIT_LIST_ROOM];
    kit_error why;
    int count = a.operands.count;
    if (count == 0) return kit_usage(&a, "name a checkpoint; --help shows how"), a.exit_code;
    if (set.tokens && set.tokens_from)
        return kit_usage(&a, "take --tokens or --tokens-from, not both"), a.exit_code;
    if (set.tokens && !parse_tokens(&in, set.tokens, "--tokens", &why))
        return kit_usage(&a, "%s", why.text), a.exit_code;

    kit_catch_stop();
    int code = run(subjects, count, &a.operands, &set, &in, &why);
    if (code == FAILED || code == WRONG) fprintf(stderr, "attention_maps: %s\n", why.text);
    if (code == STOPPED) fprintf(stderr, "attention_maps: stopped before the report was written\n");
    if (code == DONE) {
        if (!KIT_HAS_PNG) printf("%s\n", KIT_NO_PNG);
        printf("report: %s/report.html\n", set.out);
        if (fflush(stdout) != 0) code = FAILED;
    }
    for (int i = 0; i < count; i++) subject_free(&subjects[i]);
    return code;
}
