/* events - Event objects go after a while: an hour after they were last seen, or when a namespace has too
 * many. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

#define EVENTS_AGE_SEC     3600
#define EVENTS_PER_NS_MAX  5000
#define EVENTS_PER_NS_TRIM 100 /* how many go at once when there are more */

struct event_queue;

struct event_queue *event_queue_new(void);
void event_queue_free(struct event_queue *queue); /* NULL is fine */

/* When an event was last seen. */
int64_t event_time(const struct json *doc);
void event_queue_put(struct event_queue *queue, const struct object *event, int64_t seen_at);
void event_queue_remove(struct event_queue *queue, const char *uid);
/* Deletes what is too old. Returns when to look again; 0: nothing is there. */
int64_t event_queue_look(struct event_queue *queue, int64_t now, struct effects *effects);
/* Deletes the oldest of a namespace that has too many. */
void event_queue_trim(struct event_queue *queue, const char *ns, struct effects *effects);
