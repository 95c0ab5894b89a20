/* users - what Berth knows of a person beside their credentials: the groups (and so the role) that they have
 * whatever the way they come in, and whether they are disabled. `berth user add` makes the record. Who has
 * none (an account of this machine that was never added) is a user like others, without groups of ours. */
#pragma once

#include "api/call.h"

#define USERS_TABLE "users" /* name → {"name","groups","disabled","created","removed","certificatesFrom"} */
#define USERS_MAX   10000

/* NULL: none, or it was removed. In arena. */
struct json *user_record(struct store *store, const char *name, struct arena *arena);
bool user_is_disabled(const struct json *record); /* NULL is fine */
/* Certificates of before this time (nanoseconds) that have no entry do not count; 0: all do. */
int64_t user_certificates_from(struct store *store, const char *name, struct arena *arena);

/* Makes the user's namespace with the default quota and limits, as far as they are missing. */
int user_provision(struct call *call, const char *name);
