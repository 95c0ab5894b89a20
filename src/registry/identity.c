#include "registry/identity.h"

#include "base/str.h"

bool identity_in_group(const struct identity *who, const char *group)
{
    for (unsigned i = 0; i < who->group_count; i++)
        if (streq(who->groups[i], group))
            return true;
    return false;
}
