/* config_images - the settings about images and registries. Not for others than config.c. */
#pragma once

#include "daemon/config.h"

/* "lab:5000=insecure,hub.lab=ca:/etc/lab.pem,docker.io=mirror:lab:5000/hub+mirror-insecure" */
int config_set_registries(struct daemon_config *config, const char *text, struct err *err);
int config_set_push_to(struct daemon_config *config, const char *text, struct err *err);
int config_set_image_days(struct daemon_config *config, const char *text, struct err *err);
int config_set_image_stall(struct daemon_config *config, const char *text, struct err *err);
int config_set_image_disk(struct daemon_config *config, const char *text, struct err *err);
void config_images_done(struct daemon_config *config);
