/* The queue runs at the end of a turn, for a few milliseconds at a time, and goes on in the next one. Looking
 * and carrying out happen without a pause in between, so what a controller saw is still so when its effects
 * are written; and as they are written in one turn, they become durable together or not at all. */
#include "base/clock.h"
#include "daemon/runner_internal.h"

#include <stddef.h>

#define LOG_MODULE "control"
#include "base/log.h"

#define RUN_NSEC         (4 * NSEC_PER_MSEC)   /* of one go through the queue */
#define RETRY_NSEC       (100 * NSEC_PER_MSEC) /* after the first failure; doubled with each */
#define RETRY_MAX_NSEC   (60 * NSEC_PER_SEC)
#define ARENA_KEEP_BYTES (1 << 20)

static void runner_on_turn(void *arg);

/* ---- works ---- */

#define KEY_MAX 80
static struct str work_key(enum controller controller, const char *uid, char text[KEY_MAX])
{
    int len = snprintf(text, KEY_MAX, "%c%s", 'A' + (int)controller, uid);

    return (struct str){text, len < KEY_MAX ? (size_t)len : KEY_MAX - 1};
}

static bool wakes_before(const void *a, const void *b)
{
    const struct work *left = a, *right = b;

    return left->wake_at < right->wake_at;
}

static struct runner_tie *tie_ref(struct runner_tie *tie)
{
    tie->refs++;
    return tie;
}

/* The runner, or NULL when it is gone; the reference is given up. */
static struct runner *tie_unref(struct runner_tie *tie)
{
    struct runner *runner = tie->runner;

    if (--tie->refs == 0)
        free(tie);
    return runner;
}

static void run_soon(struct runner *runner)
{
    if (runner->running)
        return;
    runner->running = true;
    loop_later(runner->loop, runner_on_turn, tie_ref(runner->tie));
}

static struct work *work_need(struct runner *runner, enum controller controller, const char *uid)
{
    char text[KEY_MAX];
    struct str key = work_key(controller, uid, text);
    struct work *work = map_get(runner->works, key);

    if (!work) {
        work = NEW(struct work);
        work->controller = controller;
        work->uid = mem_strdup(uid);
        work->place = HEAP_OUT;
        map_set(runner->works, key, work);
    }
    return work;
}

static void work_free(struct work *work)
{
    free(work->uid);
    free(work);
}

static void work_forget(struct runner *runner, struct work *work)
{
    char text[KEY_MAX];

    map_remove(runner->works, work_key(work->controller, work->uid, text));
    work_free(work);
}

static void work_push(struct runner *runner, struct work *work)
{
    if (work->queued)
        return;
    work->queued = true;
    work->next = NULL;
    *runner->tail = work;
    runner->tail = &work->next;
    run_soon(runner);
}

void runner_enqueue(struct runner *runner, enum controller controller, const char *uid)
{
    work_push(runner, work_need(runner, controller, uid));
}

/* ---- sleeping ---- */

static void set_timer(struct runner *runner)
{
    const struct work *first = heap_first(&runner->sleeping);
    int64_t delay;

    if (!first) {
        loop_timer_stop(runner->timer);
        return;
    }
    delay = first->wake_at - clock_monotonic();
    loop_timer_set(runner->timer, delay > 0 ? delay : 0);
}

static void sleep_until(struct runner *runner, struct work *work, int64_t wake_at)
{
    work->wake_at = wake_at;
    if (work->place == HEAP_OUT)
        heap_push(&runner->sleeping, work);
    else
        heap_moved(&runner->sleeping, work);
    set_timer(runner);
}

void runner_enqueue_within(struct runner *runner, enum controller controller, const char *uid, int64_t delay)
{
    struct work *work = work_need(runner, controller, uid);
    int64_t at = clock_monotonic() + delay;

    if (!work->queued && (work->place == HEAP_OUT || work->wake_at > at))
        sleep_until(runner, work, at);
}

static void wake(struct runner *runner, struct work *work)
{
    if (work->place == HEAP_OUT)
        return;
    heap_remove(&runner->sleeping, work);
    work->place = HEAP_OUT;
    work->wake_at = 0;
}

static void runner_on_timer(void *arg)
{
    struct runner *runner = arg;
    struct work *work;

    while ((work = heap_first(&runner->sleeping)) && work->wake_at <= clock_monotonic()) {
        wake(runner, work);
        work_push(runner, work);
    }
    set_timer(runner);
}

static void retry(struct runner *runner, struct work *work)
{
    int64_t delay = RETRY_NSEC;

    for (unsigned i = 0; i < work->failures && delay < RETRY_MAX_NSEC; i++)
        delay *= 2;
    work->failures++;
    sleep_until(runner, work, clock_monotonic() + (delay < RETRY_MAX_NSEC ? delay : RETRY_MAX_NSEC));
}

/* ---- effects ---- */

struct applying {
    struct runner *runner;
    const struct object *object; /* what is looked at */
    struct failure failure;
    int64_t now;
    int64_t wake_at; /* wall clock; 0: none */
    bool wrote, create_failed;
};

static bool replace_doc(void *arg, struct arena *arena, struct json *doc)
{
    const struct effect *effect = arg;

    if (effect->type == EFFECT_UPDATE_STATUS)
        json_set(arena, doc, "status", *json_get(effect->doc, "status"));
    else
        *doc = *effect->doc;
    return true;
}

static bool is_gone(const struct failure *failure)
{
    return failure->code == 404;
}

static int apply_update(struct applying *applying, const struct write *write, const struct effect *effect)
{
    const struct object *object = store_by_uid(applying->runner->store, effect->uid);
    struct written written;

    if (!object)
        return 0;
    if (registry_edit_object(applying->runner->registry, write, object, replace_doc, (void *)effect,
                             &written) < 0)
        return is_gone(write->failure) ? 0 : -1;
    return 0;
}

static int apply_delete(struct applying *applying, const struct write *write, const struct effect *effect)
{
    struct delete_options options = {.has_grace = effect->grace_sec >= 0,
                                     .grace_sec = effect->grace_sec,
                                     .propagation = PROPAGATE_BACKGROUND,
                                     .uid = effect->uid};
    struct written written;

    if (registry_delete(applying->runner->registry, write, effect->kind, effect->ns, effect->name, &options,
                        &written) < 0)
        return is_gone(write->failure) || write->failure->code == 409 ? 0 : -1;
    return 0;
}

static int apply_create(struct applying *applying, const struct write *write, const struct effect *effect)
{
    struct written written;

    if (registry_create(applying->runner->registry, write, effect->kind, effect->ns, effect->doc, &written) ==
        0)
        return 0;
    applying->create_failed = true;
    return -1;
}

static void apply_event(struct applying *applying, const struct effect *effect)
{
    const struct object *about = store_by_uid(applying->runner->store, applying->object->uid);

    registry_event(applying->runner->registry, about ? about : applying->object, effect->event_type,
                   effect->reason, "%s", effect->message);
}

static int apply(struct applying *applying, const struct effect *effect)
{
    struct write write = {.arena = &applying->runner->arena,
                          .failure = &applying->failure,
                          .manager = "berth",
                          .now = applying->now};

    if (effect->type == EFFECT_WAKE) {
        if (!applying->wake_at || effect->wake_at < applying->wake_at)
            applying->wake_at = effect->wake_at;
        return 0;
    }
    applying->wrote = true;
    switch (effect->type) {
    case EFFECT_CREATE:
        return apply_create(applying, &write, effect);
    case EFFECT_UPDATE:
    case EFFECT_UPDATE_STATUS:
        return apply_update(applying, &write, effect);
    case EFFECT_DELETE:
        return apply_delete(applying, &write, effect);
    default:
        apply_event(applying, effect);
        return 0;
    }
}

static int apply_all(struct applying *applying)
{
    struct effects *effects = applying->runner->effects;

    for (size_t i = 0; i < effects->len; i++)
        if (apply(applying, &effects->v[i]) < 0)
            return -1;
    return 0;
}

/* ---- what was written must become durable ---- */

struct pledge {
    struct runner_tie *tie;
    enum controller controller;
    char *uid;
};

static void runner_on_settled(void *arg, const struct err *err)
{
    struct pledge *pledge = arg;
    struct runner *runner = tie_unref(pledge->tie);

    if (runner && err)
        retry(runner, work_need(runner, pledge->controller, pledge->uid));
    free(pledge->uid);
    free(pledge);
}

/* Where the commit fails everything is undone and nobody is told: look again. */
static void pledge(struct runner *runner, const struct work *work)
{
    struct pledge *new = NEW(struct pledge);

    *new = (struct pledge){tie_ref(runner->tie), work->controller, mem_strdup(work->uid)};
    store_defer(runner->store, runner_on_settled, new);
}

/* ---- the queue ---- */

static bool namespace_terminating(const struct failure *failure)
{
    return streq(json_get_string(json_item(failure->causes, 0), "reason"), "NamespaceTerminating");
}

/* Making something failed: say so, and let the controller take stock without it. */
static int create_failed(struct applying *applying, struct work *work)
{
    struct runner *runner = applying->runner;
    const struct object *object = applying->object;

    if (namespace_terminating(&applying->failure))
        return 0;
    registry_event(runner->registry, object, "Warning",
                   work->controller == CONTROLLER_JOB ? "FailedCreate" : "Failed", "Error creating: %s",
                   applying->failure.message);
    if (work->controller == CONTROLLER_JOB && (object = store_by_uid(runner->store, work->uid))) {
        runner->effects->len = 0;
        applying->object = object;
        applying->failure = (struct failure){0};
        runner_look(runner, work->controller, object, applying->now, true);
        apply_all(applying);
    }
    return -1;
}

static void look(struct runner *runner, struct work *work)
{
    const struct object *found = store_by_uid(runner->store, work->uid);
    CLEANUP(object_unref) struct object *object = found ? object_ref(found) : NULL;
    struct applying applying = {.runner = runner, .object = object, .now = clock_now()};
    int result;

    wake(runner, work);
    if (!object) {
        work->failures = 0;
        return;
    }
    runner->effects->len = 0;
    runner->effects->more = false;
    runner_look(runner, work->controller, object, applying.now, false);
    result = apply_all(&applying);
    if (result == 0 && runner->effects->more)
        work_push(runner, work);
    if (result < 0 && applying.create_failed)
        result = create_failed(&applying, work);
    else if (result < 0)
        log_warn("%s '%s/%s': %s", object->kind->singular, object->ns, object->name,
                 applying.failure.message);
    if (result < 0) {
        retry(runner, work);
    } else {
        work->failures = 0;
        if (applying.wake_at)
            sleep_until(runner, work, clock_monotonic() + (applying.wake_at - applying.now));
    }
    if (applying.wrote)
        pledge(runner, work);
    if (runner->arena.total > ARENA_KEEP_BYTES)
        arena_done(&runner->arena);
    else
        arena_reset(&runner->arena);
}

static void work_off(struct runner *runner)
{
    int64_t start = clock_monotonic();

    runner->running = true; /* what is pushed meanwhile is seen here */
    while (runner->head) {
        struct work *work = runner->head;

        runner->head = work->next;
        if (!runner->head)
            runner->tail = &runner->head;
        work->queued = false;
        look(runner, work);
        if (!work->queued && work->place == HEAP_OUT)
            work_forget(runner, work);
        if (runner->head && clock_monotonic() - start > RUN_NSEC) {
            loop_timer_set(runner->rest, 0); /* in the next turn: requests come first */
            return;
        }
    }
    runner->running = false;
}

static void runner_on_turn(void *arg)
{
    struct runner *runner = tie_unref(arg);

    if (runner)
        work_off(runner);
}

static void runner_on_rest(void *arg)
{
    work_off(arg);
}

/* ---- start and end ---- */

struct runner *runner_new(struct loop *loop, struct registry *registry)
{
    struct runner *runner = NEW(struct runner);

    runner->loop = loop;
    runner->registry = registry;
    runner->store = registry_store(registry);
    runner->tie = NEW(struct runner_tie);
    *runner->tie = (struct runner_tie){runner, 1};
    runner->works = map_new();
    runner->tail = &runner->head;
    heap_init(&runner->sleeping, wakes_before, offsetof(struct work, place));
    runner->timer = loop_timer_new(loop, runner_on_timer, runner);
    runner->rest = loop_timer_new(loop, runner_on_rest, runner);
    runner->events = event_queue_new();
    runner->events_timer = loop_timer_new(loop, runner_events_look, runner);
    runner->effects = NEW(struct effects);
    runner->effects->arena = &runner->arena;
    runner->job_pods = map_new();
    runner->usages = map_new();
    runner->open_volumes = map_new();
    runner->bound_volumes = map_new();
    runner->digests = map_new();
    runner->class_rv = -1;
    registry_add_admission(registry, runner_admit, runner);
    store_watch(runner->store, 0, NULL, store_revision(runner->store), runner_event, NULL, runner,
                &runner->watch, NULL); /* from now on: cannot be too old */
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored)
            OBJECTS_EACH(store_list(runner->store, kinds[i].id, NULL), it)
                runner_seen(runner, *it);
    return runner;
}

void runner_free(struct runner *runner)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (!runner)
        return;
    store_unwatch(runner->watch);
    runner->tie->runner = NULL;
    tie_unref(runner->tie);
    heap_done(&runner->sleeping);
    while (map_next(runner->works, &at, &key, &value))
        work_free(value);
    map_free(runner->works);
    loop_timer_free(runner->timer);
    loop_timer_free(runner->rest);
    loop_timer_free(runner->events_timer);
    event_queue_free(runner->events);
    runner_forget(runner, NULL);
    map_free(runner->job_pods);
    map_free(runner->usages);
    runner_volumes_done(runner);
    runner_endpoints_forget(runner, NULL);
    arena_done(&runner->class_arena);
    arena_done(&runner->arena);
    free(runner->effects);
    free(runner);
}
