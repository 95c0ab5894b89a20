/* Whether the body of a request may come: asked with its head alone. Whoever sends a large one has to be
 * somebody; who that is exactly, and what they may, is asked when all of it is there. No look-up in here
 * leaves the process. */
#include "api/auth.h"
#include "api/credentials.h"
#include "api/page/page.h"
#include "api/train/train.h"

static struct json *token_entry(struct call *call, const char *token)
{
    char hash[65];

    auth_token_hash(token, hash);
    return credential_entry(call->store, TOKENS_TABLE, hash, call->arena, call->now);
}

static bool name_entry(const struct json *entry, struct http_caller *ret)
{
    if (!entry)
        return false;
    snprintf(ret->name, sizeof(ret->name), "user %s", json_string_or(json_get(entry, "user"), ""));
    JSON_EACH(json_get(entry, "groups"), it)
        ret->reserve = ret->reserve || streq(json_string(it), "system:masters");
    return true;
}

static bool name_cert(const struct http_peer *peer, struct http_caller *ret)
{
    snprintf(ret->name, sizeof(ret->name), "user %s", peer->cert_cn);
    for (const char *const *org = peer->cert_orgs; org && *org; org++)
        ret->reserve = ret->reserve || streq(*org, "system:masters");
    return true;
}

static bool name_caller(struct call *call, struct http_caller *ret)
{
    const struct http_req *req = call->req;
    const char *header = http_req_header(req, "Authorization");
    char key[65];

    if (header && strncasecmp(header, "Bearer ", 7) == 0)
        return name_entry(token_entry(call, str_trim(str_from(header + 7)).s), ret);
    if (req->peer->unix_socket) {
        snprintf(ret->name, sizeof(ret->name), "uid %u", (unsigned)req->peer->uid);
        ret->reserve = req->peer->uid == 0 || req->peer->uid == geteuid();
        return true;
    }
    if (req->peer->cert_cn)
        return name_cert(req->peer, ret);
    return name_entry(page_session_entry(call, key), ret);
}

/* The training library's calls come with a job's token or from its pods: their bodies are small. */
static void name_address(const struct http_peer *peer, struct http_caller *ret)
{
    const char *colon = strrchr(peer->address, ':');

    snprintf(ret->name, sizeof(ret->name), "address %.*s", colon ? (int)(colon - peer->address) : 0,
             peer->address);
    ret->body_max = TRAIN_BODY_MAX;
}

bool api_admit(void *arg, struct http_req *req, struct http_caller *ret)
{
    struct call *call = call_new(arg, req);
    const char *path = req->path;
    bool library;

    if (name_caller(call, ret))
        return true;
    *ret = (struct http_caller){0};
    if (!page_strip_prefix(call))
        return false;
    library = train_is_library(call);
    req->path = path; /* the handler takes the prefix off */
    if (library) {
        name_address(req->peer, ret);
        return true;
    }
    call->at_once = true;
    failure_set(&call->failure, call->arena, 401, "Unauthorized",
                "Unauthorized: requests of more than %d KiB need a token, a client certificate or the socket",
                HTTP_BODY_SMALL >> 10);
    call_fail(call);
    return false;
}
