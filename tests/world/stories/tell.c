#include "tell.h"

/* A few arenas in turn: what a story asked for stays while it looks at it. */
static struct arena *next_arena(void)
{
    static struct arena arenas[8];
    static unsigned at;

    at = (at + 1) % ARRAY_LEN(arenas);
    arena_reset(&arenas[at]);
    return &arenas[at];
}

void tell_submit(struct world *world, struct act act)
{
    if (!act.gpus && !act.cpu)
        act.gpus = 1;
    if (!act.pull_s)
        act.pull_s = 2;
    world_act(world, &act);
}

static void take_row(void *arg, struct queue_answer *answer, const struct err *err)
{
    struct json **row = arg;

    if (!err)
        json_parse(buf_view(&answer->text), next_arena(), row, NULL, NULL);
}

const struct json *tell_row(struct world *world, int64_t number)
{
    const struct world_job *job = world_job(world, number);
    struct json *row = NULL;
    struct queue_reader reader = {"tell", take_row, &row};
    struct queue_past *past; /* the store has no file: it is told at once */

    if (!job || !*job->uid || queue_show(world->queue, NULL, job->uid, NULL, &reader, &past, NULL) < 0)
        return NULL;
    return row;
}

const struct json *tell_object(struct world *world, int64_t number)
{
    const struct world_job *job = world_job(world, number);
    const struct object *object = job ? store_by_uid(world->store, job->uid) : NULL;

    return object ? object_json(object, next_arena()) : NULL;
}

const char *tell_state(struct world *world, int64_t number)
{
    return json_string_or(json_get(tell_row(world, number), "state"), "(none)");
}

const char *tell_reason(struct world *world, int64_t number)
{
    return json_string_or(json_get(tell_row(world, number), "reason"), "");
}

int64_t tell_gpus(struct world *world, int64_t number)
{
    return (int64_t)json_len(json_get(tell_row(world, number), "cards"));
}

int64_t tell_ms(const struct json *row, const char *key)
{
    return time_of(json_get(row, key), 0) / NSEC_PER_MSEC;
}

int64_t wall_ms(const struct world *world)
{
    return world->clock.now / NSEC_PER_MSEC;
}

void expect_state(struct world *world, int64_t number, const char *state)
{
    EXPECT(world, streq(tell_state(world, number), state), "job%" PRId64 " is %s, not %s: %s", number,
           tell_state(world, number), state, tell_reason(world, number));
}

void expect_gpus(struct world *world, int64_t number, int64_t gpus)
{
    EXPECT(world, tell_gpus(world, number) == gpus,
           "job%" PRId64 " holds %" PRId64 " GPUs, not %" PRId64 ": %s", number, tell_gpus(world, number),
           gpus, tell_reason(world, number));
}
