/* cdi - Container Device Interface: files in which vendors say what a container needs to use a device.
 *
 * Reads all *.json and *.yaml of the folders; of two that define the same device the one of the later folder
 * wins, and two of the same folder make that device unusable, as the specification has it. A file that is
 * wrong is left out with a warning and disturbs nobody else. */
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CDI_FILE_MAX    (4 << 20) /* bytes */
#define CDI_FILES_MAX   256
#define CDI_DEVICES_MAX 4096 /* of all files */
#define CDI_EDITS_MAX   4096 /* of each kind, for one container */

struct cdi;

struct cdi_mount {
    const char *source, *target; /* host, container; absolute */
    const char *type;            /* NULL: bind */
    const char *options;         /* comma-separated: "ro,nosuid,nodev,bind"; NULL: none */
};

struct cdi_hook {
    const char
        *when; /* "prestart" "createRuntime" "createContainer" "startContainer" "poststart" "poststop" */
    const char *path;
    const char *const *args; /* end with NULL; NULL: none */
    const char *const *env;
    int timeout_sec; /* 0: none */
};

struct cdi_device {
    const char *path;      /* in the container */
    const char *host_path; /* the node that type, major and minor were asked of */
    char type;             /* 'b' 'c' 'p' */
    int64_t major, minor;
    uint32_t mode; /* permission bits */
    uid_t uid;
    gid_t gid;
    const char *access; /* "rwm" */
};

/* What to change in a container. Zero-initialised is nothing; all in the arena given to what fills it. */
struct cdi_edits {
    const char **env; /* "NAME=value" */
    size_t env_len, env_cap;
    struct cdi_mount *mounts;
    size_t mounts_len, mounts_cap;
    struct cdi_hook *hooks;
    size_t hooks_len, hooks_cap;
    struct cdi_device *devices;
    size_t devices_len, devices_cap;
    gid_t *gids; /* additional groups */
    size_t gids_len, gids_cap;
};
/* Sets or replaces NAME of "NAME=value" (copied). */
void cdi_edits_env(struct arena *arena, struct cdi_edits *edits, const char *name_value);

/* NULL-terminated folders, later ones win; NULL: /etc/cdi, /var/run/cdi. Missing folders are fine. Never
 * fails because of what is in the files. */
int cdi_load(const char *const *folders, struct cdi **ret, struct err *err);
void cdi_free(struct cdi *cdi); /* NULL is fine */
DEFINE_CLEANUP(struct cdi *, cdi_free);

size_t cdi_count(const struct cdi *cdi);
const char *cdi_name(const struct cdi *cdi, size_t i); /* "nvidia.com/gpu=0"; in order of name */
bool cdi_has(const struct cdi *cdi, const char *name);
/* One a line, about files left out and devices defined twice; "" when there is nothing to say. Borrowed. */
const char *cdi_warnings(const struct cdi *cdi);

/* Adds what the named devices need to *edits: each file's own edits once, then each device's. Names are fully
 * qualified: "nvidia.com/gpu=0". ERR_NOT_FOUND: no such device, or its node is not there. ERR_CONFLICT:
 * defined twice. ERR_INVALID: a name that is none, or edits that are wrong. */
int cdi_resolve(const struct cdi *cdi, const char *const *names, size_t names_len, struct arena *arena,
                struct cdi_edits *edits, struct err *err);

/* One file's text, JSON or YAML, checked as cdi_load does. For tests and the fuzzer; the result is
 * cdi_free'd. */
int cdi_parse(struct str text, const char *path, struct cdi **ret, struct err *err);
