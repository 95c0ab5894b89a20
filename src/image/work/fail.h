/* fail - why the helper could not do what it was told: a sentence, and the class that the store acts on. */
#pragma once

#include "image/image.h"

struct fail {
    struct err err;
    enum image_fail kind; /* IMAGE_FAIL_NONE: follows from err */
};

int fail_set(struct fail *fail, enum image_fail kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum image_fail fail_kind(const struct fail *fail);
#define fail_set(...) (fail_set(__VA_ARGS__), err_minus_one_())
