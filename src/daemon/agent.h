/* agent - the node agent of this machine: opens what runs containers (runtime, images, network, cards) and
 * the engine on top of them, and keeps the Node object Ready. Needs root. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "daemon/config.h"

struct agent;
struct engine;
struct loop;
struct registry;

/* ERR_UNSUPPORTED, ERR_NOT_FOUND: this machine lacks something that containers need; a sentence says what. */
int agent_new(struct loop *loop, struct registry *registry, const struct daemon_config *config,
              struct agent **ret, struct err *err);
/* Pods go on. After the HTTP server and before the registry; the loop is not turned any more. NULL is fine.
 */
void agent_free(struct agent *agent);
DEFINE_CLEANUP(struct agent *, agent_free);
struct engine *agent_engine(const struct agent *agent); /* lives as long as the agent; NULL agent: NULL */
const char *agent_text(const struct agent *agent);      /* what it works with; lives as long as the agent */
/* What does not work here; NULL: nothing, or no agent. */
const char *agent_warning(const struct agent *agent);
/* Something that others removed had to be made again: an event of the Node, and kept for `berth doctor`.
 * agent NULL: only logged. */
void agent_repaired(struct agent *agent, const char *reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The last of these, and when; NULL: none since the start. */
const char *agent_last_repair(const struct agent *agent, int64_t *time);
/* What is damaged now and cannot be put right; NULL: nothing. */
const char *agent_damage(const struct agent *agent);
/* There is none: the Node says why, and so do pods that wait. */
void agent_say_off(struct registry *registry, const char *node_name, const char *why);
struct images;
struct images_registry;
struct podnet;
/* What is gone after a reboot, of the daemon with that data folder. Everybody may pass through it. malloc'ed.
 */
char *agent_run_dir(const char *data_dir);
char *agent_log_dir(const char *data_dir); /* of logs that stay after their pods; malloc'ed */
const struct podnet *agent_network(const struct agent *agent); /* as agent_net, to look at */
bool agent_short_of_memory(const struct agent *agent);         /* pods are being evicted for it */
struct podnet *agent_net(struct agent *agent);                 /* NULL agent: NULL */
struct images *agent_images(struct agent *agent);              /* NULL agent: NULL */
/* The configured registries as the image store takes them; ret has room for all. Returns how many. */
size_t agent_registries(const struct daemon_config *config, struct images_registry *ret);
