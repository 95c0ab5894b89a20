/* page - what a browser gets: the page's files, and signing in.
 *
 * A sign-in link carries a one-time code behind '#', where no log and no proxy sees it; the page hands the
 * code in and gets a session: a random cookie (HttpOnly, SameSite=Strict), kept as its hash. A session counts
 * for /v1 and the page, not for the Kubernetes API. Whatever changes something must come from the page
 * itself: requests that a browser says are another site's are refused for every kind of identity, and those
 * of a session also need the X-Berth-CSRF header. */
#pragma once

#include "api/call.h"

#define PAGE_CODE_TTL_SEC    (15 * 60)
#define PAGE_SESSION_TTL_SEC (14 * 86400)
#define PAGE_CODES_EACH      10    /* links of one user that are not used yet: a new one ends the oldest */
#define PAGE_CODES_MAX       10000 /* of all; 429 beyond */
#define PAGE_SESSIONS_EACH   50    /* browsers of one user that are signed in: a new one ends the oldest */
#define PAGE_SESSIONS_MAX    10000 /* of all; 429 beyond */

/* GET / and the files below it; true when the path is one of them. */
bool page_handle(struct call *call);
/* Takes the configured prefix off the path. False: answered with a redirect from /PREFIX to /PREFIX/. */
bool page_strip_prefix(struct call *call);

/* False after answering 403: another site's doing, or a session without its CSRF header. */
bool page_guard(struct call *call);
/* Whether somebody without a name may see the queue here. */
bool page_anonymous_may(const struct call *call);

/* What is kept of the request's session, and under which key; in its arena. NULL: it has none, or it has
 * ended. */
struct json *page_session_entry(struct call *call, char key[65]);

/* Of the table in rest.c. */
void page_links_add(struct call *call, const char *id);
void page_session_get(struct call *call, const char *id);
void page_session_add(struct call *call, const char *id);
void page_session_end(struct call *call, const char *id);
void page_train_options(struct call *call, const char *id); /* options.c */
