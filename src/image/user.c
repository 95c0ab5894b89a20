/* user.c - names of users and groups as a root file system knows them. The files are the image's, so anything
 * may be in them, or a pipe or a link in their place: they are opened below the root only, read only when
 * they are plain files, and only so much of them. A text that is a number is looked up by number, and need
 * not be there; a number too large is no user. */
#include "base/buf.h"
#include "base/mem.h"
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FILE_MAX  (4 << 20)
#define ID_MAX    (INT64_C(0xfffffffe)) /* the last one means "no id" */
#define FIELD_MAX 7

/* The text of a file of the image; no file, or none to be read, is an empty one. */
static int read_inside(int root, const char *path, struct buf *ret, struct err *err)
{
    struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    CLEANUP(fd_close) int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (st.st_size > FILE_MAX)
        return err_set(err, ERR_LIMIT, "the image's %s is larger than %d bytes", path, FILE_MAX);
    while (ret->len < FILE_MAX) {
        char *at = buf_reserve(ret, 64 << 10);

        n = read(fd, at, 64 << 10);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        ret->len += (size_t)n;
    }
    return 0;
}

/* The next line in its fields; false at the end. Lines without a name are passed over. */
static bool next_line(struct str *rest, struct str fields[FIELD_MAX], size_t *count)
{
    struct str line;

    while (str_split(rest, '\n', &line)) {
        *count = 0;
        if (line.len == 0 || line.s[0] == '#' || line.s[0] == ':')
            continue;
        while (*count < FIELD_MAX && str_split(&line, ':', &fields[*count]))
            ++*count;
        for (size_t i = *count; i < FIELD_MAX; i++)
            fields[i] = (struct str){"", 0};
        return true;
    }
    return false;
}

static bool to_id(struct str text, uint32_t *ret)
{
    int64_t n;

    if (text.len == 0 || text.s[0] < '0' || text.s[0] > '9' || !str_to_int(text, &n) || n > ID_MAX)
        return false;
    *ret = (uint32_t)n;
    return true;
}

static bool is_number(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.s[i] < '0' || text.s[i] > '9')
            return false;
    return text.len > 0;
}

static void copy(char *to, size_t size, struct str text)
{
    if (text.len < size && !memchr(text.s, '\0', text.len))
        snprintf(to, size, "%.*s", STR_ARG(text));
}

/* The line of who, by name first; a number also by its id. */
static bool find_user(struct str passwd, struct str who, struct image_user *user)
{
    struct str fields[FIELD_MAX];
    size_t count;
    uint32_t wanted = 0, uid, gid;
    bool by_id = to_id(who, &wanted);

    while (next_line(&passwd, fields, &count)) {
        if (count < 4 || !to_id(fields[2], &uid) || !to_id(fields[3], &gid))
            continue;
        if (!str_eq(fields[0], who) && !(by_id && uid == wanted))
            continue;
        user->uid = uid;
        user->gid = gid;
        copy(user->name, sizeof(user->name), fields[0]);
        if (fields[5].len > 0 && fields[5].s[0] == '/')
            copy(user->home, sizeof(user->home), fields[5]);
        copy(user->shell, sizeof(user->shell), fields[6]);
        return true;
    }
    return false;
}

static bool find_group(struct str group, struct str which, gid_t *ret)
{
    struct str fields[FIELD_MAX];
    size_t count;
    uint32_t gid;

    while (next_line(&group, fields, &count)) {
        if (count >= 3 && str_eq(fields[0], which) && to_id(fields[2], &gid)) {
            *ret = gid;
            return true;
        }
    }
    return false;
}

static void add_group(struct image_user *user, gid_t gid)
{
    for (size_t i = 0; i < user->groups_len; i++)
        if (user->groups[i] == gid)
            return;
    if (user->groups_len < IMAGE_GROUPS_MAX && gid != user->gid)
        user->groups[user->groups_len++] = gid;
}

static void find_groups(struct str group, struct image_user *user)
{
    struct str fields[FIELD_MAX], member;
    size_t count;
    uint32_t gid;

    while (user->name[0] && next_line(&group, fields, &count)) {
        if (count < 4 || !to_id(fields[2], &gid))
            continue;
        while (str_split(&fields[3], ',', &member))
            if (str_is(str_trim(member), user->name))
                add_group(user, gid);
    }
}

static int choose_user(struct str passwd, struct str who, struct image_user *user, struct err *err)
{
    uint32_t uid;

    if (find_user(passwd, who, user))
        return 0;
    if (!is_number(who))
        return err_set(err, ERR_NOT_FOUND, "the image has no user '%.*s'", STR_ARG(who));
    if (!to_id(who, &uid))
        return err_set(err, ERR_INVALID, "'%.*s' is no user id", STR_ARG(who));
    user->uid = uid;
    return 0;
}

static int choose_group(struct str group, struct str which, struct image_user *user, struct err *err)
{
    uint32_t gid;

    if (find_group(group, which, &user->gid))
        return 0;
    if (!is_number(which))
        return err_set(err, ERR_NOT_FOUND, "the image has no group '%.*s'", STR_ARG(which));
    if (!to_id(which, &gid))
        return err_set(err, ERR_INVALID, "'%.*s' is no group id", STR_ARG(which));
    user->gid = gid;
    return 0;
}

int image_user(const char *rootfs, const char *text, struct image_user *ret, struct err *err)
{
    struct image_user user = {.home = "/"};
    CLEANUP(buf_done) struct buf passwd = {0};
    CLEANUP(buf_done) struct buf group = {0};
    struct str who = str_from(text && text[0] ? text : "0"), which = {NULL, 0};
    const char *colon = memchr(who.s, ':', who.len);
    CLEANUP(fd_close) int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (root < 0)
        return err_errno(err, errno, "open '%s'", rootfs);
    if (who.len > 256)
        return err_set(err, ERR_INVALID, "the user's name is too long");
    if (colon) {
        which = (struct str){colon + 1, who.len - (size_t)(colon - who.s) - 1};
        who.len = (size_t)(colon - who.s);
        if (which.len == 0 || memchr(which.s, ':', which.len))
            return err_set(err, ERR_INVALID, "'%s' is no user: write NAME or NAME:GROUP", text);
    }
    if (who.len == 0)
        return err_set(err, ERR_INVALID, "'%s' is no user: write NAME or NAME:GROUP", text);
    if (read_inside(root, "etc/passwd", &passwd, err) < 0 || read_inside(root, "etc/group", &group, err) < 0)
        return -1;
    if (choose_user(buf_view(&passwd), who, &user, err) < 0)
        return -1;
    if (which.s && choose_group(buf_view(&group), which, &user, err) < 0)
        return -1;
    if (!which.s)
        find_groups(buf_view(&group), &user);
    *ret = user;
    return 0;
}
