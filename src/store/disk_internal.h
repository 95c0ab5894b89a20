/* What db.c and store.c know of a disk in memory. */
#pragma once

#include "store/disk.h"

#include <sqlite3.h>

struct store_disk {
    sqlite3 *sql;
    int64_t latency_ms;
    unsigned failing;    /* so many commits are refused */
    uint64_t stop_after; /* commits; 0: not set */
    bool stopped;
    uint64_t commits, failures;
};

/* Asked before each transaction: false, with err, where it is to fail. */
bool disk_takes(struct store_disk *disk, struct err *err);
void disk_committed(struct store_disk *disk);
