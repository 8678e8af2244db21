/* Charts: logarithmic axes with round ticks, gaps for what has no logarithm, and lines that differ
   in colour or mark however many there are; heat tables.                                         */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "kit/svg.h"

enum { N = 5 };
static const double epoch[N] = { 1, 2, 4, 8, 16 }, loss[N] = { 0.9, 0.4, 0, -1, 0.07 };

static kit_text chart_of(const kit_series *line, int count)
{
    kit_text t = { NULL, 0, 0 };
    kit_chart c;
    memset(&c, 0, sizeof c);
    c.title = "Loss <by> epoch";
    c.x_label = "epoch";
    c.y_label = "loss";
    c.series = line;
    c.count = count;
    c.log_x = 2;
    c.log_y = 10;
    c.level_name = "floor";
    c.level = 0.1;
    kit_chart_svg(&t, &c);
    return t;
}

static int count_of(const kit_text *t, const char *word)
{
    int n = 0;
    for (const char *at = t->data; (at = strstr(at, word)) != NULL; at++) n++;
    return n;
}

TEST ticks_are_round_and_inside(void)
{
    kit_series line = { "learned", epoch, loss, N, 0 };
    kit_text t = chart_of(&line, 1);
    const char *const tick[] = { ">1<", ">2<", ">4<", ">8<", ">16<", ">0.1<", ">0.2<", ">0.5<" };
    for (int i = 0; i < 8; i++) ASSERT_EQ(count_of(&t, tick[i]), 1);
    ASSERT_EQ(count_of(&t, ">0.05<") + count_of(&t, ">32<") + count_of(&t, ">3<"), 0);
    ASSERT_EQ(count_of(&t, "Loss &lt;by&gt; epoch"), 2);
    ASSERT_EQ(count_of(&t, ">floor<"), 1);
    kit_text_free(&t);
    PASS();
}

/* A long number below the right end of the axis ends at the edge instead of being cut there. */
TEST a_long_tick_at_the_end_stays_inside(void)
{
    static const double length[3] = { 32, 512, 4096 }, speed[3] = { 3, 2, 1 };
    kit_series line = { "rope", length, speed, 3, 0 };
    kit_text t = chart_of(&line, 1);
    ASSERT_EQ(count_of(&t, "text-anchor=\"end\">4096<"), 1);
    ASSERT_EQ(count_of(&t, "text-anchor=\"middle\">512<"), 1);
    kit_text_free(&t);
    PASS();
}

TEST zero_and_below_leave_a_gap(void)
{
    kit_series line = { "learned", epoch, loss, N, 0 };
    kit_text t = chart_of(&line, 1);
    ASSERT_EQ(count_of(&t, "nan") + count_of(&t, "inf"), 0);
    ASSERT_EQ(count_of(&t, "<path transform"), 3 + 1);                /* three points, one legend */
    kit_text_free(&t);
    PASS();
}

static int same_look(const kit_chart *c, int a, int b)
{
    kit_text one = { NULL, 0, 0 }, two = { NULL, 0, 0 };
    kit__chart_mark(&one, a, 0, 0, kit__chart_colour(c, a));
    kit__chart_mark(&two, b, 0, 0, kit__chart_colour(c, b));
    int same = strcmp(one.data, two.data) == 0;
    kit_text_free(&one);
    kit_text_free(&two);
    return same;
}

TEST forty_lines_look_different(void)
{
    kit_series line[40];
    kit_chart c;
    memset(line, 0, sizeof line);
    memset(&c, 0, sizeof c);
    c.series = line;
    c.count = 40;
    for (int a = 0; a < 40; a++)
        for (int b = 0; b < a; b++) ASSERT_FALSE(same_look(&c, a, b));
    PASS();
}

TEST an_empty_chart_is_still_a_chart(void)
{
    kit_text t = chart_of(NULL, 0);
    ASSERT(count_of(&t, "</svg>") == 1 && count_of(&t, "nan") == 0);
    kit_text_free(&t);
    PASS();
}

TEST heat_tables_show_every_number(void)
{
    static const char *const row[] = { "none", "a<b" }, *const col[] = { "0", "1", "63" };
    static const double value[] = { 4.263, 0.0123, 0, 0.25, 12, NAN };
    kit_heat h = { "Loss", "position", row, col, value, 2, 3, 0.002, 5 };
    kit_text t = { NULL, 0, 0 };
    const char *const shown[] = { ">4.26<", ">0.012<", ">0.25<", ">12.0<", ">a&lt;b<" };
    kit_heat_svg(&t, &h);
    for (int i = 0; i < 5; i++) ASSERT_EQ(count_of(&t, shown[i]), 1);
    ASSERT_EQ(count_of(&t, "fill-opacity"), 5);                       /* NaN has no cell */
    ASSERT_EQ(count_of(&t, ">nan<"), 0);
    kit_text_free(&t);
    PASS();
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_TEST(ticks_are_round_and_inside);
    RUN_TEST(a_long_tick_at_the_end_stays_inside);
    RUN_TEST(zero_and_below_leave_a_gap);
    RUN_TEST(forty_lines_look_different);
    RUN_TEST(an_empty_chart_is_still_a_chart);
    RUN_TEST(heat_tables_show_every_number);
    GREATEST_MAIN_END();
}
