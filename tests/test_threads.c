/* The same bits for any number of threads, layer by layer: the list is in every_layer.h. */
#include "posenc.h"
#include "check.h"
#include "every_layer.h"
#ifdef _OPENMP
#include <omp.h>
#endif

static posenc_float one[EVERY_ROOM], many[EVERY_ROOM];

#ifdef _OPENMP
enum { THREADED = 1 };
static void set_threads(int n) { omp_set_num_threads(n); }
#else
enum { THREADED = 0 };
static void set_threads(int n) { (void)n; }
#endif

TEST same_bits_at_1_2_and_3_threads(const layer_run *layer)
{
    size_t n;
    if (!THREADED) SKIPm("compiled without OpenMP");
    set_threads(1);
    n = run_layer(layer, one);
    ASSERT_LTE(n, (size_t)EVERY_ROOM);
    ASSERT_LTE(max_abs_diff(one, one, n), 0.0);                    /* no NaN: those never compare */
    for (int threads = 2; threads <= 3; threads++) {
        memset(many, 0xff, sizeof many);
        set_threads(threads);
        ASSERT_EQ(n, run_layer(layer, many));
        ASSERT_MEM_EQ(one, many, n * sizeof *one);
    }
    PASS();
}

TEST number_of_threads_is_the_callers(void)
{
    set_threads(3);
    ASSERT_EQ(THREADED ? 3 : 1, posenc_threads());
    set_threads(1);
    ASSERT_EQ(1, posenc_threads());
    PASS();
}

SUITE(threads)
{
    for (int i = 0; i < (THREADED ? EVERY_LAYER : 1); i++) {           /* one line without OpenMP */
        label_test("%s", THREADED ? every_layer[i].name : "at_all");
        RUN_TESTp(same_bits_at_1_2_and_3_threads, &every_layer[i]);
    }
    RUN_TEST(number_of_threads_is_the_callers);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(threads);
    give_back();
    GREATEST_MAIN_END();
}
