#include "daemon/library.h"

#include "api/api.h"
#include "api/train/look.h"
#include "api/train/train.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "daemon/agent.h"
#include "daemon/library_files.h"
#include "net/http.h"
#include "podnet/podnet.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE          "library"
#define CONNS_MAX           4096
#define CONNS_EACH          256 /* of one pod: a few for each of its processes */
#define FILE_BYTES_MAX      (1 << 20)
#define NSS_BUF             16384
#define PORT_FILE_BYTES_MAX 16

struct library {
    struct http_server *server;
    char *url;
};

/* ---- files ---- */

/* Only what differs is written: a start should not wait for the disk. */
static int write_file(const char *folder, const struct library_file *file, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", folder, file->path);
    CLEANUP(buf_done) struct buf there = {0};
    struct str data = {file->data, file->len};
    char *slash = strrchr(path, '/');

    if (file_read(path, FILE_BYTES_MAX, &there, NULL) == 0 && str_eq(buf_view(&there), data))
        return 0;
    *slash = '\0';
    if (dir_make(path, 0755, err) < 0)
        return -1;
    *slash = '/';
    return file_write_atomic(path, data, 0644, err);
}

char *library_folder(const char *data_dir)
{
    CLEANUP(free) char *run_dir = agent_run_dir(data_dir);

    return mem_printf("%s/python", geteuid() == 0 ? run_dir : data_dir);
}

static int write_files(const char *data_dir, struct err *err)
{
    CLEANUP(free) char *folder = library_folder(data_dir), *above = agent_run_dir(data_dir);

    if (geteuid() == 0 && dir_make(above, 0711, err) < 0)
        return -1;
    for (size_t i = 0; i < library_file_count; i++)
        if (write_file(folder, &library_files[i], err) < 0)
            return -1;
    return 0;
}

int library_mend(const char *data_dir, struct err *err)
{
    CLEANUP(free) char *folder = library_folder(data_dir);

    for (size_t i = 0; i < library_file_count; i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", folder, library_files[i].path);

        if (access(path, F_OK) < 0)
            return write_files(data_dir, err) < 0 ? -1 : 1;
    }
    return 0;
}

/* ---- the address ---- */

/* The port of the last time, before any other: scripts that run keep the address they were started with. */
static bool listen_again(struct library *library, const char *host, const char *path)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *addr = NULL;
    struct err err = {0};
    uint64_t port;

    if (file_read(path, PORT_FILE_BYTES_MAX, &text, NULL) < 0 || !str_to_uint(buf_view(&text), &port) ||
        port == 0 || port > UINT16_MAX)
        return false;
    addr = mem_printf("%s:%u", host, (unsigned)port);
    return http_listen_tcp(library->server, addr, NULL, &err) == 0;
}

static int listen_at(struct library *library, const char *host, const char *data_dir, struct err *err)
{
    CLEANUP(free) char *wanted = mem_printf("%s:%d", host, LIBRARY_PORT), *any = mem_printf("%s:0", host);
    CLEANUP(free) char *path = mem_printf("%s/library.port", data_dir);
    struct err first = {0};

    if (listen_again(library, host, path) || http_listen_tcp(library->server, wanted, NULL, &first) == 0)
        return 0;
    if (http_listen_tcp(library->server, any, NULL, err) < 0)
        return -1;
    log_info("%s: %s; training scripts are answered at %s", wanted, first.msg,
             http_server_addr(library->server, 0));
    return file_write_atomic(path, str_from(strrchr(http_server_addr(library->server, 0), ':') + 1), 0644,
                             err);
}

/* Where to listen, and what pods call it. With slirp a pod's gateway leads to this machine's loopback. */
static void find_hosts(const struct podnet *net, char here[INET_ADDRSTRLEN], char pods[INET_ADDRSTRLEN])
{
    enum podnet_mode mode = net ? podnet_mode(net) : PODNET_HOST;
    struct in_addr gateway = net ? podnet_gateway(net) : (struct in_addr){0};

    snprintf(here, INET_ADDRSTRLEN, "127.0.0.1");
    snprintf(pods, INET_ADDRSTRLEN, "127.0.0.1");
    if (mode == PODNET_HOST || !gateway.s_addr)
        return;
    inet_ntop(AF_INET, &gateway, pods, INET_ADDRSTRLEN);
    if (mode == PODNET_BRIDGE)
        snprintf(here, INET_ADDRSTRLEN, "%s", pods);
}

int library_open(struct loop *loop, struct api *api, const struct podnet *net, const char *data_dir,
                 struct library **ret, struct err *err)
{
    CLEANUP(library_free) struct library *library = NEW(struct library);
    struct http_config config = {.server_name = "berth/" BERTH_VERSION,
                                 .nosniff = true,
                                 .conns_max = CONNS_MAX,
                                 .conns_each = CONNS_EACH,
                                 .body_max = TRAIN_BODY_MAX,
                                 .admit = api_admit,
                                 .refused = api_refused};
    char here[INET_ADDRSTRLEN], pods[INET_ADDRSTRLEN];

    library->server = http_server_new(loop, &config, api_handle_library, api);
    find_hosts(net, here, pods);
    if (write_files(data_dir, err) < 0 || listen_at(library, here, data_dir, err) < 0)
        return -1;
    library->url = mem_printf("http://%s%s", pods, strrchr(http_server_addr(library->server, 0), ':'));
    *ret = TAKE_PTR(library);
    return 0;
}

void library_stop(struct library *library, int timeout_ms, void (*done)(void *arg), void *arg)
{
    http_server_stop(library->server, timeout_ms, done, arg);
}

unsigned library_conns(const struct library *library)
{
    return http_server_conns(library->server);
}

void library_free(struct library *library)
{
    if (!library)
        return;
    http_server_free(library->server);
    free(library->url);
    free(library);
}

const char *library_url(const struct library *library)
{
    return library->url;
}

/* ---- homes ---- */

struct home_look {
    char user[LOGIN_NAME_MAX], home[PATH_MAX];
};

static void find_home(void *work)
{
    struct home_look *look = work;
    struct passwd entry, *found = NULL;
    char text[NSS_BUF];

    if (getpwnam_r(look->user, &entry, text, sizeof(text), &found) == 0 && found)
        snprintf(look->home, sizeof(look->home), "%s", found->pw_dir);
}

struct folder_look {
    bool there;
    char path[PATH_MAX];
};

static void find_folder(void *work)
{
    struct folder_look *look = work;
    struct stat st;

    look->there = stat(look->path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* NULL: no such user, or it cannot be said now. */
static const char *home_of(struct looks *looks, struct arena *arena, const char *user, int64_t deadline)
{
    struct home_look *look = NEW(struct home_look);
    const char *home = NULL;

    snprintf(look->user, sizeof(look->user), "%s", user);
    if (!train_look(looks, user, deadline, find_home, free, look))
        return NULL;
    if (look->home[0])
        home = arena_strdup(arena, look->home);
    free(look);
    return home;
}

const char *library_home(struct looks *looks, struct arena *arena, const char *user, const char *folder)
{
    struct folder_look *look;
    int64_t deadline;
    const char *home;
    bool there;

    if (!user || !*user || streq(user, "system:admin"))
        user = "root";
    deadline = train_looks_deadline(looks, user);
    home = strlen(user) < LOGIN_NAME_MAX ? home_of(looks, arena, user, deadline) : NULL;
    if (!home)
        return NULL;
    look = NEW(struct folder_look);
    snprintf(look->path, sizeof(look->path), "%s/%s", home, folder);
    if (!train_look(looks, user, deadline, find_folder, free, look))
        return home; /* its server does not answer: the mount waits for it, and says so */
    there = look->there;
    free(look);
    return there ? home : NULL;
}
