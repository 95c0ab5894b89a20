#include "script.h"

#include "base/str.h"
#include "loop/loop.h"
#include "queue/queue.h"

#include <inttypes.h>
#include <stdio.h>

#define SPEEDUP_PERCENT 85 /* what each GPU after the first adds */
#define NOISE_PERCENT   4  /* epochs differ by up to so much, both ways */

static const char *env_of(const struct json *pod, const char *name)
{
    JSON_EACH(json_at(pod, "spec.containers.0.env"), it)
        if (streq(json_get_string(it, "name"), name))
            return json_string_or(json_get(it, "value"), "");
    return "";
}

static uint32_t env_number(const struct json *pod, const char *name)
{
    int64_t n = 0;

    str_to_int(str_from(env_of(pod, name)), &n);
    return n > 0 ? (uint32_t)n : 0;
}

void script_read(struct box *box, const struct json *pod)
{
    box->gpus = env_number(pod, "NUM_GPUS");
    box->done = env_number(pod, "EPOCHS_DONE");
    box->restarted = streq(env_of(pod, "JOB_RESTARTED"), "TRUE");
}

int64_t script_epoch_ms(const struct act *act, uint32_t gpus, uint32_t epoch)
{
    struct dice dice = {(uint64_t)act->job * 1000003 + epoch};
    int64_t noise = (int64_t)dice_roll(&dice, 2 * NOISE_PERCENT + 1) - NOISE_PERCENT;
    int64_t speed = 100 + SPEEDUP_PERCENT * (int64_t)(gpus > 1 ? gpus - 1 : 0);

    return act->epoch_s * 1000 * (100 + noise) / speed + 1;
}

static int64_t total_of(const struct act *act)
{
    return act->epochs > 0 ? act->epochs : 1;
}

/* ---- telling ---- */

struct answer {
    struct kubelet *kubelet;
    char uid[64];
    bool stop, about_epoch;
    uint32_t done;
};

static struct answer *answer_new(struct kubelet *kubelet, struct box *box)
{
    struct answer *answer = NEW(struct answer);

    answer->kubelet = kubelet;
    answer->done = box->done;
    snprintf(answer->uid, sizeof(answer->uid), "%s", box->uid);
    return answer;
}

static void epoch_kept(void *arg, const struct err *err)
{
    struct answer *answer = arg;
    struct box *box = kubelet_box(answer->kubelet, answer->uid);

    if (box && !err && box->done == answer->done)
        box->unsaid = false;
    free(answer);
}

/* The library's sender: what it could not say it says again. */
static void tell_epoch(struct kubelet *kubelet, struct box *box, double seconds)
{
    struct world *world = kubelet->world;

    if (!box->unsaid || !world->up)
        return;
    kubelet->changes++; /* news, also when it is said late */
    if (queue_epoch_done(world->queue, box->owner, box->done, seconds, NULL) < 0) {
        box->unsaid = false; /* the job is not known any more */
        return;
    }
    store_defer(world->store, epoch_kept, answer_new(kubelet, box));
}

/* ---- training ---- */

static void begin_epoch(struct kubelet *kubelet, struct box *box, const struct act *act)
{
    box->epoch_ms = world_ms(kubelet->world);
    box->next_ms = box->epoch_ms + script_epoch_ms(act, box->gpus, box->done);
}

static void leave(struct kubelet *kubelet, struct box *box, const struct act *act)
{
    box->state = BOX_LEAVING;
    box->next_ms = world_ms(kubelet->world) + act->leave_s * 1000;
    kubelet->changes++;
}

static void answered(void *arg, const struct err *err)
{
    struct answer *answer = arg;
    struct kubelet *kubelet = answer->kubelet;
    struct box *box = kubelet_box(kubelet, answer->uid);
    const struct world_job *job = box ? world_job(kubelet->world, box->job) : NULL;

    if (box && job && box->state == BOX_RUNNING) {
        box->asking = false;
        if (err) {
            box->next_ms = world_ms(kubelet->world) + KUBELET_LIB_RETRY_MS;
        } else if (answer->stop) {
            world_note(kubelet->world, "%s is told to stop before epoch %u", box->name, box->done);
            leave(kubelet, box, &job->act);
        } else {
            begin_epoch(kubelet, box, &job->act);
        }
    } else if (box) {
        box->asking = false;
    }
    free(answer);
}

static void ask(struct kubelet *kubelet, struct box *box, const struct act *act)
{
    struct world *world = kubelet->world;
    struct answer *answer;
    bool stop = false;

    if (act->fault == FAULT_DEAF) {
        begin_epoch(kubelet, box, act);
        return;
    }
    if (!world->up) {
        box->next_ms = world_ms(world) + KUBELET_LIB_RETRY_MS;
        return;
    }
    if (queue_has_to_stop(world->queue, box->owner, box->done, &stop, NULL) < 0) {
        begin_epoch(kubelet, box, act);
        return;
    }
    answer = answer_new(kubelet, box);
    answer->stop = stop;
    box->asking = true;
    store_defer(world->store, answered, answer);
}

static void end_epoch(struct kubelet *kubelet, struct box *box, struct world_job *job)
{
    double seconds = (double)(world_ms(kubelet->world) - box->epoch_ms) / 1000;

    box->epoch_ms = 0;
    box->done++;
    if (job->saved < box->done)
        job->saved = box->done;
    kubelet->changes++;
    world_note(kubelet->world, "%s has done epoch %u", box->name, box->done);
    if (job->act.fault == FAULT_SILENT)
        return;
    box->unsaid = true;
    box->tries = 0;
    tell_epoch(kubelet, box, seconds);
}

static void train(struct kubelet *kubelet, struct box *box, struct world_job *job)
{
    int64_t now = world_ms(kubelet->world);

    if (box->epoch_ms) {
        if (job->act.fault == FAULT_CRASH && box->done >= total_of(&job->act) / 2) {
            box_end(kubelet, box, 1);
            return;
        }
        end_epoch(kubelet, box, job);
    } else if (box->unsaid) {
        tell_epoch(kubelet, box, 0);
    }
    if (box->done < total_of(&job->act)) {
        ask(kubelet, box, &job->act);
    } else if (box->unsaid && box->tries++ < KUBELET_LIB_PATIENCE) {
        box->next_ms = now + (box->tries == 1 ? 100 : KUBELET_LIB_RETRY_MS);
    } else {
        box_end(kubelet, box, 0);
    }
}

/* ---- all ---- */

void script_begin(struct kubelet *kubelet, struct box *box)
{
    struct world_job *job = world_job(kubelet->world, box->job);
    int64_t now = world_ms(kubelet->world);

    if (!job) {
        box->next_ms = now + 60000;
    } else if (!box->training) {
        box->next_ms = job->act.fault == FAULT_NEVER   ? INT64_MAX
                       : job->act.fault == FAULT_CRASH ? now + job->act.run_s * 500
                                                       : now + job->act.run_s * 1000;
    } else if (box->restarted ? job->saved == 0 || box->done > job->saved : box->done > 0) {
        /* Guide 4's scripts load their snapshot when JOB_RESTARTED is TRUE, and die where there is none. */
        world_broken(kubelet->world, "restarted",
                     "%s starts with JOB_RESTARTED=%s and EPOCHS_DONE=%u, but %u epochs are saved", box->name,
                     box->restarted ? "TRUE" : "FALSE", box->done, job->saved);
        box_end(kubelet, box, 1);
    } else {
        box->epoch_ms = 0;
        ask(kubelet, box, &job->act);
    }
}

void script_step(struct kubelet *kubelet, struct box *box)
{
    struct world_job *job = world_job(kubelet->world, box->job);

    if (!job || !box->training)
        box_end(kubelet, box, job && job->act.fault == FAULT_CRASH ? 1 : 0);
    else
        train(kubelet, box, job);
}
