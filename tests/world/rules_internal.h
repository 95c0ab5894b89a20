/* What the files of the rules share: two looks at the lab, one after the other, and what is remembered of
 * each job. */
#pragma once

#include "domain/lifecycle.h"
#include "kubelet.h"
#include "queue/queue.h"
#include "rules.h"
#include "store/store.h"

#define ROW_CARDS_MAX 16

/* How long things may take. "A few seconds" of the rules is RULE_LAG_MS. */
#define RULE_LAG_MS       5000
#define RULE_LOOK_MS      60000            /* between looks while nothing happens */
#define RULE_STUCK_MS     (120 * 1000)     /* docs/queue.md: a pod that cannot start gives its cards back */
#define RULE_START_MS     (30 * 60 * 1000) /* docs/queue.md: one of which nothing is heard */
#define RULE_SLACK_MS     (30 * 1000)      /* added to what is documented */
#define RULE_GRACE_MS     (30 * 1000)      /* TERM to KILL */
#define RULE_STOP_MAX_MS  (3600 * 1000)    /* the longest wait for an epoch's end */
#define RULE_CLOCK_MS     60000            /* until then a clock that jumped is noticed */
#define RULE_SLIDES       3    /* an end may be put off once when an epoch is late, not look by look */
#define RULE_SLIDE_MS     1500 /* estimates of an unchanged lab stand still, but for rounding */
#define RULE_GROW_MS      (30 * 60 * 1000)  /* free cards that a long elastic job could use */
#define RULE_GROW_LEFT_MS (4 * 3600 * 1000) /* "long" */
#define RULE_LARGE_FACTOR 2                 /* of the wait that an estimate stated */
#define RULE_LARGE_MS     (15 * 60 * 1000)

struct row_card {
    int64_t node, card, mib;
};

/* What the queue shows of one job. */
struct row {
    int64_t job;
    const char *uid, *reason;
    enum phase phase;
    int64_t position; /* 0: none */
    double ordinal;
    int64_t gpus, gpus_min, gpus_max;
    int64_t eta, start, start_high; /* wall clock, ms; 0: not said */
    struct row_card cards[ROW_CARDS_MAX];
    size_t card_count;
};

/* Why a job was asked to stop, from its object. */
struct stop_seen {
    char kind[16]; /* "": it was not */
    int64_t by;    /* number of a job; 0: nobody's */
    int64_t to;    /* resize: GPUs it goes on with; 0: not said */
};

struct track {
    enum phase phase;
    bool seen, over;
    int64_t since_ms;          /* of the phase */
    int64_t placed_ms;         /* of the present placement */
    int64_t runs_ms;           /* since when it is shown as Running; 0: it is not */
    int64_t waits_ms;          /* since when it waits and could start; 0: it does not */
    int64_t first_ms;          /* since when it is a first GPU that could start */
    int64_t later_ms;          /* since when it runs as a later one */
    int64_t held_ms;           /* since when it holds cards and its box is stuck */
    int64_t fits_ms;           /* since when it could start on free cards, and nobody is before it */
    int64_t grows_ms;          /* since when it could grow */
    int64_t unlike_ms;         /* since when it is shown as something else than it is */
    int64_t head_ms;           /* since when it is the first that waits */
    int64_t head_bound_ms;     /* by when it starts, as stated then */
    int64_t nameless_ms;       /* since when its reason should name a pod to claim */
    bool blocked;              /* could not start, at the last look */
    int64_t same_rv;           /* the object's when it was last compared with the row, */
    int64_t same_eta;          /* and the row's end then */
    int64_t differs_ms;        /* since when kubectl shows something else; 0: it does not */
    struct stop_seen stop;     /* the outstanding one */
    int64_t resize_to;         /* stopped to go on with so many; 0: not */
    int64_t resize_ms;         /* since when it waits for that */
    int64_t gpus;              /* held at the last look */
    int64_t told_at, told_end; /* when two epochs were done, and the end that was told then; 0: void */
    unsigned slides;           /* looks in a row between which its end moved although nothing happened */
    bool told;                 /* its owner was, when it ended */
    unsigned tries;            /* starts that came to nothing */
    unsigned preempted, resized;
};

struct look {
    struct arena arena;
    struct row *rows;
    size_t len;
    int64_t at_ms, wall_ms;
    uint64_t changes; /* of the kubelet's truth */
    uint64_t acts;
    bool valid;
};

struct rules {
    struct world *world;
    struct look now, before;
    VEC(struct track *) tracks; /* by number of the job; they stay where they are */
    uint64_t writes;
    uint64_t changes;
    int64_t looked_ms;
    int64_t unsure_ms; /* until then the daemon was away or its disk full: times begin anew */
    uint64_t looks, kills;
    uint64_t quota_look[STORY_USERS]; /* when it was counted */
    bool quota_full[STORY_USERS];
    VEC(int) end_errors;
    const char *only; /* NULL: all rules */
};

struct track *track_of(struct rules *rules, int64_t job);
const struct row *row_of(const struct look *look, int64_t job);
const struct row *row_by_uid(const struct look *look, const char *uid);
/* Could it start if cards were free? By what the story says of it, and by the quota of its namespace. */
bool could_start(struct rules *rules, const struct row *row);
bool node_works(const struct world *world, int64_t node);
/* Cards of a node that nobody is shown to hold; `also`: whose cards count as free as well (NULL: none). */
int64_t free_cards(const struct rules *rules, int64_t node, const struct row *also);
bool fits(const struct rules *rules, const struct row *row, const struct row *also);
bool whole_cards(struct rules *rules, const struct row *row);
bool resumes(struct rules *rules, const struct row *row); /* may be displaced by itself */

/* rules_order.c */
void rules_check_stop(struct rules *rules, const struct row *row, struct track *track);
void rules_check_start(struct rules *rules, const struct row *row, struct track *track);
void rules_check_waits(struct rules *rules);
void rules_check_resize(struct rules *rules, const struct row *row, struct track *track);
/* rules_truth.c */
void rules_check_truth(struct rules *rules);
void rules_check_shown(struct rules *rules, const struct row *row, struct track *track);
void rules_check_slides(struct rules *rules);
bool rules_was_told(struct rules *rules,
                    const struct world_job *job); /* of its end, by what is in the inbox */
