/* The whole queue, the cards, what there is in all. */
#include "queue/internal.h"

struct listed {
    struct row_place place;
    size_t from, len; /* of the text */
};

/* What runs, what waits, the rest. */
static int order_of(enum phase phase)
{
    return phase_holds(phase) ? 0 : phase_is_waiting(phase) ? 1 : 2;
}

static int by_place(const void *a, const void *b)
{
    const struct row_place *x = &((const struct listed *)a)->place, *y = &((const struct listed *)b)->place;

    if (order_of(x->phase) != order_of(y->phase))
        return order_of(x->phase) - order_of(y->phase);
    if (x->by != y->by)
        return x->by < y->by ? -1 : 1;
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

struct json *queue_capacity(struct queue *queue, struct arena *arena)
{
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
    UNITS_EACH(queue, it) {
        waiting += phase_is_waiting(unit_w(it)->phase);
        running += phase_holds(unit_w(it)->phase);
        if (phase_holds(unit_w(it)->phase))
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

struct listing {
    struct queue *queue;
    const struct identity *who;
    const struct queue_filter *filter;
    struct arena arena; /* of one row */
    struct buf text;
    VEC(struct listed) rows;
};

static void add_row(struct listing *l, const char *uid, const char *user, enum phase phase)
{
    const struct queue_filter *filter = l->filter;
    struct listed row = {.from = l->text.len};

    if ((filter && filter->user && !streq(filter->user, user)) ||
        !state_wanted(filter ? filter->states : NULL, phase))
        return;
    if (!row_write(l->queue, l->who, uid, &l->arena, &l->text, &row.place))
        return;
    row.len = l->text.len - row.from;
    vec_push(&l->rows, row);
    arena_reset(&l->arena);
}

/* Whose a Job is: of one with pods its pods', which a label may have given to somebody. */
static const char *job_user(struct listing *l, const struct object *job)
{
    const struct unit *unit = unit_of_job(l->queue, job->uid);

    return unit ? unit_w(unit)->user : work_user(object_json(job, &l->arena));
}

static void add_rows(struct listing *l)
{
    struct queue *queue = l->queue;

    UNITS_EACH(queue, it)
        if (!it->job && it->life)
            add_row(l, it->uid, unit_w(it)->user, unit_w(it)->phase);
    OBJECTS_EACH(store_list(queue->store, KIND_JOB, NULL), it) {
        enum phase phase = row_phase(queue, (*it)->uid);

        if (!phase_is_over(phase))
            add_row(l, (*it)->uid, job_user(l, *it), phase);
    }
}

void queue_list(struct queue *queue, const struct identity *who, const struct queue_filter *filter,
                struct buf *out)
{
    static const char *const preemptions[] = {
        [PREEMPTION_AUTO] = "auto", [PREEMPTION_ASK] = "ask", [PREEMPTION_OFF] = "off"};
    struct listing l = {.queue = queue, .who = who, .filter = filter};
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *head = json_new_object(&arena);

    add_rows(&l);
    if (l.rows.len)
        qsort(l.rows.v, l.rows.len, sizeof(*l.rows.v), by_place);
    json_set_int(&arena, head, "revision", (int64_t)queue->revision);
    json_set_ms(&arena, head, "time", queue_now(queue));
    json_set_string(&arena, head, "policy", sched_policy_name(queue->policy));
    json_set_string(&arena, head, "preemption", preemptions[queue->config.preemption]);
    json_set(&arena, head, "capacity", *queue_capacity(queue, &arena));
    json_write(out, head);
    out->len--; /* the closing brace */
    buf_puts(out, ",\"jobs\":[");
    for (size_t i = 0; i < l.rows.len; i++) {
        if (i)
            buf_putc(out, ',');
        buf_add(out, l.text.data + l.rows.v[i].from, l.rows.v[i].len);
    }
    buf_puts(out, "]}");
    arena_done(&l.arena);
    buf_done(&l.text);
    vec_done(&l.rows);
}

struct json *queue_list_json(struct queue *queue, const struct identity *who,
                             const struct queue_filter *filter, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = NULL;

    queue_list(queue, who, filter, &text);
    (void)json_parse(buf_view(&text), arena, &doc, NULL, NULL);
    return doc;
}

/* ---- nodes ---- */

static int64_t card_jobs(struct queue *queue, uint32_t node, uint32_t card, struct arena *arena,
                         struct json *jobs)
{
    const struct node *of = &queue->cluster.nodes[node];
    int64_t used = 0;

    UNITS_EACH(queue, it)
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

    UNITS_EACH(queue, it)
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
