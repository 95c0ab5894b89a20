/* cgroup - where a container's cgroups are, what they say, and how they go. Containers are at PARENT/ID in
 * every hierarchy: one on cgroup v2, one per controller on v1, and on a hybrid machine both. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "runtime/runtime.h"

struct cgroup;

/* From the text of /proc/self/mountinfo. ERR_UNSUPPORTED: no cgroups are mounted, or not those that are
 * needed. unified_controllers: those that the v2 mount has, "" for none (cgroup.controllers). */
int cgroup_parse(struct str mountinfo, struct str unified_controllers, const char *parent,
                 struct cgroup **ret, struct err *err);
int cgroup_new(const char *parent, struct cgroup **ret, struct err *err); /* of this machine */
void cgroup_free(struct cgroup *cg);                                      /* NULL is fine */
DEFINE_CLEANUP(struct cgroup *, cgroup_free);

enum runtime_cgroups cgroup_mode(const struct cgroup *cg);
const char *cgroup_parent(const struct cgroup *cg);
/* The v2 mount of a hybrid machine, which crun must not see; NULL otherwise. */
const char *cgroup_hide(const struct cgroup *cg);
/* Whether swap can be limited. */
bool cgroup_has_swap(const struct cgroup *cg);
/* Makes the parent where processor time is shared, with the weight of all processors: without it all
 * containers together would weigh as much as one other process. */
void cgroup_make_parent(const struct cgroup *cg);
/* Has the kernel favour changes of cgroups over forks (favordynmods of cgroup v2, Linux 6.0): without it, a
 * process is moved into a cgroup only after an RCU grace period, 10 ms and more. For the whole machine;
 * false: not here. */
bool cgroup_favor_changes(const struct cgroup *cg);
/* The file with that container's weight, and in `text` what to write there for `shares` (as of v1); free it.
 */
char *cgroup_weight_path(const struct cgroup *cg, const char *id, int64_t shares, char text[32]);
/* The file in which the kernel counts "oom_kill N" for that container; free it. */
char *cgroup_oom_path(const struct cgroup *cg, const char *id);

/* Its folder in the hierarchy number `i`; free it. NULL: there are no more. */
char *cgroup_path(const struct cgroup *cg, size_t i, const char *id);

/* KILL to all processes in it and below; returns how many were found. */
size_t cgroup_kill(const struct cgroup *cg, const char *id);
/* Removes its folders in all hierarchies. ERR_CONFLICT: something still runs there; kill and try again. */
int cgroup_remove(const struct cgroup *cg, const char *id, struct err *err);
/* Calls fn for each id below the parent, in some hierarchy; an id may come more than once. */
void cgroup_each(const struct cgroup *cg, void (*fn)(void *arg, const char *id), void *arg);
/* ERR_NOT_FOUND: there is none (any more). */
int cgroup_stats(const struct cgroup *cg, const char *id, struct runtime_stats *ret, struct err *err);
uint64_t cgroup_cpu(const struct cgroup *cg, const char *id); /* nanoseconds; 0: there is none */
