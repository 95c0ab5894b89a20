/* ref.c - image references, by the grammar of Docker's "distribution" library: NAME[:TAG][@DIGEST], where the
 * first part of NAME is a host when it has a dot, a colon, an upper-case letter or is "localhost". What
 * passes here consists of letters, digits and ":/.-_@[]" only and begins with none of them but '[', so it can
 * stand in an argument, a path or a log as it is. */
#include "image/image.h"
#include "image/parse.h"

#include <ctype.h>
#include <stdio.h>

#define HOST_DEFAULT "docker.io"
#define PATH_DEFAULT "library/"

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_hex(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!((s.s[i] >= '0' && s.s[i] <= '9') || (s.s[i] >= 'a' && s.s[i] <= 'f')))
            return false;
    return true;
}

bool image_digest_valid(struct str text)
{
    return text.len == IMAGE_DIGEST_MAX - 1 && str_starts(text, "sha256:") &&
           is_hex((struct str){text.s + 7, 64});
}

static bool valid_port(struct str port)
{
    uint64_t n;

    return port.len > 0 && port.len <= 5 && str_to_uint(port, &n) && n >= 1 && n <= 65535;
}

static bool valid_ipv6(struct str s)
{
    if (s.len < 2 || s.len > 45)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!isxdigit((unsigned char)s.s[i]) && s.s[i] != ':' && s.s[i] != '.')
            return false;
    return memchr(s.s, ':', s.len) != NULL;
}

static bool valid_host_name(struct str name)
{
    struct str label;

    if (name.len == 0 || name.s[name.len - 1] == '.')
        return false;
    while (str_split(&name, '.', &label)) {
        if (label.len == 0 || label.len > 63 || label.s[0] == '-' || label.s[label.len - 1] == '-')
            return false;
        for (size_t i = 0; i < label.len; i++)
            if (!is_alnum(label.s[i]) && label.s[i] != '-')
                return false;
    }
    return true;
}

static bool valid_host(struct str host)
{
    const char *end;
    struct str name = host;

    if (host.len > 0 && host.s[0] == '[') {
        end = memchr(host.s, ']', host.len);
        if (!end || !valid_ipv6((struct str){host.s + 1, (size_t)(end - host.s) - 1}))
            return false;
        name = (struct str){end + 1, host.len - (size_t)(end - host.s) - 1};
        return name.len == 0 || (name.s[0] == ':' && valid_port((struct str){name.s + 1, name.len - 1}));
    }
    end = memchr(host.s, ':', host.len);
    if (end) {
        name.len = (size_t)(end - host.s);
        if (!valid_port((struct str){end + 1, host.len - name.len - 1}))
            return false;
    }
    return valid_host_name(name);
}

/* [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)* */
static bool valid_component(struct str part)
{
    size_t i = 0;

    if (part.len == 0 || !is_lower_alnum(part.s[0]) || !is_lower_alnum(part.s[part.len - 1]))
        return false;
    while (i < part.len) {
        size_t start = i;

        if (is_lower_alnum(part.s[i])) {
            i++;
            continue;
        }
        while (i < part.len && part.s[i] == part.s[start])
            i++;
        if (part.s[start] == '-' || (part.s[start] == '.' && i - start == 1) ||
            (part.s[start] == '_' && i - start <= 2)) {
            if (i < part.len && !is_lower_alnum(part.s[i]))
                return false;
            continue;
        }
        return false;
    }
    return true;
}

static bool valid_path(struct str path)
{
    struct str part;

    if (path.len == 0 || path.s[path.len - 1] == '/')
        return false;
    while (str_split(&path, '/', &part))
        if (!valid_component(part))
            return false;
    return true;
}

static bool valid_tag(struct str tag)
{
    if (tag.len == 0 || tag.len > 128 || tag.s[0] == '.' || tag.s[0] == '-')
        return false;
    for (size_t i = 0; i < tag.len; i++)
        if (!is_alnum(tag.s[i]) && !strchr("_.-", tag.s[i]))
            return false;
    return true;
}

static bool looks_like_host(struct str first)
{
    if (str_is(first, "localhost") || memchr(first.s, '.', first.len) || memchr(first.s, ':', first.len))
        return true;
    for (size_t i = 0; i < first.len; i++)
        if (first.s[i] >= 'A' && first.s[i] <= 'Z')
            return true;
    return false;
}

static void put(char *to, size_t size, struct str text)
{
    snprintf(to, size, "%.*s", STR_ARG(text));
}

/* Takes "@DIGEST" and ":TAG" off the end. */
static int take_suffixes(struct str *text, struct image_ref *ref, struct err *err)
{
    const char *at = memchr(text->s, '@', text->len);
    const char *slash, *colon;
    struct str part;

    if (at) {
        part = (struct str){at + 1, text->len - (size_t)(at - text->s) - 1};
        if (!image_digest_valid(part))
            return err_set(err, ERR_INVALID, "a digest is 'sha256:' and 64 lower-case hex digits");
        put(ref->digest, sizeof(ref->digest), part);
        text->len = (size_t)(at - text->s);
    }
    slash = memrchr(text->s, '/', text->len);
    colon = memrchr(text->s, ':', text->len);
    if (colon && (!slash || colon > slash)) {
        part = (struct str){colon + 1, text->len - (size_t)(colon - text->s) - 1};
        if (!valid_tag(part))
            return err_set(err, ERR_INVALID, "a tag is up to 128 letters, digits, '_', '.', '-'");
        put(ref->tag, sizeof(ref->tag), part);
        text->len = (size_t)(colon - text->s);
    }
    return 0;
}

static int take_name(struct str name, struct image_ref *ref, struct err *err)
{
    const char *slash = memchr(name.s, '/', name.len);
    struct str host = STR(HOST_DEFAULT), path = name;
    const char *prefix = "";

    if (slash && looks_like_host((struct str){name.s, (size_t)(slash - name.s)})) {
        host = (struct str){name.s, (size_t)(slash - name.s)};
        path = (struct str){slash + 1, name.len - host.len - 1};
        if (!valid_host(host))
            return err_set(err, ERR_INVALID, "'%.*s' is no registry host", STR_ARG(host));
        if (str_is(host, "index.docker.io") || str_is(host, "registry-1.docker.io"))
            host = STR(HOST_DEFAULT);
    } else if (name.len == 64 && is_hex(name)) {
        return err_set(err, ERR_INVALID, "64 hex digits are an id, not a name");
    }
    if (!valid_path(path))
        return err_set(err, ERR_INVALID,
                       "a name is lower-case letters and digits, with single '.', '_', '-' and '/' between");
    if (str_is(host, HOST_DEFAULT) && !memchr(path.s, '/', path.len))
        prefix = PATH_DEFAULT;
    if (host.len + 1 + strlen(prefix) + path.len > IMAGE_REPO_MAX)
        return err_set(err, ERR_INVALID, "the name is longer than %d characters", IMAGE_REPO_MAX);
    put(ref->host, sizeof(ref->host), host);
    snprintf(ref->path, sizeof(ref->path), "%s%.*s", prefix, STR_ARG(path));
    return 0;
}

int image_ref_parse(struct str text, struct image_ref *ret, struct err *err)
{
    struct image_ref ref = {0};
    struct str rest = text;

    if (text.len == 0)
        return err_set(err, ERR_INVALID, "the image has no name");
    if (text.len >= IMAGE_REF_MAX)
        return err_set(err, ERR_INVALID, "the image's name is longer than %d characters", IMAGE_REF_MAX - 1);
    if (memchr(text.s, '\0', text.len) || !utf8_valid(text))
        return err_set(err, ERR_INVALID, "the image's name is no text");
    if (take_suffixes(&rest, &ref, err) < 0 || take_name(rest, &ref, err) < 0)
        return err_prefix(err, "image '%.*s'", STR_ARG(text));
    if (!ref.tag[0] && !ref.digest[0])
        put(ref.tag, sizeof(ref.tag), STR("latest"));
    *ret = ref;
    return 0;
}

void image_ref_repo(const struct image_ref *ref, char text[IMAGE_REF_MAX])
{
    snprintf(text, IMAGE_REF_MAX, "%s/%s", ref->host, ref->path);
}

void image_ref_format(const struct image_ref *ref, char text[IMAGE_REF_MAX])
{
    snprintf(text, IMAGE_REF_MAX, "%s/%s%c%s", ref->host, ref->path, ref->digest[0] ? '@' : ':',
             ref->digest[0] ? ref->digest : ref->tag);
}

enum image_policy image_policy_default(const struct image_ref *ref)
{
    return !ref->digest[0] && streq(ref->tag, "latest") ? IMAGE_ALWAYS : IMAGE_IF_NOT_PRESENT;
}

bool image_policy_parse(struct str text, enum image_policy *ret)
{
    static const char *const names[] = {
        [IMAGE_IF_NOT_PRESENT] = "IfNotPresent",
        [IMAGE_ALWAYS] = "Always",
        [IMAGE_NEVER] = "Never",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_is(text, names[i])) {
            *ret = (enum image_policy)i;
            return true;
        }
    }
    return false;
}
