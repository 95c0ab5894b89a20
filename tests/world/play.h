/* play - a story or a tale in a process of its own, so that a crash and an endless loop are findings as well.
 */
#pragma once

#include "story.h"

#include <sys/types.h>

#define PLAY_ERRORS_MAX 64
#define PLAY_WATCH_SEC  120 /* no story takes that long */

struct play_result {
    bool ok;
    char rule[32], text[1024];
    uint64_t hash, events, kills, looks;
    int64_t ms, broken_at_ms;
    int ends[PLAY_ERRORS_MAX]; /* how far off ends were that were told after two epochs, in percent of what
                                  was left */
    unsigned end_count;
};

struct play_options {
    const char *only; /* NULL: all rules that are not known to be broken */
    bool trace;
    bool log; /* the daemon's own log, too */
};

struct play {
    pid_t pid;
    int fd;
};

struct tale;
void play_start(struct play *play, const struct story *story, const struct tale *tale,
                const struct play_options *options);
void play_wait(struct play *play, struct play_result *ret);
void play_story(const struct story *story, const struct play_options *options, struct play_result *ret);

/* Takes away acts for as long as the same rule stays broken, at most so long. */
void shrink(const struct story *story, const struct play_options *options, const struct play_result *found,
            int seconds, struct story *ret);

/* A scripted story of a few minutes, named as what it shows. */
struct world;
struct tale {
    const char *name;
    const char *shows; /* what people saw when it went wrong */
    struct act lab;
    void (*tell)(struct world *world);
};
extern const struct tale *const tale_lists[]; /* NULL-terminated, each ended by one without a name */
