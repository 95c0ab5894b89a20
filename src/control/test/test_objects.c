/* Owners, namespaces, claims, events, waiting pods. */
#include "control/events.h"
#include "control/gc.h"
#include "control/namespace.h"
#include "control/pod_pending.h"
#include "control/pvc.h"
#include "control_util.h"

/* ---- owners ---- */

static const struct object *find_uid(void *arg, const char *uid)
{
    struct bench *b = arg;

    VEC_EACH(&b->objects, it)
        if (streq((*it)->uid, uid))
            return *it;
    return NULL;
}

static void find_dependents(void *arg, const char *uid, void (*fn)(void *fn_arg, const struct object *object),
                            void *fn_arg)
{
    struct bench *b = arg;

    VEC_EACH(&b->objects, it)
        for (uint32_t i = 0; i < (*it)->owner_count; i++)
            if (str_is((*it)->owners[i], uid))
                fn(fn_arg, *it);
}

#define REF(uid)        "{apiVersion: batch/v1, kind: Job, name: j, uid: " uid ", blockOwnerDeletion: true}"
#define FOREIGN_REF(id) "{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: " id "}"
#define DELETING        "deletionTimestamp: '2026-01-01T00:00:00Z', "

struct gc_case {
    const char *what;
    const char *there; /* jobs beside it: metadata */
    const char *meta;  /* of the pod that is looked at */
    const char *expect;
    const char *refs_left; /* of the update, number */
};

static const struct gc_case gc_cases[] = {
    {"an owner that is there keeps it", "[{name: j, uid: a}]", "ownerReferences: [" REF("a") "]", "", NULL},
    {"without its owner it goes", "[]", "ownerReferences: [" REF("a") "]", "delete x", NULL},
    {"of two owners one is enough", "[{name: j, uid: b}]", "ownerReferences: [" REF("a") ", " REF("b") "]",
     "update x", "1"},
    {"an owner of another kind of world counts as there", "[]", "ownerReferences: [" FOREIGN_REF("z") "]", "",
     NULL},
    {"on its way already", "[]", DELETING "ownerReferences: [" REF("a") "]", "", NULL},
    {"an owner that waits for it", "[{name: j, uid: a, " DELETING "finalizers: [foregroundDeletion]}]",
     "ownerReferences: [" REF("a") "]", "delete x", NULL},
    {"as owner it waits for those that block it", "[{name: j, uid: a, ownerReferences: [" REF("uid-x") "]}]",
     DELETING "finalizers: [foregroundDeletion]", "", NULL},
    {"and goes without them", "[]", DELETING "finalizers: [foregroundDeletion]", "update x", NULL},
    {"orphans are let go", "[{name: j, uid: a, ownerReferences: [" REF("uid-x") ", " FOREIGN_REF("o") "]}]",
     DELETING "finalizers: [orphan, other]", "update j; update x", "1"},
    {"nothing to see", "[]", "labels: {foregroundDeletion: a}", "", NULL},
};

static void test_garbage(void **state)
{
    struct bench *b = *state;
    struct gc_world world = {find_uid, find_dependents, b};

    for (size_t i = 0; i < ARRAY_LEN(gc_cases); i++) {
        const struct gc_case *c = &gc_cases[i];
        struct object *object;

        bench_reset(b);
        object = object_from(b, KIND_POD, arena_printf(&b->arena, "{metadata: {name: x, %s}}", c->meta));
        JSON_EACH(from_yaml(b, c->there), it) {
            struct json *doc = json_new_object(&b->arena);

            json_set(&b->arena, doc, "metadata", *it);
            object_of(b, KIND_JOB, doc);
        }
        gc_look(object, &world, &b->effects);
        if (!streq(effects_text(b), c->expect))
            fail_msg("%s:\n  got  %s\n  want %s", c->what, effects_text(b), c->expect);
        if (c->refs_left)
            assert_int_equal(json_len(json_at(effect_doc(b, EFFECT_UPDATE), "metadata.ownerReferences")),
                             strtol(c->refs_left, NULL, 10));
        assert_true(!*c->expect || gc_concerns(object));
    }
}

/* ---- namespaces ---- */

static void test_namespace_gets_an_account_once(void **state)
{
    struct bench *b = *state;
    struct namespace_view view = {.ns = object_from(b, KIND_NAMESPACE, "{metadata: {name: lab}}"),
                                  .now = now_ns()};

    namespace_look(&view, &b->effects);
    assert_string_equal(effects_text(b), "create default");
    assert_string_equal(b->effects.v[0].ns, "lab");
    b->effects.len = 0;
    view.has_account = true;
    namespace_look(&view, &b->effects);
    assert_int_equal(b->effects.len, 0);
}

static void test_namespace_empties_then_goes(void **state)
{
    struct bench *b = *state;
    const struct object *content[2];
    struct namespace_view view = {
        .ns = object_from(
            b, KIND_NAMESPACE,
            "{metadata: {name: lab, deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {finalizers: "
            "[kubernetes]}, status: {phase: Active}}"),
        .content = content,
        .content_count = 2,
        .total = 2,
        .now = now_ns(),
    };

    content[0] = object_from(b, KIND_CONFIG_MAP, "{metadata: {name: a}}");
    content[1] =
        object_from(b, KIND_CONFIG_MAP, "{metadata: {name: b, deletionTimestamp: '2026-01-01T00:00:00Z'}}");
    namespace_look(&view, &b->effects);
    assert_string_equal(effects_text(b), "delete a; status lab");
    assert_string_equal(json_at_string(effect_doc(b, EFFECT_UPDATE_STATUS), "status.phase"), "Terminating");
    b->effects.len = 0;
    view.content_count = view.total = 0;
    namespace_look(&view, &b->effects);
    assert_string_equal(effects_text(b), "update lab");
    assert_int_equal(json_len(json_at(effect_doc(b, EFFECT_UPDATE), "spec.finalizers")), 0);
}

/* ---- claims ---- */

#define CLAIM(meta, spec, status)                                                                            \
    "{metadata: {name: c, uid: u, finalizers: [kubernetes.io/pvc-protection], " meta                         \
    "}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}, " spec                   \
    "}, status: {" status "}}"
#define VOLUME(name, size, spec)                                                                             \
    "{metadata: {name: " name "}, spec: {capacity: {storage: " size                                          \
    "}, accessModes: [ReadWriteOnce, ReadWriteMany], " spec "}}"

struct claim_case {
    const char *what;
    const char *claim, *volumes;
    const char *expect, *volume_name;
    bool in_use;
};

static const struct claim_case claim_cases[] = {
    {"a volume is made at once", CLAIM("", "storageClassName: standard", "phase: Pending"), "[]",
     "create pvc-u; event ProvisioningSucceeded; update c", "pvc-u"},
    {"one that fits is taken, the smallest", CLAIM("", "storageClassName: s", ""),
     "[" VOLUME("big", "9Gi", "storageClassName: s") ", " VOLUME(
         "good", "3Gi", "storageClassName: s") ", " VOLUME("small", "1Gi",
                                                           "storageClassName: s") ", " VOLUME("other", "2Gi",
                                                                                              "") "]",
     "update good; update c", "good"},
    {"one that is taken is not", CLAIM("", "storageClassName: s", ""),
     "[" VOLUME("a", "9Gi", "storageClassName: s, claimRef: {namespace: default, name: z, uid: o}") "]",
     "create pvc-u; event ProvisioningSucceeded; update c", "pvc-u"},
    {"one by name", CLAIM("", "volumeName: a", ""), "[" VOLUME("a", "1Gi", "") "]", "update a; update c",
     "a"},
    {"one by name that is not there is waited for", CLAIM("", "volumeName: a, storageClassName: s", ""), "[]",
     "", NULL},
    {"one that waits for this claim", CLAIM("", "storageClassName: s", ""),
     "[" VOLUME("a", "1Gi", "claimRef: {namespace: default, name: c}") "]", "update a; update c", "a"},
    {"no class, no volume", CLAIM("", "storageClassName: ''", ""), "[]", "", NULL},
    {"bound is bound", CLAIM("", "volumeName: a", "phase: Bound"), "[" VOLUME("a", "1Gi", "") "]", "", NULL},
    {"it grows, and its volume with it", CLAIM("", "volumeName: a", "phase: Bound, capacity: {storage: 1Gi}"),
     "[" VOLUME("a", "1Gi", "csi: {driver: berth.dev/local}") "]",
     "update a; status c; event VolumeResizeSuccessful", NULL},
    {"the volume has grown already", CLAIM("", "volumeName: a", "phase: Bound, capacity: {storage: 1Gi}"),
     "[" VOLUME("a", "2Gi", "csi: {driver: berth.dev/local}") "]", "status c; event VolumeResizeSuccessful",
     NULL},
    {"it has the size it wants", CLAIM("", "volumeName: a", "phase: Bound, capacity: {storage: 2Gi}"),
     "[" VOLUME("a", "2Gi", "csi: {driver: berth.dev/local}") "]", "", NULL},
    {"others' volumes have the size they have",
     CLAIM("", "volumeName: a", "phase: Bound, capacity: {storage: 1Gi}"),
     "[" VOLUME("a", "1Gi", "hostPath: {path: /x}") "]", "", NULL},
    {"a lost volume is said", CLAIM("", "volumeName: a", "phase: Bound"), "[]", "status c; event ClaimLost",
     NULL},
    {"in use it stays", CLAIM(DELETING, "", "phase: Bound"), "[]", "", NULL, .in_use = true},
    {"else it goes", CLAIM(DELETING, "", "phase: Bound"), "[]", "update c", NULL},
};

static void test_claims(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(claim_cases); i++) {
        const struct claim_case *c = &claim_cases[i];
        struct pvc_view view = {.in_use = c->in_use, .now = now_ns()};
        const struct json *claim = NULL;

        bench_reset(b);
        JSON_EACH(from_yaml(b, c->volumes), it)
            object_of(b, KIND_PV, it);
        view.volume_count = b->objects.len;
        view.claim = object_from(b, KIND_PVC, c->claim);
        view.volumes = (const struct object *const *)b->objects.v;
        pvc_look(&view, &b->effects);
        if (!streq(effects_text(b), c->expect))
            fail_msg("%s:\n  got  %s\n  want %s", c->what, effects_text(b), c->expect);
        for (size_t e = 0; e < b->effects.len; e++)
            if (b->effects.v[e].kind && b->effects.v[e].kind->id == KIND_PVC)
                claim = b->effects.v[e].doc;
        if (!c->volume_name)
            continue;
        assert_string_equal(json_at_string(claim, "spec.volumeName"), c->volume_name);
        assert_string_equal(json_at_string(claim, "status.phase"), "Bound");
        assert_non_null(json_at(claim, "status.capacity.storage"));
    }
}

struct volume_case {
    const char *volume, *claim_uid, *expect, *phase;
};

static const struct volume_case volume_cases[] = {
    {"{metadata: {name: v}, spec: {}}", NULL, "status v", "Available"},
    {"{metadata: {name: v}, spec: {claimRef: {uid: u}}}", "u", "status v", "Bound"},
    {"{metadata: {name: v}, spec: {claimRef: {uid: u}}, status: {phase: Bound}}", "u", "", NULL},
    {"{metadata: {name: v}, spec: {claimRef: {uid: u}, persistentVolumeReclaimPolicy: Delete}}", NULL,
     "delete v", NULL},
    {"{metadata: {name: v}, spec: {claimRef: {uid: u}, persistentVolumeReclaimPolicy: Retain}}", "other",
     "status v", "Released"},
    {"{metadata: {name: v, " DELETING
     "finalizers: [kubernetes.io/pv-protection]}, spec: {claimRef: {uid: u}}}",
     "u", "", NULL},
    {"{metadata: {name: v, " DELETING
     "finalizers: [kubernetes.io/pv-protection]}, spec: {claimRef: {uid: u}}}",
     NULL, "update v", NULL},
};

static void test_volumes(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(volume_cases); i++) {
        const struct volume_case *c = &volume_cases[i];
        const struct object *claim = NULL;

        bench_reset(b);
        if (c->claim_uid)
            claim = object_from(b, KIND_PVC,
                                arena_printf(&b->arena, "{metadata: {name: c, uid: %s}}", c->claim_uid));
        pv_look(object_from(b, KIND_PV, c->volume), claim, now_ns(), &b->effects);
        assert_string_equal(effects_text(b), c->expect);
        if (c->phase)
            assert_string_equal(json_at_string(effect_doc(b, EFFECT_UPDATE_STATUS), "status.phase"),
                                c->phase);
    }
}

static void test_pods_use_claims_until_they_end(void **state)
{
    struct bench *b = *state;

    assert_true(pod_uses_claim(
        object_from(b, KIND_POD, "{spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}"),
        "data", &b->arena));
    assert_false(
        pod_uses_claim(object_from(b, KIND_POD,
                                   "{spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}, "
                                   "status: {phase: Succeeded}}"),
                       "data", &b->arena));
    assert_false(pod_uses_claim(object_from(b, KIND_POD, "{metadata: {name: data}}"), "data", &b->arena));
}

/* ---- events ---- */

static void test_events_go_an_hour_after_they_were_seen(void **state)
{
    struct bench *b = *state;
    struct event_queue *queue = event_queue_new();
    struct object *old =
        object_from(b, KIND_EVENT, "{metadata: {name: old}, lastTimestamp: '2026-01-01T00:00:00Z'}");
    struct object *new = object_from(b, KIND_EVENT, "{metadata: {name: new}}");
    int64_t t = event_time(object_json(old, &b->arena));

    assert_true(t == now_ns() - 600 * NSEC_PER_SEC);
    event_queue_put(queue, new, t);
    event_queue_put(queue, old, t);
    event_queue_put(queue, new, t + NSEC_PER_SEC); /* seen again */
    assert_true(event_queue_look(queue, t + 3599 * NSEC_PER_SEC, &b->effects) == t + 3600 * NSEC_PER_SEC);
    assert_int_equal(b->effects.len, 0);
    assert_true(event_queue_look(queue, t + 3600 * NSEC_PER_SEC, &b->effects) == t + 3601 * NSEC_PER_SEC);
    assert_string_equal(effects_text(b), "delete old");
    event_queue_remove(queue, new->uid);
    assert_true(event_queue_look(queue, t + 9999 * NSEC_PER_SEC, &b->effects) == 0);
    event_queue_free(queue);
}

static void test_too_many_events_lose_the_oldest(void **state)
{
    struct bench *b = *state;
    struct event_queue *queue = event_queue_new();

    for (int i = 0; i < EVENTS_PER_NS_MAX + 1; i++)
        event_queue_put(queue,
                        object_from(b, KIND_EVENT, arena_printf(&b->arena, "{metadata: {name: e%d}}", i)),
                        i * NSEC_PER_SEC);
    event_queue_trim(queue, "default", &b->effects);
    assert_int_equal(b->effects.len, EVENTS_TRIM + 1);
    assert_string_equal(b->effects.v[0].name, "e0");
    event_queue_free(queue);
}

/* ---- waiting pods ---- */

struct pending_case {
    const char *what;
    const char *pod, *nodes;
    const char *expect, *message;
};

#define NODE(rest) "{metadata: {name: n1}, status: {allocatable: {cpu: 4, nvidia.com/gpu: 1}}" rest "}"
#define READY_NODE                                                                                           \
    "{metadata: {name: n2}, status: {allocatable: {cpu: 4}, conditions: [{type: Ready, status: 'True'}]}}"
#define WANTS(resources) "{spec: {containers: [{name: c, resources: {requests: {" resources "}}}]}}"
#define NO_AGENT         "no node agent is running on this machine"

static const struct pending_case pending_cases[] = {
    {"no node", WANTS("cpu: 1"), "[]", "status x; event FailedScheduling", NO_AGENT},
    {"a node that nobody runs", WANTS("cpu: 1"), "[" NODE("") "]", "status x; event FailedScheduling",
     NO_AGENT},
    {"too much", WANTS("nvidia.com/gpu: 2"), "[" NODE("") "]", "status x; event FailedScheduling",
     "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."},
    {"too much of several things", WANTS("cpu: 5, nvidia.com/gpu: 2"), "[" NODE("") ", " READY_NODE "]",
     "status x; event FailedScheduling",
     "0/2 nodes are available: 2 Insufficient cpu, 2 Insufficient nvidia.com/gpu."},
    {"cordoned", WANTS("cpu: 1"), "[" NODE(", spec: {unschedulable: true}") "]",
     "status x; event FailedScheduling", "0/1 nodes are available: 1 node(s) were unschedulable."},
    {"elsewhere", "{spec: {nodeSelector: {a: b}}}", "[" READY_NODE "]", "status x; event FailedScheduling",
     "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
    {"tainted", WANTS("cpu: 1"), "[" NODE(", spec: {taints: [{key: a, value: b, effect: NoSchedule}]}") "]",
     "status x; event FailedScheduling", "0/1 nodes are available: 1 node(s) had untolerated taint {a: b}."},
    {"tainted, and tolerated", "{spec: {tolerations: [{key: a, operator: Exists}]}}",
     "[{metadata: {name: n2}, spec: {taints: [{key: a, value: b, effect: NoSchedule}]},"
     " status: {conditions: [{type: Ready, status: 'True'}]}}]",
     "", NULL},
    {"affinity names another node",
     "{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
     "[{matchExpressions: [{key: a, operator: Exists}]}]}}}}}",
     "[" READY_NODE "]", "status x; event FailedScheduling",
     "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
    {"it fits: the scheduler's turn", WANTS("cpu: 1"), "[" READY_NODE "]", "", NULL},
    {"said already",
     "{status: {conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: " NO_AGENT
     "}]}}",
     "[]", "", NULL},
    {"it has a node", "{spec: {nodeName: n1}}", "[]", "", NULL},
    {"another scheduler's", "{spec: {schedulerName: other}}", "[]", "", NULL},
    {"gated", "{spec: {schedulingGates: [{name: g}]}}", "[]", "status x",
     "Scheduling is blocked due to non-empty scheduling gates"},
    {"deleted before it ran", "{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}}", "[]", "delete x",
     NULL},
};

static void test_waiting_pods(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(pending_cases); i++) {
        const struct pending_case *c = &pending_cases[i];
        size_t nodes;

        bench_reset(b);
        JSON_EACH(from_yaml(b, c->nodes), it)
            object_of(b, KIND_NODE, it);
        nodes = b->objects.len;
        object_from(b, KIND_POD, c->pod);
        pod_pending_look(b->objects.v[nodes], b->objects.v, nodes, now_ns(), &b->effects);
        if (!streq(effects_text(b), c->expect))
            fail_msg("%s:\n  got  %s\n  want %s", c->what, effects_text(b), c->expect);
        if (c->message)
            assert_string_equal(
                json_at_string(effect_doc(b, EFFECT_UPDATE_STATUS), "status.conditions.0.message"),
                c->message);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        T(test_garbage),
        T(test_namespace_gets_an_account_once),
        T(test_namespace_empties_then_goes),
        T(test_claims),
        T(test_volumes),
        T(test_pods_use_claims_until_they_end),
        T(test_events_go_an_hour_after_they_were_seen),
        T(test_too_many_events_lose_the_oldest),
        T(test_waiting_pods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
