/* bench/curves.h - does bf16 learn what fp32 learns? The same training twice, and once more

   pattern   demos/pattern's model and balanced data, every sequence new
   marker    demos/marker's fair blocks at depth 4, every sequence new
   text      the language model micro over the bytes of a file (posenc.h itself unless told),
             windows drawn from its first nine tenths; the last tenth is held out

   A difference between two curves means nothing by itself: so a third one, in fp32 again, begins
   with other weights. Where bf16 lies between the two, rounding matters less than the seed. */
#ifndef BENCH_CURVES_H
#define BENCH_CURVES_H

#include "bench/tables.h"
#include "pattern/tasks.h"

enum { CURVE_POINTS = 40, HELD_OUT_BATCHES = 8, LESSON_CURVES = 3, TEXT_MOST = 64 << 20 };

typedef struct curve {
    const char *name;
    int precision, seed, n;                /* precision: FP32 or BF16                             */
    double x[CURVE_POINTS], y[CURVE_POINTS];
    double held_out, seconds;
} curve;

typedef struct lesson lesson;
struct lesson {
    const char *slug, *title, *says;
    work work;                             /* which of the bench's models                         */
    int batch, steps;
    double rate;
    void (*fill)(const lesson *l, stage *s, uint32_t purpose, uint64_t index);
    kit_text text;                         /* of a language model                                 */
    curve curve[LESSON_CURVES];
};

/* ---- data ------------------------------------------------------------------------------------ */

static void fill_pattern(const lesson *l, stage *s, uint32_t purpose, uint64_t index)
{
    kit_random r = kit_random_open(1, purpose, index);
    (void)l;
    for (int i = 0; i < s->batch.B; i++)
        task_make_balanced(s->tokens + i * s->batch.T, &s->targets[i], &r, s->batch.T, 20);
}

static void fill_marker(const lesson *l, stage *s, uint32_t purpose, uint64_t index)
{
    kit_random r = kit_random_open(1, purpose, index);
    (void)l;
    for (int i = 0; i < s->batch.B; i++) {
        int *tokens = s->tokens + i * MARKER_LENGTH;
        marker_sequence(tokens, MARKER_LEAST + kit_random_below(&r, MARKER_VALUES));
        marker_targets(s->targets + i * MARKER_LENGTH, tokens);
    }
}

static void fill_text(const lesson *l, stage *s, uint32_t purpose, uint64_t index)
{
    kit_random r = kit_random_open(1, purpose, index);
    int T = s->batch.T, all = (int)l->text.size, held = all / 10;
    int from = purpose == KIT_RANDOM_TRAIN ? 0 : all - held;
    int places = (purpose == KIT_RANDOM_TRAIN ? all - held : held) - T;
    for (int i = 0; i < s->batch.B; i++) {
        const char *at = l->text.data + from + kit_random_below(&r, places);
        for (int t = 0; t < T; t++) {
            s->tokens[i * T + t] = (unsigned char)at[t];
            s->targets[i * T + t] = (unsigned char)at[t + 1];
        }
    }
}

/* ---- training -------------------------------------------------------------------------------- */

static int curve_open(stage *s, const lesson *l, const curve *c, kit_error *why)
{
    posenc_config config = step_config(&l->work);
    posenc_optimizer o = step_optimizer(&l->work);
    memset(s, 0, sizeof *s);
    config.batch = l->batch;
    config.seed = (uint64_t)c->seed;
    config.precision = c->precision == BF16 ? POSENC_BF16 : POSENC_FP32;
    return step_start(s, &config, &o, why);
}

static int curve_step(stage *s, const lesson *l, int step, double *loss)
{
    double warm = fmin(1, (step + 1) / 20.0);
    l->fill(l, s, KIT_RANDOM_TRAIN, (uint64_t)step);
    return posenc_model_train(s->model, &s->batch, loss, &s->wrong) == POSENC_OK
        && posenc_model_update(s->model, &s->optimizer, warm * l->rate, NULL, &s->wrong)
               == POSENC_OK;
}

static int curve_held_out(stage *s, const lesson *l, curve *c)
{
    double loss;
    c->held_out = 0;
    for (int i = 0; i < HELD_OUT_BATCHES; i++) {
        l->fill(l, s, KIT_RANDOM_TEST, (uint64_t)i);
        if (posenc_model_loss(s->model, &s->batch, &loss, &s->wrong) != POSENC_OK) return 0;
        c->held_out += loss / HELD_OUT_BATCHES;
    }
    return 1;
}

/* A point is the mean over the steps since the last one. */
static int curve_train(stage *s, const lesson *l, curve *c, kit_progress *bar, long done)
{
    double began = kit_seconds(), loss = 0, sum = 0;
    int since = 0;
    for (int i = 0; i < l->steps && !kit_stopped(); i++) {
        if (!curve_step(s, l, i, &loss)) return 0;
        sum += loss;
        since++;
        kit_progress_at(bar, done + i + 1, l->slug);
        if ((i + 1) * CURVE_POINTS / l->steps == c->n) continue;
        c->x[c->n] = i + 1;
        c->y[c->n++] = sum / since;
        sum = since = 0;
    }
    c->seconds = kit_seconds() - began;
    return curve_held_out(s, l, c);
}

static int curve_run(lesson *l, curve *c, kit_progress *bar, long done, kit_error *why)
{
    stage s;
    int fine = curve_open(&s, l, c, why);
    if (fine && !curve_train(&s, l, c, bar, done)) fine = kit_fail(why, "%s", s.wrong.text);
    stage_close(&s);
    return fine;
}

/* ---- the lessons ----------------------------------------------------------------------------- */

enum { PATTERN_LESSON, MARKER_LESSON, TEXT_LESSON, LESSONS };

static lesson lesson_of(const char *slug, const char *title, const char *says, int model,
                        int depth, const char *spec, int batch, double rate)
{
    static const char *const names[LESSON_CURVES] = { "fp32", "bf16", "fp32, other weights" };
    lesson l;
    memset(&l, 0, sizeof l);
    l.slug = slug;
    l.title = title;
    l.says = says;
    l.work.form = model;
    l.work.size[0] = depth;
    l.work.spec = spec;
    l.batch = batch;
    l.rate = rate;
    for (int i = 0; i < LESSON_CURVES; i++) {
        l.curve[i].name = names[i];
        l.curve[i].precision = i == 1 ? BF16 : FP32;
        l.curve[i].seed = i == 2 ? 2 : 1;
        l.curve[i].held_out = NAN;
    }
    return l;
}

static void list_lessons(lesson l[LESSONS], int steps)
{
    l[PATTERN_LESSON] = lesson_of("pattern", "Pattern",
        "Which of three pairs of values stands in its places: `learned`, 3 layers, 128 channels, "
        "32 sequences of 32 tokens a step.", PLAIN_MODEL, 0, "learned", 32, 5e-4);
    l[PATTERN_LESSON].fill = fill_pattern;
    l[MARKER_LESSON] = lesson_of("marker", "Marker",
        "The next token of a template: `rope`, 4 layers, 64 channels, 32 sequences of 64 tokens a "
        "step.", MARKER_MODEL, 4, "rope", 32, 1e-3);
    l[MARKER_LESSON].fill = fill_marker;
    l[TEXT_LESSON] = lesson_of("text", "Text",
        "The next byte of a text: `rope`, 4 layers, 256 channels, 4 windows of 256 bytes a step.",
        MICRO_MODEL, 0, "rope", 4, 1e-3);
    l[TEXT_LESSON].fill = fill_text;
    for (int i = 0; i < LESSONS; i++) l[i].steps = steps;
}

static int read_text(lesson *l, const settings *s, const char *program, kit_error *why)
{
    char path[KIT_PATH];
    if (s->text) snprintf(path, sizeof path, "%.*s", KIT_PATH - 1, s->text);
    else find_file(path, program, "posenc.h");
    if (!kit_read_file(&l->text, path, TEXT_MOST, why)) return 0;
    if (l->text.size >= 10000) return 1;
    return kit_fail(why, "%s has %zu bytes; a text to learn from needs 10,000", path, l->text.size);
}

/* ---- output ---------------------------------------------------------------------------------- */

enum { CURVE_COLUMNS = 5 };
static const char *const curve_headings[CURVE_COLUMNS] = { "training", "precision",
                                                           "last steps", "held out", "seconds" };

static void say_curve(cell_text cell[CURVE_COLUMNS], const lesson *l, const curve *c)
{
    double last = c->n ? c->y[c->n - 1] : NAN;
    snprintf(cell[0], CELL, "%s", l->slug);
    snprintf(cell[1], CELL, "%s", c->name);
    snprintf(cell[2], CELL, "%.4f", last);
    snprintf(cell[3], CELL, "%.4f", c->held_out);
    snprintf(cell[4], CELL, "%.1f", c->seconds);
}

static void print_curves(const lesson *l)
{
    cell_text cell[CURVE_COLUMNS];
    printf("%-9s %-20s %11s %10s %9s\n", curve_headings[0], curve_headings[1], curve_headings[2],
           curve_headings[3], curve_headings[4]);
    for (int i = 0; i < LESSONS; i++)
        for (int k = 0; k < LESSON_CURVES; k++) {
            if (!l[i].curve[k].n) continue;
            say_curve(cell, &l[i], &l[i].curve[k]);
            printf("%-9s %-20s %11s %10s %9s\n", cell[0], cell[1], cell[2], cell[3], cell[4]);
        }
}

static void draw_lesson(kit_text *svg, const lesson *l)
{
    kit_series series[LESSON_CURVES];
    kit_chart c;
    memset(&c, 0, sizeof c);
    for (int i = 0; i < LESSON_CURVES; i++) {
        const curve *k = &l->curve[i];
        kit_series one = { k->name, k->x, k->y, k->n, i == 2 };
        series[i] = one;
    }
    c.title = l->title;
    c.x_label = "training steps";
    c.y_label = "loss";
    c.series = series;
    c.count = LESSON_CURVES;
    c.whole_x = 1;
    kit_chart_svg(svg, &c);
}

static int report_lesson(kit_report *p, const lesson *l, const char *folder, kit_error *why)
{
    cell_text cell[LESSON_CURVES][CURVE_COLUMNS];
    const char *words[LESSON_CURVES * CURVE_COLUMNS];
    kit_table table = { curve_headings, words, 0, CURVE_COLUMNS, 0, NULL };
    kit_text svg = { NULL, 0, 0 };
    char file[64];
    for (int i = 0; i < LESSON_CURVES; i++) {
        if (!l->curve[i].n) continue;
        say_curve(cell[i], l, &l->curve[i]);
        for (int c = 0; c < CURVE_COLUMNS; c++) words[table.rows * CURVE_COLUMNS + c] = cell[i][c];
        table.rows++;
    }
    if (table.rows == 0) return 1;
    draw_lesson(&svg, l);
    snprintf(file, sizeof file, "curves-%s.svg", l->slug);
    kit_report_heading(p, l->title);
    kit_report_text(p, "%s", l->says);
    kit_report_svg(p, &svg, file, l->title, "");
    kit_report_table(p, &table);
    int done = kit_save_in(folder, file, &svg, why);
    kit_text_free(&svg);
    return done;
}

static int save_curves(const lesson *l, const settings *s, kit_error *why)
{
    kit_text t = { NULL, 0, 0 };
    kit_csv_head(&t, "training,precision,seed,step,loss");
    for (int i = 0; i < LESSONS; i++)
        for (int k = 0; k < LESSON_CURVES; k++)
            for (int n = 0; n < l[i].curve[k].n; n++) {
                kit_csv_text(&t, l[i].slug);
                kit_csv_text(&t, l[i].curve[k].precision == BF16 ? "bf16" : "fp32");
                kit_csv_int(&t, l[i].curve[k].seed);
                kit_csv_real(&t, l[i].curve[k].x[n], 0);
                kit_csv_real(&t, l[i].curve[k].y[n], 6);
                kit_csv_end(&t);
            }
    int done = kit_save_in(s->out, "curves.csv", &t, why);
    kit_text_free(&t);
    return done;
}

static int save_curves_report(const lesson *l, const settings *s, const machine *m, kit_error *why)
{
    kit_report p;
    kit_text line = { NULL, 0, 0 };
    kit_error ignored;
    int done = 1;
    machine_say(&line, m);
    kit_report_begin(&p, "Does bf16 learn what fp32 learns?");
    kit_report_text(&p, "%s; bf16 by %s. The same weights and batches in fp32 and in bf16 (linear "
                    "layers multiply in bfloat16, sums and weights stay float), and fp32 once more "
                    "from other weights: how far two seeds lie apart is the measure of how far two "
                    "precisions may.", line.data, m->bf16);
    for (int i = 0; i < LESSONS && done; i++) done = report_lesson(&p, &l[i], s->out, why);
    kit_report_heading(&p, "The same again");
    kit_report_code(&p, s->command.data);
    kit_text_free(&line);
    return kit_report_save(&p, s->out, done ? why : &ignored) && done;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run_lessons(lesson *l, const settings *s, kit_error *why)
{
    long done = 0;
    kit_progress bar = kit_progress_begin("curves", (long)LESSONS * LESSON_CURVES * s->steps, 0,
                                          s->quiet);
    int fine = 1;
    for (int i = 0; i < LESSONS * LESSON_CURVES && fine && !kit_stopped(); i++) {
        lesson *own = &l[i / LESSON_CURVES];
        fine = curve_run(own, &own->curve[i % LESSON_CURVES], &bar, done, why);
        done += s->steps;
    }
    kit_progress_clear(&bar);
    return fine;
}

static int do_curves(machine *m, const settings *s, const char *program, kit_error *why)
{
    static lesson l[LESSONS];
    list_lessons(l, s->steps);
    m->copy = bench_copy_rate(COPY_BYTES, 0.3);
    machine_seen(m, bench_peak_of(bench_fp32_loop(), PEAK_SECONDS), 0);
    int done = read_text(&l[TEXT_LESSON], s, program, why) && run_lessons(l, s, why);
    if (done) print_curves(l);
    done = done && save_curves(l, s, why) && save_curves_report(l, s, m, why);
    kit_text_free(&l[TEXT_LESSON].text);
    return !done ? FAILED : kit_stopped() ? STOPPED : DONE;
}

#endif
