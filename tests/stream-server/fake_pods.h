/* fake_pods - pod_ops without containers, for tests of the streams: every pod "runs" on this machine itself.
 * Commands are plain child processes in the server's folder, ports are those of loopback, logs are files
 * LOGS/POD.log (CRI format, written by the test; previous: POD.previous.log). attach gives a new `sh -c 'echo
 * attached; exec cat'`. Pods named waiting-… are still being created, pods named stopped-… run no container.
 */
#pragma once

#include "engine/pod_ops.h"
#include "loop/loop.h"

struct fake_pods;
struct fake_pods *fake_pods_new(struct loop *loop, const char *logs_dir);
void fake_pods_free(struct fake_pods *fake);
const struct pod_ops *fake_pods_ops(const struct fake_pods *fake);
/* The container of that pod has ended: followers of its log come to their end. */
void fake_pods_finish(struct fake_pods *fake, const char *pod);
