/* What goes to the inbox of a job's owner: which of the things that happen to a unit are news to a person. */
#include "notify/inbox.h"
#include "objects/condition.h"
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

/* The machine's admin has two names. */
static bool is_admin_of(const char *by, const char *user)
{
    return starts_with(by, "system:") && streq(user, ADMIN_USER);
}

/* What makes it the same thing when a step is done again: which run or pod it happened to, and of what comes
 * back by itself only what is new. */
static const char *once_of(const struct unit *unit, const struct life_effect *effect, struct arena *arena)
{
    switch (effect->tell) {
    case TELL_PREEMPTED:
    case TELL_OVER_MEMORY:
        return unit->kind == KIND_POD ? unit->uid : arena_printf(arena, "%u", effect->job->run);
    case TELL_NOTICE:
        return arena_printf(arena, "%lld", (long long)(effect->stop ? effect->stop->since_ms : 0));
    case TELL_CANNOT_START: /* it is tried again and again, each time with other words: told once until it
                               runs */
        return arena_printf(arena, "%u", effect->job->w.restarts);
    default:
        return NULL;
    }
}

static void tell(struct queue *queue, const struct unit *unit, enum inbox_kind kind,
                 const struct life_effect *effect, const char *by, const char *by_job)
{
    CLEANUP(arena_done) struct arena arena = {0};

    inbox_tell(queue->config.inbox, &(struct inbox_item){.user = effect->job->w.user,
                                                         .kind = kind,
                                                         .job = unit_row(unit),
                                                         .ns = unit->ns,
                                                         .name = unit->job ? unit->job_name : unit->name,
                                                         .text = effect->text,
                                                         .by = by,
                                                         .by_job = by_job,
                                                         .once = once_of(unit, effect, &arena),
                                                         .at_ms = queue_now(queue)});
}

/* A stop, which is for somebody's job. */
static void tell_stop(struct queue *queue, const struct unit *unit, enum inbox_kind kind,
                      const struct life_effect *effect)
{
    const struct life_stop *stop = effect->stop;

    tell(queue, unit, kind, effect, user_of(queue, stop ? stop->by : NULL), stop ? stop->by_name : NULL);
}

static void tell_cancelled(struct queue *queue, const struct unit *unit, const struct life_effect *effect)
{
    const char *by = starts_with(effect->text, CANCELLED_BY) ? effect->text + strlen(CANCELLED_BY) : NULL;

    if (by && !is_admin_of(by, effect->job->w.user))
        tell(queue, unit, INBOX_CANCELLED, effect, by, NULL);
}

void told_effect(struct queue *queue, const struct unit *unit, const struct life_effect *effect)
{
    switch (effect->tell) {
    case TELL_PREEMPTED:
        tell_stop(queue, unit,
                  effect->stop && effect->stop->kind == STOP_RESIZE ? INBOX_RESIZED : INBOX_PREEMPTED,
                  effect);
        break;
    case TELL_NOTICE:
        tell_stop(queue, unit, INBOX_NOTICE, effect);
        break;
    case TELL_OVER_MEMORY:
        tell(queue, unit, INBOX_OVER_MEMORY, effect, NULL, NULL);
        break;
    case TELL_CANNOT_START:
        tell(queue, unit, INBOX_CANNOT_START, effect, NULL, NULL);
        break;
    case TELL_FAILED:
        if (!unit->job) /* a Job tells when it has ended */
            tell(queue, unit, INBOX_FAILED, effect, NULL, NULL);
        break;
    case TELL_SUCCEEDED:
        if (!unit->job)
            tell(queue, unit, INBOX_SUCCEEDED, effect, NULL, NULL);
        break;
    case TELL_CANCELLED:
        tell_cancelled(queue, unit, effect);
        break;
    default:
        break;
    }
}

/* ---- Jobs ---- */

/* The pod of a Job that failed last, as far as it is there. */
static void see_failed(void *arg, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object **last = arg;

    if (object->kind->id == KIND_POD && (!*last || object->rv > (*last)->rv) &&
        streq(json_at_string(object_json(object, &arena), "status.phase"), "Failed"))
        *last = object;
}

/* Why a Job has failed, with what its last pod said. */
static const char *failure_text(struct queue *queue, const struct object *job, const char *reason,
                                struct arena *arena)
{
    const struct object *failed = NULL;
    const char *line = NULL;

    store_parts(queue->store, job, see_failed, &failed);
    if (failed && queue->config.last_line)
        line = queue->config.last_line(queue->config.arg, arena, failed->uid);
    return line ? arena_printf(arena, "%s: %s", reason, line) : reason;
}

void told_job(struct queue *queue, const struct object *job, enum phase phase, const char *user,
              const char *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct inbox_item item = {
        .user = user, .job = job->uid, .ns = job->ns, .name = job->name, .at_ms = queue_now(queue)};

    if (phase == PHASE_SUCCEEDED) {
        item.kind = INBOX_SUCCEEDED;
        item.text = reason && *reason ? reason : "finished";
        inbox_tell(queue->config.inbox, &item);
    } else if (phase == PHASE_FAILED) {
        item.kind = INBOX_FAILED;
        item.text = failure_text(queue, job, reason && *reason ? reason : "failed", &arena);
        inbox_tell(queue->config.inbox, &item);
    }
}

/* ---- deletions ---- */

/* What is over is only cleared away; what belongs to a Job or TrainingJob counts with it. */
static bool is_work(struct queue *queue, const struct object *object, const struct json *doc)
{
    switch (object->kind->id) {
    case KIND_POD:
        return !store_controller(queue->store, object) && !pod_is_over(doc);
    case KIND_JOB:
        return !condition_is(json_get(doc, "status"), "Complete", "True") &&
               !condition_is(json_get(doc, "status"), "Failed", "True");
    case KIND_TRAINING_JOB:
        return !json_at_string(doc, "status.completionTime");
    default:
        return false;
    }
}

static void told_delete(void *arg, const struct write *write, const struct object *object)
{
    struct queue *queue = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena);
    const char *user = work_user(doc);

    if (row_mine(write->who, user, NULL) || !is_work(queue, object, doc))
        return;
    inbox_tell(queue->config.inbox,
               &(struct inbox_item){.user = user,
                                    .kind = INBOX_CANCELLED,
                                    .job = object->uid,
                                    .ns = object->ns,
                                    .name = object->name,
                                    .text = arena_printf(&arena, CANCELLED_BY "%s", write->who->user),
                                    .by = write->who->user,
                                    .at_ms = queue_now(queue)});
}

void told_watch(struct queue *queue, bool on)
{
    registry_on_delete(queue->registry, on ? told_delete : NULL, queue);
}
