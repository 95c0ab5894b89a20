/* namespace - what comes with a namespace, and how it empties before it goes. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

struct namespace_view {
    const struct object *ns;
    const struct object *const *content; /* what is in it, at most as much as is useful in one look */
    size_t content_count;
    size_t total;     /* all that is in it */
    bool has_account; /* a ServiceAccount "default" */
    int64_t now;
};
void namespace_look(const struct namespace_view *view, struct effects *effects);
