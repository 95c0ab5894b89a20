/* directory - users of the operating system, as its directory service knows them, asked in threads: a
 * directory may take its time, or hang. An answer counts for a minute; after that it is asked for again while
 * the old one still serves, and after ten minutes only where the directory does not answer. A directory that
 * fails never makes somebody another person: without any answer there is an error. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DIRECTORY_MAX         4096        /* kept */
#define DIRECTORY_WAIT_SEC    5           /* that a request waits for the directory */
#define DIRECTORY_GROUPS_MAX  256         /* of one user */
#define DIRECTORY_ENTRY_MAX   (1 << 20)   /* bytes of one entry of passwd or group */
#define DIRECTORY_FRESH_SEC   60          /* an answer is taken as it is */
#define DIRECTORY_MISSING_SEC 15          /* so is that there is no such user */
#define DIRECTORY_STALE_SEC   600         /* an answer serves while it is asked for again */
#define DIRECTORY_KEEP_SEC    (24 * 3600) /* an answer serves while the directory fails */

struct loop;
struct directory;

struct os_user {
    bool found;
    uid_t uid;
    gid_t gid;
    const char *name, *home;
    const gid_t *gids; /* all groups, the first one included */
    size_t gid_count;
    const char *const *groups; /* the names of those that have one */
    size_t group_count;
};

/* In a thread: fills *ret (strings in arena). -1: the directory did not answer. */
typedef int (*directory_lookup_fn)(const char *name, uid_t uid, struct arena *arena, struct os_user *ret,
                                   struct err *err); /* name NULL: by uid */

/* lookup NULL: the system's. */
struct directory *directory_new(struct loop *loop, directory_lookup_fn lookup);
void directory_free(struct directory *directory); /* who waits is not told; NULL is fine */

/* By name, or by uid where name is NULL. 0: *ret is the answer, copied into arena. 1: it is being asked for;
 * fn(arg) comes once, and the question is to be put again then. -1, ERR_UNAVAILABLE: there is no answer. */
int directory_find(struct directory *directory, const char *name, uid_t uid, struct arena *arena,
                   const struct os_user **ret, void (*fn)(void *arg), void *arg, struct err *err);
