/* env - the environment of a container as its pod says: values with $(VAR), references to fields, amounts,
 * config maps and secrets. Pure but for the function that looks objects up. */
#pragma once

#include "base/json.h"

struct env_world {
    void *arg;
    /* The document of a ConfigMap ("configmap") or Secret ("secret") in the pod's namespace; NULL: none. */
    const struct json *(*find)(void *arg, const char *kind, const char *name);
    const char *pod_ip, *host_ip, *node_name;
    const struct json *allocatable; /* of the node, for amounts without a limit; may be NULL */
};

#define ENV_TEXT_MAX  (128 << 10) /* bytes of one value or argument: what the kernel takes, too */
#define ENV_BYTES_MAX (2 << 20)   /* of all variables, and of all arguments */
#define ENV_COUNT_MAX 4096        /* variables */

/* "NAME=value" strings, in order; the last of a name wins. */
struct env_list {
    const char **v;
    size_t len, cap;
    size_t bytes; /* set so far, also what was set again */
    bool full;    /* something did not fit */
};
/* What does not fit within the limits is left out, and the list is `full`. */
void env_set(struct env_list *list, struct arena *arena, const char *name, const char *value);

/* Adds the container's own to what is in list. ERR_NOT_FOUND: a map, secret or key that is not optional is
 * missing (CreateContainerConfigError). ERR_LIMIT: it is too much. */
int env_fill(struct env_list *list, struct arena *arena, const struct json *pod, const struct json *container,
             const struct env_world *world, struct err *err);
/* $(NAME) replaced where known, $$ is $. NULL: it would be longer than ENV_TEXT_MAX. */
const char *env_expand(struct arena *arena, const char *text, const struct env_list *list);
/* The value at a fieldPath: "metadata.labels['a']", "status.podIP". ERR_INVALID: not offered. */
int env_field(struct arena *arena, const struct json *pod, const char *path, const struct env_world *world,
              const char **ret, struct err *err);
/* resourceFieldRef: limits.cpu … divided by divisor, rounded up. */
int env_resource(struct arena *arena, const struct json *pod, const struct json *container,
                 const struct json *ref, const struct env_world *world, const char **ret, struct err *err);
/* The value of a member of data (coded: of binaryData, or of a secret). {NULL}: it is no such text. */
struct str env_value(struct arena *arena, const struct json *value, bool coded);
/* One key of a map or secret; decoded. *ret {NULL}: not there. */
struct str env_key(struct arena *arena, const struct json *object, bool secret, const char *key);
