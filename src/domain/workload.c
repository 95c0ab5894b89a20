#include "domain/workload.h"

#define MARGIN_PERCENT 5
#define MARGIN_MIB     64

int32_t priority_parse(struct str text, const char **warning)
{
    int64_t n;

    *warning = NULL;
    text = str_trim(text);
    if (text.len == 0)
        return 0;
    if (text.len > 2 && text.s[0] == '0' && text.s[1] == '-' && text.s[2] != '-')
        text = (struct str){text.s + 1, text.len - 1};
    if (!str_to_int(text, &n)) {
        *warning = "label priority is not a whole number (negative ones are written 0-3): it counts as 0";
        return 0;
    }
    if (n < -PRIORITY_MAX || n > PRIORITY_MAX) {
        *warning = "label priority is beyond 1000000: it is cut there";
        n = n < 0 ? -PRIORITY_MAX : PRIORITY_MAX;
    }
    return (int32_t)n;
}

uint32_t demand_units(const struct demand *demand, uint32_t gpus)
{
    if (demand->unit_gpus == 0 || gpus <= demand->unit_gpus)
        return 1;
    return gpus / demand->unit_gpus;
}

const char *demand_fault(const struct demand *demand)
{
    if (demand->max_gpus < demand->min_gpus)
        return "more GPUs at least than at most";
    if (demand->unit_gpus > 0 &&
        (demand->min_gpus % demand->unit_gpus != 0 || demand->max_gpus % demand->unit_gpus != 0))
        return "GPUs are not a multiple of those of one member";
    if (demand->min_gpus == 0 && demand->max_gpus > 0)
        return "either no GPU or at least one";
    if (demand->each.cpu_milli < 0 || demand->each.mem_mib < 0)
        return "a negative amount of CPU or memory";
    return NULL;
}

int64_t demand_milli(const struct demand *demand, uint32_t gpus, uint32_t card_mib)
{
    int64_t one = 1000;

    if (!demand_whole(demand) && card_mib > 0) {
        one = ((int64_t)demand->mib * 1000 + card_mib - 1) / card_mib;
        if (one > 1000)
            one = 1000;
    }
    return one * gpus;
}

uint32_t demand_measured_mib(int64_t peak_mib, uint32_t largest_card_mib)
{
    int64_t most = largest_card_mib > peak_mib ? largest_card_mib : peak_mib;
    int64_t mib = peak_mib + peak_mib / 100 * MARGIN_PERCENT + MARGIN_MIB;

    mib = mib < most ? mib : most;
    return mib > UINT32_MAX ? UINT32_MAX : mib > 0 ? (uint32_t)mib : 0;
}

bool workload_runs(const struct workload *w)
{
    return w->phase == PHASE_RUNNING || (w->phase == PHASE_STOPPING && w->started_ms != 0);
}

uint32_t workload_gpus(const struct workload *w)
{
    if (!phase_holds(w->phase) || w->demand.max_gpus == 0)
        return 0;
    return w->placement.len;
}

bool workload_in_last_epoch(const struct workload *w)
{
    return w->epochs_total > 0 && w->epochs_done + 1 >= w->epochs_total;
}

int64_t workload_lost_gpu_ms(const struct workload *w, int64_t now_ms)
{
    int64_t since = w->can_checkpoint && w->saved_ms > w->started_ms ? w->saved_ms : w->started_ms;
    int64_t cards = w->placement.len > 0 ? w->placement.len : 1;

    return workload_runs(w) && now_ms > since ? (now_ms - since) * cards : 0;
}

uint64_t workload_attained(const struct workload *w, int64_t now_ms)
{
    uint64_t sum = w->attained_gpu_ms;

    if (workload_runs(w) && now_ms > w->started_ms)
        sum += (uint64_t)(now_ms - w->started_ms) * workload_gpus(w);
    return sum;
}
