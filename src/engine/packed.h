/* packed - kept logs (FOLDER/NAME.log, which kept.h of the local engine writes) at rest: compressed when
 * nobody adds to them any more, removed when they are too old or too much.
 *
 * A log is renamed to NAME.pack, compressed to NAME.gz, and the former removed; where both are there, NAME.gz
 * is whole. So a kill at any point leaves each line once. What is added later is a new NAME.log beside it.
 * Whoever changes files of a name holds a lock on NAME.runs.
 *
 * These calls block: for threads. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACKED_AFTER_SEC 600                  /* without a change, until a log is compressed */
#define PACKED_READ_MAX  (INT64_C(256) << 20) /* bytes of text that packed_open gives */

struct packed_rules {
    int64_t now;   /* nanoseconds since 1970 */
    int64_t sec;   /* logs that were written to longer ago go; 0: not for that */
    int64_t bytes; /* of all; past it the oldest go; 0: any number */
    /* Whether its job is not over: then it is neither compressed nor removed. */
    bool (*alive)(void *arg, const char *name);
    void *arg;
};
struct packed_totals {
    size_t count, removed, packed;
    int64_t bytes;
};
void packed_tidy(const char *folder, const struct packed_rules *rules, struct packed_totals *ret);

/* Opens and locks FOLDER/NAME.runs; -1 with err. Closing the descriptor releases. */
int packed_lock(const char *folder, const char *name, bool wait, struct err *err);
bool packed_is(const char *folder,
               const char *name); /* more than a plain NAME.log is there; does not block */
/* All its text in a file without a name, from the beginning. Empty where there is none. */
int packed_open(const char *folder, const char *name, int *ret_fd, struct err *err);
