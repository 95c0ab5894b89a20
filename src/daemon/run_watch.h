/* run_watch - looks after the run folder while the daemon runs. Others remove parts of it: cleaners of
 * temporary files, `umount`, a hand. What is missing is made again within seconds, for pods that run as well:
 * folders, files of containers, pinned namespaces, the Python library, the API's socket. The Node gets an
 * event that says so. */
#pragma once

#include "base/cleanup.h"
#include "daemon/config.h"

struct agent;
struct http_server;
struct loop;
struct run_watch;
struct store;

#define RUN_WATCH_SEC 2 /* between two looks, which are a few dozen system calls */

/* All are borrowed. agent NULL: only the socket is looked after. */
struct run_watch_parts {
    struct loop *loop;
    const struct daemon_config *config;
    struct store *store;
    struct agent *agent;
    struct http_server *server;
};

struct run_watch *run_watch_new(const struct run_watch_parts *parts);
void run_watch_free(struct run_watch *watch); /* NULL is fine */
DEFINE_CLEANUP(struct run_watch *, run_watch_free);
