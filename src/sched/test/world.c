#include "sched/test/world.h"

#include "base/test/test.h"

#include <stdio.h>

static const char *const users[] = {"ann", "bob", "cem", "dora", NULL};
static const char *const zones[] = {"a", "b"};

uint32_t world_random(struct world *world, uint32_t below)
{
    world->seed ^= world->seed << 13;
    world->seed ^= world->seed >> 7;
    world->seed ^= world->seed << 17;
    return (uint32_t)(world->seed >> 33) % below;
}

void world_init(struct world *world, uint64_t seed, const struct sched_policy *policy)
{
    static const uint32_t sizes[] = {8192, 16384, 24576};

    memset(world, 0, sizeof(*world));
    world->seed = seed * 0x9e3779b97f4a7c15ULL + 1;
    world->next_id = 1;
    world->now = 1000000;
    world->policy = policy;
    world->cluster = (struct cluster){world->nodes, 1 + world_random(world, WORLD_NODES)};
    for (uint32_t n = 0; n < world->cluster.node_count; n++) {
        struct node *node = &world->nodes[n];

        world->labels[n][0] = (struct label){"zone", zones[world_random(world, 2)]};
        *node = (struct node){
            "node", {world->labels[n], 1}, world->gpus[n], world_random(world, WORLD_CARDS + 1)};
        node->capacity = (struct resources){4000 * (1 + world_random(world, 8)), 65536};
        for (uint32_t g = 0; g < node->gpu_count; g++)
            world->gpus[n][g].mem_mib = sizes[world_random(world, 3)];
    }
    world->options = sched_defaults;
    world->options.min_run_ms = world_random(world, 2) * 5000;
    world->options.place = (enum place_rule)world_random(world, 3);
    world->options.spread_shares = world_random(world, 4) == 0;
    world->live = live_new(policy, &world->cluster, &world->options, NULL);
}

void world_done(struct world *world)
{
    live_free(world->live);
    plan_done(&world->plan);
    arena_done(&world->arena);
}

/* Keeps a copy of what happened, for a replay. */
void world_apply(struct world *world, struct live_event event)
{
    struct err err = {0};

    event.at_ms = world->now;
    if (event.slots.len > 0) {
        struct slot *copy = arena_alloc(&world->arena, sizeof(*copy) * event.slots.len);

        memcpy(copy, event.slots.v, sizeof(*copy) * event.slots.len);
        event.slots.v = copy;
    }
    if (live_apply(world->live, &event, &err) < 0)
        fail_msg("event %d: %s", (int)event.type, err.msg);
    assert_true(world->log_len < WORLD_LOG);
    world->log[world->log_len++] = event;
}

static struct demand random_demand(struct world *world)
{
    uint32_t kind = world_random(world, 10);
    struct demand d = {.min_gpus = 1, .max_gpus = 1};

    d.each = (struct resources){500 * world_random(world, 5), 1024};
    if (kind == 0)
        d.min_gpus = d.max_gpus = 0;
    else if (kind <= 3)
        d.mib = 2048 * (1 + world_random(world, 8));
    else if (kind == 4)
        d.min_gpus = d.max_gpus = 1 + world_random(world, 4);
    else if (kind == 5)
        d.min_gpus = d.max_gpus = 2 * (d.unit_gpus = 1 + world_random(world, 2));
    else if (kind == 6)
        d.max_gpus = 1 + world_random(world, 4);
    else if (kind == 7)
        d = (struct demand){1, 1 + world_random(world, 8), 1, 0, false, d.each};
    d.exclusive = d.mib > 0 && world_random(world, 4) == 0;
    return d;
}

void world_add(struct world *world)
{
    static const struct label zone[] = {{"zone", "a"}};
    struct workload w = {
        .id = world->next_id++, .phase = PHASE_PENDING, .submit_ms = world->now, .resumable = true};

    w.name = arena_printf(&world->arena, "job-%llu", (unsigned long long)(w.id * 7 % 101));
    w.user = users[world_random(world, 5)];
    w.demand = random_demand(world);
    w.priority = (int32_t)world_random(world, 3) - 1;
    w.epochs_total = world_random(world, 3) * 3;
    w.can_checkpoint = world_random(world, 2);
    w.declared_ms = world_random(world, 3) * 3600000;
    w.keep = world_random(world, 12) == 0;
    w.resumable = world_random(world, 8) != 0;
    if (world_random(world, 6) == 0)
        w.selector = (struct labels){zone, 1};
    if (world_random(world, 10) == 0)
        w.not_before_ms = world->now + 3000;
    world_apply(world, (struct live_event){.type = LIVE_ADD, .id = w.id, .workload = w});
}

void world_decide(struct world *world)
{
    const struct sched_view *view = live_view(world->live);

    live_decide(world->live, world->now, &world->plan);
    VEC_EACH(&world->plan.actions, action) {
        struct live_event event = {.id = view->jobs[action->job].id,
                                   .slots = {action->slots, action->slot_count}};

        if (action->type == ACTION_RESIZE) {
            event.type = LIVE_CLAIM;
            world_apply(world, event);
        }
        switch (action->type) {
        case ACTION_START:
            event.type = LIVE_PLACE;
            break;
        case ACTION_PREEMPT:
        case ACTION_RESIZE:
            event.type = LIVE_ASK_STOP;
            break;
        case ACTION_CLAIM:
        case ACTION_UNCLAIM:
            event.type = LIVE_CLAIM;
            break;
        }
        world_apply(world, event);
        if (action->type == ACTION_START && world_random(world, 4))
            world_apply(world, (struct live_event){.type = LIVE_RUNS, .id = event.id});
    }
}

bool world_end_one(struct world *world, uint32_t n)
{
    const struct sched_view *view = live_view(world->live);
    uint32_t count = 0, at = 0;

    for (uint32_t i = 0; i < view->job_count; i++)
        count += phase_holds(view->jobs[i].phase);
    if (count == 0)
        return false;
    for (n %= count; at < view->job_count; at++)
        if (phase_holds(view->jobs[at].phase) && n-- == 0)
            break;
    if (view->jobs[at].phase == PHASE_STOPPING || (view->jobs[at].phase == PHASE_STARTING && n % 2))
        world_apply(world, (struct live_event){.type = LIVE_STOPPED, .id = view->jobs[at].id});
    else
        world_apply(world, (struct live_event){.type = LIVE_END, .id = view->jobs[at].id});
    return true;
}

static void touch_any(struct world *world)
{
    const struct sched_view *view = live_view(world->live);
    uint32_t job = view->job_count ? world_random(world, view->job_count) : 0;
    struct live_event event = {.type = LIVE_RELABEL};

    if (view->job_count == 0 || phase_is_over(view->jobs[job].phase))
        return;
    event.id = view->jobs[job].id;
    event.blocked = view->jobs[job].blocked ? false : world_random(world, 2);
    event.workload = view->jobs[job];
    event.workload.keep = world_random(world, 8) == 0;
    event.workload.asked = world_random(world, 4) == 0;
    event.priority = (int32_t)world_random(world, 5) - 2;
    event.user = world_random(world, 8) ? view->jobs[job].user : users[world_random(world, 5)];
    event.epochs_done = view->jobs[job].epochs_done + 1;
    if (view->jobs[job].phase == PHASE_STARTING && world_random(world, 2))
        event.type = LIVE_RUNS;
    else if (view->jobs[job].phase == PHASE_STOPPING && world_random(world, 4) == 0)
        event.type = LIVE_UNASK;
    else if (world_random(world, 4) == 0)
        event.type = world_random(world, 2) ? LIVE_BLOCK : LIVE_CHANGE;
    else if (world_random(world, 5) == 0)
        event.type = LIVE_END;
    else if (phase_holds(view->jobs[job].phase) && world_random(world, 2))
        event.type = world_random(world, 8) ? LIVE_EPOCH : LIVE_STOPPED;
    world_apply(world, event);
}

void world_step(struct world *world)
{
    uint32_t kind = world_random(world, 10);

    world->now += world_random(world, 4000);
    if (kind < 5)
        world_add(world);
    else if (kind < 8)
        (void)world_end_one(world, world_random(world, 16));
    else
        touch_any(world);
}
