/* marker: can a transformer finish a template, and what does the positional encoding add?

       build/marker grid --quick                      a first look, about a minute
       build/marker grid                              eight encodings, three depths, three seeds
       build/marker grid --blocks both                with the published comparison beside it
       build/marker train --pe rope --depth 1
       build/marker generate                          the sequences as CSV
       build/marker --help

   START, a, a+1, a+2, MIDDLE, a+3, a+4, END and zeros up to 64: what comes next? Only `a` cannot be
   known, which puts the floor of the mean loss at ln(71)/64 = 0.0666. What to look for: how near
   the floor each encoding comes in equal blocks, which positions the others miss, and what becomes
   of a published comparison in which the blocks were not equal.

   Writes into --out: grid.csv, history.csv, positions.csv, timing.csv, a curve and a table of
   positions for each depth (SVG), report.html, report.md, and runs/ with a checkpoint for each run;
   the same again in published/ for the published blocks. Same seed and settings: every file but
   timing.csv has the same bytes, also when the run was stopped (Ctrl-C, power cut) and went on with
   --resume. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/threads.h"
#include "marker/report.h"

/* ---- families of runs ------------------------------------------------------------------------ */

/* alone: the run's files go into --out itself, not into a folder of their own inside it */
static int run_folder(run *r, const family *f, int alone, kit_error *why)
{
    char slug[128], name[200];
    kit_spec_slug(slug, sizeof slug, r->spec);
    snprintf(name, sizeof name, "runs/%s-depth%d-seed%" PRIu64, slug, r->depth, r->seed);
    if (!alone) return kit_join(r->folder, f->folder, name, why);
    snprintf(r->folder, sizeof r->folder, "%s", f->folder);
    return 1;
}

static int family_prepare(family *f, const settings *s, int published, spec_text *spec, int count,
                          int alone, kit_error *why)
{
    memset(f, 0, sizeof *f);
    f->set = s;
    f->published = published;
    for (int i = 0; i < count; i++)
        if (!published || is_published(spec[i])) f->spec[f->specs++] = spec[i];
    f->r = (run *)kit_new((size_t)family_runs(f), sizeof *f->r);
    if (alone || !published) snprintf(f->folder, sizeof f->folder, "%s", s->out);
    else if (!kit_join(f->folder, s->out, "published", why)) return 0;
    for (int i = 0; i < family_runs(f); i++) {
        run *r = &f->r[i];
        r->set = s;
        r->published = published;
        r->spec = f->spec[i / s->seeds / s->depths.count];
        r->depth = s->depths.item[i / s->seeds % s->depths.count];
        r->seed = s->seed + (uint64_t)(i % s->seeds);
        run_prepare(r);
        if (!run_folder(r, f, alone, why)) return 0;
    }
    return 1;
}

static void family_free(family *f)
{
    for (int i = 0; f->r && i < family_runs(f); i++) run_forget(&f->r[i]);
    free(f->r);
}

static long family_work(const family *f)
{
    long sum = 0;
    for (int i = 0; i < family_runs(f); i++)
        sum += run_work(&f->r[i], (long)steps_per_epoch(&f->r[i]) * last_epoch(f->set));
    return sum;
}

static void print_run(const run *r)
{
    double seconds = 0;
    if (r->set->quiet) return;
    for (int e = 0; e < r->epochs_done; e++) seconds += r->seconds[e];
    printf("%-11s depth %-3d seed %-3" PRIu64 " test loss %.4f after %d epoch%s, %.1f s\n", r->spec,
           r->depth, r->seed, r->row[r->epochs_done - 1].test_loss, r->epochs_done,
           r->epochs_done > 1 ? "s" : "", seconds);
    fflush(stdout);
}

static int family_train(family *f, pace *p, kit_error *why)
{
    int code = DONE;
    if (!kit_make_folders(f->folder, why)) return FAILED;
    if (!f->set->quiet) printf("%s\n", block_words(f));
    for (int i = 0; i < family_runs(f) && code == DONE; i++) {
        code = do_run(&f->r[i], p, 0, why);
        run_close(&f->r[i]);
        if (code == DONE) print_run(&f->r[i]);
        if (code == DONE && !save_progress(f, why)) code = FAILED;
    }
    return code;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int finish(int code, const settings *s, const kit_error *why)
{
    if (code == FAILED) fprintf(stderr, "marker: %s\n", why->text);
    if (code == STOPPED)
        fprintf(stderr, "marker: stopped, all is saved in %s; add --resume to go on\n", s->out);
    if (code == DONE) printf("\nreport: %s/report.html\n", s->out);
    if (fflush(stdout) != 0) code = FAILED;
    return code;
}

static int do_grid(const settings *s, spec_text *spec, int count)
{
    kit_error why;
    family fair, old;
    int with_fair = strcmp(s->blocks, "published") != 0, with_old = strcmp(s->blocks, "fair") != 0;
    int code = DONE;
    if (!family_prepare(&fair, s, 0, spec, with_fair ? count : 0, 0, &why)
        || !family_prepare(&old, s, 1, spec, with_old ? count : 0, 0, &why)) code = FAILED;
    long work = family_work(&fair) + family_work(&old);
    pace p = { kit_progress_begin("steps x layers", work, 0, s->quiet), 0 };
    if (code == DONE && with_fair) code = family_train(&fair, &p, &why);
    if (code == DONE && with_old) code = family_train(&old, &p, &why);
    if (code == DONE
        && !leave_results(with_fair ? &fair : NULL, with_old ? &old : NULL, "grid", NULL, &why))
        code = FAILED;
    if (code == DONE && with_fair) print_table(&fair);
    if (code == DONE && with_old) print_table(&old);
    family_free(&fair);
    family_free(&old);
    return finish(code, s, &why);
}

static int do_train(const settings *s, spec_text *spec)
{
    kit_error why;
    family f;
    sample said;
    int published = strcmp(s->blocks, "published") == 0;
    int code = family_prepare(&f, s, published, spec, 1, 1, &why) ? DONE : FAILED;
    if (code == DONE) {
        pace p = { kit_progress_begin(spec[0], family_work(&f), 0, s->quiet), 0 };
        if (!s->quiet)
            printf("%s, depth %d, %s, floor %.4f\n", spec[0], f.r->depth, block_words(&f),
                   marker_floor(surprises(&f, spec[0])));
        code = do_run(f.r, &p, 1, &why);
    }
    if (code == DONE
        && !(sample_take(&said, f.r, &why)
             && leave_results(published ? NULL : &f, published ? &f : NULL, "train", &said, &why)))
        code = FAILED;
    if (code == DONE) {
        printf("\ntest loss %.4f; the first test sequences, with ? where the answer is wrong:\n",
               f.r->row[f.r->epochs_done - 1].test_loss);
        sample_print(&said);
    }
    family_free(&f);
    return finish(code, s, &why);
}

static int save_sequences(const marker_data *d, const char *folder, const char *name,
                          kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, "sequence");
    for (int p = 0; p < MARKER_LENGTH; p++) kit_put(&t, ",p%d", p);
    kit_csv_end(&t);
    for (int i = 0; i < d->count; i++) {
        kit_csv_int(&t, i);
        for (int p = 0; p < MARKER_LENGTH; p++) kit_csv_int(&t, d->tokens[i * MARKER_LENGTH + p]);
        kit_csv_end(&t);
    }
    int done = kit_save_in(folder, name, &t, why);
    kit_text_free(&t);
    if (done) printf("%s/%s: %d sequences\n", folder, name, d->count);
    return done;
}

static int do_generate(const settings *s)
{
    kit_error why;
    marker_data train, test;
    marker_data_split(&train, &test, s->seed, s->sequences);
    int done = kit_make_folders(s->out, &why) && save_sequences(&train, s->out, "train.csv", &why)
            && save_sequences(&test, s->out, "test.csv", &why);
    marker_data_free(&train);
    marker_data_free(&test);
    if (!done) fprintf(stderr, "marker: %s\n", why.text);
    return done && fflush(stdout) == 0 ? DONE : FAILED;
}

/* ---- the command line ------------------------------------------------------------------------ */

/* "1,4,16": rising whole numbers */
static int read_numbers(kit_args *a, numbers *list, const char *flag, const char *text, int most)
{
    const char *at = text;
    list->count = 0;
    do {
        char *end;
        long v = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
        if (v < 1 || v > most || (*end != ',' && *end != 0))
            return kit_usage(a,
                             "--%s takes whole numbers from 1 to %d with commas between, not '%s'",
                             flag, most, text);
        if (list->count == MOST_NUMBERS)
            return kit_usage(a, "--%s takes %d numbers at most", flag, MOST_NUMBERS);
        if (list->count > 0 && v <= list->item[list->count - 1])
            return kit_usage(a, "--%s wants each number larger than the one before, not '%s'", flag,
                             text);
        list->item[list->count++] = (int)v;
        at = *end ? end + 1 : NULL;
    } while (at);
    return 1;
}

static int check_blocks(kit_args *a, const settings *s, spec_text *spec, int count)
{
    int known = 0;
    for (int i = 0; i < count; i++) {
        known += is_published(spec[i]);
        if (!is_published(spec[i]) && strcmp(s->blocks, "published") == 0)
            return kit_usage(a,
                             "--blocks published has sinusoidal, sininit, learned, rope and lrope, "
                             "without keys, not %s",
                             spec[i]);
    }
    if (known == 0 && strcmp(s->blocks, "both") == 0)
        return kit_usage(a,
                         "--blocks both needs one of sinusoidal, sininit, learned, rope and lrope");
    return 1;
}

/* What is known to be impossible before anything is made. */
static int check_models(kit_args *a, const settings *s, spec_text *spec, int count)
{
    for (int published = 0; published < 2; published++) {
        if (strcmp(s->blocks, published ? "fair" : "published") == 0) continue;
        for (int i = 0; i < count * s->depths.count; i++) {
            const char *one = spec[i / s->depths.count];
            net_plan p = run_plan(s, published, one, s->depths.item[i % s->depths.count], s->seed);
            kit_error why;
            if (published && !is_published(one)) continue;
            if (!net_check(&p, &why)) return kit_usage(a, "%s", why.text);
            if (!kit_spec_reaches(a, one, MARKER_LENGTH)) return 0;
        }
    }
    return 1;
}

enum { TRAIN, GRID, GENERATE };

static int check_single(kit_args *a, const settings *s, int count)
{
    if (count > 1)
        return kit_usage(a, "train takes one encoding, not %d; grid takes several", count);
    if (s->depths.count > 1 || s->epochs.count > 1)
        return kit_usage(a, "train takes one --depth and one --epochs; grid takes several");
    if (s->seeds > 1) return kit_usage(a, "train takes one seed; grid takes several");
    if (strcmp(s->blocks, "both") == 0)
        return kit_usage(a, "train takes --blocks fair or published; grid takes both");
    return 1;
}

/* Reads the lists and refuses what cannot be. Returns how many encodings; 0 after a mistake. */
static int check_settings(kit_args *a, settings *s, kit_list *pe, spec_text *spec)
{
    int single = a->command == TRAIN, quick = s->quick;
    if (!s->depth_text) s->depth_text = single ? "4" : quick ? "1,4" : "1,4,16";
    if (!s->epochs_text) s->epochs_text = single ? (quick ? "4" : "16") : quick ? "1,4" : "1,4,16";
    if (!kit_given(a, "seeds")) s->seeds = single || quick ? 1 : 3;
    if (pe->count == 0) {
        pe->count = 1;
        pe->item[0] = single ? "learned"
                    : strcmp(s->blocks, "published") == 0 ? "sinusoidal sininit learned rope lrope"
                    : "sinusoidal sininit learned rope lrope none alibi t5";
    }
    kit_say_precision(s->precision, posenc_bf16_unit());
    if (strcmp(s->device, "cuda") == 0)
        return kit_usage(a,
                         "--device cuda: this program was built without CUDA; auto and cpu work");
    if (!read_numbers(a, &s->depths, "depth", s->depth_text, 1024)
        || !read_numbers(a, &s->epochs, "epochs", s->epochs_text, 10000)) return 0;
    int count = kit_read_specs(a, pe, spec);
    if (count == 0 || (single && !check_single(a, s, count))) return 0;
    return check_blocks(a, s, spec, count) && check_models(a, s, spec, count) ? count : 0;
}

static void choose_folder(const kit_args *a, settings *s, spec_text *spec)
{
    static char folder[KIT_PATH];
    char slug[128];
    kit_spec_slug(slug, sizeof slug, spec[0]);
    if (s->out) return;
    s->out = folder;
    snprintf(folder, sizeof folder, "results/marker%s", a->command == GENERATE ? "/data" : "");
    if (a->command == TRAIN)
        snprintf(folder, sizeof folder, "results/marker/%s-%s-depth%d", s->blocks, slug,
                 s->depths.item[0]);
}

static settings default_settings(void)
{
    settings s;
    memset(&s, 0, sizeof s);
    s.batch = 32;
    s.d_model = 64;
    s.heads = 4;
    s.ffn = 128;
    s.sequences = 1000;
    s.seeds = 3;
    s.lr = 1e-3;
    s.seed = 1;
    s.blocks = "fair";
    s.device = "auto";
    s.precision = "fp32";
    return s;
}

int main(int argc, char **argv)
{
    static const kit_command commands[] = {
        { "train", "one encoding at one depth" },
        { "grid", "encodings x depths x epochs x seeds" },
        { "generate", "the sequences as CSV" },
        { NULL, NULL }
    };
    static spec_text spec[KIT_LIST_ROOM];
    settings s = default_settings();
    kit_list pe = { { NULL }, 0 };
    kit_option options[] = {
        kit_several("pe", &pe, "SPEC", "name[:key=value,...][+...]; blanks between several"),
        kit_word("depth", &s.depth_text, "N,N", "blocks [grid: 1,4,16; train: 4]"),
        kit_word("epochs", &s.epochs_text, "N,N",
                 "when to measure; trains to the last [1,4,16; train: 16]"),
        kit_choice("blocks", &s.blocks, "fair|published|both", "the same for all, or as published"),
        kit_int("batch", &s.batch, 1, 65536, "sequences per step"),
        kit_real("lr", &s.lr, 0, 10, "learning rate, constant"),
        kit_real("dropout", &s.dropout, 0, 1, "in the fair blocks: map, branches, FFN"),
        kit_int("d-model", &s.d_model, 1, 8192, "width of the model"),
        kit_int("heads", &s.heads, 1, 1024, "attention heads; must divide the width"),
        kit_int("ffn", &s.ffn, 1, 65536, "hidden width of a block's FFN"),
        kit_int("sequences", &s.sequences, 10, 1000000, "how many; one in five is for the test"),
        kit_u64("seed", &s.seed, "of data, weights, order and dropout"),
        kit_int("seeds", &s.seeds, 1, 100, "seeds from --seed on; quick and train: 1"),
        kit_int("threads", &s.threads, 0, 1024, "0: all cores; changes no figure"),
        kit_choice("precision", &s.precision, "fp32|bf16", "of products; bf16: fair blocks"),
        kit_choice("device", &s.device, "auto|cpu|cuda", "where to compute"),
        kit_word("out", &s.out, "DIR", "[results/marker; train, generate: a folder in it]"),
        kit_switch("resume", &s.resume, "go on from the checkpoints in --out"),
        kit_switch("quick", &s.quick, "one seed, depth 1,4, 4 epochs, for a first look"),
        kit_switch("quiet", &s.quiet, "print the final table only"),
        kit_no_more()
    };
    kit_args a;
    kit_wait_patiently(argv);
    memset(&a, 0, sizeof a);
    a.program = "marker";
    a.summary = "marker: can a transformer finish a template, and what does the encoding add?";
    a.commands = commands;
    a.options = options;
    a.closing =
        "Without --pe, train takes learned and grid takes sinusoidal sininit learned rope lrope\n"
        "none alibi t5, of which the published blocks have the first five.\n\n"
        "  marker grid --quick\n"
        "  marker grid --blocks both --seeds 3\n"
        "  marker train --pe \"learned+alibi\" --depth 1 --epochs 4";
    if (!kit_args_read(&a, argc, argv)) return a.exit_code;
    int count = check_settings(&a, &s, &pe, spec);
    if (count == 0) return a.exit_code;
    choose_folder(&a, &s, spec);
#ifdef _OPENMP
    if (s.threads > 0) omp_set_num_threads(s.threads);
#endif
    kit_catch_stop();
    if (a.command == GENERATE) return do_generate(&s);
    return a.command == TRAIN ? do_train(&s, spec) : do_grid(&s, spec, count);
}
