/* tar - tars for tests, from tables, also ones that no decent program would write. */
#pragma once

#include "base/buf.h"

struct tar_row {
    char type;               /* '-' 'd' 'l' 'h'(ard link) 'p' 'c' */
    const char *path, *text; /* text: content, or what a link leads to */
    int mode;                /* 0: 0644 or 0755 */
    int uid, gid;
    const char *xattr; /* name of one with the value "y" */
};

/* filter: "" "gzip" "zstd" "xz". */
void tar_make(const struct tar_row *rows, size_t len, const char *filter, struct buf *ret);
