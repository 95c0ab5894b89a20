/* identity - who asks: a name, groups, and what that allows. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#define IDENTITY_GROUPS_MAX 288 /* those of an account, a user and a credential together */

struct os_user;

struct identity {
    const char *user; /* "alice", "system:admin", "system:anonymous" */
    const char *groups[IDENTITY_GROUPS_MAX];
    unsigned group_count;
    unsigned own_groups; /* the first ones: of the credential, not of the user's record or account */
    bool has_uid;        /* the operating system's user, where one is known */
    uid_t uid;
    gid_t gid;
    const struct os_user *account; /* api/directory.h; NULL: none, or it was not needed */
};

/* With whose rights something is run again: its owner's where an admin asks, so that it gets none that it did
 * not have, else the asker's. owner: work_rights of it; NULL (nobody's): NULL. Returns who, or room. */
const struct identity *identity_again(const struct identity *who, const char *owner, struct identity *room);
bool identity_in_group(const struct identity *who, const char *group);
