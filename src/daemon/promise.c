#include "daemon/promise.h"

#include "backup/backup.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/agent.h"
#include "store/store.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <unistd.h>

#define LOG_MODULE "berthd"
#include "base/log.h"

#define VALUES     "promise"
#define KEY_CA     "ca"
#define CA_MAX     (64 << 10)
#define CA_HEX_LEN 64
#define STORE_FILE "store" /* in the run folder: whose containers these are */
#define WAY_OUT    "; restore a backup with 'berth restore FILE', or start berthd with --accept-loss"

static int refuse(const struct daemon_config *config, const struct err *why, const char *way_out,
                  struct err *err)
{
    if (config->accept_loss) {
        log_warn("%s: accepted", why->msg);
        return 0;
    }
    return err_set(err, ERR_INVALID, "%s%s", why->msg, way_out);
}

static bool has_entries(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool found = false;

    while (dir && !found && (entry = readdir(dir)))
        found = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return found;
}

void promise_accept(const struct daemon_config *config)
{
    CLEANUP(free) char *path = mem_printf("%s/" BACKUP_KEEP_NAME, config->data_dir);

    if (config->accept_loss)
        file_write_atomic(path, (struct str){"", 0}, 0600, NULL);
}

int promise_check_folder(const struct daemon_config *config, struct err *err)
{
    static const char *const kept[] = {"pki", "volumes", "pods", "logs"};
    CLEANUP(free) char *db = mem_printf("%s/berth.db", config->data_dir);
    struct err why = {0};

    if (access(db, F_OK) == 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", config->data_dir, kept[i]);

        if (!has_entries(path))
            continue;
        err_set(&why, ERR_INVALID, "'%s' is missing, but '%s' shows that this folder was in use", db, path);
        return refuse(config, &why, WAY_OUT, err);
    }
    return 0;
}

int promise_check_running(const struct daemon_config *config, const struct store *store, struct err *err)
{
    CLEANUP(free) char *run_dir = agent_run_dir(config->data_dir);
    CLEANUP(free) char *path = mem_printf("%s/" STORE_FILE, run_dir);
    CLEANUP(free) char *containers = mem_printf("%s/containers", run_dir);
    CLEANUP(buf_done) struct buf id = {0};
    struct err why = {0};

    if (file_read(path, 256, &id, NULL) < 0 || str_is(buf_view(&id), store_id(store)) ||
        !has_entries(containers))
        return 0;
    err_set(&why, ERR_INVALID, "containers in '%s' belong to another database than '%s/berth.db'", containers,
            config->data_dir);
    return refuse(config, &why, WAY_OUT, err);
}

/* The authority's certificate as hex of its SHA-256; false: there is none. */
static bool authority_hex(const struct daemon_config *config, char ret[CA_HEX_LEN + 1])
{
    CLEANUP(free) char *path = mem_printf("%s/pki/ca.crt", config->data_dir);
    CLEANUP(buf_done) struct buf text = {0};
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (file_read(path, CA_MAX, &text, NULL) < 0 ||
        EVP_Digest(text.data, text.len, sum, &len, EVP_sha256(), NULL) != 1)
        return false;
    for (unsigned i = 0; i < len && 2 * i < CA_HEX_LEN; i++)
        snprintf(ret + (size_t)2 * i, 3, "%02x", sum[i]);
    return true;
}

int promise_check_authority(const struct daemon_config *config, const struct store *store, struct err *err)
{
    struct str known = store_value(store, VALUES, KEY_CA);
    char now[CA_HEX_LEN + 1] = "";
    bool there = authority_hex(config, now);
    struct err why = {0};

    if (!known.s || (there && str_is(known, now)))
        return 0;
    err_set(&why, ERR_INVALID,
            "the certificate authority in '%s/pki' is %s: the certificates and kubeconfigs of all users come "
            "from the "
            "one that is missing",
            config->data_dir, there ? "another one" : "gone");
    return refuse(config, &why,
                  "; restore the folder from a backup, or start berthd with --accept-loss to make a new one",
                  err);
}

void promise_keep_running(const struct daemon_config *config, const struct store *store)
{
    CLEANUP(free) char *run_dir = agent_run_dir(config->data_dir);
    CLEANUP(free) char *path = mem_printf("%s/" STORE_FILE, run_dir);

    if (access(run_dir, F_OK) == 0 && access(path, F_OK) < 0)
        file_write_atomic(path, str_from(store_id(store)), 0600, NULL);
}

void promise_keep(const struct daemon_config *config, struct store *store)
{
    CLEANUP(free) char *run_dir = agent_run_dir(config->data_dir);
    CLEANUP(free) char *path = mem_printf("%s/" STORE_FILE, run_dir);
    char now[CA_HEX_LEN + 1] = "";

    if (authority_hex(config, now) && !str_is(store_value(store, VALUES, KEY_CA), now))
        store_value_set(store, VALUES, KEY_CA, str_from(now));
    if (access(run_dir, F_OK) == 0)
        file_write_atomic(path, str_from(store_id(store)), 0600, NULL);
}
