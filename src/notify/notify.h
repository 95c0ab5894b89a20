/* notify - what Berth tells the world outside: one queue, kept in the store until each message is delivered,
 * with retries. How a message travels is a handler's (webhook.h is the first); the queue knows when and in
 * which order.
 *
 * Messages of one lane are delivered one after another, in the order they were pushed: a receiver sees a
 * growing sequence. Lanes of one host share NOTIFY_HOST_MAX deliveries at a time and hosts take turns, so
 * that a slow host delays no other. A message that fails is tried again after a while that doubles, with
 * jitter, until it is NOTIFY_KEEP_NSEC old. After a restart all that is left is tried again: receivers get
 * every message at least once, with the same idempotency key each time.
 *
 * The payload may hold secrets: it is in the store and with the handler, in no log and no answer. */
#pragma once

#include "base/clock.h"
#include "base/json.h"
#include "store/store.h"

#define NOTIFY_TABLE      "notify" /* of store_value */
#define NOTIFY_KEEP_NSEC  (24 * 3600 * NSEC_PER_SEC)
#define NOTIFY_TRIES_MIN  8 /* that a message gets however old the clock says it is: clocks jump */
#define NOTIFY_FIRST_NSEC (1 * NSEC_PER_SEC) /* before the second try; doubled with each */
#define NOTIFY_MAX_NSEC   (600 * NSEC_PER_SEC)
#define NOTIFY_HOST_MAX   2      /* deliveries at a time to one host */
#define NOTIFY_ACTIVE_MAX 128    /* deliveries at a time in all */
#define NOTIFY_QUEUE_MAX  100000 /* messages waiting; further ones are refused */
#define NOTIFY_LANE_MAX   1000   /* messages waiting in one lane */
#define NOTIFY_WHY_MAX    200

struct notify;
struct notify_delivery;

struct notify_config {
    struct loop *loop;
    struct store *store;
    int64_t first_nsec, max_nsec, keep_nsec; /* 0: the constants above */
    int64_t (*now)(void *arg);               /* by which messages grow old; NULL: the wall clock */
    /* A message has been given up; lane is that of notify_push. May be NULL. */
    void (*lost)(void *arg, const char *lane, const char *why);
    void *arg;
};

struct notify *notify_new(const struct notify_config *config);
/* Ends deliveries under way and begins no more: before the store is closed. */
void notify_stop(struct notify *notify);
void notify_free(
    struct notify *notify); /* after the store was closed; what waits stays in it. NULL is fine */

enum notify_result { NOTIFY_DELIVERED, NOTIFY_RETRY, NOTIFY_NEVER };
struct notify_handler {
    const char *name; /* "webhook" */
    void *arg;
    /* Begins a delivery; payload is in the delivery's arena and lives until it is finished. Ends by one call
     * of notify_finished, from the loop, never from inside start. */
    void (*start)(void *arg, struct notify_delivery *delivery, const struct json *payload);
    void (*cancel)(void *arg, struct notify_delivery *delivery); /* no notify_finished after it */
};
void notify_add_handler(struct notify *notify, const struct notify_handler *handler); /* borrowed */
/* Takes up what the store has; after all handlers were added. */
void notify_start(struct notify *notify);

/* why: a sentence without secrets. after_sec: at the earliest then (0: as the queue likes). */
void notify_finished(struct notify_delivery *delivery, enum notify_result result, const char *why,
                     int64_t after_sec);

struct notify_message {
    const char *handler;
    const char *lane;           /* what keeps its order: "TASK-UID/0" */
    const char *host;           /* what shares limits: "https://hooks.example:443" */
    const struct json *payload; /* the handler's own; copied */
};
/* Durable with what is written in the same turn. ERR_LIMIT: the queue or the lane is full. */
int notify_push(struct notify *notify, const struct notify_message *message, struct err *err);

struct notify_lane_state {
    size_t waiting;    /* messages not delivered yet */
    unsigned tries;    /* of the first of them */
    const char *why;   /* why the last try failed; "" when none did. Borrowed */
    int64_t next_nsec; /* until the next try; 0: at once or under way */
};
void notify_lane(const struct notify *notify, const char *lane, struct notify_lane_state *ret);
