#include "daemon/config_users.h"

#include "base/mem.h"
#include "base/str.h"
#include "objects/quantity.h"

#define TOKENS_MAX     100000
#define SPACE_MIB_MAX  65536
#define AUDIT_SIZE_MAX 4096 /* MiB */
#define AUDIT_KEEP_MAX 1000

static void clear_quota(struct daemon_config *config)
{
    VEC_EACH(&config->user_quota, it)
        free(*it);
    config->user_quota.len = 0;
}

static bool is_off(const char *text)
{
    return streq(text, "off") || streq(text, "false") || streq(text, "no");
}

/* Whether the names are ones that a quota can have is said when the first user is added; amounts are checked
 * here. */
int config_set_user_quota(struct daemon_config *config, const char *text, struct err *err)
{
    struct str rest = str_from(text), value, name;

    clear_quota(config);
    config->user_quota_set = true;
    if (is_off(text))
        return 0;
    while (rest.len > 0 && str_split(&rest, ',', &value)) {
        struct quantity amount;
        struct str whole = value = str_trim(value);

        str_split(&value, '=', &name);
        if (!name.len || !value.s || !quantity_parse(value, &amount) || amount.nanos < 0)
            return err_set(err, ERR_INVALID, "must be RESOURCE=AMOUNT,... or off, not '%s'", text);
        if (config->user_quota.len >= CONFIG_LIST_MAX)
            return err_set(err, ERR_LIMIT, "more than %d amounts", CONFIG_LIST_MAX);
        vec_push(&config->user_quota, mem_strndup(whole.s, whole.len));
    }
    return 0;
}

static int set_count(int *member, const char *text, int low, int high, struct err *err)
{
    int64_t n;

    if (!str_to_int(str_from(text), &n) || n < low || n > high)
        return err_set(err, ERR_INVALID, "must be %d to %d, not '%s'", low, high, text);
    *member = (int)n;
    return 0;
}

int config_set_user_tokens(struct daemon_config *config, const char *text, struct err *err)
{
    return set_count(&config->user_tokens, text, 1, TOKENS_MAX, err);
}

int config_set_space_mib(struct daemon_config *config, const char *text, struct err *err)
{
    return set_count(&config->space_mib, text, 1, SPACE_MIB_MAX, err);
}

int config_set_audit(struct daemon_config *config, const char *text, struct err *err)
{
    if (is_off(text))
        config->audit = CONFIG_AUDIT_OFF;
    else if (streq(text, "changes"))
        config->audit = CONFIG_AUDIT_CHANGES;
    else if (streq(text, "all"))
        config->audit = CONFIG_AUDIT_ALL;
    else
        return err_set(err, ERR_INVALID, "must be one of off, changes, all, not '%s'", text);
    return 0;
}

int config_set_audit_log(struct daemon_config *config, const char *text, struct err *err)
{
    if (text[0] != '/')
        return err_set(err, ERR_INVALID, "must be a path that begins with /, not '%s'", text);
    free(config->audit_log);
    config->audit_log = mem_strdup(text);
    return 0;
}

int config_set_audit_size(struct daemon_config *config, const char *text, struct err *err)
{
    return set_count(&config->audit_mib, text, 1, AUDIT_SIZE_MAX, err);
}

int config_set_audit_files(struct daemon_config *config, const char *text, struct err *err)
{
    return set_count(&config->audit_files, text, 1, AUDIT_KEEP_MAX, err);
}

void config_users_done(struct daemon_config *config)
{
    clear_quota(config);
    vec_done(&config->user_quota);
    free(config->audit_log);
}
