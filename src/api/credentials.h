/* credentials - what people show beside their uid: tokens, client certificates, and the links and sessions of
 * the page. Each has an entry in the store, under the hash of its secret or its serial number:
 *
 *     {"id","user","groups","created","expires","parent","description"}      and of certificates
 *     {…,"family","until"}
 *
 * `parent` is the credential that asked for it. What a credential makes ends with it at the latest, and is
 * taken back with it, over any number of steps. A certificate that is renewed stays of one family: all of it
 * is taken back together, and no renewal goes past `until`, which is the end of what made the first one.
 * What was made on the unix socket has no parent: it hangs on the user alone. */
#pragma once

#include "api/call.h"

#define TOKENS_TABLE       "tokens"       /* by sha256 of the token, hex */
#define CERTIFICATES_TABLE "certificates" /* by serial number, hex */
#define SESSIONS_TABLE     "sessions"     /* by sha256 of the cookie */
#define SIGNIN_CODES_TABLE "signin_codes" /* by sha256 of the code */

/* Under the name of CERTIFICATES_TABLE: since when all certificates are kept there. */
#define CERTIFICATES_SINCE_TABLE "kept_since"

#define CREDENTIAL_TEXT_MAX      256 /* bytes of a token's description */
#define CREDENTIAL_GROUPS_MAX    32
#define CREDENTIAL_GROUP_MAX     64  /* bytes of a group's name */
#define CERTIFICATES_EACH        100 /* valid ones of one user; 429 beyond */

/* Fills the members that all have: id (random where it has none yet), user, created, expires (ttl seconds,
 * or as long as what the caller came with lasts), parent. */
void credential_fill(struct call *call, struct json *entry, const char *user, int64_t ttl_sec);
void credential_keep(struct call *call, const char *table, const char *key, const struct json *entry);
/* The entry, where it is there and has not ended; NULL otherwise. In arena. */
struct json *credential_entry(struct store *store, const char *table, const char *key, struct arena *arena,
                              int64_t now);

/* Valid ones of a user in a table. Those that have ended are removed on the way. */
size_t credentials_count(struct call *call, const char *table, const char *user);
/* Calls fn for each valid one of a table. */
void credentials_each(struct call *call, const char *table, void (*fn)(void *arg, struct json *entry),
                      void *arg);

/* Takes back the credential of that id, its family, and all that they made. 0: there is none of that id in
 * table that `user` may take back (NULL: anybody's). Else how many went. */
size_t credentials_revoke(struct call *call, const char *table, const char *id, const char *user);
/* All of a user, and what they made. */
size_t credentials_end_user(struct call *call, const char *user);
