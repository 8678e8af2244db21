/* lm/results.h - `lm results`: do encodings fail for the reasons that people cite?

       lm results --quick              four encodings, one seed, about ten minutes
       lm results                      three seeds, about two hours on two cores
       lm results --only words         E7 why sin-only, binary and decimal work or fail
       lm results --only sums          E5 addition, longer than ever seen
       lm results --only distance      E6 finding a key, further than ever seen

   Each claim stands beside what was published or is expected by theory and what came out here, with
   a verdict by a rule that is fixed in the code. Writes into --out: report.html, report.md, CSV
   tables, charts as SVG, and runs/ with a checkpoint and a file of numbers for each trial, so that
   --resume goes on after kill -9 and ends in the same bytes. */
#ifndef LM_RESULTS_H
#define LM_RESULTS_H

#include "lm/distance.h"
#include "lm/sums.h"
#include "lm/words.h"

/* From the processor time of a step on one core (words 0.17 s, sums 0.05 s, distance 0.08 s), two
   cores being 1.8 times as fast, and what is measured behind the training. */
#define LM_RESULTS_COST                                                                            \
    "On two idle cores of about 100 GFLOP/s each: words 55 minutes (69 models), sums 25 (21),\n"   \
    "distance 25 (27), about 1 h 45 min in all; with --quick 3 + 3 + 2 minutes (16 models).\n"

/* in the order of LM_WORDS, LM_SUMS, LM_DISTANCE */
static inline const lm_study *lm__results_study(int i)
{
    static const lm_study *const study[LM_STUDIES] = { &lm_words, &lm_sums, &lm_distance };
    return study[i];
}

static inline int lm__results_wanted(const lm_setup *s, int i)
{
    return !s->only || strcmp(s->only, lm__results_study(i)->name) == 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static inline int lm__results_clear(const lm_setup *s, const kit_lab *lab, kit_error *why)
{
    for (int i = 0; i < LM_STUDIES; i++)
        if (lm__results_wanted(s, i) && !lm_study_clear(s, lm__results_study(i), lab, why))
            return 0;
    return 1;
}

static inline int lm__results_each(const lm_setup *s, kit_lab *lab, kit_error *why)
{
    int code = DONE;
    for (int i = 0; i < LM_STUDIES && code == DONE; i++) {
        if (!lm__results_wanted(s, i)) continue;
        code = lm_study_run(s, lm__results_study(i), lab, why);
        kit_progress_clear(&lab->bar);
        if (code == DONE) lm__results_study(i)->print(s);
        fflush(stdout);
    }
    return code;
}

static inline int lm__results_open(lm_setup *s, const char *program, kit_error *why)
{
    if (!lm__results_wanted(s, LM_WORDS)) return 1;
    return kit_corpus_open(&s->corpus, s->text, program, why) && lm_words_suffices(s, why);
}

/* ---- the report ------------------------------------------------------------------------------ */

static inline void lm__results_say(char *text, size_t room)
{
    snprintf(text, room, "%d reproduced, %d different, %d not reproduced, %d not measured",
             kit_verdicts_told[KIT_REPRODUCED], kit_verdicts_told[KIT_DIFFERENT],
             kit_verdicts_told[KIT_NOT_REPRODUCED], kit_verdicts_told[KIT_NOT_MEASURED]);
}

static inline void lm__results_tell_begin(kit_report *p, const lm_setup *s)
{
    kit_report_text(p, "pos-enc-bench trains language models with eight encodings and contains no "
                       "result. Here are some, of small models on a small machine: what the "
                       "encodings do to a model of English text, to sums that are longer than any "
                       "in training, and to keys that are further away.");
    if (s->quick)
        kit_report_text(p, "This is the **quick** version, a first look: few encodings, one seed, "
                           "models that have hardly learned. The rules are those of the full run.");
}

static inline void lm__results_tell_end(kit_report *p, const lm_setup *s)
{
    char text[160];
    kit_text again = { NULL, 0, 0 };
    lm__results_say(text, sizeof text);
    kit_report_heading(p, "The verdicts");
    kit_report_text(p, "Of the claims above: %s. A claim is **reproduced** when the rule in it "
                       "holds, **different** when the direction is the same and the size is not. "
                       "The rules stand in the code and were there before the figures.", text);
    kit_put(&again, "build/lm results --seed %" PRIu64 " --seeds %d%s", s->seed, s->seeds,
            s->quick ? " --quick" : "");
    if (s->only) kit_put(&again, " --only %s", s->only);
    if (s->steps) kit_put(&again, " --steps %d", s->steps);
    for (int i = 0; i < s->pe.count; i++) kit_put(&again, " --pe \"%s\"", s->pe.item[i]);
    if (s->text) kit_put(&again, " --text \"%s\"", s->text);
    kit_report_heading(p, "The same figures again");
    kit_report_text(p, "On the same type of processor, with any number of threads:");
    kit_report_code(p, again.data);
    kit_text_free(&again);
}

static inline int lm__results_report(const lm_setup *s, kit_error *why)
{
    kit_report p;
    kit_error ignored;
    int done = 1;
    memset(kit_verdicts_told, 0, sizeof kit_verdicts_told);
    kit_report_begin(&p, "Do encodings fail for the reasons people cite?");
    lm__results_tell_begin(&p, s);
    for (int i = 0; i < LM_STUDIES && done; i++)
        if (lm__results_wanted(s, i)) done = lm__results_study(i)->report(&p, s, why);
    lm__results_tell_end(&p, s);
    return kit_report_save(&p, s->out, done ? why : &ignored) && done;
}

static inline int lm__results_finish(int code, const lm_setup *s, const kit_error *why)
{
    char text[160];
    lm__results_say(text, sizeof text);
    if (code == FAILED) fprintf(stderr, "lm results: %s\n", why->text);
    if (code == STOPPED)
        fprintf(stderr, "lm results: stopped, all is saved in %s; add --resume to go on\n", s->out);
    if (code == DONE) printf("\nverdicts: %s\nreport: %s/report.html\n", text, s->out);
    return fflush(stdout) == 0 ? code : FAILED;
}

static inline int lm__results_do(lm_setup *s, const char *program)
{
    kit_error why = { "" };
    kit_lab lab;
    long work = 0;
    memset(&lab, 0, sizeof lab);
    lab.program = program;
    lab.out = s->out;
    lab.resume = s->resume;
    lab.quiet = s->quiet;
    int code = lm__results_open(s, program, &why) ? DONE : FAILED;
    for (int i = 0; i < LM_STUDIES && code == DONE; i++) {
        if (!lm__results_wanted(s, i)) continue;
        lm_study_room(s, lm__results_study(i));
        work += lm_study_work(s, lm__results_study(i));
    }
    if (code == DONE && !lm__results_clear(s, &lab, &why)) code = FAILED;
    lab.resume = 1;          /* what is there now is of this run, or was asked for */
    lab.bar = kit_progress_begin("steps", work, 0, s->quiet);
    if (code == DONE) code = lm__results_each(s, &lab, &why);
    kit_progress_clear(&lab.bar);
    if (code == DONE && !lm__results_report(s, &why)) code = FAILED;
    kit_corpus_free(&s->corpus);
    for (int i = 0; i < LM_STUDIES; i++) free(s->value[i]);
    return lm__results_finish(code, s, &why);
}

/* ---- the command line ------------------------------------------------------------------------ */

static inline int lm__results_check(kit_args *a, lm_setup *s)
{
    int words = lm__results_wanted(s, LM_WORDS);
    if ((kit_given(a, "pe") || kit_given(a, "text")) && !words)
        return kit_usage(a, "--%s is for words; %s has its encodings and texts of its own",
                         kit_given(a, "pe") ? "pe" : "text", s->only);
    if (s->steps > 0 && s->steps < KIT_TRAIN_POINTS)
        return kit_usage(a, "--steps takes %d at least, not %d", KIT_TRAIN_POINTS, s->steps);
    if (!kit_given(a, "seeds") && s->quick) s->seeds = 1;
    return !words || lm_words_check(s, a);
}

static inline int lm_results_main(int argc, char **argv)
{
    static lm_setup s;
    kit_option options[] = {
        kit_choice("only", &s.only, "words|sums|distance", "one of the three experiments"),
        kit_several("pe", &s.pe, "SPEC",
                    "words: name[:key=value,...][+...]; blanks between several"),
        kit_word("text", &s.text, "FILE",
                 "words: text to learn from [the corpus, else sentences of our own]"),
        kit_int("seeds", &s.seeds, 1, LM_SEEDS, "seeds from --seed on; quick: 1"),
        kit_u64("seed", &s.seed, "of weights and data"),
        kit_int("steps", &s.steps, 0, 1000000, "of training, for every model; 0: as many as usual"),
        kit_int("threads", &s.threads, 0, 1024, "0: all cores; changes no figure"),
        kit_word("out", &s.out, "DIR", "where everything is written"),
        kit_switch("resume", &s.resume, "go on from what is in --out"),
        kit_switch("quick", &s.quick, "four encodings, one seed, few steps"),
        kit_switch("quiet", &s.quiet, "no progress bar"),
        kit_no_more()
    };
    kit_args a;
    memset(&a, 0, sizeof a);
    memset(&s, 0, sizeof s);
    s.seeds = 3;
    s.seed = 1;
    s.out = "results/lm/results";
    a.program = "lm results";
    a.summary = "lm results: do encodings fail for the reasons people cite?\n\n"
                "  words      E7: sin-only, bits, decimal digits added to tokens of English text\n"
                "  sums       E5: numbers of 1 to 5 digits added, asked for up to 10\n"
                "  distance   E6: a key found at distances up to 128, asked up to 512";
    a.options = options;
    a.closing = LM_RESULTS_COST
                "\n  lm results --quick\n"
                "  lm results --only words --pe \"sinusoidal sinonly rope:base=500\"\n"
                "  lm results --resume";
    if (!kit_args_read(&a, argc, argv) || !lm__results_check(&a, &s)) return a.exit_code;
    kit_catch_stop();
    return lm__results_do(&s, argv[0]);
}

#endif
