/* lm: language models with any encoding, from text to tables

       build/lm train                              a small model of bytes, two minutes
       build/lm eval results/lm/RUN                how well it reads, and texts longer than trained
       build/lm generate results/lm/RUN            what it writes
       build/lm compare --quick                    several encodings under one budget
       build/lm results --quick                    do they fail for the reasons people cite?
       build/lm --help

   `make corpus` fetches English to train on; `lm prepare` makes shards of any text, `lm tasks` of
   questions that ask for positions, `lm fetch` of the web. Every run is a folder in results/lm.
   demos/lm.md tells it from the beginning. */
#define _POSIX_C_SOURCE 200809L
#define POSENC_IMPLEMENTATION
#include "posenc.h"
#include "kit/threads.h"
#include "lm/compare.h"
#include "lm/eval.h"
#include "lm/fetch.h"
#include "lm/generate.h"
#include "lm/prepare.h"
#include "lm/results.h"
#include "lm/tasks_command.h"
#include "lm/train.h"

typedef struct command { const char *name, *help; int (*run)(int argc, char **argv); } command;

static const command commands[] = {
    { "prepare",  "text becomes shards of tokens", lm_prepare_main },
    { "tasks",    "passkey, copying, sorting, adding ... become shards", lm_tasks_main },
    { "fetch",    "public shards of English, 200 MB each", lm_fetch_main },
    { "info",     "what is in shards", lm_info_main },
    { "train",    "train a model", lm_train_main },
    { "eval",     "perplexity past the training length, exact match, passkeys, needles",
      lm_eval_main },
    { "generate", "go on with a text", lm_generate_main },
    { "compare",  "several encodings under one budget", lm_compare_main },
    { "results",  "do encodings fail for the reasons people cite?", lm_results_main },
    { "report",   "charts and tables of a run", lm_report_main },
    { NULL, NULL, NULL }
};

static int help(void)
{
    printf("lm: language models, to see what a positional encoding is worth\n\n"
           "usage: lm COMMAND [--flag value | --flag=value ...]\n\n");
    for (const command *c = commands; c->name; c++) printf("  %-10s %s\n", c->name, c->help);
    printf("\nlm COMMAND --help lists its flags. Each takes --config FILE too: lines of `flag: "
           "value`.\n\n  make corpus && lm train --size nano --pe rope\n"
           "  lm eval results/lm/nano_rope_6.144M_s42\n"
           "  lm generate results/lm/nano_rope_6.144M_s42 --prompt \"The \"\n"
           "  lm compare --pe \"rope alibi none\" --tokens 2M\n");
    return fflush(stdout) == 0 ? DONE : FAILED;
}

static const char *nearest(const char *typed)
{
    const char *best = commands[0].name;
    for (const command *c = commands; c->name; c++)
        if (kit__word_slips(typed, c->name) < kit__word_slips(typed, best)) best = c->name;
    return best;
}

/* argv[0] is the program's path, as everywhere, and the flags follow it. lm train reads its config
   itself: a run has one beside its states. */
static int run_command(const command *c, int argc, char **argv)
{
    lm_config_words words;
    kit_error why;
    if (c->run == lm_train_main) return c->run(argc, argv);
    if (!lm_config_expand(&words, argc, argv, &why)) {
        fprintf(stderr, "lm %s: %s\n", c->name, why.text);
        return 2;
    }
    return c->run(words.count, words.word);
}

int main(int argc, char **argv)
{
    kit_wait_patiently(argv);
    if (argc < 2) {
        fprintf(stderr, "lm: say what to do, for example 'lm train'; --help lists all\n");
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help();
    for (const command *c = commands; c->name; c++) {
        if (strcmp(argv[1], c->name) != 0) continue;
        argv[1] = argv[0];
        return run_command(c, argc - 1, argv + 1);
    }
    fprintf(stderr, "lm: there is no command '%.40s'; did you mean %s?\n", argv[1],
            nearest(argv[1]));
    return 2;
}
