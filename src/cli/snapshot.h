/* snapshot - a copy of a project folder, so that a job that starts in an hour runs the code of now. */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define SNAPSHOT_BYTES_MAX  (INT64_C(2) << 30)
#define SNAPSHOT_FILES_MAX  100000
#define SNAPSHOT_DEPTH_MAX  64
#define SNAPSHOT_IGNORE     ".berthignore"
#define SNAPSHOT_IGNORE_MAX 1000 /* lines of it */

struct snapshot_stats {
    int64_t files, bytes, skipped;
};

/* Copies folder `from` to the new folder `to`, without what .berthignore names (a pattern a line, as for a
 * shell; of a path from the project's folder where it has a slash, else of a name) and without .git,
 * __pycache__, .venv and such. Links are copied as links. Where `to` lies in `from`, the folder around it is
 * left out. When it fails, `to` is removed. ERR_LIMIT: it is too much for a snapshot. */
int snapshot_take(const char *from, const char *to, struct snapshot_stats *ret, struct err *err);
