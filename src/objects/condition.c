#include "objects/condition.h"

#include "base/clock.h"

struct json *condition_find(const struct json *status, const char *type)
{
    JSON_EACH(json_get(status, "conditions"), it)
        if (streq(json_get_string(it, "type"), type))
            return it;
    return NULL;
}

bool condition_is(const struct json *status, const char *type, const char *value)
{
    return streq(json_get_string(condition_find(status, type), "status"), value);
}

static void set_or_remove(struct arena *arena, struct json *object, const char *key, const char *text)
{
    if (text)
        json_set_string(arena, object, key, text);
    else
        json_remove(object, key);
}

bool condition_set(struct arena *arena, struct json *status, const char *type, const char *value,
                   const char *reason, const char *message, int64_t now)
{
    struct json *condition = condition_find(status, type);
    struct json *list = json_get(status, "conditions");
    bool moved = !condition || !streq(json_get_string(condition, "status"), value);
    char time[CLOCK_TEXT_MAX];

    if (!moved && streq(json_get_string(condition, "reason"), reason) &&
        streq(json_get_string(condition, "message"), message))
        return false;
    if (!condition) {
        if (!json_is(list, JSON_ARRAY))
            list = json_set_array(arena, status, "conditions");
        condition = json_push_object(arena, list);
        json_set_string(arena, condition, "type", type);
    }
    json_set_string(arena, condition, "status", value);
    if (moved)
        json_set_string(arena, condition, "lastTransitionTime", clock_format(now, time));
    set_or_remove(arena, condition, "reason", reason);
    set_or_remove(arena, condition, "message", message);
    return true;
}
