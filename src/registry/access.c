#include "registry/access.h"

#include "objects/names.h"
#include "registry/access_table.h"
#include "registry/internal.h"

bool access_is_viewer(const struct identity *who)
{
    return identity_in_group(who, GROUP_VIEWERS);
}

bool access_is_admin(const struct identity *who)
{
    return (identity_in_group(who, GROUP_MASTERS) || identity_in_group(who, GROUP_ADMINS)) &&
           !access_is_viewer(who);
}

bool access_is_known(const struct identity *who)
{
    return identity_in_group(who, GROUP_KNOWN);
}

#define READ (VERB_GET | VERB_LIST | VERB_WATCH)

static const struct verb_name {
    const char *name;
    unsigned bit;
} verb_names[] = {
    {"create", VERB_CREATE}, {"delete", VERB_DELETE}, {"deletecollection", VERB_DELETE_COLLECTION},
    {"get", VERB_GET},       {"list", VERB_LIST},     {"patch", VERB_PATCH},
    {"update", VERB_UPDATE}, {"watch", VERB_WATCH},
};

static unsigned verb_bit(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(verb_names); i++)
        if (streq(verb_names[i].name, name))
            return verb_names[i].bit;
    return 0;
}

static const struct access_grant *grant_of(int kind)
{
    for (size_t i = 0; i < access_grant_count; i++)
        if (access_grants[i].kind == kind)
            return &access_grants[i];
    return NULL;
}

static bool named_in(struct str list, const struct identity *who)
{
    struct str name;

    while (str_split(&list, ',', &name)) {
        name = str_trim(name);
        if (str_is(name, who->user))
            return true;
        if (name.len > 1 && name.s[0] == '@')
            for (unsigned i = 0; i < who->group_count; i++)
                if (str_is((struct str){name.s + 1, name.len - 1}, who->groups[i]))
                    return true;
    }
    return false;
}

static struct str annotation(const struct object *object, const char *key)
{
    return json_str(json_get(json_at(object_doc(object), "metadata.annotations"), key));
}

static bool is_member(struct registry *registry, const struct identity *who, const char *ns)
{
    const struct object *space;

    if (!*ns)
        return false;
    if (streq(ns, who->user))
        return true;
    space = store_get(registry->store, KIND_NAMESPACE, "", ns);
    return space && named_in(annotation(space, MEMBERS_ANNOTATION), who);
}

bool access_reads_secret(const char *user, const struct object *secret)
{
    return user && (streq(user, ADMIN_USER) || streq(secret->ns, user) || str_is(secret->maker, user));
}

/* What a definition keeps from those who only start it. */
static bool has_system_values(const struct object *definition)
{
    const struct json *values = json_at(object_doc(definition), "spec.systemValues");

    return json_len(values) || json_str(values).len;
}

bool access_shows(struct registry *registry, const struct identity *who, const struct object *object)
{
    if (access_is_admin(who))
        return true;
    if (object->kind->id == KIND_PV)
        return access_is_viewer(who) ||
               is_member(registry, who,
                         json_string_or(json_at(object_doc(object), "spec.claimRef.namespace"), ""));
    if (object->kind->id == KIND_TASK_DEFINITION)
        return streq(object->ns, who->user) || str_is(object->maker, who->user) || !has_system_values(object);
    return true;
}

static bool path_allowed(const struct identity *who, const struct access *access)
{
    bool known;
    const struct access_path *row = access_path_find(access->verb, access->path, &known);

    switch (row ? row->who : ACCESS_ADMIN) {
    case ACCESS_ANY:
    case ACCESS_JOB:
        return true;
    case ACCESS_VIEW:
        return access_is_known(who) || access->anonymous;
    case ACCESS_KNOWN:
        return access_is_known(who);
    case ACCESS_USER:
        return access_is_known(who) && !access_is_viewer(who);
    case ACCESS_ADMIN:
        break;
    }
    return access_is_admin(who);
}

/* Another user's work. */
static bool foreign(struct registry *registry, const struct identity *who, const struct access *access)
{
    const struct object *object;
    struct str user;

    if (!*access->name || !access->kind->stored)
        return false;
    object = store_get(registry->store, access->kind->id, access->ns, access->name);
    if (!object)
        return false;
    user = annotation(object, OWNER_ANNOTATION);
    return !user.s || !str_is(user, who->user);
}

/* What would use the rights that its processes have, which may be root's where an admin made it: entering and
 * changing it. */
static bool uses_rights(const struct access *access)
{
    static const char *const harmless[] = {"log", "status", "eviction"};
    int kind = access->kind->id;

    if (kind != KIND_POD && kind != KIND_JOB && kind != KIND_TRAINING_JOB)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        if (streq(access->subresource, harmless[i]))
            return false;
    return *access->subresource || streq(access->verb, "update") || streq(access->verb, "patch");
}

/* In a shared namespace others' work can be looked at; in one's own all can be done with it that its owner's
 * rights are not needed for. */
static bool needs_owner(const struct identity *who, const struct access *access)
{
    bool reads = streq(access->verb, "get") || streq(access->verb, "list") || streq(access->verb, "watch");

    if (streq(access->ns, who->user))
        return uses_rights(access);
    if (*access->subresource && !streq(access->subresource, "status"))
        return true;
    return !reads || access->kind->id == KIND_SECRET;
}

static bool user_allowed(struct registry *registry, const struct identity *who, const struct access *access)
{
    const struct access_grant *grant = grant_of(access->kind->id);
    unsigned bit = verb_bit(access->verb);

    if (!grant)
        return false;
    if (grant->anybody & bit)
        return !*access->subresource;
    if (!(grant->member & bit) || !is_member(registry, who, access->ns))
        return false;
    if (streq(access->subresource, "binding") || streq(access->subresource, "finalize") ||
        (streq(access->subresource, "status") && (bit & (VERB_UPDATE | VERB_PATCH))))
        return false;
    if (access->kind->id == KIND_SECRET && !*access->name && (bit & READ))
        return streq(access->ns, who->user);
    if (bit == VERB_DELETE_COLLECTION)
        return streq(access->ns, who->user);
    return !needs_owner(who, access) || !foreign(registry, who, access);
}

static bool hides(struct registry *registry, const struct identity *who, const struct access *access)
{
    const struct object *object = NULL;

    if (*access->name && (access->kind->id == KIND_PV || access->kind->id == KIND_TASK_DEFINITION))
        object = store_get(registry->store, access->kind->id, access->ns, access->name);
    return object && !access_shows(registry, who, object);
}

/* Viewers read everything but secrets and what runs inside of pods; logs only where a user could. */
static bool viewer_allowed(struct registry *registry, const struct identity *who, const struct access *access)
{
    const struct access_grant *grant = grant_of(access->kind->id);
    unsigned bit = verb_bit(access->verb);

    if (grant && !access->kind->stored && (grant->anybody & bit))
        return true; /* questions: who am I, what may I */
    if (!(bit & READ) || access->kind->id == KIND_SECRET)
        return false;
    if (streq(access->subresource, "log"))
        return user_allowed(registry, who, access);
    return !*access->subresource || streq(access->subresource, "status");
}

bool access_allowed(struct registry *registry, const struct identity *who, const struct access *access)
{
    if (access_is_admin(who))
        return true;
    if (access->kind && access_is_known(who) && hides(registry, who, access))
        return false;
    if (!access->kind)
        return path_allowed(who, access);
    if (!access_is_known(who))
        return false;
    return access_is_viewer(who) ? viewer_allowed(registry, who, access)
                                 : user_allowed(registry, who, access);
}

int access_check(struct registry *registry, const struct identity *who, const struct access *access,
                 struct arena *arena, struct failure *failure)
{
    const struct kind *kind = access->kind;
    const char *plural, *where;

    if (access_allowed(registry, who, access))
        return 0;
    if (!kind)
        return failure_set(failure, arena, 403, "Forbidden", "forbidden: User \"%s\" cannot %s path \"%s\"",
                           who->user, access->verb, access->path);
    plural =
        *access->subresource ? arena_printf(arena, "%s/%s", kind->plural, access->subresource) : kind->plural;
    where =
        *access->ns ? arena_printf(arena, " in the namespace \"%s\"", access->ns) : " at the cluster scope";
    return failure_forbidden(failure, arena, kind->group, kind->plural, *access->name ? access->name : "",
                             arena_printf(arena,
                                          "User \"%s\" cannot %s resource \"%s\" in API group \"%s\"%s",
                                          who->user, access->verb, plural, kind->group, where));
}

struct json *access_verbs(unsigned verbs, struct arena *arena)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < ARRAY_LEN(verb_names); i++)
        if (verbs & verb_names[i].bit)
            json_push_string(arena, list, verb_names[i].name);
    return list;
}

static void add_rule(struct arena *arena, struct json *rules, unsigned verbs, const char *group,
                     const char *plural)
{
    struct json *rule = json_push_object(arena, rules), *list;

    json_set(arena, rule, "verbs", *access_verbs(verbs, arena));
    list = json_set_array(arena, json_item(rules, json_len(rules) - 1), "apiGroups");
    json_push_string(arena, list, group);
    list = json_set_array(arena, json_item(rules, json_len(rules) - 1), "resources");
    json_push_string(arena, list, plural);
}

struct json *access_rules(struct registry *registry, const struct identity *who, const char *ns,
                          struct arena *arena)
{
    struct json *rules = json_new_array(arena);
    bool member = is_member(registry, who, ns);

    if (access_is_admin(who)) {
        struct json *rule;

        add_rule(arena, rules, 0, "*", "*");
        rule = json_item(rules, 0);
        json_push_string(arena, json_get(rule, "verbs"), "*");
        return rules;
    }
    for (size_t i = 0; i < access_grant_count; i++) {
        const struct access_grant *grant = &access_grants[i];
        const struct kind *kind = kind_by_id(grant->kind);
        unsigned verbs = grant->anybody | (member ? grant->member : 0);

        if (access_is_viewer(who))
            verbs = !kind || kind->id == KIND_SECRET ? 0 : kind->stored ? READ : grant->anybody;
        if (kind && verbs && access_is_known(who))
            add_rule(arena, rules, verbs, kind->group, kind->plural);
    }
    return rules;
}
