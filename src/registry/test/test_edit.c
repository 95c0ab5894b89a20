/* Which edits of Berth's own are checked, and which are trusted: the table of registry.h. */
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "registry/registry.h"

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct arena arena;
    struct failure failure;
    const struct object *pod;
};

static const struct identity admin = {
    .user = "system:admin", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};

static struct json *yaml(struct fixture *f, const char *text)
{
    struct err err = {0};
    struct json *doc = NULL;

    if (yaml_parse_one(str_from(text), &f->arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    return doc;
}

static struct write write_of(struct fixture *f, const struct identity *who)
{
    f->failure = (struct failure){0};
    return (struct write){.who = who, .arena = &f->arena, .failure = &f->failure};
}

static const struct object *create(struct fixture *f, const struct identity *who, int kind, const char *ns,
                                   const char *text)
{
    struct write write = write_of(f, who);
    struct written written;

    if (registry_create(f->registry, &write, kind_by_id(kind), ns, yaml(f, text), &written) < 0)
        return NULL;
    return written.object;
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->registry = registry_new(f->store);
    assert_non_null(create(f, &admin, KIND_NAMESPACE, "", "metadata: {name: default}"));
    f->pod = create(f, &admin, KIND_POD, "default",
                    "{metadata: {name: x}, spec: {containers: [{name: c, image: i}]}}");
    assert_non_null(f->pod);
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

/* What stands at a path becomes the value. */
struct change {
    const char *parent, *key;
    struct json *value;
};

static bool set(void *arg, struct arena *arena, struct json *doc)
{
    const struct change *change = arg;

    json_set(arena, *change->parent ? json_at(doc, change->parent) : doc, change->key, *change->value);
    return true;
}

static int edit(struct fixture *f, const char *parent, const char *key, const char *value)
{
    struct write write = write_of(f, NULL);
    struct change change = {parent, key, yaml(f, value)};
    struct written written;

    return registry_edit_object(f->registry, &write, f->pod, set, &change, &written);
}

static void test_an_edit_that_makes_content_invalid_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(edit(f, "spec", "containers", "[]"), -1);
    assert_int_equal(f->failure.code, 422);
    assert_string_equal(f->failure.message, "Pod \"x\" is invalid: spec.containers: Required value");
    assert_int_equal(edit(f, "spec", "restartPolicy", "Sometimes"), -1);
    assert_int_equal(f->failure.code, 422);
}

static void test_an_edit_with_a_wrong_type_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(edit(f, "spec", "terminationGracePeriodSeconds", "soon"), -1);
    assert_int_equal(f->failure.code, 400);
}

static void test_an_edit_with_bad_labels_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(edit(f, "metadata", "labels", "{a: 'not a label!'}"), -1);
    assert_int_equal(f->failure.code, 422);
}

static void test_an_edit_may_set_what_others_cannot_change(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(edit(f, "spec", "nodeName", "n1"), 0);
    assert_string_equal(json_at_string(object_json(store_get(f->store, KIND_POD, "default", "x"), &f->arena),
                                       "spec.nodeName"),
                        "n1");
}

static void test_an_edit_of_status_is_trusted(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(edit(f, "", "status", "{phase: Running, reason: anything}"), 0);
}

static void test_unknown_fields_stay_in_an_edit(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(edit(f, "spec", "ofTheFuture", "{a: 1}"), 0);
    assert_int_equal(edit(f, "spec", "nodeName", "n1"), 0);
    assert_non_null(
        json_at(object_json(store_get(f->store, KIND_POD, "default", "x"), &f->arena), "spec.ofTheFuture.a"));
}

static void test_a_create_of_berths_own_is_checked(void **state)
{
    struct fixture *f = *state;

    assert_null(create(f, NULL, KIND_POD, "default", "{metadata: {name: other}, spec: {containers: []}}"));
    assert_int_equal(f->failure.code, 422);
    assert_null(create(f, NULL, KIND_POD, "default", "{metadata: {name: other}, spec: {containers: 3}}"));
    assert_int_equal(f->failure.code, 400);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_an_edit_that_makes_content_invalid_is_refused),
        T(test_an_edit_with_a_wrong_type_is_refused),
        T(test_an_edit_with_bad_labels_is_refused),
        T(test_an_edit_may_set_what_others_cannot_change),
        T(test_an_edit_of_status_is_trusted),
        T(test_unknown_fields_stay_in_an_edit),
        T(test_a_create_of_berths_own_is_checked),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
