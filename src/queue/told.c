/* What goes to the inbox of a job's owner: which of the things that happen to a unit are news to a person. */
#include "notify/inbox.h"
#include "queue/internal.h"

#define CANCELLED_BY "cancelled by "

/* The user of the job that a stop is for; NULL: not known. */
static const char *user_of(struct queue *queue, const char *row)
{
    const struct unit *unit = unit_find(queue, row);

    if (!unit && row)
        unit = unit_of_job(queue, row);
    return unit ? unit->w.user : NULL;
}

static void tell(struct queue *queue, const struct unit *unit, enum inbox_kind kind, const char *text,
                 const char *by, const char *by_job, bool again)
{
    char run[24];

    snprintf(run, sizeof(run), "%u", unit->run);
    inbox_tell(queue->config.inbox, &(struct inbox_item){.user = unit->w.user,
                                                         .kind = kind,
                                                         .job = unit_row(unit),
                                                         .ns = unit->ns,
                                                         .name = unit->job ? unit->job_name : unit->name,
                                                         .text = text,
                                                         .by = by,
                                                         .by_job = by_job,
                                                         .once = !again                   ? NULL
                                                                 : unit->kind == KIND_POD ? unit->uid
                                                                                          : run,
                                                         .at_ms = now_ms()});
}

void told_transition(struct queue *queue, const struct unit *unit, enum phase phase, const char *reason,
                     const struct stop *stop)
{
    const char *by = stop ? user_of(queue, stop->by) : NULL, *by_job = stop ? stop->by_name : NULL;

    if (phase == PHASE_PREEMPTED)
        tell(queue, unit, stop && stop->kind == STOP_RESIZE ? INBOX_RESIZED : INBOX_PREEMPTED, reason, by,
             by_job, true);
    else if (unit->job) /* told when the Job has ended */
        return;
    else if (phase == PHASE_FAILED)
        tell(queue, unit, INBOX_FAILED, reason, NULL, NULL, false);
    else if (phase == PHASE_SUCCEEDED)
        tell(queue, unit, INBOX_SUCCEEDED, reason, NULL, NULL, false);
    else if (phase == PHASE_CANCELLED && reason && starts_with(reason, CANCELLED_BY))
        tell(queue, unit, INBOX_CANCELLED, reason, reason + strlen(CANCELLED_BY), NULL, false);
}

void told_event(struct queue *queue, const struct unit *unit, const char *reason, const char *text)
{
    if (streq(reason, "OverReservation"))
        tell(queue, unit, INBOX_OVER_MEMORY, text, NULL, NULL, true);
    else if (streq(reason, "FailedCreate"))
        tell(queue, unit, INBOX_CANNOT_START, text, NULL, NULL, true);
}

void told_job(struct queue *queue, const struct object *job, enum phase phase, const char *user,
              const char *reason)
{
    if (phase == PHASE_SUCCEEDED || phase == PHASE_FAILED)
        inbox_tell(queue->config.inbox,
                   &(struct inbox_item){.user = user,
                                        .kind = phase == PHASE_FAILED ? INBOX_FAILED : INBOX_SUCCEEDED,
                                        .job = job->uid,
                                        .ns = job->ns,
                                        .name = job->name,
                                        .text = reason && *reason       ? reason
                                                : phase == PHASE_FAILED ? "failed"
                                                                        : "finished",
                                        .at_ms = now_ms()});
}
