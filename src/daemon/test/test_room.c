/* How many bytes the objects of a namespace may have. */
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "daemon/room.h"
#include "objects/names.h"

#define LIMIT ((size_t)1 << 20)
#define LARGE 300000 /* bytes: three of them fit */

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct room *room;
    struct arena arena;
    struct failure failure;
    struct identity root, ann;
};

static int create(struct fixture *f, const struct identity *who, int kind, const char *ns, const char *text,
                  const struct object **ret)
{
    struct write write = {.who = who, .manager = "test", .arena = &f->arena, .failure = &f->failure};
    struct json *doc = NULL;
    struct written written;
    struct err err = {0};

    f->failure = (struct failure){0};
    assert_int_equal(yaml_parse_one(str_from(text), &f->arena, &doc, &err), 0);
    if (registry_create(f->registry, &write, kind_by_id(kind), ns, doc, &written) < 0)
        return -1;
    *ret = written.object;
    return 0;
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    const struct object *space;
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->registry = registry_new(f->store);
    f->room = room_new(f->registry, LIMIT);
    f->root = (struct identity){
        .user = "system:admin", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};
    f->ann = (struct identity){.user = "ann", .groups = {"system:authenticated"}, .group_count = 1};
    assert_int_equal(create(f, &f->root, KIND_NAMESPACE, "", "metadata: {name: ann}", &space), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    registry_free(f->registry);
    room_free(f->room);
    store_close(f->store);
    loop_free(f->loop);
    arena_done(&f->arena);
    free(f);
    return 0;
}

static const char *large(struct fixture *f)
{
    char *text = arena_alloc(&f->arena, LARGE + 1);

    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    return text;
}

/* A Job whose template is large, and as many pods as may be made for it, of `wanted`. */
static size_t pods_of_a_job(struct fixture *f, const struct identity *who, size_t wanted)
{
    const struct object *job = NULL, *pod;

    assert_int_equal(
        create(f, who, KIND_JOB, "ann",
               arena_printf(&f->arena,
                            "{metadata: {name: big}, spec: {template: {spec: {restartPolicy: Never, "
                            "containers: [{name: c, image: i, env: [{name: A, value: %s}]}]}}}}",
                            large(f)),
               &job),
        0);
    for (size_t i = 0; i < wanted; i++)
        if (create(f, NULL, KIND_POD, "ann",
                   arena_printf(&f->arena,
                                "{metadata: {name: p%zu, ownerReferences: [{apiVersion: batch/v1, kind: Job, "
                                "name: big, uid: %s, controller: true}]}, spec: {containers: [{name: c, "
                                "image: i, env: [{name: A, value: %s}]}]}}",
                                i, job->uid, large(f)),
                   &pod) < 0)
            return i;
    return wanted;
}

static void test_the_pods_that_berth_makes_for_somebody_count(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(pods_of_a_job(f, &f->ann, 10), 2);
    assert_int_equal(f->failure.code, 403);
    assert_non_null(strstr(f->failure.message, "the objects of namespace \"ann\" have"));
}

static void test_those_of_the_machines_admin_do_not(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(pods_of_a_job(f, &f->root, 10), 10);
}

static void test_what_somebody_writes_counts_and_what_went_does_not(void **state)
{
    struct fixture *f = *state;
    const char *text = arena_printf(&f->arena, "{metadata: {generateName: m-}, data: {a: %s}}", large(f));
    struct write write = {.arena = &f->arena, .failure = &f->failure};
    const struct object *map = NULL;
    struct written written;

    for (int i = 0; i < 3; i++)
        assert_int_equal(create(f, &f->ann, KIND_CONFIG_MAP, "ann", text, &map), 0);
    assert_int_equal(create(f, &f->ann, KIND_CONFIG_MAP, "ann", text, &map), -1);
    assert_int_equal(f->failure.code, 403);
    assert_int_equal(registry_delete(f->registry, &write, map->kind, "ann", map->name,
                                     &(struct delete_options){0}, &written),
                     0);
    assert_int_equal(create(f, &f->ann, KIND_CONFIG_MAP, "ann", text, &map), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_the_pods_that_berth_makes_for_somebody_count),
        T(test_those_of_the_machines_admin_do_not),
        T(test_what_somebody_writes_counts_and_what_went_does_not),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
