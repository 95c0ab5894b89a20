/* POST /v1/prune: lets finished work go now, by the lab's policy or by limits that the request has; with
 * dryRun it only says what would go. */
#include "api/rest/rest.h"
#include "upkeep/upkeep.h"

#define AGE_MAX   (INT64_C(36500) * 86400)
#define COUNT_MAX 1000000

/* The policy, with what the body says instead. */
static int read_policy(struct call *call, struct upkeep_policy *policy)
{
    struct json *doc = NULL;

    *policy = *upkeep_policy(call->api->config.upkeep);
    if (!call->req->body.len)
        return 0;
    return rest_body(call, &doc) < 0 ||
                   rest_int(call, doc, "olderThanSeconds", AGE_MAX, &policy->work.age_sec) < 0 ||
                   rest_int(call, doc, "keep", COUNT_MAX, &policy->work.count) < 0
               ? -1
               : 0;
}

void rest_prune(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena);
    struct upkeep_policy policy;
    bool dry = query_bool(call, "dryRun");

    (void)id;
    if (read_policy(call, &policy) < 0) {
        rest_fail(call);
        return;
    }
    json_set_bool(call->arena, doc, "dryRun", dry);
    json_set(call->arena, doc, "items", *upkeep_plan(call->api->config.upkeep, &policy, call->arena));
    if (!dry)
        upkeep_run(call->api->config.upkeep, &policy);
    rest_reply(call, 200, doc);
}
