/* train - training jobs over HTTP: what their scripts call (the library's addresses), and submitting them.
 *
 *   GET  /has_to_stop/ID[?epoch=N]        text/plain, exactly "1" or "0"
 *   POST /profiling/ID                    a sample; with "epochDur" the end of an epoch
 *   POST /end_epoch/ID                    {"done": N}
 *   POST /signal_end/ID                   the script is done
 *   POST /signal_end_profiling/ID/CONFIG  a sample, as the oldest libraries give it
 *   POST /v1/train/ID/log                 metrics
 *   POST /submit, POST /v1/train[?dryRun=1]
 *
 * Who may make the calls of a job's script: whoever has the job's token, has an address of one of the job's
 * pods, or may change the job. Submitting needs a name, as everything under /v1.
 *
 * Every TrainingJob that a user makes, here or by kubectl, passes the checks of control/training_check.h. */
#pragma once

#include "api/call.h"

#define TRAIN_BODY_MAX (1 << 20) /* of a library's call */

struct queue;
struct train;

struct train_config {
    struct registry *registry;
    struct queue *queue;  /* NULL: library's calls and dry runs are answered 503 */
    const char *datasets; /* folder under a home that becomes /data; NULL: "datasets" */
};

struct train *train_new(const struct train_config *config);
void train_free(struct train *train); /* after the HTTP server; NULL is fine */
DEFINE_CLEANUP(struct train *, train_free);

/* The queue may be made later than this. */
void train_set_queue(struct train *train, struct queue *queue);

/* Hooks of the API: true when the path is one of these, and is (or will be) answered. */
bool train_library(void *train, struct call *call); /* call->who is not known yet */
bool train_rest(void *train, struct call *call);
/* Whether its path is one of the library's. */
bool train_is_library(struct call *call);

/* The token of a job, the same for all its life; for queue_config.token. In the arena. */
const char *train_token(void *train, struct arena *arena, const char *job_uid);
