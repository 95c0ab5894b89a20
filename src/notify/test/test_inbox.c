#include "base/mem.h"
#include "base/test/test.h"
#include "notify/inbox.h"
#include "store/disk.h"

struct fixture {
    struct loop *loop;
    struct store *store;
    struct inbox *inbox;
    int news;
};

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->inbox = inbox_new(f->store);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    store_close(f->store);
    inbox_free(f->inbox);
    loop_free(f->loop);
    free(f);
    return 0;
}

static void settle(struct fixture *f)
{
    do
        assert_int_equal(loop_turn(f->loop, 10, NULL), 0);
    while (!store_durable(f->store));
    assert_int_equal(loop_turn(f->loop, 0, NULL), 0);
}

static bool tell(struct fixture *f, const char *user, enum inbox_kind kind, const char *job, const char *once)
{
    return inbox_tell(f->inbox, &(struct inbox_item){.user = user,
                                                     .kind = kind,
                                                     .job = job,
                                                     .name = "train",
                                                     .text = "something happened",
                                                     .by = "bob",
                                                     .once = once,
                                                     .at_ms = 1700000000000});
}

static const struct json *list(struct fixture *f, const char *user, bool unseen, size_t limit,
                               struct arena *arena)
{
    return json_get(inbox_list(f->inbox, user, unseen, limit, arena), "items");
}

static void test_an_item_says_what_was_told(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    const struct json *item;

    assert_true(tell(f, "alice", INBOX_PREEMPTED, "uid-1", "1"));
    item = json_at(inbox_list(f->inbox, "alice", false, 0, &arena), "items.0");
    assert_string_equal(json_get_string(item, "kind"), "preempted");
    assert_string_equal(json_get_string(item, "job"), "uid-1");
    assert_string_equal(json_get_string(item, "name"), "train");
    assert_string_equal(json_get_string(item, "by"), "bob");
    assert_string_equal(json_get_string(item, "text"), "something happened");
    assert_string_equal(json_get_string(item, "time"), "2023-11-14T22:13:20Z");
    assert_false(json_get(item, "seen")->boolean);
}

static void test_the_same_thing_told_twice_is_one_item(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;

    assert_true(tell(f, "alice", INBOX_FAILED, "uid-1", NULL));
    assert_false(tell(f, "alice", INBOX_FAILED, "uid-1", NULL));
    assert_int_equal(json_len(list(f, "alice", false, 0, &arena)), 1);
}

static void test_the_same_thing_told_after_a_restart_is_one_item(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;

    assert_true(tell(f, "alice", INBOX_PREEMPTED, "uid-1", "1"));
    settle(f);
    inbox_free(f->inbox);
    f->inbox = inbox_new(f->store);
    assert_false(tell(f, "alice", INBOX_PREEMPTED, "uid-1", "1"));
    assert_true(tell(f, "alice", INBOX_PREEMPTED, "uid-1", "2"));
    assert_int_equal(json_len(list(f, "alice", false, 0, &arena)), 2);
}

static void test_the_newest_comes_first_also_after_a_restart(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    const struct json *doc;

    tell(f, "alice", INBOX_PREEMPTED, "uid-1", "9");
    inbox_free(f->inbox);
    f->inbox = inbox_new(f->store);
    tell(f, "alice", INBOX_SUCCEEDED, "uid-1", NULL);
    doc = inbox_list(f->inbox, "alice", false, 0, &arena);
    assert_string_equal(json_at_string(doc, "items.0.kind"), "succeeded");
    assert_true(json_int(json_at(doc, "items.0.id"), 0) > json_int(json_at(doc, "items.1.id"), 0));
    assert_int_equal(json_int(json_get(doc, "last"), 0), json_int(json_at(doc, "items.0.id"), -1));
}

static void test_each_user_has_an_own_box(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;

    tell(f, "alice", INBOX_FAILED, "uid-1", NULL);
    tell(f, "ali", INBOX_FAILED, "uid-2", NULL);
    assert_int_equal(json_len(list(f, "ali", false, 0, &arena)), 1);
    assert_int_equal(inbox_unseen(f->inbox, "alice"), 1);
    assert_int_equal(inbox_unseen(f->inbox, "bob"), 0);
}

static void test_what_was_seen_is_not_new(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    int64_t last;

    tell(f, "alice", INBOX_PREEMPTED, "uid-1", "1");
    last = json_int(json_get(inbox_list(f->inbox, "alice", true, 0, &arena), "last"), 0);
    tell(f, "alice", INBOX_PREEMPTED, "uid-1", "2");
    inbox_see(f->inbox, "alice", last);
    assert_int_equal(inbox_unseen(f->inbox, "alice"), 1);
    assert_int_equal(json_len(list(f, "alice", true, 0, &arena)), 1);
    assert_int_equal(json_len(list(f, "alice", false, 0, &arena)), 2);
    inbox_see(f->inbox, "alice", last - 1); /* never goes back */
    assert_int_equal(inbox_unseen(f->inbox, "alice"), 1);
    inbox_see(f->inbox, "alice", INT64_MAX);
    assert_int_equal(inbox_unseen(f->inbox, "alice"), 0);
    tell(f, "alice", INBOX_PREEMPTED, "uid-1", "3"); /* a mark past the end hides nothing */
    assert_int_equal(inbox_unseen(f->inbox, "alice"), 1);
}

static void test_a_full_box_loses_its_oldest(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    const struct json *items;

    for (int i = 0; i < 3 * INBOX_USER_MAX; i++) {
        assert_true(tell(f, "alice", INBOX_FAILED, arena_printf(&arena, "uid-%d", i), NULL));
        assert_in_range(inbox_unseen(f->inbox, "alice"), i < INBOX_USER_MAX / 2 ? 1 : INBOX_USER_MAX / 2,
                        INBOX_USER_MAX);
    }
    items = list(f, "alice", false, 0, &arena);
    for (size_t i = 0; i < json_len(items); i++)
        assert_string_equal(json_get_string(json_item(items, i), "job"),
                            arena_printf(&arena, "uid-%zu", 3 * INBOX_USER_MAX - 1 - i));
    assert_int_equal(json_len(list(f, "alice", false, 7, &arena)), 7);
}

static void test_all_boxes_together_have_a_limit(void **state)
{
    struct fixture *f = *state;
    size_t total = 0;
    char user[24], job[24];

    for (int i = 0; i < INBOX_TOTAL_MAX + 2000; i++) { /* the first user has the most */
        snprintf(user, sizeof(user), "user%d", i < 190 ? 0 : i / 150);
        snprintf(job, sizeof(job), "uid-%d", i);
        assert_true(tell(f, user, INBOX_FAILED, job, NULL));
    }
    for (int i = 0; i <= (INBOX_TOTAL_MAX + 2000) / 150; i++) {
        snprintf(user, sizeof(user), "user%d", i);
        total += inbox_unseen(f->inbox, user);
    }
    assert_in_range(total, INBOX_TOTAL_MAX / 2, INBOX_TOTAL_MAX);
    assert_in_range(inbox_unseen(f->inbox, "user0"), 1, 100);
    assert_int_equal(inbox_unseen(f->inbox, user), 100); /* the newest are there */
}

static void test_an_own_cancel_is_no_news(void **state)
{
    struct fixture *f = *state;

    assert_false(tell(f, "bob", INBOX_CANCELLED, "uid-1", NULL));
    assert_true(tell(f, "alice", INBOX_CANCELLED, "uid-1", NULL));
}

static void test_work_of_nobody_tells_nobody(void **state)
{
    struct fixture *f = *state;

    assert_false(tell(f, NULL, INBOX_FAILED, "uid-1", NULL));
    assert_false(tell(f, "", INBOX_FAILED, "uid-1", NULL));
    assert_false(inbox_tell(NULL, &(struct inbox_item){.user = "alice"}));
}

static void test_a_long_text_is_cut_between_characters(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    char text[INBOX_TEXT_MAX + 10];

    memset(text, 'x', sizeof(text));
    memcpy(text + INBOX_TEXT_MAX - 1, "\xc3\xbc", 2); /* ü over the limit */
    text[sizeof(text) - 1] = '\0';
    inbox_tell(f->inbox, &(struct inbox_item){.user = "alice", .kind = INBOX_NOTICE, .text = text});
    assert_int_equal(json_str(json_at(inbox_list(f->inbox, "alice", false, 0, &arena), "items.0.text")).len,
                     INBOX_TEXT_MAX - 1);
}

static void on_news(void *arg, const char *user)
{
    assert_string_equal(user, "alice");
    ((struct fixture *)arg)->news++;
}

static void test_watchers_hear_once_it_is_durable(void **state)
{
    struct fixture *f = *state;
    struct inbox_watch *watch = inbox_watch(f->inbox, on_news, f);

    tell(f, "alice", INBOX_FAILED, "uid-1", NULL);
    assert_int_equal(f->news, 0);
    settle(f);
    assert_int_equal(f->news, 1);
    inbox_unwatch(watch);
    tell(f, "alice", INBOX_FAILED, "uid-2", NULL);
    settle(f);
    assert_int_equal(f->news, 1);
}

static void test_what_a_crash_took_back_is_told_again_and_what_it_left_is_not(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct store_disk *disk = store_disk_new();
    struct fixture f = {.loop = loop_new()};
    struct err err = {0};

    (void)state;
    assert_int_equal(store_open_disk(disk, f.loop, &f.store, &err), 0);
    f.inbox = inbox_new(f.store);
    inbox_watch(f.inbox, on_news, &f);
    assert_true(tell(&f, "alice", INBOX_FAILED, "uid-1", NULL));
    settle(&f);
    assert_true(tell(&f, "alice", INBOX_FAILED, "uid-2", NULL));
    store_kill(f.store);
    assert_int_equal(f.news, 1);
    inbox_free(f.inbox);
    assert_int_equal(store_open_disk(disk, f.loop, &f.store, &err), 0);
    f.inbox = inbox_new(f.store);
    assert_false(tell(&f, "alice", INBOX_FAILED, "uid-1", NULL));
    assert_true(tell(&f, "alice", INBOX_FAILED, "uid-2", NULL));
    assert_int_equal(json_len(list(&f, "alice", false, 0, &arena)), 2);
    store_close(f.store);
    inbox_free(f.inbox);
    store_disk_free(disk);
    loop_free(f.loop);
}

static void test_kinds_have_names_that_are_found(void **state)
{
    enum inbox_kind kind;

    (void)state;
    for (int i = 0; i < INBOX_KINDS; i++) {
        assert_true(inbox_kind_find(str_from(inbox_kind_name((enum inbox_kind)i)), &kind));
        assert_int_equal(kind, i);
        assert_non_null(inbox_kind_title((enum inbox_kind)i));
    }
    assert_false(inbox_kind_find(STR("nothing"), &kind));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_item_says_what_was_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_same_thing_told_twice_is_one_item, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_same_thing_told_after_a_restart_is_one_item, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_newest_comes_first_also_after_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_user_has_an_own_box, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_seen_is_not_new, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_box_loses_its_oldest, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_boxes_together_have_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_own_cancel_is_no_news, setup, teardown),
        cmocka_unit_test_setup_teardown(test_work_of_nobody_tells_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_text_is_cut_between_characters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_watchers_hear_once_it_is_durable, setup, teardown),
        cmocka_unit_test(test_what_a_crash_took_back_is_told_again_and_what_it_left_is_not),
        cmocka_unit_test(test_kinds_have_names_that_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
