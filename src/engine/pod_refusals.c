/* The refusals of pod_ops.h. */
#include "engine/pod_ops.h"

int pod_err_waiting(struct err *err, const char *container, const char *pod, const char *reason)
{
    return err_set(err, ERR_INVALID, "container \"%s\" in pod \"%s\" is waiting to start: %s", container, pod,
                   reason);
}

int pod_err_no_previous(struct err *err, const char *container, const char *pod)
{
    return err_set(err, ERR_INVALID, "previous terminated container \"%s\" in pod \"%s\" not found",
                   container, pod);
}

int pod_err_not_running(struct err *err, const char *container)
{
    return err_set(err, ERR_INTERNAL, "container not found (\"%s\")", container);
}

int pod_err_no_sandbox(struct err *err, const char *pod)
{
    return err_set(err, ERR_INTERNAL, "pod \"%s\" is not running", pod);
}
