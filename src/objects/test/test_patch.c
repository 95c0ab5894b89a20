/* JSON patch, merge patch and strategic merge patch. Expected documents are what Kubernetes 1.33's libraries
 * make of the same input. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/test/test.h"
#include "objects/patch.h"

#include <stdio.h>

/* In test tables ' stands for ". */
static struct json *parse(struct arena *arena, const char *text)
{
    char *copy = arena_strdup(arena, text);
    struct json *doc = NULL;
    struct err err = {0};

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    if (json_parse(str_from(copy), arena, &doc, NULL, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return doc;
}

static int run(enum patch_type type, struct arena *arena, struct json *doc, const struct json *patch,
               struct failure *failure)
{
    if (type == PATCH_JSON)
        return patch_json(arena, doc, patch, failure);
    if (type == PATCH_MERGE)
        return patch_merge(arena, doc, patch, failure);
    return patch_strategic(schema_type_find("Pod"), arena, doc, patch, failure);
}

/* Lists are compared in order. */
static void check(enum patch_type type, const char *doc_text, const char *patch_text, const char *expected)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(buf_done) struct buf out = {0}, before = {0}, after = {0};
    struct json *doc = parse(&a, doc_text), *patch = parse(&a, patch_text);
    struct failure failure = {0};

    json_write(&before, patch);
    if (run(type, &a, doc, patch, &failure) < 0)
        fail_msg("%s on %s: %s", patch_text, doc_text, failure.message);
    json_write(&out, doc);
    if (!json_equal(doc, parse(&a, expected)))
        fail_msg("%s on %s gives\n%s, not\n%s", patch_text, doc_text, out.data, expected);
    json_write(&after, patch);
    assert_string_equal(before.data, after.data); /* a patch may be tried again */
}

static void check_refused(enum patch_type type, const char *doc_text, const char *patch_text, int code,
                          const char *message)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct json *doc = parse(&a, doc_text);
    struct failure failure = {0};

    if (run(type, &a, doc, parse(&a, patch_text), &failure) == 0)
        fail_msg("%s on %s is accepted", patch_text, doc_text);
    assert_int_equal(failure.code, code);
    assert_string_equal(failure.message, message);
}

static void test_content_types_name_patches(void **state)
{
    enum patch_type type;

    (void)state;
    assert_true(patch_type_of("application/json-patch+json", &type));
    assert_int_equal(type, PATCH_JSON);
    assert_true(patch_type_of("application/merge-patch+json;charset=utf-8", &type));
    assert_int_equal(type, PATCH_MERGE);
    assert_true(patch_type_of("Application/Strategic-Merge-Patch+JSON ; x", &type));
    assert_int_equal(type, PATCH_STRATEGIC);
    assert_true(patch_type_of("application/apply-patch+yaml", &type));
    assert_int_equal(type, PATCH_APPLY);
    assert_false(patch_type_of("application/json", &type));
    assert_false(patch_type_of("", &type));
    assert_false(patch_type_of(NULL, &type));
}

static void test_json_patch_operations(void **state)
{
    static const char *const cases[][3] = {
        {"{'a':1}", "[{'op':'add','path':'/b','value':2}]", "{'a':1,'b':2}"},
        {"{'a':1}", "[{'op':'add','path':'/a','value':{'x':[]}}]", "{'a':{'x':[]}}"},
        {"{'a':[1,2]}", "[{'op':'add','path':'/a/1','value':9}]", "{'a':[1,9,2]}"},
        {"{'a':[1,2]}", "[{'op':'add','path':'/a/-','value':9}]", "{'a':[1,2,9]}"},
        {"{'a':[1,2]}", "[{'op':'add','path':'/a/-1','value':9}]", "{'a':[1,2,9]}"},
        {"{'a':[1,2]}", "[{'op':'remove','path':'/a/-1'}]", "{'a':[1]}"},
        {"{'a':[1,2]}", "[{'op':'replace','path':'/a/0','value':9}]", "{'a':[9,2]}"},
        {"{'a':{'b':1}}", "[{'op':'remove','path':'/a/b'}]", "{'a':{}}"},
        {"{'a':1}", "[{'op':'replace','path':'/b','value':2}]", "{'a':1,'b':2}"},
        {"{'a':1}", "[{'op':'replace','path':'','value':{'c':1}}]", "{'c':1}"},
        {"{'a':{'b':1}}", "[{'op':'move','from':'/a/b','path':'/c'}]", "{'a':{},'c':1}"},
        {"{'a':[1,2,3]}", "[{'op':'move','from':'/a/0','path':'/a/2'}]", "{'a':[2,3,1]}"},
        {"{'a':{'b':1}}", "[{'op':'copy','from':'/a','path':'/a/c'}]", "{'a':{'b':1,'c':{'b':1}}}"},
        {"{'a':1}", "[{'op':'copy','from':'/z','path':'/b'}]", "{'a':1,'b':null}"},
        {"{'a':1}", "[{'op':'test','path':'/a','value':1.0},{'op':'remove','path':'/a'}]", "{}"},
        {"{'a':1}", "[{'op':'test','path':'/z','value':null}]", "{'a':1}"},
        {"{'a':1}", "[{'op':'test','path':'','value':{'a':1}}]", "{'a':1}"},
        {"{'x/y':{'~':1}}", "[{'op':'replace','path':'/x~1y/~0','value':2}]", "{'x/y':{'~':2}}"},
        {"{'':{'':1}}", "[{'op':'remove','path':'//'}]", "{'':{}}"},
        {"{'a':1}", "[{'op':'add','path':'/b'}]", "{'a':1,'b':null}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(PATCH_JSON, cases[i][0], cases[i][1], cases[i][2]);
}

static void test_json_patch_that_does_not_fit_is_422(void **state)
{
    static const char *const patches[] = {
        "[{'op':'test','path':'/a','value':2}]",
        "[{'op':'test','path':'/l/7','value':null}]",
        "[{'op':'remove','path':'/z'}]",
        "[{'op':'remove','path':''}]",
        "[{'op':'remove','path':'/l/2'}]",
        "[{'op':'replace','path':'/l/2','value':1}]",
        "[{'op':'replace','path':'','value':1}]",
        "[{'op':'add','path':'/z/y','value':1}]",
        "[{'op':'add','path':'/a/y','value':1}]",
        "[{'op':'add','path':'/l/3','value':1}]",
        "[{'op':'add','path':'/l/x','value':1}]",
        "[{'op':'add','path':'','value':{}}]",
        "[{'op':'move','from':'/z','path':'/y'}]",
        "[{'op':'move','from':'/o','path':'/o/x'}]",
        "[{'op':'copy','from':'/l/9','path':'/y'}]",
        "[{'op':'bogus','path':'/a'}]",
        "[{'op':'add','value':1}]",
        "[{'path':'/a'}]",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(patches); i++)
        check_refused(PATCH_JSON, "{'a':1,'l':[1,2],'o':{}}", patches[i], 422,
                      "the server rejected our request due to an error in our request");
}

static void test_malformed_json_patch_is_400(void **state)
{
    (void)state;
    check_refused(PATCH_JSON, "{}", "{}", 400,
                  "error decoding patch: json: cannot unmarshal object into Go value of type "
                  "[]handlers.jsonPatchOp");
    check_refused(PATCH_JSON, "{}", "['x']", 400,
                  "error decoding patch: json: cannot unmarshal string into Go value of type "
                  "handlers.jsonPatchOp");
    check_refused(PATCH_JSON, "{}", "[{'op':'add','path':1}]", 400,
                  "error decoding patch: json: cannot unmarshal number into Go struct field "
                  "jsonPatchOp.path of type string");
}

static void test_too_many_operations_are_413(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct json *patch = json_new_array(&a), *doc = json_new_object(&a);
    struct failure f = {0};

    (void)state;
    for (int i = 0; i <= PATCH_OPS_MAX; i++)
        json_push(&a, patch, *parse(&a, "{'op':'test','path':'/a','value':null}"));
    assert_int_equal(patch_json(&a, doc, patch, &f), -1);
    assert_int_equal(f.code, 413);
    assert_string_equal(f.message, "Request entity too large: The allowed maximum operations in a JSON patch "
                                   "is 10000, got 10001");
}

static void test_hostile_json_patches_are_cheap(void **state)
{
    static const char *const ops[] = {
        "{'op':'copy','from':'/a','path':'/a/x'}",       /* doubles and deepens */
        "{'op':'copy','from':'/big','path':'/b/-'}",     /* grows */
        "{'op':'move','from':'/big/0','path':'/big/-'}", /* moves 200000 items */
        "{'op':'add','path':'/big/0','value':1}",
    };
    int64_t start = clock_monotonic();

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        CLEANUP(arena_done) struct arena a = {0};
        struct json *patch = json_new_array(&a), *doc = parse(&a, "{'a':{'y':[1,2,3]},'b':[],'big':[]}");
        struct failure f = {0};

        for (int n = 0; n < 200000; n++)
            json_push(&a, json_get(doc, "big"), json_of_int(n));
        for (int n = 0; n < PATCH_OPS_MAX; n++)
            json_push(&a, patch, *parse(&a, ops[i]));
        assert_int_equal(patch_json(&a, doc, patch, &f), -1);
        assert_true(a.total < 256 << 20);
    }
    assert_true(clock_monotonic() - start < 20 * NSEC_PER_SEC);
}

static void test_merge_patch_follows_the_rfc(void **state)
{
    static const char *const cases[][3] = {
        {"{'a':'b'}", "{'a':'c'}", "{'a':'c'}"},
        {"{'a':'b'}", "{'b':'c'}", "{'a':'b','b':'c'}"},
        {"{'a':'b','b':'c'}", "{'a':null}", "{'b':'c'}"},
        {"{'a':['b']}", "{'a':'c'}", "{'a':'c'}"},
        {"{'a':'c'}", "{'a':['b']}", "{'a':['b']}"},
        {"{'a':{'b':'c'}}", "{'a':{'b':'d','c':null}}", "{'a':{'b':'d'}}"},
        {"{'a':[{'b':'c'}]}", "{'a':[1]}", "{'a':[1]}"},
        {"{'e':null}", "{'a':1}", "{'e':null,'a':1}"},
        {"{}", "{'a':{'bb':{'ccc':null}}}", "{'a':{'bb':{}}}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(PATCH_MERGE, cases[i][0], cases[i][1], cases[i][2]);
    check_refused(PATCH_MERGE, "{}", "[1]", 400,
                  "error decoding patch: json: cannot unmarshal array into Go value of type "
                  "map[string]interface {}");
}

static void test_many_nulls_remove_in_one_pass(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct json *doc = json_new_object(&a), *patch = json_new_object(&a);
    int64_t start = clock_monotonic();
    struct failure f = {0};
    char key[16];

    (void)state;
    for (int i = 0; i < 100000; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        json_set_int(&a, doc, key, i);
        if (i % 2)
            json_set(&a, patch, key, (struct json){.type = JSON_NULL});
    }
    assert_int_equal(patch_merge(&a, doc, patch, &f), 0);
    assert_int_equal(doc->len, 50000);
    assert_int_equal(json_int(json_get(doc, "k4"), 0), 4);
    assert_null(json_get(doc, "k5"));
    assert_true(clock_monotonic() - start < 5 * NSEC_PER_SEC);
}

/* Documents are the spec of a pod. */
static void check_spec(const char *doc, const char *patch, const char *expected)
{
    CLEANUP(arena_done) struct arena a = {0};

    check(PATCH_STRATEGIC, arena_printf(&a, "{'spec':%s}", doc), arena_printf(&a, "{'spec':%s}", patch),
          arena_printf(&a, "{'spec':%s}", expected));
}

static void test_strategic_merge_of_keyed_lists(void **state)
{
    static const char *const cases[][3] = {
        /* merge by key, in place */
        {"{'containers':[{'name':'a','image':'1'},{'name':'b','image':'1'}]}",
         "{'containers':[{'name':'b','image':'2'}]}",
         "{'containers':[{'name':'a','image':'1'},{'name':'b','image':'2'}]}"},
        /* what is new comes first, as in Kubernetes' own example of kubectl patch */
        {"{'containers':[{'name':'a'}]}", "{'containers':[{'name':'b'}]}",
         "{'containers':[{'name':'b'},{'name':'a'}]}"},
        /* unless the order is said */
        {"{'containers':[{'name':'a'}]}",
         "{'$setElementOrder/containers':[{'name':'a'},{'name':'b'}],'containers':[{'name':'b'}]}",
         "{'containers':[{'name':'a'},{'name':'b'}]}"},
        {"{'containers':[{'name':'a'},{'name':'b'},{'name':'c'}]}",
         "{'$setElementOrder/containers':[{'name':'c'},{'name':'a'}]}",
         "{'containers':[{'name':'b'},{'name':'c'},{'name':'a'}]}"},
        /* deleting and replacing */
        {"{'containers':[{'name':'a'},{'name':'b'}]}", "{'containers':[{'name':'a','$patch':'delete'}]}",
         "{'containers':[{'name':'b'}]}"},
        {"{'containers':[{'name':'a'},{'name':'b'}]}", "{'containers':[{'name':'c'},{'$patch':'replace'}]}",
         "{'containers':[{'name':'c'}]}"},
        {"{'containers':[{'name':'a'}]}", "{'containers':null}", "{}"},
        /* keys that are numbers */
        {"{'containers':[{'name':'a','ports':[{'containerPort':80},{'containerPort':81}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':81,'name':'x'}]}]}",
         "{'containers':[{'name':'a','ports':[{'containerPort':80},{'containerPort':81,'name':'x'}]}]}"},
        /* lists without a key are replaced */
        {"{'containers':[{'name':'a','command':['x','y']}]}", "{'containers':[{'name':'a','command':['z']}]}",
         "{'containers':[{'name':'a','command':['z']}]}"},
        {"{'tolerations':[{'key':'a'}]}", "{'tolerations':[{'key':'b'}]}", "{'tolerations':[{'key':'b'}]}"},
        /* new values come without nulls and directives */
        {"{}", "{'containers':[{'name':'a','image':null,'env':[{'name':'E','$patch':'delete'}]}]}",
         "{'containers':[{'name':'a','env':[]}]}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_spec(cases[i][0], cases[i][1], cases[i][2]);
}

static void test_strategic_merge_of_objects(void **state)
{
    static const char *const cases[][3] = {
        {"{'nodeSelector':{'a':'1','b':'1'}}", "{'nodeSelector':{'b':null,'c':'1'}}",
         "{'nodeSelector':{'a':'1','c':'1'}}"},
        {"{'nodeSelector':{'a':'1'}}", "{'nodeSelector':{'$patch':'replace','c':'1'}}",
         "{'nodeSelector':{'c':'1'}}"},
        {"{'nodeSelector':{'a':'1'}}", "{'nodeSelector':{'$patch':'delete'}}", "{'nodeSelector':{}}"},
        {"{'securityContext':{'runAsUser':1}}", "{'securityContext':{'runAsGroup':2}}",
         "{'securityContext':{'runAsUser':1,'runAsGroup':2}}"},
        {"{'volumes':[{'name':'v','hostPath':{'path':'/x'}}]}",
         "{'volumes':[{'name':'v','$retainKeys':['name','emptyDir'],'emptyDir':{}}]}",
         "{'volumes':[{'name':'v','emptyDir':{}}]}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_spec(cases[i][0], cases[i][1], cases[i][2]);
}

static void test_strategic_merge_of_scalar_sets(void **state)
{
    (void)state;
    check(PATCH_STRATEGIC, "{'metadata':{'finalizers':['a','b']}}", "{'metadata':{'finalizers':['b','c']}}",
          "{'metadata':{'finalizers':['a','b','c']}}");
    check(PATCH_STRATEGIC, "{'metadata':{'finalizers':['a','b']}}",
          "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a']}}", "{'metadata':{'finalizers':['b']}}");
    check(PATCH_STRATEGIC, "{'metadata':{'finalizers':['a','b','x']}}",
          "{'metadata':{'$setElementOrder/finalizers':['b','c','a'],'finalizers':['c']}}",
          "{'metadata':{'finalizers':['b','c','a','x']}}");
}

static void test_strategic_merge_refusals(void **state)
{
    (void)state;
    check_refused(PATCH_STRATEGIC, "{'spec':{'containers':[{'name':'a'}]}}",
                  "{'spec':{'containers':[{'image':'x','env':[{'name':'A'}]}]}}", 500,
                  "map: map[env:[map[name:A]] image:x] does not contain declared merge key: name");
    check_refused(PATCH_STRATEGIC, "{'spec':{'containers':[{'name':'a'}]}}",
                  "{'spec':{'containers':[{'$patch':'delete'}]}}", 500,
                  "map: map[$patch:delete] does not contain declared merge key: name");
    check_refused(PATCH_STRATEGIC, "{'spec':{}}", "{'spec':{'$patch':'bogus','a':1}}", 500,
                  "unknown patch type: bogus in map: map[$patch:bogus a:1]");
    check_refused(PATCH_STRATEGIC, "{'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}",
                  "{'spec':{'volumes':[{'name':'v','$retainKeys':['name'],'hostPath':{'path':'/'}}]}}", 400,
                  "invalid patch format of retainKeys");
    check_refused(PATCH_STRATEGIC, "{'spec':{'containers':[{'name':'a'}]}}",
                  "{'spec':{'$setElementOrder/containers':[{'name':'a'}],'containers':[{'name':'b'}]}}", 500,
                  "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n"
                  "[map[name:a]]\n");
    check_refused(PATCH_STRATEGIC, "{'spec':{'containers':[{'name':'a'}]}}", "{'spec':{'containers':['x']}}",
                  500, "expected a map[string]interface {}, but received a string");
    check_refused(PATCH_STRATEGIC, "{}", "1", 400,
                  "error decoding patch: json: cannot unmarshal number into Go value of type "
                  "map[string]interface {}");
}

static void test_large_keyed_lists_merge_in_linear_time(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    CLEANUP(buf_done) struct buf list = {0};
    struct json *doc, *patch;
    int64_t start = clock_monotonic();
    struct failure f = {0};

    (void)state;
    for (int i = 0; i < 50000; i++)
        buf_printf(&list, "%s{'name':'e%d'}", i ? "," : "", i);
    doc = parse(&a, arena_printf(&a, "{'spec':{'containers':[%s]}}", list.data));
    patch = parse(&a, arena_printf(&a, "{'spec':{'$setElementOrder/containers':[%s],'containers':[%s]}}",
                                   list.data, list.data));
    assert_int_equal(patch_strategic(schema_type_find("Pod"), &a, doc, patch, &f), 0);
    assert_int_equal(json_len(json_at(doc, "spec.containers")), 50000);
    assert_true(clock_monotonic() - start < 10 * NSEC_PER_SEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content_types_name_patches),
        cmocka_unit_test(test_json_patch_operations),
        cmocka_unit_test(test_json_patch_that_does_not_fit_is_422),
        cmocka_unit_test(test_malformed_json_patch_is_400),
        cmocka_unit_test(test_too_many_operations_are_413),
        cmocka_unit_test(test_hostile_json_patches_are_cheap),
        cmocka_unit_test(test_merge_patch_follows_the_rfc),
        cmocka_unit_test(test_many_nulls_remove_in_one_pass),
        cmocka_unit_test(test_strategic_merge_of_keyed_lists),
        cmocka_unit_test(test_strategic_merge_of_objects),
        cmocka_unit_test(test_strategic_merge_of_scalar_sets),
        cmocka_unit_test(test_strategic_merge_refusals),
        cmocka_unit_test(test_large_keyed_lists_merge_in_linear_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
