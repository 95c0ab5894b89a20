/* What the files of life share. */
#pragma once

#include "base/map.h"
#include "base/mem.h"
#include "life/life.h"

struct life {
    struct life_rules rules;
    const struct sched_policy *policy;
    struct cluster cluster;
    struct live *live;
    struct estimator *estimator;
    struct usage *usage;
    struct map *jobs; /* id -> life_job */
    VEC(uint64_t)
    timed; /* jobs that may have a deadline: all that are starting, asked to stop, or backing off */
    uint64_t revision;
    bool again;             /* there is more to decide than one call does */
    struct plan plan;       /* the explained one */
    VEC(uint32_t) wait_of;  /* by place: 1 + index in plan.waits; 0: none */
    VEC(int64_t) global_of; /* by place: thousandths of GPUs of all up to it */
    int64_t plan_at;
    uint64_t plan_revision;
    uint64_t held_id; /* the job that cards are kept for, and when it was asked whether it could start */
    int64_t held_ms;
    int64_t now_ms; /* of the last decision */
};

/* One call's surroundings. */
struct step {
    struct life *life;
    int64_t now;
    struct life_effects *out;
};

/* ---- life.c ---- */
void text_set(char **member, const char *text);
void job_refresh(struct life *life, struct life_job *job); /* w is as live has it */
/* live hears of it; false (and err): it has no such step. job->w follows. */
bool job_apply(struct step *step, struct life_job *job, struct live_event *event, struct err *err);
/* Replaces the workload as a whole: what no event of live changes. */
void job_replace(struct step *step, struct life_job *job, const struct workload *w);
void job_times(struct life_job *job, enum phase before, int64_t now); /* waited and ran, after a change */
void job_forecast(struct step *step, struct life_job *job);
void job_timed(struct step *step, struct life_job *job); /* from now on it may have a deadline */

/* ---- effects.c ---- */
struct slot *slots_keep(struct arena *arena, const struct slot *slots, uint32_t len); /* a copy */
struct life_effect *effect_add(struct step *step, enum life_effect_type type, struct life_job *job);
void effect_write(struct step *step, struct life_job *job);
void effect_record(struct step *step, struct life_job *job, const char *text, bool stopped, int64_t lost_ms);
__attribute__((format(printf, 4, 5))) void effect_tell(struct step *step, struct life_job *job,
                                                       enum life_tell tell, const char *fmt, ...);
void effect_spans(struct step *step, struct life_job *job, bool on);

/* ---- stop.c ---- */
void stop_clear(struct life_stop *stop);
void stop_copy(struct life_stop *to, const struct life_stop *from);
void stop_ask(struct step *step, struct life_job *job, enum life_stop_kind kind, const struct life_job *by,
              const char *reason);
void stop_withdraw(struct step *step, struct life_job *job);
bool stop_withdrawable(const struct life_job *job); /* it has not been heard of */
void stop_due(struct step *step, struct life_job *job);

/* ---- run.c: starts and ends ---- */
void run_start(struct step *step, struct life_job *job, const struct slot *slots, uint32_t len);
void run_stopped(struct step *step, struct life_job *job); /* as asked: it waits again */
void run_give_back(struct step *step, struct life_job *job, const char *why);
void run_due(struct step *step, struct life_job *job);
int run_runs(struct step *step, struct life_job *job, struct err *err);
int run_exit(struct step *step, struct life_job *job, const struct life_event *event, struct err *err);
void run_end(struct step *step, struct life_job *job, enum phase phase, const char *text);
int run_epoch(struct step *step, struct life_job *job, const struct life_event *event);
int run_profile(struct step *step, struct life_job *job, const struct life_event *event, struct err *err);
void run_memory(struct step *step, struct life_job *job, const struct life_event *event);
