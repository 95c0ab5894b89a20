#include "api/idempotency.h"

#include "base/clock.h"
#include "base/vec.h"

#include <inttypes.h>
#include <openssl/evp.h>

#define TABLE      "idempotency"
#define HEX_LEN    64
#define LOOK_EVERY 256 /* keys, from one look at old ones to the next */

static void add(EVP_MD_CTX *context, const char *text, size_t len)
{
    const uint64_t size = len;

    EVP_DigestUpdate(context, &size, sizeof(size)); /* so that no two lists of parts are the same bytes */
    EVP_DigestUpdate(context, text, len);
}

static const char *finish(struct arena *arena, EVP_MD_CTX *context)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char *hex = arena_zalloc(arena, HEX_LEN + 1);

    EVP_DigestFinal_ex(context, sum, &len);
    EVP_MD_CTX_free(context);
    for (unsigned i = 0; i < len && 2 * i < HEX_LEN; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", sum[i]);
    return hex;
}

static EVP_MD_CTX *start(void)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    return context;
}

/* Whose key for what. */
static const char *slot_of(const struct call *call, const char *key)
{
    EVP_MD_CTX *context = start();

    add(context, call->who.user, strlen(call->who.user));
    add(context, call->req->method, strlen(call->req->method));
    add(context, call->req->path, strlen(call->req->path));
    add(context, key, strlen(key));
    return finish(call->arena, context);
}

static const char *sum_of(const struct call *call)
{
    EVP_MD_CTX *context = start();

    add(context, call->req->query, strlen(call->req->query));
    add(context, call->req->body.s ? call->req->body.s : "", call->req->body.len);
    return finish(call->arena, context);
}

static bool is_key(const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)key[i] <= ' ' || (unsigned char)key[i] > '~')
            return false;
    return len > 0 && len <= IDEMPOTENCY_KEY_MAX;
}

static bool under_way(const struct call *call)
{
    for (const struct call *it = call->api->live; it; it = it->live_next)
        if (it != call && it->idempotency && streq(it->idempotency, call->idempotency))
            return true;
    return false;
}

int idempotency_begin(struct call *call, const char **ret_uid)
{
    const char *key = http_req_header(call->req, "Idempotency-Key");
    struct json *doc = NULL;
    struct str value;

    if (!key || query_bool(call, "dryRun"))
        return 0;
    if (!is_key(key))
        return failure_bad_request(&call->failure, call->arena,
                                   "Idempotency-Key must be 1 to %d printable characters without spaces",
                                   IDEMPOTENCY_KEY_MAX);
    call->idempotency = slot_of(call, key);
    call->idempotency_sum = sum_of(call);
    value = store_value(call->store, TABLE, call->idempotency);
    if (value.s && json_parse(value, call->arena, &doc, NULL, NULL) == 0) {
        if (!streq(json_get_string(doc, "sum"), call->idempotency_sum))
            return failure_set(
                &call->failure, call->arena, 422, "Invalid",
                "this Idempotency-Key was used for another request: take a new one for each request");
        *ret_uid = json_get_string(doc, "uid");
        return *ret_uid ? 1 : 0;
    }
    if (under_way(call))
        return failure_set(&call->failure, call->arena, 409, "Conflict",
                           "a request with this Idempotency-Key is under way: try again in a moment");
    return 0;
}

/* ---- forgetting ---- */

struct old {
    struct arena *arena;
    int64_t before;
    size_t count;
    VEC(const char *) keys;
};

static void look_at(void *arg, const char *key, struct str value)
{
    struct old *old = arg;
    struct json *doc = NULL;

    old->count++;
    if (json_parse(value, old->arena, &doc, NULL, NULL) < 0 ||
        json_int(json_get(doc, "time"), 0) < old->before)
        vec_push(&old->keys, arena_strdup(old->arena, key));
}

/* Beyond the limit the younger half stays. */
static void forget_old(struct call *call)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct old old = {.arena = &arena,
                      .before = clock_after(call->now, -IDEMPOTENCY_DAYS * 86400) / NSEC_PER_MSEC};

    for (int64_t days = IDEMPOTENCY_DAYS; days >= 1; days /= 2) {
        old.count = old.keys.len = 0;
        old.before = clock_after(call->now, -days * 86400) / NSEC_PER_MSEC;
        store_values(call->store, TABLE, look_at, &old);
        if (old.count - old.keys.len < IDEMPOTENCY_KEYS_MAX)
            break;
    }
    VEC_EACH(&old.keys, it)
        store_value_set(call->store, TABLE, *it, (struct str){0});
    vec_done(&old.keys);
}

void idempotency_made(struct call *call, const char *uid)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!call->idempotency)
        return;
    buf_printf(&text, "{\"uid\":\"%s\",\"sum\":\"%s\",\"time\":%" PRId64 "}", uid, call->idempotency_sum,
               call->now / NSEC_PER_MSEC);
    store_value_set(call->store, TABLE, call->idempotency, buf_view(&text));
    if (++call->api->idempotency_made % LOOK_EVERY == 0)
        forget_old(call);
}
