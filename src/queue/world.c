/* Nodes as sched sees them. A node keeps its place for good; one whose object has gone takes no new work. */
#include "control/affinity.h"
#include "control/util.h"
#include "queue/internal.h"

#define TAINT_LABEL  "berth.dev/-taints" /* no label can be called that */
#define TAINT_NONE   "none"
#define NODE_LABEL   "berth.dev/-node" /* its name */
#define NODE_NONE    "-"               /* no node is called that */
#define CARD_MIB     16384             /* of a card of which only the number is known */
#define SELECTOR_MAX 64

uint32_t world_node(const struct queue *queue, const char *name)
{
    for (uint32_t i = 0; name && i < queue->nodes.len; i++)
        if (streq(queue->nodes.v[i].name, name))
            return i;
    return SCHED_NONE;
}

static bool keeps_out(const struct json *taint)
{
    const char *effect = json_string_or(json_get(taint, "effect"), "");

    return (streq(effect, "NoSchedule") || streq(effect, "NoExecute")) &&
           !starts_with(json_string_or(json_get(taint, "key"), ""), "node.kubernetes.io/");
}

/* The taints of a node that keep pods out, as one text. */
static const char *taints_text(struct arena *arena, const struct json *node)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_at(node, "spec.taints"), it)
        if (keeps_out(it))
            buf_printf(&text, "%s%s=%s:%s", text.len ? ";" : "", json_string_or(json_get(it, "key"), ""),
                       json_string_or(json_get(it, "value"), ""), json_string_or(json_get(it, "effect"), ""));
    return text.len ? arena_strndup(arena, text.data, text.len) : TAINT_NONE;
}

static void read_labels(struct arena *arena, const struct json *doc, struct node *node)
{
    const struct json *labels = json_at(doc, "metadata.labels");
    struct label *v = arena_alloc(arena, sizeof(*v) * (json_len(labels) + 2));

    JSON_EACH_MEMBER(labels, it) {
        v[node->labels.len++] =
            (struct label){arena_strdup(arena, it->key), arena_strdup(arena, json_string_or(&it->value, ""))};
    }
    v[node->labels.len++] = (struct label){TAINT_LABEL, taints_text(arena, doc)};
    v[node->labels.len++] = (struct label){NODE_LABEL, node->name};
    node->labels.v = v;
}

static void read_cards(struct arena *arena, const struct json *doc, struct node *node)
{
    const char *text = json_get_string(json_at(doc, "metadata.annotations"), QUEUE_NODE_ANNOTATION);
    int64_t count = amount_of(json_get(json_at(doc, "status.allocatable"), QUEUE_GPU), false);
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
    while (node->gpu_count < (uint32_t)count && node->gpu_count < NODE_GPUS_MAX)
        cards[node->gpu_count++] = (struct gpu){.mem_mib = CARD_MIB};
    node->gpus = cards;
}

static void read_node(struct queue *queue, uint32_t i, const struct json *doc, struct arena *arena,
                      struct node *node)
{
    struct queue_node *of = &queue->nodes.v[i];

    of->ready = doc && condition_is(json_get(doc, "status"), "Ready", "True");
    node->name = of->name;
    node->unschedulable = !of->ready || json_bool(json_at(doc, "spec.unschedulable"));
    if (!doc)
        return;
    read_labels(arena, doc, node);
    read_cards(arena, doc, node);
    node->capacity.cpu_milli = amount_of(json_at(doc, "status.allocatable.cpu"), true);
    node->capacity.mem_mib = amount_of(json_at(doc, "status.allocatable.memory"), false) >> 20;
    JSON_EACH(json_at(doc, "status.addresses"), it)
        if (streq(json_get_string(it, "type"), "InternalIP"))
            set_string(&of->address, json_get_string(it, "address"));
}

/* What of a node's object sched goes by, to tell a change from a heartbeat. */
static char *facts_of(const struct json *doc, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (doc) {
        buf_printf(&text, "%d %d %s ", condition_is(json_get(doc, "status"), "Ready", "True"),
                   json_bool(json_at(doc, "spec.unschedulable")), taints_text(arena, doc));
        json_write_sorted(&text, json_at(doc, "metadata.labels"));
        json_write_sorted(&text, json_at(doc, "status.allocatable"));
        json_write_sorted(&text, json_get(json_at(doc, "metadata.annotations"), QUEUE_NODE_ANNOTATION));
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
        if (queue->live)
            live_cluster(queue->live, &queue->cluster);
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

uint32_t queue_largest_card(const struct queue *queue)
{
    return cluster_largest_card(&queue->cluster);
}

/* ---- selectors ---- */

static bool tolerates(const struct json *spec, const struct json *taint)
{
    const char *key = json_string_or(json_get(taint, "key"), "");
    const char *effect = json_string_or(json_get(taint, "effect"), "");

    JSON_EACH(json_get(spec, "tolerations"), it) {
        const char *its_key = json_string_or(json_get(it, "key"), "");
        const char *its_effect = json_string_or(json_get(it, "effect"), "");
        bool exists = streq(json_string_or(json_get(it, "operator"), "Equal"), "Exists");

        if (*its_effect && !streq(its_effect, effect))
            continue;
        if ((exists && !*its_key) ||
            (streq(its_key, key) && (exists || streq(json_string_or(json_get(it, "value"), ""),
                                                     json_string_or(json_get(taint, "value"), "")))))
            return true;
    }
    return false;
}

static bool tolerates_all(const struct json *spec, const struct json *node)
{
    JSON_EACH(json_at(node, "spec.taints"), it)
        if (keeps_out(it) && !tolerates(spec, it))
            return false;
    return true;
}

/* "none", or "none|TAINTS|…" with what is tolerated; NULL: no node has any. */
static char *tolerated(const struct queue *queue, const struct json *spec)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    bool any = false;

    buf_puts(&text, TAINT_NONE);
    OBJECTS_EACH(store_list(queue->store, KIND_NODE, NULL), it) {
        const struct json *node = object_json(*it, &arena);
        const char *taints = taints_text(&arena, node);

        if (streq(taints, TAINT_NONE))
            continue;
        any = true;
        if (tolerates_all(spec, node))
            buf_printf(&text, "|%s", taints);
    }
    return any ? buf_take(&text) : NULL;
}

/* "a|b": the nodes that a pod's required affinity takes; NULL: it has none. */
static char *wanted_nodes(const struct queue *queue, const struct json *pod)
{
    const struct json *terms = affinity_terms(pod);
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};

    if (!terms)
        return NULL;
    OBJECTS_EACH(store_list(queue->store, KIND_NODE, NULL), it)
        if (affinity_takes(terms, object_json(*it, &arena)))
            buf_printf(&text, "%s%s", text.len ? "|" : "", (*it)->name);
    if (!text.len)
        buf_puts(&text, NODE_NONE);
    return buf_take(&text);
}

size_t world_selector(const struct queue *queue, const struct json *doc, struct label **ret)
{
    const struct json *spec = json_get(doc, "spec"), *selector = json_get(spec, "nodeSelector");
    char *taints = tolerated(queue, spec), *nodes = wanted_nodes(queue, doc);
    size_t len = 0;

    *ret = NULL;
    if (json_len(selector) == 0 && !taints && !nodes)
        return 0;
    *ret = mem_zalloc(sizeof(**ret) * (SELECTOR_MAX + 2));
    JSON_EACH_MEMBER(selector, it)
        if (len < SELECTOR_MAX)
            (*ret)[len++] = (struct label){mem_strdup(it->key), mem_strdup(json_string_or(&it->value, ""))};
    if (taints)
        (*ret)[len++] = (struct label){mem_strdup(TAINT_LABEL), taints};
    if (nodes)
        (*ret)[len++] = (struct label){mem_strdup(NODE_LABEL), nodes};
    return len;
}

void selector_free(struct label *selector, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        free((char *)selector[i].key);
        free((char *)selector[i].value);
    }
    free(selector);
}
