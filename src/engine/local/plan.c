#include "engine/local/plan.h"

#include "base/clock.h"

static void step(struct pod_plan *plan, enum plan_act act, size_t ctr)
{
    plan->steps[plan->len++] = (struct plan_step){act, ctr};
}

static void wake(struct pod_plan *plan, int64_t at)
{
    if (at && (!plan->wake_at || at < plan->wake_at))
        plan->wake_at = at;
}

static bool runs_again(const struct facts *facts, const struct ctr *ctr)
{
    if (ctr->sidecar)
        return true;
    if (ctr->init)
        return ctr->end.code != 0 && facts->policy != RESTART_NEVER;
    return facts->policy == RESTART_ALWAYS || (facts->policy == RESTART_ON_FAILURE && ctr->end.code != 0);
}

int64_t plan_restart_at(const struct facts *facts, const struct ctr *ctr)
{
    if (ctr->state != CTR_EXITED || !runs_again(facts, ctr))
        return 0;
    return ctr->end.finished + backoff_sec(ctr->quick) * NSEC_PER_SEC;
}

static bool init_through(const struct ctr *ctr)
{
    if (ctr->sidecar)
        return ctr->state == CTR_RUNNING && ctr->begun;
    return ctr->state == CTR_EXITED && ctr->end.code == 0;
}

bool plan_initialized(const struct facts *facts)
{
    for (size_t i = 0; i < facts->len && facts->ctrs[i].init; i++)
        if (!init_through(&facts->ctrs[i]))
            return false;
    return true;
}

/* Takes one container a step further. */
static void advance(const struct facts *facts, size_t i, int64_t now, struct pod_plan *plan)
{
    const struct ctr *ctr = &facts->ctrs[i];
    int64_t at;

    switch (ctr->state) {
    case CTR_NONE:
        step(plan, PLAN_PULL, i);
        break;
    case CTR_STUCK:
        if (ctr->retry_at <= now)
            step(plan, PLAN_PULL, i);
        else
            wake(plan, ctr_stuck_reason(ctr, now) == ctr->reason && streq(ctr->reason, "ErrImagePull")
                           ? ctr->stuck_at + STUCK_SHOWN_SEC * NSEC_PER_SEC
                           : ctr->retry_at);
        break;
    case CTR_EXITED:
        at = plan_restart_at(facts, ctr);
        if (at && at <= now)
            step(plan, PLAN_RESTART, i);
        else
            wake(plan, at);
        break;
    default:
        break;
    }
}

static bool any_alive(const struct facts *facts)
{
    for (size_t i = 0; i < facts->len; i++)
        if (ctr_alive(&facts->ctrs[i]))
            return true;
    return false;
}

/* All but the sidecars at once; these after them, the last first. */
static void stop_all(const struct facts *facts, struct pod_plan *plan)
{
    for (size_t i = 0; i < facts->len; i++)
        if (ctr_alive(&facts->ctrs[i]) && !facts->ctrs[i].sidecar)
            step(plan, PLAN_STOP, i);
    for (size_t i = facts->len; i-- > 0 && plan->len == 0;)
        if (ctr_alive(&facts->ctrs[i]))
            step(plan, PLAN_STOP, i);
}

/* Whether an init container failed for good. */
static bool init_failed(const struct facts *facts)
{
    for (size_t i = 0; i < facts->len && facts->ctrs[i].init; i++) {
        const struct ctr *ctr = &facts->ctrs[i];

        if (!ctr->sidecar && ctr->state == CTR_EXITED && ctr->end.code != 0 && !runs_again(facts, ctr))
            return true;
    }
    return false;
}

/* All main containers have ended and none runs again; *failed: one of them not with 0. */
static bool mains_over(const struct facts *facts, bool *failed)
{
    for (size_t i = 0; i < facts->len; i++) {
        const struct ctr *ctr = &facts->ctrs[i];

        if (ctr->init)
            continue;
        if (ctr->state != CTR_EXITED || runs_again(facts, ctr))
            return false;
        *failed = *failed || ctr->end.code != 0;
    }
    return true;
}

static bool mains_begun(const struct facts *facts)
{
    for (size_t i = 0; i < facts->len; i++)
        if (!facts->ctrs[i].init &&
            (facts->ctrs[i].state == CTR_RUNNING || facts->ctrs[i].end.there || facts->ctrs[i].last.there))
            return true;
    return false;
}

static const char *phase_of(const struct facts *facts)
{
    return mains_begun(facts) ? "Running" : "Pending";
}

/* The pod is to end: stop what runs, then it is over. */
static void plan_end(const struct facts *facts, const char *phase, struct pod_plan *plan)
{
    stop_all(facts, plan);
    plan->over = !any_alive(facts);
    plan->phase = plan->over && phase ? phase : phase_of(facts);
}

static bool all_ended(const struct facts *facts)
{
    for (size_t i = 0; i < facts->len; i++)
        if (!facts->ctrs[i].init && facts->ctrs[i].state != CTR_EXITED)
            return false;
    return true;
}

void plan_pod(const struct facts *facts, int64_t now, struct pod_plan *plan)
{
    bool failed = false, over;

    plan->len = 0;
    plan->wake_at = 0;
    plan->over = false;
    plan->phase = NULL;
    if (facts->ended) {
        plan_end(facts, NULL, plan);
        plan->phase = NULL; /* as it is stored */
        return;
    }
    over = mains_over(facts, &failed);
    if (*facts->fail_reason) {
        plan_end(facts, "Failed", plan);
    } else if (facts->deleting) { /* one that was killed did not succeed, whatever it says */
        plan_end(facts, NULL, plan);
        if (plan->over && all_ended(facts)) {
            for (size_t i = 0; i < facts->len; i++)
                failed = failed || (!facts->ctrs[i].init && facts->ctrs[i].end.code != 0);
            plan->phase = failed ? "Failed" : "Succeeded";
        }
    } else if (over || init_failed(facts)) {
        plan_end(facts, failed || !over ? "Failed" : "Succeeded", plan);
    } else if (!facts->sandbox) {
        step(plan, PLAN_SANDBOX, 0);
        plan->phase = phase_of(facts);
    } else {
        size_t i = 0;

        plan->phase = phase_of(facts);
        for (; i < facts->len && facts->ctrs[i].init; i++) {
            if (!init_through(&facts->ctrs[i]) && !(facts->ctrs[i].sidecar && mains_begun(facts))) {
                advance(facts, i, now, plan);
                break;
            }
            if (facts->ctrs[i].sidecar)
                advance(facts, i, now, plan);
        }
        if (i == facts->len || !facts->ctrs[i].init)
            for (; i < facts->len; i++)
                advance(facts, i, now, plan);
    }
    wake(plan, facts->deadline);
}
