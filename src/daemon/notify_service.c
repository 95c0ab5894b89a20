#include "daemon/notify_service.h"

#include "base/clock.h"
#include "base/mem.h"
#include "notify/command.h"
#include "notify/deliver.h"
#include "notify/mail.h"
#include "notify/webhook.h"

#include <unistd.h>

struct notify_service {
    struct policy *policy;
    struct webhook *webhook;
    struct mail *mail;
    struct command *command;
    struct notify *notify;
    struct inbox *inbox;
    struct deliver *deliver;
    void (*lost)(void *arg, const char *lane, const char *why);
    void *lost_arg;
};

static void service_lost(void *arg, const char *lane, const char *why)
{
    const struct notify_service *service = arg;

    if (starts_with(lane, DELIVER_LANE))
        deliver_lost(service->deliver, lane, why, clock_now() / NSEC_PER_MSEC);
    else if (service->lost)
        service->lost(service->lost_arg, lane, why);
}

static void add_mail(struct notify_service *service, struct loop *loop, const struct daemon_config *config)
{
    char host[256] = "localhost";
    CLEANUP(free) char *from = NULL;

    gethostname(host, sizeof(host) - 1);
    from = config->notify_from ? mem_strdup(config->notify_from) : mem_printf("berth@%s", host);
    service->mail = mail_new(loop, config->notify_sendmail ? config->notify_sendmail : MAIL_SENDMAIL, from);
    notify_add_handler(service->notify, mail_handler(service->mail));
}

int notify_service_new(struct loop *loop, struct store *store, const struct daemon_config *config,
                       struct notify_service **ret, struct err *err)
{
    struct notify_service *service = NEW(struct notify_service);

    *ret = service;
    if (policy_new((const char *const *)config->callback_allow.v, config->callback_allow.len,
                   &service->policy, err) < 0)
        return err_prefix(err, "callback-allow");
    service->inbox = inbox_new(store);
    service->notify = notify_new(
        &(struct notify_config){.loop = loop, .store = store, .lost = service_lost, .arg = service});
    service->webhook = webhook_new(loop, service->policy, config->callback_ca);
    notify_add_handler(service->notify, webhook_handler(service->webhook));
    add_mail(service, loop, config);
    service->command = command_new(loop);
    notify_add_handler(service->notify, command_handler(service->command));
    service->deliver = deliver_new(&(struct deliver_config){
        .store = store,
        .notify = service->notify,
        .inbox = service->inbox,
        .policy = service->policy,
        .sendmail = config->notify_no_mail    ? NULL
                    : config->notify_sendmail ? config->notify_sendmail
                                              : MAIL_SENDMAIL,
        .domain = config->notify_domain,
        .kinds = config->notify_kinds,
        .commands = config->notify_commands,
    });
    notify_start(service->notify);
    return 0;
}

struct inbox *notify_service_inbox(const struct notify_service *service)
{
    return service->inbox;
}

struct deliver *notify_service_deliver(const struct notify_service *service)
{
    return service->deliver;
}

struct notify *notify_service_queue(const struct notify_service *service)
{
    return service->notify;
}

const struct policy *notify_service_policy(const struct notify_service *service)
{
    return service->policy;
}

void notify_service_on_lost(struct notify_service *service,
                            void (*fn)(void *arg, const char *lane, const char *why), void *arg)
{
    service->lost = fn;
    service->lost_arg = arg;
}

void notify_service_stop(struct notify_service *service)
{
    if (service)
        notify_stop(service->notify);
}

void notify_service_free(struct notify_service *service)
{
    if (!service)
        return;
    deliver_free(service->deliver);
    notify_free(service->notify);
    webhook_free(service->webhook);
    mail_free(service->mail);
    command_free(service->command);
    inbox_free(service->inbox);
    policy_free(service->policy);
    free(service);
}
