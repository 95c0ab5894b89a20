/* run_dir - the folder of what a reboot ends: containers' own files, namespaces, sockets. In memory, since
 * every container has some thirty small files there: where /run is on a disk, a tmpfs is mounted. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* A folder in which containers have left something stays as it is: they cannot be told where to go. */
int run_dir_make(const char *path, struct err *err);
/* It is on a disk, and empty: what was mounted there is gone. */
bool run_dir_unmounted(const char *path);
/* Unmounts what run_dir_make has mounted, unless a container is left. */
void run_dir_leave(const char *path);
