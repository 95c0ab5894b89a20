#include "base/mem.h"
#include "base/test/test.h"
#include "net/spdy.h"

#include <string.h>
#include <zlib.h>

/* Frames as text, one line each. */
static int on_frame(void *arg, const struct spdy_frame *frame)
{
    struct buf *text = arg;

    buf_printf(text, "%d %u %u%s", (int)frame->type, frame->stream, frame->status, frame->fin ? " fin" : "");
    for (size_t i = 0; i < frame->pair_count; i++)
        buf_printf(text, " %.*s=%.*s", STR_ARG(frame->pairs[i].name), STR_ARG(frame->pairs[i].value));
    if (frame->type == SPDY_DATA) {
        buf_putc(text, ' ');
        buf_str(text, frame->data);
    }
    buf_putc(text, '\n');
    return frame->type == SPDY_GOAWAY ? -1 : 0;
}

static const struct spdy_pair pairs[] = {
    {{"streamtype", 10}, {"error", 5}},
    {{"port", 4}, {"8888", 4}},
    {{"requestid", 9}, {"0", 1}},
};

static void write_session(struct buf *out)
{
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();

    spdy_syn_stream(spdy, out, 1, false, pairs, 3);
    spdy_syn_reply(spdy, out, 1, false, NULL, 0);
    spdy_ping(out, 7);
    spdy_syn_stream(spdy, out, 3, true, pairs, 2);
    buf_add(out, "\x80\x03\x00\x63\x00\x00\x00\x02xy", 10); /* an unknown control frame */
    spdy_data(out, 3, true, STR(""));
    spdy_rst_stream(out, 3, 5);
}

static const char session[] = "1 1 0 streamtype=error port=8888 requestid=0\n"
                              "2 1 0\n"
                              "6 7 0\n"
                              "1 3 0 fin streamtype=error port=8888\n"
                              "0 3 0 fin \n"
                              "3 3 5\n";

static void test_written_frames_read_back_wherever_they_are_split(void **state)
{
    CLEANUP(buf_done) struct buf bytes = {0}, text = {0};

    (void)state;
    write_session(&bytes);
    for (size_t split = 0; split <= bytes.len; split++) {
        CLEANUP(spdy_free) struct spdy *spdy = spdy_new();
        struct err err = {0};

        buf_clear(&text);
        assert_int_equal(spdy_feed(spdy, (struct str){bytes.data, split}, on_frame, &text, &err), 0);
        assert_int_equal(
            spdy_feed(spdy, (struct str){bytes.data + split, bytes.len - split}, on_frame, &text, &err), 0);
        assert_string_equal(text.data, session);
    }
}

static void test_one_byte_at_a_time(void **state)
{
    CLEANUP(buf_done) struct buf bytes = {0}, text = {0};
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();
    struct err err = {0};

    (void)state;
    write_session(&bytes);
    for (size_t i = 0; i < bytes.len; i++)
        assert_int_equal(spdy_feed(spdy, (struct str){bytes.data + i, 1}, on_frame, &text, &err), 0);
    assert_string_equal(text.data, session);
}

static void test_data_comes_in_pieces_with_fin_on_the_last(void **state)
{
    CLEANUP(buf_done) struct buf bytes = {0}, text = {0};
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();
    struct err err = {0};

    (void)state;
    spdy_data(&bytes, 5, true, STR("hello"));
    assert_int_equal(spdy_feed(spdy, (struct str){bytes.data, 10}, on_frame, &text, &err), 0);
    assert_int_equal(spdy_feed(spdy, (struct str){bytes.data + 10, bytes.len - 10}, on_frame, &text, &err),
                     0);
    assert_string_equal(text.data, "0 5 0 he\n0 5 0 fin llo\n");
}

static void test_large_data_is_written_as_several_frames(void **state)
{
    CLEANUP(buf_done) struct buf bytes = {0}, big = {0}, text = {0};
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();
    struct err err = {0};

    (void)state;
    memset(buf_reserve(&big, SPDY_FRAME_MAX + 1), 'x', SPDY_FRAME_MAX + 1);
    big.len = SPDY_FRAME_MAX + 1;
    spdy_data(&bytes, 5, true, buf_view(&big));
    assert_int_equal(bytes.len, big.len + 16);
    assert_int_equal(spdy_feed(spdy, buf_view(&bytes), on_frame, &text, &err), 0);
    assert_true(ends_with(text.data, "\n0 5 0 fin x\n"));
}

static void test_block_uses_the_dictionary_of_spdy_3(void **state)
{
    CLEANUP(buf_done) struct buf bytes = {0};
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();

    (void)state;
    spdy_syn_reply(spdy, &bytes, 1, false, NULL, 0);
    /* zlib header with FDICT, then the dictionary's Adler-32 */
    assert_true(bytes.data[13] & 0x20);
    assert_memory_equal(bytes.data + 14, "\xe3\xc6\xa7\xc2", 4);
}

static void test_callback_can_stop(void **state)
{
    CLEANUP(buf_done) struct buf bytes = {0}, text = {0};
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();
    struct err err = {0};

    (void)state;
    spdy_goaway(&bytes, 3, 0);
    spdy_ping(&bytes, 1);
    assert_int_equal(spdy_feed(spdy, buf_view(&bytes), on_frame, &text, &err), -1);
    assert_int_equal(err.code, ERR_NONE);
    assert_string_equal(text.data, "7 3 0\n");
}

static enum err_code refusal(struct str bytes)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();
    struct err err = {0};

    assert_int_equal(spdy_feed(spdy, bytes, on_frame, &text, &err), -1);
    assert_int_equal(text.len, 0);
    assert_int_equal(spdy_feed(spdy, STR("x"), on_frame, &text, NULL), -1);
    return err.code;
}

static void test_bad_frames_are_refused(void **state)
{
    (void)state;
    assert_int_equal(refusal(STR("\x80\x02\x00\x01\x00\x00\x00\x00")), ERR_INVALID); /* SPDY/2 */
    assert_int_equal(refusal(STR("\x81\x03\x00\x01\x00\x00\x00\x00")), ERR_INVALID); /* version 259 */
    assert_int_equal(refusal(STR("\x00\x00\x00\x00\x00\x00\x00\x00")), ERR_INVALID); /* data, stream 0 */
    assert_int_equal(refusal(STR("\x80\x03\x00\x06\x00\x00\x00\x03"
                                 "abc")),
                     ERR_INVALID); /* short ping */
    assert_int_equal(refusal(STR("\x80\x03\x00\x06\x00\x00\x00\x05"
                                 "abcde")),
                     ERR_INVALID); /* long ping */
    assert_int_equal(refusal(STR("\x80\x03\x00\x01\x00\x00\x00\x09"
                                 "123456789")),
                     ERR_INVALID);
    assert_int_equal(refusal(STR("\x80\x03\x00\x02\x00\x00\x00\x04\0\0\0\0")), ERR_INVALID); /* stream 0 */
    assert_int_equal(refusal(STR("\x80\x03\x00\x01\x00\x01\x00\x01")), ERR_LIMIT); /* 64 kB and one */
    assert_int_equal(refusal(STR("\x80\x03\x00\x02\x00\x00\x00\x08\0\0\0\1nope")), ERR_INVALID);
}

/* A SYN_REPLY with this block, deflated without a dictionary. */
static enum err_code block_refusal(struct str plain)
{
    CLEANUP(buf_done) struct buf bytes = {0};
    z_stream z = {0};
    size_t room = plain.len + 1024;

    assert_int_equal(deflateInit(&z, 9), Z_OK);
    buf_add(&bytes, "\x80\x03\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01", 12);
    buf_reserve(&bytes, room);
    z.next_in = (Bytef *)plain.s;
    z.avail_in = (uInt)plain.len;
    z.next_out = (Bytef *)bytes.data + 12;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_SYNC_FLUSH), Z_OK);
    bytes.len += room - z.avail_out;
    bytes.data[6] = (char)((bytes.len - 8) >> 8);
    bytes.data[7] = (char)(bytes.len - 8);
    deflateEnd(&z);
    return refusal(buf_view(&bytes));
}

static void test_bad_header_blocks_are_refused(void **state)
{
    (void)state;
    assert_int_equal(block_refusal(STR("\0\0\0")), ERR_INVALID);
    assert_int_equal(block_refusal(STR("\0\0\0\1\0\0\0\1")), ERR_INVALID);
    assert_int_equal(block_refusal(STR("\0\0\0\1\0\0\0\1A\0\0\0\0")), ERR_INVALID); /* upper case */
    assert_int_equal(block_refusal(STR("\0\0\0\1\0\0\0\0\0\0\0\0")), ERR_INVALID);  /* no name */
    assert_int_equal(block_refusal(STR("\0\0\0\1\xff\xff\xff\xff"
                                       "a")),
                     ERR_INVALID);                                  /* length */
    assert_int_equal(block_refusal(STR("\0\0\0\0x")), ERR_INVALID); /* leftovers */
    assert_int_equal(block_refusal(STR("\0\0\0\2\0\0\0\1a\0\0\0\0\0\0\0\1a\0\0\0\0")), ERR_INVALID);
    assert_int_equal(block_refusal(STR("\0\0\0\x41")), ERR_LIMIT); /* 65 headers */
}

static void test_compressed_bombs_are_refused(void **state)
{
    CLEANUP(free) char *zeros = mem_zalloc(8 << 20);

    (void)state;
    assert_int_equal(block_refusal((struct str){zeros, 8 << 20}), ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_frames_read_back_wherever_they_are_split),
        cmocka_unit_test(test_one_byte_at_a_time),
        cmocka_unit_test(test_data_comes_in_pieces_with_fin_on_the_last),
        cmocka_unit_test(test_large_data_is_written_as_several_frames),
        cmocka_unit_test(test_block_uses_the_dictionary_of_spdy_3),
        cmocka_unit_test(test_callback_can_stop),
        cmocka_unit_test(test_bad_frames_are_refused),
        cmocka_unit_test(test_bad_header_blocks_are_refused),
        cmocka_unit_test(test_compressed_bombs_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
