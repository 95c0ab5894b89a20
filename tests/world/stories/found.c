/* found.c - what stories of seeds have broken, each made short. */
#include "tell.h"

/* bob's first job cannot be pulled and is tried again and again; ann's first waits for bob's second. */
static void refused_in_front(struct world *world)
{
    SUBMIT(world, .job = 1, .user = BOB, .kind = JOB_JOB, .run_s = 600, .retries = 1, .fault = FAULT_IMAGE);
    world_run(world, MINUTE(3));
    SUBMIT(world, TRAINING(2, BOB, 100, 60));
    SUBMIT(world, TRAINING(3, CYD, 100, 60));
    world_run(world, MINUTE(20));
    SUBMIT(world, TRAINING(4, ANN, 10, 60));
    world_run(world, MINUTE(10));
    expect_state(world, 4, "Running");
    expect_state(world, 3, "Running");
}

/* A pod on all cards; those are kept for a large job; cyd's first GPU comes before that. */
static void claim_past_the_large(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000), .gpus = 4);
    SUBMIT(world, POD(2, BOB, 36000), .gpus = 4);
    world_run(world, MINUTE(5));
    SUBMIT(world, TRAINING(3, CYD, 10, 60));
    world_run(world, MINUTE(1));
    EXPECT(world, strstr(tell_reason(world, 3), "job1"),
           "the reason does not name whom a claim would take: %s", tell_reason(world, 3));
}

/* Three wait for a bare pod, each as the owner's first GPU; the last of them asks. The
 * card goes to the first in the order. */
static void last_one_claims(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000), .priority = -3);
    world_run(world, MINUTE(1));
    SUBMIT(world, POD(2, BOB, 600));
    SUBMIT(world, TRAINING(3, CYD, 10, 60));
    SUBMIT(world, TRAINING(4, ANN, 10, 60), .max = 2);
    world_run(world, MINUTE(1));
    for (int64_t i = 2; i <= 4; i++)
        EXPECT(world, strstr(tell_reason(world, i), "job1"), "job%" PRId64 " does not say whom to claim: %s",
               i, tell_reason(world, i));
    ACT(world, .type = ACT_CLAIM, .job = 4);
    world_run(world, MINUTE(8));
    expect_state(world, 1, "Preempted");
    expect_state(world, 2, "Running");
}

/* Cards are kept for a large job for hours, and lent to an elastic one; a small one waits for the same. */
static void lent_cards(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 40, 665), .max = 4);
    SUBMIT(world, TRAINING(2, CYD, 40, 333), .max = 3, .declared_h = 4);
    world_run(world, MINUTE(2));
    SUBMIT(world, .job = 3, .user = BOB, .kind = JOB_JOB, .gpus = 3, .run_s = 8447, .retries = 4);
    world_run(world, MINUTE(5));
    for (int64_t i = 4; i <= 6; i++)
        SUBMIT(world, .job = i, .user = i % 3, .kind = JOB_JOB, .run_s = 7000, .retries = 1);
    world_run(world, HOUR(3));
}

/* A Job of two GPUs whose image is mistyped has been tried; after a restart no card is kept for it. */
static void tried_before_restart(struct world *world)
{
    SUBMIT(world, .job = 1, .user = DAN, .kind = JOB_JOB, .gpus = 2, .run_s = 1800, .fault = FAULT_IMAGE);
    world_run(world, MINUTE(30));
    SUBMIT(world, TRAINING(2, BOB, 30, 60));
    world_run(world, MINUTE(1));
    ACT(world, .type = ACT_KILL, .n = 0, .down_s = 1);
    world_run(world, SEC(90)); /* until something was to be written */
    SUBMIT(world, TRAINING(3, DAN, 100, 60));
    world_run(world, SEC(30));
    EXPECT(world, strstr(tell_reason(world, 1), "cannot pull"), "it does not say why it waits: %s",
           tell_reason(world, 1));
    expect_state(world, 3, "Running");
}

/* Cards are shared out anew: job2 shrinks at the end of a long epoch, job3 grows then. */
static void grows_when_free(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 6, 178));
    world_run(world, MINUTE(33));
    SUBMIT(world, TRAINING(2, BOB, 14, 459), .max = 4);
    SUBMIT(world, TRAINING(3, CYD, 60, 89), .max = 2);
    SUBMIT(world, POD(5, DAN, 360));
    world_run(world, HOUR(2));
}

static void disk_full_at_submission(struct world *world)
{
    world_run(world, MINUTE(1));
    ACT(world, .type = ACT_FULL, .n = 1);
    SUBMIT(world, TRAINING(1, ANN, 10, 60));
    world_run(world, MINUTE(5));
    EXPECT(world, world_job(world, 1)->refused && !tell_row(world, 1), "a job that was refused is %s: %s",
           tell_state(world, 1), tell_reason(world, 1));
    SUBMIT(world, TRAINING(2, BOB, 10, 60));
    world_run(world, MINUTE(1));
    expect_state(world, 2, "Running");
}

const struct tale found_tales[] = {
    {"one that is tried again keeps nobody from asking",
     "a first GPU waited for a second one, behind another first that could not be pulled", LAB(2),
     refused_in_front},
    {"a claim past a large job at the head is offered", "waited for a bare pod without a word of it", LAB(4),
     claim_past_the_large},
    {"a claim is heard whoever waits before", "the claim of the third in the queue did nothing", LAB(1),
     last_one_claims},
    {"growing is not asked for and withdrawn without end", "the daemon did nothing else any more", LAB(4),
     lent_cards},
    {"a job does not stop to grow before the cards are free",
     "stopped to go on with 2 GPUs, and waited for minutes for another to shrink", LAB(4, .min_run_s = 300),
     grows_when_free},
    {"a pod that could not start is not new after a restart",
     "cards were kept for a pod that had failed a hundred times", LAB(2), tried_before_restart},
    {"what the disk refused is not in the queue", "cards were held for a job that was never there", LAB(1),
     disk_full_at_submission},
    {0},
};
