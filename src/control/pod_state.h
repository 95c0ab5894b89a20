/* pod_state - what state a pod is in, and why: the one answer for the queue's rows and start deadlines, the
 * page, the command line and the records. Read from the pod's document alone, so it is what the node side
 * reported, not what somebody planned. Pure. */
#pragma once

#include "base/json.h"

#define POD_STATE_TEXT_MAX 512

/* A condition that an engine keeps in the status of a pod that cannot start. It is True from the first
 * failed try on, through later tries, until something moves (an image comes in, a container starts); its
 * lastTransitionTime is when the first try failed. */
#define POD_CANNOT_START "berth.dev/CannotStart"

enum pod_state_kind {
    POD_STATE_PENDING,  /* on no node. text: what it waits for, as its PodScheduled condition says */
    POD_STATE_PULLING,  /* on a node, and an image is being got. text: "pulling image x: 40 %" */
    POD_STATE_STARTING, /* on a node, and its containers are being made. text: what is being done */
    POD_STATE_STUCK,    /* on a node, and cannot start; the node tries again. text: why, in one sentence */
    POD_STATE_RUNNING,  /* the node reported a container of it as running; text: "", or why one is not */
    POD_STATE_STOPPING, /* it was deleted and something of it is still there */
    POD_STATE_OVER,     /* Succeeded or Failed. text: how it ended: "exit code 1: ValueError: x" */
};

struct pod_state {
    enum pod_state_kind kind;
    /* In nanoseconds since 1970, 0: not known. STUCK: when it failed first. RUNNING: when its first container
     * was started. STOPPING: when its end was asked for. OVER: when its last container ended. */
    int64_t since;
    const char *reason; /* Kubernetes' word: "ImagePullBackOff", "OOMKilled", "Evicted"; "": none. In doc */
    char text[POD_STATE_TEXT_MAX];
    /* OVER: of the container that failed, or the first. */
    bool failed;
    int exit_code; /* -1: no container of it ran */
    int signal;    /* 0: it ended by itself */
    bool oom;
    const char *message; /* what the container left as its last message; "": nothing. In doc */
};

/* doc: the pod; what ret points at lives as long as it. */
void pod_state_read(const struct json *doc, struct pod_state *ret);

/* How a container ended, in words: "exit code 1: ValueError: x", "out of memory (killed, exit code 137)".
 * line is the last line of what it wrote, NULL or "": not known. */
void pod_state_end_text(const struct pod_state *state, const char *line, char text[POD_STATE_TEXT_MAX]);

/* The message of a container whose image is being got; percent -1: not known. For engines. */
void pod_state_pulling_text(const char *image, int percent, char text[POD_STATE_TEXT_MAX]);
/* Whether a container's waiting reason says that it cannot start, in Kubernetes' words. */
bool pod_state_is_stuck(const char *waiting_reason);
