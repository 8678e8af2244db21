/* gallery: a picture of every positional encoding, and a table of them

       build/gallery                               all of them, into results/gallery/
       build/gallery --spec rope:base=100 --spec learned+alibi
       build/gallery --list                        the table, with the parameters of a model
       build/gallery --list --markdown --channels 768 --heads 12 --layers 12 --context 1024
       build/gallery --check                       how far each is from an independent oracle
       build/gallery --help

   An encoding that is added to the embedding is drawn as its vectors and how alike they are; one
   that turns queries and keys as its angles and what they do to a score; one that is added to the
   scores by distance and by pair of positions. What is learned is drawn as it starts. Each caption
   names the spec that was drawn, so that it can be drawn again with other numbers.

   Writes into --out: gallery.png with all of them on one sheet, a picture for each row of the table
   and for some variants, encodings.csv, report.html and report.md. Same flags, same bytes. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "gallery/sheet.h"
#include "gallery/shown.h"
#include "kit/args.h"
#include "kit/csv.h"
#include "kit/progress.h"
#include "kit/threads.h"
#include "../tests/catalogue.h"            /* the golden values, and how to hold against them */

enum { DONE = 0, FAILED = 1, STOPPED = 130 };          /* exit codes; 2: a wrong command line */
enum { PAGES = SHOWN + POSENC_ENCODING_COUNT + KIT_LIST_ROOM };

typedef struct settings {
    kit_list specs;
    const char *out, *golden;
    int list, markdown, check, quiet, channels, heads, layers, context, causal;
    int shaped;                            /* 1: sizes were given, and hold for --spec as well    */
} settings;

/* ---- the table ------------------------------------------------------------------------------- */

typedef struct row {
    const posenc_encoding_info *info;
    char learns[160], parameters[32];
    size_t numbers;
} row;

static const char *enters(const posenc_encoding_info *info)
{
    static const char *const word[] = { "nowhere", "embedding", "queries, keys", "scores" };
    return word[info->where];
}

/* "weight (512, 128)"; several tensors by their names alone */
static void say_parts(row *r, const posenc_part *part, int n)
{
    int used = 0;
    size_t room = sizeof r->learns;
    if (n == 0) snprintf(r->learns, room, "nothing");
    for (int i = 0; i < n; i++)
        used += snprintf(r->learns + used, room - (size_t)used, i ? ", %s" : "%s", part[i].name);
    if (n != 1) return;
    snprintf(r->learns, room, part->columns ? "%s%s (%d, %d)" : "%s%s (%d)",
             part->fixed ? "nothing; drawn once: " : "", part->name, part->rows, part->columns);
}

/* What an encoding learns in a model of this shape. lrope's factors are each layer's own, a bias is
   shared by the layers unless per_layer=1 is asked for. */
static row row_make(int e, const settings *set)
{
    posenc_shape shape = { set->channels, set->heads, set->channels / set->heads, set->context,
                           set->causal };
    posenc_part part[POSENC_PARTS];
    posenc_spec s;
    row r;
    memset(&s, 0, sizeof s);
    memset(&r, 0, sizeof r);
    s.encoding = e;
    r.info = posenc_encoding_get(e);
    snprintf(r.learns, sizeof r.learns, "does not fit this shape");
    snprintf(r.parameters, sizeof r.parameters, "-");
    if (posenc_spec_complete(&s, &shape, NULL) != POSENC_OK) return r;
    int n = posenc_spec_parts(part, &s, &shape);
    for (int i = 0; i < n; i++)
        if (!part[i].fixed)
            r.numbers += (size_t)part[i].rows * (size_t)(part[i].columns ? part[i].columns : 1);
    say_parts(&r, part, n);
    if (e == POSENC_LROPE || s.per_layer > 0) {
        r.numbers *= (size_t)set->layers;
        strcat(r.learns, ", each layer");
    }
    kit_say_count(r.parameters, r.numbers);
    return r;
}

static void rows_make(row rows[POSENC_ENCODING_COUNT], const settings *set)
{
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) rows[e] = row_make(e, set);
}

static const char *const heading[6] = { "name", "enters at", "learns", "parameters",
                                        "beyond the training length", "source" };

static void row_words(const char *word[6], const row *r)
{
    word[0] = r->info->name;
    word[1] = enters(r->info);
    word[2] = r->learns;
    word[3] = r->parameters;
    word[4] = r->info->beyond;
    word[5] = r->info->source;
}

static void print_plain(const char *const word[6], const int wide[6])
{
    for (int c = 0; c < 6; c++) {
        int flush = c == 3 ? wide[c] : -wide[c];                /* numbers stand on the right */
        if (c == 5) printf("%s\n", word[c]);
        else printf("%*s  ", flush, word[c]);
    }
}

static void print_markdown(const char *const word[6], int head)
{
    printf(head ? "| %s |" : "| `%s` |", word[0]);
    for (int c = 1; c < 6; c++) printf(" %s |%s", word[c], c == 5 ? "\n" : "");
    if (head) printf("|---|---|---|---:|---|---|\n");
}

static int print_list(const settings *set)
{
    static row rows[POSENC_ENCODING_COUNT];
    const char *word[6];
    int wide[6];
    rows_make(rows, set);
    for (int c = 0; c < 6; c++) {
        wide[c] = (int)strlen(heading[c]);
        for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
            row_words(word, &rows[e]);
            wide[c] = kit__most(wide[c], (int)strlen(word[c]));
        }
    }
    if (set->markdown) print_markdown(heading, 1);
    else print_plain(heading, wide);
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        row_words(word, &rows[e]);
        if (set->markdown) print_markdown(word, 0);
        else print_plain(word, wide);
    }
    if (!set->markdown)
        printf("\nparameters: %d channels, %d heads, %d layers, %d tokens\n", set->channels,
               set->heads, set->layers, set->context);
    return DONE;
}

/* ---- against the oracles --------------------------------------------------------------------- */

typedef struct verdict {                   /* of an encoding: its worst case                      */
    int cases, bad;
    size_t compared;
    double error, ratio;
    char oracle[256], wrong[400];
} verdict;

static void verdict_add(verdict *v, const catalogue_result *r)
{
    v->cases++;
    v->compared += r->compared;
    v->bad += !(r->ratio <= 1);
    if (v->cases > 1 && r->ratio <= v->ratio) return;
    v->ratio = r->ratio;
    v->error = r->error;
    snprintf(v->oracle, sizeof v->oracle, "%s", r->oracle);
    snprintf(v->wrong, sizeof v->wrong, "%s", r->wrong);
}

/* 1 when it passed */
static int print_verdict(const posenc_encoding_info *info, const verdict *v)
{
    if (info->where == POSENC_NOWHERE) return 1;
    if (v->cases == 0) {
        printf("%-16s NO GOLDEN VALUES\n", info->name);
        return 0;
    }
    printf("%-16s %5d %9zu   %9.2e   %8.0f %%   %s\n", info->name, v->cases, v->compared, v->error,
           100 * v->ratio, v->oracle);
    if (v->bad) printf("%-16s WRONG in %d of %d: %s\n", "", v->bad, v->cases, v->wrong);
    return v->bad == 0;
}

static int run_check(const settings *set, kit_error *why)
{
    static golden_file file;
    static catalogue_result r;
    static verdict verdicts[POSENC_ENCODING_COUNT];
    char name[CATALOGUE_NAME];
    int good = 1;
    golden_open(&file, set->golden);
    if (file.wrong[0]) return kit_fail(why, "%s", file.wrong), FAILED;
    for (int i = 0; catalogue_case(name, &file, i); i++) {
        int fine = catalogue_run(&r, &file, name);
        if (r.encoding >= 0) verdict_add(&verdicts[r.encoding], &r);
        else printf("%s: %s\n", name, r.wrong);
        good &= fine;
    }
    printf("%-16s %5s %9s   %9s   %10s   %s\n", "encoding", "cases", "numbers", "error",
           "of allowed", "oracle of the worst case");
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++)
        good &= print_verdict(posenc_encoding_get(e), &verdicts[e]);
    golden_close(&file);
    printf("%s\n", good ? "every encoding is as near to its oracle as it should be"
                        : "at least one encoding is further from its oracle than allowed, or has none");
    return good ? DONE : FAILED;
}

/* ---- pages ----------------------------------------------------------------------------------- */

typedef struct gallery { page page[PAGES]; int count; kit_picture sheet; } gallery;

static void gallery_free(gallery *g)
{
    for (int i = 0; i < g->count; i++) page_free(&g->page[i]);
    kit_picture_free(&g->sheet);
}

/* the row that a spec belongs to: its name ends at a ':' */
static int encoding_of(const char *spec)
{
    size_t n = strcspn(spec, ":");
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        const char *name = posenc_encoding_get(e)->name;
        if (strlen(name) == n && strncmp(name, spec, n) == 0) return e;
    }
    return -1;
}

static int add_page(gallery *g, const display *d, int extra, const settings *set, kit_error *why)
{
    page *p = &g->page[g->count];
    if (kit_stopped()) return 0;
    if (!page_make(p, d, extra, why)) return 0;
    for (int i = 0; i < g->count; i++)     /* two long specs may begin alike */
        if (strcmp(g->page[i].slug, p->slug) == 0)
            snprintf(p->slug, sizeof p->slug, "spec_%d", g->count + 1);
    g->count++;
    return page_save(p, set->out, why);
}

static int add_scalings_page(gallery *g, const settings *set, kit_error *why)
{
    page *p = &g->page[g->count];
    int first = shown_index(scalings_first), n = shown_index(scalings_last) - first + 1;
    if (kit_stopped() || !page_compare(p, &shown[first], n, why)) return 0;
    g->count++;
    snprintf(p->title, sizeof p->title, "rope, rescaled");
    snprintf(p->line, sizeof p->line, "five ways to make 64 positions last for 256");
    snprintf(p->slug, sizeof p->slug, "rope_rescaled");
    snprintf(p->note, sizeof p->note, "%s", scalings_note);
    return page_save(p, set->out, why);
}

/* One page for each row of the table in its order, then the variants. */
static int add_all(gallery *g, const settings *set, kit_error *why)
{
    kit_progress bar = kit_progress_begin("pictures", POSENC_ENCODING_COUNT, 0, set->quiet);
    int first[POSENC_ENCODING_COUNT], done = 1;
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) first[e] = -1;
    for (int i = SHOWN - 1; i >= 0; i--)
        if (encoding_of(shown[i].spec) >= 0) first[encoding_of(shown[i].spec)] = i;
    for (int e = 0; e < POSENC_ENCODING_COUNT && done; e++) {
        display plain = { NULL, posenc_encoding_get(e)->name, 0, 0, 0, 0, NULL };
        done = add_page(g, first[e] < 0 ? &plain : &shown[first[e]], 0, set, why);
        kit_progress_at(&bar, e + 1, posenc_encoding_get(e)->name);
    }
    done = done && add_scalings_page(g, set, why);
    for (int i = 0; i < SHOWN && done; i++)
        if (first[encoding_of(shown[i].spec)] != i) done = add_page(g, &shown[i], 1, set, why);
    kit_progress_clear(&bar);
    return done && sheet_save(&g->sheet, g->page, g->count, set->out, why);
}

/* What --spec asks for, in sizes of the reader's choice if there are any. */
static display display_of(const settings *set, int i)
{
    display d = { NULL, set->specs.item[i], 0, 0, 0, set->causal, NULL };
    if (set->shaped) { d.T = set->context; d.C = set->channels; d.H = set->heads; }
    return d;
}

static int add_asked(gallery *g, const settings *set, kit_error *why)
{
    for (int i = 0; i < set->specs.count; i++) {
        display d = display_of(set, i);
        if (!display_fits(&d, why) || !add_page(g, &d, 1, set, why)) return 0;
    }
    return 1;
}

/* ---- what is written ------------------------------------------------------------------------- */

static const page *page_of(const gallery *g, int e)
{
    for (int i = 0; i < g->count; i++)
        if (g->page[i].encoding == e && !g->page[i].extra) return &g->page[i];
    return NULL;
}

static int save_csv(const gallery *g, const row *rows, const char *folder, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "name,enters,learns,parameters,keys,does,beyond,source,drawn,picture");
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) {
        const page *p = page_of(g, e);
        kit_csv_text(&t, rows[e].info->name);
        kit_csv_text(&t, enters(rows[e].info));
        kit_csv_text(&t, rows[e].learns);
        kit_csv_int(&t, (long long)rows[e].numbers);
        kit_csv_text(&t, rows[e].info->keys);
        kit_csv_text(&t, rows[e].info->line);
        kit_csv_text(&t, rows[e].info->beyond);
        kit_csv_text(&t, rows[e].info->source);
        kit_csv_text(&t, p ? p->spec : "");
        kit_csv_text(&t, p ? p->picture.file : "");
        kit_csv_end(&t);
    }
    int done = kit_save_in(folder, "encodings.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static void report_list(kit_report *p, const row *rows, const settings *set)
{
    const char *cell[6 * POSENC_ENCODING_COUNT];
    kit_table table = { heading, cell, POSENC_ENCODING_COUNT, 6, 0, NULL };
    for (int e = 0; e < POSENC_ENCODING_COUNT; e++) row_words(cell + 6 * e, &rows[e]);
    kit_report_fold(p, "the table of all encodings");
    kit_report_text(p, "Parameters are those of a model of %d channels, %d heads and %d layers for "
                    "%d tokens.", set->channels, set->heads, set->layers, set->context);
    kit_report_table(p, &table);
    kit_report_unfold(p);
}

static void report_page(kit_report *p, const page *of)
{
    kit_text alt = { NULL, 0, 0 }, caption = { NULL, 0, 0 };
    kit_put(&alt, "%s: ", of->title);
    for (const char *at = of->note; *at; at++) kit_put(&alt, "%c", *at == '\n' ? ' ' : *at);
    if (of->again[0]) kit_put(&caption, "`build/gallery %s`", of->again);
    kit_report_picture(p, &of->picture, "", alt.data, caption.size ? caption.data : "");
    kit_text_free(&alt);
    kit_text_free(&caption);
}

static void report_group(kit_report *p, const gallery *g, int where)
{
    kit_report_heading(p, groups[where].title);
    if (groups[where].reads[0]) kit_report_text(p, "%s", groups[where].reads);
    for (int i = 0; i < g->count; i++)
        if (in_group(&g->page[i], where)) report_page(p, &g->page[i]);
}

static void report_all(kit_report *p, const gallery *g, const row *rows, const settings *set)
{
    kit_report_text(p, "A transformer sees a set of tokens: where they stand has to be put in. An "
                    "encoding may **add a vector to the embedding**, **turn queries and keys**, or "
                    "**add a number to the scores**. Here is what each of them puts in, for a "
                    "short text. What is learned is drawn as it starts.");
    kit_report_picture(p, &g->sheet, "", "contact sheet of every encoding", "All of them. Each "
                       "follows below with its axes, and with the flags that draw it again.");
    report_list(p, rows, set);
    for (int where = POSENC_NOWHERE; where <= POSENC_SCORE; where++) report_group(p, g, where);
    kit_report_heading(p, "Variants");
    kit_report_text(p, "The same names with other keys. Rescaled frequencies make a rope that was "
                    "trained on 64 positions reach 256.");
    for (int i = 0; i < g->count; i++) if (g->page[i].extra) report_page(p, &g->page[i]);
}

static int save_report(const gallery *g, const row *rows, const settings *set, kit_error *why)
{
    kit_report p;
    kit_text again = { NULL, 0, 0 };
    kit_report_begin(&p, "Where does position enter?");
    if (!KIT_HAS_PNG)
        kit_report_text(&p, "There are %s. Small pictures are SVG instead.", KIT_NO_PNG);
    if (set->specs.count == 0) report_all(&p, g, rows, set);
    for (int i = 0; set->specs.count && i < g->count; i++) report_page(&p, &g->page[i]);
    kit_put_string(&again, "build/gallery");
    for (int i = 0; i < set->specs.count; i++) kit_put(&again, " --spec %s", set->specs.item[i]);
    if (set->specs.count == 0) kit_put_string(&again, "\nbuild/gallery --spec rope:base=100");
    kit_report_heading(&p, "The same pictures again, or others");
    kit_report_code(&p, again.data);
    kit_text_free(&again);
    return kit_report_save(&p, set->out, why);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void print_pages(const gallery *g, const settings *set)
{
    for (int i = 0; i < g->count && set->specs.count; i++)
        if (g->page[i].picture.file[0]) printf("%s/%s\n", set->out, g->page[i].picture.file);
    if (!set->specs.count)
        printf("%d pictures in %s, all rows of the table on %s\n", g->count, set->out,
               g->sheet.file[0] ? g->sheet.file : "no sheet: it would be too large a file");
}

static int run(gallery *g, const settings *set, kit_error *why)
{
    static row rows[POSENC_ENCODING_COUNT];
    rows_make(rows, set);
    if (!kit_make_folders(set->out, why)) return FAILED;
    int done = set->specs.count ? add_asked(g, set, why) : add_all(g, set, why);
    if (kit_stopped()) return STOPPED;
    done = done && save_report(g, rows, set, why)
        && (set->specs.count || save_csv(g, rows, set->out, why));
    if (done && !set->quiet) print_pages(g, set);
    return done ? DONE : FAILED;
}

/* A spec that cannot be is a word on the command line, and said before anything is written. */
static int specs_are_fine(kit_args *a, const settings *set)
{
    kit_error why;
    if (set->shaped && set->specs.count && (set->context > LONGEST || set->channels > LONGEST))
        return kit_usage(a, "a picture shows %d tokens and channels at most, not %d and %d",
                         LONGEST, set->context, set->channels);
    for (int i = 0; i < set->specs.count; i++) {
        if (!*set->specs.item[i]) return kit_usage(a, "--spec is empty; name an encoding");
        display d = display_of(set, i);
        if (!display_fits(&d, &why)) return kit_usage(a, "%s", why.text);
    }
    return 1;
}

static int act(gallery *g, const settings *set)
{
    kit_error why;
    why.text[0] = 0;
    int code = set->list ? print_list(set) : set->check ? run_check(set, &why)
                                                              : run(g, set, &why);
    if (code == STOPPED) fprintf(stderr, "gallery: stopped before the report was written\n");
    else if (why.text[0]) fprintf(stderr, "gallery: %s\n", why.text);
    if (code == DONE && !set->list && !set->check) {
        if (!KIT_HAS_PNG) printf("%s\n", KIT_NO_PNG);
        printf("report: %s/report.html\n", set->out);
    }
    return fflush(stdout) != 0 && code == DONE ? FAILED : code;
}

int main(int argc, char **argv)
{
    static settings set;
    static gallery g;
    set.out = "results/gallery";
    set.golden = "tests/golden/catalogue.safetensors";
    set.channels = 128;
    set.heads = 8;
    set.layers = 3;
    set.context = 512;
    kit_option options[] = {
        kit_several("spec",    &set.specs, "SPEC",      "draw this, not all; may be repeated"),
        kit_word("out",        &set.out, "DIR",         "folder for what is written"),
        kit_switch("list",     &set.list,               "print the table instead of drawing"),
        kit_switch("markdown", &set.markdown,           "the table as Markdown"),
        kit_int("channels",    &set.channels, 1, 65536, "of the model the table counts for"),
        kit_int("heads",       &set.heads, 1, 1024,     "its heads"),
        kit_int("layers",      &set.layers, 1, 1024,    "its layers"),
        kit_int("context",     &set.context, 1, 1 << 20, "its longest text, in tokens"),
        kit_switch("causal",   &set.causal,             "tokens see the past only"),
        kit_switch("check",    &set.check,              "hold every encoding against its oracle"),
        kit_word("golden",     &set.golden, "FILE",     "the oracle's numbers for --check"),
        kit_switch("quiet",    &set.quiet,              "print where the report is, no more"),
        kit_no_more()
    };
    kit_args a;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    a.program = "gallery";
    a.summary = "gallery: a picture of every positional encoding, and a table of them";
    a.options = options;
    a.closing = "With --spec the sizes are those of the picture, if they are given.\n\n"
                "  gallery --spec rope:base=100 --spec rope:base=1000000\n"
                "  gallery --spec learned+alibi --context 32 --channels 64 --heads 4\n"
                "  gallery --list --markdown --channels 768 --heads 12 --layers 12";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    set.list |= set.markdown;
    if (set.list && set.specs.count)
        return kit_usage(&a, "--list is a table of all rows; --spec draws"), a.exit_code;
    if (set.list && set.check)
        return kit_usage(&a, "take --list or --check, not both"), a.exit_code;
    if (set.channels % set.heads)
        return kit_usage(&a, "--heads %d does not divide --channels %d", set.heads, set.channels),
               a.exit_code;
    set.shaped = kit_given(&a, "channels") || kit_given(&a, "heads") || kit_given(&a, "context");
    if (!specs_are_fine(&a, &set)) return a.exit_code;
    kit_catch_stop();
    int code = act(&g, &set);
    gallery_free(&g);
    return code;
}
