#include "domain/node.h"

#include "base/str.h"

const char *labels_get(struct labels labels, const char *key)
{
    for (size_t i = 0; i < labels.len; i++)
        if (streq(labels.v[i].key, key))
            return labels.v[i].value;
    return NULL;
}

static bool value_matches(const char *have, const char *wanted)
{
    struct str rest = str_from(wanted), one;

    if (rest.len == 0)
        return *have == '\0';
    while (str_split(&rest, '|', &one))
        if (str_is(one, have))
            return true;
    return false;
}

bool labels_match(struct labels labels, struct labels selector)
{
    for (size_t i = 0; i < selector.len; i++) {
        const char *have = labels_get(labels, selector.v[i].key);

        if (!have || !value_matches(have, selector.v[i].value))
            return false;
    }
    return true;
}

uint32_t cluster_gpus(const struct cluster *cluster)
{
    uint32_t sum = 0;

    for (uint32_t n = 0; n < cluster->node_count; n++)
        sum += cluster->nodes[n].gpu_count;
    return sum;
}

uint32_t cluster_largest_node(const struct cluster *cluster)
{
    uint32_t max = 0;

    for (uint32_t n = 0; n < cluster->node_count; n++)
        if (cluster->nodes[n].gpu_count > max)
            max = cluster->nodes[n].gpu_count;
    return max;
}

uint32_t cluster_largest_card(const struct cluster *cluster)
{
    uint32_t max = 0;

    for (uint32_t n = 0; n < cluster->node_count; n++)
        for (uint32_t g = 0; g < cluster->nodes[n].gpu_count; g++)
            if (cluster->nodes[n].gpus[g].mem_mib > max)
                max = cluster->nodes[n].gpus[g].mem_mib;
    return max;
}

uint32_t cluster_smallest_card(const struct cluster *cluster, uint32_t mib)
{
    uint32_t best = 0;

    for (uint32_t n = 0; n < cluster->node_count; n++)
        for (uint32_t g = 0; g < cluster->nodes[n].gpu_count; g++) {
            uint32_t has = cluster->nodes[n].gpus[g].mem_mib;

            if (has >= mib && (best == 0 || has < best))
                best = has;
        }
    return best;
}
