/* projects - numbers for folders below the data folder that may hold only so much, each given once: from a
 * range, unless something on the file system has it already (another daemon, an administrator). Which folder
 * has which number is written down (DATA/projects.json) before a number is used, so that a restart finds it.
 * A number is free again when its folder is gone. */
#pragma once

#include "engine/local/prjquota.h"

#define PROJECTS_FIRST 2000000 /* the usual range */
#define PROJECTS_LAST  2065535

struct projects;

struct projects_config {
    const char *data_dir;
    uint32_t first, last;               /* both 0: the usual range */
    const struct prjquota_calls *calls; /* NULL: the real ones */
};

/* ERR_UNSUPPORTED as prjquota_open. */
int projects_open(const struct projects_config *config, struct projects **ret, struct err *err);
void projects_free(struct projects *projects); /* NULL is fine; not while others use projects_quota's */
DEFINE_CLEANUP(struct projects *, projects_free);
const struct prjquota *projects_quota(const struct projects *projects);

/* The number of DATA/NAME, a folder that is there; a new one is recorded first. ERR_LIMIT: none is left. */
int projects_id(struct projects *projects, const char *name, uint32_t *ret, struct err *err);
uint32_t projects_known(const struct projects *projects, const char *name); /* 0: none */
/* Numbers of folders that are gone are without a limit and free again. */
void projects_sweep(struct projects *projects);
