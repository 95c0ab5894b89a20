/* pack - tar files with a few known members, written and read with libarchive. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <stdint.h>

#define PACK_HEX_LEN 64 /* SHA-256 */

struct pack_out;
int pack_create(const char *path, struct pack_out **ret, struct err *err); /* mode 0600; must not exist */
int pack_add_text(struct pack_out *out, const char *name, struct str text, struct err *err);
int pack_add_file(struct pack_out *out, const char *name, const char *path, struct err *err);
int pack_finish(struct pack_out *out, struct err *err); /* synced */
void pack_out_free(struct pack_out *out);               /* NULL is fine */
DEFINE_CLEANUP(struct pack_out *, pack_out_free);

/* Unpacks regular files whose name `limit` allows (bytes; -1: refused) into dir, mode 0600. Links, devices,
 * other names and larger files make it ERR_INVALID. */
int pack_open_into(const char *path, const char *dir, int64_t (*limit)(const char *name), struct err *err);

/* Hex of the SHA-256 of a file. */
int pack_sum(const char *path, char ret[PACK_HEX_LEN + 1], struct err *err);
