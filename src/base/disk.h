/* disk - how full the disk of the data folder may get. Below the mark pods are evicted; what people upload or
 * pull stops before that, so that nobody's image ends somebody else's job, and how much of it a folder has.
 */
#pragma once

#include <stdint.h>

#define DISK_MARK_PERCENT 10                 /* pods go when less of the disk is free … */
#define DISK_MARK_BYTES   (INT64_C(2) << 30) /* … and less than this */

int64_t disk_mark(int64_t total_bytes); /* fewer free bytes: the disk is short */
int64_t disk_keep(int64_t total_bytes); /* what imports and pulls leave free: the mark and a quarter of it */

/* Bytes on disk of everything below path, on its own file system, links not followed. However deep it is:
 * paths longer than PATH_MAX are no hiding place. What is moved away meanwhile is left out. Takes long: not
 * from the loop. */
int64_t disk_tree_bytes(const char *path);
