/* The table, and reading values by it. What a value means is checked with the object (validate_train.c) and
 * against this machine (api/train); here it only gets its type. */
#include "objects/train_options.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "objects/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define NUMBER_MAX 64 /* characters of a number */

const struct train_option train_options[] = {
    {.name = "image_name",
     .older = "dockerImage",
     .field = "image",
     .arg = "IMAGE_NAME",
     .help = "image to run; 'host' is this machine's own root",
     .fallback = "host",
     .guide = true},
    {.name = "script_path",
     .older = "scriptPath",
     .field = "scriptPath",
     .arg = "SCRIPT_PATH",
     .help = "Python script to run, as the container sees it: /custom/train.py",
     .fallback = "the image's own command",
     .guide = true},
    {.name = "custom_dir",
     .older = "directoryToMount",
     .field = "customDir",
     .arg = "CUSTOM_DIR",
     .help = "folder of yours that is mounted at /custom",
     .guide = true},
    {.name = "snapshots_dir",
     .field = "snapshotsDir",
     .arg = "SNAPSHOTS_DIR",
     .help = "folder of yours that is mounted at /snapshots",
     .fallback = "one that Berth keeps for the job",
     .guide = true},
    {.name = "batch_size",
     .older = "batchSize",
     .field = "batchSize",
     .type = TRAIN_INT,
     .arg = "BATCH_SIZE",
     .help = "samples of one step on one GPU ($BATCH_SIZE)",
     .fallback = "1",
     .min = 1,
     .guide = true},
    {.name = "training_set_size",
     .older = "trainingSetSize",
     .field = "trainingSetSize",
     .type = TRAIN_INT,
     .arg = "TRAINING_SET_SIZE",
     .help = "samples of one epoch, without validation ($TRAINING_SET_SIZE)",
     .fallback = "1",
     .min = 1,
     .guide = true},
    {.name = "max_epochs",
     .older = "maxEpochs",
     .field = "maxEpochs",
     .type = TRAIN_INT,
     .arg = "MAX_EPOCHS",
     .help = "epochs in all ($EPOCHS_TO_BE_DONE)",
     .fallback = "1",
     .min = 1,
     .guide = true},
    {.name = "is_single_gpu",
     .older = "isSingleGPU",
     .field = "singleGPU",
     .type = TRAIN_BOOL,
     .arg = "IS_SINGLE_GPU",
     .help = "true: never more than one GPU",
     .fallback = "false",
     .guide = true},
    {.name = "disable_gpu_sharing",
     .older = "disableGPUSharing",
     .field = "disableSharing",
     .type = TRAIN_BOOL,
     .arg = "DISABLE_GPU_SHARING",
     .help = "true: never share a GPU with other jobs",
     .fallback = "false",
     .guide = true},
    {.name = "estimated_memory",
     .older = "estimatedMemory",
     .field = "estimatedMemoryMiB",
     .type = TRAIN_INT,
     .arg = "ESTIMATED_MEMORY",
     .help = "GPU memory of the running container, in MiB",
     .fallback = "a whole GPU",
     .min = 1,
     .guide = true},
    {.name = "port_mapping",
     .field = "portMapping",
     .arg = "PORT_MAPPING",
     .help = "ports to open: nodePort:containerPort,...",
     .guide = true},
    {.name = "est_nhours",
     .field = "estimatedHours",
     .type = TRAIN_REAL,
     .arg = "EST_NHOURS",
     .help = "how long it will take, in hours; more than 1",
     .guide = true},
    {.name = "priority",
     .field = "priority",
     .type = TRAIN_INT,
     .arg = "N",
     .help = "order among your own jobs: higher first",
     .fallback = "0",
     .min = INT32_MIN},
    {.name = "max_gpus",
     .field = "maxGPUs",
     .type = TRAIN_INT,
     .arg = "N",
     .help = "GPUs it can make use of at most; 0: it runs on CPUs",
     .fallback = "all of a node; 1 with is_single_gpu",
     .min = 0},
    {.name = "cpu",
     .field = "cpu",
     .type = TRAIN_AMOUNT,
     .arg = "CORES",
     .help = "CPU cores it may use at most"},
    {.name = "memory",
     .field = "memory",
     .type = TRAIN_AMOUNT,
     .arg = "SIZE",
     .help = "main memory it may use at most: 16Gi"},
    {.name = "deadline",
     .field = "deadline",
     .type = TRAIN_TIME,
     .arg = "TIME",
     .help = "when it should be done: 2026-12-01T08:00:00Z"},
    {.name = "env",
     .field = "env",
     .type = TRAIN_ENV,
     .arg = "NAME=VALUE",
     .help = "an environment variable more; may be repeated"},
    {0},
};

static bool same_name(const char *name, struct str text)
{
    size_t i = 0;

    for (; i < text.len && name[i]; i++)
        if (name[i] != (text.s[i] == '-' ? '_' : text.s[i]))
            return false;
    return i == text.len && !name[i];
}

const struct train_option *train_option_find(struct str name)
{
    for (const struct train_option *it = train_options; it->name; it++)
        if (same_name(it->name, name) || str_is(name, it->field) || (it->older && str_is(name, it->older)))
            return it;
    return NULL;
}

/* ---- values ---- */

static int bad(struct err *err, const struct train_option *option, const char *what, struct str text)
{
    return err_set(err, ERR_INVALID, "--%s must be %s, not '%.*s'", option->name, what,
                   (int)(text.len > NUMBER_MAX ? NUMBER_MAX : text.len), text.s);
}

static int read_bool(struct str text, bool *ret)
{
    static const char *const yes[] = {"true", "1", "yes", "on"}, *const no[] = {"false", "0", "no", "off"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (str_ieq(text, str_from(yes[i]))) {
            *ret = true;
            return 0;
        }
        if (str_ieq(text, str_from(no[i]))) {
            *ret = false;
            return 0;
        }
    }
    return -1;
}

static int read_real(struct str text, double *ret)
{
    char copy[NUMBER_MAX + 1], *end;

    if (!text.len || text.len > NUMBER_MAX || !strchr("0123456789.-", text.s[0]))
        return -1;
    memcpy(copy, text.s, text.len);
    copy[text.len] = '\0';
    *ret = strtod(copy, &end);
    return *end || !isfinite(*ret) ? -1 : 0;
}

static int set_int(struct arena *arena, struct json *spec, const struct train_option *option, int64_t n,
                   struct err *err)
{
    if (n < option->min)
        return err_set(err, ERR_INVALID, "--%s must be at least %lld, not %lld", option->name,
                       (long long)option->min, (long long)n);
    json_set_int(arena, spec, option->field, n);
    return 0;
}

static int set_real(struct arena *arena, struct json *spec, const struct train_option *option, double n,
                    struct err *err)
{
    if (n <= 1)
        return err_set(err, ERR_INVALID,
                       "--%s must be more than 1, not %g: give the hours generously, the "
                       "first epoch corrects them",
                       option->name, n);
    json_set(arena, spec, option->field, json_of_real(n));
    return 0;
}

static int add_env(struct arena *arena, struct json *spec, const struct train_option *option, struct str text,
                   struct err *err)
{
    struct json *list = json_get(spec, option->field), *var;
    struct str name, value = text;

    if (!str_split(&value, '=', &name) || !name.len || name.len == text.len)
        return bad(err, option, "NAME=VALUE", text);
    if (!json_is(list, JSON_ARRAY))
        list = json_set_array(arena, spec, option->field);
    var = json_push_object(arena, list);
    json_set(arena, var, "name", json_of_str(arena, name));
    json_set(arena, var, "value", json_of_str(arena, value));
    return 0;
}

/* "0-3" is -3, as in a label. */
static bool read_int(const struct train_option *option, struct str text, int64_t *ret)
{
    if (option->min < 0 && str_starts(text, "0-"))
        text = (struct str){text.s + 1, text.len - 1};
    return str_to_int(text, ret);
}

int train_option_text(struct arena *arena, struct json *spec, const struct train_option *option,
                      struct str text, struct err *err)
{
    struct str value = str_trim(text);
    struct quantity quantity;
    struct json amount;
    bool boolean;
    double real;
    int64_t n;

    switch (option->type) {
    case TRAIN_TEXT:
        json_set(arena, spec, option->field, json_of_str(arena, value));
        return 0;
    case TRAIN_INT:
        return read_int(option, value, &n) ? set_int(arena, spec, option, n, err)
                                           : bad(err, option, "a whole number", text);
    case TRAIN_REAL:
        return read_real(value, &real) == 0 ? set_real(arena, spec, option, real, err)
                                            : bad(err, option, "a number", text);
    case TRAIN_BOOL:
        if (read_bool(value, &boolean) < 0)
            return bad(err, option, "true or false", text);
        json_set_bool(arena, spec, option->field, boolean);
        return 0;
    case TRAIN_AMOUNT:
        amount = json_of_str(arena, value);
        if (!quantity_from_json(&amount, &quantity))
            return bad(err, option, "an amount such as 2, 500m or 4Gi", text);
        json_set(arena, spec, option->field, amount);
        return 0;
    case TRAIN_TIME:
        if (!clock_parse(value, &n))
            return bad(err, option, "a time such as 2026-12-01T08:00:00Z", text);
        json_set(arena, spec, option->field, json_of_str(arena, value));
        return 0;
    case TRAIN_ENV:
        return add_env(arena, spec, option, text, err);
    }
    return err_set(err, ERR_INTERNAL, "--%s has no type", option->name);
}

/* {"A": "1"} or a list of {"name","value"} or of "A=1". */
static int env_json(struct arena *arena, struct json *spec, const struct train_option *option,
                    const struct json *value, struct err *err)
{
    struct json *list = json_set_array(arena, spec, option->field);

    JSON_EACH_MEMBER(value, member) {
        struct json *var = json_push_object(arena, list);

        if (!json_is(&member->value, JSON_STRING))
            return err_set(err, ERR_INVALID, "--%s: the value of %s must be text", option->name, member->key);
        json_set(arena, var, "name", json_of_str(arena, (struct str){member->key, member->key_len}));
        json_set(arena, var, "value", member->value);
    }
    JSON_EACH(value, it) {
        if (json_is(it, JSON_OBJECT))
            json_push(arena, list, *it);
        else if (add_env(arena, spec, option, json_str(it), err) < 0)
            return -1;
    }
    return 0;
}

int train_option_json(struct arena *arena, struct json *spec, const struct train_option *option,
                      const struct json *value, struct err *err)
{
    if (!value || value->type == JSON_NULL)
        return 0;
    if (value->type == JSON_STRING) {
        /* an empty field of a form */
        if (!value->len && option->type != TRAIN_TEXT)
            return 0;
        return train_option_text(arena, spec, option, json_str(value), err);
    }
    if (option->type == TRAIN_ENV && (value->type == JSON_OBJECT || value->type == JSON_ARRAY))
        return env_json(arena, spec, option, value, err);
    if (option->type == TRAIN_BOOL && value->type == JSON_BOOL) {
        json_set_bool(arena, spec, option->field, value->boolean);
        return 0;
    }
    if (option->type == TRAIN_INT && value->type == JSON_INT)
        return set_int(arena, spec, option, value->integer, err);
    if (option->type == TRAIN_INT && value->type == JSON_REAL && value->real == floor(value->real) &&
        fabs(value->real) < 1e15)
        return set_int(arena, spec, option, (int64_t)value->real, err);
    if (option->type == TRAIN_REAL && (value->type == JSON_INT || value->type == JSON_REAL))
        return set_real(arena, spec, option, value->type == JSON_INT ? (double)value->integer : value->real,
                        err);
    if (option->type == TRAIN_AMOUNT && (value->type == JSON_INT || value->type == JSON_REAL)) {
        json_set(arena, spec, option->field, *value);
        return 0;
    }
    return err_set(err, ERR_INVALID, "--%s cannot be a %s", option->name, json_type_name(value));
}

/* ---- requests ---- */

/* Members that are no options. */
static bool read_member(struct train_request *request, const char *key, const struct json *value)
{
    static const struct {
        const char *key;
        size_t at;
    } members[] = {
        {"job_name", offsetof(struct train_request, name)},
        {"job-name", offsetof(struct train_request, name)},
        {"jobName", offsetof(struct train_request, name)},
        {"name", offsetof(struct train_request, name)},
        {"namespace", offsetof(struct train_request, ns)},
        {"username", offsetof(struct train_request, username)},
    };

    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (streq(key, members[i].key)) {
            *(const char **)((char *)request + members[i].at) = json_string(value);
            return true;
        }
    return false;
}

static void take_spec(struct arena *arena, struct train_request *request, const struct json *spec)
{
    JSON_EACH_MEMBER(spec, member)
        json_set_str(arena, request->spec, (struct str){member->key, member->key_len}, member->value);
}

int train_request_read(struct arena *arena, const struct json *body, struct train_request *ret,
                       struct err *err)
{
    struct train_request request = {.spec = json_new_object(arena)};

    take_spec(arena, &request, json_get(body, "spec"));
    JSON_EACH_MEMBER(body, member) {
        struct str key = {member->key, member->key_len};
        const struct train_option *option = train_option_find(key);

        if (streq(member->key, "spec") || read_member(&request, member->key, &member->value))
            continue;
        if (streq(member->key, "labels") && json_is(&member->value, JSON_OBJECT)) {
            request.labels = &member->value;
        } else if (streq(member->key, "command") || streq(member->key, "args")) {
            json_set_str(arena, request.spec, key, member->value);
        } else if (!option) {
            return err_set(err, ERR_INVALID,
                           "there is no option '%.*s': see run-scheduler --help for those there are",
                           (int)(key.len > NUMBER_MAX ? NUMBER_MAX : key.len), key.s);
        } else if (train_option_json(arena, request.spec, option, &member->value, err) < 0) {
            return -1;
        }
    }
    if (!request.name)
        request.name = "";
    if (!json_get(request.spec, "image"))
        json_set_string(arena, request.spec, "image", "host");
    *ret = request;
    return 0;
}

const char *train_object_name(struct arena *arena, const char *text)
{
    char *name = arena_strdup(arena, text ? text : ""), *out = name;

    for (const char *at = name; *at && out - name < TRAIN_NAME_MAX; at++) {
        if (isalnum((unsigned char)*at))
            *out++ = (char)tolower((unsigned char)*at);
        else if (out > name && out[-1] != '-')
            *out++ = '-';
    }
    while (out > name && out[-1] == '-')
        out--;
    *out = '\0';
    return name;
}

/* ---- the other way ---- */

/* As a shell reads it back as one word. */
static void quote(struct buf *out, struct str text)
{
    bool plain = text.len > 0;

    for (size_t i = 0; i < text.len; i++)
        plain = plain && (isalnum((unsigned char)text.s[i]) || strchr("_-./:=,@+%", text.s[i]));
    if (plain) {
        buf_str(out, text);
        return;
    }
    buf_putc(out, '\'');
    for (size_t i = 0; i < text.len; i++)
        if (text.s[i] == '\'')
            buf_puts(out, "'\\''");
        else
            buf_putc(out, text.s[i]);
    buf_putc(out, '\'');
}

static void write_option(struct buf *out, const struct train_option *option, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (value->type == JSON_STRING)
        buf_str(&text, json_str(value));
    else if (value->type == JSON_REAL && value->real == floor(value->real) && fabs(value->real) < 1e15)
        buf_int(&text, (int64_t)value->real);
    else
        json_write(&text, value);
    buf_printf(out, " --%s ", option->name);
    quote(out, buf_view(&text));
}

void train_command_line(struct buf *out, const struct json *spec, const char *name)
{
    buf_puts(out, "run-scheduler");
    for (const struct train_option *it = train_options; it->name; it++) {
        const struct json *value = json_get(spec, it->field);

        if (!value || value->type == JSON_NULL)
            continue;
        if (it->type != TRAIN_ENV) {
            write_option(out, it, value);
            continue;
        }
        JSON_EACH(value, var) {
            CLEANUP(buf_done) struct buf pair = {0};

            buf_printf(&pair, "%s=%s", json_string_or(json_get(var, "name"), ""),
                       json_string_or(json_get(var, "value"), ""));
            buf_printf(out, " --%s ", it->name);
            quote(out, buf_view(&pair));
        }
    }
    buf_putc(out, ' ');
    quote(out, str_from(name));
}
