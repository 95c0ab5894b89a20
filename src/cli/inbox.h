/* inbox - what happened to the caller's jobs, as the verbs show it. */
#pragma once

#include "cli/cli.h"

/* One line that says how much is new, where stdout is a terminal; nothing when there is nothing, or the
 * daemon keeps no inbox. */
void inbox_hint(struct cli *cli, FILE *out);
/* The newest item about a job (its "id") in the items of an answer; NULL: none. */
const struct json *inbox_about(const struct json *items, const char *job);
