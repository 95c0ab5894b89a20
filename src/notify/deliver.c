/* Each way out is a row of channels[]: how its setting is checked and what message notify gets. */
#include "notify/deliver.h"

#include "base/clock.h"
#include "base/mem.h"
#include "notify/command.h"
#include "notify/mail.h"
#include "notify/notify.h"
#include "notify/webhook.h"

#include <unistd.h>

#define LOG_MODULE "inbox"
#include "base/log.h"

struct deliver {
    struct deliver_config config;
    char *sendmail, *domain;
};

/* One message about one item. */
struct parcel {
    const char *user, *to; /* to: the channel's setting */
    const struct json *item;
    const char *key;
    struct arena *arena;
    bool last; /* what follows is left out */
};

struct channel {
    const char *name; /* of the setting and of notify's handler */
    int (*check)(const struct deliver *deliver, const char *user, const struct json *value, struct err *err);
    struct json *(*pack)(const struct parcel *parcel);
    const char *(*host)(const struct parcel *parcel); /* what shares limits */
};

/* ---- words ---- */

/* "resnet: finished: 60 of 60 epochs are done" */
static const char *sentence(const struct parcel *parcel)
{
    const char *name = json_get_string(parcel->item, "name");
    const char *text = json_string_or(json_get(parcel->item, "text"), "");

    return arena_printf(parcel->arena, "%s%s%s%s", name ? name : "", name ? ": " : "", text,
                        parcel->last ? " (more has happened: berth inbox)" : "");
}

static const char *title_of(const struct json *item)
{
    enum inbox_kind kind = INBOX_NOTICE;

    inbox_kind_find(str_from(json_string_or(json_get(item, "kind"), "")), &kind);
    return inbox_kind_title(kind);
}

/* ---- mail ---- */

static int check_mail(const struct deliver *deliver, const char *user, const struct json *value,
                      struct err *err)
{
    (void)user;
    if (!deliver->sendmail)
        return err_set(err, ERR_FORBIDDEN, "this server sends no mail (setting notify-sendmail)");
    if (access(deliver->sendmail, X_OK) < 0)
        return err_set(err, ERR_FORBIDDEN,
                       "this server cannot send mail: there is no '%s' (setting notify-sendmail)",
                       deliver->sendmail);
    return mail_check_address(json_str(value), err);
}

static struct json *pack_mail(const struct parcel *parcel)
{
    struct arena *arena = parcel->arena;
    struct json *out = json_new_object(arena);
    const char *name = json_get_string(parcel->item, "name"),
               *ns = json_get_string(parcel->item, "namespace");
    CLEANUP(buf_done) struct buf text = {0};

    json_set_string(arena, out, "to", parcel->to);
    json_set_string(
        arena, out, "subject",
        arena_printf(arena, "[berth] %s%s%s", name ? name : "", name ? " " : "", title_of(parcel->item)));
    buf_printf(&text, "%s\n\n%s\n", sentence(parcel), json_string_or(json_get(parcel->item, "time"), ""));
    if (name)
        buf_printf(&text, "\nMore: berth show %s%s%s\n", ns ? ns : "", ns ? "/" : "", name);
    buf_puts(&text, "Stop these mails: berth notify off\n");
    json_set(arena, out, "text", json_of_str(arena, buf_view(&text)));
    json_set_string(arena, out, "time", json_get_string(parcel->item, "time"));
    json_set_string(arena, out, "key", parcel->key);
    return out;
}

static const char *mail_host(const struct parcel *parcel)
{
    (void)parcel;
    return "mail";
}

/* ---- webhooks ---- */

static int check_webhook(const struct deliver *deliver, const char *user, const struct json *value,
                         struct err *err)
{
    (void)user;
    return webhook_check(deliver->config.policy, value, NULL, err);
}

/* Slack takes <…> for links and for calling everybody: what jobs write is to be text. */
static struct json *pack_webhook(const struct parcel *parcel)
{
    struct arena *arena = parcel->arena;
    struct json *out = json_new_object(arena);
    CLEANUP(buf_done) struct buf text = {0};

    for (const char *c = sentence(parcel); *c; c++)
        switch (*c) {
        case '&':
            buf_puts(&text, "&amp;");
            break;
        case '<':
            buf_puts(&text, "&lt;");
            break;
        case '>':
            buf_puts(&text, "&gt;");
            break;
        default:
            buf_putc(&text, *c);
        }
    json_set_string(arena, out, "url", parcel->to);
    json_set(arena, json_set_object(arena, out, "body"), "text", json_of_str(arena, buf_view(&text)));
    json_set_string(arena, out, "key", parcel->key);
    return out;
}

static const char *webhook_lane_host(const struct parcel *parcel)
{
    return webhook_host(parcel->to, parcel->arena);
}

/* ---- commands ---- */

static int check_command(const struct deliver *deliver, const char *user, const struct json *value,
                         struct err *err)
{
    if (!deliver->config.commands)
        return err_set(err, ERR_FORBIDDEN, "this server runs no commands (setting notify-commands)");
    if (streq(user, "root"))
        return err_set(err, ERR_FORBIDDEN, "commands are not run as root");
    if (json_str(value).len > COMMAND_MAX || strlen(json_string(value)) != json_str(value).len)
        return err_set(err, ERR_INVALID, "a command has at most %d bytes", COMMAND_MAX);
    return 0;
}

static struct json *pack_command(const struct parcel *parcel)
{
    struct json *out = json_new_object(parcel->arena);

    json_set_string(parcel->arena, out, "user", parcel->user);
    json_set_string(parcel->arena, out, "command", parcel->to);
    json_set(parcel->arena, out, "item", *json_copy(parcel->arena, parcel->item));
    return out;
}

static const char *command_host(const struct parcel *parcel)
{
    return arena_printf(parcel->arena, "command/%s", parcel->user);
}

static const struct channel channels[] = {
    {"mail", check_mail, pack_mail, mail_host},
    {"webhook", check_webhook, pack_webhook, webhook_lane_host},
    {"command", check_command, pack_command, command_host},
};

/* ---- settings ---- */

int deliver_kinds(struct str text, uint32_t *ret, struct err *err)
{
    struct str part;
    uint32_t kinds = 0;
    enum inbox_kind kind;

    if (str_is(text, "all")) {
        *ret = (UINT32_C(1) << INBOX_KINDS) - 1;
        return 0;
    }
    while (text.len && str_split(&text, ',', &part)) {
        part = str_trim(part);
        if (!inbox_kind_find(part, &kind))
            return err_set(
                err, ERR_INVALID,
                "no kind '%.*s': all, or some of preempted, resized, failed, succeeded, cancelled, "
                "over-memory, cannot-start, notice",
                STR_ARG(part));
        kinds |= UINT32_C(1) << kind;
    }
    if (!kinds)
        return err_set(err, ERR_INVALID, "needs at least one kind");
    *ret = kinds;
    return 0;
}

/* What a user set; NULL: nothing. */
static struct json *settings_of(const struct deliver *deliver, const char *user, struct arena *arena)
{
    struct str text = store_value(deliver->config.store, DELIVER_TABLE, user);
    struct json *doc = NULL;

    return text.s && json_parse(text, arena, &doc, NULL, NULL) == 0 ? doc : NULL;
}

/* With the admin's defaults. */
static struct json *effective(const struct deliver *deliver, const char *user, struct arena *arena)
{
    struct json *doc = settings_of(deliver, user, arena);

    if (doc)
        return doc;
    doc = json_new_object(arena);
    if (deliver->sendmail && deliver->domain && mail_check_address(str_from(user), NULL) == 0 &&
        !strchr(user, '@'))
        json_set_string(arena, doc, "mail", arena_printf(arena, "%s@%s", user, deliver->domain));
    return doc;
}

static uint32_t kinds_of(const struct deliver *deliver, const struct json *settings)
{
    uint32_t kinds = deliver->config.kinds ? deliver->config.kinds : DELIVER_KINDS;

    if (json_get_string(settings, "kinds"))
        deliver_kinds(json_str(json_get(settings, "kinds")), &kinds, NULL);
    return kinds;
}

/* A lane for each place it goes to: what cannot be delivered to an old address does not hold up a new one. */
static const char *lane_of(const char *user, const struct channel *channel, const char *to,
                           struct arena *arena)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (const char *c = to; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return arena_printf(arena, DELIVER_LANE "%s/%016llx/%s", channel->name, (unsigned long long)hash, user);
}

static void show_waiting(const struct deliver *deliver, const char *user, const struct json *settings,
                         struct arena *arena, struct json *list)
{
    for (const struct channel *it = channels; it < channels + ARRAY_LEN(channels); it++) {
        const char *to = json_get_string(settings, it->name);
        struct notify_lane_state state = {0};
        struct json *out;

        if (to)
            notify_lane(deliver->config.notify, lane_of(user, it, to, arena), &state);
        if (!state.waiting)
            continue;
        out = json_push_object(arena, list);
        json_set_string(arena, out, "to", it->name);
        json_set_int(arena, out, "messages", (int64_t)state.waiting);
        json_set_int(arena, out, "tries", state.tries);
        json_set_string(arena, out, "why", state.why);
    }
}

struct json *deliver_show(const struct deliver *deliver, const char *user, struct arena *arena)
{
    const struct json *settings = effective(deliver, user, arena);
    const char *url = json_get_string(settings, "webhook");
    struct json *out = json_new_object(arena), *kinds;
    uint32_t mask = kinds_of(deliver, settings);

    json_set_string(arena, out, "mail", json_get_string(settings, "mail"));
    json_set_string(arena, out, "webhook", url ? arena_printf(arena, "%s…", webhook_host(url, arena)) : NULL);
    json_set_string(arena, out, "command", json_get_string(settings, "command"));
    kinds = json_set_array(arena, out, "kinds");
    for (int i = 0; i < INBOX_KINDS; i++)
        if (mask & UINT32_C(1) << i)
            json_push_string(arena, kinds, inbox_kind_name((enum inbox_kind)i));
    json_set_bool(arena, out, "off", json_bool(json_get(settings, "off")));
    json_set_bool(arena, out, "default", !store_value(deliver->config.store, DELIVER_TABLE, user).s);
    json_set_bool(arena, out, "mailAllowed", deliver->sendmail && access(deliver->sendmail, X_OK) == 0);
    json_set_bool(arena, out, "commandAllowed", deliver->config.commands);
    show_waiting(deliver, user, settings, arena, json_set_array(arena, out, "waiting"));
    return out;
}

static int set_channel(const struct deliver *deliver, const char *user, struct json *settings,
                       const struct channel *channel, const struct json *value, struct arena *arena,
                       struct err *err)
{
    if (!value)
        return 0;
    if (json_is(value, JSON_NULL) || (json_string(value) && !json_str(value).len)) {
        json_remove(settings, channel->name);
        return 0;
    }
    if (!json_string(value))
        return err_set(err, ERR_INVALID, "%s: must be text", channel->name);
    if (channel->check(deliver, user, value, err) < 0)
        return err_prefix(err, "%s", channel->name);
    json_set(arena, settings, channel->name, *value);
    return 0;
}

/* A list of names, "a,b", or null. */
static int set_kinds(struct json *settings, const struct json *value, struct arena *arena, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    uint32_t kinds;

    if (!value)
        return 0;
    if (json_is(value, JSON_NULL)) {
        json_remove(settings, "kinds");
        return 0;
    }
    JSON_EACH(json_is(value, JSON_ARRAY) ? value : NULL, it)
        buf_printf(&text, "%s%s", text.len ? "," : "", json_string_or(it, "?"));
    if (json_string(value))
        buf_str(&text, json_str(value));
    if (deliver_kinds(buf_view(&text), &kinds, err) < 0)
        return err_prefix(err, "kinds");
    json_set(arena, settings, "kinds", json_of_str(arena, buf_view(&text)));
    return 0;
}

int deliver_set(struct deliver *deliver, const char *user, const struct json *changes, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *settings = effective(deliver, user, &arena);

    JSON_EACH_MEMBER(changes, it) {
        bool known = streq(it->key, "kinds") || streq(it->key, "off");

        for (size_t i = 0; i < ARRAY_LEN(channels); i++)
            known = known || streq(it->key, channels[i].name);
        if (!known)
            return err_set(err, ERR_INVALID, "unknown setting '%s': mail, webhook, command, kinds or off",
                           it->key);
    }
    for (size_t i = 0; i < ARRAY_LEN(channels); i++)
        if (set_channel(deliver, user, settings, &channels[i], json_get(changes, channels[i].name), &arena,
                        err) < 0)
            return -1;
    if (set_kinds(settings, json_get(changes, "kinds"), &arena, err) < 0)
        return -1;
    json_set_bool(&arena, settings, "off", json_bool(json_get(changes, "off")));
    json_write(&text, settings);
    store_value_set(deliver->config.store, DELIVER_TABLE, user, buf_view(&text));
    return 0;
}

void deliver_forget(struct deliver *deliver, const char *user)
{
    store_value_set(deliver->config.store, DELIVER_TABLE, user, (struct str){0});
}

/* ---- sending ---- */

/* Returns how many ways it took. */
static size_t send_item(struct deliver *deliver, const char *user, const struct json *settings,
                        const struct json *item, const char *key, struct arena *arena)
{
    size_t count = 0;

    for (const struct channel *it = channels; it < channels + ARRAY_LEN(channels); it++) {
        struct parcel parcel = {user, json_get_string(settings, it->name), item, key, arena, false};
        struct notify_lane_state state;
        struct err err = {0};

        if (!parcel.to || (streq(it->name, "command") && !deliver->config.commands) ||
            (streq(it->name, "mail") && !deliver->sendmail))
            continue;
        count++;
        notify_lane(deliver->config.notify, lane_of(user, it, parcel.to, arena), &state);
        parcel.last = state.waiting + 1 == DELIVER_WAITING_MAX;
        if (state.waiting >= DELIVER_WAITING_MAX)
            continue; /* the inbox has it */
        if (notify_push(deliver->config.notify,
                        &(struct notify_message){.handler = it->name,
                                                 .lane = lane_of(user, it, parcel.to, arena),
                                                 .host = it->host(&parcel),
                                                 .payload = it->pack(&parcel)},
                        &err) < 0)
            log_warn("%s for %s: %s", it->name, user, err.msg);
    }
    return count;
}

static void on_item(void *arg, const char *user, const struct json *item)
{
    struct deliver *deliver = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *settings = effective(deliver, user, &arena);
    enum inbox_kind kind = INBOX_NOTICE;

    inbox_kind_find(json_str(json_get(item, "kind")), &kind);
    if (json_bool(json_get(settings, "off")) || !(kinds_of(deliver, settings) & UINT32_C(1) << kind))
        return;
    send_item(deliver, user, settings, item,
              arena_printf(&arena, "inbox-%lld", (long long)json_int(json_get(item, "id"), 0)), &arena);
}

int deliver_test(struct deliver *deliver, const char *user, int64_t now_ms, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *settings = effective(deliver, user, &arena);
    struct json *item = json_new_object(&arena);
    char time[CLOCK_TEXT_MAX];

    json_set_string(&arena, item, "kind", "notice");
    json_set_string(&arena, item, "text",
                    "This is a test: Berth will tell you here what happens to your jobs.");
    json_set_string(&arena, item, "time", clock_format(now_ms * NSEC_PER_MSEC, time));
    if (json_bool(json_get(settings, "off")) ||
        send_item(deliver, user, settings, item, arena_printf(&arena, "test-%lld", (long long)now_ms),
                  &arena) == 0)
        return err_set(err, ERR_NOT_FOUND, "nothing is sent to '%s' yet: set mail, webhook or command first",
                       user);
    return 0;
}

void deliver_lost(struct deliver *deliver, const char *lane, const char *why, int64_t now_ms)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct str rest = str_from(lane), part, channel;

    if (!starts_with(lane, DELIVER_LANE))
        return;
    str_split(&rest, '/', &part);
    str_split(&rest, '/', &channel);
    str_split(&rest, '/', &part); /* the place */
    inbox_tell(
        deliver->config.inbox,
        &(struct inbox_item){
            .user = arena_strndup(&arena, rest.s, rest.len),
            .kind = INBOX_NOTICE,
            .text = arena_printf(&arena, "gave up on a message to your %.*s: %s", STR_ARG(channel), why),
            .once = arena_printf(&arena, "%.*s-%lld", STR_ARG(channel), (long long)now_ms),
            .here = true,
            .at_ms = now_ms});
}

struct deliver *deliver_new(const struct deliver_config *config)
{
    struct deliver *deliver = NEW(struct deliver);

    deliver->config = *config;
    deliver->sendmail = mem_strdup(config->sendmail);
    deliver->domain = mem_strdup(config->domain);
    inbox_on_item(config->inbox, on_item, deliver);
    return deliver;
}

void deliver_free(struct deliver *deliver)
{
    if (!deliver)
        return;
    inbox_on_item(deliver->config.inbox, NULL, NULL);
    free(deliver->sendmail);
    free(deliver->domain);
    free(deliver);
}
