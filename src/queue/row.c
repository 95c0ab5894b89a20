/* Rows as docs/rest.md has them. */
#include "base/break.h"
#include "control/util.h"
#include "objects/object_doc.h"
#include "queue/internal.h"
#include "queue/job_row.h"
#include "registry/access.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

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
    return clock_format_milli(ms * NSEC_PER_MSEC, text);
}

void json_set_ms(struct arena *arena, struct json *object, const char *key, int64_t ms)
{
    char text[CLOCK_TEXT_MAX];

    if (ms <= 0 || ms == INT64_MAX)
        json_set_null(arena, object, key);
    else
        json_set_string(arena, object, key, ms_text(ms, text));
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

void row_copy(struct arena *arena, struct json *out, const struct json *row, const char *const *keys,
              size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const struct json *value = json_get(row, keys[i]);

        json_set(arena, out, keys[i], value ? *value : (struct json){.type = JSON_NULL});
    }
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

#define WHOLE_MAX 1e15
#define NONE      INT64_MIN /* of a number that is not known: null */

/* What a row says, as plain values. Texts are borrowed until the queue changes, or in the arena. */
struct facts {
    const char *id, *kind, *ns, *name, *user, *state, *reason, *protection, *image;
    bool mine, shared;
    int64_t position, priority, gpus, gpus_min, gpus_max, memory, peak, epochs_done, epochs_total, restarts;
    double ordinal, global, progress, lost_s, use_memory, use_compute; /* NAN: null */
    int64_t submitted, started, finished, start, start_lo, start_hi, eta, eta_lo, eta_hi;
};

struct row {
    struct queue *queue;
    struct arena *arena;
    const struct identity *who;
    const char *uid;
    const struct object *object; /* may be NULL */
    unit_list units;             /* of several; of one: `one` */
    struct unit *one;
    const struct unit *first;  /* NULL: a Job without pods */
    const struct unit *waiter; /* the one of them that comes first; NULL: none waits */
    const struct wait *wait;   /* its place; NULL: it has none (blocked) */
    enum phase phase;
    int64_t now;
    struct buf words; /* what the reason is made in; kept from row to row */
    struct facts f;
};

enum member_type {
    MEMBER_TEXT,
    MEMBER_BOOL,
    MEMBER_INT,
    MEMBER_REAL,
    MEMBER_TIME,
    MEMBER_LABELS,
    MEMBER_CARDS
};

#define AT(member) offsetof(struct facts, member)
#define KEY(text)  (text), ",\"" text "\":", sizeof(",\"" text "\":") - 1
/* In this order; docs/rest.md has what each means. */
static const struct member {
    const char *key, *lead; /* lead: as it stands in the text */
    size_t lead_len;
    enum member_type type;
    size_t offset;
} members[] = {
    {KEY("id"), MEMBER_TEXT, AT(id)},
    {KEY("kind"), MEMBER_TEXT, AT(kind)},
    {KEY("namespace"), MEMBER_TEXT, AT(ns)},
    {KEY("name"), MEMBER_TEXT, AT(name)},
    {KEY("user"), MEMBER_TEXT, AT(user)},
    {KEY("mine"), MEMBER_BOOL, AT(mine)},
    {KEY("labels"), MEMBER_LABELS, 0},
    {KEY("state"), MEMBER_TEXT, AT(state)},
    {KEY("reason"), MEMBER_TEXT, AT(reason)},
    {KEY("position"), MEMBER_INT, AT(position)},
    {KEY("ordinal"), MEMBER_REAL, AT(ordinal)},
    {KEY("globalOrdinal"), MEMBER_REAL, AT(global)},
    {KEY("priority"), MEMBER_INT, AT(priority)},
    {KEY("gpus"), MEMBER_INT, AT(gpus)},
    {KEY("gpusMin"), MEMBER_INT, AT(gpus_min)},
    {KEY("gpusMax"), MEMBER_INT, AT(gpus_max)},
    {KEY("memoryMiB"), MEMBER_INT, AT(memory)},
    {KEY("shared"), MEMBER_BOOL, AT(shared)},
    {KEY("protection"), MEMBER_TEXT, AT(protection)},
    {KEY("cards"), MEMBER_CARDS, 0},
    {KEY("peakMemoryMiB"), MEMBER_INT, AT(peak)},
    {KEY("submitted"), MEMBER_TIME, AT(submitted)},
    {KEY("started"), MEMBER_TIME, AT(started)},
    {KEY("finished"), MEMBER_TIME, AT(finished)},
    {KEY("startEstimate"), MEMBER_TIME, AT(start)},
    {KEY("startLow"), MEMBER_TIME, AT(start_lo)},
    {KEY("startHigh"), MEMBER_TIME, AT(start_hi)},
    {KEY("epochsDone"), MEMBER_INT, AT(epochs_done)},
    {KEY("epochsTotal"), MEMBER_INT, AT(epochs_total)},
    {KEY("progress"), MEMBER_REAL, AT(progress)},
    {KEY("eta"), MEMBER_TIME, AT(eta)},
    {KEY("etaLow"), MEMBER_TIME, AT(eta_lo)},
    {KEY("etaHigh"), MEMBER_TIME, AT(eta_hi)},
    {KEY("restarts"), MEMBER_INT, AT(restarts)},
    {KEY("lostSeconds"), MEMBER_REAL, AT(lost_s)},
    {KEY("utilizationMem"), MEMBER_REAL, AT(use_memory)},
    {KEY("utilizationCompute"), MEMBER_REAL, AT(use_compute)},
    {KEY("image"), MEMBER_TEXT, AT(image)},
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
    const struct unit *unit = speaker(row);
    const char *why;

    if (unit && unit->life) {
        buf_clear(&row->words);
        life_why(row->queue->life, unit->life, row->now, &row->words);
        return row->words.data ? row->words.data : "";
    }
    if (unit || !row->object || row->phase != PHASE_PENDING)
        return "";
    why = blocked_job(row->queue, row->object, row->arena);
    return why ? arena_printf(row->arena, "cannot start: %s", why) : "its pods are being made";
}

static int64_t ordinal_of(struct row *row)
{
    int64_t most = 0;

    VEC_EACH(&row->units, it) {
        int64_t ordinal = (*it)->life ? life_ordinal(row->queue->life, (*it)->life) : 0;

        most = ordinal > most ? ordinal : most;
    }
    return most;
}

/* Of a Job: up to the last of its pods. */
static int64_t global_of(struct row *row)
{
    int64_t most = 0;

    if (phase_is_over(row->phase)) /* it stands nowhere any more */
        return 0;
    VEC_EACH(&row->units, it) {
        int64_t global = (*it)->life ? life_global(row->queue->life, (*it)->life, row->now) : 0;

        most = global > most ? global : most;
    }
    return most;
}

static void set_identity(struct row *row)
{
    struct facts *f = &row->f;
    const struct unit *unit = row->first;

    f->id = row->uid;
    f->kind = row->object                      ? row->object->kind->name
              : unit && unit->kind == KIND_POD ? (unit->job ? "Job" : "Pod")
                                               : "TrainingJob";
    f->ns = row->object ? row->object->ns : unit ? unit->ns : "";
    f->name = row->object              ? row->object->name
              : unit && unit->job_name ? unit->job_name
              : unit                   ? unit->name
                                       : "";
    f->user = unit ? unit_w(unit)->user : NULL;
    if (!unit && row->object)
        f->user = work_user(object_doc(row->object));
    f->mine = row_mine(row->who, f->user, *f->ns ? f->ns : NULL);
    f->image = unit && unit->life && unit->life->image ? unit->life->image : "";
}

static int64_t position_of(const struct row *row)
{
    bool placed = row->wait && row->waiter && !row->waiter->life->blocked && phase_is_waiting(row->phase);

    return placed ? row->wait->position : NONE;
}

static void set_state(struct row *row)
{
    struct facts *f = &row->f;

    f->state = phase_name(rule_broken("7") && row->phase == PHASE_STARTING ? PHASE_RUNNING : row->phase);
    f->reason = reason_of(row);
    f->position = position_of(row);
    f->ordinal = (double)ordinal_of(row) / 1000;
    f->global = (double)global_of(row) / 1000;
    f->priority = row->first ? unit_w(row->first)->priority : 0;
}

static void set_size(struct row *row)
{
    struct facts *f = &row->f;
    const struct unit *unit = row->first;
    int64_t held = 0, peak = 0;
    bool share = false, limited = false;

    VEC_EACH(&row->units, it) {
        const struct workload *w = unit_w(*it);

        held += workload_gpus(w);
        f->gpus_min += w->demand.min_gpus;
        f->gpus_max += w->demand.max_gpus;
        f->shared = f->shared || ((*it)->life && life_shared(row->queue->life, (*it)->life));
        share = share || (w->demand.mib && !w->demand.exclusive);
        limited = limited || (*it)->limited != 0;
        if ((*it)->life && (*it)->life->peak_mib > peak)
            peak = (*it)->life->peak_mib;
    }
    f->gpus = phase_holds(row->phase) || held ? held : f->gpus_min;
    f->memory = unit && unit_w(unit)->demand.mib ? unit_w(unit)->demand.mib : NONE;
    f->protection = !f->gpus_max ? NULL : limited ? "cgroup" : share ? "watched" : "none";
    f->peak = peak > 0 ? peak : NONE;
}

static void set_times(struct row *row)
{
    struct facts *f = &row->f;
    const struct unit *unit = row->first;
    struct life_when start = {0}, end = {0};

    VEC_EACH(&row->units, it) {
        const struct life_job *job = (*it)->life;

        if (job && job->first_start_ms && (!f->started || job->first_start_ms < f->started))
            f->started = job->first_start_ms;
        if (job && phase_is_over(row->phase) && job->finished_ms > f->finished)
            f->finished = job->finished_ms;
    }
    if (unit && unit->life && !phase_is_over(row->phase))
        life_when(row->queue->life, unit->life, row->now, &end);
    if (row->waiter && phase_is_waiting(row->phase)) {
        if (row->waiter == unit)
            start = end;
        else
            life_when(row->queue->life, row->waiter->life, row->now, &start);
    }
    f->submitted = unit ? unit->submit_ms : 0;
    f->start = start.start_ms;
    f->start_lo = start.start_lo_ms;
    f->start_hi = start.start_hi_ms;
    f->eta = end.end_ms;
    f->eta_lo = end.end_lo_ms;
    f->eta_hi = end.end_hi_ms;
}

static void set_progress(struct row *row)
{
    struct facts *f = &row->f;
    const struct unit *unit = row->first;
    const struct life_job *job = unit ? unit->life : NULL;
    const struct workload *w = unit ? unit_w(unit) : NULL;
    bool training = unit && unit->kind == KIND_TRAINING_JOB;
    /* One epoch that nobody reports is a script that knows of none. */
    bool counts = training && (w->epochs_done || w->epochs_total > 1);

    f->epochs_done = counts ? w->epochs_done : NONE;
    f->epochs_total = counts && w->epochs_total ? w->epochs_total : NONE;
    f->progress = training && row->phase == PHASE_SUCCEEDED ? 1
                  : counts && w->epochs_total               ? (double)w->epochs_done / w->epochs_total
                                                            : NAN;
    f->restarts = w ? w->restarts : 0;
    f->lost_s = job ? (double)job->lost_ms / 1000 : 0;
}

/* Means over its cards, where they are measured. */
static void set_utilization(struct row *row)
{
    double memory = 0, compute = 0;
    int memories = 0, computes = 0;

    VEC_EACH(&row->units, it)
        for (uint32_t i = 0; i < unit_w(*it)->placement.len; i++) {
            const struct slot *slot = &unit_w(*it)->placement.v[i];
            const struct card_state *state;

            if (slot->card == SLOT_CPU || slot->card >= NODE_GPUS_MAX)
                continue;
            state = &row->queue->nodes.v[slot->node].cards[slot->card];
            if (state->busy_percent >= 0) {
                compute += state->busy_percent / 100.0;
                computes++;
            }
            if (state->used_mib >= 0 && slot->mib) {
                memory += (double)((*it)->life->now_mib ? (*it)->life->now_mib : state->used_mib) / slot->mib;
                memories++;
            }
        }
    row->f.use_memory = memories ? memory / memories : NAN;
    row->f.use_compute = computes ? compute / computes : NAN;
}

/* Which units it has and where it stands; false: there is no such row. `unit`: what the uid is of, NULL: not
 * looked up. What an earlier row left in *row is dropped, but for the memory of its words. */
static bool row_begin(struct row *row, const char *uid, struct unit *unit)
{
    *row = (struct row){.queue = row->queue,
                        .arena = row->arena,
                        .who = row->who,
                        .now = row->now,
                        .words = row->words,
                        .uid = uid,
                        .one = unit ? unit : unit_find(row->queue, uid)};
    if (row->one && !row->one->job) {
        row->units.v = &row->one;
        row->units.len = 1;
    } else {
        row->object = row_object(row->queue, uid);
        row_units(row->queue, uid, &row->units);
    }
    if (row->units.len == 0 && !(row->object && row->object->kind->id == KIND_JOB))
        return false;
    row->first = row->units.len ? row->units.v[0] : NULL;
    assert(row->units.len == 0 || row->first);
    row->phase = row->first && !row->first->job ? unit_w(row->first)->phase : row_phase(row->queue, row->uid);
    find_wait(row);
    return true;
}

static void row_fill(struct row *row)
{
    row->object = row->object ? row->object : row_object(row->queue, row->uid);
    set_identity(row);
    set_state(row);
    set_size(row);
    set_times(row);
    set_progress(row);
    set_utilization(row);
}

static void row_end(struct row *row)
{
    if (row->units.v != &row->one)
        vec_done(&row->units);
}

static void row_done_cleanup_(struct row *row)
{
    row_end(row);
    buf_done(&row->words);
}

/* ---- as a document ---- */

static struct json *labels_json(const struct row *row)
{
    struct json *out = json_new_object(row->arena);

    for (uint32_t i = 0; row->object && i < row->object->label_count; i++)
        json_set_str(row->arena, out, row->object->labels[2 * i],
                     json_of_str(row->arena, row->object->labels[2 * i + 1]));
    return out;
}

static struct json *cards_json(const struct row *row)
{
    struct json *out = json_new_array(row->arena);

    VEC_EACH(&row->units, it)
        row_cards(row->queue, *it, row->arena, out);
    return out;
}

static const void *value_of(const struct row *row, const struct member *m)
{
    return (const char *)&row->f + m->offset;
}

struct json *row_json(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena)
{
    CLEANUP(row_done)
    struct row row = {.queue = queue, .arena = arena, .who = who, .now = queue_now(queue)};
    struct json *out;

    if (!row_begin(&row, uid, NULL))
        return NULL;
    row_fill(&row);
    out = json_new_object(arena);
    json_reserve(arena, out, ARRAY_LEN(members) + 8);
    for (const struct member *m = members; m < members + ARRAY_LEN(members); m++) {
        const void *value = value_of(&row, m);

        if (m->type == MEMBER_TEXT)
            json_set_string(arena, out, m->key, *(const char *const *)value);
        else if (m->type == MEMBER_BOOL)
            json_set_bool(arena, out, m->key, *(const bool *)value);
        else if (m->type == MEMBER_TIME)
            json_set_ms(arena, out, m->key, *(const int64_t *)value);
        else if (m->type == MEMBER_INT && *(const int64_t *)value != NONE)
            json_set_int(arena, out, m->key, *(const int64_t *)value);
        else if (m->type == MEMBER_REAL && !isnan(*(const double *)value))
            json_set_real(arena, out, m->key, *(const double *)value);
        else if (m->type == MEMBER_LABELS)
            json_set(arena, out, m->key, *labels_json(&row));
        else if (m->type == MEMBER_CARDS)
            json_set(arena, out, m->key, *cards_json(&row));
        else
            json_set_null(arena, out, m->key);
    }
    return out;
}

/* ---- as text: the same, for thousands of them ---- */

struct row_writer {
    struct row row;     /* the last one */
    struct arena arena; /* of one row */
};

static void write_text(struct buf *out, const char *text)
{
    if (text)
        json_write_string(out, str_from(text));
    else
        buf_add(out, "null", 4);
}

static void write_time(struct buf *out, int64_t ms)
{
    char *at;

    if (ms <= 0 || ms == INT64_MAX) {
        buf_add(out, "null", 4);
        return;
    }
    at = buf_reserve(out, CLOCK_TEXT_MAX + 2);
    at[0] = '"';
    ms_text(ms, at + 1);
    out->len += 1 + strlen(at + 1);
    buf_putc(out, '"');
}

static void write_labels(const struct row *row, struct buf *out)
{
    buf_putc(out, '{');
    for (uint32_t i = 0; row->object && i < row->object->label_count; i++) {
        if (i)
            buf_putc(out, ',');
        json_write_string(out, row->object->labels[2 * i]);
        buf_putc(out, ':');
        json_write_string(out, row->object->labels[2 * i + 1]);
    }
    buf_putc(out, '}');
}

static void write_cards(const struct row *row, struct buf *out)
{
    bool holds = false;

    VEC_EACH(&row->units, it)
        holds = holds || unit_w(*it)->placement.len;
    if (holds)
        json_write(out, cards_json(row));
    else
        buf_add(out, "[]", 2);
}

static void write_real(struct buf *out, double d)
{
    struct json value = json_of_real(d);

    if (fabs(d) < WHOLE_MAX && d == (double)(int64_t)d) { /* most are, and printing others is dear */
        buf_int(out, (int64_t)d);
        buf_add(out, ".0", 2);
        return;
    }
    json_write(out, &value);
}

static void write_member(const struct row *row, const struct member *m, struct buf *out)
{
    const void *value = value_of(row, m);

    switch (m->type) {
    case MEMBER_TEXT:
        write_text(out, *(const char *const *)value);
        break;
    case MEMBER_BOOL:
        buf_puts(out, *(const bool *)value ? "true" : "false");
        break;
    case MEMBER_INT:
        if (*(const int64_t *)value == NONE)
            buf_add(out, "null", 4);
        else
            buf_int(out, *(const int64_t *)value);
        break;
    case MEMBER_REAL:
        if (isnan(*(const double *)value))
            buf_add(out, "null", 4);
        else
            write_real(out, *(const double *)value);
        break;
    case MEMBER_TIME:
        write_time(out, *(const int64_t *)value);
        break;
    case MEMBER_LABELS:
        write_labels(row, out);
        break;
    case MEMBER_CARDS:
        write_cards(row, out);
        break;
    }
}

struct row_writer *row_writer_new(struct queue *queue, const struct identity *who)
{
    struct row_writer *writer = NEW(struct row_writer);

    writer->row = (struct row){.queue = queue, .who = who, .arena = &writer->arena, .now = queue_now(queue)};
    return writer;
}

void row_writer_free(struct row_writer *writer)
{
    row_done_cleanup_(&writer->row);
    arena_done(&writer->arena);
    free(writer);
}

bool row_place(struct row_writer *writer, const char *uid, struct unit *unit, struct row_place *place)
{
    struct row *row = &writer->row;
    int64_t position;

    row_end(row);
    if (!row_begin(row, uid, unit))
        return false;
    position = position_of(row);
    place->phase = row->phase;
    place->by = phase_holds(row->phase) ? global_of(row) : position != NONE ? position : INT32_MAX;
    return true;
}

bool row_write(struct row_writer *writer, const char *uid, struct unit *unit, struct buf *out)
{
    struct row *row = &writer->row;

    row_end(row);
    row->now = queue_now(row->queue);
    if (!row_begin(row, uid, unit))
        return false;
    row_fill(row);
    for (const struct member *m = members; m < members + ARRAY_LEN(members); m++) {
        size_t at = out->len;

        buf_add(out, m->lead, m->lead_len);
        if (m == members)
            out->data[at] = '{';
        write_member(row, m, out);
    }
    buf_putc(out, '}');
    arena_reset(&writer->arena);
    return true;
}
