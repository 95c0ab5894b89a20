/* fuzz_json - what parses must survive writing: parse, write, parse again gives an equal tree, and the
 * ways to read and write agree with each other. */
#include "base/json.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static struct json *parse(struct arena *arena, const struct buf *text)
{
    struct json *value = NULL;
    struct err err = {0};

    if (json_parse(buf_view(text), arena, &value, NULL, &err) < 0) {
        fprintf(stderr, "own text does not parse: %s\n%s\n", err.msg, text->data);
        abort();
    }
    return value;
}

static void check_written(struct arena *arena, const struct json *value)
{
    CLEANUP(buf_done) struct buf compact = {0};
    CLEANUP(buf_done) struct buf pretty = {0};
    CLEANUP(buf_done) struct buf sorted = {0};
    CLEANUP(buf_done) struct buf again = {0};
    struct json *copy = json_copy(arena, value);

    json_write(&compact, value);
    json_write_pretty(&pretty, value, 2);
    json_write_sorted(&sorted, value);
    must(json_equal(value, parse(arena, &compact)));
    must(json_equal(parse(arena, &pretty), value));
    must(json_equal(value, copy));
    copy = parse(arena, &sorted);
    must(json_equal(value, copy));
    json_write_sorted(&again, copy);
    must(str_eq(buf_view(&sorted), buf_view(&again)));
}

/* Removing and setting again must leave the same object, whatever its size. */
static void check_changed(struct arena *arena, const struct json *value)
{
    struct json *copy = json_copy(arena, value);

    if (!json_is(value, JSON_OBJECT) || value->len == 0)
        return;
    JSON_EACH_MEMBER(value, it) {
        struct str key = {it->key, it->key_len};

        must(json_equal(json_get_str(copy, key), &it->value));
        must(json_remove_str(copy, key) && !json_get_str(copy, key));
        json_set_str(arena, copy, key, it->value);
        must(json_get_str(copy, key) == &copy->members->v[copy->len - 1].value);
    }
    must(json_equal(value, copy));
    json_sort_members(copy);
    must(json_equal(copy, value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf dups = {0};
    CLEANUP(free) char *text = mem_alloc(size + 1);
    struct err err = {0}, err_in_place = {0};
    struct json *value = NULL, *in_place = NULL;
    int res = json_parse((struct str){(const char *)data, size}, &arena, &value, &dups, &err);

    if (size)
        memcpy(text, data, size);
    must(json_parse_in_place(text, size, &arena, &in_place, &err_in_place) == res);
    if (res < 0) {
        must(streq(err.msg, err_in_place.msg) && err.code == err_in_place.code);
        return 0;
    }
    must(json_equal(value, in_place));
    check_written(&arena, value);
    check_changed(&arena, value);
    return 0;
}
