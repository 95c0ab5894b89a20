/* inbox - what happened to each user's work: one item for each thing that happened, kept in the store, read
 * by the page, `berth inbox` and `berth ps`.
 *
 * An item is durable with what else is written in the same turn, and is there exactly once: who tells the
 * same thing again (a step repeated after a crash) adds nothing. Each user has a box of the newest
 * INBOX_USER_MAX items and a mark up to which they have been seen.
 *
 * No clock is asked here and nothing blocks. */
#pragma once

#include "base/json.h"
#include "store/store.h"

#define INBOX_SEEN_TABLE "inbox-seen" /* of store_value: user → id; who has a box is in it */
#define INBOX_BOX_TABLE  "inbox/%s"   /* of one user: key of the thing → id and document */
#define INBOX_USER_MAX   200          /* items of one user; past that the oldest eighth goes */
#define INBOX_TOTAL_MAX  50000        /* of all users; then the largest box is halved */
#define INBOX_TEXT_MAX   500          /* bytes of a text; the rest is cut */

/* In this order in tables; stored by name. */
enum inbox_kind {
    INBOX_PREEMPTED, /* stopped for somebody's job; it waits again, or is gone (a bare pod) */
    INBOX_RESIZED,   /* stopped to go on with another number of GPUs */
    INBOX_FAILED,    /* text: why, and the last line it wrote */
    INBOX_SUCCEEDED,
    INBOX_CANCELLED,    /* by somebody else; told only then */
    INBOX_OVER_MEMORY,  /* it uses more than it reserved */
    INBOX_CANNOT_START, /* text: why */
    INBOX_NOTICE,       /* something will happen: its place was claimed */
    INBOX_KINDS
};
const char *inbox_kind_name(enum inbox_kind kind);           /* "cannot-start" */
bool inbox_kind_find(struct str name, enum inbox_kind *ret); /* false: no such kind */
const char *inbox_kind_title(enum inbox_kind kind);          /* "cannot start", for people */

struct inbox_item {
    const char *user; /* whose work it is; NULL or "": nobody's, nobody is told */
    enum inbox_kind kind;
    const char *job;       /* uid of the job, as rows of the queue have it; NULL: of none */
    const char *ns, *name; /* of the job */
    const char *text;      /* one plain sentence, that goes after "NAME: " */
    const char *by;        /* the user who did it, or whose job it was for; NULL: nobody */
    const char *by_job;    /* name of that job; NULL: none */
    /* What makes it the same thing when it is told again: of one job and kind there is one item for each
     * `once`. The run's number or the pod's uid for what can happen to a job several times; NULL: it can
     * happen once. */
    const char *once;
    bool here; /* for the inbox alone: it is not sent anywhere */
    int64_t at_ms;
};

struct inbox;

/* Borrows the store. */
struct inbox *inbox_new(struct store *store);
void inbox_free(struct inbox *inbox); /* after the store was closed; NULL is fine */
DEFINE_CLEANUP(struct inbox *, inbox_free);

/* False: it has been told already, or concerns nobody (an own cancel). inbox NULL is fine: nobody is told. */
bool inbox_tell(struct inbox *inbox, const struct inbox_item *item);

/* fn is called with each new item, inside inbox_tell: what it writes is durable with the item. One at a time;
 * NULL: nobody. */
void inbox_on_item(struct inbox *inbox, void (*fn)(void *arg, const char *user, const struct json *item),
                   void *arg);

/* {"items": [{"id", "time", "kind", "job", "namespace", "name", "text", "by", "byJob", "seen"}…], newest
 * first, "unseen": how many are not seen, "last": id of the newest}; in the arena. limit 0: all. */
struct json *inbox_list(const struct inbox *inbox, const char *user, bool unseen, size_t limit,
                        struct arena *arena);
size_t inbox_unseen(const struct inbox *inbox, const char *user);
/* All up to this id have been seen; the mark never goes back. */
void inbox_see(struct inbox *inbox, const char *user, int64_t id);

/* fn is called when something new in a user's box is durable, or it was looked at; from the loop, never from
 * inside inbox_tell. */
struct inbox_watch;
typedef void (*inbox_watch_fn)(void *arg, const char *user);
struct inbox_watch *inbox_watch(struct inbox *inbox, inbox_watch_fn fn, void *arg);
void inbox_unwatch(struct inbox_watch *watch); /* NULL is fine; also from its own callback */
