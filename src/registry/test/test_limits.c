/* Objects at the edge of what may be sent: every list, map and number of every kind, as large as it is taken
 * and larger. Each write ends soon and takes memory in proportion to its text, whether it is taken or not. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "base/yaml.h"
#include "objects/names.h"
#include "registry/registry.h"

#include <time.h>

#define WRITE_NSEC  (3 * NSEC_PER_SEC) /* processor time of one write, under sanitizers as well */
#define WRITE_BYTES ((size_t)512 << 20)
#define ITEMS_MANY  (SCHEMA_VALUES_MAX + 1)
#define DEPTH_MAX   9

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct identity ann;
};

static int setup(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = NEW(struct fixture);
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure};
    struct written written;
    struct err err = {0};
    struct json *doc;

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    f->registry = registry_new(f->store);
    f->ann = (struct identity){.user = "ann", .groups = {"system:authenticated"}, .group_count = 1};
    assert_int_equal(yaml_parse_one(STR("metadata: {name: default}"), &arena, &doc, &err), 0);
    assert_int_equal(registry_create(f->registry, &write, kind_by_id(KIND_NAMESPACE), "", doc, &written), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    registry_free(f->registry);
    store_close(f->store);
    loop_free(f->loop);
    free(f);
    return 0;
}

static int64_t processor_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

/* A dry run; the message of what is wrong with it in the arena, NULL: it is taken. */
static const char *send(struct fixture *f, struct arena *arena, const struct kind *kind, struct json *doc,
                        const char *what)
{
    struct failure failure = {0};
    struct write write = {.who = &f->ann,
                          .manager = "test",
                          .arena = arena,
                          .failure = &failure,
                          .dry_run = true,
                          .warnings = json_new_array(arena)};
    CLEANUP(written_done) struct written written = {0};
    int64_t start = processor_time(), took;
    int r = registry_create(f->registry, &write, kind, kind->namespaced ? "default" : "", doc, &written);

    took = processor_time() - start;
    if (took > WRITE_NSEC || arena->total > WRITE_BYTES)
        fail_msg("%s: %lld ms, %zu bytes", what, (long long)(took / NSEC_PER_MSEC), arena->total);
    return r < 0 ? failure.message : NULL;
}

/* ---- every list and map ---- */

struct walk {
    struct fixture *f;
    const struct kind *kind;
    const struct schema_field *path[DEPTH_MAX];
    size_t depth, count, lists;
    bool same; /* items that are equal, else each its own */
};

static struct json scalar(struct arena *arena, const struct schema_field *field, size_t i)
{
    switch ((enum schema_base)field->base) {
    case SCHEMA_INT32:
    case SCHEMA_INT64:
    case SCHEMA_DOUBLE:
    case SCHEMA_INT_OR_STRING:
        return json_of_int((int64_t)i);
    case SCHEMA_BOOL:
        return json_of_bool(true);
    case SCHEMA_TIME:
        return json_of_string_ref("2026-01-01T00:00:00Z");
    case SCHEMA_MICRO_TIME:
        return json_of_string_ref("2026-01-01T00:00:00.000000Z");
    case SCHEMA_BYTES:
        return json_of_string_ref("YQ==");
    case SCHEMA_QUANTITY:
        return json_of_string_ref("1");
    case SCHEMA_MESSAGE:
    case SCHEMA_ANY:
        return (struct json){.type = JSON_OBJECT};
    case SCHEMA_STRING:
        break;
    }
    return json_of_str(arena, str_from(arena_printf(arena, "x%zu", i)));
}

/* An item with its strings and numbers set, so that checks get beyond what is missing. */
static struct json item_of(const struct walk *walk, struct arena *arena, const struct schema_field *field,
                           size_t i)
{
    struct json item = scalar(arena, field, walk->same ? 0 : i);

    if (field->base != SCHEMA_MESSAGE || walk->count > SCHEMA_LIST_MAX)
        return item;
    for (size_t k = 0; k < field->type->field_count && item.len < 3; k++)
        if (field->type->fields[k].shape == SCHEMA_ONE && field->type->fields[k].base == SCHEMA_STRING)
            json_set(arena, &item, field->type->fields[k].name,
                     scalar(arena, &field->type->fields[k], walk->same ? 0 : i));
    return item;
}

static struct json *place(struct arena *arena, struct json *at, const struct schema_field *field)
{
    struct json *list;

    if (field->shape == SCHEMA_ONE)
        return json_set_object(arena, at, field->name);
    if (field->shape == SCHEMA_MAP)
        return json_set_object(arena, json_set_object(arena, at, field->name), "a");
    list = json_set_array(arena, at, field->name);
    return json_push_object(arena, list);
}

static void fill(const struct walk *walk, const struct schema_field *field)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf what = {0};
    struct json *doc = json_new_object(&arena), *at = doc, *list;

    json_set_string(&arena, json_set_object(&arena, doc, "metadata"), "name", "x");
    buf_puts(&what, walk->kind->name);
    for (size_t i = 0; i < walk->depth; i++) {
        buf_printf(&what, ".%s", walk->path[i]->name);
        at = i == 0 && streq(walk->path[i]->name, "metadata") ? json_get(doc, "metadata")
                                                              : place(&arena, at, walk->path[i]);
    }
    buf_printf(&what, ".%s × %zu", field->name, walk->count);
    list = field->shape == SCHEMA_LIST ? json_set_array(&arena, at, field->name)
                                       : json_set_object(&arena, at, field->name);
    for (size_t i = 0; i < walk->count; i++)
        if (field->shape == SCHEMA_LIST)
            json_push(&arena, list, item_of(walk, &arena, field, i));
        else
            json_set(&arena, list, arena_printf(&arena, "k%zu", i), item_of(walk, &arena, field, i));
    send(walk->f, &arena, walk->kind, doc, what.data);
}

static bool is_on_path(const struct walk *walk, const struct schema_type *type)
{
    for (size_t i = 0; i < walk->depth; i++)
        if (walk->path[i]->type == type)
            return true;
    return false;
}

/* Each field of each type once for each kind, at the first place where it stands. */
static void walk_type(struct walk *walk, const struct schema_type *type, struct json *seen,
                      struct arena *arena)
{
    for (size_t i = 0; i < type->field_count; i++) {
        const struct schema_field *field = &type->fields[i];
        const char *key = arena_printf(arena, "%s.%s", type->name, field->name);

        if (json_get(seen, key))
            continue;
        json_set_bool(arena, seen, key, true);
        if (field->shape != SCHEMA_ONE) {
            walk->lists++;
            fill(walk, field);
        }
        if (field->base != SCHEMA_MESSAGE || walk->depth == DEPTH_MAX || is_on_path(walk, field->type))
            continue;
        walk->path[walk->depth++] = field;
        walk_type(walk, field->type, seen, arena);
        walk->depth--;
    }
}

static void walk_all(struct fixture *f, size_t count, bool same)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *seen = json_new_object(&arena);
    size_t lists = 0;

    for (size_t i = 0; i < kind_count; i++) {
        struct walk walk = {.f = f, .kind = &kinds[i], .count = count, .same = same};

        if (!kinds[i].stored)
            continue;
        if (kinds[i].id == KIND_POD) /* whatever another kind showed before: pods have the most rules */
            seen = json_new_object(&arena);
        walk_type(&walk, kind_schema(&kinds[i]), seen, &arena);
        lists += walk.lists;
    }
    assert_true(lists > 100);
}

static void test_lists_as_long_as_they_may_be_cost_little(void **state)
{
    walk_all(*state, SCHEMA_SHORT_MAX, true);
    walk_all(*state, SCHEMA_LIST_MAX, false);
}

static void test_longer_lists_are_refused_before_anything_is_made_of_them(void **state)
{
    walk_all(*state, ITEMS_MANY, true);
}

/* ---- what was seen to kill the daemon ---- */

static struct json *parse(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json *doc;

    if (yaml_parse_one(str_from(text), arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    return doc;
}

static const char *send_text(struct fixture *f, struct arena *arena, int kind, const char *text)
{
    const char *message = send(f, arena, kind_by_id(kind), parse(arena, text), text);

    return message ? message : "";
}

static void test_numbers_beyond_reason_are_refused(void **state)
{
#define POD_OF(resources)                                                                                    \
    "{metadata: {name: x}, spec: {containers: [{name: c, image: i, resources: {" resources "}}]}}"
#define CLAIM_OF(size)                                                                                       \
    "{metadata: {name: x}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: " size "}}}" \
    "}"
#define JOB_OF(spec)                                                                                         \
    "{metadata: {name: x}, spec: {" spec                                                                     \
    ", template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}"
#define TRAINING_OF(spec) "{metadata: {name: x}, spec: {image: i, scriptPath: /a.py, " spec "}}"
    static const struct {
        int kind;
        const char *text, *says;
    } cases[] = {
        {KIND_POD, POD_OF("limits: {nvidia.com/gpu: '4294967295'}"), "must be less than or equal to 65536"},
        {KIND_POD, POD_OF("limits: {nvidia.com/gpu: '4294967297'}"), "must be less than or equal to 65536"},
        {KIND_POD, POD_OF("limits: {nvidia.com/gpu: '65536'}"), ""},
        {KIND_POD, POD_OF("limits: {memory: 1e40}"), AMOUNT_RULE},
        {KIND_POD, POD_OF("requests: {cpu: 1e30}"), AMOUNT_RULE},
        {KIND_POD, POD_OF("limits: {example.com/x: 1e200}"), AMOUNT_RULE},
        {KIND_POD, POD_OF("limits: {\"nvidia.com/gpu\\0x\": '1'}"), "a key holds a NUL byte"},
        {KIND_PVC, CLAIM_OF("1e40"), AMOUNT_RULE},
        {KIND_PVC, CLAIM_OF("8E"), ""},
        {KIND_JOB, JOB_OF("completionMode: Indexed, completions: 2147483647"),
         "must be less than or equal to 100000 when completion mode is Indexed"},
        {KIND_JOB, JOB_OF("completionMode: Indexed, completions: 100000"), ""},
        {KIND_JOB, JOB_OF("parallelism: 2147483647"), "must be less than or equal to 10000"},
        {KIND_JOB, JOB_OF("completions: 2147483647"), ""},
        {KIND_TRAINING_JOB, TRAINING_OF("estimatedHours: 1.0e300"), "must be no more than 1000000"},
        {KIND_TRAINING_JOB, TRAINING_OF("estimatedHours: 99999999999999999999"), "estimatedHours"},
        {KIND_TRAINING_JOB, TRAINING_OF("memory: 1e40"), AMOUNT_RULE},
        {KIND_TRAINING_JOB, TRAINING_OF("maxGPUs: 4097"), "must be no more than 4096"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const char *message = send_text(*state, &arena, cases[i].kind, cases[i].text);

        if (*cases[i].says ? !strstr(message, cases[i].says) : *message)
            fail_msg("%s\n%s", cases[i].text, message);
    }
}

static void test_errors_and_their_text_are_bounded(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = parse(&arena, POD_OF("")), *env, *var;
    const char *message;

    env = json_set_array(&arena, json_at(doc, "spec.containers.0"), "env");
    for (int i = 0; i < SCHEMA_SHORT_MAX; i++) {
        var = json_push_object(&arena, env);
        json_set_string(&arena, var, "name", arena_printf(&arena, "%d=%0*d", i, 2000, 0));
    }
    message = send(*state, &arena, kind_by_id(KIND_POD), doc, "variables");
    assert_non_null(strstr(message, ", and 900 more]"));
    assert_true(strlen(message) < (size_t)FIELD_ERRORS_MAX * (2 * FIELD_TEXT_MAX + 1024));
    assert_true(arena.total < (size_t)64 << 20);
}

static void test_long_values_in_errors_are_cut(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf long_name = {0};
    struct json *doc = parse(&arena, POD_OF(""));
    const char *message;

    for (int i = 0; i < 1 << 20; i++)
        buf_puts(&long_name, "é");
    json_set_string(&arena, json_at(doc, "spec.containers.0"), "name", long_name.data);
    message = send(*state, &arena, kind_by_id(KIND_POD), doc, "a long name");
    assert_true(strlen(message) < (size_t)4 * FIELD_TEXT_MAX);
    assert_true(utf8_valid(str_from(message)));
}

/* A long key with many values below it: no path of its own for each of them. */
static void test_descriptions_below_a_long_key_cost_little(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = parse(&arena, "{metadata: {name: x}, spec: {taskTemplateName: t}}"), *below;
    char *key = arena_alloc(&arena, (1 << 20) + 1);

    memset(key, 'k', 1 << 20);
    key[1 << 20] = '\0';
    below =
        json_set_object(&arena, json_set_object(&arena, json_get(doc, "spec"), "userValuesDescription"), key);
    for (int i = 0; i < 100000; i++)
        json_set_string(&arena, below, arena_printf(&arena, "v%d", i), i == 7 ? "wrong" : "(Optional) x");
    assert_non_null(strstr(send(*state, &arena, kind_by_id(KIND_TASK_DEFINITION), doc, "descriptions"),
                           "must begin with '(Required)'"));
    assert_true(arena.total < (size_t)128 << 20);
}

static void test_events_about_long_names_are_kept(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure};
    struct json *doc = parse(&arena, "{metadata: {name: x}}");
    struct written written;
    char name[254];

    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    json_set_string(&arena, json_get(doc, "metadata"), "name", name);
    assert_int_equal(
        registry_create(f->registry, &write, kind_by_id(KIND_CONFIG_MAP), "default", doc, &written), 0);
    registry_event(f->registry, written.object, "Normal", "Said", "once");
    registry_event(f->registry, store_get(f->store, KIND_CONFIG_MAP, "default", name), "Normal", "Said",
                   "once");
    assert_int_equal(store_count(f->store, KIND_EVENT, "default"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists_as_long_as_they_may_be_cost_little, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longer_lists_are_refused_before_anything_is_made_of_them, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_numbers_beyond_reason_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_and_their_text_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_values_in_errors_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_descriptions_below_a_long_key_cost_little, setup, teardown),
        cmocka_unit_test_setup_teardown(test_events_about_long_names_are_kept, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
