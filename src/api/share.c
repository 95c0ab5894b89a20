#include "api/share.h"

#include "base/map.h"
#include "base/mem.h"

#define RETRY_SEC 1

struct held {
    size_t amount[SHARE_KINDS];
};

struct shares {
    struct map *people; /* name → held */
    struct held all;
};

static const struct {
    const char *what;
    size_t each, all;
} limits[SHARE_KINDS] = {
    [SHARE_STREAMS] = {"streams of the queue", 50, 1000},
    [SHARE_LIST_BYTES] = {"large watches that are still being sent their objects", 64 << 20, 512 << 20},
};

void shares_free(struct shares *shares)
{
    struct str key;
    size_t at = 0;
    void *value;

    if (!shares)
        return;
    while (map_next(shares->people, &at, &key, &value))
        free(value);
    map_free(shares->people);
    free(shares);
}

const char *share_person(struct call *call)
{
    const char *address = call->req->peer->address, *colon = strrchr(address, ':');

    if (call->who.user && access_is_known(&call->who))
        return arena_printf(call->arena, "user %s", call->who.user);
    return arena_printf(call->arena, "address %.*s", colon ? (int)(colon - address) : 0, address);
}

int share_take(struct call *call, enum share_kind kind, size_t amount, struct share_hold *ret)
{
    struct api *api = call->api;
    const char *name = share_person(call);
    bool admin = access_is_admin(&call->who);
    struct held *held;

    if (!api->shares) {
        api->shares = NEW(struct shares);
        api->shares->people = map_new();
    }
    held = map_get(api->shares->people, str_from(name));
    if ((!admin && held && held->amount[kind] + amount > limits[kind].each && held->amount[kind] > 0) ||
        (api->shares->all.amount[kind] + amount > limits[kind].all && api->shares->all.amount[kind] > 0)) {
        failure_set(&call->failure, call->arena, 429, "TooManyRequests", "too many %s", limits[kind].what);
        call->failure.retry_after = RETRY_SEC;
        return -1;
    }
    if (!held) {
        held = NEW(struct held);
        map_set(api->shares->people, str_from(name), held);
    }
    held->amount[kind] += amount;
    api->shares->all.amount[kind] += amount;
    *ret = (struct share_hold){api, mem_strdup(name), kind, amount};
    return 0;
}

static bool is_empty(const struct held *held)
{
    for (int i = 0; i < SHARE_KINDS; i++)
        if (held->amount[i])
            return false;
    return true;
}

void share_give(struct share_hold *hold)
{
    struct held *held;

    if (!hold->who)
        return;
    held = map_get(hold->api->shares->people, str_from(hold->who));
    held->amount[hold->kind] -= hold->amount;
    hold->api->shares->all.amount[hold->kind] -= hold->amount;
    if (is_empty(held))
        free(map_remove(hold->api->shares->people, str_from(hold->who)));
    free(hold->who);
    *hold = (struct share_hold){0};
}
