/* health - what is wrong with this daemon, if anything: a table of checks, each a look at facts that whoever
 * knows them keeps in memory. Told by /readyz, `berth status`, `berth doctor` and /metrics. Also the daemon's
 * own families for /metrics. */
#pragma once

#include "api/api.h"
#include "daemon/config.h"

struct agent;
struct backup_service;
struct certificates;
struct health;
struct http_server;
struct library;
struct loop;
struct queue;
struct store;

/* All borrowed; agent and certificates may be NULL. */
struct health_config {
    struct loop *loop;
    struct store *store;
    const struct daemon_config *config;
    const struct agent *agent;
    const char *agent_text; /* "on: …", "off: why" */
    struct queue *queue;
    const struct audit *audit;
    const struct backup_service *backups;
    const struct certificates *certificates;
    const struct http_server *server;
    const struct library *library;
};

struct health *health_new(const struct health_config *config);
void health_free(struct health *health); /* before all of these; NULL is fine */

/* api_hooks.checks and .metrics, for a health. */
size_t health_checks(const struct health *health, struct arena *arena, struct api_check *ret, size_t max);
void health_metrics(const struct health *health, struct metrics *metrics);
int64_t health_memory(void); /* resident bytes of this process; -1: not known */
