/* Users: added, listed, disabled, removed. A user is a record (api/users.h) and a namespace of the same name,
 * with the lab's default quota and limits where they are new. */
#include "api/users.h"

#include "api/auth.h"
#include "api/credentials.h"
#include "api/directory.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "notify/deliver.h"
#include "objects/names.h"
#include "objects/object_doc.h"

int rest_user_name(struct call *call, const char *name, const char **ret)
{
    size_t len = name ? strlen(name) : 0;

    if (len == 0 || len > 63 || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != len ||
        name[0] == '-' || name[len - 1] == '-')
        return failure_bad_request(
            &call->failure, call->arena,
            "invalid user name '%.64s': it must have 1 to 63 of a-z, 0-9 and -, and start and end without -",
            name ? name : "");
    if (streq(name, ADMIN_USER) || streq(name, "default") || starts_with(name, "kube-"))
        return failure_bad_request(&call->failure, call->arena,
                                   "invalid user name '%s': Berth uses it for itself", name);
    *ret = name;
    return 0;
}

int rest_groups(struct call *call, const struct json *list, struct json **ret)
{
    struct json *groups = json_new_array(call->arena);

    if (list && !json_is(list, JSON_ARRAY) && !json_is(list, JSON_NULL))
        return failure_bad_request(&call->failure, call->arena, "groups must be a list of names");
    if (json_len(list) > CREDENTIAL_GROUPS_MAX)
        return failure_bad_request(&call->failure, call->arena, "more than %d groups", CREDENTIAL_GROUPS_MAX);
    JSON_EACH(list, it) {
        const char *name = json_string(it);

        if (!name || !*name || strlen(name) > CREDENTIAL_GROUP_MAX || strpbrk(name, ", \t\r\n"))
            return failure_bad_request(&call->failure, call->arena,
                                       "a group's name has 1 to %d characters, without spaces and commas",
                                       CREDENTIAL_GROUP_MAX);
        json_push_string(call->arena, groups, name);
    }
    *ret = groups;
    return 0;
}

static void keep_record(struct call *call, const char *name, const struct json *record)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, record);
    store_value_set(call->store, USERS_TABLE, name, buf_view(&text));
}

/* The record as it was, also of a user who was removed; a new one otherwise. */
static struct json *need_record(struct call *call, const char *name)
{
    struct str stored = store_value(call->store, USERS_TABLE, name);
    char time[CLOCK_TEXT_MAX];
    struct json *record;

    if (stored.s && json_parse(stored, call->arena, &record, NULL, NULL) == 0)
        return record;
    record = json_new_object(call->arena);
    json_set_string(call->arena, record, "name", name);
    json_set_array(call->arena, record, "groups");
    json_set_string(call->arena, record, "created", clock_format(call->now, time));
    return record;
}

static bool is_system_space(const char *name)
{
    return streq(name, "default") || starts_with(name, "kube-");
}

/* Has a record, or (from before there were records) a namespace that is not shared. */
static bool user_exists(struct call *call, const char *name)
{
    return user_record(call->store, name, call->arena) ||
           (!is_system_space(name) && store_get(call->store, KIND_NAMESPACE, "", name));
}

static void not_found(struct call *call, const char *name)
{
    failure_set(&call->failure, call->arena, 404, "NotFound", "user '%s' not found", name);
    rest_fail(call);
}

/* ---- add ---- */

static void count_user(void *arg, const char *key, struct str value)
{
    (void)key, (void)value;
    ++*(size_t *)arg;
}

static int check_room(struct call *call)
{
    size_t count = 0;

    store_values(call->store, USERS_TABLE, count_user, &count);
    return count < USERS_MAX ? 0
                             : failure_set(&call->failure, call->arena, 429, "TooManyRequests",
                                           "there are %zu users already, %d are the most", count, USERS_MAX);
}

static void answer_user(struct call *call, struct json *answer, const char *name, bool is_new,
                        const struct os_user *account)
{
    json_set_string(call->arena, answer, "name", name);
    json_set_string(call->arena, answer, "namespace", name);
    json_set_bool(call->arena, answer, "created", is_new);
    json_set_bool(call->arena, answer, "account", account && account->found);
    call_reply_json(call, is_new ? 201 : 200, answer);
}

void rest_users_add(struct call *call, const char *id)
{
    struct json *doc, *record, *groups, *answer = json_new_object(call->arena);
    const struct os_user *account = NULL;
    const char *name;
    bool is_new;
    int found;

    (void)id;
    if (rest_body(call, &doc) < 0 || rest_string(call, doc, "name", &name) < 0 ||
        rest_user_name(call, name, &name) < 0 || rest_groups(call, json_get(doc, "groups"), &groups) < 0 ||
        check_room(call) < 0) {
        rest_fail(call);
        return;
    }
    found = auth_account(call, name, &account);
    if (found > 0)
        return;
    is_new = !user_exists(call, name);
    record = need_record(call, name);
    /* A name that comes back starts anew; an existing one keeps its groups unless others are given. */
    if (json_len(groups) || !user_record(call->store, name, call->arena))
        json_set(call->arena, record, "groups", *groups);
    if (json_bool(json_get(record, "removed")))
        json_set_bool(call->arena, record, "disabled", false);
    json_remove(record, "removed");
    if ((!user_record(call->store, name, call->arena) && user_provision(call, name) < 0) ||
        rest_write_kubeconfig(call, name, json_new_array(call->arena), name, NULL, answer) < 0) {
        rest_fail(call);
        return;
    }
    keep_record(call, name, record);
    answer_user(call, answer, name, is_new, found == 0 ? account : NULL);
}

/* ---- list ---- */

struct tally {
    struct map *counts;
    struct arena *arena;
};

static void tally_entry(void *arg, struct json *entry)
{
    struct tally *tally = arg;
    struct str user = json_str(json_get(entry, "user"));
    size_t *count = user.s ? map_get(tally->counts, user) : NULL;

    if (!user.s)
        return;
    if (!count) {
        count = arena_zalloc(tally->arena, sizeof(*count));
        map_set(tally->counts, user, count);
    }
    ++*count;
}

static int64_t tally_of(const struct tally *tally, const char *name)
{
    const size_t *count = map_get(tally->counts, str_from(name));

    return count ? (int64_t)*count : 0;
}

struct listing {
    struct call *call;
    struct json *items;
    const char *only; /* NULL: all */
    struct tally tokens, certificates, sessions;
};

static void list_user(struct listing *list, const char *name, const struct json *record)
{
    struct call *call = list->call;
    struct json *user;

    if (list->only && !streq(list->only, name))
        return;
    user = json_push_object(call->arena, list->items);
    json_set_string(call->arena, user, "name", name);
    json_set_string(call->arena, user, "state", user_is_disabled(record) ? "disabled" : "active");
    if (json_get(record, "groups"))
        json_set(call->arena, user, "groups", *json_get(record, "groups"));
    else
        json_set_array(call->arena, user, "groups");
    json_set_string(call->arena, user, "created", json_get_string(record, "created"));
    json_set_int(call->arena, user, "tokens", tally_of(&list->tokens, name));
    json_set_int(call->arena, user, "certificates", tally_of(&list->certificates, name));
    json_set_int(call->arena, user, "sessions", tally_of(&list->sessions, name));
    json_set_int(call->arena, user, "pods", (int64_t)store_count(call->store, KIND_POD, name));
    json_set_int(call->arena, user, "jobs",
                 (int64_t)(store_count(call->store, KIND_JOB, name) +
                           store_count(call->store, KIND_TRAINING_JOB, name)));
}

static void list_record(void *arg, const char *key, struct str value)
{
    struct listing *list = arg;
    struct json *record;

    if (json_parse(value, list->call->arena, &record, NULL, NULL) == 0 &&
        !json_bool(json_get(record, "removed")))
        list_user(list, key, record);
}

static void tally_table(struct call *call, const char *table, struct tally *ret)
{
    *ret = (struct tally){.counts = map_new(), .arena = call->arena};
    credentials_each(call, table, tally_entry, ret);
}

/* Those with a record, and from before there were records the namespaces that nobody shares. */
static void list_users(struct call *call, const char *only, struct json *items)
{
    struct listing list = {.call = call, .items = items, .only = only};
    struct store_slice spaces = store_list(call->store, KIND_NAMESPACE, NULL);

    tally_table(call, TOKENS_TABLE, &list.tokens);
    tally_table(call, CERTIFICATES_TABLE, &list.certificates);
    tally_table(call, SESSIONS_TABLE, &list.sessions);
    store_values(call->store, USERS_TABLE, list_record, &list);
    OBJECTS_EACH(spaces, it)
        if (!is_system_space((*it)->name) && !store_value(call->store, USERS_TABLE, (*it)->name).s &&
            !annotation_get(object_doc(*it), MEMBERS_ANNOTATION))
            list_user(&list, (*it)->name, NULL);
    map_free(list.tokens.counts);
    map_free(list.certificates.counts);
    map_free(list.sessions.counts);
}

void rest_users_list(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena);

    (void)id;
    list_users(call, NULL, json_set_array(call->arena, doc, "items"));
    call_reply_json(call, 200, doc);
}

static void reply_user(struct call *call, const char *name)
{
    struct json *items = json_new_array(call->arena);

    list_users(call, name, items);
    if (json_len(items))
        call_reply_json(call, 200, json_item(items, 0));
    else
        not_found(call, name);
}

void rest_users_show(struct call *call, const char *id)
{
    reply_user(call, id);
}

/* ---- change ---- */

static int check_not_self(struct call *call, const char *name)
{
    if (!streq(name, call->who.user))
        return 0;
    return failure_set(&call->failure, call->arena, 409, "Conflict", "you cannot do that to yourself");
}

/* {"disabled": bool, "groups": [...]}, each where it is given. */
void rest_users_change(struct call *call, const char *id)
{
    struct json *doc, *record, *groups;
    const struct os_user *account = NULL;
    bool disabled = false;
    int found;

    if (rest_body(call, &doc) < 0 || rest_groups(call, json_get(doc, "groups"), &groups) < 0 ||
        rest_bool(call, doc, "disabled", &disabled) < 0 || check_not_self(call, id) < 0) {
        rest_fail(call);
        return;
    }
    /* Somebody with an account here who was never added can be kept out as well. */
    if (!user_exists(call, id)) {
        if (rest_user_name(call, id, &id) < 0) {
            rest_fail(call);
            return;
        }
        if ((found = auth_account(call, id, &account)) > 0)
            return;
        if (found == 0 && !account)
            failure_set(&call->failure, call->arena, 404, "NotFound",
                        "user '%s' not found: neither added to Berth nor an account on this machine", id);
        if (!account) {
            rest_fail(call);
            return;
        }
    }
    record = need_record(call, id);
    json_remove(record, "removed");
    if (json_is(json_get(doc, "groups"), JSON_ARRAY)) /* null says nothing */
        json_set(call->arena, record, "groups", *groups);
    if (json_is(json_get(doc, "disabled"), JSON_BOOL))
        json_set_bool(call->arena, record, "disabled", disabled);
    keep_record(call, id, record);
    if (user_is_disabled(record))
        api_cut(call->api, id, NULL);
    reply_user(call, id);
}

/* ---- remove ---- */

struct place {
    const char *ns, *name;
};

struct places {
    struct place *v;
    size_t len, cap;
};

/* What somebody made of a kind in namespaces that are not their own. */
static void find_work(struct call *call, int kind, const char *user, struct places *ret)
{
    struct store_slice all = store_list(call->store, kind, NULL);

    OBJECTS_EACH(all, it) {
        CLEANUP(arena_done) struct arena arena = {0};

        if (!(*it)->deleting && !streq((*it)->ns, user) &&
            streq(annotation_get(object_json(*it, &arena), OWNER_ANNOTATION), user))
            vec_push(ret, (struct place){arena_strdup(call->arena, (*it)->ns),
                                         arena_strdup(call->arena, (*it)->name)});
    }
}

static size_t delete_work(struct call *call, struct write *write, const char *user)
{
    static const int work[] = {KIND_TASK, KIND_TRAINING_JOB, KIND_JOB, KIND_POD};
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(work); i++) {
        struct places theirs = {0};

        find_work(call, work[i], user, &theirs);
        VEC_EACH(&theirs, it) {
            struct written written;

            count +=
                registry_delete(call->registry, write, kind_by_id(work[i]), it->ns, it->name,
                                &(struct delete_options){.propagation = PROPAGATE_BACKGROUND}, &written) == 0;
        }
        vec_done(&theirs);
    }
    return count;
}

static bool edit_members(void *arg, struct arena *arena, struct json *doc)
{
    struct str list = str_from(annotation_get(doc, MEMBERS_ANNOTATION)), part;
    CLEANUP(buf_done) struct buf left = {0};
    bool found = false;

    while (list.s && str_split(&list, ',', &part)) {
        part = str_trim(part);
        if (str_is(part, arg))
            found = true;
        else
            buf_printf(&left, "%s%.*s", left.len ? "," : "", STR_ARG(part));
    }
    if (found)
        annotation_set(arena, doc, MEMBERS_ANNOTATION, left.len ? left.data : "");
    return found;
}

/* A later user of the same name is another person: memberships go. */
static void end_memberships(struct call *call, struct write *write, const char *user)
{
    struct store_slice spaces = store_list(call->store, KIND_NAMESPACE, NULL);
    struct places shared = {0};

    OBJECTS_EACH(spaces, it)
        if (annotation_get(object_doc(*it), MEMBERS_ANNOTATION))
            vec_push(&shared, (struct place){"", arena_strdup(call->arena, (*it)->name)});
    VEC_EACH(&shared, it) {
        const struct object *space = store_get(call->store, KIND_NAMESPACE, "", it->name);
        struct written written;

        if (space)
            (void)registry_edit_object(call->registry, write, space, edit_members, (void *)(uintptr_t)user,
                                       &written);
    }
    vec_done(&shared);
}

static void bury_record(struct call *call, const char *name)
{
    struct json *record = json_new_object(call->arena);
    char time[CLOCK_TEXT_MAX];

    json_set_string(call->arena, record, "name", name);
    json_set_bool(call->arena, record, "removed", true);
    json_set_string(call->arena, record, "certificatesFrom", clock_format(call->now, time));
    keep_record(call, name, record);
}

void rest_users_remove(struct call *call, const char *id)
{
    struct failure ignored = {0};
    struct write write = {
        .who = &call->who, .arena = call->arena, .failure = &ignored, .now = call->now, .manager = "berth"};
    struct write own = write; /* Berth's */
    struct json *doc = json_new_object(call->arena);
    struct written written;
    size_t credentials, work;

    if (check_not_self(call, id) < 0) {
        rest_fail(call);
        return;
    }
    if (!user_exists(call, id)) {
        not_found(call, id);
        return;
    }
    own.who = NULL;
    credentials = credentials_end_user(call, id);
    bury_record(call, id);
    work = delete_work(call, &write, id);
    end_memberships(call, &own, id);
    if (call->api->config.deliver)
        deliver_forget(call->api->config.deliver, id);
    if (store_get(call->store, KIND_NAMESPACE, "", id) &&
        registry_delete(call->registry, &write, kind_by_id(KIND_NAMESPACE), "", id,
                        &(struct delete_options){.propagation = PROPAGATE_BACKGROUND}, &written) < 0)
        work = 0;
    api_cut(call->api, id, NULL);
    json_set_string(call->arena, doc, "name", id);
    json_set_bool(call->arena, doc, "removed", true);
    json_set_int(call->arena, doc, "credentials", (int64_t)credentials);
    json_set_int(call->arena, doc, "workElsewhere", (int64_t)work);
    call_reply_json(call, 200, doc);
}
