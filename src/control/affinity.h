/* affinity - whether a node is one of those a pod's required node affinity names. */
#pragma once

#include "base/json.h"

/* The nodeSelectorTerms of a pod's required node affinity; NULL: it has none. */
const struct json *affinity_terms(const struct json *pod);
/* terms: nodeSelectorTerms, of which one must hold; a term without any requirement holds for no node. */
bool affinity_takes(const struct json *terms, const struct json *node);
