/* clock - the time, and how Kubernetes writes it. Times are nanoseconds since 1970 (UTC). */
#pragma once

#include "base/str.h"

#include <stdint.h>

#define NSEC_PER_SEC  INT64_C(1000000000)
#define NSEC_PER_MSEC INT64_C(1000000)

int64_t clock_now(void);       /* wall clock */
int64_t clock_monotonic(void); /* for intervals; never goes back */

/* For tests: while one is in use, this process reads its time from there; NULL: from the machine again. */
struct clock_virtual {
    int64_t now, monotonic;
};
void clock_use(const struct clock_virtual *clock); /* borrowed */

/* So many seconds after t, or before it; as far as a time goes, never past it. */
int64_t clock_after(int64_t t, int64_t seconds);

#define CLOCK_TEXT_MAX 40
/* "2026-01-02T03:04:05Z" into text[CLOCK_TEXT_MAX]; returns text. */
char *clock_format(int64_t t, char *text);
char *clock_format_micro(int64_t t, char *text); /* "2026-01-02T03:04:05.123456Z" */
char *clock_format_milli(int64_t t, char *text); /* "2026-01-02T03:04:05.123Z" */
/* RFC 3339, any offset, any fraction. False when it is none. */
bool clock_parse(struct str text, int64_t *ret);
/* Kubernetes' short ages: 90s, 3m5s, 75m, 3h20m, 26h, 2d3h, 120d, 3y45d, into text[CLOCK_TEXT_MAX].
 * Negative counts as 0s, since clocks differ a little; -2 s or less is "<invalid>". */
char *clock_age(int64_t interval_ns, char *text);
