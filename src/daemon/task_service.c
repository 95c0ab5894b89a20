#include "daemon/task_service.h"

#include "base/mem.h"
#include "daemon/notify_service.h"
#include "tasks/tasks.h"

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

int task_service_new(struct loop *loop, struct registry *registry, struct notify_service *notify,
                     struct task_service **ret, struct err *err)
{
    struct task_service *service = NEW(struct task_service);

    *ret = service;
    service->notify = notify;
    service->tasks = tasks_new(&(struct tasks_config){.loop = loop,
                                                      .registry = registry,
                                                      .notify = notify_service_queue(notify),
                                                      .policy = notify_service_policy(notify)});
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
