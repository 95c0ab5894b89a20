/* Tokens, and client certificates in kubeconfigs. A token is random, shown once, kept as its hash; of a
 * certificate the serial number and the names are kept, its key nowhere. */
#include "api/credentials.h"

#include "api/auth.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/file.h"

#define TOKEN_TTL_MAX     (10LL * 366 * 86400)
#define TOKEN_TTL_DEFAULT (30LL * 86400)
#define TOKEN_BYTES       24

/* NULL for admins, who see and end anybody's. */
static const char *only_own(const struct call *call)
{
    return access_is_admin(&call->who) ? NULL : call->who.user;
}

struct listing {
    const struct call *call;
    struct json *items;
    const char *user; /* NULL: all */
};

static void list_one(void *arg, struct json *entry)
{
    struct listing *list = arg;

    if (!list->user || streq(json_get_string(entry, "user"), list->user))
        json_push(list->call->arena, list->items, *entry);
}

static void reply_list(struct call *call, const char *table)
{
    struct json *doc = json_new_object(call->arena);
    struct listing list = {call, json_set_array(call->arena, doc, "items"), only_own(call)};
    const char *user = query_string(call, "user");

    if (*user && !list.user)
        list.user = user;
    credentials_each(call, table, list_one, &list);
    call_reply_json(call, 200, doc);
}

static void take_back(struct call *call, const char *table, const char *what, const char *id)
{
    struct json *doc = json_new_object(call->arena);
    size_t count = credentials_revoke(call, table, id, only_own(call));

    if (!count) {
        failure_set(&call->failure, call->arena, 404, "NotFound", "%s \"%s\" not found", what, id);
        rest_fail(call);
        return;
    }
    api_cut(call->api, NULL, call);
    json_set_string(call->arena, doc, "id", id);
    json_set_bool(call->arena, doc, "revoked", true);
    json_set_int(call->arena, doc, "credentials", (int64_t)count);
    call_reply_json(call, 200, doc);
}

/* The groups that came with the caller's own credential go with what it makes: those of the user's record and
 * account are looked up each time. */
static struct json *own_groups(const struct call *call)
{
    struct json *groups = json_new_array(call->arena);

    for (unsigned i = 0; i < call->who.own_groups; i++)
        json_push_string(call->arena, groups, call->who.groups[i]);
    return groups;
}

/* ---- tokens ---- */

static int token_user(struct call *call, const struct json *doc, const char **ret)
{
    const char *asked;

    if (rest_string(call, doc, "user", &asked) < 0)
        return -1;
    *ret = call->who.user;
    if (!asked || streq(asked, call->who.user))
        return 0;
    if (!access_is_admin(&call->who))
        return failure_set(&call->failure, call->arena, 403, "Forbidden",
                           "only an admin makes tokens for other users");
    return rest_user_name(call, asked, ret);
}

/* One's own token carries one's own rights, somebody else's that user's. Admins may name groups. */
static int token_groups(struct call *call, const struct json *doc, bool own, struct json **ret)
{
    struct json *asked;

    if (rest_groups(call, json_get(doc, "groups"), &asked) < 0)
        return -1;
    *ret = own ? own_groups(call) : json_new_array(call->arena);
    if (!json_len(asked))
        return 0;
    if (!access_is_admin(&call->who))
        return failure_set(&call->failure, call->arena, 403, "Forbidden",
                           "only an admin makes tokens with groups");
    JSON_EACH(asked, it)
        json_push(call->arena, *ret, *it);
    return 0;
}

static int make_token(struct call *call, struct json **answer)
{
    struct json *doc, *entry = json_new_object(call->arena), *groups;
    char secret[2 * TOKEN_BYTES + 1], hash[65];
    const char *user, *text, *token;
    size_t max = call->api->config.user_tokens;
    int64_t ttl = TOKEN_TTL_DEFAULT;

    if (rest_body(call, &doc) < 0 || token_user(call, doc, &user) < 0 ||
        token_groups(call, doc, streq(user, call->who.user), &groups) < 0 ||
        rest_int(call, doc, "ttlSec", TOKEN_TTL_MAX, &ttl) < 0 ||
        rest_string(call, doc, "description", &text) < 0)
        return -1;
    if (text && strlen(text) > CREDENTIAL_TEXT_MAX)
        return failure_bad_request(&call->failure, call->arena, "description has more than %d bytes",
                                   CREDENTIAL_TEXT_MAX);
    if (max && credentials_count(call, TOKENS_TABLE, user) >= max)
        return failure_set(&call->failure, call->arena, 429, "TooManyRequests",
                           "user '%s' has %zu tokens, as many as one user may have: revoke some "
                           "(berth token list, berth token revoke)",
                           user, max);
    random_hex(secret, TOKEN_BYTES);
    token = arena_printf(call->arena, "berth_%s", secret);
    credential_fill(call, entry, user, ttl);
    json_set(call->arena, entry, "groups", *groups);
    if (text)
        json_set_string(call->arena, entry, "description", text);
    auth_token_hash(token, hash);
    credential_keep(call, TOKENS_TABLE, hash, entry);
    *answer = json_new_object(call->arena);
    json_set(call->arena, *answer, "id", *json_get(entry, "id"));
    json_set_string(call->arena, *answer, "token", token);
    json_set_string(call->arena, *answer, "user", user);
    json_set(call->arena, *answer, "expires", *json_get(entry, "expires"));
    return 0;
}

void rest_tokens_add(struct call *call, const char *id)
{
    struct json *answer;

    (void)id;
    if (make_token(call, &answer) < 0)
        rest_fail(call);
    else
        rest_reply(call, 201, answer);
}

void rest_tokens_list(struct call *call, const char *id)
{
    (void)id;
    reply_list(call, TOKENS_TABLE);
}

void rest_tokens_revoke(struct call *call, const char *id)
{
    take_back(call, TOKENS_TABLE, "token", id);
}

/* ---- certificates ---- */

/* Until when a certificate may last: the end of what the caller came with, and of its family. 0: no such end.
 */
static int64_t certificate_until(const struct call *call, const struct json *family)
{
    int64_t until = 0, end;

    if (call->by.id && call->by.expires != INT64_MAX)
        until = call->by.expires;
    if (clock_parse(json_str(json_get(family, "until")), &end) && (!until || end < until))
        until = end;
    return until;
}

static void keep_certificate(struct call *call, const char *user, const struct json *groups,
                             const struct api_certificate *made, int64_t until, const struct json *family)
{
    struct json *entry = json_new_object(call->arena);
    char time[CLOCK_TEXT_MAX];

    json_set_string(call->arena, entry, "id", made->serial);
    credential_fill(call, entry, user, 0);
    json_set_string(call->arena, entry, "expires", clock_format(made->until, time));
    json_set(call->arena, entry, "groups", *groups);
    json_set_string(call->arena, entry, "family", json_string_or(json_get(family, "family"), made->serial));
    if (until)
        json_set_string(call->arena, entry, "until", clock_format(until, time));
    credential_keep(call, CERTIFICATES_TABLE, made->serial, entry);
}

int rest_write_kubeconfig(struct call *call, const char *user, const struct json *groups, const char *ns,
                          const struct json *family, struct json *answer)
{
    const struct api_hooks *hooks = &call->api->config.hooks;
    CLEANUP(buf_done) struct buf text = {0};
    const char *names[CREDENTIAL_GROUPS_MAX + 1] = {0};
    struct api_certificate made = {0};
    int64_t until = certificate_until(call, family);
    struct err err = {0};
    size_t count = 0;

    JSON_EACH(groups, it)
        if (json_string(it) && count < CREDENTIAL_GROUPS_MAX)
            names[count++] = json_string(it);
    if (!hooks->kubeconfig)
        return failure_set(&call->failure, call->arena, 503, "ServiceUnavailable",
                           "this server has no certificate authority: start it with --https");
    if (credentials_count(call, CERTIFICATES_TABLE, user) >= CERTIFICATES_EACH)
        return failure_set(&call->failure, call->arena, 429, "TooManyRequests",
                           "user '%s' has %d certificates, as many as one user may have: revoke some "
                           "(berth cert list, berth cert revoke)",
                           user, CERTIFICATES_EACH);
    if (hooks->kubeconfig(hooks->arg, user, names, ns, until, &text, &made, &err) < 0)
        return failure_from_err(&call->failure, call->arena, &err);
    keep_certificate(call, user, groups, &made, until, family);
    json_set(call->arena, answer, "kubeconfig", json_of_str(call->arena, buf_view(&text)));
    json_set_string(call->arena, answer, "certificate", made.serial);
    call->object = arena_printf(call->arena, "%s/%s", user, made.serial);
    return 0;
}

void rest_kubeconfig(struct call *call, const char *id)
{
    struct json *answer = json_new_object(call->arena), *doc = NULL;
    bool admin = access_is_admin(&call->who);
    const char *user = call->who.user, *asked;
    bool own;

    (void)id;
    if ((call->req->body.len && rest_body(call, &doc) < 0) || rest_string(call, doc, "user", &asked) < 0) {
        rest_fail(call);
        return;
    }
    own = !asked || streq(asked, user);
    if (!own && !admin) {
        failure_set(&call->failure, call->arena, 403, "Forbidden",
                    "only an admin makes kubeconfigs for other users");
        rest_fail(call);
        return;
    }
    if ((!own && rest_user_name(call, asked, &user) < 0) ||
        rest_write_kubeconfig(call, user, own ? own_groups(call) : json_new_array(call->arena),
                              own && admin ? "default" : user, NULL, answer) < 0)
        rest_fail(call);
    else
        rest_reply(call, 201, answer);
}

void rest_certificates_list(struct call *call, const char *id)
{
    (void)id;
    reply_list(call, CERTIFICATES_TABLE);
}

void rest_certificates_revoke(struct call *call, const char *id)
{
    take_back(call, CERTIFICATES_TABLE, "certificate", id);
}

/* A new one of the same family; `self`: of the certificate that the request came with. Who comes with one of
 * the family is no parent of it, so that it may last a year again; the family's own end stays. */
void rest_certificates_renew(struct call *call, const char *id)
{
    struct json *answer = json_new_object(call->arena), *old;
    const char *user, *family;
    const struct json *mine;

    if (streq(id, "self") && call->by.how == HOW_CERTIFICATE)
        id = call->by.id;
    old = credential_entry(call->store, CERTIFICATES_TABLE, id, call->arena, call->now);
    user = json_string_or(json_get(old, "user"), "");
    if (!old || (only_own(call) && !streq(user, only_own(call)))) {
        failure_set(&call->failure, call->arena, 404, "NotFound", "certificate \"%s\" not found", id);
        rest_fail(call);
        return;
    }
    mine = call->by.how == HOW_CERTIFICATE
               ? credential_entry(call->store, CERTIFICATES_TABLE, call->by.id, call->arena, call->now)
               : NULL;
    family = json_get_string(old, "family");
    if (family && streq(json_get_string(mine, "family"), family))
        call->by = (struct call_by){
            .how = HOW_CERTIFICATE, .id = json_get_string(old, "parent"), .expires = INT64_MAX};
    if (rest_write_kubeconfig(call, user, json_get(old, "groups"),
                              starts_with(user, "system:") ? "default" : user, old, answer) < 0)
        rest_fail(call);
    else
        rest_reply(call, 201, answer);
}
