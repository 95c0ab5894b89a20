/* jinja - templates of Jinja2 3.1 for C programs: same language, same output to the byte, with limits.
 *
 *     struct jinja *env = jinja_new(NULL);
 *     const struct jinja_template *page = jinja_add(env, "page", source, &error);
 *     if (!page || jinja_render(page, values, NULL, &out, &error) < 0)
 *         puts(error.message);
 *     jinja_free(env);
 *
 * Ownership: an environment owns its options and its templates; jinja_free releases them all. Sources and
 * names are copied. Values are borrowed for the time of a call and never changed. Output is added to the
 * caller's buf. An error is a plain struct that owns nothing.
 *
 * Threads: an environment is built by one thread. From then on it and its templates are read-only: any
 * number of threads may render them at once, each with its own scratch (or none). There is no global state.
 *
 * A template reaches nothing but its values and the templates of its environment: no files, no clock, no
 * randomness, no host objects. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

struct jinja;
struct jinja_template;
struct jinja_scratch;

/* All can be set; 0 takes the default. Reaching one is JINJA_LIMIT_ERROR. */
struct jinja_limits {
    uint64_t fuel;           /* steps: instructions, and elements handled by filters (10 million) */
    uint64_t output_bytes;   /* of a render (16 MiB) */
    uint64_t string_bytes;   /* of one string (16 MiB) */
    uint64_t memory_bytes;   /* of a render, without its output (64 MiB) */
    uint64_t range_items;    /* of range() (100 000; more is an OverflowError, as in Jinja2's sandbox) */
    uint64_t int_bits;       /* of one integer (65 536) */
    uint64_t template_bytes; /* of one source (1 MiB) */
    uint32_t call_depth;     /* macros, callers, includes, parents, recursive loops (200) */
    uint32_t nesting;        /* of a template's expressions and blocks, and of values printed (200) */
    uint32_t wall_ms;        /* of a render; a net below the others (5 000) */
};

enum jinja_undefined {
    JINJA_UNDEFINED_DEFAULT,
    JINJA_UNDEFINED_STRICT,
};

enum jinja_extension {
    JINJA_EXT_DO = 1 << 0,
    JINJA_EXT_LOOPCONTROLS = 1 << 1, /* break, continue */
};

enum jinja_extra {
    JINJA_EXTRA_YAML = 1 << 0,     /* filters to_yaml, to_nice_yaml */
    JINJA_EXTRA_B64 = 1 << 1,      /* filters b64encode, b64decode */
    JINJA_EXTRA_QUOTE = 1 << 2,    /* filter quote: for POSIX shells */
    JINJA_EXTRA_REQUIRED = 1 << 3, /* filter required("message") */
    JINJA_EXTRA_ALL = (1 << 4) - 1,
};

struct jinja_options {
    bool trim_blocks, lstrip_blocks, keep_trailing_newline;
    bool autoescape;
    /* Strict environments only: names that are missing are gathered and rendering goes on as if they were
     * empty; at its end the error names them all. */
    bool all_missing;
    enum jinja_undefined undefined;
    unsigned extensions; /* of enum jinja_extension */
    unsigned extras;     /* of enum jinja_extra */
    struct jinja_limits limits;
};

enum jinja_kind {
    JINJA_OK,
    JINJA_SYNTAX_ERROR,    /* TemplateSyntaxError */
    JINJA_ASSERTION_ERROR, /* TemplateAssertionError: no such filter or test */
    JINJA_UNDEFINED_ERROR,
    JINJA_SECURITY_ERROR,
    JINJA_NOT_FOUND,     /* TemplateNotFound */
    JINJA_RUNTIME_ERROR, /* TemplateRuntimeError */
    JINJA_FILTER_ARGUMENT_ERROR,
    JINJA_TYPE_ERROR,
    JINJA_VALUE_ERROR,
    JINJA_KEY_ERROR,
    JINJA_INDEX_ERROR,
    JINJA_ATTRIBUTE_ERROR,
    JINJA_ASSERT_ERROR, /* AssertionError */
    JINJA_PYTHON_RUNTIME_ERROR,
    JINJA_ZERO_DIVISION_ERROR,
    JINJA_OVERFLOW_ERROR,
    JINJA_RECURSION_ERROR,
    JINJA_LIMIT_ERROR,
};
const char *jinja_kind_name(enum jinja_kind kind); /* Python's: "UndefinedError" */

#define JINJA_MESSAGE_MAX 512
#define JINJA_NAME_MAX    128
#define JINJA_CHAIN_MAX   16

struct jinja_place {
    char template_name[JINJA_NAME_MAX]; /* cut if longer */
    uint32_t line, column;              /* from 1; 0: not known */
    char function[48];                  /* "macro 'm'", "block 'b'"; "" the template itself */
};

struct jinja_error {
    enum jinja_kind kind;
    char message[JINJA_MESSAGE_MAX];           /* Jinja2's words */
    struct jinja_place at;                     /* the innermost place */
    char source_line[160];                     /* the text of that line, cut if longer */
    struct jinja_place chain[JINJA_CHAIN_MAX]; /* what called it, innermost first */
    uint32_t chain_len;
};
/* "KIND: MESSAGE", then place, source line and call chain as lines; for people. */
void jinja_error_text(const struct jinja_error *error, struct buf *buf);

/* options NULL: all defaults. Never NULL. */
struct jinja *jinja_new(const struct jinja_options *options);
void jinja_free(struct jinja *env); /* NULL is fine */
static inline void jinja_free_cleanup_(struct jinja **env)
{
    jinja_free(*env);
}

/* Compiles source under that name, replacing nothing: the first of a name stays. NULL when it is wrong; the
 * error is kept, too, and raised by whoever includes or extends it. */
const struct jinja_template *jinja_add(struct jinja *env, const char *name, struct str source,
                                       struct jinja_error *error);
const struct jinja_template *jinja_find(const struct jinja *env, const char *name); /* NULL: none, or wrong */

/* Compiles one template outside of the environment's names: it can include those, none can include it.
 * Safe on an environment others render from. Released with jinja_template_free. */
struct jinja_template *jinja_compile(const struct jinja *env, const char *name, struct str source,
                                     struct jinja_error *error);
void jinja_template_free(struct jinja_template *tmpl);
static inline void jinja_template_free_cleanup_(struct jinja_template **tmpl)
{
    jinja_template_free(*tmpl);
}

/* Memory that renders reuse, one at a time. */
struct jinja_scratch *jinja_scratch_new(void);
void jinja_scratch_free(struct jinja_scratch *scratch);
static inline void jinja_scratch_free_cleanup_(struct jinja_scratch **scratch)
{
    jinja_scratch_free(*scratch);
}

/* Adds the output to out. values: an object, or NULL for none. scratch may be NULL. -1: error is filled and
 * out is as before. */
int jinja_render(const struct jinja_template *tmpl, const struct json *values, struct jinja_scratch *scratch,
                 struct buf *out, struct jinja_error *error);
/* The same from the JSON text of the values. Text that is no JSON object is JINJA_VALUE_ERROR. */
int jinja_render_json(const struct jinja_template *tmpl, struct str values, struct jinja_scratch *scratch,
                      struct buf *out, struct jinja_error *error);

/* The names a template takes from its values, in order of first use, as a JSON array of strings: those it
 * reads and neither sets itself nor gets from Jinja2. In arena. */
struct json *jinja_needs(const struct jinja_template *tmpl, struct arena *arena);
