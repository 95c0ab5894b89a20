/* content - the files of a configMap, secret, downwardAPI or projected volume. What they hold is gathered in
 * the loop and belongs to the content alone, so that any thread can write it. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <sys/types.h>

struct map;

struct content_file {
    const char *path;
    struct str data;
    mode_t mode;
};

struct content {
    struct arena arena; /* of all below */
    VEC(struct content_file) files;
    struct map *places; /* path → its place in files, plus 1 */
    const char *dir;
    uid_t owner; /* of the files; -1: root */
    gid_t group; /* that may read them; 0: none */
};

struct content *content_new(const char *dir, uid_t owner, gid_t group);
void content_free(struct content *content); /* NULL is fine */
/* A later one of the same path wins. What it points at is copied. ERR_INVALID: it leads out of the volume.
 * ERR_LIMIT: too many. */
int content_put(struct content *content, const char *path, struct str data, mode_t mode, struct err *err);
/* Makes the volume show these files and no others, all at once; writes nothing where it does already. */
int content_apply(const struct content *content, struct err *err);
