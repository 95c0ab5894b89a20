/* One entry for each key ("n:NAME", "u:UID") that was ever asked for, up to DIRECTORY_MAX; one thread at most
 * for each. Who waits is called from the loop when the thread has answered, or its time is up. */
#include "api/directory.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "loop/offload.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>

#define KEY_MAX         288 /* bytes of a key; names that are longer belong to nobody */
#define ENTRY_FIRST     16384
#define RETRY_NSEC      NSEC_PER_SEC /* after a failure without any answer */
#define FAILED_FOR_NSEC (30 * NSEC_PER_SEC)
#define LATE_SLACK_NSEC (100 * NSEC_PER_MSEC) /* between the timer's clock and ours */

struct waiter {
    void (*fn)(void *arg);
    void *arg;
};

struct waiters {
    struct waiter *v;
    size_t len, cap;
};

struct entry {
    struct arena arena; /* of the answer */
    struct os_user account;
    bool answered, asking;
    int64_t at, asked_at, failed_at; /* monotonic; 0: never */
    struct waiters waiters;
};

struct directory {
    struct offload *offload;
    directory_lookup_fn lookup;
    struct map *entries;
};

/* A question on its way through a thread. */
struct question {
    directory_lookup_fn lookup;
    char key[KEY_MAX];
    const char *name; /* in key; NULL: by uid */
    uid_t uid;
    struct arena arena;
    struct os_user account;
    int result;
};

/* ---- in a thread ---- */

static bool is_absent(int sys)
{
    return sys == 0 || sys == ENOENT || sys == ESRCH || sys == EBADF || sys == EPERM;
}

/* getpwnam_r and its like with as much room as an entry needs. */
static int find_user(const char *name, uid_t uid, struct arena *arena, struct passwd *ret, bool *found,
                     struct err *err)
{
    for (size_t room = ENTRY_FIRST; room <= DIRECTORY_ENTRY_MAX; room *= 4) {
        char *text = arena_alloc(arena, room);
        struct passwd *there = NULL;
        int sys = name ? getpwnam_r(name, ret, text, room, &there) : getpwuid_r(uid, ret, text, room, &there);

        *found = there != NULL;
        if (there || is_absent(sys))
            return 0;
        if (sys != ERANGE)
            return err_errno(err, sys, "the directory of users does not answer");
    }
    return err_set(err, ERR_LIMIT, "the user's entry has more than %d bytes", DIRECTORY_ENTRY_MAX);
}

static int find_group(gid_t gid, struct arena *arena, const char **ret, struct err *err)
{
    *ret = NULL;
    for (size_t room = ENTRY_FIRST; room <= DIRECTORY_ENTRY_MAX; room *= 4) {
        CLEANUP(free) char *text = mem_alloc(room);
        struct group group, *there = NULL;
        int sys = getgrgid_r(gid, &group, text, room, &there);

        if (there)
            *ret = arena_strdup(arena, group.gr_name);
        if (there || is_absent(sys))
            return 0;
        if (sys != ERANGE)
            return err_errno(err, sys, "the directory of groups does not answer");
    }
    return 0; /* a group with more members than that has no name here */
}

static int find_groups(struct arena *arena, struct os_user *account, struct err *err)
{
    gid_t *gids = arena_alloc(arena, DIRECTORY_GROUPS_MAX * sizeof(*gids));
    const char **names = arena_alloc(arena, DIRECTORY_GROUPS_MAX * sizeof(*names));
    int count = DIRECTORY_GROUPS_MAX;

    if (getgrouplist(account->name, account->gid, gids, &count) < 0)
        count = DIRECTORY_GROUPS_MAX;
    account->gids = gids;
    account->gid_count = (size_t)count;
    account->groups = names;
    for (int i = 0; i < count; i++) {
        const char *name;

        if (find_group(gids[i], arena, &name, err) < 0)
            return -1;
        if (name)
            names[account->group_count++] = name;
    }
    return 0;
}

static int system_lookup(const char *name, uid_t uid, struct arena *arena, struct os_user *ret,
                         struct err *err)
{
    struct passwd user;
    bool found = false;

    *ret = (struct os_user){0};
    if (find_user(name, uid, arena, &user, &found, err) < 0)
        return -1;
    if (!found)
        return 0;
    *ret = (struct os_user){.found = true,
                            .uid = user.pw_uid,
                            .gid = user.pw_gid,
                            .name = arena_strdup(arena, user.pw_name),
                            .home = arena_strdup(arena, user.pw_dir ? user.pw_dir : "/")};
    return find_groups(arena, ret, err);
}

static void question_run(void *arg)
{
    struct question *question = arg;

    question->result =
        question->lookup(question->name, question->uid, &question->arena, &question->account, NULL);
}

static void question_drop(void *arg)
{
    struct question *question = arg;

    arena_done(&question->arena);
    free(question);
}

/* ---- in the loop ---- */

static const struct os_user *copy_account(struct arena *arena, const struct os_user *from)
{
    struct os_user *to = arena_alloc(arena, sizeof(*to));
    const char **groups;

    *to = *from;
    if (!from->found)
        return to;
    to->name = arena_strdup(arena, from->name);
    to->home = arena_strdup(arena, from->home);
    if (from->gid_count) {
        gid_t *gids = arena_alloc(arena, from->gid_count * sizeof(*gids));

        memcpy(gids, from->gids, from->gid_count * sizeof(*gids));
        to->gids = gids;
    }
    groups = arena_alloc(arena, (from->group_count + 1) * sizeof(*groups));
    for (size_t i = 0; i < from->group_count; i++)
        groups[i] = arena_strdup(arena, from->groups[i]);
    to->groups = groups;
    return to;
}

static void move_waiters(struct entry *entry, struct waiters *to)
{
    VEC_EACH(&entry->waiters, it)
        vec_push(to, *it);
    entry->waiters.len = 0;
}

/* They may ask again, and wait again; entries may go meanwhile. */
static void tell(struct waiters *waiters)
{
    VEC_EACH(waiters, it)
        it->fn(it->arg);
    vec_done(waiters);
}

static void entry_take(struct entry *entry, struct question *question)
{
    entry->asking = false;
    if (question->result < 0) {
        entry->failed_at = clock_monotonic();
        return;
    }
    arena_done(&entry->arena);
    entry->arena = question->arena;
    entry->account = question->account;
    entry->answered = true;
    entry->at = clock_monotonic();
    entry->failed_at = 0;
    question->arena = (struct arena){0};
}

/* offload tells that something took too long, not what. */
static void give_up(struct directory *directory, struct waiters *told)
{
    int64_t now = clock_monotonic();
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(directory->entries, &at, &key, &value)) {
        struct entry *entry = value;

        if (entry->asking && now - entry->asked_at >= DIRECTORY_WAIT_SEC * NSEC_PER_SEC - LATE_SLACK_NSEC) {
            entry->asking = false;
            entry->failed_at = now;
            move_waiters(entry, told);
        }
    }
}

static void directory_on_end(void *owner, void *work)
{
    struct directory *directory = owner;
    struct question *question = work;
    struct entry *entry = question ? map_get(directory->entries, str_from(question->key)) : NULL;
    struct waiters told = {0};

    if (entry) {
        entry_take(entry, question);
        move_waiters(entry, &told);
    }
    if (question)
        question_drop(question);
    else
        give_up(directory, &told);
    tell(&told);
}

static void ask(struct directory *directory, const char *key, const char *name, uid_t uid,
                struct entry *entry)
{
    struct question *question = NEW(struct question);

    question->lookup = directory->lookup;
    snprintf(question->key, sizeof(question->key), "%s", key);
    question->name = name ? question->key + 2 : NULL;
    question->uid = uid;
    if (offload_run(directory->offload, DIRECTORY_WAIT_SEC, question_run, directory_on_end, question_drop,
                    directory, question, NULL) < 0) {
        question_drop(question);
        entry->failed_at = clock_monotonic();
        return;
    }
    entry->asking = true;
    entry->asked_at = clock_monotonic();
}

static void entry_free(struct entry *entry)
{
    arena_done(&entry->arena);
    vec_done(&entry->waiters);
    free(entry);
}

/* Those that nobody asked for lately go when there are too many. */
static void make_room(struct directory *directory)
{
    int64_t now = clock_monotonic();
    struct map *kept;
    struct str key;
    void *value;
    size_t at = 0;

    if (map_len(directory->entries) < DIRECTORY_MAX)
        return;
    kept = map_new();
    while (map_next(directory->entries, &at, &key, &value)) {
        struct entry *entry = value;

        if (entry->asking ||
            (now - entry->at < DIRECTORY_FRESH_SEC * NSEC_PER_SEC && map_len(kept) < DIRECTORY_MAX / 2))
            map_set(kept, key, entry);
        else
            entry_free(entry);
    }
    map_free(directory->entries);
    directory->entries = kept;
}

static struct entry *entry_need(struct directory *directory, const char *key)
{
    struct entry *entry = map_get(directory->entries, str_from(key));

    if (entry)
        return entry;
    make_room(directory);
    entry = NEW(struct entry);
    map_set(directory->entries, str_from(key), entry);
    return entry;
}

int directory_find(struct directory *directory, const char *name, uid_t uid, struct arena *arena,
                   const struct os_user **ret, void (*fn)(void *arg), void *arg, struct err *err)
{
    int64_t now = clock_monotonic(), age, fresh;
    char key[KEY_MAX];
    struct entry *entry;
    bool failing;

    if (name && strlen(name) + 3 > sizeof(key)) {
        *ret = arena_zalloc(arena, sizeof(**ret));
        return 0;
    }
    snprintf(key, sizeof(key), name ? "n:%s" : "u:%s",
             name ? name : arena_printf(arena, "%u", (unsigned)uid));
    entry = entry_need(directory, key);
    age = now - entry->at;
    failing = entry->failed_at && now - entry->failed_at < (entry->answered ? FAILED_FOR_NSEC : RETRY_NSEC);
    fresh = (entry->account.found ? DIRECTORY_FRESH_SEC : DIRECTORY_MISSING_SEC) * NSEC_PER_SEC;
    if ((!entry->answered || age > fresh) && !entry->asking && !failing)
        ask(directory, key, name, uid, entry);
    if (entry->answered && (age <= (entry->account.found ? DIRECTORY_STALE_SEC * NSEC_PER_SEC : fresh) ||
                            (entry->failed_at && age <= DIRECTORY_KEEP_SEC * NSEC_PER_SEC))) {
        *ret = copy_account(arena, &entry->account);
        return 0;
    }
    if (!entry->asking)
        return err_set(err, ERR_UNAVAILABLE,
                       "cannot look up user %s: this machine's directory of users does not answer", key + 2);
    vec_push(&entry->waiters, ((struct waiter){fn, arg}));
    return 1;
}

struct directory *directory_new(struct loop *loop, directory_lookup_fn lookup)
{
    struct directory *directory = NEW(struct directory);

    directory->offload = offload_new(loop);
    directory->lookup = lookup ? lookup : system_lookup;
    directory->entries = map_new();
    return directory;
}

void directory_free(struct directory *directory)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (!directory)
        return;
    offload_close(directory->offload);
    while (map_next(directory->entries, &at, &key, &value))
        entry_free(value);
    map_free(directory->entries);
    free(directory);
}
