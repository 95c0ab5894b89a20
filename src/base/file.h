/* file - whole files, written so that a crash leaves the old or the new content. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <sys/stat.h>

/* ERR_LIMIT: the file is larger than max bytes. "-" is standard input. */
int file_read(const char *path, size_t max, struct buf *ret, struct err *err);
/* Temporary name, fsync, rename, fsync of the folder; so for files and names that are not there yet. What is
 * no file (a device, a pipe, a terminal, /dev/stdout) is written into and keeps its mode. Where path is a
 * symbolic link the file that it names is written, if that is no link itself and the link belongs to the
 * caller or to root. ERR_FORBIDDEN: it belongs to somebody else. */
int file_write_atomic(const char *path, struct str data, mode_t mode, struct err *err);
int dir_make(const char *path, mode_t mode, struct err *err); /* with parents; there already is fine */
/* `len` random bytes, or as lower-case hex text (2*len+1 bytes). Never fails. */
void random_bytes(void *ret, size_t len);
/* For tests that must repeat themselves: from here on the bytes follow from the seed; 0: real ones again. */
void random_use(uint64_t seed);
void random_hex(char *ret, size_t len);
void random_uuid(char ret[37]); /* version 4 */
