#include "kubelet.h"

#include "base/str.h"
#include "control/pod_state.h"
#include "control/util.h"
#include "loop/loop.h"
#include "queue/queue.h"
#include "script.h"

#include <inttypes.h>
#include <stdio.h>

struct kubelet *kubelet_new(struct world *world)
{
    struct kubelet *kubelet = NEW(struct kubelet);

    kubelet->world = world;
    return kubelet;
}

void kubelet_free(struct kubelet *kubelet)
{
    if (!kubelet)
        return;
    VEC_EACH(&kubelet->boxes, it)
        free(*it);
    vec_done(&kubelet->boxes);
    free(kubelet);
}

bool box_alive(const struct box *box)
{
    return box->state == BOX_RUNNING || box->state == BOX_LEAVING;
}

struct box *kubelet_box(const struct kubelet *kubelet, const char *pod_uid)
{
    VEC_EACH(&kubelet->boxes, it)
        if (streq((*it)->uid, pod_uid))
            return *it;
    return NULL;
}

bool kubelet_alive(const struct kubelet *kubelet, const char *pod_uid)
{
    const struct box *box = kubelet_box(kubelet, pod_uid);

    return box && box->state != BOX_ENDED;
}

/* ---- nodes ---- */

static int write_object(struct kubelet *kubelet, const struct object *object, registry_edit edit, void *arg)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {
        .arena = &arena, .failure = &failure, .manager = "kubelet", .keep_generation = true};
    struct written written;

    return registry_edit_object(kubelet->world->registry, &write, object, edit, arg, &written);
}

static bool edit_ready(void *arg, struct arena *arena, struct json *doc)
{
    const char *ready = arg;

    return condition_set(arena, json_need_object(arena, doc, "status"), "Ready", ready,
                         streq(ready, "True") ? "KubeletReady" : "NodeStatusUnknown", NULL, clock_now());
}

static void node_name(int64_t node, char name[16])
{
    snprintf(name, 16, "lab%d", (int)node);
}

static void say_ready(struct kubelet *kubelet, int64_t node, bool ready)
{
    const struct object *object;
    char name[16];

    node_name(node, name);
    object = store_get(kubelet->world->store, KIND_NODE, "", name);
    if (object)
        write_object(kubelet, object, edit_ready, (char *)(ready ? "True" : "Unknown"));
}

/* What the node says of its cards, in the arena. */
static char *cards_text(const struct kubelet *kubelet, int64_t node, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (int64_t i = 0; i < kubelet->world->lab.gpus; i++)
        buf_printf(&text, "%s{\"index\":%d,\"uuid\":\"GPU-%d-%d\",\"mib\":%d%s}", i ? "," : "[", (int)i,
                   (int)node, (int)i, WORLD_CARD_MIB,
                   kubelet->nodes[node].failed[i] ? ",\"failed\":true" : "");
    buf_putc(&text, ']');
    return arena_strndup(arena, text.data, text.len);
}

static bool edit_cards(void *arg, struct arena *arena, struct json *doc)
{
    annotation_set(arena, doc, NODE_CARDS_ANNOTATION, arg);
    return true;
}

static void say_cards(struct kubelet *kubelet, int64_t node)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *object;
    char name[16];

    node_name(node, name);
    object = store_get(kubelet->world->store, KIND_NODE, "", name);
    if (object)
        write_object(kubelet, object, edit_cards, cards_text(kubelet, node, &arena));
}

static void make_node(struct kubelet *kubelet, int64_t node)
{
    struct world *world = kubelet->world;
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "kubelet"};
    struct json *doc = json_new_object(&arena), *meta, *status, *can;
    struct written written;
    char name[16];

    node_name(node, name);
    if (store_get(world->store, KIND_NODE, "", name))
        return;
    meta = json_set_object(&arena, doc, "metadata");
    json_set_string(&arena, meta, "name", name);
    annotation_set(&arena, doc, NODE_CARDS_ANNOTATION, cards_text(kubelet, node, &arena));
    status = json_set_object(&arena, doc, "status");
    can = json_set_object(&arena, status, "allocatable");
    json_set_string(&arena, can, "cpu", "64");
    json_set_string(&arena, can, "memory", "512Gi");
    json_set_string(&arena, can, "pods", "500");
    json_set_string(&arena, can, GPU_RESOURCE, arena_printf(&arena, "%d", (int)world->lab.gpus));
    condition_set(&arena, status, "Ready", "True", "KubeletReady", NULL, clock_now());
    if (registry_create(world->registry, &write, kind_by_id(KIND_NODE), "", doc, &written) < 0) {
        fprintf(stderr, "world: node: %s\n", failure.message);
        abort();
    }
    /* status comes by itself, as a kubelet's does */
    write_object(kubelet, written.object, edit_ready, (char *)"True");
}

void kubelet_measure(struct kubelet *kubelet)
{
    struct world *world = kubelet->world;

    for (int64_t node = 0; node < world->lab.nodes; node++) {
        struct queue_card cards[CARDS_MAX];
        char name[16];

        node_name(node, name);
        for (int64_t i = 0; i < world->lab.gpus; i++)
            cards[i] = (struct queue_card){.card = (uint32_t)i,
                                           .used_mib = -1,
                                           .busy_percent = -1,
                                           .failed = kubelet->nodes[node].failed[i]};
        say_cards(kubelet, node);
        queue_measured(world->queue, name, cards, (size_t)world->lab.gpus, NULL, 0);
    }
}

/* ---- boxes ---- */

void box_end(struct kubelet *kubelet, struct box *box, int code)
{
    struct world_job *job = world_job(kubelet->world, box->job);

    if (box->state == BOX_ENDED)
        return;
    if (job && code != 0 && !box->term && !box->lost && box_alive(box))
        job->failed++;
    world_note(kubelet->world, "%s ends with %d%s", box->name, code, box->lost ? " (lost)" : "");
    box->state = BOX_ENDED;
    box->exit_code = code;
    box->next_ms = INT64_MAX;
    box->since_ms = world_ms(kubelet->world);
    box->dirty = true;
    kubelet->changes++;
}

static void box_runs(struct kubelet *kubelet, struct box *box)
{
    struct world_job *job = world_job(kubelet->world, box->job);

    box->state = BOX_RUNNING;
    box->since_ms = box->started_ms = world_ms(kubelet->world);
    box->dirty = true;
    kubelet->changes++;
    kubelet->starts++;
    if (job)
        job->ran++;
    world_note(kubelet->world, "%s runs", box->name);
    script_begin(kubelet, box);
}

static void box_stuck(struct kubelet *kubelet, struct box *box)
{
    box->state = BOX_STUCK;
    box->next_ms = INT64_MAX;
    box->since_ms = world_ms(kubelet->world);
    box->dirty = true;
    kubelet->changes++;
    world_note(kubelet->world, "%s cannot start", box->name);
}

static bool never_starts(const struct act *act)
{
    return act->fault == FAULT_IMAGE || act->fault == FAULT_CLAIM;
}

static void box_step(struct kubelet *kubelet, struct box *box)
{
    const struct world_job *job = world_job(kubelet->world, box->job);

    switch (box->state) {
    case BOX_PULLING:
        if (job && never_starts(&job->act))
            box_stuck(kubelet, box);
        else
            box_runs(kubelet, box);
        break;
    case BOX_RUNNING:
        script_step(kubelet, box);
        break;
    case BOX_LEAVING:
        box_end(kubelet, box, box->training || !box->term ? 0 : 143);
        break;
    default:
        break;
    }
}

static void read_training(struct kubelet *kubelet, struct box *box, const struct json *doc,
                          const struct object *pod)
{
    const struct json *owner = json_at(doc, "metadata.ownerReferences.0");

    (void)kubelet;
    (void)pod;
    if (!streq(json_get_string(owner, "kind"), "TrainingJob"))
        return;
    box->training = true;
    snprintf(box->owner, sizeof(box->owner), "%s", json_string_or(json_get(owner, "uid"), ""));
    script_read(box, doc);
}

static void box_new(struct kubelet *kubelet, const struct object *pod, const struct json *doc, int64_t node)
{
    struct world *world = kubelet->world;
    struct box *box = NEW(struct box);
    const struct world_job *job;

    snprintf(box->uid, sizeof(box->uid), "%s", pod->uid);
    snprintf(box->ns, sizeof(box->ns), "%s", pod->ns);
    snprintf(box->name, sizeof(box->name), "%s", pod->name);
    box->job = world_number(pod->name);
    box->node = node;
    cards_read(annotation_get(doc, CARDS_ANNOTATION), box->cards, &box->card_count);
    read_training(kubelet, box, doc, pod);
    job = world_job(world, box->job);
    box->since_ms = world_ms(world);
    box->next_ms = box->since_ms + (job ? job->act.pull_s : 1) * 1000;
    if (job && never_starts(&job->act))
        box->next_ms = box->since_ms + KUBELET_STUCK_MS;
    box->dirty = true;
    vec_push(&kubelet->boxes, box);
    kubelet->changes++;
    world_note(world, "lab%d takes %s", (int)node, box->name);
}

static void box_term(struct kubelet *kubelet, struct box *box, const struct json *doc)
{
    const struct world_job *job = world_job(kubelet->world, box->job);
    int64_t now = world_ms(kubelet->world), leave = job ? job->act.leave_s * 1000 : 0;
    int64_t grace = json_int(json_at(doc, "metadata.deletionGracePeriodSeconds"), 30) * 1000;

    if (box->term) {
        if (now + grace < box->kill_ms)
            box->kill_ms = now + grace;
        return;
    }
    box->term = true;
    box->kill_ms = now + grace;
    kubelet->changes++;
    if (box->state == BOX_PULLING || box->state == BOX_STUCK) {
        box_end(kubelet, box, 137);
    } else if (box->state == BOX_RUNNING && !(job && job->act.fault == FAULT_DEAF)) {
        box->state = BOX_LEAVING;
        box->next_ms = now + leave;
    }
    box->dirty = true;
}

/* ---- what the daemon says ---- */

static int64_t node_of(const struct json *doc)
{
    const char *name = json_at_string(doc, "spec.nodeName");

    return name && starts_with(name, "lab") && name[3] >= '0' && name[3] < '0' + STORY_NODES ? name[3] - '0'
                                                                                             : -1;
}

static bool cut_off(const struct kubelet *kubelet, int64_t node)
{
    return kubelet->nodes[node].back_ms != 0;
}

static void see_pod(struct kubelet *kubelet, const struct object *pod)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(pod, &arena);
    struct box *box = kubelet_box(kubelet, pod->uid);
    int64_t node = node_of(doc);

    if (box && node < 0) { /* its place was taken back */
        box->gone = true;
        box_end(kubelet, box, 137);
        return;
    }
    if (node < 0 || cut_off(kubelet, node))
        return;
    if (!box && !pod_is_over(doc) && !pod->deleting) {
        box_new(kubelet, pod, doc, node);
    } else if (pod->deleting) {
        if (!box) { /* it has never heard of it, or forgot it */
            box_new(kubelet, pod, doc, node);
            box = kubelet_box(kubelet, pod->uid);
        }
        box_term(kubelet, box, doc);
        box->dirty = true;
    }
}

static void on_pod(void *arg, const struct store_event *event)
{
    struct kubelet *kubelet = arg;
    struct box *box = kubelet_box(kubelet, event->object->uid);

    if (event->op != STORE_DELETED) {
        see_pod(kubelet, event->object);
        return;
    }
    if (!box)
        return;
    box->gone = true;
    if (!cut_off(kubelet, box->node))
        box_end(kubelet, box, 137);
}

void kubelet_up(struct kubelet *kubelet)
{
    struct world *world = kubelet->world;
    struct err err = {0};

    for (int64_t i = 0; i < world->lab.nodes; i++)
        make_node(kubelet, i);
    if (store_watch(world->store, KIND_POD, NULL, store_revision(world->store), on_pod, NULL, kubelet,
                    &kubelet->watch, &err) < 0)
        abort();
    VEC_EACH(&kubelet->boxes, it) {
        (*it)->asking = false;
        (*it)->dirty = true;
        if (!store_by_uid(world->store, (*it)->uid)) {
            (*it)->gone = true;
            if (!cut_off(kubelet, (*it)->node))
                box_end(kubelet, *it, 137);
        }
    }
    OBJECTS_EACH(store_list(world->store, KIND_POD, NULL), it)
        see_pod(kubelet, *it);
}

void kubelet_down(struct kubelet *kubelet)
{
    store_unwatch(TAKE_PTR(kubelet->watch));
}

/* ---- reports ---- */

static void set_time(struct arena *arena, struct json *object, const char *key, int64_t now)
{
    char text[CLOCK_TEXT_MAX];

    json_set_string(arena, object, key, clock_format(now, text));
}

static void write_state(const struct box *box, struct arena *arena, struct json *state)
{
    char text[POD_STATE_TEXT_MAX];
    struct json *part;

    if (box->state == BOX_PULLING || box->state == BOX_STUCK) {
        part = json_set_object(arena, state, "waiting");
        pod_state_pulling_text("x", -1, text);
        json_set_string(arena, part, "reason",
                        box->state == BOX_STUCK ? "ImagePullBackOff" : "ContainerCreating");
        json_set_string(arena, part, "message",
                        box->state == BOX_STUCK ? "Back-off pulling image \"x\": not found" : text);
    } else if (box_alive(box)) {
        set_time(arena, json_set_object(arena, state, "running"), "startedAt", clock_now());
    } else {
        part = json_set_object(arena, state, "terminated");
        json_set_int(arena, part, "exitCode", box->exit_code);
        json_set_string(arena, part, "reason", box->exit_code ? "Error" : "Completed");
        set_time(arena, part, "startedAt", clock_now());
        set_time(arena, part, "finishedAt", clock_now());
    }
}

static const char *phase_of(const struct box *box)
{
    if (box_alive(box))
        return "Running";
    if (box->state != BOX_ENDED)
        return "Pending";
    return box->exit_code || box->lost ? "Failed" : "Succeeded";
}

static bool edit_status(void *arg, struct arena *arena, struct json *doc)
{
    const struct box *box = arg;
    struct json *status = json_need_object(arena, doc, "status"), *one;
    const char *phase = phase_of(box), *was = json_get_string(status, "phase");
    bool stuck = box->state == BOX_STUCK;

    if (pod_phase_is_over(was))
        return false;
    if (streq(phase, was) && json_get(status, "containerStatuses") &&
        streq(json_at_string(status, "containerStatuses.0.state.waiting.reason"), "ImagePullBackOff") ==
            stuck)
        return false;
    json_set_string(arena, status, "phase", phase);
    if (box->lost && box->state == BOX_ENDED)
        json_set_string(arena, status, "reason", "NodeReboot");
    one = json_push_object(arena, json_set_array(arena, status, "containerStatuses"));
    json_set_string(arena, one, "name", json_string_or(json_at(doc, "spec.containers.0.name"), "c"));
    json_set_int(arena, one, "restartCount", 0);
    json_set_bool(arena, one, "ready", box_alive(box));
    json_set_string(arena, one, "image", "x");
    json_set_string(arena, one, "imageID", "");
    write_state(box, arena, json_set_object(arena, one, "state"));
    condition_set(arena, status, "Ready", box_alive(box) ? "True" : "False", NULL, NULL, clock_now());
    if (stuck || condition_is(status, POD_CANNOT_START, "True"))
        condition_set(arena, status, POD_CANNOT_START, stuck ? "True" : "False", "ImagePullBackOff",
                      "Back-off pulling image \"x\": not found", clock_now());
    return true;
}

static void delete_pod(struct kubelet *kubelet, const struct box *box)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "kubelet"};
    struct delete_options options = {.has_grace = true, .uid = box->uid};
    struct written written;

    registry_delete(kubelet->world->registry, &write, kind_by_id(KIND_POD), box->ns, box->name, &options,
                    &written);
}

struct report {
    struct kubelet *kubelet;
    char uid[64];
};

static void reported(void *arg, const struct err *err)
{
    struct report *report = arg;
    struct box *box = kubelet_box(report->kubelet, report->uid);

    if (box && err)
        box->dirty = true;
    free(report);
}

static void box_report(struct kubelet *kubelet, struct box *box)
{
    const struct object *pod = store_by_uid(kubelet->world->store, box->uid);
    struct report *report;

    box->dirty = false;
    if (box->gone)
        return;
    if (!pod) {
        box->gone = box->gone || box->state == BOX_ENDED;
        return;
    }
    write_object(kubelet, pod, edit_status, box);
    if (box->state == BOX_ENDED && pod->deleting)
        delete_pod(kubelet, box);
    report = NEW(struct report);
    report->kubelet = kubelet;
    snprintf(report->uid, sizeof(report->uid), "%s", box->uid);
    store_defer(kubelet->world->store, reported, report);
}

/* ---- time ---- */

static int64_t node_next(const struct node_truth *node)
{
    if (!node->back_ms)
        return INT64_MAX;
    if (!node->said_gone && node->down_ms + KUBELET_NODE_GONE_MS < node->back_ms)
        return node->down_ms + KUBELET_NODE_GONE_MS;
    if (node->reboot && !node->said_lost && node->down_ms + KUBELET_PODS_GONE_MS < node->back_ms)
        return node->down_ms + KUBELET_PODS_GONE_MS;
    return node->back_ms;
}

int64_t kubelet_next(const struct kubelet *kubelet)
{
    int64_t next = INT64_MAX;

    VEC_EACH(&kubelet->boxes, it) {
        const struct box *box = *it;

        if (cut_off(kubelet, box->node) && box->lost)
            continue;
        if (box->next_ms < next && !box->asking)
            next = box->next_ms;
        if (box->term && box->state != BOX_ENDED && box->kill_ms < next)
            next = box->kill_ms;
    }
    for (int64_t i = 0; i < kubelet->world->lab.nodes; i++)
        if (node_next(&kubelet->nodes[i]) < next && (kubelet->world->up || !kubelet->nodes[i].back_ms))
            next = node_next(&kubelet->nodes[i]);
    return next;
}

static void boxes_lost(struct kubelet *kubelet, int64_t node)
{
    VEC_EACH(&kubelet->boxes, it)
        if ((*it)->node == node && (*it)->state != BOX_ENDED) {
            (*it)->lost = true;
            box_end(kubelet, *it, 137);
        }
}

/* What whoever watches over the nodes says of one that is away. */
static void node_run(struct kubelet *kubelet, int64_t at, int64_t now)
{
    struct node_truth *node = &kubelet->nodes[at];

    if (!node->back_ms || !kubelet->world->up)
        return;
    if (now >= node->back_ms) {
        world_note(kubelet->world, "lab%d is back", (int)at);
        node->back_ms = 0;
        kubelet->faults++;
        say_ready(kubelet, at, true);
        VEC_EACH(&kubelet->boxes, it)
            (*it)->dirty = true;
        OBJECTS_EACH(store_list(kubelet->world->store, KIND_POD, NULL), it)
            see_pod(kubelet, *it);
        kubelet->changes++;
    } else if (!node->said_gone && now >= node->down_ms + KUBELET_NODE_GONE_MS) {
        node->said_gone = true;
        say_ready(kubelet, at, false);
    } else if (node->reboot && !node->said_lost && now >= node->down_ms + KUBELET_PODS_GONE_MS) {
        node->said_lost = true;
        VEC_EACH(&kubelet->boxes, it)
            (*it)->dirty = (*it)->dirty || (*it)->node == at;
    }
}

static void sweep(struct kubelet *kubelet)
{
    size_t kept = 0;

    VEC_EACH(&kubelet->boxes, it) {
        if ((*it)->gone && (*it)->state == BOX_ENDED)
            free(*it);
        else
            kubelet->boxes.v[kept++] = *it;
    }
    kubelet->boxes.len = kept;
}

void kubelet_run(struct kubelet *kubelet)
{
    int64_t now = world_ms(kubelet->world);

    for (int64_t i = 0; i < kubelet->world->lab.nodes; i++)
        node_run(kubelet, i, now);
    for (size_t i = 0; i < kubelet->boxes.len; i++) {
        struct box *box = kubelet->boxes.v[i];

        if (box->term && box->state != BOX_ENDED && now >= box->kill_ms && !cut_off(kubelet, box->node))
            box_end(kubelet, box, 137);
        else if (now >= box->next_ms && !box->asking)
            box_step(kubelet, box);
    }
    for (size_t i = 0; i < kubelet->boxes.len && kubelet->world->up; i++) {
        struct box *box = kubelet->boxes.v[i];
        const struct node_truth *node = &kubelet->nodes[box->node];

        if (box->dirty && (!node->back_ms || node->said_lost))
            box_report(kubelet, box);
    }
    sweep(kubelet);
}

void kubelet_node(struct kubelet *kubelet, const struct act *act)
{
    struct node_truth *node = &kubelet->nodes[act->node];

    if (act->node >= kubelet->world->lab.nodes || node->back_ms)
        return;
    node->down_ms = world_ms(kubelet->world);
    node->back_ms = node->down_ms + act->down_s * 1000 + 1;
    node->reboot = act->n != 0;
    node->said_gone = node->said_lost = false;
    kubelet->changes++;
    kubelet->faults++;
    if (node->reboot)
        boxes_lost(kubelet, act->node);
}

void kubelet_card(struct kubelet *kubelet, const struct act *act)
{
    struct world *world = kubelet->world;

    if (act->node >= world->lab.nodes || act->card >= world->lab.gpus)
        return;
    kubelet->nodes[act->node].failed[act->card] = act->n != 0;
    kubelet->changes++;
    kubelet->faults++;
    if (world->up)
        kubelet_measure(kubelet);
}
