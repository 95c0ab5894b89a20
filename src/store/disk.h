/* disk - for tests: a store without a file and without a thread, on a disk in memory that outlives it.
 *
 * The store behaves as on a file: the same SQL, the same batches, answers and watches after the commit. But
 * commits happen in the loop's own thread, at the end of a turn or `latency_ms` of the loop's time later, so
 * that the same calls give the same history every time. A store can be killed between any two commits and
 * opened again from what had been committed; commits can be made to fail. */
#pragma once

#include "base/cleanup.h"
#include "store/store.h"

struct store_disk;

struct store_disk *store_disk_new(void);
void store_disk_free(struct store_disk *disk); /* after the store on it; NULL is fine */
DEFINE_CLEANUP(struct store_disk *, store_disk_free);

int store_open_disk(struct store_disk *disk, struct loop *loop, struct store **ret, struct err *err);
/* As if the process were killed: what is not committed is lost. Who waits for an answer gets an error, so as
 * to free what it holds, and what it then writes is lost as well. */
void store_kill(struct store *store);

/* From the end of a turn to its commit; 0: at once. */
void store_disk_set_latency(struct store_disk *disk, int64_t latency_ms);
/* The next so many commits fail, as on a full disk. */
void store_disk_fail(struct store_disk *disk, unsigned commits);
/* After so many more commits nothing is written any more and no commit comes back, until the store is killed
 * and opened again; 0: from now on. */
void store_disk_stop_after(struct store_disk *disk, uint64_t commits);
bool store_disk_stopped(const struct store_disk *disk);
uint64_t store_disk_commits(const struct store_disk *disk);
uint64_t store_disk_failures(const struct store_disk *disk); /* commits that were made to fail */
