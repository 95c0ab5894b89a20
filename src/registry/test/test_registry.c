#include "base/clock.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "registry/access.h"

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct arena arena;
    struct failure failure;
    struct identity admin, ann;
};

static struct write write_as(struct fixture *f, const struct identity *who)
{
    f->failure = (struct failure){0};
    return (struct write){
        .who = who,
        .manager = "test",
        .arena = &f->arena,
        .failure = &f->failure,
        .validation = FIELDS_STRICT,
        .now = 1700000000 * NSEC_PER_SEC,
        .warnings = json_new_array(&f->arena),
    };
}

static struct json *yaml(struct fixture *f, const char *text)
{
    struct err err = {0};
    struct json *doc = NULL;

    if (yaml_parse_one(str_from(text), &f->arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    return doc;
}

static int create(struct fixture *f, int kind, const char *ns, const char *text, struct written *ret)
{
    struct write write = write_as(f, &f->admin);

    return registry_create(f->registry, &write, kind_by_id(kind), ns, yaml(f, text), ret);
}

static const struct object *must_create(struct fixture *f, int kind, const char *ns, const char *text)
{
    struct written written;

    if (create(f, kind, ns, text, &written) < 0)
        fail_msg("%s", f->failure.message);
    return written.object;
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->registry = registry_new(f->store);
    f->admin = (struct identity){
        .user = "root", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};
    f->ann = (struct identity){.user = "ann", .groups = {"system:authenticated"}, .group_count = 1};
    must_create(f, KIND_NAMESPACE, "", "metadata: {name: default}");
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

static void test_create_gives_uid_time_and_revision(void **state)
{
    struct fixture *f = *state;
    const struct object *object =
        must_create(f, KIND_CONFIG_MAP, "default", "{metadata: {name: a}, data: {x: '1'}}");
    const struct json *doc = object_json(object, &f->arena);

    assert_int_equal(strlen(object->uid), 36);
    assert_true(object->rv > 1);
    assert_string_equal(json_at_string(doc, "metadata.creationTimestamp"), "2023-11-14T22:13:20Z");
    assert_string_equal(json_at_string(doc, "metadata.namespace"), "default");
    assert_string_equal(json_at_string(doc, "data.x"), "1");
    assert_string_equal(json_at_string(doc, "metadata.managedFields.0.manager"), "test");
}

static void test_a_name_is_taken_once(void **state)
{
    struct fixture *f = *state;
    struct written written;

    must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a}");
    assert_int_equal(create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a}", &written), -1);
    assert_int_equal(f->failure.code, 409);
    assert_string_equal(f->failure.message, "configmaps \"a\" already exists");
}

static void test_a_namespace_must_be_there(void **state)
{
    struct fixture *f = *state;
    struct written written;

    assert_int_equal(create(f, KIND_CONFIG_MAP, "nowhere", "metadata: {name: a}", &written), -1);
    assert_string_equal(f->failure.message, "namespaces \"nowhere\" not found");
    assert_int_equal(create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a, namespace: x}", &written),
                     -1);
    assert_int_equal(f->failure.code, 400);
}

static void test_unknown_fields_are_refused_warned_of_or_dropped(void **state)
{
    struct fixture *f = *state;
    struct write write = write_as(f, &f->admin);
    const struct kind *kind = kind_by_id(KIND_CONFIG_MAP);
    struct written written;

    assert_int_equal(registry_create(f->registry, &write, kind, "default",
                                     yaml(f, "{metadata: {name: a}, dta: {}}"), &written),
                     -1);
    assert_string_equal(f->failure.message, "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "
                                            "strict decoding error: unknown field \"dta\"");
    write = write_as(f, &f->admin);
    write.validation = FIELDS_WARN;
    assert_int_equal(registry_create(f->registry, &write, kind, "default",
                                     yaml(f, "{metadata: {name: a}, dta: {}}"), &written),
                     0);
    assert_string_equal(json_string(json_item(write.warnings, 0)), "unknown field \"dta\"");
    assert_null(json_get(object_json(written.object, &f->arena), "dta"));
}

static void test_dry_run_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    struct write write = write_as(f, &f->admin);
    int64_t before = store_revision(f->store);
    CLEANUP(written_done) struct written written = {0};

    write.dry_run = true;
    assert_int_equal(registry_create(f->registry, &write, kind_by_id(KIND_CONFIG_MAP), "default",
                                     yaml(f, "metadata: {name: a}"), &written),
                     0);
    assert_string_equal(written.object->name, "a");
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "default", "a"));
    assert_int_equal(store_revision(f->store), before);
}

static void test_update_with_a_stale_version_conflicts(void **state)
{
    struct fixture *f = *state;
    const struct object *made = must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a}");
    struct json *mine = object_json(made, &f->arena), *theirs = object_json(made, &f->arena);
    struct write write = write_as(f, &f->admin);
    struct written written;

    json_set_string(&f->arena, json_set_object(&f->arena, mine, "data"), "x", "1");
    assert_int_equal(registry_update(f->registry, &write, made->kind, "default", "a", mine, &written), 0);
    json_set_string(&f->arena, json_set_object(&f->arena, theirs, "data"), "x", "2");
    assert_int_equal(
        registry_update(f->registry, &write, written.object->kind, "default", "a", theirs, &written), -1);
    assert_int_equal(f->failure.code, 409);
    assert_string_equal(f->failure.reason, "Conflict");
}

static void test_an_update_that_changes_nothing_has_no_revision(void **state)
{
    struct fixture *f = *state;
    const struct object *made =
        must_create(f, KIND_CONFIG_MAP, "default", "{metadata: {name: a}, data: {x: '1'}}");
    struct write write = write_as(f, &f->admin);
    struct written written;
    int64_t rv = made->rv;

    assert_int_equal(registry_update(f->registry, &write, made->kind, "default", "a",
                                     object_json(made, &f->arena), &written),
                     0);
    assert_int_equal(written.object->rv, rv);
}

static void test_status_is_written_through_status_alone(void **state)
{
    struct fixture *f = *state;
    const char *text = "{metadata: {name: q}, spec: {hard: {pods: '5'}}, status: {used: {pods: '3'}}}";
    const struct object *made = must_create(f, KIND_RESOURCE_QUOTA, "default", text);
    struct json *doc = object_json(made, &f->arena);
    struct write write = write_as(f, &f->admin);
    struct written written;

    assert_null(json_at(doc, "status.used"));
    json_set_string(&f->arena, json_set_object(&f->arena, json_set_object(&f->arena, doc, "status"), "used"),
                    "pods", "1");
    json_set_string(&f->arena, json_at(doc, "spec.hard"), "pods", "9");
    write.subresource = "status";
    assert_int_equal(registry_update(f->registry, &write, made->kind, "default", "q", doc, &written), 0);
    doc = object_json(written.object, &f->arena);
    assert_string_equal(json_at_string(doc, "status.used.pods"), "1");
    assert_string_equal(json_at_string(doc, "spec.hard.pods"), "5");
}

static void test_a_finalizer_holds_an_object_until_it_is_gone(void **state)
{
    struct fixture *f = *state;
    const struct object *made =
        must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a, finalizers: [x.io/hold]}");
    struct write write = write_as(f, &f->admin);
    struct delete_options options = {0};
    struct written written;
    struct json *doc;

    assert_int_equal(registry_delete(f->registry, &write, made->kind, "default", "a", &options, &written), 0);
    assert_false(written.deleted);
    assert_true(written.object->deleting);
    doc = object_json(written.object, &f->arena);
    json_remove(json_get(doc, "metadata"), "finalizers");
    assert_int_equal(
        registry_update(f->registry, &write, kind_by_id(KIND_CONFIG_MAP), "default", "a", doc, &written), 0);
    assert_true(written.deleted);
    assert_null(store_get(f->store, KIND_CONFIG_MAP, "default", "a"));
}

/* Who says later what is to become of the dependents is heard. */
static void test_a_second_delete_may_choose_otherwise(void **state)
{
    static const struct {
        enum propagation asked;
        const char *finalizers;
    } steps[] = {
        {PROPAGATE_FOREGROUND, "[\"x.io/hold\",\"foregroundDeletion\"]"},
        {PROPAGATE_ORPHAN, "[\"x.io/hold\",\"orphan\"]"},
        {PROPAGATE_FOREGROUND, "[\"x.io/hold\",\"foregroundDeletion\"]"},
        {PROPAGATE_BACKGROUND, "[\"x.io/hold\"]"},
    };
    struct fixture *f = *state;
    struct write write = write_as(f, &f->admin);
    struct written written;

    must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a, finalizers: [x.io/hold]}");
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct delete_options options = {.propagation = steps[i].asked};
        CLEANUP(buf_done) struct buf text = {0};

        assert_int_equal(registry_delete(f->registry, &write, kind_by_id(KIND_CONFIG_MAP), "default", "a",
                                         &options, &written),
                         0);
        json_write(&text,
                   json_at(object_json(store_get(f->store, KIND_CONFIG_MAP, "default", "a"), &f->arena),
                           "metadata.finalizers"));
        assert_string_equal(text.data, steps[i].finalizers);
    }
}

static void test_delete_checks_its_preconditions(void **state)
{
    struct fixture *f = *state;
    struct write write = write_as(f, &f->admin);
    struct delete_options options = {.uid = "other"};
    struct written written;

    must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a}");
    assert_int_equal(
        registry_delete(f->registry, &write, kind_by_id(KIND_CONFIG_MAP), "default", "a", &options, &written),
        -1);
    assert_int_equal(f->failure.code, 409);
}

static void test_a_bound_pod_gets_its_grace(void **state)
{
    struct fixture *f = *state;
    struct write write = write_as(f, &f->admin);
    struct delete_options options = {0};
    struct written written;

    must_create(f, KIND_POD, "default",
                "{metadata: {name: p}, spec: {nodeName: node-1, containers: [{name: c, image: 'x:1'}]}}");
    assert_int_equal(
        registry_delete(f->registry, &write, kind_by_id(KIND_POD), "default", "p", &options, &written), 0);
    assert_false(written.deleted);
    assert_int_equal(
        json_int(json_at(object_json(written.object, &f->arena), "metadata.deletionGracePeriodSeconds"), -1),
        30);
    options = (struct delete_options){.has_grace = true};
    assert_int_equal(
        registry_delete(f->registry, &write, kind_by_id(KIND_POD), "default", "p", &options, &written), 0);
    assert_true(written.deleted);
}

static void test_the_default_namespace_stays(void **state)
{
    struct fixture *f = *state;
    struct write write = write_as(f, &f->admin);
    struct delete_options options = {0};
    struct written written;

    assert_int_equal(
        registry_delete(f->registry, &write, kind_by_id(KIND_NAMESPACE), "", "default", &options, &written),
        -1);
    assert_string_equal(f->failure.message,
                        "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

static void test_repeated_events_count_up(void **state)
{
    struct fixture *f = *state;
    const struct object *made = must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a}");
    struct store_slice events;

    for (int i = 0; i < 3; i++)
        registry_event(f->registry, made, "Normal", "Tested", "said %d times", 3);
    events = store_list(f->store, KIND_EVENT, "default");
    assert_int_equal(events.len, 1);
    assert_int_equal(json_int(json_get(object_json(events.v[0], &f->arena), "count"), 0), 3);
}

static void test_events_of_an_object_are_listed_in_the_order_in_which_they_came(void **state)
{
    static const char *const reasons[] = {"Scheduled", "Pulled", "Created", "Started", "Killing"};
    struct fixture *f = *state;
    const struct object *made = must_create(f, KIND_CONFIG_MAP, "default", "metadata: {name: a}");
    struct store_slice events;

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        usleep(2); /* names have microseconds */
        registry_event(f->registry, made, "Normal", reasons[i], "said");
    }
    events = store_list(f->store, KIND_EVENT, "default");
    assert_int_equal(events.len, ARRAY_LEN(reasons));
    for (size_t i = 0; i < events.len; i++)
        assert_string_equal(json_get_string(object_json(events.v[i], &f->arena), "reason"), reasons[i]);
}

static bool allowed(struct fixture *f, const struct identity *who, const char *verb, int kind, const char *ns)
{
    struct access access = {.verb = verb, .kind = kind_by_id(kind), .subresource = "", .ns = ns, .name = ""};

    return access_allowed(f->registry, who, &access);
}

static void test_users_have_their_own_namespace(void **state)
{
    struct fixture *f = *state;

    assert_true(allowed(f, &f->ann, "create", KIND_POD, "ann"));
    assert_false(allowed(f, &f->ann, "create", KIND_POD, "default"));
    assert_false(allowed(f, &f->ann, "list", KIND_POD, ""));
    assert_true(allowed(f, &f->ann, "list", KIND_NODE, ""));
    assert_false(allowed(f, &f->ann, "create", KIND_RESOURCE_QUOTA, "ann"));
    assert_false(allowed(f, &f->ann, "create", KIND_TASK_TEMPLATE, ""));
    assert_true(allowed(f, &f->admin, "delete", KIND_NODE, ""));
}

static void test_members_work_in_a_shared_namespace(void **state)
{
    struct fixture *f = *state;
    struct access access = {
        .verb = "delete", .kind = kind_by_id(KIND_CONFIG_MAP), .subresource = "", .ns = "lab", .name = "a"};
    struct write write = write_as(f, &f->ann);
    struct identity bob = {.user = "bob", .groups = {"system:authenticated", "vision"}, .group_count = 2};
    struct written written;

    must_create(f, KIND_NAMESPACE, "",
                "metadata: {name: lab, annotations: {berth.dev/members: 'ann, @vision'}}");
    assert_true(allowed(f, &f->ann, "create", KIND_POD, "lab"));
    assert_true(allowed(f, &bob, "list", KIND_POD, "lab"));
    assert_int_equal(registry_create(f->registry, &write, kind_by_id(KIND_CONFIG_MAP), "lab",
                                     yaml(f, "metadata: {name: a}"), &written),
                     0);
    assert_true(access_allowed(f->registry, &f->ann, &access));
    assert_false(access_allowed(f->registry, &bob, &access));
}

static void test_an_admins_pod_in_ones_own_namespace_cannot_be_entered_or_changed(void **state)
{
    static const struct {
        const char *verb, *subresource;
        bool allowed;
    } rows[] = {{"get", "", true},         {"delete", "", true},     {"get", "log", true},
                {"create", "exec", false}, {"get", "attach", false}, {"get", "portforward", false},
                {"patch", "", false},      {"update", "", false},    {"patch", "ephemeralcontainers", false}};
    struct fixture *f = *state;
    struct access access = {.kind = kind_by_id(KIND_POD), .ns = "ann", .name = "roots"};
    struct write write = write_as(f, &f->ann);
    struct written written;

    must_create(f, KIND_NAMESPACE, "", "metadata: {name: ann}");
    must_create(f, KIND_POD, "ann", "{metadata: {name: roots}, spec: {containers: [{name: c, image: x}]}}");
    assert_int_equal(
        registry_create(f->registry, &write, kind_by_id(KIND_POD), "ann",
                        yaml(f, "{metadata: {name: anns}, spec: {containers: [{name: c, image: x}]}}"),
                        &written),
        0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        access.verb = rows[i].verb;
        access.subresource = rows[i].subresource;
        access.name = "roots";
        assert_int_equal(access_allowed(f->registry, &f->ann, &access), rows[i].allowed);
        access.name = "anns";
        assert_true(access_allowed(f->registry, &f->ann, &access));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_create_gives_uid_time_and_revision),
        TEST(test_a_name_is_taken_once),
        TEST(test_a_namespace_must_be_there),
        TEST(test_unknown_fields_are_refused_warned_of_or_dropped),
        TEST(test_dry_run_leaves_no_trace),
        TEST(test_update_with_a_stale_version_conflicts),
        TEST(test_an_update_that_changes_nothing_has_no_revision),
        TEST(test_status_is_written_through_status_alone),
        TEST(test_a_finalizer_holds_an_object_until_it_is_gone),
        TEST(test_a_second_delete_may_choose_otherwise),
        TEST(test_delete_checks_its_preconditions),
        TEST(test_a_bound_pod_gets_its_grace),
        TEST(test_the_default_namespace_stays),
        TEST(test_repeated_events_count_up),
        TEST(test_events_of_an_object_are_listed_in_the_order_in_which_they_came),
        TEST(test_users_have_their_own_namespace),
        TEST(test_members_work_in_a_shared_namespace),
        TEST(test_an_admins_pod_in_ones_own_namespace_cannot_be_entered_or_changed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
