#include "engine/log_line.h"

#include "base/file.h"
#include "base/mem.h"
#include "engine/log_tail.h"

#include <fcntl.h>
#include <unistd.h>

#define TRACEBACK "Traceback (most recent call last):"

/* As a terminal would have left it: what follows the last \r that something follows. */
static struct str newest_state(struct str line)
{
    while (line.len && (line.s[line.len - 1] == '\r' || line.s[line.len - 1] == ' '))
        line.len--;
    for (size_t i = line.len; i > 0; i--)
        if (line.s[i - 1] == '\r')
            return (struct str){line.s + i, line.len - i};
    return line;
}

static bool begins_with(struct str line, const char *prefix)
{
    size_t len = strlen(prefix);

    return line.len >= len && memcmp(line.s, prefix, len) == 0;
}

/* The last line that is not blank; *exception: that of the last traceback, empty where there is none. */
static struct str last_line(struct str rest, struct str *exception)
{
    struct str line, last = {"", 0};
    bool in_traceback = false;

    *exception = (struct str){"", 0};

    while (str_split(&rest, '\n', &line)) {
        line = newest_state(line);
        if (!line.len)
            continue;
        last = line;
        if (begins_with(line, TRACEBACK)) {
            in_traceback = true;
        } else if (in_traceback && line.s[0] != ' ' && line.s[0] != '\t') {
            *exception = line;
            in_traceback = false;
        }
    }
    return last;
}

/* As people see it. */
static bool show(struct str line, char *ret, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < line.len && n + 1 < size; i++) {
        unsigned char c = (unsigned char)line.s[i];

        if (c == '\033' && i + 1 < line.len && line.s[i + 1] == '[') { /* a colour */
            for (i += 2; i < line.len && (line.s[i] < '@' || line.s[i] > '~');)
                i++;
            continue;
        }
        if (c == '\t')
            ret[n++] = ' ';
        else if (c >= ' ' && c != 0x7f)
            ret[n++] = (char)c;
    }
    n = utf8_valid_len((struct str){ret, n});
    ret[n] = '\0';
    return n > 0;
}

bool log_line_pick(struct str text, char *ret, size_t size)
{
    struct str exception, last = last_line(text, &exception);

    return show(exception.len ? exception : last, ret, size);
}

/* What was written to one stream, or (NULL) to both. */
static void read_tail(const char *path, const char *stream, struct buf *out)
{
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(free) char *text = NULL;
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    off_t from = size > LOG_LINE_READ ? size - LOG_LINE_READ : 0;
    struct str rest, line;
    ssize_t n;

    if (size <= 0)
        return;
    text = mem_alloc(LOG_LINE_READ);
    n = pread(fd, text, LOG_LINE_READ, from);
    rest = (struct str){text, n > 0 ? (size_t)n : 0};
    if (from > 0)
        str_split(&rest, '\n', &line); /* the end of an entry */
    while (str_split(&rest, '\n', &line)) {
        struct log_entry entry;

        if (!log_entry_parse(line.s, line.len, &entry) ||
            (stream && strncmp(entry.time + entry.time_len + 1, stream, strlen(stream)) != 0))
            continue;
        buf_add(out, entry.text, entry.text_len);
        if (entry.tag == 'F')
            buf_putc(out, '\n');
    }
}

void log_line_tail(const char *path, struct buf *out)
{
    read_tail(path, NULL, out);
}

/* A program's two streams reach the log in any order: a traceback is looked for in the one it is written to.
 */
static bool read_line(const char *path, char *ret, size_t size)
{
    CLEANUP(buf_done) struct buf both = {0}, errors = {0};
    struct str exception;

    read_tail(path, "stderr", &errors);
    last_line(buf_view(&errors), &exception);
    if (exception.len)
        return show(exception, ret, size);
    read_tail(path, NULL, &both); /* on a terminal both are one */
    return log_line_pick(buf_view(&both), ret, size);
}

bool log_line_read(const char *path, char *ret, size_t size)
{
    CLEANUP(free) char *before = mem_printf("%s.1", path);

    return read_line(path, ret, size) || read_line(before, ret, size); /* it was renamed a moment ago */
}
