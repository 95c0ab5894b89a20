#include "api/api.h"

#include "api/auth.h"
#include "api/kube/kube.h"
#include "api/page/page.h"
#include "api/rest/rest.h"
#include "api/share.h"
#include "base/clock.h"
#include "base/mem.h"

struct api *api_new(const struct api_config *config)
{
    struct api *api = NEW(struct api);

    api->config = *config;
    api->started = clock_monotonic();
    return api;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    kube_end_watches(api);
    rest_end_streams(api);
    shares_free(api->shares);
    free(api);
}

/* A sign-in of the page counts for what the page asks. */
static bool session_counts(const struct http_req *req)
{
    return (starts_with(req->path, "/v1/") || streq(req->path, "/api/state") ||
            starts_with(req->path, "/describe/")) &&
           !req->peer->unix_socket && !http_req_header(req, "Authorization");
}

static int identify(struct call *call)
{
    struct api *api = call->api;

    if (session_counts(call->req) &&
        page_session_identify(api, call->req, call->arena, call->now, &call->who)) {
        call->session = true;
        return 0;
    }
    return auth_identify(api, call->req, call->arena, call->now, &call->who, &call->failure);
}

static bool library_handle(struct call *call)
{
    const struct api_hooks *hooks = &call->api->config.hooks;

    return hooks->library && hooks->library(hooks->arg, call);
}

void api_handle(void *arg, struct http_req *req)
{
    struct call *call = call_new(arg, req);

    if (!page_strip_prefix(call))
        return;
    if (library_handle(call))
        return;
    if (identify(call) < 0) {
        call_fail(call);
        return;
    }
    if (!page_guard(call))
        return;
    if (rest_handle(call) || kube_handle(call) || page_handle(call))
        return;
    call_page_not_found(call);
}

void api_handle_library(void *arg, struct http_req *req)
{
    struct call *call = call_new(arg, req);

    if (library_handle(call))
        return;
    failure_set(&call->failure, call->arena, 404, "NotFound",
                "only the training library's calls are answered at this address");
    call_fail(call);
}
