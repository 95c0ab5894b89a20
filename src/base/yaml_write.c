/* yaml_write.c - trees to YAML, as kubectl prints it. What is written reads back equal, with yaml_parse
 * and with other YAML 1.1 readers: strings that any of them would take for something else are quoted. */
#include "base/json_build.h"
#include "base/yaml.h"
#include "base/yaml_scalar.h"

#include <math.h>

#define SIMPLE_KEY_MAX 512 /* bytes as written; YAML ends at 1024 characters, longer keys need "? " */

enum style { PLAIN, SINGLE_QUOTED, DOUBLE_QUOTED, LITERAL };

/* Characters YAML 1.1 lets stand unescaped on one line; the rest needs double quotes. */
static bool printable(const unsigned char *p, size_t n)
{
    if (n == 1)
        return *p >= 0x20 && *p < 0x7f;
    if (n == 2)
        return p[0] != 0xc2 || p[1] >= 0xa0; /* C1 controls, with NEL among them */
    if (n == 3) {
        if (p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9)) /* line separators */
            return false;
        if (p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf) /* byte order mark */
            return false;
        return !(p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe); /* U+FFFE, U+FFFF */
    }
    /* PyYAML's pattern allows all above U+FFFF */
    return n == 4;
}

/* Whether every character is printable, tabs and newlines aside where `lines`. */
static bool all_printable(struct str s, bool lines)
{
    for (size_t i = 0; i < s.len;) {
        const unsigned char *p = (const unsigned char *)s.s + i;
        size_t n = utf8_len(p, s.len - i);

        if (!(lines && (*p == '\n' || *p == '\t')) && !printable(p, n))
            return false;
        i += n;
    }
    return true;
}

/* Lines that end in blanks would be legal but are easily lost in editors; a first line that starts with
 * a blank would need an indentation indicator. */
static bool fits_literal(struct str s)
{
    if (!memchr(s.s, '\n', s.len) || strchr(" \t\n", s.s[0]) || !all_printable(s, true))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if ((s.s[i] == ' ' || s.s[i] == '\t') && (i + 1 == s.len || s.s[i + 1] == '\n'))
            return false;
    return true;
}

/* Whether the text can stand without quotes as far as the syntax goes. */
static bool fits_plain(struct str s)
{
    if (strchr("-?:", s.s[0])) {
        if (s.len == 1 || strchr(" -", s.s[1]))
            return false;
    } else if (strchr(",[]{}#&*!|>'\"%@` ", s.s[0])) {
        return false;
    }
    if (s.s[s.len - 1] == ' ' || s.s[s.len - 1] == ':')
        return false;
    if (str_starts(s, "..."))
        return false;
    for (size_t i = 0; i + 1 < s.len; i++)
        if ((s.s[i] == ':' && s.s[i + 1] == ' ') || (s.s[i] == ' ' && s.s[i + 1] == '#'))
            return false;
    return true;
}

static enum style style_of(struct str s, bool key)
{
    if (yaml_needs_quotes(s))
        return DOUBLE_QUOTED;
    if (!key && fits_literal(s))
        return LITERAL;
    if (!all_printable(s, false))
        return DOUBLE_QUOTED;
    return fits_plain(s) ? PLAIN : SINGLE_QUOTED;
}

static void write_single_quoted(struct buf *buf, struct str s)
{
    buf_putc(buf, '\'');
    for (size_t i = 0; i < s.len; i++) {
        if (s.s[i] == '\'')
            buf_putc(buf, '\'');
        buf_putc(buf, s.s[i]);
    }
    buf_putc(buf, '\'');
}

static uint32_t code_point(const unsigned char *p, size_t n)
{
    if (n == 1)
        return p[0];
    if (n == 2)
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
}

static void write_escape(struct buf *buf, uint32_t c)
{
    static const char shorts[128] = {
        ['\0'] = '0', ['\a'] = 'a', ['\b'] = 'b', ['\t'] = 't',  ['\n'] = 'n', ['\v'] = 'v',
        ['\f'] = 'f', ['\r'] = 'r', [0x1b] = 'e', ['\\'] = '\\', ['"'] = '"',
    };

    if (c < 128 && shorts[c])
        buf_printf(buf, "\\%c", shorts[c]);
    else if (c < 256)
        buf_printf(buf, "\\x%02X", c);
    else
        buf_printf(buf, "\\u%04X", c);
}

static void write_double_quoted(struct buf *buf, struct str s)
{
    buf_putc(buf, '"');
    for (size_t i = 0; i < s.len;) {
        const unsigned char *p = (const unsigned char *)s.s + i;
        size_t n = utf8_len(p, s.len - i);

        if (n == 0)
            buf_puts(buf, "\xef\xbf\xbd");
        else if (*p == '"' || *p == '\\' || !printable(p, n))
            write_escape(buf, code_point(p, n));
        else
            buf_add(buf, p, n);
        i += n ? n : 1;
    }
    buf_putc(buf, '"');
}

static void write_indent(struct buf *buf, int depth)
{
    size_t spaces = (size_t)depth * 2;

    memset(buf_reserve(buf, spaces), ' ', spaces);
    buf->len += spaces;
    buf->data[buf->len] = '\0';
}

/* "|" keeps one newline at the end, "|-" none, "|+" all. */
static void write_literal(struct buf *buf, struct str s, int depth)
{
    struct str rest, line;

    if (!str_ends(s, "\n"))
        buf_puts(buf, "|-");
    else
        buf_puts(buf, str_ends(s, "\n\n") ? "|+" : "|");
    rest = str_ends(s, "\n") ? (struct str){s.s, s.len - 1} : s;
    while (str_split(&rest, '\n', &line)) {
        buf_putc(buf, '\n');
        if (line.len)
            write_indent(buf, depth);
        buf_str(buf, line);
    }
}

static void write_string(struct buf *buf, struct str s, int depth)
{
    switch (style_of(s, false)) {
    case PLAIN:
        buf_str(buf, s);
        return;
    case SINGLE_QUOTED:
        write_single_quoted(buf, s);
        return;
    case LITERAL:
        write_literal(buf, s, depth);
        return;
    case DOUBLE_QUOTED:
        write_double_quoted(buf, s);
        return;
    }
}

/* YAML 1.1 wants a point in the mantissa: 1.0e+21. */
static void write_real(struct buf *buf, double d)
{
    char text[JSON_REAL_MAX], *e;
    size_t len;

    if (!isfinite(d)) {
        buf_puts(buf, "null");
        return;
    }
    len = json_real_text(d, text);
    e = memchr(text, 'e', len);
    if (!e || memchr(text, '.', len)) {
        buf_add(buf, text, len);
        return;
    }
    buf_add(buf, text, (size_t)(e - text));
    buf_puts(buf, ".0");
    buf_puts(buf, e);
}

static void write_scalar(struct buf *buf, const struct json *value, int depth)
{
    if (value->type == JSON_STRING)
        write_string(buf, json_str(value), depth);
    else if (value->type == JSON_REAL)
        write_real(buf, value->real);
    else if (value->type == JSON_ARRAY)
        buf_puts(buf, "[]");
    else if (value->type == JSON_OBJECT)
        buf_puts(buf, "{}");
    else
        json_write(buf, value);
}

/* Writes the key up to and with its colon. */
static void write_key(struct buf *buf, struct str key, int depth)
{
    size_t start = buf->len;

    switch (style_of(key, true)) {
    case PLAIN:
        buf_str(buf, key);
        break;
    case SINGLE_QUOTED:
        write_single_quoted(buf, key);
        break;
    default:
        write_double_quoted(buf, key);
        break;
    }
    if (buf->len - start > SIMPLE_KEY_MAX) {
        buf_reserve(buf, 2);
        memmove(buf->data + start + 2, buf->data + start, buf->len - start);
        memcpy(buf->data + start, "? ", 2);
        buf->len += 2;
        buf_putc(buf, '\n');
        write_indent(buf, depth);
    }
    buf_putc(buf, ':');
}

/* Values start where the cursor is: behind "- " or at the start of an indented line. */
static void write_block(struct buf *buf, const struct json *value, int depth, int nesting);

static void write_member(struct buf *buf, const struct json_member *member, int depth, int nesting)
{
    const struct json *value = &member->value;
    bool nested = json_len(value) && nesting < JSON_DEPTH_MAX;

    write_key(buf, (struct str){member->key, member->key_len}, depth);
    if (!nested) {
        buf_putc(buf, ' ');
        write_block(buf, value, depth + 1, nesting);
        return;
    }
    buf_putc(buf, '\n');
    depth += value->type == JSON_OBJECT; /* lists stand below their key, not indented */
    write_indent(buf, depth);
    write_block(buf, value, depth, nesting);
}

static void write_object(struct buf *buf, const struct json *value, int depth, int nesting)
{
    for (uint32_t i = 0; i < value->len; i++) {
        if (i)
            write_indent(buf, depth);
        write_member(buf, &value->members->v[i], depth, nesting + 1);
    }
}

static void write_array(struct buf *buf, const struct json *value, int depth, int nesting)
{
    for (uint32_t i = 0; i < value->len; i++) {
        if (i)
            write_indent(buf, depth);
        buf_puts(buf, "- ");
        write_block(buf, &value->items->v[i], depth + 1, nesting + 1);
    }
}

static void write_block(struct buf *buf, const struct json *value, int depth, int nesting)
{
    if (json_len(value) && nesting >= JSON_DEPTH_MAX) {
        buf_puts(buf, "null\n");
        return;
    }
    if (json_len(value) && value->type == JSON_OBJECT) {
        write_object(buf, value, depth, nesting);
        return;
    }
    if (json_len(value)) {
        write_array(buf, value, depth, nesting);
        return;
    }
    write_scalar(buf, value, depth ? depth : 1);
    buf_putc(buf, '\n');
}

void yaml_write(struct buf *buf, const struct json *value)
{
    static const struct json null = {.type = JSON_NULL};

    write_block(buf, value ? value : &null, 0, 0);
}
