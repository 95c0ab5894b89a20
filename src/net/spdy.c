/* Control frames are collected whole (they are small) and then read; data frames are handed on as they
 * arrive. Header blocks are one zlib stream per direction for the whole connection, with the
 * dictionary of SPDY/3, so every block must be inflated, also one that nobody wants. */
#include "net/spdy.h"

#include "base/mem.h"

#include <assert.h>
#include <zlib.h>

#define HEAD_SIZE        8
#define CONTROL_BIT      0x80 /* in the first byte */
#define VERSION          3
#define FLAG_FIN         1
#define ID_MASK          0x7fffffffU
#define SMALL_WINDOW     11 /* bits; header blocks are short, and it keeps our deflate state small */
#define SMALL_MEMORY     4

#define DICTIONARY_SIZE  1423
#define DICTIONARY_ADLER 0xe3c6a7c2U
/* The words, each preceded by its length in the dictionary, and what follows them. */
static const char words[] =
    "options\nhead\npost\nput\ndelete\ntrace\naccept\naccept-charset\naccept-encoding\naccept-language\n"
    "accept-ranges\nage\nallow\nauthorization\ncache-control\nconnection\ncontent-base\ncontent-encoding\n"
    "content-language\ncontent-length\ncontent-location\ncontent-md5\ncontent-range\ncontent-type\ndate\n"
    "etag\nexpect\nexpires\nfrom\nhost\nif-match\nif-modified-since\nif-none-match\nif-range\n"
    "if-unmodified-since\nlast-modified\nlocation\nmax-forwards\npragma\nproxy-authenticate\n"
    "proxy-authorization\nrange\nreferer\nretry-after\nserver\nte\ntrailer\ntransfer-encoding\nupgrade\n"
    "user-agent\nvary\nvia\nwarning\nwww-authenticate\nmethod\nget\nstatus\n200 OK\nversion\nHTTP/1.1\n"
    "url\npublic\nset-cookie\nkeep-alive\norigin";
static const char phrases[] =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    "Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 "
    "Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar "
    "Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,"
    "image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,public"
    "privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

struct spdy {
    z_stream deflate, inflate;
    uint8_t head[HEAD_SIZE];
    size_t head_len;
    bool in_payload, skip, broken;
    uint32_t left; /* of this frame's payload */
    struct buf control;
    uint8_t block[SPDY_HEADERS_MAX];
    struct spdy_pair pairs[SPDY_PAIRS_MAX];
};

static void put32(uint8_t *at, uint32_t n)
{
    at[0] = (uint8_t)(n >> 24);
    at[1] = (uint8_t)(n >> 16);
    at[2] = (uint8_t)(n >> 8);
    at[3] = (uint8_t)n;
}

static uint32_t get32(const void *from)
{
    const uint8_t *at = from;

    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void add32(struct buf *buf, uint32_t n)
{
    uint8_t bytes[4];

    put32(bytes, n);
    buf_add(buf, bytes, 4);
}

static void make_dictionary(struct buf *ret)
{
    struct str rest = {words, sizeof(words) - 1}, word;

    while (str_split(&rest, '\n', &word)) {
        add32(ret, (uint32_t)word.len);
        buf_str(ret, word);
    }
    buf_str(ret, (struct str){phrases, sizeof(phrases) - 1});
    assert(ret->len == DICTIONARY_SIZE);
}

struct spdy *spdy_new(void)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct spdy *spdy = NEW(struct spdy);

    make_dictionary(&text);
    if (deflateInit2(&spdy->deflate, Z_DEFAULT_COMPRESSION, Z_DEFLATED, SMALL_WINDOW, SMALL_MEMORY,
                     Z_DEFAULT_STRATEGY) != Z_OK ||
        deflateSetDictionary(&spdy->deflate, (const Bytef *)text.data, (uInt)text.len) != Z_OK ||
        inflateInit(&spdy->inflate) != Z_OK)
        abort(); /* no memory */
    return spdy;
}

void spdy_free(struct spdy *spdy)
{
    if (!spdy)
        return;
    deflateEnd(&spdy->deflate);
    inflateEnd(&spdy->inflate);
    buf_done(&spdy->control);
    free(spdy);
}

/* A compressed block into spdy->block; *len is how much came out. */
static int inflate_block(struct spdy *spdy, struct str block, size_t *len, struct err *err)
{
    z_stream *z = &spdy->inflate;

    z->next_in = (Bytef *)block.s;
    z->avail_in = (uInt)block.len;
    z->next_out = spdy->block;
    z->avail_out = sizeof(spdy->block);
    while (z->avail_in > 0) {
        int rc = inflate(z, Z_SYNC_FLUSH);

        if (rc == Z_NEED_DICT) {
            CLEANUP(buf_done) struct buf text = {0};

            make_dictionary(&text);
            if (z->adler != DICTIONARY_ADLER ||
                inflateSetDictionary(z, (const Bytef *)text.data, (uInt)text.len) != Z_OK)
                return err_set(err, ERR_INVALID, "headers compressed with another dictionary");
        } else if (rc != Z_OK) {
            if (rc == Z_BUF_ERROR && z->avail_out == 0)
                return err_set(err, ERR_LIMIT, "headers larger than %d bytes", SPDY_HEADERS_MAX);
            return err_set(err, ERR_INVALID, "headers that cannot be decompressed");
        } else if (z->avail_out == 0) {
            return err_set(err, ERR_LIMIT, "headers larger than %d bytes", SPDY_HEADERS_MAX);
        }
    }
    *len = sizeof(spdy->block) - z->avail_out;
    return 0;
}

/* A length and that many bytes. */
static bool take_string(struct str *rest, struct str *ret)
{
    uint32_t len;

    if (rest->len < 4)
        return false;
    len = get32(rest->s);
    if (len > rest->len - 4)
        return false;
    *ret = (struct str){rest->s + 4, len};
    *rest = (struct str){rest->s + 4 + len, rest->len - 4 - len};
    return true;
}

static bool good_name(const struct spdy *spdy, size_t count, struct str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.s[i] == '\0' || (name.s[i] >= 'A' && name.s[i] <= 'Z'))
            return false;
    for (size_t i = 0; i < count; i++)
        if (str_eq(spdy->pairs[i].name, name))
            return false;
    return name.len > 0;
}

static int read_pairs(struct spdy *spdy, struct str block, struct spdy_frame *frame, struct err *err)
{
    struct str rest;
    size_t len = 0, count = 0;

    if (inflate_block(spdy, block, &len, err) < 0)
        return -1;
    rest = (struct str){(const char *)spdy->block, len};
    if (len > 0) {
        if (len < 4)
            return err_set(err, ERR_INVALID, "a header block without a count");
        count = get32(rest.s);
        rest = (struct str){rest.s + 4, len - 4};
    }
    if (count > SPDY_PAIRS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d headers", SPDY_PAIRS_MAX);
    for (size_t i = 0; i < count; i++) {
        struct spdy_pair *pair = &spdy->pairs[i];

        if (!take_string(&rest, &pair->name) || !take_string(&rest, &pair->value))
            return err_set(err, ERR_INVALID, "a header block that ends too early");
        if (!good_name(spdy, i, pair->name))
            return err_set(err, ERR_INVALID, "a bad header name");
    }
    if (rest.len > 0)
        return err_set(err, ERR_INVALID, "bytes behind the headers");
    frame->pairs = spdy->pairs;
    frame->pair_count = count;
    return 0;
}

/* Bytes of a control frame's payload before the header block; `exact` ones have nothing else. */
static const struct {
    uint8_t size;
    bool exact, block;
} shapes[] = {
    [SPDY_SYN_STREAM] = {10, false, true}, [SPDY_SYN_REPLY] = {4, false, true},
    [SPDY_RST_STREAM] = {8, true, false},  [SPDY_SETTINGS] = {4, false, false},
    [SPDY_PING] = {4, true, false},        [SPDY_GOAWAY] = {8, true, false},
    [SPDY_HEADERS] = {4, false, true},     [SPDY_WINDOW_UPDATE] = {8, true, false},
};

static unsigned control_type(const struct spdy *spdy)
{
    return (unsigned)spdy->head[2] << 8 | spdy->head[3];
}

static bool known_type(unsigned type)
{
    return type < sizeof(shapes) / sizeof(shapes[0]) && shapes[type].size > 0;
}

static int read_control(struct spdy *spdy, struct spdy_frame *frame, struct err *err)
{
    unsigned type = control_type(spdy);
    struct str payload = buf_view(&spdy->control);
    size_t size = shapes[type].size;

    if (payload.len < size || (shapes[type].exact && payload.len != size))
        return err_set(err, ERR_INVALID, "a control frame of type %u with %zu bytes", type, payload.len);
    *frame = (struct spdy_frame){.type = type};
    if (type == SPDY_SETTINGS)
        return 0;
    frame->stream = get32(payload.s);
    if (type != SPDY_PING)
        frame->stream &= ID_MASK;
    if (size == 8)
        frame->status = get32(payload.s + 4);
    if (!shapes[type].block)
        return 0;
    frame->fin = spdy->head[4] & FLAG_FIN;
    if (frame->stream == 0)
        return err_set(err, ERR_INVALID, "stream 0");
    return read_pairs(spdy, (struct str){payload.s + size, payload.len - size}, frame, err);
}

static int start_payload(struct spdy *spdy, struct err *err)
{
    spdy->left = get32(spdy->head + 4) & 0xffffff;
    spdy->in_payload = true;
    spdy->skip = false;
    buf_clear(&spdy->control);
    if (!(spdy->head[0] & CONTROL_BIT)) {
        if (get32(spdy->head) == 0)
            return err_set(err, ERR_INVALID, "data for stream 0");
        return 0;
    }
    if (spdy->head[0] != CONTROL_BIT || spdy->head[1] != VERSION)
        return err_set(err, ERR_INVALID, "a frame of another SPDY version");
    spdy->skip = !known_type(control_type(spdy));
    if (!spdy->skip && spdy->left > SPDY_CONTROL_MAX)
        return err_set(err, ERR_LIMIT, "a control frame of %u bytes", spdy->left);
    return 0;
}

static int feed_head(struct spdy *spdy, struct str *data, struct err *err)
{
    size_t len = HEAD_SIZE - spdy->head_len;

    if (len > data->len)
        len = data->len;
    memcpy(spdy->head + spdy->head_len, data->s, len);
    spdy->head_len += len;
    *data = (struct str){data->s + len, data->len - len};
    return spdy->head_len == HEAD_SIZE ? start_payload(spdy, err) : 0;
}

/* Uses the bytes of the frame at hand; the frame is over when none are left. */
static int feed_payload(struct spdy *spdy, struct str *data,
                        int (*fn)(void *arg, const struct spdy_frame *frame), void *arg, struct err *err)
{
    struct str piece = {data->s, data->len < spdy->left ? data->len : spdy->left};
    bool is_data = !(spdy->head[0] & CONTROL_BIT), over;
    struct spdy_frame frame;

    *data = (struct str){data->s + piece.len, data->len - piece.len};
    spdy->left -= (uint32_t)piece.len;
    over = spdy->left == 0;
    if (over) {
        spdy->in_payload = false;
        spdy->head_len = 0;
    }
    if (spdy->skip)
        return 0;
    if (is_data) {
        frame = (struct spdy_frame){.type = SPDY_DATA, .stream = get32(spdy->head), .data = piece};
        frame.fin = over && (spdy->head[4] & FLAG_FIN);
        return piece.len > 0 || over ? fn(arg, &frame) : 0;
    }
    buf_str(&spdy->control, piece);
    if (!over)
        return 0;
    if (read_control(spdy, &frame, err) < 0)
        return -1;
    return fn(arg, &frame);
}

int spdy_feed(struct spdy *spdy, struct str data, int (*fn)(void *arg, const struct spdy_frame *frame),
              void *arg, struct err *err)
{
    if (spdy->broken)
        return err_set(err, ERR_INVALID, "the connection has failed before");
    while (data.len > 0 && !spdy->broken) {
        if (!spdy->in_payload)
            spdy->broken = feed_head(spdy, &data, err) < 0;
        if (!spdy->broken && spdy->in_payload && (data.len > 0 || spdy->left == 0))
            spdy->broken = feed_payload(spdy, &data, fn, arg, err) < 0;
    }
    return spdy->broken ? -1 : 0;
}

static void add_head(struct buf *out, enum spdy_type type, bool fin, size_t len)
{
    uint8_t head[HEAD_SIZE] = {CONTROL_BIT, VERSION, 0, (uint8_t)type};

    put32(head + 4, (uint32_t)len);
    head[4] = fin ? FLAG_FIN : 0;
    buf_add(out, head, sizeof(head));
}

static void add_pairs(struct spdy *spdy, struct buf *out, const struct spdy_pair *pairs, size_t count)
{
    CLEANUP(buf_done) struct buf plain = {0};
    z_stream *z = &spdy->deflate;

    add32(&plain, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        add32(&plain, (uint32_t)pairs[i].name.len);
        buf_str(&plain, pairs[i].name);
        add32(&plain, (uint32_t)pairs[i].value.len);
        buf_str(&plain, pairs[i].value);
    }
    z->next_in = (Bytef *)plain.data;
    z->avail_in = (uInt)plain.len;
    do {
        char *at = buf_reserve(out, 256);

        z->next_out = (Bytef *)at;
        z->avail_out = 256;
        deflate(z, Z_SYNC_FLUSH);
        out->len += 256 - z->avail_out;
    } while (z->avail_out == 0);
    out->data[out->len] = '\0';
}

/* The length of the frame that starts at `start`, now that it is known. */
static void set_length(struct buf *out, size_t start)
{
    size_t len = out->len - start - HEAD_SIZE;
    uint8_t *at = (uint8_t *)out->data + start + 5;

    at[0] = (uint8_t)(len >> 16);
    at[1] = (uint8_t)(len >> 8);
    at[2] = (uint8_t)len;
}

void spdy_syn_stream(struct spdy *spdy, struct buf *out, uint32_t stream, bool fin,
                     const struct spdy_pair *pairs, size_t count)
{
    size_t start = out->len;

    add_head(out, SPDY_SYN_STREAM, fin, 0);
    add32(out, stream & ID_MASK);
    add32(out, 0);           /* associated with no other stream */
    buf_add(out, "\0\0", 2); /* priority, slot */
    add_pairs(spdy, out, pairs, count);
    set_length(out, start);
}

void spdy_syn_reply(struct spdy *spdy, struct buf *out, uint32_t stream, bool fin,
                    const struct spdy_pair *pairs, size_t count)
{
    size_t start = out->len;

    add_head(out, SPDY_SYN_REPLY, fin, 0);
    add32(out, stream & ID_MASK);
    add_pairs(spdy, out, pairs, count);
    set_length(out, start);
}

void spdy_data(struct buf *out, uint32_t stream, bool fin, struct str data)
{
    do {
        struct str piece = {data.s, data.len < SPDY_FRAME_MAX ? data.len : SPDY_FRAME_MAX};
        uint8_t head[HEAD_SIZE];

        data = (struct str){data.s + piece.len, data.len - piece.len};
        put32(head, stream & ID_MASK);
        put32(head + 4, (uint32_t)piece.len);
        head[4] = fin && data.len == 0 ? FLAG_FIN : 0;
        buf_add(out, head, sizeof(head));
        buf_str(out, piece);
    } while (data.len > 0);
}

void spdy_rst_stream(struct buf *out, uint32_t stream, uint32_t status)
{
    add_head(out, SPDY_RST_STREAM, false, 8);
    add32(out, stream & ID_MASK);
    add32(out, status);
}

void spdy_ping(struct buf *out, uint32_t id)
{
    add_head(out, SPDY_PING, false, 4);
    add32(out, id);
}

void spdy_goaway(struct buf *out, uint32_t last_stream, uint32_t status)
{
    add_head(out, SPDY_GOAWAY, false, 8);
    add32(out, last_stream & ID_MASK);
    add32(out, status);
}
