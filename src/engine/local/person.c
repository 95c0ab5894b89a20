/* A person in the root of a container: a line in /etc/passwd and /etc/group and a home folder, where the
 * image has none, so that programs find a name for the uid they run as. The root is a copy-on-write view;
 * every path is resolved inside of it, whatever links the image has. */
#include "engine/local/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ACCOUNTS_MAX (1 << 20) /* bytes of a passwd or group file that is changed */

static int open_in(int root, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK),
                           .mode = mode,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Whether a line has this number in its third field, or this name in its first. */
static bool has_line(struct str text, unsigned id, const char *name)
{
    struct str line, field;
    uint64_t n;

    while (str_split(&text, '\n', &line)) {
        int i = 0;

        for (; i < 3 && str_split(&line, ':', &field); i++)
            if (i == 0 && str_is(field, name))
                return true;
        if (i == 3 && str_to_uint(field, &n) && n == id)
            return true;
    }
    return false;
}

static void add_line(int root, const char *path, unsigned id, const char *name, const char *line)
{
    CLEANUP(fd_close) int fd = open_in(root, path, O_RDWR | O_CREAT | O_APPEND, 0644);
    CLEANUP(buf_done) struct buf text = {0};
    struct stat st;
    char data[4096];
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNTS_MAX)
        return;
    while ((n = read(fd, data, sizeof(data))) > 0)
        buf_add(&text, data, (size_t)n);
    if (has_line(buf_view(&text), id, name))
        return;
    if (text.len && text.data[text.len - 1] != '\n' && write(fd, "\n", 1) < 0)
        return;
    n = write(fd, line, strlen(line)); /* best effort: the container runs without it, too */
    (void)n;
}

static void make_home(int root, const char *home, uid_t uid, gid_t gid)
{
    CLEANUP(free) char *parent = mem_strdup(home);
    char *name = strrchr(parent, '/');
    CLEANUP(fd_close) int at = -1;

    if (!name || name == parent || !name[1])
        return;
    *name++ = '\0';
    at = open_in(root, parent, O_RDONLY | O_DIRECTORY, 0);
    if (at < 0 && errno == ENOENT && !strchr(parent + 1, '/') && mkdirat(root, parent + 1, 0755) == 0)
        at = open_in(root, parent, O_RDONLY | O_DIRECTORY, 0);
    if (at >= 0 && mkdirat(at, name, 0755) == 0 && fchownat(at, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
        unlinkat(at, name, AT_REMOVEDIR);
}

void person_add(const char *rootfs, const struct person *person)
{
    CLEANUP(fd_close) int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(free)
    char *account = mem_printf("%s:x:%u:%u::%s:/bin/sh\n", person->name, (unsigned)person->uid,
                               (unsigned)person->gid, person->home);
    CLEANUP(free) char *group = mem_printf("%s:x:%u:\n", person->group, (unsigned)person->gid);

    if (root < 0 || !*person->name || strpbrk(person->name, ":\n/") || strpbrk(person->home, ":\n"))
        return;
    add_line(root, "/etc/passwd", person->uid, person->name, account);
    if (*person->group && !strpbrk(person->group, ":\n/"))
        add_line(root, "/etc/group", person->gid, person->group, group);
    make_home(root, person->home, person->uid, person->gid);
}
