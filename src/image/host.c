/* host.c - this machine's own root as an image: what an overlay on "/" lacks (other file systems mounted
 * below it), what it must not show, and what must be fresh. */
#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/vec.h"
#include "image/internal.h"

#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>

#define MOUNTINFO_MAX (16 << 20)
#define MOUNTS_MAX    256

struct host_held {
    struct image_host host;
    struct arena arena;
    VEC(struct image_host_mount) mounts;
    VEC(char *) masked, memory;
};

/* File systems that are made anew in a container, or make no sense in one. */
static const char *const pseudo[] = {
    "proc",        "sysfs",      "devtmpfs",   "devpts",    "cgroup",     "cgroup2",  "mqueue",
    "tmpfs",       "ramfs",      "securityfs", "debugfs",   "tracefs",    "configfs", "pstore",
    "bpf",         "autofs",     "nsfs",       "hugetlbfs", "efivarfs",   "fusectl",  "overlay",
    "binfmt_misc", "rpc_pipefs", "selinuxfs",  "nfsd",      "fuse.lxcfs",
};

static const char *const hidden_below[] = {"/proc", "/sys",     "/dev",  "/run",
                                           "/tmp",  "/var/tmp", "/boot", "/root"};

static const char *const masked[] = {
    "/root",
    "/boot",
    "/lost+found",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_*_key",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/docker/key.json",
    "/etc/berth",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/etc/letsencrypt/archive",
    "/etc/letsencrypt/keys",
    "/var/lib/berth",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/kubelet",
    "/var/lib/private",
    "/var/lib/sss/db",
    "/var/spool/cron",
    "/var/spool/mail",
    "/var/mail",
    "/var/log",
    "/var/backups",
    "/var/cache/private",
};

static const char *const memory[] = {"/tmp", "/var/tmp", "/run"};

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0' || streq(top, "/"));
}

static bool is_pseudo(struct str type)
{
    for (size_t i = 0; i < ARRAY_LEN(pseudo); i++)
        if (str_is(type, pseudo[i]))
            return true;
    return false;
}

static bool is_hidden(const struct host_held *held, const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(hidden_below); i++)
        if (is_below(path, hidden_below[i]))
            return true;
    for (size_t i = 0; i < held->masked.len; i++)
        if (is_below(path, held->masked.v[i]))
            return true;
    return false;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static char *unescape(struct arena *arena, struct str text)
{
    char *path = arena_alloc(arena, text.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.s[i] == '\\' && i + 3 < text.len) {
            path[len++] =
                (char)((text.s[i + 1] - '0') * 64 + (text.s[i + 2] - '0') * 8 + (text.s[i + 3] - '0'));
            i += 3;
        } else {
            path[len++] = text.s[i];
        }
    }
    path[len] = '\0';
    return path;
}

/* "36 35 98:0 /mnt1 /mnt/parent rw,noatime shared:1 - ext3 /dev/root rw" */
static void take_mount(struct host_held *held, struct str line)
{
    struct str field, path = {NULL, 0}, flags = {NULL, 0}, type = {NULL, 0};
    struct image_host_mount mount;
    bool after_dash = false;
    struct stat st;

    for (size_t i = 0; str_split(&line, ' ', &field) && !type.s; i++) {
        if (i == 4)
            path = field;
        else if (i == 5)
            flags = field;
        else if (after_dash)
            type = field;
        after_dash = str_is(field, "-");
    }
    if (!type.s || is_pseudo(type) || held->mounts.len >= MOUNTS_MAX)
        return;
    mount = (struct image_host_mount){
        .path = unescape(&held->arena, path),
        .readonly = str_is(flags, "ro") || str_starts(flags, "ro,"),
    };
    if (streq(mount.path, "/") || is_hidden(held, mount.path) || lstat(mount.path, &st) < 0)
        return;
    for (size_t i = 0; i < held->mounts.len; i++)
        if (streq(held->mounts.v[i].path, mount.path)) /* mounted over: the later one is seen */
            return;
    vec_push(&held->mounts, mount);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct image_host_mount *)a)->path, ((const struct image_host_mount *)b)->path);
}

static void mask(struct host_held *held, const char *pattern)
{
    glob_t found = {0};

    if (glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            vec_push(&held->masked, arena_strdup(&held->arena, found.gl_pathv[i]));
    globfree(&found);
}

/* A path of ours as it is; it may have characters that mean something to glob. */
static void mask_exact(struct host_held *held, const char *path)
{
    struct stat st;

    for (size_t i = 0; i < held->masked.len; i++)
        if (is_below(path, held->masked.v[i]))
            return;
    if (lstat(path, &st) == 0 && !streq(path, "/"))
        vec_push(&held->masked, arena_strdup(&held->arena, path));
}

static void host_config(struct image_config *config)
{
    static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                      "LANG=C.UTF-8", NULL};
    static const char *const bash[] = {"/bin/bash", NULL}, *const sh[] = {"/bin/sh", NULL};

    *config = (struct image_config){
        .env = env,
        .cmd = access("/bin/bash", X_OK) == 0 ? bash : sh,
        .workdir = "/",
    };
}

int image_host_new(const struct images *images, const char *const *hide, struct image_host **ret,
                   struct err *err)
{
    struct host_held *held;
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest, line;

    if (file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, err) < 0)
        return -1;
    held = NEW(struct host_held);
    for (size_t i = 0; i < ARRAY_LEN(masked); i++)
        mask(held, masked[i]);
    mask_exact(held, images->dir);
    for (; hide && *hide; hide++)
        mask_exact(held, *hide);
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line))
        take_mount(held, line);
    if (held->mounts.len > 0) /* parents come first by name, too */
        qsort(held->mounts.v, held->mounts.len, sizeof(*held->mounts.v), by_path);
    for (size_t i = 0; i < ARRAY_LEN(memory); i++)
        if (access(memory[i], F_OK) == 0)
            vec_push(&held->memory, arena_strdup(&held->arena, memory[i]));
    held->host = (struct image_host){
        .mounts = held->mounts.v,
        .mounts_len = held->mounts.len,
        .masked = held->masked.v,
        .masked_len = held->masked.len,
        .memory = held->memory.v,
        .memory_len = held->memory.len,
    };
    host_config(&held->host.config);
    *ret = &held->host;
    return 0;
}

void image_host_free(struct image_host *host)
{
    struct host_held *held = (struct host_held *)(void *)host;

    if (!held)
        return;
    vec_done(&held->mounts);
    vec_done(&held->masked);
    vec_done(&held->memory);
    arena_done(&held->arena);
    free(held);
}
