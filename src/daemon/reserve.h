/* reserve - room on the disk for a start. A full disk would refuse the first commit, and with it the start,
 * until the service manager gives up; then nobody could even look at what to delete. So a file of
 * RESERVE_BYTES is kept in the data folder, which a start gives up where it needs the room, and which is made
 * again when there is enough. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>

#define RESERVE_BYTES (8 << 20)
#define RESERVE_NEED  (1 << 20) /* what a start must find */
#define RESERVE_TIMES 4         /* as much has to be free for the file to be made */

struct loop;
struct reserve;

/* Before the data folder is opened: gives the file up where less than RESERVE_NEED is free. False: that is
 * not enough; text has a sentence. */
bool reserve_room(const char *data_dir, char text[ERR_MSG_MAX]);

/* Keeps the file from now on, as far as there is room. */
struct reserve *reserve_new(struct loop *loop, const char *data_dir);
void reserve_free(struct reserve *reserve); /* NULL is fine; the file stays */
DEFINE_CLEANUP(struct reserve *, reserve_free);
