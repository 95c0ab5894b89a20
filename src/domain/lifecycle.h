/* lifecycle - the states of a workload and what may lead from one to the next: one table.
 *
 *     pending -> starting -> running <-> stopping -> preempted -> starting ...
 *                                                 -> succeeded | failed | cancelled
 *
 * A workload that is placed holds its cards and is Starting until a node reports it running. One that is
 * asked to stop is Stopping, whatever for (to make room, to be resized, for its memory, cancelled): what the
 * stop is for is known to whoever asked.
 *
 * An end with status 0 while a stop is outstanding and epochs are left is a preemption, not a success: the
 * training library leaves that way (see lifecycle_exit). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum phase {
    PHASE_PENDING,
    PHASE_STARTING, /* placed: holds its GPUs, its processes do not run yet */
    PHASE_RUNNING,
    PHASE_STOPPING,  /* asked to stop; still holds its GPUs */
    PHASE_PREEMPTED, /* stopped; waits to go on */
    PHASE_SUCCEEDED,
    PHASE_FAILED,
    PHASE_CANCELLED,
    PHASES,
};

enum change {
    CHANGE_PLACE,       /* gets its GPUs */
    CHANGE_START,       /* a node reports it running */
    CHANGE_GIVE_BACK,   /* could not be started (refused, or not in time): its GPUs are free again */
    CHANGE_ASK_STOP,    /* whatever for */
    CHANGE_UNASK_STOP,  /* the reason for it has gone; it never noticed */
    CHANGE_UNASK_EARLY, /* the same before it ran: it goes on starting */
    CHANGE_STOPPED,     /* left with the stop outstanding */
    CHANGE_LOST,        /* its node went away, or the machine rebooted */
    CHANGE_SUCCEED,     /* ended by itself, well */
    CHANGE_FAIL,        /* ended badly and may not be tried again */
    CHANGE_RETRY,       /* ended badly and is to be tried again */
    CHANGE_CANCEL,      /* somebody said so */
    CHANGES,
};

const char *phase_name(enum phase phase); /* "Pending", as in status.phase */
/* The phase of that name; false when there is none. Knows names of older versions, as they may be stored. */
bool phase_find(const char *name, enum phase *ret);
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
