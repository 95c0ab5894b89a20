/* What the files of runner share. */
#pragma once

#include "base/heap.h"
#include "base/map.h"
#include "base/vec.h"
#include "control/control.h"
#include "control/events.h"
#include "control/priority.h"
#include "control/pvc.h"
#include "control/quota.h"
#include "daemon/runner.h"
#include "loop/loop.h"
#include "objects/names.h"
#include "objects/object_doc.h"
#include "registry/registry.h"

enum controller {
    CONTROLLER_GC,
    CONTROLLER_NAMESPACE,
    CONTROLLER_JOB,
    CONTROLLER_POD,
    CONTROLLER_QUOTA,
    CONTROLLER_CLAIM,
    CONTROLLER_VOLUME,
    CONTROLLER_ENDPOINTS,
    CONTROLLERS,
};

/* One object to be looked at by one controller. */
struct work {
    enum controller controller;
    char *uid;
    struct work *next; /* in the queue */
    bool queued;
    unsigned failures; /* in a row */
    int64_t wake_at;   /* monotonic; 0: not set */
    size_t place;      /* in the heap of those that wait */
};

/* Callbacks that cannot be taken back ask here whether the runner is still there. */
struct runner_tie {
    struct runner *runner;
    unsigned refs;
};

struct runner {
    struct loop *loop;
    struct registry *registry;
    struct store *store;
    struct store_watch *watch;
    struct runner_tie *tie;
    struct map *works; /* "<controller>UID" → struct work */
    struct work *head, **tail;
    struct heap sleeping;
    struct loop_timer *timer;
    bool running;            /* a run of the queue is asked for */
    struct loop_timer *rest; /* … in the next turn, when there was too much for one */
    struct event_queue *events;
    struct loop_timer *events_timer;
    bool events_soon;          /* it fires within a second */
    struct effects *effects;   /* of the look at hand */
    struct arena arena;        /* of the look at hand */
    struct map *job_pods;      /* uid → struct pod_facts */
    struct map *usages;        /* uid → struct usage_facts */
    struct map *open_volumes;  /* uid of volumes bound to no claim */
    struct map *bound_volumes; /* uid of a claim → name of its volume */
    struct map *digests;       /* uid of services, and of pods beside services → struct digest */
    struct arena class_arena;
    struct priority_class *classes;
    size_t class_count;
    int64_t class_rv; /* newest of those read; -1: read again */
};

/* runner.c */
void runner_enqueue(struct runner *runner, enum controller controller, const char *uid);
/* … not at once, where more of the same is likely to come. */
void runner_enqueue_within(struct runner *runner, enum controller controller, const char *uid, int64_t delay);

/* runner_watch.c: what a change means for whom. */
void runner_event(void *arg, const struct store_event *event);
void runner_seen(struct runner *runner, const struct object *object); /* at start */
void runner_events_look(void *arg);

/* runner_looks.c: each controller with what it looks at. no_creates: see job.h. */
void runner_look(struct runner *runner, enum controller controller, const struct object *object, int64_t now,
                 bool no_creates);
void runner_forget(struct runner *runner, const char *uid); /* what was kept about an object */
void runner_quota_used(struct runner *runner, const struct quota *quota, const struct kind *only,
                       const char *ns, int64_t now, struct arena *arena, struct resource_list *ret);

/* runner_volumes.c: which volumes a claim could get. */
void runner_volume_noted(struct runner *runner, const struct object *volume, const struct object *before,
                         bool deleted);
void runner_volumes_for(struct runner *runner, const struct object *claim, struct pvc_view *view);
void runner_volumes_done(struct runner *runner);

/* runner_endpoints.c: which services a change concerns, and their look. */
void runner_endpoints_pod(struct runner *runner, const struct object *pod, const struct object *before,
                          bool deleted);
void runner_endpoints_service(struct runner *runner, const struct object *service, bool deleted);
void runner_endpoints_kept(struct runner *runner, const struct object *object, bool start);
void runner_endpoints_look(struct runner *runner, const struct object *object);
void runner_endpoints_forget(struct runner *runner, const char *uid); /* NULL: all */

/* runner_admit.c */
int runner_admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old);
