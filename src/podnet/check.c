/* check - whether what was set up is still there. Others remove it: `ip link del`, a firewall that is loaded
 * anew, a cleaner of temporary files. Looked at and put right in the helper thread, since that takes time and
 * may run a program; rules are made again in the loop's, which knows the ports and services. */
#define LOG_MODULE "podnet"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/forward.h"
#include "podnet/impl.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SOON_NSEC  (100 * NSEC_PER_MSEC) /* what belongs together is heard of in this time */
#define PAUSE_NSEC NSEC_PER_SEC          /* between two looks, whoever changes what */

/* A pod, or a namespace that waits for one. */
struct checked_pod {
    char *path, *alias; /* alias NULL: it waits */
    uint32_t home, ip;
    bool lost; /* no namespace is pinned */
};

struct net_check {
    struct net_task task;
    struct podnet *net;
    podnet_done_fn fn;
    void *arg;
    VEC(struct checked_pod) pods;
    int whole; /* the tables: 1, 0, or -1 with err */
    bool services, rules_lost;
    bool made_bridge, changed_bridge, forwarding;
    size_t attached, linked, unlinked;
    bool failed;
    struct err err;
};

static void check_free(struct net_check *c)
{
    VEC_EACH(&c->pods, it) {
        free(it->path);
        free(it->alias);
    }
    vec_done(&c->pods);
    free(c);
}

int net_forwarding(const char *name)
{
    CLEANUP(free) char *path = mem_printf("/proc/sys/net/ipv4/%s", name);
    CLEANUP(fd_close) int fd = open(path, O_RDWR | O_CLOEXEC);
    char c = '0';

    if (fd < 0 || read(fd, &c, 1) != 1 || (c != '1' && pwrite(fd, "1", 1, 0) != 1))
        return -1;
    return c != '1';
}

/* ---- the bridge ---- */

static const struct link *link_named(const struct links *links, const char *name)
{
    VEC_EACH(links, it)
        if (streq(it->name, name))
            return it;
    return NULL;
}

static bool has_address(const struct podnet *net, int index, struct err *err)
{
    struct link_addrs addrs = {0};
    bool found = link_addrs(net->worker_rt, &addrs, err) < 0;

    VEC_EACH(&addrs, it)
        found |= it->index == index && it->ip == net->gateway && it->prefix == net->subnet.prefix;
    vec_done(&addrs);
    return found;
}

static int mend_bridge(struct podnet *net, const struct link *bridge, bool *made, bool *changed,
                       struct err *err)
{
    if (bridge && !streq(bridge->kind, "bridge"))
        return err_set(err, ERR_CONFLICT, "there is a device %s and it is no bridge", net->bridge);
    if (bridge && bridge->up && has_address(net, bridge->index, NULL)) {
        *changed |= net->bridge_index != bridge->index;
        net->bridge_index = bridge->index;
        return 0;
    }
    if (!bridge && link_bridge_add(net->worker_rt, net->bridge, net->gateway, net->mtu, err) < 0)
        return -1;
    net->bridge_index = bridge ? bridge->index : (int)if_nametoindex(net->bridge);
    if (!net->bridge_index)
        return err_errno(err, errno, "find bridge %s", net->bridge);
    *(bridge ? changed : made) = true;
    return link_bridge_up(net->worker_rt, net->bridge_index, &net->subnet, net->gateway, err);
}

int net_bridge_mend(struct podnet *net, bool *made, bool *changed, struct err *err)
{
    struct links links = {0};
    bool made_ = false, changed_ = false;
    int status = link_list(net->worker_rt, &links, err);

    if (status == 0)
        status = mend_bridge(net, link_named(&links, net->bridge), made ? made : &made_,
                             changed ? changed : &changed_, err);
    vec_done(&links);
    return status;
}

/* ---- pods ---- */

struct setup {
    const struct podnet *net;
    uint32_t ip;
    struct err *err;
};

static int set_up(void *arg)
{
    const struct setup *s = arg;
    CLEANUP(fd_close) int nl = nl_open(NETLINK_ROUTE, s->err);

    return nl < 0 ? -1 : link_pod_setup(nl, s->ip, s->net->subnet.prefix, s->net->gateway, s->err);
}

/* The pod's link is gone at both ends: another one, with the address it had. */
static int make_link(struct podnet *net, const struct checked_pod *pod, struct err *err)
{
    CLEANUP(fd_close) int ns = open(pod->path, O_RDONLY | O_CLOEXEC);
    struct link_pod link = {net->bridge_index, pod->home, net->mtu};
    struct setup setup = {net, pod->ip, err};

    if (ns < 0)
        return err_errno(err, errno, "open '%s'", pod->path);
    if (link_pod_add(net->worker_rt, ns, &link, err) < 0)
        return -1;
    if (netns_run(net->home, pod->path, set_up, &setup) < 0) {
        char name[IF_NAMESIZE];

        link_pod_name(pod->home, name);
        (void)link_del(net->worker_rt, 0, name, NULL);
        return -1;
    }
    return pod->alias ? link_pod_mark(net->worker_rt, pod->home, pod->alias, err) : 0;
}

static void check_pod(struct net_check *c, const struct links *links, struct checked_pod *pod)
{
    struct podnet *net = c->net;
    char name[IF_NAMESIZE];
    const struct link *link;
    struct err err = {0};

    pod->lost = !netns_pinned(pod->path);
    link_pod_name(pod->home, name);
    link = link_named(links, name);
    if (link && link->up && link->master == net->bridge_index)
        return;
    if (link) {
        bool ok = link_attach(net->worker_rt, link->index, net->bridge_index, &err) == 0 &&
                  (!pod->alias || link_pod_mark(net->worker_rt, pod->home, pod->alias, &err) == 0);

        c->attached += ok && pod->alias;
        c->unlinked += !ok && pod->alias;
    } else if (!pod->lost) {
        bool ok = make_link(net, pod, &err) == 0;

        c->linked += ok && pod->alias;
        c->unlinked += !ok && pod->alias;
    }
    if (err.code && pod->alias)
        c->err = err;
}

static int check_links(struct net_check *c)
{
    struct podnet *net = c->net;
    struct links links = {0};
    int status = net_bridge_mend(net, &c->made_bridge, &c->changed_bridge, &c->err);

    if (status == 0)
        status = link_list(net->worker_rt, &links, &c->err);
    if (status == 0)
        VEC_EACH(&c->pods, it)
            check_pod(c, &links, it);
    vec_done(&links);
    return status;
}

static void check_forwarding(struct net_check *c)
{
    CLEANUP(free) char *localnet = mem_printf("conf/%s/route_localnet", c->net->bridge);
    int was_off = net_forwarding("ip_forward");

    c->forwarding = was_off > 0;
    if (c->net->dnat && c->whole > 0)
        (void)net_forwarding(localnet); /* safe: the table has its guard */
    forward_allow(c->net->bridge);
}

static void run_check(struct net_task *task)
{
    struct net_check *c = CONTAINER_OF(task, struct net_check, task);

    c->whole = 1;
    if (c->net->mode != PODNET_BRIDGE)
        return;
    c->failed = dir_make(c->net->netns_dir, 0711, &c->err) < 0 || check_links(c) < 0;
    if (c->net->worker_nf >= 0) {
        struct err err = {0};

        c->whole = c->rules_lost ? 0 : nft_table_whole(c->net->worker_nf, c->net->bridge, &err);
        if (c->whole > 0 && c->services)
            c->whole = nft_services_whole(c->net->worker_nf, c->net->bridge, &err);
        if (c->whole < 0 && !c->failed)
            c->err = err;
    }
    check_forwarding(c);
}

/* ---- in the loop's thread ---- */

static void part(struct buf *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void part(struct buf *text, const char *fmt, ...)
{
    va_list ap;

    if (text->len)
        buf_puts(text, "; ");
    va_start(ap, fmt);
    buf_vprintf(text, fmt, ap);
    va_end(ap);
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

/* What was wrong and is right again; "" when all was well. */
static void say(const struct net_check *c, bool rules, struct buf *text)
{
    const char *bridge = c->net->bridge;

    if (c->made_bridge)
        part(text, "bridge %s was gone and has been made again", bridge);
    if (c->changed_bridge)
        part(text, "bridge %s was down or had lost its address and is set up again", bridge);
    if (c->attached)
        part(text, "%zu running pod%s attached to %s again", c->attached, c->attached == 1 ? " is" : "s are",
             bridge);
    if (c->linked)
        part(text, "the network link%s of %zu running pod%s gone and made again", plural(c->linked),
             c->linked, c->linked == 1 ? " was" : "s were");
    if (rules)
        part(text, "the nf_tables rules of %s were removed and have been made again", bridge);
    if (c->forwarding)
        part(text, "net.ipv4.ip_forward was switched off and is on again");
}

static void drop_lost_spares(struct net_check *c)
{
    VEC_EACH(&c->pods, it)
        if (!it->alias && it->lost)
            net_spare_drop(c->net, it->home);
    net_spares_make(c->net);
}

static void tell(struct podnet *net, const char *sentence, bool failed)
{
    if (sentence && net->mended)
        net->mended(net->mended_arg, sentence, failed);
    else if (sentence)
        log_warn("%s%s", failed ? "the pods' network is damaged: " : "", sentence);
}

static void done_check(struct net_task *task)
{
    struct net_check *c = CONTAINER_OF(task, struct net_check, task);
    struct podnet *net = c->net;
    CLEANUP(buf_done) struct buf text = {0};
    bool failed = c->failed || c->whole < 0 || c->unlinked, rules = false;
    CLEANUP(free) char *localnet = mem_printf("conf/%s/route_localnet", net->bridge);

    net->checking--;
    if (c->whole == 0 && net->dnat) {
        struct err err = {0};

        rules = ports_rebuild(net, &err) == 0 && services_rebuild(net, &err) == 0;
        if (!rules && !failed)
            c->err = err;
        failed |= !rules;
        if (rules) /* after its guard; a bridge that was made again does not have it */
            (void)net_forwarding(localnet);
    }
    say(c, rules, &text);
    buf_clear(&net->trouble);
    if (failed)
        buf_puts(&net->trouble, c->err.msg);
    tell(net, text.len ? text.data : NULL, false);
    tell(net, failed ? c->err.msg : NULL, true);
    drop_lost_spares(c);
    if (c->fn)
        c->fn(c->arg, failed ? &c->err : NULL);
    check_free(c);
    if (net->check_again)
        net_check_soon(net);
}

static void drop_check(struct net_task *task)
{
    check_free(CONTAINER_OF(task, struct net_check, task));
}

static void list_pods(struct net_check *c)
{
    struct podnet *net = c->net;
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(net->pods, &at, &key, &value)) {
        const struct pod *pod = value;

        if (pod->state == POD_UP && pod->home)
            vec_push(&c->pods, (struct checked_pod){mem_strdup(pod->pub.netns), pod_alias(pod), pod->home,
                                                    pod->ip, false});
    }
    VEC_EACH(&net->spares, it)
        vec_push(&c->pods,
                 (struct checked_pod){pod_netns_path(net, NULL, it->home), NULL, it->home, it->ip, false});
}

void podnet_check(struct podnet *net, podnet_done_fn fn, void *arg)
{
    struct net_check *c = NEW(struct net_check);

    *c = (struct net_check){.task = {.run = run_check, .done = done_check, .drop = drop_check}};
    c->net = net;
    c->services = net->services.len > 0;
    c->fn = fn;
    c->arg = arg;
    c->rules_lost = net->rules_lost;
    net->checking++;
    net->check_again = net->rules_lost = false;
    net->checked = clock_monotonic();
    list_pods(c);
    worker_push(net->worker, &c->task);
}

static void net_on_soon(void *arg)
{
    podnet_check(arg, NULL, NULL);
}

void net_check_soon(struct podnet *net)
{
    int64_t now = clock_monotonic(), wait = net->checked + PAUSE_NSEC - now;

    net->check_again = true;
    if (net->soon && !net->checking && !loop_timer_active(net->soon))
        loop_timer_set(net->soon, wait > SOON_NSEC && net->checked ? wait : SOON_NSEC);
}

static void net_on_timer(void *arg)
{
    struct podnet *net = arg;

    if (!net->checking)
        podnet_check(net, NULL, NULL);
    loop_timer_set(net->check, PODNET_CHECK_SEC * NSEC_PER_SEC);
}

void net_check_start(struct podnet *net)
{
    struct err err = {0};

    if (net->mode != PODNET_BRIDGE)
        return;
    if (net->dnat)
        net->worker_nf = nl_open(NETLINK_NETFILTER, &err);
    if (net->dnat && net->worker_nf < 0)
        log_warn("%s", err.msg);
    net->check = loop_timer_new(net->loop, net_on_timer, net);
    net->soon = loop_timer_new(net->loop, net_on_soon, net);
    loop_timer_set(net->check, PODNET_CHECK_SEC * NSEC_PER_SEC);
    net_watch_start(net);
}

void net_check_stop(struct podnet *net)
{
    net_watch_stop(net);
    loop_timer_free(TAKE_PTR(net->check));
    loop_timer_free(TAKE_PTR(net->soon));
}

void podnet_on_mended(struct podnet *net, podnet_mended_fn fn, void *arg)
{
    net->mended = fn;
    net->mended_arg = arg;
}

const char *podnet_trouble(const struct podnet *net)
{
    return net->trouble.len ? net->trouble.data : NULL;
}
