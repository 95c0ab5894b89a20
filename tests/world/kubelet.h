/* kubelet - the node side of the world, made up: takes pods that are bound, pulls their images for as long as
 * the story says, runs what the story says, hears TERM or does not, reports what it sees, loses nodes and
 * cards. Its boxes (containers) go on while the daemon is down, as those of shims do. What it knows is the
 * truth that the rules compare everything with. */
#pragma once

#include "objects/names.h"
#include "world.h"

#define KUBELET_STUCK_MS     5000   /* from the first try of a pull that fails to its report */
#define KUBELET_NODE_GONE_MS 40000  /* then a node counts as not ready */
#define KUBELET_PODS_GONE_MS 300000 /* and then its pods as lost, where it has lost power */
#define KUBELET_LIB_RETRY_MS 5000   /* the library tries again when the daemon does not answer */
#define KUBELET_LIB_PATIENCE 12     /* tries before a script ends with an epoch unsaid */

enum box_state {
    BOX_PULLING,
    BOX_STUCK, /* cannot start, and tries again and again */
    BOX_RUNNING,
    BOX_LEAVING, /* was told to stop, and saves */
    BOX_ENDED,
};

/* One container, the only one of its pod. */
struct box {
    char uid[64], ns[64], name[128];
    int64_t job; /* number */
    int64_t node;
    struct card_part cards[CARDS_MAX];
    size_t card_count;
    bool training;
    char owner[64]; /* training: uid of the TrainingJob */
    enum box_state state;
    int64_t next_ms;    /* when something happens by itself; INT64_MAX: never */
    int64_t since_ms;   /* of the state */
    int64_t started_ms; /* 0: not yet */
    bool term;          /* the pod is being deleted */
    int64_t kill_ms;    /* then */
    bool lost;          /* its node rebooted */
    int exit_code;
    bool dirty; /* to be reported */
    bool gone;  /* the object is gone and so is it */
    /* training */
    uint32_t gpus, done;
    bool restarted;
    int64_t epoch_ms; /* when the present one began; 0: none is under way */
    bool unsaid;      /* `done` has not been told yet */
    bool asking;      /* an answer is under way */
    unsigned tries;
};

struct node_truth {
    int64_t down_ms, back_ms; /* 0: it is up */
    bool reboot, said_gone, said_lost;
    bool failed[CARDS_MAX];
};

struct kubelet {
    struct world *world;
    VEC(struct box *) boxes; /* in the order in which they came */
    struct node_truth nodes[STORY_NODES];
    struct store_watch *watch;
    uint64_t changes; /* counts changes of the truth */
    uint64_t faults;  /* counts nodes and cards that come and go */
    uint64_t starts;  /* containers that ran */
};

struct kubelet *kubelet_new(struct world *world);
void kubelet_free(struct kubelet *kubelet);
void kubelet_up(struct kubelet *kubelet);   /* the daemon is there: looks at all pods */
void kubelet_down(struct kubelet *kubelet); /* it is going */
void kubelet_measure(struct kubelet *kubelet);

int64_t kubelet_next(const struct kubelet *kubelet); /* INT64_MAX: nothing is due */
void kubelet_run(struct kubelet *kubelet);           /* what is due, and reports */

void kubelet_node(struct kubelet *kubelet, const struct act *act);
void kubelet_card(struct kubelet *kubelet, const struct act *act);

bool kubelet_alive(const struct kubelet *kubelet, const char *pod_uid);
bool box_alive(const struct box *box); /* its processes hold cards */
struct box *kubelet_box(const struct kubelet *kubelet, const char *pod_uid);
