/* room - how many bytes the objects of one namespace may have together. All of them are in memory, and read
 * again at every start: without a bound one person could fill it. Admins are not held to it; what Berth makes
 * for a person's work (the pods of Jobs and TrainingJobs) counts, the machine's admin's does not. */
#pragma once

#include "registry/registry.h"

struct room;

struct room *room_new(struct registry *registry, size_t limit);
void room_free(struct room *room); /* after the registry; NULL is fine */
