/* dbfile - opening the SQLite file: who may, which version it has, how it is tuned. */
#pragma once

#include "base/err.h"

#include <sqlite3.h>

#define DBFILE_BUSY_MS 10000 /* somebody else looks into the file, or copies it */

/* Members of a finished job's record, as its index has them: NULL where the document is damaged. */
#define RECORD_NAME_SQL      "CASE WHEN json_valid(doc) THEN doc ->> '$.name' END"
#define RECORD_NAMESPACE_SQL "CASE WHEN json_valid(doc) THEN doc ->> '$.namespace' END"

/* Errors as db_open. */
int dbfile_open(const char *path, sqlite3 **ret, struct err *err);
/* A second connection, for reading alone; in the thread that will use it. */
int dbfile_open_reader(const char *path, sqlite3 **ret, struct err *err);
void dbfile_close(sqlite3 *sql); /* NULL is fine */
/* Is it a sound file of Berth's, of a version that is known? Older ones than STORE_SCHEMA_VERSION are
 * refused, too: what checks does not migrate. */
int dbfile_check(sqlite3 *sql, struct err *err);
/* "what: SQLite's sentence" with a code to act on; -1. */
int dbfile_error(sqlite3 *sql, struct err *err, const char *what);
