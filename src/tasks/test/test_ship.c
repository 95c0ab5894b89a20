/* The templates that come with Berth, over its versions. */
#include "base/mem.h"
#include "base/test/test.h"
#include "tasks/internal.h"

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct arena arena;
    struct failure failure;
};

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->registry = registry_new(f->store);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    registry_free(f->registry);
    store_close(f->store);
    loop_free(f->loop);
    arena_done(&f->arena);
    free(f);
    return 0;
}

static void make(struct fixture *f, const struct identity *who, const char *text)
{
    struct write write = {.who = who, .manager = "test", .arena = &f->arena, .failure = &f->failure};
    struct json *doc = json_new_object(&f->arena);
    struct written written;

    json_set_string(&f->arena, json_set_object(&f->arena, doc, "metadata"), "name", "countdown-task");
    json_set_string(&f->arena, json_set_object(&f->arena, doc, "spec"), "template", text);
    assert_int_equal(registry_create(f->registry, &write, kind_by_id(KIND_TASK_TEMPLATE), "", doc, &written),
                     0);
}

/* A start of this version after one of the first. */
static const char *text_after_an_upgrade(struct fixture *f)
{
    struct tasks *tasks = tasks_new(&(struct tasks_config){.loop = f->loop, .registry = f->registry});
    struct err err = {0};

    store_value_set(f->store, SHIPPED_TABLE, "countdown-task", STR("shipped"));
    assert_int_equal(tasks_ship(tasks, &err), 0);
    tasks_free(tasks);
    loop_turn(f->loop, 0, NULL);
    return json_at_string(
        object_json(store_get(f->store, KIND_TASK_TEMPLATE, "", "countdown-task"), &f->arena),
        "spec.template");
}

static void test_an_untouched_template_is_renewed(void **state)
{
    struct fixture *f = *state;

    make(f, NULL, "of an earlier version");
    assert_non_null(strstr(text_after_an_upgrade(f), "kind: Job"));
}

static void test_what_an_admin_made_in_its_place_stays(void **state)
{
    struct fixture *f = *state;
    const struct identity root = {
        .user = "system:admin", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};

    make(f, &root, "the lab's own");
    assert_string_equal(text_after_an_upgrade(f), "the lab's own");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_untouched_template_is_renewed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_an_admin_made_in_its_place_stays, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
