#include "base/buf.h"
#include "base/clock.h"
#include "store_util.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- what watches and answers note down ---- */

static void note_event(void *arg, const struct store_event *event)
{
    static const char marks[] = {[STORE_ADDED] = '+', [STORE_MODIFIED] = '*', [STORE_DELETED] = '-'};

    buf_printf(arg, "%c%s", marks[event->op], event->object->name);
    if (event->before)
        buf_printf(arg, "(%+d)", (int)(event->before->rv - event->rv));
    buf_putc(arg, ' ');
}

static void note_idle(void *arg, int64_t revision)
{
    buf_printf(arg, "=%d ", (int)revision);
}

struct answer {
    struct buf *log;
    const char *text;
};

static void note_answer(void *arg, const struct err *err)
{
    const struct answer *answer = arg;

    buf_printf(answer->log, "%s%s ", answer->text, err ? "!" : "");
}

/* ---- reading ---- */

static void test_list_is_sorted_by_namespace_then_name(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct store_slice slice;

    put(f, "b", "x");
    put(f, "a", "z");
    put(f, "b", "a");
    put(f, "a-b", "m");
    put(f, "a", "b");
    slice = store_list(f->store, KIND_CONFIG_MAP, NULL);
    OBJECTS_EACH(slice, it)
        buf_printf(&log, "%s/%s ", (*it)->ns, (*it)->name);
    assert_string_equal(log.data, "a/b a/z a-b/m b/a b/x ");
    slice = store_list(f->store, KIND_CONFIG_MAP, "a");
    assert_int_equal(slice.len, 2);
    assert_int_equal(store_list(f->store, KIND_CONFIG_MAP, "c").len, 0);
    assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, "b"), 2);
    assert_int_equal(store_count(f->store, KIND_SECRET, NULL), 0);
}

static void test_after_finds_the_next_place_also_when_the_name_is_gone(void **state)
{
    struct fixture *f = *state;
    struct store_slice slice;

    put(f, "a", "b");
    put(f, "a", "d");
    put(f, "b", "a");
    slice = store_list(f->store, KIND_CONFIG_MAP, NULL);
    assert_int_equal(store_slice_after(slice, "a", "b"), 1);
    assert_int_equal(store_slice_after(slice, "a", "c"), 1);
    assert_int_equal(store_slice_after(slice, "a", "d"), 2);
    assert_int_equal(store_slice_after(slice, "", ""), 0);
    assert_int_equal(store_slice_after(slice, "z", ""), 3);
}

static void test_get_finds_by_name_and_by_uid(void **state)
{
    struct fixture *f = *state;
    int64_t rv = put(f, "a", "one");

    assert_int_equal(store_get(f->store, KIND_CONFIG_MAP, "a", "one")->rv, rv);
    assert_string_equal(store_by_uid(f->store, "uid-5-a-one")->name, "one");
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "a", "two"));
    assert_null(store_get(f->store, KIND_SECRET, "a", "one"));
    assert_null(store_by_uid(f->store, "uid"));
    drop(f, "a", "one");
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "a", "one"));
    assert_null(store_by_uid(f->store, "uid-5-a-one"));
}

static void test_same_name_with_another_uid_replaces_the_uid(void **state)
{
    struct fixture *f = *state;

    put(f, "a", "one");
    store_put(f->store,
              make_object(KIND_CONFIG_MAP, store_next_revision(f->store), "a", "one", "new", NULL, 1));
    assert_null(store_by_uid(f->store, "uid-5-a-one"));
    assert_non_null(store_by_uid(f->store, "new"));
}

static void note_name(void *arg, const struct object *object)
{
    buf_printf(arg, "%s@%d ", object->name, (int)object->rv);
}

/* Two objects that share thousands of owners leave them one by one, without a search for each. */
static void test_objects_of_many_owners_go_quickly(void **state)
{
    enum { OWNERS = 60000 };
    struct fixture *f = *state;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf log = {0};

    for (int i = 0; i < 3; i++) {
        struct json *doc = json_new_object(&arena), *meta = json_set_object(&arena, doc, "metadata"), *owners;

        json_set_string(&arena, meta, "name", arena_printf(&arena, "m%d", i));
        json_set_string(&arena, meta, "namespace", "default");
        json_set_string(&arena, meta, "uid", arena_printf(&arena, "uid-m%d", i));
        json_set_string(&arena, meta, "resourceVersion",
                        arena_printf(&arena, "%lld", (long long)store_next_revision(f->store)));
        owners = json_set_array(&arena, meta, "ownerReferences");
        for (int k = 0; k < OWNERS; k++)
            json_set_string(&arena, json_push_object(&arena, owners), "uid", arena_printf(&arena, "o%d", k));
        store_put(f->store, object_new(kind_by_id(KIND_CONFIG_MAP), &arena, doc));
    }
    drop(f, "default", "m0");
    drop(f, "default", "m1");
    store_dependents(f->store, "o7", note_name, &log);
    assert_string_equal(log.data, "m2@3 ");
}

static void test_dependents_follow_the_owner_references(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};

    put_owned(f, "a", "boss");
    put_owned(f, "b", "boss");
    put_owned(f, "c", "other");
    put_owned(f, "a", "boss"); /* an update stays in its place */
    store_dependents(f->store, "boss", note_name, &log);
    assert_string_equal(log.data, "a@4 b@2 ");
    put_owned(f, "a", "other");
    drop(f, "default", "b");
    buf_clear(&log);
    store_dependents(f->store, "boss", note_name, &log);
    assert_int_equal(log.len, 0);
    store_dependents(f->store, "other", note_name, &log);
    assert_string_equal(log.data, "c@3 a@5 ");
}

/* ---- watching ---- */

static void test_watch_tells_changes_in_order_with_the_state_before(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct store_watch *watch;

    put(f, "a", "old");
    assert_int_equal(store_watch(f->store, KIND_CONFIG_MAP, NULL, 1, note_event, NULL, &log, &watch, NULL),
                     0);
    put(f, "a", "x");
    put(f, "a", "old");
    drop(f, "a", "old");
    put(f, "a", "old");
    assert_int_equal(log.len, 0); /* not before the commit */
    settle(f);
    assert_string_equal(log.data, "+x *old(-2) -old(-1) +old ");
    store_unwatch(watch);
    put(f, "a", "y");
    settle(f);
    assert_string_equal(log.data, "+x *old(-2) -old(-1) +old ");
}

static void test_watch_filters_kind_namespace_and_start(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf one = {0};
    CLEANUP(buf_done) struct buf all = {0};
    CLEANUP(buf_done) struct buf later = {0};
    struct store_watch *watches[3];

    store_watch(f->store, KIND_SECRET, "a", 0, note_event, NULL, &one, &watches[0], NULL);
    store_watch(f->store, 0, NULL, 0, note_event, NULL, &all, &watches[1], NULL);
    store_watch(f->store, 0, NULL, 2, note_event, note_idle, &later, &watches[2], NULL);
    put(f, "a", "map");
    store_put(f->store, make_object(KIND_SECRET, store_next_revision(f->store), "a", "s", NULL, NULL, 1));
    settle(f);
    store_put(f->store, make_object(KIND_SECRET, store_next_revision(f->store), "b", "s", NULL, NULL, 1));
    settle(f);
    assert_string_equal(one.data, "+s ");
    assert_string_equal(all.data, "+map +s +s ");
    /* from the future: idle never says less than where it started */
    assert_non_null(strstr(later.data, "+s =3 "));
    assert_null(strstr(later.data, "map"));
    for (size_t i = 0; i < 3; i++)
        store_unwatch(watches[i]);
}

static void test_watch_resumes_after_reopening(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct store_watch *watch;

    put(f, "a", "x");
    put(f, "a", "y");
    put(f, "a", "x");
    drop(f, "a", "y");
    put(f, "a", "z");
    fixture_reopen(f);
    assert_int_equal(store_revision(f->store), 5);
    assert_int_equal(store_oldest(f->store), 0);
    assert_int_equal(store_watch(f->store, 0, NULL, 1, note_event, note_idle, &log, &watch, NULL), 0);
    settle(f);
    assert_string_equal(log.data, "+y *x(-2) -y(-2) +z =5 ");
    assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, NULL), 2);
    store_unwatch(watch);
}

static void test_watch_from_before_the_window_is_gone(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct store_watch *watch = NULL;
    struct store_stats stats;
    struct err err = {0};

    put(f, "a", "stays");
    for (int i = 0; i < STORE_WINDOW_CHANGES + 600; i++) {
        if (i % 3 == 2)
            drop(f, "a", "x");
        else
            put(f, "a", "x");
        if (i % 1000 == 0)
            settle(f);
    }
    settle(f);
    for (int round = 0; round < 2; round++) {
        store_stats(f->store, &stats);
        assert_in_range(stats.window_changes, STORE_WINDOW_CHANGES, STORE_WINDOW_CHANGES + 600);
        assert_in_range(store_oldest(f->store), 1, 610);
        assert_int_equal(store_watch(f->store, 0, NULL, 0, note_event, NULL, &log, &watch, &err), -1);
        assert_int_equal(err.code, ERR_GONE);
        assert_int_equal(
            store_watch(f->store, 0, NULL, store_oldest(f->store), note_event, NULL, &log, &watch, &err), 0);
        settle(f);
        store_unwatch(watch);
        buf_clear(&log);
        assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, NULL), 2);
        put(f, "a", "y"); /* carries the pruning into the file */
        drop(f, "a", "y");
        fixture_reopen(f);
    }
}

struct unwatcher {
    struct store *store;
    struct store_watch *self, *other, *born;
    struct buf *log;
};

static void note_and_change_watches(void *arg, const struct store_event *event)
{
    struct unwatcher *u = arg;

    note_event(u->log, event);
    store_unwatch(TAKE_PTR(u->self));
    store_unwatch(TAKE_PTR(u->other));
    store_watch(u->store, 0, NULL, 0, note_event, NULL, u->log, &u->born, NULL);
}

static void test_watches_may_come_and_go_inside_a_callback(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct unwatcher u = {.store = f->store, .log = &log};

    store_watch(f->store, 0, NULL, 0, note_and_change_watches, NULL, &u, &u.self, NULL);
    store_watch(f->store, 0, NULL, 0, note_event, NULL, &log, &u.other, NULL);
    put(f, "a", "x");
    put(f, "a", "y");
    settle(f);
    assert_string_equal(log.data, "+x +x +y ");
    store_unwatch(u.born);
}

/* ---- deferring ---- */

static void test_defer_runs_at_once_when_all_is_durable(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};

    store_defer(f->store, note_answer, &(struct answer){&log, "now"});
    assert_string_equal(log.data, "now ");
}

static void test_defer_keeps_the_order_of_calls(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct answer one = {&log, "one"}, two = {&log, "two"}, three = {&log, "three"};

    put(f, "a", "x");
    store_defer(f->store, note_answer, &one);
    loop_turn(f->loop, 0, NULL);
    put(f, "a", "y");
    store_defer(f->store, note_answer, &two);
    store_defer(f->store, note_answer, &three);
    assert_false(store_durable(f->store));
    settle(f);
    assert_string_equal(log.data, "one two three ");
}

static void test_close_makes_everything_durable_and_answers(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct answer answer = {&log, "done"};

    put(f, "a", "x");
    store_defer(f->store, note_answer, &answer);
    fixture_reopen(f);
    assert_string_equal(log.data, "done ");
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "x"));
}

/* ---- values ---- */

static void note_value(void *arg, const char *key, struct str value)
{
    buf_printf(arg, "%s=%.*s ", key, STR_ARG(value));
}

static void test_values_are_sorted_durable_and_removable(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};

    store_value_set(f->store, "t", "b", STR("2"));
    store_value_set(f->store, "t", "a", STR("1"));
    store_value_set(f->store, "u", "c", STR("3"));
    store_value_set(f->store, "t", "d", STR("4"));
    store_value_set(f->store, "t", "d", (struct str){0});
    store_value_set(f->store, "t", "b", store_value(f->store, "t", "b"));
    fixture_reopen(f);
    store_values(f->store, "t", note_value, &log);
    assert_string_equal(log.data, "a=1 b=2 ");
    assert_true(str_is(store_value(f->store, "u", "c"), "3"));
    assert_null(store_value(f->store, "t", "d").s);
}

/* ---- failure ---- */

/* Lets commits fail: the file may not get longer than this. */
static void limit_file(off_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < 0 ? limit.rlim_max : (rlim_t)bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void test_lone_write_that_fails_at_once_is_undone_and_told(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    struct answer one = {&log, "one"}, two = {&log, "two"};
    int64_t rv;

    signal(SIGXFSZ, SIG_IGN);
    rv = put(f, "a", "kept");
    settle(f);
    limit_file(1 << 19);
    store_put(f->store,
              make_object(KIND_SECRET, store_next_revision(f->store), "a", "big", NULL, NULL, 900000));
    store_defer(f->store, note_answer, &one);
    settle(f);
    limit_file(-1);
    assert_string_equal(log.data, "one! ");
    assert_null(store_get(f->store, KIND_SECRET, "a", "big"));
    assert_int_equal(store_revision(f->store), rv);

    assert_true(put(f, "a", "after") > rv);
    store_defer(f->store, note_answer, &two);
    settle(f);
    assert_string_equal(log.data, "one! two ");
    fixture_reopen(f);
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "after"));
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "kept"));
}

static void test_failed_commit_is_undone_and_told(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf log = {0};
    CLEANUP(buf_done) struct buf seen = {0};
    struct answer one = {&log, "one"}, two = {&log, "two"}, three = {&log, "three"};
    struct store_watch *watch;
    int64_t rv, failed;

    signal(SIGXFSZ, SIG_IGN);
    put_owned(f, "kept", "boss");
    put(f, "a", "changed");
    rv = put(f, "a", "removed");
    store_value_set(f->store, "t", "k", STR("old"));
    settle(f);
    store_watch(f->store, 0, NULL, rv, note_event, NULL, &seen, &watch, NULL);

    limit_file(1 << 20);
    put(f, "a", "changed");
    drop(f, "a", "removed");
    put_owned(f, "new", "boss");
    store_value_set(f->store, "t", "k", STR("new"));
    store_value_set(f->store, "t", "k2", STR("new"));
    for (int i = 0; i < 80; i++) /* too many to be written at once: for the writer */
        store_put(f->store,
                  make_object(KIND_SECRET, store_next_revision(f->store), "a", "big", NULL, NULL, 50000));
    store_defer(f->store, note_answer, &one);
    loop_turn(f->loop, 0, NULL);
    failed = put(f, "a", "behind"); /* in the next batch: builds on what fails */
    store_defer(f->store, note_answer, &two);
    settle(f);
    limit_file(-1);

    assert_string_equal(log.data, "one! two! ");
    assert_int_equal(store_get(f->store, KIND_CONFIG_MAP, "a", "changed")->rv, rv - 1);
    assert_int_equal(store_get(f->store, KIND_CONFIG_MAP, "a", "removed")->rv, rv);
    assert_null(store_get(f->store, KIND_SECRET, "a", "big"));
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "a", "behind"));
    assert_true(str_is(store_value(f->store, "t", "k"), "old"));
    assert_null(store_value(f->store, "t", "k2").s);
    assert_int_equal(store_revision(f->store), rv);
    buf_clear(&log);
    store_dependents(f->store, "boss", note_name, &log);
    assert_string_equal(log.data, "kept@1 ");

    buf_clear(&log);
    assert_true(put(f, "a", "after") > failed);
    store_defer(f->store, note_answer, &three);
    settle(f);
    assert_string_equal(log.data, "three ");
    assert_string_equal(seen.data, "+after ");
    store_unwatch(watch);
    fixture_reopen(f);
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "after"));
    assert_non_null(store_get(f->store, KIND_CONFIG_MAP, "a", "removed"));
    assert_int_equal(store_revision(f->store), failed + 1);
}

/* ---- the file ---- */

static void test_file_is_private(void **state)
{
    struct fixture *f = *state;
    struct stat st;

    put(f, "a", "x");
    settle(f);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_second_process_is_refused(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    struct store *store = NULL;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct loop *loop = loop_new();

        _exit(store_open(f->path, loop, &store, &err) == -1 && err.code == ERR_CONFLICT &&
                      strstr(err.msg, "is in use by another process")
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- records ---- */

static bool write_down(void *arg, const struct record *record)
{
    buf_printf(arg, "%s:%d@%lld-%lld ", record->job, (int)record->type, (long long)record->time_ms,
               (long long)record->until_ms);
    return true;
}

static void assert_records(struct fixture *f, const struct record_query *query, const char *wanted)
{
    CLEANUP(buf_done) struct buf text = {0};

    assert_int_equal(store_records(f->store, query, write_down, &text, NULL), 0);
    assert_string_equal(text.data ? text.data : "", wanted);
}

static void test_records_are_found_by_job_time_and_overlap_also_after_a_restart(void **state)
{
    struct fixture *f = *state;
    int64_t open;

    store_record(f->store, &(struct record){.type = RECORD_EPOCH, .time_ms = 10, .job = "a"});
    store_record(f->store, &(struct record){.type = RECORD_EPOCH, .time_ms = 30, .job = "b"});
    store_record(f->store, &(struct record){.type = RECORD_EPOCH, .time_ms = 20, .job = "a"});
    open = store_record(f->store, &(struct record){.type = RECORD_SPAN, .time_ms = 5, .job = "c"});
    settle(f);
    assert_records(f, &(struct record_query){.type = RECORD_EPOCH}, "a:3@10-0 a:3@20-0 b:3@30-0 ");
    assert_records(f,
                   &(struct record_query){.type = RECORD_EPOCH, .job = "a", .newest_first = true, .limit = 1},
                   "a:3@20-0 ");
    assert_records(f, &(struct record_query){.type = RECORD_EPOCH, .from_ms = 15, .to_ms = 30}, "a:3@20-0 ");
    assert_records(f, &(struct record_query){.type = RECORD_SPAN, .from_ms = 100}, "c:2@5-0 ");
    store_record(f->store, &(struct record){
                               .seq = open, .type = RECORD_SPAN, .time_ms = 5, .until_ms = 50, .job = "c"});
    fixture_close(f);
    fixture_open(f);
    assert_records(f, &(struct record_query){.type = RECORD_SPAN, .from_ms = 50}, "c:2@5-50 ");
    assert_records(f, &(struct record_query){.type = RECORD_SPAN, .from_ms = 51}, "");
    assert_true(store_record(f->store, &(struct record){.type = RECORD_JOB, .time_ms = 1}) > open);
    settle(f);
}

static bool count_record(void *arg, const struct record *record)
{
    (void)record;
    ++*(size_t *)arg;
    return true;
}

static size_t records_of(struct fixture *f, const char *job, const char *user)
{
    struct record_query query = {.type = RECORD_TRANSITION, .job = job, .user = user};
    size_t count = 0;

    assert_int_equal(store_records(f->store, &query, count_record, &count, NULL), 0);
    return count;
}

static void test_records_of_one_job_do_not_drive_out_others(void **state)
{
    struct fixture *f = *state;

    store_record(f->store,
                 &(struct record){.type = RECORD_TRANSITION, .time_ms = 1, .job = "a", .user = "ann"});
    for (int i = 0; i < 12500; i++)
        store_record(f->store,
                     &(struct record){.type = RECORD_TRANSITION, .time_ms = 5, .job = "b", .user = "bob"});
    settle(f);
    assert_int_equal(records_of(f, "a", NULL), 1);
    assert_in_range(records_of(f, "b", NULL), 10000, 11000);
    assert_int_equal(records_of(f, NULL, "ann"), 1);
}

static void sql_on_closed(struct fixture *f, const char *sql)
{
    sqlite3 *db;

    fixture_close(f);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void assert_open_fails(struct fixture *f, enum err_code code, const char *part)
{
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(f->path, f->loop, &f->store, &err), -1);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.msg, part));
    loop_free(f->loop);
}

static void test_newer_file_is_refused(void **state)
{
    struct fixture *f = *state;

    sql_on_closed(f, "PRAGMA user_version = 99");
    assert_open_fails(f, ERR_UNSUPPORTED, "schema version 99, made by a newer Berth");
    f->loop = NULL;
}

static void test_work_without_an_owner_becomes_the_admins(void **state)
{
    struct fixture *f = *state;
    const struct object *pod;

    store_put(f->store, make_object(KIND_POD, store_next_revision(f->store), "a", "p", NULL, NULL, 1));
    settle(f);
    sql_on_closed(f, "DROP INDEX record_by_name; DROP INDEX record_by_tag; DROP INDEX record_by_end;"
                     "PRAGMA user_version = 3");
    fixture_open(f);
    pod = store_get(f->store, KIND_POD, "a", "p");
    assert_non_null(pod);
    assert_true(str_is(pod->maker, "root"));
}

static void test_records_of_an_older_file_get_their_indexes(void **state)
{
    struct fixture *f = *state;

    store_record(f->store, &(struct record){.type = RECORD_JOB,
                                            .time_ms = 1,
                                            .job = "j",
                                            .tag = "Failed",
                                            .doc = STR("{\"name\":\"net\",\"namespace\":\"lab\"}")});
    store_record(f->store,
                 &(struct record){.type = RECORD_JOB, .time_ms = 2, .job = "damaged", .doc = STR("{\"name")});
    store_record(f->store, &(struct record){.type = RECORD_SPAN, .time_ms = 1, .until_ms = 9, .job = "j"});
    settle(f);
    sql_on_closed(f, "DROP INDEX record_by_name; DROP INDEX record_by_tag; DROP INDEX record_by_end;"
                     "PRAGMA user_version = 4");
    fixture_open(f);
    assert_records(f, &(struct record_query){.type = RECORD_JOB, .name = "net", .ns = "lab"}, "j:7@1-0 ");
    assert_records(f, &(struct record_query){.type = RECORD_JOB, .tag = "Failed"}, "j:7@1-0 ");
    assert_records(f, &(struct record_query){.type = RECORD_SPAN, .from_ms = 9}, "j:2@1-9 ");
}

static void test_foreign_and_broken_files_are_refused(void **state)
{
    static const char text[200] = "this is no database";
    struct fixture *f = *state;
    int fd;

    sql_on_closed(f, "PRAGMA application_id = 7");
    assert_open_fails(f, ERR_INVALID, "not Berth's");
    fd = open(f->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    close(fd);
    assert_open_fails(f, ERR_INVALID, "not a database");
    f->loop = NULL;
}

static void test_memory_store_needs_no_file(void **state)
{
    struct fixture f = {.path = ":memory:"};

    (void)state;
    fixture_open(&f);
    put(&f, "a", "x");
    settle(&f);
    assert_non_null(store_get(f.store, KIND_CONFIG_MAP, "a", "x"));
    fixture_close(&f);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        T(test_list_is_sorted_by_namespace_then_name),
        T(test_after_finds_the_next_place_also_when_the_name_is_gone),
        T(test_get_finds_by_name_and_by_uid),
        T(test_same_name_with_another_uid_replaces_the_uid),
        T(test_dependents_follow_the_owner_references),
        T(test_objects_of_many_owners_go_quickly),
        T(test_watch_tells_changes_in_order_with_the_state_before),
        T(test_watch_filters_kind_namespace_and_start),
        T(test_watch_resumes_after_reopening),
        T(test_watch_from_before_the_window_is_gone),
        T(test_watches_may_come_and_go_inside_a_callback),
        T(test_defer_runs_at_once_when_all_is_durable),
        T(test_defer_keeps_the_order_of_calls),
        T(test_close_makes_everything_durable_and_answers),
        T(test_values_are_sorted_durable_and_removable),
        T(test_failed_commit_is_undone_and_told),
        T(test_lone_write_that_fails_at_once_is_undone_and_told),
        T(test_file_is_private),
        T(test_second_process_is_refused),
        T(test_newer_file_is_refused),
        T(test_work_without_an_owner_becomes_the_admins),
        T(test_records_of_an_older_file_get_their_indexes),
        T(test_foreign_and_broken_files_are_refused),
        T(test_records_are_found_by_job_time_and_overlap_also_after_a_restart),
        T(test_records_of_one_job_do_not_drive_out_others),
        cmocka_unit_test(test_memory_store_needs_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
