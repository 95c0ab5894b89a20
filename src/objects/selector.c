/* How it works: label text is read token by token with one token of lookahead, exactly by the grammar of
 * Kubernetes' parser (its error sentences included); `=` is `in` with one value. Values are sorted, so
 * that a match is a binary search. Field text is cut at commas that are not escaped. */
#include "objects/selector.h"

#include "objects/kind.h"

#include <stdlib.h>

enum op { OP_EXISTS, OP_ABSENT, OP_IN, OP_NOT_IN, OP_GREATER, OP_LESS };

enum { FIELD_NAME = -1, FIELD_NAMESPACE = -2 };

struct term {
    enum op op;
    int field; /* of field terms: FIELD_* or the place in kind->fields */
    struct str key;
    struct str *values; /* sorted */
    size_t count;
    int64_t number; /* of OP_GREATER, OP_LESS */
};

struct terms {
    struct term *v;
    size_t len, cap;
};

struct selector {
    struct terms labels, fields;
    bool nothing; /* matches no object */
};

static int add_term(struct terms *terms, struct arena *arena, struct term term, struct err *err)
{
    if (terms->len >= SELECTOR_TERMS_MAX)
        return err_set(err, ERR_INVALID, "selector has more than %d terms", SELECTOR_TERMS_MAX);
    if (terms->len == terms->cap) {
        size_t cap = terms->cap ? terms->cap * 2 : 4;
        struct term *v = arena_alloc(arena, cap * sizeof(*v));

        if (terms->len)
            memcpy(v, terms->v, terms->len * sizeof(*v));
        terms->v = v;
        terms->cap = cap;
    }
    terms->v[terms->len++] = term;
    return 0;
}

/* ---- what keys and values may look like ---- */

#define LABEL_LEN_MAX     63
#define SUBDOMAIN_LEN_MAX 253
#define NAME_REGEX        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
#define NAME_RULE                                                                                            \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric " \
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" NAME_REGEX "')"
#define VALUE_RULE                                                                                           \
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "     \
    "must "                                                                                                  \
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used " \
    "for validation is '(" NAME_REGEX ")?')"
#define SUBDOMAIN_RULE                                                                                       \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "    \
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "   \
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
    return is_lower(c) || (c >= 'A' && c <= 'Z');
}

static bool is_name(struct str s)
{
    if (!s.len || !is_alnum(s.s[0]) || !is_alnum(s.s[s.len - 1]))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!is_alnum(s.s[i]) && s.s[i] != '-' && s.s[i] != '_' && s.s[i] != '.')
            return false;
    return true;
}

static bool is_subdomain(struct str s)
{
    struct str part;

    if (!s.len || s.s[s.len - 1] == '.')
        return false;
    while (str_split(&s, '.', &part)) {
        if (!part.len || !is_lower(part.s[0]) || !is_lower(part.s[part.len - 1]))
            return false;
        for (size_t i = 0; i < part.len; i++)
            if (!is_lower(part.s[i]) && part.s[i] != '-')
                return false;
    }
    return true;
}

static void add_problem(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_problem(struct buf *out, const char *fmt, ...)
{
    va_list ap;

    if (out->len)
        buf_puts(out, "; ");
    va_start(ap, fmt);
    buf_vprintf(out, fmt, ap);
    va_end(ap);
}

/* Appends what is wrong with a label key. */
static void check_key(struct str key, struct buf *out)
{
    const char *slash = memchr(key.s, '/', key.len);
    struct str name = key;

    if (slash) {
        struct str prefix = {key.s, (size_t)(slash - key.s)};

        name = (struct str){slash + 1, key.len - prefix.len - 1};
        if (memchr(name.s, '/', name.len)) {
            add_problem(out,
                        "a qualified name %s with an optional DNS subdomain prefix and '/' (e.g. "
                        "'example.com/MyName')",
                        NAME_RULE);
            return;
        }
        if (!prefix.len)
            add_problem(out, "prefix part must be non-empty");
        else if (prefix.len > SUBDOMAIN_LEN_MAX)
            add_problem(out, "prefix part must be no more than %d characters", SUBDOMAIN_LEN_MAX);
        if (prefix.len && !is_subdomain(prefix))
            add_problem(out, "prefix part %s", SUBDOMAIN_RULE);
    }
    if (!name.len)
        add_problem(out, "name part must be non-empty");
    else if (name.len > LABEL_LEN_MAX)
        add_problem(out, "name part must be no more than %d characters", LABEL_LEN_MAX);
    if (!is_name(name))
        add_problem(out, "name part %s", NAME_RULE);
}

static void check_value(struct str value, struct buf *out)
{
    if (value.len > LABEL_LEN_MAX)
        add_problem(out, "must be no more than %d characters", LABEL_LEN_MAX);
    if (value.len && !is_name(value))
        add_problem(out, "%s", VALUE_RULE);
}

/* ---- requirements ---- */

static int value_cmp(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static void sort_values(struct term *term)
{
    size_t kept = 0;

    if (term->count < 2)
        return;
    qsort(term->values, term->count, sizeof(*term->values), value_cmp);
    for (size_t i = 0; i < term->count; i++)
        if (!kept || !str_eq(term->values[kept - 1], term->values[i]))
            term->values[kept++] = term->values[i];
    term->count = kept;
}

static void add_message(struct buf *out, size_t *count, struct str message)
{
    if ((*count)++)
        buf_puts(out, ", ");
    buf_str(out, message);
}

/* Checks a complete term as labels.NewRequirement does; key_path is how the key is called in messages. */
static int check_term(struct term *term, const char *key_path, struct err *err)
{
    CLEANUP(buf_done) struct buf all = {0};
    CLEANUP(buf_done) struct buf one = {0};
    CLEANUP(buf_done) struct buf line = {0};
    size_t count = 0;

    check_key(term->key, &one);
    if (one.len) {
        buf_printf(&line, "%s: Invalid value: \"%.*s\": %s", key_path, STR_ARG(term->key), one.data);
        add_message(&all, &count, buf_view(&line));
    }
    if ((term->op == OP_IN || term->op == OP_NOT_IN) && !term->count)
        add_message(&all, &count,
                    STR("values: Invalid value: []string(nil): for 'in', 'notin' operators, values set can't "
                        "be empty"));
    if ((term->op == OP_EXISTS || term->op == OP_ABSENT) && term->count)
        add_message(&all, &count,
                    STR("values: Invalid value: values set must be empty for exists and does not exist"));
    for (size_t i = 0; i < term->count && all.len < ERR_MSG_MAX; i++) {
        struct str value = term->values[i];

        if ((term->op == OP_GREATER || term->op == OP_LESS) && !str_to_int(value, &term->number)) {
            buf_clear(&line);
            buf_printf(&line,
                       "values[%zu]: Invalid value: \"%.*s\": for 'Gt', 'Lt' operators, the value must be an "
                       "integer",
                       i, STR_ARG(value));
            add_message(&all, &count, buf_view(&line));
        }
        buf_clear(&one);
        check_value(value, &one);
        if (one.len) {
            buf_clear(&line);
            buf_printf(&line, "values[%zu][%.*s]: Invalid value: \"%.*s\": %s", i, STR_ARG(term->key),
                       STR_ARG(value), one.data);
            add_message(&all, &count, buf_view(&line));
        }
    }
    if (!count)
        return 0;
    return err_set(err, ERR_INVALID, count > 1 ? "[%s]" : "%s", all.data);
}

/* ---- the text of label selectors ---- */

enum token {
    TOKEN_END,
    TOKEN_WORD, /* also `in` and `notin`, which are only operators behind a key */
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_COMMA,
    TOKEN_NOT,
    TOKEN_EQUAL, /* = and == */
    TOKEN_NOT_EQUAL,
    TOKEN_GREATER,
    TOKEN_LESS,
};

struct parser {
    struct arena *arena;
    const char *at;
    enum token token; /* the next one */
    struct str text;
    struct err *err;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void advance(struct parser *p)
{
    static const char symbols[] = "(),!=><";
    static const enum token tokens[] = {TOKEN_OPEN,  TOKEN_CLOSE,   TOKEN_COMMA, TOKEN_NOT,
                                        TOKEN_EQUAL, TOKEN_GREATER, TOKEN_LESS};
    const char *symbol;

    while (is_space(*p->at))
        p->at++;
    p->text = (struct str){p->at, 0};
    if (!*p->at) {
        p->token = TOKEN_END;
        return;
    }
    symbol = strchr(symbols, *p->at);
    if (symbol) {
        p->token = tokens[symbol - symbols];
        p->at++;
        if (*p->at == '=' && (p->token == TOKEN_NOT || p->token == TOKEN_EQUAL)) {
            p->token = p->token == TOKEN_NOT ? TOKEN_NOT_EQUAL : TOKEN_EQUAL;
            p->at++;
        }
    } else {
        p->token = TOKEN_WORD;
        while (*p->at && !is_space(*p->at) && !strchr(symbols, *p->at))
            p->at++;
    }
    p->text.len = (size_t)(p->at - p->text.s);
}

static int unexpected(struct parser *p, const char *wanted)
{
    return err_set(p->err, ERR_INVALID, "found '%.*s'%s", STR_ARG(p->text), wanted);
}

static void add_value(struct parser *p, struct term *term, size_t *cap, struct str value)
{
    if (term->count == *cap) {
        size_t more = *cap ? *cap * 2 : 4;
        struct str *v = arena_alloc(p->arena, more * sizeof(*v));

        if (term->count)
            memcpy(v, term->values, term->count * sizeof(*v));
        term->values = v;
        *cap = more;
    }
    term->values[term->count++] = value;
}

/* "(a,,b)" */
static int parse_set(struct parser *p, struct term *term)
{
    bool after_word = false;
    size_t cap = 0;

    if (p->token != TOKEN_OPEN)
        return unexpected(p, " expected: '('");
    advance(p);
    if (p->token != TOKEN_WORD && p->token != TOKEN_COMMA && p->token != TOKEN_CLOSE)
        return unexpected(p, ", expected: ',', ')' or identifier");
    for (;; advance(p)) {
        if (p->token == TOKEN_WORD) {
            if (after_word)
                return unexpected(p, ", expected: ',' or ')'");
            add_value(p, term, &cap, p->text);
            after_word = true;
        } else if (p->token == TOKEN_COMMA || p->token == TOKEN_CLOSE) {
            if (!after_word)
                add_value(p, term, &cap, STR(""));
            after_word = false;
            if (p->token == TOKEN_CLOSE)
                break;
        } else {
            return unexpected(p, after_word ? ", expected: ',' or ')'" : ", expected: ',', or identifier");
        }
    }
    advance(p);
    return 0;
}

static int parse_exact(struct parser *p, struct term *term)
{
    size_t cap = 0;

    if (p->token == TOKEN_END || p->token == TOKEN_COMMA) {
        add_value(p, term, &cap, STR(""));
        return 0;
    }
    if (p->token != TOKEN_WORD)
        return unexpected(p, ", expected: identifier");
    add_value(p, term, &cap, p->text);
    advance(p);
    return 0;
}

static int parse_operator(struct parser *p, struct term *term)
{
    bool set = false;

    if (p->token == TOKEN_EQUAL)
        term->op = OP_IN;
    else if (p->token == TOKEN_NOT_EQUAL)
        term->op = OP_NOT_IN;
    else if (p->token == TOKEN_GREATER)
        term->op = OP_GREATER;
    else if (p->token == TOKEN_LESS)
        term->op = OP_LESS;
    else if (p->token == TOKEN_WORD && str_is(p->text, "in"))
        term->op = OP_IN, set = true;
    else if (p->token == TOKEN_WORD && str_is(p->text, "notin"))
        term->op = OP_NOT_IN, set = true;
    else
        return unexpected(p, ", expected: in, notin, =, ==, !=, gt, lt");
    advance(p);
    return set ? parse_set(p, term) : parse_exact(p, term);
}

static int parse_requirement(struct parser *p, struct term *term)
{
    bool negated = p->token == TOKEN_NOT;

    if (negated)
        advance(p);
    if (p->token != TOKEN_WORD)
        return unexpected(p, ", expected: identifier");
    *term = (struct term){.op = negated ? OP_ABSENT : OP_EXISTS, .key = p->text};
    if (check_term(term, "<nil>", p->err) < 0)
        return -1;
    term->key.s = arena_strndup(p->arena, term->key.s, term->key.len); /* object_label wants a NUL */
    advance(p);
    if (negated || p->token == TOKEN_END || p->token == TOKEN_COMMA)
        return 0;
    if (parse_operator(p, term) < 0)
        return -1;
    sort_values(term);
    return check_term(term, "key", p->err);
}

static int parse_labels(struct terms *terms, struct arena *arena, const char *text, struct err *err)
{
    struct parser p = {.arena = arena, .at = text, .err = err};
    struct term term;

    for (advance(&p); p.token != TOKEN_END;) {
        if (p.token != TOKEN_WORD && p.token != TOKEN_NOT)
            return unexpected(&p, ", expected: !, identifier, or 'end of string'");
        if (parse_requirement(&p, &term) < 0)
            return err_prefix(err, "unable to parse requirement");
        if (add_term(terms, arena, term, err) < 0)
            return -1;
        if (p.token == TOKEN_END)
            break;
        if (p.token != TOKEN_COMMA)
            return unexpected(&p, ", expected: ',' or 'end of string'");
        advance(&p);
        if (p.token != TOKEN_WORD && p.token != TOKEN_NOT)
            return unexpected(&p, ", expected: identifier after ','");
    }
    return 0;
}

/* ---- the text of field selectors ---- */

static bool field_find(const struct kind *kind, struct str key, int *ret)
{
    if (str_is(key, "metadata.name"))
        *ret = FIELD_NAME;
    else if (str_is(key, "metadata.namespace"))
        *ret = FIELD_NAMESPACE;
    else {
        int i = 0;

        while (kind && kind->fields && kind->fields[i] && !str_is(key, kind->fields[i]))
            i++;
        if (!kind || !kind->fields || !kind->fields[i])
            return false;
        *ret = i;
    }
    return true;
}

static int unescape(struct str raw, struct arena *arena, struct str *ret, struct err *err)
{
    char *out = arena_strndup(arena, raw.s, raw.len);

    *ret = (struct str){out, 0};
    for (const char *p = raw.s, *end = raw.s + raw.len; p < end; p++) {
        if (*p == ',' || *p == '=')
            return err_set(err, ERR_INVALID, "invalid field selector: unescaped character in value: %d", *p);
        if (*p == '\\') {
            if (++p == end)
                return err_set(err, ERR_INVALID, "invalid field selector: invalid escape sequence: \\");
            if (*p != '\\' && *p != ',' && *p != '=')
                return err_set(err, ERR_INVALID, "invalid field selector: invalid escape sequence: \\%c", *p);
        }
        out[ret->len++] = *p;
    }
    out[ret->len] = 0;
    return 0;
}

/* Takes the text before the next comma that is not escaped. */
static bool next_part(const char **at, struct str *ret)
{
    const char *p = *at;

    if (!p)
        return false;
    for (; *p && *p != ','; p++)
        if (*p == '\\' && p[1])
            p++;
    *ret = (struct str){*at, (size_t)(p - *at)};
    *at = *p ? p + 1 : NULL;
    return true;
}

static int parse_field(const char *text, struct str part, struct arena *arena, struct term *ret,
                       struct err *err)
{
    size_t i = 0, op_len = 1;
    struct term term = {.op = OP_IN, .count = 1};

    while (i < part.len && part.s[i] != '=' &&
           !(part.s[i] == '!' && i + 1 < part.len && part.s[i + 1] == '='))
        i++;
    if (i == part.len)
        return err_set(err, ERR_INVALID, "invalid selector: '%s'; can't understand '%.*s'", text,
                       STR_ARG(part));
    if (part.s[i] == '!') {
        term.op = OP_NOT_IN;
        op_len = 2;
    } else if (i + 1 < part.len && part.s[i + 1] == '=') {
        op_len = 2;
    }
    term.key = (struct str){part.s, i};
    term.values = arena_alloc(arena, sizeof(*term.values));
    *ret = term;
    return unescape((struct str){part.s + i + op_len, part.len - i - op_len}, arena, &ret->values[0], err);
}

/* Three sentences for one thing, as Kubernetes has them: for kinds without fields of their own, for those
 * of the core group, for jobs. */
static int unknown_field(const struct kind *kind, struct str field, struct err *err)
{
    if (!kind->fields)
        return err_set(
            err, ERR_INVALID,
            "\"%.*s\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            STR_ARG(field));
    if (*kind->group)
        return err_set(err, ERR_INVALID, "field label \"%.*s\" not supported for %s", STR_ARG(field),
                       kind->name);
    return err_set(err, ERR_INVALID, "field label not supported: %.*s", STR_ARG(field));
}

static int parse_fields(const struct kind *kind, struct selector *selector, struct arena *arena,
                        const char *text, struct err *err)
{
    const char *at = text;
    struct term term;
    struct str part;

    while (next_part(&at, &part))
        if (part.len && (parse_field(text, part, arena, &term, err) < 0 ||
                         add_term(&selector->fields, arena, term, err) < 0))
            return -1;
    for (size_t i = 0; i < selector->fields.len; i++) {
        struct term *t = &selector->fields.v[i];

        if (!field_find(kind, t->key, &t->field))
            return unknown_field(kind, t->key, err);
    }
    return 0;
}

int selector_parse(const struct kind *kind, const char *labels, const char *fields, struct arena *arena,
                   struct selector **ret, struct err *err)
{
    struct selector *selector = arena_zalloc(arena, sizeof(*selector));

    if ((labels && strlen(labels) > SELECTOR_TEXT_MAX) || (fields && strlen(fields) > SELECTOR_TEXT_MAX))
        return err_set(err, ERR_INVALID, "selector is longer than %d bytes", SELECTOR_TEXT_MAX);
    /* tokens point into the text */
    if (labels && parse_labels(&selector->labels, arena, arena_strdup(arena, labels), err) < 0)
        return -1;
    if (fields && parse_fields(kind, selector, arena, arena_strdup(arena, fields), err) < 0)
        return -1;
    *ret = selector;
    return 0;
}

/* ---- from a LabelSelector ---- */

static int term_from_expression(const struct json *expression, struct arena *arena, struct term *ret,
                                struct err *err)
{
    static const char *const names[] = {"Exists", "DoesNotExist", "In", "NotIn"};
    const char *op = json_string_or(json_get(expression, "operator"), "");
    struct json *values = json_get(expression, "values");
    struct term term = {.key = json_str(json_get(expression, "key"))};
    size_t i = 0;

    while (i < ARRAY_LEN(names) && !streq(names[i], op))
        i++;
    if (i == ARRAY_LEN(names))
        return err_set(err, ERR_INVALID, "\"%s\" is not a valid label selector operator", op);
    term.op = (enum op)i;
    if (!term.key.s)
        term.key = STR("");
    term.values = arena_alloc(arena, (json_len(values) + 1) * sizeof(*term.values));
    JSON_EACH(values, value)
        term.values[term.count++] = json_is(value, JSON_STRING) ? json_str(value) : STR("");
    sort_values(&term);
    if (check_term(&term, "key", err) < 0)
        return -1;
    *ret = term;
    return 0;
}

int selector_from_json(const struct json *doc, struct arena *arena, struct selector **ret, struct err *err)
{
    struct selector *selector = arena_zalloc(arena, sizeof(*selector));
    struct json *copy = doc ? json_copy(arena, doc) : NULL; /* terms point into it */
    struct term term;

    selector->nothing = !doc || doc->type == JSON_NULL;
    JSON_EACH_MEMBER(json_get(copy, "matchLabels"), member) {
        term = (struct term){.op = OP_IN, .key = {member->key, member->key_len}, .count = 1};
        term.values = arena_alloc(arena, sizeof(*term.values));
        term.values[0] = json_is(&member->value, JSON_STRING) ? json_str(&member->value) : STR("");
        if (check_term(&term, "key", err) < 0 || add_term(&selector->labels, arena, term, err) < 0)
            return -1;
    }
    JSON_EACH(json_get(copy, "matchExpressions"), expression)
        if (term_from_expression(expression, arena, &term, err) < 0 ||
            add_term(&selector->labels, arena, term, err) < 0)
            return -1;
    *ret = selector;
    return 0;
}

/* ---- matching ---- */

/* value.s is NULL when the key is absent. */
static bool term_matches(const struct term *term, struct str value)
{
    int64_t number;

    switch (term->op) {
    case OP_EXISTS:
        return value.s;
    case OP_ABSENT:
        return !value.s;
    case OP_IN:
        return value.s && bsearch(&value, term->values, term->count, sizeof(value), value_cmp);
    case OP_NOT_IN:
        return !value.s || !bsearch(&value, term->values, term->count, sizeof(value), value_cmp);
    case OP_GREATER:
        return value.s && str_to_int(value, &number) && number > term->number;
    case OP_LESS:
        return value.s && str_to_int(value, &number) && number < term->number;
    }
    return false;
}

static struct str field_of(const struct object *object, int field)
{
    if (field == FIELD_NAME)
        return str_from(object->name);
    if (field == FIELD_NAMESPACE)
        return str_from(object->ns);
    return object_field(object, (size_t)field);
}

bool selector_matches(const struct selector *selector, const struct object *object)
{
    if (!selector)
        return true;
    if (selector->nothing)
        return false;
    for (size_t i = 0; i < selector->fields.len; i++)
        if (!term_matches(&selector->fields.v[i], field_of(object, selector->fields.v[i].field)))
            return false;
    for (size_t i = 0; i < selector->labels.len; i++)
        if (!term_matches(&selector->labels.v[i], object_label(object, selector->labels.v[i].key.s)))
            return false;
    return true;
}

bool selector_matches_labels(const struct selector *selector, const struct json *labels)
{
    if (!selector)
        return true;
    if (selector->nothing)
        return false;
    for (size_t i = 0; i < selector->labels.len; i++) {
        const struct term *t = &selector->labels.v[i];
        struct json *value = json_get_str(labels, t->key);

        if (!term_matches(t, json_is(value, JSON_STRING) ? json_str(value) : (struct str){NULL, 0}))
            return false;
    }
    return true;
}
