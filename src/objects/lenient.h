/* lenient - manifests as people have published them, put right: `kind: Job` under `apiVersion: v1`,
 * `request:` for `requests:`, no restartPolicy in a Job, numbers where labels and environment want text.
 * Used by `berth apply`; plain Kubernetes requests get Kubernetes' own errors. */
#pragma once

#include "base/json.h"

/* Changes doc; adds one sentence per slip to warnings (an array). */
void lenient_fix(struct arena *arena, struct json *doc, struct json *warnings);
/* Empty documents between stray `---` lines of a file: one warning each. */
void lenient_separators(struct str text, struct arena *arena, struct json *warnings);
