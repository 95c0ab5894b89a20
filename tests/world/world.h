/* world - a lab in a box: the real queue, registry, store, Job and quota controllers and task service on a
 * virtual clock, with a fake kubelet, people who use them and bad luck. One thread, no files, no waiting: the
 * same story gives the same history every time, down to the bytes of every object.
 *
 * After every event the rules (rules.h) look at all of it from outside: at what the queue shows, at the
 * objects, at the records, and at what the fake kubelet knows to be true. */
#pragma once

#include "base/clock.h"
#include "registry/registry.h"
#include "story.h"

struct inbox;
struct kubelet;
struct loop;
struct queue;
struct rules;
struct runner;
struct store;
struct store_disk;
struct tasks;

#define WORLD_CARD_MIB 24000

/* A job that somebody submitted. */
struct world_job {
    struct act act;
    char uid[64]; /* of its row; "": not submitted, or refused */
    bool acked;   /* its owner has been told that it was taken */
    bool refused;
    bool unasked;    /* its owner has cancelled or deleted it */
    bool claimed;    /* its owner has asked for the cards of others */
    uint32_t saved;  /* epochs in its folder of snapshots: what it can go on from */
    uint32_t ran;    /* containers of it that ran */
    uint32_t failed; /* and ended with a status other than 0 that nobody asked for */
};

struct world {
    struct clock_virtual clock;
    struct loop *loop;
    struct store_disk *disk;
    struct act lab;
    struct story story;         /* sorted by time */
    size_t next;                /* act */
    VEC(struct world_job) jobs; /* by number */
    /* The daemon; NULL while it is down. */
    struct store *store;
    struct registry *registry;
    struct runner *runner;
    struct inbox *inbox;
    struct tasks *tasks;
    struct queue *queue;
    struct store_watch *log_watch;
    bool up;
    int64_t up_at;         /* down: when it is started again; monotonic, in ms */
    int64_t down_ms;       /* of the next kill */
    int64_t full_until_ms; /* commits failed until then: nothing is certain */

    struct kubelet *kubelet;
    struct rules *rules;
    uint64_t hash; /* of everything that happened */
    uint64_t events, acts, kills, refusals;
    int64_t jumped_ms;               /* when the clock last did; 0: never */
    uint64_t writes;                 /* of objects that say something: events are only told */
    bool trace;                      /* print what happens */
    char *broken_rule, *broken_text; /* NULL: none */
    int64_t broken_at;
    int64_t moment; /* when the last turn of the loop was, */
    int turns;      /* and how many there were then */
};

/* Times of the world: milliseconds since it began. Never jump. */
int64_t world_ms(const struct world *world);

struct world *world_new(const struct act *lab, uint64_t seed);
void world_free(struct world *world);
DEFINE_CLEANUP(struct world *, world_free);

/* A whole story: until its last act, and on until everything is over. False: a rule was broken. */
bool world_play(struct world *world, const struct story *story);
/* For scripted stories: one act now; so much time. */
void world_act(struct world *world, const struct act *act);
void world_run(struct world *world, int64_t ms);

struct world_job *world_job(struct world *world, int64_t number); /* NULL: never submitted */
/* The number in "job12", "job12-1", "job12-x7k2p"; 0: none. */
int64_t world_number(const char *name);
struct identity world_identity(int64_t user);

/* Notes down what happened: into the hash, and on the terminal where asked. */
void world_note(struct world *world, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void world_broken(struct world *world, const char *rule, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* lab.c: the daemon. */
void lab_up(struct world *world);
void lab_kill(struct world *world);

/* people.c */
void people_act(struct world *world, const struct act *act);
