/* What the files of api/train share. */
#pragma once

#include "api/train/look.h"
#include "api/train/train.h"
#include "control/training_check.h"

#define TRAIN_KEY_BYTES 32

struct train {
    struct train_config config;
    struct looks *looks;
    unsigned char key[TRAIN_KEY_BYTES]; /* of the jobs' tokens */
};

/* submit.c */
void train_submit(struct train *train, struct call *call, bool older);

/* check.c: an admission */
int train_admit(void *train, const struct write *write, const struct kind *kind, const char *ns,
                struct json *doc, const struct object *old);
