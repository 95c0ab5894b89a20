/* target - which pod somebody means who says a name to logs, exec, attach, cp or port-forward. */
#pragma once

#include "base/buf.h"
#include "cli/cli.h"

#define TARGET_WORDS "[NS/]NAME"
#define TARGET_HELP                                                                                          \
    "NAME is a pod, or a job, training job or task, whose pod is meant then. pod/NAME, job/NAME,\n"          \
    "trainingjob/NAME or task/ID says which; NS/ before it says in which namespace, as -n does."

struct target {
    const char *ns, *pod;
    const char *phase;      /* of the pod; NULL: not known */
    const char *row, *task; /* ids; with `whole` one of these may be there instead of the pod */
};

/* A pod that there is, or (whole) what has one log over all its pods. The daemon has been asked then. Returns
 * CLI_OK, or another exit code after saying why. */
int target_find(struct cli *cli, const struct args *args, const char *word, bool whole, struct target *ret);
/* A pod that has not ended: something is to happen in it. */
int target_find_live(struct cli *cli, const struct args *args, const char *word, struct target *ret);

/* "/api/v1/namespaces/NS/pods/POD/SUB?" to add parameters to. */
void target_path(struct buf *out, const char *ns, const char *pod, const char *sub);
void target_param(struct buf *out, const char *name, const char *value);
