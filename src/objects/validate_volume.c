/* Volumes of pods, and what persistent volumes share with them. */
#include "objects/rules.h"

#define FILE_MODE_MSG "must be a number between 0 and 0777 (octal), both inclusive"

static void check_file_mode(struct field_errors *errors, const char *path, const char *key,
                            const struct json *source)
{
    const struct json *mode = json_get(source, key);
    int64_t n = json_int(mode, 0);

    if (n < 0 || n > 0777)
        field_invalid(errors, AT(errors, "%s.%s", path, key), mode, "%s", FILE_MODE_MSG);
}

static void check_items(struct field_errors *errors, const char *path, const struct json *source)
{
    size_t i = 0;

    JSON_EACH(json_get(source, "items"), item) {
        const char *at = AT(errors, "%s.items[%zu]", path, i++);

        check_required(errors, AT(errors, "%s.key", at), json_get(item, "key"));
        check_required(errors, AT(errors, "%s.path", at), json_get(item, "path"));
        check_item_path(errors, AT(errors, "%s.path", at), json_get(item, "path"));
        check_file_mode(errors, at, "mode", item);
    }
}

static void check_empty_dir(struct field_errors *errors, const char *path, const struct json *source)
{
    struct quantity limit;

    if (quantity_from_json(json_get(source, "sizeLimit"), &limit) && limit.nanos < 0)
        field_forbidden(errors, AT(errors, "%s.sizeLimit", path),
                        "SizeLimit field must be a valid resource quantity");
}

static void check_host_path(struct field_errors *errors, const char *path, const struct json *source)
{
    static const char *const types[] = {
        "",     "BlockDevice",  "CharDevice", "Directory", "DirectoryOrCreate",
        "File", "FileOrCreate", "Socket",     NULL};
    const struct json *type = json_get(source, "type");

    if (!check_required(errors, AT(errors, "%s.path", path), json_get(source, "path")))
        return;
    check_no_backsteps(errors, AT(errors, "%s.path", path), json_get(source, "path"));
    if (json_present(type))
        check_one_of(errors, AT(errors, "%s.type", path), type, types);
}

static void check_config_map(struct field_errors *errors, const char *path, const struct json *source)
{
    check_required(errors, AT(errors, "%s.name", path), json_get(source, "name"));
    check_file_mode(errors, path, "defaultMode", source);
    check_items(errors, path, source);
}

static void check_secret(struct field_errors *errors, const char *path, const struct json *source)
{
    check_required(errors, AT(errors, "%s.secretName", path), json_get(source, "secretName"));
    check_file_mode(errors, path, "defaultMode", source);
    check_items(errors, path, source);
}

static void check_claim(struct field_errors *errors, const char *path, const struct json *source)
{
    check_required(errors, AT(errors, "%s.claimName", path), json_get(source, "claimName"));
}

static void check_nfs(struct field_errors *errors, const char *path, const struct json *source)
{
    const struct json *where = json_get(source, "path"), empty = json_of_string_ref("");

    check_required(errors, AT(errors, "%s.server", path), json_get(source, "server"));
    check_required(errors, AT(errors, "%s.path", path), where);
    if (!starts_with(json_string_or(where, ""), "/"))
        field_invalid(errors, AT(errors, "%s.path", path), where ? where : &empty,
                      "must be an absolute path");
}

/* Kubernetes names the source, not the item. */
static void check_downward_items(struct field_errors *errors, const char *path, const struct json *source)
{
    const struct json both = json_of_string_ref("resource");

    JSON_EACH(json_get(source, "items"), item) {
        const struct json *field = json_get(item, "fieldRef"), *resource = json_get(item, "resourceFieldRef");

        check_required(errors, AT(errors, "%s.path", path), json_get(item, "path"));
        check_item_path(errors, AT(errors, "%s.path", path), json_get(item, "path"));
        if (json_present(field) && json_present(resource))
            field_invalid(errors, path, &both,
                          "fieldRef and resourceFieldRef can not be specified simultaneously");
        else if (!json_present(field) && !json_present(resource))
            field_required(errors, path, "one of fieldRef and resourceFieldRef is required");
        check_file_mode(errors, path, "mode", item);
    }
}

static void check_downward(struct field_errors *errors, const char *path, const struct json *source)
{
    check_file_mode(errors, path, "defaultMode", source);
    check_downward_items(errors, path, source);
}

static void check_projected(struct field_errors *errors, const char *path, const struct json *source)
{
    static const char *const kinds_of_source[] = {"secret", "configMap", "downwardAPI", "serviceAccountToken",
                                                  "clusterTrustBundle"};
    size_t i = 0;

    check_file_mode(errors, path, "defaultMode", source);
    JSON_EACH(json_get(source, "sources"), part) {
        const char *at = AT(errors, "%s.sources[%zu]", path, i++);
        int found = 0;

        for (size_t k = 0; k < ARRAY_LEN(kinds_of_source); k++)
            found += json_present(json_get(part, kinds_of_source[k]));
        if (found > 1)
            field_forbidden(errors, at, "may not specify more than 1 volume type per source");
        for (size_t k = 0; k < 2; k++) {
            const struct json *named = json_get(part, kinds_of_source[k]);
            const char *inner = AT(errors, "%s.%s", at, kinds_of_source[k]);

            if (!json_present(named))
                continue;
            check_required(errors, AT(errors, "%s.name", inner), json_get(named, "name"));
            check_items(errors, inner, named);
        }
        if (json_present(json_get(part, "downwardAPI")))
            check_downward_items(errors, AT(errors, "%s.downwardAPI", at), json_get(part, "downwardAPI"));
    }
}

/* Sources that need more than being the only one. */
static const struct {
    const char *key;
    void (*check)(struct field_errors *errors, const char *path, const struct json *source);
} sources[] = {
    {"emptyDir", check_empty_dir},
    {"hostPath", check_host_path},
    {"secret", check_secret},
    {"nfs", check_nfs},
    {"persistentVolumeClaim", check_claim},
    {"downwardAPI", check_downward},
    {"configMap", check_config_map},
    {"projected", check_projected},
};

void check_volume_source(struct field_errors *errors, const char *path, const struct json *volume,
                         const char *const *others)
{
    int found = 0;

    JSON_EACH_MEMBER(volume, member) {
        bool other = false;

        for (const char *const *name = others; *name; name++)
            other |= streq(member->key, *name);
        if (other || !json_present(&member->value))
            continue;
        if (found++) {
            field_forbidden(errors, AT(errors, "%s.%s", path, member->key),
                            "may not specify more than 1 volume type");
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(sources); i++)
            if (streq(member->key, sources[i].key))
                sources[i].check(errors, AT(errors, "%s.%s", path, member->key), &member->value);
    }
    if (!found)
        field_required(errors, path, "must specify a volume type");
}

void check_volumes(struct pod_check *check)
{
    static const char *const others[] = {"name", NULL};
    struct field_errors *errors = check->errors;
    size_t i = 0;

    check->volumes = json_new_object(errors->arena);
    JSON_EACH(json_get(check->spec, "volumes"), volume) {
        const char *path = AT(errors, "%s.volumes[%zu]", check->path, i++);
        const char *name_path = AT(errors, "%s.name", path);
        const struct json *name = json_get(volume, "name");
        size_t before = errors->count;

        check_volume_source(errors, path, volume, others);
        if (check_required(errors, name_path, name))
            check_text(errors, name_path, name, rule_dns_label);
        if (json_get(check->volumes, json_string_or(name, "")))
            field_duplicate(errors, name_path, name);
        if (errors->count == before)
            json_set(errors->arena, check->volumes, json_string_or(name, ""), *volume);
    }
}
