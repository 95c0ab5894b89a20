/* space - what is free on each card and node, and where a demand fits. Private to sched.
 *
 * A card's memory is used (by what runs there) or claimed (kept for a job that waits until others have gone;
 * both may be so for the same MiB). Only what is neither is free. A demand for whole cards takes cards that
 * nobody uses or claims, all of their memory. */
#pragma once

#include "sched/sched.h"

struct card {
    int32_t total, used, claimed; /* MiB */
};

struct space_node {
    uint32_t card0; /* index of its first card */
    uint16_t cards;
    uint16_t whole;        /* cards nobody uses or claims */
    int32_t max_free;      /* MiB free on the card that has the most */
    struct resources free; /* neither used nor claimed; may be negative while both */
    bool closed;           /* takes no new work */
};

struct space {
    const struct cluster *cluster;
    struct space_node *nodes;
    struct card *cards;
    uint32_t node_count, card_count;
    uint32_t whole;                             /* of all nodes */
    uint32_t nodes_by_whole[NODE_GPUS_MAX + 1]; /* how many nodes have that many whole cards free */
};

void space_init(struct space *space, const struct cluster *cluster);
void space_done(struct space *space);
void space_copy(struct space *to, const struct space *from); /* of the same cluster */

/* times 1 takes, -1 gives back. Slots that do not exist (any more) are passed over. */
void space_use(struct space *space, const struct demand *demand, struct placement at, int times);
void space_claim(struct space *space, const struct demand *demand, struct placement at, int times);
/* Whether exactly these slots are free. False for slots that do not exist. */
bool space_fits(const struct space *space, const struct demand *demand, struct placement at);
bool space_exists(const struct space *space, struct placement at);

/* What to place. */
struct query {
    const struct demand *demand;
    uint32_t gpus;
    const uint8_t *nodes; /* 1: may be used; NULL: all */
    enum place_rule rule;
    bool spread_shares;
    bool alone;        /* shares, too, only on cards nobody is on */
    struct frag *frag; /* of PLACE_FRAGMENT */
    uint32_t shape;    /* a small number, the same for equal demands; for what frag keeps */
};

/* Room for slots: `gpus`, or units of a CPU-only demand. */
bool space_place(const struct space *space, const struct query *query, struct slot *ret);
/* On that node only; one unit. */
bool space_place_on(const struct space *space, const struct query *query, uint32_t node, struct slot *ret);

static inline int32_t card_free(const struct card *card)
{
    int32_t free = card->total - card->used - card->claimed;

    return free > 0 ? free : 0;
}

static inline bool card_whole(const struct card *card)
{
    return card->total > 0 && card->used == 0 && card->claimed == 0;
}

static inline uint32_t query_slots(const struct query *query)
{
    return query->gpus > 0 ? query->gpus : 1;
}

/* ---- fragmentation (frag.c): how much of a node's free GPU memory the usual workloads could not use ---- */

#define FRAG_AHEAD                                                                                           \
    0.6 /* part of the measure that is what is left over in the end; the rest is as FGD has it */

struct frag;
struct frag *frag_new(const struct cluster *cluster, const struct mix_row *mix, uint32_t len, double ahead);
void frag_free(struct frag *frag); /* NULL is fine */
/* Scores are kept per (query.shape, node) until a node has changed; without these calls nothing is kept. */
void frag_reset(struct frag *frag); /* of a new space, NULL is fine; from now on scores are kept */
void frag_changed(struct frag *frag, uint32_t node);
bool frag_kept(struct frag *frag, uint32_t shape, uint32_t node, double *score);
void frag_keep(struct frag *frag, uint32_t shape, uint32_t node, double score); /* INFINITY: does not fit */
/* What taking these slots of one node adds to its fragmentation, in expected GPUs. */
double frag_gradient(struct frag *frag, const struct space *space, uint32_t node, const struct demand *demand,
                     const struct slot *slots, uint32_t len);
