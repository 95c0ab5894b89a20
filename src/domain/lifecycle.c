#include "domain/lifecycle.h"

#include "base/cleanup.h"
#include "base/str.h"

static const struct {
    const char *name;
    bool over, waiting, holds;
} phases[PHASES] = {
    [PHASE_PENDING] = {"Pending", .waiting = true},     [PHASE_STARTING] = {"Starting", .holds = true},
    [PHASE_RUNNING] = {"Running", .holds = true},       [PHASE_STOPPING] = {"Stopping", .holds = true},
    [PHASE_PREEMPTED] = {"Preempted", .waiting = true}, [PHASE_SUCCEEDED] = {"Succeeded", .over = true},
    [PHASE_FAILED] = {"Failed", .over = true},          [PHASE_CANCELLED] = {"Cancelled", .over = true},
};

static const struct {
    const char *name;
    enum phase phase;
} old_names[] = {{"Preempting", PHASE_STOPPING}};

static const char *const changes[CHANGES] = {
    [CHANGE_PLACE] = "Scheduled",          [CHANGE_START] = "Started",
    [CHANGE_GIVE_BACK] = "NotStarted",     [CHANGE_ASK_STOP] = "Stopping",
    [CHANGE_UNASK_STOP] = "StopWithdrawn", [CHANGE_UNASK_EARLY] = "StopWithdrawn",
    [CHANGE_STOPPED] = "Preempted",        [CHANGE_LOST] = "Lost",
    [CHANGE_SUCCEED] = "Succeeded",        [CHANGE_FAIL] = "Failed",
    [CHANGE_RETRY] = "Retrying",           [CHANGE_CANCEL] = "Cancelled",
};

static const struct {
    enum phase from;
    enum change change;
    enum phase to;
} steps[] = {
    {PHASE_PENDING, CHANGE_PLACE, PHASE_STARTING},
    {PHASE_PENDING, CHANGE_FAIL, PHASE_FAILED}, /* can never run: larger than any node */
    {PHASE_PENDING, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_PREEMPTED, CHANGE_PLACE, PHASE_STARTING},
    {PHASE_PREEMPTED, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_PREEMPTED, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_STARTING, CHANGE_START, PHASE_RUNNING},
    {PHASE_STARTING, CHANGE_GIVE_BACK, PHASE_PENDING},
    {PHASE_STARTING, CHANGE_ASK_STOP, PHASE_STOPPING},
    {PHASE_STARTING, CHANGE_LOST, PHASE_PREEMPTED},
    {PHASE_STARTING, CHANGE_RETRY, PHASE_PENDING},
    {PHASE_STARTING, CHANGE_SUCCEED, PHASE_SUCCEEDED}, /* ended before anybody saw it run */
    {PHASE_STARTING, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_STARTING, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_RUNNING, CHANGE_ASK_STOP, PHASE_STOPPING},
    {PHASE_RUNNING, CHANGE_LOST, PHASE_PREEMPTED},
    {PHASE_RUNNING, CHANGE_RETRY, PHASE_PENDING},
    {PHASE_RUNNING, CHANGE_SUCCEED, PHASE_SUCCEEDED},
    {PHASE_RUNNING, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_RUNNING, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_STOPPING, CHANGE_START, PHASE_STOPPING}, /* asked before it ran: still to stop */
    {PHASE_STOPPING, CHANGE_UNASK_STOP, PHASE_RUNNING},
    {PHASE_STOPPING, CHANGE_UNASK_EARLY, PHASE_STARTING},
    {PHASE_STOPPING, CHANGE_STOPPED, PHASE_PREEMPTED},
    {PHASE_STOPPING, CHANGE_GIVE_BACK, PHASE_PENDING},
    {PHASE_STOPPING, CHANGE_LOST, PHASE_PREEMPTED},
    {PHASE_STOPPING, CHANGE_RETRY, PHASE_PENDING},
    {PHASE_STOPPING, CHANGE_SUCCEED, PHASE_SUCCEEDED}, /* was faster than the stop */
    {PHASE_STOPPING, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_STOPPING, CHANGE_CANCEL, PHASE_CANCELLED},
};

const char *phase_name(enum phase phase)
{
    return phases[phase].name;
}

bool phase_find(const char *name, enum phase *ret)
{
    for (enum phase p = PHASE_PENDING; p < PHASES; p++)
        if (streq(phases[p].name, name)) {
            *ret = p;
            return true;
        }
    for (size_t i = 0; i < ARRAY_LEN(old_names); i++)
        if (streq(old_names[i].name, name)) {
            *ret = old_names[i].phase;
            return true;
        }
    return false;
}

const char *change_name(enum change change)
{
    return changes[change];
}

bool phase_is_over(enum phase phase)
{
    return phases[phase].over;
}

bool phase_is_waiting(enum phase phase)
{
    return phases[phase].waiting;
}

bool phase_holds(enum phase phase)
{
    return phases[phase].holds;
}

bool lifecycle_next(enum phase phase, enum change change, enum phase *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        if (steps[i].from == phase && steps[i].change == change) {
            *ret = steps[i].to;
            return true;
        }
    return false;
}

enum change lifecycle_exit(bool stopping, int status, uint32_t epochs_done, uint32_t epochs_total,
                           bool retries_left)
{
    bool done = epochs_total > 0 && epochs_done >= epochs_total;

    if (stopping && !done)
        return CHANGE_STOPPED;
    if (status == 0 || (stopping && done))
        return CHANGE_SUCCEED;
    return retries_left ? CHANGE_RETRY : CHANGE_FAIL;
}
