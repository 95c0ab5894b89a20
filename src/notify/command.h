/* command - a handler of notify: runs a user's own command (`/bin/sh -c`), as that user, with the item as
 * JSON on stdin and its members in the environment (BERTH_KIND, BERTH_JOB, BERTH_NAME, BERTH_NAMESPACE,
 * BERTH_TEXT, BERTH_BY, BERTH_BY_JOB, BERTH_TIME). Limits are program.h's. Exit status 0 is delivered,
 * everything else is tried again; a user without an account is given up.
 *
 * Payload: {"user": "ann", "command": "…", "item": {…}}. */
#pragma once

#include "notify/notify.h"

#define COMMAND_MAX 1000 /* bytes of one */

struct command;

struct command *command_new(struct loop *loop);
void command_free(struct command *command); /* after notify_free; NULL is fine */
const struct notify_handler *command_handler(const struct command *command);
