/* filters - the tables of filters and what their files share. */
#pragma once

#include "jinja/methods.h"
#include "jinja/run.h"

extern const struct native text_filters[], seq_filters[], lazy_filters[], value_filters[];
extern const size_t text_filters_len, seq_filters_len, lazy_filters_len, value_filters_len;
const struct native *extra_find(unsigned extras, struct str name);

bool ctx_escapes(const struct run *r); /* context.eval_ctx.autoescape */

/* environment.getitem along "a.b.0", or an index. */
struct getter {
    struct jlist *parts;
    struct jv fallback; /* for undefined; JV_MISSING: none */
    bool lower;         /* strings without case */
};
int getter_init(struct run *r, struct jv attribute, bool lower, struct getter *ret);
int getter_get(struct run *r, const struct getter *g, struct jv item, struct jv *ret);
int lower_case(struct run *r, struct jv v, struct jv *ret);
