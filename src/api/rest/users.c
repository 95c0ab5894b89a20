/* Users and tokens. A user is a namespace of that name, with the lab's default quota and limits where it
 * is new, and a client certificate. A token is random, shown once, kept as its hash. */
#include "api/auth.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/file.h"

#define TOKEN_TTL_MAX (10LL * 366 * 86400)
#define TOKEN_BYTES   24

static int user_name(struct call *call, const struct json *doc, const char *key, const char **ret)
{
    const char *name = json_string_or(json_get(doc, key), "");
    size_t len = strlen(name);

    if (len == 0 || len > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != len ||
        name[0] == '-' || name[len - 1] == '-')
        return failure_bad_request(
            &call->failure, call->arena,
            "%s: a user's name has 1 to 63 of a-z, 0-9 and -, and starts and ends without -", key);
    *ret = name;
    return 0;
}

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

/* Hyperion's default: four pods, four cpus, 24 GiB; containers 512 MiB and one cpu unless they say. */
static int make_namespace(struct call *call, const char *name)
{
    struct made made = {
        .call = call,
        .write = {.arena = call->arena, .failure = &call->failure, .now = call->now, .manager = "berth"},
    };
    static const char quota[] =
        "{\"hard\":{\"pods\":\"4\",\"requests.cpu\":\"4\",\"requests.memory\":\"24Gi\",\"limits.cpu\":"
        "\"4\",\"limits.memory\":\"24Gi\"}}";
    static const char limits[] =
        "{\"limits\":[{\"type\":\"Container\",\"default\":{\"cpu\":\"1\",\"memory\":\"512Mi\"},"
        "\"defaultRequest\":{\"cpu\":\"1\",\"memory\":\"512Mi\"},\"max\":{\"cpu\":\"2\","
        "\"memory\":\"24Gi\"}}]}";
    bool is_new = !store_get(call->store, KIND_NAMESPACE, "", name);
    struct json *spec;

    if (make(&made, KIND_NAMESPACE, "", name, NULL) < 0)
        return -1;
    if (!is_new)
        return 0;
    if (json_parse(str_from(quota), call->arena, &spec, NULL, NULL) < 0 ||
        make(&made, KIND_RESOURCE_QUOTA, name, "default", spec) < 0)
        return -1;
    if (json_parse(str_from(limits), call->arena, &spec, NULL, NULL) < 0)
        return -1;
    return make(&made, KIND_LIMIT_RANGE, name, "default", spec);
}

static int write_kubeconfig(struct call *call, const char *user, const struct json *groups, const char *ns,
                            struct json *answer)
{
    const struct api_hooks *hooks = &call->api->config.hooks;
    CLEANUP(buf_done) struct buf text = {0};
    const char *names[IDENTITY_GROUPS_MAX + 1] = {0};
    struct err err = {0};
    size_t count = 0;

    JSON_EACH(groups, it)
        if (json_string(it) && count < IDENTITY_GROUPS_MAX)
            names[count++] = json_string(it);
    if (!hooks->kubeconfig)
        return failure_set(&call->failure, call->arena, 503, "ServiceUnavailable",
                           "this server has no certificate authority: start it with --https");
    if (hooks->kubeconfig(hooks->arg, user, names, ns, &text, &err) < 0)
        return failure_from_err(&call->failure, call->arena, &err);
    json_set(call->arena, answer, "kubeconfig", json_of_str(call->arena, buf_view(&text)));
    return 0;
}

void rest_users_add(struct call *call, const char *id)
{
    struct json *doc, *answer = json_new_object(call->arena);
    const char *name;

    (void)id;
    if (rest_body(call, &doc) < 0 || user_name(call, doc, "name", &name) < 0 ||
        make_namespace(call, name) < 0 ||
        write_kubeconfig(call, name, json_get(doc, "groups"), name, answer) < 0) {
        rest_fail(call);
        return;
    }
    json_set_string(call->arena, answer, "name", name);
    json_set_string(call->arena, answer, "namespace", name);
    call_reply_json(call, 201, answer);
}

/* Users are the namespaces that are not the system's. */
void rest_users_list(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena);
    struct json *items = json_set_array(call->arena, doc, "items");
    struct store_slice spaces = store_list(call->store, KIND_NAMESPACE, NULL);

    (void)id;
    OBJECTS_EACH(spaces, it) {
        struct json *user;

        if (streq((*it)->name, "default") || starts_with((*it)->name, "kube-"))
            continue;
        user = json_push_object(call->arena, items);
        json_set_string(call->arena, user, "name", (*it)->name);
        json_set_int(call->arena, user, "pods", (int64_t)store_count(call->store, KIND_POD, (*it)->name));
        json_set_int(call->arena, user, "jobs", (int64_t)store_count(call->store, KIND_JOB, (*it)->name));
    }
    call_reply_json(call, 200, doc);
}

void rest_kubeconfig(struct call *call, const char *id)
{
    struct json *answer = json_new_object(call->arena);
    struct json *groups = json_new_array(call->arena);
    bool admin = access_is_admin(&call->who);

    (void)id;
    if (admin)
        json_push_string(call->arena, groups, "system:masters");
    if (write_kubeconfig(call, call->who.user, groups, admin ? "default" : call->who.user, answer) < 0)
        rest_fail(call);
    else
        call_reply_json(call, 201, answer);
}

void rest_tokens_add(struct call *call, const char *id)
{
    struct json *doc, *entry = json_new_object(call->arena), *answer = json_new_object(call->arena), *groups;
    const char *user = call->who.user;
    char token[2 * TOKEN_BYTES + 1], token_id[17], hash[65], time[CLOCK_TEXT_MAX];
    CLEANUP(buf_done) struct buf text = {0};
    char *full;
    int64_t ttl;

    (void)id;
    if (rest_body(call, &doc) < 0 || (json_get(doc, "user") && !streq(json_get_string(doc, "user"), user) &&
                                      user_name(call, doc, "user", &user) < 0)) {
        rest_fail(call);
        return;
    }
    if (!streq(user, call->who.user) && !access_is_admin(&call->who)) {
        failure_set(&call->failure, call->arena, 403, "Forbidden",
                    "only an admin makes tokens for other users");
        rest_fail(call);
        return;
    }
    ttl = json_int(json_get(doc, "ttlSec"), 30 * 86400);
    if (ttl < 1 || ttl > TOKEN_TTL_MAX) {
        failure_bad_request(&call->failure, call->arena, "ttlSec not in 1..%lld", TOKEN_TTL_MAX);
        rest_fail(call);
        return;
    }
    random_hex(token, TOKEN_BYTES);
    random_hex(token_id, 8);
    full = arena_printf(call->arena, "berth_%s", token);
    json_set_string(call->arena, entry, "id", token_id);
    json_set_string(call->arena, entry, "user", user);
    groups = json_set_array(call->arena, entry, "groups");
    /* One's own token carries one's own rights, somebody else's that user's. */
    if (streq(user, call->who.user) && access_is_admin(&call->who))
        json_push_string(call->arena, groups, "system:masters");
    if (access_is_admin(&call->who))
        JSON_EACH(json_get(doc, "groups"), it)
            if (json_string(it))
                json_push(call->arena, groups, *it);
    json_set_string(call->arena, entry, "created", clock_format(call->now, time));
    json_set_string(call->arena, entry, "expires", clock_format(call->now + ttl * NSEC_PER_SEC, time));
    if (json_get_string(doc, "description"))
        json_set_string(call->arena, entry, "description", json_get_string(doc, "description"));
    json_write(&text, entry);
    auth_token_hash(full, hash);
    store_value_set(call->store, TOKENS_TABLE, hash, buf_view(&text));
    json_set_string(call->arena, answer, "id", token_id);
    json_set_string(call->arena, answer, "token", full);
    json_set_string(call->arena, answer, "user", user);
    json_set(call->arena, answer, "expires", *json_get(entry, "expires"));
    call_reply_json(call, 201, answer);
}

struct token_walk {
    struct call *call;
    struct json *items;
    const char *id, *hash;
};

static bool token_visible(const struct call *call, const struct json *entry)
{
    return access_is_admin(&call->who) || streq(json_get_string(entry, "user"), call->who.user);
}

static void visit_token(void *arg, const char *key, struct str value)
{
    struct token_walk *walk = arg;
    struct json *entry;

    if (json_parse(value, walk->call->arena, &entry, NULL, NULL) < 0 || !token_visible(walk->call, entry))
        return;
    if (walk->items)
        json_push(walk->call->arena, walk->items, *entry);
    else if (streq(json_get_string(entry, "id"), walk->id))
        walk->hash = arena_strdup(walk->call->arena, key);
}

void rest_tokens_list(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena);
    struct token_walk walk = {.call = call, .items = json_set_array(call->arena, doc, "items")};

    (void)id;
    store_values(call->store, TOKENS_TABLE, visit_token, &walk);
    call_reply_json(call, 200, doc);
}

void rest_tokens_revoke(struct call *call, const char *id)
{
    struct token_walk walk = {.call = call, .id = id};
    struct json *doc = json_new_object(call->arena);

    store_values(call->store, TOKENS_TABLE, visit_token, &walk);
    if (!walk.hash) {
        failure_set(&call->failure, call->arena, 404, "NotFound", "token \"%s\" not found", id);
        rest_fail(call);
        return;
    }
    store_value_set(call->store, TOKENS_TABLE, walk.hash, (struct str){0});
    json_set_string(call->arena, doc, "id", id);
    json_set_bool(call->arena, doc, "revoked", true);
    call_reply_json(call, 200, doc);
}
