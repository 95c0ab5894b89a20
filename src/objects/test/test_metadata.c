/* Names, labels, annotations, owners and finalizers; names that are generated. Sentences are those of a real
 * API server (1.33). */
#include "test_validate.h"

static const struct create_case creates[] = {
    /* bad name */
    {KIND_POD, "{'metadata':{'name':'Bad_Name'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* dots */
    {KIND_POD, "{'metadata':{'name':'a..b'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.name: Invalid value: \"a..b\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* dash */
    {KIND_POD, "{'metadata':{'name':'-a'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.name: Invalid value: \"-a\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* label key */
    {KIND_POD,
     "{'metadata':{'name':'p','labels':{'a/b/c':'x','/x':'y','x/':'z','A.b/"
     "c':'ok','-a':'b'}},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.labels: Invalid value: \"a/b/c\": a qualified name must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an "
     "optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')\n"
     "metadata.labels: Invalid value: \"/x\": prefix part must be non-empty\n"
     "metadata.labels: Invalid value: \"x/\": name part must be non-empty\n"
     "metadata.labels: Invalid value: \"x/\": name part must consist of alphanumeric characters, '-', '_' or "
     "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "metadata.labels: Invalid value: \"A.b/c\": prefix part a lowercase RFC 1123 subdomain must consist of "
     "lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
     "(e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"
     "metadata.labels: Invalid value: \"-a\": name part must consist of alphanumeric characters, '-', '_' or "
     "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"},
    /* annotation key */
    {KIND_POD,
     "{'metadata':{'name':'p','annotations':{'a b':'x'}},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.annotations: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
     "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"},
    /* owner */
    {KIND_POD,
     "{'metadata':{'name':'p','ownerReferences':[{'apiVersion':'','kind':'','name':'','uid':''}]},'spec':{'"
     "containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty\n"
     "metadata.ownerReferences.kind: Invalid value: \"\": kind must not be empty\n"
     "metadata.ownerReferences.name: Invalid value: \"\": name must not be empty\n"
     "metadata.ownerReferences.uid: Invalid value: \"\": uid must not be empty\n"},
    /* owner event */
    {KIND_POD,
     "{'metadata':{'name':'p','ownerReferences':[{'apiVersion':'v1','kind':'Event','name':'e','uid':'u'}]},'"
     "spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.ownerReferences: Invalid value: "
     "{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\"uid\":\"u\"}: /v1, Kind=Event is disallowed "
     "from being an owner\n"},
    /* two controllers */
    {KIND_POD,
     "{'metadata':{'name':'p','ownerReferences':[{'apiVersion':'v1','kind':'A','name':'e','uid':'u','"
     "controller':true},{'apiVersion':'v1','kind':'B','name':'f','uid':'v','controller':true}]},'spec':{'"
     "containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.ownerReferences: Invalid value: "
     "[{\"apiVersion\":\"v1\",\"kind\":\"A\",\"name\":\"e\",\"uid\":\"u\",\"controller\":true},{"
     "\"apiVersion\":\"v1\",\"kind\":\"B\",\"name\":\"f\",\"uid\":\"v\",\"controller\":true}]: Only one "
     "reference can have Controller set to true. Found \"true\" in references for A/e and B/f\n"},
    /* finalizers */
    {KIND_POD,
     "{'metadata':{'name':'p','finalizers':['a.b/c "
     "d','orphan','foregroundDeletion']},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.finalizers: Invalid value: \"a.b/c d\": name part must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "metadata.finalizers: Invalid value: [\"a.b/c d\",\"orphan\",\"foregroundDeletion\"]: finalizer orphan "
     "and foregroundDeletion cannot be both set\n"},
    /* no name */
    {KIND_POD, "{'metadata':{},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "metadata.name: Required value: name or generateName is required\n"},
    {KIND_NODE, "{'metadata':{'name':'n','namespace':'x'}}",
     "metadata.namespace: Forbidden: not allowed on this type\n"},
    {KIND_SERVICE, "{'metadata':{'name':'1a'},'spec':{'ports':[{'port':80}]}}",
     "metadata.name: Invalid value: \"1a\": a DNS-1035 label must consist of lower case alphanumeric "
     "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. "
     "'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')\n"},
    {KIND_NAMESPACE, "{'metadata':{'name':'a.b'}}",
     "metadata.name: Invalid value: \"a.b\": must not contain dots\n"},
    {KIND_EVENT, "{'metadata':{'name':'A%/b'},'involvedObject':{'namespace':'team'}}",
     "metadata.name: Invalid value: \"A%/b\": may not contain '/'\n"
     "metadata.name: Invalid value: \"A%/b\": may not contain '%'\n"},
    {KIND_EVENT, "{'metadata':{'name':'p.17f'},'involvedObject':{'namespace':'team'}}", ""},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'x','namespace':'A'}}",
     "metadata.namespace: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case "
     "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
     " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'x','finalizers':['x']}}",
     "metadata.finalizers[0]: Invalid value: \"x\": name is neither a standard finalizer name nor is it "
     "fully qualified\n"},
    {KIND_LEASE, "{'metadata':{'name':'x','finalizers':['x']}}", ""},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'ok-x','generateName':'Bad-'}}",
     "metadata.generateName: Invalid value: \"Bad-\": a lowercase RFC 1123 subdomain must consist of lower "
     "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
};

static const struct update_case updates[] = {
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'}}", "{'metadata':{'name':'d'}}",
     "metadata.name: Invalid value: \"d\": field is immutable\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'}}", "{'metadata':{'uid':'x'}}",
     "metadata.uid: Invalid value: \"x\": field is immutable\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'}}", "{'metadata':{'namespace':'x'}}",
     "metadata.namespace: Invalid value: \"x\": field is immutable\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'}}", "{'metadata':{'labels':{'a':'b c'}}}",
     "metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'}}",
     "{'metadata':{'annotations':{'kubectl.kubernetes.io/Last-Applied':'{}'}}}", ""},
};

static void test_metadata_that_is_refused(void **state)
{
    (void)state;
    check_creates(creates, ARRAY_LEN(creates));
}

static void test_changes_of_metadata(void **state)
{
    (void)state;
    check_updates(updates, ARRAY_LEN(updates));
}

static void test_long_names_and_labels(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct kind *kind = kind_by_id(KIND_POD);
    char name[255], text[1024];

    (void)state;
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(
        text, sizeof(text),
        "{'metadata':{'name':'%s','labels':{'a':'%.64s'}},'spec':{'containers':[{'name':'c','image':'i'}]}}",
        name, name);
    assert_string_equal(
        errors_of(&arena, kind, make_ready(&arena, kind, text, NULL), NULL),
        arena_printf(&arena,
                     "metadata.name: Invalid value: \"%s\": must be no more than 253 characters\n"
                     "metadata.labels: Invalid value: \"%.64s\": must be no more than 63 "
                     "characters\n",
                     name, name));
}

static void test_nothing_new_holds_up_a_deletion(void **state)
{
    static const char before[] = "{'metadata':{'name':'c','finalizers':['a.b/c'],'uid':'u','namespace':'n',"
                                 "'deletionTimestamp':'2026-03-01T00:00:00Z'}}";
    static const char after[] =
        "{'metadata':{'name':'c','finalizers':['a.b/c','x.y/z'],'uid':'u','namespace':'n',"
        "'deletionTimestamp':'2026-03-01T00:00:00Z'}}";
    CLEANUP(arena_done) struct arena arena = {0};
    const struct kind *kind = kind_by_id(KIND_CONFIG_MAP);

    (void)state;
    assert_string_equal(errors_of(&arena, kind, parse_quoted(&arena, after), parse_quoted(&arena, before)),
                        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is "
                        "being deleted, found new "
                        "finalizers []string{\"x.y/z\"}\n");
    assert_string_equal(errors_of(&arena, kind, parse_quoted(&arena, before), parse_quoted(&arena, after)),
                        "");
}

static void test_annotations_are_bounded(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct kind *kind = kind_by_id(KIND_CONFIG_MAP);
    char *value = arena_zalloc(&arena, 262144);

    (void)state;
    memset(value, 'a', 262143);
    assert_string_equal(
        errors_of(
            &arena, kind,
            make_ready(&arena, kind,
                       arena_printf(&arena, "{'metadata':{'name':'c','annotations':{'k':'%s'}}}", value),
                       NULL),
            NULL),
        "");
    assert_string_equal(
        errors_of(
            &arena, kind,
            make_ready(&arena, kind,
                       arena_printf(&arena, "{'metadata':{'name':'c','annotations':{'kk':'%s'}}}", value),
                       NULL),
            NULL),
        "metadata.annotations: Too long: may not be more than 262144 bytes\n");
}

static void test_generated_names_end_in_five_letters(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    static const uint8_t low[NAME_TAIL_LEN] = {0, 1, 2, 3, 4}, high[NAME_TAIL_LEN] = {26, 27, 53, 54, 255};
    char base[101] = "";

    (void)state;
    assert_string_equal(object_name_after(&arena, "job-", low), "job-bcdfg");
    assert_string_equal(object_name_after(&arena, "job-", high), "job-9b9bq");
    memset(base, 'a', sizeof(base) - 1);
    assert_int_equal(strlen(object_name_after(&arena, base, low)), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata_that_is_refused),
        cmocka_unit_test(test_changes_of_metadata),
        cmocka_unit_test(test_long_names_and_labels),
        cmocka_unit_test(test_nothing_new_holds_up_a_deletion),
        cmocka_unit_test(test_annotations_are_bounded),
        cmocka_unit_test(test_generated_names_end_in_five_letters),
    };

    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
