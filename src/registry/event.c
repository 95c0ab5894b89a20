/* Events about objects. The same thing said again counts up on the event that is there, found by a
 * name made from what is said. */
#include "base/clock.h"
#include "registry/internal.h"

#include <stdarg.h>

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
    char time[CLOCK_TEXT_MAX];
    char *name;
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&message, fmt, ap);
    va_end(ap);
    clock_format(clock_now(), time);
    buf_printf(&said, "%s/%s/%s/%s", about->uid, type, reason, message.data);
    name = arena_printf(&arena, "%s.%016llx", about->name, (unsigned long long)str_hash(buf_view(&said)));
    there = store_get(registry->store, KIND_EVENT, ns, name);
    if (there) {
        struct repeat repeat = {time};

        registry_edit_object(registry, &write, there, count_up, &repeat, &written);
        return;
    }
    registry_create(registry, &write, kind_by_id(KIND_EVENT), ns,
                    event_document(&arena, about, name, ns, type, reason, message.data, time), &written);
}
