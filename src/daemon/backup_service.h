/* backup_service - backups while the daemon runs: one a day in a folder, the newest few kept, and one for
 * whoever asks
 * (`berth backup`). The work is done by threads; the loop only starts it. */
#pragma once

#include "base/err.h"
#include "daemon/config.h"

struct backup_service;
struct json;
struct arena;
struct loop;
struct store;

struct backup_service *backup_service_new(struct loop *loop, struct store *store,
                                          const struct daemon_config *config);
void backup_service_free(struct backup_service *service); /* before the store; NULL is fine */

/* A backup as an open file without a name: `done` gets its descriptor (its own from then on), or an error.
 * ERR_CONFLICT: one is being made. done comes once, from the loop; or never, where -1 was returned or the
 * service is freed. */
int backup_service_make(struct backup_service *service,
                        void (*done)(void *arg, int fd, const struct err *err), void *arg, struct err *err);

/* When the newest one was made (nanoseconds since 1970; 0: not known yet, or never), and what is wrong. */
int64_t backup_service_last(const struct backup_service *service);
const char *backup_service_trouble(const struct backup_service *service); /* NULL: nothing */
