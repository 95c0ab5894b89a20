/* runtime - containers on this machine, by an OCI runtime (crun or runc) and one berth-shim each.
 *
 * Knows containers, not jobs: what is started is said in a plain struct, what becomes of it is told by
 * callbacks on the loop. Nothing here waits. A container belongs to its shim, not to this process: it
 * goes on when the daemon ends, and runtime_adopt finds it again. docs/adr has the shim's side.
 *
 * Every container has a folder STATE_DIR/ID (mode 0700): config.json (the OCI bundle), shim.conf (what
 * the shim is told), shim.sock (how to reach it), exit (the exit record). The folder stays until
 * runtime_remove, so an exit that nobody heard of is not lost.
 *
 * Ids are 1 to RUNTIME_ID_MAX letters, digits, '.', '_' and '-', beginning with a letter or digit. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUNTIME_ID_MAX         128
#define RUNTIME_STARTS_PER_CPU 2
#define RUNTIME_CHUNK_MAX      65536 /* bytes of one output callback */

struct loop;
struct runtime;
struct runtime_container;
struct runtime_stream;

/* ---- the runtime ---- */

enum runtime_cgroups { RUNTIME_CGROUPS_V1, RUNTIME_CGROUPS_HYBRID, RUNTIME_CGROUPS_V2 };

struct runtime_config {
    const char *state_dir;     /* absolute; made when missing */
    const char *run_dir;       /* absolute, emptied by a reboot: the OCI runtime's state, namespaces */
    const char *oci_runtime;   /* "crun", "runc" or a path; NULL: crun, else runc, from PATH */
    const char *shim_path;     /* NULL: beside this program, in ../libexec/berth, or from PATH */
    const char *init_path;     /* NULL: tini-static from PATH (absent: containers that want it fail) */
    bool favor_changes;        /* of cgroups, machine-wide: see cgroup_favor_changes */
    const char *cgroup_parent; /* NULL: "/berth-" and a number made of state_dir; one per runtime */
};

/* ERR_NOT_FOUND: no OCI runtime, no shim. ERR_UNSUPPORTED: no usable cgroups, not root. Config is copied. */
int runtime_new(struct loop *loop, const struct runtime_config *config, struct runtime **ret,
                struct err *err);
/* The same with an OCI runtime that works: one container is run to its end first (some 50 ms, waited for
 * here), by config->oci_runtime, or by crun and, where that cannot, by runc. *warning: why it is not crun;
 * NULL where all is well; free it. ERR_UNSUPPORTED: also when none can, with what each said. */
int runtime_open(struct loop *loop, const struct runtime_config *config, struct runtime **ret, char **warning,
                 struct err *err);
/* NULL is fine. Containers go on; their handles are gone and no callback comes any more. Free
 * streams before. */
void runtime_free(struct runtime *rt);
DEFINE_CLEANUP(struct runtime *, runtime_free);

/* What was found, for `berth doctor`. Borrowed. */
const char *runtime_oci_path(const struct runtime *rt);
const char *runtime_shim_path(const struct runtime *rt);
enum runtime_cgroups runtime_cgroups(const struct runtime *rt);
const char *runtime_cgroups_text(const struct runtime *rt); /* "cgroup v2", "cgroup v1", "cgroup v1 hybrid" */

/* ---- what to start ---- */

enum runtime_mount_flags {
    RUNTIME_MOUNT_RO = 1 << 0,
    RUNTIME_MOUNT_NOSUID = 1 << 1,
    RUNTIME_MOUNT_NODEV = 1 << 2,
    RUNTIME_MOUNT_NOEXEC = 1 << 3,
    RUNTIME_MOUNT_REC = 1 << 4,    /* bind with what is mounted below the source */
    RUNTIME_MOUNT_SLAVE = 1 << 5,  /* later mounts of the host appear in the container */
    RUNTIME_MOUNT_SHARED = 1 << 6, /* and the other way round */
};

struct runtime_mount {
    const char *source; /* path of a bind; "tmpfs" and so on otherwise */
    int source_fd;      /* > 0: bind what this descriptor (O_PATH will do) is open on, instead of source;
                           so no link can be put in between. Borrowed during the call */
    const char *target; /* absolute, in the container */
    const char *type;   /* NULL: bind */
    unsigned flags;
    const char *options; /* NULL, or more options, comma-separated: "size=64m,mode=1777" */
};

struct runtime_device {
    const char *path; /* in the container */
    char type;        /* 'c', 'b', 'p' */
    int64_t major, minor;
    uint32_t mode; /* 0: 0666 */
    uid_t uid;
    gid_t gid;
    const char *access; /* NULL: "rwm" */
};

/* OCI hooks, as CDI files have them. */
struct runtime_hook {
    const char
        *when; /* "prestart" "createRuntime" "createContainer" "startContainer" "poststart" "poststop" */
    const char *path;
    const char *const *args; /* NULL-terminated, with args[0]; NULL: none */
    const char *const *env;
    int timeout_sec; /* 0: none */
};

struct runtime_rlimit {
    const char *type; /* "RLIMIT_NOFILE" */
    uint64_t soft, hard;
};

struct runtime_pair {
    const char *key, *value;
};

/* A namespace: the container's own, the host's, or one that is there already. */
struct runtime_ns {
    enum { RUNTIME_NS_OWN, RUNTIME_NS_HOST, RUNTIME_NS_PATH } mode;
    const char *path; /* of PATH: a pinned namespace (runtime_ns_pin, podnet) or /proc/PID/ns/X */
};

/* Lists are NULL or end with NULL (args, env, caps), or have a length. Zero is a good default everywhere. */
struct runtime_spec {
    const char *id;
    const char *rootfs; /* absolute; mounted already */
    bool rootfs_readonly;
    const char *const *args; /* args[0] is looked for on the container's PATH; at least one */
    const char *const *env;  /* "NAME=value" */
    const char *cwd;         /* NULL: "/"; made when missing */
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t groups_len;
    const char *hostname; /* of an own uts namespace */
    bool tty;
    bool stdin_open; /* else a null device of its own */
    bool stdin_once; /* the end of the first attached stdin closes it */
    uint16_t tty_rows, tty_cols;

    const struct runtime_mount *mounts; /* after the usual /proc, /dev, /sys, /dev/shm; a mount on one of
                                           these takes its place */
    size_t mounts_len;
    int64_t shm_bytes; /* size of /dev/shm; 0: 64 MiB */
    const struct runtime_device *devices;
    size_t devices_len;
    const struct runtime_hook *hooks;
    size_t hooks_len;
    const struct runtime_pair *sysctls;
    size_t sysctls_len;
    const struct runtime_pair *annotations;
    size_t annotations_len;
    const struct runtime_rlimit *rlimits; /* clamped to what this process may give */
    size_t rlimits_len;

    struct runtime_ns net, ipc, uts, pid;

    int64_t cpu_milli;    /* hard limit, 0: none */
    int64_t cpu_shares;   /* weight as of cgroup v1 (2..262144), 0: 1024 */
    int64_t memory_bytes; /* hard limit, 0: none; swap is not given */
    int64_t pids_max;     /* 0: none */
    const char *cpus;     /* cpuset, "0-3,8"; NULL: all */

    bool privileged;             /* all capabilities, the host's devices, no seccomp, nothing masked */
    const char *const *cap_add;  /* "CAP_SYS_PTRACE" or "SYS_PTRACE" or "ALL"; to the default 14 of Docker */
    const char *const *cap_drop; /* first all drops, then all adds */
    bool no_new_privileges;
    bool seccomp_unconfined;
    bool unmask_proc;  /* procMount: Unmasked */
    int oom_score_adj; /* raised to our own where lowering is not allowed */
    bool init;         /* tini as PID 1: forwards TERM to args, reaps */

    const char *log_path;   /* absolute; NULL: no log. Made with its folder when there is something to log */
    int64_t log_max_bytes;  /* rotate when a file would grow over it; 0: never */
    unsigned log_max_files; /* with the current one; 0: 2 */
};

/* ---- what becomes of it ---- */

enum runtime_end {
    RUNTIME_END_EXITED,   /* the process ended; all fields are true */
    RUNTIME_END_LOST,     /* its shim died: what was left has been killed, the exit code is not known */
    RUNTIME_END_VANISHED, /* the machine was started anew meanwhile */
};

struct runtime_exit {
    enum runtime_end end;
    int code;        /* 0..255; 128 + signal when a signal ended it; 137 when not known */
    int signal;      /* 0: none */
    bool oom;        /* the kernel killed it or one of its processes for want of memory */
    int64_t started; /* nanoseconds since 1970; 0: not known */
    int64_t finished;
    int64_t log_dropped; /* bytes that did not get into the log (disk full) */
};

/* Each is called from the loop, never from inside a call to this module; a container gets `started` once
 * and then `exited` once, or `failed` once (the OCI runtime's sentence; nothing runs). Handles stay valid
 * until runtime_forget or runtime_remove. */
struct runtime_events {
    void (*started)(void *arg, struct runtime_container *c, pid_t pid, int64_t time);
    void (*exited)(void *arg, struct runtime_container *c, const struct runtime_exit *how);
    void (*failed)(void *arg, struct runtime_container *c, const char *sentence);
};

/* Starts a container. spec may go after the call, events must stay. Of many that are started at once a few go
 * ahead and the others wait for their turn (RUNTIME_STARTS_PER_CPU): all at once they would only hinder each
 * other.
 * ERR_INVALID: the spec, in words. ERR_EXISTS: the id is taken. ERR_NOT_FOUND: no rootfs, or init is wanted
 * and there is none. */
int runtime_start(struct runtime *rt, const struct runtime_spec *spec, const struct runtime_events *events,
                  void *arg, struct runtime_container **ret, struct err *err);

/* The ids that have a folder, sorted; free with runtime_list_free. */
int runtime_list(struct runtime *rt, char ***ret, size_t *len, struct err *err);
void runtime_list_free(char **ids, size_t len);
/* Takes up a container of an earlier daemon. It gets `started` (again) when it runs, and `exited` or `failed`
 * when that happens; only the latter, at once, when it has happened meanwhile. ERR_NOT_FOUND: no such folder,
 * or one whose turn to be started never came (it is removed). ERR_EXISTS: it is held already. */
int runtime_adopt(struct runtime *rt, const char *id, const struct runtime_events *events, void *arg,
                  struct runtime_container **ret, struct err *err);
struct runtime_container *runtime_get(const struct runtime *rt, const char *id); /* NULL: none held */

/* To the main process. ERR_CONFLICT: it does not run. While it is being started, the signal is sent as soon
 * as it runs. */
int runtime_signal(struct runtime_container *c, int signo, struct err *err);
/* KILL to every process of its cgroup, also those the main process left behind. Never too late. */
void runtime_kill_all(struct runtime_container *c);
/* TERM (or signo) now, runtime_kill_all after grace_ns; `exited` tells the end. Calling it again can only
 * shorten the wait. */
void runtime_stop(struct runtime_container *c, int signo, int64_t grace_ns);

/* Kills what runs, removes cgroups, mounts below the folder and the folder; the handle is gone at once and
 * no other callback comes. done (NULL is fine) is called from the loop with NULL or the sentence of what
 * could not be removed. The log is the caller's. */
typedef void (*runtime_done_fn)(void *arg, const char *sentence);
void runtime_remove(struct runtime_container *c, runtime_done_fn done, void *arg);
/* Gives up the handle; the container goes on and can be adopted again. */
void runtime_forget(struct runtime_container *c);

/* Removes what belongs to nobody: folders for which keep says false, cgroups below the parent, states of the
 * OCI runtime and shims without a folder, pinned namespaces (keep is asked for their names, too). Call it
 * once at start; what is adopted or being removed already is left alone. done gets NULL or a sentence. */
void runtime_cleanup(struct runtime *rt, bool (*keep)(void *arg, const char *id), runtime_done_fn done,
                     void *arg);

/* ---- what others remove ---- */

/* Makes folders that somebody removed again, and has running containers make theirs. Returns how many of
 * those there are; they need a moment. Cheap where all is well: meant to be called every few seconds. */
size_t runtime_mend(struct runtime *rt);
/* The same of containers that nobody holds yet, at start, before runtime_list: they are found by their shims.
 * Waits for them. */
size_t runtime_rescue(struct runtime *rt);
/* The first process of a container, also of one that is only being adopted; 0: none, or not known. */
pid_t runtime_pid(const struct runtime *rt, const char *id);

/* ---- figures ---- */

struct runtime_stats {
    uint64_t cpu_ns;            /* since start */
    uint64_t memory_bytes;      /* usage with page cache */
    uint64_t working_set_bytes; /* without inactive page cache, as kubectl top shows */
    uint64_t oom_kills;
    uint64_t pids;
};
/* ERR_NOT_FOUND: its cgroup is gone. Reads a few files of cgroupfs: about 50 us. */
int runtime_stats(const struct runtime_container *c, struct runtime_stats *ret, struct err *err);
/* cpu_ns alone, by reading one file; 0: its cgroup is gone. */
uint64_t runtime_cpu(const struct runtime_container *c);

/* ---- streams: exec and attach ---- */

/* Callbacks of a stream, each may be NULL. Bytes given are to be taken; who cannot take more for a while
 * calls runtime_stream_pause. */
struct runtime_stream_events {
    void (*output)(void *arg, struct runtime_stream *s, int fd, const char *data, size_t len); /* fd 1 or 2 */
    void (*writable)(void *arg, struct runtime_stream *s); /* after a short runtime_stream_write */
    /* exec: the process has ended and all output was given. attach: the container has ended, or the shim cut
     * us off (how is NULL then). The stream is still the caller's to free. */
    void (*ended)(void *arg, struct runtime_stream *s, const struct runtime_exit *how);
    void (*failed)(void *arg, struct runtime_stream *s, const char *sentence); /* instead of ended */
};

struct runtime_exec {
    const char *const *args;
    const char *const *env; /* NULL: the container's own */
    const char *cwd;        /* NULL: the container's own */
    const uid_t *uid;       /* NULL: the container's own user and groups */
    const gid_t *gid;       /* NULL: that of the container's user */
    bool tty;               /* stdout and stderr are one then */
    bool stdin_open;
    uint16_t rows, cols;
};

/* Runs a command in a running container. ERR_CONFLICT: it does not run. ERR_INVALID. */
int runtime_exec(struct runtime_container *c, const struct runtime_exec *exec,
                 const struct runtime_stream_events *events, void *arg, struct runtime_stream **ret,
                 struct err *err);
/* stdin, stdout, stderr or tty of the main process from now on. Any number of clients; each gets all the
 * output. A client that takes nothing for 5 s is cut off, so that it cannot hold up the container for ever.
 * ERR_CONFLICT: it does not run. */
int runtime_attach(struct runtime_container *c, bool with_stdin, bool with_output,
                   const struct runtime_stream_events *events, void *arg, struct runtime_stream **ret,
                   struct err *err);

/* Bytes taken of those for stdin; when fewer than len, `writable` follows. 0 and no writable after its end.
 */
size_t runtime_stream_write(struct runtime_stream *s, const char *data, size_t len);
void runtime_stream_close_stdin(struct runtime_stream *s); /* after what was taken is written */
void runtime_stream_pause(struct runtime_stream *s, bool pause);
/* attach: the main process' terminal, where it has one. */
void runtime_stream_resize(struct runtime_stream *s, uint16_t rows, uint16_t cols);
void runtime_stream_signal(struct runtime_stream *s, int signo); /* exec: to its process. attach: nothing */
/* NULL is fine. No callback comes after it. A process of exec goes on (runtime_stream_signal ends it), as
 * Kubernetes does it; on a tty it gets HUP. */
void runtime_stream_free(struct runtime_stream *s);
DEFINE_CLEANUP(struct runtime_stream *, runtime_stream_free);

/* ---- namespaces that outlive a process ---- */

/* Makes one new ipc and one uts namespace (with that hostname) and pins them to RUN_DIR/ns/NAME.ipc and
 * NAME.uts, for the containers of one pod. There already: fine, as they are. */
int runtime_ns_pin(struct runtime *rt, const char *name, const char *hostname, struct err *err);
/* Those of a running process of the pod again, where they are not pinned any more. */
bool runtime_ns_pinned(const struct runtime *rt, const char *name);
int runtime_ns_repin(struct runtime *rt, const char *name, pid_t pid, struct err *err);
char *runtime_ns_path(const struct runtime *rt, const char *name,
                      const char *kind); /* "ipc" "uts"; free it */
void runtime_ns_unpin(struct runtime *rt, const char *name);
/* A pid namespace lives as long as its first process: start a container with this program as args[0] and
 * "pause" as args[1] (it reaps, and ends on TERM), mounted from runtime_shim_path. */

/* ---- the log file ----
 * Kubernetes' CRI format, one entry a line: "2026-01-02T03:04:05.123456789Z stdout F text\n". F ends a line
 * of output; P (partial) does not, the rest follows in the next entry of that stream. Bytes are as they came.
 * The current file is LOG; LOG.1 is the one before it, LOG.2 older. An entry is never split between files.
 * When the disk is full, output is dropped and counted, and an entry of stderr "berth: N bytes of output
 * dropped: ..." takes its place as soon as there is room. */
