/* A container's image: what the pod's person built here, an archive read with that person's rights, or a
 * registry's, with the passwords of the pod, of its service account and of that person. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"
#include "image/sum.h"
#include "objects/names.h"

#include <errno.h>
#include <fcntl.h>

#define AUTHS_MAX    16
#define PROGRESS_SEC 15 /* between events about a layer that takes long */
#define SHOWN_SEC    2  /* between changes of the status */

static struct ctr *ctr_of(const struct local_run *run)
{
    return &run->pod->facts.ctrs[run->at];
}

static const char *image_of(const struct local_run *run)
{
    return json_string_or(json_get(ctr_of(run)->spec, "image"), "");
}

/* By what name the API knows the one whose pod this is. */
static const char *owner_of(const struct local_run *run)
{
    const char *owner = work_owner(run->pod->doc);

    return owner ? owner : "";
}

/* ---- what becomes of it ---- */

static void failed(struct local_run *run, enum image_fail fail, const char *sentence)
{
    const char *reason = image_fail_reason(fail);
    CLEANUP(free) char *message = mem_strdup(sentence ? sentence : reason);

    ctr_stuck(ctr_of(run), reason, message, clock_now());
    if (streq(reason, "ErrImageNeverPull"))
        pod_event(run->pod, "Warning", reason,
                  "Container image \"%s\" is not present with pull policy of Never", image_of(run));
    else if (streq(reason, "InvalidImageName"))
        pod_event(run->pod, "Warning", "InspectFailed", "Failed to inspect image \"%s\": %s", image_of(run),
                  message);
    else
        pod_event(run->pod, "Warning", "Failed", "Failed to pull image \"%s\": %s", image_of(run), message);
    pod_event(run->pod, "Warning", "Failed", "Error: %s", reason);
    if (streq(reason, "ErrImagePull")) {
        pod_event(run->pod, "Normal", "BackOff", "Back-off pulling image \"%s\"", image_of(run));
        pod_event(run->pod, "Warning", "Failed", "Error: ImagePullBackOff");
    }
    pod_queue(run->pod);
}

static void pull_on_progress(void *arg, const struct image_progress *progress)
{
    struct local_run *run = arg;
    int64_t now = clock_monotonic();
    int percent = pull_share_add(&run->share, progress);
    char text[128];

    if (percent != ctr_of(run)->percent && now - run->pull_shown >= SHOWN_SEC * NSEC_PER_SEC) {
        ctr_of(run)->percent = percent;
        run->pull_shown = now;
        pod_queue(run->pod);
    }
    if (progress->step == IMAGE_STEP_WAITING || progress->step == IMAGE_STEP_PRESENT)
        return;
    if (progress->step != IMAGE_STEP_DONE && now - run->pull_said < PROGRESS_SEC * NSEC_PER_SEC)
        return;
    run->pull_said = now;
    image_progress_format(progress, text);
    pod_event(run->pod, "Normal", "Pulling", "layer %zu of %zu: %s", progress->number, progress->count, text);
}

static void pull_on_done(void *arg, const struct image_pull_result *result)
{
    struct local_run *run = arg;
    struct ctr *ctr = ctr_of(run);

    run->pull = NULL;
    ctr->fetching = false;
    if (!result->image) {
        failed(run, result->fail, result->sentence);
        return;
    }
    image_drop(run->image);
    run->image = image_hold(result->image);
    run->pulled = true;
    if (!*ctr->image_id)
        images_pinned(run->pod->engine->images, image_of(run), ctr->image_id);
    if (result->fetched)
        pod_event(run->pod, "Normal", "Pulled",
                  "Successfully pulled image \"%s\" in %.3gs. Image size: %lld bytes.", image_of(run),
                  (double)result->took_ns / (double)NSEC_PER_SEC, (long long)result->image->size);
    else
        pod_event(run->pod, "Normal", "Pulled", "Container image \"%s\" already present on machine",
                  image_of(run));
    if (run->pod->facts.deleting || *run->pod->facts.fail_reason) {
        ctr->state = CTR_NONE;
        pod_queue(run->pod);
        return;
    }
    run_begin(run);
}

static const struct image_pull_events events = {.progress = pull_on_progress, .done = pull_on_done};

/* ---- archives ---- */

/* The path of "oci:/path", "oci-archive:/path" and "docker-archive:/path"; NULL: it is none of them. */
static const char *archive_path(const char *image)
{
    static const char *const prefixes[] = {"oci:/", "oci-archive:/", "docker-archive:/"};

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (starts_with(image, prefixes[i]))
            return image + strlen(prefixes[i]) - 1;
    return NULL;
}

/* A name that stands for this very content of the path, so that it is read once. */
static int archive_name(const struct pod_user *user, const char *who, const char *path,
                        char name[IMAGE_REF_MAX], struct err *err)
{
    CLEANUP(fd_close) int fd = user_open(user, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, err);
    CLEANUP(free) char *text = NULL;
    char digest[IMAGE_DIGEST_MAX], reference[64];
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || (S_ISDIR(st.st_mode) && fstatat(fd, "index.json", &st, 0) < 0))
        return err_errno(err, errno, "read '%s' as an image", path);
    text = mem_printf("%s %llu %llu %lld %lld.%ld", path, (unsigned long long)st.st_dev,
                      (unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                      st.st_mtim.tv_nsec);
    sum_of(str_from(text), digest);
    snprintf(reference, sizeof(reference), "archive/%.32s:1", sum_hex(digest));
    return image_local_name(user->admin ? NULL : who, reference, name, err);
}

static void pull_archive(struct local_run *run, const char *path, struct image_pull_spec spec)
{
    struct images *images = run->pod->engine->images;
    const struct pod_user user = run->pod->user; /* known: the sandbox is there */
    struct images_reader reader;
    char name[IMAGE_REF_MAX];
    struct err err = {0};

    if (archive_name(&user, owner_of(run), path, name, &err) < 0) {
        failed(run, IMAGE_FAIL_OTHER, err.msg);
        return;
    }
    snprintf(ctr_of(run)->image_id, sizeof(ctr_of(run)->image_id), "%s", image_of(run));
    ctr_of(run)->state = CTR_PULLING;
    ctr_of(run)->fetching = spec.policy != IMAGE_NEVER && !images_find(images, name);
    if (!ctr_of(run)->fetching) {
        spec.image = name;
        spec.policy = IMAGE_NEVER;
        run->pull = images_pull(images, &spec, &events, run);
        return;
    }
    pod_event(run->pod, "Normal", "Pulling", "Reading image \"%s\"", image_of(run));
    reader = (struct images_reader){user.uid, user.gid, user.groups, user.groups_len};
    run->pull = images_import_as(images, path, name, user.admin ? NULL : &reader, &events, run);
}

/* ---- registries ---- */

/* Admins alone write service accounts, and a password goes to its registry only: any secret will do. */
static const struct json *account_secret(struct local_pod *pod, const char *name)
{
    const struct object *secret = store_get(pod->engine->store, KIND_SECRET, pod->ns, name);

    return secret ? object_json(secret, &pod->scratch) : NULL;
}

/* Those that a list of references to secrets names; account: the list is a service account's. */
static size_t read_secrets(struct local_run *run, const struct json *list, bool account, const char **auths,
                           size_t n)
{
    static const char *const keys[] = {".dockerconfigjson", ".dockercfg"};

    JSON_EACH(list, it) {
        const char *name = json_string_or(json_get(it, "name"), "");
        const struct json *secret =
            account ? account_secret(run->pod, name) : pod_find_object(run->pod, "secret", name);

        for (size_t i = 0; secret && i < ARRAY_LEN(keys) && n < AUTHS_MAX; i++) {
            struct str text = env_key(&run->pod->scratch, secret, true, keys[i]);

            if (text.s)
                auths[n++] = text.s;
        }
    }
    return n;
}

/* The pod's, then its service account's, then those of `berth login`. */
static size_t read_auths(struct local_run *run, const char *auths[AUTHS_MAX + 1], struct buf *login)
{
    struct local_pod *pod = run->pod;
    const struct object *account =
        store_get(pod->engine->store, KIND_SERVICE_ACCOUNT, pod->ns,
                  json_string_or(json_at(pod->doc, "spec.serviceAccountName"), "default"));
    size_t n = read_secrets(run, json_at(pod->doc, "spec.imagePullSecrets"), false, auths, 0);

    if (account)
        n = read_secrets(run, json_get(object_json(account, &pod->scratch), "imagePullSecrets"), true, auths,
                         n);
    images_auths_of(pod->engine->images, *owner_of(run) ? owner_of(run) : "system:admin", login);
    if (login->len)
        auths[n++] = login->data;
    return n;
}

static void pull_registry(struct local_run *run, struct image_pull_spec spec)
{
    struct images *images = run->pod->engine->images;
    const char *auths[AUTHS_MAX + 1];
    CLEANUP(buf_done) struct buf login = {0};
    struct image_ref ref;

    spec.auths = auths;
    spec.auths_len = read_auths(run, auths, &login);
    ctr_of(run)->fetching = image_ref_parse(str_from(spec.image), &ref, NULL) == 0 &&
                            spec.policy != IMAGE_NEVER &&
                            (spec.policy == IMAGE_ALWAYS || !images_find(images, spec.image));
    if (ctr_of(run)->fetching)
        pod_event(run->pod, "Normal", "Pulling", "Pulling image \"%s\"", image_of(run));
    ctr_of(run)->state = CTR_PULLING;
    run->pull = images_pull(images, &spec, &events, run);
    if (login.data)
        explicit_bzero(login.data, login.len);
    arena_reset(&run->pod->scratch);
}

void run_pull(struct local_run *run)
{
    struct ctr *ctr = ctr_of(run);
    struct image_pull_spec spec = {.image = image_of(run)};
    const char *path = archive_path(spec.image);
    char local[IMAGE_REF_MAX];
    struct image_ref ref;

    ctr->image_id[0] = '\0';
    ctr->fetching = false;
    ctr->percent = -1;
    run->pull_shown = 0;
    pull_share_reset(&run->share);
    if (streq(spec.image, IMAGE_HOST)) {
        image_drop(run->image);
        run->image = NULL;
        run->pulled = true;
        snprintf(ctr->image_id, sizeof(ctr->image_id), "%s", IMAGE_HOST);
        run_begin(run);
        return;
    }
    if (!image_policy_parse(json_str(json_get(ctr->spec, "imagePullPolicy")), &spec.policy))
        spec.policy = image_ref_parse(str_from(spec.image), &ref, NULL) == 0 ? image_policy_default(&ref)
                                                                             : IMAGE_IF_NOT_PRESENT;
    run->pull_said = clock_monotonic();
    if (path) {
        pull_archive(run, path, spec);
        return;
    }
    if (!image_local_allowed(run->pod->user.admin ? NULL : owner_of(run), spec.image)) {
        failed(run, IMAGE_FAIL_UNAUTHORIZED, "the image belongs to another user");
        return;
    }
    if (images_find_local(run->pod->engine->images, run->pod->user.admin ? NULL : owner_of(run), spec.image,
                          local)) {
        images_pinned(run->pod->engine->images, local, ctr->image_id);
        spec.image = local; /* no registry knows it: there is nothing to ask */
        spec.policy = IMAGE_NEVER;
    }
    pull_registry(run, spec);
}
