/* A pod whose spec.nodeName is cleared (the queue takes back one that could not start) is ended like one
 * whose object has gone, except that it has its grace: processes, network, folders. Nothing is written to its
 * object any more. When it is bound again before that is through, it is taken up anew afterwards.
 *
 * A file in its folder says that this has begun: a daemon that starts in between takes up none of its
 * containers, even where the pod has been bound again and would know them by their names. */
#include "base/file.h"
#include "base/log.h"
#include "engine/local/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define LOG_MODULE "engine"
#define NOTE       "released"

void release_pod(struct local_pod *pod)
{
    CLEANUP(free) char *path = mem_printf("%s/" NOTE, pod->dir);
    CLEANUP(fd_close) int fd = -1;

    if (pod->released || !pod->object)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno != ENOENT) /* it may have no folder yet */
        log_warn("write '%s': %s", path, strerror(errno));
    pod->released = true;
    pod->facts.deleting = true;
    object_unref(TAKE_PTR(pod->object));
    pod_queue(pod);
}

bool release_begun(const struct local_pod *pod)
{
    CLEANUP(free) char *path = mem_printf("%s/" NOTE, pod->dir);

    return access(path, F_OK) == 0;
}

void release_sweep(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        if (!pod->stale)
            continue;
        pod->stale = false;
        sweep_folder(engine, pod->dir);
        sweep_folder(engine, pod->etc);
    }
}
