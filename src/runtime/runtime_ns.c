/* Namespaces without a process: made in a short-lived thread, kept by a bind mount on a file. */
#include "base/file.h"
#include "base/mem.h"
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/vfs.h>

struct pin {
    const char *hostname;
    char *ipc, *uts;
    int sys;          /* errno */
    const char *what; /* failed */
};

char *runtime_ns_path(const struct runtime *rt, const char *name, const char *kind)
{
    return mem_printf("%s/ns/%s.%s", rt->run_dir, name, kind);
}

static void *pin_thread(void *arg)
{
    struct pin *pin = arg;

    if (unshare(CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        pin->what = "make namespaces";
    else if (pin->hostname && sethostname(pin->hostname, strlen(pin->hostname)) < 0)
        pin->what = "set the host name";
    else if (mount("/proc/thread-self/ns/ipc", pin->ipc, NULL, MS_BIND, NULL) < 0 ||
             mount("/proc/thread-self/ns/uts", pin->uts, NULL, MS_BIND, NULL) < 0)
        pin->what = "pin namespaces";
    pin->sys = errno;
    return NULL;
}

static bool is_pinned(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == NSFS_MAGIC;
}

static int make_file(const char *path)
{
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    return fd < 0 ? -1 : 0;
}

static void unpin_path(char *path)
{
    umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    unlink(path);
    free(path);
}

int runtime_ns_pin(struct runtime *rt, const char *name, const char *hostname, struct err *err)
{
    CLEANUP(free) char *dir = mem_printf("%s/ns", rt->run_dir);
    CLEANUP(free) char *ipc = runtime_ns_path(rt, name, "ipc");
    CLEANUP(free) char *uts = runtime_ns_path(rt, name, "uts");
    struct pin pin = {.hostname = hostname, .ipc = ipc, .uts = uts};
    pthread_t thread;
    int rc;

    if (!bundle_id_valid(name))
        return err_set(err, ERR_INVALID, "namespace name '%s' is not valid", name);
    if (dir_make(dir, 0700, err) < 0)
        return -1;
    if (is_pinned(ipc) && is_pinned(uts))
        return 0;
    runtime_ns_unpin(rt, name); /* half of it, by a daemon that was killed meanwhile */
    if (make_file(ipc) < 0 || make_file(uts) < 0)
        return err_errno(err, errno, "create '%s'", uts);
    rc = pthread_create(&thread, NULL, pin_thread, &pin);
    if (rc == 0)
        pthread_join(thread, NULL);
    if (rc == 0 && !pin.what)
        return 0;
    runtime_ns_unpin(rt, name);
    return err_errno(err, rc ? rc : pin.sys, "%s for '%s'", rc ? "start a thread" : pin.what, name);
}

bool runtime_ns_pinned(const struct runtime *rt, const char *name)
{
    CLEANUP(free) char *ipc = runtime_ns_path(rt, name, "ipc");
    CLEANUP(free) char *uts = runtime_ns_path(rt, name, "uts");

    return is_pinned(ipc) && is_pinned(uts);
}

int runtime_ns_repin(struct runtime *rt, const char *name, pid_t pid, struct err *err)
{
    static const char *const kinds[] = {"ipc", "uts"};
    CLEANUP(free) char *dir = mem_printf("%s/ns", rt->run_dir);

    if (!bundle_id_valid(name))
        return err_set(err, ERR_INVALID, "namespace name '%s' is not valid", name);
    if (dir_make(dir, 0700, err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        CLEANUP(free) char *path = runtime_ns_path(rt, name, kinds[i]);
        CLEANUP(free) char *from = mem_printf("/proc/%d/ns/%s", (int)pid, kinds[i]);

        if (is_pinned(path))
            continue;
        unlink(path);
        if (make_file(path) < 0 || mount(from, path, NULL, MS_BIND, NULL) < 0)
            return err_errno(err, errno, "pin '%s' at '%s'", from, path);
    }
    return 0;
}

void runtime_ns_unpin(struct runtime *rt, const char *name)
{
    if (!bundle_id_valid(name))
        return;
    unpin_path(runtime_ns_path(rt, name, "ipc"));
    unpin_path(runtime_ns_path(rt, name, "uts"));
}
