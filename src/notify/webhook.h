/* webhook - a handler of notify: POSTs JSON over HTTP and HTTPS. 2xx is delivered, 410 is given up,
 * everything else is tried again. Certificates are verified; redirects are not followed (a 3xx is a failure),
 * proxies of the environment are not used, and only addresses that the policy allows are connected to.
 *
 * Payload: {"url": "https://…", "headers": {"x-api-key": "…"}, "body": {…}, "key": "…"}. */
#pragma once

#include "notify/notify.h"
#include "notify/policy.h"

#define WEBHOOK_URL_MAX         2048
#define WEBHOOK_HEADERS_MAX     32
#define WEBHOOK_HEADER_MAX      8192      /* bytes of one value */
#define WEBHOOK_ANSWER_MAX      (1 << 20) /* bytes read of an answer; they are not kept */
#define WEBHOOK_CONNECT_TIMEOUT 5         /* seconds, also for looking up a name */
#define WEBHOOK_ADDRESSES_MAX   16        /* of a name that are tried */
#define WEBHOOK_TIMEOUT         15        /* seconds for all of it */

struct webhook;

/* policy is borrowed. ca_path: PEM file instead of the system's authorities; NULL: the system's. */
struct webhook *webhook_new(struct loop *loop, const struct policy *policy, const char *ca_path);
void webhook_free(struct webhook *webhook); /* after notify_free; NULL is fine */
const struct notify_handler *webhook_handler(const struct webhook *webhook);

/* Whether these could be sent. ERR_INVALID or ERR_FORBIDDEN with a sentence that holds no header value. */
int webhook_check(const struct policy *policy, const struct json *url, const struct json *headers,
                  struct err *err);
/* "https://hooks.example:8443": what shares limits; in arena. */
char *webhook_host(const char *url, struct arena *arena);
/* The URL without user, password and query, to be shown; in arena. */
char *webhook_shown(const char *url, struct arena *arena);
