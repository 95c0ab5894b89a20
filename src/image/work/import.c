/* import.c - images that lie on this machine: a folder in the OCI layout, an archive of one, what `docker
 * save` writes, or a plain root file system as a tar. An archive is unpacked into the job's folder first (it
 * has only plain files that matter), then read like the folder. Files in it are opened below it only. */
#include "base/file.h"
#include "base/mem.h"
#include "image/sum.h"
#include "image/work/unpack.h"
#include "image/work/work.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define COPY_STEP ((size_t)256 << 10)

enum archive_kind { ARCHIVE_ROOTFS, ARCHIVE_LAYOUT, ARCHIVE_DOCKER };

struct source {
    struct work *work;
    int root;     /* the folder that blobs are in */
    char **paths; /* of the layers, below root */
    struct image_manifest manifest;
    struct json *config;
    char id[IMAGE_DIGEST_MAX], digest[IMAGE_DIGEST_MAX];
};

/* ---- files of an archive ---- */

static int open_below(int root, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    struct stat st;

    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

static int read_below(int root, const char *path, size_t max, struct buf *ret, struct fail *fail)
{
    CLEANUP(fd_close) int fd = open_below(root, path);
    ssize_t n;

    if (fd < 0)
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive has no readable '%.200s'", path);
    while ((n = read(fd, buf_reserve(ret, 65536), 65536)) > 0) {
        ret->len += (size_t)n;
        if (ret->len > max)
            return fail_set(fail, IMAGE_FAIL_LIMIT, "the archive's '%.200s' is larger than %zu bytes", path,
                            max);
    }
    return n < 0 ? err_errno(&fail->err, errno, "read '%s'", path) : 0;
}

static char *blob_path(struct arena *arena, const char *digest)
{
    return arena_printf(arena, "blobs/sha256/%s", sum_hex(digest));
}

static int read_blob(struct source *src, const struct image_blob *blob, size_t max, struct buf *ret,
                     struct fail *fail)
{
    char digest[IMAGE_DIGEST_MAX];

    if (read_below(src->root, blob_path(&src->work->arena, blob->digest), max, ret, fail) < 0)
        return -1;
    sum_of(buf_view(ret), digest);
    if (!streq(digest, blob->digest))
        return fail_set(fail, IMAGE_FAIL_DIGEST, "the archive's %s has the digest %s", blob->digest, digest);
    return 0;
}

/* ---- OCI layout ---- */

/* index.json may name manifests at once or indexes of them. Of several images the one whose tag or name was
 * asked for is meant. */
static int choose_entry(const struct work *work, struct json *index, struct fail *fail)
{
    struct json *list = json_get(index, "manifests");
    size_t named = 0;

    for (size_t i = 0; i < json_len(list); i++) {
        const char *name = json_string_or(
            json_get(json_get(json_item(list, i), "annotations"), "org.opencontainers.image.ref.name"), "");

        if (streq(name, work->name) || streq(name, work->ref.tag)) {
            json_item(list, 0)[0] = *json_item(list, i);
            list->len = 1;
            return 0;
        }
        named += name[0] != '\0';
    }
    if (json_len(list) > 1 && named == json_len(list))
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive has %zu images, none by the name of '%s'",
                        json_len(list), work->name);
    return 0;
}

static int load_layout(struct source *src, struct fail *fail)
{
    struct work *work = src->work;
    CLEANUP(buf_done) struct buf text = {0};
    struct image_manifest step = {.is_index = true};
    struct json *index;
    bool first = true;

    if (read_below(src->root, "index.json", IMAGE_MANIFEST_MAX, &text, fail) < 0 ||
        json_parse(buf_view(&text), &work->arena, &index, NULL, &fail->err) < 0 ||
        choose_entry(work, index, fail) < 0)
        return -1;
    buf_clear(&text);
    json_write(&text, index);
    for (int depth = 0; depth < 3 && step.is_index; depth++) {
        if (image_manifest_parse(buf_view(&text), work->platform, &step, &fail->err) < 0)
            return -1;
        if (!step.is_index)
            break;
        if (first)
            memcpy(src->digest, step.chosen.digest, IMAGE_DIGEST_MAX);
        first = false;
        memcpy(src->id, step.chosen.digest, IMAGE_DIGEST_MAX);
        buf_clear(&text);
        if (read_blob(src, &step.chosen, IMAGE_MANIFEST_MAX, &text, fail) < 0)
            return -1;
    }
    if (step.is_index)
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive's index leads to too many others");
    src->manifest = step;
    src->paths = arena_zalloc(&work->arena, (step.layers_len + 1) * sizeof(*src->paths));
    for (size_t i = 0; i < step.layers_len; i++)
        src->paths[i] = blob_path(&work->arena, step.layers[i].digest);
    buf_clear(&text);
    if (read_blob(src, &step.config, IMAGE_CONFIG_MAX, &text, fail) < 0)
        return -1;
    return image_config_parse(buf_view(&text), work->platform, step.layers_len, &work->arena, &src->config,
                              &fail->err);
}

/* ---- docker save, root file systems ---- */

/* There is no manifest of theirs to keep, so the image is known by one that we write, always the same. */
static void make_manifest(struct source *src, struct str config)
{
    struct arena *arena = &src->work->arena;
    struct json *doc = json_new_object(arena), *part, *list;
    CLEANUP(buf_done) struct buf text = {0};
    struct image_manifest *manifest = &src->manifest;

    sum_of(config, manifest->config.digest);
    manifest->config.size = (int64_t)config.len;
    json_set_int(arena, doc, "schemaVersion", 2);
    json_set_string(arena, doc, "mediaType", "application/vnd.oci.image.manifest.v1+json");
    part = json_set_object(arena, doc, "config");
    json_set_string(arena, part, "mediaType", "application/vnd.oci.image.config.v1+json");
    json_set_string(arena, part, "digest", manifest->config.digest);
    json_set_int(arena, part, "size", manifest->config.size);
    list = json_set_array(arena, doc, "layers");
    for (size_t i = 0; i < manifest->layers_len; i++) {
        part = json_push_object(arena, list);
        json_set_string(arena, part, "mediaType", "application/vnd.oci.image.layer.v1.tar");
        json_set_string(arena, part, "digest", manifest->layers[i].digest);
        json_set_int(arena, part, "size", manifest->layers[i].size);
    }
    json_write(&text, doc);
    sum_of(buf_view(&text), src->id);
    memcpy(src->digest, src->id, IMAGE_DIGEST_MAX);
}

static int sum_layer(struct source *src, size_t i, struct fail *fail)
{
    CLEANUP(fd_close) int fd = open_below(src->root, src->paths[i]);
    struct image_blob *blob = &src->manifest.layers[i];

    if (fd < 0)
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive has no readable '%.200s'", src->paths[i]);
    return sum_of_fd(fd, blob->digest, &blob->size, &fail->err);
}

static int load_docker(struct source *src, struct fail *fail)
{
    struct work *work = src->work;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf config = {0};
    struct json *doc, *image, *layers;
    const char *config_path;

    if (read_below(src->root, "manifest.json", IMAGE_MANIFEST_MAX, &text, fail) < 0 ||
        json_parse(buf_view(&text), &work->arena, &doc, NULL, &fail->err) < 0)
        return -1;
    image = json_item(doc, 0);
    if (json_len(doc) > 1)
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive has %zu images; save one at a time",
                        json_len(doc));
    layers = json_get(image, "Layers");
    config_path = json_get_string(image, "Config");
    if (!config_path || !json_is(layers, JSON_ARRAY))
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive's manifest.json names no image");
    if (json_len(layers) > IMAGE_LAYERS_MAX)
        return fail_set(fail, IMAGE_FAIL_LIMIT, "the image has more than %d layers", IMAGE_LAYERS_MAX);
    src->paths = arena_zalloc(&work->arena, (json_len(layers) + 1) * sizeof(*src->paths));
    src->manifest.layers = mem_zalloc((json_len(layers) + 1) * sizeof(*src->manifest.layers));
    JSON_EACH(layers, it) {
        size_t i = src->manifest.layers_len++;

        src->paths[i] = arena_strdup(&work->arena, json_string_or(it, ""));
        if (sum_layer(src, i, fail) < 0)
            return -1;
    }
    if (read_below(src->root, config_path, IMAGE_CONFIG_MAX, &config, fail) < 0 ||
        image_config_parse(buf_view(&config), work->platform, src->manifest.layers_len, &work->arena,
                           &src->config, &fail->err) < 0)
        return -1;
    make_manifest(src, buf_view(&config));
    return 0;
}

static int load_rootfs(struct source *src, const char *name, struct fail *fail)
{
    struct work *work = src->work;
    CLEANUP(buf_done) struct buf config = {0};

    src->paths = arena_zalloc(&work->arena, 2 * sizeof(*src->paths));
    src->paths[0] = arena_strdup(&work->arena, name);
    src->manifest.layers = mem_zalloc(sizeof(*src->manifest.layers));
    src->manifest.layers_len = 1;
    if (sum_layer(src, 0, fail) < 0)
        return -1;
    buf_printf(
        &config,
        "{\"architecture\":\"%s\",\"os\":\"%s\",\"config\":{\"Env\":[\"PATH=/usr/local/sbin:/usr/local/bin:"
        "/usr/sbin:/usr/bin:/sbin:/bin\"],\"Cmd\":[\"/bin/sh\"]},\"rootfs\":{\"type\":\"layers\","
        "\"diff_ids\":[\"%s\"]}}",
        work->platform.arch, work->platform.os, src->manifest.layers[0].digest);
    if (image_config_parse(buf_view(&config), work->platform, 1, &work->arena, &src->config, &fail->err) < 0)
        return -1;
    make_manifest(src, buf_view(&config));
    return 0;
}

/* ---- which of them ---- */

static bool look(void *arg, const struct unpack_entry *entry)
{
    enum archive_kind *kind = arg;

    if (entry->kind == UNPACK_FILE && streq(entry->path, "oci-layout"))
        *kind = ARCHIVE_LAYOUT;
    else if (entry->kind == UNPACK_FILE && streq(entry->path, "manifest.json") && *kind == ARCHIVE_ROOTFS)
        *kind = ARCHIVE_DOCKER; /* newer `docker save` writes both; the layout has digests */
    return *kind != ARCHIVE_LAYOUT;
}

static int unpack_archive(struct source *src, int fd, struct fail *fail)
{
    const struct work *work = src->work;
    CLEANUP(free) char *path = mem_printf("%s/archive", work->job);
    struct unpack_options options = {
        .bytes_max = work->unpacked_max,
        .files_max = work->files_max,
        .reserve_bytes = work->reserve_bytes,
    };
    struct unpack_counts unused;

    if (mkdir(path, 0700) < 0)
        return err_errno(&fail->err, errno, "make '%s'", path);
    src->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (src->root < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_errno(&fail->err, errno, "open '%s'", path);
    return unpack_tar(fd, src->root, &options, &unused, fail);
}

static int load_archive(struct source *src, int fd, struct fail *fail)
{
    const char *path = src->work->path, *slash = strrchr(path, '/');
    enum archive_kind kind = ARCHIVE_ROOTFS;
    CLEANUP(free) char *folder = NULL;

    if (unpack_scan(fd, (struct str){NULL, 0}, look, &kind, fail) < 0)
        return -1;
    if (kind == ARCHIVE_ROOTFS) {
        folder = mem_strndup(path, slash ? (size_t)(slash - path) + 1 : 0);
        src->root = open(folder[0] ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return load_rootfs(src, slash ? slash + 1 : path, fail);
    }
    if (unpack_archive(src, fd, fail) < 0)
        return -1;
    return kind == ARCHIVE_LAYOUT ? load_layout(src, fail) : load_docker(src, fail);
}

/* In the child: the rights of the person, then the bytes to `out`. Ends with the errno of what failed. */
static void copy_with_rights(const struct work *work, int out, pid_t parent)
{
    gid_t groups[IMAGE_GROUPS_MAX];
    size_t len = 0;
    struct stat st;
    ssize_t n;
    int fd;

    JSON_EACH(json_get(work->as, "groups"), it)
        if (len < ARRAY_LEN(groups))
            groups[len++] = (gid_t)json_int(it, 65534);
    if (setgroups(len, groups) < 0 || setgid((gid_t)json_int(json_get(work->as, "gid"), 65534)) < 0 ||
        setuid((uid_t)json_int(json_get(work->as, "uid"), 65534)) < 0)
        _exit(errno);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of rights would clear it */
    if (getppid() != parent)
        _exit(ECANCELED);
    fd = open(work->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        _exit(errno);
    if (S_ISDIR(st.st_mode)) {
        if (fchdir(fd) < 0 || dup2(out, STDOUT_FILENO) < 0)
            _exit(errno);
        execl("/bin/tar", "tar", "-cf", "-", ".", (char *)NULL);
        _exit(errno);
    }
    if (!S_ISREG(st.st_mode))
        _exit(EINVAL);
    while ((n = sendfile(out, fd, NULL, 64 << 20)) > 0)
        ;
    _exit(n < 0 ? errno : 0);
}

/* What the child sends, into the copy. Returns 0 or an errno. */
static int receive_copy(int in, int out, int64_t room)
{
    CLEANUP(free) char *block = mem_alloc(COPY_STEP);
    ssize_t n;

    while ((n = read(in, block, COPY_STEP)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        if (n > room)
            return EFBIG;
        room -= n;
        for (ssize_t done = 0, put; done < n; done += put) {
            put = write(out, block + done, (size_t)(n - done));
            if (put < 0 && errno != EINTR)
                return errno;
            if (put < 0)
                put = 0;
        }
    }
    return 0;
}

static int copy_failed(const struct work *work, int sys, struct fail *fail)
{
    enum image_fail kind = sys == ENOENT                   ? IMAGE_FAIL_NOT_FOUND
                           : sys == EFBIG || sys == ENOSPC ? IMAGE_FAIL_NO_SPACE
                                                           : IMAGE_FAIL_OTHER;

    return fail_set(fail, kind, "read '%s' with your rights: %s", work->path, strerror(sys));
}

/* What a user names is read by a process that is that user; the copy is what is read from then on. That
 * process has a pipe and never the copy itself: its user can take descriptors out of it, and whoever can
 * still write to a layer after its digest was computed gives others what it does not name. */
static int take_copy(struct work *work, struct fail *fail)
{
    const char *copy = arena_printf(&work->arena, "%s/given", work->job);
    CLEANUP(fd_close) int out = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    CLEANUP(fd_close) int in = -1;
    struct statvfs disk;
    int64_t room = work->unpacked_max;
    int status = 0, sys, ends[2];
    pid_t parent = getpid(), pid;

    if (out < 0 || fstatvfs(out, &disk) < 0)
        return err_errno(&fail->err, errno, "make '%s'", copy);
    if ((int64_t)(disk.f_bavail * disk.f_frsize) - work->reserve_bytes < room)
        room = (int64_t)(disk.f_bavail * disk.f_frsize) - work->reserve_bytes;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_errno(&fail->err, errno, "make a pipe");
    in = ends[0];
    pid = fork();
    if (pid == 0) {
        close(out);
        copy_with_rights(work, ends[1], parent);
    }
    close(ends[1]);
    if (pid < 0)
        return err_errno(&fail->err, errno, "fork");
    sys = receive_copy(in, out, room);
    if (sys)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!sys && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        sys = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    if (sys)
        return copy_failed(work, sys, fail);
    work->path = copy;
    return 0;
}

static int load(struct source *src, struct fail *fail)
{
    const char *path = src->work->path;
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_set(fail, errno == ENOENT ? IMAGE_FAIL_NOT_FOUND : IMAGE_FAIL_OTHER, "open '%s': %s",
                        path, strerror(errno));
    if (S_ISDIR(st.st_mode)) {
        src->root = take_fd(&fd);
        return load_layout(src, fail);
    }
    if (!S_ISREG(st.st_mode))
        return fail_set(fail, IMAGE_FAIL_INVALID, "'%s' is neither a file nor a folder", path);
    return load_archive(src, fd, fail);
}

/* ---- into the store ---- */

static int import_layer(struct layers *layers, struct source *src, size_t i, struct fail *fail)
{
    const struct image_blob *blob = &src->manifest.layers[i];
    CLEANUP(fd_close) int fd = open_below(src->root, src->paths[i]);
    char digest[IMAGE_DIGEST_MAX];
    int64_t size;
    bool mine;

    if (layers_claim(layers, i, &mine, fail) < 0)
        return -1;
    if (!mine)
        return 0;
    if (fd < 0)
        return fail_set(fail, IMAGE_FAIL_INVALID, "the archive has no readable '%.200s'", src->paths[i]);
    if (sum_of_fd(fd, digest, &size, &fail->err) < 0)
        return -1;
    if (size != blob->size || !streq(digest, blob->digest))
        return fail_set(fail, IMAGE_FAIL_DIGEST, "the archive's %s has the digest %s", blob->digest, digest);
    return layers_unpack(layers, i, fd, NULL, fail);
}

static int import_layers(struct layers *layers, struct source *src, struct fail *fail)
{
    for (size_t i = 0; i < src->manifest.layers_len; i++) {
        /* The same layer twice: wait for the first, so that the second finds it. */
        for (size_t k = 0; k < i; k++)
            if (streq(src->manifest.layers[k].digest, src->manifest.layers[i].digest) &&
                layers_wait(layers, 0, fail) < 0)
                return -1;
        if (import_layer(layers, src, i, fail) < 0)
            return -1;
    }
    return layers_wait(layers, 0, fail);
}

static int import_source(struct source *src, struct fail *fail)
{
    struct layers layers = {.work = src->work, .manifest = &src->manifest};
    int result = layers_check_space(&layers, fail);

    if (result == 0)
        result = import_layers(&layers, src, fail);
    if (result == 0)
        result = work_record(src->work, src->id, src->digest, &src->manifest, src->config, fail);
    layers_done(&layers);
    return result;
}

int import_run(struct work *work, char **ret, struct fail *fail)
{
    struct source src = {.work = work, .root = -1};
    int result = work->as ? take_copy(work, fail) : 0;

    if (result == 0)
        result = load(&src, fail);

    if (result == 0)
        result = import_source(&src, fail);
    if (result == 0)
        *ret = mem_strdup(src.id);
    fd_close(src.root);
    image_manifest_done(&src.manifest);
    return result;
}
