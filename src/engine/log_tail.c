/* Goes from entry to entry backwards, with a window of the file in memory. */
#include "engine/log_tail.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW   (64 << 10)
#define HEAD_MAX 96 /* time, stream and tag fit */

bool log_entry_parse(const char *line, size_t len, struct log_entry *ret)
{
    const char *end = line + len, *stream, *tag, *text;

    stream = memchr(line, ' ', len);
    if (!stream || stream == line)
        return false;
    tag = memchr(stream + 1, ' ', (size_t)(end - stream - 1));
    if (!tag || end - tag < 2 || (tag[1] != 'F' && tag[1] != 'P'))
        return false;
    text = memchr(tag + 1, ' ', (size_t)(end - tag - 1));
    if (!text)
        text = end - 1; /* an empty line may lack the space */
    *ret = (struct log_entry){.time = line,
                              .time_len = (size_t)(stream - line),
                              .text = text + 1,
                              .text_len = (size_t)(end - text - 1),
                              .tag = tag[1]};
    return true;
}

struct tail_window {
    int fd;
    off_t start;
    size_t len;
    char data[WINDOW + HEAD_MAX];
};

/* The bytes that end at `end`, and a little of what follows. */
static bool window_load(struct tail_window *w, off_t end)
{
    off_t start = end > WINDOW ? end - WINDOW : 0;
    ssize_t got = pread(w->fd, w->data, sizeof(w->data), start);

    w->start = start;
    w->len = got > 0 ? (size_t)got : 0;
    return start + (off_t)w->len >= end;
}

/* Where the entry that ends at `end` (behind its newline) begins. -1: the file changed under us. */
static off_t entry_start(struct tail_window *w, off_t end)
{
    off_t at = end - 1; /* its own newline */

    for (;;) {
        const char *found;

        if (at <= 0)
            return 0;
        if ((at < w->start || at > w->start + (off_t)w->len || at == w->start) && !window_load(w, at))
            return -1;
        found = memrchr(w->data, '\n', (size_t)(at - w->start));
        if (found)
            return w->start + (found - w->data) + 1;
        at = w->start;
    }
}

static char tag_at(const struct tail_window *w, off_t start, off_t end)
{
    char head[HEAD_MAX];
    const char *line = head;
    size_t len = end - start - 1 < HEAD_MAX ? (size_t)(end - start - 1) : HEAD_MAX;
    struct log_entry entry;

    if (start >= w->start && start + (off_t)len <= w->start + (off_t)w->len)
        line = w->data + (start - w->start);
    else if (pread(w->fd, head, len, start) != (ssize_t)len)
        return 0;
    return log_entry_parse(line, len, &entry) ? entry.tag : 0;
}

/* Behind the last newline: what follows is not complete. */
static off_t complete_end(struct tail_window *w, off_t size)
{
    off_t start = size > 0 && window_load(w, size) ? entry_start(w, size + 1) : 0;

    return start < 0 ? 0 : start;
}

off_t log_tail_find(struct log_tail *tail, int fd)
{
    struct tail_window *w = NEW(struct tail_window);
    struct stat st = {0};
    off_t end, start;

    w->fd = fd;
    end = fstat(fd, &st) == 0 ? complete_end(w, st.st_size) : 0;
    while (end > 0 && !tail->done) {
        char tag;

        start = entry_start(w, end);
        if (start < 0)
            break;
        tag = tag_at(w, start, end);
        if (tag == 'F' || (tag == 'P' && !tail->begun)) {
            tail->begun = true;
            tail->done = tail->left == 0;
            tail->left--;
        }
        if (!tail->done)
            end = start;
    }
    if (tail->left <= 0 && !tail->begun)
        tail->done = true;
    free(w);
    return end;
}
