/* lenient - manifests as people have published them, put right: `kind: Job` under `apiVersion: v1`,
 * `request:` for `requests:`, no restartPolicy in a Job, numbers where labels and environment want text.
 * Used by `berth apply`, and for Jobs that kubectl finds under v1; all other Kubernetes requests get
 * Kubernetes' own errors. */
#pragma once

#include "base/json.h"

/* The resource that discovery offers for `kind: Job` under `apiVersion: v1`, which Kubernetes has not:
 * kubectl sends such a manifest there. It is the same Jobs by another name, so that `jobs` stays batch/v1's
 * alone. */
#define LENIENT_JOBS "publishedjobs"
#define LENIENT_JOB  "publishedjob"

/* Changes doc; adds one sentence per slip to warnings (an array). */
void lenient_fix(struct arena *arena, struct json *doc, struct json *warnings);
/* The same for a patch of a Job, which says only what is to change. */
void lenient_fix_patch(struct arena *arena, struct json *patch, struct json *warnings);
/* Empty documents between stray `---` lines of a file: one warning each. */
void lenient_separators(struct str text, struct arena *arena, struct json *warnings);
