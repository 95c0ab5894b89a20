/* What the endpoints of type `event` of a task are told. A record per task, under its uid, keeps the URLs,
 * their secret headers, the last sequence number and the last state told:
 *
 *   {"task_id", "task_def", "creator", "namespace", "sequence": 3, "last": "Running",
 *    "endpoints": [{"url", "headers"}]}
 *
 * It goes with the last message. Record and messages are written in the turn in which the state is noted, so
 * none is lost or told twice under another number. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "notify/webhook.h"
#include "objects/names.h"
#include "tasks/internal.h"

#include <ctype.h>

#define LOG_MODULE "tasks"
#include "base/log.h"

static struct json *record_of(struct tasks *tasks, const char *uid, struct arena *arena)
{
    struct str text = store_value(tasks->store, CALLBACKS_TABLE, uid);
    struct json *record = NULL;

    if (!text.s || json_parse(text, arena, &record, NULL, NULL) < 0)
        return NULL;
    return record;
}

static void record_set(struct tasks *tasks, const char *uid, const struct json *record)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, record);
    store_value_set(tasks->store, CALLBACKS_TABLE, uid, buf_view(&text));
}

void callbacks_add(struct tasks *tasks, const struct object *task, const struct json *callbacks,
                   const char *task_def, const char *creator)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *record = json_new_object(&arena);

    if (!tasks->config.notify || !json_len(callbacks))
        return;
    json_set_string(&arena, record, "task_id", task->name);
    json_set_string(&arena, record, "task_def", task_def);
    json_set_string(&arena, record, "creator", creator);
    json_set_string(&arena, record, "namespace", task->ns);
    json_set_int(&arena, record, "sequence", 0);
    json_set_string(&arena, record, "last", "");
    json_set(&arena, record, "endpoints", *callbacks);
    record_set(tasks, task->uid, record);
}

void callbacks_inherit(struct tasks *tasks, const char *uid, struct arena *arena, struct json *callbacks)
{
    const struct json *record = record_of(tasks, uid, arena);

    JSON_EACH(callbacks, it)
        if (!json_get(it, "headers"))
            JSON_EACH(json_get(record, "endpoints"), old)
                if (streq(json_get_string(old, "url"), json_get_string(it, "url")) &&
                    json_get(old, "headers"))
                    json_set(arena, it, "headers", *json_get(old, "headers"));
}

static const char *lane_of(const char *uid, size_t place, struct arena *arena)
{
    return arena_printf(arena, "%s/%zu", uid, place);
}

static const char *lower(const char *text, struct arena *arena)
{
    char *copy = arena_strdup(arena, text);

    for (char *p = copy; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return copy;
}

static struct json *body_of(const struct json *record, const char *key, const char *state, const char *reason,
                            int64_t sequence, struct arena *arena)
{
    static const char *const copied[] = {"task_id", "task_def", "creator"};
    struct json *body = json_new_object(arena);
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, body, "status", lower(state, arena));
    for (size_t i = 0; i < ARRAY_LEN(copied); i++)
        json_set_string(arena, body, copied[i], json_string_or(json_get(record, copied[i]), ""));
    json_set_string(arena, body, "namespace", json_string_or(json_get(record, "namespace"), ""));
    json_set_string(arena, body, "reason", reason);
    json_set_string(arena, body, "time", clock_format_micro(clock_now(), time));
    json_set_int(arena, body, "sequence", sequence);
    json_set_string(arena, body, "idempotency_key", key);
    return body;
}

static void tell(struct tasks *tasks, const char *uid, struct json *record, const char *state,
                 const char *reason, struct arena *arena)
{
    int64_t sequence = json_int(json_get(record, "sequence"), 0) + 1;
    const char *key = arena_printf(arena, "%s-%lld", uid, (long long)sequence);
    struct json *body = body_of(record, key, state, reason, sequence, arena);
    size_t place = 0;

    json_set_int(arena, record, "sequence", sequence);
    json_set_string(arena, record, "last", state);
    JSON_EACH(json_get(record, "endpoints"), it) {
        struct json *payload = json_copy(arena, it);
        struct err err = {0};
        struct notify_message message = {
            .handler = "webhook",
            .lane = lane_of(uid, place++, arena),
            .host = webhook_host(json_string_or(json_get(it, "url"), ""), arena),
            .payload = payload,
        };

        json_set(arena, payload, "body", *body);
        json_set_string(arena, payload, "key", key);
        if (notify_push(tasks->config.notify, &message, &err) < 0)
            log_warn("task '%s': a callback cannot be sent: %s",
                     json_string_or(json_get(record, "task_id"), ""), err.msg);
    }
}

void callbacks_state(struct tasks *tasks, const char *uid, const char *state, const char *reason,
                     bool has_run)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *record = tasks->config.notify ? record_of(tasks, uid, &arena) : NULL;
    const char *last = json_string_or(json_get(record, "last"), "");

    if (!record || streq(last, state) || (pod_phase_is_over(last) && !streq(state, "Deleted")))
        return;
    if (pod_phase_is_over(state) && has_run && !streq(last, "Running")) /* it was over before we looked */
        tell(tasks, uid, record, "Running", "it has started", &arena);
    tell(tasks, uid, record, state, reason, &arena);
    if (streq(state, "Deleted"))
        store_value_set(tasks->store, CALLBACKS_TABLE, uid, (struct str){0});
    else
        record_set(tasks, uid, record);
}

struct json *callbacks_show(struct tasks *tasks, const char *uid, struct arena *arena)
{
    const struct json *record = record_of(tasks, uid, arena);
    struct json *list = json_new_array(arena);
    size_t place = 0;

    JSON_EACH(json_get(record, "endpoints"), it) {
        struct json *entry = json_push_object(arena, list);
        struct notify_lane_state state;

        notify_lane(tasks->config.notify, lane_of(uid, place++, arena), &state);
        json_set_string(arena, entry, "endpoint",
                        webhook_shown(json_string_or(json_get(it, "url"), ""), arena));
        json_set_int(arena, entry, "sequence", json_int(json_get(record, "sequence"), 0));
        json_set_int(arena, entry, "waiting", (int64_t)state.waiting);
        json_set_int(arena, entry, "tries", state.tries);
        json_set(arena, entry, "error", *json_new_string(arena, *state.why ? state.why : NULL));
    }
    return list;
}

struct orphans {
    struct tasks *tasks;
    VEC(char *) uids;
};

static void find_orphan(void *arg, const char *uid, struct str value)
{
    struct orphans *orphans = arg;

    (void)value;
    if (!store_by_uid(orphans->tasks->store, uid))
        vec_push(&orphans->uids, mem_strdup(uid));
}

void callbacks_reconcile(struct tasks *tasks)
{
    struct orphans orphans = {.tasks = tasks};

    store_values(tasks->store, CALLBACKS_TABLE, find_orphan, &orphans);
    VEC_EACH(&orphans.uids, it) {
        callbacks_state(tasks, *it, "Deleted", "it has been deleted", false);
        free(*it);
    }
    vec_done(&orphans.uids);
}

void tasks_callback_lost(void *arg, const char *lane, const char *why)
{
    struct tasks *tasks = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    const char *slash = strchr(lane, '/');
    const struct object *task =
        slash ? store_by_uid(tasks->store, arena_strndup(&arena, lane, (size_t)(slash - lane))) : NULL;

    if (task)
        registry_event(tasks->registry, task, "Warning", "CallbackFailed", "A callback was given up: %s",
                       why);
}
