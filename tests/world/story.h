/* story - what people and the world do to a lab, as a list of acts in the order of time.
 *
 * A story follows from a seed, is written as text (one act a line, with the same in words behind it) and read
 * back. Acts name jobs by number; one about a job that was never submitted does nothing, so any part of a
 * story is a story. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

#define STORY_USERS 6 /* ann, bob, cyd, dan, eve, fay */
#define STORY_NODES 4
extern const char *const story_users[STORY_USERS];

enum act_type {
    ACT_LAB,      /* the first one: nodes, gpus, users, min_run_s, ask, quota, latency_ms */
    ACT_SUBMIT,   /* job with all that its processes are going to do */
    ACT_CANCEL,   /* job */
    ACT_DELETE,   /* job: kubectl delete */
    ACT_PRIORITY, /* job, priority */
    ACT_LABEL,    /* job: `user` is put on it as the label of that name; n 1: the priority "abc" */
    ACT_CLAIM,    /* job */
    ACT_QUOTA,    /* user: at most n pods at a time; 0: no quota */
    ACT_NODE,     /* node goes away for down_s; n 1: it reboots, 0: only the network is gone */
    ACT_CARD,     /* card of node fails; n 0: it is mended */
    ACT_CLOCK,    /* the wall clock jumps by n milliseconds */
    ACT_KILL,     /* the daemon is killed after n more commits, and started again after down_s */
    ACT_FULL,     /* the next n commits fail: the disk is full */
    ACT_TYPES,
};

enum job_kind { JOB_POD, JOB_JOB, JOB_TRAINING, JOB_TASK, JOB_KINDS };

enum job_fault {
    FAULT_NONE,
    FAULT_IMAGE,    /* mistyped: it is never pulled */
    FAULT_CRASH,    /* exits with 1 after half of its time */
    FAULT_DEAF,     /* neither asks whether to stop nor hears TERM */
    FAULT_SILENT,   /* trains without telling of epochs */
    FAULT_CPU,      /* asks for less CPU than its pod requests */
    FAULT_SELECTOR, /* for a node that is not there */
    FAULT_CLAIM,    /* mounts a claim that nobody makes */
    FAULT_NEVER,    /* its processes never end by themselves */
    FAULTS,
};

/* All whole numbers, so that text and struct are the same thing. What an act does not use is 0. */
struct act {
    int64_t at_ms;
    int64_t type;
    int64_t job, user, kind, gpus, min, max, cpu, mib, priority;
    int64_t epochs, epoch_s, declared_h; /* of training: each epoch's time on one GPU */
    int64_t pull_s, run_s, leave_s;      /* until it runs; what pods do then; from TERM to the end */
    int64_t fault, retries;
    int64_t node, card, n, down_s;
    int64_t nodes, users, min_run_s, stop_s, ask, quota, latency_ms;
};

struct story {
    VEC(struct act) acts;
    uint64_t seed; /* of uids and the like */
    int64_t hours; /* how long people come; the world then runs until all have left */
};

void story_done(struct story *story);
static inline void story_done_cleanup_(struct story *story)
{
    story_done(story);
}

/* The story of a seed. */
void story_generate(uint64_t seed, int64_t hours, struct story *ret);
int story_read(const char *path, struct story *ret, struct err *err);
void story_write(const struct story *story, struct buf *ret);
void act_words(const struct act *act, struct buf *ret); /* "bob submits pod job3: 1 GPU …" */
void story_copy(const struct story *from, struct story *ret);

/* A generator of its own, so that a seed means the same everywhere. */
struct dice {
    uint64_t state;
};
uint64_t dice_roll(struct dice *dice, uint64_t sides); /* 0 .. sides - 1 */
bool dice_chance(struct dice *dice, unsigned percent);
