/* task_service - the task service of this daemon with what it needs: where callbacks may go, how they travel,
 * their queue. */
#pragma once

#include "base/err.h"
#include "daemon/config.h"

struct loop;
struct registry;
struct task_service;
struct tasks;

/* Makes the shipped templates at the first start, takes up callbacks that are left. */
int task_service_new(struct loop *loop, struct registry *registry, const struct daemon_config *config,
                     struct task_service **ret, struct err *err);
struct tasks *task_service_tasks(const struct task_service *service);
void task_service_stop(struct task_service *service); /* before the registry and the store go; NULL is fine */
void task_service_free(struct task_service *service); /* after the store was closed; NULL is fine */
