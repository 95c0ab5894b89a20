/* What the task service's addresses share. */
#pragma once

#include "api/rest/rest.h"
#include "tasks/tasks.h"

/* `namespace` of the query, else the caller's own ("default" for admins). */
const char *rest_task_ns(struct call *call);
/* False with the failure set. */
bool rest_task_may(struct call *call, const char *verb, int kind, const char *subresource, const char *ns,
                   const char *name);
struct write rest_task_write(struct call *call);
