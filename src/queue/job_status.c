/* What a TrainingJob's object says: all that life has to know after a restart, and what kubectl shows. */
#include "control/util.h"
#include "queue/internal.h"

#define LATE_AGAIN_MS 1000 /* ends of late jobs are not said anew more often */

static void set_time(struct arena *arena, struct json *object, const char *key, int64_t ms)
{
    char text[CLOCK_TEXT_MAX];

    if (ms && ms != INT64_MAX)
        json_set_string(arena, object, key, clock_format_micro(ms * NSEC_PER_MSEC, text));
    else
        json_remove(object, key);
}

static void set_count(struct arena *arena, struct json *object, const char *key, int64_t n, bool known)
{
    if (known)
        json_set_int(arena, object, key, n);
    else
        json_remove(object, key);
}

static void write_stop(struct arena *arena, struct json *status, const struct life_stop *stop)
{
    struct json *out;

    if (stop->kind == STOP_NONE) {
        json_remove(status, "stop");
        return;
    }
    out = json_set_object(arena, status, "stop");
    json_set_string(arena, out, "kind", life_stop_name(stop->kind));
    if (stop->by) {
        json_set_string(arena, out, "by", stop->by);
        json_set_string(arena, out, "byName", stop->by_name);
    }
    json_set_string(arena, out, "reason", stop->reason);
    set_time(arena, out, "since", stop->since_ms);
    set_time(arena, out, "until", stop->until_ms);
    set_time(arena, out, "heard", stop->heard_ms);
    if (stop->epoch >= 0)
        json_set_int(arena, out, "epoch", stop->epoch);
    if (stop->killed)
        json_set_bool(arena, out, "killed", true);
}

static void push_slots(struct queue *queue, struct placement at, struct arena *arena, struct json *list)
{
    for (uint32_t i = 0; i < at.len; i++) {
        struct json *out = json_push_object(arena, list);

        json_set_string(arena, out, "node", queue->nodes.v[at.v[i].node].name);
        if (at.v[i].card == SLOT_CPU)
            continue;
        json_set_int(arena, out, "index", at.v[i].card);
        json_set_int(arena, out, "mib", at.v[i].mib);
    }
}

static void write_cards(struct queue *queue, const struct life_job *job, struct arena *arena,
                        struct json *status)
{
    bool holds = phase_holds(job->w.phase);
    struct json *names;

    if (job->w.claim.len && job->stop.kind != STOP_PREEMPT)
        push_slots(queue, job->w.claim, arena, json_set_array(arena, status, "reserved"));
    else
        json_remove(status, "reserved");
    if (!holds) {
        json_remove(status, "cards");
        json_remove(status, "gpus");
        return;
    }
    push_slots(queue, job->w.placement, arena, json_set_array(arena, status, "cards"));
    names = json_set_array(arena, status, "gpus");
    for (uint32_t i = 0; i < job->w.placement.len; i++) {
        const struct slot *slot = &job->w.placement.v[i];

        if (slot->card != SLOT_CPU)
            json_push_string(arena, names,
                             arena_printf(arena, "%s/%u", queue->nodes.v[slot->node].name, slot->card));
    }
}

static void write_times(const struct life_job *job, struct arena *arena, struct json *status)
{
    set_time(arena, status, "startTime", job->first_start_ms / 1000 * 1000);
    set_time(arena, status, "runPlaced", phase_holds(job->w.phase) ? job->placed_ms : 0);
    set_time(arena, status, "runStarted", phase_holds(job->w.phase) ? job->w.started_ms : 0);
    set_time(arena, status, "phaseSince", job->since_ms);
    set_time(arena, status, "epochEnded", job->epoch_at_ms);
    set_time(arena, status, "completionTime", job->finished_ms / 1000 * 1000);
    set_time(arena, status, "notBefore", job->w.not_before_ms);
    json_set_real(arena, status, "lostSeconds", (double)job->lost_ms / 1000);
    json_set_real(arena, status, "waitedSeconds", (double)job->waited_ms / 1000);
    json_set_real(arena, status, "ranSeconds", (double)job->ran_ms / 1000);
    json_set_real(arena, status, "gpuSeconds", (double)job->w.attained_gpu_ms / 1000);
}

struct writing {
    struct queue *queue;
    struct unit *unit;
    int64_t now;
};

static void write_words(const struct writing *w, struct arena *arena, struct json *status)
{
    const struct life_job *job = w->unit->life;
    CLEANUP(buf_done) struct buf why = {0};
    struct life_when when;

    life_when(w->queue->life, job, w->now, &when);
    w->unit->said_eta = phase_holds(job->w.phase) ? when.end_ms : 0;
    set_time(arena, status, "eta", w->unit->said_eta);
    if (!phase_is_waiting(job->w.phase)) {
        json_remove(status, "position");
        json_remove(status, "startEstimate");
        life_why(w->queue->life, job, w->now, &why);
        json_set_string(arena, status, "reason", why.data ? why.data : "");
    } else if (job->blocked || !json_get(status, "reason") || !w->unit->said) {
        json_set_string(arena, status, "reason",
                        job->blocked  ? arena_printf(arena, "cannot start: %s", job->blocked)
                        : job->reason ? job->reason
                                      : "");
    }
    if (job->trouble)
        json_set_string(arena, status, "trouble", job->trouble);
    else
        json_remove(status, "trouble");
}

/* What estimates go by after a restart; secondsPerEpoch is what people read of it. */
static void write_epochs(const struct epoch_log *epochs, struct arena *arena, struct json *status)
{
    struct json *list, *shown;

    if (epochs->len == 0)
        return;
    list = json_new_array(arena);
    shown = json_new_object(arena);
    for (uint32_t i = 0; i < epochs->len; i++) {
        const struct epoch_row *row = &epochs->rows[i];
        struct json *out = json_push_object(arena, list);

        json_set_int(arena, out, "gpus", row->gpus);
        if (row->shared)
            json_set_bool(arena, out, "shared", true);
        json_set_int(arena, out, "epochs", row->count);
        json_set_real(arena, out, "seconds", row->mean_s);
        json_set_real(arena, out, "weight", row->weight);
        json_set_real(arena, out, "variance", row->sigma2);
        if (!row->shared || !json_get(shown, arena_printf(arena, "%u", row->gpus)))
            json_set_real(arena, shown, arena_printf(arena, "%u", row->gpus), row->mean_s);
    }
    json_set(arena, status, "epochTimes", *list);
    json_set(arena, status, "secondsPerEpoch", *shown);
}

static void write_progress(const struct writing *w, struct arena *arena, struct json *status)
{
    const struct life_job *job = w->unit->life;
    const struct object *pod = w->unit->pod ? store_by_uid(w->queue->store, w->unit->pod) : NULL;

    json_set_int(arena, status, "epochsDone", job->w.epochs_done);
    json_set_int(arena, status, "restarts", job->w.restarts);
    json_set_int(arena, status, "probes", job->w.probes);
    json_set_int(arena, status, "run", job->run);
    json_set_int(arena, status, "runFirstEpoch", job->run_first_epoch);
    set_count(arena, status, "stepsDone", (int64_t)job->steps_done, job->steps_done > 0);
    set_count(arena, status, "runFirstStep", (int64_t)job->run_first_step, job->run_first_step > 0);
    set_count(arena, status, "refusals", job->refusals, job->refusals > 0);
    set_count(arena, status, "peakMemoryMiB", job->peak_mib, job->peak_mib > 0);
    set_count(arena, status, "noStopEpoch", job->no_stop_epoch, job->no_stop_epoch >= 0);
    if (pod)
        json_set_string(arena, status, "podName", pod->name);
    if (job->last_epoch_s > 0)
        json_set_real(arena, status, "lastEpochSeconds", job->last_epoch_s);
    write_epochs(&job->epochs, arena, status);
}

static bool edit_status(void *arg, struct arena *arena, struct json *doc)
{
    const struct writing *w = arg;
    const struct life_job *job = w->unit->life;
    struct json *status = json_need_object(arena, doc, "status");

    json_set_string(arena, status, "phase", phase_name(job->w.phase));
    write_words(w, arena, status);
    write_progress(w, arena, status);
    write_times(job, arena, status);
    write_stop(arena, status, &job->stop);
    write_cards(w->queue, job, arena, status);
    return true;
}

/* Until then its end is as it says, where it hears of nothing. */
void job_status_due(struct queue *queue, const struct unit *unit, int64_t now)
{
    const struct life_job *job = unit->life;
    int64_t since = job->w.started_ms ? job->w.started_ms : job->placed_ms;
    int64_t due;

    if (!phase_holds(job->w.phase) || !job->forecast.points)
        return;
    due =
        forecast_epoch_end(&job->forecast, workload_gpus(&job->w), life_shared(queue->life, job), since, now)
            .at_ms;
    if (due == INT64_MAX)
        return;
    due = due > now + LATE_AGAIN_MS ? due + 1 : now + LATE_AGAIN_MS;
    if (!queue->ends_at || due < queue->ends_at)
        queue->ends_at = due;
}

int job_status_write(struct queue *queue, struct unit *unit)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    struct writing writing = {queue, unit, queue_now(queue)};

    unit->write = false;
    if (!object || unit->kind != KIND_TRAINING_JOB || !unit->life)
        return 0;
    job_status_due(queue, unit, writing.now);
    return edit_object(queue, object, edit_status, &writing, NULL);
}

void job_status_save(struct queue *queue, struct unit *unit)
{
    job_status_write(queue, unit);
    queue_settle(queue);
}

void job_status_flush(struct queue *queue)
{
    for (size_t i = 0; i < queue->to_write.len; i++) {
        struct unit *unit = unit_by_id(queue, queue->to_write.v[i]);

        if (unit && unit->write)
            job_status_write(queue, unit);
    }
    queue->to_write.len = 0;
}
