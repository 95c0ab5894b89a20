/* upkeep - Berth cleans up after itself: finished work leaves the store by policy, so that memory goes by
 * what lives and not by what was.
 *
 * What goes was recorded when it ended (queue/records.c), in the commit of its end or one before: its row in
 * the history, its transitions, epochs and metrics stay, and so does its log. So a kill at any point leaves
 * an object and its record, or the record alone. Owners are not told: they were when the work ended.
 *
 * Everything is on the loop; no call blocks. */
#pragma once

#include "base/cleanup.h"
#include "base/json.h"
#include "control/prune.h"

struct err;
struct inbox;
struct loop;
struct registry;
struct upkeep;

/* As the lab sets it; 0: never for that. */
struct upkeep_policy {
    struct prune_policy work;                 /* finished TrainingJobs, Jobs, Tasks, pods */
    int64_t history_sec;                      /* records */
    int64_t history_bytes;                    /* of the database */
    int64_t log_sec, log_bytes;               /* logs of work that is over */
    int64_t claim_warn_sec, claim_delete_sec; /* claims that no work names */
};

/* Strings are copied. */
struct upkeep_config {
    struct loop *loop;
    struct registry *registry;
    struct inbox *inbox; /* where owners are told; NULL: nobody is */
    const char *log_dir; /* kept logs (engine/packed.h); NULL: none */
    const char *db_path; /* for its size; NULL: not known */
    struct upkeep_policy policy;
};

struct upkeep *upkeep_new(const struct upkeep_config *config);
void upkeep_free(struct upkeep *upkeep); /* before the registry; NULL is fine */
DEFINE_CLEANUP(struct upkeep *, upkeep_free);
/* Counts from now on. */
void upkeep_set_policy(struct upkeep *upkeep, const struct upkeep_policy *policy);
const struct upkeep_policy *upkeep_policy(const struct upkeep *upkeep);

/* Whether more than a plain file is kept of a job's log: then upkeep_open_log gives its text as an open file.
 * `done` is called once, from the loop or from upkeep_free. ERR_LIMIT: too many at once. */
bool upkeep_log_packed(const struct upkeep *upkeep, const char *uid);
int upkeep_open_log(struct upkeep *upkeep, const char *uid,
                    void (*done)(void *arg, int fd, const struct err *err), void *arg, struct err *err);

/* What is kept: {"finished": {"count", "bytes", "retained", "pruned" since the start}, "logs":
 * {"count", "bytes"}, "database": {"bytes"}}; in the arena. */
struct json *upkeep_status(const struct upkeep *upkeep, struct arena *arena);
/* What would go now, one object each: [{"kind", "namespace", "name", "uid", "finished", "bytes", "reason"}];
 * at most UPKEEP_PLAN_MAX. */
#define UPKEEP_PLAN_MAX 10000
struct json *upkeep_plan(const struct upkeep *upkeep, const struct upkeep_policy *policy,
                         struct arena *arena);
/* Lets all go now that may by this policy, once. Returns how many there are; they go in small turns. */
size_t upkeep_run(struct upkeep *upkeep, const struct upkeep_policy *policy);
