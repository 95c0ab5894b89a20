/* past - reads of the record log, in the store's reading threads.
 *
 * What a thread works on (struct past and what its fn makes of it) is its own: all that it needs of the queue
 * is copied into its arena before it starts. */
#pragma once

#include "queue/internal.h"

/* Who asks, as far as "mine" goes. */
struct viewer {
    const char *user; /* NULL: Berth itself */
    bool admin;
};
struct viewer viewer_copy(struct arena *arena, const struct identity *who);
bool viewer_owns(const struct viewer *viewer, const char *user, const char *ns);

struct queue_past {
    struct arena arena;
    struct viewer viewer;
    int (*fn)(struct queue_past *past, struct record_source *source, struct err *err);
    void *work; /* of fn, in the arena */
    struct queue_answer answer;
    queue_past_done done;
    void *arg;
    struct store_read *read;
};

struct queue_past *past_new(const struct identity *who,
                            int (*fn)(struct queue_past *past, struct record_source *source,
                                      struct err *err));
void past_free(void *past); /* one that was not started */
/* Takes past over, also where it fails. */
int past_start(struct queue *queue, struct queue_past *past, const struct queue_reader *reader,
               struct queue_past **ret, struct err *err);
/* A finished job: its last row, with "mine", in the arena of past. */
struct past_search {
    const char *uid, *name, *ns; /* the first one that is set and found counts; ns NULL: any */
    const char *found;           /* its uid; NULL: there is none */
    struct json *row;
};
void past_search_of(const char *id, struct arena *arena, struct past_search *ret);
int past_find(struct queue_past *past, struct record_source *source, struct past_search *search,
              struct err *err);
