/* The queue over a store in memory: who stands where, what is known of jobs that leave, who may what. */
#include "base/test/test.h"
#include "base/yaml.h"
#include "control/util.h"
#include "queue/internal.h"
#include "registry/access.h"

#define TURNS 200

struct fixture {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct queue *queue;
    struct arena arena;
    struct failure failure;
    struct identity admin, ann;
    const char *ns; /* where things are made; NULL: default */
    bool idle_node; /* nothing that is bound runs */
    bool alive;     /* processes of pods that have gone are still there, */
    char only[64];  /* … of this one alone; "": of all */
};

static bool edit_running(void *arg, struct arena *arena, struct json *doc)
{
    struct json *status = json_need_object(arena, doc, "status"), *container;
    char text[CLOCK_TEXT_MAX];

    if (!pod_is_bound(doc) || !streq(json_string_or(json_get(status, "phase"), "Pending"), "Pending"))
        return false;
    *(bool *)arg = true;
    json_set_string(arena, status, "phase", "Running");
    json_set_string(arena, status, "startTime", clock_format(clock_now(), text));
    container = json_push_object(arena, json_set_array(arena, status, "containerStatuses"));
    json_set_string(arena, container, "name", "c");
    json_set_string(arena, json_set_object(arena, json_set_object(arena, container, "state"), "running"),
                    "startedAt", clock_format(clock_now(), text));
    return true;
}

/* A stand-in for the node: what is bound runs. */
static bool run_pods(struct fixture *f)
{
    VEC(struct object *) pods = {0};
    bool any = false;

    OBJECTS_EACH(store_list(f->store, KIND_POD, NULL), it)
        if (!(*it)->deleting)
            vec_push(&pods, object_ref(*it));
    VEC_EACH(&pods, it) {
        if (!f->idle_node)
            edit_object(f->queue, *it, edit_running, &any, NULL);
        object_unref(*it);
    }
    vec_done(&pods);
    return any;
}

static void settle(struct fixture *f)
{
    for (int i = 0; i < TURNS; i++) {
        assert_int_equal(loop_turn(f->loop, 1, NULL), 0);
        if (store_durable(f->store) && !f->queue->working && i > 3 && !run_pods(f))
            return;
    }
}

static struct json *yaml(struct fixture *f, const char *text)
{
    struct err err = {0};
    struct json *doc = NULL;

    if (yaml_parse_one(str_from(text), &f->arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    return doc;
}

static int create_as(struct fixture *f, const struct identity *who, int kind, const char *text, char uid[64])
{
    const struct kind *of = kind_by_id(kind);
    struct write write = {.who = who, .arena = &f->arena, .failure = &f->failure};
    struct written written;

    f->failure = (struct failure){0};
    if (registry_create(f->registry, &write, of,
                        !of->namespaced ? ""
                        : f->ns         ? f->ns
                                        : "default",
                        yaml(f, text), &written) < 0)
        return -1;
    snprintf(uid, 64, "%s", written.object->uid);
    return 0;
}

static void create(struct fixture *f, int kind, const char *text, char uid[64])
{
    if (create_as(f, NULL, kind, text, uid) < 0)
        fail_msg("%s", f->failure.message);
}

static bool edit_status(void *arg, struct arena *arena, struct json *doc)
{
    json_set(arena, doc, "status", *json_copy(arena, arg));
    return true;
}

static void set_status(struct fixture *f, const char *uid, const char *text)
{
    assert_int_equal(
        edit_object(f->queue, store_by_uid(f->store, uid), edit_status, yaml(f, text), &f->failure), 0);
}

static void drop(struct fixture *f, const char *uid)
{
    const struct object *object = store_by_uid(f->store, uid);
    struct write write = {.arena = &f->arena, .failure = &f->failure};
    struct delete_options options = {.has_grace = true, .propagation = PROPAGATE_BACKGROUND};
    struct written written;

    assert_int_equal(
        registry_delete(f->registry, &write, object->kind, object->ns, object->name, &options, &written), 0);
}

static bool is_alive(void *arg, const char *pod_uid)
{
    const struct fixture *f = arg;

    return f->alive && (!f->only[0] || streq(f->only, pod_uid));
}

static void start(struct fixture *f)
{
    struct queue_config config = {.loop = f->loop, .registry = f->registry, .pod_alive = is_alive, .arg = f};

    assert_int_equal(queue_new(&config, &f->queue, NULL), 0);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    char uid[64];

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, NULL), 0);
    f->registry = registry_new(f->store);
    f->admin = (struct identity){
        .user = "system:admin", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};
    f->ann = (struct identity){.user = "ann", .groups = {"system:authenticated"}, .group_count = 1};
    create(f, KIND_NAMESPACE, "metadata: {name: default}", uid);
    create(f, KIND_NODE,
           "metadata: {name: lab, labels: {zone: a, size: '4'}, annotations: {berth.dev/cards: "
           "'[{\"index\":0,\"uuid\":\"G0\",\"mib\":8000},{\"index\":1,\"uuid\":\"G1\",\"mib\":8000}]'}}\n",
           uid);
    start(f);
    set_status(f, uid,
               "{conditions: [{type: Ready, status: 'True'}], allocatable: {cpu: '8', memory: 32Gi, "
               "nvidia.com/gpu: '2'}}");
    settle(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    queue_free(f->queue);
    registry_free(f->registry);
    store_close(f->store);
    loop_turn(f->loop, 0, NULL);
    loop_free(f->loop);
    arena_done(&f->arena);
    free(f);
    return 0;
}

/* The job as GET /v1/queue/ID has it. */
struct told {
    struct arena *arena;
    struct json *doc;
};

static void take_answer(void *arg, struct queue_answer *answer, const struct err *err)
{
    struct told *told = arg;

    if (err)
        fail_msg("%s", err->msg);
    assert_int_equal(json_parse(buf_view(&answer->text), told->arena, &told->doc, NULL, NULL), 0);
}

static struct json *show(struct fixture *f, const char *id)
{
    struct told told = {.arena = &f->arena};
    struct queue_reader reader = {"admin", take_answer, &told};
    struct queue_past *past;
    struct err err = {0};

    if (queue_show(f->queue, &f->admin, id, NULL, &reader, &past, &err) < 0)
        fail_msg("%s: %s", id, err.msg);
    assert_null(past); /* the store is in memory */
    return told.doc;
}

static void assert_state(struct fixture *f, const char *id, const char *state)
{
    assert_string_equal(json_get_string(show(f, id), "state"), state);
}

static double real_at(const struct json *doc, const char *key)
{
    const struct json *value = json_get(doc, key);

    return json_is(value, JSON_REAL) ? value->real : (double)json_int(value, -1);
}

#define TRAINING(name, more) "{metadata: {name: " name ", labels: {user: ann}}, spec: {image: x" more "}}"
#define POD(name, more)                                                                                      \
    "{metadata: {name: " name ", labels: {user: ann}}, spec: {containers: [{name: c, image: x, resources: "  \
    "{limits: {nvidia.com/gpu: 1}}}]" more "}}"

/* ---- those that leave ---- */

static void test_a_job_is_found_at_every_instant_of_its_end(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ""), uid);
    assert_state(f, uid, "Pending");
    settle(f);
    assert_state(f, "one", "Running");
    drop(f, uid);
    for (int i = 0; i < 20; i++) {
        show(f, uid);
        show(f, "default/one");
        loop_turn(f->loop, 1, NULL);
    }
    drop(f, store_get(f->store, KIND_POD, "default", "one-1")->uid); /* its processes have gone */
    for (int i = 0; i < 20; i++) {
        show(f, uid);
        show(f, "default/one");
        loop_turn(f->loop, 1, NULL);
    }
    assert_state(f, uid, "Cancelled");
    assert_state(f, "one", "Cancelled");
}

static void test_a_run_whose_pod_is_deleted_by_force_ends_with_its_processes(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ""), uid);
    settle(f);
    assert_state(f, "one", "Running");
    f->alive = true;
    drop(f, store_get(f->store, KIND_POD, "default", "one-1")->uid);
    settle(f);
    assert_state(f, "one", "Running"); /* its cards are not free yet */
    assert_true(loop_timer_active(f->queue->tick));
    f->alive = false;
    queue_on_tick(f->queue);
    settle(f);
    assert_state(f, "one", "Failed");
    assert_string_equal(json_get_string(show(f, "one"), "reason"), "its pod was deleted");
    assert_null(store_get(f->store, KIND_POD, "default", "one-2"));
    assert_int_equal(f->queue->asked, 0);
}

static void test_a_run_that_loses_one_of_its_pods_ends_as_a_whole(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_NODE,
           "metadata: {name: other, annotations: {berth.dev/cards: "
           "'[{\"index\":0,\"uuid\":\"G2\",\"mib\":8000},{\"index\":1,\"uuid\":\"G3\",\"mib\":8000}]'}}\n",
           uid);
    set_status(f, uid,
               "{conditions: [{type: Ready, status: 'True'}], allocatable: {cpu: '8', memory: 32Gi, "
               "nvidia.com/gpu: '2'}}");
    create(f, KIND_TRAINING_JOB, TRAINING("gang", ", minGPUs: 4, maxGPUs: 4"), uid);
    settle(f);
    assert_state(f, "gang", "Running");
    drop(f, store_get(f->store, KIND_POD, "default", "gang-1-1")->uid);
    settle(f);
    assert_true(store_get(f->store, KIND_POD, "default", "gang-1-0")->deleting);
    drop(f, store_get(f->store, KIND_POD, "default", "gang-1-0")->uid); /* its processes have gone */
    settle(f);
    assert_state(f, "gang", "Failed");
}

static void test_a_gang_ends_with_the_processes_of_all_its_pods(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_NODE,
           "metadata: {name: other, annotations: {berth.dev/cards: "
           "'[{\"index\":0,\"uuid\":\"G2\",\"mib\":8000},{\"index\":1,\"uuid\":\"G3\",\"mib\":8000}]'}}\n",
           uid);
    set_status(f, uid,
               "{conditions: [{type: Ready, status: 'True'}], allocatable: {cpu: '8', memory: 32Gi}}");
    create(f, KIND_TRAINING_JOB, TRAINING("gang", ", minGPUs: 4, maxGPUs: 4"), uid);
    settle(f);
    assert_state(f, "gang", "Running");
    f->alive = true;
    snprintf(f->only, sizeof(f->only), "%s", store_get(f->store, KIND_POD, "default", "gang-1-1")->uid);
    drop(f, f->only); /* by force, and the first to go */
    settle(f);
    drop(f, store_get(f->store, KIND_POD, "default", "gang-1-0")->uid);
    settle(f);
    assert_state(f, "gang", "Running"); /* the cards of the other node are not free yet */
    f->alive = false;
    queue_on_tick(f->queue);
    settle(f);
    assert_state(f, "gang", "Failed");
}

static void test_a_cancelled_job_is_found_before_that_is_stored(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ", minGPUs: 3"), uid);
    settle(f);
    assert_int_equal(queue_cancel(f->queue, NULL, uid, NULL), 0);
    assert_state(f, uid, "Cancelled");
    drop(f, uid);
    for (int i = 0; i < 20; i++) {
        const struct json *history = json_get(show(f, uid), "history");

        assert_state(f, uid, "Cancelled");
        assert_state(f, "one", "Cancelled");
        assert_int_equal(json_len(history), 2);
        assert_string_equal(json_get_string(json_item(history, 1), "state"), "Cancelled");
        loop_turn(f->loop, 1, NULL);
    }
}

static void test_a_deleted_pod_is_found(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_POD, POD("p", ""), uid);
    settle(f);
    assert_state(f, "p", "Running");
    drop(f, uid);
    for (int i = 0; i < 20; i++) {
        show(f, uid);
        show(f, "p");
        loop_turn(f->loop, 1, NULL);
    }
    assert_state(f, uid, "Cancelled");
}

static void test_a_pod_that_ended_while_the_daemon_was_away(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_POD, POD("p", ""), uid);
    settle(f);
    assert_state(f, "p", "Running");
    set_status(f, uid, "{phase: Succeeded}");
    queue_free(f->queue); /* before it has heard of that */
    start(f);
    assert_state(f, "p", "Running");
    settle(f);
    assert_state(f, "p", "Succeeded");
    assert_int_equal(unit_find(f->queue, uid) == NULL, 1);
}

static size_t history_len(struct fixture *f)
{
    struct queue_history_query query = {0};
    struct told told = {.arena = &f->arena};
    struct queue_reader reader = {"admin", take_answer, &told};
    struct queue_past *past;

    assert_int_equal(queue_history(f->queue, NULL, &query, &reader, &past, NULL), 0);
    return json_len(json_get(told.doc, "jobs"));
}

#define JOB                                                                                                  \
    "{metadata: {name: batch, labels: {user: cyd}}, spec: {template: {spec: {restartPolicy: Never, "         \
    "containers: [{name: c, image: x}]}}}}"

static void test_a_deleted_job_without_pods_leaves_a_row(void **state)
{
    struct fixture *f = *state;
    char uid[64];
    struct json *row;

    create(f, KIND_JOB, JOB, uid);
    settle(f);
    drop(f, uid);
    for (int i = 0; i < 20; i++) {
        show(f, uid);
        show(f, "batch");
        loop_turn(f->loop, 1, NULL);
    }
    row = show(f, uid);
    assert_string_equal(json_get_string(row, "state"), "Cancelled");
    assert_string_equal(json_get_string(row, "name"), "batch");
    assert_string_equal(json_get_string(row, "user"), "cyd");
    assert_int_equal(history_len(f), 1);
}

static void test_a_job_that_ended_while_the_daemon_was_away(void **state)
{
    struct fixture *f = *state;
    const struct json *row;
    char uid[64];

    create(f, KIND_JOB, JOB, uid);
    settle(f);
    set_status(f, uid,
               "{completionTime: '2030-01-02T03:04:05Z', conditions: [{type: Complete, status: 'True'}]}");
    queue_free(f->queue); /* before it has heard of that */
    for (int i = 0; i < 2; i++) {
        start(f);
        settle(f);
        row = show(f, uid);
        assert_string_equal(json_get_string(row, "state"), "Succeeded");
        assert_true(starts_with(json_get_string(row, "finished"), "2030-01-02T03:04:05"));
        assert_int_equal(history_len(f), 1);
        if (i == 0)
            queue_free(f->queue);
    }
}

static void test_the_global_ordinal_of_a_job_is_that_of_its_last_pod(void **state)
{
    struct fixture *f = *state;
    char uid[64], pod[64], text[1024];

    create(f, KIND_JOB, JOB, uid);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text),
                 "{metadata: {name: batch-%d, labels: {user: cyd}, ownerReferences: [{apiVersion: batch/v1, "
                 "kind: Job, name: batch, uid: %s, controller: true}]}, spec: {containers: [{name: c, image: "
                 "x, resources: {limits: {nvidia.com/gpu: 1}}}]}}",
                 i, uid);
        create(f, KIND_POD, text, pod);
    }
    settle(f);
    assert_state(f, pod, "Running");
    assert_float_equal(real_at(show(f, uid), "globalOrdinal"), 2, 1e-6);
}

/* ---- epochs ---- */

static int64_t ms_at(const struct json *row, const char *key)
{
    return time_of(json_get(row, key), 0) / NSEC_PER_MSEC;
}

static void test_epoch_times_make_the_estimate(void **state)
{
    struct fixture *f = *state;
    int64_t now = queue_now(f->queue);
    struct json *row;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ", maxEpochs: 11, singleGPU: true"), uid);
    settle(f);
    assert_true(ms_at(show(f, uid), "eta") > now + 3600 * 1000); /* nothing is known yet */
    assert_int_equal(queue_epoch_done(f->queue, uid, 1, 60, NULL), 0);
    row = show(f, uid);
    assert_true(ms_at(row, "eta") > now + 9 * 60000 && ms_at(row, "eta") < now + 11 * 60000);
    assert_true(ms_at(row, "etaLow") < ms_at(row, "eta") && ms_at(row, "eta") < ms_at(row, "etaHigh"));
    assert_true(ms_at(row, "etaLow") > now);
    for (uint32_t i = 2; i <= 6; i++)
        assert_int_equal(queue_epoch_done(f->queue, uid, i, 60, NULL), 0);
    row = show(f, uid);
    assert_true(ms_at(row, "eta") > now + 4 * 60000 && ms_at(row, "eta") < now + 6 * 60000);
    /* The next one of the kind knows from the start. */
    create(f, KIND_TRAINING_JOB, TRAINING("two", ", maxEpochs: 10, singleGPU: true"), uid);
    settle(f);
    row = show(f, uid);
    assert_true(ms_at(row, "eta") > now + 9 * 60000 && ms_at(row, "eta") < now + 11 * 60000);
}

static void test_epochs_beside_profiles_without_a_set_size(void **state)
{
    struct fixture *f = *state;
    struct queue_profile profile = {.gpus = 1, .iterations = 50, .iteration_s = 0.25};
    int64_t now = queue_now(f->queue);
    struct json *row;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ", maxEpochs: 11, singleGPU: true"), uid);
    settle(f);
    assert_int_equal(queue_profile(f->queue, uid, &profile, NULL), 0);
    assert_int_equal(queue_epoch_done(f->queue, uid, 1, 30, NULL), 0);
    row = show(f, uid);
    assert_true(ms_at(row, "eta") > now + 9 * 30000 && ms_at(row, "eta") < now + 11 * 30000);
}

static void finish(struct fixture *f, const char *uid)
{
    assert_int_equal(queue_step(f->queue,
                                &(struct life_event){.type = LIFE_EXIT, .id = unit_find(f->queue, uid)->id},
                                NULL),
                     0);
}

static void test_progress_of_jobs_with_and_without_epochs(void **state)
{
    struct fixture *f = *state;
    char uid[64];
    struct json *row;

    create(f, KIND_TRAINING_JOB, TRAINING("plain", ""), uid);
    settle(f);
    row = show(f, uid);
    assert_true(json_is(json_get(row, "epochsTotal"), JSON_NULL));
    assert_true(json_is(json_get(row, "progress"), JSON_NULL));
    finish(f, uid);
    row = show(f, uid);
    assert_true(json_is(json_get(row, "epochsTotal"), JSON_NULL));
    assert_float_equal(real_at(row, "progress"), 1, 1e-9);

    create(f, KIND_TRAINING_JOB, TRAINING("net", ", maxEpochs: 4"), uid);
    settle(f);
    assert_int_equal(json_int(json_get(show(f, uid), "epochsTotal"), -1), 4);
    assert_int_equal(queue_epoch_done(f->queue, uid, 1, 60, NULL), 0);
    assert_float_equal(real_at(show(f, uid), "progress"), 0.25, 1e-9);
    finish(f, uid); /* early stopping */
    row = show(f, uid);
    assert_int_equal(json_int(json_get(row, "epochsDone"), -1), 1);
    assert_float_equal(real_at(row, "progress"), 1, 1e-9);
}

/* ---- whose ---- */

static void test_what_the_admin_made_is_roots(void **state)
{
    struct fixture *f = *state;

    assert_true(row_mine(&f->admin, "root", "default"));
    assert_false(row_mine(&f->admin, "ann", "default"));
    assert_false(row_mine(&f->admin, NULL, "default"));
    assert_true(row_mine(&f->ann, "ann", "lab"));
    assert_true(row_mine(&f->ann, NULL, "ann"));
    assert_false(row_mine(&f->ann, "root", "default"));
    assert_false(row_mine(NULL, "root", "default"));
}

static void test_keep_is_for_admins(void **state)
{
    static const char text[] =
        "{metadata: {name: %s, annotations: {berth.dev/keep: 'true'}}, spec: {image: x}}";
    static const char job[] =
        "{metadata: {name: b}, spec: {template: {metadata: {annotations: {berth.dev/keep: 'true'}}, spec: "
        "{restartPolicy: Never, containers: [{name: c, image: x}]}}}}";
    struct fixture *f = *state;
    char doc[256], uid[64];

    snprintf(doc, sizeof(doc), text, "hers");
    assert_int_equal(create_as(f, &f->ann, KIND_TRAINING_JOB, doc, uid), -1);
    assert_int_equal(f->failure.code, 403);
    assert_string_equal(f->failure.message, "annotation berth.dev/keep: only admins may set it");
    assert_int_equal(create_as(f, &f->ann, KIND_JOB, job, uid), -1);
    assert_int_equal(create_as(f, &f->admin, KIND_JOB, job, uid), 0);
    snprintf(doc, sizeof(doc), text, "his");
    assert_int_equal(create_as(f, &f->admin, KIND_TRAINING_JOB, doc, uid), 0);
    settle(f);
    assert_true(unit_w(unit_find(f->queue, uid))->keep);
}

static bool edit_keep(void *arg, struct arena *arena, struct json *doc)
{
    (void)arg;
    annotation_set(arena, doc, KEEP_ANNOTATION, "true");
    return true;
}

static void test_a_kept_job_is_run_again_without_being_kept(void **state)
{
    struct fixture *f = *state;
    const char *again = NULL;
    struct err err = {0};
    char uid[64];

    create(f, KIND_NAMESPACE, "metadata: {name: ann}", uid);
    f->ns = "ann";
    assert_int_equal(create_as(f, &f->ann, KIND_TRAINING_JOB, "{metadata: {name: x}, spec: {image: x}}", uid),
                     0);
    edit_object(f->queue, store_by_uid(f->store, uid), edit_keep, NULL, NULL);
    settle(f);
    if (queue_rerun(f->queue, &f->ann, uid, &f->arena, &again, &err) < 0)
        fail_msg("%s", err.msg);
    assert_false(work_is_kept(object_doc(store_by_uid(f->store, again))));
    assert_int_equal(queue_rerun(f->queue, &f->admin, uid, &f->arena, &again, &err), 0);
    assert_true(work_is_kept(object_doc(store_by_uid(f->store, again))));
}

static void test_cards_are_nobodys_to_write(void **state)
{
    static const char text[] = "{metadata: {name: p, annotations: {berth.dev/gpus: '0:1', a: b}}, spec: "
                               "{containers: [{name: c, image: x}]}}";
    static const char job[] =
        "{metadata: {name: b}, spec: {template: {metadata: {annotations: {berth.dev/gpus: '0'}}, spec: "
        "{restartPolicy: Never, containers: [{name: c, image: x}]}}}}";
    struct fixture *f = *state;
    struct json *notes;
    char uid[64];

    assert_int_equal(create_as(f, &f->ann, KIND_POD, text, uid), 0);
    notes = json_at(object_json(store_by_uid(f->store, uid), &f->arena), "metadata.annotations");
    assert_null(json_get(notes, "berth.dev/gpus"));
    assert_string_equal(json_get_string(notes, "a"), "b");
    assert_int_equal(create_as(f, &f->admin, KIND_JOB, job, uid), 0);
    notes =
        json_at(object_json(store_by_uid(f->store, uid), &f->arena), "spec.template.metadata.annotations");
    assert_null(json_get(notes, "berth.dev/gpus"));
}

/* ---- which node ---- */

#define AFFINITY(what)                                                                                       \
    ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "       \
    "[{" what "}]}}}"

static bool edit_labels(void *arg, struct arena *arena, struct json *doc)
{
    json_set_string(arena, json_need_object(arena, json_get(doc, "metadata"), "labels"), "zone", arg);
    return true;
}

static void test_a_pod_waits_for_a_node_that_its_affinity_takes(void **state)
{
    struct fixture *f = *state;
    char uid[64], other[64];

    create(f, KIND_POD,
           POD("in", AFFINITY("matchExpressions: [{key: zone, operator: In, values: [a]}, {key: size, "
                              "operator: Gt, values: ['3']}]")),
           other);
    create(f, KIND_POD, POD("out", AFFINITY("matchExpressions: [{key: zone, operator: In, values: [b]}]")),
           uid);
    settle(f);
    assert_state(f, "in", "Running");
    assert_state(f, "out", "Pending");
    assert_string_equal(json_get_string(show(f, "out"), "reason"),
                        "cannot run: no node has the labels it asks for");
    assert_int_equal(edit_object(f->queue, store_get(f->store, KIND_NODE, "", "lab"), edit_labels,
                                 (char *)"b", &f->failure),
                     0);
    settle(f);
    assert_state(f, "out", "Running");
    assert_state(f, "in", "Running"); /* ignored during execution */
}

static void test_a_pod_waits_for_a_node_that_its_selector_takes(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    create(f, KIND_POD, POD("out", ", nodeSelector: {zone: b}"), uid);
    create(f, KIND_POD, POD("in", ", nodeSelector: {zone: a}"), uid);
    settle(f);
    assert_state(f, "in", "Running");
    assert_state(f, "out", "Pending");
}

/* ---- usage ---- */

static void test_shares_count_as_shares_after_a_restart(void **state)
{
    struct fixture *f = *state;
    struct unit *unit;
    double before;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ", estimatedMemoryMiB: 2000, singleGPU: true"), uid);
    settle(f);
    unit = unit_find(f->queue, uid);
    assert_int_equal(unit->spans.len, 1);
    unit->span_starts.v[0] -= 3600 * 1000;
    unit->life->placed_ms -= 3600 * 1000;
    finish(f, uid);
    settle(f);
    before = usage_get(life_usage(f->queue->life), "ann", queue_now(f->queue));
    assert_float_equal(before, 900.0 * 1000, 5000);
    queue_free(f->queue);
    start(f);
    assert_float_equal(usage_get(life_usage(f->queue->life), "ann", queue_now(f->queue)), before, 5000);
}

struct limits_set {
    char text[256];
};

static bool note_limit(void *arg, const char *pod, uint32_t card, int64_t mib)
{
    struct limits_set *set = arg;
    size_t len = strlen(set->text);

    (void)pod;
    snprintf(set->text + len, sizeof(set->text) - len, "%u:%lld ", card, (long long)mib);
    return true;
}

static void test_every_card_of_a_share_is_limited_once(void **state)
{
    struct fixture *f = *state;
    struct limits_set set = {""};
    struct queue_memory memory[2] = {{.card = 0, .mib = 100}, {.card = 1, .mib = 100}};
    char uid[64];

    f->queue->config.limit = note_limit;
    f->queue->config.arg = &set;
    create(f, KIND_POD,
           "{metadata: {name: p, labels: {user: ann, berth.dev/gpu-memory: '2000'}}, spec: {containers: "
           "[{name: c, "
           "image: x, resources: {limits: {nvidia.com/gpu: 2}}}]}}",
           uid);
    settle(f);
    memory[0].pod_uid = memory[1].pod_uid = uid;
    queue_measured(f->queue, "lab", NULL, 0, memory, 2);
    queue_measured(f->queue, "lab", NULL, 0, memory, 2);
    assert_string_equal(set.text, "0:2000 1:2000 ");
    f->queue->config.limit = NULL;
    f->queue->config.arg = NULL;
}

/* Stored before amounts were checked. */
static void test_amounts_beyond_reason_wait_for_ever(void **state)
{
    struct fixture *f = *state;
    struct pod_need need;
    struct json *pod = yaml(f, "{containers: [{name: c, resources: {requests: {cpu: 1e40, memory: 1e40, "
                               "nvidia.com/gpu: 1e40}}}, {name: d, resources: {requests: {cpu: 1e40, memory: "
                               "9223372036854775807, nvidia.com/gpu: 4294967297}}}]}");

    pod_need(pod, &f->arena, &need);
    assert_true(need.cpu_milli > 0 && need.cpu_milli <= (int64_t)1 << 43);
    assert_true(need.mem_mib > 0 && need.mem_mib <= (int64_t)1 << 43);
    assert_int_equal(demand_gpus(need.gpus), DEMAND_GPUS_MAX);
    assert_int_equal(amount_of(yaml(f, "9223372036854775807"), AMOUNT_MIB_UP), (int64_t)1 << 43);
    assert_int_equal(amount_of(yaml(f, "1048577"), AMOUNT_MIB_UP), 2);
    assert_int_equal(amount_of(yaml(f, "1048577"), AMOUNT_MIB), 1);
}

/* ---- what the library says ---- */

static int log_text(struct fixture *f, const char *uid, const char *text)
{
    struct err err = {0};
    int result = queue_log_metrics(f->queue, uid, 0, yaml(f, text), &err);

    settle(f);
    return result < 0 ? (int)err.code : 0;
}

static void test_metrics_are_bounded_for_each_job(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf text = {0};
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("net", ", maxEpochs: 3"), uid);
    settle(f);
    for (int i = 0; i < QUEUE_METRICS_MAX; i++) {
        buf_clear(&text);
        buf_printf(&text, "[{step: 1, values: {m%d: 1}}]", i);
        assert_int_equal(log_text(f, uid, text.data), 0);
    }
    assert_int_equal(log_text(f, uid, "[{step: 2, values: {m1: 1, one-more: 1}}]"), ERR_LIMIT);
    assert_int_equal(json_len(json_get(show(f, uid), "metrics")), QUEUE_METRICS_MAX);
    /* all or none */
    assert_int_equal(json_len(json_at(show(f, uid), "metrics.m1")), 1);
    assert_int_equal(log_text(f, uid, "[{step: {a: b}, values: {m1: 1}}]"), ERR_INVALID);
    assert_int_equal(log_text(f, uid, "[{step: 'text', values: {m1: 1}}]"), ERR_INVALID);
    assert_int_equal(log_text(f, uid, "[{values: {m1: 1}}]"), 0);
}

static void test_metrics_that_are_refused_take_no_names(void **state)
{
    struct fixture *f = *state;
    CLEANUP(buf_done) struct buf text = {0};
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("net", ", maxEpochs: 3"), uid);
    settle(f);
    buf_puts(&text, "[{values: {");
    for (int i = 0; i <= QUEUE_METRICS_MAX; i++)
        buf_printf(&text, "%sm%d: 1", i ? ", " : "", i);
    buf_puts(&text, "}}]");
    assert_int_equal(log_text(f, uid, text.data), ERR_LIMIT);
    assert_int_equal(log_text(f, uid, "[{values: {a: 1}}, {values: 1}]"), ERR_INVALID);
    assert_int_equal(log_text(f, uid, "[{values: {loss: 1}}]"), 0);
}

static void test_a_metric_from_the_future_is_from_now(void **state)
{
    struct fixture *f = *state;
    int64_t at = 0;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("net", ", maxEpochs: 3"), uid);
    settle(f);
    assert_int_equal(log_text(f, uid, "[{time: '2200-01-01T00:00:00Z', values: {m: 1}}]"), 0);
    assert_true(clock_parse(json_str(json_at(show(f, uid), "metrics.m.0.0")), &at));
    assert_true(at <= clock_now());
}

/* ---- what /metrics tells ---- */

static void assert_metric(struct fixture *f, const char *line)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct metrics metrics = {.out = &text};

    queue_metrics(f->queue, &metrics, true);
    if (!strstr(text.data, line))
        fail_msg("no '%s' in\n%s", line, text.data);
}

static void test_metrics_follow_the_life_of_work(void **state)
{
    struct fixture *f = *state;
    char killed[64], waits[64], other[64];

    create(f, KIND_POD, POD("killed", ""), killed);
    create(f, KIND_POD, POD("other", ""), other);
    settle(f);
    create(f, KIND_POD, POD("waits", ""), waits);
    settle(f);
    assert_metric(f, "\nberth_queue_jobs{state=\"running\"} 2\n");
    assert_metric(f, "\nberth_queue_jobs{state=\"pending\"} 1\n");
    assert_metric(f, "\nberth_queue_waiting_gpus 1\n");
    assert_metric(f, "\nberth_starts_total 2\n");
    assert_metric(f, "\nberth_wait_seconds_count 2\n");
    assert_metric(f, "\nberth_gpus{model=\"unknown\",declared=\"false\",state=\"used\"} 2\n");
    assert_metric(f, "\nberth_gpus{model=\"unknown\",declared=\"false\",state=\"idle\"} 0\n");
    assert_metric(f, "\nberth_user_jobs{user=\"ann\",state=\"waiting\"} 1\n");
    assert_metric(f, "\nberth_user_gpus{user=\"ann\"} 2\n");
    set_status(
        f, killed,
        "{phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 137, "
        "reason: OOMKilled, startedAt: '2026-01-01T00:00:00Z', finishedAt: '2026-01-01T00:00:01Z'}}}]}");
    set_status(f, other,
               "{phase: Failed, containerStatuses: [{name: c, state: {terminated: {exitCode: 3, "
               "reason: Error, startedAt: '2026-01-01T00:00:00Z', finishedAt: '2026-01-01T00:00:01Z'}}}]}");
    settle(f);
    assert_metric(f, "\nberth_failures_total{reason=\"out_of_memory\"} 1\n");
    assert_metric(f, "\nberth_failures_total{reason=\"exit_code\"} 1\n");
    assert_metric(f, "\nberth_ended_total{state=\"failed\"} 2\n");
    assert_metric(f, "\nberth_starts_total 3\n");
    assert_metric(f, "\nberth_queue_jobs{state=\"pending\"} 0\n");
    assert_metric(f, "\nberth_gpus{model=\"unknown\",declared=\"false\",state=\"idle\"} 1\n");
}

static void test_cards_that_something_starts_on_are_held(void **state)
{
    struct fixture *f = *state;
    char uid[64];

    f->idle_node = true;
    create(f, KIND_POD, POD("slow", ""), uid);
    settle(f);
    assert_metric(f, "\nberth_queue_jobs{state=\"starting\"} 1\n");
    assert_metric(f, "\nberth_gpus{model=\"unknown\",declared=\"false\",state=\"held\"} 1\n");
    assert_metric(f, "\nberth_starts_total 0\n");
}

static void test_the_library_finds_what_is_in_the_queue(void **state)
{
    struct fixture *f = *state;
    const char *found = NULL;
    struct err err = {0};
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("net", ", maxEpochs: 3"), uid);
    settle(f);
    assert_int_equal(queue_find_queued(f->queue, uid, &f->arena, &found, &err), 0);
    assert_string_equal(found, uid);
    assert_int_equal(queue_find_queued(f->queue, "default/net", &f->arena, &found, &err), 0);
    assert_int_equal(queue_find_queued(f->queue, "other", &f->arena, &found, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_a_pod_on_a_node_that_is_not_there_stays_there(void **state)
{
    struct fixture *f = *state;
    CLEANUP(arena_done) struct arena arena = {0};
    char uid[64];

    create(f, KIND_POD, POD("far", ", nodeName: elsewhere"), uid);
    settle(f);
    assert_string_equal(json_at_string(object_json(store_by_uid(f->store, uid), &arena), "spec.nodeName"),
                        "elsewhere");
    assert_string_equal(json_get_string(show(f, uid), "state"), "Pending");
    assert_non_null(strstr(json_get_string(show(f, uid), "reason"), "does not exist"));
}

static void test_a_dry_run_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct json *answer = NULL;
    struct err err = {0};
    struct store_stats before, after;

    store_stats(f->store, &before);
    assert_int_equal(queue_dry_run(f->queue, &f->ann, yaml(f, TRAINING("net", ", maxEpochs: 3")), &f->arena,
                                   &answer, &err),
                     0);
    settle(f);
    store_stats(f->store, &after);
    assert_int_equal(after.rows, before.rows);
    assert_int_equal(map_len(f->queue->units), 0);
}

static void test_why_is_answered_for_a_record_of_an_older_berth(void **state)
{
    struct fixture *f = *state;
    struct json *why = NULL, *last = NULL;

    assert_int_equal(json_parse(STR("{\"name\":\"b\",\"namespace\":\"default\",\"state\":\"Succeeded\"}"),
                                &f->arena, &last, NULL, NULL),
                     0);
    assert_int_equal(queue_why(f->queue, &f->admin, "before", last, &f->arena, &why, NULL), 0);
    assert_true(json_is(json_get(why, "startLow"), JSON_NULL));
}

static void test_the_ports_of_queued_jobs_are_known(void **state)
{
    struct fixture *f = *state;
    const char *name = NULL;
    char uid[64];

    create(f, KIND_TRAINING_JOB, TRAINING("a", ", portMapping: '31346:6006, 31347:80'"), uid);
    settle(f);
    assert_true(queue_port_taken(f->queue, 31347, &f->arena, &name));
    assert_string_equal(name, "a");
    assert_false(queue_port_taken(f->queue, 6006, &f->arena, &name));
    assert_int_equal(queue_cancel(f->queue, NULL, uid, NULL), 0);
    drop(f, store_get(f->store, KIND_POD, "default", "a-1")->uid); /* its processes have gone */
    settle(f);
    assert_false(queue_port_taken(f->queue, 31347, &f->arena, &name));
}

/* ---- the clock was set back ---- */

static size_t points_of_first_card(struct fixture *f)
{
    struct told told = {.arena = &f->arena};
    struct queue_reader reader = {"admin", take_answer, &told};
    struct queue_past *past;

    assert_int_equal(queue_timeline(f->queue, 1, INT64_MAX, &reader, &past, NULL), 0);
    return json_len(json_at(told.doc, "utilization.0.points"));
}

static void test_measurements_are_recorded_after_the_clock_was_set_back(void **state)
{
    struct fixture *f = *state;
    struct queue_card card = {.card = 0, .used_mib = 1, .busy_percent = 1};

    f->queue->cards_recorded_at = queue_now(f->queue) + 24 * 3600 * 1000;
    queue_measured(f->queue, "lab", &card, 1, NULL, 0);
    settle(f);
    assert_int_equal(points_of_first_card(f), 1);
}

static bool is_cancelled(struct fixture *f, const char *uid)
{
    const struct object *object = store_by_uid(f->store, uid);

    return !object || object->deleting;
}

static void test_work_that_does_not_use_its_cards_is_told_then_cancelled(void **state)
{
    struct fixture *f = *state;
    struct queue_card card = {.card = 0, .used_mib = 1, .busy_percent = 0};
    struct unit *unit;
    char uid[64];

    create(f, KIND_POD,
           "{metadata: {name: p, labels: {user: ann}}, spec: {containers: [{name: c, image: x, resources: "
           "{limits: {nvidia.com/gpu: 1}}}]}}",
           uid);
    settle(f);
    queue_set_idle(f->queue, 3600000, 7200000);
    queue_measured(f->queue, "lab", &card, 1, NULL, 0);
    unit = unit_find(f->queue, uid);
    assert_non_null(unit);
    assert_true(unit->used_at_ms > 0 && !unit->idle_told);
    unit->used_at_ms -= 3600000; /* an hour ago */
    queue_measured(f->queue, "lab", &card, 1, NULL, 0);
    assert_true(unit->idle_told && !is_cancelled(f, uid));
    card.busy_percent = 3; /* it goes on */
    queue_measured(f->queue, "lab", &card, 1, NULL, 0);
    assert_true(!unit->idle_told);
    card.busy_percent = -1; /* not known: no reason to stop it */
    unit->used_at_ms -= 7200000;
    queue_measured(f->queue, "lab", &card, 1, NULL, 0);
    assert_true(!unit->idle_told && !is_cancelled(f, uid));
    card.busy_percent = 0;
    unit->used_at_ms -= 7200000;
    queue_measured(f->queue, "lab", &card, 1, NULL, 0);
    settle(f);
    assert_true(is_cancelled(f, uid));
    queue_set_idle(f->queue, 0, 0);
}

static void test_places_are_told_after_the_clock_was_set_back(void **state)
{
    struct fixture *f = *state;
    char first[64], second[64];

    create(f, KIND_TRAINING_JOB, TRAINING("one", ", minGPUs: 3"), first);
    settle(f); /* of two that come in one moment either may be first */
    create(f, KIND_TRAINING_JOB, TRAINING("two", ", minGPUs: 3"), second);
    f->queue->explained_at = 0; /* which was a moment ago */
    settle(f);
    assert_int_equal(json_int(json_at(object_doc(store_by_uid(f->store, second)), "status.position"), 0), 2);
    f->queue->explained_at = queue_now(f->queue) + 24 * 3600 * 1000;
    assert_int_equal(queue_cancel(f->queue, NULL, first, NULL), 0);
    settle(f);
    assert_int_equal(json_int(json_at(object_doc(store_by_uid(f->store, second)), "status.position"), 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_a_job_is_found_at_every_instant_of_its_end),
        TEST(test_a_run_whose_pod_is_deleted_by_force_ends_with_its_processes),
        TEST(test_a_run_that_loses_one_of_its_pods_ends_as_a_whole),
        TEST(test_a_gang_ends_with_the_processes_of_all_its_pods),
        TEST(test_a_cancelled_job_is_found_before_that_is_stored),
        TEST(test_a_deleted_pod_is_found),
        TEST(test_a_pod_that_ended_while_the_daemon_was_away),
        TEST(test_a_deleted_job_without_pods_leaves_a_row),
        TEST(test_a_job_that_ended_while_the_daemon_was_away),
        TEST(test_the_global_ordinal_of_a_job_is_that_of_its_last_pod),
        TEST(test_epoch_times_make_the_estimate),
        TEST(test_epochs_beside_profiles_without_a_set_size),
        TEST(test_progress_of_jobs_with_and_without_epochs),
        TEST(test_what_the_admin_made_is_roots),
        TEST(test_keep_is_for_admins),
        TEST(test_a_kept_job_is_run_again_without_being_kept),
        TEST(test_cards_are_nobodys_to_write),
        TEST(test_a_pod_waits_for_a_node_that_its_affinity_takes),
        TEST(test_a_pod_waits_for_a_node_that_its_selector_takes),
        TEST(test_shares_count_as_shares_after_a_restart),
        TEST(test_every_card_of_a_share_is_limited_once),
        TEST(test_amounts_beyond_reason_wait_for_ever),
        TEST(test_metrics_are_bounded_for_each_job),
        TEST(test_metrics_that_are_refused_take_no_names),
        TEST(test_a_metric_from_the_future_is_from_now),
        TEST(test_metrics_follow_the_life_of_work),
        TEST(test_cards_that_something_starts_on_are_held),
        TEST(test_the_library_finds_what_is_in_the_queue),
        TEST(test_a_pod_on_a_node_that_is_not_there_stays_there),
        TEST(test_a_dry_run_leaves_nothing),
        TEST(test_why_is_answered_for_a_record_of_an_older_berth),
        TEST(test_the_ports_of_queued_jobs_are_known),
        TEST(test_measurements_are_recorded_after_the_clock_was_set_back),
        TEST(test_work_that_does_not_use_its_cards_is_told_then_cancelled),
        TEST(test_places_are_told_after_the_clock_was_set_back),
    };

    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
