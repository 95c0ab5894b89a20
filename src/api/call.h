/* call - one request on its way through the API: who asks, where its memory is, how it is answered.
 * Answers wait until everything written so far is durable. */
#pragma once

#include "api/api.h"
#include "registry/access.h"

struct call {
    struct api *api;
    struct registry *registry;
    struct store *store;
    struct http_req *req;
    struct arena *arena;
    struct identity who;
    struct failure failure;
    struct json *warnings; /* texts for Warning headers */
    int64_t now;
    bool at_once;       /* the answer tells nothing that is stored: it need not wait for the disk */
    bool no_store;      /* the answer is for nobody's cache */
    bool session;       /* who is signed in with the page's cookie */
    const char *cookie; /* for Set-Cookie of the answer; NULL: none */
};

struct api {
    struct api_config config;
    struct call_watch *watches;  /* open watches, linked */
    struct rest_stream *streams; /* open streams of the queue, linked */
    struct shares *shares;       /* share.h; NULL: nobody has held anything yet */
    int64_t started;
};

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
/* For streams: runs fn when all so far is durable. */
void call_when_durable(struct call *call, void (*fn)(struct call *call, const struct err *err));

bool query_bool(const struct call *call, const char *name);          /* there, and neither "false" nor "0" */
const char *query_string(const struct call *call, const char *name); /* "" when absent */
