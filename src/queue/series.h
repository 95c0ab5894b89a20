/* series - all that is known of one job: what memory has, taken on the loop, and what the record log has,
 * read in a thread. */
#pragma once

#include "queue/internal.h"

struct show {
    bool past;    /* its row is its record's, where there is one */
    bool private; /* metrics are shown */
};

/* id: uid, or (of a job that is not in memory) what it is called. row: as it is in memory; NULL: it is not.
 * rest: the other members. All of them are copied. */
int show_start(struct queue *queue, const struct identity *who, const char *id, const struct show *show,
               const struct json *row, const struct json *rest, const struct queue_reader *reader,
               struct queue_past **ret, struct err *err);
