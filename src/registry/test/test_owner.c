/* Whose work is it? By who asks, not by what they say. */
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "objects/names.h"
#include "registry/registry.h"

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct arena arena;
    struct failure failure;
    struct identity root, prof, ann;
};

static struct write write_as(struct fixture *f, const struct identity *who)
{
    f->failure = (struct failure){0};
    return (struct write){.who = who, .manager = "test", .arena = &f->arena, .failure = &f->failure};
}

static struct json *yaml(struct fixture *f, const char *text)
{
    struct err err = {0};
    struct json *doc = NULL;

    if (yaml_parse_one(str_from(text), &f->arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    return doc;
}

static int create(struct fixture *f, const struct identity *who, int kind, const char *text,
                  const struct object **ret)
{
    struct write write = write_as(f, who);
    struct written written;

    if (registry_create(f->registry, &write, kind_by_id(kind), kind == KIND_NAMESPACE ? "" : "lab",
                        yaml(f, text), &written) < 0)
        return -1;
    *ret = written.object;
    return 0;
}

static const struct object *must_create(struct fixture *f, const struct identity *who, int kind,
                                        const char *text)
{
    const struct object *object;

    if (create(f, who, kind, text, &object) < 0)
        fail_msg("%s", f->failure.message);
    return object;
}

static int patch(struct fixture *f, const struct identity *who, const struct object *object, const char *text,
                 const struct object **ret)
{
    struct write write = write_as(f, who);
    struct written written;

    if (registry_patch(f->registry, &write, object->kind, object->ns, object->name, PATCH_MERGE,
                       yaml(f, text), &written) < 0)
        return -1;
    *ret = written.object;
    return 0;
}

static const char *label_of(struct fixture *f, const struct object *object)
{
    return label_get(object_json(object, &f->arena), USER_LABEL);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->registry = registry_new(f->store);
    f->root = (struct identity){
        .user = "system:admin", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};
    f->prof = (struct identity){
        .user = "prof", .groups = {"berth:admins", "system:authenticated"}, .group_count = 2};
    f->ann = (struct identity){.user = "ann", .groups = {"system:authenticated"}, .group_count = 1};
    must_create(f, &f->root, KIND_NAMESPACE, "metadata: {name: lab}");
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

#define POD(meta) "{metadata: {name: x" meta "}, spec: {containers: [{name: c, image: i}]}}"
#define JOB(meta, template)                                                                                  \
    "{metadata: {name: x" meta                                                                               \
    "}, spec: {template: {metadata: {" template "}, "                                                        \
                                                "spec: {restartPolicy: Never, containers: [{name: c, "       \
                                                "image: i}]}}}}"
#define TRAIN(meta) "{metadata: {name: x" meta "}, spec: {image: i, command: [c]}}"

static void test_label_is_the_makers_name(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(label_of(f, must_create(f, &f->ann, KIND_POD, POD(""))), "ann");
    assert_string_equal(label_of(f, must_create(f, &f->ann, KIND_JOB, JOB("", ""))), "ann");
    assert_string_equal(label_of(f, must_create(f, &f->ann, KIND_TRAINING_JOB, TRAIN(""))), "ann");
    assert_string_equal(json_at_string(object_json(store_get(f->store, KIND_JOB, "lab", "x"), &f->arena),
                                       "spec.template.metadata.labels.user"),
                        "ann");
}

static void test_ones_own_name_may_be_given(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(label_of(f, must_create(f, &f->ann, KIND_POD, POD(", labels: {user: ann}"))), "ann");
}

static void test_another_name_is_refused(void **state)
{
    static const struct {
        int kind;
        const char *text;
    } rows[] = {
        {KIND_POD, POD(", labels: {user: ghost}")},
        {KIND_JOB, JOB(", labels: {user: bob}", "")},
        {KIND_JOB, JOB("", "labels: {user: bob}")},
        {KIND_TRAINING_JOB, TRAIN(", labels: {user: bob}")},
    };
    struct fixture *f = *state;
    const struct object *made;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(create(f, &f->ann, rows[i].kind, rows[i].text, &made), -1);
        assert_int_equal(f->failure.code, 403);
        assert_non_null(strstr(f->failure.message, "label \"user\" must be \"ann\", not \""));
    }
    assert_int_equal(create(f, &f->ann, KIND_POD, POD(", labels: {user: ghost}"), &made), -1);
    assert_string_equal(f->failure.message,
                        "pods \"x\" is forbidden: label \"user\" must be \"ann\", not \"ghost\": Berth "
                        "writes the name of whoever makes the object, and only admins may give it to "
                        "somebody else");
}

static void test_other_kinds_may_be_labelled_as_one_likes(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(
        label_of(f, must_create(f, &f->ann, KIND_CONFIG_MAP, "metadata: {name: a, labels: {user: anybody}}")),
        "anybody");
}

static void test_admins_may_give_work_to_somebody(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->prof, KIND_POD, POD(", labels: {user: ann}"));
    const struct object *job = must_create(f, &f->root, KIND_JOB, JOB("", "labels: {user: ann}"));

    assert_string_equal(work_user(object_json(pod, &f->arena)), "ann");
    assert_string_equal(work_rights(object_json(pod, &f->arena)), "ann"); /* it runs as ann */
    assert_string_equal(label_of(f, job), "ann");
    assert_string_equal(work_rights(object_json(job, &f->arena)), "ann");
}

static void test_what_is_the_machines_admins_is_given_by_it_alone(void **state)
{
    struct fixture *f = *state;
    const struct object *pod;

    assert_int_equal(create(f, &f->prof, KIND_POD, POD(", labels: {user: root}"), &pod), -1);
    assert_int_equal(f->failure.code, 403);
    assert_int_equal(create(f, &f->root, KIND_POD, POD(", labels: {user: root}"), &pod), 0);
    assert_string_equal(work_rights(object_json(pod, &f->arena)), "root");
}

static void test_a_relabel_changes_no_rights(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->root, KIND_POD, POD(""));

    assert_int_equal(patch(f, &f->root, pod, "metadata: {labels: {user: ann}}", &pod), 0);
    assert_string_equal(work_user(object_json(pod, &f->arena)), "ann");
    assert_string_equal(work_rights(object_json(pod, &f->arena)), "root");
}

static void test_what_an_admin_runs_again_has_the_rights_it_had(void **state)
{
    struct fixture *f = *state;
    struct write write = write_as(f, &f->ann);
    struct written written;

    write.by = &f->root;
    assert_int_equal(registry_create(f->registry, &write, kind_by_id(KIND_POD), "lab",
                                     yaml(f, POD(", labels: {user: bob}")), &written),
                     0);
    assert_string_equal(work_rights(object_json(written.object, &f->arena)), "ann");
}

static void test_work_of_the_machines_admin_is_roots_and_carries_no_label(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->root, KIND_POD, POD(""));

    assert_null(label_of(f, pod));
    assert_string_equal(work_user(object_json(pod, &f->arena)), "root");
}

static void test_names_that_no_label_can_hold_count_by_the_annotation(void **state)
{
    struct fixture *f = *state;
    struct identity far = {.user = "ann@lab.example", .groups = {"system:authenticated"}, .group_count = 1};
    const struct object *pod = must_create(f, &far, KIND_POD, POD(""));

    assert_null(label_of(f, pod));
    assert_string_equal(work_user(object_json(pod, &f->arena)), "ann@lab.example");
}

static void test_a_relabel_to_another_user_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->ann, KIND_POD, POD(""));

    assert_int_equal(patch(f, &f->ann, pod, "metadata: {labels: {user: bob}}", &pod), -1);
    assert_int_equal(f->failure.code, 403);
    assert_int_equal(patch(f, &f->prof, pod, "metadata: {labels: {user: bob}}", &pod), 0);
    assert_string_equal(label_of(f, pod), "bob");
}

static void test_a_relabel_by_way_of_status_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->ann, KIND_POD, POD(""));
    struct write write = write_as(f, &f->ann);
    struct written written;

    write.subresource = "status";
    assert_int_equal(registry_patch(f->registry, &write, pod->kind, "lab", "x", PATCH_MERGE,
                                    yaml(f, "metadata: {labels: {user: bob}}"), &written),
                     -1);
    assert_int_equal(f->failure.code, 403);
}

static void test_a_label_that_is_left_out_stays(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->ann, KIND_POD, POD(", labels: {a: b}"));

    assert_int_equal(patch(f, &f->ann, pod, "metadata: {labels: {user: null, a: c}}", &pod), 0);
    assert_string_equal(label_of(f, pod), "ann");
    assert_string_equal(label_get(object_json(pod, &f->arena), "a"), "c");
}

static void test_a_job_without_its_template_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct object *job = must_create(f, &f->ann, KIND_JOB, JOB("", ""));
    struct write write = write_as(f, &f->ann);
    struct written written;

    assert_int_equal(patch(f, &f->ann, job, "spec: {template: null}", &job), -1);
    assert_int_equal(f->failure.code, 422);
    assert_int_equal(registry_update(f->registry, &write, job->kind, "lab", "x",
                                     yaml(f, "{metadata: {name: x}, spec: {}}"), &written),
                     -1);
    assert_int_equal(f->failure.code, 422);
    assert_int_equal(patch(f, &f->ann, job, "spec: null", &job), -1);
    assert_int_equal(f->failure.code, 422);
}

static void test_what_an_admin_gave_away_stays_given(void **state)
{
    struct fixture *f = *state;
    const struct object *pod = must_create(f, &f->ann, KIND_POD, POD(""));

    assert_int_equal(patch(f, &f->root, pod, "metadata: {labels: {user: bob}}", &pod), 0);
    assert_int_equal(patch(f, &f->ann, pod, "metadata: {labels: {a: b}}", &pod), 0);
    assert_string_equal(work_user(object_json(pod, &f->arena)), "bob");
    assert_int_equal(patch(f, &f->ann, pod, "metadata: {labels: {user: cara}}", &pod), -1);
    assert_int_equal(f->failure.code, 403);
}

static void test_what_a_controller_makes_is_whose_its_owner_is(void **state)
{
    struct fixture *f = *state;
    const struct object *job = must_create(f, &f->ann, KIND_TRAINING_JOB, TRAIN(""));
    const char *text =
        arena_printf(&f->arena,
                     "{metadata: {name: p, labels: {user: ghost}, ownerReferences: [{apiVersion: "
                     "berth.dev/v1, kind: TrainingJob, name: x, uid: %s, controller: true}]}, "
                     "spec: {containers: [{name: c, image: i}]}}",
                     job->uid);
    const struct object *pod = must_create(f, NULL, KIND_POD, text);

    assert_string_equal(label_of(f, pod), "ann");
    assert_string_equal(work_owner(object_json(pod, &f->arena)), "ann");
}

static void test_work_made_for_what_an_admin_gave_away_is_theirs(void **state)
{
    struct fixture *f = *state;
    const struct object *job = must_create(f, &f->root, KIND_TRAINING_JOB, TRAIN(", labels: {user: ann}"));
    const char *text = arena_printf(&f->arena,
                                    "{metadata: {name: p, ownerReferences: [{apiVersion: berth.dev/v1, kind: "
                                    "TrainingJob, name: x, uid: %s, controller: true}]}, "
                                    "spec: {containers: [{name: c, image: i}]}}",
                                    job->uid);
    const struct object *pod = must_create(f, NULL, KIND_POD, text);

    assert_string_equal(label_of(f, pod), "ann");
    assert_string_equal(work_rights(object_json(pod, &f->arena)), "ann");
}

static void test_priority_that_is_no_number_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct object *pod;

    assert_int_equal(create(f, &f->ann, KIND_POD, POD(", labels: {priority: high}"), &pod), -1);
    assert_int_equal(f->failure.code, 422);
    assert_string_equal(f->failure.message,
                        "Pod \"x\" is invalid: metadata.labels.priority: Invalid value: \"high\": must be a "
                        "whole number from -1000000 to 1000000; '0-3' means -3");
    assert_int_equal(create(f, &f->root, KIND_JOB, JOB("", "labels: {priority: high}"), &pod), -1);
    assert_int_equal(f->failure.code, 422);
    assert_int_equal(create(f, &f->ann, KIND_POD, POD(", labels: {priority: 0-3}"), &pod), 0);
    assert_int_equal(patch(f, &f->root, pod, "metadata: {labels: {priority: abc}}", &pod), -1);
    assert_int_equal(f->failure.code, 422);
    assert_int_equal(patch(f, &f->ann, pod, "metadata: {labels: {priority: '7'}}", &pod), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_label_is_the_makers_name),
        T(test_ones_own_name_may_be_given),
        T(test_another_name_is_refused),
        T(test_other_kinds_may_be_labelled_as_one_likes),
        T(test_admins_may_give_work_to_somebody),
        T(test_what_is_the_machines_admins_is_given_by_it_alone),
        T(test_a_relabel_changes_no_rights),
        T(test_what_an_admin_runs_again_has_the_rights_it_had),
        T(test_work_of_the_machines_admin_is_roots_and_carries_no_label),
        T(test_names_that_no_label_can_hold_count_by_the_annotation),
        T(test_a_relabel_to_another_user_is_refused),
        T(test_a_relabel_by_way_of_status_is_refused),
        T(test_a_label_that_is_left_out_stays),
        T(test_a_job_without_its_template_is_refused),
        T(test_what_an_admin_gave_away_stays_given),
        T(test_what_a_controller_makes_is_whose_its_owner_is),
        T(test_work_made_for_what_an_admin_gave_away_is_theirs),
        T(test_priority_that_is_no_number_is_refused),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
