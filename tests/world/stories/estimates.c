/* estimates.c - when things start and end. */
#include "tell.h"

#include <stdlib.h>

extern const struct tale estimate_tales[];

static void ends_stand_still(struct world *world)
{
    int64_t first, kube;

    SUBMIT(world, TRAINING(1, ANN, 20, 300));
    SUBMIT(world, TRAINING(2, BOB, 20, 300));
    world_run(world, MINUTE(12));
    first = tell_ms(tell_row(world, 1), "eta");
    EXPECT(world, first > wall_ms(world), "no end is told");
    for (int i = 0; i < 10; i++) {
        world_run(world, SEC(7));
        EXPECT(world, llabs(tell_ms(tell_row(world, 1), "eta") - first) < 1500,
               "the end moves by %" PRId64 " ms", tell_ms(tell_row(world, 1), "eta") - first);
    }
    kube = time_of(json_at(tell_object(world, 1), "status.eta"), 0) / NSEC_PER_MSEC;
    EXPECT(world, llabs(kube - first) < 1500, "kubectl shows another end, by %" PRId64 " ms", kube - first);
}

static void measured_epochs_count(struct world *world)
{
    int64_t left;

    SUBMIT(world, TRAINING(1, ANN, 60, 1));
    world_run(world, SEC(14));
    left = tell_ms(tell_row(world, 1), "eta") - wall_ms(world);
    EXPECT(world, left > 0 && left < SEC(120), "ends in %" PRId64 " s", left / 1000);
}

static void estimates_outlive_the_daemon(struct world *world)
{
    int64_t before, after;

    SUBMIT(world, TRAINING(1, ANN, 40, 60));
    world_run(world, MINUTE(10));
    before = tell_ms(tell_row(world, 1), "eta");
    ACT(world, .type = ACT_KILL, .n = 0, .down_s = 5);
    world_run(world, SEC(20));
    after = tell_ms(tell_row(world, 1), "eta");
    EXPECT(world, llabs(after - before) < MINUTE(3), "the end moves by %" PRId64 " s over a restart",
           (after - before) / 1000);
}

static void waiter_behind_a_stop(struct world *world)
{
    int64_t said, start;

    SUBMIT(world, TRAINING(1, ANN, 40, 30));
    SUBMIT(world, TRAINING(2, ANN, 40, 30));
    world_run(world, MINUTE(5));
    SUBMIT(world, TRAINING(3, BOB, 5, 30));
    world_run(world, SEC(3));
    if (streq(tell_state(world, 3), "Pending")) {
        said = tell_ms(tell_row(world, 3), "startEstimate") - wall_ms(world);
        for (start = 0; start < 300 && streq(tell_state(world, 3), "Pending"); start++)
            world_run(world, SEC(1));
        EXPECT(world, llabs(said - SEC(start)) < SEC(45),
               "told to start in %" PRId64 " s, started in %" PRId64, said / 1000, start);
    }
}

const struct tale estimate_tales[] = {
    {"ends stand still, for the queue and for kubectl", "slide one second per second", LAB(2),
     ends_stand_still},
    {"measured epochs make the end", "11 of 60 epochs of 1 s done: ends in 3h15m", LAB(1),
     measured_epochs_count},
    {"estimates outlive the daemon", "fall back to declared hours", LAB(1), estimates_outlive_the_daemon},
    {"a waiter behind a stopping job is told the truth", "6m50s, really 22 s", LAB(2), waiter_behind_a_stop},
    {0},
};
