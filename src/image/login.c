/* login.c - credentials that are kept: auth.json has the machine's, logins/WHO.json one person's. The folder
 * is 0700, the files are 0600 and written whole; both are docker config.json. */
#include "base/file.h"
#include "base/mem.h"
#include "image/internal.h"

#include <ctype.h>

/* Names of the API may have anything in them; what is no letter, digit, '-', '_' or '.' becomes %XX. */
static char *login_path(const struct images *images, const char *who)
{
    CLEANUP(buf_done) struct buf path = {0};

    buf_printf(&path, "%s/logins/", images->dir);
    for (const char *c = who; *c; c++)
        if (isalnum((unsigned char)*c) || *c == '-' || *c == '_' || (*c == '.' && c != who))
            buf_putc(&path, *c);
        else
            buf_printf(&path, "%%%02x", (unsigned char)*c);
    buf_puts(&path, ".json");
    return buf_take(&path);
}

static int edit(const char *path, const char *registry, const char *user, const char *password,
                struct err *err)
{
    CLEANUP(buf_done) struct buf before = {0};
    CLEANUP(buf_done) struct buf after = {0};
    int result;

    (void)file_read(path, IMAGE_AUTH_MAX, &before, NULL); /* none yet */
    result = auth_edit(buf_view(&before), registry, user, password, &after, err);
    if (result == 0 && after.len > IMAGE_AUTH_MAX)
        result = err_set(err, ERR_LIMIT, "more than %d bytes of passwords", IMAGE_AUTH_MAX);
    if (result == 0)
        result = file_write_atomic(path, buf_view(&after), 0600, err);
    if (before.data)
        explicit_bzero(before.data, before.len);
    if (after.data)
        explicit_bzero(after.data, after.len);
    return result;
}

int images_login(struct images *images, const char *registry, const char *user, const char *password,
                 struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/auth.json", images->dir);

    return edit(path, registry, user, password, err);
}

int images_login_of(struct images *images, const char *who, const char *registry, const char *user,
                    const char *password, struct err *err)
{
    CLEANUP(free) char *folder = mem_printf("%s/logins", images->dir);
    CLEANUP(free) char *path = login_path(images, who);

    if (strlen(who) > 200)
        return err_set(err, ERR_INVALID, "the name of the user is too long");
    return dir_make(folder, 0700, err) < 0 ? -1 : edit(path, registry, user, password, err);
}

void images_auths_of(const struct images *images, const char *who, struct buf *ret)
{
    CLEANUP(free) char *path = login_path(images, who);

    (void)file_read(path, IMAGE_AUTH_MAX, ret, NULL);
}
