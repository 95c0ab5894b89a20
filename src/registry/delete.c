/* Deletion: at once, after a grace period (pods), or when the last finalizer is gone. */
#include "base/clock.h"
#include "objects/names.h"
#include "registry/internal.h"

void registry_mark(struct registry *registry, const struct write *write, const struct object *old,
                   struct json *doc, struct written *ret)
{
    registry_commit(registry, write, old->kind, doc, ret);
}

void registry_drop(struct registry *registry, const struct write *write, const struct object *object,
                   struct json *doc, struct written *ret)
{
    struct object *last;

    if (!doc)
        doc = object_json(object, write->arena);
    if (write->dry_run) {
        *ret = (struct written){.object = object, .deleted = true};
        return;
    }
    if (registry->on_drop) {
        const struct object *now = store_by_uid(registry->store, object->uid);

        registry->on_drop(registry->on_drop_arg, now ? now : object);
    }
    json_set_string(write->arena, json_get(doc, "metadata"), "resourceVersion",
                    arena_printf(write->arena, "%lld", (long long)store_next_revision(registry->store)));
    last = object_new(object->kind, write->arena, doc);
    *ret = (struct written){.object = last, .deleted = true};
    store_remove(registry->store, last);
}

static int check_preconditions(const struct write *write, const struct object *object,
                               const struct delete_options *options)
{
    const char *why = NULL;
    char revision[24];

    snprintf(revision, sizeof(revision), "%lld", (long long)object->rv);
    if (options->uid && !streq(options->uid, object->uid))
        why = arena_printf(
            write->arena,
            "the UID in the precondition (%s) does not match the UID in record (%s). The object might have "
            "been deleted and then recreated",
            options->uid, object->uid);
    else if (options->resource_version && !streq(options->resource_version, revision))
        why = arena_printf(
            write->arena,
            "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "
            "The object might have been modified",
            options->resource_version, revision);
    if (!why)
        return 0;
    return failure_conflict(write->failure, write->arena, object->kind->group, object->kind->name,
                            object->name, why);
}

static int check_protected(const struct write *write, const struct object *object)
{
    static const char *const kept[] = {"default", "kube-system"};

    if (object->kind->id == KIND_PRIORITY_CLASS && starts_with(object->name, "system-"))
        return failure_forbidden(write->failure, write->arena, object->kind->group, object->kind->plural,
                                 object->name, "this is a system priority class and cannot be deleted");
    if (object->kind->id != KIND_NAMESPACE)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (streq(object->name, kept[i]))
            return failure_forbidden(write->failure, write->arena, "", "namespaces", object->name,
                                     "this namespace may not be deleted");
    return 0;
}

/* Seconds the object may take to end by itself. */
static int64_t grace_of(const struct kind *kind, const struct json *doc, const struct delete_options *options)
{
    int64_t grace;

    if (!kind->graceful || pod_is_over(doc) || !json_string_or(json_at(doc, "spec.nodeName"), "")[0])
        return 0;
    grace = options->has_grace ? options->grace_sec
                               : json_int(json_at(doc, "spec.terminationGracePeriodSeconds"), 30);
    return grace < 0 ? 1 : grace;
}

static bool has_finalizer(const struct json *finalizers, const char *name)
{
    JSON_EACH(finalizers, it)
        if (streq(json_string(it), name))
            return true;
    return false;
}

static void set_finalizer(struct arena *arena, struct json *meta, const char *name, bool on)
{
    struct json *finalizers = json_get(meta, "finalizers");

    if (on) {
        if (!finalizers)
            finalizers = json_set_array(arena, meta, "finalizers");
        if (!has_finalizer(finalizers, name))
            json_push_string(arena, finalizers, name);
        return;
    }
    for (size_t i = 0; i < json_len(finalizers); i++)
        if (streq(json_string(json_item(finalizers, i)), name)) {
            json_remove_item(finalizers, i);
            break;
        }
    if (finalizers && !json_len(finalizers))
        json_remove(meta, "finalizers");
}

static enum propagation propagation_of(const struct write *write, const struct kind *kind,
                                       enum propagation asked)
{
    if (asked != PROPAGATE_DEFAULT)
        return asked;
    if (kind->id == KIND_JOB) {
        if (write->who && write->warnings)
            json_push_string(
                write->arena, write->warnings,
                "child pods are preserved by default when jobs are deleted; set "
                "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
                "this warning");
        return PROPAGATE_ORPHAN;
    }
    return PROPAGATE_BACKGROUND;
}

void registry_on_delete(struct registry *registry,
                        void (*fn)(void *arg, const struct write *write, const struct object *object),
                        void *arg)
{
    registry->on_delete = fn;
    registry->on_delete_arg = arg;
}

void registry_on_drop(struct registry *registry, void (*fn)(void *arg, const struct object *object),
                      void *arg)
{
    registry->on_drop = fn;
    registry->on_drop_arg = arg;
}

/* Somebody who says what is to become of the dependents changes what was said before, as Kubernetes has it.
 */
static bool chosen_by_person(const struct write *write, const struct delete_options *options)
{
    return write->who && options->propagation == PROPAGATE_BACKGROUND;
}

/* Marks the object as on its way out; true when that changed it. */
static bool mark_deleting(const struct write *write, const struct kind *kind, struct json *doc, int64_t grace)
{
    struct json *meta = json_get(doc, "metadata");
    bool deleting = json_get(meta, "deletionTimestamp");
    char time[CLOCK_TEXT_MAX];

    if (deleting && grace >= json_int(json_get(meta, "deletionGracePeriodSeconds"), 0))
        return false;
    json_set_string(write->arena, meta, "deletionTimestamp",
                    clock_format(clock_after(write_now(write), grace), time));
    if (kind->id != KIND_NAMESPACE)
        json_set_int(write->arena, meta, "deletionGracePeriodSeconds", grace);
    return true;
}

int registry_delete(struct registry *registry, const struct write *write, const struct kind *kind,
                    const char *ns, const char *name, const struct delete_options *options,
                    struct written *ret)
{
    const struct object *object = store_get(registry->store, kind->id, ns, name);
    enum propagation propagation;
    struct json *doc, *meta;
    bool changed = false, held;
    int64_t grace;

    *ret = (struct written){0};
    if (!object)
        return registry_missing(write, kind, name);
    if (check_preconditions(write, object, options) < 0 || check_protected(write, object) < 0)
        return -1;
    if (registry->on_delete && write->who && !write->dry_run && !object->deleting)
        registry->on_delete(registry->on_delete_arg, write, object);
    doc = object_json(object, write->arena);
    meta = json_get(doc, "metadata");
    grace = grace_of(kind, doc, options);
    propagation = propagation_of(write, kind, options->propagation);
    if (propagation == PROPAGATE_FOREGROUND || propagation == PROPAGATE_ORPHAN ||
        chosen_by_person(write, options)) {
        const struct json *before = json_copy(write->arena, json_get(meta, "finalizers"));

        set_finalizer(write->arena, meta, "foregroundDeletion", propagation == PROPAGATE_FOREGROUND);
        set_finalizer(write->arena, meta, "orphan", propagation == PROPAGATE_ORPHAN);
        changed = !json_equal(before, json_get(meta, "finalizers"));
    }
    held = json_len(json_get(meta, "finalizers")) > 0;
    if (kind->id == KIND_NAMESPACE && json_len(json_at(doc, "spec.finalizers"))) {
        held = true;
        if (!streq(json_at_string(doc, "status.phase"), "Terminating")) {
            json_set_string(write->arena, json_need_object(write->arena, doc, "status"), "phase",
                            "Terminating");
            changed = true;
        }
    }
    if (!held && grace == 0 && !kind->graceful) {
        registry_drop(registry, write, object, doc, ret);
        return 0;
    }
    changed |= mark_deleting(write, kind, doc, grace);
    if (kind->has_generation && changed && !object->deleting)
        json_set_int(write->arena, meta, "generation", json_int(json_get(meta, "generation"), 0) + 1);
    if (!held && grace == 0) {
        /* Whoever watches hears that it is on its way out, then that it is gone. */
        if (changed && !object->deleting && !write->dry_run)
            registry_mark(registry, write, object, doc, ret);
        registry_drop(registry, write, object, doc, ret);
        return 0;
    }
    if (changed)
        registry_mark(registry, write, object, doc, ret);
    else
        ret->object = object;
    return 0;
}
