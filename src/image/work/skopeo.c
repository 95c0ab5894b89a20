/* skopeo.c - the processes and what they say. The proxy's protocol: JSON requests and replies as packets of a
 * socket pair that is its stdin; GetBlob's reply brings the reading end of a pipe, FinishPipe's reply comes
 * when all is written, and says whether it went well. We ask for the latter at once and then read to the end.
 */
#include "image/work/skopeo.h"

#include "base/clock.h"
#include "base/mem.h"
#include "image/sum.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define ERRORS_MAX   (64 << 10)
#define REPLY_MAX    (64 << 10)
#define READ_STEP    (256 << 10)
#define ARGS_MAX     16
#define SENTENCE_MAX 600
#define SLOW_BYTES   1000 /* a second: a registry that sends less over stallSec has stalled */

struct skopeo_proxy {
    const struct work *work;
    pid_t pid;
    int sock;
    int errors; /* what it writes to stderr */
    int64_t image;
};

/* ---- words ---- */

/* What stands in msg="…" of the last line, which has the reason; or the last line itself. */
static struct str last_message(struct str errors)
{
    struct str line, last = errors, rest = errors;
    const char *at;

    while (str_split(&rest, '\n', &line))
        if (str_trim(line).len > 0)
            last = str_trim(line);
    at = memmem(last.s, last.len, "msg=\"", 5);
    if (at) {
        last = (struct str){at + 5, last.len - (size_t)(at + 5 - last.s)};
        if (str_ends(last, "\""))
            last.len--;
    }
    /* Error parsing image name \"docker://…\": why */
    at = memmem(last.s, last.len, "\\\": ", 4);
    if (at && str_starts(last, "Error parsing image name "))
        last = (struct str){at + 4, last.len - (size_t)(at + 4 - last.s)};
    return last;
}

static void copy_sentence(struct str from, char *to, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; i < from.len && len + 1 < size; i++) {
        if (from.s[i] == '\\' && i + 1 < from.len && (from.s[i + 1] == '"' || from.s[i + 1] == '\\'))
            i++;
        to[len++] = (unsigned char)from.s[i] < ' ' ? ' ' : from.s[i];
    }
    to[len] = '\0';
}

enum image_fail skopeo_words(struct str errors, char *sentence, size_t size)
{
    /* The first row that fits decides. */
    static const struct {
        const char *words;
        enum image_fail fail;
    } rows[] = {
        {"manifest unknown", IMAGE_FAIL_NOT_FOUND},
        {"name unknown", IMAGE_FAIL_NOT_FOUND},
        {"repository name not known", IMAGE_FAIL_NOT_FOUND},
        {"blob unknown", IMAGE_FAIL_NOT_FOUND},
        {"status 404", IMAGE_FAIL_NOT_FOUND},
        {"status: 404", IMAGE_FAIL_NOT_FOUND},
        {"unauthorized", IMAGE_FAIL_UNAUTHORIZED},
        {"authentication required", IMAGE_FAIL_UNAUTHORIZED},
        {"invalid username/password", IMAGE_FAIL_UNAUTHORIZED},
        {"denied", IMAGE_FAIL_UNAUTHORIZED},
        {"status 403", IMAGE_FAIL_UNAUTHORIZED},
        {"status 401", IMAGE_FAIL_UNAUTHORIZED},
        {"corrupted blob", IMAGE_FAIL_DIGEST},
        {"does not match provided manifest digest", IMAGE_FAIL_DIGEST},
        {"Manifest does not match", IMAGE_FAIL_DIGEST},
        {"did not match", IMAGE_FAIL_DIGEST},
        {"bytes in blob, got", IMAGE_FAIL_DIGEST},
        {"no space left on device", IMAGE_FAIL_NO_SPACE},
        {"no image found in", IMAGE_FAIL_PLATFORM},
        {"connection refused", IMAGE_FAIL_UNREACHABLE},
        {"connection reset", IMAGE_FAIL_UNREACHABLE},
        {"no such host", IMAGE_FAIL_UNREACHABLE},
        {"server misbehaving", IMAGE_FAIL_UNREACHABLE},
        {"unreachable", IMAGE_FAIL_UNREACHABLE},
        {"no route to host", IMAGE_FAIL_UNREACHABLE},
        {"timeout", IMAGE_FAIL_UNREACHABLE},
        {"deadline exceeded", IMAGE_FAIL_UNREACHABLE},
        {"x509", IMAGE_FAIL_UNREACHABLE},
        {"tls:", IMAGE_FAIL_UNREACHABLE},
        {"HTTP response to HTTPS client", IMAGE_FAIL_UNREACHABLE},
        {"malformed HTTP response", IMAGE_FAIL_UNREACHABLE},
        {"toomanyrequests", IMAGE_FAIL_UNREACHABLE},
        {"too many requests", IMAGE_FAIL_UNREACHABLE},
        {"status 5", IMAGE_FAIL_UNREACHABLE},
        {"pinging container registry", IMAGE_FAIL_UNREACHABLE},
        {"EOF", IMAGE_FAIL_UNREACHABLE},
        {"unsupported manifest", IMAGE_FAIL_INVALID},
        {"unsupported legacy manifest", IMAGE_FAIL_INVALID},
    };
    struct str message = last_message(errors);

    copy_sentence(message, sentence, size);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (memmem(message.s, message.len, rows[i].words, strlen(rows[i].words)))
            return rows[i].fail;
    return IMAGE_FAIL_OTHER;
}

static int fail_words(const struct work *work, struct str words, struct fail *fail)
{
    char sentence[SENTENCE_MAX] = "";
    enum image_fail kind = skopeo_words(words, sentence, sizeof(sentence));

    return fail_set(fail, kind, "registry %s: %s", work->ref.host,
                    sentence[0] ? sentence : "skopeo ended early");
}

static void read_errors(int fd, struct buf *ret)
{
    ssize_t n;
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > ERRORS_MAX ? size - ERRORS_MAX : 0;

    while ((n = pread(fd, buf_reserve(ret, 4096), 4096, from)) > 0) {
        ret->len += (size_t)n;
        from += n;
    }
}

/* ---- processes ---- */

/* skopeo's arguments; the credentials are in a file of mode 0600 whose path is not secret. */
static const char **build_args(const struct work *work, struct arena *arena, const char *verb)
{
    const char **args = arena_zalloc(arena, ARGS_MAX * sizeof(*args));
    size_t len = 0;

    args[len++] = work->skopeo;
    if (access("/etc/containers/policy.json", R_OK) < 0)
        args[len++] = "--insecure-policy"; /* no policy is set here; skopeo insists on one */
    if (work->registries_conf)
        args[len++] = arena_printf(arena, "--registries-conf=%s", work->registries_conf);
    args[len++] = verb;
    if (work->insecure)
        args[len++] = "--tls-verify=false";
    if (work->cert_dir)
        args[len++] = arena_printf(arena, "--cert-dir=%s", work->cert_dir);
    if (work->auth)
        args[len++] = arena_printf(arena, "--authfile=%s", work->auth);
    else
        args[len++] = "--no-creds";
    return args;
}

static void push_arg(const char **args, const char *arg)
{
    size_t len = 0;

    while (args[len])
        len++;
    args[len] = arg;
}

static int spawn(const struct work *work, const char *const *args, int in, int out, int errors, pid_t *ret,
                 struct fail *fail)
{
    if (!work->skopeo)
        return fail_set(fail, IMAGE_FAIL_OTHER, "skopeo is not installed, so nothing can be pulled");
    *ret = work_spawn(work, args, in, out, errors, fail);
    return *ret < 0 ? -1 : 0;
}

static int read_limited(const struct work *work, int fd, size_t max, struct buf *ret, struct fail *fail)
{
    CLEANUP(free) char *who = mem_printf("registry %s", work->ref.host);
    ssize_t n;

    for (;;) {
        if (work_wait_readable(fd, work, who, fail) < 0)
            return -1;
        n = read(fd, buf_reserve(ret, 16384), 16384);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(&fail->err, errno, "read from skopeo");
        if (n == 0)
            return 0;
        ret->len += (size_t)n;
        if (ret->len > max)
            return fail_set(fail, IMAGE_FAIL_LIMIT, "registry %s: the manifest is larger than %zu bytes",
                            work->ref.host, max);
    }
}

int skopeo_manifest(const struct work *work, const char *reference, struct buf *ret,
                    char digest[IMAGE_DIGEST_MAX], struct fail *fail)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(fd_close) int errors = memfd_create("skopeo-errors", MFD_CLOEXEC);
    CLEANUP(fd_close) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP(buf_done) struct buf words = {0};
    CLEANUP(fd_close) int in = -1;
    CLEANUP(fd_close) int out = -1;
    const char **args = build_args(work, &arena, "inspect");
    int ends[2], status = 0, result;
    pid_t pid;

    push_arg(args, "--raw");
    push_arg(args, arena_printf(&arena, "docker://%s", reference));
    if (errors < 0 || null < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(&fail->err, errno, "make a pipe");
    in = ends[0];
    out = ends[1];
    if (spawn(work, args, null, out, errors, &pid, fail) < 0)
        return -1;
    fd_close(take_fd(&out));
    result = read_limited(work, in, IMAGE_MANIFEST_MAX, ret, fail);
    if (result < 0) {
        work_end(pid);
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        read_errors(errors, &words);
        return fail_words(work, buf_view(&words), fail);
    }
    sum_of(buf_view(ret), digest);
    return 0;
}

/* ---- the proxy ---- */

void skopeo_proxy_free(struct skopeo_proxy *proxy)
{
    if (!proxy)
        return;
    work_end(proxy->pid);
    fd_close(proxy->sock);
    fd_close(proxy->errors);
    free(proxy);
}

static int skopeo_proxy_died(struct skopeo_proxy *proxy, struct fail *fail)
{
    CLEANUP(buf_done) struct buf words = {0};

    read_errors(proxy->errors, &words);
    return fail_words(proxy->work, buf_view(&words), fail);
}

static int send_request(struct skopeo_proxy *proxy, struct str text, struct fail *fail)
{
    if (send(proxy->sock, text.s, text.len, MSG_NOSIGNAL) < 0)
        return errno == EPIPE || errno == ECONNRESET ? skopeo_proxy_died(proxy, fail)
                                                     : err_errno(&fail->err, errno, "write to skopeo");
    return 0;
}

static int take_descriptor(struct msghdr *msg)
{
    int fd = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
            c->cmsg_len >= CMSG_LEN(sizeof(int))) {
            fd_close(fd);
            memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        }
    return fd;
}

struct skopeo_reply {
    int64_t value; /* when it is a number */
    int64_t pipe_id;
    int fd; /* -1: none; the caller's */
};

static int decode_reply(struct skopeo_proxy *proxy, struct str text, struct skopeo_reply *ret,
                        struct fail *fail)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;

    if (json_parse(text, &arena, &doc, NULL, &fail->err) < 0)
        return fail_set(fail, IMAGE_FAIL_OTHER, "skopeo answers what we do not understand");
    if (!json_bool(json_get(doc, "success")))
        return fail_words(proxy->work, json_str(json_get(doc, "error")), fail);
    ret->value = json_int(json_get(doc, "value"), 0);
    ret->pipe_id = json_int(json_get(doc, "pipeid"), 0);
    return 0;
}

static int read_reply(struct skopeo_proxy *proxy, struct skopeo_reply *ret, struct fail *fail)
{
    CLEANUP(free) char *who = mem_printf("registry %s", proxy->work->ref.host);
    CLEANUP(free) char *text = mem_alloc(REPLY_MAX);
    CLEANUP(fd_close) int fd = -1;
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {text, REPLY_MAX};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.space,
        .msg_controllen = sizeof(control.space),
    };
    ssize_t n;

    if (work_wait_readable(proxy->sock, proxy->work, who, fail) < 0)
        return -1;
    n = recvmsg(proxy->sock, &msg, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return skopeo_proxy_died(proxy, fail);
    fd = take_descriptor(&msg);
    *ret = (struct skopeo_reply){.fd = -1};
    if (decode_reply(proxy, (struct str){text, (size_t)n}, ret, fail) < 0)
        return -1;
    ret->fd = take_fd(&fd);
    return 0;
}

static int call(struct skopeo_proxy *proxy, struct str request, struct skopeo_reply *ret, struct fail *fail)
{
    return send_request(proxy, request, fail) < 0 ? -1 : read_reply(proxy, ret, fail);
}

static int skopeo_proxy_start(struct skopeo_proxy *proxy, struct fail *fail)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(fd_close) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP(fd_close) int theirs = -1;
    int ends[2];

    proxy->errors = memfd_create("skopeo-errors", MFD_CLOEXEC);
    if (proxy->errors < 0 || null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(&fail->err, errno, "make a socket");
    proxy->sock = ends[0];
    theirs = ends[1];
    return spawn(proxy->work, build_args(proxy->work, &arena, "experimental-image-proxy"), theirs, null,
                 proxy->errors, &proxy->pid, fail);
}

int skopeo_proxy_open(const struct work *work, const char *reference, struct skopeo_proxy **ret,
                      struct fail *fail)
{
    CLEANUP(skopeo_proxy_free) struct skopeo_proxy *proxy = NEW(struct skopeo_proxy);
    CLEANUP(buf_done) struct buf open_image = {0};
    struct skopeo_reply reply;

    *proxy = (struct skopeo_proxy){.work = work, .sock = -1, .errors = -1};
    if (skopeo_proxy_start(proxy, fail) < 0)
        return -1;
    if (call(proxy, STR("{\"method\":\"Initialize\",\"args\":[]}"), &reply, fail) < 0)
        return -1;
    buf_printf(&open_image, "{\"method\":\"OpenImage\",\"args\":[\"docker://%s\"]}", reference);
    if (call(proxy, buf_view(&open_image), &reply, fail) < 0)
        return -1;
    proxy->image = reply.value;
    *ret = TAKE_PTR(proxy);
    return 0;
}

/* How far a blob was at some moment. */
struct pace {
    int64_t since, size;
};

/* Bytes that drip keep no place of a pull for ever. */
static int check_pace(const struct skopeo_proxy *proxy, struct pace *pace, int64_t size, struct fail *fail)
{
    int64_t now = clock_monotonic(), sec = proxy->work->stall_sec;

    if (now - pace->since < sec * NSEC_PER_SEC)
        return 0;
    if (size - pace->size < sec * SLOW_BYTES)
        return fail_set(fail, IMAGE_FAIL_STALLED, "registry %s has sent only %lld bytes in %lld s",
                        proxy->work->ref.host, (long long)(size - pace->size), (long long)sec);
    *pace = (struct pace){.since = now, .size = size};
    return 0;
}

static int drain(struct skopeo_proxy *proxy, int fd, const struct image_blob *blob,
                 int (*take)(void *arg, const char *data, size_t len, struct fail *fail), void *arg,
                 char digest[IMAGE_DIGEST_MAX], int64_t *size, struct fail *fail)
{
    CLEANUP(free) char *who = mem_printf("registry %s", proxy->work->ref.host);
    CLEANUP(free) char *block = mem_alloc(READ_STEP);
    CLEANUP(sum_free) struct sum *sum = sum_new();
    struct pace pace = {.since = clock_monotonic()};
    ssize_t n;

    *size = 0;
    for (;;) {
        if (work_wait_readable(fd, proxy->work, who, fail) < 0 || check_pace(proxy, &pace, *size, fail) < 0)
            return -1;
        n = read(fd, block, READ_STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(&fail->err, errno, "read from skopeo");
        if (n == 0)
            break;
        *size += n;
        if (*size > blob->size) /* not to be filled up by a registry that never ends */
            return fail_set(fail, IMAGE_FAIL_DIGEST, "registry %s sends more than the %lld bytes of %s",
                            proxy->work->ref.host, (long long)blob->size, blob->digest);
        sum_add(sum, block, (size_t)n);
        if (take(arg, block, (size_t)n, fail) < 0)
            return -1;
    }
    sum_end(sum, digest);
    return 0;
}

int skopeo_proxy_blob(struct skopeo_proxy *proxy, const struct image_blob *blob,
                      int (*take)(void *arg, const char *data, size_t len, struct fail *fail), void *arg,
                      struct fail *fail)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(fd_close) int fd = -1;
    char digest[IMAGE_DIGEST_MAX];
    struct skopeo_reply reply;
    int64_t size;

    buf_printf(&text, "{\"method\":\"GetBlob\",\"args\":[%lld,\"%s\",%lld]}", (long long)proxy->image,
               blob->digest, (long long)blob->size);
    if (call(proxy, buf_view(&text), &reply, fail) < 0)
        return -1;
    fd = reply.fd;
    if (fd < 0)
        return fail_set(fail, IMAGE_FAIL_OTHER, "skopeo sends no data for %s", blob->digest);
    buf_clear(&text);
    buf_printf(&text, "{\"method\":\"FinishPipe\",\"args\":[%lld]}", (long long)reply.pipe_id);
    if (send_request(proxy, buf_view(&text), fail) < 0 ||
        drain(proxy, fd, blob, take, arg, digest, &size, fail) < 0)
        return -1;
    if (size == blob->size && !streq(digest, blob->digest))
        return fail_set(fail, IMAGE_FAIL_DIGEST, "registry %s sends bytes for %s that have the digest %s",
                        proxy->work->ref.host, blob->digest, digest);
    if (read_reply(proxy, &reply, fail) < 0)
        return -1;
    fd_close(reply.fd);
    if (size != blob->size)
        return fail_set(fail, IMAGE_FAIL_DIGEST, "registry %s sends %lld of the %lld bytes of %s",
                        proxy->work->ref.host, (long long)size, (long long)blob->size, blob->digest);
    return 0;
}
