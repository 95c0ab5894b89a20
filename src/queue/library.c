/* What training scripts say and ask, through the library. */
#include "control/util.h"
#include "queue/internal.h"

#define EPOCHS_JUMP_MAX 1000000000
#define NAME_MAX_BYTES  64

static struct unit *running(struct queue *queue, const char *job, struct err *err)
{
    struct unit *unit = unit_find(queue, job);

    if (unit && unit->kind == KIND_TRAINING_JOB)
        return unit;
    err_set(err, ERR_NOT_FOUND, "no training job '%s' is in the queue", job);
    return NULL;
}

/* All processes of a run must hear the same about one epoch, or some would wait for the others for ever. The
 * first answer for an epoch stands: `no` up to no_stop_epoch, `yes` from stop.epoch on. With one process
 * there is nobody to disagree, and `no` need not outlive the daemon. */
int queue_has_to_stop(struct queue *queue, const char *job, int64_t epoch, bool *ret, struct err *err)
{
    struct unit *unit = running(queue, job, err);
    bool asked;

    if (!unit)
        return -1;
    unit->polled = true;
    if (epoch < 0)
        epoch = unit->w.epochs_done;
    asked =
        unit->stop.kind == STOP_PREEMPT || unit->stop.kind == STOP_RESIZE || unit->stop.kind == STOP_CANCEL;
    if (!asked || epoch <= unit->no_stop_epoch ||
        (unit->w.epochs_total && epoch + 1 >= unit->w.epochs_total && unit->stop.kind != STOP_CANCEL)) {
        *ret = false;
        if (epoch > unit->no_stop_epoch) {
            unit->no_stop_epoch = epoch;
            if (unit->w.placement.len > 1)
                life_write(queue, unit);
        }
        return 0;
    }
    if (unit->stop.epoch < 0) {
        unit->stop.epoch = epoch;
        unit->stop.heard_ms = now_ms();
        life_write(queue, unit);
    }
    *ret = epoch >= unit->stop.epoch;
    return 0;
}

static void record_epoch(struct queue *queue, const struct unit *unit, int64_t now, double seconds)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = json_new_object(&arena);
    struct record record = {
        .type = RECORD_EPOCH, .time_ms = now, .job = unit->uid, .user = unit->w.user, .tag = ""};

    json_set_int(&arena, doc, "epoch", unit->w.epochs_done);
    json_set_real(&arena, doc, "seconds", seconds);
    json_set_int(&arena, doc, "gpus", unit->w.placement.len);
    json_set_int(&arena, doc, "run", unit->run);
    json_write(&text, doc);
    record.doc = buf_view(&text);
    life_put(queue, &record);
}

/* From the second epoch of a run on, the measured peak counts instead of what the user said. */
static void take_peak(struct queue *queue, struct unit *unit)
{
    uint32_t mib = demand_measured_mib(unit->peak_mib, cluster_largest_card(&queue->cluster));
    struct slot *slots = (struct slot *)unit->w.placement.v;

    if (!unit->asked_mib || unit->peak_mib <= 0)
        return;
    unit->w.demand.mib = mib;
    if (unit->w.demand.exclusive)
        return;
    for (uint32_t i = 0; i < unit->w.placement.len; i++)
        if (slots[i].card != SLOT_CPU && mib < slots[i].mib)
            slots[i].mib = mib;
}

int queue_epoch_done(struct queue *queue, const char *job, uint32_t done, double seconds, struct err *err)
{
    struct unit *unit = running(queue, job, err);
    int64_t now = now_ms(), since;

    if (!unit)
        return -1;
    if (done > EPOCHS_JUMP_MAX)
        return err_set(err, ERR_INVALID, "done: %u epochs are more than there can be", done);
    if (unit->w.epochs_total && done > unit->w.epochs_total)
        done = unit->w.epochs_total;
    if (done <= unit->w.epochs_done || !phase_holds(unit->w.phase))
        return 0; /* another process has said so, or it is late */
    since = unit->epoch_at_ms ? unit->epoch_at_ms : unit->w.started_ms;
    if (seconds <= 0)
        seconds = unit->last_epoch_s > 0 && unit->epoch_at_ms == 0
                      ? unit->last_epoch_s
                      : (double)(now - since) / 1000 / (done - unit->w.epochs_done);
    unit->last_epoch_s = seconds;
    unit->w.epochs_done = done;
    unit->w.saved_ms = unit->epoch_at_ms = now;
    take_peak(queue, unit);
    record_epoch(queue, unit, now, seconds);
    if (!unit->epochs_profiled) {
        struct sample sample = {
            .gpus = unit->w.placement.len, .shared = unit_shared(queue, unit), .epoch_s = seconds};

        samples_add(queue, unit, &sample);
    }
    unit_forecast(queue, unit);
    life_write(queue, unit);
    unit_tell(queue, unit);
    return 0;
}

int queue_profile(struct queue *queue, const char *job, const struct queue_profile *profile, struct err *err)
{
    struct unit *unit = running(queue, job, err);
    struct sample sample = {.iteration_s = profile->iteration_s, .epoch_s = profile->epoch_s};

    if (!unit)
        return -1;
    if (!phase_holds(unit->w.phase))
        return 0;
    if (!(profile->iteration_s >= 0) || profile->iteration_s > 1e6 || !(profile->epoch_s >= 0) ||
        profile->epoch_s > 1e8)
        return err_set(err, ERR_INVALID, "a time that cannot be");
    if (profile->epoch_s > 0) {
        unit->last_epoch_s = profile->epoch_s;
        unit->epochs_profiled = true;
    }
    if (profile->rank != 0 || profile->iterations <= unit->samples_iterations)
        return 0;
    sample.iterations = (uint32_t)(profile->iterations - unit->samples_iterations);
    unit->samples_iterations = profile->iterations;
    sample.gpus = profile->gpus ? profile->gpus : unit->w.placement.len;
    sample.shared = unit_shared(queue, unit);
    samples_add(queue, unit, &sample);
    unit_forecast(queue, unit);
    queue->revision++;
    notify_unit(queue, unit);
    return 0;
}

int queue_signal_end(struct queue *queue, const char *job, struct err *err)
{
    struct unit *unit = running(queue, job, err);

    if (!unit)
        return -1;
    log_debug("%s/%s says that it is done", unit->ns, unit->name);
    return 0;
}

/* ---- metrics ---- */

static bool good_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= NAME_MAX_BYTES;
}

static int put_values(struct queue *queue, const struct unit *unit, const struct json *record,
                      struct err *err)
{
    int64_t time = time_of(json_get(record, "time"), clock_now()) / NSEC_PER_MSEC;
    const struct json *values = json_get(record, "values"), *step = json_get(record, "step");

    if (!json_is(values, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "values: must be an object");
    if (json_len(values) > QUEUE_METRICS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d metrics", QUEUE_METRICS_MAX);
    JSON_EACH_MEMBER(values, it) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf text = {0};
        struct json *doc = json_new_object(&arena);
        struct record out = {
            .type = RECORD_METRIC, .time_ms = time, .job = unit->uid, .user = unit->w.user, .tag = it->key};

        if (!good_name(it->key))
            return err_set(err, ERR_INVALID, "a metric's name has 1 to %d bytes", NAME_MAX_BYTES);
        if (it->value.type != JSON_INT && it->value.type != JSON_REAL)
            continue;
        json_set(&arena, doc, "step", step ? *step : (struct json){.type = JSON_NULL});
        json_set(&arena, doc, "value", it->value);
        json_write(&text, doc);
        out.doc = buf_view(&text);
        store_record(queue->store, &out);
    }
    return 0;
}

int queue_log_metrics(struct queue *queue, const char *job, uint32_t rank, const struct json *records,
                      struct err *err)
{
    struct unit *unit = running(queue, job, err);

    if (!unit)
        return -1;
    if (!json_is(records, JSON_ARRAY))
        return err_set(err, ERR_INVALID, "records: must be a list");
    if (records->len > QUEUE_RECORDS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d records at once", QUEUE_RECORDS_MAX);
    if (rank != 0)
        return 0; /* all ranks log the same */
    JSON_EACH(records, it)
        if (put_values(queue, unit, it, err) < 0)
            return -1;
    notify_unit(queue, unit);
    return 0;
}
