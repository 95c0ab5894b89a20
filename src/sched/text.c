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

/* %n: what it needs, %j: the job the reason names, %u: its user. */
static const char *const reasons[WAIT_REASONS] = {
    [WAIT_GPUS] = "waits for %n: all are in use by jobs that come first",
    [WAIT_FRAGMENTED] = "waits for %n on one node: enough are free, but not together",
    [WAIT_SHARE] = "waits for %n: no card has that much free",
    [WAIT_CPU] = "waits for CPU or memory of a node",
    [WAIT_VICTIM] = "starts when %j has stopped",
    [WAIT_HELD] = "waits: the free GPUs are kept for %j, which is ahead",
    [WAIT_PROTECTED] =
        "waits for %n: those that have to make room are in their last epoch or have just started",
    [WAIT_ASK] = "waits for %n: 'berth claim' would stop %j, which cannot resume",
    [WAIT_BLOCKED] = "cannot start now",
    [WAIT_BACKOFF] = "waits a while after its last failure",
    [WAIT_NO_NODE] = "cannot run: no node has %n together with the CPU and memory it asks for",
    [WAIT_NO_CARD] = "cannot run: no card has %n",
    [WAIT_NO_LABEL] = "cannot run: no node has the labels it asks for",
    [WAIT_ORDER] = "waits for %n: jobs that come first get them",
};

void sched_wait_text(const struct sched_view *view, const struct wait *wait, struct buf *buf)
{
    for (const char *s = reasons[wait->reason]; *s; s++)
        if (s[0] == '%' && s[1] == 'n') {
            need_text(&view->jobs[wait->job].demand, buf);
            s++;
        } else if (s[0] == '%' && s[1] == 'j') {
            buf_puts(buf, name_of(view, wait->about));
            s++;
        } else {
            buf_putc(buf, *s);
        }
}

static void by_text(const struct sched_view *view, const struct action *action, struct buf *buf)
{
    const char *user = view->jobs[action->by].user;

    buf_printf(buf, " by %s%s ", user ? user : "an anonymous", user ? "'s" : "");
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
        [ACTION_RESIZE] = "is resized",
        [ACTION_CLAIM] = "gets the place of jobs that are stopping",
        [ACTION_UNCLAIM] = "loses its claim",
    };

    buf_puts(buf, verbs[action->type]);
    if (action->type == ACTION_START || action->type == ACTION_RESIZE)
        if (view->jobs[action->job].demand.max_gpus > 0)
            buf_printf(buf, " on %u GPU%s", action->slot_count, action->slot_count == 1 ? "" : "s");
    if (action->by != SCHED_NONE)
        by_text(view, action, buf);
}
