#include "control/quota.h"

#include "control/util.h"
#include "objects/names.h"

#include <string.h>

/* ---- measuring ---- */

/* Names from before every kind could be counted as count/PLURAL. */
static const struct {
    int kind;
    const char *name;
} aliases[] = {
    {KIND_POD, "pods"},       {KIND_SERVICE, "services"},           {KIND_CONFIG_MAP, "configmaps"},
    {KIND_SECRET, "secrets"}, {KIND_PVC, "persistentvolumeclaims"}, {KIND_RESOURCE_QUOTA, "resourcequotas"},
};

static const char *count_name(const struct kind *kind, struct arena *arena)
{
    return arena_printf(arena, "count/%s", kind_resource(kind));
}

static void add_one(struct resource_list *list, struct arena *arena, const char *name)
{
    struct quantity one = quantity_of_int(1);

    resource_list_add(list, arena, name, &one);
}

static const char *prefixed(struct arena *arena, const char *prefix, const char *name)
{
    return arena_printf(arena, "%s%s", prefix, name);
}

static bool is_compute(const char *name)
{
    return streq(name, "cpu") || streq(name, "memory") || streq(name, "ephemeral-storage");
}

static void add_compute(struct resource_list *list, struct arena *arena, const struct resource_list *requests,
                        const struct resource_list *limits)
{
    RESOURCE_LIST_EACH(requests, it) {
        bool plain = is_compute(it->name) || starts_with(it->name, "hugepages-");

        if (plain) /* names are copied: usage may outlive the document */
            resource_list_set(list, arena, arena_strdup(arena, it->name), &it->amount);
        if (plain || is_extended_resource(it->name))
            resource_list_set(list, arena, prefixed(arena, "requests.", it->name), &it->amount);
    }
    RESOURCE_LIST_EACH(limits, it)
        if (is_compute(it->name))
            resource_list_set(list, arena, prefixed(arena, "limits.", it->name), &it->amount);
}

static bool pod_is_best_effort(const struct resource_list *requests, const struct resource_list *limits)
{
    RESOURCE_LIST_EACH(requests, it)
        if ((streq(it->name, "cpu") || streq(it->name, "memory")) && it->amount.nanos > 0)
            return false;
    RESOURCE_LIST_EACH(limits, it)
        if ((streq(it->name, "cpu") || streq(it->name, "memory")) && it->amount.nanos > 0)
            return false;
    return true;
}

static int64_t pod_lives_until(const struct json *doc)
{
    const struct json *meta = json_get(doc, "metadata");
    int64_t end;

    if (pod_is_over(doc))
        return INT64_MIN;
    end = time_of(json_get(meta, "deletionTimestamp"), 0);
    if (end == 0 || !json_get(meta, "deletionGracePeriodSeconds"))
        return INT64_MAX;
    return clock_after(end, json_int(json_get(meta, "deletionGracePeriodSeconds"), 0));
}

static void measure_pod(const struct json *doc, struct arena *arena, struct quota_usage *ret)
{
    const struct json *spec = json_get(doc, "spec");
    const char *class = json_get_string(spec, "priorityClassName");
    struct resource_list requests, limits;

    pod_resources(spec, "requests", true, arena, &requests);
    pod_resources(spec, "limits", true, arena, &limits);
    add_compute(&ret->resources, arena, &requests, &limits);
    ret->is_pod = true;
    ret->terminating = json_int(json_get(spec, "activeDeadlineSeconds"), -1) >= 0;
    ret->best_effort = pod_is_best_effort(&requests, &limits);
    ret->priority_class = class && *class ? arena_strdup(arena, class) : NULL;
    ret->lives_until = pod_lives_until(doc);
}

static void measure_claim(const struct json *doc, struct arena *arena, struct quota_usage *ret)
{
    const char *class = json_at_string(doc, "spec.storageClassName");
    struct quantity amount;
    bool sized = quantity_from_json(json_at(doc, "spec.resources.requests.storage"), &amount);

    if (sized) {
        quantity_round_up(&amount); /* whole bytes */
        resource_list_set(&ret->resources, arena, "requests.storage", &amount);
    }
    if (!class || !*class)
        return;
    add_one(&ret->resources, arena,
            prefixed(arena, class, ".storageclass.storage.k8s.io/persistentvolumeclaims"));
    if (sized)
        resource_list_set(&ret->resources, arena,
                          prefixed(arena, class, ".storageclass.storage.k8s.io/requests.storage"), &amount);
}

static void measure_service(const struct json *doc, struct arena *arena, struct quota_usage *ret)
{
    const struct json *spec = json_get(doc, "spec");
    const char *type = json_get_string(spec, "type");
    bool balancer = streq(type, "LoadBalancer");
    struct quantity amount = quantity_of_int(balancer ? 1 : 0);

    resource_list_set(&ret->resources, arena, "services.loadbalancers", &amount);
    amount =
        quantity_of_int(balancer || streq(type, "NodePort") ? (int64_t)json_len(json_get(spec, "ports")) : 0);
    resource_list_set(&ret->resources, arena, "services.nodeports", &amount);
}

void quota_measure(const struct kind *kind, const struct json *doc, struct arena *arena,
                   struct quota_usage *ret)
{
    *ret = (struct quota_usage){.lives_until = INT64_MAX};
    add_one(&ret->resources, arena, count_name(kind, arena));
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
        if (aliases[i].kind == kind->id)
            add_one(&ret->resources, arena, aliases[i].name);
    if (kind->id == KIND_POD)
        measure_pod(doc, arena, ret);
    else if (kind->id == KIND_PVC)
        measure_claim(doc, arena, ret);
    else if (kind->id == KIND_SERVICE)
        measure_service(doc, arena, ret);
}

bool quota_counts_updates(const struct kind *kind)
{
    return kind->id == KIND_POD || kind->id == KIND_PVC || kind->id == KIND_SERVICE;
}

/* ---- quotas ---- */

void quota_read(const struct json *doc, struct arena *arena, struct quota *ret)
{
    const struct json *spec = json_get(doc, "spec");
    const struct json *plain = json_get(spec, "scopes"),
                      *selected = json_at(spec, "scopeSelector.matchExpressions");

    *ret = (struct quota){.name = arena_strdup(arena, json_at_string(doc, "metadata.name"))};
    resource_list_read(&ret->hard, arena, json_get(spec, "hard"));
    ret->scopes = arena_zalloc(arena, (json_len(plain) + json_len(selected) + 1) * sizeof(*ret->scopes));
    JSON_EACH(plain, it)
        ret->scopes[ret->scope_count++] =
            (struct quota_scope){.name = json_string_or(it, ""), .op = "Exists"};
    JSON_EACH(selected, it)
        ret->scopes[ret->scope_count++] =
            (struct quota_scope){.name = json_string_or(json_get(it, "scopeName"), ""),
                                 .op = json_string_or(json_get(it, "operator"), "Exists"),
                                 .values = json_get(it, "values")};
}

static bool class_matches(const struct quota_scope *scope, const char *class)
{
    if (streq(scope->op, "Exists"))
        return class != NULL;
    if (streq(scope->op, "DoesNotExist"))
        return class == NULL;
    return streq(scope->op, "In") == (class && string_list_has(scope->values, class));
}

static bool scope_matches(const struct quota_scope *scope, const struct quota_usage *usage)
{
    if (!usage->is_pod)
        return false;
    if (streq(scope->name, "Terminating"))
        return usage->terminating;
    if (streq(scope->name, "NotTerminating"))
        return !usage->terminating;
    if (streq(scope->name, "BestEffort"))
        return usage->best_effort;
    if (streq(scope->name, "NotBestEffort"))
        return !usage->best_effort;
    return streq(scope->name, "PriorityClass") && class_matches(scope, usage->priority_class);
}

static bool in_scope(const struct quota *quota, const struct quota_usage *usage)
{
    for (size_t i = 0; i < quota->scope_count; i++)
        if (!scope_matches(&quota->scopes[i], usage))
            return false;
    return true;
}

/* What of an object that has ended still counts. */
static bool counts_as_object(const char *name)
{
    return starts_with(name, "count/");
}

void quota_zero(const struct quota *quota, struct arena *arena, struct resource_list *ret)
{
    struct quantity zero = quantity_of_int(0);

    *ret = (struct resource_list){0};
    RESOURCE_LIST_EACH(&quota->hard, it)
        resource_list_set(ret, arena, it->name, &zero);
}

void quota_add(const struct quota *quota, const struct quota_usage *usage, int64_t now,
               struct resource_list *used)
{
    if (!in_scope(quota, usage))
        return;
    RESOURCE_LIST_EACH(&usage->resources, it) {
        struct quantity *sum = resource_list_find(used, it->name);

        if (sum && (now < usage->lives_until || counts_as_object(it->name)))
            quantity_add(sum, &it->amount);
    }
}

static bool pod_name(const char *name)
{
    return streq(name, "pods") || is_compute(name) || starts_with(name, "hugepages-") ||
           (starts_with(name, "requests.") && !streq(name, "requests.storage")) ||
           starts_with(name, "limits.");
}

bool quota_limits_kind(const struct quota *quota, const struct kind *kind)
{
    RESOURCE_LIST_EACH(&quota->hard, it) {
        if (counts_as_object(it->name) && streq(it->name + 6, kind_resource(kind)))
            return true;
        for (size_t i = 0; i < ARRAY_LEN(aliases); i++)
            if (aliases[i].kind == kind->id && streq(aliases[i].name, it->name))
                return true;
        if ((kind->id == KIND_POD && pod_name(it->name)) ||
            (kind->id == KIND_SERVICE && starts_with(it->name, "services.")) ||
            (kind->id == KIND_PVC &&
             (streq(it->name, "requests.storage") || strstr(it->name, ".storageclass.storage.k8s.io/"))))
            return true;
    }
    return false;
}

/* ---- admission ---- */

static const char *const required[] = {"cpu",    "limits.cpu",   "limits.memory",
                                       "memory", "requests.cpu", "requests.memory"};

static bool container_has(const struct json *container, const char *name)
{
    const struct json *resources = json_get(container, "resources");

    if (starts_with(name, "limits."))
        return json_get(json_get(resources, "limits"), name + strlen("limits."));
    return json_get(json_get(resources, "requests"),
                    starts_with(name, "requests.") ? name + strlen("requests.") : name);
}

static int name_cmp(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "a,b": the containers that do not say how much of it they want. */
static void list_lacking(const struct json *spec, const char *name, struct buf *out)
{
    const char *names[256];
    size_t len = 0;

    JSON_EACH(json_get(spec, "containers"), it)
        if (!container_has(it, name) && len < ARRAY_LEN(names))
            names[len++] = json_string_or(json_get(it, "name"), "");
    JSON_EACH(json_get(spec, "initContainers"), it)
        if (!container_has(it, name) && len < ARRAY_LEN(names))
            names[len++] = json_string_or(json_get(it, "name"), "");
    qsort(names, len, sizeof(*names), name_cmp);
    for (size_t i = 0; i < len; i++)
        buf_printf(out, "%s%s", i ? "," : "", names[i]);
}

static int refuse(const struct quota_request *request, struct arena *arena, struct failure *failure,
                  const char *why)
{
    return failure_forbidden(failure, arena, request->kind->group, request->kind->plural, request->name, why);
}

/* A quota on cpu or memory makes it a duty to say how much one wants. */
static int check_required(const struct quota *quota, const struct quota_request *request, struct arena *arena,
                          struct failure *failure)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        CLEANUP(buf_done) struct buf lacking = {0};

        if (!resource_list_find(&quota->hard, required[i]))
            continue;
        list_lacking(json_get(request->doc, "spec"), required[i], &lacking);
        if (lacking.len)
            buf_printf(&text, "%s%s for: %s", text.len ? "; " : "", required[i], lacking.data);
    }
    if (text.len == 0)
        return 0;
    return refuse(request, arena, failure,
                  arena_printf(arena, "failed quota: %s: must specify %s", quota->name, text.data));
}

static void print_amount(struct buf *out, const char *name, const struct quantity *amount)
{
    char text[QUANTITY_TEXT_MAX];

    buf_printf(out, "%s%s=%s", out->len ? "," : "", name, quantity_format(amount, text));
}

/* How much more it is than before; never negative. */
static struct quantity increase(const struct quota *quota, const struct quota_request *request,
                                const struct resource *wanted)
{
    struct quantity more = wanted->amount;
    const struct quantity *had = NULL;

    if (request->old && in_scope(quota, request->old))
        had = resource_list_find(&request->old->resources, wanted->name);
    if (had)
        quantity_sub(&more, had);
    if (more.nanos < 0)
        more.nanos = 0;
    for (uint32_t i = 1; i < request->copies; i++)
        quantity_add(&more, &wanted->amount);
    return more;
}

int quota_admit(const struct quota *quota, const struct resource_list *used,
                const struct quota_request *request, struct arena *arena, struct failure *failure)
{
    CLEANUP(buf_done) struct buf asked = {0};
    CLEANUP(buf_done) struct buf taken = {0};
    CLEANUP(buf_done) struct buf limits = {0};

    if (!quota_limits_kind(quota, request->kind) || !in_scope(quota, request->usage))
        return 0;
    if (request->usage->is_pod && check_required(quota, request, arena, failure) < 0)
        return -1;
    RESOURCE_LIST_EACH(&request->usage->resources, it) {
        const struct quantity *hard = resource_list_find(&quota->hard, it->name);
        const struct quantity *have = resource_list_find(used, it->name);
        struct quantity more, sum;

        if (!hard || !have || (request->now >= request->usage->lives_until && !counts_as_object(it->name)))
            continue;
        more = increase(quota, request, it);
        sum = *have;
        quantity_add(&sum, &more);
        if (more.nanos == 0 || quantity_cmp(&sum, hard) <= 0)
            continue;
        print_amount(&asked, it->name, &more);
        print_amount(&taken, it->name, have);
        print_amount(&limits, it->name, hard);
    }
    if (asked.len == 0)
        return 0;
    return refuse(request, arena, failure,
                  arena_printf(arena, "exceeded quota: %s, requested: %s, used: %s, limited: %s", quota->name,
                               asked.data, taken.data, limits.data));
}

/* ---- status ---- */

void quota_look(const struct object *object, const struct quota *quota, const struct resource_list *used,
                struct effects *effects)
{
    struct json *doc = object_json(object, effects->arena);
    struct json *status = json_need_object(effects->arena, doc, "status");
    const struct json *before = json_copy(effects->arena, status);

    resource_list_write(&quota->hard, effects->arena, status, "hard");
    resource_list_write(used, effects->arena, status, "used");
    if (!json_equal(before, status))
        effect_update_status(effects, object, doc);
}
