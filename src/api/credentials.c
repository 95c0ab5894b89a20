/* All entries of all tables are read where something is taken back: there are thousands at most, and it is
 * rare. What is taken back is found by marking, until nothing new is marked. */
#include "api/credentials.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"

static const char *const tables[] = {TOKENS_TABLE, CERTIFICATES_TABLE, SESSIONS_TABLE, SIGNIN_CODES_TABLE};

static bool has_ended(const struct json *entry, int64_t now)
{
    int64_t expires;

    return !clock_parse(json_str(json_get(entry, "expires")), &expires) || expires <= now;
}

void credential_fill(struct call *call, struct json *entry, const char *user, int64_t ttl_sec)
{
    int64_t expires = call->now + ttl_sec * NSEC_PER_SEC;
    char id[17], time[CLOCK_TEXT_MAX];

    if (!json_get(entry, "id")) {
        random_hex(id, 8);
        json_set_string(call->arena, entry, "id", id);
    }
    if (call->by.id && call->by.expires < expires)
        expires = call->by.expires;
    json_set_string(call->arena, entry, "user", user);
    json_set_string(call->arena, entry, "created", clock_format(call->now, time));
    json_set_string(call->arena, entry, "expires", clock_format(expires, time));
    if (call->by.id)
        json_set_string(call->arena, entry, "parent", call->by.id);
}

void credential_keep(struct call *call, const char *table, const char *key, const struct json *entry)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, entry);
    store_value_set(call->store, table, key, buf_view(&text));
}

struct json *credential_entry(struct store *store, const char *table, const char *key, struct arena *arena,
                              int64_t now)
{
    struct str stored = store_value(store, table, key);
    struct json *entry;

    if (!stored.s || json_parse(stored, arena, &entry, NULL, NULL) < 0 || has_ended(entry, now))
        return NULL;
    return entry;
}

/* ---- all of them ---- */

struct one {
    const char *table, *key;
    struct json *entry;
    bool marked, walked;
};

struct all {
    struct call *call;
    const char *table;
    struct one *v;
    size_t len, cap;
};

static void collect_one(void *arg, const char *key, struct str value)
{
    struct all *all = arg;
    struct arena *arena = all->call->arena;
    struct json *entry;

    if (json_parse(value, arena, &entry, NULL, NULL) < 0)
        entry = json_new_object(arena);
    vec_push(all, (struct one){.table = all->table, .key = arena_strdup(arena, key), .entry = entry});
}

static void collect(struct call *call, const char *table, struct all *ret)
{
    ret->call = call;
    ret->table = table;
    store_values(call->store, table, collect_one, ret);
}

static void collect_all(struct call *call, struct all *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        collect(call, tables[i], ret);
}

static void mark_same(struct all *all, const char *member, const char *value)
{
    for (size_t i = 0; value && i < all->len; i++)
        if (streq(json_get_string(all->v[i].entry, member), value))
            all->v[i].marked = true;
}

/* From what is marked to its family and its children. */
static void mark_kin(struct all *all)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < all->len; i++) {
            struct one *one = &all->v[i];

            if (!one->marked || one->walked)
                continue;
            one->walked = again = true;
            mark_same(all, "parent", json_get_string(one->entry, "id"));
            mark_same(all, "family", json_get_string(one->entry, "family"));
        }
    }
}

static size_t end_marked(struct all *all)
{
    size_t count = 0;

    mark_kin(all);
    for (size_t i = 0; i < all->len; i++)
        if (all->v[i].marked) {
            store_value_set(all->call->store, all->v[i].table, all->v[i].key, (struct str){0});
            count++;
        }
    vec_done(all);
    return count;
}

size_t credentials_count(struct call *call, const char *table, const char *user)
{
    struct all all = {0};
    size_t count = 0;

    collect(call, table, &all);
    for (size_t i = 0; i < all.len; i++) {
        if (has_ended(all.v[i].entry, call->now))
            store_value_set(call->store, table, all.v[i].key, (struct str){0});
        else
            count += streq(json_get_string(all.v[i].entry, "user"), user);
    }
    vec_done(&all);
    return count;
}

void credentials_each(struct call *call, const char *table, void (*fn)(void *arg, struct json *entry),
                      void *arg)
{
    struct all all = {0};

    collect(call, table, &all);
    for (size_t i = 0; i < all.len; i++)
        if (!has_ended(all.v[i].entry, call->now))
            fn(arg, all.v[i].entry);
    vec_done(&all);
}

size_t credentials_revoke(struct call *call, const char *table, const char *id, const char *user)
{
    struct all all = {0};

    collect_all(call, &all);
    for (size_t i = 0; i < all.len; i++)
        if (streq(all.v[i].table, table) && streq(json_get_string(all.v[i].entry, "id"), id) &&
            (!user || streq(json_get_string(all.v[i].entry, "user"), user)))
            all.v[i].marked = true;
    return end_marked(&all);
}

size_t credentials_end_user(struct call *call, const char *user)
{
    struct all all = {0};

    collect_all(call, &all);
    mark_same(&all, "user", user);
    return end_marked(&all);
}
