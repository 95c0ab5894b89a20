/* job - what a Job wants done about its Pods, as Kubernetes' job controller does it.
 *
 * Every pod of a job is made with the finalizer batch.kubernetes.io/job-tracking. A finished pod that has it
 * is not counted yet; counting it and taking the finalizer off are effects of one look, which become durable
 * together. So a pod cannot vanish before it is counted, is never counted twice, and status.succeeded
 * and status.failed only go up, whatever happens to the pods afterwards. (Kubernetes needs
 * status.uncountedTerminatedPods in between, having no transactions; here it is always empty.) */
#pragma once

#include "control/control.h"
#include "objects/object.h"

#define JOB_TRACKING_FINALIZER "batch.kubernetes.io/job-tracking"
#define JOB_BACKOFF_SEC        10 /* after the first failure, doubled with each */
#define JOB_BACKOFF_MAX_SEC    360
#define JOB_CREATES_MAX        50 /* pods made in one look; the rest follows at once */

enum pod_phase { POD_PENDING, POD_RUNNING, POD_SUCCEEDED, POD_FAILED };

/* What a job looks at in a pod: read once per state of the pod. */
struct job_pod {
    const struct object *object;
    enum pod_phase phase;
    bool ready, scheduled, tracked;
    bool preempted; /* the queue took its place, or the machine went down: its end is no failure of the job */
    int index;      /* completion index; -1: none */
    int index_failures; /* of earlier pods of that index */
    int64_t restarts;   /* of all its containers */
    int64_t finished_at;
};
void job_pod_read(const struct object *pod, struct job_pod *ret);

struct job_view {
    const struct object *job;
    const struct job_pod *pods; /* those it controls */
    size_t pod_count;
    int64_t now;
    bool no_creates; /* making pods fails at the moment: only take stock */
};
void job_look(const struct job_view *view, struct effects *effects);

/* A pod with the tracking finalizer whose job is gone. */
void job_orphan_look(const struct object *pod, struct effects *effects);

/* ---- parts of it (job_pods.c) ---- */

/* Sets of completion indexes, written "0-2,5". */
struct index_set {
    bool *has;
    int size, count;
};
void index_set_read(struct index_set *set, struct arena *arena, int size, const char *text);
void index_set_add(struct index_set *set, int index);
char *index_set_write(const struct index_set *set, struct arena *arena);

enum pod_failure_action {
    POD_FAILURE_COUNT,
    POD_FAILURE_IGNORE,
    POD_FAILURE_FAIL_JOB,
    POD_FAILURE_FAIL_INDEX
};
/* What podFailurePolicy (NULL: none) says about a failed pod. *message is set for FAIL_JOB. */
enum pod_failure_action job_pod_failure(const struct json *policy, const struct object *pod,
                                        struct arena *arena, const char **message);

/* The document of a new pod; index -1: none. failures: earlier ones of that index, -1: not counted. */
struct json *job_pod_document(struct arena *arena, const struct json *job, const char *name, int index,
                              int failures);
/* JOB-xxxxx or JOB-INDEX-xxxxx; the same arguments give the same name. */
char *job_pod_name(struct arena *arena, const struct json *job, int index, int64_t now, unsigned nonce);
