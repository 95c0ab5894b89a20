/* Discovery and OpenAPI as kubectl reads them. */
#include "base/cleanup.h"
#include "objects/kind.h"
#include "objects/openapi.h"

/* cmocka.h wants the others before it */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

static struct json *parse(struct arena *arena, struct str text)
{
    struct json *doc = NULL;
    struct err err = {0};

    assert_non_null(text.s);
    if (json_parse(text, arena, &doc, NULL, &err) < 0)
        fail_msg("%s: %.*s", err.msg, STR_ARG(text));
    return doc;
}

/* The item whose member `key` is `value`. */
static struct json *item_with(const struct json *array, const char *key, const char *value)
{
    JSON_EACH(array, it)
        if (streq(json_get_string(it, key), value))
            return it;
    return NULL;
}

static bool has_string(const struct json *array, const char *s)
{
    JSON_EACH(array, it)
        if (streq(json_string(it), s))
            return true;
    return false;
}

static void assert_json(const struct json *value, const char *expected)
{
    CLEANUP(buf_done) struct buf text = {0};

    assert_non_null(value);
    json_write(&text, value);
    assert_string_equal(text.data, expected);
}

static void test_legacy_roots(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc, *group;

    (void)state;
    assert_json(parse(&arena, discovery_legacy_root("/api")),
                "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[]}");
    doc = parse(&arena, discovery_legacy_root("/apis"));
    assert_string_equal(json_get_string(doc, "kind"), "APIGroupList");
    group = item_with(json_get(doc, "groups"), "name", "batch");
    assert_json(group,
                "{\"name\":\"batch\",\"versions\":[{\"groupVersion\":\"batch/v1\",\"version\":\"v1\"}],"
                "\"preferredVersion\":{\"groupVersion\":\"batch/v1\",\"version\":\"v1\"}}");
    assert_null(item_with(json_get(doc, "groups"), "name", ""));
    assert_string_equal(json_get_string(parse(&arena, discovery_legacy_group("batch")), "kind"), "APIGroup");
    assert_null(discovery_legacy_group("nothing").s);
    assert_null(discovery_legacy_group("").s);
    assert_null(discovery_legacy_root("/other").s);
}

static void test_legacy_resources_of_the_core_group(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = parse(&arena, discovery_legacy_resources("", "v1"));
    struct json *resources = json_get(doc, "resources");

    (void)state;
    assert_string_equal(json_get_string(doc, "groupVersion"), "v1");
    assert_null(json_get(doc, "apiVersion"));
    assert_json(item_with(resources, "name", "pods"),
                "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\","
                "\"verbs\":[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\","
                "\"watch\"],"
                "\"shortNames\":[\"po\"],\"categories\":[\"all\"]}");
    assert_json(item_with(resources, "name", "pods/eviction"),
                "{\"name\":\"pods/eviction\",\"singularName\":\"\",\"namespaced\":true,\"group\":\"policy\","
                "\"version\":\"v1\",\"kind\":\"Eviction\",\"verbs\":[\"create\"]}");
    assert_json(item_with(resources, "name", "pods/status"),
                "{\"name\":\"pods/status\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"Pod\","
                "\"verbs\":[\"get\",\"patch\",\"update\"]}");
    assert_non_null(item_with(resources, "name", "pods/log"));
    assert_string_equal(
        json_get_string(parse(&arena, discovery_legacy_resources("batch", "v1")), "groupVersion"),
        "batch/v1");
    assert_null(discovery_legacy_resources("batch", "v2").s);
    assert_null(discovery_legacy_resources("nothing", "v1").s);
}

static void test_texts_are_made_once(void **state)
{
    (void)state;
    assert_ptr_equal(discovery_legacy_root("/apis").s, discovery_legacy_root("/apis").s);
    assert_ptr_equal(discovery_aggregated("/api", "v2").s, discovery_aggregated("/api", "v2").s);
    assert_ptr_equal(openapi_v3_index().s, openapi_v3_index().s);
    assert_ptr_equal(openapi_v3_document("api/v1").s, openapi_v3_document("api/v1").s);
}

static void test_aggregated_form(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = parse(&arena, discovery_aggregated("/api", "v2"));
    struct json *pod = item_with(json_at(doc, "items.0.versions.0.resources"), "resource", "pods");

    (void)state;
    assert_string_equal(json_get_string(doc, "apiVersion"), "apidiscovery.k8s.io/v2");
    assert_int_equal(json_len(json_get(doc, "items")), 1);
    assert_json(json_at(doc, "items.0.metadata"), "{}");
    assert_string_equal(json_at_string(doc, "items.0.versions.0.freshness"), "Current");
    assert_json(json_get(pod, "responseKind"), "{\"group\":\"\",\"version\":\"\",\"kind\":\"Pod\"}");
    assert_string_equal(json_get_string(pod, "scope"), "Namespaced");
    assert_json(item_with(json_get(pod, "subresources"), "subresource", "eviction"),
                "{\"subresource\":\"eviction\",\"responseKind\":{\"group\":\"policy\",\"version\":\"v1\","
                "\"kind\":\"Eviction\"},\"verbs\":[\"create\"]}");
    assert_string_equal(
        json_get_string(parse(&arena, discovery_aggregated("/apis", "v2beta1")), "apiVersion"),
        "apidiscovery.k8s.io/v2beta1");
    assert_null(discovery_aggregated("/apis", "v3").s);
    assert_null(discovery_aggregated("/", "v2").s);
}

static struct json *aggregated_resource(const struct json *doc, const struct kind *kind)
{
    JSON_EACH(json_get(doc, "items"), group)
        JSON_EACH(json_get(group, "versions"), version)
            if (streq(json_string_or(json_at(group, "metadata.name"), ""), kind->group) &&
                streq(json_get_string(version, "version"), kind->version))
                return item_with(json_get(version, "resources"), "resource", kind->plural);
    return NULL;
}

static void test_both_forms_say_the_same_of_every_kind(void **state)
{
    (void)state;
    for (const struct kind *k = kinds; k < kinds + kind_count; k++) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct json *legacy = parse(&arena, discovery_legacy_resources(k->group, k->version));
        struct json *doc = parse(&arena, discovery_aggregated(*k->group ? "/apis" : "/api", "v2"));
        struct json *one = item_with(json_get(legacy, "resources"), "name", k->plural);
        struct json *other = aggregated_resource(doc, k);

        assert_non_null(one);
        assert_non_null(other);
        assert_string_equal(json_get_string(one, "kind"), k->name);
        assert_string_equal(json_at_string(other, "responseKind.kind"), k->name);
        assert_string_equal(json_get_string(one, "singularName"), json_get_string(other, "singularResource"));
        assert_true(json_equal(json_get(one, "verbs"), json_get(other, "verbs")));
        assert_int_equal(json_len(json_get(other, "subresources")), k->subresource_count);
    }
}

static void test_openapi_v2_is_the_shortest_document(void **state)
{
    (void)state;
    assert_int_equal(openapi_v2_protobuf().len, 5);
    assert_memory_equal(openapi_v2_protobuf().s, "\x0a\x03\x32\x2e\x30", 5);
}

static void test_index_names_each_document_with_its_hash(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *paths = json_get(parse(&arena, openapi_v3_index()), "paths");

    (void)state;
    JSON_EACH_MEMBER(paths, it) {
        const char *url = json_get_string(&it->value, "serverRelativeURL");
        char *start = arena_printf(&arena, "/openapi/v3/%s?hash=", it->key);

        assert_true(starts_with(url, start));
        assert_int_equal(strlen(url), strlen(start) + 16);
        assert_non_null(openapi_v3_document(it->key).s);
    }
    assert_non_null(json_get(paths, "api/v1"));
    assert_non_null(json_get(paths, "apis/batch/v1"));
    assert_null(openapi_v3_document("apis/nothing/v1").s);
}

static void check_refs(const struct json *schemas, const struct json *value)
{
    const char *ref = json_get_string(value, "$ref");

    if (ref) {
        assert_true(starts_with(ref, "#/components/schemas/"));
        if (!json_get(schemas, ref + strlen("#/components/schemas/")))
            fail_msg("%s leads nowhere", ref);
    }
    JSON_EACH(value, it)
        check_refs(schemas, it);
    JSON_EACH_MEMBER(value, it)
        check_refs(schemas, &it->value);
}

static void test_every_reference_leads_somewhere(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    JSON_EACH_MEMBER(json_get(parse(&arena, openapi_v3_index()), "paths"), it) {
        struct str text = openapi_v3_document(it->key);
        struct json *doc = parse(&arena, text);

        check_refs(json_at(doc, "components.schemas"), doc);
        assert_null(memmem(text.s, text.len, "strategic-merge-patch", strlen("strategic-merge-patch")));
    }
}

/* What `kubectl explain` and --dry-run=server look for. */
static void test_every_kind_has_a_schema_and_a_path(void **state)
{
    (void)state;
    for (const struct kind *k = kinds; k < kinds + kind_count; k++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const char *root = arena_printf(&arena, "api%s/%s", *k->group ? "s" : "", kind_api_version(k));
        struct json *doc = parse(&arena, openapi_v3_document(root)), *operation;
        const struct schema_type *type = kind_schema(k);
        const char *name = arena_printf(&arena, "%s.%s", type->package, type->name);
        struct json *schema = json_get(json_at(doc, "components.schemas"), name);
        struct json *paths = json_get(doc, "paths");
        const char *space = k->namespaced ? "namespaces/{namespace}/" : "";
        const char *all =
            arena_printf(&arena, "/%s/%s%s", root, k->verbs & VERB_LIST ? "" : space, k->plural);
        const char *one = arena_printf(&arena, "/%s/%s%s/{name}", root, space, k->plural);

        assert_non_null(schema);
        assert_non_null(json_get_string(schema, "description"));
        operation = json_get(json_get(paths, all), k->verbs & VERB_LIST ? "get" : "post");
        assert_true(json_equal(json_get(operation, "x-kubernetes-group-version-kind"),
                               json_item(json_get(schema, "x-kubernetes-group-version-kind"), 0)));
        if (k->verbs & VERB_PATCH) {
            operation = json_get(json_get(paths, one), "patch");
            assert_non_null(item_with(json_get(operation, "parameters"), "name", "fieldValidation"));
            assert_non_null(item_with(json_get(operation, "parameters"), "name", "dryRun"));
            assert_json(json_get(operation, "requestBody"), "{\"content\":{}}");
        }
    }
}

static void test_fields_have_type_description_and_requirement(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *schemas = json_at(parse(&arena, openapi_v3_document("api/v1")), "components.schemas");
    struct json *container = json_get(schemas, "io.k8s.api.core.v1.Container");
    struct json *limits =
        json_at(json_get(schemas, "io.k8s.api.core.v1.ResourceRequirements"), "properties.limits");

    (void)state;
    assert_true(has_string(json_get(container, "required"), "name"));
    assert_string_equal(json_at_string(container, "properties.image.type"), "string");
    assert_non_null(json_at_string(container, "properties.image.description"));
    assert_string_equal(json_at_string(container, "properties.command.items.type"), "string");
    assert_json(json_at(container, "properties.resources.allOf"),
                "[{\"$ref\":\"#/components/schemas/io.k8s.api.core.v1.ResourceRequirements\"}]");
    assert_json(json_get(limits, "additionalProperties"),
                "{\"$ref\":\"#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legacy_roots),
        cmocka_unit_test(test_legacy_resources_of_the_core_group),
        cmocka_unit_test(test_texts_are_made_once),
        cmocka_unit_test(test_aggregated_form),
        cmocka_unit_test(test_both_forms_say_the_same_of_every_kind),
        cmocka_unit_test(test_openapi_v2_is_the_shortest_document),
        cmocka_unit_test(test_index_names_each_document_with_its_hash),
        cmocka_unit_test(test_every_reference_leads_somewhere),
        cmocka_unit_test(test_every_kind_has_a_schema_and_a_path),
        cmocka_unit_test(test_fields_have_type_description_and_requirement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
