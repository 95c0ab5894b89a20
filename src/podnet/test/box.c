/* box - see box.h. */
#include "podnet/test/box.h"

#include "base/mem.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>

char run_dir[] = "/tmp/berth-podnet-XXXXXX";
int home;
struct loop *loop;

struct podnet *open_net(const struct podnet_config *more)
{
    struct podnet_config config = more ? *more : (struct podnet_config){0};
    struct podnet *net = NULL;
    struct err err = {0};

    config.run_dir = run_dir;
    if (podnet_open(loop, &config, &net, &err) < 0)
        fail_msg("%s", err.msg);
    return net;
}

void destroy_net(struct podnet *net)
{
    struct err err = {0};

    if (podnet_destroy(net, &err) < 0)
        fail_msg("%s", err.msg);
    podnet_free(net);
}

static void take_err(struct result *r, const struct err *err)
{
    r->called = true;
    r->code = err ? err->code : ERR_NONE;
    (void)snprintf(r->msg, sizeof(r->msg), "%s", err ? err->msg : "");
}

void on_added(void *arg, const struct podnet_pod *pod, const struct err *err)
{
    struct result *r = arg;

    take_err(r, err);
    if (pod) {
        r->ip = pod->ip;
        (void)snprintf(r->netns, sizeof(r->netns), "%s", pod->netns ? pod->netns : "");
    }
}

void on_removed(void *arg, const struct err *err)
{
    take_err(arg, err);
}

void on_dialed(void *arg, int fd, const struct err *err)
{
    take_err(arg, err);
    ((struct result *)arg)->fd = fd;
}

void wait_called(const struct result *r)
{
    while (!r->called)
        assert_int_equal(loop_turn(loop, 20000, NULL), 0);
}

struct result add(struct podnet *net, const char *id)
{
    struct result r = {0};

    podnet_add(net, id, on_added, &r);
    assert_false(r.called);
    wait_called(&r);
    return r;
}

struct result add_ok(struct podnet *net, const char *id)
{
    struct result r = add(net, id);

    if (r.code)
        fail_msg("%s", r.msg);
    return r;
}

void remove_ok(struct podnet *net, const char *id)
{
    struct result r = {0};

    podnet_remove(net, id, on_removed, &r);
    wait_called(&r);
    if (r.code)
        fail_msg("%s", r.msg);
}

bool wait_fd(int fd, short events)
{
    for (int i = 0; i < 1000; i++) {
        struct pollfd p = {fd, events, 0};

        if (poll(&p, 1, 0) > 0)
            return true;
        assert_int_equal(loop_turn(loop, 10, NULL), 0);
    }
    return false;
}

int socket_in(const char *netns, int type, int proto)
{
    int fd;

    if (netns) {
        CLEANUP(fd_close) int ns = open(netns, O_RDONLY | O_CLOEXEC);

        assert_true(ns >= 0);
        assert_int_equal(setns(ns, CLONE_NEWNET), 0);
    }
    fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, proto);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    assert_true(fd >= 0);
    return fd;
}

int listen_in(const char *netns, uint32_t ip, uint16_t port)
{
    int fd = socket_in(netns, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

int try_connect(const char *netns, uint32_t ip, uint16_t port, int *ret)
{
    int fd = socket_in(netns, SOCK_STREAM, 0), sys = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
    socklen_t len = sizeof(sys);

    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
        sys = errno;
    else if (!wait_fd(fd, POLLOUT))
        sys = ETIMEDOUT;
    else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len);
    if (sys)
        close(fd);
    else
        *ret = fd;
    return sys;
}

/* A word goes over, and the same comes back in capitals. Returns the client's address as the server saw it.
 */
uint32_t talk(int client, int server)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    char text[16] = "";
    int peer;

    assert_true(wait_fd(server, POLLIN));
    peer = accept4(server, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(peer >= 0);
    assert_int_equal(write(client, "hello", 5), 5);
    assert_true(wait_fd(peer, POLLIN));
    assert_int_equal(read(peer, text, sizeof(text)), 5);
    assert_int_equal(write(peer, "HELLO", 5), 5);
    assert_true(wait_fd(client, POLLIN));
    assert_int_equal(read(client, text, sizeof(text)), 5);
    assert_memory_equal(text, "HELLO", 5);
    close(peer);
    close(client);
    return ntohl(from.sin_addr.s_addr);
}

uint32_t reach(const char *netns, uint32_t ip, uint16_t port, int server)
{
    int fd = -1, sys = try_connect(netns, ip, port, &fd);

    if (sys)
        fail_msg("connect from %s to %08x: %s", netns ? netns : "host", ip, strerror(sys));
    return talk(fd, server);
}

struct podnet_port tcp(uint16_t host_port, uint16_t pod_port)
{
    return (struct podnet_port){.proto = PODNET_TCP, .host_port = host_port, .pod_port = pod_port};
}

void publish_ok(struct podnet *net, const char *id, struct podnet_port port)
{
    struct err err = {0};

    if (podnet_publish(net, id, &port, &err) < 0)
        fail_msg("%s", err.msg);
}

size_t count_pods(const struct podnet *net)
{
    size_t at = 0, n = 0;

    while (podnet_next(net, &at))
        n++;
    return n;
}

size_t count_links(void)
{
    struct links links = {0};
    int rt = nl_open(NETLINK_ROUTE, NULL);
    size_t n;

    assert_int_equal(link_list(rt, &links, NULL), 0);
    n = links.len;
    vec_done(&links);
    close(rt);
    return n;
}

size_t count_files(const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", run_dir, name);
    DIR *dir = opendir(path);
    size_t n = 0;

    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static int lo_up(void)
{
    int rt = nl_open(NETLINK_ROUTE, NULL), status = rt < 0 ? -1 : link_lo_up(rt, NULL);

    fd_close(rt);
    return status;
}

static void remove_run_dir(void)
{
    static const char *const folders[] = {"netns", "slirp", "outside", "second"};

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", run_dir, folders[i]);

        rmdir(path);
    }
    if (rmdir(run_dir) < 0)
        print_message("left: %s\n", run_dir);
}

int box_run(const struct CMUnitTest *tests, size_t len)
{
    int failed;

    if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        lo_up() < 0) {
        printf("SKIPPED: a network namespace of its own: %s\n", strerror(errno));
        return 77;
    }
    home = netns_here(NULL);
    loop = loop_new();
    if (home < 0 || !loop || !mkdtemp(run_dir))
        return 1;
    failed = _cmocka_run_group_tests("box", tests, len, NULL, NULL);
    loop_free(loop);
    close(home);
    remove_run_dir();
    return failed;
}
