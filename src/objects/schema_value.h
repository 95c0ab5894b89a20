/* schema_value - scalars that Kubernetes writes as text of a form: checked, and brought to the one form that
 * it writes itself. Errors are ERR_INVALID, worded as Go's decoders do. */
#pragma once

#include "base/json.h"

/* "0.5" → "500m", 2 → "2". value may be of any type; null becomes "0". */
int schema_check_quantity(struct arena *arena, struct json *value, struct err *err);

/* value is a string: RFC 3339 to the second ("…T03:04:05Z"), with micro to the microsecond. Go's zero time
 * (year 1) becomes null. */
int schema_check_time(struct arena *arena, struct json *value, bool micro, struct err *err);

/* Seconds since 1970 as that text; micros is -1 for none. False when the year does not have four digits. */
#define SCHEMA_TIME_TEXT_MAX 80
bool schema_time_text(int64_t sec, int64_t micros, char text[SCHEMA_TIME_TEXT_MAX]);

/* value is a string of standard base64; line breaks are taken out. */
int schema_check_base64(struct arena *arena, struct json *value, struct err *err);
