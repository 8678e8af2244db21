/* A stand-in for greatest.h, used only when the real one is not on the include path. It answers to
   the same macro names, the same command-line letters and the same exit status, so that a test file
   cannot tell which of the two it got. Include check.h, which picks one of them, not this file.

       TEST adds_up(int n) { ASSERT_EQ(n, 2); PASS(); }     a test leaves through PASS, FAIL or SKIP
       SUITE(sums) { RUN_TESTp(adds_up, 2); }
       GREATEST_MAIN_DEFS();                                once, before main
       int main(int argc, char **argv)
       { GREATEST_MAIN_BEGIN(); RUN_SUITE(sums); GREATEST_MAIN_END(); }

   greatest_set_test_suffix("by_5"), called just before RUN_TESTp or RUN_TEST1, makes that case show as
   adds_up_by_5, also for -t and -x. The text must live until the test has run. check.h has
   label_test("by_%d", n), which keeps it.                                                          */
#ifndef POSENC_GREATEST_LITE_H
#define POSENC_GREATEST_LITE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { GL_FAILED = -1, GL_PASSED = 0, GL_SKIPPED = 1 } gl_result;

typedef struct {
    unsigned passed, failed, skipped, assertions;
    char label[160];                                  /* of the test now running, with its suffix   */
    const char *message, *file, *suffix;
    const char *only_suite, *only_test, *not_test;    /* -s -t -x */
    int line, column;
    int verbose, list, stop_at_first, abort, exact;   /* -v -l -f -a -e */
    unsigned failed_before;                           /* failures when the current suite began      */
    void (*before)(void *), *before_data;
    void (*after)(void *),  *after_data;
} gl_state;
extern gl_state gl;
int  gl_begin(const char *name);
void gl_end(gl_result result);
int  gl_same_text(const char *want, const char *got, size_t longest);
int  gl_same_bytes(const void *want, const void *got, size_t n);
int  gl_near(double want, double got, double tolerance);
int  gl_same_name(int want, int got, const char *(*name)(int));
void greatest_set_test_suffix(const char *suffix);

/* ---- defining and running ---------------------------------------------------------------------- */
#define TEST               static gl_result
#define SUITE(NAME)        void NAME(void); void NAME(void)
#define SUITE_EXTERN(NAME) void NAME(void)
#define RUN_SUITE(NAME)    gl_run_suite(NAME, #NAME)
#define RUN_TEST(F)        do { if (gl_begin(#F)) gl_end(F()); } while (0)
#define RUN_TEST1(F, ARG)  do { if (gl_begin(#F)) gl_end(F(ARG)); } while (0)
#define RUN_TESTp(F, ...)  do { if (gl_begin(#F)) gl_end(F(__VA_ARGS__)); } while (0)
#define IGNORE_TEST(F)     (void)F
#define SET_SETUP(F, DATA)    do { gl.before = (F); gl.before_data = (DATA); } while (0)
#define SET_TEARDOWN(F, DATA) do { gl.after  = (F); gl.after_data  = (DATA); } while (0)

/* ---- leaving a test ---------------------------------------------------------------------------- */
#define GL_LEAVE(RESULT, TEXT) do { gl.message = (TEXT); gl.file = __FILE__; gl.line = __LINE__;   \
                                    return (RESULT); } while (0)
#define PASSm(TEXT) GL_LEAVE(GL_PASSED, TEXT)
#define SKIPm(TEXT) GL_LEAVE(GL_SKIPPED, TEXT)
#define FAILm(TEXT) GL_LEAVE(GL_FAILED, TEXT)
#define PASS()      PASSm(NULL)
#define SKIP()      SKIPm(NULL)
#define FAIL()      FAILm(NULL)
#define CHECK_CALL(CALL) do { gl_result gl_r_ = (CALL); if (gl_r_ != GL_PASSED) return gl_r_; } while (0)

/* ---- asserting: the forms with m take a message first ------------------------------------------ */
#define ASSERTm(TEXT, COND)       do { gl.assertions++; if (!(COND)) FAILm(TEXT); } while (0)
#define ASSERT_FALSEm(TEXT, COND) ASSERTm(TEXT, !(COND))
#define ASSERT_EQm(TEXT, A, B)    ASSERTm(TEXT, (A) == (B))
#define ASSERT_NEQm(TEXT, A, B)   ASSERTm(TEXT, (A) != (B))
#define ASSERT_LTm(TEXT, A, B)    ASSERTm(TEXT, (A) <  (B))
#define ASSERT_LTEm(TEXT, A, B)   ASSERTm(TEXT, (A) <= (B))
#define ASSERT_GTm(TEXT, A, B)    ASSERTm(TEXT, (A) >  (B))
#define ASSERT_GTEm(TEXT, A, B)   ASSERTm(TEXT, (A) >= (B))
#define ASSERT_STR_EQm(TEXT, WANT, GOT)     ASSERTm(TEXT, gl_same_text((WANT), (GOT), (size_t)-1))
#define ASSERT_STRN_EQm(TEXT, WANT, GOT, N) ASSERTm(TEXT, gl_same_text((WANT), (GOT), (N)))
#define ASSERT_MEM_EQm(TEXT, WANT, GOT, N)  ASSERTm(TEXT, gl_same_bytes((WANT), (GOT), (N)))
#define ASSERT_ENUM_EQm(TEXT, WANT, GOT, NAME) ASSERTm(TEXT, gl_same_name((int)(WANT), (int)(GOT), NAME))
/* NaN fails here. It does not in the real greatest.h, so no test may lean on it: see check.h. */
#define ASSERT_IN_RANGEm(TEXT, WANT, GOT, TOL) ASSERTm(TEXT, gl_near((WANT), (GOT), (TOL)))
#define ASSERT_EQ_FMTm(TEXT, WANT, GOT, FMT) do { gl.assertions++; if ((WANT) != (GOT)) {           \
    printf("\nwanted " FMT ", got " FMT "\n", (WANT), (GOT)); FAILm(TEXT); } } while (0)

#define ASSERT(COND)                    ASSERTm(#COND, COND)
#define ASSERT_FALSE(COND)              ASSERT_FALSEm("expected false: " #COND, COND)
#define ASSERT_EQ(A, B)                 ASSERT_EQm(#A " == " #B, A, B)
#define ASSERT_NEQ(A, B)                ASSERT_NEQm(#A " != " #B, A, B)
#define ASSERT_LT(A, B)                 ASSERT_LTm(#A " < "  #B, A, B)
#define ASSERT_LTE(A, B)                ASSERT_LTEm(#A " <= " #B, A, B)
#define ASSERT_GT(A, B)                 ASSERT_GTm(#A " > "  #B, A, B)
#define ASSERT_GTE(A, B)                ASSERT_GTEm(#A " >= " #B, A, B)
#define ASSERT_STR_EQ(WANT, GOT)        ASSERT_STR_EQm(#WANT " == " #GOT, WANT, GOT)
#define ASSERT_STRN_EQ(WANT, GOT, N)    ASSERT_STRN_EQm(#WANT " == " #GOT, WANT, GOT, N)
#define ASSERT_MEM_EQ(WANT, GOT, N)     ASSERT_MEM_EQm(#WANT " == " #GOT, WANT, GOT, N)
#define ASSERT_ENUM_EQ(WANT, GOT, NAME) ASSERT_ENUM_EQm(#WANT " == " #GOT, WANT, GOT, NAME)
#define ASSERT_IN_RANGE(WANT, GOT, TOL) ASSERT_IN_RANGEm(#GOT " near " #WANT, WANT, GOT, TOL)
#define ASSERT_EQ_FMT(WANT, GOT, FMT)   ASSERT_EQ_FMTm(#WANT " == " #GOT, WANT, GOT, FMT)

/* ---- the runner: once per program, in the file that has main() --------------------------------- */
#define GREATEST_MAIN_DEFS()                                                                        \
gl_state gl;                                                                                        \
void greatest_set_test_suffix(const char *suffix) { gl.suffix = suffix; }                           \
int gl_same_text(const char *want, const char *got, size_t longest)                                 \
{                                                                                                   \
    size_t i = 0;                                                                                   \
    if (want && got) while (i < longest && want[i] == got[i] && want[i]) i++;                       \
    if (want && got && (i == longest || want[i] == got[i])) return 1;                               \
    printf("\nwanted \"%s\"\n   got \"%s\"\n", want ? want : "(null)", got ? got : "(null)");       \
    return 0;                                                                                       \
}                                                                                                   \
int gl_same_bytes(const void *want, const void *got, size_t n)                                      \
{                                                                                                   \
    const unsigned char *a = (const unsigned char *)want, *b = (const unsigned char *)got;          \
    for (size_t i = 0; i < n; i++) if (a[i] != b[i]) {                                              \
        printf("\nbyte %lu of %lu: wanted %02x, got %02x\n", (unsigned long)i, (unsigned long)n,    \
               a[i], b[i]);                                                                         \
        return 0;                                                                                   \
    }                                                                                               \
    return 1;                                                                                       \
}                                                                                                   \
int gl_near(double want, double got, double tolerance)                                              \
{                                                                                                   \
    if (want - got <= tolerance && got - want <= tolerance) return 1;                               \
    printf("\nwanted %g +/- %g, got %g\n", want, tolerance, got);                                   \
    return 0;                                                                                       \
}                                                                                                   \
int gl_same_name(int want, int got, const char *(*name)(int))                                       \
{                                                                                                   \
    if (want != got) printf("\nwanted %s, got %s\n", name(want), name(got));                        \
    return want == got;                                                                             \
}                                                                                                   \
static int gl_matches(const char *text, const char *filter)                                         \
{                                                                                                   \
    return gl.exact ? strcmp(text, filter) == 0 : strstr(text, filter) != NULL;                     \
}                                                                                                   \
int gl_begin(const char *name)                                                                      \
{                                                                                                   \
    int run;                                                                                        \
    snprintf(gl.label, sizeof gl.label, "%s%s%s", name, gl.suffix ? "_" : "",                       \
             gl.suffix ? gl.suffix : "");                                                           \
    gl.suffix = NULL;                                                                               \
    run = !(gl.only_test && !gl_matches(gl.label, gl.only_test))                                    \
       && !(gl.not_test && gl_matches(gl.label, gl.not_test))                                       \
       && !(gl.stop_at_first && gl.failed > gl.failed_before);                                      \
    if (run && gl.list) printf("  %s\n", gl.label);                                                 \
    if (!run || gl.list) return 0;                                                                  \
    gl.message = NULL;                                                                              \
    if (gl.before) gl.before(gl.before_data);                                                       \
    return 1;                                                                                       \
}                                                                                                   \
void gl_end(gl_result result)                                                                       \
{                                                                                                   \
    const char *text = gl.message ? gl.message : "";                                                \
    if (result == GL_FAILED) {                                                                      \
        gl.failed++;                                                                                \
        printf("%sFAIL %s: %s (%s:%d)\n", gl.column ? "\n" : "", gl.label, text, gl.file, gl.line); \
        gl.column = 0;                                                                              \
    } else {                                                                                        \
        *(result == GL_PASSED ? &gl.passed : &gl.skipped) += 1;                                     \
        if (gl.verbose) {                                                                           \
            printf("%s %s: %s\n", result == GL_PASSED ? "PASS" : "SKIP", gl.label, text);           \
        } else {                                                                                    \
            putchar(result == GL_PASSED ? '.' : 's');                                               \
            gl.column = (gl.column + 1) % 72;                                                       \
            if (gl.column == 0) putchar('\n');                                                      \
        }                                                                                           \
    }                                                                                               \
    fflush(stdout);                                                                                 \
    if (result == GL_FAILED && gl.abort) abort();                                                   \
    if (gl.after) gl.after(gl.after_data);                                                          \
}                                                                                                   \
static void gl_run_suite(void (*suite)(void), const char *name)                                     \
{                                                                                                   \
    if (gl.only_suite && !gl_matches(name, gl.only_suite)) return;                                  \
    if (gl.stop_at_first && gl.failed) return;                                                      \
    printf("%s\n* Suite %s:\n", gl.column ? "\n" : "", name);                                       \
    gl.column = 0;                                                                                  \
    gl.failed_before = gl.failed;                                                                   \
    suite();                                                                                        \
    gl.before = gl.after = NULL;                                                                    \
    gl.suffix = NULL;                                                                               \
}                                                                                                   \
static void gl_options(int argc, char **argv)                                                       \
{                                                                                                   \
    (void)gl_run_suite;                                                                             \
    for (int i = 1; i < argc; i++) {                                                                \
        char letter = argv[i][0] == '-' ? argv[i][1] : '?';                                         \
        const char **takes = letter == 's' ? &gl.only_suite : letter == 't' ? &gl.only_test         \
                           : letter == 'x' ? &gl.not_test : NULL;                                   \
        int *sets = letter == 'v' ? &gl.verbose : letter == 'l' ? &gl.list                          \
                  : letter == 'f' ? &gl.stop_at_first : letter == 'a' ? &gl.abort                   \
                  : letter == 'e' ? &gl.exact : NULL;                                               \
        if (takes && i + 1 < argc) *takes = argv[++i];                                              \
        else if (sets) *sets = 1;                                                                   \
        else {                                                                                      \
            printf("%s [-v] [-l] [-f] [-a] [-e] [-s SUITE] [-t TEST] [-x EXCLUDE]\n", argv[0]);     \
            exit(letter == 'h' ? EXIT_SUCCESS : EXIT_FAILURE);                                      \
        }                                                                                           \
    }                                                                                               \
}                                                                                                   \
extern gl_state gl

#define GREATEST_MAIN_BEGIN() gl_options(argc, argv)
#define GREATEST_MAIN_END() do {                                                                    \
    if (!gl.list) printf("%s\nPass: %u, fail: %u, skip: %u (%u assertions).\n",                     \
                         gl.column ? "\n" : "", gl.passed, gl.failed, gl.skipped, gl.assertions);   \
    return gl.failed ? EXIT_FAILURE : EXIT_SUCCESS; } while (0)
#endif
