/* Our own kinds: training jobs, task templates, task definitions, tasks. Sentences follow Kubernetes' manner.
 */
#include "base/yaml.h"
#include "objects/names.h"
#include "objects/rules.h"

#define GPUS_MAX   4096
#define EPOCHS_MAX 1000000000
#define PORTS_MAX  100 /* pairs of portMapping */

/* ---- training jobs ---- */

static void check_folder(struct field_errors *errors, const char *path, const struct json *value)
{
    struct str text = json_str(value);

    if (!text.len)
        return;
    if (text.s[0] != '/')
        field_invalid(errors, path, value, "must be an absolute path");
    check_no_backsteps(errors, path, value);
}

/* "31346:6006,31347:8888" */
static void check_port_mapping(struct field_errors *errors, const struct json *value)
{
    struct str rest = json_str(value), pair;
    size_t count = 0;

    if (!rest.len)
        return;
    while (str_split(&rest, ',', &pair)) {
        struct str left, right = str_trim(pair);
        int64_t node, container;

        if (!str_split(&right, ':', &left) || !str_to_int(left, &node) || !str_to_int(right, &container) ||
            node < 1 || node > UINT16_MAX || container < 1 || container > UINT16_MAX) {
            field_invalid(errors, "spec.portMapping", value,
                          "must be nodePort:containerPort pairs, separated by commas (e.g. '31346:6006')");
            return;
        }
        if (++count > PORTS_MAX) {
            field_invalid(errors, "spec.portMapping", value, "must have no more than %d pairs", PORTS_MAX);
            return;
        }
    }
}

/* 3, "3", "-3" or "0-3", which means -3 where a leading dash is not allowed. */
static void check_priority(struct field_errors *errors, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!json_present(value))
        return;
    if (json_is(value, JSON_STRING))
        buf_puts(&text, json_string(value));
    else
        json_write(&text, value);
    if (!text.len || !priority_is_valid(buf_view(&text)))
        field_invalid(errors, "spec.priority", value, PRIORITY_RULE);
}

static void check_training_counts(struct field_errors *errors, const struct json *spec)
{
    static const struct {
        const char *key;
        int64_t min, max;
    } counts[] = {
        {"batchSize", 1, INT64_MAX},
        {"trainingSetSize", 1, INT64_MAX},
        {"maxEpochs", 1, EPOCHS_MAX},
        {"maxGPUs", 0, GPUS_MAX},
        {"minGPUs", 0, GPUS_MAX},
        {"estimatedMemoryMiB", 1, INT64_MAX / (1 << 20)},
        {"ttlSecondsAfterFinished", 0, INT32_MAX},
    };
    const struct json *hours = json_get(spec, "estimatedHours"), *gpus = json_get(spec, "maxGPUs");
    const struct json *least = json_get(spec, "minGPUs");

    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        const struct json *value = json_get(spec, counts[i].key);

        if (json_present(value) && json_int(value, 0) < counts[i].min)
            field_invalid(errors, AT(errors, "spec.%s", counts[i].key), value,
                          counts[i].min ? "must be greater than zero" : "must not be negative");
        else if (json_int(value, 1) > counts[i].max)
            field_invalid(errors, AT(errors, "spec.%s", counts[i].key), value, "must be no more than %lld",
                          (long long)counts[i].max);
    }
    if (json_present(hours) &&
        !(json_is(hours, JSON_REAL) ? hours->real > 1 : json_int(hours, TRAIN_HOURS_MAX) > 1))
        field_invalid(errors, "spec.estimatedHours", hours, "must be greater than 1");
    else if (json_is(hours, JSON_REAL) ? hours->real > TRAIN_HOURS_MAX
                                       : json_is(hours, JSON_BIG) || json_int(hours, 0) > TRAIN_HOURS_MAX)
        field_invalid(errors, "spec.estimatedHours", hours, "must be no more than %d", TRAIN_HOURS_MAX);
    if (json_bool(json_get(spec, "singleGPU")) && json_int(gpus, 1) > 1)
        field_invalid(errors, "spec.maxGPUs", gpus, "must be 1 when `singleGPU` is true");
    if (json_present(least) &&
        json_int(least, 0) > json_int(gpus, json_bool(json_get(spec, "singleGPU")) ? 1 : GPUS_MAX))
        field_invalid(errors, "spec.minGPUs", least, "must not be more than `maxGPUs`");
}

static void check_amount(struct field_errors *errors, const char *path, const struct json *value)
{
    struct quantity q;
    struct json text;

    if (!quantity_from_json(value, &q) || (q.nanos > 0 && q.nanos <= AMOUNT_NANOS_MAX))
        return;
    text = quantity_json(errors->arena, &q);
    field_invalid(errors, path, &text, "%s", q.nanos > 0 ? AMOUNT_RULE : "must be greater than zero");
}

static void check_training_update(struct field_errors *errors, const struct json *spec,
                                  const struct json *old)
{
    static const char *const fixed[] = {"image",     "scriptPath",   "command",   "args",
                                        "customDir", "snapshotsDir", "batchSize", "trainingSetSize",
                                        "env",       "portMapping"};

    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (!semantic_equal(json_get(spec, fixed[i]), json_get(old, fixed[i])))
            field_invalid(errors, AT(errors, "spec.%s", fixed[i]), json_get(spec, fixed[i]),
                          "field is immutable");
}

void validate_training_job(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                           struct field_errors *errors)
{
    const struct json *spec = json_get(doc, "spec"), *script = json_get(spec, "scriptPath");
    bool has_command = json_len(json_get(spec, "command")) > 0;

    (void)ctx;
    check_required(errors, "spec.image", json_get(spec, "image"));
    if (json_str(script).len && has_command)
        field_forbidden(errors, "spec.scriptPath", "may not be specified when `command` is");
    if (streq(json_get_string(spec, "image"), "host") && !json_str(script).len && !has_command)
        field_required(errors, "spec.command",
                       "`command` or `scriptPath` must be specified for image 'host'");
    check_folder(errors, "spec.customDir", json_get(spec, "customDir"));
    check_folder(errors, "spec.snapshotsDir", json_get(spec, "snapshotsDir"));
    check_training_counts(errors, spec);
    check_port_mapping(errors, json_get(spec, "portMapping"));
    check_priority(errors, json_get(spec, "priority"));
    check_env(errors, "spec.env", json_get(spec, "env"));
    check_amount(errors, "spec.cpu", json_get(spec, "cpu"));
    check_amount(errors, "spec.memory", json_get(spec, "memory"));
    if (old)
        check_training_update(errors, spec, json_get(old, "spec"));
}

/* ---- task templates and definitions ---- */

void validate_task_template(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                            struct field_errors *errors)
{
    (void)ctx;
    (void)old;
    check_required(errors, "spec.template", json_at(doc, "spec.template"));
}

/* Values are given as an object, or as YAML text of one. NULL when they are neither, which is said then. */
static const struct json *values_of(struct field_errors *errors, const char *path, const struct json *value)
{
    struct err err = {0};
    struct json *parsed;

    if (!json_is(value, JSON_STRING))
        return value;
    if (!value->len)
        return NULL;
    if (yaml_parse_one(json_str(value), errors->arena, &parsed, &err) < 0) {
        field_invalid(errors, path, value, "must be YAML: %s", err.msg);
        return NULL;
    }
    return parsed;
}

/* Each description says first whether the value must be given. The path grows and shrinks in place: one of
 * its own for each value would be as many copies of a long key as there are values below it. */
static void check_descriptions(struct field_errors *errors, struct buf *path, const struct json *value)
{
    size_t i = 0, len = path->len;

    JSON_EACH_MEMBER(value, member) {
        buf_putc(path, '.');
        buf_add(path, member->key, member->key_len);
        check_descriptions(errors, path, &member->value);
        path->len = len;
    }
    JSON_EACH(value, item) {
        buf_printf(path, "[%zu]", i++);
        check_descriptions(errors, path, item);
        path->len = len;
    }
    if (json_is(value, JSON_OBJECT) || json_is(value, JSON_ARRAY))
        return;
    if (json_is(value, JSON_NULL)) /* `model:` with nothing below: a map of anything */
        return;
    if (!starts_with(json_string_or(value, ""), "(Required)") &&
        !starts_with(json_string_or(value, ""), "(Optional)"))
        field_invalid(errors, path->data, value, "must begin with '(Required)' or '(Optional)'");
}

void validate_task_definition(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                              struct field_errors *errors)
{
    static const char *const keys[] = {"systemValues", "userValuesExample", "userValuesDescription"};
    const struct json *spec = json_get(doc, "spec"), *template = json_get(spec, "taskTemplateName");

    (void)ctx;
    (void)old;
    if (check_required(errors, "spec.taskTemplateName", template))
        check_text(errors, "spec.taskTemplateName", template, rule_dns_subdomain);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *path = AT(errors, "spec.%s", keys[i]);
        const struct json *value = json_get(spec, keys[i]), *values = values_of(errors, path, value);

        if (!json_present(values))
            continue;
        if (values->type != JSON_OBJECT)
            field_invalid(errors, path, value, "must be an object, or YAML text of one");
        else if (i == 2) {
            CLEANUP(buf_done) struct buf at = {0};

            buf_puts(&at, path);
            check_descriptions(errors, &at, values);
        }
    }
}

void validate_task(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                   struct field_errors *errors)
{
    (void)ctx;
    check_required(errors, "spec.taskDef", json_at(doc, "spec.taskDef"));
    if (old && !json_equal(json_get(doc, "spec"), json_get(old, "spec")))
        field_forbidden(errors, "spec", "a task cannot be changed: run it again with other values");
}
