/* shim - the parts of berth-shim. Static, small and without src/base: what it touches is paid once per
 * container. No heap but for attached clients, no stdio. */
#pragma once

#include "shim/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* ---- util.c ---- */

struct shim_conf {
    char text[SHIM_CONF_MAX];
    size_t len;
};
/* 0, or -1 with errno. */
int conf_read(struct shim_conf *conf, const char *path);
const char *conf_get(const struct shim_conf *conf, const char *key); /* NULL: absent */
int64_t conf_int(const struct shim_conf *conf, const char *key, int64_t fallback);

int64_t now_real(void);
int64_t now_mono(void);
bool write_all(int fd, const char *data, size_t len);
/* Temporary name, then rename, in the current folder. Without fsync, which takes longer than a short
 * container: the record has to outlive the daemon. What it said before a power cut is of no use after it,
 * since the container is gone then in any case. */
int record_write(const char *name, const char *text, size_t len);
/* The number after `key ` at the start of a line of a cgroup file; 0 when there is none. */
uint64_t counter_read(const char *path, const char *key);
pid_t pidfile_read(const char *path); /* 0: none */
/* The last line of a file, without its newline. False: none. */
bool last_line(const char *path, char *ret, size_t size);
int sock_listen(const char *name, int type); /* in the current folder, mode 0600; -1 with errno */
/* Takes a descriptor sent by SCM_RIGHTS; -1: none came. */
int sock_take_fd(int sock);
int sock_send(int sock, const struct shim_msg *msg, const char *data, size_t len, int pass_fd);
void tty_resize(int fd, unsigned rows, unsigned cols);

/* Starts the OCI runtime with fds as 0, 1, 2 (-1: the shim's own, which is a null device of its own). hide: a
 * mount to take away from its view (crun refuses hybrid cgroups otherwise), or NULL. */
bool oci_sealed(void); /* the runtime is at SHIM_FD_OCI */
pid_t oci_spawn(const char *const *argv, const int fds[3], const char *hide);

/* ---- log.c ---- */

struct shim_log {
    const char *path; /* NULL: no log */
    int fd;
    int64_t size, max; /* bytes; max 0: never rotate */
    unsigned files;    /* with the current one */
    int64_t dropped;   /* bytes, all together */
    int64_t missing;   /* of them, those not told in the log yet */
    int errnum;        /* why */
    int64_t second;    /* of the prefix that is cached */
    char prefix[20];
    size_t len, payload; /* of out: bytes; bytes of output in them */
    char out[SHIM_CHUNK + 4096];
};
void log_open(struct shim_log *log, const char *path, int64_t max, unsigned files);
/* len <= SHIM_CHUNK. Never fails: what cannot be written is counted. */
void log_add(struct shim_log *log, const char *stream, const char *data, size_t len, int64_t now);
void log_close(struct shim_log *log);

/* ---- null.c ---- */

int nulls_new(void); /* where null_new makes them; -1: not on this kernel */
/* A null device that no other process has open, or what comes near it; -1 with errno. nulls may be -1. */
int null_new(int nulls);

/* ---- mend.c ---- */

#define SHIM_STATE_FILES 4 /* of what an OCI runtime keeps of a container */
/* Files that can be made again when somebody removes them; -1: none. */
struct shim_kept {
    int config, state[SHIM_STATE_FILES];
};
void kept_open(struct shim_kept *kept);                                         /* in the folder */
void kept_open_state(struct shim_kept *kept, const char *root, const char *id); /* once it runs */
/* The folder with what belongs there, as far as it is missing, but the socket. It is the current folder then.
 * False: it cannot be made. */
bool folder_mend(const struct shim_conf *conf, const struct shim_kept *kept, const char *id, pid_t pid);

/* ---- main.c, serve.c, run.c, exec.c ---- */

/* 0, 1 and 2 are there, SHIM_FD_CONTROL and SHIM_FD_OCI are ours, nothing else is open. */
void shim_close_others(bool keep_stdio);
int shim_serve(char *title, size_t room); /* title: the command line's memory */
int shim_run(const char *id);
int shim_exec(const char *id, const char *number);
