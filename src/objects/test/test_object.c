#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/kind.h"
#include "objects/object.h"

#include <stdio.h>

static const char *field_value(const struct json *doc, const char *field, struct arena *arena)
{
    (void)arena;
    return streq(field, "special") ? (json_get(doc, "spec") ? "has spec" : "") : NULL;
}

static const char *const fields[] = {"spec.nodeName", "spec.hostNetwork", "spec.n",
                                     "special",       "spec.none",        NULL};
static const struct kind pod = {
    .group = "", .version = "v1", .name = "Pod", .fields = fields, .field_value = field_value};
static const struct kind job = {.group = "batch", .version = "v1", .name = "Job"};

static struct object *make(const struct kind *kind, struct arena *arena, const char *text)
{
    struct json *doc;
    struct err err = {0};

    if (json_parse(str_from(text), arena, &doc, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return object_new(kind, arena, doc);
}

#define META                                                                                                 \
    "\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u-1\",\"resourceVersion\":\"42\","           \
    "\"labels\":{\"z\":\"1\",\"a\":\"2\",\"m\":\"\"},\"ownerReferences\":[{\"kind\":\"Job\",\"uid\":\"o1\"}" \
    ","                                                                                                      \
    "{\"uid\":\"o2\",\"x\":[1,{\"y\":\"]\"}]}],\"managedFields\":[{\"fieldsV1\":{\"f:x\":{}}}]}"
#define SPEC "\"spec\":{\"nodeName\":\"w\\\"1\",\"hostNetwork\":true,\"n\":7}"

static void check_pod(const struct object *o)
{
    assert_string_equal(o->text, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"," META "," SPEC "}");
    assert_int_equal(o->text_len, strlen(o->text));
    assert_int_equal(o->rv, 42);
    assert_string_equal(o->ns, "n");
    assert_string_equal(o->name, "p");
    assert_string_equal(o->uid, "u-1");
    assert_false(o->deleting);
    assert_int_equal(o->label_count, 3);
    assert_true(str_is(object_label(o, "a"), "2"));
    assert_true(str_is(object_label(o, "m"), ""));
    assert_true(str_is(object_label(o, "z"), "1"));
    assert_null(object_label(o, "b").s);
    assert_int_equal(o->owner_count, 2);
    assert_true(str_is(o->owners[1], "o2"));
    assert_true(str_is(object_field(o, 0), "w\"1"));
    assert_true(str_is(object_field(o, 1), "true"));
    assert_true(str_is(object_field(o, 2), "7"));
    assert_true(str_is(object_field(o, 3), "has spec"));
    assert_true(str_is(object_field(o, 4), ""));
    assert_memory_equal(o->text + o->body_at, "\"metadata\":{", 12);
    assert_memory_equal(o->text + o->meta_at, "{\"name\":", 8);
    assert_memory_equal(o->text + o->meta_at + o->meta_len, ",\"spec\"", 7);
}

static void test_text_starts_with_kind_and_says_what_lists_ask(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(object_unref)
    struct object *o = make(&pod, &a, "{" SPEC "," META ",\"apiVersion\":\"other\",\"kind\":\"Else\"}");

    (void)state;
    check_pod(o);
}

static void test_stored_text_makes_the_same_object(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(object_unref) struct object *o = make(&pod, &a, "{" META "," SPEC "}");
    CLEANUP(object_unref) struct object *again = NULL;

    (void)state;
    assert_int_equal(object_parse(&pod, (struct str){o->text, o->text_len}, &again, NULL), 0);
    check_pod(again);
    assert_true(json_equal(object_json(o, &a), object_json(again, &a)));
}

static void test_the_tree_can_be_changed_without_changing_the_object(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(object_unref) struct object *o = make(&pod, &a, "{" META "," SPEC "}");
    struct json *doc = object_json(o, &a);

    (void)state;
    json_set_string(&a, json_get(doc, "spec"), "nodeName", "other");
    check_pod(o);
}

static void test_cluster_scoped_objects_have_an_empty_namespace(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(object_unref)
    struct object *o =
        make(&job, &a,
             "{\"metadata\":{\"name\":\"j\",\"uid\":\"u\",\"resourceVersion\":\"1\",\"labels\":{},"
             "\"ownerReferences\":[],\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");

    (void)state;
    assert_string_equal(o->ns, "");
    assert_true(o->deleting);
    assert_int_equal(o->label_count, 0);
    assert_int_equal(o->owner_count, 0);
    assert_string_equal(
        o->text, "{\"kind\":\"Job\",\"apiVersion\":\"batch/v1\",\"metadata\":{\"name\":\"j\",\"uid\":\"u\","
                 "\"resourceVersion\":\"1\",\"labels\":{},\"ownerReferences\":[],"
                 "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
}

static void test_escaped_labels_are_unescaped(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(object_unref)
    struct object *o = make(&job, &a,
                            "{\"metadata\":{\"name\":\"j\",\"uid\":\"u\",\"resourceVersion\":\"1\","
                            "\"labels\":{\"q\\\"k\":\"tab\\t\"}}}");

    (void)state;
    assert_true(str_is(object_label(o, "q\"k"), "tab\t"));
}

static void test_an_object_of_a_dry_run_has_no_revision(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(object_unref) struct object *o = make(&job, &a, "{\"metadata\":{\"name\":\"j\",\"uid\":\"u\"}}");

    (void)state;
    assert_int_equal(o->rv, 0);
}

static void test_references_are_counted(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct object *o = make(&pod, &a, "{" META "," SPEC "}"), *same = object_ref(o);

    (void)state;
    assert_ptr_equal(o, same);
    object_unref(o);
    check_pod(same);
    object_unref(same);
    object_unref(NULL);
}

static void test_other_texts_are_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "{}",
        "{\"kind\":\"Job\",\"apiVersion\":\"v1\",\"metadata\":{}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
        "\"resourceVersion\":\"x\"}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\"}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\"},}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\",\"labels\":{\"a\":1}}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\",\"x\":]}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\","
        "\"resourceVersion\":\"1\",\"x\":\"}",
    };
    struct object *o = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {0};

        if (object_parse(&pod, str_from(cases[i]), &o, &err) == 0)
            fail_msg("accepted: %s", cases[i]);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_starts_with_kind_and_says_what_lists_ask),
        cmocka_unit_test(test_stored_text_makes_the_same_object),
        cmocka_unit_test(test_the_tree_can_be_changed_without_changing_the_object),
        cmocka_unit_test(test_cluster_scoped_objects_have_an_empty_namespace),
        cmocka_unit_test(test_escaped_labels_are_unescaped),
        cmocka_unit_test(test_an_object_of_a_dry_run_has_no_revision),
        cmocka_unit_test(test_references_are_counted),
        cmocka_unit_test(test_other_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
