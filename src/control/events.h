/* events - Event objects go after a while: an hour after they were last seen, or when a namespace has too
 * many. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

#define EVENTS_AGE_SEC    3600 /* where nothing else is set */
#define EVENTS_PER_NS_MAX 1000
#define EVENTS_MAX        5000 /* of all namespaces */
#define EVENTS_TRIM       100  /* how many go at once when there are more */

struct event_queue;

struct event_queue *event_queue_new(void);
void event_queue_free(struct event_queue *queue);                     /* NULL is fine */
void event_queue_set_age(struct event_queue *queue, int64_t age_sec); /* 0: none is too old */

/* When an event was last seen. */
int64_t event_time(const struct json *doc);
void event_queue_put(struct event_queue *queue, const struct object *event, int64_t seen_at);
void event_queue_remove(struct event_queue *queue, const char *uid);
/* Deletes what is too old. Returns when to look again; 0: nothing is there. */
int64_t event_queue_look(struct event_queue *queue, int64_t now, struct effects *effects);
/* Deletes the oldest of a namespace that has too many. */
void event_queue_trim(struct event_queue *queue, const char *ns, struct effects *effects);
/* The same of all; true: there were too many. */
bool event_queue_trim_all(struct event_queue *queue, struct effects *effects);
size_t event_queue_len(const struct event_queue *queue);
