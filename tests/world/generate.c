/* generate.c - stories of seeds: a small lab with more work than cards, and with the bad luck of a year in a
 * few hours. */
#include "story.h"

#define MINUTE 60
#define HOUR   3600

uint64_t dice_roll(struct dice *dice, uint64_t sides)
{
    uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % sides;
}

bool dice_chance(struct dice *dice, unsigned percent)
{
    return dice_roll(dice, 100) < percent;
}

static int64_t between(struct dice *dice, int64_t low, int64_t high)
{
    return low + (int64_t)dice_roll(dice, (uint64_t)(high - low + 1));
}

/* Short ones are common, long ones are there. */
static int64_t skewed(struct dice *dice, int64_t low, int64_t high)
{
    int64_t a = between(dice, low, high), b = between(dice, low, high), c = between(dice, low, high);

    a = a < b ? a : b;
    return a < c ? a : c;
}

struct making {
    struct dice dice;
    struct act lab;
    int64_t jobs;
};

static void make_lab(struct making *making)
{
    struct dice *dice = &making->dice;

    making->lab = (struct act){
        .type = ACT_LAB,
        .nodes = dice_chance(dice, 65) ? 1 : between(dice, 2, 3),
        .gpus = between(dice, 1, 4),
        .users = between(dice, 2, STORY_USERS),
        .min_run_s = dice_chance(dice, 50) ? 0 : 5 * MINUTE,
        .stop_s = dice_chance(dice, 50) ? 5 : 60,
        .ask = dice_chance(dice, 15),
        .quota = dice_chance(dice, 25),
        .latency_ms = dice_chance(dice, 60) ? 0 : between(dice, 1, 50),
    };
}

static enum job_fault make_fault(struct dice *dice, enum job_kind kind)
{
    static const enum job_fault any[] = {FAULT_IMAGE, FAULT_CRASH,    FAULT_DEAF, FAULT_SILENT,
                                         FAULT_CPU,   FAULT_SELECTOR, FAULT_CLAIM};
    enum job_fault fault = any[dice_roll(dice, ARRAY_LEN(any))];

    if (!dice_chance(dice, 20) || (kind != JOB_TRAINING && (fault == FAULT_SILENT || fault == FAULT_CPU)) ||
        (fault == FAULT_CLAIM && kind != JOB_POD && kind != JOB_JOB) || kind == JOB_TASK)
        return FAULT_NONE;
    if (kind == JOB_TRAINING && fault == FAULT_SELECTOR)
        return FAULT_NONE;
    return fault;
}

static struct act make_submit(struct making *making)
{
    struct dice *dice = &making->dice;
    unsigned kind = (unsigned)dice_roll(dice, 100);
    struct act act = {.type = ACT_SUBMIT, .job = ++making->jobs, .gpus = 1};

    act.user = (int64_t)dice_roll(dice, (uint64_t)making->lab.users);
    act.kind = kind < 20 ? JOB_POD : kind < 40 ? JOB_JOB : kind < 95 ? JOB_TRAINING : JOB_TASK;
    act.fault = make_fault(dice, (enum job_kind)act.kind);
    act.pull_s = dice_chance(dice, 80) ? between(dice, 1, 20) : between(dice, 60, 20 * MINUTE);
    act.leave_s = between(dice, 0, 20);
    act.run_s = skewed(dice, MINUTE, 6 * HOUR);
    act.priority = dice_chance(dice, 85) ? 0 : between(dice, -3, 3);
    if (act.kind == JOB_JOB)
        act.retries = dice_chance(dice, 70) ? between(dice, 1, 6) : 0;
    if (act.kind == JOB_POD || act.kind == JOB_JOB)
        act.gpus = dice_chance(dice, 10) ? 0 : dice_chance(dice, 80) ? 1 : between(dice, 1, making->lab.gpus);
    if (act.kind == JOB_TRAINING) {
        act.epochs = dice_chance(dice, 10) ? 1 : skewed(dice, 2, 40);
        act.epoch_s = skewed(dice, 5, 20 * MINUTE);
        act.declared_h = dice_chance(dice, 50) ? 0 : 1 + act.epochs * act.epoch_s / HOUR;
        if (dice_chance(dice, 40))
            act.max = between(dice, 2, making->lab.gpus > 2 ? making->lab.gpus : 2);
        if (dice_chance(dice, 15) && act.max > 1)
            act.min = act.max; /* a gang */
        if (act.min > making->lab.gpus)
            act.min = act.max = making->lab.gpus;
        if (act.max <= 1 && dice_chance(dice, 15))
            act.mib = 1000 * between(dice, 2, 10);
    }
    return act;
}

/* Something about a job of before, or about the world. */
static struct act make_other(struct making *making)
{
    struct dice *dice = &making->dice;
    struct act act = {.user = (int64_t)dice_roll(dice, (uint64_t)making->lab.users),
                      .job = making->jobs ? between(dice, 1, making->jobs) : 0};
    unsigned roll = (unsigned)dice_roll(dice, 100);

    act.type = roll < 20   ? ACT_CANCEL
               : roll < 28 ? ACT_DELETE
               : roll < 45 ? ACT_PRIORITY
               : roll < 50 ? ACT_LABEL
               : roll < 60 ? ACT_CLAIM
               : roll < 65 ? ACT_QUOTA
               : roll < 70 ? ACT_NODE
               : roll < 75 ? ACT_CARD
               : roll < 80 ? ACT_CLOCK
               : roll < 95 ? ACT_KILL
                           : ACT_FULL;
    act.node = (int64_t)dice_roll(dice, (uint64_t)making->lab.nodes);
    if (act.type == ACT_PRIORITY)
        act.priority = between(dice, -3, 3);
    if (act.type == ACT_LABEL)
        act.n = dice_chance(dice, 30);
    if (act.type == ACT_QUOTA)
        act.n = dice_chance(dice, 60) ? between(dice, 1, 4) : 0;
    if (act.type == ACT_NODE) {
        act.n = dice_chance(dice, 60);
        act.down_s = act.n ? between(dice, 60, 20 * MINUTE) : between(dice, 5, 200);
    }
    if (act.type == ACT_CARD) {
        act.card = (int64_t)dice_roll(dice, (uint64_t)making->lab.gpus);
        act.n = dice_chance(dice, 50);
    }
    if (act.type == ACT_CLOCK)
        act.n = dice_chance(dice, 80) ? between(dice, -2000, 2000) : between(dice, -600000, 600000);
    if (act.type == ACT_KILL) {
        act.n = between(dice, 0, 30);
        act.down_s = dice_chance(dice, 70) ? between(dice, 0, 10) : between(dice, 10, 10 * MINUTE);
    }
    if (act.type == ACT_FULL)
        act.n = between(dice, 1, 5);
    return act;
}

void story_generate(uint64_t seed, int64_t hours, struct story *ret)
{
    struct making making = {.dice = {(seed ^ (seed << 32)) * UINT64_C(0xd1342543de82ef95) + 1}};
    struct dice *dice = &making.dice;
    int64_t at = 0, end = hours * HOUR * 1000, pace;
    unsigned calm;

    *ret = (struct story){.seed = seed, .hours = hours};
    make_lab(&making);
    vec_push(&ret->acts, making.lab);
    pace = between(dice, 4, 40) * MINUTE * 1000;
    calm = (unsigned)between(dice, 50, 95); /* percent of acts that are submissions */
    while ((at += 1 + skewed(dice, 0, 4 * pace)) < end) {
        unsigned burst = dice_chance(dice, 10) ? (unsigned)between(dice, 2, 8) : 1;

        for (unsigned i = 0; i < burst; i++) {
            struct act act = dice_chance(dice, calm) ? make_submit(&making) : make_other(&making);

            act.at_ms = at + (dice_chance(dice, 50) ? 0 : between(dice, 0, 3000)) * (int64_t)(i > 0);
            vec_push(&ret->acts, act);
        }
    }
}
