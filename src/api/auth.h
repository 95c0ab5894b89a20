/* auth - who is asking. A unix socket tells the user by its peer's uid, TLS by a client certificate of
 * our CA (CN is the user, each O a group), and either form of TCP by a bearer token. Tokens are kept as
 * hashes. Nobody in particular is system:anonymous. */
#pragma once

#include "api/call.h"

#define TOKENS_TABLE                                                                                         \
    "tokens" /* sha256 hex of the token → {"id","user","groups","expires","description","created"} */

/* Fills who (strings in arena). -1 with failure 401: a token that is none of ours, or has ended. */
int auth_identify(struct api *api, const struct http_req *req, struct arena *arena, int64_t now,
                  struct identity *who, struct failure *failure);
/* Of a stored entry ("user", "groups"), which must outlive who. */
void auth_take_entry(const struct api *api, const struct json *entry, struct identity *who);
/* The identity of that user of this system, for an admin who acts for them. -1: no name a user can have. */
int auth_as(struct api *api, const char *user, struct identity *who);
/* Hash of a token as kept in the store; text[65]. */
void auth_token_hash(const char *token, char text[65]);
