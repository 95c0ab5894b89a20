/* Properties that hold after every event of every random sequence; see world.h. BERTH_SEQUENCES runs more of
 * them. */
#include "base/test/test.h"
#include "sched/book.h"
#include "sched/test/world.h"

#include <stdlib.h>

#define SEQUENCES 10000
#define STEPS     14

/* Cards never hold more than they have; whole cards are nobody else's; units are on one node. */
static void check_places(const struct world *world)
{
    const struct sched_view *view = live_view(world->live);
    uint32_t used[WORLD_NODES][WORLD_CARDS] = {0}, jobs[WORLD_NODES][WORLD_CARDS] = {0},
             whole[WORLD_NODES][WORLD_CARDS] = {0};
    struct resources left[WORLD_NODES];

    for (uint32_t n = 0; n < world->cluster.node_count; n++)
        left[n] = world->nodes[n].capacity;
    for (uint32_t i = 0; i < view->job_count; i++) {
        const struct workload *w = &view->jobs[i];
        const struct demand *d = &w->demand;
        uint32_t unit = d->unit_gpus ? d->unit_gpus : w->placement.len;

        if (!phase_holds(w->phase))
            continue;
        assert_true(w->placement.len >= (d->min_gpus ? d->min_gpus : 1));
        assert_true(w->placement.len <= (d->max_gpus ? d->max_gpus : 1));
        assert_int_equal(w->placement.len % unit, 0);
        for (uint32_t k = 0; k < w->placement.len; k++) {
            const struct slot *slot = &w->placement.v[k];

            assert_true(labels_match(world->nodes[slot->node].labels, w->selector));
            assert_int_equal(slot->node, w->placement.v[k / unit * unit].node);
            if (k % unit == 0)
                left[slot->node] = resources_add(left[slot->node], d->each, -1);
            if (slot->card == SLOT_CPU)
                continue;
            used[slot->node][slot->card] += slot->mib;
            jobs[slot->node][slot->card]++;
            whole[slot->node][slot->card] += demand_whole(d);
            assert_true(slot->mib >= d->mib);
        }
    }
    for (uint32_t n = 0; n < world->cluster.node_count; n++) {
        assert_true(left[n].cpu_milli >= 0 && left[n].mem_mib >= 0);
        for (uint32_t g = 0; g < world->nodes[n].gpu_count; g++) {
            assert_true(used[n][g] <= world->gpus[n][g].mem_mib);
            assert_true(whole[n][g] == 0 || jobs[n][g] == 1);
        }
    }
}

static void same_actions(const struct plan *a, const struct plan *b)
{
    assert_int_equal(a->actions.len, b->actions.len);
    for (size_t i = 0; i < a->actions.len; i++) {
        const struct action *x = &a->actions.v[i], *y = &b->actions.v[i];

        assert_true(x->type == y->type && x->job == y->job && x->by == y->by);
        assert_int_equal(x->slot_count, y->slot_count);
        if (x->slot_count)
            assert_memory_equal(x->slots, y->slots, sizeof(*x->slots) * x->slot_count);
    }
}

static void check_waits(const struct world *world, const struct plan *plan)
{
    const struct sched_view *view = live_view(world->live);
    uint32_t waiting = 0, starts = 0;

    for (uint32_t i = 0; i < view->job_count; i++)
        waiting += phase_is_waiting(view->jobs[i].phase);
    VEC_EACH(&plan->actions, action)
        starts += action->type == ACTION_START;
    assert_int_equal(plan->waits.len, waiting - starts);
    for (uint32_t i = 0; i < plan->waits.len; i++) {
        const struct wait *wait = &plan->waits.v[i];
        struct buf buf = {0};

        assert_int_equal(wait->position, i + 1);
        assert_true(wait->reason < WAIT_REASONS);
        assert_true(wait->start_ms >= world->now);
        assert_true(wait->start_lo_ms <= wait->start_ms && wait->start_ms <= wait->start_hi_ms);
        sched_wait_text(view, wait, &buf);
        assert_true(buf.len > 10);
        buf_done(&buf);
    }
}

static bool has_larger_rank(const struct workload *w, int64_t ordinal)
{
    return !w->user || ordinal > 1000;
}

static bool is_decided(const struct plan *plan, uint32_t job)
{
    VEC_EACH(&plan->actions, action)
        if (action->job == job)
            return true;
    return false;
}

/* Nobody's first-GPU job waits while jobs of larger ordinal, that could be stopped, hold what it needs. */
static void check_first_gpu(const struct world *world, const struct plan *plan, const struct wait *wait)
{
    const struct sched_view *view = live_view(world->live);
    const struct workload *waiter = &view->jobs[wait->job];
    struct slot slots[WORLD_NODES * WORLD_CARDS];
    uint8_t may[WORLD_NODES];
    struct query query = {.demand = &waiter->demand, .gpus = waiter->demand.min_gpus, .nodes = may};
    CLEANUP(book_done) struct book book;

    book_init(&book, world->policy, view, world->now);
    order_build(&book);
    for (uint32_t n = 0; n < world->cluster.node_count; n++)
        may[n] = labels_match(world->nodes[n].labels, waiter->selector);
    VEC_EACH(&book.running, key) {
        const struct workload *w = book_job(&book, key->job);

        if (w->phase == PHASE_STOPPING || (w->demand.max_gpus > 0 && may_stop(&book, key->job) &&
                                           has_larger_rank(w, book.jobs.v[key->job].ordinal)))
            book_use(&book, key->job, -1);
        if (w->phase == PHASE_STOPPING && w->claim.len)
            space_use(&book.space, &w->demand, w->claim, 1);
    }
    for (uint32_t i = 0; i < view->job_count; i++)
        if (phase_is_waiting(view->jobs[i].phase) && view->jobs[i].claim.len && !is_decided(plan, i))
            space_use(&book.space, &view->jobs[i].demand, view->jobs[i].claim, 1);
    VEC_EACH(&plan->actions, action)
        if (action->type == ACTION_START || action->type == ACTION_CLAIM || action->type == ACTION_RESIZE)
            space_use(&book.space, &view->jobs[action->job].demand,
                      (struct placement){action->slots, action->slot_count}, 1);
    assert_false(space_place(&book.space, &query, slots));
}

static void check_first_gpus(const struct world *world, const struct plan *plan)
{
    const struct sched_view *view = live_view(world->live);

    VEC_EACH(&plan->waits, wait) {
        const struct workload *w = &view->jobs[wait->job];

        if (w->user && w->demand.max_gpus > 0 && wait->ordinal <= 1000 && w->claim.len == 0 &&
            wait->reason != WAIT_VICTIM && wait->reason != WAIT_BACKOFF && wait->reason != WAIT_BLOCKED &&
            wait->reason != WAIT_HELD)
            check_first_gpu(world, plan, wait);
    }
}

/* Whether a job that goes on waiting could have started by itself, for all that is free in the book. */
static bool could_start(const struct world *world, struct book *book, const struct wait *wait)
{
    const struct workload *w = book_job(book, wait->job);
    struct slot slots[WORLD_NODES * WORLD_CARDS];
    uint8_t may[WORLD_NODES];
    struct query query = {.demand = &w->demand, .gpus = w->demand.min_gpus, .nodes = may};

    if (wait->reason == WAIT_BLOCKED || wait->reason == WAIT_BACKOFF || wait->reason == WAIT_HELD ||
        w->resizing)
        return false;
    for (uint32_t n = 0; n < world->cluster.node_count; n++)
        may[n] = labels_match(world->nodes[n].labels, w->selector);
    return space_place(&book->space, &query, slots);
}

/* Whether cards may be held, so that those that will be done in time may pass. */
static bool may_be_held(const struct plan *plan)
{
    VEC_EACH(&plan->waits, wait)
        if (wait->reason != WAIT_VICTIM && wait->reason != WAIT_BLOCKED && wait->reason != WAIT_BACKOFF &&
            !wait_is_never(wait->reason))
            return true;
    return false;
}

static bool overlap(struct placement a, struct placement b)
{
    for (uint32_t i = 0; i < a.len; i++)
        for (uint32_t k = 0; k < b.len; k++)
            if (a.v[i].node == b.v[k].node && a.v[i].card == b.v[k].card && a.v[i].card != SLOT_CPU)
                return true;
    return false;
}

static uint32_t place_in_order(const struct book *book, uint32_t job)
{
    uint32_t at = 0;

    while (book->waiting.v[at].job != job)
        at++;
    return at;
}

/* Nobody starts on what one that comes before waits for and could use, or on the place of one that is being
 * resized; and nobody starts and stops at once. */
static void check_order(const struct world *world, const struct plan *plan)
{
    const struct sched_view *view = live_view(world->live);
    CLEANUP(book_done) struct book book;

    book_init(&book, world->policy, view, world->now);
    order_build(&book);
    order_flat(&book);
    for (uint32_t i = 0; i < view->job_count; i++)
        if (view->jobs[i].claim.len && (view->jobs[i].resizing || !is_decided(plan, i)))
            space_claim(&book.space, &view->jobs[i].demand, view->jobs[i].claim, 1);
    VEC_EACH(&plan->actions, action) {
        const struct workload *w = &view->jobs[action->job];
        struct placement at = {action->slots, action->slot_count};

        if (action->type == ACTION_PREEMPT || action->type == ACTION_RESIZE)
            assert_true(w->started_ms < world->now);
        if (action->type == ACTION_CLAIM)
            space_claim(&book.space, &w->demand, at, 1);
        if (action->type != ACTION_START)
            continue;
        for (uint32_t i = 0; i < view->job_count; i++)
            if (view->jobs[i].resizing && i != action->job && !is_decided(plan, i) &&
                demand_whole(&view->jobs[i].demand))
                assert_false(overlap(at, view->jobs[i].claim));
        VEC_EACH(&plan->waits, wait)
            if (!w->resizing && (wait->reason != WAIT_VICTIM || !may_be_held(plan)) &&
                place_in_order(&book, wait->job) < place_in_order(&book, action->job) &&
                could_start(world, &book, wait))
                fail_msg("%s starts before %s, which could (reason %d)", w->name, view->jobs[wait->job].name,
                         (int)wait->reason);
        space_use(&book.space, &w->demand, at, 1);
    }
}

static void check_all(struct world *world)
{
    CLEANUP(plan_done) struct plan a = {0};
    CLEANUP(plan_done) struct plan b = {0};

    check_places(world);
    sched_plan(world->policy, live_view(world->live), world->now, &a);
    live_plan(world->live, world->now, &b);
    same_actions(&a, &b);
    check_waits(world, &a);
    if (world->policy == sched_policies[0])
        check_first_gpus(world, &a);
    if (world->policy == sched_policies[0])
        check_order(world, &a);
}

static void check_replay(const struct world *world)
{
    CLEANUP(live_free)
    struct live *again = live_new(world->policy, &world->cluster, &world->options, NULL);

    for (uint32_t i = 0; i < world->log_len; i++)
        assert_int_equal(live_apply(again, &world->log[i], NULL), 0);
    assert_true(live_digest(again) == live_digest(world->live));
}

/* With nothing new coming, everything that can run does. */
static void check_drain(struct world *world)
{
    const struct sched_view *view;
    int idle = 0;

    for (int i = 0; i < 400 && idle < 2; i++) {
        world->now += 10000;
        world_decide(world);
        if (i % 4 == 0)
            check_all(world);
        idle = world_end_one(world, world_random(world, 16)) ? 0 : idle + 1;
    }
    sched_plan(world->policy, live_view(world->live), world->now, &world->plan);
    view = live_view(world->live);
    for (uint32_t i = 0; i < view->job_count; i++)
        assert_false(phase_holds(view->jobs[i].phase));
    VEC_EACH(&world->plan.waits, wait)
        if (!wait_is_never(wait->reason) && wait->reason != WAIT_BLOCKED)
            fail_msg("job %u still waits: reason %d", wait->job, (int)wait->reason);
}

static void run_sequence(uint64_t seed)
{
    struct world world;
    const struct sched_policy *policy = sched_policies[seed % 10 < 5 ? 0 : seed % 10 - 4];

    world_init(&world, seed, policy);
    for (int i = 0; i < STEPS; i++) {
        world_step(&world);
        check_all(&world);
        world_decide(&world);
        check_places(&world);
    }
    check_drain(&world);
    check_replay(&world);
    world_done(&world);
}

static void test_random_sequences_keep_every_promise(void **state)
{
    const char *more = getenv("BERTH_SEQUENCES"), *first = getenv("BERTH_SEED");
    uint64_t count = more ? strtoull(more, NULL, 10) : SEQUENCES,
             from = first ? strtoull(first, NULL, 10) : 0;

    (void)state;
    for (uint64_t seed = from; seed < from + count; seed++) {
        if (first)
            print_message("seed %llu\n", (unsigned long long)seed);
        run_sequence(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_sequences_keep_every_promise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
