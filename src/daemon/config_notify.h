/* config_notify - settings of what is sent to people, as rows of config.c need them. */
#pragma once

#include "daemon/config.h"

int config_set_notify_sendmail(struct daemon_config *config, const char *text, struct err *err);
int config_set_notify_from(struct daemon_config *config, const char *text, struct err *err);
int config_set_notify_domain(struct daemon_config *config, const char *text, struct err *err);
int config_set_notify_kinds(struct daemon_config *config, const char *text, struct err *err);
int config_set_notify_commands(struct daemon_config *config, const char *text, struct err *err);
void config_notify_done(struct daemon_config *config);
