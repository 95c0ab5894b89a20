/* Which services a change concerns, and what is shown to their controller. Where a namespace has no service a
 * change of a pod costs one look-up. Elsewhere what matters of each pod is kept, so that most changes of pods
 * end with a comparison, and a look at a service reads no documents but its own. */
#include "base/clock.h"
#include "base/mem.h"
#include "control/endpoints.h"
#include "control/util.h"
#include "daemon/runner_internal.h"

#define GATHER_NSEC (50 * NSEC_PER_MSEC) /* changes of pods; each rewrites all addresses of a service */

struct digest {
    int64_t rv;
    struct arena arena;
    struct json *doc; /* of a service: all of it */
};

static void digest_free(struct digest *digest)
{
    if (digest)
        arena_done(&digest->arena);
    free(digest);
}

void runner_endpoints_forget(struct runner *runner, const char *uid)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (uid) {
        digest_free(map_remove(runner->digests, str_from(uid)));
        return;
    }
    while (map_next(runner->digests, &at, &key, &value))
        digest_free(value);
    map_free(runner->digests);
}

static struct json *digest_read(const struct object *object, struct arena *arena)
{
    if (object->kind->id == KIND_SERVICE)
        return object_json(object, arena);
    return endpoints_digest(arena, object_doc(object));
}

/* True when it is not what it was; that of before is read where nothing is kept. */
static bool digest_update(struct runner *runner, const struct object *object, const struct object *before,
                          struct arena *arena, const struct json **was, const struct json **is)
{
    struct digest *digest = map_get(runner->digests, str_from(object->uid));

    *was = NULL;
    if (digest)
        *was = json_copy(arena, digest->doc);
    else if (before)
        *was = digest_read(before, arena);
    if (!digest) {
        digest = NEW(struct digest);
        map_set(runner->digests, str_from(object->uid), digest);
    }
    if (digest->rv != object->rv || !digest->doc) {
        arena_done(&digest->arena);
        digest->doc = digest_read(object, &digest->arena);
        digest->rv = object->rv;
    }
    *is = digest->doc;
    return !*was || !json_equal(*was, *is);
}

static const struct json *digest_of(struct runner *runner, const struct object *object)
{
    struct digest *digest = map_get(runner->digests, str_from(object->uid));
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *was, *is;

    if (digest && digest->rv == object->rv)
        return digest->doc;
    digest_update(runner, object, NULL, &arena, &was, &is);
    return is;
}

/* ---- changes ---- */

void runner_endpoints_pod(struct runner *runner, const struct object *pod, const struct object *before,
                          bool deleted)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *was, *is;

    if (store_count(runner->store, KIND_SERVICE, pod->ns) == 0 ||
        (!digest_update(runner, pod, before, &arena, &was, &is) && !deleted))
        return;
    OBJECTS_EACH(store_list(runner->store, KIND_SERVICE, pod->ns), it) {
        const struct json *service = digest_of(runner, *it);

        if (endpoints_concerns(service, is) || (was && endpoints_concerns(service, was)))
            runner_enqueue_within(runner, CONTROLLER_ENDPOINTS, (*it)->uid, GATHER_NSEC);
    }
}

void runner_endpoints_service(struct runner *runner, const struct object *service, bool deleted)
{
    const struct object *endpoints;

    if (!deleted) {
        runner_enqueue(runner, CONTROLLER_ENDPOINTS, service->uid);
        return;
    }
    endpoints = store_get(runner->store, KIND_ENDPOINTS, service->ns, service->name);
    if (endpoints)
        runner_enqueue(runner, CONTROLLER_ENDPOINTS, endpoints->uid);
}

void runner_endpoints_kept(struct runner *runner, const struct object *object, bool start)
{
    const char *name = object->name;
    const struct object *service;

    if (object->kind->id == KIND_ENDPOINT_SLICE)
        name = label_get(object_doc(object), SLICE_SERVICE);
    service = name ? store_get(runner->store, KIND_SERVICE, object->ns, name) : NULL;
    if (service)
        runner_enqueue(runner, CONTROLLER_ENDPOINTS, service->uid);
    else if (start && object->kind->id == KIND_ENDPOINTS && label_get(object_doc(object), ENDPOINTS_MANAGED))
        runner_enqueue(runner, CONTROLLER_ENDPOINTS, object->uid);
}

/* ---- looks ---- */

struct slice_list {
    VEC(const struct object *) v;
};

static void add_slice(void *arg, const struct object *object)
{
    struct slice_list *list = arg;

    if (object->kind->id == KIND_ENDPOINT_SLICE)
        vec_push(&list->v, object);
}

static int by_name(const void *a, const void *b)
{
    const struct object *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

static void look_service(struct runner *runner, const struct object *service)
{
    struct endpoints_view view = {.service = service};
    struct store_slice pods = store_list(runner->store, KIND_POD, service->ns);
    struct slice_list slices = {0};
    const struct json **docs;

    view.endpoints = store_get(runner->store, KIND_ENDPOINTS, service->ns, service->name);
    store_parts(runner->store, service, add_slice, &slices);
    if (slices.v.len)
        qsort(slices.v.v, slices.v.len, sizeof(*slices.v.v), by_name);
    view.slices = slices.v.v;
    view.slice_count = slices.v.len;
    docs = arena_alloc(&runner->arena, (pods.len + 1) * sizeof(const struct json *));
    for (size_t i = 0; i < pods.len; i++)
        docs[i] = digest_of(runner, pods.v[i]);
    view.pods = docs;
    view.pod_count = pods.len;
    endpoints_look(&view, runner->effects);
    vec_done(&slices.v);
}

void runner_endpoints_look(struct runner *runner, const struct object *object)
{
    if (object->kind->id == KIND_SERVICE)
        look_service(runner, object);
    else if (!store_get(runner->store, KIND_SERVICE, object->ns, object->name)) /* it went */
        effect_delete(runner->effects, object);
}
