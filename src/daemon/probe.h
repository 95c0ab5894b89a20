/* probe - what has to be asked of the machine in calls that may hang: how much room there is for the data
 * folder, how large the database is, how many descriptors are open. A thread asks every PROBE_SEC; whoever
 * wants to know reads what it found last. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

#define PROBE_SEC 15

struct loop;
struct probe;

struct probe_facts {
    int64_t at;                            /* monotonic; 0: nothing was found yet */
    int64_t disk_bytes, disk_free;         /* of the data folder's file system; -1: not known */
    int64_t files, files_free;             /* inodes; 0: it does not count them */
    int64_t database_bytes, journal_bytes; /* -1: not known */
    int64_t descriptors;                   /* open ones of this process; -1: not known */
};

struct probe *probe_new(struct loop *loop, const char *data_dir); /* data_dir: copied */
void probe_free(struct probe *probe);                             /* NULL is fine */
DEFINE_CLEANUP(struct probe *, probe_free);
const struct probe_facts *probe_facts(const struct probe *probe); /* borrowed */
/* How long the last answer has been waited for, in seconds, when that is too long; 0: it is not. */
int64_t probe_late(const struct probe *probe);
