/* html.c - urlize and striptags. */
#include "jinja/textwrap.h"
#include "jinja/unicode.h"

#include <stdlib.h>

/* ---- what looks like an address ---- */

static bool is_word(uint32_t cp)
{
    return cp == '_' || unicode_is(cp, UNI_ALNUM);
}

static bool starts_nocase(struct str s, const char *prefix)
{
    size_t n = strlen(prefix);

    return s.len >= n && str_ieq((struct str){s.s, n}, (struct str){prefix, n});
}

static struct str behind(struct str s, size_t n)
{
    return (struct str){s.s + n, s.len - n};
}

/* The run of [\w%.-] that a host is made of. */
static size_t host_len(struct str s)
{
    const char *at = s.s, *end = s.s + s.len;

    while (at < end) {
        const char *before = at;
        uint32_t cp = utf8_next(&at, end);

        if (cp != '%' && cp != '.' && cp != '-' && !is_word(cp))
            return (size_t)(before - s.s);
    }
    return s.len;
}

/* Behind the host: an optional port, then nothing or a path. */
static bool is_tail(struct str s)
{
    size_t digits = 0;

    if (s.len && *s.s == ':') {
        s = behind(s, 1);
        while (digits < s.len && s.s[digits] >= '0' && s.s[digits] <= '9')
            digits++;
        if (digits == 0 || digits > 5)
            return false;
        s = behind(s, digits);
    }
    return s.len == 0 || *s.s == '/' || *s.s == '?' || *s.s == '#';
}

/* The part behind the last dot; *labels is what stands before it, without the dot. */
static struct str top_label(struct str host, struct str *labels)
{
    const char *dot = memrchr(host.s, '.', host.len);

    *labels = (struct str){host.s, dot ? (size_t)(dot - host.s) : 0};
    return dot ? behind(host, (size_t)(dot + 1 - host.s)) : host;
}

static bool is_tld(struct str s)
{
    if (starts_nocase(s, "xn--")) {
        size_t n = utf8_count(s) - 4;

        if (!memchr(s.s + 4, '-', s.len - 4) && n >= 2 && n <= 59)
            return true;
    }
    for (size_t i = 0; i < s.len; i++)
        if ((s.s[i] | 0x20) < 'a' || (s.s[i] | 0x20) > 'z')
            return false;
    return s.len >= 2 && s.len <= 63;
}

static bool labels_fit(struct str labels, size_t min, size_t max)
{
    struct str one;

    while (str_split(&labels, '.', &one))
        if (utf8_count(one) < min || utf8_count(one) > max)
            return false;
    return true;
}

static bool is_ipv4(struct str host)
{
    struct str one;
    int n = 0;

    for (; str_split(&host, '.', &one); n++) {
        if (one.len < 1 || one.len > 3)
            return false;
        for (size_t i = 0; i < one.len; i++)
            if (one.s[i] < '0' || one.s[i] > '9')
                return false;
    }
    return n == 4;
}

static size_t hex_run(struct str s)
{
    size_t n = 0;

    while (n < s.len && n < 4 &&
           ((s.s[n] >= '0' && s.s[n] <= '9') || ((s.s[n] | 0x20) >= 'a' && (s.s[n] | 0x20) <= 'f')))
        n++;
    return n;
}

/* "[...]" at the start of s: its length; 0 none. */
static size_t ipv6_len(struct str s)
{
    const char *close = s.len && *s.s == '[' ? memchr(s.s, ']', s.len) : NULL;
    struct str in;

    if (!close)
        return 0;
    in = (struct str){s.s + 1, (size_t)(close - s.s - 1)};
    for (int i = 0; i < 2; i++) {
        in = behind(in, hex_run(in));
        if (!in.len || *in.s != ':')
            return 0;
        in = behind(in, 1);
    }
    for (int i = 0; i < 6 && in.len; i++) {
        in = behind(in, hex_run(in));
        if (in.len && *in.s == ':')
            in = behind(in, 1);
    }
    return in.len ? 0 : (size_t)(close + 1 - s.s);
}

static bool is_http(struct str s)
{
    static const char *const known[] = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    size_t scheme = starts_nocase(s, "https://") ? 8 : starts_nocase(s, "http://") ? 7 : 0;
    size_t lead = scheme ? scheme : starts_nocase(s, "www.") ? 4 : 0, n;
    struct str rest = behind(s, lead), host, labels, top;

    if (lead) {
        host = (struct str){rest.s, host_len(rest)};
        top = top_label(host, &labels);
        if (is_tail(behind(rest, host.len)) && is_tld(top) &&
            (top.len == host.len || labels_fit(labels, 1, SIZE_MAX)))
            return true;
    }
    host = (struct str){s.s, host_len(s)};
    top = top_label(host, &labels);
    for (size_t i = 0; i < ARRAY_LEN(known) && top.len < host.len && is_tail(behind(s, host.len)); i++)
        if (str_ieq(top, str_from(known[i])) && labels_fit(labels, 2, 63))
            return true;
    if (!scheme)
        return false;
    n = host_len(rest);
    if (is_ipv4((struct str){rest.s, n}) && is_tail(behind(rest, n)))
        return true;
    n = ipv6_len(rest);
    return n && is_tail(behind(rest, n));
}

static bool all_words(struct str s, const char *also)
{
    const char *at = s.s, *end = s.s + s.len;

    while (at < end) {
        uint32_t cp = utf8_next(&at, end);

        if (!is_word(cp) && !(cp && cp < 0x80 && strchr(also, (int)cp)))
            return false;
    }
    return true;
}

static bool is_email(struct str s)
{
    const char *at = memrchr(s.s, '@', s.len), *dot;
    struct str host, top;

    if (!at || at == s.s)
        return false;
    host = behind(s, (size_t)(at + 1 - s.s));
    dot = memrchr(host.s, '.', host.len);
    if (!dot || dot == host.s || *host.s == '.' || *host.s == '-')
        return false;
    top = behind(host, (size_t)(dot + 1 - host.s));
    return top.len && all_words(top, "") && all_words(host, ".-");
}

/* ---- urlize ---- */

int urlize_check(struct run *r, const struct urlize *u)
{
    for (uint32_t i = 0; u->schemes && i < u->schemes->len; i++) {
        struct jv v = u->schemes->v[i];
        struct str s = jv_view(v), name;
        const char *colon = v.type == JV_STR ? memchr(s.s, ':', s.len) : NULL;

        name = (struct str){s.s, colon ? (size_t)(colon - s.s) : 0};
        if (!colon || utf8_count(name) < 2 || !all_words(name, ".+-") ||
            !(s.len == name.len + 1 || str_is(behind(s, name.len), ":/") ||
              str_is(behind(s, name.len), "://")))
            return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "%s is not a valid URI scheme prefix.",
                         repr_brief(r, v));
    }
    return 0;
}

static int compare_strings(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* rel="..." of the given words, nofollow and noopener, sorted, once each. */
static void put_rel(struct buf *buf, const struct urlize *u)
{
    struct str words[34], rest = u->rel, one;
    size_t n = 0;

    words[n++] = STR("noopener");
    if (u->nofollow)
        words[n++] = STR("nofollow");
    while (n < 34 && str_split(&rest, ' ', &one))
        if (one.len)
            words[n++] = one;
    qsort(words, n, sizeof(*words), compare_strings);
    buf_puts(buf, " rel=\"");
    for (size_t i = 0; i < n; i++) {
        if (i && str_eq(words[i], words[i - 1]))
            continue;
        if (i)
            buf_putc(buf, ' ');
        put_escaped(buf, words[i]);
    }
    buf_putc(buf, '"');
}

static void put_link(struct buf *buf, const struct urlize *u, const char *prefix, struct str url, bool trim)
{
    size_t cut = trim && u->limit >= 0 ? utf8_offset(url, (size_t)u->limit) : url.len;

    buf_printf(buf, "<a href=\"%s%.*s\"", prefix, STR_ARG(url));
    put_rel(buf, u);
    if (u->target.type == JV_STR)
        buf_printf(buf, " target=\"%.*s\"", STR_ARG(jv_view(u->target)));
    buf_putc(buf, '>');
    buf_add(buf, url.s, cut);
    buf_printf(buf, "%s</a>", cut < url.len ? "..." : "");
}

static void put_middle(struct buf *buf, const struct urlize *u, struct str s)
{
    if (is_http(s)) {
        put_link(buf, u, str_starts(s, "https://") || str_starts(s, "http://") ? "" : "https://", s, true);
        return;
    }
    if (str_starts(s, "mailto:") && is_email(behind(s, 7))) {
        buf_printf(buf, "<a href=\"%.*s\">%.*s</a>", STR_ARG(s), STR_ARG(behind(s, 7)));
        return;
    }
    if (memchr(s.s, '@', s.len) && !str_starts(s, "www.") && *s.s != '@' && !memchr(s.s, ':', s.len) &&
        is_email(s)) {
        buf_printf(buf, "<a href=\"mailto:%.*s\">%.*s</a>", STR_ARG(s), STR_ARG(s));
        return;
    }
    for (uint32_t i = 0; u->schemes && i < u->schemes->len; i++) {
        struct str scheme = jv_view(u->schemes->v[i]);

        if (s.len > scheme.len && memcmp(s.s, scheme.s, scheme.len) == 0) {
            put_link(buf, u, "", s, false);
            return;
        }
    }
    buf_str(buf, s);
}

static size_t count_of(struct str s, const char *what)
{
    size_t n = 0, len = strlen(what);
    const char *at = s.s, *end = s.s + s.len;

    for (; at < end && (at = memmem(at, (size_t)(end - at), what, len)); at += len)
        n++;
    return n;
}

/* Punctuation that closes a sentence, from the end. */
static struct str tail_of(struct str s)
{
    size_t n = s.len;

    for (;;) {
        if (n && strchr(")>.,\n", s.s[n - 1]))
            n--;
        else if (n >= 4 && memcmp(s.s + n - 4, "&gt;", 4) == 0)
            n -= 4;
        else
            return behind(s, n);
    }
}

static void put_word(struct buf *buf, const struct urlize *u, struct str word)
{
    static const char *const pairs[][2] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    struct str middle, tail;
    size_t head = 0;

    for (;;) {
        if (head < word.len && (word.s[head] == '(' || word.s[head] == '<'))
            head++;
        else if (word.len - head >= 4 && memcmp(word.s + head, "&lt;", 4) == 0)
            head += 4;
        else
            break;
    }
    middle = behind(word, head);
    tail = tail_of(middle);
    middle.len -= tail.len;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        size_t opened = count_of(middle, pairs[i][0]), moves = count_of(tail, pairs[i][1]);

        if (opened <= count_of(middle, pairs[i][1]))
            continue;
        for (moves = moves < opened ? moves : opened; moves; moves--) {
            const char *end = memmem(tail.s, tail.len, pairs[i][1], strlen(pairs[i][1]));
            size_t n = (size_t)(end - tail.s) + strlen(pairs[i][1]);

            middle.len += n;
            tail = behind(tail, n);
        }
    }
    buf_add(buf, word.s, head);
    put_middle(buf, u, middle);
    buf_str(buf, tail);
}

int put_urlized(struct run *r, struct buf *buf, const struct urlize *u, struct str escaped)
{
    const char *at = escaped.s, *end = escaped.s + escaped.len, *start = at;

    while (at < end) {
        const char *before = at;

        if (!unicode_is(utf8_next(&at, end), UNI_SPACE))
            continue;
        if (before > start)
            put_word(buf, u, (struct str){start, (size_t)(before - start)});
        buf_add(buf, before, (size_t)(at - before));
        start = at;
        if (run_text_fits(r, (int64_t)buf->len) < 0 || charge(r, 1) < 0)
            return -1;
    }
    if (end > start)
        put_word(buf, u, (struct str){start, (size_t)(end - start)});
    return 0;
}

/* ---- striptags ---- */

static const char *entity_text(struct str name)
{
    size_t low = 0, high = html_entities_len;

    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = str_cmp(str_from(html_entities[mid].name), name);

        if (order == 0)
            return html_entities[mid].text;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static void put_code_point(struct buf *buf, uint32_t cp)
{
    static const uint16_t windows[] = {0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                       0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d,   0x017d, 0x8f,
                                       0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                       0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};

    if (cp >= 0x80 && cp < 0xa0)
        cp = windows[cp - 0x80];
    else if (cp == 0 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        cp = 0xfffd;
    else if ((cp < 0x20 && cp != '\t' && cp != '\n' && cp != '\f' && cp != '\r') || cp == 0x7f ||
             (cp & 0xfffe) == 0xfffe || (cp >= 0xfdd0 && cp <= 0xfdef))
        return;
    unicode_put(buf, cp);
}

/* The entity at s ("&..."): bytes taken; 0 it is none. */
static size_t put_entity(struct buf *buf, struct str s)
{
    size_t n = 1;
    const char *text;

    if (s.len > 2 && s.s[1] == '#') {
        bool hex = (s.s[2] | 0x20) == 'x';
        uint32_t cp = 0;
        size_t first = n = hex ? 3 : 2;

        for (; n < s.len; n++) {
            int c = (unsigned char)s.s[n], d = c >= '0' && c <= '9' ? c - '0'
                                               : hex && (c | 0x20) >= 'a' && (c | 0x20) <= 'f'
                                                   ? (c | 0x20) - 'a' + 10
                                                   : -1;

            if (d < 0)
                break;
            cp = cp > 0x110000 ? cp : cp * (hex ? 16 : 10) + (uint32_t)d;
        }
        if (n == first)
            return 0;
        put_code_point(buf, cp);
        return n < s.len && s.s[n] == ';' ? n + 1 : n;
    }
    while (n < s.len && n <= 32 && !strchr("\t\n\f <&#;", s.s[n]))
        n++;
    if (n < s.len && s.s[n] == ';')
        n++;
    for (size_t k = n; k > 2; k--)
        if ((text = entity_text((struct str){s.s + 1, k - 1}))) {
            buf_puts(buf, text);
            return k;
        }
    return 0;
}

/* s from `from` on without what lies between open and close. */
static void put_without(struct buf *buf, struct str s, const char *open, const char *close)
{
    const char *at = s.s, *end = s.s + s.len, *tag, *stop;

    while ((tag = memmem(at, (size_t)(end - at), open, strlen(open))) &&
           (stop = memmem(tag + strlen(open), (size_t)(end - tag) - strlen(open), close, strlen(close)))) {
        buf_add(buf, at, (size_t)(tag - at));
        at = stop + strlen(close);
    }
    buf_add(buf, at, (size_t)(end - at));
}

void put_stripped(struct buf *buf, struct str html)
{
    CLEANUP(buf_done) struct buf plain = {0};
    CLEANUP(buf_done) struct buf no_tags = {0};
    CLEANUP(buf_done) struct buf words = {0};
    const char *at, *end;
    bool gap = false;

    put_without(&plain, html, "<!--", "-->");
    put_without(&no_tags, buf_view(&plain), "<", ">");
    for (at = buf_view(&no_tags).s, end = at + no_tags.len; at < end;) {
        const char *before = at;

        if (unicode_is(utf8_next(&at, end), UNI_SPACE)) {
            gap = words.len > 0;
            continue;
        }
        if (gap)
            buf_putc(&words, ' ');
        gap = false;
        buf_add(&words, before, (size_t)(at - before));
    }
    for (size_t i = 0; i < words.len;) {
        size_t n = words.data[i] == '&' ? put_entity(buf, (struct str){words.data + i, words.len - i}) : 0;

        if (n == 0)
            buf_putc(buf, words.data[i]);
        i += n ? n : 1;
    }
}
