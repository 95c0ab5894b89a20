/* What others remove of the run folder while pods run: see runtime_mend. Containers first: their processes
 * are what namespaces are taken from. */
#include "base/file.h"
#include "engine/local/internal.h"

static void add(struct buf *said, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct buf *said, const char *fmt, ...)
{
    va_list ap;

    if (said->len)
        buf_puts(said, ", ");
    va_start(ap, fmt);
    buf_vprintf(said, fmt, ap);
    va_end(ap);
}

void local_engine_mend(struct engine *base, struct buf *said)
{
    struct local_engine *engine = CONTAINER_OF(base, struct local_engine, base);
    CLEANUP(free) char *etc = mem_printf("%s/pods", engine->run_dir);
    bool folder = access(etc, F_OK) < 0;
    size_t at = 0, pods = 0, containers = runtime_mend(engine->rt);
    struct str key;
    void *value;

    if (folder)
        (void)dir_make(etc, 0700, NULL); /* what is to lie in it says what is wrong */
    folder |= images_mend(engine->images);
    while (map_next(engine->pods, &at, &key, &value))
        pods += sandbox_mend(value);
    if (folder)
        add(said, "folders");
    if (containers)
        add(said, "the files of %zu running container%s", containers, containers == 1 ? "" : "s");
    if (pods)
        add(said, "the files and namespaces of %zu running pod%s", pods, pods == 1 ? "" : "s");
}
