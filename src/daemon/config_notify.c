#include "daemon/config_notify.h"

#include "base/mem.h"
#include "notify/deliver.h"
#include "notify/mail.h"

static bool is_off(const char *text)
{
    return streq(text, "off") || streq(text, "false") || streq(text, "no");
}

static void set_string(char **member, const char *text)
{
    free(*member);
    *member = mem_strdup(text);
}

int config_set_notify_sendmail(struct daemon_config *config, const char *text, struct err *err)
{
    config->notify_no_mail = is_off(text);
    if (!config->notify_no_mail && text[0] != '/')
        return err_set(err, ERR_INVALID, "must be an absolute path or off, not '%s'", text);
    set_string(&config->notify_sendmail, config->notify_no_mail ? NULL : text);
    return 0;
}

int config_set_notify_from(struct daemon_config *config, const char *text, struct err *err)
{
    if (mail_check_address(str_from(text), err) < 0)
        return -1;
    set_string(&config->notify_from, text);
    return 0;
}

int config_set_notify_domain(struct daemon_config *config, const char *text, struct err *err)
{
    CLEANUP(free) char *address = mem_printf("x@%s", text);

    if (!is_off(text) && mail_check_address(str_from(address), NULL) < 0)
        return err_set(err, ERR_INVALID, "must be a domain or off, not '%s'", text);
    set_string(&config->notify_domain, is_off(text) ? NULL : text);
    return 0;
}

int config_set_notify_kinds(struct daemon_config *config, const char *text, struct err *err)
{
    return deliver_kinds(str_from(text), &config->notify_kinds, err);
}

int config_set_notify_commands(struct daemon_config *config, const char *text, struct err *err)
{
    bool on = streq(text, "on") || streq(text, "true") || streq(text, "yes");

    if (!on && !is_off(text))
        return err_set(err, ERR_INVALID, "must be true or false, not '%s'", text);
    config->notify_commands = on;
    return 0;
}

void config_notify_done(struct daemon_config *config)
{
    free(config->notify_sendmail);
    free(config->notify_from);
    free(config->notify_domain);
}
