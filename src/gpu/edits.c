/* edits - which cards a container sees. */
#include "base/buf.h"
#include "base/mem.h"
#include "gpu/cdi_edits.h"
#include "gpu/gpu.h"

#define CDI_KIND "nvidia.com/gpu"

char *gpu_hook_path(void)
{
    static const char *const names[] = {"nvidia-container-runtime-hook", "nvidia-container-toolkit"};
    const char *path = getenv("PATH");

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct str rest = str_from(path ? path : "/usr/sbin:/usr/bin:/sbin:/bin"), folder;

        while (str_split(&rest, ':', &folder)) {
            char *file = mem_printf("%.*s/%s", STR_ARG(folder), names[i]);

            if (folder.len && folder.s[0] == '/' && access(file, X_OK) == 0)
                return file;
            free(file);
        }
    }
    return NULL;
}

/* By uuid where the file has it: indexes may change at a reboot. NULL: the file does not know the card. */
static const char *cdi_name_of(const struct cdi *cdi, const struct gpu_card *card, struct arena *arena)
{
    const char *name = arena_printf(arena, CDI_KIND "=%s", card->uuid);

    if (cdi_has(cdi, name))
        return name;
    if (card->declared) /* "0" would be a real card */
        return NULL;
    name = arena_printf(arena, CDI_KIND "=%d", card->index);
    return cdi_has(cdi, name) ? name : NULL;
}

/* The names of all the cards, NULL when the file lacks one. */
static const char **cdi_names_of(const struct gpus *gpus, const struct cdi *cdi, const size_t *cards,
                                 size_t len, struct arena *arena)
{
    const char **names = arena_alloc(arena, (len + 1) * sizeof(*names));

    for (size_t i = 0; i < len; i++) {
        names[i] = cdi_name_of(cdi, gpu_at(gpus, cards[i]), arena);
        if (!names[i])
            return NULL;
    }
    return names;
}

/* The driver's nodes, as far as they are there; the cards' own must be. */
static int add_nodes(const struct gpus *gpus, const size_t *cards, size_t len, struct arena *arena,
                     struct cdi_edits *edits, struct err *err)
{
    static const char *const shared[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                         "/dev/nvidia-modeset"};

    for (size_t i = 0; i < len; i++) {
        struct cdi_device d = {.access = "rwm"};

        d.path = d.host_path = arena_printf(arena, "/dev/nvidia%d", gpu_at(gpus, cards[i])->minor);
        if (cdi_node_stat(&d, err) < 0)
            return -1;
        cdi_edits_device(arena, edits, &d);
    }
    for (size_t i = 0; i < ARRAY_LEN(shared); i++) {
        struct cdi_device d = {.access = "rwm", .path = shared[i], .host_path = shared[i]};

        if (cdi_node_stat(&d, NULL) == 0)
            cdi_edits_device(arena, edits, &d);
    }
    return 0;
}

static bool all_real(const struct gpus *gpus, const size_t *cards, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (gpu_at(gpus, cards[i])->declared)
            return false;
    return len > 0;
}

static void add_hook(const char *path, struct arena *arena, struct cdi_edits *edits)
{
    const char **args = arena_alloc(arena, 3 * sizeof(*args));
    struct cdi_hook hook = {.when = "prestart", .path = arena_strdup(arena, path), .args = args};

    args[0] = strrchr(hook.path, '/') + 1;
    args[1] = "prestart";
    args[2] = NULL;
    cdi_edits_hook(arena, edits, &hook);
    cdi_edits_env(arena, edits, "NVIDIA_DRIVER_CAPABILITIES=compute,utility");
}

int gpu_edits(const struct gpus *gpus, const struct cdi *cdi, const size_t *cards, size_t cards_len,
              struct arena *arena, struct cdi_edits *edits, enum gpu_way *ret_way, struct err *err)
{
    CLEANUP(buf_done) struct buf list = {0};
    CLEANUP(free) char *hook = NULL;
    const char **names = NULL;
    enum gpu_way way = GPU_WAY_ENV;

    for (size_t i = 0; i < cards_len; i++) {
        const struct gpu_card *card = gpu_at(gpus, cards[i]);

        if (!card)
            return err_set(err, ERR_NOT_FOUND, "there is no card %zu", cards[i]);
        buf_printf(&list, "%s%s", i ? "," : "", card->uuid);
    }
    if (cdi && cards_len)
        names = cdi_names_of(gpus, cdi, cards, cards_len, arena);
    if (names) {
        way = GPU_WAY_CDI;
        if (cdi_resolve(cdi, names, cards_len, arena, edits, err) < 0)
            return -1;
    } else if (all_real(gpus, cards, cards_len)) {
        hook = gpu_hook_path();
        way = hook ? GPU_WAY_HOOK : GPU_WAY_NODES;
        if (hook)
            add_hook(hook, arena, edits);
        else if (add_nodes(gpus, cards, cards_len, arena, edits, err) < 0)
            return -1;
    }
    /* Last, since CDI files say "void" here to keep NVIDIA's own runtime from doing it all again. */
    cdi_edits_env(arena, edits,
                  arena_printf(arena, "NVIDIA_VISIBLE_DEVICES=%s", cards_len ? list.data : "void"));
    cdi_edits_env(arena, edits, arena_printf(arena, "CUDA_VISIBLE_DEVICES=%s", cards_len ? list.data : ""));
    *ret_way = way;
    return 0;
}
