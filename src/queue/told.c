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
    return unit ? unit_w(unit)->user : NULL;
}

static void tell(struct queue *queue, const struct unit *unit, enum inbox_kind kind,
                 const struct life_effect *effect, const char *by, bool again)
{
    const struct life_stop *stop = effect->stop;
    char run[24];

    snprintf(run, sizeof(run), "%u", effect->job->run);
    inbox_tell(queue->config.inbox,
               &(struct inbox_item){.user = effect->job->w.user,
                                    .kind = kind,
                                    .job = unit_row(unit),
                                    .ns = unit->ns,
                                    .name = unit->job ? unit->job_name : unit->name,
                                    .text = effect->text,
                                    .by = by ? by : user_of(queue, stop ? stop->by : NULL),
                                    .by_job = stop ? stop->by_name : NULL,
                                    .pod = unit->kind == KIND_POD ? unit->uid : unit->pod,
                                    .once = !again                   ? NULL
                                            : unit->kind == KIND_POD ? unit->uid
                                                                     : run,
                                    .at_ms = queue_now(queue)});
}

void told_effect(struct queue *queue, const struct unit *unit, const struct life_effect *effect)
{
    const struct life_stop *stop = effect->stop;

    switch (effect->tell) {
    case TELL_PREEMPTED:
        tell(queue, unit, stop && stop->kind == STOP_RESIZE ? INBOX_RESIZED : INBOX_PREEMPTED, effect, NULL,
             true);
        break;
    case TELL_NOTICE:
        tell(queue, unit, INBOX_NOTICE, effect, NULL, true);
        break;
    case TELL_OVER_MEMORY:
        tell(queue, unit, INBOX_OVER_MEMORY, effect, NULL, true);
        break;
    case TELL_CANNOT_START:
        tell(queue, unit, INBOX_CANNOT_START, effect, NULL, true);
        break;
    case TELL_FAILED:
        if (!unit->job) /* a Job tells when it has ended */
            tell(queue, unit, INBOX_FAILED, effect, NULL, false);
        break;
    case TELL_SUCCEEDED:
        if (!unit->job)
            tell(queue, unit, INBOX_SUCCEEDED, effect, NULL, false);
        break;
    case TELL_CANCELLED:
        if (starts_with(effect->text, CANCELLED_BY))
            tell(queue, unit, INBOX_CANCELLED, effect, effect->text + strlen(CANCELLED_BY), false);
        break;
    default:
        break;
    }
}

/* Uid of the pod of a Job that failed last, as far as it is there. */
static void see_failed(void *arg, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object **last = arg;

    if (object->kind->id == KIND_POD && (!*last || object->rv > (*last)->rv) &&
        streq(json_at_string(object_json(object, &arena), "status.phase"), "Failed"))
        *last = object;
}

void told_job(struct queue *queue, const struct object *job, enum phase phase, const char *user,
              const char *reason)
{
    const struct object *failed = NULL;

    if (phase == PHASE_FAILED)
        store_dependents(queue->store, job->uid, see_failed, &failed);
    if (phase == PHASE_SUCCEEDED || phase == PHASE_FAILED)
        inbox_tell(queue->config.inbox,
                   &(struct inbox_item){.user = user,
                                        .kind = phase == PHASE_FAILED ? INBOX_FAILED : INBOX_SUCCEEDED,
                                        .job = job->uid,
                                        .ns = job->ns,
                                        .name = job->name,
                                        .pod = failed ? failed->uid : NULL,
                                        .text = reason && *reason       ? reason
                                                : phase == PHASE_FAILED ? "failed"
                                                                        : "finished",
                                        .at_ms = queue_now(queue)});
}
