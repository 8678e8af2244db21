/* What a run tells about itself: metrics.jsonl that survives crashes and full disks, TensorBoard's
   files to the byte, the line on the terminal, and the report that is made of it all.           */
#define _POSIX_C_SOURCE 200809L
#include "posenc.h"
#include "check.h"
#include "lm/run_report.h"
#include <sys/resource.h>

static char folder[KIT_PATH];              /* of all tests                                        */
static char at[KIT_PATH];                  /* of the test under way                               */
static kit_error why;

static int fresh(const char *name)
{
    return kit_join(at, folder, name, &why) && kit_make_folders(at, &why);
}

static int put(const char *name, const char *text)
{
    kit_text t = { NULL, 0, 0 };
    kit_put_string(&t, text);
    int done = kit_save_in(at, name, &t, &why);
    kit_text_free(&t);
    return done;
}

/* the whole file, until the next call */
static const char *get(const char *name)
{
    static kit_text t;
    char path[KIT_PATH];
    kit_text_free(&t);
    if (!kit_join(path, at, name, &why) || !kit_read_file(&t, path, 1 << 24, &why)) return "(none)";
    return t.data ? t.data : "";
}

static int has(const char *name, const char *words) { return strstr(get(name), words) != NULL; }
static int said(const char *words) { return strstr(why.text, words) != NULL; }

static int write_line(lm_log *g, uint64_t tokens, double loss)
{
    lm_log_begin(g, tokens);
    lm_log_real(g, "train/loss", loss);
    return lm_log_end(g, &why);
}

/* ---- metrics.jsonl --------------------------------------------------------------------------- */

TEST a_line_is_one_object_with_tokens_first(void)
{
    lm_log g;
    ASSERT(fresh("line") && lm_log_open(&g, at, 0, 0, &why));
    lm_log_begin(&g, 12345678901234ULL);
    lm_log_real(&g, "train/loss", 2.5);
    lm_log_real(&g, "train/lr", 0.1);
    lm_log_real(&g, "train/ppl", INFINITY);
    lm_log_real(&g, "grad/mean", NAN);
    lm_log_text(&g, "note", "a \"b\"\n\xc3\xa9 \xff");
    ASSERT(lm_log_end(&g, &why));
    ASSERT(write_line(&g, 12345678901235ULL, -3));
    lm_log_close(&g);
    ASSERT_STR_EQ("{\"tokens\":12345678901234,\"train/loss\":2.5,\"train/lr\":0.1,"
                  "\"train/ppl\":null,\"grad/mean\":null,"
                  "\"note\":\"a \\\"b\\\"\\u000a\xc3\xa9 \xef\xbf\xbd\"}\n"
                  "{\"tokens\":12345678901235,\"train/loss\":-3}\n", get("metrics.jsonl"));
    PASS();
}

TEST numbers_read_back_as_they_were(void)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)check_random_bits() << 32 | check_random_bits();
        double v, got;
        kit_json d;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v)) continue;
        t.size = 0;
        lm_put_real(&t, v);
        ASSERT(kit_json_read(&d, "x", t.data, t.size, 0, &why) && kit_json_to_real(d.node, &got));
        ASSERT(got == v);
        kit_json_free(&d);
    }
    kit_text_free(&t);
    PASS();
}

TEST going_on_drops_what_the_checkpoint_does_not_know(void)
{
    lm_log g;
    ASSERT(fresh("resume") && lm_log_open(&g, at, 0, 0, &why));
    for (int i = 1; i <= 6; i++) ASSERT(write_line(&g, (uint64_t)i * 100, i));
    lm_log_close(&g);
    ASSERT(lm_log_open(&g, at, 0, 400, &why) && write_line(&g, 450, 9));
    lm_log_close(&g);
    ASSERT_STR_EQ("{\"tokens\":100,\"train/loss\":1}\n{\"tokens\":200,\"train/loss\":2}\n"
                  "{\"tokens\":300,\"train/loss\":3}\n{\"tokens\":400,\"train/loss\":4}\n"
                  "{\"tokens\":450,\"train/loss\":9}\n", get("metrics.jsonl"));
    ASSERT(lm_log_open(&g, at, 0, 0, &why));
    lm_log_close(&g);
    ASSERT_STR_EQ("", get("metrics.jsonl"));
    PASS();
}

/* cut anywhere: the whole lines stay, and what is written next stands on a line of its own */
TEST a_line_cut_by_a_crash_is_dropped(void)
{
    static const char two[] = "{\"tokens\":1,\"train/loss\":2}\n{\"tokens\":2,\"train/loss\":3}\n";
    const size_t first = (size_t)(strchr(two, '\n') - two) + 1;
    ASSERT(fresh("cut"));
    for (size_t n = first; n < sizeof two - 1; n += 3) {
        char part[sizeof two] = "", want[2 * sizeof two];
        lm_log g;
        memcpy(part, two, n);
        ASSERT(put("metrics.jsonl", part) && lm_log_open(&g, at, 0, 1000, &why));
        ASSERT(write_line(&g, 5, 6));
        lm_log_close(&g);
        snprintf(want, sizeof want, "%.*s{\"tokens\":5,\"train/loss\":6}\n", (int)first, two);
        ASSERT_STR_EQ(want, get("metrics.jsonl"));
    }
    PASS();
}

TEST a_damaged_line_is_named_and_nothing_is_lost(void)
{
    static const char *const bad[][2] = {
        { "{\"tokens\":1}\nnot JSON\n{\"tokens\":3}\n", "line 2, column 1: expected a value" },
        { "{\"tokens\":1}\n{\"tokens\":\"2\"}\n", "line 2, column 11: tokens is a text" },
        { "{\"tokens\":1}\n\n{\"tokens\":2}\n{\"loss\":3}\n", "line 2, column 1" },
        { "{\"loss\":3}\n", "line 1, column 1: the object has no tokens" },
        { "[1]\n", "line 1, column 1: expected an object" },
        { "{\"tokens\":-5}\n", "line 1, column 11: tokens is -5" },
    };
    ASSERT(fresh("damaged"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_log g;
        ASSERT(put("metrics.jsonl", bad[i][0]));
        ASSERT_FALSE(lm_log_open(&g, at, 0, 1000, &why));
        ASSERTm(why.text, said(bad[i][1]) && said("damaged/metrics.jsonl"));
        ASSERT_STR_EQ(bad[i][0], get("metrics.jsonl"));
    }
    PASS();
}

TEST an_endless_line_is_refused(void)
{
    kit_text t = { NULL, 0, 0 };
    char path[KIT_PATH];
    lm_log g;
    ASSERT(fresh("endless") && lm_log_path(path, at, &why));
    kit_put_string(&t, "{\"tokens\":1}\n{\"tokens\":2,\"x\":\"");
    ASSERT(kit_save(path, &t, &why));
    ASSERT_EQ(truncate(path, (off_t)3 << 30), 0);            /* 3 GB that take no room */
    ASSERT_FALSE(lm_log_open(&g, at, 0, 9, &why));
    ASSERTm(why.text, said("line 2: longer than 1048576 bytes"));
    ASSERT_FALSE(lm_run_report(at, &why));
    ASSERTm(why.text, said("line 2: longer than 1048576 bytes"));
    unlink(path);
    kit_text_free(&t);
    PASS();
}

TEST a_branch_begins_with_its_parents_lines(void)
{
    char parent[KIT_PATH], child[KIT_PATH];
    lm_log g;
    ASSERT(fresh("parent") && lm_log_open(&g, at, 0, 0, &why));
    for (int i = 1; i <= 6; i++) ASSERT(write_line(&g, (uint64_t)i * 100, i));
    lm_log_close(&g);
    snprintf(parent, sizeof parent, "%s", at);
    ASSERT(kit_join(child, at, "decay_3", &why) && lm_log_replay(parent, child, 250, &why));
    ASSERT(lm_log_open(&g, child, 0, 250, &why) && write_line(&g, 260, 0.5));
    lm_log_close(&g);
    ASSERT(has("metrics.jsonl", "\"tokens\":600"));
    ASSERT(fresh("parent/decay_3"));
    ASSERT_STR_EQ("{\"tokens\":100,\"train/loss\":1}\n{\"tokens\":200,\"train/loss\":2}\n"
                  "{\"tokens\":260,\"train/loss\":0.5}\n", get("metrics.jsonl"));
    ASSERT_FALSE(lm_log_replay("/nowhere/at/all", child, 1, &why));
    ASSERT(said("/nowhere/at/all"));
    PASS();
}

/* A limit on the size of files is to write() what a full disk is. */
static int full_at(rlim_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0) return 0;
    limit.rlim_cur = bytes ? bytes : limit.rlim_max;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/* All under the limit first, then what came of it: a failure's report must not meet the limit. */
TEST a_full_disk_is_a_sentence_and_leaves_whole_lines(void)
{
    static const char whole[] = "{\"tokens\":1,\"train/loss\":1}\n";
    lm_log g, again;
    kit_error first;
    char after[128];
    ASSERT(fresh("full") && lm_log_open(&g, at, 0, 0, &why) && write_line(&g, 1, 1));
    signal(SIGXFSZ, SIG_IGN);
    ASSERT(full_at(sizeof whole + 10));
    int wrote = write_line(&g, 2, 2);
    first = why;
    snprintf(after, sizeof after, "%.100s", get("metrics.jsonl"));
    ASSERT(full_at(10));
    int opened = lm_log_open(&again, at, 0, 5, &why);
    ASSERT(full_at(0));
    ASSERT_EQ(wrote, 0);
    ASSERT(strstr(first.text, "cannot write") && strstr(first.text, "full/metrics.jsonl"));
    ASSERT_STR_EQ(whole, after);
    ASSERT_EQ(opened, 0);
    ASSERTm(why.text, said("cannot write") && said("full/metrics.jsonl"));
    ASSERT_STR_EQ("(none)", get("metrics.jsonl.tmp"));
    ASSERT(write_line(&g, 3, 3));                            /* there is room again */
    lm_log_close(&g);
    ASSERT_STR_EQ("{\"tokens\":1,\"train/loss\":1}\n{\"tokens\":3,\"train/loss\":3}\n",
                  get("metrics.jsonl"));
    PASS();
}

/* ---- TensorBoard ----------------------------------------------------------------------------- */

TEST checksums_are_castagnolis(void)
{
    ASSERT_EQ_FMT(0xe3069283u, lm_crc32c("123456789", 9), "%08x");
    ASSERT_EQ_FMT(0xc78ab0e5u, lm_masked(lm_crc32c("123456789", 9)), "%08x");
    PASS();
}

/* what TensorFlow's own writer makes of the same */
TEST records_are_the_known_bytes(void)
{
    static const unsigned char version[] =
        "\x1a\0\0\0\0\0\0\0\x12\x9b\xd8\x2d\x09\0\0\0\x40\xfc\x54\xd9\x41\x10\x00\x1a\x0d"
        "brain.Event:2\xe6\x77\x3e\x1a";
    static const unsigned char scalar[] =
        "\x24\0\0\0\0\0\0\0\x42\x2b\x80\x4d\x09\0\0\0\x40\xfc\x54\xd9\x41\x10\x80\x80\x80\xb5\x18"
        "\x2a\x13\x0a\x11\x0a\x0atrain/loss\x15\x00\x00\x60\x40\xcf\x2c\xb1\xe6";
    kit_text t = { NULL, 0, 0 };
    lm_event_version(&t, 1.7e9);
    ASSERT_EQ(t.size, sizeof version - 1);
    ASSERT_MEM_EQ(version, t.data, sizeof version - 1);
    t.size = 0;
    lm_event_scalar(&t, 1.7e9, 6553600000ULL, "train/loss", 3.5);
    ASSERT_EQ(t.size, sizeof scalar - 1);
    ASSERT_MEM_EQ(scalar, t.data, sizeof scalar - 1);
    kit_text_free(&t);
    PASS();
}

static const unsigned char png_head[] =
    "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\1\x2c\0\0\0\xc8\x08\x02\0\0\0crc_and so on";

TEST a_picture_must_be_one(void)
{
    kit_text t = { NULL, 0, 0 }, png = t;
    kit_put_bytes(&png, png_head, sizeof png_head - 1);
    ASSERT(lm_event_png(&t, 0, 1, "map", &png, &why) && t.size > png.size);
    png.data[25] = 9;
    ASSERT_FALSE(lm_event_png(&t, 0, 1, "map", &png, &why));
    png.size = 20;
    ASSERT_FALSE(lm_event_png(&t, 0, 1, "map", &png, &why));
    ASSERT(said("20 bytes"));
    kit_text_free(&t);
    kit_text_free(&png);
    PASS();
}

/* Two sessions, the second from a checkpoint between the lines of the first, then a branch whose
   parent had no event file. What is to be read is in `expected`. */
static const char expected[] = "train/loss,4000000001,1.5\ntrain/loss,5000000000,4.5\n"
                               "map,5000000000,300x200 of 42\nwords,5000000000,some *text*\n";

static int write_events(void)
{
    lm_log g;
    kit_text png = { NULL, 0, 0 };
    int done = fresh("events") && lm_log_open(&g, at, 1, 0, &why)
            && write_line(&g, 4000000001ULL, 1.5) && write_line(&g, 4500000000ULL, 2.5)
            && write_line(&g, 5000000000ULL, 3.5);
    if (!done) return 0;
    lm_log_close(&g);
    if (!lm_log_open(&g, at, 1, 4000000001ULL, &why)) return 0;
    kit_put_bytes(&png, png_head, sizeof png_head - 1);
    done = write_line(&g, 5000000000ULL, 4.5)
        && lm_event_png(&g.events.pending, lm__wall(), 5000000000ULL, "map", &png, &why);
    lm_event_text(&g.events.pending, lm__wall(), 5000000000ULL, "words", "some *text*");
    done = done && lm_events_flush(&g.events, &why);
    kit_text_free(&png);
    lm_log_close(&g);
    return done;
}

static int run_reader(kit_text *read, const char *python, const char *where)
{
    char command[3 * KIT_PATH], piece[512];
    snprintf(command, sizeof command, "%s tests/golden/read_events.py %s 2>/dev/null", python,
             where);
    FILE *pipe = popen(command, "r");
    for (size_t n; pipe && (n = fread(piece, 1, sizeof piece, pipe)) > 0;)
        kit_put_bytes(read, piece, n);
    return pipe && pclose(pipe) == 0;
}

TEST tensorboard_itself_reads_them(void)
{
    const char *python = getenv("POSENC_TENSORBOARD_PYTHON");
    kit_text read = { NULL, 0, 0 };
    char branch[KIT_PATH];
    lm_log g;
    ASSERT(write_events());
    if (!python || !*python)
        SKIPm("POSENC_TENSORBOARD_PYTHON names no Python that has tensorboard");
    ASSERT(run_reader(&read, python, at));
    ASSERT_STR_EQ(expected, read.data);
    ASSERT(kit_join(branch, at, "decay_1", &why) && lm_log_replay(at, branch, 4100000000ULL, &why));
    ASSERT(lm_log_open(&g, branch, 1, 4100000000ULL, &why) && write_line(&g, 4200000000ULL, 1));
    lm_log_close(&g);
    read.size = 0;
    ASSERT(run_reader(&read, python, branch));
    ASSERT_STR_EQ("train/loss,4000000001,1.5\ntrain/loss,4200000000,1.0\n", read.data);
    kit_text_free(&read);
    PASS();
}

/* every record of every file: its length and both checksums */
TEST every_record_is_framed(void)
{
    char command[2 * KIT_PATH], path[KIT_PATH];
    int files = 0, records = 0;
    ASSERT(write_events());
    snprintf(command, sizeof command, "ls %s/events.out.tfevents.*", at);
    FILE *list = popen(command, "r");
    ASSERT(list != NULL);
    for (; fgets(path, sizeof path, list); files++) {
        kit_text t = { NULL, 0, 0 };
        path[strcspn(path, "\n")] = 0;
        ASSERT(kit_read_file(&t, path, 1 << 20, &why));
        for (size_t i = 0; i < t.size; records++) {
            uint64_t n;
            uint32_t head, tail;
            ASSERT(t.size - i >= 16);
            memcpy(&n, t.data + i, 8);
            memcpy(&head, t.data + i + 8, 4);
            ASSERT(n <= t.size - i - 16);
            memcpy(&tail, t.data + i + 12 + n, 4);
            ASSERT_EQ(lm_masked(lm_crc32c(t.data + i, 8)), head);
            ASSERT_EQ(lm_masked(lm_crc32c(t.data + i + 12, (size_t)n)), tail);
            i += 16 + (size_t)n;
        }
        kit_text_free(&t);
    }
    ASSERT_EQ(pclose(list), 0);
    ASSERT(files >= 2);
    ASSERT_EQ(records % 10, 0);            /* 2 + 3 and 2 + 1 + 2, as often as write_events ran   */
    PASS();
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static lm_live seen(int points, int utf8)
{
    lm_live v = lm__live_new("nano_rope_6M_s1", 6144000, LM_TERMINAL, stderr);
    v.utf8 = utf8;
    v.tokens = 3072000;
    v.first = 20480;
    v.first_at = 0;
    v.loss = 2.0313;
    v.rate = 2e-3;
    v.speed = 61432;
    v.mfu = 0.321;
    for (int i = 0; i < points; i++) lm__spark_add(&v, 10 - 0.01 * i);
    return v;
}

static int letters(const char *s)
{
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

TEST the_line_fits_every_terminal(void)
{
    for (int utf8 = 0; utf8 < 2; utf8++)
        for (int points = 0; points < 300; points += 7)
            for (int room = 1; room < 200; room++) {
                lm_live v = seen(points, utf8);
                kit_text t = { NULL, 0, 0 };
                int used = lm__live_text(&t, &v, 50, room);
                ASSERT(used <= room && used == letters(t.data));
                ASSERT(utf8 || (int)t.size == used);
                if (room >= 11) ASSERT(strstr(t.data, "loss 2.0313") != NULL);
                if (room >= 36) ASSERT(strstr(t.data, "s left") != NULL);
                kit_text_free(&t);
            }
    PASS();
}

TEST the_line_says_it_all(void)
{
    lm_live v = seen(10, 0);
    kit_text t = { NULL, 0, 0 };
    lm__live_text(&t, &v, 50, 150);
    ASSERT_STR_EQ("nano_rope_6M_s1  ##*+=~-.__  loss 2.0313  lr 0.002  61.4k tok/s  MFU 32.1%  "
                  "3.07M of 6.14M  50 s left", t.data);
    t.size = 0;
    v = seen(2, 1);
    lm__live_text(&t, &v, 50, 150);
    ASSERT(strstr(t.data, "  \xe2\x96\x88\xe2\x96\x81  loss") != NULL);
    t.size = 0;
    v.mfu = v.speed = v.rate = v.loss = NAN;
    v.first = v.tokens;
    lm__live_text(&t, &v, 50, 150);
    ASSERT(strstr(t.data, "loss nan") || strstr(t.data, "loss -nan"));
    ASSERT(strstr(t.data, "lr") == NULL && strstr(t.data, "MFU") == NULL);
    ASSERT(strstr(t.data, "? left") != NULL);
    kit_text_free(&t);
    PASS();
}

TEST the_curve_spans_the_run(void)
{
    lm_live v = lm__live_new("x", 1, LM_QUIET, stderr);
    for (int i = 0; i < 100000; i++) lm__spark_add(&v, i);
    ASSERT(v.points >= LM_SPARK / 2 && v.points < LM_SPARK);
    ASSERT_IN_RANGE((v.every - 1) / 2.0, v.mean[0], 1e-6);
    ASSERT(v.mean[v.points - 1] > 95000 - v.every && v.mean[v.points - 1] < 100000);
    v = lm__live_new("x", 1, LM_QUIET, stderr);
    for (int i = 0; i < 4; i++) lm__spark_add(&v, i == 1 ? NAN : i);
    ASSERT_EQ(v.points, 3);
    for (int i = 0; i < 3; i++) ASSERT(isfinite(v.mean[i]));
    PASS();
}

/* what a terminal of `wide` columns shows of the bytes in a file: carriage returns write over */
static void show_screen(kit_text *screen, FILE *from, int wide)
{
    char row[256];
    int x = 0, c;
    memset(row, ' ', sizeof row);
    rewind(from);
    while ((c = getc(from)) != EOF) {
        if (c == '\r') x = 0;
        else if (c == '\n' || x == wide) {
            int n = wide;
            while (n > 0 && row[n - 1] == ' ') n--;
            kit_put_bytes(screen, row, (size_t)n);
            kit_put_string(screen, "\n");
            memset(row, ' ', sizeof row);
            x = 0;
            if (c != '\n') row[x++] = (char)c;
        } else row[x++] = (char)c;
    }
}

TEST lines_that_stay_are_not_garbled(void)
{
    for (int wide = 20; wide <= 100; wide += 16) {
        kit_text screen = { NULL, 0, 0 };
        FILE *to = tmpfile();
        ASSERT(to != NULL);
        lm_live v = lm__live_new("run", 1000, LM_TERMINAL, to);
        v.columns = wide;
        v.utf8 = 0;
        for (int i = 1; i <= 100; i++) {
            v.drawn -= 1;                                    /* a second ago */
            lm_live_step(&v, (uint64_t)i * 10, i < 50 ? 12345.5 : 2, 1e-3, i < 50 ? 1e6 : NAN, NAN);
            if (i % 50 == 0) lm_live_line(&v, "val %d\x1b", i);
        }
        lm_live_end(&v);
        show_screen(&screen, to, wide);
        const char *end = strstr(screen.data, "\nrun: loss 2.0000");
        ASSERTm(screen.data, end != NULL);
        ASSERT_STRN_EQ("val 50?\nval 100?\n", screen.data, (size_t)(end - screen.data) + 1);
        fclose(to);
        kit_text_free(&screen);
    }
    PASS();
}

TEST a_pipe_gets_plain_lines_rarely(void)
{
    char line[256];
    int lines = 0;
    FILE *to = tmpfile();
    ASSERT(to != NULL);
    lm_live v = lm__live_new("run", 1000000, LM_PLAIN, to);
    for (int i = 1; i <= 1000; i++) {
        v.drawn -= 5;                                        /* five seconds a step */
        lm_live_step(&v, (uint64_t)i * 1000, 2, 1e-3, 200, 0.5);
    }
    rewind(to);
    for (; fgets(line, sizeof line, to); lines++) ASSERT(strstr(line, "\r") == NULL);
    ASSERT(lines >= 90 && lines <= 101);                     /* one for each per cent */
    fclose(to);
    v = lm__live_new("run", 1000000, LM_QUIET, NULL);
    lm_live_step(&v, 10, 2, 1e-3, 200, 0.5);
    lm_live_line(&v, "nothing");
    lm_live_end(&v);
    PASS();
}

TEST large_numbers_are_short(void)
{
    static const struct { double n; const char *want; } say[] = {
        { 0, "0" }, { 999, "999" }, { 1000, "1.00k" }, { 61432, "61.4k" }, { 999600, "1.00M" },
        { 6144000, "6.14M" }, { 2.4e9, "2.40B" }, { 5e15, "5000T" }
    };
    char text[24];
    for (size_t i = 0; i < sizeof say / sizeof *say; i++) {
        lm_say_many(text, say[i].n);
        ASSERT_STR_EQ(say[i].want, text);
    }
    PASS();
}

/* ---- the report ------------------------------------------------------------------------------ */

/* A run of `lines` lines of 1000 tokens: the loss falls from 5 to 1 and is not a number once. */
static int write_run(int lines)
{
    kit_text t = { NULL, 0, 0 };
    for (int i = 1; i <= lines; i++) {
        kit_put(&t, "{\"tokens\":%d000,\"train/loss\":", i);
        if (i == lines / 2) kit_put_string(&t, "null");
        else lm_put_real(&t, 5 - 4.0 * (i - 1) / (lines - 1));
        kit_put(&t, ",\"train/lr\":0.002,\"wsd/stage\":1,\"wsd/decay_progress_pct\":%d",
                i > lines * 4 / 5 ? 5 : 0);
        if (i == lines / 2) kit_put_string(&t, ",\"wsd/ready_for_decay\":1e6");
        if (i % (lines / 5) == 0) kit_put(&t, ",\"val/loss\":%.3f", i == lines ? 1.5 : 1.25);
        kit_put(&t, ",\"grad/layer_0_norm\":0.5,\"grad/layer_11_norm\":%d,\"event\":\"x\"}\n", i);
    }
    int done = kit_save_in(at, "metrics.jsonl", &t, &why);
    kit_text_free(&t);
    return done && put("config.yaml", "size: nano\npe: <rope>\n");
}

static int exists(const char *name)
{
    char path[KIT_PATH];
    return kit_join(path, at, name, &why) && kit_exists(path);
}

TEST a_report_tells_the_run(int lines)
{
    char place[32], words[96];
    ASSERT(fresh(lines > 100 ? "report of many" : "report of few") && write_run(lines));
    ASSERTm(why.text, lm_run_report(at, &why));
    ASSERT(exists("loss.svg") && exists("rate.svg") && exists("layers.svg"));
    ASSERT(!exists("gradient.svg") && !exists("entropy.svg") && !exists("mfu.svg"));
    ASSERT(has("report.html", "&lt;rope&gt;") && !has("report.html", "<rope>"));
    ASSERT(has("report.md", "| validation loss, nats per token | 1.5000 | 1.2500 |"));
    ASSERT(has("report.md", "| validation, perplexity | 4.482 | 3.490 |"));
    kit_say_count(place, (size_t)lines * 1000);
    snprintf(words, sizeof words, "| training loss, nats per token | 1.0000 | 1.0000 | %s |",
             place);
    ASSERT(has("report.md", words));
    kit_say_count(place, (size_t)(lines * 4 / 5 + 1) * 1000);
    snprintf(words, sizeof words, "| %s | the learning rate begins to decay |", place);
    ASSERT(has("report.md", words));
    kit_say_count(place, (size_t)(lines / 2) * 1000);
    snprintf(words, sizeof words, "| %s | a branch leaves the run |", place);
    ASSERT(has("report.md", words));
    ASSERT(has("report.md", "`train/loss` was not a finite number"));
    ASSERT(has("report.md", "build/lm train --config '"));   /* the folder's name has blanks */
    ASSERT(has("layers.svg", "layer 11") && has("loss.svg", "decay begins"));
    ASSERT(strlen(get("loss.svg")) < 40000 && !has("loss.svg", "nan"));
    PASS();
}

/* A decay's folder is in its parent's, and begins where it left it, not where it first measured. */
TEST a_report_of_a_branch_knows_where_it_began(void)
{
    ASSERT(fresh("run/decay_6M") && put("config.yaml", "size: nano\nwsd_stage: decay_only\n"));
    ASSERT(put("metrics.jsonl",
               "{\"tokens\":5,\"train/loss\":2,\"wsd/stage\":1,\"wsd/branch_tokens\":9}\n"
               "{\"tokens\":8,\"train/loss\":1,\"wsd/branch_tokens\":7,\"wsd/stage\":2}\n"));
    ASSERT(lm_run_report(at, &why));
    ASSERT(has("report.md", "| 7 | the learning rate begins to decay |\n\n"));
    ASSERT(has("report.md", "/run/decay_6M/config.yaml --resume /tmp/"));
    ASSERT(has("report.md", "/run/ready_for_decay_6M.safetensors --checkpoint-dir "
                            "results/again/decay_6M\n"));
    PASS();
}

/* the mean of all places is the mean of all values, however often neighbours were joined */
TEST a_series_keeps_its_mean_and_its_ends(void)
{
    static lm_series s;
    double sum = 0, weight = 0;
    memset(&s, 0, sizeof s);
    for (int i = 0; i < 65536; i++) lm__series_add(&s, i, (double)i * i);
    lm__series_flush(&s);
    for (int i = 0; i < s.n; i++) { sum += s.at[i].y; weight += 1; }
    ASSERT(s.n >= LM_POINTS / 2 && s.n < LM_POINTS);
    ASSERT_EQ(65536 % s.every, 0);
    ASSERT_IN_RANGE(1.0, sum / weight / (65535.0 * 131071 / 6), 1e-9);
    ASSERT(s.last == 65535.0 * 65535 && s.high == s.last && s.high_x == 65535 && s.low_x == 0);
    PASS();
}

TEST a_report_of_little_is_a_report(void)
{
    ASSERT(fresh("little") && put("metrics.jsonl", ""));
    ASSERT(lm_run_report(at, &why) && has("report.md", "Nothing has been measured yet"));
    ASSERT(has("report.md", "settings are not known"));
    ASSERT(put("metrics.jsonl", "{\"tokens\":5,\"train/loss\":2}\n{\"tokens\":6,\"train/lo"));
    ASSERT(lm_run_report(at, &why) && has("report.md", "| 2.0000 | 2.0000 | 5 |"));
    PASS();
}

TEST a_hostile_file_is_refused_with_its_line(void)
{
    static const char *const bad[][2] = {
        { "{\"tokens\":1}\n\x01\x02\n", "line 2, column 1: expected a value" },
        { "{\"tokens\":1,\"train/loss\":\"2.5\"}\n", "line 1: train/loss is a text" },
        { "{\"tokens\":1,\"grad/layer_3_norm\":[1]}\n", "line 1: grad/layer_3_norm is a list" },
        { "{\"tokens\":1,\"train/loss\":1e999}\n", "line 1, column 26: the number is too large" },
        { "{\"tokens\":5}\n{\"tokens\":4}\n", "line 2: tokens go back from 5 to 4" },
        { "{\"tokens\":1,\"tokens\":2}\n", "comes twice" },
        { "{\"tokens\":1,\"train/loss\":NaN}\n", "line 1, column 26: expected a value" },
    };
    ASSERT(fresh("hostile"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ASSERT(put("metrics.jsonl", bad[i][0]));
        ASSERT_FALSE(lm_run_report(at, &why));
        ASSERTm(why.text, said(bad[i][1]));
        ASSERT(!exists("report.html"));
    }
    ASSERT(put("metrics.jsonl", "{\"tokens\":18446744073709551615,\"train/loss\":1e308,"
               "\"val/loss\":-1e308,\"train/lr\":5e-324,\"wsd/branch_tokens\":-1,"
               "\"grad/layer_-1_norm\":1,\"grad/layer_99999999999_norm\":1,"
               "\"grad/layer_63_norm\":1}\n"));
    ASSERTm(why.text, lm_run_report(at, &why));
    PASS();
}

/* The program's words are for a terminal, not for the list of tests. */
static int code_of(int argc, char **argv)
{
    int out = dup(1), err = dup(2), none = open("/dev/null", O_WRONLY);
    fflush(stdout);
    if (out < 0 || err < 0 || none < 0 || dup2(none, 1) < 0 || dup2(none, 2) < 0) return -1;
    int code = lm_report_main(argc, argv);
    fflush(stdout);
    if (dup2(out, 1) < 0 || dup2(err, 2) < 0) return -1;
    close(out);
    close(err);
    close(none);
    return code;
}

/* exit codes: 0 for help and for what worked, 1 for what did not, 2 for no folder */
TEST the_command_answers(void)
{
    char program[] = "lm", flag[] = "--nothing", help[] = "--help", folder_arg[KIT_PATH];
    char *none[] = { program, NULL }, *wrong[] = { program, flag, NULL };
    char *asked[] = { program, help, NULL };
    char *one[] = { program, folder_arg, NULL };
    ASSERT(fresh("command") && put("metrics.jsonl", "{\"tokens\":5}\n"));
    snprintf(folder_arg, sizeof folder_arg, "%s", at);
    ASSERT_EQ(code_of(1, none), 2);
    ASSERT_EQ(code_of(2, asked), DONE);
    ASSERT_EQ(code_of(2, wrong), 2);
    ASSERT_EQ(code_of(2, one), DONE);
    ASSERT(exists("report.html"));
    ASSERT(fresh("no run"));
    snprintf(folder_arg, sizeof folder_arg, "%s", at);
    ASSERT_EQ(code_of(2, one), FAILED);
    PASS();
}

/* ---------------------------------------------------------------------------------------------- */

SUITE(metrics)
{
    RUN_TEST(a_line_is_one_object_with_tokens_first);
    RUN_TEST(numbers_read_back_as_they_were);
    RUN_TEST(going_on_drops_what_the_checkpoint_does_not_know);
    RUN_TEST(a_line_cut_by_a_crash_is_dropped);
    RUN_TEST(a_damaged_line_is_named_and_nothing_is_lost);
    RUN_TEST(an_endless_line_is_refused);
    RUN_TEST(a_branch_begins_with_its_parents_lines);
    RUN_TEST(a_full_disk_is_a_sentence_and_leaves_whole_lines);
}

SUITE(events)
{
    RUN_TEST(checksums_are_castagnolis);
    RUN_TEST(records_are_the_known_bytes);
    RUN_TEST(a_picture_must_be_one);
    RUN_TEST(tensorboard_itself_reads_them);
    RUN_TEST(every_record_is_framed);
}

SUITE(live)
{
    RUN_TEST(the_line_fits_every_terminal);
    RUN_TEST(the_line_says_it_all);
    RUN_TEST(the_curve_spans_the_run);
    RUN_TEST(lines_that_stay_are_not_garbled);
    RUN_TEST(a_pipe_gets_plain_lines_rarely);
    RUN_TEST(large_numbers_are_short);
}

SUITE(report)
{
    RUN_TESTp(a_report_tells_the_run, 10);
    RUN_TESTp(a_report_tells_the_run, 20000);
    RUN_TEST(a_report_of_a_branch_knows_where_it_began);
    RUN_TEST(a_series_keeps_its_mean_and_its_ends);
    RUN_TEST(a_report_of_little_is_a_report);
    RUN_TEST(a_hostile_file_is_refused_with_its_line);
    RUN_TEST(the_command_answers);
}

GREATEST_MAIN_DEFS();
int main(int argc, char **argv)
{
    char command[64];
    GREATEST_MAIN_BEGIN();
    snprintf(folder, sizeof folder, "/tmp/posenc_lm_metrics_%ld", (long)getpid());
    if (!kit_make_folders(folder, &why)) return 1;
    RUN_SUITE(metrics);
    RUN_SUITE(events);
    RUN_SUITE(live);
    RUN_SUITE(report);
    snprintf(command, sizeof command, "rm -r /tmp/posenc_lm_metrics_%ld", (long)getpid());
    if (system(command) != 0) return 1;
    GREATEST_MAIN_END();
}
