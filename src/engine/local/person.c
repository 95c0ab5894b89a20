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
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | ((flags & O_PATH) ? 0 : O_NONBLOCK)),
                           .mode = mode,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* What a file says of a name and a number already. */
enum known { KNOWN_NOT, KNOWN_OTHERWISE, KNOWN };

/* Programs take the first line that fits: once by its first field, the name, once by its third, the number.
 */
static enum known look_up(struct str text, unsigned id, const char *name)
{
    bool name_seen = false, id_seen = false;
    struct str line, field;

    while (str_split(&text, '\n', &line)) {
        bool same_name = false, same_id = false;
        uint64_t n;

        for (int i = 0; i < 3 && str_split(&line, ':', &field); i++) {
            same_name |= i == 0 && str_is(field, name);
            same_id |= i == 2 && str_to_uint(field, &n) && n == id;
        }
        if (same_name && same_id && !name_seen && !id_seen)
            return KNOWN;
        name_seen |= same_name;
        id_seen |= same_id;
    }
    return name_seen || id_seen ? KNOWN_OTHERWISE : KNOWN_NOT;
}

/* At the end, or before all others where an image means somebody else by the name or the number. Best effort:
 * the container runs without it, too. */
static void add_line(int root, const char *path, unsigned id, const char *name, const char *line)
{
    CLEANUP(fd_close) int fd = open_in(root, path, O_RDWR | O_CREAT, 0644);
    CLEANUP(buf_done) struct buf text = {0}, more = {0};
    enum known known;
    struct stat st;
    char data[4096];
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNTS_MAX)
        return;
    while ((n = read(fd, data, sizeof(data))) > 0)
        buf_add(&text, data, (size_t)n);
    known = look_up(buf_view(&text), id, name);
    if (n < 0 || known == KNOWN)
        return;
    if (known == KNOWN_NOT && text.len && text.data[text.len - 1] != '\n')
        buf_putc(&more, '\n');
    buf_puts(&more, line);
    if (known == KNOWN_OTHERWISE)
        buf_str(&more, buf_view(&text));
    n = pwrite(fd, more.data, more.len, known == KNOWN_OTHERWISE ? 0 : (off_t)text.len);
    (void)n;
}

/* The other groups, so that `groups` and shells that call it find names. */
static void add_groups(int root, const char *lines)
{
    struct str all = str_from(lines ? lines : ""), line, field;

    while (str_split(&all, '\n', &line)) {
        CLEANUP(free) char *text = mem_printf("%.*s\n", STR_ARG(line)), *name = NULL;
        uint64_t gid = 0;

        for (int i = 0; i < 3 && str_split(&line, ':', &field); i++) {
            if (i == 0)
                name = mem_printf("%.*s", STR_ARG(field));
            else if (i == 2 && str_to_uint(field, &gid))
                add_line(root, "/etc/group", (unsigned)gid, name, text);
        }
    }
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

void person_add(const char *rootfs, const struct pod_person *person)
{
    CLEANUP(fd_close) int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(fd_close) int bash = root < 0 ? -1 : open_in(root, "/bin/bash", O_PATH, 0);
    CLEANUP(free)
    char *account = mem_printf("%s:x:%u:%u::%s:/bin/%s\n", person->name, (unsigned)person->uid,
                               (unsigned)person->gid, person->home, bash < 0 ? "sh" : "bash");
    CLEANUP(free) char *group = mem_printf("%s:x:%u:\n", person->group, (unsigned)person->gid);

    if (root < 0 || !*person->name || strpbrk(person->name, ":\n/") || strpbrk(person->home, ":\n"))
        return;
    add_line(root, "/etc/passwd", person->uid, person->name, account);
    if (*person->group && !strpbrk(person->group, ":\n/"))
        add_line(root, "/etc/group", person->gid, person->group, group);
    add_groups(root, person->group_lines);
    make_home(root, person->home, person->uid, person->gid);
}
