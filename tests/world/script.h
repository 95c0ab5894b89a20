/* script - what runs in a box: pods that work for a while, and training scripts that use Berth's library as
 * guide 4's do. */
#pragma once

#include "kubelet.h"

void script_read(struct box *box, const struct json *pod); /* its environment */
void script_begin(struct kubelet *kubelet, struct box *box);
void script_step(struct kubelet *kubelet, struct box *box);
int64_t script_epoch_ms(const struct act *act, uint32_t gpus, uint32_t epoch);

/* kubelet.c */
void box_end(struct kubelet *kubelet, struct box *box, int code);
