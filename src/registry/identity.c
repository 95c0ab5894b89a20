#include "registry/identity.h"

#include "base/str.h"
#include "objects/names.h"

const struct identity *identity_again(const struct identity *who, const char *owner, struct identity *room)
{
    bool masters = identity_in_group(who, "system:masters");

    if (!owner || streq(owner, who->user) || (masters && streq(owner, ADMIN_USER)))
        return owner ? who : NULL;
    if (!masters && !identity_in_group(who, "berth:admins"))
        return who;
    *room = (struct identity){.user = owner,
                              .groups = {"system:authenticated", "system:masters"},
                              .group_count = streq(owner, ADMIN_USER) ? 2 : 1};
    return room;
}

bool identity_in_group(const struct identity *who, const char *group)
{
    for (unsigned i = 0; i < who->group_count; i++)
        if (streq(who->groups[i], group))
            return true;
    return false;
}
