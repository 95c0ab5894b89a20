/* json_build - what the readers of text (json_parse, yaml) share to make values. Not for others. */
#pragma once

#include "base/json.h"

/* An array of the n values at v, copied. */
struct json json_build_array(struct arena *arena, const struct json *v, size_t n);

/* An object of the n members at v, copied; keys are borrowed. Of members with the same name the first
 * place and the last value stay. dup, where not NULL, is called with the place in v of each repeated one. */
struct json json_build_object(struct arena *arena, const struct json_member *v, size_t n,
                              void (*dup)(void *arg, size_t at), void *arg);

/* strtod in the C locale, whatever the program's locale is. */
double json_strtod(const char *s);
/* The shortest text that reads back as d, in the C locale, into text[JSON_REAL_MAX]: "1.5", "100.0",
 * "1e+21". d is finite. Returns its length. */
#define JSON_REAL_MAX 40
size_t json_real_text(double d, char *text);
