/* holder - who has a port of this machine: /proc/net/tcp gives the socket's inode, /proc/PID/fd its owner. It
 * is asked from the loop, so it gives up after HOLDER_NSEC of processor time: the sentence is then without a
 * name. */
#include "base/clock.h"
#include "base/file.h"
#include "podnet/impl.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

#define TABLE_MAX   (1 << 20) /* bytes of /proc/net/tcp */
#define HOLDER_NSEC (50 * NSEC_PER_MSEC)
#define LISTEN      0x0a

/* The word's hexadecimal number; false: it is none. */
static bool read_hex(struct str word, unsigned *ret)
{
    unsigned value = 0;

    for (size_t i = 0; i < word.len; i++) {
        static const char digits[] = "0123456789ABCDEF";
        const char *digit = memchr(digits, word.s[i], sizeof(digits) - 1);

        if (!digit || word.len > 8)
            return false;
        value = value << 4 | (unsigned)(digit - digits);
    }
    *ret = value;
    return word.len > 0;
}

/* A row: "  0: 0100007F:1F90 00000000:0000 0A … uid timeout inode". False: no such port. */
static bool row_inode(struct str row, unsigned port, bool tcp, uint64_t *ret)
{
    struct str rest = row, word, part;
    unsigned number = 0;
    int at = 0;

    while (str_split(&rest, ' ', &word)) {
        if (!word.len)
            continue;
        if (at == 1) {
            (void)str_split(&word, ':', &part);
            if (!read_hex(word, &number) || number != port)
                return false;
        }
        if (at == 3 && (!read_hex(word, &number) || (tcp && number != LISTEN)))
            return false;
        if (at == 9)
            return str_to_uint(word, ret) && *ret != 0;
        at++;
    }
    return false;
}

static bool table_inode(const char *path, unsigned port, bool tcp, uint64_t *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, row;

    if (file_read(path, TABLE_MAX, &text, NULL) < 0)
        return false;
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &row))
        if (row_inode(row, port, tcp, ret))
            return true;
    return false;
}

static bool has_socket(const char *pid, const char *wanted)
{
    CLEANUP(free) char *folder = mem_printf("/proc/%s/fd", pid);
    DIR *dir = opendir(folder);
    bool found = false;

    if (!dir)
        return false;
    for (struct dirent *e; !found && (e = readdir(dir));) {
        char target[64];
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

        if (n <= 0)
            continue;
        target[n] = '\0';
        found = streq(target, wanted);
    }
    closedir(dir);
    return found;
}

static void name_process(const char *pid, struct buf *ret)
{
    CLEANUP(free) char *path = mem_printf("/proc/%s/comm", pid);
    CLEANUP(buf_done) struct buf comm = {0};
    struct str name = STR("?");

    if (file_read(path, 256, &comm, NULL) == 0 && comm.len > 1)
        name = (struct str){comm.data, comm.len - 1};
    buf_printf(ret, " by process %s (%.*s)", pid, STR_ARG(name));
}

static int64_t cpu_time(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

void port_holder(const struct podnet_port *port, struct buf *ret)
{
    static const char *const tables[2][2] = {{"/proc/self/net/tcp", "/proc/self/net/tcp6"},
                                             {"/proc/self/net/udp", "/proc/self/net/udp6"}};
    bool tcp = port->proto == PODNET_TCP;
    int64_t end = cpu_time() + HOLDER_NSEC;
    uint64_t inode = 0;
    char wanted[64];
    DIR *proc;

    if (!table_inode(tables[!tcp][0], port->host_port, tcp, &inode) &&
        !table_inode(tables[!tcp][1], port->host_port, tcp, &inode))
        return;
    (void)snprintf(wanted, sizeof(wanted), "socket:[%llu]", (unsigned long long)inode);
    proc = opendir("/proc");
    if (!proc)
        return;
    for (struct dirent *e; cpu_time() < end && (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && has_socket(e->d_name, wanted)) {
            name_process(e->d_name, ret);
            break;
        }
    closedir(proc);
}
