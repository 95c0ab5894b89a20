/* log - lines for the operator on stderr: "2026-01-02T03:04:05Z warn store: disk full". Under systemd
 * (JOURNAL_STREAM set) lines carry the <N> prefix instead of time and level. Newlines and control
 * characters in the text are escaped, so that nobody can forge a line. */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* The id of the request that is handled now, in this thread: lines end with it. NULL: none. */
void log_set_request(const char *id);
void log_set_level(enum log_level level); /* INFO at first */
void log_line(enum log_level level, const char *module, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* LOG_MODULE is defined at the top of each .c file that logs. */
#define log_error(...) log_line(LOG_LEVEL_ERROR, LOG_MODULE, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, LOG_MODULE, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, LOG_MODULE, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, LOG_MODULE, __VA_ARGS__)
