/* world.c - time goes on: the loop turns, acts and the kubelet have their moments, the rules look. */
#include "world.h"

#include "base/file.h"
#include "kubelet.h"
#include "loop/loop.h"
#include "rules.h"
#include "store/disk.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define WORLD_BEGIN (INT64_C(1800000000) * NSEC_PER_SEC) /* a day in 2027 */
#define DRAIN_MS    (12 * 3600 * INT64_C(1000)) /* after the last act; then what is left is cancelled */
#define FLUSH_MS    (6 * 3600 * INT64_C(1000))  /* and that is over by then */
#define TURNS_MAX   5000                        /* of the loop at one instant: more is a hang */
#define LOOK_MS     30000                       /* the rules look at least so often */

int64_t world_ms(const struct world *world)
{
    return (world->clock.monotonic - WORLD_BEGIN) / NSEC_PER_MSEC;
}

void world_note(struct world *world, const char *fmt, ...)
{
    char text[512];
    int64_t ms = world_ms(world);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    for (const char *at = text; *at; at++)
        world->hash = (world->hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    world->hash = (world->hash ^ (uint64_t)ms) * UINT64_C(0x100000001b3);
    world->events++;
    if (world->trace)
        printf("%3d:%02d:%02d.%03d  %s\n", (int)(ms / 3600000), (int)(ms / 60000 % 60), (int)(ms / 1000 % 60),
               (int)(ms % 1000), text);
}

void world_broken(struct world *world, const char *rule, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    if (world->broken_rule || !rules_wanted(world->rules, rule))
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    world->broken_rule = mem_strdup(rule);
    world->broken_text = mem_strdup(text);
    world->broken_at = world_ms(world);
    world_note(world, "BROKEN %s: %s", rule, text);
    if (world->trace)
        rules_print(world->rules);
}

struct world_job *world_job(struct world *world, int64_t number)
{
    if (number <= 0 || (size_t)number >= world->jobs.len || world->jobs.v[number].act.type != ACT_SUBMIT)
        return NULL;
    return &world->jobs.v[number];
}

int64_t world_number(const char *name)
{
    return strncmp(name, "job", 3) == 0 && isdigit((unsigned char)name[3]) ? strtoll(name + 3, NULL, 10) : 0;
}

struct world *world_new(const struct act *lab, uint64_t seed)
{
    struct world *world = NEW(struct world);

    world->lab = *lab;
    world->clock = (struct clock_virtual){WORLD_BEGIN, WORLD_BEGIN};
    clock_use(&world->clock);
    random_use(seed * 2 + 1);
    world->loop = loop_new();
    loop_use_clock(world->loop, &world->clock);
    world->disk = store_disk_new();
    world->kubelet = kubelet_new(world);
    world->rules = rules_new(world);
    lab_up(world);
    return world;
}

void world_free(struct world *world)
{
    if (!world)
        return;
    if (world->up)
        lab_kill(world);
    loop_turn(world->loop, 0, NULL);
    kubelet_free(world->kubelet);
    rules_free(world->rules);
    store_disk_free(world->disk);
    loop_free(world->loop);
    clock_use(NULL);
    random_use(0);
    story_done(&world->story);
    vec_done(&world->jobs);
    free(world->broken_rule);
    free(world->broken_text);
    free(world);
}

/* ---- time ---- */

static int64_t next_moment(const struct world *world, int64_t until)
{
    int64_t next = until, kubelet = kubelet_next(world->kubelet), now = world_ms(world);

    if (world->next < world->story.acts.len && world->story.acts.v[world->next].at_ms < next && world->up)
        next = world->story.acts.v[world->next].at_ms;
    if (!world->up && world->up_at < next)
        next = world->up_at;
    if (kubelet < next)
        next = kubelet;
    if (now + LOOK_MS < next)
        next = now + LOOK_MS;
    return next;
}

static void run_acts(struct world *world)
{
    while (world->up && !store_disk_stopped(world->disk) && world->next < world->story.acts.len &&
           world->story.acts.v[world->next].at_ms <= world_ms(world))
        people_act(world, &world->story.acts.v[world->next++]);
}

/* The clock stands still for as long as there is something to do at once. */
static void look_for_hang(struct world *world)
{
    if (world_ms(world) != world->moment) {
        world->moment = world_ms(world);
        world->turns = 0;
    } else if (++world->turns > TURNS_MAX) {
        world_broken(world, "0-hangs", "nothing becomes of %d turns of the loop at one instant", TURNS_MAX);
    }
}

static void step(struct world *world, int64_t until)
{
    int64_t wait = next_moment(world, until) - world_ms(world);
    struct err err = {0};

    if (loop_turn(world->loop, wait <= 0 ? 0 : wait < INT_MAX ? (int)wait : INT_MAX, &err) < 0)
        abort();
    if (world->up && store_disk_stopped(world->disk))
        lab_kill(world);
    if (!world->up && world_ms(world) >= world->up_at)
        lab_up(world);
    kubelet_run(world->kubelet);
    run_acts(world);
    rules_look(world->rules);
    look_for_hang(world);
}

void world_run(struct world *world, int64_t ms)
{
    int64_t end = world_ms(world) + ms;

    while (world_ms(world) < end && !world->broken_rule)
        step(world, end);
    for (int i = 0; i < 20 && !world->broken_rule; i++) /* what is ready at the end */
        step(world, end);
}

void world_act(struct world *world, const struct act *act)
{
    people_act(world, act);
    world_run(world, 0);
}

static int by_time(const void *a, const void *b)
{
    const struct act *left = a, *right = b;

    return left->at_ms < right->at_ms ? -1 : left->at_ms > right->at_ms;
}

static void cancel_all(struct world *world)
{
    VEC_EACH(&world->jobs, it)
        if (it->act.type == ACT_SUBMIT)
            people_act(world, &(struct act){.type = ACT_CANCEL, .job = it->act.job});
}

bool world_play(struct world *world, const struct story *story)
{
    int64_t end = 0;

    story_copy(story, &world->story);
    for (size_t i = 1; i < world->story.acts.len; i++) /* stable: acts of one moment keep their order */
        for (size_t j = i; j > 0 && by_time(&world->story.acts.v[j - 1], &world->story.acts.v[j]) > 0; j--) {
            struct act swap = world->story.acts.v[j];

            world->story.acts.v[j] = world->story.acts.v[j - 1];
            world->story.acts.v[j - 1] = swap;
        }
    VEC_EACH(&world->story.acts, it)
        end = it->at_ms > end ? it->at_ms : end;
    while ((world_ms(world) < end || world->next < world->story.acts.len) && !world->broken_rule)
        step(world, world_ms(world) + LOOK_MS);
    end = world_ms(world) + DRAIN_MS;
    while (world_ms(world) < end && !world->broken_rule && !rules_all_over(world->rules))
        step(world, world_ms(world) + LOOK_MS);
    if (!world->broken_rule && !rules_all_over(world->rules)) {
        uint64_t failures;

        do { /* who is told that the disk is full tries again */
            failures = store_disk_failures(world->disk);
            while (!world->up)
                step(world, world_ms(world) + LOOK_MS);
            cancel_all(world);
            world_run(world, FLUSH_MS);
        } while (store_disk_failures(world->disk) != failures && !world->broken_rule);
    }
    if (!world->broken_rule)
        rules_end(world->rules);
    return !world->broken_rule;
}
