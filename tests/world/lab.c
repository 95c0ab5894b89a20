/* lab.c - the daemon in the box: put together as daemon/main.c does it, taken away without a goodbye. */
#include "base/file.h"
#include "base/yaml.h"
#include "daemon/bootstrap.h"
#include "daemon/runner.h"
#include "kubelet.h"
#include "loop/loop.h"
#include "notify/inbox.h"
#include "objects/names.h"
#include "queue/queue.h"
#include "store/disk.h"
#include "tasks/tasks.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>

static void log_event(void *arg, const struct store_event *event)
{
    struct world *world = arg;
    uint64_t hash = world->hash;

    world->writes += event->object->kind->id != KIND_EVENT;
    hash = (hash ^ (uint64_t)event->op) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < event->object->text_len; i++)
        hash = (hash ^ (unsigned char)event->object->text[i]) * UINT64_C(0x100000001b3);
    world->hash = hash;
}

static bool pod_alive(void *arg, const char *pod_uid)
{
    const struct world *world = arg;

    return kubelet_alive(world->kubelet, pod_uid);
}

static void make(struct world *world, int kind, const char *ns, const char *text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct written written;
    struct json *doc = NULL;
    struct err err = {0};

    if (yaml_parse_one(str_from(text), &arena, &doc, &err) < 0) {
        fprintf(stderr, "world: %s: %s\n", text, err.msg);
        abort();
    }
    if (store_get(world->store, kind, ns, json_at_string(doc, "metadata.name")))
        return;
    if (registry_create(world->registry, &write, kind_by_id(kind), ns, doc, &written) < 0) {
        fprintf(stderr, "world: %s: %s\n", text, failure.message);
        abort();
    }
}

static void make_people(struct world *world)
{
    for (int64_t i = 0; i < world->lab.users; i++) {
        char text[160];

        snprintf(text, sizeof(text), "{metadata: {name: %s}}", story_users[i]);
        make(world, KIND_NAMESPACE, "", text);
        if (world->lab.quota)
            make(world, KIND_RESOURCE_QUOTA, story_users[i],
                 "{metadata: {name: default}, spec: {hard: {pods: '4'}}}");
    }
}

static void start_queue(struct world *world)
{
    struct sched_options options = sched_defaults;
    struct queue_config config = {.loop = world->loop,
                                  .registry = world->registry,
                                  .inbox = world->inbox,
                                  .preemption = world->lab.ask ? PREEMPTION_ASK : PREEMPTION_AUTO,
                                  .stop_min_ms = world->lab.stop_s * 1000,
                                  .options = &options,
                                  .pod_alive = pod_alive,
                                  .arg = world};
    struct err err = {0};

    options.min_run_ms = world->lab.min_run_s * 1000;
    if (queue_new(&config, &world->queue, &err) < 0) {
        fprintf(stderr, "world: %s\n", err.msg);
        abort();
    }
}

void lab_up(struct world *world)
{
    struct err err = {0};

    if (store_open_disk(world->disk, world->loop, &world->store, &err) < 0)
        goto failed;
    store_disk_set_latency(world->disk, world->lab.latency_ms);
    world->inbox = inbox_new(world->store);
    world->registry = registry_new(world->store);
    world->runner = runner_new(world->loop, world->registry);
    if (bootstrap_objects(world->registry, &err) < 0)
        goto failed;
    world->tasks = tasks_new(&(struct tasks_config){.loop = world->loop, .registry = world->registry});
    if (tasks_ship(world->tasks, &err) < 0)
        goto failed;
    make_people(world);
    kubelet_up(world->kubelet);
    start_queue(world);
    if (store_watch(world->store, 0, NULL, store_revision(world->store), log_event, NULL, world,
                    &world->log_watch, &err) < 0)
        goto failed;
    kubelet_measure(world->kubelet);
    world->up = true;
    world_note(world, "the daemon is up");
    return;
failed:
    fprintf(stderr, "world: %s\n", err.msg);
    abort();
}

void lab_kill(struct world *world)
{
    world->up = false;
    store_disk_stop_after(world->disk, 0); /* what the ends below write is lost */
    store_unwatch(TAKE_PTR(world->log_watch));
    kubelet_down(world->kubelet);
    queue_free(TAKE_PTR(world->queue));
    tasks_free(TAKE_PTR(world->tasks));
    runner_free(TAKE_PTR(world->runner));
    registry_free(TAKE_PTR(world->registry));
    store_kill(TAKE_PTR(world->store));
    inbox_free(TAKE_PTR(world->inbox));
    world->kills++;
    world->up_at = world_ms(world) + world->down_ms;
    world_note(world, "the daemon is killed");
}
