/* A table of names in the kernel's order; the rest is bit arithmetic. */
#include "runtime/bundle_caps.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <strings.h>
#include <sys/prctl.h>

static const char *const names[CAPS_COUNT] = {
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
};

#define BIT(n) (UINT64_C(1) << (n))
const uint64_t caps_default = BIT(0) | BIT(1) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) |
                              BIT(10) | BIT(13) | BIT(18) | BIT(27) | BIT(29) | BIT(31);

const char *caps_name(int bit)
{
    return names[bit];
}

uint64_t caps_mask(const char *name)
{
    if (strcasecmp(name, "ALL") == 0 || strcasecmp(name, "CAP_ALL") == 0)
        return CAPS_ALL;
    for (size_t i = 0; i < CAPS_COUNT; i++)
        if (strcasecmp(name, names[i]) == 0 || strcasecmp(name, names[i] + strlen("CAP_")) == 0)
            return BIT(i);
    return 0;
}

static int collect(const char *const *list, uint64_t *ret, struct err *err)
{
    for (; list && *list; list++) {
        uint64_t mask = caps_mask(*list);

        if (!mask)
            return err_set(err, ERR_INVALID, "unknown capability '%s'", *list);
        *ret |= mask;
    }
    return 0;
}

int caps_resolve(const char *const *add, const char *const *drop, uint64_t *ret, struct err *err)
{
    uint64_t added = 0, dropped = 0;

    if (collect(drop, &dropped, err) < 0 || collect(add, &added, err) < 0)
        return -1;
    *ret = (caps_default & ~dropped) | added;
    return 0;
}

uint64_t caps_own(void)
{
    uint64_t own = 0;

    for (int i = 0; i < CAPS_COUNT; i++)
        if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1)
            own |= BIT(i);
    return own;
}
