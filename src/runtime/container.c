/* The life of a container as the daemon sees it. Its shim says what happens over one socket; when that ends,
 * the exit record in the folder has the last word, and where there is none the shim has died: what is left of
 * the container is killed, since nobody takes its output or its exit status any more. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LOG_MODULE   "runtime"

#define CONNECT_TIME (5 * NSEC_PER_SEC) /* for a shim that was started a moment ago to listen */
#define CONNECT_STEP (5 * NSEC_PER_MSEC)

static int start_shim(struct runtime_container *c, struct err *err);
static int ask_for_shim(struct runtime_container *c, struct err *err);
static void on_control(void *arg, uint32_t events);

/* ---- turns ---- */

static void start_next(struct runtime *rt)
{
    while (rt->waiting && rt->starting < rt->starting_max) {
        struct runtime_container *c = rt->waiting;

        rt->waiting = c->next_waiting;
        if (!rt->waiting)
            rt->waiting_end = &rt->waiting;
        c->in_line = false;
        if (start_shim(c, &c->start_err) < 0)
            loop_timer_set(c->later, 0);
        else if (c->early_signal)
            runtime_signal(c, c->early_signal, NULL);
    }
}

static void leave_line(struct runtime_container *c)
{
    struct runtime *rt = c->rt;

    for (struct runtime_container **at = &rt->waiting; *at; at = &(*at)->next_waiting)
        if (*at == c) {
            *at = c->next_waiting;
            break;
        }
    rt->waiting_end = &rt->waiting;
    while (*rt->waiting_end)
        rt->waiting_end = &(*rt->waiting_end)->next_waiting;
    c->in_line = false;
}

/* It has been started, or never will be: the next one may. */
static void turn_over(struct runtime_container *c)
{
    if (c->in_line)
        leave_line(c);
    if (!c->in_start)
        return;
    c->in_start = false;
    c->rt->starting--;
    start_next(c->rt);
}

/* Undoes bind_fds: the container has these mounts now, or never will. */
static void unbind_fds(struct runtime_container *c)
{
    for (; c->fd_mounts > 0; c->fd_mounts--) {
        CLEANUP(free) char *place = mem_printf("%s/mnt/%zu", c->dir, c->fd_mounts - 1);

        umount2(place, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
}

static void tell_started(struct runtime_container *c, pid_t pid, int64_t time)
{
    if (c->state != CONTAINER_STARTING)
        return;
    unbind_fds(c);
    turn_over(c);
    c->state = CONTAINER_RUNNING;
    c->pid = pid;
    c->started = time;
    if (c->events->started)
        c->events->started(c->arg, c, pid, time);
}

/* Nothing of c may be touched after these two: the callback may have given it up. */
static void tell_failed(struct runtime_container *c, struct str line)
{
    CLEANUP(free) char *sentence = oci_sentence(line);

    c->state = CONTAINER_ENDED;
    unbind_fds(c);
    turn_over(c);
    loop_timer_stop(c->stop);
    if (c->events->failed)
        c->events->failed(c->arg, c, sentence);
}

static void tell_exited(struct runtime_container *c, const struct runtime_exit *how)
{
    c->state = CONTAINER_ENDED;
    turn_over(c);
    c->pid = 0;
    loop_timer_stop(c->stop);
    if (c->events->exited)
        c->events->exited(c->arg, c, how);
}

static void close_control(struct runtime_container *c)
{
    loop_io_free(c->io);
    c->io = NULL;
    fd_close(take_fd(&c->control));
}

/* From the folder: the record, or why there is none. */
static void tell_from_disk(struct runtime_container *c)
{
    CLEANUP(buf_done) struct buf conf = {0};
    CLEANUP(free) char *path = mem_printf("%s/shim.conf", c->dir);
    struct record record;
    struct err err = {0};

    if (c->state == CONTAINER_ENDED)
        return;
    if (record_read(c->dir, &record, &err) == 0) {
        CLEANUP(free) char *failed = record.failed;

        if (failed)
            tell_failed(c, str_from(failed));
        else
            tell_exited(c, &record.how);
        return;
    }
    if (c->ours && !c->shim_pid) { /* a shim says hello before it starts anything */
        bool again = !c->again;

        /* The process that forks them may have been killed with our question unread, and its socket may
         * outlive that question: another one is asked. */
        if (again && c->nursery_turn == c->rt->nursery_turn)
            nursery_end(c->rt);
        again = again && ask_for_shim(c, NULL) == 0;
        c->again = true;
        if (!again)
            tell_failed(c, STR("berth-shim ended before it could do anything"));
        return;
    }
    record.how = (struct runtime_exit){
        .end = RUNTIME_END_VANISHED, .code = 137, .started = c->started, .finished = clock_now()};
    file_read(path, SHIM_CONF_MAX, &conf, NULL);
    if (conf.len > 0 && memmem(conf.data, conf.len, c->rt->boot_id, strlen(c->rt->boot_id))) {
        record.how.end = RUNTIME_END_LOST;
        record.how.signal = SIGKILL;
        cgroup_kill(c->rt->cgroup, c->id);
        log_warn("container %s: its shim is gone without an exit record", c->id);
    }
    tell_exited(c, &record.how);
}

static bool find_shim(struct runtime_container *c)
{
    if (oci_connect(c->dir, &c->control) < 0)
        return false;
    c->io = loop_io_new(c->rt->loop, c->control, EPOLLIN, on_control, c);
    return true;
}

static void later(void *arg)
{
    struct runtime_container *c = arg;

    if (c->connect_by) {
        if (find_shim(c))
            return;
        if (clock_monotonic() < c->connect_by && folder_has_shim(c->dir)) {
            loop_timer_set(c->later, CONNECT_STEP);
            return;
        }
    }
    if (c->start_err.code)
        tell_failed(c, str_from(c->start_err.msg));
    else
        tell_from_disk(c);
}

static void on_exited(struct runtime_container *c, const struct shim_msg *msg)
{
    struct runtime_exit how = {.code = msg->code,
                               .signal = msg->signal,
                               .oom = msg->oom > 0,
                               .started = msg->started,
                               .finished = msg->finished,
                               .log_dropped = msg->dropped};

    tell_exited(c, &how);
}

static void on_hello(struct runtime_container *c, const struct shim_msg *msg)
{
    c->shim_pid = msg->shim_pid;
    c->tty = msg->flags & 1;
    if (msg->state == SHIM_DELETING)
        tell_from_disk(c);
    else if (msg->state != SHIM_CREATING)
        tell_started(c, msg->pid, msg->started);
}

static void on_control(void *arg, uint32_t events)
{
    struct runtime_container *c = arg;
    static char data[SHIM_CHUNK];
    struct shim_msg msg = {0};
    ssize_t len = oci_recv(c->control, &msg, data, sizeof(data), NULL);

    (void)events;
    if (len < 0 && errno == EAGAIN)
        return;
    if (len < 0) {
        close_control(c);
        tell_from_disk(c);
        return;
    }
    if (c->state == CONTAINER_ENDED)
        return;
    switch (msg.type) {
    case SHIM_HELLO:
        on_hello(c, &msg);
        break;
    case SHIM_STARTED:
        tell_started(c, msg.pid, msg.started);
        break;
    case SHIM_FAILED:
        tell_failed(c, (struct str){data, (size_t)len});
        break;
    case SHIM_EXITED:
        on_exited(c, &msg);
        break;
    default:
        break;
    }
}

static void on_stop_timer(void *arg)
{
    runtime_kill_all(arg);
}

/* ---- handles ---- */

static struct runtime_container *container_new(struct runtime *rt, const char *id,
                                               const struct runtime_events *events, void *arg)
{
    struct runtime_container *c = NEW(struct runtime_container);

    c->rt = rt;
    c->id = mem_strdup(id);
    c->dir = mem_printf("%s/%s", rt->state_dir, id);
    c->events = events;
    c->arg = arg;
    c->control = -1;
    c->stop = loop_timer_new(rt->loop, on_stop_timer, c);
    c->later = loop_timer_new(rt->loop, later, c);
    return c;
}

static void container_free(struct runtime_container *c)
{
    if (!c)
        return;
    turn_over(c);
    close_control(c);
    loop_timer_free(c->stop);
    loop_timer_free(c->later);
    buf_done(&c->conf);
    free(c->id);
    free(c->dir);
    free(c);
}
DEFINE_CLEANUP(struct runtime_container *, container_free);

void runtime_forget(struct runtime_container *c)
{
    map_remove(c->rt->containers, str_from(c->id));
    container_free(c);
}

void runtime_remove(struct runtime_container *c, runtime_done_fn done, void *arg)
{
    loop_io_free(c->io);
    c->io = NULL;
    removal_start(c->rt, c->id, c->dir, take_fd(&c->control), c->shim_pid, done, arg);
    runtime_forget(c);
}

/* ---- start and adopt ---- */

/* A mount source given as a descriptor is bound into the container's folder: the OCI runtime works in a mount
 * namespace of its own, in which it cannot use a descriptor of ours. */
static int bind_fds(struct runtime_container *c, const struct runtime_spec *spec, const char *fd_dir,
                    struct err *err)
{
    for (size_t i = 0; i < spec->mounts_len; i++) {
        const struct runtime_mount *mount_ = &spec->mounts[i];
        CLEANUP(free) char *place = mem_printf("%s/%zu", fd_dir, i);
        char source[40];
        struct stat st;

        if (mount_->source_fd <= 0)
            continue;
        if (fstat(mount_->source_fd, &st) < 0)
            return err_errno(err, errno, "mount of '%s'", mount_->target);
        if (dir_make(S_ISDIR(st.st_mode) ? place : fd_dir, 0700, err) < 0)
            return -1;
        if (!S_ISDIR(st.st_mode) && mknod(place, S_IFREG | 0600, 0) < 0)
            return err_errno(err, errno, "create '%s'", place);
        snprintf(source, sizeof(source), "/proc/self/fd/%d", mount_->source_fd);
        if (mount(source, place, NULL, MS_BIND | (mount_->flags & RUNTIME_MOUNT_REC ? MS_REC : 0), NULL) < 0)
            return err_errno(err, errno, "bind the source of '%s'", mount_->target);
        c->fd_mounts = i + 1;
    }
    return 0;
}

/* Lets the shim clean up by itself where the OCI runtime would do no more. */
static void conf_deletion(const struct runtime *rt, const struct runtime_spec *spec, struct buf *conf)
{
    bool quick = spec->pid.mode == RUNTIME_NS_OWN; /* else processes may be left */

    for (size_t i = 0; i < spec->hooks_len; i++)
        quick &= !streq(spec->hooks[i].when, "poststop");
    oci_conf_int(conf, "quick", quick);
    for (size_t i = 0; quick; i++) {
        CLEANUP(free) char *path = cgroup_path(rt->cgroup, i, spec->id);
        char key[16];

        snprintf(key, sizeof(key), "cgroup%zu", i);
        if (!path)
            break;
        oci_conf(conf, key, path);
    }
}

/* What bundle_config has left for when it runs. */
static void conf_weight(const struct runtime *rt, const struct runtime_spec *spec, struct buf *conf)
{
    CLEANUP(free) char *path = NULL;
    char text[32];

    if (spec->cpu_shares <= 0 || spec->cpu_shares >= BUNDLE_START_SHARES)
        return;
    path = cgroup_weight_path(rt->cgroup, spec->id, spec->cpu_shares, text);
    oci_conf(conf, "weight_path", path);
    oci_conf(conf, "weight", text);
}

/* All but shim.conf: where there is none, the container has not had its turn. */
static int write_folder(struct runtime_container *c, const struct runtime_spec *spec, struct err *err)
{
    struct runtime *rt = c->rt;
    const char *dir = c->dir;
    CLEANUP(free) char *fd_dir = mem_printf("%s/mnt", dir);
    struct bundle_host host = rt->host;
    CLEANUP(buf_done) struct buf config = {0};
    struct buf *conf = &c->conf;
    CLEANUP(free) char *oom = cgroup_oom_path(rt->cgroup, spec->id);

    host.fd_dir = fd_dir;
    if (bundle_config(&host, spec, &config, err) < 0)
        return -1;
    if (access(spec->rootfs, F_OK) < 0)
        return err_errno(err, errno, "rootfs '%s'", spec->rootfs);
    oci_conf_common(rt, conf, dir);
    oci_conf(conf, "boot", rt->boot_id);
    oci_conf(conf, "oom", oom);
    conf_weight(rt, spec, conf);
    conf_deletion(rt, spec, conf);
    oci_conf(conf, "log", spec->log_path);
    oci_conf_int(conf, "log_max", spec->log_max_bytes);
    oci_conf_int(conf, "log_files", spec->log_max_files ? spec->log_max_files : 2);
    oci_conf_int(conf, "tty", spec->tty);
    oci_conf_int(conf, "stdin", spec->stdin_open);
    oci_conf_int(conf, "stdin_once", spec->stdin_once);
    oci_conf_int(conf, "rows", spec->tty_rows ? spec->tty_rows : 24);
    oci_conf_int(conf, "cols", spec->tty_cols ? spec->tty_cols : 80);
    oci_conf_int(conf, "uid", spec->uid);
    oci_conf_int(conf, "gid", spec->gid);
    if (conf->len >= SHIM_CONF_MAX - 1)
        return err_set(err, ERR_INVALID, "container '%s': its paths are too long", spec->id);
    if (mkdir(dir, 0700) < 0)
        return err_errno(err, errno, "container '%s': make its folder", spec->id);
    c->made_folder = true;
    if (bind_fds(c, spec, fd_dir, err) < 0 || oci_write(dir, "config.json", buf_view(&config), err) < 0)
        return -1;
    return 0;
}

static int ask_for_shim(struct runtime_container *c, struct err *err)
{
    const char *words[] = {"run", c->id, NULL};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "make a socket pair");
    c->control = pair[0];
    if (nursery_shim(c->rt, c->dir, words, NULL, pair[1], err) < 0) {
        close(pair[1]);
        return -1;
    }
    close(pair[1]);
    c->nursery_turn = c->rt->nursery_turn;
    c->io = loop_io_new(c->rt->loop, c->control, EPOLLIN, on_control, c);
    return 0;
}

static int start_shim(struct runtime_container *c, struct err *err)
{
    if (oci_write(c->dir, "shim.conf", buf_view(&c->conf), err) < 0)
        return -1;
    buf_done(&c->conf);
    if (ask_for_shim(c, err) < 0)
        return -1;
    c->in_start = true;
    c->rt->starting++;
    c->ours = true;
    return 0;
}

int runtime_start(struct runtime *rt, const struct runtime_spec *spec, const struct runtime_events *events,
                  void *arg, struct runtime_container **ret, struct err *err)
{
    CLEANUP(container_free) struct runtime_container *c = NULL;
    struct err first = {0};

    if (!bundle_id_valid(spec->id))
        return err_set(err, ERR_INVALID, "container id '%s' is not valid", spec->id ? spec->id : "");
    if (map_get(rt->containers, str_from(spec->id)))
        return err_set(err, ERR_EXISTS, "container '%s' exists", spec->id);
    c = container_new(rt, spec->id, events, arg);
    c->tty = spec->tty;
    if (write_folder(c, spec, &first) < 0 || (rt->starting < rt->starting_max && start_shim(c, &first) < 0)) {
        if (c->made_folder) {
            unbind_fds(c);
            removal_tree(c->dir);
        }
        if (err)
            *err = first;
        return -1;
    }
    if (!c->in_start) {
        c->in_line = true;
        *rt->waiting_end = c;
        rt->waiting_end = &c->next_waiting;
    }
    map_set(rt->containers, str_from(c->id), c);
    *ret = TAKE_PTR(c);
    return 0;
}

int runtime_adopt(struct runtime *rt, const char *id, const struct runtime_events *events, void *arg,
                  struct runtime_container **ret, struct err *err)
{
    CLEANUP(container_free) struct runtime_container *c = NULL;

    if (!bundle_id_valid(id))
        return err_set(err, ERR_INVALID, "container id '%s' is not valid", id);
    if (map_get(rt->containers, str_from(id)))
        return err_set(err, ERR_EXISTS, "container '%s' is held already", id);
    c = container_new(rt, id, events, arg);
    if (access(c->dir, F_OK) < 0)
        return err_set(err, ERR_NOT_FOUND, "there is no container '%s'", id);
    if (!find_shim(c)) {
        if (folder_never_begun(c->dir)) {
            removal_tree(c->dir);
            return err_set(err, ERR_NOT_FOUND, "container '%s' was never begun", id);
        }
        c->connect_by = clock_monotonic() + CONNECT_TIME;
        loop_timer_set(c->later, 0);
    }
    map_set(rt->containers, str_from(id), c);
    *ret = TAKE_PTR(c);
    return 0;
}

struct runtime_container *runtime_get(const struct runtime *rt, const char *id)
{
    return map_get(rt->containers, str_from(id));
}

/* ---- ending and other control ---- */

int runtime_signal(struct runtime_container *c, int signo, struct err *err)
{
    struct shim_msg msg = {.type = SHIM_SIGNAL, .signal = signo};

    if (c->in_line) {
        c->early_signal = signo;
        return 0;
    }
    if (c->state == CONTAINER_ENDED || c->control < 0)
        return err_set(err, ERR_CONFLICT, "container '%s' does not run", c->id);
    if (oci_send(c->control, &msg, NULL, 0) < 0)
        return err_errno(err, errno, "signal container '%s'", c->id);
    return 0;
}

void runtime_kill_all(struct runtime_container *c)
{
    runtime_signal(c, SIGKILL, NULL); /* also when its cgroup is not there yet */
    cgroup_kill(c->rt->cgroup, c->id);
}

void runtime_stop(struct runtime_container *c, int signo, int64_t grace_ns)
{
    int64_t at = clock_monotonic() + grace_ns;

    if (c->state == CONTAINER_ENDED)
        return;
    if (c->stop_at == 0)
        runtime_signal(c, signo ? signo : SIGTERM, NULL);
    if (c->stop_at && at >= c->stop_at)
        return;
    c->stop_at = at;
    loop_timer_set(c->stop, grace_ns > 0 ? grace_ns : 0);
}

int runtime_stats(const struct runtime_container *c, struct runtime_stats *ret, struct err *err)
{
    return cgroup_stats(c->rt->cgroup, c->id, ret, err);
}

uint64_t runtime_cpu(const struct runtime_container *c)
{
    return cgroup_cpu(c->rt->cgroup, c->id);
}
