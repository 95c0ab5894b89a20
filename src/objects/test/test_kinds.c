/* The table of kinds: every row is whole, found by its names, and answers selectors. */
#include "objects/rules.h"
#include "test_validate.h"

static void test_every_kind_is_found_by_id_and_plural(void **state)
{
    (void)state;
    for (size_t i = 0; i < kind_count; i++) {
        const struct kind *kind = &kinds[i];

        assert_ptr_equal(kind_by_id(kind->id), kind);
        assert_ptr_equal(
            kind_by_plural(str_from(kind->group), str_from(kind->version), str_from(kind->plural)), kind);
        assert_non_null(kind_schema(kind));
    }
    assert_null(kind_by_id(0));
    assert_null(kind_by_plural(STR("batch"), STR("v1"), STR("pods")));
}

static void test_stored_kinds_have_columns_and_ids_below_the_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < kind_count; i++) {
        assert_int_equal(kinds[i].stored, kinds[i].id < KIND_MAX);
        assert_int_equal(kinds[i].stored, kinds[i].column_count > 0);
        assert_int_equal(kinds[i].stored, (kinds[i].verbs | VERB_DELETE_COLLECTION) == VERBS_STORED);
        assert_true(!kinds[i].stored || kinds[i].validate);
    }
}

static void test_status_is_a_subresource_of_what_has_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < kind_count; i++)
        assert_int_equal(kinds[i].has_status, kind_subresource(&kinds[i], STR("status")) != NULL);
    assert_string_equal(kind_subresource(kind_by_id(KIND_POD), STR("eviction"))->kind, "Eviction");
    assert_null(kind_subresource(kind_by_id(KIND_POD), STR("ephemeralcontainers")));
    assert_null(kind_subresource(kind_by_id(KIND_JOB), STR("scale")));
}

static void test_names_as_messages_say_them(void **state)
{
    (void)state;
    assert_string_equal(kind_api_version(kind_by_id(KIND_POD)), "v1");
    assert_string_equal(kind_resource(kind_by_id(KIND_POD)), "pods");
    assert_string_equal(kind_api_version(kind_by_id(KIND_JOB)), "batch/v1");
    assert_string_equal(kind_resource(kind_by_id(KIND_JOB)), "jobs.batch");
    assert_string_equal(kind_resource(kind_by_id(KIND_TRAINING_JOB)), "trainingjobs.berth.dev");
}

static void test_short_names_are_unique(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *seen = json_new_object(&arena);

    (void)state;
    for (size_t i = 0; i < kind_count; i++)
        for (const char *const *name = kinds[i].short_names; name && *name; name++) {
            assert_null(json_get(seen, *name));
            json_set_bool(&arena, seen, *name, true);
        }
    assert_non_null(json_get(seen, "po"));
    assert_non_null(json_get(seen, "tj"));
}

static void test_field_selectors_see_these_values(void **state)
{
    static const struct {
        int kind;
        const char *doc, *field, *value;
    } cases[] = {
        {KIND_POD, "{'spec':{'nodeName':'n'}}", "spec.nodeName", "n"},
        {KIND_POD, "{'spec':{}}", "spec.hostNetwork", "false"},
        {KIND_POD, "{'spec':{'hostNetwork':true}}", "spec.hostNetwork", "true"},
        {KIND_POD, "{'status':{'podIPs':[{'ip':'10.0.0.1'}]}}", "status.podIPs", "10.0.0.1"},
        {KIND_NODE, "{'spec':{}}", "spec.unschedulable", "false"},
        {KIND_NODE, "{'spec':{'unschedulable':true}}", "spec.unschedulable", "true"},
        {KIND_JOB, "{'status':{'succeeded':3}}", "status.successful", "3"},
        {KIND_JOB, "{}", "status.successful", "0"},
        {KIND_EVENT, "{'source':{'component':'kubelet'}}", "source", "kubelet"},
        {KIND_EVENT, "{'source':{},'reportingComponent':'berth'}", "source", "berth"},
        {KIND_EVENT, "{'involvedObject':{'uid':'u'}}", "involvedObject.uid", "u"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct kind *kind = kind_by_id(cases[i].kind);

        assert_string_equal(kind->field_value(parse_quoted(&arena, cases[i].doc), cases[i].field, &arena),
                            cases[i].value);
    }
}

static void test_equality_is_that_of_kubernetes(void **state)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"{'a':''}", "{}", true},
        {"{'a':[],'b':{},'c':null}", "{}", true},
        {"{'a':{'b':''}}", "{'a':{}}", true},
        {"{'limits':{'cpu':'0.5'}}", "{'limits':{'cpu':'500m'}}", true},
        {"{'limits':{'cpu':'1'}}", "{'limits':{'cpu':1}}", true},
        {"{'labels':{'cpu':'0.5'}}", "{'labels':{'cpu':'500m'}}", false},
        {"{'hostNetwork':false}", "{}", true},
        {"{'automountServiceAccountToken':false}", "{}", false},
        {"{'a':0}", "{}", false},
        {"{'a':[1,2]}", "{'a':[2,1]}", false},
        {"{'a':1,'b':2}", "{'b':2,'a':1}", true},
        {"{'a':{'b':'x'}}", "{}", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct json *a = parse_quoted(&arena, cases[i].a), *b = parse_quoted(&arena, cases[i].b);

        assert_int_equal(semantic_equal(a, b), cases[i].equal);
        assert_int_equal(semantic_equal(b, a), cases[i].equal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_found_by_id_and_plural),
        cmocka_unit_test(test_stored_kinds_have_columns_and_ids_below_the_limit),
        cmocka_unit_test(test_status_is_a_subresource_of_what_has_one),
        cmocka_unit_test(test_names_as_messages_say_them),
        cmocka_unit_test(test_short_names_are_unique),
        cmocka_unit_test(test_field_selectors_see_these_values),
        cmocka_unit_test(test_equality_is_that_of_kubernetes),
    };

    return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
