/* env - the environment behind jinja.h. */
#pragma once

#include "jinja/code.h"
#include "jinja/jinja.h"

struct jinja {
    struct jinja_options options;
    struct jinja_template *first, *last;
};

/* The template of that name, wrong ones included; `self` (may be NULL) goes by its own name, too. */
const struct jinja_template *env_find(const struct jinja *env, const struct jinja_template *self,
                                      struct str name);
