/* clock.c - reading clocks and RFC 3339. Dates are computed here (proleptic Gregorian calendar), since
 * gmtime and timegm bring in locale and time zone files. */
#include "base/clock.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_SEC INT64_C(86400)

static const struct clock_virtual *in_use; /* NULL: the machine's */

void clock_use(const struct clock_virtual *clock)
{
    in_use = clock;
}

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int64_t clock_now(void)
{
    return in_use ? in_use->now : read_clock(CLOCK_REALTIME);
}

int64_t clock_monotonic(void)
{
    return in_use ? in_use->monotonic : read_clock(CLOCK_MONOTONIC);
}

/* Days since 1970-01-01, and back. Years are counted from March, so that the leap day comes last;
 * 146097 days are one era of 400 years. */
static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;

    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = (int)(yoe + era * 400 + (*month <= 2));
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Writes up to the seconds; returns the nanoseconds left and where to go on. */
static int64_t format_sec(int64_t t, char *text, char **rest)
{
    int64_t sec = floor_div(t, NSEC_PER_SEC), days = floor_div(sec, DAY_SEC), in_day = sec - days * DAY_SEC;
    int year, month, day;

    date_from_days(days, &year, &month, &day);
    if (year >= 0 && year <= 9999) { /* by hand: lists of thousands of rows have several each */
        const int parts[] = {
            year / 100,        year % 100, month, day, (int)(in_day / 3600), (int)(in_day / 60 % 60),
            (int)(in_day % 60)};

        memcpy(text, "0000-00-00T00:00:00", 20);
        for (size_t i = 0, at = 0; i < ARRAY_LEN(parts); i++, at += i == 1 ? 2 : 3) {
            text[at] = (char)('0' + parts[i] / 10);
            text[at + 1] = (char)('0' + parts[i] % 10);
        }
        *rest = text + 19;
    } else {
        *rest = text + snprintf(text, CLOCK_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d", year, month, day,
                                (int)(in_day / 3600), (int)(in_day / 60 % 60), (int)(in_day % 60));
    }
    return t % NSEC_PER_SEC < 0 ? t % NSEC_PER_SEC + NSEC_PER_SEC : t % NSEC_PER_SEC;
}

char *clock_format(int64_t t, char *text)
{
    char *rest;

    format_sec(t, text, &rest);
    memcpy(rest, "Z", 2);
    return text;
}

/* So many digits of a second. */
static char *format_fraction(int64_t t, int digits, int64_t unit, char *text)
{
    char *rest;
    int64_t part = format_sec(t, text, &rest) / unit;

    rest[0] = '.';
    memcpy(rest + 1 + digits, "Z", 2);
    for (int i = digits; i > 0; i--, part /= 10)
        rest[i] = (char)('0' + part % 10);
    return text;
}

char *clock_format_micro(int64_t t, char *text)
{
    return format_fraction(t, 6, 1000, text);
}

char *clock_format_milli(int64_t t, char *text)
{
    return format_fraction(t, 3, NSEC_PER_MSEC, text);
}

/* Exactly `count` digits off the front of *s. */
static bool take_digits(struct str *s, size_t count, int64_t *ret)
{
    int64_t n = 0;

    if (s->len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (s->s[i] < '0' || s->s[i] > '9')
            return false;
        n = n * 10 + (s->s[i] - '0');
    }
    *s = (struct str){s->s + count, s->len - count};
    *ret = n;
    return true;
}

static bool take_char(struct str *s, char a, char b)
{
    if (s->len == 0 || (s->s[0] != a && s->s[0] != b))
        return false;
    *s = (struct str){s->s + 1, s->len - 1};
    return true;
}

/* ".123456789": digits beyond nanoseconds are read and dropped. */
static bool take_fraction(struct str *s, int64_t *ns)
{
    int64_t scale = NSEC_PER_SEC / 10, digit;

    *ns = 0;
    if (!take_char(s, '.', '.'))
        return true;
    if (!take_digits(s, 1, &digit))
        return false;
    do {
        *ns += digit * scale;
        scale /= 10;
    } while (take_digits(s, 1, &digit));
    return true;
}

static bool take_offset(struct str *s, int64_t *sec)
{
    bool west = s->len && s->s[0] == '-';
    int64_t hour, minute;

    *sec = 0;
    if (take_char(s, 'Z', 'z'))
        return true;
    if (!take_char(s, '+', '-') || !take_digits(s, 2, &hour) || !take_char(s, ':', ':') ||
        !take_digits(s, 2, &minute) || hour > 23 || minute > 59)
        return false;
    *sec = (hour * 3600 + minute * 60) * (west ? -1 : 1);
    return true;
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    if (month == 2)
        return leap ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

bool clock_parse(struct str s, int64_t *ret)
{
    int64_t year, month, day, hour, minute, sec, ns, offset, t;

    if (!take_digits(&s, 4, &year) || !take_char(&s, '-', '-') || !take_digits(&s, 2, &month) ||
        !take_char(&s, '-', '-') || !take_digits(&s, 2, &day) || !take_char(&s, 'T', 't') ||
        !take_digits(&s, 2, &hour) || !take_char(&s, ':', ':') || !take_digits(&s, 2, &minute) ||
        !take_char(&s, ':', ':') || !take_digits(&s, 2, &sec) || !take_fraction(&s, &ns) ||
        !take_offset(&s, &offset) || s.len)
        return false;
    /* 60 is a leap second; it counts as the first second of the next minute. */
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 ||
        sec > 60)
        return false;
    t = days_from_date(year, month, day) * DAY_SEC + hour * 3600 + minute * 60 + sec - offset;
    if (__builtin_mul_overflow(t, NSEC_PER_SEC, &t) || __builtin_add_overflow(t, ns, &t))
        return false;
    *ret = t;
    return true;
}

static char *write_age(char *text, int64_t big, const char *big_unit, int64_t small, const char *small_unit)
{
    if (small)
        snprintf(text, CLOCK_TEXT_MAX, "%d%s%d%s", (int)big, big_unit, (int)small, small_unit);
    else
        snprintf(text, CLOCK_TEXT_MAX, "%d%s", (int)big, big_unit);
    return text;
}

int64_t clock_after(int64_t t, int64_t seconds)
{
    int64_t ns, sum;

    if (!__builtin_mul_overflow(seconds, NSEC_PER_SEC, &ns) && !__builtin_add_overflow(t, ns, &sum))
        return sum;
    return seconds < 0 ? INT64_MIN : INT64_MAX;
}

/* The steps of HumanDuration in k8s.io/apimachinery/pkg/util/duration. */
char *clock_age(int64_t interval_ns, char *text)
{
    int64_t sec = interval_ns / NSEC_PER_SEC, min = sec / 60, hours = sec / 3600, days = hours / 24;

    if (sec < -1)
        return memcpy(text, "<invalid>", sizeof("<invalid>"));
    if (sec < 120)
        return write_age(text, sec < 0 ? 0 : sec, "s", 0, "");
    if (min < 10)
        return write_age(text, min, "m", sec % 60, "s");
    if (min < 180)
        return write_age(text, min, "m", 0, "");
    if (hours < 8)
        return write_age(text, hours, "h", min % 60, "m");
    if (hours < 48)
        return write_age(text, hours, "h", 0, "");
    if (days < 8)
        return write_age(text, days, "d", hours % 24, "h");
    if (days < 2 * 365)
        return write_age(text, days, "d", 0, "");
    if (days < 8 * 365)
        return write_age(text, days / 365, "y", days % 365, "d");
    return write_age(text, days / 365, "y", 0, "");
}
