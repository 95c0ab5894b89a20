/* methods - the tables of methods, by type. */
#pragma once

#include "jinja/run.h"

extern const struct native str_methods[], list_methods[], tuple_methods[], dict_methods[], int_methods[],
    float_methods[], view_methods[], range_methods[], cycler_methods[], bytes_methods[], markup_methods[];
extern const size_t str_methods_len, list_methods_len, tuple_methods_len, dict_methods_len, int_methods_len,
    float_methods_len, view_methods_len, range_methods_len, cycler_methods_len, bytes_methods_len,
    markup_methods_len;

/* Python's whitespace, or the characters of `chars` (JV_STR), off both ends: mode -1 left, 1 right, 0 both.
 */
struct str strip_chars(struct str s, struct jv chars, int mode);
/* Replaces up to `count` (below 0: all). -1 raised. */
int replace_text(struct run *r, struct str s, struct str from, struct str to, int64_t count, struct jv *ret);
int split_lines(struct run *r, struct str s, bool keep_ends, uint8_t flags, struct jlist **ret);
int str_pad(struct run *r, struct jv s, int64_t width, struct str fill, int mode, struct jv *ret);
int dict_update(struct run *r, struct jdict *dict, struct call *c, const char *what);
int arg_str(struct run *r, const struct call *c, unsigned at,
            struct str *ret); /* TypeError when it is none */
int arg_int(struct run *r, const struct call *c, unsigned at, int64_t fallback, int64_t *ret);
int arg_bool(struct run *r, const struct call *c, unsigned at, bool fallback, bool *ret);
