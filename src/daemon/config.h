/* config - how berthd is to run: built-in defaults, then the config file, then flags; later ones win.
 *
 * Every setting is one row of a table in config.c: its flag, its key in the file, its check, its help.
 * The file is YAML: --config FILE, else the first that is there of /etc/berth/berthd.yaml (root, and no
 * --data given) and DATA/berthd.yaml. Unknown flags and keys are errors that name the nearest known one. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/vec.h"
#include "upkeep/upkeep.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define CONFIG_HTTP_DEFAULT  "127.0.0.1:5336"
#define CONFIG_HTTPS_DEFAULT "127.0.0.1:5443"
#define CONFIG_SYSTEM_FILE   "/etc/berth/berthd.yaml"
#define CONFIG_GPU_MIB       16384 /* memory of a declared card when none is given */
#define CONFIG_GPUS_MAX      1024
#define CONFIG_BACKUP_HOURS  24
#define CONFIG_BACKUP_KEEP   7
#define CONFIG_LIST_MAX      1000      /* labels, names, admins */
#define CONFIG_FILE_MAX      (1 << 20) /* bytes */

enum config_action { CONFIG_RUN, CONFIG_HELP, CONFIG_VERSION, CONFIG_CHECK, CONFIG_RESTORE, CONFIG_PRINT };
enum config_anonymous {
    ANONYMOUS_NONE,     /* who is not known gets nothing but health checks */
    ANONYMOUS_QUEUE,    /* may also read the queue */
    ANONYMOUS_LOOPBACK, /* may read the queue when calling from this machine */
};

enum config_preemption { /* as sched's */
                         CONFIG_PREEMPTION_AUTO,
                         CONFIG_PREEMPTION_ASK,
                         CONFIG_PREEMPTION_OFF,
};

enum config_agent {
    AGENT_AUTO, /* on where this machine lets us, else off with a reason */
    AGENT_OFF,
    AGENT_ON, /* the start fails where it cannot be */
};

enum config_network { /* as podnet's */
                      CONFIG_NETWORK_AUTO,
                      CONFIG_NETWORK_BRIDGE,
                      CONFIG_NETWORK_SLIRP,
                      CONFIG_NETWORK_HOST,
};

enum config_audit {
    CONFIG_AUDIT_CHANGES, /* what changes something, enters a pod or is refused */
    CONFIG_AUDIT_OFF,
    CONFIG_AUDIT_ALL, /* what reads as well */
};

struct config_label {
    char *key, *value;
};

struct config_registry {
    char *host, *ca_file, *mirror; /* the last two may be NULL */
    bool insecure, mirror_insecure;
};

/* Owns everything in it; config_done releases. */
struct daemon_config {
    enum config_action action; /* with HELP and VERSION nothing else is filled */
    bool accept_loss;          /* flag only: go on where less is there than was promised */
    char *file;                /* the config file that was read; NULL: none */
    char *data_dir;            /* absolute, without a trailing slash */
    char *http, *https;        /* "127.0.0.1:5336"; NULL: off */
    char *socket;              /* absolute path */
    VEC(int64_t) gpus;         /* declared cards: memory of each in MiB */
    VEC(struct config_label) node_labels;
    char *node_name;
    enum config_agent agent;              /* whether pods are run here */
    char *oci_runtime;                    /* "crun", "runc" or a path; NULL: crun, else runc */
    uint32_t project_first, project_last; /* of project quotas; 0: the usual ones */
    enum config_network network;          /* of pods */
    char *backup_dir;                     /* NULL: DATA/backups */
    int64_t backup_hours;                 /* between backups; 0: none are made */
    enum log_level log_level;
    int backup_keep;            /* so many are kept */
    char *restore;              /* flag only: a backup to put back, instead of running; NULL: none */
    VEC(char *) extra_names;    /* for the server certificate */
    VEC(char *) admins;         /* user names */
    VEC(char *) callback_allow; /* networks, see notify/policy.h */
    char *callback_ca;          /* PEM file; NULL: the system's authorities */
    char *notify_sendmail;      /* NULL: the usual one */
    char *notify_from;          /* NULL: berth@HOST */
    char *notify_domain;        /* NULL: none */
    uint32_t notify_kinds;      /* notify/deliver.h; 0: the default */
    bool notify_commands;
    bool http_insecure; /* plain HTTP may be offered to other machines */
    bool notify_no_mail;
    bool metrics_users; /* /metrics has users' names */
    bool displace_pods;
    bool user_quota_set; /* user_quota was set, also to nothing */
    bool slow_cgroups;   /* changes of cgroups are not favoured on this machine */
    bool project_off;    /* no project quotas */
    enum config_anonymous anonymous;
    char *path_prefix; /* "/berth"; NULL: none */
    char *policy;      /* of the queue; NULL: the default */
    enum config_preemption preemption;
    int64_t min_run_sec; /* jobs are left alone so long after their start; -1: the default */
    int64_t start_wait_sec, stuck_wait_sec, claim_notice_sec; /* 0: the defaults */
    int64_t stop_wait_sec;  /* how long at least a training job may take to its epoch's end; 0: the default */
    double half_life_hours; /* of usage; 0: the default */
    struct upkeep_policy upkeep;          /* what is kept, and for how long */
    int64_t idle_warn_sec, idle_stop_sec; /* of cards that somebody has; 0: never */
    int64_t event_age_sec;                /* 0: events stay until there are too many */
    VEC(struct config_registry) registries;
    char *push_to;          /* NULL: nowhere */
    VEC(char *) user_quota; /* "pods=4": of new users' namespaces */
    int user_tokens;        /* of one user; 0: the default */
    int space_mib;          /* of the objects of one namespace; 0: the default */
    enum config_audit audit;
    char *audit_log;            /* NULL: DATA/audit.log */
    int audit_mib, audit_files; /* 0: the defaults */
    int image_days;             /* 0: the default, -1: never for age */
    int image_stall_sec;        /* 0: the default */
    int image_disk_percent;     /* 0: the default, -1: never for space */
};

/* What the surroundings say; tests give their own. All borrowed. */
struct config_env {
    uid_t uid;
    const char *home;          /* NULL: unknown */
    const char *xdg_data_home; /* NULL: HOME/.local/share */
    const char *host_name;
    const char *system_file; /* CONFIG_SYSTEM_FILE */
};
struct config_env config_env_real(void);

/* ERR_INVALID: a flag or key is unknown or its value wrong. ERR_NOT_FOUND: no such --config file.
 * Changes getopt's globals. */
int config_load(const struct config_env *env, int argc, char **argv, struct daemon_config *ret,
                struct err *err);
void config_done(struct daemon_config *config);
static inline void config_done_cleanup_(struct daemon_config *config)
{
    config_done(config);
}

void config_usage(FILE *out); /* the text of --help */
void config_print(FILE *out); /* a config file with every key, commented out */
