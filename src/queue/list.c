/* The whole queue, the cards, what there is in all. */
#include "queue/internal.h"

struct listed {
    struct json *row;
    int order; /* 0 runs, 1 waits, 2 the rest */
    int64_t by;
    const char *name;
};

static int by_place(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;

    if (x->order != y->order)
        return x->order - y->order;
    if (x->by != y->by)
        return x->by < y->by ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool state_wanted(const char *const *states, const char *state, enum phase phase)
{
    if (!states)
        return !phase_is_over(phase);
    for (; *states; states++)
        if (streq(*states, state))
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

static void add_row(struct queue *queue, const struct identity *who, const struct queue_filter *filter,
                    const char *uid, struct arena *arena, struct listed *list, size_t *len)
{
    struct json *row = row_json(queue, who, uid, arena);
    const char *state = json_get_string(row, "state");
    enum phase phase = PHASE_PENDING;
    const struct json *ordinal = json_get(row, "globalOrdinal");

    if (!row)
        return;
    (void)phase_find(state, &phase);
    if ((filter && filter->user && !streq(filter->user, json_get_string(row, "user"))) ||
        !state_wanted(filter ? filter->states : NULL, state, phase))
        return;
    list[(*len)++] = (struct listed){
        .row = row,
        .order = phase_holds(phase)        ? 0
                 : phase_is_waiting(phase) ? 1
                                           : 2,
        .by = phase_holds(phase) ? (int64_t)((json_is(ordinal, JSON_REAL) ? ordinal->real : 0) * 1000)
                                 : json_int(json_get(row, "position"), INT32_MAX),
        .name = json_string_or(json_get(row, "name"), ""),
    };
}

struct json *queue_list(struct queue *queue, const struct identity *who, const struct queue_filter *filter,
                        struct arena *arena)
{
    static const char *const preemptions[] = {
        [PREEMPTION_AUTO] = "auto", [PREEMPTION_ASK] = "ask", [PREEMPTION_OFF] = "off"};
    struct store_slice jobs = store_list(queue->store, KIND_JOB, NULL);
    struct json *out = json_new_object(arena), *rows;
    size_t len = 0, most = map_len(queue->units) + jobs.len + 1;
    struct listed *list = mem_zalloc(sizeof(*list) * most);

    UNITS_EACH(queue, it)
        if (!it->job)
            add_row(queue, who, filter, it->uid, arena, list, &len);
    OBJECTS_EACH(jobs, it)
        if (!phase_is_over(row_phase(queue, (*it)->uid)))
            add_row(queue, who, filter, (*it)->uid, arena, list, &len);
    qsort(list, len, sizeof(*list), by_place);
    json_set_int(arena, out, "revision", (int64_t)queue->revision);
    json_set_ms(arena, out, "time", queue_now(queue));
    json_set_string(arena, out, "policy", sched_policy_name(queue->policy));
    json_set_string(arena, out, "preemption", preemptions[queue->config.preemption]);
    json_set(arena, out, "capacity", *queue_capacity(queue, arena));
    rows = json_set_array(arena, out, "jobs");
    for (size_t i = 0; i < len; i++)
        json_push(arena, rows, *list[i].row);
    free(list);
    return out;
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
