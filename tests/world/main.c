/* main.c - world: plays stories by seed, by file or by name, and makes short ones of those that break a rule.
 *
 *     world --seed 4711 --hours 48     one story
 *     world --minutes 2                as many as fit, a day each
 *     world --replay FILE              one that was written down
 *     world --stories=NAME             the scripted ones whose name has that in it; all without one
 *     world --break 3 --minutes 1      with that rule broken on purpose (base/break.h)
 *
 * Status 0: no rule was broken. 1: one was; the short story is printed, and is in FILE of --save. */
#include "base/break.h"
#include "base/file.h"
#include "base/str.h"
#include "play.h"
#include "rules.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define JOBS_MAX       16
#define SHRINK_SECONDS 60
#define SAMPLES_MAX    100000
#define END_PERCENT    15 /* rule 8: the median of how far ends are off that are told after two epochs */
#define END_SAMPLES    50 /* from so many on it counts */

static const char *const usage =
    "usage: world [--seed N] [--hours H] [--seeds N] [--minutes M] [--jobs J] [--replay FILE] "
    "[--stories[=NAME]]\n"
    "             [--rule RULE] [--break RULE [--expect RULE]] [--save FILE] [--trace] [--log] [--no-shrink] "
    "[--all] [--print]\n";

struct settings {
    uint64_t seed;
    int64_t hours;
    double minutes;
    uint64_t seeds; /* so many, however long it takes; 0: by minutes */
    unsigned jobs;
    const char *replay, *stories, *save, *expect, *breaks;
    bool many, tales, no_shrink, print, all;
    struct play_options play;
};

struct totals {
    uint64_t stories, broken, events, kills, looks;
    int64_t ms;
    int *errors;
    size_t error_count;
};

static double seconds_since(const struct timespec *from)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) + (double)(now.tv_nsec - from->tv_nsec) / 1e9;
}

static void add_up(struct totals *totals, const struct play_result *result)
{
    totals->stories++;
    totals->broken += !result->ok;
    totals->events += result->events;
    totals->kills += result->kills;
    totals->looks += result->looks;
    totals->ms += result->ms;
    for (unsigned i = 0; i < result->end_count && totals->error_count < SAMPLES_MAX; i++)
        totals->errors[totals->error_count++] = result->ends[i];
}

/* ---- one that broke a rule ---- */

static void print_story(const struct settings *settings, const struct story *story,
                        const struct play_result *result)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct err err = {0};

    story_write(story, &text);
    printf("\nrule %s is broken: %s\n(after %.1f h; the story, to be read and to be replayed:)\n\n%s\n",
           result->rule, result->text, (double)result->broken_at_ms / 3600000, text.data);
    if (settings->save && file_write_atomic(settings->save, buf_view(&text), 0644, &err) < 0)
        fprintf(stderr, "world: %s\n", err.msg);
}

static void show_broken(const struct settings *settings, const struct story *story,
                        const struct play_result *result)
{
    CLEANUP(story_done) struct story less = {0};
    struct play_result again;

    printf("seed %" PRIu64 ", %" PRId64 " h: rule %s is broken: %s\n", story->seed, story->hours,
           result->rule, result->text);
    if (settings->no_shrink)
        return;
    shrink(story, &settings->play, result, SHRINK_SECONDS, &less);
    play_story(&less, &(struct play_options){.only = settings->play.only}, &again);
    print_story(settings, &less, &again);
    printf("world --seed %" PRIu64 " --hours %" PRId64 " --rule %s plays the long one.\n", story->seed,
           story->hours, result->rule);
}

/* ---- ways to run ---- */

static bool run_one(const struct settings *settings, const struct story *story, struct totals *totals)
{
    struct play_result result;

    play_story(story, &settings->play, &result);
    add_up(totals, &result);
    printf("seed %" PRIu64 ": %zu acts, %.0f h, %" PRIu64 " events, %" PRIu64 " kills, hash %016" PRIx64
           "%s\n",
           story->seed, story->acts.len, (double)result.ms / 3600000, result.events, result.kills,
           result.hash, result.ok ? "" : ", BROKEN");
    if (!result.ok)
        show_broken(settings, story, &result);
    return result.ok;
}

struct slot {
    struct play play;
    struct story story;
    bool busy;
};

static bool finish(const struct settings *settings, struct slot *slot, struct totals *totals)
{
    struct play_result result;

    play_wait(&slot->play, &result);
    slot->busy = false;
    add_up(totals, &result);
    if (!result.ok)
        show_broken(settings, &slot->story, &result);
    story_done(&slot->story);
    return result.ok;
}

/* Seeds one after another, `jobs` at a time, each in its place in turn. */
static bool run_many(const struct settings *settings, struct totals *totals)
{
    struct slot slots[JOBS_MAX] = {0};
    struct timespec start;
    uint64_t seed = settings->seed;
    bool ok = true;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned at = 0;
         (ok || settings->all) && (settings->seeds ? seed < settings->seed + settings->seeds
                                                   : seconds_since(&start) < settings->minutes * 60);
         at = (at + 1) % settings->jobs) {
        struct slot *slot = &slots[at];

        if (slot->busy)
            ok = finish(settings, slot, totals) && ok;
        if (!ok && !settings->all)
            break;
        story_generate(seed++, settings->hours, &slot->story);
        play_start(&slot->play, &slot->story, NULL, &settings->play);
        slot->busy = true;
    }
    for (unsigned i = 0; i < settings->jobs; i++)
        if (slots[i].busy)
            ok = finish(settings, &slots[i], totals) && ok;
    printf("world: %" PRIu64 " stories, %.0f simulated hours, %" PRIu64 " events, %" PRIu64
           " looks, the daemon killed %" PRIu64 " times, in %.0f s; %" PRIu64 " broke a rule\n",
           totals->stories, (double)totals->ms / 3600000, totals->events, totals->looks, totals->kills,
           seconds_since(&start), totals->broken);
    return ok;
}

static bool run_tale(const struct settings *settings, const struct tale *tale, unsigned *known)
{
    struct play_result result;
    struct play play;

    play_start(&play, NULL, tale, &settings->play);
    play_wait(&play, &result);
    if (rules_known_broken(tale->name)) {
        (*known)++;
        printf("  %-9s %s\n", result.ok ? "MENDED" : "broken", tale->name);
        if (result.ok)
            printf("            take it off the list in broken.c\n");
        return !result.ok;
    }
    printf("  %-9s %s\n", result.ok ? "ok" : "BROKEN", tale->name);
    if (!result.ok)
        printf("            %s: %s\n            (%s)\n", result.rule, result.text, tale->shows);
    return result.ok;
}

static bool run_tales(const struct settings *settings)
{
    unsigned count = 0, known = 0;
    bool ok = true;

    for (const struct tale *const *list = tale_lists; *list; list++)
        for (const struct tale *tale = *list; tale->name; tale++)
            if (!settings->stories || strstr(tale->name, settings->stories)) {
                ok = run_tale(settings, tale, &known) && ok;
                count++;
            }
    printf("world: %u scripted stories, %u of them known to be broken\n", count, known);
    return ok && count > 0;
}

static int by_size(const void *a, const void *b)
{
    int left = abs(*(const int *)a), right = abs(*(const int *)b);

    return left < right ? -1 : left > right;
}

/* Rule 8, over all stories. */
static bool print_ends(struct totals *totals)
{
    int median;

    if (totals->error_count == 0)
        return true;
    qsort(totals->errors, totals->error_count, sizeof(int), by_size);
    median = abs(totals->errors[totals->error_count / 2]);
    printf("world: ends told after two epochs are %d %% off in the median (of %zu)\n", median,
           totals->error_count);
    return totals->error_count < END_SAMPLES || median <= END_PERCENT || rules_known_broken("8-ends");
}

/* ---- arguments ---- */

static int read_arguments(int argc, char **argv, struct settings *ret)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},
        {"hours", required_argument, NULL, 'h'},
        {"seeds", required_argument, NULL, 'N'},
        {"minutes", required_argument, NULL, 'm'},
        {"jobs", required_argument, NULL, 'j'},
        {"replay", required_argument, NULL, 'r'},
        {"stories", optional_argument, NULL, 't'},
        {"rule", required_argument, NULL, 'u'},
        {"save", required_argument, NULL, 'o'},
        {"expect", required_argument, NULL, 'e'},
        {"trace", no_argument, NULL, 'v'},
        {"log", no_argument, NULL, 'l'},
        {"no-shrink", no_argument, NULL, 'n'},
        {"break", required_argument, NULL, 'b'},
        {"print", no_argument, NULL, 'p'},
        {"all", no_argument, NULL, 'a'},
        {0},
    };
    int option;

    *ret = (struct settings){.seed = 1, .hours = 24, .jobs = 1};
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0)
        switch (option) {
        case 's':
            ret->seed = strtoull(optarg, NULL, 10);
            break;
        case 'h':
            ret->hours = strtoll(optarg, NULL, 10);
            break;
        case 'N':
            ret->seeds = strtoull(optarg, NULL, 10);
            ret->many = true;
            break;
        case 'm':
            ret->minutes = strtod(optarg, NULL);
            ret->many = true;
            break;
        case 'j':
            ret->jobs = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            ret->replay = optarg;
            break;
        case 't':
            ret->tales = true;
            ret->stories = optarg;
            break;
        case 'u':
            ret->play.only = optarg;
            break;
        case 'e':
            ret->expect = optarg;
            ret->play.only = optarg;
            break;
        case 'b':
            ret->breaks = optarg;
            break;
        case 'o':
            ret->save = optarg;
            break;
        case 'v':
            ret->play.trace = true;
            break;
        case 'l':
            ret->play.log = true;
            break;
        case 'n':
            ret->no_shrink = true;
            break;
        case 'p':
            ret->print = true;
            break;
        case 'a':
            ret->all = true;
            break;
        default:
            return -1;
        }
    return optind == argc && ret->jobs > 0 && ret->jobs <= JOBS_MAX && ret->hours > 0 ? 0 : -1;
}

static bool break_one(const char *rule)
{
#ifdef BERTH_BREAK_RULES
    rule_to_break = rule;
    return true;
#else
    fprintf(stderr, "world: rule %s cannot be broken in this build; one made with -Dbreak_rules=true can\n",
            rule);
    return false;
#endif
}

int main(int argc, char **argv)
{
    CLEANUP(free) int *errors = mem_zalloc(SAMPLES_MAX * sizeof(int));
    CLEANUP(story_done) struct story story = {0};
    struct totals totals = {.errors = errors};
    struct settings settings;
    struct err err = {0};
    bool ok;

    if (read_arguments(argc, argv, &settings) < 0) {
        fputs(usage, stderr);
        return 2;
    }
    if (settings.breaks && !break_one(settings.breaks))
        return 2;
    str_hash_use(4711);
    rules_print_known_broken();
    if (settings.tales)
        return run_tales(&settings) ? 0 : 1;
    if (settings.many) {
        ok = run_many(&settings, &totals);
        ok = print_ends(&totals) && ok;
        return settings.expect ? ok : !ok;
    }
    if (settings.replay && story_read(settings.replay, &story, &err) < 0) {
        fprintf(stderr, "world: %s\n", err.msg);
        return 2;
    }
    if (!settings.replay)
        story_generate(settings.seed, settings.hours, &story);
    if (settings.print) {
        CLEANUP(buf_done) struct buf text = {0};

        story_write(&story, &text);
        fputs(text.data, stdout);
        return 0;
    }
    return run_one(&settings, &story, &totals) ? 0 : 1;
}
