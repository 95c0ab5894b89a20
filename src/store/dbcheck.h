/* dbcheck - reads a whole database file that nobody uses, and says whether it is good. Any thread may call
 * it. */
#pragma once

#include "base/err.h"

#include <stdint.h>

struct dbcheck {
    int64_t revision; /* of the newest object */
    int64_t objects;  /* that live */
    char id[37];      /* as store_id */
};

/* ERR_INVALID: not Berth's, or damaged. ERR_UNSUPPORTED: made by a newer Berth. */
int dbcheck_file(const char *path, struct dbcheck *ret, struct err *err);
