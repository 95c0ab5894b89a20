/* Finished work goes from the store. The index of what is over (control/prune.h) follows the store by
 * watches; a timer asks it what goes, at most PRUNE_TURN in one turn. Before something goes it is looked at
 * again: nothing of it may run. */
#include "base/clock.h"
#include "objects/kind.h"
#include "objects/object_doc.h"
#include "upkeep/internal.h"

#include <malloc.h>

#define PRUNE_TURN   64                             /* objects that go in one turn */
#define SOON_NSEC    NSEC_PER_SEC                   /* after something has ended */
#define LOOK_NSEC    (INT64_C(3600) * NSEC_PER_SEC) /* at the latest */
#define REST_NSEC    (5 * NSEC_PER_MSEC)            /* between two turns with much to do */
#define HOLD_NSEC    (INT64_C(60) * NSEC_PER_SEC)   /* what still runs is asked about again */
#define TRIM_BYTES   (8 << 20)                      /* text that went, until memory is given back */
#define OWNED_LEVELS 3                              /* a task's Job's pods */

static const int kinds_of_work[UPKEEP_KINDS] = {KIND_TASK, KIND_TRAINING_JOB, KIND_JOB, KIND_POD};

/* ---- what belongs to it ---- */

struct parts {
    const struct store *store;
    struct arena *arena;
    unsigned level;
    int64_t bytes;
    bool alive;
};

static bool is_work(const struct object *object)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds_of_work); i++)
        if (object->kind->id == kinds_of_work[i])
            return true;
    return false;
}

/* A pod on its way out may still have processes. */
static bool is_alive(const struct object *object, struct arena *arena)
{
    return object->deleting ? object->kind->id == KIND_POD
                            : !prune_finished_at(object, object_doc_once(object, arena));
}

static void add_part(void *arg, const struct object *object)
{
    struct parts *parts = arg;

    parts->bytes += (int64_t)object->text_len;
    parts->alive = parts->alive || (is_work(object) && is_alive(object, parts->arena));
    if (++parts->level < OWNED_LEVELS)
        store_parts(parts->store, object, add_part, parts);
    parts->level--;
}

static struct parts parts_of(const struct store *store, const struct object *object, struct arena *arena)
{
    struct parts parts = {.store = store, .arena = arena, .bytes = (int64_t)object->text_len};

    store_parts(store, object, add_part, &parts);
    return parts;
}

/* ---- following the store ---- */

/* True: it is over. */
static bool see(struct upkeep *upkeep, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc;

    if (!store_by_uid(upkeep->store, object->uid) || store_controller(upkeep->store, object)) {
        prune_remove(upkeep->prune, object->uid);
        return false;
    }
    doc = object_doc_once(object, &arena);
    if (!prune_finished_at(object, doc)) {
        prune_remove(upkeep->prune, object->uid);
        return false;
    }
    prune_put(upkeep->prune, object, doc, parts_of(upkeep->store, object, &arena).bytes);
    return true;
}

static void work_on_store(void *arg, const struct store_event *event)
{
    struct upkeep *upkeep = arg;

    if (event->op == STORE_DELETED) {
        prune_remove(upkeep->prune, event->object->uid);
        return;
    }
    if (see(upkeep, event->object))
        work_soon(upkeep);
}

static void load(struct upkeep *upkeep)
{
    prune_free(upkeep->prune);
    upkeep->prune = prune_new();
    for (size_t i = 0; i < ARRAY_LEN(kinds_of_work); i++)
        OBJECTS_EACH(store_list(upkeep->store, kinds_of_work[i], NULL), it)
            see(upkeep, *it);
}

/* ---- letting go ---- */

/* Where the commit failed, all of it is still there. */
static void work_on_settled(void *arg, const struct err *err)
{
    struct upkeep_tie *tie = arg;
    struct upkeep *upkeep = tie->upkeep;

    if (--tie->refs == 0)
        free(tie);
    if (!upkeep || !err)
        return;
    log_warn("%s: what was pruned is taken back", err->msg);
    load(upkeep);
    loop_timer_set(upkeep->timer, HOLD_NSEC);
}

/* True: it has gone, or was not there any more. */
static bool let_go(struct upkeep *upkeep, const struct prune_due *due, int64_t now)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *object = store_by_uid(upkeep->store, due->uid);
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct delete_options options = {.propagation = PROPAGATE_BACKGROUND, .uid = due->uid};
    struct written written = {0};

    if (!object || !prune_finished_at(object, object_doc_once(object, &arena))) {
        prune_remove(upkeep->prune, due->uid);
        return true;
    }
    if (parts_of(upkeep->store, object, &arena).alive) {
        prune_hold(upkeep->prune, due->uid, now + HOLD_NSEC);
        return false;
    }
    options.has_grace = object->kind->id == KIND_POD; /* nothing of it runs: no kubelet has to say so */
    log_debug("%s %s/%s goes", object->kind->name, object->ns, object->name);
    if (registry_delete(upkeep->config.registry, &write, object->kind, object->ns, object->name, &options,
                        &written) < 0) {
        log_debug("%s/%s: %s", due->ns, due->name, failure.message ? failure.message : "not deleted");
        prune_hold(upkeep->prune, due->uid, now + HOLD_NSEC);
        return false;
    }
    upkeep->pruned++;
    upkeep->telling++;
    upkeep->freed += (size_t)due->bytes;
    prune_remove(upkeep->prune, due->uid);
    return true;
}

/* What went lay between what stays: without this it would stay the process's. */
static void give_back(struct upkeep *upkeep)
{
    if (upkeep->freed < TRIM_BYTES)
        return;
    upkeep->freed = 0;
    malloc_trim(0);
}

static void tell(struct upkeep *upkeep)
{
    struct prune_totals totals = prune_totals(upkeep->prune);

    if (upkeep->telling)
        log_info("pruned %llu finished objects; %zu are left, %lld KiB", (unsigned long long)upkeep->telling,
                 totals.count, (long long)(totals.bytes >> 10));
    upkeep->telling = 0;
}

static void set_timer(struct upkeep *upkeep, int64_t now)
{
    int64_t next = prune_next(upkeep->prune, &upkeep->config.policy.work, now);

    if (next == INT64_MAX || next - now > LOOK_NSEC)
        next = now + LOOK_NSEC;
    loop_timer_set(upkeep->timer, next - now > SOON_NSEC ? next - now : SOON_NSEC);
}

static void work_on_timer(void *arg)
{
    struct upkeep *upkeep = arg;
    const struct prune_policy *policy = upkeep->asked ? &upkeep->once.work : &upkeep->config.policy.work;
    struct prune_due due[PRUNE_TURN];
    int64_t now = clock_now();
    size_t len = prune_look(upkeep->prune, policy, now, due, PRUNE_TURN);

    upkeep->soon = false;
    for (size_t i = 0; i < len; i++)
        let_go(upkeep, &due[i], now);
    if (len) {
        upkeep->tie->refs++;
        store_defer(upkeep->store, work_on_settled, upkeep->tie);
    }
    if (len == PRUNE_TURN) {
        upkeep->soon = true;
        loop_timer_set(upkeep->timer, REST_NSEC);
        return;
    }
    upkeep->asked = false;
    tell(upkeep);
    give_back(upkeep);
    set_timer(upkeep, now);
}

/* ---- start and end ---- */

void work_soon(struct upkeep *upkeep)
{
    if (upkeep->soon)
        return; /* a stream of ends must not push it away */
    upkeep->soon = true;
    loop_timer_set(upkeep->timer, SOON_NSEC);
}

void work_start(struct upkeep *upkeep)
{
    struct err err = {0};

    load(upkeep);
    upkeep->timer = loop_timer_new(upkeep->config.loop, work_on_timer, upkeep);
    for (size_t i = 0; i < ARRAY_LEN(kinds_of_work); i++)
        if (store_watch(upkeep->store, kinds_of_work[i], NULL, store_revision(upkeep->store), work_on_store,
                        NULL, upkeep, &upkeep->watches[i], &err) < 0)
            log_warn("%s", err.msg);
    work_soon(upkeep);
}

void work_stop(struct upkeep *upkeep)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds_of_work); i++)
        store_unwatch(upkeep->watches[i]);
    loop_timer_free(upkeep->timer);
    prune_free(upkeep->prune);
}
