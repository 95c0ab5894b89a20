/* load - creates objects on an HTTP address as fast as it answers, and says how fast that was.
 *
 *     load HOST PORT TOKEN PATH COUNT CONNECTIONS DEPTH
 *
 * COUNT objects over CONNECTIONS keep-alive connections, each with up to DEPTH requests under way
 * (1: one at a time, more: pipelined). Prints one line of JSON: rate per second, p50 and p99 in ms. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CONNS_MAX 64
#define DEPTH_MAX 128
#define BUF_SIZE  (1 << 20)

struct conn {
    int fd;
    double sent[DEPTH_MAX]; /* when each request under way left; a ring */
    int first, under_way;
    char *in;
    size_t in_len;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(const char *host, int port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    inet_pton(AF_INET, host, &addr.sin_addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static const char *pod =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s%d\",\"labels\":{\"app\":\"bench\"}},"
    "\"spec\":{\"schedulerName\":\"none\",\"restartPolicy\":\"Never\",\"terminationGracePeriodSeconds\":0,"
    "\"automountServiceAccountToken\":false,\"containers\":[{\"name\":\"c\",\"image\":\"localhost/"
    "busybox:1\","
    "\"imagePullPolicy\":\"Never\",\"command\":[\"sleep\",\"3600\"],\"env\":[{\"name\":\"RANK\",\"value\":"
    "\"0\"}],\"resources\":{\"requests\":{\"cpu\":\"10m\",\"memory\":\"16Mi\"}}}]}}";

static size_t build(char *out, size_t size, const char *host, const char *token, const char *path,
                    const char *tag, int n)
{
    char body[2048];
    int len = snprintf(body, sizeof(body), pod, tag, n);

    return (size_t)snprintf(out, size,
                            "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: "
                            "application/json\r\nContent-Length: %d\r\n\r\n%s",
                            path, host, token, len, body);
}

static void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);

        if (n < 0)
            die("write");
        data += n;
        len -= (size_t)n;
    }
}

/* Takes whole answers off the buffer; returns how many. */
static int take_answers(struct conn *c, double *latency, int *done, int *bad)
{
    int taken = 0;
    char *end, *length;

    while ((end = memmem(c->in, c->in_len, "\r\n\r\n", 4))) {
        size_t head = (size_t)(end - c->in) + 4, body = 0;

        *end = '\0';
        length = strcasestr(c->in, "content-length:");
        if (length)
            body = strtoul(length + 15, NULL, 10);
        *end = '\r';
        if (c->in_len < head + body)
            break;
        if (strncmp(c->in + 9, "201", 3) != 0)
            ++*bad;
        memmove(c->in, c->in + head + body, c->in_len - head - body);
        c->in_len -= head + body;
        latency[(*done)++] = now() - c->sent[c->first];
        c->first = (c->first + 1) % DEPTH_MAX;
        c->under_way--;
        taken++;
    }
    return taken;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static struct conn conns[CONNS_MAX];
    struct pollfd polls[CONNS_MAX];
    int count, n_conns, depth, sent = 0, done = 0, bad = 0;
    double *latency, start, seconds;
    char tag[32], request[4096];

    if (argc != 8) {
        fprintf(stderr, "usage: load HOST PORT TOKEN PATH COUNT CONNECTIONS DEPTH\n");
        return 2;
    }
    count = atoi(argv[5]);
    n_conns = atoi(argv[6]);
    depth = atoi(argv[7]);
    if (count < 1 || n_conns < 1 || n_conns > CONNS_MAX || depth < 1 || depth > DEPTH_MAX) {
        fprintf(stderr, "load: 1..%d connections, depth 1..%d\n", CONNS_MAX, DEPTH_MAX);
        return 2;
    }
    snprintf(tag, sizeof(tag), "b%x-", (unsigned)(now() * 1000) & 0xffffff);
    latency = calloc((size_t)count, sizeof(*latency));
    for (int i = 0; i < n_conns; i++) {
        conns[i].fd = connect_to(argv[1], atoi(argv[2]));
        conns[i].in = malloc(BUF_SIZE);
        polls[i] = (struct pollfd){.fd = conns[i].fd, .events = POLLIN};
    }
    start = now();
    while (done < count) {
        for (int i = 0; i < n_conns; i++)
            while (conns[i].under_way < depth && sent < count) {
                size_t len = build(request, sizeof(request), argv[1], argv[3], argv[4], tag, sent++);

                conns[i].sent[(conns[i].first + conns[i].under_way++) % DEPTH_MAX] = now();
                send_all(conns[i].fd, request, len);
            }
        if (poll(polls, (nfds_t)n_conns, 30000) <= 0)
            die("no answer within 30 s");
        for (int i = 0; i < n_conns; i++) {
            struct conn *c = &conns[i];
            ssize_t n;

            if (!polls[i].revents)
                continue;
            n = read(c->fd, c->in + c->in_len, BUF_SIZE - 1 - c->in_len);
            if (n <= 0)
                die("the server closed the connection");
            c->in_len += (size_t)n;
            c->in[c->in_len] = '\0';
            take_answers(c, latency, &done, &bad);
        }
    }
    seconds = now() - start;
    qsort(latency, (size_t)count, sizeof(*latency), compare);
    printf("{\"per_sec\": %.0f, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"bad\": %d}\n", count / seconds,
           latency[count / 2] * 1e3, latency[count * 99 / 100] * 1e3, bad);
    return bad ? 1 : 0;
}
