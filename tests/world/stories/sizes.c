/* sizes.c - elastic and large jobs, and the order in which cards are given. */
#include "tell.h"

extern const struct tale size_tales[];

static void shrink_by_one(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 400, 60), .max = 4);
    world_run(world, MINUTE(60));
    expect_gpus(world, 1, 4);
    SUBMIT(world, TRAINING(2, BOB, 100, 60));
    world_run(world, MINUTE(10));
    expect_state(world, 2, "Running");
    expect_gpus(world, 1, 3);
}

static void resize_keeps_its_word(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 600, 60), .max = 2);
    world_run(world, MINUTE(90));
    expect_gpus(world, 1, 2);
    EXPECT(world, world_job(world, 1)->ran <= 3, "it was restarted %u times to find its size",
           world_job(world, 1)->ran - 1);
}

static void last_card_is_kept(struct world *world)
{
    SUBMIT(world, TRAINING(1, DAN, 600, 60), .max = 2);
    world_run(world, MINUTE(60));
    expect_gpus(world, 1, 2);
    SUBMIT(world, TRAINING(2, ANN, 100, 60));
    SUBMIT(world, TRAINING(3, ANN, 100, 60));
    world_run(world, MINUTE(10));
    expect_gpus(world, 1, 1);
    expect_state(world, 2, "Running");
    expect_gpus(world, 3, 0);
}

/* Positions 1 and 2 wait for a job that stops; another card becomes free. */
static void order_is_kept(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 50, 600), .leave_s = 20);
    SUBMIT(world, TRAINING(2, ANN, 50, 600), .leave_s = 20);
    SUBMIT(world, POD(3, FAY, 900));
    world_run(world, MINUTE(12));
    SUBMIT(world, TRAINING(4, BOB, 20, 60));
    SUBMIT(world, TRAINING(5, EVE, 20, 60));
    SUBMIT(world, TRAINING(6, ANN, 20, 60)); /* a 3rd GPU */
    world_run(world, MINUTE(4));             /* the pod ends: its card is for a first GPU */
    EXPECT(world, streq(tell_state(world, 4), "Running") || streq(tell_state(world, 5), "Running"),
           "no first GPU job has got the card that became free");
    EXPECT(world,
           !streq(tell_state(world, 6), "Running") ||
               (streq(tell_state(world, 4), "Running") && streq(tell_state(world, 5), "Running")),
           "a third GPU runs while a first one waits");
}

/* Five-minute jobs of one user, one a minute: more than four cards can take. */
static void large_job_starts(struct world *world)
{
    int64_t job = 0, told;

    for (int i = 0; i < 12; i++) { /* how long they take is known by then */
        job++;
        SUBMIT(world, TRAINING(job, BOB, 5, 60));
        world_run(world, MINUTE(1));
    }
    SUBMIT(world, TRAINING(100, CYD, 10, 60), .min = 4, .max = 4);
    world_run(world, SEC(10));
    told = tell_ms(tell_row(world, 100), "startHigh");
    EXPECT(world, told && told - wall_ms(world) < HOUR(3), "it is told to start within %" PRId64 " s",
           (told - wall_ms(world)) / 1000);
    while (wall_ms(world) < told && streq(tell_state(world, 100), "Pending") && !world->broken_rule) {
        job++;
        SUBMIT(world, TRAINING(job, BOB, 5, 60));
        world_run(world, MINUTE(1));
    }
    EXPECT(world, !streq(tell_state(world, 100), "Pending"), "it waits past what it was told: %s",
           tell_reason(world, 100));
}

static void grows_again(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 900, 60), .max = 2);
    world_run(world, MINUTE(60));
    SUBMIT(world, TRAINING(2, BOB, 10, 60));
    world_run(world, MINUTE(5));
    expect_gpus(world, 1, 1);
    expect_state(world, 2, "Running");
    world_run(world, MINUTE(90));
    expect_state(world, 2, "Succeeded");
    expect_gpus(world, 1, 2);
}

const struct tale size_tales[] = {
    {"an elastic job gives one card for a one-GPU job", "cut from 4 to 1, and 2 cards stayed idle", LAB(4),
     shrink_by_one},
    {"a job resized on 2 GPUs starts on 2", "announced 'resized on 2' and started on 1, twice", LAB(2),
     resize_keeps_its_word},
    {"a shrinking job keeps its last card", "lost its last card to somebody's 2nd", LAB(2),
     last_card_is_kept},
    {"a card that becomes free goes to the first in the order",
     "position 3 started on a freed card while 1 and 2 waited", LAB(3), order_is_kept},
    {"a large job starts although small ones keep coming", "stood at position 1 for as long as they came",
     LAB(4), large_job_starts},
    {"an elastic job grows again", "then never grew again", LAB(2), grows_again},
    {0},
};
