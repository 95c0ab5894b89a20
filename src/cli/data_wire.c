/* The connection to berth-files, sums, and what is shown while bytes move. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/data.h"
#include "net/client.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_MAX_  (1 << 20)
#define SHOW_EVERY (200 * NSEC_PER_MSEC)

int data_open(struct cli *cli, struct data *ret)
{
    *ret = (struct data){.cli = cli, .block = mem_alloc(DATA_BLOCK), .tty = isatty(2)};
    return cli_upgrade(cli, "/v1/files");
}

void data_close(struct data *data)
{
    buf_done(&data->input);
    free(data->block);
    client_free(TAKE_PTR(data->cli->client)); /* it is no HTTP any more */
}

/* ---- lines ---- */

int data_broken(const struct err *err)
{
    return cli_fail(CLI_FAILED, "the connection ended: run it again to go on where it stopped%s%s",
                    err->msg[0] ? ": " : "", err->msg);
}

int data_fill(struct data *data)
{
    struct err err = {0};
    ssize_t n = client_read(data->cli->client, buf_reserve(&data->input, DATA_BLOCK), DATA_BLOCK, &err);

    if (n <= 0)
        return data_broken(&err);
    data->input.len += (size_t)n;
    return CLI_OK;
}

int data_answer(struct data *data, struct json **ret)
{
    const char *end, *sentence;
    struct err err = {0};
    int code;

    while (!data->input.len || !(end = memchr(data->input.data, '\n', data->input.len))) {
        if (data->input.len > LINE_MAX_)
            return cli_fail(CLI_FAILED, "the daemon's answer makes no sense");
        code = data_fill(data);
        if (code != CLI_OK)
            return code;
    }
    if (json_parse((struct str){data->input.data, (size_t)(end - data->input.data)}, &data->cli->arena, ret,
                   NULL, &err) < 0)
        return cli_fail(CLI_FAILED, "the daemon's answer makes no sense: %s", err.msg);
    buf_drop(&data->input, (size_t)(end - data->input.data) + 1);
    sentence = json_get_string(*ret, "error");
    if (!sentence)
        return CLI_OK;
    return cli_fail(json_bool(json_get(*ret, "missing")) ? CLI_NOT_FOUND : CLI_FAILED, "%s",
                    data_shown(data->cli, sentence));
}

int data_send(struct data *data, const struct json *request)
{
    CLEANUP(buf_done) struct buf line = {0};
    struct err err = {0};

    json_write(&line, request);
    buf_putc(&line, '\n');
    return client_write(data->cli->client, buf_view(&line), &err) < 0 ? data_broken(&err) : CLI_OK;
}

struct json *data_request(struct data *data, const char *op, const char *path)
{
    struct json *doc = json_new_object(&data->cli->arena);

    json_set_string(&data->cli->arena, doc, "op", op);
    json_set_string(&data->cli->arena, doc, "path", path);
    return doc;
}

int data_ask(struct data *data, const char *op, const char *path, struct json **ret)
{
    int code = data_send(data, data_request(data, op, path));

    return code == CLI_OK ? data_answer(data, ret) : code;
}

static void tell_missing(struct data *data, const struct json *end)
{
    int64_t unnamed = json_int(json_get(end, "unnamed"), 0), unread = json_int(json_get(end, "unread"), 0);

    if (unnamed)
        fprintf(stderr, "berth: left out, their names are no UTF-8: %lld\n", (long long)unnamed);
    if (unread)
        fprintf(stderr, "berth: folders that could not be read: %lld\n", (long long)unread);
    data->left_out += unnamed + unread;
}

/* All entries are read before the first of them is fetched: the connection has one user. */
int data_list(struct data *data, const char *path, bool deep, struct json *items)
{
    struct json *request = data_request(data, "list", path), *entry = NULL;
    int code;

    json_set_bool(&data->cli->arena, request, "deep", deep);
    code = data_send(data, request);
    while (code == CLI_OK && (code = data_answer(data, &entry)) == CLI_OK && entry) {
        if (json_bool(json_get(entry, "end"))) {
            tell_missing(data, entry);
            break;
        }
        json_push(&data->cli->arena, items, *entry);
    }
    return code;
}

/* ---- what is shown ---- */

const char *data_shown(struct cli *cli, const char *name)
{
    char *text = arena_strdup(&cli->arena, name);

    for (char *c = text; *c; c++) {
        if (c == text + utf8_valid_len(str_from(text)))
            *c = '?';
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
        /* U+0080 to U+009F, which some terminals obey, too */
        if ((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] >= 0x80 && (unsigned char)c[1] < 0xa0)
            c[0] = c[1] = '?';
    }
    return text;
}

const char *data_size(struct cli *cli, int64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double n = (double)bytes;
    size_t unit = 0;

    while (n >= 999.95 && unit + 1 < ARRAY_LEN(units)) {
        n /= 1000;
        unit++;
    }
    return arena_printf(&cli->arena, unit > 0 ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

void data_show(struct data *data, const char *name, const char *words, int64_t done, int64_t total, bool last)
{
    int64_t now = clock_monotonic();

    if (!last && (!data->tty || now - data->shown_ns < SHOW_EVERY))
        return;
    data->shown_ns = now;
    fprintf(stderr, "%s%s  %s of %s%s%s", data->tty ? "\r" : "", data_shown(data->cli, name),
            data_size(data->cli, done), data_size(data->cli, total), words, data->tty ? "\033[K" : "");
    if (last)
        fputc('\n', stderr);
}

void data_leave_out(struct data *data, const char *name, const char *why)
{
    data->left_out++;
    fprintf(stderr, "berth: left out, %s: %s\n", why, data_shown(data->cli, name));
}

/* ---- sums ---- */

EVP_MD_CTX *data_sum_new(void)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();

    EVP_DigestInit_ex(sum, EVP_sha256(), NULL);
    return sum;
}

const char *data_sum_text(struct data *data, EVP_MD_CTX *sum)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    char *text = arena_zalloc(&data->cli->arena, 65);

    EVP_MD_CTX_copy_ex(copy, sum);
    EVP_DigestFinal_ex(copy, raw, NULL);
    EVP_MD_CTX_free(copy);
    for (size_t i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", raw[i]);
    return text;
}

int64_t data_sum_add(struct data *data, EVP_MD_CTX *sum, int fd, int64_t max, const char *name)
{
    int64_t done = 0;

    while (done < max) {
        ssize_t n = read(fd, data->block, max - done > DATA_BLOCK ? DATA_BLOCK : (size_t)(max - done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        EVP_DigestUpdate(sum, data->block, (size_t)n);
        done += n;
        data_show(data, name, " compared", done, max, false);
    }
    return done;
}
