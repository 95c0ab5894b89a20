/* Selectors, against what Kubernetes 1.33's labels and fields packages say to the same text. */
#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/kind.h"
#include "objects/selector.h"

#include <stdio.h>

static const char *const pod_fields[] = {"spec.nodeName", "status.phase", NULL};
static const struct kind pod_kind = {.group = "", .version = "v1", .name = "Pod", .fields = pod_fields};

static const char pod_text[] =
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\","
    "\"resourceVersion\":\"7\",\"labels\":{\"in\":\"a\",\"x.y/"
    "z\":\"5\",\"a\":\"1\",\"c\":\"\",\"b\":\"foo\"}},"
    "\"spec\":{\"nodeName\":\"n,1=\"},\"status\":{\"phase\":\"Running\"}}";

struct fixture {
    struct arena arena;
    struct object *pod;
};

static int setup(void **state)
{
    static struct fixture fixture;

    if (object_parse(&pod_kind, str_from(pod_text), &fixture.pod, NULL) < 0)
        return -1;
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    object_unref(fixture->pod);
    arena_done(&fixture->arena);
    return 0;
}

static bool matches(struct fixture *fixture, const char *labels, const char *fields)
{
    struct selector *selector;
    struct err err = {0};

    if (selector_parse(&pod_kind, labels, fields, &fixture->arena, &selector, &err) < 0)
        fail_msg("'%s' '%s': %s", labels ? labels : "", fields ? fields : "", err.msg);
    return selector_matches(selector, fixture->pod);
}

static const char *refusal(struct fixture *fixture, const char *labels, const char *fields)
{
    struct selector *selector;
    struct err err = {0};

    if (selector_parse(&pod_kind, labels, fields, &fixture->arena, &selector, &err) == 0)
        fail_msg("'%s' '%s' is accepted", labels ? labels : "", fields ? fields : "");
    assert_int_equal(err.code, ERR_INVALID);
    return arena_strdup(&fixture->arena, err.msg);
}

static void test_label_terms_select(void **state)
{
    static const struct {
        const char *text;
        bool match;
    } cases[] = {
        {"", true},
        {"a=1", true},
        {"a==1", true},
        {"a=2", false},
        {"a!=1", false},
        {"z!=1", true},
        {"a in (1,2)", true},
        {"a in (2,3)", false},
        {"a notin (1)", false},
        {"z notin (1)", true},
        {"b", true},
        {"!b", false},
        {"!z", true},
        {"a>0", true},
        {"a>1", false},
        {"a<5", true},
        {"b>0", false},
        {"z<5", false},
        {"c=", true},
        {"c in ()", true},
        {"c in (,)", true},
        {"a in (,1,)", true},
        {"a=1,b=foo", true},
        {"a=1, b != foo", false},
        {" a = 1 ", true},
        {"in in (a)", true},
        {"in", true},
        {"a=,b=foo", false},
        {"x.y/z > 4", true},
        {"a\tin\n( 1 , 2 )", true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (matches(*state, cases[i].text, NULL) != cases[i].match)
            fail_msg("'%s' should %smatch", cases[i].text, cases[i].match ? "" : "not ");
}

static void test_bad_label_terms_are_refused_in_kubernetes_words(void **state)
{
    static const char *const cases[][2] = {
        {",a", "found ',', expected: !, identifier, or 'end of string'"},
        {"a,", "found '', expected: identifier after ','"},
        {"a in 1", "unable to parse requirement: found '1' expected: '('"},
        {"a in (1", "unable to parse requirement: found '', expected: ',' or ')'"},
        {"a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"},
        {"a in (1,=)", "unable to parse requirement: found '=', expected: ',', or identifier"},
        {"!a=1", "found '=', expected: ',' or 'end of string'"},
        {"a=b c", "found 'c', expected: ',' or 'end of string'"},
        {"a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"},
        {"!", "unable to parse requirement: found '', expected: identifier"},
        {"a==)", "unable to parse requirement: found ')', expected: identifier"},
        {"a>x", "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the "
                "value must be an integer"},
        {"-a=1",
         "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric "
         "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName', "
         " "
         "or 'my.name',  or '123-abc', regex used for validation is "
         "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"},
        {"a=-x",
         "unable to parse requirement: values[0][a]: Invalid value: \"-x\": a valid label must be an empty "
         "string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
         "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
         "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(refusal(*state, cases[i][0], NULL), cases[i][1]);
    assert_non_null(strstr(refusal(*state, "X_y/a", NULL), "prefix part a lowercase RFC 1123 subdomain"));
    assert_non_null(strstr(refusal(*state, "/a", NULL), "prefix part must be non-empty"));
    assert_non_null(strstr(refusal(*state, "a/b/c", NULL), "a qualified name must consist of"));
}

static void test_field_terms_select(void **state)
{
    static const struct {
        const char *text;
        bool match;
    } cases[] = {
        {"metadata.name=p", true},        {"metadata.name==p", true},
        {"metadata.name!=p", false},      {"metadata.namespace=n,status.phase!=Failed", true},
        {"status.phase=Running", true},   {"spec.nodeName=n\\,1\\=", true},
        {",status.phase=Running,", true}, {"status.phase=", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (matches(*state, NULL, cases[i].text) != cases[i].match)
            fail_msg("'%s' should %smatch", cases[i].text, cases[i].match ? "" : "not ");
}

static void test_bad_field_terms_are_refused(void **state)
{
    static const char *const cases[][2] = {
        {"spec.x=1", "field label not supported: spec.x"},
        {"nothing", "invalid selector: 'nothing'; can't understand 'nothing'"},
        {"metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'"},
        {"metadata.name=a=b", "invalid field selector: unescaped character in value: 61"},
        {"metadata.name=a\\b", "invalid field selector: invalid escape sequence: \\b"},
        {"metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(refusal(*state, NULL, cases[i][0]), cases[i][1]);
}

static void test_no_selector_matches_everything(void **state)
{
    struct fixture *fixture = *state;

    assert_true(selector_matches(NULL, fixture->pod));
}

static void test_label_selector_objects_select(void **state)
{
    static const struct {
        const char *doc;
        bool match;
    } cases[] = {
        {"{}", true},
        {"{\"matchLabels\":{\"a\":\"1\"}}", true},
        {"{\"matchLabels\":{\"a\":\"2\"}}", false},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"2\",\"1\"]}]}", true},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[\"1\"]}]}", false},
        {"{\"matchExpressions\":[{\"key\":\"z\",\"operator\":\"DoesNotExist\"}]}", true},
        {"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}],\"matchLabels\":{\"b\":\"x\"}}",
         false},
    };
    struct fixture *fixture = *state;
    struct json *doc,
        *labels = json_get(json_get(object_json(fixture->pod, &fixture->arena), "metadata"), "labels");
    struct selector *selector;
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(json_parse(str_from(cases[i].doc), &fixture->arena, &doc, NULL, NULL), 0);
        assert_int_equal(selector_from_json(doc, &fixture->arena, &selector, NULL), 0);
        assert_int_equal(selector_matches_labels(selector, labels), cases[i].match);
        assert_int_equal(selector_matches(selector, fixture->pod), cases[i].match);
    }
    assert_int_equal(selector_from_json(NULL, &fixture->arena, &selector, NULL), 0);
    assert_false(selector_matches_labels(selector, labels));
    json_parse(STR("{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Gt\"}]}"), &fixture->arena, &doc,
               NULL, NULL);
    assert_int_equal(selector_from_json(doc, &fixture->arena, &selector, &err), -1);
    assert_string_equal(err.msg, "\"Gt\" is not a valid label selector operator");
    json_parse(STR("{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]}"), &fixture->arena, &doc,
               NULL, NULL);
    assert_int_equal(selector_from_json(doc, &fixture->arena, &selector, &err), -1);
    assert_string_equal(
        err.msg,
        "values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't be empty");
}

static void test_size_and_terms_are_limited(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (int i = 0; i <= SELECTOR_TERMS_MAX; i++)
        buf_printf(&text, "%sa", i ? "," : "");
    assert_string_equal(refusal(*state, text.data, NULL), "selector has more than 1000 terms");
    while (text.len <= SELECTOR_TEXT_MAX)
        buf_puts(&text, ",metadata.name=a");
    assert_string_equal(refusal(*state, NULL, text.data), "selector is longer than 65536 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_label_terms_select),
        cmocka_unit_test(test_bad_label_terms_are_refused_in_kubernetes_words),
        cmocka_unit_test(test_field_terms_select),
        cmocka_unit_test(test_bad_field_terms_are_refused),
        cmocka_unit_test(test_no_selector_matches_everything),
        cmocka_unit_test(test_label_selector_objects_select),
        cmocka_unit_test(test_size_and_terms_are_limited),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
