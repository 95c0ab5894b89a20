/* What becomes of a unit: its status, its records, the end of a run. */
#include "control/training.h"
#include "control/util.h"
#include "queue/internal.h"

/* ---- writing ---- */

int edit_object(struct queue *queue, const struct object *object, registry_edit edit, void *arg,
                struct failure *failure)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure none = {0};
    struct write write = {
        .arena = &arena, .failure = failure ? failure : &none, .manager = "berth", .keep_generation = true};
    struct written written;
    int result = registry_edit_object(queue->registry, &write, object, edit, arg, &written);

    if (result < 0)
        log_warn("%s '%s/%s': %s", object->kind->singular, object->ns, object->name, write.failure->message);
    if (result < 0 && failure) /* the message is in an arena that goes */
        failure->message = NULL;
    return result;
}

void tell_owner(struct queue *queue, const struct unit *unit, const char *type, const char *reason,
                const char *fmt, ...)
{
    const struct object *about = row_object(queue, unit_row(unit));
    CLEANUP(buf_done) struct buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    log_info("%s/%s: %s", unit->ns, unit->w.name ? unit->w.name : unit->name, text.data);
    told_event(queue, unit, reason, text.data);
    if (about)
        registry_event(queue->registry, about, type, reason, "%s", text.data);
}

void life_phase(struct unit *unit, enum phase phase, int64_t now)
{
    int64_t span = now > unit->since_ms ? now - unit->since_ms : 0;

    if (unit->w.phase == phase)
        return;
    if (phase_holds(unit->w.phase))
        unit->ran_ms += span;
    else if (phase_is_waiting(unit->w.phase))
        unit->waited_ms += span;
    unit->since_ms = now;
    unit->w.phase = phase;
}

static void set_time(struct arena *arena, struct json *object, const char *key, int64_t ms)
{
    char text[CLOCK_TEXT_MAX];

    if (ms)
        json_set_string(arena, object, key, clock_format_micro(ms * NSEC_PER_MSEC, text));
    else
        json_remove(object, key);
}

static void write_stop(struct arena *arena, struct json *status, const struct stop *stop)
{
    struct json *out;

    if (stop->kind == STOP_NONE) {
        json_remove(status, "stop");
        return;
    }
    out = json_set_object(arena, status, "stop");
    json_set_string(arena, out, "kind", stop_names[stop->kind]);
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

static void write_cards(struct queue *queue, const struct unit *unit, struct arena *arena,
                        struct json *status)
{
    struct json *names, *cards;

    if (unit->w.placement.len == 0) {
        json_remove(status, "cards");
        json_remove(status, "gpus");
        return;
    }
    cards = json_set_array(arena, status, "cards");
    row_cards(queue, unit, arena, cards);
    if (cards->len == 0) /* only CPU: the node alone */
        json_set_string(arena, json_push_object(arena, cards), "node",
                        queue->nodes.v[unit->w.placement.v[0].node].name);
    names = json_set_array(arena, status, "gpus");
    for (uint32_t i = 0; i < unit->w.placement.len; i++) {
        const struct slot *slot = &unit->w.placement.v[i];

        if (slot->card != SLOT_CPU)
            json_push_string(arena, names,
                             arena_printf(arena, "%s/%u", queue->nodes.v[slot->node].name, slot->card));
    }
}

struct writing {
    struct queue *queue;
    struct unit *unit;
};

static void write_times(struct unit *unit, struct arena *arena, struct json *status)
{
    set_time(arena, status, "startTime", unit->first_start_ms / 1000 * 1000);
    set_time(arena, status, "runStarted", unit->w.started_ms);
    set_time(arena, status, "phaseSince", unit->since_ms);
    set_time(arena, status, "epochEnded", unit->epoch_at_ms);
    set_time(arena, status, "completionTime", unit->finished_ms / 1000 * 1000);
    set_time(arena, status, "notBefore", unit->w.not_before_ms);
    json_set_real(arena, status, "lostSeconds", (double)unit->lost_ms / 1000);
    json_set_real(arena, status, "waitedSeconds", (double)unit->waited_ms / 1000);
    json_set_real(arena, status, "ranSeconds", (double)unit->ran_ms / 1000);
    json_set_real(arena, status, "gpuSeconds", (double)unit->w.attained_gpu_ms / 1000);
}

static void write_eta(struct queue *queue, struct unit *unit, struct arena *arena, struct json *status)
{
    int64_t now = now_ms();

    if (phase_holds(unit->w.phase) && unit->forecast.points) {
        double left = forecast_seconds(&unit->forecast, workload_gpus(&unit->w), unit_shared(queue, unit));

        set_time(arena, status, "eta", now + (int64_t)(left * 1000));
    } else {
        json_remove(status, "eta");
    }
}

static void write_epoch_times(const struct unit *unit, struct arena *arena, struct json *status)
{
    if (unit->last_epoch_s > 0 && unit->w.placement.len)
        json_set_real(arena, json_need_object(arena, status, "secondsPerEpoch"),
                      arena_printf(arena, "%u", workload_gpus(&unit->w)), unit->last_epoch_s);
}

static bool edit_status(void *arg, struct arena *arena, struct json *doc)
{
    const struct writing *w = arg;
    struct unit *unit = w->unit;
    struct json *status = json_need_object(arena, doc, "status");

    json_set_string(arena, status, "phase", phase_name(unit->w.phase));
    json_set_string(arena, status, "reason", unit->reason ? unit->reason : "");
    json_set_int(arena, status, "epochsDone", unit->w.epochs_done);
    json_set_int(arena, status, "restarts", unit->w.restarts);
    json_set_int(arena, status, "probes", unit->w.probes);
    json_set_int(arena, status, "run", unit->run);
    json_set_int(arena, status, "runFirstEpoch", unit->run_first_epoch);
    if (unit->peak_mib)
        json_set_int(arena, status, "peakMemoryMiB", unit->peak_mib);
    if (unit->pod && store_by_uid(w->queue->store, unit->pod))
        json_set_string(arena, status, "podName", store_by_uid(w->queue->store, unit->pod)->name);
    if (unit->no_stop_epoch >= 0)
        json_set_int(arena, status, "noStopEpoch", unit->no_stop_epoch);
    else
        json_remove(status, "noStopEpoch");
    if (!phase_is_waiting(unit->w.phase))
        json_remove(status, "position");
    write_times(unit, arena, status);
    write_stop(arena, status, &unit->stop);
    write_cards(w->queue, unit, arena, status);
    write_eta(w->queue, unit, arena, status);
    write_epoch_times(unit, arena, status);
    return true;
}

int life_write(struct queue *queue, struct unit *unit)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    struct writing writing = {queue, unit};

    if (!object || unit->kind != KIND_TRAINING_JOB)
        return 0;
    return edit_object(queue, object, edit_status, &writing, NULL);
}

/* ---- records ---- */

static void put_record(struct queue *queue, struct record *record, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, doc);
    record->doc = buf_view(&text);
    record->seq = life_put(queue, record);
}

static void unsaved_forget(struct queue *queue, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(queue->unsaved.v[i].job);
        free(queue->unsaved.v[i].doc);
    }
    queue->unsaved.len -= count;
    if (queue->unsaved.len)
        memmove(queue->unsaved.v, queue->unsaved.v + count, sizeof(*queue->unsaved.v) * queue->unsaved.len);
}

int64_t life_put(struct queue *queue, const struct record *record)
{
    int64_t seq = store_record(queue->store, record);

    if (record->type != RECORD_TRANSITION && record->type != RECORD_EPOCH)
        return seq;
    if (queue->unsaved.len >= UNSAVED_MAX) /* the older ones have long been written */
        unsaved_forget(queue, UNSAVED_MAX / 2);
    vec_push(&queue->unsaved, (struct unsaved){record->type, seq, record->time_ms, mem_strdup(record->job),
                                               mem_strndup(record->doc.s, record->doc.len)});
    return seq;
}

void life_record(struct queue *queue, struct unit *unit, enum phase phase, const char *reason,
                 const struct stop *stop, int64_t lost_ms)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);
    struct record record = {.type = RECORD_TRANSITION,
                            .time_ms = now_ms(),
                            .job = unit_row(unit),
                            .user = unit->w.user,
                            .tag = phase_name(phase)};

    json_set_string(&arena, doc, "state", phase_name(phase));
    json_set_string(&arena, doc, "reason", reason ? reason : "");
    json_set_string(&arena, doc, "by", stop ? stop->by : NULL);
    json_set_string(&arena, doc, "byName", stop ? stop->by_name : NULL);
    json_set_real(&arena, doc, "lostSeconds", (double)lost_ms / 1000);
    json_set_int(&arena, doc, "gpus", workload_gpus(&unit->w));
    json_set_int(&arena, doc, "run", unit->run);
    json_set_int(&arena, doc, "epochsDone", unit->w.epochs_done);
    json_set_string(&arena, doc, "name", unit->name);
    row_cards(queue, unit, &arena, json_set_array(&arena, doc, "cards"));
    put_record(queue, &record, doc);
    told_transition(queue, unit, phase, reason, stop);
}

/* Which part of a card a slot is. */
static double share_of(const struct queue *queue, const struct slot *slot)
{
    const struct node *node = &queue->cluster.nodes[slot->node];

    if (slot->card < node->gpu_count && node->gpus[slot->card].mem_mib > slot->mib)
        return (double)slot->mib / node->gpus[slot->card].mem_mib;
    return 1;
}

static void put_span(struct queue *queue, struct unit *unit, uint32_t slot, int64_t seq, int64_t start,
                     int64_t end)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);
    const struct slot *at = &unit->w.placement.v[slot];
    struct record record = {.seq = seq,
                            .type = RECORD_SPAN,
                            .time_ms = start,
                            .until_ms = end,
                            .job = unit_row(unit),
                            .user = unit->w.user,
                            .tag = queue->nodes.v[at->node].name};

    json_set_int(&arena, doc, "index", at->card);
    json_set_int(&arena, doc, "mib", at->mib);
    json_set_real(&arena, doc, "share", share_of(queue, at));
    json_set_string(&arena, doc, "name", unit->w.name ? unit->w.name : unit->name);
    json_set_string(&arena, doc, "unit", unit->uid);
    json_set_int(&arena, doc, "run", unit->run);
    put_record(queue, &record, doc);
    if (!seq) {
        vec_push(&unit->spans, record.seq);
        vec_push(&unit->span_starts, start);
    }
}

void life_spans_open(struct queue *queue, struct unit *unit)
{
    int64_t now = now_ms();

    if (unit->spans.len || queue->loading)
        return;
    for (uint32_t i = 0; i < unit->w.placement.len; i++)
        if (unit->w.placement.v[i].card != SLOT_CPU)
            put_span(queue, unit, i, 0, now, 0);
}

void life_spans_close(struct queue *queue, struct unit *unit)
{
    int64_t now = now_ms();
    size_t at = 0;

    for (uint32_t i = 0; i < unit->w.placement.len && at < unit->spans.len; i++) {
        const struct slot *slot = &unit->w.placement.v[i];

        if (slot->card == SLOT_CPU)
            continue;
        put_span(queue, unit, i, unit->spans.v[at], unit->span_starts.v[at], now);
        if (unit->w.user)
            usage_add(queue->usage, unit->w.user, now,
                      share_of(queue, slot) * (double)(now - unit->span_starts.v[at]));
        at++;
    }
    unit->spans.len = unit->span_starts.len = 0;
    if (unit->w.user)
        live_usage(queue->live, unit->w.user);
}

/* Spans that were open when the daemon ended: of units that still hold, or to be closed. */
struct loading {
    struct queue *queue;
    VEC(struct record) lost;
    struct arena arena;
};

static bool load_span(void *arg, const struct record *record)
{
    struct loading *loading = arg;
    struct json *doc = NULL;
    struct unit *unit;

    if (record->until_ms || json_parse(record->doc, &loading->arena, &doc, NULL, NULL) < 0)
        return true;
    unit = unit_find(loading->queue, json_get_string(doc, "unit"));
    if (unit && phase_holds(unit->w.phase) && unit->spans.len < unit->w.placement.len &&
        json_int(json_get(doc, "run"), 0) == unit->run) {
        vec_push(&unit->spans, record->seq);
        vec_push(&unit->span_starts, record->time_ms);
        return true;
    }
    vec_push(&loading->lost, *record);
    loading->lost.v[loading->lost.len - 1].job = arena_strdup(&loading->arena, record->job);
    loading->lost.v[loading->lost.len - 1].user = arena_strdup(&loading->arena, record->user);
    loading->lost.v[loading->lost.len - 1].tag = arena_strdup(&loading->arena, record->tag);
    loading->lost.v[loading->lost.len - 1].doc.s =
        arena_strndup(&loading->arena, record->doc.s, record->doc.len);
    return true;
}

void life_spans_load(struct queue *queue)
{
    struct loading loading = {.queue = queue};
    struct record_query query = {.type = RECORD_SPAN, .from_ms = INT64_MAX};
    struct err err = {0};

    if (store_records(queue->store, &query, load_span, &loading, &err) < 0)
        log_warn("%s", err.msg);
    VEC_EACH(&loading.lost, it) {
        it->until_ms = now_ms();
        store_record(queue->store, it);
    }
    vec_done(&loading.lost);
    arena_done(&loading.arena);
    UNITS_EACH(queue, unit)
        if (phase_holds(unit->w.phase))
            life_spans_open(queue, unit);
}

/* ---- the end ---- */

static void put_ended(struct queue *queue, struct unit *unit, enum phase phase)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = row_json(queue, NULL, unit_row(unit), &arena);
    double gpu_hours = (double)unit->w.attained_gpu_ms / 3600000;
    struct record record = {.type = RECORD_JOB,
                            .time_ms = unit->finished_ms,
                            .job = unit_row(unit),
                            .user = unit->w.user,
                            .tag = phase_name(phase)};

    if (!doc)
        return;
    json_set_string(&arena, doc, "state", phase_name(phase));
    json_set_real(&arena, doc, "waitedSeconds", (double)unit->waited_ms / 1000);
    json_set_real(&arena, doc, "ranSeconds", (double)unit->ran_ms / 1000);
    json_set_real(&arena, doc, "gpuHours", gpu_hours);
    put_record(queue, &record, doc);
    life_ending_set(queue, unit_row(unit), doc);
}

void life_ending_set(struct queue *queue, const char *row, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, doc);
    free(map_set(queue->ending, str_from(row), buf_take(&text)));
}

void life_ending_clear(struct queue *queue)
{
    struct str key;
    void *value;
    size_t at = 0;

    unsaved_forget(queue, queue->unsaved.len);
    if (map_len(queue->ending) == 0)
        return;
    while (map_next(queue->ending, &at, &key, &value))
        free(value);
    map_free(queue->ending);
    queue->ending = map_new();
}

/* Something of a namespace's quota may be free now. */
static void wake_others(struct queue *queue, const struct unit *unit)
{
    UNITS_EACH(queue, it)
        if (it != unit && it->w.not_before_ms && it->kind == KIND_TRAINING_JOB && streq(it->ns, unit->ns) &&
            it->reason && starts_with(it->reason, "cannot start")) {
            it->w.not_before_ms = 0;
            unit_tell(queue, it);
        }
}

/* Jobs end with their last pod: the Job's own end is recorded when its object says so (work.c). */
void life_over(struct queue *queue, struct unit *unit, enum phase phase, const char *reason)
{
    int64_t now = now_ms();
    struct stop stop = unit->stop;

    if (unit->over)
        return;
    unit->over = true;
    unit->finished_ms = now;
    unit->w.attained_gpu_ms = workload_attained(&unit->w, now);
    life_phase(unit, phase, now);
    set_string(&unit->reason, reason);
    life_record(queue, unit, phase, reason, stop.kind ? &stop : NULL, 0);
    if (!unit->job)
        put_ended(queue, unit, phase);
    if (unit->w.placement.len)
        life_spans_close(queue, unit);
    unit->stop.kind = STOP_NONE;
    unit_place(unit, NULL, 0);
    life_write(queue, unit);
    unit->stop = stop;
    wake_others(queue, unit);
}

/* ---- pods of a run ---- */

struct run_pods {
    const struct unit *unit;
    unsigned count, ended, old;
    int status;
    bool lost;
    const char *why;
    struct arena *arena;
    VEC(const struct object *) pods, old_pods;
};

static int exit_of(const struct json *doc, bool *lost, const char **why)
{
    const char *reason = json_at_string(doc, "status.reason");
    int code = 0;

    JSON_EACH(json_at(doc, "status.containerStatuses"), it) {
        const struct json *end = json_at(it, "state.terminated");
        int its = (int)json_int(json_get(end, "exitCode"), 0);

        if (streq(json_get_string(end, "reason"), "ContainerStatusUnknown"))
            *lost = true;
        if (streq(json_get_string(end, "reason"), "OOMKilled"))
            *why = "it used more main memory than it may (OOMKilled)";
        else if (its && json_get_string(end, "message"))
            *why = json_get_string(end, "message");
        code = its ? its : code;
    }
    if (code == 0 && streq(json_at_string(doc, "status.phase"), "Failed")) {
        code = 1;
        *why = json_string_or(json_at(doc, "status.message"), reason ? reason : "its pod failed");
        *lost =
            *lost || streq(reason, "NodeLost") || streq(reason, "Shutdown") || streq(reason, "Terminated");
    }
    *lost = *lost || streq(reason, "NodeReboot");
    return code;
}

static void see_pod(void *arg, const struct object *object)
{
    struct run_pods *run = arg;
    const struct json *doc;
    struct str number;
    uint64_t n;

    if (object->kind->id != KIND_POD)
        return;
    number = object_label(object, RUN_LABEL);
    if (!str_to_uint(number, &n) || n != run->unit->run) {
        vec_push(&run->old_pods, object);
        return;
    }
    doc = object_json(object, run->arena);
    run->count++;
    vec_push(&run->pods, object);
    if (pod_is_over(doc)) {
        int status = exit_of(doc, &run->lost, &run->why);

        run->ended++;
        run->status = status ? status : run->status;
    }
}

static void delete_pods(struct queue *queue, const struct object *const *pods, size_t len, int64_t grace)
{
    for (size_t i = 0; i < len; i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(object_unref) struct object *pod = object_ref(pods[i]);
        struct failure failure = {0};
        struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
        struct delete_options options = {.has_grace = grace >= 0, .grace_sec = grace, .uid = pod->uid};
        struct written written;

        if (!pod->deleting)
            registry_delete(queue->registry, &write, pod->kind, pod->ns, pod->name, &options, &written);
    }
}

static char *exit_text(const struct run_pods *run)
{
    if (run->why)
        return mem_printf("ended with exit code %d: %s", run->status, run->why);
    return mem_printf("ended with exit code %d", run->status);
}

/* Until when it worked: a script that is told to stop before an epoch does not begin it, however long it
 * takes to leave. */
static int64_t worked_until(const struct unit *unit, int64_t now)
{
    const struct stop *stop = &unit->stop;

    return stop->kind && !stop->killed && stop->heard_ms && stop->epoch == unit->w.epochs_done
               ? stop->heard_ms
               : now;
}

/* It waits again. */
static void back_in_queue(struct queue *queue, struct unit *unit, const char *reason, bool by_stop)
{
    struct stop stop = unit->stop;
    int64_t now = now_ms(), lost = workload_lost_gpu_ms(&unit->w, worked_until(unit, now));

    if (unit->w.placement.len)
        lost /= unit->w.placement.len;
    unit->lost_ms += lost;
    unit->w.attained_gpu_ms = workload_attained(&unit->w, now);
    unit->w.probes += by_stop && stop.kind == STOP_RESIZE;
    life_phase(unit, PHASE_PREEMPTED, now);
    set_string(&unit->reason, reason);
    life_record(queue, unit, PHASE_PREEMPTED, reason, stop.kind ? &stop : NULL, lost);
    life_spans_close(queue, unit);
    unit_stop_clear(unit);
    unit_place(unit, NULL, 0);
    unit->epoch_at_ms = unit->w.saved_ms = 0;
    unit->no_stop_epoch = -1;
    unit->polled = unit->over_warned = false;
    unit->over_times = 0;
    unit->now_mib = 0;
    set_string(&unit->pod, NULL);
    life_write(queue, unit);
    unit_tell(queue, unit);
    tell_owner(queue, unit, "Normal", "Preempted", "%s; %u of %u epochs are done, it goes on from there",
               reason, unit->w.epochs_done, unit->w.epochs_total);
}

static void run_ended(struct queue *queue, struct unit *unit, struct run_pods *run)
{
    CLEANUP(free) char *text = NULL;
    enum stop_kind stop = unit->stop.kind;
    bool gone = run->count == 0;
    /* without epochs, who leaves before being told has just ended */
    bool told = unit->stop.killed || unit->stop.epoch >= 0 || unit->w.epochs_total;
    enum change change = lifecycle_exit(told && (stop == STOP_PREEMPT || stop == STOP_RESIZE), run->status,
                                        unit->w.epochs_done, unit->w.epochs_total, false);

    if (stop == STOP_CANCEL) {
        life_over(queue, unit, PHASE_CANCELLED, unit->stop.reason ? unit->stop.reason : "cancelled");
    } else if (stop == STOP_MEMORY) {
        life_over(queue, unit, PHASE_FAILED, unit->stop.reason);
    } else if (change == CHANGE_STOPPED || gone || run->lost) {
        text = mem_strdup(stop        ? unit->stop.reason
                          : run->lost ? "its run was lost (the machine or its container went away)"
                                      : "its pod was deleted");
        back_in_queue(queue, unit, text, stop != STOP_NONE);
        delete_pods(queue, run->pods.v, run->pods.len, -1);
        return;
    } else if (change == CHANGE_SUCCEED) {
        text = mem_printf("finished; %u of %u epochs are done", unit->w.epochs_done, unit->w.epochs_total);
        life_over(queue, unit, PHASE_SUCCEEDED, unit->w.epochs_done ? text : "finished");
    } else {
        text = exit_text(run);
        life_over(queue, unit, PHASE_FAILED, text);
    }
    tell_owner(queue, unit, unit->w.phase == PHASE_FAILED ? "Warning" : "Normal", phase_name(unit->w.phase),
               "%s", unit->reason);
    unit_drop(queue, unit);
}

static bool still_alive(struct queue *queue, const struct unit *unit)
{
    return unit->pod && queue->config.pod_alive && queue->config.pod_alive(queue->config.arg, unit->pod);
}

void life_pod(struct queue *queue, struct unit *unit)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct run_pods run = {.unit = unit, .arena = &arena};

    store_dependents(queue->store, unit->uid, see_pod, &run);
    delete_pods(queue, run.old_pods.v, run.old_pods.len, -1);
    if (unit->gone) { /* its pods go with it; its cards are free when they have gone */
        if (run.count == 0 && !still_alive(queue, unit)) {
            if (!unit->over)
                life_over(queue, unit, PHASE_CANCELLED, "its object was deleted");
            unit_drop(queue, unit);
        }
    } else if (phase_holds(unit->w.phase)) {
        if (run.count == 0 ? !still_alive(queue, unit) : run.ended == run.count) {
            if (run.count)
                set_string(&unit->pod, run.pods.v[0]->uid);
            run_ended(queue, unit, &run);
        } else if (run.count) {
            set_string(&unit->pod, run.pods.v[0]->uid);
            if (run.ended && run.status && unit->stop.kind == STOP_NONE) /* one of a gang has failed */
                delete_pods(queue, run.pods.v, run.pods.len, queue->config.grace_sec);
        }
    }
    vec_done(&run.pods);
    vec_done(&run.old_pods);
}
