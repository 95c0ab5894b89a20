/* A backup made while the store is in use is put back somewhere else, whole; a damaged one changes nothing.
 */
#include "backup/backup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/test/store_util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>

#define NOW INT64_C(1767323045000000000)

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fixture_close(f);
    remove_tree(f->dir);
    free(f);
    return 0;
}

static char *in(const struct fixture *f, const char *name)
{
    return mem_printf("%s/%s", f->dir, name);
}

static void write_text(const char *dir, const char *name, const char *text)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);

    assert_int_equal(file_write_atomic(path, str_from(text), 0600, NULL), 0);
}

static void make(struct fixture *f, const char *path, struct backup_info *info)
{
    CLEANUP(free) char *pki = in(f, "pki");
    struct err err = {0};

    dir_make(pki, 0700, NULL);
    write_text(pki, "ca.crt", "certificate");
    write_text(pki, "ca.key", "key");
    if (backup_make(&(struct backup_source){f->dir, NULL, "gpu1", "[]", NOW}, path, info, &err) < 0)
        fail_msg("%s", err.msg);
}

static void fill(struct fixture *f)
{
    put(f, "a", "x");
    put(f, "a", "y");
    drop(f, "a", "x");
    store_value_set(f->store, "tokens", "t", str_from("secret"));
    store_record(f->store,
                 &(struct record){.type = RECORD_JOB, .time_ms = 5, .job = "j", .doc = str_from("{}")});
    settle(f);
}

static bool count_record(void *arg, const struct record *record)
{
    (void)record;
    ++*(int *)arg;
    return true;
}

static void test_all_comes_back_in_another_folder(void **state)
{
    struct fixture *f = *state, other = {0};
    CLEANUP(free) char *path = in(f, "b.tar.gz"), *elsewhere = in(f, "else"), *replaced = NULL;
    CLEANUP(free) char *key = mem_printf("%s/pki/ca.key", elsewhere);
    struct backup_info made, info;
    struct err err = {0};
    struct stat st;
    int records = 0;

    fill(f);
    make(f, path, &made);
    assert_int_equal(made.revision, 3);
    assert_int_equal(made.objects, 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    put(f, "a", "later");
    if (backup_restore(path, elsewhere, NOW, &info, &replaced, &err) < 0)
        fail_msg("%s", err.msg);
    assert_null(replaced);
    assert_int_equal(info.revision, 3);
    assert_string_equal(info.node, "gpu1");
    assert_int_equal(info.time, NOW);
    assert_int_equal(access(key, F_OK), 0);
    snprintf(other.path, sizeof(other.path), "%s/berth.db", elsewhere);
    fixture_open(&other);
    assert_non_null(store_get(other.store, KIND_CONFIG_MAP, "a", "y"));
    assert_null(store_get(other.store, KIND_CONFIG_MAP, "a", "x"));
    assert_null(store_get(other.store, KIND_CONFIG_MAP, "a", "later"));
    assert_true(str_is(store_value(other.store, "tokens", "t"), "secret"));
    assert_int_equal(
        store_records(other.store, &(struct record_query){.type = RECORD_JOB}, count_record, &records, NULL),
        0);
    assert_int_equal(records, 1);
    fixture_close(&other);
}

static void test_what_was_there_is_moved_aside(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *path = in(f, "b.tar.gz"), *replaced = NULL;
    CLEANUP(free)
    char *old = in(f, "replaced-2026-01-02T03:04:05Z"), *old_db = mem_printf("%s/berth.db", old);
    struct backup_info info;
    struct err err = {0};

    fill(f);
    make(f, path, &info);
    put(f, "a", "later");
    settle(f);
    assert_int_equal(backup_restore(path, f->dir, NOW, &info, &replaced, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT); /* it is in use */
    fixture_close(f);
    if (backup_restore(path, f->dir, NOW, &info, &replaced, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(replaced, old);
    assert_int_equal(access(old_db, F_OK), 0);
    fixture_open(f);
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "a", "later"));
}

/* ---- a crash in the middle ---- */

static int renames_left = -1; /* -1: all work */

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    if (renames_left == 0) {
        errno = EIO;
        return -1;
    }
    renames_left -= renames_left > 0;
    return __real_rename(from, to);
}

static void test_a_restore_that_ends_half_way_is_never_taken_for_a_new_folder(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *path = in(f, "b.tar.gz");
    struct backup_info info;
    struct err err = {0};
    bool whole = false;

    fill(f);
    make(f, path, &info);
    fixture_close(f);
    for (int renames = 1; !whole; renames++) {
        CLEANUP(free) char *replaced = NULL;
        int64_t now = NOW + renames * 2 * NSEC_PER_SEC;
        struct store *store = NULL;
        struct loop *loop = loop_new();

        renames_left = renames; /* the first is of the note that containers are kept */
        whole = backup_restore(path, f->dir, now, &info, &replaced, &err) == 0;
        renames_left = -1;
        if (store_open(f->path, loop, &store, &err) == 0)
            assert_non_null(store_get(store, KIND_CONFIG_MAP, "a", "y"));
        else
            assert_int_equal(err.code, ERR_INVALID);
        store_close(store);
        loop_free(loop);
        if (!whole) { /* and it can be tried again */
            free(TAKE_PTR(replaced));
            assert_int_equal(backup_restore(path, f->dir, now + NSEC_PER_SEC, &info, &replaced, &err), 0);
        }
        assert_true(renames < 20);
    }
    fixture_open(f);
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "y"));
}

static void flip(const char *path, double where)
{
    CLEANUP(fd_close) int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat st;
    unsigned char byte;

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, &byte, 1, (off_t)((double)st.st_size * where)), 1);
    byte ^= 0x55;
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)((double)st.st_size * where)), 1);
}

static size_t entries(const char *dir)
{
    DIR *folder = opendir(dir);
    size_t count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* Bytes that say nothing (a time in a header) may differ: then all of it is there. */
static void test_a_damaged_backup_changes_nothing(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *path = in(f, "b.tar.gz"), *elsewhere = in(f, "else");
    CLEANUP(free) char *db = mem_printf("%s/berth.db", elsewhere);
    struct backup_info made, info;
    int refused = 0;

    fill(f);
    make(f, path, &made);
    for (int i = 1; i < 40; i++) {
        CLEANUP(free) char *replaced = NULL;
        struct err err = {0};

        flip(path, i / 40.0);
        if (backup_restore(path, elsewhere, NOW, &info, &replaced, &err) < 0) {
            assert_int_equal(err.code, ERR_INVALID);
            assert_int_equal(access(db, F_OK), -1);
            assert_int_equal(entries(elsewhere), 2);
            refused++;
        } else {
            assert_int_equal(info.revision, made.revision);
            assert_int_equal(info.objects, made.objects);
        }
        remove_tree(elsewhere);
        flip(path, i / 40.0);
    }
    assert_true(refused > 20);
    assert_int_equal(truncate(path, 900), 0);
    assert_int_equal(backup_restore(path, elsewhere, NOW, &info, &(char *){NULL}, NULL), -1);
}

static void test_something_else_is_not_taken_for_a_backup(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *path = in(f, "b.tar.gz"), *elsewhere = in(f, "else"), *replaced = NULL;
    struct backup_info info;
    struct err err = {0};

    write_text(f->dir, "b.tar.gz", "hello");
    assert_int_equal(backup_restore(path, elsewhere, NOW, &info, &replaced, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, teardown)
        TEST(test_all_comes_back_in_another_folder),
        TEST(test_what_was_there_is_moved_aside),
        TEST(test_a_restore_that_ends_half_way_is_never_taken_for_a_new_folder),
        TEST(test_a_damaged_backup_changes_nothing),
        TEST(test_something_else_is_not_taken_for_a_backup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
