/* Two slots are written in turn, each with a checksum: a torn write leaves the other one. */
#include "store/mark.h"

#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#define SLOT_BYTES 512
#define SLOTS      2
#define FORMAT     "berth-mark 1 %" PRIu64 " %36s %" PRId64 " %" PRId64 " "
#define NO_ID      "00000000-0000-0000-0000-000000000000"

struct mark {
    int fd;
    uint64_t turn; /* of the last write; the newer slot has the higher one */
};

char *mark_path(const char *path)
{
    return mem_printf("%s-mark", path);
}

static uint32_t sum_of(const char *text, size_t len)
{
    return (uint32_t)crc32(0, (const unsigned char *)text, (unsigned)len);
}

/* "berth-mark 1 TURN ID REVISION OTHERS ", a line's end, and the sum of what is before it. */
static bool read_line(struct str line, uint64_t *ret_turn, struct mark_point *ret)
{
    struct str word[6];

    for (size_t i = 0; i < ARRAY_LEN(word); i++)
        if (!str_split(&line, ' ', &word[i]))
            return false;
    if (!str_is(word[0], "berth-mark") || !str_is(word[1], "1") || word[3].len != MARK_ID_LEN ||
        !str_to_uint(word[2], ret_turn) || !str_to_int(word[4], &ret->revision) ||
        !str_to_int(word[5], &ret->others))
        return false;
    if (!str_is(word[3], NO_ID))
        memcpy(ret->id, word[3].s, MARK_ID_LEN);
    return true;
}

static bool read_slot(int fd, unsigned slot, uint64_t *ret_turn, struct mark_point *ret)
{
    char text[SLOT_BYTES + 1] = "", sum[16];
    const char *end;

    if (pread(fd, text, SLOT_BYTES, (off_t)slot * SLOT_BYTES) <= 0 || !(end = strchr(text, '\n')))
        return false;
    snprintf(sum, sizeof(sum), "%08" PRIx32 "\n", sum_of(text, (size_t)(end - text)));
    *ret = (struct mark_point){0};
    return streq(end + 1, sum) && read_line((struct str){text, (size_t)(end - text)}, ret_turn, ret);
}

int mark_open(const char *path, struct mark **ret, struct mark_point *ret_point, struct err *err)
{
    CLEANUP(free) char *name = mark_path(path);
    CLEANUP(mark_close) struct mark *mark = NEW(struct mark);
    struct mark_point point;
    uint64_t turn;

    mark->fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (mark->fd < 0)
        return err_errno(err, errno, "open '%s'", name);
    if (flock(mark->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? err_set(err, ERR_CONFLICT, "'%s' is in use by another process", path)
                                    : err_errno(err, errno, "lock '%s'", name);
    *ret_point = (struct mark_point){0};
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (read_slot(mark->fd, slot, &turn, &point) && turn >= mark->turn) {
            mark->turn = turn;
            *ret_point = point;
        }
    *ret = TAKE_PTR(mark);
    return 0;
}

void mark_close(struct mark *mark)
{
    if (!mark)
        return;
    fd_close(mark->fd);
    free(mark);
}

void mark_set(struct mark *mark, const struct mark_point *point)
{
    char text[SLOT_BYTES] = "";
    uint64_t turn = mark->turn + 1;
    int len = snprintf(text, sizeof(text), FORMAT, turn, point->id[0] ? point->id : NO_ID, point->revision,
                       point->others);

    snprintf(text + len, sizeof(text) - (size_t)len, "\n%08" PRIx32 "\n", sum_of(text, (size_t)len));
    if (pwrite(mark->fd, text, SLOT_BYTES, (off_t)(turn % SLOTS) * SLOT_BYTES) == SLOT_BYTES)
        mark->turn = turn;
}
