/* cdi_edits - containerEdits of a CDI file, as text has them, to what a container is given. Not for others.
 */
#pragma once

#include "base/json.h"
#include "gpu/cdi.h"

/* Adds a `containerEdits` object (NULL: nothing) to *edits, in arena. ask_host: device nodes that do not say
 * what they are are looked at (ERR_NOT_FOUND: not there); else only the form is checked. */
int cdi_edits_add(struct arena *arena, struct cdi_edits *edits, const struct json *object, bool ask_host,
                  struct err *err);
void cdi_edits_hook(struct arena *arena, struct cdi_edits *edits, const struct cdi_hook *hook);
void cdi_edits_device(struct arena *arena, struct cdi_edits *edits, const struct cdi_device *device);
/* Fills in what a node is. ERR_NOT_FOUND: no such file; ERR_INVALID: it is no device. */
int cdi_node_stat(struct cdi_device *device, struct err *err);
