/* deliver - sends what comes into users' inboxes to where they want it: a mail address, a webhook (Slack's
 * {"text": …}), a command of their own. What a user set is kept in the store; who set nothing gets what the
 * admin's configuration says. Messages go through notify, so they are durable with the item and tried again
 * until NOTIFY_KEEP_NSEC; one that is given up is told in the inbox.
 *
 * A webhook's address is a secret, as Slack's are: it is stored, but never shown beyond its host. */
#pragma once

#include "notify/inbox.h"
#include "notify/policy.h"

#define DELIVER_TABLE       "notify-settings" /* of store_value: user → document */
#define DELIVER_LANE        "inbox/"          /* lanes of notify begin with it */
#define DELIVER_WAITING_MAX 20                /* messages to one address; what comes then is left out */

/* Borrows all but the strings. */
struct deliver_config {
    struct store *store;
    struct notify *notify;
    struct inbox *inbox;
    const struct policy *policy; /* of addresses that webhooks may have */
    const char *sendmail;        /* NULL: no mail; else a path, which users' settings are held against */
    const char *domain;          /* who set nothing gets mail at USER@domain; NULL: nothing */
    uint32_t kinds;              /* bits 1 << kind: what is sent to who did not choose; 0: DELIVER_KINDS */
    bool commands;               /* users may have commands run */
};
#define DELIVER_KINDS (~(UINT32_C(1) << INBOX_SUCCEEDED) & ~(UINT32_C(1) << INBOX_RESIZED))

struct deliver;

/* Hears of items from now on. */
struct deliver *deliver_new(const struct deliver_config *config);
void deliver_free(struct deliver *deliver); /* before the inbox; NULL is fine */

/* {"mail": "ann@lab"|null, "webhook": "https://hooks.slack.com/…"|null, "command": "…"|null, "kinds":
 * ["failed"…], "off": false, "default": true (nothing was set), "mailAllowed": true, "commandAllowed": false,
 *  "waiting": [{"to": "mail", "messages": 1, "tries": 3, "why": "…"}]}; in the arena. */
struct json *deliver_show(const struct deliver *deliver, const char *user, struct arena *arena);
/* Takes over the members that are there: "mail", "webhook", "command" (null or "": none), "kinds" (null: the
 * default), "off". ERR_INVALID, ERR_FORBIDDEN with a sentence. */
int deliver_set(struct deliver *deliver, const char *user, const struct json *changes, struct err *err);
/* As if nothing had ever been set. */
void deliver_forget(struct deliver *deliver, const char *user);
/* Sends a message to all that is set, whatever the kinds. ERR_NOT_FOUND: nothing is set. */
int deliver_test(struct deliver *deliver, const char *user, int64_t now_ms, struct err *err);
/* What notify has given up. */
void deliver_lost(struct deliver *deliver, const char *lane, const char *why, int64_t now_ms);

/* "failed,preempted" or "all" as bits. ERR_INVALID names the wrong one. */
int deliver_kinds(struct str text, uint32_t *ret, struct err *err);
