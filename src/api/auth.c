#include "api/auth.h"

#include "base/clock.h"

#include <grp.h>
#include <openssl/sha.h>
#include <pwd.h>

#define NSS_BUF 16384

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

static void finish(const struct api *api, struct identity *who)
{
    add_group(who, "system:authenticated");
    if (is_listed(api->config.admins, who->user))
        add_group(who, "system:masters");
}

static void add_os_groups(struct arena *arena, struct identity *who, const struct passwd *user)
{
    gid_t gids[IDENTITY_GROUPS_MAX];
    int count = ARRAY_LEN(gids);
    char buf[NSS_BUF];

    if (getgrouplist(user->pw_name, user->pw_gid, gids, &count) < 0)
        count = ARRAY_LEN(gids);
    for (int i = 0; i < count; i++) {
        struct group group, *found;

        /* Groups of the system that happen to be called like ours give nothing. */
        if (getgrgid_r(gids[i], &group, buf, sizeof(buf), &found) == 0 && found &&
            !strchr(group.gr_name, ':'))
            add_group(who, arena_strdup(arena, group.gr_name));
    }
}

static void by_uid(const struct api *api, const struct http_peer *peer, struct arena *arena,
                   struct identity *who)
{
    struct passwd user, *found;
    char buf[NSS_BUF];

    who->has_uid = true;
    who->uid = peer->uid;
    who->gid = peer->gid;
    if (peer->uid == 0 || peer->uid == geteuid()) {
        /* root, and whoever runs the daemon as themselves */
        who->user = "system:admin";
        add_group(who, "system:masters");
        add_group(who, "system:authenticated");
        return;
    }
    if (getpwuid_r(peer->uid, &user, buf, sizeof(buf), &found) == 0 && found) {
        who->user = arena_strdup(arena, user.pw_name);
        who->gid = user.pw_gid;
        add_os_groups(arena, who, &user);
    } else {
        who->user = arena_printf(arena, "uid-%u", (unsigned)peer->uid);
    }
    finish(api, who);
}

/* The operating system's user of that name, where there is one. */
static void find_uid(struct identity *who)
{
    struct passwd user, *found;
    char buf[NSS_BUF];

    if (getpwnam_r(who->user, &user, buf, sizeof(buf), &found) == 0 && found) {
        who->has_uid = true;
        who->uid = user.pw_uid;
        who->gid = user.pw_gid;
    }
}

void auth_token_hash(const char *token, char text[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)token, strlen(token), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

void auth_take_entry(const struct api *api, const struct json *entry, struct identity *who)
{
    who->user = json_string_or(json_get(entry, "user"), "system:anonymous");
    JSON_EACH(json_get(entry, "groups"), it)
        add_group(who, json_string(it));
    find_uid(who);
    finish(api, who);
}

static int by_token(struct api *api, const char *token, struct arena *arena, int64_t now,
                    struct identity *who, struct failure *failure)
{
    char hash[65];
    struct json *entry;
    struct str stored;
    int64_t expires;

    auth_token_hash(token, hash);
    stored = store_value(registry_store(api->config.registry), TOKENS_TABLE, hash);
    if (!stored.s || json_parse(stored, arena, &entry, NULL, NULL) < 0)
        return failure_set(failure, arena, 401, "Unauthorized", "Unauthorized");
    if (clock_parse(json_str(json_get(entry, "expires")), &expires) && expires <= now)
        return failure_set(failure, arena, 401, "Unauthorized", "Unauthorized");
    auth_take_entry(api, entry, who);
    return 0;
}

int auth_as(struct api *api, const char *user, struct identity *who)
{
    if (!*user || strchr(user, ':'))
        return -1;
    *who = (struct identity){.user = user};
    find_uid(who);
    finish(api, who);
    return 0;
}

int auth_identify(struct api *api, const struct http_req *req, struct arena *arena, int64_t now,
                  struct identity *who, struct failure *failure)
{
    const char *header = http_req_header(req, "Authorization");
    const struct http_peer *peer = req->peer;

    *who = (struct identity){0};
    if (header && strncasecmp(header, "Bearer ", 7) == 0)
        return by_token(api, str_trim(str_from(header + 7)).s, arena, now, who, failure);
    if (peer->unix_socket) {
        by_uid(api, peer, arena, who);
        return 0;
    }
    if (peer->cert_cn) {
        who->user = peer->cert_cn;
        for (const char *const *org = peer->cert_orgs; org && *org; org++)
            add_group(who, *org);
        find_uid(who);
        finish(api, who);
        return 0;
    }
    who->user = "system:anonymous";
    add_group(who, "system:unauthenticated");
    return 0;
}
