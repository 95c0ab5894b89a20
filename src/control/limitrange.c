#include "control/limitrange.h"

#include "control/resources.h"
#include "objects/kind.h"

#define ANNOTATION "kubernetes.io/limit-ranger"

/* ---- filling in ---- */

/* Adds the members of `from` that `to` lacks; their names, sorted, go to `names`. */
static void fill_list(struct arena *arena, struct json *resources, const char *key, const struct json *from,
                      struct buf *names)
{
    struct resource_list added = {0};
    struct json *to;

    if (json_len(from) == 0)
        return;
    to = json_need_object(arena, resources, key);
    JSON_EACH_MEMBER(from, it) {
        struct quantity amount = {0};

        if (!to || json_get(to, it->key))
            continue;
        json_set(arena, to, it->key, *json_copy(arena, &it->value));
        resource_list_set(&added, arena, it->key, &amount);
    }
    RESOURCE_LIST_EACH(&added, it)
        buf_printf(names, "%s%s", names->len ? ", " : "", it->name);
}

static void fill_containers(const struct json *limit, struct arena *arena, struct json *containers,
                            const char *what, struct buf *notes)
{
    static const struct {
        const char *key, *from, *word;
    } lists[] = {{"limits", "default", "limit"}, {"requests", "defaultRequest", "request"}};

    JSON_EACH(containers, it) {
        struct json *resources = json_need_object(arena, it, "resources");

        /* Noted in the order requests, limits: as Kubernetes words it. */
        for (size_t i = ARRAY_LEN(lists); resources && i > 0; i--) {
            CLEANUP(buf_done) struct buf names = {0};

            fill_list(arena, resources, lists[i - 1].key, json_get(limit, lists[i - 1].from), &names);
            if (names.len)
                buf_printf(notes, "%s%s %s for %s %s", notes->len ? "; " : "", names.data, lists[i - 1].word,
                           what, json_string_or(json_get(it, "name"), ""));
        }
    }
}

void limitrange_fill(const struct json *range, struct arena *arena, struct json *pod)
{
    CLEANUP(buf_done) struct buf notes = {0};
    struct json *meta = json_need_object(arena, pod, "metadata");

    JSON_EACH(json_at(range, "spec.limits"), limit) {
        if (!streq(json_get_string(limit, "type"), "Container"))
            continue;
        fill_containers(limit, arena, json_at(pod, "spec.containers"), "container", &notes);
        fill_containers(limit, arena, json_at(pod, "spec.initContainers"), "init container", &notes);
    }
    if (!notes.len)
        return;
    json_set_string(arena, json_need_object(arena, meta, "annotations"), ANNOTATION,
                    arena_printf(arena, "LimitRanger plugin set: %s", notes.data));
    if (json_get(json_get(pod, "status"), "qosClass"))
        json_set_string(arena, json_get(pod, "status"), "qosClass", pod_qos_class(json_get(pod, "spec")));
}

/* ---- checking ---- */

struct check {
    struct arena *arena;
    const char *type; /* "Container", "Pod", "PersistentVolumeClaim" */
    struct resource_list requests, limits;
    struct json *problems; /* array of strings, each once */
};

static void problem(struct check *check, const char *text)
{
    JSON_EACH(check->problems, it)
        if (streq(json_string(it), text))
            return;
    json_push_string(check->arena, check->problems, text);
}

static void compare(struct check *check, const char *name, const char *bound, const struct quantity *enforced,
                    const char *what, const struct quantity *value)
{
    char have[QUANTITY_TEXT_MAX], want[QUANTITY_TEXT_MAX];
    int cmp = quantity_cmp(value, enforced);

    if (*bound == 'm' && bound[1] == 'i' ? cmp < 0 : cmp > 0)
        problem(check,
                arena_printf(check->arena, "%s %s usage per %s is %s, but %s is %s", bound, name, check->type,
                             quantity_format(enforced, want), what, quantity_format(value, have)));
}

static void missing(struct check *check, const char *name, const char *bound, const struct quantity *enforced,
                    const char *what)
{
    char want[QUANTITY_TEXT_MAX];

    problem(check, arena_printf(check->arena, "%s %s usage per %s is %s.  No %s is specified", bound, name,
                                check->type, quantity_format(enforced, want), what));
}

static void check_min(struct check *check, const char *name, const struct quantity *enforced)
{
    const struct quantity *request = resource_list_find(&check->requests, name);
    const struct quantity *limit = resource_list_find(&check->limits, name);

    if (!request)
        missing(check, name, "minimum", enforced, "request");
    else if (quantity_cmp(request, enforced) < 0)
        compare(check, name, "minimum", enforced, "request", request);
    else if (limit)
        compare(check, name, "minimum", enforced, "limit", limit);
}

static void check_max(struct check *check, const char *name, const struct quantity *enforced)
{
    const struct quantity *request = resource_list_find(&check->requests, name);
    const struct quantity *limit = resource_list_find(&check->limits, name);

    if (!limit)
        missing(check, name, "maximum", enforced, "limit");
    else if (quantity_cmp(limit, enforced) > 0)
        compare(check, name, "maximum", enforced, "limit", limit);
    else if (request)
        compare(check, name, "maximum", enforced, "request", request);
}

static void check_max_request(struct check *check, const char *name, const struct quantity *enforced)
{
    const struct quantity *request = resource_list_find(&check->requests, name);

    if (request)
        compare(check, name, "maximum", enforced, "request", request);
    else
        missing(check, name, "maximum", enforced, "request");
}

static void check_ratio(struct check *check, const char *name, const struct quantity *enforced)
{
    const struct quantity *request = resource_list_find(&check->requests, name);
    const struct quantity *limit = resource_list_find(&check->limits, name);
    char want[QUANTITY_TEXT_MAX];
    double ratio;

    quantity_format(enforced, want);
    if (!request || request->nanos == 0 || !limit || limit->nanos == 0) {
        const char *what = !request || request->nanos == 0 ? "request" : "limit";

        problem(check,
                arena_printf(check->arena,
                             "%s max limit to request ratio per %s is %s, but no %s is specified or %s is 0",
                             name, check->type, want, what, what));
        return;
    }
    ratio = (double)limit->nanos / (double)request->nanos;
    if (ratio > (double)enforced->nanos / 1e9)
        problem(check, arena_printf(check->arena,
                                    "%s max limit to request ratio per %s is %s, but provided ratio is %f",
                                    name, check->type, want, ratio));
}

static void each_amount(struct check *check, const struct json *list,
                        void (*fn)(struct check *check, const char *name, const struct quantity *enforced))
{
    struct resource_list sorted = {0};

    resource_list_read(&sorted, check->arena, list);
    RESOURCE_LIST_EACH(&sorted, it)
        fn(check, it->name, &it->amount);
}

static void check_all(struct check *check, const struct json *limit)
{
    each_amount(check, json_get(limit, "min"), check_min);
    each_amount(check, json_get(limit, "max"), check_max);
    each_amount(check, json_get(limit, "maxLimitRequestRatio"), check_ratio);
}

static void check_containers(struct check *check, const struct json *limit, const struct json *containers)
{
    JSON_EACH(containers, it) {
        check->requests = check->limits = (struct resource_list){0};
        resource_list_read(&check->requests, check->arena, json_at(it, "resources.requests"));
        resource_list_read(&check->limits, check->arena, json_at(it, "resources.limits"));
        check_all(check, limit);
    }
}

static int finish(const struct check *check, int kind_id, const struct json *doc, struct failure *failure)
{
    const struct kind *kind = kind_by_id(kind_id);
    CLEANUP(buf_done) struct buf text = {0};
    size_t len = json_len(check->problems);

    if (len == 0)
        return 0;
    JSON_EACH(check->problems, it)
        buf_printf(&text, "%s%s", text.len ? ", " : "", json_string(it));
    return failure_forbidden(failure, check->arena, kind->group, kind->plural,
                             json_string_or(json_at(doc, "metadata.name"), ""),
                             arena_printf(check->arena, len > 1 ? "[%s]" : "%s", text.data));
}

int limitrange_check_pod(const struct json *range, struct arena *arena, const struct json *pod,
                         struct failure *failure)
{
    struct check check = {.arena = arena, .problems = json_new_array(arena)};
    const struct json *spec = json_get(pod, "spec");

    JSON_EACH(json_at(range, "spec.limits"), limit) {
        check.type = json_string_or(json_get(limit, "type"), "");
        if (streq(check.type, "Container")) {
            check_containers(&check, limit, json_get(spec, "containers"));
            check_containers(&check, limit, json_get(spec, "initContainers"));
        } else if (streq(check.type, "Pod")) {
            pod_resources(spec, "requests", false, arena, &check.requests);
            pod_resources(spec, "limits", false, arena, &check.limits);
            check_all(&check, limit);
        }
    }
    return finish(&check, KIND_POD, pod, failure);
}

int limitrange_check_claim(const struct json *range, struct arena *arena, const struct json *claim,
                           struct failure *failure)
{
    struct check check = {.arena = arena, .problems = json_new_array(arena)};

    JSON_EACH(json_at(range, "spec.limits"), limit) {
        check.type = json_string_or(json_get(limit, "type"), "");
        if (!streq(check.type, "PersistentVolumeClaim"))
            continue;
        check.requests = (struct resource_list){0};
        resource_list_read(&check.requests, arena, json_at(claim, "spec.resources.requests"));
        each_amount(&check, json_get(limit, "min"), check_min);
        each_amount(&check, json_get(limit, "max"), check_max_request);
    }
    return finish(&check, KIND_PVC, claim, failure);
}
