/* One job: looking it up, all that is known of it, why it waits. */
#include "control/util.h"
#include "objects/train_options.h"
#include "queue/internal.h"
#include "queue/series.h"
#include "registry/access.h"

#define AHEAD_MAX 20

/* ---- looking up ---- */

/* A pod of a Job or TrainingJob stands for its owner. */
static const char *row_of(struct queue *queue, const struct object *object)
{
    char uid[64] = "";
    const struct object *owner;
    const struct unit *unit;

    if (object->kind->id == KIND_POD && object->controller)
        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(object->owners[object->controller - 1]));
    if ((unit = unit_find(queue, uid)) && unit_controls(unit, object))
        return unit_row(unit);
    owner = row_object(queue, uid);
    return owner && object_controls(owner, object) &&
                   (owner->kind->id == KIND_JOB || owner->kind->id == KIND_TRAINING_JOB)
               ? owner->uid
               : object->uid;
}

static bool is_queued_kind(const struct object *object)
{
    int kind = object->kind->id;

    return kind == KIND_POD || kind == KIND_JOB || kind == KIND_TRAINING_JOB;
}

struct search {
    const char *ns, *name;
    const char *found;
    int hits;
    struct arena *arena;
};

static void hit(struct search *search, const char *uid)
{
    if (search->found && streq(search->found, uid))
        return;
    search->found = arena_strdup(search->arena, uid);
    search->hits++;
}

static void search_kind(struct queue *queue, int kind, struct search *search)
{
    const struct object *object;

    if (search->ns) {
        if ((object = store_get(queue->store, kind, search->ns, search->name)))
            hit(search, row_of(queue, object));
        return;
    }
    OBJECTS_EACH(store_list(queue->store, kind, NULL), it)
        if (streq((*it)->name, search->name))
            hit(search, row_of(queue, *it));
}

static void search_all(struct queue *queue, struct search *search)
{
    static const int kinds_of_rows[] = {KIND_TRAINING_JOB, KIND_JOB, KIND_POD};

    for (size_t i = 0; i < ARRAY_LEN(kinds_of_rows) && !search->hits; i++)
        search_kind(queue, kinds_of_rows[i], search);
}

static bool is_called(const struct search *search, const char *ns, const char *name)
{
    return streq(name, search->name) && (!search->ns || streq(ns, search->ns));
}

static void search_ending(struct queue *queue, struct search *search)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(queue->ending, &at, &key, &value)) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct json *doc = NULL;

        if (json_parse(str_from(value), &arena, &doc, NULL, NULL) == 0 &&
            is_called(search, json_get_string(doc, "namespace"), json_get_string(doc, "name")))
            hit(search, arena_strndup(&arena, key.s, key.len));
    }
}

/* Those whose object has gone, while the queue has not let go of them or their end is not on the disk. */
static void search_leaving(struct queue *queue, const char *id, struct search *search)
{
    const struct unit *unit = unit_find(queue, id);
    struct str key;
    void *value;
    size_t at = 0;

    if (unit || map_get(queue->ending, str_from(id)) || map_get(queue->jobs, str_from(id))) {
        hit(search, unit ? unit_row(unit) : id);
        return;
    }
    UNITS_EACH(queue, it)
        if (is_called(search, it->ns, it->name) || (it->job && is_called(search, it->ns, it->job_name)))
            hit(search, unit_row(it));
    while (map_next(queue->jobs, &at, &key, &value)) {
        const struct object *job = value;

        if (is_called(search, job->ns, job->name))
            hit(search, job->uid);
    }
    if (!search->hits)
        search_ending(queue, search);
}

int queue_find_queued(struct queue *queue, const char *id, struct arena *arena, const char **ret,
                      struct err *err)
{
    const char *slash = strchr(id, '/');
    struct search search = {.name = slash ? slash + 1 : id, .arena = arena};
    const struct unit *unit = unit_find(queue, id);

    search.ns = slash ? arena_strndup(arena, id, (size_t)(slash - id)) : NULL;
    if (unit)
        hit(&search, unit_row(unit));
    else
        UNITS_EACH(queue, it)
            if (it->kind == KIND_TRAINING_JOB && is_called(&search, it->ns, it->name))
                hit(&search, it->uid);
    if (search.hits > 1)
        return err_set(err, ERR_CONFLICT, "there are %d jobs called '%s': say NAMESPACE/NAME", search.hits,
                       id);
    if (!search.hits)
        return err_set(err, ERR_NOT_FOUND, "no training job '%s' is in the queue", id);
    *ret = search.found;
    return 0;
}

int queue_find(struct queue *queue, const char *id, const char *own, struct arena *arena, const char **ret,
               struct err *err)
{
    const struct object *object = store_by_uid(queue->store, id);
    const char *slash = strchr(id, '/');
    struct search search = {.name = slash ? slash + 1 : id, .arena = arena};

    if (object && is_queued_kind(object)) {
        *ret = arena_strdup(arena, row_of(queue, object));
        return 0;
    }
    search.ns = slash ? arena_strndup(arena, id, (size_t)(slash - id)) : own;
    search_all(queue, &search);
    if (!search.hits && !slash && own) {
        search.ns = NULL;
        search_all(queue, &search);
    }
    if (!search.hits)
        search_leaving(queue, id, &search);
    if (search.hits > 1)
        return err_set(err, ERR_CONFLICT, "there are %d jobs called '%s': say NAMESPACE/NAME", search.hits,
                       id);
    if (!search.hits)
        return err_set(err, ERR_NOT_FOUND, "there is no job '%s'", id);
    *ret = search.found;
    return 0;
}

bool queue_may(struct queue *queue, const struct identity *who, const char *uid, bool change)
{
    const struct object *object = store_by_uid(queue->store, uid);

    if (!who || access_is_admin(who))
        return true;
    if (!object)
        return false;
    return access_allowed(queue->registry, who,
                          &(struct access){.verb = change ? "delete" : "get",
                                           .kind = object->kind,
                                           .subresource = "",
                                           .ns = object->ns,
                                           .name = object->name,
                                           .path = ""});
}

const char *queue_log_path(struct queue *queue, const char *uid, struct arena *arena)
{
    return queue->log_dir ? arena_printf(arena, "%s/%s.log", queue->log_dir, uid) : NULL;
}

/* ---- one row, of the queue or ended ---- */

/* Stored a moment ago: the watch has not told yet. */
static bool is_new(struct queue *queue, const char *uid)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *object = store_by_uid(queue->store, uid);
    const char *phase;

    if (!object || object->deleting ||
        (object->kind->id != KIND_POD && object->kind->id != KIND_TRAINING_JOB))
        return false;
    phase = json_string_or(json_at(object_json(object, &arena), "status.phase"), "Pending");
    return streq(phase, "Pending");
}

static void look_if_new(struct queue *queue, const char *uid)
{
    if (unit_find(queue, uid) || !is_new(queue, uid))
        return;
    queue_look(queue, uid);
    records_note(queue);
}

/* As it is in memory; NULL: it is not. */
static struct json *row_in_memory(struct queue *queue, const struct identity *who, const char *uid,
                                  struct arena *arena)
{
    const char *ending = map_get(queue->ending, str_from(uid));
    struct json *row = NULL;

    if (!ending) {
        look_if_new(queue, uid);
        return row_json(queue, who, uid, arena);
    }
    if (json_parse(str_from(ending), arena, &row, NULL, NULL) == 0)
        json_set_bool(arena, row, "mine",
                      row_mine(who, json_get_string(row, "user"), json_get_string(row, "namespace")));
    return row;
}

bool queue_is_past(struct queue *queue, const char *uid)
{
    if (map_get(queue->ending, str_from(uid)))
        return false;
    look_if_new(queue, uid);
    return phase_is_over(row_phase(queue, uid));
}

int queue_job(struct queue *queue, const struct identity *who, const char *uid, const struct json *last,
              struct arena *arena, struct json **ret, struct err *err)
{
    *ret = last && queue_is_past(queue, uid) ? json_copy(arena, last) : row_in_memory(queue, who, uid, arena);
    if (!*ret && last)
        *ret = json_copy(arena, last);
    return *ret ? 0 : err_set(err, ERR_NOT_FOUND, "there is no job '%s'", uid);
}

/* ---- all of it ---- */

struct pods {
    struct arena *arena;
    struct json *list;
};

static void add_pod_json(struct pods *pods, const struct object *object)
{
    const struct json *doc = object_json(object, pods->arena);
    struct json *out = json_push_object(pods->arena, pods->list);
    const struct json *end = json_at(doc, "status.containerStatuses.0.state.terminated.finishedAt");

    json_set_string(pods->arena, out, "name", object->name);
    json_set_string(pods->arena, out, "phase", json_string_or(json_at(doc, "status.phase"), "Pending"));
    json_set_string(pods->arena, out, "started", json_at_string(doc, "status.startTime"));
    json_set_string(pods->arena, out, "finished", json_string(end));
}

static void add_pod(void *arg, const struct object *object)
{
    if (object->kind->id == KIND_POD)
        add_pod_json(arg, object);
}

static void set_pods(struct queue *queue, const struct object *object, struct arena *arena, struct json *out)
{
    struct pods pods = {arena, json_set_array(arena, out, "pods")};

    if (object && object->kind->id == KIND_POD)
        add_pod_json(&pods, object);
    else if (object)
        store_parts(queue->store, object, add_pod, &pods);
}

static void set_events(struct queue *queue, const struct object *object, struct arena *arena,
                       struct json *out)
{
    struct json *list = json_set_array(arena, out, "events");

    if (!object)
        return;
    OBJECTS_EACH(store_list(queue->store, KIND_EVENT, object->ns), it) {
        const struct json *doc = object_json(*it, arena);
        struct json *event;

        if (!streq(json_at_string(doc, "involvedObject.uid"), object->uid))
            continue;
        event = json_push_object(arena, list);
        json_set_ms(arena, event, "time",
                    time_of(json_get(doc, "lastTimestamp"), time_of(json_get(doc, "eventTime"), 0)) /
                        NSEC_PER_MSEC);
        json_set_string(arena, event, "type", json_get_string(doc, "type"));
        json_set_string(arena, event, "reason", json_get_string(doc, "reason"));
        json_set_string(arena, event, "message", json_get_string(doc, "message"));
    }
}

/* The members beside the row and the series. */
static void set_rest(struct queue *queue, const struct object *object, bool private, struct arena *arena,
                     struct json *out)
{
    const struct json *doc = object ? object_json(object, arena) : NULL, *times;
    CLEANUP(buf_done) struct buf text = {0};

    times = json_at(doc, "status.secondsPerEpoch");
    json_set(arena, out, "secondsPerEpoch", times ? *times : *json_new_object(arena));
    if (private && doc)
        json_set(arena, out, "manifest", *doc);
    else
        json_set_null(arena, out, "manifest");
    set_pods(queue, object, arena, out);
    if (private)
        set_events(queue, object, arena, out);
    else
        json_set_array(arena, out, "events");
    json_set_null(arena, out, "command");
    if (!private || !object || object->kind->id != KIND_TRAINING_JOB)
        return;
    /* the command that would submit it again, where run-scheduler's options say all of it */
    train_command_line(&text, json_get(doc, "spec"), object->name);
    json_set(arena, out, "command", json_of_str(arena, buf_view(&text)));
}

int queue_show(struct queue *queue, const struct identity *who, const char *id, const char *own,
               const struct queue_reader *reader, struct queue_past **ret, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct err why = {0};
    const char *uid = NULL;
    const struct object *object;
    struct show show = {0};
    struct json *row = NULL, *rest = json_new_object(&arena);

    if (queue_find(queue, id, own, &arena, &uid, &why) < 0 && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.msg);
    object = uid ? store_by_uid(queue->store, uid) : NULL;
    show.private = queue_may(queue, who, uid ? uid : "", false);
    row = uid ? row_in_memory(queue, who, uid, &arena) : NULL;
    show.past = !uid || !row || queue_is_past(queue, uid);
    set_rest(queue, object, show.private, &arena, rest);
    return show_start(queue, who, uid ? uid : id, &show, row, rest, reader, ret, err);
}

/* ---- why ---- */

static void set_ahead(struct queue *queue, const struct wait *wait, struct arena *arena, struct json *list)
{
    const struct plan *plan = life_plan(queue->life, queue_now(queue));

    VEC_EACH(&plan->waits, it) {
        const struct unit *unit = unit_by_id(queue, live_view(life_live(queue->life))->jobs[it->job].id);
        CLEANUP(buf_done) struct buf text = {0};
        struct json *out;

        if (list->len >= AHEAD_MAX)
            break;
        if (!unit || it->position >= wait->position)
            continue;
        out = json_push_object(arena, list);
        sched_ordinal_text(it->ordinal, &text);
        json_set_string(arena, out, "id", unit_row(unit));
        json_set_string(arena, out, "name", unit_w(unit)->name);
        json_set_string(arena, out, "user", unit_w(unit)->user);
        json_set_real(arena, out, "ordinal", (double)it->ordinal / 1000);
        json_set_int(arena, out, "gpus", unit_w(unit)->demand.min_gpus);
        json_set_string(arena, out, "why",
                        unit_w(unit)->demand.max_gpus == 0
                            ? "needs no GPU"
                            : arena_printf(arena, "%s GPU of its user", text.data));
    }
}

struct freeing {
    const struct unit *unit;
    int64_t when;
    const char *how;
};

static int by_when(const void *a, const void *b)
{
    const struct freeing *x = a, *y = b;

    return x->when < y->when ? -1 : x->when > y->when;
}

static struct freeing freeing_of(struct queue *queue, const struct unit *it, int64_t ordinal, int64_t now)
{
    struct freeing f = {.unit = it, .how = "ends"};
    const struct workload *w = unit_w(it);
    struct life_when when;

    life_when(queue->life, it->life, now, &when);
    f.when = when.end_ms;
    if (it->life->stop.kind) {
        f.how = "is stopping";
        f.when = it->life->stop.until_ms ? it->life->stop.until_ms : now;
    } else if (live_ordinal(life_live(queue->life), it->id) > ordinal && !w->keep &&
               !workload_in_last_epoch(w)) {
        f.how = queue->config.preemption == PREEMPTION_OFF                    ? "ends"
                : queue->config.preemption == PREEMPTION_ASK || !w->resumable ? "can be claimed (berth claim)"
                                                                              : "can be preempted";
    } else if (it->kind == KIND_POD && w->declared_ms == 0) {
        f.how = "ends (end unknown)";
    }
    return f;
}

static void set_frees(struct queue *queue, int64_t ordinal, struct arena *arena, struct json *list)
{
    int64_t now = queue_now(queue);
    VEC(struct freeing) all = {0};

    UNITS_HOLDING(queue, it)
        if (workload_gpus(unit_w(it)) > 0)
            vec_push(&all, freeing_of(queue, it, ordinal, now));
    if (all.len)
        qsort(all.v, all.len, sizeof(*all.v), by_when);
    VEC_EACH(&all, it) {
        struct json *out;

        if (list->len >= AHEAD_MAX)
            break;
        out = json_push_object(arena, list);
        json_set_string(arena, out, "id", unit_row(it->unit));
        json_set_string(arena, out, "name", unit_w(it->unit)->name);
        json_set_string(arena, out, "user", unit_w(it->unit)->user);
        json_set_int(arena, out, "gpus", workload_gpus(unit_w(it->unit)));
        json_set_ms(arena, out, "when", it->when);
        json_set_string(arena, out, "how", it->how);
    }
    vec_done(&all);
}

static const char *why_text(const struct json *row, const struct json *ahead, const struct json *frees,
                            struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct json *position = json_get(row, "position"), *first = json_item(frees, 0);
    const char *start = json_get_string(row, "startEstimate");

    buf_printf(&text, "%s is %s: %s.", json_string_or(json_get(row, "name"), ""),
               json_string_or(json_get(row, "state"), ""), json_string_or(json_get(row, "reason"), ""));
    if (json_is(position, JSON_INT))
        buf_printf(&text, "\nPosition %lld in the queue; %zu ahead of it.", (long long)json_int(position, 0),
                   json_len(ahead));
    if (json_is(position, JSON_INT) && first)
        buf_printf(&text, "\nNext to free GPUs: %s (%s).", json_string_or(json_get(first, "name"), ""),
                   json_string_or(json_get(first, "how"), ""));
    if (start)
        buf_printf(&text, "\nExpected to start about %s (between %s and %s).", start,
                   json_string_or(json_get(row, "startLow"), "?"),
                   json_string_or(json_get(row, "startHigh"), "?"));
    return arena_strndup(arena, text.data, text.len);
}

int queue_why(struct queue *queue, const struct identity *who, const char *uid, const struct json *last,
              struct arena *arena, struct json **ret, struct err *err)
{
    static const char *const copied[] = {"state",         "position", "reason",
                                         "startEstimate", "startLow", "startHigh"};
    struct json *row, *out = json_new_object(arena), *ahead = json_new_array(arena),
                      *frees = json_new_array(arena);
    unit_list units = {0};
    const struct wait *wait = NULL;
    int64_t now = queue_now(queue);

    if (queue_job(queue, who, uid, last, arena, &row, err) < 0)
        return -1;
    row_units(queue, uid, &units);
    VEC_EACH(&units, it) {
        const struct wait *its = (*it)->life ? life_wait(queue->life, (*it)->life, now) : NULL;

        if (its && (!wait || its->position < wait->position))
            wait = its;
    }
    if (wait) {
        set_ahead(queue, wait, arena, ahead);
        set_frees(queue, wait->ordinal, arena, frees);
    }
    vec_done(&units);
    json_set_string(arena, out, "job", uid);
    row_copy(arena, out, row, copied, ARRAY_LEN(copied));
    json_set(arena, out, "ahead", *ahead);
    json_set(arena, out, "frees", *frees);
    json_set_string(arena, out, "text", why_text(row, ahead, frees, arena));
    *ret = out;
    return 0;
}
