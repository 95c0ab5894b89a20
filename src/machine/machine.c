/* The table of routes, and who asks. */
#include "base/mem.h"
#include "loop/offload.h"
#include "machine/internal.h"

#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

static const struct route {
    const char *method, *path;
    bool images; /* only where there are images */
    void (*handle)(struct machine *machine, struct call *call);
} table[] = {
    {"GET", "/v1/images", true, images_route},        {"DELETE", "/v1/images", true, images_remove_route},
    {"POST", "/v1/images/pull", true, fetch_route},   {"POST", "/v1/images/gc", true, images_gc_route},
    {"GET", "/v1/images/import", true, import_route}, {"GET", "/v1/logins", false, logins_route},
    {"POST", "/v1/logins", true, logins_add_route},   {"DELETE", "/v1/logins", true, logins_remove_route},
    {"GET", "/v1/files", false, files_route},
};

static void refuse(struct call *call, int status, const char *reason, const char *sentence)
{
    failure_set(&call->failure, call->arena, status, reason, "%s", sentence);
    call_fail(call);
}

bool machine_handle(void *arg, struct call *call)
{
    struct machine *machine = arg;
    bool known = false;

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const struct route *route = &table[i];

        if (!streq(route->path, call->req->path))
            continue;
        known = true;
        if (!streq(route->method, call->req->method))
            continue;
        if (route->images && !machine->images)
            refuse(call, 503, "ServiceUnavailable",
                   "there are no images here: the daemon runs without its node agent (as root: --agent on)");
        else
            route->handle(machine, call);
        return true;
    }
    if (known)
        refuse(call, 405, "MethodNotAllowed", "that cannot be done at this path");
    return known;
}

/* ---- who ---- */

const char *machine_owner(const struct call *call)
{
    return access_is_admin(&call->who) ? NULL : call->who.user;
}

bool share_used_up(struct call *call, const char *what, size_t own, size_t own_max, size_t all,
                   size_t all_max)
{
    if (own < own_max && all < all_max)
        return false;
    failure_set(&call->failure, call->arena, 429, "TooManyRequests", "too many %s at once: %zu %s", what,
                own < own_max ? all_max : own_max, own < own_max ? "in all" : "for each user");
    call_fail(call);
    return true;
}

int person_of(const struct call *call, struct person *ret, struct err *err)
{
    struct person person = {.home = "/"};

    if (!call->who.has_uid && !access_is_admin(&call->who))
        return err_set(err, ERR_NOT_FOUND, "user '%s' has no account on this machine", call->who.user);
    person.uid = call->who.has_uid ? call->who.uid : 0;
    person.gid = call->who.has_uid ? call->who.gid : 0;
    if (geteuid() != 0 && geteuid() != person.uid)
        return err_set(err, ERR_UNSUPPORTED, "this daemon is not root's, so it has no rights but its own");
    *ret = person;
    return 0;
}

void person_look_up(struct person *person)
{
    struct passwd entry, *found = NULL;
    char text[4096];
    int len = IMAGE_GROUPS_MAX;

    if (getpwuid_r(person->uid, &entry, text, sizeof(text), &found) != 0 || !found)
        return;
    person->gid = entry.pw_gid;
    snprintf(person->name, sizeof(person->name), "%s", entry.pw_name);
    snprintf(person->home, sizeof(person->home), "%s", entry.pw_dir);
    if (getgrouplist(entry.pw_name, entry.pw_gid, person->groups, &len) < 0)
        len = IMAGE_GROUPS_MAX;
    person->groups_len = (size_t)len;
}

/* ---- life ---- */

/* Beside berthd, where it is installed, or in the build folder. */
static char *find_helper(void)
{
    static const char *const places[] = {"%s/berth-files", "%s/../libexec/berth/berth-files",
                                         "%s/../machine/berth-files"};
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL;

    if (!slash)
        return NULL;
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char *path = mem_printf(places[i], self);

        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

struct machine *machine_new(const struct machine_config *config)
{
    struct machine *machine = NEW(struct machine);

    machine->loop = config->loop;
    machine->offload = offload_new(config->loop);
    machine->writes = offload_new(config->loop);
    machine->images = config->images;
    machine->data_dir = mem_strdup(config->data_dir);
    machine->push_to = mem_strdup(config->push_to);
    imports_sweep(machine);
    machine->files_helper = find_helper();
    machine->registries = mem_zalloc((config->registries_len + 1) * sizeof(*machine->registries));
    for (; machine->registries_len < config->registries_len; machine->registries_len++) {
        const struct images_registry *from = &config->registries[machine->registries_len];

        machine->registries[machine->registries_len] = (struct images_registry){
            .host = mem_strdup(from->host),
            .ca_file = mem_strdup(from->ca_file),
            .mirror = mem_strdup(from->mirror),
            .insecure = from->insecure,
            .mirror_insecure = from->mirror_insecure,
        };
    }
    return machine;
}

void machine_free(struct machine *machine)
{
    if (!machine)
        return;
    offload_close(machine->offload);
    offload_close(machine->writes);
    fetches_end(machine);
    imports_end(machine);
    relays_end(machine);
    for (size_t i = 0; i < machine->registries_len; i++) {
        free((char *)(uintptr_t)machine->registries[i].host);
        free((char *)(uintptr_t)machine->registries[i].ca_file);
        free((char *)(uintptr_t)machine->registries[i].mirror);
    }
    free(machine->registries);
    free(machine->data_dir);
    free(machine->push_to);
    free(machine->files_helper);
    free(machine);
}
