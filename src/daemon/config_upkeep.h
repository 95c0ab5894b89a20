/* config_upkeep - the settings about what is kept, and for how long. Not for others than config.c. */
#pragma once

#include "daemon/config.h"

void config_upkeep_defaults(struct daemon_config *config);
/* How long: days ("7"), or with a unit: 90s, 30m, 36h, 7d; "off": for ever. How much: a number, or "off". */
int config_set_finished_days(struct daemon_config *config, const char *text, struct err *err);
int config_set_finished_count(struct daemon_config *config, const char *text, struct err *err);
int config_set_finished_size(struct daemon_config *config, const char *text, struct err *err);
int config_set_history_days(struct daemon_config *config, const char *text, struct err *err);
int config_set_history_size(struct daemon_config *config, const char *text, struct err *err);
int config_set_log_days(struct daemon_config *config, const char *text, struct err *err);
int config_set_log_size(struct daemon_config *config, const char *text, struct err *err);
int config_set_idle_warn(struct daemon_config *config, const char *text, struct err *err);
int config_set_idle_stop(struct daemon_config *config, const char *text, struct err *err);
int config_set_claim_warn(struct daemon_config *config, const char *text, struct err *err);
int config_set_claim_delete(struct daemon_config *config, const char *text, struct err *err);
int config_set_event_minutes(struct daemon_config *config, const char *text, struct err *err);
