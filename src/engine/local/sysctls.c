/* securityContext.sysctls: kernel settings of the namespaces that the containers of a pod share. The safe
 * ones are for everybody, the others for admins, and none is for a namespace that is the machine's. */
#include "engine/local/internal.h"

enum sysctl_ns { SYSCTL_NET, SYSCTL_IPC };

static const struct {
    const char *name; /* ends with *: all that begin so */
    enum sysctl_ns ns;
    bool safe;
} rows[] = {
    {"kernel.shm_rmid_forced", SYSCTL_IPC, true},
    {"net.ipv4.ip_local_port_range", SYSCTL_NET, true},
    {"net.ipv4.ip_local_reserved_ports", SYSCTL_NET, true},
    {"net.ipv4.ip_unprivileged_port_start", SYSCTL_NET, true},
    {"net.ipv4.ping_group_range", SYSCTL_NET, true},
    {"net.ipv4.tcp_fin_timeout", SYSCTL_NET, true},
    {"net.ipv4.tcp_keepalive_intvl", SYSCTL_NET, true},
    {"net.ipv4.tcp_keepalive_probes", SYSCTL_NET, true},
    {"net.ipv4.tcp_keepalive_time", SYSCTL_NET, true},
    {"net.ipv4.tcp_rmem", SYSCTL_NET, true},
    {"net.ipv4.tcp_syncookies", SYSCTL_NET, true},
    {"net.ipv4.tcp_wmem", SYSCTL_NET, true},
    {"fs.mqueue.*", SYSCTL_IPC, false},
    {"kernel.msg*", SYSCTL_IPC, false},
    {"kernel.sem", SYSCTL_IPC, false},
    {"kernel.shm*", SYSCTL_IPC, false},
    {"net.*", SYSCTL_NET, false},
};

static bool matches(const char *pattern, const char *name)
{
    size_t len = strlen(pattern);

    return pattern[len - 1] == '*' ? strncmp(name, pattern, len - 1) == 0 : streq(name, pattern);
}

static int check(const struct local_pod *pod, const char *name, struct err *err)
{
    size_t i = 0;
    bool machine;

    while (i < ARRAY_LEN(rows) && !matches(rows[i].name, name))
        i++;
    if (i == ARRAY_LEN(rows) || strstr(name, ".."))
        return err_set(err, ERR_FORBIDDEN, "sysctl \"%s\" is of no namespace that a pod has", name);
    if (!rows[i].safe && !pod->user.admin)
        return err_set(err, ERR_FORBIDDEN, "sysctl \"%s\" is for admins", name);
    machine = rows[i].ns == SYSCTL_NET ? pod->host_network || podnet_mode(pod->engine->net) == PODNET_HOST
                                       : json_bool(json_at(pod->doc, "spec.hostIPC"));
    return machine ? err_set(err, ERR_FORBIDDEN, "sysctl \"%s\": the pod is in the machine's namespace", name)
                   : 0;
}

int sysctls_read(const struct local_pod *pod, struct arena *arena, struct runtime_spec *out, struct err *err)
{
    const struct json *list = json_at(pod->doc, "spec.securityContext.sysctls");
    struct runtime_pair *pairs = arena_zalloc(arena, (json_len(list) + 1) * sizeof(*pairs));
    size_t n = 0;

    JSON_EACH(list, it) {
        char *name = arena_strdup(arena, json_string_or(json_get(it, "name"), ""));

        for (char *slash = name; (slash = strchr(slash, '/'));)
            *slash = '.';
        if (check(pod, name, err) < 0)
            return -1;
        pairs[n++] = (struct runtime_pair){name, json_string_or(json_get(it, "value"), "")};
    }
    out->sysctls = pairs;
    out->sysctls_len = n;
    return 0;
}
