/* quantity - Kubernetes amounts ("100m", "1.5", "2Gi", "4e3"), exactly. */
#pragma once

#include "base/json.h"

#define QUANTITY_TEXT_MAX 48

enum quantity_format { QUANTITY_DECIMAL_SI, QUANTITY_BINARY_SI, QUANTITY_DECIMAL_EXPONENT };

/* value is in nanos of the unit: 1 cpu = 10^9, 1 byte = 10^9. Saturates as Kubernetes does. */
struct quantity {
    __int128 nanos;
    enum quantity_format format;
};

bool quantity_parse(struct str text, struct quantity *ret);              /* false: no quantity */
bool quantity_from_json(const struct json *value, struct quantity *ret); /* string or number */
char *quantity_format(const struct quantity *q,
                      char text[QUANTITY_TEXT_MAX]); /* canonical: "1500m" → "1500m", "1024Ki" → "1Mi" */
int quantity_cmp(const struct quantity *a, const struct quantity *b);
void quantity_add(struct quantity *a, const struct quantity *b); /* keeps a's format; of b when a is zero */
void quantity_sub(struct quantity *a, const struct quantity *b);
void quantity_round_up(struct quantity *q);       /* to whole units */
int64_t quantity_value(const struct quantity *q); /* whole units, rounded up */
int64_t quantity_milli(const struct quantity *q); /* thousandths, rounded up */
struct quantity quantity_of_int(int64_t n);       /* decimal SI */
