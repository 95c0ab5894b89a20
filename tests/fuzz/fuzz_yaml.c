/* fuzz_yaml - what parses must survive writing: parse, write, parse again gives equal documents. */
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(struct arena *arena, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *again = NULL;
    struct err err = {0};

    yaml_write(&text, value);
    if (yaml_parse_one(buf_view(&text), arena, &again, &err) < 0) {
        fprintf(stderr, "own text does not parse: %s\n%s\n", err.msg, text.data);
        abort();
    }
    if (!json_equal(value, again)) {
        fprintf(stderr, "own text reads differently:\n%s\n", text.data);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *docs = NULL;
    struct err err = {0};

    if (yaml_parse((struct str){(const char *)data, size}, &arena, &docs, NULL, &err) < 0) {
        if (err.code == ERR_NONE || !err.msg[0])
            abort();
        return 0;
    }
    JSON_EACH(docs, it)
        check_written(&arena, it);
    return 0;
}
