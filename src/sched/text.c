/* Plans in plain words. */
#include "sched/sched.h"

#include <inttypes.h>

void sched_ordinal_text(int64_t milli, struct buf *buf)
{
    int64_t n = (milli + 999) / 1000;
    const char *end = "th";

    if (n % 100 / 10 != 1)
        end = n % 10 == 1 ? "st" : n % 10 == 2 ? "nd" : n % 10 == 3 ? "rd" : "th";
    buf_printf(buf, "%" PRId64 "%s", n, end);
}

static const char *name_of(const struct sched_view *view, uint32_t job)
{
    return job != SCHED_NONE && view->jobs[job].name ? view->jobs[job].name : "another job";
}

static void need_text(const struct demand *d, struct buf *buf)
{
    if (d->max_gpus == 0)
        buf_puts(buf, "CPU and memory");
    else if (d->mib > 0 && !d->exclusive)
        buf_printf(buf, "%u MiB of GPU memory", d->mib);
    else
        buf_printf(buf, "%u GPU%s", d->min_gpus, d->min_gpus == 1 ? "" : "s");
    if (d->min_gpus > 1 && d->mib > 0 && !d->exclusive)
        buf_printf(buf, " on each of %u GPUs", d->min_gpus);
}

/* ---- CPU and memory ---- */

static void cpu_text(int64_t milli, struct buf *buf)
{
    buf_printf(buf, "%.6g", (double)(milli > 0 ? milli : 0) / 1000);
}

static void mem_text(int64_t mib, struct buf *buf)
{
    if (mib < 1024)
        buf_printf(buf, "%" PRId64 " MiB", mib > 0 ? mib : 0);
    else
        buf_printf(buf, "%.4g GiB", (double)mib / 1024);
}

/* "64 CPUs", "900 GiB of memory" */
static void asked_text(struct resources need, bool cpu, struct buf *buf)
{
    if (cpu) {
        cpu_text(need.cpu_milli, buf);
        buf_puts(buf, need.cpu_milli <= 1000 ? " CPU" : " CPUs");
    } else {
        mem_text(need.mem_mib, buf);
        buf_puts(buf, " of memory");
    }
}

/* "1 CPU: 0.4 of 2 free on node vm" */
static void lacking_text(const struct node *node, struct resources need, struct resources free, bool cpu,
                         struct buf *buf)
{
    asked_text(need, cpu, buf);
    buf_puts(buf, ": ");
    if (cpu) {
        cpu_text(free.cpu_milli, buf);
        buf_puts(buf, " of ");
        cpu_text(node->capacity.cpu_milli, buf);
    } else {
        mem_text(free.mem_mib, buf);
        buf_puts(buf, " of ");
        mem_text(node->capacity.mem_mib, buf);
    }
    buf_printf(buf, " free on node %s", node->name);
}

static void busy_text(const struct sched_view *view, const struct wait *wait, struct buf *buf)
{
    struct resources need = view->jobs[wait->job].demand.each;
    const struct node *node =
        wait->node < view->cluster->node_count ? &view->cluster->nodes[wait->node] : NULL;
    bool cpu = need.cpu_milli > wait->free.cpu_milli, mem = need.mem_mib > wait->free.mem_mib;

    buf_puts(buf, "waiting for ");
    if (!node || (!cpu && !mem)) {
        buf_puts(buf, "CPU or memory of a node");
        return;
    }
    if (cpu)
        lacking_text(node, need, wait->free, true, buf);
    if (cpu && mem)
        buf_puts(buf, ", and for ");
    if (mem)
        lacking_text(node, need, wait->free, false, buf);
}

/* The most that a node has of something. */
struct most {
    int64_t amount;
    const struct node *node;
};

static void more(struct most *most, int64_t amount, const struct node *node)
{
    if (amount > most->amount)
        *most = (struct most){amount, node};
}

static uint32_t cards_of(const struct node *node)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < node->gpu_count; g++)
        count += !node->gpus[g].failed;
    return count;
}

static uint32_t all_cards(const struct sched_view *view)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < view->cluster->node_count; n++)
        if (!view->cluster->nodes[n].unschedulable)
            count += cards_of(&view->cluster->nodes[n]);
    return count;
}

static void never_text(const struct sched_view *view, const struct demand *d, struct buf *buf)
{
    uint32_t unit = d->unit_gpus && d->unit_gpus < d->min_gpus ? d->unit_gpus : d->min_gpus;
    struct most cpu = {0}, mem = {0}, cards = {0};

    for (uint32_t n = 0; n < view->cluster->node_count; n++) {
        const struct node *node = &view->cluster->nodes[n];

        more(&cpu, node->capacity.cpu_milli, node);
        more(&mem, node->capacity.mem_mib, node);
        more(&cards, cards_of(node), node);
    }
    if (d->min_gpus > all_cards(view) && all_cards(view) > 0 && unit <= cards.amount) {
        buf_printf(buf, "cannot run: it asks for %u GPUs, there are %u", d->min_gpus, all_cards(view));
        return;
    }
    buf_puts(buf, "cannot run: no node has ");
    if (unit > cards.amount) {
        buf_printf(buf, "%u GPU%s", unit, unit == 1 ? "" : "s");
        if (cards.node)
            buf_printf(buf, " (largest: %s, %" PRId64 ")", cards.node->name, cards.amount);
    } else if (d->each.cpu_milli > cpu.amount) {
        asked_text(d->each, true, buf);
        if (cpu.node) {
            buf_printf(buf, " (largest: %s, ", cpu.node->name);
            cpu_text(cpu.amount, buf);
            buf_putc(buf, ')');
        }
    } else if (d->each.mem_mib > mem.amount) {
        asked_text(d->each, false, buf);
        if (mem.node) {
            buf_printf(buf, " (largest: %s, ", mem.node->name);
            mem_text(mem.amount, buf);
            buf_putc(buf, ')');
        }
    } else {
        need_text(d, buf);
        buf_puts(buf, " together with ");
        asked_text(d->each, true, buf);
        buf_puts(buf, " and ");
        asked_text(d->each, false, buf);
    }
}

/* ---- reasons ---- */

/* %n: what it needs, %j: the job the reason names, %f: GPUs that are free and how many there are, %c: the CPU
 * or memory that is short, %N: the same of what no node has, %m: the largest card. */
static const char *const reasons[WAIT_REASONS] = {
    [WAIT_GPUS] = "waiting for %n: %f free",
    [WAIT_FRAGMENTED] = "waiting for %n on one node: %f free, but not together",
    [WAIT_SHARE] = "waiting for %n: no GPU has that much free",
    [WAIT_CPU] = "%c",
    [WAIT_VICTIM] = "starting as soon as '%j' has stopped",
    [WAIT_HELD] = "waiting: the free GPUs are kept for '%j', which is ahead of it",
    [WAIT_PROTECTED] =
        "waiting for %n: the jobs that have to make room are in their last epoch or have just started",
    [WAIT_ASK] = "waiting for %n: 'berth claim' would stop '%j', which cannot resume",
    [WAIT_BLOCKED] = "cannot start now",
    [WAIT_BACKOFF] = "waiting before the next try: the last one failed",
    [WAIT_NO_NODE] = "%N",
    [WAIT_NO_CARD] = "cannot run: no GPU has %n (largest: %m MiB)",
    [WAIT_NO_LABEL] = "cannot run: no node has the labels it asks for",
    [WAIT_ORDER] = "waiting for %n: jobs ahead of it get them first",
};

static void word(const struct sched_view *view, const struct wait *wait, char what, struct buf *buf)
{
    const struct demand *demand = &view->jobs[wait->job].demand;

    switch (what) {
    case 'n':
        need_text(demand, buf);
        break;
    case 'j':
        buf_puts(buf, name_of(view, wait->about));
        break;
    case 'f':
        buf_printf(buf, "%u of %u", wait->free_gpus, all_cards(view));
        break;
    case 'c':
        busy_text(view, wait, buf);
        break;
    case 'm':
        buf_printf(buf, "%u", cluster_largest_card(view->cluster));
        break;
    default:
        never_text(view, demand, buf);
    }
}

void sched_wait_text(const struct sched_view *view, const struct wait *wait, struct buf *buf)
{
    for (const char *s = reasons[wait->reason]; *s; s++)
        if (*s == '%')
            word(view, wait, *++s, buf);
        else
            buf_putc(buf, *s);
}

static void by_text(const struct sched_view *view, const struct action *action, struct buf *buf)
{
    const char *user = view->jobs[action->by].user;

    buf_printf(buf, " %s %s%s ", action->type == ACTION_RESIZE ? "to make room for" : "by",
               user ? user : "an anonymous", user ? "'s" : "");
    if (user) {
        sched_ordinal_text(action->by_ordinal, buf);
        buf_putc(buf, ' ');
    }
    buf_printf(buf, "GPU job %s", name_of(view, action->by));
}

void sched_action_text(const struct sched_view *view, const struct action *action, struct buf *buf)
{
    static const char *const verbs[] = {
        [ACTION_START] = "starts",
        [ACTION_PREEMPT] = "preempted",
        [ACTION_RESIZE] = "resized",
        [ACTION_CLAIM] = "next on GPUs that are being freed",
        [ACTION_UNCLAIM] = "loses its claim",
    };

    buf_puts(buf, verbs[action->type]);
    if (action->type == ACTION_START || action->type == ACTION_RESIZE)
        if (view->jobs[action->job].demand.max_gpus > 0)
            buf_printf(buf, " %s %u GPU%s", action->type == ACTION_RESIZE ? "to" : "on", action->slot_count,
                       action->slot_count == 1 ? "" : "s");
    if (action->by != SCHED_NONE)
        by_text(view, action, buf);
}
