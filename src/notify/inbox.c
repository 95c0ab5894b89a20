/* A box is a table of values: the key names the thing that happened (job, kind, once), so that telling it
 * again finds it; the value begins with the item's id in IDS_LEN digits, so that the oldest is found without
 * reading documents. Values are in memory and undone by the store when a commit fails, so nothing is kept
 * here but the last id and a count for the limit of all boxes. */
#include "notify/inbox.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"

#include <stdio.h>

#define LOG_MODULE "inbox"
#include "base/log.h"

#define ID_LEN 20

struct inbox_watch {
    struct inbox *inbox; /* NULL: unwatched while being called */
    inbox_watch_fn fn;
    void *arg;
};

struct inbox {
    struct store *store;
    int64_t last_id;
    size_t total; /* at least as many as there are */
    void (*on_item)(void *arg, const char *user, const struct json *item);
    void *on_item_arg;
    VEC(struct inbox_watch *) watches;
    bool calling;
};

static const struct {
    const char *name, *title;
} kinds[INBOX_KINDS] = {
    [INBOX_PREEMPTED] = {"preempted", "preempted"},
    [INBOX_RESIZED] = {"resized", "resized"},
    [INBOX_FAILED] = {"failed", "failed"},
    [INBOX_SUCCEEDED] = {"succeeded", "finished"},
    [INBOX_CANCELLED] = {"cancelled", "cancelled"},
    [INBOX_OVER_MEMORY] = {"over-memory", "over its memory"},
    [INBOX_CANNOT_START] = {"cannot-start", "cannot start"},
    [INBOX_NOTICE] = {"notice", "notice"},
};

const char *inbox_kind_name(enum inbox_kind kind)
{
    return kinds[kind].name;
}

const char *inbox_kind_title(enum inbox_kind kind)
{
    return kinds[kind].title;
}

bool inbox_kind_find(struct str name, enum inbox_kind *ret)
{
    for (size_t i = 0; i < INBOX_KINDS; i++)
        if (str_eq(name, str_from(kinds[i].name))) {
            *ret = (enum inbox_kind)i;
            return true;
        }
    return false;
}

/* ---- boxes ---- */

static char *box_table(struct arena *arena, const char *user)
{
    return arena_printf(arena, INBOX_BOX_TABLE, user);
}

static int64_t value_id(struct str value)
{
    int64_t id = 0;

    for (size_t i = 0; i < ID_LEN && i < value.len; i++)
        id = id * 10 + (value.s[i] - '0');
    return id;
}

static struct str value_doc(struct str value)
{
    return value.len > ID_LEN ? (struct str){value.s + ID_LEN, value.len - ID_LEN} : (struct str){0};
}

struct inbox_entry {
    int64_t id;
    const char *key;
    struct str doc; /* the store's */
};

struct inbox_box {
    struct arena *arena;
    VEC(struct inbox_entry) entries; /* newest first */
};

static void add_entry(void *arg, const char *key, struct str value)
{
    struct inbox_box *box = arg;

    vec_push(&box->entries,
             (struct inbox_entry){value_id(value), arena_strdup(box->arena, key), value_doc(value)});
}

static int newest_first(const void *a, const void *b)
{
    const struct inbox_entry *x = a, *y = b;

    return x->id < y->id ? 1 : x->id > y->id ? -1 : 0;
}

static void box_read(const struct inbox *inbox, const char *user, struct arena *arena, struct inbox_box *ret)
{
    ret->arena = arena;
    store_values(inbox->store, box_table(arena, user), add_entry, ret);
    if (ret->entries.len)
        qsort(ret->entries.v, ret->entries.len, sizeof(*ret->entries.v), newest_first);
}

static void box_trim(struct inbox *inbox, const char *user, size_t keep)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct inbox_box box = {0};

    box_read(inbox, user, &arena, &box);
    for (size_t i = keep; i < box.entries.len; i++) {
        store_value_set(inbox->store, box_table(&arena, user), box.entries.v[i].key, (struct str){0});
        inbox->total--;
    }
    vec_done(&box.entries);
}

struct inbox_census {
    struct inbox *inbox;
    size_t total, largest;
    char *user; /* of the largest box */
};

static void count_entry(void *arg, const char *key, struct str value)
{
    (void)key;
    (void)value;
    (*(size_t *)arg)++;
}

static void count_box(void *arg, const char *user, struct str seen)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct inbox_census *census = arg;
    size_t count = 0;

    (void)seen;
    store_values(census->inbox->store, box_table(&arena, user), count_entry, &count);
    census->total += count;
    if (count > census->largest) {
        census->largest = count;
        free(census->user);
        census->user = mem_strdup(user);
    }
}

static void make_room(struct inbox *inbox)
{
    struct inbox_census census = {.inbox = inbox};

    if (inbox->total < INBOX_TOTAL_MAX)
        return;
    store_values(inbox->store, INBOX_SEEN_TABLE, count_box, &census);
    inbox->total = census.total;
    if (inbox->total >= INBOX_TOTAL_MAX && census.user) {
        log_warn("more than %d items in all boxes: the older half of %s's goes", INBOX_TOTAL_MAX,
                 census.user);
        box_trim(inbox, census.user, census.largest / 2);
    }
    free(census.user);
}

static int64_t seen_of(const struct inbox *inbox, const char *user)
{
    int64_t id = 0;

    str_to_int(store_value(inbox->store, INBOX_SEEN_TABLE, user), &id);
    return id;
}

static void set_seen(struct inbox *inbox, const char *user, int64_t id)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)id);
    store_value_set(inbox->store, INBOX_SEEN_TABLE, user, str_from(text));
}

/* ---- who watches ---- */

struct inbox_news {
    struct inbox *inbox;
    char *user;
};

static void inbox_sweep(struct inbox *inbox)
{
    size_t kept = 0;

    VEC_EACH(&inbox->watches, it) {
        if ((*it)->inbox)
            inbox->watches.v[kept++] = *it;
        else
            free(*it);
    }
    inbox->watches.len = kept;
}

static void inbox_on_durable(void *arg, const struct err *err)
{
    struct inbox_news *news = arg;
    struct inbox *inbox = news->inbox;

    inbox->calling = true;
    for (size_t i = 0; !err && i < inbox->watches.len; i++)
        if (inbox->watches.v[i]->inbox)
            inbox->watches.v[i]->fn(inbox->watches.v[i]->arg, news->user);
    inbox->calling = false;
    inbox_sweep(inbox);
    free(news->user);
    free(news);
}

static void tell_watches(struct inbox *inbox, const char *user)
{
    struct inbox_news *news;

    if (inbox->watches.len == 0)
        return;
    news = NEW(struct inbox_news);
    news->inbox = inbox;
    news->user = mem_strdup(user);
    store_defer(inbox->store, inbox_on_durable, news);
}

struct inbox_watch *inbox_watch(struct inbox *inbox, inbox_watch_fn fn, void *arg)
{
    struct inbox_watch *watch = NEW(struct inbox_watch);

    *watch = (struct inbox_watch){inbox, fn, arg};
    vec_push(&inbox->watches, watch);
    return watch;
}

void inbox_unwatch(struct inbox_watch *watch)
{
    struct inbox *inbox = watch ? watch->inbox : NULL;

    if (!inbox)
        return;
    watch->inbox = NULL;
    if (!inbox->calling)
        inbox_sweep(inbox);
}

/* ---- telling ---- */

/* As much of a text as may be, never half a character of UTF-8. */
static struct str cut(const char *text)
{
    struct str ret = str_from(text ? text : "");

    if (ret.len <= INBOX_TEXT_MAX)
        return ret;
    ret.len = INBOX_TEXT_MAX;
    while (ret.len && ((unsigned char)ret.s[ret.len] & 0xc0) == 0x80)
        ret.len--;
    return ret;
}

static void set_known(struct arena *arena, struct json *doc, const char *key, const char *text)
{
    if (text && *text)
        json_set(arena, doc, key, json_of_str(arena, cut(text)));
}

static void put(struct inbox *inbox, const struct inbox_item *item, const char *table, const char *key,
                struct arena *arena)
{
    CLEANUP(buf_done) struct buf value = {0};
    struct json *doc = json_new_object(arena);
    char time[CLOCK_TEXT_MAX];

    json_set_int(arena, doc, "id", ++inbox->last_id);
    json_set_string(arena, doc, "time", clock_format(item->at_ms * NSEC_PER_MSEC, time));
    json_set_string(arena, doc, "kind", kinds[item->kind].name);
    set_known(arena, doc, "job", item->job);
    set_known(arena, doc, "namespace", item->ns);
    set_known(arena, doc, "name", item->name);
    json_set(arena, doc, "text", json_of_str(arena, cut(item->text)));
    set_known(arena, doc, "by", item->by);
    set_known(arena, doc, "byJob", item->by_job);
    buf_printf(&value, "%0*lld", ID_LEN, (long long)inbox->last_id);
    json_write(&value, doc);
    store_value_set(inbox->store, table, key, buf_view(&value));
    if (inbox->on_item && !item->here)
        inbox->on_item(inbox->on_item_arg, item->user, doc);
}

void inbox_on_item(struct inbox *inbox, void (*fn)(void *arg, const char *user, const struct json *item),
                   void *arg)
{
    inbox->on_item = fn;
    inbox->on_item_arg = arg;
}

bool inbox_tell(struct inbox *inbox, const struct inbox_item *item)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const char *table, *key;
    size_t count = 0;

    if (!inbox || !item->user || !*item->user ||
        (item->kind == INBOX_CANCELLED && (!item->by || streq(item->by, item->user))))
        return false;
    table = box_table(&arena, item->user);
    key = arena_printf(&arena, "%s/%s/%s", item->job ? item->job : "", kinds[item->kind].name,
                       item->once ? item->once : "");
    if (store_value(inbox->store, table, key).s)
        return false;
    make_room(inbox);
    if (!store_value(inbox->store, INBOX_SEEN_TABLE, item->user).s)
        set_seen(inbox, item->user, 0);
    put(inbox, item, table, key, &arena);
    inbox->total++;
    store_values(inbox->store, table, count_entry, &count);
    if (count > INBOX_USER_MAX)
        box_trim(inbox, item->user, INBOX_USER_MAX - INBOX_USER_MAX / 8);
    tell_watches(inbox, item->user);
    return true;
}

/* ---- reading ---- */

struct json *inbox_list(const struct inbox *inbox, const char *user, bool unseen, size_t limit,
                        struct arena *arena)
{
    struct json *out = json_new_object(arena), *items = json_set_array(arena, out, "items");
    int64_t seen = seen_of(inbox, user);
    struct inbox_box box = {0};
    size_t count = 0, new = 0;

    box_read(inbox, user, arena, &box);
    VEC_EACH(&box.entries, it) {
        struct json *doc = NULL;

        new += it->id > seen;
        if ((unseen && it->id <= seen) || (limit && count >= limit) ||
            json_parse(it->doc, arena, &doc, NULL, NULL) < 0)
            continue;
        json_set_bool(arena, doc, "seen", it->id <= seen);
        json_push(arena, items, *doc);
        count++;
    }
    json_set_int(arena, out, "unseen", (int64_t) new);
    json_set_int(arena, out, "last", box.entries.len ? box.entries.v[0].id : 0);
    vec_done(&box.entries);
    return out;
}

struct inbox_unseen_count {
    int64_t seen;
    size_t count;
};

static void count_unseen(void *arg, const char *key, struct str value)
{
    struct inbox_unseen_count *unseen = arg;

    (void)key;
    unseen->count += value_id(value) > unseen->seen;
}

size_t inbox_unseen(const struct inbox *inbox, const char *user)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct inbox_unseen_count unseen = {.seen = seen_of(inbox, user)};

    store_values(inbox->store, box_table(&arena, user), count_unseen, &unseen);
    return unseen.count;
}

void inbox_see(struct inbox *inbox, const char *user, int64_t id)
{
    if (id > inbox->last_id)
        id = inbox->last_id;
    if (id <= seen_of(inbox, user) || !store_value(inbox->store, INBOX_SEEN_TABLE, user).s)
        return;
    set_seen(inbox, user, id);
    tell_watches(inbox, user);
}

/* ---- start and end ---- */

static void last_of_entry(void *arg, const char *key, struct str value)
{
    struct inbox *inbox = arg;

    (void)key;
    inbox->total++;
    if (value_id(value) > inbox->last_id)
        inbox->last_id = value_id(value);
}

static void last_of_box(void *arg, const char *user, struct str seen)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct inbox *inbox = arg;
    int64_t id = 0;

    store_values(inbox->store, box_table(&arena, user), last_of_entry, inbox);
    if (str_to_int(seen, &id) && id > inbox->last_id) /* its items may have gone */
        inbox->last_id = id;
}

struct inbox *inbox_new(struct store *store)
{
    struct inbox *inbox = NEW(struct inbox);

    inbox->store = store;
    store_values(store, INBOX_SEEN_TABLE, last_of_box, inbox);
    return inbox;
}

void inbox_free(struct inbox *inbox)
{
    if (!inbox)
        return;
    VEC_EACH(&inbox->watches, it)
        free(*it);
    vec_done(&inbox->watches);
    free(inbox);
}
