/* Registries are "HOST=OPTION+OPTION": a colon is in most hosts, so it cannot separate them. */
#include "daemon/config_images.h"

#include "base/mem.h"
#include "image/image.h"

#include <stdio.h>

#define REGISTRIES_MAX 100

static void clear(struct daemon_config *config)
{
    VEC_EACH(&config->registries, it) {
        free(it->host);
        free(it->ca_file);
        free(it->mirror);
    }
    config->registries.len = 0;
}

/* "lab:5000" or "lab:5000/hub": what an image's name may begin with. */
static bool is_place(struct str text, bool with_path)
{
    CLEANUP(buf_done) struct buf name = {0};
    struct image_ref ref;

    buf_str(&name, text);
    buf_puts(&name, "/x:1");
    if (image_ref_parse(buf_view(&name), &ref, NULL) < 0)
        return false;
    if (streq(ref.host, "docker.io"))
        return str_starts(text, "docker.io");
    return with_path || streq(ref.path, "x");
}

static int set_option(struct config_registry *registry, struct str option, struct err *err)
{
    struct str value = option, key;

    str_split(&value, ':', &key);
    if (str_is(option, "insecure")) {
        registry->insecure = true;
    } else if (str_is(option, "mirror-insecure")) {
        registry->mirror_insecure = true;
    } else if (str_is(key, "ca") && value.len > 0 && value.s[0] == '/') {
        free(registry->ca_file);
        registry->ca_file = mem_strndup(value.s, value.len);
    } else if (str_is(key, "mirror") && value.len > 0 && is_place(value, true)) {
        free(registry->mirror);
        registry->mirror = mem_strndup(value.s, value.len);
    } else {
        return err_set(err, ERR_INVALID,
                       "'%.*s' is none of insecure, ca:/FILE, mirror:HOST and mirror-insecure",
                       STR_ARG(option));
    }
    return 0;
}

int config_set_registries(struct daemon_config *config, const char *text, struct err *err)
{
    struct str rest = str_from(text), options, host, option;

    clear(config);
    while (rest.len > 0 && str_split(&rest, ',', &options)) {
        struct config_registry registry = {0};

        options = str_trim(options);
        str_split(&options, '=', &host);
        if (!is_place(host, false))
            return err_set(err, ERR_INVALID, "'%.*s' is no registry: write HOST or HOST:PORT", STR_ARG(host));
        if (config->registries.len >= REGISTRIES_MAX)
            return err_set(err, ERR_LIMIT, "more than %d registries", REGISTRIES_MAX);
        registry.host = mem_strndup(host.s, host.len);
        vec_push(&config->registries, registry);
        while (options.s && options.len > 0 && str_split(&options, '+', &option))
            if (set_option(&config->registries.v[config->registries.len - 1], str_trim(option), err) < 0)
                return -1;
    }
    return 0;
}

int config_set_push_to(struct daemon_config *config, const char *text, struct err *err)
{
    if (!is_place(str_from(text), true))
        return err_set(err, ERR_INVALID, "'%s' is no place to push to: write HOST or HOST/PATH", text);
    free(config->push_to);
    config->push_to = mem_strdup(text);
    return 0;
}

static int set_number(int *member, const char *text, int low, int high, struct err *err)
{
    int64_t n;

    if (streq(text, "off")) {
        *member = -1;
        return 0;
    }
    if (!str_to_int(str_from(text), &n) || n < low || n > high)
        return err_set(err, ERR_INVALID, "must be %d to %d, or off, not '%s'", low, high, text);
    *member = (int)n;
    return 0;
}

int config_set_image_days(struct daemon_config *config, const char *text, struct err *err)
{
    return set_number(&config->image_days, text, 1, 36500, err);
}

int config_set_image_stall(struct daemon_config *config, const char *text, struct err *err)
{
    int64_t n;

    if (!str_to_int(str_from(text), &n) || n < 1 || n > 86400)
        return err_set(err, ERR_INVALID, "must be 1 to 86400 seconds, not '%s'", text);
    config->image_stall_sec = (int)n;
    return 0;
}

int config_set_image_disk(struct daemon_config *config, const char *text, struct err *err)
{
    return set_number(&config->image_disk_percent, text, 20, 99, err);
}

void config_images_done(struct daemon_config *config)
{
    clear(config);
    vec_done(&config->registries);
    free(config->push_to);
}
