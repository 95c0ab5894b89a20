/* backup - everything that a daemon needs to start again somewhere else, as one file: a gzipped tar of the
 * database (objects, history, tokens), the certificate authority, a list of the volume claims with their
 * folders, and the configuration. What is in volumes, logs and images is not part of it.
 *
 *     manifest.json   what it is a backup of, and the SHA-256 of each file
 *     berth.db        a consistent copy, made while the daemon writes
 *     pki/...         the authority and the server's certificate
 *     claims.json     namespace, name, size and folder of each claim
 *     berthd.yaml     the configuration file, where there is one
 *
 * Both calls block: for a thread, or a program of its own. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define BACKUP_FORMAT    1
#define BACKUP_SUFFIX    ".tar.gz"
#define BACKUP_FILE_MAX  (64LL << 30) /* bytes of one file in it */
#define BACKUP_SMALL_MAX (16 << 20)   /* bytes of manifest.json, claims.json, of each file in pki/ */
#define BACKUP_KEEP_NAME                                                                                     \
    "keep-unknown" /* in the data folder: the next start ends no container it does not know */
#define BACKUP_DB "berth.db"

struct backup_source {
    const char *data_dir;
    const char *config_file; /* NULL: none */
    const char *node_name;
    const char *claims; /* JSON text */
    int64_t now;        /* nanoseconds since 1970 */
};

struct backup_info {
    int64_t revision, objects;
    int64_t time;  /* nanoseconds since 1970 */
    int64_t bytes; /* of the archive */
    char id[37];   /* of the store */
    char node[256], version[64];
};

/* Writes `path` (mode 0600) whole or not at all; what was made is read back and checked before it gets its
 * name. */
int backup_make(const struct backup_source *source, const char *path, struct backup_info *ret,
                struct err *err);

/* Checks all of the archive first, then puts it in place; what was there is moved to a folder beside it,
 * whose name goes to *ret_replaced (malloc'ed; NULL: there was nothing). ERR_CONFLICT: a daemon uses
 * data_dir. ERR_INVALID: not a backup, or damaged; nothing was changed. */
int backup_restore(const char *path, const char *data_dir, int64_t now, struct backup_info *ret,
                   char **ret_replaced, struct err *err);
