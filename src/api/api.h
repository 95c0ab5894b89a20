/* api - what berthd answers over HTTP: the Kubernetes API, Berth's own /v1, health. Takes requests from
 * the server, finds out who asks, checks that they may, and hands them to the table of routes. */
#pragma once

#include "net/http.h"
#include "registry/registry.h"

struct api;
struct audit; /* api/audit.h */
struct call;
struct pod_ops; /* engine/pod_ops.h */
struct tasks;   /* tasks/tasks.h */
struct queue;   /* queue/queue.h */
struct inbox;   /* notify/inbox.h */
struct deliver; /* notify/deliver.h */
struct upkeep;  /* upkeep/upkeep.h */
struct metrics; /* base/metrics.h */

/* What callers without a name may see: nothing, the queue (without logs), or the queue for callers on this
 * machine. */
enum api_anonymous { API_ANONYMOUS_NONE, API_ANONYMOUS_QUEUE, API_ANONYMOUS_LOOPBACK };

/* A client certificate that was made. */
struct api_certificate {
    char serial[41]; /* hex */
    int64_t until;   /* nanoseconds since 1970 */
};

/* What a look at one part of the daemon found; strings live as long as the arena they were made in. */
enum api_check_state { API_CHECK_OK, API_CHECK_WARN, API_CHECK_FAIL };
struct api_check {
    const char *name; /* "disk" */
    enum api_check_state state;
    const char *text; /* what is wrong, in one sentence; "": nothing */
    const char *fix;  /* what to do about it; NULL: nothing, or not known */
};
#define API_CHECKS_MAX 32
const char *api_check_name(enum api_check_state state); /* "ok", "warn", "fail" */

/* What only the daemon can do; any may be NULL. */
struct api_hooks {
    void *arg;
    /* A kubeconfig with a fresh client certificate for that user, which ends at `until` at the latest (0: as
     * usual). */
    int (*kubeconfig)(void *arg, const char *user, const char *const *groups, const char *ns, int64_t until,
                      struct buf *ret, struct api_certificate *made, struct err *err);
    /* Members of the daemon's part of /v1/status. */
    void (*status)(void *arg, struct arena *arena, struct json *doc);
    /* How it is; at most API_CHECKS_MAX. Never waits. */
    size_t (*checks)(void *arg, struct arena *arena, struct api_check *ret, size_t max);
    /* The daemon's own families, for /metrics. */
    void (*metrics)(void *arg, struct metrics *metrics);
    /* A backup as an open file: `done` gets its descriptor, or an error; once, from the loop. */
    int (*backup)(void *arg, void (*done)(void *to, int fd, const struct err *err), void *to,
                  struct err *err);
    /* Paths that have their own idea of who may (the training library's), asked before the caller is
     * identified. */
    bool (*library)(void *arg, struct call *call);
    /* Further paths under /v1: true when it was one of them and is (or will be) answered. */
    bool (*rest)(void *arg, struct call *call);
};

struct api_config {
    struct loop *loop;
    struct registry *registry;
    const char *const *user_quota; /* "pods=4": what new users' namespaces are limited to; NULL-terminated */
    unsigned user_tokens;          /* of one user; 0: any number */
    const char *const *admins;     /* user names that are admins beside root; NULL-terminated, or NULL */
    struct api_hooks hooks;
    struct audit *audit;     /* NULL: nothing is written down */
    struct queue *queue;     /* NULL: none */
    struct inbox *inbox;     /* NULL: none */
    struct deliver *deliver; /* NULL: none */
    struct upkeep *upkeep;   /* serves /v1/prune */
    enum api_anonymous anonymous;
    bool metrics_users;       /* /metrics has users' names */
    const char *path_prefix;  /* "/berth": taken off paths; NULL: none */
    const char *const *names; /* of this machine, beside localhost and addresses; NULL-terminated, or NULL */
    struct tasks *tasks;      /* serves /v1/jobs and what belongs to it */
    const struct pod_ops *pod_ops; /* who serves logs, exec, attach, portforward; NULL: nobody. It must stay
                                      until the HTTP server is freed */
};

struct api *api_new(const struct api_config *config);
void api_free(struct api *api);                   /* ends open watches; NULL is fine */
void api_handle(void *api, struct http_req *req); /* an http_handler */
/* An http_config.admit for both. */
bool api_admit(void *api, struct http_req *req, struct http_caller *ret);
/* An http_config.refused for both. */
void api_refused(void *api, struct http_req *req, int status, const char *why);
/* The same for an address that pods reach: the training library's calls and nothing else. */
void api_handle_library(void *api, struct http_req *req);
