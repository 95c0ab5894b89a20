/* audit - who did what: a file with a line of JSON for each request that changes something, enters a pod or
 * is refused (or for all), written by a thread of its own, so that a slow disk holds up nobody. At its size
 * the file is put aside as FILE.1, FILE.2 …, of which some are kept. A line has no query and no body, where
 * secrets could be. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

#define AUDIT_WAITING_MAX (4 << 20) /* bytes that wait for the disk; lines beyond are counted as lost */
#define AUDIT_BYTES       (10 << 20)
#define AUDIT_FILES       5

struct audit;

struct audit_config {
    const char *path;
    size_t bytes;   /* of one file; 0: AUDIT_BYTES */
    unsigned files; /* kept, with the one that is written; 0: AUDIT_FILES */
    bool all;       /* what reads as well */
};

/* Opens the file (0600), so that a path that cannot be is told at the start. */
int audit_open(const struct audit_config *config, struct audit **ret, struct err *err);
void audit_free(struct audit *audit); /* what waits is written first; NULL is fine */
bool audit_wants_all(const struct audit *audit);
void audit_line(struct audit *audit, struct str line); /* without its end */
bool audit_in_trouble(const struct audit *audit);      /* the last lines could not be written */
void audit_reopen(struct audit *audit);                /* somebody has moved the file; NULL is fine */
