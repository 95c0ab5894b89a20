/* kind - the table of kinds Berth serves: names, scope, verbs, fields, columns, rules. Adding a kind is
 * a row here plus its rules. */
#pragma once

#include "objects/failure.h"
#include "objects/object.h"
#include "objects/schema.h"

/* Stored in the database: never renumber, never reuse. */
enum kind_id {
    KIND_NAMESPACE = 1,
    KIND_NODE = 2,
    KIND_POD = 3,
    KIND_JOB = 4,
    KIND_CONFIG_MAP = 5,
    KIND_SECRET = 6,
    KIND_PVC = 7,
    KIND_PV = 8,
    KIND_RESOURCE_QUOTA = 9,
    KIND_LIMIT_RANGE = 10,
    KIND_EVENT = 11,
    KIND_SERVICE = 12,
    KIND_SERVICE_ACCOUNT = 13,
    KIND_PRIORITY_CLASS = 14,
    KIND_LEASE = 15,
    KIND_STORAGE_CLASS = 16,
    KIND_TRAINING_JOB = 17,
    KIND_TASK_TEMPLATE = 18,
    KIND_TASK_DEFINITION = 19,
    KIND_TASK = 20,
    KIND_ENDPOINTS = 21,
    KIND_ENDPOINT_SLICE = 22,
    KIND_MAX = 64, /* ids stay below */
};

/* Reviews and metrics are not stored: they are in the table for discovery and decoding, with
 * stored = false and ids from KIND_MAX up. */
enum {
    KIND_SELF_SUBJECT_ACCESS_REVIEW = KIND_MAX,
    KIND_SELF_SUBJECT_RULES_REVIEW,
    KIND_SELF_SUBJECT_REVIEW,
    KIND_POD_METRICS,
    KIND_NODE_METRICS,
    KIND_BINDING,
};

enum {
    VERB_CREATE = 1,
    VERB_DELETE = 2,
    VERB_DELETE_COLLECTION = 4,
    VERB_GET = 8,
    VERB_LIST = 16,
    VERB_PATCH = 32,
    VERB_UPDATE = 64,
    VERB_WATCH = 128,
    VERBS_STORED = 255,
    VERBS_STATUS = VERB_GET | VERB_PATCH | VERB_UPDATE,
};

struct subresource {
    const char *name; /* "status", "log" */
    unsigned verbs;
    /* Of what is sent there, where it differs ("policy", "v1", "Eviction"); NULL: the parent's. */
    const char *group, *version, *kind;
};

/* How a column's cell is made. Times are written as ages at the moment of the answer. */
struct column_ctx {
    struct arena *arena; /* scratch */
    int64_t now;
};
struct column {
    const char *name;
    const char *type;   /* "string", "integer", "date" */
    const char *format; /* "name" for the first, else "" */
    int priority;       /* 1: only with -o wide */
    const char *doc;
    /* Appends the cell as JSON (quoted text, number, boolean); times by cell_age of table.h. NULL: the string
     * at `path`, or `none` where that is absent or empty (NULL: the empty string). */
    void (*cell)(const struct json *doc, struct column_ctx *ctx, struct buf *out);
    const char *path;
    const char *none;
};

/* Rules see documents that passed schema_check. old is NULL on create. */
struct rule_ctx {
    struct arena *arena;
    int64_t now;
    const char *name;      /* of the object, for messages */
    struct json *warnings; /* array that gets warning texts; NULL: not wanted */
};

struct kind {
    int id;
    unsigned verbs;
    const char *group; /* "" for core */
    const char *version;
    const char *api_version; /* "v1", "batch/v1" */
    const char *resource;    /* "pods", "jobs.batch" */
    const char *name;        /* "Pod" */
    const char *plural;      /* "pods" */
    const char *singular;
    const char *const *short_names; /* NULL-terminated, or NULL */
    const char *const *categories;  /* NULL-terminated, or NULL */
    bool namespaced;
    bool stored;
    bool has_status;       /* status is written only through /status */
    bool status_on_create; /* … but a create may bring it (nodes) */
    bool has_generation;   /* metadata.generation counts changes of spec */
    bool generation_stays; /* … but remains 1 (priority classes) */
    bool graceful;         /* deletion waits for deletionGracePeriodSeconds and whoever runs it (pods) */
    const char *type_name; /* in the schema; NULL: same as name */
    const struct subresource *subresources;
    size_t subresource_count;
    /* Field selectors beside metadata.name and metadata.namespace: "status.phase"; NULL-terminated, or NULL.
     */
    const char *const *fields;
    const struct column *columns;
    size_t column_count;
    /* The conditions of a Table row as JSON text ("[…]"), or NULL. */
    const char *(*row_conditions)(const struct json *doc);
    /* Fills defaults that Kubernetes' API server fills: after every decode (create, update, patch), before
     * prepare. metadata.name and metadata.uid are set by then. */
    void (*defaults)(const struct rule_ctx *ctx, struct json *doc);
    /* What the server decides itself, after kind_prepare has dealt with status. Create (old NULL): the first
     * status, a Job's selector, what admission adds to pods. Update: other fields that a write to the main
     * resource does not touch (a namespace's finalizers). */
    void (*prepare)(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
    /* Field errors on create (old NULL) and update. Metadata itself is checked by object_check_metadata. */
    void (*validate)(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                     struct field_errors *errors);
    /* Of what is written to /status. NULL: anything goes. */
    void (*validate_status)(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                            struct field_errors *errors);
    /* What is allowed but should not be done, once the write has passed its checks; NULL: nothing to say. */
    void (*warnings)(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                     struct json *warnings);
    /* Selector field value (index in `fields`) where it is not simply the string at that path; NULL: that. */
    const char *(*field_value)(const struct json *doc, const char *field, struct arena *arena);
    /* Name rule: "dns-label", "dns1035-label", "dns-subdomain", "path-segment"; NULL: dns-subdomain. */
    const char *name_rule;
};

extern const struct kind kinds[];
extern const size_t kind_count;

/* All NULL when unknown. The name is "Pod", the plural "pods". */
const struct kind *kind_by_id(int id);
const struct kind *kind_by_plural(struct str group, struct str version, struct str plural);
const struct schema_type *kind_schema(const struct kind *kind);
const struct subresource *kind_subresource(const struct kind *kind, struct str name); /* NULL when unknown */
const char *kind_api_version(const struct kind *kind);                                /* "v1", "batch/v1" */
const char *kind_resource(const struct kind *kind); /* "pods", "jobs.batch": as in messages */

/* Between defaults and validation of a write to the main resource (not of /status): where the kind has a
 * status it is emptied on create and taken from old on update; a new object is not being deleted; owners
 * named twice are kept once, with a warning; the kind's prepare runs; what is empty and may be left out is
 * left out. */
void kind_prepare(const struct kind *kind, const struct rule_ctx *ctx, struct json *doc,
                  const struct json *old);

/* Likewise for a write to /status, where only what is empty is left out. */
void kind_prepare_status(const struct kind *kind, struct json *doc);

/* "Guaranteed", "Burstable", "BestEffort". */
const char *pod_qos_class(const struct json *spec);

/* Rules common to all kinds: name, generateName, namespace, labels, annotations, finalizers,
 * ownerReferences; immutability of name, namespace, uid, creationTimestamp on update. */
void object_check_metadata(const struct kind *kind, const struct rule_ctx *ctx, const struct json *doc,
                           const struct json *old, struct field_errors *errors);
/* Appends five characters of bcdfghjklmnpqrstvwxz2456789, cutting the base at 58 characters. */
#define NAME_TAIL_LEN 5
char *object_name_after(struct arena *arena, const char *base, const uint8_t random[NAME_TAIL_LEN]);
