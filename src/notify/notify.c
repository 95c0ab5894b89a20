/* Each message is a value in the store under a growing number. In memory there are only its number, its age
 * and its place in a lane; the payload is read again for each try. Lanes that may be tried wait in their
 * host's list, the others in a heap by time. */
#include "notify/notify.h"

#include "base/file.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"

#include <stddef.h>

#define LOG_MODULE "notify"
#include "base/log.h"

#define HANDLERS_MAX    8
#define START_JITTER_NS (NSEC_PER_SEC / 2) /* after a restart not all at once */

struct host;

struct entry {
    struct entry *next;
    uint64_t number;
    int64_t expires;
    bool durable; /* nothing is sent that a crash could take back */
};

struct lane {
    char *name;
    struct host *host;
    struct entry *head, **tail;
    size_t len;
    unsigned tries;
    int64_t next_at; /* monotonic */
    size_t place;    /* in the heap */
    struct lane *next_ready;
    bool ready, active;
    char why[NOTIFY_WHY_MAX];
};

struct host {
    char *name;
    unsigned active;
    size_t lanes;
    struct lane *ready, **ready_tail;
    struct host *next; /* in the ring of hosts with something ready */
    bool in_ring;
};

struct notify_delivery {
    struct notify *notify;
    struct lane *lane;
    const struct notify_handler *handler;
    struct arena arena;
    struct notify_delivery *next, *prev;
};

struct notify {
    struct notify_config config;
    const struct notify_handler *handlers[HANDLERS_MAX];
    size_t handler_count;
    struct map *lanes, *hosts;
    struct heap sleeping;
    struct loop_timer *timer, *pumping; /* pumping: once for all that became durable together */
    struct host *ring, **ring_tail;
    struct notify_delivery *deliveries;
    size_t active, waiting;
    uint64_t last_number;
    bool stopped;
};

static void pump(struct notify *notify);

static bool sooner(const void *a, const void *b)
{
    const struct lane *left = a, *right = b;

    return left->next_at < right->next_at;
}

static int64_t now_of(const struct notify *notify)
{
    return notify->config.now ? notify->config.now(notify->config.arg) : clock_now();
}

static char *number_key(uint64_t number, char key[24])
{
    snprintf(key, 24, "%020llu", (unsigned long long)number);
    return key;
}

/* A part of span between a half and the whole of it. */
static int64_t jitter(int64_t span)
{
    uint32_t random;

    random_bytes(&random, sizeof(random));
    return span / 2 + (int64_t)((double)span / 2 * ((double)random / UINT32_MAX));
}

/* ---- lanes and hosts ---- */

static struct host *host_need(struct notify *notify, const char *name)
{
    struct host *host = map_get(notify->hosts, str_from(name));

    if (host)
        return host;
    host = NEW(struct host);
    host->name = mem_strdup(name);
    host->ready_tail = &host->ready;
    map_set(notify->hosts, str_from(name), host);
    return host;
}

static struct lane *lane_need(struct notify *notify, const char *name, const char *host)
{
    struct lane *lane = map_get(notify->lanes, str_from(name));

    if (lane)
        return lane;
    lane = NEW(struct lane);
    lane->name = mem_strdup(name);
    lane->host = host_need(notify, host);
    lane->host->lanes++;
    lane->tail = &lane->head;
    lane->place = HEAP_OUT;
    map_set(notify->lanes, str_from(name), lane);
    return lane;
}

static void host_free(struct host *host)
{
    free(host->name);
    free(host);
}

static void lane_free(struct lane *lane)
{
    while (lane->head) {
        struct entry *entry = lane->head;

        lane->head = entry->next;
        free(entry);
    }
    free(lane->name);
    free(lane);
}

/* Where nothing is left in a lane. */
static void lane_forget(struct notify *notify, struct lane *lane)
{
    struct host *host = lane->host;

    if (lane->head || lane->active || lane->ready)
        return;
    if (lane->place != HEAP_OUT)
        heap_remove(&notify->sleeping, lane);
    map_remove(notify->lanes, str_from(lane->name));
    lane_free(lane);
    if (--host->lanes == 0 && !host->in_ring) {
        map_remove(notify->hosts, str_from(host->name));
        host_free(host);
    }
}

static void set_timer(struct notify *notify)
{
    const struct lane *first = heap_first(&notify->sleeping);
    int64_t now = clock_monotonic();

    if (first)
        loop_timer_set(notify->timer, first->next_at > now ? first->next_at - now : 0);
    else
        loop_timer_stop(notify->timer);
}

static void lane_ready(struct notify *notify, struct lane *lane)
{
    struct host *host = lane->host;

    if (lane->ready || lane->active)
        return;
    lane->ready = true;
    lane->next_ready = NULL;
    *host->ready_tail = lane;
    host->ready_tail = &lane->next_ready;
    if (!host->in_ring) {
        host->in_ring = true;
        host->next = NULL;
        *notify->ring_tail = host;
        notify->ring_tail = &host->next;
    }
}

/* Where its first message may be tried now. */
static void lane_wake(struct notify *notify, struct lane *lane)
{
    if (lane->head && lane->head->durable && lane->place == HEAP_OUT)
        lane_ready(notify, lane);
}

static void lane_sleep(struct notify *notify, struct lane *lane, int64_t delay)
{
    lane->next_at = clock_monotonic() + delay;
    heap_push(&notify->sleeping, lane);
    set_timer(notify);
}

static void on_timer(void *arg)
{
    struct notify *notify = arg;
    int64_t now = clock_monotonic();
    struct lane *lane;

    while ((lane = heap_first(&notify->sleeping)) && lane->next_at <= now) {
        heap_remove(&notify->sleeping, lane);
        lane_wake(notify, lane);
    }
    set_timer(notify);
    pump(notify);
}

static void drop_first(struct notify *notify, struct lane *lane)
{
    struct entry *entry = lane->head;
    char key[24];

    store_value_set(notify->config.store, NOTIFY_TABLE, number_key(entry->number, key), (struct str){0});
    lane->head = entry->next;
    if (!lane->head)
        lane->tail = &lane->head;
    lane->len--;
    lane->tries = 0;
    notify->waiting--;
    free(entry);
}

static void give_up(struct notify *notify, struct lane *lane, const char *why)
{
    log_warn("a message to %s was given up: %s", lane->host->name, why);
    if (notify->config.lost)
        notify->config.lost(notify->config.arg, lane->name, why);
    drop_first(notify, lane);
}

/* ---- deliveries ---- */

static const struct notify_handler *handler_of(const struct notify *notify, const char *name)
{
    for (size_t i = 0; i < notify->handler_count; i++)
        if (streq(notify->handlers[i]->name, name))
            return notify->handlers[i];
    return NULL;
}

static void delivery_done(struct notify_delivery *delivery)
{
    arena_done(&delivery->arena);
    free(delivery);
}

static void delivery_free(struct notify_delivery *delivery)
{
    if (delivery->next)
        delivery->next->prev = delivery->prev;
    if (delivery->prev)
        delivery->prev->next = delivery->next;
    else
        delivery->notify->deliveries = delivery->next;
    delivery_done(delivery);
}

/* False when the first message of the lane was none that can be sent: it is gone. */
static bool start_first(struct notify *notify, struct lane *lane)
{
    struct notify_delivery *delivery = NEW(struct notify_delivery);
    const struct notify_handler *handler;
    struct json *doc = NULL;
    char key[24];

    delivery->notify = notify;
    delivery->lane = lane;
    delivery->next = notify->deliveries;
    if (delivery->next)
        delivery->next->prev = delivery;
    notify->deliveries = delivery;
    json_parse(store_value(notify->config.store, NOTIFY_TABLE, number_key(lane->head->number, key)),
               &delivery->arena, &doc, NULL, NULL);
    handler = handler_of(notify, json_string_or(json_get(doc, "handler"), ""));
    if (!handler || !json_get(doc, "payload")) {
        delivery_free(delivery);
        give_up(notify, lane, "nobody here can send it");
        return false;
    }
    delivery->handler = handler;
    lane->active = true;
    lane->host->active++;
    notify->active++;
    handler->start(handler->arg, delivery, json_get(doc, "payload"));
    return true;
}

static void start_lane(struct notify *notify, struct lane *lane)
{
    while (lane->head && lane->head->durable && !start_first(notify, lane)) {
    }
    lane_forget(notify, lane);
}

/* Hosts take turns; one that has all its places stays out of the ring until a delivery of it ends. */
static void pump(struct notify *notify)
{
    while (notify->ring && notify->active < NOTIFY_ACTIVE_MAX && !notify->stopped) {
        struct host *host = notify->ring;
        struct lane *lane = host->ready;

        notify->ring = host->next;
        if (!notify->ring)
            notify->ring_tail = &notify->ring;
        host->in_ring = false;
        if (lane && host->active < NOTIFY_HOST_MAX) {
            host->ready = lane->next_ready;
            if (!host->ready)
                host->ready_tail = &host->ready;
            lane->ready = false;
            if (host->ready && host->active + 1 < NOTIFY_HOST_MAX) {
                host->in_ring = true;
                host->next = NULL;
                *notify->ring_tail = host;
                notify->ring_tail = &host->next;
            }
            start_lane(notify, lane);
        }
    }
}

/* After the end of a delivery its host may have a place again. */
static void host_again(struct notify *notify, struct host *host)
{
    if (host->ready && !host->in_ring) {
        host->in_ring = true;
        host->next = NULL;
        *notify->ring_tail = host;
        notify->ring_tail = &host->next;
    }
}

static void try_later(struct notify *notify, struct lane *lane, const char *why, int64_t after_sec)
{
    int64_t delay = notify->config.first_nsec, after;

    snprintf(lane->why, sizeof(lane->why), "%s", why);
    for (unsigned i = 0; i < lane->tries && delay < notify->config.max_nsec; i++)
        delay *= 2;
    lane->tries++;
    delay = jitter(delay < notify->config.max_nsec ? delay : notify->config.max_nsec);
    after = clock_after(0, after_sec);
    if (after > delay)
        delay = after < notify->config.max_nsec ? after : notify->config.max_nsec;
    if (lane->tries >= NOTIFY_TRIES_MIN && now_of(notify) + delay >= lane->head->expires) {
        give_up(notify, lane, why);
        if (lane->head)
            lane_sleep(notify, lane, delay);
    } else {
        lane_sleep(notify, lane, delay);
    }
}

void notify_finished(struct notify_delivery *delivery, enum notify_result result, const char *why,
                     int64_t after_sec)
{
    struct notify *notify = delivery->notify;
    struct lane *lane = delivery->lane;
    struct host *host = lane->host;

    delivery_free(delivery);
    lane->active = false;
    host->active--;
    notify->active--;
    if (result == NOTIFY_RETRY) {
        try_later(notify, lane, why, after_sec);
    } else {
        lane->why[0] = '\0';
        if (result == NOTIFY_NEVER)
            give_up(notify, lane, why);
        else
            drop_first(notify, lane);
        lane_wake(notify, lane);
    }
    host_again(notify, host);
    lane_forget(notify, lane);
    pump(notify);
}

/* ---- pushing ---- */

static void append(struct notify *notify, struct lane *lane, uint64_t number, int64_t expires, bool durable)
{
    struct entry *entry = NEW(struct entry);

    entry->number = number;
    entry->expires = expires;
    entry->durable = durable;
    *lane->tail = entry;
    lane->tail = &entry->next;
    lane->len++;
    notify->waiting++;
    if (number > notify->last_number)
        notify->last_number = number;
}

/* A message on its way to the disk. */
struct pushed {
    struct notify *notify;
    uint64_t number;
    char lane[];
};

static void take_back(struct notify *notify, struct lane *lane, struct entry **at)
{
    struct entry *entry = *at;

    *at = entry->next;
    if (!*at)
        lane->tail = at;
    lane->len--;
    notify->waiting--;
    free(entry);
}

/* Where the commit failed the store has undone it, and so do we. */
static void on_pushed(void *arg, const struct err *err)
{
    struct pushed *pushed = arg;
    struct notify *notify = pushed->notify;
    struct lane *lane = map_get(notify->lanes, str_from(pushed->lane));
    struct entry **at = lane ? &lane->head : NULL;

    while (at && *at && (*at)->number != pushed->number)
        at = &(*at)->next;
    free(pushed);
    if (!at || !*at)
        return;
    if (err)
        take_back(notify, lane, at);
    else
        (*at)->durable = true;
    lane_wake(notify, lane);
    lane_forget(notify, lane);
    if (!notify->stopped)
        loop_timer_set(notify->pumping, 0);
}

static void pump_all(void *arg)
{
    pump(arg);
}

static void wait_for_disk(struct notify *notify, const struct lane *lane, uint64_t number)
{
    size_t size = strlen(lane->name) + 1;
    struct pushed *pushed = mem_alloc(sizeof(*pushed) + size);

    pushed->notify = notify;
    pushed->number = number;
    memcpy(pushed->lane, lane->name, size);
    store_defer(notify->config.store, on_pushed, pushed);
}

int notify_push(struct notify *notify, const struct notify_message *message, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = json_new_object(&arena);
    int64_t expires = now_of(notify) + notify->config.keep_nsec;
    uint64_t number = notify->last_number + 1;
    char key[24], time[CLOCK_TEXT_MAX];
    struct lane *lane;

    if (notify->waiting >= NOTIFY_QUEUE_MAX)
        return err_set(err, ERR_LIMIT, "more than %d messages wait for delivery", NOTIFY_QUEUE_MAX);
    lane = lane_need(notify, message->lane, message->host);
    if (lane->len >= NOTIFY_LANE_MAX)
        return err_set(err, ERR_LIMIT, "more than %d messages wait for one receiver", NOTIFY_LANE_MAX);
    json_set_string(&arena, doc, "handler", message->handler);
    json_set_string(&arena, doc, "lane", message->lane);
    json_set_string(&arena, doc, "host", message->host);
    json_set_string(&arena, doc, "expires", clock_format(expires, time));
    json_set(&arena, doc, "payload", *message->payload);
    json_write(&text, doc);
    store_value_set(notify->config.store, NOTIFY_TABLE, number_key(number, key), buf_view(&text));
    append(notify, lane, number, expires, false);
    wait_for_disk(notify, lane, number);
    return 0;
}

static void take_up(void *arg, const char *key, struct str value)
{
    struct notify *notify = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;
    int64_t expires = 0;
    uint64_t number;

    if (!str_to_uint(str_from(key + strspn(key, "0")), &number) ||
        json_parse(value, &arena, &doc, NULL, NULL) < 0)
        return;
    clock_parse(json_str(json_get(doc, "expires")), &expires);
    append(notify,
           lane_need(notify, json_string_or(json_get(doc, "lane"), ""),
                     json_string_or(json_get(doc, "host"), "")),
           number, expires, true);
}

void notify_start(struct notify *notify)
{
    struct str key;
    void *value;
    size_t at = 0;

    store_values(notify->config.store, NOTIFY_TABLE, take_up, notify);
    while (map_next(notify->lanes, &at, &key, &value))
        lane_sleep(notify, value, jitter(START_JITTER_NS));
}

void notify_lane(const struct notify *notify, const char *name, struct notify_lane_state *ret)
{
    const struct lane *lane = map_get(notify->lanes, str_from(name));
    int64_t now = clock_monotonic();

    *ret = (struct notify_lane_state){.why = ""};
    if (!lane)
        return;
    ret->waiting = lane->len;
    ret->tries = lane->tries;
    ret->why = lane->why;
    if (lane->place != HEAP_OUT && lane->next_at > now)
        ret->next_nsec = lane->next_at - now;
}

/* ---- start and end ---- */

void notify_add_handler(struct notify *notify, const struct notify_handler *handler)
{
    if (notify->handler_count < HANDLERS_MAX)
        notify->handlers[notify->handler_count++] = handler;
}

struct notify *notify_new(const struct notify_config *config)
{
    struct notify *notify = NEW(struct notify);

    notify->config = *config;
    if (!notify->config.first_nsec)
        notify->config.first_nsec = NOTIFY_FIRST_NSEC;
    if (!notify->config.max_nsec)
        notify->config.max_nsec = NOTIFY_MAX_NSEC;
    if (!notify->config.keep_nsec)
        notify->config.keep_nsec = NOTIFY_KEEP_NSEC;
    notify->lanes = map_new();
    notify->hosts = map_new();
    heap_init(&notify->sleeping, sooner, offsetof(struct lane, place));
    notify->timer = loop_timer_new(config->loop, on_timer, notify);
    notify->pumping = loop_timer_new(config->loop, pump_all, notify);
    notify->ring_tail = &notify->ring;
    return notify;
}

void notify_stop(struct notify *notify)
{
    if (!notify)
        return;
    notify->stopped = true;
    loop_timer_stop(notify->timer);
    loop_timer_stop(notify->pumping);
    for (struct notify_delivery *it = TAKE_PTR(notify->deliveries), *next; it; it = next) {
        next = it->next;
        it->handler->cancel(it->handler->arg, it);
        delivery_done(it);
    }
}

void notify_free(struct notify *notify)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (!notify)
        return;
    notify_stop(notify);
    heap_done(&notify->sleeping); /* which writes to the lanes */
    while (map_next(notify->lanes, &at, &key, &value))
        lane_free(value);
    at = 0;
    while (map_next(notify->hosts, &at, &key, &value))
        host_free(value);
    map_free(notify->lanes);
    map_free(notify->hosts);
    loop_timer_free(notify->timer);
    loop_timer_free(notify->pumping);
    free(notify);
}
