/* local.c - names of images that were built or imported here: see image.h for why they are set apart. */
#include "base/mem.h"
#include "image/internal.h"
#include "image/sum.h"

#include <ctype.h>
#include <stdio.h>

#define SUM_SHOWN 12 /* hex digits of a person's sum */

/* One part of a path: what may not stand in one becomes '-'. */
static void add_part(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++)
        buf_putc(out, isalnum((unsigned char)*c) || (strchr("._-/", *c) && c != text)
                          ? (char)tolower((unsigned char)*c)
                          : '-');
}

/* Whether a name could be one that got a sum at its end. */
static bool ends_in_sum(const char *who)
{
    size_t len = strlen(who);

    return len > SUM_SHOWN && who[len - SUM_SHOWN - 1] == '-' &&
           strspn(who + len - SUM_SHOWN, "0123456789abcdef") == SUM_SHOWN;
}

/* The person's part of a name. One that had to be changed says by a sum whose it is: Alice is not alice, and
 * nobody is Alice by having the changed name for a name. */
static void add_person(struct buf *out, const char *who)
{
    char digest[IMAGE_DIGEST_MAX];
    size_t start = out->len;

    add_part(out, who);
    if (streq(out->data + start, who) && !strchr(who, '/') && !ends_in_sum(who))
        return;
    for (char *c = out->data + start; *c; c++)
        if (*c == '/')
            *c = '-';
    sum_of(str_from(who), digest);
    buf_printf(out, "-%.*s", SUM_SHOWN, sum_hex(digest));
}

/* "docker.io/library/trainer" is what people write as "trainer". */
static void add_repository(struct buf *out, const struct image_ref *ref)
{
    const char *path = ref->path;

    if (!streq(ref->host, "docker.io")) {
        add_part(out, ref->host);
        buf_putc(out, '/');
    } else if (starts_with(path, "library/")) {
        path += strlen("library/");
    }
    buf_puts(out, path);
}

int image_local_name(const char *who, const char *reference, char text[IMAGE_REF_MAX], struct err *err)
{
    CLEANUP(buf_done) struct buf name = {0};
    struct image_ref ref;

    if (image_ref_parse(str_from(reference), &ref, err) < 0)
        return -1;
    if (ref.digest[0])
        return err_set(err, ERR_INVALID, "'%s': a name with a digest cannot be given here", reference);
    if (who) {
        buf_printf(&name, "%s/", IMAGE_HOST_OWN);
        add_person(&name, who);
        buf_putc(&name, '/');
    } else {
        buf_printf(&name, "%s/", IMAGE_HOST_ALL);
    }
    if (streq(ref.host, IMAGE_HOST_ALL))
        buf_puts(&name, ref.path);
    else
        add_repository(&name, &ref);
    buf_printf(&name, ":%s", ref.tag);
    if (image_ref_parse(buf_view(&name), &ref, err) < 0)
        return -1;
    image_ref_format(&ref, text);
    return 0;
}

bool image_local_allowed(const char *who, const char *reference)
{
    CLEANUP(buf_done) struct buf own = {0};
    struct image_ref ref;

    if (!who || image_ref_parse(str_from(reference), &ref, NULL) < 0 || !streq(ref.host, IMAGE_HOST_OWN))
        return true;
    if (!*who)
        return false;
    add_person(&own, who);
    buf_putc(&own, '/');
    return starts_with(ref.path, own.data);
}

bool images_find_local(const struct images *images, const char *who, const char *reference,
                       char text[IMAGE_REF_MAX])
{
    struct image_ref ref;

    if (image_ref_parse(str_from(reference), &ref, NULL) < 0 || ref.digest[0])
        return false;
    if (streq(ref.host, IMAGE_HOST_OWN)) { /* named in full */
        image_ref_format(&ref, text);
        return image_local_allowed(who, reference) && images_find(images, text);
    }
    if (who && *who && image_local_name(who, reference, text, NULL) == 0 && images_find(images, text))
        return true;
    return image_local_name(NULL, reference, text, NULL) == 0 && images_find(images, text);
}
