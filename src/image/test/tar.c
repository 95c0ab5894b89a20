/* tar.c */
#include "tar.h"

#include "base/mem.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#define TAR_MAX ((size_t)64 << 20)

static unsigned type_of(char type)
{
    switch (type) {
    case 'd':
        return AE_IFDIR;
    case 'l':
        return AE_IFLNK;
    case 'p':
        return AE_IFIFO;
    case 'c':
        return AE_IFCHR;
    default:
        return AE_IFREG;
    }
}

static void add_row(struct archive *a, const struct tar_row *row)
{
    struct archive_entry *entry = archive_entry_new();
    size_t len = row->type == '-' && row->text ? strlen(row->text) : 0;

    archive_entry_set_pathname(entry, row->path);
    archive_entry_set_filetype(entry, type_of(row->type));
    archive_entry_set_perm(entry, (mode_t)(row->mode ? row->mode : row->type == 'd' ? 0755 : 0644));
    archive_entry_set_uid(entry, row->uid);
    archive_entry_set_gid(entry, row->gid);
    archive_entry_set_mtime(entry, 1000000000, 0);
    archive_entry_set_size(entry, (int64_t)len);
    if (row->type == 'l')
        archive_entry_set_symlink(entry, row->text);
    if (row->type == 'h')
        archive_entry_set_hardlink(entry, row->text);
    if (row->xattr)
        archive_entry_xattr_add_entry(entry, row->xattr, "y", 1);
    if (archive_write_header(a, entry) != ARCHIVE_OK ||
        (len > 0 && archive_write_data(a, row->text, len) != (ssize_t)len))
        abort();
    archive_entry_free(entry);
}

void tar_make(const struct tar_row *rows, size_t len, const char *filter, struct buf *ret)
{
    struct archive *a = archive_write_new();
    char *space = mem_alloc(TAR_MAX);
    size_t used = 0;

    archive_write_set_format_pax_restricted(a);
    if (filter[0] && archive_write_add_filter_by_name(a, filter) != ARCHIVE_OK)
        abort();
    if (streq(filter, "gzip")) /* the same input is to have the same digest */
        archive_write_set_filter_option(a, "gzip", "timestamp", NULL);
    if (archive_write_open_memory(a, space, TAR_MAX, &used) != ARCHIVE_OK)
        abort();
    for (size_t i = 0; i < len; i++)
        add_row(a, &rows[i]);
    if (archive_write_close(a) != ARCHIVE_OK)
        abort();
    archive_write_free(a);
    buf_add(ret, space, used);
    free(space);
}
