/* words.c - failures and progress as people read them. */
#include "image/image.h"

#include <stdio.h>

static const struct {
    const char *name, *reason;
} fails[] = {
    [IMAGE_FAIL_NONE] = {"", ""},
    [IMAGE_FAIL_NAME] = {"invalid name", "InvalidImageName"},
    [IMAGE_FAIL_NEVER] = {"not present", "ErrImageNeverPull"},
    [IMAGE_FAIL_NOT_FOUND] = {"not found", "ErrImagePull"},
    [IMAGE_FAIL_UNAUTHORIZED] = {"unauthorized", "ErrImagePull"},
    [IMAGE_FAIL_UNREACHABLE] = {"unreachable", "ErrImagePull"},
    [IMAGE_FAIL_STALLED] = {"stalled", "ErrImagePull"},
    [IMAGE_FAIL_DIGEST] = {"digest mismatch", "ErrImagePull"},
    [IMAGE_FAIL_NO_SPACE] = {"no space", "ErrImagePull"},
    [IMAGE_FAIL_PLATFORM] = {"wrong platform", "ErrImagePull"},
    [IMAGE_FAIL_INVALID] = {"invalid image", "ErrImagePull"},
    [IMAGE_FAIL_LIMIT] = {"too large", "ErrImagePull"},
    [IMAGE_FAIL_OTHER] = {"failed", "ErrImagePull"},
};

const char *image_fail_name(enum image_fail fail)
{
    return fails[fail].name;
}

const char *image_fail_reason(enum image_fail fail)
{
    return fails[fail].reason;
}

static void format_bytes(int64_t bytes, char text[16])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double n = (double)bytes;
    size_t unit = 0;

    while (n >= 999.5 && unit + 1 < ARRAY_LEN(units)) {
        n /= 1000;
        unit++;
    }
    snprintf(text, 16, n < 99.95 && unit > 0 ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

void image_progress_format(const struct image_progress *progress, char text[128])
{
    static const char *const steps[] = {
        [IMAGE_STEP_WAITING] = "waiting for another pull",
        [IMAGE_STEP_DOWNLOADING] = "downloading",
        [IMAGE_STEP_UNPACKING] = "unpacking",
        [IMAGE_STEP_DONE] = "done",
        [IMAGE_STEP_PRESENT] = "already here",
    };
    char done[16], total[16];

    format_bytes(progress->done, done);
    format_bytes(progress->total, total);
    if (progress->step == IMAGE_STEP_DOWNLOADING || progress->step == IMAGE_STEP_UNPACKING)
        snprintf(text, 128, "%.19s: %s %s of %s", progress->layer, steps[progress->step], done, total);
    else
        snprintf(text, 128, "%.19s: %s", progress->layer, steps[progress->step]);
}
