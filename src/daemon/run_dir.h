/* run_dir - the folder of what a reboot ends: containers' own files, namespaces, sockets. In memory, since
 * every container has some thirty small files there: where /run is on a disk, a tmpfs is mounted. */
#pragma once

#include "base/err.h"

int run_dir_make(const char *path, struct err *err);
/* Unmounts what run_dir_make has mounted, unless a container is left. */
void run_dir_leave(const char *path);
