#include "api/auth.h"

#include "api/credentials.h"
#include "api/directory.h"
#include "api/page/page.h"
#include "api/users.h"
#include "base/clock.h"

#include <openssl/sha.h>

static void add_group(struct identity *who, const char *group)
{
    if (group && who->group_count < IDENTITY_GROUPS_MAX && !identity_in_group(who, group))
        who->groups[who->group_count++] = group;
}

static bool is_listed(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (streq(*names, name))
            return true;
    return false;
}

void auth_token_hash(const char *token, char text[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)token, strlen(token), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static int unauthorized(struct call *call)
{
    return failure_set(&call->failure, call->arena, 401, "Unauthorized", "Unauthorized");
}

/* ---- the person ---- */

/* By name, or by uid where it is NULL. *ret NULL: no such account. */
static int find_account(struct call *call, const char *name, uid_t uid, const struct os_user **ret)
{
    const struct os_user *account = NULL;
    struct err err = {0};
    int result =
        directory_find(call->api->directory, name, uid, call->arena, &account, call_again, call, &err);

    if (result < 0) {
        failure_set(&call->failure, call->arena, 503, "ServiceUnavailable", "%s; try again later", err.msg);
        call->failure.retry_after = DIRECTORY_WAIT_SEC;
        call->at_once = true;
    }
    *ret = result == 0 && account->found ? account : NULL;
    return result;
}

/* What everybody of that name has, after the groups that came with the request. */
static int take_person(struct call *call, const struct os_user *account)
{
    struct identity *who = &call->who;
    const struct json *record = user_record(call->store, who->user, call->arena);

    if (user_is_disabled(record))
        return failure_set(&call->failure, call->arena, 403, "Forbidden",
                           "user \"%s\" is disabled: ask an admin of this machine", who->user);
    who->own_groups = who->group_count;
    JSON_EACH(json_get(record, "groups"), it)
        add_group(who, json_string(it));
    who->account = account;
    if (account) {
        who->has_uid = true;
        who->uid = account->uid;
        who->gid = account->gid;
        /* Groups of the system that happen to be called like ours give nothing. */
        for (size_t i = 0; i < account->group_count; i++)
            if (!strchr(account->groups[i], ':'))
                add_group(who, account->groups[i]);
    }
    /* These two always have room. */
    if (who->group_count > IDENTITY_GROUPS_MAX - 2)
        who->group_count = IDENTITY_GROUPS_MAX - 2;
    add_group(who, GROUP_KNOWN);
    if (is_listed(call->api->config.admins, who->user))
        add_group(who, GROUP_MASTERS);
    return 0;
}

static int take_name(struct call *call)
{
    const struct os_user *account = NULL;
    int result;

    /* "system:admin" and the like are nobody's account. */
    if (!strchr(call->who.user, ':')) {
        result = find_account(call, call->who.user, 0, &account);
        if (result != 0)
            return result;
    }
    return take_person(call, account);
}

int auth_account(struct call *call, const char *name, const struct os_user **ret)
{
    return find_account(call, name, 0, ret);
}

/* ---- ways in ---- */

static int by_uid(struct call *call)
{
    const struct http_peer *peer = call->req->peer;
    struct identity *who = &call->who;
    const struct os_user *account;
    int result;

    call->by.how = HOW_SOCKET;
    who->has_uid = true;
    who->uid = peer->uid;
    who->gid = peer->gid;
    if (peer->uid == 0 || peer->uid == geteuid()) {
        /* root, and whoever runs the daemon as themselves */
        who->user = "system:admin";
        add_group(who, GROUP_MASTERS);
        who->own_groups = who->group_count;
        add_group(who, GROUP_KNOWN);
        return 0;
    }
    result = find_account(call, NULL, peer->uid, &account);
    if (result != 0)
        return result;
    who->user = account ? account->name : arena_printf(call->arena, "uid-%u", (unsigned)peer->uid);
    return take_person(call, account);
}

int auth_take_entry(struct call *call, const struct json *entry)
{
    struct identity *who = &call->who;

    *who = (struct identity){.user = json_string_or(json_get(entry, "user"), "system:anonymous")};
    JSON_EACH(json_get(entry, "groups"), it)
        add_group(who, json_string(it));
    return take_name(call);
}

static void take_credential(struct call *call, enum call_how how, const char *table, const char *key,
                            const struct json *entry)
{
    call->by.how = how;
    call->by.table = table;
    call->by.key = arena_strdup(call->arena, key);
    call->by.id = json_get_string(entry, "id");
    if (!clock_parse(json_str(json_get(entry, "expires")), &call->by.expires))
        call->by.expires = call->now;
}

static int by_token(struct call *call, const char *token)
{
    struct json *entry;
    char hash[65];

    auth_token_hash(token, hash);
    entry = credential_entry(call->store, TOKENS_TABLE, hash, call->arena, call->now);
    if (!entry) {
        call->by.how = HOW_TOKEN;
        return unauthorized(call);
    }
    take_credential(call, HOW_TOKEN, TOKENS_TABLE, hash, entry);
    return auth_take_entry(call, entry);
}

/* Certificates were not always kept: one from before that counts until it ends, unless its user's have been
 * taken back. */
static bool is_older_certificate(struct call *call)
{
    const struct http_peer *peer = call->req->peer;
    int64_t since, from = user_certificates_from(call->store, peer->cert_cn, call->arena);

    if (!clock_parse(store_value(call->store, CERTIFICATES_SINCE_TABLE, CERTIFICATES_TABLE), &since))
        since = INT64_MAX; /* nobody keeps them here */
    return peer->cert_from < since && peer->cert_from >= from;
}

static int by_certificate(struct call *call)
{
    const struct http_peer *peer = call->req->peer;
    const struct json *entry =
        credential_entry(call->store, CERTIFICATES_TABLE, peer->cert_serial, call->arena, call->now);

    call->by.how = HOW_CERTIFICATE;
    call->by.id = peer->cert_serial;
    call->by.expires = peer->cert_until;
    if (peer->cert_until <= call->now || (!entry && !is_older_certificate(call)))
        return unauthorized(call);
    if (entry)
        take_credential(call, HOW_CERTIFICATE, CERTIFICATES_TABLE, peer->cert_serial, entry);
    call->who = (struct identity){.user = peer->cert_cn};
    for (const char *const *org = peer->cert_orgs; org && *org; org++)
        add_group(&call->who, *org);
    return take_name(call);
}

/* A sign-in of the page counts for what the page asks. */
static bool session_counts(const struct http_req *req)
{
    return (starts_with(req->path, "/v1/") || streq(req->path, "/api/state") ||
            starts_with(req->path, "/describe/")) &&
           !req->peer->unix_socket && !http_req_header(req, "Authorization");
}

int auth_as(struct call *call, const char *user)
{
    if (!*user || strchr(user, ':'))
        return failure_bad_request(&call->failure, call->arena, "'%s' is nobody's name", user);
    call->who = (struct identity){.user = user};
    return take_name(call);
}

int auth_identify(struct call *call)
{
    const char *header = http_req_header(call->req, "Authorization");
    const struct http_peer *peer = call->req->peer;
    char session_key[65] = "";
    struct json *session = session_counts(call->req) ? page_session_entry(call, session_key) : NULL;

    call->who = (struct identity){0};
    call->by = (struct call_by){.expires = INT64_MAX};
    call->session = session != NULL;
    if (session) {
        take_credential(call, HOW_SESSION, SESSIONS_TABLE, session_key, session);
        return auth_take_entry(call, session);
    }
    if (header && strncasecmp(header, "Bearer ", 7) == 0)
        return by_token(call, str_trim(str_from(header + 7)).s);
    if (peer->unix_socket)
        return by_uid(call);
    if (peer->cert_cn)
        return by_certificate(call);
    call->who.user = "system:anonymous";
    add_group(&call->who, "system:unauthenticated");
    return 0;
}
