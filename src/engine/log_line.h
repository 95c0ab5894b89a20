/* log_line - the line of a log that tells best how a program ended. */
#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>

/* text: the end of a log, without times. The exception of the last Python traceback in it, else the last line
 * that is not blank, as people see it: without control characters, and of a line that was written over (\r)
 * the newest state. Cut to size, whole characters only. False: there is no such line. */
bool log_line_pick(struct str text, char *ret, size_t size);

/* The same of the last entries of a log file in Kubernetes' format (log_reader.h). Reads LOG_LINE_READ bytes
 * at most. */
#define LOG_LINE_READ (16 << 10)
bool log_line_read(const char *path, char *ret, size_t size);
/* Adds the end of such a file, without times: at most LOG_LINE_READ bytes. */
void log_line_tail(const char *path, struct buf *out);
