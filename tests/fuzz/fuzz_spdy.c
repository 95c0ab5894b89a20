/* SPDY frames in one piece and in several: the same frames and the same refusal both times. Then the
 * input as headers and data of our own frames, which must read back as they were. */
#include "net/spdy.h"

#include <stdint.h>
#include <stdlib.h>

struct seen {
    struct buf text;
    uint32_t stream; /* of the data frame whose pieces are being joined */
};

static int on_frame(void *arg, const struct spdy_frame *frame)
{
    struct seen *seen = arg;

    if (frame->type == SPDY_DATA) {
        if (frame->stream != seen->stream)
            buf_printf(&seen->text, "\ndata %u ", frame->stream);
        seen->stream = frame->fin ? 0 : frame->stream;
        buf_str(&seen->text, frame->data);
        if (frame->fin)
            buf_puts(&seen->text, " fin");
        return 0;
    }
    seen->stream = 0;
    buf_printf(&seen->text, "\n%d %u %u %d", (int)frame->type, frame->stream, frame->status, frame->fin);
    for (size_t i = 0; i < frame->pair_count; i++) {
        buf_str(&seen->text, frame->pairs[i].name);
        buf_putc(&seen->text, '=');
        buf_str(&seen->text, frame->pairs[i].value);
    }
    return 0;
}

static int feed(struct str data, size_t cut, struct seen *seen, struct err *err)
{
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new();

    while (data.len > 0) {
        size_t len = cut > 0 && cut < data.len ? cut : data.len;

        if (spdy_feed(spdy, (struct str){data.s, len}, on_frame, seen, err) < 0)
            return -1;
        data = (struct str){data.s + len, data.len - len};
    }
    return 0;
}

static int count_frame(void *arg, const struct spdy_frame *frame)
{
    struct str *expected = arg;

    if (frame->type == SPDY_SYN_STREAM &&
        (frame->pair_count != 1 || !str_eq(frame->pairs[0].value, *expected)))
        abort();
    return 0;
}

static void check_round_trip(struct str data)
{
    CLEANUP(spdy_free) struct spdy *spdy = spdy_new(), *peer = spdy_new();
    CLEANUP(buf_done) struct buf out = {0};
    struct spdy_pair pair = {STR("name"), data};

    if (data.len > SPDY_HEADERS_MAX / 2)
        return;
    for (uint32_t i = 0; i < 3; i++) {
        spdy_syn_stream(spdy, &out, 1 + i, true, &pair, 1);
        spdy_data(&out, 1 + i, true, data);
    }
    if (spdy_feed(peer, buf_view(&out), count_frame, &data, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {0}, pieces = {0};
    struct err one = {0}, two = {0};
    struct str bytes = {(const char *)data + 1, size - 1};

    if (size < 1)
        return 0;
    if (feed(bytes, 0, &whole, &one) != feed(bytes, 1 + data[0], &pieces, &two))
        abort();
    if (one.code != two.code ||
        (one.code == ERR_NONE && !str_eq(buf_view(&whole.text), buf_view(&pieces.text))))
        abort();
    if (data[0] % 4 == 0) /* not every time: it costs more than the rest */
        check_round_trip(bytes);
    buf_done(&whole.text);
    buf_done(&pieces.text);
    return 0;
}
