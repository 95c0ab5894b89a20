/* records - reading the record log (store.h) over one connection.
 *
 * A query runs in pieces: each is a statement of its own, which takes up where the last record was. Between
 * them nothing is held, so that the log of changes can be put into the file however long a read goes on. A
 * record that is there all the time is told once; one that comes or goes meanwhile is told or not. */
#pragma once

#include "store/store.h"

#include <sqlite3.h>
#include <stdatomic.h>

#define RECORDS_PIECE 1000 /* rows of one statement */

struct record_source {
    sqlite3 *sql;
    const atomic_bool *stop; /* NULL: it is never stopped */
};

/* From now on statements on this connection end when the source is stopped. */
void record_source_init(struct record_source *source, sqlite3 *sql, const atomic_bool *stop);
