/* follow - stays with a job: says why it waits, prints its log, until it is over. */
#pragma once

#include "cli/cli.h"

/* Ctrl-C detaches: the job goes on, and what to type is said. Returns CLI_OK when it succeeded, CLI_FAILED
 * when not. `quiet`: only the log. */
int follow_job(struct cli *cli, const char *id, const char *name, bool quiet);
/* The log of a job, once or (follow) until it is over. */
int print_job_log(struct cli *cli, const char *id, bool follow, const char *tail);
