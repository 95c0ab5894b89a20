/* job_row - rows of batch/v1 Jobs: their end is recorded when their object says so. */
#pragma once

#include "queue/internal.h"

void job_row_load(struct queue *queue);
/* Records the end of those that ended when the daemon did, before it had. */
void job_row_catch_up(struct queue *queue);
/* One of its pods has a card since then; end 0: still. Of what is no Job nothing is kept. */
void job_row_span(struct queue *queue, const char *job, int64_t start_ms, int64_t end_ms);
void job_row_free(struct queue *queue);
void job_row_changed(struct queue *queue, const struct store_event *event);
void job_row_dropped(struct queue *queue, const struct object *job); /* its object is about to go */
/* Which phase a Job's document is in, by its conditions and its pods. */
enum phase job_row_phase(struct queue *queue, const struct object *job);
