/* textwrap.c - Python's textwrap.wrap: chunks by its regular expression, then lines by filling them. Works
 * on arrays of characters. */
#include "jinja/textwrap.h"

#include "jinja/unicode.h"

struct chars {
    const uint32_t *v;
    int64_t len;
};

static bool is_ws(uint32_t cp)
{
    return cp == ' ' || (cp >= '\t' && cp <= '\r');
}

static bool is_word(uint32_t cp)
{
    return cp == '_' || unicode_is(cp, UNI_ALNUM);
}

static bool is_letter(struct chars t, int64_t i) /* [^\d\W] */
{
    return i >= 0 && i < t.len && is_word(t.v[i]) && !unicode_is(t.v[i], UNI_DECIMAL);
}

static bool is_punct_word(struct chars t, int64_t i) /* [\w!"'&.,?] */
{
    return i >= 0 && (is_word(t.v[i]) || (t.v[i] && t.v[i] < 0x80 && strchr("!\"'&.,?", (int)t.v[i])));
}

/* The end of "--..." before a word character at i; 0 when that is not there. */
static int64_t em_dash(struct chars t, int64_t i)
{
    int64_t k = i;

    while (k < t.len && t.v[k] == '-')
        k++;
    return k - i >= 2 && k < t.len && is_word(t.v[k]) ? k : 0;
}

static bool is_hyphen_break(struct chars t, int64_t k) /* k: behind the hyphen */
{
    bool before = (is_letter(t, k - 2) && is_letter(t, k - 3)) ||
                  (is_letter(t, k - 2) && k >= 4 && t.v[k - 3] == '-' && is_letter(t, k - 4));

    return before && is_letter(t, k) &&
           (is_letter(t, k + 1) || (k + 1 < t.len && t.v[k + 1] == '-' && is_letter(t, k + 2)));
}

static int64_t chunk_end(struct chars t, int64_t i, bool hyphens)
{
    int64_t k = i, dash;

    if (is_ws(t.v[i])) {
        while (k < t.len && is_ws(t.v[k]))
            k++;
        return k;
    }
    if (hyphens && is_punct_word(t, i - 1) && (dash = em_dash(t, i)))
        return dash;
    for (k = i + 1; k < t.len && !is_ws(t.v[k]); k++) {
        if (!hyphens)
            continue;
        if (t.v[k] == '-' && is_hyphen_break(t, k + 1))
            return k + 1;
        if (is_punct_word(t, k - 1) && em_dash(t, k))
            return k;
    }
    return k;
}

/* A line being filled: chunks from `from` on, at a[at]. */
struct filler {
    struct chars text;
    struct {
        int64_t from, to;
    } * chunk;
    int64_t n, at;
};

static bool is_blank_chunk(const struct filler *f, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        if (!unicode_is(f->text.v[i], UNI_SPACE))
            return false;
    return true;
}

/* Where to cut a chunk longer than the room left. */
static int64_t cut_long(const struct filler *f, const struct wrap *w, int64_t room)
{
    int64_t from = f->chunk[f->at].from, end = from + room;

    if (!w->break_hyphens)
        return end;
    for (int64_t i = end - 1; i > from; i--) {
        if (f->text.v[i] != '-')
            continue;
        for (int64_t k = from; k < i; k++)
            if (f->text.v[k] != '-')
                return i + 1;
        break;
    }
    return end;
}

static int push_line(struct run *r, const struct filler *f, int64_t from, int64_t to, struct jlist *lines)
{
    struct text t = text_begin(r);
    struct jv line;

    for (int64_t i = from; i < to; i++)
        unicode_put(&r->scratch, f->text.v[i]);
    if (text_end(&t, &line) < 0)
        return -1;
    list_push(r, lines, line);
    return charge(r, 1);
}

static int fill_line(struct run *r, struct filler *f, const struct wrap *w, struct jlist *lines)
{
    int64_t from, to, last_from;

    if (lines->len && is_blank_chunk(f, f->chunk[f->at].from, f->chunk[f->at].to) && ++f->at == f->n)
        return 0;
    from = to = last_from = f->chunk[f->at].from;
    while (f->at < f->n && f->chunk[f->at].to - from <= w->width) {
        last_from = f->chunk[f->at].from;
        to = f->chunk[f->at++].to;
    }
    if (f->at < f->n && f->chunk[f->at].to - f->chunk[f->at].from > w->width) {
        if (w->break_long) {
            int64_t cut = cut_long(f, w, w->width - (to - from));

            last_from = f->chunk[f->at].from;
            to = f->chunk[f->at].from = cut;
        } else if (to == from) {
            last_from = from;
            to = f->chunk[f->at++].to;
        }
    }
    if (to > from && is_blank_chunk(f, last_from, to))
        to = last_from;
    return to > from ? push_line(r, f, from, to, lines) : 0;
}

int wrap_line(struct run *r, const struct wrap *w, struct str line, struct jlist *lines)
{
    struct filler f = {0};
    const char *at = line.s, *end = line.s + line.len;
    uint32_t *chars;
    int64_t i = 0;

    if (w->width <= 0)
        return raise(r, JINJA_VALUE_ERROR, "invalid width %lld (must be > 0)", (long long)w->width);
    if (check_items(r, (int64_t)line.len) < 0)
        return -1;
    chars = run_alloc(r, (line.len + 1) * sizeof(*chars));
    while (at < end)
        chars[f.text.len++] = utf8_next(&at, end);
    f.text.v = chars;
    f.chunk = run_alloc(r, (line.len + 1) * sizeof(*f.chunk));
    while (i < f.text.len) {
        f.chunk[f.n].from = i;
        f.chunk[f.n++].to = i = chunk_end(f.text, i, w->break_hyphens);
    }
    while (f.at < f.n)
        if (fill_line(r, &f, w, lines) < 0)
            return -1;
    return 0;
}
