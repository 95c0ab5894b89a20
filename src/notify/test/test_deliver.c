#include "base/mem.h"
#include "base/test/test.h"
#include "base/vec.h"
#include "notify/deliver.h"
#include "notify/mail.h"
#include "notify/notify.h"

/* Handlers that note what they are given: "mail ann@lab: text". */
struct fixture {
    struct loop *loop;
    struct store *store;
    struct notify *notify;
    struct inbox *inbox;
    struct policy *policy;
    struct deliver *deliver;
    struct notify_handler handlers[3];
    VEC(struct notify_delivery *) under_way;
    struct buf seen;
    enum notify_result result;
};

static void note(struct fixture *f, const char *name, const char *to, const char *text)
{
    buf_printf(&f->seen, "%s %s: %s\n", name, to, text);
}

static void start_mail(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct fixture *f = arg;

    note(f, "mail", json_get_string(payload, "to"), json_get_string(payload, "subject"));
    vec_push(&f->under_way, delivery);
}

static void start_webhook(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct fixture *f = arg;

    note(f, "webhook", json_get_string(payload, "url"), json_at_string(payload, "body.text"));
    vec_push(&f->under_way, delivery);
}

static void start_command(void *arg, struct notify_delivery *delivery, const struct json *payload)
{
    struct fixture *f = arg;

    note(f, "command", json_get_string(payload, "user"), json_get_string(payload, "command"));
    vec_push(&f->under_way, delivery);
}

static void cancel(void *arg, struct notify_delivery *delivery)
{
    (void)arg;
    (void)delivery;
}

static void lost(void *arg, const char *lane, const char *why)
{
    deliver_lost(((struct fixture *)arg)->deliver, lane, why, 1700000000000);
}

static void open_deliver(struct fixture *f, const char *domain, bool commands)
{
    deliver_free(f->deliver);
    f->deliver = deliver_new(&(struct deliver_config){.store = f->store,
                                                      .notify = f->notify,
                                                      .inbox = f->inbox,
                                                      .policy = f->policy,
                                                      .sendmail = "/bin/true",
                                                      .domain = domain,
                                                      .commands = commands});
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err err = {0};

    f->loop = loop_new();
    assert_int_equal(store_open(":memory:", f->loop, &f->store, &err), 0);
    assert_int_equal(policy_new(NULL, 0, &f->policy, &err), 0);
    f->inbox = inbox_new(f->store);
    f->notify =
        notify_new(&(struct notify_config){.loop = f->loop, .store = f->store, .lost = lost, .arg = f});
    f->handlers[0] = (struct notify_handler){"mail", f, start_mail, cancel};
    f->handlers[1] = (struct notify_handler){"webhook", f, start_webhook, cancel};
    f->handlers[2] = (struct notify_handler){"command", f, start_command, cancel};
    for (size_t i = 0; i < ARRAY_LEN(f->handlers); i++)
        notify_add_handler(f->notify, &f->handlers[i]);
    notify_start(f->notify);
    f->result = NOTIFY_DELIVERED;
    open_deliver(f, NULL, true);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    notify_stop(f->notify);
    store_close(f->store);
    deliver_free(f->deliver);
    notify_free(f->notify);
    inbox_free(f->inbox);
    policy_free(f->policy);
    loop_free(f->loop);
    vec_done(&f->under_way);
    buf_done(&f->seen);
    free(f);
    return 0;
}

/* Until all that was sent has been taken. */
static const char *settle(struct fixture *f)
{
    for (int quiet = 0; quiet < 3; quiet++) {
        do
            assert_int_equal(loop_turn(f->loop, 5, NULL), 0);
        while (!store_durable(f->store));
        while (f->under_way.len) {
            notify_finished(vec_pop(&f->under_way), f->result, "refused", 0);
            quiet = 0;
        }
    }
    return f->seen.data ? f->seen.data : "";
}

static int set(struct fixture *f, const char *user, const char *json, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;

    assert_int_equal(json_parse(str_from(json), &arena, &doc, NULL, err), 0);
    return deliver_set(f->deliver, user, doc, err);
}

static void happen(struct fixture *f, enum inbox_kind kind, const char *text)
{
    inbox_tell(f->inbox, &(struct inbox_item){.user = "ann",
                                              .kind = kind,
                                              .job = "uid-1",
                                              .name = "net",
                                              .ns = "ann",
                                              .text = text,
                                              .by = "bob",
                                              .at_ms = 1700000000000});
}

static void test_nothing_is_sent_to_who_set_nothing(void **state)
{
    struct fixture *f = *state;

    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "");
}

static void test_an_item_goes_every_way_that_is_set(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        set(f, "ann", "{\"mail\":\"ann@lab\",\"webhook\":\"https://hooks.example/x\",\"command\":\"true\"}",
            NULL),
        0);
    happen(f, INBOX_FAILED, "ended with exit code 1");
    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "mail ann@lab: [berth] net failed\n"
                                   "webhook https://hooks.example/x: net: ended with exit code 1\n"
                                   "command ann: true\n");
}

static void test_only_the_kinds_that_were_chosen_are_sent(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(set(f, "ann", "{\"mail\":\"ann@lab\",\"kinds\":[\"succeeded\"]}", NULL), 0);
    happen(f, INBOX_FAILED, "ended with exit code 1");
    happen(f, INBOX_SUCCEEDED, "finished");
    assert_string_equal(settle(f), "mail ann@lab: [berth] net finished\n");
}

static void test_by_default_ends_that_went_well_are_not_sent(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(set(f, "ann", "{\"mail\":\"ann@lab\"}", NULL), 0);
    happen(f, INBOX_SUCCEEDED, "finished");
    assert_string_equal(settle(f), "");
}

static void test_off_sends_nothing_not_even_the_default(void **state)
{
    struct fixture *f = *state;

    open_deliver(f, "lab.example", false);
    assert_int_equal(set(f, "ann", "{\"off\":true}", NULL), 0);
    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "");
}

static void test_a_domain_gives_everybody_mail(void **state)
{
    struct fixture *f = *state;

    open_deliver(f, "lab.example", false);
    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "mail ann@lab.example: [berth] net failed\n");
}

static void test_a_command_set_before_it_was_forbidden_is_not_run(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(set(f, "ann", "{\"command\":\"true\"}", NULL), 0);
    open_deliver(f, NULL, false);
    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "");
}

static void test_what_a_job_wrote_calls_nobody_on_slack(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(set(f, "ann", "{\"webhook\":\"https://hooks.example/x\"}", NULL), 0);
    happen(f, INBOX_FAILED, "<!channel> & co");
    assert_string_equal(settle(f), "webhook https://hooks.example/x: net: &lt;!channel&gt; &amp; co\n");
}

static void test_the_address_of_a_webhook_is_not_shown(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;

    assert_int_equal(set(f, "ann", "{\"webhook\":\"https://hooks.slack.com/services/T/B/secret?x=y\"}", NULL),
                     0);
    assert_string_equal(json_get_string(deliver_show(f->deliver, "ann", &arena), "webhook"),
                        "https://hooks.slack.com:443/…");
}

static void test_what_is_given_up_is_told_in_the_inbox_and_not_sent(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    const struct json *items;

    assert_int_equal(set(f, "ann", "{\"mail\":\"ann@lab\",\"kinds\":\"all\"}", NULL), 0);
    f->result = NOTIFY_NEVER;
    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "mail ann@lab: [berth] net failed\n");
    items = json_get(inbox_list(f->inbox, "ann", true, 0, &arena), "items");
    assert_int_equal(json_len(items), 2);
    assert_string_equal(json_get_string(json_item(items, 0), "text"),
                        "gave up on a message to your mail: refused");
}

static void test_a_new_address_is_not_held_up_by_an_old_one(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(set(f, "ann", "{\"mail\":\"old@lab\"}", NULL), 0);
    f->result = NOTIFY_RETRY;
    happen(f, INBOX_FAILED, "ended with exit code 1");
    assert_string_equal(settle(f), "mail old@lab: [berth] net failed\n");
    f->result = NOTIFY_DELIVERED;
    assert_int_equal(set(f, "ann", "{\"mail\":\"new@lab\"}", NULL), 0);
    happen(f, INBOX_NOTICE, "its place was claimed");
    assert_non_null(strstr(settle(f), "mail new@lab: [berth] net notice\n"));
}

static void test_a_flood_is_cut_and_says_so(void **state)
{
    struct fixture *f = *state;
    unsigned lines = 0;
    char job[24];

    assert_int_equal(set(f, "ann", "{\"webhook\":\"https://hooks.example/x\"}", NULL), 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(job, sizeof(job), "uid-%d", i);
        inbox_tell(f->inbox,
                   &(struct inbox_item){.user = "ann", .kind = INBOX_FAILED, .job = job, .text = "failed"});
    }
    for (const char *c = settle(f); *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, DELIVER_WAITING_MAX);
    assert_non_null(strstr(f->seen.data, "x: failed (more has happened: berth inbox)\n"));
    assert_true(inbox_unseen(f->inbox, "ann") > DELIVER_WAITING_MAX);
}

static void test_wrong_settings_change_nothing(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct fixture *f = *state;
    struct err err = {0};

    assert_int_equal(set(f, "ann", "{\"mail\":\"ann@lab\"}", NULL), 0);
    assert_int_equal(set(f, "ann", "{\"mail\":\"x@y\",\"kinds\":\"failed,nonsense\"}", &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, "no kind 'nonsense'"));
    assert_int_equal(set(f, "ann", "{\"webhook\":\"http://127.0.0.1/x\"}", &err), -1);
    assert_int_equal(err.code, ERR_FORBIDDEN);
    assert_int_equal(set(f, "ann", "{\"pager\":\"x\"}", &err), -1);
    assert_int_equal(set(f, "root", "{\"command\":\"id\"}", &err), -1);
    assert_int_equal(err.code, ERR_FORBIDDEN);
    assert_string_equal(json_get_string(deliver_show(f->deliver, "ann", &arena), "mail"), "ann@lab");
}

/* ---- the text of a mail ---- */

static void check_mail(const char *json, const char *wanted)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    assert_int_equal(json_parse(str_from(json), &arena, &doc, NULL, NULL), 0);
    mail_write(&text, "berth@lab", doc);
    assert_non_null(strstr(text.data, wanted));
    *strstr(text.data, "\n\n") = '\0';
    assert_null(strstr(text.data, "\nBcc:")); /* nothing came into the header */
}

static void test_a_mail_has_only_our_header(void **state)
{
    (void)state;
    check_mail("{\"to\":\"ann@lab\",\"subject\":\"net failed\",\"text\":\"a\"}", "Subject: net failed\n");
    check_mail("{\"to\":\"ann@lab\",\"subject\":\"a\\nBcc: x@y\",\"text\":\"a\"}",
               "Subject: =?UTF-8?B?YQpCY2M6IHhAeQ==?=\n");
    check_mail("{\"to\":\"ann@lab\\nBcc: x@y\",\"subject\":\"a\",\"text\":\"a\"}", "To: =?UTF-8?B?");
    check_mail("{\"to\":\"ann@lab\",\"subject\":\"a\",\"text\":\"x\\r\\nBcc: y\\u0007\"}",
               "\n\nx \nBcc: y \n");
    check_mail("{\"to\":\"a@b\",\"subject\":\"\\u00fc\",\"text\":\"\",\"time\":\"2023-11-14T22:13:20Z\","
               "\"key\":\"k-1\"}",
               "Date: Tue, 14 Nov 2023 22:13:20 +0000\nMessage-ID: <k-1@lab>\n");
}

static void test_long_words_are_encoded_in_whole_characters(void **state)
{
    (void)state;
    check_mail(
        "{\"to\":\"a@b\",\"subject\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\u00fcy\",\"text\":\"\"}",
        "eHh4eHh4eHh4eHh4eHg=?=\n =?UTF-8?B?w7x5?=\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_nothing_is_sent_to_who_set_nothing),
        CASE(test_an_item_goes_every_way_that_is_set),
        CASE(test_only_the_kinds_that_were_chosen_are_sent),
        CASE(test_by_default_ends_that_went_well_are_not_sent),
        CASE(test_off_sends_nothing_not_even_the_default),
        CASE(test_a_domain_gives_everybody_mail),
        CASE(test_a_command_set_before_it_was_forbidden_is_not_run),
        CASE(test_what_a_job_wrote_calls_nobody_on_slack),
        CASE(test_the_address_of_a_webhook_is_not_shown),
        CASE(test_what_is_given_up_is_told_in_the_inbox_and_not_sent),
        CASE(test_a_new_address_is_not_held_up_by_an_old_one),
        CASE(test_a_flood_is_cut_and_says_so),
        CASE(test_wrong_settings_change_nothing),
        cmocka_unit_test(test_a_mail_has_only_our_header),
        cmocka_unit_test(test_long_words_are_encoded_in_whole_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
