/* openapi - the documents kubectl downloads: discovery (both forms) and OpenAPI, made from the kinds and
 * schema tables. Texts are made once and kept; borrowed. */
#pragma once

#include "base/buf.h"

/* Each returns JSON text (NULL when there is no such group/version). */
struct str discovery_legacy_root(const char *root);   /* "/api": APIVersions; "/apis": APIGroupList */
struct str discovery_legacy_group(const char *group); /* APIGroup of /apis/GROUP */
struct str discovery_legacy_resources(const char *group, const char *version); /* APIResourceList */
struct str discovery_aggregated(const char *root, const char *version);        /* "v2" or "v2beta1" */
struct str openapi_v2_protobuf(void); /* the five bytes that suffice */
struct str openapi_v3_index(void);
struct str openapi_v3_document(const char *group_version); /* "api/v1", "apis/batch/v1" */
