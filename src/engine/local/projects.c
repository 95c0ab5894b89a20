#include "engine/local/projects.h"

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "projects"
#include "base/log.h"

#define RECORD     "projects.json"
#define RECORD_MAX (16 << 20)

struct projects {
    char *data_dir, *file;
    uint32_t first, last, next;
    struct prjquota *quota;
    struct map *ids;   /* name → number */
    struct map *taken; /* number, as text → anything */
};

/* Numbers are kept as pointers. */
static void *boxed(uint32_t id)
{
    return (void *)(uintptr_t)id; /* never 0 */
}

static uint32_t unboxed(const void *value)
{
    return (uint32_t)(uintptr_t)value;
}

#define ID_TEXT 12
static struct str id_key(uint32_t id, char text[ID_TEXT])
{
    snprintf(text, ID_TEXT, "%u", id);
    return str_from(text);
}

static void remember(struct projects *projects, struct str name, uint32_t id)
{
    char text[ID_TEXT];

    map_set(projects->ids, name, boxed(id));
    map_set(projects->taken, id_key(id, text), projects);
}

/* ---- the record ---- */

static int save(const struct projects *projects, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = json_new_object(&arena);
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(projects->ids, &at, &key, &value))
        json_set_str(&arena, doc, key, json_of_int(unboxed(value)));
    json_sort_members(doc);
    json_write_pretty(&text, doc, 1);
    buf_putc(&text, '\n');
    return file_write_atomic(projects->file, buf_view(&text), 0600, err);
}

/* One that cannot be read is as good as none: folders say their number themselves. */
static void load(struct projects *projects)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;
    struct err err = {0};

    if (access(projects->file, F_OK) < 0)
        return;
    if (file_read(projects->file, RECORD_MAX, &text, &err) < 0 ||
        json_parse(buf_view(&text), &arena, &doc, NULL, &err) < 0) {
        log_warn("'%s': %s", projects->file, err.msg);
        return;
    }
    JSON_EACH_MEMBER(doc, it) {
        int64_t id = json_int(&it->value, 0);

        if (id > 0 && id <= UINT32_MAX)
            remember(projects, (struct str){it->key, it->key_len}, (uint32_t)id);
    }
}

int projects_open(const struct projects_config *config, struct projects **ret, struct err *err)
{
    CLEANUP(projects_free) struct projects *projects = NEW(struct projects);

    projects->ids = map_new();
    projects->taken = map_new();
    if (prjquota_open(config->data_dir, config->calls, &projects->quota, err) < 0)
        return -1;
    projects->data_dir = mem_strdup(config->data_dir);
    projects->file = mem_printf("%s/" RECORD, config->data_dir);
    projects->first = projects->next = config->first ? config->first : PROJECTS_FIRST;
    projects->last = config->last ? config->last : PROJECTS_LAST;
    load(projects);
    projects_sweep(projects);
    *ret = TAKE_PTR(projects);
    return 0;
}

void projects_free(struct projects *projects)
{
    if (!projects)
        return;
    map_free(projects->ids);
    map_free(projects->taken);
    prjquota_free(projects->quota);
    free(projects->data_dir);
    free(projects->file);
    free(projects);
}

const struct prjquota *projects_quota(const struct projects *projects)
{
    return projects->quota;
}

/* ---- numbers ---- */

uint32_t projects_known(const struct projects *projects, const char *name)
{
    return unboxed(map_get(projects->ids, str_from(name)));
}

static bool in_use(const struct projects *projects, uint32_t id)
{
    struct prjquota_use use;
    char text[ID_TEXT];

    return map_get(projects->taken, id_key(id, text)) || prjquota_use(projects->quota, id, &use, NULL) < 0 ||
           use.bytes || use.limit || use.files;
}

/* From where the last one was found on: a number just freed is not the next to be used. */
static uint32_t find_free(struct projects *projects)
{
    uint32_t count = projects->last - projects->first + 1;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = projects->first + (projects->next - projects->first + i) % count;

        if (!in_use(projects, id)) {
            projects->next = id == projects->last ? projects->first : id + 1;
            return id;
        }
    }
    return 0;
}

/* What the folder itself says, where the record was lost. */
static uint32_t own_id(const struct projects *projects, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", projects->data_dir, name);
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char text[ID_TEXT];
    uint32_t id;

    if (fd < 0 || prjquota_id_of(projects->quota, fd, &id, NULL) < 0 || id < projects->first ||
        id > projects->last || map_get(projects->taken, id_key(id, text)))
        return 0;
    return id;
}

int projects_id(struct projects *projects, const char *name, uint32_t *ret, struct err *err)
{
    uint32_t id = projects_known(projects, name);
    char text[ID_TEXT];

    if (!id) {
        id = own_id(projects, name);
        if (!id)
            id = find_free(projects);
        if (!id)
            return err_set(err, ERR_LIMIT, "all project ids from %u to %u are in use", projects->first,
                           projects->last);
        remember(projects, str_from(name), id);
        if (save(projects, err) < 0) {
            map_remove(projects->ids, str_from(name));
            map_remove(projects->taken, id_key(id, text));
            return -1;
        }
    }
    *ret = id;
    return 0;
}

void projects_sweep(struct projects *projects)
{
    VEC(char *) gone = {0};
    struct err err = {0};
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(projects->ids, &at, &key, &value)) {
        CLEANUP(free) char *path = mem_printf("%s/%.*s", projects->data_dir, STR_ARG(key));
        struct stat st;

        if (lstat(path, &st) < 0 && errno == ENOENT &&
            prjquota_limit(projects->quota, unboxed(value), 0, &err) == 0)
            vec_push(&gone, mem_strndup(key.s, key.len));
    }
    VEC_EACH(&gone, it) {
        char text[ID_TEXT];

        map_remove(projects->taken, id_key(projects_known(projects, *it), text));
        map_remove(projects->ids, str_from(*it));
        free(*it);
    }
    if (err.code || (gone.len && save(projects, &err) < 0))
        log_warn("%s", err.msg);
    vec_done(&gone);
}
