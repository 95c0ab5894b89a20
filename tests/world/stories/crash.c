/* crash.c - what a kill between two commits must not lose, and what one decision must not give away twice. */
#include "tell.h"

static void delete_and_kill(struct world *world, int64_t job)
{
    ACT(world, .type = ACT_KILL, .n = 1, .down_s = 5);
    ACT(world, .type = ACT_DELETE, .job = job);
    world_run(world, MINUTE(2));
    expect_state(world, job, "Cancelled");
}

/* The commit that takes the object away is the last one before the kill. */
static void deleted_and_killed(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000));
    SUBMIT(world, .job = 2, .user = BOB, .kind = JOB_JOB, .run_s = 3600, .retries = 1);
    SUBMIT(world, POD(3, CYD, 3600));
    SUBMIT(world, TRAINING(4, DAN, 5, 600));
    world_run(world, MINUTE(1));
    for (int64_t job = 2; job <= 4; job++)
        delete_and_kill(world, job);
    expect_state(world, 1, "Running");
}

/* One pod is left of ann's quota, and two jobs of hers could use it: nobody stops for the second. */
static void one_left(struct world *world)
{
    ACT(world, .type = ACT_QUOTA, .user = ANN, .n = 1);
    SUBMIT(world, TRAINING(1, ANN, 2, 60));
    for (int64_t i = 2; i <= 4; i++)
        SUBMIT(world, TRAINING(i, BOB, 200, 60));
    world_run(world, MINUTE(1));
    SUBMIT(world, TRAINING(5, ANN, 20, 60));
    SUBMIT(world, TRAINING(6, ANN, 20, 60));
    world_run(world, MINUTE(10));
    expect_state(world, 5, "Running");
    expect_state(world, 6, "Pending");
    for (int64_t i = 2; i <= 4; i++) {
        expect_state(world, i, "Running");
        EXPECT(world, json_int(json_get(tell_row(world, i), "restarts"), 0) == 0,
               "job%" PRId64 " was stopped for a job over its quota", i);
    }
}

const struct tale crash_tales[] = {
    {"what is deleted just before a kill has its end recorded", "a Job without a record of its end", LAB(1),
     deleted_and_killed},
    {"what is left of a quota is given once", "displaced for a job that then was over its quota", LAB(4),
     one_left},
    {0},
};
