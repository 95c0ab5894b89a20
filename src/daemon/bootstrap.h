/* bootstrap - what is there from the first start: namespaces, priority classes, the storage class, and
 * the node this machine is. */
#pragma once

#include "daemon/config.h"
#include "registry/registry.h"

/* Makes what is missing; leaves alone what is there. */
int bootstrap_objects(struct registry *registry, struct err *err);
/* The Node object of this machine, brought up to date with config and hardware. */
int bootstrap_node(struct registry *registry, const struct daemon_config *config, struct err *err);
