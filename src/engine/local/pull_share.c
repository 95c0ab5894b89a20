#include "engine/local/pull_share.h"

#include "base/mem.h"

#define DOWNLOAD_PERCENT 80 /* of the work of a layer; the rest is unpacking */

struct pull_layer {
    int64_t total, done; /* done: bytes, weighed by what is left to do with them */
};

/* Waiting and unknown sizes count nothing. */
static int64_t weigh(const struct image_progress *progress, int64_t total)
{
    int64_t done = progress->done < 0 ? 0 : progress->done > total ? total : progress->done;

    switch (progress->step) {
    case IMAGE_STEP_DOWNLOADING:
        return done / 100 * DOWNLOAD_PERCENT;
    case IMAGE_STEP_UNPACKING:
        return total / 100 * DOWNLOAD_PERCENT + done / 100 * (100 - DOWNLOAD_PERCENT);
    case IMAGE_STEP_DONE:
    case IMAGE_STEP_PRESENT:
        return total;
    default:
        return 0;
    }
}

int pull_share_add(struct pull_share *share, const struct image_progress *progress)
{
    int64_t total = progress->total > 0 ? progress->total : progress->done > 0 ? progress->done : 1;
    double sum = 0, done = 0;
    size_t known = 0;
    int percent;

    if (progress->count == 0 || progress->count > PULL_LAYERS_MAX || progress->number == 0 ||
        progress->number > progress->count)
        return share->percent;
    if (share->count != progress->count) {
        pull_share_reset(share);
        share->layers = mem_zalloc(progress->count * sizeof(*share->layers));
        share->count = progress->count;
    }
    share->layers[progress->number - 1] = (struct pull_layer){total, weigh(progress, total)};
    for (size_t i = 0; i < share->count; i++) {
        known += share->layers[i].total > 0;
        sum += (double)share->layers[i].total;
        done += (double)share->layers[i].done;
    }
    percent = (int)(100 * done / (sum * (double)share->count / (double)known));
    share->percent = percent > share->percent ? percent : share->percent;
    return share->percent;
}

void pull_share_reset(struct pull_share *share)
{
    free(share->layers);
    *share = (struct pull_share){0};
}
