/* What users write of where to send things: an address, kinds, settings, and what then stands in a mail.
 * Nothing of it adds a line to a mail's header, and an address that is taken is one word. */
#include "base/mem.h"
#include "notify/deliver.h"
#include "notify/mail.h"
#include "notify/notify.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const headers[] = {"From: ",
                                      "To: ",
                                      "Subject: ",
                                      "Date: ",
                                      "Message-ID: ",
                                      "MIME-Version: ",
                                      "Content-Type: ",
                                      "Auto-Submitted: ",
                                      "Content-Transfer-Encoding: "};

static void check_header(const char *text)
{
    for (const char *line = text; *line && *line != '\n'; line = strchr(line, '\n') + 1) {
        bool known = *line == ' ';

        for (size_t i = 0; i < ARRAY_LEN(headers); i++)
            known = known || starts_with(line, headers[i]);
        for (const char *c = line; *c != '\n'; c++)
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
                abort();
        if (!known || !strchr(line, '\n'))
            abort();
    }
}

static void check_address(struct str text)
{
    if (mail_check_address(text, NULL) < 0)
        return;
    for (size_t i = 0; i < text.len; i++)
        if (text.s[i] <= ' ' || strchr("<>,;:\"()[]\\", text.s[i]))
            abort();
}

static struct loop *loop;

static struct deliver *make_deliver(void)
{
    static struct policy *policy;
    struct store *store;

    loop = loop_new();
    if (store_open(":memory:", loop, &store, NULL) < 0 || policy_new(NULL, 0, &policy, NULL) < 0)
        abort();
    return deliver_new(&(struct deliver_config){
        .store = store,
        .notify = notify_new(&(struct notify_config){.loop = loop, .store = store}),
        .inbox = inbox_new(store),
        .policy = policy,
        .sendmail = "/bin/true",
        .commands = true,
    });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct deliver *deliver;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf mail = {0};
    struct str text = {(const char *)data, size};
    struct json *doc, *shown;
    uint32_t kinds = 1;

    if (!deliver)
        deliver = make_deliver();
    check_address(text);
    if (deliver_kinds(text, &kinds, NULL) == 0 && (kinds == 0 || kinds >> INBOX_KINDS))
        abort();
    if (json_parse(text, &arena, &doc, NULL, NULL) < 0)
        return 0;
    mail_write(&mail, "berth@lab", doc);
    check_header(mail.data);
    if (json_is(doc, JSON_OBJECT) && deliver_set(deliver, "ann", doc, NULL) == 0) {
        shown = deliver_show(deliver, "ann", &arena);
        if (json_get_string(shown, "mail"))
            check_address(json_str(json_get(shown, "mail")));
        loop_turn(loop, 0, NULL); /* what was set is written */
    }
    return 0;
}
