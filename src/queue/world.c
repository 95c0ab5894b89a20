/* Nodes as sched sees them. A node keeps its place for good; one whose object has gone takes no new work. */
#include "control/affinity.h"
#include "control/training_check.h"
#include "control/util.h"
#include "queue/internal.h"

#define NODE_LABEL "berth.dev/-node" /* its name; no label can be called that */
#define NODE_NONE  "-"               /* no node is called that */
#define CARD_MIB   16384             /* of a card of which only the number is known */

uint32_t world_node(const struct queue *queue, const char *name)
{
    for (uint32_t i = 0; name && i < queue->nodes.len; i++)
        if (streq(queue->nodes.v[i].name, name))
            return i;
    return SCHED_NONE;
}

static void read_labels(struct arena *arena, const struct json *doc, struct node *node)
{
    const struct json *labels = json_at(doc, "metadata.labels");
    struct label *v = arena_alloc(arena, sizeof(*v) * (json_len(labels) + 1));

    JSON_EACH_MEMBER(labels, it) {
        v[node->labels.len++] =
            (struct label){arena_strdup(arena, it->key), arena_strdup(arena, json_string_or(&it->value, ""))};
    }
    v[node->labels.len++] = (struct label){NODE_LABEL, node->name};
    node->labels.v = v;
}

static void read_cards(struct arena *arena, const struct json *doc, struct node *node)
{
    const char *text = annotation_get(doc, NODE_CARDS_ANNOTATION);
    int64_t count = amount_of(json_get(json_at(doc, "status.allocatable"), GPU_RESOURCE), AMOUNT_ONES);
    struct gpu *cards = arena_zalloc(arena, sizeof(*cards) * NODE_GPUS_MAX);
    struct json *list = NULL;

    if (text && json_parse(str_from(text), arena, &list, NULL, NULL) == 0)
        JSON_EACH(list, it)
            if (node->gpu_count < NODE_GPUS_MAX)
                cards[node->gpu_count++] =
                    (struct gpu){.uuid = arena_strdup(arena, json_get_string(it, "uuid")),
                                 .model = arena_strdup(arena, json_get_string(it, "model")),
                                 .mem_mib = (uint32_t)json_int(json_get(it, "mib"), CARD_MIB),
                                 .declared = json_bool(json_get(it, "declared")),
                                 .failed = json_bool(json_get(it, "failed"))};
    while ((int64_t)node->gpu_count < count && node->gpu_count < NODE_GPUS_MAX)
        cards[node->gpu_count++] = (struct gpu){.mem_mib = CARD_MIB};
    node->gpus = cards;
}

static void read_node(struct queue *queue, uint32_t i, const struct json *doc, struct arena *arena,
                      struct node *node)
{
    struct queue_node *of = &queue->nodes.v[i];

    of->there = doc != NULL;
    of->ready = doc && condition_is(json_get(doc, "status"), "Ready", "True");
    node->name = of->name;
    node->unschedulable = !of->ready || json_bool(json_at(doc, "spec.unschedulable"));
    if (!doc)
        return;
    read_labels(arena, doc, node);
    read_cards(arena, doc, node);
    node->capacity.cpu_milli = amount_of(json_at(doc, "status.allocatable.cpu"), AMOUNT_MILLI);
    node->capacity.mem_mib = amount_of(json_at(doc, "status.allocatable.memory"), AMOUNT_MIB);
    JSON_EACH(json_at(doc, "status.addresses"), it)
        if (streq(json_get_string(it, "type"), "InternalIP"))
            set_string(&of->address, json_get_string(it, "address"));
}

/* What of a node's object sched goes by, to tell a change from a heartbeat. */
static char *facts_of(const struct json *doc, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (doc) {
        buf_printf(&text, "%d %d ", condition_is(json_get(doc, "status"), "Ready", "True"),
                   json_bool(json_at(doc, "spec.unschedulable")));
        json_write_sorted(&text, json_at(doc, "spec.taints"));
        json_write_sorted(&text, json_at(doc, "metadata.labels"));
        json_write_sorted(&text, json_at(doc, "status.allocatable"));
        json_write_sorted(&text, json_get(json_at(doc, "metadata.annotations"), NODE_CARDS_ANNOTATION));
        json_write_sorted(&text, json_at(doc, "status.addresses"));
    }
    return arena_strndup(arena, text.data ? text.data : "", text.len);
}

static void add_nodes(struct queue *queue)
{
    OBJECTS_EACH(store_list(queue->store, KIND_NODE, NULL), it)
        if (world_node(queue, (*it)->name) == SCHED_NONE) {
            struct queue_node node = {.name = mem_strdup((*it)->name)};

            for (size_t i = 0; i < NODE_GPUS_MAX; i++)
                node.cards[i] = (struct card_state){-1, -1};
            vec_push(&queue->nodes, node);
        }
}

bool world_read(struct queue *queue)
{
    CLEANUP(arena_done) struct arena scratch = {0};
    struct arena arena = {0};
    struct node *nodes;
    bool changed = queue->cluster.nodes == NULL;

    add_nodes(queue);
    nodes = arena_zalloc(&arena, sizeof(*nodes) * (queue->nodes.len + 1));
    for (uint32_t i = 0; i < queue->nodes.len; i++) {
        const struct object *object = store_get(queue->store, KIND_NODE, "", queue->nodes.v[i].name);
        const struct json *doc = object ? object_json(object, &scratch) : NULL;
        char *facts = facts_of(doc, &scratch);

        changed = changed || !streq(facts, queue->nodes.v[i].facts);
        set_string(&queue->nodes.v[i].facts, facts);
        read_node(queue, i, doc, &arena, &nodes[i]);
    }
    if (!changed) {
        arena_done(&arena);
        return false;
    }
    {
        struct arena old = queue->cluster_arena;

        queue->cluster_arena = arena;
        queue->world++;
        queue->cluster = (struct cluster){nodes, (uint32_t)queue->nodes.len};
        if (queue->life)
            life_cluster(queue->life, &queue->cluster);
        arena_done(&old);
    }
    return true;
}

void world_done(struct queue *queue)
{
    VEC_EACH(&queue->nodes, it) {
        free(it->name);
        free(it->facts);
        free(it->address);
    }
    vec_done(&queue->nodes);
    arena_done(&queue->cluster_arena);
}

uint32_t world_largest_node(const struct queue *queue)
{
    return cluster_largest_node(&queue->cluster);
}

void queue_room(const struct queue *queue, struct training_room *ret)
{
    const struct cluster *cluster = &queue->cluster;

    *ret = (struct training_room){.gpus = cluster_gpus(cluster),
                                  .largest_card_mib = cluster_largest_card(cluster)};
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct node *node = &cluster->nodes[i];

        ret->known |= queue->nodes.v[i].ready;
        if (node->capacity.cpu_milli > ret->cpu_milli) {
            ret->cpu_milli = node->capacity.cpu_milli;
            ret->cpu_node = node->name;
        }
        if (node->capacity.mem_mib > ret->mem_mib) {
            ret->mem_mib = node->capacity.mem_mib;
            ret->mem_node = node->name;
        }
    }
}

/* ---- selectors ---- */

/* "a|b": the nodes it takes; NULL: all there are. */
static char *taken_nodes(const struct queue *queue, const struct json *doc)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    bool all = true;

    OBJECTS_EACH(store_list(queue->store, KIND_NODE, NULL), it)
        if (affinity_takes(doc, object_json(*it, &arena)))
            buf_printf(&text, "%s%s", text.len ? "|" : "", (*it)->name);
        else
            all = false;
    if (!text.len)
        buf_puts(&text, NODE_NONE);
    return all ? NULL : buf_take(&text);
}

size_t world_selector(const struct queue *queue, const struct json *doc, struct label **ret)
{
    char *nodes = taken_nodes(queue, doc);

    *ret = NULL;
    if (!nodes)
        return 0;
    *ret = mem_zalloc(sizeof(**ret));
    **ret = (struct label){mem_strdup(NODE_LABEL), nodes};
    return 1;
}

void selector_free(struct label *selector, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free((char *)selector[i].key);
        free((char *)selector[i].value);
    }
    free(selector);
}
