/* kept - logs of pods that have gone. What pods of one name wrote is one file, FOLDER/NAME.log, as text
 * without times, each pod's once: FOLDER/NAME.runs says which pods are in it, and from where to where, so
 * that a copy that was cut off is begun again and one that is whole is not repeated. engine/packed.h
 * compresses and removes them. For any thread. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Of one name; past it the beginning goes. */
#define KEPT_BYTES_MAX (INT64_C(64) << 20)

struct kept_pod {
    const char *folder, *name;
    const char *uid;
    const char *logs;              /* the pod's: logs/CONTAINER/RUN.log, newest run last */
    const char *const *containers; /* in the order to have them; NULL-terminated */
    int64_t bytes_max;             /* 0: KEPT_BYTES_MAX */
};
/* Adds the newest run of each container. A pod that wrote nothing adds nothing. */
int kept_add(const struct kept_pod *pod, struct err *err);
