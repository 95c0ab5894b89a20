/* openapi - the description of /v1, for programs. */
#pragma once

#include "api/rest/rest.h"

extern const char openapi_schemas[];          /* YAML: name → schema */
struct json *openapi_v1(struct arena *arena); /* OpenAPI 3.0 */
