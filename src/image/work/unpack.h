/* unpack - a layer's tar (plain or compressed) as a folder for overlayfs.
 *
 * Whatever the tar says, nothing outside the folder is touched: names with ".." are refused, links are
 * followed as if the folder were the root, and only for the folders of a name, never for its last part.
 * Owners, modes, times, capabilities and user attributes are kept; devices are left out, since containers get
 * their own /dev.
 * ".wh.NAME" becomes what overlayfs takes for a deleted NAME, ".wh..wh..opq" a folder that hides the ones
 * below. */
#pragma once

#include "base/buf.h"
#include "image/work/fail.h"

#define UNPACK_PATH_MAX  4096
#define UNPACK_NAMES_MAX (64 << 20) /* bytes of the names of a layer's folders, which are kept in memory */

struct archive_entry;

enum unpack_kind {
    UNPACK_FILE,
    UNPACK_FOLDER,
    UNPACK_SYMLINK,
    UNPACK_HARDLINK,
    UNPACK_FIFO,
    UNPACK_WHITEOUT, /* path is what is deleted */
    UNPACK_OPAQUE,   /* path is the folder */
    UNPACK_SKIP,     /* devices, other tools' own files */
};

/* A header, checked: path is relative, clean, "" for the root itself. */
struct unpack_entry {
    enum unpack_kind kind;
    char path[UNPACK_PATH_MAX];
    char target[UNPACK_PATH_MAX]; /* HARDLINK: like path. SYMLINK: as it is */
};
int unpack_entry_read(struct archive_entry *from, struct unpack_entry *ret, struct err *err);

struct unpack_options {
    int64_t bytes_max;
    int64_t files_max;     /* entries, and folders that are made because something lies in them */
    int64_t reserve_bytes; /* of disk space to leave */
    void (*progress)(void *arg, int64_t consumed); /* bytes of the tar as stored; may be NULL */
    void *arg;
    struct buf
        *implied; /* gets the paths of folders that the tar leaves out, each with its NUL; may be NULL */
};

struct unpack_counts {
    int64_t bytes, files;
};

/* Reads the tar at fd (from where it stands) into the empty folder open as root. */
int unpack_tar(int fd, int root, const struct unpack_options *options, struct unpack_counts *ret,
               struct fail *fail);
/* Reads through a tar: each header's checked entry. each returns false to stop. For looking into archives,
 * and fuzzing (data instead of fd when it is not NULL). */
int unpack_scan(int fd, struct str data, bool (*each)(void *arg, const struct unpack_entry *entry), void *arg,
                struct fail *fail);
