/* box - a network and mount namespace of the test's own that stands for the host, and what the tests do in
 * it. No packet leaves it. */
#pragma once

#include "base/buf.h"
#include "base/test/test.h"
#include "loop/loop.h"
#include "podnet/podnet.h"

#include <arpa/inet.h>

extern char run_dir[];
extern int home; /* the namespace that stands for the host */
extern struct loop *loop;

/* Runs the tests in the box. Returns 77 and says why where that is not allowed. */
int box_run(const struct CMUnitTest *tests, size_t len);
#define BOX_RUN(tests) box_run(tests, ARRAY_LEN(tests))

struct result {
    bool called;
    struct in_addr ip;
    char netns[256];
    int fd;
    enum err_code code;
    char msg[ERR_MSG_MAX];
};

/* With run_dir set; more: the rest of the config, NULL for none. */
struct podnet *open_net(const struct podnet_config *more);
/* And frees it. */
void destroy_net(struct podnet *net);
/* Callbacks that fill a struct result. */
void on_added(void *arg, const struct podnet_pod *pod, const struct err *err);
void on_removed(void *arg, const struct err *err);
void on_dialed(void *arg, int fd, const struct err *err);
void wait_called(const struct result *r);
/* Each waits for its callback; the _ok ones fail the test when it brings an error. */
struct result add(struct podnet *net, const char *id);
struct result add_ok(struct podnet *net, const char *id);
void remove_ok(struct podnet *net, const char *id);
/* False after ten seconds. The loop turns meanwhile: the proxy is in it. */
bool wait_fd(int fd, short events);
/* Nonblocking sockets; netns NULL: the host's. */
int socket_in(const char *netns, int type, int proto);
int listen_in(const char *netns, uint32_t ip, uint16_t port);
/* 0 or the errno with which it failed. */
int try_connect(const char *netns, uint32_t ip, uint16_t port, int *ret);
/* A word goes over and one comes back. Returns the client's address as the server saw it. */
uint32_t talk(int client, int server);
uint32_t reach(const char *netns, uint32_t ip, uint16_t port, int server);
struct podnet_port tcp(uint16_t host_port, uint16_t pod_port);
void publish_ok(struct podnet *net, const char *id, struct podnet_port port);
/* Of the host. */
size_t count_pods(const struct podnet *net);
size_t count_links(void);
/* In a folder of run_dir. */
size_t count_files(const char *name);
