#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "engine/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define TURNS 200

struct setup {
    char dir[64];
    char *path;
    struct loop *loop;
    struct log_watch *watch;
    struct log_reader *reader;
    struct buf got;
    unsigned pieces;
    bool ended;
    bool pause_each; /* after every piece */
};

static const struct pod_log_options all = {.since = INT64_MIN, .tail = -1, .limit_bytes = -1};

static void set_up(struct setup *t)
{
    *t = (struct setup){.dir = "/tmp/log_reader.XXXXXX"};
    assert_non_null(mkdtemp(t->dir));
    t->path = mem_printf("%s/c.log", t->dir);
    t->loop = loop_new();
    t->watch = log_watch_new(t->loop);
    buf_puts(&t->got, "");
}

static void tear_down(struct setup *t)
{
    CLEANUP(free) char *command = mem_printf("rm -r '%s'", t->dir);

    log_reader_free(t->reader);
    log_watch_free(t->watch);
    loop_free(t->loop);
    buf_done(&t->got);
    free(t->path);
    assert_int_equal(system(command), 0);
}

static void append(struct setup *t, const char *text)
{
    FILE *file = fopen(t->path, "ae");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void line(struct setup *t, int second, char tag, const char *text)
{
    CLEANUP(free) char *entry = mem_printf("2026-01-02T03:04:%02d.5Z stdout %c %s\n", second, tag, text);

    append(t, entry);
}

/* As the writer does it: LOG.1 becomes LOG.2, LOG becomes LOG.1. */
static void rotate(struct setup *t)
{
    for (int k = 8; k >= 0; k--) {
        CLEANUP(free) char *from = k ? mem_printf("%s.%d", t->path, k) : mem_strdup(t->path);
        CLEANUP(free) char *to = mem_printf("%s.%d", t->path, k + 1);

        rename(from, to);
    }
}

static void on_data(void *arg, struct str data)
{
    struct setup *t = arg;

    buf_str(&t->got, data);
    t->pieces++;
    if (t->pause_each)
        log_reader_pause(t->reader, true);
}

static void on_end(void *arg, const struct err *err)
{
    struct setup *t = arg;

    assert_null(err);
    assert_false(t->ended);
    t->ended = true;
}

static void begin(struct setup *t, const struct pod_log_options *options)
{
    static const struct pod_log_events events = {on_data, on_end};

    t->reader = log_reader_new(t->watch, t->path, options, &events, t);
}

/* Turns the loop until `bytes` have come or the log has ended. */
static void turn_until(struct setup *t, size_t bytes)
{
    for (int i = 0; i < TURNS && t->got.len < bytes && !t->ended; i++)
        assert_int_equal(loop_turn(t->loop, 100, NULL), 0);
}

static void expect_all(struct setup *t, const struct pod_log_options *options, const char *wanted)
{
    begin(t, options);
    turn_until(t, SIZE_MAX);
    assert_true(t->ended);
    assert_string_equal(t->got.data, wanted);
    log_reader_free(TAKE_PTR(t->reader));
    buf_clear(&t->got);
    t->ended = false;
}

static void test_options(void **state)
{
    static const struct {
        struct pod_log_options options;
        const char *wanted;
    } rows[] = {
        {{.since = INT64_MIN, .tail = -1, .limit_bytes = -1}, "a\nbc\nd\n"},
        {{.since = INT64_MIN, .tail = 0, .limit_bytes = -1}, ""},
        {{.since = INT64_MIN, .tail = 1, .limit_bytes = -1}, "d\n"},
        {{.since = INT64_MIN, .tail = 2, .limit_bytes = -1}, "bc\nd\n"},
        {{.since = INT64_MIN, .tail = 99, .limit_bytes = -1}, "a\nbc\nd\n"},
        {{.since = INT64_MIN, .tail = -1, .limit_bytes = 4}, "a\nbc"},
        {{.since = INT64_MIN, .tail = 2, .limit_bytes = -1, .timestamps = true},
         "2026-01-02T03:04:02.5Z bc\n2026-01-02T03:04:04.5Z d\n"},
    };
    struct pod_log_options since = all;
    struct setup t;

    (void)state;
    set_up(&t);
    line(&t, 1, 'F', "a");
    line(&t, 2, 'P', "b");
    line(&t, 3, 'F', "c");
    append(&t, "this is no entry\n\n");
    line(&t, 4, 'F', "d");
    append(&t, "2026-01-02T03:04:05Z stdout F not compl");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect_all(&t, &rows[i].options, rows[i].wanted);
    assert_true(clock_parse(STR("2026-01-02T03:04:03.5Z"), &since.since));
    expect_all(&t, &since, "c\nd\n");
    tear_down(&t);
}

static void test_bytes_stay_as_they_are(void **state)
{
    struct setup t;
    FILE *file;

    (void)state;
    set_up(&t);
    file = fopen(t.path, "we");
    fwrite("2026-01-02T03:04:05Z stdout F \0\xff\r\x1b\n2026-01-02T03:04:05Z stderr F \n", 1, 35 + 31, file);
    fclose(file);
    begin(&t, &all);
    turn_until(&t, SIZE_MAX);
    assert_int_equal(t.got.len, 6);
    assert_memory_equal(t.got.data, "\0\xff\r\x1b\n\n", 6);
    tear_down(&t);
}

static void test_no_file_is_an_empty_log(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t);
    expect_all(&t, &all, "");
    tear_down(&t);
}

static void test_older_files_come_first_and_count_for_tail(void **state)
{
    struct pod_log_options options = all;
    struct setup t;

    (void)state;
    set_up(&t);
    line(&t, 1, 'F', "one");
    line(&t, 1, 'F', "two");
    rotate(&t);
    line(&t, 2, 'P', "thr");
    rotate(&t);
    line(&t, 3, 'F', "ee");
    expect_all(&t, &options, "one\ntwo\nthree\n");
    options.tail = 1;
    expect_all(&t, &options, "three\n");
    options.tail = 2;
    expect_all(&t, &options, "two\nthree\n");
    options.tail = 3;
    expect_all(&t, &options, "one\ntwo\nthree\n");
    rotate(&t);
    expect_all(&t, &options, "one\ntwo\nthree\n"); /* no current file at this moment */
    tear_down(&t);
}

static void test_tail_finds_its_line_in_a_large_file(void **state)
{
    struct pod_log_options options = {.since = INT64_MIN, .limit_bytes = -1};
    CLEANUP(buf_done) struct buf text = {0};
    struct setup t;

    (void)state;
    set_up(&t);
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "2026-01-02T03:04:05Z stdout F %d %.*s\n", i, i % 97,
                   "----------------------------------------------------------------------------------------"
                   "---------");
    append(&t, text.data);
    for (int n = 1; n < 12000; n = n * 3 + 1) {
        CLEANUP(free) char *first = mem_printf("%d ", 20000 - n);
        size_t lines = 0;

        options.tail = n;
        begin(&t, &options);
        turn_until(&t, SIZE_MAX);
        for (size_t i = 0; i < t.got.len; i++)
            lines += t.got.data[i] == '\n';
        assert_int_equal(lines, n);
        assert_memory_equal(t.got.data, first, strlen(first));
        log_reader_free(TAKE_PTR(t.reader));
        buf_clear(&t.got);
        t.ended = false;
    }
    tear_down(&t);
}

static void test_following_goes_through_rotations(void **state)
{
    struct pod_log_options options = all;
    struct setup t;

    (void)state;
    set_up(&t);
    options.follow = true;
    begin(&t, &options); /* before there is a file */
    turn_until(&t, 0);
    line(&t, 1, 'F', "one");
    turn_until(&t, 4);
    append(&t, "2026-01-02T03:04:05Z stdout F ha");
    for (int i = 0; i < 5; i++)
        loop_turn(t.loop, 0, NULL);
    append(&t, "lf\n");
    turn_until(&t, 9);
    line(&t, 2, 'F', "last of the first"); /* written, renamed, and a new one: all before it looks again */
    rotate(&t);
    line(&t, 3, 'F', "second file");
    rotate(&t);
    line(&t, 3, 'F', "third file");
    turn_until(&t, 9 + 18 + 12 + 11);
    assert_false(t.ended);
    line(&t, 4, 'F', "end");
    log_reader_finish(t.reader);
    turn_until(&t, SIZE_MAX);
    assert_true(t.ended);
    assert_string_equal(t.got.data, "one\nhalf\nlast of the first\nsecond file\nthird file\nend\n");
    tear_down(&t);
}

static void test_a_file_deleted_before_it_was_read_is_skipped(void **state)
{
    struct pod_log_options options = all;
    CLEANUP(free) char *two = NULL;
    struct setup t;

    (void)state;
    set_up(&t);
    two = mem_printf("%s.2", t.path);
    options.follow = true;
    line(&t, 1, 'F', "one");
    begin(&t, &options);
    turn_until(&t, 4);
    for (int i = 0; i < 2; i++) {
        rotate(&t);
        line(&t, 2, 'F', i ? "three" : "two");
    }
    unlink(two); /* the one that is open */
    turn_until(&t, 4 + 4 + 6);
    assert_string_equal(t.got.data, "one\ntwo\nthree\n");
    tear_down(&t);
}

static void test_a_paused_reader_gives_nothing(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct setup t;
    unsigned pieces;

    (void)state;
    set_up(&t);
    for (int i = 0; i < 40000; i++)
        buf_puts(&text, "2026-01-02T03:04:05Z stdout F 0123456789012345678901234567890123456789\n");
    append(&t, text.data);
    t.pause_each = true;
    begin(&t, &all);
    for (pieces = 1; !t.ended && pieces < 100; pieces++) {
        for (int i = 0; i < 5; i++)
            loop_turn(t.loop, 0, NULL);
        assert_true(t.ended || t.pieces == pieces);
        log_reader_pause(t.reader, false);
    }
    assert_true(t.ended);
    assert_true(t.pieces > 5);
    assert_int_equal(t.got.len, 40000 * 41);
    tear_down(&t);
}

static void test_an_entry_that_is_too_long_is_left_out(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct setup t;

    (void)state;
    set_up(&t);
    line(&t, 1, 'F', "before");
    buf_puts(&text, "2026-01-02T03:04:05Z stdout F ");
    for (size_t i = 0; i < LOG_ENTRY_MAX + 100000; i++)
        buf_putc(&text, 'x');
    buf_putc(&text, '\n');
    append(&t, text.data);
    line(&t, 1, 'F', "after");
    expect_all(&t, &all, "before\nafter\n");
    tear_down(&t);
}

static void test_two_followers_share_a_folder(void **state)
{
    static const struct pod_log_events events = {on_data, on_end};
    struct pod_log_options options = all;
    struct setup t, other;

    (void)state;
    set_up(&t);
    set_up(&other);
    options.follow = true;
    begin(&t, &options);
    other.reader = log_reader_new(t.watch, t.path, &options, &events, &other);
    turn_until(&t, 0);
    line(&t, 1, 'F', "x");
    turn_until(&t, 2);
    log_reader_free(TAKE_PTR(other.reader));
    line(&t, 1, 'F', "y");
    turn_until(&t, 4);
    assert_string_equal(t.got.data, "x\ny\n");
    tear_down(&other);
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_bytes_stay_as_they_are),
        cmocka_unit_test(test_no_file_is_an_empty_log),
        cmocka_unit_test(test_older_files_come_first_and_count_for_tail),
        cmocka_unit_test(test_tail_finds_its_line_in_a_large_file),
        cmocka_unit_test(test_following_goes_through_rotations),
        cmocka_unit_test(test_a_file_deleted_before_it_was_read_is_skipped),
        cmocka_unit_test(test_a_paused_reader_gives_nothing),
        cmocka_unit_test(test_an_entry_that_is_too_long_is_left_out),
        cmocka_unit_test(test_two_followers_share_a_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
