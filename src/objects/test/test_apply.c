/* Server-side apply and field ownership. Expected sets and sentences are what Kubernetes 1.33's managedfields
 * package says to the same steps. */
#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/patch.h"

#include <stdio.h>

#define T1 "2026-01-01T00:00:00Z"
#define T2 "2026-01-02T00:00:00Z"

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

struct world {
    struct arena arena;
    const char *kind, *now;
    struct json *live;
    struct failure failure;
};

static void world_done(struct world *world)
{
    arena_done(&world->arena);
}
static inline void world_done_cleanup_(struct world *world)
{
    world_done(world);
}

static struct apply_request request_of(struct world *world, const char *manager, bool force)
{
    return (struct apply_request){.type = schema_type_find(world->kind ? world->kind : "Pod"),
                                  .api_version = "v1",
                                  .manager = manager,
                                  .subresource = "",
                                  .now = world->now ? world->now : T1,
                                  .force = force};
}

/* body: the members after apiVersion and kind */
static struct json *doc_of(struct world *world, const char *body)
{
    return parse(&world->arena, arena_printf(&world->arena, "{'apiVersion':'v1','kind':'%s',%s}",
                                             world->kind ? world->kind : "Pod", body));
}

static int apply(struct world *world, const char *manager, bool force, const char *body)
{
    struct apply_request request = request_of(world, manager, force);
    struct json *result;

    if (patch_apply(&request, &world->arena, world->live, doc_of(world, body), &result, &world->failure) < 0)
        return -1;
    world->live = result;
    return 0;
}

static void applies(struct world *world, const char *manager, bool force, const char *body)
{
    if (apply(world, manager, force, body) < 0)
        fail_msg("%s", world->failure.message);
}

/* An update that sends no managedFields. */
static void update(struct world *world, const char *manager, const char *body)
{
    struct apply_request request = request_of(world, manager, false);
    struct json *doc = doc_of(world, body);

    managed_fields_update(&request, &world->arena, world->live, doc);
    world->live = doc;
}

static const char *text_of(struct world *world, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!value)
        return "";
    json_write_sorted(&text, value);
    for (size_t i = 0; i < text.len; i++)
        text.data[i] = text.data[i] == '"' ? '\'' : text.data[i];
    return arena_strndup(&world->arena, text.data, text.len);
}

/* The set of a manager's entry as text; "" when it has none. */
static const char *owns(struct world *world, const char *manager, const char *operation)
{
    JSON_EACH(json_at(world->live, "metadata.managedFields"), entry)
        if (streq(json_get_string(entry, "manager"), manager) &&
            streq(json_get_string(entry, "operation"), operation))
            return text_of(world, json_get(entry, "fieldsV1"));
    return "";
}

static void test_create_owns_what_it_sets_but_not_its_name(void **state)
{
    CLEANUP(world_done) struct world w = {0};

    (void)state;
    update(&w, "kubectl-create",
           "'metadata':{'name':'p','namespace':'n','uid':'u','creationTimestamp':'x','labels':{'a':'1'}},"
           "'spec':{'containers':[{'name':'c','image':'i','ports':[{'containerPort':80}],'resources':{}}],"
           "'nodeSelector':{'a':'b'},'restartPolicy':'Always'},'status':{'phase':'Pending'}");
    assert_string_equal(
        owns(&w, "kubectl-create", "Update"),
        "{'f:metadata':{'f:labels':{'.':{},'f:a':{}}},"
        "'f:spec':{'f:containers':{'k:{\\'name\\':\\'c\\'}':{'.':{},'f:image':{},'f:name':{},"
        "'f:ports':{'.':{},'k:{\\'containerPort\\':80,\\'protocol\\':\\'TCP\\'}':{'.':{},"
        "'f:containerPort':{}}},'f:resources':{}}},'f:nodeSelector':{},'f:restartPolicy':{}}}");
    assert_string_equal(text_of(&w, json_at(w.live, "metadata.managedFields.0.time")), "'" T1 "'");
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.0.fieldsType"), "FieldsV1");
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.0.apiVersion"), "v1");
}

static void test_apply_owns_what_it_says(void **state)
{
    CLEANUP(world_done) struct world w = {0};

    (void)state;
    applies(&w, "m", false,
            "'metadata':{'name':'p','labels':{'a':'1'},'finalizers':['x/f']},"
            "'spec':{'containers':[{'name':'c','image':'i'}],'imagePullSecrets':[{'name':'s'}]}");
    assert_string_equal(
        owns(&w, "m", "Apply"),
        "{'f:metadata':{'f:finalizers':{'v:\\'x/f\\'':{}},'f:labels':{'f:a':{}}},"
        "'f:spec':{'f:containers':{'k:{\\'name\\':\\'c\\'}':{'.':{},'f:image':{},'f:name':{}}},"
        "'f:imagePullSecrets':{'k:{\\'name\\':\\'s\\'}':{}}}}");
}

static void test_fields_no_longer_applied_go(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "m", false, "'metadata':{'name':'c','labels':{'l':'1'}},'data':{'a':'1','b':'1'}");
    applies(&w, "m", false, "'metadata':{'name':'c'},'data':{'b':'1','c':'1'}");
    assert_string_equal(text_of(&w, json_get(w.live, "data")), "{'b':'1','c':'1'}");
    assert_null(json_at(w.live, "metadata.labels"));
    assert_string_equal(json_at_string(w.live, "metadata.name"), "c");
}

static void test_metadata_nobody_owns_stays_when_the_last_owned_goes(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "m", false, "'metadata':{'name':'c','labels':{'l':'1'}}");
    json_set(&w.arena, json_get(w.live, "metadata"), "finalizers", *parse(&w.arena, "['x/f']"));
    applies(&w, "m", false, "'metadata':{'name':'c'},'data':{'x':'1'}");
    assert_string_equal(text_of(&w, json_at(w.live, "metadata.finalizers")), "['x/f']");
    assert_null(json_at(w.live, "metadata.labels"));
    assert_string_equal(json_at_string(w.live, "metadata.name"), "c");
}

static void test_null_takes_a_field_away(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "m", false, "'metadata':{'name':'c','labels':null},'data':{'x':'1','y':null}");
    assert_string_equal(text_of(&w, json_get(w.live, "data")), "{'x':'1'}");
    assert_int_equal(apply(&w, "n", false, "'metadata':{'name':'c'},'data':{'x':null}"), 0);
    assert_null(json_at(w.live, "data.x"));
}

static void test_fields_another_manager_owns_stay(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "m1", false, "'metadata':{'name':'c'},'data':{'a':'1','b':'1'}");
    applies(&w, "m2", false, "'metadata':{'name':'c'},'data':{'a':'1'}");
    assert_string_equal(owns(&w, "m1", "Apply"), "{'f:data':{'f:a':{},'f:b':{}}}");
    assert_string_equal(owns(&w, "m2", "Apply"), "{'f:data':{'f:a':{}}}");
    applies(&w, "m1", false, "'metadata':{'name':'c'}");
    assert_string_equal(text_of(&w, json_get(w.live, "data")), "{'a':'1'}");
    assert_string_equal(owns(&w, "m1", "Apply"), "");
    assert_string_equal(owns(&w, "m2", "Apply"), "{'f:data':{'f:a':{}}}");
}

static void test_list_items_no_longer_applied_go(void **state)
{
    CLEANUP(world_done) struct world w = {0};

    (void)state;
    applies(
        &w, "m", false,
        "'metadata':{'name':'p'},'spec':{'containers':[{'name':'a','image':'1'},{'name':'b','image':'1'}]}");
    update(&w, "u",
           "'metadata':{'name':'p'},'spec':{'containers':[{'name':'a','image':'1'},{'name':'b','image':'1'},"
           "{'name':'x','image':'1'}]}");
    applies(
        &w, "m", false,
        "'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'1'},{'name':'b','image':'2'}]}");
    assert_string_equal(text_of(&w, json_at(w.live, "spec.containers")),
                        "[{'image':'1','name':'c'},{'image':'2','name':'b'},{'image':'1','name':'x'}]");
}

static void test_one_conflict_names_manager_and_field(void **state)
{
    CLEANUP(world_done) struct world w = {0};

    (void)state;
    update(&w, "kubectl-client-side-apply",
           "'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'1'}]}");
    assert_int_equal(
        apply(&w, "m", false, "'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'2'}]}"),
        -1);
    assert_int_equal(w.failure.code, 409);
    assert_string_equal(w.failure.reason, "Conflict");
    assert_string_equal(w.failure.message,
                        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: "
                        ".spec.containers[name=\"c\"].image");
    assert_string_equal(text_of(&w, w.failure.causes),
                        "[{'field':'.spec.containers[name=\\'c\\'].image','message':'conflict with "
                        "\\'kubectl-client-side-apply\\' using v1','reason':'FieldManagerConflict'}]");
    assert_string_equal(json_at_string(w.live, "spec.containers.0.image"), "1");
}

static void test_several_conflicts_are_listed_by_manager(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "a", false, "'metadata':{'name':'c'},'data':{'x':'1','y':'1'}");
    applies(&w, "b", false, "'metadata':{'name':'c'},'data':{'z':'1'}");
    assert_int_equal(apply(&w, "m", false, "'metadata':{'name':'c'},'data':{'x':'2','y':'2','z':'2'}"), -1);
    assert_string_equal(w.failure.message,
                        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.x\n- .data.y\n"
                        "conflicts with \"b\":\n- .data.z");
    assert_int_equal(json_len(w.failure.causes), 3);
}

static void test_force_takes_what_others_own(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "a", false, "'metadata':{'name':'c'},'data':{'x':'1','y':'1'}");
    applies(&w, "m", true, "'metadata':{'name':'c'},'data':{'x':'2'}");
    assert_string_equal(text_of(&w, json_get(w.live, "data")), "{'x':'2','y':'1'}");
    assert_string_equal(owns(&w, "a", "Apply"), "{'f:data':{'f:y':{}}}");
    assert_string_equal(owns(&w, "m", "Apply"), "{'f:data':{'f:x':{}}}");
    applies(&w, "m", true, "'metadata':{'name':'c'},'data':{'x':'2','y':'2'}");
    assert_string_equal(owns(&w, "a", "Apply"), ""); /* nothing left: no entry */
    assert_int_equal(json_len(json_at(w.live, "metadata.managedFields")), 1);
}

static void test_updates_take_what_they_change(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "a", false, "'metadata':{'name':'c'},'data':{'x':'1','y':'1','z':'1'}");
    update(&w, "u", "'metadata':{'name':'c'},'data':{'x':'2','y':'1','n':'1'}");
    assert_string_equal(owns(&w, "a", "Apply"), "{'f:data':{'f:y':{}}}");
    assert_string_equal(owns(&w, "u", "Update"), "{'f:data':{'f:n':{},'f:x':{}}}");
    update(&w, "u", "'metadata':{'name':'c'},'data':{'x':'2','y':'1'}");
    assert_string_equal(owns(&w, "u", "Update"), "{'f:data':{'f:x':{}}}");
}

static void test_time_changes_with_what_a_manager_does(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    applies(&w, "a", false, "'metadata':{'name':'c'},'data':{'x':'1'}");
    w.now = T2;
    applies(&w, "a", false, "'metadata':{'name':'c'},'data':{'x':'1'}");
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.0.time"), T1);
    update(&w, "u", "'metadata':{'name':'c'},'data':{'x':'1','y':'1'}");
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.0.time"), T1);
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.1.time"), T2);
    applies(&w, "a", false, "'metadata':{'name':'c'},'data':{'x':'2'}");
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.0.time"), T2);
}

static void test_an_apply_that_changes_nothing_returns_the_same(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};
    struct json *before;

    (void)state;
    applies(&w, "a", false, "'metadata':{'name':'c','uid':'u','creationTimestamp':'t'},'data':{'x':'1'}");
    before = json_copy(&w.arena, w.live);
    w.now = T2;
    applies(&w, "a", false, "'metadata':{'name':'c','creationTimestamp':null},'data':{'x':'1'}");
    assert_true(json_equal(before, w.live));
}

static void test_objects_without_managers_belong_to_before_first_apply(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    w.live = doc_of(&w, "'metadata':{'name':'c','uid':'u'},'data':{'x':'1','y':'1'}");
    applies(&w, "m", false, "'metadata':{'name':'c'},'data':{'x':'1'}");
    assert_string_equal(owns(&w, "before-first-apply", "Update"), "{'f:data':{'.':{},'f:x':{},'f:y':{}}}");
    assert_string_equal(owns(&w, "m", "Apply"), "{'f:data':{'f:x':{}}}");
    assert_int_equal(apply(&w, "m", false, "'metadata':{'name':'c'},'data':{'x':'2'}"), -1);
}

static void test_managers_can_be_cleared_and_stay_so(void **state)
{
    static const char *const resets[] = {"[]", "[{}]"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(resets); i++) {
        CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

        update(&w, "u", "'metadata':{'name':'c'},'data':{'x':'1'}");
        update(
            &w, "u",
            arena_printf(&w.arena, "'metadata':{'name':'c','managedFields':%s},'data':{'x':'1'}", resets[i]));
        assert_null(json_at(w.live, "metadata.managedFields"));
        update(&w, "u", "'metadata':{'name':'c'},'data':{'x':'2'}");
        assert_null(json_at(w.live, "metadata.managedFields"));
    }
}

static void test_managers_that_are_sent_count(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

    (void)state;
    update(&w, "kubectl-client-side-apply", "'metadata':{'name':'c'},'data':{'x':'1'}");
    /* what kubectl apply --server-side does to objects of client-side apply */
    update(
        &w, "kubectl",
        "'metadata':{'name':'c','managedFields':[{'manager':'kubectl','operation':'Apply','apiVersion':'v1',"
        "'fieldsType':'FieldsV1','fieldsV1':{'f:data':{'f:x':{}}}}]},'data':{'x':'1'}");
    assert_int_equal(json_len(json_at(w.live, "metadata.managedFields")), 1);
    assert_string_equal(owns(&w, "kubectl", "Apply"), "{'f:data':{'f:x':{}}}");
    applies(&w, "kubectl", false, "'metadata':{'name':'c'},'data':{'x':'2'}");
    applies(&w, "kubectl", false, "'metadata':{'name':'c'},'data':{'y':'2'}");
    assert_string_equal(text_of(&w, json_get(w.live, "data")), "{'y':'2'}");
}

static void test_broken_managers_are_ignored(void **state)
{
    static const char *const broken[] = {
        "[{'manager':'x'}]",
        "[{'manager':'x','operation':'Update','apiVersion':'v1','fieldsType':'V2','fieldsV1':{}}]",
        "[{'manager':'x','operation':'Update','apiVersion':'v1','fieldsType':'FieldsV1','fieldsV1':{'f:a':1}}"
        "]",
        "[{'manager':'x','operation':'Update','apiVersion':'v1','fieldsType':'FieldsV1','fieldsV1':{'zz':{}}}"
        "]",
        "'text'",
        "[1]",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};

        update(&w, "u", "'metadata':{'name':'c'},'data':{'x':'1'}");
        update(
            &w, "v",
            arena_printf(&w.arena, "'metadata':{'name':'c','managedFields':%s},'data':{'x':'1'}", broken[i]));
        assert_string_equal(owns(&w, "u", "Update"), "{'f:data':{'.':{},'f:x':{}}}");
    }
}

static void test_kubectl_takes_over_what_client_side_apply_set(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};
    const char *annotated = "'metadata':{'name':'c','annotations':{'kubectl.kubernetes.io/"
                            "last-applied-configuration':'{\\\"apiVersion\\\":\\\"v1\\\",\\\"data\\\":"
                            "{\\\"x\\\":\\\"1\\\"}}'}},'data':{'x':'1','y':'1'}";

    (void)state;
    update(&w, "kubectl-client-side-apply", annotated);
    assert_int_equal(apply(&w, "other", false, "'metadata':{'name':'c'},'data':{'x':'2'}"), -1);
    assert_int_equal(apply(&w, "kubectl", false, "'metadata':{'name':'c'},'data':{'y':'2'}"), -1);
    applies(&w, "kubectl", false, "'metadata':{'name':'c'},'data':{'x':'2'}");
    assert_string_equal(json_at_string(w.live, "data.x"), "2");
    assert_string_equal(json_string(json_get(json_at(w.live, "metadata.annotations"),
                                             "kubectl.kubernetes.io/last-applied-configuration")),
                        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"2\"},\"kind\":\"ConfigMap\","
                        "\"metadata\":{\"name\":\"c\"}}\n");
}

static void test_more_than_ten_update_managers_are_merged(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};
    char body[1024] = "'metadata':{'name':'c'},'data':{", manager[8], now[32];
    size_t len = strlen(body);

    (void)state;
    for (int i = 0; i < 13; i++) {
        snprintf(manager, sizeof(manager), "m%02d", i);
        snprintf(now, sizeof(now), "2026-01-01T00:00:%02dZ", i);
        w.now = arena_strdup(&w.arena, now);
        len += (size_t)snprintf(body + len, sizeof(body) - len, "%s'k%d':'1'", i ? "," : "", i);
        update(&w, manager, arena_printf(&w.arena, "%s}", body));
    }
    assert_int_equal(json_len(json_at(w.live, "metadata.managedFields")), 10);
    assert_string_equal(owns(&w, "ancient-changes", "Update"),
                        "{'f:data':{'.':{},'f:k0':{},'f:k1':{},'f:k2':{},'f:k3':{}}}");
    assert_string_equal(owns(&w, "m12", "Update"), "{'f:data':{'f:k12':{}}}");
}

static void test_the_oldest_managers_fields_are_forgotten_beyond_a_mebibyte(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};
    CLEANUP(buf_done) struct buf body = {0};
    CLEANUP(buf_done) struct buf text = {0};
    const struct json *managers;

    (void)state;
    buf_puts(&body, "'metadata':{'name':'c'},'data':{'k':'1'");
    for (int i = 0; i < 20000; i++)
        buf_printf(&body, ",'key-%05d':'1'", i);
    buf_add(&body, "}", 2);
    for (int i = 0; i < 12; i++) { /* each has about 330 KiB of fields, all of them the same */
        w.now = arena_printf(&w.arena, "2026-01-01T00:00:%02dZ", i % 6); /* also of a clock that was set */
        applies(&w, arena_printf(&w.arena, "m%02d", i), false, body.data);
        assert_string_not_equal(owns(&w, arena_printf(&w.arena, "m%02d", i), "Apply"), "");
    }
    managers = json_at(w.live, "metadata.managedFields");
    assert_int_equal(json_len(managers), 4); /* three make up a mebibyte, and who writes */
    json_write(&text, managers);
    assert_in_range(text.len, 1 << 20, 3 << 19);
    assert_string_equal(owns(&w, "m00", "Apply"), "");
    applies(&w, "m11", false, "'metadata':{'name':'c'},'data':{'k':'1'}"); /* others own the rest as well */
    assert_int_equal(json_len(json_at(w.live, "data")), 20001);
}

static void test_a_manager_of_much_keeps_its_own_fields(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};
    CLEANUP(buf_done) struct buf body = {0};

    (void)state;
    buf_puts(&body, "'metadata':{'name':'c'},'data':{'k':'1'");
    for (int i = 0; i < 30000; i++)
        buf_printf(&body, ",'key-%05d-%040d':'1'", i, i);
    buf_add(&body, "}", 2);
    update(&w, "big", body.data);
    update(&w, "big", body.data); /* changes nothing */
    assert_string_not_equal(owns(&w, "big", "Update"), "");
}

/* A container whose name is as long as may be sent, with many variables. */
static const char *long_name(struct world *world, const char *value)
{
    struct buf text = {0};
    const char *body;

    buf_puts(&text, "'metadata':{'name':'p'},'spec':{'containers':[{'name':'");
    for (int i = 0; i < (1 << 20); i++)
        buf_putc(&text, 'x');
    buf_puts(&text, "','image':'i','env':[");
    for (int i = 0; i < 1000; i++)
        buf_printf(&text, "%s{'name':'v%d','value':'%s'}", i ? "," : "", i, value);
    buf_puts(&text, "]}]}");
    body = arena_strndup(&world->arena, text.data, text.len);
    buf_done(&text);
    return body;
}

static void test_long_names_are_not_repeated_for_each_field(void **state)
{
    CLEANUP(world_done) struct world world = {0};
    const char *first = long_name(&world, "a"), *second = long_name(&world, "b");

    (void)state;
    assert_int_equal(apply(&world, "one", false, first), 0);
    assert_int_equal(apply(&world, "two", false, second), -1);
    assert_int_equal(world.failure.code, 409);
    assert_int_equal(json_len(world.failure.causes), 100);
    assert_non_null(strstr(world.failure.message, "Apply failed with 1000 conflicts"));
    assert_non_null(strstr(world.failure.message, "\nand 900 more"));
    assert_true(world.arena.total < (size_t)256 << 20);
}

static void test_status_is_another_subresource(void **state)
{
    CLEANUP(world_done) struct world w = {0};
    struct apply_request request = {.type = schema_type_find("Pod"),
                                    .api_version = "v1",
                                    .manager = "kubelet",
                                    .subresource = "status",
                                    .now = T1};
    struct json *doc;

    (void)state;
    update(&w, "u", "'metadata':{'name':'p'},'spec':{'nodeName':'n'}");
    doc = doc_of(&w, "'metadata':{'name':'p','managedFields':[]},'spec':{'nodeName':'n'},"
                     "'status':{'conditions':[{'type':'Ready','status':'True'}]}");
    managed_fields_update(&request, &w.arena, w.live, doc);
    w.live = doc;
    assert_string_equal(owns(&w, "u", "Update"), "{'f:spec':{'f:nodeName':{}}}");
    assert_string_equal(owns(&w, "kubelet", "Update"),
                        "{'f:status':{'.':{},'f:conditions':{'.':{},'k:{\\'type\\':\\'Ready\\'}':{'.':{},"
                        "'f:status':{},'f:type':{}}}}}");
    assert_string_equal(json_at_string(w.live, "metadata.managedFields.0.subresource"), "status");
    /* status in an apply of the object itself is not this request's to say */
    applies(&w, "m", false, "'metadata':{'name':'p'},'spec':{'nodeName':'n'},'status':{'phase':'x'}");
    assert_null(json_at(w.live, "status.phase"));
    assert_string_equal(owns(&w, "m", "Apply"), "{'f:spec':{'f:nodeName':{}}}");
    assert_int_equal(json_len(json_at(w.live, "status.conditions")), 1);
}

static void test_bad_configurations_are_refused(void **state)
{
    static const struct {
        const char *body;
        int code;
        const char *message;
    } cases[] = {
        {"'metadata':{'name':'p','managedFields':[]}", 400, "metadata.managedFields must be nil"},
        {"'metadata':{'name':'p','namespace':'n'},'spec':{'containers':[{'image':'x'},{'image':'y'}]}", 500,
         "failed to create typed patch object (n/p; /v1, Kind=Pod): .spec.containers: duplicate entries for "
         "key [name=\"\"]"},
        {"'metadata':{'name':'p'},'foo':1", 500,
         "failed to create typed patch object (/p; /v1, Kind=Pod): .foo: field not declared in schema"},
        {"'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','env':[{'name':'E','x':1}]}]}", 500,
         "failed to create typed patch object (/p; /v1, Kind=Pod): "
         ".spec.containers[name=\"c\"].env[name=\"E\"].x: field not declared in schema"},
        {"'metadata':{'name':'p'},'spec':{'tolerations':[{'key':'k'},{'keys':'l'}]}", 500,
         "failed to create typed patch object (/p; /v1, Kind=Pod): .spec.tolerations[1].keys: field not "
         "declared in schema"},
        {"'metadata':{'name':'p','namespace':'n'},'spec':{'containers':[{'name':'c'},{'name':'c'}]}", 500,
         "failed to create typed patch object (n/p; /v1, Kind=Pod): .spec.containers: duplicate entries for "
         "key [name=\"c\"]"},
        {"'metadata':{'name':'p','namespace':'n'},'spec':{'containers':[{'name':'c','ports':"
         "[{'containerPort':1},{'containerPort':1,'protocol':'TCP'}]}]}",
         500,
         "failed to create typed patch object (n/p; /v1, Kind=Pod): .spec.containers[name=\"c\"].ports: "
         "duplicate entries for key [containerPort=1,protocol=\"TCP\"]"},
    };
    CLEANUP(world_done) struct world w = {0};
    struct apply_request request = request_of(&w, "m", false);
    struct json *result;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(
            patch_apply_check(
                &request, &w.arena,
                parse(&w.arena, arena_printf(&w.arena, "{'apiVersion':'v1','kind':'Pod',%s}", cases[i].body)),
                &w.failure),
            -1);
        assert_string_equal(w.failure.message, cases[i].message);
        assert_int_equal(apply(&w, "m", true, cases[i].body), -1);
        assert_int_equal(w.failure.code, cases[i].code);
        assert_string_equal(w.failure.message, cases[i].message);
    }
    assert_int_equal(
        patch_apply(&request, &w.arena, NULL, parse(&w.arena, "{'apiVersion':'v2'}"), &result, &w.failure),
        -1);
    assert_string_equal(w.failure.message, "Incorrect version specified in apply patch. Specified patch "
                                           "version: v2, expected: v1");
    assert_int_equal(patch_apply(&request, &w.arena, NULL, parse(&w.arena, "[1]"), &result, &w.failure), -1);
    assert_int_equal(w.failure.code, 400);
}

static void test_results_share_nothing_with_their_sources(void **state)
{
    CLEANUP(world_done) struct world w = {.kind = "ConfigMap"};
    struct json *before, *copy;

    (void)state;
    applies(&w, "a", false, "'metadata':{'name':'c','labels':{'l':'1'}},'data':{'x':'1'}");
    before = w.live;
    copy = json_copy(&w.arena, before);
    applies(&w, "b", false, "'metadata':{'name':'c'},'data':{'y':'1'}");
    json_set_string(&w.arena, json_get(w.live, "metadata"), "resourceVersion", "2");
    json_set_string(&w.arena, json_at(w.live, "metadata.labels"), "l", "2");
    assert_true(json_equal(before, copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_owns_what_it_sets_but_not_its_name),
        cmocka_unit_test(test_apply_owns_what_it_says),
        cmocka_unit_test(test_fields_no_longer_applied_go),
        cmocka_unit_test(test_metadata_nobody_owns_stays_when_the_last_owned_goes),
        cmocka_unit_test(test_null_takes_a_field_away),
        cmocka_unit_test(test_fields_another_manager_owns_stay),
        cmocka_unit_test(test_list_items_no_longer_applied_go),
        cmocka_unit_test(test_one_conflict_names_manager_and_field),
        cmocka_unit_test(test_several_conflicts_are_listed_by_manager),
        cmocka_unit_test(test_force_takes_what_others_own),
        cmocka_unit_test(test_updates_take_what_they_change),
        cmocka_unit_test(test_time_changes_with_what_a_manager_does),
        cmocka_unit_test(test_an_apply_that_changes_nothing_returns_the_same),
        cmocka_unit_test(test_objects_without_managers_belong_to_before_first_apply),
        cmocka_unit_test(test_managers_can_be_cleared_and_stay_so),
        cmocka_unit_test(test_managers_that_are_sent_count),
        cmocka_unit_test(test_broken_managers_are_ignored),
        cmocka_unit_test(test_kubectl_takes_over_what_client_side_apply_set),
        cmocka_unit_test(test_more_than_ten_update_managers_are_merged),
        cmocka_unit_test(test_the_oldest_managers_fields_are_forgotten_beyond_a_mebibyte),
        cmocka_unit_test(test_a_manager_of_much_keeps_its_own_fields),
        cmocka_unit_test(test_long_names_are_not_repeated_for_each_field),
        cmocka_unit_test(test_status_is_another_subresource),
        cmocka_unit_test(test_bad_configurations_are_refused),
        cmocka_unit_test(test_results_share_nothing_with_their_sources),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
