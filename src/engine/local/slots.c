/* Slots: folders for what containers write to their roots, DATA/rw/N. A folder whose container wrote nothing
 * is used again: making and removing folders on a disk takes longer the more has been removed there lately,
 * and overlayfs wants several for each container. */
#include "base/file.h"
#include "base/log.h"
#include "engine/local/internal.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#define LOG_MODULE     "engine"
#define SLOTS_FREE_MAX 64

static char *slots_dir(const struct local_engine *engine)
{
    return mem_printf("%s/rw", engine->data_dir);
}

char *slot_take(struct local_engine *engine, struct err *err)
{
    CLEANUP(free) char *dir = slots_dir(engine);

    if (engine->slots.len)
        return vec_pop(&engine->slots);
    for (;;) {
        CLEANUP(free) char *path = mem_printf("%s/%u", dir, ++engine->slot_last);

        if (mkdir(path, 0711) == 0)
            return TAKE_PTR(path);
        if (errno != EEXIST) {
            err_errno(err, errno, "make '%s'", path);
            return NULL;
        }
    }
}

void slot_give(struct local_engine *engine, const char *path, bool again)
{
    if (again && engine->slots.len < SLOTS_FREE_MAX)
        vec_push(&engine->slots, mem_strdup(path));
    else
        sandbox_remove_tree(engine, path);
}

int slots_start(struct local_engine *engine, struct err *err)
{
    CLEANUP(free) char *dir = slots_dir(engine);

    return dir_make(dir, 0700, err);
}

static bool in_use(const struct local_engine *engine, const char *path)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value)) {
        const struct local_pod *pod = value;

        for (size_t i = 0; i < pod->facts.len; i++)
            if (pod->runs[i].mounted && streq(image_mount_dir(engine->images, pod->facts.ctrs[i].id), path))
                return true;
    }
    return false;
}

void slots_sweep(struct local_engine *engine)
{
    CLEANUP(free) char *dir = slots_dir(engine);
    DIR *list = opendir(dir);
    const struct dirent *entry;

    while (list && (entry = readdir(list))) {
        CLEANUP(free) char *path = mem_printf("%s/%s", dir, entry->d_name);

        if (trash_is(entry->d_name) || (entry->d_name[0] != '.' && !in_use(engine, path)))
            sandbox_remove_tree(engine, path);
    }
    if (list)
        closedir(list);
}

void slots_done(struct local_engine *engine)
{
    VEC_EACH(&engine->slots, it)
        free(*it);
    vec_done(&engine->slots);
}
