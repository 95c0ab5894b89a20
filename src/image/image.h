/* image - the images containers run on: pulled, checked, unpacked once per layer, mounted, thrown away.
 *
 * All state lies below one folder (docs/images.md has the layout). Everything slow, from talking to a
 * registry to unpacking a layer, happens in a process of its own (berth-image, which runs skopeo for what
 * goes over the network), so the loop never waits. What is there is complete: layers and records appear by
 * rename, whenever this process or the machine dies. One process at a time may hold a store.
 *
 * A reference is what users write ("python", "lab:5000/me/net:v2@sha256:…"). It is read as Docker reads it.
 * The name "host" is no image: containers see this machine's own root, copy on write. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IMAGE_HOST         "host"
#define IMAGE_REF_MAX      768         /* bytes of a reference, normalised */
#define IMAGE_REPO_MAX     255         /* of its repository path with the host */
#define IMAGE_DIGEST_MAX   72          /* "sha256:" and 64 hex digits, with the NUL */
#define IMAGE_LAYERS_MAX   160         /* Docker stops at 125 */
#define IMAGE_AUTH_MAX     (256 << 10) /* bytes of one docker config.json */
#define IMAGE_MOUNT_ID_MAX 128
#define IMAGE_KEEP_LABEL   "berth.dev/keep" /* "true": garbage collection leaves the image alone */

struct loop;
struct images;
struct image_pull;

/* ---- references ---- */

/* tag or digest may be "", not both: without either the tag is "latest". */
struct image_ref {
    char host[256]; /* "docker.io", "lab:5000", "localhost", "[::1]:5000" */
    char path[256]; /* "library/python" */
    char tag[129];
    char digest[IMAGE_DIGEST_MAX];
};

/* ERR_INVALID: a sentence that says what is wrong. */
int image_ref_parse(struct str text, struct image_ref *ret, struct err *err);
/* "docker.io/library/python:3.11"; with a digest the tag is left out, as it decides nothing any more. */
void image_ref_format(const struct image_ref *ref, char text[IMAGE_REF_MAX]);
/* "lab:5000/me/net", without tag and digest. */
void image_ref_repo(const struct image_ref *ref, char text[IMAGE_REF_MAX]);
/* As Kubernetes chooses when a pod does not say: Always for :latest, else IfNotPresent. */
enum image_policy { IMAGE_IF_NOT_PRESENT, IMAGE_ALWAYS, IMAGE_NEVER };
enum image_policy image_policy_default(const struct image_ref *ref);
bool image_policy_parse(struct str text, enum image_policy *ret); /* "Always" "IfNotPresent" "Never" */

/* ---- an image that is here ---- */

struct image_pair {
    const char *key, *value;
};

/* What its maker wants. Lists end with NULL and are NULL when empty; strings are NULL when not given. */
struct image_config {
    const char *const *env; /* "NAME=value" */
    const char *const *entrypoint, *const *cmd;
    const char *user; /* for image_user */
    const char *workdir;
    const char *stop_signal;    /* "SIGTERM", "15" */
    const char *const *ports;   /* "8080/tcp" */
    const char *const *volumes; /* paths */
    const struct image_pair *labels;
    size_t labels_len;
};

struct image_layer {
    char digest[IMAGE_DIGEST_MAX];
    int64_t size;     /* as transferred */
    int64_t unpacked; /* bytes of its files */
};

/* Read-only. Shared: hold it with image_hold while it is used across turns of the loop. A removed image can
 * still be read, but not mounted. */
struct image {
    const char *id;       /* digest of the manifest for this machine: "sha256:…" */
    const char *digest;   /* what it was first pulled by: digest of the index where there was one, else id */
    const char *platform; /* "linux/amd64" */
    int64_t created, pulled; /* nanoseconds since 1970; created 0: not known */
    int64_t size;            /* of its layers, as transferred */
    int64_t unpacked;
    const struct image_layer *layers; /* lowest first */
    size_t layers_len;
    struct image_config config;
};

const struct image *image_hold(const struct image *image);
void image_drop(const struct image *image); /* NULL is fine */
DEFINE_CLEANUP(const struct image *, image_drop);

/* ---- the store ---- */

struct images_registry {
    const char *host;    /* as in a reference: "lab:5000" */
    bool insecure;       /* plain HTTP or any certificate will do */
    const char *ca_file; /* NULL: the machine's; else a PEM file */
    const char *mirror;  /* NULL: none; asked first: "lab:5000", "lab:5000/hub". Anonymous */
    bool mirror_insecure;
};

/* Zero is a good default everywhere. Copied. */
struct images_config {
    const char *skopeo;  /* NULL: from PATH */
    const char *helper;  /* NULL: berth-image beside this program, in ../libexec/berth, or from PATH */
    const char *run_dir; /* absolute, on tmpfs best: credentials of pulls, mounts; NULL: below the store */
    const struct images_registry *registries;
    size_t registries_len;
    int pulls_max;         /* at once from one registry, more wait; 0: 3 */
    int stall_sec;         /* a pull without progress for so long (under 1 kB/s) fails; 0: 60 */
    int64_t reserve_bytes; /* disk space that pulls leave free; 0: disk_keep() of the disk, < 0: none */
    int64_t unpacked_max;  /* bytes of one unpacked layer; 0: 256 GiB */
    int64_t files_max;     /* entries and folders of one layer; 0: 4 million */
    int gc_days;           /* images unused for longer go; 0: 30, < 0: never for age */
    int gc_high_percent;   /* disk fuller than this: least recently used images go … */
    int gc_low_percent;    /* … until it would be below this; 0: 85 and 75; high < 0: never */
    int gc_interval_sec;   /* how often to collect by itself; 0: only when images_gc is called */
};

/* Makes the folder (mode 0700) when missing, removes what earlier processes left unfinished, drops records
 * whose layers are gone. ERR_CONFLICT: another process holds it. ERR_UNSUPPORTED: written by a newer Berth.
 */
int images_open(const char *dir, struct loop *loop, const struct images_config *config, struct images **ret,
                struct err *err);
/* NULL is fine. Pulls under way are cancelled without a callback; mounts stay. */
void images_free(struct images *images);
DEFINE_CLEANUP(struct images *, images_free);

/* The image a reference names here, or NULL. Borrowed until a call that changes the store. A reference with a
 * digest finds any image of that digest pulled from the same repository. Bad references find nothing. */
const struct image *images_find(const struct images *images, const char *reference);
/* "lab:5000/me/net@sha256:…" for a reference that is here, as Kubernetes shows in imageID, into
 * text[IMAGE_REF_MAX]; "" when it is not here. */
void images_pinned(const struct images *images, const char *reference, char text[IMAGE_REF_MAX]);

struct images_entry {
    const char *name; /* normalised reference; NULL: an image whose name went to another one */
    const struct image *image;
    int64_t used; /* last mounted, unmounted or pulled */
    bool in_use;  /* mounted */
    bool keep;    /* by label */
};
/* One entry a name, sorted by name. *ret is one block for free(); what it points at is borrowed until the
 * next turn. */
size_t images_list(const struct images *images, struct images_entry **ret);

/* Takes a name away; the image goes with its last name. ERR_NOT_FOUND. ERR_CONFLICT: a container is mounted
 * on it. */
int images_remove(struct images *images, const char *reference, struct err *err);

struct images_gc {
    size_t images, layers; /* removed */
    int64_t bytes;         /* that this frees */
};
/* Collects now: images unused for too long, then, on a disk too full, the least recently used. Never what is
 * mounted, kept, held by a pull or pulled within the last two minutes. */
void images_gc(struct images *images, struct images_gc *ret); /* ret may be NULL */

/* Credentials of this machine, for pulls that bring none that fit. Kept with mode 0600. registry is a host
 * ("lab:5000", "docker.io"); password NULL forgets. */
int images_login(struct images *images, const char *registry, const char *user, const char *password,
                 struct err *err);

/* Credentials of one person, for that person's pods and builds; kept in a file of mode 0600 of their own.
 * who is the name by which the API knows them. password NULL forgets. */
int images_login_of(struct images *images, const char *who, const char *registry, const char *user,
                    const char *password, struct err *err);
/* All of them as a docker config.json, for image_pull_spec's auths; "" when there are none. To be wiped. */
void images_auths_of(const struct images *images, const char *who, struct buf *ret);

/* ---- names of what was built or imported here ----
 *
 * What no registry vouches for must not take the place of what others pull by the same name. So it is kept
 * under names of hosts that are no registries: IMAGE_HOST_ALL for what admins put there, for everybody, and
 * IMAGE_HOST_OWN/WHO for what a person did, for that person's pods. */
#define IMAGE_HOST_ALL "localhost"
#define IMAGE_HOST_OWN "own.localhost"

/* The name that `reference` ("trainer", "lab:5000/me/net:v2") gets when who builds it; who NULL: an admin. */
int image_local_name(const char *who, const char *reference, char text[IMAGE_REF_MAX], struct err *err);
/* Whether who may run and see what has that name: false for what is another person's own. who NULL: an admin.
 */
bool image_local_allowed(const char *who, const char *reference);
/* Whether a pod of who's means something local by that reference: their own, or else an admin's. */
bool images_find_local(const struct images *images, const char *who, const char *reference,
                       char text[IMAGE_REF_MAX]);

/* ---- pulling ---- */

/* Why there is no image; image_fail_reason gives Kubernetes' word for the container's state. */
enum image_fail {
    IMAGE_FAIL_NONE,
    IMAGE_FAIL_NAME,         /* no valid reference: InvalidImageName */
    IMAGE_FAIL_NEVER,        /* not here and policy Never: ErrImageNeverPull */
    IMAGE_FAIL_NOT_FOUND,    /* the registry has no such image */
    IMAGE_FAIL_UNAUTHORIZED, /* credentials missing or wrong */
    IMAGE_FAIL_UNREACHABLE,  /* network, DNS, TLS, or the registry is out of order: worth another try */
    IMAGE_FAIL_STALLED,      /* no progress for stall_sec */
    IMAGE_FAIL_DIGEST,       /* bytes are not those that were promised */
    IMAGE_FAIL_NO_SPACE,
    IMAGE_FAIL_PLATFORM, /* none for this machine's architecture */
    IMAGE_FAIL_INVALID,  /* no image that we can run: manifest, configuration or layer */
    IMAGE_FAIL_LIMIT,    /* larger than a named limit */
    IMAGE_FAIL_OTHER,    /* skopeo missing, disk errors, … */
};
const char *image_fail_name(enum image_fail fail);   /* "not found", "stalled" */
const char *image_fail_reason(enum image_fail fail); /* "ErrImagePull", "ErrImageNeverPull", … */

struct image_progress {
    const char *layer; /* digest */
    enum image_step {
        IMAGE_STEP_WAITING,     /* another pull is at it */
        IMAGE_STEP_DOWNLOADING, /* done and total in bytes as transferred */
        IMAGE_STEP_UNPACKING,   /* the same, of bytes unpacked from */
        IMAGE_STEP_DONE,
        IMAGE_STEP_PRESENT, /* was here already */
    } step;
    int64_t done, total;
    size_t number, count; /* 1-based place of the layer, and how many there are */
};
/* "sha256:0123456789ab: downloading 12.3 MB of 45.6 MB", as `berth` shows it. */
void image_progress_format(const struct image_progress *progress, char text[128]);

struct image_pull_result {
    const struct image *image; /* NULL: failed. Borrowed; hold it to keep it */
    bool fetched;              /* false: it was here */
    enum image_fail fail;
    const char *sentence; /* of a failure: "registry lab:5000 says …" */
    int64_t took_ns;
};

/* Called from the loop, never from inside a call to this module. done comes once, the handle is gone then. */
struct image_pull_events {
    void (*progress)(void *arg, const struct image_progress *progress); /* may be NULL */
    void (*done)(void *arg, const struct image_pull_result *result);
};

struct image_pull_spec {
    const char *image; /* reference */
    enum image_policy policy;
    /* Texts of docker config.json (or the older .dockercfg), from imagePullSecrets, in the order to try;
     * those that have nothing for this registry are passed over, broken ones are skipped. */
    const char *const *auths;
    size_t auths_len;
};

/* Always answers by done, also for bad names. Pulls of the same image with the same credentials share one
 * fetch. */
struct image_pull *images_pull(struct images *images, const struct image_pull_spec *spec,
                               const struct image_pull_events *events, void *arg);
/* Takes a local archive under a name: a docker-archive, an oci-archive, the folder of an OCI layout, or a tar
 * (plain, gzip, zstd, xz, bzip2) of a root file system. path is opened by the helper as root: the caller
 * answers for who may read it. */
struct image_pull *images_import(struct images *images, const char *path, const char *name,
                                 const struct image_pull_events *events, void *arg);
/* The same, read with the rights of a person: for paths that users give. */
struct images_reader {
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    size_t groups_len;
};
struct image_pull *images_import_as(struct images *images, const char *path, const char *name,
                                    const struct images_reader *reader,
                                    const struct image_pull_events *events, void *arg);
/* No callback comes any more. The last one that waits for a fetch ends it. */
void image_pull_cancel(struct image_pull *pull);

/* ---- root file systems ---- */

struct image_mount_spec {
    const struct image *image; /* NULL: the host's root */
    const char *id;            /* of the container: letters, digits, '.', '_', '-' */
    const char *dir;           /* absolute; the container's folder: upper and work are made in it */
    bool readonly;             /* no upper layer at all */
    const char *owner;         /* whose container it is: spare roots are used again for the same only */
};

/* *ret is where, for free(). Takes about a millisecond. Layers of a mounted image
 * stay. ERR_EXISTS: that id is mounted. ERR_NOT_FOUND: the image was removed. ERR_UNSUPPORTED: the kernel
 * refuses overlay mounts here. */
int image_mount(struct images *images, const struct image_mount_spec *spec, char **ret, struct err *err);
/* Not mounted is fine. discard: what was written goes, too (in the background); the folder can then be given
 * to another mount. It is the caller's to remove. A mount that is busy goes when its last user does. */
int image_unmount(struct images *images, const char *id, bool discard, struct err *err);
/* A container has ended and no process has its root open. Where nothing was written, the root stays mounted
 * for the next container of that image and owner, with the folder it has: image_mount may give one with
 * another folder than the one it was given, as image_mount_dir tells. False: it is to be unmounted. */
bool image_spare(struct images *images, const char *id);
bool image_mounted(const struct images *images, const char *id);
/* Makes again what somebody removed of the run folder, and says whether that was anything. Cheap. */
bool images_mend(struct images *images);
const char *image_mount_dir(const struct images *images, const char *id); /* as given; NULL: not mounted */
/* Takes a file or folder out of sight at once and deletes it in the background: freeing gigabytes takes a
 * disk seconds. */
void images_discard(struct images *images, const char *path);
int64_t images_reserve(const struct images *images); /* bytes that pulls and imports leave free */
/* Unmounts what an earlier process mounted and keep does not want; call it once at start. */
void images_sweep(struct images *images, bool (*keep)(void *arg, const char *id), void *arg);

/* What a view of the host's root needs besides the mount. Strings belong to the struct. */
struct image_host {
    struct image_host_mount {
        const char *path;
        bool readonly;
    } * mounts; /* other file systems mounted on the host (/usr, /home …), to be bound in, parents first */
    size_t mounts_len;
    char **masked; /* paths to hide: /root, /etc/shadow, private keys, Berth's data; only those that exist */
    size_t masked_len;
    char **memory; /* to be fresh tmpfs: /tmp, /var/tmp, /run */
    size_t memory_len;
    struct image_config config; /* PATH, LANG, a shell */
};
/* hide: further paths of the daemon, NULL or ended by NULL. */
int image_host_new(const struct images *images, const char *const *hide, struct image_host **ret,
                   struct err *err);
void image_host_free(struct image_host *host); /* NULL is fine */
DEFINE_CLEANUP(struct image_host *, image_host_free);

/* ---- users ---- */

#define IMAGE_GROUPS_MAX 64

struct image_user {
    uid_t uid;
    gid_t gid;
    gid_t groups[IMAGE_GROUPS_MAX]; /* further ones of the image's /etc/group; none when a group was named */
    size_t groups_len;
    char name[64];   /* "" when /etc/passwd has no such uid */
    char home[1024]; /* "/" when it does not say */
    char shell[256]; /* "" when it does not say */
};
/* Who "name|uid[:group|gid]" is in the root file system at rootfs ("" or NULL: uid 0). Symbolic links cannot
 * lead out of it. ERR_NOT_FOUND: no such name. ERR_INVALID: no user at all ("a:b:c", numbers too large). */
int image_user(const char *rootfs, const char *text, struct image_user *ret, struct err *err);
