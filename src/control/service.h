/* service - addresses of services: a cluster address from 10.96.0.0/16 and node ports from 30000–32767, each
 * given once. There is no list of what is given: the services there are say it. And which pods a service
 * leads to. */
#pragma once

#include "base/json.h"
#include "objects/failure.h"

#define SERVICE_IPS        65536
#define SERVICE_PORT_FIRST 30000
#define SERVICE_PORTS      2768

/* What other services have. Zero-initialised is nothing. */
struct service_taken {
    uint8_t ips[SERVICE_IPS / 8];
    uint8_t ports[SERVICE_PORTS / 8];
};
void service_take_ip(struct service_taken *taken, struct str ip); /* "", None and others are nothing */
void service_take_ports(struct service_taken *taken, const struct json *spec);

/* Whether service_admit has something to choose or to check: spec is new, or differs from old (NULL: none).
 */
bool service_needs_addresses(const struct json *spec, const struct json *old);
/* Fills in the addresses that doc needs and does not name; seed says where to start looking. A 422 where one
 * that it names is taken or out of range, or none is left. */
int service_admit(const struct service_taken *taken, struct arena *arena, struct json *doc, uint64_t seed,
                  struct failure *failure);

/* A machine's address for a service of type LoadBalancer whose node ports it has; NULL: not reached. False
 * where status says so already. A service of another load balancer's class is left alone. */
bool service_set_balancer(struct arena *arena, struct json *service, const char *address);

bool service_is_headless(const struct json *service);                     /* clusterIP: None */
bool service_selects(const struct json *service, const struct json *pod); /* by its labels alone */
bool service_pod_ready(const struct json *pod);                           /* its condition Ready */
/* Whether connections to the service may come to the pod (both documents, of one namespace): its selector
 * chooses the pod, which has an address and is ready, or the service is also for those that are not. */
bool service_takes_pod(const struct json *service, const struct json *pod);
/* The port of the pod that an entry of spec.ports leads to; 0: the pod has none of that name. */
uint16_t service_target_port(const struct json *port, const struct json *pod);
