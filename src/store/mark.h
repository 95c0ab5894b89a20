/* mark - how far a database had come, kept in a small file beside it.
 *
 * SQLite ends its log at the first frame that is damaged, and takes an absent file for a new one: both would
 * lose acknowledged writes without a word. So after each commit the newest revision and the number of other
 * changes are noted here, and a database that has less at the next start is refused. The note is not synced:
 * it survives a killed process, and after a power failure it may be older than the database, never newer.
 *
 * The file is also the lock that keeps a second daemon out. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define MARK_ID_LEN 36 /* a UUID */

struct mark_point {
    char id[MARK_ID_LEN + 1]; /* of the database; "": not known yet */
    int64_t revision;         /* of the newest object */
    int64_t others;           /* commits that changed values or records */
};

struct mark;

/* Opens "PATH-mark" and locks it. *ret_point is what it says; all zero: it is new, or not readable.
 * ERR_CONFLICT: another process has it. */
int mark_open(const char *path, struct mark **ret, struct mark_point *ret_point, struct err *err);
void mark_close(struct mark *mark); /* unlocks; NULL is fine */
DEFINE_CLEANUP(struct mark *, mark_close);
/* Writes; never fails: a mark that cannot be written is older than the truth, which is harmless. */
void mark_set(struct mark *mark, const struct mark_point *point);
/* "PATH-mark" as text, for who moves a database. The caller frees. */
char *mark_path(const char *path);
