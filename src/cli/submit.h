/* submit - what berth submit consists of. */
#pragma once

#include "cli/cli.h"

/* Whether a Job is over; how: the condition that says so. */
bool job_is_finished(const struct json *job, const struct json **how);

/* Shows what happens to a Job until it ends; Ctrl-C leaves it alone. The exit status: 0 when it completed,
 * that of its container when it failed. */
int submit_follow(struct cli *cli, const char *ns, const char *name);
