/* table.c - what people saw, each as a story of a few minutes: displaced for nothing, whose work it is, stuck
 * starts, bare pods, ends. */
#include "tell.h"

/* ---- what cannot start displaces nobody ---- */

static void over_quota(struct world *world)
{
    for (int64_t i = 1; i <= 4; i++)
        SUBMIT(world, TRAINING(i, ANN, 50, 60));
    ACT(world, .type = ACT_QUOTA, .user = BOB, .n = 2);
    SUBMIT(world, POD(5, BOB, 36000), .cpu = 1);
    SUBMIT(world, POD(6, BOB, 36000), .cpu = 1);
    world_run(world, MINUTE(1));
    SUBMIT(world, TRAINING(7, BOB, 5, 60));
    world_run(world, MINUTE(10));
    for (int64_t i = 1; i <= 4; i++)
        expect_state(world, i, "Running");
    expect_state(world, 7, "Pending");
    EXPECT(world, strstr(tell_reason(world, 7), "quota"), "the reason does not name the quota: %s",
           tell_reason(world, 7));
    ACT(world, .type = ACT_CANCEL, .job = 6);
    world_run(world, MINUTE(5));
    expect_state(world, 7, "Running");
}

static void too_little_cpu(struct world *world)
{
    for (int64_t i = 1; i <= 4; i++)
        SUBMIT(world, TRAINING(i, ANN, 50, 60));
    world_run(world, MINUTE(1));
    for (int64_t i = 5; i < 55; i++)
        SUBMIT(world, TRAINING(i, 1 + i % 5, 5, 60), .fault = FAULT_CPU);
    world_run(world, MINUTE(10));
    for (int64_t i = 1; i <= 4; i++)
        expect_state(world, i, "Running");
    ACT(world, .type = ACT_CANCEL, .job = 1);
    SUBMIT(world, TRAINING(60, FAY, 5, 60));
    world_run(world, MINUTE(3));
    expect_state(world, 60, "Running");
}

/* ---- whose it is ---- */

static void owner_counts(struct world *world)
{
    const struct json *row;

    SUBMIT(world, POD(1, CYD, 36000));
    SUBMIT(world, .job = 2, .user = CYD, .kind = JOB_JOB, .run_s = 36000);
    SUBMIT(world, .job = 3, .user = CYD, .kind = JOB_TASK, .run_s = 36000);
    SUBMIT(world, TRAINING(4, CYD, 5, 60));
    world_run(world, MINUTE(1));
    ACT(world, .type = ACT_LABEL, .job = 1, .user = ANN);
    ACT(world, .type = ACT_LABEL, .job = 2, .user = ANN);
    world_run(world, SEC(10));
    for (int64_t i = 1; i <= 4; i++) {
        row = tell_row(world, i);
        EXPECT(world, streq(json_get_string(row, "user"), "cyd"), "job%" PRId64 " counts as %s's", i,
               json_get_string(row, "user"));
        EXPECT(world, json_get(row, "ordinal") && json_int(json_get(row, "ordinal"), 0) != 1 ? true : i == 1,
               "job%" PRId64 " counts as somebody's first GPU", i);
    }
}

static void bad_priority(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000));
    SUBMIT(world, POD(2, ANN, 36000));
    world_run(world, MINUTE(1));
    ACT(world, .type = ACT_LABEL, .job = 1, .n = 1);
    world_run(world, MINUTE(2));
    expect_state(world, 1, "Running");
    EXPECT(world, !streq(label_get(tell_object(world, 1), "priority"), "abc"),
           "priority=abc is taken for a label of a running pod");
}

/* ---- stuck starts ---- */

/* How often a user's inbox says so. */
static unsigned told(struct world *world, int64_t user, const char *kind)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *box = inbox_list(world->inbox, story_users[user], false, 0, &arena);
    unsigned count = 0;

    JSON_EACH(json_get(box, "items"), it)
        count += streq(json_get_string(it, "kind"), kind);
    return count;
}

static void mistyped_image(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 3600), .fault = FAULT_IMAGE);
    world_run(world, SEC(30));
    expect_state(world, 1, "Starting");
    EXPECT(world, strstr(tell_reason(world, 1), "cannot"), "it does not say why: %s", tell_reason(world, 1));
    SUBMIT(world, TRAINING(2, BOB, 5, 60));
    world_run(world, MINUTE(4));
    expect_state(world, 2, "Running");
    EXPECT(world, strstr(tell_reason(world, 1), "cannot"), "it does not say why: %s", tell_reason(world, 1));
    SUBMIT(world, TRAINING(3, ANN, 5, 60), .fault = FAULT_IMAGE);
    world_run(world, MINUTE(60)); /* tried again and again */
    EXPECT(world, told(world, ANN, "cannot-start") == 2, "its owner was told %u times of two jobs",
           told(world, ANN, "cannot-start"));
}

static void slow_pull(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 5, 60), .pull_s = 600);
    world_run(world, MINUTE(5));
    expect_state(world, 1, "Starting");
    EXPECT(world, tell_gpus(world, 1) == 1, "it holds no card while it pulls");
    world_run(world, MINUTE(6));
    expect_state(world, 1, "Running");
}

static void refused_pods(struct world *world)
{
    ACT(world, .type = ACT_QUOTA, .user = ANN, .n = 1);
    SUBMIT(world, POD(1, ANN, 36000), .cpu = 1);
    SUBMIT(world, .job = 2, .user = ANN, .kind = JOB_JOB, .run_s = 600);
    world_run(world, MINUTE(2));
    expect_state(world, 2, "Pending");
    EXPECT(world, strstr(tell_reason(world, 2), "quota"), "the reason does not name the quota: '%s'",
           tell_reason(world, 2));
    ACT(world, .type = ACT_CANCEL, .job = 1);
    world_run(world, MINUTE(3));
    expect_state(world, 2, "Running");
}

/* ---- bare pods ---- */

static void bare_pods_stay(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000));
    SUBMIT(world, POD(2, ANN, 36000));
    world_run(world, MINUTE(1));
    SUBMIT(world, TRAINING(3, BOB, 50, 60));
    world_run(world, MINUTE(10));
    expect_state(world, 1, "Running");
    expect_state(world, 2, "Running");
    EXPECT(world, strstr(tell_reason(world, 3), "job2") || strstr(tell_reason(world, 3), "job1"),
           "the reason does not name the pod that a claim would take: %s", tell_reason(world, 3));
    ACT(world, .type = ACT_CLAIM, .job = 3);
    world_run(world, MINUTE(1));
    expect_state(world, 1, "Running");
    world_run(world, MINUTE(10));
    expect_state(world, 3, "Running");
    expect_state(world, 1, "Running");
}

static void claim_gives_notice(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000));
    SUBMIT(world, POD(2, ANN, 36000));
    SUBMIT(world, POD(3, BOB, 600));
    world_run(world, MINUTE(2));
    ACT(world, .type = ACT_CLAIM, .job = 3);
    world_run(world, SEC(20));
    EXPECT(world, told(world, ANN, "notice") == 1, "the pod's owner has no notice");
    expect_state(world, 2, "Stopping");
    world_run(world, MINUTE(8));
    expect_state(world, 3, "Running");
}

/* ---- ends ---- */

static void one_epoch(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 1, 300));
    SUBMIT(world, TRAINING(2, ANN, 1, 300));
    world_run(world, MINUTE(1));
    SUBMIT(world, TRAINING(3, BOB, 2, 60));
    world_run(world, MINUTE(20));
    for (int64_t i = 1; i <= 3; i++)
        expect_state(world, i, "Succeeded");
    EXPECT(world, world_job(world, 2)->ran <= 2, "job2 ran %u times", world_job(world, 2)->ran);
}

static void cancelled_is_cancelled(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 36000), .leave_s = 10);
    SUBMIT(world, TRAINING(2, BOB, 5, 600), .leave_s = 10);
    world_run(world, MINUTE(1));
    ACT(world, .type = ACT_CANCEL, .job = 1);
    ACT(world, .type = ACT_CANCEL, .job = 2);
    world_run(world, SEC(4));
    expect_state(world, 1, "Stopping");
    expect_state(world, 2, "Stopping");
    world_run(world, MINUTE(2));
    expect_state(world, 1, "Cancelled");
    expect_state(world, 2, "Cancelled");
}

static void ended_shows_its_gpus(struct world *world)
{
    SUBMIT(world, POD(1, ANN, 60), .gpus = 2);
    SUBMIT(world, TRAINING(2, BOB, 2, 60), .min = 2, .max = 2);
    world_run(world, MINUTE(10));
    expect_state(world, 1, "Succeeded");
    expect_state(world, 2, "Succeeded");
    for (int64_t i = 1; i <= 2; i++)
        EXPECT(world, json_int(json_get(tell_row(world, i), "gpus"), 0) == 2,
               "job%" PRId64 " ran on 2 GPUs and shows %" PRId64, i,
               json_int(json_get(tell_row(world, i), "gpus"), 0));
}

static void first_epoch(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 5, 60));
    SUBMIT(world, TRAINING(2, ANN, 5, 600));
    world_run(world, SEC(30));
    SUBMIT(world, TRAINING(3, BOB, 2, 30)); /* the second of ann's is stopped in its first epoch */
    world_run(world, MINUTE(90));
    for (int64_t i = 1; i <= 3; i++)
        expect_state(world, i, "Succeeded");
}

static void claim_in_ask(struct world *world)
{
    SUBMIT(world, TRAINING(1, ANN, 500, 60));
    SUBMIT(world, TRAINING(2, ANN, 500, 60));
    world_run(world, MINUTE(5));
    SUBMIT(world, TRAINING(3, BOB, 5, 60));
    world_run(world, MINUTE(10));
    expect_state(world, 3, "Pending");
    ACT(world, .type = ACT_CLAIM, .job = 3);
    world_run(world, MINUTE(5));
    expect_state(world, 3, "Running");
}

static const struct tale table[] = {
    {"a job over its quota displaces nobody", "3 of 4 GPUs in use for as long as one watches", LAB(4),
     over_quota},
    {"jobs whose pods cannot be made leave the cards to others", "200 such jobs: 0.49 of 4 GPUs in use",
     LAB(4), too_little_cpu},
    {"work counts as its owner's, whatever the label says", "anybody's pods are charged to a colleague",
     LAB(4), owner_counts},
    {"a priority that is no number is refused", "a running pod was killed for its own owner's relabel",
     LAB(1), bad_priority},
    {"a pod whose image is mistyped is not running, and gives its card back", "Running: runs on 2 GPUs",
     LAB(1), mistyped_image},
    {"a pod that pulls is starting", "Running while it pulled", LAB(1), slow_pull},
    {"a Job whose pods a quota refuses says so", "does not wait: .", LAB(1), refused_pods},
    {"bare pods go by a claim alone", "killed for 2nd-over-3rd orders nobody asked for", LAB(2),
     bare_pods_stay},
    {"the owner of a pod that is claimed has a notice first", "its owner saw nothing", LAB(2),
     claim_gives_notice},
    {"a job of one epoch ends once", "ended well and was started again", LAB(2), one_epoch},
    {"what is cancelled is stopping, then cancelled", "a cancelled pod that exits 0 is Succeeded", LAB(2),
     cancelled_is_cancelled},
    {"a job that has ended shows the GPUs it had", "an ended 2-GPU job shows 1", LAB(4),
     ended_shows_its_gpus},
    {"a job stopped in its first epoch begins anew", "JOB_RESTARTED=TRUE EPOCHS_DONE=0: scripts crash",
     LAB(2), first_epoch},
    {"a claim is heard at once where preemption asks", "owners are told while nothing happens",
     LAB(2, .ask = 1), claim_in_ask},
    {0},
};

extern const struct tale size_tales[], estimate_tales[], crash_tales[], found_tales[];
const struct tale *const tale_lists[] = {table, size_tales, estimate_tales, crash_tales, found_tales, NULL};
