/* bundle_caps - capabilities by name, as a mask with one bit each. */
#pragma once

#include "base/err.h"

#include <stdint.h>

#define CAPS_COUNT 41 /* CAP_CHOWN .. CAP_CHECKPOINT_RESTORE */
#define CAPS_ALL   ((UINT64_C(1) << CAPS_COUNT) - 1)

extern const uint64_t caps_default; /* Docker's 14 */

const char *caps_name(int bit);       /* "CAP_CHOWN" */
uint64_t caps_mask(const char *name); /* with or without "CAP_", any case; "ALL"; 0: unknown */
/* The default ones, without those dropped, with those added. ERR_INVALID: an unknown name. */
int caps_resolve(const char *const *add, const char *const *drop, uint64_t *ret, struct err *err);
/* What this process could give at most (its bounding set). */
uint64_t caps_own(void);
