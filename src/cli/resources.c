/* Kinds are asked of the daemon (aggregated discovery, two requests), so a new kind needs no new berth. */
#include "cli/cli.h"
#include "objects/lenient.h"

#define DISCOVERY "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

/* Calls match for each resource of each version until it says true. */
typedef bool (*resource_match)(const struct resource *resource, const struct json *entry, const void *want);

static int search(struct cli *cli, const char *root, resource_match match, const void *want,
                  struct resource *ret, bool *found)
{
    struct reply reply;
    int code = cli_call(cli, &(struct call){.method = "GET", .target = root, .accept = DISCOVERY}, &reply);

    if (code != CLI_OK)
        return code;
    JSON_EACH(json_get(reply.doc, "items"), group)
        JSON_EACH(json_get(group, "versions"), version)
            JSON_EACH(json_get(version, "resources"), entry) {
                struct resource resource = {
                    .group = json_string_or(json_at(group, "metadata.name"), ""),
                    .version = json_string_or(json_get(version, "version"), "v1"),
                    .plural = json_string_or(json_get(entry, "resource"), ""),
                    .singular = json_string_or(json_get(entry, "singularResource"), ""),
                    .kind = json_string_or(json_at(entry, "responseKind.kind"), ""),
                    .namespaced = streq(json_get_string(entry, "scope"), "Namespaced"),
                };

                if (streq(resource.plural, LENIENT_JOBS))
                    continue; /* the same by another name, for kubectl */
                if (match(&resource, entry, want)) {
                    *ret = resource;
                    *found = true;
                    return CLI_OK;
                }
            }
    return CLI_OK;
}

static int search_all(struct cli *cli, resource_match match, const void *want, struct resource *ret,
                      bool *found)
{
    int code = search(cli, "/api", match, want, ret, found);

    return code == CLI_OK && !*found ? search(cli, "/apis", match, want, ret, found) : code;
}

static bool match_word(const struct resource *resource, const struct json *entry, const void *want)
{
    const char *word = want, *dot = strchr(word, '.');
    struct str name = {word, dot ? (size_t)(dot - word) : strlen(word)};

    /* "jobs.batch" names the group; "jobs.v1.batch" the version, too, of which there is one only */
    if (dot && !streq(dot + 1, resource->group) && !(dot[1] == 'v' && ends_with(dot, resource->group)))
        return false;
    if (str_ieq(name, str_from(resource->plural)) || str_ieq(name, str_from(resource->singular)) ||
        str_ieq(name, str_from(resource->kind)))
        return true;
    JSON_EACH(json_get(entry, "shortNames"), it)
        if (str_ieq(name, json_str(it)))
            return true;
    return false;
}

int resource_find(struct cli *cli, const char *word, struct resource *ret)
{
    bool found = false;
    int code = search_all(cli, match_word, word, ret, &found);

    if (code == CLI_OK && !found)
        return cli_fail(CLI_NOT_FOUND, "the daemon has no kind '%s'", word);
    return code;
}

struct wanted_kind {
    const char *api_version, *kind; /* api_version NULL: any */
};

static bool match_kind(const struct resource *resource, const struct json *entry, const void *want)
{
    const struct wanted_kind *wanted = want;
    char api_version[300];

    (void)entry;
    snprintf(api_version, sizeof(api_version), "%s%s%s", resource->group, resource->group[0] ? "/" : "",
             resource->version);
    return streq(resource->kind, wanted->kind) &&
           (!wanted->api_version || streq(api_version, wanted->api_version));
}

int resource_of(struct cli *cli, const char *api_version, const char *kind, struct resource *ret)
{
    struct wanted_kind wanted = {api_version, kind};
    bool found = false;
    int code = search_all(cli, match_kind, &wanted, ret, &found);

    if (code == CLI_OK && !found) {
        wanted.api_version = NULL;
        code = search_all(cli, match_kind, &wanted, ret, &found);
    }
    if (code == CLI_OK && !found)
        return cli_fail(CLI_NOT_FOUND, "the daemon has no kind %s in %s", kind, api_version);
    return code;
}

const char *resource_path(struct cli *cli, const struct resource *resource, const char *ns, const char *name)
{
    CLEANUP(buf_done) struct buf path = {0};

    if (resource->group[0])
        buf_printf(&path, "/apis/%s/%s", resource->group, resource->version);
    else
        buf_printf(&path, "/api/%s", resource->version);
    if (resource->namespaced && ns) {
        buf_puts(&path, "/namespaces/");
        buf_url_encode(&path, str_from(ns));
    }
    buf_printf(&path, "/%s", resource->plural);
    if (name) {
        buf_putc(&path, '/');
        buf_url_encode(&path, str_from(name));
    }
    return arena_strndup(&cli->arena, path.data, path.len);
}

const char *resource_title(struct cli *cli, const struct resource *resource)
{
    const char *name = resource->singular[0] ? resource->singular : resource->plural;

    return resource->group[0] ? arena_printf(&cli->arena, "%s.%s", name, resource->group) : name;
}
