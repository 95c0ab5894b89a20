/* spares.c - roots whose container wrote nothing to them stay mounted for the next one of the same image:
 * layers do not change, so it cannot tell the difference, and making a root is a large part of a start. Not
 * the host's root, which changes below the mount; and only for the same owner: a descriptor of the old
 * container's root, passed on before it ended, reaches the new one's as well. */
#include "base/log.h"
#include "base/mem.h"
#include "image/internal.h"

#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARES_MAX 16 /* of all images; the oldest goes first */

static char *place_of(const struct images *images, const char *id)
{
    return mem_printf("%s/%s", images->mounts_dir, id);
}

/* Its owner and mode are still those of the layer below. */
static bool looks_alike(const struct images *images, const struct stored *stored, const char *upper)
{
    const struct image *image = stored->image;
    CLEANUP(free) char *layer = NULL;
    struct stat above, below;

    if (image->layers_len == 0)
        return false;
    layer = record_layer_path(images->dir, image->layers[image->layers_len - 1].digest, "/fs");
    return stat(upper, &above) == 0 && stat(layer, &below) == 0 && above.st_mode == below.st_mode &&
           above.st_uid == below.st_uid && above.st_gid == below.st_gid;
}

static void spare_drop(struct images *images, size_t i, bool trash)
{
    struct spare spare = images->spares.v[i];
    CLEANUP(free) char *root = mem_printf("%s/root", spare.place);

    images->spares.len--;
    memmove(images->spares.v + i, images->spares.v + i + 1,
            (images->spares.len - i) * sizeof(*images->spares.v));
    umount2(root, MNT_DETACH | UMOUNT_NOFOLLOW);
    rmdir(root);
    rmdir(spare.place);
    if (trash)
        images_discard(images, spare.dir);
    free(spare.place);
    free(spare.owner);
    free(spare.dir);
}

bool spare_keep(struct images *images, const struct mounted *m)
{
    struct stored *stored = m->image[0] ? stored_by_id(images, m->image) : NULL;
    CLEANUP(free) char *upper = mem_printf("%s/upper", m->dir), *from = place_of(images, m->id);
    CLEANUP(free) char *note = mem_printf("%s/note", from);
    struct spare spare = {0};

    if (!stored || !m->owner || !mount_untouched(upper) || !looks_alike(images, stored, upper))
        return false;
    spare.place = mem_printf("%s/.spare-%u", images->mounts_dir, ++images->spare_last);
    if (rename(from, spare.place) < 0) {
        free(spare.place);
        return false;
    }
    free(TAKE_PTR(note));
    note = mem_printf("%s/note", spare.place);
    unlink(note);
    spare.dir = mem_strdup(m->dir);
    spare.owner = mem_strdup(m->owner);
    snprintf(spare.image, sizeof(spare.image), "%s", m->image);
    vec_push(&images->spares, spare);
    if (images->spares.len > SPARES_MAX)
        spare_drop(images, 0, true);
    return true;
}

char *spare_take(struct images *images, const struct image_mount_spec *spec)
{
    for (size_t i = images->spares.len; i > 0; i--) {
        struct spare spare = images->spares.v[i - 1];
        CLEANUP(free) char *to = NULL;

        if (!streq(spare.image, spec->image->id) || !streq(spare.owner, spec->owner))
            continue;
        to = place_of(images, spec->id);
        if (rename(spare.place, to) < 0)
            return NULL;
        images->spares.len--;
        memmove(images->spares.v + i - 1, images->spares.v + i,
                (images->spares.len - (i - 1)) * sizeof(*images->spares.v));
        free(spare.place);
        free(spare.owner);
        return spare.dir;
    }
    return NULL;
}

void spares_drop(struct images *images, const char *image)
{
    for (size_t i = images->spares.len; i > 0; i--)
        if (streq(images->spares.v[i - 1].image, image))
            spare_drop(images, i - 1, true);
}

void spares_mend(struct images *images)
{
    for (size_t i = images->spares.len; i > 0; i--)
        if (access(images->spares.v[i - 1].place, F_OK) < 0)
            spare_drop(images, i - 1, true);
}

void spares_free(struct images *images)
{
    while (images->spares.len > 0)
        spare_drop(images, images->spares.len - 1, false);
    vec_done(&images->spares);
}
