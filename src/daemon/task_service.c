#include "daemon/task_service.h"

#include "base/mem.h"
#include "daemon/notify_service.h"
#include "tasks/tasks.h"

#include <limits.h>
#include <unistd.h>

struct task_service {
    struct notify_service *notify;
    struct tasks *tasks;
};

static void service_lost(void *arg, const char *lane, const char *why)
{
    const struct task_service *service = arg;

    if (service->tasks)
        tasks_callback_lost(service->tasks, lane, why);
}

/* Beside berthd, where it is installed, or in the build folder. */
static char *find_renderer(void)
{
    static const char *const places[] = {"%s/berth-render", "%s/../libexec/berth/berth-render",
                                         "%s/../tasks/berth-render"};
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;

    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < ARRAY_LEN(places); i++) {
        char *path = mem_printf(places[i], self);

        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

int task_service_new(struct loop *loop, struct registry *registry, struct notify_service *notify,
                     struct task_service **ret, struct err *err)
{
    struct task_service *service = NEW(struct task_service);
    CLEANUP(free) char *renderer = find_renderer();

    *ret = service;
    if (!renderer)
        return err_set(err, ERR_NOT_FOUND, "the program berth-render is missing; install Berth as a whole");
    service->notify = notify;
    service->tasks = tasks_new(&(struct tasks_config){.loop = loop,
                                                      .registry = registry,
                                                      .notify = notify_service_queue(notify),
                                                      .policy = notify_service_policy(notify),
                                                      .render_program = renderer});
    notify_service_on_lost(notify, service_lost, service);
    return tasks_ship(service->tasks, err);
}

struct tasks *task_service_tasks(const struct task_service *service)
{
    return service ? service->tasks : NULL;
}

void task_service_free(struct task_service *service)
{
    if (!service)
        return;
    notify_service_on_lost(service->notify, NULL, NULL);
    tasks_free(service->tasks);
    free(service);
}
