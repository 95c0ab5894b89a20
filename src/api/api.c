#include "api/api.h"

#include "api/auth.h"
#include "api/kube/kube.h"
#include "api/rest/rest.h"
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
    free(api);
}

void api_handle(void *arg, struct http_req *req)
{
    struct api *api = arg;
    struct call *call = arena_zalloc(req->arena, sizeof(*call));

    call->api = api;
    call->registry = api->config.registry;
    call->store = registry_store(call->registry);
    call->req = req;
    call->arena = req->arena;
    call->now = clock_now();
    call->warnings = json_new_array(req->arena);
    if (auth_identify(api, req, call->arena, call->now, &call->who, &call->failure) < 0) {
        call_fail(call);
        return;
    }
    if (kube_handle(call) || rest_handle(call))
        return;
    call_page_not_found(call);
}
