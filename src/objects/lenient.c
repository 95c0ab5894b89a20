#include "objects/lenient.h"

#include "objects/kind.h"

struct fix {
    struct arena *arena;
    struct json *warnings;
};

static void warn(const struct fix *fix, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void warn(const struct fix *fix, const char *fmt, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    va_list ap;

    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    json_push(fix->arena, fix->warnings, json_of_str(fix->arena, buf_view(&text)));
}

/* The group a kind really lives in, where the given one has no such kind. */
static void fix_api_version(const struct fix *fix, struct json *doc)
{
    const char *given = json_string_or(json_get(doc, "apiVersion"), "");
    const char *name = json_string_or(json_get(doc, "kind"), "");

    for (size_t i = 0; i < kind_count; i++)
        if (streq(kinds[i].name, name) && streq(kind_api_version(&kinds[i]), given))
            return;
    for (size_t i = 0; i < kind_count; i++) {
        if (strcasecmp(kinds[i].name, name) != 0 || !kinds[i].stored)
            continue;
        if (!streq(kinds[i].name, name)) {
            warn(fix, "kind: '%s' is written '%s'", name, kinds[i].name);
            json_set_string(fix->arena, doc, "kind", kinds[i].name);
        }
        if (!streq(kind_api_version(&kinds[i]), given)) {
            if (*given)
                warn(fix, "apiVersion: a %s is in '%s', not in '%s'", kinds[i].name,
                     kind_api_version(&kinds[i]), given);
            else
                warn(fix, "apiVersion: missing, taken as '%s'", kind_api_version(&kinds[i]));
            json_set_string(fix->arena, doc, "apiVersion", kind_api_version(&kinds[i]));
        }
        return;
    }
}

static void fix_key(const struct fix *fix, struct json *object, const char *path, const char *wrong,
                    const char *right)
{
    struct json *value = json_get(object, wrong);

    if (!value)
        return;
    if (json_get(object, right)) {
        warn(fix, "%s.%s: ignored, since '%s' is there too", path, wrong, right);
    } else {
        struct json moved = *value;

        warn(fix, "%s.%s: taken as '%s'", path, wrong, right);
        json_set(fix->arena, object, right, moved);
    }
    json_remove(object, wrong);
}

/* Numbers and booleans become the text they were written as. */
static void fix_text(const struct fix *fix, struct json *value, const char *path, const char *key)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!value || json_is(value, JSON_STRING) || json_is(value, JSON_NULL) || json_is(value, JSON_OBJECT) ||
        json_is(value, JSON_ARRAY))
        return;
    json_write(&text, value);
    warn(fix, "%s.%s: %s is put in quotes, since it must be text", path, key, text.data);
    *value = json_of_str(fix->arena, buf_view(&text));
}

static void fix_labels(const struct fix *fix, struct json *meta, const char *path)
{
    static const char *const maps[] = {"labels", "annotations"};

    for (size_t i = 0; i < ARRAY_LEN(maps); i++)
        JSON_EACH_MEMBER(json_get(meta, maps[i]), it)
            fix_text(fix, &it->value, arena_printf(fix->arena, "%s.%s", path, maps[i]), it->key);
}

static void fix_containers(const struct fix *fix, struct json *containers, const char *path)
{
    size_t i = 0;

    JSON_EACH(containers, it) {
        const char *at = arena_printf(fix->arena, "%s[%zu]", path, i++);
        struct json *resources;

        fix_key(fix, it, at, "resource", "resources");
        resources = json_get(it, "resources");
        fix_key(fix, resources, arena_printf(fix->arena, "%s.resources", at), "request", "requests");
        fix_key(fix, resources, arena_printf(fix->arena, "%s.resources", at), "limit", "limits");
        JSON_EACH(json_get(it, "env"), env)
            fix_text(fix, json_get(env, "value"), arena_printf(fix->arena, "%s.env", at),
                     json_string_or(json_get(env, "name"), "value"));
    }
}

static void fix_pod_spec(const struct fix *fix, struct json *spec, const char *path)
{
    fix_containers(fix, json_get(spec, "containers"), arena_printf(fix->arena, "%s.containers", path));
    fix_containers(fix, json_get(spec, "initContainers"),
                   arena_printf(fix->arena, "%s.initContainers", path));
}

static void fix_template(const struct fix *fix, struct json *template)
{
    fix_labels(fix, json_get(template, "metadata"), "spec.template.metadata");
    fix_pod_spec(fix, json_get(template, "spec"), "spec.template.spec");
}

static void fix_job(const struct fix *fix, struct json *doc)
{
    struct json *spec = json_at(doc, "spec.template.spec");

    fix_template(fix, json_at(doc, "spec.template"));
    if (!json_is(spec, JSON_OBJECT))
        return;
    if (!json_get(spec, "restartPolicy")) {
        warn(fix, "spec.template.spec.restartPolicy: missing, taken as 'Never'");
        json_set_string(fix->arena, spec, "restartPolicy", "Never");
    } else if (streq(json_get_string(spec, "restartPolicy"), "Always")) {
        warn(fix, "spec.template.spec.restartPolicy: a Job ends, so 'Always' is taken as 'OnFailure'");
        json_set_string(fix->arena, spec, "restartPolicy", "OnFailure");
    }
}

void lenient_fix(struct arena *arena, struct json *doc, struct json *warnings)
{
    struct fix fix = {arena, warnings};

    if (!json_is(doc, JSON_OBJECT))
        return;
    fix_api_version(&fix, doc);
    fix_labels(&fix, json_get(doc, "metadata"), "metadata");
    if (streq(json_get_string(doc, "kind"), "Job"))
        fix_job(&fix, doc);
    else if (streq(json_get_string(doc, "kind"), "Pod"))
        fix_pod_spec(&fix, json_get(doc, "spec"), "spec");
}

void lenient_fix_patch(struct arena *arena, struct json *patch, struct json *warnings)
{
    struct fix fix = {arena, warnings};

    if (!json_is(patch, JSON_OBJECT))
        return;
    if (streq(json_get_string(patch, "apiVersion"), "v1"))
        json_remove(patch, "apiVersion");
    fix_labels(&fix, json_get(patch, "metadata"), "metadata");
    fix_template(&fix, json_at(patch, "spec.template"));
}

static bool is_blank(struct str line)
{
    line = str_trim(line);
    return line.len == 0 || line.s[0] == '#' || (line.len == 1 && line.s[0] == '\r');
}

void lenient_separators(struct str text, struct arena *arena, struct json *warnings)
{
    struct fix fix = {arena, warnings};
    int line_number = 0, opened = 0;
    bool content = true; /* what stands before the first separator may be empty */
    struct str line;

    while (str_split(&text, '\n', &line)) {
        line_number++;
        if (str_starts(line, "---")) {
            if (!content)
                warn(&fix, "line %d: nothing follows this '---', so it is ignored", opened);
            opened = line_number;
            content = !is_blank((struct str){line.s + 3, line.len - 3});
        } else if (!is_blank(line)) {
            content = true;
        }
    }
    if (!content)
        warn(&fix, "line %d: nothing follows this '---', so it is ignored", opened);
}
