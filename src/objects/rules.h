/* rules - what the files of the kinds table share: columns, defaults and checks of each kind, and the
 * checks several kinds use. Private to objects. */
#pragma once

#include "objects/kind.h"
#include "objects/quantity.h"

/* ---- columns (columns_*.c) ---- */
extern const struct column columns_namespace[3];
extern const struct column columns_node[10];
extern const struct column columns_pod[9];
extern const struct column columns_job[8];
extern const struct column columns_config_map[3];
extern const struct column columns_secret[4];
extern const struct column columns_pvc[9];
extern const struct column columns_pv[11];
extern const struct column columns_resource_quota[4];
extern const struct column columns_limit_range[2];
extern const struct column columns_event[10];
extern const struct column columns_service[7];
extern const struct column columns_endpoints[3];
extern const struct column columns_endpoint_slice[5];
extern const struct column columns_service_account[3];
extern const struct column columns_priority_class[5];
extern const struct column columns_lease[3];
extern const struct column columns_storage_class[6];
extern const struct column columns_training_job[9];
extern const struct column columns_task_template[3];
extern const struct column columns_task_definition[5];
extern const struct column columns_task[7];

/* The two columns most kinds start and end with. */
#define NAME_COLUMN                                                                                          \
    {                                                                                                        \
        .name = "Name", .type = "string", .format = "name", .path = "metadata.name",                         \
        .doc = "Name of the object, unique within its namespace."                                            \
    }
#define AGE_COLUMN                                                                                           \
    {                                                                                                        \
        .name = "Age", .type = "string", .format = "", .cell = cell_created,                                 \
        .doc = "Time since the object was created."                                                          \
    }
void cell_created(const struct json *doc, struct column_ctx *ctx, struct buf *out);
void cell_containers(const struct json *containers, const char *key, struct buf *out); /* "a,b" */
const char *pod_row_conditions(const struct json *doc);

/* ---- defaults (defaults*.c) ---- */
void drop_empty(const struct schema_type *type, struct json *object);
void defaults_namespace(const struct rule_ctx *ctx, struct json *doc);
void defaults_node(const struct rule_ctx *ctx, struct json *doc);
void defaults_pod(const struct rule_ctx *ctx, struct json *doc);
void defaults_job(const struct rule_ctx *ctx, struct json *doc);
void defaults_secret(const struct rule_ctx *ctx, struct json *doc);
void defaults_pvc(const struct rule_ctx *ctx, struct json *doc);
void defaults_pv(const struct rule_ctx *ctx, struct json *doc);
void defaults_limit_range(const struct rule_ctx *ctx, struct json *doc);
void defaults_resource_quota(const struct rule_ctx *ctx, struct json *doc);
void defaults_event(const struct rule_ctx *ctx, struct json *doc);
void defaults_service(const struct rule_ctx *ctx, struct json *doc);
void defaults_endpoints(const struct rule_ctx *ctx, struct json *doc);
void defaults_endpoint_slice(const struct rule_ctx *ctx, struct json *doc);
void defaults_lease(const struct rule_ctx *ctx, struct json *doc);
void defaults_priority_class(const struct rule_ctx *ctx, struct json *doc);
void defaults_storage_class(const struct rule_ctx *ctx, struct json *doc);
void defaults_training_job(const struct rule_ctx *ctx, struct json *doc);

void prepare_namespace(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
void prepare_pod(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
void prepare_job(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
void prepare_pvc(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
void prepare_pv(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
void prepare_service(const struct rule_ctx *ctx, struct json *doc, const struct json *old);
void prepare_training_job(const struct rule_ctx *ctx, struct json *doc, const struct json *old);

/* The pod spec of a Pod or a template: what both get. */
void defaults_pod_spec(struct arena *arena, struct json *spec);
/* Sets key when it is absent, null or "". */
void default_string(struct arena *arena, struct json *object, const char *key, const char *value);
void default_int(struct arena *arena, struct json *object, const char *key,
                 int64_t value); /* absent or null */
void default_count(struct arena *arena, struct json *object, const char *key, int64_t value); /* … or 0 */
void default_bool(struct arena *arena, struct json *object, const char *key, bool value);
void default_quantities(struct arena *arena, struct json *list); /* numbers become text */
void default_quantities_missing(struct arena *arena, struct json *list, const struct json *from);

/* ---- rules for text, and checks that several kinds use (metadata.c, validate_common.c) ---- */
#define RULE_MSGS_MAX 8
/* Puts what is wrong with s into msgs (constants) and returns how many there are. */
typedef size_t text_rule(struct str s, const char **msgs);
text_rule rule_dns_label, rule_dns1035_label, rule_dns_subdomain, rule_path_segment, rule_qualified_name,
    rule_label_value, rule_config_key, rule_env_name, rule_port_name;

/* One "Invalid value" for each thing wrong; true when there is none. */
bool check_str(struct field_errors *errors, const char *path, struct str s, text_rule *rule);
bool check_text(struct field_errors *errors, const char *path, const struct json *value, text_rule *rule);
bool finalizer_is_known(const char *name);
void check_labels(struct field_errors *errors, const char *path, const struct json *labels);
void check_annotations(struct field_errors *errors, const char *path, const struct json *annotations);
bool check_immutable(struct field_errors *errors, const char *path, const struct json *value,
                     const struct json *old);

/* Absent or null counts as not there. All return whether the value passes. */
bool check_required(struct field_errors *errors, const char *path, const struct json *value); /* … or "" */
bool check_one_of(struct field_errors *errors, const char *path, const struct json *value,
                  const char *const *choices); /* NULL-terminated */
bool check_not_negative(struct field_errors *errors, const char *path, const struct json *value);
bool check_positive(struct field_errors *errors, const char *path, const struct json *value);
bool check_range(struct field_errors *errors, const char *path, const struct json *value, int64_t min,
                 int64_t max);
bool check_port(struct field_errors *errors, const char *path, const struct json *value);
bool check_port_or_name(struct field_errors *errors, const char *path, const struct json *value);
bool check_ip(struct field_errors *errors, const char *path, const struct json *value);
/* … one that others can send to. */
bool check_outside_ip(struct field_errors *errors, const char *path, const struct json *value);
void check_label_selector(struct field_errors *errors, const char *path, const struct json *selector);
bool selector_matches_json(const struct json *selector, const struct json *labels, struct arena *arena);
/* Paths inside a volume: relative, without "..". */
bool has_backsteps(struct str text);
bool check_no_backsteps(struct field_errors *errors, const char *path, const struct json *value);
bool check_descending_path(struct field_errors *errors, const char *path, const struct json *value);
bool check_item_path(struct field_errors *errors, const char *path, const struct json *value);

/* Equal as Kubernetes means it: absent, null, "", [] and {} are the same, amounts compare by value, and
 * flags that are left out when false may be left out. */
bool semantic_equal(const struct json *a, const struct json *b);

/* ---- resource names and amounts ---- */
bool resource_is_huge_page(const char *name);
bool resource_is_extended(const char *name);       /* "nvidia.com/gpu" */
bool resource_allows_overcommit(const char *name); /* requests may be below limits */
bool resource_is_standard_quota(const char *name);
bool check_resource_name(struct field_errors *errors, const char *path, const char *name);
bool check_container_resource_name(struct field_errors *errors, const char *path, const char *name);
bool check_quota_resource_name(struct field_errors *errors, const char *path, const char *name);
bool check_resource_amount(struct field_errors *errors, const char *path, const char *name,
                           const struct json *value);
struct json quantity_json(struct arena *arena, const struct quantity *q);

/* ---- pods and templates (validate_pod.c, validate_container.c, validate_volume.c, validate_affinity.c) ----
 */
struct pod_check {
    struct field_errors *errors;
    const char *path; /* of the pod spec: "spec", "spec.template.spec" */
    const struct json *spec;
    struct json *volumes; /* name → the volume that passed */
    bool is_pod;          /* not a template */
};
void check_pod_spec(struct field_errors *errors, const char *path, const struct json *spec, bool is_pod);
/* Exactly one member of volume beside `others` (NULL-terminated), and that one well-formed. */
void check_volume_source(struct field_errors *errors, const char *path, const struct json *volume,
                         const char *const *others);
void check_volumes(struct pod_check *check);
void check_containers(struct pod_check *check);
void check_env(struct field_errors *errors, const char *path, const struct json *vars);
void check_affinity(struct field_errors *errors, const char *path, const struct json *affinity);
void check_node_selector(struct field_errors *errors, const char *path, const struct json *selector);
extern const char *const taint_effects[];
void check_spread(struct field_errors *errors, const char *path, const struct json *constraints);
void check_tolerations(struct field_errors *errors, const char *path, const struct json *tolerations);
void check_pod_update(struct field_errors *errors, const struct json *spec, const struct json *old);

/* A path made where it is needed: AT(errors, "%s.name", path). */
#define AT(errors, ...) arena_printf((errors)->arena, __VA_ARGS__)

static inline bool json_present(const struct json *value)
{
    return value && value->type != JSON_NULL;
}

/* ---- warnings (warnings.c) ---- */
#define WARNINGS_FN(name)                                                                                    \
    void name(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,                    \
              struct json *warnings)
WARNINGS_FN(warnings_pod);
WARNINGS_FN(warnings_job);
WARNINGS_FN(warnings_secret);
WARNINGS_FN(warnings_endpoint_slice);
/* Leaves each owner once in metadata.ownerReferences. */
void dedup_owners(const struct rule_ctx *ctx, struct json *metadata);

/* ---- checks (validate_*.c) ---- */
#define VALIDATE_FN(name)                                                                                    \
    void name(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,                    \
              struct field_errors *errors)
VALIDATE_FN(validate_namespace);
VALIDATE_FN(validate_namespace_status);
VALIDATE_FN(validate_node_status);
VALIDATE_FN(validate_job_status);
VALIDATE_FN(validate_node);
VALIDATE_FN(validate_pod);
VALIDATE_FN(validate_job);
VALIDATE_FN(validate_config_map);
VALIDATE_FN(validate_secret);
VALIDATE_FN(validate_pvc);
VALIDATE_FN(validate_pv);
VALIDATE_FN(validate_resource_quota);
VALIDATE_FN(validate_limit_range);
VALIDATE_FN(validate_event);
VALIDATE_FN(validate_service);
VALIDATE_FN(validate_endpoints);
VALIDATE_FN(validate_endpoint_slice);
VALIDATE_FN(validate_service_account);
VALIDATE_FN(validate_priority_class);
VALIDATE_FN(validate_lease);
VALIDATE_FN(validate_storage_class);
VALIDATE_FN(validate_training_job);
VALIDATE_FN(validate_task_template);
VALIDATE_FN(validate_task_definition);
VALIDATE_FN(validate_task);
