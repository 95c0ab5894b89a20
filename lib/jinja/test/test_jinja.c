/* What the conformance cases do not show: the API, errors with their places, limits, extras. */
#include "base/test/test.h"
#include "jinja/jinja.h"

#include <pthread.h>
#include <time.h>

struct fixture {
    struct jinja_options options;
    struct jinja_error error;
    char out[4096];
};

/* The output, or "KIND: message". */
static const char *render(struct fixture *f, const char *source, const char *values)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(&f->options);
    CLEANUP(buf_done) struct buf out = {0};
    const struct jinja_template *tmpl = jinja_add(env, "main", str_from(source), &f->error);

    if (tmpl && jinja_render_json(tmpl, str_from(values ? values : "{}"), NULL, &out, &f->error) == 0)
        snprintf(f->out, sizeof(f->out), "%s", out.data);
    else
        snprintf(f->out, sizeof(f->out), "%s: %s", jinja_kind_name(f->error.kind), f->error.message);
    return f->out;
}

static void test_error_has_line_column_and_source(void **state)
{
    struct fixture f = {0};

    (void)state;
    assert_string_equal(render(&f, "one\n  {{ a.b.c }}\n", NULL), "UndefinedError: 'a' is undefined");
    assert_int_equal(f.error.at.line, 2);
    assert_true(f.error.at.column >= 6);
    assert_string_equal(f.error.source_line, "  {{ a.b.c }}");
    assert_string_equal(f.error.at.template_name, "main");
}

static void test_error_in_macro_names_its_callers(void **state)
{
    struct fixture f = {0};

    (void)state;
    render(&f, "{% macro m(x) %}\n{{ x.y.z }}\n{% endmacro %}\n{{ m(1) }}", NULL);
    assert_int_equal(f.error.at.line, 2);
    assert_string_equal(f.error.at.function, "macro 'm'");
    assert_int_equal(f.error.chain_len, 1);
    assert_int_equal(f.error.chain[0].line, 4);
}

static void test_last_of_a_name_in_with_counts(void **state)
{
    struct fixture f = {0};

    (void)state;
    assert_string_equal(render(&f, "{% with a=1, a=2 %}{{ a }}{% endwith %}", NULL), "2");
    assert_string_equal(
        render(&f, "{% with a=1, (b, a)=(3, 4), c=a %}{{ a }}{{ b }}{{ c }}{% endwith %}", "{\"a\": 9}"),
        "439");
}

static void test_syntax_error_has_its_place(void **state)
{
    struct fixture f = {0};

    (void)state;
    render(&f, "a\nb {% if x %}", NULL);
    assert_int_equal(f.error.kind, JINJA_SYNTAX_ERROR);
    assert_int_equal(f.error.at.line, 2);
}

static void test_values_are_never_changed(void **state)
{
    struct jinja_options options = {.extensions = JINJA_EXT_DO};
    CLEANUP(jinja_free) struct jinja *env = jinja_new(&options);
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct jinja_error error;
    const struct jinja_template *tmpl =
        jinja_add(env, "main", STR("{% do l.append(4) %}{% do d.update(b=2) %}{{ l }}{{ d }}"), &error);
    struct json *values = NULL;

    (void)state;
    assert_int_equal(json_parse(STR("{\"l\": [1], \"d\": {\"a\": 1}}"), &arena, &values, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        buf_clear(&out);
        assert_int_equal(jinja_render(tmpl, values, NULL, &out, &error), 0);
        assert_string_equal(out.data, "[1, 4]{'a': 1, 'b': 2}");
    }
    assert_int_equal(json_len(json_get(values, "l")), 1);
}

static void test_failed_render_leaves_output_as_it_was(void **state)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(NULL);
    CLEANUP(buf_done) struct buf out = {0};
    struct jinja_error error;
    const struct jinja_template *tmpl = jinja_add(env, "main", STR("text {{ 1 // 0 }}"), &error);

    (void)state;
    buf_puts(&out, "before");
    assert_int_equal(jinja_render(tmpl, NULL, NULL, &out, &error), -1);
    assert_string_equal(out.data, "before");
}

static void test_extras_must_be_asked_for(void **state)
{
    struct fixture f = {0};

    (void)state;
    render(&f, "{{ 'a b'|quote }}", NULL);
    assert_int_equal(f.error.kind, JINJA_ASSERTION_ERROR);
    f.options.extras = JINJA_EXTRA_ALL;
    assert_string_equal(render(&f, "{{ \"a 'b\"|quote }} {{ 'hi'|b64encode }}", NULL), "'a '\"'\"'b' aGk=");
    assert_string_equal(render(&f, "{{ {'a': [1, 'x']}|to_nice_yaml }}", NULL), "a:\n- 1\n- x\n");
    assert_string_equal(render(&f, "{{ x|required('x is needed') }}", NULL), "UndefinedError: x is needed");
}

static void test_all_missing_values_are_named_at_once(void **state)
{
    struct fixture f = {.options = {.undefined = JINJA_UNDEFINED_STRICT, .all_missing = true}};

    (void)state;
    assert_string_equal(
        render(&f, "{{ a }}{{ b.c }}{% if d.e %}{% endif %}{{ a }}{{ o|default(1) }}", "{\"d\": {}}"),
        "UndefinedError: 'a' is undefined; 'b' is undefined; 'dict object' has no attribute 'e'");
}

static void test_needs_lists_what_is_taken_from_the_values(void **state)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(NULL);
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct jinja_error error;
    const struct jinja_template *tmpl = jinja_add(env, "main",
                                                  STR("{{ a.b }}{% set x = 1 %}{{ x }}{% for i in range(n) "
                                                      "%}{{ i }}{{ loop.index }}{{ c }}{% endfor %}"),
                                                  &error);

    (void)state;
    json_write(&text, jinja_needs(tmpl, &arena));
    assert_string_equal(text.data, "[\"a\",\"n\",\"c\"]");
}

static void test_large_numbers_are_pythons(void **state)
{
    static const struct {
        const char *source, *expected;
    } rows[] = {
        {"{{ 2 ** 64 }} {{ -(2 ** 63) }} {{ 2 ** 63 - 1 }}",
         "18446744073709551616 -9223372036854775808 9223372036854775807"},
        {"{{ -(2 ** 70) // 7 }} {{ -(2 ** 70) % 7 }} {{ 2 ** 70 % -7 }}", "-168655945816773043347 5 -5"},
        {"{{ 0 / -(2 ** 70) }} {{ 2 ** 70 / 3 }} {{ (2 ** 1100) / (2 ** 1099) }}",
         "-0.0 3.935305402391371e+20 2.0"},
        {"{{ (2 ** 53 + 1) * 1.0 }} {{ (2 ** 64 + 2049)|float }}",
         "9007199254740992.0 1.8446744073709556e+19"},
        {"{{ 2 ** 64 == 18446744073709551616.0 }} {{ 2 ** 64 + 1 > 18446744073709551616.0 }}", "True True"},
        {"{{ '%x' % (2 ** 65) }} {{ '{:#o}'.format(-(2 ** 66)) }} {{ (2 ** 65 + 5).bit_count() }}",
         "20000000000000000 -0o10000000000000000000000 3"},
        {"{{ 1e25|int }} {{ '0x1ffffffffffffffffff'|int(base=16) }}",
         "10000000000000000905969664 9444732965739290427391"},
        {"{{ (-1) ** (2 ** 70 + 1) }} {{ 0 ** 0 }}", "-1 1"},
        {"{{ 2 ** 70 // 0 }}", "ZeroDivisionError: integer division or modulo by zero"},
        {"{{ (2 ** 1100)|float }}", "OverflowError: int too large to convert to float"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture f = {0};

        assert_string_equal(render(&f, rows[i].source, NULL), rows[i].expected);
    }
}

static void test_limits_are_settable(void **state)
{
    static const struct {
        struct jinja_limits limits;
        const char *source;
    } rows[] = {
        {{.fuel = 1000}, "{% for i in range(1000) %}{% endfor %}"},
        {{.output_bytes = 100}, "{% for i in range(20) %}0123456789{% endfor %}"},
        {{.string_bytes = 100}, "{{ ('x' * 101)|length }}"},
        {{.memory_bytes = 1 << 16},
         "{% set l = [] %}{% for i in range(9999) %}{% set _ = l.append([i]) %}{% endfor %}"},
        {{.int_bits = 128}, "{{ 2 ** 1000 }}"},
        {{.int_bits = 128}, "{% set x = 2 ** 120 %}{{ x * x }}"},
        {{.fuel = 10000}, "{% set x = 7 ** 11000 %}{% for i in range(9) %}{{ (x * x) % 3 }}{% endfor %}"},
        {{.template_bytes = 10}, "{{ 'more than ten' }}"},
        {{.nesting = 5}, "{{ ((((((((((1)))))))))) }}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture f = {.options.limits = rows[i].limits};

        render(&f, rows[i].source, NULL);
        assert_int_equal(f.error.kind, JINJA_LIMIT_ERROR);
    }
}

static void test_deep_calls_and_large_ranges_are_refused(void **state)
{
    struct fixture f = {.options.limits = {.call_depth = 20, .range_items = 5}};

    (void)state;
    render(&f, "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL);
    assert_int_equal(f.error.kind, JINJA_RECURSION_ERROR);
    render(&f, "{{ range(6) }}", NULL);
    assert_int_equal(f.error.kind, JINJA_OVERFLOW_ERROR);
}

/* What a template is asked for while something is gone through may change that very thing. */
static void test_what_changes_under_way_is_no_harm(void **state)
{
    struct fixture f = {0};
    CLEANUP(buf_done) struct buf deep = {0};

    (void)state;
    f.options.extras = true;
    assert_string_equal(render(&f,
                               "{% set l = [3, 2, 1] %}{% macro k(x) %}{{ l.append(x) }}{% endmacro %}"
                               "{{ l.sort(key=k) }}",
                               NULL),
                        "ValueError: list modified during sort");
    render(&f,
           "{% set d = {} %}{% macro grow() %}{% for i in range(9) %}{{ d.update({i: i}) }}{% endfor %}1"
           "{% endmacro %}{% for x in [1, 2, 3] if grow() %}{{ d.update({'a': loop}) }}{{ d|pprint }}{% "
           "endfor %}",
           NULL);
    assert_string_equal(render(&f,
                               "{{ -9223372036854775808 in range(0, -5, -1) }}{{ -4 in range(0, -5, -1) }}"
                               "{{ -5 in range(0, -5, -1) }}{{ 1 in range(0, 2**61, 2**60)[::16] }}",
                               NULL),
                        "FalseTrueFalseFalse");
    for (int i = 0; i < 300; i++)
        buf_printf(&deep, "{%% macro m%d() %%}", i);
    buf_puts(&deep, "{{ root }}");
    for (int i = 0; i < 300; i++)
        buf_puts(&deep, "{% endmacro %}");
    buf_puts(&deep, "{% set root = 1 %}{{ m0() }}");
    render(&f, deep.data, NULL); /* refused, or as it is: not another's slot */
}

static void test_chains_of_20000_links_fit(void **state)
{
    static const struct {
        const char *head, *link, *tail, *expected;
    } rows[] = {
        {"{{ 1", "+1", " }}", "20001"},
        {"{{ 'a'", "|upper", " }}", "A"},
        {"{{ 1", " ** 1", " }}", "1"},
        {"{{ 'a'", "~'b'", "|length }}", NULL},
        {"{{ 0", " or 0", " }}", "0"},
        {"{% if false %}", "{% elif false %}", "{% else %}x{% endif %}", "x"},
        {"{{ 'a'", ".upper()", " }}", "A"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf source = {0};
        struct fixture f = {0};

        buf_puts(&source, rows[i].head);
        for (int n = 0; n < 20000; n++)
            buf_puts(&source, rows[i].link);
        buf_puts(&source, rows[i].tail);
        render(&f, source.data, NULL);
        if (rows[i].expected)
            assert_string_equal(f.out, rows[i].expected);
    }
}

static int64_t processor_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#define HOSTILE_MS    3000 /* of processor time, under sanitizers as well */
#define HOSTILE_BYTES 500000

/* As the daemon has them. */
static const struct jinja_options hostile_options = {
    .extensions = JINJA_EXT_DO,
    .extras = JINJA_EXTRA_ALL,
    .limits = {.fuel = 2000000,
               .output_bytes = 8 << 20,
               .string_bytes = 8 << 20,
               .memory_bytes = 32 << 20,
               .wall_ms = 200},
};

/* Renders what compiles; the kind of error it ends with. */
static enum jinja_kind end_of(const char *template, size_t len)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(&hostile_options);
    CLEANUP(jinja_template_free) struct jinja_template *tmpl = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    struct jinja_error error = {0};
    int64_t start = processor_time(), took;

    tmpl = jinja_compile(env, "t", (struct str){template, len}, &error);
    if (tmpl)
        jinja_render(tmpl, NULL, NULL, &out, &error);
    took = processor_time() - start;
    if (took > HOSTILE_MS)
        fail_msg("%.60s: %lld ms", template, (long long)took);
    return error.kind;
}

static void test_long_templates_compile_soon_or_not(void **state)
{
    static const char *const chains[][3] = {
        {"{{ x[1:2] }}{{ a", ".b", " }}"},
        {"{{ a", ".b", " }}"},
        {"{{ x[1:2] }}{{ 1", "+1", " }}"},
        {"{{ x[1:2] }}{{ a", "|d", " }}"},
        {"{{ x[1:2] }}{{ a", "[0]", " }}"},
        {"{{ ", "not ", "a }}"},
        {"{{ ", "-", "1 }}"},
        {"{{ ", "a if b else ", "c }}"},
        {"{{ 1", "**1", " }}"},
        {"{{ 1", "~1", " }}"},
        {"{{ 1", "<1", " }}"},
        {"{{ [", "x[1:2],", "] }}"},
        {"{{ ", "(", "1 }}"},
        {"{{ ", "[", "1 }}"},
        {"{% with ", "a=1,", "b=1 %}{% endwith %}"},
        {"", "{% with a=1 %}", ""},
        {"", "{% set a=1 %}{% if x %}{% endif %}", ""},
        {"{% if a %}", "{% elif b %}", "{% endif %}"},
        {"", "{% if a %}", ""},
        {"{{ a", " is defined", " }}"},
        {"{{ m(", "a=1,", ") }}"},
        {"{{ ", "9", " }}"},
        {"{% for a", ",a", " in b %}{% endfor %}"},
        {"", "{{ a }}", ""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(chains); i++) {
        CLEANUP(buf_done) struct buf text = {0};

        buf_puts(&text, chains[i][0]);
        while (text.len < HOSTILE_BYTES)
            buf_puts(&text, chains[i][1]);
        buf_puts(&text, chains[i][2]);
        (void)end_of(text.data, text.len);
    }
}

/* Many names, each of its own: what goes through all of them for each is charged. */
static void test_many_names_compile_soon_or_not(void **state)
{
    static const char *const pieces[][3] = {
        {"{% with ", "a%d=1,", "z=1 %}{% endwith %}"},
        {"", "{%% set a%d=1 %%}{%% if x %%}{%% endif %%}", ""},
        {"", "{%% set a%d=1 %%}{%% include 'x' ignore missing %%}", ""},
        {"", "{%% block b%d %%}{%% endblock %%}", ""},
        {"{% macro m(", "a%d,", "z) %}{% endmacro %}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        CLEANUP(buf_done) struct buf text = {0};

        buf_puts(&text, pieces[i][0]);
        for (int k = 0; text.len < HOSTILE_BYTES; k++)
            buf_printf(&text, pieces[i][1], k);
        buf_puts(&text, pieces[i][2]);
        (void)end_of(text.data, text.len);
    }
}

static void test_every_byte_of_text_is_charged(void **state)
{
#define REPEAT(set, test)                                                                                    \
    "{% set s=" set " %}{% for i in range(1000) %}{% if " test " %}{% endif %}{% endfor %}"
    static const char *const templates[] = {
        REPEAT("'a'*8000000", "s.isalpha()"),
        REPEAT("' '*8000000", "s.strip()"),
        REPEAT("' '*8000000", "s|trim"),
        REPEAT("'1'*8000000", "s|float"),
        REPEAT("1", "'a'.center(8000000)"),
        REPEAT("'a'*8000000", "s.rpartition('b')"),
        REPEAT("'a'*8000000", "s.rsplit('b')"),
        REPEAT("'a'*8000000", "s == s ~ 'a'"),
        REPEAT("'a'*8000000", "'b' in s"),
        REPEAT("'a'*8000000", "s|length"),
        REPEAT("'a'*8000000", "s[7000000:7000001]"),
        REPEAT("'a'*8000000", "s|truncate(7000000)"),
        "{{ ('a'*1000).translate({97:'x'*8000000}) }}",
        "{{ ('a '*100000)|wordwrap(1, wrapstring='x'*1000000) }}",
        "{{ (['x'*4000000]*1000)|to_yaml }}",
        "{{ (['x'*4000000]*1000)|pprint }}",
        "{{ (['x'*4000000]*1000)|tojson }}",
        "{{ (['x'*4000000]*1000) }}",
        "{{ (['x'*4000000]*1000)|join }}",
        "{{ (['a'*1000000]*9999)|sort|length }}",
        "{{ (['a'*1000000]*9999)|unique|list|length }}",
        "{{ ([{'a':'a'*1000000}]*9999)|groupby('a')|length }}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(templates); i++)
        if (end_of(templates[i], strlen(templates[i])) != JINJA_LIMIT_ERROR)
            fail_msg("%s: no limit", templates[i]);
}

static void test_wrong_template_fails_where_it_is_included(void **state)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(NULL);
    CLEANUP(buf_done) struct buf out = {0};
    struct jinja_error error;
    const struct jinja_template *tmpl = jinja_add(env, "main", STR("{% include 'bad' %}"), &error);

    (void)state;
    assert_null(jinja_add(env, "bad", STR("\n{% oops %}"), &error));
    assert_int_equal(error.kind, JINJA_SYNTAX_ERROR);
    assert_int_equal(jinja_render(tmpl, NULL, NULL, &out, &error), -1);
    assert_int_equal(error.kind, JINJA_SYNTAX_ERROR);
    assert_int_equal(error.at.line, 2);
    assert_string_equal(error.at.template_name, "bad");
}

static void *render_often(void *arg)
{
    const struct jinja_template *tmpl = arg;
    CLEANUP(jinja_scratch_free) struct jinja_scratch *scratch = jinja_scratch_new();
    CLEANUP(buf_done) struct buf out = {0};
    struct jinja_error error;

    for (int i = 0; i < 500; i++) {
        buf_clear(&out);
        if (jinja_render_json(tmpl, STR("{\"l\": [1, 2, 3]}"), scratch, &out, &error) < 0 ||
            !streq(out.data, "1-2-3"))
            return arg;
    }
    return NULL;
}

static void test_threads_share_a_template(void **state)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(NULL);
    struct jinja_error error;
    const struct jinja_template *tmpl =
        jinja_add(env, "main", STR("{% for x in l %}{{ x }}{{ '-' if not loop.last }}{% endfor %}"), &error);
    pthread_t threads[3];
    void *failed = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, (void *)tmpl), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
}

static void test_values_that_are_no_object_are_refused(void **state)
{
    struct fixture f = {0};

    (void)state;
    render(&f, "x", "[1]");
    assert_int_equal(f.error.kind, JINJA_VALUE_ERROR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_has_line_column_and_source),
        cmocka_unit_test(test_error_in_macro_names_its_callers),
        cmocka_unit_test(test_last_of_a_name_in_with_counts),
        cmocka_unit_test(test_syntax_error_has_its_place),
        cmocka_unit_test(test_values_are_never_changed),
        cmocka_unit_test(test_failed_render_leaves_output_as_it_was),
        cmocka_unit_test(test_extras_must_be_asked_for),
        cmocka_unit_test(test_all_missing_values_are_named_at_once),
        cmocka_unit_test(test_needs_lists_what_is_taken_from_the_values),
        cmocka_unit_test(test_large_numbers_are_pythons),
        cmocka_unit_test(test_limits_are_settable),
        cmocka_unit_test(test_deep_calls_and_large_ranges_are_refused),
        cmocka_unit_test(test_what_changes_under_way_is_no_harm),
        cmocka_unit_test(test_chains_of_20000_links_fit),
        cmocka_unit_test(test_long_templates_compile_soon_or_not),
        cmocka_unit_test(test_many_names_compile_soon_or_not),
        cmocka_unit_test(test_every_byte_of_text_is_charged),
        cmocka_unit_test(test_wrong_template_fails_where_it_is_included),
        cmocka_unit_test(test_threads_share_a_template),
        cmocka_unit_test(test_values_that_are_no_object_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
