/* usage - how much GPU time each user had lately: a sum that halves with every half-life. It decides between
 * jobs of equal ordinal, in steps of a power of two, so that small differences do not. */
#pragma once

#include "base/cleanup.h"

#include <stdint.h>

#define USAGE_HALF_LIFE_MS (7 * 24 * 3600 * (int64_t)1000)
#define USAGE_USERS_MAX    100000

struct usage;

struct usage *usage_new(int64_t half_life_ms);
void usage_free(struct usage *usage); /* NULL is fine */
DEFINE_CLEANUP(struct usage *, usage_free);
/* GPU time that ended at now_ms. Times need not come in order. Past USAGE_USERS_MAX new users are not kept.
 */
void usage_add(struct usage *usage, const char *user, int64_t now_ms, double gpu_ms);
double usage_get(const struct usage *usage, const char *user, int64_t now_ms); /* GPU-ms; 0: none */
/* The logarithm (base 2) of what is left of it, rounded down, as if at time 0: all users' sums shrink alike,
 * so the order of these does not change with time, only with usage_add(). USAGE_NONE without any. */
int32_t usage_step(const struct usage *usage, const char *user);
#define USAGE_NONE INT32_MIN
