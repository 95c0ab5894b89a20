/* access - who may do what. One function, asked before every request is carried out.
 *
 * Admins (groups system:masters and berth:admins) may do everything. A user has a namespace of the same
 * name, and those whose annotation berth.dev/members names the user or one of the groups (@group). In
 * it a user works with pods, jobs, claims and the like and reads the rest; what another user made there
 * cannot be changed, entered or read out. Viewers (group berth:viewers) read everything but secrets and
 * change nothing, whatever else they are. Everybody known may read nodes, namespaces and classes. The rows
 * are in access_table.c. */
#pragma once

#include "objects/kind.h"
#include "registry/registry.h"

#define MEMBERS_ANNOTATION "berth.dev/members"

#define GROUP_MASTERS      "system:masters" /* admins, as Kubernetes calls them */
#define GROUP_ADMINS       "berth:admins"   /* admins who work as themselves */
#define GROUP_VIEWERS      "berth:viewers"
#define GROUP_KNOWN        "system:authenticated"

struct access {
    const char *verb; /* "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection" */
    const struct kind *kind; /* NULL: not a resource; path is asked */
    const char *subresource; /* "" when none */
    const char *ns;          /* "" for cluster-scoped and all-namespace requests */
    const char *name;        /* "" when none */
    const char *path;        /* of requests for no resource: "/version" */
    bool anonymous;          /* of those: the setting lets callers without a name see the queue here */
};

/* Whether somebody (ADMIN_USER: the machine's admin) reads a secret: in the namespace of that name any,
 * elsewhere one's own. Pods that use it are asked the same. */
bool access_reads_secret(const char *user, const struct object *secret);
/* Whether one object of a list may be shown to whoever may list: volumes to those whose claims they carry,
 * definitions with system values to those who may read these. */
bool access_shows(struct registry *registry, const struct identity *who, const struct object *object);
bool access_is_admin(const struct identity *who); /* and no viewer */
bool access_is_viewer(const struct identity *who);
bool access_is_known(const struct identity *who); /* not anonymous */
bool access_allowed(struct registry *registry, const struct identity *who, const struct access *access);
/* 0, or -1 with the 403 as Kubernetes words it. */
int access_check(struct registry *registry, const struct identity *who, const struct access *access,
                 struct arena *arena, struct failure *failure);
struct json *access_verbs(unsigned verbs, struct arena *arena); /* their names, sorted */
/* The rules of one identity in a namespace, for `kubectl auth can-i --list`: an array of resourceRules. */
struct json *access_rules(struct registry *registry, const struct identity *who, const char *ns,
                          struct arena *arena);
