/* Spec strings: what they mean, what is refused and with which words, there and back, and a
   thousand that nobody would write.                                                              */
#include "posenc.h"
#include "check.h"
#include <locale.h>

static posenc_spec list[POSENC_SPECS];
static posenc_error why;
static int count;

static posenc_status parse(const char *text)
{
    memset(list, 0xee, sizeof list);
    memset(&why, 'x', sizeof why);
    why.text[0] = 0;
    count = -1;
    return posenc_spec_parse(list, &count, POSENC_SPECS, text, &why);
}

/* ---- good ones ------------------------------------------------------------------------------- */

TEST every_name_of_the_table_is_a_spec(int encoding)
{
    ASSERT_EQ(POSENC_OK, parse(posenc_encoding_get(encoding)->name));
    ASSERT_EQ(1, count);
    ASSERT_EQ(encoding, list[0].encoding);
    PASS();
}

/* Every key a row of the table lists is taken by the parser: the smallest legal number or word
   will do.                                                                                       */
TEST every_key_of_the_table_is_taken(int encoding)
{
    static const char *value[] = { "2", "half", "1", "0.5", "1/2/3", "t2t", "first", "log", "width",
                                   "yarn", "alternate", "interleaved" };
    const posenc_encoding_info *e = posenc_encoding_get(encoding);
    char key[64], text[200];
    const char *at = e->keys;
    while (*at) {
        int n = (int)strcspn(at, ","), taken = 0;
        snprintf(key, sizeof key, "%.*s", n, at);
        for (int v = 0; v < 12 && !taken; v++) {
            snprintf(text, sizeof text, "%s:%s=%s", e->name, key, value[v]);
            taken = parse(text) == POSENC_OK;
        }
        ASSERTm(why.text, taken);
        at += n + (at[n] == ',');
    }
    PASS();
}

TEST nothing_means_none(void)
{
    ASSERT_EQ(POSENC_OK, parse(NULL));
    ASSERT_EQ(1, count);
    ASSERT_EQ(POSENC_NONE, list[0].encoding);
    ASSERT_EQ(POSENC_OK, parse(""));
    ASSERT_EQ(1, count);
    ASSERT_EQ(POSENC_NONE, list[0].encoding);
    PASS();
}

TEST fields_not_named_are_zero(void)
{
    posenc_spec bare;
    memset(&bare, 0, sizeof bare);
    bare.encoding = POSENC_ROPE;
    ASSERT_EQ(POSENC_OK, parse("rope"));
    ASSERT_MEM_EQ(&bare, &list[0], sizeof bare);
    PASS();
}

TEST keys_reach_their_fields(void)
{
    ASSERT_EQ(POSENC_OK, parse("rope:base=500000.5,layout=interleaved,dim=64"));
    ASSERT_EQ(500000.5, list[0].base);
    ASSERT_EQ(POSENC_INTERLEAVED, list[0].layout);
    ASSERT_EQ(64, list[0].dim);
    ASSERT_EQ(POSENC_OK, parse("lrope:layout=half"));
    ASSERT_EQ(POSENC_HALF, list[0].layout);
    ASSERT_EQ(POSENC_OK, parse("learned:rows=512,init=0.5"));
    ASSERT_EQ(512, list[0].rows);
    ASSERT_EQ(0.5, list[0].init);
    ASSERT_EQ(POSENC_OK, parse("continuous:hidden=32,length=2.5e3"));
    ASSERT_EQ(32, list[0].hidden);
    ASSERT_EQ(2500.0, list[0].length);
    ASSERT_EQ(POSENC_OK, parse("t5:buckets=16,distance=64,bidirectional=-1"));
    ASSERT_EQ(16, list[0].buckets);
    ASSERT_EQ(64, list[0].distance);
    ASSERT_EQ(-1, list[0].bidirectional);
    ASSERT_EQ(POSENC_OK, parse("alibi:bias_max=4"));
    ASSERT_EQ(4.0, list[0].bias_max);
    PASS();
}

TEST several_encodings_keep_their_order(void)
{
    ASSERT_EQ(POSENC_OK, parse("rope:scaling=longrope,factor=4,original=2,short=1/4,long=3/8e+0+alibi"));
    ASSERT_EQ(2, count);
    ASSERT_EQ(POSENC_OK, parse("rope:base=9,scaling=longrope+alibi"));     /* this e is no exponent */
    ASSERT_EQ(2, count);
    ASSERT_EQ(POSENC_LONGROPE, list[0].scaling);
    ASSERT_EQ(POSENC_ALIBI, list[1].encoding);
    ASSERT_EQ(POSENC_OK, parse("learned:rows=9+alibi+rope:base=1e+3,dim=8+t5"));
    ASSERT_EQ(4, count);
    ASSERT_EQ(POSENC_LEARNED, list[0].encoding);
    ASSERT_EQ(9, list[0].rows);
    ASSERT_EQ(POSENC_ALIBI, list[1].encoding);
    ASSERT_EQ(POSENC_ROPE, list[2].encoding);
    ASSERT_EQ(1000.0, list[2].base);
    ASSERT_EQ(8, list[2].dim);
    ASSERT_EQ(POSENC_T5, list[3].encoding);
    PASS();
}

TEST aliases_are_understood_and_never_shown(void)
{
    static const struct { const char *alias, *name; } other[] = {
        { "learnable", "learned" }, { "learned_absolute", "learned" }, { "mlp", "continuous" },
        { "learned_relative", "relative" }, { "relclip", "relative" } };
    char text[64];
    for (int i = 0; i < 5; i++) {
        ASSERT_EQ(POSENC_OK, parse(other[i].alias));
        posenc_spec_print(text, sizeof text, list, count);
        ASSERT_STR_EQ(other[i].name, text);
    }
    PASS();
}

/* ---- bad ones -------------------------------------------------------------------------------- */

/* the sentence must hold each of the words, separated by blanks */
TEST bad_spec_is_refused_with_a_sentence(const char *text, const char *words)
{
    char word[64];
    ASSERT_EQ(POSENC_BAD_CONFIG, parse(text));
    ASSERT_EQ(0, count);
    while (*words) {
        int n = (int)strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", n, words);
        ASSERTm(why.text, strstr(why.text, word) != NULL);
        words += n + (words[n] == ' ');
    }
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_spec_parse(list, &count, POSENC_SPECS, text, NULL));
    PASS();
}

TEST unknown_name_lists_every_right_one(void)
{
    ASSERT_EQ(POSENC_BAD_CONFIG, parse("rotary"));
    ASSERT(strstr(why.text, "'rotary'") != NULL);
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++)
        ASSERTm(posenc_encoding_get(i)->name,
                strstr(why.text, posenc_encoding_get(i)->name) != NULL);
    PASS();
}

TEST unknown_key_lists_the_right_ones(int encoding)
{
    const posenc_encoding_info *e = posenc_encoding_get(encoding);
    char text[64];
    snprintf(text, sizeof text, "%s:abacus=1", e->name);
    ASSERT_EQ(POSENC_BAD_CONFIG, parse(text));
    ASSERT(strstr(why.text, e->name) != NULL);
    ASSERT(strstr(why.text, "'abacus'") != NULL);
    ASSERTm(why.text, strstr(why.text, e->keys[0] ? e->keys : "none") != NULL);
    PASS();
}

/* A key that another encoding has is still unknown to this one. */
TEST key_of_another_encoding_is_refused(void)
{
    ASSERT_EQ(POSENC_BAD_CONFIG, parse("alibi:base=100"));
    ASSERT_EQ(POSENC_BAD_CONFIG, parse("rope:bias_max=8"));
    ASSERT_EQ(POSENC_BAD_CONFIG, parse("none:base=100"));
    PASS();
}

TEST too_many_encodings_are_refused(void)
{
    char text[200] = "rope";
    for (int i = 1; i < POSENC_SPECS; i++) strcat(text, "+rope");
    ASSERT_EQ(POSENC_OK, parse(text));
    ASSERT_EQ(POSENC_SPECS, count);
    strcat(text, "+rope");
    ASSERT_EQ(POSENC_BAD_CONFIG, parse(text));
    ASSERT(strstr(why.text, "8") != NULL);
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_spec_parse(list, &count, 2, "rope+rope+rope", &why));
    ASSERT_EQ(POSENC_BAD_CONFIG, posenc_spec_parse(NULL, &count, 0, "rope", &why));
    PASS();
}

/* a list may have as many numbers as there is room for pairs, and none more */
TEST list_fills_its_room_and_no_more(void)
{
    char text[600] = "rope:long=1";
    for (int i = 1; i < POSENC_FACTORS_MAX; i++) strcat(text, "/2");
    ASSERT_EQ(POSENC_OK, parse(text));
    ASSERT_EQ(1.0, (double)list[0].long_factor[0]);
    ASSERT_EQ(2.0, (double)list[0].long_factor[POSENC_FACTORS_MAX - 1]);
    ASSERT_EQ(0.0, (double)list[0].short_factor[0]);
    strcat(text, "/2");
    ASSERT_EQ(POSENC_BAD_CONFIG, parse(text));
    PASS();
}

TEST too_long_a_text_is_refused(void)
{
    static char text[POSENC_SPEC_TEXT + 50];
    memset(text, 'r', sizeof text - 1);
    ASSERT_EQ(POSENC_BAD_CONFIG, parse(text));
    ASSERT(strstr(why.text, "4095") != NULL);
    PASS();
}

/* ---- there and back -------------------------------------------------------------------------- */

TEST printed_spec_reads_back_the_same(const char *text)
{
    posenc_spec first[POSENC_SPECS];
    char printed[POSENC_SPEC_TEXT];
    int n;
    ASSERT_EQ(POSENC_OK, parse(text));
    memcpy(first, list, sizeof first);
    n = count;
    ASSERT_EQ(strlen(text), posenc_spec_print(printed, sizeof printed, first, n));
    ASSERT_STR_EQ(text, printed);
    ASSERT_EQ(POSENC_OK, parse(printed));
    ASSERT_EQ(n, count);
    ASSERT_MEM_EQ(first, list, (size_t)n * sizeof *list);
    PASS();
}

TEST printing_never_writes_past_its_room(void)
{
    const char *text = "rope:base=500000,layout=half,dim=64+alibi";
    char printed[64];
    ASSERT_EQ(POSENC_OK, parse(text));
    ASSERT_EQ(strlen(text), posenc_spec_print(NULL, 0, list, count));
    for (size_t room = 1; room < 64; room++) {
        memset(printed, '#', sizeof printed);
        ASSERT_EQ(strlen(text), posenc_spec_print(printed, room, list, count));
        ASSERT_EQ(room <= strlen(text) ? room - 1 : strlen(text), strlen(printed));
        ASSERT(strncmp(text, printed, strlen(printed)) == 0);
        for (size_t i = room; i < 64; i++) ASSERT_EQ('#', printed[i]);
    }
    PASS();
}

/* Numbers keep every bit on the way through text. */
TEST numbers_survive_the_way_through_text(void)
{
    char printed[POSENC_SPEC_TEXT];
    for (int i = 0; i < 200; i++) {
        posenc_spec s;
        memset(&s, 0, sizeof s);
        s.encoding = POSENC_ROPE;
        s.base = 2.0 + 1e6 * fabs(check_random()) / (1.0 + 1e3 * fabs(check_random()));
        posenc_spec_print(printed, sizeof printed, &s, 1);
        ASSERT_EQ(POSENC_OK, parse(printed));
        ASSERT_EQ(s.base, list[0].base);
    }
    PASS();
}

/* A host program may have set a locale that writes 0,5 for 0.5: spec strings do not follow it. */
TEST decimal_comma_of_a_locale_changes_nothing(void)
{
    static const char *names[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                   "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR" };
    const char *found = NULL;
    char printed[64];
    posenc_status status;
    double init;
    for (int i = 0; i < 6 && !found; i++) found = setlocale(LC_NUMERIC, names[i]);
    if (!found) SKIPm("no locale with a decimal comma on this machine");
    status = parse("learned:init=0.5");
    init = list[0].init;
    posenc_spec_print(printed, sizeof printed, list, 1);
    setlocale(LC_NUMERIC, "C");
    ASSERT_EQ(POSENC_OK, status);
    ASSERT_EQ(0.5, init);
    ASSERT_STR_EQ("learned:init=0.5", printed);
    PASS();
}

/* ---- a thousand mutations -------------------------------------------------------------------- */

/* One to four random edits of a good spec: change, drop, insert, double a piece, cut. */
static void mutate(char *text, size_t room)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789:=,+.-_|e% \n\x7f\xff";
    for (int edits = 1 + check_random_below(4); edits > 0; edits--) {
        size_t n = strlen(text), at = n ? (size_t)check_random_below((int)n) : 0;
        char letter = alphabet[check_random_below((int)sizeof alphabet - 1)];
        switch (check_random_below(5)) {
        case 0: if (n) text[at] = letter; break;
        case 1: if (n) memmove(text + at, text + at + 1, n - at); break;
        case 2:
            if (n + 2 < room) {
                memmove(text + at + 1, text + at, n - at + 1);
                text[at] = letter;
            }
            break;
        case 3: if (2 * n - at + 1 < room) memmove(text + n, text + at, n - at + 1); break;
        default: if (check_random_below(4) == 0) text[at] = 0; break;
        }
        text[room - 1] = 0;
    }
}

TEST mutated_specs_get_a_status_and_a_sentence(int thousand)
{
    static const char *seeds[] = { "rope:base=500000,layout=half,dim=64",
                                   "learned+alibi",
                                   "t5:buckets=32,distance=128,bidirectional=1,init=0.02",
                                   "sinusoidal:base=1e+4+relative:distance=16",
                                   "continuous:hidden=128,length=512+lrope:layout=interleaved",
                                   "sininit:rows=32,base=100+none",
                                   "rope:base=1e308,dim=2147483647",
                                   "mrope:sections=1/1/2,order=interleaved+qtemp:form=logn",
                                   "rope:scaling=longrope,factor=4,original=32,short=1/2,long=3/4" };
    int good = 0, bad = 0;
    check_seed = (uint32_t)thousand;
    for (int i = 0; i < 1000; i++) {
        char work[700], printed[4096], *exact;
        posenc_status status;
        snprintf(work, sizeof work, "%s", seeds[check_random_below(8)]);
        mutate(work, sizeof work);
        /* no byte more: a sanitizer sees a read past it */
        exact = (char *)malloc(strlen(work) + 1);
        if (!exact) FAILm("out of memory");
        strcpy(exact, work);
        status = parse(exact);
        free(exact);
        ASSERT(memchr(why.text, 0, sizeof why.text) != NULL);
        if (status == POSENC_OK) {
            posenc_spec first[POSENC_SPECS];
            int n = count;
            good++;
            ASSERT(n >= 1 && n <= POSENC_SPECS);
            memcpy(first, list, sizeof first);
            ASSERT_LT(posenc_spec_print(printed, sizeof printed, first, n), sizeof printed);
            if (strlen(printed) >= POSENC_SPEC_TEXT) continue;
            ASSERTm(work, parse(printed) == POSENC_OK);
            ASSERT_EQ(n, count);
            ASSERT_MEM_EQ(first, list, (size_t)n * sizeof *list);
        } else {
            bad++;
            ASSERT_EQ(POSENC_BAD_CONFIG, status);
            ASSERT_EQ(0, count);
            ASSERT_GT(strlen(why.text), 20);
        }
    }
    ASSERT_GT(good, 20);
    ASSERT_GT(bad, 300);
    PASS();
}

TEST every_status_has_words(void)
{
    for (int status = POSENC_OK; status <= POSENC_NOT_FINITE; status++) {
        ASSERT(posenc_explain(status) && posenc_explain(status)[0]);
        for (int other = 0; other < status; other++)
            ASSERT(strcmp(posenc_explain(status), posenc_explain(other)) != 0);
    }
    ASSERT(posenc_explain(-1) && posenc_explain(1000));
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(good_specs)
{
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(every_name_of_the_table_is_a_spec, i);
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(every_key_of_the_table_is_taken, i);
    }
    RUN_TEST(nothing_means_none);
    RUN_TEST(fields_not_named_are_zero);
    RUN_TEST(keys_reach_their_fields);
    RUN_TEST(several_encodings_keep_their_order);
    RUN_TEST(aliases_are_understood_and_never_shown);
}

SUITE(bad_specs)
{
    static const struct { const char *label, *text, *words; } bad[] = {
        { "unknown_name",         "rop",                        "'rop' rope sinusoidal" },
        { "capital_letters",      "Rope",                       "'Rope' rope" },
        { "blank_in_front",       " rope",                      "rope" },
        { "second_name",          "rope+abc",                   "'abc' alibi" },
        { "nine_encodings", "none+none+none+none+none+none+none+none+none", "more than 8" },
        { "nothing_after_plus",   "rope+",                      "rope alibi" },
        { "nothing_before_plus",  "+rope",                      "rope alibi" },
        { "nothing_after_colon",  "rope:",                      "rope value" },
        { "key_without_value",    "rope:base",                  "rope 'base' value" },
        { "value_missing",        "rope:base=",                 "rope base number" },
        { "key_missing",          "rope:=5",                    "rope base,layout,dim" },
        { "comma_at_the_end",     "rope:base=5,",               "rope value" },
        { "colon_twice",          "rope::base=5",               "rope" },
        { "not_a_number",         "rope:base=ten",              "'ten' number 1" },
        { "number_with_a_tail",   "rope:base=10x",              "'10x' number" },
        { "infinity",             "rope:base=inf",              "'inf' number" },
        { "nan",                  "rope:base=nan",              "'nan' number" },
        { "hexadecimal",          "rope:base=0x10",             "'0x10' number" },
        { "overflow",             "rope:base=1e999",            "'1e999' number" },
        { "base_1",               "rope:base=1",                "'1' number" },
        { "negative_base",        "rope:base=-5",               "'-5' number" },
        { "fractional_count",     "rope:dim=2.5",               "'2.5' whole number 2" },
        { "huge_count",           "learned:rows=99999999999",   "'99999999999' whole number" },
        { "zero_count",           "learned:rows=0",             "'0' whole number 1" },
        { "unknown_layout",       "rope:layout=pairs",          "'pairs' interleaved half" },
        { "empty_layout",         "rope:layout=",               "interleaved half" },
        { "both_layouts",         "rope:layout=interleaved|half", "interleaved half" },
        { "bidirectional_2",      "t5:bidirectional=2",         "'2' whole number" },
        { "factor_0",             "rope:scaling=yarn,factor=0", "factor '0' number" },
        { "negative_factor",      "rope:factor=-2",             "factor '-2' number" },
        { "unknown_scaling",      "rope:scaling=yarm",          "'yarm' linear ntk yarn llama3" },
        { "two_sections",         "mrope:sections=1/2",         "'1/2' three whole 1/2/3" },
        { "four_sections",        "mrope:sections=1/2/3/4",     "three whole" },
        { "fractional_section",   "mrope:sections=1/2/1.5",     "three whole" },
        { "empty_list",           "rope:long=",                 "list" },
        { "hole_in_a_list",       "rope:long=1//2",             "'1//2' list" },
        { "slash_at_the_end",     "rope:short=1/2/",            "'1/2/' list" },
        { "zero_in_a_list",       "rope:long=1/0/2",            "list 1e-06" },
        { "word_in_a_list",       "rope:long=1/two",            "list" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        label_test("%s", bad[i].label);
        RUN_TESTp(bad_spec_is_refused_with_a_sentence, bad[i].text, bad[i].words);
    }
    RUN_TEST(unknown_name_lists_every_right_one);
    for (int i = 0; i < POSENC_ENCODING_COUNT; i++) {
        label_test("%s", posenc_encoding_get(i)->name);
        RUN_TESTp(unknown_key_lists_the_right_ones, i);
    }
    RUN_TEST(key_of_another_encoding_is_refused);
    RUN_TEST(too_many_encodings_are_refused);
    RUN_TEST(too_long_a_text_is_refused);
    RUN_TEST(list_fills_its_room_and_no_more);
}

SUITE(spec_text)
{
    static const char *round_trip[] = {
        "none",
        "rope",
        "rope:base=500000,layout=interleaved,dim=64",
        "learned:rows=512,init=0.1+alibi",
        "t5:distance=64,buckets=16,bidirectional=-1",
        "continuous:length=1e+18,hidden=32",
        "alibi:bias_max=4.25",
        "sinusoidal:base=123.456+relative:distance=16+sininit:base=50,rows=7+lrope:layout=half",
        "rope:dim=8,scaling=longrope,original=4096,short=1/1.5/2/0.33333334,long=1/4/16/64.125",
        "mrope:order=interleaved,sections=24/20/20+qtemp:form=logn,every=4",
        "rope:offset=32,over=width,nope_every=4,scaling=yarn,factor=8,original=2048,truncate=-1"
    };
    for (int i = 0; i < 11; i++) {
        label_test("%d", i);
        RUN_TESTp(printed_spec_reads_back_the_same, round_trip[i]);
    }
    RUN_TEST(printing_never_writes_past_its_room);
    RUN_TEST(numbers_survive_the_way_through_text);
    RUN_TEST(decimal_comma_of_a_locale_changes_nothing);
    for (int i = 1; i <= 3; i++) {
        label_test("%d", i);
        RUN_TESTp(mutated_specs_get_a_status_and_a_sentence, i);
    }
    RUN_TEST(every_status_has_words);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(good_specs);
    RUN_SUITE(bad_specs);
    RUN_SUITE(spec_text);
    GREATEST_MAIN_END();
}
