/* Objects of every kind as somebody might send them: created, updated and patched (dry runs) by the same
 * rules as over the API. The first byte picks the kind (its id less one), the second what is done, the rest
 * is the document or patch. Whatever is accepted must be an object that reads back, and a second create of it
 * must be accepted too. */
#include "base/yaml.h"
#include "objects/table.h"
#include "registry/registry.h"

#include <stdint.h>

static struct registry *registry;
static struct store *store;
static struct loop *loop;

static const char *const bases[][2] = {
    {"ConfigMap", "{metadata: {name: base}, data: {a: '1', b: '2'}}"},
    {"Secret", "{metadata: {name: base}, data: {a: YQ==}}"},
    {"Pod", "{metadata: {name: base, labels: {user: ann}}, spec: {containers: [{name: c, image: 'x:1', "
            "ports: [{containerPort: "
            "80}], env: [{name: A, value: b}]}], volumes: [{name: v, emptyDir: {}}]}}"},
    {"Job", "{metadata: {name: base}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, "
            "image: 'x:1'}]}}}}"},
    {"Service",
     "{metadata: {name: base}, spec: {ports: [{port: 80}, {port: 81, name: b}], selector: {a: b}}}"},
    {"ResourceQuota", "{metadata: {name: base}, spec: {hard: {pods: '5'}}}"},
    {"LimitRange", "{metadata: {name: base}, spec: {limits: [{type: Container, max: {cpu: '2'}}]}}"},
    {"TrainingJob", "{metadata: {name: base}, spec: {image: 'x:1', scriptPath: /custom/a.py}}"},
};

static const struct kind *kind_named(const char *name)
{
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored && streq(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

static void make(const struct kind *kind, const char *text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure};
    struct written written;
    struct json *doc;

    if (yaml_parse_one(str_from(text), &arena, &doc, NULL) == 0)
        registry_create(registry, &write, kind, kind->namespaced ? "default" : "", doc, &written);
}

static void start(void)
{
    struct err err = {0};

    loop = loop_new();
    if (store_open(":memory:", loop, &store, &err) < 0)
        abort();
    registry = registry_new(store);
    make(kind_by_id(KIND_NAMESPACE), "metadata: {name: default}");
    for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
        const struct kind *kind = kind_named(bases[i][0]);

        if (kind)
            make(kind, bases[i][1]);
    }
}

static void check_object(const struct object *object, struct arena *arena)
{
    CLEANUP(object_unref) struct object *again = NULL;
    CLEANUP(buf_done) struct buf row = {0};
    struct err err = {0};

    if (object_parse(object->kind, (struct str){object->text, object->text_len}, &again, &err) < 0)
        abort();
    table_row(&row, again, TABLE_METADATA, 0);
    if (!object_json(again, arena))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum patch_type patches[] = {PATCH_JSON, PATCH_MERGE, PATCH_STRATEGIC, PATCH_APPLY};
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(written_done) struct written written = {0};
    struct identity who = {.user = "fuzz", .groups = {"system:authenticated"}, .group_count = 1};
    struct failure failure = {0};
    struct write write = {
        .who = &who, .manager = "fuzz", .arena = &arena, .failure = &failure, .now = 1, .dry_run = true};
    const struct kind *kind;
    const char *ns;
    struct json *doc;
    int result;

    if (!registry)
        start();
    if (size < 2 || size > 65536)
        return 0;
    kind = kind_by_id(1 + data[0] % KIND_TASK_DEFINITION);
    if (!kind)
        return 0;
    write.warnings = json_new_array(&arena);
    write.validation = data[1] & 0x80 ? FIELDS_STRICT : FIELDS_WARN;
    write.subresource = data[1] & 0x40 && kind->has_status ? "status" : "";
    ns = kind->namespaced ? "default" : "";
    if (json_parse((struct str){(const char *)data + 2, size - 2}, &arena, &doc, NULL, NULL) < 0)
        return 0;
    if ((data[1] & 0x3f) < 8)
        result = registry_create(registry, &write, kind, ns, doc, &written);
    else if ((data[1] & 0x3f) < 12)
        result = registry_update(registry, &write, kind, ns, "base", doc, &written);
    else
        result = registry_patch(registry, &write, kind, ns, "base", patches[data[1] % ARRAY_LEN(patches)],
                                doc, &written);
    if (result == 0 && written.object)
        check_object(written.object, &arena);
    else if (result < 0 && (!failure.code || !failure.message))
        abort();
    return 0;
}
