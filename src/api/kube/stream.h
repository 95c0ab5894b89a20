/* stream - the upgrades of a pod: exec, attach, portforward. Finds out which protocol the client speaks and
 * begins a session (stream_exec.h, portforward.h) on the connection. log.c has the fourth, which is plain
 * HTTP. */
#pragma once

#include "api/kube/kube.h"
#include "engine/pod_ops.h"

/* What a request asks of a pod that has a node; container is NULL for portforward. Each ends the request. */
typedef void (*stream_fn)(struct call *call, const struct object *pod, const char *container);
void stream_exec(struct call *call, const struct object *pod, const char *container);
void stream_attach(struct call *call, const struct object *pod, const char *container);
void stream_portforward(struct call *call, const struct object *pod, const char *container);

/* log.c */
void log_begin(struct call *call, const struct object *pod, const char *container);

struct pod_ref stream_pod_ref(const struct object *pod, struct arena *arena); /* strings in the arena */
