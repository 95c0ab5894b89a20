/* What is on the disk: once an hour the store is told what of the history may go. */
#include "base/clock.h"
#include "upkeep/internal.h"

#define FIRST_NSEC (INT64_C(30) * NSEC_PER_SEC)
#define EVERY_NSEC (INT64_C(3600) * NSEC_PER_SEC)

static void files_on_timer(void *arg)
{
    struct upkeep *upkeep = arg;
    const struct upkeep_policy *policy = &upkeep->config.policy;
    int64_t now_ms = clock_now() / NSEC_PER_MSEC;

    loop_timer_set(upkeep->files_timer, EVERY_NSEC);
    store_tidy(upkeep->store,
               &(struct store_limits){policy->history_sec ? now_ms - policy->history_sec * 1000 : 0,
                                      policy->history_bytes});
}

void files_soon(struct upkeep *upkeep)
{
    loop_timer_set(upkeep->files_timer, 0);
}

void files_start(struct upkeep *upkeep)
{
    upkeep->files_timer = loop_timer_new(upkeep->config.loop, files_on_timer, upkeep);
    loop_timer_set(upkeep->files_timer, FIRST_NSEC);
}

void files_stop(struct upkeep *upkeep)
{
    loop_timer_free(upkeep->files_timer);
}
