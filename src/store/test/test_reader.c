/* Reads of the record log in threads: all of it, in its order, whoever leaves meanwhile. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "store_util.h"

#include <stdatomic.h>
#include <unistd.h>

#define MANY 5000

struct work {
    struct record_query query;
    struct buf text;
    size_t count;
    int64_t last;
    bool in_order;
    atomic_int *running, *most; /* NULL: not counted */
};

struct told {
    int done, failed;
    size_t count;
    bool in_order;
    char text[256];
};

static atomic_int dropped;

static void work_free(void *arg)
{
    struct work *work = arg;

    buf_done(&work->text);
    free(work);
}

static void work_drop(void *arg)
{
    atomic_fetch_add(&dropped, 1);
    work_free(arg);
}

static bool note(void *arg, const struct record *record)
{
    struct work *work = arg;

    if (work->text.len < 200)
        buf_printf(&work->text, "%s@%lld ", record->job, (long long)record->time_ms);
    work->in_order = work->in_order && record->time_ms >= work->last;
    work->last = record->time_ms;
    work->count++;
    return true;
}

static int read_all(void *arg, struct record_source *source, struct err *err)
{
    struct work *work = arg;
    int result;

    if (work->running) {
        int now = atomic_fetch_add(work->running, 1) + 1, most = atomic_load(work->most);

        while (now > most && !atomic_compare_exchange_weak(work->most, &most, now))
            ;
    }
    result = records_read(source, &work->query, note, work, err);
    if (work->running)
        atomic_fetch_sub(work->running, 1);
    return result;
}

static void reader_on_read(void *owner, void *arg, const struct err *err)
{
    struct told *told = owner;
    struct work *work = arg;

    told->done++;
    told->failed += err != NULL;
    told->count = work->count;
    told->in_order = work->in_order;
    snprintf(told->text, sizeof(told->text), "%s", work->text.data ? work->text.data : "");
    work_free(work);
}

static struct work *work_new(const struct record_query *query)
{
    struct work *work = NEW(struct work);

    work->query = *query;
    work->in_order = true;
    return work;
}

static struct store_read *start(struct fixture *f, const char *person, struct work *work, struct told *told)
{
    struct store_read *read = NULL;

    assert_int_equal(
        store_read(f->store, person, read_all, reader_on_read, work_drop, told, work, &read, NULL), 0);
    assert_non_null(read);
    return read;
}

static void wait_for(struct fixture *f, struct told *told, int done)
{
    while (told->done < done)
        loop_turn(f->loop, 1000, NULL);
}

static void fill(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++)
        store_record(f->store, &(struct record){.type = RECORD_JOB,
                                                .time_ms = 1 + i / 3,
                                                .job = i % 2 ? "odd" : "even",
                                                .user = i % 5 ? "ann" : "bob",
                                                .tag = i % 100 ? "Succeeded" : "Failed",
                                                .doc = str_from("{\"name\":\"net\",\"namespace\":\"lab\"}")});
    store_settle(f->store);
    while (!store_durable(f->store))
        loop_turn(f->loop, 1000, NULL);
}

static void assert_read(struct fixture *f, struct record_query query, size_t count, const char *text)
{
    struct told told = {0};

    start(f, "ann", work_new(&query), &told);
    wait_for(f, &told, 1);
    assert_int_equal(told.failed, 0);
    assert_int_equal(told.count, count);
    if (text)
        assert_memory_equal(told.text, text, strlen(text));
}

static void test_every_record_is_read_once_whatever_the_way(void **state)
{
    struct fixture *f = *state;
    struct told told = {0};

    fill(f, MANY);
    start(f, "ann", work_new(&(struct record_query){.type = RECORD_JOB}), &told);
    wait_for(f, &told, 1);
    assert_int_equal(told.count, MANY);
    assert_true(told.in_order);
    assert_read(f, (struct record_query){.type = RECORD_JOB, .job = "odd"}, MANY / 2, "odd@1 ");
    assert_read(f, (struct record_query){.type = RECORD_JOB, .user = "bob"}, MANY / 5, "even@1 ");
    assert_read(f, (struct record_query){.type = RECORD_JOB, .tag = "Failed"}, MANY / 100, "even@1 ");
    assert_read(f, (struct record_query){.type = RECORD_JOB, .name = "net"}, MANY, NULL);
    assert_read(f, (struct record_query){.type = RECORD_JOB, .name = "net", .ns = "other"}, 0, NULL);
    assert_read(f,
                (struct record_query){.type = RECORD_JOB, .newest_first = true, .from_ms = 2, .to_ms = 1002},
                3000, "even@1001 odd@1001 even@1001 odd@1000 ");
    assert_read(f, (struct record_query){.type = RECORD_JOB, .from_ms = 2, .to_ms = 1002, .limit = 1500},
                1500, "odd@2 even@2 odd@2 even@3 ");
    assert_read(
        f, (struct record_query){.type = RECORD_JOB, .newest_first = true, .after = {.time_ms = 2, .seq = 5}},
        4, "odd@2 even@1 odd@1 even@1 ");
}

static void test_spans_that_overlap_a_time_come_by_their_end(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3000; i++)
        store_record(f->store, &(struct record){.type = RECORD_SPAN,
                                                .time_ms = 10 + i,
                                                .until_ms = i % 1000 == 999 ? 0 : 20 + i,
                                                .job = i % 1000 == 999 ? "open" : "shut"});
    store_settle(f->store);
    while (!store_durable(f->store))
        loop_turn(f->loop, 1000, NULL);
    assert_read(f, (struct record_query){.type = RECORD_SPAN, .from_ms = 1}, 3000,
                "open@1009 open@2009 open@3009 shut@10 ");
    assert_read(f, (struct record_query){.type = RECORD_SPAN, .from_ms = 3000}, 22,
                "open@1009 open@2009 open@3009 ");
    assert_read(f, (struct record_query){.type = RECORD_SPAN, .from_ms = 3000, .to_ms = 3000}, 12, NULL);
}

static void test_two_run_at_a_time_and_one_of_a_person(void **state)
{
    struct fixture *f = *state;
    atomic_int running = 0, most = 0;
    struct told told = {0};

    fill(f, MANY);
    for (int i = 0; i < 20; i++) {
        struct work *work = work_new(&(struct record_query){.type = RECORD_JOB});

        work->running = &running;
        work->most = &most;
        start(f, "ann", work, &told);
    }
    wait_for(f, &told, 20);
    assert_int_equal(atomic_load(&most), 1);
    for (int i = 0; i < 20; i++) {
        struct work *work = work_new(&(struct record_query){.type = RECORD_JOB});
        char person[16];

        snprintf(person, sizeof(person), "p%d", i);
        work->running = &running;
        work->most = &most;
        start(f, person, work, &told);
    }
    wait_for(f, &told, 40);
    assert_in_range(atomic_load(&most), 1, STORE_READERS);
}

static void test_what_is_cancelled_is_dropped_and_not_told(void **state)
{
    struct fixture *f = *state;
    struct told gone = {0}, kept = {0};
    int before = atomic_load(&dropped);

    fill(f, MANY);
    for (int i = 0; i < 10; i++)
        store_read_cancel(start(f, "ann", work_new(&(struct record_query){.type = RECORD_JOB}), &gone));
    start(f, "ann", work_new(&(struct record_query){.type = RECORD_JOB}), &kept);
    wait_for(f, &kept, 1);
    assert_int_equal(kept.count, MANY);
    while (atomic_load(&dropped) < before + 10)
        loop_turn(f->loop, 10, NULL);
    assert_int_equal(gone.done, 0);
}

static void test_one_person_has_so_many_waiting(void **state)
{
    struct fixture *f = *state;
    struct told told = {0};
    struct err err = {0};
    int taken = 0;

    fill(f, MANY);
    for (;;) {
        struct work *work = work_new(&(struct record_query){.type = RECORD_JOB});
        struct store_read *read;

        if (store_read(f->store, "ann", read_all, reader_on_read, work_drop, &told, work, &read, &err) < 0) {
            work_free(work);
            break;
        }
        taken++;
    }
    assert_int_equal(err.code, ERR_LIMIT);
    assert_in_range(taken, STORE_READS_PERSON, 4 * STORE_READS_PERSON);
    start(f, "bob", work_new(&(struct record_query){.type = RECORD_JOB}), &told);
    /* the store is closed while most of them wait */
}

static void test_a_read_sees_what_is_committed_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct told told = {0};
    size_t before = 0;

    for (int i = 0; i < 200; i++) {
        store_record(f->store, &(struct record){.type = RECORD_JOB, .time_ms = 1 + i, .job = "a"});
        start(f, "ann", work_new(&(struct record_query){.type = RECORD_JOB}), &told);
        wait_for(f, &told, i + 1);
        assert_in_range(told.count, before, i + 1);
        before = told.count;
        assert_true(told.in_order);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_every_record_is_read_once_whatever_the_way),
        T(test_spans_that_overlap_a_time_come_by_their_end),
        T(test_two_run_at_a_time_and_one_of_a_person),
        T(test_what_is_cancelled_is_dropped_and_not_told),
        T(test_one_person_has_so_many_waiting),
        T(test_a_read_sees_what_is_committed_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
