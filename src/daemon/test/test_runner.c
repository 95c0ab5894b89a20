/* The controllers at work on a real store and registry: what a user would see. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "control/events.h"
#include "daemon/runner.h"
#include "loop/loop.h"
#include "registry/registry.h"

#include <signal.h>
#include <sys/resource.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h> /* needs the others before it */
/* clang-format on */

struct world {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct runner *runner;
    struct arena arena;
    struct failure failure;
};

static struct write write_of(struct world *w)
{
    w->failure = (struct failure){0};
    return (struct write){.arena = &w->arena, .failure = &w->failure};
}

static int try_create(struct world *w, const char *yaml)
{
    struct write write = write_of(w);
    struct written written;
    struct json *doc;
    struct err err = {0};
    const struct kind *kind;
    const char *ns;

    if (yaml_parse_one(str_from(yaml), &w->arena, &doc, &err) < 0)
        fail_msg("%s", err.msg);
    kind = NULL;
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored && streq(kinds[i].name, json_get_string(doc, "kind")))
            kind = &kinds[i];
    assert_non_null(kind);
    ns = kind->namespaced ? json_string_or(json_at(doc, "metadata.namespace"), "default") : "";
    return registry_create(w->registry, &write, kind, ns, doc, &written);
}

static void create(struct world *w, const char *yaml)
{
    if (try_create(w, yaml) < 0)
        fail_msg("%s", w->failure.message);
}

/* Runs until nothing is left to do right now. */
static void run(struct world *w)
{
    for (int quiet = 0; quiet < 4;) {
        int64_t before = store_revision(w->store);

        assert_int_equal(loop_turn(w->loop, 2, NULL), 0);
        quiet = store_durable(w->store) && before == store_revision(w->store) ? quiet + 1 : 0;
    }
}

static void world_open(struct world *w, const char *path)
{
    w->loop = loop_new();
    assert_int_equal(store_open(path, w->loop, &w->store, NULL), 0);
    w->registry = registry_new(w->store);
    w->runner = runner_new(w->loop, w->registry);
}

static void world_close(struct world *w)
{
    runner_free(w->runner);
    registry_free(w->registry);
    store_close(w->store);
    loop_free(w->loop);
    arena_done(&w->arena);
}

static int setup(void **state)
{
    struct world *w = NEW(struct world);

    world_open(w, ":memory:");
    create(w, "{kind: Namespace, apiVersion: v1, metadata: {name: default}}");
    create(
        w,
        "{kind: StorageClass, apiVersion: storage.k8s.io/v1, provisioner: berth.dev/local, metadata: {name: "
        "standard, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}}");
    run(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_close(*state);
    free(*state);
    return 0;
}

static const struct object *get(struct world *w, int kind, const char *name)
{
    return store_get(w->store, kind, kind_by_id(kind)->namespaced ? "default" : "", name);
}

static struct json *doc_of(struct world *w, int kind, const char *name)
{
    const struct object *object = get(w, kind, name);

    if (!object)
        fail_msg("no %s '%s'", kind_by_id(kind)->name, name);
    return object_json(object, &w->arena);
}

static size_t count(struct world *w, int kind)
{
    return store_count(w->store, kind, kind_by_id(kind)->namespaced ? "default" : NULL);
}

static const struct object *only(struct world *w, int kind)
{
    struct store_slice slice = store_list(w->store, kind, kind_by_id(kind)->namespaced ? "default" : NULL);

    assert_int_equal(slice.len, 1);
    return slice.v[0];
}

struct phase {
    const char *name, *node;
    int exit_code;
};

static bool set_phase(void *arg, struct arena *arena, struct json *doc)
{
    const struct phase *phase = arg;
    struct json *status = json_need_object(arena, doc, "status"), *container;
    char text[CLOCK_TEXT_MAX];

    json_set_string(arena, status, "phase", phase->name);
    if (phase->node)
        json_set_string(arena, json_get(doc, "spec"), "nodeName", phase->node);
    container = json_push_object(arena, json_set_array(arena, status, "containerStatuses"));
    json_set_string(arena, container, "name", "c");
    container = json_set_object(arena, json_set_object(arena, container, "state"), "terminated");
    json_set_int(arena, container, "exitCode", phase->exit_code);
    json_set_string(arena, container, "finishedAt", clock_format(clock_now(), text));
    return true;
}

static void pod_becomes(struct world *w, const struct object *pod, struct phase phase)
{
    struct write write = write_of(w);
    struct written written;

    assert_int_equal(registry_edit_object(w->registry, &write, pod, set_phase, &phase, &written), 0);
}

static void delete_object(struct world *w, const struct object *object, enum propagation propagation)
{
    struct write write = write_of(w);
    struct delete_options options = {.propagation = propagation};
    struct written written;

    if (registry_delete(w->registry, &write, object->kind, object->ns, object->name, &options, &written) < 0)
        fail_msg("%s", w->failure.message);
}

static bool has_event(struct world *w, const char *reason, const char *message)
{
    OBJECTS_EACH(store_list(w->store, KIND_EVENT, NULL), it) {
        const struct json *doc = object_json(*it, &w->arena);

        if (streq(json_get_string(doc, "reason"), reason) &&
            strstr(json_string_or(json_get(doc, "message"), ""), message))
            return true;
    }
    return false;
}

static const struct object *active_pod(struct world *w)
{
    OBJECTS_EACH(store_list(w->store, KIND_POD, "default"), it)
        if (streq(json_at_string(object_json(*it, &w->arena), "status.phase"), "Pending"))
            return *it;
    fail_msg("no active pod");
    return NULL;
}

#define POD_SPEC "{restartPolicy: Never, containers: [{name: c, image: i}]}"
#define JOB(name, rest)                                                                                      \
    "{kind: Job, apiVersion: batch/v1, metadata: {name: " name "}, spec: {" rest                             \
    "template: {spec: " POD_SPEC "}}}"

/* ---- namespaces ---- */

static void test_new_namespace_gets_its_service_account(void **state)
{
    struct world *w = *state;

    assert_non_null(get(w, KIND_SERVICE_ACCOUNT, "default"));
    delete_object(w, get(w, KIND_SERVICE_ACCOUNT, "default"), PROPAGATE_DEFAULT);
    run(w);
    assert_non_null(get(w, KIND_SERVICE_ACCOUNT, "default"));
}

static void test_deleted_namespace_empties_and_goes(void **state)
{
    struct world *w = *state;

    create(w, "{kind: Namespace, apiVersion: v1, metadata: {name: lab}}");
    create(w, "{kind: ConfigMap, apiVersion: v1, metadata: {name: a, namespace: lab}}");
    create(w, "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: p, namespace: lab}, spec: "
              "{accessModes: "
              "[ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}");
    create(w, "{kind: Job, apiVersion: batch/v1, metadata: {name: j, namespace: lab}, spec: {template: "
              "{spec: " POD_SPEC "}}}");
    run(w);
    assert_int_equal(store_count(w->store, KIND_POD, "lab"), 1);
    delete_object(w, store_get(w->store, KIND_NAMESPACE, "", "lab"), PROPAGATE_DEFAULT);
    run(w);
    assert_null(store_get(w->store, KIND_NAMESPACE, "", "lab"));
    assert_int_equal(store_count(w->store, KIND_POD, "lab"), 0);
    assert_int_equal(store_count(w->store, KIND_PV, NULL), 0);
}

/* ---- jobs ---- */

static void test_job_runs_its_pods_one_after_another(void **state)
{
    struct world *w = *state;
    const struct json *job;

    create(w, JOB("j", "completions: 2, "));
    run(w);
    assert_int_equal(count(w, KIND_POD), 1);
    assert_true(starts_with(only(w, KIND_POD)->name, "j-"));
    assert_int_equal(json_int(json_at(doc_of(w, KIND_JOB, "j"), "status.active"), 0), 1);
    pod_becomes(w, active_pod(w), (struct phase){"Succeeded", "n", 0});
    run(w);
    assert_int_equal(count(w, KIND_POD), 2);
    assert_int_equal(json_int(json_at(doc_of(w, KIND_JOB, "j"), "status.succeeded"), 0), 1);
    pod_becomes(w, active_pod(w), (struct phase){"Succeeded", "n", 0});
    run(w);
    job = doc_of(w, KIND_JOB, "j");
    assert_int_equal(json_int(json_at(job, "status.succeeded"), 0), 2);
    assert_string_equal(json_at_string(job, "status.conditions.0.type"), "SuccessCriteriaMet");
    assert_string_equal(json_at_string(job, "status.conditions.1.type"), "Complete");
    assert_non_null(json_at(job, "status.completionTime"));
    assert_true(has_event(w, "SuccessfulCreate", "Created pod: j-"));
    assert_true(has_event(w, "Completed", "Job completed"));
}

static void test_deleted_pods_stay_counted_and_are_replaced(void **state)
{
    struct world *w = *state;
    const struct object *pod;

    create(w, JOB("j", "completions: 2, parallelism: 2, "));
    run(w);
    pod = active_pod(w);
    pod_becomes(w, pod, (struct phase){"Succeeded", "n", 0});
    delete_object(w, pod, PROPAGATE_DEFAULT); /* in the same moment: not counted yet */
    run(w);
    assert_int_equal(json_int(json_at(doc_of(w, KIND_JOB, "j"), "status.succeeded"), 0), 1);
    assert_int_equal(count(w, KIND_POD), 1);
    pod_becomes(w, active_pod(w), (struct phase){"Succeeded", "n", 0});
    run(w);
    assert_int_equal(json_int(json_at(doc_of(w, KIND_JOB, "j"), "status.succeeded"), 0), 2);
    assert_true(has_event(w, "Completed", "Job completed"));
}

static void test_job_fails_at_its_backoff_limit(void **state)
{
    struct world *w = *state;
    const struct json *job;

    create(w, JOB("j", "backoffLimit: 0, completions: 3, parallelism: 3, "));
    run(w);
    pod_becomes(w, active_pod(w), (struct phase){"Failed", "n", 1});
    run(w);
    job = doc_of(w, KIND_JOB, "j");
    assert_string_equal(json_at_string(job, "status.conditions.1.type"), "Failed");
    assert_string_equal(json_at_string(job, "status.conditions.1.reason"), "BackoffLimitExceeded");
    assert_int_equal(json_int(json_at(job, "status.failed"), 0), 3);
    assert_null(json_at(job, "status.active"));
    assert_int_equal(count(w, KIND_POD), 1); /* the failed one; the others were deleted */
}

static void test_job_deleted_in_the_background_takes_its_pods(void **state)
{
    struct world *w = *state;

    create(w, JOB("j", "parallelism: 3, completions: 3, "));
    run(w);
    assert_int_equal(count(w, KIND_POD), 3);
    delete_object(w, get(w, KIND_JOB, "j"), PROPAGATE_BACKGROUND);
    run(w);
    assert_int_equal(count(w, KIND_JOB), 0);
    assert_int_equal(count(w, KIND_POD), 0);
}

static void test_job_deleted_in_the_foreground_goes_last(void **state)
{
    struct world *w = *state;

    create(w, JOB("j", "parallelism: 2, completions: 2, "));
    run(w);
    delete_object(w, get(w, KIND_JOB, "j"), PROPAGATE_FOREGROUND);
    assert_true(get(w, KIND_JOB, "j")->deleting);
    run(w);
    assert_int_equal(count(w, KIND_JOB), 0);
    assert_int_equal(count(w, KIND_POD), 0);
}

static void test_orphaned_pods_are_free(void **state)
{
    struct world *w = *state;
    const struct json *pod;

    create(w, JOB("j", ""));
    run(w);
    delete_object(w, get(w, KIND_JOB, "j"), PROPAGATE_ORPHAN);
    run(w);
    assert_int_equal(count(w, KIND_JOB), 0);
    pod = object_json(only(w, KIND_POD), &w->arena);
    assert_null(json_at(pod, "metadata.ownerReferences"));
    assert_null(json_at(pod, "metadata.finalizers"));
}

static void test_more_dependents_than_one_look_can_free_are_all_freed(void **state)
{
    enum { COUNT = 3 * EFFECTS_MAX };
    struct world *w = *state;
    const struct object *owner;

    create(w, "{kind: Secret, apiVersion: v1, metadata: {name: owner}}");
    owner = get(w, KIND_SECRET, "owner");
    for (int i = 0; i < COUNT; i++)
        create(w, arena_printf(&w->arena,
                               "{kind: ConfigMap, apiVersion: v1, metadata: {name: d%d, ownerReferences: "
                               "[{apiVersion: v1, kind: Secret, name: owner, uid: %s}]}}",
                               i, owner->uid));
    run(w);
    delete_object(w, owner, PROPAGATE_ORPHAN);
    run(w);
    assert_null(get(w, KIND_SECRET, "owner"));
    assert_int_equal(count(w, KIND_CONFIG_MAP), COUNT);
    OBJECTS_EACH(store_list(w->store, KIND_CONFIG_MAP, "default"), it)
        assert_int_equal((*it)->owner_count, 0);
}

static void test_a_full_namespace_empties_in_several_looks(void **state)
{
    struct world *w = *state;

    create(w, "{kind: Namespace, apiVersion: v1, metadata: {name: lab}}");
    for (int i = 0; i < 3 * EFFECTS_MAX; i++)
        create(w,
               arena_printf(&w->arena,
                            "{kind: ConfigMap, apiVersion: v1, metadata: {name: c%d, namespace: lab}}", i));
    run(w);
    delete_object(w, store_get(w->store, KIND_NAMESPACE, "", "lab"), PROPAGATE_DEFAULT);
    run(w);
    assert_null(store_get(w->store, KIND_NAMESPACE, "", "lab"));
    assert_int_equal(store_count(w->store, KIND_CONFIG_MAP, "lab"), 0);
}

static void test_finished_job_goes_after_its_time(void **state)
{
    struct world *w = *state;

    create(w, JOB("j", "ttlSecondsAfterFinished: 0, "));
    run(w);
    pod_becomes(w, active_pod(w), (struct phase){"Succeeded", "n", 0});
    for (int i = 0; i < 150 && get(w, KIND_JOB, "j"); i++)
        loop_turn(w->loop, 10, NULL);
    run(w);
    assert_int_equal(count(w, KIND_JOB), 0);
    assert_int_equal(count(w, KIND_POD), 0);
}

static void test_what_was_not_looked_at_is_after_a_restart(void **state)
{
    char dir[] = "/tmp/berth-runner-XXXXXX", path[64], log[64];
    struct world w = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/db", dir);
    snprintf(log, sizeof(log), "%s/db-wal", dir);
    world_open(&w, path);
    create(&w, "{kind: Namespace, apiVersion: v1, metadata: {name: default}}");
    create(&w, JOB("j", "parallelism: 2, completions: 2, "));
    world_close(&w); /* nobody has looked */
    world_open(&w, path);
    assert_int_equal(count(&w, KIND_POD), 0);
    run(&w);
    assert_int_equal(count(&w, KIND_POD), 2);
    world_close(&w);
    unlink(path);
    unlink(log);
    rmdir(dir);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

/* From the moment that the job is durable, until something has been undone. */
static void disk_is_full_for_pods(void *arg, const struct store_event *event)
{
    (void)arg;
    if (event->object->kind->id == KIND_JOB && event->op == STORE_ADDED)
        limit_files(1024);
}

static void test_what_a_full_disk_undid_is_done_again(void **state)
{
    char dir[] = "/tmp/berth-runner-XXXXXX", path[64], log[64];
    struct store_watch *watch;
    struct world w = {0};

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/db", dir);
    snprintf(log, sizeof(log), "%s/db-wal", dir);
    world_open(&w, path);
    create(&w, "{kind: Namespace, apiVersion: v1, metadata: {name: default}}");
    run(&w);
    store_watch(w.store, 0, NULL, store_revision(w.store), disk_is_full_for_pods, NULL, NULL, &watch, NULL);
    create(&w, JOB("j", ""));
    while (count(&w, KIND_POD) == 0)
        loop_turn(w.loop, 1, NULL);
    while (count(&w, KIND_POD) == 1) /* until it is undone */
        loop_turn(w.loop, 1, NULL);
    limit_files(RLIM_INFINITY);
    for (int i = 0; i < 300 && count(&w, KIND_POD) == 0; i++)
        loop_turn(w.loop, 10, NULL);
    run(&w);
    assert_int_equal(count(&w, KIND_POD), 1);
    assert_true(has_event(&w, "SuccessfulCreate", "Created pod: j-"));
    store_unwatch(watch);
    world_close(&w);
    unlink(path);
    unlink(log);
    rmdir(dir);
}

/* ---- quotas and limits ---- */

static void test_quota_refuses_counts_and_recovers(void **state)
{
    struct world *w = *state;

    create(w, "{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: {pods: '1', "
              "count/configmaps: "
              "'1', requests.nvidia.com/gpu: '1'}}}");
    create(w, "{kind: ConfigMap, apiVersion: v1, metadata: {name: a}}");
    assert_int_equal(try_create(w, "{kind: ConfigMap, apiVersion: v1, metadata: {name: b}}"), -1);
    assert_int_equal(w->failure.code, 403);
    assert_string_equal(
        w->failure.message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: "
        "count/configmaps=1, limited: count/configmaps=1");
    create(w, "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: " POD_SPEC "}");
    assert_int_equal(
        try_create(w, "{kind: Pod, apiVersion: v1, metadata: {name: second}, spec: " POD_SPEC "}"), -1);
    assert_string_equal(
        w->failure.message,
        "pods \"second\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1");
    run(w);
    assert_string_equal(json_get_string(json_at(doc_of(w, KIND_RESOURCE_QUOTA, "q"), "status.used"), "pods"),
                        "1");
    pod_becomes(w, get(w, KIND_POD, "x"), (struct phase){"Succeeded", "n", 0});
    create(w,
           "{kind: Pod, apiVersion: v1, metadata: {name: second}, spec: {restartPolicy: Never, containers: "
           "[{name: c, "
           "image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}");
    run(w);
    assert_string_equal(json_get_string(json_at(doc_of(w, KIND_RESOURCE_QUOTA, "q"), "status.used"),
                                        "requests.nvidia.com/gpu"),
                        "1");
}

static void test_job_over_quota_says_so_and_goes_on_later(void **state)
{
    struct world *w = *state;

    create(w, "{kind: ResourceQuota, apiVersion: v1, metadata: {name: q}, spec: {hard: {pods: '1'}}}");
    create(w, JOB("j", "completions: 2, parallelism: 2, "));
    run(w);
    assert_int_equal(count(w, KIND_POD), 1);
    assert_true(has_event(w, "FailedCreate", "Error creating: pods \"j-"));
    assert_int_equal(json_int(json_at(doc_of(w, KIND_JOB, "j"), "status.active"), 0), 1);
    pod_becomes(w, active_pod(w), (struct phase){"Succeeded", "n", 0});
    for (int i = 0; i < 100 && count(w, KIND_POD) < 2; i++)
        loop_turn(w->loop, 10, NULL);
    assert_int_equal(count(w, KIND_POD), 2);
}

static void test_limit_range_fills_in_and_refuses(void **state)
{
    struct world *w = *state;
    const struct json *pod;

    create(w, "{kind: LimitRange, apiVersion: v1, metadata: {name: l}, spec: {limits: [{type: Container, "
              "default: {cpu: "
              "500m}, max: {memory: 1Gi, cpu: 2}}]}}");
    assert_int_equal(
        try_create(
            w, "{kind: Pod, apiVersion: v1, metadata: {name: big}, spec: {containers: [{name: c, image: i, "
               "resources: {limits: {memory: 2Gi}}}]}}"),
        -1);
    assert_string_equal(
        w->failure.message,
        "pods \"big\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi");
    create(
        w,
        "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {containers: [{name: c, image: i, resources: "
        "{limits: {memory: 1Gi}}}]}}");
    pod = doc_of(w, KIND_POD, "x");
    assert_string_equal(json_at_string(pod, "spec.containers.0.resources.limits.cpu"), "500m");
    assert_string_equal(json_get_string(json_at(pod, "metadata.annotations"), "kubernetes.io/limit-ranger"),
                        "LimitRanger plugin set: cpu request for container c; cpu limit for container c");
}

static void test_priority_class_gives_its_number(void **state)
{
    struct world *w = *state;

    create(w, "{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: high}, value: 1000}");
    create(w, "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {priorityClassName: high, containers: "
              "[{name: c, "
              "image: i}]}}");
    assert_int_equal(json_int(json_at(doc_of(w, KIND_POD, "x"), "spec.priority"), 0), 1000);
    assert_int_equal(
        try_create(
            w, "{kind: Pod, apiVersion: v1, metadata: {name: second}, spec: {priorityClassName: none-such, "
               "containers: [{name: c, image: i}]}}"),
        -1);
    assert_string_equal(w->failure.message,
                        "pods \"second\" is forbidden: no PriorityClass with name none-such was found");
}

/* ---- claims, pods ---- */

static void test_claim_is_bound_protected_and_takes_its_volume_along(void **state)
{
    struct world *w = *state;
    const struct json *claim;

    create(w, "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: p}, spec: {accessModes: "
              "[ReadWriteOnce], "
              "resources: {requests: {storage: 1Gi}}}}");
    run(w);
    claim = doc_of(w, KIND_PVC, "p");
    assert_string_equal(json_at_string(claim, "status.phase"), "Bound");
    assert_string_equal(json_at_string(claim, "status.capacity.storage"), "1Gi");
    assert_string_equal(json_at_string(claim, "spec.storageClassName"), "standard");
    assert_string_equal(json_at_string(object_json(only(w, KIND_PV), &w->arena), "status.phase"), "Bound");
    create(
        w,
        "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {containers: [{name: c, image: i}], volumes: "
        "[{name: v, persistentVolumeClaim: {claimName: p}}]}}");
    delete_object(w, get(w, KIND_PVC, "p"), PROPAGATE_DEFAULT);
    run(w);
    assert_non_null(get(w, KIND_PVC, "p"));
    delete_object(w, get(w, KIND_POD, "x"), PROPAGATE_DEFAULT);
    run(w);
    assert_null(get(w, KIND_PVC, "p"));
    assert_int_equal(count(w, KIND_PV), 0);
}

static void make_volume(struct world *w, const char *name, const char *more)
{
    create(w, arena_printf(&w->arena,
                           "{kind: PersistentVolume, apiVersion: v1, metadata: {name: %s}, spec: {capacity: "
                           "{storage: 2Gi}, accessModes: [ReadWriteOnce], storageClassName: m, "
                           "persistentVolumeReclaimPolicy: Retain, hostPath: {path: /x}%s}}",
                           name, more));
}

static void make_claim(struct world *w, const char *name, const char *more)
{
    create(w, arena_printf(&w->arena,
                           "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: %s}, spec: "
                           "{accessModes: [ReadWriteOnce], storageClassName: m, resources: {requests: "
                           "{storage: 1Gi}}%s}}",
                           name, more));
    run(w);
}

static const char *volume_of(struct world *w, const char *claim)
{
    return json_string_or(json_at(doc_of(w, KIND_PVC, claim), "spec.volumeName"), "");
}

static void test_claims_get_the_volume_kept_named_or_free(void **state)
{
    struct world *w = *state;

    make_volume(w, "b", "");
    make_volume(w, "a", "");
    make_volume(w, "kept", ", claimRef: {namespace: default, name: theirs}");
    make_claim(w, "first", "");
    assert_string_equal(volume_of(w, "first"), "a");
    make_claim(w, "theirs", "");
    assert_string_equal(volume_of(w, "theirs"), "kept");
    make_claim(w, "named", ", volumeName: b");
    assert_string_equal(json_at_string(doc_of(w, KIND_PVC, "named"), "status.phase"), "Bound");
    make_claim(w, "early", ", volumeName: late");
    assert_string_not_equal(json_at_string(doc_of(w, KIND_PVC, "early"), "status.phase"), "Bound");
    make_volume(w, "late", "");
    run(w);
    assert_string_equal(json_at_string(doc_of(w, KIND_PVC, "early"), "status.phase"), "Bound");
    make_claim(w, "more", "");
    assert_true(starts_with(volume_of(w, "more"), "pvc-"));
}

static void test_services_get_addresses_of_their_own(void **state)
{
    struct world *w = *state;
    const char *first, *second;

    create(
        w,
        "{kind: Service, apiVersion: v1, metadata: {name: a}, spec: {type: NodePort, ports: [{port: 80}]}}");
    create(w, "{kind: Service, apiVersion: v1, metadata: {name: b}, spec: {ports: [{port: 80}]}}");
    first = json_at_string(doc_of(w, KIND_SERVICE, "a"), "spec.clusterIP");
    second = json_at_string(doc_of(w, KIND_SERVICE, "b"), "spec.clusterIP");
    assert_true(starts_with(first, "10.96.") && starts_with(second, "10.96."));
    assert_false(streq(first, second));
    assert_string_equal(json_at_string(doc_of(w, KIND_SERVICE, "a"), "spec.clusterIPs.0"), first);
    assert_true(json_int(json_at(doc_of(w, KIND_SERVICE, "a"), "spec.ports.0.nodePort"), 0) >= 30000);
    assert_null(json_at(doc_of(w, KIND_SERVICE, "b"), "spec.ports.0.nodePort"));
    assert_int_equal(
        try_create(w,
                   arena_printf(&w->arena,
                                "{kind: Service, apiVersion: v1, metadata: {name: c}, spec: {clusterIP: %s, "
                                "ports: [{port: 80}]}}",
                                first)),
        -1);
    assert_int_equal(w->failure.code, 422);
}

static void test_pods_of_unknown_runtimes_are_refused(void **state)
{
    struct world *w = *state;

    assert_int_equal(try_create(w,
                                "{kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {runtimeClassName: "
                                "gvisor, containers: [{name: c, image: i}]}}"),
                     -1);
    assert_string_equal(w->failure.message,
                        "pods \"p\" is forbidden: pod rejected: RuntimeClass \"gvisor\" not found");
}

static void test_only_nodes_of_users_start_with_a_taint(void **state)
{
    static const struct identity admin = {.user = "admin", .groups = {"system:masters"}, .group_count = 1};
    struct world *w = *state;
    struct write write = write_of(w);
    struct written written;
    struct json *doc;

    create(w, "{kind: Node, apiVersion: v1, metadata: {name: own}}");
    assert_null(json_at(doc_of(w, KIND_NODE, "own"), "spec.taints"));
    assert_int_equal(
        yaml_parse_one(STR("{kind: Node, apiVersion: v1, metadata: {name: other}}"), &w->arena, &doc, NULL),
        0);
    write.who = &admin;
    assert_int_equal(registry_create(w->registry, &write, kind_by_id(KIND_NODE), "", doc, &written), 0);
    assert_string_equal(json_at_string(doc_of(w, KIND_NODE, "other"), "spec.taints.0.key"),
                        "node.kubernetes.io/not-ready");
}

static void test_waiting_pod_says_why(void **state)
{
    struct world *w = *state;

    create(
        w,
        "{kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {containers: [{name: c, image: i, resources: "
        "{limits: {nvidia.com/gpu: 2}}}]}}");
    run(w);
    assert_string_equal(json_at_string(doc_of(w, KIND_POD, "x"), "status.conditions.0.message"),
                        "no node agent is running on this machine");
    create(w,
           "{kind: Node, apiVersion: v1, metadata: {name: node}, status: {allocatable: {cpu: 4, pods: 10}}}");
    run(w);
    assert_string_equal(json_at_string(doc_of(w, KIND_POD, "x"), "status.conditions.0.message"),
                        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.");
    assert_true(has_event(w, "FailedScheduling", "1 Insufficient nvidia.com/gpu."));
}

/* ---- services ---- */

#define SERVICE                                                                                              \
    "{kind: Service, apiVersion: v1, metadata: {name: web}, spec: {selector: {app: web}, ports: [{port: "    \
    "80}]}}"
#define WEB_POD(name)                                                                                        \
    "{kind: Pod, apiVersion: v1, metadata: {name: " name ", labels: {app: web}}, spec: {nodeName: node, "    \
    "containers: [{name: c, image: i}]}}"

static void run_on(struct world *w, int64_t nsec)
{
    int64_t end = clock_monotonic() + nsec;

    while (clock_monotonic() < end)
        assert_int_equal(loop_turn(w->loop, 10, NULL), 0);
    run(w);
}

static bool set_ip(void *arg, struct arena *arena, struct json *doc)
{
    json_set_string(arena, json_need_object(arena, doc, "status"), "podIP", arg);
    return true;
}

static void pod_gets_ip(struct world *w, const char *name, const char *ip)
{
    struct write write = write_of(w);
    struct written written;

    assert_int_equal(registry_edit_object(w->registry, &write, get(w, KIND_POD, name), set_ip,
                                          (void *)(uintptr_t)ip, &written),
                     0);
    run_on(w, 100 * NSEC_PER_MSEC); /* changes of pods are gathered */
}

static const char *not_ready(struct world *w, size_t i)
{
    return json_at_string(doc_of(w, KIND_ENDPOINTS, "web"),
                          arena_printf(&w->arena, "subsets.0.notReadyAddresses.%zu.ip", i));
}

static void test_endpoints_follow_pods_and_go_with_the_service(void **state)
{
    struct world *w = *state;
    int64_t before;

    create(w, SERVICE);
    run(w);
    assert_int_equal(count(w, KIND_ENDPOINTS), 1);
    create(w, WEB_POD("a"));
    pod_gets_ip(w, "a", "10.0.0.1");
    assert_string_equal(not_ready(w, 0), "10.0.0.1");
    before = get(w, KIND_ENDPOINTS, "web")->rv;
    pod_becomes(w, get(w, KIND_POD, "a"), (struct phase){"Running", NULL, 0}); /* nothing to services */
    run_on(w, 100 * NSEC_PER_MSEC);
    assert_int_equal(get(w, KIND_ENDPOINTS, "web")->rv, before);
    delete_object(w, only(w, KIND_ENDPOINT_SLICE), PROPAGATE_DEFAULT);
    run(w);
    assert_string_equal(
        json_at_string(object_json(only(w, KIND_ENDPOINT_SLICE), &w->arena), "endpoints.0.addresses.0"),
        "10.0.0.1");
    delete_object(w, get(w, KIND_SERVICE, "web"), PROPAGATE_DEFAULT);
    run(w);
    assert_int_equal(count(w, KIND_ENDPOINTS), 0);
    assert_int_equal(count(w, KIND_ENDPOINT_SLICE), 0);
    pod_gets_ip(w, "a", "10.0.0.2"); /* while nobody looks */
    create(w, SERVICE);
    run(w);
    assert_string_equal(not_ready(w, 0), "10.0.0.2");
}

static void test_a_flood_of_events_is_cut(void **state)
{
    struct world *w = *state;
    int64_t end = clock_monotonic() + 10 * NSEC_PER_SEC;

    for (int i = 0; i < EVENTS_PER_NS_MAX + 700; i++)
        registry_event(w->registry, get(w, KIND_SERVICE_ACCOUNT, "default"), "Normal", "Flood", "drop %d", i);
    run(w);
    assert_true(count(w, KIND_EVENT) > EVENTS_PER_NS_MAX);
    while (count(w, KIND_EVENT) > EVENTS_PER_NS_MAX && clock_monotonic() < end)
        loop_turn(w->loop, 10, NULL);
    assert_in_range(count(w, KIND_EVENT), EVENTS_PER_NS_MAX - EVENTS_TRIM, EVENTS_PER_NS_MAX);
}

static void test_many_writes_cost_little_each(void **state)
{
    struct world *w = *state;
    int64_t start = clock_monotonic();

    for (int i = 0; i < 2000; i++) {
        char text[160];

        snprintf(text, sizeof(text), "{kind: ConfigMap, apiVersion: v1, metadata: {name: m%d}}", i);
        create(w, text);
    }
    run(w);
    assert_true(clock_monotonic() - start < 20 * NSEC_PER_SEC); /* no quadratic surprise */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_new_namespace_gets_its_service_account),
        T(test_deleted_namespace_empties_and_goes),
        T(test_job_runs_its_pods_one_after_another),
        T(test_deleted_pods_stay_counted_and_are_replaced),
        T(test_job_fails_at_its_backoff_limit),
        T(test_job_deleted_in_the_background_takes_its_pods),
        T(test_job_deleted_in_the_foreground_goes_last),
        T(test_orphaned_pods_are_free),
        T(test_more_dependents_than_one_look_can_free_are_all_freed),
        T(test_a_full_namespace_empties_in_several_looks),
        T(test_finished_job_goes_after_its_time),
        cmocka_unit_test(test_what_was_not_looked_at_is_after_a_restart),
        cmocka_unit_test(test_what_a_full_disk_undid_is_done_again),
        T(test_quota_refuses_counts_and_recovers),
        T(test_job_over_quota_says_so_and_goes_on_later),
        T(test_limit_range_fills_in_and_refuses),
        T(test_priority_class_gives_its_number),
        T(test_claim_is_bound_protected_and_takes_its_volume_along),
        T(test_claims_get_the_volume_kept_named_or_free),
        T(test_services_get_addresses_of_their_own),
        T(test_pods_of_unknown_runtimes_are_refused),
        T(test_only_nodes_of_users_start_with_a_taint),
        T(test_waiting_pod_says_why),
        T(test_endpoints_follow_pods_and_go_with_the_service),
        T(test_a_flood_of_events_is_cut),
        T(test_many_writes_cost_little_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
