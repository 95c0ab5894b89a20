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
    for (uint32_t i = 0; i < unit_w(unit)->placement.len; i++) {
        const struct slot *slot = &unit_w(unit)->placement.v[i];
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
        return unit_w(unit)->phase;
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
    const struct unit *first;  /* NULL: a Job without pods */
    const struct unit *waiter; /* the one of them that comes first; NULL: none waits */
    const struct wait *wait;   /* its place; NULL: it has none (blocked) */
    enum phase phase;
    int64_t now;
};

static void find_wait(struct row *row)
{
    for (size_t i = 0; i < row->units.len; i++) {
        const struct unit *unit = row->units.v[i];
        const struct wait *wait;

        if (!unit->life || !phase_is_waiting(unit_w(unit)->phase))
            continue;
        wait = life_wait(row->queue->life, unit->life, row->now);
        if (!row->waiter || (wait && (!row->wait || wait->position < row->wait->position))) {
            row->waiter = unit;
            row->wait = wait;
        }
    }
}

/* The one whose words stand for the row: of a Job's pods the one that is furthest back. */
static const struct unit *speaker(const struct row *row)
{
    if (phase_is_waiting(row->phase) && row->waiter)
        return row->waiter;
    for (size_t i = 0; i < row->units.len; i++)
        if (unit_w(row->units.v[i])->phase == row->phase)
            return row->units.v[i];
    return row->first;
}

static const char *reason_of(struct row *row)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct unit *unit = speaker(row);
    const char *why;

    if (unit && unit->life) {
        life_why(row->queue->life, unit->life, row->now, &text);
        return arena_strndup(row->arena, text.data ? text.data : "", text.len);
    }
    if (unit || !row->object || row->phase != PHASE_PENDING)
        return "";
    why = blocked_job(row->queue, row->object, row->arena);
    return why ? arena_printf(row->arena, "cannot start: its pods cannot be made: %s", why)
               : "its pods are being made";
}

static int64_t ordinal_of(struct row *row)
{
    int64_t most = 0;

    VEC_EACH(&row->units, it) {
        int64_t ordinal = live_ordinal(life_live(row->queue->life), (*it)->id);

        most = ordinal > most ? ordinal : most;
    }
    return most;
}

/* Of a Job: up to the last of its pods. */
static int64_t global_of(struct row *row)
{
    int64_t most = 0;

    VEC_EACH(&row->units, it) {
        int64_t global = (*it)->life ? life_global(row->queue->life, (*it)->life, row->now) : 0;

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
    const char *user = unit ? unit_w(unit)->user : NULL;

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
        held += workload_gpus(unit_w(*it));
        asked += unit_w(*it)->demand.min_gpus;
        most += unit_w(*it)->demand.max_gpus;
        shared = shared || ((*it)->life && life_shared(row->queue->life, (*it)->life));
        share = share || (unit_w(*it)->demand.mib && !unit_w(*it)->demand.exclusive);
        limited = limited || (*it)->limited;
        if ((*it)->life && (*it)->life->peak_mib > peak)
            peak = (*it)->life->peak_mib;
    }
    json_set_int(arena, out, "gpus", phase_holds(row->phase) || held ? held : asked);
    json_set_int(arena, out, "gpusMin", asked);
    json_set_int(arena, out, "gpusMax", most);
    set_count(arena, out, "memoryMiB", unit ? unit_w(unit)->demand.mib : 0, unit && unit_w(unit)->demand.mib);
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
    int64_t started = 0, finished = 0;
    struct life_when when = {0};

    VEC_EACH(&row->units, it) {
        const struct life_job *job = (*it)->life;

        if (job && job->first_start_ms && (!started || job->first_start_ms < started))
            started = job->first_start_ms;
        finished = job && job->finished_ms > finished ? job->finished_ms : finished;
    }
    if (row->waiter && phase_is_waiting(row->phase))
        life_when(row->queue->life, row->waiter->life, row->now, &when);
    json_set_ms(arena, out, "submitted", unit ? unit->submit_ms : 0);
    json_set_ms(arena, out, "started", started);
    json_set_ms(arena, out, "finished", phase_is_over(row->phase) ? finished : 0);
    json_set_ms(arena, out, "startEstimate", when.start_ms);
    json_set_ms(arena, out, "startLow", when.start_lo_ms);
    json_set_ms(arena, out, "startHigh", when.start_hi_ms);
}

static void set_progress(struct row *row)
{
    struct arena *arena = row->arena;
    struct json *out = row->out;
    const struct unit *unit = row->first;
    const struct life_job *job = unit ? unit->life : NULL;
    bool training = unit && unit->kind == KIND_TRAINING_JOB;
    /* One epoch that nobody reports is a script that knows of none. */
    bool counts = training && (unit_w(unit)->epochs_done || unit_w(unit)->epochs_total > 1);
    struct life_when when = {0};

    set_count(arena, out, "epochsDone", training ? unit_w(unit)->epochs_done : 0, counts);
    set_count(arena, out, "epochsTotal", training ? unit_w(unit)->epochs_total : 0,
              counts && unit_w(unit)->epochs_total);
    if (training && row->phase == PHASE_SUCCEEDED)
        json_set_real(arena, out, "progress", 1);
    else if (counts && unit_w(unit)->epochs_total)
        json_set_real(arena, out, "progress", (double)unit_w(unit)->epochs_done / unit_w(unit)->epochs_total);
    else
        json_set_null(arena, out, "progress");
    if (job && !phase_is_over(row->phase))
        life_when(row->queue->life, job, row->now, &when);
    json_set_ms(arena, out, "eta", when.end_ms);
    json_set_ms(arena, out, "etaLow", when.end_lo_ms);
    json_set_ms(arena, out, "etaHigh", when.end_hi_ms);
    json_set_int(arena, out, "restarts", unit ? unit_w(unit)->restarts : 0);
    json_set_real(arena, out, "lostSeconds", job ? (double)job->lost_ms / 1000 : 0);
}

/* Means over its cards, where they are measured. */
static void set_utilization(struct row *row)
{
    struct queue *queue = row->queue;
    double memory = 0, compute = 0;
    int memories = 0, computes = 0;

    VEC_EACH(&row->units, it)
        for (uint32_t i = 0; i < unit_w(*it)->placement.len; i++) {
            const struct slot *slot = &unit_w(*it)->placement.v[i];
            const struct card_state *state;

            if (slot->card == SLOT_CPU || slot->card >= NODE_GPUS_MAX)
                continue;
            state = &queue->nodes.v[slot->node].cards[slot->card];
            if (state->busy_percent >= 0) {
                compute += state->busy_percent / 100.0;
                computes++;
            }
            if (state->used_mib >= 0 && slot->mib) {
                memory += (double)((*it)->life->now_mib ? (*it)->life->now_mib : state->used_mib) / slot->mib;
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
              row->wait && row->waiter && !row->waiter->life->blocked && phase_is_waiting(row->phase));
    json_set_real(arena, row->out, "ordinal", (double)ordinal / 1000);
    json_set_real(arena, row->out, "globalOrdinal", (double)global_of(row) / 1000);
    json_set_int(arena, row->out, "priority", row->first ? unit_w(row->first)->priority : 0);
}

static void fill(struct row *row)
{
    set_identity(row);
    set_state(row);
    set_size(row);
    set_times(row);
    set_progress(row);
    set_utilization(row);
    json_set_string(row->arena, row->out, "image",
                    row->first && row->first->life && row->first->life->image ? row->first->life->image : "");
}

struct json *row_json(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena)
{
    struct row row = {.queue = queue, .arena = arena, .who = who, .uid = uid, .now = queue_now(queue)};

    row.object = row_object(queue, uid);
    row_units(queue, uid, &row.units);
    if (row.units.len == 0 && !(row.object && row.object->kind->id == KIND_JOB)) {
        vec_done(&row.units);
        return NULL;
    }
    row.first = row.units.len ? row.units.v[0] : NULL;
    row.phase = row.first && !row.first->job ? unit_w(row.first)->phase : row_phase(queue, uid);
    row.uid = arena_strdup(arena, uid);
    find_wait(&row);
    row.out = json_new_object(arena);
    json_reserve(arena, row.out, ROW_MEMBERS);
    fill(&row);
    vec_done(&row.units);
    return row.out;
}
