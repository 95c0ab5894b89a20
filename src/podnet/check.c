/* check - whether the host's rules still let pods through. The question is asked in the helper thread, since
 * it may run a program; the answer is acted on in the loop's, which knows the ports. */
#define LOG_MODULE "podnet"
#include "base/clock.h"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/forward.h"
#include "podnet/impl.h"
#include "podnet/netlink.h"

struct net_check {
    struct net_task task;
    struct podnet *net;
    podnet_done_fn fn;
    void *arg;
    int there; /* the tables: 1, 0, or -1 with err */
    bool services;
    struct err err;
};

static void run_check(struct net_task *task)
{
    struct net_check *c = CONTAINER_OF(task, struct net_check, task);

    c->there = 1;
    if (c->net->worker_nf < 0)
        return;
    c->there = nft_table_there(c->net->worker_nf, c->net->bridge, &c->err);
    if (c->there > 0 && c->services)
        c->there = nft_services_there(c->net->worker_nf, c->net->bridge, &c->err);
    forward_allow(c->net->bridge);
}

static void done_check(struct net_task *task)
{
    struct net_check *c = CONTAINER_OF(task, struct net_check, task);
    bool failed = c->there < 0;

    if (c->there == 0) {
        log_warn("somebody removed the nf_tables table %s: making it again", c->net->bridge);
        failed = ports_rebuild(c->net, &c->err) < 0 || services_rebuild(c->net, &c->err) < 0;
    }
    if (failed)
        log_warn("%s", c->err.msg);
    if (c->fn)
        c->fn(c->arg, failed ? &c->err : NULL);
    free(c);
}

static void drop_check(struct net_task *task)
{
    free(CONTAINER_OF(task, struct net_check, task));
}

void podnet_check(struct podnet *net, podnet_done_fn fn, void *arg)
{
    struct net_check *c = NEW(struct net_check);

    *c = (struct net_check){.task = {.run = run_check, .done = done_check, .drop = drop_check}};
    c->net = net;
    c->services = net->services.len > 0;
    c->fn = fn;
    c->arg = arg;
    worker_push(net->worker, &c->task);
}

static void on_timer(void *arg)
{
    struct podnet *net = arg;

    podnet_check(net, NULL, NULL);
    loop_timer_set(net->check, PODNET_CHECK_SEC * NSEC_PER_SEC);
}

void net_check_start(struct podnet *net)
{
    struct err err = {0};

    if (!net->dnat)
        return;
    net->worker_nf = nl_open(NETLINK_NETFILTER, &err);
    if (net->worker_nf < 0)
        log_warn("%s", err.msg);
    net->check = loop_timer_new(net->loop, on_timer, net);
    loop_timer_set(net->check, PODNET_CHECK_SEC * NSEC_PER_SEC);
}
