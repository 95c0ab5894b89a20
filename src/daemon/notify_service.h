/* notify_service - what this daemon tells people and the outside: the inboxes, and the queue of messages with
 * its ways out (webhooks, mail, commands) as the configuration allows them. */
#pragma once

#include "base/err.h"
#include "daemon/config.h"

struct deliver;
struct inbox;
struct loop;
struct notify;
struct notify_service;
struct policy;
struct store;

/* Takes up messages that are left. */
int notify_service_new(struct loop *loop, struct store *store, const struct daemon_config *config,
                       struct notify_service **ret, struct err *err);
struct inbox *notify_service_inbox(const struct notify_service *service);
struct deliver *notify_service_deliver(const struct notify_service *service);
struct notify *notify_service_queue(const struct notify_service *service);
const struct policy *notify_service_policy(const struct notify_service *service);
/* Who hears of messages that were given up, beside their owners' inboxes; fn NULL: nobody. */
void notify_service_on_lost(struct notify_service *service,
                            void (*fn)(void *arg, const char *lane, const char *why), void *arg);
void notify_service_stop(struct notify_service *service); /* before the store goes; NULL is fine */
void notify_service_free(struct notify_service *service); /* after the store was closed; NULL is fine */
