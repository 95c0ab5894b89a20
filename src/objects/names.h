/* names - what several folders agree on by a name: annotations, labels and facts of documents, each with one
 * reader and one writer. Readers take a whole document, may be given NULL, and return borrowed text. */
#pragma once

#include "base/json.h"

/* Annotations. */
#define OWNER_ANNOTATION      "berth.dev/user"       /* whose rights it has; the registry writes it */
#define CARDS_ANNOTATION      "berth.dev/gpus"       /* of pods: their cards, see cards_read */
#define GPU_MEMORY_ANNOTATION "berth.dev/gpu-memory" /* of pods, label or annotation: MiB of a share */
#define NODE_CARDS_ANNOTATION "berth.dev/cards" /* of nodes: [{"index","uuid","model","mib","declared"}] */
#define STOP_ANNOTATION       "berth.dev/stop" /* of pods that are evicted: {"by", "byName", "reason", "time"} */
#define RETRY_ANNOTATION                                                                                     \
    "berth.dev/retry" /* of pods that could not start: {"refusals", "notBefore", "trouble"} */
#define CLAIM_ANNOTATION  "berth.dev/claim"        /* of pods, Jobs, TrainingJobs: when their owner asked */
#define KEEP_ANNOTATION   "berth.dev/keep"         /* "true": never preempted; admins only can set it */
#define RETAIN_ANNOTATION "berth.dev/retain"       /* "true": stays when it has ended (control/prune.h) */
#define UNUSED_ANNOTATION "berth.dev/unused-since" /* of claims: since when no work names them */
#define INIT_ANNOTATION   "berth.dev/init"         /* of pods, "true": tini is PID 1 */

/* Labels. */
#define USER_LABEL          "user"           /* whose work it is: work_user */
#define PRIORITY_LABEL      "priority"       /* see priority_parse in domain/workload.h */
#define RUN_LABEL           "berth.dev/run"  /* of a TrainingJob's pods: which run, from 1 */
#define RANK_LABEL          "berth.dev/rank" /* of a TrainingJob's pods: which of the run's pods */
#define TASK_LABEL          "berth.dev/task" /* of what a task made: the task's name */

#define SCHEDULED_CONDITION "PodScheduled" /* written by pod_set_scheduled, and kept by the node side */

#define GPU_RESOURCE        "nvidia.com/gpu"
#define ADMIN_USER          "root" /* whose the work is that the machine's admin made */

const char *annotation_get(const struct json *doc, const char *key); /* NULL: absent */
void annotation_set(struct arena *arena, struct json *doc, const char *key, const char *value);
const char *label_get(const struct json *doc, const char *key); /* NULL: absent */
void label_set(struct arena *arena, struct json *doc, const char *key, const char *value);

/* ---- whose it is ---- */

/* Whose rights its processes have: the annotation, ADMIN_USER for the machine's admin. NULL: nobody's, so it
 * must not run. */
const char *work_rights(const struct json *doc);
/* The person who made it; NULL: the machine's admin, or Berth for itself. */
const char *work_owner(const struct json *doc);
/* Whose work it counts as, never NULL: the label `user`, which the registry guards (it is the owner's name
 * unless an admin gave the work to somebody); else the owner; else ADMIN_USER. */
const char *work_user(const struct json *doc);
bool work_is_kept(const struct json *doc);     /* KEEP_ANNOTATION */
bool work_is_retained(const struct json *doc); /* RETAIN_ANNOTATION */
bool work_is_claimed(const struct json *doc);  /* CLAIM_ANNOTATION */

/* What the label `priority` and spec.priority of TrainingJobs may say; "" is 0. */
bool priority_is_valid(struct str text);
#define PRIORITY_RULE "must be a whole number from -1000000 to 1000000; '0-3' means -3"

/* ---- pods ---- */

bool pod_phase_is_over(const char *phase); /* "Succeeded" or "Failed"; NULL is neither */
bool pod_is_over(const struct json *doc);
/* MiB of a share of a card, by label or annotation; 0: whole cards. */
int64_t pod_share_mib(const struct json *doc);
/* The condition PodScheduled; reason and message are for one that waits, NULL: it has a node. False: nothing
 * changed. */
bool pod_set_scheduled(struct arena *arena, struct json *doc, const char *reason, const char *message,
                       int64_t now);

/* ---- the text of cards: "0,3", or "0:8192,3:8192" for MiB of each ---- */

#define CARDS_MAX 64 /* of one node */

/* ---- what one object may ask for ---- */

#define JOB_INDEXES_MAX     100000 /* completions of an Indexed Job */
#define JOB_PARALLELISM_MAX 10000
#define TRAIN_HOURS_MAX     1000000 /* estimatedHours: 114 years */
#define POD_GPUS_MAX        65536   /* of one container: what no node has, and what can be added up */
#define AMOUNT_NANOS_MAX    ((__int128)INT64_MAX * 1000000000) /* of any resource */
#define AMOUNT_RULE         "must be less than 8Ei"

struct card_part {
    uint32_t card;
    uint32_t mib; /* 0: the whole card */
};

/* Up to CARDS_MAX parts. False: it is no such text. NULL and "" have no parts. */
bool cards_read(const char *text, struct card_part ret[CARDS_MAX], size_t *len);
char *cards_write(struct arena *arena, const struct card_part *parts, size_t len);
