/* policy - which addresses Berth connects to for its users. Public addresses are fine; loopback, private,
 * link-local and other special ones only where the operator allows them, since behind them are the services
 * of this machine and this network. What is checked is the address that is connected to, after names were
 * resolved, so that a name cannot change its meaning in between. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <sys/socket.h>

#define POLICY_NETWORKS_MAX 256

struct policy;

/* Entries: "private" (10/8, 172.16/12, 192.168/16, fc00::/7), "loopback", "all", or networks as
 * "192.0.2.0/24" and "2001:db8::/32"; an address alone is itself. ERR_INVALID names the wrong one. */
int policy_new(const char *const *entries, size_t count, struct policy **ret, struct err *err);
void policy_free(struct policy *policy); /* NULL is fine */

bool policy_allows(const struct policy *policy, const struct sockaddr *address);
/* The host of a URL, as far as it is an address or "localhost": false when that is refused. Other names are
 * judged when they are resolved. */
bool policy_allows_host(const struct policy *policy, struct str host);
