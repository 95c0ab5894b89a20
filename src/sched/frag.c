/* Fragmentation as FGD counts it (Weng et al., USENIX ATC 2023): the free part of a node's GPUs that a usual
 * workload could not use there, summed over the workloads by how often they come. A workload that does not
 * fit the node at all makes all of the node's free GPUs useless to it; one that fits cannot use the cards
 * that have less free than it needs. Placing where this grows least keeps the rest useful. */
#include "base/mem.h"
#include "sched/space.h"

#include <math.h>
#include <stdlib.h>

struct frag {
    uint32_t len, nodes;
    struct mix_row *rows;
    uint8_t *may; /* len times nodes: whether the row's selector takes the node */
};

struct frag *frag_new(const struct cluster *cluster, const struct mix_row *mix, uint32_t len)
{
    struct frag *frag = NEW(struct frag);
    double sum = 0;

    frag->len = len;
    frag->nodes = cluster->node_count;
    frag->rows = mem_dup(mix, sizeof(*mix) * (len ? len : 1));
    frag->may = mem_zalloc((size_t)len * frag->nodes + 1);
    for (uint32_t i = 0; i < len; i++)
        sum += mix[i].weight;
    for (uint32_t i = 0; i < len; i++) {
        frag->rows[i].weight = sum > 0 ? mix[i].weight / sum : 0;
        for (uint32_t n = 0; n < frag->nodes; n++)
            frag->may[(size_t)i * frag->nodes + n] = labels_match(cluster->nodes[n].labels, mix[i].selector);
    }
    return frag;
}

void frag_free(struct frag *frag)
{
    if (!frag)
        return;
    free(frag->rows);
    free(frag->may);
    free(frag);
}

/* Free fractions of a node's cards. */
struct room {
    uint32_t cards;
    struct resources free;
    double part[NODE_GPUS_MAX], total[NODE_GPUS_MAX];
};

static double wasted_for(const struct mix_row *row, bool may, const struct room *room)
{
    const struct demand *d = &row->demand;
    uint32_t fit = 0;
    double useless = 0, all = 0;

    for (uint32_t c = 0; c < room->cards; c++) {
        double need = demand_whole(d) || room->total[c] <= 0 ? 1 : d->mib / room->total[c];
        bool fits = room->part[c] >= fmin(need, 1.0) - 1e-9 && d->mib <= room->total[c] + 0.5;

        all += room->part[c];
        useless += fits ? 0 : room->part[c];
        fit += fits;
    }
    if (d->min_gpus == 0)
        return all;
    if (!may || fit < (d->unit_gpus ? d->unit_gpus : d->min_gpus) || !resources_fit(d->each, room->free))
        return all;
    return useless;
}

static double wasted(const struct frag *frag, uint32_t node, const struct room *room)
{
    double sum = 0;

    for (uint32_t i = 0; i < frag->len; i++)
        sum += frag->rows[i].weight *
               wasted_for(&frag->rows[i], frag->may[(size_t)i * frag->nodes + node], room);
    return sum;
}

double frag_gradient(const struct frag *frag, const struct space *space, uint32_t node,
                     const struct demand *demand, const struct slot *slots, uint32_t len)
{
    const struct space_node *from = &space->nodes[node];
    struct room room = {.cards = from->cards, .free = from->free};
    double before;

    for (uint32_t c = 0; c < from->cards; c++) {
        const struct card *card = &space->cards[from->card0 + c];

        room.total[c] = card->total;
        room.part[c] = card->total > 0 ? (double)card_free(card) / card->total : 0;
    }
    before = wasted(frag, node, &room);
    for (uint32_t i = 0; i < len; i++)
        if (slots[i].card != SLOT_CPU && room.total[slots[i].card] > 0)
            room.part[slots[i].card] -= slots[i].mib / room.total[slots[i].card];
    room.free = resources_add(room.free, demand->each, -1);
    return wasted(frag, node, &room) - before;
}
