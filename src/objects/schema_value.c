/* Times are read as Go's time.Parse reads them, one piece of the layout after the other, because what it
 * could not read is part of the message. */
#include "objects/schema_value.h"

#include "base/cleanup.h"
#include "objects/quantity.h"

#include <ctype.h>
#include <time.h>

#define LAYOUT_SECONDS "2006-01-02T15:04:05Z07:00"
#define LAYOUT_MICROS  "2006-01-02T15:04:05.000000Z07:00"
#define YEAR_0_SEC     INT64_C(-62167219200)
#define ZERO_TIME_SEC  INT64_C(-62135596800) /* the start of year 1 */
#define YEAR_9999_SEC  INT64_C(253402300799)

/* Sign, digits and dots, then nothing but characters that suffixes are made of. */
static bool looks_like_quantity(struct str s)
{
    size_t i = 0, dots = 0;

    if (i < s.len && (s.s[i] == '+' || s.s[i] == '-'))
        i++;
    for (; i < s.len && (isdigit((unsigned char)s.s[i]) || s.s[i] == '.'); i++)
        dots += s.s[i] == '.';
    if (i == 0 || dots > 1)
        return false;
    while (i < s.len && strchr("eEinumkKMGTP", s.s[i]))
        i++;
    if (i < s.len && (s.s[i] == '+' || s.s[i] == '-'))
        i++;
    while (i < s.len && isdigit((unsigned char)s.s[i]))
        i++;
    return i == s.len;
}

int schema_check_quantity(struct arena *arena, struct json *value, struct err *err)
{
    CLEANUP(buf_done) struct buf number = {0};
    char canonical[QUANTITY_TEXT_MAX];
    struct quantity quantity;
    struct str text;

    if (value->type == JSON_NULL) {
        *value = json_of_string_ref("0");
        return 0;
    }
    if (value->type != JSON_STRING)
        json_write(&number, value);
    text = str_trim(value->type == JSON_STRING ? json_str(value) : buf_view(&number));
    if (!quantity_parse(text, &quantity))
        return err_set(err, ERR_INVALID, "%s",
                       looks_like_quantity(text) ? "unable to parse quantity's suffix"
                                                 : "quantities must match the regular expression "
                                                   "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
    quantity_format(&quantity, canonical);
    if (value->type != JSON_STRING || !str_is(json_str(value), canonical))
        *value = json_of_str(arena, str_from(canonical));
    return 0;
}

struct time_reader {
    struct str all, rest; /* rest: what is not read yet */
    bool micro;
    struct err *err;
};

static void add_quoted(struct buf *buf, struct str s)
{
    buf_putc(buf, '"');
    for (size_t i = 0; i < s.len; i++) {
        if (s.s[i] == '"' || s.s[i] == '\\')
            buf_putc(buf, '\\');
        if ((unsigned char)s.s[i] < ' ' || (unsigned char)s.s[i] > '~')
            buf_printf(buf, "\\x%02x", (unsigned char)s.s[i]);
        else
            buf_putc(buf, s.s[i]);
    }
    buf_putc(buf, '"');
}

static int bad_time(const struct time_reader *in, const char *piece)
{
    CLEANUP(buf_done) struct buf all = {0}, rest = {0};

    add_quoted(&all, in->all);
    add_quoted(&rest, in->rest);
    return err_set(in->err, ERR_INVALID, "parsing time %s as \"%s\": cannot parse %s as \"%s\"", all.data,
                   in->micro ? LAYOUT_MICROS : LAYOUT_SECONDS, rest.data, piece);
}

static int out_of_range(const struct time_reader *in, const char *what)
{
    CLEANUP(buf_done) struct buf all = {0};

    add_quoted(&all, in->all);
    return err_set(in->err, ERR_INVALID, "parsing time %s: %s out of range", all.data, what);
}

static bool is_digit_at(struct str s, size_t i)
{
    return i < s.len && isdigit((unsigned char)s.s[i]);
}

static void skip(struct time_reader *in, size_t n)
{
    in->rest = (struct str){in->rest.s + n, in->rest.len - n};
}

/* One character that has to stand there, then min to max digits. */
static int read_piece(struct time_reader *in, const char *before, const char *piece, size_t min, size_t max,
                      int *ret)
{
    size_t n = 0;

    if (*before && !str_starts(in->rest, before))
        return bad_time(in, before);
    skip(in, strlen(before));
    *ret = 0;
    while (n < max && is_digit_at(in->rest, n))
        *ret = *ret * 10 + (in->rest.s[n++] - '0');
    if (n < min)
        return bad_time(in, piece);
    skip(in, n);
    return 0;
}

static int days_in(int month, int year)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

static int read_fraction(struct time_reader *in, int *ret_micros)
{
    bool starts = in->rest.len > 0 && (in->rest.s[0] == '.' || in->rest.s[0] == ',');
    size_t digits = 0;

    *ret_micros = 0;
    while (starts && is_digit_at(in->rest, 1 + digits) && (!in->micro || digits < 6)) {
        if (digits < 6)
            *ret_micros = *ret_micros * 10 + (in->rest.s[1 + digits] - '0');
        digits++;
    }
    if (in->micro && digits < 6)
        return bad_time(in, ".000000");
    if (digits > 0)
        skip(in, 1 + digits);
    return 0;
}

static int read_offset(struct time_reader *in, int *ret_sec)
{
    struct str s = in->rest;
    int hours, minutes;

    *ret_sec = 0;
    if (str_starts(s, "Z")) {
        skip(in, 1);
        return 0;
    }
    if (s.len < 6 || !strchr("+-", s.s[0]) || s.s[3] != ':' || !is_digit_at(s, 1) || !is_digit_at(s, 2) ||
        !is_digit_at(s, 4) || !is_digit_at(s, 5))
        return bad_time(in, "Z07:00");
    hours = (s.s[1] - '0') * 10 + (s.s[2] - '0');
    minutes = (s.s[4] - '0') * 10 + (s.s[5] - '0');
    skip(in, 6);
    if (hours > 24)
        return out_of_range(in, "time zone offset hour");
    if (minutes > 60)
        return out_of_range(in, "time zone offset minute");
    *ret_sec = (hours * 60 + minutes) * 60 * (s.s[0] == '-' ? -1 : 1);
    return 0;
}

static int read_clock(struct time_reader *in, struct tm *tm)
{
    if (read_piece(in, "T", "15", 1, 2, &tm->tm_hour) < 0)
        return -1;
    if (tm->tm_hour > 23)
        return out_of_range(in, "hour");
    if (read_piece(in, ":", "04", 2, 2, &tm->tm_min) < 0)
        return -1;
    if (tm->tm_min > 59)
        return out_of_range(in, "minute");
    if (read_piece(in, ":", "05", 2, 2, &tm->tm_sec) < 0)
        return -1;
    if (tm->tm_sec > 59)
        return out_of_range(in, "second");
    return 0;
}

static int read_time(struct time_reader *in, int64_t *ret_sec, int *ret_micros)
{
    int year, month, day, offset;
    struct tm tm = {0};

    if (read_piece(in, "", "2006", 4, 4, &year) < 0 || read_piece(in, "-", "01", 2, 2, &month) < 0)
        return -1;
    if (month < 1 || month > 12)
        return out_of_range(in, "month");
    if (read_piece(in, "-", "02", 2, 2, &day) < 0 || read_clock(in, &tm) < 0 ||
        read_fraction(in, ret_micros) < 0 || read_offset(in, &offset) < 0)
        return -1;
    if (in->rest.len > 0) {
        CLEANUP(buf_done) struct buf all = {0}, rest = {0};

        add_quoted(&all, in->all);
        add_quoted(&rest, in->rest);
        return err_set(in->err, ERR_INVALID, "parsing time %s: extra text: %s", all.data, rest.data);
    }
    if (day < 1 || day > days_in(month, year))
        return out_of_range(in, "day");
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    tm.tm_mday = day;
    *ret_sec = (int64_t)timegm(&tm) - offset;
    return 0;
}

bool schema_time_text(int64_t sec, int64_t micros, char text[SCHEMA_TIME_TEXT_MAX])
{
    char fraction[24] = "";
    time_t t = (time_t)sec;
    struct tm tm;

    if (sec < YEAR_0_SEC || sec > YEAR_9999_SEC || micros > 999999 || !gmtime_r(&t, &tm))
        return false;
    if (micros >= 0)
        snprintf(fraction, sizeof(fraction), ".%06d", (int)micros);
    snprintf(text, SCHEMA_TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", tm.tm_year + 1900, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
    return true;
}

int schema_check_time(struct arena *arena, struct json *value, bool micro, struct err *err)
{
    struct time_reader in = {.all = json_str(value), .rest = json_str(value), .micro = micro, .err = err};
    char text[SCHEMA_TIME_TEXT_MAX];
    int micros = 0;
    int64_t sec = 0;

    if (read_time(&in, &sec, &micros) < 0)
        return -1;
    if (sec == ZERO_TIME_SEC && micros == 0)
        *value = (struct json){.type = JSON_NULL};
    else if (!schema_time_text(sec, micro ? micros : -1, text))
        return out_of_range(&in, "year");
    else if (!str_is(in.all, text))
        *value = json_of_str(arena, str_from(text));
    return 0;
}

static bool is_base64_char(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '/';
}

static bool is_line_break(char c)
{
    return c == '\n' || c == '\r';
}

static size_t skip_line_breaks(struct str s, size_t at)
{
    while (at < s.len && is_line_break(s.s[at]))
        at++;
    return at;
}

/* Where Go's decoder stops, or s.len when all is well. */
static bool base64_error(struct str s, size_t *ret)
{
    size_t have = 0; /* characters of the group of four */

    for (size_t at = skip_line_breaks(s, 0); at < s.len; at = skip_line_breaks(s, at + 1)) {
        if (is_base64_char(s.s[at])) {
            have = (have + 1) % 4;
            continue;
        }
        *ret = at;
        if (s.s[at] != '=' || have < 2)
            return true;
        if (have == 2) {
            at = skip_line_breaks(s, at + 1);
            *ret = at;
            if (at == s.len || s.s[at] != '=')
                return true;
        }
        *ret = skip_line_breaks(s, at + 1);
        return *ret < s.len;
    }
    *ret = s.len - have;
    return have > 0;
}

int schema_check_base64(struct arena *arena, struct json *value, struct err *err)
{
    struct str s = json_str(value);
    char *text, *end;
    size_t at;

    if (base64_error(s, &at))
        return err_set(err, ERR_INVALID, "illegal base64 data at input byte %zu", at);
    if (!memchr(s.s, '\n', s.len) && !memchr(s.s, '\r', s.len))
        return 0;
    text = end = arena_alloc(arena, s.len + 1);
    for (size_t i = 0; i < s.len; i++)
        if (!is_line_break(s.s[i]))
            *end++ = s.s[i];
    *end = '\0';
    *value = (struct json){.type = JSON_STRING, .len = (uint32_t)(end - text), .string = text};
    return 0;
}
