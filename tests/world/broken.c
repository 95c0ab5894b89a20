/* broken.c - what the code is known to break today, by the name of the rule or the scripted story. What is
 * mended is taken off; a scripted story on the list that goes well fails the run, so that it is. */
#include "base/str.h"
#include "rules.h"

#include <stdio.h>

static const char *const known_broken[] = {
    NULL,
};

bool rules_known_broken(const char *rule)
{
    for (const char *const *it = known_broken; *it; it++)
        if (streq(*it, rule))
            return true;
    return false;
}

void rules_print_known_broken(void)
{
    if (!known_broken[0])
        return;
    printf("world: KNOWN TO BE BROKEN, and not looked at:");
    for (const char *const *it = known_broken; *it; it++)
        printf(" %s", *it);
    printf("\n");
}
