/* seccomp - the system calls of a container. libseccomp takes about 15 ms to compile a list of that length,
 * so crun gets the finished filter, made once per set of capabilities; runc only takes the list. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

#include <stdint.h>

struct arena;
struct json;
struct seccomp;

struct seccomp *seccomp_new(void);
void seccomp_free(struct seccomp *seccomp); /* NULL is fine */
DEFINE_CLEANUP(struct seccomp *, seccomp_free);

/* The BPF program for processes with these capabilities (bundle_caps), as base64. Borrowed. */
int seccomp_bpf(struct seccomp *seccomp, uint64_t caps, const char **ret, struct err *err);
/* The same as `linux.seccomp` of an OCI configuration. */
struct json seccomp_oci(struct arena *arena, uint64_t caps);
