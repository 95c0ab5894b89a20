/* What scripted stories are told with. */
#pragma once

#include "base/str.h"
#include "control/util.h"
#include "kubelet.h"
#include "loop/loop.h"
#include "notify/inbox.h"
#include "play.h"
#include "queue/queue.h"
#include "store/store.h"
#include "world.h"

#include <inttypes.h>
#include <stdio.h>

enum { ANN, BOB, CYD, DAN, EVE, FAY };

#define SEC(n)    ((n)*INT64_C(1000))
#define MINUTE(n) SEC(60 * (n))
#define HOUR(n)   MINUTE(60 * (n))

/* A lab of one node; a second number: seconds of the minimum run. */
#define LAB(cards, ...)                                                                                      \
    {                                                                                                        \
        .type = ACT_LAB, .nodes = 1, .gpus = (cards), .users = 6, .stop_s = 5, __VA_ARGS__                   \
    }
/* One GPU and a quick pull, unless the act says otherwise. */
#define SUBMIT(world, ...)      tell_submit((world), (struct act){.type = ACT_SUBMIT, __VA_ARGS__})
#define ACT(world, ...)         world_act((world), &(struct act){__VA_ARGS__})
#define POD(number, whose, sec) .job = (number), .user = (whose), .kind = JOB_POD, .run_s = (sec)
#define TRAINING(number, whose, count, sec)                                                                  \
    .job = (number), .user = (whose), .kind = JOB_TRAINING, .epochs = (count), .epoch_s = (sec)
#define EXPECT(world, cond, ...)                                                                             \
    do {                                                                                                     \
        if (!(cond))                                                                                         \
            world_broken((world), "story", __VA_ARGS__);                                                     \
    } while (0)

void tell_submit(struct world *world, struct act act);
/* The job's row with everything in it, also when it is over; NULL: there is none. In the world's memory for
 * the next few calls. */
const struct json *tell_row(struct world *world, int64_t job);
const char *tell_state(struct world *world, int64_t job); /* "Running" */
const char *tell_reason(struct world *world, int64_t job);
int64_t tell_gpus(struct world *world, int64_t job); /* held; 0 while it waits */
int64_t tell_ms(const struct json *row, const char *key);
const struct json *tell_object(struct world *world, int64_t job);
void expect_state(struct world *world, int64_t job, const char *state);
void expect_gpus(struct world *world, int64_t job, int64_t gpus);
int64_t wall_ms(const struct world *world);
