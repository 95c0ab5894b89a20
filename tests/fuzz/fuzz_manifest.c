/* Whole manifests with sizes and numbers at their edges. The first byte picks the kind; then each step walks
 * the kind's fields, one byte for each level, and puts a value of the table of edges there: numbers that do
 * not fit, amounts beyond reason, long texts, lists and maps from empty to longer than allowed. What comes
 * out goes the way of a request (decoding, defaults, checks, warnings, ownership of fields, store), then what
 * reads stored objects looks at it: the queue's and the quota's sums, the Job and garbage controllers, the
 * table. Each input has PROCESSOR_MS and MEMORY_BYTES; libFuzzer's -timeout and -rss_limit_mb are the net
 * below. */
#include "base/clock.h"
#include "base/yaml.h"
#include "control/gc.h"
#include "control/job.h"
#include "control/limitrange.h"
#include "control/quota.h"
#include "objects/table.h"
#include "queue/need.h"
#include "registry/registry.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define STEPS_MAX    12
#define PROCESSOR_MS 10000 /* under sanitizers, on a busy machine */
#define MEMORY_BYTES ((size_t)1 << 30)
#define TEXT_LONG    (1 << 20)

static struct registry *registry;
static struct store *store;

static const struct {
    const char *kind, *text;
} bases[] = {
    {"Pod", "{metadata: {name: base}, spec: {containers: [{name: c, image: 'x:1', resources: {limits: "
            "{nvidia.com/gpu: 1}}}]}}"},
    {"Job", "{metadata: {name: base}, spec: {completionMode: Indexed, completions: 2, template: {spec: "
            "{restartPolicy: Never, containers: [{name: c, image: 'x:1'}]}}}}"},
    {"PersistentVolumeClaim",
     "{metadata: {name: base}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"},
    {"Service", "{metadata: {name: base}, spec: {ports: [{port: 80}], selector: {a: b}}}"},
    {"ResourceQuota", "{metadata: {name: base}, spec: {hard: {pods: '5'}}}"},
    {"LimitRange", "{metadata: {name: base}, spec: {limits: [{type: Container, max: {cpu: '2'}}]}}"},
    {"TrainingJob", "{metadata: {name: base}, spec: {image: 'x:1', scriptPath: /custom/a.py}}"},
    {"TaskDefinition", "{metadata: {name: base}, spec: {taskTemplateName: t}}"},
};

struct input {
    const uint8_t *at, *end;
};

static uint8_t next(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- edges ---- */

static const int64_t ints[] = {0,         1,         -1,         INT32_MAX,        INT32_MIN,
                               INT64_MAX, INT64_MIN, UINT32_MAX, (int64_t)1 << 32, ((int64_t)1 << 32) + 1,
                               65536,     65537,     100001,     9999999999,       10};
static const char *const texts[] = {"",
                                    "1e40",
                                    "-1e40",
                                    "4294967295",
                                    "4294967297",
                                    "9223372036854775807",
                                    "8Ei",
                                    "1e-40",
                                    "0.0000000001",
                                    "-1",
                                    "1e9999999999",
                                    "x",
                                    "Indexed",
                                    "a/b",
                                    "../..",
                                    "/",
                                    "2262-04-12T00:00:00Z",
                                    "9999-12-31T23:59:59Z",
                                    "0001-01-01T00:00:00Z",
                                    "0-2147483646",
                                    "1,2,3-9999999999"};
static const size_t counts[] = {0, 1, 2, 100, 101, 1001, 10001, 100001};

static struct json edge_scalar(struct arena *arena, struct input *in)
{
    uint8_t which = next(in);
    char *text;

    if (which < 64)
        return json_of_int(ints[which % ARRAY_LEN(ints)]);
    if (which < 160)
        return json_of_string_ref(texts[which % ARRAY_LEN(texts)]);
    if (which < 176)
        return json_of_real(which & 1 ? 1e300 : -0.5);
    if (which < 184)
        return json_of_bool(which & 1);
    if (which < 192)
        return (struct json){.type = JSON_NULL};
    if (which < 200) {
        text = arena_alloc(arena, TEXT_LONG + 1);
        memset(text, 'a' + which % 3, TEXT_LONG);
        text[TEXT_LONG] = '\0';
        return json_of_string_ref(text);
    }
    if (which < 208)
        return json_of_str(arena, (struct str){"a\0b", 3});
    return json_of_int(which);
}

static struct json edge_list(struct arena *arena, const struct schema_field *field, struct input *in)
{
    size_t count = counts[next(in) % ARRAY_LEN(counts)];
    bool map = field->shape == SCHEMA_MAP;
    struct json value = {.type = map ? JSON_OBJECT : JSON_ARRAY}, item = {.type = JSON_OBJECT};

    if (field->base != SCHEMA_MESSAGE)
        item = edge_scalar(arena, in);
    for (size_t i = 0; i < count; i++)
        if (map)
            json_set(arena, &value, arena_printf(arena, "k%zu", i), item);
        else
            json_push(arena, &value, item);
    return value;
}

/* Goes down the fields of a message and changes one. */
static void change(struct arena *arena, const struct schema_type *type, struct json *doc, struct input *in,
                   int depth)
{
    const struct schema_field *field = &type->fields[next(in) % type->field_count];
    struct json *there = json_get(doc, field->name);
    bool down = field->base == SCHEMA_MESSAGE && depth < 10 && next(in) < 200;

    if (!down) {
        json_set(arena, doc, field->name,
                 field->shape == SCHEMA_ONE ? edge_scalar(arena, in) : edge_list(arena, field, in));
        return;
    }
    if (field->shape == SCHEMA_ONE) {
        if (!json_is(there, JSON_OBJECT))
            there = json_set_object(arena, doc, field->name);
        change(arena, field->type, there, in, depth + 1);
    } else if (field->shape == SCHEMA_LIST) {
        if (!json_is(there, JSON_ARRAY) || !there->len || !json_is(json_item(there, 0), JSON_OBJECT)) {
            there = json_set_array(arena, doc, field->name);
            json_push_object(arena, there);
        }
        change(arena, field->type, json_item(there, 0), in, depth + 1);
    }
}

/* ---- what happens to it ---- */

static void start(void)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct loop *loop = loop_new();
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure};
    struct written written;
    struct err err = {0};
    struct json *doc;

    if (store_open(":memory:", loop, &store, &err) < 0)
        abort();
    registry = registry_new(store);
    if (yaml_parse_one(STR("metadata: {name: default}"), &arena, &doc, NULL) < 0 ||
        registry_create(registry, &write, kind_by_id(KIND_NAMESPACE), "", doc, &written) < 0)
        abort();
}

static struct json *base_of(struct arena *arena, const struct kind *kind)
{
    struct json *doc = NULL;

    for (size_t i = 0; i < ARRAY_LEN(bases); i++)
        if (streq(bases[i].kind, kind->name) &&
            yaml_parse_one(str_from(bases[i].text), arena, &doc, NULL) < 0)
            abort();
    if (!doc && yaml_parse_one(STR("{metadata: {name: base}}"), arena, &doc, NULL) < 0)
        abort();
    return doc;
}

static const struct object *by_uid(void *arg, const char *uid)
{
    return store_by_uid(arg, uid);
}

static void dependents(void *arg, const char *uid, void (*fn)(void *fn_arg, const struct object *object),
                       void *fn_arg)
{
    store_dependents(arg, uid, fn, fn_arg);
}

/* Whoever reads what is stored, also after a restart. */
static void look_at(const struct object *object, struct arena *arena)
{
    static struct effects effects;
    struct gc_world world = {by_uid, dependents, store};
    struct json *doc = object_json(object, arena);
    struct quota_usage usage;
    struct pod_need need;

    effects = (struct effects){.arena = arena};
    quota_measure(object->kind, doc, arena, &usage);
    gc_look(object, &world, &effects);
    if (object->kind->id == KIND_POD || object->kind->id == KIND_JOB) {
        const struct json *spec = json_get(doc, "spec");

        pod_need(object->kind->id == KIND_JOB ? json_at(spec, "template.spec") : spec, arena, &need);
        if (need.cpu_milli < 0 || need.mem_mib < 0 || need.gpus < 0)
            abort();
    }
    if (object->kind->id == KIND_JOB) {
        struct job_view view = {.job = object, .now = clock_now()};

        job_look(&view, &effects);
    }
    if (object->kind->id == KIND_RESOURCE_QUOTA) {
        struct resource_list used;
        struct quota quota;

        quota_read(doc, arena, &quota);
        quota_zero(&quota, arena, &used);
        quota_add(&quota, &usage, 0, &used);
    }
    if (object->kind->id == KIND_LIMIT_RANGE)
        limitrange_fill(doc, arena, base_of(arena, kind_by_id(KIND_POD)));
}

static void send(const struct kind *kind, struct json *doc, struct arena *arena)
{
    static const struct identity ann = {.user = "ann", .groups = {"system:authenticated"}, .group_count = 1};
    const char *ns = kind->namespaced ? "default" : "";
    struct failure failure = {0};
    struct write write = {.who = &ann,
                          .manager = "fuzz",
                          .arena = arena,
                          .failure = &failure,
                          .warnings = json_new_array(arena)};
    struct delete_options options = {.has_grace = true, .propagation = PROPAGATE_BACKGROUND};
    CLEANUP(object_unref) struct object *made = NULL;
    struct written written;
    struct json *status;

    if (registry_create(registry, &write, kind, ns, doc, &written) < 0) {
        status = failure_to_json(&failure, arena);
        if (!json_is(status, JSON_OBJECT) || !failure.code)
            abort();
        return;
    }
    made = object_ref(written.object);
    look_at(made, arena);
    write.who = NULL;
    registry_delete(registry, &write, kind, ns, made->name, &options, &written);
}

static int64_t processor_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / NSEC_PER_MSEC;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct input in = {data, data + size};
    const struct kind *kind;
    struct json *doc;
    int64_t begin;

    if (!registry)
        start();
    kind = &kinds[next(&in) % kind_count];
    if (!kind->stored || kind->id == KIND_NAMESPACE)
        return 0;
    doc = base_of(&arena, kind);
    for (int i = 0; i < STEPS_MAX && in.at < in.end; i++)
        change(&arena, kind_schema(kind), doc, &in, 0);
    begin = processor_ms();
    send(kind, doc, &arena);
    if (processor_ms() - begin > PROCESSOR_MS || arena.total > MEMORY_BYTES) {
        fprintf(stderr, "%s: %lld ms, %zu bytes\n", kind->name, (long long)(processor_ms() - begin),
                arena.total);
        abort();
    }
    return 0;
}
