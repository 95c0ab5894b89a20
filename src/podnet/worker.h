/* worker - one helper thread that works tasks off, one after another, and tells the loop. */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct loop;
struct worker;

/* Embedded in what the task is about. */
struct net_task {
    void (*run)(struct net_task *task);  /* in the helper thread */
    void (*done)(struct net_task *task); /* in the loop's thread, after run */
    void (*drop)(struct net_task *task); /* instead of done, when the worker is freed: releases the task */
    bool urgent;                         /* before those that are not */
    struct net_task *next;
};

int worker_new(struct loop *loop, struct worker **ret, struct err *err);
/* NULL is fine. Waits for the task that runs; the others do not run any more. */
void worker_free(struct worker *worker);
void worker_push(struct worker *worker, struct net_task *task);
