#include "backup/pack.h"

#include "base/file.h"
#include "base/mem.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#define BLOCK_BYTES (256 << 10)

struct pack_out {
    struct archive *archive;
    int fd;
};

static int fail(struct archive *archive, const char *what, struct err *err)
{
    const char *text = archive_error_string(archive);

    return err_set(err, archive_errno(archive) == ENOSPC ? ERR_UNAVAILABLE : ERR_SYSTEM, "%s: %s", what,
                   text ? text : "failed");
}

int pack_create(const char *path, struct pack_out **ret, struct err *err)
{
    CLEANUP(pack_out_free) struct pack_out *out = NEW(struct pack_out);

    out->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out->fd < 0)
        return err_errno(err, errno, "create '%s'", path);
    out->archive = archive_write_new();
    if (!out->archive)
        return err_set(err, ERR_SYSTEM, "out of memory");
    if (archive_write_add_filter_gzip(out->archive) != ARCHIVE_OK ||
        archive_write_set_filter_option(out->archive, "gzip", "compression-level", "1") != ARCHIVE_OK ||
        archive_write_set_format_pax_restricted(out->archive) != ARCHIVE_OK ||
        archive_write_open_fd(out->archive, out->fd) != ARCHIVE_OK)
        return fail(out->archive, "begin the archive", err);
    *ret = TAKE_PTR(out);
    return 0;
}

void pack_out_free(struct pack_out *out)
{
    if (!out)
        return;
    if (out->archive)
        archive_write_free(out->archive);
    fd_close(out->fd);
    free(out);
}

static int add_header(struct pack_out *out, const char *name, int64_t size, struct err *err)
{
    struct archive_entry *entry = archive_entry_new();
    int rc;

    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0600);
    archive_entry_set_size(entry, size);
    rc = archive_write_header(out->archive, entry);
    archive_entry_free(entry);
    return rc == ARCHIVE_OK ? 0 : fail(out->archive, name, err);
}

int pack_add_text(struct pack_out *out, const char *name, struct str text, struct err *err)
{
    if (add_header(out, name, (int64_t)text.len, err) < 0)
        return -1;
    if (text.len > 0 && archive_write_data(out->archive, text.s, text.len) != (la_ssize_t)text.len)
        return fail(out->archive, name, err);
    return 0;
}

int pack_add_file(struct pack_out *out, const char *name, const char *path, struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(free) char *block = mem_alloc(BLOCK_BYTES);
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, errno, "open '%s'", path);
    if (add_header(out, name, st.st_size, err) < 0)
        return -1;
    while ((n = read(fd, block, BLOCK_BYTES)) > 0)
        if (archive_write_data(out->archive, block, (size_t)n) != n)
            return fail(out->archive, name, err);
    return n < 0 ? err_errno(err, errno, "read '%s'", path) : 0;
}

int pack_finish(struct pack_out *out, struct err *err)
{
    if (archive_write_close(out->archive) != ARCHIVE_OK)
        return fail(out->archive, "end the archive", err);
    return fsync(out->fd) < 0 ? err_errno(err, errno, "sync the archive") : 0;
}

static int unpack_one(struct archive *archive, struct archive_entry *entry, const char *dir,
                      int64_t (*limit)(const char *name), struct err *err)
{
    const char *name = archive_entry_pathname(entry);
    int64_t max = name ? limit(name) : -1;
    CLEANUP(free) char *path = NULL;
    CLEANUP(fd_close) int fd = -1;

    if (max < 0 || archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
        return err_set(err, ERR_INVALID, "unexpected member '%s'", name ? name : "");
    if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) > max)
        return err_set(err, ERR_INVALID, "member '%s' is too large", name);
    path = mem_printf("%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_errno(err, errno, "create '%s'", path);
    if (archive_read_data_into_fd(archive, fd) != ARCHIVE_OK)
        return err_set(err, ERR_INVALID, "member '%s': %s", name,
                       archive_error_string(archive) ? archive_error_string(archive) : "damaged");
    return fsync(fd) < 0 ? err_errno(err, errno, "sync '%s'", path) : 0;
}

static int unpack_all(struct archive *archive, const char *dir, int64_t (*limit)(const char *name),
                      struct err *err)
{
    struct archive_entry *entry;
    int rc;

    while ((rc = archive_read_next_header(archive, &entry)) == ARCHIVE_OK)
        if (unpack_one(archive, entry, dir, limit, err) < 0)
            return -1;
    return rc == ARCHIVE_EOF
               ? 0
               : err_set(err, ERR_INVALID, "%s",
                         archive_error_string(archive) ? archive_error_string(archive) : "damaged");
}

int pack_open_into(const char *path, const char *dir, int64_t (*limit)(const char *name), struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct archive *archive;
    int result;

    if (fd < 0)
        return err_errno(err, errno, "open '%s'", path);
    archive = archive_read_new();
    if (!archive)
        return err_set(err, ERR_SYSTEM, "out of memory");
    archive_read_support_filter_gzip(archive);
    archive_read_support_format_tar(archive);
    if (archive_read_open_fd(archive, fd, BLOCK_BYTES) != ARCHIVE_OK)
        result = err_set(err, ERR_INVALID, "%s", archive_error_string(archive));
    else
        result = unpack_all(archive, dir, limit, err);
    archive_read_free(archive);
    return result;
}

int pack_sum(const char *path, char ret[PACK_HEX_LEN + 1], struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(free) char *block = mem_alloc(BLOCK_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ssize_t n = -1;
    bool good = fd >= 0 && context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;

    while (good && (n = read(fd, block, BLOCK_BYTES)) > 0)
        good = EVP_DigestUpdate(context, block, (size_t)n) == 1;
    good = good && n == 0 && EVP_DigestFinal_ex(context, sum, &len) == 1;
    EVP_MD_CTX_free(context);
    if (!good)
        return err_errno(err, errno ? errno : EIO, "read '%s'", path);
    for (unsigned i = 0; i < len && 2 * i < PACK_HEX_LEN; i++)
        snprintf(ret + (size_t)2 * i, 3, "%02x", sum[i]);
    return 0;
}
