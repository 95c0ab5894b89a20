/* lifecycle - the states of a workload and what may lead from one to the next: one table.
 *
 *     pending -> running <-> preempting -> preempted -> running ... -> succeeded | failed | cancelled
 *
 * An end with status 0 while a stop is outstanding and epochs are left is a preemption, not a success: the
 * training library leaves that way (see lifecycle_exit). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum phase {
    PHASE_PENDING,
    PHASE_RUNNING,
    PHASE_PREEMPTING, /* asked to stop; still holds its GPUs */
    PHASE_PREEMPTED,  /* stopped; waits to go on */
    PHASE_SUCCEEDED,
    PHASE_FAILED,
    PHASE_CANCELLED,
    PHASES,
};

enum change {
    CHANGE_START,      /* placed and started */
    CHANGE_ASK_STOP,   /* to be preempted or resized */
    CHANGE_UNASK_STOP, /* the reason for it has gone; it never noticed */
    CHANGE_STOPPED,    /* left with the stop outstanding */
    CHANGE_LOST,       /* its node went away, or the machine rebooted */
    CHANGE_SUCCEED,    /* ended by itself, well */
    CHANGE_FAIL,       /* ended badly and may not be tried again */
    CHANGE_RETRY,      /* ended badly and is to be tried again */
    CHANGE_CANCEL,     /* somebody said so */
    CHANGES,
};

const char *phase_name(enum phase phase);    /* "Pending", as in status.phase */
const char *change_name(enum change change); /* "Started", as the reason of an event */
bool phase_is_over(enum phase phase);
bool phase_is_waiting(enum phase phase); /* in the queue */
bool phase_holds(enum phase phase);      /* has its GPUs */

/* The phase after `change`; false when the table has no such step, and *ret is as it was. */
bool lifecycle_next(enum phase phase, enum change change, enum phase *ret);

/* What the end of a workload's processes means. `stopping`: a stop is outstanding. `epochs_total` 0: it has
 * no epochs. `retries_left`: whether a bad end may be tried again. */
enum change lifecycle_exit(bool stopping, int status, uint32_t epochs_done, uint32_t epochs_total,
                           bool retries_left);
