#include "daemon/task_service.h"

#include "base/mem.h"
#include "notify/webhook.h"
#include "tasks/tasks.h"

struct task_service {
    struct policy *policy;
    struct webhook *webhook;
    struct notify *notify;
    struct tasks *tasks;
};

static void on_lost(void *arg, const char *lane, const char *why)
{
    const struct task_service *service = arg;

    if (service->tasks)
        tasks_callback_lost(service->tasks, lane, why);
}

int task_service_new(struct loop *loop, struct registry *registry, const struct daemon_config *config,
                     struct task_service **ret, struct err *err)
{
    struct task_service *service = NEW(struct task_service);

    *ret = service;
    if (policy_new((const char *const *)config->callback_allow.v, config->callback_allow.len,
                   &service->policy, err) < 0)
        return err_prefix(err, "callback-allow");
    service->webhook = webhook_new(loop, service->policy, config->callback_ca);
    service->notify = notify_new(&(struct notify_config){
        .loop = loop, .store = registry_store(registry), .lost = on_lost, .arg = service});
    notify_add_handler(service->notify, webhook_handler(service->webhook));
    notify_start(service->notify);
    service->tasks = tasks_new(&(struct tasks_config){
        .loop = loop, .registry = registry, .notify = service->notify, .policy = service->policy});
    return tasks_ship(service->tasks, err);
}

struct tasks *task_service_tasks(const struct task_service *service)
{
    return service ? service->tasks : NULL;
}

void task_service_stop(struct task_service *service)
{
    if (!service)
        return;
    notify_stop(service->notify);
    tasks_free(TAKE_PTR(service->tasks));
}

void task_service_free(struct task_service *service)
{
    if (!service)
        return;
    notify_free(service->notify);
    webhook_free(service->webhook);
    policy_free(service->policy);
    free(service);
}
