/* lm/exact.h - tasks with one right answer, in- and out-of-distribution, with and without
   examples

   An answer counts when it is right to the byte and ends there (a newline, or byte 0). It is
   drawn greedily and may be one token longer than the target: what is longer than that is wrong
   already. Examples before a question (few-shot) are other questions of the same task and of the
   lengths seen in training, each with its answer and a newline. Include posenc.h first. */
#ifndef LM_EXACT_H
#define LM_EXACT_H

#include "lm/exam.h"
#include "lm/examples.h"

enum { LM_EXACT_TOKENS = 256,              /* longest answer                                      */
       LM_SHOTS = 32, LM_EXACT_ROWS = 4 * LM_TASKS };

/* a row of the table */
typedef struct lm_exact {
    int task, ood, shots, correct, total;
    int longest;                           /* tokens of the longest question with its answer      */
    char why[LM_WHY];
} lm_exact;

/* how many there are of a task and a split; the one with number nth (-1: none) goes into *found */
static inline int lm__exact_find(const lm_examples *c, int task, int ood, int nth,
                                 const lm_example **found)
{
    int n = 0;
    for (size_t i = 0; i < c->count; i++) {
        if (c->item[i].task != lm_task_name[task] || c->item[i].ood != ood) continue;
        if (n == nth) *found = &c->item[i];
        n++;
    }
    return n;
}

/* x->samples of each task and split. What the model's context has no room for stays without. */
static inline void lm_exact_make(lm_examples *c, const lm_exam *x)
{
    for (int i = 0; i < 2 * LM_TASKS * x->samples; i++) {
        kit_error why;
        lm_example e;
        int task = i / 2 / x->samples, split = i / x->samples % 2 ? LM_OOD : LM_ID;
        if (lm_task_make(&e, task, split, x->seed, (uint64_t)(i % x->samples), x->trained,
                         x->filler.size ? &x->filler : NULL, &why))
            lm_examples_add(c, &e);
    }
}

/* The first x->samples of each task and split in a file. */
static inline int lm_exact_read(lm_examples *c, const lm_exam *x, const char *path, kit_error *why)
{
    int taken[LM_TASKS][2] = { { 0, 0 } };
    size_t kept = 0;
    if (!lm_examples_read(c, path, why)) return 0;
    for (size_t i = 0; i < c->count; i++) {
        lm_example *e = &c->item[i];
        if (taken[lm_task_find(e->task)][e->ood]++ < x->samples) c->item[kept++] = *e;
        else lm_example_free(e);
    }
    c->count = kept;
    return 1;
}

/* rows of the table: each task and split that has questions, and of those made here the others too,
   with the reason why they have none */
static inline int lm_exact_rows(lm_exact row[LM_EXACT_ROWS], const lm_examples *c, const lm_exam *x)
{
    int n = 0;
    memset(row, 0, LM_EXACT_ROWS * sizeof *row);
    for (int i = 0; i < LM_EXACT_ROWS; i++) {
        int task = i / 4, ood = i / 2 % 2, shots = i % 2 ? x->few : 0;
        kit_error why;
        lm_example e;
        if (i % 2 && x->few == 0) continue;
        int there = lm__exact_find(c, task, ood, -1, NULL);
        if (!there && x->examples) continue;
        row[n].task = task;
        row[n].ood = ood;
        row[n].shots = shots;
        if (!there) {
            if (lm_task_make(&e, task, ood ? LM_OOD : LM_ID, x->seed, 0, x->trained, NULL, &why))
                lm_example_free(&e);
            else snprintf(row[n].why, LM_WHY, "cannot: %.300s", why.text);
        }
        n++;
    }
    return n;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static inline void lm__put_shot(kit_text *t, const lm_example *c)
{
    kit_put_bytes(t, c->prompt.data, c->prompt.size);
    kit_put_bytes(t, c->target.data, c->target.size);
    kit_put_string(t, "\n");
}

/* Question i of a row, behind `shots` others of its task in distribution: the next ones in their
   list, never itself. A last token is drawn to see that the answer ends, unless the training
   length ends right before it: no model of that length can say so. */
static inline void lm__exact_question(lm_question *q, const lm_exam *x, const lm_examples *c,
                                      const lm_exact *row, int i)
{
    int id = lm__exact_find(c, row->task, 0, -1, NULL);
    const lm_example *e = NULL;
    for (int k = 0; k < row->shots; k++) {
        lm__exact_find(c, row->task, 0, (i + 1 + k) % id, &e);
        lm__put_shot(&q->prompt, e);
    }
    lm__exact_find(c, row->task, row->ood, i, &e);
    kit_put_bytes(&q->prompt, e->prompt.data, e->prompt.size);
    kit_put_bytes(&q->target, e->target.data, e->target.size);
    q->most = (int)(q->target.size < LM_EXACT_TOKENS ? q->target.size : LM_EXACT_TOKENS) + 1;
    if (q->prompt.size + (size_t)q->most == (size_t)x->trained + 1) q->most--;
}

/* Prompts, answers and what was said, for people: one line each, other bytes than letters as
   signs. */
static inline void lm_show(const char *word, const kit_text *t)
{
    printf("%s", word);
    for (size_t i = 0; i < t->size; i++) {
        unsigned char b = (unsigned char)t->data[i];
        if (b == '\n') printf("\\n");
        else if (b < 32 || b > 126) printf("\\x%02x", b);
        else putchar(b);
    }
    putchar('\n');
}

static inline void lm_questions_show(lm_exam *x, const char *label, const lm_question *q, int n)
{
    kit_progress_clear(&x->bar);
    for (int i = 0; i < n; i++) {
        printf("\n%s %d: %s\n", label, i + 1, q[i].right ? "right" : "wrong");
        lm_show("  prompt    ", &q[i].prompt);
        lm_show("  expected  ", &q[i].target);
        lm_show("  got       ", &q[i].got);
    }
}

static inline void lm_exact_label(char *label, size_t room, const lm_exact *row)
{
    snprintf(label, room, "%s %s", lm_task_name[row->task], row->ood ? "ood" : "id");
    if (row->shots) snprintf(label + strlen(label), room - strlen(label), " %d-shot", row->shots);
}

static inline int lm__exact_answers(lm_exact *row, lm_exam *x, lm_question *q, int n, long work,
                                    kit_error *why)
{
    char label[64];
    lm_exact_label(label, sizeof label, row);
    row->longest = lm_questions_slots(q, n);
    if (!lm_exam_reaches(x, row->longest, row->why)) return 1;
    if (!lm_answer(x, q, n, work, label, why)) return 0;
    row->total = n;
    for (int i = 0; i < n; i++) row->correct += q[i].right;
    if (x->verbose) lm_questions_show(x, label, q, n);
    return 1;
}

/* One row: fills in what is not known before. A row that cannot be asked says why. */
static inline int lm_exact_ask(lm_exact *row, lm_exam *x, const lm_examples *c, long work,
                               kit_error *why)
{
    int n = lm__exact_find(c, row->task, row->ood, -1, NULL);
    int id = lm__exact_find(c, row->task, 0, -1, NULL);
    if (row->why[0]) return 1;
    if (id - (row->ood ? 0 : 1) < row->shots)
        return snprintf(row->why, LM_WHY,
                        "%d questions in distribution are too few for %d examples", id, row->shots),
               1;
    lm_question *q = (lm_question *)kit_new((size_t)n, sizeof *q);
    for (int i = 0; i < n; i++) lm__exact_question(&q[i], x, c, row, i);
    int good = lm__exact_answers(row, x, q, n, work, why);
    lm_questions_free(q, n);
    return good;
}

#endif
