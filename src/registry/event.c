/* Events about objects. The same thing said again counts up on the event that is there. Names are that of the
 * object, the time, and a hash of what is said: lists are sorted by name, so they show what came first first,
 * and kubectl, which sorts by full seconds, keeps that order. */
#include "base/clock.h"
#include "registry/internal.h"

#include <stdarg.h>

#define EVENT_TIME_DIGITS 13 /* microseconds since 1970 */
#define EVENT_HASH_DIGITS 8
#define EVENT_NAME_MAX    253 /* of the whole name, as of any object */
/* Bytes of the object's name that fit before the dot, the time and the hash. */
#define EVENT_ABOUT_MAX (EVENT_NAME_MAX - 1 - EVENT_TIME_DIGITS - EVENT_HASH_DIGITS)

struct repeat {
    const char *time;
};

static bool count_up(void *arg, struct arena *arena, struct json *doc)
{
    const struct repeat *repeat = arg;

    json_set_int(arena, doc, "count", json_int(json_get(doc, "count"), 1) + 1);
    json_set_string(arena, doc, "lastTimestamp", repeat->time);
    return true;
}

static struct json *event_document(struct arena *arena, const struct object *about, const char *name,
                                   const char *ns, const char *type, const char *reason, const char *message,
                                   const char *time)
{
    struct json *doc = json_new_object(arena);
    struct json *meta = json_set_object(arena, doc, "metadata");
    struct json *ref;

    json_set_string(arena, meta, "name", name);
    json_set_string(arena, meta, "namespace", ns);
    ref = json_set_object(arena, doc, "involvedObject");
    json_set_string(arena, ref, "kind", about->kind->name);
    if (*about->ns)
        json_set_string(arena, ref, "namespace", about->ns);
    json_set_string(arena, ref, "name", about->name);
    json_set_string(arena, ref, "uid", about->uid);
    json_set_string(arena, ref, "apiVersion", kind_api_version(about->kind));
    json_set_string(arena, ref, "resourceVersion", arena_printf(arena, "%lld", (long long)about->rv));
    json_set_string(arena, doc, "reason", reason);
    json_set_string(arena, doc, "message", message);
    json_set_string(arena, json_set_object(arena, doc, "source"), "component", "berth");
    json_set_string(arena, doc, "firstTimestamp", time);
    json_set_string(arena, doc, "lastTimestamp", time);
    json_set_int(arena, doc, "count", 1);
    json_set_string(arena, doc, "type", type);
    json_set(arena, doc, "eventTime", *json_new_null(arena));
    json_set_string(arena, doc, "reportingComponent", "berth");
    json_set_string(arena, doc, "reportingInstance", "");
    return doc;
}

/* The event of this object that says the same; NULL: none. */
static const struct object *find_said(struct registry *registry, const char *ns, const char *about,
                                      const char *hash)
{
    CLEANUP(free) char *prefix = mem_printf("%.*s.", EVENT_ABOUT_MAX, about);
    struct store_slice all = store_list(registry->store, KIND_EVENT, ns);

    for (size_t i = store_slice_after(all, ns, prefix); i < all.len; i++) {
        const char *name = all.v[i]->name;

        if (!starts_with(name, prefix))
            return NULL;
        if (strlen(name) == strlen(prefix) + EVENT_TIME_DIGITS + EVENT_HASH_DIGITS && ends_with(name, hash))
            return all.v[i];
    }
    return NULL;
}

void registry_event(struct registry *registry, const struct object *about, const char *type,
                    const char *reason, const char *fmt, ...)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf message = {0}, said = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    const char *ns = *about->ns ? about->ns : "default";
    const struct object *there;
    struct written written;
    char time[CLOCK_TEXT_MAX], hash[EVENT_HASH_DIGITS + 1];
    int64_t now = clock_now();
    char *name;
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&message, fmt, ap);
    va_end(ap);
    clock_format(now, time);
    buf_printf(&said, "%s/%s/%s/%s", about->uid, type, reason, message.data);
    snprintf(hash, sizeof(hash), "%0*x", EVENT_HASH_DIGITS, (unsigned)str_hash(buf_view(&said)));
    there = find_said(registry, ns, about->name, hash);
    if (there) {
        struct repeat repeat = {time};

        registry_edit_object(registry, &write, there, count_up, &repeat, &written);
        return;
    }
    name = arena_printf(&arena, "%.*s.%0*llx%s", EVENT_ABOUT_MAX, about->name, EVENT_TIME_DIGITS,
                        (unsigned long long)now / 1000, hash);
    registry_create(registry, &write, kind_by_id(KIND_EVENT), ns,
                    event_document(&arena, about, name, ns, type, reason, message.data, time), &written);
}
