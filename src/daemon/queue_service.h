/* queue_service - the queue of this daemon with what it needs of the engine: who still runs, what cards and
 * pods use, and whose logs stay. */
#pragma once

#include "base/err.h"
#include "daemon/config.h"

struct engine;
struct inbox;
struct loop;
struct queue;
struct queue_service;
struct registry;
struct train;

struct queue_service_config {
    struct loop *loop;
    struct registry *registry;
    const struct daemon_config *config;
    struct engine *engine; /* NULL: nobody runs pods here */
    struct inbox *inbox;   /* where owners are told what happened */
    struct train *train;   /* makes tokens, knows homes */
};

int queue_service_new(const struct queue_service_config *config, struct queue_service **ret, struct err *err);
struct queue *queue_service_queue(const struct queue_service *service);
void queue_service_free(struct queue_service *service); /* before the engine and the registry; NULL is fine */
