/* traffic - how many requests there were, of which route, how they were answered and how soon: for /metrics.
 *
 * A route is a row of the access table, or a kind of object and what is asked of it, never a path: there are
 * as many as the tables have. A request costs a few additions; a route takes memory when it is first used. */
#pragma once

#include "base/cleanup.h"
#include "base/metrics.h"
#include "objects/kind.h"

struct access_path; /* registry/access_table.h */
struct traffic;

/* Zero-initialised: a path that nobody serves. */
struct traffic_route {
    const struct access_path *row; /* NULL: an object, or nothing known */
    const struct kind *kind;       /* NULL: no object */
    bool watch, one, sub;          /* of an object: a watch; one of them; something below it */
};

struct traffic *traffic_new(void);
void traffic_free(struct traffic *traffic); /* NULL is fine */
DEFINE_CLEANUP(struct traffic *, traffic_free);

/* The status of the answer is known. method: any text. */
void traffic_answered(struct traffic *traffic, const struct traffic_route *route, const char *method,
                      int status, int64_t took_ns);
/* The server has refused a request before anybody looked at what it asks (it is no HTTP, or too large). */
void traffic_refused(struct traffic *traffic, int status);
void traffic_metrics(const struct traffic *traffic, struct metrics *metrics);
