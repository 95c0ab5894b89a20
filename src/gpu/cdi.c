/* cdi - see cdi.h. Trees of all files stay in one arena; names are sorted, so that a lookup is a search. */
#include "gpu/cdi.h"

#include "base/file.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "gpu/cdi_edits.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>

struct spec {
    const char *path;
    const struct json *edits; /* NULL: none */
};

struct device {
    const char *name; /* vendor/class=name */
    size_t spec;
    int folder; /* later ones win */
    bool twice;
    const struct json *edits;
};

struct cdi {
    struct arena arena;
    VEC(struct spec) specs;
    VEC(struct device) devices; /* sorted by name after loading */
    struct buf warnings;
};

static struct cdi *cdi_new(void)
{
    return NEW(struct cdi);
}

void cdi_free(struct cdi *cdi)
{
    if (!cdi)
        return;
    arena_done(&cdi->arena);
    vec_done(&cdi->specs);
    vec_done(&cdi->devices);
    buf_done(&cdi->warnings);
    free(cdi);
}

/* ---- names ---- */

static bool is_word(struct str s, const char *more)
{
    if (!s.len || s.len > 63 || !isalnum((unsigned char)s.s[0]) || !isalnum((unsigned char)s.s[s.len - 1]))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.s[i]) && (!s.s[i] || !strchr(more, s.s[i])))
            return false;
    return true;
}

/* "vendor.com/class" */
static bool is_kind(struct str kind)
{
    struct str vendor;

    return str_split(&kind, '/', &vendor) && is_word(vendor, "._-") && isalpha((unsigned char)vendor.s[0]) &&
           is_word(kind, "._-") && isalpha((unsigned char)kind.s[0]);
}

static bool is_device_name(struct str name)
{
    return is_word(name, "._:-");
}

static bool is_qualified(const char *name)
{
    struct str rest = str_from(name), kind;

    return str_split(&rest, '=', &kind) && is_kind(kind) && is_device_name(rest);
}

/* ---- reading a file ---- */

static int check_edits(const struct json *edits, struct err *err)
{
    CLEANUP(arena_done) struct arena scratch = {0};
    struct cdi_edits all = {0};

    return cdi_edits_add(&scratch, &all, edits, false, err);
}

static int add_device(struct cdi *cdi, const struct json *item, const char *kind, int folder, struct err *err)
{
    const struct json *name = json_get(item, "name"), *edits = json_get(item, "containerEdits");
    struct device d = {.spec = cdi->specs.len, .folder = folder, .edits = edits};

    if (!name || name->type != JSON_STRING || !is_device_name((struct str){name->string, name->len}))
        return err_set(err, ERR_INVALID, "a device has no proper name");
    if (check_edits(edits, err) < 0)
        return err_prefix(err, "device '%s'", name->string);
    if (cdi->devices.len >= CDI_DEVICES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d devices", CDI_DEVICES_MAX);
    d.name = arena_printf(&cdi->arena, "%s=%s", kind, name->string);
    vec_push(&cdi->devices, d);
    return 0;
}

static int read_tree(struct str text, struct arena *arena, struct json **ret, struct err *err)
{
    struct str start = text;

    while (start.len && isspace((unsigned char)start.s[0])) {
        start.s++;
        start.len--;
    }
    if (start.len && start.s[0] == '{')
        return json_parse(text, arena, ret, NULL, err);
    return yaml_parse_one(text, arena, ret, err);
}

/* Adds the file's devices, all or none. */
static int add_file(struct cdi *cdi, struct str text, const char *path, int folder, struct err *err)
{
    size_t before = cdi->devices.len;
    const struct json *edits, *devices;
    struct json *tree = NULL;
    const char *kind;

    if (read_tree(text, &cdi->arena, &tree, err) < 0)
        return -1;
    if (!json_get_string(tree, "cdiVersion"))
        return err_set(err, ERR_INVALID, "cdiVersion is missing");
    kind = json_get_string(tree, "kind");
    if (!kind || !is_kind(str_from(kind)))
        return err_set(err, ERR_INVALID, "kind must be VENDOR/CLASS");
    edits = json_get(tree, "containerEdits");
    if (check_edits(edits, err) < 0)
        return -1;
    devices = json_get(tree, "devices");
    if (!devices || devices->type != JSON_ARRAY || !devices->len)
        return err_set(err, ERR_INVALID, "devices must be a list of at least one");
    JSON_EACH(devices, it)
        if (add_device(cdi, it, kind, folder, err) < 0) {
            cdi->devices.len = before;
            return -1;
        }
    vec_push(&cdi->specs, (struct spec){arena_strdup(&cdi->arena, path), edits});
    return 0;
}

/* ---- all files ---- */

static int by_name(const void *a, const void *b)
{
    const struct device *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : y->folder - x->folder;
}

/* Leaves one device of each name. */
static void settle(struct cdi *cdi)
{
    struct device *v = cdi->devices.v, *last = v;

    if (!v || !cdi->devices.len)
        return;
    qsort(v, cdi->devices.len, sizeof(*v), by_name);
    for (const struct device *d = v + 1; d < v + cdi->devices.len; d++) {
        if (!streq(last->name, d->name)) {
            *++last = *d;
        } else if (last->folder == d->folder && !last->twice) {
            last->twice = true;
            buf_printf(&cdi->warnings, "%s is defined twice: in %s and %s\n", d->name,
                       cdi->specs.v[last->spec].path, cdi->specs.v[d->spec].path);
        }
    }
    cdi->devices.len = (size_t)(last - v) + 1;
}

static int is_spec(const struct dirent *e)
{
    return e->d_name[0] != '.' && (ends_with(e->d_name, ".json") || ends_with(e->d_name, ".yaml"));
}

static void load_folder(struct cdi *cdi, const char *folder, int number)
{
    struct dirent **names = NULL;
    int count = scandir(folder, &names, is_spec, alphasort);

    if (count < 0 && errno != ENOENT)
        buf_printf(&cdi->warnings, "%s: %s\n", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", folder, names[i]->d_name);
        CLEANUP(buf_done) struct buf text = {0};
        struct err err = {0};

        free(names[i]);
        if (cdi->specs.len >= CDI_FILES_MAX)
            buf_printf(&cdi->warnings, "%s: more than %d files\n", path, CDI_FILES_MAX);
        else if (file_read(path, CDI_FILE_MAX, &text, &err) < 0)
            buf_printf(&cdi->warnings, "%s\n", err.msg);
        else if (add_file(cdi, buf_view(&text), path, number, &err) < 0)
            buf_printf(&cdi->warnings, "%s: %s\n", path, err.msg);
    }
    free(names);
}

int cdi_load(const char *const *folders, struct cdi **ret, struct err *err)
{
    static const char *const usual[] = {"/etc/cdi", "/var/run/cdi", NULL};
    CLEANUP(cdi_free) struct cdi *cdi = cdi_new();
    int number = 0;

    (void)err;
    for (const char *const *f = folders ? folders : usual; *f; f++)
        load_folder(cdi, *f, number++);
    settle(cdi);
    *ret = TAKE_PTR(cdi);
    return 0;
}

int cdi_parse(struct str text, const char *path, struct cdi **ret, struct err *err)
{
    CLEANUP(cdi_free) struct cdi *cdi = cdi_new();

    if (add_file(cdi, text, path, 0, err) < 0)
        return -1;
    settle(cdi);
    *ret = TAKE_PTR(cdi);
    return 0;
}

size_t cdi_count(const struct cdi *cdi)
{
    return cdi->devices.len;
}

const char *cdi_name(const struct cdi *cdi, size_t i)
{
    return i < cdi->devices.len ? cdi->devices.v[i].name : NULL;
}

const char *cdi_warnings(const struct cdi *cdi)
{
    return cdi->warnings.len ? cdi->warnings.data : "";
}

static const struct device *find(const struct cdi *cdi, const char *name)
{
    size_t low = 0, high = cdi->devices.len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(cdi->devices.v[mid].name, name);

        if (order == 0)
            return &cdi->devices.v[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

bool cdi_has(const struct cdi *cdi, const char *name)
{
    return find(cdi, name) != NULL;
}

static int resolve_one(const struct cdi *cdi, const char *name, bool *spec_done, struct arena *arena,
                       struct cdi_edits *edits, struct err *err)
{
    const struct device *d = find(cdi, name);
    const struct spec *spec;

    if (!is_qualified(name))
        return err_set(err, ERR_INVALID, "'%s' is no CDI device (like nvidia.com/gpu=0)", name);
    if (!d)
        return err_set(err, ERR_NOT_FOUND, "no CDI file defines %s", name);
    if (d->twice)
        return err_set(err, ERR_CONFLICT, "several CDI files define %s", name);
    spec = &cdi->specs.v[d->spec];
    if ((!spec_done[d->spec] && cdi_edits_add(arena, edits, spec->edits, true, err) < 0) ||
        cdi_edits_add(arena, edits, d->edits, true, err) < 0)
        return err_prefix(err, "%s (%s)", name, spec->path);
    spec_done[d->spec] = true;
    return 0;
}

int cdi_resolve(const struct cdi *cdi, const char *const *names, size_t names_len, struct arena *arena,
                struct cdi_edits *edits, struct err *err)
{
    CLEANUP(free) bool *spec_done = mem_zalloc(cdi->specs.len + 1);

    for (size_t i = 0; i < names_len; i++)
        if (resolve_one(cdi, names[i], spec_done, arena, edits, err) < 0)
            return -1;
    return 0;
}
