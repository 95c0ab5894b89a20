#include "api/users.h"

#include "base/clock.h"

struct json *user_record(struct store *store, const char *name, struct arena *arena)
{
    struct str stored = store_value(store, USERS_TABLE, name);
    struct json *record;

    if (!stored.s || json_parse(stored, arena, &record, NULL, NULL) < 0 ||
        json_bool(json_get(record, "removed")))
        return NULL;
    return record;
}

bool user_is_disabled(const struct json *record)
{
    return json_bool(json_get(record, "disabled"));
}

int64_t user_certificates_from(struct store *store, const char *name, struct arena *arena)
{
    struct str stored = store_value(store, USERS_TABLE, name);
    struct json *record;
    int64_t from;

    if (!stored.s || json_parse(stored, arena, &record, NULL, NULL) < 0 ||
        !clock_parse(json_str(json_get(record, "certificatesFrom")), &from))
        return 0;
    return from;
}

/* ---- what a namespace has ---- */

struct made {
    struct call *call;
    struct write write;
};

static int make(struct made *made, int kind, const char *ns, const char *name, struct json *spec)
{
    struct arena *arena = made->call->arena;
    struct json *doc = json_new_object(arena);
    struct written written;

    if (store_get(made->call->store, kind, ns, name))
        return 0;
    json_set_string(arena, json_set_object(arena, doc, "metadata"), "name", name);
    if (spec)
        json_set(arena, doc, "spec", *spec);
    return registry_create(made->call->registry, &made->write, kind_by_id(kind), ns, doc, &written);
}

static struct json *quota_spec(const struct call *call)
{
    struct json *spec = json_new_object(call->arena);
    struct json *hard = json_set_object(call->arena, spec, "hard");

    for (const char *const *it = call->api->config.user_quota; it && *it; it++) {
        const char *value = strchr(*it, '=');

        json_set_string(call->arena, hard, arena_strndup(call->arena, *it, (size_t)(value - *it)), value + 1);
    }
    return spec;
}

int user_provision(struct call *call, const char *name)
{
    static const char limits[] =
        "{\"limits\":[{\"type\":\"Container\",\"default\":{\"cpu\":\"1\",\"memory\":\"512Mi\"},"
        "\"defaultRequest\":{\"cpu\":\"1\",\"memory\":\"512Mi\"},\"max\":{\"cpu\":\"2\","
        "\"memory\":\"24Gi\"}}]}";
    struct made made = {
        .call = call,
        .write = {.arena = call->arena, .failure = &call->failure, .now = call->now, .manager = "berth"},
    };
    struct json *spec;

    if (make(&made, KIND_NAMESPACE, "", name, NULL) < 0)
        return -1;
    if (call->api->config.user_quota && *call->api->config.user_quota &&
        make(&made, KIND_RESOURCE_QUOTA, name, "default", quota_spec(call)) < 0)
        return -1;
    if (json_parse(str_from(limits), call->arena, &spec, NULL, NULL) < 0)
        return -1;
    return make(&made, KIND_LIMIT_RANGE, name, "default", spec);
}
