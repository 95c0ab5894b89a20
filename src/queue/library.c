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
        job_status_save(queue, unit);
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
        job_status_save(queue, unit);
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
    notify_row(queue, job);
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

/* Names that are new are noted in `fresh`: what is refused takes none of the job's. */
static int check_values(const struct json *values, const struct map *known, struct map *fresh,
                        struct err *err)
{
    JSON_EACH_MEMBER(values, it) {
        struct str name = {it->key, it->key_len};

        if (name.len == 0 || name.len > NAME_MAX_BYTES || strlen(it->key) != name.len)
            return err_set(err, ERR_INVALID, "a metric's name has 1 to %d bytes", NAME_MAX_BYTES);
        if (map_get(known, name) || map_get(fresh, name))
            continue;
        if (map_len(known) + map_len(fresh) >= QUEUE_METRICS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d metrics", QUEUE_METRICS_MAX);
        map_set(fresh, name, fresh);
    }
    return 0;
}

static bool is_number(const struct json *value)
{
    return json_is(value, JSON_INT) || json_is(value, JSON_REAL);
}

static int check_records(struct unit *unit, const struct json *records, struct err *err)
{
    CLEANUP(map_free) struct map *fresh = map_new();
    size_t values = 0, at = 0;
    struct str name;
    void *value;

    if (!unit->metrics)
        unit->metrics = map_new();
    JSON_EACH(records, it) {
        const struct json *step = json_get(it, "step");

        if (!json_is(json_get(it, "values"), JSON_OBJECT))
            return err_set(err, ERR_INVALID, "values: must be an object");
        if (step && !json_is(step, JSON_NULL) && !is_number(step))
            return err_set(err, ERR_INVALID, "step: must be a number");
        values += json_len(json_get(it, "values"));
        if (values > QUEUE_VALUES_MAX)
            return err_set(err, ERR_LIMIT, "more than %d values at once", QUEUE_VALUES_MAX);
        if (check_values(json_get(it, "values"), unit->metrics, fresh, err) < 0)
            return -1;
    }
    while (map_next(fresh, &at, &name, &value))
        map_set(unit->metrics, name, unit->metrics);
    return 0;
}

static void put_values(struct queue *queue, const struct unit *unit, const struct json *record, int64_t now,
                       struct buf *text)
{
    int64_t time = time_of(json_get(record, "time"), now * NSEC_PER_MSEC) / NSEC_PER_MSEC;
    static const struct json none = {.type = JSON_NULL};
    const struct json *step = json_get(record, "step");
    struct record out = {.type = RECORD_METRIC,
                         .time_ms = time < 0     ? 0
                                    : time > now ? now
                                                 : time,
                         .job = unit->uid,
                         .user = unit_w(unit)->user};

    JSON_EACH_MEMBER(json_get(record, "values"), it) {
        if (!is_number(&it->value))
            continue;
        buf_clear(text);
        buf_puts(text, "{\"step\":");
        json_write(text, step ? step : &none);
        buf_puts(text, ",\"value\":");
        json_write(text, &it->value);
        buf_putc(text, '}');
        out.tag = it->key;
        out.doc = buf_view(text);
        store_record(queue->store, &out);
    }
}

int queue_log_metrics(struct queue *queue, const char *job, uint32_t rank, const struct json *records,
                      struct err *err)
{
    struct unit *unit = running(queue, job, err);
    CLEANUP(buf_done) struct buf text = {0};

    if (!unit)
        return -1;
    if (!json_is(records, JSON_ARRAY))
        return err_set(err, ERR_INVALID, "records: must be a list");
    if (records->len > QUEUE_RECORDS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d records at once", QUEUE_RECORDS_MAX);
    if (rank != 0)
        return 0; /* all ranks log the same */
    if (check_records(unit, records, err) < 0)
        return -1;
    JSON_EACH(records, it)
        put_values(queue, unit, it, queue_now(queue), &text);
    notify_unit(queue, unit);
    return 0;
}
