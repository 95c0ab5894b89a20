#include "control/util.h"

struct effect *effects_add(struct effects *effects, enum effect_type type)
{
    struct effect *effect;

    if (effects->len == EFFECTS_MAX) {
        effects->more = true;
        return NULL;
    }
    effect = &effects->v[effects->len++];
    *effect = (struct effect){.type = type, .grace_sec = -1};
    return effect;
}

static struct effect *about(struct effects *effects, enum effect_type type, const struct object *object)
{
    struct effect *effect = effects_add(effects, type);

    if (effect) {
        effect->kind = object->kind;
        effect->ns = object->ns;
        effect->name = object->name;
        effect->uid = object->uid;
    }
    return effect;
}

struct effect *effect_update(struct effects *effects, const struct object *object, struct json *doc)
{
    struct effect *effect = about(effects, EFFECT_UPDATE, object);

    if (effect)
        effect->doc = doc;
    return effect;
}

struct effect *effect_update_status(struct effects *effects, const struct object *object, struct json *doc)
{
    struct effect *effect = about(effects, EFFECT_UPDATE_STATUS, object);

    if (effect)
        effect->doc = doc;
    return effect;
}

struct effect *effect_delete(struct effects *effects, const struct object *object)
{
    return about(effects, EFFECT_DELETE, object);
}

struct effect *effect_create(struct effects *effects, const struct kind *kind, const char *ns,
                             struct json *doc)
{
    struct effect *effect = effects_add(effects, EFFECT_CREATE);

    if (effect) {
        effect->kind = kind;
        effect->ns = ns;
        effect->name = json_at_string(doc, "metadata.name");
        effect->doc = doc;
    }
    return effect;
}

struct effect *effect_event(struct effects *effects, const char *type, const char *reason,
                            const char *message)
{
    struct effect *effect = effects_add(effects, EFFECT_EVENT);

    if (effect) {
        effect->event_type = type;
        effect->reason = reason;
        effect->message = message;
    }
    return effect;
}

void effect_wake(struct effects *effects, int64_t at)
{
    struct effect *effect = effects_add(effects, EFFECT_WAKE);

    if (effect)
        effect->wake_at = at;
}

bool string_list_has(const struct json *list, const char *s)
{
    JSON_EACH(list, it)
        if (streq(json_string(it), s))
            return true;
    return false;
}

void string_list_remove(struct json *list, const char *s)
{
    for (size_t i = json_len(list); i > 0; i--)
        if (streq(json_string(json_item(list, i - 1)), s))
            json_remove_item(list, i - 1);
}

bool finalizer_has(const struct json *doc, const char *name)
{
    return string_list_has(json_at(doc, "metadata.finalizers"), name);
}

void finalizer_add(struct arena *arena, struct json *doc, const char *name)
{
    struct json *meta = json_need_object(arena, doc, "metadata");
    struct json *list = json_get(meta, "finalizers");

    if (string_list_has(list, name))
        return;
    if (!json_is(list, JSON_ARRAY))
        list = json_set_array(arena, meta, "finalizers");
    json_push_string(arena, list, name);
}

bool finalizer_remove(struct json *doc, const char *name)
{
    struct json *meta = json_get(doc, "metadata");
    struct json *list = json_get(meta, "finalizers");

    if (!string_list_has(list, name))
        return false;
    string_list_remove(list, name);
    if (json_len(list) == 0)
        json_remove(meta, "finalizers");
    return true;
}

int64_t time_of(const struct json *value, int64_t fallback)
{
    int64_t t;

    return json_string(value) && clock_parse(json_str(value), &t) ? t : fallback;
}

void time_set(struct arena *arena, struct json *object, const char *key, int64_t t)
{
    char text[CLOCK_TEXT_MAX];

    json_set_string(arena, object, key, clock_format(t, text));
}
