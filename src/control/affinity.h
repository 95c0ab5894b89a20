/* affinity - which nodes a pod may run on, by what it says of nodes: nodeSelector, required node affinity and
 * tolerations. Whether there is room is asked elsewhere. Documents of a Pod (or whatever has such a spec) and
 * of a Node. */
#pragma once

#include "base/json.h"

/* Does the pod's nodeSelector and required node affinity name this node? Pods without either want any. */
bool affinity_selects(const struct json *pod, const struct json *node);
/* A taint of the node that keeps the pod out; NULL: none. Those that Kubernetes sets for a node's state
 * (node.kubernetes.io/) keep nobody out: the node's conditions say the same. */
const struct json *affinity_untolerated(const struct json *pod, const struct json *node);
/* Both. */
bool affinity_takes(const struct json *pod, const struct json *node);
