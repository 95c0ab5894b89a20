/* What the files of upkeep share. */
#pragma once

#include "base/vec.h"
#include "engine/packed.h"
#include "loop/loop.h"
#include "objects/names.h"
#include "objects/object_doc.h"
#include "registry/registry.h"
#include "upkeep/upkeep.h"

#define LOG_MODULE "upkeep"
#include "base/log.h"

#define UPKEEP_KINDS 4

/* Callbacks that cannot be taken back ask here whether upkeep is still there. */
struct upkeep_tie {
    struct upkeep *upkeep;
    unsigned refs;
};

struct asked;

struct upkeep {
    struct upkeep_config config;
    struct store *store;
    struct upkeep_tie *tie;
    struct store_watch *watches[UPKEEP_KINDS];
    struct prune *prune;
    struct loop_timer *timer, *files_timer;
    struct upkeep_policy once; /* of a run that was asked for */
    bool asked;
    bool soon;               /* the timer fires within a second */
    char *log_dir, *db_path; /* NULL: none */
    struct offload *offload;
    struct packed_totals logs; /* when they were last gone through */
    bool logs_busy;
    VEC(struct asked *) readings; /* logs that are being unpacked, and for whom */
    uint64_t pruned;              /* since the start */
    uint64_t telling;             /* of them, not in the log yet */
    size_t freed;                 /* bytes of text, since memory was given back last */
};

/* files.c: what is on the disk. */
void files_start(struct upkeep *upkeep);
void files_stop(struct upkeep *upkeep);
void files_soon(struct upkeep *upkeep);

/* claims.c */
void claims_look(struct upkeep *upkeep);

/* work.c: finished work. */
void work_start(struct upkeep *upkeep);
void work_stop(struct upkeep *upkeep);
void work_soon(struct upkeep *upkeep);
