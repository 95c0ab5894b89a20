/* runtime_internal - what the files of this folder share. */
#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "loop/loop.h"
#include "runtime/bundle.h"
#include "runtime/cgroup.h"
#include "runtime/runtime.h"
#include "runtime/sweeper.h"
#include "shim/proto.h"

struct runtime {
    struct loop *loop;
    char *state_dir, *run_dir, *oci_root; /* oci_root: RUN_DIR/oci, the OCI runtime's --root */
    char *oci_path, *shim_path, *init_path;
    int oci_fd;  /* what is at oci_path, sealed; -1: none */
    int nursery; /* where to ask for shims; -1: not started yet */
    pid_t nursery_pid;
    uint64_t nursery_turn; /* how many there have been */
    char boot_id[40];
    struct cgroup *cgroup;
    struct seccomp *seccomp;
    struct bundle_host host;
    struct map *containers; /* id -> struct runtime_container */
    struct removal *removals;
    struct sweeper *sweeper;
    unsigned starting, starting_max;                  /* containers that the OCI runtime is at work on */
    struct runtime_container *waiting, **waiting_end; /* for their turn, oldest first */
};

enum container_state { CONTAINER_STARTING, CONTAINER_RUNNING, CONTAINER_ENDED };

struct runtime_container {
    struct runtime *rt;
    char *id, *dir;
    const struct runtime_events *events;
    void *arg;
    enum container_state state;
    pid_t pid, shim_pid;
    bool tty, made_folder;
    size_t fd_mounts; /* places of mounts by descriptor to look at */
    int64_t started;
    bool in_start; /* counted in rt->starting */
    bool in_line;  /* of those that wait */
    struct runtime_container *next_waiting;
    struct err start_err; /* why its turn failed */
    struct buf conf;      /* shim.conf, until its turn */
    int early_signal;     /* came while it waited; 0: none */
    int control;          /* -1: the shim is gone */
    struct loop_io *io;
    bool ours;                       /* started, not adopted */
    bool again;                      /* a shim has been asked for twice */
    uint64_t nursery_turn;           /* which one was asked for its shim */
    struct loop_timer *stop, *later; /* later: what is known already, told from the loop */
    int64_t connect_by;              /* of one that was found: until then its shim may begin to listen */
    int64_t stop_at;                 /* monotonic; 0: no stop under way */
};

/* container_record.c: the exit record. */
struct record {
    struct runtime_exit how;
    char *failed; /* NULL: it ran. Otherwise as the shim wrote it; free */
};
/* ERR_NOT_FOUND: there is none. ERR_INVALID: it is damaged. */
int record_parse(struct str text, struct record *ret, struct err *err);
int record_read(const char *dir, struct record *ret, struct err *err);
/* The sentence in a log line of the OCI runtime (JSON), or the line itself; free it. */
char *oci_sentence(struct str line);

/* runtime.c */
int runtime_folders(struct runtime *rt, struct err *err); /* those that all containers share */

/* container_folder.c */
bool folder_has_shim(const char *folder);    /* one works in it, be it that it does not listen yet */
bool folder_never_begun(const char *folder); /* no shim has, nor does one */

/* oci.c: finding and starting programs. */
int oci_find(const char *name, char **ret, struct err *err); /* a path, or a name on PATH */
/* Starts the shim in dir with argv; fds become its 0, 1, 2 (NULL: ours) and control its SHIM_FD_CONTROL. */
/* A copy of crun that nobody can write to. Started from anything else it makes one of itself, each time, lest
 * a container overwrite the machine's program. -1: not here, or not with this runtime. */
int oci_seal(const char *path);
/* Adds "key=value" and a NUL to a shim's configuration. NULL values are left out. */
void oci_conf(struct buf *conf, const char *key, const char *value);
void oci_conf_int(struct buf *conf, const char *key, int64_t value);
/* What every shim needs: runtime, root, hide, bundle. */
void oci_conf_common(const struct runtime *rt, struct buf *conf, const char *dir);
int oci_write(const char *dir, const char *name, struct str data, struct err *err); /* mode 0600; no fsync */
/* Connects to the shim of a folder; -1: nobody answers (ret unset). */
int oci_connect(const char *dir, int *ret);
int oci_send(int control, const struct shim_msg *msg, const char *data, size_t len);
/* Reads one message; a descriptor that came along goes to *fd (NULL: closed). Data bytes, or -1 with errno;
 * ECONNRESET at the end. */
ssize_t oci_recv(int control, struct shim_msg *msg, char *data, size_t size, int *fd);

/* nursery.c: a shim in that folder. words: "run", id or "exec", id, number; NULL at the end. stdio: NULL, or
 * three descriptors for the shim (-1: /dev/null). control is borrowed: its other end tells what becomes of
 * it. */
int nursery_shim(struct runtime *rt, const char *dir, const char *const *words, const int *stdio, int control,
                 struct err *err);
void nursery_end(struct runtime *rt);

/* runtime_remove.c */
void removal_start(struct runtime *rt, const char *id, const char *dir, int control, pid_t shim_pid,
                   runtime_done_fn done, void *arg);
/* Everything below path, without following links or leaving its file system. */
void removal_tree(const char *path);
void removals_abandon(struct runtime *rt);
