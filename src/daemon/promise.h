/* promise - what an earlier start of the same data folder has promised, looked at before anything is done:
 * a database, an authority or running containers that went missing stop the start with a sentence, instead of
 * being made anew without a word. --accept-loss goes on; each loss is logged then. */
#pragma once

#include "base/err.h"
#include "daemon/config.h"

struct store;

/* With --accept-loss: containers that the database does not know are left running, by this start and later
 * ones. */
void promise_accept(const struct daemon_config *config);
/* Before the store is opened. ERR_INVALID: the folder was in use, and its database is gone. */
int promise_check_folder(const struct daemon_config *config, struct err *err);
/* Before the node agent starts. ERR_INVALID: containers run here that this database has never heard of. */
int promise_check_running(const struct daemon_config *config, const struct store *store, struct err *err);
/* Before the authority is opened (and made where it is missing). ERR_INVALID: it is not the one that all
 * users' certificates are from. */
int promise_check_authority(const struct daemon_config *config, const struct store *store, struct err *err);
/* Whose containers these are, said again where somebody has removed that. */
void promise_keep_running(const struct daemon_config *config, const struct store *store);
/* All is well: from here on this is what was promised. */
void promise_keep(const struct daemon_config *config, struct store *store);
