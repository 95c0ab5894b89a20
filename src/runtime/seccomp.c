/* One walk over the table gives rules; they go to libseccomp, or into JSON. Filters are kept by the
 * capabilities that the table asks for: in practice one, rarely a second. */
#include "runtime/seccomp.h"

#include "base/json.h"
#include "base/vec.h"
#include "runtime/bundle_caps.h"
#include "runtime/seccomp_table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define NS_FLAGS                                                                                             \
    ((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
                CLONE_NEWNET))
#define FILTER_MAX      65536 /* bytes of a BPF program */
#define SOCKETCALL_I386 102
#define SYS_SOCKET      1  /* of socketcall */
#define CACHE_MAX       64 /* filters kept; more sets of capabilities than that are compiled anew */

struct filter {
    uint64_t caps;
    char *base64;
};

struct seccomp {
    VEC(struct filter) filters;
};

/* Without `op`, the rule holds for all arguments. */
struct rule {
    const char *name;
    int errnum; /* 0: allowed */
    const char *op;
    enum scmp_compare cmp;
    unsigned index;
    uint64_t value, mask; /* of MASKED_EQ: mask, then value */
};

typedef int (*rule_fn)(void *arg, const struct rule *rule);

static int walk_by_cap(uint64_t caps, rule_fn fn, void *arg)
{
    for (size_t row = 0; row < ARRAY_LEN(seccomp_by_cap); row++)
        for (const char *const *name = seccomp_by_cap[row].names; *name; name++) {
            bool allowed = false, seen = false;

            for (size_t other = 0; other < ARRAY_LEN(seccomp_by_cap); other++)
                for (const char *const *it = seccomp_by_cap[other].names; *it; it++)
                    if (streq(*it, *name)) {
                        allowed |= (caps & caps_mask(seccomp_by_cap[other].cap)) != 0;
                        seen |= other < row;
                    }
            if (!seen && fn(arg, &(struct rule){.name = *name, .errnum = allowed ? 0 : EPERM}) < 0)
                return -1;
        }
    return 0;
}

/* Owners of files could take them out of the project quota of a volume: by FS_IOC_FSSETXATTR, or by clearing
 * a folder's flag with FS_IOC_SETFLAGS. Allowed is every request whose last 16 bits (type and number; the
 * rest may be anything, the kernel ignores part of it) are neither of these two, A and B. There is no "masked
 * not equal", so it is said bit by bit: something that is neither is unlike both in a bit that they share, or
 * has two neighbours among the other bits of which one is as in A and the next as in B. */
#define IOCTL_MASK 0xffffu
#define IOCTL_A    (FS_IOC_FSSETXATTR & IOCTL_MASK)
#define IOCTL_B    (FS_IOC_SETFLAGS & IOCTL_MASK)

static int walk_ioctl_rule(rule_fn fn, void *arg, uint64_t mask, uint64_t value, int errnum)
{
    return fn(arg, &(struct rule){.name = "ioctl",
                                  .errnum = errnum,
                                  .op = "SCMP_CMP_MASKED_EQ",
                                  .cmp = SCMP_CMP_MASKED_EQ,
                                  .index = 1,
                                  .mask = mask,
                                  .value = value});
}

static int walk_ioctl(uint64_t caps, rule_fn fn, void *arg)
{
    uint64_t differ = IOCTL_A ^ IOCTL_B, first = 0, last = 0;

    if (caps & caps_mask("CAP_SYS_RESOURCE")) /* quotas do not hold these anyway */
        return fn(arg, &(struct rule){.name = "ioctl"});
    for (uint64_t bit = 1; bit & IOCTL_MASK; bit <<= 1) {
        if (!(differ & bit)) {
            if (walk_ioctl_rule(fn, arg, bit, ~(uint64_t)IOCTL_A & bit, 0) < 0)
                return -1;
            continue;
        }
        if (!first)
            first = bit;
        else if (walk_ioctl_rule(fn, arg, last | bit, (IOCTL_A & last) | (IOCTL_B & bit), 0) < 0)
            return -1;
        last = bit;
    }
    if (walk_ioctl_rule(fn, arg, last | first, (IOCTL_A & last) | (IOCTL_B & first), 0) < 0)
        return -1;
    return walk_ioctl_rule(fn, arg, IOCTL_MASK, IOCTL_A, EPERM) < 0
               ? -1
               : walk_ioctl_rule(fn, arg, IOCTL_MASK, IOCTL_B, EPERM);
}

/* Sockets of all families but AF_VSOCK, which leads to the host of this VM. The kernel takes an int, and a
 * comparison is of 64 bits: allowed is what differs in one of the last eight bits, so that nothing above them
 * makes another family of it. (Families past 255 there are none.) */
#define FAMILY_MASK 0xffu

static int walk_socket(rule_fn fn, void *arg)
{
    struct rule rule = {.name = "socket", .op = "SCMP_CMP_MASKED_EQ", .cmp = SCMP_CMP_MASKED_EQ};

    for (uint64_t bit = 1; bit & FAMILY_MASK; bit <<= 1) {
        rule.mask = bit;
        rule.value = ~(uint64_t)AF_VSOCK & bit;
        if (fn(arg, &rule) < 0)
            return -1;
    }
    return 0;
}

static int walk_special(uint64_t caps, rule_fn fn, void *arg)
{
    /* Linux, the three flavours of addresses that setarch and debuggers ask for, and "which is it" */
    static const uint64_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
    bool admin = caps & caps_mask("CAP_SYS_ADMIN");
    struct rule clone = {.name = "clone"};

    if (!admin) {
        clone.op = "SCMP_CMP_MASKED_EQ";
        clone.cmp = SCMP_CMP_MASKED_EQ;
        clone.mask = NS_FLAGS;
    }
    /* clone3 hides its flags in memory; ENOSYS makes C libraries take clone. */
    if (fn(arg, &clone) < 0 || walk_socket(fn, arg) < 0 ||
        fn(arg, &(struct rule){.name = "clone3", .errnum = admin ? 0 : ENOSYS}) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(personalities); i++)
        if (fn(arg, &(struct rule){.name = "personality",
                                   .op = "SCMP_CMP_EQ",
                                   .cmp = SCMP_CMP_EQ,
                                   .value = personalities[i]}) < 0)
            return -1;
    return 0;
}

static int walk(uint64_t caps, rule_fn fn, void *arg)
{
    for (size_t i = 0; i < ARRAY_LEN(seccomp_allowed); i++)
        if (fn(arg, &(struct rule){.name = seccomp_allowed[i]}) < 0)
            return -1;
    for (size_t i = 0; i < ARRAY_LEN(seccomp_refused); i++)
        if (fn(arg, &(struct rule){.name = seccomp_refused[i], .errnum = EPERM}) < 0)
            return -1;
    return walk_by_cap(caps, fn, arg) < 0 || walk_ioctl(caps, fn, arg) < 0 ? -1 : walk_special(caps, fn, arg);
}

/* ---- compiled ---- */

struct seccomp *seccomp_new(void)
{
    return NEW(struct seccomp);
}

void seccomp_free(struct seccomp *seccomp)
{
    if (!seccomp)
        return;
    VEC_EACH(&seccomp->filters, it)
        free(it->base64);
    vec_done(&seccomp->filters);
    free(seccomp);
}

static int add_rule(void *arg, const struct rule *rule)
{
    scmp_filter_ctx ctx = arg;
    int call = seccomp_syscall_resolve_name(rule->name);
    uint32_t action = rule->errnum ? SCMP_ACT_ERRNO((uint32_t)rule->errnum) : SCMP_ACT_ALLOW;
    struct scmp_arg_cmp cmp = {rule->index, rule->cmp, rule->value, 0};
    int rc;

    if (call == __NR_SCMP_ERROR)
        return 0;
    if (rule->errnum == ENOSYS) /* what happens anyway; libseccomp refuses such rules */
        return 0;
    if (rule->cmp == SCMP_CMP_MASKED_EQ) {
        cmp.datum_a = rule->mask;
        cmp.datum_b = rule->value;
    }
    rc = seccomp_rule_add_array(ctx, action, call, rule->op ? 1 : 0, &cmp);
    /* Calls that one of the architectures has not, or has only through socketcall, are no matter. */
    return rc < 0 && rc != -EDOM && rc != -EINVAL && rc != -EOPNOTSUPP ? rc : 0;
}

static int set_up(scmp_filter_ctx ctx, uint64_t caps)
{
    int rc = 0;

    /* A tree instead of a list: a fifth of the instructions for each call. */
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
    switch (seccomp_arch_native()) {
    case SCMP_ARCH_X86_64:
        rc = seccomp_arch_add(ctx, SCMP_ARCH_X86);
        if (rc == 0)
            rc = seccomp_arch_add(ctx, SCMP_ARCH_X32);
        break;
    case SCMP_ARCH_AARCH64:
        rc = seccomp_arch_add(ctx, SCMP_ARCH_ARM);
        break;
    default:
        break;
    }
    return rc < 0 ? rc : walk(caps, add_rule, ctx);
}

/* What 32-bit programs ask of socketcall lies in their memory, where no filter looks: sockets are not made
 * that way. (C libraries of this decade call socket itself.) libseccomp, which allows it along with socket,
 * cannot be told so; this goes before its program. */
static const struct sock_filter no_socketcall[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_I386, 0, 5),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCKETCALL_I386, 0, 3),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_SOCKET, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
};

static int compile(uint64_t caps, char **ret, struct err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    CLEANUP(fd_close) int fd = memfd_create("seccomp", MFD_CLOEXEC);
    CLEANUP(buf_done) struct buf base64 = {0};
    static char program[sizeof(no_socketcall) + FILTER_MAX];
    size_t head = seccomp_arch_native() == SCMP_ARCH_X86_64 ? sizeof(no_socketcall) : 0;
    ssize_t len;
    int rc;

    if (!ctx || fd < 0) {
        seccomp_release(ctx);
        return err_errno(err, ENOMEM, "make a seccomp filter");
    }
    rc = set_up(ctx, caps);
    if (rc == 0)
        rc = seccomp_export_bpf(ctx, fd);
    seccomp_release(ctx);
    if (rc < 0)
        return err_errno(err, -rc, "compile the seccomp filter");
    memcpy(program, no_socketcall, head);
    len = pread(fd, program + head, FILTER_MAX, 0);
    if (len <= 0 || (size_t)len == FILTER_MAX)
        return err_set(err, ERR_INTERNAL, "the seccomp filter has %zd bytes", len);
    buf_base64(&base64, (struct str){program, head + (size_t)len});
    *ret = buf_take(&base64);
    return 0;
}

int seccomp_bpf(struct seccomp *seccomp, uint64_t caps, const char **ret, struct err *err)
{
    uint64_t relevant = caps & caps_mask("CAP_SYS_RESOURCE");
    char *base64;

    for (size_t i = 0; i < ARRAY_LEN(seccomp_by_cap); i++)
        relevant |= caps & caps_mask(seccomp_by_cap[i].cap);
    VEC_EACH(&seccomp->filters, it)
        if (it->caps == relevant) {
            *ret = it->base64;
            return 0;
        }
    if (compile(relevant, &base64, err) < 0)
        return -1;
    if (seccomp->filters.len == CACHE_MAX) {
        free(seccomp->filters.v[CACHE_MAX - 1].base64);
        seccomp->filters.len--;
    }
    vec_push(&seccomp->filters, (struct filter){relevant, base64});
    *ret = base64;
    return 0;
}

/* ---- as a list ---- */

struct oci {
    struct arena *arena;
    struct json *syscalls;
    struct json *names; /* of the last row, where more names can join; NULL: it has conditions */
    int errnum;
};

static int add_oci(void *arg, const struct rule *rule)
{
    struct oci *oci = arg;
    struct json *row, *cond, *names;

    if (oci->names && !rule->op && rule->errnum == oci->errnum) {
        json_push_string(oci->arena, oci->names, rule->name);
        return 0;
    }
    row = json_push_object(oci->arena, oci->syscalls);
    json_set_string(oci->arena, row, "action", rule->errnum ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW");
    if (rule->errnum)
        json_set_int(oci->arena, row, "errnoRet", rule->errnum);
    names = json_set_array(oci->arena, row, "names");
    json_push_string(oci->arena, names, rule->name);
    oci->names = rule->op ? NULL : names;
    oci->errnum = rule->errnum;
    if (!rule->op)
        return 0;
    cond = json_push_object(oci->arena, json_set_array(oci->arena, row, "args"));
    json_set_int(oci->arena, cond, "index", rule->index);
    json_set_string(oci->arena, cond, "op", rule->op);
    if (rule->cmp == SCMP_CMP_MASKED_EQ) {
        json_set_int(oci->arena, cond, "value", (int64_t)rule->mask);
        json_set_int(oci->arena, cond, "valueTwo", (int64_t)rule->value);
    } else {
        json_set_int(oci->arena, cond, "value", (int64_t)rule->value);
    }
    return 0;
}

struct json seccomp_oci(struct arena *arena, uint64_t caps)
{
    struct json *doc = json_new_object(arena), *arches;
    struct oci oci = {.arena = arena};

    json_set_string(arena, doc, "defaultAction", "SCMP_ACT_ERRNO");
    json_set_int(arena, doc, "defaultErrnoRet", ENOSYS);
    arches = json_set_array(arena, doc, "architectures");
    if (seccomp_arch_native() == SCMP_ARCH_AARCH64) {
        json_push_string(arena, arches, "SCMP_ARCH_AARCH64");
        json_push_string(arena, arches, "SCMP_ARCH_ARM");
    } else {
        json_push_string(arena, arches, "SCMP_ARCH_X86_64");
        json_push_string(arena, arches, "SCMP_ARCH_X86");
        json_push_string(arena, arches, "SCMP_ARCH_X32");
    }
    oci.syscalls = json_set_array(arena, doc, "syscalls");
    walk(caps, add_oci, &oci);
    return *doc;
}
