/* task_service - the task service of this daemon; its callbacks go through the daemon's messages. */
#pragma once

#include "base/err.h"

struct loop;
struct notify_service;
struct registry;
struct task_service;
struct tasks;

/* Makes the shipped templates at the first start. Borrows notify. */
int task_service_new(struct loop *loop, struct registry *registry, struct notify_service *notify,
                     struct task_service **ret, struct err *err);
struct tasks *task_service_tasks(const struct task_service *service);
void task_service_free(struct task_service *service); /* before the registry and the store go; NULL is fine */
