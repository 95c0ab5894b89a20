/* call - one request on its way through the API: who asks, where its memory is, how it is answered.
 * Answers wait until everything written so far is durable. */
#pragma once

#include "api/api.h"
#include "api/traffic.h"
#include "registry/access.h"

/* How a request shows who it comes from. */
enum call_how {
    HOW_ANONYMOUS,
    HOW_SOCKET,
    HOW_CERTIFICATE,
    HOW_TOKEN,
    HOW_SESSION, /* of the page */
    HOW_JOB,     /* a job's own token, or the address of its pod */
};

/* What it came with. */
struct call_by {
    enum call_how how;
    const char *id;          /* of the credential (credentials.h); NULL: none */
    int64_t expires;         /* INT64_MAX: never */
    const char *table, *key; /* of its entry in the store; NULL: none */
};

struct call {
    struct api *api;
    struct registry *registry;
    struct store *store;
    struct http_req *req;
    struct arena *arena;
    struct identity who;
    struct call_by by;
    struct failure failure;
    struct json *warnings; /* texts for Warning headers */
    int64_t now;
    int64_t began; /* monotonic */
    struct traffic_route route;
    bool at_once; /* the answer tells nothing that is not durable: it need not wait for the disk */
    bool marked;  /* it tells nothing that is not, past this mark of the store: it waits for no more */
    uint64_t mark;
    bool no_store;                      /* the answer is for nobody's cache */
    bool library;                       /* came to an address that serves the training library alone */
    bool session;                       /* who is signed in with the page's cookie */
    struct call *live_prev, *live_next; /* of all that are open */
    const char *object; /* NAMESPACE/NAME of what was made, for the audit log; NULL: the path tells it */
    const char *idempotency, *idempotency_sum; /* idempotency.h; NULL: no key was sent */
    bool replayed;      /* the answer is that of an earlier request with the same key */
    const char *cookie; /* for Set-Cookie of the answer; NULL: none */
    const char *allow;  /* for Allow of a 405; NULL: none */
};

struct api {
    struct api_config config;
    struct call_watch *watches;  /* open watches, linked */
    struct rest_stream *streams; /* open streams of the queue, linked */
    struct shares *shares;       /* share.h; NULL: nobody has held anything yet */
    struct directory *directory;
    struct call *live; /* open requests */
    char boot[9];      /* what ids of requests begin with */
    uint64_t requests;
    size_t live_count;
    int64_t failures_at; /* the second in which the last server error was answered, and how many were */
    uint64_t failures;
    struct traffic *traffic;
    struct loop_timer *expiry;
    uint64_t idempotency_made; /* keys remembered since start */
    int64_t started;
};

/* Cuts open requests whose credential is no longer there, and those of user (NULL: nobody's); not `except`,
 * which may be NULL. */
void api_cut(struct api *api, const char *user, const struct call *except);

/* audit_call.c: the answer's status is known. */
void call_audit(struct call *call, int status);
void call_about(struct call *call, const struct json *answer); /* for the audit log, where it says so */
void call_about_all(struct call *call, const struct json *answers);

/* Handles the call (arg) from its beginning: for those who had to wait before anything was done. */
void call_again(void *arg);

/* In the request's arena; nobody is identified yet. */
struct call *call_new(struct api *api, struct http_req *req);

/* Each ends the request. body is taken over. */
void call_reply(struct call *call, int status, const char *content_type, struct buf *body);
void call_reply_json(struct call *call, int status, const struct json *doc);
void call_fail(struct call *call);           /* with call->failure; as YAML where only that is accepted */
void call_not_found(struct call *call);      /* no such path in the API */
void call_page_not_found(struct call *call); /* no such page at all */
void call_write_yaml(struct buf *out,
                     struct json *doc); /* members sorted by name, as Kubernetes does; doc is changed */
void call_fail_err(struct call *call, const struct err *err);
/* Whether it can be answered from the durable state, at once: sets at_once. Not where its client has not
 * waited for what it asked for before, which it would expect to see. */
bool call_reads_durable(struct call *call);
/* For answers that tell of these objects alone: the durable ones where they can be read, else the newest.
 * Borrowed until control returns to the loop. */
struct store_slice call_list(struct call *call, int kind, const char *ns);
/* What it tells is durable once this mark of the store is (store_mark). The same holds. */
void call_mark(struct call *call, uint64_t mark);
/* For streams: runs fn when what the call tells is durable. */
void call_when_durable(struct call *call, void (*fn)(struct call *call, const struct err *err));

bool query_bool(const struct call *call, const char *name);          /* there, and neither "false" nor "0" */
const char *query_string(const struct call *call, const char *name); /* "" when absent */
