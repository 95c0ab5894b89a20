/* log.c - one line is one write(2), so lines of several threads and processes do not mix. */
#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>

#define LINE_MAX_BYTES 8192 /* of text before escaping; the rest is cut */

static _Atomic int log_level = LOG_LEVEL_INFO;

static const struct {
    const char *name;
    int syslog;
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error", 3},
    [LOG_LEVEL_WARN] = {"warn", 4},
    [LOG_LEVEL_INFO] = {"info", 6},
    [LOG_LEVEL_DEBUG] = {"debug", 7},
};

static _Thread_local char log_request[64];

void log_set_request(const char *id)
{
    snprintf(log_request, sizeof(log_request), "%s", id ? id : "");
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

/* Control characters as \n, \t, \xNN; bytes that are no UTF-8 as \xNN. */
static void add_escaped(struct buf *line, struct str text)
{
    for (size_t i = 0; i < text.len;) {
        const unsigned char *p = (const unsigned char *)text.s + i;
        size_t n = utf8_len(p, text.len - i);
        bool c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0; /* U+0080..U+009F: controls too */

        if (n == 1 && p[0] == '\n')
            buf_puts(line, "\\n");
        else if (n == 1 && p[0] == '\t')
            buf_puts(line, "\\t");
        else if (n == 0 || (n == 1 && (p[0] < 0x20 || p[0] == 0x7f)))
            buf_printf(line, "\\x%02x", p[0]);
        else if (c1)
            buf_printf(line, "\\u%04x", p[1]);
        else
            buf_add(line, p, n);
        i += n ? n : 1;
    }
}

static void write_all(int fd, struct str s)
{
    while (s.len) {
        ssize_t n = write(fd, s.s, s.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nobody left to tell */
        s = (struct str){s.s + n, s.len - (size_t)n};
    }
}

void log_line(enum log_level level, const char *module, const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf line = {0};
    char time[CLOCK_TEXT_MAX];
    int saved = errno; /* a log line between a call and the look at errno must not harm */
    va_list ap;

    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
        return;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    if (text.len > LINE_MAX_BYTES)
        text.len = LINE_MAX_BYTES;
    if (getenv("JOURNAL_STREAM"))
        buf_printf(&line, "<%d>%s: ", levels[level].syslog, module);
    else
        buf_printf(&line, "%s %s %s: ", clock_format(clock_now(), time), levels[level].name, module);
    add_escaped(&line, buf_view(&text));
    if (*log_request)
        buf_printf(&line, " (request %s)", log_request);
    buf_putc(&line, '\n');
    write_all(STDERR_FILENO, buf_view(&line));
    errno = saved;
}
