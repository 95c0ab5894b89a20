/* reader - the threads that read records for store_read, each over a connection of its own.
 *
 * They are started when something is to be read and end after a while without. A store without a file has one
 * connection: its reads are done in the caller's thread. */
#pragma once

#include "store/db.h"
#include "store/store.h"

struct reader;

struct reader *reader_new(struct loop *loop, struct db *db); /* db: borrowed */
/* Ends what is being read, and drops what waits; no callback comes any more. NULL is fine. */
void reader_free(struct reader *reader);

/* As store_read. */
int reader_start(struct reader *reader, const char *person, store_read_fn fn, store_read_done done,
                 void (*drop)(void *work), void *owner, void *work, struct store_read **ret, struct err *err);
