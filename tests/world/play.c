#include "play.h"

#include "base/log.h"
#include "base/str.h"
#include "rules.h"
#include "world.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void read_result(const struct world *world, struct play_result *ret)
{
    *ret = (struct play_result){.ok = !world->broken_rule,
                                .hash = world->hash,
                                .events = world->events,
                                .kills = world->kills,
                                .looks = rules_looks(world->rules),
                                .ms = world_ms(world),
                                .broken_at_ms = world->broken_at};
    if (world->broken_rule) {
        snprintf(ret->rule, sizeof(ret->rule), "%s", world->broken_rule);
        snprintf(ret->text, sizeof(ret->text), "%s", world->broken_text);
    }
    ret->end_count = rules_end_errors(world->rules, ret->ends, PLAY_ERRORS_MAX);
}

static void child(int fd, const struct story *story, const struct tale *tale,
                  const struct play_options *options)
{
    struct play_result result;
    struct world *world;

    /* Its own time, not that of a busy machine; and in case it waits for something that never comes. */
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = PLAY_WATCH_SEC}, NULL);
    alarm(10 * PLAY_WATCH_SEC);
    log_set_level(options->log ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    if (!options->log && !freopen("/dev/null", "w", stderr)) /* a full disk is part of the story */
        _exit(2);
    world = world_new(tale ? &tale->lab : &story->acts.v[0], story ? story->seed : 1);
    world->trace = options->trace;
    rules_set_only(world->rules, options->only);
    if (tale)
        tale->tell(world);
    else
        world_play(world, story);
    read_result(world, &result);
    world_free(world);
    if (write(fd, &result, sizeof(result)) != (ssize_t)sizeof(result))
        _exit(2);
    fflush(stdout);
    exit(0); /* so that sanitizers look for leaks */
}

void play_start(struct play *play, const struct story *story, const struct tale *tale,
                const struct play_options *options)
{
    int fds[2];
    pid_t pid;

    fflush(stdout);
    if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        perror("world");
        abort();
    }
    if (pid == 0) {
        close(fds[0]);
        child(fds[1], story, tale, options);
    }
    close(fds[1]);
    *play = (struct play){.pid = pid, .fd = fds[0]};
}

void play_wait(struct play *play, struct play_result *ret)
{
    int status = 0;
    bool whole = read(play->fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);

    close(play->fd);
    while (waitpid(play->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (whole && status == 0)
        return;
    *ret = (struct play_result){0};
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF))
        snprintf(ret->rule, sizeof(ret->rule), "0-hangs");
    else
        snprintf(ret->rule, sizeof(ret->rule), "0-crash");
    snprintf(ret->text, sizeof(ret->text), "the process ended with %s %d",
             WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

void play_story(const struct story *story, const struct play_options *options, struct play_result *ret)
{
    struct play play;

    play_start(&play, story, NULL, options);
    play_wait(&play, ret);
}

/* ---- shrinking ---- */

struct shrinking {
    const struct play_options *options;
    const char *rule;
    time_t end;
    unsigned tried;
};

static bool still_broken(struct shrinking *shrinking, const struct story *story)
{
    struct play_result result;

    shrinking->tried++;
    play_story(story, shrinking->options, &result);
    return !result.ok && streq(result.rule, shrinking->rule);
}

/* The story without acts [from, from + len). The lab itself stays. */
static void without(const struct story *story, size_t from, size_t len, struct story *ret)
{
    *ret = (struct story){.seed = story->seed, .hours = story->hours};
    for (size_t i = 0; i < story->acts.len; i++)
        if (i == 0 || i < from || i >= from + len)
            vec_push(&ret->acts, story->acts.v[i]);
}

/* Delta debugging: pieces of half the story, then of a quarter, down to single acts. */
static void drop_acts(struct shrinking *shrinking, struct story *story)
{
    for (size_t piece = (story->acts.len + 1) / 2; piece > 0;) {
        bool dropped = false;

        for (size_t from = 1; from < story->acts.len && time(NULL) < shrinking->end;) {
            struct story less;

            without(story, from, piece, &less);
            if (less.acts.len < story->acts.len && still_broken(shrinking, &less)) {
                story_done(story);
                *story = less;
                dropped = true;
            } else {
                story_done(&less);
                from += piece;
            }
        }
        if (time(NULL) >= shrinking->end)
            return;
        piece = piece > 1 ? (piece + 1) / 2 : dropped ? 1 : 0;
    }
}

/* What an act says beyond what is needed. */
static void plain_acts(struct shrinking *shrinking, struct story *story)
{
    static const size_t members[] = {
        offsetof(struct act, fault),   offsetof(struct act, priority), offsetof(struct act, mib),
        offsetof(struct act, leave_s), offsetof(struct act, down_s),   offsetof(struct act, latency_ms),
        offsetof(struct act, quota),   offsetof(struct act, pull_s),   offsetof(struct act, declared_h),
    };

    for (size_t i = 0; i < story->acts.len; i++)
        for (size_t k = 0; k < ARRAY_LEN(members) && time(NULL) < shrinking->end; k++) {
            int64_t *member = (int64_t *)((char *)&story->acts.v[i] + members[k]), was = *member;

            if (!was)
                continue;
            *member = 0;
            if (!still_broken(shrinking, story))
                *member = was;
        }
}

void shrink(const struct story *story, const struct play_options *options, const struct play_result *found,
            int seconds, struct story *ret)
{
    struct play_options quiet = {.only = options->only};
    struct shrinking shrinking = {.options = &quiet, .rule = found->rule, .end = time(NULL) + seconds};
    struct story cut = {.seed = story->seed, .hours = story->hours};

    VEC_EACH(&story->acts, it) /* what comes after the finding cannot matter */
        if (!found->broken_at_ms || it->at_ms <= found->broken_at_ms)
            vec_push(&cut.acts, *it);
    if (cut.acts.len < story->acts.len && !still_broken(&shrinking, &cut)) {
        story_done(&cut);
        story_copy(story, &cut);
    }
    drop_acts(&shrinking, &cut);
    plain_acts(&shrinking, &cut);
    *ret = cut;
}
