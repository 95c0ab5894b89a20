/* sweeper - removes containers' folders in a thread of its own: on a disk that others write to, each file may
 * take milliseconds, in which nothing else would be started. */
#pragma once

#include "base/cleanup.h"

struct sweeper;

/* dir: where the folders are and stay, under other names, until they are gone; fn removes one. What another
 * sweeper left there is removed, too. Without threads all is done at once. */
struct sweeper *sweeper_new(const char *dir, void (*fn)(const char *path));
void sweeper_free(struct sweeper *sweeper); /* when all are gone; NULL is fine */
DEFINE_CLEANUP(struct sweeper *, sweeper_free);

/* The folder has no longer its name when this returns, unless it cannot be removed. */
void sweeper_take(struct sweeper *sweeper, const char *path);
