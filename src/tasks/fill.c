/* From filled values to what a template gets: the user's values, the system's over them, `global` and
 * `configs` above. Secrets (the headers of callbacks) are taken out on the way: neither template nor task
 * sees them. */
#include "notify/webhook.h"
#include "tasks/internal.h"
#include "tasks/values.h"

#define SECRET "(secret)"

static bool is_event(const struct json *endpoint)
{
    return streq(json_get_string(endpoint, "type"), "event");
}

static void hide_headers(struct arena *arena, struct json *endpoint)
{
    struct json *headers = json_get(endpoint, "headers");

    if (json_is(headers, JSON_OBJECT)) {
        JSON_EACH_MEMBER(headers, it)
            it->value = json_of_string_ref(SECRET);
    } else if (headers) {
        json_set_string(arena, endpoint, "headers", SECRET);
    }
}

static bool all_hidden(const struct json *headers)
{
    JSON_EACH_MEMBER(headers, it)
        if (!streq(json_string(&it->value), SECRET))
            return false;
    return json_len(headers) > 0;
}

/* Event endpoints with their headers into callbacks; what is left in values is without them. */
static int take_callbacks(struct tasks *tasks, struct json *values, bool check, struct arena *arena,
                          struct json *callbacks, struct failure *failure)
{
    size_t place = 0;

    JSON_EACH(json_get(values, "endpoints"), it) {
        struct json *url = json_get(it, "endpoint"), *headers = json_get(it, "headers"), *callback;
        struct err err = {0};

        place++;
        if (!is_event(it) || !url || json_is(url, JSON_NULL) || (json_is(url, JSON_STRING) && !url->len)) {
            if (is_event(it))
                hide_headers(arena, it);
            continue;
        }
        if (check && tasks->config.policy && webhook_check(tasks->config.policy, url, headers, &err) < 0)
            return failure_set(failure, arena, 422, "Invalid", "endpoints[%zu].endpoint: %s", place - 1,
                               err.msg);
        callback = json_push_object(arena, callbacks);
        json_set(arena, callback, "url", *url);
        if (json_is(headers, JSON_OBJECT) && !all_hidden(headers))
            json_set(arena, callback, "headers", *json_copy(arena, headers));
        hide_headers(arena, it);
    }
    return 0;
}

static int say_missing(const struct json *description, const struct json *values, struct arena *arena,
                       struct failure *failure)
{
    struct json *missing = json_new_array(arena), *wrong = json_new_array(arena);
    CLEANUP(buf_done) struct buf text = {0};

    values_missing(description, values, arena, missing, wrong);
    if (!json_len(missing) && !json_len(wrong))
        return 0;
    if (json_len(missing))
        buf_puts(&text, "required values are missing: ");
    JSON_EACH(missing, it)
        buf_printf(&text, "%s%s", it == missing->items->v ? "" : ", ", json_string(it));
    JSON_EACH(wrong, it)
        buf_printf(&text, "%s%s", text.len ? "; " : "", json_string(it));
    failure_set(failure, arena, 422, "Invalid", "%s", text.data);
    failure->causes = json_new_array(arena);
    JSON_EACH(missing, it) {
        struct json *cause = json_push_object(arena, failure->causes);

        json_set_string(arena, cause, "reason", "FieldValueRequired");
        json_set_string(arena, cause, "message", "Required value");
        json_set(arena, cause, "field", *it);
    }
    return -1;
}

static struct json text_or(const struct json *value, const char *fallback, struct arena *arena)
{
    return value && !json_is(value, JSON_NULL) ? *value : *json_new_string(arena, fallback);
}

static struct json *make_global(const struct filled *filled, const struct json *values, const char *release,
                                struct arena *arena)
{
    struct json *global = json_new_object(arena);

    json_set_string(arena, global, "release", release);
    json_set_string(arena, global, "taskDef", filled->task_def);
    json_set_string(arena, global, "application", filled->application);
    json_set_string(arena, global, "creator", filled->creator);
    json_set(arena, global, "description", text_or(json_get(values, "description"), "", arena));
    json_set(arena, global, "name", text_or(json_get(values, "name"), "", arena));
    return global;
}

static struct json *make_dataset(const struct json *values, struct arena *arena)
{
    const struct json *own = json_get(values, "dataset");
    struct json *dataset = json_is(own, JSON_OBJECT) ? json_copy(arena, own) : json_new_object(arena);
    struct json *endpoints = json_new_array(arena);

    JSON_EACH(json_get(values, "endpoints"), it)
        if (streq(json_get_string(it, "type"), "dataset"))
            json_push(arena, endpoints, *it);
    json_set(arena, dataset, "endpoints", *endpoints);
    return dataset;
}

/* Numbers are fine as names of creators and applications; they are text from here on. */
static const char *scalar_text(const struct json *value, const char *fallback, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!value || json_is(value, JSON_NULL) || json_is(value, JSON_ARRAY) || json_is(value, JSON_OBJECT))
        return fallback;
    if (json_string(value))
        return json_string(value);
    json_write(&text, value);
    return arena_strndup(arena, text.data, text.len);
}

static struct json *merge(const struct json *spec, const struct json *system, const struct json *user,
                          struct arena *arena, struct json *locked)
{
    return values_lock(arena, system, user, json_get(spec, "overridableValues"), locked);
}

static void warn_locked(const struct json *locked, struct arena *arena, struct json *warnings)
{
    JSON_EACH(locked, it)
        json_push_string(arena, warnings,
                         arena_printf(arena, "%s: the task definition sets this value, yours is not used",
                                      json_string(it)));
}

static void add_own(struct json *values, const struct filled *filled, const char *release,
                    struct arena *arena)
{
    struct json *global = make_global(filled, values, release, arena), *configs = json_new_object(arena);

    json_set(arena, configs, "global", values_quoted(global, arena));
    json_set(arena, configs, "dataset", values_quoted(make_dataset(values, arena), arena));
    json_set(arena, configs, "process",
             values_quoted(json_is(json_get(values, "process"), JSON_NULL) || !json_get(values, "process")
                               ? json_new_object(arena)
                               : json_get(values, "process"),
                           arena));
    json_set(arena, values, "global", *global);
    json_set(arena, values, "configs", *configs);
}

int fill_values(struct tasks *tasks, const struct json *spec, struct json *user, const char *release,
                const char *fallback_creator, bool check_callbacks, struct arena *arena, struct filled *ret,
                struct json *warnings, struct failure *failure)
{
    struct json *description, *system, *locked = json_new_array(arena);
    struct err err = {0};

    if (values_read(json_get(spec, "userValuesDescription"), arena, &description, &err) < 0 ||
        values_read(json_get(spec, "systemValues"), arena, &system, &err) < 0)
        return failure_set(failure, arena, 422, "Invalid", "the task definition is broken: %s", err.msg);
    if (say_missing(description, user, arena, failure) < 0)
        return -1;
    ret->callbacks = json_new_array(arena);
    if (take_callbacks(tasks, user, check_callbacks, arena, ret->callbacks, failure) < 0)
        return -1;
    ret->shown = user;
    ret->application =
        scalar_text(json_get(user, "application"), json_string_or(json_get(spec, "application"), ""), arena);
    ret->creator = scalar_text(json_get(user, "creator"), fallback_creator, arena);
    ret->values = merge(spec, system, user, arena, locked);
    ret->hidden = merge(spec, values_hidden(arena, system), user, arena, NULL);
    if (warnings)
        warn_locked(locked, arena, warnings);
    add_own(ret->values, ret, release, arena);
    add_own(ret->hidden, ret, release, arena);
    return 0;
}
