/* The whole queue, the cards, what there is in all.
 *
 * A long list is made in pieces: the first call finds out which rows there are and in which order, each one
 * writes LISTING_ROWS of them as they are then. */
#include "objects/object_doc.h"
#include "queue/internal.h"

#define LISTING_ROWS 100 /* less than half a millisecond, and memory that is used again */

struct listed {
    struct row_place place;
    struct unit *unit; /* while none is dropped; NULL: of a Job */
    const char *uid;   /* in the listing's arena */
    const char *name;  /* borrowed, until they are sorted */
};

/* What runs, what waits, the rest. */
static int order_of(enum phase phase)
{
    return phase_holds(phase) ? 0 : phase_is_waiting(phase) ? 1 : 2;
}

static int by_place(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    int order = order_of(x->place.phase) - order_of(y->place.phase);

    if (order)
        return order;
    if (x->place.by != y->place.by)
        return x->place.by < y->place.by ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool state_wanted(const char *const *states, enum phase phase)
{
    if (!states)
        return !phase_is_over(phase);
    for (; *states; states++)
        if (streq(*states, phase_name(phase)))
            return true;
    return false;
}

const char *queue_states_fault(const char *const *states, struct arena *arena)
{
    CLEANUP(buf_done) struct buf known = {0};
    enum phase phase;

    while (states && *states && phase_find(*states, &phase) && streq(phase_name(phase), *states))
        states++;
    if (!states || !*states)
        return NULL;
    for (int i = 0; i < PHASES; i++)
        buf_printf(&known, "%s%s", i ? ", " : "", phase_name((enum phase)i));
    return arena_printf(arena, "unknown state '%.32s': must be one or more of %s", *states, known.data);
}

struct json *queue_capacity(struct queue *queue, struct arena *arena)
{
    const struct sched_view *view = live_view(life_live(queue->life));
    struct json *out = json_new_object(arena);
    int64_t gpus = 0, mib = 0, used_mib = 0, cpu = 0, cpu_used = 0, waiting = 0, running = 0;
    double used = 0;
    bool declared = false;

    for (uint32_t i = 0; i < queue->cluster.node_count; i++) {
        const struct node *node = &queue->cluster.nodes[i];

        gpus += node->gpu_count;
        cpu += node->capacity.cpu_milli;
        for (uint32_t j = 0; j < node->gpu_count; j++) {
            mib += node->gpus[j].mem_mib;
            declared = declared || node->gpus[j].declared;
        }
    }
    for (uint32_t i = 0; i < view->job_count; i++)
        waiting += phase_is_waiting(view->jobs[i].phase);
    UNITS_HOLDING(queue, it) {
        running++;
        cpu_used += unit_w(it)->demand.each.cpu_milli;
        for (uint32_t i = 0; i < unit_w(it)->placement.len; i++) {
            const struct slot *slot = &unit_w(it)->placement.v[i];
            const struct node *node = &queue->cluster.nodes[slot->node];

            if (slot->card == SLOT_CPU || slot->card >= node->gpu_count)
                continue;
            used_mib += slot->mib;
            used += (double)slot->mib / (node->gpus[slot->card].mem_mib ? node->gpus[slot->card].mem_mib : 1);
        }
    }
    json_set_int(arena, out, "gpus", gpus);
    json_set_real(arena, out, "gpusUsed", used);
    json_set_int(arena, out, "memoryMiB", mib);
    json_set_int(arena, out, "memoryUsedMiB", used_mib);
    json_set_int(arena, out, "cpuMilli", cpu);
    json_set_int(arena, out, "cpuMilliUsed", cpu_used);
    json_set_int(arena, out, "waiting", waiting);
    json_set_int(arena, out, "running", running);
    json_set_bool(arena, out, "declared", declared);
    return out;
}

/* ---- a listing ---- */

struct queue_listing {
    struct queue *queue;
    struct row_writer *writer;
    struct arena arena;
    const char *user;          /* NULL: all */
    const char *const *states; /* NULL: all that are not over */
    VEC(struct listed) rows;
    uint64_t dropped; /* units, when the rows were gathered */
    size_t at;        /* the next one */
    bool begun;       /* the head is written */
    bool any_rows;    /* written: those that have gone meanwhile are left out */
};

static const char *const *copy_states(struct arena *arena, const char *const *states)
{
    size_t count = 0;
    const char **copy;

    while (states && states[count])
        count++;
    if (!states)
        return NULL;
    copy = arena_zalloc(arena, sizeof(*copy) * (count + 1));
    for (size_t i = 0; i < count; i++)
        copy[i] = arena_strdup(arena, states[i]);
    return copy;
}

struct queue_listing *queue_listing_new(struct queue *queue, const struct identity *who,
                                        const struct queue_filter *filter)
{
    struct queue_listing *l = NEW(struct queue_listing);

    l->queue = queue;
    l->writer = row_writer_new(queue, who);
    l->user = filter && filter->user ? arena_strdup(&l->arena, filter->user) : NULL;
    l->states = filter ? copy_states(&l->arena, filter->states) : NULL;
    return l;
}

void queue_listing_free(struct queue_listing *l)
{
    if (!l)
        return;
    row_writer_free(l->writer);
    vec_done(&l->rows);
    arena_done(&l->arena);
    free(l);
}

static void add_row(struct queue_listing *l, const char *uid, const char *name, struct unit *unit)
{
    struct listed row = {.unit = unit, .name = name};

    if (!row_place(l->writer, uid, unit, &row.place) || !state_wanted(l->states, row.place.phase))
        return;
    row.uid = arena_strdup(&l->arena, uid);
    vec_push(&l->rows, row);
}

static bool user_wanted(const struct queue_listing *l, const char *user)
{
    return !l->user || streq(l->user, user);
}

/* Whose a Job is: of one with pods its pods', which a label may have given to somebody. */
static bool job_wanted(const struct queue_listing *l, const struct object *job)
{
    const struct unit *unit = l->user ? unit_of_job(l->queue, job->uid) : NULL;

    if (phase_is_over(row_phase(l->queue, job->uid)))
        return false;
    return !l->user || user_wanted(l, unit ? unit_w(unit)->user : work_user(object_doc(job)));
}

static void add_rows(struct queue_listing *l)
{
    UNITS_EACH(l->queue, it)
        if (!it->job && it->life && user_wanted(l, unit_w(it)->user))
            add_row(l, it->uid, it->name, it);
    OBJECTS_EACH(store_list(l->queue->store, KIND_JOB, NULL), it)
        if (job_wanted(l, *it))
            add_row(l, (*it)->uid, (*it)->name, NULL);
    if (l->rows.len)
        qsort(l->rows.v, l->rows.len, sizeof(*l->rows.v), by_place);
}

static void write_head(struct queue *queue, struct buf *out)
{
    static const char *const preemptions[] = {
        [PREEMPTION_AUTO] = "auto", [PREEMPTION_ASK] = "ask", [PREEMPTION_OFF] = "off"};
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *head = json_new_object(&arena);

    json_set_int(&arena, head, "revision", (int64_t)queue->revision);
    json_set_ms(&arena, head, "time", queue_now(queue));
    json_set_string(&arena, head, "policy", sched_policy_name(queue->policy));
    json_set_string(&arena, head, "preemption", preemptions[queue->config.preemption]);
    json_set(&arena, head, "capacity", *queue_capacity(queue, &arena));
    json_write(out, head);
    out->len--; /* the closing brace */
    buf_puts(out, ",\"jobs\":[");
}

bool queue_listing_next(struct queue_listing *l, struct buf *out)
{
    size_t end;

    if (!l->begun) {
        add_rows(l);
        l->dropped = l->queue->dropped;
        write_head(l->queue, out);
        l->begun = true;
    }
    end = l->rows.len - l->at > LISTING_ROWS ? l->at + LISTING_ROWS : l->rows.len;
    for (; l->at < end; l->at++) {
        const struct listed *row = &l->rows.v[l->at];
        size_t before = out->len;

        if (l->any_rows)
            buf_putc(out, ',');
        if (row_write(l->writer, row->uid, l->dropped == l->queue->dropped ? row->unit : NULL, out))
            l->any_rows = true;
        else
            out->len = before;
    }
    if (l->at < l->rows.len)
        return true;
    buf_add(out, "]}", 2);
    return false;
}

struct json *queue_list_json(struct queue *queue, const struct identity *who,
                             const struct queue_filter *filter, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct queue_listing *l = queue_listing_new(queue, who, filter);
    struct json *doc = NULL;

    while (queue_listing_next(l, &text))
        ;
    queue_listing_free(l);
    (void)json_parse(buf_view(&text), arena, &doc, NULL, NULL);
    return doc;
}

/* ---- nodes ---- */

static int64_t card_jobs(struct queue *queue, uint32_t node, uint32_t card, struct arena *arena,
                         struct json *jobs)
{
    const struct node *of = &queue->cluster.nodes[node];
    int64_t used = 0;

    UNITS_HOLDING(queue, it)
        for (uint32_t i = 0; i < unit_w(it)->placement.len; i++) {
            const struct slot *slot = &unit_w(it)->placement.v[i];
            struct json *out;

            if (slot->node != node || slot->card != card)
                continue;
            used += slot->mib;
            out = json_push_object(arena, jobs);
            json_set_string(arena, out, "id", unit_row(it));
            json_set_string(arena, out, "name", unit_w(it)->name ? unit_w(it)->name : it->name);
            json_set_string(arena, out, "user", unit_w(it)->user);
            json_set_int(arena, out, "mib", slot->mib);
            json_set_bool(arena, out, "whole", slot->mib >= of->gpus[card].mem_mib);
        }
    return used;
}

static void set_measured(struct arena *arena, struct json *out, const struct card_state *state)
{
    if (state->used_mib >= 0)
        json_set_int(arena, out, "measuredMiB", state->used_mib);
    else
        json_set_null(arena, out, "measuredMiB");
    if (state->busy_percent >= 0)
        json_set_real(arena, out, "utilization", state->busy_percent / 100.0);
    else
        json_set_null(arena, out, "utilization");
}

static void node_json(struct queue *queue, uint32_t at, struct arena *arena, struct json *out)
{
    const struct node *node = &queue->cluster.nodes[at];
    struct json *cards;
    int64_t cpu = 0, mem = 0;
    bool declared = false;

    UNITS_HOLDING(queue, it)
        if (unit_w(it)->placement.len && unit_w(it)->placement.v[0].node == at) {
            cpu += unit_w(it)->demand.each.cpu_milli;
            mem += unit_w(it)->demand.each.mem_mib;
        }
    for (uint32_t i = 0; i < node->gpu_count; i++)
        declared = declared || node->gpus[i].declared;
    json_set_string(arena, out, "name", node->name);
    json_set_bool(arena, out, "ready", queue->nodes.v[at].ready);
    json_set_bool(arena, out, "schedulable", !node->unschedulable);
    json_set_bool(arena, out, "declared", declared);
    json_set_int(arena, out, "cpuMilli", node->capacity.cpu_milli);
    json_set_int(arena, out, "cpuMilliUsed", cpu);
    json_set_int(arena, out, "memoryMiB", node->capacity.mem_mib);
    json_set_int(arena, out, "memoryMiBUsed", mem);
    cards = json_set_array(arena, out, "cards");
    for (uint32_t i = 0; i < node->gpu_count; i++) {
        struct json *card = json_push_object(arena, cards), *jobs = json_new_array(arena);
        int64_t used = card_jobs(queue, at, i, arena, jobs);

        json_set_int(arena, card, "index", i);
        json_set_string(arena, card, "uuid", node->gpus[i].uuid);
        json_set_string(arena, card, "model", node->gpus[i].model);
        json_set_int(arena, card, "memoryMiB", node->gpus[i].mem_mib);
        json_set_int(arena, card, "usedMiB", used);
        set_measured(arena, card, &queue->nodes.v[at].cards[i]);
        json_set_bool(arena, card, "declared", node->gpus[i].declared);
        json_set_bool(arena, card, "failed", node->gpus[i].failed);
        json_set(arena, card, "jobs", *jobs);
    }
}

struct json *queue_nodes(struct queue *queue, struct arena *arena)
{
    struct json *out = json_new_object(arena), *list = json_set_array(arena, out, "nodes");

    for (uint32_t i = 0; i < queue->cluster.node_count; i++)
        if (store_get(queue->store, KIND_NODE, "", queue->nodes.v[i].name))
            node_json(queue, i, arena, json_push_object(arena, list));
    return out;
}
