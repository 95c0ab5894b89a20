/* What was acknowledged is there at the next start, or the start is refused with a sentence. */
#include "base/file.h"
#include "base/log.h"
#include "store_util.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>

#define OBJECTS 40

/* Another process writes objects, a value and a record, waits until all is durable, and is killed. */
static void write_and_be_killed(struct fixture *f)
{
    int fds[2];
    char byte;
    pid_t pid;

    fixture_close(f);
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        fixture_open(f);
        for (int i = 0; i < OBJECTS; i++) {
            char name[16];

            snprintf(name, sizeof(name), "o%d", i);
            put(f, "a", name);
            settle(f);
        }
        store_value_set(f->store, "tokens", "t", str_from("secret"));
        store_record(f->store,
                     &(struct record){.type = RECORD_JOB, .time_ms = 1, .job = "j", .doc = str_from("{}")});
        settle(f);
        _exit(write(fds[1], "x", 1) == 1 ? (raise(SIGKILL), 0) : 1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 1);
    close(fds[0]);
    waitpid(pid, NULL, 0);
}

static void flip(const char *path, const char *suffix, double where)
{
    char file[128];
    struct stat st;
    unsigned char byte;
    int fd;

    snprintf(file, sizeof(file), "%s%s", path, suffix);
    fd = open(file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)((double)st.st_size * where)), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)((double)st.st_size * where)), 1);
    close(fd);
}

static void assert_refused(struct fixture *f, const char *sentence)
{
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(f->path, f->loop, &f->store, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    if (!strstr(err.msg, sentence) || !strstr(err.msg, "berth restore") || !strstr(err.msg, "--accept-loss"))
        fail_msg("%s", err.msg);
}

/* After assert_refused. */
static void open_lossy(struct fixture *f)
{
    struct err err = {0};

    if (store_open_lossy(f->path, f->loop, &f->store, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_all_is_there_after_a_kill(void **state)
{
    struct fixture *f = *state;

    write_and_be_killed(f);
    fixture_open(f);
    assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, "a"), OBJECTS);
    assert_int_equal(store_value(f->store, "tokens", "t").len, 6);
}

static void test_a_damaged_log_is_refused(void **state)
{
    struct fixture *f = *state;
    int64_t after;

    write_and_be_killed(f);
    flip(f->path, "-wal", 0.5);
    assert_refused(f, "but revision 40 was acknowledged");
    open_lossy(f);
    after = store_revision(f->store);
    assert_true(after > 0 && after < OBJECTS);
    fixture_reopen(f); /* what was accepted is not said again */
    assert_int_equal(store_revision(f->store), after);
}

static void test_lost_values_and_records_are_noticed(void **state)
{
    struct fixture *f = *state;

    write_and_be_killed(f);
    flip(f->path, "-wal", 0.995); /* the last commit has no object */
    assert_refused(f, "lacks the last 1 change");
    open_lossy(f);
    assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, "a"), OBJECTS);
}

static void test_a_missing_file_is_not_taken_for_a_new_one(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "x");
    settle(f);
    fixture_close(f);
    unlink(f->path);
    assert_refused(f, "is missing or empty, but revision 1 was stored in it");
    assert_int_equal(access(f->path, F_OK), -1); /* it made none */
    open_lossy(f);
    assert_int_equal(store_revision(f->store), 0);
}

static void test_an_empty_file_is_not_taken_for_a_new_one(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "x");
    settle(f);
    fixture_close(f);
    assert_int_equal(truncate(f->path, 0), 0);
    assert_refused(f, "is missing or empty");
    open_lossy(f);
}

static void test_another_database_is_not_taken_for_this_one(void **state)
{
    struct fixture *f = *state;
    char *mark = NULL;
    struct buf text = {0};

    put(f, "a", "x");
    settle(f);
    fixture_close(f);
    assert_true(asprintf(&mark, "%s-mark", f->path) > 0);
    assert_int_equal(file_read(mark, 4096, &text, NULL), 0);
    unlink(f->path);
    unlink(mark);
    fixture_open(f); /* new */
    fixture_close(f);
    assert_int_equal(file_write_atomic(mark, buf_view(&text), 0600, NULL), 0);
    assert_refused(f, "is not the database that was used here before");
    open_lossy(f);
    buf_done(&text);
    free(mark);
}

static void sql(struct fixture *f, const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void test_a_row_that_changed_on_disk_is_refused(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "x");
    put(f, "a", "y");
    settle(f);
    fixture_close(f);
    sql(f, "UPDATE rev SET doc = replace(doc, 'xxxx', 'xyxx') WHERE rv = 1");
    assert_refused(f, "revision 1 is damaged: its checksum does not match");
    open_lossy(f);
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "a", "x"));
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "y"));
}

static void test_a_value_that_changed_on_disk_is_refused(void **state)
{
    struct fixture *f = *state;

    store_value_set(f->store, "tokens", "t", str_from("secret"));
    settle(f);
    fixture_close(f);
    sql(f, "UPDATE value SET val = 'Secret'");
    assert_refused(f, "value 't' of 'tokens' is damaged");
    open_lossy(f);
    assert_null(store_value(f->store, "tokens", "t").s);
}

static void test_others_can_read_the_file_meanwhile(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "x");
    settle(f);
    sql(f, "SELECT count(*) FROM rev");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        TEST(test_all_is_there_after_a_kill),
        TEST(test_a_damaged_log_is_refused),
        TEST(test_lost_values_and_records_are_noticed),
        TEST(test_a_missing_file_is_not_taken_for_a_new_one),
        TEST(test_an_empty_file_is_not_taken_for_a_new_one),
        TEST(test_another_database_is_not_taken_for_this_one),
        TEST(test_a_row_that_changed_on_disk_is_refused),
        TEST(test_a_value_that_changed_on_disk_is_refused),
        TEST(test_others_can_read_the_file_meanwhile),
    };

    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
