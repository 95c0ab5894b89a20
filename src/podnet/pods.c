/* pods - adding and removing them. The loop's thread owns the table and hands out addresses; what takes
 * time is a task for the helper thread.
 *
 * A pod is removed by unpinning its namespace alone: the kernel takes the link away with it, in the
 * background and many at once. Asking for the link's removal waits for RCU instead, 24 ms each.
 *
 * On a bridge a few are made ahead, since a namespace and its link take a millisecond or two: a pod then only
 * gives its name. */
#define IDLE_LOOKS      3
#define LINK_TRIES      3
#define IDLE_PAUSE_USEC 2000
#define LOG_MODULE      "podnet"
#include "base/file.h"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/impl.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

struct pod_task {
    struct net_task task;
    struct podnet *net;
    struct pod *pod; /* only for the loop's thread */
    enum podnet_mode mode;
    char *path, *alias;
    uint32_t ip, home;
    uint32_t next;     /* the address of a namespace that is kept; 0: it goes */
    uint32_t unused;   /* it was not kept after all */
    podnet_done_fn fn; /* of a removal */
    void *arg;
    bool failed;
    struct err err;
};

bool podnet_id_valid(const char *id)
{
    size_t len = strlen(id);

    if (len < 1 || len > PODNET_ID_MAX || !isalnum((unsigned char)id[0]))
        return false;
    for (const char *c = id; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return true;
}

char *pod_netns_path(const struct podnet *net, const char *id, uint32_t home)
{
    char name[IF_NAMESIZE];

    if (!home)
        return mem_printf("%s/%s", net->netns_dir, id);
    link_pod_name(home, name);
    return mem_printf("%s/%s", net->netns_dir, name);
}

struct pod *pod_new(struct podnet *net, const char *id, uint32_t home, uint32_t ip)
{
    struct pod *pod = NEW(struct pod);

    pod->net = net;
    pod->ip = ip;
    pod->home = home;
    pod->pub.id = mem_strdup(id);
    pod->pub.netns = net->mode == PODNET_HOST ? NULL : pod_netns_path(net, id, home);
    pod->pub.ip.s_addr = htonl(ip ? ip : net->mode == PODNET_SLIRP ? SLIRP_IP : net->host_ip);
    inet_ntop(AF_INET, &pod->pub.ip, pod->pub.ip_text, sizeof(pod->pub.ip_text));
    map_set(net->pods, str_from(id), pod);
    return pod;
}

char *pod_alias(const struct pod *pod)
{
    return pod->ip == pod->home ? mem_printf(ALIAS_PREFIX "%s", pod->pub.id)
                                : mem_printf(ALIAS_PREFIX "%s %s", pod->pub.id, pod->pub.ip_text);
}

static void give_back(struct podnet *net, uint32_t home, uint32_t ip)
{
    if (home)
        addr_pool_give(&net->pool, home);
    if (ip && ip != home)
        addr_pool_give(&net->pool, ip);
}

void pod_free(struct pod *pod)
{
    struct podnet *net = pod->net;

    map_remove(net->pods, str_from(pod->pub.id));
    give_back(net, pod->home, pod->ip);
    slirp_leave(pod->slirp);
    vec_done(&pod->waiters);
    free((char *)pod->pub.id);
    free((char *)pod->pub.netns);
    free(pod);
}

/* ---- in the helper thread ---- */

static int make_link(struct pod_task *t, int ns, int nl)
{
    struct podnet *net = t->net; /* what is read here is ours, or does not change after podnet_open */
    struct link_pod link = {net->bridge_index, t->home, net->mtu};
    char name[IF_NAMESIZE];

    link_pod_name(t->home, name);
    for (int tries = 0; link_pod_add(net->worker_rt, ns, &link, &t->err) < 0; tries++) {
        /* A pod that had this address is gone for us, but something still held its namespace. Or somebody
         * has removed the bridge. Or both. */
        if (tries == LINK_TRIES ||
            (t->err.code == ERR_EXISTS ? link_del(net->worker_rt, 0, name, &t->err)
                                       : net_bridge_mend(net, NULL, NULL, &t->err)) < 0)
            return -1;
        link.bridge = net->bridge_index;
        t->err = (struct err){0};
    }
    if (link_pod_setup(nl, t->ip, net->subnet.prefix, net->gateway, &t->err) < 0)
        return -1;
    return t->alias ? link_pod_mark(net->worker_rt, t->home, t->alias, &t->err) : 0;
}

static void run_add(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);
    int ns = -1, nl = -1;

    t->failed = true;
    if (netns_make(t->net->home, t->path, &ns, &nl, &t->err) < 0) {
        /* The folder may be gone; the check that looks for that may be yet to come. */
        if (dir_make(t->net->netns_dir, 0711, NULL) < 0)
            return;
        t->err = (struct err){0};
        if (netns_make(t->net->home, t->path, &ns, &nl, &t->err) < 0)
            return;
    }
    if (t->mode == PODNET_BRIDGE)
        t->failed = make_link(t, ns, nl) < 0;
    else
        t->failed = link_lo_up(nl, &t->err) < 0;
    close(ns);
    close(nl);
    if (t->failed)
        (void)netns_unpin(t->path, NULL);
}

/* It was made ahead. Where somebody has removed it or the bridge since, another is made in its place. */
static void run_mark(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    t->failed = !netns_pinned(t->path) || link_pod_mark(t->net->worker_rt, t->home, t->alias, &t->err) < 0;
    if (!t->failed)
        return;
    (void)netns_unpin(t->path, NULL);
    run_add(task);
}

static void give_up_address(struct pod_task *t)
{
    t->unused = t->next;
    t->next = 0;
}

static void run_remove(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    t->failed = t->path && netns_unpin(t->path, &t->err) < 0;
}

/* In the namespace of a pod whose processes are gone: nothing of theirs is left, and it has another address.
 */
static int move(void *arg)
{
    struct pod_task *t = arg;
    const struct podnet *net = t->net;
    bool idle = netns_idle();
    CLEANUP(fd_close) int nl = -1;

    for (int i = 0; !idle && i < IDLE_LOOKS;
         i++) { /* the kernel counts a closed socket for a moment longer */
        usleep(IDLE_PAUSE_USEC);
        idle = netns_idle();
    }
    nl = idle ? nl_open(NETLINK_ROUTE, NULL) : -1;
    return nl < 0 ? -1 : link_pod_move(nl, t->ip, t->next, net->subnet.prefix, net->gateway, NULL);
}

/* Keeps the namespace for another pod, or removes it. */
static void run_leave(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    if (link_pod_mark(t->net->worker_rt, t->home, "", NULL) == 0 &&
        netns_run(t->net->home, t->path, move, t) == 0)
        return;
    give_up_address(t);
    run_remove(task);
}

static void run_nothing(struct net_task *task)
{
    (void)task;
}

/* ---- in the loop's thread ---- */

static void task_free(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    free(t->path);
    free(t->alias);
    free(t);
}

static struct pod_task *task_new(struct podnet *net, struct pod *pod, void (*run)(struct net_task *),
                                 void (*done)(struct net_task *))
{
    struct pod_task *t = NEW(struct pod_task);

    t->task = (struct net_task){.run = run, .done = done, .drop = task_free};
    t->net = net;
    t->pod = pod;
    t->mode = net->mode;
    if (pod) {
        t->ip = pod->ip;
        t->home = pod->home;
        t->path = mem_strdup(pod->pub.netns);
        t->alias = pod_alias(pod);
    }
    return t;
}

/* Tells all who asked for the pod. A failed one is gone before they hear of it. */
static void tell_added(struct pod *pod, const struct err *err)
{
    __typeof__(pod->waiters) waiters = pod->waiters;

    pod->waiters.v = NULL;
    pod->waiters.len = pod->waiters.cap = 0;
    if (err && !pod->remove_next) {
        pod_free(pod);
        pod = NULL;
    } else if (!err && pod->state == POD_ADDING) {
        pod->state = pod->remove_next ? POD_REMOVING : POD_UP;
    }
    VEC_EACH(&waiters, it)
        it->fn(it->arg, err ? NULL : &pod->pub, err);
    vec_done(&waiters);
}

static void on_slirp_ready(void *arg, const struct err *err)
{
    struct pod *pod = arg;

    if (err) {
        slirp_stop(TAKE_PTR(pod->slirp));
        (void)netns_unpin(pod->pub.netns, NULL);
    }
    tell_added(pod, err);
}

static void done_add(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    if (!t->failed && t->mode == PODNET_SLIRP && !t->pod->remove_next)
        t->pod->slirp = slirp_start(t->net, t->pod->pub.id, t->pod->pub.netns, on_slirp_ready, t->pod);
    else
        tell_added(t->pod, t->failed ? &t->err : NULL);
    task_free(task);
}

struct refusal {
    struct net_task task;
    podnet_add_fn fn;
    void *arg;
    struct err err;
};

static void refusal_free(struct net_task *task)
{
    free(CONTAINER_OF(task, struct refusal, task));
}

static void done_refuse(struct net_task *task)
{
    struct refusal *r = CONTAINER_OF(task, struct refusal, task);

    r->fn(r->arg, NULL, &r->err);
    free(r);
}

/* Also refusals come from the loop, not from inside podnet_add. */
static void refuse(struct podnet *net, podnet_add_fn fn, void *arg, const struct err *err)
{
    struct refusal *r = NEW(struct refusal);

    r->task = (struct net_task){run_nothing, done_refuse, refusal_free, true, NULL};
    r->fn = fn;
    r->arg = arg;
    r->err = *err;
    worker_push(net->worker, &r->task);
}

/* ---- made ahead ---- */

static void done_spare(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    t->net->spares_coming--;
    if (t->failed) { /* whoever needs one is told why */
        log_debug("a network ahead of its pod: %s", t->err.msg);
        give_back(t->net, t->home, t->ip);
    } else {
        vec_push(&t->net->spares, (struct net_spare){t->home, t->ip});
    }
    task_free(task);
}

static void drop_spare(struct net_task *task)
{
    (void)netns_unpin(CONTAINER_OF(task, struct pod_task, task)->path, NULL);
    task_free(task);
}

void net_spares_make(struct podnet *net)
{
    while (net->mode == PODNET_BRIDGE && net->spares.len + net->spares_coming < net->spares_wanted) {
        struct pod_task *t = task_new(net, NULL, run_add, done_spare);

        if (!addr_pool_take(&net->pool, &t->ip)) {
            task_free(&t->task);
            return;
        }
        t->home = t->ip;
        t->path = pod_netns_path(net, NULL, t->home);
        t->task.drop = drop_spare;
        net->spares_coming++;
        worker_push(net->worker, &t->task);
    }
}

void net_spares_free(struct podnet *net)
{
    VEC_EACH(&net->spares, it) {
        CLEANUP(free) char *path = pod_netns_path(net, NULL, it->home);

        (void)netns_unpin(path, NULL);
        give_back(net, it->home, it->ip);
    }
    vec_done(&net->spares);
}

void net_spare_drop(struct podnet *net, uint32_t home)
{
    for (size_t i = 0; i < net->spares.len; i++)
        if (net->spares.v[i].home == home) {
            CLEANUP(free) char *path = pod_netns_path(net, NULL, home);

            (void)netns_unpin(path, NULL);
            give_back(net, home, net->spares.v[i].ip);
            vec_remove(&net->spares, i);
            return;
        }
}

static bool take_spare(struct podnet *net, struct net_spare *ret)
{
    if (net->spares.len == 0)
        return false;
    *ret = net->spares.v[0];
    net->spares.len--;
    memmove(net->spares.v, net->spares.v + 1, net->spares.len * sizeof(*net->spares.v));
    return true;
}

/* ---- adding ---- */

static struct pod *admit(struct podnet *net, const char *id, bool *made, struct err *err)
{
    struct net_spare at = {0};

    if (!podnet_id_valid(id)) {
        (void)err_set(err, ERR_INVALID, "'%s' is no id of a pod", id);
        return NULL;
    }
    if (map_len(net->pods) >= PODNET_PODS_MAX) {
        (void)err_set(err, ERR_LIMIT, "the network has %d pods already", PODNET_PODS_MAX);
        return NULL;
    }
    *made = take_spare(net, &at);
    if (net->mode == PODNET_BRIDGE && !*made && !addr_pool_take(&net->pool, &at.ip)) {
        (void)err_set(err, ERR_LIMIT, "all %u addresses of the pod network are taken", net->pool.taken);
        return NULL;
    }
    return pod_new(net, id, *made ? at.home : at.ip, at.ip);
}

void podnet_add(struct podnet *net, const char *id, podnet_add_fn fn, void *arg)
{
    struct pod *pod = map_get(net->pods, str_from(id));
    bool is_new = !pod, made = false;
    struct err err = {0};

    if (!pod)
        pod = admit(net, id, &made, &err);
    else if (pod->state == POD_REMOVING || pod->remove_next)
        (void)err_set(&err, ERR_CONFLICT, "the network of pod '%s' is being removed", id);
    if (err.code) {
        refuse(net, fn, arg, &err);
        return;
    }
    vec_push(&pod->waiters, (struct pod_waiter){fn, arg});
    if (is_new || pod->state == POD_UP) {
        bool work = is_new && net->mode != PODNET_HOST;
        struct pod_task *t = task_new(net, pod, !work ? run_nothing : made ? run_mark : run_add, done_add);

        if (!is_new)
            t->mode = PODNET_HOST; /* nothing to be done: only tell */
        t->task.urgent = made;     /* before others, which take longer, and those that are made ahead */
        worker_push(net->worker, &t->task);
        net_spares_make(net);
    }
}

static void done_remove(struct net_task *task)
{
    struct pod_task *t = CONTAINER_OF(task, struct pod_task, task);

    if (t->pod && t->pod->waiters.len) { /* its slirp4netns was not ready yet */
        struct err err = {0};

        (void)err_set(&err, ERR_CONFLICT, "the network of pod '%s' was removed", t->pod->pub.id);
        t->pod->remove_next = true; /* it is ours to free, not theirs */
        tell_added(t->pod, &err);
    }
    if (t->pod && t->next) {
        vec_push(&t->net->spares, (struct net_spare){t->home, t->next});
        if (t->pod->ip == t->home) /* its name: not to be given to others */
            t->pod->ip = 0;
        t->pod->home = 0;
    }
    if (t->unused)
        addr_pool_give(&t->net->pool, t->unused);
    if (t->pod)
        pod_free(t->pod);
    if (t->fn)
        t->fn(t->arg, t->failed ? &t->err : NULL);
    task_free(task);
}

static void start_remove(struct pod *pod, bool keep, podnet_done_fn fn, void *arg)
{
    struct podnet *net = pod->net;
    uint32_t next = 0;
    bool kept = keep && net->mode == PODNET_BRIDGE && net->spares_wanted && pod->home &&
                net->spares.len + net->spares_coming < NET_SPARES_KEPT && addr_pool_take(&net->pool, &next);
    struct pod_task *t = task_new(net, pod, kept ? run_leave : run_remove, done_remove);

    t->next = next;
    if (kept)
        t->task.drop = drop_spare;

    ports_drop_pod(net, pod);
    services_drop_pod(net, pod);
    slirp_stop(TAKE_PTR(pod->slirp));
    t->fn = fn;
    t->arg = arg;
    worker_push(net->worker, &t->task);
}

static void take_away(struct podnet *net, const char *id, bool keep, podnet_done_fn fn, void *arg)
{
    struct pod *pod = map_get(net->pods, str_from(id));

    if (pod && pod->state != POD_REMOVING && !pod->remove_next) {
        if (pod->state == POD_ADDING)
            pod->remove_next = true; /* the tasks are done in order: first the add, then this */
        else
            pod->state = POD_REMOVING;
        start_remove(pod, keep && pod->state == POD_REMOVING, fn, arg);
        return;
    }
    if (fn) { /* nothing there, or somebody else's removal that comes before this in the queue */
        struct pod_task *t = task_new(net, NULL, run_nothing, done_remove);

        t->fn = fn;
        t->arg = arg;
        worker_push(net->worker, &t->task);
    }
}

void podnet_remove(struct podnet *net, const char *id, podnet_done_fn fn, void *arg)
{
    take_away(net, id, false, fn, arg);
}

void podnet_leave(struct podnet *net, const char *id, podnet_done_fn fn, void *arg)
{
    take_away(net, id, true, fn, arg);
}

const struct podnet_pod *podnet_get(const struct podnet *net, const char *id)
{
    const struct pod *pod = map_get(net->pods, str_from(id));

    return pod && pod->state == POD_UP ? &pod->pub : NULL;
}

const struct podnet_pod *podnet_next(const struct podnet *net, size_t *at)
{
    struct str key;
    void *value;

    while (map_next(net->pods, at, &key, &value)) {
        const struct pod *pod = value;

        if (pod->state == POD_UP)
            return &pod->pub;
    }
    return NULL;
}
