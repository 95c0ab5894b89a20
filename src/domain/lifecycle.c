#include "domain/lifecycle.h"

#include "base/cleanup.h"

static const struct {
    const char *name;
    bool over, waiting, holds;
} phases[PHASES] = {
    [PHASE_PENDING] = {"Pending", .waiting = true},     [PHASE_RUNNING] = {"Running", .holds = true},
    [PHASE_PREEMPTING] = {"Preempting", .holds = true}, [PHASE_PREEMPTED] = {"Preempted", .waiting = true},
    [PHASE_SUCCEEDED] = {"Succeeded", .over = true},    [PHASE_FAILED] = {"Failed", .over = true},
    [PHASE_CANCELLED] = {"Cancelled", .over = true},
};

static const char *const changes[CHANGES] = {
    [CHANGE_START] = "Started",     [CHANGE_ASK_STOP] = "Preempting", [CHANGE_UNASK_STOP] = "StopWithdrawn",
    [CHANGE_STOPPED] = "Preempted", [CHANGE_LOST] = "Lost",           [CHANGE_SUCCEED] = "Succeeded",
    [CHANGE_FAIL] = "Failed",       [CHANGE_RETRY] = "Retrying",      [CHANGE_CANCEL] = "Cancelled",
};

static const struct {
    enum phase from;
    enum change change;
    enum phase to;
} steps[] = {
    {PHASE_PENDING, CHANGE_START, PHASE_RUNNING},
    {PHASE_PENDING, CHANGE_FAIL, PHASE_FAILED}, /* can never run: larger than any node */
    {PHASE_PENDING, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_PREEMPTED, CHANGE_START, PHASE_RUNNING},
    {PHASE_PREEMPTED, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_PREEMPTED, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_RUNNING, CHANGE_ASK_STOP, PHASE_PREEMPTING},
    {PHASE_RUNNING, CHANGE_LOST, PHASE_PREEMPTED},
    {PHASE_RUNNING, CHANGE_RETRY, PHASE_PENDING},
    {PHASE_RUNNING, CHANGE_SUCCEED, PHASE_SUCCEEDED},
    {PHASE_RUNNING, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_RUNNING, CHANGE_CANCEL, PHASE_CANCELLED},
    {PHASE_PREEMPTING, CHANGE_UNASK_STOP, PHASE_RUNNING},
    {PHASE_PREEMPTING, CHANGE_STOPPED, PHASE_PREEMPTED},
    {PHASE_PREEMPTING, CHANGE_LOST, PHASE_PREEMPTED},
    {PHASE_PREEMPTING, CHANGE_RETRY, PHASE_PENDING},
    {PHASE_PREEMPTING, CHANGE_SUCCEED, PHASE_SUCCEEDED}, /* was faster than the stop */
    {PHASE_PREEMPTING, CHANGE_FAIL, PHASE_FAILED},
    {PHASE_PREEMPTING, CHANGE_CANCEL, PHASE_CANCELLED},
};

const char *phase_name(enum phase phase)
{
    return phases[phase].name;
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
