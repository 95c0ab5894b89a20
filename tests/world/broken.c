/* broken.c - what the code is known to break today, by the name of the rule or the scripted story. What is
 * mended is taken off; a scripted story on the list that goes well fails the run, so that it is. */
#include "base/str.h"
#include "rules.h"

#include <stdio.h>

static const char *const known_broken[] = {
    "restarted",
    "1-displaced",
    "1-held",
    "1-says",
    "2-instant",
    "2-order",
    "2-shrink",
    "3-bare",
    "3-first",
    "3-names",
    "4-grow",
    "4-idle",
    "4-shrink",
    "5-large",
    "6-ends",
    "6-told",
    "7-same",
    "7-shown",
    "8-slides",
    "8-ends",
    "a job over its quota displaces nobody",
    "jobs whose pods cannot be made leave the cards to others",
    "a pod whose image is mistyped is not running, and gives its card back",
    "a pod that pulls is starting",
    "a Job whose pods a quota refuses says so",
    "bare pods go by a claim alone",
    "the owner of a pod that is claimed has a notice first",
    "a job of one epoch ends once",
    "what is cancelled is stopping, then cancelled",
    "a job stopped in its first epoch begins anew",
    "an elastic job gives one card for a one-GPU job",
    "a large job starts although small ones keep coming",
    "ends stand still, for the queue and for kubectl",
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
