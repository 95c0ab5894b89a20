/* fuzz_jinja - a template and its values, NUL between them: compiles and renders, strict and not, within
 * small limits. The first byte chooses options. Crashes, leaks and undefined behaviour are the findings. */
#include "base/arena.h"
#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(const struct jinja_options *options, struct str source, const struct json *values)
{
    CLEANUP(jinja_free) struct jinja *env = jinja_new(options);
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(arena_done) struct arena arena = {0};
    struct jinja_error error;
    const struct jinja_template *tmpl = jinja_add(env, "main", source, &error);

    (void)jinja_add(
        env, "lib",
        STR("{% macro m(a, b=2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{% set v = [1] %}"),
        &error);
    (void)jinja_add(env, "base",
                    STR("<{% block a %}A{% endblock %}{% block b scoped %}{{ x }}{% endblock %}>"), &error);
    if (!tmpl)
        return;
    (void)jinja_needs(tmpl, &arena);
    if (jinja_render(tmpl, values, NULL, &out, &error) < 0)
        jinja_error_text(&error, &out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct jinja_options options = {0};
    struct json *values = NULL;
    struct str source;
    const uint8_t *nul;

    if (size < 2)
        return 0;
    options.trim_blocks = data[0] & 1;
    options.lstrip_blocks = data[0] & 2;
    options.undefined = data[0] & 4 ? JINJA_UNDEFINED_STRICT : JINJA_UNDEFINED_DEFAULT;
    options.autoescape = data[0] & 8;
    options.all_missing = data[0] & 16;
    options.extensions = JINJA_EXT_DO | JINJA_EXT_LOOPCONTROLS;
    options.extras = JINJA_EXTRA_ALL;
    options.limits = (struct jinja_limits){.fuel = 20000,
                                           .output_bytes = 1 << 16,
                                           .string_bytes = 1 << 16,
                                           .memory_bytes = 1 << 21,
                                           .call_depth = 50,
                                           .nesting = 50};
    data++;
    size--;
    nul = memchr(data, 0, size);
    source = (struct str){(const char *)data, nul ? (size_t)(nul - data) : size};
    if (nul)
        (void)json_parse((struct str){(const char *)nul + 1, size - source.len - 1}, &arena, &values, NULL,
                         NULL);
    render(&options, source, values);
    return 0;
}
