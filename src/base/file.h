/* file - whole files, written so that a crash leaves the old or the new content. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <sys/stat.h>

/* ERR_LIMIT: the file is larger than max bytes. "-" is standard input. */
int file_read(const char *path, size_t max, struct buf *ret, struct err *err);
/* Temporary name, fsync, rename, fsync of the folder. */
int file_write_atomic(const char *path, struct str data, mode_t mode, struct err *err);
int dir_make(const char *path, mode_t mode, struct err *err); /* with parents; there already is fine */
/* `len` random bytes, or as lower-case hex text (2*len+1 bytes). Never fails. */
void random_bytes(void *ret, size_t len);
/* For tests that must repeat themselves: from here on the bytes follow from the seed; 0: real ones again. */
void random_use(uint64_t seed);
void random_hex(char *ret, size_t len);
void random_uuid(char ret[37]); /* version 4 */
