/* berth init PROJECT: the files of a project that berth submit understands, in the current folder. What is
 * there already is never written over. */
#include "base/file.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_ 52 /* a Job's pods have a suffix, and 63 characters are the limit */

static const char dockerfile[] = "FROM %s\n"
                                 "\n"
                                 "# RUN pip install keras\n"
                                 "\n"
                                 "WORKDIR /opt\n"
                                 "COPY main.sh model.py /opt/\n"
                                 "ENTRYPOINT [\"/bin/sh\"]\n"
                                 "CMD [\"/opt/main.sh\"]\n";

/* exec: the shell is out of the way, and TERM reaches the training itself. */
static const char main_sh[] = "#!/bin/sh\n"
                              "# What your job runs; its end is the job's. /data is your home folder.\n"
                              "set -e\n"
                              "cd /data\n"
                              "exec python3 /opt/model.py\n";

static const char model_py[] =
    "\"\"\"Your model. Before a job is killed it gets TERM and has 30 seconds.\"\"\"\n"
    "import signal\n"
    "import sys\n"
    "import time\n"
    "\n"
    "\n"
    "def save(step):\n"
    "    print(f\"saved after step {step}\", flush=True)\n"
    "\n"
    "\n"
    "def on_term(signum, frame):\n"
    "    save(step)\n"
    "    sys.exit(143)\n"
    "\n"
    "\n"
    "step = 0\n"
    "signal.signal(signal.SIGTERM, on_term)\n"
    "for step in range(1, 6):\n"
    "    print(f\"step {step} of 5\", flush=True)\n"
    "    time.sleep(0.2)\n"
    "save(step)\n";

static const char deployment[] = "apiVersion: batch/v1\n"
                                 "kind: Job\n"
                                 "metadata:\n"
                                 "  name: %s\n"
                                 "spec:\n"
                                 "  backoffLimit: 0\n"
                                 "  template:\n"
                                 "    metadata:\n"
                                 "      labels:\n"
                                 "        user: \"%s\"\n"
                                 "    spec:\n"
                                 "      restartPolicy: Never\n"
                                 "      volumes:\n"
                                 "      - name: data\n"
                                 "        hostPath:\n"
                                 "          path: %s\n"
                                 "          type: Directory\n"
                                 "      containers:\n"
                                 "      - name: %s\n"
                                 "        image: %s\n"
                                 "        args: [\"/opt/main.sh\"]\n"
                                 "        resources:\n"
                                 "          limits:\n"
                                 "            # nvidia.com/gpu: 1\n"
                                 "            memory: \"4096Mi\"\n"
                                 "            cpu: \"1\"\n"
                                 "          requests:\n"
                                 "            memory: \"2048Mi\"\n"
                                 "            cpu: \"1\"\n"
                                 "        volumeMounts:\n"
                                 "        - name: data\n"
                                 "          mountPath: /data\n";

static bool name_valid(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= NAME_MAX_ && len == strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") &&
           name[0] != '-' && name[len - 1] != '-';
}

/* Never over what is there: O_EXCL. */
static int write_new(const char *path, const char *text, mode_t mode)
{
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        return cli_fail(CLI_FAILED, "write '%s': %s", path, strerror(errno));
    printf("  %s\n", path);
    return CLI_OK;
}

/* Whose the job will be, and where that person's home is on the machine. */
static const char *who_asks(struct cli *cli, const char **home, int *code)
{
    struct reply reply;
    const char *user;
    const struct passwd *entry;

    *code = cli_whoami(cli, &reply);
    if (*code != CLI_OK)
        return NULL;
    user = json_string_or(json_at(reply.doc, "status.userInfo.username"), "root");
    if (strchr(user, ':'))
        user = "root";
    entry = getpwnam(user);
    *home = entry ? arena_strdup(&cli->arena, entry->pw_dir) : arena_printf(&cli->arena, "/home/%s", user);
    return user;
}

int verb_init(struct cli *cli, const struct args *args)
{
    static const char *const taken[] = {"Dockerfile", "main.sh", "deployment.yml"};
    const char *name = args->rest[0], *base = args_get(args, "from"), *home = NULL, *user;
    struct arena *a = &cli->arena;
    int code = CLI_OK;

    if (!name_valid(name))
        return cli_usage_error(args->verb,
                               "'%s' cannot be a project's name: lower-case letters, digits and '-' "
                               "(not first or last), at most %d",
                               name, NAME_MAX_);
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (access(taken[i], F_OK) == 0)
            return cli_fail(CLI_CONFLICT, "there is a %s here already; nothing was written", taken[i]);
    user = who_asks(cli, &home, &code);
    if (!user)
        return code;
    printf("project %s:\n", name);
    code = write_new("Dockerfile", arena_printf(a, dockerfile, base ? base : "python:3-slim"), 0644);
    if (code == CLI_OK)
        code = write_new("main.sh", main_sh, 0755);
    if (code == CLI_OK && access("model.py", F_OK) == 0)
        printf("  model.py (kept)\n");
    else if (code == CLI_OK)
        code = write_new("model.py", model_py, 0644);
    if (code == CLI_OK)
        code = write_new("deployment.yml", arena_printf(a, deployment, name, user, home, name, name), 0644);
    if (code == CLI_OK)
        printf("\nEdit model.py, then:\n  berth submit\n");
    return code;
}
