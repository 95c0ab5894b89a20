#include "engine/local/kept.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/log_reader.h"
#include "engine/log_tail.h"
#include "engine/packed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUNS_BYTES_MAX (256 << 10) /* of NAME.runs; the older half goes then */
#define CHUNK          (256 << 10)
#define CUT_TEXT       "[earlier output was removed]\n"

/* ---- which pods are in it ---- */

/* "UID START" before its copy, "UID START END" after it; the last line of a pod counts. */
struct kept_run {
    int64_t start; /* -1: not in it */
    bool whole;
};

static struct kept_run find_run(struct str text, const char *uid)
{
    struct kept_run run = {-1, false};
    struct str line, word;

    while (str_split(&text, '\n', &line)) {
        int64_t start;

        if (!str_split(&line, ' ', &word) || !str_is(word, uid) || !str_split(&line, ' ', &word) ||
            !str_to_int(word, &start) || start < 0)
            continue;
        run = (struct kept_run){start, line.len > 0};
    }
    return run;
}

static int read_runs(int fd, struct buf *text, struct err *err)
{
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return err_errno(err, errno, "read the list of kept logs");
    if (st.st_size > RUNS_BYTES_MAX) { /* by a daemon that was killed before it made it shorter */
        st.st_size = RUNS_BYTES_MAX;
    }
    n = pread(fd, buf_reserve(text, (size_t)st.st_size + 1), (size_t)st.st_size, 0);
    if (n < 0)
        return err_errno(err, errno, "read the list of kept logs");
    text->len += (size_t)n;
    return 0;
}

static int note_run(int fd, const char *text, struct err *err)
{
    size_t len = strlen(text);

    if (write(fd, text, len) != (ssize_t)len || fdatasync(fd) < 0)
        return err_errno(err, errno, "write the list of kept logs");
    return 0;
}

/* The newer half of its lines stays. */
static void shorten_runs(int fd)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *half;

    if (lseek(fd, 0, SEEK_END) < RUNS_BYTES_MAX / 2 || read_runs(fd, &text, NULL) < 0)
        return;
    half = memchr(text.data + text.len / 2, '\n', text.len - text.len / 2);
    if (!half || ftruncate(fd, 0) < 0)
        return;
    half++;
    if (write(fd, half, (size_t)(text.data + text.len - half)) < 0)
        return;
}

/* ---- copying ---- */

/* One log file, without the times and stream names of its lines. */
static int copy_file(int out, const char *path, struct err *err)
{
    CLEANUP(file_close) FILE *in = fopen(path, "re");
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *line = NULL;
    size_t cap = 0;
    ssize_t len = 0;

    while (in && len >= 0) {
        struct log_entry entry;

        len = getline(&line, &cap, in);
        if (len > 0 && line[len - 1] == '\n')
            len--;
        if (len >= 0 && log_entry_parse(line, (size_t)len, &entry)) {
            buf_add(&text, entry.text, entry.text_len);
            if (entry.tag == 'F')
                buf_putc(&text, '\n');
        }
        if (text.len < CHUNK && len >= 0)
            continue;
        if (text.len && write(out, text.data, text.len) != (ssize_t)text.len)
            return err_errno(err, errno ? errno : ENOSPC, "write a kept log");
        buf_clear(&text);
    }
    return 0;
}

/* The newest run of a container, the oldest of its files first. */
static int copy_container(int out, const char *logs, const char *container, struct err *err)
{
    CLEANUP(free) char *folder = mem_printf("%s/%s", logs, container);
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int64_t newest = -1, n;

    while (dir && (entry = readdir(dir))) {
        struct str name = str_from(entry->d_name), number;

        if (str_split(&name, '.', &number) && str_is(name, "log") && str_to_int(number, &n) && n > newest)
            newest = n;
    }
    if (dir)
        closedir(dir);
    for (int i = LOG_FILES_MAX; newest >= 0 && i >= 0; i--) {
        CLEANUP(free)
        char *path = i ? mem_printf("%s/%" PRId64 ".log.%d", folder, newest, i)
                       : mem_printf("%s/%" PRId64 ".log", folder, newest);

        if (access(path, F_OK) == 0 && copy_file(out, path, err) < 0)
            return -1;
    }
    return 0;
}

/* The beginning goes, at the end of a line: into a new file, so that readers of the old one are not
 * disturbed. */
static int cut_beginning(const char *path, int64_t max, struct err *err)
{
    CLEANUP(free) char *made = mem_printf("%s.new", path), *piece = mem_alloc(CHUNK);
    CLEANUP(fd_close) int in = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(fd_close) int out = -1;
    off_t size = in < 0 ? 0 : lseek(in, 0, SEEK_END), at = size - max / 4 * 3;
    bool begun = false;
    ssize_t n;

    if (size <= max)
        return 0;
    out = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0 || write(out, CUT_TEXT, strlen(CUT_TEXT)) < 0)
        return err_errno(err, errno, "write '%s'", made);
    for (; (n = pread(in, piece, CHUNK, at)) > 0; at += n) {
        const char *from = begun ? piece : memchr(piece, '\n', (size_t)n);

        from = begun ? from : from ? from + 1 : piece;
        begun = true;
        if (write(out, from, (size_t)(piece + n - from)) != piece + n - from)
            return err_errno(err, errno ? errno : ENOSPC, "write '%s'", made);
    }
    if (fdatasync(out) < 0 || rename(made, path) < 0)
        return err_errno(err, errno, "rename '%s'", made);
    return 0;
}

int kept_add(const struct kept_pod *pod, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/%s.log", pod->folder, pod->name);
    CLEANUP(free) char *line = NULL, *end = NULL;
    CLEANUP(fd_close) int out = -1;
    CLEANUP(fd_close) int runs = packed_lock(pod->folder, pod->name, true, err);
    CLEANUP(buf_done) struct buf text = {0};
    struct kept_run run;

    if (runs < 0 || read_runs(runs, &text, err) < 0)
        return -1;
    run = find_run(buf_view(&text), pod->uid);
    if (run.whole)
        return 0;
    out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0)
        return err_errno(err, errno, "open '%s'", path);
    if (run.start < 0) {
        run.start = lseek(out, 0, SEEK_END);
        line = mem_printf("%s %" PRId64 "\n", pod->uid, run.start);
        if (note_run(runs, line, err) < 0)
            return -1;
    } else if (lseek(out, 0, SEEK_END) > run.start && ftruncate(out, run.start) < 0) {
        return err_errno(err, errno, "shorten '%s'", path);
    }
    for (const char *const *it = pod->containers; *it; it++)
        if (copy_container(out, pod->logs, *it, err) < 0)
            return -1;
    end = mem_printf("%s %" PRId64 " %" PRId64 "\n", pod->uid, run.start, (int64_t)lseek(out, 0, SEEK_END));
    if (fdatasync(out) < 0)
        return err_errno(err, errno, "write '%s'", path);
    if (note_run(runs, end, err) < 0)
        return -1;
    shorten_runs(runs);
    return cut_beginning(path, pod->bytes_max ? pod->bytes_max : KEPT_BYTES_MAX, err);
}
