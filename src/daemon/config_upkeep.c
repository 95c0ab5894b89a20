#include "daemon/config_upkeep.h"

#include "base/str.h"

#define DAY_SEC       INT64_C(86400)
#define HOUR_SEC      INT64_C(3600)
#define MINUTE_SEC    INT64_C(60)
#define AGE_MAX_SEC   (36500 * DAY_SEC)
#define COUNT_MAX     1000000
#define MIB_MAX       (INT64_C(64) << 20) /* 64 TiB */
#define EVENT_MAX_SEC (30 * DAY_SEC)

void config_upkeep_defaults(struct daemon_config *config)
{
    config->upkeep.work = (struct prune_policy){.age_sec = 7 * DAY_SEC, .count = 200, .bytes = 8 << 20};
    config->upkeep.history_sec = 730 * DAY_SEC;
    config->upkeep.history_bytes = INT64_C(2048) << 20;
    config->upkeep.log_sec = 90 * DAY_SEC;
    config->upkeep.log_bytes = INT64_C(4096) << 20;
    config->idle_warn_sec = 4 * HOUR_SEC;
    config->upkeep.claim_warn_sec = 90 * DAY_SEC;
    config->event_age_sec = HOUR_SEC;
}

/* "7", "36h": seconds, where a number alone is in `unit`. 0: off. */
static int set_age(int64_t *member, const char *text, int64_t unit, int64_t max, struct err *err)
{
    static const struct {
        const char *suffix;
        int64_t sec;
    } units[] = {{"s", 1}, {"m", MINUTE_SEC}, {"h", HOUR_SEC}, {"d", DAY_SEC}};
    struct str number = str_from(text);
    int64_t n;

    if (streq(text, "off")) {
        *member = 0;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (str_ends(number, units[i].suffix)) {
            number.len--;
            unit = units[i].sec;
            break;
        }
    if (!str_to_int(number, &n) || n < 1 || n > max / unit)
        return err_set(err, ERR_INVALID,
                       "must be a time up to %lld days such as 7d, 36h, 30m or 90s, or off, not '%s'",
                       (long long)(max / DAY_SEC), text);
    *member = n * unit;
    return 0;
}

static int set_amount(int64_t *member, const char *text, int64_t unit, int64_t max, struct err *err)
{
    int64_t n = 0;

    if (!streq(text, "off") && (!str_to_int(str_from(text), &n) || n < 1 || n > max))
        return err_set(err, ERR_INVALID, "must be a number, 1 to %lld, or off, not '%s'", (long long)max,
                       text);
    *member = n * unit;
    return 0;
}

int config_set_finished_days(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->upkeep.work.age_sec, text, DAY_SEC, AGE_MAX_SEC, err);
}

int config_set_finished_count(struct daemon_config *config, const char *text, struct err *err)
{
    return set_amount(&config->upkeep.work.count, text, 1, COUNT_MAX, err);
}

int config_set_finished_size(struct daemon_config *config, const char *text, struct err *err)
{
    return set_amount(&config->upkeep.work.bytes, text, 1 << 20, MIB_MAX, err);
}

int config_set_history_days(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->upkeep.history_sec, text, DAY_SEC, AGE_MAX_SEC, err);
}

int config_set_history_size(struct daemon_config *config, const char *text, struct err *err)
{
    return set_amount(&config->upkeep.history_bytes, text, 1 << 20, MIB_MAX, err);
}

int config_set_log_days(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->upkeep.log_sec, text, DAY_SEC, AGE_MAX_SEC, err);
}

int config_set_log_size(struct daemon_config *config, const char *text, struct err *err)
{
    return set_amount(&config->upkeep.log_bytes, text, 1 << 20, MIB_MAX, err);
}

int config_set_idle_warn(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->idle_warn_sec, text, HOUR_SEC, AGE_MAX_SEC, err);
}

int config_set_idle_stop(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->idle_stop_sec, text, HOUR_SEC, AGE_MAX_SEC, err);
}

int config_set_claim_warn(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->upkeep.claim_warn_sec, text, DAY_SEC, AGE_MAX_SEC, err);
}

int config_set_claim_delete(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->upkeep.claim_delete_sec, text, DAY_SEC, AGE_MAX_SEC, err);
}

int config_set_event_minutes(struct daemon_config *config, const char *text, struct err *err)
{
    return set_age(&config->event_age_sec, text, MINUTE_SEC, EVENT_MAX_SEC, err);
}
