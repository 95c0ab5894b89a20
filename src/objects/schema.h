/* schema - the fields of every kind, as one table: name in JSON, number in protobuf, type, how lists
 * merge. From it come strict field checks, protobuf request bodies, the merge keys of strategic merge
 * patches, field ownership of server-side apply, and the OpenAPI documents that `kubectl explain` reads. */
#pragma once

#include "base/json.h"

enum schema_base {
    SCHEMA_STRING,
    SCHEMA_INT32,
    SCHEMA_INT64,
    SCHEMA_BOOL,
    SCHEMA_DOUBLE,
    SCHEMA_BYTES,      /* base64 text in JSON */
    SCHEMA_QUANTITY,   /* "100m", "2Gi", 4 */
    SCHEMA_TIME,       /* RFC 3339, seconds */
    SCHEMA_MICRO_TIME, /* RFC 3339, microseconds */
    SCHEMA_INT_OR_STRING,
    SCHEMA_MESSAGE, /* fields of `type` */
    SCHEMA_ANY,     /* any JSON; what lies below is not looked at */
};

enum schema_shape { SCHEMA_ONE, SCHEMA_LIST, SCHEMA_MAP /* string keys */ };

enum schema_merge {
    SCHEMA_ATOMIC,   /* lists: replaced whole; maps and messages: only where Kubernetes marks them atomic */
    SCHEMA_GRANULAR, /* messages and maps: member by member (their default) */
    SCHEMA_KEYED,    /* lists of messages: item by key */
    SCHEMA_SET,      /* lists of scalars: union */
};

struct schema_type;

struct schema_field {
    const char *name;
    uint8_t name_len;
    uint16_t number;  /* in protobuf; 0: not there */
    uint8_t base;     /* enum schema_base: of the value, the items, the map's values */
    uint8_t shape;    /* enum schema_shape */
    uint8_t patch;    /* enum schema_merge: how strategic merge patches treat it */
    uint8_t apply;    /* enum schema_merge: how server-side apply treats it */
    bool retain_keys; /* strategic merge: $retainKeys is understood (volumes' sources, deployment strategy) */
    bool required;    /* for OpenAPI only; validation has its own rules */
    bool pointer;     /* protobuf carries it only when set, so that a zero there means something */
    const char *patch_key;  /* merge key of SCHEMA_KEYED in strategic merge: "name" */
    const char *apply_keys; /* likewise in server-side apply, comma-separated: "containerPort,protocol" */
    const struct schema_type *type; /* of SCHEMA_MESSAGE */
    const char *go_type; /* as error messages name it ("v1.PullPolicy"); NULL: follows from base and shape */
    const char *doc;     /* one sentence, or NULL */
};

struct schema_type {
    const char *name;                  /* "PodSpec" */
    const char *package;               /* "io.k8s.api.core.v1": prefix of the name in OpenAPI */
    const struct schema_field *fields; /* sorted by name */
    size_t field_count;
    /* A message whose members stand among the fields above in JSON, but apart under a number in protobuf
     * (VolumeSource in Volume); NULL: none. Such fields have number 0 here. */
    const struct schema_type *embedded;
    const char *doc;
    uint16_t embedded_number;
    bool inline_any;      /* unknown members are kept (our own kinds) */
    bool reports_unknown; /* and told of, as a warning or, under strict validation, an error */
};

const struct schema_type *schema_type_find(const char *name); /* "PodSpec"; NULL when unknown */
/* NULL when unknown. */
const struct schema_field *schema_field_find(const struct schema_type *type, struct str name);

/* What is wrong with a document's fields. Paths look as Kubernetes prints them: spec.containers[0].imagee. */
struct schema_report {
    struct buf unknown; /* `unknown field "spec.x"`, comma-space separated, at most 100 */
    size_t unknown_count;
    bool sorted; /* set by the caller: by name, not by place; so Kubernetes lists them after a patch */
};
#define SCHEMA_LIST_MAX       10000 /* items of one list */
#define SCHEMA_SHORT_MAX      1000 /* of variables, ports, mounts, volumes, tolerations, owners and the like */
#define SCHEMA_CONTAINERS_MAX 100  /* of a pod, and as many init containers */
#define SCHEMA_MANAGERS_MAX   100  /* of an object: each write goes through the fields of all of them */
#define SCHEMA_MANAGED_BYTES  (1 << 20) /* of the fields of those that did not make the last write */
#define SCHEMA_RESOURCES_MAX  100       /* names of resources in one list of amounts */
#define SCHEMA_VALUES_MAX     100000    /* items and members of all its lists, maps and messages together */

/* ERR_INVALID with the path where an object holds more than that, before anything is made of it.
 * Checks types (a string where a number should be: ERR_INVALID, worded as Kubernetes' decoder does:
 * `json: cannot unmarshal string into Go struct field Container.spec.containers.ports of type int32`) and
 * finds unknown members; with prune they are removed from doc. What Kubernetes' decoding and encoding would
 * change is changed: null members are removed, null items and map values become the zero value, quantities
 * and times get their canonical text (2 → "2", "0.5" → "500m", "…+02:00" → "…Z"). report may be NULL. */
int schema_check(const struct schema_type *type, struct arena *arena, struct json *doc, bool prune,
                 struct schema_report *report, struct err *err);
void schema_report_done(struct schema_report *report); /* leaves an empty, usable report */
static inline void schema_report_done_cleanup_(struct schema_report *report)
{
    schema_report_done(report);
}

/* A Kubernetes protobuf body (k8s\0 envelope) as JSON with apiVersion and kind set. Zero values are left
 * out. The type is looked up by the envelope's kind. ERR_INVALID, ERR_UNSUPPORTED (kind without a table),
 * ERR_LIMIT. */
int schema_from_protobuf(struct str body, struct arena *arena, struct json **ret, struct err *err);
