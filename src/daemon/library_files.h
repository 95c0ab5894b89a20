/* library_files - the Python library as berthd carries it; made by tools/embed-python. */
#pragma once

#include <stddef.h>

struct library_file {
    const char *path; /* "berth/__init__.py" */
    const char *data;
    size_t len;
};

extern const struct library_file library_files[];
extern const size_t library_file_count;
