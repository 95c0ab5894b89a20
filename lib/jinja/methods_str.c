/* methods_str.c - str's methods. Results of markup's own are markup again, as markupsafe has it. */
#include "jinja/methods.h"
#include "jinja/unicode.h"

int arg_str(struct run *r, const struct call *c, unsigned at, struct str *ret)
{
    if (c->a[at].type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "%s() argument %u must be str, not %s", c->fn->name, at + 1,
                     jv_type_name(c->a[at]));
    *ret = jv_view(c->a[at]);
    return 0;
}

int arg_int(struct run *r, const struct call *c, unsigned at, int64_t fallback, int64_t *ret)
{
    *ret = fallback;
    return c->a[at].type == JV_MISSING ? 0 : to_index(r, c->a[at], ret);
}

int arg_bool(struct run *r, const struct call *c, unsigned at, bool fallback, bool *ret)
{
    int truth = c->a[at].type == JV_MISSING ? fallback : jv_truth(r, c->a[at]);

    *ret = truth > 0;
    return truth < 0 ? -1 : 0;
}

static uint8_t markup_of(const struct call *c)
{
    return c->self.flags & JV_MARKUP;
}

/* ---- case ---- */

static int mapped(struct run *r, struct call *c, void (*map)(struct buf *, struct str), struct jv *ret)
{
    struct text t = text_begin(r);

    if (charge(r, c->self.len / 4) < 0)
        return -1;
    map(&r->scratch, jv_view(c->self));
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = markup_of(c);
    return 0;
}

static void map_upper(struct buf *buf, struct str s)
{
    unicode_map(buf, s, UNI_TO_UPPER);
}

static void map_lower(struct buf *buf, struct str s)
{
    unicode_map(buf, s, UNI_TO_LOWER);
}

static void map_fold(struct buf *buf, struct str s)
{
    unicode_map(buf, s, UNI_TO_FOLD);
}

static int str_upper(struct run *r, struct call *c, struct jv *ret)
{
    return mapped(r, c, map_upper, ret);
}

static int str_lower(struct run *r, struct call *c, struct jv *ret)
{
    return mapped(r, c, map_lower, ret);
}

static int str_casefold(struct run *r, struct call *c, struct jv *ret)
{
    int failed = mapped(r, c, map_fold, ret);

    ret->flags = 0;
    return failed;
}

static int str_title(struct run *r, struct call *c, struct jv *ret)
{
    return mapped(r, c, unicode_title, ret);
}

static int str_capitalize(struct run *r, struct call *c, struct jv *ret)
{
    return mapped(r, c, unicode_capitalize, ret);
}

static int str_swapcase(struct run *r, struct call *c, struct jv *ret)
{
    return mapped(r, c, unicode_swapcase, ret);
}

/* ---- questions ---- */

static int all_are(struct call *c, unsigned flags, bool empty, struct jv *ret)
{
    const char *at = c->self.s, *end = at + c->self.len;

    *ret = JV_OF_BOOL(c->self.len ? true : empty);
    while (at < end)
        if (!unicode_is(utf8_next(&at, end), flags)) {
            *ret = JV_OF_BOOL(false);
            break;
        }
    return 0;
}

#define QUESTION(name, flags, empty)                                                                         \
    static int str_##name(struct run *r, struct call *c, struct jv *ret)                                     \
    {                                                                                                        \
        (void)r;                                                                                             \
        return all_are(c, (flags), (empty), ret);                                                            \
    }
QUESTION(isalpha, UNI_ALPHA, false)
QUESTION(isalnum, UNI_ALNUM, false)
QUESTION(isdecimal, UNI_DECIMAL, false)
QUESTION(isdigit, UNI_DIGIT, false)
QUESTION(isnumeric, UNI_NUMERIC, false)
QUESTION(isspace, UNI_SPACE, false)
QUESTION(isprintable, UNI_PRINT, true)

static int str_isascii(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = JV_OF_BOOL(true);
    for (uint32_t i = 0; i < c->self.len; i++)
        if ((unsigned char)c->self.s[i] >= 0x80)
            *ret = JV_OF_BOOL(false);
    return 0;
}

static int cased_as(struct call *c, unsigned wanted, unsigned refused, struct jv *ret)
{
    const char *at = c->self.s, *end = at + c->self.len;
    bool seen = false;

    while (at < end) {
        unsigned flags = unicode_of(utf8_next(&at, end))->flags;

        if (flags & refused) {
            *ret = JV_OF_BOOL(false);
            return 0;
        }
        seen = seen || (flags & wanted) != 0;
    }
    *ret = JV_OF_BOOL(seen);
    return 0;
}

static int str_islower(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    return cased_as(c, UNI_LOWER, UNI_UPPER | UNI_TITLE, ret);
}

static int str_isupper(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    return cased_as(c, UNI_UPPER, UNI_LOWER | UNI_TITLE, ret);
}

static int str_istitle(struct run *r, struct call *c, struct jv *ret)
{
    const char *at = c->self.s, *end = at + c->self.len;
    bool seen = false, inside = false;

    (void)r;
    while (at < end) {
        unsigned flags = unicode_of(utf8_next(&at, end))->flags;

        if (flags & (UNI_UPPER | UNI_TITLE) ? inside : flags & UNI_LOWER ? !inside : false) {
            *ret = JV_OF_BOOL(false);
            return 0;
        }
        inside = (flags & (UNI_UPPER | UNI_TITLE | UNI_LOWER)) != 0;
        seen = seen || inside;
    }
    *ret = JV_OF_BOOL(seen);
    return 0;
}

static int str_isidentifier(struct run *r, struct call *c, struct jv *ret)
{
    const char *at = c->self.s, *end = at + c->self.len;
    bool ok = c->self.len > 0 && unicode_is(utf8_next(&at, end), UNI_IDSTART);

    (void)r;
    while (ok && at < end)
        ok = unicode_is(utf8_next(&at, end), UNI_IDCONT);
    *ret = JV_OF_BOOL(ok);
    return 0;
}

/* ---- finding ---- */

/* The bytes of self[start:end]; false when start lies behind the end. */
static int window(struct run *r, struct call *c, unsigned at, struct str *ret, int64_t *first, bool *outside)
{
    struct str s = jv_view(c->self);
    int64_t start = 0, end = INT64_MAX, len;
    size_t from, to;

    if ((c->a[at].type != JV_MISSING && c->a[at].type != JV_NONE && to_index(r, c->a[at], &start) < 0) ||
        (c->a[at + 1].type != JV_MISSING && c->a[at + 1].type != JV_NONE &&
         to_index(r, c->a[at + 1], &end) < 0) ||
        charge(r, s.len / 64) < 0)
        return -1;
    len = (int64_t)utf8_count(s);
    start = start < 0 ? (start + len < 0 ? 0 : start + len) : start;
    end = end < 0 ? (end + len < 0 ? 0 : end + len) : end > len ? len : end;
    *outside = start > len || start > end;
    *first = start;
    if (*outside) {
        *ret = STR("");
        return 0;
    }
    from = utf8_offset(s, (size_t)start);
    to = utf8_offset((struct str){s.s + from, s.len - from}, (size_t)(end - start));
    *ret = (struct str){s.s + from, to};
    return 0;
}

static const char *find_last(struct str s, struct str what)
{
    if (what.len == 0)
        return s.s + s.len;
    for (size_t i = s.len - what.len + 1; s.len >= what.len && i-- > 0;)
        if (memcmp(s.s + i, what.s, what.len) == 0)
            return s.s + i;
    return NULL;
}

/* Steps of find_last at most: what is looked for may all but match at each place. */
static size_t last_cost(size_t len, size_t what)
{
    return len / TEXT_STEP + len / 64 * (what / 64) + len * (what >= 64);
}

static int find_in(struct run *r, struct call *c, bool last, int64_t *ret)
{
    struct str s, what;
    const char *at;
    int64_t first;
    bool outside;

    if (arg_str(r, c, 0, &what) < 0 || window(r, c, 1, &s, &first, &outside) < 0)
        return -1;
    if (last && charge(r, last_cost(s.len, what.len)) < 0)
        return -1;
    at = outside ? NULL : last ? find_last(s, what) : what.len ? memmem(s.s, s.len, what.s, what.len) : s.s;
    *ret = at ? first + (int64_t)utf8_count((struct str){s.s, (size_t)(at - s.s)}) : -1;
    return 0;
}

static int str_find(struct run *r, struct call *c, struct jv *ret)
{
    int64_t at;

    if (find_in(r, c, c->fn->name[0] == 'r', &at) < 0)
        return -1;
    *ret = JV_OF_INT(at);
    return 0;
}

static int str_index(struct run *r, struct call *c, struct jv *ret)
{
    if (str_find(r, c, ret) < 0)
        return -1;
    return ret->i < 0 ? raise(r, JINJA_VALUE_ERROR, "substring not found") : 0;
}

static int str_count(struct run *r, struct call *c, struct jv *ret)
{
    struct str s, what;
    const char *at, *end;
    int64_t first, n = 0;
    bool outside;

    if (arg_str(r, c, 0, &what) < 0 || window(r, c, 1, &s, &first, &outside) < 0)
        return -1;
    if (outside || what.len == 0) {
        *ret = JV_OF_INT(outside ? 0 : (int64_t)utf8_count(s) + 1);
        return 0;
    }
    end = s.s + s.len;
    for (at = s.s; at < end && (at = memmem(at, (size_t)(end - at), what.s, what.len)); at += what.len)
        n++;
    *ret = JV_OF_INT(n);
    return charge(r, s.len / 16);
}

static int affix_matches(struct run *r, struct call *c, struct jv affix, struct str s, bool ends)
{
    if (affix.type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "%s first arg must be str or a tuple of str, not %s", c->fn->name,
                     jv_type_name(affix));
    if (affix.len > s.len)
        return 0;
    return memcmp(ends ? s.s + s.len - affix.len : s.s, affix.s, affix.len) == 0;
}

static int str_startswith(struct run *r, struct call *c, struct jv *ret)
{
    bool ends = c->fn->name[0] == 'e', outside;
    struct str s;
    int64_t first;
    int match = 0;

    if (window(r, c, 1, &s, &first, &outside) < 0)
        return -1;
    if (c->a[0].type == JV_TUPLE) {
        list_expand(r, c->a[0].list);
        for (uint32_t i = 0; match == 0 && i < c->a[0].list->len; i++)
            match = affix_matches(r, c, c->a[0].list->v[i], s, ends);
    } else {
        match = affix_matches(r, c, c->a[0], s, ends);
    }
    *ret = JV_OF_BOOL(match > 0 && !outside);
    return match < 0 ? -1 : 0;
}

static int str_removeprefix(struct run *r, struct call *c, struct jv *ret)
{
    struct str s = jv_view(c->self), affix;
    bool suffix = str_ends(str_from(c->fn->name), "suffix");

    if (arg_str(r, c, 0, &affix) < 0)
        return -1;
    if (affix.len && affix.len <= s.len &&
        memcmp(suffix ? s.s + s.len - affix.len : s.s, affix.s, affix.len) == 0)
        s = (struct str){suffix ? s.s : s.s + affix.len, s.len - affix.len};
    *ret = jv_str(s);
    return 0;
}

/* ---- stripping, padding, replacing ---- */

static bool has_char(struct str chars, uint32_t cp)
{
    const char *at = chars.s, *end = chars.s + chars.len;

    while (at < end)
        if (utf8_next(&at, end) == cp)
            return true;
    return false;
}

struct str strip_chars(struct str s, struct jv chars, int mode)
{
    const char *at = s.s, *end = s.s + s.len, *p;
    uint32_t cp;

    while (mode <= 0 && at < end) {
        p = at;
        cp = utf8_next(&p, end);
        if (chars.type == JV_STR ? !has_char(jv_view(chars), cp) : !unicode_is(cp, UNI_SPACE))
            break;
        at = p;
    }
    while (mode >= 0 && end > at) {
        p = end;
        cp = utf8_before(at, &p);
        if (chars.type == JV_STR ? !has_char(jv_view(chars), cp) : !unicode_is(cp, UNI_SPACE))
            break;
        end = p;
    }
    return (struct str){at, (size_t)(end - at)};
}

static int str_strip(struct run *r, struct call *c, struct jv *ret)
{
    int mode = c->fn->name[0] == 'l' ? -1 : c->fn->name[0] == 'r' ? 1 : 0;

    if (c->a[0].type != JV_MISSING && c->a[0].type != JV_NONE && c->a[0].type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "%s arg must be None or str", c->fn->name);
    if (charge(r, c->a[0].type == JV_STR ? (size_t)c->self.len * c->a[0].len / TEXT_STEP : 0) < 0)
        return -1;
    *ret = jv_str(strip_chars(jv_view(c->self), c->a[0], mode));
    ret->flags = markup_of(c);
    return 0;
}

static void put_fill(struct buf *buf, struct str fill, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        buf_add(buf, fill.s, fill.len);
}

int str_pad(struct run *r, struct jv s, int64_t width, struct str fill, int mode, struct jv *ret)
{
    int64_t len = (int64_t)utf8_count(jv_view(s)), pad = width - len, left;
    struct text t;

    if (pad <= 0) {
        *ret = s;
        return 0;
    }
    if (pad > INT32_MAX || run_text_fits(r, pad * (int64_t)fill.len + s.len) < 0)
        return run_text_fits(r, INT64_MAX);
    left = mode < 0 ? 0 : mode > 0 ? pad : pad / 2 + (pad & width & 1);
    if (charge(r, (size_t)pad / TEXT_STEP) < 0)
        return -1;
    t = text_begin(r);
    put_fill(&r->scratch, fill, left);
    buf_add(&r->scratch, s.s, s.len);
    put_fill(&r->scratch, fill, pad - left);
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = s.flags;
    return 0;
}

static int str_just(struct run *r, struct call *c, struct jv *ret)
{
    struct str fill = STR(" ");
    int64_t width;

    if (arg_int(r, c, 0, 0, &width) < 0)
        return -1;
    if (c->a[1].type != JV_MISSING) {
        if (arg_str(r, c, 1, &fill) < 0)
            return -1;
        if (utf8_count(fill) != 1)
            return raise(r, JINJA_TYPE_ERROR, "The fill character must be exactly one character long");
    }
    return str_pad(r, c->self, width, fill, c->fn->name[0] == 'l' ? -1 : c->fn->name[0] == 'r' ? 1 : 0, ret);
}

static int str_zfill(struct run *r, struct call *c, struct jv *ret)
{
    struct str s = jv_view(c->self);
    int64_t width;
    struct text t;
    bool sign = s.len && (*s.s == '+' || *s.s == '-');

    if (arg_int(r, c, 0, 0, &width) < 0)
        return -1;
    width -= (int64_t)utf8_count(s);
    if (width > INT32_MAX || run_text_fits(r, width) < 0)
        return run_text_fits(r, INT64_MAX);
    if (width > 0 && charge(r, (size_t)width / TEXT_STEP) < 0)
        return -1;
    t = text_begin(r);
    buf_add(&r->scratch, s.s, sign);
    put_fill(&r->scratch, STR("0"), width);
    buf_add(&r->scratch, s.s + sign, s.len - sign);
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = markup_of(c);
    return 0;
}

static int str_expandtabs(struct run *r, struct call *c, struct jv *ret)
{
    struct text t = text_begin(r);
    int64_t size, column = 0;

    if (arg_int(r, c, 0, 8, &size) < 0)
        return -1;
    for (uint32_t i = 0; i < c->self.len; i++) {
        char ch = c->self.s[i];

        if (ch == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;

            if (run_text_fits(r, n) < 0 || text_check(&t) < 0 || charge(r, (size_t)n / TEXT_STEP) < 0)
                return -1;
            put_fill(&r->scratch, STR(" "), n);
            column += n;
            continue;
        }
        buf_putc(&r->scratch, ch);
        column = ch == '\n' || ch == '\r' ? 0 : column + (((unsigned char)ch & 0xc0) != 0x80);
    }
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = markup_of(c);
    return 0;
}

int replace_text(struct run *r, struct str s, struct str from, struct str to, int64_t count, struct jv *ret)
{
    const char *at = s.s, *end = s.s + s.len, *hit, *next;
    struct text t = text_begin(r);

    if (from.len == 0) { /* between all characters */
        for (; count != 0; count--) {
            buf_add(&r->scratch, to.s, to.len);
            if (at == end || text_check(&t) < 0 || charge(r, 1 + to.len / 64) < 0)
                break;
            next = at;
            (void)utf8_next(&next, end);
            buf_add(&r->scratch, at, (size_t)(next - at));
            at = next;
        }
    } else {
        while (count != 0 && at < end && (hit = memmem(at, (size_t)(end - at), from.s, from.len))) {
            buf_add(&r->scratch, at, (size_t)(hit - at));
            buf_add(&r->scratch, to.s, to.len);
            at = hit + from.len;
            count--;
            if (text_check(&t) < 0 || charge(r, 1 + to.len / 64) < 0)
                break;
        }
    }
    if (r->failed) {
        text_drop(&t);
        return -1;
    }
    buf_add(&r->scratch, at, (size_t)(end - at));
    return text_end(&t, ret);
}

static int str_replace(struct run *r, struct call *c, struct jv *ret)
{
    struct jv from = c->a[0], to = c->a[1];
    struct str old, new;
    int64_t count;

    if (arg_str(r, c, 0, &old) < 0 || arg_str(r, c, 1, &new) < 0 || arg_int(r, c, 2, -1, &count) < 0)
        return -1;
    if (markup_of(c)) {
        if (to_escaped(r, from, &from) < 0 || to_escaped(r, to, &to) < 0)
            return -1;
        old = jv_view(from);
        new = jv_view(to);
    }
    if (replace_text(r, jv_view(c->self), old, new, count, ret) < 0)
        return -1;
    ret->flags = markup_of(c);
    return 0;
}

/* ---- splitting and joining ---- */

static void push_part(struct run *r, struct jlist *list, const char *from, const char *to, uint8_t flags)
{
    struct jv part = jv_str((struct str){from, (size_t)(to - from)});

    part.flags = flags;
    list_push(r, list, part);
}

static void split_space(struct run *r, struct str s, int64_t max, uint8_t flags, struct jlist *list)
{
    const char *at = s.s, *end = s.s + s.len, *p, *start;

    for (;;) {
        at = strip_chars((struct str){at, (size_t)(end - at)}, JV_NULL, -1).s;
        if (at == end)
            return;
        if (max-- == 0) {
            push_part(r, list, at, end, flags); /* with the space at its end */
            return;
        }
        start = at;
        for (p = at; p < end; at = p)
            if (unicode_is(utf8_next(&p, end), UNI_SPACE))
                break;
        push_part(r, list, start, at, flags);
    }
}

static void rsplit_space(struct run *r, struct str s, int64_t max, uint8_t flags, struct jlist *list)
{
    const char *end = s.s + s.len, *p, *stop;

    for (;;) {
        end = s.s + strip_chars((struct str){s.s, (size_t)(end - s.s)}, JV_NULL, 1).len;
        if (end == s.s)
            return;
        if (max-- == 0) {
            push_part(r, list, s.s, end, flags); /* with the space at its beginning */
            return;
        }
        stop = end;
        for (p = end; p > s.s; end = p)
            if (unicode_is(utf8_before(s.s, &p), UNI_SPACE))
                break;
        push_part(r, list, end, stop, flags);
    }
}

static void reverse_list(struct jlist *list)
{
    for (uint32_t i = 0, j = list->len; i + 1 < j; i++, j--) {
        struct jv v = list->v[i];

        list->v[i] = list->v[j - 1];
        list->v[j - 1] = v;
    }
}

static void split_sep(struct run *r, struct str s, struct str sep, int64_t max, bool right, uint8_t flags,
                      struct jlist *list)
{
    const char *at = s.s, *end = s.s + s.len, *hit;

    if (right) {
        while (max-- != 0 && (hit = find_last((struct str){s.s, (size_t)(end - s.s)}, sep))) {
            push_part(r, list, hit + sep.len, end, flags);
            end = hit;
        }
        push_part(r, list, s.s, end, flags);
        return;
    }
    while (max-- != 0 && (hit = memmem(at, (size_t)(end - at), sep.s, sep.len))) {
        push_part(r, list, at, hit, flags);
        at = hit + sep.len;
    }
    push_part(r, list, at, end, flags);
}

static int str_split_method(struct run *r, struct call *c, struct jv *ret)
{
    bool right = c->fn->name[0] == 'r';
    struct jlist *list = list_new(r, 4);
    struct str sep = {0};
    int64_t max;

    if (arg_int(r, c, 1, -1, &max) < 0 || charge(r, c->self.len / 2) < 0)
        return -1;
    if (c->a[0].type == JV_MISSING || c->a[0].type == JV_NONE) {
        (right ? rsplit_space : split_space)(r, jv_view(c->self), max, markup_of(c), list);
    } else {
        if (arg_str(r, c, 0, &sep) < 0)
            return -1;
        if (sep.len == 0)
            return raise(r, JINJA_VALUE_ERROR, "empty separator");
        if (right && charge(r, last_cost(c->self.len, sep.len)) < 0)
            return -1;
        split_sep(r, jv_view(c->self), sep, max, right, markup_of(c), list);
    }
    if (right)
        reverse_list(list);
    *ret = jv_list(list);
    return 0;
}

int split_lines(struct run *r, struct str s, bool keep_ends, uint8_t flags, struct jlist **ret)
{
    struct jlist *list = list_new(r, 4);
    const char *at = s.s, *end = s.s + s.len, *start = at;

    if (charge(r, s.len / 4) < 0)
        return -1;
    while (at < end) {
        const char *before = at;
        uint32_t cp = utf8_next(&at, end);

        if (cp == '\r' && at < end && *at == '\n')
            at++;
        else if (!unicode_is(cp, UNI_LINE))
            continue;
        push_part(r, list, start, keep_ends ? at : before, flags);
        start = at;
    }
    if (start < end)
        push_part(r, list, start, end, flags);
    *ret = list;
    return 0;
}

static int str_splitlines(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list;
    bool keep;

    if (arg_bool(r, c, 0, false, &keep) < 0 ||
        split_lines(r, jv_view(c->self), keep, markup_of(c), &list) < 0)
        return -1;
    *ret = jv_list(list);
    return 0;
}

static int str_partition(struct run *r, struct call *c, struct jv *ret)
{
    struct str s = jv_view(c->self), sep;
    bool right = c->fn->name[0] == 'r';
    struct jlist *list = list_new(r, 3);
    const char *hit, *end = s.s + s.len;

    if (arg_str(r, c, 0, &sep) < 0)
        return -1;
    if (sep.len == 0)
        return raise(r, JINJA_VALUE_ERROR, "empty separator");
    if (right && charge(r, last_cost(s.len, sep.len)) < 0)
        return -1;
    hit = right ? find_last(s, sep) : memmem(s.s, s.len, sep.s, sep.len);
    push_part(r, list, right && !hit ? end : s.s, hit ? hit : end, markup_of(c));
    push_part(r, list, hit ? hit : end, hit ? hit + sep.len : end, markup_of(c));
    push_part(r, list, hit ? hit + sep.len : right ? s.s : end, end, markup_of(c));
    *ret = jv_tuple(list);
    return 0;
}

static int str_join(struct run *r, struct call *c, struct jv *ret)
{
    struct text t = text_begin(r);
    struct jiter it;
    struct jv item;
    bool first = true;
    int more, at = 0;

    if (iter_init(r, c->a[0], &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1) {
        if (markup_of(c) ? to_escaped(r, item, &item) < 0 : false)
            break;
        if (item.type != JV_STR) {
            raise(r, JINJA_TYPE_ERROR, "sequence item %d: expected str instance, %s found", at,
                  jv_type_name(item));
            break;
        }
        if (!first)
            buf_add(&r->scratch, c->self.s, c->self.len);
        buf_add(&r->scratch, item.s, item.len);
        first = false;
        at++;
        if (text_check(&t) < 0 || charge(r, 1 + (c->self.len + item.len) / 64) < 0)
            break;
    }
    if (more != 0) {
        text_drop(&t);
        return -1;
    }
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = markup_of(c);
    return 0;
}

static int str_encode(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = (struct jv){.type = JV_BYTES, .len = c->self.len, .s = c->self.s};
    return 0;
}

static int str_format(struct run *r, struct call *c, struct jv *ret)
{
    return format_method(r, c->self, c, JV_NULL, ret);
}

static int str_format_map(struct run *r, struct call *c, struct jv *ret)
{
    if (c->npos != 1 || c->nkw)
        return raise(r, JINJA_TYPE_ERROR, "format_map() takes exactly one argument (%u given)",
                     c->npos + c->nkw);
    return format_method(r, c->self, c, c->pos[0], ret);
}

/* translate(table): a dict of code points to text, code points or None. */
static int str_translate(struct run *r, struct call *c, struct jv *ret)
{
    const char *at = c->self.s, *end = at + c->self.len;
    struct text t = text_begin(r);

    while (at < end) {
        uint32_t cp = utf8_next(&at, end);
        struct jv to = JV_NULL;

        if (c->a[0].type != JV_DICT || charge(r, 1) < 0 ||
            dict_get(r, c->a[0].dict, JV_OF_INT(cp), &to) < 0) {
            text_drop(&t);
            return raise(r, JINJA_TYPE_ERROR, "'%s' object is not subscriptable", jv_type_name(c->a[0]));
        }
        if (text_check(&t) < 0 || charge(r, jv_text_len(to) / 64) < 0)
            return -1;
        if (to.type == JV_STR)
            buf_add(&r->scratch, to.s, to.len);
        else if (to.type == JV_INT)
            unicode_put(&r->scratch, (uint32_t)to.i);
        else if (to.type != JV_NONE)
            unicode_put(&r->scratch, cp);
    }
    return text_end(&t, ret);
}

/* markup's own: what it escapes to text, and back */
static int markup_striptags(struct run *r, struct call *c, struct jv *ret)
{
    return filter_call(r, STR("striptags"), c, ret);
}

const struct native markup_methods[] = {{"striptags", markup_striptags, "*", 0}};
const size_t markup_methods_len = ARRAY_LEN(markup_methods);

const struct native str_methods[] = {
    {"capitalize", str_capitalize, "", 0},
    {"casefold", str_casefold, "", 0},
    {"center", str_just, "/width fillchar", 1},
    {"count", str_count, "/sub start end", 1},
    {"encode", str_encode, "encoding errors", 0},
    {"endswith", str_startswith, "/suffix start end", 1},
    {"expandtabs", str_expandtabs, "tabsize", 0},
    {"find", str_find, "/sub start end", 1},
    {"format", str_format, "*", 0},
    {"format_map", str_format_map, "*", 0},
    {"index", str_index, "/sub start end", 1},
    {"isalnum", str_isalnum, "", 0},
    {"isalpha", str_isalpha, "", 0},
    {"isascii", str_isascii, "", 0},
    {"isdecimal", str_isdecimal, "", 0},
    {"isdigit", str_isdigit, "", 0},
    {"isidentifier", str_isidentifier, "", 0},
    {"islower", str_islower, "", 0},
    {"isnumeric", str_isnumeric, "", 0},
    {"isprintable", str_isprintable, "", 0},
    {"isspace", str_isspace, "", 0},
    {"istitle", str_istitle, "", 0},
    {"isupper", str_isupper, "", 0},
    {"join", str_join, "/iterable", 1},
    {"ljust", str_just, "/width fillchar", 1},
    {"lower", str_lower, "", 0},
    {"lstrip", str_strip, "/chars", 0},
    {"partition", str_partition, "/sep", 1},
    {"removeprefix", str_removeprefix, "/prefix", 1},
    {"removesuffix", str_removeprefix, "/suffix", 1},
    {"replace", str_replace, "/old new count", 2},
    {"rfind", str_find, "/sub start end", 1},
    {"rindex", str_index, "/sub start end", 1},
    {"rjust", str_just, "/width fillchar", 1},
    {"rpartition", str_partition, "/sep", 1},
    {"rsplit", str_split_method, "sep maxsplit", 0},
    {"rstrip", str_strip, "/chars", 0},
    {"split", str_split_method, "sep maxsplit", 0},
    {"splitlines", str_splitlines, "keepends", 0},
    {"startswith", str_startswith, "/prefix start end", 1},
    {"strip", str_strip, "/chars", 0},
    {"swapcase", str_swapcase, "", 0},
    {"title", str_title, "", 0},
    {"translate", str_translate, "/table", 1},
    {"upper", str_upper, "", 0},
    {"zfill", str_zfill, "/width", 1},
};
const size_t str_methods_len = ARRAY_LEN(str_methods);
