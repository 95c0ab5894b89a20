/* netns - network namespaces that live without a process, pinned to a file. All calls change the calling
 * thread's namespace for a moment: only the helper thread of podnet makes them. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

int netns_here(struct err *err); /* the caller's own, as a descriptor */

/* Makes one, pins it at path (an older pin there is removed), and opens netlink and the namespace itself in
 * it; the caller is in `home` again. lo is down yet. */
int netns_make(int home, const char *path, int *ret_ns, int *ret_netlink, struct err *err);
bool netns_pinned(const char *path); /* a namespace is pinned there */
/* Pins the namespace of a process at path again. ERR_CONFLICT: that process is in `home`. */
int netns_pin(int home, pid_t pid, const char *path, struct err *err);
/* Unpins. The namespace ends with its last process. None is fine. */
int netns_unpin(const char *path, struct err *err);
/* A socket of the namespace at path: nonblocking, close-on-exec. */
int netns_socket(int home, const char *path, int type, struct err *err);
/* Calls fn in the namespace pinned there; -1: it could not be entered, or what fn says. */
int netns_run(int home, const char *path, int (*fn)(void *arg), void *arg);
bool netns_idle(
    void); /* no IPv4 or IPv6 socket is left in the caller's namespace, not even one that lingers */
