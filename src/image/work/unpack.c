/* unpack.c - reading the tar with libarchive: formats, compression, headers. What a header says is checked
 * here; plant.c does it to the file system. */
#include "image/work/unpack.h"

#include "base/mem.h"
#include "image/work/plant.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <sys/stat.h>

#define READ_STEP       ((size_t)256 << 10)
#define WHITEOUT_PREFIX ".wh."
#define WHITEOUT_META   ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"
#define NAME_MAX_BYTES  255

/* ---- names ---- */

/* `from` without leading slashes, empty parts and "."; ".." is refused. */
static int clean_path(const char *from, char to[UNPACK_PATH_MAX], struct err *err)
{
    struct str rest = str_from(from), part;
    size_t len = 0;

    to[0] = '\0';
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_is(part, "."))
            continue;
        if (str_is(part, ".."))
            return err_set(err, ERR_INVALID, "a layer has the path '%.200s', which leads out of it", from);
        if (part.len > NAME_MAX_BYTES || len + part.len + 2 > UNPACK_PATH_MAX)
            return err_set(err, ERR_INVALID, "a layer has a path that is too long: '%.100s…'", from);
        if (len > 0)
            to[len++] = '/';
        memcpy(to + len, part.s, part.len);
        len += part.len;
        to[len] = '\0';
    }
    return 0;
}

static char *base_of(char *path)
{
    char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Whiteouts are told by their names; the path becomes that of what they are about. */
static int read_whiteout(struct unpack_entry *entry, struct err *err)
{
    char *base = base_of(entry->path);
    const char *name = base + strlen(WHITEOUT_PREFIX);

    if (streq(base, WHITEOUT_OPAQUE)) {
        entry->kind = UNPACK_OPAQUE;
        if (base > entry->path)
            base--;
        *base = '\0';
        return 0;
    }
    if (starts_with(base, WHITEOUT_META)) {
        entry->kind = UNPACK_SKIP;
        return 0;
    }
    if (!name[0] || streq(name, ".") || streq(name, ".."))
        return err_set(err, ERR_INVALID, "a layer deletes '%s'", entry->path);
    entry->kind = UNPACK_WHITEOUT;
    memmove(base, name, strlen(name) + 1);
    return 0;
}

static const char *entry_path(struct archive_entry *from)
{
    const char *path = archive_entry_pathname(from);

    return path ? path : archive_entry_pathname_utf8(from);
}

static int read_target(const char *target, struct unpack_entry *entry, struct err *err)
{
    if (!target || !target[0] || strlen(target) >= UNPACK_PATH_MAX)
        return err_set(err, ERR_INVALID, "a layer's link '%.200s' has no target that we can use",
                       entry->path);
    memcpy(entry->target, target, strlen(target) + 1);
    return 0;
}

static int read_kind(struct archive_entry *from, struct unpack_entry *entry, struct err *err)
{
    const char *link = archive_entry_hardlink(from);

    if (link) {
        entry->kind = UNPACK_HARDLINK;
        return clean_path(link, entry->target, err);
    }
    switch (archive_entry_filetype(from)) {
    case AE_IFREG:
        entry->kind = UNPACK_FILE;
        return 0;
    case AE_IFDIR:
        entry->kind = UNPACK_FOLDER;
        return 0;
    case AE_IFLNK:
        entry->kind = UNPACK_SYMLINK;
        return read_target(archive_entry_symlink(from), entry, err);
    case AE_IFIFO:
        entry->kind = UNPACK_FIFO;
        return 0;
    default:
        entry->kind = UNPACK_SKIP;
        return 0;
    }
}

int unpack_entry_read(struct archive_entry *from, struct unpack_entry *ret, struct err *err)
{
    const char *path = entry_path(from);

    ret->target[0] = '\0';
    if (!path)
        return err_set(err, ERR_INVALID, "a layer has an entry without a name");
    if (clean_path(path, ret->path, err) < 0)
        return -1;
    if (starts_with(base_of(ret->path), WHITEOUT_PREFIX))
        return read_whiteout(ret, err);
    if (read_kind(from, ret, err) < 0)
        return -1;
    if (!ret->path[0] && ret->kind != UNPACK_FOLDER && ret->kind != UNPACK_SKIP)
        return err_set(err, ERR_INVALID, "a layer's root is no folder");
    return 0;
}

/* ---- reading ---- */

static void archive_close(struct archive *a)
{
    if (a)
        archive_read_free(a);
}
DEFINE_CLEANUP(struct archive *, archive_close);

/* Only what libarchive does itself: support_filter_all would run programs for unknown compressions. */
static struct archive *reader_new(void)
{
    struct archive *a = archive_read_new();

    if (!a)
        abort();
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_xz(a);
    return a;
}

static int archive_fail(struct archive *a, struct fail *fail)
{
    const char *text = archive_error_string(a);

    return fail_set(fail, IMAGE_FAIL_INVALID, "a layer cannot be unpacked: %.300s",
                    text ? text : "it is damaged");
}

static int copy_data(struct archive *a, struct plant *plant, int fd, struct fail *fail)
{
    const void *block;
    size_t len;
    la_int64_t offset;
    int rc;

    for (;;) {
        rc = archive_read_data_block(a, &block, &len, &offset);
        if (rc == ARCHIVE_EOF)
            return 0;
        if (rc < ARCHIVE_WARN)
            return archive_fail(a, fail);
        if (plant_data(plant, fd, block, len, offset, fail) < 0)
            return -1;
        plant_progress(plant, archive_filter_bytes(a, -1));
    }
}

static int take_file(struct archive *a, struct archive_entry *from, const struct unpack_entry *entry,
                     struct plant *plant, struct fail *fail)
{
    CLEANUP(fd_close) int fd = plant_file(plant, entry, fail);

    if (fd < 0 || copy_data(a, plant, fd, fail) < 0)
        return -1;
    return plant_file_end(plant, fd, from, fail);
}

static int take_entry(struct archive *a, struct archive_entry *from, struct unpack_entry *entry,
                      struct plant *plant, struct fail *fail)
{
    if (unpack_entry_read(from, entry, &fail->err) < 0)
        return -1;
    if (plant_count(plant, fail) < 0)
        return -1;
    if (entry->kind == UNPACK_FILE)
        return take_file(a, from, entry, plant, fail);
    return plant_other(plant, entry, from, fail);
}

int unpack_tar(int fd, int root, const struct unpack_options *options, struct unpack_counts *ret,
               struct fail *fail)
{
    CLEANUP(archive_close) struct archive *a = reader_new();
    CLEANUP(plant_free) struct plant *plant = plant_new(root, options);
    CLEANUP(free) struct unpack_entry *entry = mem_alloc(sizeof(*entry));
    struct archive_entry *from;
    int rc;

    if (archive_read_open_fd(a, fd, READ_STEP) != ARCHIVE_OK)
        return archive_fail(a, fail);
    while ((rc = archive_read_next_header(a, &from)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
        if (take_entry(a, from, entry, plant, fail) < 0)
            return -1;
        plant_progress(plant, archive_filter_bytes(a, -1));
    }
    if (rc != ARCHIVE_EOF)
        return archive_fail(a, fail);
    plant_end(plant, ret);
    return 0;
}

int unpack_scan(int fd, struct str data, bool (*each)(void *arg, const struct unpack_entry *entry), void *arg,
                struct fail *fail)
{
    CLEANUP(archive_close) struct archive *a = reader_new();
    CLEANUP(free) struct unpack_entry *entry = mem_alloc(sizeof(*entry));
    struct archive_entry *from;
    int rc;

    rc = data.s ? archive_read_open_memory(a, data.s, data.len) : archive_read_open_fd(a, fd, READ_STEP);
    if (rc != ARCHIVE_OK)
        return archive_fail(a, fail);
    while ((rc = archive_read_next_header(a, &from)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
        if (unpack_entry_read(from, entry, &fail->err) < 0)
            return -1;
        if (!each(arg, entry))
            return 0;
    }
    return rc == ARCHIVE_EOF ? 0 : archive_fail(a, fail);
}
