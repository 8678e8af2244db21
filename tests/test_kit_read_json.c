/* The demos' JSON reader: what RFC 8259 allows is read to the last bit, everything else is refused
   with the place and the reason, and no text, however it was made, takes long or does harm.      */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "models.h"
#include "kit/json.h"
#include "kit/read_json.h"
#include <locale.h>
#include <time.h>

static kit_json doc;
static kit_error why;

/* The text lies in memory of just its size, so that the address checker sees a read behind it. */
static int reads_bytes(const char *text, size_t n, size_t most)
{
    char *exact = (char *)malloc(n ? n : 1);
    memcpy(exact, text, n);
    why.text[0] = 0;
    int good = kit_json_read(&doc, "it.json", exact, n, most, &why);
    if (good) {                                    /* messages about nodes look into the text */
        kit_put_bytes(&doc.own, text, n);
        doc.text = doc.own.data ? doc.own.data : "";
    }
    free(exact);
    return good;
}

static int reads(const char *text) { return reads_bytes(text, strlen(text), 0); }

/* 1 when it is refused with a message that has both pieces */
static int refused(const char *text, size_t n, const char *place, const char *reason)
{
    int good = reads_bytes(text, n, 0);
    if (good) kit_json_free(&doc);
    snprintf(check_text, sizeof check_text, "%s: '%.300s'", good ? "read" : "refused", why.text);
    return !good && !doc.node && strstr(why.text, "it.json") && strstr(why.text, place)
        && strstr(why.text, reason);
}

/* ---- what JSON allows ------------------------------------------------------------------------ */

TEST every_kind_of_value_is_read(void)
{
    ASSERTm(why.text, reads(" { \"n\" : null , \"yes\":true,\r\n\t\"no\":false,\"list\":[1,[],{}],"
                            "\"text\":\"a\",\"real\":-2.5E+1,\"\":{\"inner\":0} } "));
    const kit_json_node *root = doc.node, *list = kit_json_find(root, "list");
    const char *text;
    double real;
    ASSERT_EQ(KIT_JSON_OBJECT, root->type);
    ASSERT_EQ(7, root->count);
    ASSERT_EQ(doc.nodes, root->span);
    ASSERT_EQ(KIT_JSON_NULL, kit_json_find(root, "n")->type);
    ASSERT_EQ(KIT_JSON_TRUE, kit_json_find(root, "yes")->type);
    ASSERT_EQ(KIT_JSON_FALSE, kit_json_find(root, "no")->type);
    ASSERT(list->type == KIT_JSON_LIST && list->count == 3 && list->span == 4);
    ASSERT_EQ(KIT_JSON_OBJECT, kit_json_element(list, 2)->type);
    ASSERT_EQ(NULL, kit_json_element(list, 3));
    ASSERT(kit_json_to_text(kit_json_find(root, "text"), &text) && !strcmp(text, "a"));
    ASSERT(kit_json_to_real(kit_json_find(root, "real"), &real) && real == -25);
    ASSERT(kit_json_find(kit_json_find(root, ""), "inner"));
    ASSERT(!kit_json_find(root, "inner") && !kit_json_find(list, "n"));
    kit_json_free(&doc);
    PASS();
}

TEST walks_go_in_the_order_of_the_text(void)
{
    char seen[16] = "", *to = seen;
    ASSERTm(why.text, reads("{\"d\":[[1],2],\"a\":{\"x\":[]},\"c\":0,\"b\":\"\"}"));
    const kit_json_node *root = doc.node, *inside = kit_json_find(root, "d");
    for (const kit_json_node *k = kit_json_first(root); k; k = kit_json_next(root, k))
        *to++ = *k->as.text;
    for (const kit_json_node *n = kit_json_first(inside); n; n = kit_json_next(inside, n))
        *to++ = n->type == KIT_JSON_LIST ? 'L' : 'W';
    *to = 0;
    ASSERT_STR_EQ("dacbLW", seen);
    ASSERT_EQ(KIT_JSON_LIST, kit_json_value(kit_json_first(root))->type);
    ASSERT_EQ(NULL, kit_json_first(kit_json_find(root, "c")));
    kit_json_free(&doc);
    PASS();
}

TEST outermost_value_may_be_of_any_kind(const char *text, int type)
{
    ASSERTm(why.text, reads(text));
    ASSERT_EQ(type, doc.node->type);
    ASSERT_EQ(1, doc.nodes);
    kit_json_free(&doc);
    PASS();
}

TEST many_keys_are_all_found(void)
{
    enum { KEYS = 5000 };
    kit_text t = { NULL, 0, 0 };
    char key[16];
    uint64_t x;
    kit_put_string(&t, "{");
    for (int i = 0; i < KEYS; i++)
        kit_put(&t, "%s\"k%d\":%d", i ? "," : "", i * 7919 % KEYS, i * 7919 % KEYS);
    kit_put_string(&t, "}");
    ASSERTm(why.text, reads(t.data));
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "k%d", i);
        const kit_json_node *n = kit_json_find(doc.node, key);
        ASSERTm(key, n && kit_json_to_u64(n, &x) && x == (uint64_t)i);
    }
    ASSERT(!kit_json_find(doc.node, "k") && !kit_json_find(doc.node, "k5000"));
    ASSERT(!kit_json_find_bytes(doc.node, "k1\0", 3));
    kit_json_free(&doc);
    kit_text_free(&t);
    PASS();
}

TEST what_the_writer_wrote_comes_back(void)
{
    kit_text t = { NULL, 0, 0 };
    const char *text = "";
    uint64_t most = 0;
    double real = 0;
    kit_json_open(&t, NULL, '{');
    kit_json_text(&t, "text", "say \"\xc3\xbc\"\n\\ \x01");
    kit_json_u64(&t, "most", UINT64_MAX);
    kit_json_real(&t, "real", 0.1);
    kit_json_real(&t, "none", NAN);
    kit_json_close(&t, '}');
    ASSERTm(why.text, reads(t.data));
    ASSERT(kit_json_text_at(&doc, doc.node, "text", KIT_NEEDED, &text, &why));
    ASSERT_STR_EQ("say \"\xc3\xbc\"\n\\ \x01", text);
    ASSERT(kit_json_u64_at(&doc, doc.node, "most", KIT_NEEDED, &most, &why) && most == UINT64_MAX);
    ASSERT(kit_json_real_at(&doc, doc.node, "real", KIT_NEEDED, 0, 1, &real, &why));
    ASSERT_EQ(0.1, real);
    ASSERT(kit_json_real_at(&doc, doc.node, "none", KIT_OPTIONAL, 0, 1, &real, &why));
    ASSERT_EQ(0.1, real);
    kit_json_free(&doc);
    kit_text_free(&t);
    PASS();
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* fits: 1 as int64, 2 as uint64, 3 both, 0 neither */
static const struct number {
    const char *text;
    int type, fits;
    int64_t i;
    uint64_t u;
    double real;
} numbers[] = {
    { "0",                    KIT_JSON_WHOLE, 3, 0, 0, 0.0 },
    { "-0",                   KIT_JSON_WHOLE, 3, 0, 0, -0.0 },
    { "-1",                   KIT_JSON_WHOLE, 1, -1, 0, -1.0 },
    { "9007199254740993",     KIT_JSON_WHOLE, 3, 9007199254740993, 9007199254740993u,
      9007199254740992.0 },
    { "9223372036854775807",  KIT_JSON_WHOLE, 3, INT64_MAX, INT64_MAX, 9223372036854775808.0 },
    { "-9223372036854775808", KIT_JSON_WHOLE, 1, INT64_MIN, 0, -9223372036854775808.0 },
    { "9223372036854775808",  KIT_JSON_WHOLE, 2, 0, (uint64_t)1 << 63, 9223372036854775808.0 },
    { "18446744073709551615", KIT_JSON_WHOLE, 2, 0, UINT64_MAX, 18446744073709551616.0 },
    { "18446744073709551616", KIT_JSON_REAL, 0, 0, 0, 18446744073709551616.0 },
    { "-9223372036854775809", KIT_JSON_REAL, 0, 0, 0, -9223372036854775808.0 },
    { "99999999999999999999999", KIT_JSON_REAL, 0, 0, 0, 1e23 },
    { "1e3",                  KIT_JSON_REAL, 0, 0, 0, 1000.0 },
    { "1000.0",               KIT_JSON_REAL, 0, 0, 0, 1000.0 },
    { "1E+0",                 KIT_JSON_REAL, 0, 0, 0, 1.0 },
    { "0.1",                  KIT_JSON_REAL, 0, 0, 0, 0.1 },
    { "-0.0",                 KIT_JSON_REAL, 0, 0, 0, -0.0 },
    { "-1.5e-7",              KIT_JSON_REAL, 0, 0, 0, -1.5e-7 },
    { "0e999999999999",       KIT_JSON_REAL, 0, 0, 0, 0.0 },
    { "1.7976931348623157e308", KIT_JSON_REAL, 0, 0, 0, DBL_MAX },
    { "5e-324",               KIT_JSON_REAL, 0, 0, 0, 4.9406564584124654e-324 },
    { "1e-999",               KIT_JSON_REAL, 0, 0, 0, 0.0 },
    { "2.2250738585072011e-308", KIT_JSON_REAL, 0, 0, 0, 2.2250738585072011e-308 },
    { "9007199254740993.0000000000000000000000000001", KIT_JSON_REAL, 0, 0, 0, 9007199254740994.0 }
};

TEST number_is_exact(const struct number *n)
{
    int64_t i = 77;
    uint64_t u = 77;
    double real = 77;
    ASSERTm(why.text, reads(n->text));
    ASSERT_EQ(n->type, doc.node->type);
    ASSERT_EQ(n->fits & 1, kit_json_to_i64(doc.node, &i));
    ASSERT_EQ(n->fits >> 1, kit_json_to_u64(doc.node, &u));
    ASSERT_EQ(n->fits & 1 ? n->i : 77, i);
    ASSERT_EQ(n->fits >> 1 ? n->u : 77, u);
    ASSERT(kit_json_to_real(doc.node, &real) && real == n->real);
    ASSERT_EQ(!signbit(n->real), !signbit(real));
    kit_json_free(&doc);
    PASS();
}

/* A host program may have set a locale that writes 0,5 for 0.5. */
TEST decimal_comma_of_a_locale_changes_nothing(void)
{
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                         "fr_FR.UTF-8", "fr_FR.utf8", "fr_FR" };
    const char *found = NULL;
    double real = 0;
    for (int i = 0; i < 6 && !found; i++) found = setlocale(LC_NUMERIC, names[i]);
    if (!found) SKIPm("no locale with a decimal comma on this machine");
    int good = reads("[0.5,1.25e1]"), comma;
    if (good) kit_json_to_real(kit_json_element(doc.node, 1), &real);
    if (good) kit_json_free(&doc);
    comma = reads("0,5");
    setlocale(LC_NUMERIC, "C");
    ASSERTm(why.text, good);
    ASSERT_EQ(12.5, real);
    ASSERT_FALSE(comma);
    PASS();
}

/* The longest exact double: 2^-1074 with all its digits. */
TEST longest_double_is_read(void)
{
    char text[1200];
    double real;
    snprintf(text, sizeof text, "-%.1074f", 4.9406564584124654e-324);
    ASSERT_EQ(1077, strlen(text));
    ASSERTm(why.text, reads(text));
    ASSERT(kit_json_to_real(doc.node, &real) && real == -4.9406564584124654e-324);
    kit_json_free(&doc);
    PASS();
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* the first and the last of each length, and those beside the surrogates */
#define UTF_8_BORDERS "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80" \
                      "\xf4\x8f\xbf\xbf"
static const struct { const char *name, *text, *bytes; size_t n; } texts[] = {
    { "escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8 },
    { "codes", "\"\\u0041\\u00fc\\u20AC\\uFFFF\"", "A\xc3\xbc\xe2\x82\xac\xef\xbf\xbf", 9 },
    { "pairs", "\"\\ud83d\\ude00\\uDBFF\\uDFFF\"", "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf", 8 },
    { "borders_of_UTF_8", "\"" UTF_8_BORDERS "\"", UTF_8_BORDERS, 22 },
    { "zero_inside", "\"a\\u0000b\"", "a\0b", 3 },
    { "nothing", "\"\"", "", 0 }
};

TEST text_is_decoded(const char *text, const char *bytes, size_t n)
{
    ASSERTm(why.text, reads(text));
    ASSERT_EQ(n, doc.node->count);
    ASSERT_MEM_EQ(bytes, doc.node->as.text, n);
    ASSERT_EQ(0, doc.node->as.text[n]);
    kit_json_free(&doc);
    PASS();
}

TEST text_with_a_zero_is_not_a_string_of_C(void)
{
    const char *text = "before";
    ASSERTm(why.text, reads("{\"a\":\"x\\u0000y\",\"b\\u0000\":1}"));
    ASSERT(!kit_json_to_text(kit_json_find(doc.node, "a"), &text));
    ASSERT(!kit_json_text_at(&doc, doc.node, "a", KIT_OPTIONAL, &text, &why));
    ASSERTm(why.text, strstr(why.text, "line 1, column 6: a has a zero inside"));
    ASSERT_STR_EQ("before", text);
    ASSERT(!kit_json_find(doc.node, "b") && kit_json_find_bytes(doc.node, "b\0", 2));
    kit_json_free(&doc);
    PASS();
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define BYTES(text) text, sizeof text - 1
static const struct bad { const char *name, *text; size_t n; const char *place, *reason; } bad[] = {
    { "nothing", BYTES(""), "line 1, column 1", "expected a value, found the end of the text" },
    { "blanks", BYTES(" \n "), "line 2, column 2", "found the end of the text" },
    { "byte_order_mark", BYTES("\xef\xbb\xbf{}"), "column 1", "expected a value, found byte 0xEF" },
    { "no_break_space", BYTES("[\xc2\xa0]"), "column 2", "expected a value, found byte 0xC2" },
    { "zero_byte", BYTES("[\0]"), "column 2", "expected a value, found byte 0x00" },
    { "zero_behind", BYTES("{}\0"), "column 3", "expected nothing more, found byte 0x00" },
    { "trailing_word", BYTES("{} x"), "column 4", "expected nothing more, found x" },
    { "two_values", BYTES("1 2"), "column 3", "expected nothing more, found 2" },
    { "comma_only", BYTES("[,]"), "column 2", "expected a value, found ," },
    { "comma_last", BYTES("[1,]"), "column 4", "expected a value, found ]" },
    { "comma_twice", BYTES("[1,,2]"), "column 4", "expected a value, found ," },
    { "comma_missing", BYTES("[1 2]"), "column 4", "expected a comma or ], found 2" },
    { "comma_last_member", BYTES("{\"a\":1,}"), "column 8", "expected a key in quotes, found }" },
    { "comma_missing_member", BYTES("{\"a\":1 \"b\":2}"), "column 8", "expected a comma or }" },
    { "colon_missing", BYTES("{\"a\" 1}"), "column 6", "expected a colon behind the key, found 1" },
    { "key_missing", BYTES("{1:2}"), "column 2", "expected a key in quotes, found 1" },
    { "key_bare", BYTES("{a:2}"), "column 2", "expected a key in quotes, found a" },
    { "value_missing", BYTES("{\"a\":}"), "column 6", "expected a value, found }" },
    { "bracket_wrong", BYTES("[1}"), "column 3", "expected a comma or ], found }" },
    { "bracket_only", BYTES("]"), "column 1", "expected a value, found ]" },
    { "bracket_open", BYTES("[[1]"), "column 5", "expected a comma or ], found the end" },
    { "comment", BYTES("[1] // one"), "column 5", "expected nothing more, found /" },
    { "single_quotes", BYTES("['a']"), "column 2", "expected a value, found '" },
    { "word_short", BYTES("[tru]"), "column 2", "expected a value, found t" },
    { "word_large", BYTES("[True]"), "column 2", "expected a value, found T" },
    { "word_long", BYTES("[nulls]"), "column 6", "expected a comma or ], found s" },
    { "not_a_number", BYTES("[NaN]"), "column 2", "expected a value, found N" },
    { "infinity", BYTES("[-Infinity]"), "column 3", "expected a digit, found I" },
    { "plus", BYTES("+1"), "column 1", "expected a value, found +" },
    { "point_first", BYTES(".5"), "column 1", "expected a value, found ." },
    { "point_last", BYTES("5."), "column 3", "expected a digit, found the end" },
    { "point_twice", BYTES("1.2.3"), "column 4", "expected nothing more, found ." },
    { "point_comma", BYTES("{\"a\":0,5}"), "column 8", "expected a key in quotes, found 5" },
    { "minus_only", BYTES("-"), "column 2", "expected a digit, found the end" },
    { "minus_twice", BYTES("--1"), "column 2", "expected a digit, found -" },
    { "leading_zero", BYTES("[01]"), "column 3", "expected a comma or ], found 1" },
    { "leading_zero_minus", BYTES("-01"), "column 3", "expected nothing more, found 1" },
    { "hexadecimal", BYTES("0x10"), "column 2", "expected nothing more, found x" },
    { "exponent_empty", BYTES("1e"), "column 3", "expected a digit, found the end" },
    { "exponent_signs", BYTES("1e+-2"), "column 4", "expected a digit, found -" },
    { "exponent_point", BYTES("1e2.5"), "column 4", "expected nothing more, found ." },
    { "number_huge", BYTES("[1e309]"), "column 2", "too large for a double" },
    { "number_huge_minus", BYTES("[0,-1e99999999999]"), "column 4", "too large for a double" },
    { "text_open", BYTES("\"abc"), "column 5", "expected a quote at the end of a text" },
    { "text_open_escape", BYTES("\"abc\\"), "column 6", "behind \\, found the end" },
    { "text_line_break", BYTES("\"a\nb\""), "line 1, column 3",
      "control character in a text, found byte 0x0A" },
    { "text_tab", BYTES("\"a\tb\""), "column 3", "found byte 0x09" },
    { "text_zero", BYTES("\"a\0b\""), "column 3", "found byte 0x00" },
    { "escape_unknown", BYTES("\"\\x41\""), "column 3", "behind \\, found x" },
    { "escape_zero", BYTES("\"\\\0\""), "column 3", "behind \\, found byte 0x00" },
    { "escape_short", BYTES("\"\\u12\""), "column 6",
      "four hexadecimal digits behind \\u, found \"" },
    { "escape_not_hex", BYTES("\"\\u12g4\""), "column 6",
      "four hexadecimal digits behind \\u, found g" },
    { "escape_cut", BYTES("\"\\u123"), "column 7", "found the end of the text" },
    { "pair_first_alone", BYTES("\"\\ud83d\""), "column 8", "\\uD83D is the first half of a pair" },
    { "pair_first_cut", BYTES("\"\\ud83d\\"), "column 8", "\\uD83D is the first half of a pair" },
    { "pair_first_letter", BYTES("\"\\ud83dabcdef\""), "column 8", "is the first half of a pair" },
    { "pair_first_twice", BYTES("\"\\ud83d\\ud83d\""), "column 14",
      "\\uD83D and \\uD83D are not a pair" },
    { "pair_and_letter", BYTES("\"\\ud83d\\u0041\""), "column 14",
      "\\uD83D and \\u0041 are not a pair" },
    { "pair_second_alone", BYTES("\"\\ude00\""), "column 8",
      "\\uDE00 is the second half of a pair" },
    { "utf8_alone", BYTES("\"\x80\""), "column 2", "expected UTF-8, found byte 0x80" },
    { "utf8_overlong_2", BYTES("\"\xc0\xaf\""), "column 2", "expected UTF-8, found byte 0xC0" },
    { "utf8_overlong_2b", BYTES("\"\xc1\xbf\""), "column 2", "expected UTF-8, found byte 0xC1" },
    { "utf8_overlong_3", BYTES("\"\xe0\x9f\xbf\""), "column 2", "expected UTF-8, found byte 0xE0" },
    { "utf8_overlong_4", BYTES("\"\xf0\x8f\xbf\xbf\""), "column 2",
      "expected UTF-8, found byte 0xF0" },
    { "utf8_surrogate_low", BYTES("\"\xed\xa0\x80\""), "column 2",
      "expected UTF-8, found byte 0xED" },
    { "utf8_surrogate_high", BYTES("\"\xed\xbf\xbf\""), "column 2",
      "expected UTF-8, found byte 0xED" },
    { "utf8_too_large", BYTES("\"\xf4\x90\x80\x80\""), "column 2",
      "expected UTF-8, found byte 0xF4" },
    { "utf8_no_such", BYTES("\"\xf5\x80\x80\x80\""), "column 2",
      "expected UTF-8, found byte 0xF5" },
    { "utf8_ff", BYTES("\"\xff\""), "column 2", "expected UTF-8, found byte 0xFF" },
    { "utf8_cut_2", BYTES("\"\xc3\""), "column 2", "expected UTF-8, found byte 0xC3" },
    { "utf8_cut_3", BYTES("\"\xe2\x82\""), "column 2", "expected UTF-8, found byte 0xE2" },
    { "utf8_cut_by_the_end", BYTES("\"\xf0\x9f\x98"), "column 2",
      "expected UTF-8, found byte 0xF0" },
    { "key_twice", BYTES("{\"a\":1,\n \"b\":2,\n  \"a\":3}"), "line 3, column 3",
      "the key a comes twice" },
    { "key_twice_in_disguise", BYTES("{\"ab\":1,\"\\u0061b\":2}"), "column 9",
      "the key ab comes twice" },
    { "key_twice_empty", BYTES("{\"\":1,\"\":2}"), "column 7", "the key  comes twice" },
    { "key_twice_inside", BYTES("[{\"x\":{\"k\":0,\"k\":0}}]"), "column 14",
      "the key k comes twice" },
    { "key_that_steers", BYTES("{\"\\u001b[2J\xc2\x9b\":1,\"\\u001b[2J\xc2\x9b\":1}"), "column 17",
      "the key ?[2J?? comes twice" },
    { "columns_are_letters", BYTES("[\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\" x]"), "column 8",
      "found x" },
    { "lines_are_counted", BYTES("{\r\n\"a\":\r\n\r\n x}"), "line 4, column 2",
      "expected a value, found x" }
};

TEST it_is_refused(const struct bad *b)
{
    ASSERTm(check_text, refused(b->text, b->n, b->place, b->reason));
    PASS();
}

/* The same key in two objects is two keys. */
TEST keys_belong_to_their_object(void)
{
    ASSERTm(why.text, reads("{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}]}"));
    kit_json_free(&doc);
    PASS();
}

/* ---- limits ---------------------------------------------------------------------------------- */

static kit_text repeated(const char *first, const char *unit, size_t times, const char *last)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, first);
    for (size_t i = 0; i < times; i++) kit_put_string(&t, unit);
    kit_put_string(&t, last);
    return t;
}

TEST nesting_has_an_end(void)
{
    for (int depth = KIT_JSON_DEPTH - 1; depth <= KIT_JSON_DEPTH; depth++) {
        kit_text open = repeated("", "[", (size_t)depth, "[]");
        kit_text close = repeated("", "]", (size_t)depth, "");
        kit_put_string(&open, close.data);
        int good = reads(open.data);
        kit_json_free(&doc);
        ASSERT_EQm(why.text, depth < KIT_JSON_DEPTH, good);
        kit_text_free(&open);
        kit_text_free(&close);
    }
    ASSERTm(why.text, strstr(why.text, "column 65: nested deeper than 64 brackets"));
    PASS();
}

TEST texts_have_a_largest_size(void)
{
    ASSERT(reads_bytes("[1234567]", 9, 9));
    kit_json_free(&doc);
    ASSERT(!reads_bytes("[12345678]", 10, 9));
    ASSERT_STR_EQ("it.json has 10 bytes; at most 9 are read", why.text);
    kit_text t = repeated("", " ", KIT_JSON_BYTES, "0");
    ASSERT(!reads_bytes(t.data, t.size, 0));
    ASSERT_STR_EQ("it.json has 67108865 bytes; at most 67108864 are read", why.text);
    kit_text_free(&t);
    PASS();
}

TEST numbers_have_a_largest_length(void)
{
    kit_text t = repeated("0.", "3", KIT_JSON_DIGITS - 2, "");
    double real;
    ASSERTm(why.text, reads(t.data));
    ASSERT(kit_json_to_real(doc.node, &real) && real == 1.0 / 3);
    kit_json_free(&doc);
    kit_put_string(&t, "3");
    ASSERTm(check_text, refused(t.data, t.size, "column 1", "a number of more than 1200 letters"));
    kit_text_free(&t);
    PASS();
}

TEST values_have_a_largest_number(void)
{
    kit_text t = repeated("[0", ",0", KIT_JSON_NODES - 2, "]");
    ASSERTm(why.text, reads_bytes(t.data, t.size, 0));
    ASSERT_EQ(KIT_JSON_NODES, doc.nodes);
    kit_json_free(&doc);
    t.size--;
    kit_put_string(&t, ",0]");
    ASSERTm(check_text, refused(t.data, t.size, "line 1", "more than 8388608 values and keys"));
    kit_text_free(&t);
    PASS();
}

/* A megabyte each of what would take hours if every pair were compared or every level called. */
static kit_text keys_of_a_megabyte(const char *format)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, "{");
    for (int i = 0; t.size < 1000000; i++) {
        kit_put_string(&t, i ? ",\"" : "\"");
        kit_put(&t, format, (int)((i * 2654435761u) >> 1));
        kit_put_string(&t, "\":0");
    }
    kit_put_string(&t, "}");
    return t;
}

TEST megabyte_is_quick(const char *unit, const char *key, int good)
{
    kit_text t = key ? keys_of_a_megabyte(key) : repeated("", unit, 1000000 / strlen(unit), "");
    clock_t begin = clock();
    ASSERT_EQm(why.text, good, reads_bytes(t.data, t.size, 0));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    kit_json_free(&doc);
    kit_text_free(&t);
    ASSERT_LT(seconds, 5);
    PASS();
}

/* ---- a good text, spoilt --------------------------------------------------------------------- */

static const char sample[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":4096,\"rms_norm_eps\":1e-05,\n"
    " \"rope_scaling\":{\"factor\":8.0,\"type\":\"llama3\",\"none\":null},\"tie\":false,"
    "\"yes\":true,\n \"text\":\"\\u00fc \\ud83d\\ude00 \xc3\xbc\xe2\x82\xac \\n\\\\\",\"list\":"
    "[0,-1,[2.5],{}],\"z\":-12}";

TEST every_cut_is_refused(void)
{
    ASSERTm(why.text, reads(sample));
    kit_json_free(&doc);
    for (size_t n = 0; n < sizeof sample - 1; n++)
        ASSERTm(check_text, refused(sample, n, "line", "column"));
    PASS();
}

TEST every_flipped_bit_is_read_or_refused(void)
{
    char text[sizeof sample];
    int good = 0, wrong = 0;
    for (size_t i = 0; i < 8 * (sizeof sample - 1); i++) {
        memcpy(text, sample, sizeof sample);
        text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
        if (reads_bytes(text, sizeof sample - 1, 0)) {
            good++;
            kit_json_free(&doc);
        } else {
            wrong++;
            ASSERTm(why.text, strstr(why.text, "it.json, line ") && !doc.node);
        }
    }
    ASSERT_GT(good, 500);
    ASSERT_GT(wrong, 500);
    PASS();
}

/* ---- members by key -------------------------------------------------------------------------- */

static const char config[] =
    "{\"layers\": 12, \"zero\":0, \"heads\":\"8\", \"size\":1e3, \"eps\":1e-5,\n"
    "\"none\":null,\"tied\":true,\"kind\":\"llama\",\"list\":[1],\"inner\":{\"a\":1.5}}";

TEST members_are_read_with_their_defaults(void)
{
    int layers = 3, tied = 0, missing = 7;
    double eps = 0;
    uint64_t zero = 5;
    const char *kind = "?";
    const kit_json_node *list = NULL, *inner = NULL, *nothing = NULL;
    ASSERTm(why.text, reads(config));
    const kit_json_node *root = doc.node;
    ASSERT(kit_json_int_at(&doc, root, "layers", KIT_NEEDED, 1, 12, &layers, &why) && layers == 12);
    ASSERT(kit_json_int_at(&doc, root, "absent", KIT_OPTIONAL, 1, 2, &missing, &why));
    ASSERT(kit_json_int_at(&doc, root, "none", KIT_OPTIONAL, 1, 2, &missing, &why) && missing == 7);
    ASSERT(kit_json_u64_at(&doc, root, "zero", KIT_NEEDED, &zero, &why) && zero == 0);
    ASSERT(kit_json_real_at(&doc, root, "eps", KIT_NEEDED, 0, 1, &eps, &why) && eps == 1e-5);
    ASSERT(kit_json_real_at(&doc, root, "layers", KIT_NEEDED, 0, 99, &eps, &why) && eps == 12);
    ASSERT(kit_json_flag_at(&doc, root, "tied", KIT_NEEDED, &tied, &why) && tied == 1);
    ASSERT(kit_json_text_at(&doc, root, "kind", KIT_NEEDED, &kind, &why) && !strcmp(kind, "llama"));
    ASSERT(kit_json_inside_at(&doc, root, "list", KIT_NEEDED, KIT_JSON_LIST, &list, &why));
    ASSERT(kit_json_inside_at(&doc, root, "inner", KIT_NEEDED, KIT_JSON_OBJECT, &inner, &why));
    ASSERT(kit_json_inside_at(&doc, root, "none", KIT_OPTIONAL, KIT_JSON_LIST, &nothing, &why));
    ASSERT(list->count == 1 && !nothing);
    ASSERT(kit_json_real_at(&doc, inner, "a", KIT_NEEDED, 0, 99, &eps, &why) && eps == 1.5);
    kit_json_free(&doc);
    PASS();
}

TEST wrong_member_is_named_with_its_place(const char *key, char kind, const char *said)
{
    int number = 5, good;
    double real = 5;
    uint64_t u = 5;
    const char *text = "5";
    const kit_json_node *node = NULL, *root;
    ASSERTm(why.text, reads(config));
    root = kind == 'o' ? kit_json_find(doc.node, key) : doc.node;
    switch (kind) {
    case 'i': good = kit_json_int_at(&doc, root, key, KIT_NEEDED, 1, 10, &number, &why); break;
    case 'u': good = kit_json_u64_at(&doc, root, key, KIT_OPTIONAL, &u, &why); break;
    case 'r': good = kit_json_real_at(&doc, root, key, KIT_OPTIONAL, 1, 10, &real, &why); break;
    case 'f': good = kit_json_flag_at(&doc, root, key, KIT_OPTIONAL, &number, &why); break;
    case 't': good = kit_json_text_at(&doc, root, key, KIT_NEEDED, &text, &why); break;
    case 'l':
        good = kit_json_inside_at(&doc, root, key, KIT_NEEDED, KIT_JSON_LIST, &node, &why);
        break;
    default: good = kit_json_int_at(&doc, root, "a", KIT_OPTIONAL, 1, 10, &number, &why);
    }
    kit_json_free(&doc);
    ASSERT_FALSE(good);
    ASSERT_STR_EQ(said, why.text);
    ASSERT(number == 5 && real == 5 && u == 5 && !strcmp(text, "5") && !node);
    PASS();
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST files_are_loaded_or_refused(void)
{
    char path[256], said[600];
    int layers = 0;
    temporary_path(path, sizeof path, "json");
    ASSERT(kit_save_bytes(path, config, sizeof config - 1, &why));
    ASSERTm(why.text, kit_json_load(&doc, path, 0, &why));
    ASSERT(kit_json_int_at(&doc, doc.node, "layers", KIT_NEEDED, 1, 12, &layers, &why));
    ASSERT_EQ(12, layers);
    ASSERT(!kit_json_int_at(&doc, doc.node, "heads", KIT_NEEDED, 1, 12, &layers, &why));
    ASSERT(strstr(why.text, path) == why.text);
    kit_json_free(&doc);

    ASSERT(!kit_json_load(&doc, path, sizeof config - 2, &why));
    snprintf(said, sizeof said, "%s has %d bytes or more; at most %d are read", path,
             (int)sizeof config - 1, (int)sizeof config - 2);
    ASSERT_STR_EQ(said, why.text);
    ASSERT(kit_save_bytes(path, "", 0, &why) && !kit_json_load(&doc, path, 0, &why));
    ASSERTm(why.text, strstr(why.text, "line 1, column 1: expected a value, found the end"));
    remove(path);
    ASSERT(!kit_json_load(&doc, path, 0, &why));
    snprintf(said, sizeof said, "cannot open %s: %s", path, strerror(ENOENT));
    ASSERT_STR_EQ(said, why.text);
    ASSERT(!kit_json_load(&doc, ".", 0, &why) && strstr(why.text, strerror(EISDIR)));
    if (kit_exists("/dev/zero")) {                       /* has no size and no end */
        ASSERT(!kit_json_load(&doc, "/dev/zero", 100000, &why));
        ASSERTm(why.text, strstr(why.text, "at most 100000 are read"));
    }
    PASS();
}

TEST a_name_of_any_length_fits_into_the_message(void)
{
    char name[2000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    ASSERT(!kit_json_read(&doc, name, "[", 1, 0, &why));
    ASSERTm(why.text, strstr(why.text, "line 1, column 2: expected a value"));
    PASS();
}

/* ---- the list -------------------------------------------------------------------------------- */

SUITE(allowed)
{
    RUN_TEST(every_kind_of_value_is_read);
    RUN_TEST(walks_go_in_the_order_of_the_text);
    label_test("object"); RUN_TESTp(outermost_value_may_be_of_any_kind, "{}", KIT_JSON_OBJECT);
    label_test("list"); RUN_TESTp(outermost_value_may_be_of_any_kind, " [ ] ", KIT_JSON_LIST);
    label_test("text"); RUN_TESTp(outermost_value_may_be_of_any_kind, "\"\"", KIT_JSON_TEXT);
    label_test("number"); RUN_TESTp(outermost_value_may_be_of_any_kind, "7", KIT_JSON_WHOLE);
    label_test("word"); RUN_TESTp(outermost_value_may_be_of_any_kind, "\nnull", KIT_JSON_NULL);
    RUN_TEST(many_keys_are_all_found);
    RUN_TEST(what_the_writer_wrote_comes_back);
    RUN_TEST(keys_belong_to_their_object);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        label_test("%s", numbers[i].text);
        RUN_TESTp(number_is_exact, &numbers[i]);
    }
    RUN_TEST(longest_double_is_read);
    RUN_TEST(decimal_comma_of_a_locale_changes_nothing);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        label_test("%s", texts[i].name);
        RUN_TESTp(text_is_decoded, texts[i].text, texts[i].bytes, texts[i].n);
    }
    RUN_TEST(text_with_a_zero_is_not_a_string_of_C);
}

SUITE(refusals)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        label_test("%s", bad[i].name);
        RUN_TESTp(it_is_refused, &bad[i]);
    }
    RUN_TEST(every_cut_is_refused);
    RUN_TEST(every_flipped_bit_is_read_or_refused);
}

SUITE(limits)
{
    RUN_TEST(nesting_has_an_end);
    RUN_TEST(texts_have_a_largest_size);
    RUN_TEST(numbers_have_a_largest_length);
    RUN_TEST(values_have_a_largest_number);
    label_test("brackets"); RUN_TESTp(megabyte_is_quick, "[", NULL, 0);
    label_test("braces"); RUN_TESTp(megabyte_is_quick, "{\"\":", NULL, 0);
    label_test("quotes"); RUN_TESTp(megabyte_is_quick, "\"", NULL, 0);
    label_test("digits"); RUN_TESTp(megabyte_is_quick, "7", NULL, 0);
    label_test("backslashes"); RUN_TESTp(megabyte_is_quick, "\"\\\\", NULL, 0);
    label_test("keys"); RUN_TESTp(megabyte_is_quick, NULL, "%d", 1);
    label_test("keys_that_begin_alike");
    RUN_TESTp(megabyte_is_quick, NULL, "the same beginning in each of all the keys %010d", 1);
}

SUITE(members)
{
    RUN_TEST(members_are_read_with_their_defaults);
    label_test("missing");
    RUN_TESTp(wrong_member_is_named_with_its_place, "depth", 'i',
              "it.json, line 1, column 1: the object has no depth");
    label_test("null");
    RUN_TESTp(wrong_member_is_named_with_its_place, "none", 'i',
              "it.json, line 2, column 8: none is null, expected a whole number from 1 to 10");
    label_test("too_large");
    RUN_TESTp(wrong_member_is_named_with_its_place, "layers", 'i',
              "it.json, line 1, column 12: layers is 12, expected a whole number from 1 to 10");
    label_test("text_for_a_number");
    RUN_TESTp(wrong_member_is_named_with_its_place, "heads", 'i',
              "it.json, line 1, column 34: heads is a text, expected a whole number from 1 to 10");
    label_test("real_for_a_whole");
    RUN_TESTp(wrong_member_is_named_with_its_place, "size", 'i',
              "it.json, line 1, column 46: size is 1e3, expected a whole number from 1 to 10");
    label_test("real_for_a_size");
    RUN_TESTp(wrong_member_is_named_with_its_place, "eps", 'u',
              "it.json, line 1, column 57: eps is 1e-5, expected a whole number from 0 to "
              "2^64 - 1");
    label_test("list_for_a_real");
    RUN_TESTp(wrong_member_is_named_with_its_place, "list", 'r',
              "it.json, line 2, column 47: list is a list, expected a number from 1 to 10");
    label_test("number_for_a_flag");
    RUN_TESTp(wrong_member_is_named_with_its_place, "zero", 'f',
              "it.json, line 1, column 23: zero is 0, expected true or false");
    label_test("flag_for_a_text");
    RUN_TESTp(wrong_member_is_named_with_its_place, "tied", 't',
              "it.json, line 2, column 20: tied is true, expected a text");
    label_test("object_for_a_list");
    RUN_TESTp(wrong_member_is_named_with_its_place, "inner", 'l',
              "it.json, line 2, column 59: inner is an object, expected a list");
    label_test("inside_of_a_list");
    RUN_TESTp(wrong_member_is_named_with_its_place, "list", 'o',
              "it.json, line 2, column 47: expected an object with a, found a list");
    RUN_TEST(files_are_loaded_or_refused);
    RUN_TEST(a_name_of_any_length_fits_into_the_message);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(allowed);
    RUN_SUITE(refusals);
    RUN_SUITE(limits);
    RUN_SUITE(members);
    GREATEST_MAIN_END();
}
