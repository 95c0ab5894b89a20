/* dbtidy - what leaves the file: records that are too old or too many, then the pages that are free. In small
 * steps, each a transaction of its own that need not be synced, so that commits come between them. A crash
 * between two, or one that undoes the last of them, leaves more, never less, than is to be kept. */
#pragma once

#include "base/err.h"
#include "store/store.h"

#include <sqlite3.h>

/* Zero-initialised with its limits is the beginning. */
struct dbtidy {
    struct store_limits limits;
    int stage;    /* where it is */
    int type;     /* of records, in the first stage */
    int64_t seq;  /* up to here records were looked at */
    int64_t gone; /* records */
};

/* 1: there is more to do. 0: that was all. */
int dbtidy_step(sqlite3 *sql, struct dbtidy *tidy, struct err *err);
