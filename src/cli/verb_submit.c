/* berth submit: build, push, apply, follow. The Job in ./deployment.yml says what the project is called. An
 * image whose registry Berth may push to goes there; any other goes straight to the daemon. */
#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "cli/image_tools.h"
#include "cli/submit.h"

#include <errno.h>
#include <unistd.h>

#define LOOK_MSEC  100
#define DELETE_SEC 30 /* beyond the grace, until an earlier Job is gone */

struct submit {
    struct cli *cli;
    const struct args *args;
    const char *file, *ns, *user, *name, *image;
    const char *earlier; /* how far a Job of that name is; NULL: there is none */
    int64_t grace_sec;   /* that its pods have */
    struct json *docs;   /* array */
    struct json *job, *container;
    struct image_tools tools;
};

/* ---- the manifest ---- */

static int read_manifest(struct submit *s)
{
    static const char *const names[] = {"deployment.yml", "deployment.yaml"};
    CLEANUP(buf_done) struct buf text = {0};
    struct err err = {0};

    s->file = args_get(s->args, "filename");
    for (size_t i = 0; !s->file && i < ARRAY_LEN(names); i++)
        s->file = access(names[i], F_OK) == 0 ? names[i] : NULL;
    if (!s->file)
        return cli_fail(CLI_NOT_FOUND, "there is no deployment.yml here: berth init PROJECT makes one");
    if (file_read(s->file, MANIFEST_MAX, &text, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    if (yaml_parse(buf_view(&text), &s->cli->arena, &s->docs, NULL, &err) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", s->file, err.msg);
    JSON_EACH(s->docs, it)
        if (streq(json_get_string(it, "kind"), "Job") && !s->job)
            s->job = it;
    s->name = json_at_string(s->job, "metadata.name");
    s->container = json_at(s->job, "spec.template.spec.containers.0");
    s->image = json_get_string(s->container, "image");
    if (!s->name || !s->name[0] || !s->image)
        return cli_fail(CLI_FAILED, "%s: there is no Job with a name and an image in it", s->file);
    if (json_at_string(s->job, "metadata.namespace") && !args_has(s->args, "namespace"))
        s->ns = json_at_string(s->job, "metadata.namespace");
    return CLI_OK;
}

/* ---- the image ---- */

static bool has_login(const struct submit *s, const char *host)
{
    JSON_EACH(json_get(s->tools.doc, "items"), it)
        if (streq(json_get_string(it, "registry"), host))
            return true;
    return image_registry(&s->tools, host) && !streq(host, "docker.io");
}

/* "me/net" is somebody's at Docker Hub; "net" alone is nobody's. */
static bool says_where(const struct submit *s, const char *host)
{
    return !streq(host, "docker.io") || (strchr(s->image, '/') && has_login(s, host));
}

/* Not to be built: the machine itself, or a file. */
static bool is_no_name(const char *image)
{
    return streq(image, "host") || starts_with(image, "oci:") || starts_with(image, "oci-archive:") ||
           starts_with(image, "docker-archive:");
}

/* Where the image is to be pushed; NULL: to no registry. */
static const char *push_target(struct submit *s)
{
    const char *place = args_get(s->args, "registry"), *host = image_host_of(s->cli, s->image);

    if (!place && says_where(s, host))
        return has_login(s, host) ? s->image : NULL;
    if (!place)
        place = s->tools.push_to;
    return place ? arena_printf(&s->cli->arena, "%s/%s/%s:latest", place, s->user, s->name) : NULL;
}

static int make_image(struct submit *s)
{
    const char *file = args_get(s->args, "file"), *target;
    int code;

    if (is_no_name(s->image) || (!file && access("Dockerfile", F_OK) < 0)) {
        fprintf(stderr, "berth: %s, so '%s' is taken as it is\n",
                is_no_name(s->image) ? "nothing is to be built" : "no Dockerfile here", s->image);
        return CLI_OK;
    }
    code = image_tools_open(s->cli, &s->tools);
    if (code != CLI_OK)
        return code;
    target = push_target(s);
    printf("== build %s\n", target ? target : s->image);
    code = image_build(s->cli, &s->tools, s->args, ".", target ? target : s->image);
    if (code == CLI_OK && target) {
        printf("== push %s\n", target);
        code = image_push(s->cli, &s->tools, target, target);
        json_set_string(&s->cli->arena, s->container, "image", target);
        if (!json_get(s->container, "imagePullPolicy"))
            json_set_string(&s->cli->arena, s->container, "imagePullPolicy", "Always");
    } else if (code == CLI_OK) {
        printf("== hand %s to the daemon\n", s->image);
        code = image_hand_over(s->cli, &s->tools, s->image);
    }
    image_tools_done(&s->tools);
    return code;
}

/* ---- an earlier Job of that name ---- */

static const char *job_path(const struct submit *s)
{
    CLEANUP(buf_done) struct buf path = {0};

    buf_puts(&path, "/apis/batch/v1/namespaces/");
    buf_url_encode(&path, str_from(s->ns));
    buf_puts(&path, "/jobs/");
    buf_url_encode(&path, str_from(s->name));
    return arena_strndup(&s->cli->arena, path.data, path.len);
}

static int ask_job(struct submit *s, struct reply *ret)
{
    return cli_ask(s->cli, &(struct call){.method = "GET", .target = job_path(s)}, ret);
}

static bool agrees(const struct submit *s)
{
    char line[16] = "";

    if (!isatty(0) || !isatty(2))
        return false;
    fprintf(stderr, "Job '%s' is still running. End it and start anew? [y/N] ", s->name);
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* Asked before the build; the earlier Job goes only when there is something to take its place. */
static int look_at_earlier(struct submit *s)
{
    const struct json *how = NULL;
    struct reply reply;
    int code = ask_job(s, &reply);

    if (code != CLI_OK || reply.status == 404)
        return code;
    if (reply.status != 200)
        return cli_fail(reply_exit(&reply), "%s", reply_message(s->cli, &reply));
    if (!job_is_finished(reply.doc, &how) && !json_at(reply.doc, "metadata.deletionTimestamp") &&
        !args_has(s->args, "force") && !agrees(s))
        return cli_fail(CLI_CONFLICT, "job '%s' is still running: --force ends it and starts anew", s->name);
    s->earlier = how ? json_get_string(how, "type") : "running";
    s->grace_sec = json_int(json_at(reply.doc, "spec.template.spec.terminationGracePeriodSeconds"), 30);
    return CLI_OK;
}

static int remove_earlier(struct submit *s)
{
    struct reply reply;
    int code;

    if (!s->earlier)
        return CLI_OK;
    printf("== replace the earlier job (%s)\n", s->earlier);
    code = cli_ask(s->cli,
                   &(struct call){.method = "DELETE",
                                  .target = arena_printf(&s->cli->arena, "%s?propagationPolicy=Foreground",
                                                         job_path(s))},
                   &reply);
    if (code == CLI_OK && reply.status != 404 && reply_exit(&reply) != CLI_OK)
        return cli_fail(reply_exit(&reply), "%s", reply_message(s->cli, &reply));
    for (int64_t i = 0; code == CLI_OK && i < (DELETE_SEC + s->grace_sec) * 1000 / LOOK_MSEC; i++) {
        code = ask_job(s, &reply);
        if (code != CLI_OK || reply.status == 404)
            return code;
        usleep(LOOK_MSEC * 1000);
    }
    return code != CLI_OK ? code : cli_fail(CLI_CONFLICT, "job '%s' does not go away", s->name);
}

/* ---- apply ---- */

static int apply(struct submit *s)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf target = {0};
    struct reply reply;
    int code;

    JSON_EACH(s->docs, it) {
        buf_puts(&text, "---\n");
        json_write(&text, it);
        buf_putc(&text, '\n');
    }
    buf_puts(&target, "/v1/apply?namespace=");
    buf_url_encode(&target, str_from(s->ns));
    printf("== apply %s\n", s->file);
    code = cli_ask(s->cli,
                   &(struct call){.method = "POST",
                                  .target = target.data,
                                  .content_type = "application/yaml",
                                  .body = buf_view(&text)},
                   &reply);
    if (code != CLI_OK)
        return code;
    if (!json_get(reply.doc, "items"))
        return cli_fail(reply_exit(&reply) ? reply_exit(&reply) : CLI_FAILED, "%s: %s", s->file,
                        reply_message(s->cli, &reply));
    JSON_EACH(json_get(reply.doc, "items"), it) {
        const char *refused = json_at_string(it, "status.message");

        JSON_EACH(json_get(it, "warnings"), warning)
            cli_say(stderr, "warning: %s: %s\n", s->file, json_string_or(warning, ""));
        if (json_get(it, "status"))
            return cli_fail(CLI_FAILED, "%s: %s", s->file, refused ? refused : "the daemon refused it");
        printf("%s/%s %s\n", json_string_or(json_get(it, "resource"), "object"),
               json_string_or(json_get(it, "name"), ""), json_string_or(json_get(it, "result"), "applied"));
    }
    return CLI_OK;
}

static const char *who_asks(struct cli *cli)
{
    static const char review[] =
        "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}";
    struct reply reply;
    const char *user = NULL;

    if (cli_ask(cli,
                &(struct call){.method = "POST",
                               .target = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                               .body = {review, sizeof(review) - 1}},
                &reply) == CLI_OK)
        user = json_at_string(reply.doc, "status.userInfo.username");
    return user && !strchr(user, ':') ? user : "admin";
}

/* Before the long work, not after it. */
static int check_namespace(const struct submit *s)
{
    struct reply reply;
    int code = cli_ask(s->cli,
                       &(struct call){.method = "GET",
                                      .target = arena_printf(&s->cli->arena, "/api/v1/namespaces/%s", s->ns)},
                       &reply);

    if (code == CLI_OK && reply.status == 404)
        return cli_fail(CLI_NOT_FOUND,
                        "there is no namespace '%s': an admin makes it with 'berth user add %s'", s->ns,
                        s->ns);
    return code;
}

int verb_submit(struct cli *cli, const struct args *args)
{
    struct submit s = {.cli = cli, .args = args};
    int code = CLI_OK;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (args->count && chdir(args->rest[0]) < 0)
        return cli_fail(CLI_NOT_FOUND, "'%s': %s", args->rest[0], strerror(errno));
    s.ns = cli_namespace(cli, args, &code);
    if (!s.ns)
        return code;
    s.user = who_asks(cli);
    code = read_manifest(&s);
    if (code == CLI_OK)
        code = check_namespace(&s);
    if (code == CLI_OK)
        code = look_at_earlier(&s);
    if (code == CLI_OK)
        code = make_image(&s);
    if (code == CLI_OK)
        code = remove_earlier(&s);
    if (code == CLI_OK)
        code = apply(&s);
    if (code != CLI_OK || args_has(args, "detach"))
        return code;
    return submit_follow(cli, s.ns, s.name);
}
