/* dbfile - opening the SQLite file: who may, which version it has, how it is tuned. */
#pragma once

#include "base/err.h"

#include <sqlite3.h>

/* Errors as db_open. */
int dbfile_open(const char *path, sqlite3 **ret, struct err *err);
void dbfile_close(sqlite3 *sql); /* NULL is fine */
/* Is it a sound file of Berth's, of a version that is known? Older ones than STORE_SCHEMA_VERSION are
 * refused, too: what checks does not migrate. */
int dbfile_check(sqlite3 *sql, struct err *err);
/* "what: SQLite's sentence" with a code to act on; -1. */
int dbfile_error(sqlite3 *sql, struct err *err, const char *what);
