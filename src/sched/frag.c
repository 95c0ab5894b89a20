/* Fragmentation as FGD counts it (Weng et al., USENIX ATC 2023): the free part of a node's GPUs that a usual
 * workload could not use there, summed over the workloads by how often they come. A workload that does not
 * fit the node at all makes all of the node's free GPUs useless to it; one that fits cannot use the cards
 * that have less free than it needs. Placing where this grows least keeps the rest useful.
 *
 * Looking ahead, what is left over when as many of the workload were put there as fit counts too: that sees
 * beforehand that CPU or memory will run out while GPUs are free, and remainders that add up. */
#include "base/mem.h"
#include "sched/space.h"

#include <math.h>
#include <stdlib.h>

struct kept {
    double score; /* INFINITY: does not fit */
    uint32_t stamp;
};

struct frag {
    uint32_t len, nodes;
    double ahead; /* how much of the measure is what is left over in the end */
    struct mix_row *rows;
    uint8_t *may;      /* len times nodes: whether the row's selector takes the node */
    struct kept *kept; /* shapes times nodes; and one row for the nodes as they are */
    uint32_t kept_shapes;
    uint32_t *stamps; /* per node: changes so far; NULL: nothing is kept */
};

struct frag *frag_new(const struct cluster *cluster, const struct mix_row *mix, uint32_t len, double ahead)
{
    struct frag *frag = NEW(struct frag);
    double sum = 0;

    frag->len = len;
    frag->ahead = ahead;
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
    free(frag->kept);
    free(frag->stamps);
    free(frag);
}

/* ---- what is kept ---- */

void frag_reset(struct frag *frag)
{
    if (!frag)
        return;
    if (!frag->stamps)
        frag->stamps = mem_zalloc(sizeof(*frag->stamps) * (frag->nodes + 1));
    for (uint32_t n = 0; n < frag->nodes; n++)
        frag->stamps[n]++;
}

void frag_changed(struct frag *frag, uint32_t node)
{
    if (frag->stamps)
        frag->stamps[node]++;
}

static struct kept *kept_at(struct frag *frag, uint32_t shape, uint32_t node)
{
    if (shape >= frag->kept_shapes) {
        uint32_t more = shape + 1 > 2 * frag->kept_shapes ? shape + 1 : 2 * frag->kept_shapes;

        frag->kept = mem_realloc(frag->kept, sizeof(*frag->kept) * more * frag->nodes);
        memset(frag->kept + (size_t)frag->kept_shapes * frag->nodes, 0,
               sizeof(*frag->kept) * (more - frag->kept_shapes) * frag->nodes);
        frag->kept_shapes = more;
    }
    return &frag->kept[(size_t)shape * frag->nodes + node];
}

bool frag_kept(struct frag *frag, uint32_t shape, uint32_t node, double *score)
{
    const struct kept *kept;

    if (!frag->stamps)
        return false;
    kept = kept_at(frag, shape + 1, node);
    *score = kept->score;
    return kept->stamp == frag->stamps[node];
}

void frag_keep(struct frag *frag, uint32_t shape, uint32_t node, double score)
{
    if (frag->stamps)
        *kept_at(frag, shape + 1, node) = (struct kept){score, frag->stamps[node]};
}

/* Free fractions of a node's cards. */
struct room {
    uint32_t cards;
    struct resources free;
    double part[NODE_GPUS_MAX], total[NODE_GPUS_MAX];
};

static double wasted_for(const struct mix_row *row, bool may, const struct room *room, double ahead)
{
    const struct demand *d = &row->demand;
    uint32_t unit = d->unit_gpus ? d->unit_gpus : d->min_gpus, fit = 0, parts = 0, copies;
    double useless = 0, all = 0, part = 0;

    for (uint32_t c = 0; c < room->cards; c++) {
        double need = demand_whole(d) || room->total[c] <= 0 ? 1 : d->mib / room->total[c];
        bool fits = room->part[c] >= fmin(need, 1.0) - 1e-9 && d->mib <= room->total[c] + 0.5;

        all += room->part[c];
        useless += fits ? 0 : room->part[c];
        fit += fits;
        parts += fits ? (uint32_t)(room->part[c] / need + 1e-9) : 0;
        part = fits ? need : part;
    }
    if (d->min_gpus == 0)
        return all;
    if (!may || fit < unit || !resources_fit(d->each, room->free))
        return all;
    if (ahead <= 0)
        return useless;
    copies = (uint32_t)resources_times(d->each, room->free, parts / unit);
    return useless * (1 - ahead) + (all - copies * unit * part) * ahead;
}

static double wasted(const struct frag *frag, uint32_t node, const struct room *room)
{
    double sum = 0;

    for (uint32_t i = 0; i < frag->len; i++)
        sum += frag->rows[i].weight *
               wasted_for(&frag->rows[i], frag->may[(size_t)i * frag->nodes + node], room, frag->ahead);
    return sum;
}

double frag_gradient(struct frag *frag, const struct space *space, uint32_t node, const struct demand *demand,
                     const struct slot *slots, uint32_t len)
{
    const struct space_node *from = &space->nodes[node];
    struct room room = {.cards = from->cards, .free = from->free};
    double before;

    for (uint32_t c = 0; c < from->cards; c++) {
        const struct card *card = &space->cards[from->card0 + c];

        room.total[c] = card->total;
        room.part[c] = card->total > 0 ? (double)card_free(card) / card->total : 0;
    }
    if (!frag->stamps || kept_at(frag, 0, node)->stamp != frag->stamps[node]) {
        before = wasted(frag, node, &room);
        if (frag->stamps)
            *kept_at(frag, 0, node) = (struct kept){before, frag->stamps[node]};
    } else {
        before = kept_at(frag, 0, node)->score;
    }
    for (uint32_t i = 0; i < len; i++)
        if (slots[i].card != SLOT_CPU && room.total[slots[i].card] > 0)
            room.part[slots[i].card] -= slots[i].mib / room.total[slots[i].card];
    room.free = resources_add(room.free, demand->each, -1);
    return wasted(frag, node, &room) - before;
}
