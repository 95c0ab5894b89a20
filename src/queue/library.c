/* What training scripts say and ask, through the library. */
#include "control/util.h"
#include "queue/internal.h"

#define EPOCHS_JUMP_MAX 1000000000
#define NAME_MAX_BYTES  64

static struct unit *running(struct queue *queue, const char *job, struct err *err)
{
    struct unit *unit = unit_find(queue, job);

    if (unit && unit->kind == KIND_TRAINING_JOB && unit->life)
        return unit;
    err_set(err, ERR_NOT_FOUND, "no training job '%s' is in the queue", job);
    return NULL;
}

int queue_has_to_stop(struct queue *queue, const char *job, int64_t epoch, bool *ret, struct err *err)
{
    struct unit *unit = running(queue, job, err);
    bool write = false;

    if (!unit || life_has_to_stop(queue->life, unit->id, epoch, queue_now(queue), ret, &write, err) < 0)
        return -1;
    if (write)
        job_status_write(queue, unit);
    return 0;
}

int queue_epoch_done(struct queue *queue, const char *job, uint32_t done, double seconds, struct err *err)
{
    struct unit *unit = running(queue, job, err);
    struct life_event event = {.type = LIFE_EPOCH, .epochs = done, .seconds = seconds};

    if (!unit)
        return -1;
    if (done > EPOCHS_JUMP_MAX)
        return err_set(err, ERR_INVALID, "done: %u epochs are more than there can be", done);
    event.id = unit->id;
    event.shared = life_shared(queue->life, unit->life);
    if (queue_step(queue, &event, err) < 0)
        return -1;
    unit = unit_find(queue, job);
    if (unit && unit->write) /* with the record: a kill between them would let it be counted twice */
        job_status_write(queue, unit);
    return 0;
}

int queue_profile(struct queue *queue, const char *job, const struct queue_profile *profile, struct err *err)
{
    struct unit *unit = running(queue, job, err);
    struct sample sample = {.gpus = profile->gpus,
                            .iterations = profile->rank == 0 && profile->iterations <= UINT32_MAX
                                              ? (uint32_t)profile->iterations
                                              : 0,
                            .iteration_s = profile->iteration_s,
                            .epoch_s = profile->epoch_s};
    struct life_event event = {.type = LIFE_PROFILE, .sample = &sample};

    if (!unit)
        return -1;
    event.id = unit->id;
    event.shared = life_shared(queue->life, unit->life);
    if (queue_step(queue, &event, err) < 0)
        return -1;
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
    int64_t time = time_of(json_get(record, "time"), queue_now(queue) * NSEC_PER_MSEC) / NSEC_PER_MSEC;
    const struct json *values = json_get(record, "values"), *step = json_get(record, "step");

    if (!json_is(values, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "values: must be an object");
    if (json_len(values) > QUEUE_METRICS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d metrics", QUEUE_METRICS_MAX);
    JSON_EACH_MEMBER(values, it) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf text = {0};
        struct json *doc = json_new_object(&arena);
        struct record out = {.type = RECORD_METRIC,
                             .time_ms = time,
                             .job = unit->uid,
                             .user = unit_w(unit)->user,
                             .tag = it->key};

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
