/* pull_share - how much of an image is here, in percent, from what the pull tells of its layers. Layers count
 * by their bytes; one whose size is not known yet counts as the average of those known. Never goes back. */
#pragma once

#include "image/image.h"

#define PULL_LAYERS_MAX 512

struct pull_share {
    struct pull_layer *layers; /* heap; NULL: nothing told yet */
    size_t count;
    int percent;
};

int pull_share_add(struct pull_share *share, const struct image_progress *progress); /* percent */
void pull_share_reset(struct pull_share *share);
