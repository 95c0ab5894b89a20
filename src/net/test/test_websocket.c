#include "base/mem.h"
#include "base/test/test.h"
#include "net/websocket.h"

#include <string.h>

/* Messages as text: "type:payload " each; stops after `stop` of them. */
struct seen {
    struct buf text;
    int count, stop;
};

static int on_message(void *arg, enum websocket_type type, struct str payload)
{
    struct seen *seen = arg;

    buf_printf(&seen->text, "%d:", (int)type);
    buf_str(&seen->text, payload);
    buf_putc(&seen->text, ' ');
    return ++seen->count == seen->stop ? -1 : 0;
}

static int feed(bool server, struct str bytes, size_t split, struct seen *seen, struct err *err)
{
    CLEANUP(websocket_free) struct websocket *ws = websocket_new(server);

    buf_clear(&seen->text);
    seen->count = 0;
    *err = (struct err){0};
    if (websocket_feed(ws, (struct str){bytes.s, split}, on_message, seen, err) < 0)
        return -1;
    return websocket_feed(ws, (struct str){bytes.s + split, bytes.len - split}, on_message, seen, err);
}

static void test_accept_key_of_the_rfc(void **state)
{
    char value[29];

    (void)state;
    websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", value);
    assert_string_equal(value, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static const struct {
    const char *bytes;
    size_t len;
    bool server;
    const char *seen;
} good[] = {
#define ROW(bytes, server, seen)                                                                             \
    {                                                                                                        \
        bytes, sizeof(bytes) - 1, server, seen                                                               \
    }
    /* the examples of RFC 6455, section 5.7 */
    ROW("\x81\x05\x48\x65\x6c\x6c\x6f", false, "1:Hello "),
    ROW("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", true, "1:Hello "),
    ROW("\x01\x03\x48\x65\x6c\x80\x02\x6c\x6f", false, "1:Hello "),
    ROW("\x89\x05\x48\x65\x6c\x6c\x6f", false, "9:Hello "),
    ROW("\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", true, "10:Hello "),
    /* control frames between fragments, empty messages, a close without and with a reason */
    ROW("\x02\x01"
        "a"
        "\x89\x01"
        "p"
        "\x00\x00\x80\x01"
        "b",
        false, "9:p 2:ab "),
    ROW("\x82\x00\x81\x00", false, "2: 1: "),
    ROW("\x88\x00\x81\x01"
        "x",
        false, "8: "),
    ROW("\x88\x04\x03\xe8"
        "ok",
        false, "8:\x03\xe8ok "),
#undef ROW
};

static void test_good_frames_give_messages_wherever_they_are_split(void **state)
{
    struct seen seen = {0};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        for (size_t split = 0; split <= good[i].len; split++) {
            assert_int_equal(
                feed(good[i].server, (struct str){good[i].bytes, good[i].len}, split, &seen, &err), 0);
            assert_string_equal(seen.text.data, good[i].seen);
        }
    buf_done(&seen.text);
}

static const struct {
    const char *bytes;
    size_t len;
    bool server;
    enum err_code code;
} bad[] = {
#define ROW(bytes, server, code)                                                                             \
    {                                                                                                        \
        bytes, sizeof(bytes) - 1, server, code                                                               \
    }
    ROW("\xc1\x00", false, ERR_INVALID),                       /* reserved bit */
    ROW("\x83\x00", false, ERR_INVALID),                       /* opcode 3 */
    ROW("\x8b\x00", false, ERR_INVALID),                       /* opcode 11 */
    ROW("\x81\x00", true, ERR_INVALID),                        /* unmasked to a server */
    ROW("\x81\x80", false, ERR_INVALID),                       /* masked to a client */
    ROW("\x80\x00", false, ERR_INVALID),                       /* continuation of nothing */
    ROW("\x01\x00\x81\x00", false, ERR_INVALID),               /* message inside a message */
    ROW("\x09\x00", false, ERR_INVALID),                       /* ping in pieces */
    ROW("\x89\x7e\x00\x7e", false, ERR_INVALID),               /* long ping */
    ROW("\x82\x7e\x00\x7d", false, ERR_INVALID),               /* 125 in two bytes */
    ROW("\x82\x7f\0\0\0\0\0\0\xff\xff", false, ERR_INVALID),   /* 65535 in eight */
    ROW("\x82\x7f\x80\0\0\0\0\0\0\0", false, ERR_INVALID),     /* top bit */
    ROW("\x82\x7f\0\0\0\0\x00\x40\x00\x01", false, ERR_LIMIT), /* one byte too many */
    ROW("\x02\x01"
        "a"
        "\x80\x7f\0\0\0\0\0\x40\0\0",
        false, ERR_LIMIT),                       /* in pieces */
    ROW("\x81\x01\xff", false, ERR_INVALID),     /* no UTF-8 */
    ROW("\x88\x01\x03", false, ERR_INVALID),     /* half a code */
    ROW("\x88\x02\x03\xed", false, ERR_INVALID), /* 1005 */
    ROW("\x88\x02\x00\x00", false, ERR_INVALID),
    ROW("\x88\x03\x03\xe8\xff", false, ERR_INVALID), /* reason no UTF-8 */
#undef ROW
};

static void test_bad_frames_are_refused(void **state)
{
    struct seen seen = {0};
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(feed(bad[i].server, (struct str){bad[i].bytes, bad[i].len}, 0, &seen, &err), -1);
        assert_int_equal(err.code, bad[i].code);
        assert_int_equal(seen.count, 0);
    }
    buf_done(&seen.text);
}

static void test_written_frames_read_back_at_every_length(void **state)
{
    static const size_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, 200000, WEBSOCKET_MESSAGE_MAX};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (int masked = 0; masked < 2; masked++) {
            CLEANUP(buf_done) struct buf payload = {0}, frame = {0};
            struct seen seen = {0};
            struct err err;

            for (size_t k = 0; k < lengths[i]; k++)
                buf_putc(&payload, (char)('a' + k % 23));
            websocket_frame(&frame, WEBSOCKET_BINARY, masked, buf_view(&payload));
            assert_int_equal(feed(masked, buf_view(&frame), frame.len / 3, &seen, &err), 0);
            assert_int_equal(seen.count, 1);
            assert_int_equal(seen.text.len, lengths[i] + 3);
            assert_memory_equal(seen.text.data + 2, payload.data ? payload.data : "", lengths[i]);
            buf_done(&seen.text);
        }
}

static void test_callback_can_stop(void **state)
{
    struct seen seen = {.stop = 1};
    struct err err;

    (void)state;
    assert_int_equal(feed(false,
                          STR("\x82\x01"
                              "a\x82\x01"
                              "b"),
                          0, &seen, &err),
                     -1);
    assert_int_equal(err.code, ERR_NONE);
    assert_string_equal(seen.text.data, "2:a ");
    buf_done(&seen.text);
}

static void test_close_reason_is_cut_between_characters(void **state)
{
    CLEANUP(buf_done) struct buf frame = {0}, reason = {0};
    struct seen seen = {0};
    struct err err;

    (void)state;
    for (int i = 0; i < 100; i++)
        buf_puts(&reason, "€");
    websocket_close_frame(&frame, false, 1011, reason.data);
    assert_true(frame.len <= 127);
    assert_int_equal(feed(false, buf_view(&frame), 0, &seen, &err), 0);
    buf_done(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept_key_of_the_rfc),
        cmocka_unit_test(test_good_frames_give_messages_wherever_they_are_split),
        cmocka_unit_test(test_bad_frames_are_refused),
        cmocka_unit_test(test_written_frames_read_back_at_every_length),
        cmocka_unit_test(test_callback_can_stop),
        cmocka_unit_test(test_close_reason_is_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
