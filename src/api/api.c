#include "api/api.h"

#include "api/auth.h"
#include "api/directory.h"
#include "api/kube/kube.h"
#include "api/page/page.h"
#include "api/rest/rest.h"
#include "api/share.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "registry/access_table.h"

#define LOG_MODULE     "api"

#define FAILURES_MAX   20                 /* server errors of one second that are logged */
#define PATH_MAX_SHOWN 256                /* bytes */
#define EXPIRY_NSEC    (2 * NSEC_PER_SEC) /* how exactly open streams end with their credential */

/* ---- what is open ---- */

static void live_ended(struct http_req *req)
{
    struct call *call = req->owner;

    call->api->live_count--;
    if (call->live_next)
        call->live_next->live_prev = call->live_prev;
    if (call->live_prev)
        call->live_prev->live_next = call->live_next;
    else
        call->api->live = call->live_next;
}

/* An id that a user quotes is found in the log. */
static void log_failure(struct call *call, int status)
{
    struct api *api = call->api;
    int64_t second = clock_monotonic() / NSEC_PER_SEC;

    if (second != api->failures_at) {
        if (api->failures > FAILURES_MAX)
            log_warn("%llu more server errors within a second",
                     (unsigned long long)(api->failures - FAILURES_MAX));
        api->failures_at = second;
        api->failures = 0;
    }
    if (++api->failures > FAILURES_MAX)
        return;
    log_set_request(call->req->id);
    log_warn("%s %.*s: %d: %s", call->req->method, PATH_MAX_SHOWN, call->req->path, status,
             call->failure.message ? call->failure.message : http_status_text(status));
    log_set_request(NULL);
}

static void api_on_answer(struct http_req *req, int status)
{
    struct call *call = req->owner;

    if (status >= 500)
        log_failure(call, status);
    traffic_answered(call->api->traffic, &call->route, req->method, status, clock_monotonic() - call->began);
    call_audit(call, status);
}

static const char *new_id(struct api *api, struct arena *arena)
{
    return arena_printf(arena, "%s-%llx", api->boot, (unsigned long long)++api->requests);
}

static void live_add(struct call *call)
{
    struct api *api = call->api;

    api->live_count++;
    call->live_next = api->live;
    call->live_prev = NULL;
    if (api->live)
        api->live->live_prev = call;
    api->live = call;
    call->req->owner = call;
    call->req->ended = live_ended;
    call->req->answered = api_on_answer;
    call->req->id = new_id(api, call->arena);
}

static bool is_taken_back(const struct call *call)
{
    return call->by.table && !store_value(call->store, call->by.table, call->by.key).s;
}

void api_cut(struct api *api, const char *user, const struct call *except)
{
    for (struct call *it = api->live; it; it = it->live_next)
        if (it != except && ((user && streq(it->who.user, user)) || is_taken_back(it)))
            http_cut(it->req, "the credential was taken back");
}

/* Streams end with the credential that they were opened with. */
static void api_on_expiry(void *arg)
{
    struct api *api = arg;
    int64_t now = clock_now();
    bool more = false;

    for (struct call *it = api->live; it; it = it->live_next) {
        if (it->by.expires <= now)
            http_cut(it->req, "the credential has ended");
        else
            more = more || it->by.expires != INT64_MAX;
    }
    if (more)
        loop_timer_set(api->expiry, EXPIRY_NSEC);
}

static void watch_expiry(struct call *call)
{
    if (call->by.expires != INT64_MAX && !loop_timer_active(call->api->expiry))
        loop_timer_set(call->api->expiry, EXPIRY_NSEC);
}

const char *api_check_name(enum api_check_state state)
{
    static const char *const names[] = {
        [API_CHECK_OK] = "ok", [API_CHECK_WARN] = "warn", [API_CHECK_FAIL] = "fail"};

    return names[state];
}

/* ---- life ---- */

struct api *api_new(const struct api_config *config)
{
    struct api *api = NEW(struct api);

    api->config = *config;
    api->started = clock_monotonic();
    random_hex(api->boot, 4);
    api->traffic = traffic_new();
    api->directory = directory_new(config->loop, NULL);
    api->expiry = loop_timer_new(config->loop, api_on_expiry, api);
    return api;
}

void api_free(struct api *api)
{
    if (!api)
        return;
    kube_end_watches(api);
    rest_end_streams(api);
    shares_free(api->shares);
    directory_free(api->directory);
    loop_timer_free(api->expiry);
    for (struct call *it = api->live; it; it = it->live_next) {
        it->req->ended = NULL; /* they outlive us by a moment */
        it->req->answered = NULL;
    }
    traffic_free(api->traffic);
    free(api);
}

/* ---- requests ---- */

static bool library_handle(struct call *call)
{
    const struct api_hooks *hooks = &call->api->config.hooks;

    return hooks->library && hooks->library(hooks->arg, call);
}

static void not_found(struct call *call)
{
    if (rest_serves(call))
        rest_not_found(call);
    else
        call_page_not_found(call);
}

/* Whether the table lets the caller do this. False: answered. Objects of the Kubernetes API are asked about
 * where their kind is known. */
static bool authorise(struct call *call)
{
    struct access access = {.verb = call->req->method,
                            .subresource = "",
                            .ns = "",
                            .name = "",
                            .path = call->req->path,
                            .anonymous = page_anonymous_may(call)};
    bool known;
    const struct access_path *row = access_path_find(call->req->method, call->req->path, &known);

    if (kube_serves(call))
        return true;
    if (!row && known) {
        rest_not_allowed(call);
        return false;
    }
    if (!row) {
        not_found(call);
        return false;
    }
    if (access_check(call->registry, &call->who, &access, call->arena, &call->failure) == 0)
        return true;
    if (!access_is_known(&call->who))
        failure_set(&call->failure, call->arena, 401, "Unauthorized",
                    "%s %s needs credentials: a bearer token ('berth token'), a client certificate, or the "
                    "unix socket",
                    call->req->method, call->req->path);
    rest_fail(call);
    return false;
}

static void handle_now(struct call *call)
{
    int identified;
    bool known;
    const struct access_path *row = access_path_find(call->req->method, call->req->path, &known);

    call->route.row = row;
    if (row && row->who == ACCESS_JOB && library_handle(call))
        return;
    if (call->library) { /* an address that pods reach */
        failure_set(&call->failure, call->arena, 404, "NotFound",
                    "only the training library's calls are answered at this address");
        call_fail(call);
        return;
    }
    identified = auth_identify(call);
    if (identified > 0)
        return;
    if (identified < 0) {
        if (rest_serves(call))
            rest_fail(call);
        else
            call_fail(call);
        return;
    }
    watch_expiry(call);
    if (!page_guard(call) || !authorise(call))
        return;
    if (rest_handle(call) || kube_handle(call) || page_handle(call))
        return;
    not_found(call);
}

/* What is logged meanwhile tells whose request it was. */
static void handle(struct call *call)
{
    log_set_request(call->req->id);
    handle_now(call);
    log_set_request(NULL);
}

void call_again(void *arg)
{
    struct call *call = arg;

    call->now = clock_now();
    call->failure = (struct failure){0};
    handle(call);
}

void api_handle(void *arg, struct http_req *req)
{
    struct call *call = call_new(arg, req);

    live_add(call);
    if (page_strip_prefix(call))
        handle(call);
}

void api_refused(void *arg, struct http_req *req, int status, const char *why)
{
    struct api *api = arg;

    (void)why;
    if (!req->id)
        req->id = new_id(api, req->arena);
    traffic_refused(api->traffic, status);
}

void api_handle_library(void *arg, struct http_req *req)
{
    struct call *call = call_new(arg, req);

    live_add(call);
    call->library = true;
    handle(call);
}
