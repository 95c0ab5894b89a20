/* log_reader - reads what a container has written from its log files: Kubernetes' CRI format, one entry a
 * line, "2026-01-02T03:04:05.123456789Z stdout F text". An F entry ends a line of output, a P entry does not.
 * LOG is the current file, LOG.1 the one before it, LOG.2 older; a file is renamed when it is full and no
 * entry is split between two. The reader keeps its place through any number of rotations, as long as it gets
 * to a file before it is deleted.
 *
 * What it gives is what was written, byte by byte; entries that cannot be read are left out. */
#pragma once

#include "base/cleanup.h"
#include "engine/pod_ops.h"
#include "loop/loop.h"

#define LOG_FILES_MAX 100       /* rotated files that are looked for */
#define LOG_ENTRY_MAX (1 << 20) /* bytes of one entry; longer ones are left out */

/* Tells readers of changes: one inotify for all of them. Where that cannot be had they look twice a second.
 */
struct log_watch;
struct log_watch *log_watch_new(struct loop *loop);
void log_watch_free(struct log_watch *watch); /* NULL is fine; after its readers */
DEFINE_CLEANUP(struct log_watch *, log_watch_free);

/* Of the options, follow, timestamps, since, tail and limit_bytes count here. A log that is not there (yet)
 * is empty. A follower goes on until log_reader_finish. Callbacks as pod_ops.h has them; events are copied.
 */
struct log_reader *log_reader_new(struct log_watch *watch, const char *path,
                                  const struct pod_log_options *options, const struct pod_log_events *events,
                                  void *arg);
/* Nothing more will be written: ends when all that is there has been given. */
void log_reader_finish(struct log_reader *reader);
void log_reader_pause(struct log_reader *reader, bool pause);
void log_reader_free(struct log_reader *reader); /* NULL is fine; also from inside its callbacks */
DEFINE_CLEANUP(struct log_reader *, log_reader_free);
