/* Rows as docs/rest.md has them. */
#include "control/util.h"
#include "queue/internal.h"
#include "queue/job_row.h"
#include "registry/access.h"

#define ROW_MEMBERS 48

/* ---- small ---- */

void json_set_real(struct arena *arena, struct json *object, const char *key, double value)
{
    json_set(arena, object, key, json_of_real(value));
}

void json_set_null(struct arena *arena, struct json *object, const char *key)
{
    json_set(arena, object, key, (struct json){.type = JSON_NULL});
}

char *ms_text(int64_t ms, char text[CLOCK_TEXT_MAX])
{
    size_t len;

    clock_format_micro(ms * NSEC_PER_MSEC, text);
    len = strlen(text); /* "….123456Z" */
    if (len > 4) {
        text[len - 4] = 'Z';
        text[len - 3] = '\0';
    }
    return text;
}

void json_set_ms(struct arena *arena, struct json *object, const char *key, int64_t ms)
{
    char text[CLOCK_TEXT_MAX];

    if (ms <= 0 || ms == INT64_MAX)
        json_set_null(arena, object, key);
    else
        json_set_string(arena, object, key, ms_text(ms, text));
}

static void set_count(struct arena *arena, struct json *object, const char *key, int64_t n, bool known)
{
    if (known)
        json_set_int(arena, object, key, n);
    else
        json_set_null(arena, object, key);
}

void row_cards(struct queue *queue, const struct unit *unit, struct arena *arena, struct json *array)
{
    for (uint32_t i = 0; i < unit->w.placement.len; i++) {
        const struct slot *slot = &unit->w.placement.v[i];
        struct json *out;

        if (slot->card == SLOT_CPU)
            continue;
        out = json_push_object(arena, array);
        json_set_string(arena, out, "node", queue->nodes.v[slot->node].name);
        json_set_int(arena, out, "index", slot->card);
        json_set_int(arena, out, "mib", slot->mib);
    }
}

const struct object *row_object(struct queue *queue, const char *uid)
{
    const struct object *object = store_by_uid(queue->store, uid);

    return object ? object : map_get(queue->jobs, str_from(uid));
}

bool row_mine(const struct identity *who, const char *user, const char *ns)
{
    if (!who)
        return false;
    return streq(who->user, user) || streq(who->user, ns) ||
           (streq(user, ADMIN_USER) && starts_with(who->user, "system:") && access_is_admin(who));
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct unit *const *)a)->name, (*(struct unit *const *)b)->name);
}

void row_units(struct queue *queue, const char *uid, unit_list *ret)
{
    struct unit *unit = unit_find(queue, uid);
    const struct object *object;

    if (unit && !unit->job) {
        vec_push(ret, unit);
        return;
    }
    object = row_object(queue, uid);
    if (object && object->kind->id != KIND_JOB)
        return;
    for (unit = unit_of_job(queue, uid); unit; unit = unit->next_of_job)
        vec_push(ret, unit);
    if (ret->len)
        qsort(ret->v, ret->len, sizeof(*ret->v), by_name);
}

enum phase row_phase(struct queue *queue, const char *uid)
{
    const struct unit *unit = unit_find(queue, uid);
    const struct object *object;

    if (unit && !unit->job)
        return unit->w.phase;
    object = row_object(queue, uid);
    if (object && object->kind->id == KIND_JOB)
        return job_row_phase(queue, object);
    return PHASE_CANCELLED; /* not in the queue */
}

/* ---- a row ---- */

struct row {
    struct queue *queue;
    struct arena *arena;
    const struct identity *who;
    const char *uid;
    const struct object *object; /* may be NULL */
    unit_list units;
    struct json *out;
    const struct unit *first; /* NULL: a Job without pods */
    const struct wait *wait;  /* of the one that comes first */
    enum phase phase;
};

static void find_wait(struct row *row)
{
    for (size_t i = 0; i < row->units.len; i++) {
        const struct unit *unit = row->units.v[i];
        const struct wait *wait = phase_is_waiting(unit->w.phase) ? explain_find(row->queue, unit) : NULL;

        if (wait && (!row->wait || wait->position < row->wait->position))
            row->wait = wait;
    }
}

static const char *reason_of(struct row *row)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (row->wait && phase_is_waiting(row->phase)) {
        const char *own = row->first ? row->first->reason : NULL;

        if (row->wait->reason == WAIT_BACKOFF && own && starts_with(own, "cannot start"))
            return own;
        explain_text(row->queue, row->wait, &text);
        return arena_strndup(row->arena, text.data, text.len);
    }
    return row->first && row->first->reason ? row->first->reason : "";
}

static int64_t ordinal_of(struct row *row)
{
    int64_t most = 0;

    VEC_EACH(&row->units, it) {
        int64_t ordinal = live_ordinal(row->queue->live, (*it)->w.id);

        most = ordinal > most ? ordinal : most;
    }
    return most;
}

/* Of a Job: up to the last of its pods. */
static int64_t global_of(struct row *row)
{
    int64_t most = 0;

    VEC_EACH(&row->units, it) {
        int64_t global = explain_global(row->queue, *it);

        most = global > most ? global : most;
    }
    return most;
}

static void set_identity(struct row *row)
{
    struct arena *arena = row->arena;
    struct json *out = row->out, *labels;
    const struct unit *unit = row->first;
    const char *kind = row->object                      ? row->object->kind->name
                       : unit && unit->kind == KIND_POD ? (unit->job ? "Job" : "Pod")
                                                        : "TrainingJob";
    const char *user = unit ? unit->w.user : NULL;

    if (!unit && row->object)
        user = work_user(object_json(row->object, arena));
    json_set_string(arena, out, "id", row->uid);
    json_set_string(arena, out, "kind", kind);
    json_set_string(arena, out, "namespace", row->object ? row->object->ns : unit ? unit->ns : "");
    json_set_string(arena, out, "name",
                    row->object              ? row->object->name
                    : unit && unit->job_name ? unit->job_name
                    : unit                   ? unit->name
                                             : "");
    json_set_string(arena, out, "user", user);
    json_set_bool(arena, out, "mine",
                  row_mine(row->who, user,
                           row->object ? row->object->ns
                           : unit      ? unit->ns
                                       : NULL));
    labels = json_set_object(arena, out, "labels");
    for (uint32_t i = 0; row->object && i < row->object->label_count; i++)
        json_set_str(arena, labels, row->object->labels[2 * i],
                     json_of_str(arena, row->object->labels[2 * i + 1]));
}

static void set_size(struct row *row)
{
    struct arena *arena = row->arena;
    struct json *out = row->out, *cards;
    const struct unit *unit = row->first;
    int64_t held = 0, asked = 0, most = 0, peak = 0;
    bool shared = false, share = false, limited = false;

    VEC_EACH(&row->units, it) {
        held += workload_gpus(&(*it)->w);
        asked += (*it)->w.demand.min_gpus;
        most += (*it)->w.demand.max_gpus;
        shared = shared || unit_shared(row->queue, *it);
        share = share || ((*it)->w.demand.mib && !(*it)->w.demand.exclusive);
        limited = limited || (*it)->limited;
        peak = (*it)->peak_mib > peak ? (*it)->peak_mib : peak;
    }
    json_set_int(arena, out, "gpus", phase_holds(row->phase) || held ? held : asked);
    json_set_int(arena, out, "gpusMin", asked);
    json_set_int(arena, out, "gpusMax", most);
    set_count(arena, out, "memoryMiB", unit ? unit->w.demand.mib : 0, unit && unit->w.demand.mib);
    json_set_bool(arena, out, "shared", shared);
    if (most)
        json_set_string(arena, out, "protection", limited ? "cgroup" : share ? "watched" : "none");
    else
        json_set_null(arena, out, "protection");
    cards = json_set_array(arena, out, "cards");
    VEC_EACH(&row->units, it)
        row_cards(row->queue, *it, arena, cards);
    set_count(arena, out, "peakMemoryMiB", peak, peak > 0);
}

static void set_times(struct row *row)
{
    struct arena *arena = row->arena;
    struct json *out = row->out;
    const struct unit *unit = row->first;
    const struct wait *wait = row->wait;
    int64_t started = 0, finished = 0;

    VEC_EACH(&row->units, it) {
        if ((*it)->first_start_ms && (!started || (*it)->first_start_ms < started))
            started = (*it)->first_start_ms;
        finished = (*it)->finished_ms > finished ? (*it)->finished_ms : finished;
    }
    json_set_ms(arena, out, "submitted", unit ? unit->w.submit_ms : 0);
    json_set_ms(arena, out, "started", started);
    json_set_ms(arena, out, "finished", phase_is_over(row->phase) ? finished : 0);
    json_set_ms(arena, out, "startEstimate", wait ? wait->start_ms : 0);
    json_set_ms(arena, out, "startLow", wait ? wait->start_lo_ms : 0);
    json_set_ms(arena, out, "startHigh", wait ? wait->start_hi_ms : 0);
}

static void set_progress(struct row *row)
{
    struct arena *arena = row->arena;
    struct json *out = row->out;
    const struct unit *unit = row->first;
    bool training = unit && unit->kind == KIND_TRAINING_JOB;
    /* One epoch that nobody reports is a script that knows of none. */
    bool counts = training && (unit->w.epochs_done || unit->w.epochs_total > 1);
    int64_t from = 0;

    set_count(arena, out, "epochsDone", training ? unit->w.epochs_done : 0, counts);
    set_count(arena, out, "epochsTotal", training ? unit->w.epochs_total : 0, counts);
    if (training && row->phase == PHASE_SUCCEEDED)
        json_set_real(arena, out, "progress", 1);
    else if (counts && unit->w.epochs_total)
        json_set_real(arena, out, "progress", (double)unit->w.epochs_done / unit->w.epochs_total);
    else
        json_set_null(arena, out, "progress");
    if (training && phase_holds(row->phase))
        from = now_ms();
    else if (training && row->wait && row->wait->start_ms != INT64_MAX)
        from = row->wait->start_ms;
    if (from && unit->forecast.points) {
        uint32_t gpus = workload_gpus(&unit->w) ? workload_gpus(&unit->w) : unit->w.demand.min_gpus;
        double left = forecast_seconds(&unit->forecast, gpus, unit_shared(row->queue, unit));

        json_set_ms(arena, out, "eta", from + (int64_t)(left * 1000));
        json_set_ms(arena, out, "etaLow", from + (int64_t)(forecast_low(&unit->forecast, left) * 1000));
        json_set_ms(arena, out, "etaHigh", from + (int64_t)(forecast_high(&unit->forecast, left) * 1000));
    } else {
        json_set_null(arena, out, "eta");
        json_set_null(arena, out, "etaLow");
        json_set_null(arena, out, "etaHigh");
    }
    json_set_int(arena, out, "restarts", unit ? unit->w.restarts : 0);
    json_set_real(arena, out, "lostSeconds", unit ? (double)unit->lost_ms / 1000 : 0);
}

/* Means over its cards, where they are measured. */
static void set_utilization(struct row *row)
{
    struct queue *queue = row->queue;
    double memory = 0, compute = 0;
    int memories = 0, computes = 0;

    VEC_EACH(&row->units, it)
        for (uint32_t i = 0; i < (*it)->w.placement.len; i++) {
            const struct slot *slot = &(*it)->w.placement.v[i];
            const struct card_state *state;

            if (slot->card == SLOT_CPU || slot->card >= NODE_GPUS_MAX)
                continue;
            state = &queue->nodes.v[slot->node].cards[slot->card];
            if (state->busy_percent >= 0) {
                compute += state->busy_percent / 100.0;
                computes++;
            }
            if (state->used_mib >= 0 && slot->mib) {
                memory += (double)((*it)->now_mib ? (*it)->now_mib : state->used_mib) / slot->mib;
                memories++;
            }
        }
    if (memories)
        json_set_real(row->arena, row->out, "utilizationMem", memory / memories);
    else
        json_set_null(row->arena, row->out, "utilizationMem");
    if (computes)
        json_set_real(row->arena, row->out, "utilizationCompute", compute / computes);
    else
        json_set_null(row->arena, row->out, "utilizationCompute");
}

static void set_state(struct row *row)
{
    struct arena *arena = row->arena;
    int64_t ordinal = ordinal_of(row);

    json_set_string(arena, row->out, "state", phase_name(row->phase));
    json_set_string(arena, row->out, "reason", reason_of(row));
    set_count(arena, row->out, "position", row->wait ? row->wait->position : 0,
              row->wait && phase_is_waiting(row->phase));
    json_set_real(arena, row->out, "ordinal", (double)ordinal / 1000);
    json_set_real(arena, row->out, "globalOrdinal", (double)global_of(row) / 1000);
    json_set_int(arena, row->out, "priority", row->first ? row->first->w.priority : 0);
}

static void fill(struct row *row)
{
    set_identity(row);
    set_state(row);
    set_size(row);
    set_times(row);
    set_progress(row);
    set_utilization(row);
    json_set_string(row->arena, row->out, "image", row->first && row->first->image ? row->first->image : "");
}

struct json *row_json(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena)
{
    struct row row = {.queue = queue, .arena = arena, .who = who, .uid = uid};

    row.object = row_object(queue, uid);
    row_units(queue, uid, &row.units);
    if (row.units.len == 0 && !(row.object && row.object->kind->id == KIND_JOB)) {
        vec_done(&row.units);
        return NULL;
    }
    row.first = row.units.len ? row.units.v[0] : NULL;
    row.phase = row.first && !row.first->job ? row.first->w.phase : row_phase(queue, uid);
    row.uid = arena_strdup(arena, uid);
    find_wait(&row);
    row.out = json_new_object(arena);
    json_reserve(arena, row.out, ROW_MEMBERS);
    fill(&row);
    vec_done(&row.units);
    return row.out;
}
