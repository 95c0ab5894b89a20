/* The disk is an SQLite database in memory; db.c writes it as it writes a file, only without its thread. */
#include "base/mem.h"
#include "store/dbfile.h"
#include "store/disk_internal.h"

#include <stdio.h>

struct store_disk *store_disk_new(void)
{
    struct store_disk *disk = NEW(struct store_disk);
    struct err err = {0};

    if (dbfile_open(":memory:", &disk->sql, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    return disk;
}

void store_disk_free(struct store_disk *disk)
{
    if (!disk)
        return;
    dbfile_close(disk->sql);
    free(disk);
}

void store_disk_set_latency(struct store_disk *disk, int64_t latency_ms)
{
    disk->latency_ms = latency_ms;
}

void store_disk_fail(struct store_disk *disk, unsigned commits)
{
    disk->failing = commits;
}

void store_disk_stop_after(struct store_disk *disk, uint64_t commits)
{
    disk->stop_after = commits;
    disk->stopped = commits == 0;
}

bool store_disk_stopped(const struct store_disk *disk)
{
    return disk->stopped;
}

uint64_t store_disk_commits(const struct store_disk *disk)
{
    return disk->commits;
}

uint64_t store_disk_failures(const struct store_disk *disk)
{
    return disk->failures;
}

bool disk_takes(struct store_disk *disk, struct err *err)
{
    if (disk->failing == 0)
        return true;
    disk->failing--;
    disk->failures++;
    err_set(err, ERR_LIMIT, "commit: database or disk is full");
    return false;
}

void disk_committed(struct store_disk *disk)
{
    disk->commits++;
    if (disk->stop_after > 0 && --disk->stop_after == 0)
        disk->stopped = true;
}
