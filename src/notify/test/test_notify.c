#include "base/mem.h"
#include "base/test/test.h"
#include "base/vec.h"
#include "notify/notify.h"
#include "store/disk.h"

/* A handler that notes what it is given and ends it when the test says so. */
struct fixture {
    struct loop *loop;
    struct store *store;
    struct notify *notify;
    struct notify_handler handler;
    VEC(struct notify_delivery *) under_way;
    char seen[256]; /* "a1 a2 " */
    int lost;
    int64_t now; /* 0: the wall clock's */
};

static void start(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct fixture *f = arg;

    strncat(f->seen, json_string_or(json_get(payload, "id"), "?"), sizeof(f->seen) - strlen(f->seen) - 2);
    strcat(f->seen, " ");
    vec_push(&f->under_way, delivery);
}

static void cancel(void *arg, struct notify_delivery *delivery)
{
    (void)arg;
    (void)delivery;
}

static void lost(void *arg, const char *lane, const char *why)
{
    (void)lane;
    (void)why;
    ((struct fixture *)arg)->lost++;
}

static int64_t now(void *arg)
{
    const struct fixture *f = arg;

    return f->now ? f->now : clock_now();
}

static void open_notify(struct fixture *f, int64_t keep_nsec)
{
    f->notify = notify_new(&(struct notify_config){.loop = f->loop,
                                                   .store = f->store,
                                                   .first_nsec = NSEC_PER_MSEC,
                                                   .max_nsec = 4 * NSEC_PER_MSEC,
                                                   .keep_nsec = keep_nsec,
                                                   .now = now,
                                                   .lost = lost,
                                                   .arg = f});
    f->handler = (struct notify_handler){"test", f, start, cancel};
    notify_add_handler(f->notify, &f->handler);
    notify_start(f->notify);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    open_notify(f, 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    notify_stop(f->notify);
    store_close(f->store);
    notify_free(f->notify);
    loop_free(f->loop);
    vec_done(&f->under_way);
    free(f);
    return 0;
}

static int push(struct fixture *f, const char *lane, const char *host, const char *id)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *payload = json_new_object(&arena);
    struct err err = {0};

    json_set_string(&arena, payload, "id", id);
    return notify_push(
        f->notify,
        &(struct notify_message){.handler = "test", .lane = lane, .host = host, .payload = payload}, &err);
}

static void turn_until(struct fixture *f, size_t deliveries)
{
    for (int i = 0; i < 2000 && f->under_way.len < deliveries; i++)
        loop_turn(f->loop, 5, NULL);
    assert_int_equal(f->under_way.len, deliveries);
}

static void finish(struct fixture *f, enum notify_result result)
{
    struct notify_delivery *delivery = f->under_way.v[0];

    vec_remove(&f->under_way, 0);
    notify_finished(delivery, result, "because", 0);
}

static void test_a_lane_keeps_its_order_through_failures(void **state)
{
    struct fixture *f = *state;
    struct notify_lane_state lane;

    push(f, "a", "h", "a1");
    push(f, "a", "h", "a2");
    turn_until(f, 1);
    finish(f, NOTIFY_RETRY);
    notify_lane(f->notify, "a", &lane);
    assert_int_equal(lane.waiting, 2);
    assert_int_equal(lane.tries, 1);
    assert_string_equal(lane.why, "because");
    turn_until(f, 1);
    finish(f, NOTIFY_DELIVERED);
    turn_until(f, 1);
    finish(f, NOTIFY_DELIVERED);
    assert_string_equal(f->seen, "a1 a1 a2 ");
    notify_lane(f->notify, "a", &lane);
    assert_int_equal(lane.waiting, 0);
}

static void test_a_host_has_few_places_and_others_do_not_wait_for_it(void **state)
{
    struct fixture *f = *state;

    push(f, "a", "slow", "a");
    push(f, "b", "slow", "b");
    push(f, "c", "slow", "c");
    push(f, "d", "quick", "d");
    turn_until(f, 3);
    assert_string_equal(f->seen, "a d b ");
    finish(f, NOTIFY_DELIVERED);
    turn_until(f, 3);
    assert_string_equal(f->seen, "a d b c ");
    while (f->under_way.len)
        finish(f, NOTIFY_DELIVERED);
}

static void test_what_is_not_delivered_is_taken_up_by_the_next_start(void **state)
{
    struct fixture *f = *state;

    push(f, "a", "h", "a1");
    push(f, "a", "h", "a2");
    turn_until(f, 1);
    notify_free(f->notify);
    f->under_way.len = 0;
    open_notify(f, 0);
    turn_until(f, 1);
    finish(f, NOTIFY_DELIVERED);
    turn_until(f, 1);
    finish(f, NOTIFY_DELIVERED);
    assert_string_equal(f->seen, "a1 a1 a2 ");
    notify_free(f->notify);
    open_notify(f, 0);
    for (int i = 0; i < 5; i++)
        loop_turn(f->loop, 2, NULL);
    assert_string_equal(f->seen, "a1 a1 a2 ");
}

/* Fails until it is given up; how many tries that took. */
static int fail_for_good(struct fixture *f)
{
    int tries = 0;

    for (int lost = f->lost; f->lost == lost; tries++) {
        turn_until(f, 1);
        finish(f, NOTIFY_RETRY);
        assert_in_range(tries, 0, NOTIFY_TRIES_MIN);
    }
    return tries;
}

static void test_what_is_too_old_or_refused_for_good_is_given_up(void **state)
{
    struct fixture *f = *state;

    push(f, "a", "h", "a1");
    turn_until(f, 1);
    finish(f, NOTIFY_NEVER);
    assert_int_equal(f->lost, 1);
    notify_free(f->notify);
    open_notify(f, 1);
    push(f, "a", "h", "a2");
    assert_int_equal(fail_for_good(f), NOTIFY_TRIES_MIN);
    assert_int_equal(f->lost, 2);
}

static void test_a_clock_that_jumps_gives_up_nothing(void **state)
{
    struct fixture *f = *state;

    f->now = clock_now();
    push(f, "a", "h", "a1");
    turn_until(f, 1);
    f->now += 48 * 3600 * NSEC_PER_SEC;
    finish(f, NOTIFY_RETRY);
    assert_int_equal(f->lost, 0);
    turn_until(f, 1);
    finish(f, NOTIFY_DELIVERED);
    assert_int_equal(f->lost, 0);
    assert_string_equal(f->seen, "a1 a1 ");
}

static void test_a_day_of_tries_also_over_restarts_then_the_next_message(void **state)
{
    struct fixture *f = *state;
    const int64_t pushed = clock_now(), minute = 60 * NSEC_PER_SEC, day = 24 * 60 * minute;

    f->now = pushed;
    push(f, "a", "h", "a1");
    f->now = pushed + day / 2;
    push(f, "a", "h", "a2");
    turn_until(f, 1);
    f->now = pushed + day - minute;
    finish(f, NOTIFY_RETRY);
    assert_int_equal(f->lost, 0);
    turn_until(f, 1);
    notify_free(f->notify);
    f->under_way.len = 0;
    open_notify(f, 0);
    turn_until(f, 1);
    finish(f, NOTIFY_RETRY);
    assert_int_equal(f->lost, 0);
    f->now = pushed + day;
    assert_int_equal(fail_for_good(f), NOTIFY_TRIES_MIN - 1); /* of this run: one came before */
    assert_int_equal(f->lost, 1);
    turn_until(f, 1);
    assert_string_equal(f->seen, "a1 a1 a1 a1 a1 a1 a1 a1 a1 a1 a2 ");
    f->now = pushed + day / 2 + day;
    fail_for_good(f);
    assert_int_equal(f->lost, 2);
}

static void test_nothing_is_sent_before_it_is_durable(void **state)
{
    struct fixture *f = *state;

    push(f, "a", "h", "a1");
    turn_until(f, 1);
    push(f, "a", "h", "a2");
    push(f, "b", "h", "b1");
    finish(f, NOTIFY_DELIVERED); /* which looks for what is to be sent next */
    assert_string_equal(f->seen, "a1 ");
    turn_until(f, 2);
    while (f->under_way.len)
        finish(f, NOTIFY_DELIVERED);
}

/* On a disk of its own, whose commits can be made to fail. */
static void test_what_the_disk_refused_is_not_sent_and_not_given_up(void **state)
{
    struct store_disk *disk = store_disk_new();
    struct notify_lane_state lane;
    struct err err = {0};
    struct fixture f = {.loop = loop_new()};

    (void)state;
    assert_int_equal(store_open_disk(disk, f.loop, &f.store, &err), 0);
    open_notify(&f, 0);
    push(&f, "a", "h", "a1");
    turn_until(&f, 1);
    store_disk_fail(disk, 1);
    push(&f, "a", "h", "a2");
    push(&f, "b", "h", "b1");
    for (int i = 0; i < 20; i++)
        loop_turn(f.loop, 2, NULL);
    finish(&f, NOTIFY_DELIVERED);
    push(&f, "a", "h", "a3");
    turn_until(&f, 1);
    assert_string_equal(f.seen, "a1 a3 ");
    notify_lane(f.notify, "b", &lane);
    assert_int_equal(lane.waiting + (size_t)f.lost, 0);
    notify_stop(f.notify);
    store_close(f.store);
    notify_free(f.notify);
    vec_done(&f.under_way);
    store_disk_free(disk);
    loop_free(f.loop);
}

static void test_a_lane_takes_only_so_many(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < NOTIFY_LANE_MAX; i++)
        assert_int_equal(push(f, "a", "h", "x"), 0);
    assert_int_equal(push(f, "a", "h", "x"), -1);
    assert_int_equal(push(f, "b", "h", "x"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_lane_keeps_its_order_through_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_host_has_few_places_and_others_do_not_wait_for_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_delivered_is_taken_up_by_the_next_start, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_clock_that_jumps_gives_up_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_too_old_or_refused_for_good_is_given_up, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_day_of_tries_also_over_restarts_then_the_next_message, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_sent_before_it_is_durable, setup, teardown),
        cmocka_unit_test(test_what_the_disk_refused_is_not_sent_and_not_given_up),
        cmocka_unit_test_setup_teardown(test_a_lane_takes_only_so_many, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
