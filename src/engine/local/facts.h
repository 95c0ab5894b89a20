/* facts - what is known about a pod on this node, apart from its document: one struct per container. Made
 * from the pod's spec and the status that is stored (so nothing is lost when the daemon ends), changed by
 * what the runtime reports, read by plan (what to do next) and status (what to show). No I/O, no clock. */
#pragma once

#include "base/cleanup.h"
#include "base/json.h"

#define FACTS_CONTAINERS_MAX 256
#define BACKOFF_FIRST_SEC    10
#define BACKOFF_MAX_SEC      300
#define STUCK_SHOWN_SEC      1   /* ErrImagePull, then ImagePullBackOff until the next try */
#define BACKOFF_RESET_SEC    600 /* who ran for so long begins anew */

enum ctr_state {
    CTR_NONE,     /* not begun */
    CTR_PULLING,  /* its image is being got */
    CTR_STUCK,    /* image or start failed; tried again at retry_at */
    CTR_STARTING, /* the runtime is at it */
    CTR_RUNNING,
    CTR_EXITED,
};

/* How a run ended. */
struct ctr_end {
    bool there;
    int code, signal;
    char reason[32]; /* "Completed", "Error", "OOMKilled" … */
    char *message;   /* heap; NULL: none */
    int64_t started, finished;
    char id[160]; /* of the container; "" when none was made */
};

struct ctr {
    char name[64];
    const struct json *spec; /* in the pod's document */
    bool init, sidecar;      /* a sidecar is an init container with restartPolicy Always */
    enum ctr_state state;
    int restarts;      /* number of this run: 0 is the first */
    unsigned quick;    /* ends in a row without a long run between: decides the back-off */
    unsigned failures; /* pulls or starts in a row */
    int64_t retry_at;  /* of STUCK */
    int64_t stuck_at;  /* of STUCK */
    bool fetching;     /* of PULLING: the image has to come from somewhere */
    int percent;       /* of PULLING: how much of it is here; -1: not known */
    char reason[48];   /* "ErrImagePull": of STUCK, and while the next try has not come further */
    char *message;     /* the same; heap */
    int64_t started;   /* of RUNNING */
    bool ready, begun; /* by the probes; without any: as soon as it runs */
    char image_id[800];
    char id[160];        /* runtime's id of the newest run; "" none */
    struct ctr_end end;  /* of EXITED, and while the next run is prepared */
    struct ctr_end last; /* of the run before */
};

enum restart_policy { RESTART_ALWAYS, RESTART_ON_FAILURE, RESTART_NEVER };

struct facts {
    struct ctr *ctrs; /* init containers first, in order */
    size_t len;
    enum restart_policy policy;
    bool deleting, sandbox;   /* sandbox: network and volumes are ready */
    bool ended;               /* the stored phase is Succeeded or Failed: for good */
    int64_t start_time;       /* 0: not acknowledged yet */
    int64_t deadline;         /* activeDeadlineSeconds from start_time; 0: none */
    char no_sandbox[48];      /* "" or why there is none: "CreateContainerConfigError" */
    char *no_sandbox_message; /* heap */
    char fail_reason[32];     /* "" or why the pod as a whole must end: DeadlineExceeded, NodeReboot … */
    char *fail_message;       /* heap */
    char pod_ip[48], host_ip[48];
};

/* Builds it from a pod's document, which must stay. */
void facts_init(struct facts *facts, const struct json *pod);
/* The same containers from a newer document; what is known stays. */
void facts_refresh(struct facts *facts, const struct json *pod);
void facts_done(struct facts *facts);
static inline void facts_done_cleanup_(struct facts *facts)
{
    facts_done(facts);
}
struct ctr *facts_find(const struct facts *facts, const char *name);

void ctr_stuck(struct ctr *ctr, const char *reason, const char *message, int64_t now);
void ctr_started(struct ctr *ctr, int64_t time);
/* The run that was going on ended; started 0: as known. */
void ctr_exited(struct ctr *ctr, int code, int signal, const char *reason, const char *message,
                int64_t started, int64_t finished);
/* A new run begins: the old end becomes lastState, restarts goes up. */
void ctr_again(struct ctr *ctr);
static inline bool ctr_alive(const struct ctr *ctr)
{
    return ctr->state == CTR_STARTING || ctr->state == CTR_RUNNING;
}

/* What a STUCK container waits for, as shown at that time. */
const char *ctr_stuck_reason(const struct ctr *ctr, int64_t now);
int64_t backoff_sec(unsigned failures); /* 0: 0, 1: 10, 2: 20 … 300 */
void facts_fail(struct facts *facts, const char *reason, const char *message);
/* Network or volumes could not be made; it is tried again. */
void facts_no_sandbox(struct facts *facts, const char *reason, const char *message);
void facts_sandbox_ready(struct facts *facts);
/* Why a container that waits cannot start; false: nothing failed yet. */
bool facts_stuck(const struct facts *facts, const struct ctr *ctr, int64_t now, const char **reason,
                 const char **message);
