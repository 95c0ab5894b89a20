/* What the files of engine/local share. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "engine/local/bind.h"
#include "engine/local/env.h"
#include "engine/local/local.h"
#include "engine/local/plan.h"
#include "engine/local/projects.h"
#include "engine/local/pull_share.h"
#include "engine/pod_ops.h"
#include "gpu/cdi.h"
#include "gpu/gpu.h"
#include "image/image.h"
#include "loop/loop.h"
#include "podnet/podnet.h"
#include "registry/registry.h"
#include "runtime/runtime.h"

#define LOCAL_RETRY_SEC     2 /* between tries to make volumes and network */
#define LOCAL_LOG_BYTES     (10 << 20)
#define LOCAL_LOG_FILES     5
#define LOCAL_DISK_SEC      5                 /* between looks at what pods have on the disk */
#define LOCAL_DRIVER        "berth.dev/local" /* of volumes that Berth made */
#define LOCAL_GRACE_SEC     30
#define LOCAL_MESSAGE_BYTES 4096 /* of /dev/termination-log */
#define LOCAL_TAIL_BYTES    2048 /* of the log in its place */

struct local_pod;
struct probes;
struct hook;

/* The processor time that a container, or the node, had used at some moment. */
struct usage_point {
    int64_t at; /* monotonic; 0: none */
    uint64_t cpu_ns;
    int restarts; /* of which run */
};
#define USAGE_POINTS 2

/* One container's way through pull, mount, run. */
struct local_run {
    struct local_pod *pod;
    size_t at; /* in facts.ctrs */
    struct image_pull *pull;
    struct pull_share share;   /* how much of the image is here */
    const struct image *image; /* held; NULL with pulled: the host */
    bool pulled;
    int64_t pull_said;  /* when an event last told of its progress, monotonic */
    int64_t pull_shown; /* and its status */
    struct runtime_container *container;
    bool mounted;
    bool stopping;
    bool probe_failed; /* startup or liveness says that it has to end */
    struct hook *hook; /* postStart or preStop under way */
    int64_t started;   /* when the runtime says so */
    struct opens *opens;
    void (*opens_then)(struct local_run *run);
    int64_t stop_by; /* monotonic: when KILL comes */
    struct probes *probes;
    struct usage_point used[USAGE_POINTS]; /* the newest first */
};

enum sandbox {
    SANDBOX_NONE,
    SANDBOX_NET,
    SANDBOX_VOLUMES, /* files of its volumes are being written */
    SANDBOX_PAUSE,
    SANDBOX_READY,
    SANDBOX_LEAVING,
    SANDBOX_GONE
};

/* Who the pod's processes are. */
struct pod_user {
    bool admin; /* the image and securityContext decide */
    uid_t uid;
    gid_t gid;
    gid_t groups[IMAGE_GROUPS_MAX];
    size_t groups_len;
    char name[64], group[64], home[1024];
    char group_lines[1024]; /* /etc/group of the others, as far as they fit */
};

struct local_pod {
    struct local_engine *engine;
    char *uid, *ns, *name, *dir;
    char *etc;             /* the folder of its /etc/hosts and so on, gone after a reboot */
    struct object *object; /* newest state known; NULL: it is gone */
    struct arena arena;    /* of doc */
    struct json *doc;
    struct arena scratch; /* of one sandbox_make or start_container */
    struct facts facts;
    struct local_run *runs; /* one for each of facts.ctrs */
    struct bind_need need;
    enum sandbox sandbox;
    bool host_network;
    struct pod_user user;
    bool user_known, user_asked;
    bool log_noted, log_asked, log_kept; /* keeper.c */
    bool etc_torn;                       /* its containers may have files mounted that are gone here */
    bool claim_said;                     /* that one of its claims is too full */
    bool fit_checked;                    /* whether a nodeName that somebody wrote can be */
    struct runtime_container *pause;     /* of shareProcessNamespace */
    pid_t pause_pid;
    int64_t volumes_retry; /* wall clock: not before */
    int64_t retry_at;      /* wall clock: what could not be written is written then */
    unsigned pending;      /* callbacks that cannot be taken back */
    unsigned streams;      /* commands and attached terminals */
    struct loop_timer *timer;
    bool has_turn, waits_turn; /* turns.c */
    struct settle *settle;     /* settle.c: under way */
    bool settled, wants_settled, status_changed, settle_failed;
    int64_t stop_from; /* monotonic: when its end began; 0: not yet */
    void (*content_done)(struct local_pod *pod, const struct err *err);
    bool content_busy,
        content_again;      /* gather.c: a thread writes files of its volumes; they have changed meanwhile */
    bool released;          /* it has lost its node: release.c */
    bool stale;             /* what an earlier daemon left of it belongs to an earlier binding */
    bool queued, dead;      /* dead: to be freed when nothing is pending */
    struct local_pod *next; /* in the queue */
};

struct local_engine {
    struct engine base; /* first: table.c */
    struct loop *loop;
    struct registry *registry;
    struct store *store;
    struct runtime *rt;
    struct images *images;
    struct podnet *net;
    struct log_watch *logs;
    char *node_name, *data_dir, *run_dir, host_ip[48];
    char **admins;
    struct gpus *gpus;
    const struct cdi *cdi;
    size_t cards;
    int64_t pids_max; /* processes and threads of one container */
    struct map *pods; /* uid → struct local_pod */
    char *log_dir;    /* keeper.c; NULL: no log is kept */
    engine_keep_fn keep;
    void *keep_arg;
    engine_token_fn token;
    void *token_arg;
    VEC(char *) keep_line; /* uids of pods whose log is to be copied; NULL: only to look for old ones */
    char *keep_uid;        /* whose is being copied */
    bool keep_busy;
    struct loop_timer *keep_retry;
    struct map *accounts; /* accounts.c: name of a user → what is known */
    void (*account_fn)(void *arg);
    void *account_arg;
    struct sampler *sampler; /* sample.c; NULL: nobody asks, or nobody can be asked */
    char *cgroup;
    struct local_pod *head, **tail;
    bool running, closed;
    bool going_down; /* shutdown.c: nothing is started any more */
    void (*down)(void *arg);
    void *down_arg;
    struct store_watch *watch, *volume_watch, *map_watch, *secret_watch;
    struct pod_ops pod_ops;
    struct pod_log *readers; /* that follow a container */
    VEC(char *) trash;       /* trash.c */
    struct loop_child *trash_rm;
    unsigned trash_last; /* number of the newest name */
    VEC(char *) slots;   /* slots.c: free ones */
    unsigned slot_last;
    unsigned turns;               /* turns.c: pods that are being made ready */
    VEC(char *) turn_line;        /* uids of those that wait for it */
    struct image_host *host_view; /* start.c: kept for a moment */
    int64_t host_view_at;
    unsigned streams;      /* of all pods */
    struct commit *commit; /* waits for what was written to become durable; NULL: none */
    struct loop_timer *retry;
    struct offload *offload;
    VEC(struct dial_lookup *) lookups; /* dial.c: names that are being looked up */
    struct loop_timer *disk_timer;
    int64_t measured_from;     /* monotonic */
    struct projects *projects; /* claims.c; NULL: the file system has no project quotas */
    char *claims_text;
    VEC(char *) claim_line;   /* volumes that are to be limited */
    struct map *claim_limits; /* name of a volume → its limit, int64_t */
    bool claim_busy;
    bool disk_short, memory_short;
    struct store_watch *service_watch;
    struct loop_timer *services_timer;
    char *services_text, *service_names; /* services.c: as of the last look; NULL: none */
    char *services_refused;              /* those without their node port: "\nNAMESPACE/NAME\n…" */
    struct map *services_told;           /* uids of services: that they have no address here */
    bool services_off;                   /* podnet cannot have what it was told */
    bool services_again;                 /* podnet is to be told, whatever it was told last */
    struct loop_timer *usage_timer;
    struct usage_point used[USAGE_POINTS]; /* of the node */
};

/* table.c */
extern const struct engine_ops local_ops;

/* engine.c */
void local_close(struct local_engine *engine); /* NULL is fine */
void local_free(struct local_engine *engine);
struct local_pod *local_find(const struct local_engine *engine, const char *uid);
void pod_queue(struct local_pod *pod);        /* pod_sync soon */
void local_look(struct local_engine *engine); /* soon, even where no pod is queued */
void local_pod_gone(struct local_pod *pod);   /* out of the map, freed when it may be */
__attribute__((format(printf, 4, 5))) void pod_event(struct local_pod *pod, const char *type,
                                                     const char *reason, const char *fmt, ...);

/* pod.c */
struct local_pod *local_pod_new(struct local_engine *engine, const struct object *object);
void local_pod_free(struct local_pod *pod);
void pod_take(struct local_pod *pod, const struct object *object); /* a newer state */
void pod_try_again(struct local_pod *pod); /* what lacked a config map or secret: perhaps it is there now */
void pod_sync(struct local_pod *pod);      /* one look: plan, act, write the status */
int pod_adopt(struct local_pod *pod, const char *id); /* -1: it is none of its containers' */
struct local_run *pod_run(const struct local_pod *pod, const char *container);
const struct json *pod_find_object(void *pod, const char *kind, const char *name);
struct env_world pod_world(struct local_pod *pod);

/* sandbox.c: network, namespaces, volumes, files; and their end. */
bool sandbox_shares(const struct local_pod *pod); /* ipc and uts namespaces outlive its containers */
void sandbox_make(struct local_pod *pod);
void sandbox_not_yet(struct local_pod *pod, const struct err *err); /* tried again soon */
/* The process that holds the pid namespace runs, or (err) has ended. */
/* The files of its volumes are written, or not (err). */
void sandbox_volumes(struct local_pod *pod, const struct err *err);
void sandbox_paused(struct local_pod *pod, const struct err *err);
void sandbox_part_gone(struct local_pod *pod); /* one thing less is pending */
/* Its containers have ended: what they wrote into volumes of its own goes; how they ended stays. */
void sandbox_make_room(struct local_pod *pod);
void sandbox_leave(struct local_pod *pod, bool forget); /* forget: logs and folder go, too */
void sandbox_write_hosts(struct local_pod *pod);        /* again, where it has one */
/* What somebody removed of it, while its containers run; false: nothing. */
bool sandbox_mend(struct local_pod *pod);
/* Of a pod that has just been taken up: namespaces that are pinned no more are taken from its processes. */
bool sandbox_rescue(struct local_pod *pod);

/* trash.c */
void sandbox_remove_tree(struct local_engine *engine, const char *path); /* the name is free at once */
bool trash_is(const char *name); /* of an entry of a folder: something that is being removed */
void trash_done(struct local_engine *engine);

/* release.c: a pod that has lost its node, and may get one again. */
void release_pod(struct local_pod *pod);
bool release_begun(const struct local_pod *pod); /* by an earlier daemon, which did not come to its end */
void release_sweep(struct local_engine *engine); /* folders of those, after their containers have gone */

/* settle.c */
bool pod_settled(
    struct local_pod *pod); /* its status is on the disk; false: the pod is looked at again then */
void settle_anew(struct local_pod *pod); /* there is something new to write */
void settle_ask(struct local_pod *pod);  /* after writing: asks for what pod_settled missed */
void settle_drop(struct local_pod *pod);

/* slots.c */
int slots_start(struct local_engine *engine, struct err *err);
void slots_sweep(struct local_engine *engine); /* removes those of no container that was taken up */
void slots_done(struct local_engine *engine);
char *slot_take(struct local_engine *engine, struct err *err);             /* for free(); NULL: err */
void slot_give(struct local_engine *engine, const char *path, bool again); /* again: it is clean */

/* keeper.c */
void keeper_stop(struct local_engine *engine); /* after the offload is closed */
void keeper_note(struct local_pod *pod);       /* before it writes: whether and where its log stays */
bool keeper_through(struct local_pod *pod);    /* its folder may go; false: the pod is looked at again then */
/* The folder of a pod that is not known any more; false: nothing of it is to be kept. Else the folder goes
 * afterwards. */
bool keeper_take(struct local_engine *engine, const char *uid);
bool keeper_last_line(const struct local_engine *engine, const char *uid, const char *container,
                      char ret[ENGINE_LINE_MAX]);

/* sample.c: engine_measure and engine_limit. */
void sample_start(struct local_engine *engine, engine_sample_fn fn, void *arg);
bool sample_limit(struct local_engine *engine, const char *pod_uid, uint32_t card, int64_t mib);
void sample_stop(struct local_engine *engine); /* after the offload is closed */

/* turns.c */
bool turn_take(struct local_pod *pod);  /* false: not yet; the pod is looked at again */
void turn_check(struct local_pod *pod); /* gives it up where it is not needed any more */
void turns_done(struct local_engine *engine);

/* start.c: a pulled container is mounted and started. */
#define START_MOUNT_ERROR "FailedMount" /* a reason: a volume cannot be had; tried again soon */
int start_container(struct local_run *run, const char **reason, struct err *err); /* reason: for the status */
void start_discard(struct local_run *run); /* what is left of its newest run: container, root */
char *start_log_path(const struct local_pod *pod, const char *container, int restarts);
char *
start_message_path(const struct local_run *run); /* of /dev/termination-log; NULL: its root is not mounted */
char *start_signal_path(const struct local_run *run); /* the image's stop signal, as text; NULL as well */
extern const struct runtime_events run_events;        /* run.c */

/* run.c: what the runtime and the image store report; ending a container. */
void run_begin(struct local_run *run); /* it has its image: start it */
void run_stop(struct local_run *run, int64_t grace_sec);
void run_free(struct local_run *run);

/* pull.c: its image, from a registry, an archive or what is here. */
void run_pull(struct local_run *run);

/* user.c */
/* Finds out who pod->user is, now (user_known is set) or soon (the pod is queued then). -1: neither. */
int user_find(struct local_pod *pod, struct err *err);
/* Where no directory has to be asked: admins, and users who are known by their number alone. */
bool user_known_at_once(const struct local_engine *engine, const struct json *pod, struct pod_user *ret);
/* From enter to leave this thread has the rights of the user in the file system; admins: root's. -1: errno.
 */
struct user_rights {
    bool other;
    int len;
    gid_t groups[1024];
};
int user_enter(const struct pod_user *user, struct user_rights *saved);
void user_leave(const struct user_rights *saved); /* keeps errno */
/* Opens a path with the rights of the user. */
int user_open(const struct pod_user *user, const char *path, int flags, struct err *err);
int user_mkdir(const struct pod_user *user, const char *path, struct err *err); /* with parents */

#define NO_OWNER "nothing says whose pod it is (annotation berth.dev/user): it cannot run"
bool user_by_number(const char *name, uid_t *uid); /* "uid-N" */
/* Admins, and users who are known by their number alone. */
bool user_needs_no_account(const struct local_engine *engine, const char *name);

/* accounts.c */
bool accounts_check(struct local_engine *engine, const char *user, char why[ENGINE_LINE_MAX]);
void accounts_free(struct local_engine *engine);

/* person.c */
struct pod_person {
    const char *name, *group, *home;
    const char *group_lines; /* of further groups, as /etc/group has them; NULL: none */
    uid_t uid;
    gid_t gid;
};
void person_add(const char *rootfs, const struct pod_person *person);

/* volumes.c */
/* Makes them; their files are being written when this returns 1, and sandbox_volumes() is called then. 0:
 * there are none to write. */
int volumes_prepare(struct local_pod *pod, struct err *err);
/* A config map or secret has changed (name NULL: the pod itself): files that show it change, too. */
void volumes_update(struct local_pod *pod, bool secret, const char *name);
void volumes_refresh(struct local_pod *pod); /* whatever they show */
void volumes_remove(struct local_pod *pod);  /* unmounts; the folder is removed by sandbox */
struct opens;
struct mounts {
    VEC(struct runtime_mount) v;
    VEC(int) fds; /* to be closed after the start */
    struct arena *arena;
    const struct opens *opens;
};
void mounts_done(struct mounts *mounts);
static inline void mounts_done_cleanup_(struct mounts *mounts)
{
    mounts_done(mounts);
}
int volumes_mount(struct local_pod *pod, const struct json *container, struct mounts *mounts,
                  struct err *err);

/* subpath.c */
struct env_list subpath_env(struct local_pod *pod, const struct json *container, struct arena *arena);
/* What of its volume a mount shows; "": all of it. */
const char *subpath_of(const struct json *mount, const struct env_list *env, struct arena *arena);
/* With the rights of the user; folders that are missing are made. Touches nothing else, for threads. */
int subpath_open(const struct pod_user *user, int root, const char *path, struct err *err);

/* opens.c: host paths and claims of a container are opened in a thread, with the rights of the pod's person.
 * 0: then(run) comes from the loop when run->opens is there. 1: there are none. */
int opens_begin(struct local_run *run, void (*then)(struct local_run *run), struct err *err);
/* A descriptor of one's own; sub: of that part of the volume. */
int opens_take(const struct opens *opens, const char *volume, const char *sub, struct err *err);
void opens_free(struct opens *opens); /* NULL is fine */
/* The folder of a claim's volume, in the arena. */
struct claim_dir {
    const char *path;
    bool own;          /* made here */
    const char *owner; /* whose alone it is; NULL: it is shared */
};
int opens_claim_dir(struct local_pod *pod, const char *claim, struct arena *arena, struct claim_dir *ret,
                    struct err *err);

/* claims.c: folders that may hold only so much. */
void claims_start(struct local_engine *engine, const struct local_config *config);
void claims_stop(struct local_engine *engine);
void claims_limit(struct local_engine *engine, const char *volume); /* soon, by its capacity */
void claims_gone(struct local_engine *engine, const char *volume);
void claims_limit_empty(const struct local_pod *pod, const char *dir, const char *volume, int64_t bytes);
/* Made for the claim's owner alone, or for everybody (owner NULL): each may remove their own files. Looks the
 * owner up, for threads. There already is fine. */
int claims_make_dir(const char *dir, const char *owner, struct err *err);
/* What a folder holds, where that is limited; false: it is not. */
bool claims_use(const struct local_engine *engine, const char *path, int64_t *ret);
void claims_sweep(struct local_engine *engine); /* numbers of folders that are gone */

/* gather.c: files of configMap, secret, downwardAPI and projected volumes. */
/* A thread writes them: what is gathered with gather_add is handed over by gather_send, one such work of a
 * pod at a time; who has something new meanwhile (pod->content_busy) sets content_again instead. */
struct gather_work;
int gather_add(struct gather_work **work, struct local_pod *pod, const struct json *volume, const char *dir,
               gid_t group, struct err *err);
/* done, in the loop: what went wrong, NULL: nothing. 0, or -1 with err: nothing is written. */
int gather_send(struct local_pod *pod, struct gather_work *work,
                void (*done)(struct local_pod *pod, const struct err *err), struct err *err);
void gather_drop(void *work); /* not handed over; NULL is fine */

/* hooks.c: fn is called once from the loop, unless the hook is freed before; why NULL: it went well, or its
 * time was up. False: there is nothing to do. limit_sec < 0: no limit. */
typedef void (*hook_fn)(struct local_run *run, const char *why);
bool hook_start(struct local_run *run, const struct json *handler, int64_t limit_sec, hook_fn fn);
void hook_free(struct hook *hook); /* NULL is fine */

/* pause.c */
bool pause_wanted(const struct local_pod *pod);
bool pause_is(const char *id);
int pause_make(struct local_pod *pod, struct err *err);
int pause_adopt(struct local_pod *pod, const char *id);
bool pause_alive(struct local_pod *pod); /* true where none is wanted */
void pause_remove(struct local_pod *pod);

/* sysctls.c: those of securityContext, into out. ERR_FORBIDDEN: not this pod's to set. */
int sysctls_read(const struct local_pod *pod, struct arena *arena, struct runtime_spec *out, struct err *err);

/* fit.c */
void fit_check(struct local_pod *pod);

/* disk.c */
void disk_start(struct local_engine *engine);

/* probes.c */
void probes_start(struct local_run *run,
                  bool known); /* known: it ran already, ready and begun are as they were */
void probes_stop(struct local_run *run);

/* shutdown.c: the machine goes down. */
void shutdown_begin(struct local_engine *engine, void (*fn)(void *arg), void *arg);
int64_t shutdown_grace(const struct local_engine *engine, int64_t grace_sec);
void shutdown_pod(struct local_pod *pod);         /* ends it, when it does */
void shutdown_check(struct local_engine *engine); /* whether all have ended */

/* services.c: connections and names of services. */
void services_start(struct local_engine *engine);
void services_stop(struct local_engine *engine);
void services_soon(struct local_engine *engine); /* a pod or service has changed */
/* Appends the names of services to /etc/hosts of a pod. */
void services_hosts(const struct local_pod *pod, struct buf *out);

/* usage.c: what containers and the node use, for `kubectl top`. */
void usage_start(struct local_engine *engine);
void usage_stop(struct local_engine *engine);
void usage_of_pod(void *engine, const struct pod_ref *ref,
                  void (*fn)(void *fn_arg, const struct pod_usage *usage), void *fn_arg);
int64_t usage_pids_max(void); /* so that one container cannot leave the machine without process ids */
bool usage_of_node(void *engine, const char *node, struct pod_usage *ret);

/* sweep.c: what an earlier engine left. */
void sweep_folder(struct local_engine *engine, const char *path); /* with what is mounted below it */
void sweep_start(struct local_engine *engine, const char *keep_unknown);

/* dial.c: as podnet_dial, also for pods in the host's network. */
struct dial;
struct dial *dial_new(struct local_pod *pod, uint16_t port, podnet_dial_fn fn, void *arg);
void dial_cancel(struct dial *dial); /* NULL is fine */
/* From the host's network, to an address or a name; only for admins' pods to the host's loopback. */
struct dial *dial_host(struct local_pod *pod, const char *host, uint16_t port, podnet_dial_fn fn, void *arg);
void dial_lookups_done(struct local_engine *engine); /* after the offload is closed */

/* ops.c */
void ops_init(struct local_engine *engine);
void ops_ended(struct local_run *run); /* its log gets no more: followers end */
void ops_done(struct local_engine *engine);
