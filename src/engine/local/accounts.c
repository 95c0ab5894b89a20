/* Whose pods can run on this machine. A directory service may take its time, so names are looked up in a
 * thread and what it said is kept for a while; until it has answered for the first time, nobody's pod is
 * started. */
#include "base/clock.h"
#include "engine/local/internal.h"
#include "loop/offload.h"

#include <errno.h>
#include <pwd.h>

#define ACCOUNTS_MAX 4096
#define THERE_NSEC   (600 * NSEC_PER_SEC) /* then it is asked again, and counts as it was meanwhile */
#define MISSING_NSEC (15 * NSEC_PER_SEC)
#define LOOKUP_BYTES (16 << 10)

enum account_state { ACCOUNT_ASKED, ACCOUNT_THERE, ACCOUNT_MISSING };

struct account {
    enum account_state state;
    bool asking;
    int64_t at; /* of the answer, monotonic */
};

struct account_lookup {
    char *name;
    bool found, failed; /* failed: the directory did not answer */
};

static void account_drop(void *arg)
{
    struct account_lookup *lookup = arg;

    if (!lookup)
        return;
    free(lookup->name);
    free(lookup);
}

static void account_run(void *arg)
{
    struct account_lookup *lookup = arg;
    char text[LOOKUP_BYTES];
    struct passwd entry, *found = NULL;
    int sys = getpwnam_r(lookup->name, &entry, text, sizeof(text), &found);

    lookup->found = found != NULL;
    lookup->failed = !found && sys != 0 && sys != ENOENT && sys != ESRCH;
}

static void account_done(void *owner, void *arg)
{
    struct local_engine *engine = owner;
    struct account_lookup *lookup = arg;
    struct account *account = lookup ? map_get(engine->accounts, str_from(lookup->name)) : NULL;
    enum account_state before;

    if (!lookup) { /* it hangs: whoever asks next tries again */
        struct str key;
        void *value;
        size_t at = 0;

        while (map_next(engine->accounts, &at, &key, &value))
            ((struct account *)value)->asking = false;
        return;
    }
    if (account) {
        before = account->state;
        account->asking = false;
        account->at = clock_monotonic();
        if (!lookup->failed)
            account->state = lookup->found ? ACCOUNT_THERE : ACCOUNT_MISSING;
        if (account->state != before && engine->account_fn)
            engine->account_fn(engine->account_arg);
    }
    account_drop(lookup);
}

static void ask(struct local_engine *engine, const char *user, struct account *account)
{
    struct account_lookup *lookup = NEW(struct account_lookup);

    lookup->name = mem_strdup(user);
    account->asking = offload_run(engine->offload, OFFLOAD_SEC, account_run, account_done, account_drop,
                                  engine, lookup, NULL) == 0;
    if (!account->asking)
        account_drop(lookup);
}

void accounts_free(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->accounts, &at, &key, &value))
        free(value);
    map_free(engine->accounts);
}

bool accounts_check(struct local_engine *engine, const char *user, char why[ENGINE_LINE_MAX])
{
    struct account *account;
    int64_t age;

    if (!user) {
        snprintf(why, ENGINE_LINE_MAX, NO_OWNER);
        return false;
    }
    if (user_needs_no_account(engine, user))
        return true;
    account = map_get(engine->accounts, str_from(user));
    if (!account) {
        if (map_len(engine->accounts) >= ACCOUNTS_MAX) { /* its pod will say */
            return true;
        }
        account = NEW(struct account);
        map_set(engine->accounts, str_from(user), account);
    }
    age = clock_monotonic() - account->at;
    if (!account->asking && (account->state == ACCOUNT_ASKED ||
                             age > (account->state == ACCOUNT_THERE ? THERE_NSEC : MISSING_NSEC)))
        ask(engine, user, account);
    if (account->state == ACCOUNT_THERE)
        return true;
    snprintf(why, ENGINE_LINE_MAX,
             account->state == ACCOUNT_ASKED ? "looking up the account of user '%s' on this machine"
                                             : "user '%s' has no account on this machine",
             user);
    return false;
}
