/* prjquota - project quotas of a file system (ext4, xfs): folders carry a number that new files in them take
 * over, and the file system lets all that carry one number have only so many bytes. Writes beyond that fail
 * (EDQUOT, on xfs ENOSPC), and statfs of such a folder shows the limit as its size. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The kernel's calls; tests have others. Results and errno as the system calls have them. */
struct prjquota_calls {
    int (*quotactl)(int fd, const char *device, int command, uint32_t id, void *arg);
    int (*ioctl)(int fd, unsigned long request, void *arg);
};

struct prjquota;

/* For the file system that dir is on. calls NULL: the real ones. ERR_UNSUPPORTED: it has no project quotas
 * that are enforced. */
int prjquota_open(const char *dir, const struct prjquota_calls *calls, struct prjquota **ret,
                  struct err *err);
struct prjquota *prjquota_dup(const struct prjquota *quota); /* for a thread of its own */
void prjquota_free(struct prjquota *quota);                  /* NULL is fine */
DEFINE_CLEANUP(struct prjquota *, prjquota_free);

/* The number of a folder or file; 0: none. */
int prjquota_id_of(const struct prjquota *quota, int fd, uint32_t *ret, struct err *err);
/* The folder (not what is in it) gets the number, and hands it on to what is made in it. */
int prjquota_mark(const struct prjquota *quota, int fd, uint32_t id, struct err *err);
/* … with all that is in it, for folders that were filled before. */
#define PRJQUOTA_DEPTH_MAX 200 /* folders below each other; what is deeper keeps its number */
int prjquota_mark_tree(const struct prjquota *quota, int fd, uint32_t id, struct err *err);

/* How much may carry that number; 0: no limit. */
int prjquota_limit(const struct prjquota *quota, uint32_t id, int64_t bytes, struct err *err);
struct prjquota_use {
    int64_t bytes, limit, files;
};
int prjquota_use(const struct prjquota *quota, uint32_t id, struct prjquota_use *ret, struct err *err);
