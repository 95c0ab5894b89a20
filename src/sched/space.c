/* Nodes are scanned in order: a scan reads 40 bytes a node, and the count of nodes by whole free cards lets
 * it stop at the first that leaves the least over. */
#include "sched/space.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static int32_t most_free(const struct space *space, const struct space_node *node)
{
    int32_t max = 0;

    for (uint32_t c = node->card0; c < node->card0 + node->cards; c++) {
        int32_t free = card_free(&space->cards[c]);

        max = free > max ? free : max;
    }
    return max;
}

static void set_whole(struct space *space, struct space_node *node, uint32_t whole)
{
    space->nodes_by_whole[node->whole]--;
    space->nodes_by_whole[whole]++;
    space->whole += whole - node->whole;
    node->whole = (uint16_t)whole;
}

/* Adds to what is used or claimed of a card. */
static void card_add(struct space *space, struct space_node *node, struct card *card, int32_t used,
                     int32_t claimed)
{
    int32_t before = card_free(card), after;
    bool was = card_whole(card);

    card->used += used;
    card->claimed += claimed;
    if (card_whole(card) != was)
        set_whole(space, node, was ? node->whole - 1U : node->whole + 1U);
    after = card_free(card);
    if (after >= node->max_free)
        node->max_free = after;
    else if (before == node->max_free)
        node->max_free = most_free(space, node);
}

void space_init(struct space *space, const struct cluster *cluster)
{
    uint32_t at = 0;

    *space = (struct space){.cluster = cluster, .node_count = cluster->node_count};
    space->card_count = cluster_gpus(cluster);
    space->nodes = mem_zalloc(sizeof(*space->nodes) * (space->node_count + 1));
    space->cards = mem_zalloc(sizeof(*space->cards) * (space->card_count + 1));
    space->nodes_by_whole[0] = space->node_count;
    for (uint32_t n = 0; n < space->node_count; n++) {
        const struct node *from = &cluster->nodes[n];
        struct space_node *node = &space->nodes[n];
        uint32_t whole = 0;

        assert(from->gpu_count <= NODE_GPUS_MAX);
        *node = (struct space_node){.card0 = at, .cards = (uint16_t)from->gpu_count, .free = from->capacity};
        node->closed = from->unschedulable;
        for (uint32_t g = 0; g < from->gpu_count; g++) {
            space->cards[at].total = from->gpus[g].failed ? 0 : (int32_t)from->gpus[g].mem_mib;
            whole += card_whole(&space->cards[at++]);
        }
        set_whole(space, node, whole);
        node->max_free = most_free(space, node);
    }
}

void space_done(struct space *space)
{
    free(space->nodes);
    free(space->cards);
    *space = (struct space){0};
}

void space_copy(struct space *to, const struct space *from)
{
    struct space copy = *from;

    copy.nodes = to->nodes;
    copy.cards = to->cards;
    memcpy(copy.nodes, from->nodes, sizeof(*copy.nodes) * copy.node_count);
    memcpy(copy.cards, from->cards, sizeof(*copy.cards) * copy.card_count);
    *to = copy;
}

#define SHARE_MAX_MIB (1U << 24) /* of a card that has failed: 128 of them can be counted */

/* What has gone (a node, a card) is passed over: a job may still be there while it is being stopped.
 * Slots of a unit come one after the other and are on one node: its resources go with the first of them. */
static void change(struct space *space, const struct demand *demand, struct placement at, int times,
                   bool claim)
{
    uint32_t unit = demand->unit_gpus && demand->max_gpus ? demand->unit_gpus : at.len;

    for (uint32_t i = 0; i < at.len; i++) {
        const struct slot *slot = &at.v[i];
        struct space_node *node = &space->nodes[slot->node];

        if (slot->node >= space->node_count)
            continue;
        if (i % unit == 0)
            node->free = resources_add(node->free, demand->each, -times);
        if (slot->card < node->cards) {
            struct card *card = &space->cards[node->card0 + slot->card];
            uint32_t most = card->total > 0 ? (uint32_t)card->total : SHARE_MAX_MIB;
            int32_t mib = (int32_t)(slot->mib < most ? slot->mib : most) * times;

            card_add(space, node, card, claim ? 0 : mib, claim ? mib : 0);
        }
    }
}

void space_use(struct space *space, const struct demand *demand, struct placement at, int times)
{
    change(space, demand, at, times, false);
}

void space_claim(struct space *space, const struct demand *demand, struct placement at, int times)
{
    change(space, demand, at, times, true);
}

bool space_exists(const struct space *space, struct placement at)
{
    for (uint32_t i = 0; i < at.len; i++)
        if (at.v[i].node >= space->node_count ||
            (at.v[i].card != SLOT_CPU && at.v[i].card >= space->nodes[at.v[i].node].cards))
            return false;
    return at.len > 0;
}

bool space_fits(const struct space *space, const struct demand *demand, struct placement at)
{
    uint32_t unit = demand->unit_gpus && demand->max_gpus ? demand->unit_gpus : at.len;

    if (!space_exists(space, at))
        return false;
    for (uint32_t i = 0; i < at.len; i++) {
        const struct space_node *node = &space->nodes[at.v[i].node];
        const struct card *card = &space->cards[node->card0 + at.v[i].card];
        int64_t units = 0;

        if (at.v[i].card != SLOT_CPU &&
            (demand_whole(demand) ? !card_whole(card) : card_free(card) < (int32_t)at.v[i].mib))
            return false;
        for (uint32_t k = 0; k <= i; k += unit)
            units += at.v[k].node == at.v[i].node;
        if (i % unit == 0 && resources_times(demand->each, node->free, units) < units)
            return false;
    }
    return true;
}

/* Whether only cards nobody is on will do. */
static bool query_whole(const struct query *q)
{
    return q->alone || demand_whole(q->demand);
}

/* ---- one unit on one node ---- */

/* The cards that leave the least over, as many as asked for: smallest suitable first. */
static bool pick_cards(const struct space *space, const struct query *q, uint32_t n, uint32_t count,
                       struct slot *ret)
{
    const struct space_node *node = &space->nodes[n];
    const struct card *cards = &space->cards[node->card0];
    bool whole = query_whole(q), all = demand_whole(q->demand);
    int32_t mib = (int32_t)q->demand->mib;
    uint64_t taken = 0;

    for (uint32_t k = 0; k < count; k++) {
        int32_t best_left = INT32_MAX;
        uint32_t best = SLOT_CPU;

        for (uint32_t c = 0; c < node->cards; c++) {
            int32_t left = whole ? cards[c].total : card_free(&cards[c]) - mib;

            if (taken >> c & 1 ||
                (whole ? !card_whole(&cards[c]) || left < mib : left < 0 || !cards[c].total))
                continue;
            if (!whole && q->spread_shares && card_whole(&cards[c]))
                left -= INT32_MAX / 2;
            if (left < best_left) {
                best_left = left;
                best = c;
            }
        }
        if (best == SLOT_CPU)
            return false;
        taken |= 1ULL << best;
        ret[k] = (struct slot){n, best, (uint32_t)(all ? cards[best].total : mib)};
    }
    return true;
}

static bool node_may(const struct space *space, const struct query *q, uint32_t n)
{
    return !space->nodes[n].closed && (!q->nodes || q->nodes[n]);
}

bool space_place_on(const struct space *space, const struct query *q, uint32_t n, struct slot *ret)
{
    const struct space_node *node = &space->nodes[n];

    if (!node_may(space, q, n) || !resources_fit(q->demand->each, node->free))
        return false;
    if (q->gpus == 0) {
        *ret = (struct slot){n, SLOT_CPU, 0};
        return true;
    }
    if (query_whole(q) ? node->whole < q->gpus : node->max_free < (int32_t)q->demand->mib)
        return false;
    return pick_cards(space, q, n, q->gpus, ret);
}

/* How much worse than others it is to put one unit here; smaller is better. */
static double node_score(const struct space *space, const struct query *q, uint32_t n,
                         const struct slot *slots)
{
    const struct space_node *node = &space->nodes[n];
    const struct card *card = &space->cards[node->card0 + (q->gpus ? slots[0].card : 0)];
    double score;

    if (q->gpus == 0)
        score = node->cards * 1e9 + (double)node->free.cpu_milli;
    else if (query_whole(q))
        score = node->whole * 1e6 + card->total;
    else
        score = (card_whole(card) != q->spread_shares ? 1e9 + node->whole * 1e6 : 0) +
                (card_free(card) - (int32_t)q->demand->mib);
    if (q->rule == PLACE_FRAGMENT && q->frag) /* best fit decides between equals */
        return frag_gradient(q->frag, space, n, q->demand, slots, q->gpus) + score * 1e-15;
    return q->rule == PLACE_EMPTIEST ? -score : score;
}

/* Whether a node cannot be better than the best so far, as its counts tell. */
static bool cannot_win(const struct query *q, const struct space_node *node, double best)
{
    if (q->rule != PLACE_BEST_FIT || q->gpus == 0)
        return false;
    if (query_whole(q))
        return node->whole * 1e6 >= best;
    /* An empty node is at most as good as its emptiness. */
    return !q->spread_shares && node->whole == node->cards && 1e9 + node->whole * 1e6 >= best;
}

/* Whole free cards of the node that leaves the least over: a node that has no more cannot be beaten. */
static uint32_t least_whole(const struct space *space, const struct query *q)
{
    uint32_t k = q->gpus;

    if (q->rule != PLACE_BEST_FIT || !query_whole(q) || k == 0 || q->demand->mib > 0)
        return UINT32_MAX;
    while (k <= NODE_GPUS_MAX && space->nodes_by_whole[k] == 0)
        k++;
    return k;
}

/* Fragmentation differs from card to card: of those with as much free, one is tried. */
static bool least_fragmenting(const struct space *space, const struct query *q, uint32_t n, struct slot *ret,
                              double *score)
{
    const struct space_node *node = &space->nodes[n];
    const struct card *cards = &space->cards[node->card0];
    bool found = false;

    if (!node_may(space, q, n) || !resources_fit(q->demand->each, node->free))
        return false;
    for (uint32_t c = 0; c < node->cards; c++) {
        struct slot slot = {n, c, q->demand->mib};
        bool seen = cards[c].total == 0 || card_free(&cards[c]) < (int32_t)q->demand->mib;
        double one;

        for (uint32_t k = 0; k < c && !seen; k++)
            seen = card_free(&cards[k]) == card_free(&cards[c]) && cards[k].total == cards[c].total;
        if (seen)
            continue;
        one = node_score(space, q, n, &slot);
        if (!found || one < *score) {
            *score = one;
            *ret = slot;
            found = true;
        }
    }
    return found;
}

/* The place on this node, and how good it is. */
static bool try_node(const struct space *space, const struct query *q, uint32_t n, struct slot *ret,
                     double *score)
{
    if (q->rule == PLACE_FRAGMENT && q->frag && q->gpus == 1 && !query_whole(q))
        return least_fragmenting(space, q, n, ret, score);
    if (!space_place_on(space, q, n, ret))
        return false;
    *score = node_score(space, q, n, ret);
    return true;
}

/* With fragmentation: scores of nodes that have not changed since are known. */
static bool place_fragment(const struct space *space, const struct query *q, struct slot *ret)
{
    struct slot slots[NODE_GPUS_MAX];
    uint32_t best_node = SCHED_NONE;
    double best = INFINITY, score;

    for (uint32_t n = 0; n < space->node_count; n++) {
        if (!node_may(space, q, n))
            continue;
        if (!frag_kept(q->frag, q->shape, n, &score)) {
            if (!try_node(space, q, n, slots, &score))
                score = INFINITY;
            frag_keep(q->frag, q->shape, n, score);
        }
        if (score < best) {
            best = score;
            best_node = n;
        }
    }
    return best_node != SCHED_NONE && try_node(space, q, best_node, ret, &score);
}

static bool place_unit(const struct space *space, const struct query *q, struct slot *ret)
{
    struct slot slots[NODE_GPUS_MAX];
    uint32_t least = least_whole(space, q);
    double best = 0;
    bool found = false, whole = query_whole(q) && q->gpus > 0;

    if (q->gpus > NODE_GPUS_MAX || (whole && space->whole < q->gpus))
        return false;
    if (q->rule == PLACE_FRAGMENT && q->frag)
        return place_fragment(space, q, ret);
    for (uint32_t n = 0; n < space->node_count; n++) {
        const struct space_node *node = &space->nodes[n];
        double score;

        if (whole ? node->whole < q->gpus : q->gpus && node->max_free < (int32_t)q->demand->mib)
            continue;
        if ((found && cannot_win(q, node, best)) || !try_node(space, q, n, slots, &score))
            continue;
        if (!found || score < best) {
            found = true;
            best = score;
            memcpy(ret, slots, sizeof(*slots) * query_slots(q));
        }
        if (node->whole == least)
            break;
    }
    return found;
}

/* ---- gangs over several nodes ---- */

static uint32_t units_on(const struct space *space, const struct query *q, uint32_t n, uint32_t limit)
{
    const struct space_node *node = &space->nodes[n];
    const struct card *cards = &space->cards[node->card0];
    uint32_t fit = 0;

    if (!node_may(space, q, n))
        return 0;
    for (uint32_t c = 0; c < node->cards; c++)
        if (query_whole(q))
            fit += card_whole(&cards[c]) && cards[c].total >= (int32_t)q->demand->mib;
        else
            fit += cards[c].total > 0 && card_free(&cards[c]) >= (int32_t)q->demand->mib;
    fit /= q->demand->unit_gpus;
    return (uint32_t)resources_times(q->demand->each, node->free, fit < limit ? fit : limit);
}

/* The node that holds all that is left with the least over, or else the one that holds the most. */
static uint32_t best_for_units(const struct space *space, const struct query *q, const uint8_t *taken,
                               uint32_t left, uint32_t *units)
{
    uint32_t best = SCHED_NONE, best_fit = 0;

    for (uint32_t n = 0; n < space->node_count; n++) {
        uint32_t fit = taken[n] ? 0 : units_on(space, q, n, UINT32_MAX);
        bool better = fit > best_fit;

        if (q->rule != PLACE_EMPTIEST && best_fit >= left)
            better = fit >= left && fit < best_fit;
        if (fit > 0 && better) {
            best = n;
            best_fit = fit;
        }
    }
    *units = best_fit < left ? best_fit : left;
    return best;
}

static bool place_gang(const struct space *space, const struct query *q, struct slot *ret)
{
    CLEANUP(free) uint8_t *taken = mem_zalloc(space->node_count + 1);
    uint32_t unit = q->demand->unit_gpus, left = q->gpus / unit, at = 0;

    while (left > 0) {
        uint32_t units, n = best_for_units(space, q, taken, left, &units);

        if (n == SCHED_NONE || !pick_cards(space, q, n, units * unit, ret + at))
            return false;
        taken[n] = 1;
        left -= units;
        at += units * unit;
    }
    return true;
}

bool space_place(const struct space *space, const struct query *q, struct slot *ret)
{
    if (q->gpus == 0 || q->demand->unit_gpus == 0 || q->gpus <= q->demand->unit_gpus)
        return place_unit(space, q, ret);
    return place_gang(space, q, ret);
}
