/* Gives pods that wait to this node, as long as they fit: higher priority first, then the older one. */
#include "base/clock.h"
#include "control/util.h"
#include "engine/local/internal.h"

struct waiting {
    const struct object *object;
    const struct json *doc;
    int64_t priority;
    const char *created;
};

struct binding {
    struct local_engine *engine;
    const char *cards;
    const char *why; /* NULL: bind it */
    bool changed;
    int64_t now;
};

static int earlier(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    int order;

    if (x->priority != y->priority)
        return x->priority > y->priority ? -1 : 1;
    order = strcmp(x->created, y->created);
    return order ? order : strcmp(x->object->name, y->object->name);
}

static bool edit(void *arg, struct arena *arena, struct json *doc)
{
    struct binding *binding = arg;
    struct json *status = json_need_object(arena, doc, "status");

    if (binding->why)
        return binding->changed = condition_set(arena, status, "PodScheduled", "False", "Unschedulable",
                                                binding->why, binding->now);
    json_set_string(arena, json_need_object(arena, doc, "spec"), "nodeName", binding->engine->node_name);
    if (*binding->cards)
        json_set_string(arena,
                        json_need_object(arena, json_need_object(arena, doc, "metadata"), "annotations"),
                        BIND_ANNOTATION, binding->cards);
    condition_set(arena, status, "PodScheduled", "True", NULL, NULL, binding->now);
    return true;
}

static bool write_it(struct binding *binding, const struct object *object, struct arena *arena)
{
    struct failure failure = {0};
    struct write write = {.arena = arena,
                          .failure = &failure,
                          .manager = "berth",
                          .keep_generation = true,
                          .now = binding->now};
    struct written written;

    return registry_edit_object(binding->engine->registry, &write, object, edit, binding, &written) == 0;
}

static void used(const struct local_engine *engine, struct bind_need *sum)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value)) {
        const struct pod *pod = value;

        if (!pod->facts.ended || (pod->sandbox != SANDBOX_GONE && pod->sandbox != SANDBOX_NONE))
            bind_add(sum, &pod->need);
    }
}

static void consider(struct local_engine *engine, const struct waiting *pod, const struct json *node,
                     struct bind_need *sum, struct arena *arena)
{
    struct binding binding = {.engine = engine, .now = clock_now()};
    const struct bind_need nothing = {0};
    CLEANUP(object_unref) struct object *object = object_ref(pod->object);
    struct bind_need need;
    const char *why;

    bind_read(pod->doc, arena, &need);
    need.cards = 0;
    if (bind_check(pod->doc, &need, node, &nothing))
        return; /* it never fits: the pod controller says so */
    why = bind_check(pod->doc, &need, node, sum);
    if (!why && !bind_cards(&need, sum->cards, engine->cards, &need.cards))
        why = "Insufficient " BIND_GPU;
    if (why)
        binding.why = arena_printf(arena, "0/1 nodes are available: 1 %s.", why);
    binding.cards = bind_cards_text(arena, need.cards);
    if (!write_it(&binding, object, arena))
        return;
    if (why) {
        if (binding.changed)
            registry_event(engine->registry, object, "Warning", "FailedScheduling", "%s", binding.why);
        return;
    }
    registry_event(engine->registry, object, "Normal", "Scheduled", "Successfully assigned %s/%s to %s",
                   object->ns, object->name, engine->node_name);
    bind_add(sum, &need);
    /* Counted from now on; it runs when the binding is durable and the watch tells. */
    {
        const struct object *bound = store_by_uid(engine->store, object->uid);

        if (bound && !engine_pod(engine, bound->uid))
            map_set(engine->pods, str_from(bound->uid), engine_pod_new(engine, bound));
    }
}

void binder_look(struct local_engine *engine)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *node = store_get(engine->store, KIND_NODE, "", engine->node_name);
    const struct json *node_doc = node ? object_json(node, &arena) : NULL;
    struct bind_need sum = {0};
    VEC(struct waiting) list = {0};

    if (!condition_is(json_get(node_doc, "status"), "Ready", "True"))
        return;
    OBJECTS_EACH(store_list(engine->store, KIND_POD, NULL), it) {
        const struct json *doc;
        const char *scheduler;

        if ((*it)->deleting || engine_pod(engine, (*it)->uid))
            continue;
        doc = object_json(*it, &arena);
        scheduler = json_string_or(json_at(doc, "spec.schedulerName"), "default-scheduler");
        if (json_string_or(json_at(doc, "spec.nodeName"), "")[0] ||
            json_len(json_at(doc, "spec.schedulingGates")) ||
            !streq(json_string_or(json_at(doc, "status.phase"), "Pending"), "Pending") ||
            !(streq(scheduler, "default-scheduler") || streq(scheduler, "berth")))
            continue;
        vec_push(&list, (struct waiting){object_ref(*it), doc, json_int(json_at(doc, "spec.priority"), 0),
                                         json_string_or(json_at(doc, "metadata.creationTimestamp"), "")});
    }
    if (list.len)
        qsort(list.v, list.len, sizeof(*list.v), earlier);
    used(engine, &sum);
    VEC_EACH(&list, it) {
        consider(engine, it, node_doc, &sum, &arena);
        object_unref((struct object *)it->object);
    }
    vec_done(&list);
}
