#include "queue/job_row.h"

#include "control/util.h"
#include "objects/object_doc.h"

enum phase job_row_phase(struct queue *queue, const struct object *job)
{
    const struct json *status = json_get(object_doc(job), "status");
    bool running = false, starting = false, stopping = false;

    if (condition_is(status, "Complete", "True"))
        return PHASE_SUCCEEDED;
    if (condition_is(status, "Failed", "True"))
        return PHASE_FAILED;
    for (const struct unit *it = unit_of_job(queue, job->uid); it; it = it->next_of_job) {
        running = running || unit_w(it)->phase == PHASE_RUNNING;
        starting = starting || unit_w(it)->phase == PHASE_STARTING;
        stopping = stopping || unit_w(it)->phase == PHASE_STOPPING;
    }
    return running ? PHASE_RUNNING : starting ? PHASE_STARTING : stopping ? PHASE_STOPPING : PHASE_PENDING;
}

static bool is_over(const struct object *job)
{
    const struct json *status = json_get(object_doc(job), "status");

    return condition_is(status, "Complete", "True") || condition_is(status, "Failed", "True");
}

/* ---- how long its pods had cards ---- */

/* Kept in memory while the Job is not over: its end is recorded in the turn that brings it, which does not
 * wait for the disk. */
struct job_sum {
    int64_t first_ms; /* 0: never */
    int64_t gpu_ms;   /* of spans that are closed */
};

static struct job_sum *sum_of(struct queue *queue, const char *job)
{
    struct job_sum *sum = map_get(queue->job_sums, str_from(job));

    if (!sum) {
        sum = NEW(struct job_sum);
        map_set(queue->job_sums, str_from(job), sum);
    }
    return sum;
}

void job_row_span(struct queue *queue, const char *job, int64_t start_ms, int64_t end_ms)
{
    struct job_sum *sum;

    if (!map_get(queue->jobs, str_from(job)))
        return;
    sum = sum_of(queue, job);
    if (!sum->first_ms || start_ms < sum->first_ms)
        sum->first_ms = start_ms;
    if (end_ms)
        sum->gpu_ms += end_ms - start_ms;
}

static bool load_span(void *arg, const struct record *record)
{
    job_row_span(arg, record->job, record->time_ms, record->until_ms);
    return true;
}

static void load_sum(struct queue *queue, const struct object *job)
{
    struct record_query query = {.type = RECORD_SPAN, .job = job->uid};
    struct err err = {0};

    if (store_records(queue->store, &query, load_span, queue, &err) < 0)
        log_warn("%s", err.msg);
}

/* With what its pods have now. */
static struct job_sum sum_until(struct queue *queue, const char *job, int64_t now)
{
    const struct job_sum *kept = map_get(queue->job_sums, str_from(job));
    struct job_sum sum = kept ? *kept : (struct job_sum){0};

    for (const struct unit *it = unit_of_job(queue, job); it; it = it->next_of_job)
        VEC_EACH(&it->span_starts, start)
            sum.gpu_ms += now - *start;
    return sum;
}

static void set_facts(struct arena *arena, struct json *out, const struct json *doc)
{
    json_set_string(arena, out, "image",
                    json_string_or(json_at(doc, "spec.template.spec.containers.0.image"), ""));
    json_set_ms(arena, out, "submitted",
                time_of(json_at(doc, "metadata.creationTimestamp"), 0) / NSEC_PER_MSEC);
    json_set_ms(arena, out, "started", time_of(json_at(doc, "status.startTime"), 0) / NSEC_PER_MSEC);
}

/* One record when it ends, or is deleted before. */
static void record_end(struct queue *queue, const struct object *job, enum phase phase, int64_t now)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    const struct json *doc = object_json(job, &arena);
    struct json *out = row_json(queue, NULL, job->uid, &arena);
    int64_t made = time_of(json_at(doc, "metadata.creationTimestamp"), 0) / NSEC_PER_MSEC;
    struct record record = {.type = RECORD_JOB, .time_ms = now, .job = job->uid, .tag = phase_name(phase)};
    struct job_sum sum = sum_until(queue, job->uid, queue_now(queue));

    if (!out)
        return;
    if (!json_get_string(out, "user"))
        json_set_string(&arena, out, "user", work_user(doc));
    record.user = json_get_string(out, "user");
    set_facts(&arena, out, doc);
    json_set_string(&arena, out, "state", phase_name(phase));
    json_set_ms(&arena, out, "finished", now);
    json_set_real(&arena, out, "waitedSeconds",
                  sum.first_ms > made ? (double)(sum.first_ms - made) / 1000 : 0);
    json_set_real(&arena, out, "ranSeconds", (double)(now - (sum.first_ms ? sum.first_ms : made)) / 1000);
    json_set_real(&arena, out, "gpuHours", (double)sum.gpu_ms / 3600000);
    json_write(&text, out);
    record.doc = buf_view(&text);
    store_record(queue->store, &record);
    told_job(queue, job, phase, record.user, json_get_string(out, "reason"));
    records_ending_set(queue, job->uid, out);
    queue_soon(queue); /* forgets that when it is on the disk */
}

/* When a Job that is over ended; 0: it does not say. */
static int64_t ended_at(const struct json *doc)
{
    const struct json *time = json_at(doc, "status.completionTime");

    JSON_EACH(json_at(doc, "status.conditions"), it)
        if (!time && streq(json_get_string(it, "type"), "Failed"))
            time = json_get(it, "lastTransitionTime");
    return time_of(time, 0) / NSEC_PER_MSEC;
}

static void keep_job(struct queue *queue, struct object *job)
{
    object_unref(map_set(queue->jobs, str_from(job->uid), job));
}

void job_row_load(struct queue *queue)
{
    queue->job_sums = map_new();
    OBJECTS_EACH(store_list(queue->store, KIND_JOB, NULL), it) {
        keep_job(queue, object_ref(*it));
        if (!is_over(*it))
            load_sum(queue, *it);
    }
}

static bool is_there(void *arg, const struct record *record)
{
    (void)record;
    *(bool *)arg = true;
    return false;
}

bool row_recorded(struct queue *queue, const char *uid)
{
    struct record_query query = {.type = RECORD_JOB, .job = uid, .limit = 1};
    bool there = false;

    return store_records(queue->store, &query, is_there, &there, NULL) < 0 || there;
}

void job_row_catch_up(struct queue *queue)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(queue->jobs, &at, &key, &value)) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct object *job = value;
        int64_t ended;

        if (!is_over(job) || row_recorded(queue, job->uid))
            continue;
        load_sum(queue, job);
        ended = ended_at(object_json(job, &arena));
        record_end(queue, job, job_row_phase(queue, job), ended ? ended : queue_now(queue));
    }
}

void job_row_free(struct queue *queue)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(queue->jobs, &at, &key, &value))
        object_unref(value);
    map_free(queue->jobs);
    at = 0;
    while (map_next(queue->job_sums, &at, &key, &value))
        free(value);
    map_free(queue->job_sums);
}

/* Its end is recorded in the commit that takes it away. */
void job_row_dropped(struct queue *queue, const struct object *job)
{
    const struct object *known = map_get(queue->jobs, str_from(job->uid));

    if (!is_over(job))
        record_end(queue, job, PHASE_CANCELLED, queue_now(queue));
    else if (!known || !is_over(known)) /* it ended in this turn */
        record_end(queue, job, job_row_phase(queue, job), queue_now(queue));
    object_unref(map_remove(queue->jobs, str_from(job->uid)));
    free(map_remove(queue->job_sums, str_from(job->uid)));
    blocked_job_forget(queue, job->uid);
}

void job_row_changed(struct queue *queue, const struct store_event *event)
{
    const struct object *job = event->object;

    queue->revision++;
    notify_row(queue, job->uid);
    if (event->op != STORE_DELETED && store_by_uid(queue->store, job->uid)) {
        keep_job(queue, object_ref(job));
        if (event->op == STORE_MODIFIED && is_over(job) && !is_over(event->before))
            record_end(queue, job, job_row_phase(queue, job), queue_now(queue));
    }
    for (const struct unit *it = unit_of_job(queue, job->uid); it;
         it = it->next_of_job) /* its labels count */
        queue_dirty(queue, it->uid);
}
