/* lexer.c - text to tokens, one at a time, by the rules of Jinja2's regular expressions: outside of tags the
 * longest text without a tag, inside whitespace, numbers, names, strings and operators in that order. */
#include "jinja/ast.h"
#include "jinja/unicode.h"

#include <stdio.h>
#include <stdlib.h>

void lexer_init(struct lexer *lx, struct run *r, const struct jinja_options *opt, struct str source)
{
    *lx = (struct lexer){.r = r, .opt = opt, .start = source.s, .at = source.s, .end = source.s + source.len};
    lx->line_start = source.s;
    lx->line = 1;
    lx->line_starting = true;
}

static const char *const type_names[] = {
    [T_EOF] = "end of template",
    [T_DATA] = "template data / text",
    [T_VAR_BEGIN] = "begin of print statement",
    [T_VAR_END] = "end of print statement",
    [T_BLOCK_BEGIN] = "begin of statement block",
    [T_BLOCK_END] = "end of statement block",
    [T_NAME] = "name",
    [T_STRING] = "string",
    [T_INTEGER] = "integer",
    [T_FLOAT] = "float",
    [T_ADD] = "+",
    [T_SUB] = "-",
    [T_DIV] = "/",
    [T_FLOORDIV] = "//",
    [T_MUL] = "*",
    [T_MOD] = "%",
    [T_POW] = "**",
    [T_TILDE] = "~",
    [T_LBRACKET] = "[",
    [T_RBRACKET] = "]",
    [T_LPAREN] = "(",
    [T_RPAREN] = ")",
    [T_LBRACE] = "{",
    [T_RBRACE] = "}",
    [T_EQ] = "==",
    [T_NE] = "!=",
    [T_GT] = ">",
    [T_GTEQ] = ">=",
    [T_LT] = "<",
    [T_LTEQ] = "<=",
    [T_ASSIGN] = "=",
    [T_DOT] = ".",
    [T_COLON] = ":",
    [T_PIPE] = "|",
    [T_COMMA] = ",",
    [T_SEMICOLON] = ";",
};

const char *tok_type_name(enum tok_type type)
{
    return type_names[type];
}

const char *tok_describe(struct run *r, const struct tok *tok)
{
    return tok->type == T_NAME ? arena_strndup(r->arena, tok->text.s, tok->text.len) : type_names[tok->type];
}

/* Moves to `to`, counting lines. */
static void advance(struct lexer *lx, const char *to)
{
    const char *nl;

    if (to == lx->at)
        return;
    while ((nl = memchr(lx->at, '\n', (size_t)(to - lx->at)))) {
        lx->line++;
        lx->at = lx->line_start = nl + 1;
    }
    lx->at = to;
}

static const char *skip_space(const char *p, const char *end)
{
    while (p < end) {
        const char *before = p;

        if (*p > ' ' && *p < 0x7f)
            return p;
        if (*p == ' ' || *p == '\n') {
            p++;
            continue;
        }

        if (!unicode_is(utf8_next(&p, end), UNI_SPACE))
            return before;
    }
    return p;
}

static const char *strip_right(const char *start, const char *end)
{
    while (end > start) {
        const char *p = end;

        if (!unicode_is(utf8_before(start, &p), UNI_SPACE))
            break;
        end = p;
    }
    return end;
}

static bool has_at(const struct lexer *lx, const char *p, const char *what)
{
    size_t n = strlen(what);

    return (size_t)(lx->end - p) >= n && *p == *what && memcmp(p, what, n) == 0;
}

/* The end of "{%[-+] word [-]%}" at p, where mode says how it may end; NULL when it is none. */
static const char *match_raw_tag(const struct lexer *lx, const char *p, const char *word, bool is_end,
                                 char *sign)
{
    const char *q = p + 2;

    *sign = '\0';
    if (q < lx->end && (*q == '-' || *q == '+'))
        *sign = *q++;
    q = skip_space(q, lx->end);
    if (!has_at(lx, q, word))
        return NULL;
    q = skip_space(q + strlen(word), lx->end);
    if (has_at(lx, q, "-%}"))
        return skip_space(q + 3, lx->end);
    if (is_end && has_at(lx, q, "+%}"))
        return q + 3;
    if (!has_at(lx, q, "%}"))
        return NULL;
    q += 2;
    if (is_end && lx->opt->trim_blocks && q < lx->end && *q == '\n')
        q++;
    return q;
}

/* Where the text before a tag ends, by the tag's sign and lstrip_blocks. */
static const char *text_before(const struct lexer *lx, const char *tag, char sign, bool variable)
{
    const char *line, *p;

    if (sign == '-')
        return strip_right(lx->at, tag);
    if (sign == '+' || !lx->opt->lstrip_blocks || variable)
        return tag;
    line = memrchr(lx->at, '\n', (size_t)(tag - lx->at));
    if (!line && !lx->line_starting)
        return tag;
    line = line ? line + 1 : lx->at;
    for (p = line; p < tag;)
        if (!unicode_is(utf8_next(&p, tag), UNI_SPACE))
            return tag;
    return line;
}

static int lex_error(struct lexer *lx, const char *what)
{
    return raise(lx->r, JINJA_SYNTAX_ERROR, "%s", what);
}

/* Skips the comment whose inside starts at lx->at. False: it has no end. */
static bool skip_comment(struct lexer *lx)
{
    const char *hash = memmem(lx->at, (size_t)(lx->end - lx->at), "#}", 2), *to;

    if (!hash)
        return false;
    to = hash + 2;
    if (hash > lx->at && hash[-1] == '-')
        to = skip_space(to, lx->end);
    else if (!(hash > lx->at && hash[-1] == '+') && lx->opt->trim_blocks && to < lx->end && *to == '\n')
        to++;
    advance(lx, to);
    lx->line_starting = to[-1] == '\n';
    return true;
}

static int data_token(struct lexer *lx, const char *text_end, const char *next, struct tok *ret)
{
    *ret = (struct tok){.type = T_DATA, .line = lx->line, .at = lx->at};
    ret->text = (struct str){lx->at, (size_t)(text_end - lx->at)};
    advance(lx, next);
    return 0;
}

/* Inside {% raw %}: all up to {% endraw %}. */
static int lex_raw(struct lexer *lx, struct tok *ret)
{
    const char *p = lx->at, *end = NULL, *text_end;
    char sign = '\0';

    lx->state = LEX_ROOT;
    if (p >= lx->end) {
        *ret = (struct tok){.type = T_EOF, .line = lx->line, .at = lx->at};
        return 0;
    }
    while (p < lx->end && (p = memmem(p, (size_t)(lx->end - p), "{%", 2))) {
        end = match_raw_tag(lx, p, "endraw", true, &sign);
        if (end)
            break;
        p++;
    }
    if (!p || !end)
        return lex_error(lx, "Missing end of raw directive");
    text_end = text_before(lx, p, sign, false);
    data_token(lx, text_end, end, ret);
    lx->line_starting = end[-1] == '\n';
    return 0;
}

/* The next "{{", "{%" or "{#" from p on. */
static const char *find_tag(const char *p, const char *end)
{
    while (p < end && (p = memchr(p, '{', (size_t)(end - p)))) {
        if (p + 1 < end && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
        p++;
    }
    return NULL;
}

/* Enters the tag at lx->at: 1 ret is a token, 0 go on. */
static int open_tag(struct lexer *lx, struct tok *ret)
{
    char kind = lx->at[1], sign;
    const char *raw_end = kind == '%' ? match_raw_tag(lx, lx->at, "raw", false, &sign) : NULL;

    *ret = (struct tok){.line = lx->line, .at = lx->at};
    if (raw_end) {
        advance(lx, raw_end);
        lx->line_starting = raw_end[-1] == '\n';
        lx->state = LEX_RAW;
        return 0;
    }
    lx->at += 2;
    if (lx->at < lx->end && (*lx->at == '-' || *lx->at == '+'))
        lx->at++;
    lx->line_starting = false;
    if (kind == '#')
        return lx->at == lx->end || skip_comment(lx) ? 0 : lex_error(lx, "Missing end of comment tag");
    ret->type = kind == '{' ? T_VAR_BEGIN : T_BLOCK_BEGIN;
    lx->state = kind == '{' ? LEX_VARIABLE : LEX_BLOCK;
    lx->balance_len = 0;
    return 1;
}

__attribute__((noinline)) static int lex_root(struct lexer *lx, struct tok *ret)
{
    for (;;) {
        const char *tag, *text_end;
        char sign = '\0', kind;
        int done;

        if (lx->state == LEX_RAW) {
            if (lex_raw(lx, ret) < 0)
                return -1;
            if (ret->type == T_EOF || ret->text.len)
                return 0;
        }
        tag = find_tag(lx->at, lx->end);
        if (!tag) {
            if (lx->at == lx->end) {
                *ret = (struct tok){.type = T_EOF, .line = lx->line, .at = lx->at};
                return 0;
            }
            return data_token(lx, lx->end, lx->end, ret);
        }
        kind = tag[1];
        if (tag + 2 < lx->end && (tag[2] == '-' || tag[2] == '+'))
            sign = tag[2];
        text_end = text_before(lx, tag, sign, kind == '{');
        if (text_end > lx->at)
            return data_token(lx, text_end, tag, ret);
        advance(lx, tag);
        done = open_tag(lx, ret);
        if (done != 0)
            return done < 0 ? -1 : 0;
    }
}

/* ---- inside of tags; what is rare is kept out of line, so that the common path stays short ---- */

static const char *digits_run(const char *p, const char *end, const char *allowed, bool lead_underscore)
{
    const char *start = p;

    for (;;) {
        const char *q = p;

        if (q < end && *q == '_' && (p > start || lead_underscore))
            q++;
        if (q >= end || !*q || !strchr(allowed, *q))
            return p;
        p = q + 1;
    }
}

#define DIGITS "0123456789"

static const char *match_float(const struct lexer *lx)
{
    const char *p, *fraction, *q;

    if (lx->at > lx->start && lx->at[-1] == '.')
        return NULL;
    p = digits_run(lx->at, lx->end, DIGITS, false);
    if (p == lx->at)
        return NULL;
    fraction = p;
    if (p < lx->end && *p == '.') {
        fraction = digits_run(p + 1, lx->end, DIGITS, false);
        if (fraction == p + 1)
            fraction = p;
    }
    q = fraction;
    if (q < lx->end && (*q == 'e' || *q == 'E')) {
        q++;
        if (q < lx->end && (*q == '+' || *q == '-'))
            q++;
        if (q < lx->end && *q >= '0' && *q <= '9')
            return digits_run(q, lx->end, DIGITS, false);
    }
    return fraction > p ? fraction : NULL;
}

static const char *match_integer(const struct lexer *lx)
{
    static const char *const sets[] = {"bB01", "oO01234567", "xX0123456789abcdefABCDEF"};
    const char *p = lx->at;

    if (*p < '0' || *p > '9')
        return NULL;
    if (*p != '0')
        return digits_run(p, lx->end, DIGITS, false);
    for (size_t i = 0; p + 1 < lx->end && i < 3; i++)
        if (p[1] == sets[i][0] || p[1] == sets[i][1]) {
            const char *q = digits_run(p + 2, lx->end, sets[i] + 2, true);

            if (q > p + 2)
                return q;
        }
    return digits_run(p, lx->end, "0", false);
}

__attribute__((noinline)) static int number_token(struct lexer *lx, const char *to, bool is_float,
                                                  struct tok *ret)
{
    struct str text = {lx->at, (size_t)(to - lx->at)};
    double d;

    ret->type = is_float ? T_FLOAT : T_INTEGER;
    if (is_float) {
        if (!num_parse_float(text, &d))
            return lex_error(lx, "invalid number");
        ret->val = JV_OF_REAL(d);
    } else if (num_parse_int(lx->r, text, 0, &ret->val) <= 0) {
        return lex_error(lx, "invalid number");
    }
    lx->at = to;
    return 0;
}

/* 0-9 A-Z _ a-z */
#define ROW(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
static const bool name_chars[256] = {
    ROW(0), ROW(0), ROW(0), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, /* digits, then '@' at 64 */
    1,      1,      1,      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0,
    0,      1,      0,      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
};
#undef ROW

static const char *match_name(const struct lexer *lx, bool *valid)
{
    const char *p = lx->at;

    *valid = true;
    while (p < lx->end) {
        const char *before = p;
        unsigned char c = (unsigned char)*p;
        uint32_t cp;

        if (name_chars[c]) {
            p++;
            continue;
        }
        if (c < 0x80)
            return before;
        cp = utf8_next(&p, lx->end);
        if (!unicode_is(cp, UNI_ALNUM | UNI_IDCONT))
            return before;
        if (!unicode_is(cp, before == lx->at ? UNI_IDSTART : UNI_IDCONT))
            *valid = false;
    }
    return p;
}

static const char *match_string(const struct lexer *lx)
{
    char quote = *lx->at;

    for (const char *p = lx->at + 1; p < lx->end; p++) {
        if (*p == '\\')
            p++;
        else if (*p == quote)
            return p + 1;
    }
    return NULL;
}

/* Hex digits of \x, \u, \U. */
static int put_hex(struct lexer *lx, struct buf *buf, const char **at, const char *end, unsigned n)
{
    uint32_t cp = 0;

    for (unsigned i = 0; i < n; i++, ++*at) {
        int c = *at < end ? **at : 0;

        if (!((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')))
            return raise(lx->r, JINJA_SYNTAX_ERROR, "truncated \\%s escape",
                         n == 2   ? "xXX"
                         : n == 4 ? "uXXXX"
                                  : "UXXXXXXXX");
        cp = cp << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (cp > 0x10ffff)
        return lex_error(lx, "illegal Unicode character");
    unicode_put(buf, cp);
    return 0;
}

static int put_string_escape(struct lexer *lx, struct buf *buf, const char **at, const char *end)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = *(*at)++;
    const char *known = strchr(from, c);
    uint32_t cp = 0;

    if (c && known) {
        buf_putc(buf, to[known - from]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        return put_hex(lx, buf, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c >= '0' && c <= '7') {
        cp = (uint32_t)(c - '0');
        for (int i = 0; i < 2 && *at < end && **at >= '0' && **at <= '7'; i++)
            cp = cp * 8 + (uint32_t)(*(*at)++ - '0');
        unicode_put(buf, cp);
    } else if (c == 'N') {
        return lex_error(lx, "unknown Unicode character name");
    } else if ((unsigned char)c >= 0x80) { /* Jinja2 escapes it first: the backslash stays, with its code */
        --*at;
        cp = utf8_next(at, end);
        buf_printf(buf, cp <= 0xff ? "\\x%02x" : cp <= 0xffff ? "\\u%04x" : "\\U%08x", cp);
    } else if (c != '\n') {
        buf_putc(buf, '\\');
        buf_putc(buf, c);
    }
    return 0;
}

__attribute__((noinline)) static int string_token(struct lexer *lx, const char *to, struct tok *ret)
{
    const char *at = lx->at + 1, *end = to - 1, *slash;
    struct buf buf = {0};

    ret->type = T_STRING;
    ret->text = (struct str){at, (size_t)(end - at)};
    while ((slash = memchr(at, '\\', (size_t)(end - at)))) {
        buf_add(&buf, at, (size_t)(slash - at));
        at = slash + 1;
        if (at == end) {
            buf_done(&buf);
            return lex_error(lx, "\\ at end of string");
        }
        if (put_string_escape(lx, &buf, &at, end) < 0) {
            buf_done(&buf);
            return -1;
        }
    }
    if (at != lx->at + 1) {
        buf_add(&buf, at, (size_t)(end - at));
        ret->text = (struct str){arena_strndup(lx->r->arena, buf.data, buf.len), buf.len};
        buf_done(&buf);
    }
    advance(lx, to);
    return 0;
}

/* Operators of one character, by it; those of two are told apart in operator_token. */
static const uint8_t operators[128] = {
    ['+'] = T_ADD,    ['-'] = T_SUB,      ['/'] = T_DIV,      ['*'] = T_MUL,    ['%'] = T_MOD,
    ['~'] = T_TILDE,  ['['] = T_LBRACKET, [']'] = T_RBRACKET, ['('] = T_LPAREN, [')'] = T_RPAREN,
    ['{'] = T_LBRACE, ['}'] = T_RBRACE,   ['>'] = T_GT,       ['<'] = T_LT,     ['='] = T_ASSIGN,
    ['.'] = T_DOT,    [':'] = T_COLON,    ['|'] = T_PIPE,     [','] = T_COMMA,  [';'] = T_SEMICOLON,
};

static enum tok_type long_operator(char first, char second)
{
    if (second == '=')
        return first == '='   ? T_EQ
               : first == '!' ? T_NE
               : first == '>' ? T_GTEQ
               : first == '<' ? T_LTEQ
                              : T_EOF;
    if (first == second)
        return first == '/' ? T_FLOORDIV : first == '*' ? T_POW : T_EOF;
    return T_EOF;
}

/* Brackets must close in order; while one is open no tag ends. */
static int balance(struct lexer *lx, enum tok_type type)
{
    char c = *lx->at, expected;

    if (type == T_LPAREN || type == T_LBRACKET || type == T_LBRACE) {
        if (lx->balance_len == BALANCE_MAX)
            return raise(lx->r, JINJA_LIMIT_ERROR, "the limit of nesting is reached");
        lx->balance[lx->balance_len++] = type == T_LPAREN ? ')' : type == T_LBRACKET ? ']' : '}';
    } else if (type == T_RPAREN || type == T_RBRACKET || type == T_RBRACE) {
        if (lx->balance_len == 0)
            return raise(lx->r, JINJA_SYNTAX_ERROR, "unexpected '%c'", c);
        expected = lx->balance[--lx->balance_len];
        if (expected != c)
            return raise(lx->r, JINJA_SYNTAX_ERROR, "unexpected '%c', expected '%c'", c, expected);
    }
    return 0;
}

__attribute__((noinline)) static int bad_char(struct lexer *lx)
{
    const char *p = lx->at;

    (void)utf8_next(&p, lx->end);
    return raise(lx->r, JINJA_SYNTAX_ERROR, "unexpected char %s at %zu",
                 repr_brief(lx->r, jv_str((struct str){lx->at, (size_t)(p - lx->at)})),
                 utf8_count((struct str){lx->start, (size_t)(lx->at - lx->start)}));
}

static int operator_token(struct lexer *lx, struct tok *ret)
{
    const char *p = lx->at;

    if (p + 1 < lx->end && (ret->type = (uint8_t)long_operator(p[0], p[1])) != T_EOF) {
        lx->at += 2;
        return 0;
    }
    ret->type = (unsigned char)*p < 128 ? operators[(unsigned char)*p] : T_EOF;
    if (ret->type != T_EOF) {
        if (balance(lx, (enum tok_type)ret->type) < 0)
            return -1;
        lx->at++;
        return 0;
    }
    return bad_char(lx);
}

/* The end of the tag at lx->at; NULL when it does not end here. */
static const char *match_tag_end(const struct lexer *lx)
{
    const char *close = lx->state == LEX_BLOCK ? "%}" : "}}", *p = lx->at;

    if (*p != '-' && *p != '+' && *p != *close)
        return NULL;
    if (*p == '-' && has_at(lx, p + 1, close))
        return skip_space(p + 3, lx->end);
    if (lx->state == LEX_BLOCK && *p == '+' && has_at(lx, p + 1, close))
        return p + 3;
    if (!has_at(lx, p, close))
        return NULL;
    p += 2;
    if (lx->state == LEX_BLOCK && lx->opt->trim_blocks && p < lx->end && *p == '\n')
        p++;
    return p;
}

/* Whitespace, then the end of the tag where no bracket is open: 1 that was it. */
static int lex_tag_end(struct lexer *lx, struct tok *ret)
{
    const char *to;

    if (lx->at < lx->end && *lx->at == ' ')
        lx->at++;
    if (lx->at < lx->end && (*lx->at <= ' ' || *lx->at == 0x7f)) /* also what is not ASCII */
        advance(lx, skip_space(lx->at, lx->end));
    if (lx->at >= lx->end || lx->balance_len > 0 || !(to = match_tag_end(lx)))
        return 0;
    *ret = (struct tok){
        .type = lx->state == LEX_BLOCK ? T_BLOCK_END : T_VAR_END, .line = lx->line, .at = lx->at};
    if (to - lx->at == 2)
        lx->at = to;
    else
        advance(lx, to);
    lx->line_starting = to[-1] == '\n';
    lx->state = LEX_ROOT;
    return 1;
}

/* What most tokens are: an ASCII name, a dot. False: it is something else. The source ends in NUL, which is
 * part of no name. */
static inline bool lex_common(struct lexer *lx, struct tok *ret)
{
    const char *p = lx->at;

    if (*p == '.') {
        ret->type = T_DOT;
        p++;
    } else {
        if (!name_chars[(unsigned char)*p] || *p <= '9')
            return false;
        while (name_chars[(unsigned char)*++p])
            ;
        if ((unsigned char)*p >= 0x80)
            return false;
        ret->type = T_NAME;
        ret->text = (struct str){lx->at, (size_t)(p - lx->at)};
    }
    ret->line = lx->line;
    ret->at = lx->at;
    lx->at = p;
    return true;
}

static int lex_tag(struct lexer *lx, struct tok *ret)
{
    const char *to;
    bool valid;

    if (lex_common(lx, ret) || lex_tag_end(lx, ret) || lex_common(lx, ret))
        return 0;
    *ret = (struct tok){.type = T_EOF, .line = lx->line, .at = lx->at};
    if (lx->at >= lx->end)
        return 0;
    if (*lx->at >= '0' && *lx->at <= '9') {
        if ((to = match_float(lx)))
            return number_token(lx, to, true, ret);
        if ((to = match_integer(lx)))
            return number_token(lx, to, false, ret);
    }
    to = match_name(lx, &valid);
    if (to > lx->at) {
        if (!valid)
            return lex_error(lx, "Invalid character in identifier");
        ret->type = T_NAME;
        ret->text = (struct str){lx->at, (size_t)(to - lx->at)};
        lx->at = to;
        return 0;
    }
    if ((*lx->at == '\'' || *lx->at == '"') && (to = match_string(lx)))
        return string_token(lx, to, ret);
    return operator_token(lx, ret);
}

int lexer_next(struct lexer *lx, struct tok *ret)
{
    return lx->state == LEX_BLOCK || lx->state == LEX_VARIABLE ? lex_tag(lx, ret) : lex_root(lx, ret);
}
