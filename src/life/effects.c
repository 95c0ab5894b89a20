/* Effects as they are gathered, and the words that go with them. */
#include "life/internal.h"

#include <stdarg.h>
#include <stdlib.h>

static const struct {
    const char *reason;
    bool warns;
} tells[TELLS] = {
    [TELL_STARTED] = {"Started", false},
    [TELL_RESTARTED] = {"Restarted", false},
    [TELL_STOPPING] = {"Preempting", false},
    [TELL_RESIZING] = {"Resizing", false},
    [TELL_NOTICE] = {"StopNotice", true},
    [TELL_KILLING] = {"Stopping", true},
    [TELL_WITHDRAWN] = {"StopWithdrawn", false},
    [TELL_PREEMPTED] = {"Preempted", false},
    [TELL_OVER_MEMORY] = {"OverReservation", true},
    [TELL_CANNOT_START] = {"CannotStart", true},
    [TELL_SUCCEEDED] = {"Succeeded", false},
    [TELL_FAILED] = {"Failed", true},
    [TELL_CANCELLED] = {"Cancelled", false},
};

const char *life_tell_reason(enum life_tell tell)
{
    return tells[tell].reason;
}

bool life_tell_warns(enum life_tell tell)
{
    return tells[tell].warns;
}

struct life_effect *effect_add(struct step *step, enum life_effect_type type, struct life_job *job)
{
    vec_push(&step->out->v, (struct life_effect){.type = type, .job = job, .phase = job->w.phase});
    return &step->out->v.v[step->out->v.len - 1];
}

/* Once is enough where nothing came between. */
void effect_write(struct step *step, struct life_job *job)
{
    size_t len = step->out->v.len;

    step->life->revision++;
    if (len && step->out->v.v[len - 1].type == EFFECT_WRITE && step->out->v.v[len - 1].job == job)
        return;
    effect_add(step, EFFECT_WRITE, job);
}

static const struct life_stop *stop_keep(struct arena *arena, const struct life_stop *stop)
{
    struct life_stop *copy = arena_zalloc(arena, sizeof(*copy));

    *copy = *stop;
    copy->by = stop->by ? arena_strdup(arena, stop->by) : NULL;
    copy->by_name = stop->by_name ? arena_strdup(arena, stop->by_name) : NULL;
    copy->reason = stop->reason ? arena_strdup(arena, stop->reason) : NULL;
    return copy;
}

void effect_record(struct step *step, struct life_job *job, const char *text, bool stopped, int64_t lost_ms)
{
    struct life_effect *effect;

    if (step->life->rules.quiet)
        return;
    effect = effect_add(step, EFFECT_RECORD, job);
    effect->text = text ? arena_strdup(&step->out->arena, text) : "";
    effect->lost_ms = lost_ms;
    if (stopped && job->stop.kind)
        effect->stop = stop_keep(&step->out->arena, &job->stop);
}

void effect_tell(struct step *step, struct life_job *job, enum life_tell tell, const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct life_effect *effect;
    va_list ap;

    if (step->life->rules.quiet)
        return;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    effect = effect_add(step, EFFECT_TELL, job);
    effect->tell = tell;
    effect->text = arena_strndup(&step->out->arena, text.data ? text.data : "", text.len);
    if (job->stop.kind)
        effect->stop = stop_keep(&step->out->arena, &job->stop);
}

struct slot *slots_keep(struct arena *arena, const struct slot *slots, uint32_t len)
{
    struct slot *copy = arena_alloc(arena, sizeof(*copy) * (len + 1));

    if (len)
        memcpy(copy, slots, sizeof(*copy) * len);
    return copy;
}

/* Which part of a card a slot is. */
static double share_of(const struct life *life, const struct slot *slot)
{
    const struct node *node = &life->cluster.nodes[slot->node];

    if (slot->card == SLOT_CPU)
        return 0;
    if (slot->card < node->gpu_count && node->gpus[slot->card].mem_mib > slot->mib)
        return (double)slot->mib / node->gpus[slot->card].mem_mib;
    return 1;
}

static void count_usage(struct step *step, const struct life_job *job)
{
    double cards = 0;

    if (!job->w.user || !job->placed_ms || step->life->rules.quiet)
        return;
    for (uint32_t i = 0; i < job->w.placement.len; i++)
        cards += share_of(step->life, &job->w.placement.v[i]);
    usage_add(step->life->usage, job->w.user, step->now, cards * (double)(step->now - job->placed_ms));
    live_usage(step->life->live, job->w.user);
}

void effect_spans(struct step *step, struct life_job *job, bool on)
{
    struct life_effect *effect = effect_add(step, EFFECT_SPANS, job);

    if (!on)
        count_usage(step, job);

    effect->on = on;
    effect->slot_count = job->w.placement.len;
    effect->slots = slots_keep(&step->out->arena, job->w.placement.v, job->w.placement.len);
}

static void job_done(struct life_job *job)
{
    stop_clear(&job->stop);
    free(job->row);
    free(job->image);
    free(job->script);
    free(job->reason);
    free(job->blocked);
    free(job->trouble);
    free(job);
}

void life_effects_clear(struct life_effects *effects)
{
    effects->v.len = 0;
    VEC_EACH(&effects->dead, it)
        job_done(*it);
    effects->dead.len = 0;
    arena_reset(&effects->arena);
}

void life_effects_done(struct life_effects *effects)
{
    life_effects_clear(effects);
    vec_done(&effects->v);
    vec_done(&effects->dead);
    arena_done(&effects->arena);
}
