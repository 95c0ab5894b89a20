/* Items lie in a list of their namespace, the one that ended first in front; those that are retained in a
 * second one. What ends is the newest, so it is put in from the back. */
#include "control/prune.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "control/util.h"
#include "objects/names.h"

#include <assert.h>

struct prune_item {
    char *uid, *name;
    int kind;
    int64_t finished_at, bytes;
    int64_t rv;      /* of its end: times are whole seconds */
    int64_t ttl_sec; /* -1: none of its own */
    int64_t held_until;
    bool retained;
    struct prune_space *space;
    struct prune_list *list;
    struct prune_item *before, *after;
};

struct prune_list {
    struct prune_item *first, *last;
    size_t len;
};

struct prune_space {
    char *ns;
    struct prune_list plain, retained;
    int64_t bytes;
    /* of a call of prune_look */
    struct prune_item *at; /* the first that has not been told */
    int64_t left_bytes;
};

struct prune {
    struct map *items;  /* by uid */
    struct map *spaces; /* by namespace */
    int64_t bytes;
    size_t retained;
};

struct prune *prune_new(void)
{
    struct prune *prune = NEW(struct prune);

    prune->items = map_new();
    prune->spaces = map_new();
    return prune;
}

static void item_free(struct prune_item *item)
{
    free(item->uid);
    free(item->name);
    free(item);
}

void prune_free(struct prune *prune)
{
    struct str key;
    void *value;

    if (!prune)
        return;
    for (size_t at = 0; map_next(prune->items, &at, &key, &value);)
        item_free(value);
    for (size_t at = 0; map_next(prune->spaces, &at, &key, &value);) {
        free(((struct prune_space *)value)->ns);
        free(value);
    }
    map_free(prune->items);
    map_free(prune->spaces);
    free(prune);
}

/* ---- when it ended ---- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The last of its containers; else what was said last of it. */
static int64_t pod_end(const struct json *doc)
{
    static const char *const lists[] = {"status.containerStatuses", "status.initContainerStatuses"};
    int64_t end = 0;

    if (!pod_is_over(doc))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_at(doc, lists[i]), it)
            end = later(end, time_of(json_at(it, "state.terminated.finishedAt"), 0));
    if (!end)
        JSON_EACH(json_at(doc, "status.conditions"), it)
            end = later(end, time_of(json_get(it, "lastTransitionTime"), 0));
    return later(end, 1);
}

static int64_t job_end(const struct json *doc)
{
    const struct json *status = json_get(doc, "status");
    const char *type = condition_is(status, "Complete", "True") ? "Complete"
                       : condition_is(status, "Failed", "True") ? "Failed"
                                                                : NULL;

    return type ? later(time_of(json_get(condition_find(status, type), "lastTransitionTime"), 0), 1) : 0;
}

/* TrainingJobs and Tasks. */
static int64_t phase_end(const struct json *doc)
{
    static const char *const over[] = {"Succeeded", "Failed", "Cancelled"};
    const char *phase = json_at_string(doc, "status.phase");

    for (size_t i = 0; i < ARRAY_LEN(over); i++)
        if (streq(phase, over[i]))
            return later(time_of(json_at(doc, "status.completionTime"), 0), 1);
    return 0;
}

int64_t prune_finished_at(const struct object *object, const struct json *doc)
{
    int64_t end;

    if (object->deleting)
        return 0;
    switch (object->kind->id) {
    case KIND_POD:
        end = pod_end(doc);
        break;
    case KIND_JOB:
        end = job_end(doc);
        break;
    case KIND_TRAINING_JOB:
    case KIND_TASK:
        end = phase_end(doc);
        break;
    default:
        return 0;
    }
    /* One that does not say when it ended ended after it was made. */
    return end == 1 ? later(time_of(json_at(doc, "metadata.creationTimestamp"), 1), 1) : end;
}

/* The Job controller goes by the time of Jobs itself. */
static int64_t own_ttl(const struct json *doc)
{
    const struct json *ttl = json_at(doc, "spec.ttlSecondsAfterFinished");

    return ttl ? later(json_int(ttl, 0), 0) : -1;
}

/* ---- the lists ---- */

static void list_out(struct prune_item *item)
{
    struct prune_list *list = item->list;

    *(item->before ? &item->before->after : &list->first) = item->after;
    *(item->after ? &item->after->before : &list->last) = item->before;
    list->len--;
    item->list = NULL;
}

static bool ended_before(const struct prune_item *a, const struct prune_item *b)
{
    if (a->finished_at != b->finished_at)
        return a->finished_at < b->finished_at;
    return a->rv != b->rv ? a->rv < b->rv : strcmp(a->uid, b->uid) < 0;
}

static void list_in(struct prune_list *list, struct prune_item *item)
{
    struct prune_item *before = list->last;

    while (before && ended_before(item, before))
        before = before->before;
    item->before = before;
    item->after = before ? before->after : list->first;
    *(before ? &before->after : &list->first) = item;
    *(item->after ? &item->after->before : &list->last) = item;
    item->list = list;
    list->len++;
}

static struct prune_space *space_of(struct prune *prune, const char *ns)
{
    struct prune_space *space = map_get(prune->spaces, str_from(ns));

    if (!space) {
        space = NEW(struct prune_space);
        space->ns = mem_strdup(ns);
        map_set(prune->spaces, str_from(ns), space);
    }
    return space;
}

/* Of too many that are retained the oldest counts as any other. */
static void place(struct prune_item *item)
{
    struct prune_space *space = item->space;

    list_in(item->retained ? &space->retained : &space->plain, item);
    while (space->retained.len > PRUNE_RETAIN_MAX) {
        struct prune_item *oldest = space->retained.first;

        list_out(oldest);
        list_in(&space->plain, oldest);
    }
}

static void take_out(struct prune *prune, struct prune_item *item)
{
    prune->retained -= item->retained;
    prune->bytes -= item->bytes;
    item->space->bytes -= item->bytes;
    list_out(item);
    if (item->space->plain.len + item->space->retained.len == 0) {
        map_remove(prune->spaces, str_from(item->space->ns));
        free(item->space->ns);
        free(item->space);
    }
}

void prune_remove(struct prune *prune, const char *uid)
{
    struct prune_item *item = map_remove(prune->items, str_from(uid));

    if (!item)
        return;
    take_out(prune, item);
    item_free(item);
}

void prune_put(struct prune *prune, const struct object *object, const struct json *doc, int64_t bytes)
{
    int64_t end = prune_finished_at(object, doc);
    struct prune_item *item;

    if (!end) {
        prune_remove(prune, object->uid);
        return;
    }
    item = map_get(prune->items, str_from(object->uid));
    if (item) {
        take_out(prune, item);
    } else {
        item = NEW(struct prune_item);
        item->uid = mem_strdup(object->uid);
        item->name = mem_strdup(object->name);
        item->kind = object->kind->id;
        item->rv = object->rv;
        map_set(prune->items, str_from(item->uid), item);
    }
    item->finished_at = end;
    item->bytes = bytes;
    item->ttl_sec = own_ttl(doc);
    item->retained = work_is_retained(doc);
    item->space = space_of(prune, object->ns);
    item->space->bytes += bytes;
    prune->bytes += bytes;
    prune->retained += item->retained;
    place(item);
}

void prune_hold(struct prune *prune, const char *uid, int64_t until)
{
    struct prune_item *item = map_get(prune->items, str_from(uid));

    if (item)
        item->held_until = until;
}

/* ---- what goes ---- */

struct looking {
    const struct prune_policy *policy;
    int64_t now;
    struct prune_due *ret;
    size_t len, max;
    int64_t left_bytes;
};

static bool tell(struct looking *looking, const struct prune_item *item, enum prune_why why)
{
    if (looking->len == looking->max)
        return false;
    looking->ret[looking->len++] = (struct prune_due){item->uid, item->space->ns,   item->name, item->kind,
                                                      why,       item->finished_at, item->bytes};
    looking->left_bytes -= item->bytes;
    item->space->left_bytes -= item->bytes;
    return true;
}

/* When it goes by time; INT64_MAX: it does not. */
static int64_t due_at(const struct prune_item *item, const struct prune_policy *policy)
{
    if (item->ttl_sec >= 0)
        return item->kind == KIND_JOB ? INT64_MAX : clock_after(item->finished_at, item->ttl_sec);
    if (policy->age_sec && item->list == &item->space->plain)
        return clock_after(item->finished_at, policy->age_sec);
    return INT64_MAX;
}

static bool is_due(const struct looking *looking, const struct prune_item *item)
{
    return item->held_until <= looking->now && due_at(item, looking->policy) <= looking->now;
}

/* By time, and past the count: a walk from the oldest. Leaves `at` at the first that stays. */
static bool look_space(struct looking *looking, struct prune_space *space)
{
    size_t left = space->plain.len;

    space->left_bytes = space->bytes;
    space->at = NULL;
    for (struct prune_item *it = space->retained.first; it; it = it->after)
        if (is_due(looking, it) && !tell(looking, it, PRUNE_TTL))
            return false;
    for (struct prune_item *it = space->plain.first; it; it = it->after) {
        bool due = is_due(looking, it);
        bool many = looking->policy->count && left > (size_t)looking->policy->count;

        if (due || (many && it->held_until <= looking->now)) {
            if (!tell(looking, it, !due ? PRUNE_COUNT : it->ttl_sec >= 0 ? PRUNE_TTL : PRUNE_AGE))
                return false;
            left--;
        } else if (!space->at && it->held_until <= looking->now) {
            space->at = it;
        }
    }
    return true;
}

/* Has it been told by look_space? It may lie behind the first that stays. */
static bool is_told(const struct looking *looking, const struct prune_item *item)
{
    return item->held_until > looking->now || due_at(item, looking->policy) <= looking->now;
}

static struct prune_space *largest(const struct prune *prune)
{
    struct prune_space *best = NULL;
    struct str key;
    void *value;

    for (size_t at = 0; map_next(prune->spaces, &at, &key, &value);) {
        struct prune_space *space = value;

        if (space->at && (!best || space->left_bytes > best->left_bytes ||
                          (space->left_bytes == best->left_bytes && strcmp(space->ns, best->ns) < 0)))
            best = space;
    }
    return best;
}

size_t prune_look(const struct prune *prune, const struct prune_policy *policy, int64_t now,
                  struct prune_due *ret, size_t max)
{
    struct looking looking = {policy, now, ret, 0, max, prune->bytes};
    struct prune_space *space;
    struct str key;
    void *value;

    for (size_t at = 0; map_next(prune->spaces, &at, &key, &value);)
        if (!look_space(&looking, value))
            return looking.len;
    while (policy->bytes && looking.left_bytes > policy->bytes && (space = largest(prune))) {
        if (!tell(&looking, space->at, PRUNE_BYTES))
            break;
        do
            space->at = space->at->after;
        while (space->at && is_told(&looking, space->at));
    }
    return looking.len;
}

int64_t prune_next(const struct prune *prune, const struct prune_policy *policy, int64_t now)
{
    int64_t next = INT64_MAX;
    struct str key;
    void *value;

    for (size_t at = 0; map_next(prune->items, &at, &key, &value);) {
        const struct prune_item *item = value;
        int64_t due = later(due_at(item, policy), item->held_until);

        if (due_at(item, policy) < INT64_MAX && due < next)
            next = due > now ? due : now;
    }
    return next;
}

struct prune_totals prune_totals(const struct prune *prune)
{
    return (struct prune_totals){map_len(prune->items), prune->retained, prune->bytes};
}
