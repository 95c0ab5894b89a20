/* auth - who is asking. A unix socket tells the user by its peer's uid, TLS by a client certificate of
 * our CA (CN is the user, each O a group), either form of TCP by a bearer token, and the page by its session.
 * Nobody in particular is system:anonymous.
 *
 * Whatever the way in, the same person has the same groups: those of the credential, those of the user's
 * record (users.h), and those of the account of that name on this machine, in this order; the configuration's
 * admins are admins. Who is disabled is refused, and so is a credential that has ended or was taken back. */
#pragma once

#include "api/call.h"

/* The group whose members read and change nothing, and the groups of admins, are in registry/access.h. */

/* Fills call->who and call->by (strings in the call's arena). 0; -1 with call->failure: 401 for a
 * credential that is none of ours or has ended, 403 for a user who is disabled, 503 where the directory of
 * users does not answer; 1: it is being asked, and the call will be handled from its beginning later. */
int auth_identify(struct call *call);
/* The identity of that user, for an admin who acts for them: replaces call->who. -1 with call->failure: a
 * name that no user can have, or as above; 1: as above. */
int auth_as(struct call *call, const char *user);
/* The account of a name; *ret NULL: there is none. 0, -1 and 1 as above. */
struct os_user;
int auth_account(struct call *call, const char *name, const struct os_user **ret);
/* The identity of a stored entry ("user", "groups"), in the same way. */
int auth_take_entry(struct call *call, const struct json *entry);
/* Hash of a token as kept in the store; text[65]. */
void auth_token_hash(const char *token, char text[65]);
