/* config_users - the settings about users and what they do. Not for others than config.c. */
#pragma once

#include "daemon/config.h"

/* What the namespace of a new user is limited to, where no setting says otherwise. */
#define CONFIG_USER_QUOTA                                                                                    \
    "pods=4,requests.cpu=4,requests.memory=24Gi,limits.cpu=4,limits.memory=24Gi,count/configmaps=500,"       \
    "count/secrets=200,count/services=100,count/endpoints=100,count/endpointslices.discovery.k8s.io=100,"    \
    "count/persistentvolumeclaims=100,count/pods=2000,count/jobs.batch=2000,"                                \
    "count/trainingjobs.berth.dev=5000,count/taskdefinitions.berth.dev=200"
#define CONFIG_USER_TOKENS 100
#define CONFIG_SPACE_MIB   64

int config_set_user_quota(struct daemon_config *config, const char *text, struct err *err);
int config_set_user_tokens(struct daemon_config *config, const char *text, struct err *err);
int config_set_space_mib(struct daemon_config *config, const char *text, struct err *err);
int config_set_audit(struct daemon_config *config, const char *text, struct err *err);
int config_set_audit_log(struct daemon_config *config, const char *text, struct err *err);
int config_set_audit_size(struct daemon_config *config, const char *text, struct err *err);
int config_set_audit_files(struct daemon_config *config, const char *text, struct err *err);
void config_users_done(struct daemon_config *config);
